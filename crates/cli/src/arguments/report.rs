// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `report`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::reading::ProgressOption;
use super::selection::{RangeOptions, TIMES_HELP};

/// Write a report of a trace as one HTML page, for a ticket
///
/// The page shows what was recorded and what was lost, what stands out (as piste insights lists it, with a timeline of each result), and tables of
/// the most important analyses. It is one file of at most 2 MiB that loads nothing, runs no scripts, and can be printed.
#[derive(Args)]
#[command(after_help = format!("{TIMES_HELP}\n\nExit status: 0; 1 if the trace cannot be read or the page cannot be written; 130 if Ctrl-C ended it, in which case nothing is written."))]
pub(crate) struct Report {
    /// Folders to search for traces of one machine, including subfolders, or trace.dat files
    #[arg(value_name = "TRACE", required = true, value_hint = ValueHint::AnyPath)]
    pub(crate) paths: Vec<PathBuf>,
    /// File to write, which is replaced if it exists, or `-` for stdout
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,
    /// Title of the page [default: the host and the time of the trace]
    #[arg(long, value_name = "TEXT")]
    pub(crate) title: Option<String>,
    #[command(flatten)]
    pub(crate) range: RangeOptions,
    #[command(flatten)]
    pub(crate) progress: ProgressOption,
}
