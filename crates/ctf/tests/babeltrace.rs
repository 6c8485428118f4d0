// SPDX-License-Identifier: MIT OR Apache-2.0
//! What babeltrace2 reads out of the bytes and the text that this crate makes. Needs babeltrace2 (Debian: apt install babeltrace2).

mod writer;

use std::fs;
use std::process::Command;

use piste_ctf::packet::HEADER_BYTES;
use piste_ctf::{Base, Contexts, Element, EventClass, FieldKind, Label, Layouts, StreamClass, metadata};
use writer::{CONTEXTS, MARK, Random, Writer, array, counted, event, hex, scalar, sequence, store, stream, trace};

const NONE: Contexts = Contexts {
    vtid: false,
    cpu_id: false,
};
const WRAP: u64 = 1 << 27;

/// Writes a trace of stream files, each with its packets one after the other, and returns babeltrace2's text and complaints.
fn read(classes: &[(StreamClass, Vec<EventClass>)], streams: &[Vec<u8>]) -> (String, String) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut text = metadata::opening(&trace());
    for (stream, events) in classes {
        text += &metadata::stream_class(stream);
        text.extend(events.iter().map(|event| metadata::event_class(stream, event)));
    }
    fs::write(folder.path().join("metadata"), text).expect("metadata is written");
    for (index, bytes) in streams.iter().enumerate() {
        fs::write(folder.path().join(format!("stream_{index}")), bytes).expect("a stream is written");
    }
    let output = Command::new("babeltrace2")
        .args(["--clock-seconds", "--no-delta", "--fields=loglevel"])
        .arg(folder.path())
        .output()
        .expect("babeltrace2 is needed (Debian: apt install babeltrace2)");
    let folder = folder.path().to_string_lossy().into_owned();
    let complaints = String::from_utf8_lossy(&output.stderr).replace(&folder, "DIR");
    (String::from_utf8_lossy(&output.stdout).into_owned(), complaints)
}

/// Reads one packet of one event in a stream without contexts; returns what stands between the braces of the fields.
fn fields(class: EventClass, bytes: &[u8]) -> String {
    let mut w = Writer::new(NONE, 1);
    w.compact(class.id, 1, bytes);
    let (text, complaints) = read(&[(stream(0, NONE), vec![class])], &[w.finish(0, 0, 0)]);
    assert_eq!(complaints, "");
    let (_, fields) = text.split_once("vpid = 4321 }, ").expect("the packet context is shown");
    fields.trim_end_matches('\n').to_owned()
}

#[test]
fn every_element_is_read() {
    let values: Vec<u8> = [
        &(-8i8).to_le_bytes()[..],
        &(-1616i16).to_le_bytes(),
        &(-323232i32).to_le_bytes(),
        &i64::MIN.to_le_bytes(),
        &200u8.to_le_bytes(),
        &60000u16.to_le_bytes(),
        &4_000_000_000u32.to_le_bytes(),
        &u64::MAX.to_le_bytes(),
        &1.5f32.to_le_bytes(),
        &(-0.1f64).to_le_bytes(),
    ]
    .concat();
    let class = event(
        0,
        "t:elements",
        &[
            ("i8", scalar(Element::Int8)),
            ("i16", scalar(Element::Int16)),
            ("i32", scalar(Element::Int32)),
            ("i64", scalar(Element::Int64)),
            ("u8", scalar(Element::Uint8)),
            ("u16", scalar(Element::Uint16)),
            ("u32", scalar(Element::Uint32)),
            ("u64", scalar(Element::Uint64)),
            ("f32", scalar(Element::Float32)),
            ("f64", scalar(Element::Float64)),
        ],
    );
    assert_eq!(
        fields(class, &values),
        "{ i8 = -8, i16 = -1616, i32 = -323232, i64 = -9223372036854775808, u8 = 200, u16 = 60000, u32 = 4000000000, \
         u64 = 18446744073709551615, f32 = 1.5, f64 = -0.1 }"
    );
}

