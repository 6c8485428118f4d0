// SPDX-License-Identifier: MIT OR Apache-2.0
//! What programs are told: ring sets, enabled events, state dumps.
//!
//! A program gets a ring set of a channel when the session is active and some enabled rule of the channel matches some event
//! that the program has, unless the session is not about the program (tracking.rs). It keeps it while it lives, whether connected or not, until the
//! session ends.

use std::collections::BTreeSet;
use std::rc::Rc;

use piste_ctf::EventClass;

use super::channel::bytes_of;
use super::machine::Machine;
use super::programs::Program;
use super::rules::Rule;
use super::sessions::{Change, ProgramId, RingSet, RingSetLife};
use super::tracing_session::SessionState;
use crate::description::{EventBlock, EventDescription};
use crate::link::{RingSetKey, SessionId, ToConsumer};
use crate::message::{EnabledEvent, ToProgram};
use crate::program_filter::{self, Evaluator, Selection};

/// Classes that a channel can have: what all programs together can make it remember. One user's can have a share.
pub const CLASS_COUNT_MAX: usize = 65_536;
/// Bytes that a channel's classes can have, likewise.
pub const CLASS_BYTES_MAX: usize = 64 << 20;

/// The events with which a program describes what it has loaded where.
pub const STATE_DUMP_PROVIDER: &str = "lttng_ust_statedump:";

/// What is recorded of an event until rules change.
pub(super) enum Before {
    Is(Selection),
    /// Of a program that comes back, nobody knows.
    Anything,
}

/// What a program is to be told of its events; they are without their classes.
#[derive(Default)]
struct Differences {
    /// No longer wanted.
    gone: Vec<EnabledEvent>,
    /// Wanted, or wanted with another filter.
    wanted: Vec<EnabledEvent>,
    /// Why it cannot record some as the rules want it.
    refused: BTreeSet<String>,
}

/// Events of a program, by module.
pub(super) type Blocks = Vec<(u32, Rc<EventBlock>)>;

impl Machine {
    /// Gives a program what an active session wants of these of its events; when `is_late`, it may have got some of it since the start.
    pub(super) fn attach(&mut self, id: ProgramId, session: SessionId, blocks: &Blocks, is_late: bool) {
        self.take_part(id, session);
        if self.is_left_out(id, session) {
            return;
        }
        self.check_complete(id, session);
        self.note_unmatched(id, session, blocks);
        for channel in self.channels_of(session) {
            // A channel that the program has was kept up to date while the session was stopped.
            if is_late || self.ring_set_of(id, session, channel).is_none() {
                self.offer(id, session, channel, blocks, |_| Before::Is(Selection::Nothing));
            }
        }
        self.dump_state(id);
    }

    /// Tells a program how the channel's rules differ from the earlier ones for these of its events.
    pub(super) fn update(
        &mut self,
        id: ProgramId,
        session: SessionId,
        channel: u32,
        blocks: &Blocks,
        earlier: &[Rule],
    ) {
        if self.is_left_out(id, session) {
            return;
        }
        self.check_complete(id, session);
        if self.is_active(session) || self.ring_set_of(id, session, channel).is_some() {
            let evaluator = self.evaluator(id);
            self.offer(id, session, channel, blocks, |event| {
                Before::Is(selection(earlier, event, evaluator))
            });
            self.dump_state(id);
        }
    }

    /// Replaces a ring set that has a hole, or whose channel was replaced.
    pub(super) fn replace(&mut self, key: RingSetKey) {
        let Some(channel) = self.move_ring_set(key) else {
            return;
        };
        let Some(old) = self.sessions.ring_set(key).cloned() else {
            return;
        };
        let blocks = self.programs.get(&old.program).map(Program::blocks).unwrap_or_default();
        self.offer(old.program, old.session, channel, &blocks, |_| {
            Before::Is(Selection::Nothing)
        });
        self.await_move(old.program, key);
    }

