// SPDX-License-Identifier: MIT OR Apache-2.0
//! The control process in a simulation: the machine, the journal, the waits and the link to the consumer are real, and effects are carried
//! out by control/carrier.rs. Simulated are the sockets of programs, processes, and people. It can be killed between any two steps that
//! others see.

mod answers;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use self::answers::Then;
use super::contract::{Answer, CommandId, Contract};
use super::program::{Pipe, RING_COUNT};
use crate::consumer::tests::stepped::{ConsumerProcess, Fate};
use crate::control::carrier::{Belongings, Carrier, Rings};
use crate::control::daemon::WRITE_TIMEOUT;
use crate::control::journal::Journal;
use crate::control::waiting::{Outcome, Waiting};
use crate::link::{Clock, Domain, Link, RequestId, RingSetKey, SessionId, ToConsumer, ToControl};
use crate::message::{FromProgram, ToProgram};
use crate::session::{Change, Host, Machine, Pending, ProcessFacts, ProgramId, Sessions};
use crate::shares::Users;

const BOOT: &str = "simulated";

/// A control process.
pub(super) struct Pisted {
    pub(super) machine: Machine,
    journal: Journal,
    journal_path: PathBuf,
    /// What the journal says.
    written: Sessions,
    rings: BTreeMap<RingSetKey, Rings>,
    unanswered: BTreeMap<RequestId, ToConsumer>,
    waiting: Waiting<Then>,
    /// Sessions that the consumer has closed, with what it answered to whom.
    closed: Vec<(SessionId, Option<CommandId>, Outcome)>,
    link: Option<Link>,
    connections: BTreeMap<ProgramId, Pipe>,
    unnamed: Vec<(ProgramId, Pipe)>,
    /// The processes whose end it is told of.
    watched: BTreeSet<ProgramId>,
    confirmed: Vec<(ProgramId, u64)>,
    pub(super) answers: Vec<(CommandId, Answer)>,
    /// It is killed in the step after so many others that somebody sees.
    steps_left: Option<u32>,
    pub(super) is_killed: bool,
    /// How much of the changes comes into the journal when it is killed while it writes them.
    torn: f64,
    /// What it did.
    pub(super) log: Vec<String>,
    /// What it wrote to the journal.
    pub(super) changes: Vec<Change>,
    /// The ring sets that it made.
    made: BTreeSet<RingSetKey>,
}

impl Pisted {
    /// Starts a control process where another one may have been.
    pub(super) fn start(journal_path: &Path, epoch: u64) -> Pisted {
        let (journal, past) = Journal::open(journal_path, BOOT).expect("the journal's disk works");
        let host = Host {
            ring_count: RING_COUNT,
            clock: Clock::Monotonic,
            users: Users { own: 0 },
            ring_set_count_max: 1000,
            kernel_ring_bytes_max: 0,
        };
        Pisted {
            written: again(&past.sessions),
            machine: Machine::new(host, past.sessions, epoch),
            journal,
            journal_path: journal_path.into(),
            rings: BTreeMap::new(),
            unanswered: BTreeMap::new(),
            waiting: Waiting::default(),
            closed: Vec::new(),
            link: None,
            connections: BTreeMap::new(),
            unnamed: Vec::new(),
            watched: BTreeSet::new(),
            confirmed: Vec::new(),
            answers: Vec::new(),
            steps_left: None,
            is_killed: false,
            torn: 0.0,
            log: Vec::new(),
            changes: Vec::new(),
            made: BTreeSet::new(),
        }
    }

    /// Has it killed after so many steps that somebody sees.
    pub(super) fn kill_after(&mut self, steps: u32, torn: f64) {
        (self.steps_left, self.torn) = (Some(steps), torn);
    }

    /// Lets it live on.
    pub(super) fn spare(&mut self) {
        self.steps_left = None;
    }

    /// Takes over the sessions of the one before, and its consumer if that lives. The living programs are those of these ids.
    pub(super) fn begin(
        &mut self,
        link: Link,
        belongings: Option<Belongings>,
        living: &BTreeSet<ProgramId>,
        now: Instant,
    ) {
        self.link = Some(link);
        let mut belongings = belongings.unwrap_or_default();
        let has = self.take_over(&mut belongings, |pisted, ring_set| {
            let lives = living.contains(&ring_set.program);
            if lives {
                pisted.watched.insert(ring_set.program);
            }
            lives
        });
        self.describe_to_adopted(&belongings.sessions, &has);
        self.resume_rotations(now);
        for (session, requests) in self.machine.close_again() {
            let then = Then::Closed(session, None);
            self.waiting.add(Pending::default(), requests, WRITE_TIMEOUT, now, then);
        }
        self.carry_out_effects();
        for message in belongings.messages {
            self.hear(Domain::User, message);
        }
        self.carry_out_effects();
    }

