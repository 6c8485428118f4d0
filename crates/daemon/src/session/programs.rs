// SPDX-License-Identifier: MIT OR Apache-2.0
//! What programs say: who they are, which events they have, that they are gone. What they are told for it is offers.rs.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use super::machine::{Findings, Machine};
use super::offers::{Before, Blocks, STATE_DUMP_PROVIDER};
use super::process::ProcessFacts;
use super::sessions::Change;
use super::sessions::ProgramId;
use super::tracing_session::{Session, SessionState};
use crate::description::{EventBlock, EventDescription};
use crate::link::{RingSetKey, SessionId, ToConsumer};
use crate::message::{Hello, ToProgram};
use crate::program_filter::Selection;

/// Modules that a program can have.
pub const MODULE_COUNT_MAX: usize = 4096;
/// Events that a program can have.
pub const EVENT_COUNT_MAX: usize = 65_536;
/// Events that all connected programs can have, of which one user's may have a share: when a session starts, or its rules change, each of
/// them is compared with each pattern (catching_up.rs).
pub const REGISTERED_EVENT_COUNT_MAX: usize = 4 << 20;
/// Bytes that the descriptions of a program's events can have.
pub const DESCRIPTION_BYTES_MAX: usize = 16 << 20;

/// A connected program.
#[derive(Debug)]
pub struct Program {
    /// What it said about itself.
    pub hello: Arc<Hello>,
    /// What the kernel says about it.
    pub facts: ProcessFacts,
    /// What people should know.
    pub findings: Findings,
    modules: BTreeMap<u32, Module>,
    event_count: usize,
    description_bytes: usize,
    /// All that it had when it started is known.
    pub(super) registered: bool,
    /// It comes back to a new pisted with events that are enabled already, perhaps some that should not be.
    pub(super) returned: bool,
    /// Ring sets with its state dump in them.
    pub(super) dumped: BTreeSet<RingSetKey>,
    /// Ring sets that wait for the end of its registration to get one.
    pub(super) undumped: BTreeSet<RingSetKey>,
    /// Its process ended before pisted saw it: it can be given nothing any more.
    has_ended: bool,
    /// Why pisted does not know all of its events.
    incomplete: Option<String>,
    /// Sessions in which it is not recorded, or not all of it.
    pub(super) not_recorded_in: BTreeSet<SessionId>,
    /// Sessions that it takes part in, and whether a rule matched one of its events.
    pub(super) takes_part: BTreeMap<SessionId, bool>,
    /// Sessions that are not about it: it records nothing there.
    pub(super) left_out_of: BTreeSet<SessionId>,
    /// Sessions that were not about it for a while at least, while they recorded.
    pub(super) was_left_out_of: BTreeSet<SessionId>,
    /// The last token of the news of each session that it has yet to confirm.
    pub(super) unconfirmed: BTreeMap<SessionId, u64>,
}

#[derive(Debug, Default)]
struct Module {
    blocks: Vec<Rc<EventBlock>>,
    description_bytes: usize,
}

impl Program {
    /// Its events.
    pub fn events(&self) -> impl Iterator<Item = &EventDescription> {
        self.modules
            .values()
            .flat_map(|module| &module.blocks)
            .flat_map(|block| block.events.iter())
    }

    /// Its events, as lists that outlive it.
    pub fn event_lists(&self) -> impl Iterator<Item = &Arc<[EventDescription]>> {
        let blocks = self.modules.values().flat_map(|module| &module.blocks);
        blocks.map(|block| &block.events)
    }

    pub(super) fn event_count(&self) -> usize {
        self.event_count
    }

    pub(super) fn blocks(&self) -> Blocks {
        let blocks = self.blocks_from((0, 0));
        blocks.map(|((module, _), block)| (module, block.clone())).collect()
    }

    /// Blocks of its events, from one on, each with its module and its number in it.
    pub(super) fn blocks_from(
        &self,
        (first, number): (u32, usize),
    ) -> impl Iterator<Item = ((u32, usize), &Rc<EventBlock>)> {
        self.modules.range(first..).flat_map(move |(&id, module)| {
            let skipped = if id == first { number } else { 0 };
            let blocks = module.blocks.iter().enumerate().skip(skipped);
            blocks.map(move |(number, block)| ((id, number), block))
        })
    }

