// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands, with a real pisted and real programs: what they change, what they print as JSON, how they refuse, how they exit.

use std::collections::BTreeMap;
use std::fs;

use piste_support::process::{allowed_cpu, send, stop, wait_until};
use piste_support::{Running, Trace, Workplace};
use rustix::process::Signal;
use serde_json::{Value, json};

/// A session that writes to a folder of that name.
fn create(place: &Workplace, name: &str) {
    let output = place.path(name);
    place.piste_succeeds(&["create", name, "-o", output.to_str().expect("UTF-8")]);
}

/// It is attached when this returns: with a pisted, programs begin when they are.
fn puppet(place: &Workplace) -> Running {
    place.start_pisted();
    place.start(place.program("puppet.c"), &[])
}

fn counts(place: &Workplace, trace: &str) -> BTreeMap<String, u64> {
    Trace::at(place.path(trace)).counts()
}

fn expect_counts(place: &Workplace, trace: &str, expected: &[(&str, u64)]) {
    let expected = expected.iter().map(|&(name, count)| (name.to_owned(), count)).collect();
    assert_eq!(counts(place, trace), expected);
}

/// The sentence that a command fails with, after `piste: `.
fn refusal(place: &Workplace, arguments: &[&str]) -> String {
    let finished = place.piste(arguments);
    finished.expect_status(1);
    assert_eq!(finished.stdout, "", "{finished}");
    let sentence = finished
        .stderr
        .strip_prefix("piste: ")
        .unwrap_or_else(|| panic!("{finished}"));
    assert_eq!(sentence.lines().count(), 1, "{finished}");
    sentence.trim_end().to_owned()
}

#[test]
fn status_counts_the_events_of_a_program_that_records_little() {
    let place = Workplace::new();
    let mut puppet = puppet(&place);
    create(&place, "web");
    place.piste_succeeds(&["enable-event", "-u", "shop:order"]);
    place.piste_succeeds(&["start"]);
    assert_eq!(puppet.ask("record 3"), "done");
    // Their packet would be full after thousands of them.
    wait_until("status has counted them", || {
        place.piste_json(&["status"])["channels"][0]["events"] == json!(3)
    });
    puppet.finish().expect_success();
}

#[test]
fn a_place_on_a_network_is_refused_and_no_folder_is_made() {
    let place = Workplace::new();
    for arguments in [
        &["create", "web", "-o", "net://host"][..],
        &["record", "--no-kernel", "-o", "net://host", "--", "true"],
    ] {
        let finished = place.piste(arguments);
        finished.expect_status(2);
        assert!(finished.stderr.contains("it is a URL"), "{finished}");
    }
    assert!(!place.path("net:").exists());
}

#[test]
fn a_session_records_what_is_enabled_while_it_is_started() {
    let place = Workplace::new();
    let mut puppet = puppet(&place);
    create(&place, "web");
    place.piste_succeeds(&["enable-event", "-u", "shop:order"]);
    assert_eq!(puppet.ask("record 3"), "done");
    let started = place.piste_json(&["start"]);
    assert_eq!(
        (&started["state"], &started["programs"]),
        (&json!("active"), &json!(1)),
        "{started:#}"
    );
    assert_eq!(puppet.ask("enabled"), "order ");
    assert_eq!(puppet.ask("record 5"), "done");
    let stopped = place.piste_json(&["stop"]);
    assert_eq!(stopped["state"], "stopped");
    assert_eq!(stopped["channels"][0]["events"], 5, "{stopped:#}");
    // What is emitted while it is stopped is not recorded, and no loss.
    assert_eq!(puppet.ask("record 7"), "done");
    place.piste_succeeds(&["start"]);
    assert_eq!(puppet.ask("record 11"), "done");
    let ended = place.piste_json(&["destroy"]);
    assert_eq!(ended["channels"][0]["events"], 16, "{ended:#}");
    assert_eq!(ended["channels"][0]["discarded_events"], 0, "{ended:#}");
    expect_counts(&place, "web", &[("shop:order", 16)]);
    // Nobody waits for programs to see that a session is gone.
    wait_until("disabled", || puppet.ask("enabled").is_empty());
    assert_eq!(place.piste_json(&["list", "--sessions"]), json!({ "sessions": [] }));
}

