// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads what programs recorded: spans (`piste_analysis::spans`), and events that are none. The names of events tell which ones begin and end
//! spans (`piste_trace::phases`).

use std::cell::RefCell;
use std::ptr;

use piste_analysis::pass::Listeners;
use piste_analysis::spans::{OPEN_MAX, Span as OfProgram, SpanGaps, Spans, Track};
use piste_trace::blind::recorded_span;
use piste_trace::phases::{Phase, Phases};
use piste_trace::select::{Comm, Threads};
use piste_trace::{Findings, Merge, Span, Trace};

use crate::{EVENTS_BETWEEN_LOOKS, GroundError, StreamGap, StreamGaps};

/// Gets what programs recorded.
#[expect(unused_variables, reason = "the names are for those who implement it")]
pub trait Programs {
    /// A span is over, or its begin or end is missing. `whose` is the name of the thread.
    fn span(&mut self, span: &OfProgram<'_, Option<Comm>>);
    /// An event that neither begins nor ends a span happened.
    fn instant(&mut self, track: Track, comm: Option<Comm>, name: &str, ns: i64) {}
    /// Events may be missing.
    fn lost(&mut self, gap: &StreamGap<'_>) {}
    /// The traces end at that time. Spans reported from now on were still open then.
    fn over(&mut self, end_ns: i64) {}
}

/// Both get it.
impl<One: Programs, Other: Programs> Programs for (One, Other) {
    fn span(&mut self, span: &OfProgram<'_, Option<Comm>>) {
        self.0.span(span);
        self.1.span(span);
    }

    fn instant(&mut self, track: Track, comm: Option<Comm>, name: &str, ns: i64) {
        self.0.instant(track, comm, name, ns);
        self.1.instant(track, comm, name, ns);
    }

    fn lost(&mut self, gap: &StreamGap<'_>) {
        self.0.lost(gap);
        self.1.lost(gap);
    }

    fn over(&mut self, end_ns: i64) {
        self.0.over(end_ns);
        self.1.over(end_ns);
    }
}

/// What listens to the kernel alone.
impl<T: ?Sized> Programs for Listeners<T> {
    fn span(&mut self, _: &OfProgram<'_, Option<Comm>>) {}
}

/// Reads traces from begin to end. Returns what was wrong with them, or `None` if `goes_on`, which is called now and then, ended it early.
///
/// # Errors
/// A stream file that was there cannot be opened any more.
pub fn read_programs(
    traces: &[Trace],
    programs: &mut impl Programs,
    goes_on: impl Fn() -> bool,
) -> Result<Option<Findings>, GroundError> {
    let programs = RefCell::new(programs);
    let mut phases = Phases::new(traces);
    let of_traces = traces.iter().map(|trace| span_gaps(trace, &mut phases)).collect();
    let mut spans = Spans::new(of_traces, OPEN_MAX, |span| programs.borrow_mut().span(&span));
    let mut gaps = StreamGaps::new(traces);
    let lose = |spans: &mut Spans<Option<Comm>, _>, gap: StreamGap<'_>| {
        if let Some(place) = traces.iter().position(|trace| ptr::eq(trace, gap.trace)) {
            gap.tell(Span::ALL, |lost| {
                spans.gaps(place).lose(gap.class_id, lost);
                false
            });
        }
        programs.borrow_mut().lost(&gap);
    };
    for gap in gaps.known()? {
        lose(&mut spans, gap);
    }
    let mut threads = Threads::new(traces);
    let mut merge = Merge::new(traces, Span::ALL)?;
    let mut events = 0_u64;
    let mut last_ns = i64::MIN;
    while let Some(merged) = merge.next() {
        for gap in merge.blind.drain(..).filter_map(|blind| gaps.of(blind)) {
            lose(&mut spans, gap);
        }
        events += 1;
        if events.is_multiple_of(EVENTS_BETWEEN_LOOKS) && !goes_on() {
            return Ok(None);
        }
        let (_, who) = threads.see(&mut merge, &merged);
        let Some(ns) = merge.stream(merged.stream).ns(&merged.event) else {
            continue;
        };
        last_ns = last_ns.max(ns);
        let track = Track {
            trace: merge.trace_of(merged.stream),
            pid: who.pid,
            tid: who.tid,
            stream: who.tid.is_none().then_some(merged.stream),
        };
        match phases.of(merged.event.class) {
            Phase::Begin(name) => spans.begin(track, name, ns, who.comm),
            Phase::End(name) => spans.end(track, name, ns, who.comm),
            Phase::Instant => {
                let name = &*merged.event.class.name;
                programs.borrow_mut().instant(track, who.comm, name, ns);
            }
        }
    }
    let end_ns = recorded_span(traces).map_or(last_ns, |span| span.end_ns.max(last_ns));
    programs.borrow_mut().over(end_ns);
    spans.finish();
    Ok(Some(std::mem::take(&mut merge.findings)))
}

/// Where a trace may lack begins or ends, before anything is told to be missing.
fn span_gaps(trace: &Trace, phases: &mut Phases<'_>) -> SpanGaps {
    let mut gaps = SpanGaps::default();
    for class_id in trace.schema().streams.keys() {
        for event in trace.plan.events(*class_id) {
            if let Phase::Begin(name) | Phase::End(name) = phases.of(event) {
                gaps.hold(*class_id, name);
            }
        }
    }
    gaps
}
