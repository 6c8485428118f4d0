// SPDX-License-Identifier: MIT OR Apache-2.0
//! A thread turns from one thing to another: what it did is handed out, as far as it is known.

use super::state::{Mode, Slice, State, ThreadId, Wake};
use super::thread::{Calling, Cpu};
use super::{Listen, Nature, System};

/// What a thread does from now on.
#[derive(Clone, Copy, Debug)]
pub(super) enum Next {
    /// This.
    State(State),
    /// It has the CPU, for what it and the interrupts there say.
    On(u32),
}

/// How a thread turns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub(super) at_ns: i64,
    /// What it must have been doing until now; `Unknown` when the event does not tell.
    pub(super) before: State,
    pub(super) next: Next,
    pub(super) wake: Option<Wake>,
}

impl System {
    /// A thread turns. True when what it did is known up to now.
    pub(super) fn turn(&mut self, id: ThreadId, turn: Turn, to: &mut dyn Listen) -> bool {
        if !self.threads[id.index()].is_followed {
            return false;
        }
        let Turn {
            at_ns,
            before,
            next,
            wake,
        } = turn;
        self.settle(id, at_ns, to);
        let before = self.shown(id, before);
        let thread = &self.threads[id.index()];
        let (known, begin_ns) = (thread.state, thread.since_ns);
        // Of what was not known, the end tells no more than back to the last gap.
        let blind = match known {
            State::Unknown => self.circumstances.gaps.within(begin_ns, at_ns, before.cpu()),
            _ => None,
        };
        let sure_from_ns = blind.map_or(begin_ns, |(_, end_ns)| end_ns);
        let whole = match (known, before) {
            (_, State::Unknown) => Some(known),
            // What was contradicted cannot be told from its end either.
            (State::Unknown, _) if thread.is_dark => Some(State::Unknown),
            // That it has the CPU says nothing of the time when another one had it.
            (State::Unknown, State::Running { cpu, mode }) => Some(self.ran(cpu, mode, sure_from_ns)),
            _ => known.agreed(before),
        };
        match whole {
            Some(state) => {
                self.tell(id, known, (begin_ns, sure_from_ns), None, to);
                self.tell(id, state, (sure_from_ns, at_ns), wake, to);
            }
            None => {
                // It was still so when the CPU had its last event, and nobody knows what came then.
                let sure_ns = match known {
                    State::Running { cpu, .. } => self.cpus[cpu as usize].as_ref().map_or(begin_ns, |cpu| cpu.last_ns),
                    _ => begin_ns,
                };
                let sure_ns = sure_ns.clamp(begin_ns, at_ns);
                self.tell(id, known, (begin_ns, sure_ns), None, to);
                self.tell(id, State::Unknown, (sure_ns, at_ns), None, to);
            }
        }
        let state = match next {
            Next::State(state) => state,
            Next::On(cpu) => State::Running {
                cpu,
                mode: self.mode(id, cpu),
            },
        };
        let state = self.shown(id, state);
        let thread = &mut self.threads[id.index()];
        thread.state = state;
        thread.since_ns = at_ns;
        thread.is_dark = false;
        thread.woken = None;
        blind.is_none() && whole.is_some_and(|state| state != State::Unknown)
    }

    /// The state of a thread as it is told: not all of it for threads of the tracer.
    #[inline]
    fn shown(&self, id: ThreadId, state: State) -> State {
        let of_hidden = state.of_hidden();
        if of_hidden != state && self.is_hidden(id) {
            of_hidden
        } else {
            state
        }
    }

    /// What is known of a thread is not known any more when it may have ended in a gap. Before anything is asked of a thread.
    #[inline]
    pub(super) fn settle(&mut self, id: ThreadId, now_ns: i64, to: &mut dyn Listen) {
        if !self.circumstances.gaps.is_empty() && self.threads[id.index()].is_followed {
            self.doubt(id, now_ns, to);
        }
    }

