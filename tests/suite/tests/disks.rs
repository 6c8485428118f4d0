// SPDX-License-Identifier: MIT OR Apache-2.0
//! Disks that hang: the session that writes to one waits, and nobody else does. Disks that are full: the trace says what is missing.

use std::fs::File;
use std::io::Write;

use piste_support::build_tree::binary;
use piste_support::counts::{said, sum, told};
use piste_support::disk::Disk;
use piste_support::process::{exists, send, wait_until};
use piste_support::report::text;
use piste_support::{Workplace, kernel};
use rustix::process::Signal;
use serde_json::Value;

const EVENTS: u64 = 200_000;

fn status(place: &Workplace, session: &str) -> Value {
    place.piste_json(&["status", session])
}

/// Rings of so many sub-buffers of 1 MiB: one is soon full, and 64 are for ten times what comes.
fn begin(place: &Workplace, session: &str, output: &str, subbuf_count: &str) {
    place.piste_succeeds(&["create", session, "-o", output]);
    let geometry = ["--subbuf-size", "1M", "--num-subbuf", subbuf_count];
    place.piste_succeeds(&[&["enable-channel", "-s", session, "-u", "default"], &geometry[..]].concat());
    place.piste_succeeds(&["enable-event", "-s", session, "-u", "count:*"]);
    place.piste_succeeds(&["start", session]);
}

#[test]
fn a_disk_that_hangs_holds_up_its_session_alone() {
    let place = Workplace::new();
    let Some(disk) = Disk::new(&place, 256 << 20, 0) else {
        return;
    };
    let program = place.program("count.c");
    begin(&place, "held", text(&disk.folder.join("trace")), "2");
    begin(&place, "free", text(&place.path("free")), "64");
    let count = |events: u64| _ = place.run(&program, &["1", &events.to_string()]).expect_success();
    count(EVENTS);

    let frozen = disk.freeze();
    count(EVENTS);
    wait_until("somebody is told that the disk hangs", || {
        status(&place, "held")["findings"]
            .to_string()
            .contains("for the disk of the trace")
    });
    // Nobody else is held up: not who asks, not other sessions, not a pisted that takes over.
    let listed = place.piste_json(&["list"]);
    assert_eq!(listed["sessions"].as_array().expect("sessions").len(), 2, "{listed:#}");
    begin(&place, "later", text(&place.path("later")), "64");
    count(EVENTS);
    place.kill_pisted();
    place.piste_succeeds(&["list"]);
    count(EVENTS);
    let ended = place.piste_json(&["destroy", "later"]);
    assert_eq!(
        (sum(&ended, "events"), sum(&ended, "discarded_events")),
        (2 * EVENTS, 0),
        "{ended:#}"
    );

    drop(frozen);
    wait_until("the session goes on, and nobody is told that it waits", || {
        !status(&place, "held")["findings"].to_string().contains("waiting for")
    });
    let ended = place.piste_json(&["destroy", "free"]);
    assert_eq!(
        (sum(&ended, "events"), sum(&ended, "discarded_events")),
        (4 * EVENTS, 0),
        "{ended:#}"
    );
    let ended = place.piste_json(&["destroy", "held"]);
    assert_eq!(
        sum(&ended, "events") + sum(&ended, "discarded_events"),
        4 * EVENTS,
        "{ended:#}"
    );
    assert!(sum(&ended, "events") >= EVENTS, "{ended:#}");
}

