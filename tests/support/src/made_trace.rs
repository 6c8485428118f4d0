// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes kernel traces of any size, as Piste records them: for benchmarks of readers, and for tests with more threads than a machine can have.
//!
//! What happens is as if by chance, the same each time: threads of each CPU take turns, call the kernel, wait, and are woken by other threads, also of
//! other CPUs, or by a soft interrupt. A few threads do most of the work, but each of them does something.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

use piste_ctf::index::{self, Entry};
use piste_ctf::metadata::{self, Form};
use piste_ctf::packet::{Header, KERNEL_HEADER_BYTES, KernelHeader};
use piste_ctf::{Base, Clock, Element, EnvironmentValue, EventClass, Field, FieldKind, NO_LEVEL, StreamClass, Trace};

/// How large the machine is, and how long it was recorded.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// CPUs, each with a stream.
    pub cpus: u32,
    /// Threads, of which ten are a process.
    pub threads: u32,
    /// Events, about.
    pub events: u64,
}

const CHANNEL: u32 = 0;
const STATE_DUMP: u32 = 65536;
const UUID: [u8; 16] = *b"a made trace 001";
const HERTZ: u64 = 1_000_000_000;
/// A packet is full when it has so many bytes.
const PACKET_BYTES: usize = 1 << 17;
/// Threads of a process.
const PROCESS_THREADS: u32 = 10;
const FIRST_TID: u32 = 1000;
/// To dump a thread takes so long.
const DUMPED_NS: u64 = 1000;
/// When the recording begins, in ns since the machine did.
const BEGIN_NS: u64 = 100_000_000_000;

// Classes of events, with their numbers.
const SWITCH: u32 = 0;
const WAKING: u32 = 1;
const SOFTIRQ_ENTRY: u32 = 6;
const SOFTIRQ_EXIT: u32 = 7;
const DUMP_BEGIN: u32 = 0;
const DUMP_END: u32 = 1;
const DUMPED_THREAD: u32 = 2;
const TIMER: u32 = 1;

const WAKEUP: u32 = 2;

/// A system call as it is recorded.
struct Call {
    name: &'static str,
    /// The number of its entries; that of its exits is the next one. Those of rare calls do not fit into the shortest header.
    class: u32,
    /// Its thread may wait in it.
    can_wait: bool,
    arguments: &'static [(&'static str, Argument)],
}

#[derive(Clone, Copy)]
enum Argument {
    Int,
    Long,
    Path,
    /// What could not be read of the memory of the call: nothing.
    Incomplete,
}

use Argument::{Incomplete, Int, Long, Path as PathOf};

const CALLS: [Call; 5] = [
    Call {
        name: "read",
        class: 22,
        can_wait: true,
        arguments: &[("fd", Int), ("buf", Long), ("count", Long)],
    },
    Call {
        name: "write",
        class: 24,
        can_wait: false,
        arguments: &[("fd", Int), ("buf", Long), ("count", Long)],
    },
    Call {
        name: "futex",
        class: 26,
        can_wait: true,
        arguments: &[
            ("uaddr", Long),
            ("op", Int),
            ("val", Int),
            ("utime", Long),
            ("uaddr2", Long),
            ("val3", Int),
            ("utime_tv_sec", Long),
            ("utime_tv_nsec", Long),
            ("incomplete", Incomplete),
        ],
    },
    Call {
        name: "epoll_wait",
        class: 16848,
        can_wait: true,
        arguments: &[("epfd", Int), ("events", Long), ("maxevents", Int), ("timeout", Int)],
    },
    Call {
        name: "openat",
        class: 16898,
        can_wait: false,
        arguments: &[
            ("dfd", Int),
            ("filename", PathOf),
            ("flags", Int),
            ("mode", Int),
            ("incomplete", Incomplete),
        ],
    },
];

/// Writes a trace into a new folder.
///
/// # Errors
/// It cannot be written.
pub fn write(folder: &Path, shape: Shape) -> io::Result<()> {
    let kernel = folder.join("kernel");
    fs::create_dir_all(kernel.join("index"))?;
    fs::write(kernel.join("metadata"), description())?;
    let mut machine = Machine::new(&kernel, shape)?;
    machine.dump(&kernel)?;
    while machine.events < shape.events {
        machine.step()?;
    }
    machine.finish()
}