#[test]
fn events_are_enabled_and_disabled_while_the_session_records() {
    let place = Workplace::new();
    let mut puppet = puppet(&place);
    create(&place, "web");
    place.piste_succeeds(&["enable-event", "-u", "shop:order"]);
    place.piste_succeeds(&["start"]);
    assert_eq!(puppet.ask("record 1"), "done");
    place.piste_succeeds(&["enable-event", "-u", "bank:*"]);
    assert_eq!(puppet.ask("enabled"), "order failure ");
    assert_eq!(puppet.ask("record 10"), "done");
    let disabled = place.piste_json(&["disable-event", "-u", "shop:order"]);
    assert_eq!(disabled["rules"][0]["enabled"], false, "{disabled:#}");
    wait_until("the event is disabled", || puppet.ask("enabled") == "failure ");
    assert_eq!(puppet.ask("record 100"), "done");
    place.piste_succeeds(&["disable-event", "--all"]);
    wait_until("the events are disabled", || puppet.ask("enabled").is_empty());
    assert_eq!(puppet.ask("record 1000"), "done");
    place.piste_succeeds(&["destroy"]);
    expect_counts(&place, "web", &[("shop:order", 11), ("bank:failure", 110)]);
}

#[test]
fn a_program_that_starts_later_is_recorded() {
    let place = Workplace::new();
    create(&place, "web");
    place.piste_succeeds(&["enable-event", "-u", "*order"]);
    place.piste_succeeds(&["start"]);
    for _ in 0..3 {
        assert_eq!(puppet(&place).ask("record 4"), "done");
    }
    let ended = place.piste_json(&["destroy"]);
    assert_eq!(ended["participants"][0]["processes"], 3, "{ended:#}");
    expect_counts(&place, "web", &[("shop:order", 12)]);
}

#[test]
fn patterns_exclusions_and_levels_choose_events() {
    let place = Workplace::new();
    let mut puppet = puppet(&place);
    let check = |puppet: &mut Running, arguments: &[&str], expected: &str| {
        create(&place, "chosen");
        place.piste_succeeds(&[&["enable-event", "-u"], arguments].concat());
        place.piste_succeeds(&["start"]);
        assert_eq!(puppet.ask("enabled").trim_end(), expected, "{arguments:?}");
        place.piste_succeeds(&["destroy"]);
        wait_until("disabled", || puppet.ask("enabled").is_empty());
        fs::remove_dir_all(place.path("chosen")).expect("the trace can be removed");
    };
    for (arguments, expected) in [
        (&["*"][..], "order debug_note failure"),
        (&["shop:*"], "order debug_note"),
        (&["*:*r*"], "order failure"),
        (&["shop:debug*", "bank:*"], "debug_note failure"),
        (&["shop:order,bank:failure"], "order failure"),
        (&["shop:"], ""),
        (&["*", "-x", "shop:debug*"], "order failure"),
        (&["*", "-x", "*note,*failure"], "order"),
        (&["*", "--level", "info"], "order failure"),
        (&["*", "--level", "err"], "failure"),
        (&["*", "--level", "warning..info"], "order"),
        (&["*", "--level", "debug..info"], "order debug_note"),
        (&["*", "--level-only", "info"], "order"),
        (&["shop:*", "--level-only", "debug"], "debug_note"),
        (&["-a"], "order debug_note failure"),
    ] {
        check(&mut puppet, arguments, expected);
    }
}

