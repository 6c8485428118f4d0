// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events of many streams in the order of time.
//!
//! Those of the same time are in the order that babeltrace2 gives them: of their traces' UUIDs and names, then of their streams' classes and
//! numbers. Events without times come at once.
//!
//! Streams bring their events in runs: while the next event of a stream is not later than the first of all others, none of those is looked
//! at.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::ops::Range;

use piste_ctf::read::clock::ClockScale;
use piste_ctf::read::packet::Event;

use crate::blind::Blind;
use crate::file_reader::are_too_many;
use crate::finding::Findings;
use crate::folder::Trace;
use crate::index::StreamIndex;
use crate::stream::{Stream, StreamFile};

/// All windows together.
const WINDOWS_BYTES: usize = 96 << 20;
const WINDOW_BYTES_MIN: usize = 16 << 10;
const WINDOW_BYTES_MAX: usize = 1 << 20;

/// A part of time, in nanoseconds from the clocks' origin. Events without times are in every one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first that is in it.
    pub begin_ns: i64,
    /// The last that is in it.
    pub end_ns: i64,
}

impl Span {
    /// All of it.
    pub const ALL: Span = Span {
        begin_ns: i64::MIN,
        end_ns: i64::MAX,
    };

    /// From the first packet's begin to the last one's end, as far as they say; `None` when none does.
    pub fn of<'t>(traces: impl IntoIterator<Item = &'t Trace>) -> Option<Span> {
        Self::of_streams(traces, |_, _| true)
    }

    /// The same of those streams that are meant.
    pub(crate) fn of_streams<'t>(
        traces: impl IntoIterator<Item = &'t Trace>,
        is_meant: impl Fn(&Trace, &StreamIndex) -> bool,
    ) -> Option<Span> {
        let mut span: Option<Span> = None;
        for trace in traces {
            for stream in trace.streams.iter().filter(|stream| is_meant(trace, stream)) {
                let Some(scale) = trace.scale(stream) else { continue };
                let cycles = stream.packets.iter().flat_map(|packet| [packet.begin, packet.end]);
                for ns in cycles.flatten().filter_map(|cycles| scale.nanoseconds(cycles)) {
                    let known = span.get_or_insert(Span {
                        begin_ns: ns,
                        end_ns: ns,
                    });
                    known.begin_ns = known.begin_ns.min(ns);
                    known.end_ns = known.end_ns.max(ns);
                }
            }
        }
        span
    }

    /// The first and the last of a clock's cycles in it; none when it has none there.
    pub fn cycles(self, scale: Option<&ClockScale>) -> Option<(u64, u64)> {
        let Some(scale) = scale.filter(|_| self != Span::ALL) else {
            return Some((0, u64::MAX));
        };
        Some((
            scale.cycles_from(self.begin_ns)?,
            last_cycles(Some(scale), self.end_ns)?,
        ))
    }
}

/// A part of a stream.
#[derive(Clone, Debug)]
pub struct Part {
    /// Indices of its packets; absent: those that may hold events of the span.
    pub packets: Option<Range<usize>>,
    /// Only events of this part of time.
    pub span: Span,
}

/// Events of traces, in the order of time.
#[derive(Debug)]
pub struct Merge<'t> {
    streams: Vec<MergedStream<'t>>,
    /// Time and stream of the next event of each that waits; the earliest of all for those without a time.
    waiting: BinaryHeap<Reverse<(i64, usize)>>,
    /// The one whose events come now.
    current: Option<usize>,
    /// The last of its cycles before an event of another stream comes; none of them when it is absent.
    limit: Option<u64>,
    /// What was not as it should be, so far.
    pub findings: Findings,
    /// Where events could not be read: whoever wants to know takes it when something is here. It is later than the last event that was
    /// handed on of that stream; the next one is not yet.
    pub blind: Vec<Blind<'t>>,
}

