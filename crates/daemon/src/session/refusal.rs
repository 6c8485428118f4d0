// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why something that was asked is not done. control.rs turns these into the errors of the interface.

use std::path::PathBuf;

use super::rules::InvalidPattern;

/// Why something that was asked is not done.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "documented in crates/control/src/dev.piste.Control.varlink")]
pub enum Refusal {
    NoSession {
        name: String,
        nearest: Vec<String>,
    },
    NoCurrentSession,
    SessionExists {
        name: String,
    },
    SessionsExist {
        names: Vec<String>,
    },
    NoChannel {
        name: String,
        session: String,
        nearest: Vec<String>,
    },
    ChannelExists {
        name: String,
        session: String,
        setting: &'static str,
        value: String,
    },
    TooManyChannels {
        session: String,
        limit: usize,
    },
    NoRule {
        pattern: String,
        channel: String,
        nearest: Vec<String>,
    },
    InvalidPattern(InvalidPattern),
    InvalidSetting {
        setting: &'static str,
        value: String,
        allowed: String,
    },
    NothingEnabled {
        session: String,
    },
    AlreadyActive {
        session: String,
    },
    NotActive {
        session: String,
    },
    NotSnapshot {
        session: String,
    },
    OutputExists {
        path: PathBuf,
    },
    OutputFailed {
        path: PathBuf,
        reason: String,
    },
    ConsumerFailed {
        reason: String,
    },
    Internal {
        reason: String,
    },
}

impl From<InvalidPattern> for Refusal {
    fn from(invalid: InvalidPattern) -> Refusal {
        Refusal::InvalidPattern(invalid)
    }
}

/// The names that look like `name`, the most alike first.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Vec<String> {
    let allowed = 1 + name.chars().count() / 3;
    let mut near: Vec<(usize, &str)> = known
        .map(|candidate| (distance(name, candidate), candidate))
        .filter(|&(distance, candidate)| distance <= allowed || candidate.starts_with(name) && !name.is_empty())
        .collect();
    near.sort();
    near.dedup();
    near.into_iter()
        .take(3)
        .map(|(_, candidate)| candidate.to_owned())
        .collect()
}

/// Characters to insert, remove, replace, or exchange with their neighbour, to make one text of the other.
fn distance(one: &str, other: &str) -> usize {
    let one: Vec<char> = one.chars().collect();
    let other: Vec<char> = other.chars().collect();
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in other.iter().enumerate() {
            let mut best = (last[j] + usize::from(a != b)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == other[j - 1] && one[i - 1] == *b {
                best = best.min(before_last[j - 1] + 1);
            }
            row.push(best);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_names_are_those_a_typo_away() {
        let known = ["web", "wet", "database", "web-2"];
        let nearest = |name| nearest(name, known.into_iter());
        assert_eq!(nearest("wbe"), ["web", "wet"]);
        assert_eq!(nearest("we"), ["web", "wet", "web-2"]);
        assert_eq!(nearest("databsae"), ["database"]);
        assert_eq!(nearest("kernel"), Vec::<String>::new());
    }
}
