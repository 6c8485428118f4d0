// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lock convoys: threads of a process that hand a lock to each other, and wait for it more than they compute.

use rustc_hash::FxHashMap;

use super::occurrences::Occurrences;
use super::{Closer, Detector, Insight, Level, process_named};
use crate::cause::{Cause, Causes};
use crate::model::{Listen, ProcessId, Slice, State, System, ThreadId};
use crate::report::{Unit, Value, column};

/// Who waits longer has mostly nothing to do: the wait for work is one for a lock, too.
const IDLE_NS: i64 = 10_000_000;
/// Fewer are a coincidence.
const ENOUGH: u64 = 100;
/// Waits are this part of what its threads computed meanwhile, or more.
const SHARE_PERCENT: i64 = 25;

#[derive(Default)]
pub(super) struct Convoys {
    causes: Causes,
    by_process: FxHashMap<ProcessId, OfProcess>,
}

#[derive(Default)]
struct OfProcess {
    waits: Occurrences,
    /// From the first wait's begin to the last one's end, as far as threads have left their CPUs.
    on_cpu_ns: i64,
    /// Since the last one.
    later_ns: i64,
}

impl OfProcess {
    fn compute(&mut self, slice: &Slice) {
        if self.waits.times.count > 0 {
            let (first_ns, last_ns) = self.waits.span_ns;
            self.on_cpu_ns += (slice.end_ns.min(last_ns) - slice.begin_ns.max(first_ns)).max(0);
            self.later_ns += (slice.end_ns - slice.begin_ns.max(last_ns)).max(0);
        }
    }

    fn wait(&mut self, slice: &Slice) {
        self.waits.add((slice.begin_ns, slice.end_ns), slice.duration_ns());
        self.on_cpu_ns += std::mem::take(&mut self.later_ns);
    }
}

impl Convoys {
    #[inline]
    fn of(&mut self, system: &System, thread: ThreadId) -> &mut OfProcess {
        self.by_process.entry(system.thread(thread).process()).or_default()
    }
}

impl Listen for Convoys {
    #[inline]
    fn slice(&mut self, system: &System, slice: &Slice) {
        match slice.state {
            State::Running { .. } => self.of(system, slice.thread).compute(slice),
            State::Blocked(wait) if slice.duration_ns() < IDLE_NS => {
                let waker = slice
                    .wake
                    .filter(|wake| wake.interrupt.is_none())
                    .and_then(|wake| wake.thread);
                let is_of_own =
                    |waker: ThreadId| system.thread(waker).process() == system.thread(slice.thread).process();
                if waker.is_some_and(is_of_own) && self.causes.of(system, wait, slice.wake) == Cause::Lock {
                    self.of(system, slice.thread).wait(slice);
                }
            }
            _ => {}
        }
    }
}

impl Detector for Convoys {
    fn find(&mut self, system: &System) -> Vec<Insight> {
        let is_much = |own: &OfProcess| {
            own.waits.times.count >= ENOUGH && own.waits.times.total_ns >= own.on_cpu_ns / 100 * SHARE_PERCENT
        };
        let found = self.by_process.iter().filter(|(_, own)| is_much(own));
        found
            .map(|(process, own)| {
                let mut evidence = own.waits.evidence();
                evidence.push((
                    column("on_cpu_ns", "on CPUs", Unit::Nanoseconds),
                    Value::Number(own.on_cpu_ns),
                ));
                Insight {
                    kind: "lock convoy",
                    level: Level::Notable,
                    what: format!(
                        "threads of {} waited for each other's locks",
                        process_named(system, *process)
                    ),
                    span_ns: own.waits.span_ns,
                    cost_ns: own.waits.times.total_ns,
                    evidence,
                    closer: Closer::new("blocked").with("--pid", process).during(own.waits.span_ns),
                }
            })
            .collect()
    }
}
