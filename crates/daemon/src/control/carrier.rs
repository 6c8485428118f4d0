// SPDX-License-Identifier: MIT OR Apache-2.0
//! Carries out what the machine decides, and brings to it what the programs' consumer says. The order of the steps is here; the sockets, the
//! files and the processes are the [`Carrier`]'s: those of the control process (daemon.rs, upkeep.rs), or of the simulation
//! (src/simulation).
//!
//! What is told to anybody is in the journal before: a pisted that takes over knows of everything that somebody may act on.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use piste_reason::reason;

use super::waiting::Outcome;
use crate::link::{Domain, RequestId, RingSetKey, SessionId, ToConsumer, ToControl};
use crate::message::ToProgram;
use crate::rings;
use crate::session::sessions::RingSet;
use crate::session::{Change, Effect, Machine, ProgramId};

/// The memory of a ring set.
pub(crate) struct Rings {
    pub(crate) memory: Arc<OwnedFd>,
    /// A consumer knows of it, or did when it died.
    announced: bool,
}

impl Rings {
    fn new(memory: OwnedFd) -> Rings {
        Rings {
            memory: Arc::new(memory),
            announced: false,
        }
    }

    /// Those of a consumer that runs already.
    fn adopted(memory: Arc<OwnedFd>) -> Rings {
        Rings {
            memory,
            announced: true,
        }
    }
}

/// What an earlier pisted's consumer of the programs has.
#[derive(Debug, Default)]
pub struct Belongings {
    /// Sessions.
    pub sessions: BTreeSet<SessionId>,
    /// The memory of ring sets.
    pub ring_sets: BTreeMap<RingSetKey, Arc<OwnedFd>>,
    /// It has been told of everything.
    pub is_described: bool,
    /// What it said meanwhile.
    pub messages: Vec<ToControl>,
}

/// Whoever has a machine, and can do what it decides.
pub(crate) trait Carrier {
    fn machine(&mut self) -> &mut Machine;

    /// The memory that is kept of ring sets.
    fn rings(&mut self) -> &mut BTreeMap<RingSetKey, Rings>;

    /// Requests without an answer, to be repeated to a new consumer.
    fn unanswered(&mut self, domain: Domain) -> &mut BTreeMap<RequestId, ToConsumer>;

    /// Writes changes to the journal. When this returns, they survive this process.
    fn write_down(&mut self, changes: &[Change]);

    /// Sends a message to a program, with the memory for `Channel`.
    fn send_to_program(&mut self, program: ProgramId, message: &ToProgram, memory: Option<Arc<OwnedFd>>);

    /// Sends a message to a consumer, with the memory for `AddRingSet`. False when it has none, or does not take it.
    fn send_to_consumer(&mut self, domain: Domain, message: &ToConsumer, memory: Option<Arc<OwnedFd>>) -> bool;

    /// There is the memory of a ring set.
    fn rings_made(&mut self, _: RingSetKey) {}

    /// The memory of a ring set is not kept any more.
    fn rings_dropped(&mut self, _: RingSetKey) {}

    /// A program is about to be given a ring set.
    fn prepare_program(&mut self, _: ProgramId, _: RingSetKey) {}

    /// A consumer is about to be sent this. False when it is not to be.
    fn prepare_consumer(&mut self, _: Domain, _: &mut ToConsumer) -> bool {
        true
    }

    /// A consumer has answered a request.
    fn answered(&mut self, request: RequestId, outcome: Outcome);

    /// A consumer said something that the machine need not know.
    fn hear_other(&mut self, _: Domain, _: ToControl) {}

    /// Does all that the machine has decided.
    fn carry_out_effects(&mut self) {
        loop {
            let effects = self.machine().take_effects();
            if effects.is_empty() {
                return;
            }
            let changes: Vec<Change> = effects.iter().filter_map(change).cloned().collect();
            if !changes.is_empty() {
                self.write_down(&changes);
            }
            for effect in effects {
                match effect {
                    Effect::Record(_) => {}
                    Effect::Tell { program, message } => self.tell(program, &message),
                    Effect::Consumer(domain, message) => self.tell_consumer(domain, message),
                    Effect::MakeRings {
                        key,
                        name,
                        geometry,
                        contexts,
                        recording,
                    } => {
                        let made = rings::make(&name, &geometry, &contexts, key, recording);
                        self.keep_rings(key, &name, made);
                    }
                    Effect::DropRings { key } => {
                        self.rings().remove(&key);
                        self.rings_dropped(key);
                    }
                }
            }
        }
    }

