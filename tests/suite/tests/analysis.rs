// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste analyze`, on recordings whose answers are known otherwise: what the kernel itself counted for a process, what strace counts, what a
//! program was made to do.

use std::path::Path;

use piste_suite::Workplace;
use piste_suite::kernel::{KernelWorkplace, workplace as kernel_workplace};
use serde_json::Value;

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Records a command; its trace is in the folder.
fn record(place: &KernelWorkplace, options: &[&str], command: &[&str]) -> String {
    let trace = text(&place.path("trace")).to_owned();
    let arguments = [&["record", "--no-user", "-o", &trace], options, &["--"], command].concat();
    place.piste_succeeds(&arguments);
    trace
}

fn analyze(place: &Workplace, name: &str, trace: &str, options: &[&str]) -> Value {
    place.piste_json(&[&["analyze", name, trace], options].concat())
}

fn rows<'v>(report: &'v Value, table: &str) -> &'v Vec<Value> {
    report[table]
        .as_array()
        .unwrap_or_else(|| panic!("no {table}: {report:#}"))
}

fn row<'v>(report: &'v Value, table: &str, key: &str, wanted: &Value) -> &'v Value {
    let found = rows(report, table).iter().find(|row| row[key] == *wanted);
    found.unwrap_or_else(|| panic!("no {key} {wanted} in {table}: {report:#}"))
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Uses its CPU for a while, and says how long according to the kernel: `user system`, in microseconds.
const BURN: &str = "
import os, resource, time
end = time.monotonic() + 1.0
while time.monotonic() < end:
    sum(range(1000))
    os.getppid()
used = resource.getrusage(resource.RUSAGE_SELF)
open('used', 'w').write(f'{os.getpid()} {int(1e9 * (used.ru_utime + used.ru_stime))} {used.ru_nvcsw + used.ru_nivcsw}')
os._exit(0)
";

/// Time that the host of this virtual machine took from its CPUs since it started.
fn stolen_ns() -> i64 {
    const TICK_NS: i64 = 10_000_000;
    let text = std::fs::read_to_string("/proc/stat").expect("the kernel's counts");
    // cpu USER NICE SYSTEM IDLE IOWAIT IRQ SOFTIRQ STEAL
    let ticks = text.split_whitespace().nth(8).expect("a count of what is stolen");
    TICK_NS * ticks.parse::<i64>().expect("a number")
}

#[test]
fn times_on_a_cpu_are_those_that_the_kernel_counts() {
    let Some(place) = kernel_workplace() else { return };
    let stolen_before_ns = stolen_ns();
    let trace = record(&place, &[], &["python3", "-c", BURN]);
    let stolen_ns = stolen_ns() - stolen_before_ns;
    let said = std::fs::read_to_string(place.path("used")).expect("it said what it used");
    let said: Vec<i64> = said.split(' ').map(|word| word.parse().expect("a number")).collect();
    let (pid, used_ns) = (said[0], said[1]);

    let report = analyze(&place, "ltt", &trace, &["--limit", "1000"]);
    let own = row(&report, "processes", "pid", &pid.into());
    let on_cpu_ns = number(&own["on_cpu_ns"]);
    // What it used before it was recorded, from the fork to the gate's end, and after it had asked; and what the host of a virtual machine
    // took from its CPU, which it did not use.
    let difference = (on_cpu_ns - used_ns).abs();
    assert!(
        difference < used_ns / 100 + 20_000_000 + stolen_ns,
        "{on_cpu_ns} ns on a CPU, {used_ns} ns according to getrusage, {stolen_ns} ns stolen"
    );
    let (user, kernel) = (number(&own["user_ns"]), number(&own["kernel_ns"]));
    assert!(user > 0 && kernel > 0, "{own:#}");
    let top = analyze(&place, "cputop", &trace, &["--pid", &pid.to_string()]);
    let thread = row(&top, "threads", "tid", &pid.into());
    assert_eq!(number(&thread["on_cpu_ns"]), on_cpu_ns);
}

