// SPDX-License-Identifier: MIT OR Apache-2.0
//! Occurrences of one thing: how often, how long, when, and the longest.

use crate::measure::Times;
use crate::report::{Column, Unit, Value, column};

pub(super) const COUNT: Column = column("count", "time", Unit::Count);
pub(super) const TOTAL: Column = column("total_ns", "in total", Unit::Nanoseconds);
pub(super) const LONGEST: Column = column("longest_ns", "longest", Unit::Nanoseconds);

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Occurrences {
    pub(super) times: Times,
    /// From the begin of the first to the end of the last.
    pub(super) span_ns: (i64, i64),
    /// When the longest was.
    pub(super) longest_ns: (i64, i64),
}

impl Occurrences {
    /// One more, of `own_ns` in a part of time. True when it is the longest so far.
    pub(super) fn add(&mut self, (begin_ns, end_ns): (i64, i64), own_ns: i64) -> bool {
        let is_first = self.times.count == 0;
        let is_longest = is_first || own_ns > self.times.max_ns;
        self.times.add(own_ns);
        if is_longest {
            self.longest_ns = (begin_ns, end_ns);
        }
        self.span_ns = match is_first {
            true => (begin_ns, end_ns),
            false => (self.span_ns.0.min(begin_ns), self.span_ns.1.max(end_ns)),
        };
        is_longest
    }

    /// And those of another one.
    pub(super) fn merge(&mut self, other: &Occurrences) {
        if other.times.count == 0 {
            return;
        }
        if self.times.count == 0 {
            *self = *other;
            return;
        }
        if other.times.max_ns > self.times.max_ns {
            self.longest_ns = other.longest_ns;
        }
        self.times.merge(&other.times);
        self.span_ns = (self.span_ns.0.min(other.span_ns.0), self.span_ns.1.max(other.span_ns.1));
    }

    /// How often, how long in all, and the longest.
    pub(super) fn evidence(&self) -> Vec<(Column, Value)> {
        vec![
            (COUNT, self.times.count.into()),
            (TOTAL, Value::Number(self.times.total_ns)),
            (LONGEST, Value::Number(self.times.max_ns)),
        ]
    }
}
