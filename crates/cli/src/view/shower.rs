// SPDX-License-Identifier: MIT OR Apache-2.0
//! One event after the other in the form that is wanted.

use std::io;

use piste_ctf::read::text::Times;
use piste_strace::{Printer, Undecoded};
use piste_trace::merge::Merge;
use piste_trace::objects::Objects;
use piste_trace::rows::{Column, Form, Rows};
use piste_trace::select::Selection;
use piste_trace::symbols::EventSymbols;
use piste_trace::{Lines, Trace};

use super::calls::Calls;
use crate::arguments::ViewFormat;

pub(super) enum Shower<'t> {
    Lines(Box<Lines<'t>>),
    Objects(Box<Objects<'t>>),
    Rows(Box<Rows<'t>>),
    Calls(Box<Calls<'t>>, Box<Printer>),
}

/// What goes on from one part of a trace that grows to the next.
pub(super) struct Going {
    pub(super) times: Times,
    pub(super) printer: Printer,
}

impl<'t> Shower<'t> {
    /// Of events of traces: whole, or those columns of them.
    pub(super) fn new(
        traces: &'t [Trace],
        selection: &Selection,
        columns: &'t [Column],
        format: ViewFormat,
        going: Going,
    ) -> io::Result<Shower<'t>> {
        Ok(match form(format, columns) {
            Some(form) => Shower::Rows(Box::new(Rows::new(traces, selection, columns, form, going.times)?)),
            None => Shower::whole(selection.merge(traces)?, traces, selection, format, going),
        })
    }

    /// The same of events that were found already.
    pub(super) fn of(
        merge: Merge<'t>,
        traces: &'t [Trace],
        selection: &Selection,
        columns: &'t [Column],
        format: ViewFormat,
        going: Going,
    ) -> Shower<'t> {
        match form(format, columns) {
            Some(form) => Shower::Rows(Box::new(Rows::of(merge, traces, selection, columns, form, going.times))),
            None => Shower::whole(merge, traces, selection, format, going),
        }
    }

    fn whole(
        merge: Merge<'t>,
        traces: &'t [Trace],
        selection: &Selection,
        format: ViewFormat,
        going: Going,
    ) -> Shower<'t> {
        match format {
            ViewFormat::Ndjson => Shower::Objects(Box::new(Objects::of(merge, traces, selection))),
            ViewFormat::Strace => {
                let calls = Calls::of(merge, traces, selection);
                Shower::Calls(Box::new(calls), Box::new(going.printer))
            }
            _ => Shower::Lines(Box::new(Lines::of(merge, traces, selection, going.times))),
        }
    }

    /// Shows addresses with their names from now on.
    pub(super) fn set_symbols(&mut self, symbols: EventSymbols<'t>) {
        match self {
            Shower::Lines(lines) => lines.set_symbols(symbols),
            Shower::Objects(objects) => objects.set_symbols(symbols),
            Shower::Rows(rows) => rows.set_symbols(symbols),
            // It shows calls as strace does.
            Shower::Calls(..) => {}
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
            Shower::Calls(calls, printer) => match calls.take_next() {
                Some((event, fields)) => {
                    printer.event(&event.of(&fields), &Undecoded, out);
                    true
                }
                None => false,
            },
        }
    }

    /// Appends the end of the last line.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        if let Shower::Calls(_, printer) = self {
            printer.finish(out);
        }
    }

    pub(super) fn merge(&mut self) -> &mut Merge<'t> {
        match self {
            Shower::Lines(lines) => &mut lines.merge,
            Shower::Objects(objects) => &mut objects.merge,
            Shower::Rows(rows) => &mut rows.merge,
            Shower::Calls(calls, _) => &mut calls.merge,
        }
    }

    /// What goes on in the next part of a trace that grows; new times where none were shown.
    pub(super) fn into_going(self, new: impl FnOnce() -> Going) -> Going {
        let going = new();
        match self {
            Shower::Lines(lines) => Going {
                times: lines.into_times(),
                ..going
            },
            Shower::Objects(_) => going,
            Shower::Rows(rows) => Going {
                times: rows.into_times(),
                ..going
            },
            Shower::Calls(_, printer) => Going {
                printer: *printer,
                ..going
            },
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
        ViewFormat::Strace => None,
    }
}
