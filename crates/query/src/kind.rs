// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which type a column has: from the types of a trace's fields, and for fields of one name in several classes of events, what holds all.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields};
use piste_ctf::read::plan::{IntegerNode, Node, Structure};
use piste_ctf::read::schema::{Meaning, Width};

/// Type of a column, or of a part of its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Boolean,
    /// Whole numbers but for unsigned ones of 64 bits.
    Integer,
    /// Unsigned, 64 bits.
    Unsigned,
    /// Both of them.
    Decimal,
    Float,
    Text,
    Bytes,
    Structure(Vec<(String, Kind)>),
    List(Box<Kind>),
}

/// Digits of the largest unsigned number.
pub(crate) const DIGITS: u8 = 20;

/// What the names of an enumeration's column ends with, which is beside that of its numbers.
const LABEL: &str = "_label";
/// The same of the names of what lies at addresses.
const SYMBOL: &str = "_symbol";

impl Kind {
    /// Of a field; `None` for one that never has a value. With symbols, addresses in structures have a second column too.
    pub(crate) fn of(node: &Node, with_symbols: bool) -> Option<Kind> {
        match node {
            Node::Integer(integer) => Some(Kind::of_integer(integer)),
            Node::Float { .. } => Some(Kind::Float),
            Node::Text { .. } => Some(Kind::Text),
            Node::Blob { .. } => Some(Kind::Bytes),
            Node::Structure(structure) => Kind::structure(fields(structure), with_symbols),
            Node::Array { element, .. } => Some(Kind::List(Box::new(Kind::of(element, with_symbols)?))),
            Node::Optional { content, .. } => Kind::of(content, with_symbols),
            Node::Variant { options, .. } => {
                let named = options.iter().map(|option| (option.name.as_ref(), &option.node));
                Kind::structure(columns(named), with_symbols)
            }
        }
    }

    fn of_integer(integer: &IntegerNode) -> Kind {
        let is_wide = !matches!(integer.width, Width::Bits(..64));
        match integer.meaning {
            Meaning::Boolean => Kind::Boolean,
            _ if is_wide && !integer.is_signed => Kind::Unsigned,
            _ => Kind::Integer,
        }
    }

    fn structure(columns: Vec<FieldColumns<'_>>, with_symbols: bool) -> Option<Kind> {
        let mut parts = Vec::new();
        for column in columns {
            if let Some(kind) = Kind::of(column.node, with_symbols) {
                parts.push((column.name, kind));
                parts.extend(column.label.map(|label| (label, Kind::Text)));
                let symbol = column.symbol.filter(|_| with_symbols);
                parts.extend(symbol.zip(Kind::of_symbols(column.node)));
            }
        }
        (!parts.is_empty()).then_some(Kind::Structure(parts))
    }

    /// Of the names of what lies at the address or addresses that a field has.
    pub(crate) fn of_symbols(node: &Node) -> Option<Kind> {
        match node {
            Node::Integer(integer) => integer.is_address().then_some(Kind::Text),
            Node::Array { element, .. } => match &**element {
                Node::Integer(integer) => integer.is_address().then(|| Kind::List(Box::new(Kind::Text))),
                _ => None,
            },
            Node::Optional { content, .. } => Kind::of_symbols(content),
            _ => None,
        }
    }

    /// What holds the values of both.
    pub(crate) fn merge(self, other: Kind) -> Kind {
        use Kind::{Boolean, Decimal, Float, Integer, List, Structure, Text, Unsigned};
        match (self, other) {
            (one, other) if one == other => one,
            (Boolean, number @ (Integer | Unsigned | Decimal | Float))
            | (number @ (Integer | Unsigned | Decimal | Float), Boolean) => number,
            (Integer | Unsigned | Decimal, Integer | Unsigned | Decimal) => Decimal,
            (Integer | Unsigned | Decimal | Float, Integer | Unsigned | Decimal | Float) => Float,
            (Structure(mut parts), Structure(others)) => {
                for (name, kind) in others {
                    merge_into(&mut parts, name, kind);
                }
                Structure(parts)
            }
            (List(item), List(other)) => List(Box::new(item.merge(*other))),
            _ => Text,
        }
    }

