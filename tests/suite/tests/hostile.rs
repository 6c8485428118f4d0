// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that send pisted what none should, or write over the memory they share with it, while a good program records: the good one's
//! events are complete, pisted and the consumer live on, and the trace can be read.

use piste_suite::{Trace, Workplace};
use rustix::process::Signal;
use serde_json::Value;

/// A session, and the pids of the processes that must be the same at its end.
struct Watch {
    pisted: i32,
    consumer: i32,
}

fn start(place: &Workplace, channel: &[&str]) -> Watch {
    let output = place.path("trace");
    place.piste_succeeds(&["create", "watched", "-o", output.to_str().expect("UTF-8")]);
    place.piste_succeeds(&[&["enable-channel", "-u", "small"], channel].concat());
    place.piste_succeeds(&["enable-event", "-u", "*", "-c", "small"]);
    place.piste_succeeds(&["start"]);
    Watch {
        pisted: place.pisted(),
        consumer: place.consumer(),
    }
}

impl Watch {
    /// The good program, progress.c, has recorded `expected` events in each of its two threads. Returns the session's last status.
    fn end(&self, place: &Workplace, expected: u64) -> Value {
        assert_eq!(
            (place.pisted(), place.consumer()),
            (self.pisted, self.consumer),
            "both live on"
        );
        let status = place.piste_json(&["destroy"]);
        assert_eq!(place.pisted(), self.pisted, "pisted lives on");
        let mut next = [0, 0];
        for event in Trace::at(place.path("trace")).events_and_loss().0 {
            if event.name == "progress:tick" {
                let thread = &mut next[event.number("thread") as usize];
                assert_eq!(event.number("number"), *thread, "missing or twice: {event:?}");
                *thread += 1;
            }
        }
        assert_eq!(next, [expected; 2]);
        status
    }
}

#[test]
fn senseless_messages_disturb_nobody() {
    const EVENTS: u64 = 200_000;
    let place = Workplace::new();
    let (good, hostile) = (place.program("progress.c"), place.program("hostile_messages.c"));
    let watch = start(&place, &["--block", "forever"]);
    let file = place.path("calls");
    let mut good = place.start(
        &good,
        &[file.to_str().expect("UTF-8"), "2", &EVENTS.to_string(), "1000"],
    );
    for seed in 1..=5 {
        let connected = place.run(&hostile, &[&seed.to_string(), "60"]);
        connected.expect_success();
        assert!(
            connected.stdout.trim().parse::<u32>().is_ok_and(|count| count > 0),
            "{connected}"
        );
    }
    good.finish().expect_success();
    watch.end(&place, EVENTS);
}

#[test]
fn random_bytes_in_the_rings_of_a_program_disturb_nobody_else() {
    const EVENTS: u64 = 200_000;
    let place = Workplace::new();
    let (good, hostile) = (place.program("progress.c"), place.program("hostile_rings.c"));
    let watch = start(&place, &["--block", "forever", "--subbuf-size", "64K"]);
    let file = place.path("calls");
    let mut good = place.start(
        &good,
        &[file.to_str().expect("UTF-8"), "2", &EVENTS.to_string(), "1000"],
    );
    for seed in 1..=12 {
        // It may kill itself; that it found its memory is what it says first.
        let ended = place.run(&hostile, &[&seed.to_string(), "2000"]);
        assert!(
            ended.stdout.trim().parse::<u64>().is_ok_and(|bytes| bytes > 0),
            "{ended}"
        );
    }
    good.finish().expect_success();
    let status = watch.end(&place, EVENTS);
    let findings = status["channels"][0]["findings"].as_array().expect("findings");
    let names_it = |finding: &Value| finding["what"].to_string().contains("hostile_rings");
    assert!(findings.iter().any(names_it), "{status:#}");
}

#[test]
fn a_program_that_answers_nothing_any_more_disturbs_nobody_else() {
    const EVENTS: u64 = 50_000;
    let place = Workplace::new();
    let (good, hung) = (place.program("progress.c"), place.program("puppet.c"));
    let watch = start(&place, &["--block", "forever"]);
    let mut hung = place.start(&hung, &[]);
    assert_eq!(hung.ask("record 10"), "done");
    hung.signal(Signal::STOP);
    let file = place.path("calls");
    place
        .run(&good, &[file.to_str().expect("UTF-8"), "2", &EVENTS.to_string(), "0"])
        .expect_success();
    watch.end(&place, EVENTS);
}
