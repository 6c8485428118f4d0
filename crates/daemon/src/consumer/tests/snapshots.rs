// SPDX-License-Identifier: MIT OR Apache-2.0
//! Flight recorders: nothing is written until somebody asks, then everything that is still there.

use std::time::Duration;

use super::super::stage::Again;
use super::rig::{NUMBER, Rig, read};
use crate::link::ToControl;

#[test]
fn snapshot_has_the_newest_events_and_the_recorder_goes_on() {
    let mut rig = Rig::flight_recorder();
    rig.program(1);
    assert_eq!(rig.record(1, 0..5000), 5000);
    let totals = rig.snapshot("first");
    let first = read(&rig.folder.path().join("first"));
    let oldest = 5000 - first.numbers.len() as u64;
    assert_eq!(first.numbers, (oldest..5000).collect::<Vec<_>>());
    assert!(first.numbers.len() >= 3 * 200, "three sub-buffers at least");
    assert_eq!(
        (totals.events, totals.lost_packets, totals.overwritten_events),
        (5000 - oldest, 0, 0)
    );
    assert_eq!((first.discarded, first.lost_packets), (0, 0));

    rig.record(1, 5000..5010);
    rig.messages.clear();
    let second_totals = rig.snapshot("second");
    let second = read(&rig.folder.path().join("second"));
    assert_eq!(second.numbers.last(), Some(&5009));
    assert_eq!(second_totals.events, second.numbers.len() as u64);
    assert_eq!(
        rig.stop().events,
        totals.events + second_totals.events,
        "a session's totals are those of all its snapshots"
    );
    assert!(
        !rig.output().join("user").join("default_100").exists(),
        "nothing is streamed"
    );
}

#[test]
fn snapshot_has_what_dead_programs_recorded() {
    let mut rig = Rig::flight_recorder();
    rig.program(1);
    rig.program(2);
    rig.program(3);
    rig.record(1, 0..10);
    rig.writer(1, 0).reserve(10, NUMBER, &10_u64.to_ne_bytes()).unwrap();
    rig.record(1, 11..20);
    rig.record(2, 20..30);
    rig.gone(1);
    rig.gone(3);
    let totals = rig.snapshot("crash");
    assert_eq!(
        read(&rig.folder.path().join("crash")).numbers,
        (0..10).chain(11..30).collect::<Vec<_>>()
    );
    assert_eq!(totals.events, 29);
    assert!(
        rig.messages.contains(&ToControl::RingSetDone { key: 3 }),
        "it had recorded nothing"
    );
}

#[test]
fn dead_programs_are_kept_up_to_a_bound_and_the_oldest_go_first() {
    let mut rig = Rig::flight_recorder();
    for key in 1..=300 {
        rig.program(key);
        rig.record(key, key.into()..u64::from(key) + 1);
        rig.gone(key);
    }
    let totals = rig.snapshot("kept");
    assert_eq!(
        read(&rig.folder.path().join("kept")).numbers,
        (45..=300).collect::<Vec<_>>()
    );
    assert_eq!(totals.findings.len(), 44);
    assert!(
        rig.findings()[0].starts_with("the events of process "),
        "{:?}",
        rig.findings()
    );
}

#[test]
fn recorder_needs_no_timer_without_programs_and_a_slow_one_with_them() {
    let mut rig = Rig::flight_recorder();
    assert_eq!(rig.work(), Again::Never);
    rig.program(1);
    assert_eq!(rig.work(), Again::After(Duration::from_secs(1)));
    rig.stop();
    assert_eq!(rig.work(), Again::Never);
}

#[test]
fn recorder_that_stands_still_gets_other_memory() {
    let mut rig = Rig::flight_recorder();
    rig.program(1);
    rig.writer(1, 0).reserve(0, NUMBER, &0_u64.to_ne_bytes()).unwrap();
    rig.record(1, 1..5000);
    for _ in 0..2 {
        rig.work();
        rig.pass(Duration::from_secs(1));
        rig.record(1, 5000..5010);
    }
    rig.work();
    assert!(rig.messages.contains(&ToControl::RingRecovered { key: 1 }));
    rig.retire(1);
    rig.program(2);
    rig.record(2, 6000..6010);
    rig.snapshot("after");
    let numbers = read(&rig.folder.path().join("after")).numbers;
    assert_eq!(numbers[..3], [1, 2, 3]);
    assert_eq!(numbers[numbers.len() - 10..], (6000..6010).collect::<Vec<_>>());
}

#[test]
fn snapshot_goes_to_a_folder_without_a_trace() {
    let mut rig = Rig::flight_recorder();
    rig.program(1);
    rig.record(1, 0..10);
    rig.snapshot("first");
    let before = std::fs::read(rig.folder.path().join("first/user/default_100")).unwrap();
    rig.messages.clear();
    rig.try_snapshot("first");
    assert!(rig.answer(9).unwrap().is_err());
    assert_eq!(
        std::fs::read(rig.folder.path().join("first/user/default_100")).unwrap(),
        before
    );

    std::fs::remove_file(rig.folder.path().join("first/user/metadata")).unwrap();
    rig.messages.clear();
    assert_eq!(
        rig.snapshot("first").events,
        10,
        "an interrupted snapshot is written anew"
    );
    assert_eq!(
        read(&rig.folder.path().join("first")).numbers,
        (0..10).collect::<Vec<_>>()
    );
}
