// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fields of an event.

use piste_ctf::read::plan::IntegerNode;
use piste_ctf::read::schema::Encoding;
use piste_ctf::read::walk::Visitor;

/// A value of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A whole number.
    Integer(i128),
    /// A text; bytes, for it may be anything.
    Text(Vec<u8>),
    /// Values of the same kind.
    List(Vec<Value>),
    /// Values with names.
    Structure(Fields),
}

/// Values with their names, in the order of the event.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fields(Vec<(String, Value)>);

impl Fields {
    /// The value with this name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// A number by its name.
    pub fn integer(&self, name: &str) -> Option<i128> {
        match self.get(name)? {
            Value::Integer(value) => Some(*value),
            _ => None,
        }
    }

    /// A text by its name.
    pub fn text(&self, name: &str) -> Option<&[u8]> {
        match self.get(name)? {
            Value::Text(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// A list by its name.
    pub fn list(&self, name: &str) -> Option<&[Value]> {
        match self.get(name)? {
            Value::List(values) => Some(values),
            _ => None,
        }
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Adds a value.
    pub fn push(&mut self, name: &str, value: Value) {
        self.0.push((name.to_owned(), value));
    }
}

/// Takes the fields that a reader visits ([`piste_ctf::read::walk`]).
#[derive(Debug, Default)]
pub struct Collector {
    /// The structures and lists that are open, the outermost first.
    open: Vec<Open>,
    fields: Fields,
    /// Of the field whose value comes.
    name: String,
}

#[derive(Debug)]
enum Open {
    List(String, Vec<Value>),
    Structure(String, Fields),
}

impl Collector {
    /// The fields that were visited.
    pub fn into_fields(self) -> Fields {
        self.fields
    }

    fn put(&mut self, value: Value) {
        match self.open.last_mut() {
            Some(Open::List(_, values)) => values.push(value),
            Some(Open::Structure(_, fields)) => fields.push(&self.name, value),
            None => self.fields.push(&self.name, value),
        }
    }

    fn close(&mut self) {
        let (name, value) = match self.open.pop() {
            Some(Open::List(name, values)) => (name, Value::List(values)),
            Some(Open::Structure(name, fields)) => (name, Value::Structure(fields)),
            None => return,
        };
        self.name = name;
        self.put(value);
    }
}

impl Visitor for Collector {
    fn field(&mut self, name: &str) {
        name.clone_into(&mut self.name);
    }

    fn integer(&mut self, integer: &IntegerNode, value: u64) {
        let in_list = matches!(self.open.last(), Some(Open::List(..)));
        if integer.is_hidden() && !in_list {
            return;
        }
        self.put(Value::Integer(match integer.is_signed {
            true => value.cast_signed().into(),
            false => value.into(),
        }));
    }

    fn counted_text(&mut self, _: &[u8], whole: &[u8], encoding: Encoding) {
        self.text(whole, encoding);
    }

    fn text(&mut self, bytes: &[u8], _: Encoding) {
        self.put(Value::Text(bytes.to_vec()));
    }

    fn blob(&mut self, bytes: &[u8], _: Option<&str>) {
        self.put(Value::Text(bytes.to_vec()));
    }

    fn begin_structure(&mut self) {
        self.open
            .push(Open::Structure(std::mem::take(&mut self.name), Fields::default()));
    }

    fn end_structure(&mut self) {
        self.close();
    }

    fn begin_array(&mut self, _: u64, _: bool) {
        self.open.push(Open::List(std::mem::take(&mut self.name), Vec::new()));
    }

    fn end_array(&mut self) {
        self.close();
    }
}
