// SPDX-License-Identifier: MIT OR Apache-2.0
//! The figures of a run, as `piste bench --json` prints them and `piste bench compare` reads them: `bench` in docs/reference/schemas.json.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use crate::statistics::Estimate;

/// The format that [`Report::format`] says.
pub const FORMAT: u32 = 1;
/// How sure the intervals of a report are.
pub const CONFIDENCE: f64 = 0.95;

/// Everything that a run measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// [`FORMAT`].
    pub format: u32,
    /// When it began: nanoseconds since 1970, in digits.
    pub begin_ns: String,
    /// How it was asked for.
    pub command: Vec<String>,
    /// What it ran on.
    pub machine: Machine,
    /// How much was measured.
    pub method: Method,
    /// How well single events can be measured.
    pub clock: SampleClock,
    /// What was counted.
    pub counters: Counters,
    /// Whether the CPUs ran as fast as they can.
    pub state: State,
    /// The figures, in the order of the tables.
    pub rows: Vec<Row>,
    /// Peers that this machine does not have.
    pub absent: Vec<Absent>,
    /// Peers that it has, and that did not run.
    pub failed: Vec<Failed>,
    /// Ctrl-C ended it early.
    pub was_interrupted: bool,
}

/// What a run ran on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// The model of the processor.
    pub processor: String,
    /// How many CPUs the run could use.
    pub cpus: u32,
    /// The kernel's release.
    pub kernel: String,
    /// Whether the CPUs are those of a virtual machine.
    pub is_virtual: bool,
    /// Versions of what took part, by name.
    pub versions: BTreeMap<String, String>,
}

/// How much was measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Method {
    /// It only shows that everything runs.
    pub is_quick: bool,
    /// How often everything was set up anew, with new processes, and measured.
    pub repetitions: u32,
    /// Rounds of each row in a repetition.
    pub rounds: u32,
    /// How long a round was meant to take.
    pub round_ns: u64,
    /// Events that were measured alone, of each row.
    pub samples: u64,
}

/// The clock around single events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SampleClock {
    /// How often it ticks in a second.
    pub tick_hz: f64,
    /// How far samples of nothing lie apart: 90 % are within so long, and no clock is better than its ticks.
    pub resolution_ns: f64,
    /// What reading it twice takes, which is in each sample: the median of samples of nothing.
    pub cost_ns: f64,
}

/// What was counted during rounds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counters {
    /// Names, as rows have them.
    pub names: Vec<String>,
    /// Why those of the processor are missing, or limited.
    pub lack: Option<String>,
}

/// Whether the CPUs ran as fast as they can. A pass is a round of each row; a loop of known work before and after it shows how fast the CPU is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// Passes over the rows of programs' events, and blocks of rounds of a tracer of system calls.
    pub passes: u32,
    /// Those in which the CPU was slower than it can be, or was taken away by the hypervisor.
    pub disturbed: u32,
    /// The loop of known work, for each of its steps: the fastest one.
    pub reference_min_ns: f64,
    /// Its median.
    pub reference_median_ns: f64,
    /// The slowest one.
    pub reference_max_ns: f64,
    /// What the hypervisor took from all CPUs meanwhile, as far as the kernel counts it.
    pub steal_ns: u64,
}

/// What is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// An event of a program.
    Events,
    /// A system call that does nothing, with the events of its entry and its return.
    Calls,
    /// A part of an event of a program: from its beginning to the end of a step.
    Steps,
}

/// Which clock the time of an event is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowClock {
    /// The CPU time of the thread.
    Cpu,
    /// The wall time: the thread waits for the tracer.
    Wall,
}

/// The figures of one way of recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Its name, as the command line has it.
    pub name: String,
    /// The peer that it is part of.
    pub peer: String,
    /// Its name in tables.
    pub title: String,
    /// What is recorded.
    pub group: Group,
    /// How many threads of each process recorded at the same time.
    pub threads: u32,
    /// How many processes recorded at the same time.
    pub processes: u32,
    /// How many bytes of fields an event had.
    pub payload_bytes: u32,
    /// The clock of [`Row::time_ns`].
    pub clock: RowClock,
    /// The time of an event: the geometric mean of the medians of the repetitions, with its interval.
    pub time_ns: Estimate,
    /// The fastest round.
    pub min_ns: f64,
    /// The round that 95 % are not slower than.
    pub p95_ns: f64,
    /// The same of the CPU time.
    pub cpu_ns: f64,
    /// The same of the wall time.
    pub wall_ns: f64,
    /// The median of the rounds of each repetition.
    pub repetitions_ns: Vec<f64>,
    /// How many times the time of the row `floor` that is, or of `call` in the group of system calls; absent without that row.
    pub to_floor: Option<Estimate>,
    /// How many times the time of the row `piste`, or what `piste-kernel` adds to a call.
    pub to_piste: Option<Estimate>,
    /// What a call takes more than an untraced one: the mean of the repetitions.
    pub added_ns: Option<f64>,
    /// The step that the row ends with; absent if it is not in the group of steps.
    pub step: Option<EventStep>,
    /// Measured events.
    pub events: u64,
    /// Rounds in which another thread took the CPU.
    pub preempted_rounds: u32,
    /// Rounds that are in the figures.
    pub rounds: u32,
    /// Disturbed rounds are in the figures, because most rounds were.
    pub uses_disturbed: bool,
    /// What was counted, for each event. Counters of the processor are missing if a tracer works in another process.
    pub counters: BTreeMap<String, f64>,
    /// Events that were measured alone.
    pub samples: Option<Samples>,
    /// Events in the recording that was looked at; absent if the row records nothing.
    pub recorded_events: Option<u64>,
    /// Of those that it should have recorded meanwhile, those that found no space.
    pub discarded_events: u64,
}

/// A step of an event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventStep {
    /// Its name.
    pub name: String,
    /// How much longer an event takes with it than if it ends before. Those of all steps add up to the time of the event. Less than 0 if the two
    /// differ by less than they vary.
    pub added_ns: Estimate,
}

/// Events that were measured alone. The clock's own time is in each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Samples {
    /// How many.
    pub count: u64,
    /// Long ones before which, since the long one before them, or during which another thread or an interrupt came; they are in the figures.
    pub interrupted: u64,
    /// The smallest one.
    pub min_ns: f64,
    /// Percentiles.
    pub percentiles: Vec<Percentile>,
    /// The largest one.
    pub max_ns: f64,
}

/// The value that so many do not exceed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Percentile {
    /// How many.
    pub percent: f64,
    /// The value.
    pub ns: f64,
}

/// A peer that this machine does not have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Absent {
    /// Its name.
    pub peer: String,
    /// What is missing.
    pub reason: String,
    /// How to get it.
    pub remedy: Option<String>,
}

/// A peer that did not run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failed {
    /// Its name.
    pub peer: String,
    /// What failed.
    pub reason: String,
}