fn description() -> String {
    let environment = [
        ("domain", "kernel"),
        ("tracer_name", "lttng-modules"),
        ("hostname", "made"),
        ("sysname", "Linux"),
        ("kernel_release", "6.18.0"),
        ("piste_version", "0.1.0"),
    ];
    let text = |(key, value): (&str, &str)| (key.to_owned(), EnvironmentValue::Text(value.to_owned()));
    let trace = Trace {
        uuid: UUID,
        clock: Clock {
            name: "monotonic".to_owned(),
            uuid: UUID,
            frequency_hz: HERTZ,
            offset_seconds: 1_790_000_000,
            offset_ticks: 0,
            description: "Monotonic clock".to_owned(),
        },
        environment: environment.into_iter().map(text).collect(),
    };
    let number = |name: &str, element| Field {
        name: name.to_owned(),
        kind: FieldKind::Scalar {
            element,
            base: Base::Decimal,
        },
    };
    let int = |name: &str| number(name, Element::Int32);
    let long = |name: &str| number(name, Element::Int64);
    let comm = |name: &str| Field {
        name: name.to_owned(),
        kind: FieldKind::FixedText { bytes: 16 },
    };
    let string = |name: &str| Field {
        name: name.to_owned(),
        kind: FieldKind::String,
    };
    let class = |stream: u32, id: u32, name: &str, fields: Vec<Field>| {
        let class = EventClass {
            id,
            name: name.to_owned(),
            level: NO_LEVEL,
            contexts: vec![],
            fields,
        };
        metadata::event_class(stream, &class)
    };
    let stream = |id, contexts| {
        metadata::stream_class(&StreamClass {
            id,
            channel: String::new(),
            contexts,
        })
    };
    let mut said = metadata::opening(&trace, Form::Kernel);
    said += &stream(CHANNEL, vec![int("tid")]);
    let switch = [
        comm("prev_comm"),
        int("prev_tid"),
        int("prev_prio"),
        long("prev_state"),
        long("prev_state_raw"),
        comm("next_comm"),
        int("next_tid"),
        int("next_prio"),
    ];
    said += &class(CHANNEL, SWITCH, "sched_switch", switch.into());
    let woken = [comm("comm"), int("tid"), int("prio"), int("target_cpu")];
    said += &class(CHANNEL, WAKING, "sched_waking", woken.clone().into());
    said += &class(CHANNEL, WAKEUP, "sched_wakeup", woken.into());
    said += &class(CHANNEL, SOFTIRQ_ENTRY, "irq_softirq_entry", vec![int("vec")]);
    said += &class(CHANNEL, SOFTIRQ_EXIT, "irq_softirq_exit", vec![int("vec")]);
    for call in &CALLS {
        let field = |(name, kind): &(&str, Argument)| match kind {
            Int => int(name),
            Long => long(name),
            PathOf | Incomplete => string(name),
        };
        let arguments = call.arguments.iter().map(field).collect();
        said += &class(CHANNEL, call.class, &format!("syscall_entry_{}", call.name), arguments);
        said += &class(
            CHANNEL,
            call.class + 1,
            &format!("syscall_exit_{}", call.name),
            vec![long("ret")],
        );
    }
    said += &stream(STATE_DUMP, Vec::new());
    said += &class(STATE_DUMP, DUMP_BEGIN, "lttng_statedump_start", Vec::new());
    said += &class(STATE_DUMP, DUMP_END, "lttng_statedump_end", Vec::new());
    let thread = ["tid", "vtid", "pid", "vpid", "ppid"].map(int).into_iter();
    let state = ["type", "mode", "submode", "status", "cpu"].map(int);
    let thread = thread.chain([string("name")]).chain(state).collect();
    said += &class(STATE_DUMP, DUMPED_THREAD, "lttng_statedump_process_state", thread);
    said
}

/// A machine that is recorded.
struct Machine {
    cpus: Vec<Cpu>,
    /// What each CPU does next, and when.
    next: BinaryHeap<Reverse<(u64, usize)>>,
    /// By number: which call it waits in.
    waits_in: Vec<Option<usize>>,
    random: fastrand::Rng,
    events: u64,
}

