// SPDX-License-Identifier: MIT OR Apache-2.0
//! The order of a run. A repetition sets everything up anew: daemons, sessions, programs. In it, each pass has a round of each row, so that whatever
//! slows the machine for a second slows all of them; then single events are measured, and last, it is checked that the tracers recorded something.
//!
//! - here: the plan, looking for peers, repetitions
//! - [`events`]: rounds of programs; [`calls`]: rounds of system calls
//! - [`reference`]: how fast the CPU is meanwhile

mod calls;
mod events;
mod reference;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use self::reference::Reference;
pub(crate) use self::reference::{Pass, quickest_ns};

use crate::error::{Absence, Error};
use crate::instance::remove_leftovers;
use crate::machine::{describe, steal_ns, usable_cpus};
use crate::peers::{CALL, CallTracer, EventTracer, FLOOR, Found, PAYLOAD_BYTES, PEERS, Peer, RowKind};
use crate::processes::Patience;
use crate::program::Round;
use crate::report::{Absent, Group, Method, Report};
use crate::summary::{Outcome, summarize};
use crate::workshop::{self, C_LIBRARY, Workshop};

/// Before single events are measured.
const SAMPLE_WARM_UP: u64 = 1000;

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// It only shows that everything runs.
    pub is_quick: bool,
    /// How often everything is set up anew.
    pub repetitions: u32,
    /// Rounds of each row in a repetition.
    pub rounds: u32,
    /// How long a round is meant to take.
    pub round_ns: u64,
    /// Events that are measured alone, of each row in a repetition.
    pub samples: u64,
}

impl Scale {
    /// Enough for figures.
    pub const FULL: Scale = Scale {
        is_quick: false,
        repetitions: 5,
        rounds: 20,
        round_ns: 6_000_000,
        samples: 2_000,
    };
    /// Just enough to see that everything runs.
    pub const QUICK: Scale = Scale {
        is_quick: true,
        repetitions: 1,
        rounds: 3,
        round_ns: 500_000,
        samples: 200,
    };
}

/// What is measured.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program `piste` of the installation that is measured.
    pub piste: PathBuf,
    /// Names of peers and rows; all if there is none.
    pub chosen: Vec<String>,
    /// How many threads record at the same time, in turn.
    pub threads: Vec<u32>,
    /// How many processes of one thread each record at the same time, in turn, beside the single threads.
    pub processes: Vec<u32>,
    /// How many bytes events have, beside the usual [`PAYLOAD_BYTES`].
    pub payloads: Vec<u32>,
    /// How many bytes the file names have that are passed to a system call, beside the call without a name.
    pub names: Vec<u32>,
    /// How much is measured.
    pub scale: Scale,
    /// How it was asked for.
    pub command: Vec<String>,
    /// Nanoseconds since 1970.
    pub begin_ns: u128,
    /// Set when the run shall end, with what was measured by then.
    pub interrupted: Arc<AtomicBool>,
}

/// Where a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It looks for a peer.
    Finding {
        /// Its name.
        peer: &'static str,
    },
    /// It sets up a repetition.
    Starting {
        /// Which one, from 1 on.
        repetition: u32,
        /// How many there are.
        of: u32,
    },
    /// It measures.
    Measuring {
        /// Which repetition, from 1 on.
        repetition: u32,
        /// How many there are.
        of: u32,
        /// What is recorded.
        group: Group,
        /// How much of the repetition's part is done, in percent.
        percent: u32,
    },
}

/// What a program does at once. A row has a figure for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Load {
    pub(crate) threads: u32,
    /// Each has `threads`.
    pub(crate) processes: u32,
    /// Of an event, or the length of the file name that is passed to a system call.
    pub(crate) payload_bytes: u32,
}

impl Load {
    pub(crate) const ONE: Load = Load {
        threads: 1,
        processes: 1,
        payload_bytes: PAYLOAD_BYTES,
    };

    /// Of all processes.
    pub(crate) fn all_threads(&self) -> u32 {
        self.threads * self.processes
    }
}

/// A round, and when it was.
pub(crate) struct Kept {
    pub(crate) when: When,
    pub(crate) round: Round,
}

/// When a round was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct When {
    pub(crate) repetition: u32,
    /// Its place in [`Outcome::passes`].
    pub(crate) pass: usize,
}

