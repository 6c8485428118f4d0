// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts are exact: what was recorded is in the trace once, what was not is counted.

use std::collections::BTreeMap;

use piste_support::{Event, Recording, Workplace};

/// A program that waits loses nothing, however busy the computer is.
const LOSSLESS: [&str; 4] = ["-u", "count:*", "--block", "forever"];
const TINY: [&str; 6] = ["-u", "count:*", "--subbuf-size", "4K", "--num-subbuf", "2"];

#[test]
fn every_event_of_one_thread_is_counted_once() {
    check_millions(1, 2_000_000);
}

#[test]
fn every_event_of_two_threads_is_counted_once() {
    check_millions(2, 1_000_000);
}

#[test]
fn every_event_of_eight_threads_is_counted_once() {
    check_millions(8, 250_000);
}

#[test]
fn every_event_of_sixty_four_threads_is_counted_once() {
    check_millions(64, 31_250);
}

#[test]
fn every_event_of_twenty_processes_at_once_is_counted_once() {
    let place = Workplace::new();
    let program = place.program("count.c");
    let script = format!("for i in $(seq 20); do {} 1 100000 & done; wait", program.display());
    let recording = place.record(&LOSSLESS, "/bin/sh", &["-c", &script]);
    recording.expect_whole();
    assert_eq!(recording.events(), 2_000_000);
    assert_eq!(recording.trace().event_count(), 2_000_000);
    let programs = &recording.summary()["participants"];
    let count = programs
        .as_array()
        .and_then(|all| all.iter().find(|program| program["name"] == "count"));
    assert_eq!(count.map(|program| &program["matched"]), Some(&20.into()), "{programs}");
}

#[test]
fn the_default_channel_with_larger_rings_keeps_a_burst() {
    let place = Workplace::new();
    let program = place.program("count.c");
    let recording = place.record(&["-u", "count:*", "--subbuf-size", "16M"], program, &["1", "100000"]);
    recording.expect_whole();
    check_order(&recording, 1, 100_000);
}

#[test]
fn the_events_of_each_thread_come_in_their_order() {
    let place = Workplace::new();
    let program = place.program("count.c");
    for threads in [1_u64, 8, 64] {
        let each = 160_000 / threads;
        let recording = place.record(&LOSSLESS, &program, &[&threads.to_string(), &each.to_string()]);
        recording.expect_whole();
        check_order(&recording, threads, each);
    }
}

/// A thread that has moved to another CPU between looking for its ring and writing to it meets others there.
#[test]
fn threads_that_meet_in_a_ring_keep_the_order_of_time() {
    let place = Workplace::new();
    let program = place.program("count.c");
    for _ in 0..40 {
        // A record whose time is before that of the one before it would be a finding.
        let recording = place.record(&LOSSLESS, &program, &["16", "125000"]);
        recording.expect_whole();
        assert_eq!(recording.events(), 2_000_000);
    }
}

#[test]
fn discarding_rings_that_are_too_small_count_what_they_discard() {
    let recording = check_loss(&["--discard"]);
    assert!(recording.losses("discarded_full") > 0, "{}", recording.summary());
}

#[test]
fn overwriting_rings_that_are_too_small_count_what_they_overwrite() {
    let recording = check_loss(&["--overwrite"]);
    assert!(recording.losses("overwritten") > 0, "{}", recording.summary());
}

#[test]
fn blocking_rings_count_what_they_discard_after_the_timeout() {
    check_loss(&["--block", "10us"]);
}

#[test]
fn tiny_rings_that_wait_without_limit_lose_nothing() {
    let place = Workplace::new();
    let program = place.program("count.c");
    let recording = place.record(&[&TINY[..], &["--block", "forever"]].concat(), program, &["4", "20000"]);
    recording.expect_whole();
    check_order(&recording, 4, 20_000);
}

fn check_millions(threads: u64, each: u64) {
    let place = Workplace::new();
    let program = place.program("count.c");
    let recording = place.record(&LOSSLESS, program, &[&threads.to_string(), &each.to_string()]);
    recording.expect_whole();
    assert_eq!(recording.events(), threads * each);
    assert_eq!(recording.trace().event_count(), threads * each);
}

/// Each thread's numbers are 0, 1, 2, ...
fn check_order(recording: &Recording, threads: u64, each: u64) {
    let mut next: BTreeMap<u64, u64> = BTreeMap::new();
    for event in recording.trace().events() {
        let expected = next.entry(event.number("thread")).or_default();
        assert_eq!(event.number("number"), *expected, "{event:?}");
        *expected += 1;
    }
    assert_eq!(next.len() as u64, threads);
    assert!(next.values().all(|count| *count == each), "{next:?}");
}

/// Recorded and discarded are what was emitted, for the summary and for babeltrace2; what was recorded is in order.
fn check_loss(mode: &[&str]) -> Recording {
    const THREADS: u64 = 4;
    const EACH: u64 = 50_000;
    let place = Workplace::new();
    let program = place.program("count.c");
    let options = [&TINY[..], mode].concat();
    let recording = place.record(&options, program, &[&THREADS.to_string(), &EACH.to_string()]);
    recording.finished.expect_success();
    assert_eq!(
        recording.events() + recording.discarded(),
        THREADS * EACH,
        "{}",
        recording.summary()
    );
    assert!(
        recording.discarded() > 0,
        "the rings are too small: {}",
        recording.summary()
    );

    let (events, discarded) = recording.trace().events_and_loss();
    assert_eq!(events.len() as u64, recording.events());
    assert_eq!(discarded, recording.discarded());
    check_ascending(&events);
    recording
}

fn check_ascending(events: &[Event]) {
    let mut last: BTreeMap<u64, u64> = BTreeMap::new();
    for event in events {
        let number = event.number("number");
        let before = last.insert(event.number("thread"), number);
        assert!(
            before.is_none_or(|before| before < number),
            "{before:?} before {event:?}"
        );
    }
}