struct Cpu {
    stream: Stream,
    now_ns: u64,
    /// Absent: the CPU is idle.
    current: Option<u32>,
    runnable: VecDeque<u32>,
    /// Threads that wait, of this CPU.
    waiting: Vec<u32>,
    /// Threads that have done nothing yet.
    fresh: Vec<u32>,
}

fn tid_of(thread: Option<u32>) -> u32 {
    thread.map_or(0, |thread| FIRST_TID + thread)
}

/// `web-7`: threads of a process have numbers.
fn name_of(thread: Option<u32>) -> [u8; 16] {
    const NAMES: [&str; 6] = ["web", "store", "index", "cache", "queue", "log"];
    let text = match thread {
        None => "swapper".to_owned(),
        Some(thread) => format!(
            "{}-{}",
            NAMES[(thread / PROCESS_THREADS) as usize % NAMES.len()],
            thread % PROCESS_THREADS
        ),
    };
    let mut name = [0; 16];
    name[..text.len()].copy_from_slice(text.as_bytes());
    name
}

impl Machine {
    fn new(folder: &Path, shape: Shape) -> io::Result<Machine> {
        let cpu = |number: u32| {
            let threads = (number..shape.threads).step_by(shape.cpus as usize);
            let mut stream = Stream::create(folder, &format!("kernel_{number}"), CHANNEL, number)?;
            // Nothing happened before the first event.
            stream.end_packet(BEGIN_NS)?;
            Ok(Cpu {
                stream,
                now_ns: BEGIN_NS + u64::from(number),
                current: None,
                runnable: VecDeque::new(),
                waiting: Vec::new(),
                fresh: threads.collect(),
            })
        };
        let cpus: io::Result<Vec<Cpu>> = (0..shape.cpus).map(cpu).collect();
        let cpus = cpus?;
        Ok(Machine {
            next: (0..)
                .zip(&cpus)
                .map(|(number, cpu)| Reverse((cpu.now_ns, number)))
                .collect(),
            cpus,
            waits_in: vec![None; shape.threads as usize],
            random: fastrand::Rng::with_seed(1),
            events: 0,
        })
    }

    /// The state dump: which threads there are. It is made while the machine works.
    fn dump(&mut self, folder: &Path) -> io::Result<()> {
        let mut stream = Stream::create(folder, "statedump_0", STATE_DUMP, 0)?;
        let mut now_ns = BEGIN_NS;
        stream.event(now_ns, DUMP_BEGIN, None, &[])?;
        for thread in 0..self.waits_in.len() as u32 {
            now_ns += DUMPED_NS;
            let (tid, pid) = (tid_of(Some(thread)), tid_of(Some(thread - thread % PROCESS_THREADS)));
            let mut fields: Vec<u8> = [tid, tid, pid, pid, 1].into_iter().flat_map(u32::to_le_bytes).collect();
            let name = name_of(Some(thread));
            fields.extend(name.into_iter().take_while(|byte| *byte != 0).chain([0]));
            // A thread of a program, which waits.
            fields.extend([0, 0, 0, 5, 0_u32].into_iter().flat_map(u32::to_le_bytes));
            stream.event(now_ns, DUMPED_THREAD, None, &fields)?;
        }
        stream.event(now_ns, DUMP_END, None, &[])?;
        stream.finish(now_ns)
    }

    /// The CPU that is behind does something.
    fn step(&mut self) -> io::Result<()> {
        let Some(Reverse((_, number))) = self.next.pop() else {
            return Ok(());
        };
        match self.cpus[number].current {
            None => self.timer(number)?,
            Some(thread) => self.work(number, thread)?,
        }
        self.next.push(Reverse((self.cpus[number].now_ns, number)));
        Ok(())
    }

    /// An idle CPU sleeps, until a timer wakes one of its threads.
    fn timer(&mut self, number: usize) -> io::Result<()> {
        let cpu = &mut self.cpus[number];
        if let Some(thread) = cpu.runnable.pop_front() {
            cpu.now_ns += self.random.u64(500..3_000);
            return self.switch(number, Some(thread), 0);
        }
        cpu.now_ns += self.random.u64(5_000..150_000);
        self.emit(number, SOFTIRQ_ENTRY, &TIMER.to_le_bytes())?;
        for _ in 0..self.random.u32(1..3) {
            self.wake(number, number)?;
        }
        self.cpus[number].now_ns += self.random.u64(300..4_000);
        self.emit(number, SOFTIRQ_EXIT, &TIMER.to_le_bytes())
    }

