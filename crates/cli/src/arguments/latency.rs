// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `piste latency`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum, ValueHint};
use piste_latency::load::Kind;

use super::reading::PageOptions;
use crate::{moment, quantity};

/// Measure how long this machine can delay a thread
///
/// Runs a loop on each chosen CPU and measures, on each turn, how long something took that should take no time. On a terminal, shows the figures
/// during the measurement. Press Ctrl-C to stop early and get the results so far. Also lists the settings of the machine that add latency.
#[derive(Args)]
#[command(after_help = "Examples:
  sudo piste latency timer --policy fifo:80 --duration 1min
  sudo piste latency timer --policy fifo:80 --threshold 50us
  sudo piste latency gaps --cpus 2-3 --threshold 20us
  sudo piste latency wakeup --load all --cpus 1
  sudo piste latency timer --fail-above 100us --duration 10min --prepare --cpus 2-3
  sudo piste latency timer --policy fifo:80 --html latency.html
  piste latency program --event shop:asked --end-event shop:answered --threshold 5ms
  sudo piste latency npt --policy fifo:80 --tracer none,piste,lttng --reader timer,wake
  sudo piste latency npt --policy fifo:80 --tracer piste,lttng --find-rate
  piste latency --preflight

Exit status: 0; 1 on failure; 91 if something took longer than --fail-above.")]
pub(crate) struct Latency {
    /// Loop to run
    #[arg(value_enum, value_name = "LOOP", default_value = "npt")]
    pub(crate) kind: LoopKind,
    /// Measure on these CPUs, such as 0-3,8, with one thread on each [default: all that piste may use]
    #[arg(long, value_name = "LIST", value_parser = parse_cpus)]
    pub(crate) cpus: Option<CpuList>,
    /// Scheduling policy of the loops: other, fifo:PRIORITY, rr:PRIORITY, deadline or deadline:RUNTIME/PERIOD [default: other; wakeup: fifo:80 if
    /// allowed]
    #[arg(long, value_name = "POLICY", value_parser = parse_policy)]
    pub(crate) policy: Option<PolicyChoice>,
    /// Stop after this time; not for event [default: 10s; no limit with --loops, or if --threshold stops the measurement]
    #[arg(long, value_name = "DURATION", value_parser = parse_positive)]
    pub(crate) duration: Option<Duration>,
    /// Stop each loop after COUNT turns; event: record COUNT events in all rounds together [default for event: 1000000]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) loops: Option<u64>,
    /// Do not count the first COUNT turns [default: 5]
    #[arg(long, value_name = "COUNT")]
    pub(crate) warm_up: Option<u32>,
    /// timer, wakeup, timerlat: time between wake-ups, 10us to 1s [default: 1ms]
    #[arg(long, value_name = "DURATION", value_parser = parse_interval)]
    pub(crate) interval: Option<Duration>,
    /// Stop at the first value that is at least this long, and explain it; gaps: continue, and report each such value [default for gaps: 10us]
    #[arg(long, value_name = "DURATION", value_parser = parse_positive)]
    pub(crate) threshold: Option<Duration>,
    /// wakeup: wake the threads from this CPU [default: each from its own CPU]
    #[arg(long, value_name = "CPU")]
    pub(crate) from: Option<u32>,
    /// npt, timer, wakeup: with --threshold, continue, and explain the N longest values at the end
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=100), requires = "threshold")]
    pub(crate) worst: Option<u8>,
    /// program: measure the time from this event of a program, `provider:event`
    #[arg(short, long, value_name = "EVENT")]
    pub(crate) event: Option<String>,
    /// program: measure the time to this event on the same thread
    #[arg(long, value_name = "EVENT")]
    pub(crate) end_event: Option<String>,
    /// With --threshold, write the flight recorder's snapshots to this folder [default: piste-TIME]
    #[arg(short, long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub(crate) output: Option<PathBuf>,
    /// npt, event, gaps, wakeup: clock that the loop reads
    #[arg(long, value_enum, value_name = "CLOCK", default_value = "auto")]
    pub(crate) clock: ClockOption,
    /// npt, event: start at most N turns per second, evenly spaced [default for event: 1000000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub(crate) max_rate: Option<u64>,
    /// npt, event: record events with each of these tracers, and compare the tracers [default: none; event: none,piste]
    #[arg(long, value_enum, value_name = "TRACERS", value_delimiter = ',')]
    pub(crate) tracer: Vec<TracerOption>,
    /// With tracers, choose how the tracer's consumer learns of events [default: timer]
    #[arg(long, value_enum, value_name = "READERS", value_delimiter = ',')]
    pub(crate) reader: Vec<ReaderOption>,
    /// With --tracer, give each event fields of this many bytes [default: 4]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=4096), requires = "tracer")]
    pub(crate) payload: Option<u32>,
    /// With tracers, size of a sub-buffer, a power of two: 64K, 1M [default: 1M; event: 64K]
    #[arg(long, value_name = "SIZE", value_parser = parse_subbuf_size)]
    pub(crate) subbuf_size: Option<u64>,
    /// With tracers, number of sub-buffers in each ring, a power of two [default: 8; event: 16]
    #[arg(long, value_name = "N", value_parser = parse_subbuf_count)]
    pub(crate) num_subbuf: Option<u32>,
    /// With --tracer, search for the highest rate of events at which none is lost
    #[arg(long, requires = "tracer")]
    pub(crate) find_rate: bool,
    /// With --find-rate, also record events of the kernel [default: none]
    #[arg(long, value_enum, value_name = "EVENTS", requires = "find_rate")]
    pub(crate) with_kernel: Option<KernelOption>,
    /// Keep the machine busy during the measurement: all, or some of cpu,memory,disk,fork,network; or stress-ng:ARGUMENTS
    #[arg(long, value_name = "LOADS", value_parser = parse_loads)]
    pub(crate) load: Vec<LoadChoices>,
    /// Run the loads on these CPUs, one load of each kind on each CPU [default: all that piste may use; with --prepare, those that are not measured]
    #[arg(long, value_name = "LIST", value_parser = parse_cpus, requires = "load")]
    pub(crate) load_cpus: Option<CpuList>,
    /// Isolate the measured CPUs and move interrupts away from them; restore everything afterwards
    #[arg(long, conflicts_with = "preflight")]
    pub(crate) prepare: bool,
    /// Measure nothing; restore the settings that a killed run with --prepare left behind
    #[arg(long, conflicts_with_all = ["prepare", "preflight"])]
    pub(crate) restore: bool,
    /// Exit with status 91 if something took longer than DURATION
    #[arg(long, value_name = "DURATION", value_parser = parse_positive)]
    pub(crate) fail_above: Option<Duration>,
    /// Print only a histogram up to this many microseconds, in the layout of cyclictest -h
    #[arg(long, value_name = "MICROSECONDS", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) histogram: Option<u32>,
    /// Also write the percentiles to FILE, in the format that HdrHistogram plots (.hgrm)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) hdr: Option<PathBuf>,
    /// Also write the distributions to FILE, in HdrHistogram's log format (.hlog), which tools in many languages read
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) hdr_log: Option<PathBuf>,
    /// Also draw plots into FILE: a histogram, percentiles and the largest values over time
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) svg: Option<PathBuf>,
    /// Also write a report to FILE: one page with the machine, the settings, tables and plots
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) html: Option<PathBuf>,
    /// Measure nothing; show the settings of the machine that add latency, and how to fix them
    #[arg(long)]
    pub(crate) preflight: bool,
    #[command(flatten)]
    pub(crate) page: PageOptions,
}

