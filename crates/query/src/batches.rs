// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows that come one by one, as batches through a channel that holds a few: who makes them waits for who takes them, and learns when nobody
//! does any more.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit, TimestampNanosecondType};
use arrow::error::ArrowError;
use datafusion::error::Result;
use piste_analysis::report::Unit;
use piste_analysis::tables::{Cell, Heading, Sink};
use tokio::sync::mpsc::Sender;

use crate::column::{ColumnId, Columns, Value};
use crate::kind::Kind;
use crate::rows::{ROWS_MAX, ZONE};

/// What the name of a time in nanoseconds ends with; without it, it is the same as a timestamp.
const NANOSECONDS: &str = "_ns";

/// A column of a table in SQL.
#[derive(Clone, Copy, Debug)]
struct Shown {
    /// Of the headings.
    heading: usize,
    is_timestamp: bool,
}

fn shown(headings: &[Heading]) -> Vec<Shown> {
    let of_heading = |(heading, of): (usize, &Heading)| {
        let timestamp = (of.unit == Unit::Moment).then_some(Shown {
            heading,
            is_timestamp: true,
        });
        let itself = Shown {
            heading,
            is_timestamp: false,
        };
        timestamp.into_iter().chain([itself])
    };
    headings.iter().enumerate().flat_map(of_heading).collect()
}

/// Arrow's description of a table with these headings. Times are there twice, as everywhere.
pub(crate) fn schema(headings: &[Heading]) -> SchemaRef {
    let field = |column: Shown| {
        let Heading { key, unit } = headings[column.heading];
        match (column.is_timestamp, unit) {
            (true, _) => Field::new(
                key.trim_end_matches(NANOSECONDS),
                DataType::Timestamp(TimeUnit::Nanosecond, Some(ZONE.into())),
                true,
            ),
            (false, unit) => Field::new(key, kind(unit).data_type(), true),
        }
    };
    let fields: Vec<Field> = shown(headings).into_iter().map(field).collect();
    Arc::new(Schema::new(fields))
}

fn kind(unit: Unit) -> Kind {
    match unit {
        Unit::Text | Unit::Durations => Kind::Text,
        Unit::Percent => Kind::Float,
        Unit::Id | Unit::Count | Unit::Bytes | Unit::Nanoseconds | Unit::Moment => Kind::Integer,
    }
}

/// Which columns of a table are asked for.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) schema: SchemaRef,
    /// The headings that are needed, each once.
    pub(crate) headings: Vec<usize>,
    /// For each column, the place of its heading among those.
    columns: Vec<Shown>,
    kinds: Vec<Kind>,
}

impl Asked {
    pub(crate) fn new(headings: &[Heading], projection: &[usize]) -> Result<Asked> {
        let all = shown(headings);
        let mut needed: Vec<usize> = Vec::new();
        let mut columns = Vec::new();
        for column in projection.iter().map(|place| all[*place]) {
            let known = needed.iter().position(|heading| *heading == column.heading);
            let heading = known.unwrap_or_else(|| {
                needed.push(column.heading);
                needed.len() - 1
            });
            columns.push(Shown { heading, ..column });
        }
        Ok(Asked {
            schema: Arc::new(schema(headings).project(projection)?),
            kinds: needed.iter().map(|heading| kind(headings[*heading].unit)).collect(),
            headings: needed,
            columns,
        })
    }
}

/// Rows on their way. Clones are the same.
#[derive(Clone)]
pub(crate) struct Batches(Rc<RefCell<Filling>>);

struct Filling {
    asked: Asked,
    columns: Columns,
    ids: Vec<ColumnId>,
    /// The column of the row's next value.
    next: usize,
    rows: usize,
    /// Rows that are still wanted.
    left: usize,
    to: Sender<Result<RecordBatch>>,
}

impl Batches {
    pub(crate) fn new(asked: Asked, limit: Option<usize>, to: Sender<Result<RecordBatch>>) -> Batches {
        let mut columns = Columns::default();
        let ids = asked.kinds.iter().map(|kind| columns.add(kind)).collect();
        Batches(Rc::new(RefCell::new(Filling {
            asked,
            columns,
            ids,
            next: 0,
            rows: 0,
            left: limit.unwrap_or(usize::MAX),
            to,
        })))
    }

    /// Somebody wants more.
    pub(crate) fn are_wanted(&self) -> bool {
        let filling = self.0.borrow();
        filling.left > 0 && !filling.to.is_closed()
    }

    /// There are no more rows.
    pub(crate) fn finish(&self) {
        self.0.borrow_mut().send();
    }
}

impl Sink for Batches {
    fn cell(&mut self, cell: Cell<'_>) {
        let filling = &mut *self.0.borrow_mut();
        let (id, row) = (filling.ids[filling.next], filling.rows);
        filling.next += 1;
        match cell {
            Cell::None => {}
            Cell::Number(number) => filling
                .columns
                .push(id, row, Value::Number(number.cast_unsigned(), true)),
            Cell::Text(text) => filling.columns.push(id, row, Value::Text(&text)),
        }
    }

    fn end_row(&mut self) {
        let mut filling = self.0.borrow_mut();
        filling.next = 0;
        filling.rows += 1;
        let is_last = filling.rows == filling.left;
        if is_last || filling.rows == ROWS_MAX || filling.columns.is_heavy() {
            filling.send();
        }
    }
}

impl Filling {
    /// Waits until there is room for the rows. Those that nobody wants any more are gone.
    fn send(&mut self) {
        let rows = std::mem::take(&mut self.rows);
        let batch = self.batch(rows);
        if rows == 0 || self.left == 0 {
            return;
        }
        self.left = match self.to.blocking_send(batch.map_err(Into::into)) {
            Ok(()) => self.left - rows,
            Err(_) => 0,
        };
    }

    fn batch(&mut self, rows: usize) -> Result<RecordBatch, ArrowError> {
        let ids = &self.ids;
        let arrays = ids.iter().map(|id| self.columns.finish(*id, rows));
        let arrays: Vec<ArrayRef> = arrays.collect::<Result<_, _>>()?;
        self.columns.weight = 0;
        let shown = self.asked.columns.iter().map(|column| {
            let array = &arrays[column.heading];
            let times = array.as_any().downcast_ref::<Int64Array>();
            match times.filter(|_| column.is_timestamp) {
                Some(times) => Arc::new(times.reinterpret_cast::<TimestampNanosecondType>().with_timezone(ZONE)),
                None => array.clone(),
            }
        });
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(self.asked.schema.clone(), shown.collect(), &options)
    }
}
