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
    /// Value, names of the value, the name of what lies there, and a second column with the value.
    Value {
        column: Option<ColumnId>,
        label: Option<ColumnId>,
        symbol: Option<ColumnId>,
        also: Option<ColumnId>,
    },
    /// One for each field.
    Structure { column: ColumnId, fields: Vec<Sink> },
    /// One for all elements, for those who want them or the names of what lies there.
    List {
        column: Option<ColumnId>,
        symbols: Option<ColumnId>,
        item: Box<Sink>,
    },
    /// One for each option, by name.
    Variant {
        column: ColumnId,
        options: Vec<(String, Sink)>,
    },
    /// A column of text, as other classes have other types there.
    Json(ColumnId),
}

/// The columns that a field has.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Own {
    pub(crate) column: Option<ColumnId>,
    pub(crate) label: Option<ColumnId>,
    pub(crate) symbol: Option<ColumnId>,
}

impl Own {
    fn of(column: ColumnId) -> Own {
        Own {
            column: Some(column),
            ..Own::default()
        }
    }

    fn is_none(&self) -> bool {
        self.column.is_none() && self.label.is_none() && self.symbol.is_none()
    }
}

impl Sink {
    /// Of a field with these columns.
    pub(crate) fn new(node: &Node, own: Own, columns: &Columns) -> Sink {
        let kind = own.column.map(|column| (column, columns.kind(column)));
        match (node, kind) {
            (Node::Optional { content, .. }, _) => Sink::new(content, own, columns),
            (Node::Structure(structure), Some((column, Kind::Structure(kinds)))) => Sink::Structure {
                column,
                fields: parts(kind::fields(structure), kinds, columns.parts(column), columns),
            },
            (Node::Variant { options, .. }, Some((column, Kind::Structure(kinds)))) => {
                let named = options.iter().map(|option| (option.name.as_ref(), &option.node));
                let sinks = parts(kind::columns(named), kinds, columns.parts(column), columns);
                let names = options.iter().map(|option| option.name.to_string());
                Sink::Variant {
                    column,
                    options: names.zip(sinks).collect(),
                }
            }
            (Node::Structure(_) | Node::Variant { .. } | Node::Array { .. }, Some((column, Kind::Text))) => {
                Sink::Json(column)
            }
            (Node::Array { element, .. }, _) => {
                let item = |list: Option<ColumnId>| list.and_then(|list| columns.item(list));
                let of_item = Own {
                    column: item(own.column),
                    label: None,
                    symbol: item(own.symbol),
                };
                match of_item.is_none() {
                    true => Sink::Nowhere,
                    false => Sink::List {
                        column: own.column.filter(|_| of_item.column.is_some()),
                        symbols: own.symbol.filter(|_| of_item.symbol.is_some()),
                        item: Box::new(Sink::new(element, of_item, columns)),
                    },
                }
            }
            (Node::Structure(_) | Node::Variant { .. }, _) => Sink::Nowhere,
            _ => Sink::Value {
                column: own.column,
                label: own.label,
                symbol: own.symbol,
                also: None,
            },
        }
    }
}

fn parts(fields: Vec<FieldColumns<'_>>, kinds: &[(String, Kind)], ids: &[ColumnId], columns: &Columns) -> Vec<Sink> {
    let id_of = |name: &str| kinds.iter().position(|(known, _)| known == name).map(|part| ids[part]);
    let sink = |field: FieldColumns<'_>| match id_of(&field.name) {
        Some(id) => {
            let own = Own {
                label: field.label.as_deref().and_then(id_of),
                symbol: field.symbol.as_deref().and_then(id_of),
                ..Own::of(id)
            };
            Sink::new(field.node, own, columns)
        }
        None => Sink::Nowhere,
    };
    fields.into_iter().map(sink).collect()
}

