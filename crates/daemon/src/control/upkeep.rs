// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps the consumers: takes over those that an earlier pisted left, talks to them, and replaces them when they die.
//!
//! The programs' consumer is always there. The kernel consumer is started with the first kernel channel, and stays until pisted ends with
//! no session left.

use std::collections::BTreeMap;
use std::io;
use std::time::Instant;

use piste_reason::reason;

use super::boards::Bell;
use super::carrier::{Belongings, Carrier};
use super::consumer::{Consumer, Found};
use super::daemon::{Daemon, WRITE_TIMEOUT};
use super::host;
use super::poll::Watched;
use super::waiting::Ended;
use crate::link::{BellPlace, Domain, Failure, RequestId, RingSetKey, SessionId, ToConsumer, ToControl};
use crate::session::Pending;

/// What an earlier pisted left, of both domains.
#[derive(Debug)]
pub struct Adopted {
    /// The programs' consumer, and what it has.
    pub user: Found<(Consumer, Belongings)>,
    /// The kernel's, if there is one that accepts.
    pub kernel: io::Result<Found<Consumer>>,
}

impl Daemon {
    /// Takes over what an earlier pisted left: its consumers, its sessions, its programs. Before programs can connect.
    ///
    /// # Errors
    /// None can be started for the programs.
    pub fn begin(&mut self, adopted: Adopted) -> io::Result<()> {
        self.take_over_kernel(adopted.kernel);
        let mut belongings = match adopted.user {
            Found::Living((consumer, belongings)) => {
                self.take_consumer(Domain::User, consumer)?;
                belongings
            }
            gone => {
                self.keepers.of_mut(Domain::User).remains.extend(gone.remains());
                self.start_consumer(Domain::User)?;
                Belongings::default()
            }
        };
        let has = self.take_over(&mut belongings, |daemon, ring_set| {
            let same_process = host::process_start(ring_set.program.pid) == Some(ring_set.program_start);
            same_process && daemon.connections.watch(ring_set.program, &daemon.poll)
        });
        // The kernel first, as at each start.
        self.machine.everything_of_kernel();
        self.describe_to_adopted(&belongings.sessions, &has);
        self.resume_rotations();
        for (session, requests) in self.machine.close_again() {
            self.end_when_closed(session, requests);
        }
        for session in self.machine.open_session_ids() {
            self.watch_creator(session);
        }
        self.session_events
            .begin(self.machine.open_session_ids().into_iter().max());
        self.carry_out();
        for message in belongings.messages {
            self.hear(Domain::User, message);
        }
        self.carry_out();
        Ok(())
    }

    /// One that hangs in the kernel is no reason not to record programs.
    fn take_over_kernel(&mut self, found: io::Result<Found<Consumer>>) {
        let taken = match found {
            Ok(Found::Living(consumer)) => self.take_consumer(Domain::Kernel, consumer),
            Ok(gone) => {
                self.keepers.of_mut(Domain::Kernel).remains.extend(gone.remains());
                Ok(())
            }
            Err(error) => Err(error),
        };
        if let Err(error) = taken {
            eprintln!("pisted: cannot trace the kernel: {}", reason(&error));
            self.keepers.of_mut(Domain::Kernel).hindrance = Some(reason(&error));
        }
    }

    fn take_consumer(&mut self, domain: Domain, consumer: Consumer) -> io::Result<()> {
        self.poll.add(consumer.descriptor(), Watched::Consumer(domain))?;
        let keeper = self.keepers.of_mut(domain);
        keeper.is_wanted = true;
        keeper.consumer = Some(consumer);
        self.watch_consumer(domain);
        Ok(())
    }

    /// Has the loop told of a consumer's end. One that has just been started listens when it says the first thing.
    fn watch_consumer(&mut self, domain: Domain) {
        let consumer = &mut self.keepers.of_mut(domain).consumer;
        if let Some(listening) = consumer.as_mut().and_then(Consumer::watch)
            && let Err(error) = self.poll.add(listening, Watched::ConsumerEnd(domain))
        {
            eprintln!("pisted: cannot watch the {}: {}", name(domain), reason(&error));
        }
    }

    /// One that was killed while a disk hangs keeps its connection open.
    pub(super) fn look_at_consumer(&mut self, domain: Domain) {
        let has_ended = |daemon: &mut Daemon| {
            let consumer = &mut daemon.keepers.of_mut(domain).consumer;
            consumer.as_mut().is_some_and(Consumer::has_ended)
        };
        if has_ended(self) {
            // What it said before.
            self.serve_consumer(domain);
            self.lose_consumer(domain);
        }
    }

    fn end_when_closed(&mut self, session: SessionId, requests: Vec<RequestId>) {
        self.recording_ends(session);
        self.wait(
            Pending::default(),
            requests,
            WRITE_TIMEOUT,
            Box::new(move |daemon, ended: Ended| {
                if ended.outcomes.iter().any(Result::is_err) {
                    daemon.desk.clear_away(session);
                }
                daemon.after_rotations(vec![session], move |daemon| daemon.forget_session(session));
            }),
        );
    }

    /// Answers a request to a consumer that cannot be, and starts one that is needed for the first time.
    pub(super) fn prepare(&mut self, domain: Domain, message: &mut ToConsumer) -> bool {
        let keeper = self.keepers.of_mut(domain);
        if let (Some(request), Some(why)) = (message.request(), &keeper.hindrance) {
            let what = why.clone();
            self.waiting.done(request, Err(Failure::Other { what }));
            return false;
        }
        if !keeper.is_wanted {
            keeper.is_wanted = true;
            self.try_to_start(domain);
        }
        if let ToConsumer::AddRingSet { key, bell, .. } = message {
            *bell = self.tell_board(*key);
        }
        true
    }

