// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is shown of traces while they grow.

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use piste_trace::Span;
use piste_trace::growth::Growth;
use piste_trace::merge::Merge;

use crate::notation;
use crate::test_trace::{Packet, TestTrace};

/// Numbers of the events of a round, of traces that are complete up to a time.
fn round(place: &TestTrace, growth: &mut Growth, sizes: Option<&HashMap<PathBuf, u64>>, known: i64) -> String {
    shown(place, growth, sizes, Some(known), Instant::now())
}

fn shown(
    place: &TestTrace,
    growth: &mut Growth,
    sizes: Option<&HashMap<PathBuf, u64>>,
    known: Option<i64>,
    now: Instant,
) -> String {
    let (traces, findings) = place.open();
    let round = growth.round(&traces, &findings, sizes, known, now);
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
    let place = TestTrace::new(&[("quick", &quick), ("slow", &slow)]);
    let names = ["quick", "slow"].map(|name| place.folder.join(name));
    let whole = names.each_ref().map(|name| fs::read(name).expect("a stream"));
    let mut growth = Growth::default();
    // All packets of a stream are of one size here.
    let mut with = |packets: [usize; 2], torn: usize, horizon: Option<i64>| {
        let mut sizes = HashMap::new();
        for (((name, bytes), count), of_all) in names.iter().zip(&whole).zip(packets).zip([3, 2]) {
            let end = (bytes.len() / of_all * count + torn).min(bytes.len());
            fs::write(name, &bytes[..end]).expect("it is written");
            sizes.insert(name.clone(), end as u64);
        }
        round(
            &place,
            &mut growth,
            horizon.map(|_| &sizes),
            horizon.unwrap_or(i64::MAX),
        )
    };
    assert_eq!(with([1, 0], 0, Some(9)), " ...");
    assert_eq!(with([1, 0], 0, Some(12)), "10 ...");
    // A packet that is half there waits, and so does what is later than the horizon.
    assert_eq!(with([2, 0], 9, Some(14)), " ...");
    assert_eq!(with([2, 1], 9, Some(40)), "15 20 30 40 ...");
    assert_eq!(with([3, 2], 0, Some(65)), "50 60 ...");
    assert_eq!(with([3, 2], 0, Some(200)), "70 80 90");
    assert_eq!(with([3, 2], 0, Some(300)), "");
    assert_eq!(with([3, 2], 0, None), "");
}

#[test]
fn packets_that_come_after_their_horizon_are_shown_all_the_same() {
    let (early, late) = ([packet(0, &[(10, 0), (30, 0)])], [packet(0, &[(20, 0), (40, 0)])]);
    let place = TestTrace::new(&[("early", &early), ("late", &late)]);
    let names = ["early", "late"].map(|name| place.folder.join(name));
    let bytes = fs::metadata(&names[0]).expect("a stream").len();
    let sizes = |late| HashMap::from([(names[0].clone(), bytes), (names[1].clone(), late)]);
    let mut growth = Growth::default();
    assert_eq!(round(&place, &mut growth, Some(&sizes(0)), 35), "10 30");
    assert_eq!(round(&place, &mut growth, Some(&sizes(bytes)), 38), "20 ...");
    assert_eq!(round(&place, &mut growth, None, 38), "40");
}

#[test]
fn without_a_horizon_a_round_goes_as_far_as_the_slowest_stream_that_is_not_quiet() {
    let (quick, slow) = (
        [packet(0, &[(10, 0), (20, 0)]), packet(1, &[(30, 0), (60, 0)])],
        [packet(0, &[(15, 0), (40, 0)])],
    );
    let place = TestTrace::new(&[("quick", &quick), ("slow", &slow)]);
    let names = ["quick", "slow"].map(|name| place.folder.join(name));
    let [quick, slow] = names.each_ref().map(|name| fs::metadata(name).expect("a stream").len());
    let (mut growth, begin) = (Growth::default(), Instant::now());
    let mut with = |bytes: [u64; 2], ms| {
        let sizes = names.iter().cloned().zip(bytes).collect();
        let now = begin + Duration::from_millis(ms);
        shown(&place, &mut growth, Some(&sizes), None, now)
    };
    assert_eq!(with([quick / 2, 0], 0), "10 20");
    assert_eq!(with([quick, 0], 100), "30 60");
    assert_eq!(with([quick, slow], 200), "15 40");
    assert_eq!(with([quick, slow], 5000), "");
}

#[test]
fn packets_are_not_read_with_metadata_that_may_be_older() {
    let place = TestTrace::new(&[("s", &[packet(0, &[(10, 0)]), packet(1, &[(20, 0)])])]);
    let (name, mut growth) = (place.folder.join("s"), Growth::default());
    let bytes = fs::metadata(&name).expect("a stream").len();
    let sizes = |bytes| HashMap::from([(name.clone(), bytes)]);
    assert_eq!(round(&place, &mut growth, Some(&HashMap::new()), i64::MAX), "");
    assert_eq!(round(&place, &mut growth, Some(&sizes(bytes / 2)), i64::MAX), "10");
    assert_eq!(round(&place, &mut growth, Some(&sizes(bytes - 1)), i64::MAX), "");
    assert_eq!(round(&place, &mut growth, None, i64::MAX), "20");
}

/// A tracer adds a class of events to the metadata, then an event of it to the stream, and so on.
#[test]
fn classes_that_come_while_a_trace_is_opened_are_known() {
    const CLASSES: usize = 2000;
    let begin = "\
trace { major = 1; minor = 8; byte_order = le; packet.header := struct { integer { size = 32; } magic; }; };
typealias integer { size = 32; align = 8; } := uint32_t;
stream { packet.context := struct { uint32_t content_size; uint32_t packet_size; }; event.header := struct { uint32_t id; }; };
";
    let class = |id: usize| format!("event {{ name = e{id}; id = {id}; }};\n");
    let packet = |id: usize| format!("u32:0xc1fc1fc1 u32:$content u32:$packet\nu32:{id}\n");
    let classes: String = (0..CLASSES).map(class).collect();
    let packets: Vec<String> = (0..CLASSES).map(packet).collect();
    let text = format!(
        "\n--- metadata\n{begin}{classes}\n--- stream s\n{}",
        packets.join("packet\n")
    );
    let place = TestTrace::of(&notation::Trace::parse(&text, Path::new("")).expect("a trace"));
    let paths = ["metadata", "s"].map(|name| place.folder.join(name));
    let [metadata, stream] = paths.each_ref().map(|path| fs::read(path).expect("it is there"));
    let head = metadata.len() - classes.len();
    let begins = [&metadata[..head + class(0).len()], &stream[..stream.len() / CLASSES]];
    for (path, begin) in paths.iter().zip(begins) {
        fs::write(path, begin).expect("it is written");
    }
    thread::scope(|scope| {
        let tracer = scope.spawn(|| {
            let open = |path| fs::File::options().append(true).open(path).expect("it is there");
            let mut files = paths.each_ref().map(open);
            for id in 1..CLASSES {
                let packet = stream.len() / CLASSES;
                files[0].write_all(class(id).as_bytes()).expect("it is written");
                files[1]
                    .write_all(&stream[id * packet..][..packet])
                    .expect("it is written");
            }
        });
        while !tracer.is_finished() {
            assert_eq!(place.read(Span::ALL).1, [""; 0]);
        }
    });
    assert_eq!(place.read(Span::ALL).1, [""; 0]);
}
