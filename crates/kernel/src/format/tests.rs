// SPDX-License-Identifier: MIT OR Apache-2.0
//! Formats as kernels write them, and what becomes of their fields. Those of the running kernel are in `tests/all_formats.rs`.

use super::*;
use FieldKind::{Array, Bytes, Dynamic, Integer, Tail};

/// The format of an event with the fields `TYPE NAME, offset, size, signed`.
fn format(fields: &[(&str, u32, u32, u32)], print: &str) -> EventFormat {
    let fields: String = fields
        .iter()
        .map(|(text, offset, size, signed)| {
            format!("\tfield:{text};\toffset:{offset};\tsize:{size};\tsigned:{signed};\n")
        })
        .collect();
    let common = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
                  \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n";
    let text = format!("name: event\nID: 372\nformat:\n{common}{fields}\nprint fmt: {print}\n");
    EventFormat::parse("system", &text).expect("a format")
}

/// Type and kind of one field.
fn kind(text: &str, size: u32, signed: u32, print: &str) -> (String, FieldKind) {
    let mut format = format(&[(text, 8, size, signed)], print);
    let field = format.fields.remove(0);
    assert_eq!(
        (field.offset, field.bytes, field.name.as_str()),
        (8, size, "f"),
        "{text}"
    );
    (field.type_text, field.kind)
}

#[track_caller]
fn check(text: &str, size: u32, signed: u32, expected: FieldKind) {
    assert_eq!(kind(text, size, signed, "\"\"").1, expected, "{text}");
}

fn integer(element: Element, base: Base) -> FieldKind {
    Integer { element, base }
}

fn elements(element: Element, base: Base) -> Content {
    Content::Elements { element, base }
}

#[test]
fn a_format_has_a_head_fields_and_a_print_format() {
    let format = format(&[("pid_t pid", 8, 4, 1), ("u8 x", 12, 1, 0)], "\"%d\", REC->pid");
    assert_eq!(
        (format.id, format.system.as_str(), format.name.as_str()),
        (372, "system", "event")
    );
    let names = |fields: &[FieldFormat]| fields.iter().map(|field| field.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&format.common), ["common_type", "common_pid"]);
    assert_eq!(names(&format.fields), ["pid", "x"]);
    assert_eq!(format.print, "\"%d\", REC->pid");
    assert_eq!(format.field("common_pid").map(|field| field.offset), Some(4));
    assert_eq!(format.field("gone"), None);
}

#[test]
fn integers_are_told_by_size_and_sign() {
    check("pid_t f", 4, 1, integer(Element::Int32, Base::Decimal));
    check("bool f", 1, 0, integer(Element::Uint8, Base::Decimal));
    check("enum xfs_group_type f", 1, 0, integer(Element::Uint8, Base::Decimal));
    check("unsigned long long f", 8, 0, integer(Element::Uint64, Base::Decimal));
    check("s8 f", 1, 1, integer(Element::Int8, Base::Decimal));
    check("short f", 2, 1, integer(Element::Int16, Base::Decimal));
    check("umode_t f", 2, 0, integer(Element::Uint16, Base::Decimal));
    check("unsigned int f:3", 4, 0, integer(Element::Uint32, Base::Decimal));
}

#[test]
fn pointers_and_what_is_printed_so_are_hex() {
    check("const char * f", 8, 0, integer(Element::Uint64, Base::Hex));
    check("void *f", 8, 0, integer(Element::Uint64, Base::Hex));
    check("struct list_head *const f", 8, 0, integer(Element::Uint64, Base::Hex));
    let shown = |print| kind("unsigned int f", 4, 0, print).1;
    assert_eq!(shown("\"%08x\", REC->f"), integer(Element::Uint32, Base::Hex));
    assert_eq!(shown("\"%o\", REC->f"), integer(Element::Uint32, Base::Octal));
    let flags = r#""%s", __print_flags(REC->f, "|", { 1, "a" })"#;
    assert_eq!(shown(flags), integer(Element::Uint32, Base::Hex));
}