#[test]
fn channels_have_settings_of_their_own() {
    let place = Workplace::new();
    let mut puppet = puppet(&place);
    create(&place, "web");
    let channel = place.piste_json(&[
        "enable-channel",
        "-u",
        "narrow",
        "--block",
        "500ms",
        "--subbuf-size",
        "8K",
        "--num-subbuf",
        "16",
        "--no-default-contexts",
    ]);
    let expected = json!({
        "name": "narrow", "domain": "user", "loss": "block", "block_timeout_us": 500_000, "subbuf_bytes": 8192, "subbuf_count": 16,
        "contexts": [], "call_memory": null,
    });
    assert_eq!(channel, expected);
    place.piste_succeeds(&["enable-event", "-u", "shop:order", "-c", "narrow"]);
    place.piste_succeeds(&["enable-event", "-u", "*"]);
    place.piste_succeeds(&["start"]);
    assert_eq!(puppet.ask("record 10"), "done");
    let status = place.piste_json(&["destroy"]);
    let events: BTreeMap<&str, &Value> = status["channels"]
        .as_array()
        .expect("channels")
        .iter()
        .map(|channel| {
            (
                channel["settings"]["name"].as_str().expect("a name"),
                &channel["events"],
            )
        })
        .collect();
    assert_eq!(events["narrow"], 10, "{status:#}");
    let trace = Trace::at(place.path("web"));
    let narrow: Vec<String> = trace
        .streams()
        .into_iter()
        .filter(|stream| stream.starts_with("narrow_"))
        .collect();
    let mut recorded = 0;
    for stream in narrow {
        trace.for_each_of_stream(&stream, |event| {
            assert!(event.contexts.iter().all(|(name, _)| name != "vtid"), "{event:?}");
            recorded += 1;
        });
    }
    assert_eq!(recorded, 10);
    assert_eq!(trace.counts()["shop:order"], 20, "both channels have it");
    assert_eq!(trace.counts()["bank:failure"], 10);
}

#[test]
fn two_sessions_record_independently() {
    let place = Workplace::new();
    let mut puppet = puppet(&place);
    for name in ["one", "two"] {
        create(&place, name);
        place.piste_succeeds(&[
            "enable-event",
            "-s",
            name,
            "-u",
            if name == "one" { "shop:order" } else { "*" },
        ]);
    }
    place.piste_succeeds(&["start", "one"]);
    assert_eq!(puppet.ask("record 1"), "done");
    place.piste_succeeds(&["start", "-s", "two"]);
    assert_eq!(puppet.ask("record 10"), "done");
    place.piste_succeeds(&["stop", "one"]);
    assert_eq!(puppet.ask("record 100"), "done");
    let sessions = place.piste_json(&["list", "--sessions"]);
    let names: Vec<&Value> = sessions["sessions"]
        .as_array()
        .expect("an array")
        .iter()
        .map(|session| &session["name"])
        .collect();
    assert_eq!(names, ["one", "two"]);
    place.piste_succeeds(&["destroy", "--all"]);
    expect_counts(&place, "one", &[("shop:order", 11)]);
    let of_two = counts(&place, "two");
    assert_eq!(
        (of_two["shop:order"], of_two["shop:debug_note"], of_two["bank:failure"]),
        (110, 110, 110)
    );
}

#[test]
fn list_shows_programs_with_their_events_levels_and_fields() {
    let place = Workplace::new();
    let puppet = puppet(&place);
    wait_until("the program is registered", || !program(&place, puppet.pid()).is_null());
    let program = program(&place, puppet.pid());
    assert_eq!(
        (&program["name"], &program["uid"]),
        (&json!("puppet"), &json!(0)),
        "{program:#}"
    );
    assert!(
        program["path"].as_str().is_some_and(|path| path.ends_with("/puppet")),
        "{program:#}"
    );
    let events = program["events"].as_array().expect("events");
    let order = events
        .iter()
        .find(|event| event["name"] == "shop:order")
        .expect("its event");
    assert_eq!(order["level"], "info");
    let fields = json!([
        { "name": "number", "type": "uint64", "recorded": true },
        { "name": "customer", "type": "string", "recorded": true },
    ]);
    assert_eq!(order["fields"], fields);
    let text = place.piste_succeeds(&["list"]);
    for part in ["puppet", "shop:order", "bank:failure"] {
        assert!(text.contains(part), "{text}");
    }
    let narrowed = place.piste_succeeds(&["list", "bank:*"]);
    assert!(
        narrowed.contains("bank:failure") && !narrowed.contains("shop:order"),
        "{narrowed}"
    );
}

