// SPDX-License-Identifier: MIT OR Apache-2.0
//! The worked cases of the guide (docs/guide/10-cases.md): what the scripts in examples/ record leads to the cause.

use std::env;
use std::process::Command;

use piste_support::Workplace;
use piste_support::build_tree::{build, repository};
use piste_support::disk::Disk;
use piste_support::kernel::{self, shared_workplace};
use piste_support::process::run;
use piste_support::report::{self, number, rows, text};
use serde_json::Value;

/// Records a case without loss; the trace. `None`, once said why, where the case cannot be had.
fn record(place: &Workplace, case: &str) -> Option<String> {
    let others = env::var("PATH").expect("a path");
    let path = format!("{}:{others}", build().join("bin").display());
    for turn in 1..=5 {
        let trace = place.path(&format!("{case}-{turn}"));
        let mut script = place.command(repository().join("examples").join(case));
        let alone = kernel::alone();
        let recorded = run(script.arg(&trace).env("PATH", &path));
        drop(alone);
        if recorded.status == 77 {
            println!("skipped: real-time priorities are refused");
            return None;
        }
        recorded.expect_success();
        if recorded.stderr.contains("nothing lost") {
            return Some(text(&trace).to_owned());
        }
    }
    panic!("no recording of {case} without loss");
}

/// Whether what is written below /var/tmp goes to a disk. Prints why not.
fn has_disk() -> bool {
    let found = run(Command::new("stat").args(["--file-system", "--format=%T", "/var/tmp"]));
    let has_disk = found.expect_success().stdout.trim() != "tmpfs";
    if !has_disk {
        println!("skipped: /var/tmp is in memory");
    }
    has_disk
}

/// What stands out of a kind, about what begins so.
fn insight(place: &Workplace, trace: &str, kind: &str, about: &str) -> Value {
    let all = place.piste_json(&["insights", trace]);
    let is_meant = |insight: &&Value| insight["kind"] == kind && said(insight).starts_with(about);
    let mut insights = all["insights"].as_array().expect("a list").iter();
    insights
        .find(is_meant)
        .unwrap_or_else(|| panic!("{kind} of {about}: {all:#}"))
        .clone()
}

fn said(insight: &Value) -> &str {
    insight["what"].as_str().expect("a text")
}

/// Each with its time, the longest first.
fn durations(value: &Value) -> Vec<(&str, i64)> {
    let all = value.as_array().expect("a list").iter();
    all.map(|one| (one["name"].as_str().expect("a name"), number(&one["ns"])))
        .collect()
}

#[test]
fn the_wait_for_a_disk_names_the_call_and_the_files() {
    let Some(place) = shared_workplace() else { return };
    if !has_disk() {
        return;
    }
    let Some(trace) = record(&place, "disk-wait") else {
        return;
    };
    let found = insight(&place, &trace, "uninterruptible wait", "sqlite3 (");
    assert!(
        said(&found).contains("a disk or a similar device, mostly in fdatasync"),
        "{found:#}"
    );
    assert!(durations(&found["by_file"])[0].0.contains("orders.db"), "{found:#}");
    // Each order has its own.
    assert!(number(&found["calls"]) > 300, "{found:#}");
}

#[test]
fn the_lock_of_a_convoy_is_named() {
    let Some(place) = shared_workplace() else { return };
    let Some(trace) = record(&place, "lock-convoy") else {
        return;
    };
    let found = insight(&place, &trace, "lock convoy", "threads of python3 (");
    assert!(said(&found).contains("mostly _PyRuntime"), "{found:#}");
    // Each of the four threads had it.
    assert!(durations(&found["held_by"]).len() >= 4, "{found:#}");
}

#[test]
fn all_three_threads_of_a_priority_inversion_are_named() {
    let Some(place) = shared_workplace() else { return };
    let Some(trace) = record(&place, "priority-inversion") else {
        return;
    };
    let found = insight(&place, &trace, "priority inversion", "control (");
    let parts = said(&found).split_once(" waited for a lock held by log (");
    let is_whole =
        parts.is_some_and(|(_, rest)| rest.contains("could not run because draw (") && rest.ends_with("had the CPU"));
    assert!(is_whole, "{found:#}");
    // The picture is drawn for 40 ms.
    assert!(number(&found["longest_ns"]) > 10_000_000, "{found:#}");
}

#[test]
fn the_hog_that_keeps_a_service_from_its_cpu_is_named() {
    let Some(place) = shared_workplace() else { return };
    let Some(trace) = record(&place, "cpu-hog") else { return };
    let found = insight(&place, &trace, "no CPU", "redis-server (");
    let behind = durations(&found["behind"]);
    let hog = behind.iter().find(|(name, _)| name.starts_with("gzip ("));
    let (_, ns) = hog.unwrap_or_else(|| panic!("{found:#}"));
    assert!(*ns > 3 * number(&found["on_cpu_ns"]), "{found:#}");
}

#[test]
fn the_call_behind_a_slow_request_leads_to_who_ended_it() {
    let Some(place) = shared_workplace() else { return };
    if Disk::new(&place, 16 << 20, 0).is_none() {
        return;
    }
    let Some(trace) = record(&place, "slow-request") else {
        return;
    };
    let found = insight(&place, &trace, "slow file", "redis-server (");
    assert!(
        said(&found).contains("waited unusually long to write appendonlydir/"),
        "{found:#}"
    );
    assert!(number(&found["longest_ns"]) > 900_000_000, "{found:#}");
    // Who ended the wait, and what that waited for.
    let waits = report::analyze(&place, "blocked", &trace, &["--comm", "redis-server", "--min", "900ms"]);
    let is_meant = |row: &&Value| {
        row["syscall"] == "write" && row["waker"].as_str().is_some_and(|by| by.starts_with("fsfreeze ("))
    };
    let wait = rows(&waits, "waits").iter().find(is_meant);
    let wait = wait.unwrap_or_else(|| panic!("{waits:#}"));
    let [tid, begin, end] = [&wait["tid"], &found["begin_ns"], &found["end_ns"]].map(|value| number(value).to_string());
    let range = ["--tid", &tid, "--begin", &begin, "--end", &end];
    let path = report::analyze(&place, "critical-path", &trace, &range);
    assert_eq!(rows(&path, "threads")[0]["comm"], "sleep", "{path:#}");
}