#[test]
fn a_consumer_that_is_killed_while_a_disk_hangs_is_replaced() {
    let place = Workplace::new();
    let Some(disk) = Disk::new(&place, 256 << 20, 0) else {
        return;
    };
    let program = place.program("count.c");
    begin(&place, "held", text(&disk.folder.join("trace")), "2");
    begin(&place, "free", text(&place.path("free")), "64");
    let count = |events: u64| _ = place.run(&program, &["1", &events.to_string()]).expect_success();
    count(EVENTS);
    let frozen = disk.freeze();
    let (mut expected, mut first) = (EVENTS, None);
    // The second time the one that waits for the first is killed too; the third time pisted as well.
    for kill in 0..3 {
        count(EVENTS);
        wait_until("a thread hangs", || {
            status(&place, "held")["findings"].to_string().contains("waiting for")
        });
        wait_until("the other session is written", || {
            sum(&status(&place, "free"), "events") == expected + EVENTS
        });
        let consumer = place.consumer();
        let first = *first.get_or_insert(consumer);
        send(consumer, Signal::KILL);
        if kill == 2 {
            place.kill_pisted();
            place.start_pisted();
        }
        wait_until("its main thread is dead", || is_dead(consumer));
        let next = place.consumer();
        let command = std::fs::read(format!("/proc/{next}/cmdline")).expect("it runs");
        let after = format!("--after\0{first}\0");
        let after = after.as_bytes();
        assert!(
            command.windows(after.len()).any(|part| part == after),
            "it waits for the thread that hangs"
        );
        count(EVENTS);
        expected += 2 * EVENTS;
        wait_until("the other session goes on", || {
            sum(&status(&place, "free"), "events") == expected
        });
        assert!(kill > 0 || exists(consumer), "a thread of it hangs");
    }
    drop(frozen);
    wait_until("the session goes on, and nobody is told that it waits", || {
        !status(&place, "held")["findings"].to_string().contains("waiting for")
    });
    let ended = place.piste_json(&["destroy", "free"]);
    assert_eq!(sum(&ended, "discarded_events"), 0, "{ended:#}");
    let trace = piste_support::Trace::at(place.path("free"));
    assert_eq!(trace.event_count(), expected);
    // What was taken over in the middle of a write is neither damaged nor there twice.
    let ended = place.piste_json(&["destroy", "held"]);
    let trace = piste_support::Trace::at(disk.folder.join("trace"));
    assert_eq!(sum(&ended, "events"), trace.event_count(), "{ended:#}");
    assert!(trace.event_count() > 0, "{ended:#}");
}

#[test]
fn a_pisted_that_ends_while_a_disk_hangs_is_replaced() {
    for signal in [Signal::KILL, Signal::TERM] {
        let place = Workplace::new();
        let Some(disk) = Disk::new(&place, 64 << 20, 0) else {
            return;
        };
        let program = place.program("count.c");
        begin(&place, "free", text(&place.path("free")), "64");
        let pisted = place.pisted();
        let frozen = disk.freeze();
        let output = disk.folder.join("trace");
        let mut creating = place.start(binary("piste"), &["create", "held", "-o", text(&output)]);
        wait_until("a thread hangs", || hangs(pisted));

        send(pisted, signal);
        wait_until("a new one answers", || {
            let listed = place.piste(&["--json", "list"]);
            listed.success() && place.pisted() != pisted
        });
        assert!(exists(pisted), "a thread of it hangs");
        // One that has to wait any longer for pisted goes on without being recorded.
        place.run(&program, &["1", "1000"]).expect_success();
        let ended = place.piste_json(&["destroy", "free"]);
        assert_eq!(sum(&ended, "events"), 1000, "{ended:#}");
        drop(frozen);
        creating.finish();
        wait_until("the old one is gone", || !exists(pisted));
    }
}

/// Whether the main thread of a process has ended.
fn is_dead(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))
}

/// Whether a thread of a process waits until its disk is no longer frozen. Threads sleep as deeply for a moment when they read a page of a file.
fn hangs(pid: i32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let mut stacks = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("stack")).ok());
    stacks.any(|stack| stack.contains("percpu_rwsem_wait") || stack.contains("percpu_down_read"))
}

#[test]
fn a_chunk_that_is_not_begun_before_its_session_ends_leaves_no_folder() {
    let place = Workplace::new();
    let Some(disk) = Disk::new(&place, 64 << 20, 0) else {
        return;
    };
    let output = disk.folder.join("trace");
    begin(&place, "held", text(&output), "2");
    place.run(place.program("count.c"), &["1", "1000"]).expect_success();
    let pisted = place.pisted();
    let frozen = disk.freeze();
    let mut rotating = place.start(binary("piste"), &["rotate", "held"]);
    wait_until("the folder is being made", || hangs(pisted));
    assert_eq!(place.piste(&["rotate", "held"]).status, 1, "one at a time");
    let mut destroying = place.start(binary("piste"), &["destroy", "held"]);
    wait_until("it is being destroyed", || {
        !place.piste(&["rotate", "held"]).stderr.contains("rotat")
    });
    drop(frozen);
    assert!(!rotating.finish().success());
    destroying.finish().expect_success();
    assert!(!output.join("archives").exists());
}

