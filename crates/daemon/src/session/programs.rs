// SPDX-License-Identifier: MIT OR Apache-2.0
//! What programs say, and what they are told: registration, ring sets, enabled events.
//!
//! A program gets a ring set of a channel when the session is active and some enabled rule of the channel matches some event
//! that the program has. It keeps it while it lives, whether connected or not, until the session ends.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use piste_ctf::EventClass;

use super::machine::{Findings, Machine};
use super::rules::Rule;
use super::sessions::{Change, ProgramId, RingSet, RingSetLife, Session, SessionState};
use crate::description::{EventBlock, EventDescription};
use crate::link::{RingSetKey, SessionId, ToConsumer};
use crate::message::{EnabledEvent, Hello, ToProgram};

/// Modules that a program can have.
pub const MODULE_COUNT_MAX: usize = 4096;
/// Events that a program can have.
pub const EVENT_COUNT_MAX: usize = 65_536;
/// Bytes that the descriptions of a program's events can have.
pub const DESCRIPTION_BYTES_MAX: usize = 16 << 20;
/// Classes that a channel can have: what all programs together can make it remember.
pub const CLASS_COUNT_MAX: usize = 65_536;
/// Bytes that a channel's classes can have.
pub const CLASS_BYTES_MAX: usize = 64 << 20;

/// The events with which a program describes what it has loaded where.
pub const STATE_DUMP_PROVIDER: &str = "lttng_ust_statedump:";

/// A connected program.
#[derive(Debug)]
pub struct Program {
    /// What it said about itself.
    pub hello: Hello,
    /// Its user, from the kernel.
    pub uid: u32,
    /// What people should know.
    pub findings: Findings,
    start: u64,
    modules: BTreeMap<u32, Module>,
    event_count: usize,
    description_bytes: usize,
    /// All that it had when it started is known.
    registered: bool,
    /// It comes back to a new pisted with events that are enabled already, perhaps some that should not be.
    returned: bool,
    /// Ring sets with its state dump in them.
    dumped: BTreeSet<RingSetKey>,
    /// Ring sets that wait for the end of its registration to get one.
    undumped: BTreeSet<RingSetKey>,
    /// Sessions that it takes part in, and whether a rule matched one of its events.
    takes_part: BTreeMap<SessionId, bool>,
}

#[derive(Debug, Default)]
struct Module {
    blocks: Vec<Rc<EventBlock>>,
    description_bytes: usize,
}

/// Events of a program, by module.
type Blocks = Vec<(u32, Rc<EventBlock>)>;

impl Program {
    /// Its events.
    pub fn events(&self) -> impl Iterator<Item = &EventDescription> {
        self.modules
            .values()
            .flat_map(|module| &module.blocks)
            .flat_map(|block| &block.events)
    }

    fn blocks(&self) -> Blocks {
        let modules = self.modules.iter();
        modules
            .flat_map(|(&id, module)| module.blocks.iter().map(move |block| (id, block.clone())))
            .collect()
    }

    fn belongs_to(&self, session: &Session) -> bool {
        session.identity.record_id.is_none() || session.identity.record_id == self.hello.record_id
    }
}

impl Machine {
    /// A program registers, or comes back. `start` is when its process started.
    pub fn hello(&mut self, id: ProgramId, uid: u32, start: u64, mut hello: Hello) {
        self.bury_earlier_images(id, start);
        let attached: BTreeSet<RingSetKey> = hello.attached.drain(..).collect();
        hello.attached = Vec::new();
        let known: BTreeSet<RingSetKey> = self.sessions.ring_sets_of(id).map(|(key, _)| key).collect();
        self.programs.insert(
            id,
            Program {
                hello,
                uid,
                findings: Findings::default(),
                start,
                modules: BTreeMap::new(),
                event_count: 0,
                description_bytes: 0,
                registered: false,
                returned: !attached.is_empty(),
                dumped: known.intersection(&attached).copied().collect(),
                undumped: BTreeSet::new(),
                takes_part: BTreeMap::new(),
            },
        );
        for &key in attached.difference(&known) {
            self.tell(id, ToProgram::ChannelGone { key });
        }
        for &key in known.difference(&attached) {
            self.tell(id, ToProgram::Channel { key });
        }
        for session in self.sessions_of(id) {
            if self.is_active(session) {
                self.take_part(id, session);
            }
        }
    }