    fn keep_rings(&mut self, key: RingSetKey, name: &str, made: io::Result<OwnedFd>) {
        match made {
            Ok(memory) => {
                self.rings().insert(key, Rings::new(memory));
                self.rings_made(key);
            }
            Err(error) => {
                eprintln!("pisted: cannot allocate memory for {name}: {}", reason(&error));
                let why = format!("cannot allocate its rings: {}", reason(&error));
                self.machine().ring_set_failed(key, &why);
            }
        }
    }

    fn tell(&mut self, program: ProgramId, message: &ToProgram) {
        let memory = match message {
            ToProgram::Channel { key, .. } => match self.rings().get(key) {
                Some(rings) => {
                    let memory = rings.memory.clone();
                    self.prepare_program(program, *key);
                    Some(memory)
                }
                // It could not be made; the machine knows by now.
                None => return,
            },
            ToProgram::Enable { key, .. } | ToProgram::StateDump { key } if !self.rings().contains_key(key) => return,
            _ => None,
        };
        self.send_to_program(program, message, memory);
    }

    fn tell_consumer(&mut self, domain: Domain, mut message: ToConsumer) {
        if !self.prepare_consumer(domain, &mut message) {
            return;
        }
        if let Some(request) = message.request() {
            self.unanswered(domain).insert(request, message.clone());
        }
        let mut memory = None;
        if let ToConsumer::AddRingSet { key, inherited, .. } = &mut message {
            let Some(rings) = self.rings().get(key) else { return };
            memory = Some(rings.memory.clone());
            *inherited = rings.announced;
        }
        // A new consumer is told everything.
        if self.send_to_consumer(domain, &message, memory)
            && let ToConsumer::AddRingSet { key, .. } = message
            && let Some(rings) = self.rings().get_mut(&key)
        {
            rings.announced = true;
        }
    }

    /// What a consumer says.
    fn hear(&mut self, domain: Domain, message: ToControl) {
        match message {
            ToControl::Done { request, outcome } => {
                let question = self.unanswered(domain).remove(&request);
                match (question, &outcome) {
                    (Some(ToConsumer::Rotate { session, .. }), Ok(totals)) => {
                        self.machine().part_written(session, domain, totals.clone());
                    }
                    (Some(ToConsumer::CloseSession { session, .. }), Ok(_)) if domain == Domain::User => {
                        self.machine().closed_at_consumer(session);
                    }
                    _ => {}
                }
                self.answered(request, outcome);
            }
            ToControl::RingSetDone { key } => self.machine().ring_set_done(key),
            ToControl::RingSetRefused { key, why } => self.machine().ring_set_refused(key, &why),
            ToControl::RingRecovered { key } => self.machine().ring_recovered(key),
            ToControl::Finding { session, what } => self.machine().add_finding(session, what),
            other => self.hear_other(domain, other),
        }
    }

    /// Takes over what an earlier pisted's consumer has. Of the programs of which something is kept, `lives` says which are there.
    fn take_over(
        &mut self,
        belongings: &mut Belongings,
        mut lives: impl FnMut(&mut Self, &RingSet) -> bool,
    ) -> BTreeSet<RingSetKey>
    where
        Self: Sized,
    {
        let adopted = std::mem::take(&mut belongings.ring_sets).into_iter();
        *self.rings() = adopted.map(|(key, memory)| (key, Rings::adopted(memory))).collect();
        let has: BTreeSet<RingSetKey> = self.rings().keys().copied().collect();
        let ring_sets = self.machine().sessions().ring_sets();
        let known: Vec<(RingSetKey, RingSet)> = ring_sets.map(|(key, set)| (key, set.clone())).collect();
        for (key, ring_set) in known {
            let lives = lives(self, &ring_set);
            if !has.contains(&key) {
                let had_it = belongings.is_described && belongings.sessions.contains(&ring_set.session);
                self.machine().ring_set_missing(key, lives, had_it);
            } else if !lives {
                self.machine().dead(ring_set.program);
            }
        }
        has
    }

    /// Brings the programs' consumer that was taken over to what this pisted knows.
    fn describe_to_adopted(&mut self, sessions: &BTreeSet<SessionId>, has: &BTreeSet<RingSetKey>) {
        // The messages of `dead` are among those of `everything` as well; the consumer takes both.
        self.machine().everything(has);
        self.machine().close_unknown(sessions, has);
    }

    /// Tells a new consumer everything, and asks again what had no answer.
    fn describe_to_new(&mut self, domain: Domain) {
        let unanswered = std::mem::take(self.unanswered(domain));
        match domain {
            Domain::User => self.machine().everything(&BTreeSet::new()),
            Domain::Kernel => self.machine().everything_of_kernel(),
        }
        self.carry_out_effects();
        for message in unanswered.into_values() {
            self.tell_consumer(domain, message);
        }
    }
}

fn change(effect: &Effect) -> Option<&Change> {
    match effect {
        Effect::Record(change) => Some(change),
        _ => None,
    }
}