    /// Gives a program a new ring set in the place of one that it has: it takes over the events, and the program keeps the memory of the old
    /// one, for calls that have begun, until the consumer has emptied it. A program that is not connected gets it when it comes back.
    /// The channel of the new one: then [`Machine::await_move`] follows.
    pub(super) fn move_ring_set(&mut self, key: RingSetKey) -> Option<u32> {
        let old = self.sessions.ring_set(key).cloned()?;
        if old.life != RingSetLife::Live || self.orphans.contains(&key) {
            return None;
        }
        if !self.programs.contains_key(&old.program) {
            self.moves.wait_for_program(key);
            return None;
        }
        // It has recorded into this one, so it has left the one before.
        if let Some(before) = self.predecessor(old.program, key) {
            self.has_moved(before);
        }
        let state = self.session(old.session);
        let (is_closing, channel) = (state.state == SessionState::Closing, state.latest(old.channel));
        self.record(Change::RingSetRetired { key });
        let new = if is_closing {
            None
        } else {
            self.make_ring_set(old.program, old.session, channel, Some(key))
        };
        let Some(new) = new else {
            self.tell_consumer(ToConsumer::RetireRingSet { key });
            return None;
        };
        // It described itself in the old one, unless it has yet to.
        if let Some(program) = self.programs.get_mut(&old.program) {
            match program.undumped.remove(&key) {
                true => program.undumped.insert(new),
                false => program.dumped.insert(new),
            };
        }
        Some(channel)
    }

    /// Enables in a channel what it wants of `blocks`, and disables what it does not want, as far as that was another thing `before`.
    pub(super) fn offer(
        &mut self,
        id: ProgramId,
        session: SessionId,
        channel: u32,
        blocks: &Blocks,
        before: impl Fn(&EventDescription) -> Before,
    ) {
        if !self.is_left_out(id, session) {
            self.note_fields(session, channel, blocks);
        }
        let Differences {
            gone,
            wanted: mut events,
            refused,
        } = self.differences(id, session, channel, blocks, before);
        for why in refused {
            self.not_recorded(id, session, &why);
        }
        if let Some(key) = self.ring_set_of(id, session, channel)
            && !gone.is_empty()
        {
            self.tell(id, ToProgram::Disable { key, events: gone });
        }
        if self.has_ended(id) && !events.is_empty() {
            return self.not_recorded(id, session, "it ended before pisted answered");
        }
        let has_state_dump = self.find_classes(id, session, channel, blocks, &mut events);
        if events.is_empty() {
            return;
        }
        let Some(key) = self
            .ring_set_of(id, session, channel)
            .or_else(|| self.make_ring_set(id, session, channel, None))
        else {
            return;
        };
        let Some(program) = self.programs.get_mut(&id) else {
            return;
        };
        if has_state_dump && !program.dumped.contains(&key) {
            program.undumped.insert(key);
        }
        if program.takes_part.insert(session, true) == Some(false) {
            let (name, path) = (program.hello.name.clone(), program.hello.path.clone());
            self.notes_mut(session).participants.match_later(&name, &path);
        }
        self.tell(id, ToProgram::Enable { key, events });
    }

    /// What is the same for all events of a program.
    fn evaluator(&self, id: ProgramId) -> Evaluator {
        let program = self.programs.get(&id);
        Evaluator {
            vpid: program.map_or(0, |program| program.hello.vpid),
            pid: id.pid,
            uid: program.map_or(0, |program| program.facts.uid),
        }
    }

    /// Remembers which fields of a channel's filters these events have.
    fn note_fields(&mut self, session: SessionId, channel: u32, blocks: &Blocks) {
        let rules = self.session(session).channels[channel as usize].effective_rules();
        if rules.iter().all(|rule| rule.filter.is_none()) {
            return;
        }
        let rules = rules.to_vec();
        let events = blocks.iter().flat_map(|(_, block)| block.events.iter());
        for event in events.filter(|event| !is_state_dump(event)) {
            for rule in rules.iter().filter(|rule| rule.matches(&event.name, event.level)) {
                self.notes_mut(session).filters.add(rule, event);
            }
        }
    }

