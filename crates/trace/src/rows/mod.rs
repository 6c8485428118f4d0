// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events with some of their values only, in the order of time: as rows of CSV, as flat JSON objects, as lines of text.
//!
//! ```text
//!   09:41:07.123456789,shop:order,42,tea
//!   {"time_ns":"1795340467123456789","name":"shop:order","id":42,"item":"tea"}
//!   [09:41:07.123456789] (+0.000001500) shop:order: { id = 42, item = "tea" }
//! ```

mod cell;
mod cells;
mod column;

use std::io::{self, Write};

use piste_ctf::read::json_value::string;
use piste_ctf::read::text::Times;

pub use cells::Cells;
pub use column::Column;

use crate::folder::Trace;
use crate::merge::{Merge, Merged};
use crate::select::{Matcher, Selection, Who};
use crate::symbols::EventSymbols;

/// How rows look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// RFC 4180: lines end with CR and LF; the first has the headings.
    Csv,
    /// An object a line; what an event lacks is left out.
    Json,
    /// A line as babeltrace2's; what an event lacks is left out.
    Text,
}

/// Writes one row after the other.
pub struct Rows<'t> {
    /// What was not as it should be is in its findings.
    pub merge: Merge<'t>,
    matcher: Option<Matcher<'t>>,
    form: Form,
    times: Times,
    columns: &'t [Column],
    cells: Cells<'t>,
}

impl<'t> Rows<'t> {
    /// Of the events that are wanted.
    ///
    /// # Errors
    /// A stream file that was there cannot be opened any more.
    pub fn new(
        traces: &'t [Trace],
        selection: &Selection,
        columns: &'t [Column],
        form: Form,
        times: Times,
    ) -> io::Result<Rows<'t>> {
        let merge = match columns.iter().any(Column::asks_who) {
            true => selection.merge_with_history(traces)?,
            false => selection.merge(traces)?,
        };
        Ok(Rows::of(merge, traces, selection, columns, form, times))
    }

    /// The same of events that somebody else found.
    pub fn of(
        merge: Merge<'t>,
        traces: &'t [Trace],
        selection: &Selection,
        columns: &'t [Column],
        form: Form,
        times: Times,
    ) -> Rows<'t> {
        let asks_who = columns.iter().any(Column::asks_who);
        Rows {
            merge,
            matcher: (!selection.is_any() || asks_who).then(|| selection.matcher(traces)),
            form,
            times,
            columns,
            cells: Cells::new(traces, columns),
        }
    }

    /// Shows addresses with their names from now on.
    pub fn set_symbols(&mut self, symbols: EventSymbols<'t>) {
        self.cells.set_symbols(symbols);
    }

    /// Appends what stands before the first row.
    pub fn heading(&self, out: &mut Vec<u8>) {
        if self.form != Form::Csv {
            return;
        }
        out.extend_from_slice(b"time,name");
        for column in self.columns {
            out.push(b',');
            let begin = out.len();
            out.extend_from_slice(column.heading.as_bytes());
            cell::quote(out, begin);
        }
        out.extend_from_slice(b"\r\n");
    }

    /// Appends the next event's row; false when there is none.
    pub fn next(&mut self, out: &mut Vec<u8>) -> bool {
        while let Some(merged) = self.merge.next() {
            let merge = &mut self.merge;
            let who = self.cells.see(merge, &merged);
            if self
                .matcher
                .as_mut()
                .is_none_or(|matcher| matcher.wants(merge, &merged))
            {
                self.write(out, &merged, who);
                return true;
            }
        }
        false
    }

    /// Ends, and gives the times back for others.
    pub fn into_times(self) -> Times {
        self.times
    }

    /// For what is said besides, in the same form.
    pub fn times(&mut self) -> &mut Times {
        &mut self.times
    }

    fn write(&mut self, out: &mut Vec<u8>, merged: &Merged<'t>, who: Who) {
        let stream = self.merge.stream(merged.stream);
        let event = merged.event;
        let time_ns = stream.ns(&event);
        match self.form {
            Form::Csv => {
                if let Some(scale) = &stream.scale {
                    self.times.alone(out, scale, event.ticks);
                }
                out.push(b',');
                let begin = out.len();
                out.extend_from_slice(event.class.name.as_bytes());
                cell::quote(out, begin);
            }
            Form::Json => {
                out.push(b'{');
                // Writing to memory does not fail.
                let _ = time_ns.map(|ns| write!(out, "\"time_ns\":\"{ns}\","));
                out.extend_from_slice(b"\"name\":");
                string(out, event.class.name.as_bytes());
            }
            Form::Text => {
                if let Some(scale) = &stream.scale {
                    self.times.with_delta(out, scale, event.ticks);
                }
                out.extend_from_slice(event.class.name.as_bytes());
                out.extend_from_slice(b": {");
            }
        }
        let mut is_first = true;
        for (place, column) in self.columns.iter().enumerate() {
            let before = out.len();
            match self.form {
                Form::Csv => out.push(b','),
                Form::Json => {
                    out.push(b',');
                    string(out, column.heading.as_bytes());
                    out.push(b':');
                }
                Form::Text => {
                    out.extend_from_slice(if is_first { b" " } else { b", " });
                    out.extend_from_slice(column.heading.as_bytes());
                    out.extend_from_slice(b" = ");
                }
            }
            let begin = out.len();
            let is_there = self.cells.show(place, &who, (&mut self.merge, merged), self.form, out);
            match (is_there, self.form) {
                (true, Form::Csv) => cell::quote(out, begin),
                (true, _) => is_first = false,
                // The cell stays, and is empty.
                (false, Form::Csv) => out.truncate(begin),
                (false, _) => out.truncate(before),
            }
        }
        out.extend_from_slice(match self.form {
            Form::Csv => b"\r\n",
            Form::Json => b"}\n",
            Form::Text => b" }\n",
        });
    }
}
