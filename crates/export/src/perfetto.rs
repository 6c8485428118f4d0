// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trace of Perfetto: a row of TracePackets. What stands in them is checked against Perfetto's own definitions by tests/suite.
//!
//! Two sequences of packets: one for the kernel's events, clocks and processes, one for track events, whose names have numbers that hold for
//! the sequence. Times are those of CLOCK_BOOTTIME, which the events' clock stands for; a snapshot says what time of day that is.

mod ftrace;
mod processes;
mod tracks;

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::ptr;

use piste_ctf::read::clock::ClockScale;
use piste_ctf::read::schema::Version;
use piste_modelling::Symbols;
use piste_trace::phases::Phases;
use piste_trace::select::{Comm, Selection};
use piste_trace::{Span, Trace};

use crate::places::ByPlace;
use crate::protobuf::Message;
use crate::reader::{Seen, Switched, Writer, read};
use crate::runs::{Change, Holder};
use crate::{ExportError, Exported};
use ftrace::Row;
use processes::Processes;
use tracks::Tracks;

/// Writes the wanted events of traces, the kernel's of which come first, as a trace of Perfetto.
///
/// # Errors
/// A stream file that was there cannot be opened any more, or the output cannot be written.
pub fn perfetto<'t>(
    traces: &'t [Trace],
    selection: &Selection,
    symbols: Option<&Symbols<'t>>,
    out: &mut dyn Write,
) -> Result<Exported, ExportError> {
    let mut perfetto = Perfetto::new(traces, out);
    perfetto.head(traces).map_err(ExportError::Write)?;
    read(traces, selection, symbols, &mut perfetto)
}

/// Builtin clocks, and the flags of sequences.
const REALTIME: u64 = 1;
const MONOTONIC: u64 = 3;
const BOOTTIME: u64 = 6;
const STATE_CLEARED: u64 = 1;
const NEEDS_STATE: u64 = 2;

/// Of events of one CPU.
const BUNDLE_EVENTS: u32 = 256;
const BUNDLE_BYTES: usize = 64 << 10;

/// Who writes packets.
#[derive(Clone, Copy)]
enum Sequence {
    Kernel = 1,
    Tracks = 2,
}

struct Perfetto<'t, 'o> {
    out: &'o mut dyn Write,
    /// What is taken from times: the origin of the first clock, at which the computer was started.
    base_ns: i64,
    is_of_calendar: bool,
    begun: [bool; 2],
    bundles: BTreeMap<u64, Bundle>,
    rows: ByPlace<Option<&'static Row>>,
    /// Forks are told by events of their own too.
    has_new_tasks: bool,
    /// The threads that the switches so far have brought to CPUs.
    current: HashMap<u64, Current>,
    processes: Processes,
    tracks: Tracks<'t>,
    last: u64,
}

/// Events of one CPU that are to be written.
#[derive(Default)]
struct Bundle {
    events: Message,
    count: u32,
    is_after_loss: bool,
}

/// The thread that Perfetto takes to have a CPU; 0 is the CPU's idle thread, which stands for what nobody knows too.
#[derive(Clone, Copy)]
struct Current {
    tid: i64,
    comm: Comm,
}

impl Current {
    fn new(tid: i64, comm: &[u8]) -> Current {
        let comm = Comm::new(comm);
        Current { tid, comm }
    }

    fn idle(cpu: u64) -> Current {
        Current::new(0, format!("swapper/{cpu}").as_bytes())
    }

    /// Who has a CPU, and how urgent it is.
    fn of(cpu: u64, holder: Holder<'_>) -> (Current, Option<i64>) {
        match holder {
            Holder::Thread(runner) => (Current::new(runner.tid, runner.name.as_bytes()), runner.priority),
            Holder::Unknown | Holder::Other => (Current::idle(cpu), None),
        }
    }
}

impl<'t, 'o> Perfetto<'t, 'o> {
    fn new(traces: &'t [Trace], out: &'o mut dyn Write) -> Perfetto<'t, 'o> {
        let clock = traces.iter().flat_map(|trace| &trace.schema().clocks).next();
        let is_first = traces
            .first()
            .is_some_and(|trace| trace.schema().version == Version::Ctf1);
        let base_ns = clock.and_then(|clock| ClockScale::new(clock).nanoseconds(0));
        let streams = traces.iter().flat_map(|trace| trace.schema().streams.values());
        Perfetto {
            out,
            base_ns: base_ns.unwrap_or(0),
            // In CTF 1.8, what says otherwise is only whether the clocks of computers agree.
            is_of_calendar: clock.is_some_and(|clock| clock.is_unix_epoch || is_first),
            begun: [false; 2],
            bundles: BTreeMap::new(),
            rows: ByPlace::default(),
            has_new_tasks: streams
                .flat_map(|stream| stream.events.values())
                .any(|class| class.name == "task_newtask"),
            current: HashMap::new(),
            processes: Processes::default(),
            tracks: Tracks::new(Phases::new(traces)),
            last: 0,
        }
    }

