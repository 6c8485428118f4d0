// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `piste view` and `piste info` show beside babeltrace2's text: selections, chosen fields, JSON, CSV, colours, pagers, and traces that still
//! grow.

use std::fs;
use std::process::Stdio;

use piste_support::build_tree::binary;
use piste_support::kernel::{self, KernelSession};
use piste_support::report::number;
use piste_support::{Recording, Workplace, process};
use serde_json::Value;

const EVENTS: &str = "500";

/// Four threads that count to 500 each.
fn record(place: &Workplace) -> Recording {
    let options = ["-u", "count:*", "--block", "forever"];
    place.record(&options, place.program("count.c"), &["4", EVENTS])
}

fn objects(lines: &str) -> Vec<Value> {
    let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    lines.lines().map(parse).collect()
}

#[test]
fn json_and_csv_have_what_text_has() {
    let place = Workplace::new();
    let recording = record(&place);
    let trace = recording.trace();
    let folder = trace.path().to_str().expect("UTF-8");
    let text = place.piste_succeeds(&["view", "--clock", "seconds,no-delta", folder]);
    let json = place.piste_succeeds(&["view", "--format", "ndjson", folder]);
    let csv = place.piste_succeeds(&["view", "--format", "csv", "--clock", "seconds", folder]);
    let (lines, objects): (Vec<&str>, _) = (text.lines().collect(), objects(&json));
    let rows: Vec<&str> = csv.split_terminator("\r\n").collect();
    assert_eq!((lines.len(), objects.len(), rows.len()), (2000, 2000, 2001));
    assert!(rows[0].starts_with("time,name,cpu,"), "{}", rows[0]);
    for ((line, object), row) in lines.iter().zip(&objects).zip(&rows[1..]) {
        let name = object["name"].as_str().expect("a name");
        let ns = number(&object["time_ns"]);
        let time = format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
        assert!(line.starts_with(&format!("[{time}] ")), "{line} {object}");
        assert!(
            row.starts_with(&format!("{time},{name},{},", object["cpu"])),
            "{row} {object}"
        );
        assert!(line.contains(&format!(" {name}: ")), "{line} {object}");
        for scope in ["packet_context", "event_context", "payload"] {
            let fields = object[scope].as_object().expect("a structure");
            for (field, value) in fields {
                assert!(line.contains(&format!(" {field} = {value}")), "{line} {object}");
            }
        }
    }
    assert_eq!(place.piste_succeeds(&["view", "--json", folder]), json);
}

#[test]
fn selections_mean_the_same_by_option_and_by_filter() {
    let place = Workplace::new();
    let recording = record(&place);
    let trace = recording.trace();
    let folder = trace.path().to_str().expect("UTF-8");
    let view = |arguments: &[&str]| place.piste_succeeds(&[&["view", "--json", folder], arguments].concat());
    let all = objects(&view(&[]));
    let vtid = &all[0]["event_context"]["vtid"];
    let (tid, pid) = (vtid.to_string(), all[0]["packet_context"]["vpid"].to_string());
    let of_tid = all.iter().filter(|event| event["event_context"]["vtid"] == *vtid);
    let count = of_tid.count();
    assert!(count >= 500, "{count} events of thread {tid}");
    for (option, filter) in [
        (["--tid", &*tid], format!("$tid == {tid}")),
        (["--pid", &*pid], format!("$pid == {pid}")),
        (["--cpu", "0"], "$cpu == 0".into()),
        (["--event", "count:*"], "name =~ \"count:*\"".into()),
        (["--tid", &*tid], format!("vtid == {tid} && exists($ctx.vpid)")),
    ] {
        let by_option = view(&option);
        assert_eq!(by_option, view(&["--filter", &filter]), "{filter}");
        let lines = by_option.lines().count();
        assert!(lines == count || option[0] != "--tid", "{lines} events, {filter}");
    }
    assert_eq!(view(&["--pid", "1"]), "");
    assert_eq!(view(&["--filter", &format!("!($pid == {pid})")]), "");

    let wrong = place.piste(&["view", folder, "--filter", "number = 3"]);
    assert_eq!(wrong.status, 2, "{wrong}");
    assert_eq!(
        wrong.stderr,
        "piste: the filter is invalid: `=` is not a comparison; write `==`\n  number = 3\n         ^\n"
    );
}

