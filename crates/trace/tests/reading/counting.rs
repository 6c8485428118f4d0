// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counting passes over events by guesses and leaps; it counts what was written, for headers and events of many shapes, in order and in none.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use fastrand::Rng;
use piste_trace::count::{StreamCounts, count};
use piste_trace::{Findings, Merge, Span, open};

use crate::notation::Trace;
use crate::random::one_of;
use crate::test_trace::TestTrace;

/// A form of events' headers: as metadata has it, and how one is written.
struct Header {
    fields: &'static str,
    /// Of an event's id, its time, and the time before.
    write: fn(u64, u64, u64) -> String,
    id_max: u64,
}

const HEADERS: [Header; 4] = [
    Header {
        fields: "struct { enum : integer { size = 5; } { compact = 0 ... 30, extended = 31 } id; variant <id> { \
                 struct { integer { size = 27; map = clock.c.value; } t; } compact; \
                 struct { integer { size = 32; align = 8; } id; integer { size = 64; align = 8; map = clock.c.value; } t; } extended; \
                 } v; } align(8)",
        write: |id, time, before| short_or_long(id, time, before, "align:8"),
        id_max: u64::MAX,
    },
    Header {
        fields: "struct { enum : integer { size = 5; } { compact = 0 ... 30, extended = 31 } id; variant <id> { \
                 struct { integer { size = 27; map = clock.c.value; } t; } compact; \
                 struct { integer { size = 32; align = 8; } id; integer { size = 64; align = 8; map = clock.c.value; } t; } extended; \
                 } v; } align(32)",
        write: |id, time, before| short_or_long(id, time, before, "align:32"),
        id_max: u64::MAX,
    },
    Header {
        fields: "struct { integer { size = 16; align = 8; } id; integer { size = 32; align = 8; map = clock.c.value; } t; }",
        write: |id, time, _| format!("align:8 u16:{id} u32:{}", time & 0xffff_ffff),
        id_max: 0xffff,
    },
    // The id is not among the first eight bytes.
    Header {
        fields: "struct { integer { size = 64; align = 8; map = clock.c.value; } t; integer { size = 32; align = 8; } id; }",
        write: |id, time, _| format!("align:8 u64:{time} u32:{id}"),
        id_max: u64::MAX,
    },
];

fn short_or_long(id: u64, time: u64, before: u64, align: &str) -> String {
    match id < 31 && time - before < 1 << 27 {
        true => format!("{align} u5:{id} u27:{}", time & 0x7ff_ffff),
        false => format!("{align} u5:31 align:8 u32:{id} u64:{time}"),
    }
}

/// A class of events: class of streams, id, name, fields, and how they are written with a number.
type Class = (u64, u64, &'static str, &'static str, fn(usize) -> String);

const CLASSES: [Class; 9] = [
    (0, 0, "byte", "integer { size = 8; } a;", |number| {
        format!("u8:{}", number % 256)
    }),
    (0, 1, "text", "string a;", |number| {
        format!("\"{}\\0\"", "x".repeat(number % 50))
    }),
    (
        0,
        2,
        "sequence",
        "integer { size = 16; align = 8; } n; integer { size = 8; } a[n];",
        |number| format!("u16:{} {}", number % 5, "u8:7 ".repeat(number % 5)),
    ),
    (0, 3, "aligned", "integer { size = 64; align = 64; } a;", |number| {
        format!("align:64 u64:{number}")
    }),
    (0, 40, "empty", "", |_| String::new()),
    (0, 5000, "far", "integer { size = 32; align = 8; } a;", |number| {
        format!("u32:{number}")
    }),
    (0, 70000, "farther", "integer { size = 64; align = 8; } a;", |number| {
        format!("u64:{number}")
    }),
    // What has these ids in streams of the other class is of another length.
    (1, 0, "other", "integer { size = 32; align = 8; } a;", |number| {
        format!("u32:{number}")
    }),
    (1, 1, "another", "integer { size = 8; } a[3];", |_| {
        "u8:0 u8:1 u8:2".into()
    }),
];

/// A trace with one file, and what is in it.
fn trace(header: &Header, order: &str, random: &mut Rng) -> (TestTrace, StreamCounts) {
    let classes: Vec<&Class> = CLASSES.iter().filter(|class| class.1 <= header.id_max).collect();
    let word = "integer { size = 32; align = 8; }";
    let mut text = format!(
        "\n--- metadata\ntrace {{ major = 1; minor = 8; byte_order = {order}; \
         packet.header := struct {{ {word} magic; {word} stream_id; }}; }};\nclock {{ name = c; }};\n"
    );
    for stream in 0..2 {
        let context = format!("struct {{ {word} content_size; {word} packet_size; }}");
        let fields = header.fields;
        _ = writeln!(
            text,
            "stream {{ id = {stream}; packet.context := {context}; event.header := {fields}; }};"
        );
    }
    for (stream, id, name, fields, _) in &classes {
        _ = writeln!(
            text,
            "event {{ stream_id = {stream}; id = {id}; name = {name}; fields := struct {{ {fields} }}; }};"
        );
    }
    _ = writeln!(text, "--- stream s\n{order}");
    let mut before = 0;
    let mut expected = StreamCounts::default();
    let mut by_event: BTreeMap<String, u64> = BTreeMap::new();
    for packet in 0..20 {
        let stream = random.usize(..4) as u64 / 3;
        if packet > 0 {
            text += "packet\n";
        }
        _ = writeln!(text, "u32:0xc1fc1fc1 u32:{stream} u32:$content u32:$packet");
        let known: Vec<&&Class> = classes.iter().filter(|class| class.0 == stream).collect();
        for number in 0..random.usize(..100) {
            // Now in turn, now by chance, now all of one.
            let class = match packet % 3 {
                0 => known[number % known.len()],
                1 => known[random.usize(..known.len())],
                _ => known[packet % known.len()],
            };
            let time = before + one_of(&[1, 1, 1, 1000, 1 << 28], random);
            _ = writeln!(text, "{} {}", (header.write)(class.1, time, before), (class.4)(number));
            before = time;
            expected.events += 1;
            *by_event.entry(class.2.to_owned()).or_default() += 1;
            let ns = i64::try_from(time).expect("a time");
            expected.begin_ns = expected.begin_ns.or(Some(ns));
            expected.end_ns = Some(ns);
        }
    }
    expected.by_event = by_event;
    (
        TestTrace::of(&Trace::parse(&text, Path::new("")).expect("a trace")),
        expected,
    )
}

#[test]
fn what_was_written_is_counted() {
    let mut random = Rng::with_seed(1);
    for header in &HEADERS {
        for order in ["le", "be"].repeat(10) {
            let (place, expected) = trace(header, order, &mut random);
            let mut findings = Findings::default();
            let traces = open(&place.folder, &mut findings).expect("it is a trace");
            let counted = count(&traces, 1, &mut findings);
            let what = format!("{order} {}", header.fields);
            assert_eq!(findings.iter().count(), 0, "{what}: {findings:?}");
            assert_eq!(counted, [[expected.clone()]], "{what}");

            // One by one, in windows that hold a few.
            let mut merge = Merge::with_windows(&traces, Span::ALL, 100).expect("its file is there");
            let mut by_event: BTreeMap<String, u64> = BTreeMap::new();
            while let Some(merged) = merge.next() {
                *by_event.entry(merged.event.class.name.to_string()).or_default() += 1;
            }
            assert_eq!(by_event, expected.by_event, "{what}");
        }
    }
}
