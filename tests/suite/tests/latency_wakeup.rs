// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste latency wakeup`: wake-ups are counted, from the same CPU and from another one, with real-time priorities and without. How long a wake-up
//! takes is nowhere asserted.

use piste_support::process::{self, allowed_cpu};
use piste_support::{Workplace, users};
use rustix::process::geteuid;
use rustix::thread::{CpuSet, sched_getaffinity};
use serde_json::Value;

fn count(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("{key}: {value}"))
}

/// A measurement with the number of wake-ups that are to be counted.
fn measured(place: &Workplace, options: &str, loops: u64) -> Value {
    let line = format!("latency wakeup --interval 200us --loops {loops} {options}");
    let report = place.piste_json(&line.split(' ').collect::<Vec<_>>());
    let [one] = &report["cpus"].as_array().expect("a list")[..] else {
        panic!("{report}")
    };
    assert_eq!(report["loop"], "wakeup");
    assert_eq!(report["interval_ns"], 200_000);
    assert_eq!(count(one, "loops"), loops, "{report}");
    assert!(count(one, "waker_went_on") <= loops, "{report}");
    count(one, "not_asleep");
    let buckets = one["histogram"].as_array().expect("a list");
    assert_eq!(buckets.iter().map(|bucket| count(bucket, "count")).sum::<u64>(), loops);
    assert!(!one["over_time"].as_array().expect("a list").is_empty(), "{report}");
    report
}

#[test]
fn wake_ups_on_the_same_cpu_are_counted() {
    let place = Workplace::new();
    let cpu = allowed_cpu();
    let report = measured(&place, &format!("--cpus {cpu}"), 50);
    assert_eq!(report["from_cpu"], Value::Null);
    if geteuid().is_root() {
        assert_eq!(report["policy"], "fifo:80");
    }
    let shown = place.piste_succeeds(&["latency", "wakeup", "--loops", "20", "--cpus", &cpu]);
    for said in ["wake-up every 1.00 ms on CPU", "LOOPS", "woken"] {
        assert!(shown.contains(said), "{said}: {shown}");
    }
    let other = measured(&place, &format!("--cpus {cpu} --policy other --clock monotonic"), 50);
    assert_eq!(
        (&other["policy"], &other["clock"]["name"]),
        (&"other".into(), &"monotonic".into())
    );
}

#[test]
fn a_thread_is_woken_from_another_cpu() {
    let allowed = sched_getaffinity(None).expect("the kernel tells");
    let mut cpus = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
    let (Some(one), Some(other)) = (cpus.next(), cpus.next()) else {
        println!("skipped: there is only one CPU");
        return;
    };
    let place = Workplace::new();
    let report = measured(&place, &format!("--cpus {other} --from {one}"), 50);
    assert_eq!(report["from_cpu"], one);
}

#[test]
fn without_real_time_priorities_a_note_says_so() {
    let place = Workplace::new();
    if !users::enter(&place) {
        return;
    }
    let cpu = allowed_cpu();
    let piste = place.path("bin/piste");
    let options = ["--json", "latency", "wakeup", "--loops", "20", "--cpus", &cpu];
    let mut command = users::command(&place, 65_534, "--clear-groups", &piste, &options);
    let report = process::run(&mut command);
    let report: Value = serde_json::from_str(&report.expect_success().stdout).expect("JSON");
    assert_eq!(report["policy"], "other");
    let notes = report["notes"].to_string();
    assert!(
        notes.contains("fifo:80 is not possible") && notes.contains("run piste as root"),
        "{notes}"
    );
}

#[test]
fn options_of_other_loops_are_refused() {
    let place = Workplace::new();
    for (options, reason) in [
        (&["timer", "--from", "0"][..], "--from works only with the loop wakeup"),
        (&["wakeup", "--from", "1000"], "cannot run on CPU 1000"),
    ] {
        let refused = place.piste(&[&["latency"], options].concat());
        assert!(!refused.success() && refused.stderr.contains(reason), "{refused}");
    }
}
