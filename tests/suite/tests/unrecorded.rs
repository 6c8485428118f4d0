// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that are not recorded although they should be: each is counted, the session says why, and `--fail-on-loss` fails. "Nothing lost"
//! is said of none of them.

use std::fs;
use std::process::Stdio;

use piste_support::process::{Running, run, stop, wait_until};
use piste_support::{Compilation, Recording, Trace, Workplace, build_tree};
use rustix::process::Signal;
use serde_json::Value;

const LOST: i32 = 90;

fn not_recorded(status: &Value) -> u64 {
    status["programs_not_recorded"].as_u64().expect("a number")
}

fn expect_told(recording: &Recording, count: u64, why: &str) {
    let summary = recording.summary();
    assert_eq!(not_recorded(summary), count, "{summary:#}");
    assert!(summary["findings"].to_string().contains(why), "{summary:#}");
    assert_eq!(recording.finished.status, LOST, "{}", recording.finished);
    assert!(
        !recording.finished.stderr.contains("nothing lost"),
        "{}",
        recording.finished
    );
}

/// Compiles against the headers of a release with another contract.
fn of_another_release(place: &Workplace, source: &str) -> Compilation {
    let base = build_tree::repository().join("include/piste/abi/base.h");
    let text = fs::read_to_string(base).expect("it is there");
    let is_it = |line: &&str| line.starts_with("#define PISTE_ABI_MAJOR ");
    let line = text.lines().find(is_it).expect("the version");
    let other = place.path("other_base.h");
    fs::write(&other, text.replace(line, "#define PISTE_ABI_MAJOR 99")).expect("it can be written");
    // It comes first, so that ours is left out.
    Compilation::of(&[source]).with("-include").with(other)
}

#[test]
fn program_that_was_compiled_for_another_release() {
    let place = Workplace::new();
    let program = place.compile(&of_another_release(&place, "count.c"), "other");
    let recording = place.record(&["--fail-on-loss", "-u", "*"], &program, &["1", "1000"]);
    expect_told(&recording, 1, "it was compiled for another release of Piste");
    assert_eq!(recording.events(), 0);
}

#[test]
fn a_program_of_another_release_is_listed_while_it_runs() {
    let place = Workplace::new();
    let program = place.compile(&of_another_release(&place, "puppet.c"), "other");
    place.start_pisted();
    let mut command = place.command(&program);
    let mut running = Running::start(command.stdin(Stdio::piped()));
    let told = "built for ABI 99, but this pisted has ABI";
    wait_until("it is listed", || place.piste_succeeds(&["list"]).contains(told));
    let listed = place.piste_json(&["list", "--programs"]);
    let listed = &listed["programs"][0];
    assert_eq!(
        (&listed["pid"], &listed["name"]),
        (&running.pid().into(), &"other".into())
    );
    assert_eq!(listed["events"], serde_json::json!([]));
    running.finish().expect_success();
    assert!(!place.piste_succeeds(&["list"]).contains(told));
}

/// With this release's library, as after an upgrade.
#[test]
fn a_program_that_was_built_for_abi_3_runs_unrecorded_and_is_listed() {
    let place = Workplace::new();
    let program = build_tree::kept_program("abi_3");
    place.piste_succeeds(&["create", "all", "-o", place.path("trace").to_str().expect("UTF-8")]);
    place.piste_succeeds(&["enable-event", "-u", "*"]);
    place.piste_succeeds(&["start"]);
    let mut running = Running::start(place.command(program).stdin(Stdio::piped()));
    let told = "built for ABI 3, but this pisted has ABI";
    wait_until("it is listed", || place.piste_succeeds(&["list"]).contains(told));
    assert_eq!(running.finish().expect_success().stdout, "never enabled\n");
    let status = place.piste_json(&["destroy"]);
    assert_eq!(not_recorded(&status), 1, "{status:#}");
}

#[test]
fn library_that_was_compiled_for_another_release_and_is_loaded_late() {
    let place = Workplace::new();
    let library = place.compile(&of_another_release(&place, "plugin.c").shared(), "libother.so");
    let options = ["--fail-on-loss", "-u", "lttng_ust_libc:*,plugin:*", "--preload", "libc"];
    let arguments = [library.to_str().expect("UTF-8"), "3"];
    let recording = place.record(&options, place.program("plugin_host.c"), &arguments);
    expect_told(&recording, 1, "it was compiled for another release of Piste");
    assert!(recording.events() > 0, "it was recorded until then");
}

#[test]
fn programs_whose_rings_the_consumer_cannot_map() {
    let place = Workplace::new();
    place.piste_succeeds(&["create", "first", "-o", place.path("first").to_str().expect("UTF-8")]);
    place.piste_succeeds(&["enable-event", "-u", "nothing:*"]);
    place.piste_succeeds(&["start"]);
    // Enough for what it does, not for the rings: 4 GiB and more.
    let limit = format!("--as={}", 2u64 << 30);
    run(place
        .command("prlimit")
        .args(["--pid", &place.consumer().to_string(), &limit]))
    .expect_success();
    let options = [
        "--fail-on-loss",
        "-u",
        "*",
        "--subbuf-size",
        "64M",
        "--num-subbuf",
        "64",
    ];
    let recording = place.record(&options, place.program("count.c"), &["1", "1000"]);
    expect_told(&recording, 1, "the consumer cannot read its rings");
}