    fn doubt(&mut self, id: ThreadId, now_ns: i64, to: &mut dyn Listen) {
        let gaps = &self.circumstances.gaps;
        let is_sure = |wake: &Wake| gaps.within(wake.ns, now_ns, None).is_none();
        let thread = &mut self.threads[id.index()];
        thread.wake = thread.wake.filter(is_sure);
        thread.woken = thread.woken.filter(is_sure);
        // Where no switch tells that it has left its CPU, its call may have gone on, and ended, on any.
        if let Calling::Inside(_, Some(begin_ns)) = thread.call
            && !self.circumstances.has_switches
            && gaps.within(begin_ns, now_ns, None).is_some()
        {
            thread.call = Calling::Unknown;
        }
        let (known, since_ns) = (thread.state, thread.since_ns);
        if matches!(known, State::Unknown | State::Unborn | State::Dead) {
            return;
        }
        if let Some((blind_from_ns, blind_until_ns)) = gaps.within(since_ns, now_ns, known.cpu()) {
            thread.state = State::Unknown;
            thread.since_ns = blind_until_ns;
            thread.call = Calling::Unknown;
            let sure_ns = self.sure_until(id, known, blind_from_ns).max(since_ns);
            self.tell(id, known, (since_ns, sure_ns), None, to);
            self.tell(id, State::Unknown, (sure_ns, blind_until_ns), None, to);
        }
    }

    /// Until when a thread surely did what it has begun, when no event says what came then: a CPU whose switches away from its idle thread are
    /// not told may have turned to another thread since its last event.
    fn sure_until(&self, id: ThreadId, known: State, ns: i64) -> i64 {
        let untold = self.circumstances.idle_ends_untold.iter();
        let mut cpus = untold.filter_map(|cpu| self.cpus.get(*cpu as usize)?.as_ref());
        match known {
            State::Running { .. } => match cpus.find(|cpu| cpu.idle == id) {
                Some(cpu) => cpu.last_ns.min(ns),
                None => ns,
            },
            State::Blocked(_) | State::Stopped if self.circumstances.has_wakeups => ns,
            State::Runnable(_) | State::Blocked(_) | State::Stopped => {
                let is_busy = |id: ThreadId| self.threads[id.index()].is_followed;
                let may_turn = cpus.filter(|cpu| cpu.is_idle() || !cpu.current.is_some_and(is_busy));
                may_turn.map(|cpu| cpu.last_ns).fold(ns, i64::min)
            }
            _ => ns,
        }
    }

    /// What a thread did that has a CPU now and was not known to have it.
    fn ran(&self, cpu: u32, mode: Mode, since_ns: i64) -> State {
        match &self.cpus[cpu as usize] {
            // Another one had it.
            Some(known) if known.occupied_ns > since_ns => State::Unknown,
            Some(known) if known.interrupted_ns > since_ns => State::Running {
                cpu,
                mode: Mode::Unknown,
            },
            _ => State::Running { cpu, mode },
        }
    }

    /// What a thread does that has this CPU.
    #[inline]
    pub(super) fn mode(&self, id: ThreadId, cpu: u32) -> Mode {
        let known = self.cpus[cpu as usize].as_ref();
        match known.and_then(|cpu| cpu.stack.last()) {
            Some(pending) => Mode::Interrupt(pending.interrupt),
            None if known.is_some_and(Cpu::is_of_thread) => self.threads[id.index()].mode(),
            None => Mode::Unknown,
        }
    }

    /// That it has the CPU, and what is known of it.
    #[inline]
    pub(super) fn running(&self, id: ThreadId, cpu: u32) -> State {
        match self.threads[id.index()].state {
            known @ State::Running { cpu: same, .. } if same == cpu => known,
            _ => State::Running {
                cpu,
                mode: match self.cpus[cpu as usize].as_ref().is_some_and(|cpu| cpu.is_stack_whole) {
                    true => self.threads[id.index()].mode(),
                    false => Mode::Unknown,
                },
            },
        }
    }

