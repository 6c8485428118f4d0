// SPDX-License-Identifier: MIT OR Apache-2.0
//! What every command prints with `--json` is as docs/reference/schemas.json says, down to the last key.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use piste_support::build_tree::repository;
use piste_support::kernel::{self, shared_workplace};
use piste_support::report::text;
use piste_support::{Workplace, process};
use serde_json::Value;

/// Documents by the names of their schemas.
#[derive(Default)]
struct Printed(RefCell<BTreeMap<String, Vec<Value>>>);

impl Printed {
    fn add(&self, schema: &str, document: Value) {
        self.0.borrow_mut().entry(schema.to_owned()).or_default().push(document);
    }

    /// Lines, each a document.
    fn add_lines(&self, schema: &str, lines: &str) {
        for line in lines.lines() {
            let document = serde_json::from_str(line).unwrap_or_else(|error| panic!("{schema}: {error}: {line}"));
            self.add(schema, document);
        }
    }

    /// A command that prints one document, whatever its status is; what it says on stderr are messages.
    fn run(&self, place: &Workplace, schema: &str, command: &[&str]) -> Value {
        let finished = place.piste(&[&["--json"], command].concat());
        let document: Value =
            serde_json::from_str(&finished.stdout).unwrap_or_else(|error| panic!("{command:?}: {error}: {finished}"));
        self.add(schema, document.clone());
        self.add_lines("message", &finished.stderr);
        document
    }

    /// Nothing is wrong, and every schema has a document.
    fn check(self, place: &Workplace) {
        let file = place.path("printed.json");
        fs::write(&file, serde_json::to_string(&self.0.into_inner()).expect("JSON")).expect("it can be written");
        let tool = process::run(&mut place.command(repository().join("tools/python-packages")));
        let python = tool.expect_success().stdout.trim().to_owned();
        let script = repository().join("tests/python/check_schemas.py");
        let schemas = repository().join("docs/reference/schemas.json");
        let checked = process::run(place.command(python).arg(script).arg(schemas).arg(file));
        assert_eq!(checked.expect_success().stdout, "");
    }
}

/// Two threads that work and sleep, and a file that is written.
const WORK: &str = "import os, threading, time
def work():
    for number in range(20):
        time.sleep(0.001)
        sum(range(10000))