/// Measures. `tell` is called before each step.
///
/// # Errors
/// There is nothing to show: there are too few CPUs, the temporary folder cannot be written, or Ctrl-C came before there was a figure.
pub fn run(plan: &Plan, tell: &mut dyn FnMut(Step)) -> Result<Report, Error> {
    refuse_shared_cpus(plan, usable_cpus())?;
    let patience = Patience::new(Arc::clone(&plan.interrupted));
    Workshop::remove_leftovers();
    let workshop = Workshop::new(&plan.piste, &plan.payloads, patience)?;
    if let Ok(tracefs) = workshop.tracefs() {
        remove_leftovers(&tracefs);
    }
    let steal_before_ns = steal_ns();
    let mut run = Run::prepare(plan, &workshop, tell)?;
    let machine = describe(workshop.compiler().ok().as_deref(), &workshop.patience);
    let mut was_interrupted = false;
    for repetition in 0..plan.scale.repetitions {
        match run.repetition(repetition, tell) {
            Ok(()) => {}
            Err(Error::Interrupted) => {
                was_interrupted = true;
                break;
            }
            Err(error) => return Err(error),
        }
    }
    let scale = &plan.scale;
    let repetitions = match was_interrupted {
        true => run.outcome.measured.repetitions(),
        false => scale.repetitions,
    };
    let method = Method {
        is_quick: scale.is_quick,
        repetitions,
        rounds: scale.rounds,
        round_ns: scale.round_ns,
        samples: scale.samples * u64::from(repetitions),
    };
    let outcome = Outcome {
        steal_ns: steal_ns().saturating_sub(steal_before_ns),
        ..run.outcome
    };
    summarize(outcome, plan, machine, method, was_interrupted)
}

/// Threads that share a CPU wait for each other, and their events would seem to take longer.
fn refuse_shared_cpus(plan: &Plan, cpus: u32) -> Result<(), Error> {
    for (counts, what) in [(&plan.threads, "threads"), (&plan.processes, "processes")] {
        if let Some(count) = counts.iter().find(|count| **count > cpus) {
            return Err(Error::new(format!(
                "cannot measure {count} {what}: each needs a CPU of its own, and piste may use {cpus}"
            )));
        }
    }
    Ok(())
}

/// Peers that are on this machine.
struct Ready<T: ?Sized> {
    peer: &'static Peer,
    rows: Vec<&'static RowKind>,
    tracer: Box<T>,
}

struct Run<'p> {
    plan: &'p Plan,
    workshop: &'p Workshop,
    events: Vec<Ready<dyn EventTracer>>,
    calls: Vec<Ready<dyn CallTracer>>,
    programs: Programs,
    /// How many events a round has, of each row.
    sizes: BTreeMap<(&'static str, Load), u64>,
    outcome: Outcome,
}

/// Those that belong to no peer.
struct Programs {
    /// The loop of known work, and samples of nothing.
    reference: Option<PathBuf>,
    calls: workshop::Sized,
}

impl<'p> Run<'p> {
    fn prepare(plan: &'p Plan, workshop: &'p Workshop, tell: &mut dyn FnMut(Step)) -> Result<Run<'p>, Error> {
        let mut run = Run {
            plan,
            workshop,
            events: Vec::new(),
            calls: Vec::new(),
            programs: Programs {
                reference: workshop.compile("floor", &["floor.c"], &[], C_LIBRARY).ok(),
                calls: workshop::Sized::new(),
            },
            sizes: BTreeMap::new(),
            outcome: Outcome::default(),
        };
        for peer in &PEERS {
            let rows = chosen_rows(peer, &plan.chosen);
            if rows.is_empty() {
                continue;
            }
            tell(Step::Finding { peer: peer.name });
            match run.find(peer) {
                Ok(Found::Events(tracer)) => run.events.push(Ready { peer, rows, tracer }),
                Ok(Found::Calls(tracer)) => run.calls.push(Ready { peer, rows, tracer }),
                Err(absence) => run.outcome.absent.push(Absent {
                    peer: peer.name.to_owned(),
                    reason: absence.reason,
                    remedy: absence.remedy,
                }),
            }
            if workshop.patience.is_interrupted() {
                return Err(Error::Interrupted);
            }
        }
        Ok(run)
    }

    fn find(&mut self, peer: &Peer) -> Result<Found, Absence> {
        let found = (peer.find)(self.workshop)?;
        if matches!(found, Found::Calls(_)) && self.programs.calls.is_empty() {
            let names = &self.plan.names;
            self.programs.calls = self
                .workshop
                .compile_sized("calls", &["calls.c"], &[], C_LIBRARY, names)?;
        }
        Ok(found)
    }

    fn repetition(&mut self, repetition: u32, tell: &mut dyn FnMut(Step)) -> Result<(), Error> {
        let Some(program) = self.programs.reference.clone() else {
            return Ok(());
        };
        let (number, of) = (repetition + 1, self.plan.scale.repetitions);
        tell(Step::Starting { repetition: number, of });
        let mut reference = Reference::start(Command::new(program), &self.workshop.patience)?;
        if repetition == 0 {
            self.outcome.about = reference.about()?;
        }
        let empty = reference.empty_samples(SAMPLE_WARM_UP, self.plan.scale.samples)?;
        self.outcome.empty_samples.extend(empty);
        let mut percent = |group, percent| {
            tell(Step::Measuring {
                repetition: number,
                of,
                group,
                percent,
            });
        };
        self.measure_events(repetition, &mut reference, &mut |done| percent(Group::Events, done))?;
        self.measure_calls(repetition, &mut reference, &mut |done| percent(Group::Calls, done))
    }
}