    fn belongs_to(&self, session: &Session) -> bool {
        session.identity.record_id.is_none() || session.identity.record_id == self.hello.record_id
    }
}

impl Machine {
    /// A program registers, or comes back.
    pub fn hello(&mut self, id: ProgramId, mut facts: ProcessFacts, mut hello: Hello) {
        self.add_known_ancestors(id, &mut facts);
        self.bury_earlier_images(id, facts.uid, facts.start);
        self.forget_program(id);
        let attached: BTreeSet<RingSetKey> = hello.attached.drain(..).collect();
        hello.attached = Vec::new();
        let known: BTreeSet<RingSetKey> = self.sessions.ring_sets_of(id).map(|(key, _)| key).collect();
        let left_out_of = self.left_out_of(id, &facts);
        self.programs.insert(
            id,
            Program {
                hello: Arc::new(hello),
                facts,
                findings: Findings::default(),
                modules: BTreeMap::new(),
                event_count: 0,
                description_bytes: 0,
                registered: false,
                returned: !attached.is_empty(),
                dumped: known.intersection(&attached).copied().collect(),
                undumped: BTreeSet::new(),
                has_ended: false,
                incomplete: None,
                not_recorded_in: BTreeSet::new(),
                takes_part: BTreeMap::new(),
                left_out_of,
                was_left_out_of: BTreeSet::new(),
                unconfirmed: BTreeMap::new(),
            },
        );
        for &key in attached.difference(&known) {
            if !self.is_to_move(key, &attached) {
                self.tell(id, ToProgram::ChannelGone { key });
            }
        }
        for &key in known.difference(&attached) {
            let replaces = self.predecessor(id, key).filter(|old| attached.contains(old));
            self.tell(id, ToProgram::Channel { key, replaces });
        }
        self.resume_moves(id, &attached);
        for session in self.sessions_of(id) {
            if self.is_active(session) {
                self.take_part(id, session);
            }
        }
    }

    /// A process has one image at a time: what it was before, when that is not connected, is dead. The user of a connection may not be that
    /// of the process which has the number by now: such a program says nothing about others that started at the same time.
    fn bury_earlier_images(&mut self, id: ProgramId, uid: u32, start: u64) {
        let earlier: BTreeSet<ProgramId> = self
            .sessions
            .ring_sets_of_process(id.pid)
            .filter(|(key, _)| !self.orphans.contains(key))
            .filter(|(_, ring_set)| ring_set.program_start != start || ring_set.program != id && ring_set.user == uid)
            .map(|(_, ring_set)| ring_set.program)
            .filter(|program| !self.programs.contains_key(program))
            .collect();
        for program in earlier {
            self.dead(program);
        }
    }

    /// A program has these events.
    pub fn events(&mut self, id: ProgramId, module: u32, block: Rc<EventBlock>, bytes: usize) {
        // A library may have none that can be described.
        if block.events.is_empty() {
            return;
        }
        if let Some(why) = self.limit_of(id, module, block.events.len(), bytes) {
            return self.leave_out(id, &block, why);
        }
        let Some(program) = self.programs.get_mut(&id) else {
            return;
        };
        self.registered_events.add(program.facts.uid, block.events.len());
        program.event_count += block.events.len();
        program.description_bytes += bytes;
        let known = program.modules.entry(module).or_default();
        known.blocks.push(block.clone());
        known.description_bytes += bytes;

        let returned = program.returned;
        let before = |_: &EventDescription| match returned {
            true => Before::Anything,
            false => Before::Is(Selection::Nothing),
        };
        let blocks = vec![(module, block)];
        for session in self.sessions_of(id) {
            self.note_unmatched(id, session, &blocks);
            for channel in self.channels_of(session) {
                if self.is_active(session) || self.ring_set_of(id, session, channel).is_some() {
                    self.offer(id, session, channel, &blocks, before);
                }
            }
        }
        self.dump_state(id);
    }

