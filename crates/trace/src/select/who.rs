// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who an event is of: process, thread and the thread's name.
//!
//! What an event's contexts say comes first: `pid`, `tid`, `procname`, or `vpid` and `vtid`, the numbers that a container has. Where they
//! are silent, the CPU's thread is meant, which the kernel's `sched_switch` tells; the process and the name of a thread are
//! told by the state dump, by forks, and by programs that are executed.
//!
//! What is unknown stays unknown. A CPU's thread is, until the first switch; after something was lost; after the end of its stream; and for
//! good when a switch comes from another thread than it should, as in traces that have only some of the switches.

use std::collections::{HashMap, HashSet};

use piste_ctf::read::plan::EventPlan;
use piste_ctf::read::schema::Scope;

use super::per_class::PerClass;
use super::values::{Slot, Values, Wanted};
use crate::folder::Trace;
use crate::merge::{Merge, Merged, Span};

/// Who an event is of, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Who {
    /// The process.
    pub pid: Option<i64>,
    /// The thread.
    pub tid: Option<i64>,
    /// The thread's name.
    pub comm: Option<Comm>,
}

/// Name of a thread: 15 bytes at most, of any kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Comm {
    bytes: [u8; Comm::BYTES_MAX],
    length: u8,
}

impl Comm {
    const BYTES_MAX: usize = 15;

    /// The kernel cuts what is longer.
    pub fn new(name: &[u8]) -> Comm {
        let length = name.len().min(Comm::BYTES_MAX);
        let mut comm = Comm {
            length: length as u8,
            ..Comm::default()
        };
        comm.bytes[..length].copy_from_slice(&name[..length]);
        comm
    }

    /// The name.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// Parts of an event that say something about whoever it is of, the nearest first.
const CONTEXTS: &[Scope] = &[
    Scope::SpecificContext,
    Scope::EventContext,
    Scope::EventHeader,
    Scope::PacketContext,
    Scope::PacketHeader,
];
const FORK: &str = "sched_process_fork";
const DUMP_BEGIN: &str = "lttng_statedump_start";
const DUMP_END: &str = "lttng_statedump_end";
/// A dump that ends later is none of the start.
const LOOK_AHEAD_EVENTS: u64 = 10_000_000;
const PAYLOAD: &[Scope] = &[Scope::Payload];

/// Follows the threads of the machines that traces are of. It is told of all events, in their order.
#[derive(Debug)]
pub struct Threads<'t> {
    traces: &'t [Trace],
    /// One for each trace.
    origins: Vec<Origin>,
    machines: Vec<Machine>,
    classes: PerClass<ClassView>,
    values: Values,
}

/// Where the events of a trace come from.
#[derive(Debug)]
struct Origin {
    machine: usize,
    /// Of all its events, as traces of one process say.
    pid: Option<i64>,
    comm: Option<Comm>,
}

#[derive(Debug, Default)]
struct Machine {
    cpus: HashMap<u64, Cpu>,
    threads: HashMap<i64, Thread>,
    /// State dumps that have begun.
    dumps: u32,
}

/// A CPU since its last switch.
#[derive(Clone, Copy, Debug)]
struct Cpu {
    tid: i64,
    comm: Option<Comm>,
    /// The stream that said so, and how often something was missing there until then.
    stream: usize,
    gaps: u64,
    is_contradicted: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    pid: Option<i64>,
    comm: Option<Comm>,
    /// State dumps that had begun when it was given its name.
    dumps: u32,
}

/// What the events of a class say about threads.
#[derive(Debug)]
struct ClassView {
    wanted: Wanted,
    pid: Option<Slot>,
    tid: Option<Slot>,
    /// The numbers are those of a container.
    is_virtual: bool,
    comm: Option<Slot>,
    cpu: Option<Slot>,
    news: News,
}

