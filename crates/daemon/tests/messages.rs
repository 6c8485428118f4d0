// SPDX-License-Identifier: MIT OR Apache-2.0
//! What programs send, from bytes to values, and what becomes of bytes that are no message.

mod support;

use fastrand::Rng;
use piste_ctf::{Base, Element, Field, FieldKind, Label};
use piste_daemon::description::{Interner, KEPT_BYTES_MAX};
use piste_daemon::fuzzing;
use piste_daemon::message::{ENABLED_EVENT_COUNT_MAX, EnabledEvent, FromProgram, ToProgram, parse};
use piste_daemon::shares::Users;
use support::wire;

const ROOT_ONLY: Users = Users { own: 0 };

fn parsed(bytes: &[u8]) -> Result<FromProgram, String> {
    parse(bytes, 0, &Interner::new(ROOT_ONLY, KEPT_BYTES_MAX)).map_err(|malformed| malformed.to_string())
}

/// Parses one event with these fields.
fn fields(fields: &[Vec<u8>]) -> Result<Vec<Field>, String> {
    match parsed(&wire::events(1, &[wire::event(0, "shop", "order", fields)]))? {
        FromProgram::Events { block, .. } => Ok(block.events[0].fields.clone()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_hello_says_who_it_is() {
    let FromProgram::Hello(hello) = parsed(&wire::hello(77, &[3, 4], [5; 16])).unwrap() else {
        panic!()
    };
    assert_eq!((hello.instance_id, hello.vpid), (77, 4711));
    assert_eq!(hello.attached, [3, 4]);
    assert_eq!((&*hello.name, &*hello.path), ("shop", "/usr/bin/shop"));
    assert_eq!(hello.record_id, Some([5; 16]));
}

#[test]
fn a_later_librarys_longer_hello_is_understood() {
    let mut bytes = wire::hello(77, &[3], [0; 16]);
    bytes.splice(80..80, [9; 8]);
    let total = bytes.len() as u32;
    bytes[8..12].copy_from_slice(&total.to_ne_bytes());
    bytes[20..24].copy_from_slice(&88u32.to_ne_bytes());
    let FromProgram::Hello(hello) = parsed(&bytes).unwrap() else {
        panic!()
    };
    assert_eq!((&*hello.attached, &*hello.path), (&[3][..], "/usr/bin/shop"));
    let later = piste_abi::PISTE_ABI_MAJOR as u16 + 1;
    bytes[16..18].copy_from_slice(&later.to_ne_bytes());
    let version = format!("{later}.0");
    assert_eq!(parsed(&bytes), Ok(FromProgram::Foreign { version }));
}

#[test]
fn every_kind_of_field_is_described() {
    let scalar = |element| FieldKind::Scalar {
        element,
        base: Base::Decimal,
    };
    let expected = [
        ("id", scalar(Element::Int32)),
        ("price", scalar(Element::Float64)),
        (
            "mac",
            FieldKind::Array {
                element: Element::Uint8,
                base: Base::Decimal,
                count: 6,
            },
        ),
        (
            "sizes",
            FieldKind::Sequence {
                element: Element::Uint64,
                base: Base::Decimal,
            },
        ),
        ("note", FieldKind::Text),
        ("customer", FieldKind::String),
        (
            "state",
            FieldKind::Enum {
                labels: vec![
                    Label {
                        name: "OPEN".into(),
                        value: 0,
                    },
                    Label {
                        name: "CLOSED".into(),
                        value: -1,
                    },
                ],
            },
        ),
    ];
    let described = fields(&[
        wire::int32("id"),
        wire::field(
            "price",
            piste_abi::PISTE_FIELD_SCALAR,
            piste_abi::PISTE_ELEMENT_FLOAT64,
            0,
        ),
        wire::field("mac", piste_abi::PISTE_FIELD_ARRAY, piste_abi::PISTE_ELEMENT_UINT8, 6),
        wire::field(
            "sizes",
            piste_abi::PISTE_FIELD_SEQUENCE,
            piste_abi::PISTE_ELEMENT_UINT64,
            0,
        ),
        wire::field("note", piste_abi::PISTE_FIELD_TEXT, 0, 0),
        wire::field("customer", piste_abi::PISTE_FIELD_STRING, 0, 0),
        wire::enumeration("state", &[("OPEN", 0), ("CLOSED", -1)]),
    ]);
    let expected = expected.map(|(name, kind)| Field {
        name: name.into(),
        kind,
    });
    assert_eq!(described.unwrap(), expected);
}

#[test]
fn what_is_wrong_with_a_description_is_said() {
    let says = |field_list: &[Vec<u8>], part: &str| {
        let error = fields(field_list).unwrap_err();
        assert!(error.contains(part), "{error}");
    };
    let scalar = piste_abi::PISTE_FIELD_SCALAR;
    says(&[wire::field("x", 9, 1, 0)], "unknown kind 9");
    says(&[wire::field("x", scalar, 99, 0)], "unknown type 99");
    says(
        &[wire::field("x", piste_abi::PISTE_FIELD_ARRAY, 1, 4097)],
        "4097 elements",
    );
    says(&[wire::field("x", piste_abi::PISTE_FIELD_ARRAY, 1, 0)], "0 elements");
    says(&[wire::field("", scalar, 3, 0)], "0 bytes");
    says(&[wire::field(&"x".repeat(128), scalar, 3, 0)], "128 bytes");
    says(&[wire::enumeration("x", &[])], "0 labels");
    says(&[wire::int32("x"), wire::int32("x")], "two fields \"x\"");
    says(&vec![wire::int32("x"); 41], "41 fields");
    let twice = [wire::event(3, "a", "b", &[]), wire::event(3, "a", "c", &[])];
    assert!(parsed(&wire::events(1, &twice)).unwrap_err().contains("event index 3"));
}

#[test]
fn names_that_are_no_text_are_made_one() {
    let bytes = wire::events(1, &[wire::event(0, "shop", "order", &[wire::int32("na\nme")])]);
    let position = bytes.windows(5).position(|window| window == b"order").unwrap();
    let mut cut = bytes.clone();
    cut[position + 4] = 0xc3;
    let FromProgram::Events { block, .. } = parsed(&cut).unwrap() else {
        panic!()
    };
    assert_eq!(block.events[0].name, "shop:orde\u{fffd}");
    assert_eq!(block.events[0].fields[0].name, "na\u{fffd}me");
}

#[test]
fn equal_bytes_are_kept_once() {
    let interner = Interner::new(ROOT_ONLY, KEPT_BYTES_MAX);
    let block = |bytes: &[u8]| match parse(bytes, 0, &interner) {
        Ok(FromProgram::Events { block, .. }) => block,
        other => panic!("{other:?}"),
    };
    let descriptions = [wire::event(0, "shop", "order", &[wire::int32("id")])];
    let one = block(&wire::events(1, &descriptions));
    let other = block(&wire::events(2, &descriptions));
    assert!(std::rc::Rc::ptr_eq(&one, &other));
}

#[test]
fn long_lists_of_events_take_several_messages() {
    let event = |index| EnabledEvent {
        module: 1,
        index,
        class: index,
        filter: None,
    };
    let events = (0..ENABLED_EVENT_COUNT_MAX as u32 + 1).map(event).collect();
    let datagrams = ToProgram::Enable { key: 1, events }.encode();
    assert_eq!(datagrams.len(), 2);
    assert!(datagrams[0].len() <= 65536);
    assert_eq!(datagrams[1].len(), 24 + 16);
}

#[test]
fn events_with_the_same_filter_are_enabled_behind_it() {
    let event = |index: u32, filter: Option<&[u8]>| EnabledEvent {
        module: 1,
        index,
        class: index,
        filter: filter.map(Into::into),
    };
    let events = vec![
        event(0, Some(b"one")),
        event(1, None),
        event(2, Some(b"other")),
        event(3, Some(b"one")),
    ];
    let types: Vec<(u32, usize)> = ToProgram::Enable { key: 1, events }
        .encode()
        .iter()
        .map(|datagram| {
            (
                u32::from_ne_bytes(*datagram[4..].first_chunk().unwrap()),
                datagram.len(),
            )
        })
        .collect();
    let (filter, enable) = (piste_abi::PISTE_MESSAGE_FILTER, piste_abi::PISTE_MESSAGE_ENABLE);
    assert_eq!(
        types,
        [
            (enable, 24 + 16),
            (filter, 24 + 3),
            (enable, 24 + 32),
            (filter, 24 + 5),
            (enable, 24 + 16)
        ]
    );
}

#[test]
fn no_bytes_make_pisted_panic() {
    let mut random = Rng::with_seed(1);
    let seeds = [
        wire::hello(1, &[1, 2], [1; 16]),
        wire::events(
            1,
            &[
                wire::event(
                    0,
                    "shop",
                    "order",
                    &[wire::int32("id"), wire::enumeration("e", &[("A", 1), ("B", 2)])],
                ),
                wire::event(1, "lttng_ust_statedump", "start", &[]),
            ],
        ),
        wire::module_gone(1),
        wire::refused(1, 1),
        wire::sync(5),
        wire::synced(5),
    ];
    for _ in 0..20_000 {
        let mut conversation = Vec::new();
        for _ in 0..1 + random.usize(..6) {
            let mut bytes = seeds[random.usize(..seeds.len())].clone();
            for _ in 0..random.usize(..4) {
                let position = random.usize(..bytes.len());
                match random.usize(..3) {
                    0 => bytes[position] = random.u8(..),
                    1 => bytes[position] = [0, 1, 0x7f, 0x80, 0xff][random.usize(..5)],
                    _ => bytes.truncate(position + 1),
                }
            }
            // Half of them with their true size, so that they are looked at further.
            if bytes.len() >= 12 && random.usize(..2) == 0 {
                let total = bytes.len() as u32;
                bytes[8..12].copy_from_slice(&total.to_ne_bytes());
            }
            fuzzing::message(&bytes);
            conversation.extend((bytes.len() as u16).to_le_bytes());
            conversation.extend(bytes);
        }
        fuzzing::conversation(&conversation);
    }
    for length in 0..200 {
        let bytes: Vec<u8> = (0..length).map(|_| random.u8(..)).collect();
        fuzzing::message(&bytes);
        fuzzing::pattern(&bytes);
    }
}
