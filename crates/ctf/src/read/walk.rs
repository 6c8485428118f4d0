// SPDX-License-Identifier: MIT OR Apache-2.0
//! Walks over structures: the short way, to their end, and the long one, past every value.

use super::cursor::{Cursor, NoNumber, Short};
use super::leap::counted_on;
use super::plan::{IntegerNode, Length, Node, Selector, Slot, Step, Structure};
use super::schema::{ByteOrder, Encoding, Role, Width};

/// Why a packet cannot be read on. What is before the place can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The content ends inside.
    #[error("it extends beyond the end of the packet's content")]
    Short,
    /// A variant without the type that is selected.
    #[error("a variant has no option for the value {0} of its selector")]
    NoOption(i128),
    /// Counted in thousands and without a size: nothing that a tracer writes.
    #[error("an array has {0} elements that take no space")]
    Endless(u64),
    /// A variant or an optional on the way to a number holds something else than the number.
    #[error("a field depends on a field that is absent, because a variant or an optional contains something else")]
    Absent,
    /// No number of this program can hold it.
    #[error("a number of variable length has more than 64 bits")]
    Wide,
    /// Only of an event that is shown as text.
    #[error("its text would be longer than 64 MiB")]
    LongText,
    /// A text of 16 or 32 bits a character.
    #[error("a text ends inside a character")]
    HalfCharacter,
    /// Nobody can say which bits are left for the second.
    #[error("two numbers of different byte orders share a byte")]
    MixedByte,
    /// Nobody can say how many there are.
    #[error("an event takes no space, but the packet has more content")]
    EmptyEvent,
    /// The event's class is not in the metadata.
    #[error("its stream has no event class {0}")]
    UnknownEvent(u64),
}

impl From<Short> for Fault {
    fn from(_: Short) -> Fault {
        Fault::Short
    }
}

impl From<NoNumber> for Fault {
    fn from(why: NoNumber) -> Fault {
        match why {
            NoNumber::Short => Fault::Short,
            NoNumber::OtherOrder => Fault::MixedByte,
        }
    }
}

/// Elements without a size that are believed, in an event.
pub(super) const EMPTY_ELEMENTS_MAX: u64 = 1 << 12;

/// The same of fields of structures without a size, which such elements may have many of.
const EMPTY_FIELDS_MAX: u64 = 1 << 18;

/// What walks keep: the numbers that others depend on, the clock, and numbers with a task.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub(super) slots: Vec<SlotValue>,
    pub(super) clock: u64,
    pub(super) roles: Roles,
    pub(super) uuid: Option<[u8; 16]>,
    /// Elements without a size since the event began.
    pub(super) empty_elements: u64,
    /// Fields of structures without a size, likewise.
    pub(super) empty_fields: u64,
}

/// A number as it stands in the packet.
#[derive(Clone, Copy)]
pub(super) struct Number {
    /// Extended by its sign.
    pub(super) value: u64,
    raw: u64,
    /// How many bits were there to say it; at most 64.
    bits: u32,
}

/// A number that others depend on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SlotValue {
    value: u64,
    /// False when a variant or an optional holds something else.
    is_there: bool,
}

/// Numbers with a task, as they were last read.
#[derive(Clone, Debug, Default)]
pub(super) struct Roles {
    seen: u16,
    values: [u64; 11],
}

impl Roles {
    pub(super) fn clear(&mut self) {
        self.seen = 0;
    }

    pub(super) fn get(&self, role: Role) -> Option<u64> {
        (self.seen & 1 << role as u16 != 0).then(|| self.values[role as usize])
    }

    fn set(&mut self, role: Role, value: u64) {
        self.seen |= 1 << role as u16;
        self.values[role as usize] = value;
    }
}

impl State {
    #[inline]
    fn slot(&self, slot: Slot) -> Result<u64, Fault> {
        let SlotValue { value, is_there } = self.slots[usize::from(slot)];
        if is_there { Ok(value) } else { Err(Fault::Absent) }
    }

    #[inline]
    pub(super) fn set_slot(&mut self, slot: Slot, value: u64) {
        self.slots[usize::from(slot)] = SlotValue { value, is_there: true };
    }

    pub(super) fn clear_slots(&mut self, slots: &[Slot]) {
        for slot in slots {
            self.slots[usize::from(*slot)].is_there = false;
        }
    }

    pub(super) fn selected(&self, selector: Selector) -> Result<i128, Fault> {
        let value = self.slot(selector.slot)?;
        Ok(match selector.is_signed {
            true => i128::from(value.cast_signed()),
            false => i128::from(value),
        })
    }

