// SPDX-License-Identifier: MIT OR Apache-2.0
//! SQL sees the rows that `piste view` and babeltrace2 show; what it is not asked for is not read; its files are read by others.

#[allow(dead_code, reason = "a part of another test")]
#[path = "../../../crates/ctf/tests/conformance/notation.rs"]
mod notation;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Stdio;

use piste_support::build_tree::{binary, repository};
use piste_support::{Finished, Recording, Workplace, process, report};
use serde_json::Value;

fn record(place: &Workplace, events: &str) -> Recording {
    let options = ["-u", "count:*", "--block", "forever"];
    let recording = place.record(&options, place.program("count.c"), &["4", events]);
    recording.expect_whole();
    recording
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// The rows of a query, in the order of its columns' names.
fn rows(place: &Workplace, trace: &Path, sql: &str) -> Vec<Value> {
    let printed = place.piste_succeeds(&["query", "--format", "ndjson", text(trace), sql]);
    let row = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    printed.lines().map(row).collect()
}

/// The one number that a query has.
fn number(place: &Workplace, trace: &Path, sql: &str) -> u64 {
    let rows = rows(place, trace, sql);
    let [row] = &rows[..] else { panic!("{sql}: {rows:?}") };
    let number = row.as_object().and_then(|row| row.values().next());
    let number = number.unwrap_or_else(|| panic!("{sql}: {row}"));
    report::number(number).cast_unsigned()
}

#[test]
fn rows_are_the_events_that_babeltrace2_shows() {
    let place = Workplace::new();
    let recording = record(&place, "500");
    let trace = recording.trace();
    let sql = "SELECT time_ns, name, cpu, pid, tid, thread, number FROM events ORDER BY thread, number";
    let ours = rows(&place, trace.path(), sql);
    let mut theirs = trace.events();
    assert_eq!((ours.len(), theirs.len()), (2000, 2000));
    theirs.sort_by_key(|event| (event.number("thread"), event.number("number")));
    let mut times = Vec::new();
    for (ours, theirs) in ours.iter().zip(&theirs) {
        let context = |name: &str| theirs.context(name).parse::<u64>().ok();
        assert_eq!(ours["name"], theirs.name, "{ours}");
        assert_eq!(ours["number"], theirs.number("number"), "{ours}");
        assert_eq!(ours["thread"], theirs.number("thread"), "{ours}");
        assert_eq!(ours["pid"].as_u64(), context("vpid"), "{ours}");
        assert_eq!(ours["tid"].as_u64(), context("vtid"), "{ours}");
        assert_eq!(ours["cpu"].as_u64(), context("cpu_id"), "{ours}");
        times.push((theirs.ticks, report::number(&ours["time_ns"])));
    }
    times.sort_unstable();
    assert!(times.is_sorted_by_key(|(_, ns)| *ns), "times are those of other events");
}

#[test]
fn groups_count_what_stats_counts() {
    let place = Workplace::new();
    let recording = record(&place, "5000");
    let trace = recording.trace();
    let path = trace.path();
    let stats = place.piste_json(&["stats", text(path)]);
    let counts = rows(
        &place,
        path,
        "SELECT name, COUNT(*) AS events FROM events GROUP BY name",
    );
    let of_stats = stats["by_event"].as_array().expect("names");
    assert_eq!(counts.len(), of_stats.len());
    assert_eq!(counts[0]["events"], of_stats[0]["count"]);
    // The table of a name, in its three ways.
    for table in ["\"count:tick\"", "count.tick", "events WHERE name LIKE 'count:%'"] {
        assert_eq!(
            number(&place, path, &format!("SELECT count(*) FROM {table}")),
            20_000,
            "{table}"
        );
    }
    let streams = number(&place, path, "SELECT count(*) FROM streams WHERE begin <= \"end\"");
    assert_eq!(streams, stats["streams"].as_array().expect("streams").len() as u64);
    assert_eq!(number(&place, path, "SELECT count(*) FROM findings"), 0);
    let tables = place.piste_succeeds(&["query", text(path), "SHOW TABLES"]);
    let words: Vec<&str> = tables.split_whitespace().collect();
    let of_trace = [
        "cpu_waits",
        "events",
        "findings",
        "io_requests",
        "irqs",
        "processes",
        "sched_slices",
        "spans",
        "streams",
        "syscalls",
        "thread_states",
        "threads",
    ];
    let mut expected = vec!["schema", "table"];
    expected.extend(of_trace.into_iter().flat_map(|table| ["trace", table]));
    expected.extend(["count", "tick"]);
    assert_eq!(words, expected);
}

#[test]
fn conditions_choose_what_is_read() {
    let place = Workplace::new();
    let recording = record(&place, "100000");
    let trace = recording.trace();
    let path = trace.path();
    let packets = |condition: &str| {
        let sql = format!("EXPLAIN SELECT count(number) FROM events WHERE {condition}");
        let plan = place.piste_succeeds(&["query", "--format", "csv", text(path), &sql]);
        let packets = plan.split("packets=").nth(1).unwrap_or_else(|| panic!("{plan}"));
        let digits = packets.chars().take_while(char::is_ascii_digit).collect::<String>();
        digits.parse::<u64>().unwrap_or_else(|_| panic!("{plan}"))
    };
    let all = packets("thread >= 0");
    // That of time may be beyond all of them, where the machine stood still.
    let median = "SELECT time_ns FROM events ORDER BY time_ns LIMIT 1 OFFSET 200000";
    let middle_ns = number(&place, path, median);
    let early = format!("time_ns <= {middle_ns}");
    let late = format!("time > to_timestamp_nanos({middle_ns})");
    let (few, others) = (packets(&early), packets(&late));
    assert!(
        all > 8 && few < all && others < all,
        "{few} and {others} of {all} packets"
    );
    let count = |condition: &str| number(&place, path, &format!("SELECT count(*) FROM events WHERE {condition}"));
    assert_eq!(count(&early) + count(&late), 400_000);
    assert_eq!(packets("name = 'count:tock'"), 0);
    assert_eq!(packets("stream < 0"), 0);
    assert_eq!(packets("stream = 0") + packets("stream > 0"), all);
}

#[test]
fn every_format_has_the_same_rows() {
    let place = Workplace::new();
    let recording = record(&place, "100");
    let trace = recording.trace();
    let folder = text(trace.path());
    let sql = "SELECT thread, sum(number) AS total FROM events GROUP BY thread ORDER BY thread";
    let query = |format: &str| place.piste_succeeds(&["query", "--format", format, folder, sql]);
    assert_eq!(query("csv"), "thread,total\n0,4950\n1,4950\n2,4950\n3,4950\n");
    assert_eq!(
        query("table"),
        "thread  total\n     0   4950\n     1   4950\n     2   4950\n     3   4950\n"
    );
    let json: Vec<Value> = serde_json::from_str(&query("json")).expect("JSON");
    assert_eq!(json, rows(&place, trace.path(), sql));
    assert_eq!(place.piste_json(&["query", folder, sql]), Value::from(json));
    // A file is written at once, over an older one.
    for (file, magic) in [("rows.parquet", "PAR1"), ("rows.arrow", "ARROW1")] {
        let path = place.path(file);
        fs::write(&path, "older").expect("a file");
        let format = file.split('.').nth(1).expect("a format");
        let finished = place.piste(&["query", "--format", format, "-o", text(&path), folder, sql]);
        finished.expect_silent_success();
        assert!(
            fs::read(&path).expect("the file").starts_with(magic.as_bytes()),
            "{file}"
        );
    }
    let script = place.path("statements.sql");
    fs::write(
        &script,
        "SELECT 1 AS one;\nCREATE VIEW ticks AS SELECT * FROM count.tick; SELECT count(*) AS n FROM ticks;",
    )
    .expect("a file");
    let mut command = place.command(binary("piste"));
    command.args(["query", "--format", "ndjson", folder]);
    command.stdin(fs::File::open(&script).expect("the file"));
    let printed = command.output().expect("piste runs").stdout;
    assert_eq!(String::from_utf8_lossy(&printed), "{\"one\":1}\n{\"n\":400}\n");
}

#[test]
fn what_cannot_be_understood_is_said_and_nothing_is_written() {
    let place = Workplace::new();
    let recording = record(&place, "10");
    let folder = recording.trace().path().to_owned();
    let refused = |sql: &str, status: i32| -> Finished {
        let file = place.path("never.csv");
        let finished = place.piste(&["query", "--format", "csv", "-o", text(&file), text(&folder), sql]);
        assert_eq!(finished.status, status, "{sql}: {finished}");
        assert!(finished.stderr.starts_with("piste: "), "{finished}");
        assert!(!file.exists(), "{sql}");
        finished
    };
    assert!(
        refused("SELECT numbr FROM events", 2)
            .stderr
            .contains("did you mean number?")
    );
    assert!(
        refused("SELECT * FROM \"count:tik\"", 2)
            .stderr
            .contains("did you mean \"count:tick\"?")
    );
    refused("SELECT FROM WHERE", 2);
    refused("DELETE FROM events", 2);
    refused("DROP TABLE events", 2);
    refused("SELECT 1 ; SELECT 2", 2);
    refused("SELECT 1 / (number - number) FROM events", 1);
    let left: Vec<_> = fs::read_dir(place.path("."))
        .expect("a folder")
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    assert!(
        !left.iter().any(|name| name.to_string_lossy().starts_with(".piste-")),
        "{left:?}"
    );
    let missing = place.piste(&["query", text(&place.path("nothing")), "SELECT 1"]);
    assert_eq!(missing.status, 1, "{missing}");
}

#[test]
fn damage_costs_what_is_damaged_and_is_found() {
    let place = Workplace::new();
    let recording = record(&place, "5000");
    let trace = recording.trace();
    let streams = rows(
        &place,
        trace.path(),
        "SELECT file, bytes FROM streams ORDER BY bytes DESC LIMIT 1",
    );
    let (file, bytes) = (
        streams[0]["file"].as_str().expect("a file"),
        streams[0]["bytes"].as_u64().expect("bytes"),
    );
    fs::File::options()
        .write(true)
        .open(file)
        .and_then(|file| file.set_len(bytes - 100))
        .expect("a cut");
    let sql = "SELECT count(*) AS n FROM events";
    let finished = place.piste(&["query", "--format", "ndjson", text(trace.path()), sql]);
    finished.expect_success();
    assert!(finished.stderr.contains("the file ends after"), "{finished}");
    let events = place.piste_json(&["stats", text(trace.path())])["events"].as_u64();
    let counted: Value = serde_json::from_str(&finished.stdout).expect("a row");
    assert_eq!(counted["n"].as_u64(), events);
    let kinds = rows(&place, trace.path(), "SELECT kind FROM findings");
    assert!(kinds.iter().any(|row| row["kind"] == "cut_file"), "{kinds:?}");
}

/// One trace for each feature of both versions of the format: all types, and names that have other types in other traces.
#[test]
fn every_type_has_a_column() {
    let place = Workplace::new();
    let suite = repository().join("crates/ctf/tests/conformance");
    let all = place.path("all");
    fs::create_dir(&all).expect("a folder");
    let mut count = 0;
    for entry in fs::read_dir(suite.join("cases")).expect("the cases") {
        let path = entry.expect("a case").path();
        if path.extension().is_none_or(|extension| extension != "trace") {
            continue;
        }
        let description = fs::read_to_string(&path).unwrap_or_default();
        let Ok(trace) = notation::Trace::parse(&description, &suite) else {
            continue;
        };
        let folder = all.join(path.file_stem().expect("a name"));
        fs::create_dir(&folder).expect("a folder");
        fs::write(folder.join("metadata"), &trace.metadata).expect("metadata");
        for (name, bytes) in &trace.streams {
            fs::write(folder.join(name), bytes).expect("a stream");
        }
        count += 1;
    }
    assert!(count > 100, "{count}");
    let stats = place.piste(&["--json", "stats", text(&all)]);
    let stats: Value = serde_json::from_str(&stats.expect_success().stdout).expect("JSON");
    for format in ["ndjson", "csv"] {
        let finished = place.piste(&["query", "--format", format, text(&all), "SELECT * FROM events"]);
        finished.expect_success();
        let head = usize::from(format == "csv");
        // Texts may have line ends, which CSV keeps.
        let lines = finished.stdout.lines().count() - head;
        let events = stats["events"].as_u64().expect("a count") as usize;
        assert!(
            lines == events || head == 1 && lines > events,
            "{format}: {lines} of {events}"
        );
    }
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let place = Workplace::new();
    let recording = record(&place, "50000");
    let folder = recording.trace().path().to_owned();
    for format in ["table", "json", "ndjson", "csv", "arrow", "parquet"] {
        let mut command = place.command(binary("piste"));
        command.args(["query", "--format", format, text(&folder), "SELECT * FROM events"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut piste = command.spawn().expect("piste starts");
        drop(piste.stdout.take());
        let output = piste.wait_with_output().expect("piste ends");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{format}: {said}");
    }
}

/// Reads a folder of Parquet as the script says; the script prints JSON.
fn python(place: &Workplace, script: &str, folder: &Path) -> BTreeMap<String, Value> {
    let tool = process::run(&mut place.command(repository().join("tools/python-packages")));
    let python = tool.expect_success().stdout.trim().to_owned();
    let script = repository().join("tests/python").join(script);
    let finished = process::run(place.command(python).arg(script).arg(folder));
    finished.expect_success();
    serde_json::from_str(&finished.stdout).unwrap_or_else(|error| panic!("{error}: {finished}"))
}

#[test]
fn parquet_has_the_rows_for_pyarrow_and_duckdb() {
    let place = Workplace::new();
    let recording = record(&place, "2000");
    let trace = recording.trace();
    let folder = place.path("out");
    let arguments = ["export", "--format", "parquet", "-o", text(&folder), text(trace.path())];
    place.piste(&arguments).expect_success();
    let sql = "SELECT time_ns, name, tid, thread, number FROM events ORDER BY time_ns, tid, number";
    let wanted: Vec<Vec<Value>> = rows(&place, trace.path(), sql)
        .iter()
        .map(|row| {
            ["time_ns", "name", "tid", "thread", "number"]
                .map(|column| match column {
                    "time_ns" => report::number(&row[column]).into(),
                    _ => row[column].clone(),
                })
                .to_vec()
        })
        .collect();
    for (reader, read) in python(&place, "read_parquet.py", &folder) {
        assert!(read == Value::from(wanted.clone()), "{reader} reads other rows");
    }
}
