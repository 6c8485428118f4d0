// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events as facts about the system. A class of events is looked up once, by the names of it and of its fields; then an event costs the
//! decoding of the fields that are asked for.
//!
//! What a trace does not have (a class, a field) is absent here; nothing is made up for it.

mod classes;
mod values;

use piste_ctf::read::packet::{Event, StreamReader};
use piste_ctf::read::schema::Scope;

use self::classes::Kind;
use self::values::{FieldNames, Order, Outermost, Take, Values};
use crate::names::{Name, Names};

/// An event as a reader of traces has it: the event, the reader that it came from, and the bytes that it is in.
pub struct Incoming<'i, 't> {
    /// The event.
    pub event: Event<'t>,
    /// Who read it.
    pub reader: &'i mut StreamReader<'t>,
    /// A part of its packet.
    pub window: &'i [u8],
    /// Where in the packet that part begins.
    pub base_bytes: u64,
    /// Which stream it is of: a small number that no other stream has.
    pub stream: usize,
    /// When it was, in nanoseconds.
    pub ns: i64,
}

/// What an event says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fact<'f> {
    /// A CPU turns from one thread to another.
    Switch(Switch<'f>),
    /// A thread is about to be runnable; on the CPU of who wakes it.
    Waking(Woken),
    /// A thread is runnable.
    Wakeup(Woken),
    /// A thread begins.
    Fork(Fork<'f>),
    /// A process becomes another program.
    Exec {
        /// Its thread from now on.
        tid: i32,
        /// The same thread under the id that it had before.
        old_tid: i32,
        /// The program; may be empty.
        file: &'f [u8],
    },
    /// A thread begins to end.
    Exit {
        /// It.
        tid: i32,
        /// Others of its process go on.
        has_others: bool,
    },
    /// Nothing is left of a thread; its id can be used again.
    Free {
        /// It.
        tid: i32,
    },
    /// A thread gets the priority of one that waits for a lock that it holds, or loses it again.
    Priority {
        /// It.
        tid: i32,
        /// From now on.
        priority: i32,
    },
    /// A thread has another name.
    Rename {
        /// It.
        tid: i32,
        /// Its name from now on.
        name: &'f [u8],
    },
    /// The current thread asks the kernel for something.
    CallEntry {
        /// The system call.
        call: Name,
        /// What it is about, of those that have to do with files or futexes.
        arguments: Arguments<'f>,
    },
    /// The current thread gets its answer.
    CallExit {
        /// The system call; absent in traces that do not say it.
        call: Option<Name>,
        /// Its result; negative for errors.
        result: i64,
    },
    /// The CPU leaves what it does for something more urgent.
    Begin(Interrupt),
    /// And takes it up again.
    End(Interrupt),
    /// A soft interrupt is asked for.
    SoftirqRaise {
        /// Its number.
        vector: u32,
    },
    /// A thread that is there, at the time of the state dump.
    DumpedThread(DumpedThread<'f>),
    /// A process that is there.
    DumpedProcess {
        /// Its id.
        pid: i32,
        /// Its arguments.
        command_line: &'f [u8],
        /// Its control group.
        cgroup: &'f [u8],
    },
    /// A state dump begins.
    DumpBegin,
    /// It is complete.
    DumpEnd,
    /// A file that a process has open.
    DumpedFile {
        /// The process.
        pid: i32,
        /// By which number it has it.
        descriptor: i32,
        /// As it was opened.
        flags: Option<i64>,
        /// What the kernel calls it.
        name: &'f [u8],
    },
    /// A disk or a part of one.
    DumpedDevice {
        /// As requests name it.
        device: u32,
        /// As people do.
        name: &'f [u8],
    },
    /// Something happens to a request to a device.
    Request(RequestStep, RequestFact),
    /// The current thread gets memory: 2^order pages.
    PagesAllocated {
        /// How many.
        order: u32,
    },
    /// The current thread gives memory back.
    PagesFreed {
        /// How many.
        order: u32,
    },
    /// The current thread touched memory that is not there yet.
    PageFault {
        /// In the kernel, for a system call.
        is_kernel: bool,
    },
    /// A packet is put into the queue of a network device.
    PacketSent(Packet<'f>),
    /// A packet came.
    PacketReceived(Packet<'f>),
}

/// What a system call is about: of these what it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arguments<'f> {
    /// The file that it is about; the source of those that copy.
    pub descriptor: Option<i32>,
    /// The target of those that copy; the number that a file is to have; the last one of a range.
    pub other: Option<i32>,
    /// Flags, a socket's type, what `fcntl` is to do.
    pub flags: Option<i64>,
    /// A socket's family, the argument of `fcntl`.
    pub value: Option<i64>,
    /// A path, of tracers that record what pointers point to.
    pub path: &'f [u8],
    /// The futex that it is about.
    pub futex: Option<Futex>,
}

/// What happens to a request to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestStep {
    /// It is put into a queue.
    Insert,
    /// The driver gets it.
    Issue,
    /// The driver gives it back; it will be issued again.
    Requeue,
    /// It becomes a part of another one, before it is issued.
    Merge,
    /// The device has done it, or a part of it.
    Complete,
}

/// What is said of a request to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say all")]
pub struct RequestFact {
    pub device: u32,
    pub sector: u64,
    pub sectors: u32,
    pub bytes: u64,
    pub operation: DeviceOperation,
    /// Who does what is said.
    pub tid: Option<i32>,
    /// 0 of what went well.
    pub error: i32,
}

/// What a device is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DeviceOperation {
    /// To read.
    Read,
    /// To write.
    Write,
    /// To make sure that what was written stays.
    Flush,
    /// To forget.
    Discard,
    /// Something else.
    Other,
}

impl DeviceOperation {
    /// For people and programs.
    pub fn text(self) -> &'static str {
        match self {
            DeviceOperation::Read => "read",
            DeviceOperation::Write => "write",
            DeviceOperation::Flush => "flush",
            DeviceOperation::Discard => "discard",
            DeviceOperation::Other => "other",
        }
    }
}

