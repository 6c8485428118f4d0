// SPDX-License-Identifier: MIT OR Apache-2.0
//! What programs recorded: lanes of spans, one for each depth, and of events, for each thread.

use std::io::Write;

use piste_analysis::spans::{Span, Track};
use rustc_hash::FxHashMap;

use crate::lane::{Label, LaneId, ProgramThread, Subject};
use crate::piece::{Class, Piece};
use crate::recorder::Recorder;

/// State dumps describe what was in a program before it was recorded. They are not shown.
const STATE_DUMP: &str = "lttng_ust_statedump";
/// Spans that are nested deeper share one lane.
const DEPTHS_MAX: usize = 32;
/// Limits the pieces that mark losses: many losses on many lanes would make the timeline larger than the trace.
const LOSSES_MAX: usize = 1 << 18;

#[derive(Default)]
pub(crate) struct Programs {
    threads: FxHashMap<Track, OfThread>,
    labels: FxHashMap<String, u32>,
    losses: Vec<Loss>,
    /// The end of the traces, once it is reached: spans reported from then on were still open there.
    over_ns: Option<i64>,
}

/// A thread and its lanes, each made when the thread first needs it.
#[derive(Default)]
struct OfThread {
    thread: ProgramThread,
    comm: Vec<u8>,
    events: Option<LaneId>,
    /// By depth.
    spans: Vec<Option<LaneId>>,
}

#[derive(Clone, Copy)]
struct Loss {
    /// Absent: of any process.
    pid: Option<i64>,
    begin_ns: i64,
    end_ns: i64,
}

impl<W: Write> Recorder<W> {
    /// A span of a program is over, or its begin or end is missing. `comm` is the name of its thread, empty if it is not known.
    pub fn program_span<V>(&mut self, span: &Span<'_, V>, comm: &[u8]) {
        let until_ns = self.programs.over_ns;
        if let Some((lane, piece)) = self.span_piece(span, comm, until_ns) {
            self.put(lane, &piece);
        }
    }

    /// A span as a piece of its lane. One without an end goes on until a time, if one is given.
    pub(crate) fn span_piece<V>(
        &mut self,
        span: &Span<'_, V>,
        comm: &[u8],
        until_ns: Option<i64>,
    ) -> Option<(LaneId, Piece)> {
        if span.name.starts_with(STATE_DUMP) {
            return None;
        }
        let (class, begin_ns, end_ns) = match (span.begun, span.end_ns) {
            // Times of a damaged trace go back.
            (Some(begun), Some(end_ns)) => (Class::Other, begun.ns, end_ns.max(begun.ns)),
            (Some(begun), None) => (Class::Unknown, begun.ns, until_ns.unwrap_or(begun.ns).max(begun.ns)),
            (None, Some(end_ns)) => (Class::Unknown, end_ns, end_ns),
            (None, None) => return None,
        };
        let depth = span.begun.and_then(|begun| begun.depth);
        let depth = depth.and_then(|depth| usize::try_from(depth).ok()).unwrap_or(0);
        let lane = self.spans_lane(span.track, comm, depth.min(DEPTHS_MAX - 1));
        let what = self.label_of_text(span.name);
        Some((lane, piece(class, what, (begin_ns, end_ns))))
    }

    /// An event of a program that neither begins nor ends a span.
    pub fn program_event(&mut self, track: Track, comm: &[u8], name: &str, ns: i64) {
        if name.starts_with(STATE_DUMP) {
            return;
        }
        let own = self.program_thread(track, comm);
        let lane = match own.events {
            Some(lane) => lane,
            None => {
                let subject = Subject::Events(own.thread.clone());
                let lane = self.program_lane(subject);
                self.program_thread(track, comm).events = Some(lane);
                lane
            }
        };
        let what = self.label_of_text(name);
        self.put(lane, &piece(Class::Other, what, (ns, ns)));
    }

    /// Events of a process, or of any process if there is no `pid`, may be missing.
    pub fn program_lost(&mut self, pid: Option<i64>, begin_ns: i64, end_ns: i64) {
        self.programs.losses.push(Loss { pid, begin_ns, end_ns });
    }

    /// The traces of programs are over. Spans reported from now on were still open at their end.
    pub fn programs_over(&mut self, end_ns: i64) {
        self.programs.over_ns = Some(end_ns);
    }

