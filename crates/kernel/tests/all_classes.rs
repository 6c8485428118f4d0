// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trace with a class for every event of the running kernel and every system call: babeltrace2 reads its metadata. Needs tracefs,
//! hence mostly root, and babeltrace2.

mod real;

use std::fs;
use std::process::Command;

use piste_ctf::metadata::Form;
use piste_ctf::packet::{KERNEL_HEADER_BYTES, KernelHeader};
use piste_ctf::{Base, Clock, Element, EventClass, Field, FieldKind, NO_LEVEL, StreamClass, Trace, metadata};
use piste_kernel::catalog::Catalog;
use piste_kernel::format::{Content, FieldFormat, FieldKind as Kind};
use piste_syscalls::{Architecture, Table};

#[test]
fn every_class_is_read() {
    let Some(tracefs) = real::tracefs() else { return };
    let catalog = Catalog::read(&tracefs).expect("the events are listed");
    let mut classes = Vec::new();
    for (system, name) in catalog.names() {
        // Events of others' probes come and go.
        let Ok(format) = catalog.by_name(system, name) else {
            continue;
        };
        let fields = format.common.iter().chain(&format.fields);
        classes.push((format.name.clone(), fields.map(field).collect()));
    }
    let events = classes.len();
    assert!(events > 500, "{events} events");
    for (table, prefix) in [(Table::Native, ""), (Table::Compat, "compat_")] {
        for call in Architecture::HERE.all(table) {
            let arguments = call.arguments.iter().map(|argument| Field {
                name: argument.name.to_owned(),
                kind: FieldKind::Scalar {
                    element: argument.element,
                    base: argument.base,
                },
            });
            classes.push((format!("{prefix}syscall_entry_{}", call.name), arguments.collect()));
        }
    }
    let trace = trace_of(&classes);
    let output = Command::new("babeltrace2")
        .arg(trace.path())
        .args(["--component=sink.text.details", "--params=with-trace-name=no"])
        .output()
        .expect("babeltrace2 is needed (Debian: apt install babeltrace2)");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let text = String::from_utf8_lossy(&output.stdout);
    let shown = text
        .split("Event class `")
        .skip(1)
        .filter_map(|rest| rest.split_once('`'));
    let mut shown: Vec<&str> = shown.map(|(name, _)| name).collect();
    let mut expected: Vec<&str> = classes.iter().map(|(name, _)| name.as_str()).collect();
    shown.sort_unstable();
    expected.sort_unstable();
    assert_eq!(shown, expected);
}

/// A trace of these classes with one empty packet.
fn trace_of(classes: &[(String, Vec<Field>)]) -> tempfile::TempDir {
    let trace = Trace {
        uuid: [7; 16],
        clock: Clock {
            name: "monotonic".to_owned(),
            uuid: [8; 16],
            frequency_hz: 1_000_000_000,
            offset_seconds: 0,
            offset_ticks: 0,
            description: String::new(),
        },
        environment: Vec::new(),
    };
    let tid = FieldKind::Scalar {
        element: Element::Int32,
        base: Base::Decimal,
    };
    let stream = StreamClass {
        id: 0,
        channel: "default".to_owned(),
        contexts: vec![Field {
            name: "tid".to_owned(),
            kind: tid,
        }],
    };
    let mut text = metadata::opening(&trace, Form::Kernel) + &metadata::stream_class(&stream);
    for (id, (name, fields)) in classes.iter().enumerate() {
        let class = EventClass {
            id: id as u32,
            name: name.clone(),
            level: NO_LEVEL,
            contexts: vec![],
            fields: fields.clone(),
        };
        text += &metadata::event_class(stream.id, &class);
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("metadata"), text).expect("metadata is written");
    let header = KernelHeader {
        trace_uuid: trace.uuid,
        content_bits: 8 * KERNEL_HEADER_BYTES as u64,
        packet_bits: 8 * KERNEL_HEADER_BYTES as u64,
        ..KernelHeader::default()
    };
    fs::write(folder.path().join("default_0"), header.encode()).expect("a stream is written");
    folder
}

/// What a field is in a trace when nothing is done to it.
fn field(format: &FieldFormat) -> Field {
    let kind = match (&format.kind, &format.names) {
        (&Kind::Integer { element, base }, Some(names)) => FieldKind::Named {
            element,
            base,
            labels: names.labels.clone(),
        },
        (&Kind::Integer { element, base }, None) => FieldKind::Scalar { element, base },
        (&Kind::Array { element, base, count }, _) => FieldKind::Array { element, base, count },
        (Kind::Text, _) => FieldKind::FixedText { bytes: format.bytes },
        (Kind::Dynamic { content, .. } | Kind::Tail { content }, _) => match *content {
            Content::Text => FieldKind::String,
            Content::Elements { element, base } => FieldKind::Sequence { element, base },
            Content::Mask => sequence_of_bits(Element::Uint64),
            Content::Bytes => sequence_of_bits(Element::Uint8),
        },
        (Kind::Bytes, _) => FieldKind::Array {
            element: Element::Uint8,
            base: Base::Hex,
            count: format.bytes,
        },
    };
    Field {
        name: format.name.clone(),
        kind,
    }
}

fn sequence_of_bits(element: Element) -> FieldKind {
    FieldKind::Sequence {
        element,
        base: Base::Hex,
    }
}
