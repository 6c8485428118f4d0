// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `stats`, and what commands that read traces have in common.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{ArgAction, Args, ValueHint};

use super::selection::{SelectionOptions, TIMES_HELP};
use crate::ids::parse_thread_count;

/// Count events by name and stream, and count losses
///
/// Losses are always those of the whole trace, whichever events you select.
#[derive(Args)]
#[command(after_help = format!("{TIMES_HELP}\n\nExit status: 0; 1 if no trace can be read; 2 if the arguments are wrong."))]
pub(crate) struct Stats {
    /// Folders to search for traces, including subfolders, or trace.dat files
    #[arg(value_name = "TRACE", required = true, value_hint = ValueHint::AnyPath)]
    pub(crate) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) selection: SelectionOptions,
    /// Also count by process, which takes longer
    #[arg(long)]
    pub(crate) processes: bool,
    /// Count with N threads [default: one per CPU]; always one with --processes or with options that select events
    #[arg(long, value_name = "N", value_parser = parse_thread_count)]
    pub(crate) threads: Option<NonZeroUsize>,
    #[command(flatten)]
    pub(crate) page: PageOptions,
    #[command(flatten)]
    pub(crate) progress: ProgressOption,
}

/// Describe traces: tracer, host, clocks, times, streams, events
///
/// Exit status: 0, or 1 if no trace can be read.
#[derive(Args)]
pub(crate) struct Info {
    /// Folders to search for traces, including subfolders, or trace.dat files
    #[arg(value_name = "TRACE", required = true, value_hint = ValueHint::AnyPath)]
    pub(crate) paths: Vec<PathBuf>,
    /// Show matching events with all their fields, instead of the streams; `*` matches any text
    #[arg(short, long, value_name = "PATTERN", value_delimiter = ',')]
    pub(crate) events: Vec<String>,
    #[command(flatten)]
    pub(crate) page: PageOptions,
    #[command(flatten)]
    pub(crate) progress: ProgressOption,
}

/// Of commands whose result may be longer or wider than the terminal.
#[derive(Args, Default)]
pub(crate) struct PageOptions {
    /// Show all columns and do not shorten text, even if the lines do not fit the terminal
    #[arg(long)]
    pub(crate) wide: bool,
    #[command(flatten)]
    pub(crate) pager: PagerOption,
}

/// Of commands whose result may be longer than the terminal.
#[derive(Args, Default)]
pub(crate) struct PagerOption {
    /// Write directly to the terminal, not to a pager
    #[arg(long)]
    pub(crate) no_pager: bool,
}

/// Of commands that may take long.
#[derive(Args)]
pub(crate) struct ProgressOption {
    /// Do not show a progress bar, even on a terminal
    #[arg(long = "no-progress", action = ArgAction::SetFalse)]
    pub(crate) wanted: bool,
}