    /// Arrow's name for it.
    pub(crate) fn data_type(&self) -> DataType {
        match self {
            Kind::Boolean => DataType::Boolean,
            Kind::Integer => DataType::Int64,
            Kind::Unsigned => DataType::UInt64,
            Kind::Decimal => DataType::Decimal128(DIGITS, 0),
            Kind::Float => DataType::Float64,
            Kind::Text => DataType::Utf8View,
            Kind::Bytes => DataType::Binary,
            Kind::Structure(parts) => DataType::Struct(arrow_fields(parts)),
            Kind::List(item) => DataType::List(item_field(item)),
        }
    }
}

/// Adds a part, which may be known by its name.
pub(crate) fn merge_into(parts: &mut Vec<(String, Kind)>, name: String, kind: Kind) {
    match parts.iter_mut().find(|(known, _)| *known == name) {
        Some((_, known)) => {
            let one = std::mem::replace(known, Kind::Text);
            *known = one.merge(kind);
        }
        None => parts.push((name, kind)),
    }
}

/// Arrow's description of a structure's parts.
pub(crate) fn arrow_fields(parts: &[(String, Kind)]) -> Fields {
    let fields = parts
        .iter()
        .map(|(name, kind)| Field::new(name, kind.data_type(), true));
    fields.collect()
}

/// Arrow's description of a list's elements.
pub(crate) fn item_field(item: &Kind) -> Arc<Field> {
    Arc::new(Field::new("item", item.data_type(), true))
}

/// The columns of a field.
pub(crate) struct FieldColumns<'n> {
    pub(crate) node: &'n Node,
    pub(crate) name: String,
    /// For the names of its values.
    pub(crate) label: Option<String>,
    /// For the names of what lies at the addresses that it has, if those are wanted.
    pub(crate) symbol: Option<String>,
}

/// The columns of a structure's fields, in their order. Names that there are twice get a number.
pub(crate) fn fields(structure: &Structure) -> Vec<FieldColumns<'_>> {
    columns(structure.fields().iter().map(|(name, node)| (name.as_ref(), node)))
}

/// The same for the options of a variant.
pub(crate) fn columns<'n>(named: impl Iterator<Item = (&'n str, &'n Node)>) -> Vec<FieldColumns<'n>> {
    let mut taken = HashSet::new();
    let mut columns: Vec<FieldColumns<'n>> = Vec::new();
    for (wanted, node) in named {
        let mut name = wanted.to_owned();
        let mut number = 1;
        while !taken.insert(name.clone()) {
            number += 1;
            name = format!("{wanted}_{number}");
        }
        columns.push(FieldColumns {
            node,
            name,
            label: None,
            symbol: None,
        });
    }
    for column in &mut columns {
        let label = format!("{}{LABEL}", column.name);
        if has_labels(column.node) && taken.insert(label.clone()) {
            column.label = Some(label);
        }
        let symbol = format!("{}{SYMBOL}", column.name);
        if Kind::of_symbols(column.node).is_some() && taken.insert(symbol.clone()) {
            column.symbol = Some(symbol);
        }
    }
    columns
}

/// Its values have names.
fn has_labels(node: &Node) -> bool {
    match node {
        Node::Integer(integer) => !integer.labels.is_empty(),
        Node::Optional { content, .. } => has_labels(content),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::Kind::{Boolean, Decimal, Float, Integer, List, Structure, Text, Unsigned};

    #[test]
    fn a_column_holds_what_all_classes_have() {
        let parts = |names: &[&str]| Structure(names.iter().map(|name| ((*name).to_owned(), Integer)).collect());
        let list = |item| List(Box::new(item));
        for (one, other, both) in [
            (Integer, Integer, Integer),
            (Integer, Unsigned, Decimal),
            (Boolean, Unsigned, Unsigned),
            (Decimal, Float, Float),
            (Integer, Text, Text),
            (Text, list(Integer), Text),
            (list(Integer), list(Float), list(Float)),
            (parts(&["a", "b"]), parts(&["b", "c"]), parts(&["a", "b", "c"])),
            (parts(&["a"]), Integer, Text),
        ] {
            assert_eq!(one.clone().merge(other.clone()), both, "{one:?} and {other:?}");
            if !matches!(both, Structure(_)) {
                assert_eq!(other.merge(one), both);
            }
        }
    }
}
