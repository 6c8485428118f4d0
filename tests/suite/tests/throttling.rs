// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `piste insights` says of a process whose control group limits its CPU time, beside what the kernel counts for that group.

use piste_support::Workplace;
use piste_support::control_group::{COMPUTE_THERE, Group};
use piste_support::kernel::workplace as kernel_workplace;
use piste_support::report::{analyze, number, record_whole, rows, text};
use serde_json::Value;

/// Two processes that compute for 200 ms each on one CPU, and their pids.
const COMPUTE_TOGETHER: &str = "
import os, time
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
child = os.fork()
end = time.process_time() + 0.2
while time.process_time() < end:
    pass
if child:
    os.waitpid(child, 0)
    print(os.getpid(), child)
";

fn numbers(text: &str) -> Vec<i64> {
    text.split_whitespace()
        .map(|word| word.parse().expect("a number"))
        .collect()
}

/// What is said of a process.
fn throttled(place: &Workplace, trace: &str, pid: i64) -> Option<Value> {
    let found = place.piste_json(&["insights", trace]);
    let process = format!("({pid})");
    let is_ours = |insight: &&Value| {
        insight["kind"] == "throttled" && insight["what"].as_str().is_some_and(|what| what.contains(&process))
    };
    rows(&found, "insights").iter().find(is_ours).cloned()
}

#[test]
fn a_process_with_a_limit_of_cpu_time_is_throttled_as_often_as_the_kernel_counts() {
    let Some(place) = kernel_workplace() else { return };
    let Some(group) = Group::make(&place) else {
        println!("skipped: no control groups with limits of CPU time here");
        return;
    };
    for _ in 1..=3 {
        let (count, stolen) = (group.count("nr_throttled"), group.count("throttled_time"));
        let command = ["python3", "-c", COMPUTE_THERE, text(&group.folder), text(&group.mount)];
        let (trace, said) = record_whole(&place, &["-a", "--preset", "sched"], &command);
        let said = numbers(&said);
        let count = group.count("nr_throttled") - count;
        assert!(
            count >= 5,
            "{count} times throttled, and 90 ms must be used in parts of 10 ms"
        );
        let found = throttled(&place, &trace, said[0]);
        if let Some(found) = &found {
            assert!(number(&found["count"]) <= count + 1, "{count} times: {found:#}");
        }
        // Who cannot run because of others cannot be told from who is not let, nor who is let on a CPU of which nobody knows whether it idles.
        let top = analyze(&place, "cputop", &trace, &[]);
        let own = rows(&top, "cpus").iter().find(|row| row["cpu"] == said[1]);
        let own = own.expect("its CPU");
        let is_known = number(&own["unknown_ns"]) < number(&own["idle_ns"]) / 10;
        if is_known && own["busy_percent"].as_f64().expect("a number") < 40.0 {
            let found = found.unwrap_or_else(|| panic!("not found, {count} times throttled: {top:#}"));
            assert!(2 * number(&found["count"]) >= count, "{count} times: {found:#}");
            // Of groups of version 2 it is called otherwise.
            let throttled_ns = group.count("throttled_time") - stolen;
            assert!(
                2 * number(&found["total_ns"]) >= throttled_ns,
                "{throttled_ns} ns: {found:#}"
            );
            return;
        }
    }
    println!("skipped: the CPU is never known to be idle, and a limit shows only then");
}

#[test]
fn processes_that_share_a_cpu_are_not_throttled() {
    let Some(place) = kernel_workplace() else { return };
    let command = ["python3", "-c", COMPUTE_TOGETHER];
    let (trace, said) = record_whole(&place, &["-a", "--preset", "sched"], &command);
    for pid in numbers(&said) {
        assert_eq!(throttled(&place, &trace, pid), None);
    }
}