    /// Why a program cannot have so many events more.
    fn limit_of(&self, id: ProgramId, module: u32, event_count: usize, bytes: usize) -> Option<String> {
        let program = self.programs.get(&id)?;
        let is_new = !program.modules.contains_key(&module);
        let module_count = program.modules.len() + usize::from(is_new);
        for (what, count, limit) in [
            ("modules", module_count, MODULE_COUNT_MAX),
            ("events", program.event_count + event_count, EVENT_COUNT_MAX),
            (
                "bytes of event descriptions",
                program.description_bytes + bytes,
                DESCRIPTION_BYTES_MAX,
            ),
        ] {
            if count > limit {
                return Some(format!("it has more than {limit} {what}; the rest is not recorded"));
            }
        }
        let (users, uid, limit) = (self.host.users, program.facts.uid, REGISTERED_EVENT_COUNT_MAX);
        let is_permitted = users.permit(&self.registered_events, uid, event_count, limit);
        (!is_permitted).then(|| {
            let share = users.share(uid, limit);
            format!("all programs can have {limit} events, and those of user {uid} {share}; the rest is not recorded")
        })
    }

    /// Events of a program are beyond a limit: it is incomplete where they are wanted.
    fn leave_out(&mut self, id: ProgramId, block: &EventBlock, why: String) {
        let Some(program) = self.programs.get_mut(&id) else {
            return;
        };
        program.findings.add(why.clone());
        program.incomplete = Some(why.clone());
        for session in self.sessions_of(id) {
            if self.is_left_out(id, session) {
                continue;
            }
            let channels = &self.session(session).channels;
            let is_wanted =
                |event: &EventDescription| channels.iter().any(|channel| channel.wants(&event.name, event.level));
            if self.is_active(session) && block.events.iter().any(is_wanted) {
                self.not_recorded(id, session, &why);
            }
        }
    }

    /// A session has other rules than before: nobody knows whether they match what was left out of a program.
    pub(super) fn check_complete(&mut self, id: ProgramId, session: SessionId) {
        let why = self.programs.get(&id).and_then(|program| program.incomplete.clone());
        if let Some(why) = why
            && self.records_programs(session)
        {
            self.not_recorded(id, session, &why);
        }
    }

