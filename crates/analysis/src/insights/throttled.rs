// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads that lost their CPU while they could run, and the CPU then was idle: what a control group's limit of CPU time does (`cpu.max`,
//! `cpu.cfs_quota_us`).

use rustc_hash::FxHashMap;

use super::occurrences::Occurrences;
use super::{Closer, Detector, Insight, Level, process_named};
use crate::analyses::totals::PerThread;
use crate::model::{Listen, Mode, Nature, ProcessId, Slice, State, System, ThreadId, Why};

/// The scheduler gives a free CPU to somebody at once, and at the next tick for sure: that is 10 ms at the most. Limits are counted over 100 ms.
const IDLE_NS: i64 = 20_000_000;

#[derive(Default)]
pub(super) struct Throttled {
    /// How long each CPU was idle so far.
    idle_ns: FxHashMap<u32, i64>,
    by_thread: PerThread<Last>,
    by_process: FxHashMap<ProcessId, Occurrences>,
}

/// What a thread did last.
#[derive(Clone, Copy, Debug, Default)]
enum Last {
    #[default]
    Else,
    /// It had this CPU, which had been idle for so long until then.
    On { cpu: u32, idle_ns: i64 },
    /// It could have run, and the CPU that it had before was idle. It is counted when it gets that CPU back: on another one it may have
    /// waited for that.
    Idled { cpu: u32, span_ns: (i64, i64) },
}

impl Listen for Throttled {
    #[inline]
    fn slice(&mut self, system: &System, slice: &Slice) {
        match slice.state {
            State::Running { cpu, mode: Mode::Idle } => *self.idle_ns.entry(cpu).or_default() += slice.duration_ns(),
            State::Running { cpu, .. } => self.ran(system, slice.thread, cpu),
            // A CPU that was idle before somebody is woken may be late for another reason: the host of a virtual machine has it.
            State::Runnable(Why::Preempted | Why::Yielded) => self.waited(slice),
            _ => *self.by_thread.of(slice.thread) = Last::Else,
        }
    }
}

impl Throttled {
    #[inline]
    fn ran(&mut self, system: &System, thread: ThreadId, cpu: u32) {
        let idle_ns = self.idle_ns.get(&cpu).copied().unwrap_or(0);
        let last = std::mem::replace(self.by_thread.of(thread), Last::On { cpu, idle_ns });
        if let Last::Idled { cpu: before, span_ns } = last
            && before == cpu
        {
            self.count(system, thread, span_ns);
        }
    }

    fn waited(&mut self, slice: &Slice) {
        let last = self.by_thread.of(slice.thread);
        *last = match *last {
            Last::On { cpu, idle_ns } if self.idle_ns.get(&cpu).is_some_and(|now_ns| now_ns - idle_ns >= IDLE_NS) => {
                Last::Idled {
                    cpu,
                    span_ns: (slice.begin_ns, slice.end_ns),
                }
            }
            _ => Last::Else,
        };
    }

    fn count(&mut self, system: &System, thread: ThreadId, span_ns: (i64, i64)) {
        if system.thread(thread).nature == Nature::Kernel {
            return;
        }
        let own = self.by_process.entry(system.thread(thread).process()).or_default();
        own.add(span_ns, span_ns.1 - span_ns.0);
    }
}

impl Detector for Throttled {
    fn find(&mut self, system: &System) -> Vec<Insight> {
        let told = self.by_process.iter().map(|(process, own)| Insight {
            kind: "throttled",
            level: Level::Notable,
            what: format!(
                "{} could have run, but its CPU was idle: its control group probably has a CPU limit (cpu.max; cpu.cfs_quota_us in version 1)",
                process_named(system, *process)
            ),
            span_ns: own.span_ns,
            longest_ns: Some(own.longest_ns),
            cost_ns: own.times.total_ns,
            evidence: own.evidence(),
            closer: Closer::new("ltt").with("--pid", process).during(own.span_ns),
        });
        told.collect()
    }
}
