// SPDX-License-Identifier: MIT OR Apache-2.0
//! Times, contexts, losses, the index, and packets that were damaged.

use std::fs;

use fastrand::Rng;

use crate::writer::{Writer, contexts, counted, event, scalar, sequence, store, stream, vtid};
use crate::{NONE, babeltrace2, line, read, write};
use piste_ctf::packet::HEADER_BYTES;
use piste_ctf::{Element, EventClass, FieldKind, Layouts};

const WRAP: u64 = 1 << 27;

#[test]
fn times_contexts_and_losses_are_read() {
    let begin = 5 * WRAP - 3;
    let classes = vec![
        event(0, "t:a", &[]),
        event(30, "t:b", &[("n", scalar(Element::Uint8))]),
        event(31, "t:c", &[]),
    ];
    let mut first = Writer::new(&contexts(), begin);
    first
        .compact(0, begin, b"")
        .compact(30, begin + 1, b"x")
        .compact(0, begin + 2 + WRAP / 2, b"");
    first
        .extended(31, begin + 4 * WRAP, b"")
        .compact(0, begin + 4 * WRAP, b"")
        .extended(0, begin + 4 * WRAP + 1, b"");
    let mut second = Writer::new(&contexts(), begin + 9 * WRAP);
    second.compact(30, begin + 9 * WRAP, b"y");
    let empty = Writer::new(&contexts(), begin + 9 * WRAP);
    let packets = [first.finish(3, 0, 0), second.finish(3, 1, 0), empty.finish(3, 2, 4)].concat();
    let mut vtid_only = Writer::new(&[vtid()], begin);
    vtid_only.compact(0, begin + 5, b"");
    let streams = [
        (stream(3, &contexts()), classes),
        (stream(4, &[vtid()]), vec![event(0, "t:vtid", &[])]),
    ];
    let (text, complaints) = read(&streams, &[packets, vtid_only.finish(4, 0, 0)]);
    let expected = [
        (begin, "a: C, { }"),
        (begin + 1, "b: C, { n = 120 }"),
        (begin + 5, "vtid: { vtid = 1234 }, { }"),
        (begin + 2 + WRAP / 2, "a: C, { }"),
        (begin + 4 * WRAP, "c: C, { }"),
        (begin + 4 * WRAP, "a: C, { }"),
        (begin + 4 * WRAP + 1, "a: C, { }"),
        (begin + 9 * WRAP, "b: C, { n = 121 }"),
    ]
    .map(|(ticks, shown)| {
        let (name, rest) = shown.split_once(": ").expect("a name and the rest");
        line(
            ticks,
            &format!("TRACE_DEBUG_LINE (13) t:{name}"),
            &rest.replace('C', "{ vtid = 1234, cpu_id = 3 }"),
        )
    });
    assert_eq!(text, expected.concat());
    assert!(complaints.contains("Tracer discarded 4 events"), "{complaints}");
}

#[test]
fn the_trace_and_its_clock_are_read() {
    let folder = write(
        &[(stream(0, NONE), vec![event(0, "t:a", &[])])],
        &[Writer::new(NONE, 1).finish(0, 0, 0)],
    );
    let (text, complaints) = babeltrace2(&["--component=sink.text.details"], folder.path());
    assert_eq!(complaints, "");
    for line in [
        "Name: x86_tsc",
        "Description: the \"time stamp\" counter",
        "Frequency (Hz): 1,000,000,000",
        "Offset (s): 1,700,000,000",
        "Offset (cycles): 5",
        "UUID: 626f6f74-2069-642c-2031-362062797465",
        "UUID: 00112233-4455-6677-8899-aabbccddeeff",
        "domain: ust",
        "tracer_name: lttng-ust",
        "tracer_major: 2",
    ] {
        assert!(
            text.lines().any(|shown| shown.trim() == line),
            "{line:?} is not in\n{text}"
        );
    }
}

