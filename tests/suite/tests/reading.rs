// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste view` prints what babeltrace2 prints, byte for byte; `piste stats` counts what babeltrace2 counts; damage costs no more than
//! what is damaged.

#[allow(dead_code, reason = "a part of another test")]
#[path = "../../../crates/ctf/tests/conformance/notation.rs"]
mod notation;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use piste_support::build_tree::{binary, repository};
use piste_support::report::number;
use piste_support::{Finished, Recording, Workplace, process};

/// Half of the world is not in UTC.
const ZONES: [&str; 2] = ["UTC", "EST5EDT,M3.2.0,M11.1.0"];

fn record(place: &Workplace, options: &[&str], events: &str) -> Recording {
    let options = [&["-u", "count:*"], options].concat();
    place.record(&options, place.program("count.c"), &["4", events])
}

fn view(place: &Workplace, zone: &str, arguments: &[&str]) -> Finished {
    let mut command = place.command(binary("piste"));
    process::run(command.env("TZ", zone).arg("view").args(arguments))
}

fn babeltrace2(place: &Workplace, zone: &str, arguments: &[&str]) -> Finished {
    let mut command = place.command("babeltrace2");
    process::run(command.env("TZ", zone).args(arguments))
}

/// Asserts without printing megabytes.
fn expect_same(ours: &str, theirs: &str, what: &str) {
    let differ = ours.lines().zip(theirs.lines()).find(|(ours, theirs)| ours != theirs);
    assert_eq!(differ, None, "{what}");
    assert!(ours == theirs, "{what}: {} and {} bytes", ours.len(), theirs.len());
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn a_recorded_trace_is_shown_as_babeltrace2_shows_it() {
    let place = Workplace::new();
    let recording = record(&place, &["--block", "forever"], "5000");
    recording.expect_whole();
    let trace = recording.trace();
    let folder = text(trace.path());
    for zone in ZONES {
        let ours = view(&place, zone, &[folder]);
        ours.expect_silent_success();
        assert_eq!(ours.stdout.lines().count(), 20_000);
        expect_same(&ours.stdout, &babeltrace2(&place, zone, &[folder]).stdout, zone);
    }
}

#[test]
fn losses_are_told_as_babeltrace2_tells_them() {
    let place = Workplace::new();
    let tiny = ["--subbuf-size", "4K", "--num-subbuf", "2"];
    let recording = record(&place, &tiny, "100000");
    let trace = recording.trace();
    let folder = text(trace.path());
    assert!(recording.discarded() > 0, "nothing was lost");
    // Whatever way the folder is named.
    let name = trace.path().file_name().and_then(|name| name.to_str()).expect("UTF-8");
    let folder = format!("{folder}/../{name}");
    let folder = folder.as_str();
    let (ours, theirs) = (view(&place, "UTC", &[folder]), babeltrace2(&place, "UTC", &[folder]));
    expect_same(&ours.stdout, &theirs.stdout, "events");
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&ours.stderr), sorted(&theirs.stderr));
    let stats = place.piste_json(&["stats", folder]);
    assert_eq!(stats["discarded_events"], recording.discarded());
    assert_eq!(stats["events"], recording.events());
}

#[test]
fn traces_of_others_are_shown_as_babeltrace2_shows_them() {
    let place = Workplace::new();
    let suite = repository().join("crates/ctf/tests/conformance");
    let mut count = 0;
    for entry in fs::read_dir(suite.join("cases")).expect("there are cases") {
        let path = entry.expect("an entry").path();
        let Some(name) = path.to_str().and_then(|path| path.strip_suffix(".trace")) else {
            continue;
        };
        let description = fs::read_to_string(&path).expect("a description");
        let expected = fs::read_to_string(path.with_extension("text")).expect("its text");
        let trace = notation::Trace::parse(&description, &suite).expect("it is a trace");
        let is_damaged = expected
            .lines()
            .any(|line| line.starts_with("fault") || line.starts_with("error"));
        if trace.not_babeltrace2 || is_damaged {
            continue;
        }
        let folder = place.path(&format!("trace{count}"));
        write(&trace, &folder);
        let (ours, theirs) = (
            view(&place, "UTC", &[text(&folder)]),
            babeltrace2(&place, "UTC", &[text(&folder)]),
        );
        ours.expect_success();
        expect_same(&ours.stdout, &theirs.stdout, name);
        count += 1;
    }
    assert!(count > 50, "only {count} traces");
}

fn write(trace: &notation::Trace, folder: &Path) {
    fs::create_dir(folder).expect("a folder is made");
    fs::write(folder.join("metadata"), &trace.metadata).expect("metadata is written");
    for (name, bytes) in &trace.streams {
        fs::write(folder.join(name), bytes).expect("a stream is written");
    }
}