    /// A process has one image at a time: what it was before, when that is not connected, is dead.
    fn bury_earlier_images(&mut self, id: ProgramId, start: u64) {
        let earlier: BTreeSet<ProgramId> = self
            .sessions
            .ring_sets()
            .filter(|(key, ring_set)| ring_set.program.pid == id.pid && !self.orphans.contains(key))
            .filter(|(_, ring_set)| ring_set.program != id || ring_set.program_start != start)
            .map(|(_, ring_set)| ring_set.program)
            .filter(|program| !self.programs.contains_key(program))
            .collect();
        for program in earlier {
            self.dead(program);
        }
    }

    /// A program has these events.
    pub fn events(&mut self, id: ProgramId, module: u32, block: Rc<EventBlock>, bytes: usize) {
        let Some(program) = self.programs.get_mut(&id) else {
            return;
        };
        let event_count = program.event_count + block.events.len();
        let description_bytes = program.description_bytes + bytes;
        let module_count = program.modules.len() + usize::from(!program.modules.contains_key(&module));
        for (what, count, limit) in [
            ("modules", module_count, MODULE_COUNT_MAX),
            ("events", event_count, EVENT_COUNT_MAX),
            ("bytes of event descriptions", description_bytes, DESCRIPTION_BYTES_MAX),
        ] {
            if count > limit {
                program
                    .findings
                    .add(format!("it has more than {limit} {what}; the rest is not recorded"));
                return;
            }
        }
        program.event_count = event_count;
        program.description_bytes = description_bytes;
        let known = program.modules.entry(module).or_default();
        known.blocks.push(block.clone());
        known.description_bytes += bytes;

        let blocks = vec![(module, block)];
        for session in self.sessions_of(id) {
            self.note_unmatched(id, session, &blocks);
            for channel in self.channels_of(session) {
                if self.is_active(session) || self.ring_set_of(id, session, channel).is_some() {
                    self.offer(id, session, channel, &blocks, &[]);
                    self.withdraw_from_returned(id, session, channel, &blocks);
                }
            }
        }
        self.dump_state(id);
    }

    /// A program unloaded a library. It forgot what was enabled there by itself.
    pub fn module_gone(&mut self, id: ProgramId, module: u32) {
        let Some(program) = self.programs.get_mut(&id) else {
            return;
        };
        if let Some(module) = program.modules.remove(&module) {
            program.event_count -= module.blocks.iter().map(|block| block.events.len()).sum::<usize>();
            program.description_bytes -= module.description_bytes;
        }
    }

    /// A program wants to know when everything it sent has taken effect: now.
    pub fn sync(&mut self, id: ProgramId, token: u64) {
        if let Some(program) = self.programs.get_mut(&id) {
            program.registered = true;
            program.returned = false;
        }
        self.dump_state(id);
        self.tell(id, ToProgram::Synced { token });
    }

    /// A program could not attach a channel.
    pub fn refused(&mut self, id: ProgramId, key: RingSetKey, reason: &str) {
        let Some(ring_set) = self
            .sessions
            .ring_sets_of(id)
            .find(|&(known, _)| known == key)
            .map(|(_, set)| set)
        else {
            return;
        };
        let session = ring_set.session;
        let Some(program) = self.programs.get_mut(&id) else {
            return;
        };
        program.findings.add(reason);
        let what = format!("{} (pid {}) is not recorded: {reason}", program.hello.name, id.pid);
        self.add_finding(session, what);
        // It stays the program's, so that it is not offered another one in vain.
    }

    /// The connection is gone. The program may live on, and come back.
    pub fn disconnected(&mut self, id: ProgramId) {
        self.programs.remove(&id);
    }

