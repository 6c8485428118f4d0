// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lock convoys: threads of a process that hand a lock to each other, and wait for it more than they compute. Which lock it is, is known by its
//! address; who had it, by who ended the wait.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use super::occurrences::Occurrences;
use super::{Closer, Detector, Insight, Level, process_named};
use crate::analyses::named;
use crate::cause::{Cause, Causes};
use crate::durations::Durations;
use crate::memory::Spot;
use crate::model::{Listen, ProcessId, Slice, State, System, ThreadId};
use crate::report::{Column, Unit, Value, column};
use crate::waiting::{StackId, Waiting};

/// Who waits longer has mostly nothing to do: the wait for work is one for a lock, too.
const IDLE_NS: i64 = 10_000_000;
/// Fewer are a coincidence.
const ENOUGH: u64 = 100;
/// Waits are this part of what its threads computed meanwhile, or more.
const SHARE_PERCENT: i64 = 25;

const ON_CPU: Column = column("on_cpu_ns", "on CPUs", Unit::Nanoseconds);
const HELD_BY: Column = column("held_by", "held by", Unit::Durations);
const WAITED_IN: Column = column("waited_in", "waited in", Unit::Durations);
const LOCK: Column = column("lock", "lock", Unit::Text);

#[derive(Default)]
pub(super) struct Convoys {
    causes: Causes,
    waiting: Waiting,
    by_process: FxHashMap<ProcessId, OfProcess>,
}

#[derive(Default)]
struct OfProcess {
    /// Waits that a thread of the process ended.
    waits: Occurrences,
    /// From the first wait's begin to the last one's end, as far as threads have left their CPUs.
    on_cpu_ns: i64,
    /// Since the last one.
    later_ns: i64,
    locks: FxHashMap<LockId, OfLock>,
}

/// A lock of a process, by its address; absent where nothing says it. A condition variable of the GNU library has two futexes, side by side.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct LockId(Option<u64>);

impl LockId {
    fn new(address: Option<u64>) -> LockId {
        LockId(address.map(|address| address & !7))
    }
}

#[derive(Default)]
struct OfLock {
    /// The first one that was waited for.
    address: Option<u64>,
    /// Waits that time ended, as those for Python's interpreter lock: the thread looks whether the lock is still taken, and waits again.
    timed_out: Occurrences,
    total_ns: i64,
    /// For whom, who then let go of the lock.
    holders: Durations<ThreadId>,
    /// With which stacks.
    waited_in: Durations<StackId>,
    waiters: BTreeSet<ThreadId>,
}

impl OfLock {
    /// Whoever had it has waited for it, too. Who waits for work is woken by others than those who wait.
    fn goes_round(&self) -> bool {
        let holders = self.holders.sorted();
        let mut known = holders.iter().filter_map(|(holder, _)| *holder);
        holders.len() >= 2 && known.all(|holder| self.waiters.contains(&holder))
    }
}

impl OfProcess {
    fn compute(&mut self, slice: &Slice) {
        if self.waits.times.count > 0 {
            let (first_ns, last_ns) = self.waits.span_ns;
            self.on_cpu_ns += (slice.end_ns.min(last_ns) - slice.begin_ns.max(first_ns)).max(0);
            self.later_ns += (slice.end_ns - slice.begin_ns.max(last_ns)).max(0);
        }
    }

    /// A wait that the holder of the lock ended, or time.
    fn wait(&mut self, slice: &Slice, address: Option<u64>, holder: Option<ThreadId>, stack: Option<StackId>) {
        let ns = slice.duration_ns();
        let span_ns = (slice.begin_ns, slice.end_ns);
        let of_lock = self.locks.entry(LockId::new(address)).or_default();
        of_lock.address = of_lock.address.or(address);
        of_lock.waiters.insert(slice.thread);
        of_lock.total_ns += ns;
        of_lock.waited_in.add(stack, ns);
        if holder.is_none() {
            of_lock.timed_out.add(span_ns, ns);
            return;
        }
        of_lock.holders.add(holder, ns);
        self.waits.add(span_ns, ns);
        self.on_cpu_ns += std::mem::take(&mut self.later_ns);
    }

