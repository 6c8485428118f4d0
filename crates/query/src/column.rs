// SPDX-License-Identifier: MIT OR Apache-2.0
//! Columns while they are filled, row by row. A column is told only of rows where it has a value: what is missing becomes NULL when the
//! next value comes, or at the end of the batch, so that the many columns that an event does not have cost it nothing.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Decimal128Array, Float64Array, Int64Array, ListArray, NullBufferBuilder,
    StringViewBuilder, StructArray, UInt64Array,
};
use arrow::buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow::error::ArrowError;
use piste_ctf::read::plan::IntegerNode;

use crate::kind::{DIGITS, Kind, arrow_fields, item_field};

/// Bytes of texts and elements of lists in a batch, about.
const WEIGHT_MAX: usize = 4 << 20;

/// Index of a column.
pub(crate) type ColumnId = usize;

/// Columns, and those inside them.
#[derive(Default)]
pub(crate) struct Columns {
    columns: Vec<Column>,
    /// Bytes of texts, and elements of lists, since the batch began: what makes a batch large.
    pub(crate) weight: usize,
}

struct Column {
    kind: Kind,
    values: Values,
    nulls: NullBufferBuilder,
}

enum Values {
    Boolean(Vec<bool>),
    Integer(Vec<i64>),
    Unsigned(Vec<u64>),
    Decimal(Vec<i128>),
    Float(Vec<f64>),
    Text(StringViewBuilder),
    Bytes { bytes: Vec<u8>, ends: Vec<i32> },
    Structure(Vec<ColumnId>),
    List { item: ColumnId, ends: Vec<i32> },
}

/// A value that is no structure and no list.
#[derive(Clone, Copy)]
pub(crate) enum Value<'v> {
    /// Extended by its sign.
    Number(u64, bool),
    Float(f64),
    Text(&'v str),
    Bytes(&'v [u8]),
}

impl<'v> Value<'v> {
    /// Of a field that is a whole number.
    pub(crate) fn of(integer: &IntegerNode, value: u64) -> Value<'v> {
        Value::Number(value, integer.is_signed)
    }
}

impl Columns {
    /// A new column, with those inside it.
    pub(crate) fn add(&mut self, kind: &Kind) -> ColumnId {
        let values = match kind {
            Kind::Structure(parts) => Values::Structure(parts.iter().map(|(_, part)| self.add(part)).collect()),
            Kind::List(item) => Values::List {
                item: self.add(item),
                ends: vec![0],
            },
            Kind::Boolean => Values::Boolean(Vec::new()),
            Kind::Integer => Values::Integer(Vec::new()),
            Kind::Unsigned => Values::Unsigned(Vec::new()),
            Kind::Decimal => Values::Decimal(Vec::new()),
            Kind::Float => Values::Float(Vec::new()),
            Kind::Text => Values::Text(StringViewBuilder::new()),
            Kind::Bytes => Values::Bytes {
                bytes: Vec::new(),
                ends: vec![0],
            },
        };
        self.columns.push(Column {
            kind: kind.clone(),
            values,
            nulls: NullBufferBuilder::new(0),
        });
        self.columns.len() - 1
    }

    /// What the rows hold is enough for a batch, however few they are.
    pub(crate) fn is_heavy(&self) -> bool {
        self.weight >= WEIGHT_MAX
    }

    /// Its type.
    pub(crate) fn kind(&self, id: ColumnId) -> &Kind {
        &self.columns[id].kind
    }

    /// The parts of a structure, in their order.
    pub(crate) fn parts(&self, id: ColumnId) -> &[ColumnId] {
        match &self.columns[id].values {
            Values::Structure(parts) => parts,
            _ => &[],
        }
    }

    /// What a list is of.
    pub(crate) fn item(&self, id: ColumnId) -> Option<ColumnId> {
        match self.columns[id].values {
            Values::List { item, .. } => Some(item),
            _ => None,
        }
    }

    /// How many rows it has.
    #[inline]
    pub(crate) fn len(&self, id: ColumnId) -> usize {
        self.columns[id].nulls.len()
    }

    /// NULL in all rows before `row` that it does not have.
    #[inline]
    pub(crate) fn pad(&mut self, id: ColumnId, row: usize) {
        let column = &mut self.columns[id];
        let missing = row.saturating_sub(column.nulls.len());
        if missing > 0 {
            column.pad(missing);
        }
    }

