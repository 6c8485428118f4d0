// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes of what a session is about, and what they mean for the programs that run: a program that is left out is offered nothing of the session.
//!
//! Whether a program is left out is decided when it registers and when the choice changes, and remembered: so what it was told always
//! belongs to one choice, also while others catch up with a new one (catching_up.rs).

use std::collections::BTreeSet;
use std::iter;

use super::catching_up::News;
use super::choice::Choice;
use super::machine::{Machine, Pending};
use super::offers::{Before, Blocks};
use super::process::{ANCESTOR_COUNT_MAX, Process, ProcessFacts};
use super::refusal::Refusal;
use super::sessions::{Change, ProgramId};
use crate::link::{Domain, RingSetKey, SessionId};
use crate::program_filter::Selection;

/// What is to become of the sets of a session.
#[derive(Debug, Clone)]
pub enum TrackingChange {
    /// They get these values too.
    Track(Choice),
    /// They lose these.
    Untrack(Choice),
    /// There are none any more.
    Everything,
}

impl Machine {
    /// Changes what a session is about in a domain. What to wait for: programs that run, or the kernel consumer.
    ///
    /// # Errors
    /// A value cannot be, or there are too many; or one is to be removed that is not there. Nothing is changed then.
    pub fn change_tracked(
        &mut self,
        session: SessionId,
        domain: Domain,
        change: &TrackingChange,
    ) -> Result<Pending, Refusal> {
        let earlier = self.session(session).tracked(domain);
        let tracked = match change {
            TrackingChange::Track(more) => earlier.plus(domain, more)?,
            TrackingChange::Untrack(less) => earlier.minus(domain, less)?,
            TrackingChange::Everything => Choice::default(),
        };
        let is_changed = tracked != *earlier;
        if is_changed {
            self.record(Change::TrackedSet {
                session,
                domain,
                tracked,
            });
        }
        Ok(match domain {
            // Also without a change: programs may have yet to hear of an earlier one.
            Domain::User => self.announce(session, News::Tracked, None),
            Domain::Kernel => {
                if is_changed {
                    self.tell_tracked(session);
                }
                Pending {
                    request: self.confirm_at_kernel(session),
                    ..Pending::default()
                }
            }
        })
    }

    /// Whether a session is not about a program.
    pub fn is_left_out(&self, id: ProgramId, session: SessionId) -> bool {
        let program = self.programs.get(&id);
        program.is_some_and(|program| program.left_out_of.contains(&session))
    }

    /// The sessions that are not about a program that registers.
    pub(super) fn left_out_of(&self, id: ProgramId, facts: &ProcessFacts) -> BTreeSet<SessionId> {
        self.open_sessions()
            .filter(|(_, session)| !session.tracked.admits(facts, id.pid))
            .map(|(id, _)| id)
            .collect()
    }

    /// Decides anew whether a session is about a program, and says whether that is another answer than before.
    pub(super) fn decide_anew(&mut self, id: ProgramId, session: SessionId) -> bool {
        let (Some(state), Some(program)) = (self.sessions.get(session), self.programs.get_mut(&id)) else {
            return false;
        };
        match state.tracked.admits(&program.facts, id.pid) {
            true => program.left_out_of.remove(&session),
            false => program.left_out_of.insert(session),
        }
    }

    /// Tells a program what the session wants of these of its events, now that it is about the program, or is so no longer.
    pub(super) fn follow_choice(&mut self, id: ProgramId, session: SessionId, blocks: &Blocks) {
        let is_left_out = self.is_left_out(id, session);
        if self.is_active(session) {
            self.take_part(id, session);
        }
        if is_left_out {
            self.forget_dumps(id, session);
        } else {
            self.check_complete(id, session);
            self.note_unmatched(id, session, blocks);
        }
        for channel in self.channels_of(session) {
            if self.is_active(session) || self.ring_set_of(id, session, channel).is_some() {
                self.offer(id, session, channel, blocks, |_| match is_left_out {
                    // Whatever the rules enabled until now.
                    true => Before::Anything,
                    false => Before::Is(Selection::Nothing),
                });
            }
        }
        self.dump_state(id);
    }

    /// What a program loads while it is left out is missing in its rings, so it describes itself again when it comes back.
    fn forget_dumps(&mut self, id: ProgramId, session: SessionId) {
        let ring_sets = self.sessions.ring_sets_of(id);
        let keys: Vec<RingSetKey> = ring_sets
            .filter(|(_, ring_set)| ring_set.session == session)
            .map(|(key, _)| key)
            .collect();
        if let Some(program) = self.programs.get_mut(&id) {
            for key in keys {
                program.dumped.remove(&key);
                program.undumped.remove(&key);
            }
        }
    }

    /// Adds to the ancestors that /proc has of a process what is known of them, and of the process, from earlier: /proc has no parents of
    /// those whose parent ended.
    pub(super) fn add_known_ancestors(&self, id: ProgramId, facts: &mut ProcessFacts) {
        let own = Process {
            pid: id.pid,
            start: facts.start,
        };
        let mut seen: BTreeSet<Process> = facts.ancestors.iter().copied().chain([own]).collect();
        let mut earlier = Vec::new();
        for process in iter::once(own).chain(facts.ancestors.iter().copied()) {
            earlier.extend(self.ancestors_of(process).filter(|ancestor| seen.insert(*ancestor)));
        }
        facts.ancestors.extend(earlier);
        if facts.ancestors.len() > ANCESTOR_COUNT_MAX {
            // Those that matter are the last to go.
            let is_named = |process: &Process| self.open_sessions().any(|(_, session)| session.tracked.names(process));
            facts.ancestors.sort_by_cached_key(|process| !is_named(process));
            facts.ancestors.truncate(ANCESTOR_COUNT_MAX);
        }
    }

    /// Ancestors of a process that is, or was, a program.
    fn ancestors_of(&self, process: Process) -> impl Iterator<Item = Process> {
        let image = |instance_id| ProgramId {
            pid: process.pid,
            instance_id,
        };
        let connected = self.programs.range(image(0)..=image(u64::MAX));
        let connected = connected
            .filter(move |(_, program)| program.facts.start == process.start)
            .flat_map(|(_, program)| &program.facts.ancestors);
        let recorded = self.sessions.ring_sets_of_process(process.pid);
        let recorded = recorded
            .filter(move |(_, ring_set)| ring_set.program_start == process.start)
            .flat_map(|(_, ring_set)| &ring_set.ancestors);
        connected.chain(recorded).copied()
    }

    /// A session has ended.
    pub(super) fn forget_tracking(&mut self, session: SessionId) {
        for program in self.programs.values_mut() {
            program.left_out_of.remove(&session);
            program.was_left_out_of.remove(&session);
        }
    }
}
