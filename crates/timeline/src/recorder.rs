// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the model to a timeline: a lane for each CPU, thread, interrupt and device that does something. Numbers come in
//! counters.rs, what programs recorded in programs.rs.

use std::io::{self, Write};

use piste_analysis::analyses::interrupt_name;
use piste_analysis::facts::Interrupt;
use piste_analysis::model::{
    Call, Interruption, Listen, Mode, Nature, Occurrence, ProcessId, Request, Slice, State, System, ThreadId, Waker,
};
use piste_analysis::names::Name;
use rustc_hash::FxHashMap;

use crate::counters::Counters;
use crate::file::{Directory, Writer};
use crate::going::Going;
use crate::lane::{Created, Label, LaneId, Subject, Thread};
use crate::piece::{Class, Piece};
use crate::programs::{Programs, piece};

/// Writes a timeline while it listens to a model.
pub struct Recorder<W> {
    pub(crate) writer: Writer<W>,
    /// By lane; absent: what it is called does not change at the end.
    shown: Vec<Option<Shown>>,
    /// By lane. Threads and devices have the names that they had at first.
    pub(crate) subjects: Vec<Subject>,
    /// By the model's number of a thread.
    threads: Vec<OfThread>,
    pub(crate) cpus: FxHashMap<u32, OfCpu>,
    interrupts: FxHashMap<Interrupt, LaneId>,
    devices: FxHashMap<u32, LaneId>,
    processes: FxHashMap<ProcessId, u32>,
    pub(crate) counters: Counters,
    pub(crate) labels: Vec<Label>,
    names: FxHashMap<Name, u32>,
    pub(crate) programs: Programs,
    pub(crate) going: Going,
    /// Their labels.
    interrupt_labels: FxHashMap<Interrupt, u32>,
    /// Why it does not write any more.
    error: Option<io::Error>,
}

/// What a lane of the kernel shows. Threads and devices get their names late.
#[derive(Clone, Copy)]
enum Shown {
    Cpu(u32),
    Thread(ThreadId),
    Calls(LaneId),
    Interrupt(Interrupt),
    Device(u32),
}

/// What a CPU has.
#[derive(Clone, Copy)]
pub(crate) struct OfCpu {
    pub(crate) lane: LaneId,
    /// It may go on: a thread that enters the kernel and leaves it keeps the CPU.
    pub(crate) open: Piece,
}

/// What a thread has, as soon as it needs it.
#[derive(Clone, Copy, Default)]
struct OfThread {
    lane: Option<LaneId>,
    label: Option<u32>,
    calls: Option<LaneId>,
    created: Option<Created>,
}