#[test]
fn arrays_have_elements() {
    check("char f[16]", 16, 0, FieldKind::Text);
    check("char f[TASK_COMM_LEN]", 16, 0, FieldKind::Text);
    let array = |element, base, count| Array { element, base, count };
    check("__u8 f[4]", 4, 0, array(Element::Uint8, Base::Decimal, 4));
    check("unsigned long f[6]", 48, 0, array(Element::Uint64, Base::Decimal, 6));
    check("u8 f[2][3]", 6, 0, array(Element::Uint8, Base::Decimal, 6));
    check("long f[3]", 24, 1, array(Element::Int64, Base::Decimal, 3));
    check("s16 f[COUNT]", 8, 1, array(Element::Int16, Base::Decimal, 4));
    check("enum thing f[3]", 12, 0, array(Element::Uint32, Base::Decimal, 3));
    check("void *f[2]", 16, 0, array(Element::Uint64, Base::Hex, 2));
    let (type_text, mac) = kind("unsigned char f[6]", 6, 0, "\"%pM\", REC->f");
    assert_eq!(
        (type_text.as_str(), mac),
        ("unsigned char[6]", array(Element::Uint8, Base::Hex, 6))
    );
    let (_, bytes) = kind("char f[4]", 4, 0, "\"%s\", __print_hex(REC->f, 4)");
    assert_eq!(bytes, array(Element::Uint8, Base::Hex, 4));
}

#[test]
fn dynamic_fields_say_where_their_content_is() {
    let dynamic = |content| Dynamic {
        location: Location::FromRecord,
        content,
    };
    check("__data_loc char[] f", 4, 0, dynamic(Content::Text));
    check(
        "__data_loc u64[] f",
        4,
        0,
        dynamic(elements(Element::Uint64, Base::Decimal)),
    );
    check(
        "__data_loc int[] f",
        4,
        1,
        dynamic(elements(Element::Int32, Base::Decimal)),
    );
    check("__data_loc cpumask_t f", 4, 0, dynamic(Content::Mask));
    check("__data_loc struct pair[] f", 4, 0, dynamic(Content::Bytes));
    let (type_text, mask) = kind("__data_loc unsigned long[] f", 4, 0, "\"%s\", __get_bitmask(f)");
    assert_eq!(
        (type_text.as_str(), mask),
        ("__data_loc unsigned long[]", dynamic(Content::Mask))
    );
    let (_, bytes) = kind(
        "__data_loc u8[] f",
        4,
        0,
        "\"%s\", __print_hex(__get_dynamic_array(f), 3)",
    );
    assert_eq!(bytes, dynamic(elements(Element::Uint8, Base::Hex)));
    let relative = Dynamic {
        location: Location::FromWord,
        content: Content::Text,
    };
    check("__rel_loc char[] f", 4, 0, relative);
}

#[test]
fn a_field_of_no_size_goes_on_to_the_end() {
    check("char f[]", 0, 0, Tail { content: Content::Text });
    let words = Tail {
        content: elements(Element::Uint64, Base::Decimal),
    };
    check("unsigned long f[]", 0, 0, words);
}

#[test]
fn unknown_types_are_bytes_and_are_named() {
    check("struct pair f", 8, 0, Bytes);
    check("struct pair f[2]", 16, 0, Bytes);
    check("uuid_t f", 16, 0, Bytes);
    check("int f", 3, 1, Bytes);
    check("int f[2]", 7, 1, Bytes);
    check(
        "u8 f[0]",
        0,
        0,
        Tail {
            content: elements(Element::Uint8, Base::Decimal),
        },
    );
    let format = format(&[("struct pair a", 8, 8, 0), ("int b", 16, 4, 1)], "\"\"");
    let unknown: Vec<_> = format.unknown_fields().map(|field| field.name.as_str()).collect();
    assert_eq!(unknown, ["a"]);
}

#[test]
fn fields_have_the_names_of_their_values() {
    let print = r#""%s", __print_symbolic(REC->vec, { 0, "HI" }, { 1, "TIMER" })"#;
    let format = format(&[("unsigned int vec", 8, 4, 0)], print);
    let names = format.fields[0].names.as_ref().expect("names");
    assert!(!names.is_flags);
    assert_eq!(
        names.labels[1],
        Label {
            name: "TIMER".into(),
            value: 1
        }
    );
}

#[test]
fn what_is_no_format_is_said() {
    let reason = |text| EventFormat::parse("s", text).expect_err("no format").to_string();
    assert_eq!(
        reason(""),
        "line 1 of the format: it does not contain the number of the event"
    );
    assert_eq!(
        reason("ID: 3\n"),
        "line 1 of the format: it does not contain the name of the event"
    );
    assert_eq!(
        reason("name: a\nID: 70000\n"),
        "line 2 of the format: \"ID: 70000\" is not the number of an event"
    );
    assert_eq!(
        reason("name: a\nID: 3\n\tfield:int x;\toffset:8;\n"),
        "line 3 of the format: \"field:int x;\\toffset:8;\" does not describe a field"
    );
}
