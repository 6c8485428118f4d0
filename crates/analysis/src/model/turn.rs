// SPDX-License-Identifier: MIT OR Apache-2.0
//! A thread turns from one thing to another: what it did is handed out, as far as it is known.

use super::state::{Mode, Slice, State, ThreadId, Wake};
use super::thread::Calling;
use super::{Listen, System};

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
        let thread = &mut self.threads[id.index()];
        if !thread.is_followed {
            return false;
        }
        let Turn {
            at_ns, before, wake, ..
        } = turn;
        let (known, begin_ns) = (thread.state, thread.since_ns);
        let is_dark = thread.is_dark;
        let blind = |state: State| self.circumstances.gaps.within(begin_ns, at_ns, state.cpu());
        // That it has the CPU says nothing of the time when another one had it.
        let before = match before {
            State::Running { cpu, .. }
                if known
                    .agreed(before)
                    .is_none_or(|_| known == State::Unknown || blind(known).is_some()) =>
            {
                let sure_from_ns = blind(before).map_or(begin_ns, |(_, end_ns)| end_ns);
                let occupied_ns = self.cpus[cpu as usize].as_ref().map_or(i64::MAX, |cpu| cpu.occupied_ns);
                if occupied_ns > sure_from_ns { None } else { Some(before) }
            }
            before => Some(before),
        };
        let whole = match before {
            Some(State::Unknown) => Some(known),
            // What was contradicted cannot be told from its end either.
            Some(_) if known == State::Unknown && is_dark => Some(State::Unknown),
            Some(before) => known.agreed(before),
            None => None,
        };
        let before = before.unwrap_or(State::Unknown);
        let watched = whole.unwrap_or(known).cpu();
        let blind = self.circumstances.gaps.within(begin_ns, at_ns, watched);
        let is_known;
        match (blind, whole) {
            (None, Some(state)) => {
                is_known = state != State::Unknown;
                self.tell(id, state, (begin_ns, at_ns), wake, to);
            }
            (None, None) => {
                // It was still so when the CPU had its last event, and nobody knows what came then.
                let sure_ns = match known {
                    State::Running { cpu, .. } => self.cpus[cpu as usize].as_ref().map_or(begin_ns, |cpu| cpu.last_ns),
                    _ => begin_ns,
                };
                let sure_ns = sure_ns.clamp(begin_ns, at_ns);
                self.tell(id, known, (begin_ns, sure_ns), None, to);
                self.tell(id, State::Unknown, (sure_ns, at_ns), None, to);
                is_known = false;
            }
            (Some((blind_from, blind_until)), _) => {
                self.tell(id, known, (begin_ns, blind_from), None, to);
                self.tell(id, State::Unknown, (blind_from, blind_until), None, to);
                let before = if before == known { before.vague() } else { before };
                self.tell(id, before, (blind_until, at_ns), wake, to);
                let thread = &mut self.threads[id.index()];
                thread.call = Calling::Unknown;
                thread.wake = None;
                is_known = false;
            }
        }
        let state = match turn.next {
            Next::State(state) => state,
            Next::On(cpu) => State::Running {
                cpu,
                mode: self.mode(id, cpu),
            },
        };
        let thread = &mut self.threads[id.index()];
        thread.state = state;
        thread.since_ns = at_ns;
        thread.is_dark = false;
        is_known
    }

    /// What a thread does that has this CPU.
    #[inline]
    pub(super) fn mode(&self, id: ThreadId, cpu: u32) -> Mode {
        let innermost = self.cpus[cpu as usize].as_ref().and_then(|cpu| cpu.stack.last());
        match innermost {
            Some(pending) => Mode::Interrupt(pending.interrupt),
            None => self.threads[id.index()].mode(),
        }
    }

    /// That it has the CPU, and what is known of it.
    #[inline]
    pub(super) fn running(&self, id: ThreadId, cpu: u32) -> State {
        match self.threads[id.index()].state {
            known @ State::Running { cpu: same, .. } if same == cpu => known,
            _ => State::Running {
                cpu,
                mode: self.threads[id.index()].mode(),
            },
        }
    }

    /// Nobody knows what a thread does since `sure_ns`.
    pub(super) fn lose(&mut self, id: ThreadId, sure_ns: i64, to: &mut dyn Listen) {
        let at_ns = sure_ns.max(self.threads[id.index()].since_ns);
        let turn = Turn {
            at_ns,
            before: State::Unknown,
            next: Next::State(State::Unknown),
            wake: None,
        };
        self.turn(id, turn, to);
        let thread = &mut self.threads[id.index()];
        thread.is_dark = true;
        thread.call = Calling::Unknown;
        thread.wake = None;
    }

    /// The trace ends.
    pub(super) fn end(&mut self, id: ThreadId, at_ns: i64, to: &mut dyn Listen) {
        let thread = &self.threads[id.index()];
        if !thread.is_followed {
            let whole = (thread.since_ns, at_ns);
            self.tell(id, State::Unknown, whole, None, to);
            return;
        }
        let turn = Turn {
            at_ns,
            before: State::Unknown,
            next: Next::State(State::Unknown),
            wake: None,
        };
        self.turn(id, turn, to);
    }

    /// A thread did one thing for a time.
    #[inline]
    fn tell(&self, thread: ThreadId, state: State, (begin, end): (i64, i64), wake: Option<Wake>, to: &mut dyn Listen) {
        let slice = Slice {
            thread,
            state,
            begin_ns: begin.max(self.circumstances.tell_from_ns),
            end_ns: end.min(self.circumstances.tell_until_ns),
            wake,
        };
        if slice.begin_ns < slice.end_ns {
            to.slice(self, &slice);
        }
    }

    /// Something that ended now is to be told.
    #[inline]
    pub(super) fn is_told(&self) -> bool {
        let (from, until) = (self.circumstances.tell_from_ns, self.circumstances.tell_until_ns);
        self.now_ns >= from && self.now_ns <= until
    }
}
