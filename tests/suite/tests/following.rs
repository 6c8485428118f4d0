// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whoever follows a running session sees events in the order of time, whatever holds up a program, a consumer or pisted, and is told when that
//! cannot be.

use std::fs;
use std::path::PathBuf;

use piste_support::kernel::{self, KernelSession};
use piste_support::process::{self, Finished, wait_until};
use piste_support::{Running, Workplace, build_tree};
use rustix::process::Signal;
use serde_json::Value;

/// `piste view --follow`, and what it showed.
struct Follower {
    running: Running,
    shown: PathBuf,
}

impl Follower {
    fn start(place: &Workplace, session: &str) -> Follower {
        let shown = place.path("shown");
        let piste = build_tree::binary("piste");
        let line = format!(
            "exec {} view --follow {session} --json > {}",
            piste.display(),
            shown.display()
        );
        let running = place.start("sh", &["-c", &line]);
        wait_until("it has begun", || shown.exists());
        Follower { running, shown }
    }

    /// The events that were shown so far.
    fn events(&self) -> Vec<Value> {
        let text = fs::read_to_string(&self.shown).expect("what was shown");
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole
            .lines()
            .map(|line| serde_json::from_str(line).expect("an event"))
            .collect()
    }

    fn wait_for(&self, count: usize) {
        wait_until("the events are shown", || self.events().len() >= count);
    }

    /// What was shown in all, which is all that the trace has, in its order; and what was said.
    fn end(mut self, place: &Workplace, trace: &str) -> Finished {
        let finished = self.running.finish();
        finished.expect_success();
        let shown = fs::read_to_string(&self.shown).expect("what was shown");
        let whole = place.piste_succeeds(&["view", "--json", trace]);
        let different = shown
            .lines()
            .zip(whole.lines())
            .position(|(shown, whole)| shown != whole);
        assert_eq!(
            different,
            None,
            "of {} and {} lines",
            shown.lines().count(),
            whole.lines().count()
        );
        assert_eq!(shown.lines().count(), whole.lines().count());
        finished
    }
}

/// A session `web` with two programs that record what they are told.
fn two_programs(place: &Workplace) -> (String, [Running; 2]) {
    let trace = place.path("trace");
    let trace = trace.to_str().expect("UTF-8").to_owned();
    place.piste_succeeds(&["create", "web", "-o", &trace]);
    place.piste_succeeds(&["enable-event", "-u", "held_up:tick"]);
    place.piste_succeeds(&["start"]);
    let program = place.program("held_up.c");
    // Each CPU has a ring of its own, and what is said of a program is said of one ring.
    let pinned = ["-c", &process::allowed_cpu(), program.to_str().expect("UTF-8")];
    let mut programs = [(), ()].map(|()| place.start("taskset", &pinned));
    for program in &mut programs {
        assert_eq!(program.ask("record 1"), "done");
    }
    (trace, programs)
}

#[test]
fn events_of_a_program_that_is_held_up_in_one_are_not_shown_after_later_ones() {
    let place = Workplace::new();
    let (trace, [mut slow, mut quick]) = two_programs(&place);
    let follower = Follower::start(&place, "web");
    follower.wait_for(2);
    // A follower that has seen nothing of a program for a second might forget it.
    std::thread::sleep(std::time::Duration::from_millis(1200));
    // Behind a record that never comes, until the consumer gives it up.
    assert_eq!(slow.ask("hole"), "done");
    assert_eq!(slow.ask("record 1"), "done");
    assert_eq!(quick.ask("record 1"), "done");
    follower.wait_for(4);
    place.piste_succeeds(&["stop"]);
    let said = follower.end(&place, &trace);
    assert_eq!(said.stderr.matches("order").count(), 0, "{said}");
    for mut program in [slow, quick] {
        program.finish().expect_success();
    }
}

#[test]
fn a_program_that_is_stopped_in_an_event_holds_up_nobody_else() {
    let place = Workplace::new();
    let (_, [mut stopped, mut other]) = two_programs(&place);
    let mut follower = Follower::start(&place, "web");
    follower.wait_for(2);
    assert_eq!(stopped.ask("begin"), "done");
    assert_eq!(stopped.ask("record 1"), "done");
    process::stop(stopped.pid());
    assert_eq!(other.ask("record 1"), "done");
    follower.wait_for(3);
    assert_eq!(follower.events().len(), 3);
    process::send(stopped.pid(), Signal::CONT);
    assert_eq!(stopped.ask("end"), "done");
    follower.wait_for(5);
    assert_eq!(other.ask("record 1"), "done");
    follower.wait_for(6);
    place.piste_succeeds(&["destroy"]);
    let said = follower.running.finish();
    said.expect_success();
    let name = format!(
        "stopped in the middle of recording an event: held_up ({})",
        stopped.pid()
    );
    assert_eq!(said.stderr.matches(&name).count(), 1, "{said}");
    let mut numbers = follower
        .events()
        .into_iter()
        .map(|event| event["payload"]["number"].as_u64().expect("a number"))
        .collect::<Vec<_>>();
    numbers.sort_unstable();
    assert_eq!(numbers, [0, 0, 1, 1, 2, 2]);
    for mut program in [stopped, other] {
        program.finish().expect_success();
    }
}