    /// All waits for its locks.
    fn all_waits(&self) -> Occurrences {
        let mut all = self.waits;
        for lock in self.locks.values().filter(|lock| lock.goes_round()) {
            all.merge(&lock.timed_out);
        }
        all
    }

    /// The lock that its threads waited for longest, of those that a thread of the process had.
    fn main_lock(&self) -> Option<&OfLock> {
        let held = self.locks.iter().filter(|(_, lock)| !lock.holders.is_empty());
        let longest = held.max_by_key(|(id, lock)| (lock.total_ns, Reverse(**id)));
        longest.map(|(_, lock)| lock)
    }
}

impl Convoys {
    #[inline]
    fn of(&mut self, system: &System, thread: ThreadId) -> &mut OfProcess {
        self.by_process.entry(system.thread(thread).process()).or_default()
    }
}

impl Listen for Convoys {
    fn wants_user_stacks(&self) -> bool {
        true
    }

    #[inline]
    fn slice(&mut self, system: &System, slice: &Slice) {
        match slice.state {
            State::Running { .. } => self.of(system, slice.thread).compute(slice),
            State::Blocked(wait) if slice.duration_ns() < IDLE_NS => {
                let Some(wake) = slice.wake else { return };
                let waiting = system.thread(slice.thread);
                let holder = wake.thread.filter(|_| wake.interrupt.is_none());
                let is_by_own = holder.is_some_and(|holder| system.thread(holder).process() == waiting.process());
                let is_meant = is_by_own || wake.interrupt.is_some();
                if is_meant && self.causes.of(system, wait, slice.wake) == Cause::Lock {
                    let address = waiting.futex().map(|futex| futex.address);
                    let stack = self.waiting.of(system, slice.thread);
                    self.of(system, slice.thread).wait(slice, address, holder, stack);
                }
            }
            _ => {}
        }
    }

    fn executed(&mut self, system: &System, thread: ThreadId, _: &[u8], _: i64) {
        self.waiting.executed(system, thread);
    }
}

impl Detector for Convoys {
    fn find(&mut self, system: &System) -> Vec<Insight> {
        let mut found = Vec::new();
        for (process, own) in &self.by_process {
            let waits = own.all_waits();
            if waits.times.count >= ENOUGH && waits.times.total_ns >= own.on_cpu_ns / 100 * SHARE_PERCENT {
                found.push(self.insight(system, *process, own, &waits));
            }
        }
        found
    }
}

impl Convoys {
    fn insight(&self, system: &System, process: ProcessId, own: &OfProcess, waits: &Occurrences) -> Insight {
        let mut evidence = waits.evidence();
        evidence.push((ON_CPU, Value::Number(own.on_cpu_ns)));
        let mut which = String::new();
        if let Some(lock) = own.main_lock() {
            evidence.push((HELD_BY, lock.holders.value(|holder| named(system, holder))));
            let waited_in = self.waiting.value(system, &lock.waited_in);
            if waited_in != Value::None {
                evidence.push((WAITED_IN, waited_in));
            }
            if let Some(address) = lock.address {
                let ns = waits.span_ns.1;
                let name = Spot { process, ns, address }.name(system);
                which = name.as_ref().map(|name| format!(", mostly {name}")).unwrap_or_default();
                let text = name.map_or_else(|| format!("{address:#x}"), |name| format!("{name} ({address:#x})"));
                evidence.push((LOCK, text.into()));
            }
        }
        Insight {
            kind: "lock convoy",
            level: Level::Notable,
            what: format!(
                "threads of {} waited for each other's locks{which}",
                process_named(system, process)
            ),
            span_ns: waits.span_ns,
            longest_ns: Some(waits.longest_ns),
            cost_ns: waits.times.total_ns,
            evidence,
            closer: Closer::new("futex").with("--pid", process).during(waits.span_ns),
        }
    }
}