    /// `None`: to a code unit of 0.
    pub(super) fn count(&self, length: Length) -> Result<Option<u64>, Fault> {
        Ok(match length {
            Length::Terminated => None,
            Length::Fixed(count) => Some(count),
            Length::Slot(slot) => Some(self.slot(slot)?),
        })
    }

    /// A number of fewer bits than the clock's replaces its low bits, and counts on when it is lower than they were.
    #[inline]
    pub(super) fn update_clock(&mut self, bits: u32, value: u64) {
        let mask = u64::MAX >> (64 - bits.clamp(1, 64));
        self.clock = counted_on(self.clock, value & mask, mask);
    }

    /// An event begins.
    #[inline]
    pub(super) fn begin(&mut self) {
        (self.empty_elements, self.empty_fields) = (0, 0);
    }

    /// After an element of an array, which began at `start`: elements without a size would go on for ever.
    #[inline]
    pub(super) fn check_progress(&mut self, start: u64, cursor: &Cursor<'_>, count: u64) -> Result<(), Fault> {
        if cursor.position() == start {
            self.empty_elements += 1;
            if self.empty_elements > EMPTY_ELEMENTS_MAX {
                return Err(Fault::Endless(count));
            }
        }
        match self.empty_fields > EMPTY_FIELDS_MAX {
            true => Err(Fault::Endless(count)),
            false => Ok(()),
        }
    }

    /// After a structure of so many fields, which began at `start`.
    #[inline]
    pub(super) fn pass_structure(&mut self, start: u64, cursor: &Cursor<'_>, fields: usize) {
        if cursor.position() == start {
            self.empty_fields += fields as u64;
        }
    }

    /// Reads a number, for those who depend on it.
    #[inline]
    pub(super) fn number(&mut self, integer: &IntegerNode, cursor: &mut Cursor<'_>) -> Result<Number, Fault> {
        let number = match integer.width {
            Width::Bits(bits) => {
                cursor.align(integer.alignment)?;
                let raw = cursor.number(bits, integer.byte_order)?;
                let raw = if integer.is_reversed { reversed(raw, bits) } else { raw };
                let value = match integer.is_signed && bits < 64 {
                    true => ((raw << (64 - bits)).cast_signed() >> (64 - bits)).cast_unsigned(),
                    false => raw,
                };
                Number { value, raw, bits }
            }
            Width::Variable => {
                cursor.align(8)?;
                let start = cursor.position();
                let raw = cursor.variable_number(integer.is_signed)?.ok_or(Fault::Wide)?;
                // Seven bits of each byte count.
                let bits = (cursor.position() - start) / 8 * 7;
                Number {
                    value: raw,
                    raw,
                    bits: bits.min(64) as u32,
                }
            }
        };
        if let Some(slot) = integer.slot {
            self.set_slot(slot, number.value);
        }
        Ok(number)
    }

    /// Reads a number, and does what it is for. The value is extended by its sign.
    #[inline]
    fn integer(&mut self, integer: &IntegerNode, cursor: &mut Cursor<'_>) -> Result<u64, Fault> {
        let Number { value, raw, bits } = self.number(integer, cursor)?;
        if integer.updates_clock {
            self.update_clock(bits, raw);
        }
        for &role in &integer.roles {
            self.roles.set(role, value);
        }
        Ok(value)
    }
}

/// To the end of a structure.
#[inline]
pub(super) fn skip(structure: &Structure, cursor: &mut Cursor<'_>, state: &mut State) -> Result<(), Fault> {
    cursor.align(structure.alignment)?;
    for step in &structure.steps {
        match *step {
            Step::Skip(bits) => cursor.skip(bits)?,
            Step::Align(bits) => cursor.align(bits)?,
            Step::Terminated => {
                terminated(cursor, Encoding::Utf8)?;
            }
            Step::Elements { count, bits } => {
                let count = state.slot(count)?;
                if bits == 0 && count > EMPTY_ELEMENTS_MAX {
                    return Err(Fault::Endless(count));
                }
                cursor.skip(count.checked_mul(bits).ok_or(Short)?)?;
            }
            Step::Field(index) => skip_node(&structure.fields[index].1, cursor, state)?,
        }
    }
    Ok(())
}

pub(super) fn skip_node(node: &Node, cursor: &mut Cursor<'_>, state: &mut State) -> Result<(), Fault> {
    match node {
        Node::Integer(integer) => state.integer(integer, cursor).map(drop)?,
        Node::Structure(structure) => skip(structure, cursor, state)?,
        // The rest is rare on the way over; values that nobody looks at are not made.
        _ => visit_node(node, cursor, state, &mut Nobody)?,
    }
    Ok(())
}

