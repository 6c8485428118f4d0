// SPDX-License-Identifier: MIT OR Apache-2.0
//! Priority inversions of real-time threads: who counts in thousandths of a second waits for a lock, and something less urgent has the CPU.

use rustc_hash::FxHashMap;

use super::occurrences::Occurrences;
use super::{Closer, Detector, Insight, Level};
use crate::analyses::named;
use crate::analyses::priority_inversion::{Inversion, Inversions as Search};
use crate::facts::Fact;
use crate::model::{Call, Listen, Slice, System, ThreadId};

/// As long as a real-time thread may wait for a CPU.
const LONG_NS: i64 = 1_000_000;

#[derive(Default)]
pub(super) struct Inversions {
    search: Search,
    by_victim: FxHashMap<ThreadId, OfVictim>,
}

struct OfVictim {
    kept: Occurrences,
    /// Of the longest.
    holder: ThreadId,
    culprit: ThreadId,
}

impl Listen for Inversions {
    #[inline]
    fn fact(&mut self, system: &System, fact: &Fact<'_>, cpu: Option<u32>, ns: i64) {
        self.search.fact(system, fact, cpu, ns);
    }

    #[inline]
    fn slice(&mut self, system: &System, slice: &Slice) {
        self.search.slice(system, slice);
        self.take();
    }

    #[inline]
    fn call(&mut self, system: &System, call: &Call) {
        self.search.call(system, call);
        self.take();
    }

    fn died(&mut self, system: &System, thread: ThreadId, ns: i64) {
        self.search.died(system, thread, ns);
    }
}

impl Inversions {
    fn take(&mut self) {
        for found in self.search.found.drain(..) {
            let (victim, priority) = found.victim;
            if priority >= 0 || found.ns < LONG_NS {
                continue;
            }
            let Inversion { holder, culprit, .. } = found;
            let own = self.by_victim.entry(victim).or_insert_with(|| OfVictim {
                kept: Occurrences::default(),
                holder: holder.0,
                culprit: culprit.0,
            });
            if own.kept.add((found.begin_ns, found.end_ns), found.ns) {
                (own.holder, own.culprit) = (holder.0, culprit.0);
            }
        }
    }
}

impl Detector for Inversions {
    fn find(&mut self, system: &System) -> Vec<Insight> {
        let told = self.by_victim.iter().map(|(victim, own)| Insight {
            kind: "priority inversion",
            level: Level::Serious,
            what: format!(
                "{} has a real-time priority and waited for a lock held by {}, which could not run because {} had the CPU",
                named(system, *victim),
                named(system, own.holder),
                named(system, own.culprit)
            ),
            span_ns: own.kept.span_ns,
            longest_ns: Some(own.kept.longest_ns),
            cost_ns: own.kept.times.total_ns,
            evidence: own.kept.evidence(),
            closer: Closer::new("priority-inversion").with("--tid", system.thread(*victim).tid),
        });
        told.collect()
    }
}
