// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many events of which class: counted for each stream by itself, in no order, by several threads that take packets of any stream.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use piste_reason::reason;

use crate::finding::{Findings, Kind};
use crate::folder::Trace;
use crate::index::StreamIndex;
use crate::stream::{Stream, StreamFile};

/// Packets are taken by so many bytes: half a millisecond of work, so that all threads are done at about the same time.
const PIECE_BYTES: u64 = 1 << 20;
/// It stays in the cache that it is copied into.
const WINDOW_BYTES: usize = 256 << 10;

/// What a stream has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamCounts {
    /// Events that can be read.
    pub events: u64,
    /// The earliest, in nanoseconds from the clock's origin.
    pub begin_ns: Option<i64>,
    /// The latest.
    pub end_ns: Option<i64>,
    /// By the names of their classes.
    pub by_event: BTreeMap<String, u64>,
}

/// Counts every event. One result for each stream of each trace, in their order.
pub fn count(traces: &[Trace], threads: usize, findings: &mut Findings) -> Vec<Vec<StreamCounts>> {
    let pieces = pieces(traces);
    let next = AtomicUsize::new(0);
    let work = || {
        let (mut counted, mut findings) = (Vec::new(), Findings::default());
        // Relaxed: it only hands out numbers.
        while let Some(piece) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
            counted.push((piece, piece.count(traces, &mut findings)));
        }
        (counted, findings)
    };
    let mut counts: Vec<Vec<StreamCounts>> = traces
        .iter()
        .map(|trace| vec![StreamCounts::default(); trace.streams.len()])
        .collect();
    let mut add = |(counted, found): (Vec<(&Piece, StreamCounts)>, Findings)| {
        for (piece, more) in counted {
            counts[piece.trace][piece.stream].add(more);
        }
        findings.extend(found);
    };
    thread::scope(|scope| {
        let helpers: Vec<_> = (1..threads.min(pieces.len())).map(|_| scope.spawn(work)).collect();
        add(work());
        for helper in helpers {
            match helper.join() {
                Ok(counted) => add(counted),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    counts
}

/// Some packets of a stream.
struct Piece {
    trace: usize,
    stream: usize,
    packets: Range<usize>,
}

fn pieces(traces: &[Trace]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (trace, of_trace) in traces.iter().enumerate() {
        for (stream, index) in of_trace.streams.iter().enumerate() {
            let (mut begin, mut bytes) = (0, 0);
            for (number, packet) in index.packets.iter().enumerate() {
                bytes += packet.bytes;
                if bytes >= PIECE_BYTES || number + 1 == index.packets.len() {
                    let packets = begin..number + 1;
                    pieces.push(Piece { trace, stream, packets });
                    (begin, bytes) = (number + 1, 0);
                }
            }
        }
    }
    pieces
}

impl Piece {
    fn count(&self, traces: &[Trace], findings: &mut Findings) -> StreamCounts {
        let trace = &traces[self.trace];
        let index: &StreamIndex = &trace.streams[self.stream];
        let mut counts = StreamCounts::default();
        let file = StreamFile {
            plan: &trace.plan,
            index,
        };
        let mut stream = match Stream::open(&file, self.packets.clone(), WINDOW_BYTES) {
            Ok(stream) => stream,
            Err(error) => {
                findings.about_file(Kind::UnreadableFile, &index.path, reason(&error));
                return counts;
            }
        };
        let mut by_class = vec![0_u64; trace.plan.event_names().len()];
        let (mut first, mut last) = (u64::MAX, 0);
        stream.each(findings, |event| {
            by_class[event.class.number] += 1;
            (first, last) = (first.min(event.ticks), last.max(event.ticks));
        });
        for (count, name) in by_class
            .into_iter()
            .zip(trace.plan.event_names())
            .filter(|(count, _)| *count > 0)
        {
            counts.events += count;
            *counts.by_event.entry(name.to_owned()).or_default() += count;
        }
        if counts.events > 0 {
            let ns = |ticks| stream.scale.and_then(|scale| scale.nanoseconds(ticks));
            (counts.begin_ns, counts.end_ns) = (ns(first), ns(last));
        }
        counts
    }
}

impl StreamCounts {
    /// With those of others.
    pub fn add(&mut self, more: StreamCounts) {
        self.events += more.events;
        // None is the least of all.
        self.begin_ns = [self.begin_ns, more.begin_ns].into_iter().flatten().min();
        self.end_ns = self.end_ns.max(more.end_ns);
        for (name, count) in more.by_event {
            *self.by_event.entry(name).or_default() += count;
        }
    }
}
