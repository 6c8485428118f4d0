// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that send pisted what none should, or write over the memory they share with it, while a good program records: the good one's
//! events are complete, pisted and the consumer live on, and the trace can be read.

use std::path::PathBuf;

use piste_support::compiler::Compilation;
use piste_support::{Trace, Workplace, process};
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
    process::stop(hung.pid());
    let file = place.path("calls");
    place
        .run(&good, &[file.to_str().expect("UTF-8"), "2", &EVENTS.to_string(), "0"])
        .expect_success();
    watch.end(&place, EVENTS);
}

#[test]
fn a_channel_that_is_not_exactly_as_it_should_be_is_refused() {
    let place = Workplace::new();
    let (daemon, puppet) = (place.program("hostile_daemon.c"), place.program("puppet.c"));
    let mut daemon = place.start(&daemon, &["refusals"]);
    assert_eq!(daemon.line(), "listening");
    let mut puppet = place.start(&puppet, &[]);
    assert_eq!(puppet.ask("record 10"), "done");
    // What it did not refuse comes before.
    assert_eq!(daemon.finish().expect_success().stdout, "good\n");
    puppet.finish().expect_success();
}

/// Two programs at a time, one of them checked by the sanitizers. More of it with $PISTE_HOSTILE_SECONDS, something else with
/// $PISTE_HOSTILE_SEED, as CONTRIBUTING.md says.
#[test]
fn a_hostile_daemon_ends_no_program() {
    let number = |name: &str| {
        let text = std::env::var(name).ok()?;
        let number = text.parse::<u32>().ok().filter(|number| *number > 0);
        Some(
            number
                .unwrap_or_else(|| panic!("${name} is {text:?}, which is no number above 0"))
                .to_string(),
        )
    };
    let seed = number("PISTE_HOSTILE_SEED").unwrap_or("1".into());
    let limit = match number("PISTE_HOSTILE_SECONDS") {
        Some(seconds) => ["seconds".into(), seconds],
        None => ["rounds".into(), "60".into()],
    };
    println!("a hostile daemon of seed {seed}, for {} {}", limit[1], limit[0]);
    let place = Workplace::new();
    let daemon = place.program("hostile_daemon.c");
    let mut daemon = place.start(&daemon, &[&seed, &limit[0], &limit[1]]);
    let mut puppets = [place.program("puppet.c"), sanitized_puppet(&place)].map(|puppet| place.start(&puppet, &[]));
    assert_eq!(daemon.line(), "listening");
    let mut rounds = 0;
    while daemon.runs() {
        for puppet in &mut puppets {
            assert_eq!(puppet.ask("record 200"), "done");
        }
        rounds += 1;
    }
    let ended = daemon.finish();
    ended.expect_success();
    let counts: Vec<u64> = ended
        .stdout
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    assert!(counts.len() == 2 && counts.iter().all(|&count| count > 0), "{ended}");
    assert!(rounds > 0);
    for mut puppet in puppets {
        puppet.finish().expect_silent_success();
    }
}

/// With libpiste inside.
fn sanitized_puppet(place: &Workplace) -> PathBuf {
    with_library_inside(place, "puppet.c", &["-O1", "-fsanitize=address,undefined"])
}

fn with_library_inside(place: &Workplace, source: &str, options: &[&str]) -> PathBuf {
    let output = place.path("with_library_inside");
    let common = ["-fno-omit-frame-pointer", "-fno-sanitize-recover=all", "-rdynamic"];
    Compilation::with_libpiste_inside(source, &[&common, options].concat()).link(&output);
    output
}

/// At whatever instruction of the event, whatever the channel does when it is full.
#[test]
#[cfg(target_arch = "x86_64")]
fn a_channel_that_goes_while_a_thread_records_harms_it_not() {
    let place = Workplace::new();
    let program = with_library_inside(&place, "detached.c", &["-O1", "-fsanitize=undefined"]);
    for loss_mode in ["0", "1", "2"] {
        let stepped = place.run(&program, &[loss_mode]);
        let times = stepped.expect_silent_success().stdout.lines();
        let times: Vec<u32> = times.map(|times| times.parse().expect("a number")).collect();
        assert!(times.len() == 2 && times.iter().all(|times| *times > 100), "{stepped}");
    }
}