    /// Asks a consumer that runs already what it has.
    pub(super) fn ask_adopted(link: &mut Link, consumer: &mut ConsumerProcess) -> Belongings {
        link.send(&ToConsumer::Adopt, None).expect("it lives");
        let mut belongings = Belongings::default();
        loop {
            match link.receive().expect("it lives") {
                None => assert_eq!(consumer.receive(100), Fate::Lives, "nothing is written for a message"),
                Some((ToControl::AdoptedSession { session, .. }, _)) => drop(belongings.sessions.insert(session)),
                Some((ToControl::AdoptedRingSet { key, .. }, Some(memory))) => {
                    belongings.ring_sets.insert(key, Arc::new(memory));
                }
                Some((ToControl::Adopted { described, .. }, _)) => {
                    belongings.is_described = described;
                    return belongings;
                }
                Some((other, _)) => belongings.messages.push(other),
            }
        }
    }

    /// A consumer was started.
    pub(super) fn replace_consumer(&mut self, link: Link) {
        self.link = Some(link);
        self.describe_to_new(Domain::User);
        self.carry_out_effects();
    }

    /// A program connects.
    pub(super) fn accept(&mut self, id: ProgramId, pipe: Pipe) {
        self.unnamed.push((id, pipe));
    }

    /// Takes messages of one program, of those that it is connected to. False when there is nothing to do.
    pub(super) fn serve_program(
        &mut self,
        which: usize,
        most: usize,
        contract: &Contract,
        living: &BTreeSet<ProgramId>,
    ) {
        let mut pipes: Vec<(ProgramId, Pipe)> = self.unnamed.clone();
        pipes.extend(self.connections.iter().map(|(&id, pipe)| (id, pipe.clone())));
        if pipes.is_empty() {
            return;
        }
        let (id, pipe) = pipes.swap_remove(which % pipes.len());
        for _ in 0..most {
            let next = pipe.borrow_mut().to_pisted.pop_front();
            let Some(message) = next else {
                if !pipe.borrow().has_program {
                    self.disconnected(id, &pipe, living);
                }
                break;
            };
            self.log.push(format!("from {}: {message:?}", id.pid));
            self.take(id, &pipe, message, contract, living);
            self.carry_out_effects();
            if self.is_killed {
                return;
            }
        }
    }

    fn take(
        &mut self,
        id: ProgramId,
        pipe: &Pipe,
        message: FromProgram,
        contract: &Contract,
        living: &BTreeSet<ProgramId>,
    ) {
        match message {
            FromProgram::Hello(hello) => {
                self.unnamed.retain(|(_, unnamed)| !std::rc::Rc::ptr_eq(unnamed, pipe));
                if self.connections.insert(id, pipe.clone()).is_some() {
                    self.machine.disconnected(id);
                }
                let lives = living.contains(&id);
                if lives {
                    self.watched.insert(id);
                }
                let facts = ProcessFacts {
                    start: 1,
                    ..ProcessFacts::default()
                };
                self.machine.hello(id, facts, hello);
                if !lives {
                    self.machine.ended_before(id);
                }
            }
            FromProgram::Events { module, block, bytes } => self.machine.events(id, module, block, bytes),
            FromProgram::Sync { token } => {
                pipe.borrow_mut().synced_at.push_back(contract.versions());
                self.machine.sync(id, token);
            }
            FromProgram::Synced { token } => self.confirmed.push((id, token)),
            FromProgram::ModuleGone { module } => self.machine.module_gone(id, module),
            other => panic!("simulated programs do not say {other:?}"),
        }
    }

    /// All that a program said is taken, and it has closed its connection, or is dead.
    fn disconnected(&mut self, id: ProgramId, pipe: &Pipe, living: &BTreeSet<ProgramId>) {
        self.unnamed.retain(|(_, unnamed)| !std::rc::Rc::ptr_eq(unnamed, pipe));
        if self
            .connections
            .get(&id)
            .is_some_and(|known| std::rc::Rc::ptr_eq(known, pipe))
        {
            self.connections.remove(&id);
            self.machine.disconnected(id);
            if !living.contains(&id) {
                self.watched.remove(&id);
                self.machine.dead(id);
            }
        }
        self.carry_out_effects();
    }

    /// Is told of the end of processes that it has no connection of any more.
    pub(super) fn look_at_processes(&mut self, living: &BTreeSet<ProgramId>) {
        let connections = &self.connections;
        let is_dead = |id: &ProgramId| !living.contains(id) && !connections.contains_key(id);
        let dead: Vec<ProgramId> = self.watched.iter().copied().filter(is_dead).collect();
        for id in dead {
            self.watched.remove(&id);
            self.machine.dead(id);
            self.carry_out_effects();
        }
    }

    /// Takes messages of the consumer. False when that is dead.
    pub(super) fn serve_consumer(&mut self, most: usize) -> bool {
        for _ in 0..most {
            let Some(link) = &mut self.link else { return false };
            match link.flush().and_then(|()| link.receive()) {
                Ok(None) => return true,
                Ok(Some((message, _))) => {
                    self.log.push(format!("consumer says: {message:?}"));
                    self.hear(Domain::User, message);
                    self.carry_out_effects();
                }
                Err(error) if error.kind() == ErrorKind::InvalidData => panic!("the consumer says nonsense"),
                Err(_) => self.link = None,
            }
            if self.is_killed {
                return true;
            }
        }
        true
    }