    /// How what a channel wants of `blocks` differs from what was recorded `before`.
    fn differences(
        &self,
        id: ProgramId,
        session: SessionId,
        channel: u32,
        blocks: &Blocks,
        before: impl Fn(&EventDescription) -> Before,
    ) -> Differences {
        let mut differences = Differences::default();
        let channels = self.sessions.get(session).map_or(&[][..], |session| &session.channels);
        let Some(channel) = channels.get(channel as usize) else {
            return differences;
        };
        let evaluator = self.evaluator(id);
        let rules = match self.is_left_out(id, session) {
            true => &[][..],
            false => channel.effective_rules(),
        };
        for (module, block) in blocks {
            for event in block.events.iter() {
                let wanted = try_selection(rules, event, evaluator).unwrap_or_else(|why| {
                    differences.refused.insert(why);
                    Selection::Nothing
                });
                let before = before(event);
                if matches!(&before, Before::Is(before) if *before == wanted) {
                    continue;
                }
                let (list, filter) = match wanted {
                    Selection::Nothing => (&mut differences.gone, None),
                    Selection::All => (&mut differences.wanted, None),
                    Selection::Passing(filter) => (&mut differences.wanted, Some(filter)),
                };
                list.push(EnabledEvent {
                    module: *module,
                    index: event.index,
                    class: 0,
                    filter,
                });
            }
        }
        differences
    }

    /// Fills in the classes of selected events, making those that are missing. Drops what the channel has no room for. Says whether a
    /// state dump is among them.
    fn find_classes(
        &mut self,
        id: ProgramId,
        session: SessionId,
        channel: u32,
        blocks: &Blocks,
        events: &mut Vec<EnabledEvent>,
    ) -> bool {
        let Some(user) = self.programs.get(&id).map(|program| program.facts.uid) else {
            return false;
        };
        let mut selected = events.iter_mut().peekable();
        let (mut dropped, mut has_state_dump) = (false, false);
        let described = blocks
            .iter()
            .flat_map(|(module, block)| block.events.iter().map(move |event| (*module, event)));
        // They are in the order of the blocks.
        for (module, event) in described {
            let Some(enabled) = selected.next_if(|next| next.module == module && next.index == event.index) else {
                continue;
            };
            enabled.class = self.class_of(user, session, channel, event).unwrap_or_else(|| {
                dropped = true;
                NO_CLASS
            });
            has_state_dump |= event.name.starts_with(STATE_DUMP_PROVIDER);
        }
        if dropped {
            events.retain(|event| event.class != NO_CLASS);
            let users = self.host.users;
            let (count, bytes) = (users.share(user, CLASS_COUNT_MAX), users.share(user, CLASS_BYTES_MAX));
            let why = format!(
                "programs of user {user} have {count} different events, or {bytes} bytes of event descriptions, in a channel; more are not recorded"
            );
            self.not_recorded(id, session, &why);
        }
        has_state_dump
    }

    fn class_of(&mut self, user: u32, session: SessionId, channel: u32, event: &EventDescription) -> Option<u32> {
        let users = self.host.users;
        let classes = &self.sessions.get(session)?.channels[channel as usize];
        if let Some(id) = classes.class_of(&event.name, &event.fields) {
            return Some(id);
        }
        let bytes = bytes_of(&event.name, &event.fields);
        if !users.permit(&classes.class_counts, user, 1, CLASS_COUNT_MAX)
            || !users.permit(&classes.class_bytes, user, bytes, CLASS_BYTES_MAX)
        {
            return None;
        }
        let id = classes.classes.len() as u32;
        let class = EventClass {
            id,
            name: event.name.clone(),
            level: event.level,
            contexts: vec![],
            fields: event.fields.clone(),
        };
        self.record(Change::ClassAdded {
            session,
            channel,
            class: class.clone(),
            user,
        });
        self.tell_consumer(ToConsumer::AddClass {
            session,
            stream_id: channel,
            class,
        });
        Some(id)
    }

