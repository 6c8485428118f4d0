// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `piste strace`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgAction, Args, ValueEnum, ValueHint};

use crate::ids::parse_id;

/// Print system calls of a command or process, as strace does
///
/// Runs CMD, prints its system calls to stderr, and exits with CMD's status. A BPF program records the calls, and `piste` prints them shortly
/// afterwards. CMD is not stopped at each call, so tracing adds about half a microsecond to a call instead of the tens of microseconds that
/// strace adds. Calls that are not printed yet wait in a temporary trace in $TMPDIR, which is deleted at the end. If calls are lost, their
/// number is reported at the end. Requires root, or membership in the group `tracing`.
#[derive(Args)]
#[command(
    override_usage = "piste strace [OPTIONS] [--] CMD [ARG]...\n       piste strace [OPTIONS] -p PID",
    after_help = "\
Exit status: the same as for `piste record`

Examples:
  piste strace ls
  piste strace -f -e trace=file make
  piste strace -c -S calls -p 1234
  piste strace -tt -T -e openat,read -o calls.txt ./shop"
)]
pub(crate) struct Strace {
    /// Also print the calls of processes and threads that CMD starts
    #[arg(short = 'f', long)]
    pub(crate) follow_forks: bool,
    /// Trace running processes and their new children, until they end or you press Ctrl-C
    #[arg(short = 'p', long = "attach", value_name = "PID", value_delimiter = ',', value_parser = parse_id::<u32>, conflicts_with = "command")]
    pub(crate) pids: Vec<u32>,
    /// Print only these system calls: names, or classes (%file, %network, %process, %desc, %signal, %memory, %ipc); with `!` in front, all others
    #[arg(short = 'e', long = "trace", value_name = "[trace=]SET")]
    pub(crate) traced: Vec<String>,
    /// Print what each file descriptor stands for: `3</etc/passwd>`
    #[arg(short = 'y', long)]
    pub(crate) decode_fds: bool,
    /// Print at most N bytes of each string (up to 4096); file names are always printed in full
    #[arg(short = 's', long = "string-limit", value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(..=4096))]
    pub(crate) string_limit: u16,
    /// Write the calls to FILE
    #[arg(short = 'o', long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// Prefix each line with the time of day (-tt: with microseconds; -ttt: seconds since 1970)
    #[arg(short = 't', long, action = ArgAction::Count)]
    pub(crate) time: u8,
    /// Prefix each line with the time since the previous line
    #[arg(short = 'r', long, conflicts_with = "time")]
    pub(crate) relative_timestamps: bool,
    /// Print how long each call took
    #[arg(short = 'T', long)]
    pub(crate) syscall_times: bool,
    /// Print only a summary table of calls, times and errors
    #[arg(short = 'c', long)]
    pub(crate) summary_only: bool,
    /// Sort the table of -c
    #[arg(
        short = 'S',
        long,
        value_enum,
        value_name = "BY",
        default_value = "time",
        requires = "summary_only"
    )]
    pub(crate) summary_sort_by: SortBy,
    /// Command to trace, with its arguments
    #[arg(value_name = "CMD", required_unless_present = "pids", trailing_var_arg = true, allow_hyphen_values = true, value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,
}

/// By what a table is sorted.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SortBy {
    /// The longest time first
    Time,
    /// The most calls first
    Calls,
    /// The most errors first
    Errors,
    /// By name
    Name,
}
