// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads what programs recorded: spans (`piste_analysis::spans`), and events that are none. The names of events tell which ones begin and end
//! spans (`piste_trace::phases`).

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::ptr;

use piste_analysis::spans::{OPEN_MAX, Span as OfProgram, Spans, Track};
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
    /// The traces are over. Spans reported from now on were still open at their end.
    fn over(&mut self) {}
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
    let mut reader = ProgramReader::new(&programs);
    let gaps = StreamGaps::new(traces).known()?;
    let found = reader.part(traces, gaps, Merge::new(traces, Span::ALL)?, goes_on);
    if found.is_some() {
        reader.finish();
    }
    Ok(found)
}

type Take<'p> = Box<dyn FnMut(OfProgram<'_, Option<Comm>>) + 'p>;

/// Reads traces part by part while they grow.
pub struct ProgramReader<'p, P> {
    programs: &'p RefCell<&'p mut P>,
    spans: Spans<Option<Comm>, Take<'p>>,
    /// The folders of traces: a track has the place of its own.
    folders: HashMap<PathBuf, usize>,
    /// The files of streams of which nobody knows the thread: a track has the place of its own.
    streams: HashMap<PathBuf, usize>,
    /// What was told to be missing.
    told: HashSet<(usize, u64, Option<i64>, i64, i64)>,
}

impl<'p, P: Programs> ProgramReader<'p, P> {
    /// Gives what it reads to `programs`.
    pub fn new(programs: &'p RefCell<&'p mut P>) -> ProgramReader<'p, P> {
        let take: Take<'p> = Box::new(|span| programs.borrow_mut().span(&span));
        ProgramReader {
            programs,
            spans: Spans::new(Vec::new(), OPEN_MAX, take),
            folders: HashMap::new(),
            streams: HashMap::new(),
            told: HashSet::new(),
        }
    }

    /// Reads the next part of traces, which may have been opened again: what `merge` gives. `known`: what the traces are known to lack. Returns
    /// what was wrong with the part, or `None` if `goes_on`, which is called now and then, ended it early.
    pub fn part<'t>(
        &mut self,
        traces: &'t [Trace],
        known: Vec<StreamGap<'t>>,
        mut merge: Merge<'t>,
        goes_on: impl Fn() -> bool,
    ) -> Option<Findings> {
        let mut phases = Phases::new(traces);
        let places: Vec<usize> = traces.iter().map(|trace| self.place(trace, &mut phases)).collect();
        let mut gaps = StreamGaps::new(traces);
        for gap in known {
            self.lose(gap, traces, &places);
        }
        let mut threads = Threads::new(traces);
        let mut events = 0_u64;
        while let Some(merged) = merge.next() {
            for gap in merge.blind.drain(..).filter_map(|blind| gaps.of(blind)) {
                self.lose(gap, traces, &places);
            }
            events += 1;
            if events.is_multiple_of(EVENTS_BETWEEN_LOOKS) && !goes_on() {
                return None;
            }
            let (_, who) = threads.see(&mut merge, &merged);
            let stream = merge.stream(merged.stream);
            let Some(ns) = stream.ns(&merged.event) else {
                continue;
            };
            let path = who.tid.is_none().then_some(&stream.index.path);
            let track = Track {
                pid: who.pid,
                tid: who.tid,
                stream: path.map(|path| place_of(path, &mut self.streams)),
                trace: places[merge.trace_of(merged.stream)],
            };
            match phases.of(merged.event.class) {
                Phase::Begin(name) => self.spans.begin(track, name, ns, who.comm),
                Phase::End(name) => self.spans.end(track, name, ns, who.comm),
                Phase::Instant => {
                    let name = &*merged.event.class.name;
                    self.programs.borrow_mut().instant(track, who.comm, name, ns);
                }
            }
        }
        Some(std::mem::take(&mut merge.findings))
    }

    /// What is open by now.
    pub fn open(&self, mut take: impl FnMut(&OfProgram<'_, Option<Comm>>)) {
        self.spans.open().for_each(|span| take(&span));
    }

    /// Nothing more will come.
    pub fn finish(&mut self) {
        self.programs.borrow_mut().over();
        self.spans.finish();
    }

    /// The place of a trace. More names of events may have become known.
    fn place(&mut self, trace: &Trace, phases: &mut Phases<'_>) -> usize {
        let place = place_of(&trace.folder, &mut self.folders);
        let gaps = self.spans.gaps(place);
        for class_id in trace.schema().streams.keys() {
            for event in trace.plan.events(*class_id) {
                if let Phase::Begin(name) | Phase::End(name) = phases.of(event) {
                    gaps.hold(*class_id, name);
                }
            }
        }
        place
    }

    fn lose(&mut self, gap: StreamGap<'_>, traces: &[Trace], places: &[usize]) {
        let trace = traces.iter().position(|trace| ptr::eq(trace, gap.trace));
        let Some(place) = trace.map(|trace| places[trace]) else {
            return;
        };
        if !self
            .told
            .insert((place, gap.class_id, gap.pid, gap.begin_ns, gap.end_ns))
        {
            return;
        }
        gap.tell(Span::ALL, |lost| {
            self.spans.gaps(place).lose(gap.class_id, lost);
            false
        });
        self.programs.borrow_mut().lost(&gap);
    }
}

/// The place of a path; a new one gets the next.
fn place_of(path: &Path, known: &mut HashMap<PathBuf, usize>) -> usize {
    known.get(path).copied().unwrap_or_else(|| {
        let next = known.len();
        known.insert(path.to_owned(), next);
        next
    })
}
