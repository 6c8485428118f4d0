// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interrupts that came one after another: none of them is long, and together they kept a CPU from its threads.

use rustc_hash::FxHashMap;

use super::occurrences::Occurrences;
use super::{Closer, Detector, Insight, Level};
use crate::facts::Interrupt;
use crate::model::{Interruption, Listen, System};

/// In less time between two of them no thread gets anything done.
const APART_NS: i64 = 10_000;
/// After that time the kernel ends a round of soft interrupts, as the threads' turn has come.
const LONG_NS: i64 = 2_000_000;
/// Of that time interrupts took this part or more.
const SHARE_PERCENT: i64 = 80;

#[derive(Default)]
pub(super) struct Streaks {
    /// By CPU.
    open: FxHashMap<u32, Streak>,
    found: FxHashMap<u32, Occurrences>,
}

/// Interrupts without a pause.
#[derive(Clone, Copy)]
struct Streak {
    begin_ns: i64,
    end_ns: i64,
    /// What they took together, and the longest of them.
    total_ns: i64,
    longest_ns: i64,
}

impl Streak {
    fn of(interruption: &Interruption) -> Streak {
        let own_ns = interruption.own_ns();
        Streak {
            begin_ns: interruption.begin_ns,
            end_ns: interruption.end_ns,
            total_ns: own_ns,
            longest_ns: own_ns,
        }
    }

    /// With what follows. Who came on top of an interrupt has ended before it.
    fn and(self, next: Streak) -> Streak {
        Streak {
            begin_ns: self.begin_ns.min(next.begin_ns),
            end_ns: self.end_ns.max(next.end_ns),
            total_ns: self.total_ns + next.total_ns,
            longest_ns: self.longest_ns.max(next.longest_ns),
        }
    }

    /// It kept the CPU, and no single interrupt did.
    fn is_long(self) -> bool {
        let ns = self.end_ns - self.begin_ns;
        ns >= LONG_NS && self.total_ns >= ns / 100 * SHARE_PERCENT && self.longest_ns < ns / 2
    }
}

impl Listen for Streaks {
    fn interruption(&mut self, system: &System, interruption: &Interruption) {
        if matches!(interruption.interrupt, Interrupt::Soft(_)) && is_by_thread(system, interruption.cpu) {
            return;
        }
        let next = Streak::of(interruption);
        let before = self.open.get(&interruption.cpu).copied();
        let open = match before {
            Some(before) if next.begin_ns - before.end_ns <= APART_NS => before.and(next),
            Some(before) => {
                self.end(interruption.cpu, before);
                next
            }
            None => next,
        };
        self.open.insert(interruption.cpu, open);
    }
}

/// What is left of soft interrupts is done by a thread, which others may take the CPU from.
fn is_by_thread(system: &System, cpu: u32) -> bool {
    let current = system.current_on(cpu);
    current.is_some_and(|thread| system.name_of(thread).starts_with("ksoftirqd/"))
}

impl Streaks {
    fn end(&mut self, cpu: u32, streak: Streak) {
        if streak.is_long() {
            let span_ns = (streak.begin_ns, streak.end_ns);
            self.found.entry(cpu).or_default().add(span_ns, span_ns.1 - span_ns.0);
        }
    }
}

impl Detector for Streaks {
    fn find(&mut self, _: &System) -> Vec<Insight> {
        for (cpu, last) in std::mem::take(&mut self.open) {
            self.end(cpu, last);
        }
        let told = self.found.iter().map(|(cpu, own)| Insight {
            kind: "interrupts in a row",
            level: Level::Notable,
            what: format!("back-to-back interrupts kept all threads off CPU {cpu}"),
            span_ns: own.span_ns,
            longest_ns: Some(own.longest_ns),
            cost_ns: own.times.total_ns,
            evidence: own.evidence(),
            closer: Closer::new("irqlog").with("--cpu", cpu).during(own.longest_ns),
        });
        told.collect()
    }
}