threads = [threading.Thread(target=work) for _ in range(2)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
with open('file', 'w') as file:
    file.write('text')
    os.fsync(file.fileno())
";

#[test]
fn every_command_prints_what_its_schema_says() {
    // What is lost has the same form.
    let Some(place) = shared_workplace() else { return };
    let printed = Printed::default();
    sessions(&place, &printed);
    lists(&place, &printed);
    let trace = recorded(&place, &printed);
    read(&place, &printed, &trace);
    failures(&place, &printed, &trace);
    progress(&place, &printed, &trace);
    printed.check(&place);
}

/// A session of both domains, in all its states, and one of snapshots.
fn sessions(place: &Workplace, printed: &Printed) {
    let run = |schema: &str, command: &[&str]| printed.run(place, schema, command);
    run("session", &["create", "web", "-o", text(&place.path("web"))]);
    run("channel", &["enable-channel", "often", "--block", "100ms"]);
    run("channel", &["disable-channel", "often"]);
    run("channels", &["enable-channel", "often", "rare"]);
    run(
        "channel",
        &["add-context", "-c", "often", "procname", "app:shop:tenant"],
    );
    run("contexts", &["add-context", "--list"]);
    run(
        "rules",
        &[
            "enable-event",
            "-u",
            "count:*",
            "--exclude",
            "count:none",
            "--level",
            "info",
        ],
    );
    run(
        "rules",
        &["enable-event", "-k", "sched_switch", "--filter", "prev_pid > 0"],
    );
    run(
        "rules_of_channels",
        &["enable-event", "-u", "-c", "often,rare", "count:*"],
    );
    run("rules", &["enable-event", "-k", "--syscall", "read", "--entry"]);
    run("tracked", &["track", "-k", "--pid", &place.pisted().to_string()]);
    run("tracked", &["track", "-u", "--exec", "count,other", "--cgroup", "/"]);
    run("tracked", &["untrack", "-u", "--exec", "other"]);
    run("session", &["status"]);
    run("tracked", &["track", "-u", "--all"]);
    run("session", &["start"]);
    run("regenerated", &["regenerate", "statedump"]);
    place.run(place.program("count.c"), &["1", "100"]).expect_success();
    triggers(place, printed);
    run("chunk", &["rotate"]);
    run("session", &["status"]);
    run("rules", &["disable-event", "-u", "count:*"]);
    run("session", &["stop"]);
    run(
        "session",
        &["create", "flight", "--snapshot", "-o", text(&place.path("flight"))],
    );
    run("rules", &["enable-event", "-u", "*"]);
    run("session", &["start"]);
    run("snapshot", &["snapshot", "record"]);
    run("list", &["list"]);
    run("sessions", &["list", "--sessions"]);
    run("current_session", &["set-session", "web"]);
    run("session", &["list", "-s", "web"]);
    run("session", &["destroy", "web"]);
    run("sessions", &["destroy", "--all"]);
}

/// Triggers of both domains, and a match with its outcome.
fn triggers(place: &Workplace, printed: &Printed) {
    let run = |schema: &str, command: &[&str]| printed.run(place, schema, command);
    run(
        "trigger",
        &[
            "add-trigger",
            "counted",
            "-e",
            "count:*",
            "--rotate",
            "web",
            "--at-most",
            "1",
            "--context",
            "vpid",
        ],
    );
    run("trigger", &["add-trigger", "opened", "--syscall", "open*", "--exit"]);
    run(
        "trigger",
        &[
            "add-trigger",
            "switched",
            "-k",
            "sched_switch",
            "--filter",
            "prev_prio < -100",
        ],
    );
    let mut listening = place
        .command(repository().join("build/bin/piste"))
        .args(["--json", "listen", "counted"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it can be started");
    let mut told = String::new();
    let mut stderr = BufReader::new(listening.stderr.take().expect("it is piped"));
    stderr.read_line(&mut told).expect("it can be read");
    printed.add_lines("message", &told);
    place.run(place.program("count.c"), &["1", "100"]).expect_success();
    let mut notices = String::new();
    let mut stdout = BufReader::new(listening.stdout.take().expect("it is piped"));
    while !notices.contains("\"outcome\"") {
        assert_ne!(
            stdout.read_line(&mut notices).expect("it can be read"),
            0,
            "{told}{notices}"
        );
    }
    listening.kill().expect("it runs");
    listening.wait().expect("it ends");
    printed.add_lines("notice", &notices);
    run("triggers", &["list-triggers"]);
    run("trigger", &["remove-trigger", "counted"]);
    run("triggers", &["remove-trigger", "opened", "switched"]);
}

fn lists(place: &Workplace, printed: &Printed) {
    let program = place.program("count.c");
    printed.run(place, "kernel_events", &["list", "-k", "sched:*"]);
    printed.run(place, "syscalls", &["list", "--syscalls", "open*"]);
    printed.run(place, "places", &["list", "--symbols", text(&program), "main"]);
    printed.run(place, "version", &["version"]);
    printed.run(place, "checks", &["doctor"]);
    latency(place, printed);
    bench(place, printed);
}

/// Each loop, and the settings alone.
fn latency(place: &Workplace, printed: &Printed) {
    for options in [
        "npt --loops 50000 --fail-above 1h",
        "gaps --loops 50000 --threshold 1us",
        "timer --loops 20 --load cpu,network",
        "wakeup --loops 20",
        "npt --loops 50000 --threshold 24h --output never",
        "timer --threshold 1ns --output crossed",
    ] {
        let options = format!("latency {options}");
        printed.run(place, "latency", &options.split(' ').collect::<Vec<_>>());
    }
    for (schema, options) in [
        ("latency_tracers", "npt --tracer none,piste --loops 5000"),
        ("latency_rates", "npt --tracer piste --find-rate --duration 20ms"),
        ("latency_events", "event --loops 5000"),
    ] {
        let options = format!("latency {options}");
        printed.run(place, schema, &options.split(' ').collect::<Vec<_>>());
    }
    printed.run(place, "latency_restore", &["latency", "--restore"]);
    let program = "latency program --event a:b --end-event a:c --threshold 1s --duration 1ms --output never";
    printed.run(place, "latency_program", &program.split(' ').collect::<Vec<_>>());
    printed.run(place, "latency_preflight", &["latency", "--preflight"]);
}

/// What can be measured, a result with rows of all kinds, and the result compared with itself.
fn bench(place: &Workplace, printed: &Printed) {
    // It floods the rings of others, and tests of `piste bench` expect that nothing in tracefs is of another run.
    let _alone = kernel::alone();
    printed.run(place, "bench_list", &["bench", "--list"]);
    let result = place.path("bench.json");
    let peers = [
        "floor",
        "piste",
        "piste-steps",
        "tracefs",
        "--quick",
        "-o",
        text(&result),
    ];
    printed.run(place, "bench", &[&["bench"], &peers[..]].concat());
    printed.run(
        place,
        "bench_comparison",
        &["bench", "compare", text(&result), text(&result)],
    );
    let job = [
        "--rounds",
        "2",
        "--record=--no-kernel",
        "--record=-a --no-user --preset sched",
        "--",
        "true",
    ];
    printed.run(place, "bench_overhead", &[&["bench", "overhead"], &job[..]].concat());
    printed.run(place, "calibrate", &["calibrate", "--quick"]);
    printed.run(place, "calibrate", &["calibrate", "--show"]);
}

/// A recording of a program and the kernel.
fn recorded(place: &Workplace, printed: &Printed) -> String {
    let trace = text(&place.path("trace")).to_owned();
    let summary = place.path("summary.json");
    let presets = "sched,syscalls,irq,io,mem,net";
    let options = [
        "record",
        "--preset",
        presets,
        "-o",
        &trace,
        "--summary",
        text(&summary),
        "--",
    ];
    let recorded = place.piste(&[&options[..], &["python3", "-c", WORK]].concat());
    recorded.expect_success();
    printed.add_lines("record", &fs::read_to_string(&summary).expect("a summary"));
    trace
}

/// Everything that reads traces.
fn read(place: &Workplace, printed: &Printed, trace: &str) {
    let run = |schema: &str, command: &[&str]| printed.run(place, schema, command);
    run("info", &["info", trace]);
    run("stats", &["stats", trace, "--processes"]);
    run("insights", &["insights", trace]);
    run("report", &["report", trace, "-o", text(&place.path("report.html"))]);
    let intervals = place.piste_succeeds(&["--json", "top", trace, "--interval", "20ms"]);
    printed.add_lines("top", &intervals);
    run("diff", &["diff", trace, trace]);
    let all = run("analyses", &["analyze"]);
    for analysis in all["analyses"].as_array().expect("a list") {
        let name = analysis["name"].as_str().expect("a name");
        let periods = [
            "--begin-event",
            "name == \"syscall_entry_openat\"",
            "--end-event",
            "name == \"syscall_exit_openat\"",
        ];
        match name {
            // Of programs that this recording has no events of.
            "heap" | "flame" => {}
            "periods" => {
                _ = run(
                    "analysis",
                    &[&["analyze", name, trace, "--top", "3"], &periods[..]].concat(),
                )
            }
            _ => _ = run("analysis", &["analyze", name, trace]),
        }
    }
    run("rows", &["query", trace, "SELECT * FROM events LIMIT 100"]);
    run("rows", &["query", trace, "SELECT * FROM threads"]);
    let events = place.piste_succeeds(&["view", "--json", "-n", "2000", trace]);
    printed.add_lines("event", &events);
    let named = place.piste_succeeds(&["view", "--json", "--symbols", "-n", "2000", trace]);
    assert!(named.contains("\"symbol\":"), "{named:.1000}");
    printed.add_lines("event", &named);
    let fields = place.piste_succeeds(&["view", "--json", "-n", "100", "--fields", "ret,$pid,next_comm", trace]);
    printed.add_lines("event_fields", &fields);
    let kernel = format!("{trace}/kernel");
    run(
        "trimmed",
        &["trim", trace, "-o", text(&place.path("trimmed")), "--event", "sched_*"],
    );
    run(
        "trimmed",
        &["export", &kernel, "--format", "ctf2", "-o", text(&place.path("ctf2"))],
    );
    let sample = repository().join("crates/import/tests/samples/v7.dat");
    run(
        "imported",
        &["import", text(&sample), "-o", text(&place.path("imported"))],
    );
    for format in ["perfetto", "chrome", "json", "parquet"] {
        let output = place.path(&format!("exported.{format}"));
        run("exported", &["export", trace, "--format", format, "-o", text(&output)]);
    }
    let exported = fs::read_to_string(place.path("exported.json")).expect("it is there");
    let exported: Value = serde_json::from_str(&exported).expect("JSON");
    for event in exported["events"].as_array().expect("events").iter().take(100) {
        printed.add("event", event.clone());
    }
}

/// A command that goes on for longer than a second, since nobody reads what it writes, tells how far it is.
fn progress(place: &Workplace, printed: &Printed, trace: &str) {
    let mut viewing = place
        .command(repository().join("build/bin/piste"))
        .args(["--json", "view", trace])
        .env("PISTE_PROGRESS", "json")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it can be started");
    let mut told = String::new();
    let mut stderr = BufReader::new(viewing.stderr.take().expect("it is piped"));
    while !told.contains("progress") {
        assert_ne!(stderr.read_line(&mut told).expect("it can be read"), 0, "{told}");
    }
    viewing.kill().expect("it runs");
    viewing.wait().expect("it ends");
    let last = told.lines().next_back().unwrap_or_default();
    let way: Value = serde_json::from_str(last).expect("JSON");
    let bytes = |key: &str| way["progress"][key].as_u64().expect("a number");
    assert!(
        bytes("total_bytes") > 0 && bytes("done_bytes") <= bytes("total_bytes"),
        "{told}"
    );
    printed.add_lines("message", &told);
}

/// A failure is an object on stderr, and nothing on stdout, whoever finds it.
fn failures(place: &Workplace, printed: &Printed, trace: &str) {
    for (status, command) in [
        (1, &["status", "-s", "none"][..]),
        (1, &["stats", "nowhere"]),
        (2, &["analyze", "heep", trace]),
        (2, &["stats"]),
        (2, &["stats", "--none", trace]),
        (2, &["view", trace, "--filter", "a =="]),
        (2, &["query", trace, "SELECT none FROM events"]),
        (1, &["query", "nowhere", "SELECT name FROM events"]),
        (127, &["record", "-o", "new", "--", "no-such-program"]),
    ] {
        let failed = place.piste(&[&["--json"], command].concat());
        assert_eq!((failed.status, &*failed.stdout), (status, ""), "{command:?}: {failed}");
        let last = failed.stderr.lines().next_back().unwrap_or_default();
        let message: Value =
            serde_json::from_str(last).unwrap_or_else(|error| panic!("{command:?}: {error}: {failed}"));
        assert_eq!(message["error"]["exit_status"], status, "{command:?}: {failed}");
        printed.add_lines("message", &failed.stderr);
    }
}