    /// Nobody knows what a thread does since `sure_ns`, nor will what comes tell.
    pub(super) fn lose(&mut self, id: ThreadId, sure_ns: i64, to: &mut dyn Listen) {
        let at_ns = sure_ns.max(self.threads[id.index()].since_ns);
        self.forget(id, at_ns, to);
        let thread = &mut self.threads[id.index()];
        thread.is_dark = true;
        // It may have lost its CPU inside of its call, whose end will say whose it is if events say on which thread they happen.
        if self.circumstances.has_switches && !self.has_tids {
            thread.call = Calling::Unknown;
        }
        thread.wake = None;
    }

    /// Nobody knows what a thread does from now on, before what comes tells.
    pub(super) fn forget(&mut self, id: ThreadId, at_ns: i64, to: &mut dyn Listen) {
        let turn = Turn {
            at_ns,
            before: State::Unknown,
            next: Next::State(State::Unknown),
            wake: None,
        };
        self.turn(id, turn, to);
    }

    /// The trace ends.
    pub(super) fn end(&mut self, id: ThreadId, at_ns: i64, to: &mut dyn Listen) {
        let thread = &self.threads[id.index()];
        if !thread.is_followed {
            let whole = (thread.since_ns, at_ns);
            self.tell(id, State::Unknown, whole, None, to);
            return;
        }
        let sure_ns = self.sure_until(id, thread.state, at_ns).max(thread.since_ns);
        let is_idle = thread.nature == Nature::Idle;
        if sure_ns < at_ns && !is_idle && at_ns >= self.circumstances.tell_from_ns {
            // On which of these CPUs it may have gone on, nobody knows.
            self.idle_ends_missed.extend(&self.circumstances.idle_ends_untold);
        }
        self.forget(id, sure_ns, to);
        self.forget(id, at_ns, to);
    }

    /// What all threads have been doing up to now, although it goes on: what [`System::finish`] would tell at that time.
    pub fn so_far(&self, at_ns: i64, mut take: impl FnMut(&Slice)) {
        for (id, thread) in self.threads() {
            let (known, since_ns) = (thread.state, thread.since_ns);
            let gap = match known {
                State::Unknown | State::Unborn | State::Dead => None,
                _ => self.circumstances.gaps.within(since_ns, at_ns, known.cpu()),
            };
            let until_ns = gap.map_or(at_ns, |(blind_from_ns, _)| blind_from_ns);
            let sure_ns = match thread.is_followed {
                true => self
                    .sure_until(id, known, until_ns)
                    .clamp(since_ns, at_ns.max(since_ns)),
                false => since_ns,
            };
            let parts = [(known, since_ns, sure_ns), (State::Unknown, sure_ns, at_ns)];
            let slices = parts.map(|(state, begin_ns, end_ns)| self.told_slice(id, state, (begin_ns, end_ns), None));
            slices.iter().flatten().for_each(&mut take);
        }
    }

    /// A thread did one thing for a time.
    #[inline]
    fn tell(&self, thread: ThreadId, state: State, span_ns: (i64, i64), wake: Option<Wake>, to: &mut dyn Listen) {
        if let Some(slice) = self.told_slice(thread, state, span_ns, wake) {
            to.slice(self, &slice);
        }
    }

    /// The part of it that is to be told.
    #[inline]
    fn told_slice(
        &self,
        thread: ThreadId,
        state: State,
        (begin, end): (i64, i64),
        wake: Option<Wake>,
    ) -> Option<Slice> {
        // Between two events a thread may have lost its CPU and got it back, unless switches tell.
        let is_known = self.circumstances.has_switches || matches!(state, State::Unborn | State::Dead);
        let slice = Slice {
            thread,
            state: if is_known { state } else { State::Unknown },
            begin_ns: begin.max(self.circumstances.tell_from_ns),
            end_ns: end.min(self.circumstances.tell_until_ns),
            wake,
        };
        (slice.begin_ns < slice.end_ns).then_some(slice)
    }

    /// Something that ended now is to be told.
    #[inline]
    pub(super) fn is_told(&self) -> bool {
        let (from, until) = (self.circumstances.tell_from_ns, self.circumstances.tell_until_ns);
        self.now_ns >= from && self.now_ns <= until
    }
}
