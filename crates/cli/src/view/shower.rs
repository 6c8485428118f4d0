// SPDX-License-Identifier: MIT OR Apache-2.0
//! One event after the other in the form that is wanted.

use std::io;

use piste_ctf::read::text::Times;
use piste_trace::merge::Merge;
use piste_trace::objects::Objects;
use piste_trace::rows::{Column, Form, Rows};
use piste_trace::select::Selection;
use piste_trace::{Lines, Trace};

use crate::arguments::ViewFormat;

pub(super) enum Shower<'t> {
    Lines(Box<Lines<'t>>),
    Objects(Box<Objects<'t>>),
    Rows(Box<Rows<'t>>),
}

impl<'t> Shower<'t> {
    /// Of events of traces: whole, or those columns of them.
    pub(super) fn new(
        traces: &'t [Trace],
        selection: &Selection,
        columns: &'t [Column],
        format: ViewFormat,
        times: Times,
    ) -> io::Result<Shower<'t>> {
        Ok(match form(format, columns) {
            Some(form) => Shower::Rows(Box::new(Rows::new(traces, selection, columns, form, times)?)),
            None => Shower::whole(selection.merge(traces)?, traces, selection, format, times),
        })
    }

    /// The same of events that were found already.
    pub(super) fn of(
        merge: Merge<'t>,
        traces: &'t [Trace],
        selection: &Selection,
        columns: &'t [Column],
        format: ViewFormat,
        times: Times,
    ) -> Shower<'t> {
        match form(format, columns) {
            Some(form) => Shower::Rows(Box::new(Rows::of(merge, traces, selection, columns, form, times))),
            None => Shower::whole(merge, traces, selection, format, times),
        }
    }

    fn whole(
        merge: Merge<'t>,
        traces: &'t [Trace],
        selection: &Selection,
        format: ViewFormat,
        times: Times,
    ) -> Shower<'t> {
        match format {
            ViewFormat::Ndjson => Shower::Objects(Box::new(Objects::of(merge, traces, selection))),
            _ => Shower::Lines(Box::new(Lines::of(merge, traces, selection, times))),
        }
    }

    pub(super) fn heading(&self, out: &mut Vec<u8>) {
        if let Shower::Rows(rows) = self {
            rows.heading(out);
        }
    }

    /// Appends the next event; false when there is none.
    #[inline]
    pub(super) fn next(&mut self, out: &mut Vec<u8>) -> bool {
        match self {
            Shower::Lines(lines) => lines.next(out),
            Shower::Objects(objects) => objects.next(out),
            Shower::Rows(rows) => rows.next(out),
        }
    }

    pub(super) fn merge(&mut self) -> &mut Merge<'t> {
        match self {
            Shower::Lines(lines) => &mut lines.merge,
            Shower::Objects(objects) => &mut objects.merge,
            Shower::Rows(rows) => &mut rows.merge,
        }
    }

    /// The times as they were shown; new ones where none were.
    pub(super) fn into_times(self, new: impl FnOnce() -> Times) -> Times {
        match self {
            Shower::Lines(lines) => lines.into_times(),
            Shower::Objects(_) => new(),
            Shower::Rows(rows) => rows.into_times(),
        }
    }
}

/// Columns are shown in rows; whole events only as CSV.
fn form(format: ViewFormat, columns: &[Column]) -> Option<Form> {
    match format {
        ViewFormat::Csv => Some(Form::Csv),
        _ if columns.is_empty() => None,
        ViewFormat::Ndjson => Some(Form::Json),
        ViewFormat::Text => Some(Form::Text),
    }
}
