// SPDX-License-Identifier: MIT OR Apache-2.0
//! The values of some columns, event by event.

use std::io::Write;

use piste_ctf::read::json_value::{JsonValue, string};
use piste_ctf::read::text::ValueText;
use piste_filter::Term;

use super::cell::CellValue;
use super::{Column, Form};
use crate::folder::Trace;
use crate::merge::{Merge, Merged};
use crate::select::per_class::PerClass;
use crate::select::values::Wanted;
use crate::select::{Cpus, Threads, Who};
use crate::symbols::EventSymbols;

/// Knows where the columns are in the events of each class.
pub struct Cells<'t> {
    traces: &'t [Trace],
    columns: &'t [Column],
    /// Of each class, the columns that it has.
    classes: PerClass<Vec<Option<Wanted>>>,
    cpus: Cpus,
    threads: Option<Threads<'t>>,
    /// Absent: addresses are shown without names.
    symbols: Option<EventSymbols<'t>>,
}

impl<'t> Cells<'t> {
    /// Of events of these traces.
    pub fn new(traces: &'t [Trace], columns: &'t [Column]) -> Cells<'t> {
        let asks_who = columns.iter().any(Column::asks_who);
        Cells {
            traces,
            columns,
            classes: PerClass::default(),
            cpus: Cpus::default(),
            threads: asks_who.then(|| Threads::new(traces)),
            symbols: None,
        }
    }

    pub(super) fn set_symbols(&mut self, symbols: EventSymbols<'t>) {
        self.symbols = Some(symbols);
    }

    /// Who the next event is of, as far as a column asks. It is to be told of every event.
    pub fn see(&mut self, merge: &mut Merge<'t>, merged: &Merged<'t>) -> Who {
        let who = self.threads.as_mut().map(|threads| threads.see(merge, merged).1);
        who.unwrap_or_default()
    }

    /// Appends the value of a column, by its number, in the form's spelling without what stands around it. False when the event has none.
    pub fn show(
        &mut self,
        place: usize,
        who: &Who,
        (merge, merged): (&mut Merge<'t>, &Merged<'t>),
        form: Form,
        out: &mut Vec<u8>,
    ) -> bool {
        let trace = merge.trace_of(merged.stream);
        let plan = &self.traces[trace].plan;
        let stream = merge.stream(merged.stream);
        let event = merged.event;
        let number = |out: &mut Vec<u8>, number: Option<i128>| {
            // Writing to memory does not fail.
            let _ = number.map(|number| write!(out, "{number}"));
            number.is_some()
        };
        match &self.columns[place].term {
            Term::Field(_) => {
                let class_id = stream.index.class_id;
                let columns = self.columns;
                let wanted = self.classes.get(event.class, || {
                    let wanted = columns.iter().map(|column| match &column.term {
                        Term::Field(field) => {
                            let mut wanted = Wanted::default();
                            wanted.add(plan, class_id, event.class, field).map(|_| wanted)
                        }
                        _ => None,
                    });
                    wanted.collect()
                });
                let Some(wanted) = &wanted[place] else { return false };
                let symbols = match &mut self.symbols {
                    Some(symbols) => symbols.of(trace, stream, &event),
                    None => None,
                };
                match form {
                    Form::Csv => wanted.show(stream, &event, &mut CellValue::new(out), symbols),
                    Form::Json => wanted.show(stream, &event, &mut JsonValue::new(out), symbols),
                    Form::Text => wanted.show(stream, &event, &mut ValueText::new(out), symbols),
                }
            }
            Term::Time => number(out, stream.ns(&event).map(Into::into)),
            Term::Pid => number(out, who.pid.map(Into::into)),
            Term::Tid => number(out, who.tid.map(Into::into)),
            Term::Cpu => {
                let cpu = self.cpus.of(plan, stream, merged);
                number(out, cpu.map(Into::into))
            }
            Term::Comm => text(out, form, who.comm.as_ref().map(|comm| comm.as_bytes())),
            Term::Name => text(out, form, Some(event.class.name.as_bytes())),
            Term::Integer(_) | Term::Float(_) | Term::Text(_) | Term::Bits { .. } => false,
        }
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