/// Looks at values. Each is announced by `field` or `element`.
///
/// What is not implemented is passed over.
pub trait Visitor {
    /// A field of a structure comes, or the selected option of a variant's field.
    fn field(&mut self, _name: &str) {}
    /// An element of an array comes.
    fn element(&mut self, _index: u64) {}
    /// A whole number, extended by its sign.
    fn integer(&mut self, _integer: &IntegerNode, _value: u64) {}
    /// An address, and the name of what lies there. Only [`WithSymbols`](super::symbols::WithSymbols) calls it.
    fn symbol(&mut self, integer: &IntegerNode, value: u64, _symbol: &str) {
        self.integer(integer, value);
    }
    /// A number of IEEE 754. Those of 16 and 128 bits are made ones of 64.
    fn float(&mut self, _value: f64, _bits: u32) {}
    /// A text, without what ends it.
    fn text(&mut self, _bytes: &[u8], _encoding: Encoding) {}
    /// A text in as many bytes as an earlier field said. `whole` is all of them: a text ends at a 0, but what follows may have been recorded on
    /// purpose.
    fn counted_text(&mut self, text: &[u8], _whole: &[u8], encoding: Encoding) {
        self.text(text, encoding);
    }
    /// Bytes.
    fn blob(&mut self, _bytes: &[u8], _media_type: Option<&str>) {}
    /// Fields come, until `end_structure`.
    fn begin_structure(&mut self) {}
    /// No more fields.
    fn end_structure(&mut self) {}
    /// So many elements come, until `end_array`. `is_sequence`: an earlier field said how many.
    fn begin_array(&mut self, _count: u64, _is_sequence: bool) {}
    /// No more elements.
    fn end_array(&mut self) {}
    /// What a variant has selected comes, until `end_variant`.
    fn begin_variant(&mut self, _option: &str) {}
    /// That was it.
    fn end_variant(&mut self) {}
    /// An optional that holds nothing.
    fn nothing(&mut self) {}
}

/// Looks at nothing.
pub struct Nobody;

impl Visitor for Nobody {}

/// Past every value of a structure. `begin_structure` and `end_structure` are not called for it itself.
pub(super) fn visit(
    structure: &Structure,
    cursor: &mut Cursor<'_>,
    state: &mut State,
    visitor: &mut impl Visitor,
) -> Result<(), Fault> {
    cursor.align(structure.alignment)?;
    for (name, field) in &structure.fields {
        visitor.field(name);
        visit_node(field, cursor, state, visitor)?;
    }
    Ok(())
}

fn visit_node(
    node: &Node,
    cursor: &mut Cursor<'_>,
    state: &mut State,
    visitor: &mut impl Visitor,
) -> Result<(), Fault> {
    match node {
        Node::Integer(integer) => {
            let value = state.integer(integer, cursor)?;
            visitor.integer(integer, value);
        }
        Node::Float {
            bits,
            alignment,
            byte_order,
            is_reversed,
        } => {
            cursor.align(*alignment)?;
            visitor.float(float(cursor, *bits, *byte_order, *is_reversed)?, *bits);
        }
        Node::Text {
            length: length @ Length::Slot(_),
            encoding,
        } => {
            cursor.align(8)?;
            let whole = cursor.take(state.count(*length)?.unwrap_or(0))?;
            visitor.counted_text(before_zero(whole, *encoding)?, whole, *encoding);
        }
        Node::Text { length, encoding } => {
            visitor.text(text(*length, *encoding, cursor, state)?, *encoding);
        }
        Node::Structure(structure) => {
            visitor.begin_structure();
            let start = cursor.position();
            visit(structure, cursor, state, visitor)?;
            state.pass_structure(start, cursor, structure.fields.len());
            visitor.end_structure();
        }
        Node::Array {
            alignment,
            count: length,
            element,
            ..
        } => {
            cursor.align(*alignment)?;
            let count = state.count(*length)?.unwrap_or_default();
            visitor.begin_array(count, matches!(length, Length::Slot(_)));
            for index in 0..count {
                let start = cursor.position();
                visitor.element(index);
                visit_node(element, cursor, state, visitor)?;
                state.check_progress(start, cursor, count)?;
            }
            visitor.end_array();
        }
        Node::Variant {
            selector,
            options,
            inner_slots,
        } => {
            let value = state.selected(*selector)?;
            state.clear_slots(inner_slots);
            let selected = options.iter().find(|option| is_in(&option.ranges, value));
            let option = selected.ok_or(Fault::NoOption(value))?;
            visitor.begin_variant(&option.name);
            visit_node(&option.node, cursor, state, visitor)?;
            visitor.end_variant();
        }
        Node::Optional {
            selector,
            ranges,
            content,
            inner_slots,
        } => {
            let value = state.selected(*selector)?;
            state.clear_slots(inner_slots);
            if is_there(ranges, value) {
                visit_node(content, cursor, state, visitor)?;
            } else {
                visitor.nothing();
            }
        }
        Node::Blob {
            count,
            media_type,
            is_uuid,
        } => {
            cursor.align(8)?;
            let bytes = state.count(*count)?.unwrap_or_default();
            let bytes = cursor.take(bytes)?;
            if *is_uuid {
                state.uuid = bytes.try_into().ok();
            }
            visitor.blob(bytes, media_type.as_deref());
        }
    }
    Ok(())
}

