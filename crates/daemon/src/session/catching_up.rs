// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that hear of a start, of other rules, or that a session is about others, one after the other.
//!
//! A user may have a million events registered, and each is compared with every pattern of the session. So a step compares so many and no more, of
//! a program with many events only some blocks of them, and pisted serves others between two steps. What a program registers meanwhile is offered as
//! ever; it may then be told something twice, which changes nothing. As long as there is little to compare, one step is all.

use std::collections::VecDeque;

use super::machine::{Machine, Pending};
use super::offers::Blocks;
use super::rules::Rule;
use super::sessions::ProgramId;
use super::tracing_session::SessionState;
use crate::link::{RequestId, SessionId};
use crate::message::ToProgram;

/// Events times patterns that are compared in a step: about ten milliseconds, and the last block of events that it takes.
pub(super) const COMPARISON_COUNT_MAX: usize = 1 << 20;

/// What the programs of a session hear of.
#[derive(Debug)]
pub(super) enum News {
    /// It records.
    Started,
    /// A channel had these rules before.
    Rules { channel: u32, earlier: Vec<Rule> },
    /// It is about other programs than before.
    Tracked,
}

/// News that some programs have yet to hear of.
#[derive(Debug)]
pub(super) struct CatchUp {
    session: SessionId,
    news: News,
    /// What they answer with.
    token: u64,
    programs: VecDeque<Listener>,
}

/// A program that has yet to hear of something.
#[derive(Debug)]
struct Listener {
    id: ProgramId,
    /// The module and the number in it of the block of events that is next.
    next: (u32, usize),
    /// It was told something in an earlier step, or has yet to confirm earlier news. It answers when it has heard everything.
    is_told: bool,
    /// It had a ring set of the channel whose rules changed: earlier rules may have enabled events.
    has_earlier: bool,
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
        let listener = |id| Listener {
            id,
            next: (0, 0),
            is_told: self.is_behind_with(id, session),
            has_earlier: match news {
                News::Started | News::Tracked => false,
                News::Rules { channel, .. } => self.ring_set_of(id, session, channel).is_some(),
            },
        };
        let mut catch_up = CatchUp {
            session,
            token: 0,
            programs: programs.into_iter().map(listener).collect(),
            news,
        };
        // Earlier news come first.
        if self.catching_up.is_empty() {
            self.step(&mut catch_up, false);
        }
        let mut pending = self.wait_for_told(request);
        if !catch_up.programs.is_empty() {
            catch_up.token = pending.token;
            pending
                .programs
                .extend(catch_up.programs.iter().map(|listener| listener.id));
            self.catching_up.push_back(catch_up);
        }
        self.await_news(session, &pending);
        pending
    }

    /// What is the same as before is no news, but programs may have yet to hear of it, or to confirm that they have.
    pub(super) fn announce_again(&mut self, session: SessionId, channel: u32) -> Pending {
        let earlier = self.session(session).channels[channel as usize]
            .effective_rules()
            .to_vec();
        if !self.catching_up.is_empty() {
            return self.announce(session, News::Rules { channel, earlier }, None);
        }
        self.forget_told();
        let programs = self.programs_of(session).into_iter();
        self.told = programs.filter(|&id| self.is_behind_with(id, session)).collect();
        let pending = self.wait_for_told(None);
        self.await_news(session, &pending);
        pending
    }

    /// Whether a program has yet to confirm news of a session.
    fn is_behind_with(&self, id: ProgramId, session: SessionId) -> bool {
        let program = self.programs.get(&id);
        program.is_some_and(|program| program.unconfirmed.contains_key(&session))
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
                if let Some(program) = self.programs.get_mut(&id) {
                    program.unconfirmed.retain(|_, awaited| *awaited != token);
                }
            }
        }
        if !catch_up.programs.is_empty() {
            self.catching_up.push_front(catch_up);
        }
        silent
    }

    /// Takes the programs of a step, and tells them, in a step that `is_late` what they may have heard already too. Those that know everything.
    fn step(&mut self, catch_up: &mut CatchUp, is_late: bool) -> Vec<ProgramId> {
        let session = catch_up.session;
        let (mut taken, mut left) = (Vec::new(), COMPARISON_COUNT_MAX);
        while left > 0
            && let Some(mut listener) = catch_up.programs.pop_front()
        {
            let id = listener.id;
            if matches!(catch_up.news, News::Tracked) && listener.next == (0, 0) {
                left = left.saturating_sub(self.choice_comparison_count(session));
                if !self.decide_anew(id, session) {
                    self.told.extend(listener.is_told.then_some(id));
                    taken.push(id);
                    continue;
                }
            }
            let (blocks, rest) = self.some_blocks(id, session, listener.next, &mut left);
            match &catch_up.news {
                News::Started if self.is_active(session) => self.attach(id, session, &blocks, is_late),
                News::Rules { channel, earlier } if self.is_open(session) => {
                    let earlier = if listener.has_earlier { &earlier[..] } else { &[] };
                    self.update(id, session, *channel, &blocks, earlier);
                }
                News::Tracked if self.is_open(session) => self.follow_choice(id, session, &blocks),
                _ => {}
            }
            match rest {
                Some(next) => {
                    listener.next = next;
                    listener.is_told |= self.told.remove(&id);
                    catch_up.programs.push_front(listener);
                }
                None => {
                    self.told.extend(listener.is_told.then_some(id));
                    taken.push(id);
                }
            }
        }
        taken
    }

    /// Blocks of a program's events, from one on, as many as can be compared with what is `left` of a step; and the one after them.
    fn some_blocks(
        &self,
        id: ProgramId,
        session: SessionId,
        next: (u32, usize),
        left: &mut usize,
    ) -> (Blocks, Option<(u32, usize)>) {
        let mut some = Blocks::new();
        let per_event = self.comparisons_per_event(id, session);
        // One for the program itself.
        *left = left.saturating_sub(1);
        let Some(program) = self.programs.get(&id) else {
            return (some, None);
        };
        for (place, block) in program.blocks_from(next) {
            if *left == 0 && !some.is_empty() {
                return (some, Some(place));
            }
            *left = left.saturating_sub(block.events.len() * per_event);
            some.push((place.0, block.clone()));
        }
        (some, None)
    }

    /// It may have been destroyed since.
    fn is_open(&self, session: SessionId) -> bool {
        let session = self.sessions.get(session);
        session.is_some_and(|session| session.state != SessionState::Closing)
    }

    /// Of a program, to find out whether the session is about it.
    fn choice_comparison_count(&self, session: SessionId) -> usize {
        let session = self.sessions.get(session);
        1 + session.map_or(0, |session| session.tracked.comparison_count())
    }

    fn comparison_count(&self, id: ProgramId, session: SessionId) -> usize {
        let event_count = self.programs.get(&id).map_or(0, |program| program.event_count());
        event_count * self.comparisons_per_event(id, session)
    }

    fn comparisons_per_event(&self, id: ProgramId, session: SessionId) -> usize {
        let mut ring_sets = self.sessions.ring_sets_of(id);
        if !self.is_active(session) && ring_sets.all(|(_, ring_set)| ring_set.session != session) {
            // It will hear of the session's rules when that starts.
            return 0;
        }
        let channels = self.sessions.get(session).map_or(&[][..], |session| &session.channels);
        let rules = channels.iter().flat_map(|channel| &channel.rules);
        rules.map(Rule::comparison_count).sum()
    }
}