/// Visits a part of an event.
pub(crate) struct Filler<'f> {
    columns: &'f mut Columns,
    row: usize,
    /// The row of the name of what lies there: another one in lists, as other classes may have such lists without names.
    symbol_row: usize,
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
        column: Option<ColumnId>,
        symbols: Option<ColumnId>,
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
            symbol_row: row,
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
        (self.row, self.symbol_row) = (row, row);
        *next += 1;
    }

    fn element(&mut self, _index: u64) {
        if let Some((_, _, json)) = &mut self.json {
            json.element();
            return;
        }
        match self.frames.last() {
            Some(Frame::List { column, symbols, item }) => {
                self.sink = item;
                let next = |list: &Option<ColumnId>| list.and_then(|list| self.columns.item(list));
                let rows = [column, symbols].map(|list| next(list).map_or(0, |items| self.columns.len(items)));
                [self.row, self.symbol_row] = rows;
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
        if let Sink::Value {
            symbol: Some(symbol), ..
        } = self.sink
        {
            self.columns.pad(*symbol, self.symbol_row + 1);
        }
        self.value(Value::of(integer, value));
    }

    fn symbol(&mut self, integer: &IntegerNode, value: u64, symbol: &str) {
        if let (
            Sink::Value {
                symbol: Some(column), ..
            },
            None,
        ) = (self.sink, &self.json)
        {
            self.columns.push(*column, self.symbol_row, Value::Text(symbol));
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
            Sink::List { column, symbols, item } => {
                let [column, symbols] = [column, symbols].map(|list| list.filter(|list| self.begin(*list).is_some()));
                let is_wanted = column.is_some() || symbols.is_some();
                is_wanted.then_some(Frame::List { column, symbols, item })
            }
            _ => None,
        };
        self.frames.push(frame.unwrap_or(Frame::Closed));
    }

    fn end_array(&mut self) {
        if !self.end_json(']')
            && let Some(Frame::List { column, symbols, .. }) = self.frames.pop()
        {
            for list in [column, symbols].into_iter().flatten() {
                self.columns.end_list(list);
            }
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
        if let (Some(Frame::List { column, symbols, .. }), false) =
            (self.frames.last(), matches!(self.sink, Sink::Nowhere))
        {
            for (list, row) in [(column, self.row), (symbols, self.symbol_row)] {
                if let Some(item) = list.and_then(|list| self.columns.item(list)) {
                    self.columns.pad(item, row + 1);
                }
            }
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

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, AsArray};
    use piste_ctf::read::metadata;
    use piste_ctf::read::plan::Plan;
    use piste_ctf::read::schema::Scope;

    use super::*;

    /// One list may be of addresses, the other one not.
    const METADATA: &str = "/* CTF 1.8 */ trace { major = 1; minor = 8; byte_order = le; };
        event { id = 0; name = a; fields := struct { integer { size = 64; base = 16; } list[2]; }; };
        event { id = 1; name = b; fields := struct { integer { size = 64; } list[1]; }; };";

    fn list(array: &ArrayRef, row: usize) -> Vec<Option<String>> {
        let list = array.as_list::<i32>().value(row);
        list.as_string_view()
            .iter()
            .map(|text| text.map(str::to_owned))
            .collect()
    }

    #[test]
    fn lists_of_names_have_an_element_for_each_address() {
        let plan = Plan::new(metadata::parse(METADATA.as_bytes()).expect("TSDL")).expect("a plan");
        let events = plan.events(0);
        let node = |event: usize| {
            &plan
                .structure(0, events[event], Scope::Payload)
                .expect("fields")
                .fields()[0]
                .1
        };
        for wants_addresses in [true, false] {
            let mut columns = Columns::default();
            let addresses = columns.add(&Kind::List(Box::new(Kind::Unsigned)));
            let names = columns.add(&Kind::of_symbols(node(0)).expect("it has addresses"));
            assert_eq!(Kind::of_symbols(node(1)), None);
            let own = |symbol| Own {
                column: wants_addresses.then_some(addresses),
                label: None,
                symbol,
            };
            let sinks = [
                vec![Sink::new(node(0), own(Some(names)), &columns)],
                vec![Sink::new(node(1), own(None), &columns)],
            ];
            for (row, (event, symbols)) in [
                (0, &[Some("one"), None][..]),
                (1, &[None]),
                (0, &[None, Some("two+0x4")]),
                (0, &[]),
                (0, &[None]),
            ]
            .into_iter()
            .enumerate()
            {
                let Node::Array { element, .. } = node(event) else {
                    unreachable!("it is a list")
                };
                let Node::Integer(integer) = &**element else {
                    unreachable!("of numbers")
                };
                let mut filler = Filler::new(&mut columns, row, &sinks[event]);
                filler.field("list");
                filler.begin_array(symbols.len() as u64, false);
                for (index, symbol) in symbols.iter().enumerate() {
                    filler.element(index as u64);
                    match symbol {
                        Some(symbol) => filler.symbol(integer, 7, symbol),
                        None => filler.integer(integer, 7),
                    }
                }
                filler.end_array();
            }
            let all = columns.finish(names, 5).expect("a column");
            assert_eq!(list(&all, 0), [Some("one".to_owned()), None]);
            assert!(all.is_null(1));
            assert_eq!(list(&all, 2), [None, Some("two+0x4".to_owned())]);
            assert_eq!(list(&all, 3), []);
            assert_eq!(list(&all, 4), [None]);
            let all = columns.finish(addresses, 5).expect("a column");
            let counts: Vec<usize> = (0..5).map(|row| all.as_list::<i32>().value(row).len()).collect();
            assert_eq!(counts, if wants_addresses { [2, 1, 2, 0, 1] } else { [0; 5] });
        }
    }
}
