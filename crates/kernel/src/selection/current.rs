// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an instance records now, as the kernel tells it.

use std::collections::BTreeMap;
use std::io;

use super::plan::EventPlan;
use crate::instance::Instance;
use crate::turn_off::EventName;

/// The enabled events of an instance.
pub(super) fn read(instance: &Instance) -> io::Result<BTreeMap<EventName, EventPlan>> {
    let enabled = instance.events_on()?;
    enabled
        .into_iter()
        .map(|(system, name)| {
            let file = |file| instance.read(format!("events/{system}/{name}/{file}"));
            let plan = EventPlan {
                filter: filter(&file("filter")?),
                stack: stack(&file("trigger")?),
            };
            Ok(((system, name), plan))
        })
        .collect()
}

fn filter(text: &str) -> Option<String> {
    let text = text.trim();
    (text != "none").then(|| text.to_owned())
}

/// Lines are `TRIGGER:HOW_OFTEN[ if FILTER]`, and comments when there is none.
fn stack(text: &str) -> Option<Option<String>> {
    let line = text.lines().find(|line| line.starts_with("stacktrace"))?;
    Some(line.split_once(" if ").map(|(_, filter)| filter.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_an_event_are_understood() {
        assert_eq!(filter("none\n"), None);
        assert_eq!(filter("prev_pid == 0\n").as_deref(), Some("prev_pid == 0"));
        assert_eq!(stack("# Available triggers:\n# traceon stacktrace\n"), None);
        assert_eq!(stack("stacktrace:unlimited\n"), Some(None));
        assert_eq!(
            stack("stacktrace:unlimited if comm == \" if \"\n"),
            Some(Some("comm == \" if \"".to_owned()))
        );
    }
}
