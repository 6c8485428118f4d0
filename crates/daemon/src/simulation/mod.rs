// SPDX-License-Identifier: MIT OR Apache-2.0
//! A simulation of pisted: programs that start, record and die, people who ask for things, a control process and a consumer that are killed
//! anywhere, and a disk that fails. One seed decides all of it, so whatever a seed finds can be looked at again and again.
//!
//! | file | what |
//! |---|---|
//! | world.rs, world/people.rs, world/ending.rs | the scheduler: dice decide who does something next, until everything ends; start here |
//! | contract.rs | what people ask, and what they may rely on |
//! | pisted.rs, pisted/answers.rs | the control process |
//! | consumer/tests/stepped.rs | the consumer process |
//! | program.rs, filter.rs | a traced program |
//! | clock.rs, disk.rs | what is below the consumer's files of these names |
//! | truth.rs, traces.rs | what programs really recorded, and whether the traces say the same |
//!
//! Real are the machine (session), how its effects are carried out (control/carrier.rs), the journal and its replay, the waits for answers, the
//! link between control and the consumer with its messages and descriptors, the consumer's sessions, rings and streams, the memory of rings,
//! and the files, in a temporary folder. Simulated are the clock, failing writes, threads (one thing happens at a time), processes and their
//! deaths, the sockets of programs and people, and the programs, which write their rings with the tests' writer. There are no bells, so the
//! consumer looks at all rings; nothing of the kernel, no triggers and no snapshots.
//!
//! What is checked, whatever happens:
//! - an event that is emitted after an answer which says that it is recorded is recorded once, and not at all after one that says that it is
//!   not (contract.rs);
//! - what a program committed is in the trace once, in the order of its ring, or is counted as discarded; a flush that was answered has written
//!   it (traces.rs);
//! - the next pisted knows what was answered, and what the journal says (pisted.rs);
//! - every command gets one answer, unless pisted is killed before it, and in the end nothing is left of anything (world/ending.rs).
//!
//! `PISTE_SIMULATION_SEED=7` runs that seed only and prints what happens. `PISTE_SIMULATION_SEEDS=100000` runs so many, for a night, from
//! `PISTE_SIMULATION_FIRST` on.

pub(crate) mod clock;
mod contract;
pub(crate) mod disk;
mod filter;
mod pisted;
mod program;
mod traces;
mod truth;
mod world;

use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use self::world::World;

/// Seeds of a usual run.
const SEEDS: u64 = 300;
/// Things that happen in each.
const STEPS: usize = 400;

/// What happened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Figures {
    /// A hash of all effects and of the traces.
    log: u64,
    steps: u64,
    commands: u64,
    events: u64,
    rotations: u64,
    records: usize,
    consumers_killed: u64,
    pisteds_killed: u64,
    ring_sets_lost: u64,
    failed_writes: u64,
}

impl Figures {
    fn add(&mut self, other: &Figures) {
        self.steps += other.steps;
        self.commands += other.commands;
        self.events += other.events;
        self.rotations += other.rotations;
        self.records += other.records;
        self.consumers_killed += other.consumers_killed;
        self.pisteds_killed += other.pisteds_killed;
        self.ring_sets_lost += other.ring_sets_lost;
        self.failed_writes += other.failed_writes;
    }
}

fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{variable} is a number, not {text:?}")),
    )
}

fn run(seed: u64, is_told: bool) -> Figures {
    let run = || World::new(seed, is_told).run(STEPS);
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|why| {
        eprintln!(
            "this was seed {seed}: PISTE_SIMULATION_SEED={seed} cargo test -p pisted --lib -- --nocapture simulation"
        );
        resume_unwind(why)
    })
}

#[test]
fn what_is_answered_is_kept_and_nothing_recorded_is_missing() {
    if let Some(seed) = number("PISTE_SIMULATION_SEED") {
        run(seed, true);
        return;
    }
    let mut sum = Figures::default();
    let first = number("PISTE_SIMULATION_FIRST").unwrap_or(0);
    for seed in first..first + number("PISTE_SIMULATION_SEEDS").unwrap_or(SEEDS) {
        sum.add(&run(seed, false));
    }
    println!("{sum:?}");
}

#[test]
fn a_seed_is_one_run() {
    for seed in 0..10 {
        assert_eq!(run(seed, false), run(seed, false), "seed {seed}");
    }
}