#[test]
fn hexadecimal_elements_are_shown_so() {
    let array = FieldKind::Array {
        element: Element::Uint8,
        base: Base::Hex,
        count: 2,
    };
    let sequence = FieldKind::Sequence {
        element: Element::Uint16,
        base: Base::Hex,
    };
    let class = event(
        0,
        "t:hex",
        &[
            ("p", hex(Element::Uint64)),
            ("i", hex(Element::Int16)),
            ("a", array),
            ("s", sequence),
        ],
    );
    let bytes = [
        &0x7fff_0000_1234u64.to_le_bytes()[..],
        &(-2i16).to_le_bytes(),
        &[10, 255],
        &[1, 0, 0, 0, 0xcd, 0xab],
    ];
    assert_eq!(
        fields(class, &bytes.concat()),
        "{ p = 0x7FFF00001234, i = 0xFFFE, a = [ [0] = 0xA, [1] = 0xFF ], _s_length = 1, s = [ [0] = 0xABCD ] }"
    );
}

#[test]
fn arrays_and_sequences_are_read() {
    let class = event(
        0,
        "t:many",
        &[
            ("array", array(Element::Int16, 3)),
            ("none", array(Element::Int64, 0)),
            ("floats", array(Element::Float32, 2)),
            ("sequence", sequence(Element::Uint64)),
            ("empty", sequence(Element::Float64)),
            ("last", scalar(Element::Uint8)),
        ],
    );
    let bytes = [
        &[1, 0, 2, 0, 0xff, 0xff][..],
        &0.5f32.to_le_bytes(),
        &2.5f32.to_le_bytes(),
        &2u32.to_le_bytes(),
        &7u64.to_le_bytes(),
        &8u64.to_le_bytes(),
        &0u32.to_le_bytes(),
        &[9],
    ];
    assert_eq!(
        fields(class, &bytes.concat()),
        "{ array = [ [0] = 1, [1] = 2, [2] = -1 ], none = [ ], floats = [ [0] = 0.5, [1] = 2.5 ], _sequence_length = 2, \
         sequence = [ [0] = 7, [1] = 8 ], _empty_length = 0, empty = [ ], last = 9 }"
    );
}

#[test]
fn texts_and_strings_are_read() {
    let fields_of = [
        ("t", FieldKind::Text),
        ("s", FieldKind::String),
        ("e", FieldKind::Text),
        ("z", FieldKind::String),
    ];
    let bytes = [
        &counted("à la \"carte\"".as_bytes())[..],
        "naïve\n\0".as_bytes(),
        &counted(b""),
        b"\0",
    ]
    .concat();
    assert_eq!(
        fields(event(0, "t:strings", &fields_of), &bytes),
        r#"{ _t_length = 13, t = "à la \"carte\"", s = "naïve\n", _e_length = 0, e = "", z = "" }"#
    );
    let bytes = [&counted(b"a\0b\xff\xfe")[..], b"\xc3\x28\0", &counted(b"\0"), b"\0"].concat();
    let text = fields(event(0, "t:strings", &fields_of), &bytes);
    assert!(text.starts_with("{ _t_length = 5, t = \"a\", s = \""), "{text}");
}

#[test]
fn enumerations_are_read() {
    let label = |name: &str, value| Label {
        name: name.to_owned(),
        value,
    };
    let labels = vec![
        label("ok", 0),
        label("\"quoted\\\"\n", 1),
        label("negative", -5),
        label("twice", 2),
        label("twice", 3),
        label("same", 2),
        label("unsigned", 0xffff_ffff),
        label("lowest", i32::MIN.into()),
        label("", 9),
    ];
    let fields_of: Vec<_> = ["a", "b", "c", "d", "e", "f", "g", "h"]
        .map(|name| (name, FieldKind::Enum { labels: labels.clone() }))
        .into();
    let bytes = [0, 1, -5, 2, 3, -1, i32::MIN, 77].map(i32::to_le_bytes).concat();
    assert_eq!(
        fields(event(0, "t:enum", &fields_of), &bytes),
        r#"{ a = ( "ok" : container = 0 ), b = ( "\"quoted\\\"\n" : container = 1 ), "#.to_owned()
            + r#"c = ( "negative" : container = -5 ), d = ( "twice", "same" : container = 2 ), "#
            + r#"e = ( "twice" : container = 3 ), f = ( "unsigned" : container = -1 ), "#
            + r#"g = ( "lowest" : container = -2147483648 ), h = ( <unknown> : container = 77 ) }"#
    );
    assert_eq!(
        fields(
            event(0, "t:enum", &[("e", FieldKind::Enum { labels: vec![] })]),
            &[4, 0, 0, 0]
        ),
        "{ e = 4 }"
    );
}

