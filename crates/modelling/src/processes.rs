// SPDX-License-Identifier: MIT OR Apache-2.0
//! What events say about processes: which process each thread is of, whose each process is, and which files programs have loaded where. Traces are
//! read once for it, but only the few events that say so are decoded.

use std::collections::HashMap;
use std::sync::Arc;

use piste_analysis::facts::{Fact, FactReader, Incoming, ProgramFact};
use piste_analysis::names::Names;
use piste_ctf::read::plan::EventPlan;
use piste_mappings::Mapped;
use piste_trace::symbols::Origin;
use piste_trace::{Findings, Stream, StreamFile, Trace};

use crate::mappings::{Event, Step};

/// Of a stream in memory.
const WINDOW_BYTES: usize = 1 << 20;
/// The events that say something.
const NAMES: [&str; 4] = [
    "lttng_statedump_process_state",
    "sched_process_fork",
    "sched_process_exec",
    "lttng_ust_lib:unload",
];
const NAMES_BEGIN: &str = "lttng_ust_statedump:";
const LOADED: [&str; 5] = [
    "lttng_ust_lib:load",
    "lttng_ust_lib:build_id",
    "lttng_ust_dl:dlopen",
    "lttng_ust_dl:dlmopen",
    "lttng_ust_dl:build_id",
];

/// What was said.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    /// By thread: from when on it is of which process.
    threads: HashMap<i32, Vec<(i64, i32)>>,
    /// Of processes.
    users: HashMap<i32, u32>,
    /// What was loaded and unloaded.
    pub(crate) loads: Vec<Event>,
}

impl Processes {
    /// Of traces of one machine. What cannot be read says nothing; those who show the events report it.
    pub(crate) fn read<'t>(traces: impl Iterator<Item = &'t Trace>) -> Processes {
        let mut reading = Reading::default();
        for trace in traces {
            reading.trace(trace);
        }
        reading.finish()
    }

    /// The process that a thread is of at a time.
    pub(crate) fn of_thread(&self, tid: i32, ns: i64) -> Option<i32> {
        let known = self.threads.get(&tid)?;
        let place = known.partition_point(|(begin_ns, _)| *begin_ns <= ns);
        Some(known.get(place.checked_sub(1)?)?.1)
    }

    /// The user that a process is of.
    pub(crate) fn user(&self, pid: i32) -> Option<u32> {
        self.users.get(&pid).copied()
    }
}

/// Reads traces.
#[derive(Default)]
struct Reading {
    facts: FactReader,
    names: Names,
    /// For [`Incoming::stream`].
    streams: usize,
    processes: Processes,
    /// By process: since when it lists what is loaded, while it does.
    lists: HashMap<i32, i64>,
    /// The last one that was loaded there, by process and address: its place in the loads.
    last: HashMap<(i32, u64), usize>,
    /// Parents and children, whose user is the same.
    forks: Vec<(i64, i32, i32)>,
}

