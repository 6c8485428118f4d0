// SPDX-License-Identifier: MIT OR Apache-2.0
//! System calls of which only entries or only exits are recorded: what is in the trace, and what answers say of it.

use piste_support::kernel::{self, KernelSession};
use piste_support::process;
use piste_support::report::{analyze, rows};
use piste_support::{Trace, Workplace};
use serde_json::Value;

/// Makes each call that the tests look for, and others.
const CALLS: &str = "
import os
for number in range(3):
    os.access('/none/asked', 0)
    os.getppid()
    for path in '/none/opened', '/':
        try:
            os.close(os.open(path, 0))
        except OSError:
            pass
";

fn make_calls(place: &Workplace) {
    place.run("python3", &["-c", CALLS]).expect_success();
}

/// How many events of this name there are.
fn count(trace: &Trace, name: &str) -> u64 {
    trace.counts().get(name).copied().unwrap_or(0)
}

fn tracking_this_test<'a>(place: &'a Workplace, channel_options: &[&str]) -> KernelSession<'a> {
    let session = KernelSession::create(place, channel_options);
    let pid = std::process::id().to_string();
    session.track(&["--pid", &pid, "--follow"]);
    session
}

#[test]
fn entries_and_exits_are_recorded_alone() {
    // With BPF, and with tracefs.
    for channel_options in [&[][..], &["--no-strings"]] {
        let Some(place) = kernel::shared_workplace() else {
            return;
        };
        let session = tracking_this_test(&place, channel_options);
        let said = place.piste_succeeds(&["enable-event", "-k", "-c", "kernel", "--syscall", "access", "--entry"]);
        assert_eq!(said, "enabled system call access, entry only, in channel kernel\n");
        session
            .enable(&["--syscall", "getppid", "--exit"])
            .enable(&["--syscall", "close", "--entry", "--exit"]);
        let rules = &place.piste_json(&["status"])["channels"][0]["kernel_rules"];
        assert_eq!(rules[0]["call_part"], "entry", "{rules:#}");
        assert_eq!(rules[1]["call_part"], "exit", "{rules:#}");
        assert!(rules[2]["call_part"].is_null(), "{rules:#}");
        session.start();
        make_calls(&place);
        let (_, trace) = session.end();
        assert!(count(&trace, "syscall_entry_access") >= 3);
        assert_eq!(count(&trace, "syscall_exit_access"), 0);
        assert_eq!(count(&trace, "syscall_entry_getppid"), 0);
        assert!(count(&trace, "syscall_exit_getppid") >= 3);
        assert!(count(&trace, "syscall_entry_close") >= 3);
        assert!(count(&trace, "syscall_exit_close") >= 3);
    }
}

#[test]
fn exits_are_chosen_by_arguments_and_entries_not_by_results() {
    let Some(place) = kernel::shared_workplace() else {
        return;
    };
    let session = tracking_this_test(&place, &[]);
    let refused = place.piste(&[
        "enable-event",
        "-k",
        "-c",
        "kernel",
        "--syscall",
        "openat",
        "--entry",
        "--filter",
        "ret < 0",
    ]);
    refused.expect_status(1);
    assert!(refused.stderr.contains("`ret` is known only at the exit"), "{refused}");
    session
        .enable(&["--syscall", "openat", "--exit", "--filter", "filename =~ \"/none/*\""])
        .start();
    make_calls(&place);
    let (_, trace) = session.end();
    let events = trace.events();
    let exits = events.iter().filter(|event| event.name == "syscall_exit_openat");
    let results: Vec<&str> = exits.filter_map(|event| event.field("ret")).collect();
    assert!(
        results.iter().filter(|result| **result == "-2").count() >= 3,
        "{results:?}"
    );
    // Names that could not be read pass the filter; those of files that were opened could be, and do not.
    let opened = results.iter().filter(|result| !result.starts_with('-'));
    assert!(opened.count() < 3, "{results:?}");
    assert_eq!(count(&trace, "syscall_entry_openat"), 0);
}

