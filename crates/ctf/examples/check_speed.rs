// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures what checking costs for each record: `cargo run --release -p piste-ctf --example check_speed`.
//!
//! Expected in release on a 3 GHz machine: at most 3 ns for records of fixed size in a run; a few ns more for each string and
//! each change of class.

use std::hint::black_box;
use std::time::Instant;

use piste_ctf::packet::{HEADER_BYTES, UNIT_BYTES};
use piste_ctf::{Base, Element, EventClass, Field, FieldKind, Layouts};

const PACKET_BYTES: usize = 256 << 10;
const ROUNDS: usize = 301;

fn main() {
    let integer = || FieldKind::Scalar {
        element: Element::Uint32,
        base: Base::Decimal,
    };
    let fields = |kinds: Vec<FieldKind>| -> Vec<Field> {
        kinds
            .into_iter()
            .map(|kind| Field {
                name: "f".to_owned(),
                kind,
            })
            .collect()
    };
    let scalar = |element| FieldKind::Scalar {
        element,
        base: Base::Decimal,
    };
    let contexts = fields(vec![scalar(Element::Int32), scalar(Element::Uint16)]);
    for (contexts, context_bytes, named) in [(vec![], 0, "no contexts"), (contexts, 6, "contexts")] {
        let mut layouts = Layouts::new(contexts);
        for (id, kinds) in [
            (0, vec![integer()]),
            (
                1,
                vec![
                    integer(),
                    FieldKind::Scalar {
                        element: Element::Float64,
                        base: Base::Decimal,
                    },
                ],
            ),
            (2, vec![integer(), FieldKind::String, FieldKind::String]),
            (
                3,
                vec![FieldKind::Sequence {
                    element: Element::Uint16,
                    base: Base::Decimal,
                }],
            ),
            (100, vec![integer()]),
        ] {
            layouts.insert(&EventClass {
                id,
                name: "bench:event".to_owned(),
                level: 13,
                contexts: vec![],
                fields: fields(kinds),
            });
        }
        let body = |id: u32| -> &[u8] {
            match id {
                0 | 100 => &[0; 4],
                1 => &[0; 12],
                2 => b"\x2a\0\0\0ada lovelace\0a string of thirty characters.\0",
                3 => &[4, 0, 0, 0, 1, 0, 2, 0, 3, 0, 4, 0],
                _ => unreachable!("no such class"),
            }
        };
        for (name, ids) in [
            ("4-byte payload", &[0][..]),
            ("12-byte payload", &[1]),
            ("4 and 12 bytes in turn", &[0, 1]),
            ("two strings, 12 and 30 characters", &[2]),
            ("sequence of 4", &[3]),
            ("4-byte payload, extended", &[100]),
            ("all of them in turn", &[0, 1, 2, 3, 100]),
        ] {
            let packet = packet(context_bytes, ids, body);
            let mut ns_per_record: Vec<f64> = (0..ROUNDS)
                .map(|_| {
                    let start = Instant::now();
                    let checked = layouts.check(black_box(&packet), packet.len() as u32, 0, u64::MAX);
                    let elapsed = start.elapsed();
                    assert_eq!(checked.fault, None);
                    elapsed.as_secs_f64() * 1e9 / f64::from(checked.records)
                })
                .collect();
            ns_per_record.sort_by(f64::total_cmp);
            let percentile = |percent: usize| ns_per_record[(ROUNDS - 1) * percent / 100];
            println!(
                "{:6.2} ns/record (p5 {:.2}, p95 {:.2})  {name}, {named}",
                percentile(50),
                percentile(5),
                percentile(95)
            );
        }
    }
}

/// A full packet of records with these ids in turn, 100 ticks apart.
fn packet<'a>(context_bytes: usize, ids: &[u32], body: impl Fn(u32) -> &'a [u8]) -> Vec<u8> {
    let mut packet = vec![0; HEADER_BYTES];
    for (index, id) in ids.iter().cycle().enumerate() {
        let ticks = 100 * index as u64;
        let start = packet.len();
        if *id < 31 {
            packet.extend((id | (ticks as u32) << 5).to_le_bytes());
        } else {
            packet.push(31);
            packet.extend(id.to_le_bytes());
            packet.extend(ticks.to_le_bytes());
        }
        packet.resize(packet.len() + context_bytes, 0);
        packet.extend(body(*id));
        packet.resize(packet.len().next_multiple_of(UNIT_BYTES), 0);
        if packet.len() > PACKET_BYTES {
            packet.truncate(start);
            return packet;
        }
    }
    unreachable!("records end when the packet is full")
}
