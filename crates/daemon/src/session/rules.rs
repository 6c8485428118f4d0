// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules: which events a channel records. A pattern with `*` for any text, exclusions, levels.

use std::borrow::Cow;

/// Whether a name is like a pattern, in which each `*` stands for any text.
pub use piste_patterns::matches;
use serde::{Deserialize, Serialize};

use super::refusal::Refusal;
use crate::program_filter::RuleFilter;

/// Longest pattern in bytes: that of the longest event name, with room for stars.
pub const PATTERN_BYTES_MAX: usize = 512;
/// Stars of a pattern: each is a search in every name.
pub const STAR_COUNT_MAX: usize = 8;
/// What all rules together can only have so many of.
#[derive(Debug)]
#[allow(missing_docs, reason = "they are for messages")]
pub struct RuleLimit {
    /// In the plural.
    pub what: &'static str,
    pub setting: &'static str,
    pub counted: &'static str,
    pub mend: &'static str,
    /// In the rules of a channel.
    pub of_channel: usize,
    /// In those of all channels of all sessions. One user may have a share: what registers is compared with the rules of every session.
    pub of_all: usize,
    /// How many a rule has.
    pub of_rule: fn(&Rule) -> usize,
}

/// Each event of each program is compared with all of them.
pub const PATTERNS: RuleLimit = RuleLimit {
    what: "patterns",
    setting: "number of patterns",
    counted: "including the exclusions of each rule",
    mend: "use patterns with `*`",
    of_channel: 512,
    of_all: 16 * 512,
    of_rule: Rule::pattern_count,
};

/// They are translated for each event of each program that the rule matches, which takes about half a microsecond for each.
pub const TESTS: RuleLimit = RuleLimit {
    what: "comparisons in filters",
    setting: "number of comparisons in filters",
    counted: "counted once for each rule with the filter",
    mend: "use a broader filter",
    of_channel: 256,
    of_all: 8 * 256,
    of_rule: Rule::test_count,
};

impl RuleLimit {
    /// How many some rules have.
    pub fn count<'r>(&self, rules: impl IntoIterator<Item = &'r Rule>) -> usize {
        rules.into_iter().map(self.of_rule).sum()
    }

    /// Whether a request, or a channel, can have so many.
    ///
    /// # Errors
    /// They are too many.
    pub fn check(&self, count: usize) -> Result<(), Refusal> {
        if count <= self.of_channel {
            return Ok(());
        }
        Err(Refusal::InvalidSetting {
            setting: self.setting,
            value: count.to_string(),
            allowed: format!(
                "at most {} in the rules of a channel, {}",
                self.of_channel, self.counted
            ),
        })
    }
}

/// A test of a filter takes as long as so many comparisons of a name with a pattern.
const COMPARISONS_PER_TEST: usize = 64;

/// One rule of a channel. A channel records an event when one of its enabled rules matches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// Matches the event's name, `provider:event`.
    pub pattern: String,
    /// Patterns of names that this rule does not match.
    pub excluded: Vec<String>,
    /// Levels that the rule matches.
    pub levels: Levels,
    /// What of the matching events is recorded; without one, all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<RuleFilter>,
    /// A disabled rule matches nothing, and stays listed.
    pub enabled: bool,
}

/// A range of event levels. A smaller number is graver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Levels {
    /// The gravest of them.
    pub most_severe: u8,
    /// The last of them.
    pub least_severe: u8,
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

impl InvalidPattern {
    fn new(pattern: &str, position: usize, reason: &'static str) -> InvalidPattern {
        InvalidPattern {
            pattern: pattern.to_owned(),
            position,
            reason: reason.into(),
        }
    }
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

    /// Tests of its filter.
    pub fn test_count(&self) -> usize {
        self.filter.as_ref().map_or(0, RuleFilter::test_count)
    }

    /// How long it takes to find out what it means for an event, in comparisons of a name with a pattern.
    pub fn comparison_count(&self) -> usize {
        self.pattern_count() + COMPARISONS_PER_TEST * self.test_count()
    }

    /// Whether the two match the same events when enabled: then the later one's filter counts.
    pub fn matches_like(&self, other: &Rule) -> bool {
        self.pattern == other.pattern && self.excluded == other.excluded && self.levels == other.levels
    }
}

impl Levels {
    /// Every level.
    pub const ALL: Levels = Levels {
        most_severe: 0,
        least_severe: u8::MAX,
    };

    fn contain(self, level: u8) -> bool {
        (self.most_severe..=self.least_severe).contains(&level)
    }
}

/// Checks a pattern before it becomes part of a rule.
///
/// # Errors
/// Where and why no event can have such a name.
pub fn check_pattern(pattern: &str) -> Result<(), InvalidPattern> {
    check_name_pattern(pattern)?;
    if !pattern.contains([':', '*']) {
        return Err(InvalidPattern::new(
            pattern,
            pattern.len(),
            "the name of an event has the form `provider:event`, but there is neither a `:` nor a `*`",
        ));
    }
    Ok(())
}

/// Checks a pattern of names of whatever kind.
///
/// # Errors
/// Where and why nothing can have such a name.
pub fn check_name_pattern(pattern: &str) -> Result<(), InvalidPattern> {
    let invalid = |position, reason| Err(InvalidPattern::new(pattern, position, reason));
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
        return invalid(position, "names do not contain control characters");
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
            levels: Levels {
                most_severe: 2,
                least_severe: 6,
            },
            filter: None,
            enabled: true,
        };
        assert!(rule.matches("shop:order", 6));
        assert!(rule.matches("shop:order", 2));
        assert!(!rule.matches("shop:order", 1));
        assert!(!rule.matches("shop:order", 7));
        assert!(!rule.matches("shop:debug_order", 6));
        assert!(!Rule { enabled: false, ..rule }.matches("shop:order", 6));
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