    /// What holds for the whole trace.
    fn head(&mut self, traces: &[Trace]) -> io::Result<()> {
        let begin = Span::of(traces).map_or(self.base_ns, |span| span.begin_ns);
        let now = self.timestamp(begin);
        let mut packet = Message::default();
        packet.number(8, now);
        let mut clocks = vec![(BOOTTIME, now), (MONOTONIC, now)];
        if self.is_of_calendar
            && let Ok(real) = u64::try_from(begin)
        {
            clocks.push((REALTIME, real));
        }
        packet.message(6, |snapshot| {
            for (id, time) in clocks {
                snapshot.message(1, |clock| {
                    clock.number(1, id);
                    clock.number(2, time);
                });
            }
            snapshot.number(2, BOOTTIME);
        });
        self.packet(Sequence::Kernel, &packet)?;
        let Some(trace) = traces.first() else { return Ok(()) };
        packet.clear();
        // The kernel's trace knows its version.
        let environment = |key: &str| traces.iter().find_map(|trace| trace.environment(key));
        packet.message(45, |system| {
            system.message(1, |utsname| {
                for (field, key) in [
                    (1, "sysname"),
                    (2, "kernel_version"),
                    (3, "kernel_release"),
                    (4, "architecture"),
                ] {
                    if let Some(value) = environment(key) {
                        utsname.text(field, value.as_bytes());
                    }
                }
            });
            system.text(4, concat!("Piste ", env!("CARGO_PKG_VERSION")).as_bytes());
            if let Some(host) = environment("hostname") {
                system.text(17, host.as_bytes());
            }
        });
        self.packet(Sequence::Kernel, &packet)?;
        if let Some(uuid) = trace.schema().uuid {
            let (most, least) = uuid.split_at(8);
            let number = |bytes: &[u8]| i64::from_be_bytes(bytes.try_into().expect("half of sixteen"));
            packet.clear();
            packet.message(89, |message| {
                message.signed(1, number(most));
                message.signed(2, number(least));
            });
            self.packet(Sequence::Kernel, &packet)?;
        }
        Ok(())
    }

    fn timestamp(&self, ns: i64) -> u64 {
        // Events of other clocks may be before the origin of the first.
        u64::try_from(ns.saturating_sub(self.base_ns)).unwrap_or(0)
    }

    fn kernel(&mut self, cpu: u64, event: &Seen<'_>, timestamp: u64) -> io::Result<()> {
        let row = *self
            .rows
            .entry(ptr::from_ref(event.class).addr())
            .or_insert_with(|| ftrace::known(&event.class.name));
        if event.is_after_loss {
            self.write_bundle(cpu)?;
        }
        let bundle = self.bundles.entry(cpu).or_default();
        bundle.is_after_loss |= event.is_after_loss;
        let tid = event.who.tid.unwrap_or(0);
        bundle.events.message(2, |message| {
            message.number(1, timestamp);
            message.signed(2, tid);
            ftrace::write(message, row, event);
        });
        bundle.count += 1;
        if &*event.class.name == "sched_process_fork"
            && !self.has_new_tasks
            && let Some(process) = event.number("child_pid").filter(|process| *process >= 0)
        {
            // Perfetto knows by this event whether a thread or a process was begun.
            const CLONE_THREAD: u64 = 0x10000;
            let child = event.number("child_tid").unwrap_or(process);
            let is_thread = process != child;
            bundle.events.message(2, |message| {
                message.number(1, timestamp);
                message.signed(2, tid);
                message.message(235, |new_task| {
                    new_task.signed(1, child);
                    new_task.text(2, event.text("child_comm").unwrap_or_default());
                    new_task.number(3, if is_thread { CLONE_THREAD } else { 0 });
                });
            });
        }
        if bundle.count >= BUNDLE_EVENTS || bundle.events.bytes().len() >= BUNDLE_BYTES {
            self.write_bundle(cpu)?;
        }
        Ok(())
    }

