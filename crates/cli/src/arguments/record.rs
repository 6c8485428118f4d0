// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `piste record`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, ValueEnum, ValueHint};

use crate::arguments::ProbeOptions;
use crate::call_stack::{self, StackChoice};
use crate::channel_options::{ChannelOptions, KernelRingOptions};
use crate::filtered::{FilteredPattern, FilteredPatterns};
use crate::ids::parse_id;
use crate::preset::{self, Preset};
use crate::quantity::parse_duration;
use crate::tracked::TrackedOptions;

/// Record a command, running processes or the whole system
///
/// Runs CMD with the stdin, stdout and stderr of this command, and exits with CMD's status. Records only CMD and everything it starts: their
/// own events, and what the kernel does for them. Without CMD, -a records the whole system and -p records the kernel events of running
/// processes. Recording ends when the time of -d has passed, when the last process of -p ends, or when you press Ctrl-C. The summary goes
/// to stderr.
#[derive(Args)]
#[command(
    // The rings of the kernel have options of their own here.
    mut_arg("subbuf_size", |size| size.help("Size of a sub-buffer, a power of two: 64K, 1M [default: 256K]")),
    mut_arg("num_subbuf", |count| count.help("Number of sub-buffers in each ring, a power of two [default: 4]")),
    // What was asked for by name, and may have call stacks.
    group = ArgGroup::new("named").args(["kernel", "uprobe", "uretprobe", "usdt", "kprobe", "kretprobe"]).multiple(true),
    override_usage = "piste record [OPTIONS] [--] CMD [ARG]...\n       piste record [OPTIONS] -a | -p PID",
    after_help = "\
Exit status: CMD's (0 without CMD), or
  128 + N  if signal N killed CMD
  127      if CMD was not found
  126      if CMD cannot be executed
  125      if piste failed
  90       with --fail-on-loss, if CMD succeeded but something was lost or a
           program was not recorded

Examples:
  piste record -- ./shop
  piste record -u 'shop:*' -x 'shop:debug_*' -o trace -- ./shop --port 80
  piste record -u 'shop:order' --filter 'price > 1000' -- ./shop
  piste record --preload libc,pthread -- python3 script.py
  piste record --preset io -k 'ext4:*' -- make
  piste record --preset sched --uprobe './shop:sell order->id' -- ./shop
  piste record -a -d 10s"
)]
pub(crate) struct Record {
    /// Write the trace to DIR, which must be new or empty [default: ./piste-YYYYmmdd-HHMMSS]
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) output: Option<PathBuf>,
    /// Exclude matching events of programs
    #[arg(short = 'x', long = "exclude", value_name = "PATTERN", value_delimiter = ',')]
    pub(crate) excluded: Vec<String>,
    /// Load a helper into CMD to record more events: libc (heap calls), libc-callers (the same, with the caller), pthread (locks), dl (libraries
    /// loaded and unloaded), functions (entries and exits, if built with -finstrument-functions)
    #[arg(long, value_name = "HELPER", value_delimiter = ',', requires = "command")]
    pub(crate) preload: Vec<String>,
    /// Do not record events of programs
    #[arg(long, conflicts_with_all = ["userspace", "excluded", "preload", "no_kernel"])]
    pub(crate) no_user: bool,
    /// Record the whole system, not only CMD and what it starts
    #[arg(short, long)]
    pub(crate) all_system: bool,
    /// Stop recording after DURATION: 500ms, 10s, 2min; CMD keeps running [default: no limit]
    #[arg(short, long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) duration: Option<Duration>,
    /// Record the kernel events of these processes and of what they start, until the last of these processes ends; with -u, also record events of
    /// these programs
    #[arg(short, long = "pid", value_name = "PID", value_delimiter = ',', value_parser = parse_id::<u32>, conflicts_with_all = ["command", "all_system"])]
    pub(crate) pids: Vec<u32>,
    /// Keep the newest events in memory, and write a snapshot of them to disk when WHEN happens: SIGUSR1 (sent to piste), exit (of CMD; without CMD,
    /// the end of the recording), or an event of a program: shop:late, 'shop:late if latency_ns > 5000000'
    #[arg(long, value_name = "WHEN", value_parser = parse_moments)]
    pub(crate) snapshot_on: Vec<Moments>,
    /// Write the summary to FILE as JSON
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) summary: Option<PathBuf>,
    /// Print a more detailed summary
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// Exit with status 90 if CMD succeeded but an event or packet was lost, or a program was not recorded
    #[arg(long)]
    pub(crate) fail_on_loss: bool,
    /// At the end, print what stands out in the kernel trace, unless the trace is larger than 64 MiB (see `piste insights`)
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto")]
    pub(crate) insights: Tell,
    /// At the end, open the trace in the browser, and serve it until you press Ctrl-C (see `piste web`)
    #[arg(long)]
    pub(crate) web: bool,
    /// Command to record, with its arguments
    #[arg(value_name = "CMD", required_unless_present_any = ["all_system", "pids"], trailing_var_arg = true, allow_hyphen_values = true, value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,
    #[command(flatten)]
    pub(crate) kernel: KernelOptions,
    #[command(flatten)]
    pub(crate) channel: ChannelOptions,
}

