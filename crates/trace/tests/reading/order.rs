// SPDX-License-Identifier: MIT OR Apache-2.0
//! The order of events, and parts of time.

use piste_trace::Span;

use crate::test_trace::{Packet, TestTrace};

fn packet(number: u32, events: &[(u64, u32)]) -> Packet<'_> {
    Packet {
        number,
        discarded: 0,
        events,
    }
}

fn place() -> TestTrace {
    TestTrace::new(&[
        ("b", &[packet(0, &[(10, 1), (30, 3)]), packet(1, &[(50, 6), (70, 8)])]),
        ("a", &[packet(0, &[(20, 2), (30, 4), (40, 5)]), packet(1, &[(60, 7)])]),
    ])
}

#[test]
fn streams_are_merged_by_time_then_by_their_numbers() {
    assert_eq!(place().read(Span::ALL), ("1 2 3 4 5 6 7 8".into(), vec![]));
}

#[test]
fn a_part_of_time_reads_its_packets_only() {
    let place = place();
    let span = Span {
        begin_ns: 50,
        end_ns: 60,
    };
    assert_eq!(place.read(span), ("6 7".into(), vec![]));
    let (traces, _) = place.open();
    let [a, b] = &traces[0].streams[..] else { panic!() };
    assert_eq!((a.packets_between(50, 60), b.packets_between(50, 60)), (1..2, 1..2));
    // What is in the other packets is of no interest.
    place.damage("b", |bytes| bytes[56] = 0xff);
    assert_eq!(place.read(span).0, "6 7");
}

#[test]
fn time_that_goes_back_is_found_and_loses_nothing() {
    let place = TestTrace::new(&[("a", &[packet(0, &[(10, 1), (9, 2), (11, 3)])])]);
    let (values, findings) = place.read(Span::ALL);
    assert_eq!(values, "1 2 3");
    assert_eq!(findings, ["TimeGoesBack 1 at 56"]);
}
