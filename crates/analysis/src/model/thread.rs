// SPDX-License-Identifier: MIT OR Apache-2.0
//! A thread as the model knows it.

use std::sync::Arc;

use super::file_calls::Asked;
use super::occupancy::Occupancy;
use super::state::{Completed, Mode, ProcessId, State, ThreadId, Wake};
use crate::facts::{Futex, Interrupt};
use crate::names::Name;

/// A thread.
#[derive(Clone, Debug)]
pub struct Thread {
    /// Its id in the kernel; 0 for a CPU that has nothing to do.
    pub tid: i32,
    /// Its process, if the trace says so.
    pub pid: Option<i32>,
    /// Its process's parent, or who began it.
    pub parent_pid: Option<i32>,
    /// Its name, the last one.
    pub name: Name,
    /// What it is.
    pub nature: Nature,
    /// Its effective user.
    pub uid: Option<u32>,
    /// Inode of its pid namespace.
    pub namespace: Option<u32>,
    /// When it began, if that is in the trace.
    pub born_ns: Option<i64>,
    /// When it ended, if that is in the trace.
    pub died_ns: Option<i64>,
    /// Which of those that had its process's id.
    pub(super) turn: u32,
    pub(super) state: State,
    pub(super) since_ns: i64,
    pub(super) call: Calling,
    /// What that is about.
    pub(super) asked: Option<Box<Asked>>,
    /// Who has woken it, while it is not known whether it has left its CPU.
    pub(super) wake: Option<Wake>,
    /// Who has woken it when nobody knew what it did: it waited, unless it turns out to have had a CPU.
    pub(super) woken: Option<Wake>,
    /// While it is runnable: in the queues of which CPUs it has waited, each from when on.
    pub(super) queues: Vec<(u32, i64)>,
    /// It has begun to end.
    pub(super) is_exiting: bool,
    /// Nobody knows what it does because an event contradicted another one: what comes does not tell what was.
    pub(super) is_dark: bool,
    /// Everything that it does is in the trace, unless there is a gap.
    pub(super) is_followed: bool,
    pub(super) priority: Option<i32>,
    pub(super) futex: Option<Futex>,
    /// When a device last completed a request of its own, or woke it.
    pub(super) completed: Option<(i64, Completed)>,
    /// It is the first thread of a process, beyond doubt.
    pub(super) is_first: bool,
    /// One of its system calls was seen.
    pub(super) has_called: bool,
    pub(super) torn_calls: u64,
}

/// What a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nature {
    /// The trace does not tell.
    Unknown,
    /// Of a program.
    User,
    /// Of the kernel.
    Kernel,
    /// A CPU that has nothing to do.
    Idle,
}

/// Where a thread is, as far as system calls go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Calling {
    Unknown,
    Outside,
    /// Since when is absent when the entry is not in the trace, or is another thread's.
    Inside(Name, Option<i64>),
    /// The latest of its calls has only one of its two events in the trace: nobody knows how long it lasted.
    Half,
}

impl Thread {
    pub(super) fn new(tid: i32, since_ns: i64) -> Thread {
        Thread {
            tid,
            pid: None,
            parent_pid: None,
            name: Name::default(),
            nature: Nature::Unknown,
            uid: None,
            namespace: None,
            born_ns: None,
            died_ns: None,
            turn: 0,
            state: State::Unknown,
            since_ns,
            call: Calling::Unknown,
            asked: None,
            wake: None,
            woken: None,
            queues: Vec::new(),
            is_exiting: false,
            is_dark: false,
            is_followed: true,
            priority: None,
            futex: None,
            completed: None,
            is_first: false,
            has_called: false,
            torn_calls: 0,
        }
    }

    /// Its process: itself, when the trace does not say.
    pub fn process(&self) -> ProcessId {
        ProcessId {
            pid: self.pid.unwrap_or(self.tid),
            turn: self.turn,
        }
    }

    /// It is the first thread of its process, as far as is known.
    pub fn leads(&self) -> bool {
        self.tid == self.process().pid
    }

    /// How urgent it is: less is more. Known once it has had a CPU.
    pub fn priority(&self) -> Option<i32> {
        self.priority
    }

    /// The futex that the latest of its system calls is about.
    pub fn futex(&self) -> Option<Futex> {
        self.futex
    }

    /// How many of its system calls have a begin or an end in the trace and are not told, as events are missing there: at least.
    pub fn torn_calls(&self) -> u64 {
        self.torn_calls
    }

