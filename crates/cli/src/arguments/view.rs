// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `piste view`.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use piste_trace::rows::Column;

use super::reading::ProgressOption;
use super::selection::{SelectionOptions, TIMES_HELP};

/// Show the events of traces as text, JSON or CSV, in the order of their times
///
/// Reads traces of any tracer that writes CTF 1.8 or CTF 2. What is lost or damaged is said on stderr at the end.
#[derive(Args)]
#[command(after_help = format!("{TIMES_HELP}\n\nExit status: 0; 1 when no trace can be read; 2 for wrong arguments."))]
pub(crate) struct View {
    /// Folders with traces, at any depth; with --follow, also the name of a session
    #[arg(value_name = "TRACE", required = true, value_hint = ValueHint::DirPath)]
    pub(crate) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) selection: SelectionOptions,
    /// Only so many events
    #[arg(short = 'n', long, value_name = "COUNT")]
    pub(crate) count: Option<u64>,
    /// How events are written; --json is the same as ndjson
    #[arg(
        long,
        value_enum,
        value_name = "FORMAT",
        default_value = "text",
        conflicts_with = "json"
    )]
    pub(crate) format: ViewFormat,
    /// Only these fields of each event, written as in filters: `ret,inner.x,$ctx.vtid,$pid`
    #[arg(long, value_name = "FIELD", value_delimiter = ',', value_parser = Column::parse)]
    pub(crate) fields: Vec<Column>,
    /// How times are shown, also several: `date,utc`
    #[arg(long, value_enum, value_name = "CLOCK", value_delimiter = ',')]
    pub(crate) clock: Vec<Clock>,
    /// Go on as the trace grows, until its session stops, or Ctrl-C
    #[arg(long, conflicts_with = "end")]
    pub(crate) follow: bool,
    /// Whether text is coloured
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: Color,
    /// Write to the terminal, not to a pager
    #[arg(long)]
    pub(crate) no_pager: bool,
    #[command(flatten)]
    pub(crate) progress: ProgressOption,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ViewFormat {
    /// Lines as babeltrace2's
    Text,
    /// A JSON object a line
    Ndjson,
    /// A row an event, a column for each field that events have
    Csv,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Clock {
    /// The time of day; as long as nothing else is said
    Time,
    /// Day and time of day
    Date,
    /// Seconds since 1970, or since the clock's origin
    Seconds,
    /// The clock's own count
    Cycles,
    /// In UTC, not in the local time zone
    Utc,
    /// Without what passed since the event before
    NoDelta,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless `NO_COLOR` is set
    Auto,
    /// Also in files and pipes
    Always,
    /// Not at all
    Never,
}