#[test]
fn chosen_fields_are_shown_in_every_form() {
    let place = Workplace::new();
    let recording = record(&place);
    let trace = recording.trace();
    let folder = trace.path().to_str().expect("UTF-8");
    let all = objects(&place.piste_succeeds(&["view", "--json", "-n", "1", folder]));
    let (payload, name) = (
        all[0]["payload"].as_object().expect("fields"),
        all[0]["name"].as_str().expect("a name"),
    );
    let (field, value) = payload.iter().next().expect("a field");
    let tid = &all[0]["event_context"]["vtid"];
    let fields = format!("{field},$tid,nothing");
    let view = |format: &str| {
        let arguments = [
            "view",
            "-n1",
            "--fields",
            &*fields,
            "--format",
            format,
            "--clock",
            "no-delta,utc",
            folder,
        ];
        place.piste_succeeds(&arguments)
    };
    let text = view("text");
    let expected = format!("] {name}: {{ {field} = {value}, $tid = {tid} }}\n");
    assert!(text.ends_with(&expected), "{text} {expected}");
    let json = &objects(&view("ndjson"))[0];
    assert_eq!(
        (&json[field], &json["$tid"], json.get("nothing")),
        (value, tid, None),
        "{json}"
    );
    let csv = view("csv");
    let (heading, row) = csv.split_once("\r\n").expect("two lines");
    assert_eq!(heading, format!("time,name,{field},$tid,nothing"));
    assert!(row.ends_with(&format!(",{name},{value},{tid},\r\n")), "{row}");
    let wrong = place.piste(&["view", folder, "--fields", "a["]);
    assert_eq!(wrong.status, 2, "{wrong}");
}

#[test]
fn colours_are_for_those_who_want_them() {
    let place = Workplace::new();
    let recording = record(&place);
    let trace = recording.trace();
    let folder = trace.path().to_str().expect("UTF-8");
    let plain = place.piste_succeeds(&["view", folder]);
    assert!(!plain.contains('\u{1b}'));
    let coloured = place.piste_succeeds(&["view", "--color", "always", folder]);
    assert!(coloured.contains("\u{1b}["));
    let mut stripped = String::new();
    let mut rest = &*coloured;
    while let Some((before, behind)) = rest.split_once('\u{1b}') {
        stripped += before;
        rest = behind.split_once('m').expect("a colour ends").1;
    }
    assert_eq!(stripped + rest, plain);
}

#[test]
fn a_terminal_gets_a_pager() {
    let place = Workplace::new();
    let recording = record(&place);
    let trace = recording.trace();
    let on_terminal = |environment: &str, options: &str| {
        let command = format!(
            "{environment} {} view {options} {}",
            binary("piste").display(),
            trace.path().display()
        );
        let mut script = place.command("script");
        let script = script
            .args(["-q", "-e", "-c", &command, "/dev/null"])
            .stdin(Stdio::null());
        process::run(script.env_remove("PAGER").env_remove("LESS"))
    };
    let paged = on_terminal("PISTE_PAGER='sed s/^/paged:/'", "-n 300");
    assert_eq!(paged.expect_success().stdout.matches("paged:").count(), 300, "{paged}");
    // What fits on the screen needs none.
    for options in ["-n 300 --no-pager", "-n 3"] {
        let direct = on_terminal("PISTE_PAGER='sed s/^/paged:/'", options);
        assert_eq!(direct.expect_success().stdout.matches("paged:").count(), 0, "{direct}");
    }
    // Who has seen enough leaves.
    let left = on_terminal("PISTE_PAGER='head -n 2'", "");
    assert_eq!(left.expect_success().stdout.lines().count(), 2, "{left}");
}

