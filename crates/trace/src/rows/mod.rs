// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events with some of their values only, in the order of time: as rows of CSV, as flat JSON objects, as lines of text.
//!
//! ```text
//!   09:41:07.123456789,shop:order,42,tea
//!   {"time_ns":1795340467123456789,"name":"shop:order","id":42,"item":"tea"}
//!   [09:41:07.123456789] (+0.000001500) shop:order: { id = 42, item = "tea" }
//! ```

mod cell;
mod column;

use std::io::{self, Write};

use piste_ctf::read::text::{Times, ValueText};

pub use column::Column;

use crate::folder::Trace;
use crate::json::{JsonValue, string};
use crate::merge::{Merge, Merged};
use crate::select::filter::expression::Operand;
use crate::select::per_class::PerClass;
use crate::select::values::Wanted;
use crate::select::{Cpus, Matcher, Selection, Threads, Who};
use cell::CellValue;

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
    traces: &'t [Trace],
    form: Form,
    times: Times,
    columns: &'t [Column],
    /// Of each class, the columns that it has.
    classes: PerClass<Vec<Option<Wanted>>>,
    cpus: Cpus,
    threads: Option<Threads<'t>>,
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
            traces,
            form,
            times,
            columns,
            classes: PerClass::default(),
            cpus: Cpus::default(),
            threads: asks_who.then(|| Threads::new(traces)),
        }
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
            let who = self.threads.as_mut().map(|threads| threads.see(merge, &merged).1);
            if self
                .matcher
                .as_mut()
                .is_none_or(|matcher| matcher.wants(merge, &merged))
            {
                self.write(out, &merged, who.unwrap_or_default());
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
        let plan = &self.traces[self.merge.trace_of(merged.stream)].plan;
        let stream = self.merge.stream(merged.stream);
        let event = merged.event;
        let class_id = stream.index.class_id;
        let wanted = self.classes.get(event.class, || {
            let wanted = self.columns.iter().map(|column| match &column.operand {
                Operand::Field(field) => {
                    let mut wanted = Wanted::default();
                    wanted.add(plan, class_id, event.class, field).map(|_| wanted)
                }
                _ => None,
            });
            wanted.collect()
        });
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
                let _ = time_ns.map(|ns| write!(out, "\"time_ns\":{ns},"));
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
        for (column, wanted) in self.columns.iter().zip(wanted) {
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
            let number = |out: &mut Vec<u8>, number: Option<i128>| {
                let _ = number.map(|number| write!(out, "{number}"));
                number.is_some()
            };
            let is_there = match &column.operand {
                Operand::Field(_) => wanted.as_ref().is_some_and(|wanted| match self.form {
                    Form::Csv => wanted.show(stream, &event, &mut CellValue::new(out)),
                    Form::Json => wanted.show(stream, &event, &mut JsonValue::new(out)),
                    Form::Text => wanted.show(stream, &event, &mut ValueText::new(out)),
                }),
                Operand::Time => number(out, time_ns.map(Into::into)),
                Operand::Pid => number(out, who.pid.map(Into::into)),
                Operand::Tid => number(out, who.tid.map(Into::into)),
                Operand::Cpu => {
                    let cpu = self.cpus.of(plan, stream, merged);
                    number(out, cpu.map(Into::into))
                }
                Operand::Comm => text(out, self.form, who.comm.as_ref().map(|comm| comm.as_bytes())),
                Operand::Name => text(out, self.form, Some(event.class.name.as_bytes())),
                Operand::Integer(_) | Operand::Float(_) | Operand::Text(_) => false,
            };
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

fn text(out: &mut Vec<u8>, form: Form, text: Option<&[u8]>) -> bool {
    match (text, form) {
        (None, _) => return false,
        (Some(text), Form::Csv) => out.extend_from_slice(text),
        (Some(text), _) => string(out, text),
    }
    true
}
