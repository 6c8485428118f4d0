// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes that waited for what no signal ends: a disk, mostly, or a lock of the kernel that another thread had.

use rustc_hash::FxHashMap;

use super::occurrences::Occurrences;
use super::{Closer, Detector, Insight, Level, process_named};
use crate::cause::{Cause, Causes};
use crate::model::{Listen, Nature, ProcessId, Slice, State, System};
use crate::names::Name;

/// People notice a tenth of a second; a disk that turns finds a place in a hundredth.
const LONG_NS: i64 = 100_000_000;
/// Many short ones matter as well when they are this part of the time,
const SHARE_PERCENT: i64 = 10;
/// and not next to nothing.
const LITTLE_NS: i64 = 20_000_000;
/// Who waits that long hangs.
const HANGS_NS: i64 = 2_000_000_000;

#[derive(Default)]
pub(super) struct Uninterruptible {
    causes: Causes,
    by_process: FxHashMap<(ProcessId, Cause), (Occurrences, Option<Name>)>,
}

impl Listen for Uninterruptible {
    fn slice(&mut self, system: &System, slice: &Slice) {
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
        let (waits, call) = self.by_process.entry((process, cause)).or_default();
        if waits.add((slice.begin_ns, slice.end_ns), slice.duration_ns()) {
            *call = wait.call;
        }
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
        let share_ns = ((end_ns - begin_ns) / 100 * SHARE_PERCENT).max(LITTLE_NS);
        let is_much = |waits: &Occurrences| waits.times.max_ns >= LONG_NS || waits.times.total_ns >= share_ns;
        let found = self.by_process.iter().filter(|(_, (waits, ..))| is_much(waits));
        found
            .map(|((process, cause), (waits, call))| {
                let what = match cause {
                    Cause::Io => "a disk or a similar device",
                    Cause::Thread => "another thread in the kernel, in most cases for a lock",
                    _ => "something in the kernel, in a wait that no signal ends",
                };
                let call = call.map_or(String::new(), |call| {
                    format!(", the longest in {}", system.names.text(call))
                });
                Insight {
                    kind: "uninterruptible wait",
                    level: match waits.times.max_ns {
                        HANGS_NS.. => Level::Serious,
                        _ => Level::Notable,
                    },
                    what: format!("{} waited for {what}{call}", process_named(system, *process)),
                    span_ns: waits.span_ns,
                    cost_ns: waits.times.total_ns,
                    evidence: waits.evidence(),
                    closer: Closer::new("blocked").with("--pid", process).during(waits.span_ns),
                }
            })
            .collect()
    }
}