    fn work(&mut self, number: usize, thread: u32) -> io::Result<()> {
        self.cpus[number].now_ns += self.random.u64(300..20_000);
        if let Some(call) = self.waits_in[thread as usize].take() {
            // It comes from a wait.
            return self.emit(number, CALLS[call].class + 1, &1_u64.to_le_bytes());
        }
        match self.random.u32(..100) {
            0..12 => {
                let other = match self.random.u32(..4) {
                    0 => self.random.usize(..self.cpus.len()),
                    _ => number,
                };
                self.wake(number, other)
            }
            12..16 => match self.cpus[number].runnable.pop_front() {
                Some(next) => {
                    self.cpus[number].runnable.push_back(thread);
                    self.switch(number, Some(next), 0)
                }
                None => Ok(()),
            },
            _ => {
                let place = self.random.usize(..CALLS.len());
                let call = &CALLS[place];
                let mut arguments = Vec::with_capacity(64);
                for (_, argument) in call.arguments {
                    match argument {
                        Int => arguments.extend(self.random.u32(..100).to_le_bytes()),
                        Long => arguments.extend(self.random.u64(..1 << 47).to_le_bytes()),
                        PathOf => write!(
                            arguments,
                            "/srv/data/{}/part-{}.db\0",
                            thread % 100,
                            self.random.u32(..20)
                        )?,
                        Incomplete => arguments.push(0),
                    }
                }
                self.emit(number, call.class, &arguments)?;
                self.cpus[number].now_ns += self.random.u64(200..6_000);
                if call.can_wait && self.random.u32(..3) == 0 {
                    self.waits_in[thread as usize] = Some(place);
                    let cpu = &mut self.cpus[number];
                    cpu.waiting.push(thread);
                    let next = cpu.runnable.pop_front();
                    return self.switch(number, next, 1);
                }
                self.emit(number, call.class + 1, &64_u64.to_le_bytes())
            }
        }
    }

    /// What has a CPU wakes a thread that waits on that or another one.
    fn wake(&mut self, number: usize, on: usize) -> io::Result<()> {
        let cpu = &mut self.cpus[on];
        let woken = match cpu.fresh.pop() {
            Some(thread) => thread,
            None if cpu.waiting.is_empty() => return Ok(()),
            None => {
                // Those with low numbers do most of the work.
                let places = [0; 3].map(|_| self.random.usize(..cpu.waiting.len()));
                let place = places.into_iter().min_by_key(|place| cpu.waiting[*place]);
                cpu.waiting.swap_remove(place.unwrap_or_default())
            }
        };
        cpu.runnable.push_back(woken);
        self.cpus[number].now_ns += self.random.u64(200..800);
        let mut fields = name_of(Some(woken)).to_vec();
        fields.extend(
            [tid_of(Some(woken)), 20, on as u32]
                .into_iter()
                .flat_map(u32::to_le_bytes),
        );
        self.emit(number, WAKING, &fields)?;
        self.cpus[number].now_ns += self.random.u64(200..800);
        self.emit(number, WAKEUP, &fields)
    }

    /// A CPU turns to another thread, or to none. `state`: 0 if the one that had it would go on, 1 if it waits.
    fn switch(&mut self, number: usize, next: Option<u32>, state: u64) -> io::Result<()> {
        let previous = self.cpus[number].current;
        let mut fields = name_of(previous).to_vec();
        fields.extend([tid_of(previous), 20].into_iter().flat_map(u32::to_le_bytes));
        fields.extend([state, state].into_iter().flat_map(u64::to_le_bytes));
        fields.extend(name_of(next));
        fields.extend([tid_of(next), 20].into_iter().flat_map(u32::to_le_bytes));
        self.emit(number, SWITCH, &fields)?;
        self.cpus[number].current = next;
        Ok(())
    }

