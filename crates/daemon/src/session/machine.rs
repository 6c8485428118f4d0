// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of pisted, and what its decisions lead to. Methods for the three kinds of input are in commands.rs, programs.rs
//! and consumers.rs; each leaves its effects here, in order, for the daemon to carry out.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem;
use std::ops::Bound;

use super::catching_up::CatchUp;
use super::channel::ChannelSettings;
use super::filter_notes::FilterNotes;
use super::moves::Moves;
use super::participants::Participants;
use super::programs::Program;
use super::sessions::{Change, ProgramId, RingSetLife, Sessions};
use super::tracing_session::{Session, SessionState};
use super::triggers::Lately;
use crate::contexts::Contexts;
use crate::link::{Clock, Domain, Finding, Geometry, RequestId, RingSetKey, SessionId, ToConsumer};
use crate::message::ToProgram;
use crate::shares::{Holdings, Users};

/// Something to be done outside, in the order of the effects.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Append it to the journal, before anything that follows.
    Record(Change),
    /// Send a message; with `Channel` goes the memory.
    Tell {
        /// The program.
        program: ProgramId,
        /// The message.
        message: ToProgram,
    },
    /// Send a message to the consumer of a domain; with `AddRingSet` goes the memory.
    Consumer(Domain, ToConsumer),
    /// Make the memory of a ring set.
    MakeRings {
        /// Its key.
        key: RingSetKey,
        /// Shown in /proc.
        name: String,
        /// Its shape.
        geometry: Geometry,
        /// What its records carry.
        contexts: Contexts,
        /// Programs record into it as soon as they have it.
        recording: bool,
    },
    /// The memory is not needed any more here.
    DropRings {
        /// Its key.
        key: RingSetKey,
    },
}

/// What an answer has to wait for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pending {
    /// Programs that were told something, and the token that they answer with.
    pub programs: BTreeSet<ProgramId>,
    /// The token.
    pub token: u64,
    /// A consumer's answer.
    pub request: Option<RequestId>,
}

/// What the machine needs to know about the computer.
#[derive(Debug, Clone, Copy)]
pub struct Host {
    /// CPUs that there can be.
    pub ring_count: u32,
    /// The clock of the records.
    pub clock: Clock,
    /// Who may have how much.
    pub users: Users,
    /// Ring sets that there can be: each takes descriptors.
    pub ring_set_count_max: usize,
    /// Bytes that the rings of all kernel channels may have: the kernel locks them in memory.
    pub kernel_ring_bytes_max: usize,
}

/// The whole state of pisted.
#[derive(Debug)]
pub struct Machine {
    pub(super) host: Host,
    pub(super) sessions: Sessions,
    /// The connected ones.
    pub(super) programs: BTreeMap<ProgramId, Program>,
    /// Their events, by user.
    pub(super) registered_events: Holdings,
    /// Ring sets of programs that are dead, which the consumer empties.
    pub(super) orphans: BTreeSet<RingSetKey>,
    /// Sessions that the programs' consumer has closed, and that are still to end here.
    pub(super) closed: BTreeSet<SessionId>,
    /// Ring sets that their programs are to leave for others.
    pub(super) moves: Moves,
    /// News that programs have yet to hear of, in the order in which they are told.
    pub(super) catching_up: VecDeque<CatchUp>,
    /// What is known about a session beyond its state.
    notes: BTreeMap<SessionId, Notes>,
    effects: Vec<Effect>,
    /// Programs that were told something since the last `wait_for_told`.
    pub(super) told: BTreeSet<ProgramId>,
    last_token: u64,
    last_request: RequestId,
}

/// What is known about a session beyond its state. It is lost with pisted.
#[derive(Debug, Default)]
pub struct Notes {
    /// Who took part.
    pub participants: Participants,
    /// Programs that it left out while it recorded, for a while at least.
    pub left_out_count: u64,
    /// What became of its filters.
    pub filters: FilterNotes,
    /// Of a trigger: what it has done.
    pub lately: Lately,
    /// What people should know.
    pub findings: Findings,
}

