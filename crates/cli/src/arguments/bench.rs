// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `piste bench`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

use super::reading::PageOptions;

/// Measure what an event costs with each tracer on this machine
///
/// Measures the tracers in turn, in several rounds. Measures events of programs without a tracer and with Piste, LTTng-UST, trace_marker,
/// user_events, USDT and uprobe; measures system calls with tracefs, Piste, LTTng, perf, BPF, sysdig, SystemTap and strace. Lists the tracers that
/// are not installed, with what to install. Loads no kernel module except SystemTap's own. Compiles the measured programs on this machine, so a C
/// compiler is needed; tracing the kernel needs root. Takes a few minutes. Press Ctrl-C to stop early and get the results of the repetitions that are
/// complete.
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true,
    override_usage = "piste bench [OPTIONS] [PEER]...\n       piste bench compare [OPTIONS] BEFORE AFTER\n       piste bench overhead [OPTIONS] -- COMMAND...",
    after_help = "Examples:
  sudo piste bench
  sudo piste bench piste lttng prototype --threads 1,2
  piste bench -o bench.html
  piste bench -o before.json
  piste bench compare before.json after.json

Exit status: 0, or 1 if nothing was measured or a tracer that is installed did not run."
)]
pub(crate) struct Bench {
    #[command(subcommand)]
    pub(crate) action: Option<BenchAction>,
    /// Measure only these peers or rows (see --list), and the rows that they are compared with
    #[arg(value_name = "PEER")]
    pub(crate) peers: Vec<String>,
    /// Measure nothing; list what can be measured
    #[arg(long, conflicts_with_all = ["peers", "quick", "threads", "processes", "payload", "names", "csv", "output"])]
    pub(crate) list: bool,
    /// Only check that every tracer runs; this is too short for usable figures
    #[arg(long)]
    pub(crate) quick: bool,
    /// Record from COUNT threads at the same time, each on its own CPU, such as 1,2
    #[arg(long, value_name = "COUNT", value_delimiter = ',', default_value = "1", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) threads: Vec<u32>,
    /// Also record from COUNT processes at the same time, each with one thread on its own CPU, such as 2
    #[arg(long, value_name = "COUNT", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(2..=64))]
    pub(crate) processes: Vec<u32>,
    /// Also measure events with BYTES of payload, such as 16,64,1024, without a tracer, with Piste and with LTTng-UST
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=16384))]
    pub(crate) payload: Vec<u32>,
    /// Also measure the system call openat with file names of BYTES, such as 16,256,1024,4000
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(16..=4095))]
    pub(crate) names: Vec<u32>,
    /// Print the results as CSV
    #[arg(long, conflicts_with = "json")]
    pub(crate) csv: bool,
    /// Also write the results to FILE: a page with pictures if its name ends in .html, Markdown for .md, CSV for .csv, else JSON; can be repeated
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) page: PageOptions,
}

/// What else can be done.
#[derive(Subcommand)]
pub(crate) enum BenchAction {
    /// Measure what recording adds to a command: time, CPU time, trace size
    ///
    /// Runs the command repeatedly, in turn without and with recording, and does not show its output. The command must succeed. It should take about
    /// the same time in each run, and at least a second, so that small differences show.
    #[command(after_help = "Examples:
  sudo piste bench overhead -- make -B
  piste bench overhead --record '--no-kernel' --rounds 20 -- ./server --self-test
  sudo piste bench overhead --record '-a --preset sched' --record '-a --preset sched,syscalls' -- sort big.txt

Exit status: 0, or 1 if the command or a recording fails.")]
    Overhead {
        /// Record with these options of `piste record`, given as one argument; can be repeated [default: no options, and for root also '-a --no-user
        /// --preset ltt']
        #[arg(long = "record", value_name = "OPTIONS", allow_hyphen_values = true, value_parser = parse_options)]
        ways: Vec<RecordOptions>,
        /// Measure each kind of recording COUNT times
        #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
        rounds: u32,
        /// Command to run, with its arguments
        #[arg(last = true, required = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
        job: Vec<OsString>,
        #[command(flatten)]
        page: PageOptions,
    },
    /// Compare two results, and show which differences are significant
    Compare {
        /// Results of `piste bench --json` or `-o FILE.json`
        #[arg(value_name = "BEFORE", value_hint = ValueHint::FilePath)]
        before: PathBuf,
        /// Results to compare with BEFORE, in the same format
        #[arg(value_name = "AFTER", value_hint = ValueHint::FilePath)]
        after: PathBuf,
        #[command(flatten)]
        page: PageOptions,
    },
}

/// Options of `piste record`, which one word of the command line holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecordOptions(pub(crate) Vec<String>);

fn parse_options(text: &str) -> Result<RecordOptions, String> {
    shlex::split(text)
        .map(RecordOptions)
        .ok_or_else(|| "unmatched quotation mark".to_owned())
}

/// `piste time-command`: what `piste bench overhead` runs its command with.
#[derive(Args)]
pub(crate) struct TimeCommand {
    /// File for the times
    pub(crate) output: PathBuf,
    /// Command to run
    #[arg(last = true, required = true)]
    pub(crate) command: Vec<OsString>,
}
