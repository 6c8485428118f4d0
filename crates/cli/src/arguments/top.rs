// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `piste top`.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

use super::selection::{RangeOptions, TIMES_HELP};
use crate::moment;

/// Show what the system is doing: CPUs, threads, calls, I/O
///
/// Follows a running session that records the kernel, or shows a finished trace, either as a whole or one interval after another. On a terminal,
/// shows a screen that you control with keys; press `?` for help. Otherwise, or with -n, prints tables.
#[derive(Args)]
#[command(after_help = format!("{TIMES_HELP}\n\nExit status: 0, or 1 if there is no running session or no kernel trace that can be read."))]
pub(crate) struct Top {
    /// Name of a running session, or folder to search for traces of one machine [default: the running session, if there is exactly one]
    #[arg(value_name = "SESSION|TRACE", value_hint = ValueHint::AnyPath)]
    pub(crate) source: Option<PathBuf>,
    /// Print COUNT intervals and exit
    #[arg(short = 'n', long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// Length of an interval, in seconds or with a unit: 0.5, 200ms [default: 1s; for a trace, about a hundredth of it]
    #[arg(long = "interval", value_name = "DURATION", value_parser = parse_interval)]
    pub(crate) interval_ns: Option<i64>,
    /// Sort threads by this column
    #[arg(long, value_enum, value_name = "COLUMN", default_value = "cpu")]
    pub(crate) sort: Sort,
    /// In printed output, show at most COUNT rows of each table [default: 20]
    #[arg(long, value_name = "COUNT")]
    pub(crate) limit: Option<usize>,
    #[command(flatten)]
    pub(crate) range: RangeOptions,
}

/// What threads are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sort {
    /// Time on a CPU
    Cpu,
    /// Time waited for a CPU
    Waited,
    /// Longest wait for a CPU
    Worst,
    /// Time blocked
    Blocked,
    /// System calls
    Calls,
    /// Bytes read by system calls
    Read,
    /// Bytes written by system calls
    Written,
    /// Thread ID
    Tid,
    /// Name of the thread
    Name,
}

impl Sort {
    /// The key of the column.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Sort::Cpu => "cpu_percent",
            Sort::Waited => "waited_ns",
            Sort::Worst => "longest_wait_ns",
            Sort::Blocked => "blocked_percent",
            Sort::Calls => "syscalls",
            Sort::Read => "read_bytes",
            Sort::Written => "written_bytes",
            Sort::Tid => "tid",
            Sort::Name => "comm",
        }
    }
}

/// The shortest: closing an interval takes time for each thread of the system.
const INTERVAL_MIN_NS: i64 = 1_000_000;

fn parse_interval(text: &str) -> Result<i64, String> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let ns = match is_number {
        true => moment::parse_length(&format!("{text}s")),
        false => moment::parse_length(text),
    }?;
    match ns {
        ns if ns < INTERVAL_MIN_NS => Err("too short; the shortest interval is 1ms".into()),
        ns => Ok(ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_seconds_unless_they_have_a_unit() {
        for (text, ns) in [("1", 1_000_000_000), ("0.5", 500_000_000), ("200ms", 200_000_000)] {
            assert_eq!(parse_interval(text), Ok(ns), "{text}");
        }
        for text in ["", "0", "-1", "1us", "a"] {
            assert!(parse_interval(text).is_err(), "{text}");
        }
    }
}
