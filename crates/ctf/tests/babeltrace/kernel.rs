// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces of the kernel: packets of a CPU, packed records, contexts of any kind, named integers of any width.

use std::fs;

use crate::babeltrace2;
use crate::writer::{TRACE_UUID, event, hex, scalar, trace};
use piste_ctf::metadata::Form;
use piste_ctf::packet::{KERNEL_HEADER_BYTES, KernelHeader};
use piste_ctf::{Base, Element, EventClass, Field, FieldKind, Label, StreamClass, index, metadata, packet::Header};

/// Writes packets of `CPU, records, events discarded`, one a stream, and returns babeltrace2's text and complaints.
fn read(contexts: &[(&str, FieldKind)], classes: &[EventClass], packets: &[(u32, Vec<u8>, u64)]) -> (String, String) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let field = |(name, kind): &(&str, FieldKind)| Field {
        name: (*name).to_owned(),
        kind: kind.clone(),
    };
    let stream = StreamClass {
        id: 3,
        channel: "default".to_owned(),
        contexts: contexts.iter().map(field).collect(),
    };
    let mut text = metadata::opening(&trace(), Form::Kernel) + &metadata::stream_class(&stream);
    text.extend(classes.iter().map(|class| metadata::event_class(stream.id, class)));
    fs::write(folder.path().join("metadata"), text).expect("metadata is written");
    fs::create_dir(folder.path().join("index")).expect("a folder is made");
    for (cpu_id, records, events_discarded) in packets {
        let content_bits = 8 * (KERNEL_HEADER_BYTES + records.len()) as u64;
        let header = KernelHeader {
            trace_uuid: TRACE_UUID,
            stream_id: stream.id,
            stream_instance_id: (*cpu_id).into(),
            timestamp_begin: 100,
            timestamp_end: 900,
            content_bits,
            packet_bits: content_bits + 8 * 11,
            packet_seq_num: 0,
            events_discarded: *events_discarded,
            cpu_id: *cpu_id,
        };
        let name = format!("default_{cpu_id}");
        let packet = [&header.encode()[..], records, &[0xee; 11]].concat();
        fs::write(folder.path().join(&name), packet).expect("a stream is written");
        let entry = index::Entry::of(&Header::from(header), 0).encode();
        let file = [&index::file_header()[..], &entry].concat();
        fs::write(folder.path().join("index").join(name + ".idx"), file).expect("an index is written");
    }
    babeltrace2(&["--clock-cycles", "--no-delta"], folder.path())
}

fn compact(id: u32, ticks: u32, rest: &[u8]) -> Vec<u8> {
    [&(id | ticks << 5).to_le_bytes(), rest].concat()
}

fn extended(id: u32, ticks: u64, rest: &[u8]) -> Vec<u8> {
    [&[31][..], &id.to_le_bytes(), &ticks.to_le_bytes(), rest].concat()
}

/// The fields of one event that babeltrace2 shows.
fn fields(kinds: &[(&str, FieldKind)], bytes: &[u8]) -> String {
    let (text, complaints) = read(&[], &[event(0, "e", kinds)], &[(0, compact(0, 100, bytes), 0)]);
    assert_eq!(complaints, "");
    let (_, fields) = text.split_once("cpu_id = 0 }, ").expect("the packet context is shown");
    fields.trim_end().to_owned()
}

#[test]
fn records_are_packed_and_their_cpu_is_that_of_the_packet() {
    let contexts = [
        ("tid", scalar(Element::Int32)),
        ("interrupt_state", hex(Element::Uint8)),
    ];
    let mut switch = event(0, "sched_switch", &[("prev_comm", FieldKind::FixedText { bytes: 16 })]);
    switch.level = piste_ctf::NO_LEVEL;
    let other = event(1 << 17, "syscall_entry_fork", &[]);
    let tid = [&77i32.to_le_bytes()[..], &[0x41]].concat();
    let first = [
        compact(0, 100, &[&tid[..], b"swapper/0\0\0junk\0"].concat()),
        extended(1 << 17, 101, &tid),
        compact(0, 102, &[&tid[..], b"a name of 16 by."].concat()),
    ];
    let packets = [(0, first.concat(), 0), (5, extended(1 << 17, 400, &tid), 2)];
    let (text, complaints) = read(&contexts, &[switch, other], &packets);
    let shown = "{ tid = 77, interrupt_state = 0x41 }";
    let expected = [
        format!("[00000000000000000100] sched_switch: {{ cpu_id = 0 }}, {shown}, {{ prev_comm = \"swapper/0\" }}\n"),
        format!("[00000000000000000101] syscall_entry_fork: {{ cpu_id = 0 }}, {shown}, {{ }}\n"),
        format!(
            "[00000000000000000102] sched_switch: {{ cpu_id = 0 }}, {shown}, {{ prev_comm = \"a name of 16 by.\" }}\n"
        ),
        format!("[00000000000000000400] syscall_entry_fork: {{ cpu_id = 5 }}, {shown}, {{ }}\n"),
    ];
    assert_eq!(text, expected.concat());
    assert!(complaints.contains("Tracer may have discarded events"), "{complaints}");
}

#[test]
fn integers_of_any_width_have_names() {
    let named = |element, labels: &[(&str, i64)]| FieldKind::Named {
        element,
        base: Base::Decimal,
        labels: labels
            .iter()
            .map(|(name, value)| Label {
                name: (*name).to_owned(),
                value: *value,
            })
            .collect(),
    };
    let kinds = [
        ("u8", named(Element::Uint8, &[("most", -1), ("low", 1)])),
        ("i8", named(Element::Int8, &[("most", 127), ("minus", -1)])),
        ("u16", named(Element::Uint16, &[("inet6", 10)])),
        ("i16", named(Element::Int16, &[("wrapped", 0x8000)])),
        ("u32", named(Element::Uint32, &[("all", 0xffff_ffff)])),
        ("i32", named(Element::Int32, &[("all", 0xffff_ffff)])),
        ("u64", named(Element::Uint64, &[("tree", -6)])),
        ("i64", named(Element::Int64, &[("least", i64::MIN)])),
        ("none", named(Element::Uint64, &[])),
        ("other", named(Element::Uint8, &[("one", 1)])),
    ];
    let bytes = [
        &[255, 255, 10, 0][..],
        &i16::MIN.to_le_bytes(),
        &u32::MAX.to_le_bytes(),
        &(-1i32).to_le_bytes(),
        &(-6i64).to_le_bytes(),
        &i64::MIN.to_le_bytes(),
        &9u64.to_le_bytes(),
        &[3],
    ];
    assert_eq!(
        fields(&kinds, &bytes.concat()),
        r#"{ u8 = ( "most" : container = 255 ), i8 = ( "minus" : container = -1 ), u16 = ( "inet6" : container = 10 ), "#
            .to_owned()
            + r#"i16 = ( "wrapped" : container = -32768 ), u32 = ( "all" : container = 4294967295 ), "#
            + r#"i32 = ( "all" : container = -1 ), u64 = ( "tree" : container = 18446744073709551610 ), "#
            + r#"i64 = ( "least" : container = -9223372036854775808 ), none = 9, other = ( <unknown> : container = 3 ) }"#
    );
}

#[test]
fn modes_of_files_are_octal() {
    let mode = FieldKind::Scalar {
        element: Element::Uint16,
        base: Base::Octal,
    };
    assert_eq!(fields(&[("mode", mode)], &0o644u16.to_le_bytes()), "{ mode = 0644 }");
}
