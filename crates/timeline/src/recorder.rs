// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the model to a timeline: a lane for each CPU, thread, interrupt and device that does something. What programs recorded comes in programs.rs.

use std::io::{self, Write};

use piste_analysis::analyses::interrupt_name;
use piste_analysis::facts::Interrupt;
use piste_analysis::model::{Call, Interruption, Listen, Mode, Nature, Request, Slice, State, System, ThreadId, Waker};
use piste_analysis::names::Name;
use rustc_hash::FxHashMap;

use crate::file::{Directory, Writer};
use crate::going::Going;
use crate::lane::{Label, LaneId, Subject, Thread};
use crate::piece::{Class, Piece};
use crate::programs::Programs;

/// Writes a timeline while it listens to a model.
pub struct Recorder<W> {
    pub(crate) writer: Writer<W>,
    /// By lane; absent: it is one of a program.
    shown: Vec<Option<Shown>>,
    /// By lane. Those of the kernel have the names that they had at first.
    pub(crate) subjects: Vec<Subject>,
    /// By the model's number of a thread.
    threads: Vec<OfThread>,
    pub(crate) cpus: FxHashMap<u32, OfCpu>,
    interrupts: FxHashMap<Interrupt, LaneId>,
    devices: FxHashMap<u32, LaneId>,
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

    /// Gives the kernel's lanes the names of now.
    pub(crate) fn name_lanes(&mut self, system: &System) {
        for (own, shown) in self.subjects.iter_mut().zip(&self.shown) {
            shown.iter().for_each(|shown| *own = subject(system, *shown));
        }
    }

    pub(crate) fn put(&mut self, lane: LaneId, piece: &Piece) {
        self.going.end(lane);
        if self.error.is_none() {
            self.error = self.writer.put(lane, piece).err();
        }
    }

    fn lane(&mut self, system: &System, shown: Shown) -> LaneId {
        self.add_lane(Some(shown), subject(system, shown))
    }

    pub(crate) fn program_lane(&mut self, subject: Subject) -> LaneId {
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

    fn device_lane(&mut self, system: &System, device: u32) -> LaneId {
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

    fn label_of_thread(&mut self, system: &System, id: ThreadId) -> u32 {
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

    fn label_of_interrupt(&mut self, system: &System, interrupt: Interrupt) -> u32 {
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

    /// What a slice is on the lane of its thread, and on that of its CPU.
    pub(crate) fn pieces(&mut self, system: &System, slice: &Slice) -> (Option<Piece>, Option<(u32, Piece)>) {
        let Some((class, what)) = self.look(system, slice.state) else {
            return (None, None);
        };
        let by = slice.wake.and_then(|wake| wake.waker());
        let piece = Piece {
            begin_ns: slice.begin_ns,
            end_ns: slice.end_ns,
            class,
            what,
            by: by.map_or(0, |waker| self.label_of_waker(system, waker)),
        };
        let is_idle = system.thread(slice.thread).nature == Nature::Idle;
        let of_thread = (!is_idle).then_some(piece);
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
            class,
            what,
            by,
            ..piece
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
    Piece {
        begin_ns,
        end_ns: begin_ns,
        class: Class::Unknown,
        what: 0,
        by: 0,
    }
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

/// What a lane shows, with the names of now.
fn subject(system: &System, shown: Shown) -> Subject {
    match shown {
        Shown::Cpu(cpu) => Subject::Cpu(cpu),
        Shown::Calls(thread) => Subject::Calls(thread),
        Shown::Interrupt(interrupt) => Subject::Interrupt(interrupt_name(system, interrupt)),
        Shown::Device(device) => Subject::Device(system.device_name(device)),
        Shown::Thread(id) => {
            let thread = system.thread(id);
            Subject::Thread(Thread {
                tid: thread.tid,
                pid: thread.pid,
                name: system.name_of(id).to_owned(),
                is_kernel: thread.nature == Nature::Kernel,
            })
        }
    }
}

impl<W: Write> Listen for Recorder<W> {
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
        };
        self.put(lane, &piece);
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
        };
        self.put(lane, &piece);
    }
}
