// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an event costs a program, in instructions, which no other work on the machine changes; and that nothing changes when the same
//! event is recorded by many.

use std::collections::BTreeMap;
use std::process::Stdio;

use piste_support::{Compilation, Running, Trace, Workplace, build_tree};

/// Of gcc's code: other compilers' differs by a few.
#[test]
#[cfg(target_arch = "x86_64")]
fn an_event_of_fixed_size_takes_few_instructions() {
    let place = Workplace::new();
    let program = place.program("stepped.c");
    let rejected = ["-u", "stepped:rejected", "--filter", "number == 8"];
    let options = [
        &rejected[..],
        &["-u", "stepped:*_bytes,stepped:text", "--no-default-contexts"],
    ]
    .concat();
    let recording = place.record(&options, program, &[]);
    recording.expect_whole();
    let lines = recording.finished.stdout.lines().map(|line| {
        let (name, count) = line.split_once(' ').expect("a name and a count");
        (name, count.parse().expect("a count"))
    });
    let counts: BTreeMap<&str, u32> = lines.collect();
    println!("instructions: {counts:?}");
    assert!(counts["disabled"] <= 4, "{counts:?}");
    assert!(counts["four_bytes"] <= 45, "{counts:?}");
    assert!(counts["eight_bytes"] <= 55, "{counts:?}");
    // Without the clock, a locked instruction, or a call of the runtime.
    assert!(counts["rejected"] <= 95, "{counts:?}");
    // The general path would be several times as long.
    assert_eq!(recording.events(), 3 * 50, "{counts:?}");
}

/// The events of `piste bench piste-steps`: each goes a step further than the one before, and none but the last, which is whole, is recorded.
#[test]
#[cfg(target_arch = "x86_64")]
fn an_event_that_ends_early_has_done_what_comes_before() {
    let place = Workplace::new();
    let measured = "../../crates/bench/src/measured";
    let mut sources = vec!["stepped_steps.c".to_owned(), format!("{measured}/steps.c")];
    sources.extend(["callback", "lookup", "clock", "reserve", "write"].map(|step| format!("{measured}/step-{step}.c")));
    let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
    let folder = build_tree::repository().join("crates/bench/src/measured");
    let compilation = Compilation::of(&sources).with(format!("-I{}", folder.display()));
    let program = place.compile(&compilation, "stepped_steps");
    for event in ["unfinished", "whole"] {
        let trace = place.path(event);
        place.piste_succeeds(&["create", event, "--snapshot", "-o", trace.to_str().expect("UTF-8")]);
        place.piste_succeeds(&["enable-channel", "-s", event, "-u", "steps", "--no-default-contexts"]);
        place.piste_succeeds(&[
            "enable-event",
            "-s",
            event,
            "-u",
            "-c",
            "steps",
            &format!("bench:{event}"),
        ]);
        place.piste_succeeds(&["start", event]);
    }
    let finished = place.run(program, &[]);
    let lines = finished.expect_silent_success().stdout.lines().map(|line| {
        let (name, count) = line.split_once(' ').expect("a name and a count");
        (name, count.parse().expect("a count"))
    });
    let counts: Vec<(&str, u32)> = lines.collect();
    println!("instructions: {counts:?}");
    assert_eq!(
        counts.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
        ["callback", "lookup", "clock", "reserve", "write", "commit"]
    );
    // The jump to the end is one instruction, and each step is more.
    assert!(
        counts.is_sorted_by(|before, after| before.1 + 1 < after.1),
        "{counts:?}"
    );
    let recorded = place.path("recorded");
    place.piste_succeeds(&[
        "snapshot",
        "record",
        "-s",
        "whole",
        "-o",
        recorded.to_str().expect("UTF-8"),
    ]);
    assert_eq!(Trace::at(&recorded).counts()["bench:whole"], 20 * (1 + 6));
}

