// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values of an event into columns. What is known of a class of events beforehand is a tree of [`Sink`]s, in the order of its fields: no
//! name is looked up while events are read.

use piste_ctf::read::plan::{IntegerNode, Node};
use piste_ctf::read::schema::{Encoding, Label, Meaning};
use piste_ctf::read::text::decoded;
use piste_ctf::read::walk::Visitor;

use crate::column::{ColumnId, Columns, Value};
use crate::json_text::JsonText;
use crate::kind::{self, FieldColumns, Kind};

/// Where the values of a field go.
#[derive(Debug)]
pub(crate) enum Sink {
    /// Nobody asked.
    Nowhere,
    /// Value, names of the value, and a second column with the value.
    Value {
        column: Option<ColumnId>,
        label: Option<ColumnId>,
        also: Option<ColumnId>,
    },
    /// One for each field.
    Structure { column: ColumnId, fields: Vec<Sink> },
    /// One for all elements.
    List { column: ColumnId, item: Box<Sink> },
    /// One for each option, by name.
    Variant {
        column: ColumnId,
        options: Vec<(String, Sink)>,
    },
    /// A column of text, as other classes have other types there.
    Json(ColumnId),
}

impl Sink {
    /// Of a field whose column is there.
    pub(crate) fn new(node: &Node, column: ColumnId, label: Option<ColumnId>, columns: &Columns) -> Sink {
        match (node, columns.kind(column)) {
            (Node::Optional { content, .. }, _) => Sink::new(content, column, label, columns),
            (Node::Structure(structure), Kind::Structure(kinds)) => Sink::Structure {
                column,
                fields: parts(kind::fields(structure), kinds, columns.parts(column), columns),
            },
            (Node::Variant { options, .. }, Kind::Structure(kinds)) => {
                let named = options.iter().map(|option| (option.name.as_ref(), &option.node));
                let sinks = parts(kind::columns(named), kinds, columns.parts(column), columns);
                let names = options.iter().map(|option| option.name.to_string());
                Sink::Variant {
                    column,
                    options: names.zip(sinks).collect(),
                }
            }
            (Node::Array { element, .. }, Kind::List(_)) => match columns.item(column) {
                Some(item) => Sink::List {
                    column,
                    item: Box::new(Sink::new(element, item, None, columns)),
                },
                None => Sink::Nowhere,
            },
            (Node::Structure(_) | Node::Variant { .. } | Node::Array { .. }, Kind::Text) => Sink::Json(column),
            (Node::Structure(_) | Node::Variant { .. } | Node::Array { .. }, _) => Sink::Nowhere,
            _ => Sink::Value {
                column: Some(column),
                label,
                also: None,
            },
        }
    }
}

fn parts(fields: Vec<FieldColumns<'_>>, kinds: &[(String, Kind)], ids: &[ColumnId], columns: &Columns) -> Vec<Sink> {
    let id_of = |name: &str| kinds.iter().position(|(known, _)| known == name).map(|part| ids[part]);
    let sink = |field: FieldColumns<'_>| match id_of(&field.name) {
        Some(id) => Sink::new(field.node, id, field.label.as_deref().and_then(id_of), columns),
        None => Sink::Nowhere,
    };
    fields.into_iter().map(sink).collect()
}

/// Visits a part of an event.
pub(crate) struct Filler<'f> {
    columns: &'f mut Columns,
    row: usize,
    /// Where the next value goes.
    sink: &'f Sink,
    /// The structure that is visited, and which of its fields is next.
    fields: &'f [Sink],
    next: usize,
    top_row: usize,
    /// What the next value is inside of besides: nothing, for most events.
    frames: Vec<Frame<'f>>,
    json: Option<(ColumnId, usize, JsonText)>,
}

/// Something that has values inside.
enum Frame<'f> {
    Structure {
        fields: &'f [Sink],
        next: usize,
        row: usize,
    },
    List {
        column: ColumnId,
        item: &'f Sink,
    },
    /// Nobody asked for what is in it.
    Closed,
}

impl<'f> Filler<'f> {
    /// For a structure with these fields.
    pub(crate) fn new(columns: &'f mut Columns, row: usize, fields: &'f [Sink]) -> Self {
        Filler {
            columns,
            row,
            sink: &Sink::Nowhere,
            fields,
            next: 0,
            top_row: row,
            frames: Vec::new(),
            json: None,
        }
    }

    fn value(&mut self, value: Value<'_>) {
        if let Some((_, _, json)) = &mut self.json {
            json.value(value);
            return;
        }
        if let Sink::Value { column, also, .. } = self.sink {
            for column in [column, also].into_iter().flatten() {
                self.columns.push(*column, self.row, value);
            }
        }
    }

    /// Something with values inside begins, for which there is `column`. False when they go nowhere.
    fn begin(&mut self, column: ColumnId) -> Option<usize> {
        let is_first = self.columns.begin(column, self.row);
        is_first.then_some(self.row)
    }

    /// Something begins that a column of text has as JSON.
    fn begin_json(&mut self) -> Option<&mut JsonText> {
        if let (None, Sink::Json(column)) = (&self.json, self.sink) {
            self.json = Some((*column, self.row, JsonText::default()));
        }
        self.json.as_mut().map(|(_, _, json)| json)
    }

