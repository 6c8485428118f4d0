// SPDX-License-Identifier: MIT OR Apache-2.0
//! The control process: one thread that waits for programs, people, the consumers and time, hands what they say to the machine,
//! and carries out what the machine decides. All state is here; no lock guards it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use piste_control::Places;
use piste_reason::reason;

use super::boards::{Bell, Boards};
use super::carrier::{Carrier, Rings};
use super::clock::TraceClock;
use super::connections::Connections;
use super::files::Files;
use super::inbox::{Answer, Clients, Command, Inbox};
use super::journal::Journal;
use super::keeper::Keepers;
use super::kernel_desk::KernelDesk;
use super::poll::{Poll, Watched};
use super::rotation::AfterRotations;
use super::session_events::SessionEvents;
use super::triggers::{Acting, Listeners};
use super::waiting::{Ended, Outcome, Waiting};
use crate::link::{ChannelTotals, Domain, RequestId, RingSetKey, SessionId, ToConsumer, ToControl};
use crate::message::ToProgram;
use crate::session::{Change, Machine, Pending, ProgramId, Refusal};

/// How long the consumer may take to write what is asked of it.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(600);
/// How long the consumer may take to say how much there is.
pub const REPORT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long programs are served before people and consumers are looked after again.
const TURNS_TIME_MAX: Duration = Duration::from_millis(1);

/// What to do when a wait is over.
pub type Then = Box<dyn FnOnce(&mut Daemon, Ended)>;

/// The control process.
pub struct Daemon {
    /// Where everything is.
    pub places: Places,
    /// What is known and decided.
    pub machine: Machine,
    /// The clock of new traces.
    pub clock: TraceClock,
    /// When this pisted started.
    pub started: Instant,
    /// The totals that the consumers stated last.
    pub totals: HashMap<(SessionId, Domain), Vec<ChannelTotals>>,
    /// Why these are not of now.
    pub(super) outdated: HashMap<(SessionId, Domain), String>,
    /// Set when it is time to end.
    pub is_over: bool,
    /// Sessions that are being stopped or destroyed, and who waits until nothing more is written of them.
    pub(super) ending: BTreeMap<SessionId, Vec<RequestId>>,
    pub(super) poll: Poll,
    journal: Journal,
    pub(super) connections: Connections,
    pub(super) keepers: Keepers,
    pub(super) rings: BTreeMap<RingSetKey, Rings>,
    pub(super) boards: Boards,
    pub(super) waiting: Waiting<Then>,
    pub(super) desk: KernelDesk,
    pub(super) after_rotations: Vec<AfterRotations>,
    /// Sessions whose next chunk gets its folder: their rotation has not begun.
    pub(super) making_chunk: BTreeSet<SessionId>,
    /// The last number that a snapshot's folder got.
    pub(super) snapshot_numbers: HashMap<SessionId, u64>,
    /// The processes that sessions are bound to.
    pub(super) creators: BTreeMap<SessionId, OwnedFd>,
    pub(super) inbox: Inbox,
    pub(super) files: Files,
    pub(super) listeners: Listeners,
    pub(super) acting: Acting,
    pub(super) session_events: SessionEvents,
    commands: Receiver<Command>,
    clients: Clients,
    exit_when_idle: Option<Duration>,
    busy_until: Instant,
}

/// What a [`Daemon`] is made of.
#[allow(missing_docs, reason = "as in Daemon")]
pub struct Parts {
    pub places: Places,
    pub machine: Machine,
    pub clock: TraceClock,
    pub poll: Poll,
    pub journal: Journal,
    pub connections: Connections,
    pub commands: Receiver<Command>,
    pub clients: Clients,
    pub inbox: Inbox,
    pub files: Files,
    pub desk: KernelDesk,
    pub exit_when_idle: Option<Duration>,
}

