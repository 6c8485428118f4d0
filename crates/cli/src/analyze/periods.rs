// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste analyze periods`: from events that fulfil one expression to those that fulfil another. The events are those of any trace, not only of
//! a kernel's: what they mean is not looked at.

use std::ops::Range;
use std::ptr;

use piste_analysis::analyses::SWITCHES;
use piste_analysis::insights::Closer;
use piste_analysis::periods::{Key, Periods};
use piste_analysis::report::{Report, Table, Value};
use piste_analysis::within::Within;
use piste_ctf::read::plan::EventPlan;
use piste_modelling::{Ground, GroundError, StreamGap, StreamGaps, is_of_kernel, span_read, told_again};
use piste_terminal::progress::Progress;
use piste_trace::merge::Merged;
use piste_trace::rows::{Cells, Column, Form};
use piste_trace::select::{Filter, Matcher, Selection, Who};
use piste_trace::{Findings, Merge, Span, Trace};
use rustc_hash::FxHashMap;

use super::Question;
use crate::arguments::{filter, tell_absent};
use crate::calibrate::RecordingCosts;
use crate::failure::{Failure, USAGE};

pub(super) const NAME: &str = "periods";
pub(super) const ABOUT: &str =
    "the time from one event to another, both of which you choose (--begin-event, --end-event)";

/// Between the texts of a key: no text has it.
const BETWEEN: u8 = 0;

/// Pairs the events of a part of time.
pub(crate) fn report(question: &Question<'_>, findings: &mut Findings) -> Result<(Report, (i64, i64)), Failure> {
    let Question {
        traces,
        span,
        options,
        periods,
        shows_progress,
    } = question;
    let (traces, span, whose) = (*traces, *span, &options.who);
    let (Some(begin), Some(end)) = (&periods.begin_event, &periods.end_event) else {
        let sentence = "periods needs --begin-event EXPR and --end-event EXPR (see piste-filter(7))";
        return Err(Failure::with_status(sentence, USAGE));
    };
    let selection = |filter: Filter| Selection {
        span,
        filter: Some(filter),
        pids: whose.pids.clone(),
        tids: whose.tids.clone(),
        comms: whose.comms.clone(),
        cpus: whose.cpus.clone(),
        ..Selection::default()
    };
    let (begin, end) = (selection(filter(begin)?), selection(filter(end)?));
    let columns: Vec<Column> = periods.by.iter().chain(&periods.capture).cloned().collect();
    tell_absent(traces, &begin, &columns);
    tell_absent(traces, &end, &[]);
    let (mut begins, mut ends) = (begin.matcher(traces), end.matcher(traces));
    let (keys, captures) = (0..periods.by.len(), periods.by.len()..columns.len());
    let mut cells = Cells::new(traces, &columns);
    // Who an event is of may have been said long before.
    let read = Span {
        begin_ns: i64::MIN,
        ..span
    };
    let progress = Progress::of("analyzing", traces, read, *shows_progress);
    let mut merge = Merge::new(traces, read).map_err(GroundError::from)?;
    // Of streams that hold neither begins nor ends, or none that are asked about, nothing is missed.
    let tell = |gap: &StreamGap<'_>, paired: &mut Periods, matchers: [&Matcher<'_>; 2]| {
        let is_on = gap
            .cpu
            .is_none_or(|cpu| whose.cpus.is_empty() || whose.cpus.contains(&cpu));
        let is_of = gap
            .pid
            .is_none_or(|pid| whose.pids.is_empty() || whose.pids.contains(&pid));
        let mut may_want = matchers.iter().map(|matcher| matcher.may_want(gap.trace, gap.class_id));
        let matters = is_on && is_of && gap.end_ns > span.begin_ns && may_want.any(|may_want| may_want);
        gap.tell(span, |lost| {
            if matters {
                paired.lose(lost);
            }
            matters
        })
    };
    let mut gaps = StreamGaps::new(traces);
    let top = periods.top.map_or(0, usize::from);
    let costs = RecordingCosts::of(traces).filter(|_| top > 0);
    let mut paired = Periods::new(options.clone()).with_top(top);
    if costs.is_some() {
        paired = paired.with_costs();
    }
    let mut cost_by_class = CostByClass::default();
    let mut notes = Vec::from_iter(told_again(traces));
    for gap in gaps.known()? {
        let note = tell(&gap, &mut paired, [&begins, &ends]);
        notes.extend(note.filter(|note| !notes.contains(note)));
    }
    let is_keyed_by_process = periods.by.iter().any(Column::tells_the_process);
    let mut told: Option<(i64, i64)> = None;
    while let Some(merged) = merge.next() {
        for gap in merge.blind.drain(..).filter_map(|blind| gaps.of(blind)) {
            tell(&gap, &mut paired, [&begins, &ends]);
        }
        let who = cells.see(&mut merge, &merged);
        let (is_end, is_begin) = (ends.wants(&mut merge, &merged), begins.wants(&mut merge, &merged));
        let Some(ns) = merge.stream(merged.stream).ns(&merged.event) else {
            continue;
        };
        if let (Some(costs), Some(tid)) = (&costs, who.tid) {
            let trace = &traces[merge.trace_of(merged.stream)];
            paired.recorded(tid, cost_by_class.of(costs, trace, merged.event.class));
        }
        if ns >= span.begin_ns {
            told = Some((told.map_or(ns, |(first, _)| first), ns));
        }
        if !is_end && !is_begin {
            continue;
        }
        let mut texts =
            |places: Range<usize>, between: u8| text(&mut cells, (&mut merge, &merged), &who, places, between);
        let text = texts(keys.clone(), BETWEEN);
        let key = Key {
            text: &text,
            pid: who.pid.filter(|_| is_keyed_by_process),
            tid: who.tid,
        };
        if is_end {
            paired.end(ns, key);
        }
        if is_begin {
            paired.begin(ns, key, &texts(captures.clone(), b' '));
        }
    }
    for gap in merge.blind.drain(..).filter_map(|blind| gaps.of(blind)) {
        tell(&gap, &mut paired, [&begins, &ends]);
    }
    drop(progress);
    findings.extend(std::mem::take(&mut merge.findings));
    let mut report = paired.report();
    report.notes.splice(0..0, notes);
    if top > 0 {
        let mut table = longest(question, &mut paired, &mut report.notes, findings)?;
        table.notes.extend(costs.map(|costs| costs.note()));
        report.tables.insert(0, table);
    }
    Ok((report, told.unwrap_or_default()))
}

