// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every kind of field, and its values as babeltrace2 shows them.

use crate::fields;
use crate::writer::{array, counted, event, hex, scalar, sequence};
use piste_ctf::{Base, Element, FieldKind, Label, Member};

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
fn lists_of_strings_and_of_structures_are_read() {
    let member = |name: &str, element, base| Member {
        name: name.to_owned(),
        element,
        base,
    };
    let members = vec![
        member("fd", Element::Int32, Base::Decimal),
        member("events", Element::Uint16, Base::Hex),
    ];
    let fields_of = [
        ("argv", FieldKind::Strings),
        ("fds", FieldKind::Structures { members }),
        ("none", FieldKind::Strings),
        ("last", FieldKind::String),
    ];
    let bytes = [
        &2u32.to_le_bytes()[..],
        b"ls\0-l\0",
        &2u32.to_le_bytes(),
        &3i32.to_le_bytes(),
        &1u16.to_le_bytes(),
        &(-1i32).to_le_bytes(),
        &0x2000u16.to_le_bytes(),
        &0u32.to_le_bytes(),
        b"end\0",
    ];
    assert_eq!(
        fields(event(0, "t:lists", &fields_of), &bytes.concat()),
        r#"{ _argv_length = 2, argv = [ [0] = "ls", [1] = "-l" ], _fds_length = 2, "#.to_owned()
            + r#"fds = [ [0] = { fd = 3, events = 0x1 }, [1] = { fd = -1, events = 0x2000 } ], "#
            + r#"_none_length = 0, none = [ ], last = "end" }"#
    );
}

#[test]
fn values_whose_type_the_record_tells_are_read() {
    let names = ["none", "signed", "unsigned", "double", "string"];
    let mut fields_of: Vec<_> = names.map(|name| (name, FieldKind::Dynamic)).into();
    fields_of.push(("last", FieldKind::String));
    let bytes = [
        &[0][..],
        &[1],
        &(-5_i64).to_le_bytes(),
        &[2],
        &u64::MAX.to_le_bytes(),
        &[3],
        &0.5_f64.to_le_bytes(),
        b"\x04ada\0",
        b"end\0",
    ];
    let text = fields(event(0, "t:dynamic", &fields_of), &bytes.concat());
    let value = |name: &str, tag: u8, of_type: &str, value: &str| {
        format!(r#"_{name}_tag = ( "_{of_type}" : container = {tag} ), {name} = {{ {value} }}, "#)
    };
    let expected = [
        value("none", 0, "none", "{ }"),
        value("signed", 1, "int64", "-5"),
        value("unsigned", 2, "uint64", "18446744073709551615"),
        value("double", 3, "double", "0.5"),
        value("string", 4, "string", "\"ada\""),
    ];
    assert_eq!(text, format!(r#"{{ {}last = "end" }}"#, expected.concat()));
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