/// What a loop does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LoopKind {
    /// Read the clock repeatedly, and measure the gaps
    Npt,
    /// Sleep, and measure how late the thread wakes up
    Timer,
    /// Like npt, but also report each long gap and its cause
    Gaps,
    /// Let a thread of lower priority wake a thread, and measure how long that takes
    Wakeup,
    /// Let the kernel's tracer timerlat measure how late timers and threads are
    Timerlat,
    /// Let the kernel's tracer osnoise measure how much time something takes from a thread
    Osnoise,
    /// Record single events with each tracer, and measure how long each event takes: the worst case of one event
    Event,
    /// Wait until a program takes too long from one of its events to another, and explain why
    Program,
}

/// Which clock is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ClockOption {
    /// The TSC if it can be used, else CLOCK_MONOTONIC
    Auto,
    /// The time stamp counter of x86-64
    Tsc,
    /// CLOCK_MONOTONIC
    Monotonic,
}

/// Who records the event of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TracerOption {
    /// No tracer: no event is recorded
    None,
    /// Piste
    Piste,
    /// LTTng-UST
    Lttng,
    /// The kernel, with a probe at a function
    Uprobe,
}

/// How a tracer's consumer learns of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReaderOption {
    /// The consumer checks every millisecond
    Timer,
    /// The writer wakes the consumer when a sub-buffer is full
    Wake,
}

