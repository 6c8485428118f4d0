// SPDX-License-Identifier: MIT OR Apache-2.0
//! The plan for an event, made of its format.

use piste_ctf::{Base, Element, EventClass, FieldKind, Label, NO_LEVEL};

use super::detail::Detail;
use super::{Finding, class_id, put_contexts};
use crate::format::{Content, EventFormat, FieldFormat, FieldKind as Kind};
use crate::layout::{Change, FieldRule, Layout};
use crate::plan::{Builder, Plan, TooFar};
use crate::spec::Context;
use crate::stacks;

/// What is known of an event when its first record comes.
pub(super) struct Event<'a> {
    pub(super) format: &'a EventFormat,
    /// Its name in the trace.
    pub(super) name: &'a str,
    /// Its class when all of it is recorded.
    pub(super) class_id: u32,
    pub(super) detail: &'a Detail,
    pub(super) contexts: &'a [Context],
    /// Texts that are told by their address.
    pub(super) texts: &'a [Label],
}

/// The plan for an event, and what it writes.
pub(super) fn plan(event: &Event, layout: &Layout, findings: &mut Vec<Finding>) -> (Plan, EventClass) {
    let EventFormat {
        system,
        name,
        common,
        fields,
        ..
    } = event.format;
    let mut builder = Builder::default();
    put_contexts(event.contexts, &mut builder);
    let written = common
        .iter()
        .map(|field| (field, true))
        .chain(fields.iter().map(|field| (field, false)));
    for (field, is_common) in written {
        let rule = layout.field(system, name, &field.name);
        if is_common && rule.is_none() {
            continue;
        }
        let unknown = |type_text: &str| Finding::UnknownType {
            event: event.name.to_owned(),
            field: field.name.clone(),
            type_text: type_text.to_owned(),
        };
        if field.kind.is_unknown() {
            findings.push(unknown(&field.type_text));
        }
        if put_field(field, rule, event, &mut builder).is_err() {
            let text = format!("{} at {}, beyond the end of any record", field.type_text, field.offset);
            findings.push(unknown(&text));
        }
    }
    finish(builder, event.name, event.class_id, event.detail)
}

/// The plan, with what the event's rules add, and the class.
pub(super) fn finish(builder: Builder, name: &str, class_id: u32, detail: &Detail) -> (Plan, EventClass) {
    let (plan, mut fields) = builder.finish();
    if let Some(stack) = &detail.stack {
        fields.extend(stacks::fields(stack));
    }
    let id = match detail.is_plain() {
        true => class_id,
        false => class_id::of_fields(class_id, &fields),
    };
    let class = EventClass {
        id,
        name: name.to_owned(),
        level: NO_LEVEL,
        contexts: vec![],
        fields,
    };
    (plan, class)
}

fn put_field(field: &FieldFormat, rule: Option<FieldRule>, event: &Event, builder: &mut Builder) -> Result<(), TooFar> {
    let detail = event.detail;
    let name = rule.map_or(field.name.as_str(), |rule| rule.trace_name);
    // The kernel's own fields of probes would be hidden by those two characters.
    let name = name.strip_prefix("__probe_").unwrap_or(name);
    let integer = |element| scalar(element, Base::Decimal);
    match (rule.map_or(Change::Same, |rule| rule.change), &field.kind) {
        (
            Change::Priority,
            Kind::Integer {
                element: element @ Element::Int32,
                ..
            },
        ) => {
            if detail.has(name) {
                builder.field(name, integer(*element));
                builder.priority(field.offset)?;
            }
        }
        (
            Change::TaskState,
            Kind::Integer {
                element: element @ Element::Int64,
                ..
            },
        ) => {
            if detail.has(name) {
                builder.field(name, integer(*element));
                builder.task_state(field.offset)?;
            }
            put_as_it_is(&format!("{name}_raw"), integer(*element), field, detail, builder)?;
        }
        (Change::Request, Kind::Text) => {
            if detail.has(name) {
                builder.field(name, scalar(Element::Uint32, Base::Hex));
                builder.request(field.offset, field.bytes)?;
            }
            let letters = FieldKind::FixedText { bytes: field.bytes };
            put_as_it_is(&format!("{name}_raw"), letters, field, detail, builder)?;
        }
        (
            Change::Thread,
            Kind::Integer {
                element: element @ Element::Int32,
                ..
            },
        ) => {
            put_as_it_is(name, integer(*element), field, detail, builder)?;
            if detail.has(&field.name) {
                builder.field(&field.name, integer(*element));
                builder.process(field.offset)?;
            }
        }
        (Change::Plain, _) => put_as_it_is(name, kind_of(field, &[]), field, detail, builder)?,
        _ => {
            let is_text = field.type_text.ends_with("char *");
            let names = field.names.as_ref().map(|names| &*names.labels);
            let names = names.unwrap_or(if is_text { event.texts } else { &[] });
            put_as_it_is(name, kind_of(field, names), field, detail, builder)?;
        }
    }
    Ok(())
}

/// Writes a field with the bytes that it has.
fn put_as_it_is(
    name: &str,
    kind: FieldKind,
    field: &FieldFormat,
    detail: &Detail,
    builder: &mut Builder,
) -> Result<(), TooFar> {
    if !detail.has(name) {
        return Ok(());
    }
    match field.kind {
        Kind::Integer { .. } | Kind::Array { .. } | Kind::Text | Kind::Bytes => {
            builder.copy(field.offset, field.bytes)?;
        }
        Kind::Dynamic { location, content } => match content {
            Content::Text => builder.text(field.offset, location)?,
            _ => builder.elements(field.offset, location, element_of(content).bytes())?,
        },
        Kind::Tail { content } => match content {
            Content::Text => builder.tail_text(field.offset)?,
            _ => builder.tail_elements(field.offset, element_of(content).bytes())?,
        },
    }
    builder.field(name, kind);
    Ok(())
}

/// What readers find of a field that is written as it is, whose values have these names.
fn kind_of(field: &FieldFormat, names: &[Label]) -> FieldKind {
    match field.kind {
        Kind::Integer { element, base } => match names {
            [] => scalar(element, base),
            names => FieldKind::Named {
                element,
                base,
                labels: names.to_vec(),
            },
        },
        Kind::Array { element, base, count } => FieldKind::Array { element, base, count },
        Kind::Text => FieldKind::FixedText { bytes: field.bytes },
        Kind::Bytes => FieldKind::Array {
            element: Element::Uint8,
            base: Base::Hex,
            count: field.bytes,
        },
        Kind::Dynamic { content, .. } | Kind::Tail { content } => match content {
            Content::Text => FieldKind::String,
            Content::Elements { element, base } => FieldKind::Sequence { element, base },
            Content::Mask | Content::Bytes => FieldKind::Sequence {
                element: element_of(content),
                base: Base::Hex,
            },
        },
    }
}

fn element_of(content: Content) -> Element {
    match content {
        Content::Elements { element, .. } => element,
        Content::Mask => Element::Uint64,
        Content::Text | Content::Bytes => Element::Uint8,
    }
}

pub(super) fn scalar(element: Element, base: Base) -> FieldKind {
    FieldKind::Scalar { element, base }
}
