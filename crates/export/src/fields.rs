// SPDX-License-Identifier: MIT OR Apache-2.0
//! The values of an event in memory that is used again for the next: a tree as a list, each group followed by what it holds.

use std::collections::HashMap;

use piste_ctf::read::plan::IntegerNode;
use piste_ctf::read::schema::{Encoding, Meaning};
use piste_ctf::read::walk::Visitor;

use crate::places::ByPlace;

/// Number of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NameId(pub(crate) u32);

/// Names that occur, each once.
#[derive(Debug, Default)]
pub(crate) struct Names {
    texts: Vec<String>,
    by_text: HashMap<String, NameId>,
    /// By the place of a name in the metadata's memory, which is where most come from.
    by_place: ByPlace<(usize, NameId)>,
}

impl Names {
    pub(crate) fn id(&mut self, text: &str) -> NameId {
        if let Some(id) = self.by_text.get(text) {
            return *id;
        }
        let id = NameId(self.texts.len() as u32);
        self.texts.push(text.to_owned());
        self.by_text.insert(text.to_owned(), id);
        id
    }

    /// Of a text that stays where it is as long as the names are used.
    fn id_of_place(&mut self, text: &str) -> NameId {
        let place = text.as_ptr().addr();
        match self.by_place.get(&place) {
            // Names of no length may be anywhere.
            Some((length, id)) if *length == text.len() => *id,
            _ => {
                let id = self.id(text);
                self.by_place.insert(place, (text.len(), id));
                id
            }
        }
    }

    pub(crate) fn text(&self, id: NameId) -> &str {
        &self.texts[id.0 as usize]
    }
}

/// A value. Texts are in [`Fields`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value {
    Unsigned(u64),
    Signed(i64),
    Boolean(bool),
    Float(f64),
    /// Where it begins and ends.
    Text(usize, usize),
    /// An address that has a name, and where the text with both begins and ends: `0x4011d6 greet+0x4`.
    Address(u64, usize, usize),
    /// A structure: so many items follow, those within groups counted.
    Structure(usize),
    /// An array, likewise.
    Array(usize),
    Nothing,
}

#[derive(Clone, Copy, Debug)]
struct Item {
    /// None for an element.
    name: Option<NameId>,
    value: Value,
}

/// Values with their names.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    items: Vec<Item>,
    text: Vec<u8>,
}

impl Fields {
    pub(crate) fn clear(&mut self) {
        self.items.clear();
        self.text.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The fields, without what is in them.
    pub(crate) fn top(&self) -> Children<'_> {
        Children {
            fields: self,
            at: 0,
            end: self.items.len(),
        }
    }

    /// A field by name.
    pub(crate) fn get(&self, names: &Names, name: &str) -> Option<Value> {
        let mut top = self.top();
        let found = top.find(|child| child.name.is_some_and(|id| names.text(id) == name));
        found.map(|child| child.value)
    }

    /// A number by name.
    pub(crate) fn number(&self, names: &Names, name: &str) -> Option<i64> {
        match self.get(names, name)? {
            Value::Unsigned(value) | Value::Address(value, ..) => i64::try_from(value).ok(),
            Value::Signed(value) => Some(value),
            Value::Boolean(value) => Some(value.into()),
            _ => None,
        }
    }

    /// A text by name.
    pub(crate) fn text(&self, names: &Names, name: &str) -> Option<&[u8]> {
        match self.get(names, name)? {
            Value::Text(begin, end) => Some(&self.text[begin..end]),
            _ => None,
        }
    }

    /// The name of what lies at an address, if it has one.
    pub(crate) fn symbol(&self, names: &Names, name: &str) -> Option<&[u8]> {
        let Value::Address(_, begin, end) = self.get(names, name)? else {
            return None;
        };
        self.text[begin..end].splitn(2, |byte| *byte == b' ').nth(1)
    }

    /// The bytes of a text.
    pub(crate) fn bytes(&self, begin: usize, end: usize) -> &[u8] {
        &self.text[begin..end]
    }

    fn push_text(&mut self, bytes: &[u8]) -> Value {
        let begin = self.text.len();
        self.text.extend_from_slice(bytes);
        Value::Text(begin, self.text.len())
    }
}

/// A value with its name and what is in it.
#[derive(Clone, Copy)]
pub(crate) struct Child<'f> {
    pub(crate) name: Option<NameId>,
    pub(crate) value: Value,
    inner: Children<'f>,
}

impl<'f> Child<'f> {
    /// What a group holds.
    pub(crate) fn children(&self) -> Children<'f> {
        self.inner
    }
}

/// Values next to one another.
#[derive(Clone, Copy)]
pub(crate) struct Children<'f> {
    fields: &'f Fields,
    at: usize,
    end: usize,
}

impl<'f> Iterator for Children<'f> {
    type Item = Child<'f>;

