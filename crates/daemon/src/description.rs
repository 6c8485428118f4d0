// SPDX-License-Identifier: MIT OR Apache-2.0
//! Event descriptions as programs send them (include/piste/abi/event.h), checked and turned into values, and kept once however
//! many programs send the same.

use std::collections::{HashMap, HashSet};
use std::mem::size_of;
use std::rc::{Rc, Weak};

use piste_abi::{
    FromBytes, PISTE_ARRAY_COUNT_MAX, PISTE_BASE_DECIMAL, PISTE_BASE_HEX, PISTE_DESCRIPTION_BYTES_MAX,
    PISTE_FIELD_COUNT_MAX, PISTE_LABEL_COUNT_MAX, PISTE_LEVEL_DEBUG, PISTE_NAME_BYTES_MAX, piste_event_description,
    piste_field_description, piste_label_description,
};
use piste_ctf::{Base, Element, Field, FieldKind, Label};

use crate::session::channel::bytes_of;

/// The events of one EVENTS message.
#[derive(Debug, PartialEq, Eq)]
pub struct EventBlock {
    /// In the order of the message; each index once.
    pub events: Vec<EventDescription>,
}

/// One event that a program has.
#[derive(Debug, PartialEq, Eq)]
pub struct EventDescription {
    /// Number of the event in its module.
    pub index: u32,
    /// Provider and name: `shop:order`.
    pub name: String,
    /// 0 (emergency) to 14 (debug).
    pub level: u8,
    /// The fields, in the order of their bytes; each name once.
    pub fields: Vec<Field>,
}

/// What is wrong with a message: a sentence about it, without its number or sender.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub String);

/// Gives equal bytes the same [`EventBlock`]: a thousand processes of one executable cost one. Of one user, so that each has a budget.
#[derive(Debug)]
pub struct Interner {
    blocks: HashMap<Box<[u8]>, Weak<EventBlock>>,
    kept_bytes: usize,
    kept_bytes_max: usize,
    sweep_at_count: usize,
}

/// Bytes of different descriptions that pisted keeps for one user; of a user with a share only, the share of it.
pub const KEPT_BYTES_MAX: usize = 256 << 20;

impl Interner {
    /// One that keeps at most so much: the descriptions' bytes, and what they become.
    pub fn new(kept_bytes_max: usize) -> Interner {
        Interner {
            blocks: HashMap::new(),
            kept_bytes: 0,
            kept_bytes_max,
            sweep_at_count: 0,
        }
    }

    /// The block that `bytes` describe, `event_count` descriptions.
    ///
    /// # Errors
    /// What is wrong with the first description that is not as event.h says.
    pub fn block(&mut self, bytes: &[u8], event_count: u32) -> Result<Rc<EventBlock>, Malformed> {
        let known = self.blocks.get(bytes).and_then(Weak::upgrade);
        if let Some(block) = known
            && block.events.len() == event_count as usize
        {
            return Ok(block);
        }
        let block = Rc::new(parse(bytes, event_count)?);
        let kept_bytes = kept_bytes(bytes, &block);
        if self.blocks.len() >= self.sweep_at_count || self.kept_bytes + kept_bytes > self.kept_bytes_max {
            self.sweep();
        }
        if self.kept_bytes + kept_bytes > self.kept_bytes_max {
            return malformed(format!(
                "all programs of its user together describe events with more than {} bytes",
                self.kept_bytes_max
            ));
        }
        self.blocks.insert(bytes.into(), Rc::downgrade(&block));
        self.kept_bytes += kept_bytes;
        Ok(block)
    }

    /// Forgets what no program has any more.
    fn sweep(&mut self) {
        self.blocks.retain(|_, block| block.strong_count() > 0);
        let kept = self.blocks.iter();
        let kept = kept.filter_map(|(bytes, block)| Some(kept_bytes(bytes, &*block.upgrade()?)));
        self.kept_bytes = kept.sum();
        self.sweep_at_count = 2 * self.blocks.len() + 64;
    }
}

