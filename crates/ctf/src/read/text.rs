// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events as lines of text, the same bytes as babeltrace2 prints when it is told nothing but a trace:
//!
//! ```text
//! [09:41:07.123456789] (+0.000001500) vm shop:order: { cpu_id = 1 }, { vtid = 4711 }, { id = 42, name = "tea" }
//! ```
//!
//! Time and the time since the event before, the host (and `procname`, `vpid` of traces that have them), the event's name, and each
//! scope that there is: the packet's context, the stream's, the event's, and the fields. What only the format needs is left out.
//!
//! An event is found first ([`StreamReader::next`]) and then written from the same bytes; nothing is allocated for it. Parts of the usual shape
//! are written into a small memory of the printer (`literal::Pen`), and copied to the end of the text together.

mod fields;
mod literal;
mod losses;
mod numbers;
mod plain;
mod strings;
mod times;
mod values;

use super::clock::ClockScale;
use super::packet::{Event, StreamReader};
use super::plan::{EventPlan, Plan};
use super::schema::{EnvironmentValue, Schema, Scope};
use super::symbols::{NoSymbols, Symbols};
use super::walk::Fault;
use fields::Fields;
use literal::{Literal, Out, PEN_BYTES, Pen};
use plain::Plain;

pub use losses::{Loss, Lost, loss};
pub use strings::decoded;
pub use times::{TimeFormat, Times, WallTime};
pub use values::ValueText;

/// Writes the events of a trace.
#[derive(Debug)]
pub struct Printer<'p> {
    plan: &'p Plan,
    /// `vm:proc:(4711) `
    origin: String,
    streams: Vec<StreamText<'p>>,
    /// For lines while they are written.
    memory: Box<[u8; PEN_BYTES]>,
}

#[derive(Debug)]
struct StreamText<'p> {
    class_id: u64,
    scale: Option<ClockScale>,
    packet_context: Option<Fields<'p>>,
    event_context: Option<Fields<'p>>,
    /// Number of its first class.
    first_number: usize,
    /// In the order of their numbers; each is prepared when its first event comes.
    events: Vec<Option<Box<EventText<'p>>>>,
}

#[derive(Debug)]
struct EventText<'p> {
    /// `vm shop:order: `
    head: Literal,
    specific_context: Option<Fields<'p>>,
    payload: Option<Fields<'p>>,
}

/// What the events of a packet have in common; of no use for another packet.
#[derive(Clone, Debug, Default)]
pub struct PacketText {
    /// Index into the streams of the printer.
    stream: Option<usize>,
    /// `{ cpu_id = 1 }`, or nothing.
    context: Literal,
    /// Of the event before.
    event_context: Known,
}

/// A short structure and its text: who records an event is seldom another one than before.
#[derive(Clone, Debug)]
struct Known {
    /// The structure, and zeros.
    raw: u128,
    text: [u8; KNOWN_TEXT_BYTES],
    /// Of the text; 0: nothing is known.
    length: usize,
}

const KNOWN_TEXT_BYTES: usize = 64;

impl Default for Known {
    fn default() -> Known {
        Known {
            raw: 0,
            text: [0; KNOWN_TEXT_BYTES],
            length: 0,
        }
    }
}