/// Findings with their counts.
#[derive(Debug, Default)]
pub struct Findings(BTreeMap<String, u64>);

/// Different findings that are kept of one session or program; more are counted as one.
const FINDING_COUNT_MAX: usize = 64;

impl Findings {
    /// Counts a finding.
    pub fn add(&mut self, what: impl Into<String>) {
        self.add_many(what.into(), 1);
    }

    /// Counts a finding that was made so many times.
    pub fn add_many(&mut self, what: String, count: u64) {
        if self.0.len() < FINDING_COUNT_MAX || self.0.contains_key(&what) {
            *self.0.entry(what).or_default() += count;
        } else {
            *self.0.entry("further findings".into()).or_default() += count;
        }
    }

    /// All of them.
    pub fn list(&self) -> Vec<Finding> {
        self.0
            .iter()
            .map(|(what, &count)| Finding {
                what: what.clone(),
                count,
            })
            .collect()
    }
}

impl Machine {
    /// A machine that goes on where an earlier one's changes led to. Requests and tokens of this one start after `epoch`, so
    /// that late answers to an earlier pisted's fit nothing.
    pub fn new(host: Host, sessions: Sessions, epoch: u64) -> Machine {
        Machine {
            host,
            moves: Moves::of(&sessions),
            sessions,
            programs: BTreeMap::new(),
            registered_events: Holdings::default(),
            orphans: BTreeSet::new(),
            closed: BTreeSet::new(),
            catching_up: VecDeque::new(),
            notes: BTreeMap::new(),
            effects: Vec::new(),
            told: BTreeSet::new(),
            last_token: epoch,
            last_request: epoch,
        }
    }

    #[cfg(test)]
    pub(super) fn limit_ring_sets(&mut self, count: usize) {
        self.host.ring_set_count_max = count;
    }