#[test]
fn names_may_be_anything() {
    let number = || scalar(Element::Uint8);
    let names = [
        ("int", "int"),
        ("Bool", "Bool_2"),
        ("", "unnamed"),
        ("twice", "twice"),
        ("twice", "twice_2"),
        ("twice", "twice_3"),
        ("twice_2", "twice_2_2"),
        ("a-b c\"d\n};", "a_b_c_d___"),
        ("é", "_"),
        ("9", "9"),
        ("_under", "_under"),
        ("event.fields", "event_fields"),
        ("a\\0b", "a_0b"),
    ];
    let fields_of: Vec<_> = names.map(|(name, _)| (name, number())).into();
    let expected = names.map(|(_, shown)| format!("{shown} = 1")).join(", ");
    assert_eq!(
        fields(event(0, "t:names", &fields_of), &[1; 13]),
        format!("{{ {expected} }}")
    );
}

#[test]
fn lengths_and_fields_of_the_same_name_stay_apart() {
    let fields_of = [
        ("_a_length", scalar(Element::Uint8)),
        ("a", sequence(Element::Uint8)),
        ("a", FieldKind::Text),
        ("_a_3_length", scalar(Element::Uint8)),
    ];
    let bytes = [&[7][..], &counted(&[1]), &counted(b"text"), &[8]].concat();
    assert_eq!(
        fields(event(0, "t:lengths", &fields_of), &bytes),
        "{ _a_length = 7, _a_2_length = 1, a_2 = [ [0] = 1 ], _a_3_length = 4, a_3 = \"text\", _a_3_length_2 = 8 }"
    );
}

#[test]
fn events_are_shown_under_their_names_and_levels() {
    let events = [
        (0, "shop:order", "TRACE_EMERG (0) shop:order"),
        (14, "a \"quoted\" one", "TRACE_DEBUG (14) a \"quoted\" one"),
        (15, "back\\slash", "back\\slash"),
        (13, "{};/* */", "TRACE_DEBUG_LINE (13) {};/* */"),
        (13, "naïve 名前", "TRACE_DEBUG_LINE (13) naïve 名前"),
        (13, "tab\t1", "TRACE_DEBUG_LINE (13) tab\t1"),
        (13, "nul\0nul", "TRACE_DEBUG_LINE (13) nul\u{fffd}nul"),
        (13, "", "TRACE_DEBUG_LINE (13) <unknown>"),
    ];
    let classes: Vec<_> = (0..)
        .zip(events)
        .map(|(id, (level, name, _))| EventClass {
            level,
            ..event(id, name, &[])
        })
        .collect();
    let mut w = Writer::new(NONE, 1);
    for class in &classes {
        w.compact(class.id, 1, b"");
    }
    let (text, complaints) = read(&[(stream(0, NONE), classes)], &[w.finish(0, 0, 0)]);
    assert_eq!(complaints, "");
    let expected = events.map(|(_, _, shown)| line(1, shown, "{ }"));
    assert_eq!(text, expected.concat());
}

/// A line of babeltrace2's text. The clock's offset is 5 ticks, a tick is a nanosecond.
fn line(ticks: u64, event: &str, rest: &str) -> String {
    let (seconds, nanoseconds) = (1_700_000_000 + (ticks + 5) / 1_000_000_000, (ticks + 5) % 1_000_000_000);
    format!("[{seconds}.{nanoseconds:09}] {event}: {{ cpu_id = 4294967295, vpid = 4321 }}, {rest}\n")
}