/// What a block takes here, roughly.
fn kept_bytes(bytes: &[u8], block: &EventBlock) -> usize {
    let events = block.events.iter().map(|event| bytes_of(&event.name, &event.fields));
    bytes.len() + events.sum::<usize>()
}

fn parse(bytes: &[u8], event_count: u32) -> Result<EventBlock, Malformed> {
    let mut reader = Reader { bytes };
    let mut events = Vec::new();
    let mut indexes = HashSet::new();
    for _ in 0..event_count {
        let event = parse_event(&mut reader)?;
        if !indexes.insert(event.index) {
            return malformed(format!("event index {} comes twice in a message", event.index));
        }
        events.push(event);
    }
    reader.end("the event descriptions")?;
    events.shrink_to_fit();
    Ok(EventBlock { events })
}

fn parse_event(outer: &mut Reader<'_>) -> Result<EventDescription, Malformed> {
    let (header, mut reader) = outer.item::<piste_event_description>("an event", |header| header.total_bytes)?;
    if header.total_bytes > PISTE_DESCRIPTION_BYTES_MAX {
        return malformed(format!(
            "an event description has {} bytes, allowed are {PISTE_DESCRIPTION_BYTES_MAX}",
            header.total_bytes
        ));
    }
    if u32::from(header.level) > PISTE_LEVEL_DEBUG {
        return malformed(format!(
            "an event has level {}, the highest is {PISTE_LEVEL_DEBUG}",
            header.level
        ));
    }
    if u32::from(header.field_count) > PISTE_FIELD_COUNT_MAX {
        return malformed(format!(
            "an event has {} fields, allowed are {PISTE_FIELD_COUNT_MAX}",
            header.field_count
        ));
    }
    let provider = reader.name(header.provider_bytes, "a provider")?;
    let name = reader.name(header.name_bytes, "an event")?;
    reader.align();
    let mut fields = Vec::with_capacity(header.field_count.into());
    let mut names = HashSet::new();
    for _ in 0..header.field_count {
        let field = parse_field(&mut reader)?;
        if !names.insert(field.name.clone()) {
            return malformed(format!("event {provider}:{name} has two fields {:?}", field.name));
        }
        fields.push(field);
    }
    reader.end("an event description")?;
    Ok(EventDescription {
        index: header.event_index,
        name: format!("{provider}:{name}"),
        level: header.level,
        fields,
    })
}

fn parse_field(outer: &mut Reader<'_>) -> Result<Field, Malformed> {
    let (header, mut reader) = outer.item::<piste_field_description>("a field", |header| header.total_bytes)?;
    let name = reader.name(header.name_bytes, "a field")?;
    reader.align();
    let base = match u32::from(header.base) {
        PISTE_BASE_HEX => Base::Hex,
        0 | PISTE_BASE_DECIMAL => Base::Decimal,
        other => return malformed(format!("field {name:?} has number base {other}, known are 10 and 16")),
    };
    let kind = match u32::from(header.kind) {
        piste_abi::PISTE_FIELD_SCALAR => FieldKind::Scalar {
            element: element(header.element)?,
            base,
        },
        piste_abi::PISTE_FIELD_ENUM => {
            if element(header.element)? != Element::Int32 {
                return malformed(format!("enumeration {name:?} is not of int32"));
            }
            FieldKind::Enum {
                labels: parse_labels(&mut reader, header.label_count)?,
            }
        }
        piste_abi::PISTE_FIELD_ARRAY => {
            if !(1..=PISTE_ARRAY_COUNT_MAX).contains(&header.count) {
                return malformed(format!(
                    "array {name:?} has {} elements, allowed are 1 to {PISTE_ARRAY_COUNT_MAX}",
                    header.count
                ));
            }
            FieldKind::Array {
                element: element(header.element)?,
                base,
                count: header.count,
            }
        }
        piste_abi::PISTE_FIELD_SEQUENCE => FieldKind::Sequence {
            element: element(header.element)?,
            base,
        },
        piste_abi::PISTE_FIELD_TEXT => FieldKind::Text,
        piste_abi::PISTE_FIELD_STRING => FieldKind::String,
        other => return malformed(format!("field {name:?} is of kind {other}, which is unknown")),
    };
    reader.end("a field description")?;
    Ok(Field { name, kind })
}