/// Events of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum KernelOption {
    /// None
    None,
    /// System calls
    Syscalls,
    /// All
    All,
}

/// CPUs in ascending order; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CpuList(pub(crate) Vec<u32>);

/// A scheduling policy; the budget of a deadline may depend on the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PolicyChoice {
    Other,
    Fifo(u8),
    RoundRobin(u8),
    Deadline(Option<(Duration, Duration)>),
}

/// A load that keeps the machine busy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LoadChoice {
    All,
    Kind(Kind),
    /// The arguments of stress-ng.
    StressNg(Vec<String>),
}

/// Loads of one option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoadChoices(pub(crate) Vec<LoadChoice>);

/// `piste generate-load`: what `piste latency` starts for each load.
#[derive(Args)]
pub(crate) struct GenerateLoad {
    /// Process that has started it
    pub(crate) parent: u32,
    /// CPUs to run on
    pub(crate) cpus: String,
    /// Kind of load
    #[arg(long)]
    pub(crate) kind: Option<String>,
    /// Generators of its kind
    #[arg(long, default_value_t = 1)]
    pub(crate) sharing: u64,
    /// Become stress-ng
    #[arg(long)]
    pub(crate) stress_ng: bool,
    /// Arguments of stress-ng
    #[arg(last = true)]
    pub(crate) arguments: Vec<OsString>,
}

fn parse_loads(text: &str) -> Result<LoadChoices, String> {
    const ALL: &str = "all, cpu, memory, disk, fork, network, or stress-ng:ARGUMENTS";
    if let Some(arguments) = text.strip_prefix("stress-ng:") {
        let arguments: Vec<String> = arguments.split_whitespace().map(str::to_owned).collect();
        return match arguments.is_empty() {
            true => Err("the arguments of stress-ng are missing; write for example 'stress-ng:--cpu 2 --vm 1'".into()),
            false => Ok(LoadChoices(vec![LoadChoice::StressNg(arguments)])),
        };
    }
    let choice = |name: &str| match name {
        "all" => Ok(LoadChoice::All),
        "stress-ng" => {
            Err("the arguments of stress-ng are missing; write for example 'stress-ng:--cpu 2 --vm 1'".into())
        }
        name => Kind::named(name)
            .map(LoadChoice::Kind)
            .ok_or_else(|| format!("{name:?} is not a load; use {ALL}")),
    };
    text.split(',').map(choice).collect::<Result<_, _>>().map(LoadChoices)
}

fn parse_cpus(text: &str) -> Result<CpuList, String> {
    match piste_latency::cpus::parse(text)? {
        cpus if cpus.is_empty() => Err("the list is empty; write for example 0-3,8".into()),
        cpus => Ok(CpuList(cpus)),
    }
}