impl Record {
    /// Patterns of events of programs.
    pub(crate) fn user_patterns(&self) -> Vec<String> {
        let patterns = self.kernel.tracepoints.userspace.iter();
        patterns.map(|one| one.pattern.clone()).collect()
    }

    /// Whether a snapshot is taken then.
    pub(crate) fn has_snapshot_on(&self, when: &SnapshotOn) -> bool {
        self.snapshot_on.iter().any(|moments| moments.0.contains(when))
    }

    /// The events of programs on which a snapshot is taken.
    pub(crate) fn snapshot_events(&self) -> impl Iterator<Item = &FilteredPattern> {
        let all = self.snapshot_on.iter().flat_map(|moments| &moments.0);
        all.filter_map(|when| match when {
            SnapshotOn::Event(event) => Some(event),
            SnapshotOn::Signal | SnapshotOn::Exit => None,
        })
    }
}

/// What is recorded of the kernel.
#[derive(Args)]
#[command(next_help_heading = "Kernel options")]
pub(crate) struct KernelOptions {
    #[command(flatten)]
    pub(crate) tracepoints: FilteredPatterns,
    /// Record a set of kernel events [default: sched,syscalls,irq, unless -k, --syscall or a probe is given]
    #[arg(long = "preset", value_name = "NAME", value_delimiter = ',', value_parser = preset::parser())]
    pub(crate) presets: Vec<&'static Preset>,
    #[command(flatten)]
    pub(crate) probes: ProbeOptions,
    /// Record the call stack of each event of -k and of probes: kernel, user or kernel,user; append :DEPTH to limit the number of frames:
    /// kernel:8
    #[arg(long, value_name = "STACKS[:DEPTH]", value_parser = call_stack::parse_choice, requires = "named")]
    pub(crate) callstack: Option<StackChoice>,
    /// Do not record kernel events
    #[arg(long, conflicts_with_all = ["named", "syscall", "presets", "pids"])]
    pub(crate) no_kernel: bool,
    #[command(flatten)]
    pub(crate) tracked: TrackedOptions,
    #[command(flatten)]
    pub(crate) rings: KernelRingOptions,
}

/// When a snapshot is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SnapshotOn {
    /// When SIGUSR1 is sent to piste.
    Signal,
    /// When CMD has ended; without CMD, when the recording ends.
    Exit,
    /// On a matching event of a program.
    Event(FilteredPattern),
}

/// The value of one `--snapshot-on`.
#[derive(Clone, Debug)]
pub(crate) struct Moments(Vec<SnapshotOn>);

/// `SIGUSR1,exit,shop:late`, or `shop:late if latency_ns > 5000000`: a filter may contain commas.
fn parse_moments(text: &str) -> Result<Moments, String> {
    let event = |pattern: &str, filter: Option<&str>| {
        SnapshotOn::Event(FilteredPattern {
            pattern: pattern.trim().into(),
            filter: filter.map(|filter| filter.trim().into()),
        })
    };
    if let Some((pattern, filter)) = text.split_once(" if ") {
        return Ok(Moments(vec![event(pattern, Some(filter))]));
    }
    let moment = |word: &str| match word.to_ascii_lowercase().as_str() {
        "sigusr1" | "usr1" => Ok(SnapshotOn::Signal),
        "exit" => Ok(SnapshotOn::Exit),
        _ if word.contains([':', '*']) => Ok(event(word, None)),
        _ => Err(
            "write SIGUSR1, exit, or an event of a program (PROVIDER:EVENT, optionally followed by `if FILTER`)"
                .to_owned(),
        ),
    };
    text.split(',').map(moment).collect::<Result<_, _>>().map(Moments)
}

/// When to say what stands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Tell {
    /// Only on a terminal
    Auto,
    /// Even if stderr is not a terminal
    Always,
    /// Never
    Never,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(pattern: &str, filter: Option<&str>) -> SnapshotOn {
        SnapshotOn::Event(FilteredPattern {
            pattern: pattern.into(),
            filter: filter.map(str::to_owned),
        })
    }

    #[test]
    fn snapshots_are_taken_at_moments_and_on_events() {
        let parsed = |text| parse_moments(text).map(|moments| moments.0);
        assert_eq!(parsed("usr1,EXIT"), Ok(vec![SnapshotOn::Signal, SnapshotOn::Exit]));
        assert_eq!(
            parsed("exit,shop:late"),
            Ok(vec![SnapshotOn::Exit, event("shop:late", None)])
        );
        assert_eq!(
            parsed("shop:late if who == \"a,b\" && x > 1"),
            Ok(vec![event("shop:late", Some("who == \"a,b\" && x > 1"))])
        );
        for wrong in ["", "exi", "exit,late", "exit,"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }
}