fn parse_labels(reader: &mut Reader<'_>, count: u16) -> Result<Vec<Label>, Malformed> {
    if !(1..=PISTE_LABEL_COUNT_MAX).contains(&u32::from(count)) {
        return malformed(format!(
            "an enumeration has {count} labels, allowed are 1 to {PISTE_LABEL_COUNT_MAX}"
        ));
    }
    (0..count)
        .map(|_| {
            let (header, mut reader) =
                reader.item::<piste_label_description>("a label", |header| header.total_bytes)?;
            let name = reader.name(header.label_bytes, "a label")?;
            reader.align();
            reader.end("a label description")?;
            Ok(Label {
                name,
                value: header.value,
            })
        })
        .collect()
}

fn element(number: u8) -> Result<Element, Malformed> {
    Ok(match u32::from(number) {
        piste_abi::PISTE_ELEMENT_INT8 => Element::Int8,
        piste_abi::PISTE_ELEMENT_INT16 => Element::Int16,
        piste_abi::PISTE_ELEMENT_INT32 => Element::Int32,
        piste_abi::PISTE_ELEMENT_INT64 => Element::Int64,
        piste_abi::PISTE_ELEMENT_UINT8 => Element::Uint8,
        piste_abi::PISTE_ELEMENT_UINT16 => Element::Uint16,
        piste_abi::PISTE_ELEMENT_UINT32 => Element::Uint32,
        piste_abi::PISTE_ELEMENT_UINT64 => Element::Uint64,
        piste_abi::PISTE_ELEMENT_FLOAT32 => Element::Float32,
        piste_abi::PISTE_ELEMENT_FLOAT64 => Element::Float64,
        other => return malformed(format!("a field has elements of type {other}, which is unknown")),
    })
}

fn malformed<T>(what: String) -> Result<T, Malformed> {
    Err(Malformed(what))
}

/// Text for people out of bytes that may be anything: a name that a program cut at the limit may end within a character.
pub fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars()
        .map(|character| if character.is_control() { '\u{fffd}' } else { character })
        .collect()
}

/// What is left of a message, or of one description in it.
struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Takes the next item: its header, and a reader of the rest of its bytes.
    fn item<Header: FromBytes>(
        &mut self,
        what: &str,
        total_bytes: impl Fn(&Header) -> u32,
    ) -> Result<(Header, Reader<'a>), Malformed> {
        let Ok((header, _)) = Header::read_from_prefix(self.bytes) else {
            return malformed(format!(
                "{what} description is cut off after {} bytes",
                self.bytes.len()
            ));
        };
        let total = total_bytes(&header) as usize;
        if total < size_of::<Header>() || !total.is_multiple_of(8) || total > self.bytes.len() {
            return malformed(format!(
                "{what} description states {total} bytes, and {} are left of what contains it",
                self.bytes.len()
            ));
        }
        let (item, rest) = self.bytes.split_at(total);
        self.bytes = rest;
        Ok((
            header,
            Reader {
                bytes: &item[size_of::<Header>()..],
            },
        ))
    }

    fn name(&mut self, bytes: u16, what: &str) -> Result<String, Malformed> {
        let count = usize::from(bytes);
        if count == 0 || u32::from(bytes) > PISTE_NAME_BYTES_MAX {
            return malformed(format!(
                "the name of {what} has {count} bytes, allowed are 1 to {PISTE_NAME_BYTES_MAX}"
            ));
        }
        let Some((name, rest)) = self.bytes.split_at_checked(count) else {
            return malformed(format!("the name of {what} is cut off"));
        };
        self.bytes = rest;
        Ok(printable(name))
    }

    /// Skips the padding behind names. Items are multiples of 8 bytes, so what is left says where it ends.
    fn align(&mut self) {
        let padding = self.bytes.len() % 8;
        self.bytes = &self.bytes[padding..];
    }

    fn end(&self, what: &str) -> Result<(), Malformed> {
        match self.bytes.len() {
            0 => Ok(()),
            count => malformed(format!("{count} bytes follow {what}")),
        }
    }
}