#[test]
fn what_a_thread_did_sums_up_to_the_duration_exactly() {
    let Some(place) = kernel_workplace() else { return };
    let trace = record(
        &place,
        &[],
        &["sh", "-c", "for i in 1 2 3; do ls / | sort; sleep 0.02; done; true"],
    );
    let whole = analyze(&place, "ltt", &trace, &["--limit", "100000"]);
    let (begin, end) = (number(&whole["begin_ns"]), number(&whole["end_ns"]));
    let middle = begin + (end - begin) / 2;
    for options in [
        vec![],
        vec!["--end".to_owned(), middle.to_string()],
        vec!["--begin".to_owned(), middle.to_string()],
    ] {
        let mut arguments: Vec<&str> = vec!["--limit", "100000"];
        arguments.extend(options.iter().map(String::as_str));
        let report = analyze(&place, "ltt", &trace, &arguments);
        let duration = number(&report["end_ns"]) - number(&report["begin_ns"]);
        assert!(duration > 0 && duration <= end - begin);
        let threads = rows(&report, "threads");
        assert!(threads.len() >= 2, "{options:?}: {report:#}");
        for thread in threads {
            let parts = [
                "on_cpu_ns",
                "runnable_ns",
                "io_ns",
                "network_ns",
                "timer_ns",
                "lock_ns",
                "thread_ns",
                "other_ns",
                "unknown_ns",
                "absent_ns",
            ];
            let sum: i64 = parts.iter().map(|part| number(&thread[*part])).sum();
            assert_eq!(sum, duration, "{options:?}: {thread:#}");
        }
    }
}

#[test]
fn calls_are_counted_as_strace_counts_them() {
    let Some(place) = kernel_workplace() else { return };
    // Twice the same.
    let command = ["dd", "if=/dev/zero", "of=/dev/null", "bs=512", "count=500"];
    let trace = record(&place, &[], &command);
    let counts = text(&place.path("counts")).to_owned();
    place
        .run(
            "strace",
            &[&["-f", "-c", "-U", "calls,name", "-o", &counts], &command[..]].concat(),
        )
        .expect_success();
    let counted = std::fs::read_to_string(&counts).expect("strace wrote it");
    let report = analyze(&place, "syscallstats", &trace, &["--comm", "dd", "--limit", "1000"]);
    for call in ["read", "write", "close", "mmap"] {
        let theirs = counted.lines().find_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            (words.len() == 2 && words[1] == call).then(|| words[0].parse::<i64>().ok())?
        });
        let ours = number(&row(&report, "syscalls", "syscall", &call.into())["count"]);
        assert_eq!(Some(ours), theirs, "{call}: {counted}");
    }
}

#[test]
fn waits_have_causes() {
    let Some(place) = kernel_workplace() else { return };
    let program = "
import os, time
time.sleep(0.05)
if os.fork() == 0:
    # However long the parent takes to begin: it sleeps, by then, for this process.
    while open(f'/proc/{os.getppid()}/stat').read().rsplit(')', 1)[1].split()[0] != 'S':
        pass
    time.sleep(0.05)
    os._exit(0)
os.wait()
";
    let trace = record(&place, &[], &["python3", "-c", program]);
    let report = analyze(&place, "blocked", &trace, &["--limit", "1000", "--min", "40ms"]);
    let waits = rows(&report, "waits");
    // python3 may be a script that becomes it, and waits itself before.
    let of = |call: &str, cause: &str| -> i64 {
        let own = waits
            .iter()
            .filter(|wait| wait["comm"] == "python3" && wait["syscall"] == call && wait["cause"] == cause);
        own.map(|wait| number(&wait["count"])).sum()
    };
    assert_eq!(of("clock_nanosleep", "timer"), 2, "{report:#}");
    assert_eq!(of("wait4", "thread"), 1, "{report:#}");
    let tree = analyze(&place, "procs", &trace, &[]);
    // Others of that name may end meanwhile, on a CPU that turns to a recorded thread.
    let is_python = |row: &&Value| row["comm"].as_str().is_some_and(|comm| comm.trim_start() == "python3");
    let all: Vec<&Value> = rows(&tree, "processes").iter().filter(is_python).collect();
    let is_child_of = |child: &Value, parent: &Value| {
        child["ppid"] == parent["pid"] && number(&child["depth"]) == number(&parent["depth"]) + 1
    };
    let pairs = all
        .iter()
        .flat_map(|child| all.iter().map(move |parent| (child, parent)));
    assert_eq!(
        pairs.filter(|(child, parent)| is_child_of(child, parent)).count(),
        1,
        "{tree:#}"
    );
}

#[test]
fn a_trace_that_lacks_events_is_told_how_to_get_them() {
    let Some(place) = kernel_workplace() else { return };
    let trace = record(&place, &["-k", "sched_switch"], &["true"]);
    let refused = place.piste(&["analyze", "syscallstats", &trace]);
    assert_eq!(refused.status, 1, "{refused}");
    assert!(
        refused
            .stderr
            .contains("`piste record --preset syscalls -o DIR -- CMD`"),
        "{refused}"
    );
    let answered = place.piste(&["analyze", "ltt", &trace]);
    answered.expect_success();
    assert!(answered.stderr.contains("--preset syscalls"), "{answered}");
    let unknown = place.piste(&["analyze", "lttt", &trace]);
    assert_eq!(unknown.status, 2, "{unknown}");
    assert!(unknown.stderr.contains("did you mean ltt"), "{unknown}");
}

