// SPDX-License-Identifier: MIT OR Apache-2.0
//! System calls and interrupts, on the thread that has the CPU.

use super::state::{Call, Interruption, Mode, State, ThreadId};
use super::thread::{Calling, NESTED_MAX, Nature, Pending, Popped, Raised, SOFT_VECTORS};
use super::turn::{Next, Turn};
use super::{At, Listen, System};
use crate::facts::{Arguments, Found, Interrupt};
use crate::names::Name;

/// Networks and disks: what is asked for is done for who asks. Timers and the like are everybody's.
pub(super) fn does_work(vector: u32) -> bool {
    matches!(vector, 2..=4)
}

impl System {
    pub(super) fn call_entry(&mut self, call: Name, arguments: &Arguments<'_>, cpu: u32, at: &At, to: &mut dyn Listen) {
        let Some(id) = self.caller(cpu, at, to) else { return };
        let before = self.in_mode(id, cpu, self.outside(id));
        if let Calling::Inside(_, Some(_)) = self.threads[id.index()].call {
            self.tear_call(id);
        }
        self.threads[id.index()].has_called = true;
        if self.half_calls.contains(&call) {
            return self.half_call(id, before, cpu, at, to);
        }
        self.threads[id.index()].call = Calling::Inside(call, Some(at.ns));
        self.go_on(id, before, cpu, at, to);
        // A gap in what came before is no reason to doubt what begins now.
        self.threads[id.index()].call = Calling::Inside(call, Some(at.ns));
        self.threads[id.index()].asked = match to.wants_files() {
            true => self.asked(call, arguments),
            false => None,
        };
        self.threads[id.index()].futex = arguments.futex;
        self.set_mode(id, cpu);
    }

