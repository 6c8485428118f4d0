// SPDX-License-Identifier: MIT OR Apache-2.0
//! Locks and what else is made of futexes: which ones threads waited for, how long, and who woke them.

use rustc_hash::FxHashMap;

use super::totals::PerThread;
use super::{
    COMM, COUNT, LIMIT, MAX, MEAN, MIN, PID, SWITCHES, TID, TOTAL, WAKEUPS, comm, named, pid, process_comm, tid,
};
use crate::analysis::{Analysis, Description, Need, Options};
use crate::durations::Durations;
use crate::facts::FutexOperation;
use crate::measure::Times;
use crate::memory::Spot;
use crate::model::{Call, Listen, ProcessId, Slice, State, System, ThreadId};
use crate::report::{Column, Report, Table, Unit, Value, column};
use crate::waiting::{StackId, Waiting};

/// System calls about futexes, with which one they are about.
pub(super) const FUTEXES: Need = Need {
    any_of: &[
        "syscall_entry_futex",
        "syscall_entry_futex_wait",
        "syscall_entry_futex_time64",
        "sys_futex",
    ],
    what: "futex system calls",
    option: "--preset sched,syscalls",
    is_essential: true,
};

pub(super) static FUTEX: Description = Description {
    name: "futex",
    about: "which locks threads waited for (futexes), how long, and who woke them",
    tables: &["futexes", "waits"],
    needs: &[
        FUTEXES,
        Need {
            is_essential: false,
            ..SWITCHES
        },
        WAKEUPS,
    ],
    begin: |options| {
        Box::new(Contention {
            options: options.clone(),
            wakers: PerThread::default(),
            waiting: Waiting::default(),
            futexes: FxHashMap::default(),
            waits: FxHashMap::default(),
        })
    },
};

struct Contention {
    options: Options,
    /// Who ended the wait in the call that a thread is in.
    wakers: PerThread<Option<ThreadId>>,
    waiting: Waiting,
    futexes: FxHashMap<FutexKey, OfFutex>,
    waits: FxHashMap<(FutexKey, ThreadId, Option<ThreadId>), Times>,
}

/// A futex: an address in a process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct FutexKey {
    process: ProcessId,
    address: u64,
}

struct OfFutex {
    waits: Times,
    /// With which stacks.
    waited_in: Durations<StackId>,
    timed_out: u64,
    /// Calls that did not wait, as the lock was free again.
    too_late: u64,
    wakes: u64,
    /// When it was used last.
    last_ns: i64,
}

impl OfFutex {
    /// What it is called.
    fn name(&self, key: FutexKey, system: &System) -> Value {
        let FutexKey { process, address } = key;
        let spot = Spot {
            process,
            ns: self.last_ns,
            address,
        };
        spot.name(system).map_or(Value::None, Value::Text)
    }
}

/// Of the calls' results, negative: the value was another one than expected.
const EAGAIN: i64 = -11;
const ETIMEDOUT: i64 = -110;

impl Listen for Contention {
    fn wants_user_stacks(&self) -> bool {
        true
    }

    fn slice(&mut self, system: &System, slice: &Slice) {
        let (State::Blocked(wait), Some(wake)) = (slice.state, slice.wake) else {
            return;
        };
        if wait.call.is_some() && system.thread(slice.thread).futex().is_some() && wake.interrupt.is_none() {
            *self.wakers.of(slice.thread) = wake.thread;
        }
    }

    fn call(&mut self, system: &System, call: &Call) {
        let caller = system.thread(call.thread);
        let Some(futex) = caller.futex() else { return };
        let waker = self.wakers.of(call.thread).take();
        let ns = call.end_ns - call.begin_ns;
        if futex.operation == FutexOperation::Other || !self.options.who.wants(system, call.thread) {
            return;
        }
        let key = FutexKey {
            process: caller.process(),
            address: futex.address,
        };
        let of_futex = self.futexes.entry(key).or_insert(OfFutex {
            waits: Times::default(),
            waited_in: Durations::default(),
            timed_out: 0,
            too_late: 0,
            wakes: 0,
            last_ns: call.end_ns,
        });
        of_futex.last_ns = call.end_ns;
        match (futex.operation, call.result) {
            (FutexOperation::Wake, _) => of_futex.wakes += 1,
            (_, EAGAIN) => of_futex.too_late += 1,
            (_, result) if self.options.wants_ns(ns) => {
                of_futex.waits.add(ns);
                of_futex.waited_in.add(self.waiting.of(system, call.thread), ns);
                of_futex.timed_out += u64::from(result == ETIMEDOUT);
                self.waits.entry((key, call.thread, waker)).or_default().add(ns);
            }
            _ => {}
        }
    }

