// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes, where the kernel uses an id again, and where only some of their threads are seen.

use super::ltt::LTT;
use super::procs::PROCS;
use crate::analysis::{Description, Options};
use crate::facts::Fact;
use crate::model::{At, Circumstances, Nobody, System, script};
use crate::report::Value;

/// Columns of an analysis's `processes`.
#[track_caller]
fn check(description: &Description, lines: &str, keys: &[&str], expected: &[&str]) {
    let mut analysis = (description.begin)(&Options::default());
    let mut system = System::new(Circumstances::whole(0));
    script::apply(&mut system, lines, analysis.as_mut());
    system.finish(100, analysis.as_mut());
    let report = analysis.report(&system);
    let table = report.tables.iter().find(|table| table.name == "processes");
    let table = table.expect("it has one");
    let place = |key: &&str| table.columns.iter().position(|column| column.key == *key);
    let places: Vec<usize> = keys
        .iter()
        .map(|key| place(key).expect("there is such a column"))
        .collect();
    let text = |value: &Value| match value {
        Value::Number(number) => number.to_string(),
        Value::Text(text) => text.clone(),
        Value::None => "-".to_owned(),
        other => format!("{other:?}"),
    };
    let row = |row: &Vec<Value>| {
        let words: Vec<String> = places.iter().map(|place| text(&row[*place])).collect();
        words.join(" ")
    };
    let rows: Vec<String> = table.rows.iter().map(row).collect();
    assert_eq!(rows, expected);
}

/// 1 begins 5, which has another thread; then another 5.
const USED_AGAIN: &str = "
    1 cpu0 switch 9 waits 1
    2 cpu0 rename 1 shell
    10 cpu0 fork 1 5
    12 cpu0 switch 1 waits 5
    13 cpu0 rename 5 first
    15 cpu0 thread 5 6
    20 cpu0 exit 5
    21 cpu0 switch 5 dies 6
    25 cpu0 switch 6 dies 1
    30 cpu0 fork 1 5
    32 cpu0 switch 1 waits 5
    33 cpu0 rename 5 second
    40 cpu0 exit 5
    41 cpu0 switch 5 dies 1";

#[test]
fn processes_that_have_one_id_after_the_other_are_apart() {
    check(
        &LTT,
        USED_AGAIN,
        &["pid", "comm", "threads", "on_cpu_ns"],
        &["1 shell 1 77", "5 first 2 13", "5 second 1 9", "9 - 1 1"],
    );
    check(
        &PROCS,
        USED_AGAIN,
        &["pid", "comm", "on_cpu_ns"],
        &["1 shell 77", "5 first 13", "5 second 9"],
    );
}

#[test]
fn a_process_is_not_called_as_one_of_its_threads() {
    let lines = "
        1 cpu0 switch 9 waits 8
        5 cpu0 thread 7 6
        6 cpu0 rename 6 worker
        10 cpu0 switch 8 waits 6
        15 cpu0 fork 6 5
        16 cpu0 rename 5 child
        20 cpu0 switch 6 dies 5";
    check(
        &LTT,
        lines,
        &["pid", "comm", "on_cpu_ns"],
        &["5 child 80", "7 - 10", "8 - 9", "9 - 1"],
    );
    check(&PROCS, lines, &["pid", "comm"], &["7 -", "5 child"]);
}

#[test]
fn what_the_state_dump_says_is_of_the_process_that_was_there() {
    let mut system = System::new(Circumstances::whole(0));
    let at = At {
        ns: 1,
        cpu: None,
        tid: None,
    };
    let dumped = Fact::DumpedProcess {
        pid: 5,
        command_line: b"first",
        cgroup: b"/a",
    };
    system.apply(&dumped, at, &mut Nobody);
    let cgroup = |system: &System| {
        let of_thread = system.thread(system.find(5).expect("it is there"));
        system
            .process(of_thread.process())
            .map(|process| process.cgroup.to_string())
    };
    script::apply(&mut system, "2 cpu0 switch 9 waits 5", &mut Nobody);
    assert_eq!(cgroup(&system), Some("/a".to_owned()));
    script::apply(
        &mut system,
        "4 cpu0 exit 5\n5 cpu0 switch 5 dies 1\n6 cpu0 fork 1 5",
        &mut Nobody,
    );
    assert_eq!(cgroup(&system), None);
}
