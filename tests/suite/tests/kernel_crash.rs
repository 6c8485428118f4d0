// SPDX-License-Identifier: MIT OR Apache-2.0
//! SIGKILL of the kernel consumer, of pisted, of both, while the kernel is recorded: the rings go on, whoever comes next goes on, and
//! every event is in the trace once or is counted as lost.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use piste_support::kernel::{self, KernelSession};
use piste_support::process::{exists, send, wait_until};
use piste_support::{Running, Workplace};
use rustix::process::Signal;
use serde_json::Value;

const CALLS: u64 = 200_000;
/// After each hundred calls: about fifteen seconds in all.
const REST_US: &str = "6000";
/// Rings that take all of them, however long nobody reads: an entry and an exit have a hundred bytes.
const ROOMY: [&str; 2] = ["--num-subbuf", "512"];

#[derive(Clone, Copy)]
enum Victim {
    KernelConsumer,
    Pisted,
    Both,
}

#[test]
fn killed_kernel_consumers_lose_nothing_and_write_nothing_twice() {
    check_kills(Victim::KernelConsumer, 20);
}

#[test]
fn killed_pisteds_lose_nothing_and_write_nothing_twice() {
    check_kills(Victim::Pisted, 10);
}

#[test]
fn killed_together_they_lose_nothing_and_write_nothing_twice() {
    check_kills(Victim::Both, 10);
}

/// A trace leaves pisted's threads out, by their numbers. Later threads get the numbers of those that have ended.
#[test]
fn numbers_of_ended_threads_are_hidden_no_more() {
    let Some(place) = kernel::shared_workplace() else {
        return;
    };
    let session = KernelSession::create(&place, &[]);
    session.enable(&["sched_process_exec"]).start();
    let mut lists = kernel::instances_of(&place).into_iter().map(|name| {
        Path::new("/sys/kernel/tracing/instances")
            .join(name)
            .join("set_event_notrace_pid")
    });
    let list = lists.find(|list| fs::metadata(list).is_ok() && !read_ids(list).is_empty());
    let list = list.expect("the channel's instance hides threads");
    let before = place.kernel_consumer();
    assert!(read_ids(&list).contains(&before));
    send(before, Signal::KILL);
    wait_until("another consumer is hidden", || {
        let after = place.kernel_consumer();
        after != before && read_ids(&list).contains(&after)
    });
    // Also one that has ended and that pisted was not told of: nobody else gets its number.
    let is_there = |id: i32| Path::new("/proc").join(id.to_string()).exists();
    wait_until("all that are hidden are there", || {
        read_ids(&list).into_iter().all(is_there)
    });
    session.end();
}

/// The numbers in a list of threads.
fn read_ids(list: &Path) -> Vec<i32> {
    let text = fs::read_to_string(list).expect("it can be read");
    text.lines()
        .map(|line| line.trim().parse().expect("a number"))
        .collect()
}

/// Kills at instants spread over the run, and looks for each call in the trace.
fn check_kills(victim: Victim, kills: u64) {
    let Some(place) = kernel::shared_workplace() else {
        return;
    };
    let (session, mut running) = begin(&place, &ROOMY, CALLS, REST_US);
    running.say("begin");
    for kill in 0..kills {
        // Whoever is killed has lived for a while: a consumer that only ever dies is started again more slowly. Odd steps, so that the
        // kills do not fall into step with anything.
        place.kernel_consumer();
        sleep(Duration::from_micros(100_000 + 67_123 * (kill % 7)));
        kill_and_go_on(&place, victim);
    }
    assert_eq!(running.line(), "done");
    let (channel, trace) = session.end();
    finish(&mut running);

    assert_eq!(count(&channel, "discarded_events"), 0, "{channel:#}");
    assert_eq!(count(&channel, "events"), 2 * CALLS, "{channel:#}");
    let mut next = 0;
    trace.for_each(|event| {
        if event.name == "syscall_entry_close" {
            assert_eq!(number_of(&event), next, "missing or twice: {event:?}");
            next += 1;
        }
    });
    assert_eq!(next, CALLS);
}

/// Kills pisted and the kernel consumer, and returns the id of their owner.
fn kill_all(place: &Workplace) -> String {
    let consumer = place.kernel_consumer();
    place.kill_pisted();
    send(consumer, Signal::KILL);
    wait_until("the kernel consumer is dead", || !exists(consumer));
    kernel::owner(place)
}

