// SPDX-License-Identifier: MIT OR Apache-2.0
//! `flame` on programs that are written as text.

use super::super::script::{run, shown, table};
use super::*;

fn flame(from_ns: i64, lines: &str) -> Outcome {
    try_flame(from_ns, lines).expect("something is known")
}

fn try_flame(from_ns: i64, lines: &str) -> Result<Outcome, String> {
    run(&FLAME, &Options::default(), from_ns, lines)
}

const TREE: &[&str] = &["total_ns", "self_ns", "calls", "function"];

#[test]
fn time_is_the_innermost_functions() {
    let outcome = flame(
        0,
        "0 1 enter 1000
        10 1 enter 1010
        15 2 enter 1010
        30 1 leave 1010
        35 2 leave 1010
        40 1 enter 1010
        41 1 leave 1010
        100 1 leave 1000",
    );
    let calls = shown(table(&outcome, "calls"), TREE);
    assert_eq!(
        calls,
        [
            "120 0 0 shop",
            "100 79 1   shop:0",
            "21 21 2     shop:1",
            "20 20 1   shop:1"
        ]
    );
    let functions = shown(table(&outcome, "functions"), TREE);
    assert_eq!(functions, ["100 79 1 shop:0", "41 41 3 shop:1"]);
    assert_eq!(outcome.report.notes, Vec::<String>::new());
}

#[test]
fn what_takes_less_than_the_clock_tells_was_called_all_the_same() {
    let lines = "0 1 enter 1000\n5 1 enter 1010\n5 1 leave 1010\n9 1 leave 1000";
    let calls = shown(table(&flame(0, lines), "calls"), TREE);
    assert_eq!(calls, ["9 0 0 shop", "9 9 1   shop:0", "0 0 1     shop:1"]);
    let options = Options {
        min_ns: Some(1),
        ..Options::default()
    };
    let outcome = run(&FLAME, &options, 0, lines).expect("something is known");
    assert_eq!(table(&outcome, "calls").rows.len(), 2);
}

#[test]
fn of_a_part_of_time_only_that_counts() {
    let outcome = flame(
        20,
        "0 1 enter 1000
        10 1 enter 1010
        30 1 leave 1010
        50 1 leave 1000",
    );
    let calls = shown(table(&outcome, "calls"), TREE);
    assert_eq!(calls, ["30 0 0 shop", "30 20 0   shop:0", "10 10 0     shop:1"]);
}

#[test]
fn functions_that_are_left_without_a_word_end_with_who_called_them() {
    let outcome = flame(
        0,
        "0 1 enter 1000
        10 1 enter 1010
        20 1 enter 1020
        30 1 leave 1000
        40 1 leave 1030
        50 1 enter 1000",
    );
    let calls = shown(table(&outcome, "calls"), &["total_ns", "calls", "function"]);
    assert_eq!(
        calls,
        ["30 0 shop", "30 2   shop:0", "20 1     shop:1", "10 1       shop:2"]
    );
    let notes = [
        "1 exit of a function has no known entry",
        "2 functions without an exit are assumed to end with their caller, or before the caller's next call",
    ];
    assert_eq!(outcome.report.notes, notes);
}

#[test]
fn what_a_function_calls_after_a_jump_back_to_it_is_not_below_those_that_were_left() {
    let tree = |lines: &str| shown(table(&flame(0, lines), "calls"), &["calls", "function"]);
    // 1000 calls 1010, which calls 1020, which jumps back; then 1000 calls 1030.
    let jump = "0 1 enter 1000 1101
        10 1 enter 1010 1004
        20 1 enter 1020 1015
        30 1 enter 1030 1008
        40 1 leave 1030
        50 1 leave 1000";
    let expected = ["0 shop", "1   shop:0", "1     shop:1", "1       shop:2", "1     shop:3"];
    assert_eq!(tree(jump), expected);
    // From where nothing tells which function it is, it is called by the innermost.
    let nowhere = tree(&jump.replace("1030 1008", "1030 9008"));
    assert_eq!(nowhere.last().map(String::as_str), Some("1         shop:3"));
    // The compiler put 1010 into 1000, where it calls 1020: all return to where 1000 does.
    let inside = "0 1 enter 1000 1101
        10 1 enter 1010 1101
        20 1 enter 1020 1004
        30 1 leave 1020
        35 1 leave 1010
        50 1 leave 1000";
    assert_eq!(tree(inside), ["0 shop", "1   shop:0", "1     shop:1", "1       shop:2"]);
    // A function that calls itself is left by none of its calls.
    let recursive = "0 1 enter 1000 1101
        10 1 enter 1000 1004
        20 1 enter 1000 1004
        30 1 leave 1000
        35 1 leave 1000
        50 1 leave 1000";
    assert_eq!(
        tree(recursive),
        ["0 shop", "1   shop:0", "1     shop:0", "1       shop:0"]
    );
}