    fn next(&mut self) -> Option<Child<'f>> {
        if self.at >= self.end {
            return None;
        }
        let Item { name, value } = self.fields.items[self.at];
        let inside = match value {
            Value::Structure(items) | Value::Array(items) => items,
            _ => 0,
        };
        let inner = Children {
            fields: self.fields,
            at: self.at + 1,
            end: self.at + 1 + inside,
        };
        self.at = inner.end;
        Some(Child { name, value, inner })
    }
}

/// Takes values into fields. Numbers that only the format itself needs are left out.
pub(crate) struct Collector<'a> {
    fields: &'a mut Fields,
    names: &'a mut Names,
    name: Option<NameId>,
    /// Where the groups begin that are not ended.
    open: Vec<usize>,
}

impl<'a> Collector<'a> {
    pub(crate) fn new(fields: &'a mut Fields, names: &'a mut Names) -> Collector<'a> {
        Collector {
            fields,
            names,
            name: None,
            open: Vec::new(),
        }
    }

    fn push(&mut self, value: Value) {
        let name = self.name.take();
        self.fields.items.push(Item { name, value });
    }

    fn begin(&mut self, value: Value) {
        self.open.push(self.fields.items.len());
        self.push(value);
    }

    fn end(&mut self) {
        if let Some(begin) = self.open.pop() {
            let inside = self.fields.items.len() - begin - 1;
            let item = &mut self.fields.items[begin];
            item.value = match item.value {
                Value::Structure(_) => Value::Structure(inside),
                _ => Value::Array(inside),
            };
        }
    }
}

impl Visitor for Collector<'_> {
    fn field(&mut self, name: &str) {
        self.name = Some(self.names.id_of_place(name));
    }

    fn element(&mut self, _: u64) {
        self.name = None;
    }

    fn integer(&mut self, integer: &IntegerNode, value: u64) {
        if integer.is_technical {
            return;
        }
        let number = match (integer.meaning, integer.is_signed) {
            (Meaning::Boolean, _) => Value::Boolean(value != 0),
            (_, true) => Value::Signed(value.cast_signed()),
            (_, false) => Value::Unsigned(value),
        };
        if !integer.is_enumeration {
            return self.push(number);
        }
        // People want the name; the number is what there is without one.
        let wide = match integer.is_signed {
            true => i128::from(value.cast_signed()),
            false => i128::from(value),
        };
        let is_in = |ranges: &[(i128, i128)]| ranges.iter().any(|&(first, last)| (first..=last).contains(&wide));
        let label = integer.labels.iter().find(|label| is_in(&label.ranges));
        let value = label.map_or(number, |label| self.fields.push_text(label.name.as_bytes()));
        self.push(value);
    }

    fn symbol(&mut self, _: &IntegerNode, value: u64, symbol: &str) {
        if let Value::Text(begin, end) = self.fields.push_text(format!("{value:#x} {symbol}").as_bytes()) {
            self.push(Value::Address(value, begin, end));
        }
    }

    fn float(&mut self, value: f64, _: u32) {
        self.push(Value::Float(value));
    }

    fn counted_text(&mut self, _: &[u8], whole: &[u8], encoding: Encoding) {
        self.text(whole, encoding);
    }

    fn text(&mut self, bytes: &[u8], encoding: Encoding) {
        let value = match utf8(bytes, encoding) {
            None => self.fields.push_text(bytes),
            Some(text) => self.fields.push_text(text.as_bytes()),
        };
        self.push(value);
    }

    fn blob(&mut self, bytes: &[u8], _: Option<&str>) {
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let value = self.fields.push_text(text.as_bytes());
        self.push(value);
    }

    fn begin_structure(&mut self) {
        self.begin(Value::Structure(0));
    }

    fn end_structure(&mut self) {
        self.end();
    }

    fn begin_array(&mut self, _: u64, _: bool) {
        self.begin(Value::Array(0));
    }

    fn end_array(&mut self) {
        self.end();
    }

    fn nothing(&mut self) {
        self.push(Value::Nothing);
    }
}

/// A text of other characters than UTF-8 has in UTF-8.
fn utf8(bytes: &[u8], encoding: Encoding) -> Option<String> {
    let units16 = |unit: fn([u8; 2]) -> u16| {
        let units: Vec<u16> = bytes.chunks_exact(2).map(|pair| unit([pair[0], pair[1]])).collect();
        String::from_utf16_lossy(&units)
    };
    let units32 = |unit: fn([u8; 4]) -> u32| {
        let units = bytes
            .chunks_exact(4)
            .map(|four| unit([four[0], four[1], four[2], four[3]]));
        units.map(|unit| char::from_u32(unit).unwrap_or('\u{fffd}')).collect()
    };
    match encoding {
        Encoding::Utf8 => None,
        Encoding::Utf16Be => Some(units16(u16::from_be_bytes)),
        Encoding::Utf16Le => Some(units16(u16::from_le_bytes)),
        Encoding::Utf32Be => Some(units32(u32::from_be_bytes)),
        Encoding::Utf32Le => Some(units32(u32::from_le_bytes)),
    }
}