    /// True when what ended belongs to JSON.
    fn end_json(&mut self, end: char) -> bool {
        let Some((column, row, json)) = &mut self.json else {
            return false;
        };
        if json.end(end) {
            self.columns.push(*column, *row, Value::Text(json.text()));
            self.json = None;
        }
        true
    }
}

impl Visitor for Filler<'_> {
    #[inline]
    fn field(&mut self, name: &str) {
        if let Some((_, _, json)) = &mut self.json {
            json.field(name);
            return;
        }
        let (fields, next, row) = match self.frames.last_mut() {
            None => (self.fields, &mut self.next, self.top_row),
            Some(Frame::Structure { fields, next, row }) => (*fields, next, *row),
            Some(_) => {
                self.sink = &Sink::Nowhere;
                return;
            }
        };
        self.sink = fields.get(*next).unwrap_or(&Sink::Nowhere);
        self.row = row;
        *next += 1;
    }

    fn element(&mut self, _index: u64) {
        if let Some((_, _, json)) = &mut self.json {
            json.element();
            return;
        }
        match self.frames.last() {
            Some(Frame::List { column, item }) => {
                self.sink = item;
                self.row = self.columns.item(*column).map_or(0, |item| self.columns.len(item));
            }
            _ => self.sink = &Sink::Nowhere,
        }
    }

    #[inline]
    fn integer(&mut self, integer: &IntegerNode, value: u64) {
        if let Sink::Value { label: Some(label), .. } = self.sink
            && self.json.is_none()
            && let Some(text) = names(integer, value)
        {
            self.columns.push(*label, self.row, Value::Text(&text));
        }
        self.value(Value::of(integer, value));
    }

    fn float(&mut self, value: f64, _bits: u32) {
        self.value(Value::Float(value));
    }

    fn counted_text(&mut self, _: &[u8], whole: &[u8], encoding: Encoding) {
        self.text(whole, encoding);
    }

    fn text(&mut self, bytes: &[u8], encoding: Encoding) {
        if self.json.is_none() && matches!(self.sink, Sink::Nowhere) {
            return;
        }
        match (encoding, std::str::from_utf8(bytes)) {
            (Encoding::Utf8, Ok(text)) => self.value(Value::Text(text)),
            _ => self.value(Value::Text(&decoded(bytes, encoding))),
        }
    }

    fn blob(&mut self, bytes: &[u8], _media_type: Option<&str>) {
        self.value(Value::Bytes(bytes));
    }

    fn begin_structure(&mut self) {
        if let Some(json) = self.begin_json() {
            return json.begin('{');
        }
        let frame = match self.sink {
            Sink::Structure { column, fields } => {
                self.begin(*column).map(|row| Frame::Structure { fields, next: 0, row })
            }
            _ => None,
        };
        self.frames.push(frame.unwrap_or(Frame::Closed));
    }

    fn end_structure(&mut self) {
        if !self.end_json('}') {
            self.frames.pop();
        }
    }

    fn begin_array(&mut self, _count: u64, _is_sequence: bool) {
        if let Some(json) = self.begin_json() {
            return json.begin('[');
        }
        let frame = match self.sink {
            Sink::List { column, item } => self.begin(*column).map(|_| Frame::List { column: *column, item }),
            _ => None,
        };
        self.frames.push(frame.unwrap_or(Frame::Closed));
    }

    fn end_array(&mut self) {
        if !self.end_json(']')
            && let Some(Frame::List { column, .. }) = self.frames.pop()
        {
            self.columns.end_list(column);
        }
    }

    fn begin_variant(&mut self, option: &str) {
        if let Some(json) = self.begin_json() {
            json.begin('{');
            return json.field(option);
        }
        let mut inner = &Sink::Nowhere;
        if let Sink::Variant { column, options } = self.sink
            && self.begin(*column).is_some()
        {
            let found = options.iter().find(|(name, _)| name == option);
            inner = found.map_or(inner, |(_, sink)| sink);
        }
        self.sink = inner;
        self.frames.push(Frame::Closed);
    }

    fn end_variant(&mut self) {
        if !self.end_json('}') {
            self.frames.pop();
        }
    }

    fn nothing(&mut self) {
        if let Some((_, _, json)) = &mut self.json {
            return json.nothing();
        }
        // An element of a list is counted also when it is nothing.
        if let (Some(Frame::List { column, .. }), false) = (self.frames.last(), matches!(self.sink, Sink::Nowhere))
            && let Some(item) = self.columns.item(*column)
        {
            self.columns.pad(item, self.row + 1);
        }
    }
}

/// What a value is called; several names with ` | ` between.
fn names(integer: &IntegerNode, value: u64) -> Option<String> {
    let exact = match integer.is_signed {
        true => i128::from(value.cast_signed()),
        false => i128::from(value),
    };
    let is_set = |&(first, last): &(i128, i128)| match integer.meaning {
        Meaning::Bits => (first..=last).any(|bit| (0..64).contains(&bit) && value >> bit & 1 == 1),
        _ => (first..=last).contains(&exact),
    };
    let matching = |label: &&Label| label.ranges.iter().any(is_set);
    let names: Vec<&str> = integer
        .labels
        .iter()
        .filter(matching)
        .map(|label| label.name.as_str())
        .collect();
    (!names.is_empty()).then(|| names.join(" | "))
}
