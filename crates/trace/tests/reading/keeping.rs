// SPDX-License-Identifier: MIT OR Apache-2.0
//! The index that is kept beside a large trace.

use std::fs;

use piste_trace::Span;
use piste_trace::progress::indexing;

use crate::test_trace::{Packet, TestTrace};

const NAME: &str = ".piste-index";

fn place() -> (TestTrace, String) {
    let events: Vec<[(u64, u32); 1]> = (0..1200).map(|number| [(10 * u64::from(number), number)]).collect();
    let packets: Vec<Packet<'_>> = events
        .iter()
        .map(|events| Packet {
            number: events[0].1,
            discarded: 0,
            events,
        })
        .collect();
    let values: Vec<String> = (0..1200).map(|number: u32| number.to_string()).collect();
    (TestTrace::new(&[("a", &packets)]), values.join(" "))
}

#[test]
fn a_kept_index_is_used_again() {
    let (place, values) = place();
    assert_eq!(place.read(Span::ALL).0, values);
    let built = place.open().0;
    let kept = place.folder.join(NAME);
    let (bytes, modified) = (
        fs::read(&kept).expect("it is kept"),
        fs::metadata(&kept).expect("it is there").modified(),
    );
    assert_eq!(place.read(Span::ALL).0, values);
    let again = place.open().0;
    assert_eq!(again[0].streams, built[0].streams);
    assert_eq!(fs::read(&kept).expect("it is kept"), bytes);
    assert_eq!(
        fs::metadata(&kept).expect("it is there").modified().expect("a time"),
        modified.expect("a time"),
        "it was written again"
    );
}

/// A file may say that it has gigabytes, of which nothing is on the disk.
#[test]
fn a_kept_index_with_a_hole_is_built_again() {
    let (place, values) = place();
    place.open();
    let kept = place.folder.join(NAME);
    let bytes = fs::read(&kept).expect("it is kept");
    for hole in [1 << 16, 1 << 40] {
        let file = fs::File::options().write(true).open(&kept).expect("it is there");
        file.set_len(bytes.len() as u64 + hole).expect("it has a hole");
        assert_eq!(place.read(Span::ALL), (values.clone(), vec![]));
        assert_eq!(fs::read(&kept).expect("it is kept"), bytes);
    }
}

#[test]
fn damage_in_a_kept_index_and_changes_of_its_file_are_seen() {
    let (place, values) = place();
    place.open();
    let kept = place.folder.join(NAME);
    let mut bytes = fs::read(&kept).expect("it is kept");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&kept, &bytes).expect("it is written");
    assert_eq!(place.read(Span::ALL), (values, vec![]));
    place.damage("a", |bytes| bytes.truncate(bytes.len() / 2));
    assert!(place.read(Span::ALL).0.ends_with(" 599"));
}

#[test]
fn an_index_is_of_one_metadata() {
    let (place, _) = place();
    let losses = || place.open().0[0].streams[0].losses.len();
    assert_eq!(losses(), 0);
    // What counted packets counts lost events now.
    place.damage("metadata", |bytes| {
        let text = String::from_utf8(std::mem::take(bytes)).expect("text");
        let other = "events_discarded; uint32_t packet_seq_num;";
        *bytes = text
            .replace("packet_seq_num; uint32_t events_discarded;", other)
            .into_bytes();
    });
    assert!(place.folder.join(NAME).exists());
    assert_eq!(losses(), 1199);
}

#[test]
fn building_an_index_tells_how_far_it_is() {
    let (place, _) = place();
    let bytes = fs::metadata(place.folder.join("a")).expect("it is there").len();
    let before = indexing();
    place.open();
    let after = indexing();
    // Other tests run meanwhile.
    assert!(after.total_bytes >= before.total_bytes + bytes, "{before:?} {after:?}");
    assert!(after.done_bytes >= before.done_bytes + bytes, "{before:?} {after:?}");
}

#[test]
fn small_traces_keep_none() {
    let packet = Packet {
        number: 0,
        discarded: 0,
        events: &[(1, 1)],
    };
    let place = TestTrace::new(&[("a", &[packet])]);
    place.open();
    assert!(!place.folder.join(NAME).exists());
}
