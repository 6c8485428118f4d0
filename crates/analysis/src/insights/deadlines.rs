// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads that were woken and got no CPU for long: those of real-time priority, and everybody.

use rustc_hash::FxHashMap;

use super::occurrences::{COUNT, LONGEST, Occurrences};
use super::{Closer, Detector, Insight, Level};
use crate::analyses::named;
use crate::measure::Distribution;
use crate::model::{Delay, Listen, Nature, System, ThreadId};
use crate::report::{Unit, Value, column};

/// Whoever asks for a real-time priority counts in less than this: a period of a thousandth of a second is a slow one.
const REAL_TIME_NS: i64 = 1_000_000;
/// A thread computes for 3 ms before the next one's turn comes: more than three turns of others.
const LATE_NS: i64 = 10_000_000;
/// Of fewer, one in a hundred says nothing.
const ENOUGH: u64 = 200;

#[derive(Default)]
pub(super) struct Deadlines {
    all: Distribution,
    late: Occurrences,
    latest: Option<ThreadId>,
    real_time: FxHashMap<ThreadId, Occurrences>,
}

impl Listen for Deadlines {
    fn delay(&mut self, system: &System, delay: &Delay) {
        let ns = delay.end_ns - delay.begin_ns;
        let span_ns = (delay.begin_ns, delay.end_ns);
        if ns >= REAL_TIME_NS && delay.priority < 0 {
            self.real_time.entry(delay.thread).or_default().add(span_ns, ns);
        }
        // A thread of the kernel mostly has work that can wait.
        if system.thread(delay.thread).nature == Nature::Kernel {
            return;
        }
        self.all.add(ns);
        if ns >= LATE_NS && self.late.add(span_ns, ns) {
            self.latest = Some(delay.thread);
        }
    }
}

impl Detector for Deadlines {
    fn find(&mut self, system: &System) -> Vec<Insight> {
        let mut found: Vec<Insight> = self
            .real_time
            .iter()
            .map(|(thread, late)| Insight {
                kind: "late real-time thread",
                level: Level::Serious,
                what: format!(
                    "{} has a real-time priority and waited for a CPU",
                    named(system, *thread)
                ),
                span_ns: late.span_ns,
                longest_ns: Some(late.longest_ns),
                cost_ns: late.times.total_ns,
                evidence: late.evidence(),
                closer: Closer::new("schedlog")
                    .with("--tid", system.thread(*thread).tid)
                    .with("--min", "1ms"),
            })
            .collect();
        let p99 = self.all.percentile(99.0);
        if let (Value::Number(p99_ns), Some(latest), true) = (&p99, self.latest, self.all.times.count >= ENOUGH)
            && *p99_ns >= LATE_NS
        {
            found.push(Insight {
                kind: "late wake-ups",
                level: Level::Notable,
                what: format!(
                    "threads waited for a CPU after they were woken, {} the longest",
                    named(system, latest)
                ),
                span_ns: self.late.span_ns,
                longest_ns: Some(self.late.longest_ns),
                cost_ns: self.late.times.total_ns,
                evidence: vec![
                    (column("wakeups", "wake-up", Unit::Count), self.all.times.count.into()),
                    (column("p99_ns", "p99", Unit::Nanoseconds), p99),
                    (COUNT, self.late.times.count.into()),
                    (LONGEST, Value::Number(self.late.times.max_ns)),
                ],
                closer: Closer::new("schedtop").during(self.late.span_ns),
            });
        }
        found
    }
}