    fn executed(&mut self, system: &System, thread: ThreadId, _: &[u8], _: i64) {
        self.waiting.executed(system, thread);
    }
}

const FUTEX_COLUMN: Column = column("futex", "FUTEX", Unit::Text);
/// The variable, where that is known.
const LOCK: Column = column("lock", "LOCK", Unit::Text).major();

impl Analysis for Contention {
    fn report(&mut self, system: &System) -> Report {
        let limit = self.options.limit.unwrap_or(LIMIT);
        Report {
            tables: vec![self.hottest(system, limit), self.waiters(system, limit)],
            notes: Vec::new(),
        }
    }
}

impl Contention {
    fn hottest(&self, system: &System, limit: usize) -> Table {
        let columns = [
            PID,
            COMM,
            LOCK,
            FUTEX_COLUMN,
            COUNT,
            TOTAL.major().with_bar(),
            MIN,
            MEAN,
            MAX.minor(),
            column("timed_out", "TIMED OUT", Unit::Count).minor(),
            column("too_late", "TOO LATE", Unit::Count).minor(),
            column("wakes", "WAKES", Unit::Count).minor(),
            column("waiters", "WAITERS", Unit::Count),
            column("waker", "MOST WOKEN BY", Unit::Text).major(),
            column("waited_in", "WAITED IN", Unit::Durations),
        ];
        let mut wakers: FxHashMap<FutexKey, FxHashMap<ThreadId, u64>> = FxHashMap::default();
        let mut waiters: FxHashMap<FutexKey, Vec<ThreadId>> = FxHashMap::default();
        for ((key, waiter, waker), times) in &self.waits {
            waiters.entry(*key).or_default().push(*waiter);
            if let Some(waker) = waker {
                *wakers.entry(*key).or_default().entry(*waker).or_default() += times.count;
            }
        }
        let mut table = Table::new("futexes", "Futexes that threads waited for", &columns);
        let mut sorted: Vec<(&FutexKey, &OfFutex)> =
            self.futexes.iter().filter(|(_, futex)| futex.waits.count > 0).collect();
        sorted.sort_by_key(|(key, futex)| (-futex.waits.total_ns, **key));
        for (key, futex) in sorted.into_iter().take(limit) {
            let threads = waiters.entry(*key).or_default();
            threads.sort_unstable();
            threads.dedup();
            let most = wakers.get(key).and_then(|of| {
                of.iter()
                    .max_by_key(|(waker, count)| (**count, std::cmp::Reverse(**waker)))
            });
            let mut row = vec![
                Value::Number(key.process.pid.into()),
                process_comm(system, key.process),
                futex.name(*key, system),
                address(key.address),
            ];
            row.extend(futex.waits.values());
            row.extend([
                futex.timed_out.into(),
                futex.too_late.into(),
                futex.wakes.into(),
                (threads.len() as u64).into(),
                most.map_or(Value::None, |(waker, _)| named(system, *waker).into()),
                self.waiting.value(system, &futex.waited_in),
            ]);
            table.row(row);
        }
        table
    }

