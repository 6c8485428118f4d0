// SPDX-License-Identifier: MIT OR Apache-2.0
//! Channels that are disabled and enabled again: what is recorded in between, of programs and of the kernel, and who remembers it.

use std::collections::BTreeMap;
use std::fs;

use piste_support::kernel::{self, KernelSession};
use piste_support::{Running, Trace, Workplace};
use serde_json::Value;

/// It is attached when this returns: with a pisted, programs begin when they are.
fn puppet(place: &Workplace) -> Running {
    place.start_pisted();
    place.start(place.program("puppet.c"), &[])
}

fn create(place: &Workplace, name: &str) {
    let output = place.path(name);
    place.piste_succeeds(&["create", name, "-o", output.to_str().expect("UTF-8")]);
}

fn counts(place: &Workplace, trace: &str) -> BTreeMap<String, u64> {
    Trace::at(place.path(trace)).counts()
}

fn expected(counts: &[(&str, u64)]) -> BTreeMap<String, u64> {
    counts.iter().map(|&(name, count)| (name.to_owned(), count)).collect()
}

/// Which channels the status says are enabled.
fn enabled(place: &Workplace) -> Vec<(String, bool)> {
    let status = place.piste_json(&["status"]);
    let channels = status["channels"].as_array().expect("channels").iter();
    let name = |channel: &Value| channel["settings"]["name"].as_str().expect("a name").to_owned();
    channels
        .map(|channel| (name(channel), channel["enabled"].as_bool().expect("a boolean")))
        .collect()
}

/// The sentence that a command fails with, after `piste: `.
fn refusal(place: &Workplace, arguments: &[&str]) -> String {
    let finished = place.piste(arguments);
    finished.expect_status(1);
    let sentence = finished.stderr.strip_prefix("piste: ").map(str::trim_end);
    sentence.unwrap_or_else(|| panic!("{finished}")).to_owned()
}

#[test]
fn a_disabled_channel_records_nothing_until_it_is_enabled() {
    let place = Workplace::new();
    let mut early = puppet(&place);
    create(&place, "web");
    place.piste_succeeds(&["enable-channel", "often", "rare"]);
    place.piste_succeeds(&["enable-event", "-c", "often", "shop:order"]);
    place.piste_succeeds(&["enable-event", "-c", "rare", "bank:*"]);
    place.piste_succeeds(&["start"]);
    assert_eq!(early.ask("record 1"), "done");

    let disabled = place.piste_succeeds(&["disable-channel", "often"]);
    assert_eq!(disabled, "disabled channel often\n");
    assert_eq!(early.ask("enabled"), "failure ");
    assert_eq!(early.ask("record 10"), "done");
    // Neither a program that starts now, nor a rule that is added now, makes it record.
    let mut late = puppet(&place);
    assert_eq!(late.ask("enabled"), "failure ");
    place.piste_succeeds(&["enable-event", "-c", "often", "shop:debug_note"]);
    assert_eq!(early.ask("enabled"), "failure ");
    assert_eq!(late.ask("record 100"), "done");
    let shown = place.piste_succeeds(&["status"]);
    assert!(shown.contains("\n  often (disabled)  user  "), "{shown}");
    assert!(shown.contains("shop:order, in channel often (disabled)\n"), "{shown}");

    // The settings that it has are not asked for again, and others are refused.
    let other = refusal(&place, &["enable-channel", "often", "--subbuf-size", "1M"]);
    assert!(other.contains("already exists with sub-buffer size 262144"), "{other}");
    assert_eq!(early.ask("enabled"), "failure ");
    place.piste_succeeds(&["enable-channel", "often", "--subbuf-size", "256K"]);
    for program in [&mut early, &mut late] {
        assert_eq!(program.ask("enabled"), "order debug_note failure ");
        assert_eq!(program.ask("record 1000"), "done");
    }
    place.piste_succeeds(&["destroy"]);
    assert_eq!(
        counts(&place, "web"),
        expected(&[("shop:order", 2001), ("shop:debug_note", 2000), ("bank:failure", 2111)])
    );
}

#[test]
fn a_channel_stays_disabled_when_the_session_or_pisted_starts_again() {
    let place = Workplace::new();
    create(&place, "web");
    place.piste_succeeds(&["enable-event", "shop:order"]);
    place.piste_succeeds(&["disable-channel", "default"]);
    assert_eq!(
        refusal(&place, &["start"]),
        "session \"web\" has no enabled events outside its disabled channels (default); enable these with \
         `piste enable-channel -s web`, or -k for the kernel's"
    );
    place.piste_succeeds(&["enable-channel", "other"]);
    place.piste_succeeds(&["enable-event", "-c", "other", "bank:*"]);
    place.piste_succeeds(&["start"]);
    place.kill_pisted();
    let mut puppet = puppet(&place);
    assert_eq!(puppet.ask("enabled"), "failure ");
    assert_eq!(enabled(&place), [("default".into(), false), ("other".into(), true)]);
    assert_eq!(puppet.ask("record 5"), "done");
    place.piste_succeeds(&["enable-channel", "default"]);
    assert_eq!(puppet.ask("record 3"), "done");
    place.piste_succeeds(&["destroy"]);
    assert_eq!(
        counts(&place, "web"),
        expected(&[("shop:order", 3), ("bank:failure", 8)])
    );
}