impl<W: Write> Recorder<W> {
    /// Begins a timeline.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn new(to: W) -> io::Result<Recorder<W>> {
        Ok(Recorder {
            writer: Writer::new(to)?,
            shown: Vec::new(),
            subjects: Vec::new(),
            threads: Vec::new(),
            cpus: FxHashMap::default(),
            interrupts: FxHashMap::default(),
            devices: FxHashMap::default(),
            processes: FxHashMap::default(),
            counters: Counters::default(),
            labels: Vec::new(),
            names: FxHashMap::default(),
            programs: Programs::default(),
            going: Going::default(),
            interrupt_labels: FxHashMap::default(),
            error: None,
        })
    }

    /// Ends it; the model is over, if the kernel was recorded. `origin` says what the timeline was made of.
    ///
    /// # Errors
    /// It could not be written.
    pub fn finish(mut self, system: Option<&System>, span_ns: (i64, i64), origin: &[u8]) -> io::Result<W> {
        for (lane, piece) in self.losses(span_ns) {
            self.put(lane, &piece);
        }
        if let Some(system) = system {
            self.end_cpus(system, span_ns.1);
            self.end_counters(system, span_ns);
            self.name_lanes(system);
        }
        if let Some(error) = self.error {
            return Err(error);
        }
        self.writer.finish(&Directory {
            span_ns,
            origin: origin.to_vec(),
            labels: self.labels,
            subjects: self.subjects,
        })
    }

    /// Why it does not write any more: what was put since then is missing. Absent: it has written everything.
    pub fn error(&self) -> Option<&io::Error> {
        self.error.as_ref()
    }

    /// Gives the kernel's lanes the names of now.
    pub(crate) fn name_lanes(&mut self, system: &System) {
        for lane in 0..self.shown.len() {
            if let Some(shown) = self.shown[lane] {
                self.subjects[lane] = self.subject(system, shown);
            }
        }
    }

    pub(crate) fn put(&mut self, lane: LaneId, piece: &Piece) {
        self.going.end(lane);
        if self.error.is_none() {
            self.error = self.writer.put(lane, piece).err();
        }
    }

    fn lane(&mut self, system: &System, shown: Shown) -> LaneId {
        let subject = self.subject(system, shown);
        self.add_lane(Some(shown), subject)
    }

    pub(crate) fn named_lane(&mut self, subject: Subject) -> LaneId {
        self.add_lane(None, subject)
    }

    fn add_lane(&mut self, shown: Option<Shown>, subject: Subject) -> LaneId {
        self.shown.push(shown);
        self.subjects.push(subject);
        self.writer.lane()
    }

    fn of_thread(&mut self, id: ThreadId) -> &mut OfThread {
        if self.threads.len() <= id.index() {
            self.threads.resize_with(id.index() + 1, OfThread::default);
        }
        &mut self.threads[id.index()]
    }

    pub(crate) fn thread_lane(&mut self, system: &System, id: ThreadId) -> LaneId {
        if let Some(lane) = self.of_thread(id).lane {
            return lane;
        }
        let lane = self.lane(system, Shown::Thread(id));
        self.of_thread(id).lane = Some(lane);
        lane
    }

    fn calls_lane(&mut self, system: &System, id: ThreadId) -> LaneId {
        if let Some(lane) = self.of_thread(id).calls {
            return lane;
        }
        let thread = self.thread_lane(system, id);
        let lane = self.lane(system, Shown::Calls(thread));
        self.of_thread(id).calls = Some(lane);
        lane
    }

    /// What a CPU has, which is new or does something from `begin_ns` on.
    pub(crate) fn of_cpu(&mut self, system: &System, cpu: u32, begin_ns: i64) -> &mut OfCpu {
        if !self.cpus.contains_key(&cpu) {
            let lane = self.lane(system, Shown::Cpu(cpu));
            let open = unknown(system.told().0.min(begin_ns));
            self.cpus.insert(cpu, OfCpu { lane, open });
        }
        self.cpus.get_mut(&cpu).expect("it is there")
    }

    /// The next piece of a CPU.
    fn put_on_cpu(&mut self, system: &System, cpu: u32, piece: Piece) {
        let OfCpu { lane, open } = self.of_cpu(system, cpu, piece.begin_ns);
        let (lane, ended) = (*lane, advance(open, piece));
        let is_any = |piece: &Piece| piece.begin_ns < piece.end_ns;
        for piece in ended.into_iter().flatten().filter(is_any) {
            self.put(lane, &piece);
        }
    }

    /// The last pieces of CPUs, up to the end of the trace.
    fn end_cpus(&mut self, system: &System, end_ns: i64) {
        for cpu in self.cpus.keys().copied().collect::<Vec<_>>() {
            // One without a length ends the one before it, and what is unknown behind that.
            let end = Piece {
                begin_ns: end_ns,
                end_ns,
                class: Class::Other,
                what: 0,
                by: 0,
                value: 0,
            };
            self.put_on_cpu(system, cpu, end);
        }
    }

    fn interrupt_lane(&mut self, system: &System, interrupt: Interrupt) -> LaneId {
        if let Some(lane) = self.interrupts.get(&interrupt) {
            return *lane;
        }
        let lane = self.lane(system, Shown::Interrupt(interrupt));
        self.interrupts.insert(interrupt, lane);
        lane
    }

    pub(crate) fn device_lane(&mut self, system: &System, device: u32) -> LaneId {
        if let Some(lane) = self.devices.get(&device) {
            return *lane;
        }
        let lane = self.lane(system, Shown::Device(device));
        self.devices.insert(device, lane);
        lane
    }

    pub(crate) fn label(&mut self, label: Label) -> u32 {
        self.labels.push(label);
        self.labels.len() as u32
    }

    pub(crate) fn label_of_thread(&mut self, system: &System, id: ThreadId) -> u32 {
        if let Some(label) = self.of_thread(id).label {
            return label;
        }
        let lane = self.thread_lane(system, id);
        let label = self.label(Label::Thread(lane));
        self.of_thread(id).label = Some(label);
        label
    }

    fn label_of_name(&mut self, system: &System, name: Name) -> u32 {
        if let Some(label) = self.names.get(&name) {
            return *label;
        }
        let label = self.label(Label::Text(system.names.text(name).to_owned()));
        self.names.insert(name, label);
        label
    }

    pub(crate) fn label_of_interrupt(&mut self, system: &System, interrupt: Interrupt) -> u32 {
        if let Some(label) = self.interrupt_labels.get(&interrupt) {
            return *label;
        }
        let label = self.label(Label::Text(interrupt_name(system, interrupt)));
        self.interrupt_labels.insert(interrupt, label);
        label
    }

    /// What a thread does, without who ended it; absent: it is not there.
    fn look(&mut self, system: &System, state: State) -> Option<(Class, u32)> {
        Some(match state {
            State::Unknown => (Class::Unknown, 0),
            State::Unborn | State::Dead => return None,
            State::Runnable(_) => (Class::Runnable, 0),
            State::Stopped => (Class::Stopped, 0),
            State::Blocked(wait) => {
                let call = wait.call.map_or(0, |call| self.label_of_name(system, call));
                (Class::Blocked, call)
            }
            State::Running { mode, .. } => match mode {
                Mode::Unknown => (Class::Running, 0),
                Mode::User => (Class::User, 0),
                Mode::Kernel => (Class::Kernel, 0),
                Mode::Idle => (Class::Idle, 0),
                Mode::Call(call) => (Class::Kernel, self.label_of_name(system, call)),
                Mode::Interrupt(interrupt) => (Class::Interrupted, self.label_of_interrupt(system, interrupt)),
            },
        })
    }

    /// What a lane shows, with the names of now.
    fn subject(&mut self, system: &System, shown: Shown) -> Subject {
        match shown {
            Shown::Cpu(cpu) => Subject::Cpu(cpu),
            Shown::Calls(thread) => Subject::Calls(thread),
            Shown::Interrupt(interrupt) => Subject::Interrupt(interrupt_name(system, interrupt)),
            Shown::Device(device) => Subject::Device(system.device_name(device)),
            Shown::Thread(id) => {
                let thread = system.thread(id);
                let process = thread.process();
                let next = self.processes.len() as u32;
                Subject::Thread(Thread {
                    tid: thread.tid,
                    pid: thread.pid,
                    name: system.name_of(id).to_owned(),
                    is_kernel: thread.nature == Nature::Kernel,
                    process: *self.processes.entry(process).or_insert(next),
                    uid: thread.uid,
                    cgroup: system
                        .process(process)
                        .map_or_else(String::new, |process| process.cgroup.to_string()),
                    parent_pid: thread.parent_pid,
                    created: self.of_thread(id).created,
                })
            }
        }
    }

    /// What a slice is on the lane of its thread, and on that of its CPU.
    pub(crate) fn pieces(&mut self, system: &System, slice: &Slice) -> (Option<Piece>, Option<(u32, Piece)>) {
        let Some((class, what)) = self.look(system, slice.state) else {
            return (None, None);
        };
        let by = slice.wake.and_then(|wake| wake.waker());
        let by = by.map_or(0, |waker| self.label_of_waker(system, waker));
        let span_ns = (slice.begin_ns, slice.end_ns);
        let own = Piece {
            by,
            ..piece(class, what, span_ns)
        };
        let is_idle = system.thread(slice.thread).nature == Nature::Idle;
        let of_thread = (!is_idle).then_some(own);
        let State::Running { cpu, .. } = slice.state else {
            return (of_thread, None);
        };
        let thread = if is_idle {
            0
        } else {
            self.label_of_thread(system, slice.thread)
        };
        let (class, what, by) = match class {
            Class::Interrupted => (class, what, thread),
            Class::Running | Class::Idle if is_idle => (Class::Idle, 0, 0),
            _ => (Class::Running, thread, 0),
        };
        let on_cpu = Piece {
            by,
            ..piece(class, what, span_ns)
        };
        (of_thread, Some((cpu, on_cpu)))
    }

    fn label_of_waker(&mut self, system: &System, waker: Waker) -> u32 {
        match waker {
            // A CPU that has nothing to do wakes nobody.
            Waker::Thread(id) if system.thread(id).nature == Nature::Idle => 0,
            Waker::Thread(id) => self.label_of_thread(system, id),
            Waker::Interrupt(interrupt) => self.label_of_interrupt(system, interrupt),
        }
    }
}

