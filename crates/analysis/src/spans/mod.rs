// SPDX-License-Identifier: MIT OR Apache-2.0
//! Spans: what programs say that they begin and end. Ends are brought to their begins, on each track by its own. Where events are missing in
//! between, an end may be another one's: then begin and end are reported one by one.
//!
//! When too many are open, the next one's track gives up the outermost, as [`crate::periods`] does under a key. So an end takes its own begin,
//! or none.

mod gaps;
mod stacks;

use std::collections::HashMap;

pub use gaps::SpanGaps;
pub use stacks::{Open, Stacks};

/// So many may be open.
pub use crate::periods::OPEN_MAX;

/// Where spans nest: a thread of a program, or a stream of which nobody knows the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Track {
    /// Index of its trace.
    pub trace: usize,
    /// The process, as far as it is known.
    pub pid: Option<i64>,
    /// The thread, as far as it is known.
    pub tid: Option<i64>,
    /// Where the thread is not known: the stream.
    pub stream: Option<usize>,
}

/// What began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begun {
    /// When.
    pub ns: i64,
    /// How many were open around it. Absent when more may be open than are known.
    pub depth: Option<i64>,
}

/// A span, or what is known of one.
#[derive(Clone, Copy, Debug)]
pub struct Span<'s, W> {
    /// Where it was.
    pub track: Track,
    /// What it is called.
    pub name: &'s str,
    /// Its begin, if that is known.
    pub begun: Option<Begun>,
    /// Its end, if that is known.
    pub end_ns: Option<i64>,
    /// What was said of its begin, or else of its end.
    pub whose: W,
}

/// Brings ends to their begins, and hands out each span when it is over. `W` is what else is known of whoever an event is of.
pub struct Spans<W, S> {
    /// By trace.
    gaps: Vec<SpanGaps>,
    stacks: Stacks<Track, (Begun, W)>,
    /// How many of a name a track gave up.
    given_up: HashMap<Track, HashMap<String, u64>>,
    open: usize,
    open_max: usize,
    take: S,
}

impl<W: Copy, S: FnMut(Span<'_, W>)> Spans<W, S> {
    /// Of traces with these gaps, of which more may become known. `take` gets the spans.
    pub fn new(gaps: Vec<SpanGaps>, open_max: usize, take: S) -> Spans<W, S> {
        Spans {
            gaps,
            stacks: Stacks::default(),
            given_up: HashMap::new(),
            open: 0,
            open_max,
            take,
        }
    }

    /// Where events of a trace are missing. There may be more traces than before.
    pub fn gaps(&mut self, trace: usize) -> &mut SpanGaps {
        if self.gaps.len() <= trace {
            self.gaps.resize_with(trace + 1, SpanGaps::default);
        }
        &mut self.gaps[trace]
    }

    /// What is open now.
    pub fn open(&self) -> impl Iterator<Item = Span<'_, W>> {
        self.stacks.tracks().flat_map(|(track, open)| {
            open.iter().map(|open| Span {
                track: *track,
                name: &open.name,
                begun: Some(open.value.0),
                end_ns: None,
                whose: open.value.1,
            })
        })
    }

    /// Something begins.
    pub fn begin(&mut self, track: Track, name: &str, ns: i64, whose: W) {
        let is_depth_known = !self.given_up.contains_key(&track) && !self.gaps[track.trace].lie_before(ns, track.pid);
        let depth = is_depth_known.then_some(self.stacks.depth(&track) as i64);
        let begun = Begun { ns, depth };
        if self.open < self.open_max {
            self.open += 1;
            return self.stacks.begin(track, name, (begun, whose));
        }
        match self.stacks.give_up(&track) {
            Some(outermost) => {
                self.give_up(track, &outermost.name, outermost.value);
                self.stacks.begin(track, name, (begun, whose));
            }
            None => self.give_up(track, name, (begun, whose)),
        }
    }

    /// Something ends.
    pub fn end(&mut self, track: Track, name: &str, ns: i64, whose: W) {
        let ended: Vec<_> = self.stacks.end(track, name).collect();
        self.open -= ended.len();
        let mut ended = ended.into_iter();
        let own = ended.next().map(|own| own.value);
        for within in ended {
            self.without_end(track, &within.name, within.value);
        }
        if own.is_none() {
            self.end_given_up(track, name);
        }
        let mut span = Span {
            track,
            name,
            begun: None,
            end_ns: Some(ns),
            whose,
        };
        if let Some((begun, whose)) = own {
            if self.gaps[track.trace].lie_within(name, begun.ns, ns, track.pid) {
                self.without_end(track, name, (begun, whose));
            } else {
                span.begun = Some(begun);
                span.whose = whose;
            }
        }
        (self.take)(span);
    }

    /// What is open now has no end.
    pub fn finish(&mut self) {
        let stacks = std::mem::take(&mut self.stacks);
        let mut tracks: Vec<_> = stacks.tracks().collect();
        tracks.sort_by_key(|(track, _)| **track);
        self.open = 0;
        for (track, open) in tracks {
            for open in open {
                self.without_end(*track, &open.name, open.value);
            }
        }
    }

    fn give_up(&mut self, track: Track, name: &str, begun: (Begun, W)) {
        let names = self.given_up.entry(track).or_default();
        *names.entry(name.to_owned()).or_default() += 1;
        self.without_end(track, name, begun);
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

    fn without_end(&mut self, track: Track, name: &str, (begun, whose): (Begun, W)) {
        (self.take)(Span {
            track,
            name,
            begun: Some(begun),
            end_ns: None,
            whose,
        });
    }
}

#[cfg(test)]
#[path = "../../tests/unit/spans/tests.rs"]
mod tests;