#[derive(Debug)]
struct MergedStream<'t> {
    trace: usize,
    stream: Stream<'t>,
    /// Its next event, while it waits for others.
    next: Option<Event<'t>>,
    /// Of the span, in its cycles; none when it has no cycles there.
    ticks: Option<(u64, u64)>,
}

/// An event and where it is from.
#[derive(Clone, Copy, Debug)]
pub struct Merged<'t> {
    /// The event.
    pub event: Event<'t>,
    /// Which of the streams: for [`Merge::stream`].
    pub stream: usize,
}

impl<'t> Merge<'t> {
    /// Of all streams of some traces; only the packets of `span` are read.
    ///
    /// # Errors
    /// A stream file that was there cannot be opened any more.
    pub fn new(traces: &'t [Trace], span: Span) -> io::Result<Merge<'t>> {
        let count: usize = traces.iter().map(|trace| trace.streams.len()).sum();
        let window_bytes = (WINDOWS_BYTES / count.max(1)).clamp(WINDOW_BYTES_MIN, WINDOW_BYTES_MAX);
        Merge::with_windows(traces, span, window_bytes)
    }

    /// The same, with so many bytes of each stream in memory, or those of one event.
    ///
    /// # Errors
    /// A stream file that was there cannot be opened any more.
    pub fn with_windows(traces: &'t [Trace], span: Span, window_bytes: usize) -> io::Result<Merge<'t>> {
        let all = |_: &StreamIndex| Part { packets: None, span };
        Merge::of_parts(traces, all, window_bytes)
    }

    /// Of a part of each stream, with windows of so many bytes.
    ///
    /// # Errors
    /// A stream file that was there cannot be opened any more.
    pub fn of_parts(
        traces: &'t [Trace],
        part: impl Fn(&StreamIndex) -> Part,
        window_bytes: usize,
    ) -> io::Result<Merge<'t>> {
        let count: usize = traces.iter().map(|trace| trace.streams.len()).sum();
        let mut merge = Merge {
            streams: Vec::with_capacity(count),
            waiting: BinaryHeap::with_capacity(count),
            current: None,
            limit: None,
            findings: Findings::default(),
            blind: Vec::new(),
        };
        let of_trace = |(number, trace): (usize, &'t Trace)| trace.streams.iter().map(move |index| (number, index));
        let mut streams: Vec<(usize, &StreamIndex)> = traces.iter().enumerate().flat_map(of_trace).collect();
        streams.sort_by_key(|(trace, stream)| rank(&traces[*trace], stream));
        for (number, index) in streams {
            let plan = &traces[number].plan;
            let Part { packets, span } = part(index);
            let chosen = packets.clone().unwrap_or(0..0);
            let mut stream = Stream::open(&StreamFile { plan, index }, chosen, window_bytes)?;
            if are_too_many(count) {
                stream.open_for_each_read();
            }
            if packets.is_none() {
                stream.choose(span);
            }
            merge.add(number, stream, span);
        }
        Ok(merge)
    }

    fn add(&mut self, trace: usize, stream: Stream<'t>, span: Span) {
        let index = self.streams.len();
        self.streams.push(MergedStream {
            trace,
            ticks: span.cycles(stream.scale.as_ref()),
            stream,
            next: None,
        });
        if let Some(event) = self.advance(index) {
            self.wait(index, event);
        }
    }

    /// Reads the next event of a stream that is in the span. Inlined, so that the event is not handed on through memory: a processor that loads a pair
    /// of words, which were stored one by one a moment ago, waits until both have reached the cache.
    #[inline(always)]
    fn advance(&mut self, index: usize) -> Option<Event<'t>> {
        let MergedStream { stream, ticks, .. } = &mut self.streams[index];
        let (begin, end) = (*ticks)?;
        loop {
            let (faults, last_ticks) = (stream.fault_count(), stream.last_ticks());
            let event = stream.next(&mut self.findings);
            if stream.fault_count() != faults {
                self.blind.push(unreadable(stream, last_ticks, event.as_ref()));
            }
            // What is later may be followed by what is not, if time goes back.
            if event.is_none_or(|event| event.ticks >= begin && event.ticks <= end) {
                return event;
            }
        }
    }

    fn wait(&mut self, index: usize, event: Event<'t>) {
        let MergedStream { stream, next, .. } = &mut self.streams[index];
        let ns = stream.ns(&event).unwrap_or(i64::MIN);
        *next = Some(event);
        self.waiting.push(Reverse((ns, index)));
    }

    /// The next event of all, if it is of the stream whose event came last and all of it is in memory: most are. Otherwise nothing happens,
    /// and [`Merge::next`] is to be asked, which does the same and more, but hands events on through memory.
    #[inline(always)]
    pub fn usual(&mut self) -> Option<Merged<'t>> {
        let index = self.current?;
        let MergedStream { stream, ticks, .. } = &mut self.streams[index];
        let (begin, end) = (*ticks)?;
        let event = stream.usual(begin..=end.min(self.limit?))?;
        Some(Merged { event, stream: index })
    }

