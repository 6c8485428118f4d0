// SPDX-License-Identifier: MIT OR Apache-2.0
//! The model of a trace that grows: it is read while it is written, and opened again for each part. It knows what descriptors stand for; what
//! threads did needs the whole trace ([`crate::Ground`]).

use std::collections::{HashMap, HashSet};

use piste_analysis::model::{Circumstances, Gap, Gaps, Nobody, System, descriptor_calls};
use piste_analysis::pass::Pass;
use piste_trace::blind::{Blind, blind};
use piste_trace::merge::Merged;
use piste_trace::{Merge, Span, Trace};

use crate::{gap, hand_on};

/// A model of the parts that were read so far.
#[derive(Default)]
pub struct Growing {
    /// From the first event on.
    pass: Option<Pass<Nobody>>,
    gaps: HashSet<Gap>,
    /// By process: when its latest event happened. There are as many as the kernel has numbers.
    latest_ns: HashMap<i32, i64>,
}

impl Growing {
    /// The traces were opened again, for the next part.
    pub fn reopen(&mut self, traces: &[Trace]) {
        if let Some(pass) = &mut self.pass {
            pass.reopen();
        }
        for blind in traces.iter().flat_map(missing) {
            self.lose(gap(blind));
        }
    }

    /// The next event, which `merge` has just given, and its thread.
    ///
    /// Where the machine is busy, events of one CPU may come after later ones of another. A late one that changes descriptors makes those of its
    /// process unknown; others are left out.
    pub fn event<'t>(&mut self, merge: &mut Merge<'t>, merged: &Merged<'t>, tid: i32) {
        for blind in std::mem::take(&mut merge.blind) {
            self.lose(gap(blind));
        }
        let class: &str = &merged.event.class.name;
        let ns = merge.stream(merged.stream).ns(&merged.event).unwrap_or(0);
        let is_late = self.is_late(class, tid, ns);
        if is_late && !changes_descriptors(class) {
            return;
        }
        let Growing { pass, gaps, .. } = self;
        hand_on(merge, merged, Span::ALL, |incoming| {
            let begin_ns = incoming.ns;
            let pass = pass.get_or_insert_with(|| Pass::new(circumstances(begin_ns, gaps), Nobody));
            pass.event(incoming);
        });
        if let Some(pass) = self.pass.as_mut().filter(|_| is_late) {
            pass.system.forget_files_of(tid);
        }
    }

    /// What is known so far.
    pub fn system(&self) -> Option<&System> {
        self.pass.as_ref().map(|pass| &pass.system)
    }

    /// The same, to tell it more.
    pub fn system_mut(&mut self) -> Option<&mut System> {
        self.pass.as_mut().map(|pass| &mut pass.system)
    }

    /// A later event of its process has come. Those of the state dump are of no process, and may come at any time.
    fn is_late(&mut self, class: &str, tid: i32, ns: i64) -> bool {
        let Some(system) = self.system().filter(|_| !class.contains("statedump")) else {
            return false;
        };
        let thread = system.find(tid).map(|id| system.thread(id));
        let process = thread.map_or(tid, |thread| thread.process().pid);
        let latest_ns = self.latest_ns.entry(process).or_insert(ns);
        let is_late = ns < *latest_ns;
        *latest_ns = ns.max(*latest_ns);
        is_late
    }

    fn lose(&mut self, gap: Gap) {
        if self.gaps.insert(gap)
            && let Some(pass) = &mut self.pass
        {
            pass.system.add_gap(gap);
        }
    }
}

/// Whether descriptors may stand for something else after events of this class: calls, and processes that begin or become another program.
fn changes_descriptors(class: &str) -> bool {
    let native = class.strip_prefix("compat_").unwrap_or(class);
    let sides = ["syscall_entry_", "syscall_exit_"];
    match sides.iter().find_map(|side| native.strip_prefix(side)) {
        Some(call) => descriptor_calls().any(|changing| changing == call),
        None => native.starts_with("sched_process_") || native == "task_newtask",
    }
}

/// Of some threads, and of what they do only the calls and how they begin and end.
fn circumstances(begin_ns: i64, gaps: &HashSet<Gap>) -> Circumstances {
    let gaps: Vec<Gap> = gaps.iter().copied().collect();
    Circumstances {
        gaps: Gaps::new(&gaps),
        is_partial: true,
        has_switches: false,
        has_wakeups: false,
        has_waking: false,
        has_interrupts: false,
        has_arrivals: false,
        ..Circumstances::whole(begin_ns)
    }
}

/// The blind parts of a trace. What follows the last packet of a stream is not missing: it is being written.
pub(crate) fn missing(trace: &Trace) -> impl Iterator<Item = Blind<'_>> {
    blind(trace).into_iter().filter(|blind| {
        let last = blind.stream.packets.last().and_then(|last| last.end);
        let scale = trace.scale(blind.stream);
        let end_ns = scale.zip(last).and_then(|(scale, end)| scale.nanoseconds(end));
        end_ns != Some(blind.begin_ns)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_that_change_descriptors_are_told_from_others() {
        for class in [
            "syscall_entry_close",
            "compat_syscall_exit_open",
            "sched_process_exec",
            "task_newtask",
        ] {
            assert!(changes_descriptors(class), "{class}");
        }
        for class in ["syscall_exit_read", "signal_deliver", "sched_switch"] {
            assert!(!changes_descriptors(class), "{class}");
        }
    }
}