    /// Tells the programs' consumer of the board that a ring set's bell is on, and says where that is.
    fn tell_board(&mut self, key: RingSetKey) -> Option<BellPlace> {
        let Bell { place, board } = self.boards.of(key)?.clone();
        let consumer = self.keepers.of_mut(Domain::User).consumer.as_mut()?;
        let message = ToConsumer::AddBoard { board: place.board };
        consumer.send(&message, Some(board)).is_ok().then_some(place)
    }

    pub(super) fn poll_consumers_for_writing(&mut self) {
        for domain in Domain::ALL {
            let keeper = self.keepers.of_mut(domain);
            let Some(consumer) = &keeper.consumer else { continue };
            let wants_write = consumer.wants_write();
            if wants_write != keeper.is_polled_for_writing {
                keeper.is_polled_for_writing = wants_write;
                self.poll
                    .set_writing(consumer.descriptor(), Watched::Consumer(domain), wants_write);
            }
        }
    }

    pub(super) fn serve_consumer(&mut self, domain: Domain) {
        while let Some(consumer) = &mut self.keepers.of_mut(domain).consumer {
            match consumer.flush().and_then(|()| consumer.receive()) {
                Ok(Some(message)) => self.hear(domain, message),
                Ok(None) => return,
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    eprintln!(
                        "pisted: the {} sent an invalid message: {}",
                        name(domain),
                        reason(&error)
                    );
                }
                Err(_) => self.lose_consumer(domain),
            }
        }
    }

    /// What a consumer says that is not the same of both domains.
    pub(super) fn hear_of_domain(&mut self, domain: Domain, message: ToControl) {
        match message {
            ToControl::Matched {
                session,
                matches,
                count,
                missed,
            } => self.matched(session, matches, count, missed),
            ToControl::AdoptedSession { session, started } if domain == Domain::Kernel => {
                self.machine.kernel_consumer_has(session, started);
            }
            ToControl::Adopted { .. } => self.watch_consumer(domain),
            _ => {}
        }
    }

    pub(super) fn lose_consumer(&mut self, domain: Domain) {
        let keeper = self.keepers.of_mut(domain);
        if let Some(consumer) = keeper.consumer.take() {
            eprintln!("pisted: the {} ended unexpectedly; starting a new one", name(domain));
            keeper.remains.extend(consumer.bury());
            keeper.note_death();
            // The programs' records are in memory that only this process keeps: it goes on trying. The kernel keeps its own.
            if domain == Domain::Kernel && keeper.dies_again_and_again() {
                // A rotation that was begun is for the next one to end.
                let is_rotation = |message: &ToConsumer| matches!(message, ToConsumer::Rotate { .. });
                let unanswered = std::mem::take(&mut keeper.unanswered).into_iter();
                let (rotations, in_vain) = unanswered.partition(|(_, message)| is_rotation(message));
                keeper.unanswered = rotations;
                let in_vain: BTreeMap<RequestId, ToConsumer> = in_vain;
                for request in in_vain.into_keys() {
                    let what = "the kernel consumer keeps ending unexpectedly; see pisted.log in the run folder".into();
                    self.waiting.done(request, Err(Failure::Other { what }));
                }
            }
        }
    }

    /// Looks at those that nobody watches, and starts the consumers whose time has come.
    pub(super) fn replace_consumers(&mut self) {
        for domain in Domain::ALL {
            let consumer = self.keepers.of(domain).consumer.as_ref();
            if consumer.and_then(Consumer::next_look).is_some() {
                self.look_at_consumer(domain);
            }
            let planned = self.keepers.of(domain).planned();
            if planned.is_some_and(|planned| Instant::now() >= planned) {
                self.replace_consumer(domain);
                self.carry_out();
            }
        }
    }

    /// Starts a new consumer, tells it everything, and asks again what had no answer.
    fn replace_consumer(&mut self, domain: Domain) {
        if !self.try_to_start(domain) {
            return;
        }
        let sessions = self.machine.sessions().iter();
        let concerned: Vec<SessionId> = sessions
            .filter(|(_, session)| domain == Domain::User || session.kernel.is_used())
            .map(|(session, _)| session)
            .collect();
        let finding = match domain {
            Domain::User => "the consumer ended unexpectedly and was replaced; the programs continued to record",
            Domain::Kernel => "the kernel consumer ended unexpectedly and was replaced; the kernel continued to record",
        };
        for session in concerned {
            self.machine.add_finding(session, finding);
        }
        self.describe_to_new(domain);
    }

    fn try_to_start(&mut self, domain: Domain) -> bool {
        let started = self.start_consumer(domain);
        if let Err(error) = &started {
            eprintln!(
                "pisted: cannot start a {}, trying again: {}",
                name(domain),
                reason(error)
            );
            self.keepers.of_mut(domain).put_off();
        }
        started.is_ok()
    }

    fn start_consumer(&mut self, domain: Domain) -> io::Result<()> {
        let keeper = self.keepers.of_mut(domain);
        keeper.begin();
        let consumer = Consumer::start(domain, &self.places, &keeper.predecessors())?;
        self.take_consumer(domain, consumer)
    }
}

fn name(domain: Domain) -> &'static str {
    match domain {
        Domain::User => "consumer",
        Domain::Kernel => "kernel consumer",
    }
}