#[test]
fn every_analysis_speaks_text_json_and_csv() {
    let Some(place) = kernel_workplace() else { return };
    let trace = record(
        &place,
        &["--preset", "sched,syscalls,irq,mem"],
        &[
            "sh",
            "-c",
            "ls / >/dev/null; i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done",
        ],
    );
    let all = place.piste_json(&["analyze"]);
    for analysis in all.as_array().expect("a list") {
        let name = analysis["name"].as_str().expect("a name");
        // It has to be told of which events.
        if name == "periods" {
            continue;
        }
        let report = analyze(&place, name, &trace, &[]);
        let plain = place.piste_succeeds(&["analyze", name, &trace]);
        let csv = place.piste_succeeds(&["analyze", name, &trace, "--csv"]);
        assert!(plain.lines().count() > 1, "{name}: {plain}");
        // A line for each row, one for each heading, and one between two tables.
        let tables: Vec<&Vec<Value>> = report
            .as_object()
            .expect("an object")
            .iter()
            .filter(|(key, _)| *key != "notes")
            .filter_map(|(_, table)| table.as_array())
            .collect();
        let lines: usize = tables.iter().map(|table| table.len() + 2).sum();
        assert_eq!(csv.lines().count(), lines - 1, "{name}: {csv}");
    }
}

/// Time of each thread in a state, by thread and state.
fn known(place: &Workplace, trace: &str) -> std::collections::BTreeMap<(i64, &'static str), i64> {
    let report = analyze(place, "ltt", trace, &["--table", "threads", "--limit", "1000000"]);
    let duration = number(&report["end_ns"]) - number(&report["begin_ns"]);
    let mut known = std::collections::BTreeMap::new();
    for thread in rows(&report, "threads") {
        let of = |parts: &[&str]| -> i64 { parts.iter().map(|part| number(&thread[*part])).sum() };
        let waits = ["io_ns", "network_ns", "timer_ns", "lock_ns", "thread_ns", "other_ns"];
        let states = [
            ("on a CPU", of(&["on_cpu_ns"])),
            ("runnable", of(&["runnable_ns"])),
            ("waiting", of(&waits)),
            ("unknown", of(&["unknown_ns"])),
            ("absent", of(&["absent_ns"])),
        ];
        assert_eq!(states.iter().map(|(_, ns)| ns).sum::<i64>(), duration, "{thread:#}");
        for (state, ns) in states {
            *known.entry((number(&thread["tid"]), state)).or_default() += ns;
        }
    }
    known
}

#[test]
fn what_is_missing_makes_nothing_certain_that_was_not() {
    let Some(place) = kernel_workplace() else { return };
    let trace = text(&place.path("whole")).to_owned();
    let busy = "for i in 1 2 3 4 5 6; do ls / | sort | md5sum; sleep 0.05; done";
    place.piste_succeeds(&["record", "--no-user", "-a", "-o", &trace, "--", "sh", "-c", busy]);
    let whole = known(&place, &trace);
    let streams = |folder: &Path| -> Vec<std::path::PathBuf> {
        let files = std::fs::read_dir(folder.join("kernel")).expect("a trace of the kernel");
        let mut files: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
        files.retain(|file| {
            file.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("kernel_"))
        });
        files.sort();
        files
    };
    // A CPU without its stream; a stream that a crash has cut.
    for damage in ["missing", "cut"] {
        let copy = place.path(damage);
        place.run("cp", &["-a", &trace, text(&copy)]).expect_success();
        let files = streams(&copy);
        let Some(first) = files.first().filter(|_| files.len() > 1) else {
            println!("skipped: one CPU only");
            return;
        };
        if damage == "missing" {
            std::fs::remove_file(first).expect("it is removed");
        } else {
            let file = std::fs::OpenOptions::new()
                .write(true)
                .open(first)
                .expect("it is opened");
            let bytes = file.metadata().expect("it has a size").len();
            file.set_len(bytes * 2 / 3).expect("it is cut");
        }
        let copy = text(&copy);
        let answered = place.piste(&["analyze", "health", copy]);
        answered.expect_success();
        assert!(
            answered.stderr.contains("what threads did there is unknown"),
            "{answered}"
        );
        let mut surplus = 0;
        for ((tid, state), ns) in known(&place, copy) {
            // Of pisted's own threads, which are hidden, the whole trace may know less than a part of it, which has no contradiction.
            if let Some(unknown) = whole.get(&(tid, "unknown")).filter(|_| state != "unknown") {
                let before = whole.get(&(tid, state)).copied().unwrap_or(0);
                surplus = surplus.max(ns - before - unknown);
            }
        }
        // The trace as a whole ends a little earlier or later than one without a part of it.
        assert!(
            surplus < 1_000_000,
            "{damage}: {surplus} ns are known that were not before"
        );
    }
}