/// What an event says about other threads than its own.
#[derive(Clone, Copy, Debug)]
enum News {
    None,
    Switch {
        previous: Option<Slot>,
        next: Option<Slot>,
        comm: Option<Slot>,
        previous_comm: Option<Slot>,
    },
    /// There is a new thread, with a process and a name as far as they are said.
    Thread {
        tid: Option<Slot>,
        pid: Option<Slot>,
        comm: Option<Slot>,
    },
    /// A state dump begins.
    DumpBegin,
    /// There was a thread when a state dump looked, which was some time ago: what events have said since the dump began is newer.
    Dumped {
        tid: Option<Slot>,
        pid: Option<Slot>,
        comm: Option<Slot>,
    },
    Rename {
        tid: Option<Slot>,
        comm: Option<Slot>,
    },
    Exec {
        tid: Option<Slot>,
        file: Option<Slot>,
    },
    Gone {
        tid: Option<Slot>,
    },
}

impl<'t> Threads<'t> {
    /// For the events of some traces.
    pub fn new(traces: &'t [Trace]) -> Threads<'t> {
        let mut hosts: Vec<Option<&str>> = Vec::new();
        let origins = traces.iter().map(|trace| {
            let host = trace.environment("hostname");
            // Traces that do not say which machine they are of may each be of another one.
            let known = hosts.iter().position(|known| host.is_some() && *known == host);
            let machine = known.unwrap_or_else(|| {
                hosts.push(host);
                hosts.len() - 1
            });
            Origin {
                machine,
                pid: trace.own_process(),
                comm: trace.environment("procname").map(|name| Comm::new(name.as_bytes())),
            }
        });
        let origins = origins.collect();
        let mut threads = Threads {
            traces,
            origins,
            machines: hosts.iter().map(|_| Machine::default()).collect(),
            classes: PerClass::default(),
            values: Values::default(),
        };
        threads.look_ahead();
        threads
    }

    /// A state dump comes after the first events, and tells of threads that were there before it. Those that no fork made meanwhile were
    /// of the same process from the start; their names may have been others.
    fn look_ahead(&mut self) {
        let has_dump = |trace: &&Trace| {
            let mut streams = trace.schema().streams.values();
            streams.any(|stream| stream.events.values().any(|event| event.name == DUMP_END))
        };
        let mut left = self.traces.iter().filter(has_dump).count();
        if left == 0 {
            return;
        }
        // What cannot be opened is said by those who read it.
        let Ok(mut merge) = Merge::new(self.traces, Span::ALL) else {
            return;
        };
        let mut made: HashSet<(usize, i64)> = HashSet::new();
        let mut seen = 0;
        while let Some(merged) = merge.next() {
            seen += 1;
            if &*merged.event.class.name == DUMP_END {
                left -= 1;
            }
            if left == 0 || seen > LOOK_AHEAD_EVENTS {
                return;
            }
            let trace = merge.trace_of(merged.stream);
            let stream = merge.stream(merged.stream);
            let (plan, class_id) = (&self.traces[trace].plan, stream.index.class_id);
            let event = merged.event;
            let class = self
                .classes
                .get(event.class, || ClassView::new(plan, class_id, event.class));
            let (News::Thread { tid, pid, .. } | News::Dumped { tid, pid, .. }) = class.news else {
                continue;
            };
            self.values.take(&class.wanted, stream, &event);
            let machine = self.origins[trace].machine;
            let (Some(tid), pid) = (self.values.integer(tid), self.values.integer(pid)) else {
                continue;
            };
            if &*event.class.name == FORK {
                made.insert((machine, tid));
            } else if !made.contains(&(machine, tid)) {
                self.machines[machine].threads.entry(tid).or_insert(Thread {
                    pid,
                    ..Thread::default()
                });
            }
        }
    }

    /// The CPU that an event was on, and who it is of; and takes notice of what it says.
    pub fn see(&mut self, merge: &mut Merge<'t>, merged: &Merged<'t>) -> (Option<u64>, Who) {
        let trace = merge.trace_of(merged.stream);
        let stream = merge.stream(merged.stream);
        let event = merged.event;
        let plan = &self.traces[trace].plan;
        let class_id = stream.index.class_id;
        let class = self
            .classes
            .get(event.class, || ClassView::new(plan, class_id, event.class));
        self.values.take(&class.wanted, stream, &event);
        let values = &self.values;
        let own_cpu = values.integer(class.cpu).and_then(|cpu| u64::try_from(cpu).ok());
        let cpu = own_cpu.or(stream.index.cpu_id);
        let origin = &self.origins[trace];
        let machine = &mut self.machines[origin.machine];

        let running = cpu.and_then(|cpu| machine.cpus.get(&cpu)).copied();
        let running = running
            .filter(|running| !running.is_contradicted && merge.stream(running.stream).gap_count() == running.gaps);
        let mut who = Who {
            pid: values.integer(class.pid).or(origin.pid),
            tid: values.integer(class.tid),
            comm: values.text(class.comm).map(Comm::new),
        };
        let mut running_here = running;
        if let News::Switch {
            previous,
            previous_comm,
            ..
        } = class.news
        {
            // It is of the thread that ends to run, and says which one that is.
            running_here = None;
            who.tid = who.tid.or(values.integer(previous));
            who.comm = who.comm.or(values.text(previous_comm).map(Comm::new));
        }
        who.complete(machine, class.is_virtual, running_here);
        // One process may have threads of many names.
        who.comm = who
            .comm
            .or(origin.comm.filter(|_| who.pid.is_some() && who.pid == who.tid));

        match class.news {
            News::None => {}
            News::Switch {
                previous, next, comm, ..
            } => {
                if let (Some(cpu), Some(next)) = (cpu, values.integer(next)) {
                    let contradicts = |running: Cpu| {
                        running.stream == merged.stream
                            && values.integer(previous).is_some_and(|previous| previous != running.tid)
                    };
                    let was_contradicted = machine.cpus.get(&cpu).is_some_and(|cpu| cpu.is_contradicted);
                    let comm = values.text(comm).map(Comm::new);
                    let now = Cpu {
                        tid: next,
                        comm,
                        stream: merged.stream,
                        gaps: merge.stream(merged.stream).gap_count(),
                        is_contradicted: was_contradicted || running.is_some_and(contradicts),
                    };
                    machine.cpus.insert(cpu, now);
                    if next != 0
                        && let Some(comm) = comm
                    {
                        machine.name(next, comm);
                    }
                }
            }
            News::Thread { tid, pid, comm } => {
                if let Some(tid) = values.integer(tid) {
                    let thread = Thread {
                        // It is negative where the tracer could not know it any more.
                        pid: values.integer(pid).filter(|pid| *pid >= 0),
                        comm: values.text(comm).map(Comm::new),
                        dumps: machine.dumps,
                    };
                    machine.threads.insert(tid, thread);
                }
            }
            News::Dumped { tid, pid, comm } => {
                if let Some(tid) = values.integer(tid) {
                    let thread = machine.threads.entry(tid).or_default();
                    thread.pid = values.integer(pid).or(thread.pid);
                    let is_told = thread.comm.is_some() && thread.dumps == machine.dumps;
                    if let Some(comm) = values.text(comm).filter(|_| !is_told) {
                        machine.name(tid, Comm::new(comm));
                    }
                }
            }
            News::DumpBegin => machine.dumps = machine.dumps.wrapping_add(1),
            News::Rename { tid, comm } => {
                if let (Some(tid), Some(comm)) = (values.integer(tid), values.text(comm)) {
                    machine.rename(tid, Comm::new(comm));
                }
            }
            News::Exec { tid, file } => {
                if let (Some(tid), Some(file)) = (values.integer(tid).or(who.tid), values.text(file)) {
                    let name = file.rsplit(|byte| *byte == b'/').next().unwrap_or(file);
                    machine.rename(tid, Comm::new(name));
                    // Whoever executes a program becomes the first thread of its process.
                    machine.threads.entry(tid).or_default().pid = Some(tid);
                }
            }
            News::Gone { tid } => {
                if let Some(tid) = values.integer(tid) {
                    machine.threads.remove(&tid);
                }
            }
        }
        (cpu, who)
    }

    /// Whether events before a part of time can say who the events in it are of: their own contexts do not say everything.
    pub(super) fn need_history(traces: &[Trace]) -> bool {
        traces.iter().any(|trace| {
            trace.schema().streams.keys().any(|&class_id| {
                trace.plan.events(class_id).into_iter().any(|event| {
                    let view = ClassView::new(&trace.plan, class_id, event);
                    !matches!(view.news, News::None)
                })
            })
        })
    }
}

impl Machine {
    fn name(&mut self, tid: i64, comm: Comm) {
        let thread = self.threads.entry(tid).or_default();
        thread.comm = Some(comm);
        thread.dumps = self.dumps;
    }

