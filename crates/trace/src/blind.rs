// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where events are missing: the parts of time in which a stream's CPU did what the trace does not tell. Who follows threads must know them.

use std::path::Path;

use crate::finding::{Findings, Kind};
use crate::folder::Trace;
use crate::index::{Packet, StreamIndex};
use crate::merge::Span;
use crate::stream::{Stream, StreamFile};

/// Enough for the start of a packet.
const WINDOW_BYTES: usize = 4 << 10;

/// A part of time in which events of a CPU are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blind {
    /// The CPU; absent when the stream is not of one.
    pub cpu: Option<u64>,
    /// From here on, in nanoseconds.
    pub begin_ns: i64,
    /// Up to here.
    pub end_ns: i64,
}

/// The blind parts of a trace that lasts for `span`: what the tracer lost, what was overwritten before the first packet, and packets that
/// are damaged according to `findings`.
pub fn blind(trace: &Trace, span: Span, findings: &Findings) -> Vec<Blind> {
    let mut parts = Vec::new();
    for stream in &trace.streams {
        let part = |begin: Option<i64>, end: Option<i64>| Blind {
            cpu: stream.cpu_id,
            begin_ns: begin.unwrap_or(span.begin_ns),
            end_ns: end.unwrap_or(span.end_ns),
        };
        let at = |cycles: Option<u64>| trace.scale(stream)?.nanoseconds(cycles?);
        for loss in &stream.losses {
            let place = loss.packet as usize;
            let packet = stream.packets.get(place);
            let before = place.checked_sub(1).and_then(|before| stream.packets.get(before));
            let begin = before.and_then(|before| before.end);
            let end = packet.and_then(|packet| {
                if loss.discarded_events > 0 {
                    packet.end
                } else {
                    packet.begin
                }
            });
            parts.push(part(at(begin), at(end)));
        }
        if has_been_overwritten(trace, stream) {
            parts.push(part(None, at(stream.packets.first().and_then(|first| first.begin))));
        }
        for offset in damages(findings, &stream.path) {
            let is_before = |packet: &Packet| packet.offset <= offset;
            let place = stream.packets.partition_point(is_before).checked_sub(1);
            let begin = place.and_then(|place| stream.packets[place].begin);
            // What follows a damage is read from the next packet on.
            let next = stream.packets.get(place.map_or(0, |place| place + 1));
            parts.push(part(at(begin), at(next.and_then(|next| next.begin))));
        }
    }
    parts.retain(|part| part.begin_ns < part.end_ns);
    parts
}

/// Its first packet is not the first that was written.
fn has_been_overwritten(trace: &Trace, index: &StreamIndex) -> bool {
    let file = StreamFile {
        plan: &trace.plan,
        index,
    };
    let first = 0..index.packets.len().min(1);
    let Ok(mut stream) = Stream::open(&file, first, WINDOW_BYTES) else {
        return false;
    };
    stream.next(&mut Findings::default());
    let (reader, ..) = stream.parts();
    reader.info().sequence_number.is_some_and(|number| number > 0)
}

/// Bytes of a file where something cannot be read. Only the first of a kind has a place; what else there is lies behind it.
fn damages<'f>(findings: &'f Findings, file: &'f Path) -> impl Iterator<Item = u64> + 'f {
    let is_damage = |kind| {
        matches!(
            kind,
            Kind::DamagedPacket | Kind::DamagedEvent | Kind::CutFile | Kind::UnknownEvent | Kind::UnreadableFile
        )
    };
    findings
        .iter()
        .filter(move |finding| finding.file == file && is_damage(finding.kind))
        .map(|finding| finding.offset)
}
