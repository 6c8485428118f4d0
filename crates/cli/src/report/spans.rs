// SPDX-License-Identifier: MIT OR Apache-2.0
//! How often programs did what they call a span, and how long it took.

use std::collections::BTreeMap;

use piste_analysis::measure::Distribution;
use piste_analysis::model::Listen;
use piste_analysis::report::{Column, Table, Unit, Value, column};
use piste_analysis::spans::Span as OfProgram;
use piste_modelling::Programs;
use piste_trace::Span;
use piste_trace::select::Comm;

const COLUMNS: [Column; 6] = [
    column("name", "NAME", Unit::Text),
    column("count", "COUNT", Unit::Count),
    column("total_ns", "TOTAL", Unit::Nanoseconds).with_bar(),
    column("mean_ns", "MEAN", Unit::Nanoseconds),
    column("p99_ns", "P99", Unit::Nanoseconds),
    column("max_ns", "MAX", Unit::Nanoseconds),
];

/// Adds up spans by their names, of which a trace has as many as classes of events.
pub(super) struct SpanSums {
    /// Only those that lie in it are counted.
    part: Span,
    by_name: BTreeMap<String, Distribution>,
    /// Those whose begin or end is not in the trace.
    torn: u64,
}

impl SpanSums {
    pub(super) fn new(part: Span) -> SpanSums {
        SpanSums {
            part,
            by_name: BTreeMap::new(),
            torn: 0,
        }
    }

    /// The table, those first that took longest together.
    pub(super) fn table(&self) -> Table {
        let mut table = Table::new("spans", "Spans by name", &COLUMNS);
        for (name, all) in &self.by_name {
            table.row([
                name.as_str().into(),
                all.times.count.into(),
                Value::Number(all.times.total_ns),
                Value::Number(all.times.mean_ns()),
                all.percentile(99.0),
                Value::Number(all.times.max_ns),
            ]);
        }
        table.sort_by("total_ns");
        if self.torn > 0 {
            table.notes.push(format!(
                "spans that are not counted, because their begin or end is not in the trace: {}",
                self.torn
            ));
        }
        table
    }
}

impl Listen for SpanSums {}

impl Programs for SpanSums {
    fn span(&mut self, span: &OfProgram<'_, Option<Comm>>) {
        let (Some(begun), Some(end_ns)) = (span.begun, span.end_ns) else {
            self.torn += 1;
            return;
        };
        if begun.ns < self.part.begin_ns || end_ns > self.part.end_ns {
            return;
        }
        // Times of a damaged trace go back.
        let ns = end_ns.saturating_sub(begun.ns).max(0);
        match self.by_name.get_mut(span.name) {
            Some(known) => known.add(ns),
            None => self.by_name.entry(span.name.to_owned()).or_default().add(ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use piste_analysis::spans::{Begun, Track};

    use super::*;

    #[test]
    fn spans_are_added_up_by_name_and_torn_ones_are_counted_apart() {
        let mut sums = SpanSums::new(Span {
            begin_ns: 10,
            end_ns: 100,
        });
        let mut add = |name, begin: Option<i64>, end_ns| {
            sums.span(&OfProgram {
                track: Track {
                    trace: 0,
                    pid: None,
                    tid: None,
                    stream: None,
                },
                name,
                begun: begin.map(|ns| Begun { ns, depth: None }),
                end_ns,
                whose: None,
            });
        };
        add("short", Some(10), Some(11));
        add("short", Some(20), Some(23));
        add("long", Some(30), Some(90));
        add("early", Some(9), Some(20));
        add("late", Some(90), Some(101));
        add("open", Some(50), None);
        add("begun before", None, Some(50));
        let table = sums.table();
        assert_eq!(
            table.csv(),
            "name,count,total_ns,mean_ns,p99_ns,max_ns\nlong,1,60,60,60,60\nshort,2,4,2,3,3\n"
        );
        assert!(table.notes[0].ends_with(": 2"), "{:?}", table.notes);
    }
}
