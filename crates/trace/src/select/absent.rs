// SPDX-License-Identifier: MIT OR Apache-2.0
//! What people ask for and no event can have: a name that is written wrong means nothing, and nothing looks like an answer.

use piste_names::{matches, nearest};

use super::Selection;
use super::filter::expression::{Field, Operand, Step};
use super::values::Wanted;
use crate::folder::Trace;
use crate::rows::Column;

/// So many names are said to be near.
const NEAR: usize = 3;

/// Sentences about patterns that fit no class of events of the traces, and about fields that none has.
pub fn absent(traces: &[Trace], selection: &Selection, columns: &[Column]) -> Vec<String> {
    let mut sentences = Vec::new();
    let mut patterns = selection.events.clone();
    if let Some(filter) = &selection.filter {
        let mut add = |name: &[u8]| patterns.extend(String::from_utf8(name.to_vec()));
        filter.expression().names(&mut add);
    }
    for pattern in &patterns {
        if !names(traces).any(|name| matches(pattern, name)) {
            let near = nearest(pattern, names(traces), NEAR);
            sentences.push(format!(
                "no event in the trace has a name that matches {pattern}{}",
                hint(&near)
            ));
        }
    }
    let mut fields: Vec<Field> = Vec::new();
    let mut look = |operand: &Operand| {
        if let Operand::Field(field) = operand
            && !fields.contains(field)
        {
            fields.push(field.clone());
        }
    };
    if let Some(filter) = &selection.filter {
        filter.expression().operands(&mut look);
    }
    columns.iter().for_each(|column| look(&column.operand));
    for field in fields.iter().filter(|field| !is_anywhere(traces, field)) {
        let known = Column::all(traces, &Selection::default());
        let name = text(field);
        let near = nearest(&name, known.iter().map(Column::heading), NEAR);
        sentences.push(format!("no event in the trace has a field {name}{}", hint(&near)));
    }
    sentences
}

fn names(traces: &[Trace]) -> impl Iterator<Item = &str> {
    traces.iter().flat_map(|trace| {
        let streams = trace.schema().streams.keys();
        streams.flat_map(move |id| trace.plan.events(*id).into_iter().map(|event| &*event.name))
    })
}

fn is_anywhere(traces: &[Trace], field: &Field) -> bool {
    traces.iter().any(|trace| {
        trace.schema().streams.keys().any(|id| {
            let mut events = trace.plan.events(*id).into_iter();
            events.any(|event| Wanted::default().add(&trace.plan, *id, event, field).is_some())
        })
    })
}

/// As it was written, without where it is looked for.
fn text(field: &Field) -> String {
    let mut text = String::new();
    for step in &field.path {
        match step {
            Step::Name(name) if text.is_empty() => text += name,
            Step::Name(name) => text += &format!(".{name}"),
            Step::Index(index) => text += &format!("[{index}]"),
        }
    }
    text
}

fn hint(near: &[String]) -> String {
    match near {
        [] => String::new(),
        near => format!("; did you mean {}?", near.join(", ")),
    }
}