/// There are as many connections as (160 - 128) / 4. A process and its descendants are all there at once.
#[test]
fn programs_that_pisted_has_no_descriptors_for() {
    const DESCENDANTS: u64 = 20;
    let place = Workplace::new();
    let limited = "ulimit -n 160 && exec \"$0\" list";
    let piste = piste_support::build_tree::binary("piste");
    run(place.command("sh").args(["-c", limited]).arg(piste)).expect_success();
    let recording = place.record(
        &["--fail-on-loss", "-u", "forks:*"],
        place.program("forks.c"),
        &[&DESCENDANTS.to_string()],
    );
    assert_eq!(recording.events(), 7, "{}", recording.summary());
    expect_told(
        &recording,
        DESCENDANTS - 7,
        "a program could not register and may be missing: ",
    );
}

#[test]
fn a_program_that_does_not_wait_any_longer() {
    let place = Workplace::new();
    let puppet = place.program("puppet.c");
    for outlives in [true, false] {
        place.piste_succeeds(&[
            "create",
            "all",
            "-o",
            place.path(&format!("t{outlives}")).to_str().expect("UTF-8"),
        ]);
        place.piste_succeeds(&["enable-event", "-u", "shop:*"]);
        place.piste_succeeds(&["start"]);
        let pisted = place.pisted();
        stop(pisted);
        let mut command = place.command(&puppet);
        command.env("PISTE_REGISTER_TIMEOUT", "100").stdin(Stdio::piped());
        let mut puppet = Running::start(&mut command);
        assert_eq!(puppet.ask("record 10"), "done");
        if !outlives {
            puppet.finish().expect_success();
        }
        piste_support::process::send(pisted, Signal::CONT);
        if outlives {
            assert_eq!(puppet.ask("wait"), "done");
            assert_eq!(puppet.ask("record 10"), "done");
        }
        wait_until("the program is counted", || {
            not_recorded(&place.piste_json(&["status"])) == 1
        });
        let status = place.piste_json(&["destroy"]);
        let told = if outlives {
            "answered too late"
        } else {
            "ended before pisted answered"
        };
        assert!(status["findings"].to_string().contains(told), "{status:#}");
        let events = status["channels"][0]["events"].as_u64().expect("a number");
        assert!(events == if outlives { 20 } else { 0 }, "{status:#}");
    }
}

/// It waits for pisted no longer than once, however many libraries it loads and children it has.
#[test]
fn a_pisted_that_hangs_holds_a_program_up_once() {
    const TIMEOUT_MS: u32 = 5000;
    let place = Workplace::new();
    place.start_pisted();
    let pisted = place.pisted();
    let program = place.program("forks.c");
    stop(pisted);
    let begin = std::time::Instant::now();
    let mut command = place.command(&program);
    command.env("PISTE_REGISTER_TIMEOUT", TIMEOUT_MS.to_string()).arg("10");
    let finished = run(&mut command);
    piste_support::process::send(pisted, Signal::CONT);
    finished.expect_success();
    // Each of the ten children would wait as long.
    assert!(
        begin.elapsed().as_millis() < u128::from(5 * TIMEOUT_MS),
        "{:?}",
        begin.elapsed()
    );
}

/// The descriptions of its events are more than a socket takes, so that not even the runtime's thread gets on.
#[test]
fn a_program_whose_descriptions_pisted_does_not_take_in_time() {
    let place = Workplace::new();
    let (source, program) = (place.path("talkative.c"), place.path("talkative"));
    std::fs::write(&source, talkative()).expect("the folder can be written to");
    Compilation::of(&[source.to_str().expect("UTF-8")]).link(&program);
    for timeout_ms in ["100", "60000"] {
        let trace = place.path(timeout_ms);
        place.piste_succeeds(&["create", "all", "-o", trace.to_str().expect("UTF-8")]);
        place.piste_succeeds(&["enable-event", "-u", "talkative:*"]);
        place.piste_succeeds(&["start"]);
        let pisted = place.pisted();
        stop(pisted);
        let mut command = place.command(&program);
        command.env("PISTE_REGISTER_TIMEOUT", timeout_ms).stdin(Stdio::piped());
        let mut running = Running::start(&mut command);
        let waits = timeout_ms != "100";
        if !waits {
            assert_eq!(running.line(), "begun");
        }
        // The runtime's thread gives up after a second.
        std::thread::sleep(std::time::Duration::from_millis(1500));
        piste_support::process::send(pisted, Signal::CONT);
        if waits {
            assert_eq!(running.line(), "begun");
        }
        assert_eq!(running.ask("record"), "done");
        running.finish().expect_success();
        let status = place.piste_json(&["destroy"]);
        assert_eq!(not_recorded(&status), u64::from(!waits), "{status:#}");
        let told = status["findings"].to_string().contains("answered too late");
        assert_eq!(told, !waits, "{status:#}");
        assert_eq!(Trace::at(&trace).event_count(), 1);
    }
}

/// A program whose events have many labels with long names, which are quick to compile. It says when it has begun, and records the first event as
/// soon as that is enabled.
fn talkative() -> String {
    let labels: Vec<String> = (0..100)
        .map(|value| format!("(a_label_whose_name_is_long_{value:090}, {value})"))
        .collect();
    let labels = labels.join(", ");
    let (events, uses): (String, String) = (0..24)
        .map(|number| {
            (
                format!("PISTE_EVENT(talkative, event_{number}, PISTE_ENUM(kind, {labels}))\n"),
                format!("\tif (never)\n\t\tpiste(talkative, event_{number}, 0);\n"),
            )
        })
        .unzip();
    format!(
        "#include <piste/tracepoint.h>
#include <stdio.h>
#include <unistd.h>
PISTE_EVENT(talkative, first, (uint64_t, number))
{events}
int main(void)
{{
	volatile int never = 0;
	puts(\"begun\");
	fflush(stdout);
	getchar();
	while (!piste_enabled(talkative, first))
		usleep(1000);
	piste(talkative, first, 1);
	puts(\"done\");
{uses}	return 0;
}}
"
    )
}