#[test]
fn a_session_is_followed_until_it_stops() {
    let place = Workplace::new();
    let program = place.program("count.c");
    let folder = place.path("live");
    place.piste_succeeds(&["create", "web", "-o", folder.to_str().expect("UTF-8")]);
    place.piste_succeeds(&[
        "enable-channel",
        "-u",
        "small",
        "--subbuf-size",
        "4K",
        "--num-subbuf",
        "64",
    ]);
    place.piste_succeeds(&["enable-event", "-u", "count:*", "-c", "small"]);
    place.piste_succeeds(&["start"]);
    let shown = place.path("shown");
    let mut command = place.command(binary("piste"));
    let file = fs::File::create(&shown).expect("a file");
    let mut follower = command
        .args(["view", "--follow", "web", "--json"])
        .stdout(file)
        .spawn()
        .expect("it starts");
    let lines = || fs::read_to_string(&shown).expect("what was shown").lines().count();
    // What a program leaves is complete when it has ended.
    for round in 1..=2 {
        place.run(&program, &["2", "1000"]).expect_success();
        process::wait_until("its events are shown", || lines() >= 2000 * round);
    }
    place.piste_succeeds(&["stop"]);
    let status = follower.wait().expect("it ends");
    assert!(status.success(), "{status}");
    let followed = fs::read_to_string(&shown).expect("what was shown");
    let whole = place.piste_succeeds(&["view", "--json", folder.to_str().expect("UTF-8")]);
    assert_eq!(followed.lines().count(), 4000);
    assert!(followed == whole);
    place.piste_succeeds(&["destroy"]);
    let missing = place.piste(&["view", "--follow", "web"]);
    assert_eq!(missing.status, 1, "{missing}");
    assert!(
        missing.stderr.contains("there is no trace and no session web"),
        "{missing}"
    );
}

#[test]
fn a_slow_program_is_followed_while_it_runs() {
    let place = Workplace::new();
    let folder = place.path("live");
    place.piste_succeeds(&["create", "slow", "-o", folder.to_str().expect("UTF-8")]);
    place.piste_succeeds(&["enable-event", "-u", "shop:order"]);
    place.piste_succeeds(&["start"]);
    // It fills no sub-buffer, and neither ends nor stops: its events come all the same, one after the other.
    let mut puppet = place.start(place.program("puppet.c"), &[]);
    assert_eq!(puppet.ask("wait"), "done");
    for count in ["1", "2", "3"] {
        assert_eq!(puppet.ask("record 1"), "done");
        let first = place.piste_succeeds(&["view", "--follow", "slow", "-n", count]);
        assert_eq!(first.lines().count().to_string(), count, "{first}");
    }
}

#[test]
fn the_kernel_is_followed_while_it_records() {
    let Some(place) = kernel::workplace() else { return };
    let session = KernelSession::create(&place, &[]);
    let mut running = place.start(place.program("numbered_calls.c"), &["300", "0", "100"]);
    assert_eq!(running.line(), "ready");
    session
        .enable(&["--syscall", "close"])
        .track(&["--pid", &running.pid().to_string()])
        .start();
    let shown = place.path("shown");
    let file = fs::File::create(&shown).expect("a file");
    let mut command = place.command(binary("piste"));
    let command = command.args(["view", "--follow", "kernel", "--json"]).stdout(file);
    let mut follower = command.spawn().expect("it starts");
    let text = || fs::read_to_string(&shown).expect("what was shown");
    let calls = || text().matches("\"name\":\"syscall_entry_close\"").count();
    // The session goes on, and the program waits.
    for (part, said) in [(1, "part"), (2, "part"), (3, "done")] {
        assert_eq!(running.ask("go on"), said);
        process::wait_until("its calls are shown", || calls() >= 100 * part);
    }
    place.piste_succeeds(&["stop"]);
    let status = follower.wait().expect("it ends");
    assert!(status.success(), "{status}");
    assert_eq!(calls(), 300);
    let whole = place.piste_succeeds(&["view", "--json", place.path("trace").to_str().expect("UTF-8")]);
    assert!(text() == whole, "{} and {} bytes", text().len(), whole.len());
    session.end();
}