fn unknown(begin_ns: i64) -> Piece {
    piece(Class::Unknown, 0, (begin_ns, begin_ns))
}

/// Gives a CPU its next piece, which may go on with the one that is open; returns those that ended. Where there was none before, nobody knows what
/// the CPU did.
pub(crate) fn advance(open: &mut Piece, piece: Piece) -> [Option<Piece>; 2] {
    let mut ended = [None, None];
    if open.end_ns < piece.begin_ns {
        if open.class != Class::Unknown {
            ended[0] = Some(std::mem::replace(open, unknown(open.end_ns)));
        }
        open.end_ns = piece.begin_ns;
    }
    let goes_on = (open.class, open.what, open.by) == (piece.class, piece.what, piece.by);
    if goes_on && open.end_ns == piece.begin_ns {
        open.end_ns = piece.end_ns;
    } else {
        ended[1] = Some(std::mem::replace(open, piece));
    }
    ended
}

impl<W: Write> Listen for Recorder<W> {
    fn wants_files(&self) -> bool {
        false
    }

    fn slice(&mut self, system: &System, slice: &Slice) {
        let (of_thread, on_cpu) = self.pieces(system, slice);
        if let Some(piece) = of_thread {
            let lane = self.thread_lane(system, slice.thread);
            self.put(lane, &piece);
        }
        if let Some((cpu, piece)) = on_cpu {
            self.put_on_cpu(system, cpu, piece);
        }
    }

