// SPDX-License-Identifier: MIT OR Apache-2.0
//! Columns of rows of some type: a name, and how the value comes from the row. What most tables have, times and threads, is here.

use std::borrow::Cow;

use super::{Heading, Sink};
use crate::model::{FileId, Nature, System, ThreadId};
use crate::report::Unit;

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell<'s> {
    /// Unknown, or there is none.
    None,
    /// A whole number.
    Number(i64),
    /// A text.
    Text(Cow<'s, str>),
}

impl<'s> From<&'s str> for Cell<'s> {
    fn from(text: &'s str) -> Cell<'s> {
        Cell::Text(text.into())
    }
}

impl From<String> for Cell<'_> {
    fn from(text: String) -> Self {
        Cell::Text(text.into())
    }
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl From<$number> for Cell<'_> {
            fn from(number: $number) -> Self {
                Cell::Number(number.into())
            }
        }
    )*};
}
numbers!(i64, i32, u32);

impl<'s, T: Into<Cell<'s>>> From<Option<T>> for Cell<'s> {
    fn from(value: Option<T>) -> Cell<'s> {
        value.map_or(Cell::None, Into::into)
    }
}

/// The name of a file, if it is known by then. The state dump may come later: what rows are grouped by must not change with it.
pub(super) fn path(system: &System, file: Option<FileId>) -> Option<&str> {
    let name = file.map(|file| system.names.text(system.file(file).name));
    name.filter(|name| !name.is_empty())
}

/// A column of rows.
pub(super) struct Column<R> {
    pub(super) heading: Heading,
    of: for<'s> fn(&'s System, &'s R) -> Cell<'s>,
}

impl<R> Clone for Column<R> {
    fn clone(&self) -> Column<R> {
        *self
    }
}

impl<R> Copy for Column<R> {}

/// A column of one.
pub(super) fn column<R>(key: &'static str, unit: Unit, of: for<'s> fn(&'s System, &'s R) -> Cell<'s>) -> Column<R> {
    Column {
        heading: Heading { key, unit },
        of,
    }
}

/// Hands out the columns of rows that somebody asked for.
pub(super) struct Emitter<R: 'static> {
    columns: Vec<Column<R>>,
    sink: Box<dyn Sink>,
}

impl<R> Emitter<R> {
    pub(super) fn new(all: &[Column<R>], chosen: &[usize], sink: Box<dyn Sink>) -> Emitter<R> {
        Emitter {
            columns: chosen.iter().map(|number| all[*number]).collect(),
            sink,
        }
    }

    /// A row.
    pub(super) fn row(&mut self, system: &System, row: &R) {
        for column in &self.columns {
            self.sink.cell((column.of)(system, row));
        }
        self.sink.end_row();
    }
}

/// What has a begin and an end.
pub(super) trait Lasts {
    fn begin_ns(&self) -> Option<i64>;
    fn end_ns(&self) -> Option<i64>;
}

/// Begin, end, and the time between them.
pub(super) fn times<R: Lasts>() -> [Column<R>; 3] {
    [
        column("begin_ns", Unit::Moment, |_, row: &R| row.begin_ns().into()),
        column("end_ns", Unit::Moment, |_, row: &R| row.end_ns().into()),
        column("duration_ns", Unit::Nanoseconds, |_, row: &R| {
            row.begin_ns().zip(row.end_ns()).map(|(begin, end)| end - begin).into()
        }),
    ]
}

/// What is of a thread, if that is known.
pub(super) trait OfThread {
    fn thread(&self) -> Option<ThreadId>;
}

/// Who it was, as far as that was known by then.
pub(super) fn who<R: OfThread>() -> [Column<R>; 4] {
    [
        column("tid", Unit::Id, |system, row: &R| {
            row.thread().map(|id| system.thread(id).tid).into()
        }),
        column("pid", Unit::Id, |system, row: &R| {
            row.thread().and_then(|id| pid(system, id)).into()
        }),
        column("comm", Unit::Text, |system, row: &R| {
            row.thread().and_then(|id| name(system, id)).into()
        }),
        column("thread", Unit::Id, |_, row: &R| {
            row.thread().map(|id| id.index() as i64).into()
        }),
    ]
}

/// Its process. A CPU that has nothing to do is of none.
pub(super) fn pid(system: &System, id: ThreadId) -> Option<i32> {
    let thread = system.thread(id);
    match thread.nature {
        Nature::Idle => Some(0),
        _ => thread.pid,
    }
}

/// The thread's name, if it has one.
pub(super) fn name(system: &System, id: ThreadId) -> Option<&str> {
    Some(system.name_of(id)).filter(|name| !name.is_empty())
}