    /// The process is gone, or runs another executable.
    pub fn dead(&mut self, id: ProgramId) {
        self.programs.remove(&id);
        let keys: Vec<RingSetKey> = self.sessions.ring_sets_of(id).map(|(key, _)| key).collect();
        for key in keys {
            if self.orphans.insert(key) {
                self.tell_consumer(ToConsumer::ProgramGone { key });
            }
        }
    }

    /// The name of a connected program.
    pub fn program_name(&self, id: ProgramId) -> Option<&str> {
        self.programs.get(&id).map(|program| &*program.hello.name)
    }

    /// A connection was closed because of what the program did; says so in the sessions that it took part in.
    pub fn misbehaved(&mut self, id: ProgramId, what: &str) {
        let Some(program) = self.programs.get(&id) else { return };
        let what = format!("{} (pid {}) was disconnected: {what}", program.hello.name, id.pid);
        for session in self.sessions_of(id) {
            if self.is_active(session) {
                self.add_finding(session, what.clone());
            }
        }
    }

    /// Gives a program what an active session wants of its events.
    pub(super) fn attach(&mut self, id: ProgramId, session: SessionId) {
        let Some(program) = self.programs.get(&id) else { return };
        let blocks = program.blocks();
        self.take_part(id, session);
        self.note_unmatched(id, session, &blocks);
        for channel in self.channels_of(session) {
            // A channel that the program has was kept up to date while the session was stopped.
            if self.ring_set_of(id, session, channel).is_none() {
                self.offer(id, session, channel, &blocks, &[]);
            }
        }
        self.dump_state(id);
    }

    /// Tells a program how the channel's rules differ from the earlier ones.
    pub(super) fn update(&mut self, id: ProgramId, session: SessionId, channel: u32, earlier: &[Rule]) {
        let Some(program) = self.programs.get(&id) else { return };
        let blocks = program.blocks();
        if let Some(key) = self.ring_set_of(id, session, channel) {
            let gone = self.select(session, channel, &blocks, |event, wanted| {
                !wanted && any_matches(earlier, event)
            });
            if !gone.is_empty() {
                self.tell(id, ToProgram::Disable { key, events: gone });
            }
        } else if !self.is_active(session) {
            return;
        }
        self.offer(id, session, channel, &blocks, earlier);
        self.dump_state(id);
    }

    /// Replaces a ring set that has a hole: the program gets a new one, the consumer empties the old one.
    pub(super) fn replace(&mut self, key: RingSetKey) {
        let Some(old) = self.sessions.ring_set(key).cloned() else {
            return;
        };
        if old.life != RingSetLife::Live || self.orphans.contains(&key) {
            return;
        }
        self.record(Change::RingSetRetired { key });
        self.tell(old.program, ToProgram::ChannelGone { key });
        if let Some(program) = self.programs.get(&old.program)
            && self
                .sessions
                .get(old.session)
                .is_some_and(|session| session.state != SessionState::Closing)
        {
            let blocks = program.blocks();
            self.offer(old.program, old.session, old.channel, &blocks, &[]);
            if let Some(new) = self.ring_set_of(old.program, old.session, old.channel)
                && let Some(program) = self.programs.get_mut(&old.program)
            {
                program.undumped.remove(&new);
                program.dumped.insert(new);
            }
        }
        self.tell_consumer(ToConsumer::RetireRingSet { key });
    }

    /// Enables in a channel what it wants of `blocks`, less what the `earlier` rules matched already.
    fn offer(&mut self, id: ProgramId, session: SessionId, channel: u32, blocks: &Blocks, earlier: &[Rule]) {
        let mut events = self.select(session, channel, blocks, |event, wanted| {
            wanted && !any_matches(earlier, event)
        });
        // A first ring set needs what was matched earlier as well.
        if !earlier.is_empty() && self.ring_set_of(id, session, channel).is_none() {
            events = self.select(session, channel, blocks, |_, wanted| wanted);
        }
        self.find_classes(session, channel, blocks, &mut events);
        if events.is_empty() {
            return;
        }
        let Some(key) = self
            .ring_set_of(id, session, channel)
            .or_else(|| self.make_ring_set(id, session, channel))
        else {
            return;
        };
        let Some(program) = self.programs.get_mut(&id) else {
            return;
        };
        if !program.dumped.contains(&key) && has_state_dump(blocks, &events) {
            program.undumped.insert(key);
        }
        if program.takes_part.insert(session, true) == Some(false) {
            let (name, path) = (program.hello.name.clone(), program.hello.path.clone());
            self.notes_mut(session).participants.match_later(&name, &path);
        }
        self.tell(id, ToProgram::Enable { key, events });
    }

