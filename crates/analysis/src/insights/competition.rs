// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who kept a CPU busy all the time, and who waited for one more than it had one.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::occurrences::TOTAL;
use super::{Closer, Detector, Insight, Level, process_named};
use crate::analyses::named;
use crate::analyses::totals::PerThread;
use crate::durations::Durations;
use crate::model::{Listen, Nature, ProcessId, Slice, State, System, ThreadId, Why};
use crate::report::{Column, Unit, Value, column};

/// A thread that has a CPU this part of the time is what everything else waits for.
const HOG_PERCENT: i64 = 90;
/// Who waits less than this part of the time loses little.
const WAITS_PERCENT: i64 = 10;
/// In less time than this a share says nothing.
const ENOUGH_NS: i64 = 100_000_000;

const BEHIND: Column = column("behind", "behind", Unit::Durations);

#[derive(Default)]
pub(super) struct Competition {
    threads: PerThread<OfThread>,
    /// Which processes had the CPUs that those of a process waited for.
    behind: FxHashMap<ProcessId, Durations<ProcessId>>,
}

#[derive(Clone, Copy, Default)]
struct OfThread {
    had_ns: i64,
    waited_ns: i64,
}

impl Listen for Competition {
    #[inline]
    fn slice(&mut self, system: &System, slice: &Slice) {
        match slice.state {
            State::Running { .. } => self.threads.of(slice.thread).had_ns += slice.duration_ns(),
            // Who lets others go first wants that.
            State::Runnable(Why::Yielded) => {}
            State::Runnable(_) => {
                self.threads.of(slice.thread).waited_ns += slice.duration_ns();
                if system.thread(slice.thread).nature == Nature::Idle {
                    return;
                }
                let process_of = |id| system.thread(id).process();
                let behind = self.behind.entry(process_of(slice.thread)).or_default();
                system.behind(slice.thread, (slice.begin_ns, slice.end_ns), |who, ns| {
                    behind.add(who.map(process_of), ns);
                });
            }
            _ => {}
        }
    }
}

impl Competition {
    fn behind_whom(&self, system: &System, process: ProcessId) -> Value {
        let named = |other: ProcessId| match other.pid {
            0 => "idle".to_owned(),
            _ if other == process => "its own threads".to_owned(),
            _ => process_named(system, other),
        };
        self.behind
            .get(&process)
            .map_or(Value::None, |behind| behind.value(named))
    }
}

impl Detector for Competition {
    fn find(&mut self, system: &System) -> Vec<Insight> {
        let told_ns = system.told();
        let duration_ns = told_ns.1 - told_ns.0;
        if duration_ns < ENOUGH_NS {
            return Vec::new();
        }
        let mut found = Vec::new();
        let mut by_process: BTreeMap<ProcessId, OfThread> = BTreeMap::new();
        let is_meant = |id: &ThreadId| !matches!(system.thread(*id).nature, Nature::Idle);
        for (id, own) in system
            .threads()
            .map(|(id, _)| id)
            .filter(is_meant)
            .filter_map(|id| Some((id, self.threads.get(id)?)))
        {
            let process = by_process.entry(system.thread(id).process()).or_default();
            process.had_ns += own.had_ns;
            process.waited_ns += own.waited_ns;
            if own.had_ns >= duration_ns / 100 * HOG_PERCENT {
                found.push(Insight {
                    kind: "busy thread",
                    level: Level::Information,
                    what: format!(
                        "{} ran on a CPU nearly all the time, so a single CPU limits its speed",
                        named(system, id)
                    ),
                    span_ns: told_ns,
                    longest_ns: None,
                    cost_ns: own.had_ns,
                    evidence: vec![
                        (TOTAL, Value::Number(own.had_ns)),
                        (
                            column("of_time_percent", "% of the time", Unit::Percent),
                            Value::share(own.had_ns, duration_ns),
                        ),
                    ],
                    closer: Closer::new("ltt").with("--tid", system.thread(id).tid),
                });
            }
        }
        for (process, own) in by_process {
            if own.waited_ns > own.had_ns && own.waited_ns >= duration_ns / 100 * WAITS_PERCENT {
                found.push(Insight {
                    kind: "no CPU",
                    level: Level::Notable,
                    what: format!(
                        "{} waited for a CPU longer than it ran on one",
                        process_named(system, process)
                    ),
                    span_ns: told_ns,
                    longest_ns: None,
                    cost_ns: own.waited_ns,
                    evidence: vec![
                        (
                            column("waited_ns", "waited", Unit::Nanoseconds),
                            Value::Number(own.waited_ns),
                        ),
                        (column("on_cpu_ns", "ran", Unit::Nanoseconds), Value::Number(own.had_ns)),
                        (BEHIND, self.behind_whom(system, process)),
                    ],
                    closer: Closer::new("schedstats").with("--pid", process),
                });
            }
        }
        found
    }
}
