// SPDX-License-Identifier: MIT OR Apache-2.0
//! What recovery takes out of packets with holes.

mod writer;

use piste_ctf::packet::{HEADER_BYTES, Header};
use piste_ctf::{Contexts, Element, FieldKind, Layouts, Recovered};
use writer::{MARK, Random, Writer, event, scalar};

const NONE: Contexts = Contexts {
    vtid: false,
    cpu_id: false,
};
const LIMIT: u64 = 1 << 40;
const WRAP: u64 = 1 << 27;
const BASE: u64 = 900;

fn layouts() -> Layouts {
    let mut layouts = Layouts::new(NONE);
    layouts.insert(&event(1, "t:number", &[("n", scalar(Element::Uint32))]));
    layouts.insert(&event(2, "t:string", &[("s", FieldKind::String)]));
    layouts
}

/// Recovers what was written and says what is left: `RECORD RECORD ... , BEGIN..LAST, HOLES holes[, FAULT]`, where a record is its
/// text or number.
fn recover(writer: &Writer) -> String {
    let layouts = layouts();
    let mut packet = writer.packet.clone();
    let Recovered {
        checked,
        begin_ticks,
        holes,
    } = layouts.recover(&mut packet, &writer.marks, MARK, BASE, LIMIT);
    assert_eq!(packet.len(), (checked.content_bytes as usize).next_multiple_of(8));
    let again = layouts.check(&packet, checked.content_bytes, begin_ticks, LIMIT);
    assert_eq!(again, piste_ctf::Checked { fault: None, ..checked });

    let mut said = String::new();
    let mut rest = &packet[HEADER_BYTES..checked.content_bytes as usize];
    while !rest.is_empty() {
        let fields = &rest[4..];
        let bytes = match rest[0] & 31 {
            1 => {
                said += &format!("{} ", u32::from_le_bytes(fields[..4].try_into().unwrap()));
                8
            }
            2 => {
                let length = fields.iter().position(|byte| *byte == 0).unwrap();
                said += &format!("{} ", String::from_utf8_lossy(&fields[..length]));
                4 + length + 1
            }
            31 => {
                said += &format!("extended {} ", u32::from_le_bytes(rest[13..17].try_into().unwrap()));
                17
            }
            id => panic!("a record with id {id}"),
        };
        let padding = &rest[bytes.min(rest.len())..bytes.next_multiple_of(8).min(rest.len())];
        assert!(padding.iter().all(|byte| *byte == 0), "padding is cleared");
        rest = &rest[bytes.next_multiple_of(8).min(rest.len())..];
    }
    let fault = checked.fault.map(|fault| format!(", {fault}")).unwrap_or_default();
    format!("{said}, {begin_ticks}..{}, {holes} holes{fault}", checked.last_ticks)
}

fn number(number: u32) -> [u8; 4] {
    number.to_le_bytes()
}

#[test]
fn a_packet_without_holes_stays_as_it_is() {
    let mut w = Writer::new(NONE, 1000);
    w.compact(1, 1000, &number(1))
        .compact(2, 1001, b"two\0")
        .compact(1, 1002, &number(3));
    assert_eq!(recover(&w), "1 two 3 , 1000..1002, 0 holes");
    assert_eq!(recover(&Writer::new(NONE, 1000)), ", 900..900, 0 holes");
}

#[test]
fn committed_records_behind_a_hole_move_up() {
    let mut w = Writer::new(NONE, 1000);
    w.compact(1, 1000, &number(1))
        .hole(3, 0xff)
        .compact(2, 1001, b"two\0")
        .hole(1, 0)
        .compact(2, 1002, b"a longer one\0");
    assert_eq!(recover(&w), "1 two a longer one , 1000..1002, 2 holes");
    w.hole(5, 0);
    assert_eq!(recover(&w), "1 two a longer one , 1000..1002, 3 holes");
}

