// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which processes began, became other programs, and ended, below whom.

use std::collections::{BTreeMap, BTreeSet};

use super::totals::PerThread;
use super::{COMM, LOG_LIMIT, PID, SWITCHES, comm};
use crate::analysis::{Analysis, Description, Need, Options};
use crate::model::{Listen, ProcessId, Slice, State, System, ThreadId};
use crate::report::{Report, Table, Unit, Value, column, counted};

pub(super) static PROCS: Description = Description {
    name: "procs",
    about: "which processes started, executed other programs, and ended, as a tree",
    tables: &["processes"],
    needs: &[
        Need {
            any_of: &["sched_process_fork", "sched_process_exec", "sched_process_exit"],
            what: "starts and ends of processes",
            option: "--preset sched",
            is_essential: true,
        },
        Need {
            is_essential: false,
            ..SWITCHES
        },
    ],
    begin: |options| {
        Box::new(Procs {
            options: options.clone(),
            programs: PerThread::default(),
            on_cpu: PerThread::default(),
            parents: BTreeMap::new(),
            changed: BTreeSet::new(),
        })
    },
};

struct Procs {
    options: Options,
    /// The files that a thread executed.
    programs: PerThread<Vec<String>>,
    on_cpu: PerThread<i64>,
    /// The first thread of a process, and whose child it is.
    parents: BTreeMap<ThreadId, ThreadId>,
    /// Threads that began, ended or executed.
    changed: BTreeSet<ThreadId>,
}

impl Listen for Procs {
    fn slice(&mut self, _: &System, slice: &Slice) {
        if let State::Running { .. } = slice.state {
            *self.on_cpu.of(slice.thread) += slice.duration_ns();
        }
    }

    fn born(&mut self, system: &System, thread: ThreadId, parent: Option<ThreadId>, _: i64) {
        self.changed.insert(thread);
        // A thread's child is its process's.
        let parent = parent.and_then(|parent| system.leader(system.thread(parent).process()).or(Some(parent)));
        if let Some(parent) = parent {
            self.parents.insert(thread, parent);
        }
    }

    fn executed(&mut self, _: &System, thread: ThreadId, file: &[u8], _: i64) {
        self.programs
            .of(thread)
            .push(String::from_utf8_lossy(file).into_owned());
        self.changed.insert(thread);
    }

    fn died(&mut self, _: &System, thread: ThreadId, _: i64) {
        self.changed.insert(thread);
    }
}

impl Analysis for Procs {
    fn report(&mut self, system: &System) -> Report {
        let columns = [
            PID,
            column("ppid", "PARENT", Unit::Id).minor(),
            column("began_ns", "BEGAN", Unit::Moment),
            column("lived_ns", "LIVED", Unit::Nanoseconds),
            column("on_cpu_ns", "ON CPU", Unit::Nanoseconds),
            column("depth", "DEPTH", Unit::Count).minor(),
            COMM.as_tree("depth"),
            column("program", "PROGRAM", Unit::Text),
        ];
        let mut table = Table::new("processes", "Processes that started, executed or ended", &columns);
        let mut children: BTreeMap<ThreadId, BTreeSet<ThreadId>> = BTreeMap::new();
        let mut roots = BTreeSet::new();
        let is_process = |id: &&ThreadId| system.thread(**id).leads();
        for id in self.changed.iter().filter(is_process) {
            let mut child = *id;
            // Up to one whose parent is not here.
            while let Some(parent) = self.parents.get(&child) {
                if !children.entry(*parent).or_default().insert(child) {
                    break;
                }
                child = *parent;
            }
            if !self.parents.contains_key(&child) {
                roots.insert(child);
            }
        }
        let mut on_cpu: BTreeMap<ProcessId, i64> = BTreeMap::new();
        for (id, thread) in system.threads() {
            *on_cpu.entry(thread.process()).or_default() += self.on_cpu.get(id).copied().unwrap_or(0);
        }
        let mut open: Vec<(ThreadId, i64)> = roots.into_iter().rev().map(|root| (root, 0)).collect();
        let mut count = 0;
        while let Some((id, depth)) = open.pop() {
            if let Some(own) = children.get(&id) {
                open.extend(own.iter().rev().map(|child| (*child, depth + 1)));
            }
            if !self.options.who.wants(system, id) {
                continue;
            }
            count += 1;
            if table.rows.len() < self.options.limit.unwrap_or(LOG_LIMIT) {
                table.row(self.values(system, id, depth, &on_cpu));
            }
        }
        let notes = counted(
            (count - table.rows.len()) as u64,
            "more process is not shown; choose others with --limit and --begin",
            "more processes are not shown; choose others with --limit and --begin",
        );
        Report {
            tables: vec![table],
            notes: Vec::from_iter(notes),
        }
    }
}

impl Procs {
    fn values(&self, system: &System, id: ThreadId, depth: i64, on_cpu: &BTreeMap<ProcessId, i64>) -> Vec<Value> {
        let thread = system.thread(id);
        // Of a process whose first thread is not in the trace there is another one of its threads here.
        let name = if thread.leads() { comm(system, id) } else { Value::None };
        let lived = thread.born_ns.zip(thread.died_ns).map(|(born, died)| died - born);
        let programs = self
            .programs
            .get(id)
            .map_or(String::new(), |programs| programs.join(" -> "));
        vec![
            Value::Number(thread.process().pid.into()),
            thread.parent_pid.into(),
            thread.born_ns.into(),
            lived.into(),
            on_cpu.get(&thread.process()).copied().into(),
            Value::Number(depth),
            name,
            if programs.is_empty() {
                Value::None
            } else {
                programs.into()
            },
        ]
    }
}