    /// The next event of all. What belongs to it can be looked at until the next call.
    #[expect(clippy::should_implement_trait, reason = "what it returns is about this value")]
    pub fn next(&mut self) -> Option<Merged<'t>> {
        // The stream whose event came last goes on, unless another is first now.
        if let Some(index) = self.current {
            match self.advance(index) {
                Some(event) if Some(event.ticks) <= self.limit => return Some(Merged { event, stream: index }),
                Some(event) => self.wait(index, event),
                None => {}
            }
        }
        self.change()
    }

    fn change(&mut self) -> Option<Merged<'t>> {
        let Reverse((_, index)) = self.waiting.pop()?;
        self.current = Some(index);
        let scale = self.streams[index].stream.scale.as_ref();
        self.limit = match self.waiting.peek() {
            None => Some(u64::MAX),
            // Of two events of the same time the one of the lower stream is first.
            Some(&Reverse((ns, other))) => {
                let last_ns = if index < other { Some(ns) } else { ns.checked_sub(1) };
                last_ns.and_then(|last_ns| last_cycles(scale, last_ns))
            }
        };
        let event = self.streams[index].next.take()?;
        Some(Merged { event, stream: index })
    }

    /// A stream, to look at the values of its last event.
    pub fn stream(&mut self, index: usize) -> &mut Stream<'t> {
        &mut self.streams[index].stream
    }

    /// Which of the traces a stream is of.
    pub fn trace_of(&self, stream: usize) -> usize {
        self.streams[stream].trace
    }
}

/// From the last event that could be read to the next one.
fn unreadable<'t>(stream: &Stream<'t>, last_ticks: u64, next: Option<&Event<'_>>) -> Blind<'t> {
    let last_ns = stream.scale.as_ref().filter(|_| last_ticks > 0);
    let last_ns = last_ns.and_then(|scale| scale.nanoseconds(last_ticks));
    Blind {
        stream: stream.index,
        cpu: stream.index.cpu_id,
        begin_ns: last_ns.unwrap_or(i64::MIN),
        end_ns: next.and_then(|next| stream.ns(next)).unwrap_or(i64::MAX),
    }
}

/// The last cycles that are not later than a time; none when the clock begins later.
fn last_cycles(scale: Option<&ClockScale>, ns: i64) -> Option<u64> {
    let later = ns.checked_add(1).and_then(|later| scale?.cycles_from(later));
    later.map_or(Some(u64::MAX), |cycles| cycles.checked_sub(1))
}

/// The order of events of the same time.
fn rank<'t>(trace: &'t Trace, stream: &'t StreamIndex) -> impl Ord + use<'t> {
    let uuid = trace.schema().uuid;
    let of_trace = (uuid.is_none(), uuid, trace.name.is_empty(), &trace.name);
    (of_trace, stream.class_id, stream.number, &stream.path)
}
