// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the check of a packet accepts, and where it stops.

mod writer;

use fastrand::Rng;
use piste_ctf::{Checked, Element, Fault, Field, FieldKind, Layouts, Wrong};
use writer::{Writer, array, contexts, counted, cpu_id, event, scalar, sequence, vtid};

const NONE: &[Field] = &[];
const LIMIT: u64 = 1 << 40;
const WRAP: u64 = 1 << 27;

fn layouts(contexts: &[Field]) -> Layouts {
    let mut layouts = Layouts::new(contexts.to_vec());
    layouts.insert(&event(0, "t:empty", &[]));
    layouts.insert(&event(1, "t:number", &[("n", scalar(Element::Uint32))]));
    layouts.insert(&event(
        2,
        "t:string",
        &[("s", FieldKind::String), ("n", scalar(Element::Uint16))],
    ));
    layouts.insert(&event(
        3,
        "t:text",
        &[("t", FieldKind::Text), ("q", sequence(Element::Uint64))],
    ));
    layouts.insert(&event(
        4,
        "t:array",
        &[
            ("a", array(Element::Int16, 3)),
            ("e", FieldKind::Enum { labels: vec![] }),
        ],
    ));
    layouts.insert(&event(
        5,
        "t:dynamic",
        &[("d", FieldKind::Dynamic), ("n", scalar(Element::Uint8))],
    ));
    layouts.insert(&event(40, "t:extended", &[("n", scalar(Element::Uint8))]));
    layouts
}

/// Checks what `write` writes after a packet header, and says what came out: `RECORDS to END at TICKS[, FAULT]`.
fn check(contexts: &[Field], begin_ticks: u64, limit_ticks: u64, write: impl Fn(&mut Writer) -> &mut Writer) -> String {
    let mut writer = Writer::new(contexts, begin_ticks);
    write(&mut writer);
    let packet_bytes = writer.packet.len() as u32;
    let checked = layouts(contexts).check(&writer.packet, packet_bytes, begin_ticks, limit_ticks);
    say(checked)
}

fn say(
    Checked {
        content_bytes,
        records,
        last_ticks,
        fault,
    }: Checked,
) -> String {
    let fault = fault.map(|fault| format!(", {fault}")).unwrap_or_default();
    format!("{records} to {content_bytes} at {last_ticks}{fault}")
}

#[test]
fn an_empty_packet_is_good() {
    assert_eq!(check(NONE, 5, LIMIT, |w| w), "0 to 96 at 5");
}

#[test]
fn the_content_ends_where_the_last_record_ends() {
    assert_eq!(check(NONE, 5, LIMIT, |w| w.compact(0, 5, b"")), "1 to 100 at 5");
    assert_eq!(check(NONE, 5, LIMIT, |w| w.compact(1, 5, &[0; 4])), "1 to 104 at 5");
    assert_eq!(check(NONE, 5, LIMIT, |w| w.compact(2, 5, b"ada\0--")), "1 to 106 at 5");
    assert_eq!(check(NONE, 5, LIMIT, |w| w.compact(4, 5, &[0; 10])), "1 to 110 at 5");
    assert_eq!(check(NONE, 5, LIMIT, |w| w.extended(40, 5, &[0; 1])), "1 to 110 at 5");
    assert_eq!(check(NONE, 5, LIMIT, |w| w.extended(1, 5, &[0; 4])), "1 to 113 at 5");
    let text = [counted(b"abc"), counted(b""), vec![]].concat();
    assert_eq!(check(NONE, 5, LIMIT, |w| w.compact(3, 5, &text)), "1 to 111 at 5");
    let numbers = [&counted(b"")[..], &2u32.to_le_bytes(), &[0; 16]].concat();
    assert_eq!(check(NONE, 5, LIMIT, |w| w.compact(3, 5, &numbers)), "1 to 124 at 5");
}

#[test]
fn contexts_stand_before_the_fields() {
    assert_eq!(check(&contexts(), 5, LIMIT, |w| w.compact(0, 5, b"")), "1 to 106 at 5");
    assert_eq!(check(&[vtid()], 5, LIMIT, |w| w.compact(0, 5, b"")), "1 to 104 at 5");
    assert_eq!(
        check(&[cpu_id()], 5, LIMIT, |w| w.extended(40, 5, b"x")),
        "1 to 112 at 5"
    );
}