    fn waiters(&self, system: &System, limit: usize) -> Table {
        let columns = [
            TID,
            PID.minor(),
            COMM,
            LOCK,
            FUTEX_COLUMN,
            column("waker", "WOKEN BY", Unit::Text).major(),
            COUNT,
            TOTAL.major().with_bar(),
            MIN,
            MEAN,
            MAX,
        ];
        let mut table = Table::new("waits", "Who waited for them", &columns);
        let mut sorted: Vec<_> = self.waits.iter().collect();
        sorted.sort_by_key(|(key, times)| (-times.total_ns, **key));
        let mut names: FxHashMap<FutexKey, Value> = FxHashMap::default();
        for ((key, waiter, waker), times) in sorted.into_iter().take(limit) {
            let look_up = || {
                self.futexes
                    .get(key)
                    .map_or(Value::None, |futex| futex.name(*key, system))
            };
            let name = names.entry(*key).or_insert_with(look_up).clone();
            let mut row = vec![
                tid(system, *waiter),
                pid(system, *waiter),
                comm(system, *waiter),
                name,
                address(key.address),
                waker.map_or(Value::None, |waker| named(system, waker).into()),
            ];
            row.extend(times.values());
            table.row(row);
        }
        table
    }
}

pub(super) fn address(address: u64) -> Value {
    format!("{address:#x}").into()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::memory::TwoFunctions;
    use crate::model::{Circumstances, script};

    #[test]
    fn waits_are_summed_up_by_futex_and_by_who_woke() {
        let mut contention = (FUTEX.begin)(&Options::default());
        let mut system = System::new(Circumstances::whole(0));
        // 2 waits for 1, which has the lock, then is too late; 3 waits for another lock and nobody comes.
        let lines = "
            1 cpu0 switch 9 waits 1
            1 cpu1 switch 8 waits 2
            2 cpu0 thread 1 3
            5 cpu1 futex wait 64
            10 cpu1 switch 2 waits 3
            12 cpu1 futex wait 128
            15 cpu1 switch 3 waits 0
            30 cpu0 futex wake 64
            31 cpu0 waking 2
            33 cpu0 return 1
            35 cpu1 switch 0 runs 2
            36 cpu1 return 0
            40 cpu1 futex wait 64
            42 cpu1 return -11
            50 cpu1 switch 2 waits 0
            60 cpu1 timer
            61 cpu1 waking 3
            62 cpu1 timerend
            63 cpu1 switch 0 runs 3
            65 cpu1 return -110";
        script::apply(&mut system, lines, contention.as_mut());
        system.finish(100, contention.as_mut());
        let report = contention.report(&system);
        let csv: Vec<String> = report.tables.iter().map(Table::csv).collect();
        let rows = |table: usize| csv[table].lines().skip(1).collect::<Vec<_>>();
        assert_eq!(
            rows(0),
            [
                "1,,,0x80,1,53,53,53,53,1,0,0,1,,",
                "2,,,0x40,1,31,31,31,31,0,1,0,1,(1),"
            ]
        );
        assert_eq!(
            rows(1),
            ["3,1,child,,0x80,,1,53,53,53,53", "2,,,,0x40,(1),1,31,31,31,31"]
        );
    }

    #[test]
    fn the_functions_that_waited_are_named_where_the_trace_has_stacks() {
        let mut contention = (FUTEX.begin)(&Options::default());
        let mut system = System::new(Circumstances::whole(0));
        system.set_memory(Arc::new(TwoFunctions));
        // The stack of the switch, of the call where the switch has none, and none at all; a stack of an earlier call is not meant.
        let lines = "
            1 cpu0 switch 9 waits 1
            1 cpu1 switch 8 waits 2
            5 cpu1 futex wait 64
            10 cpu1 switch 2 waits 0 @7,100,9
            30 cpu0 waking 2
            33 cpu1 switch 0 runs 2
            35 cpu1 return 0
            40 cpu1 futex wait 64 @7,200,9
            50 cpu1 switch 2 waits 0
            60 cpu0 waking 2
            63 cpu1 switch 0 runs 2
            65 cpu1 return 0
            70 cpu1 futex wait 64 @7,100,9
            71 cpu1 return 0
            72 cpu1 futex wait 64
            80 cpu1 switch 2 waits 0
            81 cpu0 waking 2
            82 cpu1 switch 0 runs 2
            84 cpu1 return 0";
        script::apply(&mut system, lines, contention.as_mut());
        system.finish(100, contention.as_mut());
        let futexes = contention.report(&system).tables.swap_remove(0).csv();
        let row = futexes.lines().nth(1).unwrap_or_default();
        assert!(row.ends_with(",\"take_order 31, flush 25, unknown 12\""), "{row}");
    }
}