#[test]
fn without_the_first_record_time_goes_on_from_the_packet_before() {
    let mut w = Writer::new(NONE, u64::MAX); // Whoever entered the packet died before it wrote the time.
    w.hole(2, 0xff).compact(1, 905, &number(1)).compact(1, 906, &number(2));
    assert_eq!(recover(&w), "1 2 , 905..906, 1 holes");
    let mut w = Writer::new(NONE, 0);
    w.hole(2, 0xff)
        .compact(1, WRAP + 3, &number(1))
        .extended(1, 5 * WRAP, &number(2));
    assert_eq!(
        recover(&w),
        format!("1 extended 2 , {}..{}, 1 holes", WRAP + 3, 5 * WRAP)
    );
    let mut w = Writer::new(NONE, 0);
    w.hole(2, 0xff);
    assert_eq!(recover(&w), ", 900..900, 1 holes");
}

#[test]
fn with_the_first_record_time_starts_at_the_header() {
    let mut w = Writer::new(NONE, 9 * WRAP + 7);
    w.compact(1, 9 * WRAP + 7, &number(1))
        .hole(1, 0)
        .compact(1, 9 * WRAP + 8, &number(2));
    assert_eq!(
        recover(&w),
        format!("1 2 , {}..{}, 1 holes", 9 * WRAP + 7, 9 * WRAP + 8)
    );
}

#[test]
fn an_impossible_begin_leaves_nothing() {
    let mut w = Writer::new(NONE, BASE - 1);
    w.compact(1, 1000, &number(1));
    assert_eq!(
        recover(&w),
        ", 900..900, 0 holes, offset 32: its time is 899, before 900, the time of what precedes it"
    );
}

#[test]
fn marks_of_other_laps_are_no_marks() {
    let mut w = Writer::new(NONE, 1000);
    w.compact(1, 1000, &number(1))
        .compact(1, 1001, &number(2))
        .compact(1, 1002, &number(3));
    w.marks[12] = MARK - 1;
    assert_eq!(recover(&w), "1 3 , 1000..1002, 1 holes");
    let mut packet = w.packet.clone();
    assert_eq!(
        layouts().recover(&mut packet, &[0; 14], 0, BASE, LIMIT).checked.records,
        0,
        "mark 0 is no record"
    );
    assert_eq!(
        layouts()
            .recover(&mut w.packet.clone(), &w.marks[..12], MARK, BASE, LIMIT)
            .checked
            .records,
        1
    );
}

#[test]
fn a_stale_mark_inside_a_record_that_certainly_starts_is_passed_over() {
    let mut w = Writer::new(NONE, 1000);
    w.compact(2, 1000, b"a string over several units\0")
        .hole(1, 0)
        .compact(1, 1001, &number(2));
    w.marks[12] = MARK;
    w.marks[14] = MARK;
    assert_eq!(recover(&w), "a string over several units 2 , 1000..1001, 1 holes");
}

#[test]
fn a_stale_mark_behind_a_hole_does_not_hide_a_record_that_ends_at_another() {
    let mut w = Writer::new(NONE, 1000);
    w.compact(1, 1000, &number(1))
        .hole(1, 0xff)
        .compact(2, 1001, b"a string over several units\0");
    let mut at_end = w.clone();
    w.compact(1, 1002, &number(3));
    w.marks[15] = MARK;
    at_end.marks[15] = MARK;
    assert_eq!(recover(&w), "1 a string over several units 3 , 1000..1002, 1 holes");
    assert_eq!(recover(&at_end), "1 a string over several units , 1000..1001, 1 holes");
}

#[test]
fn a_stale_mark_inside_a_hole_is_no_record() {
    let mut w = Writer::new(NONE, 1000);
    w.compact(1, 1000, &number(1))
        .hole(3, 0xff)
        .compact(1, 1001, &number(2));
    w.marks[13] = MARK;
    assert_eq!(recover(&w), "1 2 , 1000..1001, 1 holes");
    // What lies there can look like the start of a string that ends together with the next record.
    w.packet[104..112].copy_from_slice(b"\x02sssssss");
    w.compact(1, 1002, &number(3));
    assert_eq!(recover(&w), "1 2 3 , 1000..1002, 1 holes");
}