    /// What it runs for when it runs and nothing is more urgent.
    pub(super) fn mode(&self) -> Mode {
        match (self.nature, self.call) {
            (Nature::Idle, _) => Mode::Idle,
            (Nature::Kernel, _) => Mode::Kernel,
            (_, Calling::Inside(call, _)) => Mode::Call(call),
            (_, Calling::Outside) => Mode::User,
            (_, Calling::Unknown | Calling::Half) => Mode::Unknown,
        }
    }

    /// The system call that it is in, if that is known.
    pub fn system_call(&self) -> Option<Name> {
        match self.call {
            Calling::Inside(call, _) => Some(call),
            _ => None,
        }
    }
}

/// A process beyond its threads.
#[derive(Clone, Debug, Default)]
pub struct Process {
    /// Its arguments with spaces between.
    pub command_line: Arc<str>,
    /// Its control group.
    pub cgroup: Arc<str>,
}

/// A CPU as the model knows it.
#[derive(Clone, Debug)]
pub(super) struct Cpu {
    /// The thread that has it, if that is known.
    pub(super) current: Option<ThreadId>,
    /// The thread that left it at the last switch, until an event names another one. The kernel traces a switch before it switches, so events
    /// in between still name this thread.
    pub(super) switched_from: Option<i32>,
    /// No other thread than the current one has had it from here on, as far as is known.
    pub(super) occupied_ns: i64,
    /// Who had it before.
    pub(super) occupancy: Occupancy,
    /// The thread that is nobody.
    pub(super) idle: ThreadId,
    /// Whether switches away from it are in the trace.
    pub(super) idle_ends: IdleEnds,
    /// Who has it is trusted from here on: the end of the last gap.
    pub(super) blind_until_ns: i64,
    /// How often an event contradicted what was known of it.
    pub(super) contradictions: u64,
    /// When its last event was.
    pub(super) last_ns: i64,
    /// When an interrupt began or ended last while nobody knew who had it.
    pub(super) interrupted_ns: i64,
    /// Interrupts, the innermost last.
    pub(super) stack: Vec<Pending>,
    /// Soft interrupts whose threads were switched out in the middle of them, as happens on real-time kernels (PREEMPT_RT). They go on when the
    /// thread has the CPU again: it cannot migrate until they end. At most `NESTED_MAX` threads.
    switched_out: Vec<SwitchedOut>,
    /// There are none below those, whose begin is not in the trace.
    pub(super) is_stack_whole: bool,
    /// Interrupts that were under way when events went missing. Their exits may still come.
    given_up: Vec<Interrupt>,
    /// Interrupts that have an entry or an exit in the trace and are not told.
    pub(super) torn_interrupts: u64,
    /// When each soft interrupt was asked for.
    pub(super) raised: [Option<Raised>; SOFT_VECTORS],
}

impl Cpu {
    /// Before its first event, at which it may be in an interrupt.
    pub(super) fn new(idle: ThreadId, idle_ends: IdleEnds, occupied_ns: i64, last_ns: i64) -> Cpu {
        Cpu {
            current: None,
            switched_from: None,
            occupied_ns,
            occupancy: Occupancy::new(last_ns),
            idle,
            idle_ends,
            blind_until_ns: i64::MIN,
            contradictions: 0,
            last_ns,
            interrupted_ns: i64::MIN,
            stack: Vec::new(),
            switched_out: Vec::new(),
            is_stack_whole: false,
            given_up: Vec::new(),
            torn_interrupts: 0,
            raised: [None; SOFT_VECTORS],
        }
    }

