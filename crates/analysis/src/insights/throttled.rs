// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads that could run and did not, while the CPU that they had before was idle: what a control group's limit of CPU time does (`cpu.max`).

use rustc_hash::FxHashMap;

use super::occurrences::Occurrences;
use super::{Closer, Detector, Insight, Level, process_named};
use crate::analyses::totals::PerThread;
use crate::model::{Listen, Mode, Nature, Slice, State, System, ThreadId};

/// The scheduler gives a free CPU to somebody at once, and at the next tick for sure: that is 10 ms at the most. Limits are counted over 100 ms.
const LONG_NS: i64 = 20_000_000;
/// Of that time the CPU was idle: interrupts, and threads for a moment, come in between.
const IDLE_PERCENT: i64 = 80;
/// Short rests of a CPU are not kept,
const REST_NS: i64 = 100_000;
/// and of each CPU only the last ones.
const RESTS: usize = 64;

#[derive(Default)]
pub(super) struct Throttled {
    last_cpu: PerThread<Option<u32>>,
    /// By CPU, when it was idle.
    rests: FxHashMap<u32, Rests>,
    by_process: FxHashMap<i32, (Occurrences, ThreadId)>,
}

#[derive(Default)]
struct Rests {
    /// The oldest is overwritten.
    parts: Vec<(i64, i64)>,
    next: usize,
}

impl Rests {
    fn add(&mut self, part: (i64, i64)) {
        match self.parts.len() < RESTS {
            true => self.parts.push(part),
            false => self.parts[self.next] = part,
        }
        self.next = (self.next + 1) % RESTS;
    }

    fn within(&self, (begin_ns, end_ns): (i64, i64)) -> i64 {
        let shared = |(from, until): &(i64, i64)| ((*until).min(end_ns) - (*from).max(begin_ns)).max(0);
        self.parts.iter().map(shared).sum()
    }
}

impl Listen for Throttled {
    #[inline]
    fn slice(&mut self, system: &System, slice: &Slice) {
        let ns = slice.duration_ns();
        match slice.state {
            State::Running { cpu, mode: Mode::Idle } if ns >= REST_NS => {
                self.rests.entry(cpu).or_default().add((slice.begin_ns, slice.end_ns));
            }
            State::Running { cpu, .. } => *self.last_cpu.of(slice.thread) = Some(cpu),
            State::Runnable(_) if ns >= LONG_NS => self.late(system, slice),
            _ => {}
        }
    }
}

impl Throttled {
    fn late(&mut self, system: &System, slice: &Slice) {
        let span_ns = (slice.begin_ns, slice.end_ns);
        let rests = self.last_cpu.of(slice.thread).and_then(|cpu| self.rests.get(&cpu));
        let idle_ns = rests.map_or(0, |rests| rests.within(span_ns));
        if idle_ns < slice.duration_ns() / 100 * IDLE_PERCENT || system.thread(slice.thread).nature == Nature::Kernel {
            return;
        }
        let pid = system.thread(slice.thread).process();
        let fresh = || (Occurrences::default(), slice.thread);
        let (own, _) = self.by_process.entry(pid).or_insert_with(fresh);
        own.add(span_ns, slice.duration_ns());
    }
}

impl Detector for Throttled {
    fn find(&mut self, system: &System) -> Vec<Insight> {
        let told = self.by_process.iter().map(|(pid, (own, one))| Insight {
            kind: "throttled",
            level: Level::Notable,
            what: format!(
                "{} could have run, and its CPU was idle: as with a limit of its control group (cpu.max)",
                process_named(system, *pid, *one)
            ),
            span_ns: own.span_ns,
            cost_ns: own.times.total_ns,
            evidence: own.evidence(),
            closer: Closer::new("ltt").with("--pid", pid).during(own.span_ns),
        });
        told.collect()
    }
}
