// SPDX-License-Identifier: MIT OR Apache-2.0
//! What recording adds to a job: any command, which runs again and again, in turn without it and with it. The tables of LTT (Yaghmour and Dagenais,
//! USENIX 2000, Figures 3 to 5), for the jobs of whoever asks.
//!
//! Each recorded run has an unrecorded one beside it: what slows the machine for some seconds slows both. Which of them comes first, and in which order
//! the ways of recording come, is left to chance.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::Error;
use crate::machine::describe;
use crate::pisted::Pisted;
use crate::processes::{Daemon, Patience};
use crate::report::{CONFIDENCE, Estimate, Machine};
use crate::statistics::{estimate, median};
use crate::workshop::Workshop;

/// The format that [`Report::format`] says.
pub const FORMAT: u32 = 1;

/// The kernel counts CPU time of children in steps of 10 ms.
const CPU_NS_MIN: f64 = 5e8;

/// What is measured.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program `piste` of the installation that records.
    pub piste: PathBuf,
    /// The command that runs again and again.
    pub job: Vec<OsString>,
    /// The ways of recording it.
    pub ways: Vec<Way>,
    /// How often each way is measured; one more round comes before, which is not counted.
    pub rounds: u32,
    /// How it was asked for.
    pub command: Vec<String>,
    /// Nanoseconds since 1970.
    pub begin_ns: u128,
    /// Set when the run shall end, with what was measured by then.
    pub interrupted: Arc<AtomicBool>,
}

/// A way of recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// Its name in tables.
    pub name: String,
    /// Options of `piste record`.
    pub options: Vec<String>,
}

/// Where a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step<'p> {
    /// Which round, from 1 on; 0 is not counted.
    pub round: u32,
    /// How many there are.
    pub of: u32,
    /// The way of recording.
    pub way: &'p str,
}

/// What was measured: `bench_overhead` in docs/reference/schemas.json.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// [`FORMAT`].
    pub format: u32,
    /// When it began: nanoseconds since 1970, in digits.
    pub begin_ns: String,
    /// How it was asked for.
    pub command: Vec<String>,
    /// The command that ran.
    pub job: Vec<String>,
    /// What it ran on.
    pub machine: Machine,
    /// The ways of recording.
    pub ways: Vec<WayReport>,
    /// Those that did not work.
    pub failed: Vec<Failed>,
    /// Ctrl-C ended it early.
    pub was_interrupted: bool,
}

/// A way of recording that did not work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failed {
    /// Its name.
    pub way: String,
    /// Why.
    pub reason: String,
}

/// What a way of recording adds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WayReport {
    /// Its name.
    pub name: String,
    /// Options of `piste record`.
    pub options: Vec<String>,
    /// How often it was measured.
    pub rounds: u32,
    /// How long the job took without it: the median.
    pub unrecorded_ns: f64,
    /// How long with it: the median.
    pub recorded_ns: f64,
    /// The standard deviation of the unrecorded times, in percent of their mean.
    pub unrecorded_deviation_percent: f64,
    /// That of the recorded ones.
    pub recorded_deviation_percent: f64,
    /// How many times as long the job takes: of each two runs beside each other.
    pub time_ratio: Estimate,
    /// How many times as much CPU time it takes; absent if a run took less than half a second of it.
    pub cpu_ratio: Option<Estimate>,
    /// Recorded events: the median.
    pub events: f64,
    /// In a second of the job.
    pub events_per_s: f64,
    /// Size of the trace: the median.
    pub trace_bytes: f64,
    /// Events that were lost, in all rounds.
    pub discarded_events: u64,
}

/// A run of the job.
#[derive(Clone, Copy, Debug, Deserialize)]
struct Run {
    wall_ns: u64,
    cpu_ns: u64,
}

/// What was recorded of it.
#[derive(Clone, Copy, Debug, Deserialize)]
struct Recording {
    events: u64,
    bytes: u64,
    discarded_events: u64,
}

/// Two runs beside each other.
struct Pair {
    unrecorded: Run,
    recorded: Run,
    recording: Recording,
}

