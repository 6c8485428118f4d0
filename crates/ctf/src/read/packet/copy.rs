// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets and events are written once more: a packet's start with other numbers, an event at another place. All else is the same,
//! field by field; fields are aligned anew, so that nothing depends on where an event was.

use super::{Event, StreamReader};
use crate::read::cursor::Cursor;
use crate::read::plan::{CompactHeader, IntegerNode, Length, LongForm, Node, Structure};
use crate::read::schema::{ByteOrder, Role, Width};
use crate::read::walk::{Fault, State, is_in, is_there, skip};
use crate::write::bits::BitWriter;

/// What a packet is to say about itself instead. What is absent, or has no field in the packet, stays as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketNumbers {
    /// Cycles.
    pub begin: Option<u64>,
    /// Cycles.
    pub end: Option<u64>,
    /// Bits that hold something.
    pub content_bits: Option<u64>,
    /// Bits in all.
    pub total_bits: Option<u64>,
    /// Its number in its stream.
    pub sequence_number: Option<u64>,
    /// Events discarded since the start of the stream.
    pub discarded_events: Option<u64>,
}

impl PacketNumbers {
    fn of(&self, role: Role) -> Option<u64> {
        match role {
            Role::BeginTime => self.begin,
            Role::EndTime => self.end,
            Role::ContentBits => self.content_bits,
            Role::TotalBits => self.total_bits,
            Role::SequenceNumber => self.sequence_number,
            Role::DiscardedEvents => self.discarded_events,
            Role::Magic | Role::Uuid | Role::StreamClassId | Role::StreamId | Role::EventClassId => None,
        }
    }
}

/// How an event's header is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderForm {
    /// As it was.
    Same,
    /// With the whole time, where the header of the class of streams has a form for that.
    Extended,
}

/// Where a reader stands in a packet.
#[derive(Clone, Copy, Debug)]
pub struct PacketPosition {
    position: u64,
    clock: u64,
}

/// Bytes of a number of its own length that has another value: enough for each, so that a value does not move what is behind it.
const VARIABLE_BYTES: u32 = 10;

impl<'p> StreamReader<'p> {
    /// Writes header and context of the packet that [`StreamReader::packet`] has read, with other numbers. `bytes` is the packet's start.
    ///
    /// # Errors
    /// As `packet` had none, none.
    pub fn copy_head(&mut self, bytes: &[u8], numbers: &PacketNumbers, out: &mut BitWriter) -> Result<(), Fault> {
        let stream = self.stream;
        let header = self.plan.packet_header.as_ref();
        let context = stream.and_then(|stream| stream.packet_context.as_ref());
        let mut cursor = Cursor::new(bytes);
        let mut copy = Copy {
            state: &mut self.state,
            out,
            numbers: *numbers,
        };
        for structure in [header, context].into_iter().flatten() {
            copy.structure(structure, &mut cursor)?;
        }
        Ok(())
    }

    /// Writes an event that [`StreamReader::next`] has just returned, with the same bytes. False when its header has no such form; then
    /// nothing is written.
    ///
    /// # Errors
    /// As `next` had none, none.
    pub fn copy_event(
        &mut self,
        event: &Event<'p>,
        (bytes, base_bytes): (&[u8], u64),
        form: HeaderForm,
        out: &mut BitWriter,
    ) -> Result<bool, Fault> {
        let Some(stream) = self.stream else { return Ok(false) };
        let end = self.position;
        let header = stream.event_header.as_ref();
        let parts = [
            header,
            stream.event_context.as_ref(),
            event.class.specific_context.as_ref(),
            event.class.payload.as_ref(),
        ];
        let extended = stream
            .compact_header
            .as_ref()
            .and_then(|header| Some((header, header.form_with_whole_time()?)));
        if form == HeaderForm::Same {
            // What begins alike goes on alike, whatever is in it.
            let first = parts.into_iter().flatten().next().map_or(1, |part| part.alignment);
            let from = event.position.next_multiple_of(first.into());
            let to = out.position().next_multiple_of(first.into());
            let deepest = parts
                .into_iter()
                .flatten()
                .map(|part| part.deepest_alignment)
                .fold(8, u32::max);
            if from % 8 == 0 && to % 8 == 0 && from % u64::from(deepest) == to % u64::from(deepest) && from <= end {
                out.align(first);
                let start = (from / 8 - base_bytes) as usize;
                let behind = (end.div_ceil(8) - base_bytes) as usize;
                out.append_bits(&bytes[start..behind], end - from);
                return Ok(true);
            }
        } else if extended.is_none() {
            return Ok(false);
        }
        self.quietly(bytes, base_bytes, event.position, |cursor, state| {
            let [header, others @ ..] = parts;
            match (header, extended.filter(|_| form == HeaderForm::Extended)) {
                (Some(header), Some((compact, extended))) => {
                    skip(header, cursor, state)?;
                    extended_header(compact, extended, event, out);
                }
                (Some(header), None) => Copy::plain(state, out).structure(header, cursor)?,
                (None, _) => {}
            }
            let mut copy = Copy::plain(state, out);
            for structure in others.into_iter().flatten() {
                copy.structure(structure, cursor)?;
            }
            Ok(true)
        })
    }

    /// Where it stands.
    pub fn place(&self) -> PacketPosition {
        PacketPosition {
            position: self.position,
            clock: self.state.clock,
        }
    }