/// The rows of a peer that are measured: all if none is chosen. Beside those that are chosen, the ones that they are compared with: each step is
/// compared with the one before, and is a part of all.
fn chosen_rows(peer: &'static Peer, chosen: &[String]) -> Vec<&'static RowKind> {
    let is_chosen = |peer: &Peer, row: &RowKind| chosen.iter().any(|name| *name == peer.name || *name == row.name);
    let mut others = PEERS.iter().filter(|other| other.group == peer.group);
    let is_wanted = chosen.is_empty() || others.any(|other| other.rows.iter().any(|row| is_chosen(other, row)));
    let is_compared = |row: &RowKind| [FLOOR, CALL].contains(&row.name) || peer.group == Group::Steps;
    let rows = peer.rows.iter().filter(|_| is_wanted);
    rows.filter(|row| chosen.is_empty() || is_chosen(peer, row) || is_compared(row))
        .collect()
}

/// Whether there is a peer or a row of that name.
pub fn is_known(name: &str) -> bool {
    PEERS
        .iter()
        .any(|peer| peer.name == name || peer.rows.iter().any(|row| row.name == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(names: &[&str]) -> Vec<&'static str> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let rows = PEERS.iter().flat_map(|peer| chosen_rows(peer, &names));
        rows.map(|row| row.name).collect()
    }

    #[test]
    fn each_thread_has_a_cpu() {
        let mut plan = Plan {
            piste: PathBuf::new(),
            chosen: Vec::new(),
            threads: vec![1, 4],
            processes: Vec::new(),
            payloads: Vec::new(),
            names: Vec::new(),
            scale: Scale::QUICK,
            command: Vec::new(),
            begin_ns: 0,
            interrupted: Arc::default(),
        };
        assert_eq!(refuse_shared_cpus(&plan, 4), Ok(()));
        let refused = refuse_shared_cpus(&plan, 2).expect_err("there are too few").to_string();
        assert!(
            refused.contains("4 threads") && refused.ends_with("may use 2"),
            "{refused}"
        );
        plan.threads = vec![1];
        assert_eq!(refuse_shared_cpus(&plan, 1), Ok(()));
        plan.processes = vec![2];
        assert!(refuse_shared_cpus(&plan, 1).is_err_and(|error| error.to_string().contains("2 processes")));
    }

    #[test]
    fn rows_are_chosen_with_what_they_are_compared_with() {
        assert!(chosen(&[]).len() > 20);
        assert_eq!(chosen(&["strace"]), ["call", "strace"]);
        assert_eq!(
            chosen(&["piste-block", "prototype"]),
            ["floor", "prototype", "piste-block"]
        );
        assert_eq!(
            chosen(&["trace_marker", "perf"]),
            ["floor", "trace_marker", "trace_marker_raw", "call", "perf"]
        );
        assert_eq!(chosen(&["piste-clock"]), chosen(&["piste-steps"]));
        assert_eq!(chosen(&["piste-clock"]).len(), 6);
        assert!(is_known("tracef") && is_known("lttng") && !is_known("lttn"));
    }
}
