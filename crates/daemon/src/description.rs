// SPDX-License-Identifier: MIT OR Apache-2.0
//! Event descriptions as programs send them (include/piste/abi/event.h), checked and turned into values, and kept once however
//! many programs send the same.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::mem::size_of;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use piste_abi::{
    FromBytes, PISTE_ARRAY_COUNT_MAX, PISTE_BASE_DECIMAL, PISTE_BASE_HEX, PISTE_DESCRIPTION_BYTES_MAX,
    PISTE_FIELD_COUNT_MAX, PISTE_LABEL_COUNT_MAX, PISTE_LEVEL_DEBUG, PISTE_NAME_BYTES_MAX, piste_event_description,
    piste_field_description, piste_label_description,
};
use piste_ctf::{Base, Element, Field, FieldKind, Label};

use crate::session::channel::bytes_of;
use crate::shares::{Holdings, Users};

/// The events of one EVENTS message.
#[derive(Debug)]
pub struct EventBlock {
    /// In the order of the message; each index once.
    pub events: Arc<[EventDescription]>,
    _entry: Option<ShelfEntry>,
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
    /// Fields that only filters see, each with the number of recorded fields before it.
    pub nowrite: Vec<(usize, Field)>,
}

impl EventDescription {
    /// The fields as filters see them, in the order of their bytes.
    pub fn filtered_fields(&self) -> Vec<&Field> {
        self.all_fields().into_iter().map(|(field, _)| field).collect()
    }

    /// The same, and which of them are recorded.
    pub fn all_fields(&self) -> Vec<(&Field, bool)> {
        let mut fields: Vec<(&Field, bool)> = self.fields.iter().map(|field| (field, true)).collect();
        for (count, (before, field)) in self.nowrite.iter().enumerate() {
            fields.insert(before + count, (field, false));
        }
        fields
    }
}

/// What is wrong with a message: a sentence about it, without its number or sender.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub String);

/// Gives equal bytes of one user's programs the same [`EventBlock`]: a thousand processes of one executable cost one. Each user has a budget.
#[derive(Debug)]
pub struct Interner {
    users: Users,
    shelf: Rc<RefCell<Shelf>>,
    kept_bytes_max: usize,
}

/// The blocks that somebody has. One that nobody has any more takes itself away.
#[derive(Debug, Default)]
struct Shelf {
    blocks: HashMap<u32, HashMap<Rc<[u8]>, Weak<EventBlock>>>,
    /// Bytes, by user.
    kept_bytes: Holdings,
}

/// Where a block is kept, and for what.
#[derive(Debug)]
struct ShelfEntry {
    shelf: Weak<RefCell<Shelf>>,
    user: u32,
    bytes: Rc<[u8]>,
    kept_bytes: usize,
}

/// Bytes of different descriptions that pisted keeps for all users, of which one user's programs may have a share.
pub const KEPT_BYTES_MAX: usize = 256 << 20;

impl Interner {
    /// One that keeps at most so much: the descriptions' bytes, and what they become.
    pub fn new(users: Users, kept_bytes_max: usize) -> Interner {
        Interner {
            users,
            shelf: Rc::default(),
            kept_bytes_max,
        }
    }

    /// The block that a user's program describes with `bytes`, `event_count` descriptions.
    ///
    /// # Errors
    /// What is wrong with the first description that is not as piste/abi/event.h says, or with all of them together.
    pub fn block(&self, user: u32, bytes: &[u8], event_count: u32) -> Result<Rc<EventBlock>, Malformed> {
        if let Some(block) = self.known(user, bytes)
            && block.events.len() == event_count as usize
        {
            return Ok(block);
        }
        let events = parse(bytes, event_count)?;
        let kept_bytes = kept_bytes(bytes, &events);
        let mut shelf = self.shelf.borrow_mut();
        if !self
            .users
            .permit(&shelf.kept_bytes, user, kept_bytes, self.kept_bytes_max)
        {
            return malformed(format!(
                "event descriptions may have at most {} bytes for all programs, and {} for the programs of one user",
                self.kept_bytes_max,
                self.users.share(user, self.kept_bytes_max)
            ));
        }
        let bytes: Rc<[u8]> = bytes.into();
        let block = Rc::new(EventBlock {
            events: events.into(),
            _entry: Some(ShelfEntry {
                shelf: Rc::downgrade(&self.shelf),
                user,
                bytes: bytes.clone(),
                kept_bytes,
            }),
        });
        shelf.kept_bytes.add(user, kept_bytes);
        let of_user = shelf.blocks.entry(user).or_default();
        of_user.insert(bytes, Rc::downgrade(&block));
        Ok(block)
    }

