// SPDX-License-Identifier: MIT OR Apache-2.0
//! The preflight as text: all settings with what they cost and how to fix them, or one line that names the wrong ones.

use piste_latency::preflight::{Check, Level};
use unicode_width::UnicodeWidthStr;

use crate::page::Width;
use crate::quantity::counted;
use crate::screen::{BAD, FAINT, GOOD, STRONG, printable, styled};

/// All of them.
pub(super) fn text(checks: &[Check], width: Width) -> String {
    let name_width = checks.iter().map(|check| check.name.width()).max().unwrap_or(0);
    let mut text = String::new();
    for check in checks {
        let (mark, style) = match check.level {
            Level::Ok => ("✓", GOOD),
            Level::Wrong => ("✗", BAD),
            Level::Unknown => ("?", STRONG),
        };
        let unknown = if check.level == Level::Unknown { "unknown: " } else { "" };
        let lead = format!("{} {:name_width$}  ", styled(style, mark), check.name);
        let value = format!("{unknown}{}", printable(&check.value));
        text += &(width.hanging(&lead, &value) + "\n");
        for (label, said) in [("effect", &check.cost), ("fix", &check.fix)] {
            if let Some(said) = said {
                let lead = format!("    {} ", styled(FAINT, format!("{label}:")));
                text += &(width.hanging(&lead, &printable(said)) + "\n");
            }
        }
    }
    let wrong = named(checks, Level::Wrong).len();
    text + &match wrong {
        0 => format!("{}\n", styled(GOOD, "no setting is known to add latency")),
        1 => format!("{}\n", styled(BAD, "1 setting adds latency")),
        _ => format!("{}\n", styled(BAD, counted(wrong as i64, "setting") + " add latency")),
    }
}

/// In short, for a report.
pub(super) fn line(checks: &[Check]) -> String {
    let (wrong, unknown) = (named(checks, Level::Wrong), named(checks, Level::Unknown));
    let mut parts = Vec::new();
    if !wrong.is_empty() {
        parts.push(format!("settings that add latency: {}", wrong.join(", ")));
    }
    if !unknown.is_empty() {
        parts.push(format!("unknown settings: {}", unknown.join(", ")));
    }
    match parts.is_empty() {
        true => "no setting of this machine is known to add latency".into(),
        false => format!("{}; `piste latency --preflight` shows fixes", parts.join("; ")),
    }
}

fn named(checks: &[Check], level: Level) -> Vec<&str> {
    let of_level = checks.iter().filter(|check| check.level == level);
    of_level.map(|check| check.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checks() -> [Check; 3] {
        let check = |name, level, value: &str| Check {
            name,
            level,
            value: value.into(),
            cost: None,
            fix: None,
        };
        [
            check("clock source", Level::Ok, "tsc"),
            Check {
                cost: Some("a CPU that was idle begins slowly".into()),
                fix: Some("echo performance | sudo tee ...".into()),
                ..check("governor", Level::Wrong, "powersave")
            },
            check("preemption", Level::Unknown, "the kernel does not say"),
        ]
    }

    fn seen(checks: &[Check], width: Width) -> String {
        anstream::adapter::strip_str(&text(checks, width)).to_string()
    }

    #[test]
    fn wrong_settings_have_their_cost_and_fix() {
        assert_eq!(
            seen(&checks(), Width::ANY),
            "\
✓ clock source  tsc
✗ governor      powersave
    effect: a CPU that was idle begins slowly
    fix: echo performance | sudo tee ...
? preemption    unknown: the kernel does not say
1 setting adds latency
"
        );
    }

    #[test]
    fn long_texts_continue_below_their_start() {
        let checks = [Check {
            name: "idle states",
            level: Level::Wrong,
            value: "CPUs 0 and 1 enter C6, which takes 133 µs to leave, and CPUs 2 and 3 enter C1E".into(),
            cost: Some(
                "an idle CPU wakes up so much later, except during the loop `timer`, which prevents deep sleep".into(),
            ),
            fix: Some("echo 1 | sudo tee /sys/devices/system/cpu/cpu*/cpuidle/state{2,3}/disable".into()),
        }];
        assert_eq!(
            seen(&checks, Width::of(80)),
            "\
✗ idle states  CPUs 0 and 1 enter C6, which takes 133 µs to leave, and CPUs 2
               and 3 enter C1E
    effect: an idle CPU wakes up so much later, except during the loop `timer`,
            which prevents deep sleep
    fix: echo 1 | sudo tee
         /sys/devices/system/cpu/cpu*/cpuidle/state{2,3}/disable
1 setting adds latency
"
        );
    }

    #[test]
    fn a_line_names_what_is_wrong_or_unknown() {
        assert_eq!(
            line(&checks()),
            "settings that add latency: governor; unknown settings: preemption; `piste latency --preflight` shows fixes"
        );
        assert_eq!(
            line(&checks()[..1]),
            "no setting of this machine is known to add latency"
        );
    }
}
