// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fields as text. Everything that is the same for each event is prepared once: names, and which fields are not shown because they are
//! the format's own (a packet's size, a timestamp).

use super::literal::Literal;
use super::plain::Plain;
use super::{numbers, strings};
use crate::read::cursor::Cursor;
use crate::read::plan::{IntegerNode, Length, Node, Selector, Slot, Structure};
use crate::read::schema::{Base, ByteOrder, Encoding, Meaning, Width};
use crate::read::symbols::Symbols;
use crate::read::walk::{self, Fault, State};

/// A structure, ready to be written.
#[derive(Debug)]
pub(super) struct Fields<'p> {
    alignment: u32,
    fields: Vec<Field<'p>>,
    /// It shows something, or there is nothing to hide.
    is_shown: bool,
    /// No field is shown.
    is_empty: bool,
    /// Something in it may have a name that is not in the trace.
    has_addresses: bool,
    plain: Option<Plain>,
}

#[derive(Debug)]
struct Field<'p> {
    /// `{ name = ` or `, name = `
    opening: Literal,
    shape: Shape<'p>,
}

#[derive(Debug)]
enum Shape<'p> {
    Hidden(&'p Node),
    /// An integer that is nothing but a number, of whole bytes and in decimal: most are.
    Decimal(&'p IntegerNode, u32),
    Integer(&'p IntegerNode),
    Float {
        bits: u32,
        alignment: u32,
        byte_order: ByteOrder,
        is_reversed: bool,
    },
    Text {
        length: Length,
        encoding: Encoding,
    },
    Structure(Fields<'p>),
    Array {
        alignment: u32,
        count: Length,
        element: Box<Shape<'p>>,
    },
    Variant {
        selector: Selector,
        options: Vec<(&'p [(i128, i128)], Shape<'p>)>,
        inner_slots: &'p [Slot],
    },
    Optional {
        selector: Selector,
        ranges: &'p [(i128, i128)],
        content: Box<Shape<'p>>,
        inner_slots: &'p [Slot],
    },
    Blob {
        count: Length,
    },
}

impl<'p> Fields<'p> {
    pub(super) fn new(structure: &'p Structure) -> Fields<'p> {
        let mut fields: Vec<Field<'p>> = Vec::with_capacity(structure.fields.len());
        let mut is_first = true;
        for (name, node) in &structure.fields {
            let shape = match is_shown(node) {
                true => Shape::new(node),
                false => Shape::Hidden(node),
            };
            let opening = match (&shape, is_first) {
                (Shape::Hidden(_), _) => String::new(),
                (_, true) => format!("{{ {name} = "),
                (_, false) => format!(", {name} = "),
            };
            is_first &= matches!(shape, Shape::Hidden(_));
            let opening = Literal::new(opening);
            fields.push(Field { opening, shape });
        }
        Fields {
            plain: Plain::new(structure),
            alignment: structure.alignment,
            is_shown: !is_first || fields.is_empty(),
            is_empty: is_first,
            has_addresses: structure.has_addresses(),
            fields,
        }
    }

    /// The other way to write it, if there is one, and its alignment in bits.
    #[inline]
    pub(super) fn plain(&self) -> Option<(&Plain, u32)> {
        self.plain.as_ref().map(|plain| (plain, self.alignment))
    }

    #[inline]
    pub(super) fn has_addresses(&self) -> bool {
        self.has_addresses
    }

    /// A scope of which everything is hidden is left out as a whole.
    pub(super) fn is_shown(&self) -> bool {
        self.is_shown
    }

    /// `{ name = value, ... }`
    #[inline]
    pub(super) fn write(
        &self,
        out: &mut Vec<u8>,
        cursor: &mut Cursor<'_>,
        state: &mut State,
        symbols: &mut impl Symbols,
    ) -> Result<(), Fault> {
        cursor.align(self.alignment)?;
        if self.is_empty {
            out.push(b'{');
        }
        for Field { opening, shape } in &self.fields {
            opening.append(out);
            match shape {
                Shape::Decimal(node, bits) => {
                    cursor.align(node.alignment)?;
                    let raw = cursor.number(*bits, node.byte_order)?;
                    match node.is_signed {
                        true => numbers::signed_decimal(out, (raw << (64 - bits)).cast_signed() >> (64 - bits)),
                        false => numbers::decimal(out, raw),
                    }
                }
                _ => shape.write(out, cursor, state, symbols)?,
            }
        }
        out.extend_from_slice(b" }");
        Ok(())
    }
}

/// Numbers that only the format itself needs are not shown, nor what consists of nothing else.
fn is_shown(node: &Node) -> bool {
    match node {
        Node::Integer(integer) => !integer.is_hidden(),
        Node::Float { .. } | Node::Text { .. } | Node::Blob { .. } => true,
        Node::Structure(structure) => {
            structure.fields.is_empty() || structure.fields.iter().any(|(_, field)| is_shown(field))
        }
        Node::Array { element, .. } => is_shown(element),
        Node::Variant { options, .. } => options.iter().any(|option| is_shown(&option.node)),
        Node::Optional { content, .. } => is_shown(content),
    }
}

impl<'p> Shape<'p> {
    fn new(node: &'p Node) -> Shape<'p> {
        match node {
            Node::Integer(integer) => match integer.width {
                Width::Bits(bits)
                    if integer.base == Base::Decimal
                        && matches!(integer.meaning, Meaning::Number | Meaning::Character)
                        && !integer.is_enumeration
                        && !integer.is_reversed
                        && integer.slot.is_none() =>
                {
                    Shape::Decimal(integer, bits)
                }
                _ => Shape::Integer(integer),
            },
            Node::Float {
                bits,
                alignment,
                byte_order,
                is_reversed,
            } => Shape::Float {
                bits: *bits,
                alignment: *alignment,
                byte_order: *byte_order,
                is_reversed: *is_reversed,
            },
            Node::Text { length, encoding } => Shape::Text {
                length: *length,
                encoding: *encoding,
            },
            Node::Structure(structure) => Shape::Structure(Fields::new(structure)),
            Node::Array {
                alignment,
                count,
                element,
                ..
            } => Shape::Array {
                alignment: *alignment,
                count: *count,
                element: Box::new(Shape::new(element)),
            },
            // One of its options is shown, so that all are.
            Node::Variant {
                selector,
                options,
                inner_slots,
            } => Shape::Variant {
                selector: *selector,
                inner_slots,
                options: options
                    .iter()
                    .map(|option| (&option.ranges[..], Shape::new(&option.node)))
                    .collect(),
            },
            Node::Optional {
                selector,
                ranges,
                content,
                inner_slots,
            } => Shape::Optional {
                selector: *selector,
                inner_slots,
                ranges,
                content: Box::new(Shape::new(content)),
            },
            Node::Blob { count, .. } => Shape::Blob { count: *count },
        }
    }

    fn write(
        &self,
        out: &mut Vec<u8>,
        cursor: &mut Cursor<'_>,
        state: &mut State,
        symbols: &mut impl Symbols,
    ) -> Result<(), Fault> {
        match self {
            Shape::Hidden(node) => walk::skip_node(node, cursor, state)?,
            Shape::Decimal(node, _) => {
                let value = state.number(node, cursor)?.value;
                numbers::integer(out, node, value);
            }
            Shape::Integer(node) => {
                let value = state.number(node, cursor)?.value;
                match node.is_enumeration {
                    true => enumeration(out, node, value),
                    false => {
                        numbers::integer(out, node, value);
                        symbol(out, symbols.symbol_of(node, value));
                    }
                }
            }
            Shape::Float {
                bits,
                alignment,
                byte_order,
                is_reversed,
            } => {
                cursor.align(*alignment)?;
                numbers::float(out, walk::float(cursor, *bits, *byte_order, *is_reversed)?);
            }
            Shape::Text { length, encoding } => {
                strings::text(out, walk::text(*length, *encoding, cursor, state)?, *encoding);
            }
            Shape::Structure(fields) => {
                let start = cursor.position();
                fields.write(out, cursor, state, symbols)?;
                state.pass_structure(start, cursor, fields.fields.len());
            }
            Shape::Array {
                alignment,
                count,
                element,
            } => {
                cursor.align(*alignment)?;
                let count = state.count(*count)?.unwrap_or_default();
                array(out, count, element, (cursor, state), symbols)?;
            }
            Shape::Variant {
                selector,
                options,
                inner_slots,
            } => {
                let value = state.selected(*selector)?;
                state.clear_slots(inner_slots);
                let selected = options.iter().find(|(ranges, _)| walk::is_in(ranges, value));
                let (_, option) = selected.ok_or(Fault::NoOption(value))?;
                out.extend_from_slice(b"{ ");
                option.write(out, cursor, state, symbols)?;
                out.extend_from_slice(b" }");
            }
            Shape::Optional {
                selector,
                ranges,
                content,
                inner_slots,
            } => {
                let value = state.selected(*selector)?;
                state.clear_slots(inner_slots);
                if walk::is_there(ranges, value) {
                    out.extend_from_slice(b"{ ");
                    content.write(out, cursor, state, symbols)?;
                    out.extend_from_slice(b" }");
                } else {
                    out.extend_from_slice(b"<none>");
                }
            }
            Shape::Blob { count } => {
                cursor.align(8)?;
                let bytes = cursor.take(state.count(*count)?.unwrap_or_default())?;
                blob(out, bytes);
            }
        }
        Ok(())
    }
}

/// Of an event: bits with long names would fill any memory.
const TEXT_BYTES_MAX: usize = 64 << 20;

/// `[ [0] = 1, [1] = 2 ]`
fn array(
    out: &mut Vec<u8>,
    count: u64,
    element: &Shape<'_>,
    (cursor, state): (&mut Cursor<'_>, &mut State),
    symbols: &mut impl Symbols,
) -> Result<(), Fault> {
    out.push(b'[');
    for index in 0..count {
        let start = cursor.position();
        out.extend_from_slice(if index == 0 { b" [" } else { b", [" });
        numbers::decimal(out, index);
        out.extend_from_slice(b"] = ");
        element.write(out, cursor, state, symbols)?;
        state.check_progress(start, cursor, count)?;
        if out.len() > TEXT_BYTES_MAX {
            return Err(Fault::LongText);
        }
    }
    out.extend_from_slice(b" ]");
    Ok(())
}

/// ` <greet+0x4>`, behind an address that has a name.
#[inline]
pub(super) fn symbol(out: &mut Vec<u8>, symbol: Option<&str>) {
    if let Some(symbol) = symbol {
        out.extend_from_slice(b" <");
        out.extend_from_slice(symbol.as_bytes());
        out.push(b'>');
    }
}

/// `( "label", "other" : container = 3 )`
pub(super) fn enumeration(out: &mut Vec<u8>, node: &IntegerNode, value: u64) {
    let wide = match node.is_signed {
        true => i128::from(value.cast_signed()),
        false => i128::from(value),
    };
    let mut opening: &[u8] = b"( ";
    for label in node.labels.iter().filter(|label| walk::is_in(&label.ranges, wide)) {
        out.extend_from_slice(opening);
        strings::quoted(out, label.name.as_bytes());
        opening = b", ";
    }
    if opening == b"( " {
        out.extend_from_slice(b"( <unknown>");
    }
    out.extend_from_slice(b" : container = ");
    numbers::integer(out, node, value);
    out.extend_from_slice(b" )");
}

/// `{ 00 1f }`
pub(super) fn blob(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'{');
    let digit = |value: u8| b"0123456789abcdef"[usize::from(value)];
    for byte in bytes {
        out.extend_from_slice(&[b' ', digit(byte >> 4), digit(byte & 15)]);
    }
    out.extend_from_slice(b" }");
}
