// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rounds of programs whose events are recorded: all tracers record all the time, and their programs take turns.

use std::collections::BTreeMap;
use std::fs;
use std::mem;

use piste_reason::reason;

use super::reference::{Reference, TRIES};
use super::{Kept, Load, Pass, Plan, Ready, Run, SAMPLE_WARM_UP, When, quickest_ns};
use crate::error::Error;
use crate::peers::{EventSession, EventTracer, PAYLOAD_BYTES};
use crate::program::Program;
use crate::report::Group;
use crate::summary::Measured;
use crate::workshop::Workshop;

/// A peer whose tracer records, with its programs. They end before the tracer does.
struct Live<'w> {
    /// Its place in [`Run::events`].
    index: usize,
    programs: BTreeMap<Load, Program>,
    session: Box<dyn EventSession + 'w>,
    /// In this repetition, at the end of which it is checked whether it was recorded.
    measured: Measured,
}

impl<'w> Live<'w> {
    fn start(
        index: usize,
        ready: &Ready<dyn EventTracer>,
        workshop: &'w Workshop,
        plan: &Plan,
    ) -> Result<Live<'w>, Error> {
        let session = ready.tracer.start(workshop)?;
        let mut programs = BTreeMap::new();
        for load in loads(plan) {
            if let Some(program) = start_program(&*session, load, workshop)? {
                programs.insert(load, program);
            }
        }
        Ok(Live {
            index,
            programs,
            session,
            measured: Measured::default(),
        })
    }
}

/// Everything that a program is to do at once, in turn.
fn loads(plan: &Plan) -> impl Iterator<Item = Load> {
    let threads = plan.threads.iter().map(|threads| (*threads, 1));
    let processes = plan.processes.iter().map(|processes| (1, *processes));
    let counts: Vec<(u32, u32)> = threads.chain(processes).collect();
    let payloads = [PAYLOAD_BYTES].into_iter().chain(plan.payloads.clone());
    payloads.flat_map(move |payload_bytes| {
        let load = move |(threads, processes)| Load {
            threads,
            processes,
            payload_bytes,
        };
        counts.clone().into_iter().map(load)
    })
}

/// `None` if there is no program with such events.
fn start_program(session: &dyn EventSession, load: Load, workshop: &Workshop) -> Result<Option<Program>, Error> {
    let command = || session.program(load.payload_bytes);
    let patience = &workshop.patience;
    let Some(first) = command() else { return Ok(None) };
    if load.processes == 1 {
        return Program::start(first, load.threads, patience).map(Some);
    }
    let commands = (0..load.processes).filter_map(|_| command()).collect();
    let folder = workshop.folder("meeting")?;
    let meeting = folder.path().join("meeting");
    fs::write(&meeting, "")
        .map_err(|error| Error::new(format!("cannot write {}: {}", meeting.display(), reason(&error))))?;
    Program::start_together(commands, &meeting, patience).map(Some)
}

/// What is done with a peer that is live.
type Work<'r, 'p> = &'r mut dyn FnMut(&mut Run<'p>, &mut Live<'p>) -> Result<(), Error>;

impl<'p> Run<'p> {
    pub(super) fn measure_events(
        &mut self,
        repetition: u32,
        reference: &mut Reference,
        percent: &mut dyn FnMut(u32),
    ) -> Result<(), Error> {
        let mut live = self.start_events()?;
        let wanted = self.plan.scale.rounds;
        // The first pass touches the memory of the rings for the first time, and shows how many events a round may have.
        self.with_each(&mut live, &mut |run, live| run.rounds_of(live, None))?;
        let mut passes: Vec<Pass> = Vec::new();
        let mut done = 0;
        while done < wanted && (passes.len() as u32) < wanted * TRIES && !live.is_empty() {
            percent(done * 100 / wanted);
            let watch = reference.begin()?;
            let pass = self.outcome.passes.len();
            // Whatever happens next, the rounds of this pass have their place.
            self.outcome.passes.push(watch.pass());
            let when = When { repetition, pass };
            self.with_each(&mut live, &mut |run, live| run.rounds_of(live, Some(when)))?;
            self.outcome.passes[pass] = reference.end(&watch)?;
            passes.push(self.outcome.passes[pass]);
            let quickest = quickest_ns(&self.outcome.passes);
            done = passes.iter().filter(|pass| !pass.is_disturbed(quickest)).count() as u32;
        }
        self.with_each(&mut live, &mut Run::sample_events)?;
        self.with_each(&mut live, &mut Run::check_events)
    }

