// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the model finds out, as tables with a row for each thing: every slice, every system call, every interrupt. They are asked by SQL, for which
//! `piste-query` makes batches of them.
//!
//! A table listens to the model and hands out a row as soon as it is known: nothing is kept but what is not over yet. Columns that nobody
//! asked for are not made.

mod calls;
mod column;
mod cpu_waits;
mod irqs;
mod requests;
mod sched;
mod states;
mod threads;

use self::column::Column;
use crate::analysis::Need;
use crate::model::{Listen, System};
use crate::report::Unit;

pub use self::column::Cell;

/// All of them.
pub const ALL: [&Table; 8] = [
    &sched::SCHED_SLICES,
    &states::THREAD_STATES,
    &cpu_waits::CPU_WAITS,
    &calls::SYSCALLS,
    &irqs::IRQS,
    &requests::IO_REQUESTS,
    &threads::PROCESSES,
    &threads::THREADS,
];

/// A table that can be asked.
#[derive(Debug)]
pub struct Table {
    /// One word.
    pub name: &'static str,
    /// What it needs of a trace.
    pub needs: &'static [Need],
    /// Its columns in their order.
    pub columns: fn() -> Vec<Heading>,
    begin: Begin,
}

/// Begins a table that hands out these columns.
type Begin = fn(&[usize], Box<dyn Sink>) -> Box<dyn Rows>;

/// What a column is. A time is [`Unit::Moment`]; what is no text is a whole number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heading {
    /// Its name, which ends with the unit.
    pub key: &'static str,
    /// What its values are.
    pub unit: Unit,
}

impl Table {
    /// Begins to hand out rows that have these columns, in the order of their numbers here.
    pub fn begin(&self, columns: &[usize], sink: Box<dyn Sink>) -> Box<dyn Rows> {
        (self.begin)(columns, sink)
    }
}

/// A table at work.
pub trait Rows: Listen {
    /// The trace is over: the rows that had to wait for that.
    fn finish(&mut self, system: &System);
}

/// Whoever takes rows.
pub trait Sink {
    /// The row's next value.
    fn cell(&mut self, cell: Cell<'_>);
    /// The row has all its values.
    fn end_row(&mut self);
}

/// The headings of columns.
fn headings<R>(columns: &[Column<R>]) -> Vec<Heading> {
    columns.iter().map(|column| column.heading).collect()
}

#[cfg(test)]
#[path = "../../tests/unit/tables/tests.rs"]
mod tests;