/// A packet of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'f> {
    /// The interface's name.
    pub interface: &'f [u8],
    /// With the headers that it has there.
    pub bytes: u32,
}

/// A CPU turns from one thread to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say all")]
pub struct Switch<'f> {
    pub previous_tid: i32,
    pub previous_name: &'f [u8],
    pub previous: Left,
    pub previous_priority: Option<i32>,
    pub next_tid: i32,
    pub next_name: &'f [u8],
    /// The kernel's priority minus 100 (or as the tracer has it).
    pub next_priority: i32,
}

/// What a system call wants of a futex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Futex {
    /// Where it is in the memory of the process.
    pub address: u64,
    /// What is wanted.
    pub operation: FutexOperation,
}

/// What is wanted of a futex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FutexOperation {
    /// To wait, until somebody wakes it or the lock is free.
    Wait,
    /// To wake those that wait, or to hand on the lock.
    Wake,
    /// Something else.
    Other,
}

impl FutexOperation {
    /// From the call's argument; absent in calls that do one thing only.
    fn new(call: &str, operation: Option<i64>) -> FutexOperation {
        /// Private, and of which clock.
        const FLAGS: i64 = 128 | 256;
        match operation.map(|operation| operation & !FLAGS) {
            None if call == "futex_wait" => FutexOperation::Wait,
            None if call == "futex_wake" => FutexOperation::Wake,
            // WAIT, LOCK_PI, WAIT_BITSET, WAIT_REQUEUE_PI, LOCK_PI2
            Some(0 | 6 | 9 | 11 | 13) => FutexOperation::Wait,
            // WAKE, REQUEUE, CMP_REQUEUE, WAKE_OP, UNLOCK_PI, WAKE_BITSET, CMP_REQUEUE_PI
            Some(1 | 3 | 4 | 5 | 7 | 10 | 12) => FutexOperation::Wake,
            _ => FutexOperation::Other,
        }
    }
}

