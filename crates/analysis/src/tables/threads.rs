// SPDX-License-Identifier: MIT OR Apache-2.0
//! A row for each thread, and for each process, with what they did in all. Both come when the trace is over: names and processes are told late.

use rustc_hash::FxHashMap;

use super::column::{Column, Emitter, Lasts, OfThread, column, name, times, who};
use super::{Rows, Table, headings};
use crate::analyses::totals::{PerThread, Totals};
use crate::analyses::{CALLS, INTERRUPTS, SWITCHES, WAKEUPS};
use crate::analysis::Need;
use crate::cause::{Cause, Causes};
use crate::model::{Listen, Nature, Process, ProcessId, Slice, System, Thread, ThreadId};
use crate::report::Unit;

const NEEDS: &[Need] = &[
    Need {
        is_essential: false,
        ..SWITCHES
    },
    WAKEUPS,
    CALLS,
    INTERRUPTS,
];

pub(super) static THREADS: Table = Table {
    name: "threads",
    needs: NEEDS,
    columns: || headings(&of_threads()),
    begin: |chosen, sink| {
        let emitter = Emitter::new(&of_threads(), chosen, sink);
        Box::new(Lives::new(emitter, Lives::threads))
    },
};

pub(super) static PROCESSES: Table = Table {
    name: "processes",
    needs: NEEDS,
    columns: || headings(&of_processes()),
    begin: |chosen, sink| {
        let emitter = Emitter::new(&of_processes(), chosen, sink);
        Box::new(Lives::new(emitter, Lives::processes))
    },
};

/// What threads did, until the end.
struct Lives {
    emitter: Emitter<Lived>,
    lives: PerThread<Life>,
    causes: Causes,
    /// What they come to.
    rows: fn(&Lives, &System) -> Vec<Lived>,
}

#[derive(Clone, Default)]
struct Life {
    totals: Totals,
    /// The file that it executed last.
    program: Option<Box<str>>,
}

impl Listen for Lives {
    fn slice(&mut self, system: &System, slice: &Slice) {
        let own = self.lives.of(slice.thread);
        own.totals.add(system, slice, &mut self.causes);
    }

    fn executed(&mut self, _: &System, thread: ThreadId, file: &[u8], _: i64) {
        let file = String::from_utf8_lossy(file);
        self.lives.of(thread).program = Some(file).filter(|file| !file.is_empty()).map(Into::into);
    }
}

/// One thread, or all of a process.
struct Lived {
    /// The thread, or the process's first one.
    first: ThreadId,
    pid: Option<i32>,
    life: Life,
    threads: u32,
    begin_ns: Option<i64>,
    end_ns: Option<i64>,
}

impl Lived {
    fn known<'s>(&self, system: &'s System) -> &'s Thread {
        system.thread(self.first)
    }

    fn process<'s>(&self, system: &'s System) -> Option<&'s Process> {
        system.process(self.known(system).process())
    }
}

impl Lasts for Lived {
    fn begin_ns(&self) -> Option<i64> {
        self.begin_ns
    }

    fn end_ns(&self) -> Option<i64> {
        self.end_ns
    }
}

impl OfThread for Lived {
    fn thread(&self) -> Option<ThreadId> {
        Some(self.first)
    }
}

/// What threads and processes have in common.
fn of_both() -> Vec<Column<Lived>> {
    let own = [
        column("ppid", Unit::Id, |system, one: &Lived| {
            one.known(system).parent_pid.into()
        }),
        column("uid", Unit::Id, |system, one: &Lived| one.known(system).uid.into()),
        column("program", Unit::Text, |_, one: &Lived| {
            one.life.program.as_deref().into()
        }),
    ];
    [&own[..], &times()].concat()
}

/// How long they did what, as `ltt` has it.
fn totals() -> [Column<Lived>; 13] {
    macro_rules! of {
        ($key:literal, $totals:ident => $ns:expr) => {
            column($key, Unit::Nanoseconds, |_, one: &Lived| {
                let $totals = &one.life.totals;
                let ns: i64 = $ns;
                ns.into()
            })
        };
    }
    [
        of!("on_cpu_ns", totals => totals.on_cpu()),
        of!("user_ns", totals => totals.user),
        of!("kernel_ns", totals => totals.kernel),
        of!("interrupted_ns", totals => totals.interrupted),
        of!("runnable_ns", totals => totals.runnable),
        of!("io_ns", totals => totals.blocked[Cause::Io as usize]),
        of!("network_ns", totals => totals.blocked[Cause::Network as usize]),
        of!("timer_ns", totals => totals.blocked[Cause::Timer as usize]),
        of!("lock_ns", totals => totals.blocked[Cause::Lock as usize]),
        of!("thread_ns", totals => totals.blocked[Cause::Thread as usize]),
        of!("other_ns", totals => totals.blocked[Cause::Unknown as usize] + totals.stopped),
        of!("unknown_ns", totals => totals.unknown),
        of!("absent_ns", totals => totals.absent),
    ]
}

