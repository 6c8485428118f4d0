// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rotations of sessions that record: each event is in one chunk, each chunk is a trace of its own, whoever is killed meanwhile.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use piste_support::kernel::{self, KernelSession};
use piste_support::process::{exists, send, stop, wait_until};
use piste_support::{Running, Trace, Workplace, build_tree};
use rustix::process::Signal;
use serde_json::Value;

const CALLS: u64 = 30_000;
/// After each hundred calls: about two seconds in all.
const REST_US: &str = "6000";

/// A session of both domains that loses nothing, with a program that records events and one that makes system calls.
struct Recording<'a> {
    place: &'a Workplace,
    events: Running,
    calls: Running,
}

impl<'a> Recording<'a> {
    fn start(place: &'a Workplace) -> Recording<'a> {
        // Roomy: an entry and an exit have a hundred bytes.
        let session = KernelSession::create(place, &["--num-subbuf", "512"]);
        let small = ["--block", "forever", "--subbuf-size", "16K", "--num-subbuf", "4"];
        place.piste_succeeds(&[&["enable-channel", "-u", "small"], &small[..]].concat());
        place.piste_succeeds(&["enable-event", "-u", "progress:*,lttng_ust_statedump:*", "-c", "small"]);
        let mut calls = place.start(place.program("numbered_calls.c"), &[&CALLS.to_string(), REST_US]);
        assert_eq!(calls.line(), "ready");
        session
            .enable(&["--syscall", "close"])
            .enable(&["sched_switch"])
            .track(&["--pid", &calls.pid().to_string()])
            .start();
        let file = place.path("calls");
        let events = place.start(
            place.program("progress.c"),
            &[file.to_str().expect("UTF-8"), "2", "0", "20000"],
        );
        wait_until("the program records", || {
            fs::read(&file).is_ok_and(|counts| counts.iter().any(|&byte| byte > 0))
        });
        calls.say("begin");
        Recording { place, events, calls }
    }

    /// Ends everything; the status at the end.
    fn end(mut self) -> Value {
        assert_eq!(self.calls.line(), "done");
        self.events.signal(Signal::KILL);
        self.events.finish();
        let status = self.place.piste_json(&["destroy"]);
        self.calls.say("end");
        self.calls.finish().expect_success();
        status
    }
}

/// Every event of both programs is in the trace, once, and nothing else than the status says.
fn check_whole(place: &Workplace, status: &Value) {
    let channels = status["channels"].as_array().expect("channels");
    let sum = |key: &str| -> u64 { channels.iter().map(|channel| number(channel, key)).sum() };
    assert_eq!((sum("discarded_events"), sum("lost_packets")), (0, 0), "{status:#}");
    let mut next = BTreeMap::<(i32, u64), u64>::new();
    let (mut next_call, mut recorded, mut wrong) = (0, [0; 3], Vec::new());
    Trace::at(place.path("trace")).for_each(|event| {
        let of = match &*event.name {
            name if name.starts_with("lttng_statedump_") => 2,
            name if name.contains(':') => 0,
            _ => 1,
        };
        recorded[of] += 1;
        let (expected, number) = match &*event.name {
            "progress:tick" => (
                next.entry((event.vpid(), event.number("thread"))).or_default(),
                event.number("number"),
            ),
            "syscall_entry_close" => (&mut next_call, event.number("fd") - 1_000_000),
            _ => return,
        };
        if number != *expected {
            wrong.push(format!("{expected} expected: {event:?}"));
        }
        *expected = number + 1;
    });
    assert!(
        wrong.is_empty(),
        "missing or twice, {} in all: {:#?}",
        wrong.len(),
        &wrong[..wrong.len().min(10)]
    );
    assert_eq!(next_call, CALLS);
    assert_eq!(next.len(), 2, "threads");
    let of_channel = |domain: &str| -> u64 {
        let of_domain = channels
            .iter()
            .filter(|channel| channel["settings"]["domain"] == domain);
        of_domain.map(|channel| number(channel, "events")).sum()
    };
    assert_eq!(
        recorded,
        [
            of_channel("user"),
            of_channel("kernel"),
            number(&status["state_dump"], "events")
        ],
        "{status:#}"
    );
    let archives = place.path("trace/archives");
    let names: Vec<String> = names_in(&archives);
    assert!(names.iter().all(|name| !name.starts_with('.')), "{names:?}");
    assert_eq!(names.len() as u64, number(status, "chunks"), "{names:?}");
}

#[test]
fn each_event_is_in_one_chunk_and_each_chunk_begins_with_a_state_dump() {
    const ROTATIONS: u64 = 10;
    let Some(place) = kernel::shared_workplace() else {
        return;
    };
    let recording = Recording::start(&place);
    let chunks: Vec<Value> = (0..ROTATIONS).map(|_| place.piste_json(&["rotate"])).collect();
    let status = recording.end();
    check_whole(&place, &status);
    assert_eq!(number(&status, "chunks"), ROTATIONS);
    let mut folders: Vec<PathBuf> = vec![place.path("trace/user"), place.path("trace/kernel")];
    for (chunk, expected) in chunks.iter().zip(1..) {
        assert_eq!(number(chunk, "number"), expected);
        let folder = Path::new(chunk["trace"].as_str().expect("a path"));
        assert_eq!(Trace::at(folder).event_count(), number(chunk, "events"), "{chunk:#}");
        folders.extend([folder.join("user"), folder.join("kernel")]);
    }
    for folder in folders {
        let counts = Trace::at(&folder).counts();
        let count = |name: &str| counts.get(name).copied().unwrap_or_default();
        let (begin, end) = match folder.ends_with("user") {
            true => ("lttng_ust_statedump:start", "lttng_ust_statedump:end"),
            false => ("lttng_statedump_start", "lttng_statedump_end"),
        };
        assert_eq!((count(begin), count(end)), (1, 1), "{folder:?}: {counts:?}");
    }
}

#[test]
fn whoever_is_killed_while_it_is_rotated_nothing_is_lost_and_nothing_is_there_twice() {
    const KILLS: u64 = 9;
    let Some(place) = kernel::shared_workplace() else {
        return;
    };
    let recording = Recording::start(&place);
    for kill in 0..KILLS {
        let (consumer, kernel_consumer, pisted) = (place.consumer(), place.kernel_consumer(), place.pisted());
        let mut rotate = place.start(build_tree::binary("piste"), &["rotate"]);
        // Instants all over a rotation, which takes some 10 to 100 ms.
        sleep(Duration::from_micros(kill * 10_571 % 50_000));
        let victim = match kill % 3 {
            0 => consumer,
            1 => kernel_consumer,
            _ => pisted,
        };
        send(victim, Signal::KILL);
        wait_until("it is dead", || !exists(victim));
        // The command that waits for a pisted that is killed fails.
        rotate.finish();
        place.start_pisted();
        wait_until("the rotation is over", || place.piste(&["rotate"]).status == 0);
    }
    let status = recording.end();
    check_whole(&place, &status);
    assert!(number(&status, "chunks") >= KILLS, "{status:#}");
}

#[test]
fn what_the_kernel_discards_is_told_in_one_chunk() {
    const MANY: u64 = 200_000;
    let Some(place) = kernel::workplace() else { return };
    let session = KernelSession::create(&place, &["--subbuf-size", "4K", "--num-subbuf", "4"]);
    let mut calls = place.start(place.program("numbered_calls.c"), &[&MANY.to_string(), "0", "20000"]);
    assert_eq!(calls.line(), "ready");
    session
        .enable(&["--syscall", "close"])
        .track(&["--pid", &calls.pid().to_string()])
        .start();
    let consumer = place.kernel_consumer();
    let (mut events, mut missing) = (0, 0);
    for part in 1..=MANY / 20_000 {
        // Nobody reads the rings meanwhile.
        stop(consumer);
        assert_eq!(calls.ask("go on"), if part < MANY / 20_000 { "part" } else { "done" });
        send(consumer, Signal::CONT);
        let chunk = place.piste_json(&["rotate"]);
        let (read, lost) = Trace::at(chunk["trace"].as_str().expect("a path")).events_and_loss();
        events += read.iter().filter(|event| event.name.starts_with("syscall_")).count() as u64;
        missing += lost;
    }
    let (channel, trace) = session.end();
    calls.say("end");
    calls.finish().expect_success();
    let (read, lost) = Trace::at(trace.path().join("kernel")).events_and_loss();
    events += read.iter().filter(|event| event.name.starts_with("syscall_")).count() as u64;
    missing += lost;
    assert!(missing > 0);
    assert_eq!(
        (events, missing),
        (number(&channel, "events"), number(&channel, "discarded_events")),
        "{channel:#}"
    );
    assert_eq!(events + missing, 2 * MANY);
}

#[test]
fn what_the_kernel_recorded_before_a_rotation_is_in_its_chunk() {
    // A few sub-buffers of many: the kernel does not say yet that there is anything to read.
    const PART: u64 = 60;
    const PARTS: u64 = 5;
    let Some(place) = kernel::shared_workplace() else {
        return;
    };
    let session = KernelSession::create(&place, &["--subbuf-size", "4K", "--num-subbuf", "1024"]);
    let (all, part) = ((PART * PARTS).to_string(), PART.to_string());
    let mut calls = place.start(place.program("numbered_calls.c"), &[&all, "0", &part]);
    assert_eq!(calls.line(), "ready");
    session
        .enable(&["--syscall", "close"])
        .track(&["--pid", &calls.pid().to_string()])
        .start();
    for part in 0..PARTS {
        assert_eq!(calls.ask("go on"), if part + 1 < PARTS { "part" } else { "done" });
        let chunk = place.piste_json(&["rotate"]);
        let mut numbers = Vec::new();
        Trace::at(chunk["trace"].as_str().expect("a path")).for_each(|event| {
            if event.name == "syscall_entry_close" {
                numbers.push(event.number("fd") - 1_000_000);
            }
        });
        let expected: Vec<u64> = (part * PART..(part + 1) * PART).collect();
        assert_eq!(numbers, expected, "chunk {}", part + 1);
    }
    session.end();
    calls.say("end");
    calls.finish().expect_success();
}

#[test]
fn a_chunk_is_whole_where_nothing_happened_at_last() {
    const SCRIPT: &str =
        "read go; taskset -pc 0 $$; /bin/true; taskset -pc 1 $$; echo moved; while :; do /bin/true; done";
    let Some(place) = kernel::workplace() else { return };
    let session = KernelSession::create(&place, &[]);
    let mut shell = place.start("sh", &["-c", SCRIPT]);
    session
        .enable(&["sched_switch"])
        .track(&["--pid", &shell.pid().to_string(), "--follow"])
        .start();
    shell.say("go");
    while shell.line() != "moved" {}
    // Much longer than CPUs may end apart.
    sleep(Duration::from_millis(100));
    let chunk = place.piste_json(&["rotate"]);
    let stats = place.piste_json(&["stats", chunk["trace"].as_str().expect("a path")]);
    assert_eq!(stats["findings"], Value::Array(vec![]), "{stats:#}");
    session.end();
    shell.signal(Signal::KILL);
    shell.finish();
}

#[test]
fn session_that_cannot_be_rotated_says_why_and_goes_on() {
    let place = Workplace::new();
    let output = place.path("trace");
    let refused = |sentence: &str| {
        let finished = place.piste(&["rotate"]);
        finished.expect_status(1);
        assert!(finished.stderr.contains(sentence), "{finished}");
    };
    place.piste_succeeds(&[
        "create",
        "flight",
        "--snapshot",
        "-o",
        place.path("flight").to_str().expect("UTF-8"),
    ]);
    refused("keeps its events in memory");
    place.piste_succeeds(&["create", "web", "-o", output.to_str().expect("UTF-8")]);
    refused("has not recorded anything yet");
    place.piste_succeeds(&["enable-event", "-u", "shop:order"]);
    place.piste_succeeds(&["start"]);
    let mut puppet = place.start(place.program("puppet.c"), &[]);
    assert_eq!(puppet.ask("record 100"), "done");
    fs::write(output.join("archives"), "a file where the folder should be").expect("it can be written");
    refused("cannot write to");
    assert_eq!(puppet.ask("record 100"), "done");
    fs::remove_file(output.join("archives")).expect("it is there");
    let chunk = place.piste_json(&["rotate"]);
    assert_eq!((number(&chunk, "number"), number(&chunk, "events")), (1, 200));
    assert_eq!(puppet.ask("record 100"), "done");
    place.piste_succeeds(&["stop"]);
    assert_eq!(number(&place.piste_json(&["rotate"]), "events"), 100);
    let status = place.piste_json(&["destroy"]);
    assert_eq!(number(&status["channels"][0], "events"), 300);
    assert_eq!(Trace::at(&output).event_count(), 300);
    puppet.finish().expect_success();
}

#[test]
fn whoever_follows_a_trace_sees_each_event_once_over_rotations() {
    let place = Workplace::new();
    let output = place.path("trace");
    let output = output.to_str().expect("UTF-8");
    place.piste_succeeds(&["create", "web", "-o", output]);
    place.piste_succeeds(&["enable-event", "-u", "shop:order"]);
    place.piste_succeeds(&["start"]);
    let mut puppet = place.start(place.program("puppet.c"), &[]);
    assert_eq!(puppet.ask("record 1"), "done");
    let mut follower = place.start(build_tree::binary("piste"), &["view", "--follow", output]);
    let mut lines = Vec::new();
    for _ in 0..4 {
        for _ in 0..5 {
            assert_eq!(puppet.ask("record 1"), "done");
        }
        lines.extend((0..5).map(|_| follower.line()));
        place.piste_succeeds(&["rotate"]);
    }
    puppet.finish().expect_success();
    place.piste_succeeds(&["destroy"]);
    let rest = follower.finish();
    rest.expect_success();
    lines.extend(rest.stdout.lines().map(str::to_owned));
    let is_next = |(number, line): (usize, &String)| line.contains(&format!("{{ number = {number},"));
    assert!(lines.iter().enumerate().all(is_next), "{lines:#?}");
    assert_eq!(lines.len(), 21, "{lines:#?}");
}

#[test]
fn whoever_follows_a_trace_goes_on_while_pisted_is_gone() {
    let place = Workplace::new();
    let output = place.path("trace");
    let output = output.to_str().expect("UTF-8");
    place.piste_succeeds(&["create", "web", "-o", output]);
    place.piste_succeeds(&["enable-event", "-u", "shop:order"]);
    place.piste_succeeds(&["start"]);
    let mut puppet = place.start(place.program("puppet.c"), &[]);
    assert_eq!(puppet.ask("record 1"), "done");
    let mut follower = place.start(build_tree::binary("piste"), &["view", "--follow", output]);
    assert!(follower.line().contains("shop:order"));
    place.kill_pisted();
    // A follower that takes this for the end is gone after a few looks.
    sleep(Duration::from_secs(1));
    place.start_pisted();
    assert_eq!(puppet.ask("record 2"), "done");
    assert!((0..2).all(|_| follower.line().contains("shop:order")));
    puppet.finish().expect_success();
    place.piste_succeeds(&["stop"]);
    let rest = follower.finish();
    rest.expect_success();
    assert_eq!(rest.stdout, "", "{rest}");
    assert_eq!(rest.stderr.matches("cannot reach pisted").count(), 1, "{rest}");
}

#[test]
fn whoever_is_interrupted_while_a_trace_is_followed_fails() {
    let place = Workplace::new();
    let output = place.path("trace");
    let output = output.to_str().expect("UTF-8");
    place.piste_succeeds(&["create", "web", "-o", output]);
    place.piste_succeeds(&["enable-event", "-u", "shop:order"]);
    place.piste_succeeds(&["start"]);
    let mut puppet = place.start(place.program("puppet.c"), &[]);
    assert_eq!(puppet.ask("record 1"), "done");
    let mut follower = place.start(build_tree::binary("piste"), &["view", "--follow", output]);
    assert!(follower.line().contains("shop:order"));
    send(follower.pid(), Signal::INT);
    let finished = follower.finish();
    assert_eq!(finished.status, 130, "{finished}");
    puppet.finish().expect_success();
}

#[test]
fn whoever_waits_is_told_what_for_and_may_leave() {
    let place = Workplace::new();
    let output = place.path("trace");
    place.piste_succeeds(&["create", "web", "-o", output.to_str().expect("UTF-8")]);
    place.piste_succeeds(&["enable-event", "-u", "shop:order"]);
    place.piste_succeeds(&["start"]);
    let mut puppet = place.start(place.program("puppet.c"), &[]);
    let mut told = |command: &str, what: &str| {
        assert_eq!(puppet.ask("record 100"), "done");
        let consumer = place.consumer();
        // As one whose disk is slow.
        stop(consumer);
        let mut waiting = place.start(build_tree::binary("piste"), &[command]);
        sleep(Duration::from_millis(1500));
        send(waiting.pid(), Signal::INT);
        let left = waiting.finish();
        send(consumer, Signal::CONT);
        assert_eq!(left.status, 130, "{left}");
        assert!(left.stderr.contains(&format!("waiting for {what}: 1 s")), "{left}");
        assert!(left.stderr.contains("pisted continues"), "{left}");
    };
    told("rotate", "the chunk to be written");
    wait_until("the chunk is in its place", || {
        number(&place.piste_json(&["status"]), "chunks") == 1
    });
    told("destroy", "the rest of the trace to be written");
    // It is not listed any more from the command on, and nobody waits for it now.
    wait_until("all is written", || {
        let written = place.piste_succeeds(&["view", output.to_str().expect("UTF-8")]);
        written.matches("shop:order").count() == 200
    });
    assert_eq!(Trace::at(&output).event_count(), 200);
    puppet.finish().expect_success();
}

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("{key}: {value:#}"))
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("the folder is there");
    entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect()
}