    pub(super) fn call_exit(
        &mut self,
        (call, result, found): (Option<Name>, i64, Found<'_>),
        cpu: u32,
        at: &At,
        to: &mut dyn Listen,
    ) {
        let Some(id) = self.caller(cpu, at, to) else { return };
        let inside = self.threads[id.index()].call;
        let call = match (call, inside) {
            // Its exit has the number of what was interrupted: that of a call, or -1 where that was none.
            (_, Calling::Inside(call, _)) if self.handler_returns.contains(&call) => Some(call),
            (Some(call), _) | (None, Calling::Inside(call, _)) => Some(call),
            (None, _) => None,
        };
        if call.is_some_and(|call| self.half_calls.contains(&call)) {
            self.threads[id.index()].has_called = true;
            let before = self.in_mode(id, cpu, Mode::Unknown);
            return self.half_call(id, before, cpu, at, to);
        }
        let before = match call {
            Some(call) => self.in_mode(id, cpu, Mode::Call(call)),
            None => self.in_mode(id, cpu, Mode::Unknown),
        };
        self.go_on(id, before, cpu, at, to);
        // A gap that lies in between has made it unknown.
        let inside = self.threads[id.index()].call;
        self.threads[id.index()].call = Calling::Outside;
        let asked = self.threads[id.index()].asked.take();
        self.set_mode(id, cpu);
        let has_called = std::mem::replace(&mut self.threads[id.index()].has_called, true);
        let is_whole = matches!(inside, Calling::Inside(name, _) if call == Some(name));
        if has_called && !is_whole {
            self.tear_call(id);
        }
        if let Calling::Inside(name, Some(begin_ns)) = inside
            && is_whole
        {
            let call = Call {
                thread: id,
                name,
                begin_ns,
                end_ns: at.ns,
                result,
            };
            if let Some(asked) = asked {
                self.answered(&call, &asked, &found, to);
            }
            if self.is_told() {
                to.call(self, &call);
            }
        }
    }

    /// An entry whose exit is not recorded, or an exit whose entry is not: what the thread does from here on is not known.
    fn half_call(&mut self, id: ThreadId, before: State, cpu: u32, at: &At, to: &mut dyn Listen) {
        self.threads[id.index()].call = Calling::Half;
        self.go_on(id, before, cpu, at, to);
        self.threads[id.index()].call = Calling::Half;
        self.threads[id.index()].asked = None;
        self.threads[id.index()].futex = None;
        self.set_mode(id, cpu);
    }

    /// What a thread that enters a call ran for, as far as the entry tells.
    fn outside(&self, id: ThreadId) -> Mode {
        match self.threads[id.index()].call {
            Calling::Half => Mode::Unknown,
            _ => Mode::User,
        }
    }

    /// The begin or the end of a system call is missing. When nothing is, it is a call that ends in another way.
    fn tear_call(&mut self, id: ThreadId) {
        if !self.circumstances.gaps.is_empty() && self.is_told() {
            self.threads[id.index()].torn_calls += 1;
        }
    }

    /// Interrupts of a CPU have their begin or their end in the trace, and will not be told, as with system calls.
    pub(super) fn tear_interrupts(&mut self, cpu: u32, count: usize) {
        if count > 0 && !self.circumstances.gaps.is_empty() && self.is_told() {
            self.cpu(cpu).torn_interrupts += count as u64;
        }
    }

    /// Who makes a system call: a thread of a program, all of whose events are there.
    fn caller(&mut self, cpu: u32, at: &At, to: &mut dyn Listen) -> Option<ThreadId> {
        let id = self.current(cpu, at, to)?;
        self.follow(id, at, to);
        let thread = &mut self.threads[id.index()];
        if thread.nature == Nature::Idle {
            return None;
        }
        if thread.nature != Nature::User {
            thread.nature = Nature::User;
            if let State::Running { mode, .. } = &mut thread.state
                && *mode == Mode::Kernel
            {
                *mode = Mode::Unknown;
            }
        }
        // It is its own thread: interrupts make no system calls.
        let torn = self.cpu(cpu).without_interrupts();
        self.tear_interrupts(cpu, torn);
        Some(id)
    }

    /// It has the CPU in this mode, if what is known agrees.
    fn in_mode(&self, id: ThreadId, cpu: u32, mode: Mode) -> State {
        match self.threads[id.index()].state {
            // The exit of the last interrupt is missing.
            known @ State::Running {
                cpu: same,
                mode: Mode::Interrupt(_),
            } if same == cpu => known,
            _ => State::Running { cpu, mode },
        }
    }

    fn go_on(&mut self, id: ThreadId, before: State, cpu: u32, at: &At, to: &mut dyn Listen) {
        let turn = Turn {
            at_ns: at.ns,
            before,
            next: Next::On(cpu),
            wake: None,
        };
        self.turn(id, turn, to);
    }

    /// Something else than before is known of what a thread runs for.
    #[inline]
    fn set_mode(&mut self, id: ThreadId, cpu: u32) {
        let mode = self.mode(id, cpu);
        if let State::Running { mode: known, .. } = &mut self.threads[id.index()].state {
            *known = mode;
        }
    }

    pub(super) fn begin_interrupt(&mut self, interrupt: Interrupt, cpu: u32, at: &At, to: &mut dyn Listen) {
        let current = self.current(cpu, at, to);
        let before = current.map(|id| self.running(id, cpu));
        if self.cpu(cpu).stack.len() >= NESTED_MAX {
            let torn = self.cpu(cpu).lose_interrupts();
            self.tear_interrupts(cpu, torn);
        }
        let known = self.cpu(cpu);
        let raised = match interrupt {
            Interrupt::Soft(vector) if (vector as usize) < SOFT_VECTORS => known.raised[vector as usize].take(),
            _ => None,
        };
        known.stack.push(Pending {
            interrupt,
            begin_ns: at.ns,
            raised,
            completed: None,
            nested_ns: 0,
            away_ns: 0,
        });
        self.interrupted(current.zip(before), cpu, at, to);
    }

    /// A soft interrupt is asked for: by the thread that has the CPU, unless it happens in an interrupt.
    pub(super) fn raise(&mut self, vector: u32, cpu: u32, at: &At, to: &mut dyn Listen) {
        let current = self.current(cpu, at, to);
        let is_told = self.cpu(cpu).is_of_thread() && self.circumstances.has_interrupts && does_work(vector);
        let by = current.filter(|id| is_told && self.is_recorded(*id));
        let Some(place) = self.cpu(cpu).raised.get_mut(vector as usize) else {
            return;
        };
        *place = Some(match *place {
            None => Raised { ns: at.ns, by },
            Some(known) => Raised {
                by: known.by.filter(|first| by == Some(*first)),
                ..known
            },
        });
    }

    /// An interrupt begins or ends on a thread's CPU.
    fn interrupted(&mut self, current: Option<(ThreadId, State)>, cpu: u32, at: &At, to: &mut dyn Listen) {
        match current {
            Some((id, before)) => self.go_on(id, before, cpu, at, to),
            None => self.cpu(cpu).interrupted_ns = at.ns,
        }
    }

    pub(super) fn end_interrupt(&mut self, interrupt: Interrupt, cpu: u32, at: &At, to: &mut dyn Listen) {
        let current = self.current(cpu, at, to);
        let before = current.map(|id| match self.running(id, cpu) {
            // Its begin is not in the trace.
            State::Running {
                cpu,
                mode: Mode::Unknown,
            } => State::Running {
                cpu,
                mode: Mode::Interrupt(interrupt),
            },
            known => known,
        });
        let Popped { ended, torn } = self.cpu(cpu).pop_interrupt(interrupt);
        self.tear_interrupts(cpu, torn);
        if let (Some(ended), Some(below)) = (ended, self.cpu(cpu).stack.last_mut()) {
            below.nested_ns += at.ns - ended.begin_ns;
        }
        self.interrupted(current.zip(before), cpu, at, to);
        if let Some(Pending {
            interrupt,
            begin_ns,
            raised,
            nested_ns,
            away_ns,
            ..
        }) = ended
            && self.is_told()
        {
            let interruption = Interruption {
                cpu,
                interrupt,
                begin_ns,
                end_ns: at.ns,
                raised_ns: raised.map(|raised| raised.ns),
                nested_ns,
                away_ns,
            };
            to.interruption(self, &interruption);
        }
    }
}
