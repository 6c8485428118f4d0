// SPDX-License-Identifier: MIT OR Apache-2.0
//! The control process: one thread that waits for programs, people, the consumer and time, hands what they say to the machine,
//! and carries out what the machine decides. All state is here; no lock guards it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use piste_control::Places;

use super::clock::TraceClock;
use super::connections::Connections;
use super::consumer::{Belongings, Consumer};
use super::inbox::{Answer, Clients, Command};
use super::journal::Journal;
use super::poll::{Poll, Source};
use super::waiting::{Ended, Waiting};
use crate::link::{ChannelTotals, RequestId, RingSetKey, SessionId, ToConsumer, ToControl};
use crate::message::ToProgram;
use crate::rings;
use crate::session::{Change, Effect, Machine, Pending, ProgramId, Refusal};

/// How long the consumer may take to write what is asked of it.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(600);
/// How long the consumer may take to say how much there is.
pub const REPORT_TIMEOUT: Duration = Duration::from_secs(5);
/// Between two starts of a consumer that dies at once.
const CONSUMER_RESTART_PAUSE: Duration = Duration::from_millis(200);

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
    /// The totals that the consumer stated last.
    pub totals: HashMap<SessionId, Vec<ChannelTotals>>,
    /// Set when it is time to end.
    pub ending: bool,
    poll: Poll,
    journal: Journal,
    connections: Connections,
    consumer: Option<Consumer>,
    consumer_started: Instant,
    consumer_polled_for_writing: bool,
    /// Requests without an answer, to be repeated to a new consumer.
    unanswered: BTreeMap<RequestId, ToConsumer>,
    rings: BTreeMap<RingSetKey, Arc<OwnedFd>>,
    waiting: Waiting<Then>,
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
            ending: false,
            poll: parts.poll,
            journal: parts.journal,
            connections: parts.connections,
            consumer: None,
            consumer_started: now - CONSUMER_RESTART_PAUSE,
            consumer_polled_for_writing: false,
            unanswered: BTreeMap::new(),
            rings: BTreeMap::new(),
            waiting: Waiting::default(),
            commands: parts.commands,
            clients: parts.clients,
            exit_when_idle: parts.exit_when_idle,
            busy_until: now,
        }
    }

    /// Takes over what an earlier pisted left: its consumer, its sessions, its programs. Before programs can connect.
    ///
    /// # Errors
    /// There is a consumer that does not answer, or none can be started.
    pub fn begin(&mut self, adopted: Option<(Consumer, Belongings)>) -> io::Result<()> {
        let belongings = match adopted {
            Some((consumer, belongings)) => {
                self.poll.add(consumer.descriptor(), Source::Consumer)?;
                self.consumer = Some(consumer);
                belongings
            }
            None => {
                self.start_consumer()?;
                Belongings::default()
            }
        };
        self.rings = belongings.ring_sets;
        let has: BTreeSet<RingSetKey> = self.rings.keys().copied().collect();
        let known: Vec<_> = self
            .machine
            .sessions()
            .ring_sets()
            .map(|(key, set)| (key, set.clone()))
            .collect();
        for (key, ring_set) in known {
            if !has.contains(&key) {
                self.machine
                    .ring_set_failed(key, "its memory was lost when pisted and its consumer both ended");
                continue;
            }
            let same_process = super::host::process_start(ring_set.program.pid) == Some(ring_set.program_start);
            if !same_process || !self.connections.watch(ring_set.program, &self.poll) {
                self.machine.dead(ring_set.program);
            }
        }
        // The messages of `dead` are among those of `everything` as well; the consumer takes both.
        self.machine.everything(&has);
        self.machine.close_unknown(&belongings.sessions, &has);
        for (session, request) in self.machine.close_again() {
            self.end_when_closed(session, request);
        }
        self.carry_out();
        for message in belongings.messages {
            self.hear(message);
        }
        self.carry_out();
        Ok(())
    }

    fn end_when_closed(&mut self, session: SessionId, request: RequestId) {
        self.wait(
            Pending::default(),
            [request],
            WRITE_TIMEOUT,
            Box::new(move |daemon, _| daemon.machine.session_ended(session)),
        );
    }

    /// Serves until it is time to end.
    ///
    /// # Errors
    /// Only for what is a bug here.
    pub fn run(&mut self) -> io::Result<()> {
        while !self.ending {
            let timeout = self
                .deadline()
                .map(|deadline| deadline.saturating_duration_since(Instant::now()));
            for source in self.poll.wait(timeout)? {
                match source {
                    Source::Listener => self.connections.accept(&self.poll, &mut self.machine),
                    Source::Commands => self.obey(),
                    Source::Consumer => self.serve_consumer(),
                    Source::Signal => self.ending = true,
                    Source::Connection(number) => self.connections.serve(number, &self.poll, &mut self.machine),
                    Source::Process(watch) => self.connections.process_ended(watch, &self.poll, &mut self.machine),
                }
                self.carry_out();
            }
            if self.consumer.is_none() && Instant::now() >= self.consumer_started + CONSUMER_RESTART_PAUSE {
                self.replace_consumer();
                self.carry_out();
            }
            self.end_waits();
            self.look_idle();
        }
        self.take_leave();
        Ok(())
    }

    fn deadline(&self) -> Option<Instant> {
        let restart = self
            .consumer
            .is_none()
            .then_some(self.consumer_started + CONSUMER_RESTART_PAUSE);
        let idle = self
            .exit_when_idle
            .filter(|_| !self.is_busy())
            .map(|pause| self.busy_until + pause);
        [self.waiting.deadline(), restart, idle].into_iter().flatten().min()
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
            self.ending = true;
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
            }
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
    fn carry_out(&mut self) {
        loop {
            let effects = self.machine.take_effects();
            if effects.is_empty() {
                break;
            }
            self.record(&effects);
            for effect in effects {
                match effect {
                    Effect::Record(_) => {}
                    Effect::Tell { program, message } => self.tell(program, &message),
                    Effect::Consumer(message) => self.tell_consumer(message),
                    Effect::MakeRings {
                        key,
                        name,
                        geometry,
                        recording,
                    } => match rings::make(&name, &geometry, key, recording) {
                        Ok(memory) => drop(self.rings.insert(key, Arc::new(memory))),
                        Err(error) => {
                            eprintln!("pisted: no memory for {name}: {error}");
                            self.machine
                                .ring_set_failed(key, &format!("its rings could not be made: {error}"));
                        }
                    },
                    Effect::DropRings { key } => drop(self.rings.remove(&key)),
                }
            }
        }
        self.poll_consumer_for_writing();
    }

    fn record(&mut self, effects: &[Effect]) {
        let changes: Vec<Change> = effects
            .iter()
            .filter_map(|effect| {
                if let Effect::Record(change) = effect {
                    Some(change.clone())
                } else {
                    None
                }
            })
            .collect();
        if changes.is_empty() {
            return;
        }
        let none_left = matches!(changes.last(), Some(Change::SessionEnded { .. })) && self.is_without_session();
        let written = match none_left || self.journal.is_long() {
            true => self.journal.begin_again(&self.machine.sessions().summary()),
            false => self.journal.append(&changes),
        };
        if let Err(error) = written {
            let what =
                format!("the journal cannot be written ({error}): a new pisted will not know all of the session");
            eprintln!("pisted: {what}");
            let sessions: Vec<SessionId> = self.machine.sessions().iter().map(|(session, _)| session).collect();
            sessions
                .into_iter()
                .for_each(|session| self.machine.add_finding(session, what.clone()));
        }
    }

    fn tell(&mut self, program: ProgramId, message: &ToProgram) {
        let memory = match message {
            ToProgram::Channel { key } => match self.rings.get(key) {
                Some(memory) => Some(memory.clone()),
                // It could not be made; the machine knows by now.
                None => return,
            },
            ToProgram::Enable { key, .. } | ToProgram::StateDump { key } if !self.rings.contains_key(key) => return,
            _ => None,
        };
        self.connections
            .tell(program, message, memory, &self.poll, &mut self.machine);
    }

    fn tell_consumer(&mut self, message: ToConsumer) {
        if let Some(request) = message.request() {
            self.unanswered.insert(request, message.clone());
        }
        let memory = match &message {
            ToConsumer::AddRingSet { key, .. } => match self.rings.get(key) {
                Some(memory) => Some(memory.clone()),
                None => return,
            },
            _ => None,
        };
        // A new consumer is told everything.
        let Some(consumer) = &mut self.consumer else { return };
        match consumer.send(&message, memory) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => eprintln!("pisted: {error}"),
            Err(_) => self.lose_consumer(),
        }
    }

    fn poll_consumer_for_writing(&mut self) {
        let Some(consumer) = &self.consumer else { return };
        let wants_write = consumer.wants_write();
        if wants_write != self.consumer_polled_for_writing {
            self.consumer_polled_for_writing = wants_write;
            self.poll
                .set_writing(consumer.descriptor(), Source::Consumer, wants_write);
        }
    }

    fn serve_consumer(&mut self) {
        while let Some(consumer) = &mut self.consumer {
            match consumer.flush().and_then(|()| consumer.receive()) {
                Ok(Some(message)) => self.hear(message),
                Ok(None) => return,
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    eprintln!("pisted: the consumer said something that makes no sense: {error}");
                }
                Err(_) => self.lose_consumer(),
            }
        }
    }

    fn hear(&mut self, message: ToControl) {
        match message {
            ToControl::Done { request, outcome } => {
                self.unanswered.remove(&request);
                self.waiting.done(request, outcome);
            }
            ToControl::RingSetDone { key } => self.machine.ring_set_done(key),
            ToControl::RingRecovered { key } => self.machine.ring_recovered(key),
            ToControl::Finding { session, what } => self.machine.add_finding(session, what),
            ToControl::AdoptedSession { .. } | ToControl::AdoptedRingSet { .. } | ToControl::Adopted { .. } => {}
        }
    }

    fn lose_consumer(&mut self) {
        if let Some(consumer) = self.consumer.take() {
            eprintln!("pisted: the consumer is gone; starting a new one");
            consumer.bury();
        }
    }

    /// Starts a new consumer, tells it everything, and asks again what had no answer.
    fn replace_consumer(&mut self) {
        if let Err(error) = self.start_consumer() {
            eprintln!("pisted: no consumer can be started, trying again: {error}");
            return;
        }
        let active: Vec<SessionId> = self.machine.sessions().iter().map(|(session, _)| session).collect();
        for session in active {
            self.machine.add_finding(
                session,
                "the consumer ended unexpectedly and was replaced; nothing was lost by it",
            );
        }
        let unanswered: Vec<ToConsumer> = std::mem::take(&mut self.unanswered).into_values().collect();
        self.machine.everything(&BTreeSet::new());
        self.carry_out();
        for message in unanswered {
            self.tell_consumer(message);
        }
    }

    fn start_consumer(&mut self) -> io::Result<()> {
        self.consumer_started = Instant::now();
        let consumer = Consumer::start(&self.places.consumer_socket())?;
        self.poll.add(consumer.descriptor(), Source::Consumer)?;
        self.consumer_polled_for_writing = false;
        self.consumer = Some(consumer);
        Ok(())
    }

    /// With no session left, the consumer ends too. Else it records on, and a new pisted will find both.
    fn take_leave(&mut self) {
        self.clients.wait_until_answered();
        if self.is_without_session()
            && let Some(consumer) = &mut self.consumer
        {
            // One that is gone needs not be told.
            let _ = consumer.send(&ToConsumer::Exit, None);
        }
        for socket in [self.places.app_socket(), self.places.control_socket()] {
            // A socket that stays behind refuses connections, as one that is missing does.
            let _ = std::fs::remove_file(socket);
        }
    }
}