/// How a thread left its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// It would go on.
    Runnable,
    /// Another one was more urgent.
    Preempted,
    /// It waits for something.
    Waiting,
    /// It waits for something that will come, such as a disk: no signal ends that.
    WaitingForSure,
    /// Somebody stopped it: a signal, a debugger.
    Stopped,
    /// It has ended.
    Dead,
}

/// A thread is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Woken {
    /// It.
    pub tid: i32,
    /// Where it is to run.
    pub cpu: Option<u32>,
}

/// A thread begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say all")]
pub struct Fork<'f> {
    pub parent_tid: i32,
    pub parent_pid: Option<i32>,
    pub tid: i32,
    pub pid: Option<i32>,
    pub name: &'f [u8],
}

/// Something more urgent than any thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Interrupt {
    /// A device's interrupt, by its number and the name of its handler.
    Device(u32, Name),
    /// Work that an interrupt left for later, by its number.
    Soft(u32),
    /// What the CPU has of its own: its timer, calls of other CPUs.
    Vector(Name),
    /// A timer's function.
    Timer,
}

impl Interrupt {
    /// The exit of one has less to say than its entry.
    pub fn is_same(self, other: Interrupt) -> bool {
        match (self, other) {
            (Interrupt::Device(one, _), Interrupt::Device(other, _)) => one == other,
            _ => self == other,
        }
    }
}

/// A thread that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say all")]
pub struct DumpedThread<'f> {
    pub tid: i32,
    pub pid: i32,
    pub parent_pid: Option<i32>,
    pub name: &'f [u8],
    pub is_kernel: Option<bool>,
    pub is_waiting: bool,
    pub uid: Option<u32>,
    pub namespace: Option<u32>,
}

/// Makes facts of events.
#[derive(Debug, Default)]
pub struct FactReader {
    streams: Vec<Stream>,
    values: Values,
}

/// What is known of a stream.
#[derive(Debug, Default)]
struct Stream {
    /// By id: the class that [`Stream::classes`] has there. Ids from [`DENSE_IDS`] on are looked up.
    dense: Vec<u32>,
    sparse: rustc_hash::FxHashMap<u64, u32>,
    classes: Vec<Class>,
    /// Where the context has the thread.
    context: Option<Order>,
}

/// Ids are mostly small.
const DENSE_IDS: u64 = 4096;

#[derive(Debug)]
struct Class {
    kind: Kind,
    order: Order,
}

impl FactReader {
    /// What an event says; `None` when it is nothing that is looked at here.
    #[inline]
    pub fn fact<'f>(&'f mut self, incoming: &mut Incoming<'_, '_>, names: &mut Names) -> Option<Fact<'f>> {
        let stream = stream(&mut self.streams, incoming.stream);
        let number = stream.class(incoming, names);
        let class = &stream.classes[number as usize];
        if class.kind == Kind::Other {
            return None;
        }
        self.values.clear();
        if !class.order.is_empty() {
            let mut take = Take::new(&class.order, &mut self.values);
            let Incoming {
                event,
                reader,
                window,
                base_bytes,
                ..
            } = incoming;
            reader
                .visit(event, Scope::Payload, window, *base_bytes, &mut take)
                .ok()?;
        }
        fact(class.kind, &self.values, names)
    }

    /// On which thread the event happened, as its context says: `tid`.
    pub fn tid(&mut self, incoming: &mut Incoming<'_, '_>) -> Option<i32> {
        let stream = stream(&mut self.streams, incoming.stream);
        let Incoming {
            event,
            reader,
            window,
            base_bytes,
            ..
        } = incoming;
        if stream.context.is_none() {
            let mut found = Outermost::<FieldNames>::default();
            reader
                .visit(event, Scope::EventContext, window, *base_bytes, &mut found)
                .ok()?;
            stream.context = Some(Order::new(&found.to.0, &["tid|vtid"]));
        }
        let order = stream.context.as_ref().filter(|order| !order.is_empty())?;
        self.values.clear();
        let mut take = Take::new(order, &mut self.values);
        reader
            .visit(event, Scope::EventContext, window, *base_bytes, &mut take)
            .ok()?;
        self.values.id(0)
    }
}

