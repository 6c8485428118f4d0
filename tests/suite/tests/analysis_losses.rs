// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste analyze periods`, `heap` and `flame` on recordings that lost events, of programs of which is known what they did: what is told is
//! true, and what is not told is counted.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use piste_support::report::{analyze, number, rows, text};
use piste_support::{Compilation, Workplace};
use serde_json::Value;

/// Some packets before the first loss, and behind the last overwritten one.
const SMALL: [&str; 4] = ["--subbuf-size", "4K", "--num-subbuf", "8"];
const TINY: [&str; 4] = ["--subbuf-size", "4K", "--num-subbuf", "2"];

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

/// The number that a note with these words begins with; 0 without such a note.
fn noted(report: &Value, what: &str) -> i64 {
    let mut notes = rows(report, "notes").iter().map(word);
    let count = notes.find_map(|note| note.split_once(' ').filter(|(_, rest)| rest.contains(what)));
    count.map_or(0, |(count, _)| count.parse().expect("a number"))
}

// ---- periods ----

const BEGIN: &str = "work:round_begin";
const END: &str = "work:round_end";

/// Two threads do more rounds of work than rings hold. A recording that discards, and the newest events of a flight recorder.
fn record_rounds(place: &Workplace, options: &[&str]) -> PathBuf {
    let events = ["-u", "work:*,step:*"];
    let recording = place.record(&[&events, options].concat(), place.program("spans.c"), &["20000"]);
    recording.finished.expect_success();
    place.folders_of_recordings().pop().expect("a recording")
}

/// Every period that is told is one round, and every begin and end is in a period or counted.
fn check_rounds(place: &Workplace, trace: &Path) {
    let lines = place.piste_succeeds(&[
        "view",
        text(trace),
        "--clock",
        "cycles",
        "--format",
        "ndjson",
        "-e",
        "work:*",
    ]);
    let mut counts: BTreeMap<String, i64> = BTreeMap::new();
    let mut ends: HashMap<(i64, i64), i64> = HashMap::new();
    for line in lines.lines() {
        let event: Value = serde_json::from_str(line).expect("JSON");
        *counts.entry(word(&event["name"]).to_owned()).or_default() += 1;
        if event["name"] == END {
            let tid = number(&event["event_context"]["vtid"]);
            ends.insert((tid, number(&event["time_ns"])), number(&event["payload"]["number"]));
        }
    }
    let report = place.piste_json(&[
        "analyze",
        "periods",
        text(trace),
        "--begin-event",
        &format!("name == {BEGIN:?}"),
        "--end-event",
        &format!("name == {END:?}"),
        "--capture",
        "number,$tid",
        "--limit",
        "1000000",
    ]);
    let log = rows(&report, "log");
    for period in log {
        let (round, tid) = word(&period["captured"]).split_once(' ').expect("two values");
        let end_ns = number(&period["begin_ns"]) + number(&period["duration_ns"]);
        let ended = ends[&(tid.parse().expect("a number"), end_ns)];
        assert_eq!(round, ended.to_string(), "{period}");
    }
    let told = log.len() as i64;
    let begins = noted(&report, "before a place where") + noted(&report, "no end event");
    let ends = noted(&report, "after a place where") + noted(&report, "no begin event");
    assert_eq!((told + begins, told + ends), (counts[BEGIN], counts[END]), "{report:#}");
    assert!(told > 0, "before the first loss, or behind the last, all is known");
    assert!(begins + ends > 0, "something was lost");
    // In SQL they are the same.
    let times = |row: &Value| (number(&row["begin_ns"]), number(&row["duration_ns"]));
    let mut theirs: Vec<_> = log.iter().map(times).collect();
    let sql = "SELECT begin_ns, duration_ns FROM spans WHERE name = 'work:round' AND duration_ns IS NOT NULL";
    let lines = place.piste_succeeds(&["query", "--format", "ndjson", text(trace), sql]);
    let mut ours: Vec<_> = lines
        .lines()
        .map(|line| times(&serde_json::from_str(line).expect("JSON")))
        .collect();
    theirs.sort_unstable();
    ours.sort_unstable();
    assert!(ours == theirs, "{} spans, {} periods", ours.len(), theirs.len());
}

#[test]
fn periods_across_lost_events_are_counted_and_not_made_up() {
    let place = Workplace::new();
    check_rounds(&place, &record_rounds(&place, &[&SMALL[..], &["--discard"]].concat()));
}

#[test]
fn of_overwritten_events_periods_know_the_newest() {
    let place = Workplace::new();
    let folder = record_rounds(&place, &[&SMALL[..], &["--snapshot-on", "exit"]].concat());
    let snapshots: Vec<PathBuf> = fs::read_dir(&folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.is_dir())
        .collect();
    let [snapshot] = &snapshots[..] else {
        panic!("{snapshots:?}")
    };
    check_rounds(&place, snapshot);
}

// ---- heap, flame ----

/// Linked with nothing of Piste's.
fn bursts(place: &Workplace) -> PathBuf {
    let compilation = Compilation::of(&["bursts.c"]).with("-Wl,--as-needed");
    place.compile(&compilation.with("-finstrument-functions"), "bursts")
}

#[test]
fn what_was_given_back_where_events_are_missing_is_no_leak_for_sure() {
    let place = Workplace::new();
    let recording = place.record(
        &[&TINY[..], &["--preload", "libc-callers"]].concat(),
        bursts(&place),
        &["1", "50000"],
    );
    recording.finished.expect_success();
    assert!(recording.discarded() > 0, "{}", recording.summary());
    let report = analyze(&place, "heap", text(recording.trace().path()), &["--limit", "1000"]);
    let is_of_program = |row: &&Value| row["function"] == "takes_one";
    let leak = rows(&report, "leaks").iter().find(is_of_program);
    let leak = leak.unwrap_or_else(|| panic!("{report:#}"));
    assert_eq!(leak["live_count"], 0, "all of them were given back: {leak}");
    assert!(number(&leak["unsure_count"]) > 0, "{leak}");
    assert_eq!(noted(&report, "lost events"), 1, "{report:#}");
}

#[test]
fn functions_across_lost_events_have_no_callers_that_are_made_up() {
    let place = Workplace::new();
    let recording = place.record(
        &[&TINY[..], &["--preload", "functions"]].concat(),
        bursts(&place),
        &["5000", "8"],
    );
    recording.finished.expect_success();
    assert!(recording.discarded() > 0, "{}", recording.summary());
    let trace = recording.trace();
    let report = analyze(&place, "flame", text(trace.path()), &["--limit", "1000"]);
    let mut path: Vec<&str> = Vec::new();
    for row in rows(&report, "calls") {
        path.truncate(number(&row["depth"]) as usize);
        path.push(word(&row["function"]));
        let is_top = matches!(path[..], ["bursts"] | ["bursts", "main" | "(unknown)"]);
        let is_called = matches!(
            path[..],
            [.., "main", "takes" | "gives"] | [.., "takes", "takes_one"] | [.., "gives", "gives_one"]
        );
        let is_true = is_top || is_called || matches!(path[..], ["bursts", "(unknown)", _]);
        assert!(is_true, "{path:?}: {report:#}");
    }
    let notes: Vec<&str> = rows(&report, "notes").iter().map(word).collect();
    assert!(
        notes
            .iter()
            .any(|note| note.contains("of function time are not counted")),
        "{notes:?}"
    );
}
