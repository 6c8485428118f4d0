// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `trim` and `export`, which write traces and what other tools read.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

use super::reading::ProgressOption;
use super::selection::{SelectionOptions, TIMES_HELP};

/// Write a part of a trace as a smaller trace
///
/// Of the events, those that `piste view` shows with the same options; losses keep their places.
#[derive(Args)]
#[command(after_help = format!("{TIMES_HELP}\n\nExit status: 0, or 1 when the trace cannot be read or written; 130 when Ctrl-C ended it, and nothing is written."))]
pub(crate) struct Trim {
    /// Folder with traces, at any depth
    #[arg(value_name = "TRACE", value_hint = ValueHint::DirPath)]
    pub(crate) path: PathBuf,
    /// Folder for the new trace: a new or empty one
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) selection: SelectionOptions,
    #[command(flatten)]
    pub(crate) progress: ProgressOption,
}

/// Write traces in a form that other tools read
#[derive(Args)]
#[command(after_help = format!("{TIMES_HELP}\n\nExit status: 0, or 1 when the trace cannot be read or written; 130 when Ctrl-C ended it, and nothing is written."))]
pub(crate) struct Export {
    /// Folders with traces, at any depth
    #[arg(value_name = "TRACE", required = true, value_hint = ValueHint::DirPath)]
    pub(crate) paths: Vec<PathBuf>,
    /// What to write
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Format,
    /// File for it, which is replaced, or `-` for stdout; a new or empty folder for ctf1, ctf2 and parquet
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::AnyPath)]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) selection: SelectionOptions,
    #[command(flatten)]
    pub(crate) progress: ProgressOption,
}

/// What is written.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A trace of Perfetto, for ui.perfetto.dev and its trace processor
    Perfetto,
    /// Trace events in JSON, for chrome://tracing, Perfetto and Speedscope
    Chrome,
    /// One JSON document with every event and its fields
    Json,
    /// A trace in CTF 1.8
    Ctf1,
    /// A trace in CTF 2
    Ctf2,
    /// A folder of Parquet files, which DuckDB, pyarrow and Spark read as one table
    Parquet,
}