#[test]
fn arguments_are_compared_without_bpf() {
    let script = "
import os
reading, writing = os.pipe()
for number in range(1, 101):
    os.write(writing, b'x' * number)
    os.read(reading, 4096 + number)
";
    for channel_options in [&["--no-strings"][..], &[]] {
        let Some(place) = kernel::shared_workplace() else {
            return;
        };
        let session = tracking_this_test(&place, channel_options);
        let by_count = ["--syscall", "read", "--filter", "count > 4186 && count <= 4196"];
        // Call stacks are recorded without BPF.
        let with_stacks = ["--callstack", "kernel:3"];
        let options = if channel_options.is_empty() {
            &with_stacks[..]
        } else {
            &[]
        };
        session.enable(&[&by_count, options].concat()).start();
        place.run("python3", &["-c", script]).expect_success();
        let note = "it saves space, but not the cost of the events that it rejects";
        let is_told = || place.piste_json(&["status"]).to_string().contains(note);
        process::wait_until("the note is in the status", is_told);
        let (_, trace) = session.end();
        let mut counts = Vec::new();
        trace.for_each(|event| {
            if event.name == "syscall_entry_read" {
                counts.extend(event.field("count").map(str::to_owned));
            }
        });
        let expected: Vec<String> = (4187..=4196).map(|count| count.to_string()).collect();
        assert_eq!(counts, expected, "{channel_options:?}");
        assert!(count(&trace, "syscall_exit_read") >= 100);
    }
    let Some(place) = kernel::shared_workplace() else {
        return;
    };
    let _session = tracking_this_test(&place, &["--no-strings"]);
    for (filter, reason) in [
        (
            "filename == \"a\"",
            "`filename` is in memory that an argument points to",
        ),
        ("flags & 0x40 && $comm == \"a\"", "cannot use both $comm and arguments"),
        ("flaks & 0x40", "did you mean flags?"),
        (
            "id == 257 && flags & 0x40",
            "`id` cannot be compared together with arguments",
        ),
    ] {
        let refused = place.piste(&[
            "enable-event",
            "-k",
            "-c",
            "kernel",
            "--syscall",
            "openat",
            "--filter",
            filter,
        ]);
        refused.expect_status(1);
        assert!(refused.stderr.contains(reason), "{filter}: {refused}");
    }
}

#[test]
fn what_needs_both_parts_is_unknown() {
    let Some(place) = kernel::workplace() else { return };
    let session = tracking_this_test(&place, &[]);
    session
        .enable(&["--syscall", "access,clock_nanosleep", "--entry"])
        .enable(&["--syscall", "close"])
        .enable(&["sched_switch,sched_wak*"])
        .start();
    make_calls(&place);
    place
        .run("python3", &["-c", "import time; time.sleep(0.2); sum(range(1000000))"])
        .expect_success();
    let (_, trace) = session.end();
    let path = trace.path().to_str().expect("UTF-8");
    let report = analyze(&place, "syscallstats", path, &[]);
    let table = rows(&report, "syscalls");
    let names: Vec<&str> = table.iter().filter_map(|row| row["syscall"].as_str()).collect();
    assert!(names.contains(&"close"), "{report:#}");
    assert!(
        !names.contains(&"access") && !names.contains(&"clock_nanosleep"),
        "{report:#}"
    );
    // It slept for 200 ms, and that was not in a call that is known.
    let waits = analyze(&place, "blocked", path, &[]);
    let is_in_half_a_call = |call: &Value| call == "access" || call == "clock_nanosleep";
    assert!(
        !rows(&waits, "waits")
            .iter()
            .any(|row| is_in_half_a_call(&row["syscall"])),
        "{waits:#}"
    );
    let notes = place.piste(&["analyze", "syscallstats", path]).stderr;
    assert!(
        notes.contains(
            "only the entries of some system calls, so how long they took is unknown: access, clock_nanosleep"
        ),
        "{notes}"
    );
    let shown = place.piste_succeeds(&["view", path, "--format", "strace"]);
    let asked: Vec<&str> = shown.lines().filter(|line| line.contains("/none/asked")).collect();
    assert!(asked.len() >= 3, "{shown}");
    assert!(asked.iter().all(|line| line.contains("<unfinished ...>")), "{asked:?}");
}