#[test]
fn times_contexts_and_losses_are_read() {
    let begin = 5 * WRAP - 3;
    let classes = vec![
        event(0, "t:a", &[]),
        event(30, "t:b", &[("n", scalar(Element::Uint8))]),
        event(31, "t:c", &[]),
    ];
    let mut first = Writer::new(CONTEXTS, begin);
    first
        .compact(0, begin, b"")
        .compact(30, begin + 1, b"x")
        .compact(0, begin + 2 + WRAP / 2, b"");
    first
        .extended(31, begin + 4 * WRAP, b"")
        .compact(0, begin + 4 * WRAP, b"")
        .extended(0, begin + 4 * WRAP + 1, b"");
    let mut second = Writer::new(CONTEXTS, begin + 9 * WRAP);
    second.compact(30, begin + 9 * WRAP, b"y");
    let empty = Writer::new(CONTEXTS, begin + 9 * WRAP);
    let packets = [first.finish(3, 0, 0), second.finish(3, 1, 0), empty.finish(3, 2, 4)].concat();
    let mut vtid_only = Writer::new(
        Contexts {
            vtid: true,
            cpu_id: false,
        },
        begin,
    );
    vtid_only.compact(0, begin + 5, b"");
    let streams = [
        (stream(3, CONTEXTS), classes),
        (
            stream(
                4,
                Contexts {
                    vtid: true,
                    cpu_id: false,
                },
            ),
            vec![event(0, "t:vtid", &[])],
        ),
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

/// A packet with all of these and holes, the first record committed.
fn packet_with_holes() -> Writer {
    let mut w = Writer::new(CONTEXTS, 1000);
    for ticks in (1000..1100).step_by(10) {
        w.compact(0, ticks, b"")
            .compact(1, ticks + 1, b"1234")
            .compact(2, ticks + 2, b"ada\0--")
            .hole(3, 0x55);
        w.compact(
            3,
            ticks + 3,
            &[&counted(b"text")[..], &2u32.to_le_bytes(), &[1; 16]].concat(),
        );
        w.extended(40, ticks + 4, b"x")
            .hole(1, 0)
            .compact(1, ticks + 5, b"1234");
    }
    w
}

#[test]
fn what_is_recovered_is_read() {
    let mut layouts = Layouts::new(CONTEXTS);
    damage_classes().iter().for_each(|class| layouts.insert(class));
    let mut w = packet_with_holes();
    let recovered = layouts.recover(&mut w.packet, &w.marks, MARK, 0, 1 << 40);
    assert_eq!(
        (recovered.checked.records, recovered.holes, recovered.checked.fault),
        (60, 20, None)
    );
    let times = [recovered.begin_ticks, recovered.checked.last_ticks];
    let stored = store(&w.packet, 0, 0, 0, recovered.checked.content_bytes as usize, times);
    let (text, complaints) = read(&[(stream(0, CONTEXTS), damage_classes())], &[stored]);
    assert_eq!((text.lines().count(), complaints.as_str()), (60, ""));
    assert!(
        text.lines()
            .last()
            .is_some_and(|line| line.starts_with("[1700000000.000001100]")),
        "{text}"
    );
}

#[test]
fn what_was_checked_is_read_without_complaint_whatever_the_damage() {
    let mut layouts = Layouts::new(CONTEXTS);
    damage_classes().iter().for_each(|class| layouts.insert(class));
    let limit_ticks = 1 << 40;
    let mut streams = Vec::new();
    let mut records = 0;
    for seed in 0..400 {
        let mut random = Random(seed);
        let mut w = packet_with_holes();
        for _ in 0..1 + random.below(3) {
            let at = HEADER_BYTES + random.below(w.packet.len() - HEADER_BYTES);
            w.packet[at] = [random.next() as u8, 0, 3, 0xff][random.below(4)];
        }
        let (checked, begin_ticks) = if seed % 2 == 0 {
            let recovered = layouts.recover(&mut w.packet, &w.marks, MARK, 0, limit_ticks);
            (recovered.checked, recovered.begin_ticks)
        } else {
            (layouts.check(&w.packet, w.packet.len() as u32, 1000, limit_ticks), 1000)
        };
        records += checked.records as usize;
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
    let (text, complaints) = read(&[(stream(0, CONTEXTS), damage_classes())], &streams);
    assert_eq!(complaints, "");
    assert_eq!(text.lines().count(), records);
    assert!(records > 10_000, "most of the records are good: {records}");
}
