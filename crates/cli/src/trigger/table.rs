// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste list-triggers`: all triggers, and below the table what went wrong with each.

use anstream::adapter::strip_str;
use jiff::{Timestamp, Zoned};
use piste_control::interface::TriggerStatus;

use super::{actions, condition};
use crate::columns::{Align, Cell, Columns};
use crate::page::Width;
use crate::quantity::{count, counted};
use crate::screen::{BAD, STRONG, printable, styled};
use crate::summary::finding_text;

/// The table; times are seen from `now`.
pub(super) fn text(triggers: &[TriggerStatus], width: Width, now: &Zoned) -> String {
    if triggers.is_empty() {
        return "there are no triggers\n".into();
    }
    let mut columns = Columns::new(&[
        ("TRIGGER", Align::Left),
        ("EVENT", Align::Left),
        ("ACTIONS", Align::Left),
        ("MATCHED", Align::Right),
        ("ACTED", Align::Right),
        ("MISSED", Align::Right),
        ("LAST", Align::Left),
        ("USER", Align::Left),
    ])
    .with_minor(&["LAST", "USER"]);
    for trigger in triggers {
        let does: Vec<String> = trigger.actions.iter().map(actions::text).collect();
        columns.row([
            Cell::styled(STRONG, &trigger.name),
            Cell::from(strip_str(&condition::text(&trigger.condition)).to_string()),
            Cell::from(if does.is_empty() {
                "notify".into()
            } else {
                does.join(", ")
            }),
            Cell::from(count(trigger.matched)),
            Cell::from(count(trigger.acted)),
            match trigger.missed {
                0 => Cell::from("0"),
                missed => Cell::styled(BAD, count(missed)),
            },
            Cell::from(trigger.last_ns.map_or_else(|| "never".into(), |ns| last(ns, now))),
            Cell::from(&trigger.user),
        ]);
    }
    let faults: String = triggers
        .iter()
        .map(|trigger| faults(trigger, &format!("{}: ", printable(&trigger.name))))
        .collect();
    let gap = if faults.is_empty() { "" } else { "\n" };
    columns.lines(0, width) + gap + &faults
}

/// Events that nobody looked at, and findings: a line each.
pub(super) fn faults(trigger: &TriggerStatus, before: &str) -> String {
    let missed = match trigger.missed {
        0 => None,
        1 => Some("1 event came too fast to be checked; it may have matched".to_owned()),
        missed => Some(format!(
            "{} came too fast to be checked; some of them may have matched",
            counted(missed, "event")
        )),
    };
    let findings = trigger.findings.iter().map(finding_text);
    let line = |fault: String| format!("{before}{}\n", styled(BAD, fault));
    missed.into_iter().chain(findings).map(line).collect()
}

/// `09:41:07`, with the day if that is another one.
fn last(ns: i64, now: &Zoned) -> String {
    let Ok(time) = Timestamp::from_nanosecond(ns.into()) else {
        return ns.to_string();
    };
    let local = time.to_zoned(now.time_zone().clone());
    let format = if local.date() == now.date() {
        "%H:%M:%S"
    } else {
        "%Y-%m-%d %H:%M:%S"
    };
    local.strftime(format).to_string()
}

#[cfg(test)]
mod tests {
    use piste_control::interface::Finding;

    use super::*;
    use crate::trigger::tests::trigger;

    fn seen(triggers: &[TriggerStatus], width: Width) -> String {
        let now: Zoned = "2026-11-22T12:00:00+00:00[UTC]".parse().unwrap();
        strip_str(&text(triggers, width, &now)).to_string()
    }

    fn several() -> [TriggerStatus; 2] {
        let mut first = trigger("expensive");
        // 2026-11-22 09:41:07 UTC
        first.last_ns = Some(1_795_340_467_123_456_789);
        first.missed = 12_000;
        first.findings.push(Finding {
            what: "cannot stop session web: it is not recording".into(),
            count: 9,
        });
        let mut second = trigger("all");
        second.actions.clear();
        second.last_ns = Some(1_795_240_467_123_456_789);
        [first, second]
    }

    #[test]
    fn triggers_are_listed_with_counts_and_faults() {
        assert_eq!(seen(&[], Width::ANY), "there are no triggers\n");
        assert_eq!(
            seen(&several(), Width::ANY),
            "\
TRIGGER    EVENT                           ACTIONS                 MATCHED  ACTED  MISSED  LAST                 USER
expensive  shop:order, where price > 1000  snapshot web, stop web    1,204     10  12,000  09:41:07             ada
all        shop:order, where price > 1000  notify                    1,204     10       0  2026-11-21 05:54:27  ada

expensive: 12,000 events came too fast to be checked; some of them may have matched
expensive: cannot stop session web: it is not recording (9 times)
"
        );
    }

    #[test]
    fn the_table_fits_a_terminal_with_all_counts() {
        let seen = seen(&several(), Width::of(80));
        let table: Vec<&str> = seen.lines().take_while(|line| !line.is_empty()).collect();
        assert!(table.iter().all(|line| line.chars().count() <= 80), "{seen}");
        for heading in ["TRIGGER", "EVENT", "ACTIONS", "MATCHED", "ACTED", "MISSED"] {
            assert!(table[0].contains(heading), "{seen}");
        }
    }
}
