// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules: which events a channel records. A pattern with `*` for any text, exclusions, levels.

use std::borrow::Cow;

/// Whether a name is like a pattern, in which each `*` stands for any text.
pub use piste_patterns::matches;
use serde::{Deserialize, Serialize};

/// Longest pattern in bytes: that of the longest event name, with room for stars.
pub const PATTERN_BYTES_MAX: usize = 512;
/// Stars of a pattern: each is a search in every name.
pub const STAR_COUNT_MAX: usize = 8;
/// Patterns in the rules of a channel, those of exclusions included. Each event of each program is compared with all of them.
pub const PATTERN_COUNT_MAX: usize = 512;
/// The same of all channels of all sessions, of which one user may have a share: each event that registers is compared with those of every
/// session.
pub const ALL_PATTERN_COUNT_MAX: usize = 16 * PATTERN_COUNT_MAX;

/// One rule of a channel. A channel records an event when one of its enabled rules matches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// Matches the event's name, `provider:event`.
    pub pattern: String,
    /// Patterns of names that this rule does not match.
    pub excluded: Vec<String>,
    /// Levels that the rule matches.
    pub levels: Levels,
    /// A disabled rule matches nothing, and stays listed.
    pub enabled: bool,
}

/// A range of event levels. A smaller number is graver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Levels {
    /// Every level.
    All,
    /// This level and the graver ones.
    AtLeast(u8),
    /// This level only.
    Exactly(u8),
}

/// Why a text is no pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidPattern {
    /// The text.
    pub pattern: String,
    /// Byte where it goes wrong.
    pub position: usize,
    /// What is wrong.
    pub reason: Cow<'static, str>,
}

impl From<piste_kernel::pattern::InvalidPattern> for InvalidPattern {
    fn from(invalid: piste_kernel::pattern::InvalidPattern) -> InvalidPattern {
        InvalidPattern {
            pattern: invalid.pattern,
            position: invalid.position,
            reason: invalid.reason.into(),
        }
    }
}

impl Rule {
    /// Whether the rule is enabled and matches an event.
    pub fn matches(&self, name: &str, level: u8) -> bool {
        self.levels.contain(level) && self.names(name)
    }

    /// Whether the rule is enabled and matches events of a name, of some level.
    pub fn names(&self, name: &str) -> bool {
        self.enabled && matches(&self.pattern, name) && !self.excluded.iter().any(|excluded| matches(excluded, name))
    }

    /// Patterns with which a name is compared.
    pub fn pattern_count(&self) -> usize {
        1 + self.excluded.len()
    }

    /// Whether the two select the same events when enabled.
    pub fn selects_like(&self, other: &Rule) -> bool {
        self.pattern == other.pattern && self.excluded == other.excluded && self.levels == other.levels
    }
}

impl Levels {
    fn contain(self, level: u8) -> bool {
        match self {
            Levels::All => true,
            Levels::AtLeast(limit) => level <= limit,
            Levels::Exactly(only) => level == only,
        }
    }
}

/// Checks a pattern before it becomes part of a rule.
///
/// # Errors
/// Where and why no event can have such a name.
pub fn check_pattern(pattern: &str) -> Result<(), InvalidPattern> {
    let invalid = |position, reason: &'static str| {
        Err(InvalidPattern {
            pattern: pattern.to_owned(),
            position,
            reason: reason.into(),
        })
    };
    if pattern.is_empty() {
        return invalid(0, "it is empty");
    }
    if pattern.len() > PATTERN_BYTES_MAX {
        return invalid(PATTERN_BYTES_MAX, "it is longer than 512 bytes");
    }
    if let Some((position, _)) = pattern.match_indices('*').nth(STAR_COUNT_MAX) {
        return invalid(position, "it has more than 8 stars");
    }
    if let Some(position) = pattern.find(char::is_control) {
        return invalid(position, "names of events do not contain control characters");
    }
    if !pattern.contains([':', '*']) {
        return invalid(
            pattern.len(),
            "the name of an event has the form `provider:event`, but there is neither a `:` nor a `*`",
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exclusions_and_levels_narrow_a_rule() {
        let rule = Rule {
            pattern: "shop:*".into(),
            excluded: vec!["*debug*".into()],
            levels: Levels::AtLeast(6),
            enabled: true,
        };
        assert!(rule.matches("shop:order", 6));
        assert!(rule.matches("shop:order", 0));
        assert!(!rule.matches("shop:order", 7));
        assert!(!rule.matches("shop:debug_order", 6));
        assert!(
            !Rule {
                enabled: false,
                ..rule.clone()
            }
            .matches("shop:order", 6)
        );
        assert!(
            !Rule {
                levels: Levels::Exactly(6),
                ..rule
            }
            .matches("shop:order", 5)
        );
    }

    #[test]
    fn what_no_event_can_be_named_is_refused_with_its_place() {
        let position = |pattern: &str| check_pattern(pattern).map_err(|invalid| invalid.position);
        assert_eq!(position("shop:*"), Ok(()));
        assert_eq!(position("*"), Ok(()));
        assert_eq!(position(""), Err(0));
        assert_eq!(position("order"), Err(5));
        assert_eq!(position("shop:\n"), Err(5));
        assert_eq!(position(&"*".repeat(513)), Err(512));
        assert_eq!(position(&"*".repeat(8)), Ok(()));
        assert_eq!(position(&"x*".repeat(20)), Err(17));
    }
}