fn stream(streams: &mut Vec<Stream>, number: usize) -> &mut Stream {
    if streams.len() <= number {
        streams.resize_with(number + 1, Stream::default);
    }
    &mut streams[number]
}

impl Stream {
    #[inline]
    fn class(&mut self, incoming: &mut Incoming<'_, '_>, names: &mut Names) -> u32 {
        let id = incoming.event.class.id;
        let known = match id < DENSE_IDS {
            true => self.dense.get(id as usize).copied().filter(|known| *known != u32::MAX),
            false => self.sparse.get(&id).copied(),
        };
        known.unwrap_or_else(|| self.add(id, incoming, names))
    }

    fn add(&mut self, id: u64, incoming: &mut Incoming<'_, '_>, names: &mut Names) -> u32 {
        let (mut kind, fields) = classes::of(&incoming.event.class.name, names);
        let mut found = Outermost::<FieldNames>::default();
        let Incoming {
            event,
            reader,
            window,
            base_bytes,
            ..
        } = incoming;
        if reader
            .visit(event, Scope::Payload, window, *base_bytes, &mut found)
            .is_err()
        {
            kind = Kind::Other;
        }
        let number = self.classes.len() as u32;
        let order = Order::new(&found.to.0, fields);
        self.classes.push(Class { kind, order });
        if id < DENSE_IDS {
            let place = id as usize;
            if self.dense.len() <= place {
                self.dense.resize(place + 1, u32::MAX);
            }
            self.dense[place] = number;
        } else {
            self.sparse.insert(id, number);
        }
        number
    }
}