    fn emit(&mut self, number: usize, class: u32, fields: &[u8]) -> io::Result<()> {
        self.events += 1;
        let cpu = &mut self.cpus[number];
        cpu.stream.event(cpu.now_ns, class, Some(tid_of(cpu.current)), fields)
    }

    fn finish(self) -> io::Result<()> {
        let end_ns = self.cpus.iter().map(|cpu| cpu.now_ns).max().unwrap_or(BEGIN_NS) + 1000;
        self.cpus.into_iter().try_for_each(|cpu| cpu.stream.finish(end_ns))
    }
}

/// A stream file with its index.
struct Stream {
    file: BufWriter<File>,
    index: BufWriter<File>,
    class: u32,
    cpu: u32,
    /// The packet that grows, and when it began and the last event was.
    packet: Vec<u8>,
    begin_ns: u64,
    last_ns: u64,
    count: u64,
    offset_bytes: u64,
}

/// Times of shorter headers have as many bits.
const SHORT_BITS: u32 = 27;

impl Stream {
    fn create(folder: &Path, name: &str, class: u32, cpu: u32) -> io::Result<Stream> {
        let mut index = BufWriter::new(File::create(folder.join(format!("index/{name}.idx")))?);
        index.write_all(&index::file_header())?;
        Ok(Stream {
            file: BufWriter::new(File::create(folder.join(name))?),
            index,
            class,
            cpu,
            packet: Vec::with_capacity(PACKET_BYTES + 256),
            begin_ns: 0,
            last_ns: 0,
            count: 0,
            offset_bytes: 0,
        })
    }

    fn event(&mut self, ns: u64, class: u32, tid: Option<u32>, fields: &[u8]) -> io::Result<()> {
        if self.packet.is_empty() {
            self.packet.resize(KERNEL_HEADER_BYTES, 0);
            (self.begin_ns, self.last_ns) = (ns, ns);
        }
        let word = |id: u32| ((ns as u32) << 5 | id).to_le_bytes();
        let is_short = ns - self.last_ns < 1 << SHORT_BITS;
        match class {
            0..=29 if is_short => self.packet.extend(word(class)),
            30..=0xffff if is_short => {
                self.packet.extend(word(30));
                self.packet.extend((class as u16).to_le_bytes());
            }
            _ => {
                self.packet.push(31);
                self.packet.extend(class.to_le_bytes());
                self.packet.extend(ns.to_le_bytes());
            }
        }
        if let Some(tid) = tid {
            self.packet.extend(tid.to_le_bytes());
        }
        self.packet.extend_from_slice(fields);
        self.last_ns = ns;
        match self.packet.len() < PACKET_BYTES {
            true => Ok(()),
            false => self.end_packet(ns),
        }
    }

    /// Writes the packet; without events, it says that nothing happened up to that time.
    fn end_packet(&mut self, end_ns: u64) -> io::Result<()> {
        if self.packet.is_empty() {
            self.packet.resize(KERNEL_HEADER_BYTES, 0);
            self.begin_ns = self.last_ns.max(BEGIN_NS.min(end_ns));
        }
        let content_bits = 8 * self.packet.len() as u64;
        self.packet.resize(self.packet.len().next_multiple_of(8), 0);
        let header = KernelHeader {
            trace_uuid: UUID,
            stream_id: self.class,
            stream_instance_id: self.cpu.into(),
            timestamp_begin: self.begin_ns,
            timestamp_end: end_ns,
            content_bits,
            packet_bits: 8 * self.packet.len() as u64,
            packet_seq_num: self.count,
            events_discarded: 0,
            cpu_id: self.cpu,
        };
        self.packet[..KERNEL_HEADER_BYTES].copy_from_slice(&header.encode());
        self.file.write_all(&self.packet)?;
        let entry = Entry::of(&Header::from(header), self.offset_bytes);
        self.index.write_all(&entry.encode())?;
        self.offset_bytes += self.packet.len() as u64;
        self.count += 1;
        self.last_ns = end_ns;
        self.packet.clear();
        Ok(())
    }

    fn finish(mut self, end_ns: u64) -> io::Result<()> {
        if !self.packet.is_empty() {
            self.end_packet(self.last_ns)?;
        }
        self.end_packet(end_ns)?;
        self.file.flush()?;
        self.index.flush()
    }
}