#[test]
fn info_says_what_a_trace_is() {
    let place = Workplace::new();
    let recording = record(&place);
    let trace = recording.trace();
    let folder = trace.path().to_str().expect("UTF-8");
    let info = place.piste_json(&["info", folder]);
    assert_eq!(info["findings"], serde_json::json!([]));
    let user = &info["traces"][0];
    assert_eq!(
        (&user["format"], &user["domain"]),
        (&"CTF 1.8".into(), &"ust".into()),
        "{user}"
    );
    assert!(number(&user["begin_ns"]) < number(&user["end_ns"]), "{user}");
    assert!(user["clocks"][0]["frequency_hz"].as_u64() > Some(0), "{user}");
    let clock_error_ns = user["environment"]["piste_clock_error_ns"].as_u64();
    assert!(
        clock_error_ns.is_some_and(|ns| (1..1_000_000_000).contains(&ns)),
        "{user}"
    );
    let packets = user["streams"].as_array().expect("streams").iter();
    let packets: u64 = packets
        .map(|stream| stream["packets"].as_u64().expect("a number"))
        .sum();
    assert_eq!(user["packets"], packets);
    let events = user["events"].as_array().expect("events");
    let tick = events
        .iter()
        .find(|event| event["name"] == "count:tick")
        .expect("it is there");
    assert_eq!(
        tick["payload"],
        serde_json::json!([{ "name": "thread", "type": "uint32" }, { "name": "number", "type": "uint64" }])
    );

    let text = place.piste_succeeds(&["info", folder]);
    assert!(text.contains(" of the wall clock\n"), "{text}");
    for part in [
        "  format    CTF 1.8\n",
        "  tracer    piste ",
        "  domain    ust\n",
        " count:tick\n",
    ] {
        assert!(text.contains(part), "{part:?} {text}");
    }
    let fields = place.piste_succeeds(&["info", folder, "--events", "count:*"]);
    assert!(
        fields.contains("  count:tick\n") && fields.contains("    number: uint64\n"),
        "{fields}"
    );
    let none = place.piste(&["info", folder, "-e", "count:tock"]);
    assert_eq!(
        none.expect_success().stderr,
        "piste: no event matches count:tock; similar: count:tick\n"
    );
}

#[test]
fn chosen_events_and_processes_are_counted() {
    let place = Workplace::new();
    let recording = record(&place);
    let trace = recording.trace();
    let folder = trace.path().to_str().expect("UTF-8");
    let all = place.piste_json(&["stats", folder]);
    assert_eq!((&all["events"], all.get("by_process")), (&2000.into(), None));
    let slow = place.piste_json(&["stats", folder, "--filter", "number >= 0", "--processes"]);
    for key in ["events", "by_event", "streams", "begin_ns", "end_ns"] {
        assert_eq!(slow[key], all[key], "{key}");
    }
    let process = &slow["by_process"];
    assert_eq!((&process[0]["count"], process.get(1)), (&2000.into(), None), "{slow}");
    let pid = process[0]["pid"].to_string();
    let half = place.piste_json(&["stats", folder, "--filter", "number < 250", "--pid", &pid]);
    assert_eq!(half["events"], 1000);
    assert_eq!(
        half["by_event"],
        serde_json::json!([{ "name": "count:tick", "count": 1000 }])
    );
    let text = place.piste_succeeds(&["stats", folder, "--processes"]);
    assert!(
        text.contains(" PID  PROCESS\n") && text.contains(&format!("  {pid}")),
        "{text}"
    );
}