fn program(place: &Workplace, pid: i32) -> Value {
    let listed = place.piste_json(&["list", "--programs"]);
    let of_pid = listed["programs"]
        .as_array()
        .and_then(|all| all.iter().find(|program| program["pid"] == pid));
    of_pid.cloned().unwrap_or(Value::Null)
}

#[test]
fn a_program_that_ends_is_listed_no_more() {
    let place = Workplace::new();
    let mut puppet = puppet(&place);
    wait_until("the program is registered", || !program(&place, puppet.pid()).is_null());
    puppet.finish().expect_success();
    wait_until("it is listed no more", || program(&place, puppet.pid()).is_null());
}

#[test]
fn a_snapshot_session_keeps_the_newest_events_and_writes_them_when_asked() {
    let place = Workplace::new();
    place.start_pisted();
    // On one CPU, and so in one ring: of two, each keeps its newest.
    let program = place.program("puppet.c");
    let mut puppet = place.start("taskset", &["-c", &allowed_cpu(), program.to_str().expect("UTF-8")]);
    let output = place.path("flight");
    let created = place.piste_json(&["create", "flight", "--snapshot", "-o", output.to_str().expect("UTF-8")]);
    assert_eq!(created["snapshot"], true, "{created:#}");
    place.piste_succeeds(&[
        "enable-channel",
        "-u",
        "small",
        "--subbuf-size",
        "4K",
        "--num-subbuf",
        "4",
    ]);
    place.piste_succeeds(&["enable-event", "-u", "shop:order", "-c", "small"]);
    place.piste_succeeds(&["start"]);
    assert_eq!(puppet.ask("record 50"), "done");
    let first = place.piste_json(&["snapshot", "record"]);
    assert_eq!(first["events"], 50, "{first:#}");
    let first_trace = Trace::at(first["trace"].as_str().expect("a path"));
    assert!(first_trace.path().starts_with(&output), "{first:#}");
    assert!(
        first_trace
            .events()
            .iter()
            .map(|event| event.number("number"))
            .eq(0..50)
    );

    // Far more than the ring holds: the newest are kept, without a gap.
    assert_eq!(puppet.ask("record 10000"), "done");
    let elsewhere = place.path("elsewhere");
    let second = place.piste_json(&["snapshot", "record", "-o", elsewhere.to_str().expect("UTF-8")]);
    let numbers: Vec<u64> = Trace::at(&elsewhere)
        .events_and_loss()
        .0
        .iter()
        .map(|event| event.number("number"))
        .collect();
    assert_eq!(second["events"], numbers.len(), "{second:#}");
    assert_eq!(numbers.last(), Some(&10_049));
    assert!(numbers.len() > 100 && numbers.len() < 1000, "{}", numbers.len());
    assert!(
        numbers.windows(2).all(|pair| pair[1] == pair[0] + 1),
        "a gap in {numbers:?}"
    );

    // Recording goes on, and the end of the session writes nothing by itself.
    assert_eq!(puppet.ask("record 1"), "done");
    let ended = place.piste_json(&["destroy"]);
    assert_eq!(ended["snapshots"], 2, "{ended:#}");
    let folders = fs::read_dir(&output).expect("the session's folder").count();
    assert_eq!(folders, 1, "the snapshot that went elsewhere is not there");
}