impl Daemon {
    /// A daemon without a consumer, see [`Daemon::begin`].
    pub fn new(parts: Parts) -> Daemon {
        let now = Instant::now();
        Daemon {
            places: parts.places,
            machine: parts.machine,
            clock: parts.clock,
            started: now,
            totals: HashMap::new(),
            outdated: HashMap::new(),
            is_over: false,
            ending: BTreeMap::new(),
            poll: parts.poll,
            journal: parts.journal,
            connections: parts.connections,
            keepers: Keepers::default(),
            rings: BTreeMap::new(),
            boards: Boards::new(),
            waiting: Waiting::default(),
            desk: parts.desk,
            after_rotations: Vec::new(),
            making_chunk: BTreeSet::new(),
            snapshot_numbers: HashMap::new(),
            creators: BTreeMap::new(),
            inbox: parts.inbox,
            files: parts.files,
            listeners: Listeners::default(),
            acting: Acting::default(),
            session_events: SessionEvents::default(),
            commands: parts.commands,
            clients: parts.clients,
            exit_when_idle: parts.exit_when_idle,
            busy_until: now,
        }
    }

    /// Serves until it is time to end.
    ///
    /// # Errors
    /// Only for what is a bug here.
    pub fn run(&mut self) -> io::Result<()> {
        let served = self.serve();
        match served {
            Ok(()) => self.journal.close(),
            Err(_) => self.journal.fail(),
        }
        served.map(|()| self.take_leave())
    }

    fn serve(&mut self) -> io::Result<()> {
        while !self.is_over {
            let timeout = if self.connections.has_turns() || self.machine.is_behind() {
                Some(Duration::ZERO)
            } else {
                self.deadline()
                    .map(|deadline| deadline.saturating_duration_since(Instant::now()))
            };
            for source in self.poll.wait(timeout)? {
                match source {
                    Watched::Listener => self.connections.accept(&self.poll),
                    Watched::Commands => self.obey(),
                    Watched::Consumer(domain) => self.serve_consumer(domain),
                    Watched::ConsumerEnd(domain) => self.look_at_consumer(domain),
                    Watched::Signal => self.is_over = true,
                    Watched::Connection(number) => self.connections.is_ready(number),
                    Watched::Process(watch) => self.connections.process_ended(watch, &mut self.machine),
                    Watched::Creator(session) => self.creator_ended(session),
                }
                self.carry_out();
            }
            let end = Instant::now() + TURNS_TIME_MAX;
            while Instant::now() < end && self.connections.serve_next(&self.poll, &mut self.machine) {
                self.carry_out();
            }
            self.connections.tell_of_refused(&mut self.machine);
            for (program, token) in self.machine.catch_up() {
                // It has nothing to answer to.
                self.waiting.confirmed(program, token);
            }
            self.carry_out();
            self.replace_consumers();
            self.end_waits();
            self.look_at_sessions();
            self.look_idle();
            self.journal.look_at_time();
        }
        Ok(())
    }

    fn deadline(&self) -> Option<Instant> {
        let consumers = self.keepers.deadline();
        let idle = self
            .exit_when_idle
            .filter(|_| !self.is_busy())
            .map(|pause| self.busy_until + pause);
        let sessions = self.session_events.deadline();
        let all = [self.waiting.deadline(), consumers, idle, sessions];
        all.into_iter().flatten().min()
    }

    /// A command that left does not wake the loop: it looks again when it would end.
    fn is_busy(&self) -> bool {
        !self.is_without_session() || self.clients.count() > 0
    }

    fn is_without_session(&self) -> bool {
        self.machine.sessions().iter().next().is_none()
    }

    fn look_idle(&mut self) {
        let now = Instant::now();
        if self.is_busy() {
            self.busy_until = now;
        } else if let Some(pause) = self.exit_when_idle
            && now >= self.busy_until + pause
        {
            self.is_over = true;
        }
    }

    fn obey(&mut self) {
        self.clients.acknowledge();
        while let Ok(command) = self.commands.try_recv() {
            command(self);
            self.carry_out();
        }
    }

    /// Waits for programs and the consumer, then goes on.
    pub fn wait(
        &mut self,
        pending: Pending,
        requests: impl IntoIterator<Item = RequestId>,
        consumer_timeout: Duration,
        then: Then,
    ) {
        self.waiting
            .add(pending, requests, consumer_timeout, Instant::now(), then);
    }

    /// Answers, after what the answer is about has been carried out.
    pub fn reply<T>(&mut self, answer: Answer<T>, value: Result<T, Refusal>) {
        self.carry_out();
        answer.give(value);
    }

