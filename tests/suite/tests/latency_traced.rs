// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste latency npt --tracer` and `piste latency event`: real tracers record the turns of the loop, each of them, and count what they lose; the search
//! for the highest rate finds one; the kinds of single events are those that there must be. How long something took, and which rate that is, is
//! nowhere asserted, as the machine decides that.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use piste_support::build_tree::binary;
use piste_support::process::{self, wait_until};
use piste_support::{Running, Workplace, kernel};
use rustix::process::Signal;
use rustix::thread::sched_getaffinity;
use serde_json::Value;

/// A command with a folder of its own for everything that it makes; of the loop npt, unless the options begin with that of another one.
fn command(place: &Workplace, options: &str) -> Command {
    let kind = if options.starts_with("event") {
        None
    } else {
        Some("npt")
    };
    let made = place.path("made");
    fs::create_dir_all(&made).expect("a new folder");
    let mut command = place.command(binary("piste"));
    command
        .args(["--json", "latency"])
        .args(kind)
        .args(options.split(' '))
        .args(["--cpus", &process::allowed_cpu()])
        .env("TMPDIR", made);
    command
}

/// The report of a command that succeeds, and leaves no file. One that sets probes removes those of killed runs, about which another test may be.
fn report(place: &Workplace, options: &str) -> Value {
    let _alone = options.contains("uprobe").then(kernel::alone);
    let finished = process::run(&mut command(place, options));
    expect_no_files(place);
    serde_json::from_str(&finished.expect_success().stdout).expect("JSON")
}

fn expect_no_files(place: &Workplace) {
    let left: Vec<_> = fs::read_dir(place.path("made"))
        .expect("it is there")
        .flatten()
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value[key]
        .as_array()
        .unwrap_or_else(|| panic!("no list {key}: {value:#}"))
}

fn integer(value: &Value, key: &str) -> u64 {
    value[key]
        .as_u64()
        .unwrap_or_else(|| panic!("no count {key}: {value:#}"))
}

/// Tracers with their readers, in the order of the table.
fn names(report: &Value) -> Vec<String> {
    let name = |row: &Value| match row["reader"].as_str() {
        Some(reader) => format!("{} {reader}", row["tracer"].as_str().expect("a name")),
        None => row["tracer"].as_str().expect("a name").to_owned(),
    };
    list(report, "tracers").iter().map(name).collect()
}

#[test]
fn each_tracer_records_each_turn() {
    let Some(place) = kernel::shared_workplace() else {
        return;
    };
    for (options, expected) in [
        (
            "--tracer none,piste,lttng --reader timer,wake --loops 5000",
            &["none", "piste timer", "lttng timer", "lttng wake"][..],
        ),
        (
            "--tracer uprobe --reader timer,wake --loops 5000",
            &["uprobe timer", "uprobe wake"],
        ),
        (
            "--tracer piste,lttng --payload 32 --loops 5000 --max-rate 100000 --clock monotonic",
            &["piste timer", "lttng timer"],
        ),
    ] {
        let report = report(&place, options);
        assert_eq!(names(&report), expected, "{report:#}");
        for row in list(&report, "tracers") {
            assert_eq!((integer(row, "loops"), integer(row, "rounds")), (5000, 5), "{row:#}");
            let causes = list(row, "causes");
            let explained: u64 = causes[..4].iter().map(|cause| integer(cause, "gaps")).sum();
            assert_eq!(integer(&row["undisturbed"], "loops") + explained, 5000, "{row:#}");
            assert_eq!(integer(row, "lost_events"), 0, "{row:#}");
            if row["tracer"] == "none" {
                assert_eq!((integer(row, "events"), &row["recorded_events"]), (0, &Value::Null));
            } else {
                // There are events of turns that do not count, too.
                assert!(integer(row, "events") > 5000, "{row:#}");
                assert_eq!(row["recorded_events"], row["events"], "{row:#}");
            }
        }
        let notes = list(&report, "notes");
        let lacks = |note: &Value| {
            note.as_str()
                .is_some_and(|note| note.starts_with("piste has no reader wake"))
        };
        assert_eq!(
            notes.iter().any(lacks),
            options.contains("piste,lttng --reader"),
            "{notes:?}"
        );
    }
}

#[test]
fn single_events_are_of_the_kinds_that_there_must_be() {
    let Some(place) = kernel::shared_workplace() else {
        return;
    };
    for (tracers, expected) in [
        (
            "none,piste,lttng",
            &["none", "piste timer", "piste timer", "lttng timer", "lttng timer"][..],
        ),
        ("uprobe", &["uprobe timer"]),
    ] {
        // A sub-buffer of 4 KiB has room for some hundred events, and a ring of 16 is filled for the first time after some thousand.
        let sizes = "--loops 50000 --subbuf-size 4K --num-subbuf 16 --max-rate 200000";
        let report = report(&place, &format!("event --tracer {tracers} {sizes}"));
        assert_eq!(names(&report), expected, "{report:#}");
        list(&report, "tracers").iter().for_each(check_kinds);
    }
}