    /// The row's value; a second one for the same row is dropped.
    #[inline]
    pub(crate) fn push(&mut self, id: ColumnId, row: usize, value: Value<'_>) {
        self.pad(id, row);
        let column = &mut self.columns[id];
        if column.nulls.len() > row {
            return;
        }
        match (&mut column.values, value) {
            (Values::Integer(values), Value::Number(number, _)) => values.push(number.cast_signed()),
            (Values::Unsigned(values), Value::Number(number, _)) => values.push(number),
            (Values::Decimal(values), Value::Number(number, is_signed)) => values.push(exact(number, is_signed)),
            (Values::Boolean(values), Value::Number(number, _)) => values.push(number != 0),
            (Values::Float(values), Value::Number(number, is_signed)) => values.push(exact(number, is_signed) as f64),
            (Values::Float(values), Value::Float(number)) => values.push(number),
            (Values::Text(values), Value::Text(text)) => {
                self.weight += text.len();
                values.append_value(text);
            }
            (Values::Text(values), Value::Number(number, is_signed)) => {
                values.append_value(exact(number, is_signed).to_string());
            }
            (Values::Text(values), Value::Float(number)) => values.append_value(number.to_string()),
            (Values::Text(values), Value::Bytes(bytes)) => values.append_value(String::from_utf8_lossy(bytes)),
            (Values::Bytes { bytes, ends }, Value::Bytes(more)) => {
                self.weight += more.len();
                bytes.extend_from_slice(more);
                ends.push(bytes.len() as i32);
            }
            // Its kind was made of this field's.
            _ => return column.pad(1),
        }
        column.nulls.append_non_null();
    }

    /// A structure or list that is there: its parts or elements come. False when the row has one already.
    pub(crate) fn begin(&mut self, id: ColumnId, row: usize) -> bool {
        self.pad(id, row);
        let column = &mut self.columns[id];
        let is_first = column.nulls.len() == row;
        if is_first {
            column.nulls.append_non_null();
        }
        is_first
    }

    /// A list has all its elements.
    pub(crate) fn end_list(&mut self, id: ColumnId) {
        let Values::List { item, .. } = self.columns[id].values else {
            return;
        };
        let end = self.len(item);
        if let Values::List { ends, .. } = &mut self.columns[id].values {
            self.weight += end - ends.last().map_or(0, |end| *end as usize);
            ends.push(end as i32);
        }
    }

    /// Takes the rows out of a column.
    pub(crate) fn finish(&mut self, id: ColumnId, rows: usize) -> Result<ArrayRef, ArrowError> {
        self.pad(id, rows);
        let parts = self.parts(id).to_vec();
        let parts: Vec<ArrayRef> = parts
            .into_iter()
            .map(|part| self.finish(part, rows))
            .collect::<Result<_, _>>()?;
        let item = match self.item(id) {
            Some(item) => Some(self.finish(item, self.len(item))?),
            None => None,
        };
        let column = &mut self.columns[id];
        let nulls = column.nulls.finish();
        Ok(match (&mut column.values, &column.kind) {
            (Values::Boolean(values), _) => Arc::new(BooleanArray::new(std::mem::take(values).into(), nulls)),
            (Values::Integer(values), _) => Arc::new(Int64Array::new(std::mem::take(values).into(), nulls)),
            (Values::Unsigned(values), _) => Arc::new(UInt64Array::new(std::mem::take(values).into(), nulls)),
            (Values::Decimal(values), _) => Arc::new(
                Decimal128Array::new(std::mem::take(values).into(), nulls).with_precision_and_scale(DIGITS, 0)?,
            ),
            (Values::Float(values), _) => Arc::new(Float64Array::new(std::mem::take(values).into(), nulls)),
            (Values::Text(values), _) => Arc::new(values.finish()),
            (Values::Bytes { bytes, ends }, _) => {
                let bytes = Buffer::from_vec(std::mem::take(bytes));
                Arc::new(BinaryArray::try_new(offsets(ends), bytes, nulls)?)
            }
            (Values::Structure(_), Kind::Structure(kinds)) => {
                Arc::new(StructArray::try_new(arrow_fields(kinds), parts, nulls)?)
            }
            (Values::List { ends, .. }, Kind::List(kind)) => {
                let item = item.expect("a list has elements");
                Arc::new(ListArray::try_new(item_field(kind), offsets(ends), item, nulls)?)
            }
            _ => unreachable!("values are made for their kind"),
        })
    }
}

/// What the ends say, which begin anew.
fn offsets(ends: &mut Vec<i32>) -> OffsetBuffer<i32> {
    OffsetBuffer::new(ScalarBuffer::from(std::mem::replace(ends, vec![0])))
}

/// The number that is meant.
fn exact(number: u64, is_signed: bool) -> i128 {
    match is_signed {
        true => number.cast_signed().into(),
        false => number.into(),
    }
}

impl Column {
    fn pad(&mut self, missing: usize) {
        self.nulls.append_n_nulls(missing);
        let rows = self.nulls.len();
        match &mut self.values {
            Values::Boolean(values) => values.resize(rows, false),
            Values::Integer(values) => values.resize(rows, 0),
            Values::Unsigned(values) => values.resize(rows, 0),
            Values::Decimal(values) => values.resize(rows, 0),
            Values::Float(values) => values.resize(rows, 0.0),
            Values::Text(values) => (0..missing).for_each(|_| values.append_null()),
            Values::Bytes { ends, .. } | Values::List { ends, .. } => {
                ends.resize(rows + 1, ends.last().copied().unwrap_or(0));
            }
            Values::Structure(_) => {}
        }
    }
}