fn of_threads() -> Vec<Column<Lived>> {
    let own = [column("kind", Unit::Text, |system, one: &Lived| {
        match one.known(system).nature {
            Nature::User => Some("user"),
            Nature::Kernel => Some("kernel"),
            Nature::Unknown | Nature::Idle => None,
        }
        .into()
    })];
    [&who()[..], &own, &of_both(), &totals()].concat()
}

fn of_processes() -> Vec<Column<Lived>> {
    let [_, _, _, thread] = who();
    let own = [
        column("pid", Unit::Id, |_, one: &Lived| one.pid.into()),
        column("comm", Unit::Text, |system, one: &Lived| {
            name(system, one.first).filter(|_| one.known(system).leads()).into()
        }),
        thread,
    ];
    let others = [
        column("command_line", Unit::Text, |system, one: &Lived| {
            let process = one.process(system);
            process
                .map(|process| &*process.command_line)
                .filter(|line| !line.is_empty())
                .into()
        }),
        column("cgroup", Unit::Text, |system, one: &Lived| {
            let process = one.process(system);
            process
                .map(|process| &*process.cgroup)
                .filter(|cgroup| !cgroup.is_empty())
                .into()
        }),
        column("threads", Unit::Count, |_, one: &Lived| one.threads.into()),
    ];
    [&own[..], &of_both(), &others, &totals()].concat()
}

impl Rows for Lives {
    fn finish(&mut self, system: &System) {
        for row in (self.rows)(self, system) {
            self.emitter.row(system, &row);
        }
    }
}

impl Lives {
    fn new(emitter: Emitter<Lived>, rows: fn(&Lives, &System) -> Vec<Lived>) -> Lives {
        Lives {
            emitter,
            lives: PerThread::default(),
            causes: Causes::default(),
            rows,
        }
    }

    fn threads(&self, system: &System) -> Vec<Lived> {
        let row = |(id, life)| {
            let thread = system.thread(id);
            Lived {
                begin_ns: thread.born_ns,
                end_ns: thread.died_ns,
                ..Lived::new(id, thread.pid, life)
            }
        };
        self.all(system).map(row).collect()
    }

    /// Those of which it is known whose threads they are.
    fn processes(&self, system: &System) -> Vec<Lived> {
        let mut processes: Vec<Lived> = Vec::new();
        let mut places: FxHashMap<ProcessId, usize> = FxHashMap::default();
        for (id, life) in self.all(system) {
            let thread = system.thread(id);
            let Some(pid) = thread.pid else { continue };
            let is_first = thread.tid == pid;
            let place = *places.entry(thread.process()).or_insert(processes.len());
            match processes.get_mut(place) {
                Some(process) => process.add(id, &life, is_first),
                None => processes.push(Lived::new(id, thread.pid, life)),
            }
            if is_first {
                let process = &mut processes[place];
                // One that is not the first, and executes, takes the place of the one that was.
                process.begin_ns = process.begin_ns.or(thread.born_ns);
                process.end_ns = thread.died_ns;
            }
        }
        processes
    }

    /// Of all threads, in the order in which the trace had them first.
    fn all<'s>(&'s self, system: &'s System) -> impl Iterator<Item = (ThreadId, Life)> + 's {
        let threads = system.threads().filter(|(_, thread)| thread.nature != Nature::Idle);
        threads.map(|(id, _)| (id, self.lives.get(id).cloned().unwrap_or_default()))
    }
}

impl Lived {
    fn new(first: ThreadId, pid: Option<i32>, life: Life) -> Lived {
        Lived {
            first,
            pid,
            life,
            threads: 1,
            begin_ns: None,
            end_ns: None,
        }
    }

    /// With another thread of the same process.
    fn add(&mut self, id: ThreadId, life: &Life, is_first: bool) {
        self.life.totals.merge(&life.totals);
        self.threads += 1;
        if is_first {
            self.first = id;
            self.life.program = life.program.clone().or(self.life.program.take());
        }
    }
}
