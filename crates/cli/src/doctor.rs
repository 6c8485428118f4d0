// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste doctor`: what tracing depends on, as it is here; for what is missing, what that costs and what mends it.

use piste_control::interface::{Check, CheckLevel, VarlinkClientInterface};
use serde_json::json;
use unicode_width::UnicodeWidthStr;

use crate::failure::{FAILED, Failure};
use crate::page::{Page, Width};
use crate::quantity::counted;
use crate::screen::{BAD, FAINT, GOOD, STRONG, printable, styled};
use crate::session::connect;

/// `piste doctor`; the status says whether something is missing.
pub(crate) fn doctor(page: &Page, json: bool) -> Result<u8, Failure> {
    let checks = connect()?.calls().doctor().call()?.checks;
    if json {
        page.show_json(&json!({ "checks": checks }))?;
    } else {
        page.show(&text(&checks, page.width()))?;
    }
    Ok(if lacks(&checks) == 0 { 0 } else { FAILED })
}

fn lacks(checks: &[Check]) -> usize {
    checks.iter().filter(|check| check.level == CheckLevel::lack).count()
}

fn text(checks: &[Check], width: Width) -> String {
    let name_width = checks.iter().map(|check| check.name.width()).max().unwrap_or(0);
    let mut text = String::new();
    for check in checks {
        let (mark, style) = match check.level {
            CheckLevel::ok => ("✓", GOOD),
            CheckLevel::note => ("•", STRONG),
            CheckLevel::lack => ("✗", BAD),
        };
        let padding = " ".repeat(name_width - check.name.width());
        let lead = format!("{} {}{padding}  ", styled(style, mark), printable(&check.name));
        text += &(width.hanging(&lead, &printable(&check.value)) + "\n");
        let indent = " ".repeat(name_width + 4);
        for (label, said) in [("effect", &check.cost), ("fix", &check.mend)] {
            if let Some(said) = said {
                let lead = format!("{indent}{} ", styled(FAINT, format!("{label}:")));
                text += &(width.hanging(&lead, &printable(said)) + "\n");
            }
        }
    }
    text + &match lacks(checks) {
        0 => format!("{}\n", styled(GOOD, "nothing is missing")),
        missing => format!("{}\n", styled(BAD, counted(missing as i64, "item") + " missing")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, level: CheckLevel, value: &str) -> Check {
        Check {
            name: name.into(),
            level,
            value: value.into(),
            cost: None,
            mend: None,
        }
    }

    fn seen(checks: &[Check], width: Width) -> String {
        anstream::adapter::strip_str(&text(checks, width)).to_string()
    }

    #[test]
    fn what_is_missing_says_what_it_costs_and_what_mends_it() {
        let checks = [
            check("kernel", CheckLevel::ok, "Linux 6.18"),
            check("kprobes", CheckLevel::note, "not built in"),
            Check {
                cost: Some("the kernel is not recorded".into()),
                mend: Some("mount -t tracefs none /sys/kernel/tracing".into()),
                ..check("tracefs", CheckLevel::lack, "not mounted")
            },
        ];
        assert_eq!(
            seen(&checks, Width::ANY),
            "\
✓ kernel   Linux 6.18
• kprobes  not built in
✗ tracefs  not mounted
           effect: the kernel is not recorded
           fix: mount -t tracefs none /sys/kernel/tracing
1 item missing
"
        );
    }

    #[test]
    fn long_texts_continue_below_their_start() {
        let checks = [
            check(
                "kernel events",
                CheckLevel::note,
                "of the process only, because pisted runs without the permission to read tracefs",
            ),
            Check {
                cost: Some(
                    "timestamps of the kernel's events and of the programs' events are not from one clock".into(),
                ),
                mend: Some(
                    "echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource".into(),
                ),
                ..check("clock", CheckLevel::lack, "hpet")
            },
        ];
        assert_eq!(
            seen(&checks, Width::of(80)),
            "\
• kernel events  of the process only, because pisted runs without the permission
                 to read tracefs
✗ clock          hpet
                 effect: timestamps of the kernel's events and of the programs'
                         events are not from one clock
                 fix: echo tsc | sudo tee
                      /sys/devices/system/clocksource/clocksource0/current_clocksource
1 item missing
"
        );
    }
}