#[test]
fn parts_of_a_trace_are_shown() {
    let place = Workplace::new();
    let recording = record(&place, &["--block", "forever"], "1000");
    let trace = recording.trace();
    let folder = text(trace.path());
    let all = view(&place, "UTC", &[folder]).stdout;
    let lines: Vec<&str> = all.lines().collect();
    let shown = |arguments: &[&str]| view(&place, "UTC", &[&[folder], arguments].concat()).stdout;

    expect_same(&shown(&["-n", "10"]), &(lines[..10].join("\n") + "\n"), "-n");
    assert_eq!(shown(&["--event", "count:*"]).lines().count(), lines.len());
    assert_eq!(shown(&["--event", "other:*"]), "");

    let time = |line: &str| line[1..19].to_owned();
    let (begin, end) = (time(lines[1000]), time(lines[2000]));
    let part = shown(&["--begin", &begin, "--end", &end]);
    let expected: Vec<&&str> = lines
        .iter()
        .filter(|line| time(line) >= begin && time(line) <= end)
        .collect();
    assert!(expected.len() >= 1001, "{}", expected.len());
    let rest = |line: &str| line.split(") ").skip(1).collect::<String>();
    let (part, expected): (Vec<String>, Vec<String>) = (
        part.lines().map(|line| time(line) + &rest(line)).collect(),
        expected.into_iter().map(|line| time(line) + &rest(line)).collect(),
    );
    assert!(part == expected, "{} and {} events", part.len(), expected.len());
    assert_eq!(shown(&["--begin", "+0s", "--end", "-0s"]).lines().count(), lines.len());
    assert_eq!(
        shown(&["--begin", "1970-01-02 00:00:00", "--end", "86400000000001"]),
        ""
    );
}

#[test]
fn stats_count_what_babeltrace2_counts() {
    let place = Workplace::new();
    let recording = record(&place, &["--block", "forever"], "20000");
    let trace = recording.trace();
    let folder = text(trace.path());
    let expected: Vec<(String, u64)> = trace.counts().into_iter().collect();
    for threads in [&[][..], &["--threads", "1"], &["--threads", "7"]] {
        let stats = place.piste_json(&[&["stats", folder], threads].concat());
        assert_eq!(stats["events"], trace.event_count(), "{stats}");
        assert_eq!(stats["by_event"][0]["name"], *expected[0].0);
        assert_eq!(stats["by_event"][0]["count"], expected[0].1);
        assert_eq!(stats["lost_packets"], 0);
        assert!(number(&stats["begin_ns"]) < number(&stats["end_ns"]), "{stats}");
        assert_eq!(stats["findings"], serde_json::json!([]));
    }
    let text = place.piste_succeeds(&["stats", folder]);
    assert!(
        text.starts_with("80,000 events, ") && text.contains(", nothing lost\n"),
        "{text}"
    );
}

#[test]
fn a_damaged_trace_gives_what_can_be_read_and_says_what_cannot() {
    let place = Workplace::new();
    let recording = record(&place, &["--block", "forever"], "5000");
    let trace = recording.trace();
    let stream: PathBuf = trace.path().join("user").join(&trace.streams()[0]);
    let bytes = fs::read(&stream).expect("a stream");
    fs::write(&stream, &bytes[..bytes.len() - 1000]).expect("it is cut");
    let folder = text(trace.path());
    let shown = view(&place, "UTC", &[folder]);
    shown.expect_success();
    let count = shown.stdout.lines().count();
    assert!(count > 10_000 && count < 20_000, "{count} events");
    assert_eq!(shown.stderr.lines().count(), 1, "{}", shown.stderr);
    assert!(shown.stderr.contains(": the file ends after "), "{}", shown.stderr);
    let stats = place.piste_json(&["stats", folder]);
    assert_eq!(stats["events"], count);
    assert_eq!(stats["findings"][0]["kind"], "cut_file");
}

#[test]
fn nothing_to_read_is_a_failure_and_nobody_who_reads_is_none() {
    let place = Workplace::new();
    let missing = view(&place, "UTC", &["/nonexistent"]);
    assert_eq!(missing.status, 1, "{missing}");
    assert!(
        missing.stderr.starts_with("piste: cannot read /nonexistent: "),
        "{missing}"
    );
    fs::create_dir(place.path("empty")).expect("a folder is made");
    let empty = view(&place, "UTC", &["empty"]);
    assert_eq!(empty.status, 1, "{empty}");
    assert!(
        empty.stderr.contains("a folder that contains a file `metadata`"),
        "{empty}"
    );

    let recording = record(&place, &["--block", "forever"], "20000");
    let trace = recording.trace();
    let script = format!(
        "set -o pipefail; {} view {} | head -n 3",
        binary("piste").display(),
        text(trace.path())
    );
    let mut shell = place.command("/bin/bash");
    let head = process::run(shell.args(["-c", &script]).stdin(Stdio::null()));
    head.expect_silent_success();
    assert_eq!(head.stdout.lines().count(), 3);
}
