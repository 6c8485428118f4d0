// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table `spans`: what programs say that they begin and end, a row for each.

use std::borrow::Cow;
use std::sync::Arc;

use datafusion::error::{DataFusionError, Result};
use piste_analysis::report::Unit;
use piste_analysis::tables::{Cell, Heading, Sink};
use piste_modelling::{GroundError, Programs, read_programs};
use piste_trace::Span;
use piste_trace::progress::bytes_of;
use piste_trace::select::Comm;

use crate::batches::Batches;
use crate::layout::Layout;
use crate::one_pass::RowSource;
use crate::scan::Found;

pub(crate) const SPANS: &str = "spans";

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
        let mut rows = Rows {
            columns: headings.iter().map(|heading| COLUMNS[*heading].1).collect(),
            traces: traces.iter().map(|trace| &*trace.name).collect(),
            sink: batches.clone(),
        };
        let read = read_programs(traces, &mut rows, || batches.are_wanted()).map_err(failed)?;
        read.iter().for_each(|findings| self.found.add(findings));
        Ok(())
    }
}

/// Writes a row for each span.
struct Rows<'t> {
    columns: Vec<Of>,
    /// Their names.
    traces: Vec<&'t str>,
    sink: Batches,
}

impl Programs for Rows<'_> {
    fn span(&mut self, row: &Row<'_>) {
        for of in &self.columns {
            self.sink.cell(of(row, &self.traces));
        }
        self.sink.end_row();
    }
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
    use piste_analysis::spans::{Begun, Track};

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