#[test]
fn what_stands_out_has_a_command_that_looks_closer() {
    let Some(place) = kernel_workplace() else { return };
    let busy = "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done";
    let trace = text(&place.path("trace")).to_owned();
    let told = place.piste(&[
        "record",
        "--no-user",
        "--insights",
        "always",
        "-o",
        &trace,
        "--",
        "sh",
        "-c",
        busy,
    ]);
    told.expect_success();
    let found = place.piste_json(&["insights", &trace]);
    let insights = rows(&found, "insights");
    let worth_a_line = insights
        .iter()
        .filter(|insight| insight["level"] != "information")
        .count();
    let lines = told
        .stderr
        .lines()
        .filter(|line| line.trim_start().starts_with("notable"));
    // On a busy machine looking may have taken too long; then nothing is said.
    let told_lines = lines.count();
    assert!(told_lines == 0 || told_lines == worth_a_line.min(3), "{told} {found:#}");
    for insight in insights {
        let command = insight["command"].as_str().expect("a command");
        let words: Vec<&str> = command.split(' ').skip(1).collect();
        place.piste(&words).expect_success();
        assert!(
            number(&insight["begin_ns"]) <= number(&insight["end_ns"]),
            "{insight:#}"
        );
    }
    let page = place.piste_succeeds(&["insights", &trace]);
    let closer = page.lines().filter(|line| line.trim_start().starts_with("closer"));
    assert_eq!(closer.count(), insights.len(), "{page}");
}

#[test]
fn two_traces_differ_in_what_was_done_more_often() {
    let Some(place) = kernel_workplace() else { return };
    let mut traces = Vec::new();
    for count in ["100", "300"] {
        let trace = text(&place.path(count)).to_owned();
        let count = format!("count={count}");
        let options = ["record", "--no-user", "-o", &trace, "--"];
        let command = ["dd", "if=/dev/zero", "of=/dev/null", "bs=1", &count, "status=none"];
        place.piste_succeeds(&[&options[..], &command].concat());
        traces.push(trace);
    }
    let report = place.piste_json(&["diff", &traces[0], &traces[1], "syscallstats", "--limit", "1000"]);
    let written: Vec<&Value> = rows(&report, "changes")
        .iter()
        .filter(|change| change["about"] == "dd write" && change["measure"] == "count")
        .collect();
    assert_eq!(written.len(), 1, "{report:#}");
    assert_eq!(
        (&written[0]["before"], &written[0]["after"]),
        (&100.0.into(), &300.0.into()),
        "{report:#}"
    );
    // Of all analyses, that is among what changed.
    let all = place.piste_succeeds(&["diff", &traces[0], &traces[1], "--limit", "1000"]);
    assert!(
        all.lines()
            .any(|line| line.contains("count") && line.contains("dd write")),
        "{all}"
    );
    let same = place.piste_json(&["diff", &traces[0], &traces[0]]);
    assert_eq!(rows(&same, "changes").len(), 0, "{same:#}");
    let refused = place.piste(&["diff", &traces[0], &traces[1], "schedlog"]);
    assert_eq!(refused.status, 2, "{refused}");
}

#[test]
fn periods_are_from_one_chosen_event_to_another() {
    let Some(place) = kernel_workplace() else { return };
    let dd = ["dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=200", "status=none"];
    let trace = record(&place, &[], &dd);
    let options = [
        "--begin-event",
        "name == \"syscall_entry_write\"",
        "--end-event",
        "name == \"syscall_exit_write\"",
        "--capture",
        "name",
        "--comm",
        "dd",
    ];
    let report = analyze(&place, "periods", &trace, &options);
    let calls = analyze(&place, "syscallstats", &trace, &["--comm", "dd"]);
    let (periods, calls) = (
        row(&report, "periods", "captured", &"syscall_entry_write".into()),
        row(&calls, "syscalls", "syscall", &"write".into()),
    );
    for key in ["count", "total_ns", "min_ns", "max_ns"] {
        assert_eq!(periods[key], calls[key], "{key}: {report:#}");
    }
    assert_eq!(rows(&report, "log").len(), 200, "{report:#}");
    let refused = place.piste(&["analyze", "periods", &trace]);
    assert_eq!(refused.status, 2, "{refused}");
}
