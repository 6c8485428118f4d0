// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `analyze`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::reading::ProgressOption;
use super::selection::{RangeOptions, TIMES_HELP, WhoseOptions};
use crate::moment;

/// Answer a question about a trace: where the time went, who waited for what
///
/// Without a name, all analyses are listed.
#[derive(Args)]
#[command(after_help = format!("{TIMES_HELP}\n\nExit status: 0; 1 when no trace can be read, or it lacks the events that the analysis needs."))]
pub(crate) struct Analyze {
    /// Name of the analysis
    pub(crate) name: Option<String>,
    /// Folders with traces of one machine, at any depth
    #[arg(value_name = "TRACE", requires = "name", value_hint = ValueHint::DirPath)]
    pub(crate) paths: Vec<PathBuf>,
    /// Print the tables as CSV, with an empty line between two
    #[arg(long, conflicts_with = "json")]
    pub(crate) csv: bool,
    /// Only this table
    #[arg(long, value_name = "NAME")]
    pub(crate) table: Option<String>,
    #[command(flatten)]
    pub(crate) range: RangeOptions,
    #[command(flatten)]
    pub(crate) whose: WhoseOptions,
    /// Only so many rows of a table
    #[arg(long, value_name = "COUNT")]
    pub(crate) limit: Option<usize>,
    /// Only calls, waits and interrupts that took this long or longer: 100us
    #[arg(long = "min", value_name = "TIME", value_parser = moment::parse_length)]
    pub(crate) min_ns: Option<i64>,
    /// Only those that took this long or less
    #[arg(long = "max", value_name = "TIME", value_parser = moment::parse_length)]
    pub(crate) max_ns: Option<i64>,
    #[command(flatten)]
    pub(crate) progress: ProgressOption,
}
