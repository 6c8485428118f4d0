// SPDX-License-Identifier: MIT OR Apache-2.0
//! Metadata and packets for the reader. What a walk says in passing, what it says to somebody who looks at every value, and what it says of
//! bytes that come a few at a time, is the same.

use crate::read::metadata as language;
use crate::read::packet::{Event, Next, StreamReader};
use crate::read::plan::{IntegerNode, Plan};
use crate::read::schema::{Encoding, Scope};
use crate::read::text::{PacketText, Printer, TimeFormat, Times, WallTime};
use crate::read::walk::{Fault, Visitor};
use crate::write;

/// Ends the metadata, and each stream but the last, in what [`trace`] takes.
pub const SEPARATOR: &[u8] = b"\n--- stream\n";
/// Looking at more events of a packet finds nothing new.
const EVENTS_MAX: usize = 2000;

/// Understands metadata, or what is left of it; what is understood can be written, and what is written can be understood.
/// # Panics
/// When it cannot: the bug that a fuzzer looks for.
pub fn metadata(bytes: &[u8]) {
    let Ok(schema) = language::parse(bytes) else {
        if let Ok(salvaged) = language::salvage(bytes) {
            let _ = Plan::salvage(salvaged.schema);
        }
        return;
    };
    for text in [write::tsdl(&schema), write::json(&schema)].into_iter().flatten() {
        let again = language::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error}:\n{text}"));
        Plan::new(again).unwrap_or_else(|error| panic!("{error}:\n{text}"));
    }
    let _ = Plan::new(schema);
}

/// Reads a trace: metadata, then streams, with [`SEPARATOR`] between.
/// # Panics
/// When two ways to read it differ: the bug that a fuzzer looks for.
pub fn trace(bytes: &[u8]) {
    let mut parts = split(bytes);
    let Ok(schema) = language::parse(parts.next().unwrap_or_default()) else {
        return;
    };
    if let Ok(plan) = Plan::new(schema) {
        parts.for_each(|stream| packets(&plan, stream));
    }
}

/// The parts of what [`trace`] takes.
pub fn split(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(bytes);
    std::iter::from_fn(move || {
        let all = rest.take()?;
        let Some(at) = memchr::memmem::find(all, SEPARATOR) else {
            return Some(all);
        };
        rest = Some(&all[at + SEPARATOR.len()..]);
        Some(&all[..at])
    })
}

fn packets(plan: &Plan, stream: &[u8]) {
    let (mut whole, mut parts) = (StreamReader::new(plan), StreamReader::new(plan));
    let mut printer = Printer::new(plan);
    let mut rest = stream;
    while !rest.is_empty() {
        let Ok(info) = whole.packet(rest) else { break };
        let bytes = info.total_bits.map_or(rest.len() as u64, |bits| bits / 8);
        assert!(bytes > 0, "a packet without bytes: {info:?}");
        let (packet, behind) = rest.split_at(rest.len().min(usize::try_from(bytes).unwrap_or(usize::MAX)));
        let (seen, ended) = look(&mut whole, &mut printer, packet);
        assert_eq!((seen, ended), pass(&mut parts, packet), "looked at, and passed over");
        rest = behind;
    }
}

/// Ticks, class and place of each event.
type Seen = Vec<(u64, u64, u64)>;

fn seen(event: &Event<'_>) -> (u64, u64, u64) {
    (event.ticks, event.class.id, event.position)
}

/// Every event of a packet that the reader has begun, and every value of each.
fn look<'p>(reader: &mut StreamReader<'p>, printer: &mut Printer<'p>, packet: &[u8]) -> (Seen, Option<Fault>) {
    let mut times = Times::new(TimeFormat::TimeOfDay, |seconds| Some(WallTime::utc(seconds)));
    let (mut text, mut out, mut events) = (PacketText::default(), Vec::new(), Seen::new());
    let printed = printer.packet(&mut text, reader, packet);
    assert!(may_fail(printed), "{printed:?}");
    for scope in [Scope::PacketHeader, Scope::PacketContext] {
        let visited = reader.visit_packet(scope, packet, &mut Depth::default());
        assert!(may_fail(visited.map(drop)), "{visited:?}");
    }
    reader.end_at(8 * packet.len() as u64);
    while events.len() < EVENTS_MAX {
        match reader.next(packet, 0) {
            Next::Event(event) => {
                events.push(seen(&event));
                for scope in [
                    Scope::EventHeader,
                    Scope::EventContext,
                    Scope::SpecificContext,
                    Scope::Payload,
                ] {
                    let mut depth = Depth::default();
                    let visited = reader.visit(&event, scope, packet, 0, &mut depth);
                    assert!(may_fail(visited.map(drop)), "{scope:?}: {visited:?}");
                    assert!(visited.is_err() || depth.0 == 0);
                }
                out.clear();
                let printed = printer.event(&mut out, &mut times, &mut text, reader, &event, (packet, 0));
                assert!(may_fail(printed), "{printed:?}");
                assert_eq!(printed.is_ok(), out.ends_with(b"\n"));
            }
            Next::Fault(fault) => return (events, Some(fault)),
            Next::End => break,
            Next::Short => panic!("all of the packet is there"),
        }
    }
    (events, None)
}

/// The same events, with a few bytes at a time, and values of which nobody wants to know.
fn pass(reader: &mut StreamReader<'_>, packet: &[u8]) -> (Seen, Option<Fault>) {
    let mut events = Seen::new();
    let mut head_bytes = 16;
    while let Err(fault) = reader.packet(&packet[..head_bytes.min(packet.len())]) {
        assert!(head_bytes < packet.len(), "it could be read before: {fault}");
        head_bytes *= 2;
    }
    reader.end_at(8 * packet.len() as u64);
    let (mut base, mut window_bytes) = (0, 8);
    while events.len() < EVENTS_MAX {
        let window = &packet[base..packet.len().min(base + window_bytes)];
        match reader.next(window, base as u64) {
            Next::Event(event) => events.push(seen(&event)),
            Next::Fault(fault) => return (events, Some(fault)),
            Next::End => break,
            Next::Short => {
                let at = (reader.position() / 8) as usize;
                if at == base {
                    assert!(base + window_bytes < packet.len(), "no more bytes are there");
                    window_bytes *= 2;
                }
                base = at;
            }
        }
    }
    (events, None)
}

/// Elements without a size are counted only by those who look at them, and texts are long only for those who write them.
fn may_fail(looked: Result<(), Fault>) -> bool {
    matches!(looked, Ok(()) | Err(Fault::Endless(_) | Fault::LongText))
}

/// What begins ends.
#[derive(Default)]
struct Depth(u32);

impl Visitor for Depth {
    fn integer(&mut self, integer: &IntegerNode, value: u64) {
        if let crate::read::schema::Width::Bits(bits @ 1..64) = integer.width
            && !integer.is_signed
        {
            assert!(value >> bits == 0, "{value} in {bits} bits");
        }
    }

    fn text(&mut self, bytes: &[u8], encoding: Encoding) {
        assert!((bytes.len() as u64).is_multiple_of(encoding.unit_bytes()));
    }

    fn begin_structure(&mut self) {
        self.0 += 1;
    }

    fn end_structure(&mut self) {
        self.0 -= 1;
    }

    fn begin_array(&mut self, _: u64, _: bool) {
        self.0 += 1;
    }

    fn end_array(&mut self) {
        self.0 -= 1;
    }

    fn begin_variant(&mut self, _: &str) {
        self.0 += 1;
    }

    fn end_variant(&mut self) {
        self.0 -= 1;
    }
}