    fn start_events(&mut self) -> Result<Vec<Live<'p>>, Error> {
        let mut live = Vec::new();
        for (index, ready) in self.events.iter().enumerate() {
            if self.outcome.has_failed(ready.peer) {
                continue;
            }
            let started = Live::start(index, ready, self.workshop, self.plan);
            live.extend(self.outcome.attempt(ready.peer, started)?);
        }
        Ok(live)
    }

    /// Does something with each peer; those with which it fails are ended.
    fn with_each(&mut self, live: &mut Vec<Live<'p>>, work: Work<'_, 'p>) -> Result<(), Error> {
        let mut place = 0;
        while place < live.len() {
            let done = work(self, &mut live[place]);
            let peer = self.events[live[place].index].peer;
            match self.outcome.attempt(peer, done)? {
                Some(()) => place += 1,
                None => drop(live.remove(place)),
            }
        }
        Ok(())
    }

    /// A round of each row; kept if it is known when it is.
    fn rounds_of(&mut self, live: &mut Live<'p>, when: Option<When>) -> Result<(), Error> {
        let ready = &self.events[live.index];
        for kind in &ready.rows {
            for (load, program) in &mut live.programs {
                let Some(variant) = kind.variant_with(load.payload_bytes) else {
                    continue;
                };
                let size = match self.sizes.get(&(kind.name, *load)) {
                    Some(size) => *size,
                    None => program.events_in(variant, kind.clock, self.plan.scale.round_ns, kind.events_max)?,
                };
                self.sizes.insert((kind.name, *load), size);
                let round = program.round(variant, kind.clock, size)?;
                if let Some(when) = when {
                    let series = live.measured.series(ready.peer, kind, *load);
                    series.rounds.push(Kept { when, round });
                }
            }
        }
        Ok(())
    }

    /// Of one thread, with each payload. Not of steps: what comes before and after a loop of them (`measured/step.h`) would be a part of each sample.
    fn sample_events(&mut self, live: &mut Live<'p>) -> Result<(), Error> {
        let ready = &self.events[live.index];
        if ready.peer.group == Group::Steps {
            return Ok(());
        }
        for kind in &ready.rows {
            for (load, program) in live.programs.iter_mut().filter(|(load, _)| load.all_threads() == 1) {
                if let Some(variant) = kind.variant_with(load.payload_bytes) {
                    let warm_up = SAMPLE_WARM_UP.min(kind.events_max);
                    let samples = program.samples(variant, warm_up, self.plan.scale.samples)?;
                    live.measured.series(ready.peer, kind, *load).samples.extend(samples);
                }
            }
        }
        Ok(())
    }

    /// A tracer that records nothing would be fast, so what was measured counts only now.
    fn check_events(&mut self, live: &mut Live<'p>) -> Result<(), Error> {
        let ready = &self.events[live.index];
        for kind in ready.rows.iter().filter(|kind| kind.records) {
            for load in live.programs.keys() {
                if let Some(variant) = kind.variant_with(load.payload_bytes) {
                    let recorded = live.session.recorded(variant)?;
                    live.measured.series(ready.peer, kind, *load).add_recorded(recorded);
                }
            }
        }
        self.outcome.measured.add(mem::take(&mut live.measured));
        Ok(())
    }
}
