// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the consumer says, and how a new one, or a new pisted, comes to the common state.

use std::collections::BTreeSet;

use super::machine::Machine;
use super::sessions::{Change, RingSetLife};
use super::tracing_session::SessionState;
use crate::link::{Domain, RequestId, RingSetKey, SessionId, ToConsumer};
use crate::message::ToProgram;

impl Machine {
    /// Tells the consumer everything, except of the ring sets that it `has` already.
    pub fn everything(&mut self, has: &BTreeSet<RingSetKey>) {
        let sessions: Vec<(SessionId, SessionState, u32)> = self
            .sessions
            .iter()
            .filter(|(id, _)| !self.closed.contains(id))
            .map(|(id, session)| (id, session.state, session.channels.len() as u32))
            .collect();
        for &(session, state, channel_count) in &sessions {
            self.open_at_consumer(session);
            for channel in 0..channel_count {
                self.add_channel_at_consumer(session, channel);
                let classes = self.session(session).channels[channel as usize].classes.clone();
                for class in classes {
                    self.tell_consumer(ToConsumer::AddClass {
                        session,
                        stream_id: channel,
                        class,
                    });
                }
            }
            if state == SessionState::Active {
                self.start_at_consumer(session);
            }
        }
        let ring_sets = self.sessions.ring_sets();
        let ring_sets = ring_sets.filter(|(_, set)| !self.closed.contains(&set.session));
        let ring_sets: Vec<_> = ring_sets.map(|(key, set)| (key, set.clone())).collect();
        for (key, ring_set) in ring_sets {
            if !has.contains(&key) {
                self.tell_consumer(ring_set.announce(key));
            }
            if self.orphans.contains(&key) {
                self.tell_consumer(ToConsumer::ProgramGone { key });
            } else if ring_set.life == RingSetLife::Retired && !self.moves.is_leaving(key) {
                self.tell_consumer(ToConsumer::RetireRingSet { key });
            }
        }
        // An earlier pisted may have ended before it could say so, and the rings let programs record until somebody does. A consumer that is
        // new has yet to write what is in them.
        for &(session, state, _) in &sessions {
            if state != SessionState::Active && self.session(session).first_start.is_some() {
                self.ask_consumer(|request| ToConsumer::Stop { session, request });
            }
        }
        self.tell_consumer(ToConsumer::Described);
    }

    /// What an adopted consumer has and this pisted does not know of: it is to write what is left and forget it.
    pub fn close_unknown(&mut self, sessions: &BTreeSet<SessionId>, ring_sets: &BTreeSet<RingSetKey>) {
        for &session in sessions {
            if self.sessions.get(session).is_none() {
                self.ask_consumer(|request| ToConsumer::CloseSession { session, request });
            }
        }
        for &key in ring_sets {
            if self.sessions.ring_set(key).is_none() {
                self.tell_consumer(ToConsumer::RetireRingSet { key });
            }
        }
    }

    /// The memory of a ring set could not be made.
    pub fn ring_set_failed(&mut self, key: RingSetKey, why: &str) {
        let Some(ring_set) = self.sessions.ring_set(key) else {
            return;
        };
        let (program, session) = (ring_set.program, ring_set.session);
        self.not_recorded(program, session, why);
        self.abandon(key);
    }

    /// The consumer could not take a ring set.
    pub fn ring_set_refused(&mut self, key: RingSetKey, why: &str) {
        self.ring_set_failed(key, &format!("the consumer cannot read its rings: {why}"));
        self.drop_rings(key);
    }

    /// A new pisted finds that its consumer has not a ring set. One that lived on while there was no pisted, and had been told of everything
    /// before, has emptied it, if there was a reason to: the program died, or has another one. Any other never had it.
    pub fn ring_set_missing(&mut self, key: RingSetKey, program_lives: bool, consumer_had_it: bool) {
        let Some(ring_set) = self.sessions.ring_set(key) else {
            return;
        };
        let is_wanted = program_lives && ring_set.life == RingSetLife::Live;
        if consumer_had_it && !is_wanted {
            self.ring_set_done(key);
        } else {
            self.ring_set_lost(key);
        }
    }