#[test]
fn events_that_snapshots_have_in_common_are_said_to_come_more_than_once() {
    let place = Workplace::new();
    let mut puppet = puppet(&place);
    let output = place.path("flight");
    let output = output.to_str().expect("UTF-8");
    place.piste_succeeds(&["create", "flight", "--snapshot", "-o", output]);
    place.piste_succeeds(&["enable-event", "-u", "shop:order"]);
    place.piste_succeeds(&["start"]);
    assert_eq!(puppet.ask("record 50"), "done");
    let snapshots = [(); 2].map(|()| {
        let snapshot = place.piste_json(&["snapshot", "record"]);
        assert_eq!(snapshot["events"], 50, "{snapshot:#}");
        snapshot["trace"].as_str().expect("a path").to_owned()
    });

    let said = |arguments: &[&str]| {
        let stats = place.piste_json(arguments);
        let findings = stats["findings"].as_array().expect("an array").clone();
        let repeated: Vec<Value> = findings
            .into_iter()
            .filter(|finding| finding["kind"] == "repeated_packets")
            .collect();
        (stats["events"].as_u64(), stats["packets"].as_u64(), repeated)
    };
    for snapshot in &snapshots {
        assert_eq!(said(&["stats", snapshot]).2, Vec::<Value>::new());
    }
    let (events, packets, repeated) = said(&["stats", output]);
    let [repeated] = &repeated[..] else {
        panic!("{repeated:?}")
    };
    assert_eq!(events, Some(100));
    assert_eq!(
        repeated["count"].as_u64(),
        packets.map(|packets| packets / 2),
        "{repeated:#}"
    );
    assert_eq!(repeated["file"], format!("{}/user", snapshots[1]));
    let what = repeated["what"].as_str().expect("a sentence");
    assert!(what.contains(&format!("also in {}/user", snapshots[0])), "{what}");

    // Everyone who reads both says so, and nothing on stdout changes.
    let expression = "name == \"shop:order\"";
    let periods = [
        "analyze",
        "periods",
        "--begin-event",
        expression,
        "--end-event",
        expression,
        output,
    ];
    for arguments in [
        &["view", output][..],
        &["stats", output],
        &["query", output, "SELECT count(*) FROM events"],
        &periods,
    ] {
        let read = place.piste(arguments);
        read.expect_success();
        assert!(read.stderr.contains(what), "{arguments:?}: {}", read.stderr);
        assert!(!read.stderr.contains("byte 0"), "{arguments:?}: {}", read.stderr);
    }
    let answer = place.piste_json(&periods);
    let notes = answer["notes"].to_string();
    assert!(notes.contains("in more than one of these traces"), "{notes}");

    let ended = place.piste(&["destroy"]);
    ended.expect_success();
    assert!(
        ended.stdout.contains(&format!("piste view {}\n", snapshots[1])),
        "{}",
        ended.stdout
    );
}

#[test]
fn status_counts_what_is_recorded() {
    let place = Workplace::new();
    let mut puppet = puppet(&place);
    create(&place, "web");
    let inactive = place.piste_json(&["status"]);
    assert_eq!(
        (&inactive["state"], &inactive["current"]),
        (&json!("inactive"), &json!(true)),
        "{inactive:#}"
    );
    place.piste_succeeds(&["enable-event", "-u", "shop:*", "-x", "*debug*", "--level", "notice"]);
    place.piste_succeeds(&["enable-event", "-u", "shop:order"]);
    place.piste_succeeds(&["start"]);
    assert_eq!(puppet.ask("record 25"), "done");
    place.piste_succeeds(&["stop"]);
    let status = place.piste_json(&["status", "-s", "web"]);
    let rule = json!({
        "pattern": "shop:*", "excluded": ["*debug*"], "levels": {"most_severe": "emerg", "least_severe": "notice"}, "filter": null,
        "enabled": true,
    });
    assert_eq!(status["channels"][0]["rules"][0], rule, "{status:#}");
    assert_eq!(status["channels"][0]["settings"]["subbuf_bytes"], 256 << 10);
    assert_eq!(status["channels"][0]["events"], 25);
    let text = place.piste_succeeds(&["status"]);
    assert!(text.contains("25") && text.contains("shop:order"), "{text}");
}

#[test]
fn version_tells_of_the_command_and_of_pisted() {
    let place = Workplace::new();
    let version = place.piste_json(&["version"]);
    assert_eq!(version["pisted"], Value::Null, "{version:#}");
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
    assert!(place.piste_succeeds(&["version"]).contains("pisted is not running"));
    place.start_pisted();
    let version = place.piste_json(&["version"]);
    assert_eq!(version["pisted"]["version"], version["version"], "{version:#}");
    assert_eq!(version["pisted"]["run_folder"].as_str(), place.run_folder().to_str());
}

