// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options that say which events of traces are meant, alike for every command that reads events.

use clap::Args;
use jiff::tz::TimeZone;
use piste_analysis::analysis::Who;
use piste_trace::rows::Column;
use piste_trace::select::{Filter, Selection, absent};
use piste_trace::{Span, Trace};

use crate::failure::{Failure, USAGE, pointed_at};
use crate::ids::parse_id;
use crate::moment::{self, Moment};
use crate::screen::{printable, tell_sentence};

/// How the times of `--begin` and `--end` are written.
pub(crate) const TIMES_HELP: &str = "TIME is a time of day (09:41:07.5), a date and time ('2026-11-22 09:41:07'), nanoseconds since 1970, or relative to the trace: +1.5s after its start, -200ms before its end.";

#[derive(Args)]
pub(crate) struct SelectionOptions {
    #[command(flatten)]
    pub(crate) range: RangeOptions,
    /// Include only events with matching names; `*` matches any text
    #[arg(short, long = "event", value_name = "PATTERN", value_delimiter = ',')]
    pub(crate) events: Vec<String>,
    /// Include only events that satisfy EXPR: 'ret < 0 && filename =~ "/etc/*"' (see piste-filter(7))
    #[arg(long, value_name = "EXPR")]
    pub(crate) filter: Option<String>,
    #[command(flatten)]
    pub(crate) whose: WhoseOptions,
}

/// A part of time.
#[derive(Args)]
pub(crate) struct RangeOptions {
    /// Ignore everything before TIME
    #[arg(long, value_name = "TIME", value_parser = moment::parse, allow_hyphen_values = true)]
    begin: Option<Moment>,
    /// Ignore everything after TIME
    #[arg(long, value_name = "TIME", value_parser = moment::parse, allow_hyphen_values = true)]
    end: Option<Moment>,
}

/// Threads and CPUs.
#[derive(Args)]
pub(crate) struct WhoseOptions {
    /// Include only these processes
    #[arg(long = "pid", value_name = "PID", value_delimiter = ',', value_parser = parse_id::<i64>)]
    pub(crate) pids: Vec<i64>,
    /// Include only these threads
    #[arg(long = "tid", value_name = "TID", value_delimiter = ',', value_parser = parse_id::<i64>)]
    pub(crate) tids: Vec<i64>,
    /// Include only threads with matching names; `*` matches any text
    #[arg(long = "comm", value_name = "PATTERN", value_delimiter = ',')]
    pub(crate) comms: Vec<String>,
    /// Include only these CPUs
    #[arg(long = "cpu", value_name = "CPU", value_delimiter = ',', value_parser = parse_id::<u64>)]
    pub(crate) cpus: Vec<u64>,
}

impl WhoseOptions {
    /// The same for analyses.
    pub(crate) fn who(&self) -> Who {
        Who {
            pids: self.pids.clone(),
            tids: self.tids.clone(),
            comms: self.comms.clone(),
            cgroups: Vec::new(),
            cpus: self.cpus.clone(),
        }
    }
}

impl SelectionOptions {
    /// What they mean for some traces.
    pub(crate) fn selection(&self, traces: &[Trace], zone: impl Fn() -> TimeZone) -> Result<Selection, Failure> {
        Ok(Selection {
            span: self.range.span(traces, zone)?,
            events: self.events.clone(),
            filter: self.filter.as_deref().map(filter).transpose()?,
            pids: self.whose.pids.clone(),
            tids: self.whose.tids.clone(),
            comms: self.whose.comms.clone(),
            cpus: self.whose.cpus.clone(),
        })
    }
}

impl RangeOptions {
    /// Not all of the time is meant.
    pub(crate) fn is_given(&self) -> bool {
        self.begin.is_some() || self.end.is_some()
    }

    /// The part of time that is meant, for some traces. The zone is asked for by times of day alone: finding it takes a millisecond.
    pub(crate) fn span(&self, traces: &[Trace], zone: impl Fn() -> TimeZone) -> Result<Span, Failure> {
        let ns = |option: &str, moment: Option<Moment>, otherwise: i64| {
            let Some(moment) = moment else { return Ok(otherwise) };
            moment.ns(Span::of(traces), &zone).ok_or_else(|| {
                Failure::new(format!(
                    "cannot use {option}: the trace has no begin and end time, or there is no such time"
                ))
            })
        };
        let begin_ns = ns("--begin", self.begin, i64::MIN)?;
        let end_ns = ns("--end", self.end, i64::MAX)?;
        if begin_ns > end_ns {
            return Err(Failure::with_status("--begin is later than --end; swap them", USAGE));
        }
        Ok(Span { begin_ns, end_ns })
    }
}

/// Says on stderr what the traces cannot have of what is asked for.
pub(crate) fn tell_absent(traces: &[Trace], selection: &Selection, columns: &[Column]) {
    for sentence in absent(traces, selection, columns) {
        tell_sentence(&printable(&sentence));
    }
}

/// An expression.
pub(crate) fn filter(text: &str) -> Result<Filter, Failure> {
    Filter::parse(text).map_err(|error| {
        let place = pointed_at(text, error.position as i64);
        Failure::with_status(
            format!("the filter is invalid: {}\n{place}", printable(&error.reason)),
            USAGE,
        )
    })
}
