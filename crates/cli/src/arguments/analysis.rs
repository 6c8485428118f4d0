// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `insights`, `analyze` and `diff`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use piste_analysis::analysis::Who;
use piste_trace::rows::Column;

use super::reading::ProgressOption;
use super::selection::{RangeOptions, TIMES_HELP, WhoseOptions};
use crate::moment;

/// Show what stands out in a trace: losses, long interrupts and waits, throttling, convoys, busy threads
///
/// The most important first, each with its numbers, its time, and the command that looks closer.
#[derive(Args)]
#[command(after_help = format!("{TIMES_HELP}\n\nExit status: 0; 1 when no trace can be read, or none is of a kernel."))]
pub(crate) struct Insights {
    /// Folders with traces of one machine, at any depth
    #[arg(value_name = "TRACE", required = true, value_hint = ValueHint::DirPath)]
    pub(crate) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) range: RangeOptions,
    #[command(flatten)]
    pub(crate) progress: ProgressOption,
}

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
    /// For flame: print call paths as lines `a;b;c COST`, which speedscope and flamegraph.pl read
    #[arg(long, conflicts_with_all = ["json", "csv"])]
    pub(crate) folded: bool,
    /// Only this table
    #[arg(long, value_name = "NAME")]
    pub(crate) table: Option<String>,
    #[command(flatten)]
    pub(crate) range: RangeOptions,
    #[command(flatten)]
    pub(crate) whose: WhoseOptions,
    #[command(flatten)]
    pub(crate) cgroups: CgroupOption,
    #[command(flatten)]
    pub(crate) periods: PeriodsOptions,
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

/// Show what is different between two traces: for one analysis, or what changed most over all
///
/// Rows are matched by name: of threads, system calls, CPUs. Times come first, then counts, each with the largest changes first.
#[derive(Args)]
#[command(after_help = "Exit status: 0; 1 when a trace cannot be read, or lacks the events that the analysis needs.")]
pub(crate) struct Diff {
    /// Folder with the trace before
    #[arg(value_name = "BEFORE", value_hint = ValueHint::DirPath)]
    pub(crate) before: PathBuf,
    /// Folder with the trace after
    #[arg(value_name = "AFTER", value_hint = ValueHint::DirPath)]
    pub(crate) after: PathBuf,
    /// Name of the analysis [default: all]
    pub(crate) name: Option<String>,
    /// Print the changes as CSV
    #[arg(long, conflicts_with = "json")]
    pub(crate) csv: bool,
    /// Only this table
    #[arg(long, value_name = "NAME")]
    pub(crate) table: Option<String>,
    #[command(flatten)]
    pub(crate) whose: WhoseOptions,
    #[command(flatten)]
    pub(crate) cgroups: CgroupOption,
    #[command(flatten)]
    pub(crate) periods: PeriodsOptions,
    /// Only so many changes of times, and as many of counts
    #[arg(long, value_name = "COUNT")]
    pub(crate) limit: Option<usize>,
    /// Sums for each second of a trace, also when both are of commands
    #[arg(long, conflicts_with = "as_is")]
    pub(crate) per_second: bool,
    /// Sums as they are, also when the traces are of the whole system for some time
    #[arg(long)]
    pub(crate) as_is: bool,
    #[command(flatten)]
    pub(crate) progress: ProgressOption,
}

/// What `periods` is about.
#[derive(Args)]
pub(crate) struct PeriodsOptions {
    /// For periods: events that fulfil EXPR begin one: 'name == "shop:begin"' (see docs/reference/filter.md)
    #[arg(long, value_name = "EXPR", requires = "end_event")]
    pub(crate) begin_event: Option<String>,
    /// For periods: events that fulfil EXPR end one
    #[arg(long, value_name = "EXPR", requires = "begin_event")]
    pub(crate) end_event: Option<String>,
    /// For periods: fields that are the same at both ends, written as in filters
    #[arg(long, value_name = "FIELD", value_delimiter = ',', default_value = "$tid", value_parser = Column::parse)]
    pub(crate) by: Vec<Column>,
    /// For periods: fields of the first event, whose values are told apart
    #[arg(long, value_name = "FIELD", value_delimiter = ',', value_parser = Column::parse)]
    pub(crate) capture: Vec<Column>,
}

/// Which the state dump of a trace has.
#[derive(Args)]
pub(crate) struct CgroupOption {
    /// Only processes of such control groups and of those below: '/system.slice/*'.
    #[arg(long = "cgroup", value_name = "PATTERN", value_delimiter = ',')]
    cgroups: Vec<String>,
}

impl CgroupOption {
    /// Together with the other choices of threads.
    pub(crate) fn who(&self, whose: &WhoseOptions) -> Who {
        Who {
            cgroups: self.cgroups.clone(),
            ..whose.who()
        }
    }
}