/// Measures. `tell` is called before each pair of runs.
///
/// # Errors
/// The job or the recording fails, or Ctrl-C came before anything was measured.
pub fn run(plan: &Plan, tell: &mut dyn FnMut(Step<'_>)) -> Result<Report, Error> {
    let patience = Patience::new(Arc::clone(&plan.interrupted));
    Workshop::remove_leftovers();
    let workshop = Workshop::new(&plan.piste, &[], patience)?;
    let folder = workshop.path("overhead");
    let measuring = Measuring {
        plan,
        pisted: Pisted::start(&workshop, &folder)?,
        workshop: &workshop,
        folder,
    };
    // Without a session, it would end while a job runs unrecorded, and the next recording would start another one.
    let idle = measuring.folder.join("idle");
    measuring.pisted.create("idle", &idle, true)?;
    let machine = describe(None, &workshop.patience);
    let mut pairs: Vec<Vec<Pair>> = plan.ways.iter().map(|_| Vec::new()).collect();
    let mut failed: Vec<Failed> = Vec::new();
    let mut was_interrupted = false;
    'rounds: for round in 0..=plan.rounds {
        let mut order: Vec<usize> = (0..plan.ways.len()).collect();
        fastrand::shuffle(&mut order);
        for place in order {
            let way = &plan.ways[place];
            if failed.iter().any(|failed| failed.way == way.name) {
                continue;
            }
            tell(Step {
                round,
                of: plan.rounds,
                way: &way.name,
            });
            // A job that fails fails without a recording first.
            match measuring.pair(way, round == 0 || fastrand::bool()) {
                // The first round fills the caches.
                Ok(Ok(_)) if round == 0 => {}
                Ok(Ok(pair)) => pairs[place].push(pair),
                Ok(Err(reason)) => failed.push(Failed {
                    way: way.name.clone(),
                    reason,
                }),
                Err(Error::Interrupted) => {
                    was_interrupted = true;
                    break 'rounds;
                }
                Err(error) => return Err(error),
            }
        }
    }
    let measured = plan.ways.iter().zip(&pairs).filter(|(_, pairs)| !pairs.is_empty());
    let ways: Vec<WayReport> = measured.map(|(way, pairs)| report_of(way, pairs)).collect();
    match (&ways[..], &failed[..]) {
        ([], [failed, ..]) => return Err(Error::new(failed.reason.clone())),
        ([], []) => return Err(Error::Interrupted),
        _ => {}
    }
    Ok(Report {
        format: FORMAT,
        begin_ns: plan.begin_ns.to_string(),
        command: plan.command.clone(),
        job: plan
            .job
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect(),
        machine,
        ways,
        failed,
        was_interrupted,
    })
}

struct Measuring<'p> {
    plan: &'p Plan,
    workshop: &'p Workshop,
    pisted: Pisted,
    folder: PathBuf,
}

impl Measuring<'_> {
    /// Both runs; or why the recorded one failed.
    fn pair(&self, way: &Way, is_unrecorded_first: bool) -> Result<Result<Pair, String>, Error> {
        let first = is_unrecorded_first.then(|| self.unrecorded()).transpose()?;
        let (recorded, recording) = match self.recorded(way) {
            Ok(recorded) => recorded,
            Err(Error::Failed(reason)) => return Ok(Err(reason)),
            Err(error) => return Err(error),
        };
        let unrecorded = first.map_or_else(|| self.unrecorded(), Ok)?;
        Ok(Ok(Pair {
            unrecorded,
            recorded,
            recording,
        }))
    }

    fn unrecorded(&self) -> Result<Run, Error> {
        let mut command = Command::new(&self.workshop.piste);
        self.timed(self.pisted.environment(&mut command), shown(&self.plan.job))
    }

    fn recorded(&self, way: &Way) -> Result<(Run, Recording), Error> {
        let (trace, summary) = (self.folder.join("trace"), self.folder.join("summary"));
        let mut command = Command::new(&self.workshop.piste);
        command.arg("record").args(&way.options);
        command.arg("-o").arg(&trace).arg("--summary").arg(&summary);
        command.arg("--").arg(&self.workshop.piste);
        let name = format!("piste record {} -- {}", way.options.join(" "), shown(&self.plan.job));
        let run = self.timed(self.pisted.environment(&mut command), name)?;
        let recording = read(&summary)?;
        // A disk is not filled by rounds that are over.
        let _ = fs::remove_dir_all(&trace);
        Ok((run, recording))
    }

    /// Runs a command that goes on with the words that run the job and time it.
    fn timed(&self, command: &mut Command, name: String) -> Result<Run, Error> {
        let times = self.folder.join("times");
        command.arg("time-command").arg(&times).arg("--").args(&self.plan.job);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let mut job = Daemon::start(command)?.named(name);
        let Some(status) = job.wait(&self.workshop.patience)? else {
            job.end_all();
            return Err(Error::Interrupted);
        };
        match status.success() {
            true => read(&times),
            false => Err(job.ended()),
        }
    }
}

