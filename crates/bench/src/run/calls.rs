// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rounds of a program that calls the kernel: each tracer is attached to it for a few rounds, because tracing system calls slows down those of all
//! programs.

use std::process::Command;

use super::reference::{Reference, TRIES};
use super::{Kept, Load, Run, SAMPLE_WARM_UP, When, quickest_ns};
use crate::error::Error;
use crate::program::Program;
use crate::summary::Measured;

/// How often each tracer is attached in a repetition.
const BLOCKS: u32 = 2;

impl Run<'_> {
    pub(super) fn measure_calls(
        &mut self,
        repetition: u32,
        reference: &mut Reference,
        percent: &mut dyn FnMut(u32),
    ) -> Result<(), Error> {
        let Some(path) = self.programs.calls.clone() else {
            return Ok(());
        };
        let mut program = Program::start(Command::new(path), 1, &self.workshop.patience)?;
        let of = BLOCKS * self.calls.len() as u32;
        for number in 0..of {
            let index = number as usize % self.calls.len();
            let peer = self.calls[index].peer;
            percent(number * 100 / of);
            let is_last = number + self.calls.len() as u32 >= of;
            for attempt in 0..TRIES {
                if self.outcome.has_failed(peer) {
                    break;
                }
                let watch = reference.begin()?;
                let when = When {
                    repetition,
                    pass: self.outcome.passes.len(),
                };
                self.outcome.passes.push(watch.pass());
                let done = self.block(index, &mut program, when, is_last && attempt == 0);
                self.outcome.attempt(peer, done)?;
                self.outcome.passes[when.pass] = reference.end(&watch)?;
                let quickest = quickest_ns(&self.outcome.passes);
                if !self.outcome.passes[when.pass].is_disturbed(quickest) {
                    break;
                }
            }
        }
        Ok(())
    }

    /// A few rounds with one tracer. They count once it is known what it recorded.
    fn block(&mut self, index: usize, program: &mut Program, when: When, takes_samples: bool) -> Result<(), Error> {
        let ready = &self.calls[index];
        let mut measured = Measured::default();
        for kind in &ready.rows {
            let session = ready.tracer.attach(self.workshop, program.pid())?;
            let size = match self.sizes.get(&(kind.name, Load::ONE)) {
                Some(size) => *size,
                None => program.events_in(kind.variant, kind.clock, self.plan.scale.round_ns, kind.events_max)?,
            };
            self.sizes.insert((kind.name, Load::ONE), size);
            let series = measured.series(ready.peer, kind, Load::ONE);
            for _ in 0..self.plan.scale.rounds.div_ceil(BLOCKS) {
                let round = program.round(kind.variant, kind.clock, size)?;
                series.rounds.push(Kept { when, round });
            }
            if takes_samples {
                let count = self.plan.scale.samples;
                let warm_up = SAMPLE_WARM_UP.min(count);
                series.samples.extend(program.samples(kind.variant, warm_up, count)?);
            }
            let recorded = session.detach()?;
            if kind.records {
                series.add_recorded(recorded);
            }
        }
        self.outcome.measured.add(measured);
        Ok(())
    }
}
