// SPDX-License-Identifier: MIT OR Apache-2.0
//! `heap` on programs that are written as text.

use super::super::script::{run, shown, table};
use super::*;

fn heap(from_ns: i64, lines: &str) -> Outcome {
    run(&HEAP, &Options::default(), from_ns, lines).expect("it always answers")
}

#[track_caller]
fn check(outcome: &Outcome, process: &str, leaks: &[&str]) {
    let keys = [
        "allocations",
        "allocated_bytes",
        "peak_bytes",
        "peak_at_ns",
        "live_count",
        "live_bytes",
    ];
    let rest = ["frees", "unknown_frees", "failed"];
    let processes = shown(table(outcome, "processes"), &[&keys[..], &rest].concat());
    assert_eq!(processes, [process]);
    let seen = shown(table(outcome, "leaks"), &["live_bytes", "live_count", "function"]);
    assert_eq!(seen, leaks);
}

#[test]
fn what_lives_is_counted_by_who_asked_for_it_last() {
    let outcome = heap(
        0,
        "1 1 malloc a0 10 1021
        2 1 malloc b0 20 1021
        3 1 malloc c0 8 1031
        4 1 free a0
        5 1 realloc b0 d0 40 1045
        6 1 realloc 0 e0 4 1045
        7 1 free 0
        8 1 free f0
        9 1 malloc 0 ffff 1021
        10 1 realloc e0 0 0 1045",
    );
    // 0x10 + 0x20 + 0x8, less 0x10 and 0x20, plus 0x40: 72; plus 4, which goes again.
    check(&outcome, "5 124 76 6 2 72 4 1 1", &["64 1 shop:4", "8 1 shop:3"]);
    let callers = shown(
        table(&outcome, "callers"),
        &["bytes", "count", "largest_bytes", "function"],
    );
    assert_eq!(callers, ["68 2 64 shop:4", "48 2 32 shop:2", "8 1 8 shop:3"]);
    let sizes = shown(table(&outcome, "sizes"), &["from_bytes", "until_bytes", "count"]);
    assert_eq!(sizes, ["4 8 1", "8 16 1", "16 32 1", "32 64 1", "64 128 1"]);
}

#[test]
fn an_address_that_realloc_gives_up_may_be_taken_before_it_says_so() {
    let outcome = heap(
        0,
        "1 1 malloc a0 10 1021
        2 2 malloc a0 20 1031
        3 1 realloc a0 b0 30 1041
        4 1 free b0",
    );
    check(&outcome, "3 96 80 3 1 32 1 0 0", &["32 1 shop:3"]);
}

#[test]
fn an_address_that_is_taken_again_because_events_are_missing_is_nobody_elses() {
    let lines = "10 2 malloc a0 20 1031
        20 3 realloc a0 b0 30 1041
        30 3 free b0";
    for before in ["1 1 malloc a0 10 1021\n5 1 lost 8 7", "5 1 lost 8 7\n9 1 malloc 0 1"] {
        let outcome = heap(0, &format!("{before}\n{lines}"));
        let counts = shown(table(&outcome, "processes"), &["live_count", "unsure_count"]);
        assert_eq!(counts, ["0 0"], "{before}");
    }
}

#[test]
fn a_thread_that_says_something_meanwhile_was_not_in_realloc() {
    let lines = |between: &str| {
        format!(
            "1 1 malloc a0 10 1021
            10 2 malloc a0 20 1031
            {between}
            20 3 realloc a0 b0 30 1041
            30 3 free b0"
        )
    };
    // Nothing is missing: the `realloc` gave up the address before it was taken again.
    let outcome = heap(0, &lines("10 2 free 0"));
    check(&outcome, "3 96 80 20 1 32 1 0 0", &["32 1 shop:3"]);
    let outcome = heap(0, &lines("11 3 free 0"));
    check(&outcome, "3 96 48 20 0 0 2 0 0", &[]);
}

#[test]
fn a_call_that_returns_behind_its_function_is_the_functions() {
    let outcome = heap(0, "1 1 malloc a0 10 1030");
    check(&outcome, "1 16 16 1 1 16 0 0 0", &["16 1 shop:2"]);
}

#[test]
fn what_was_there_before_is_known_and_not_counted() {
    let outcome = heap(
        3,
        "1 1 malloc a0 10 1021
        2 1 malloc b0 20 1021
        3 1 free a0
        4 1 malloc c0 8 1021",
    );
    check(&outcome, "1 8 8 4 1 8 1 0 0", &["8 1 shop:2"]);
}

#[test]
fn without_callers_all_is_together() {
    let outcome = heap(0, "1 1 malloc a0 10\n2 1 malloc b0 20");
    check(&outcome, "2 48 48 2 2 48 0 0 0", &["48 2 -"]);
    assert_eq!(outcome.report.notes.len(), 1);
}

#[test]
fn what_was_taken_before_events_are_missing_may_have_been_given_back() {
    let lines = "1 1 malloc a0 10 1021
        2 1 malloc b0 20 1021
        3 1 malloc c0 8 1031
        5 1 free c0
        6 1 malloc d0 40 1021
        7 1 free b0";
    let outcome = heap(0, &format!("3 1 lost 4 7\n{lines}"));
    let keys = ["live_bytes", "live_count", "unsure_bytes", "unsure_count"];
    let processes = shown(
        table(&outcome, "processes"),
        &[&keys[..], &["peak_bytes", "peak_at_ns"]].concat(),
    );
    assert_eq!(processes, ["64 1 16 1 - -"]);
    let leaks = shown(table(&outcome, "leaks"), &[&keys[..], &["function"]].concat());
    assert_eq!(leaks, ["64 1 16 1 shop:2"]);
    assert!(
        outcome.report.notes[0].starts_with("1 process lost events"),
        "{:?}",
        outcome.report.notes
    );

    // What is missing is another process's, or came before.
    for (lost, peak, notes) in [("3 1 lost 4 8", "112", 0), ("0 1 lost 1 7", "-", 1)] {
        let outcome = heap(0, &format!("{lost}\n{lines}"));
        assert_eq!(shown(table(&outcome, "leaks"), &keys), ["80 2 0 0"], "{lost}");
        assert_eq!(shown(table(&outcome, "processes"), &["peak_bytes"]), [peak], "{lost}");
        assert_eq!(outcome.report.notes.len(), notes, "{lost}");
    }
}
