// SPDX-License-Identifier: MIT OR Apache-2.0
//! What recording an event in each turn does to the tight loop, with each tracer: the tables of Beamonte and Dagenais (2015).
//!
//! - here: rounds of all tracers in turn, and their sums
//! - [`rates`]: the highest rate at which a tracer loses nothing
//! - [`events`]: events one at a time, and which of them are slow; `packets`: which of them began a sub-buffer
//! - [`looper`]: the process in which the loop runs, seen from both sides
//!
//! crates/bench sets the tracers up and removes them. Each round has a session and a process of its own, so that what a round finds does not depend on
//! the one before, nor on where memory happened to lie in one process.

pub mod events;
mod looper;
mod packets;
pub mod rates;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use piste_bench::Absence;
use piste_bench::recording::{Kept, Process, Recorder, Recorders};
pub use piste_bench::recording::{KernelEvents, Reader, Rings, Setup, Tracer};
use rustix::fs::statvfs;

pub use self::looper::serve;
use self::looper::{Answer, Measure, Request, Turns, parse_answer};
use crate::clock::Clock;
use crate::cpus;
use crate::policy::Policy;
use crate::spin::{Cause, Gaps};
use crate::tally::Snapshot;

/// Rounds of each tracer.
pub const ROUNDS: u32 = 5;
/// Traces with more events of the loop are not read to count them.
const COUNTED_EVENTS_MAX: u64 = 1_000_000;
/// No tracer records more.
const RATE_MAX_HZ: f64 = 60e6;
/// Of an event beside its fields: more than any tracer needs.
const HEADER_BYTES: f64 = 12.0;
/// A trace takes this part of the free space at most.
const SPACE_SHARE: f64 = 0.5;

/// A tracer, and how its consumer learns of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traced {
    /// The tracer.
    pub tracer: Tracer,
    /// Its reader; without a tracer, it is of no importance.
    pub reader: Reader,
}

/// The loop and the tracers.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program `piste` of the installation that is measured.
    pub piste: PathBuf,
    /// The arguments with which it calls [`serve`].
    pub arguments: &'static [&'static str],
    /// The tracers, in the order of the table.
    pub traced: Vec<Traced>,
    /// Their rings.
    pub rings: Rings,
    /// What else they record.
    pub kernel: KernelEvents,
    /// Bytes of fields of each event.
    pub payload_bytes: u32,
    /// Where the loop runs.
    pub cpu: u32,
    /// How the scheduler treats it.
    pub policy: Policy,
    /// What it reads.
    pub clock: Clock,
    /// How long it takes at most: of each tracer, or of each search for a rate each trial.
    pub duration: Option<Duration>,
    /// Turns of each tracer at most.
    pub loops: Option<u64>,
    /// Turns that are not counted, at the beginning of each round.
    pub warm_up: u32,
    /// Turns a second at most.
    pub max_rate_hz: Option<u64>,
    /// Files of control groups that the loop's thread joins.
    pub join: Vec<PathBuf>,
    /// Where the machine's /proc and /sys are.
    pub root: PathBuf,
    /// Set when it shall end, with what was measured by then.
    pub interrupted: Arc<AtomicBool>,
}

/// Why nothing can be measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A tracer is not on this machine, or cannot record like this.
    #[error("cannot measure {}: {}{}", tracer.name(), absence.reason, remedy(absence))]
    Absent {
        /// Which one.
        tracer: Tracer,
        /// Why.
        absence: Absence,
    },
    /// A tracer failed.
    #[error("cannot measure {}: {error}", tracer.name())]
    Failed {
        /// Which one.
        tracer: Tracer,
        /// What happened.
        error: piste_bench::Error,
    },
    /// A trace would not fit on the disk.
    #[error(
        "a trace may take {needed_mib} MiB, and {folder:?} has {free_mib} MiB free; choose a shorter --duration, a lower --max-rate, or set TMPDIR to another folder"
    )]
    Space {
        /// Of one round or trial.
        needed_mib: u64,
        /// What is left.
        free_mib: u64,
        /// Where.
        folder: PathBuf,
    },
    /// The temporary folder cannot be written.
    #[error(transparent)]
    Folder(piste_bench::Error),
}

