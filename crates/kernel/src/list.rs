// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists for people: the events and system calls that can be recorded, with their fields.

use std::collections::BTreeMap;

use piste_ctf::{Base, Element, Label};

use crate::catalog::Catalog;
use crate::format::{Content, FieldFormat, FieldKind, ValueNames};
use crate::help;
use crate::layout::Layout;
use crate::pattern::matches_event;
use piste_patterns::matches;
use piste_syscalls::{Architecture, Table};

/// An event that can be recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedEvent {
    /// Group and name: `irq:softirq_entry`.
    pub name: String,
    /// Its name in a trace: `irq_softirq_entry`.
    pub trace_name: String,
    /// Its fields by the kernel's names, which filters use.
    pub fields: Vec<ListedField>,
    /// When it happens, and what it tells.
    pub help: String,
}

/// A system call that can be recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedSyscall {
    /// Its name.
    pub name: &'static str,
    /// Its number for 64-bit programs; absent when they do not have it.
    pub number: Option<u32>,
    /// Its number for 32-bit programs; absent when they do not have it.
    pub compat_number: Option<u32>,
    /// Its arguments; those of 64-bit programs where the two differ.
    pub arguments: Vec<ListedField>,
}

/// A field or argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedField {
    /// Its name.
    pub name: String,
    /// Its type: `uint32`, `string`, `enum uint32 {HI = 0, TIMER = 1}`; of an argument as C writes it. Behind it follows its name in a
    /// trace where that is another.
    pub type_text: String,
}

/// The events that `pattern` means, all without one; in the order of their names. Of an event whose format is not understood no fields
/// are listed, and its help says why.
pub fn events(catalog: &Catalog, layout: &Layout, pattern: Option<&str>) -> Vec<ListedEvent> {
    let mut listed = Vec::new();
    for (system, name) in catalog.names() {
        let trace_name = layout.event_name(system, name);
        if pattern.is_some_and(|pattern| !matches_event(pattern, system, name, &trace_name)) {
            continue;
        }
        let field = |field: &FieldFormat| {
            let rule = layout.field(system, name, &field.name);
            let other_name = rule
                .map(|rule| rule.trace_name)
                .filter(|trace_name| *trace_name != field.name);
            let known_as = other_name.map(|trace_name| format!(", {trace_name} in a trace"));
            ListedField {
                name: field.name.clone(),
                type_text: type_text(field) + &known_as.unwrap_or_default(),
            }
        };
        let (fields, help) = match catalog.by_name(system, name) {
            Ok(format) => (format.fields.iter().map(field).collect(), help::event(format)),
            Err(error) => (Vec::new(), error.to_string()),
        };
        listed.push(ListedEvent {
            name: format!("{system}:{name}"),
            trace_name,
            fields,
            help,
        });
    }
    listed
}

/// The system calls that `pattern` means, all without one; in the order of their names. The pattern may be of the name that programs
/// know.
pub fn syscalls(architecture: Architecture, pattern: Option<&str>) -> Vec<ListedSyscall> {
    let mut listed = BTreeMap::new();
    for table in [Table::Native, Table::Compat] {
        let is_meant = |name| pattern.is_none_or(|pattern| matches(pattern, name));
        for call in architecture
            .all(table)
            .filter(|call| is_meant(call.name) || is_meant(call.program_name))
        {
            let arguments = call.arguments.iter().map(|argument| ListedField {
                name: argument.name.to_owned(),
                type_text: argument.type_text.to_owned(),
            });
            let listed = listed.entry(call.name).or_insert_with(|| ListedSyscall {
                name: call.name,
                number: None,
                compat_number: None,
                arguments: arguments.collect(),
            });
            match table {
                Table::Native => listed.number = Some(call.number),
                Table::Compat => listed.compat_number = Some(call.number),
            }
        }
    }
    listed.into_values().collect()
}

fn type_text(field: &FieldFormat) -> String {
    let integer = match &field.kind {
        FieldKind::Integer { element, base } => element_text(*element, *base),
        FieldKind::Array { element, base, count } => return format!("{}[{count}]", element_text(*element, *base)),
        FieldKind::Text => return format!("char[{}]", field.bytes),
        FieldKind::Bytes => return format!("bytes[{}]", field.bytes),
        FieldKind::Dynamic { content, .. } | FieldKind::Tail { content } => {
            return match content {
                Content::Text => "string".to_owned(),
                Content::Elements { element, base } => element_text(*element, *base) + "[]",
                Content::Mask => "mask".to_owned(),
                Content::Bytes => "bytes[]".to_owned(),
            };
        }
    };
    match &field.names {
        Some(names) => named_text(&integer, names),
        None => integer,
    }
}