fn parse_policy(text: &str) -> Result<PolicyChoice, String> {
    let (name, value) = text
        .split_once(':')
        .map_or((text, None), |(name, value)| (name, Some(value)));
    let priority = || match value.unwrap_or_default().parse() {
        Ok(priority @ 1..=99) => Ok(priority),
        _ => Err(format!(
            "a priority from 1 to 99 is missing; write for example {name}:80"
        )),
    };
    match (name, value) {
        ("other", None) => Ok(PolicyChoice::Other),
        ("fifo", _) => priority().map(PolicyChoice::Fifo),
        ("rr", _) => priority().map(PolicyChoice::RoundRobin),
        ("deadline", None) => Ok(PolicyChoice::Deadline(None)),
        ("deadline", Some(value)) => {
            let (runtime, period) = value
                .split_once('/')
                .ok_or("the period is missing; write for example deadline:200us/1ms")?;
            let (runtime, period) = (parse_positive(runtime)?, parse_positive(period)?);
            match runtime <= period {
                true => Ok(PolicyChoice::Deadline(Some((runtime, period)))),
                false => Err("the runtime is longer than the period".into()),
            }
        }
        _ => Err("not a policy; use other, fifo:80, rr:80, deadline or deadline:200us/1ms".into()),
    }
}

/// A duration longer than 0.
fn parse_positive(text: &str) -> Result<Duration, String> {
    match moment::parse_length(text)? {
        ..=0 => Err("must be longer than 0".into()),
        ns => Ok(Duration::from_nanos(ns.cast_unsigned())),
    }
}

fn parse_subbuf_size(text: &str) -> Result<u64, String> {
    match quantity::parse_size(text)? {
        size if !size.is_power_of_two() => Err("not a power of two".into()),
        size if !(4 << 10..=1 << 30).contains(&size) => Err("must be from 4K to 1G".into()),
        size => Ok(size),
    }
}

fn parse_subbuf_count(text: &str) -> Result<u32, String> {
    let count = text.parse().ok();
    count
        .filter(|count: &u32| count.is_power_of_two() && (2..=4096).contains(count))
        .ok_or_else(|| "must be a power of two from 2 to 4096".into())
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = parse_positive(text)?;
    match interval.as_micros() {
        0..10 => Err("too short; the shortest interval is 10us".into()),
        10..=1_000_000 => Ok(interval),
        _ => Err("too long; the longest interval is 1s".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_have_priorities_or_budgets() {
        for (text, policy) in [
            ("other", PolicyChoice::Other),
            ("fifo:80", PolicyChoice::Fifo(80)),
            ("rr:1", PolicyChoice::RoundRobin(1)),
            ("deadline", PolicyChoice::Deadline(None)),
            (
                "deadline:200us/1ms",
                PolicyChoice::Deadline(Some((Duration::from_micros(200), Duration::from_millis(1)))),
            ),
        ] {
            assert_eq!(parse_policy(text), Ok(policy), "{text}");
        }
        for text in [
            "",
            "fifo",
            "fifo:0",
            "fifo:100",
            "rr:a",
            "other:1",
            "deadline:1ms",
            "deadline:2ms/1ms",
            "batch",
        ] {
            assert!(parse_policy(text).is_err(), "{text}");
        }
    }

    #[test]
    fn loads_are_kinds_or_stress_ng() {
        let parsed = |text| parse_loads(text).map(|choices| choices.0);
        assert_eq!(
            parsed("cpu,disk"),
            Ok(vec![LoadChoice::Kind(Kind::Cpu), LoadChoice::Kind(Kind::Disk)])
        );
        assert_eq!(parsed("all"), Ok(vec![LoadChoice::All]));
        assert_eq!(
            parsed("stress-ng:--cpu 2 --taskset 0,1"),
            Ok(vec![LoadChoice::StressNg(
                ["--cpu", "2", "--taskset", "0,1"].map(String::from).to_vec()
            )])
        );
        for text in ["", "cpus", "cpu,", "stress-ng", "stress-ng:"] {
            assert!(parsed(text).is_err(), "{text}");
        }
    }

    #[test]
    fn intervals_and_lists_have_limits() {
        assert_eq!(parse_interval("1.5ms"), Ok(Duration::from_micros(1500)));
        for text in ["0us", "9us", "1.1s", "1"] {
            assert!(parse_interval(text).is_err(), "{text}");
        }
        assert_eq!(parse_cpus("1,0"), Ok(CpuList(vec![0, 1])));
        assert!(parse_cpus("").is_err());
    }
}
