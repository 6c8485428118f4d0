// SPDX-License-Identifier: MIT OR Apache-2.0
//! What people should know about a channel, each sentence once, with how often it was seen.
//!
//! A hostile program can make any number of different sentences, so that only the first ones are kept word for word.

use crate::link::Finding;

/// Sentences kept for a channel.
const SENTENCES_MAX: usize = 64;

const FURTHER: &str = "more findings, which are not listed";

#[derive(Debug, Default)]
pub(crate) struct Findings {
    list: Vec<Finding>,
}

impl Findings {
    /// Counts a sentence, and says whether it is a new one that people should be told.
    pub(crate) fn note(&mut self, what: &str) -> bool {
        if self.count(what) {
            return false;
        }
        let new = self.list.len() < SENTENCES_MAX;
        if !new && self.count(FURTHER) {
            return false;
        }
        self.list.push(Finding {
            what: if new { what } else { FURTHER }.to_owned(),
            count: 1,
        });
        true
    }

    pub(crate) fn list(&self) -> &[Finding] {
        &self.list
    }

    fn count(&mut self, what: &str) -> bool {
        let known = self.list.iter_mut().find(|finding| finding.what == what);
        known.map(|finding| finding.count += 1).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sentence_is_kept_once_and_counted() {
        let mut findings = Findings::default();
        assert!(findings.note("a"));
        assert!(findings.note("b"));
        assert!(!findings.note("a"));
        let listed: Vec<_> = findings
            .list()
            .iter()
            .map(|finding| (finding.what.as_str(), finding.count))
            .collect();
        assert_eq!(listed, [("a", 2), ("b", 1)]);
    }

    #[test]
    fn endless_sentences_take_bounded_memory_and_are_counted() {
        let mut findings = Findings::default();
        let told = (0..1000).filter(|number| findings.note(&number.to_string())).count();
        assert_eq!(told, SENTENCES_MAX + 1);
        assert_eq!(findings.list().len(), SENTENCES_MAX + 1);
        assert_eq!(findings.list().iter().map(|finding| finding.count).sum::<u64>(), 1000);
    }
}