#[test]
fn refusals_are_sentences_that_say_what_to_do() {
    let place = Workplace::new();
    assert_eq!(
        refusal(&place, &["status"]),
        "there is no current session; choose one with -s (see `piste list`), or create one with `piste create`"
    );
    assert_eq!(
        refusal(&place, &["stop", "web"]),
        "there is no session \"web\" (see `piste list`)"
    );
    create(&place, "web");
    assert_eq!(
        refusal(&place, &["start", "wbe"]),
        "there is no session \"wbe\"; did you mean \"web\"?"
    );
    assert_eq!(
        refusal(&place, &["create", "web"]),
        "a session \"web\" exists already; choose another name, or end it with `piste destroy -s web`"
    );
    assert_eq!(
        refusal(&place, &["start"]),
        "session \"web\" has no enabled events; enable some with `piste enable-event -s web -u '*'`, or -k for the kernel's"
    );
    assert_eq!(
        refusal(&place, &["stop"]),
        "session \"web\" is not recording; start it with `piste start -s web`"
    );
    place.piste_succeeds(&["enable-event", "-u", "shop:order"]);
    assert_eq!(
        refusal(&place, &["disable-event", "-u", "shop:ordre"]),
        "channel \"default\" has no rule \"shop:ordre\"; did you mean \"shop:order\"?"
    );
    let no_channel = refusal(&place, &["disable-event", "-u", "shop:order", "-c", "defalt"]);
    assert_eq!(
        no_channel,
        "session \"web\" has no channel \"defalt\"; did you mean \"default\"?"
    );
    let other_settings = refusal(&place, &["enable-channel", "-u", "default", "--subbuf-size", "1M"]);
    assert!(
        other_settings.starts_with("channel \"default\" of session \"web\" already exists with"),
        "{other_settings}"
    );
    let size = refusal(&place, &["enable-channel", "-u", "odd", "--subbuf-size", "5000"]);
    assert!(size.contains("5000") && size.contains("a power of two"), "{size}");
    place.piste_succeeds(&["start"]);
    assert_eq!(refusal(&place, &["start"]), "session \"web\" is already recording");
    let not_snapshot = refusal(&place, &["snapshot", "record"]);
    assert!(not_snapshot.contains("piste create --snapshot"), "{not_snapshot}");
}

#[test]
fn a_full_or_forbidden_place_is_refused_with_its_reason() {
    let place = Workplace::new();
    let output = place.path("there");
    fs::create_dir(&output).expect("a folder");
    fs::write(output.join("somebody's"), "").expect("a file");
    let output = output.to_str().expect("UTF-8");
    let exists = refusal(&place, &["create", "web", "-o", output]);
    assert!(exists.contains("exists and is not an empty folder"), "{exists}");
    place.piste(&["record", "-o", output, "--", "true"]).expect_status(125);
    let nowhere = refusal(&place, &["create", "web", "-o", "/proc/nowhere"]);
    assert!(nowhere.contains("/proc/nowhere"), "{nowhere}");
}

#[test]
fn wrong_arguments_end_with_status_2() {
    let place = Workplace::new();
    for arguments in [
        &["create", "web", "--loud"][..],
        &["enable-event", "-u"],
        &["enable-event", "-u", "a:b", "--level", "loud"],
        &["record"],
        &["no-such-command"],
    ] {
        place.piste(arguments).expect_status(2);
    }
}

#[test]
fn record_ends_with_the_status_of_the_command() {
    let place = Workplace::new();
    let record = |command: &[&str]| {
        let recording = place.record(&[], command[0], &command[1..]);
        let status = recording.finished.status;
        if status != 127 && status != 126 {
            assert_eq!(recording.number("exit_status"), status as u64);
        }
        status
    };
    assert_eq!(record(&["true"]), 0);
    assert_eq!(record(&["sh", "-c", "exit 7"]), 7);
    assert_eq!(record(&["sh", "-c", "exit 127"]), 127);
    assert_eq!(record(&["/no/such/command"]), 127);
    assert_eq!(record(&["/etc/passwd"]), 126);
    assert_eq!(record(&["sh", "-c", "kill -TERM $$"]), 128 + 15);
    assert_eq!(record(&["sh", "-c", "kill -KILL $$"]), 128 + 9);
}

