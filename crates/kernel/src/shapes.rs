// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether events that analyses need have the fields that they need, on this kernel.
//!
//! A format is followed wherever its fields are. But a field that is gone, or is something else, leaves a hole that nobody would see: what
//! is missing is said, by `piste doctor` and by each recording. Which fields that are is data: `data/shapes.tsv`.

use piste_ctf::Element;

use crate::catalog::Catalog;
use crate::convert::COMMON;
use crate::format::{Content, EventFormat, FieldFormat, FieldKind};

const SHAPES: &str = include_str!("../data/shapes.tsv");

/// A line of the table.
struct Shape {
    system: &'static str,
    event: &'static str,
    field: &'static str,
    kind: &'static str,
}

/// What is not as it is needed in the events of a kernel: `sched_switch: prev_state is missing`, a text for each event.
pub(crate) fn strange_events(catalog: &Catalog) -> Vec<String> {
    let mut events: Vec<_> = shapes().map(|shape| (shape.system, shape.event)).collect();
    events.dedup();
    let strange = events.into_iter().filter_map(|(system, event)| {
        let what = strange(catalog.by_name(system, event).ok()?);
        (!what.is_empty()).then(|| format!("{event}: {}", what.join(", ")))
    });
    strange.collect()
}

/// What is not as it is needed in an event: a text for each field.
pub(crate) fn strange(format: &EventFormat) -> Vec<String> {
    let needed = shapes().filter(|shape| (shape.system, shape.event) == (&format.system, &format.name));
    let needed = needed.filter_map(|shape| {
        let Some(field) = format.field(shape.field) else {
            return Some(format!("{} is missing", shape.field));
        };
        let kind = kind_text(field);
        let is_right = match shape.kind {
            "integer" => matches!(field.kind, FieldKind::Integer { .. }),
            wanted => kind == wanted,
        };
        (!is_right).then(|| format!("{} is {kind} instead of {}", shape.field, shape.kind))
    });
    let moved = COMMON.into_iter().filter_map(|(name, from)| {
        let field = format.common.iter().find(|field| field.name == name)?;
        (field.offset != u32::from(from)).then(|| format!("{name} is at byte {} instead of {from}", field.offset))
    });
    needed.chain(moved).collect()
}

fn shapes() -> impl Iterator<Item = Shape> {
    let lines = SHAPES.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| {
        let columns: Vec<_> = line.split('\t').collect();
        let [system, event, field, kind] = columns[..] else {
            panic!("four columns are wanted: {line}");
        };
        Shape {
            system,
            event,
            field,
            kind,
        }
    })
}

fn kind_text(field: &FieldFormat) -> String {
    match &field.kind {
        FieldKind::Integer { element, .. } => element_text(*element),
        FieldKind::Array { element, count, .. } => format!("{}[{count}]", element_text(*element)),
        FieldKind::Text => "text".to_owned(),
        FieldKind::Dynamic { content, .. } | FieldKind::Tail { content } => match content {
            Content::Text => "text".to_owned(),
            Content::Elements { element, .. } => element_text(*element) + "[]",
            Content::Mask => "a mask".to_owned(),
            Content::Bytes => field.type_text.clone(),
        },
        FieldKind::Bytes => field.type_text.clone(),
    }
}

/// `int32`
fn element_text(element: Element) -> String {
    format!("{element:?}").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMON_LINES: &str = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;
";

    fn check(system: &str, name: &str, fields: &str, expected: &[&str]) {
        let text = format!("name: {name}\nID: 9\nformat:\n{fields}\nprint fmt: \"\"\n");
        let format = EventFormat::parse(system, &text).expect("a format");
        assert_eq!(strange(&format), expected);
    }

    #[test]
    fn fields_may_be_anywhere_and_beside_others() {
        let of_real_time = "\tfield:unsigned char common_preempt_lazy_count;\toffset:8;\tsize:1;\tsigned:0;
\n\tfield:long id;\toffset:16;\tsize:8;\tsigned:1;\n\tfield:long ret;\toffset:24;\tsize:8;\tsigned:1;\n";
        check("raw_syscalls", "sys_exit", &[COMMON_LINES, of_real_time].concat(), &[]);
        let texts = "\tfield:u64 clone_flags;\toffset:32;\tsize:8;\tsigned:0;\n\tfield:pid_t pid;\toffset:8;\tsize:4;\tsigned:1;\n";
        check("task", "task_newtask", texts, &[]);
        let dynamic = "\tfield:__data_loc char[] newcomm;\toffset:8;\tsize:4;\tsigned:0;\n";
        check("task", "task_rename", dynamic, &[]);
        check("mine", "sched_switch", "", &[]);
    }

    #[test]
    fn what_is_missing_or_something_else_is_said() {
        let fields = "\tfield:int id;\toffset:8;\tsize:4;\tsigned:1;\n";
        check(
            "raw_syscalls",
            "sys_exit",
            fields,
            &["id is int32 instead of int64", "ret is missing"],
        );
        let texts = "\tfield:int clone_flags[2];\toffset:32;\tsize:8;\tsigned:1;\n\tfield:char pid[4];\toffset:8;\tsize:4;\tsigned:1;\n";
        check(
            "task",
            "task_newtask",
            texts,
            &[
                "pid is text instead of int32",
                "clone_flags is int32[2] instead of integer",
            ],
        );
    }

    #[test]
    fn a_record_that_begins_otherwise_is_said() {
        let moved = COMMON_LINES.replace("common_pid;\toffset:4", "common_pid;\toffset:8");
        check("mine", "event", &moved, &["common_pid is at byte 8 instead of 4"]);
    }
}