    /// Goes back to where it stood in this packet.
    pub fn go_back(&mut self, place: PacketPosition) {
        self.position = place.position;
        self.state.clock = place.clock;
    }
}

fn extended_header(header: &CompactHeader, form: &LongForm, event: &Event<'_>, out: &mut BitWriter) {
    let order = header.byte_order;
    out.align(header.alignment);
    out.number(header.id_bits, order, form.selector);
    out.align(form.structure_alignment);
    let values = match form.id_is_first {
        true => [event.class.id, event.ticks],
        false => [event.ticks, event.class.id],
    };
    for (number, value) in form.numbers.iter().zip(values) {
        out.align(number.alignment);
        out.number(number.bits, order, value);
    }
}

/// Reads at one place and writes at another.
struct Copy<'a> {
    state: &'a mut State,
    out: &'a mut BitWriter,
    numbers: PacketNumbers,
}

impl<'a> Copy<'a> {
    fn plain(state: &'a mut State, out: &'a mut BitWriter) -> Copy<'a> {
        Copy {
            state,
            out,
            numbers: PacketNumbers::default(),
        }
    }

    fn structure(&mut self, structure: &Structure, cursor: &mut Cursor<'_>) -> Result<(), Fault> {
        cursor.align(structure.alignment)?;
        self.out.align(structure.alignment);
        for (_, field) in &structure.fields {
            self.node(field, cursor)?;
        }
        Ok(())
    }

    fn node(&mut self, node: &Node, cursor: &mut Cursor<'_>) -> Result<(), Fault> {
        match node {
            Node::Integer(integer) => self.integer(integer, cursor)?,
            Node::Float {
                bits,
                alignment,
                byte_order,
                ..
            } => {
                cursor.align(*alignment)?;
                self.out.align(*alignment);
                // In the order of the packet, whatever it means.
                for part in [64.min(*bits), bits.saturating_sub(64)] {
                    if part > 0 {
                        self.bits(part, *byte_order, cursor)?;
                    }
                }
            }
            Node::Text { length, encoding } => {
                cursor.align(8)?;
                self.out.align(8);
                let start = cursor.position();
                let from = *cursor;
                crate::read::walk::text(*length, *encoding, cursor, self.state)?;
                let mut from = from;
                let bytes = from.take((cursor.position() - start) / 8)?;
                self.out.append(bytes);
            }
            Node::Structure(structure) => self.structure(structure, cursor)?,
            Node::Array {
                alignment,
                count,
                element,
                ..
            } => {
                cursor.align(*alignment)?;
                self.out.align(*alignment);
                let count = self.count(*count)?;
                for _ in 0..count {
                    let start = cursor.position();
                    self.node(element, cursor)?;
                    self.state.check_progress(start, cursor, count)?;
                }
            }
            Node::Variant {
                selector,
                options,
                inner_slots,
            } => {
                let value = self.state.selected(*selector)?;
                self.state.clear_slots(inner_slots);
                let selected = options.iter().find(|option| is_in(&option.ranges, value));
                self.node(&selected.ok_or(Fault::NoOption(value))?.node, cursor)?;
            }
            Node::Optional {
                selector,
                ranges,
                content,
                inner_slots,
            } => {
                let value = self.state.selected(*selector)?;
                self.state.clear_slots(inner_slots);
                if is_there(ranges, value) {
                    self.node(content, cursor)?;
                }
            }
            Node::Blob { count, .. } => {
                cursor.align(8)?;
                self.out.align(8);
                let count = self.count(*count)?;
                self.out.append(cursor.take(count)?);
            }
        }
        Ok(())
    }

    fn count(&self, length: Length) -> Result<u64, Fault> {
        Ok(self.state.count(length)?.unwrap_or_default())
    }

    fn integer(&mut self, integer: &IntegerNode, cursor: &mut Cursor<'_>) -> Result<(), Fault> {
        let other = integer.roles.iter().find_map(|role| self.numbers.of(*role));
        cursor.align(integer.alignment)?;
        let mut from = *cursor;
        self.state.number(integer, cursor)?;
        self.out.align(integer.alignment);
        match (integer.width, other) {
            (Width::Bits(bits), None) => {
                let raw = from.number(bits, integer.byte_order)?;
                self.out.number(bits, integer.byte_order, raw);
            }
            (Width::Bits(bits), Some(value)) => {
                let reversed = value.reverse_bits() >> (64 - bits);
                let raw = if integer.is_reversed { reversed } else { value };
                self.out.number(bits, integer.byte_order, raw);
            }
            (Width::Variable, None) => {
                let bytes = (cursor.position() - from.position()) / 8;
                self.out.append(from.take(bytes)?);
            }
            (Width::Variable, Some(value)) => {
                for index in 0..VARIABLE_BYTES {
                    let more = if index + 1 < VARIABLE_BYTES { 0x80 } else { 0 };
                    self.out.append(&[(value >> (7 * index)) as u8 & 0x7f | more]);
                }
            }
        }
        Ok(())
    }

    fn bits(&mut self, bits: u32, order: ByteOrder, cursor: &mut Cursor<'_>) -> Result<(), Fault> {
        let raw = cursor.number(bits, order)?;
        self.out.number(bits, order, raw);
        Ok(())
    }
}
