// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is written of programs and libraries that are mapped in memory while the kernel is recorded, and the names of locks that come of it.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};

use piste_support::build_tree::binary;
use piste_support::compiler::Compilation;
use piste_support::process::{allowed_cpu, run, send, stop, wait_until};
use piste_support::report::{analyze, record_whole, row, rows, text};
use piste_support::served::ServedDisk;
use piste_support::{Workplace, kernel, users};
use rustix::process::Signal;
use serde_json::Value;

const NOBODY: u32 = 65534;
/// By them, analyses know who waits for whom.
const EVENTS: &str = "sched_switch,sched_waking,sched_process_*,task_newtask";
/// The lock of convoy.c.
const LOCK: &str = "till_lock in convoy";

/// The lines of a recording; the last one may still be being written.
fn lines(trace: &Path) -> Vec<Value> {
    let text = fs::read_to_string(trace.join("mappings.jsonl")).unwrap_or_default();
    text.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

fn count(lines: &[Value], event: &str) -> usize {
    lines.iter().filter(|line| line["event"] == event).count()
}

#[test]
fn mappings_of_a_process_and_of_all_that_it_starts_are_recorded() {
    const CHILDREN: usize = 100;
    let Some(place) = kernel::workplace() else { return };
    let script = "echo ready; while read go; do /bin/true; echo done; done";
    let mut shell = place.start("/bin/sh", &["-c", script]);
    assert_eq!(shell.line(), "ready");
    let (pid, trace) = (shell.pid(), place.path("trace"));
    let folder = trace.to_str().expect("UTF-8");
    let record = [
        "record",
        "--preset",
        "sched",
        "--no-user",
        "-o",
        folder,
        "-p",
        &pid.to_string(),
    ];
    let mut recorder = place.start(binary("piste"), &record);
    wait_until("its mappings are recorded", || !lines(&trace).is_empty());
    for _ in 0..CHILDREN {
        assert_eq!(shell.ask("go"), "done");
    }
    recorder.signal(Signal::INT);
    recorder.finish();
    shell.signal(Signal::KILL);

    let lines = lines(&trace);
    let own = lines
        .iter()
        .filter(|line| line["event"] == "mapped" && line["pid"] == pid);
    let has_library = |line: &Value| line["path"].as_str().is_some_and(|path| path.contains("/libc"));
    let library = own
        .clone()
        .find(|line| has_library(line))
        .expect("the shell has a C library");
    let is_true = |line: &&Value| line["path"].as_str().is_some_and(|path| path.ends_with("/true"));
    assert_eq!(count(&lines, "forked"), CHILDREN, "{lines:?}");
    assert_eq!(lines.iter().filter(is_true).count(), CHILDREN, "{lines:?}");
    assert_eq!(count(&lines, "lost"), 0);
    // What was mapped before has the build id that the kernel reports of what is mapped later.
    let later = lines
        .iter()
        .rfind(|line| has_library(line))
        .expect("so has every command");
    assert_ne!(later["pid"], library["pid"]);
    assert_eq!(later["build_id"], library["build_id"]);
}

#[test]
fn mappings_that_were_not_recorded_are_told() {
    let Some(place) = kernel::workplace() else { return };
    let (trace, over) = (place.path("trace"), place.path("over"));
    let maps = place.program("maps.c");
    // More than the ring of a CPU has room for.
    let script = format!(
        "echo ready; read go; {} 20000; touch {}",
        maps.display(),
        over.display()
    );
    let folder = trace.to_str().expect("UTF-8");
    let record = ["record", "--preset", "sched", "--no-user", "-o", folder, "--"];
    let command = ["taskset", "-c", &allowed_cpu(), "/bin/sh", "-c", &script];
    let mut recorder = place.start(binary("piste"), &[&record[..], &command].concat());
    assert_eq!(recorder.line(), "ready");
    let consumer = place.kernel_consumer();
    stop(consumer);
    recorder.say("go");
    wait_until("the command is over", || over.exists());
    send(consumer, Signal::CONT);
    recorder.finish();
    assert!(count(&lines(&trace), "lost") > 0);
}

/// Runs convoy.c. On a busy machine its threads are to wait for the lock rather than for a CPU.
fn run_convoy(place: &Workplace, convoy: &Path) {
    place.run("nice", &["-n", "-10", text(convoy)]).expect_success();
}

/// The processes that have mapped a file.
fn pids(lines: &[Value], file: &Path) -> BTreeSet<i64> {
    let is_mapped = |line: &&Value| line["path"].as_str().is_some_and(|path| path == text(file));
    let mapped = lines.iter().filter(is_mapped);
    mapped.map(|line| line["pid"].as_i64().expect("a number")).collect()
}

/// Starts a session that records what convoys are seen by.
fn start(place: &Workplace, options: &[&str]) -> PathBuf {
    let output = place.path("trace");
    place.piste_succeeds(&[&["create", "locks", "-o", text(&output)], options].concat());
    place.piste_succeeds(&["enable-event", "-k", EVENTS]);
    place.piste_succeeds(&["enable-event", "-k", "--syscall", "futex"]);
    place.piste_succeeds(&["start"]);
    output
}

/// The names of the futexes that threads of convoy.c waited for longest, and what the insight of the convoy says.
fn names(place: &Workplace, trace: &Path) -> (Vec<Value>, String) {
    let report = analyze(place, "futex", text(trace), &["--comm", "convoy"]);
    let names = rows(&report, "futexes").iter().map(|row| row["lock"].clone());
    let insights = place.piste_json(&["insights", text(trace)]);
    let convoy = rows(&insights, "insights")
        .iter()
        .filter(|row| row["kind"] == "lock convoy")
        .filter_map(|row| row["what"].as_str())
        // Other programs on this machine have their own.
        .find(|what| what.starts_with("threads of convoy ("));
    (names.collect(), convoy.unwrap_or_default().to_owned())
}

/// The chunks that a session has finished.
fn archives(output: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(output.join("archives")).expect("it was rotated");
    entries.map(|entry| entry.expect("it is there").path()).collect()
}

fn expect_name(place: &Workplace, trace: &Path) {
    let (names, what) = names(place, trace);
    assert!(names.iter().any(|name| name == LOCK), "{names:?}");
    assert!(what.contains(LOCK), "{what}");
}

#[test]
fn every_chunk_of_a_session_names_its_locks() {
    let Some(place) = kernel::workplace() else { return };
    let convoy = place.program("convoy.c");
    let output = start(&place, &[]);
    for _ in 0..2 {
        run_convoy(&place, &convoy);
        place.piste_succeeds(&["rotate"]);
    }
    run_convoy(&place, &convoy);
    place.piste_succeeds(&["stop"]);
    // What is recorded later comes behind it.
    place.piste_succeeds(&["start"]);
    place.piste_succeeds(&["destroy"]);
    let chunks = archives(&output);
    assert_eq!(chunks.len(), 2, "{chunks:?}");
    for trace in chunks.iter().chain([&output]) {
        let lines = lines(trace);
        assert_eq!(pids(&lines, &convoy).len(), 1, "{}: {lines:#?}", trace.display());
        assert_eq!(count(&lines, "lost"), 0);
    }
    for trace in &chunks {
        expect_name(&place, trace);
    }
    // The folder also contains the chunks.
    expect_name(&place, &output.join("kernel"));
}

#[test]
fn programs_on_a_disk_that_does_not_answer_hold_up_nothing() {
    let Some(place) = kernel::workplace() else { return };
    let Some(disk) = ServedDisk::with(&place, "/bin/cat") else {
        return;
    };
    let mut earlier = place.start(&disk.program, &[]);
    assert_eq!(earlier.ask("line"), "line");
    let convoy = place.program("convoy.c");
    let output = start(&place, &[]);
    // It has ended when the kernel consumer looks whether it was a 32-bit program.
    place.run(&disk.program, &["/dev/null"]).expect_success();
    disk.hang();
    for _ in 0..2 {
        run_convoy(&place, &convoy);
        place.piste_succeeds(&["rotate"]);
    }
    let summary = place.piste_succeeds(&["destroy"]);
    assert!(summary.contains("nothing lost"), "{summary}");
    for trace in archives(&output) {
        let lines = lines(&trace);
        assert_eq!(pids(&lines, &convoy).len(), 1, "{}", trace.display());
        let of_disk = |line: &&Value| line["path"] == text(&disk.program) && line["pid"] == earlier.pid();
        let mapped = lines.iter().find(of_disk).expect("it goes on");
        assert_eq!(mapped["build_id"], Value::Null);
        assert_eq!(count(&lines, "lost"), 0);
    }
    drop(disk);
    earlier.finish().expect_success();
}

#[test]
fn a_recording_with_stacks_names_the_function_that_waited_for_a_lock() {
    let Some(place) = kernel::workplace() else { return };
    let compilation = Compilation::of(&["convoy.c"]).with("-fno-omit-frame-pointer");
    let convoy = place.compile(&compilation, "convoy");
    let stacks = [
        "--preset",
        "sched,syscalls",
        "-k",
        "sched_switch",
        "--callstack",
        "user",
    ];
    let (trace, _) = record_whole(&place, &stacks, &["nice", "-n", "-10", text(&convoy)]);
    let check = |waited_in: &Value| {
        let functions = waited_in.as_array().into_iter().flatten();
        let names: BTreeSet<&str> = functions.filter_map(|function| function["name"].as_str()).collect();
        assert!(names.contains("serve"), "{waited_in}");
        assert!(names.is_subset(&BTreeSet::from(["serve", "unknown"])), "{waited_in}");
    };
    let futexes = analyze(&place, "futex", &trace, &["--comm", "convoy"]);
    check(&row(&futexes, "futexes", "lock", &LOCK.into())["waited_in"]);
    let insights = place.piste_json(&["insights", &trace]);
    check(&row(&insights, "insights", "kind", &"lock convoy".into())["waited_in"]);
}

#[test]
fn a_snapshot_names_locks_of_programs_that_have_ended() {
    let Some(place) = kernel::workplace() else { return };
    let convoy = place.program("convoy.c");
    start(&place, &["--snapshot"]);
    run_convoy(&place, &convoy);
    let snapshot = place.path("snapshot");
    place.piste_succeeds(&["snapshot", "record", "-o", text(&snapshot)]);
    place.piste_succeeds(&["destroy"]);
    expect_name(&place, &snapshot);
}

#[test]
fn a_consumer_that_goes_on_after_another_one_records_mappings_and_says_that_some_are_missing() {
    let Some(place) = kernel::workplace() else { return };
    let convoy = place.program("convoy.c");
    let output = start(&place, &[]);
    let consumer = place.kernel_consumer();
    send(consumer, Signal::KILL);
    wait_until("another consumer goes on", || count(&lines(&output), "lost") > 0);
    run_convoy(&place, &convoy);
    place.piste_succeeds(&["destroy"]);
    expect_name(&place, &output.join("kernel"));
}

#[test]
fn a_members_session_has_mappings_of_the_members_own_processes_only() {
    let Some(place) = kernel::workplace() else { return };
    if !users::enter(&place) {
        return;
    }
    let convoy = place.program("convoy.c");
    place.start_pisted();
    users::let_everybody_ask(&place);
    let home = place.path("home");
    fs::create_dir(&home).expect("a folder can be made there");
    chown(&home, Some(NOBODY), Some(NOBODY)).expect("it is ours");
    let (output, piste) = (home.join("trace"), place.path("bin/piste"));
    let member = |program: &Path, arguments: &[&str]| {
        run(&mut users::command(
            &place,
            NOBODY,
            "--clear-groups",
            program,
            arguments,
        ))
        .expect_success();
    };
    let futexes = ["enable-event", "-k", "--syscall", "futex"];
    member(&piste, &["create", "locks", "-o", text(&output)]);
    member(&piste, &futexes);
    member(&piste, &["enable-event", "-k", EVENTS]);
    let mut earlier = place.start("/bin/cat", &[]);
    member(&piste, &["start"]);
    let mut later = place.start("/bin/cat", &[]);
    assert_eq!(later.ask("line"), "line");
    member(&convoy, &[]);
    run_convoy(&place, &convoy);
    member(&piste, &["destroy"]);
    let lines = lines(&output);
    assert_eq!(
        fs::metadata(output.join("mappings.jsonl")).expect("it is there").uid(),
        NOBODY
    );
    let of_pid = |pid: i32| {
        let is_meant = |line: &&Value| line["event"] == "mapped" && line["pid"] == pid;
        lines.iter().filter(is_meant).count()
    };
    assert_eq!((of_pid(earlier.pid()), of_pid(later.pid())), (0, 0));
    assert_eq!((of_pid(place.kernel_consumer()), of_pid(place.pisted())), (0, 0));
    assert_eq!(pids(&lines, &convoy).len(), 1, "the member's, not root's");
    let (names, _) = names(&place, &output.join("kernel"));
    assert!(names.iter().any(|name| name == LOCK), "{names:?}");
    earlier.finish().expect_success();
    later.finish().expect_success();
}
