// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events are missing: first of all, as everything else is told without them.

use super::occurrences::Occurrences;
use super::{Closer, Detector, Insight, Level};
use crate::model::{Listen, System};

pub(super) struct Losses;

impl Listen for Losses {}

impl Detector for Losses {
    fn find(&mut self, system: &System) -> Vec<Insight> {
        let (begin_ns, end_ns) = system.told();
        let mut gaps = Occurrences::default();
        for gap in system.circumstances().gaps.all() {
            let (from, until) = (gap.begin_ns.max(begin_ns), gap.end_ns.min(end_ns));
            if from < until {
                gaps.add((from, until), until - from);
            }
        }
        if gaps.times.count == 0 {
            return Vec::new();
        }
        vec![Insight {
            kind: "losses",
            level: Level::Serious,
            what: "events are missing: the trace does not show what threads did at those times, and the numbers here may be too low"
                .to_owned(),
            span_ns: gaps.span_ns,
            longest_ns: Some(gaps.longest_ns),
            cost_ns: gaps.times.total_ns,
            evidence: gaps.evidence(),
            closer: Closer::new("health"),
        }]
    }
}
