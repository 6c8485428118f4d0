// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rounds of programs that call the kernel: each tracer is attached to one for a few rounds, because tracing system calls slows down those of all
//! programs.

use std::collections::BTreeMap;
use std::path::PathBuf;
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
        let start = |(payload_bytes, path): (&u32, &PathBuf)| {
            let load = Load {
                payload_bytes: *payload_bytes,
                ..Load::ONE
            };
            Ok((load, Program::start(Command::new(path), 1, &self.workshop.patience)?))
        };
        let programs = self.programs.calls.iter().map(start);
        let mut programs = programs.collect::<Result<BTreeMap<Load, Program>, Error>>()?;
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
                let done = self.block(index, &mut programs, when, is_last && attempt == 0);
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

    /// A few rounds with one tracer, of each program. They count once it is known what it recorded.
    fn block(
        &mut self,
        index: usize,
        programs: &mut BTreeMap<Load, Program>,
        when: When,
        takes_samples: bool,
    ) -> Result<(), Error> {
        let ready = &self.calls[index];
        let scale = &self.plan.scale;
        let mut measured = Measured::default();
        for kind in &ready.rows {
            for (load, program) in &mut *programs {
                let Some(variant) = kind.variant_with(load.payload_bytes) else {
                    continue;
                };
                let session = ready.tracer.attach(self.workshop, program.pid())?;
                let size = match self.sizes.get(&(kind.name, *load)) {
                    Some(size) => *size,
                    None => program.events_in(variant, kind.clock, scale.round_ns, kind.events_max)?,
                };
                self.sizes.insert((kind.name, *load), size);
                let series = measured.series(ready.peer, kind, *load);
                for _ in 0..scale.rounds.div_ceil(BLOCKS) {
                    let round = program.round(variant, kind.clock, size)?;
                    series.rounds.push(Kept { when, round });
                }
                if takes_samples {
                    let warm_up = SAMPLE_WARM_UP.min(scale.samples);
                    series.samples.extend(program.samples(variant, warm_up, scale.samples)?);
                }
                let recorded = session.detach()?;
                if kind.records {
                    series.add_recorded(recorded);
                }
            }
        }
        self.outcome.measured.add(measured);
        Ok(())
    }
}