    fn end_waits(&mut self) {
        loop {
            for (program, token) in self.connections.take_confirmed() {
                self.waiting.confirmed(program, token);
                self.machine.confirmed(program, token);
            }
            self.carry_out();
            let machine = &self.machine;
            let ended = self
                .waiting
                .take_ended(Instant::now(), |program| machine.program_name(program).is_some());
            if ended.is_empty() {
                return;
            }
            for (ended, then) in ended {
                then(self, ended);
                self.carry_out();
            }
        }
    }

    /// Carries out what the machine decided.
    pub(super) fn carry_out(&mut self) {
        self.carry_out_effects();
        self.poll_consumers_for_writing();
    }

    /// Sends a message to the consumer of a domain.
    fn send(&mut self, domain: Domain, message: &ToConsumer, memory: Option<Arc<OwnedFd>>) -> bool {
        let Some(consumer) = &mut self.keepers.of_mut(domain).consumer else {
            return false;
        };
        match consumer.send(message, memory) {
            Ok(()) => return true,
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => eprintln!("pisted: {error}"),
            Err(_) => self.lose_consumer(domain),
        }
        false
    }

    /// With no session left, the consumers end too. Else they record on, and a new pisted will find them.
    fn take_leave(&mut self) {
        self.listeners.end();
        self.clients.wait_until_answered();
        for domain in Domain::ALL {
            if self.is_without_session()
                && let Some(consumer) = &mut self.keepers.of_mut(domain).consumer
            {
                // One that is gone needs not be told.
                let _ = consumer.send(&ToConsumer::Exit, None);
            }
        }
        for socket in [self.places.app_socket(), self.places.control_socket()] {
            // A socket that stays behind refuses connections, as one that is missing does.
            let _ = std::fs::remove_file(socket);
        }
    }
}

impl Carrier for Daemon {
    fn machine(&mut self) -> &mut Machine {
        &mut self.machine
    }

    fn rings(&mut self) -> &mut BTreeMap<RingSetKey, Rings> {
        &mut self.rings
    }

    fn unanswered(&mut self, domain: Domain) -> &mut BTreeMap<RequestId, ToConsumer> {
        &mut self.keepers.of_mut(domain).unanswered
    }

    fn write_down(&mut self, changes: &[Change]) {
        let none_left = matches!(changes.last(), Some(Change::SessionEnded { .. })) && self.is_without_session();
        let written = match none_left || self.journal.is_long() {
            true => self.journal.begin_again(&self.machine.sessions().summary()),
            false => self.journal.append(changes),
        };
        if let Err(error) = written {
            let what = format!(
                "cannot write the journal: {}; a restarted pisted will not know everything about the session",
                reason(&error)
            );
            eprintln!("pisted: {what}");
            let sessions: Vec<SessionId> = self.machine.sessions().iter().map(|(session, _)| session).collect();
            sessions
                .into_iter()
                .for_each(|session| self.machine.add_finding(session, what.clone()));
        }
    }

    fn send_to_program(&mut self, program: ProgramId, message: &ToProgram, memory: Option<Arc<OwnedFd>>) {
        self.connections
            .tell(program, message, memory, &self.poll, &mut self.machine);
    }

    fn send_to_consumer(&mut self, domain: Domain, message: &ToConsumer, memory: Option<Arc<OwnedFd>>) -> bool {
        self.send(domain, message, memory)
    }

    fn rings_made(&mut self, key: RingSetKey) {
        let user = self.machine.sessions().ring_set(key).map(|ring_set| ring_set.user);
        user.into_iter().for_each(|user| self.boards.give(key, user));
    }

    fn rings_dropped(&mut self, key: RingSetKey) {
        self.boards.take_back(key);
    }

    fn prepare_program(&mut self, program: ProgramId, key: RingSetKey) {
        if let Some(Bell { place, board }) = self.boards.of(key) {
            let (bell, board) = (ToProgram::Bell { index: place.index }, Some(board.clone()));
            self.send_to_program(program, &bell, board);
        }
    }

    fn prepare_consumer(&mut self, domain: Domain, message: &mut ToConsumer) -> bool {
        self.prepare(domain, message)
    }

    fn answered(&mut self, request: RequestId, outcome: Outcome) {
        self.waiting.done(request, outcome);
    }

    fn hear_other(&mut self, domain: Domain, message: ToControl) {
        self.hear_of_domain(domain, message);
    }
}