    /// A program unloaded a library. It forgot what was enabled there by itself.
    pub fn module_gone(&mut self, id: ProgramId, module: u32) {
        let Some(program) = self.programs.get_mut(&id) else {
            return;
        };
        if let Some(module) = program.modules.remove(&module) {
            let event_count = module.blocks.iter().map(|block| block.events.len()).sum();
            self.registered_events.remove(program.facts.uid, event_count);
            program.event_count -= event_count;
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
        self.not_recorded(id, session, reason);
        // It stays the program's, so that it is not offered another one in vain.
    }

    /// A program that could not wait for pisted is heard after its end: what it would have recorded is missing.
    pub fn ended_before(&mut self, id: ProgramId) {
        if let Some(program) = self.programs.get_mut(&id) {
            program.has_ended = true;
        }
    }

    /// A program waited for an answer as long as it may, and went on: what it did until now is missing where it is recorded.
    pub fn late(&mut self, id: ProgramId) {
        let Some(program) = self.programs.get(&id) else { return };
        let matched = program.takes_part.iter().filter(|&(_, &matched)| matched);
        let sessions: Vec<SessionId> = matched.map(|(&session, _)| session).collect();
        for session in sessions {
            self.not_recorded(id, session, "pisted answered too late; its first events are missing");
        }
    }

    /// Programs could not register: nobody knows what they would have recorded, nor whether they are of those that a session is about.
    /// `why` is the same for all that could not for the same reason.
    pub fn not_registered(&mut self, why: &str, count: u64) {
        for session in self.open_session_ids() {
            if !self.records_programs(session) {
                continue;
            }
            let what = format!("a program could not register and may be missing: {why}");
            self.notes_mut(session).findings.add_many(what, count);
            self.record(Change::ProgramsNotRecorded { session, count });
        }
    }

    /// Whether it ended before pisted saw it.
    pub(super) fn has_ended(&self, id: ProgramId) -> bool {
        self.programs.get(&id).is_some_and(|program| program.has_ended)
    }

    /// The connection is gone. The program may live on, and come back.
    pub fn disconnected(&mut self, id: ProgramId) {
        self.forget_program(id);
    }

    fn forget_program(&mut self, id: ProgramId) {
        if let Some(program) = self.programs.remove(&id) {
            self.registered_events.remove(program.facts.uid, program.event_count);
        }
    }

    /// The process is gone, or runs another executable.
    pub fn dead(&mut self, id: ProgramId) {
        self.forget_program(id);
        let mut keys: Vec<RingSetKey> = self.sessions.ring_sets_of(id).map(|(key, _)| key).collect();
        keys.extend(self.leaving_of(id));
        for key in keys {
            self.moves.forget(key);
            if self.orphans.insert(key) {
                self.tell_consumer(ToConsumer::ProgramGone { key });
            }
        }
    }

    /// The name of a connected program.
    pub fn program_name(&self, id: ProgramId) -> Option<&str> {
        self.programs.get(&id).map(|program| &*program.hello.name)
    }

    /// A connection was closed because of what the program did, or others of its user; says so in the sessions that it took part in. What
    /// it loads from now on is missing there, and, if it was not done with its registration, nobody knows what else.
    pub fn misbehaved(&mut self, id: ProgramId, what: &str) {
        for session in self.sessions_of(id) {
            if !self.records_programs(session) || self.is_left_out(id, session) {
                continue;
            }
            let Some(program) = self.programs.get_mut(&id) else {
                return;
            };
            let told = format!("{} (pid {}) was disconnected: {what}", program.hello.name, id.pid);
            let may_be_missing = !program.registered || program.takes_part.get(&session) == Some(&true);
            let is_new = may_be_missing && program.not_recorded_in.insert(session);
            self.add_finding(session, told);
            if is_new {
                self.record(Change::ProgramsNotRecorded { session, count: 1 });
            }
        }
    }

    /// A session that records is about a program, or leaves it out.
    pub(super) fn take_part(&mut self, id: ProgramId, session: SessionId) {
        let Some(program) = self.programs.get_mut(&id) else {
            return;
        };
        if program.left_out_of.contains(&session) {
            if program.was_left_out_of.insert(session) {
                self.notes_mut(session).left_out_count += 1;
            }
        } else if let Entry::Vacant(first) = program.takes_part.entry(session) {
            first.insert(false);
            let (name, path) = (program.hello.name.clone(), program.hello.path.clone());
            self.notes_mut(session).participants.add(&name, &path, false);
        }
    }

    pub(super) fn note_unmatched(&mut self, id: ProgramId, session: SessionId, blocks: &Blocks) {
        let Some(state) = self.sessions.get(session) else {
            return;
        };
        if state.state != SessionState::Active || !self.programs.contains_key(&id) || self.is_left_out(id, session) {
            return;
        }
        let mut participants = std::mem::take(&mut self.notes_mut(session).participants);
        let channels = &self.session(session).channels;
        for event in blocks.iter().flat_map(|(_, block)| block.events.iter()) {
            if participants.has_enough_unmatched() {
                break;
            }
            let mut channels = channels.iter();
            let is_wanted = channels.any(|channel| channel.wants(&event.name, event.level));
            if !is_wanted && !event.name.starts_with(STATE_DUMP_PROVIDER) {
                participants.add_unmatched(&event.name);
            }
        }
        self.notes_mut(session).participants = participants;
    }

    /// Whether a session records.
    pub fn is_active(&self, session: SessionId) -> bool {
        self.sessions
            .get(session)
            .is_some_and(|session| session.state == SessionState::Active)
    }

    /// Whether a session records, and programs.
    fn records_programs(&self, session: SessionId) -> bool {
        self.is_active(session) && !self.channels_of(session).is_empty()
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

    pub(super) fn channels_of(&self, session: SessionId) -> std::ops::Range<u32> {
        0..self
            .sessions
            .get(session)
            .map_or(0, |session| session.channels.len() as u32)
    }
}
