// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which names a pattern means.
//!
//! `*` stands for any text, also none, and may be anywhere. A pattern of events with a colon is of the group and the name, `sched:*`;
//! one without is of the name alone, `sched_*`. `*` alone is everything.

use piste_patterns::matches;

/// Longest pattern, in bytes.
pub const PATTERN_BYTES_MAX: usize = 512;

/// Why a text is no pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{pattern:?} is not a valid pattern: byte {position}: {reason}")]
pub struct InvalidPattern {
    /// The text.
    pub pattern: String,
    /// Byte where it goes wrong.
    pub position: usize,
    /// What is wrong.
    pub reason: String,
}

/// Whether `pattern` means the event that the kernel calls `system:name` and the trace `trace_name`.
pub fn matches_event(pattern: &str, system: &str, name: &str, trace_name: &str) -> bool {
    let rest = match pattern.split_once(':') {
        None => pattern,
        Some((group, rest)) if matches(group, system) => rest,
        Some(_) => return false,
    };
    matches(rest, name) || matches(rest, trace_name)
}

/// Checks a pattern of events or system calls.
///
/// # Errors
/// Where and why no name can be like it.
pub fn check(pattern: &str) -> Result<(), InvalidPattern> {
    let invalid = |position, reason: String| {
        Err(InvalidPattern {
            pattern: pattern.to_owned(),
            position,
            reason,
        })
    };
    if pattern.is_empty() {
        return invalid(0, "it is empty; `*` matches every name".to_owned());
    }
    if pattern.len() > PATTERN_BYTES_MAX {
        return invalid(
            PATTERN_BYTES_MAX,
            format!("it is longer than {PATTERN_BYTES_MAX} bytes"),
        );
    }
    let is_allowed = |character: char| character.is_ascii_alphanumeric() || "_-.:*".contains(character);
    if let Some((position, character)) = pattern.char_indices().find(|&(_, character)| !is_allowed(character)) {
        return invalid(
            position,
            format!(
                "{character:?} is not allowed; names consist of letters, digits, `_`, `-`, `.` and `*`, with a `:` after the group"
            ),
        );
    }
    match pattern.match_indices(':').nth(1) {
        Some((position, _)) => invalid(
            position,
            "at most one `:` is allowed, between group and name".to_owned(),
        ),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_meant_by_group_and_either_name() {
        let check = |pattern| matches_event(pattern, "block", "block_rq_issue", "block_rq_issue2");
        for pattern in [
            "*",
            "block:*",
            "*:*",
            "block_rq_*",
            "block:block_rq_issue",
            "block_rq_issue2",
            "b*:*issue2",
        ] {
            assert!(check(pattern), "{pattern}");
        }
        for pattern in ["sched:*", "block", "block:", "lock:*"] {
            assert!(!check(pattern), "{pattern}");
        }
    }

    #[test]
    fn what_can_be_no_name_is_refused_at_its_byte() {
        let position = |pattern: &str| check(pattern).err().map(|invalid| invalid.position);
        assert_eq!(position("sched:*switch"), None);
        assert_eq!(position(""), Some(0));
        assert_eq!(position("a b"), Some(1));
        assert_eq!(position("a:b:c"), Some(3));
        assert_eq!(position(&"x".repeat(600)), Some(512));
    }
}
