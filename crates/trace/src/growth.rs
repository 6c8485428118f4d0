// SPDX-License-Identifier: MIT OR Apache-2.0
//! What has come to traces that still grow, a round at a time: the packets that are complete, in the order of time.
//!
//! Streams come in packets, each at its own pace, so a round needs to know until when nothing more will come: whoever writes the traces
//! says so. What is later waits for the next round. If nobody says so, a round goes as far as the slowest of the streams that had a packet
//! lately, which is right as long as none of the others was only slow.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::finding::{Finding, Findings, Kind};
use crate::folder::Trace;
use crate::index::{Packet, StreamIndex};
use crate::merge::{Merge, Part, Span};

/// Of each stream in memory.
const WINDOW_BYTES: usize = 256 << 10;
/// Where nobody says until when traces are complete: a stream without a packet for so long holds up nobody.
const QUIET_AFTER: Duration = Duration::from_secs(1);

/// Remembers what was shown of each stream.
#[derive(Debug, Default)]
pub struct Growth {
    streams: HashMap<StreamKey, Shown>,
}

/// What tells a stream from others. Its file may be moved: a rotation does that.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum StreamKey {
    /// The trace's uuid, the class, the stream in it, and when its first packet begins: other tracers' chunks share the rest.
    Ids([u8; 16], u64, u64, Option<u64>),
    /// It says none of this.
    Path(PathBuf),
}

impl StreamKey {
    fn of(trace: &Trace, index: &StreamIndex) -> StreamKey {
        match (trace.schema().uuid, index.stream_id) {
            (Some(uuid), Some(id)) => {
                let begin = index.packets.first().and_then(|packet| packet.begin);
                StreamKey::Ids(uuid, index.class_id, id, begin)
            }
            _ => StreamKey::Path(index.path.clone()),
        }
    }
}

#[derive(Debug)]
struct Shown {
    /// All events of so many packets.
    packets: usize,
    /// Of the next packet, the events up to then.
    until_ns: Option<i64>,
    /// Packets that were complete when it was last looked at.
    complete: usize,
    /// When there was one more.
    last_news: Instant,
}

/// What is to be shown next.
#[derive(Debug)]
pub struct Round {
    parts: HashMap<PathBuf, Part>,
    /// It goes as far as this time, in nanoseconds. `i64::MIN`: there are no packets.
    pub until_ns: i64,
    /// There is more than may be shown now.
    pub is_waiting: bool,
}

impl Growth {
    /// The next round of traces that were opened just now, with what was found in them.
    ///
    /// `sizes`: of the stream files, in bytes, from before the traces were opened. A tracer writes what packets need into the metadata before it
    /// writes the packets, so that those in that size can be read; absent when nothing will follow, and everything is shown.
    ///
    /// `known_ns`: everything up to then was written before `sizes` was asked, and later events wait for a later round; absent when nobody knows,
    /// and events of later rounds may be earlier.
    pub fn round(
        &mut self,
        traces: &[Trace],
        findings: &Findings,
        sizes: Option<&HashMap<PathBuf, u64>>,
        known_ns: Option<i64>,
        now: Instant,
    ) -> Round {
        let is_over = sizes.is_none();
        let (mut slowest_ns, mut latest_ns) = (i64::MAX, i64::MIN);
        for (trace, index) in streams(traces) {
            let bytes = sizes.map_or(u64::MAX, |sizes| sizes.get(&index.path).copied().unwrap_or(0));
            let is_whole =
                |packet: &&Packet| is_over || packet.offset + packet.bytes <= bytes && !is_cut(findings, index, packet);
            let complete = index.packets.iter().take_while(is_whole).count();
            let shown = self.streams.entry(StreamKey::of(trace, index)).or_insert(Shown {
                packets: 0,
                until_ns: None,
                complete: 0,
                last_news: now,
            });
            if complete > shown.complete {
                (shown.complete, shown.last_news) = (complete, now);
            }
            if let Some(end_ns) = end_ns(trace, index, complete) {
                latest_ns = latest_ns.max(end_ns);
                if now.duration_since(shown.last_news) < QUIET_AFTER {
                    slowest_ns = slowest_ns.min(end_ns);
                }
            }
        }
        let horizon_ns = match is_over {
            true => i64::MAX,
            false => known_ns.unwrap_or(slowest_ns),
        };
        let mut round = Round {
            parts: HashMap::new(),
            until_ns: horizon_ns.min(latest_ns),
            is_waiting: false,
        };
        for (trace, index) in streams(traces) {
            let Some(shown) = self.streams.get_mut(&StreamKey::of(trace, index)) else {
                continue;
            };
            let part = Part {
                packets: Some(shown.packets.min(shown.complete)..shown.complete),
                span: Span {
                    begin_ns: shown.until_ns.map_or(i64::MIN, |until_ns| until_ns.saturating_add(1)),
                    end_ns: horizon_ns,
                },
            };
            round.parts.insert(index.path.clone(), part);
            while shown.packets < shown.complete
                && end_ns(trace, index, shown.packets + 1).is_none_or(|end_ns| end_ns <= horizon_ns)
            {
                shown.packets += 1;
                shown.until_ns = None;
            }
            if shown.packets < shown.complete {
                shown.until_ns = shown.until_ns.max(Some(horizon_ns));
                round.is_waiting = true;
            }
        }
        round
    }
}

impl Round {
    /// The new events of traces within a part of time.
    ///
    /// # Errors
    /// A stream file that was there cannot be opened any more.
    pub fn merge<'t>(&self, traces: &'t [Trace], within: Span) -> io::Result<Merge<'t>> {
        Merge::of_parts(traces, |index| self.part(index, within), WINDOW_BYTES)
    }

    /// The part of a stream that is to be shown, within a part of time.
    pub fn part(&self, index: &StreamIndex, within: Span) -> Part {
        let nothing = Part {
            packets: Some(0..0),
            span: within,
        };
        let Some(part) = self.parts.get(&index.path) else {
            return nothing;
        };
        let mut part = part.clone();
        part.span.begin_ns = part.span.begin_ns.max(within.begin_ns);
        part.span.end_ns = part.span.end_ns.min(within.end_ns);
        part
    }
}

fn streams(traces: &[Trace]) -> impl Iterator<Item = (&Trace, &StreamIndex)> {
    traces
        .iter()
        .flat_map(|trace| trace.streams.iter().map(move |index| (trace, index)))
}

/// When the last of the first `count` packets ends.
fn end_ns(trace: &Trace, index: &StreamIndex, count: usize) -> Option<i64> {
    let packet = index.packets.get(count.checked_sub(1)?)?;
    trace.scale(index)?.nanoseconds(packet.end?)
}

/// Its file ended within it.
fn is_cut(findings: &Findings, index: &StreamIndex, packet: &Packet) -> bool {
    let is_last = index.packets.last() == Some(packet);
    let is_it = |finding: &Finding| {
        finding.kind == Kind::CutFile && finding.offset == packet.offset && finding.file == index.path
    };
    is_last && findings.iter().any(is_it)
}