    fn known(&self, user: u32, bytes: &[u8]) -> Option<Rc<EventBlock>> {
        self.shelf.borrow().blocks.get(&user)?.get(bytes)?.upgrade()
    }
}

impl From<Vec<EventDescription>> for EventBlock {
    /// One that is kept nowhere.
    fn from(events: Vec<EventDescription>) -> EventBlock {
        EventBlock {
            events: events.into(),
            _entry: None,
        }
    }
}

impl PartialEq for EventBlock {
    fn eq(&self, other: &EventBlock) -> bool {
        self.events == other.events
    }
}

impl Drop for ShelfEntry {
    fn drop(&mut self) {
        let Some(shelf) = self.shelf.upgrade() else { return };
        let mut shelf = shelf.borrow_mut();
        shelf.kept_bytes.remove(self.user, self.kept_bytes);
        if let Some(of_user) = shelf.blocks.get_mut(&self.user) {
            of_user.remove(&self.bytes);
            if of_user.is_empty() {
                shelf.blocks.remove(&self.user);
            }
        }
    }
}

/// What a block takes here, roughly.
fn kept_bytes(bytes: &[u8], events: &[EventDescription]) -> usize {
    let events = events.iter().map(|event| {
        let nowrite: Vec<Field> = event.nowrite.iter().map(|(_, field)| field.clone()).collect();
        bytes_of(&event.name, &event.fields) + bytes_of("", &nowrite)
    });
    bytes.len() + size_of::<ShelfEntry>() + events.sum::<usize>()
}

fn parse(bytes: &[u8], event_count: u32) -> Result<Vec<EventDescription>, Malformed> {
    let mut reader = Reader { bytes };
    let mut events = Vec::new();
    let mut indexes = HashSet::new();
    for _ in 0..event_count {
        let event = parse_event(&mut reader)?;
        if !indexes.insert(event.index) {
            return malformed(format!("event index {} occurs twice in a message", event.index));
        }
        events.push(event);
    }
    reader.end("the event descriptions")?;
    Ok(events)
}

fn parse_event(outer: &mut Reader<'_>) -> Result<EventDescription, Malformed> {
    let (header, mut reader) = outer.item::<piste_event_description>("an event", |header| header.total_bytes)?;
    if header.total_bytes > PISTE_DESCRIPTION_BYTES_MAX {
        return malformed(format!(
            "an event description has {} bytes; at most {PISTE_DESCRIPTION_BYTES_MAX} are allowed",
            header.total_bytes
        ));
    }
    if u32::from(header.level) > PISTE_LEVEL_DEBUG {
        return malformed(format!(
            "an event has level {}; the highest is {PISTE_LEVEL_DEBUG}",
            header.level
        ));
    }
    if u32::from(header.field_count) > PISTE_FIELD_COUNT_MAX {
        return malformed(format!(
            "an event has {} fields; at most {PISTE_FIELD_COUNT_MAX} are allowed",
            header.field_count
        ));
    }
    let provider = reader.name(header.provider_bytes, "a provider")?;
    let name = reader.name(header.name_bytes, "an event")?;
    reader.align();
    let (mut fields, mut nowrite) = (Vec::with_capacity(header.field_count.into()), Vec::new());
    let mut names = HashSet::new();
    for _ in 0..header.field_count {
        let (field, is_written) = parse_field(&mut reader)?;
        if !names.insert(field.name.clone()) {
            return malformed(format!("event {provider}:{name} has two fields {:?}", field.name));
        }
        match is_written {
            true => fields.push(field),
            false => nowrite.push((fields.len(), field)),
        }
    }
    reader.end("an event description")?;
    Ok(EventDescription {
        index: header.event_index,
        name: format!("{provider}:{name}"),
        level: header.level,
        fields,
        nowrite,
    })
}