    /// Disables, for a program that came back, what the channel does not want.
    fn withdraw_from_returned(&mut self, id: ProgramId, session: SessionId, channel: u32, blocks: &Blocks) {
        if self.programs.get(&id).is_some_and(|program| program.returned)
            && let Some(key) = self.ring_set_of(id, session, channel)
        {
            let events = self.select(session, channel, blocks, |_, wanted| !wanted);
            if !events.is_empty() {
                self.tell(id, ToProgram::Disable { key, events });
            }
        }
    }

    /// The events of `blocks` that `condition` holds for, given whether the channel wants them; without their classes.
    fn select(
        &self,
        session: SessionId,
        channel: u32,
        blocks: &Blocks,
        condition: impl Fn(&EventDescription, bool) -> bool,
    ) -> Vec<EnabledEvent> {
        let Some(channel) = self
            .sessions
            .get(session)
            .and_then(|session| session.channels.get(channel as usize))
        else {
            return Vec::new();
        };
        blocks
            .iter()
            .flat_map(|(module, block)| block.events.iter().map(move |event| (*module, event)))
            .filter(|(_, event)| condition(event, channel.wants(&event.name, event.level)))
            .map(|(module, event)| EnabledEvent {
                module,
                index: event.index,
                class: 0,
            })
            .collect()
    }

    /// Fills in the classes of selected events, making those that are missing. Drops what the channel has no room for.
    fn find_classes(&mut self, session: SessionId, channel: u32, blocks: &Blocks, events: &mut Vec<EnabledEvent>) {
        let mut selected = events.iter_mut().peekable();
        let mut dropped = false;
        let described = blocks
            .iter()
            .flat_map(|(module, block)| block.events.iter().map(move |event| (*module, event)));
        // `select` kept the order of the blocks.
        for (module, event) in described {
            let Some(enabled) = selected.next_if(|next| next.module == module && next.index == event.index) else {
                continue;
            };
            enabled.class = self.class_of(session, channel, event).unwrap_or_else(|| {
                dropped = true;
                NO_CLASS
            });
        }
        if dropped {
            events.retain(|event| event.class != NO_CLASS);
            self.add_finding(
                session,
                format!(
                    "a channel has {CLASS_COUNT_MAX} different events or {CLASS_BYTES_MAX} bytes of their descriptions, more are not recorded"
                ),
            );
        }
    }

    fn class_of(&mut self, session: SessionId, channel: u32, event: &EventDescription) -> Option<u32> {
        let classes = &self.sessions.get(session)?.channels[channel as usize];
        if let Some(id) = classes.class_of(&event.name, &event.fields) {
            return Some(id);
        }
        if classes.classes.len() >= CLASS_COUNT_MAX || classes.class_bytes >= CLASS_BYTES_MAX {
            return None;
        }
        let id = classes.classes.len() as u32;
        let class = EventClass {
            id,
            name: event.name.clone(),
            level: event.level,
            fields: event.fields.clone(),
        };
        self.record(Change::ClassAdded {
            session,
            channel,
            class: class.clone(),
        });
        self.tell_consumer(ToConsumer::AddClass {
            session,
            stream_id: channel,
            class,
        });
        Some(id)
    }

