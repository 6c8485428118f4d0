// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel domain tells the truth: its counts are those of strace and perf, and the two domains are in one order.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use piste_support::kernel::{self, KernelSession};
use piste_support::process::{send, stop, wait_until};
use piste_support::{Event, Workplace};
use rustix::process::Signal;

/// strace counts a call when it returns, and these do not.
const NEVER_RETURN: [&str; 3] = ["exit", "exit_group", "pause"];

#[test]
fn every_system_call_is_counted_as_strace_counts_it() {
    let Some(place) = kernel::workplace() else { return };
    let program = place.program("calls.c");
    let strace = strace_counts(&place, program.to_str().expect("UTF-8"));
    let recording = place.record_with_kernel(&["--no-user", "--syscall", "*"], &program, &[]);
    recording.expect_whole();

    let mut entered = BTreeMap::new();
    // The command is held until everything is enabled, and then executes the program: that call is the first.
    let mut executed = false;
    recording.trace().for_each(|event| {
        executed |= event.name == "syscall_entry_execve";
        if let Some(name) = event.name.strip_prefix("syscall_entry_").filter(|_| executed) {
            *entered.entry(name.to_owned()).or_insert(0_u64) += 1;
        }
    });
    for name in NEVER_RETURN {
        entered.remove(name);
    }
    assert_eq!(entered, strace);
    assert!(strace.len() > 20 && strace["getppid"] == 700, "{strace:?}");
}

/// `strace -f -c`: calls by name.
fn strace_counts(place: &Workplace, program: &str) -> BTreeMap<String, u64> {
    let table = place.path("strace");
    let output = table.to_str().expect("UTF-8");
    let strace = place.run("strace", &["-f", "-c", "-U", "name,calls", "-o", output, program]);
    strace.expect_success();
    let text = fs::read_to_string(&table).expect("strace writes its table");
    let pair = |line: &str| {
        let (name, count) = line.trim().split_once(char::is_whitespace)?;
        Some((name.to_owned(), count.trim().parse().ok()?))
    };
    let mut counts: BTreeMap<String, u64> = text.lines().filter_map(pair).collect();
    counts.remove("total");
    for name in NEVER_RETURN {
        counts.remove(name);
    }
    counts
}

/// `/proc` does not know a thread any more that ends before its record is read.
#[test]
fn a_thread_that_is_gone_has_its_process() {
    const THREADS: u64 = 50;
    let Some(place) = kernel::workplace() else { return };
    let program = place.program("count.c");
    let threads = THREADS.to_string();
    for (option, events) in [("--preset", "sched"), ("-k", "sched_process_fork")] {
        let recording = place.record_with_kernel(&["--no-user", option, events], &program, &[&threads, "1"]);
        recording.expect_whole();
        let mut made = 0;
        let mut new_tasks = 0;
        recording.trace().for_each(|event| {
            new_tasks += u64::from(event.name == "task_newtask");
            if event.name == "sched_process_fork" && event.field("parent_comm") == Some("count") {
                assert_eq!(
                    event.number("child_pid"),
                    event.number("parent_pid"),
                    "{events}: {event:?}"
                );
                assert_ne!(
                    event.number("child_tid"),
                    event.number("parent_tid"),
                    "{events}: {event:?}"
                );
                made += 1;
            }
        });
        // libpiste has a thread of its own.
        assert!(made >= THREADS, "{events}: {made} threads");
        // The event that tells this is not in the trace without being asked for.
        assert_eq!(new_tasks > 0, option == "--preset", "{events}: {new_tasks} new tasks");
    }
}

#[test]
fn switches_are_counted_as_perf_counts_them() {
    const ROUNDS: u64 = 5_000;
    /// At the edges: perf begins when the program is executed and ends when it has ended.
    const EDGES: u64 = 12;
    let Some(place) = kernel::workplace() else { return };
    let program = place.program("switches.c");
    let output = place.path("perf.csv");
    let (program, output) = (program.to_str().expect("UTF-8"), output.to_str().expect("UTF-8"));
    let rounds = ROUNDS.to_string();
    let perf = [
        "stat",
        "-x,",
        "-e",
        "sched:sched_switch",
        "-o",
        output,
        "--",
        program,
        &rounds,
    ];
    let recording = place.record_with_kernel(&["--no-user", "-k", "sched_switch"], "perf", &perf);
    recording.expect_whole();

    let table = fs::read_to_string(output).expect("perf writes its table");
    let counted: u64 = table
        .lines()
        .find(|line| line.contains("sched_switch"))
        .and_then(|line| line.split(',').next()?.parse().ok())
        .unwrap_or_else(|| panic!("perf says {table}"));
    let mut recorded = 0;
    recording
        .trace()
        .for_each(|event| recorded += u64::from(event.field("prev_comm") == Some("switches")));
    println!("{counted} switches for perf, {recorded} in the trace");
    // One of them finds its first byte there, and ends without the other.
    assert!(counted + EDGES >= 2 * ROUNDS, "{table}");
    assert!(counted.abs_diff(recorded) <= EDGES, "perf {counted}, trace {recorded}");
}