    /// A switch of the trace, between the threads that Perfetto knows of and those that the model does: each switch must be from the thread
    /// to which the one before it was.
    fn switch(&mut self, cpu: u64, event: &Seen<'_>, switched: &Switched<'_>, timestamp: u64) -> io::Result<()> {
        let thread = |names: [&str; 2], comm: &str| {
            let tid = names.into_iter().find_map(|name| event.number(name));
            tid.map(|tid| Current::new(tid, event.text(comm).unwrap_or_default()))
        };
        if self.current.contains_key(&cpu)
            && let Some(previous) = thread(["prev_tid", "prev_pid"], "prev_comm")
        {
            self.turn_to(cpu, previous, None, timestamp);
        }
        self.kernel(cpu, event, timestamp)?;
        if let Some(next) = thread(["next_tid", "next_pid"], "next_comm") {
            self.current.insert(cpu, next);
        }
        let (to, priority) = Current::of(cpu, switched.to);
        self.turn_to(cpu, to, priority, timestamp);
        Ok(())
    }

    /// A CPU has this thread. Perfetto goes by switches, so it needs one where the trace has none.
    fn turn_to(&mut self, cpu: u64, to: Current, priority: Option<i64>, timestamp: u64) {
        // Before its first switch, a CPU is as good as idle.
        let before = self.current.insert(cpu, to).unwrap_or_else(|| Current::idle(cpu));
        if before.tid == to.tid {
            return;
        }
        let bundle = self.bundles.entry(cpu).or_default();
        bundle.events.message(2, |message| {
            message.number(1, timestamp);
            message.signed(2, before.tid);
            ftrace::write_turn(message, &before, &to, priority);
        });
        bundle.count += 1;
    }

    fn write_bundle(&mut self, cpu: u64) -> io::Result<()> {
        let Some(bundle) = self.bundles.get_mut(&cpu).filter(|bundle| bundle.count > 0) else {
            return Ok(());
        };
        let mut packet = Message::default();
        packet.message(1, |message| {
            message.number(1, cpu);
            message.append(&bundle.events);
            if bundle.is_after_loss {
                message.number(3, 1);
            }
        });
        bundle.events.clear();
        (bundle.count, bundle.is_after_loss) = (0, false);
        self.packet(Sequence::Kernel, &packet)
    }

    fn write_processes(&mut self) -> io::Result<()> {
        if self.processes.tree.is_empty() {
            return Ok(());
        }
        let mut packet = Message::default();
        packet.number(8, self.last);
        packet.message_of(2, &self.processes.tree);
        self.processes.clear();
        self.packet(Sequence::Kernel, &packet)
    }

    /// Writes a packet with what all of its sequence have.
    fn packet(&mut self, sequence: Sequence, fields: &Message) -> io::Result<()> {
        let begun = std::mem::replace(&mut self.begun[sequence as usize - 1], true);
        write_packet(self.out, sequence, begun, fields)
    }
}

fn write_packet(out: &mut dyn Write, sequence: Sequence, begun: bool, fields: &Message) -> io::Result<()> {
    let mut rest = Message::default();
    rest.number(10, sequence as u64);
    rest.number(13, if begun { NEEDS_STATE } else { STATE_CLEARED });
    if !begun {
        rest.number(87, 1);
    }
    rest.append(fields);
    let mut trace = Message::default();
    trace.message_of(1, &rest);
    out.write_all(trace.bytes())
}

impl Writer for Perfetto<'_, '_> {
    fn event(&mut self, event: &Seen<'_>) -> io::Result<()> {
        let timestamp = self.timestamp(event.ns);
        self.last = self.last.max(timestamp);
        if event.is_kernel {
            let is_all = self.processes.see(event, self.has_new_tasks);
            if self.processes.is_full() {
                self.write_processes()?;
            }
            if is_all {
                return Ok(());
            }
            let is_call = event.class.name.starts_with("syscall_");
            if let Some(cpu) = event.cpu.filter(|_| !is_call) {
                return match &event.switched {
                    Some(switched) => self.switch(cpu, event, switched, timestamp),
                    None => self.kernel(cpu, event, timestamp),
                };
            }
        }
        let begun = &mut self.begun[Sequence::Tracks as usize - 1];
        for packet in self.tracks.event(event, timestamp) {
            let was_begun = std::mem::replace(begun, true);
            write_packet(self.out, Sequence::Tracks, was_begun, &packet)?;
        }
        Ok(())
    }

    fn change(&mut self, change: &Change, to: Holder<'_>) -> io::Result<()> {
        let timestamp = self.timestamp(change.ns);
        let (to, priority) = Current::of(change.cpu, to);
        self.turn_to(change.cpu, to, priority, timestamp);
        Ok(())
    }

    fn end(&mut self, _: Option<i64>) -> io::Result<()> {
        self.write_processes()?;
        let cpus: Vec<u64> = self.bundles.keys().copied().collect();
        cpus.into_iter().try_for_each(|cpu| self.write_bundle(cpu))
    }
}
