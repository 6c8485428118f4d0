// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste analyze periods`: from events that fulfil one expression to those that fulfil another. The events are those of any trace, not only of
//! a kernel's: what they mean is not looked at.

use std::ops::Range;

use piste_analysis::analysis::Options;
use piste_analysis::periods::Periods;
use piste_analysis::report::Report;
use piste_progress::Progress;
use piste_trace::merge::Merged;
use piste_trace::rows::{Cells, Column, Form};
use piste_trace::select::{Filter, Selection, Who};
use piste_trace::{Findings, Merge, Span, Trace};

use super::ground::unreadable;
use crate::arguments::{Analyze, filter};
use crate::failure::{Failure, USAGE};

pub(super) const NAME: &str = "periods";
pub(super) const ABOUT: &str = "how long it was from events that you choose to others (--begin-event, --end-event)";

/// Between the texts of a key: no text has it.
const BETWEEN: u8 = 0;

/// Pairs the events of a part of time.
pub(super) fn report(
    arguments: &Analyze,
    options: Options,
    traces: &[Trace],
    span: Span,
    findings: &mut Findings,
) -> Result<(Report, (i64, i64)), Failure> {
    let periods = &arguments.periods;
    let (Some(begin), Some(end)) = (&periods.begin_event, &periods.end_event) else {
        let sentence = "periods needs --begin-event EXPR and --end-event EXPR (see docs/reference/filter.md)";
        return Err(Failure::with_status(sentence, USAGE));
    };
    let selection = |filter: Filter| Selection {
        span,
        filter: Some(filter),
        pids: arguments.whose.pids.clone(),
        tids: arguments.whose.tids.clone(),
        comms: arguments.whose.comms.clone(),
        cpus: arguments.whose.cpus.clone(),
        ..Selection::default()
    };
    let mut begins = selection(filter(begin)?).matcher(traces);
    let mut ends = selection(filter(end)?).matcher(traces);
    let columns: Vec<Column> = periods.by.iter().chain(&periods.capture).cloned().collect();
    let (keys, captures) = (0..periods.by.len(), periods.by.len()..columns.len());
    let mut cells = Cells::new(traces, &columns);
    // Who an event is of may have been said long before.
    let read = Span {
        begin_ns: i64::MIN,
        ..span
    };
    let progress = Progress::of("analyzing", traces, read, arguments.progress.wanted);
    let mut merge = Merge::new(traces, read).map_err(unreadable)?;
    let mut paired = Periods::new(options);
    let mut told: Option<(i64, i64)> = None;
    while let Some(merged) = merge.next() {
        let who = cells.see(&mut merge, &merged);
        let (is_end, is_begin) = (ends.wants(&mut merge, &merged), begins.wants(&mut merge, &merged));
        let Some(ns) = merge.stream(merged.stream).ns(&merged.event) else {
            continue;
        };
        if ns >= span.begin_ns {
            told = Some((told.map_or(ns, |(first, _)| first), ns));
        }
        if !is_end && !is_begin {
            continue;
        }
        let mut texts =
            |places: Range<usize>, between: u8| text(&mut cells, (&mut merge, &merged), &who, places, between);
        let key = texts(keys.clone(), BETWEEN);
        if is_end {
            paired.end(ns, &key);
        }
        if is_begin {
            paired.begin(ns, &key, &texts(captures.clone(), b' '));
        }
    }
    drop(progress);
    findings.extend(std::mem::take(&mut merge.findings));
    Ok((paired.report(), told.unwrap_or_default()))
}

/// The values of some columns; what an event lacks is `-`.
fn text<'t>(
    cells: &mut Cells<'t>,
    (merge, merged): (&mut Merge<'t>, &Merged<'t>),
    who: &Who,
    places: Range<usize>,
    between: u8,
) -> String {
    let mut bytes = Vec::new();
    for (number, place) in places.enumerate() {
        if number > 0 {
            bytes.push(between);
        }
        let begin = bytes.len();
        if !cells.show(place, who, (merge, merged), Form::Csv, &mut bytes) {
            bytes.truncate(begin);
            bytes.push(b'-');
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
