// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `insights`, `analyze` and `diff`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use piste_analysis::analysis::Who;
use piste_trace::rows::Column;

use super::reading::{PageOptions, ProgressOption};
use super::selection::{RangeOptions, TIMES_HELP, WhoseOptions};
use crate::moment;

/// Show what stands out in a trace, such as loss and long waits
///
/// Looks for losses, long interrupts and waits, throttling, lock convoys, busy threads and more. Lists the most important results first, each
/// with its measurements, its time, and a command that shows the details.
#[derive(Args)]
#[command(after_help = format!("{TIMES_HELP}\n\nExit status: 0, or 1 if no kernel trace can be read."))]
pub(crate) struct Insights {
    /// Folders to search for traces of one machine, including subfolders, or trace.dat files
    #[arg(value_name = "TRACE", required = true, value_hint = ValueHint::AnyPath)]
    pub(crate) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) range: RangeOptions,
    #[command(flatten)]
    pub(crate) page: PageOptions,
    #[command(flatten)]
    pub(crate) progress: ProgressOption,
}

/// Answer a question about a trace, such as where the time went
///
/// Without NAME, lists all analyses.
#[derive(Args)]
#[command(after_help = format!("{TIMES_HELP}\n\nExit status: 0, or 1 if no trace can be read or the events that the analysis needs are missing."))]
pub(crate) struct Analyze {
    /// Name of the analysis; `piste analyze` lists the names
    pub(crate) name: Option<String>,
    /// Folders to search for traces of one machine, including subfolders, or trace.dat files
    #[arg(value_name = "TRACE", requires = "name", value_hint = ValueHint::AnyPath)]
    pub(crate) paths: Vec<PathBuf>,
    /// Print the tables as CSV, separated by empty lines
    #[arg(long, conflicts_with = "json")]
    pub(crate) csv: bool,
    /// For flame: print call paths as lines `a;b;c COST`, for speedscope and flamegraph.pl
    #[arg(long, conflicts_with_all = ["json", "csv"])]
    pub(crate) folded: bool,
    /// Print only this table of the analysis; an unknown name lists the tables
    #[arg(long, value_name = "TABLE")]
    pub(crate) table: Option<String>,
    #[command(flatten)]
    pub(crate) range: RangeOptions,
    #[command(flatten)]
    pub(crate) whose: WhoseOptions,
    #[command(flatten)]
    pub(crate) cgroups: CgroupOption,
    #[command(flatten)]
    pub(crate) periods: PeriodsOptions,
    /// Print at most COUNT rows of each table [default: 20; for some tables, more]
    #[arg(long, value_name = "COUNT")]
    pub(crate) limit: Option<usize>,
    /// Include only calls, waits and interrupts that took at least DURATION: 100us
    #[arg(long = "min", value_name = "DURATION", value_parser = moment::parse_length)]
    pub(crate) min_ns: Option<i64>,
    /// Include only calls, waits and interrupts that took at most DURATION
    #[arg(long = "max", value_name = "DURATION", value_parser = moment::parse_length)]
    pub(crate) max_ns: Option<i64>,
    #[command(flatten)]
    pub(crate) page: PageOptions,
    #[command(flatten)]
    pub(crate) progress: ProgressOption,
}

/// Show the differences between two traces
///
/// With NAME, compares the results of one analysis; without NAME, shows what changed most in all analyses. Rows are matched by the names of threads,
/// system calls and CPUs. Lists changes of times first, then changes of counts, with the largest first in each list.
#[derive(Args)]
#[command(after_help = "Exit status: 0, or 1 if a trace cannot be read or lacks the events that the analysis needs.")]
pub(crate) struct Diff {
    /// Folder that contains the trace from before the change
    #[arg(value_name = "BEFORE", value_hint = ValueHint::AnyPath)]
    pub(crate) before: PathBuf,
    /// Folder that contains the trace from after the change
    #[arg(value_name = "AFTER", value_hint = ValueHint::AnyPath)]
    pub(crate) after: PathBuf,
    /// Name of the analysis [default: all]
    pub(crate) name: Option<String>,
    /// Print the differences as CSV
    #[arg(long, conflicts_with = "json")]
    pub(crate) csv: bool,
    /// Print only this table of the analysis; an unknown name lists the tables
    #[arg(long, value_name = "TABLE")]
    pub(crate) table: Option<String>,
    #[command(flatten)]
    pub(crate) whose: WhoseOptions,
    #[command(flatten)]
    pub(crate) cgroups: CgroupOption,
    #[command(flatten)]
    pub(crate) periods: PeriodsOptions,
    /// Print at most COUNT changes of times and COUNT changes of counts [default: 20]
    #[arg(long, value_name = "COUNT")]
    pub(crate) limit: Option<usize>,
    /// Divide sums by the duration of their trace before comparing [default if a trace covers the whole system]
    #[arg(long, conflicts_with = "as_is")]
    pub(crate) per_second: bool,
    /// Compare sums without dividing them [default if both traces are of commands]
    #[arg(long)]
    pub(crate) as_is: bool,
    #[command(flatten)]
    pub(crate) page: PageOptions,
    #[command(flatten)]
    pub(crate) progress: ProgressOption,
}

/// What `periods` is about.
#[derive(Args)]
pub(crate) struct PeriodsOptions {
    /// For periods: begin a period at each event that satisfies EXPR: 'name == "shop:begin"' (see piste-filter(7))
    #[arg(long, value_name = "EXPR", requires = "end_event")]
    pub(crate) begin_event: Option<String>,
    /// For periods: end a period at an event that satisfies EXPR
    #[arg(long, value_name = "EXPR", requires = "begin_event")]
    pub(crate) end_event: Option<String>,
    /// For periods: end a period at the next end event in which these fields, named as in filters, have the same values as in the begin event
    #[arg(long, value_name = "FIELD", value_delimiter = ',', default_value = "$tid", value_parser = Column::parse)]
    pub(crate) by: Vec<Column>,
    /// For periods: group the periods by the values that these fields have in the begin event
    #[arg(long, value_name = "FIELD", value_delimiter = ',', value_parser = Column::parse)]
    pub(crate) capture: Vec<Column>,
    /// For periods: also list the N longest periods (1 to 1000), and show what their threads did during them
    #[arg(long, value_name = "N", requires = "end_event", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) top: Option<u16>,
}

/// Which the state dump of a trace has.
#[derive(Args)]
pub(crate) struct CgroupOption {
    /// Include only processes in matching control groups or in groups below them: '/system.slice/*'
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
