// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `piste view`.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use piste_trace::rows::Column;

use super::reading::{PagerOption, ProgressOption};
use super::selection::{SelectionOptions, TIMES_HELP};
use super::symbols::SymbolOptions;

/// Show the events of traces in time order, in several formats
///
/// Reads traces of any tracer that writes CTF 1.8 or CTF 2. Reports losses and damage on stderr at the end.
#[derive(Args)]
#[command(after_help = format!("{TIMES_HELP}\n\nExit status: 0; 1 if no trace can be read; 2 if the arguments are wrong; 130 if Ctrl-C ended --follow."))]
pub(crate) struct View {
    /// Folders to search for traces, including subfolders, or trace.dat files; with --follow, also the name of a session
    #[arg(value_name = "TRACE", required = true, value_hint = ValueHint::AnyPath)]
    pub(crate) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) selection: SelectionOptions,
    /// Show only the first COUNT events
    #[arg(short = 'n', long, value_name = "COUNT")]
    pub(crate) count: Option<u64>,
    /// Write events in this format; --json is the same as ndjson
    #[arg(
        long,
        value_enum,
        value_name = "FORMAT",
        default_value = "text",
        conflicts_with = "json"
    )]
    pub(crate) format: ViewFormat,
    /// Show only these fields of each event, named as in filters: `ret,inner.x,$ctx.vtid,$pid`
    #[arg(long, value_name = "FIELD", value_delimiter = ',', value_parser = Column::parse)]
    pub(crate) fields: Vec<Column>,
    #[command(flatten)]
    pub(crate) symbols: SymbolOptions,
    /// Show times in this form; combine values with commas: `date,utc`
    #[arg(long, value_enum, value_name = "CLOCK", value_delimiter = ',')]
    pub(crate) clock: Vec<Clock>,
    /// Keep showing new events until the session stops or you press Ctrl-C
    #[arg(long, conflicts_with_all = ["end", "symbols"])]
    pub(crate) follow: bool,
    /// Colour the text
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: Color,
    #[command(flatten)]
    pub(crate) pager: PagerOption,
    #[command(flatten)]
    pub(crate) progress: ProgressOption,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ViewFormat {
    /// Lines like those of babeltrace2
    Text,
    /// One JSON object per line
    Ndjson,
    /// One row per event, with a column for each field that events have
    Csv,
    /// System calls as strace prints them
    Strace,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Clock {
    /// Time of day (the default)
    Time,
    /// Date and time of day
    Date,
    /// Seconds since 1970, or since the clock's origin
    Seconds,
    /// Raw value of the clock
    Cycles,
    /// UTC instead of local time
    Utc,
    /// Do not show the time since the previous event
    NoDelta,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// Only on a terminal, and only if `NO_COLOR` is not set
    Auto,
    /// Even if stdout is not a terminal
    Always,
    /// Never
    Never,
}
