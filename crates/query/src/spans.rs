// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table `spans`: what programs say that they begin and end, a row for each. Which events do is told by their names (`piste_trace::phases`).
//! Where events are missing in between, an end may be another one's: then begin and end have a row each.

use std::borrow::Cow;
use std::sync::Arc;

use datafusion::error::Result;
use piste_analysis::model::{Gap, Gaps};
use piste_analysis::report::Unit;
use piste_analysis::tables::{Cell, Heading, Sink};
use piste_ground::is_of_kernel;
use piste_trace::blind::{Blind, blind, unrecorded};
use piste_trace::phases::{Phase, Phases, Stacks};
use piste_trace::progress::bytes_of;
use piste_trace::select::{Comm, Threads};
use piste_trace::{Merge, Span, Trace};

use crate::batches::Batches;
use crate::layout::Layout;
use crate::one_pass::Source;
use crate::scan::Found;

pub(crate) const SPANS: &str = "spans";

/// More are not open at one time: what has no end in the trace must not take all memory.
const OPEN_MAX: usize = 1 << 20;
/// So many events take some milliseconds.
const EVENTS_BETWEEN_LOOKS: u64 = 1 << 14;

/// The table.
pub(crate) struct Spans {
    pub(crate) layout: Arc<Layout>,
    pub(crate) found: Found,
}

/// Where spans nest: a thread of a program, or a stream of which nobody knows the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Track {
    trace: usize,
    pid: Option<i64>,
    tid: Option<i64>,
    stream: Option<usize>,
}

/// What began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Begun {
    ns: i64,
    depth: i64,
    comm: Option<Comm>,
}

/// A row.
struct Row<'r> {
    track: Track,
    name: &'r str,
    begun: Option<Begun>,
    end_ns: Option<i64>,
    comm: Option<Comm>,
    trace: &'r str,
}

type Column = (Heading, fn(&Row<'_>) -> Cell<'static>);

const fn column(key: &'static str, unit: Unit, of: fn(&Row<'_>) -> Cell<'static>) -> Column {
    (Heading { key, unit }, of)
}

static COLUMNS: [Column; 9] = [
    column("begin_ns", Unit::Moment, |row| row.begun.map(|begun| begun.ns).into()),
    column("end_ns", Unit::Moment, |row| row.end_ns.into()),
    column("duration_ns", Unit::Nanoseconds, |row| {
        row.begun
            .zip(row.end_ns)
            .map(|(begun, end_ns)| end_ns - begun.ns)
            .into()
    }),
    column("name", Unit::Text, |row| row.name.to_owned().into()),
    column("depth", Unit::Count, |row| row.begun.map(|begun| begun.depth).into()),
    column("tid", Unit::Id, |row| row.track.tid.into()),
    column("pid", Unit::Id, |row| row.track.pid.into()),
    column("comm", Unit::Text, |row| {
        let comm = row.comm.as_ref().map(|comm| String::from_utf8_lossy(comm.as_bytes()));
        comm.map(Cow::into_owned).into()
    }),
    column("trace", Unit::Text, |row| row.trace.to_owned().into()),
];

impl Source for Spans {
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
        let mut pairs = Pairs {
            columns: headings.iter().map(|heading| COLUMNS[*heading].1).collect(),
            names: traces.iter().map(|trace| &*trace.name).collect(),
            gaps: traces.iter().map(gaps).collect(),
            stacks: Stacks::default(),
            open: 0,
            sink: batches.clone(),
        };
        let mut phases = Phases::new(traces);
        let mut threads = Threads::new(traces);
        let mut merge = Merge::new(traces, Span::ALL)?;
        let mut events = 0_u64;
        while let Some(merged) = merge.next() {
            // Whose trace it is matters little: what cannot be read is rare.
            for blind in merge.blind.drain(..) {
                pairs.gaps.iter_mut().for_each(|gaps| gaps.add(gap(&blind)));
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
                Phase::Begin(name) => pairs.begin(track, name, ns, who.comm),
                Phase::End(name) => pairs.end(track, name, ns, who.comm),
                Phase::Instant => {}
            }
        }
        pairs.finish();
        self.found.add(&merge.findings);
        Ok(())
    }
}

/// What its columns are.
pub(crate) fn headings() -> Vec<Heading> {
    COLUMNS.iter().map(|(heading, _)| *heading).collect()
}

/// Where a trace lacks events, of whatever CPU: threads move.
fn gaps(trace: &Trace) -> Gaps {
    let traces = std::slice::from_ref(trace);
    let span = Span::of(traces).unwrap_or(Span::ALL);
    let mut parts = blind(trace);
    if is_of_kernel(trace) {
        parts.extend(unrecorded(traces, span).iter().map(|part| part.blind));
    }
    Gaps::new(&parts.iter().map(gap).collect::<Vec<_>>())
}

fn gap(part: &Blind<'_>) -> Gap {
    Gap {
        cpu: None,
        begin_ns: part.begin_ns,
        end_ns: part.end_ns,
    }
}