#[test]
fn stacks_are_weighed_by_time_off_the_cpu_and_by_their_number() {
    let outcome = flame(
        0,
        "10 1 switch 1 2 9011 9021 1031
        30 2 switch 2 1 9011 9021
        31 1 event wake 9031 1031
        32 1 event wake 9031 1031
        33 1 event none
        40 1 switch 1 0 9011 9021 1031
        50 0 switch 0 1 9041",
    );
    let off_cpu = shown(table(&outcome, "off_cpu"), &["total_ns", "times", "function"]);
    assert_eq!(
        off_cpu,
        [
            "30 0 thread",
            "30 0   shop:3",
            "30 0     kernel:902",
            "30 2       kernel:901"
        ]
    );
    let events = shown(table(&outcome, "events"), &["total", "function"]);
    assert_eq!(events, ["2 thread", "2   shop:3", "2     kernel:903", "2       wake"]);
    let (_, paths) = &outcome.paths[0];
    let mut folded = String::new();
    let cut = paths.folded(|path, own| writeln!(folded, "{path} {own}"));
    assert_eq!((&*folded, cut), ("thread;shop:3;kernel:902;kernel:901 30\n", Ok(0)));
}

#[test]
fn of_programs_that_nothing_lists_code_has_no_names_and_it_is_said_how_to_get_them() {
    let outcome = flame(
        0,
        "10 1 event wake 1031\n20 100 event wake 1031\n30 101 event wake 1041",
    );
    let events = shown(table(&outcome, "events"), &["total", "function"]);
    assert_eq!(events.len(), 1 + 2 + 2 + 2, "{events:?}");
    assert!(events.contains(&"1   shop:3".to_owned()), "{events:?}");
    let notes = [
        "1 program has functions without names, because the trace does not show what is loaded where; `piste record --preload dl -- CMD` records it",
    ];
    assert_eq!(outcome.report.notes, notes);
}

#[test]
fn functions_that_are_open_where_events_are_missing_are_forgotten() {
    let outcome = flame(
        0,
        "0 1 enter 1000
        10 1 enter 1010
        12 2 enter 1000
        20 1 lost 30 7
        25 1 lost 26 8
        35 1 leave 1010
        40 1 enter 1020
        45 1 leave 1020
        50 1 leave 1000
        52 2 leave 1000",
    );
    let calls = shown(table(&outcome, "calls"), TREE);
    assert_eq!(
        calls,
        [
            "15 0 0 shop",
            "10 10 2   shop:0",
            "0 0 1     shop:1",
            "5 0 0   (unknown)",
            "5 5 1     shop:2"
        ]
    );
    let notes = [
        "0.000000065 s of function time are not counted, and the calls in that time are unknown, because events are missing (see `piste stats`)",
        "3 exits of functions have no known entry",
    ];
    assert_eq!(outcome.report.notes, notes);
}

#[test]
fn what_is_entered_behind_missing_events_is_called_by_nobody_knows_whom() {
    let outcome = flame(0, "0 1 lost 10 7\n20 1 enter 1000\n30 1 leave 1000");
    let calls = shown(table(&outcome, "calls"), TREE);
    assert_eq!(calls, ["10 0 0 shop", "10 0 0   (unknown)", "10 10 1     shop:0"]);
    let outcome = flame(0, "0 1 lost 10 8\n20 1 enter 1000\n30 1 leave 1000");
    assert_eq!(shown(table(&outcome, "calls"), TREE)[1..], ["10 10 1   shop:0"]);
}

#[test]
fn time_off_the_cpu_where_events_are_missing_is_not_counted() {
    let lines = "10 1 switch 1 2 9011
        15 1 lost 20 -
        30 2 switch 2 1 9021";
    let outcome = flame(0, &format!("{lines}\n40 1 switch 1 2 9011"));
    let off_cpu = shown(table(&outcome, "off_cpu"), &["total_ns", "times", "function"]);
    assert_eq!(off_cpu, ["10 0 thread", "10 1   kernel:902"]);
    let notes = ["1 off-CPU period is not counted: events are missing in between (see `piste stats`)"];
    assert_eq!(outcome.report.notes, notes);
    assert_eq!(
        try_flame(0, lines).err().expect("nothing is known"),
        "no durations are known; 1 thread left its CPU and did not return within the trace; \
         1 off-CPU period contains a place where events are missing (see `piste stats`)"
    );
}

