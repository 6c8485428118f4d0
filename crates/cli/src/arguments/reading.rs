// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `stats`, and what commands that read traces have in common.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{ArgAction, Args, ValueHint};

use super::selection::{SelectionOptions, TIMES_HELP};
use crate::ids::parse_thread_count;

/// Count the events of traces, by their names, streams and processes, and what is lost
///
/// What is lost is counted for the whole trace, whichever events are chosen.
#[derive(Args)]
#[command(after_help = format!("{TIMES_HELP}\n\nExit status: 0; 1 when no trace can be read; 2 for wrong arguments."))]
pub(crate) struct Stats {
    /// Folders with traces, at any depth
    #[arg(value_name = "TRACE", required = true, value_hint = ValueHint::DirPath)]
    pub(crate) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) selection: SelectionOptions,
    /// Count for each process as well; takes longer
    #[arg(long)]
    pub(crate) processes: bool,
    /// How many threads count, when all events are counted and no processes [default: one for each CPU]
    #[arg(long, value_name = "N", value_parser = parse_thread_count)]
    pub(crate) threads: Option<NonZeroUsize>,
    #[command(flatten)]
    pub(crate) progress: ProgressOption,
}

/// Show what traces are: tracer, host, clocks, times, streams, events with their fields
///
/// Exit status: 0, or 1 when no trace can be read.
#[derive(Args)]
pub(crate) struct Info {
    /// Folders with traces, at any depth
    #[arg(value_name = "TRACE", required = true, value_hint = ValueHint::DirPath)]
    pub(crate) paths: Vec<PathBuf>,
    /// The events that match with all their fields, instead of the streams; `*` stands for any text
    #[arg(short, long, value_name = "PATTERN", value_delimiter = ',')]
    pub(crate) events: Vec<String>,
    #[command(flatten)]
    pub(crate) progress: ProgressOption,
}

/// Of commands that may take long.
#[derive(Args)]
pub(crate) struct ProgressOption {
    /// Show no progress bar, also on a terminal
    #[arg(long = "no-progress", action = ArgAction::SetFalse)]
    pub(crate) wanted: bool,
}
