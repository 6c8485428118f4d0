// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `trim`, `import` and `export`, which write traces and what other tools read.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

use super::reading::ProgressOption;
use super::selection::{SelectionOptions, TIMES_HELP};
use super::symbols::SymbolOptions;

/// Write part of a trace as a smaller trace
///
/// Writes the events that `piste view` shows with the same options. Losses stay where they occurred: the packets that are written keep their counts
/// of lost events and packets.
#[derive(Args)]
#[command(after_help = format!("{TIMES_HELP}\n\nExit status: 0; 1 if the trace cannot be read or written; 130 if Ctrl-C ended it, in which case nothing is written."))]
pub(crate) struct Trim {
    /// Folder to search for traces, including subfolders, or a trace.dat file
    #[arg(value_name = "TRACE", value_hint = ValueHint::AnyPath)]
    pub(crate) path: PathBuf,
    /// Write the new trace to DIR, which must be new or empty
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) selection: SelectionOptions,
    #[command(flatten)]
    pub(crate) progress: ProgressOption,
}

/// Convert another tracer's file to a trace folder
///
/// Reads trace.dat files of trace-cmd, versions 6 and 7. Commands that read traces also read such files directly: they import them into a
/// temporary folder, in $TMPDIR or /tmp, and remove it when they end. Import a file that you want to read more than once.
#[derive(Args)]
#[command(after_help = "\
Example: piste import trace.dat -o trace && piste insights trace

Exit status: 0; 1 if the file cannot be read or the trace cannot be written; 130 if Ctrl-C ended it, in which case nothing is written.")]
pub(crate) struct Import {
    /// File of another tracer
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Write the trace to DIR, which must be new or empty
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) progress: ProgressOption,
}

/// Write traces in a format that other tools read
#[derive(Args)]
#[command(after_help = format!("{TIMES_HELP}\n\nExit status: 0; 1 if the trace cannot be read or written; 130 if Ctrl-C ended it, in which case nothing is written."))]
pub(crate) struct Export {
    /// Folders to search for traces, including subfolders, or trace.dat files
    #[arg(value_name = "TRACE", required = true, value_hint = ValueHint::AnyPath)]
    pub(crate) paths: Vec<PathBuf>,
    /// Format to write
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Format,
    /// File to write, which is replaced if it exists, or `-` for stdout; for ctf1, ctf2 and parquet, a folder, which must be new or empty
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::AnyPath)]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) selection: SelectionOptions,
    #[command(flatten)]
    pub(crate) symbols: SymbolOptions,
    #[command(flatten)]
    pub(crate) progress: ProgressOption,
}

/// What is written.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Perfetto trace, for ui.perfetto.dev and the trace processor
    Perfetto,
    /// Chrome trace events in JSON, for chrome://tracing, Perfetto and Speedscope
    Chrome,
    /// One JSON document with every event and its fields
    Json,
    /// CTF 1.8 trace
    Ctf1,
    /// CTF 2 trace
    Ctf2,
    /// Folder of Parquet files, which DuckDB, pyarrow and Spark read as one table
    Parquet,
}