#[test]
fn time_off_the_cpu_whose_end_is_untold_is_not_counted() {
    let lines = "0 1 switch 1 0 9011
        1000 1 switch 1 0 9011";
    let outcome = flame(0, &format!("{lines}\n1001 1 switch 0 1"));
    let off_cpu = shown(table(&outcome, "off_cpu"), &["total_ns", "times", "function"]);
    assert_eq!(off_cpu, ["1 0 thread", "1 1   kernel:901"]);
    let notes = ["1 off-CPU period is not counted, 0.000001000 s at most: its end is unknown"];
    assert_eq!(outcome.report.notes, notes);
    assert_eq!(
        try_flame(0, lines).err().expect("nothing is known"),
        "no durations are known; 1 thread left its CPU and did not return within the trace; \
         1 off-CPU period has no known end"
    );
    // It comes back untold, and leaves again without a stack.
    let outcome = flame(
        0,
        "0 1 switch 1 0 9011\n50 1 switch 1 0\n90 1 switch 0 1\n91 1 event wake 9031",
    );
    assert_eq!(outcome.paths.len(), 1, "{:?}", outcome.paths);
    assert!(
        outcome.report.notes[0].starts_with("1 off-CPU period "),
        "{:?}",
        outcome.report.notes
    );
}

#[test]
fn the_dead_are_not_off_the_cpu() {
    let why = try_flame(0, "0 1 die 1 0 9011\n1000 1 switch 0 1").err();
    assert_eq!(why.expect("nothing is known"), "no durations are known");
    // Another thread has the number from then on.
    let outcome = flame(
        0,
        "0 1 die 1 0 9011
        1000 1 switch 0 1
        1010 1 switch 1 0 9021
        1030 1 switch 0 1",
    );
    let off_cpu = shown(table(&outcome, "off_cpu"), &["total_ns", "times", "function"]);
    assert_eq!(off_cpu, ["20 0 thread", "20 1   kernel:902"]);
}

#[test]
fn an_exit_that_names_no_function_is_the_innermost_ones() {
    let outcome = flame(
        0,
        "0 1 enter 1000
        10 1 enter 1010
        20 1 leave
        30 1 enter 1020
        40 1 leave
        50 1 enter 1030
        60 1 leave
        70 1 leave
        80 1 leave",
    );
    let calls = shown(table(&outcome, "calls"), TREE);
    assert_eq!(
        calls,
        [
            "70 0 0 shop",
            "70 40 1   shop:0",
            "10 10 1     shop:1",
            "10 10 1     shop:2",
            "10 10 1     shop:3"
        ]
    );
    assert_eq!(outcome.report.notes, ["1 exit of a function has no known entry"]);
}

#[test]
fn what_there_is_and_what_was_asked_for_is_told_apart() {
    let why = |from_ns, lines| try_flame(from_ns, lines).err().expect("nothing is known");
    assert!(why(0, "10 1 event wake").starts_with("flame needs entries and exits of functions"));
    assert_eq!(
        why(50, "10 1 event wake 9031\n11 1 enter 1000\n12 1 event wake 9031"),
        "none of the 1 entries and exits of functions and 2 events with stacks in this trace is selected"
    );
}

#[test]
fn compared_is_what_functions_cost_whoever_called_them() {
    let outcome = flame(
        0,
        "0 1 enter 1000
        10 1 leave 1000
        20 1 switch 1 2 9011 1031
        30 2 switch 2 1 9011 1041
        40 1 event wake 9031 1031
        50 1 switch 1 2 9011 1031",
    );
    let report = outcome.into_comparable();
    let names: Vec<&str> = report.tables.iter().map(|table| table.name).collect();
    assert_eq!(names, ["functions", "off_cpu", "events"]);
    let off_cpu = shown(&report.tables[1], &["total_ns", "function"]);
    assert!(off_cpu.contains(&"10 shop:3".to_owned()), "{off_cpu:?}");
    assert!(off_cpu.contains(&"30 kernel:901".to_owned()), "{off_cpu:?}");
    let events = shown(&report.tables[2], &["total", "function"]);
    assert!(events.contains(&"1 wake".to_owned()), "{events:?}");
}
