// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why threads waited, of programs whose waits are known: they sleep for a time, and nothing of it can take less. How long the rest takes is
//! the scheduler's business.

use piste_support::Workplace;
use piste_support::compiler::Compilation;
use piste_support::kernel::{self, shared_workplace};
use piste_support::report::{self, number, rows, text};
use serde_json::Value;

/// waits.c sleeps twice as long each time, with all others waiting for it. Between the call and the sleep it may lose its CPU for a while.
const SLEEP_NS: i64 = 150_000_000;

/// Records a run of a program that tells its threads: the trace, and they. `None` when it said that it cannot run here.
fn try_record(place: &Workplace, options: &[&str], source: &str, mode: &str) -> Option<(String, Vec<i64>)> {
    let program = place.path("program");
    Compilation::of(&[source]).link(&program);
    for old in ["threads", "trace"] {
        place.run("rm", &["-rf", text(&place.path(old))]).expect_success();
    }
    let trace = text(&place.path("trace")).to_owned();
    let command = ["-o", &trace, "--", text(&program), mode];
    let alone = kernel::alone();
    let recorded = place.piste(&[&["record", "--no-user"], options, &command].concat());
    drop(alone);
    if recorded.status == 77 {
        return None;
    }
    recorded.expect_success();
    let threads = std::fs::read_to_string(place.path("threads")).expect("it named its threads");
    let threads = threads.lines().map(|line| line.parse().expect("a number"));
    Some((trace, threads.collect()))
}

fn record(place: &Workplace, source: &str, mode: &str) -> (String, Vec<i64>) {
    // Whether what comes over a network was sent from here can be told where all that interrupts is known.
    let options: &[&str] = if mode == "tcp" { &["-a"] } else { &[] };
    try_record(place, options, source, mode).expect("it runs anywhere")
}

fn analyze(place: &Workplace, name: &str, trace: &str, options: &[&str]) -> Value {
    report::analyze(place, name, trace, &[&["--limit", "100000"], options].concat())
}

/// The path of the main thread, whose segments follow each other without a hole.
fn path(place: &Workplace, trace: &str, thread: i64) -> Vec<Value> {
    let report = analyze(place, "critical-path", trace, &["--tid", &thread.to_string()]);
    let path = rows(&report, "path");
    for pair in path.windows(2) {
        let end_ns = number(&pair[0]["begin_ns"]) + number(&pair[0]["duration_ns"]);
        assert_eq!(end_ns, number(&pair[1]["begin_ns"]), "{report:#}");
    }
    let all_ns: i64 = path.iter().map(|row| number(&row["duration_ns"])).sum();
    for table in ["causes", "threads"] {
        let mut sum_ns = 0;
        for row in rows(&report, table) {
            let ns = number(&row["total_ns"]);
            sum_ns += ns;
            let percent = 100.0 * ns as f64 / all_ns as f64;
            let told = row["share_percent"].as_f64().expect("a number");
            assert!((told - percent).abs() < 0.1, "{percent} % of {all_ns} ns: {row:#}");
        }
        assert_eq!(sum_ns, all_ns, "{table}: {report:#}");
    }
    path.clone()
}

/// How long the path is a sleep of one of these threads.
fn asleep_ns(path: &[Value], threads: &[i64]) -> i64 {
    let is_sleep =
        |row: &&Value| row["state"] == "blocked" && row["cause"] == "timer" && threads.contains(&number(&row["tid"]));
    path.iter()
        .filter(is_sleep)
        .map(|row| number(&row["duration_ns"]))
        .sum()
}

#[test]
fn a_path_leads_to_the_sleep_that_all_wait_for() {
    let Some(place) = shared_workplace() else { return };
    for (mode, count) in [
        ("timer", 1),
        ("chain", 1),
        ("pipe", 3),
        ("tcp", 3),
        ("lock", 1),
        ("convoy", 3),
    ] {
        let (trace, threads) = record(&place, "waits.c", mode);
        let path = path(&place, &trace, threads[0]);
        // Of a chain the last one sleeps, of locks all that have it.
        let sleepers = match mode {
            "timer" => &threads[..],
            "chain" => &threads[2..],
            _ => &threads[1..],
        };
        let ns = asleep_ns(&path, sleepers);
        assert!(ns >= count * SLEEP_NS, "{mode}: {ns} ns asleep: {path:#?}");
        // All others wait for who sleeps, not for a time of their own.
        let own_ns = asleep_ns(&path, &threads[..1]);
        assert_eq!(own_ns >= SLEEP_NS, mode == "timer", "{mode}: {path:#?}");
    }
}