/// `None` when a field is missing without which there is no fact.
#[inline]
fn fact<'f>(kind: Kind, values: &'f Values, names: &mut Names) -> Option<Fact<'f>> {
    let number = |field: usize| values.number(field).map(|number| number as u32);
    Some(match kind {
        Kind::Other => return None,
        Kind::Switch => Fact::Switch(Switch {
            previous_tid: values.id(0)?,
            previous: left(values.number(1), values.number(2)),
            previous_name: values.text(3),
            next_tid: values.id(4)?,
            next_name: values.text(5),
            next_priority: values.id(6).unwrap_or(0),
            previous_priority: values.id(7),
        }),
        Kind::Waking | Kind::Wakeup => {
            let woken = Woken {
                tid: values.id(0)?,
                cpu: number(1),
            };
            if kind == Kind::Waking {
                Fact::Waking(woken)
            } else {
                Fact::Wakeup(woken)
            }
        }
        Kind::Fork => Fact::Fork(Fork {
            parent_tid: values.id(0)?,
            parent_pid: values.id(4),
            // The kernel's own name of the thread's id is `child_pid`, which then is no process's.
            tid: values.id(1).or(values.id(2))?,
            pid: values.id(1).and(values.id(2)),
            name: values.text(3),
        }),
        Kind::Exec => {
            let tid = values.id(0)?;
            Fact::Exec {
                tid,
                old_tid: values.id(1).unwrap_or(tid),
                file: values.text(2),
            }
        }
        Kind::Exit => Fact::Exit {
            tid: values.id(0)?,
            has_others: values.number(1) == Some(0),
        },
        Kind::Free => Fact::Free { tid: values.id(0)? },
        Kind::Rename => Fact::Rename {
            tid: values.id(0)?,
            name: values.text(1),
        },
        Kind::Priority => Fact::Priority {
            tid: values.id(0)?,
            priority: values.id(1)?,
        },
        Kind::FutexEntry(call) => Fact::CallEntry {
            call,
            arguments: Arguments {
                futex: values.number(0).map(|address| Futex {
                    address: address.cast_unsigned(),
                    operation: FutexOperation::new(names.text(call), values.number(1)),
                }),
                ..Arguments::default()
            },
        },
        Kind::CallEntry(call) => Fact::CallEntry {
            call,
            arguments: Arguments {
                descriptor: values.id(0),
                other: values.id(1),
                flags: values.number(2),
                value: values.number(3),
                path: values.text(4),
                futex: None,
            },
        },
        Kind::CallExit(call) => Fact::CallExit {
            call,
            result: values.number(0).unwrap_or(0),
        },
        Kind::IrqEntry => Fact::Begin(Interrupt::Device(number(0)?, names.keep(values.text(1)))),
        Kind::IrqExit => Fact::End(Interrupt::Device(number(0)?, Name::default())),
        Kind::SoftirqEntry => Fact::Begin(Interrupt::Soft(number(0)?)),
        Kind::SoftirqExit => Fact::End(Interrupt::Soft(number(0)?)),
        Kind::SoftirqRaise => Fact::SoftirqRaise { vector: number(0)? },
        Kind::VectorEntry(name) => Fact::Begin(Interrupt::Vector(name)),
        Kind::VectorExit(name) => Fact::End(Interrupt::Vector(name)),
        Kind::TimerEntry => Fact::Begin(Interrupt::Timer),
        Kind::TimerExit => Fact::End(Interrupt::Timer),
        Kind::DumpedThread => Fact::DumpedThread(DumpedThread {
            tid: values.id(0)?,
            pid: values.id(1)?,
            parent_pid: values.id(2),
            name: values.text(3),
            is_kernel: values.number(4).map(|kind| kind == 1),
            is_waiting: values.number(5) == Some(5),
            uid: number(6),
            namespace: number(8).filter(|inode| *inode != 0),
        }),
        Kind::DumpedProcess => Fact::DumpedProcess {
            pid: values.id(0)?,
            command_line: values.text(1),
            cgroup: values.text(2),
        },
        Kind::DumpBegin => Fact::DumpBegin,
        Kind::DumpEnd => Fact::DumpEnd,
        Kind::DumpedFile => Fact::DumpedFile {
            pid: values.id(0)?,
            descriptor: values.id(1)?,
            flags: values.number(2),
            name: values.text(3),
        },
        Kind::DumpedDevice => Fact::DumpedDevice {
            device: number(0)?,
            name: values.text(1),
        },
        Kind::RequestInsert => Fact::Request(RequestStep::Insert, request(values)?),
        Kind::RequestIssue => Fact::Request(RequestStep::Issue, request(values)?),
        Kind::RequestRequeue => Fact::Request(RequestStep::Requeue, request(values)?),
        Kind::RequestMerge => Fact::Request(RequestStep::Merge, request(values)?),
        Kind::RequestComplete => Fact::Request(RequestStep::Complete, request(values)?),
        Kind::PagesAllocated => Fact::PagesAllocated { order: number(0)? },
        Kind::PagesFreed => Fact::PagesFreed { order: number(0)? },
        Kind::PageFault => Fact::PageFault { is_kernel: false },
        Kind::KernelPageFault => Fact::PageFault { is_kernel: true },
        Kind::PacketSent => Fact::PacketSent(packet(values)?),
        Kind::PacketReceived => Fact::PacketReceived(packet(values)?),
    })
}

fn packet(values: &Values) -> Option<Packet<'_>> {
    Some(Packet {
        interface: values.text(0),
        bytes: values.number(1)? as u32,
    })
}

/// A sector is 512 bytes, whatever the device's blocks are.
const SECTOR_BYTES: u64 = 512;

fn request(values: &Values) -> Option<RequestFact> {
    let sectors = values.number(2)? as u32;
    let operation = match values.number(4) {
        Some(flags) => operation(flags),
        None => operation_in_letters(values.text(4)),
    };
    Some(RequestFact {
        device: values.number(0)? as u32,
        sector: values.number(1)?.cast_unsigned(),
        sectors,
        // What is no read or write of sectors may have bytes all the same.
        bytes: values
            .number(3)
            .map_or(u64::from(sectors) * SECTOR_BYTES, i64::cast_unsigned),
        operation,
        tid: values.id(5),
        error: values.id(6).unwrap_or(0),
    })
}

