// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste latency --load`: generators work beside the loops, say what they did, and never outlive piste.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use piste_support::build_tree::binary;
use piste_support::process::{self, allowed_cpu, wait_until};
use piste_support::{Running, Workplace};
use rustix::process::Signal;
use serde_json::Value;

/// The children of a process.
fn children(pid: i32) -> Vec<i32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| {
            list.split_whitespace()
                .map(|pid| pid.parse().expect("a number"))
                .collect::<Vec<_>>()
        })
        .collect()
}

/// Waits until this many generators work, which is when the loop begins; their processes.
fn generators(running: &mut Running, number: usize) -> Vec<i32> {
    wait_until("the loop has begun", || {
        assert!(running.runs(), "it has ended: {}", running.finish());
        let tasks = fs::read_dir(format!("/proc/{}/task", running.pid()))
            .into_iter()
            .flatten()
            .flatten();
        let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
        names.into_iter().any(|name| name.starts_with("latency/"))
    });
    let found = children(running.pid());
    assert_eq!(found.len(), number, "{found:?}");
    found
}

fn start(place: &Workplace, loads: &str) -> Running {
    let cpu = allowed_cpu();
    let options = [
        "--json",
        "latency",
        "timer",
        "--duration",
        "24h",
        "--cpus",
        &cpu,
        "--load",
        loads,
        "--load-cpus",
        &cpu,
    ];
    place.start(binary("piste"), &options)
}

#[test]
fn each_kind_of_load_works_beside_the_loop() {
    let place = Workplace::new();
    let cpu = allowed_cpu();
    let options = ["latency", "timer", "--loops", "20", "--cpus", &cpu, "--load"];
    let report = place.piste_json(&[&options[..], &["all", "--load-cpus", &cpu]].concat());
    let kinds = report["load"]["kinds"].as_array().expect("a list");
    let names: Vec<&str> = kinds.iter().filter_map(|kind| kind["name"].as_str()).collect();
    assert_eq!(names, ["cpu", "memory", "disk", "fork", "network"], "{report}");
    for kind in kinds {
        assert_eq!(kind["processes"], 1, "{kind}");
        assert!(kind["loops"].as_u64().is_some_and(|loops| loops > 0), "{kind}");
        let has_bytes = kind["bytes"].as_u64().is_some_and(|bytes| bytes > 0);
        assert_eq!(
            has_bytes,
            ["memory", "disk", "network"].contains(&kind["name"].as_str().expect("a name")),
            "{kind}"
        );
    }
    let shown = place.piste_succeeds(&[&options[..], &["cpu,fork"]].concat());
    for said in ["load on CPU", "PROCESSES", "cpu", "fork"] {
        assert!(shown.contains(said), "{said}: {shown}");
    }
    assert!(!shown.contains("network"), "{shown}");
}

#[test]
fn ctrl_c_ends_loads_and_reports_what_they_did() {
    let place = Workplace::new();
    let mut running = start(&place, "cpu,network");
    let all = generators(&mut running, 2);
    // As a terminal does, which sends it to all.
    all.iter().for_each(|pid| process::send(*pid, Signal::INT));
    running.signal(Signal::INT);
    let finished = running.finish();
    let report: Value = serde_json::from_str(&finished.expect_success().stdout).expect("JSON");
    assert_eq!(report["load"]["kinds"].as_array().map(Vec::len), Some(2), "{report}");
    assert!(all.iter().all(|pid| !process::exists(*pid)));
}

#[test]
fn loads_end_when_piste_is_killed() {
    let place = Workplace::new();
    let mut running = start(&place, "cpu,memory,disk,fork,network");
    let all = generators(&mut running, 5);
    running.signal(Signal::KILL);
    wait_until("all generators have ended", || {
        !all.iter().any(|pid| process::exists(*pid))
    });
}

#[test]
fn a_load_that_cannot_work_is_refused_with_the_reason() {
    let place = Workplace::new();
    let cpu = allowed_cpu();
    let options = ["latency", "timer", "--loops", "5", "--cpus", &cpu, "--load"];
    let unknown = place.piste(&[&options[..], &["disks"]].concat());
    unknown.expect_status(2);
    assert!(unknown.stderr.contains("\"disks\" is not a load"), "{unknown}");
    let mut nowhere = place.command(binary("piste"));
    nowhere.args(&options[..]).arg("disk").env("TMPDIR", "/no/such");
    let nowhere = process::run(&mut nowhere);
    nowhere.expect_status(1);
    assert!(
        nowhere
            .stderr
            .contains("cannot run the load `disk`: cannot write a file in /no/such"),
        "{nowhere}"
    );
    let mut without = place.command(binary("piste"));
    without
        .args(&options[..])
        .arg("stress-ng:--cpu 1")
        .env("PATH", "/no/such");
    let without = process::run(&mut without);
    without.expect_status(1);
    assert!(
        without.stderr.contains("stress-ng is not installed; install it"),
        "{without}"
    );
}

/// Whether a program is installed.
fn is_installed(program: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| {
        folder
            .join(program)
            .metadata()
            .is_ok_and(|file| file.permissions().mode() & 0o111 != 0)
    })
}

#[test]
fn stress_ng_works_beside_the_loop_and_ends_with_it() {
    if !is_installed("stress-ng") {
        println!("skipped: there is no stress-ng; tools/install-packages installs it");
        return;
    }
    let place = Workplace::new();
    let cpu = allowed_cpu();
    let report = place.piste_json(&[
        "latency",
        "timer",
        "--loops",
        "1000",
        "--cpus",
        &cpu,
        "--load",
        "stress-ng:--cpu 1 --fork 1",
    ]);
    let kinds = report["load"]["kinds"].as_array().expect("a list");
    let names: Vec<&str> = kinds.iter().filter_map(|kind| kind["name"].as_str()).collect();
    assert_eq!(names, ["stress-ng cpu", "stress-ng fork"], "{report}");
    // It had no time at all, or is wrong.
    let wrong = place.piste_json(&[
        "latency",
        "timer",
        "--loops",
        "1000",
        "--cpus",
        &cpu,
        "--load",
        "stress-ng:--no-such-stressor 1",
    ]);
    let notes = wrong["notes"].to_string();
    assert!(
        notes.contains("stress-ng --no-such-stressor 1 ended before the measurement"),
        "{notes}"
    );
}