/// What an optional holds: without ranges, its selector is true or false.
pub(super) fn is_there(ranges: &[(i128, i128)], value: i128) -> bool {
    match ranges.is_empty() {
        true => value != 0,
        false => is_in(ranges, value),
    }
}

pub(super) fn is_in(ranges: &[(i128, i128)], value: i128) -> bool {
    ranges.iter().any(|&(first, last)| (first..=last).contains(&value))
}

/// The bytes of a text, without what ends it.
#[inline]
pub(super) fn text<'a>(
    length: Length,
    encoding: Encoding,
    cursor: &mut Cursor<'a>,
    state: &State,
) -> Result<&'a [u8], Fault> {
    cursor.align(8)?;
    match state.count(length)? {
        None => Ok(terminated(cursor, encoding)?),
        Some(bytes) => before_zero(cursor.take(bytes)?, encoding),
    }
}

/// Bytes to the code unit of 0, which is passed over.
fn terminated<'a>(cursor: &mut Cursor<'a>, encoding: Encoding) -> Result<&'a [u8], Short> {
    cursor.align(8)?;
    let unit = encoding.unit_bytes() as usize;
    let length = match unit {
        1 => memchr::memchr(0, cursor.rest()),
        _ => cursor
            .rest()
            .chunks_exact(unit)
            .position(|unit| unit.iter().all(|byte| *byte == 0))
            .map(|index| index * unit),
    };
    let text = cursor.take(length.ok_or(Short)? as u64)?;
    cursor.skip(8 * unit as u64)?;
    Ok(text)
}

fn before_zero(text: &[u8], encoding: Encoding) -> Result<&[u8], Fault> {
    let unit = encoding.unit_bytes() as usize;
    let end = match unit {
        1 => memchr::memchr(0, text),
        _ => text
            .chunks_exact(unit)
            .position(|unit| unit.iter().all(|byte| *byte == 0))
            .map(|index| index * unit),
    };
    match end {
        Some(end) => Ok(&text[..end]),
        None if text.len().is_multiple_of(unit) => Ok(text),
        None => Err(Fault::HalfCharacter),
    }
}

pub(super) fn float(cursor: &mut Cursor<'_>, bits: u32, order: ByteOrder, is_reversed: bool) -> Result<f64, NoNumber> {
    let part = bits.min(64);
    let mut number = || {
        let raw = cursor.number(part, order)?;
        Ok(if is_reversed { reversed(raw, part) } else { raw })
    };
    Ok(match bits {
        16 => half(number()? as u16),
        32 => f32::from_bits(number()? as u32).into(),
        64 => f64::from_bits(number()?),
        _ => {
            let (first, second) = (number()?, number()?);
            // The first bits are the least significant in little-endian order, and the other way round when they are reversed.
            match (order == ByteOrder::Little) != is_reversed {
                true => quadruple(second, first),
                false => quadruple(first, second),
            }
        }
    })
}

/// The same bits, the least significant first.
#[cold]
fn reversed(raw: u64, bits: u32) -> u64 {
    raw.reverse_bits() >> (64 - bits)
}

/// IEEE 754 binary16.
fn half(bits: u16) -> f64 {
    let sign = if bits & 0x8000 != 0 { -1.0 } else { 1.0 };
    let (exponent, mantissa) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
    sign * match exponent {
        0 => mantissa * 2_f64.powi(-24),
        31 if mantissa == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1.0 + mantissa / 1024.0) * 2_f64.powi(exponent - 15),
    }
}

/// IEEE 754 binary128, cut to the precision of binary64.
fn quadruple(high: u64, low: u64) -> f64 {
    let exponent = (high >> 48 & 0x7fff) as i64 - 16383;
    let mantissa = (high & 0xffff_ffff_ffff) << 4 | low >> 60;
    let sign = high & 1 << 63;
    let magnitude = match exponent {
        16384 => 0x7ff << 52 | mantissa,
        1024.. => 0x7ff << 52,
        ..-1022 => 0,
        _ => ((exponent + 1023) as u64) << 52 | mantissa,
    };
    f64::from_bits(sign | magnitude)
}