impl Reading {
    fn trace(&mut self, trace: &Trace) {
        let plan = &trace.plan;
        for index in &trace.streams {
            self.streams += 1;
            let mut classes = plan.events(index.class_id).into_iter();
            if !classes.any(says_something) {
                continue;
            }
            let file = StreamFile { plan, index };
            let Ok(mut stream) = Stream::open(&file, 0..index.packets.len(), WINDOW_BYTES) else {
                continue;
            };
            // Whether the events of a class say something, by its number.
            let mut known: Vec<Option<bool>> = vec![None; plan.event_names().len()];
            let mut findings = Findings::default();
            while let Some(event) = stream.next(&mut findings) {
                let is_wanted = known[event.class.number].get_or_insert_with(|| says_something(event.class));
                if !*is_wanted {
                    continue;
                }
                let origin = Origin::of(trace, &mut stream, &event);
                let (reader, window, base_bytes, _) = stream.parts();
                let mut incoming = Incoming {
                    event,
                    reader,
                    window,
                    base_bytes,
                    stream: self.streams,
                    ns: origin.ns,
                };
                match self.facts.fact(&mut incoming, &mut self.names) {
                    Some(Fact::DumpedThread(thread)) => {
                        let threads = self.processes.threads.entry(thread.tid).or_default();
                        // It was there before, unless it has begun meanwhile.
                        let begin_ns = if threads.is_empty() { i64::MIN } else { origin.ns };
                        threads.push((begin_ns, thread.pid));
                        self.processes.users.extend(thread.uid.map(|uid| (thread.pid, uid)));
                    }
                    Some(Fact::Fork(fork)) => {
                        if let Some(pid) = fork.pid {
                            self.processes
                                .threads
                                .entry(fork.tid)
                                .or_default()
                                .push((origin.ns, pid));
                            self.forks
                                .extend(fork.parent_pid.map(|parent| (origin.ns, parent, pid)));
                        }
                    }
                    // Whichever thread executes a program becomes the first thread of its process.
                    Some(Fact::Exec { tid, .. }) => {
                        self.processes.threads.entry(tid).or_default().push((origin.ns, tid));
                    }
                    Some(Fact::Program(fact)) => {
                        if let Some(pid) = origin.pid {
                            let fact = Load::of(&fact);
                            self.processes.users.extend(origin.uid.map(|uid| (pid, uid)));
                            self.load(pid, origin.ns, fact);
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    fn load(&mut self, pid: i32, ns: i64, load: Load) {
        let ns = self.lists.get(&pid).copied().unwrap_or(ns);
        let step = match load {
            Load::ListBegin => {
                self.lists.insert(pid, ns);
                Step::Listed
            }
            Load::ListEnd => {
                self.lists.remove(&pid);
                return;
            }
            Load::Loaded(mapped) => {
                self.last.insert((pid, mapped.address), self.processes.loads.len());
                Step::Loaded(Arc::new(Mapped { pid, ..mapped }))
            }
            Load::BuildId { address, build_id } => {
                let last = self.last.get(&(pid, address));
                if let Some((_, _, Step::Loaded(mapped))) = last.map(|place| &mut self.processes.loads[*place]) {
                    Arc::make_mut(mapped).build_id = build_id;
                }
                return;
            }
            Load::Unloaded { address } => Step::Unloaded { address },
            Load::Nothing => return,
        };
        self.processes.loads.push((ns, pid, step));
    }

    fn finish(mut self) -> Processes {
        for threads in self.processes.threads.values_mut() {
            threads.sort_by_key(|(ns, _)| *ns);
        }
        self.forks.sort_unstable();
        for (_, parent, child) in self.forks {
            if let (Some(user), true) = (self.processes.user(parent), parent != child) {
                self.processes.users.entry(child).or_insert(user);
            }
        }
        self.processes
    }
}

fn says_something(class: &EventPlan) -> bool {
    let name = &*class.name;
    NAMES.contains(&name) || LOADED.contains(&name) || name.starts_with(NAMES_BEGIN)
}

/// What a program says about what is loaded.
enum Load {
    ListBegin,
    ListEnd,
    Loaded(Mapped),
    BuildId { address: u64, build_id: String },
    Unloaded { address: u64 },
    Nothing,
}

impl Load {
    fn of(fact: &ProgramFact<'_>) -> Load {
        match *fact {
            ProgramFact::DumpBegin => Load::ListBegin,
            ProgramFact::DumpEnd => Load::ListEnd,
            ProgramFact::Loaded { base, bytes, path } if bytes > 0 => Load::Loaded(Mapped {
                pid: 0,
                path: String::from_utf8_lossy(path).into_owned(),
                address: base,
                bytes,
                file_offset: 0,
                build_id: String::new(),
            }),
            ProgramFact::BuildId { base, id } => Load::BuildId {
                address: base,
                build_id: id.iter().map(|byte| format!("{:02x}", *byte as u8)).collect(),
            },
            ProgramFact::Unloaded { base } => Load::Unloaded { address: base },
            _ => Load::Nothing,
        }
    }
}