    fn rename(&mut self, tid: i64, comm: Comm) {
        self.name(tid, comm);
        for cpu in self.cpus.values_mut().filter(|cpu| cpu.tid == tid) {
            cpu.comm = Some(comm);
        }
    }
}

impl Who {
    /// Adds what is known of the thread and of the CPU's thread.
    fn complete(&mut self, machine: &Machine, is_virtual: bool, running: Option<Cpu>) {
        let own_tid = self.tid;
        if let Some(running) = running {
            self.tid = self.tid.or(Some(running.tid));
            // A container's number is another one for the same thread.
            if own_tid.is_none() || is_virtual || own_tid == Some(running.tid) {
                self.comm = self.comm.or(running.comm);
            }
        }
        let Some(tid) = self.tid else { return };
        if tid == 0 {
            // Each CPU has one.
            self.pid = self.pid.or(Some(0));
            return;
        }
        let Some(thread) = machine.threads.get(&tid) else {
            return;
        };
        let is_of_thread = match own_tid.is_some() && is_virtual {
            // Only then is it surely no other thread of the same number.
            true => self.pid.is_some() && self.pid == thread.pid,
            false => true,
        };
        if is_of_thread {
            self.pid = self.pid.or(thread.pid);
            self.comm = self.comm.or(thread.comm);
        }
    }
}

impl ClassView {
    fn new(plan: &piste_ctf::read::plan::Plan, class_id: u64, event: &EventPlan) -> ClassView {
        let mut wanted = Wanted::default();
        let mut slot = |scopes, names: &[&str]| {
            names
                .iter()
                .find_map(|name| wanted.add_named(plan, class_id, event, scopes, name))
        };
        let own_tid = slot(CONTEXTS, &["tid"]);
        let own_pid = slot(CONTEXTS, &["pid"]);
        let mut field = |names: &[&str]| slot(PAYLOAD, names);
        // Fields that the kernel calls pid are threads.
        let news = match &*event.name {
            "sched_switch" => News::Switch {
                previous: field(&["prev_tid", "prev_pid"]),
                next: field(&["next_tid", "next_pid"]),
                comm: field(&["next_comm"]),
                previous_comm: field(&["prev_comm"]),
            },
            "piste_statedump_thread_name" => News::Rename {
                tid: field(&["tid"]),
                comm: field(&["name"]),
            },
            DUMP_BEGIN => News::DumpBegin,
            "lttng_statedump_process_state" => News::Dumped {
                tid: field(&["tid"]),
                pid: field(&["pid"]),
                comm: field(&["name"]),
            },
            FORK => match field(&["child_tid"]) {
                Some(tid) => News::Thread {
                    tid: Some(tid),
                    pid: field(&["child_pid"]),
                    comm: field(&["child_comm"]),
                },
                None => News::Thread {
                    tid: field(&["child_pid"]),
                    pid: None,
                    comm: field(&["child_comm"]),
                },
            },
            "sched_process_exec" => News::Exec {
                tid: field(&["tid", "pid"]),
                file: field(&["filename"]),
            },
            "task_rename" => News::Rename {
                tid: field(&["tid", "pid"]),
                comm: field(&["newcomm"]),
            },
            "sched_process_free" => News::Gone {
                tid: field(&["tid", "pid"]),
            },
            _ => News::None,
        };
        let virtual_tid = own_tid.map_or_else(|| slot(CONTEXTS, &["vtid"]), |_| None);
        ClassView {
            pid: own_pid.or_else(|| slot(CONTEXTS, &["vpid"])),
            tid: own_tid.or(virtual_tid),
            is_virtual: virtual_tid.is_some(),
            comm: slot(CONTEXTS, &["procname"]),
            cpu: slot(super::cpu::SCOPES, &["cpu_id"]),
            news,
            wanted,
        }
    }
}