#[test]
fn runs_and_changes_of_class_are_counted_alike() {
    let runs = check(NONE, 5, LIMIT, |w| {
        for ticks in 5..1005 {
            w.compact(1, ticks, &[0; 4]);
        }
        for ticks in 1005..1010 {
            w.compact(0, ticks, b"")
                .compact(2, ticks, b"ada\0--")
                .extended(40, ticks, b"x")
                .compact(4, ticks, &[0; 10]);
        }
        w
    });
    let end = 96 + 1000 * 8 + 5 * (8 + 16 + 16 + 16) - 2;
    assert_eq!(runs, format!("1020 to {end} at 1009"));
}

#[test]
fn a_compact_time_is_the_smallest_that_does_not_go_back() {
    let begin = 7 * WRAP + 100;
    let last = |write: fn(&mut Writer) -> &mut Writer| check(NONE, begin, LIMIT, write);
    assert_eq!(last(|w| w.compact(0, 100, b"")), format!("1 to 100 at {begin}"));
    assert_eq!(last(|w| w.compact(0, 101, b"")), format!("1 to 100 at {}", begin + 1));
    assert_eq!(
        last(|w| w.compact(0, 99, b"")),
        format!("1 to 100 at {}", begin + WRAP - 1)
    );
    assert_eq!(
        last(|w| w.compact(0, 99, b"").compact(0, 98, b"")),
        format!("2 to 108 at {}", begin + 2 * WRAP - 2)
    );
    assert_eq!(
        last(|w| w.extended(0, 9 * WRAP, b"").compact(0, 1, b"")),
        format!("2 to 116 at {}", 9 * WRAP + 1)
    );
}

#[test]
fn times_count_from_the_begin_that_is_given_whatever_the_header_says() {
    let begin = 3 * WRAP + 900;
    for header_ticks in [0, begin + 5, u64::MAX] {
        let mut writer = Writer::new(NONE, header_ticks);
        let checked = |writer: &Writer| say(layouts(NONE).check(&writer.packet, u32::MAX, begin, LIMIT));
        assert_eq!(checked(&writer), format!("0 to 96 at {begin}"));
        writer.compact(1, begin + 5, &[0; 4]).compact(1, begin + 6, &[0; 4]);
        assert_eq!(checked(&writer), format!("2 to 112 at {}", begin + 6));
        writer.compact(0, begin + WRAP, b"").extended(40, 9 * WRAP, b"x");
        assert_eq!(checked(&writer), format!("4 to 134 at {}", 9 * WRAP));
    }
    let mut writer = Writer::new(NONE, 0);
    writer.extended(40, begin - 1, b"x");
    let fault = format!(
        "its time is {}, before {begin}, the time of the record before it",
        begin - 1
    );
    assert_eq!(
        say(layouts(NONE).check(&writer.packet, u32::MAX, begin, LIMIT)),
        format!("0 to 96 at {begin}, offset 96: {fault}")
    );
}

#[test]
fn every_record_is_found_up_to_where_the_content_ends() {
    let layouts = layouts(NONE);
    for seed in 0..2000 {
        let mut random = Rng::with_seed(seed);
        let begin = random.u64(..LIMIT);
        let mut writer = Writer::new(NONE, begin);
        let mut ticks = begin;
        // Start, exact end and time of each record.
        let mut records = Vec::new();
        for _ in 0..random.usize(..40) {
            let ahead = [0, 1, WRAP / 3, WRAP - 1, WRAP][random.usize(..5)];
            ticks += ahead;
            let start = writer.packet.len();
            let text = vec![b'x'; random.usize(..30)];
            let (id, fields) = match random.usize(..6) {
                0 => (0, vec![]),
                1 | 2 => (1, vec![0xff; 4]),
                3 => (2, [&text[..], b"\0--"].concat()),
                4 => (3, [counted(&text), 1u32.to_le_bytes().to_vec(), vec![0xff; 8]].concat()),
                _ => (40, b"x".to_vec()),
            };
            let is_compact = id < 31 && ahead < WRAP && random.usize(..8) > 0;
            if is_compact {
                writer.compact(id, ticks, &fields);
            } else {
                writer.extended(id, ticks, &fields);
            }
            let header_bytes = if is_compact { 4 } else { 13 };
            records.push((start, start + header_bytes + fields.len(), ticks));
        }
        for content_bytes in 96..=writer.packet.len() {
            let checked = layouts.check(&writer.packet, content_bytes as u32, begin, u64::MAX);
            let whole = records.partition_point(|&(_, end, _)| end <= content_bytes);
            let (_, end, last_ticks) = whole.checked_sub(1).map_or((0, 96, begin), |last| records[last]);
            let cut = records.get(whole).map(|&(start, ..)| start);
            let cut = cut.filter(|&start| start < content_bytes);
            assert_eq!(
                (checked.records, checked.content_bytes, checked.last_ticks),
                (whole as u32, end as u32, last_ticks),
                "seed {seed}, {content_bytes} bytes"
            );
            assert_eq!(
                checked.fault.map(|fault| fault.offset as usize),
                cut,
                "seed {seed}, {content_bytes} bytes"
            );
        }
    }
}

