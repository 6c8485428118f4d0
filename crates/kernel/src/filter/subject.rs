// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel can compare of an event, by the names that people give it: those of the trace, or else those of the kernel's own format.

use std::sync::LazyLock;

use piste_ctf::{Element, Label};
use piste_patterns::nearest;

use crate::format::{EventFormat, FieldFormat, FieldKind};
use crate::layout::{Change, Layout};

/// Names of fields in the trace; those of events are not asked for.
static LAYOUT: LazyLock<Layout> = LazyLock::new(|| Layout::new([]));

/// Something to compare.
#[derive(Clone, Copy)]
pub(super) struct Subject<'e> {
    /// As it was asked for.
    pub(super) name: &'e str,
    /// The kernel's name.
    pub(super) kernel_name: &'e str,
    /// What it can be compared with.
    pub(super) comparable: Comparable<'e>,
    /// Names of its values.
    pub(super) labels: &'e [Label],
    /// What the trace makes of its value.
    pub(super) meaning: Meaning,
}

/// What the kernel can compare something with. It follows from the type's text alone, by the kernel's rules: those decide what it will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparable<'e> {
    /// Numbers of this many bits.
    Number { bits: u32, is_signed: bool },
    /// Strings; at most this many bytes fit.
    Text { room: Option<u32> },
    /// The CPU: numbers, and no `&`.
    Cpu,
    /// Nothing, with a value of this type.
    Nothing { type_text: &'e str },
}

/// How a value in the trace follows from the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// It is the same.
    Same,
    /// It is 100 less.
    Priority,
    /// It has other bits.
    TaskState,
    /// It is made of letters, and they are in the trace under this name with `_raw` behind it.
    Letters,
    /// It is the process of the thread that the kernel knows.
    Process,
}

impl<'e> Subject<'e> {
    /// The field of an event that has this name in the trace; else the one that the kernel calls so.
    pub(super) fn find(name: &'e str, event: &'e EventFormat) -> Option<Subject<'e>> {
        let fields = || event.fields.iter().chain(&event.common);
        let in_trace = fields().find_map(|field| {
            let mut names = names(field, event).into_iter();
            names
                .find(|(known, _)| known == name)
                .map(|(_, meaning)| (field, meaning))
        });
        let found = in_trace.or_else(|| Some((fields().find(|field| field.name == name)?, Meaning::Same)));
        let (field, meaning) = found?;
        Some(Subject {
            name,
            kernel_name: &field.name,
            comparable: comparable(field),
            labels: field.names.as_ref().map_or(&[], |names| &names.labels),
            meaning,
        })
    }

    /// The thread on which the event happens.
    pub(super) fn thread(event: &'e EventFormat) -> Option<Subject<'e>> {
        let subject = Subject::find("common_pid", event)?;
        Some(Subject {
            name: "$tid",
            ..subject
        })
    }

    /// The name of the thread.
    pub(super) fn comm() -> Subject<'e> {
        Subject::of_every_event("$comm", "COMM", Comparable::Text { room: Some(16) })
    }

    /// The CPU.
    pub(super) fn cpu() -> Subject<'e> {
        Subject::of_every_event("$cpu", "CPU", Comparable::Cpu)
    }

    fn of_every_event(name: &'e str, kernel_name: &'e str, comparable: Comparable<'e>) -> Subject<'e> {
        Subject {
            name,
            kernel_name,
            comparable,
            labels: &[],
            meaning: Meaning::Same,
        }
    }
}

/// A sentence about a name that is none of an event's fields.
pub(super) fn no_such_field(name: &str, event: &EventFormat) -> String {
    let fields: Vec<String> = event
        .fields
        .iter()
        .flat_map(|field| names(field, event).into_iter().map(|(name, _)| name))
        .collect();
    let known = fields.iter().map(String::as_str);
    let near = match nearest(name, known.chain(["$tid", "$comm", "$cpu"]), 1).as_slice() {
        [near, ..] => format!(" (did you mean {near}?)"),
        [] => String::new(),
    };
    format!(
        "{} has no field `{name}`{near}; it has {}, and every event has $tid, $comm and $cpu",
        event.name,
        fields.join(", ")
    )
}

/// The names of a field in the trace, and what the value under each is. crates/kernel/src/convert/event.rs writes them.
fn names(field: &FieldFormat, event: &EventFormat) -> Vec<(String, Meaning)> {
    let rule = LAYOUT.field(&event.system, &event.name, &field.name);
    let name = rule.map_or(field.name.as_str(), |rule| rule.trace_name);
    let name = name.strip_prefix("__probe_").unwrap_or(name);
    let element = match field.kind {
        FieldKind::Integer { element, .. } => Some(element),
        _ => None,
    };
    let raw = || (format!("{name}_raw"), Meaning::Same);
    match rule.map_or(Change::Same, |rule| rule.change) {
        Change::Priority if element == Some(Element::Int32) => vec![(name.to_owned(), Meaning::Priority)],
        Change::TaskState if element == Some(Element::Int64) => vec![(name.to_owned(), Meaning::TaskState), raw()],
        Change::Request if field.kind == FieldKind::Text => vec![(name.to_owned(), Meaning::Letters), raw()],
        Change::Thread if element == Some(Element::Int32) => {
            vec![(name.to_owned(), Meaning::Same), (field.name.clone(), Meaning::Process)]
        }
        _ => vec![(name.to_owned(), Meaning::Same)],
    }
}

fn comparable(field: &FieldFormat) -> Comparable<'_> {
    let type_text = field.type_text.trim();
    let is_dynamic = type_text.contains("__data_loc") || type_text.contains("__rel_loc");
    if is_dynamic && type_text.contains("char") || matches!(type_text, "char *" | "const char *") {
        return Comparable::Text { room: None };
    }
    if !is_dynamic && type_text.contains('[') {
        let room = Some(field.bytes);
        return if type_text.contains("char") {
            Comparable::Text { room }
        } else {
            Comparable::Nothing { type_text }
        };
    }
    match field.kind {
        FieldKind::Integer { element, .. } if !is_dynamic => Comparable::Number {
            bits: element.bytes() * 8,
            is_signed: matches!(
                element,
                Element::Int8 | Element::Int16 | Element::Int32 | Element::Int64
            ),
        },
        _ => Comparable::Nothing { type_text },
    }
}