/// What events cost, by the address of their class, which is another for each class of each stream of each trace.
#[derive(Default)]
struct CostByClass(FxHashMap<usize, f64>);

impl CostByClass {
    fn of(&mut self, costs: &RecordingCosts, trace: &Trace, class: &EventPlan) -> f64 {
        let address = ptr::from_ref(class).addr();
        let cost = || costs.ns(is_of_kernel(trace), &class.name).unwrap_or_default();
        *self.0.entry(address).or_insert_with(cost)
    }
}

/// The longest, with what their threads did, as far as the kernel was recorded, too.
fn longest(
    question: &Question<'_>,
    paired: &mut Periods,
    notes: &mut Vec<String>,
    findings: &mut Findings,
) -> Result<Table, Failure> {
    // The kernel's come first.
    let kernel = &question.traces[..question.traces.iter().filter(|trace| is_of_kernel(trace)).count()];
    let intervals = paired.intervals_of_top();
    if kernel.is_empty() {
        notes.push("the kernel was not recorded: what threads did in the longest periods is unknown".to_owned());
    }
    if kernel.is_empty() || intervals.is_empty() {
        return Ok(paired.top(None));
    }
    let end_ns = intervals
        .iter()
        .map(|interval| interval.end_ns)
        .max()
        .unwrap_or(i64::MAX);
    let span = Span {
        begin_ns: i64::MIN,
        end_ns: end_ns.saturating_add(1),
    };
    let within = Within::new(intervals);
    let ground = Ground::new(kernel, span)?;
    let progress = Progress::of("analyzing", kernel, span_read(span, &within), question.shows_progress);
    let (system, within) = ground.run(within, findings)?;
    drop(progress);
    for note in ground.notes(Some(&system), &[SWITCHES]) {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    Ok(paired.top(Some((&system, &within))))
}

/// Where the path through the longest begins, if it is known what its thread did.
pub(super) fn closer(report: &Report) -> Option<Closer> {
    let top = report.tables.iter().find(|table| table.name == "top")?;
    let longest = top.rows.first()?;
    let number = |key: &str| match &longest[top.columns.iter().position(|column| column.key == key)?] {
        Value::Number(number) => Some(*number),
        _ => None,
    };
    number("running_ns")?;
    let (begin_ns, tid) = (number("begin_ns")?, number("tid")?);
    Some(Closer {
        analysis: "critical-path",
        options: vec!["--tid".to_owned(), tid.to_string()],
        span_ns: Some((begin_ns, begin_ns.saturating_add(number("duration_ns")?))),
    })
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
