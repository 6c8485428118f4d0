// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table `spans`: what programs say that they begin and end, a row for each (`piste_analysis::spans`). Which events do is told by their
//! names (`piste_trace::phases`).

use std::borrow::Cow;
use std::ptr;
use std::sync::Arc;

use datafusion::error::{DataFusionError, Result};
use piste_analysis::process_gaps::Lost;
use piste_analysis::report::Unit;
use piste_analysis::spans::{OPEN_MAX, SpanGaps, Track};
use piste_analysis::tables::{Cell, Heading, Sink};
use piste_modelling::{GroundError, StreamGap, StreamGaps};
use piste_trace::phases::{Phase, Phases};
use piste_trace::progress::bytes_of;
use piste_trace::select::{Comm, Threads};
use piste_trace::{Merge, Span, Trace};

use crate::batches::Batches;
use crate::layout::Layout;
use crate::one_pass::RowSource;
use crate::scan::Found;

pub(crate) const SPANS: &str = "spans";

/// So many events take some milliseconds.
const EVENTS_BETWEEN_LOOKS: u64 = 1 << 14;

/// The table.
pub(crate) struct Spans {
    pub(crate) layout: Arc<Layout>,
    pub(crate) found: Found,
}

/// A row.
type Row<'r> = piste_analysis::spans::Span<'r, Option<Comm>>;

/// A cell of a row; the names of the traces are given beside it.
type Of = fn(&Row<'_>, &[&str]) -> Cell<'static>;

type Column = (Heading, Of);

const fn column(key: &'static str, unit: Unit, of: Of) -> Column {
    (Heading { key, unit }, of)
}

static COLUMNS: [Column; 9] = [
    column("begin_ns", Unit::Moment, |row, _| {
        row.begun.map(|begun| begun.ns).into()
    }),
    column("end_ns", Unit::Moment, |row, _| row.end_ns.into()),
    column("duration_ns", Unit::Nanoseconds, |row, _| {
        row.begun
            .zip(row.end_ns)
            // Times of a damaged trace go back.
            .map(|(begun, end_ns)| end_ns.saturating_sub(begun.ns).max(0))
            .into()
    }),
    column("name", Unit::Text, |row, _| row.name.to_owned().into()),
    column("depth", Unit::Count, |row, _| {
        row.begun.and_then(|begun| begun.depth).into()
    }),
    column("tid", Unit::Id, |row, _| row.track.tid.into()),
    column("pid", Unit::Id, |row, _| row.track.pid.into()),
    column("comm", Unit::Text, |row, _| {
        let comm = row.whose.as_ref().map(|comm| String::from_utf8_lossy(comm.as_bytes()));
        comm.map(Cow::into_owned).into()
    }),
    column("trace", Unit::Text, |row, traces| {
        traces[row.track.trace].to_owned().into()
    }),
];

impl RowSource for Spans {
    fn name(&self) -> &'static str {
        SPANS
    }

    fn headings(&self) -> Vec<Heading> {
        headings()
    }

    fn plan(&self) -> Result<u64> {
        Ok(bytes_of(self.layout.programs(), Span::ALL))
    }

    fn run(&self, headings: &[usize], batches: &Batches) -> Result<()> {
        let traces = self.layout.programs();
        let mut phases = Phases::new(traces);
        let columns: Vec<Of> = headings.iter().map(|heading| COLUMNS[*heading].1).collect();
        let names: Vec<&str> = traces.iter().map(|trace| &*trace.name).collect();
        let of_traces = traces.iter().map(|trace| span_gaps(trace, &mut phases)).collect();
        let mut sink = batches.clone();
        let mut spans = piste_analysis::spans::Spans::new(of_traces, OPEN_MAX, |row: Row<'_>| {
            for of in &columns {
                sink.cell(of(&row, &names));
            }
            sink.end_row();
        });
        let mut gaps = StreamGaps::new(traces);
        let lose = |of_trace: &mut dyn FnMut(usize, u64, &Lost<'_>), gap: &StreamGap<'_>| {
            if let Some(place) = traces.iter().position(|trace| ptr::eq(trace, gap.trace)) {
                gap.tell(Span::ALL, |lost| {
                    of_trace(place, gap.class_id, lost);
                    false
                });
            }
        };
        for gap in gaps.known().map_err(failed)? {
            lose(
                &mut |place, class_id, lost| spans.gaps(place).lose(class_id, lost),
                &gap,
            );
        }
        let mut threads = Threads::new(traces);
        let mut merge = Merge::new(traces, Span::ALL)?;
        let mut events = 0_u64;
        while let Some(merged) = merge.next() {
            for gap in merge.blind.drain(..).filter_map(|blind| gaps.of(blind)) {
                lose(
                    &mut |place, class_id, lost| spans.gaps(place).lose(class_id, lost),
                    &gap,
                );
            }
            events += 1;
            if events.is_multiple_of(EVENTS_BETWEEN_LOOKS) && !batches.are_wanted() {
                return Ok(());
            }
            let (_, who) = threads.see(&mut merge, &merged);
            let phase = phases.of(merged.event.class);
            if *phase == Phase::Instant {
                continue;
            }
            let Some(ns) = merge.stream(merged.stream).ns(&merged.event) else {
                continue;
            };
            let track = Track {
                trace: merge.trace_of(merged.stream),
                pid: who.pid,
                tid: who.tid,
                stream: who.tid.is_none().then_some(merged.stream),
            };
            match phase {
                Phase::Begin(name) => spans.begin(track, name, ns, who.comm),
                Phase::End(name) => spans.end(track, name, ns, who.comm),
                Phase::Instant => {}
            }
        }
        spans.finish();
        self.found.add(&merge.findings);
        Ok(())
    }
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

fn failed(error: GroundError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// What its columns are.
pub(crate) fn headings() -> Vec<Heading> {
    COLUMNS.iter().map(|(heading, _)| *heading).collect()
}

#[cfg(test)]
mod tests {
    use piste_analysis::spans::Begun;

    use super::*;

    #[test]
    fn an_end_before_its_begin_takes_no_time() {
        let duration = |begin_ns: i64, end_ns: i64| {
            let row = Row {
                track: Track {
                    trace: 0,
                    pid: None,
                    tid: None,
                    stream: None,
                },
                name: "a",
                begun: Some(Begun {
                    ns: begin_ns,
                    depth: None,
                }),
                end_ns: Some(end_ns),
                whose: None,
            };
            COLUMNS[2].1(&row, &["t"])
        };
        assert_eq!(duration(50, 40), Cell::Number(0));
        assert_eq!(duration(i64::MIN, i64::MAX), Cell::Number(i64::MAX));
    }
}