    /// Whether it has nothing to do with any program.
    pub(super) fn has_programs(&self) -> bool {
        !self.connections.is_empty() || !self.unnamed.is_empty() || !self.watched.is_empty()
    }

    /// Checks that nothing is left of all sessions and programs.
    pub(super) fn check_end(&self) {
        let summary = self.machine.sessions().summary();
        assert_eq!(summary.len(), 1, "nothing is left of any session: {summary:?}");
        assert!(self.rings.is_empty(), "memory is kept of {:?}", self.rings.keys());
        assert!(self.unanswered.is_empty(), "{:?} has no answer", self.unanswered);
        assert_eq!(self.waiting.deadline(), None);
    }

    /// It is dead. Checks that another pisted will know what this one knew.
    pub(super) fn bury(&self) {
        for pipe in self
            .connections
            .values()
            .chain(self.unnamed.iter().map(|(_, pipe)| pipe))
        {
            let mut connection = pipe.borrow_mut();
            connection.has_pisted = false;
            connection.to_pisted.clear();
        }
        self.check_journal();
    }

    /// Checks that the journal leads to what was written there.
    pub(super) fn check_journal(&self) {
        let copy = self.journal_path.with_extension("copy");
        std::fs::copy(&self.journal_path, &copy).expect("the journal's disk works");
        let (_, past) = Journal::open(&copy, BOOT).expect("the journal's disk works");
        assert_eq!(past.sessions.summary(), self.written.summary());
        assert!(self.is_killed || self.written.summary() == self.machine.sessions().summary());
    }

    /// Whether it is dead before the next step that somebody sees.
    fn dies(&mut self) -> bool {
        if let Some(steps) = &mut self.steps_left
            && !self.is_killed
        {
            match steps.checked_sub(1) {
                Some(left) => *steps = left,
                None => {
                    self.log.push("pisted is killed".to_owned());
                    self.is_killed = true;
                }
            }
        }
        self.is_killed
    }

    fn note(&mut self, changes: &[Change]) {
        for change in changes {
            self.log.push(format!("record {change:?}"));
            self.written.apply(change.clone()).expect("it fits");
            self.changes.push(change.clone());
        }
    }

    /// It is killed while it writes to the journal: some changes are there, and a part of the next.
    fn tear(&mut self, changes: &[Change]) {
        let kept = (changes.len() as f64 * self.torn) as usize;
        let (whole, rest) = changes.split_at(kept);
        self.note(whole);
        let line = |change: &Change| serde_json::to_string(change).expect("changes are plain values");
        let mut text: String = whole.iter().map(|change| line(change) + "\n").collect();
        text += rest.first().map_or("", |_| "{\"session_crea");
        let file = OpenOptions::new().append(true).open(&self.journal_path);
        let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
        written.expect("the journal's disk works");
    }
}

impl Carrier for Pisted {
    fn machine(&mut self) -> &mut Machine {
        &mut self.machine
    }

    fn rings(&mut self) -> &mut BTreeMap<RingSetKey, Rings> {
        &mut self.rings
    }

    fn unanswered(&mut self, _: Domain) -> &mut BTreeMap<RequestId, ToConsumer> {
        &mut self.unanswered
    }

    fn write_down(&mut self, changes: &[Change]) {
        if self.is_killed {
            return;
        }
        if self.dies() {
            return self.tear(changes);
        }
        self.note(changes);
        self.journal.append(changes).expect("the journal's disk works");
    }

    fn send_to_program(&mut self, program: ProgramId, message: &ToProgram, memory: Option<Arc<OwnedFd>>) {
        if self.dies() {
            return;
        }
        self.log.push(format!("to {}: {message:?}", program.pid));
        let Some(pipe) = self.connections.get(&program) else {
            return;
        };
        pipe.borrow_mut().to_program.push_back((message.clone(), memory));
    }

    fn send_to_consumer(&mut self, _: Domain, message: &ToConsumer, memory: Option<Arc<OwnedFd>>) -> bool {
        if self.dies() {
            return false;
        }
        self.log.push(format!("to consumer: {message:?}"));
        let Some(link) = &mut self.link else { return false };
        if link.send(message, memory).is_err() {
            self.link = None;
        }
        self.link.is_some()
    }

    fn rings_made(&mut self, key: RingSetKey) {
        assert!(self.made.insert(key), "the rings of {key} are made twice");
    }

    fn rings_dropped(&mut self, key: RingSetKey) {
        self.made.remove(&key);
    }

    fn answered(&mut self, request: RequestId, outcome: Outcome) {
        self.waiting.done(request, outcome);
    }
}

/// The same once more.
fn again(sessions: &Sessions) -> Sessions {
    let mut again = Sessions::default();
    for change in sessions.summary() {
        again.apply(change).expect("a summary fits");
    }
    again
}