    /// Its idle thread has it, as far as is known.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.current == Some(self.idle)
    }

    /// What happens on it is done by the thread that has it, and not by an interrupt.
    #[inline]
    pub(super) fn is_of_thread(&self) -> bool {
        self.stack.is_empty() && self.is_stack_whole
    }

    /// No interrupt is under way, as a thread does something that none does. Returns how many have no exit in the trace.
    #[inline]
    #[must_use = "they are torn"]
    pub(super) fn without_interrupts(&mut self) -> usize {
        let torn = self.stack.len();
        self.stack.clear();
        self.given_up.clear();
        self.is_stack_whole = true;
        torn
    }

    /// The CPU switches threads, which it does in no hardware interrupt. Returns how many of these, and of what interrupted them, have no exit in
    /// the trace.
    #[must_use = "they are torn"]
    pub(super) fn without_hardware_interrupts(&mut self) -> usize {
        let is_hardware = |pending: &Pending| pending.interrupt.is_of_hardware();
        let first = self.stack.iter().position(is_hardware).unwrap_or(self.stack.len());
        let torn = self.stack.drain(first..).len();
        self.given_up.retain(|interrupt| !interrupt.is_of_hardware());
        self.is_stack_whole = true;
        torn
    }

    /// The thread that has the CPU leaves it, with the soft interrupts that it is in. Returns how many of other threads have no exit in the trace.
    #[must_use = "they are torn"]
    pub(super) fn switch_out(&mut self, thread: ThreadId, ns: i64) -> usize {
        if self.stack.is_empty() {
            return 0;
        }
        let stack = std::mem::take(&mut self.stack);
        self.switched_out.push(SwitchedOut { thread, ns, stack });
        let surplus = self.switched_out.len().saturating_sub(NESTED_MAX);
        self.switched_out.drain(..surplus).map(|out| out.stack.len()).sum()
    }

    /// A thread gets the CPU, and goes on with the soft interrupts that it was in.
    pub(super) fn switch_in(&mut self, thread: ThreadId, ns: i64) {
        if let Some(place) = self.switched_out.iter().position(|out| out.thread == thread) {
            let out = self.switched_out.remove(place);
            self.stack = out.stack;
            self.stack.iter_mut().for_each(|pending| pending.away_ns += ns - out.ns);
        }
    }

    /// Nobody knows which interrupts are under way. Returns how many were.
    #[must_use = "they are torn"]
    pub(super) fn lose_interrupts(&mut self) -> usize {
        let away = self.switched_out.drain(..).flat_map(|out| out.stack);
        let lost = away.chain(self.stack.drain(..));
        let before = self.given_up.len();
        self.given_up.extend(lost.map(|pending| pending.interrupt));
        let torn = self.given_up.len() - before;
        // Those that are further out must have ended: interrupts do not nest any deeper.
        let surplus = self.given_up.len().saturating_sub(NESTED_MAX);
        self.given_up.drain(..surplus);
        self.is_stack_whole = false;
        torn
    }

    /// An interrupt ends: the one that is told. Otherwise its entry is missing, or it was given up.
    pub(super) fn pop_interrupt(&mut self, interrupt: Interrupt) -> Popped {
        match self
            .stack
            .iter()
            .rposition(|pending| pending.interrupt.is_same(interrupt))
        {
            Some(place) => Popped {
                ended: Some(self.stack[place]),
                // The exits of those above it are missing.
                torn: self.stack.drain(place..).len() - 1,
            },
            None => {
                let given_up = self.given_up.iter().rposition(|known| known.is_same(interrupt));
                if let Some(place) = given_up {
                    self.given_up.truncate(place);
                }
                // One that began before the trace is not torn.
                let is_of_before = !self.is_stack_whole && self.blind_until_ns == i64::MIN;
                Popped {
                    ended: None,
                    torn: usize::from(given_up.is_none() && !is_of_before),
                }
            }
        }
    }
}

/// What an exit says of the interrupts that are under way.
pub(super) struct Popped {
    pub(super) ended: Option<Pending>,
    /// So many have either no entry or no exit.
    pub(super) torn: usize,
}

/// Deeper than this interrupts do not nest.
pub(super) const NESTED_MAX: usize = 16;

/// So many switches away from an idle thread are missing, one after the other, where none is told. One is when recording begins.
const IDLE_ENDS_MISSED_MIN: u32 = 2;

/// Whether switches of a CPU away from its idle thread are told, as far as the trace has been read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IdleEnds {
    /// Since the last one that was told.
    missed: u32,
    /// They are not.
    pub(crate) are_untold: bool,
}

impl IdleEnds {
    /// Before the first event of the CPU.
    pub(crate) fn new(are_untold: bool) -> IdleEnds {
        IdleEnds { missed: 0, are_untold }
    }

    /// One is told.
    pub(crate) fn tell(&mut self) {
        self.missed = 0;
    }

    /// There must have been one.
    pub(crate) fn miss(&mut self) {
        self.missed = self.missed.saturating_add(1);
        self.are_untold |= self.missed >= IDLE_ENDS_MISSED_MIN;
    }
}

/// Linux has ten.
pub(super) const SOFT_VECTORS: usize = 16;

/// An interrupt whose exit is still to come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    pub(super) interrupt: Interrupt,
    pub(super) begin_ns: i64,
    pub(super) raised: Option<Raised>,
    pub(super) completed: Option<Completed>,
    pub(super) nested_ns: i64,
    pub(super) away_ns: i64,
}

/// Soft interrupts of a thread that was switched out in the middle of them.
#[derive(Clone, Debug)]
struct SwitchedOut {
    thread: ThreadId,
    ns: i64,
    stack: Vec<Pending>,
}

/// A soft interrupt is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Raised {
    /// First.
    pub(super) ns: i64,
    /// By this thread, and nobody else.
    pub(super) by: Option<ThreadId>,
}
