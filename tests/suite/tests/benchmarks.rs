// SPDX-License-Identifier: MIT OR Apache-2.0
//! The benchmarks run, small, so that they cannot rot. What they measure is not judged here.

use std::fs;
use std::process::Command;

use piste_suite::build_tree::{build, repository};
use piste_suite::{Workplace, process};

#[test]
fn the_benchmarks_run() {
    let place = Workplace::new();
    let output = place.path("bench.json");
    let mut command = Command::new(repository().join("bench/run"));
    command
        .args(["--quick", "--output"])
        .arg(&output)
        .arg("--build")
        .arg(build());
    process::run(&mut command).expect_success();
    let text = fs::read_to_string(&output).expect("the benchmarks write their results");
    let results: serde_json::Value = serde_json::from_str(&text).expect("they are JSON");
    assert!(results.is_object(), "{results}");
}