#[test]
fn what_a_recording_kernel_is_told_while_a_disk_hangs_is_done_after_that() {
    let Some(place) = kernel::shared_workplace() else {
        return;
    };
    let Some(disk) = Disk::new(&place, 256 << 20, 0) else {
        return;
    };
    let output = disk.folder.join("trace");
    place.piste_succeeds(&["create", "held", "-o", text(&output)]);
    // What comes while the disk hangs has space.
    let geometry = ["--subbuf-size", "512K", "--num-subbuf", "64"];
    place.piste_succeeds(&[&["enable-channel", "-s", "held", "-k", "default"], &geometry[..]].concat());
    place.piste_succeeds(&["enable-event", "-s", "held", "-k", "sched:sched_switch"]);
    place.piste_succeeds(&["start", "held"]);
    let freeze = || {
        let frozen = disk.freeze();
        wait_until("it is held up", || {
            status(&place, "held")["findings"].to_string().contains("waiting for")
        });
        frozen
    };
    let enable = |event: &str| place.start(binary("piste"), &["enable-event", "-s", "held", "-k", event]);
    let has_rule = |event: &str| status(&place, "held").to_string().contains(event);

    // Whoever asks waits a while for the disk.
    let frozen = freeze();
    let mut enabling = enable("sched:sched_process_exit");
    wait_until("pisted has the rule", || has_rule("sched_process_exit"));
    drop(frozen);
    enabling.finish().expect_success();

    // But not for ever.
    let frozen = freeze();
    let told = enable("sched:sched_process_fork").finish();
    assert_eq!(told.status, 1, "{told}");
    let then = "waiting for the disk of the trace for";
    assert!(
        told.stderr.contains(then) && told.stderr.contains("takes effect when the disk responds again"),
        "{told}"
    );
    assert!(has_rule("sched_process_fork"));
    drop(frozen);
    wait_until("it goes on", || {
        !status(&place, "held")["findings"].to_string().contains("waiting for")
    });
    place.run("sh", &["-c", "/bin/true; true"]).expect_success();
    place.piste_succeeds(&["destroy", "held"]);
    let (events, _) = piste_support::Trace::at(&output).events_and_loss();
    for name in ["sched_process_exit", "sched_process_fork"] {
        assert!(events.iter().any(|event| event.name == name), "{name}");
    }
}

fn fill(disk: &Disk) {
    let mut file = File::create(disk.folder.join("filled")).expect("a file");
    while file.write_all(&[0; 4096]).is_ok() {}
}

#[test]
fn a_trace_on_a_full_disk_says_of_every_stream_what_is_missing() {
    let place = Workplace::new();
    let Some(disk) = Disk::new(&place, 16 << 20, 0) else {
        return;
    };
    let program = place.program("count.c");
    let output = disk.folder.join("trace");
    begin(&place, "full", text(&output), "2");
    place.run(&program, &["1", "1000"]).expect_success();
    wait_until("the first program's events are written", || {
        sum(&status(&place, "full"), "events") == 1000
    });
    // From here on there is space for nothing, so the streams of the next program stay empty.
    fill(&disk);
    place.run(&program, &["1", &EVENTS.to_string()]).expect_success();
    let ended = place.piste_json(&["destroy", "full"]);
    let said = said(&ended);
    // The events of packets that could not be written are counted, so no packet is lost besides.
    assert_eq!((said.0 + said.1, said.2), (1000 + EVENTS, 0), "{ended:#}");
    assert!(said.1 >= EVENTS / 2, "{ended:#}");
    assert_eq!(told(&place, &output), said, "{ended:#}");
    assert!(!output.join(".user.aside").exists());
    let stats = place.piste_json(&["stats", text(&output)]);
    let findings = stats["findings"].as_array().expect("a list");
    let says_why = |finding: &Value| {
        finding["kind"] == "write_error" && finding["what"].to_string().contains("no space left on device")
    };
    assert!(findings.iter().any(says_why), "{stats:#}");
}

