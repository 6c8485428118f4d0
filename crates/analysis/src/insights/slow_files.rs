// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads and writes that once took far longer than a process's others. Only what no signal ends counts, as waits for a disk are: who waits for
//! what comes through a pipe or from a terminal, or for a CPU, has that not from a file.

use rustc_hash::FxHashMap;

use super::occurrences::{LONGEST, Occurrences};
use super::{Closer, Detector, Insight, Level, file_named, process_named};
use crate::analyses::totals::PerThread;
use crate::measure::Times;
use crate::model::{FileCall, FileId, FileOperation, Listen, ProcessId, Slice, State, System, ThreadId};
use crate::names::Name;
use crate::report::{Unit, Value, column};

/// A disk that turns finds a place in a hundredth of a second; what takes five times as long has waited for others.
const SLOW_NS: i64 = 50_000_000;
/// So much longer than the others are on average.
const TIMES: i64 = 100;
/// Of fewer nobody knows what is usual.
const ENOUGH: u64 = 50;

#[derive(Default)]
pub(super) struct SlowFiles {
    by_process: FxHashMap<(ProcessId, FileOperation), OfProcess>,
    /// In which call a thread has waited for sure, and how long.
    waited: PerThread<Option<(Name, i64)>>,
}

struct OfProcess {
    usual: Times,
    slow: Occurrences,
    slowest: ThreadId,
    slowest_file: Option<FileId>,
}

impl Listen for SlowFiles {
    #[inline]
    fn slice(&mut self, _: &System, slice: &Slice) {
        if let State::Blocked(wait) = slice.state
            && wait.is_sure
            && let Some(call) = wait.call
        {
            let waited = self.waited.of(slice.thread);
            let before_ns = waited.filter(|(before, _)| *before == call).map_or(0, |(_, ns)| ns);
            *waited = Some((call, before_ns + slice.duration_ns()));
        }
    }

    fn file_call(&mut self, system: &System, file_call: &FileCall) {
        let call = &file_call.call;
        let waited = self.waited.of(call.thread).take();
        let is_meant = matches!(file_call.operation, FileOperation::Read | FileOperation::Write);
        if !is_meant || call.result < 0 {
            return;
        }
        let key = (system.thread(call.thread).process(), file_call.operation);
        let own = self.by_process.entry(key).or_insert_with(|| OfProcess {
            usual: Times::default(),
            slow: Occurrences::default(),
            slowest: call.thread,
            slowest_file: None,
        });
        let ns = waited.filter(|(of, _)| *of == call.name).map_or(0, |(_, ns)| ns);
        if ns < SLOW_NS {
            own.usual.add(call.end_ns - call.begin_ns);
        } else if own.slow.add((call.begin_ns, call.end_ns), ns) {
            own.slowest = call.thread;
            own.slowest_file = file_call.target.or(file_call.source).map(|opened| opened.file);
        }
    }
}

impl Detector for SlowFiles {
    fn find(&mut self, system: &System) -> Vec<Insight> {
        let is_unusual = |own: &OfProcess| {
            own.usual.count >= ENOUGH
                && own.slow.times.max_ns >= TIMES * own.usual.mean_ns()
                && own.slow.times.count > 0
        };
        let found = self.by_process.iter().filter(|(_, own)| is_unusual(own));
        found
            .map(|((process, operation), own)| {
                let mut evidence = own.slow.evidence();
                evidence.truncate(2);
                evidence.extend([
                    (LONGEST, Value::Number(own.slow.times.max_ns)),
                    (
                        column("mean_ns", "otherwise", Unit::Nanoseconds),
                        Value::Number(own.usual.mean_ns()),
                    ),
                    (column("calls", "other call", Unit::Count), own.usual.count.into()),
                ]);
                Insight {
                    kind: "slow file",
                    level: Level::Notable,
                    what: format!(
                        "{} waited unusually long to {}{}",
                        process_named(system, *process),
                        operation.text(),
                        file_named(system, own.slowest_file, " ")
                    ),
                    span_ns: own.slow.span_ns,
                    longest_ns: Some(own.slow.longest_ns),
                    cost_ns: own.slow.times.total_ns,
                    evidence,
                    closer: Closer::new("iolog")
                        .with("--tid", system.thread(own.slowest).tid)
                        .with("--min", format!("{}ms", SLOW_NS / 1_000_000))
                        .during(own.slow.longest_ns),
                }
            })
            .collect()
    }
}