impl Error {
    /// Whether Ctrl-C came before there was anything.
    pub fn is_interruption(&self) -> bool {
        matches!(
            self,
            Error::Failed {
                error: piste_bench::Error::Interrupted,
                ..
            }
        )
    }
}

fn remedy(absence: &Absence) -> String {
    let remedy = absence.remedy.as_deref();
    remedy.map(|remedy| format!("; {remedy}")).unwrap_or_default()
}

/// All rounds of a tracer.
#[derive(Debug)]
pub struct Row {
    /// The tracer.
    pub traced: Traced,
    /// How many rounds there were.
    pub rounds: u32,
    /// All values, in ticks of the clock.
    pub values: Snapshot,
    /// How long the loop ran.
    pub duration: Duration,
    /// How long it looked for causes, and so measured nothing.
    pub blind: Duration,
    /// The gaps of each of [`Cause::ALL`].
    pub by_cause: [Gaps; Cause::ALL.len()],
    /// Gaps from this on were looked at, in ticks: the smallest limit of a round.
    pub looked_from: u64,
    /// Whether interrupts were counted in all rounds.
    pub interrupts_counted: bool,
    /// Events of all turns, also of those that are not counted.
    pub events: u64,
    /// Of these, events that the traces contain; unknown if a trace was too long to count them.
    pub recorded: Option<u64>,
    /// Of these, events that the tracer had no space for.
    pub lost: u64,
    /// Events of the kernel that the tracer had no space for.
    pub kernel_lost: u64,
}

impl Row {
    fn of(traced: Traced) -> Row {
        Row {
            traced,
            rounds: 0,
            values: Snapshot::default(),
            duration: Duration::ZERO,
            blind: Duration::ZERO,
            by_cause: Default::default(),
            looked_from: u64::MAX,
            interrupts_counted: true,
            events: 0,
            recorded: Some(0),
            lost: 0,
            kernel_lost: 0,
        }
    }

    fn add(&mut self, turns: &Turns, kept: &Kept) {
        self.rounds += 1;
        self.values.merge(&turns.values);
        self.duration += turns.duration;
        self.blind += turns.blind;
        for (sum, gaps) in self.by_cause.iter_mut().zip(&turns.by_cause) {
            sum.merge(gaps);
        }
        self.looked_from = self.looked_from.min(turns.looked_from);
        self.interrupts_counted &= turns.interrupts_counted;
        self.events += turns.events;
        self.recorded = self.recorded.zip(kept.recorded).map(|(sum, more)| sum + more);
        self.lost += kept.lost;
        self.kernel_lost += kept.kernel_lost;
    }
}

/// What was measured.
#[derive(Debug)]
pub struct Table {
    /// For each tracer that has a round.
    pub rows: Vec<Row>,
    /// What could not be prepared.
    pub notes: Vec<String>,
    /// Ctrl-C came before the end.
    pub was_interrupted: bool,
}

/// Where a measurement is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// It looks for a tracer.
    Finding(Tracer),
    /// It measures a round.
    Round {
        /// Which one, from 1 on.
        round: u32,
        /// Of which tracer.
        traced: Traced,
    },
    /// It measures whether a rate loses events.
    Trial {
        /// Which one of this tracer, from 1 on.
        number: usize,
        /// Of which tracer.
        traced: Traced,
        /// Events a second; absent: as many as the loop can reach.
        rate_hz: Option<u64>,
    },
}

/// Measures all tracers, in turn. `tell` is called before each step.
///
/// # Errors
/// A tracer is not there, or failed; or Ctrl-C came before there was a round.
pub fn measure(plan: &Plan, tell: &mut dyn FnMut(Step)) -> Result<Table, Error> {
    let part = Part {
        duration: plan.duration.map(|duration| duration / ROUNDS),
        loops: plan.loops.map(|loops| loops.div_ceil(ROUNDS.into())),
        max_rate_hz: plan.max_rate_hz,
        explains: true,
        measure: Measure::Turns,
    };
    let mut rows: Vec<Row> = plan.traced.iter().copied().map(Row::of).collect();
    let notes = in_rounds(plan, &mut rows, tell, &mut |tracers, row| {
        let (turns, kept) = tracers.measure::<Turns>(row.traced, &part, &mut |_| Ok(()))?;
        row.add(&turns, &kept);
        Ok(turns.notes)
    })?;
    Ok(Table {
        rows,
        notes,
        was_interrupted: is_set(&plan.interrupted),
    })
}