#[test]
fn a_kernel_trace_on_a_full_disk_says_of_every_cpu_what_is_missing() {
    let Some(place) = kernel::workplace() else { return };
    let Some(disk) = Disk::new(&place, 16 << 20, 0) else {
        return;
    };
    let output = disk.folder.join("trace");
    place.piste_succeeds(&["create", "full", "-o", text(&output)]);
    place.piste_succeeds(&["enable-event", "-s", "full", "-k", "sched:*", "--syscall", "*"]);
    place.piste_succeeds(&["start", "full"]);
    fill(&disk);
    for cpu in ["0", "1"] {
        let copy = ["-c", cpu, "dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=100000"];
        place.run("taskset", &copy).expect_success();
    }
    let ended = place.piste_json(&["destroy", "full"]);
    let said = said(&ended);
    assert!(said.1 > 0, "{ended:#}");
    assert_eq!(told(&place, &output), said, "{ended:#}");
    assert!(!output.join(".kernel.aside").exists());

    // First of all, why events are missing, how many, and whose.
    let insights = place.piste_json(&["insights", text(&output)]);
    let first = &insights["insights"][0];
    assert_eq!((&first["kind"], &first["level"]), (&"losses".into(), &"serious".into()));
    assert_eq!(first["missing_events"], said.1, "{insights:#}");
    let what = first["what"].as_str().expect("a sentence");
    assert!(
        what.starts_with("the disk was full while the trace was recorded (no space left on device)"),
        "{what}"
    );
    let by = first["missing_by"].as_str().expect("CPUs");
    assert!(by.contains("CPU 0") && by.contains("CPU 1"), "{by}");
    let shown = place.piste_succeeds(&["insights", text(&output)]);
    assert!(shown.lines().nth(2).is_some_and(|line| line.contains(what)), "{shown}");
}

#[test]
fn a_disk_that_was_full_for_a_while_is_named_as_the_reason_of_what_is_missing() {
    let Some(place) = kernel::workplace() else { return };
    let Some(disk) = Disk::new(&place, 16 << 20, 0) else {
        return;
    };
    let output = disk.folder.join("trace");
    let load = || {
        let copy = ["if=/dev/zero", "of=/dev/null", "bs=1", "count=200000"];
        place.run("dd", &copy).expect_success();
    };
    place.piste_succeeds(&["create", "full", "-o", text(&output)]);
    place.piste_succeeds(&[
        "enable-channel",
        "-k",
        "small",
        "--subbuf-size",
        "64K",
        "--num-subbuf",
        "4",
    ]);
    place.piste_succeeds(&[
        "enable-event",
        "-s",
        "full",
        "-k",
        "sched:*",
        "--syscall",
        "*",
        "-c",
        "small",
    ]);
    place.piste_succeeds(&["start", "full"]);
    fill(&disk);
    load();
    wait_until("the disk is found to be full", || {
        status(&place, "full").to_string().contains("no space left on device")
    });
    load();
    std::fs::remove_file(disk.folder.join("filled")).expect("it is there");
    load();
    let ended = place.piste_json(&["destroy", "full"]);
    let said = said(&ended);
    assert!(said.1 > 0, "{ended:#}");
    assert_eq!(told(&place, &output), said, "{ended:#}");
    let insights = place.piste_json(&["insights", text(&output)]);
    let first = &insights["insights"][0];
    assert_eq!(first["missing_events"], said.1, "{insights:#}");
    assert!(
        first["what"]
            .to_string()
            .contains("the disk was full while the trace was recorded"),
        "{insights:#}"
    );
}

#[test]
fn a_trace_that_lacks_nothing_does_not_speak_of_a_full_disk() {
    let place = Workplace::new();
    let Some(disk) = Disk::new(&place, 16 << 20, 0) else {
        return;
    };
    let output = disk.folder.join("trace");
    begin(&place, "full", text(&output), "64");
    fill(&disk);
    place.run(place.program("count.c"), &["1", "1000"]).expect_success();
    wait_until("the disk is found to be full", || {
        status(&place, "full").to_string().contains("no space left on device")
    });
    std::fs::remove_file(disk.folder.join("filled")).expect("it is there");
    let ended = place.piste_json(&["destroy", "full"]);
    assert_eq!(said(&ended), (1000, 0, 0), "{ended:#}");
    let stats = place.piste_json(&["stats", text(&output)]);
    assert_eq!(
        (&stats["events"], &stats["findings"]),
        (&1000.into(), &Value::Array(vec![])),
        "{stats:#}"
    );
}