#[test]
fn a_session_is_followed_before_it_records() {
    let place = Workplace::new();
    let trace = place.path("trace");
    let trace = trace.to_str().expect("UTF-8");
    place.piste_succeeds(&["create", "web", "-o", trace]);
    place.piste_succeeds(&["enable-event", "-u", "count:*"]);
    let follower = Follower::start(&place, "web");
    // Meanwhile it asks for a flush.
    std::thread::sleep(std::time::Duration::from_millis(300));
    place.piste_succeeds(&["start"]);
    place.run(place.program("count.c"), &["1", "100"]).expect_success();
    follower.wait_for(100);
    place.piste_succeeds(&["stop"]);
    let said = follower.end(&place, trace);
    assert_eq!(said.stderr, "", "{said}");
}

#[test]
fn events_of_many_programs_and_threads_are_shown_in_the_order_of_time() {
    let place = Workplace::new();
    let trace = place.path("trace");
    let trace = trace.to_str().expect("UTF-8");
    place.piste_succeeds(&["create", "web", "-o", trace]);
    // A program that is too fast for its rings waits.
    let small = ["--block", "forever", "--subbuf-size", "4K", "--num-subbuf", "4"];
    place.piste_succeeds(&[&["enable-channel", "-u", "small"], &small[..]].concat());
    place.piste_succeeds(&["enable-event", "-u", "count:*", "-c", "small"]);
    place.piste_succeeds(&["start"]);
    let follower = Follower::start(&place, "web");
    let program = place.program("count.c");
    for round in 1..=3 {
        let programs = [(), (), ()].map(|()| place.start(&program, &["3", "400"]));
        for mut program in programs {
            program.finish().expect_success();
        }
        follower.wait_for(3600 * round);
    }
    // Of these, nobody sees anything until the end.
    place.run(&program, &["2", "100"]).expect_success();
    place.piste_succeeds(&["stop"]);
    let said = follower.end(&place, trace);
    assert_eq!(said.stderr, "", "{said}");
}

#[test]
fn the_kernel_and_programs_are_shown_in_the_order_of_time() {
    let Some(place) = kernel::workplace() else { return };
    let session = KernelSession::create(&place, &["--num-subbuf", "256"]);
    place.piste_succeeds(&["enable-event", "-u", "shop:order"]);
    let mut calls = place.start(place.program("numbered_calls.c"), &["600", "1000"]);
    assert_eq!(calls.line(), "ready");
    session
        .enable(&["--syscall", "close"])
        .enable(&["sched_switch", "sched_wakeup"])
        .track(&["--pid", &calls.pid().to_string()])
        .start();
    let follower = Follower::start(&place, "kernel");
    let mut puppet = place.start(place.program("puppet.c"), &[]);
    assert_eq!(puppet.ask("wait"), "done");
    calls.say("begin");
    for _ in 0..50 {
        assert_eq!(puppet.ask("record 1"), "done");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(calls.line(), "done");
    follower.wait_for(600 + 50);
    place.piste_succeeds(&["stop"]);
    let said = follower.end(&place, place.path("trace").to_str().expect("UTF-8"));
    assert_eq!(said.stderr, "", "{said}");
    calls.say("end");
    calls.finish().expect_success();
    puppet.finish().expect_success();
    session.end();
}

#[test]
fn a_consumer_that_hangs_or_dies_is_told_and_holds_up_nobody() {
    let place = Workplace::new();
    let (trace, [mut one, mut other]) = two_programs(&place);
    let follower = Follower::start(&place, "web");
    follower.wait_for(2);
    let consumer = place.consumer();
    process::stop(consumer);
    assert_eq!(one.ask("record 1"), "done");
    assert_eq!(other.ask("record 1"), "done");
    // It says so when pisted does, and not later.
    wait_until("pisted has given up waiting", || {
        let flushed = place.piste(&["status"]);
        flushed.stdout.contains("outdated")
    });
    process::send(consumer, Signal::CONT);
    follower.wait_for(4);
    process::send(consumer, Signal::KILL);
    assert_eq!(other.ask("record 1"), "done");
    assert_eq!(one.ask("record 1"), "done");
    follower.wait_for(6);
    place.piste_succeeds(&["stop"]);
    let said = follower.end(&place, &trace);
    assert!(said.stderr.contains("cannot flush the session"), "{said}");
    for mut program in [one, other] {
        program.finish().expect_success();
    }
}

#[test]
fn following_goes_on_while_pisted_is_stopped() {
    let place = Workplace::new();
    let (trace, [mut one, mut other]) = two_programs(&place);
    let follower = Follower::start(&place, "web");
    follower.wait_for(2);
    let pisted = place.pisted();
    process::stop(pisted);
    // It writes a packet by itself when a sub-buffer is full.
    assert_eq!(one.ask("record 30000"), "done");
    follower.wait_for(3);
    process::send(pisted, Signal::CONT);
    assert_eq!(other.ask("record 1"), "done");
    follower.wait_for(30003);
    place.piste_succeeds(&["stop"]);
    let said = follower.end(&place, &trace);
    assert_eq!(said.stderr.matches("cannot reach pisted").count(), 1, "{said}");
    for mut program in [one, other] {
        program.finish().expect_success();
    }
}