    /// What is to be done, in order. The machine assumes that it is done.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        mem::take(&mut self.effects)
    }

    /// The computer.
    pub fn host(&self) -> Host {
        self.host
    }

    /// The sessions.
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// The connected programs.
    pub fn programs(&self) -> impl Iterator<Item = (ProgramId, &Program)> {
        self.programs_after(None)
    }

    /// Those of them that come after the given one, in the order of their ids.
    pub fn programs_after(&self, id: Option<ProgramId>) -> impl Iterator<Item = (ProgramId, &Program)> {
        let after = id.map_or(Bound::Unbounded, Bound::Excluded);
        let programs = self.programs.range((after, Bound::Unbounded));
        programs.map(|(&id, program)| (id, program))
    }

    /// What is known about a session beyond its state.
    pub fn notes(&self, session: SessionId) -> Option<&Notes> {
        self.notes.get(&session)
    }

    pub(super) fn notes_mut(&mut self, session: SessionId) -> &mut Notes {
        self.notes.entry(session).or_default()
    }

    pub(super) fn forget_notes(&mut self, session: SessionId) {
        self.notes.remove(&session);
    }

    /// Counts a finding of a session.
    pub fn add_finding(&mut self, session: SessionId, what: impl Into<String>) {
        if self.sessions.get(session).is_some() {
            self.notes_mut(session).findings.add(what);
        }
    }

    /// Counts a program that is not recorded in a session, or not all that it did, and says why: once, as long as it is connected.
    pub(super) fn not_recorded(&mut self, id: ProgramId, session: SessionId, why: &str) {
        if self.sessions.get(session).is_none() {
            return;
        }
        let mut name = "a program".to_owned();
        if let Some(program) = self.programs.get_mut(&id) {
            if !program.not_recorded_in.insert(session) {
                return;
            }
            program.findings.add(why);
            name.clone_from(&program.hello.name);
        }
        self.add_finding(session, format!("{name} (pid {}) is not recorded: {why}", id.pid));
        self.record(Change::ProgramsNotRecorded { session, count: 1 });
    }

    pub(super) fn record(&mut self, change: Change) {
        let applied = self.sessions.apply(change.clone());
        assert_eq!(applied, Ok(()), "the machine makes changes that fit");
        self.effects.push(Effect::Record(change));
    }

    pub(super) fn tell(&mut self, program: ProgramId, message: ToProgram) {
        if self.programs.contains_key(&program) {
            self.told.insert(program);
            self.effects.push(Effect::Tell { program, message });
        }
    }

    pub(super) fn tell_consumer(&mut self, message: ToConsumer) {
        self.effects.push(Effect::Consumer(Domain::User, message));
    }

    pub(super) fn tell_kernel_consumer(&mut self, message: ToConsumer) {
        self.effects.push(Effect::Consumer(Domain::Kernel, message));
    }

    /// A request that no consumer answers: for what control itself does.
    pub fn own_request(&mut self) -> RequestId {
        self.last_request += 1;
        self.last_request
    }

    pub(super) fn ask_consumer(&mut self, question: impl FnOnce(RequestId) -> ToConsumer) -> RequestId {
        let request = self.own_request();
        self.tell_consumer(question(request));
        request
    }

    pub(super) fn ask_kernel_consumer(&mut self, question: impl FnOnce(RequestId) -> ToConsumer) -> RequestId {
        let request = self.own_request();
        self.tell_kernel_consumer(question(request));
        request
    }

    pub(super) fn make_rings(&mut self, key: RingSetKey, name: String, settings: ChannelSettings, recording: bool) {
        self.effects.push(Effect::MakeRings {
            key,
            name,
            geometry: settings.geometry,
            contexts: settings.contexts,
            recording,
        });
    }

    pub(super) fn drop_rings(&mut self, key: RingSetKey) {
        self.effects.push(Effect::DropRings { key });
    }

    /// Asks the programs that were told something to confirm it.
    pub(super) fn wait_for_told(&mut self, request: Option<RequestId>) -> Pending {
        let token = self.next_token();
        let programs = mem::take(&mut self.told);
        for &program in &programs {
            self.effects.push(Effect::Tell {
                program,
                message: ToProgram::Sync { token },
            });
        }
        Pending {
            programs,
            token,
            request,
        }
    }

    /// These programs are to confirm news of a session.
    pub(super) fn await_news(&mut self, session: SessionId, pending: &Pending) {
        for id in &pending.programs {
            if let Some(program) = self.programs.get_mut(id) {
                program.unconfirmed.insert(session, pending.token);
            }
        }
    }

    /// A token that no program has answered with.
    pub(super) fn next_token(&mut self) -> u64 {
        self.last_token += 1;
        self.last_token
    }

    /// Whether a program was told something that it has not been asked to confirm.
    pub(super) fn is_told(&self, program: ProgramId) -> bool {
        self.told.contains(&program)
    }

    /// What was told so far needs no confirmation.
    pub(super) fn forget_told(&mut self) {
        self.told.clear();
    }

    /// Numbers of the sessions that nobody destroys yet, in the order of their creation.
    pub fn open_session_ids(&self) -> Vec<SessionId> {
        self.open_sessions().map(|(id, _)| id).collect()
    }

    /// Numbers of those that people can name.
    pub fn named_session_ids(&self) -> Vec<SessionId> {
        self.named_sessions().map(|(id, _)| id).collect()
    }

    /// Whether a ring set's program lives and writes to it.
    pub fn is_alive(&self, key: RingSetKey) -> bool {
        let ring_set = self.sessions.ring_set(key);
        ring_set.is_some_and(|ring_set| ring_set.life == RingSetLife::Live) && !self.orphans.contains(&key)
    }

    /// Sessions that people can name: those of triggers have no name of their own.
    pub(super) fn named_sessions(&self) -> impl Iterator<Item = (SessionId, &Session)> {
        self.open_sessions()
            .filter(|(_, session)| session.identity.trigger.is_none())
    }

    /// Sessions that nobody destroys yet.
    pub(super) fn open_sessions(&self) -> impl Iterator<Item = (SessionId, &Session)> {
        self.sessions
            .iter()
            .filter(|(_, session)| session.state != SessionState::Closing)
    }
}