/// Not built again, so that what is compiled into programs goes on working.
#[test]
#[cfg(target_arch = "x86_64")]
fn a_program_that_was_built_for_abi_4_is_recorded_whole() {
    let place = Workplace::new();
    let program = build_tree::kept_program("abi_4");
    let plain = place.record(&["-u", "kept:whole", "--no-default-contexts"], &program, &["1000"]);
    assert_eq!(plain.expect_whole().trace().counts(), counts(&[("kept:whole", 1000)]));
    let filtered = "number > 989 && cost_ns < 999000 && text =~ 'some*'";
    let options = [
        &["-u", "kept:filtered", "--filter", filtered][..],
        &["-u", "kept:whole,kept:many,piste:printf", "--context", "app:kept:turn"],
    ];
    let recording = place.record(&options.concat(), &program, &["1000"]);
    let of_each = [
        ("kept:filtered", 9),
        ("kept:many", 1000),
        ("kept:whole", 1000),
        ("piste:printf", 1000),
    ];
    assert_eq!(recording.expect_whole().trace().counts(), counts(&of_each));
    for (number, event) in recording
        .trace()
        .events()
        .iter()
        .filter(|event| event.name == "kept:many")
        .enumerate()
    {
        assert_eq!(event.number("_numbers_length"), number as u64 % 4);
    }
}

fn counts(of_each: &[(&str, u64)]) -> BTreeMap<String, u64> {
    of_each.iter().map(|(name, count)| (name.to_string(), *count)).collect()
}

/// The fast path looks at nothing but the windows of the rings.
#[test]
fn a_stopped_session_records_nothing_and_goes_on_when_it_is_started() {
    let place = Workplace::new();
    let trace = place.path("trace");
    place.piste_succeeds(&["create", "all", "-o", trace.to_str().expect("UTF-8")]);
    place.piste_succeeds(&["enable-channel", "-u", "any", "--no-default-contexts"]);
    place.piste_succeeds(&["enable-event", "-u", "held_up:tick", "-c", "any"]);
    let program = place.program("held_up.c");
    let mut running = Running::start(place.command(program).stdin(Stdio::piped()));
    for _ in 0..3 {
        for command in ["start", "stop"] {
            place.piste_succeeds(&[command]);
            assert_eq!(running.ask("record 100"), "done");
        }
    }
    running.finish().expect_success();
    place.piste_succeeds(&["destroy"]);
    let events = Trace::at(&trace).events();
    let numbers: Vec<u64> = events.iter().map(|event| event.number("number")).collect();
    let expected: Vec<u64> = [0, 200, 400].into_iter().flat_map(|first| first..first + 100).collect();
    assert_eq!(numbers, expected);
}

#[test]
fn each_of_many_sessions_gets_every_event_of_a_program() {
    const SESSIONS: usize = 14;
    let place = Workplace::new();
    let program = place.program("count.c");
    let traces: Vec<_> = (0..SESSIONS).map(|number| place.path(&format!("t{number}"))).collect();
    for (number, trace) in traces.iter().enumerate() {
        place.piste_succeeds(&["create", &format!("s{number}"), "-o", trace.to_str().expect("UTF-8")]);
        let contexts: &[&str] = if number % 2 == 0 {
            &["--no-default-contexts"]
        } else {
            &[]
        };
        place.piste_succeeds(&[&["enable-channel", "-u", "any", "--block", "forever"], contexts].concat());
        place.piste_succeeds(&["enable-event", "-u", "count:*", "-c", "any"]);
        place.piste_succeeds(&["start"]);
    }
    place.run(&program, &["2", "1000"]).expect_success();
    for trace in &traces {
        let status = place.piste_json(&["destroy"]);
        assert_eq!(status["channels"][0]["events"], 2000, "{status:#}");
        assert_eq!(status["programs_not_recorded"], 0, "{status:#}");
        assert!(trace.exists());
    }
    for trace in traces {
        assert_eq!(Trace::at(&trace).event_count(), 2000);
    }
}
