// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table `spans`: what programs say that they begin and end, a row for each. Which events do is told by their names (`piste_trace::phases`).
//! Where events are missing in between, an end may be another one's: then begin and end have a row each.
//!
//! When too many are open, the next one's track gives up the outermost, which is what `piste analyze periods` does under a key. So an end
//! takes its own begin, or none.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ptr;
use std::sync::Arc;

use datafusion::error::{DataFusionError, Result};
use piste_analysis::periods::OPEN_MAX;
use piste_analysis::report::Unit;
use piste_analysis::tables::{Cell, Heading, Sink};
use piste_ground::{GroundError, StreamGap, StreamGaps};
use piste_trace::phases::{Phase, Phases, Stacks};
use piste_trace::progress::bytes_of;
use piste_trace::select::{Comm, Threads};
use piste_trace::{Merge, Span};

use crate::batches::Batches;
use crate::layout::Layout;
use crate::one_pass::Source;
use crate::scan::Found;
use crate::span_gaps::SpanGaps;

pub(crate) const SPANS: &str = "spans";

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
    /// Absent when more may be open around it than are known.
    depth: Option<i64>,
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
            // Times of a damaged trace go back.
            .map(|(begun, end_ns)| end_ns.saturating_sub(begun.ns).max(0))
            .into()
    }),
    column("name", Unit::Text, |row| row.name.to_owned().into()),
    column("depth", Unit::Count, |row| {
        row.begun.and_then(|begun| begun.depth).into()
    }),
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
        let mut phases = Phases::new(traces);
        let mut pairs = Pairs {
            columns: headings.iter().map(|heading| COLUMNS[*heading].1).collect(),
            names: traces.iter().map(|trace| &*trace.name).collect(),
            gaps: traces.iter().map(|trace| SpanGaps::new(trace, &mut phases)).collect(),
            stacks: Stacks::default(),
            given_up: HashMap::new(),
            open: 0,
            open_max: OPEN_MAX,
            sink: batches.clone(),
        };
        let mut gaps = StreamGaps::new(traces);
        let lose = |pairs: &mut Pairs<Batches>, gap: &StreamGap<'_>| {
            if let Some(place) = traces.iter().position(|trace| ptr::eq(trace, gap.trace)) {
                gap.tell(Span::ALL, |lost| {
                    pairs.gaps[place].lose(gap.class_id, lost);
                    false
                });
            }
        };
        for gap in gaps.known().map_err(failed)? {
            lose(&mut pairs, &gap);
        }
        let mut threads = Threads::new(traces);
        let mut merge = Merge::new(traces, Span::ALL)?;
        let mut events = 0_u64;
        while let Some(merged) = merge.next() {
            for gap in merge.blind.drain(..).filter_map(|blind| gaps.of(blind)) {
                lose(&mut pairs, &gap);
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

fn failed(error: GroundError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// What its columns are.
pub(crate) fn headings() -> Vec<Heading> {
    COLUMNS.iter().map(|(heading, _)| *heading).collect()
}

/// Brings ends to their begins.
struct Pairs<S> {
    columns: Vec<fn(&Row<'_>) -> Cell<'static>>,
    /// Of the traces.
    names: Vec<&'static str>,
    gaps: Vec<SpanGaps>,
    stacks: Stacks<Track, Begun>,
    /// How many of a name a track gave up.
    given_up: HashMap<Track, HashMap<String, u64>>,
    open: usize,
    open_max: usize,
    sink: S,
}

impl<S: Sink> Pairs<S> {
    fn begin(&mut self, track: Track, name: &str, ns: i64, comm: Option<Comm>) {
        let is_depth_known = !self.given_up.contains_key(&track) && !self.gaps[track.trace].lie_before(ns, track.pid);
        let depth = is_depth_known.then_some(self.stacks.depth(&track) as i64);
        let begun = Begun { ns, depth, comm };
        if self.open < self.open_max {
            self.open += 1;
            return self.stacks.begin(track, name, begun);
        }
        match self.stacks.give_up(&track) {
            Some(outermost) => {
                self.give_up(track, &outermost.name, outermost.value);
                self.stacks.begin(track, name, begun);
            }
            None => self.give_up(track, name, begun),
        }
    }

    fn give_up(&mut self, track: Track, name: &str, begun: Begun) {
        let names = self.given_up.entry(track).or_default();
        *names.entry(name.to_owned()).or_default() += 1;
        self.row(track, name, Some(begun), None, begun.comm);
    }

    /// An end without a begin may be of one that was given up: then all that is open began within it. If it is of none, that is still open.
    fn end_given_up(&mut self, track: Track, name: &str) {
        let count = self.given_up.get_mut(&track).and_then(|names| names.get_mut(name));
        let Some(count) = count.filter(|count| **count > 0) else {
            return;
        };
        *count -= 1;
        let open: Vec<_> = self.stacks.end_all(track).collect();
        self.open -= open.len();
        for open in open {
            self.give_up(track, &open.name, open.value);
        }
    }

    fn end(&mut self, track: Track, name: &str, ns: i64, comm: Option<Comm>) {
        let ended: Vec<_> = self.stacks.end(track, name).collect();
        self.open -= ended.len();
        let mut ended = ended.into_iter();
        let own = ended.next();
        for within in ended {
            self.row(track, &within.name, Some(within.value), None, within.value.comm);
        }
        if own.is_none() {
            self.end_given_up(track, name);
        }
        let gaps = &self.gaps[track.trace];
        let is_torn = |begun: &Begun| gaps.lie_within(name, begun.ns, ns, track.pid);
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
    use fastrand::Rng;

    use piste_analysis::process_gaps::Lost;

    use super::*;
    use crate::span_gaps::tests::span_gaps;

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

    /// Of streams of class 1, which hold spans of some names.
    fn pairs(lost: &[Lost<'_>], open_max: usize) -> Pairs<Lines> {
        let chosen = [0, 1, 3, 4, 5];
        let mut gaps = span_gaps(&[(1, "a"), (1, "b"), (1, "c"), (2, "elsewhere")]);
        lost.iter().for_each(|lost| gaps.lose(1, lost));
        Pairs {
            columns: chosen.iter().map(|heading: &usize| COLUMNS[*heading].1).collect(),
            names: vec!["t"],
            gaps: vec![gaps],
            stacks: Stacks::default(),
            given_up: HashMap::new(),
            open: 0,
            open_max,
            sink: Lines::default(),
        }
    }

    /// Lines `TIME begin|end NAME TID`; the process has the number of its thread.
    fn rows(mut pairs: Pairs<Lines>, lines: &[impl AsRef<str>]) -> Vec<String> {
        for line in lines {
            let words: Vec<&str> = line.as_ref().split(' ').collect();
            let number = |word: &str| word.parse::<i64>().expect("a number");
            let track = Track {
                trace: 0,
                pid: Some(number(words[3])),
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
        pairs.sink.0.into_iter().filter(|line| !line.is_empty()).collect()
    }

    #[track_caller]
    fn check(lost: &[Lost<'_>], lines: &[&str], expected: &[&str]) {
        assert_eq!(rows(pairs(lost, OPEN_MAX), lines), expected);
    }

    fn lost(pid: Option<i64>, begin_ns: i64, end_ns: i64) -> Lost<'static> {
        Lost {
            classes: &[],
            pid,
            begin_ns,
            end_ns,
        }
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
        check(
            &[lost(None, 3, 4)],
            &[
                "1 begin a 7",
                "2 end a 7",
                "2 begin a 7",
                "5 end a 7",
                "6 begin a 7",
                "7 end a 7",
            ],
            &["1 2 a 0 7", "2 - a 0 7", "- 5 a - 7", "6 7 a - 7"],
        );
    }

    #[test]
    fn a_process_loses_spans_of_its_own_only() {
        check(
            &[lost(Some(7), 3, 4)],
            &[
                "1 begin a 7",
                "2 begin a 8",
                "5 begin b 7",
                "6 begin b 8",
                "7 end b 7",
                "8 end b 8",
                "9 end a 7",
                "10 end a 8",
            ],
            // Whether the other one is still open, the trace does not tell.
            &["5 7 b - 7", "6 8 b 1 8", "1 - a 0 7", "- 9 a - 7", "2 10 a 0 8"],
        );
    }

    #[test]
    fn what_other_streams_lose_tears_nothing() {
        check(
            &[lost(None, 3, 4)],
            &["1 begin elsewhere 7", "5 end elsewhere 7"],
            &["1 5 elsewhere 0 7"],
        );
    }

    #[test]
    fn an_end_before_its_begin_takes_no_time() {
        let mut pairs = pairs(&[], OPEN_MAX);
        pairs.columns = vec![COLUMNS[2].1];
        let lines = [
            "50 begin a 7",
            "40 end a 7",
            "-9223372036854775808 begin a 7",
            "9223372036854775807 end a 7",
        ];
        assert_eq!(rows(pairs, &lines), ["0", "9223372036854775807"]);
    }

    #[test]
    fn when_too_many_are_open_the_outermost_is_given_up() {
        let lines = [
            "1 begin a 7",
            "2 begin a 7",
            "3 begin b 7",
            "4 begin b 8",
            "5 end b 8",
            "6 end b 7",
            "7 begin c 7",
            // Of the one that was given up: what is open began within.
            "8 end a 7",
            "9 end a 7",
        ];
        let expected = [
            "1 - a 0 7",
            "4 - b 0 8",
            "- 5 b - 8",
            "3 6 b 2 7",
            "7 - c - 7",
            "2 8 a 1 7",
            "- 9 a - 7",
        ];
        assert_eq!(rows(pairs(&[], 2), &lines), expected);
    }

    #[test]
    fn whatever_is_given_up_no_end_takes_another_begin() {
        let mut random = Rng::with_seed(1);
        for _ in 0..1000 {
            let begins_of_ten = 3 + random.u64(..5);
            let mut lines = Vec::new();
            for ns in 0..50 {
                let what = if random.u64(..10) < begins_of_ten {
                    "begin"
                } else {
                    "end"
                };
                let name = ["a", "b", "c"][random.u64(..3) as usize];
                lines.push(format!("{ns} {what} {name} {}", random.u64(..2)));
            }
            let pair = |line: &String| {
                let words: Vec<&str> = line.split(' ').collect();
                let is_pair = !words[..2].contains(&"-");
                is_pair.then(|| [0, 1, 2, 4].map(|place| words[place].to_owned()))
            };
            let all = rows(pairs(&[], OPEN_MAX), &lines);
            let all_pairs: Vec<_> = all.iter().filter_map(pair).collect();
            for line in rows(pairs(&[], random.u64(..5) as usize), &lines) {
                if let Some(pair) = pair(&line) {
                    assert!(all_pairs.contains(&pair), "{line} is not among {all:?}");
                    let is_depth_known = !line.split(' ').any(|word| word == "-");
                    assert!(!is_depth_known || all.contains(&line), "{line} is not among {all:?}");
                }
            }
        }
    }
}
