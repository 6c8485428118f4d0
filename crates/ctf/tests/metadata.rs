// SPDX-License-Identifier: MIT OR Apache-2.0
//! The metadata's text. Whether readers understand it is in babeltrace/.

mod writer;

use piste_ctf::metadata::{self, Form};
use piste_ctf::{Element, Field, FieldKind, Label};
use writer::{contexts, cpu_id, event, scalar, stream, trace};

#[test]
fn the_opening_says_what_the_trace_is() {
    let text = metadata::opening(&trace(), Form::Program);
    assert!(text.starts_with("/* CTF 1.8 */\n"));
    for block in [
        "trace {\n\tmajor = 1;\n\tminor = 8;\n\tuuid = \"00112233-4455-6677-8899-aabbccddeeff\";\n\tbyte_order = le;\n",
        "env {\n\tdomain = \"ust\";\n\ttracer_name = \"lttng-ust\";\n\ttracer_major = 2;\n};\n",
        "clock {\n\tname = \"x86_tsc\";\n\tuuid = \"626f6f74-2069-642c-2031-362062797465\";\n\
         \tdescription = \"the \\\"time stamp\\\" counter\";\n\tfreq = 1000000000;\n\toffset_s = 1700000000;\n\toffset = 5;\n\
         \tabsolute = false;\n};\n",
        "map = clock.x86_tsc.value; } := uint27_clock_t;",
    ] {
        assert!(text.contains(block), "{block}\nis not in\n{text}");
    }
}

#[test]
fn a_stream_class_has_the_contexts_of_its_channel() {
    let head = "stream {\n\tid = 2;\n\tevent.header := struct event_header_compact;\n\tpacket.context := struct packet_context;\n";
    let text = |contexts: &[Field]| metadata::stream_class(&stream(2, contexts));
    assert_eq!(text(&[]), format!("{head}}};\n\n"));
    let integer = |bits, signed, name| {
        format!("\t\tinteger {{ size = {bits}; align = 8; signed = {signed}; encoding = none; base = 10; }} {name};\n")
    };
    let (vtid, cpu) = (integer(32, true, "_vtid"), integer(16, false, "_cpu_id"));
    let context = |fields| format!("\tevent.context := struct {{\n{fields}\t}};\n");
    let both = context(format!("{vtid}{cpu}"));
    assert_eq!(text(&contexts()), format!("{head}{both}}};\n\n"));
    let cpu = context(cpu);
    assert_eq!(text(&[cpu_id()]), format!("{head}{cpu}}};\n\n"));
}

#[test]
fn an_event_class_is_one_block() {
    let labels = vec![
        Label {
            name: "card".to_owned(),
            value: 1,
        },
        Label {
            name: "cash".to_owned(),
            value: -1,
        },
    ];
    let class = event(
        7,
        "shop:order",
        &[
            ("id", scalar(Element::Int32)),
            ("price", scalar(Element::Float64)),
            ("customer", FieldKind::String),
            ("note", FieldKind::Text),
            ("paid", FieldKind::Enum { labels }),
        ],
    );
    let expected = r#"event {
	name = "shop:order";
	id = 7;
	stream_id = 2;
	loglevel = 13;
	fields := struct {
		integer { size = 32; align = 8; signed = true; encoding = none; base = 10; } _id;
		floating_point { exp_dig = 11; mant_dig = 53; align = 8; } _price;
		string { encoding = UTF8; } _customer;
		integer { size = 32; align = 8; signed = false; encoding = none; base = 10; } __note_length;
		integer { size = 8; align = 8; signed = false; encoding = UTF8; base = 10; } _note[ __note_length ];
		enum : integer { size = 32; align = 8; signed = true; encoding = none; base = 10; } { "card" = 1, "cash" = -1 } _paid;
	};
};

"#;
    assert_eq!(metadata::event_class(2, &class), expected);
}

#[test]
fn no_name_ends_its_quotes_or_its_line() {
    let class = event(0, "a\"b\\c\nd\re\0f\x7fg", &[]);
    let text = metadata::event_class(0, &class);
    assert!(
        text.contains("\tname = \"a\\\"b\\\\c\\012d\\015e\u{fffd}f\\177g\";\n"),
        "{text}"
    );
}

#[test]
fn descriptions_survive_json() {
    let class = event(
        1,
        "t:all",
        &[("e", FieldKind::Enum { labels: vec![] }), ("n", scalar(Element::Uint8))],
    );
    let json = serde_json::to_string(&class).expect("a description is JSON");
    let expected = concat!(
        r#"{"id":1,"name":"t:all","level":13,"fields":[{"name":"e","kind":{"enum":{"labels":[]}}},"#,
        r#"{"name":"n","kind":{"scalar":{"element":"uint8","base":"decimal"}}}]}"#
    );
    assert_eq!(json, expected);
    assert_eq!(
        serde_json::from_str::<piste_ctf::EventClass>(&json).expect("JSON is a description"),
        class
    );
}
