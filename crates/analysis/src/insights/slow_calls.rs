// SPDX-License-Identifier: MIT OR Apache-2.0
//! System calls that mostly are quick, and once were not, although their thread had a CPU or waited for something else than one. Failures, which
//! end early, are not counted.

use rustc_hash::FxHashMap;

use super::occurrences::{LONGEST, Occurrences};
use super::{Closer, Detector, Insight, Level, file_named};
use crate::analyses::named;
use crate::analyses::totals::PerThread;
use crate::measure::Distribution;
use crate::model::{Call, FileCall, FileId, Listen, Slice, State, System, ThreadId};
use crate::names::Name;
use crate::report::{Unit, Value, column};

/// Shorter ones nobody notices, and any thread may lose its CPU for some milliseconds.
const SLOW_NS: i64 = 10_000_000;
/// So much longer than the one in the middle.
const TIMES: i64 = 100;
/// Of fewer nobody knows what is usual.
const ENOUGH: u64 = 50;
/// Shorter waits for a CPU are not kept,
const TURN_NS: i64 = 1_000_000;
/// and no more of a thread between two calls.
const TURNS: usize = 64;
/// Begins of the names of calls whose purpose is to wait: for others, for time, for what comes through a pipe.
const WAIT: [&str; 26] = [
    "read",
    "write",
    "pread",
    "pwrite",
    "recv",
    "send",
    "accept",
    "connect",
    "poll",
    "ppoll",
    "select",
    "pselect",
    "epoll_",
    "futex",
    "wait",
    "nanosleep",
    "clock_nanosleep",
    "pause",
    "rt_sig",
    "io_",
    "sem",
    "msg",
    "mq_",
    "ioctl",
    "sched_yield",
    "vfork",
];
/// The same, exactly.
const WAIT_TOO: [&str; 5] = ["clone", "clone3", "splice", "flock", "fcntl"];

#[derive(Default)]
pub(super) struct SlowCalls {
    calls: FxHashMap<Name, Option<OfCall>>,
    /// When threads waited for a CPU, since their last slow call.
    turns: FxHashMap<ThreadId, Vec<(i64, i64)>>,
    /// How long each thread was blocked in the call that it is in.
    blocked_ns: PerThread<i64>,
    /// The file of the call that it is in.
    files: PerThread<Option<FileId>>,
}

struct OfCall {
    all: Distribution,
    slow: Occurrences,
    slowest: ThreadId,
    slowest_file: Option<FileId>,
    /// The slowest one waited for something most of its time.
    is_wait: bool,
}

fn is_to_wait(name: &str) -> bool {
    let name = name.strip_prefix("compat_").unwrap_or(name);
    WAIT.iter().any(|begin| name.starts_with(begin)) || WAIT_TOO.contains(&name)
}

impl Listen for SlowCalls {
    #[inline]
    fn slice(&mut self, _: &System, slice: &Slice) {
        if let State::Blocked(_) = slice.state {
            *self.blocked_ns.of(slice.thread) += slice.duration_ns();
        }
        if let State::Runnable(_) = slice.state
            && slice.duration_ns() >= TURN_NS
        {
            let turns = self.turns.entry(slice.thread).or_default();
            if turns.len() == TURNS {
                turns.remove(0);
            }
            turns.push((slice.begin_ns, slice.end_ns));
        }
    }

    fn died(&mut self, _: &System, thread: ThreadId, _: i64) {
        self.turns.remove(&thread);
    }

    #[inline]
    fn file_call(&mut self, _: &System, file_call: &FileCall) {
        let opened = file_call.target.or(file_call.source);
        *self.files.of(file_call.call.thread) = opened.map(|opened| opened.file);
    }

    #[inline]
    fn call(&mut self, system: &System, call: &Call) {
        let blocked_ns = std::mem::take(self.blocked_ns.of(call.thread));
        let file = self.files.take(call.thread);
        if call.result < 0 {
            return;
        }
        let known = self.calls.entry(call.name).or_insert_with(|| {
            let fresh = || OfCall {
                all: Distribution::default(),
                slow: Occurrences::default(),
                slowest: call.thread,
                slowest_file: None,
                is_wait: false,
            };
            (!is_to_wait(system.names.text(call.name))).then(fresh)
        });
        let Some(own) = known else { return };
        let mut ns = call.end_ns - call.begin_ns;
        if ns >= SLOW_NS {
            let turns = self.turns.remove(&call.thread).unwrap_or_default();
            let inside = turns.iter().filter(|(begin_ns, _)| *begin_ns >= call.begin_ns);
            ns -= inside.map(|(begin_ns, end_ns)| end_ns - begin_ns).sum::<i64>();
        }
        own.all.add(ns);
        if ns >= SLOW_NS && own.slow.add((call.begin_ns, call.end_ns), ns) {
            own.slowest = call.thread;
            own.slowest_file = file;
            own.is_wait = blocked_ns > ns / 2;
        }
    }
}

impl Detector for SlowCalls {
    fn find(&mut self, system: &System) -> Vec<Insight> {
        let known = self.calls.iter().filter_map(|(name, own)| Some((name, own.as_ref()?)));
        let mut found = Vec::new();
        for (name, own) in known.filter(|(_, own)| own.all.times.count >= ENOUGH) {
            let median = own.all.percentile(50.0);
            if !matches!(median, Value::Number(ns) if own.slow.times.max_ns >= TIMES * ns) || own.slow.times.count == 0
            {
                continue;
            }
            let mut evidence = own.slow.evidence();
            evidence.truncate(2);
            evidence.extend([
                (LONGEST, Value::Number(own.slow.times.max_ns)),
                (column("p50_ns", "usually", Unit::Nanoseconds), median),
                (column("calls", "system call", Unit::Count), own.all.times.count.into()),
            ]);
            let slowest = own.slowest;
            found.push(Insight {
                kind: "slow call",
                level: Level::Notable,
                what: format!(
                    "{} took unusually long, longest in {}{}",
                    system.names.text(*name),
                    named(system, slowest),
                    file_named(system, own.slowest_file, ", on ")
                ),
                span_ns: own.slow.span_ns,
                longest_ns: Some(own.slow.longest_ns),
                cost_ns: own.slow.times.total_ns,
                evidence,
                closer: match own.is_wait {
                    true => Closer::new("blocked"),
                    false => Closer::new("syscallstats"),
                }
                .with("--tid", system.thread(slowest).tid)
                .during(own.slow.longest_ns),
            });
        }
        found
    }
}
