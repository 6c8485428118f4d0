// SPDX-License-Identifier: MIT OR Apache-2.0
//! Structures of whole bytes, little-endian: what most tracers write. Numbers and texts; each has its place behind
//! the structure's start, or behind the last text that ends with a 0.

use super::literal::{Literal, Out, PEN_BYTES, Pen, SPARE_BYTES};
use super::numbers::{
    DECIMAL_BYTES_MAX, FLOAT_BYTES_MAX, HEXADECIMAL_BYTES_MAX, decimal, float, hexadecimal, signed_decimal,
};
use super::strings::{SHORT_BYTES_MAX, quoted_short};
use crate::read::plan::{Length, Node, Structure};
use crate::read::schema::{Base, ByteOrder, Encoding, Meaning, Width};

#[derive(Debug)]
pub(super) struct Plain {
    fields: Vec<Field>,
    /// Bytes that it takes to write it, at most; of each text as many as [`SHORT_BYTES_MAX`].
    written_bytes_max: usize,
    /// Up to 128.
    fixed_bits: Option<u32>,
}

#[derive(Debug)]
struct Field {
    /// `{ name = ` or `, name = `
    opening: Literal,
    offset: usize,
    value: Value,
}

#[derive(Clone, Copy, Debug)]
enum Value {
    Unsigned(Bytes),
    Signed(Bytes),
    Hexadecimal(Bytes),
    Float,
    Double,
    /// A text that ends with a 0.
    Text,
    /// A text in so many bytes.
    Characters(usize),
}

#[derive(Clone, Copy, Debug)]
enum Bytes {
    One,
    Two,
    Four,
    Eight,
}

impl Plain {
    /// `None` when there is anything else in it.
    pub(super) fn new(structure: &Structure) -> Option<Plain> {
        let (mut offset, mut is_fixed) = (0_usize, true);
        let mut written_bytes_max = SPARE_BYTES;
        let mut fields: Vec<Field> = Vec::with_capacity(structure.fields.len());
        for (name, node) in &structure.fields {
            let (value, alignment, bytes) = value(node)?;
            if !structure.alignment.is_multiple_of(8) || alignment % 8 != 0 || alignment > 8 && !is_fixed {
                return None;
            }
            offset = offset.checked_next_multiple_of(alignment as usize / 8)?;
            let opening = if fields.is_empty() { "{" } else { "," };
            let opening = Literal::new(format!("{opening} {name} = "));
            written_bytes_max += opening.bytes()
                + match value {
                    Value::Unsigned(_) | Value::Signed(_) => DECIMAL_BYTES_MAX,
                    Value::Hexadecimal(_) => HEXADECIMAL_BYTES_MAX,
                    Value::Float | Value::Double => FLOAT_BYTES_MAX,
                    Value::Text | Value::Characters(_) => SHORT_BYTES_MAX,
                };
            fields.push(Field { opening, offset, value });
            offset = match value {
                Value::Text => 0,
                _ => offset.checked_add(bytes)?,
            };
            is_fixed &= !matches!(value, Value::Text);
        }
        Some(Plain {
            fields,
            written_bytes_max,
            fixed_bits: (is_fixed && (1..=16).contains(&offset)).then_some(8 * offset as u32),
        })
    }

    /// Bits that it has, when they are always as many and few.
    #[inline(always)]
    pub(super) fn fixed_bits(&self) -> Option<u32> {
        self.fixed_bits
    }