/// Each event counts once, as what it is.
fn check_kinds(row: &Value) {
    let has_other_cpu = sched_getaffinity(None).expect("its CPUs").count() > 1;
    let of_kind = |kind: &str| integer(&row["by_kind"][kind], "loops");
    let kinds = [
        "disturbed",
        "new_thread",
        "page_fault",
        "new_subbuf",
        "new_cpu",
        "ordinary",
    ];
    let counted: u64 = kinds.map(of_kind).iter().sum();
    assert_eq!((integer(row, "events"), integer(row, "rounds")), (50_000, 5), "{row:#}");
    let worst = &row["by_kind"][row["worst_kind"].as_str().expect("a kind")];
    let worst_ns = worst["max_ns"].as_f64().expect("a time");
    assert!((worst_ns - integer(row, "worst_ns") as f64).abs() <= 1.0, "{row:#}");
    // The first ones, and those after a look at the kernel's counters, count only if they are of a kind.
    assert!((100..=50_000).contains(&counted), "{row:#}");
    assert!(
        (5..=5 + of_kind("disturbed")).contains(&(of_kind("new_thread") + of_kind("disturbed"))),
        "{row:#}"
    );
    assert_eq!(of_kind("new_cpu") > 0, has_other_cpu, "{row:#}");
    let writes_packets = matches!(row["tracer"].as_str(), Some("piste" | "lttng"));
    assert_eq!(of_kind("new_subbuf") > 0, writes_packets, "{row:#}");
    if writes_packets {
        let known = integer(row, "recorded_events") + integer(row, "lost_events");
        assert_eq!(known, 50_000, "{row:#}");
    }
    if row["tracer"] == "piste" {
        // Each page of the ring, in each round, unless an interrupt came just then.
        let touches_pages = row["memory_locked"] == false;
        assert_eq!(of_kind("page_fault") > 5 * 8, touches_pages, "{row:#}");
    }
}

#[test]
fn a_tiny_ring_loses_events_and_all_are_counted() {
    let place = Workplace::new();
    let report = report(
        &place,
        "--tracer piste,lttng --loops 200000 --subbuf-size 4K --num-subbuf 2",
    );
    for row in list(&report, "tracers") {
        let lost = integer(row, "lost_events");
        assert!(lost > 0, "{row:#}");
        assert_eq!(
            integer(row, "recorded_events") + lost,
            integer(row, "events"),
            "{row:#}"
        );
    }
}

#[test]
fn a_rate_limits_the_turns() {
    let place = Workplace::new();
    for (options, key, rounds) in [("", "cpus", 1), (" --tracer none,piste", "tracers", 5)] {
        let report = report(&place, &format!("--loops 100 --max-rate 1000{options}"));
        for row in list(&report, key) {
            // From the first turn of a round to the end of the last one.
            let least_ns = (100 - rounds) * 1_000_000;
            assert!(integer(row, "duration_ns") >= least_ns, "{row:#}");
        }
    }
}

#[test]
fn a_search_ends_with_two_rates_that_are_close() {
    let Some(place) = kernel::shared_workplace() else {
        return;
    };
    let tiny = "--tracer piste --find-rate --with-kernel syscalls --duration 20ms --subbuf-size 4K --num-subbuf 2";
    let with_kernel = |tracer: &str| format!("--tracer {tracer} --find-rate --with-kernel all --duration 20ms");
    let without = |tracer: &str| format!("--tracer {tracer} --find-rate --duration 20ms");
    for (options, kernel, tracer) in [
        (tiny, "syscalls", "piste timer"),
        (&without("lttng"), "none", "lttng timer"),
        (&without("uprobe"), "none", "uprobe timer"),
        (&with_kernel("piste"), "all", "piste timer"),
        (&with_kernel("uprobe"), "all", "uprobe timer"),
    ] {
        let report = report(&place, options);
        assert_eq!(
            (&report["with_kernel"], names(&report)),
            (&kernel.into(), vec![tracer.to_owned()])
        );
        list(&report, "tracers").iter().for_each(check_search);
    }
    let finished = process::run(&mut command(&place, "--tracer lttng --find-rate --with-kernel all"));
    finished.expect_status(1);
    assert!(finished.stderr.contains("kernel modules of its own"), "{finished}");
}