#[test]
fn an_unknown_event_is_a_fault() {
    let fault = check(NONE, 5, LIMIT, |w| w.compact(0, 5, b"").compact(7, 6, b""));
    assert_eq!(fault, "1 to 100 at 5, offset 104: the channel has no event with id 7");
    let fault = check(NONE, 5, LIMIT, |w| w.extended(u32::MAX, 5, b""));
    assert_eq!(
        fault,
        "0 to 96 at 5, offset 96: the channel has no event with id 4294967295"
    );
}

#[test]
fn a_record_behind_the_content_is_a_fault() {
    let layouts = layouts(NONE);
    let mut writer = Writer::new(NONE, 5);
    writer
        .compact(0, 5, b"")
        .extended(40, 6, b"x")
        .compact(3, 7, &[counted(b"abc"), counted(b"")].concat());
    let checked = |content_bytes| say(layouts.check(&writer.packet, content_bytes, 5, LIMIT));
    assert_eq!(
        checked(99),
        "0 to 96 at 5, offset 96: the record needs at least 4 bytes, but only 3 are left"
    );
    assert_eq!(checked(100), "1 to 100 at 5");
    assert_eq!(checked(104), "1 to 100 at 5");
    assert_eq!(
        checked(105),
        "1 to 100 at 5, offset 104: the record needs at least 4 bytes, but only 1 are left"
    );
    assert_eq!(
        checked(116),
        "1 to 100 at 5, offset 104: the record needs at least 13 bytes, but only 12 are left"
    );
    assert_eq!(
        checked(117),
        "1 to 100 at 5, offset 104: the record needs at least 14 bytes, but only 13 are left"
    );
    assert_eq!(
        checked(127),
        "2 to 118 at 6, offset 120: the record needs at least 8 bytes, but only 7 are left"
    );
    assert_eq!(
        checked(130),
        "2 to 118 at 6, offset 120: the record needs at least 11 bytes, but only 10 are left"
    );
    assert_eq!(
        checked(133),
        "2 to 118 at 6, offset 120: the record needs at least 15 bytes, but only 13 are left"
    );
    assert_eq!(checked(135), "3 to 135 at 7");
    assert_eq!(checked(u32::MAX), "3 to 135 at 7");
}

#[test]
fn a_run_stops_at_the_record_that_is_cut() {
    let mut writer = Writer::new(NONE, 5);
    writer
        .compact(1, 5, &[0; 4])
        .compact(1, 6, &[0; 4])
        .compact(1, 7, &[0; 4]);
    let checked = layouts(NONE).check(&writer.packet, 119, 5, LIMIT);
    assert_eq!(
        say(checked),
        "2 to 112 at 6, offset 112: the record needs at least 8 bytes, but only 7 are left"
    );
}

#[test]
fn a_string_without_end_is_a_fault() {
    let fault = check(NONE, 5, LIMIT, |w| w.compact(2, 5, &[b'a'; 12]));
    assert_eq!(
        fault,
        "0 to 96 at 5, offset 96: a string of the record does not end within the 16 bytes that are left"
    );
    let no_zero_byte = 0x0101_0101 >> 5;
    let fault = check(NONE, 5, LIMIT, |w| {
        w.compact(2, 5, &[b'a'; 12]).compact(1, no_zero_byte, &[b'b'; 4])
    });
    assert_eq!(
        fault,
        "0 to 96 at 5, offset 96: a string of the record does not end within the 24 bytes that are left"
    );
}