/// `rwbs` as viewers of kernel traces know it, a bit for each letter.
fn operation(flags: i64) -> DeviceOperation {
    match flags {
        flags if flags & (0x02 | 0x80) != 0 => DeviceOperation::Discard,
        flags if flags & 0x01 != 0 => DeviceOperation::Write,
        flags if flags & 0x04 != 0 => DeviceOperation::Read,
        flags if flags & 0x100 != 0 => DeviceOperation::Flush,
        _ => DeviceOperation::Other,
    }
}

/// `rwbs` as the kernel writes it. An `F` before the operation asks for a flush ahead of it.
fn operation_in_letters(letters: &[u8]) -> DeviceOperation {
    let operation = match letters {
        [b'F', operation @ (b'R' | b'W' | b'D' | b'F' | b'N'), ..] => *operation,
        [operation, ..] => *operation,
        [] => 0,
    };
    match operation {
        b'R' => DeviceOperation::Read,
        b'W' => DeviceOperation::Write,
        b'D' => DeviceOperation::Discard,
        b'F' => DeviceOperation::Flush,
        _ => DeviceOperation::Other,
    }
}

/// From `prev_state`, and from the kernel's own number where the tracer gives it beside.
fn left(state: Option<i64>, raw: Option<i64>) -> Left {
    match raw.or(state) {
        None | Some(0) => Left::Runnable,
        Some(state) if state & 1 != 0 => Left::Waiting,
        Some(state) if state & 2 != 0 => Left::WaitingForSure,
        Some(state) if state & (4 | 8) != 0 => Left::Stopped,
        Some(state) if state & (0x10 | 0x20) != 0 => Left::Dead,
        // Idle or parked. 64 is dead before Linux 4.14; the model knows that, as such a thread has ended before.
        Some(state) if state & (0x40 | 0x80 | 0x200) != 0 => Left::Waiting,
        // 0x100 from Linux 4.14 on; before, one of the bits above it.
        Some(_) => Left::Preempted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_of_devices_are_understood_as_bits_and_as_letters() {
        use DeviceOperation::{Discard, Flush, Other, Read, Write};
        for (flags, letters, expected) in [
            (0x24, "RS", Read),
            (0x21, "WS", Write),
            (0x61, "WSM", Write),
            (0x421, "FWS", Write),
            (0x500, "FF", Flush),
            (0x100, "F", Flush),
            (0x02, "D", Discard),
            (0x82, "DE", Discard),
            (0, "N", Other),
        ] {
            assert_eq!(operation(flags), expected, "{letters}");
            assert_eq!(operation_in_letters(letters.as_bytes()), expected, "{letters}");
        }
    }

    #[test]
    fn futexes_are_waited_for_or_woken() {
        for (call, operation, expected) in [
            ("futex", Some(0x80), FutexOperation::Wait),
            ("futex", Some(0x189), FutexOperation::Wait),
            ("futex", Some(6), FutexOperation::Wait),
            ("futex", Some(0x81), FutexOperation::Wake),
            ("futex", Some(7), FutexOperation::Wake),
            ("futex", Some(8), FutexOperation::Other),
            ("futex", None, FutexOperation::Other),
            ("futex_wait", None, FutexOperation::Wait),
            ("futex_wake", None, FutexOperation::Wake),
        ] {
            assert_eq!(FutexOperation::new(call, operation), expected, "{call} {operation:?}");
        }
    }

    #[test]
    fn states_of_every_kernel_are_understood() {
        for (state, raw, expected) in [
            (Some(0), Some(0), Left::Runnable),
            (Some(0), Some(0x100), Left::Preempted),
            (Some(0x100), None, Left::Preempted),
            (Some(1), Some(1), Left::Waiting),
            (Some(2), Some(2), Left::WaitingForSure),
            (Some(2), Some(0x80), Left::Waiting),
            (Some(64), Some(0x10), Left::Dead),
            (Some(0x20), None, Left::Dead),
            (Some(4), Some(4), Left::Stopped),
            (Some(8), None, Left::Stopped),
            (Some(512), Some(0x40), Left::Waiting),
            (Some(1024), None, Left::Preempted),
            (None, None, Left::Runnable),
        ] {
            assert_eq!(left(state, raw), expected, "{state:?} {raw:?}");
        }
    }
}
