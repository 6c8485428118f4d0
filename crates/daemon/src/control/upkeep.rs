// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps a consumer: takes over the one that an earlier pisted left, talks to it, and replaces it when it dies.

use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, Instant};

use super::consumer::{Belongings, Consumer};
use super::daemon::{Daemon, WRITE_TIMEOUT};
use super::host;
use super::poll::Source;
use crate::link::{RequestId, RingSetKey, SessionId, ToConsumer, ToControl};
use crate::session::Pending;

/// A consumer that lives shorter than this died of something that its successor may die of too.
const LIFE_MIN: Duration = Duration::from_secs(1);
/// Those that died young in a row before there is a pause. Until then nobody else has the rings but this process.
const EARLY_DEATH_COUNT_MAX: u32 = 5;
/// Before the next one is started then.
const RESTART_PAUSE: Duration = Duration::from_millis(500);

impl Daemon {
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
            let same_process = host::process_start(ring_set.program.pid) == Some(ring_set.program_start);
            let lives = same_process && self.connections.watch(ring_set.program, &self.poll);
            if !has.contains(&key) {
                let consumer_lived = belongings.sessions.contains(&ring_set.session);
                self.machine.ring_set_missing(key, lives, consumer_lived);
            } else if !lives {
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

    pub(super) fn tell_consumer(&mut self, message: ToConsumer) {
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

    pub(super) fn poll_consumer_for_writing(&mut self) {
        let Some(consumer) = &self.consumer else { return };
        let wants_write = consumer.wants_write();
        if wants_write != self.consumer_polled_for_writing {
            self.consumer_polled_for_writing = wants_write;
            self.poll
                .set_writing(consumer.descriptor(), Source::Consumer, wants_write);
        }
    }

    pub(super) fn serve_consumer(&mut self) {
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
            let died_young = self.consumer_started.elapsed() < LIFE_MIN;
            self.early_death_count = if died_young { self.early_death_count + 1 } else { 0 };
            self.plan_consumer();
        }
    }

    fn plan_consumer(&mut self) {
        let in_a_row = self.early_death_count >= EARLY_DEATH_COUNT_MAX;
        let pause = if in_a_row { RESTART_PAUSE } else { Duration::ZERO };
        self.consumer_planned = Instant::now() + pause;
    }

    /// Starts a new consumer, tells it everything, and asks again what had no answer.
    pub(super) fn replace_consumer(&mut self) {
        if let Err(error) = self.start_consumer() {
            eprintln!("pisted: no consumer can be started, trying again: {error}");
            self.consumer_planned = Instant::now() + RESTART_PAUSE;
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
}