    /// The memory of a ring set is gone, and nobody knows what was in it.
    fn ring_set_lost(&mut self, key: RingSetKey) {
        let Some(ring_set) = self.sessions.ring_set(key) else {
            return;
        };
        let (session, channel) = (ring_set.session, ring_set.channel);
        let count = 1;
        self.record(Change::RingSetsLost {
            session,
            channel,
            count,
        });
        let finding = "pisted and its consumer ended at the same time; what was in the rings of a program is lost";
        self.add_finding(session, finding);
        self.abandon(key);
    }

    fn abandon(&mut self, key: RingSetKey) {
        let Some(program) = self.sessions.ring_set(key).map(|ring_set| ring_set.program) else {
            return;
        };
        self.orphans.remove(&key);
        self.moves.forget(key);
        self.record(Change::RingSetEnded { key });
        self.tell(program, ToProgram::ChannelGone { key });
    }

    /// The consumer has emptied a ring set.
    pub fn ring_set_done(&mut self, key: RingSetKey) {
        self.orphans.remove(&key);
        self.moves.forget(key);
        if let Some((program, life)) = self.sessions.ring_set(key).map(|set| (set.program, set.life)) {
            self.record(Change::RingSetEnded { key });
            if life == RingSetLife::Retired {
                // The program has other memory, and kept this one until now.
                self.tell(program, ToProgram::ChannelGone { key });
            }
        }
        self.drop_rings(key);
    }

    /// The consumer gave up on a record of a living program.
    pub fn ring_recovered(&mut self, key: RingSetKey) {
        self.replace(key);
    }

    /// The programs' consumer has closed a session. A new one need not hear of it.
    pub fn closed_at_consumer(&mut self, session: SessionId) {
        if self.sessions.get(session).is_some() {
            self.closed.insert(session);
        }
    }

    /// The consumer has closed a session.
    pub fn session_ended(&mut self, session: SessionId) {
        self.closed.remove(&session);
        let ring_sets: Vec<_> = self
            .sessions
            .ring_sets()
            .filter(|(_, ring_set)| ring_set.session == session)
            .map(|(key, ring_set)| (key, ring_set.program))
            .collect();
        for (key, program) in ring_sets {
            self.orphans.remove(&key);
            self.moves.forget(key);
            // Also of one that it was to leave: it may not have, or keeps the memory for calls that had begun.
            self.tell(program, ToProgram::ChannelGone { key });
            self.drop_rings(key);
        }
        if self.sessions.get(session).is_some() {
            self.record(Change::SessionEnded { session });
        }
        self.forget_tracking(session);
        self.forget_notes(session);
    }

    /// Sessions whose end was asked for and not yet answered, asked for again: an earlier pisted's, or a consumer died.
    pub fn close_again(&mut self) -> Vec<(SessionId, Vec<RequestId>)> {
        let closing: Vec<SessionId> = self
            .sessions
            .iter()
            .filter(|(_, session)| session.state == SessionState::Closing)
            .map(|(id, _)| id)
            .collect();
        let ask = |session| {
            let of_programs = self.ask_consumer(|request| ToConsumer::CloseSession { session, request });
            let of_kernel = self.close_kernel(session);
            (session, [of_programs].into_iter().chain(of_kernel).collect())
        };
        closing.into_iter().map(ask).collect()
    }

    pub(super) fn open_at_consumer(&mut self, session: SessionId) {
        let state = self.session(session);
        let message = state.opening(session, Domain::User);
        self.tell_consumer(message);
    }

    /// A session without channels for programs gets no trace of them.
    pub(super) fn start_at_consumer(&mut self, session: SessionId) -> Option<RequestId> {
        let is_used = !self.session(session).channels.is_empty();
        is_used.then(|| self.ask_consumer(|request| ToConsumer::Start { session, request }))
    }

    pub(super) fn add_channel_at_consumer(&mut self, session: SessionId, channel: u32) {
        let state = &self.session(session).channels[channel as usize];
        let (stream, geometry) = (state.stream_class(channel), state.settings.geometry);
        self.tell_consumer(ToConsumer::AddChannel {
            session,
            stream,
            geometry,
        });
    }
}