#[test]
fn a_count_past_the_end_is_a_fault() {
    let fault = check(NONE, 5, LIMIT, |w| w.compact(3, 5, &u32::MAX.to_le_bytes()));
    assert_eq!(
        fault,
        "0 to 96 at 5, offset 96: the record needs at least 4294967303 bytes, but only 8 are left"
    );
    let elements = [counted(b""), u32::MAX.to_le_bytes().to_vec()].concat();
    let fault = check(NONE, 5, LIMIT, |w| w.compact(3, 5, &elements));
    assert_eq!(
        fault,
        "0 to 96 at 5, offset 96: the record needs at least 34359738372 bytes, but only 16 are left"
    );
}

#[test]
fn a_time_in_the_future_is_a_fault() {
    assert_eq!(check(NONE, 5, 6, |w| w.compact(1, 6, &[0; 4])), "1 to 104 at 6");
    let run = check(NONE, 5, 6, |w| w.compact(1, 6, &[0; 4]).compact(1, 7, &[0; 4]));
    assert_eq!(
        run,
        "1 to 104 at 6, offset 104: its time is 7, later than 6, when the packet was read"
    );
    let extended = check(NONE, 5, 6, |w| w.extended(40, u64::MAX, b"x"));
    let late = "offset 96: its time is 18446744073709551615, later than 6, when the packet was read";
    assert_eq!(extended, format!("0 to 96 at 5, {late}"));
    let begin = check(NONE, 7, 6, |w| w.compact(0, 7, b""));
    assert_eq!(
        begin,
        "0 to 96 at 7, offset 32: its time is 7, later than 6, when the packet was read"
    );
    let last = u64::MAX;
    assert_eq!(
        check(NONE, last, last, |w| w.compact(1, last, &[0; 4])),
        format!("1 to 104 at {last}")
    );
    assert_eq!(
        check(NONE, last, last, |w| w.compact(1, 0, &[0; 4])),
        format!("0 to 96 at {last}, offset 96: its time is {last}, later than {last}, when the packet was read")
    );
}

#[test]
fn an_extended_time_that_goes_back_is_a_fault() {
    let fault = check(NONE, 5, LIMIT, |w| w.compact(0, 9, b"").extended(40, 8, b"x"));
    assert_eq!(
        fault,
        "1 to 100 at 9, offset 104: its time is 8, before 9, the time of the record before it"
    );
}

#[test]
fn a_packet_without_header_is_a_fault() {
    let checked = layouts(NONE).check(&[0; 87], 88, 5, LIMIT);
    assert_eq!(
        say(checked),
        "0 to 87 at 5, offset 0: the packet has 87 bytes, fewer than the 96 bytes of its header"
    );
    assert_eq!(
        layouts(NONE).check(&[0; 96], 0, 5, LIMIT).fault,
        Some(Fault {
            offset: 0,
            what: Wrong::NoHeader { bytes: 0 }
        })
    );
}

#[test]
fn a_class_can_be_replaced() {
    let mut layouts = Layouts::new(NONE.to_vec());
    layouts.insert(&event(1, "t:old", &[]));
    layouts.insert(&event(1, "t:new", &[("n", scalar(Element::Float64))]));
    let mut writer = Writer::new(NONE, 5);
    writer.compact(1, 5, &[0; 8]);
    assert_eq!(say(layouts.check(&writer.packet, 108, 5, LIMIT)), "1 to 108 at 5");
}

#[test]
fn a_value_is_as_long_as_its_type_says() {
    let number = |tag: u8| [&[tag][..], &7_u64.to_le_bytes(), &[9]].concat();
    assert_eq!(
        check(NONE, 1000, LIMIT, |writer| {
            writer.compact(5, 1001, &[0, 9]).compact(5, 1002, &number(1));
            writer.compact(5, 1003, &number(2)).compact(5, 1004, &number(3));
            writer
                .compact(5, 1005, b"\x04ada\0\x09")
                .compact(5, 1006, b"\x04\0\x09")
        }),
        "6 to 175 at 1006"
    );
    let faulty = |fields: &[u8]| check(NONE, 1000, LIMIT, |writer| writer.compact(5, 1001, fields));
    assert_eq!(
        faulty(&[5, 0, 0, 0]),
        "0 to 96 at 1000, offset 96: a value of the record is of type 5, which is none"
    );
    assert!(faulty(b"\x04adaada").ends_with("does not end within the 16 bytes that are left"));
    assert!(faulty(&[1, 2, 3]).ends_with("offset 96: the record needs at least 14 bytes, but only 8 are left"));
}
