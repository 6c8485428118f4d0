// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a trace lacks events that begin or end spans. Only streams that may hold those of a name matter to it, and only what its process lost.

use std::collections::HashMap;

use crate::process_gaps::{Lost, ProcessGaps};

/// Of a trace.
#[derive(Debug, Default)]
pub struct SpanGaps {
    /// By the class of the streams; only of those that hold such events.
    by_class: HashMap<u64, ProcessGaps>,
    /// Which classes hold those of a name.
    classes: HashMap<String, Vec<u64>>,
}

impl SpanGaps {
    /// Streams of a class hold events that begin or end spans of a name.
    pub fn hold(&mut self, class_id: u64, name: &str) {
        self.by_class.entry(class_id).or_default();
        let classes = self.classes.entry(name.to_owned()).or_default();
        if !classes.contains(&class_id) {
            classes.push(class_id);
        }
    }

    /// Events are missing in streams of a class.
    pub fn lose(&mut self, class_id: u64, lost: &Lost<'_>) {
        if let Some(gaps) = self.by_class.get_mut(&class_id) {
            gaps.add(lost);
        }
    }

    /// Events that begin or end spans of a name may be missing between two moments.
    pub(super) fn lie_within(&self, name: &str, begin_ns: i64, end_ns: i64, pid: Option<i64>) -> bool {
        let mut classes = self.classes.get(name).into_iter().flatten();
        classes.any(|class_id| self.by_class[class_id].lie_within(begin_ns, end_ns, pid))
    }

    /// Events that begin or end any span may be missing before a moment.
    pub(super) fn lie_before(&self, ns: i64, pid: Option<i64>) -> bool {
        self.by_class.values().any(|gaps| gaps.lie_within(i64::MIN, ns, pid))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Spans of these names are in streams of these classes.
    pub(in crate::spans) fn span_gaps(holds: &[(u64, &str)]) -> SpanGaps {
        let mut gaps = SpanGaps::default();
        holds.iter().for_each(|(class_id, name)| gaps.hold(*class_id, name));
        gaps
    }

    #[test]
    fn streams_lose_what_they_hold() {
        let mut gaps = span_gaps(&[(1, "a"), (2, "b"), (2, "a")]);
        for (class_id, begin_ns) in [(1, 10), (3, 30)] {
            gaps.lose(
                class_id,
                &Lost {
                    classes: &[],
                    pid: None,
                    begin_ns,
                    end_ns: begin_ns + 1,
                },
            );
        }
        let seen = |name| [10, 30].map(|begin_ns| gaps.lie_within(name, begin_ns, begin_ns + 5, None));
        assert_eq!(seen("a"), [true, false]);
        assert_eq!(seen("b"), [false, false]);
        assert_eq!([10, 11].map(|ns| gaps.lie_before(ns, Some(7))), [false, true]);
    }
}
