// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste latency timerlat` and `osnoise`: the kernel measures, where it has these tracers; otherwise piste says what is missing. Kernels that have them run
//! in QEMU (tests/kernels).

use std::fs;

use piste_support::Workplace;
use piste_support::process::allowed_cpu;

const TRACEFS: &str = "/sys/kernel/tracing";

#[test]
fn the_kernel_measures_or_the_reason_is_given() {
    let place = Workplace::new();
    let tracers = fs::read_to_string(format!("{TRACEFS}/available_tracers")).unwrap_or_default();
    for (tracer, option) in [
        ("timerlat", "CONFIG_TIMERLAT_TRACER"),
        ("osnoise", "CONFIG_OSNOISE_TRACER"),
    ] {
        let cpu = allowed_cpu();
        let options = ["latency", tracer, "--loops", "2", "--warm-up", "1", "--cpus", &cpu];
        if tracers.split_whitespace().any(|name| name == tracer) {
            let report = place.piste_json(&options);
            assert_eq!(
                (&report["loop"], &report["cpus"][0]["loops"]),
                (&tracer.into(), &2.into()),
                "{report}"
            );
        } else {
            let refused = place.piste(&options);
            refused.expect_status(1);
            // Without tracefs, nobody knows which tracers there are.
            let is_known = tracers.is_empty() || refused.stderr.contains(option);
            assert!(
                is_known && refused.stderr.contains("cannot use") == tracers.is_empty(),
                "{refused}"
            );
        }
        let left = fs::read_dir(format!("{TRACEFS}/instances"))
            .into_iter()
            .flatten()
            .flatten();
        let left = left.filter(|entry| entry.file_name().to_string_lossy().starts_with("piste-latency"));
        assert_eq!(left.count(), 0, "instances are left");
    }
}

#[test]
fn what_the_kernel_decides_cannot_be_chosen() {
    let place = Workplace::new();
    for (options, reason) in [
        (
            ["timerlat", "--policy", "fifo:80"],
            "the kernel chooses the policy of its own threads",
        ),
        (
            ["osnoise", "--interval", "1ms"],
            "--interval works only with the loop timer, wakeup or timerlat",
        ),
        (["timerlat", "--clock", "tsc"], "the others read CLOCK_MONOTONIC"),
    ] {
        let refused = place.piste(&[&["latency"], &options[..]].concat());
        refused.expect_status(2);
        assert!(refused.stderr.contains(reason), "{refused}");
    }
}
