// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes that waited for what no signal ends: a disk, mostly, or a lock of the kernel that another thread had; and in which system calls
//! they did.

use rustc_hash::FxHashMap;

use super::occurrences::{COUNT, LONGEST, Occurrences, TOTAL};
use super::{Closer, Detector, Insight, Level, process_named};
use crate::analyses::totals::PerThread;
use crate::cause::{Cause, Causes};
use crate::durations::Durations;
use crate::model::{Call, FileCall, FileId, Listen, Nature, ProcessId, Slice, State, System};
use crate::names::Name;
use crate::report::{Column, Unit, Value, column};

/// People notice a tenth of a second; a disk that turns finds a place in a hundredth.
const LONG_NS: i64 = 100_000_000;
/// Many short ones matter as well when they are this part of the time, without that in which others had the CPUs: a busy machine does not hide a slow
/// disk,
const SHARE_PERCENT: i64 = 10;
/// and not next to nothing.
const LITTLE_NS: i64 = 20_000_000;
/// Who waits that long hangs.
const HANGS_NS: i64 = 2_000_000_000;

const CALLS: Column = column("calls", "system call", Unit::Count);
const LIFE: Column = column("life_ns", "of", Unit::Nanoseconds);
const BY_CALL: Column = column("by_call", "in", Unit::Durations);
const BY_FILE: Column = column("by_file", "on", Unit::Durations);

#[derive(Default)]
pub(super) struct Uninterruptible {
    causes: Causes,
    by_process: FxHashMap<(ProcessId, Cause), Waits>,
    /// What the thread waited for last in the call that it is in, and how long it waited there.
    in_call: PerThread<Option<(Cause, i64)>>,
    /// How long each thread waited for a CPU.
    for_cpu_ns: PerThread<i64>,
}

#[derive(Default)]
struct Waits {
    all: Occurrences,
    /// Those in each system call. Others are in none, as in a page fault.
    by_call: Durations<Name>,
    /// Those in system calls that have to do with a file.
    by_file: Durations<FileId>,
    /// How many system calls had waits.
    calls: u64,
}

impl Listen for Uninterruptible {
    fn slice(&mut self, system: &System, slice: &Slice) {
        if let State::Runnable(_) = slice.state {
            *self.for_cpu_ns.of(slice.thread) += slice.duration_ns();
        }
        let State::Blocked(wait) = slice.state else { return };
        if !wait.is_sure || system.thread(slice.thread).nature == Nature::Kernel {
            return;
        }
        let cause = self.causes.of(system, wait, slice.wake);
        // A parent waits like that for what it cloned, and drivers do for time.
        let is_clone = wait.call.is_some_and(|call| is_clone(system.names.text(call)));
        if is_clone || !matches!(cause, Cause::Io | Cause::Thread | Cause::Unknown) {
            return;
        }
        let process = system.thread(slice.thread).process();
        let waits = self.by_process.entry((process, cause)).or_default();
        waits.all.add((slice.begin_ns, slice.end_ns), slice.duration_ns());
        if wait.call.is_some() {
            waits.by_call.add(wait.call, slice.duration_ns());
        }
        let in_call = self.in_call.of(slice.thread);
        let before_ns = in_call.map_or(0, |(_, ns)| ns);
        *in_call = wait.call.map(|_| (cause, before_ns + slice.duration_ns()));
    }

    fn file_call(&mut self, system: &System, file_call: &FileCall) {
        let thread = file_call.call.thread;
        if let Some((cause, ns)) = *self.in_call.of(thread)
            && let Some(opened) = file_call.target.or(file_call.source)
        {
            let process = system.thread(thread).process();
            let waits = self.by_process.entry((process, cause)).or_default();
            waits.by_file.add(Some(opened.file), ns);
        }
    }

    #[inline]
    fn call(&mut self, system: &System, call: &Call) {
        if let Some((cause, _)) = self.in_call.take(call.thread) {
            let process = system.thread(call.thread).process();
            self.by_process.entry((process, cause)).or_default().calls += 1;
        }
    }
}

