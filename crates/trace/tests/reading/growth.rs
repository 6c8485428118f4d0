// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is shown of traces while they grow.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use piste_trace::Span;
use piste_trace::growth::Growth;
use piste_trace::merge::Merge;

use crate::place::{Packet, Place};

/// Numbers of the events of a round.
fn round(place: &Place, growth: &mut Growth, sizes: Option<&HashMap<PathBuf, u64>>, now: Instant) -> String {
    let (traces, findings) = place.open();
    let round = growth.round(&traces, &findings, sizes, now);
    let mut merge =
        Merge::of_parts(&traces, |index| round.part(index, Span::ALL), 1 << 16).expect("its files are there");
    let mut times = vec![];
    while let Some(merged) = merge.next() {
        times.push(merged.event.ticks.to_string());
    }
    times.join(" ") + if round.is_waiting { " ..." } else { "" }
}

fn packet<'a>(number: u32, events: &'a [(u64, u32)]) -> Packet<'a> {
    Packet {
        number,
        discarded: 0,
        events,
    }
}

#[test]
fn whole_packets_are_shown_in_the_order_of_time_as_they_come() {
    let (quick, slow) = (
        [
            packet(0, &[(10, 0), (20, 0)]),
            packet(1, &[(30, 0), (60, 0)]),
            packet(2, &[(70, 0), (90, 0)]),
        ],
        [packet(0, &[(15, 0), (40, 0)]), packet(1, &[(50, 0), (80, 0)])],
    );
    let place = Place::new(&[("quick", &quick), ("slow", &slow)]);
    let names = ["quick", "slow"].map(|name| place.folder.join(name));
    let whole = names.each_ref().map(|name| fs::read(name).expect("a stream"));
    let (mut growth, begin) = (Growth::default(), Instant::now());
    // All packets of a stream are of one size here.
    let mut with = |packets: [usize; 2], torn: usize, passed: Duration, is_over: bool| {
        let mut sizes = HashMap::new();
        for (((name, bytes), count), of_all) in names.iter().zip(&whole).zip(packets).zip([3, 2]) {
            let end = (bytes.len() / of_all * count + torn).min(bytes.len());
            fs::write(name, &bytes[..end]).expect("it is written");
            sizes.insert(name.clone(), end as u64);
        }
        round(&place, &mut growth, (!is_over).then_some(&sizes), begin + passed)
    };
    let ms = Duration::from_millis;
    assert_eq!(with([1, 0], 0, ms(0), false), "10 20");
    // A packet that is half there waits, and so does what is later than the last of another stream that may go on.
    assert_eq!(with([2, 0], 9, ms(100), false), "30 60");
    assert_eq!(with([2, 1], 0, ms(200), false), "15 40");
    assert_eq!(with([3, 1], 0, ms(300), false), " ...");
    assert_eq!(with([3, 2], 0, ms(400), false), "50 70 80 ...");
    // A stream that is quiet holds up nobody.
    assert_eq!(with([3, 2], 0, ms(5000), false), "90");
    assert_eq!(with([3, 2], 0, ms(5000), true), "");
}

#[test]
fn packets_are_not_read_with_metadata_that_may_be_older() {
    let place = Place::new(&[("s", &[packet(0, &[(10, 0)]), packet(1, &[(20, 0)])])]);
    let (name, mut growth, now) = (place.folder.join("s"), Growth::default(), Instant::now());
    let bytes = fs::metadata(&name).expect("a stream").len();
    let sizes = |bytes| HashMap::from([(name.clone(), bytes)]);
    assert_eq!(round(&place, &mut growth, Some(&HashMap::new()), now), "");
    assert_eq!(round(&place, &mut growth, Some(&sizes(bytes / 2)), now), "10");
    assert_eq!(round(&place, &mut growth, Some(&sizes(bytes - 1)), now), "");
    assert_eq!(round(&place, &mut growth, None, now), "20");
}
