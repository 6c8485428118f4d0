// SPDX-License-Identifier: MIT OR Apache-2.0
//! SIGKILL at any instant, of the program, the consumer, pisted: what a returned call has recorded is in the trace, once.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use piste_support::process::{exists, send, wait_until};
use piste_support::{Running, Workplace};
use rustix::process::Signal;

/// A session that loses nothing; small rings, so that many instants lie between sub-buffers.
fn start_session(place: &Workplace, pattern: &str, path: EventPath) {
    let output = place.path("trace");
    place.piste_succeeds(&["create", "crash", "-o", output.to_str().expect("UTF-8")]);
    let channel = "enable-channel -u small --block forever --subbuf-size 16K --num-subbuf 4";
    let contexts: &[&str] = match path {
        EventPath::Fast => &["--no-default-contexts"],
        EventPath::General => &[],
    };
    place.piste_succeeds(&[&channel.split(' ').collect::<Vec<_>>()[..], contexts].concat());
    place.piste_succeeds(&["enable-event", "-u", pattern, "-c", "small"]);
    place.piste_succeeds(&["start"]);
}

/// Ends the session; nothing was lost in it. Returns its trace, and how many events pisted says it has.
fn end_session(place: &Workplace) -> (piste_support::Trace, u64) {
    let status = place.piste_json(&["destroy"]);
    let channel = &status["channels"][0];
    assert_eq!(channel["discarded_events"], 0, "{status:#}");
    assert_eq!(channel["lost_packets"], 0, "{status:#}");
    let events = channel["events"].as_u64().expect("a number");
    (piste_support::Trace::at(place.path("trace")), events)
}

/// Which way the events of fixed size take through the program's code.
#[derive(Clone, Copy)]
enum EventPath {
    Fast,
    General,
}

/// Ends the session of progress.c. Its events by process and thread: each one's numbers are 0, 1, 2, ... The counts are the result.
fn end_and_count_progress(place: &Workplace) -> BTreeMap<(i32, u64), u64> {
    let (trace, events) = end_session(place);
    let mut next = BTreeMap::new();
    trace.for_each(|event| {
        let expected: &mut u64 = next.entry((event.vpid(), event.number("thread"))).or_default();
        assert_eq!(event.number("number"), *expected, "missing or twice: {event:?}");
        *expected += 1;
    });
    assert_eq!(next.values().sum::<u64>(), events);
    next
}

/// How many calls of each thread had returned, as progress.c says in its file.
fn returned_calls(file: &Path) -> Vec<u64> {
    let bytes = fs::read(file).unwrap_or_default();
    bytes
        .chunks_exact(8)
        .map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes")))
        .collect()
}

fn wait_for_progress(file: &Path) {
    wait_until("the program records", || returned_calls(file).iter().sum::<u64>() > 0);
}

/// Numbers that differ from run to run would make a failure hard to see again; these do not.
struct Instants(u64);