fn named_text(integer: &str, names: &ValueNames) -> String {
    let kind = if names.is_flags { "flags" } else { "enum" };
    let label = |Label { name, value }: &Label| match names.is_flags {
        true => format!("{name} = {value:#x}"),
        false => format!("{name} = {value}"),
    };
    let labels: Vec<_> = names.labels.iter().map(label).collect();
    format!("{kind} {integer} {{{}}}", labels.join(", "))
}

fn element_text(element: Element, base: Base) -> String {
    let bits = 8 * element.bytes();
    match (element, base) {
        (Element::Float32 | Element::Float64, _) => format!("float{bits}"),
        (_, Base::Hex) => format!("hex{bits}"),
        (_, Base::Octal) => format!("octal{bits}"),
        (Element::Int8 | Element::Int16 | Element::Int32 | Element::Int64, _) => format!("int{bits}"),
        (Element::Uint8 | Element::Uint16 | Element::Uint32 | Element::Uint64, _) => format!("uint{bits}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const X86_64: Architecture = Architecture::named("x86_64");
    use std::fs;

    #[test]
    fn events_are_listed_with_types_that_people_read() {
        let folder = tempfile::tempdir().unwrap();
        let event = folder.path().join("irq/softirq_entry");
        fs::create_dir_all(&event).unwrap();
        fs::write(event.join("enable"), "0").unwrap();
        let fields = [
            "unsigned int vec;\toffset:8;\tsize:4;\tsigned:0;",
            "unsigned long flags;\toffset:16;\tsize:8;\tsigned:0;",
            "__data_loc char[] name;\toffset:24;\tsize:4;\tsigned:0;",
            "__data_loc cpumask_t cpus;\toffset:28;\tsize:4;\tsigned:0;",
            "char comm[16];\toffset:32;\tsize:16;\tsigned:0;",
            "__u8 addr[4];\toffset:48;\tsize:4;\tsigned:0;",
        ];
        let print = r#""%s %s", __print_symbolic(REC->vec, { 0, "HI" }, { 1, "TIMER" }), __print_flags(REC->flags, "|", { 1 << 4, "NEW" })"#;
        let text = format!(
            "name: softirq_entry\nID: 1\n\tfield:{}\nprint fmt: {print}\n",
            fields.join("\n\tfield:")
        );
        fs::write(event.join("format"), text).unwrap();
        let catalog = Catalog::read_folder(folder.path()).unwrap();
        let layout = Layout::new(catalog.names());

        assert_eq!(events(&catalog, &layout, Some("sched:*")), []);
        let listed = events(&catalog, &layout, Some("irq_softirq*"));
        let [event] = &listed[..] else { panic!("{listed:?}") };
        assert_eq!(
            (event.name.as_str(), event.trace_name.as_str()),
            ("irq:softirq_entry", "irq_softirq_entry")
        );
        assert_eq!(event.help, "Work that interrupts deferred begins; shows which kind.");
        let fields: Vec<_> = event
            .fields
            .iter()
            .map(|field| format!("{}: {}", field.name, field.type_text))
            .collect();
        let expected = [
            "vec: enum uint32 {HI = 0, TIMER = 1}",
            "flags: flags hex64 {NEW = 0x10}",
            "name: string",
            "cpus: mask",
            "comm: char[16]",
            "addr: uint8[4]",
        ];
        assert_eq!(fields, expected);
    }

    #[test]
    fn a_system_call_is_listed_once_with_both_numbers() {
        let listed = syscalls(X86_64, Some("fstat"));
        let [call] = &listed[..] else { panic!("{listed:?}") };
        assert_eq!(
            (call.name, call.number, call.compat_number),
            ("newfstat", Some(5), Some(108))
        );
        let listed = syscalls(X86_64, Some("waitpid"));
        assert_eq!((listed[0].number, listed[0].compat_number), (None, Some(7)));
        assert_eq!(listed[0].arguments[1].type_text, "int *");
        assert!(syscalls(X86_64, None).len() > 400);
    }
}
