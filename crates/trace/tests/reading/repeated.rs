// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces that have packets in common are told apart from those that go on where others end.

use std::fs;
use std::path::{Path, PathBuf};

use piste_trace::{Findings, Kind, open, open_all};

use crate::test_trace::{Packet, TestTrace};

/// Packets of one event each, at those times.
fn place(streams: &[(&str, &[u64])]) -> TestTrace {
    let events: Vec<Vec<[(u64, u32); 1]>> = streams
        .iter()
        .map(|(_, times)| times.iter().map(|time| [(*time, 1)]).collect())
        .collect();
    let packets = events.iter().map(|events| {
        let packet = |(number, events)| Packet {
            number,
            discarded: 0,
            events,
        };
        let events = events.iter().map(|events| &events[..]);
        (0..).zip(events).map(packet).collect()
    });
    let packets: Vec<Vec<Packet<'_>>> = packets.collect();
    let names = streams.iter().map(|(name, _)| *name);
    let streams: Vec<(&str, &[Packet<'_>])> = names.zip(packets.iter().map(|packets| &packets[..])).collect();
    TestTrace::new(&streams)
}

/// What is found in traces that are read together: the number of the trace, packets, and the numbers of the others.
fn found(places: &[&TestTrace]) -> Vec<String> {
    let folders: Vec<PathBuf> = places.iter().map(|place| place.folder.clone()).collect();
    let mut findings = Findings::default();
    let (traces, errors) = open_all(&folders, &mut findings);
    assert!(errors.is_empty() && traces.len() == places.len(), "{errors:?}");
    let mut found = Vec::new();
    for finding in findings.iter() {
        assert_eq!(finding.kind, Kind::RepeatedPackets, "{finding:?}");
        let number = |folder: &Path| folders.iter().position(|known| known == folder);
        let (own, what) = (number(&finding.file).expect("a trace"), &finding.what);
        let others = (0..folders.len()).filter(|other| what.contains(&*folders[*other].to_string_lossy()));
        let others: Vec<usize> = others.collect();
        assert!(what.starts_with(&finding.count.to_string()), "{finding:?}");
        found.push(format!("{own}: {} of {others:?}", finding.count));
    }
    found.sort();
    found
}

#[test]
fn snapshots_of_one_recorder_have_packets_in_common() {
    let first = place(&[("a", &[10, 20, 30, 40]), ("b", &[15])]);
    let second = place(&[("a", &[30, 40, 50]), ("b", &[15, 25])]);
    let third = place(&[("a", &[40, 50, 60]), ("b", &[35])]);
    assert_eq!(found(&[&first]), Vec::<String>::new());
    assert_eq!(found(&[&first, &second]), ["1: 3 of [0]"]);
    assert_eq!(found(&[&first, &second, &third]), ["1: 3 of [0]", "2: 2 of [1]"]);
    assert_eq!(found(&[&third, &first]), ["1: 1 of [0]"]);
}

#[test]
fn parts_that_follow_each_other_have_nothing_in_common() {
    let first = place(&[("a", &[10, 20, 30]), ("b", &[15])]);
    let second = place(&[("a", &[40, 50]), ("b", &[16])]);
    assert_eq!(found(&[&first, &second]), Vec::<String>::new());
    // Streams of different programs, at one time.
    let other = place(&[("z", &[1]), ("y", &[1]), ("x", &[10, 20, 30])]);
    assert_eq!(found(&[&first, &other]), Vec::<String>::new());
}

/// Between packets of one stream others of it may be that one of the traces has not.
#[test]
fn packets_of_one_time_are_the_same_only_where_both_ends_are() {
    let first = place(&[("a", &[10, 20])]);
    let longer = TestTrace::new(&[(
        "a",
        &[Packet {
            number: 0,
            discarded: 0,
            events: &[(10, 1), (15, 2)],
        }],
    )]);
    assert_eq!(found(&[&first, &longer]), Vec::<String>::new());
}

#[test]
fn traces_without_a_uuid_or_of_different_ones_are_never_said_to_be_the_same() {
    let (first, second) = (place(&[("a", &[10, 20])]), place(&[("a", &[10, 20])]));
    assert_eq!(found(&[&first, &second]), ["1: 2 of [0]"]);
    let metadata = second.folder.join("metadata");
    let text = fs::read_to_string(&metadata).expect("metadata");
    let other = text.replace("00112233", "ff112233");
    fs::write(&metadata, &other).expect("it is written");
    assert_eq!(found(&[&first, &second]), Vec::<String>::new());
    let line = text.lines().find(|line| line.contains("uuid =")).expect("a line");
    for place in [&first, &second] {
        fs::write(place.folder.join("metadata"), text.replace(line, "")).expect("it is written");
    }
    assert_eq!(found(&[&first, &second]), Vec::<String>::new());
}

#[test]
fn a_file_that_is_copied_within_its_trace_is_found() {
    let place = place(&[("a", &[10, 20])]);
    fs::copy(place.folder.join("a"), place.folder.join("a copy")).expect("it is copied");
    let mut findings = Findings::default();
    open(&place.folder, &mut findings).expect("a trace");
    assert_eq!(findings.count(Kind::RepeatedPackets), 2);
}
