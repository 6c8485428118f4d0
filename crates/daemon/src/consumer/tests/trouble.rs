// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that write nonsense, and folders that cannot be written: counted, told, and no harm to others.

use std::fs;
use std::time::Duration;

use super::rig::{NUMBER, Rig};
use crate::link::{Loss, ToControl};

#[test]
fn record_of_an_unknown_event_costs_what_follows_it_in_its_packet_only() {
    let mut rig = Rig::new(Loss::Discard);
    rig.program(1);
    rig.record(1, 0..10);
    rig.writer(1, 0).record(10, 7, &[]);
    rig.record(1, 11..20);
    assert_eq!(rig.stop().events, 10);
    rig.start();
    rig.record(1, 20..30);
    let totals = rig.close();
    let read = rig.read();
    assert_eq!(read.numbers, (0..10).chain(20..30).collect::<Vec<_>>());
    assert_eq!((totals.discarded_late, read.discarded, read.lost_packets), (10, 10, 0));
    let what = &totals.findings[0].what;
    assert!(what.starts_with("10 damaged events of process "), "{what}");
    assert!(what.ends_with("the channel has no event with id 7"), "{what}");
}

#[test]
fn event_that_control_is_about_to_announce_is_waited_for() {
    let mut rig = Rig::new(Loss::Discard);
    rig.program(1);
    rig.writer(1, 0).record(0, 1, &0_u64.to_ne_bytes());
    rig.record(1, 1..300);
    rig.work();
    assert_eq!(rig.findings(), [""; 0]);
    let class = piste_ctf::EventClass {
        id: 1,
        name: "test:late".into(),
        ..super::rig::number_class()
    };
    rig.session.add_class(super::rig::STREAM_ID, class).unwrap();
    assert_eq!(rig.close().events, 300);
    assert_eq!(rig.read().numbers, (0..300).collect::<Vec<_>>());
}

#[test]
fn time_that_goes_back_or_lies_ahead_is_discarded() {
    for wrong_ticks in [50, u64::MAX / 2] {
        let mut rig = Rig::new(Loss::Discard);
        rig.program(1);
        rig.record(1, 100..110);
        rig.stop();
        rig.start();
        rig.writer(1, 0).record(wrong_ticks, NUMBER, &110_u64.to_ne_bytes());
        rig.stop();
        rig.start();
        rig.record(1, 111..120);
        let totals = rig.close();
        let read = rig.read();
        assert_eq!(
            read.numbers,
            (100..110).chain(111..120).collect::<Vec<_>>(),
            "after {wrong_ticks}"
        );
        assert_eq!((totals.discarded_late, read.discarded), (1, 1));
    }
}

#[test]
fn corrupt_ring_is_closed_and_others_go_on() {
    let mut rig = Rig::new(Loss::Discard);
    rig.program(1);
    rig.program(2);
    rig.record(1, 0..10);
    rig.writer(1, 0).set_position(1 << 40);
    rig.record(2, 0..500);
    rig.work();
    rig.work();
    let totals = rig.close();
    assert_eq!(rig.read().numbers, (0..500).collect::<Vec<_>>());
    assert_eq!(totals.events, 500);
    assert_eq!(totals.findings.len(), 1);
    assert!(
        totals.findings[0].what.contains("its memory is corrupt"),
        "{:?}",
        totals.findings
    );
}

#[test]
fn program_that_gives_back_its_own_packets_is_not_believed_that_files_were_removed() {
    let mut rig = Rig::new(Loss::Discard);
    rig.program(1);
    rig.record(1, 0..300);
    rig.writer(1, 0).set_consumed(2);
    rig.work();
    let totals = rig.close();
    assert_eq!(totals.lost_packets, 0);
    let [finding] = &totals.findings[..] else {
        panic!("{:?}", totals.findings);
    };
    assert!(finding.what.contains("its memory is corrupt"), "{finding:?}");
}

