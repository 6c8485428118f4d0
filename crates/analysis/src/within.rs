// SPDX-License-Identifier: MIT OR Apache-2.0
//! What threads did in intervals that somebody chose.

use rustc_hash::FxHashMap;

use crate::analyses::{BEHIND, named};
use crate::cause::{Cause, Causes};
use crate::durations::Durations;
use crate::model::{Listen, Nature, Slice, State, System, ThreadId};
use crate::names::Name;
use crate::report::{Column, Unit, Value, column};

/// An interval of a thread's time, in nanoseconds from the clock's origin.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the names say all")]
pub struct Interval {
    pub tid: i32,
    pub begin_ns: i64,
    pub end_ns: i64,
}

/// What [`Within::values`] returns.
pub const COLUMNS: [Column; 7] = [
    column("running_ns", "RUNNING", Unit::Nanoseconds),
    column("runnable_ns", "RUNNABLE", Unit::Nanoseconds),
    BEHIND,
    column("blocked_ns", "BLOCKED", Unit::Nanoseconds),
    column("blocked_for", "FOR", Unit::Durations),
    column("in_syscalls", "IN SYSTEM CALLS", Unit::Durations),
    column("unknown_ns", "UNKNOWN", Unit::Nanoseconds).minor(),
];

/// Sums up what threads did in each of some intervals.
#[derive(Debug, Default)]
pub struct Within {
    intervals: Vec<(Interval, Spent)>,
    /// The places of a thread's intervals.
    by_tid: FxHashMap<i32, Vec<usize>>,
    causes: Causes,
}

#[derive(Debug, Default)]
struct Spent {
    running_ns: i64,
    runnable_ns: i64,
    behind: Durations<ThreadId>,
    blocked_ns: i64,
    /// For what, and which thread ended it.
    blocked_for: Durations<(Cause, Option<ThreadId>)>,
    /// On a CPU and waiting.
    in_calls: Durations<Name>,
    unknown_ns: i64,
}

impl Within {
    /// Before the first event.
    pub fn new(intervals: impl IntoIterator<Item = Interval>) -> Within {
        let mut within = Within::default();
        for interval in intervals {
            within
                .by_tid
                .entry(interval.tid)
                .or_default()
                .push(within.intervals.len());
            within.intervals.push((interval, Spent::default()));
        }
        within
    }

    /// Of the columns, those that say where most of the time is are the last to be left out where there is no room for all.
    pub fn rank(&self, columns: &mut [Column]) {
        let sum = |of: fn(&Spent) -> i64| self.intervals.iter().map(|(_, spent)| of(spent)).sum::<i64>();
        let most_is_blocked = sum(|spent| spent.blocked_ns) >= sum(|spent| spent.runnable_ns);
        let (first, last) = match most_is_blocked {
            true => (["blocked_ns", "blocked_for"], ["runnable_ns", "behind"]),
            false => (["runnable_ns", "behind"], ["blocked_ns", "blocked_for"]),
        };
        for column in columns {
            if first.contains(&column.key) {
                *column = column.major();
            } else if last.contains(&column.key) {
                *column = column.minor();
            }
        }
    }

    /// What a thread did in one of them, in the order of [`COLUMNS`]. The trace is over.
    pub fn values(&self, system: &System, place: usize) -> [Value; COLUMNS.len()] {
        let spent = &self.intervals[place].1;
        let cause_named = |(cause, by): (Cause, Option<ThreadId>)| match by {
            Some(by) => format!("{}: {}", cause.text(), named(system, by)),
            None => cause.text().to_owned(),
        };
        [
            Value::Number(spent.running_ns),
            Value::Number(spent.runnable_ns),
            spent.behind.value(|id| named(system, id)),
            Value::Number(spent.blocked_ns),
            spent.blocked_for.value(cause_named),
            spent.in_calls.value(|call| system.names.text(call).to_owned()),
            Value::Number(spent.unknown_ns),
        ]
    }
}

impl Listen for Within {
    fn looks_ahead(&self) -> bool {
        true
    }

    fn slice(&mut self, system: &System, slice: &Slice) {
        let Some(places) = self.by_tid.get(&system.thread(slice.thread).tid) else {
            return;
        };
        for place in places {
            let (interval, spent) = &mut self.intervals[*place];
            let (begin_ns, end_ns) = (slice.begin_ns.max(interval.begin_ns), slice.end_ns.min(interval.end_ns));
            let ns = end_ns - begin_ns;
            if ns <= 0 {
                continue;
            }
            let call = match slice.state {
                State::Running { mode, .. } => {
                    spent.running_ns += ns;
                    mode.call()
                }
                State::Runnable(_) => {
                    spent.runnable_ns += ns;
                    system.behind(slice.thread, (begin_ns, end_ns), |who, ns| spent.behind.add(who, ns));
                    None
                }
                State::Blocked(wait) => {
                    spent.blocked_ns += ns;
                    let waker = slice.wake.and_then(|wake| wake.by_thread());
                    let waker = waker.filter(|id| system.thread(*id).nature != Nature::Idle);
                    let cause = self.causes.of(system, wait, slice.wake);
                    spent.blocked_for.add(Some((cause, waker)), ns);
                    wait.call
                }
                State::Stopped => {
                    spent.blocked_ns += ns;
                    None
                }
                State::Unknown => {
                    spent.unknown_ns += ns;
                    None
                }
                State::Unborn | State::Dead => None,
            };
            if call.is_some() {
                spent.in_calls.add(call, ns);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Circumstances, script};

    #[test]
    fn what_a_thread_did_in_an_interval_is_summed_up() {
        let lines = "
            1 cpu0 switch 9 waits 1
            1 cpu1 switch 8 waits 5
            10 cpu0 call read
            20 cpu0 switch 1 waits 2
            40 cpu1 waking 1 0
            60 cpu0 switch 2 runs 1
            70 cpu0 return 0
            90 cpu0 switch 1 waits 0";
        let intervals = [(1, 5, 80), (1, 30, 50), (3, 0, 100)];
        let intervals = intervals.map(|(tid, begin_ns, end_ns)| Interval { tid, begin_ns, end_ns });
        let mut within = Within::new(intervals);
        let mut system = System::new(Circumstances::whole(0));
        script::apply(&mut system, lines, &mut within);
        system.finish(100, &mut within);
        let shown = |place| {
            let values = within.values(&system, place);
            values.map(|value| value.csv()).join(" ")
        };
        assert_eq!(shown(0), "35 20 (2) 20 20 thread: (5) 20 read 40 0");
        assert_eq!(shown(1), "0 10 (2) 10 10 thread: (5) 10 read 10 0");
        assert_eq!(shown(2), "0 0  0   0");
    }
}
