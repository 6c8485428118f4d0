// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an event means, in a line for people.
//!
//! What is known is data, `data/help.tsv`. Of other events the line is made of what the kernel says: group, name and fields.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::format::EventFormat;

/// When the event happens, and what it tells.
///
/// ```
/// use piste_kernel::format::EventFormat;
/// use piste_kernel::help;
///
/// let format = EventFormat::parse("xfs", "name: xfs_agfl_reset\nID: 9\n\tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;\n")?;
/// assert_eq!(help::event(&format), "The xfs file system: agfl reset. Fields: dev.");
/// # Ok::<(), piste_kernel::format::NoFormat>(())
/// ```
pub fn event(format: &EventFormat) -> String {
    if let Some(text) = TEXTS.get(&(format.system.as_str(), format.name.as_str())) {
        return (*text).to_owned();
    }
    let group = match group(&format.system) {
        Some(group) => capitalised(group),
        None => format!("Group {}", format.system),
    };
    let name = format.name.strip_prefix(&format!("{}_", format.system));
    let name = name.unwrap_or(&format.name).replace('_', " ");
    let fields: Vec<_> = format.fields.iter().map(|field| field.name.as_str()).collect();
    if fields.is_empty() {
        return format!("{group}: {name}.");
    }
    format!("{group}: {name}. Fields: {}.", fields.join(", "))
}

/// What the events of a group are about: `threads and who runs where`.
pub fn group(system: &str) -> Option<&'static str> {
    TEXTS.get(&(system, "*")).copied()
}

type Texts = HashMap<(&'static str, &'static str), &'static str>;

static TEXTS: LazyLock<Texts> = LazyLock::new(|| {
    let lines = include_str!("../data/help.tsv").lines();
    let lines = lines.filter(|line| !line.starts_with('#'));
    let columns = lines.filter_map(|line| {
        let (system, rest) = line.split_once('\t')?;
        let (name, text) = rest.split_once('\t')?;
        Some(((system, name), text))
    });
    columns.collect()
});

fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(|c| c.to_ascii_uppercase());
    first.into_iter().chain(characters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn help(system: &str, name: &str) -> String {
        let text = format!("name: {name}\nID: 1\n");
        event(&EventFormat::parse(system, &text).unwrap())
    }

    #[test]
    fn what_is_known_is_said_and_the_rest_is_made_of_names() {
        assert_eq!(help("sched", "sched_process_exit"), "A thread ends.");
        assert_eq!(
            help("sched", "sched_new_thing"),
            "Threads, and where they run: new thing."
        );
        assert_eq!(help("mine", "new_thing"), "Group mine: new thing.");
    }

    #[test]
    fn each_line_of_the_table_is_said_once_and_events_have_sentences() {
        let lines = include_str!("../data/help.tsv")
            .lines()
            .filter(|line| !line.starts_with('#'));
        assert_eq!(TEXTS.len(), lines.count());
        for ((system, name), text) in TEXTS.iter() {
            assert_eq!(text.ends_with('.'), *name != "*", "{system} {name}");
        }
    }
}