#[test]
fn an_event_before_a_system_call_and_one_after_it_bracket_it_in_the_trace() {
    const COUNT: u64 = 100_000;
    let Some(place) = kernel::workplace() else { return };
    let program = place.program("brackets.c");
    let rings = ["--block", "forever", "--kernel-subbuf-count", "512"];
    let options = [&["--syscall", "getppid", "-u", "brackets:*"], &rings[..]].concat();
    let recording = place.record_with_kernel(&options, program, &[&COUNT.to_string()]);
    recording.expect_whole();

    let expected = [
        "brackets:before",
        "syscall_entry_getppid",
        "syscall_exit_getppid",
        "brackets:after",
    ];
    let (mut place_in_bracket, mut number, mut last_ticks) = (0, 0, 0);
    let mut look = |event: Event| {
        assert_eq!(event.name, expected[place_in_bracket], "in bracket {number}: {event:?}");
        assert!(event.ticks >= last_ticks, "{event:?} is before {last_ticks}");
        last_ticks = event.ticks;
        if event.name.starts_with("brackets:") {
            assert_eq!(event.number("number"), number);
        }
        place_in_bracket = (place_in_bracket + 1) % expected.len();
        number += u64::from(place_in_bracket == 0);
    };
    let mut has_begun = false;
    recording.trace().for_each(|event| {
        // The runtime asks too, when it registers.
        has_begun |= event.name == expected[0];
        if has_begun && expected.contains(&event.name.as_str()) {
            look(event);
        }
    });
    assert_eq!(number, COUNT);
}

#[test]
fn ten_million_events_are_recorded_without_loss() {
    const CALLS: u64 = 5_000_000;
    /// The rings take two parts, however long a busy computer does something else: an entry and an exit have a hundred bytes.
    const PART: u64 = 125_000;
    let Some(place) = kernel::workplace() else { return };
    let program = place.program("numbered_calls.c");
    let session = KernelSession::create(&place, &["--num-subbuf", "512"]);
    let mut running = place.start(program, &[&CALLS.to_string(), "0", &PART.to_string()]);
    assert_eq!(running.line(), "ready");
    session
        .enable(&["--syscall", "close"])
        .track(&["--pid", &running.pid().to_string()])
        .start();
    let mut line = running.ask("begin");
    for made in (PART..CALLS).step_by(PART as usize) {
        assert_eq!(line, "part");
        // All but the last part is written.
        wait_until("the trace follows", || {
            let status = place.piste_json(&["status"]);
            status["channels"][0]["events"].as_u64() >= Some(2 * (made - PART))
        });
        line = running.ask("go on");
    }
    assert_eq!(line, "done");
    let (channel, trace) = session.end();
    running.say("end");
    running.finish();
    place.let_others_record();
    assert_eq!(channel["discarded_events"], 0, "{channel:#}");
    assert_eq!(channel["events"].as_u64(), Some(2 * CALLS), "{channel:#}");
    // The state dump's events are beside them.
    let counted = trace.event_count();
    assert!(counted > 2 * CALLS, "babeltrace2 counts {counted}");
}

#[test]
fn a_compilation_is_recorded_without_loss() {
    let Some(place) = kernel::workplace() else { return };
    let sources = piste_support::build_tree::repository().join("runtime");
    let include = piste_support::build_tree::repository().join("include");
    let script = format!(
        "for source in {}/*.c; do cc -std=gnu11 -O2 -g -I{} -c $source -o object.o || exit; done",
        sources.display(),
        include.display()
    );
    let recording = place.record_with_kernel(&[], "/bin/sh", &["-c", &script]);
    recording.expect_whole();
    assert!(recording.events() > 10_000, "{}", recording.summary());
    recording.trace().event_count();
}

#[test]
fn an_overload_is_counted_event_by_event() {
    const CALLS: u64 = 300_000;
    for mode in ["--discard", "--overwrite"] {
        let Some(place) = kernel::workplace() else { return };
        let program = place.program("numbered_calls.c");
        let session = KernelSession::create(&place, &[mode, "--subbuf-size", "4K", "--num-subbuf", "2"]);
        let mut running = place.start(program, &[&CALLS.to_string(), "0", &(CALLS / 2).to_string()]);
        assert_eq!(running.line(), "ready");
        session
            .enable(&["--syscall", "close"])
            .track(&["--pid", &running.pid().to_string()])
            .start();
        assert_eq!(running.ask("begin"), "part");
        // It may have kept up so far.
        let consumer = place.kernel_consumer();
        stop(consumer);
        assert_eq!(running.ask("go on"), "done");
        send(consumer, Signal::CONT);
        let (channel, trace) = session.end();
        running.say("end");
        running.finish();
        place.let_others_record();
        let count = |key: &str| channel[key].as_u64().unwrap_or_else(|| panic!("{key}: {channel:#}"));
        let (events, discarded) = (count("events"), count("discarded_events"));
        assert!(discarded > 0, "the rings are too small: {channel:#}");
        assert_eq!(events + discarded, 2 * CALLS, "{mode}: {channel:#}");
        let (read, missing) = trace.events_and_loss();
        let calls: Vec<&Event> = read.iter().filter(|event| event.name.starts_with("syscall_")).collect();
        assert_eq!((calls.len() as u64, missing), (events, discarded), "{mode}");
        let numbers: Vec<u64> = calls
            .iter()
            .filter_map(|event| event.field("fd")?.parse().ok())
            .collect();
        assert!(numbers.is_sorted(), "{mode}: calls out of order");
        assert_eq!(
            numbers.len(),
            numbers.iter().collect::<BTreeSet<_>>().len(),
            "{mode}: twice"
        );
    }
}
