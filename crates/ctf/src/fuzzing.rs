// SPDX-License-Identifier: MIT OR Apache-2.0
//! Entry points for fuzzers: any bytes go in, and nothing may panic or contradict itself.

pub mod reading;

use crate::description::{Base, Element, EventClass, Field, FieldKind};
use crate::layout::{Checked, Layouts};
use crate::packet::{HEADER_BYTES, Header};

/// Checks a packet made of `bytes`, and asserts what holds for any packet.
///
/// The first byte chooses the latest time allowed, the second the time that the packet begins with when its header does not say
/// it; then follows the packet.
pub fn packet(bytes: &[u8]) {
    let Some((&[limit, begin], packet)) = bytes.split_first_chunk() else {
        return;
    };
    let limit_ticks = u64::MAX >> (limit % 64);
    let begin_ticks = Header::decode(packet).map_or(u64::MAX >> (begin % 64), |header| header.timestamp_begin);
    let context = |element| Field {
        name: String::new(),
        kind: FieldKind::Scalar {
            element,
            base: Base::Decimal,
        },
    };
    for contexts in [vec![], vec![context(Element::Int32), context(Element::Uint16)]] {
        let layouts = layouts(contexts);
        let checked = layouts.check(packet, packet.len() as u32, begin_ticks, limit_ticks);
        bounded(&checked, packet.len(), begin_ticks, limit_ticks);
        if packet.len() >= HEADER_BYTES && begin_ticks <= limit_ticks {
            let again = layouts.check(packet, checked.content_bytes, begin_ticks, limit_ticks);
            assert_eq!(
                again,
                Checked { fault: None, ..checked },
                "what precedes a fault is good"
            );
        }
    }
}

fn bounded(checked: &Checked, packet_bytes: usize, begin_ticks: u64, limit_ticks: u64) {
    assert!(checked.content_bytes as usize <= packet_bytes);
    assert!(u64::from(checked.records) * 8 <= packet_bytes as u64);
    assert!(checked.last_ticks >= begin_ticks);
    assert!(checked.records == 0 || checked.last_ticks <= limit_ticks);
}

/// Classes with every kind of part, small and large ids.
fn layouts(contexts: Vec<Field>) -> Layouts {
    let scalar = |element| FieldKind::Scalar {
        element,
        base: Base::Decimal,
    };
    let sequence = |element| FieldKind::Sequence {
        element,
        base: Base::Decimal,
    };
    let array = |count| FieldKind::Array {
        element: Element::Float64,
        base: Base::Decimal,
        count,
    };
    let classes: [(u32, &[FieldKind]); 10] = [
        (0, &[]),
        (1, &[scalar(Element::Uint32)]),
        (2, &[FieldKind::String]),
        (3, &[FieldKind::Text, scalar(Element::Int8), FieldKind::String]),
        (4, &[FieldKind::String, FieldKind::String, sequence(Element::Uint64)]),
        (
            5,
            &[
                FieldKind::Enum { labels: vec![] },
                array(0),
                array(3),
                sequence(Element::Int8),
            ],
        ),
        (7, &[FieldKind::Dynamic, FieldKind::Dynamic, scalar(Element::Int16)]),
        (6, &[FieldKind::Strings, scalar(Element::Int16), FieldKind::Strings]),
        (30, &[array(u32::MAX), array(u32::MAX)]),
        (300, &[sequence(Element::Uint16), scalar(Element::Int16)]),
    ];
    let mut layouts = Layouts::new(contexts);
    for (id, kinds) in classes {
        let fields = kinds
            .iter()
            .map(|kind| Field {
                name: String::new(),
                kind: kind.clone(),
            })
            .collect();
        layouts.insert(&EventClass {
            id,
            name: String::new(),
            level: 13,
            contexts: vec![],
            fields,
        });
    }
    layouts
}
