// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a thread does at an instant, and what is handed out when it turns to something else.

use crate::facts::Interrupt;
use crate::names::Name;

/// A thread of a model, also after its end. Ids of the kernel are used again; these are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadId(pub(super) u32);

impl ThreadId {
    /// For tables of what is known of each thread.
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// The thread at this place of such a table.
    pub(crate) fn at(index: usize) -> ThreadId {
        ThreadId(index as u32)
    }
}

/// A process of a model, also after its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessId {
    /// Its id in the kernel, which is used again,
    pub pid: i32,
    /// for so many others before.
    pub(super) turn: u32,
}

impl std::fmt::Display for ProcessId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.pid.fmt(f)
    }
}

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The trace does not tell.
    Unknown,
    /// It is not there yet.
    Unborn,
    /// It has a CPU.
    Running {
        /// Which.
        cpu: u32,
        /// For what.
        mode: Mode,
    },
    /// It would run if it had a CPU.
    Runnable(Why),
    /// It waits for something else than a CPU.
    Blocked(Wait),
    /// Somebody stopped it.
    Stopped,
    /// It has ended.
    Dead,
}

/// For what a CPU runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// For the thread; the trace does not tell more.
    Unknown,
    /// The thread's own program.
    User,
    /// A system call of the thread.
    Call(Name),
    /// A thread of the kernel.
    Kernel,
    /// Nobody.
    Idle,
    /// An interrupt: the thread has the CPU and does not get on.
    Interrupt(Interrupt),
}

impl Mode {
    /// The system call for which a CPU runs.
    pub fn call(self) -> Option<Name> {
        match self {
            Mode::Call(call) => Some(call),
            _ => None,
        }
    }
}

/// Why a thread is runnable and does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The trace does not tell.
    Unknown,
    /// It has begun.
    New,
    /// It was woken.
    Woken,
    /// Another one was more urgent, or its time was over.
    Preempted,
    /// It let others go first.
    Yielded,
}

/// What is known of a wait while it lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The system call that waits; absent: none, or unknown.
    pub call: Option<Name>,
    /// For something that will come: no signal ends it.
    pub is_sure: bool,
}

/// Who ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wake {
    /// When it was.
    pub ns: i64,
    /// The CPU on which it was done.
    pub cpu: Option<u32>,
    /// The thread that was there, if it is known.
    pub thread: Option<ThreadId>,
    /// The interrupt that did it; absent: the thread.
    pub interrupt: Option<Interrupt>,
    /// Of a soft interrupt: the thread whose work it did.
    pub asked_by: Option<ThreadId>,
    /// What devices completed before, and the wait was for: in the interrupt that ended it; or, where a thread ended a wait that no signal
    /// ends, a request of the one that waited, or what this thread of the kernel was woken for meanwhile.
    pub completed: Option<Completed>,
}

/// Requests to devices that were completed together: what all of them have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Completed {
    /// Their device.
    pub device: Option<u32>,
    /// Who asked for them.
    pub asked_by: Option<ThreadId>,
}

/// Who or what ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Waker {
    /// A thread.
    Thread(ThreadId),
    /// An interrupt that no thread is known to have asked for.
    Interrupt(Interrupt),
}

impl Wake {
    /// The thread that did it, itself or by a soft interrupt; else the interrupt.
    pub fn waker(&self) -> Option<Waker> {
        let thread = self.by_thread().map(Waker::Thread);
        thread.or(self.interrupt.map(Waker::Interrupt))
    }

    /// The thread that did it, itself or by a soft interrupt.
    pub fn by_thread(&self) -> Option<ThreadId> {
        match self.interrupt {
            None => self.thread,
            Some(_) => self.asked_by,
        }
    }

    /// What a device did that led to it; absent: none did, as far as is known.
    pub(super) fn by_device(&self) -> Option<Completed> {
        let is_of_device = self.interrupt.is_some_and(Interrupt::is_of_device);
        let unnamed = is_of_device.then(Completed::default);
        self.completed.or(unnamed)
    }
}

/// A thread did one thing for a time. All of a thread's fill the time of the trace without a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Who.
    pub thread: ThreadId,
    /// What.
    pub state: State,
    /// From here on, in nanoseconds.
    pub begin_ns: i64,
    /// Up to here, and longer than nothing.
    pub end_ns: i64,
    /// Of a wait: who ended it, if that is known.
    pub wake: Option<Wake>,
}

impl Slice {
    /// How long it lasted.
    pub fn duration_ns(&self) -> i64 {
        self.end_ns - self.begin_ns
    }
}

/// A system call from its entry to its exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Who called.
    pub thread: ThreadId,
    /// What.
    pub name: Name,
    /// Its entry.
    pub begin_ns: i64,
    /// Its exit.
    pub end_ns: i64,
    /// Negative for errors.
    pub result: i64,
}

/// An interrupt from its entry to its exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interruption {
    /// Where.
    pub cpu: u32,
    /// What.
    pub interrupt: Interrupt,
    /// Its entry.
    pub begin_ns: i64,
    /// Its exit.
    pub end_ns: i64,
    /// Of a soft one: when it was asked for.
    pub raised_ns: Option<i64>,
    /// Time in it that others took, which came on top of it.
    pub nested_ns: i64,
    /// Time for which its thread was switched out in the middle of it (PREEMPT_RT).
    pub away_ns: i64,
}

impl Interruption {
    /// Time for which it had the CPU.
    pub fn own_ns(&self) -> i64 {
        self.end_ns - self.begin_ns - self.nested_ns - self.away_ns
    }
}

/// A thread got a CPU after it was woken, or had begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay {
    /// Who.
    pub thread: ThreadId,
    /// Which CPU.
    pub cpu: u32,
    /// When it was woken, or given to the scheduler.
    pub begin_ns: i64,
    /// When it ran.
    pub end_ns: i64,
    /// By whom.
    pub wake: Option<Wake>,
    /// As the scheduler has it.
    pub priority: i32,
}

impl State {
    /// Both are the same but for what one of them does not know: then the one that knows more.
    pub(super) fn agreed(self, other: State) -> Option<State> {
        use State::{Blocked, Runnable, Running};
        match (self, other) {
            (State::Unknown, other) => Some(other),
            (
                Running { cpu, mode },
                Running {
                    cpu: again,
                    mode: other,
                },
            ) if cpu == again => match (mode, other) {
                (Mode::Unknown, mode) | (mode, Mode::Unknown) => Some(Running { cpu, mode }),
                (mode, other) if mode == other => Some(self),
                _ => None,
            },
            (Runnable(_), Runnable(_)) | (Blocked(_), Blocked(_)) => Some(self),
            (one, other) if one == other => Some(one),
            _ => None,
        }
    }

    /// What is known of a thread that is not recorded: others' events tell when it has a CPU, and not when it is woken.
    pub(super) fn of_hidden(self) -> State {
        match self {
            State::Runnable(_) | State::Blocked(_) | State::Stopped => State::Unknown,
            known => known,
        }
    }

    /// The CPU whose events tell the end of it; absent: those of any CPU may.
    pub(crate) fn cpu(self) -> Option<u32> {
        match self {
            State::Running { cpu, .. } => Some(cpu),
            _ => None,
        }
    }
}
