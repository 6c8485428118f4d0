// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that go over from one ring set to another, because the first has a hole, or its channel was replaced.
//!
//! A program records into the old one until its runtime's thread has attached the new one, which may be late: stopped, or without a CPU.
//! So the consumer takes from both, and retires the old one when the program has answered that it moved, or is dead. The program counts
//! what finds no space in the old one: nobody uses the sub-buffer of the hole again.

use std::collections::{BTreeMap, BTreeSet};

use super::machine::Machine;
use super::sessions::{ProgramId, RingSet, RingSetLife, Sessions};
use crate::link::{RingSetKey, ToConsumer};
use crate::message::ToProgram;

/// Ring sets that their programs are to leave.
#[derive(Debug, Default)]
pub(super) struct Moves {
    /// Retired ones, and the token that says that the program has left; `None`: the program has yet to come back and say what it has.
    leaving: BTreeMap<RingSetKey, Option<u64>>,
    /// Those that are to be replaced once their program is connected.
    waiting: BTreeSet<RingSetKey>,
}

impl Moves {
    /// What an earlier pisted left: nobody knows how far the programs came.
    pub(super) fn of(sessions: &Sessions) -> Moves {
        let mut moves = Moves::default();
        for (key, ring_set) in sessions.ring_sets() {
            let session = sessions.get(ring_set.session);
            if ring_set.life == RingSetLife::Retired {
                moves.leaving.insert(key, None);
            } else if session.is_some_and(|session| session.latest(ring_set.channel) != ring_set.channel) {
                moves.waiting.insert(key);
            }
        }
        moves
    }

    /// The program may still record into the ring set, although it is retired.
    pub(super) fn is_leaving(&self, key: RingSetKey) -> bool {
        self.leaving.contains_key(&key)
    }

    pub(super) fn wait_for_program(&mut self, key: RingSetKey) {
        self.waiting.insert(key);
    }

    /// The ring set is gone.
    pub(super) fn forget(&mut self, key: RingSetKey) {
        self.leaving.remove(&key);
        self.waiting.remove(&key);
    }
}

impl Machine {
    /// The program was told what to have instead of `key`: it is to say when it has.
    pub(super) fn await_move(&mut self, program: ProgramId, key: RingSetKey) {
        let token = self.next_token();
        self.moves.leaving.insert(key, Some(token));
        self.tell(program, ToProgram::Sync { token });
    }

    /// A program answered: what it was told before that token has taken effect.
    pub fn confirmed(&mut self, program: ProgramId, token: u64) {
        if let Some(program) = self.programs.get_mut(&program) {
            program.unconfirmed.retain(|_, awaited| *awaited > token);
        }
        for key in self.leaving_of(program) {
            if self.moves.leaving[&key].is_some_and(|awaited| awaited <= token) {
                self.has_moved(key);
            }
        }
    }

    /// A program came back with these ring sets. What it has left is retired, and what it is to leave it is told anew.
    pub(super) fn resume_moves(&mut self, program: ProgramId, attached: &BTreeSet<RingSetKey>) {
        for key in self.leaving_of(program) {
            if self.is_to_move(key, attached) {
                self.await_move(program, key);
            } else {
                self.has_moved(key);
            }
        }
        let ring_sets = self.sessions.ring_sets_of(program).map(|(key, _)| key);
        let waiting: Vec<RingSetKey> = ring_sets.filter(|key| self.moves.waiting.contains(key)).collect();
        for key in waiting {
            self.moves.waiting.remove(&key);
            self.replace(key);
        }
    }

    /// The ring set whose events the program is to record into `key` instead, while it has that.
    pub(super) fn predecessor(&self, program: ProgramId, key: RingSetKey) -> Option<RingSetKey> {
        let new = self.sessions.ring_set(key)?;
        let mut leaving = self.leaving_of(program).into_iter();
        leaving.find(|&old| {
            self.sessions
                .ring_set(old)
                .is_some_and(|old| self.is_same_place(old, new))
        })
    }

    /// The ring sets that a program is to leave.
    pub(super) fn leaving_of(&self, program: ProgramId) -> Vec<RingSetKey> {
        let ring_sets = self.sessions.ring_sets_of_process(program.pid);
        ring_sets
            .filter(|(key, ring_set)| ring_set.program == program && self.moves.is_leaving(*key))
            .map(|(key, _)| key)
            .collect()
    }

    /// A program with these ring sets has one that it is to leave, and not yet what it is to have instead.
    pub(super) fn is_to_move(&self, key: RingSetKey, attached: &BTreeSet<RingSetKey>) -> bool {
        let Some(old) = self.sessions.ring_set(key).filter(|_| self.moves.is_leaving(key)) else {
            return false;
        };
        let mut live = self.sessions.ring_sets_of(old.program);
        let new = live.find(|(_, new)| self.is_same_place(old, new));
        attached.contains(&key) && new.is_some_and(|(new, _)| !attached.contains(&new))
    }

    /// The program records no longer into the ring set.
    pub(super) fn has_moved(&mut self, key: RingSetKey) {
        self.moves.forget(key);
        self.tell_consumer(ToConsumer::RetireRingSet { key });
    }

    fn is_same_place(&self, old: &RingSet, new: &RingSet) -> bool {
        let latest = |ring_set: &RingSet| self.session(ring_set.session).latest(ring_set.channel);
        old.session == new.session && latest(old) == latest(new)
    }
}