/// A search has come to its end, and its rates are those of trials.
fn check_search(row: &Value) {
    assert_eq!(row["is_complete"], true, "{row:#}");
    let trials = list(row, "trials");
    assert!(
        trials[0]["asked_hz"].is_null() && integer(&trials[0], "events") > 0,
        "{row:#}"
    );
    let of_rate = |key: &str| trials.iter().rfind(|trial| trial["rate_hz"] == row[key]);
    let asked = |trial: &Value| {
        trial["asked_hz"]
            .as_f64()
            .or(trial["rate_hz"].as_f64())
            .expect("a rate")
    };
    let (free, lossy) = (of_rate("loss_free_hz"), of_rate("lossy_hz"));
    assert!(free.is_none_or(|trial| integer(trial, "lost_events") == 0), "{row:#}");
    assert!(lossy.is_none_or(|trial| integer(trial, "lost_events") > 0), "{row:#}");
    match (free, lossy) {
        (Some(free), Some(lossy)) => assert!(asked(lossy) <= asked(free) * 1.011, "{row:#}"),
        // The loop reaches no rate with losses.
        (Some(free), None) => assert!(free["asked_hz"].is_null(), "{row:#}"),
        // Something keeps the consumer from its work at any rate.
        (None, Some(lossy)) => assert_eq!(asked(lossy), 100.0, "{row:#}"),
        (None, None) => panic!("{row:#}"),
    }
}

#[test]
fn an_interrupted_measurement_has_what_is_known_and_leaves_nothing() {
    let place = Workplace::new();
    for (options, rows) in [
        ("--tracer none,piste --max-rate 1000 --duration 10h", 1),
        // In a ring that loses events at any rate, the search has many trials.
        (
            "--tracer piste --find-rate --duration 4s --subbuf-size 4K --num-subbuf 2",
            1,
        ),
        ("event --max-rate 1000 --loops 5000000", 1),
    ] {
        let mut running = Running::start(command(&place, options).stdin(Stdio::null()));
        let pid = running.pid();
        // Long enough for turns that can be reported.
        wait_until("the loop has run for a while", || {
            assert!(running.runs(), "it has ended: {}", running.finish());
            loop_process(pid).is_some_and(|child| loop_ran_ns(&child) > 300_000_000)
        });
        running.signal(Signal::INT);
        let finished = running.finish();
        let report: Value = serde_json::from_str(&finished.expect_success().stdout).expect("JSON");
        assert_eq!(report["was_interrupted"], true, "{report:#}");
        assert_eq!(list(&report, "tracers").len(), rows, "{report:#}");
        expect_no_files(&place);
        assert_eq!(loop_process(pid), None);
    }
}

/// A child of a process, in which a loop runs.
fn loop_process(parent: i32) -> Option<String> {
    let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).ok()?;
    let mut children = children.split_ascii_whitespace();
    children.find(|child| loop_thread(child).is_some()).map(str::to_owned)
}

/// The folder of the thread in which the loop of a process runs.
fn loop_thread(pid: &str) -> Option<PathBuf> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
    let mut folders = tasks.map(|task| task.path());
    folders.find(|folder| fs::read_to_string(folder.join("comm")).is_ok_and(|name| name.starts_with("latency/")))
}

/// How long the loop of a process has had a CPU.
fn loop_ran_ns(pid: &str) -> u64 {
    let text = loop_thread(pid).and_then(|folder| fs::read_to_string(folder.join("schedstat")).ok());
    let ran = text.and_then(|text| text.split_ascii_whitespace().next()?.parse().ok());
    ran.unwrap_or(0)
}

#[test]
fn what_cannot_be_measured_is_said_and_how_to_get_it() {
    let place = Workplace::new();
    let without_compiler = process::run(command(&place, "--tracer piste").env("CC", "/nonexistent/cc"));
    without_compiler.expect_status(1);
    for message in [
        "cannot measure piste: there is no C compiler",
        "install one (Debian: apt install gcc",
    ] {
        assert!(without_compiler.stderr.contains(message), "{without_compiler}");
    }
    let failing = |options: &str, status: i32, message: &str| {
        let finished = process::run(&mut command(&place, options));
        finished.expect_status(status);
        assert!(finished.stderr.contains(message), "{options}: {finished}");
    };
    failing("--tracer piste --reader wake", 1, "programs never wake pisted");
    failing(
        "--tracer piste --max-rate 1000000000 --duration 1000h",
        1,
        "choose a shorter --duration",
    );
    failing("--tracer piste,none --find-rate", 2, "leave none out of --tracer");
    failing(
        "--tracer piste --find-rate --loops 5",
        2,
        "--loops does not work with --find-rate",
    );
    failing(
        "--tracer piste --threshold 5us",
        2,
        "--threshold does not work with loops whose events are recorded",
    );
    failing("--tracer piste --subbuf-size 5000", 2, "not a power of two");
    failing("--reader wake", 2, "name one with --tracer");
    failing("event --duration 8s", 2, "the number of events given by --loops");
    failing("event --loops 5000001", 2, "--loops can be at most 5000000");
    failing(
        "event --payload 8 --tracer piste",
        2,
        "have a number as their only field",
    );
    failing("event --warm-up 8", 2, "also counts the first event");
    failing("event --find-rate --tracer piste", 2, "which has one rate");
    for option in ["--tracer piste", "--max-rate 5"] {
        let options: Vec<&str> = ["latency", "timer"].into_iter().chain(option.split(' ')).collect();
        let finished = place.piste(&options);
        finished.expect_status(2);
        assert!(
            finished.stderr.contains("works only with the loop npt or event"),
            "{finished}"
        );
    }
}