#[test]
fn a_committed_record_that_is_wrong_is_a_fault_and_a_hole() {
    let mut w = Writer::new(NONE, 1000);
    w.compact(1, 1000, &number(1))
        .compact(7, 1001, &number(2))
        .compact(1, 1002, &number(3));
    let fault = "offset 96: the channel has no event with id 7";
    assert_eq!(recover(&w), format!("1 3 , 1000..1002, 1 holes, {fault}"));
}

#[test]
fn a_fault_counts_the_bytes_to_the_end_of_the_packet() {
    let mut w = Writer::new(NONE, 1000);
    let no_zero_byte = 0x0101_0101 >> 5;
    w.compact(2, 1000, &[b'a'; 12]).compact(1, no_zero_byte, &[b'b'; 4]);
    let fault = "offset 88: a string of the record has no end in the 24 bytes that are left";
    let left = format!(
        "{} , {no_zero_byte}..{no_zero_byte}, 1 holes, {fault}",
        u32::from_le_bytes([b'b'; 4])
    );
    assert_eq!(recover(&w), left);
}

#[test]
fn a_packet_without_header_is_a_fault() {
    let mut packet = vec![1; 10];
    let recovered = layouts().recover(&mut packet, &[], MARK, BASE, LIMIT);
    assert_eq!((recovered.checked.records, recovered.begin_ticks), (0, BASE));
    assert!(recovered.checked.fault.is_some());
}

#[test]
fn every_committed_record_is_found_wherever_the_holes_are() {
    for seed in 0..2000 {
        let mut random = Random(seed);
        let mut expected = String::new();
        let mut w = Writer::new(NONE, 1000);
        let mut holes = 0;
        let mut ticks = 1000;
        let mut last_committed = BASE;
        let mut begin = None;
        let mut after_hole = false;
        for index in 0..random.below(40) {
            // A time ahead of the last committed record by less than a wrap has the compact form.
            ticks += [1, 1, WRAP / 3, WRAP][if index == 0 { 0 } else { random.below(4) }];
            let commits = random.below(4) != 0;
            let form = if ticks - last_committed < WRAP {
                Writer::compact
            } else {
                Writer::extended
            };
            let text = format!("{index}{}", "x".repeat(random.below(30)));
            let (id, fields) = match random.below(2) {
                0 => (1, number(index as u32).to_vec()),
                _ => (2, [text.as_bytes(), &[0]].concat()),
            };
            if !commits {
                w.hole(1 + random.below(6), 0xff);
                holes += u32::from(!after_hole);
                after_hole = true;
                continue;
            }
            if index == 0 {
                w.packet[..HEADER_BYTES].copy_from_slice(
                    &Header {
                        timestamp_begin: ticks,
                        ..Header::default()
                    }
                    .encode(),
                );
            }
            let is_extended = ticks - last_committed >= WRAP;
            // The number stands for an extended string too: the test reads numbers there.
            let (id, fields) = if is_extended {
                (1, number(index as u32).to_vec())
            } else {
                (id, fields)
            };
            form(&mut w, id, ticks, &fields);
            expected += &match (is_extended, id) {
                (true, _) => format!("extended {index} "),
                (false, 1) => format!("{index} "),
                (false, _) => format!("{text} "),
            };
            begin = begin.or(Some(ticks));
            last_committed = ticks;
            after_hole = false;
        }
        let expected = format!("{expected}, {}..{last_committed}, {holes} holes", begin.unwrap_or(BASE));
        assert_eq!(recover(&w), expected, "seed {seed}");
    }
}

#[test]
fn work_is_bounded_however_marks_and_strings_lie() {
    // Every unit is marked, and a string starts at each that runs to the end, where no record does.
    let units = (4 << 20) / 8;
    let mut w = Writer::new(NONE, 1000);
    w.packet.extend(
        [2, 0x7d, 0, 0, b'a', b'a', b'a', b'a']
            .repeat(units)
            .iter()
            .map(|b| if *b == 0 { 1 } else { *b }),
    );
    let end = w.packet.len() - 16;
    w.packet[end..].fill(0);
    w.marks.resize(w.packet.len() / 8 - 1, MARK);
    w.marks[11] = 0;
    let recovered = layouts().recover(&mut w.packet, &w.marks, MARK, BASE, u64::MAX);
    assert_eq!(recovered.holes, 1);
}