    fn program_thread(&mut self, track: Track, comm: &[u8]) -> &mut OfThread {
        let own = self.programs.threads.entry(track).or_insert_with(|| OfThread {
            thread: ProgramThread {
                tid: track.tid,
                pid: track.pid,
                name: String::new(),
            },
            ..OfThread::default()
        });
        if own.comm != comm && !comm.is_empty() {
            own.comm = comm.to_vec();
            own.thread.name = String::from_utf8_lossy(comm).into_owned();
            for lane in own.spans.iter().chain([&own.events]).flatten() {
                if let Subject::Spans(thread, _) | Subject::Events(thread) = &mut self.subjects[lane.0 as usize] {
                    thread.name.clone_from(&own.thread.name);
                }
            }
        }
        own
    }

    fn spans_lane(&mut self, track: Track, comm: &[u8], depth: usize) -> LaneId {
        let own = self.program_thread(track, comm);
        if let Some(Some(lane)) = own.spans.get(depth) {
            return *lane;
        }
        let subject = Subject::Spans(own.thread.clone(), depth as u32);
        let lane = self.program_lane(subject);
        let own = self.program_thread(track, comm);
        if own.spans.len() <= depth {
            own.spans.resize(depth + 1, None);
        }
        own.spans[depth] = Some(lane);
        lane
    }

    fn label_of_text(&mut self, text: &str) -> u32 {
        if let Some(label) = self.programs.labels.get(text) {
            return *label;
        }
        let label = self.label(Label::Text(text.to_owned()));
        self.programs.labels.insert(text.to_owned(), label);
        label
    }

    /// Times in which events may be missing, as unknown pieces of every lane that the events might belong to.
    pub(crate) fn losses(&self, (begin_ns, end_ns): (i64, i64)) -> Vec<(LaneId, Piece)> {
        let threads = self.programs.threads.iter();
        let lanes: Vec<(Option<i64>, LaneId)> = threads
            .flat_map(|(track, own)| {
                let outermost = own.spans.iter().flatten().next();
                let lanes = own.events.iter().chain(outermost);
                lanes.map(|lane| (track.pid, *lane))
            })
            .collect();
        let most = (LOSSES_MAX / lanes.len().max(1)).max(1);
        // Reduced before they are given to lanes, so that the cost is not losses times lanes.
        let mut by_pid: FxHashMap<Option<i64>, Vec<(i64, i64)>> = FxHashMap::default();
        for loss in &self.programs.losses {
            let part = (loss.begin_ns.max(begin_ns), loss.end_ns.min(end_ns));
            if part.0 < part.1 {
                by_pid.entry(loss.pid).or_default().push(part);
            }
        }
        for parts in by_pid.values_mut() {
            *parts = merged(parts.drain(..), most);
        }
        let all = merged(by_pid.values().flatten().copied(), most);
        let mut pieces = Vec::new();
        for (pid, lane) in lanes {
            let of = |pid: Option<i64>| by_pid.get(&pid).into_iter().flatten().copied();
            let own = match pid {
                Some(_) => merged(of(pid).chain(of(None)), most),
                None => all.clone(),
            };
            pieces.extend(own.into_iter().map(|part| (lane, piece(Class::Unknown, 0, part))));
        }
        pieces
    }
}

fn piece(class: Class, what: u32, (begin_ns, end_ns): (i64, i64)) -> Piece {
    Piece {
        begin_ns,
        end_ns,
        class,
        what,
        by: 0,
    }
}

/// Joins parts of time that touch each other. If more than `most` are left, also joins neighbours, including the time between them.
fn merged(parts: impl Iterator<Item = (i64, i64)>, most: usize) -> Vec<(i64, i64)> {
    let mut parts: Vec<(i64, i64)> = parts.collect();
    parts.sort_unstable();
    let mut merged: Vec<(i64, i64)> = Vec::new();
    for (begin_ns, end_ns) in parts {
        match merged.last_mut() {
            Some(last) if begin_ns <= last.1 => last.1 = last.1.max(end_ns),
            _ => merged.push((begin_ns, end_ns)),
        }
    }
    let together = merged.len().div_ceil(most.max(1)).max(1);
    merged
        .chunks(together)
        .filter_map(|chunk| Some((chunk.first()?.0, chunk.last()?.1)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_touch_are_one() {
        let parts = [(5, 7), (1, 3), (3, 4), (6, 9)];
        assert_eq!(merged(parts.into_iter(), 10), [(1, 4), (5, 9)]);
    }

    #[test]
    fn there_are_never_more_parts_than_wanted_and_none_is_left_out() {
        let parts = || (0..1000).map(|number| (number * 10, number * 10 + 1));
        let few = merged(parts(), 7);
        assert!(few.len() <= 7, "{few:?}");
        let is_covered = |(begin, end): (i64, i64)| few.iter().any(|part| part.0 <= begin && end <= part.1);
        assert!(parts().all(is_covered));
        assert_eq!(merged([].into_iter(), 7), []);
    }
}