    fn make_ring_set(
        &mut self,
        id: ProgramId,
        session: SessionId,
        channel: u32,
        replaces: Option<RingSetKey>,
    ) -> Option<RingSetKey> {
        let Some(key) = self.sessions.next_key() else {
            self.add_finding(
                session,
                "there are no more ring set keys; end all sessions to start again",
            );
            return None;
        };
        let program = self.programs.get(&id)?;
        let (users, limit) = (self.host.users, self.host.ring_set_count_max);
        if !users.permit(self.sessions.holdings(), program.facts.uid, 1, limit) {
            let why = format!(
                "programs of user {} have the maximum number of ring sets for one user ({})",
                program.facts.uid,
                users.share(program.facts.uid, limit)
            );
            self.not_recorded(id, session, &why);
            return None;
        }
        let state = self.sessions.get(session)?;
        let settings = &state.channels[channel as usize].settings;
        let name = format!("piste:{}:{}", state.identity.name, settings.name);
        let settings = settings.clone();
        let recording = state.state == SessionState::Active;
        let ring_set = RingSet {
            session,
            channel,
            stream_instance_base: state.next_stream_instance(),
            program: id,
            program_start: program.facts.start,
            user: program.facts.uid,
            ancestors: program.facts.ancestors.clone(),
            vpid: program.hello.vpid,
            life: RingSetLife::Live,
        };
        let message = ring_set.announce(key);
        self.record(Change::RingSetAdded { key, ring_set });
        self.make_rings(key, name, settings, recording);
        self.tell_consumer(message);
        self.tell(id, ToProgram::Channel { key, replaces });
        Some(key)
    }

    /// Asks a registered program to describe itself in the ring sets that want it and have it not.
    pub(super) fn dump_state(&mut self, id: ProgramId) {
        let Some(program) = self.programs.get_mut(&id) else {
            return;
        };
        if !program.registered {
            return;
        }
        let keys = std::mem::take(&mut program.undumped);
        program.dumped.extend(&keys);
        for key in keys {
            self.tell(id, ToProgram::StateDump { key });
        }
    }

    /// Asks the programs of a session to describe themselves once more, where they did before.
    pub(super) fn dump_again(&mut self, session: SessionId) {
        let ring_sets = self
            .sessions
            .ring_sets()
            .filter(|(_, ring_set)| ring_set.session == session);
        let keys: BTreeSet<RingSetKey> = ring_sets.map(|(key, _)| key).collect();
        for id in self.programs_of(session) {
            if let Some(program) = self.programs.get_mut(&id) {
                let again = program.dumped.intersection(&keys).copied();
                program.undumped.extend(again);
            }
            self.dump_state(id);
        }
    }

    pub(super) fn ring_set_of(&self, id: ProgramId, session: SessionId, channel: u32) -> Option<RingSetKey> {
        let mut ring_sets = self.sessions.ring_sets_of(id);
        ring_sets
            .find(|(_, set)| set.session == session && set.channel == channel)
            .map(|(key, _)| key)
    }
}

/// No class has this id: a channel has at most `CLASS_COUNT_MAX`.
const NO_CLASS: u32 = u32::MAX;

/// What rules select of an event. A filter that a program cannot evaluate for it selects nothing.
fn selection(rules: &[Rule], event: &EventDescription, evaluator: Evaluator) -> Selection {
    try_selection(rules, event, evaluator).unwrap_or(Selection::Nothing)
}

fn try_selection(rules: &[Rule], event: &EventDescription, evaluator: Evaluator) -> Result<Selection, String> {
    let mut filters = Vec::new();
    for rule in rules.iter().filter(|rule| rule.matches(&event.name, event.level)) {
        match &rule.filter {
            Some(filter) if !is_state_dump(event) => filters.push(filter),
            _ => return Ok(Selection::All),
        }
    }
    program_filter::select(filters, event, evaluator)
        .map_err(|why| format!("it cannot use the filter of {}: {why}", event.name))
}

/// State dumps describe a program whatever is recorded of it, so no filter is for them.
fn is_state_dump(event: &EventDescription) -> bool {
    event.name.starts_with(STATE_DUMP_PROVIDER)
}

impl RingSet {
    /// The message with which the consumer learns of the ring set.
    pub(super) fn announce(&self, key: RingSetKey) -> ToConsumer {
        ToConsumer::AddRingSet {
            session: self.session,
            stream_id: self.channel,
            key,
            stream_instance_base: self.stream_instance_base,
            vpid: self.vpid,
            pid: self.program.pid,
            uid: self.user,
            bell: None,
            inherited: false,
        }
    }
}