#[test]
fn another_pisted_leaves_rings_to_one_that_is_started_again() {
    let Some(place) = kernel::workplace() else { return };
    let (session, mut running) = begin(&place, &ROOMY, 1000, "0");
    let owner = kill_all(&place);
    assert_eq!(running.ask("begin"), "done");
    let other = Workplace::new();
    other.start_pisted();
    wait_until("it has found the dead one", || {
        fs::metadata(Path::new("/run/piste-owners").join(&owner)).is_ok_and(|found| found.len() > 0)
    });
    place.start_pisted();
    let (channel, trace) = session.end();
    finish(&mut running);
    assert_eq!(count(&channel, "discarded_events"), 0, "{channel:#}");
    assert_eq!(count(&channel, "events"), 2000, "{channel:#}");
    assert_eq!(trace.events_and_loss().1, 0);
}

#[test]
fn rings_that_are_removed_while_no_pisted_runs_are_a_loss_that_is_told() {
    let Some(place) = kernel::workplace() else { return };
    let (session, mut running) = begin(&place, &ROOMY, 1000, "0");
    kill_all(&place);
    for instance in kernel::instances_of(&place) {
        let folder = Path::new("/sys/kernel/tracing/instances").join(instance);
        wait_until("it is removed", || fs::remove_dir(&folder).is_ok());
    }
    place.start_pisted();
    wait_until("it is told", || {
        let status = place.piste_json(&["status"]);
        status.to_string().contains("the kernel's rings were removed")
    });
    // It is counted once, whoever is killed then.
    kill_and_go_on(&place, Victim::KernelConsumer);
    assert_eq!(running.ask("begin"), "done");
    let (channel, trace) = session.end();
    finish(&mut running);
    let lost = count(&channel, "discarded_events");
    assert!(lost > 0, "{channel:#}");
    assert_eq!(trace.events_and_loss().1, lost);
}

/// A consumer that is killed while it notes what it records must not leave half a note: rings that are there would count as removed.
#[test]
fn a_consumer_that_goes_on_does_not_note_again_what_it_records() {
    let Some(place) = kernel::workplace() else { return };
    let (session, mut running) = begin(&place, &ROOMY, 1000, "0");
    let note = || {
        let found = fs::metadata(place.run_folder().join("kernel/1/kernel.recording")).expect("the note");
        (found.ino(), found.modified().expect("a time"))
    };
    let before = note();
    kill_and_go_on(&place, Victim::KernelConsumer);
    // The next one answers once it has gone on.
    place.kernel_consumer();
    place.piste_json(&["status"]);
    assert_eq!(note(), before);
    assert_eq!(running.ask("begin"), "done");
    let (channel, _) = session.end();
    finish(&mut running);
    assert_eq!(count(&channel, "discarded_events"), 0, "{channel:#}");
}

#[test]
fn what_is_overwritten_while_no_consumer_runs_is_counted() {
    const MANY: u64 = 1_000_000;
    for mode in ["--overwrite", "--discard"] {
        let Some(place) = kernel::workplace() else { return };
        let options = [mode, "--subbuf-size", "4K", "--num-subbuf", "4"];
        let (session, mut running) = begin(&place, &options, MANY, "0");
        running.say("begin");
        for _ in 0..5 {
            place.kernel_consumer();
            sleep(Duration::from_millis(60));
            kill_and_go_on(&place, Victim::KernelConsumer);
        }
        assert_eq!(running.line(), "done");
        let (channel, trace) = session.end();
        finish(&mut running);
        place.let_others_record();

        let (events, discarded) = (count(&channel, "events"), count(&channel, "discarded_events"));
        assert!(discarded > 0, "{mode}: {channel:#}");
        assert_eq!(events + discarded, 2 * MANY, "{mode}: {channel:#}");
        let (read, missing) = trace.events_and_loss();
        let calls: Vec<_> = read.iter().filter(|event| event.name.starts_with("syscall_")).collect();
        assert_eq!((calls.len() as u64, missing), (events, discarded), "{mode}");
        let entered: Vec<u64> = calls
            .iter()
            .filter(|event| event.name == "syscall_entry_close")
            .map(|event| number_of(event))
            .collect();
        assert!(entered.is_sorted(), "{mode}: calls out of order");
        assert_eq!(
            entered.len(),
            entered.iter().collect::<BTreeSet<_>>().len(),
            "{mode}: twice"
        );
    }
}

