// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads that wait for a CPU: behind whom is known everywhere. And those for whom all others wait.

use std::sync::Mutex;

use piste_support::build_tree::programs;
use piste_support::kernel::{KernelWorkplace, workplace as kernel_workplace};
use piste_support::process::allowed_cpu;
use piste_support::report::{self, number, rows, text};
use serde_json::Value;

/// Two programs, `hog` and `victim`, which have one CPU for both. The hog is more urgent than anything else there, and computes until the victim is
/// done.
fn starve(place: &KernelWorkplace) -> String {
    for name in ["hog", "victim"] {
        std::fs::copy("/bin/sh", place.path(name)).expect("a copy of a shell");
    }
    let cpu = allowed_cpu();
    let script = format!(
        "cd {}; nice -n -10 taskset -c {cpu} ./hog -c 'while :; do :; done' & hog=$!
         nice -n 5 taskset -c {cpu} ./victim -c 'n=0; while [ $n -lt 50000 ]; do n=$((n + 1)); done'
         kill $hog",
        text(&place.path("")),
    );
    report::record_whole(place, &["-a"], &["sh", "-c", &script]).0
}

/// Who is first among those behind whom a thread waited, and how long.
fn first(behind: &Value) -> (&str, i64) {
    let first = &behind[0];
    (first["name"].as_str().expect("a name"), number(&first["ns"]))
}

/// The tests need the CPUs for themselves, one after the other.
static CPUS: Mutex<()> = Mutex::new(());

#[test]
fn who_has_the_cpu_that_a_thread_waits_for_is_named() {
    let _alone = CPUS.lock();
    let Some(place) = kernel_workplace() else { return };
    let trace = starve(&place);

    let insights = place.piste_json(&["insights", &trace]);
    let is_of_victim = |insight: &&Value| {
        let what = insight["what"].as_str().expect("a text");
        insight["kind"] == "no CPU" && what.starts_with("victim (")
    };
    let found = insights["insights"]
        .as_array()
        .expect("a list")
        .iter()
        .find(is_of_victim);
    let found = found.unwrap_or_else(|| panic!("{insights:#}"));
    let (culprit, culprit_ns) = first(&found["behind"]);
    assert!(culprit.starts_with("hog ("), "{found:#}");
    assert!(2 * culprit_ns > number(&found["waited_ns"]), "{found:#}");

    // The command that looks closer names it, too.
    let closer = found["command"].as_str().expect("a command");
    let words: Vec<&str> = closer.split(' ').skip(1).collect();
    let shown = place.piste_succeeds(&words);
    assert!(shown.contains("hog ("), "{closer}: {shown}");

    let report = report::analyze(&place, "schedstats", &trace, &["--comm", "victim"]);
    let threads = rows(&report, "threads");
    assert_eq!(threads.len(), 1, "{report:#}");
    assert!(first(&threads[0]["behind"]).0.starts_with("hog ("), "{report:#}");
    let tid = number(&threads[0]["tid"]);

    let path = report::analyze(&place, "critical-path", &trace, &["--tid", &tid.to_string()]);
    assert_eq!(rows(&path, "behind")[0]["comm"], "hog", "{path:#}");

    // Each wait is told to its last nanosecond, and by far the most of it is the hog's.
    let sum = |sql: &str| {
        let answer = place.piste_json(&["query", &trace, sql]);
        number(&answer[0]["ns"])
    };
    let waited_ns = sum(&format!(
        "SELECT sum(duration_ns) AS ns FROM thread_states WHERE state = 'runnable' AND tid = {tid}"
    ));
    let told_ns = sum(&format!("SELECT sum(by_ns) AS ns FROM cpu_waits WHERE tid = {tid}"));
    assert_eq!(told_ns, waited_ns);
    let of_hog_ns = sum(&format!(
        "SELECT sum(by_ns) AS ns FROM cpu_waits WHERE tid = {tid} AND by_comm = 'hog'"
    ));
    assert!(2 * of_hog_ns > waited_ns, "{of_hog_ns} of {waited_ns}");
}

#[test]
fn an_event_loop_that_computes_meanwhile_is_named() {
    let _alone = CPUS.lock();
    let Some(place) = kernel_workplace() else { return };
    let (trace, _) = report::record_whole(&place, &[], &["python3", text(&programs().join("event_loop.py"))]);
    let insights = place.piste_json(&["insights", &trace]);
    let all = insights["insights"].as_array().expect("a list");
    let found = all.iter().find(|insight| insight["kind"] == "event loop stall");
    let found = found.unwrap_or_else(|| panic!("{insights:#}"));
    assert!(
        found["what"].as_str().is_some_and(|what| what.starts_with("python3 (")),
        "{found:#}"
    );
    assert_eq!(number(&found["count"]), 1, "{found:#}");
    assert!(number(&found["longest_ns"]) >= 200_000_000, "{found:#}");
    assert!(number(&found["turns"]) >= 190, "{found:#}");
}