#[test]
fn program_with_random_memory_does_not_disturb_another() {
    let mut state = 1_u64;
    for _ in 0..30 {
        let mut rig = Rig::new(Loss::Discard);
        rig.program(1);
        rig.program(2);
        let mut random = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        };
        rig.record(1, 0..300);
        let noise: Vec<(u64, u8)> = (0..2000).map(|_| (4096 + random() % 40_000, random() as u8)).collect();
        rig.scribble(1, &noise);
        rig.record(2, 0..500);
        for _ in 0..3 {
            rig.work();
            rig.pass(Duration::from_millis(300));
        }
        rig.gone(1);
        let totals = rig.close();
        let read = rig.read();
        let of_the_other = read.numbers.iter().filter(|number| **number < 500).count();
        assert!(
            of_the_other >= 500,
            "{of_the_other} of 500 events are there; {:?}",
            totals.findings
        );
        assert_eq!(totals.events, read.numbers.len() as u64);
    }
}

#[test]
fn events_wait_in_the_ring_while_the_trace_cannot_be_written() {
    let mut rig = Rig::new(Loss::Discard);
    rig.program(1);
    let index = rig.output().join("user/index");
    fs::write(&index, "in the way").unwrap();
    let mut recorded = rig.record(1, 0..2000);
    for _ in 0..20 {
        rig.work();
        rig.pass(Duration::from_millis(50));
    }
    assert_eq!(rig.findings().len(), 1, "told once: {:?}", rig.findings());
    assert!(
        rig.findings()[0].contains(index.to_str().unwrap()),
        "{:?}",
        rig.findings()
    );
    fs::remove_file(&index).unwrap();
    rig.pass(Duration::from_secs(1));
    rig.work();
    recorded += rig.record(1, 2000..2100);
    let totals = rig.close();
    let read = rig.read();
    assert_eq!((totals.events, totals.discarded_full), (recorded, 2100 - recorded));
    assert_eq!((read.numbers.len() as u64, read.discarded), (recorded, 2100 - recorded));
}

#[test]
fn session_that_cannot_be_written_is_closed_all_the_same_and_counts_the_loss() {
    let mut rig = Rig::new(Loss::Discard);
    rig.program(1);
    fs::write(rig.output().join("user/index"), "in the way").unwrap();
    rig.record(1, 0..300);
    let begun = rig.now;
    let totals = rig.close();
    assert!(rig.now - begun <= Duration::from_millis(2100));
    assert_eq!((totals.events, totals.discarded_late), (0, 300));
    assert!(
        totals
            .findings
            .iter()
            .any(|finding| finding.what.starts_with("300 events of process ")),
        "{:?}",
        totals.findings
    );
}

#[test]
fn trace_that_cannot_be_begun_is_not_started() {
    let mut rig = Rig::new(Loss::Discard);
    rig.stop();
    fs::remove_dir_all(rig.output()).unwrap();
    fs::write(rig.output(), "in the way").unwrap();
    rig.kill_stopped();
    assert!(rig.try_start().is_err());
    assert!(!rig.session.stage.is_started());
}

#[test]
fn what_a_program_recorded_since_its_session_ended_is_written_when_it_is_dead() {
    let mut rig = Rig::new(Loss::Discard);
    rig.stop();
    rig.program(1);
    rig.record(1, 0..10);
    rig.messages.clear();
    assert_eq!(rig.stop().events, 10);
    rig.record(1, 10..20);
    rig.gone(1);
    rig.work();
    let is_done = |message: &ToControl| matches!(message, ToControl::RingSetDone { key: 1 });
    assert!(rig.messages.iter().any(is_done));
    assert_eq!(rig.close().events, 20);
    assert_eq!(rig.read().numbers, (0..20).collect::<Vec<_>>());
}

/// Somebody has moved the trace of a stopped session away. The next consumer is told to stop the session, too.
#[test]
fn a_consumer_that_stops_what_was_stopped_does_not_make_the_trace_again() {
    let mut rig = Rig::new(Loss::Discard);
    rig.program(1);
    rig.record(1, 0..10);
    assert_eq!(rig.stop().events, 10);
    rig.kill_stopped();
    fs::remove_dir_all(rig.output()).unwrap();
    rig.stop();
    assert!(!rig.output().exists());
}

/// A ring set that comes while its session cannot be started records nevertheless.
#[test]
fn what_was_recorded_since_a_session_ended_is_written_when_it_ends_again() {
    let mut rig = Rig::new(Loss::Discard);
    rig.stop();
    rig.program(1);
    rig.record(1, 0..10);
    rig.messages.clear();
    assert_eq!(rig.stop().events, 10);
    rig.record(1, 10..20);
    assert_eq!(rig.close().events, 20);
    assert_eq!(rig.read().numbers, (0..20).collect::<Vec<_>>());
}
