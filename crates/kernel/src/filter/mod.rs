// SPDX-License-Identifier: MIT OR Apache-2.0
//! Filters: expressions over an event's fields, checked and said in the kernel's words.
//!
//! ```text
//!   prev_tid == 0 && !(next_comm ~ "ksoft*") || $tid >= 0x100
//! ```
//!
//! - `FIELD OPERATOR VALUE`. Fields are those of the kernel's format; names of the trace are as good where the kernel has no field of that
//!   name. `$tid` is the thread on which the event happens (`$pid` as well: the kernel compares thread ids), `$comm` its name, `cpu` the CPU.
//! - Numbers, also `0x10` and names of values (`vec == TIMER`), with `==` `!=` `<` `<=` `>` `>=` and `&` (some of these bits are set).
//!   Texts in quotes with `==`, `!=` and `~`, in whose pattern `*`, `?` and `[a-z]` are what they are to a shell.
//! - `!` before `&&` before `||`, and parentheses.
//!
//! Values are the kernel's: a priority is the kernel's 120 where the trace says 20.
//!
//! The kernel understands some texts otherwise than they look: it cuts numbers to the width of the field, looks for the end of a text
//! where its array ends, takes a pattern that begins with a digit for no pattern and one that begins with `!` for its contrary. What [`check`]
//! returns means what the filter says ([`test`](self)), or it is refused.

mod expression;
mod glob;
mod test;

use crate::format::EventFormat;

use expression::Expression;

/// Bytes of a filter that the kernel takes: less than a page.
pub const FILTER_BYTES_MAX: usize = 4095;

/// Why a text is no filter of an event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("byte {position}: {reason}")]
pub struct FilterFault {
    /// Byte of the text where it goes wrong.
    pub position: usize,
    /// What is wrong, and what is allowed there.
    pub reason: String,
    /// The text is well, and the event has no field of this name.
    pub is_missing_field: bool,
}

/// Checks a filter against an event and returns it in the kernel's words, to be written to the event's `filter` file.
///
/// # Errors
/// Where and why the kernel would refuse it, or understand something else than it says. A missing field is told only when nothing else
/// is wrong.
pub fn check(filter: &str, event: &EventFormat) -> Result<String, FilterFault> {
    let expression = expression::parse(filter)?;
    let mut missing = None;
    let mut text = String::new();
    write(&expression, event, &mut text, &mut missing)?;
    if let Some(fault) = missing {
        return Err(fault);
    }
    if text.len() > FILTER_BYTES_MAX {
        return Err(FilterFault::at(
            filter.len(),
            format!(
                "it is {} bytes long in the kernel's syntax, and the kernel allows {FILTER_BYTES_MAX}",
                text.len()
            ),
        ));
    }
    Ok(text)
}

/// Checks the form of a filter of an event that is not there yet.
///
/// # Errors
/// Where and why no event can have such a filter.
pub fn check_form(filter: &str) -> Result<(), FilterFault> {
    expression::parse(filter).map(drop)
}

/// The filter that is fulfilled when one of `filters` is, all in the kernel's words; `None` when the kernel takes none so long.
pub fn any(filters: &[String]) -> Option<String> {
    if let [filter] = filters {
        return Some(filter.clone());
    }
    let parts: Vec<String> = filters.iter().map(|filter| format!("({filter})")).collect();
    Some(parts.join(" || ")).filter(|text| text.len() <= FILTER_BYTES_MAX)
}

impl FilterFault {
    fn at(position: usize, reason: impl Into<String>) -> FilterFault {
        FilterFault {
            position,
            reason: reason.into(),
            is_missing_field: false,
        }
    }
}

