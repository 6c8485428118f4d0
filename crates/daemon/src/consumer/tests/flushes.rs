// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whoever follows a trace is told when everything that was recorded is written.

use std::fs;
use std::time::Duration;

use super::super::ring::GIVE_UP_AFTER;
use super::super::service::Recording;
use super::rig::{FLUSH, NUMBER, Read, Rig};
use crate::link::{Failure, Loss};

fn numbers(numbers: impl IntoIterator<Item = u64>) -> Read {
    Read {
        numbers: numbers.into_iter().collect(),
        ..Read::default()
    }
}

#[test]
fn everything_that_was_recorded_is_written_when_a_flush_is_answered() {
    let mut rig = Rig::new(Loss::Discard);
    assert_eq!(rig.flush(), Ok(vec![]), "there is no program");
    rig.program(1);
    rig.audible_program(2);
    assert_eq!(rig.flush(), Ok(vec![]), "nothing was recorded");
    assert_eq!((rig.record(1, 0..600), rig.record(2, 600..610)), (600, 10));
    assert_eq!(rig.flush(), Ok(vec![]));
    assert_eq!(rig.read(), numbers(0..610));
    // A ring that nobody has heard of.
    assert!(rig.writer(2, 3).record(610, NUMBER, &610_u64.to_ne_bytes()));
    assert_eq!(rig.flush(), Ok(vec![]));
    assert_eq!(rig.read(), numbers(0..611));
}

#[test]
fn a_ring_that_fills_by_itself_gives_up_no_space_for_a_flush() {
    let mut rig = Rig::new(Loss::Discard);
    rig.program(1);
    rig.record(1, 0..10);
    rig.begin_flush();
    rig.work();
    rig.record(1, 10..300);
    rig.work();
    assert_eq!(rig.answer(FLUSH), Some(Ok(vec![])));
    let written = rig.read().numbers.len();
    assert!((10..300).contains(&written), "{written}");
    rig.pass(Duration::from_millis(20));
    rig.work();
    assert_eq!(rig.read().numbers.len(), written);
}

#[test]
fn a_flush_waits_for_a_record_that_was_begun() {
    let mut rig = Rig::new(Loss::Discard);
    rig.program(1);
    rig.program(2);
    let writer = rig.writer(1, 0);
    let begun = writer.reserve(5, NUMBER, &5_u64.to_ne_bytes()).unwrap();
    rig.record(1, 6..8);
    rig.record(2, 8..9);
    rig.begin_flush();
    for _ in 0..20 {
        rig.work();
        rig.pass(Duration::from_millis(10));
    }
    assert_eq!(rig.answer(FLUSH), None);
    rig.writer(1, 0).commit(&begun);
    rig.work();
    assert_eq!(rig.answer(FLUSH), Some(Ok(vec![])));
    assert_eq!(rig.read(), numbers(5..9));
}

#[test]
fn a_flush_ends_when_a_record_is_given_up() {
    let mut rig = Rig::new(Loss::Discard);
    rig.program(1);
    rig.writer(1, 0).reserve(5, NUMBER, &5_u64.to_ne_bytes()).unwrap();
    rig.record(1, 6..8);
    let begun = rig.now;
    assert_eq!(rig.flush(), Ok(vec![]));
    assert!(rig.now >= begun + GIVE_UP_AFTER);
    assert_eq!(rig.read().numbers, [6, 7]);
}

#[test]
fn what_a_program_left_is_written_too() {
    let mut rig = Rig::new(Loss::Discard);
    for (key, number) in [(1, 0), (2, 1)] {
        rig.program(key);
        rig.record(key, number..number + 1);
    }
    rig.retire(1);
    rig.gone(2);
    assert_eq!(rig.flush(), Ok(vec![]));
    assert_eq!(rig.read(), numbers(0..2));
}

#[test]
fn whoever_asks_during_a_flush_is_answered_by_the_next_one() {
    let mut rig = Rig::new(Loss::Discard);
    rig.program(1);
    let begun = rig.writer(1, 0).reserve(0, NUMBER, &0_u64.to_ne_bytes()).unwrap();
    rig.begin_flush();
    rig.work();
    (20..22).for_each(|request| rig.ask_for_flush(request));
    rig.work();
    rig.writer(1, 0).commit(&begun);
    while rig.answer(FLUSH).is_none() {
        rig.pass(Duration::from_millis(20));
        rig.work();
    }
    assert_eq!(rig.answer(20), None);
    rig.record(1, 1..2);
    while rig.answer(20).is_none() {
        rig.work();
        rig.pass(Duration::from_millis(20));
    }
    assert_eq!((rig.answer(20), rig.answer(21)), (Some(Ok(vec![])), Some(Ok(vec![]))));
    assert_eq!(rig.read(), numbers(0..2));
}

#[test]
fn a_flush_says_why_nothing_can_be_written() {
    let mut rig = Rig::new(Loss::Discard);
    rig.program(1);
    rig.record(1, 0..1);
    let folder = rig.output().join("user");
    fs::remove_dir_all(&folder).unwrap();
    fs::write(&folder, "").unwrap();
    assert!(matches!(rig.flush(), Err(Failure::Other { .. })));
    // It is asked again while the session waits for the next try.
    rig.begin_flush();
    rig.work();
    assert!(matches!(rig.answer(FLUSH), Some(Err(Failure::Other { .. }))));
    fs::remove_file(&folder).unwrap();
    while rig.flush().is_err() {
        rig.pass(Duration::from_millis(10));
    }
    assert_eq!(rig.read(), numbers(0..1));
}

#[test]
fn a_session_that_ends_answers_when_its_trace_is_complete() {
    let mut rig = Rig::new(Loss::Discard);
    rig.program(1);
    rig.record(1, 0..1);
    let begun = rig.writer(1, 0).reserve(1, NUMBER, &1_u64.to_ne_bytes()).unwrap();
    rig.session.end(7, false, rig.now);
    rig.begin_flush();
    rig.work();
    assert_eq!(rig.answer(FLUSH), None);
    rig.writer(1, 0).commit(&begun);
    rig.work();
    assert_eq!(rig.answer(FLUSH), Some(Ok(vec![])));
    assert_eq!(rig.read(), numbers(0..2));
    rig.begin_flush();
    rig.work();
    assert_eq!(rig.answer(FLUSH), Some(Ok(vec![])), "it is stopped");
    let mut recorder = Rig::flight_recorder();
    assert_eq!(recorder.flush(), Ok(vec![]));
}
