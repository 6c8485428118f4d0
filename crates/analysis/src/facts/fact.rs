// SPDX-License-Identifier: MIT OR Apache-2.0
//! What events say.

use core::net::{IpAddr, SocketAddr};

use super::programs::ProgramFact;
use crate::names::Name;

/// What an event says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fact<'f> {
    /// The event's context names the thread that has the CPU; nothing else in it is used.
    Other,
    /// A CPU turns from one thread to another.
    Switch(Switch<'f>),
    /// A thread is about to be runnable; on the CPU of who wakes it.
    Waking(Woken),
    /// A thread is runnable.
    Wakeup(Woken),
    /// A thread goes to the queue of another CPU.
    Migrate {
        /// It.
        tid: i32,
        /// Where it waits from now on.
        cpu: u32,
    },
    /// A thread is being made by the one on which the event happened; [`Fact::Fork`] follows.
    NewTask {
        /// It.
        tid: i32,
        /// It belongs to the process of its maker.
        is_thread: bool,
    },
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
        /// What is known only now.
        found: Found<'f>,
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
    /// The name of a thread, if it is in the trace. Nothing else is known of it, not even that it is there.
    DumpedName {
        /// It.
        tid: i32,
        /// Its name, unless the trace tells another one.
        name: &'f [u8],
    },
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
        /// Whose it is.
        owner: FileOwner,
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
    /// A CPU gets another frequency. The event may be another CPU's.
    Frequency {
        /// Which CPU.
        cpu: u32,
        /// In thousands per second.
        khz: u32,
    },
    /// The current thread touched memory that is not there yet.
    PageFault {
        /// In the kernel, for a system call.
        is_kernel: bool,
    },
    /// A packet is put into the queue of a network device, which may take it in several.
    PacketQueued(Packet<'f>),
    /// A packet is handed to a network device.
    PacketSent(Packet<'f>),
    /// A packet came.
    PacketReceived(Packet<'f>),
    /// A program tells of itself.
    Program(ProgramFact<'f>),
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
    /// The other end of a connection, of tracers that record what pointers point to.
    pub peer: Option<Peer<'f>>,
    /// The futex that it is about.
    pub futex: Option<Futex>,
}

/// What a tracer could read of the memory of a call only when it had ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found<'f> {
    /// A path that was not in memory before.
    pub path: &'f [u8],
    /// Who has connected.
    pub peer: Option<Peer<'f>>,
}

/// The address of an end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer<'f> {
    /// Of an internet address; 0 for others.
    pub port: u16,
    /// Four bytes, or nothing.
    pub v4: &'f [u64],
    /// Eight groups, or nothing.
    pub v6: &'f [u64],
    /// Of a socket of this machine; `@` marks an abstract name.
    pub path: &'f [u8],
}

impl Peer<'_> {
    /// `127.0.0.1:80`, `[::1]:80`, `/run/socket`; `None` of what has no address.
    pub fn text(&self, with_port: bool) -> Option<String> {
        let address = match (self.v4, self.v6) {
            (&[a, b, c, d], _) => IpAddr::from([a, b, c, d].map(|byte| byte as u8)),
            (_, groups) if groups.len() == 8 => {
                let mut segments = [0; 8];
                groups
                    .iter()
                    .zip(&mut segments)
                    .for_each(|(group, to)| *to = *group as u16);
                IpAddr::from(segments)
            }
            _ => {
                let path = String::from_utf8_lossy(self.path).into_owned();
                return Some(path).filter(|path| !path.is_empty());
            }
        };
        Some(match with_port {
            true => SocketAddr::new(address, self.port).to_string(),
            false => address.to_string(),
        })
    }
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
    /// Of a wait: the futex is a lock, or it is none. Absent: only what its threads do with it can tell.
    pub is_lock: Option<bool>,
}

impl Futex {
    /// From the call's name and its arguments, of which some have no operation and some traces no value.
    pub(super) fn new(call: &str, address: u64, operation: Option<i64>, value: Option<i64>) -> Futex {
        Futex {
            address,
            operation: FutexOperation::new(call, operation),
            is_lock: is_lock(operation, value),
        }
    }
}

/// Private, and of which clock.
const FUTEX_FLAGS: i64 = 128 | 256;

/// The kernel itself knows locks that inherit priorities. Others have one of two values while somebody waits, in all libraries: 2, or what says
/// who has them and FUTEX_WAITERS. A semaphore for which somebody waits is 0; condition variables count.
fn is_lock(operation: Option<i64>, value: Option<i64>) -> Option<bool> {
    const WAITERS: i64 = 0x8000_0000;
    match (operation.map(|operation| operation & !FUTEX_FLAGS), value) {
        // LOCK_PI, LOCK_PI2
        (Some(6 | 13), _) => Some(true),
        // WAIT_REQUEUE_PI waits for a condition variable.
        (Some(11), _) => Some(false),
        (_, Some(value)) if value != 2 && value & WAITERS == 0 => Some(false),
        _ => None,
    }
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
    pub(super) fn new(call: &str, operation: Option<i64>) -> FutexOperation {
        match operation.map(|operation| operation & !FUTEX_FLAGS) {
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
    /// It has ended before Linux 4.14; it is parked, a thread of the kernel's, from then on.
    DeadOrParked,
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

    /// A hardware interrupt: until it ends, the CPU does not switch threads.
    pub fn is_of_hardware(self) -> bool {
        matches!(self, Interrupt::Device(..) | Interrupt::Vector(_))
    }

    /// A device is done with something, mostly a disk: of soft interrupts, BLOCK and IRQ_POLL are about disks.
    pub fn is_of_device(self) -> bool {
        matches!(self, Interrupt::Device(..) | Interrupt::Soft(4 | 5))
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
    /// Where the kernel has its table of open files.
    pub file_table: Option<u64>,
}

/// Whose an open file is, as the state dump says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOwner {
    /// A process.
    Process(i32),
    /// All who share the table that the kernel has there.
    Table(u64),
}