/// What is measured in several rounds.
trait InRounds {
    fn traced(&self) -> Traced;
    /// How many there were.
    fn rounds(&self) -> u32;
}

impl InRounds for Row {
    fn traced(&self) -> Traced {
        self.traced
    }

    fn rounds(&self) -> u32 {
        self.rounds
    }
}

/// Measures a round of something, and returns what could not be prepared.
type OneRound<'r, R> = &'r mut dyn FnMut(&Tracers<'_>, &mut R) -> Result<Vec<String>, Error>;

/// Measures all rows in turn, until Ctrl-C comes. Rows without a round are removed. Returns what could not be prepared.
fn in_rounds<R: InRounds>(
    plan: &Plan,
    rows: &mut Vec<R>,
    tell: &mut dyn FnMut(Step),
    one: OneRound<'_, R>,
) -> Result<Vec<String>, Error> {
    let recorders = recorders(plan)?;
    let tracers = Tracers::find(plan, &recorders, tell)?;
    let mut notes = Vec::new();
    'rounds: for round in 1..=ROUNDS {
        for place in 0..rows.len() {
            if is_set(&plan.interrupted) {
                break 'rounds;
            }
            let traced = rows[place].traced();
            tell(Step::Round { round, traced });
            match one(&tracers, &mut rows[place]) {
                Ok(more) => notes.extend(more),
                Err(error) if error.is_interruption() && rows.iter().any(|row| row.rounds() > 0) => break 'rounds,
                Err(error) => return Err(error),
            }
        }
    }
    rows.retain(|row| row.rounds() > 0);
    notes.sort();
    notes.dedup();
    Ok(notes)
}

fn recorders(plan: &Plan) -> Result<Recorders, Error> {
    let recorders = Recorders::new(&plan.piste, plan.payload_bytes, Arc::clone(&plan.interrupted));
    // Whatever is started from now on is not to disturb the loop, where there is another CPU.
    let others = others(plan);
    if !others.is_empty() {
        let _ = cpus::pin(&others);
    }
    recorders.map_err(Error::Folder)
}

/// The CPUs for all but the loop.
fn others(plan: &Plan) -> Vec<u32> {
    let allowed = cpus::allowed().unwrap_or_default();
    allowed.into_iter().filter(|cpu| *cpu != plan.cpu).collect()
}

fn is_set(flag: &AtomicBool) -> bool {
    // Relaxed: nothing else is said by it.
    flag.load(Relaxed)
}

/// What is measured at once.
struct Part {
    duration: Option<Duration>,
    loops: Option<u64>,
    max_rate_hz: Option<u64>,
    explains: bool,
    measure: Measure,
}

/// The tracers of a plan.
struct Tracers<'p> {
    plan: &'p Plan,
    recorders: &'p Recorders,
    found: Vec<(Tracer, Recorder<'p>)>,
}

impl<'p> Tracers<'p> {
    fn find(plan: &'p Plan, recorders: &'p Recorders, tell: &mut dyn FnMut(Step)) -> Result<Tracers<'p>, Error> {
        let mut found: Vec<(Tracer, Recorder<'p>)> = Vec::new();
        for traced in &plan.traced {
            let tracer = traced.tracer;
            let absent = |absence| Error::Absent { tracer, absence };
            if !found.iter().any(|(known, _)| *known == tracer) {
                tell(Step::Finding(tracer));
                found.push((tracer, recorders.find(tracer).map_err(absent)?));
            }
            let recorder = &found
                .iter()
                .find(|(known, _)| *known == tracer)
                .expect("it was found")
                .1;
            if let Some(absence) = recorder.lacks(&setup(plan, *traced)) {
                return Err(absent(absence));
            }
        }
        Ok(Tracers { plan, recorders, found })
    }

