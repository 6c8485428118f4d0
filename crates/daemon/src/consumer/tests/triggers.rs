// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sessions of triggers: every event is told once and at once, and nothing is written.

use std::time::Duration;

use super::super::attention::LOOK_AT_ALL;
use super::super::ladder::SOON;
use super::super::stage::Again;
use super::rig::Rig;
use crate::link::ToControl;

impl Rig {
    /// The numbers that control was told of since the last call, and how many there were.
    fn told(&mut self) -> (Vec<u64>, u64) {
        let (mut numbers, mut all) = (Vec::new(), 0);
        for message in std::mem::take(&mut self.messages) {
            if let ToControl::Matched { matches, count, .. } = message {
                let number = |fields: &str| {
                    fields
                        .strip_prefix("{\"number\":")?
                        .strip_suffix('}')?
                        .parse::<u64>()
                        .ok()
                };
                numbers.extend(
                    matches
                        .iter()
                        .map(|found| number(&found.fields).expect("it has a number")),
                );
                all += count;
            }
        }
        (numbers, all)
    }
}

#[test]
fn an_event_is_told_at_the_next_look_and_not_written() {
    let mut rig = Rig::of_trigger();
    rig.program(1);
    rig.record(1, 5..6);
    rig.work();
    assert_eq!(rig.told(), (vec![5], 1), "in a sub-buffer that is not full");
    rig.work();
    assert_eq!(rig.told(), (vec![], 0));
    rig.record(1, 6..9);
    rig.work();
    assert_eq!(rig.told(), (vec![6, 7, 8], 3));
    let totals = rig.close();
    assert_eq!((totals.events, totals.lost_packets, totals.findings.len()), (4, 0, 0));
    assert!(!rig.output().exists());
}

#[test]
fn a_program_that_rests_is_looked_at_when_it_rings() {
    let mut rig = Rig::of_trigger();
    rig.audible_program(1);
    rig.record(1, 0..1);
    assert_eq!(rig.work(), Again::After(SOON));
    while rig.work() != Again::After(LOOK_AT_ALL) {}
    rig.told();
    rig.record(1, 1..2);
    rig.work();
    assert_eq!(rig.told(), (vec![], 0));
    rig.ring(1);
    rig.work();
    assert_eq!(rig.told(), (vec![1], 1));
    rig.pass(Duration::from_secs(10));
    rig.record(1, 2..3);
    rig.work();
    assert_eq!(rig.told(), (vec![2], 1), "its bell may be out of order");
}

#[test]
fn programs_that_end_and_sessions_that_close_are_told_of_to_the_end() {
    let mut rig = Rig::of_trigger();
    for key in 1..4 {
        rig.program(key);
        rig.record(key, u64::from(10 * key)..u64::from(10 * key + 2));
    }
    rig.gone(1);
    rig.work();
    assert_eq!(rig.told(), (vec![10, 11, 20, 21, 30, 31], 6), "in the order of time");
    rig.record(2, 40..42);
    let totals = rig.close();
    assert_eq!(rig.told(), (vec![40, 41], 2));
    assert_eq!(totals.events, 8);
}

#[test]
fn what_was_recorded_last_is_compared_though_no_program_is_left() {
    let mut rig = Rig::of_durations();
    rig.program(1);
    rig.record(1, 0..2);
    rig.gone(1);
    assert_eq!(rig.work(), Again::After(SOON));
    rig.work();
    assert_eq!(rig.work(), Again::Never, "compared");
}

#[test]
fn what_is_only_counted_is_told_though_no_program_is_left() {
    let mut rig = Rig::of_trigger();
    rig.program(1);
    rig.record(1, 0..300);
    rig.work();
    let (read, first) = rig.told();
    assert!(read.len() < 300, "no more of them are worth reading soon");
    rig.record(1, 300..310);
    rig.gone(1);
    let mut all = first;
    while rig.work() != Again::Never {
        all += rig.told().1;
    }
    all += rig.told().1;
    assert_eq!(all, 310);
}

#[test]
fn what_finds_no_space_is_counted() {
    let mut rig = Rig::of_trigger();
    rig.program(1);
    let recorded = rig.record(1, 0..10_000);
    rig.work();
    let (_, all) = rig.told();
    let totals = rig.close();
    let (_, rest) = rig.told();
    assert!(recorded < 10_000, "the rings are full");
    assert_eq!(all + rest, recorded);
    assert_eq!(totals.missed(), 10_000 - recorded);
}

#[test]
fn the_next_consumer_goes_on_where_a_killed_one_was() {
    let mut rig = Rig::of_trigger();
    rig.program(1);
    rig.record(1, 0..3);
    rig.work();
    assert_eq!(rig.told(), (vec![0, 1, 2], 3));
    for round in 1..6 {
        rig.record(1, 10 * round..10 * round + 2);
        rig.kill();
        rig.work();
        assert_eq!(rig.told(), (vec![10 * round, 10 * round + 1], 2));
    }
    let totals = rig.close();
    assert_eq!((totals.lost_packets, totals.findings.len()), (0, 0), "{totals:?}");
}