/// Says `expression` in the kernel's words. Notes the first missing field in `missing` and goes on.
fn write(
    expression: &Expression,
    event: &EventFormat,
    text: &mut String,
    missing: &mut Option<FilterFault>,
) -> Result<(), FilterFault> {
    let mut list = |parts: &[Expression], operator: &str, text: &mut String| {
        for (index, part) in parts.iter().enumerate() {
            if index > 0 {
                text.push_str(operator);
            }
            let is_weaker = matches!(part, Expression::Any(_)) && operator == " && ";
            text.push_str(if is_weaker { "(" } else { "" });
            write(part, event, text, missing)?;
            text.push_str(if is_weaker { ")" } else { "" });
        }
        Ok(())
    };
    match expression {
        Expression::Any(parts) => list(parts, " || ", text),
        Expression::All(parts) => list(parts, " && ", text),
        Expression::Not(part) => {
            text.push_str("!(");
            write(part, event, text, missing)?;
            text.push(')');
            Ok(())
        }
        Expression::Test(test) => match test::in_kernel_words(test, event) {
            Ok(words) => {
                text.push_str(&words);
                Ok(())
            }
            Err(fault) if fault.is_missing_field => {
                missing.get_or_insert(fault);
                Ok(())
            }
            Err(fault) => Err(fault),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: &str = r#"name: sched_switch
ID: 372
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:unsigned char common_flags;	offset:2;	size:1;	signed:0;
	field:unsigned char common_preempt_count;	offset:3;	size:1;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:char prev_comm[16];	offset:8;	size:16;	signed:0;
	field:pid_t prev_pid;	offset:24;	size:4;	signed:1;
	field:unsigned char tiny;	offset:28;	size:1;	signed:0;
	field:unsigned long args[2];	offset:32;	size:16;	signed:0;
	field:__data_loc char[] name;	offset:48;	size:4;	signed:0;
	field:unsigned int vec;	offset:52;	size:4;	signed:0;

print fmt: "vec=%s", __print_symbolic(REC->vec, { 0, "HI" }, { 1, "TIMER" })
"#;

    fn event() -> EventFormat {
        EventFormat::parse("sched", FORMAT).expect("a format")
    }

    #[test]
    fn filters_are_said_in_the_kernels_words() {
        for (filter, expected) in [
            ("prev_pid==3", "prev_pid == 3"),
            ("prev_tid == 0x10&&tiny<7", "prev_pid == 0x10 && tiny < 7"),
            ("$tid == 3 || $pid == 4", "common_pid == 3 || common_pid == 4"),
            ("cpu != 1 && $comm == 'a b'", "CPU != 1 && COMM == 'a b'"),
            (
                "(tiny == 1 || tiny == 2) && !vec & TIMER",
                "(tiny == 1 || tiny == 2) && !(vec & 1)",
            ),
            (
                "tiny == 1 || (tiny == 2 && vec == 3)",
                "tiny == 1 || tiny == 2 && vec == 3",
            ),
            ("! (prev_comm ~ \"k*\")", r#"!(prev_comm ~ "\k*")"#),
            ("name != \"it's && (\"", "name != \"it's && (\""),
            ("prev_pid == 0xffffffff", "prev_pid == 0xffffffff"),
        ] {
            assert_eq!(check(filter, &event()).as_deref(), Ok(expected), "{filter}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_its_byte() {
        for (filter, expected) in [
            ("", "byte 0: expected the name of a field, `(` or `!`"),
            (
                "prev_pid == ",
                "byte 12: expected a value: a number, a text in quotes, or the name of a value",
            ),
            (
                "prev_pid = 3",
                "byte 9: expected a comparison after `prev_pid`: == != < <= > >= & ~",
            ),
            ("prev_pid == 3)", "byte 13: `)` without an open parenthesis"),
            ("tiny == 1 && (prev_pid == 3", "byte 13: this parenthesis is not closed"),
            (
                "tiny == 1 & tiny == 2",
                "byte 10: expected `&&`, `||` or the end, not '&'",
            ),
            ("name == \"x", "byte 8: this quote is not closed"),
            (
                "name < \"x\"",
                "byte 5: `name` is a text: == != and ~ are allowed, not <",
            ),
            ("name == x", "byte 8: `name` is a text: expected a text in quotes"),
            (
                "tiny == \"x\"",
                "byte 8: `tiny` is a number: expected a number without quotes",
            ),
            (
                "tiny ~ 3",
                "byte 5: `tiny` is a number: == != < <= > >= and & are allowed, not ~",
            ),
            (
                "tiny < 256",
                "byte 7: `tiny` has 8 bits: numbers from 0 to 255 are allowed",
            ),
            (
                "tiny == -1",
                "byte 8: `tiny` has 8 bits: numbers from 0 to 255 are allowed",
            ),
            (
                "prev_pid < 0xffffffff",
                "byte 11: `prev_pid` has 32 bits: numbers from -2147483648 to 2147483647 are allowed",
            ),
            (
                "tiny == 08",
                "byte 8: `08` is not a number; write for example 16, 0x10, 020 or -16",
            ),
            (
                "vec == SOFT",
                "byte 7: `vec` has no value `SOFT`; use a number or one of HI, TIMER",
            ),
            (
                "tiny == S",
                "byte 8: `tiny` is a number whose values have no names: expected a number, not `S`",
            ),
            (
                "args == 3",
                "byte 0: the kernel cannot compare `args`, of type `unsigned long[2]`, with anything",
            ),
            (
                "cpu & 1",
                "byte 4: the kernel can compare the CPU only with == != < <= > >=",
            ),
            (
                "prev_comm == \"12345678901234567\"",
                "byte 13: the text has 17 bytes, but `prev_comm` has room for only 16, so they are never equal",
            ),
            (
                "pid == 3",
                "byte 0: sched_switch has no field `pid`; it has prev_comm, prev_pid, tiny, args, name, vec, and every event has \
                 $tid, $comm and cpu",
            ),
        ] {
            let fault = check(filter, &event()).expect_err(filter);
            assert_eq!(fault.to_string(), expected, "{filter}");
        }
    }

    #[test]
    fn a_missing_field_is_told_when_nothing_else_is_wrong() {
        assert!(check("none == 3 || tiny == 1", &event()).unwrap_err().is_missing_field);
        assert!(
            !check("none == 3 || tiny == 256", &event())
                .unwrap_err()
                .is_missing_field
        );
    }

    #[test]
    fn the_kernels_limits_are_kept() {
        let long = vec!["prev_pid == 100"; 230].join(" || ");
        assert!(
            check(&long, &event())
                .unwrap_err()
                .reason
                .contains("the kernel allows 4095")
        );
        let deep = format!("{}tiny == 1{}", "(".repeat(5000), ")".repeat(5000));
        assert_eq!(check(&deep, &event()).unwrap_err().position, 64);
        assert_eq!(
            any(&["a == 1".into(), "b == 2".into()]).as_deref(),
            Some("(a == 1) || (b == 2)")
        );
        assert_eq!(any(&[long.clone(), long]), None);
    }
}
