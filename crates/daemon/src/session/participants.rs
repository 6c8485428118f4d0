// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who took part in a session, and which of their events nobody wanted: what `piste record` tells people whose trace is
//! empty.

use std::collections::{BTreeMap, BTreeSet};

/// Executables that are kept apart.
const EXECUTABLE_COUNT_MAX: usize = 4096;
/// Names of events that are kept.
const EVENT_COUNT_MAX: usize = 1000;

/// The processes that took part in a session, by executable.
#[derive(Debug, Default)]
pub struct Participants {
    executables: BTreeMap<(String, String), Processes>,
    unmatched_events: BTreeSet<String>,
}

/// How many processes of one executable took part.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Processes {
    /// All of them.
    pub count: u64,
    /// Those that have an event which a rule matches.
    pub matched_count: u64,
}

impl Participants {
    /// Counts a process.
    pub fn add(&mut self, name: &str, path: &str, matched: bool) {
        let key = (name.to_owned(), path.to_owned());
        if self.executables.len() < EXECUTABLE_COUNT_MAX || self.executables.contains_key(&key) {
            let processes = self.executables.entry(key).or_default();
            processes.count += 1;
            processes.matched_count += u64::from(matched);
        }
    }

    /// Counts one of the processes as matched, which was not before.
    pub fn match_later(&mut self, name: &str, path: &str) {
        if let Some(processes) = self.executables.get_mut(&(name.to_owned(), path.to_owned())) {
            processes.matched_count += 1;
        }
    }

    /// No more names of events are remembered.
    pub fn has_enough_unmatched(&self) -> bool {
        self.unmatched_events.len() >= EVENT_COUNT_MAX
    }

    /// Remembers an event that no rule matched when it was seen.
    pub fn add_unmatched(&mut self, event: &str) {
        if !self.has_enough_unmatched() && !self.unmatched_events.contains(event) {
            self.unmatched_events.insert(event.to_owned());
        }
    }

    /// Name, path and processes of at most `limit` executables, those with the most processes first.
    pub fn list(&self, limit: usize) -> Vec<(&str, &str, Processes)> {
        let mut list: Vec<_> = self
            .executables
            .iter()
            .map(|((name, path), &processes)| (&**name, &**path, processes))
            .collect();
        list.sort_by_key(|&(_, _, processes)| std::cmp::Reverse(processes.count));
        list.truncate(limit);
        list
    }

    /// Names of events that no rule matched when they were seen, sorted.
    pub fn unmatched_events(&self) -> impl Iterator<Item = &str> {
        self.unmatched_events.iter().map(String::as_str)
    }
}