    fn call(&mut self, system: &System, call: &Call) {
        let what = self.label_of_name(system, call.name);
        let lane = self.calls_lane(system, call.thread);
        let piece = Piece {
            begin_ns: call.begin_ns,
            end_ns: call.end_ns,
            class: Class::Other,
            what,
            by: 0,
            value: 0,
        };
        self.put(lane, &piece);
    }

    fn interruption(&mut self, system: &System, interruption: &Interruption) {
        let lane = self.interrupt_lane(system, interruption.interrupt);
        let thread = system.current_on(interruption.cpu);
        let thread = thread.filter(|id| system.thread(*id).nature != Nature::Idle);
        let piece = Piece {
            begin_ns: interruption.begin_ns,
            end_ns: interruption.end_ns,
            class: Class::Other,
            what: 0,
            by: thread.map_or(0, |id| self.label_of_thread(system, id)),
            value: 0,
        };
        self.put(lane, &piece);
    }

    fn born(&mut self, system: &System, thread: ThreadId, parent: Option<ThreadId>, ns: i64) {
        // A thread of a CPU that has nothing to do is the kernel itself.
        let Some(parent) = parent.filter(|id| system.thread(*id).nature != Nature::Idle) else {
            return;
        };
        let by = self.thread_lane(system, parent);
        let created = Some(Created { by, ns });
        self.of_thread(thread).created = created;
        let lane = self.thread_lane(system, thread);
        if let Subject::Thread(thread) = &mut self.subjects[lane.0 as usize] {
            thread.created = created;
        }
    }

    fn occurrence(&mut self, system: &System, occurrence: &Occurrence) {
        self.count(system, occurrence);
    }

    fn request(&mut self, system: &System, request: &Request) {
        // One whose end is unknown has no length.
        let Some(end_ns) = request.completed_ns else { return };
        let lane = self.device_lane(system, request.device);
        let piece = Piece {
            begin_ns: request.issued_ns,
            end_ns,
            class: Class::Other,
            what: 0,
            by: request.thread.map_or(0, |id| self.label_of_thread(system, id)),
            value: 0,
        };
        self.put(lane, &piece);
        self.count_request(system, request, end_ns);
    }
}
