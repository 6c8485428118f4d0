// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names that a program may give to events and fields.

use crate::writer::{Writer, counted, event, scalar, sequence, stream};
use crate::{NONE, fields, line, read};
use piste_ctf::{Element, EventClass, FieldKind};

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
