// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that hear of a start, or of other rules, one after the other.
//!
//! A user may have a million events registered, and each is compared with every pattern of the session. So a step compares so many and no more,
//! and pisted serves others between two of them. What a program registers meanwhile is offered as ever; it may then be told something
//! twice, which changes nothing. As long as there is little to compare, one step is all.

use std::collections::VecDeque;

use super::machine::{Machine, Pending};
use super::rules::Rule;
use super::sessions::ProgramId;
use super::tracing_session::SessionState;
use crate::link::{RequestId, SessionId};
use crate::message::ToProgram;

/// Events times patterns that are compared in a step: about ten milliseconds, unless one program alone takes longer.
pub(super) const COMPARISON_COUNT_MAX: usize = 1 << 20;

/// What the programs of a session hear of.
#[derive(Debug)]
pub(super) enum News {
    /// It records.
    Started,
    /// A channel had these rules before.
    Rules { channel: u32, earlier: Vec<Rule> },
}

/// News that some programs have yet to hear of.
#[derive(Debug)]
pub(super) struct CatchUp {
    session: SessionId,
    news: News,
    /// What they answer with.
    token: u64,
    programs: VecDeque<ProgramId>,
}

impl Machine {
    /// Tells the programs of a session, as many as a step may.
    pub(super) fn announce(&mut self, session: SessionId, news: News, request: Option<RequestId>) -> Pending {
        self.forget_told();
        let mut programs = self.programs_of(session);
        let comparison_count = |id: &ProgramId| self.comparison_count(*id, session);
        if programs.iter().map(comparison_count).sum::<usize>() > COMPARISON_COUNT_MAX {
            // Those that take long come last.
            programs.sort_by_key(comparison_count);
        }
        let mut catch_up = CatchUp {
            session,
            news,
            token: 0,
            programs: programs.into(),
        };
        // Earlier news come first.
        if self.catching_up.is_empty() {
            self.step(&mut catch_up, false);
        }
        let mut pending = self.wait_for_told(request);
        if !catch_up.programs.is_empty() {
            catch_up.token = pending.token;
            pending.programs.extend(&catch_up.programs);
            self.catching_up.push_back(catch_up);
        }
        pending
    }

    /// Whether programs have yet to hear of something.
    pub fn is_behind(&self) -> bool {
        !self.catching_up.is_empty()
    }

    /// Tells some of them. Those that need not answer, and the token that they would answer with.
    pub fn catch_up(&mut self) -> Vec<(ProgramId, u64)> {
        let Some(mut catch_up) = self.catching_up.pop_front() else {
            return Vec::new();
        };
        let token = catch_up.token;
        let mut silent = Vec::new();
        self.forget_told();
        for id in self.step(&mut catch_up, true) {
            if self.is_told(id) {
                self.tell(id, ToProgram::Sync { token });
            } else {
                silent.push((id, token));
            }
        }
        if !catch_up.programs.is_empty() {
            self.catching_up.push_front(catch_up);
        }
        silent
    }

    /// Takes the programs of a step, and tells them, in a step that `is_late` what they may have heard already too.
    fn step(&mut self, catch_up: &mut CatchUp, is_late: bool) -> Vec<ProgramId> {
        let session = catch_up.session;
        let (mut taken, mut comparison_count) = (Vec::new(), 0);
        while comparison_count < COMPARISON_COUNT_MAX
            && let Some(id) = catch_up.programs.pop_front()
        {
            comparison_count += self.comparison_count(id, session);
            match &catch_up.news {
                News::Started if self.is_active(session) => self.attach(id, session, is_late),
                News::Rules { channel, earlier } if self.is_open(session) => {
                    self.update(id, session, *channel, earlier);
                }
                _ => {}
            }
            taken.push(id);
        }
        taken
    }

    /// It may have been destroyed since.
    fn is_open(&self, session: SessionId) -> bool {
        let session = self.sessions.get(session);
        session.is_some_and(|session| session.state != SessionState::Closing)
    }

    fn comparison_count(&self, id: ProgramId, session: SessionId) -> usize {
        let mut ring_sets = self.sessions.ring_sets_of(id);
        if !self.is_active(session) && ring_sets.all(|(_, ring_set)| ring_set.session != session) {
            // It will hear of the session's rules when that starts.
            return 1;
        }
        let event_count = self.programs.get(&id).map_or(0, |program| program.event_count());
        let channels = self.sessions.get(session).map_or(&[][..], |session| &session.channels);
        let pattern_count: usize = channels
            .iter()
            .flat_map(|channel| &channel.rules)
            .map(Rule::pattern_count)
            .sum();
        // One for the program itself.
        1 + event_count * pattern_count
    }
}
