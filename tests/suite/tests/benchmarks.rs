// SPDX-License-Identifier: MIT OR Apache-2.0
//! The benchmarks run, small, so that they cannot rot. What they measure is not judged here.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use piste_support::build_tree::{build, repository};
use piste_support::compiler::compile_once;
use piste_support::{Workplace, kernel, process};

/// The benchmarks build the same programs, in the same places.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn the_benchmarks_run() {
    let _alone = alone();
    let place = Workplace::new();
    let output = place.path("bench.json");
    let mut command = Command::new(repository().join("bench/run"));
    command
        .args(["--quick", "--output"])
        .arg(&output)
        .arg("--build")
        .arg(build());
    process::run(compile_once(&mut command)).expect_success();
    let text = fs::read_to_string(&output).expect("the benchmarks write their results");
    let results: serde_json::Value = serde_json::from_str(&text).expect("they are JSON");
    assert!(results.is_object(), "{results}");
}

#[test]
fn the_table_of_overheads_is_made() {
    let _alone = alone();
    let Some(place) = kernel::workplace() else { return };
    let output = place.path("overhead.json");
    let mut command = Command::new(repository().join("bench/overhead"));
    command
        .args(["--quick", "--output"])
        .arg(&output)
        .arg("--build")
        .arg(build());
    let table = process::run(compile_once(&mut command));
    table.expect_success();
    assert!(table.stdout.contains("written, core events"), "{table}");
    let text = fs::read_to_string(&output).expect("the benchmark writes its results");
    let results: serde_json::Value = serde_json::from_str(&text).expect("they are JSON");
    assert_eq!(
        results["compile"]["written"].as_array().map(Vec::len),
        Some(1),
        "{results}"
    );
}

#[test]
fn the_benchmark_of_the_viewer_runs() {
    let _alone = alone();
    let place = Workplace::new();
    let output = place.path("viewer.json");
    let mut command = Command::new(repository().join("bench/run"));
    command
        .args(["--quick", "--viewer", "--output"])
        .arg(&output)
        .arg("--build")
        .arg(build())
        .env("PISTE_MAKE_TRACE", env!("CARGO_BIN_EXE_make-trace"));
    // It takes a third of the CPU time of a whole chromium, and nothing is measured here.
    let shell = Path::new("/usr/bin/chromium-headless-shell");
    if std::env::var_os("CHROMIUM").is_none() && shell.exists() {
        command.env("CHROMIUM", shell);
    }
    process::run(compile_once(&mut command)).expect_success();
    let text = fs::read_to_string(&output).expect("the benchmark writes its results");
    let results: serde_json::Value = serde_json::from_str(&text).expect("they are JSON");
    for left_out in results["left_out"].as_array().expect("a list") {
        println!("skipped: {}: {}", left_out["what"], left_out["why"]);
    }
    let is_left_out = results["left_out"].to_string().contains("the viewer");
    let names = results["comparisons"].to_string();
    for name in [
        "script and style",
        "making the index / insights",
        "size of the index",
        "first lanes",
        "main thread, for each frame, 95 %",
        "size of a reply, 95 %",
        "memory of the server",
    ] {
        assert!(is_left_out || names.contains(name), "{name}: {results}");
    }
}

/// What `bench/test_bench.py` tests besides a run of the usual benchmarks: that the benchmarks under attack and in trouble run, that a frozen disk is
/// thawed when its user is killed, and that verdicts are computed right.
#[test]
fn the_hostile_benchmarks_run_and_leave_nothing_frozen() {
    let _alone = alone();
    let mut command = Command::new("python3");
    command
        .arg(repository().join("bench/test_bench.py"))
        .args(["-v", "Hostile", "FrozenDisks", "Verdicts", "SystemCalls"])
        .env("PISTE_BUILD", build());
    let tested = process::run(compile_once(&mut command));
    tested.expect_success();
    for line in tested.stderr.lines().filter(|line| line.contains("skipped")) {
        println!("skipped: {line}");
    }
}
