// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where events are missing that could have ended what began, or begun what ends: by process, as programs lose events of their own only. Of
//! the kernel's events, and of a stream that several processes share, each process may miss some.

use rustc_hash::FxHashMap;

use crate::model::{Gap, Gaps};

/// A part of time in which events are missing, and which those could be.
#[derive(Clone, Copy, Debug)]
pub struct Lost<'l> {
    /// Names of the classes of events that the stream may hold.
    pub classes: &'l [&'l str],
    /// Whose they are; absent when they may be of any process.
    pub pid: Option<i64>,
    /// From here on, in nanoseconds.
    pub begin_ns: i64,
    /// Up to here.
    pub end_ns: i64,
}

impl Lost<'_> {
    /// Events with such a name may be among them.
    pub fn may_be(&self, is_meant: impl Fn(&str) -> bool) -> bool {
        self.classes.iter().any(|class| is_meant(class))
    }
}

/// Where events are missing, by whose they are.
#[derive(Clone, Debug, Default)]
pub struct ProcessGaps(FxHashMap<Option<i64>, Gaps>);

impl ProcessGaps {
    /// One more.
    pub fn add(&mut self, lost: &Lost<'_>) {
        self.0.entry(lost.pid).or_default().add(Gap {
            cpu: None,
            begin_ns: lost.begin_ns,
            // What a stream has lost at its end, it may tell at the time of its last event, behind which that is missing.
            end_ns: lost.end_ns.max(lost.begin_ns.saturating_add(1)),
        });
    }

    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Events of a process may be missing between two moments; of any when it is not known which.
    pub fn lie_within(&self, begin_ns: i64, end_ns: i64, pid: Option<i64>) -> bool {
        if self.is_empty() {
            return false;
        }
        let is_there = |gaps: &Gaps| gaps.within(begin_ns, end_ns, None).is_some();
        match pid {
            Some(_) => [None, pid].iter().any(|pid| self.0.get(pid).is_some_and(is_there)),
            None => self.0.values().any(is_there),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_misses_its_own_events_and_those_of_nobody_knows_whom() {
        let mut gaps = ProcessGaps::default();
        for (pid, begin_ns, end_ns) in [(Some(7), 10, 20), (None, 40, 50), (Some(7), 60, 60)] {
            gaps.add(&Lost {
                classes: &[],
                pid,
                begin_ns,
                end_ns,
            });
        }
        let seen =
            |pid| [(0, 10), (0, 11), (19, 30), (20, 40), (45, 46)].map(|(begin, end)| gaps.lie_within(begin, end, pid));
        assert_eq!(seen(Some(7)), [false, true, true, false, true]);
        assert!(gaps.lie_within(60, 70, Some(7)) && !gaps.lie_within(50, 60, Some(7)));
        assert_eq!(seen(Some(8)), [false, false, false, false, true]);
        assert_eq!(seen(None), [false, true, true, false, true]);
    }
}