#[test]
fn an_index_that_is_wrong_would_be_noticed() {
    let folder = write(&[(stream(0, NONE), vec![])], &[Writer::new(NONE, 1).finish(0, 0, 0)]);
    fs::write(folder.path().join("index/channel_0.idx"), [0; 88]).expect("an index is written");
    let (_, complaints) = babeltrace2(&[], folder.path());
    assert!(complaints.contains("Invalid LTTng trace index"), "{complaints}");
}

fn damage_classes() -> Vec<EventClass> {
    vec![
        event(0, "t:empty", &[]),
        event(1, "t:number", &[("n", scalar(Element::Uint32))]),
        event(
            2,
            "t:string",
            &[("s", FieldKind::String), ("n", scalar(Element::Uint16))],
        ),
        event(3, "t:text", &[("t", FieldKind::Text), ("q", sequence(Element::Uint64))]),
        event(40, "t:extended", &[("n", scalar(Element::Uint8))]),
    ]
}

fn damage_layouts() -> Layouts {
    let mut layouts = Layouts::new(contexts());
    damage_classes().iter().for_each(|class| layouts.insert(class));
    layouts
}

/// A packet with ten records of each of these, and as many more numbers.
fn packet_to_damage() -> Writer {
    let mut w = Writer::new(&contexts(), 1000);
    for ticks in (1000..1100).step_by(10) {
        w.compact(0, ticks, b"")
            .compact(1, ticks + 1, b"1234")
            .compact(2, ticks + 2, b"ada\0--");
        w.compact(
            3,
            ticks + 3,
            &[&counted(b"text")[..], &2u32.to_le_bytes(), &[1; 16]].concat(),
        );
        w.extended(40, ticks + 4, b"x").compact(1, ticks + 5, b"1234");
    }
    w
}

#[test]
fn what_begins_before_its_first_record_is_read() {
    let w = packet_to_damage();
    let checked = damage_layouts().check(&w.packet, w.packet.len() as u32, 900, 1 << 40);
    assert_eq!((checked.records, checked.last_ticks, checked.fault), (60, 1095, None));
    let stored = store(&w.packet, 0, 0, 0, checked.content_bytes as usize, [900, 1095]);
    let (text, complaints) = read(&[(stream(0, &contexts()), damage_classes())], &[stored]);
    assert_eq!((text.lines().count(), complaints.as_str()), (60, ""));
    let starts = |line: Option<&str>, time: &str| line.is_some_and(|line| line.starts_with(time));
    assert!(starts(text.lines().next(), "[1700000000.000001005]"), "{text}");
    assert!(starts(text.lines().last(), "[1700000000.000001100]"), "{text}");
}

#[test]
fn what_was_checked_is_read_without_complaint_whatever_the_damage() {
    let layouts = damage_layouts();
    let mut streams = Vec::new();
    let (mut records, mut faults) = (0, 0);
    for seed in 0..400 {
        let mut random = Rng::with_seed(seed);
        let mut w = packet_to_damage();
        for _ in 0..1 + random.usize(..3) {
            let at = HEADER_BYTES + random.usize(..w.packet.len() - HEADER_BYTES);
            w.packet[at] = [random.u8(..), 0, 3, 0xff][random.usize(..4)];
        }
        let begin_ticks = [900, 1000][random.usize(..2)];
        let checked = layouts.check(&w.packet, w.packet.len() as u32, begin_ticks, 1 << 40);
        records += checked.records as usize;
        faults += u32::from(checked.fault.is_some());
        let mut stored = store(
            &w.packet,
            0,
            0,
            0,
            checked.content_bytes as usize,
            [begin_ticks, checked.last_ticks],
        );
        stored[24..32].copy_from_slice(&u64::to_le_bytes(seed)); // Each its own stream instance.
        streams.push(stored);
    }
    let (text, complaints) = read(&[(stream(0, &contexts()), damage_classes())], &streams);
    assert_eq!(complaints, "");
    assert_eq!(text.lines().count(), records);
    assert!(records > 10_000, "most of the records are good: {records}");
    assert!(faults > 100, "much of the damage is found: {faults}");
}