#[test]
fn a_new_kernel_consumer_records_the_same_threads() {
    let Some(place) = kernel::workplace() else { return };
    let program = place.program("numbered_calls.c");
    let script = format!("read line; {} 100; {} 100", program.display(), program.display());
    let mut recorder =
        place.start_recording_with_kernel(&["--no-user", "--syscall", "close"], "/bin/sh", &["-c", &script]);
    recorder.running.say("go");
    assert_eq!(recorder.running.line(), "ready");
    let before = place.kernel_consumer();
    send(before, Signal::KILL);
    wait_until("the kernel consumer is dead", || !exists(before));
    assert_ne!(place.kernel_consumer(), before);
    // One child of the shell lives already, the other comes.
    for line in ["begin", "end", "begin", "end"] {
        recorder.running.say(line);
    }
    let recording = recorder.finish();
    recording.finished.expect_success();
    let mut numbered = 0;
    recording.trace().for_each(|event| {
        let is_ours = event.name == "syscall_entry_close" && event.field("fd").is_some_and(|fd| fd.len() == 7);
        numbered += u64::from(is_ours);
    });
    assert_eq!(numbered, 200);
}

#[test]
fn nothing_stays_in_tracefs_when_everything_was_killed() {
    let Some(place) = kernel::shared_workplace() else {
        return;
    };
    let (_, mut running) = begin(&place, &[], 100, "0");
    // Before anything is killed: any pisted that starts then removes them.
    assert_eq!(kernel::instances_of(&place).len(), 2); // The channel, and the programs.
    let consumer = place.kernel_consumer();
    let pisted = place.pisted();
    for pid in [pisted, consumer] {
        send(pid, Signal::KILL);
        wait_until("it is dead", || !exists(pid));
    }
    // The next pisted of anybody finds that their owner is gone.
    let other = Workplace::new();
    other.start_pisted();
    wait_until("what a dead pisted left is removed", || {
        kernel::instances_of(&place).is_empty()
    });
    assert_eq!(kernel::instances_of(&other), [""; 0]);
    assert_eq!(running.ask("begin"), "done");
    finish(&mut running);
}

/// A session that records the calls of a program which waits to begin.
fn begin<'a>(place: &'a Workplace, options: &[&str], calls: u64, rest_us: &str) -> (KernelSession<'a>, Running) {
    let program = place.program("numbered_calls.c");
    let session = KernelSession::create(place, options);
    let mut running = place.start(program, &[&calls.to_string(), rest_us]);
    assert_eq!(running.line(), "ready");
    session
        .enable(&["--syscall", "close"])
        .track(&["--pid", &running.pid().to_string()])
        .start();
    (session, running)
}

fn finish(running: &mut Running) {
    running.say("end");
    running.finish().expect_success();
}

fn kill_and_go_on(place: &Workplace, victim: Victim) {
    if matches!(victim, Victim::KernelConsumer | Victim::Both) {
        let consumer = place.kernel_consumer();
        send(consumer, Signal::KILL);
        wait_until("the kernel consumer is dead", || !exists(consumer));
    }
    if matches!(victim, Victim::Pisted | Victim::Both) {
        place.kill_pisted();
        place.start_pisted();
    }
}

fn count(channel: &Value, key: &str) -> u64 {
    channel[key].as_u64().unwrap_or_else(|| panic!("{key}: {channel:#}"))
}

/// Of a call of numbered_calls.c.
fn number_of(event: &piste_support::Event) -> u64 {
    const FIRST: u64 = 1_000_000;
    event.number("fd") - FIRST
}

#[test]
fn a_recording_of_the_kernel_ends_when_its_piste_is_killed() {
    let Some(place) = kernel::workplace() else { return };
    let mut recorder =
        place.start_recording_with_kernel(&["--syscall", "close"], place.program("numbered_calls.c"), &["1000"]);
    let piste = &mut recorder.running;
    assert_eq!(piste.line(), "ready");
    assert_eq!(piste.ask("begin"), "done");
    let folders = place.folders_of_recordings();
    send(piste.pid(), Signal::KILL);
    // The instance goes when its rings are written.
    wait_until("nothing is left in the kernel", || {
        kernel::instances_of(&place).is_empty()
    });
    assert_eq!(
        place.piste_json(&["list", "--sessions"])["sessions"],
        serde_json::json!([])
    );
    let [folder] = &folders[..] else { panic!("{folders:?}") };
    let mut next = 0;
    piste_support::Trace::at(folder).for_each(|event| {
        if event.name == "syscall_entry_close" && event.number("fd") == 1_000_000 + next {
            next += 1;
        }
    });
    assert_eq!(next, 1000, "calls that had returned");
    piste.say("end");
}