    /// Measures a round or a trial. `read` gets the folder of a trace whose events are counted, before that is removed.
    fn measure<A: Answer>(
        &self,
        traced: Traced,
        part: &Part,
        read: &mut dyn FnMut(&Path) -> Result<(), String>,
    ) -> Result<(A, Kept), Error> {
        let plan = self.plan;
        let tracer = traced.tracer;
        let failed = |error| Error::Failed { tracer, error };
        let recorder = self.found.iter().find(|(known, _)| *known == tracer);
        let recorder = &recorder.expect("all tracers of the plan were found").1;
        if tracer != Tracer::None {
            self.check_space(part)?;
        }
        let request = Request {
            measure: part.measure,
            library: recorder.library().map(Path::to_owned),
            cpu: plan.cpu,
            others: others(plan),
            policy: plan.policy,
            clock: plan.clock.clone(),
            loops: part.loops,
            duration: part.duration,
            warm_up: plan.warm_up,
            max_rate_hz: part.max_rate_hz,
            explains: part.explains,
            join: plan.join.clone(),
            root: plan.root.clone(),
        };
        let process = Process {
            program: &plan.piste,
            arguments: plan.arguments,
            request: &request.line(),
            duration: part.duration,
        };
        let counts_events =
            |answer: &str| parse_answer::<A>(answer).is_ok_and(|one| one.events() <= COUNTED_EVENTS_MAX);
        let (answer, kept) = recorder
            .measure(&setup(plan, traced), &process, counts_events, read)
            .map_err(failed)?;
        let refused = |why| failed(piste_bench::Error::Failed(why));
        let answer = parse_answer::<A>(&answer).map_err(refused)?;
        match unaccounted(answer.events(), &kept) {
            0 => Ok((answer, kept)),
            missing => Err(refused(format!(
                "{missing} of {} events were neither recorded nor counted as lost, so something else may have turned its events off; measure again",
                answer.events()
            ))),
        }
    }

    /// A trace that does not fit would take the space of others.
    fn check_space(&self, part: &Part) -> Result<(), Error> {
        let folder = self.recorders.folder();
        let Ok(system) = statvfs(&folder) else { return Ok(()) };
        let free_bytes = system.f_bavail as f64 * system.f_frsize as f64;
        let rate_hz = part
            .max_rate_hz
            .map_or(RATE_MAX_HZ, |rate_hz| RATE_MAX_HZ.min(rate_hz as f64));
        let of_duration = part
            .duration
            .map_or(f64::INFINITY, |duration| duration.as_secs_f64() * rate_hz);
        let events = of_duration.min(part.loops.map_or(f64::INFINITY, |loops| loops as f64));
        let needed_bytes = events * (HEADER_BYTES + f64::from(self.plan.payload_bytes));
        if needed_bytes <= free_bytes * SPACE_SHARE {
            return Ok(());
        }
        let mib = |bytes: f64| (bytes / f64::from(1 << 20)) as u64;
        Err(Error::Space {
            needed_mib: mib(needed_bytes),
            free_mib: mib(free_bytes),
            folder,
        })
    }
}

/// Events of which the tracer says nothing. A turn that records no event is quick, and would look like a quick tracer.
fn unaccounted(events: u64, kept: &Kept) -> u64 {
    let known = kept.recorded.map(|recorded| recorded + kept.lost);
    known.map_or(0, |known| events.saturating_sub(known))
}

fn setup(plan: &Plan, traced: Traced) -> Setup {
    Setup {
        reader: traced.reader,
        rings: plan.rings,
        kernel: plan.kernel,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_recorded_or_lost_if_they_were_counted() {
        let kept = |recorded, lost| Kept {
            recorded,
            lost,
            kernel_lost: 0,
        };
        assert_eq!(unaccounted(10, &kept(Some(7), 3)), 0);
        assert_eq!(unaccounted(10, &kept(Some(0), 3)), 7);
        assert_eq!(unaccounted(10, &kept(None, 3)), 0);
    }
}
