// SPDX-License-Identifier: MIT OR Apache-2.0
//! What people ask for and no event can have: a name that is written wrong means nothing, and nothing looks like an answer.

use piste_filter::{Expression, Field, Pattern, Term, Test};
use piste_patterns::{matches, nearest};

use super::Selection;
use super::values::Wanted;
use crate::folder::Trace;
use crate::rows::Column;

/// So many names are said to be near.
const NEAR: usize = 3;

/// Sentences about patterns that fit no class of events of the traces, and about fields that none has.
pub fn absent(traces: &[Trace], selection: &Selection, columns: &[Column]) -> Vec<String> {
    let mut sentences = Vec::new();
    for pattern in &selection.events {
        sentences.extend(no_event(traces, pattern, |name| matches(pattern, name)));
    }
    let mut fields: Vec<Field> = Vec::new();
    let mut look = |term: &Term| {
        if let Term::Field(field) = term
            && !fields.contains(field)
        {
            fields.push(field.clone());
        }
    };
    if let Some(filter) = &selection.filter {
        let expression = filter.expression();
        names_in(expression, &mut |name| {
            sentences.extend(match name {
                EventName::Is(name) => no_event(traces, name, |known| known == name),
                EventName::Like(pattern) => no_event(traces, pattern.text(), |name| pattern.matches(name.as_bytes())),
            });
        });
        expression.terms(&mut look);
    }
    columns.iter().for_each(|column| look(&column.term));
    for field in fields.iter().filter(|field| !is_anywhere(traces, field)) {
        let known = Column::all(traces, &Selection::default());
        let name = field.path_text();
        let near = nearest(&name, known.iter().map(Column::heading), NEAR);
        sentences.push(format!("no event in the trace has a field {name}{}", hint(&near)));
    }
    sentences
}

/// What a filter compares the event's name with.
enum EventName<'e> {
    Is(&'e str),
    Like(&'e Pattern),
}

fn names_in(expression: &Expression, look: &mut impl FnMut(EventName<'_>)) {
    expression.tests(&mut |test| match test {
        Test::Compare { left, right, .. } => match (&left.term, &right.term) {
            (Term::Name, Term::Text(text)) | (Term::Text(text), Term::Name) => look(EventName::Is(text)),
            _ => {}
        },
        Test::Like { operand, pattern, .. } if operand.term == Term::Name => look(EventName::Like(pattern)),
        Test::Like { .. } | Test::Exists { .. } => {}
    });
}

/// A sentence when no event has such a name.
fn no_event(traces: &[Trace], wanted: &str, is_meant: impl Fn(&str) -> bool) -> Option<String> {
    if names(traces).any(is_meant) {
        return None;
    }
    let near = nearest(wanted, names(traces), NEAR);
    Some(format!(
        "no event in the trace has a name that matches {wanted}{}",
        hint(&near)
    ))
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

fn hint(near: &[String]) -> String {
    match near {
        [] => String::new(),
        near => format!("; did you mean {}?", near.join(", ")),
    }
}
