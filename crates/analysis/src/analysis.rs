// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an analysis is: it listens to the model and says at the end what it has found out. Each is a file in analyses/; the list of all is
//! there, too.

use piste_patterns::matches;

use crate::model::{Listen, ProcessId, System, ThreadId};
use crate::report::Report;

/// An analysis at work.
pub trait Analysis: Listen {
    /// What it has found out. The trace is over.
    fn report(&mut self, system: &System) -> Report;
}

/// An analysis that can be chosen.
pub struct Description {
    /// One word.
    pub name: &'static str,
    /// The question that it answers, in a line.
    pub about: &'static str,
    /// The names of its tables.
    pub tables: &'static [&'static str],
    /// What it needs of a trace.
    pub needs: &'static [Need],
    /// Begins it.
    pub begin: fn(&Options) -> Box<dyn Analysis>,
}

/// Events that an analysis needs.
#[derive(Clone, Copy, Debug)]
pub struct Need {
    /// Classes of events, of which one is enough; `*` stands for any text.
    pub any_of: &'static [&'static str],
    /// What is missing without them.
    pub what: &'static str,
    /// The option of `piste record` that gets them.
    pub option: &'static str,
    /// There is nothing to say without them.
    pub is_essential: bool,
}

impl Need {
    /// A trace with classes of these names has it.
    pub fn is_met<'n>(&self, mut classes: impl Iterator<Item = &'n str>) -> bool {
        classes.any(|class| self.any_of.iter().any(|pattern| matches(pattern, class)))
    }
}

/// What is asked of an analysis.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// About whom.
    pub who: Who,
    /// Only so many rows of a table.
    pub limit: Option<usize>,
    /// Only what took this long or longer.
    pub min_ns: Option<i64>,
    /// Only what took this long or less.
    pub max_ns: Option<i64>,
}

impl Options {
    /// It took neither too long nor too short.
    #[inline]
    pub fn wants_ns(&self, ns: i64) -> bool {
        self.min_ns.is_none_or(|min_ns| ns >= min_ns) && self.max_ns.is_none_or(|max_ns| ns <= max_ns)
    }
}

/// Threads that are meant: those that everything here allows. What is empty allows all.
#[derive(Clone, Debug, Default)]
pub struct Who {
    /// Processes.
    pub pids: Vec<i64>,
    /// Threads.
    pub tids: Vec<i64>,
    /// Patterns of names.
    pub comms: Vec<String>,
    /// Patterns of control groups, which mean those below them, too.
    pub cgroups: Vec<String>,
    /// CPUs on which it happens.
    pub cpus: Vec<u64>,
}

impl Who {
    /// A thread is meant.
    #[inline]
    pub fn wants(&self, system: &System, id: ThreadId) -> bool {
        self.wants_everybody() || self.search(system, id)
    }

    /// Every thread is meant, and what is of none.
    #[inline]
    pub fn wants_everybody(&self) -> bool {
        self.pids.is_empty() && self.tids.is_empty() && self.comms.is_empty() && self.cgroups.is_empty()
    }

    fn search(&self, system: &System, id: ThreadId) -> bool {
        let thread = system.thread(id);
        let is_in = |list: &[i64], id: i32| list.is_empty() || list.contains(&id.into());
        let name = system.name_of(id);
        is_in(&self.pids, thread.process().pid)
            && is_in(&self.tids, thread.tid)
            && (self.comms.is_empty() || self.comms.iter().any(|pattern| matches(pattern, name)))
            && (self.cgroups.is_empty() || self.is_in_cgroup(system, thread.process()))
    }

    fn is_in_cgroup(&self, system: &System, process: ProcessId) -> bool {
        let Some(process) = system.process(process) else {
            return false;
        };
        let is_in = |pattern: &String| {
            let below = format!("{}/*", pattern.trim_end_matches('/'));
            matches(pattern, &process.cgroup) || matches(&below, &process.cgroup)
        };
        self.cgroups.iter().any(is_in)
    }

    /// A CPU is meant.
    #[inline]
    pub fn wants_cpu(&self, cpu: u32) -> bool {
        self.cpus.is_empty() || self.cpus.contains(&cpu.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Fact, Fork};
    use crate::model::{At, Circumstances, Nobody};

    #[test]
    fn a_control_group_means_those_below_it_and_the_children_of_its_processes() {
        let mut system = System::new(Circumstances::whole(0));
        let at = At {
            ns: 1,
            cpu: Some(0),
            tid: None,
        };
        let dumped = Fact::DumpedProcess {
            pid: 7,
            command_line: b"",
            cgroup: b"/system.slice/web.service",
        };
        let fork = |tid, pid| {
            Fact::Fork(Fork {
                parent_tid: 7,
                parent_pid: Some(7),
                tid,
                pid: Some(pid),
                name: b"",
            })
        };
        for fact in [dumped, fork(8, 7), fork(9, 9)] {
            system.apply(&fact, at, &mut Nobody);
        }
        let is_wanted = |pattern: &str, tid| {
            let who = Who {
                cgroups: vec![pattern.to_owned()],
                ..Who::default()
            };
            who.wants(&system, system.find(tid).expect("it is there"))
        };
        for tid in [7, 8, 9] {
            for pattern in ["/system.slice/web.service", "/system.slice/", "/system.slice", "*web*"] {
                assert!(is_wanted(pattern, tid), "{pattern} {tid}");
            }
            assert!(!is_wanted("/system.slice/web", tid));
            assert!(!is_wanted("/user.slice", tid));
        }
    }
}