#[test]
fn several_channels_are_disabled_and_enabled_together_or_not_at_all() {
    let place = Workplace::new();
    place.start_pisted();
    create(&place, "web");
    let made = place.piste_json(&["enable-channel", "one", "two,three"]);
    let made = made["channels"].as_array().expect("channels");
    assert!(
        made.iter().map(|channel| &channel["name"]).eq(["one", "two", "three"]),
        "{made:?}"
    );
    let unknown = refusal(&place, &["disable-channel", "one", "tow"]);
    assert_eq!(unknown, "session \"web\" has no channel \"tow\"; did you mean \"two\"?");
    assert!(enabled(&place).iter().all(|(_, enabled)| *enabled));
    place.piste_succeeds(&["disable-channel", "one", "three"]);
    let states = [("one".into(), false), ("two".into(), true), ("three".into(), false)];
    assert_eq!(enabled(&place), states);
    let partly = refusal(&place, &["enable-channel", "one", "a/b"]);
    assert!(partly.starts_with("channel name \"a/b\" is not possible"), "{partly}");
    assert!(partly.ends_with("; already done for one"), "{partly}");
    assert_eq!(enabled(&place)[0], ("one".into(), true));
}

#[test]
fn rules_of_several_channels_are_changed_together_or_not_at_all() {
    let place = Workplace::new();
    let mut puppet = puppet(&place);
    create(&place, "web");
    place.piste_succeeds(&["enable-channel", "one", "two"]);
    let shown = place.piste_succeeds(&["enable-event", "-c", "one,two", "shop:order", "bank:*"]);
    assert_eq!(
        shown,
        "enabled shop:order, in channel one\nenabled bank:*, in channel one\n\
         enabled shop:order, in channel two\nenabled bank:*, in channel two\n"
    );
    let unknown = refusal(&place, &["enable-event", "-c", "one,tow", "shop:debug_note"]);
    assert_eq!(unknown, "session \"web\" has no channel \"tow\"; did you mean \"two\"?");
    place.piste_succeeds(&["enable-event", "-c", "one", "shop:debug_note"]);
    let partly = refusal(&place, &["disable-event", "-c", "one", "-c", "two", "shop:debug_note"]);
    assert!(
        partly.starts_with("channel \"two\" has no rule \"shop:debug_note\""),
        "{partly}"
    );
    assert!(partly.ends_with("; already done for one"), "{partly}");
    let disabled = place.piste_json(&["disable-event", "-c", "two,one", "bank:*"]);
    let channels = disabled["channels"].as_array().expect("channels");
    assert!(
        channels.iter().map(|changed| &changed["channel"]).eq(["two", "one"]),
        "{disabled:#}"
    );
    assert_eq!(channels[1]["rules"][0]["enabled"], false, "{disabled:#}");

    place.piste_succeeds(&["start"]);
    assert_eq!(puppet.ask("enabled"), "order ");
    assert_eq!(puppet.ask("record 2"), "done");
    // Whoever adds a rule to a disabled channel is told.
    place.piste_succeeds(&["disable-channel", "two"]);
    let finished = place.piste(&["enable-event", "-c", "one,two", "bank:failure"]);
    assert_eq!(
        finished.expect_success().stderr,
        "piste: note: channel two is disabled and records nothing; enable it with `piste enable-channel two`\n"
    );
    assert_eq!(puppet.ask("record 3"), "done");
    place.piste_succeeds(&["destroy"]);
    assert_eq!(
        counts(&place, "web"),
        expected(&[("shop:order", 2 * 2 + 3), ("bank:failure", 3)])
    );
}

#[test]
fn the_kernel_records_nothing_for_a_disabled_channel() {
    let Some(place) = kernel::shared_workplace() else {
        return;
    };
    let session = KernelSession::create(&place, &[]);
    let pid = std::process::id().to_string();
    session.track(&["--pid", &pid, "--follow"]);
    session.enable(&["--syscall", "access"]).enable(&["task_rename"]);
    place.piste_succeeds(&["enable-event", "-k", "sched_process_exit"]);
    session.start();
    let call = |name: &str| {
        let script = format!("import os; os.access('/none/{name}', 0)");
        place.run("python3", &["-c", &script]).expect_success();
    };
    let kernel_records = |event: &str| {
        let mut instances = kernel::instances_of(&place).into_iter();
        instances.any(|name| {
            let file = format!("/sys/kernel/tracing/instances/{name}/events/{event}/enable");
            fs::read_to_string(file).is_ok_and(|text| text.starts_with('1'))
        })
    };
    call("before");
    assert!(kernel_records("task/task_rename"));
    place.piste_succeeds(&["disable-channel", "-k", "kernel"]);
    assert!(!kernel_records("task/task_rename"));
    assert!(kernel_records("sched/sched_process_exit"));
    call("between");
    place.kill_pisted();
    call("still between");
    let status = place.piste_succeeds(&["status"]);
    assert!(
        status.contains("system call access, in kernel channel kernel (disabled)"),
        "{status}"
    );
    place.piste_succeeds(&["enable-channel", "-k", "kernel"]);
    call("after");
    let (channel, trace) = session.end();
    assert_eq!(channel["enabled"], true);
    let events = trace.events();
    let paths = events.iter().filter_map(|event| event.field("filename"));
    let mut paths: Vec<&str> = paths.filter(|path| path.starts_with("/none/")).collect();
    paths.sort_unstable();
    assert_eq!(paths, ["/none/after", "/none/before"]);
}
