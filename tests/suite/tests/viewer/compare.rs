// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two recordings of a program in the viewer, one of them with more work: the table is what the command answers, and its rows lead to both.

use super::*;

/// Opens a file some times, waits, and does so again.
const PROGRAM: &str = "
import sys, time
open('/proc/self/comm', 'w').write('worker')
for number in range(15):
    for again in range(int(sys.argv[1])):
        open('/etc/hostname').close()
    time.sleep(float(sys.argv[2]))
";

fn record(place: &Workplace, times: &str, sleep_s: &str) -> PathBuf {
    let recording = place.record_with_kernel(&["--no-user"], "python3", &["-c", PROGRAM, times, sleep_s]);
    recording.finished.expect_success();
    recording.trace().path().to_owned()
}

#[test]
fn two_recordings_are_compared() {
    if !has_viewer() {
        return;
    }
    let Some(place) = kernel::workplace() else { return };
    let [fast, slow] = [("20", "0.004"), ("400", "0.02")].map(|(times, sleep_s)| record(&place, times, sleep_s));
    place.let_others_record();
    let server = Server::start(&place, &[text(&fast), text(&slow)]);
    let diff =
        |more: &[&str]| place.piste_json(&[&["diff", text(&fast), text(&slow), "--limit", "200"], more].concat());
    let all = diff(&[]);
    let calls = diff(&["syscallstats"]);
    assert_eq!(server.json("GET", "diff/1?limit=200", ""), Ok(all.clone()));
    assert_eq!(
        server.json("GET", "diff/1?limit=200&name=syscallstats", ""),
        Ok(calls.clone())
    );
    let per_second = server
        .json("GET", "diff/1?limit=1&sums=per-second", "")
        .expect("an answer");
    assert_eq!(per_second["is_per_second"], true);
    // What the worker does more often, and for what it waits longer.
    let change = |diff: &Value, is_meant: &dyn Fn(&Value) -> bool| -> Value {
        let found = diff["changes"]
            .as_array()
            .expect("changes")
            .iter()
            .find(|change| is_meant(change));
        found.unwrap_or_else(|| panic!("not in {diff:#}")).clone()
    };
    let opened = change(&calls, &|change| {
        change["table"] == "syscalls" && change["measure"] == "total_ns" && change["of"]["syscall"] == "openat"
    });
    assert!(opened["change"].as_f64() > Some(0.0), "{opened}");
    let slept = change(&all, &|change| {
        change["analysis"] == "blocked"
            && change["of"]["comm"] == "worker"
            && change["of"]["syscall"] == "clock_nanosleep"
    });
    assert!(slept["change_percent"].as_f64() > Some(100.0), "{slept}");

    // The longest, as queries know it.
    let longest = |trace: &Path, sql: &str| -> Value {
        let answer = place.piste_json(&["query", text(trace), sql]);
        answer[0].clone()
    };
    let sleep = "SELECT tid, begin_ns, end_ns FROM thread_states WHERE comm = 'worker' AND state = 'blocked' \
        AND syscall = 'clock_nanosleep' ORDER BY duration_ns DESC, begin_ns LIMIT 1";
    let open =
        "SELECT tid, begin_ns, end_ns FROM syscalls WHERE name = 'openat' ORDER BY duration_ns DESC, begin_ns LIMIT 1";
    let expected = [&fast, &slow].map(|trace| {
        let [sleep, open] = [sleep, open].map(|sql| longest(trace, sql));
        json!({ "path": trace, "sleep": sleep, "open": open })
    });
    browse_with(
        "compare",
        &server,
        &json!({ "opened": opened, "slept": slept, "traces": expected, "all": all["changes"].as_array().map(Vec::len) }),
    );

    let (_, token) = server.parts();
    for wrong in [
        "0/diff/2?limit=1",
        "0/diff/1",
        "0/diff/1?limit=-1",
        "0/diff/1?limit=1&name=--help",
        "0/diff/1?limit=1&name=..%2f",
        "0/diff/1?limit=1&sums=x",
        "0/diff/1?limit=1&name=schedlog",
    ] {
        let (status, answer) = server.ask("GET", &format!("{token}api/{wrong}"), &[]);
        assert!((400..500).contains(&status), "{wrong}: {answer}");
    }
    for wrong in [
        json!({}),
        json!({ "lanes": [0], "classes": ["x"] }),
        json!({ "lanes": vec![0; 30_000] }),
    ] {
        let refused = server.json("POST", "longest", &wrong.to_string());
        assert!(refused.is_err(), "{wrong}: {refused:?}");
    }
    server.end();
}