    /// From the start of `event`, which is an aligned place, to place `at` of the pen's memory; where the pen is then. `None` when there is no
    /// room, or something is too long for it: what was written is of no use then.
    #[inline]
    pub(super) fn write(&self, memory: &mut [u8; PEN_BYTES], at: usize, event: &[u8]) -> Option<usize> {
        let mut pen = Pen { bytes: memory, at };
        if !pen.has_room(self.written_bytes_max) {
            return None;
        }
        if self.fields.is_empty() {
            pen.whole(b"{");
        }
        let mut rest = event;
        for field in &self.fields {
            field.opening.append(&mut pen);
            let bytes = rest.get(field.offset..)?;
            match field.value {
                Value::Unsigned(width) => decimal(&mut pen, width.unsigned(bytes)?),
                Value::Signed(width) => signed_decimal(&mut pen, width.signed(bytes)?),
                Value::Hexadecimal(width) => hexadecimal(&mut pen, width.unsigned(bytes)?),
                Value::Float => float(&mut pen, f32::from_le_bytes(*bytes.first_chunk()?).into()),
                Value::Double => float(&mut pen, f64::from_le_bytes(*bytes.first_chunk()?)),
                Value::Text => {
                    let length = quoted_short(&mut pen, bytes)?;
                    rest = bytes.get(length + 1..)?;
                }
                Value::Characters(length) => {
                    quoted_short(&mut pen, bytes.get(..length)?)?;
                }
            }
        }
        pen.whole(b" }");
        Some(pen.at)
    }
}

/// A field's value, its alignment in bits, and its bytes.
fn value(node: &Node) -> Option<(Value, u32, usize)> {
    match node {
        Node::Integer(integer) => {
            let width = Bytes::new(integer.width)?;
            let is_usual = matches!(integer.meaning, Meaning::Number | Meaning::Character)
                && (integer.byte_order == ByteOrder::Little || matches!(width, Bytes::One));
            let is_special = integer.is_enumeration
                || integer.is_reversed
                || integer.is_technical
                || integer.slot.is_some()
                || integer.updates_clock;
            if !is_usual || is_special {
                return None;
            }
            let value = match (integer.base, integer.is_signed) {
                (Base::Decimal, false) => Value::Unsigned(width),
                (Base::Decimal, true) => Value::Signed(width),
                (Base::Hexadecimal, _) => Value::Hexadecimal(width),
                _ => return None,
            };
            Some((value, integer.alignment, width.count()))
        }
        Node::Float {
            bits,
            alignment,
            byte_order: ByteOrder::Little,
            is_reversed: false,
        } => match bits {
            32 => Some((Value::Float, *alignment, 4)),
            64 => Some((Value::Double, *alignment, 8)),
            _ => None,
        },
        Node::Text {
            length: Length::Terminated,
            encoding: Encoding::Utf8,
        } => Some((Value::Text, 8, 0)),
        Node::Text {
            length: Length::Fixed(bytes),
            encoding: Encoding::Utf8,
        } => {
            let bytes = usize::try_from(*bytes).ok()?;
            Some((Value::Characters(bytes), 8, bytes))
        }
        _ => None,
    }
}

impl Bytes {
    fn new(width: Width) -> Option<Bytes> {
        match width {
            Width::Bits(8) => Some(Bytes::One),
            Width::Bits(16) => Some(Bytes::Two),
            Width::Bits(32) => Some(Bytes::Four),
            Width::Bits(64) => Some(Bytes::Eight),
            _ => None,
        }
    }

    fn count(self) -> usize {
        match self {
            Bytes::One => 1,
            Bytes::Two => 2,
            Bytes::Four => 4,
            Bytes::Eight => 8,
        }
    }

    #[inline(always)]
    fn unsigned(self, bytes: &[u8]) -> Option<u64> {
        Some(match self {
            Bytes::One => (*bytes.first()?).into(),
            Bytes::Two => u16::from_le_bytes(*bytes.first_chunk()?).into(),
            Bytes::Four => u32::from_le_bytes(*bytes.first_chunk()?).into(),
            Bytes::Eight => u64::from_le_bytes(*bytes.first_chunk()?),
        })
    }

    #[inline(always)]
    fn signed(self, bytes: &[u8]) -> Option<i64> {
        let number = self.unsigned(bytes)?;
        Some(match self {
            Bytes::One => (number as i8).into(),
            Bytes::Two => (number as i16).into(),
            Bytes::Four => (number as i32).into(),
            Bytes::Eight => number.cast_signed(),
        })
    }
}