#[test]
fn record_leaves_input_and_output_to_the_command() {
    let place = Workplace::new();
    let mut recorder = place.start_recording(&[], "sh", &["-c", "read line; echo \"out $line\"; echo err >&2"]);
    assert_eq!(recorder.running.ask("in"), "out in");
    let recording = recorder.finish();
    assert_eq!(recording.finished.stdout, "");
    assert!(
        recording.finished.stderr.starts_with("err\npiste: 0 events"),
        "{}",
        recording.finished
    );
}

#[test]
fn fail_on_loss_tells_by_the_status() {
    let place = Workplace::new();
    let program = place.program("count.c");
    let tiny = [
        "-u",
        "count:*",
        "--fail-on-loss",
        "--subbuf-size",
        "4K",
        "--num-subbuf",
        "2",
    ];
    let lossy = place.record(&tiny, &program, &["2", "100000"]);
    assert!(lossy.discarded() > 0, "{}", lossy.summary());
    lossy.finished.expect_status(90);
    let whole = place.record(&[&tiny[..], &["--block", "forever"]].concat(), &program, &["2", "1000"]);
    whole.expect_whole();
}

#[test]
fn ctrl_c_ends_the_command_and_finishes_the_trace() {
    let place = Workplace::new();
    let program = place.program("puppet.c");
    let mut recorder = place.start_recording(&["-u", "shop:*"], program, &[]);
    assert_eq!(recorder.running.ask("record 10"), "done");
    // To piste alone: it passes it on.
    recorder.running.signal(Signal::INT);
    // Its standard input stays open, which would end it too.
    assert_eq!(recorder.running.next_line(), None);
    let recording = recorder.finish();
    recording.finished.expect_status(128 + 2);
    assert_eq!((recording.events(), recording.discarded()), (20, 0));
    assert_eq!(recording.trace().event_count(), 20);
}

#[test]
fn record_sees_only_its_command_and_what_that_starts() {
    let place = Workplace::new();
    let mut stranger = puppet(&place);
    let program = place.program("puppet.c");
    let script = format!("{} & {}; wait", program.display(), program.display());
    let mut recorder = place.start_recording(&["-u", "shop:order"], "/bin/sh", &["-c", &script]);
    assert_eq!(recorder.running.ask("record 3"), "done");
    assert_eq!(stranger.ask("record 1000"), "done");
    assert_eq!(stranger.ask("enabled"), "");
    let recording = recorder.finish();
    recording.expect_whole();
    assert_eq!(recording.events(), 3);
    assert_eq!(place.piste_json(&["list", "--sessions"]), json!({ "sessions": [] }));
}

#[test]
fn destroy_needs_no_word_from_a_program_that_is_stopped() {
    let place = Workplace::new();
    let mut puppet = puppet(&place);
    create(&place, "web");
    place.piste_succeeds(&["enable-event", "-u", "shop:order"]);
    place.piste_succeeds(&["start"]);
    assert_eq!(puppet.ask("record 3"), "done");
    place.piste_succeeds(&["stop"]);
    stop(puppet.pid());
    let ended = place.piste_json(&["destroy"]);
    assert_eq!(ended["channels"][0]["events"], 3, "{ended:#}");
    send(puppet.pid(), Signal::CONT);
    wait_until("the event is disabled", || puppet.ask("enabled").is_empty());
    expect_counts(&place, "web", &[("shop:order", 3)]);
}

#[test]
fn a_program_that_is_stopped_does_not_hold_up_start_and_stop() {
    let place = Workplace::new();
    let mut hung = puppet(&place);
    let mut well = puppet(&place);
    create(&place, "web");
    place.piste_succeeds(&["enable-event", "-u", "shop:order"]);
    wait_until("both are registered", || {
        !program(&place, hung.pid()).is_null() && !program(&place, well.pid()).is_null()
    });
    stop(hung.pid());
    place.piste_succeeds(&["start"]);
    assert_eq!(well.ask("wait"), "done");
    assert_eq!(well.ask("record 5"), "done");
    place.piste_succeeds(&["stop"]);
    send(hung.pid(), Signal::CONT);
    assert_eq!(hung.ask("record 5"), "done");
    place.piste_succeeds(&["destroy"]);
    expect_counts(&place, "web", &[("shop:order", 5)]);
}