impl Uninterruptible {
    /// For each process, how long that of its threads waited for a CPU that waited longest.
    fn longest_for_cpu_ns(&self, system: &System) -> FxHashMap<ProcessId, i64> {
        let mut longest: FxHashMap<ProcessId, i64> = FxHashMap::default();
        for (id, thread) in system.threads() {
            let of_process = longest.entry(thread.process()).or_default();
            *of_process = self.for_cpu_ns.get(id).copied().unwrap_or(0).max(*of_process);
        }
        longest
    }
}

fn is_clone(call: &str) -> bool {
    matches!(
        call.strip_prefix("compat_").unwrap_or(call),
        "vfork" | "clone" | "clone3"
    )
}

impl Detector for Uninterruptible {
    fn find(&mut self, system: &System) -> Vec<Insight> {
        let (begin_ns, end_ns) = system.told();
        let for_cpu_ns = self.longest_for_cpu_ns(system);
        let share_ns = |process: &ProcessId| {
            let others_ns = for_cpu_ns.get(process).copied().unwrap_or(0);
            ((end_ns - begin_ns - others_ns) / 100 * SHARE_PERCENT).max(LITTLE_NS)
        };
        let is_much = |process: &ProcessId, waits: &Occurrences| {
            waits.times.max_ns >= LONG_NS || waits.times.total_ns >= share_ns(process)
        };
        let found = self
            .by_process
            .iter()
            .filter(|((process, _), waits)| is_much(process, &waits.all));
        found
            .map(|((process, cause), waits)| {
                let what = match cause {
                    Cause::Io => "a disk or a similar device",
                    Cause::Thread => "another thread in the kernel, usually for a lock",
                    _ => "something in the kernel, in a wait that no signal can end",
                };
                let times = &waits.all.times;
                let call_named = |call| system.names.text(call).to_owned();
                let file_named = |file| system.names.text(system.file(file).name).to_owned();
                let of_file = match waits.by_file.sorted().first() {
                    Some((Some(file), ns)) if 2 * ns > times.total_ns => file_named(*file),
                    _ => String::new(),
                };
                let mostly = match (waits.by_call.sorted().first(), of_file.as_str()) {
                    (Some((Some(call), ns)), "") if 2 * ns > times.total_ns => {
                        format!(", mostly in {}", call_named(*call))
                    }
                    (Some((Some(call), ns)), file) if 2 * ns > times.total_ns => {
                        format!(", mostly in {} on {file}", call_named(*call))
                    }
                    (_, "") => String::new(),
                    (_, file) => format!(", mostly for {file}"),
                };
                let leader = system.leader(*process).map(|leader| system.thread(leader));
                let born_ns = leader.and_then(|thread| thread.born_ns).unwrap_or(begin_ns);
                let died_ns = leader.and_then(|thread| thread.died_ns).unwrap_or(end_ns);
                let life_ns = died_ns.min(end_ns) - born_ns.max(begin_ns);
                let mut evidence = vec![(COUNT, times.count.into())];
                if waits.calls > 0 {
                    evidence.push((CALLS, waits.calls.into()));
                }
                evidence.push((TOTAL, Value::Number(times.total_ns)));
                // Of several threads it may be more.
                if times.total_ns <= life_ns {
                    evidence.push((LIFE, Value::Number(life_ns)));
                }
                evidence.push((LONGEST, Value::Number(times.max_ns)));
                if !waits.by_call.is_empty() {
                    evidence.push((BY_CALL, waits.by_call.value(call_named)));
                }
                if !waits.by_file.is_empty() {
                    let named = |file| Some(file_named(file)).filter(|name| !name.is_empty());
                    let named = |file| named(file).unwrap_or_else(|| "unknown".to_owned());
                    evidence.push((BY_FILE, waits.by_file.value(named)));
                }
                Insight {
                    kind: "uninterruptible wait",
                    level: match times.max_ns {
                        HANGS_NS.. => Level::Serious,
                        _ => Level::Notable,
                    },
                    what: format!("{} waited for {what}{mostly}", process_named(system, *process)),
                    span_ns: waits.all.span_ns,
                    longest_ns: Some(waits.all.longest_ns),
                    cost_ns: times.total_ns,
                    evidence,
                    closer: Closer::new("blocked").with("--pid", process).during(waits.all.span_ns),
                }
            })
            .collect()
    }
}