impl Instants {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

#[test]
fn two_hundred_killed_programs_leave_every_event_whose_call_had_returned() {
    kill_programs(EventPath::General);
}

#[test]
fn two_hundred_programs_killed_on_the_fast_path_leave_every_event_whose_call_had_returned() {
    kill_programs(EventPath::Fast);
}

fn kill_programs(path: EventPath) {
    const KILLS: u64 = 200;
    let place = Workplace::new();
    let program = place.program("progress.c");
    start_session(&place, "progress:*", path);
    let mut instants = Instants(1);
    let mut expected = vec![];
    for kill in 0..KILLS {
        let file = place.path(&format!("calls-{kill}"));
        // Every fourth records as fast as it can.
        let (idle, longest_us) = if kill % 4 == 0 { ("0", 300) } else { ("3000", 4000) };
        let mut running = place.start(&program, &[file.to_str().expect("UTF-8"), "2", "0", idle, "fixed"]);
        wait_for_progress(&file);
        sleep(Duration::from_micros(instants.below(longest_us)));
        running.signal(Signal::KILL);
        running.finish().expect_status(128 + 9);
        expected.push((running.pid(), returned_calls(&file)));
    }
    let counts = end_and_count_progress(&place);
    for (pid, returned) in expected {
        for (thread, returned) in returned.into_iter().enumerate().take(2) {
            let recorded = counts.get(&(pid, thread as u64)).copied().unwrap_or_default();
            assert!(
                recorded >= returned,
                "pid {pid}, thread {thread}: {recorded} recorded, {returned} returned"
            );
            // At most the one whose call had not returned.
            assert!(
                recorded <= returned + 1,
                "pid {pid}, thread {thread}: {recorded} recorded, {returned} returned"
            );
        }
    }
}

#[test]
fn fifty_killed_consumers_lose_nothing_and_write_nothing_twice() {
    const KILLS: u64 = 50;
    let place = Workplace::new();
    let program = place.program("progress.c");
    start_session(&place, "progress:*", EventPath::Fast);
    let file = place.path("calls");
    let arguments = [file.to_str().expect("UTF-8"), "2", "0", "10000", "fixed"];
    let mut running = place.start(program, &arguments);
    wait_for_progress(&file);
    let mut instants = Instants(2);
    for _ in 0..KILLS {
        let consumer = place.consumer();
        sleep(Duration::from_micros(instants.below(30_000)));
        send(consumer, Signal::KILL);
        wait_until("the consumer is dead", || !exists(consumer));
    }
    let before = returned_calls(&file).iter().sum::<u64>();
    place.consumer();
    wait_until("recording goes on", || {
        returned_calls(&file).iter().sum::<u64>() > before
    });
    running.signal(Signal::KILL);
    running.finish();
    let counts = end_and_count_progress(&place);
    check_returned(&counts, &running, &returned_calls(&file));
}

#[test]
fn recording_goes_on_while_pisted_is_dead_and_the_next_one_takes_over() {
    let place = Workplace::new();
    let program = place.program("puppet.c");
    start_session(&place, "shop:*", EventPath::General);
    let mut puppet = place.start(&program, &[]);
    let mut recorded = 0;
    for kill in 0..5 {
        let (pisted, consumer) = (place.pisted(), place.consumer());
        assert_eq!(puppet.ask("record 300"), "done");
        place.kill_pisted();
        assert_eq!(puppet.ask("record 300"), "done");
        assert!(exists(consumer), "the consumer outlives pisted");
        place.start_pisted();
        assert_ne!(place.pisted(), pisted);
        assert_eq!(puppet.ask("record 300"), "done");
        recorded += 2 * 900;
        // A program that starts under the new one is recorded too.
        let mut another = place.start(&program, &[]);
        assert_eq!(another.ask("record 50"), "done", "after kill {kill}");
        another.finish().expect_success();
        recorded += 2 * 50;
    }
    puppet.finish().expect_success();
    let (trace, events) = end_session(&place);
    assert_eq!((trace.event_count(), events), (recorded, recorded));
}

#[test]
fn a_recording_survives_the_kill_of_pisted() {
    let place = Workplace::new();
    let program = place.program("puppet.c");
    let mut recorder = place.start_recording(&["-u", "shop:order"], program, &[]);
    assert_eq!(recorder.running.ask("record 100"), "done");
    place.kill_pisted();
    assert_eq!(recorder.running.ask("record 100"), "done");
    let recording = recorder.finish();
    recording.expect_whole();
    assert_eq!(recording.events(), 200);
    assert_eq!(recording.trace().event_count(), 200);
}

#[test]
fn pisted_is_killed_while_events_flow() {
    let place = Workplace::new();
    let program = place.program("progress.c");
    start_session(&place, "progress:*", EventPath::General);
    let file = place.path("calls");
    let mut running = place.start(program, &[file.to_str().expect("UTF-8"), "2", "0", "20000"]);
    wait_for_progress(&file);
    let mut instants = Instants(3);
    for _ in 0..10 {
        sleep(Duration::from_micros(instants.below(20_000)));
        place.kill_pisted();
        sleep(Duration::from_micros(instants.below(20_000)));
        place.start_pisted();
    }
    running.signal(Signal::KILL);
    running.finish();
    let counts = end_and_count_progress(&place);
    check_returned(&counts, &running, &returned_calls(&file));
}

fn check_returned(counts: &BTreeMap<(i32, u64), u64>, running: &Running, returned: &[u64]) {
    for (thread, &returned) in returned.iter().enumerate().take(2) {
        let recorded = counts.get(&(running.pid(), thread as u64)).copied().unwrap_or_default();
        assert!(
            (returned..=returned + 1).contains(&recorded),
            "thread {thread}: {recorded} recorded, {returned} returned"
        );
    }
}

#[test]
fn a_recording_ends_when_its_piste_is_killed_and_its_program_goes_on() {
    for pisted_too in [false, true] {
        let place = Workplace::new();
        let mut recorder = place.start_recording(&[], place.program("puppet.c"), &[]);
        let piste = &mut recorder.running;
        assert_eq!(piste.ask("record 1000"), "done");
        // One that nobody binds to a process stays.
        let mine = place.path("mine");
        place.piste_succeeds(&["create", "mine", "-o", mine.to_str().expect("UTF-8")]);
        let folders = place.folders_of_recordings();
        kill(piste.pid());
        if pisted_too {
            place.kill_pisted();
            place.start_pisted();
        }
        wait_until("the recording is closed", || is_closed(&place));
        assert_eq!(sessions(&place), ["mine"]);
        let [folder] = &folders[..] else { panic!("{folders:?}") };
        let counts = piste_support::Trace::at(folder).counts();
        for name in ["shop:order", "shop:debug_note", "bank:failure"] {
            assert_eq!(counts.get(name), Some(&1000), "{counts:?}");
        }
        wait_until("disabled", || piste.ask("enabled").is_empty());
        assert_eq!(piste.ask("record 1"), "done");
        place.piste_succeeds(&["destroy", "mine"]);
    }
}

#[test]
fn a_flight_recorder_is_written_when_its_piste_is_killed() {
    let place = Workplace::new();
    let mut recorder = place.start_recording(&["--snapshot-on", "exit"], place.program("puppet.c"), &[]);
    let piste = &mut recorder.running;
    assert_eq!(piste.ask("record 1000"), "done");
    let folders = place.folders_of_recordings();
    kill(piste.pid());
    wait_until("the recording is closed", || is_closed(&place));
    assert_eq!(sessions(&place), [""; 0]);
    let [folder] = &folders[..] else { panic!("{folders:?}") };
    let snapshots: Vec<_> = fs::read_dir(folder).expect("it is there").collect();
    assert_eq!(snapshots.len(), 1, "{snapshots:?}");
    assert!(piste_support::Trace::at(folder).counts().contains_key("shop:order"));
    assert_eq!(piste.ask("record 1"), "done");
}

/// Kills a `piste record`, whose program has its standard input and output.
fn kill(piste: i32) {
    send(piste, Signal::KILL);
    wait_until("it is dead", || !exists(piste));
}

/// Lists have no session that is being written. The journal knows it until it is; it begins again when no other is left.
fn is_closed(place: &Workplace) -> bool {
    let journal = fs::read_to_string(place.run_folder().join("journal")).unwrap_or_default();
    journal.contains("session_ended") || !journal.contains("record-")
}

fn sessions(place: &Workplace) -> Vec<String> {
    let listed = place.piste_json(&["list", "--sessions"]);
    let sessions = listed["sessions"].as_array().expect("sessions");
    let name = |session: &serde_json::Value| session["name"].as_str().expect("a name").to_owned();
    sessions.iter().map(name).collect()
}