fn shown(words: &[OsString]) -> String {
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}

/// What another program wrote.
fn read<T: for<'d> Deserialize<'d>>(path: &Path) -> Result<T, Error> {
    let text = fs::read(path).unwrap_or_default();
    let value: Value = serde_json::from_slice(&text).unwrap_or_default();
    T::deserialize(value).map_err(|_| Error::new(format!("cannot parse {}", path.display())))
}

fn report_of(way: &Way, pairs: &[Pair]) -> WayReport {
    let of = |value: &dyn Fn(&Pair) -> u64| pairs.iter().map(|pair| value(pair) as f64).collect::<Vec<f64>>();
    let ratio = |above: &[f64], below: &[f64]| {
        let ratios: Vec<f64> = above.iter().zip(below).map(|(above, below)| above / below).collect();
        estimate(&ratios, CONFIDENCE)
    };
    let (unrecorded, recorded) = (of(&|pair| pair.unrecorded.wall_ns), of(&|pair| pair.recorded.wall_ns));
    let (cpu_before, cpu_after) = (of(&|pair| pair.unrecorded.cpu_ns), of(&|pair| pair.recorded.cpu_ns));
    let is_counted = cpu_before.iter().chain(&cpu_after).all(|ns| *ns >= CPU_NS_MIN);
    let events = median(&of(&|pair| pair.recording.events));
    let recorded_ns = median(&recorded);
    WayReport {
        name: way.name.clone(),
        options: way.options.clone(),
        rounds: pairs.len() as u32,
        unrecorded_ns: median(&unrecorded),
        recorded_ns,
        unrecorded_deviation_percent: deviation_percent(&unrecorded),
        recorded_deviation_percent: deviation_percent(&recorded),
        time_ratio: ratio(&recorded, &unrecorded),
        cpu_ratio: is_counted.then(|| ratio(&cpu_after, &cpu_before)),
        events,
        events_per_s: events / Duration::from_nanos(recorded_ns as u64).as_secs_f64().max(1e-9),
        trace_bytes: median(&of(&|pair| pair.recording.bytes)),
        discarded_events: pairs.iter().map(|pair| pair.recording.discarded_events).sum(),
    }
}

/// The standard deviation in percent of the mean; 0 of one value.
fn deviation_percent(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    match values.len() {
        0 | 1 => 0.0,
        _ => (squares / (count - 1.0)).sqrt() / mean * 100.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_is_that_of_runs_beside_each_other() {
        let run = |wall_ns| Run {
            wall_ns,
            cpu_ns: 1000 * wall_ns,
        };
        let pair = |before, after, events| Pair {
            unrecorded: run(before),
            recorded: run(after),
            recording: Recording {
                events,
                bytes: 10 * events,
                discarded_events: 1,
            },
        };
        let way = Way {
            name: "a way".into(),
            options: Vec::new(),
        };
        // The machine was half as fast for a while.
        let pairs = [
            pair(1_000_000, 1_100_000, 50),
            pair(2_000_000, 2_200_000, 52),
            pair(1_000_000, 1_100_000, 54),
        ];
        let report = report_of(&way, &pairs);
        assert!((report.time_ratio.value - 1.1).abs() < 1e-9, "{report:?}");
        assert!(report.time_ratio.high.expect("known") < 1.11, "{report:?}");
        assert!((report.cpu_ratio.expect("counted").value - 1.1).abs() < 1e-9);
        assert_eq!((report.unrecorded_ns, report.recorded_ns), (1e6, 1.1e6));
        assert!((report.unrecorded_deviation_percent - 43.3).abs() < 0.1, "{report:?}");
        assert_eq!(
            (report.events, report.trace_bytes, report.discarded_events),
            (52.0, 520.0, 3)
        );
        assert!((report.events_per_s - 52.0 / 1.1e-3).abs() < 1e-3);
        let without_cpu = [Pair {
            unrecorded: Run { wall_ns: 5, cpu_ns: 0 },
            ..pair(5, 6, 1)
        }];
        let report = report_of(&way, &without_cpu);
        assert!(report.cpu_ratio.is_none() && report.time_ratio.low.is_none());
    }
}