/// Brings ends to their begins.
struct Pairs<S> {
    columns: Vec<fn(&Row<'_>) -> Cell<'static>>,
    /// Of the traces.
    names: Vec<&'static str>,
    gaps: Vec<Gaps>,
    stacks: Stacks<Track, Begun>,
    open: usize,
    sink: S,
}

impl<S: Sink> Pairs<S> {
    fn begin(&mut self, track: Track, name: &str, ns: i64, comm: Option<Comm>) {
        let depth = self.stacks.depth(&track) as i64;
        let begun = Begun { ns, depth, comm };
        if self.open == OPEN_MAX {
            return self.row(track, name, Some(begun), None, comm);
        }
        self.open += 1;
        self.stacks.begin(track, name, begun);
    }

    fn end(&mut self, track: Track, name: &str, ns: i64, comm: Option<Comm>) {
        let ended: Vec<_> = self.stacks.end(track, name).collect();
        self.open -= ended.len();
        let mut ended = ended.into_iter();
        let own = ended.next();
        for within in ended {
            self.row(track, &within.name, Some(within.value), None, within.value.comm);
        }
        let is_torn = |begun: &Begun| self.gaps[track.trace].within(begun.ns, ns, None).is_some();
        match own.map(|own| own.value) {
            Some(begun) if is_torn(&begun) => {
                self.row(track, name, Some(begun), None, begun.comm);
                self.row(track, name, None, Some(ns), comm);
            }
            begun => self.row(track, name, begun, Some(ns), comm),
        }
    }

    /// What is open now has no end.
    fn finish(&mut self) {
        let stacks = std::mem::take(&mut self.stacks);
        let mut tracks: Vec<_> = stacks.tracks().collect();
        tracks.sort_by_key(|(track, _)| **track);
        self.open = 0;
        for (track, open) in tracks {
            for open in open {
                self.row(*track, &open.name, Some(open.value), None, open.value.comm);
            }
        }
    }

    fn row(&mut self, track: Track, name: &str, begun: Option<Begun>, end_ns: Option<i64>, comm: Option<Comm>) {
        let row = Row {
            track,
            name,
            begun,
            end_ns,
            comm,
            trace: self.names[track.trace],
        };
        for column in &self.columns {
            self.sink.cell(column(&row));
        }
        self.sink.end_row();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `begin end name depth tid`, `-` for what is not known.
    #[derive(Default)]
    struct Lines(Vec<String>);

    impl Sink for Lines {
        fn cell(&mut self, cell: Cell<'_>) {
            let text = match cell {
                Cell::None => "-".to_owned(),
                Cell::Number(number) => number.to_string(),
                Cell::Text(text) => text.into_owned(),
            };
            if self.0.is_empty() {
                self.0.push(String::new());
            }
            let line = self.0.last_mut().expect("one was begun");
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(&text);
        }

        fn end_row(&mut self) {
            self.0.push(String::new());
        }
    }

    /// Lines `TIME begin|end NAME TID`.
    #[track_caller]
    fn check(gaps: &[Gap], lines: &[&str], expected: &[&str]) {
        let chosen = [0, 1, 3, 4, 5];
        let mut pairs = Pairs {
            columns: chosen.iter().map(|heading: &usize| COLUMNS[*heading].1).collect(),
            names: vec!["t"],
            gaps: vec![Gaps::new(gaps)],
            stacks: Stacks::default(),
            open: 0,
            sink: Lines::default(),
        };
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |word: &str| word.parse::<i64>().expect("a number");
            let track = Track {
                trace: 0,
                pid: None,
                tid: Some(number(words[3])),
                stream: None,
            };
            match words[1] {
                "begin" => pairs.begin(track, words[2], number(words[0]), None),
                _ => pairs.end(track, words[2], number(words[0]), None),
            }
        }
        pairs.finish();
        assert_eq!(pairs.open, 0);
        let rows: Vec<String> = pairs.sink.0.into_iter().filter(|line| !line.is_empty()).collect();
        assert_eq!(rows, expected);
    }

    #[test]
    fn spans_nest_on_their_threads() {
        check(
            &[],
            &[
                "1 begin a 7",
                "2 begin b 7",
                "3 begin a 8",
                "4 end b 7",
                "5 end a 7",
                "6 end a 8",
            ],
            &["2 4 b 1 7", "1 5 a 0 7", "3 6 a 0 8"],
        );
    }

    #[test]
    fn what_has_no_partner_has_a_row() {
        check(
            &[],
            &["1 end a 7", "2 begin a 7", "3 begin b 7", "4 end a 7", "5 begin c 7"],
            &["- 1 a - 7", "3 - b 1 7", "2 4 a 0 7", "5 - c 0 7"],
        );
    }

    #[test]
    fn a_gap_tears_what_it_lies_in() {
        let gap = Gap {
            cpu: None,
            begin_ns: 3,
            end_ns: 4,
        };
        check(
            &[gap],
            &[
                "1 begin a 7",
                "2 end a 7",
                "2 begin a 7",
                "5 end a 7",
                "6 begin a 7",
                "7 end a 7",
            ],
            &["1 2 a 0 7", "2 - a 0 7", "- 5 a - 7", "6 7 a 0 7"],
        );
    }
}