/// A field, and whether records have it.
fn parse_field(outer: &mut Reader<'_>) -> Result<(Field, bool), Malformed> {
    let (header, mut reader) = outer.item::<piste_field_description>("a field", |header| header.total_bytes)?;
    let name = reader.name(header.name_bytes, "a field")?;
    reader.align();
    let base = match u32::from(header.base) {
        PISTE_BASE_HEX => Base::Hex,
        0 | PISTE_BASE_DECIMAL => Base::Decimal,
        other => {
            return malformed(format!(
                "field {name:?} has number base {other}; only 10 and 16 are known"
            ));
        }
    };
    let kind = match u32::from(header.kind) {
        piste_abi::PISTE_FIELD_SCALAR => FieldKind::Scalar {
            element: element(header.element)?,
            base,
        },
        piste_abi::PISTE_FIELD_ENUM => {
            if element(header.element)? != Element::Int32 {
                return malformed(format!("enumeration {name:?} does not have the type int32"));
            }
            FieldKind::Enum {
                labels: parse_labels(&mut reader, header.label_count)?,
            }
        }
        piste_abi::PISTE_FIELD_ARRAY => {
            if !(1..=PISTE_ARRAY_COUNT_MAX).contains(&header.count) {
                return malformed(format!(
                    "array {name:?} has {} elements; 1 to {PISTE_ARRAY_COUNT_MAX} are allowed",
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
        other => return malformed(format!("field {name:?} has the unknown kind {other}")),
    };
    reader.end("a field description")?;
    match header.flags.into() {
        0 => Ok((Field { name, kind }, true)),
        piste_abi::PISTE_FIELD_NOWRITE => Ok((Field { name, kind }, false)),
        other => malformed(format!("field {name:?} has the unknown flags {other}")),
    }
}

fn parse_labels(reader: &mut Reader<'_>, count: u16) -> Result<Vec<Label>, Malformed> {
    if !(1..=PISTE_LABEL_COUNT_MAX).contains(&u32::from(count)) {
        return malformed(format!(
            "an enumeration has {count} labels; 1 to {PISTE_LABEL_COUNT_MAX} are allowed"
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
        other => return malformed(format!("a field has elements of the unknown type {other}")),
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
                "{what} description claims {total} bytes, but only {} are left",
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
                "the name of {what} has {count} bytes; 1 to {PISTE_NAME_BYTES_MAX} are allowed"
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

#[cfg(test)]
mod tests {
    use piste_abi::IntoBytes;

    use super::*;

    /// An event without fields, named by a number of eight digits.
    fn described(number: u32) -> Vec<u8> {
        let header = piste_event_description {
            total_bytes: size_of::<piste_event_description>() as u32 + 16,
            event_index: 0,
            level: 13,
            reserved: 0,
            field_count: 0,
            provider_bytes: 4,
            name_bytes: 8,
        };
        [header.as_bytes(), format!("shop{number:08}\0\0\0\0").as_bytes()].concat()
    }

    fn fill(interner: &Interner, user: u32) -> Vec<Rc<EventBlock>> {
        (0..)
            .map_while(|number| interner.block(user, &described(number), 1).ok())
            .collect()
    }

    #[test]
    fn nobody_describes_everything_and_what_nobody_has_makes_room() {
        let one_bytes = {
            let bytes = described(0);
            kept_bytes(&bytes, &parse(&bytes, 1).unwrap())
        };
        let interner = Interner::new(Users { own: 0 }, 100 * one_bytes);
        let mut first = fill(&interner, 1000);
        assert_eq!(first.len(), 25);
        assert!(
            Rc::ptr_eq(&interner.block(1000, &described(3), 1).unwrap(), &first[3]),
            "known ones cost nothing"
        );
        let others: Vec<_> = [1001, 1002, 1003].map(|user| fill(&interner, user)).into();
        assert_eq!(others.iter().map(Vec::len).collect::<Vec<_>>(), [25, 25, 0]);
        assert_eq!(fill(&interner, 0).len(), 25);
        first.truncate(20);
        assert_eq!(fill(&interner, 1003).len(), 5);
        drop((first, others));
        assert_eq!(fill(&interner, 1003).len(), 25);
        assert!(interner.shelf.borrow().blocks.is_empty());
    }
}
