// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `bench/test_bench.py` tests beside a run of the usual benchmarks, which is in benchmarks.rs: that the ones under attack and in trouble
//! run, that a frozen disk is thawed when its user is killed, that verdicts are computed right.

use std::process::Command;

use piste_suite::build_tree::{build, repository};
use piste_suite::process;

#[test]
fn the_hostile_benchmarks_run_and_leave_nothing_frozen() {
    let mut command = Command::new("python3");
    command
        .arg(repository().join("bench/test_bench.py"))
        .args(["-v", "Hostile", "FrozenDisks", "Verdicts", "SystemCalls"])
        .env("PISTE_BUILD", build());
    let tested = process::run(&mut command);
    tested.expect_success();
    for line in tested.stderr.lines().filter(|line| line.contains("skipped")) {
        println!("skipped: {line}");
    }
}
