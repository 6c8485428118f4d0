// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where events are missing: the parts of time in which a stream's CPU did what the trace does not tell. Who follows threads must know them.

use std::collections::BTreeMap;

use crate::finding::{Finding, Findings, Kind};
use crate::folder::Trace;
use crate::index::StreamIndex;
use crate::merge::Span;

/// So much is told of.
const TOLD_NS: i64 = 10_000_000;

/// A part of time in which events of a stream are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blind<'t> {
    /// The stream.
    pub stream: &'t StreamIndex,
    /// The CPU; absent when the stream does not say which.
    pub cpu: Option<u64>,
    /// From here on, in nanoseconds.
    pub begin_ns: i64,
    /// Up to here.
    pub end_ns: i64,
}

/// The blind parts of a trace, as far as its index tells: what the tracer lost, what was overwritten before the first packet, and bytes in
/// which no packet was found, or the end of a file that has lost packets. Events that cannot be read are met by who reads them ([`crate::Merge::blind`]).
pub fn blind(trace: &Trace) -> Vec<Blind<'_>> {
    let span = Span::of([trace]).unwrap_or(Span::ALL);
    let mut parts = Vec::new();
    for stream in &trace.streams {
        let at = |cycles: Option<u64>| trace.scale(stream)?.nanoseconds(cycles?);
        let part = |begin: Option<u64>, end: Option<u64>| Blind {
            stream,
            cpu: stream.cpu_id,
            begin_ns: at(begin).unwrap_or(span.begin_ns),
            end_ns: at(end).unwrap_or(span.end_ns),
        };
        let before = |place: usize| place.checked_sub(1).and_then(|before| stream.packets.get(before));
        for loss in &stream.losses {
            let place = loss.packet as usize;
            let begin = before(place).and_then(|before| before.end);
            // What was discarded behind the last event of a packet may be counted in it, as nobody has entered the next one by then.
            let next = place + usize::from(loss.discarded_events > 0);
            let end = stream.packets.get(next).and_then(|next| next.begin);
            parts.push(part(begin, end));
        }
        let first_ns = at(stream.packets.first().and_then(|first| first.begin));
        // A state dump that is gone, or was taken again, was of no CPU.
        let is_of_cpu = tells_of_cpu(trace, stream);
        let is_late = first_ns != Some(span.begin_ns) && stream.first_number.is_some_and(|number| number > 0);
        if is_late && is_of_cpu {
            parts.push(part(None, stream.packets.first().and_then(|first| first.begin)));
        }
        let mut read_bytes = 0;
        for (place, packet) in stream.packets.iter().enumerate() {
            if packet.offset > read_bytes {
                parts.push(part(before(place).and_then(|before| before.end), packet.begin));
            }
            read_bytes = packet.offset + packet.bytes;
        }
        let has_missing = stream.missing_packets > 0 && (!stream.packets.is_empty() || is_of_cpu);
        if read_bytes < stream.state.bytes && !stream.packets.is_empty() || has_missing {
            parts.push(part(stream.packets.last().and_then(|last| last.end), None));
        }
    }
    parts.retain(|part| part.begin_ns <= part.end_ns);
    parts
}

/// When traces of a kernel tell what happens: from the first packet's begin to the last one's end, the state dump apart, which may go on when
/// recording has ended. `None` where packets do not say.
pub fn recorded_span<'t>(traces: impl IntoIterator<Item = &'t Trace> + Clone) -> Option<Span> {
    Span::of_streams(traces.clone(), tells_of_cpu).or_else(|| Span::of(traces))
}

/// A part of time in which a CPU was not recorded.
#[derive(Clone, Copy, Debug)]
pub struct Unrecorded<'t> {
    /// Where and when. The stream is the one that ends there, or else the one that begins behind it.
    pub blind: Blind<'t>,
}

