// SPDX-License-Identifier: MIT OR Apache-2.0
//! How fast the CPU is while something is measured: a loop of known work runs before and after. A pass in which it was slower than it can be, or in
//! which the hypervisor took the CPU away, is repeated, until there are `TRIES` times as many passes as are wanted.

use std::process::Command;
use std::time::Instant;

use crate::error::Error;
use crate::machine::steal_ns;
use crate::processes::Patience;
use crate::program::{About, Program, Sample};
use crate::report::RowClock;

/// A pass was slow if the loop takes so many times as long as the quickest one.
const SLOWED: f64 = 1.15;
/// And if the hypervisor took more than this part of a CPU.
const STOLEN: f64 = 0.1;
/// How many times as much as was wanted may be measured because passes were disturbed.
pub(super) const TRIES: u32 = 2;
const REFERENCE_STEPS: u64 = 400_000;

/// How fast the machine was while rounds ran.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pass {
    /// A step of the loop of known work: the slower one of the loops before and after.
    pub(crate) reference_ns: f64,
    /// Which part of a CPU the hypervisor took.
    pub(crate) stolen: f64,
}

impl Pass {
    /// Whether the machine was slower than it can be.
    pub(crate) fn is_disturbed(&self, quickest_ns: f64) -> bool {
        self.reference_ns > quickest_ns * SLOWED || self.stolen > STOLEN
    }
}

/// The quickest loop of known work.
pub(crate) fn quickest_ns(passes: &[Pass]) -> f64 {
    passes
        .iter()
        .map(|pass| pass.reference_ns)
        .fold(f64::INFINITY, f64::min)
}

/// The loop of known work.
pub(super) struct Reference {
    program: Program,
}

/// A pass that has begun.
pub(super) struct Watch {
    reference_ns: f64,
    steal_ns: u64,
    begin: Instant,
}

impl Watch {
    /// As far as it is known.
    pub(super) fn pass(&self) -> Pass {
        Pass {
            reference_ns: self.reference_ns,
            stolen: 0.0,
        }
    }
}

impl Reference {
    pub(super) fn start(command: Command, patience: &Patience) -> Result<Reference, Error> {
        let program = Program::start(command, 1, patience)?;
        Ok(Reference { program })
    }

    /// What programs can count here.
    pub(super) fn about(&mut self) -> Result<About, Error> {
        self.program.about()
    }

    /// The clock around nothing.
    pub(super) fn empty_samples(&mut self, warm_up: u64, count: u64) -> Result<Vec<Sample>, Error> {
        self.program.samples("none", warm_up, count)
    }

    pub(super) fn begin(&mut self) -> Result<Watch, Error> {
        Ok(Watch {
            reference_ns: self.step_ns()?,
            steal_ns: steal_ns(),
            begin: Instant::now(),
        })
    }

    pub(super) fn end(&mut self, watch: &Watch) -> Result<Pass, Error> {
        let elapsed_ns = watch.begin.elapsed().as_nanos() as f64;
        let stolen_ns = steal_ns().saturating_sub(watch.steal_ns) as f64;
        Ok(Pass {
            reference_ns: watch.reference_ns.max(self.step_ns()?),
            stolen: stolen_ns / elapsed_ns.max(1.0),
        })
    }

    fn step_ns(&mut self) -> Result<f64, Error> {
        let round = self.program.round("reference", RowClock::Cpu, REFERENCE_STEPS)?;
        Ok(round.cpu_ns as f64 / REFERENCE_STEPS as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_pass_is_told_from_the_others() {
        let passes = [(1.0, 0.0), (1.1, 0.05), (1.3, 0.0), (1.0, 0.2)]
            .map(|(reference_ns, stolen)| Pass { reference_ns, stolen });
        let quickest = quickest_ns(&passes);
        assert_eq!(
            passes.map(|pass| pass.is_disturbed(quickest)),
            [false, false, true, true]
        );
    }
}