#[test]
fn a_part_of_a_path_is_what_the_whole_one_has_there() {
    let Some(place) = shared_workplace() else { return };
    let (trace, threads) = record(&place, "waits.c", "chain");
    let whole = path(&place, &trace, threads[0]);
    let longest = whole
        .iter()
        .max_by_key(|row| number(&row["duration_ns"]))
        .expect("there is one");
    assert_eq!(number(&longest["tid"]), threads[2], "{whole:#?}");
    let begin_ns = number(&longest["begin_ns"]) + 1_000_000;
    let end_ns = begin_ns + 100_000_000;
    let (begin, end) = (begin_ns.to_string(), end_ns.to_string());
    let thread = threads[0].to_string();
    let options = ["--tid", &thread, "--begin", &begin, "--end", &end];
    let report = analyze(&place, "critical-path", &trace, &options);
    let part = rows(&report, "path");
    assert_eq!(part.len(), 1, "{report:#}");
    for key in ["tid", "state", "cause", "depth", "wait_syscall"] {
        assert_eq!(part[0][key], longest[key], "{report:#}");
    }
    assert_eq!(number(&part[0]["begin_ns"]), begin_ns, "{report:#}");
    assert_eq!(number(&part[0]["duration_ns"]), end_ns - begin_ns, "{report:#}");
}

#[test]
fn a_lock_is_known_by_who_waits_for_it_and_who_wakes() {
    let Some(place) = shared_workplace() else { return };
    let (trace, threads) = record(&place, "waits.c", "lock");
    let report = analyze(&place, "futex", &trace, &[]);
    let is_wait = |row: &&Value| {
        let waker = format!("({})", threads[1]);
        number(&row["tid"]) == threads[0]
            && row["waker"].as_str().is_some_and(|by| by.ends_with(&waker))
            && number(&row["max_ns"]) >= SLEEP_NS
    };
    let wait = rows(&report, "waits").iter().find(is_wait);
    let wait = wait.unwrap_or_else(|| panic!("{threads:?}: {report:#}"));
    let futex = rows(&report, "futexes")
        .iter()
        .find(|row| row["futex"] == wait["futex"]);
    let futex = futex.unwrap_or_else(|| panic!("{report:#}"));
    assert!(number(&futex["total_ns"]) >= SLEEP_NS, "{report:#}");
    assert!(number(&futex["wakes"]) >= 1, "{report:#}");
}

#[test]
fn a_priority_inversion_is_found_where_a_lock_is_held_that_inherits_none() {
    let Some(place) = shared_workplace() else { return };
    for mode in ["plain", "inherit", "work"] {
        let Some((trace, threads)) = try_record(&place, &[], "inversion.c", mode) else {
            println!("skipped: real-time priorities are refused");
            return;
        };
        let report = analyze(&place, "priority-inversion", &trace, &[]);
        let is_ours = |row: &&Value| {
            let keys = ["victim_tid", "holder_tid", "culprit_tid"];
            keys.map(|key| number(&row[key])) == threads[..]
        };
        let found = rows(&report, "inversions").iter().find(is_ours);
        if mode != "plain" {
            assert_eq!(found, None, "{mode}: {report:#}");
            continue;
        }
        let found = found.unwrap_or_else(|| panic!("{threads:?}: {report:#}"));
        let priorities = ["victim_priority", "culprit_priority", "holder_priority"].map(|key| number(&found[key]));
        assert_eq!(priorities, [-91, -51, -11], "{report:#}");
        // The culprit uses 100 ms of its CPU, all while the others wait.
        let ns = number(&found["duration_ns"]);
        assert!(ns >= 90_000_000 && ns <= number(&found["wait_ns"]), "{report:#}");
    }
}