/// The parts of `span` in which a kernel's CPUs were not recorded. A stream tells of its CPU from the begin of its first packet to the end of
/// its last; one whose first packet is the first of all, numbered 0, from the begin of the trace. A packet without events says that nothing
/// happened in its time, and that the time between it and its neighbours was not recorded. Chunks of a trace go on where the one before ends. If a
/// CPU has several streams, each tells of something else; but they need not begin and end at once, so short parts of which another one tells do not count.
pub fn unrecorded<'t>(traces: impl IntoIterator<Item = &'t Trace>, span: Span) -> Vec<Unrecorded<'t>> {
    let mut recorded: BTreeMap<_, Vec<(i64, i64, &StreamIndex)>> = BTreeMap::new();
    for trace in traces {
        let Some(own) = recorded_span([trace]) else { continue };
        for stream in trace.streams.iter().filter(|stream| tells_of_cpu(trace, stream)) {
            let parts = recorded_in(trace, stream, own).unwrap_or_default();
            let parts = parts.into_iter().map(|(begin_ns, end_ns)| (begin_ns, end_ns, stream));
            recorded
                .entry((stream.cpu_id, stream.class_id, stream.stream_id))
                .or_default()
                .extend(parts);
        }
    }
    recorded.retain(|(cpu, ..), parts| cpu.is_some() && !parts.is_empty());
    let mut found = Vec::new();
    for (key @ (cpu, class_id, _), mut parts) in recorded.clone() {
        let another_tells = |part: &Unrecorded<'_>| {
            let others = recorded
                .iter()
                .filter(|(other, _)| (other.0, other.1) == (cpu, class_id) && **other != key);
            let mut told = others.flat_map(|(_, parts)| parts);
            told.any(|(begin_ns, end_ns, _)| *begin_ns <= part.blind.begin_ns && part.blind.end_ns <= *end_ns)
        };
        parts.sort_by_key(|(begin_ns, ..)| *begin_ns);
        let (mut until_ns, mut ending) = (span.begin_ns, parts[0].2);
        for (begin_ns, end_ns, stream) in parts.into_iter().chain([(span.end_ns, span.end_ns, ending)]) {
            if begin_ns > until_ns {
                let blind = Blind {
                    stream: ending,
                    cpu,
                    begin_ns: until_ns,
                    end_ns: begin_ns,
                };
                let part = Unrecorded { blind };
                if part.is_told() || !another_tells(&part) {
                    found.push(part);
                }
            }
            if end_ns > until_ns {
                (until_ns, ending) = (end_ns, stream);
            }
        }
    }
    found
}

/// Adds which CPUs of a kernel's traces were not recorded from their begin or up to their end, and of which only a part of them tells.
pub fn find_unrecorded<'t>(traces: impl IntoIterator<Item = &'t Trace> + Clone, findings: &mut Findings) {
    let Some(span) = recorded_span(traces.clone()) else {
        return;
    };
    for part in unrecorded(traces, span) {
        if let Some(what) = part.sentence(span) {
            findings.add(Finding {
                kind: Kind::Unrecorded,
                file: part.blind.stream.path.clone(),
                count: 1,
                offset: if part.blind.end_ns == span.end_ns {
                    part.blind.stream.state.bytes
                } else {
                    0
                },
                what,
            });
        }
    }
}

impl Unrecorded<'_> {
    /// Long enough that people should know of it: tracers begin and end with one CPU after the other.
    pub fn is_told(&self) -> bool {
        self.blind.end_ns - self.blind.begin_ns >= TOLD_NS
    }

    /// What is missing of a begin or an end that is cut, if people should know of it.
    pub fn sentence(&self, span: Span) -> Option<String> {
        let Blind {
            cpu, begin_ns, end_ns, ..
        } = self.blind;
        let which = match (begin_ns == span.begin_ns, end_ns == span.end_ns) {
            (_, true) => "last",
            (true, _) => "first",
            _ => return None,
        };
        let seconds = (end_ns - begin_ns) as f64 / 1e9;
        let sentence = format!("the {which} {seconds:.3} s of CPU {} are missing", cpu?);
        self.is_told().then_some(sentence)
    }
}

/// A state dump says how things stand, and no more of what happens on the CPU that wrote it.
pub fn tells_of_cpu(trace: &Trace, stream: &StreamIndex) -> bool {
    let class = trace.schema().streams.get(&stream.class_id);
    class.is_some_and(|class| {
        let mut names = class.events.values().map(|event| &event.name);
        !names.all(|name| name.starts_with("lttng_statedump_") || name.starts_with("piste_statedump_"))
    })
}

/// The parts of time that a stream tells of, if its packets say when they are; `own` is the whole trace's.
fn recorded_in(trace: &Trace, stream: &StreamIndex, own: Span) -> Option<Vec<(i64, i64)>> {
    let scale = trace.scale(stream)?;
    let at = |cycles: Option<u64>| scale.nanoseconds(cycles?);
    let first = stream.packets.first()?;
    let is_first_of_all = stream.first_number == Some(0) && !first.is_empty;
    let mut begin_ns = if is_first_of_all {
        own.begin_ns
    } else {
        at(first.begin)?
    };
    let mut parts = Vec::new();
    for (before, behind) in stream.packets.iter().zip(stream.packets.iter().skip(1)) {
        if (before.is_empty || behind.is_empty) && behind.begin > before.end {
            parts.push((begin_ns, at(before.end)?));
            begin_ns = at(behind.begin)?;
        }
    }
    parts.push((begin_ns, at(stream.packets.last()?.end)?));
    Some(parts)
}

/// The same, as cycles of the stream's clock; none of a stream that does not tell of a CPU.
pub(crate) fn recorded_cycles(trace: &Trace, stream: &StreamIndex) -> Vec<(u64, u64)> {
    let own = recorded_span([trace]).filter(|_| stream.cpu_id.is_some() && tells_of_cpu(trace, stream));
    let parts = own.and_then(|own| recorded_in(trace, stream, own)).unwrap_or_default();
    let scale = trace.scale(stream);
    let cycles = |(begin_ns, end_ns)| Span { begin_ns, end_ns }.cycles(scale.as_ref());
    parts.into_iter().filter_map(cycles).collect()
}