    fn make_ring_set(&mut self, id: ProgramId, session: SessionId, channel: u32) -> Option<RingSetKey> {
        let Some(key) = self.sessions.next_key() else {
            self.add_finding(
                session,
                "there are no more ring set keys; end all sessions to start anew",
            );
            return None;
        };
        let program = self.programs.get(&id)?;
        let state = self.sessions.get(session)?;
        let settings = &state.channels[channel as usize].settings;
        let name = format!("piste:{}:{}", state.identity.name, settings.name);
        let geometry = settings.geometry;
        let recording = state.state == SessionState::Active;
        let ring_set = RingSet {
            session,
            channel,
            stream_instance_base: state.next_stream_instance(),
            program: id,
            program_start: program.start,
            vpid: program.hello.vpid,
            indexed_by_cpu: program.hello.indexed_by_cpu,
            life: RingSetLife::Live,
        };
        let message = ring_set.announce(key);
        self.record(Change::RingSetAdded { key, ring_set });
        self.make_rings(key, name, geometry, recording);
        self.tell_consumer(message);
        self.tell(id, ToProgram::Channel { key });
        Some(key)
    }

    /// Asks a registered program to describe itself in the ring sets that want it and have it not.
    fn dump_state(&mut self, id: ProgramId) {
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

    fn take_part(&mut self, id: ProgramId, session: SessionId) {
        if let Some(program) = self.programs.get_mut(&id)
            && !program.takes_part.contains_key(&session)
        {
            program.takes_part.insert(session, false);
            let (name, path) = (program.hello.name.clone(), program.hello.path.clone());
            self.notes_mut(session).participants.add(&name, &path, false);
        }
    }

    fn note_unmatched(&mut self, id: ProgramId, session: SessionId, blocks: &Blocks) {
        let Some(state) = self.sessions.get(session) else {
            return;
        };
        if state.state != SessionState::Active || !self.programs.contains_key(&id) {
            return;
        }
        let events = blocks.iter().flat_map(|(_, block)| &block.events);
        let unmatched: Vec<&str> = events
            .filter(|event| {
                !state
                    .channels
                    .iter()
                    .any(|channel| channel.wants(&event.name, event.level))
            })
            .map(|event| &*event.name)
            .filter(|name| !name.starts_with(STATE_DUMP_PROVIDER))
            .collect();
        let notes = self.notes_mut(session);
        unmatched
            .into_iter()
            .for_each(|name| notes.participants.add_unmatched(name));
    }

    pub(super) fn is_active(&self, session: SessionId) -> bool {
        self.sessions
            .get(session)
            .is_some_and(|session| session.state == SessionState::Active)
    }

    /// The sessions that a program belongs to.
    fn sessions_of(&self, id: ProgramId) -> Vec<SessionId> {
        let Some(program) = self.programs.get(&id) else {
            return Vec::new();
        };
        self.open_sessions()
            .filter(|(_, session)| program.belongs_to(session))
            .map(|(id, _)| id)
            .collect()
    }

    /// The programs that belong to a session.
    pub(super) fn programs_of(&self, session: SessionId) -> Vec<ProgramId> {
        let Some(session) = self.sessions.get(session) else {
            return Vec::new();
        };
        self.programs
            .iter()
            .filter(|(_, program)| program.belongs_to(session))
            .map(|(&id, _)| id)
            .collect()
    }

    fn channels_of(&self, session: SessionId) -> std::ops::Range<u32> {
        0..self
            .sessions
            .get(session)
            .map_or(0, |session| session.channels.len() as u32)
    }

    fn ring_set_of(&self, id: ProgramId, session: SessionId, channel: u32) -> Option<RingSetKey> {
        let mut ring_sets = self.sessions.ring_sets_of(id);
        ring_sets
            .find(|(_, set)| set.session == session && set.channel == channel)
            .map(|(key, _)| key)
    }
}

/// No class has this id: a channel has at most `CLASS_COUNT_MAX`.
const NO_CLASS: u32 = u32::MAX;

fn any_matches(rules: &[Rule], event: &EventDescription) -> bool {
    rules.iter().any(|rule| rule.matches(&event.name, event.level))
}

fn has_state_dump(blocks: &Blocks, enabled: &[EnabledEvent]) -> bool {
    blocks.iter().any(|(module, block)| {
        let is_enabled =
            |event: &EventDescription| enabled.iter().any(|e| e.module == *module && e.index == event.index);
        block
            .events
            .iter()
            .any(|event| event.name.starts_with(STATE_DUMP_PROVIDER) && is_enabled(event))
    })
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
            indexed_by_cpu: self.indexed_by_cpu,
        }
    }
}
