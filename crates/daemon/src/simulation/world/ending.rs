// SPDX-License-Identifier: MIT OR Apache-2.0
//! The end of a simulation: everybody does everything until nothing is left, and the traces are checked.

use std::time::Duration;

use super::super::contract::{Command, SessionCommand};
use super::super::disk::{self, Mood};
use super::super::program::Program;
use super::super::traces::{self, Finished};
use super::World;
use crate::session::sessions::{RingSet, RingSetLife};

/// Rounds after which everything has ended: each takes a millisecond.
const LAST_ROUNDS_MAX: usize = 20_000;

impl World {
    /// Lets everything end well.
    pub(super) fn finish(&mut self) {
        self.set_mood(Mood::Works);
        disk::kill_after(None);
        if let Some(pisted) = &mut self.pisted {
            pisted.spare();
        }
        self.start_pisted();
        self.go_round(|world| !world.contract.has_questions() && world.is_tidy());
        for session in self.contract.open_sessions() {
            self.command(&Command::OfSession(session, SessionCommand::Flush));
        }
        self.go_round(|world| !world.contract.has_questions());
        for session in self.contract.open_sessions() {
            self.command(&Command::OfSession(session, SessionCommand::Destroy));
        }
        self.go_round(|world| {
            let pisted = world.pisted.as_ref().expect("it lives");
            let has_memory = world.programs.iter().any(Program::has_memory);
            !world.contract.has_questions() && pisted.machine.sessions().iter().next().is_none() && !has_memory
        });
        self.programs.iter_mut().for_each(Program::die);
        self.go_round(|world| !world.pisted.as_ref().expect("it lives").has_programs());
        self.pisted.as_ref().expect("it lives").check_end();
        assert!(
            self.consumer.as_ref().expect("it lives").is_idle(),
            "the consumer has nothing any more"
        );
        for (&session, promise) in &self.contract.sessions {
            let finished = Finished {
                session,
                output: &promise.output,
                totals: promise.totals.as_deref(),
                is_cut: self.cut.contains(&session),
                was_taken_over: self.figures.consumers_killed > 0,
            };
            traces::check(&finished, &self.truth, &mut self.log);
        }
        self.figures.records = self.truth.record_count();
        self.figures.failed_writes = disk::failures();
    }

    /// Whether no ring set is kept that no program records into any more.
    fn is_tidy(&self) -> bool {
        let sessions = self.pisted.as_ref().expect("it lives").machine.sessions();
        let living = self.living();
        let is_used = |ring_set: &RingSet| ring_set.life == RingSetLife::Live && living.contains(&ring_set.program);
        sessions.ring_sets().all(|(_, ring_set)| is_used(ring_set))
    }

    /// Lets everybody do everything, until it is over.
    fn go_round(&mut self, is_over: impl Fn(&World) -> bool) {
        for _ in 0..LAST_ROUNDS_MAX {
            self.pass(Duration::from_millis(1));
            for place in 0..self.programs.len() {
                if self.programs[place].is_alive {
                    if self.programs[place].pipe.is_none() {
                        self.connect(place);
                    }
                    self.programs[place].announce();
                    self.programs[place].go_on(&mut self.truth);
                    while self.programs[place].obey().is_some() {}
                }
            }
            let living = self.living();
            for which in 0..=self.programs.len() {
                if let Some(pisted) = &mut self.pisted {
                    pisted.serve_program(which, 100, &self.contract, &living);
                }
            }
            self.let_pisted_serve_consumer();
            if let Some(consumer) = &mut self.consumer {
                consumer.receive(100);
                for index in (0..consumer.session_count()).rev() {
                    consumer.look(index);
                }
            }
            self.settle();
            if is_over(self) {
                return;
            }
        }
        let memory: Vec<String> = self.programs.iter().map(Program::describe).collect();
        panic!("it does not end: {memory:?}");
    }
}