impl<'p> Printer<'p> {
    /// For the trace of a plan.
    pub fn new(plan: &'p Plan) -> Printer<'p> {
        let streams = plan.schema.streams.values().map(|class| {
            let stream = &plan.streams[&class.id];
            let clock = class.clock.and_then(|index| plan.schema.clocks.get(index));
            StreamText {
                class_id: class.id,
                scale: clock.map(ClockScale::new),
                packet_context: shown(stream.packet_context.as_ref()),
                event_context: shown(stream.event_context.as_ref()),
                first_number: stream.events.iter().next().map_or(0, |class| class.number),
                events: Vec::new(),
            }
        });
        Printer {
            plan,
            origin: origin(&plan.schema),
            streams: streams.collect(),
            memory: Box::new([0; PEN_BYTES]),
        }
    }

    /// Prepares the events of the packet that the reader has just begun; `bytes` is the packet's start.
    ///
    /// # Errors
    /// As [`StreamReader::packet`] had none, none.
    pub fn packet(&self, text: &mut PacketText, reader: &mut StreamReader<'p>, bytes: &[u8]) -> Result<(), Fault> {
        text.context = Literal::default();
        text.event_context = Known::default();
        let class_id = reader.info().stream_class_id;
        text.stream = self.streams.iter().position(|stream| stream.class_id == class_id);
        let stream = text.stream.map(|index| &self.streams[index]);
        let Some(context) = stream.and_then(|stream| stream.packet_context.as_ref()) else {
            return Ok(());
        };
        let mut written = Vec::new();
        reader.quietly(bytes, 0, 0, |cursor, state| {
            if let Some(header) = &self.plan.packet_header {
                super::walk::skip(header, cursor, state)?;
            }
            context.write(&mut written, cursor, state, &mut NoSymbols)
        })?;
        text.context = Literal::new(written);
        Ok(())
    }

    /// Appends the line of an event that [`StreamReader::next`] has just returned, with the same bytes.
    ///
    /// # Errors
    /// An array that has thousands of elements without a size, or a text of more than 64 MiB; nothing is appended then. Otherwise, as `next` had none, none.
    pub fn event(
        &mut self,
        out: &mut Vec<u8>,
        times: &mut Times,
        packet: &mut PacketText,
        reader: &mut StreamReader<'p>,
        event: &Event<'p>,
        bytes: (&[u8], u64),
    ) -> Result<(), Fault> {
        self.event_with_symbols(out, times, packet, reader, event, bytes, &mut NoSymbols)
    }

    /// The same, with the names of addresses behind the addresses: `ip = 0x4011D6 <greet+0x4>`. The packet's context has none.
    ///
    /// # Errors
    /// As [`Printer::event`].
    #[expect(clippy::too_many_arguments, reason = "all of them are different")]
    #[inline]
    pub fn event_with_symbols(
        &mut self,
        out: &mut Vec<u8>,
        times: &mut Times,
        packet: &mut PacketText,
        reader: &mut StreamReader<'p>,
        event: &Event<'p>,
        bytes: (&[u8], u64),
        symbols: &mut impl Symbols,
    ) -> Result<(), Fault> {
        let start = out.len();
        let written = self.line(out, times, packet, reader, event, bytes, symbols);
        if written.is_err() {
            out.truncate(start);
        }
        written
    }

    #[expect(clippy::too_many_arguments, reason = "all of them are different")]
    #[inline]
    fn line<S: Symbols>(
        &mut self,
        out: &mut Vec<u8>,
        times: &mut Times,
        packet: &mut PacketText,
        reader: &mut StreamReader<'p>,
        event: &Event<'p>,
        (bytes, base_bytes): (&[u8], u64),
        symbols: &mut S,
    ) -> Result<(), Fault> {
        let stream = packet.stream.and_then(|index| self.streams.get_mut(index));
        let Some(stream) = stream else {
            return Ok(());
        };
        let mut pen = Pen {
            bytes: &mut self.memory,
            at: 0,
        };
        if let Some(scale) = &stream.scale
            && !times.usual_event(&mut pen, scale, event.ticks)
        {
            times.any_event(out, scale, event.ticks);
        }
        let (text, event_context) = stream.event(event.class, &self.origin);
        let common = text.head.bytes() + packet.context.bytes();
        if !pen.has_room(common) {
            spill(out, &mut pen);
        }
        if pen.has_room(common) {
            text.head.append(&mut pen);
            packet.context.append(&mut pen);
        } else {
            text.head.append(out);
            packet.context.append(out);
        }
        let mut is_first = packet.context.bytes() == 0;
        let scopes = [
            (event_context, Scope::EventContext),
            (text.specific_context.as_ref(), Scope::SpecificContext),
            (text.payload.as_ref(), Scope::Payload),
        ];
        for (fields, scope) in scopes {
            let Some(fields) = fields else { continue };
            let start = event.start(scope);
            if !is_first {
                pen.whole(b", ");
            }
            is_first = false;
            if !(S::ARE_WANTED && fields.has_addresses())
                && let Some((plain, alignment)) = fields.plain()
                && let Some(event) = aligned(bytes, base_bytes, start, alignment)
            {
                let written = match scope {
                    Scope::EventContext => packet.event_context.write(plain, &mut pen, event),
                    _ => plain.write(pen.bytes, pen.at, event),
                };
                if let Some(at) = written {
                    pen.at = at;
                    continue;
                }
            }
            spill(out, &mut pen);
            reader.quietly(bytes, base_bytes, start, |cursor, state| {
                fields.write(out, cursor, state, symbols)
            })?;
        }
        pen.whole(b"\n");
        spill(out, &mut pen);
        Ok(())
    }
}

impl Known {
    /// As [`Plain::write`].
    #[inline(always)]
    fn write(&mut self, plain: &Plain, pen: &mut Pen<'_>, event: &[u8]) -> Option<usize> {
        let raw = plain.fixed_bits().and_then(|bits| {
            let bytes = u128::from_le_bytes(*event.first_chunk()?);
            Some(bytes & u128::MAX >> (128 - bits))
        });
        let Some(raw) = raw else {
            return plain.write(pen.bytes, pen.at, event);
        };
        if raw == self.raw && self.length > 0 && pen.has_room(self.length) {
            pen.start_of(&self.text, self.length);
            return Some(pen.at);
        }
        let end = plain.write(pen.bytes, pen.at, event)?;
        let text = &pen.bytes[pen.at..end];
        self.length = 0;
        if let Some(known) = self.text.get_mut(..text.len()) {
            known.copy_from_slice(text);
            (self.raw, self.length) = (raw, text.len());
        }
        Some(end)
    }
}

/// Moves what the pen has written to the line.
#[inline]
fn spill(out: &mut Vec<u8>, pen: &mut Pen<'_>) {
    out.extend_from_slice(&pen.bytes[..pen.at]);
    pen.at = 0;
}

/// The bytes from an aligned place on.
#[inline]
fn aligned(bytes: &[u8], base_bytes: u64, position: u64, alignment: u32) -> Option<&[u8]> {
    let mask = u64::from(alignment.max(8)) - 1;
    let start = (position.checked_add(mask)? & !mask) / 8;
    bytes.get(usize::try_from(start.checked_sub(base_bytes)?).ok()?..)
}

impl<'p> StreamText<'p> {
    #[inline]
    fn event(&mut self, class: &'p EventPlan, origin: &str) -> (&EventText<'p>, Option<&Fields<'p>>) {
        let number = class.number - self.first_number;
        if self.events.len() <= number {
            self.events.resize_with(number + 1, || None);
        }
        let text = self.events[number].get_or_insert_with(|| EventText::new(class, origin));
        (text, self.event_context.as_ref())
    }
}

impl<'p> EventText<'p> {
    fn new(class: &'p EventPlan, origin: &str) -> Box<EventText<'p>> {
        let name: &str = if class.name.is_empty() {
            "<unknown>"
        } else {
            &class.name
        };
        Box::new(EventText {
            head: Literal::new(format!("{origin}{name}: ")),
            specific_context: shown(class.specific_context.as_ref()),
            payload: shown(class.payload.as_ref()),
        })
    }
}

fn shown(structure: Option<&super::plan::Structure>) -> Option<Fields<'_>> {
    structure.map(Fields::new).filter(Fields::is_shown)
}

/// Where a trace comes from: host, program and process, as far as its environment says.
fn origin(schema: &Schema) -> String {
    let value = |key: &str| {
        let found = schema.environment.iter().find(|(known, _)| known == key);
        found.map(|(_, value)| value)
    };
    let mut parts = Vec::new();
    for key in ["hostname", "procname"] {
        if let Some(EnvironmentValue::Text(text)) = value(key) {
            parts.push(text.clone());
        }
    }
    if let Some(EnvironmentValue::Integer(vpid)) = value("vpid") {
        parts.push(format!("({vpid})"));
    }
    match parts.is_empty() {
        true => String::new(),
        false => parts.join(":") + " ",
    }
}
