// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste analyze heap` and `flame` on programs that take, forget and call what their source says.

use std::path::{Path, PathBuf};

use piste_support::kernel::workplace as kernel_workplace;
use piste_support::process::allowed_cpu;
use piste_support::report::number;
use piste_support::{Compilation, Workplace};
use serde_json::Value;

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn analyze(place: &Workplace, name: &str, trace: &Path, options: &[&str]) -> Value {
    place.piste_json(&[&["analyze", name, text(trace), "--limit", "100000"], options].concat())
}

fn rows<'v>(report: &'v Value, table: &str) -> &'v Vec<Value> {
    report[table]
        .as_array()
        .unwrap_or_else(|| panic!("no {table}: {report:#}"))
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

fn notes(report: &Value) -> String {
    rows(report, "notes")
        .iter()
        .map(|note| format!("{}\n", word(note)))
        .collect()
}

// ---- heap ----

/// Linked with nothing of Piste's.
fn plain(source: &str) -> Compilation {
    Compilation::of(&[source]).with("-Wl,--as-needed")
}

fn library(place: &Workplace, forgetter: &str, forgotten: u32) -> PathBuf {
    let library = plain("heap_library.c")
        .shared()
        .with(format!("-DFORGETTER={forgetter}"))
        .with(format!("-DFORGOTTEN={forgotten}"));
    place.compile(&library, &format!("lib{forgetter}.so"))
}

/// Of the sizes that the program takes: the C library and the dynamic linker take smaller ones.
fn leaks(report: &Value) -> Vec<(String, i64, i64)> {
    let leak = |row: &Value| {
        let (bytes, count) = (number(&row["live_bytes"]), number(&row["live_count"]));
        (word(&row["function"]).to_owned(), bytes, count)
    };
    let mut leaks: Vec<_> = rows(report, "leaks")
        .iter()
        .map(leak)
        .filter(|(_, bytes, _)| *bytes > 40_000)
        .collect();
    leaks.sort();
    leaks
}

fn leak(function: &str, bytes: i64, count: i64) -> (String, i64, i64) {
    (function.to_owned(), bytes, count)
}

#[test]
fn what_is_never_freed_is_known_by_who_asked_for_it() {
    let place = Workplace::new();
    for position in ["-pie", "-no-pie"] {
        let libraries = [
            library(&place, "first_one", 60013),
            library(&place, "second_one", 60029),
        ];
        let program = place.compile(&plain("heap_leaks.c").with(position), &format!("heap_leaks{position}"));
        // Two libraries one after the other, as a rule at the same addresses.
        let arguments = libraries.each_ref().map(|library| text(library));
        let recording = place.record(&["--preload", "libc-callers,dl"], program, &arguments);
        recording.expect_whole();
        let said: Vec<i64> = recording
            .finished
            .stdout
            .split_whitespace()
            .map(|word| word.parse().expect("a number"))
            .collect();
        let report = analyze(&place, "heap", recording.trace().path(), &[]);
        assert_eq!(
            leaks(&report),
            [
                leak("aligns", 40_009, 1),
                leak("first_one", 60_013, 1),
                leak("forgets", 1_000_030, 10),
                leak("grows", 300_007, 1),
                leak("second_one", 60_029, 1),
            ],
            "{report:#}"
        );
        let [process] = &rows(&report, "processes")[..] else {
            panic!("{report:#}")
        };
        // What the C library and the linker take in between is far smaller than what the program does.
        let (peak, live) = (number(&process["peak_bytes"]), number(&process["live_bytes"]));
        assert!((0..40_000).contains(&(peak - said[0])), "{process:#}");
        assert!((0..40_000).contains(&(live - said[1] - 60_013 - 60_029)), "{process:#}");
        assert_eq!(number(&process["failed"]), 1);
        assert_eq!(number(&process["largest_bytes"]), 300_007);
        assert_eq!(word(&process["comm"]), format!("heap_leaks{position}"));
        let of = |function: &str| {
            let mut callers = rows(&report, "callers").iter();
            let row = callers
                .find(|row| row["function"] == function)
                .unwrap_or_else(|| panic!("{function}"));
            (
                number(&row["count"]),
                number(&row["bytes"]),
                word(&row["line"]).to_owned(),
            )
        };
        let (count, bytes, line) = of("gives_back");
        assert_eq!((count, bytes), (7, 7 * 210_003));
        assert!(line.starts_with("heap_leaks.c:"), "{line}");
        assert_eq!(of("begins").1, 50_021);
    }
}

#[test]
fn a_recording_without_callers_says_how_to_get_them_and_counts_all_the_same() {
    let place = Workplace::new();
    let recording = place.record(
        &["--preload", "libc"],
        place.compile(&plain("heap_leaks.c"), "heap_leaks"),
        &[],
    );
    recording.expect_whole();
    let report = analyze(&place, "heap", recording.trace().path(), &[]);
    assert!(notes(&report).contains("--preload libc-callers"), "{report:#}");
    let [leak] = &rows(&report, "leaks")[..] else {
        panic!("{report:#}")
    };
    assert_eq!(leak["function"], Value::Null);
    let live = number(&leak["live_bytes"]);
    assert_eq!(live, number(&rows(&report, "processes")[0]["live_bytes"]));
    assert!((0..40_000).contains(&(live - 1_000_030 - 300_007 - 40_009)), "{live}");

    let refused = place.piste(&["record", "--no-kernel", "--preload", "libc,libc-callers", "--", "true"]);
    assert!(refused.stderr.contains("record the same calls"), "{refused}");
}

#[test]
fn a_part_of_time_knows_what_was_freed_in_it_of_before() {
    let place = Workplace::new();
    let recording = place.record(
        &["--preload", "libc-callers"],
        place.compile(&plain("heap_leaks.c"), "heap_leaks"),
        &[],
    );
    recording.expect_whole();
    let trace = recording.trace();
    // From the first block that `gives_back` takes to the one that `aligns` gives back.
    let lines = place.piste_succeeds(&[
        "view",
        text(trace.path()),
        "--clock",
        "cycles",
        "--format",
        "ndjson",
        "-e",
        "lttng_ust_libc:*",
    ]);
    let events: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let time = |name: &str, size: i64| {
        let is_meant =
            |event: &&Value| event["name"] == format!("lttng_ust_libc:{name}") && event["payload"]["size"] == size;
        number(&events.iter().find(is_meant).unwrap_or_else(|| panic!("{name} {size}"))["time_ns"])
    };
    let (begin, end) = (time("malloc", 50_021), time("posix_memalign", 40_009) - 1);
    let report = analyze(
        &place,
        "heap",
        trace.path(),
        &["--begin", &begin.to_string(), "--end", &end.to_string()],
    );
    assert_eq!(leaks(&report), [leak("grows", 300_007, 1)]);
    assert_eq!(number(&rows(&report, "processes")[0]["unknown_frees"]), 0, "{report:#}");
}

// ---- flame ----

/// Lines `CALLS FUNCTION` below a program, indented by their depth.
fn tree(report: &Value) -> Vec<String> {
    let line = |row: &Value| {
        let indent = "  ".repeat(number(&row["depth"]) as usize);
        format!("{} {indent}{}", number(&row["calls"]), word(&row["function"]))
    };
    rows(report, "calls").iter().map(line).collect()
}

#[test]
fn functions_are_counted_where_they_were_called() {
    let place = Workplace::new();
    for (name, options) in [
        ("tree_pie", &["-pie"][..]),
        ("tree_fixed", &["-no-pie"]),
        ("tree_far", &["-no-pie", "-Wl,-Ttext-segment=0x50000000"]),
    ] {
        let compilation = plain("call_tree.c").with("-finstrument-functions");
        let compilation = options.iter().fold(compilation, |so_far, option| so_far.with(*option));
        let program = place.compile(&compilation, name);
        let recording = place.record(&["--preload", "functions"], program, &[]);
        recording.expect_whole();
        let report = analyze(&place, "flame", recording.trace().path(), &[]);
        let mut lines = tree(&report);
        // The dearest come first, which depends on the machine.
        lines.sort();
        let mut expected = [
            &format!("0 {name}"),
            "1   main",
            "3     branch",
            "6       leaf",
            "1     deeper",
            "1       deeper",
            "1         deeper",
            "1           deeper",
            "1             leaf",
            "1     catches",
            "1       jumps",
            // Its call comes after the jump.
            "1       leaf",
            "1   beside",
            "1     branch",
            "2       leaf",
        ];
        expected.sort_unstable();
        assert_eq!(lines, expected, "{report:#}");
        assert!(notes(&report).contains("1 function without an exit"), "{report:#}");

        let own: i64 = rows(&report, "calls").iter().map(|row| number(&row["self_ns"])).sum();
        let total = rows(&report, "calls")
            .iter()
            .find(|row| row["depth"] == 0)
            .expect("the program");
        assert_eq!(own, number(&total["total_ns"]), "all time is somebody's own");
        let leaf = rows(&report, "functions")
            .iter()
            .find(|row| row["function"] == "leaf")
            .expect("leaf");
        assert_eq!(number(&leaf["calls"]), 10);
        assert!(word(&leaf["line"]).starts_with("call_tree.c:"), "{leaf:#}");

        let folded = place.piste_succeeds(&["analyze", "flame", "--folded", text(recording.trace().path())]);
        let sum: i64 = folded
            .lines()
            .map(|line| {
                line.rsplit_once(' ')
                    .expect("a cost")
                    .1
                    .parse::<i64>()
                    .expect("a number")
            })
            .sum();
        assert_eq!(sum, own);
        assert!(
            folded.contains(&format!("{name};main;deeper;deeper;deeper;deeper;leaf ")),
            "{folded}"
        );
    }
}

#[test]
fn names_of_a_program_that_has_changed_are_not_made_up() {
    let place = Workplace::new();
    let compile = |option: &str| {
        let compilation = plain("call_tree.c")
            .with("-finstrument-functions")
            .with("-Wl,--build-id");
        place.compile(&compilation.with(option), "call_tree")
    };
    let program = compile("-O2");
    let recording = place.record(&["--preload", "functions"], &program, &[]);
    recording.expect_whole();
    compile("-O1");
    let report = analyze(&place, "flame", recording.trace().path(), &[]);
    assert!(notes(&report).contains("gone or have changed"), "{report:#}");
    let known = ["main", "branch", "leaf"];
    for line in tree(&report).iter().skip(1) {
        assert!(!known.iter().any(|name| line.ends_with(name)), "{line}");
        assert!(line.contains("call_tree+0x"), "{line}");
    }
}

#[test]
fn flame_without_functions_and_stacks_says_how_to_get_them() {
    let place = Workplace::new();
    let recording = place.record(&["--preload", "libc"], "true", &[]);
    let refused = place.piste(&["analyze", "flame", text(recording.trace().path())]);
    refused.expect_status(1);
    assert!(refused.stderr.contains("--preload functions"), "{refused}");
    assert!(refused.stderr.contains("--callstack"), "{refused}");
}

#[test]
fn time_off_the_cpu_is_known_by_what_the_kernel_did() {
    let Some(place) = kernel_workplace() else { return };
    let program = place.program("naps.c");
    let options = [
        "record",
        "--no-user",
        "-k",
        "sched_switch",
        "--callstack",
        "kernel",
        "-o",
    ];
    let mut traces = (1..=5).map(|attempt| place.path(&format!("trace-{attempt}")));
    let cpu = allowed_cpu();
    // What was lost, nobody knows. The machine may be too busy for that now and then.
    let trace = traces.find(|trace| {
        let recorded = place.piste(
            &[
                &options[..],
                &[text(trace), "--", "taskset", "-c", &cpu, text(&program), "20"],
            ]
            .concat(),
        );
        recorded.expect_success().stderr.contains("nothing lost")
    });
    let trace = trace.expect("a recording without loss");
    let report = analyze(&place, "flame", &trace, &["--comm", "naps"]);
    let mut naps = rows(&report, "off_cpu")
        .iter()
        .filter(|row| word(&row["function"]).ends_with("hrtimer_nanosleep"));
    let nap = naps.next().unwrap_or_else(|| panic!("{report:#}"));
    // A sleep is never shorter than it was asked for. How long one took is unknown if pisted had the CPU that it began or ended on.
    assert!(number(&nap["total_ns"]) >= 5_000_000, "{nap:#}");
    assert!(naps.next().is_none(), "one path leads there: {report:#}");
    let all = rows(&report, "off_cpu")
        .iter()
        .find(|row| row["depth"] == 0)
        .expect("the thread");
    assert_eq!(word(&all["function"]), "naps");
    let folded = place.piste_succeeds(&["analyze", "flame", "--folded", "--comm", "naps", text(&trace)]);
    let is_nap = |line: &str| line.starts_with("naps;") && line.contains(";hrtimer_nanosleep;");
    assert!(folded.lines().any(is_nap), "{folded}");
    assert!(
        !folded.contains("trace_event_raw"),
        "what records is not shown: {folded}"
    );
}

// ---- two of them ----

#[test]
fn two_recordings_are_compared_by_function() {
    let place = Workplace::new();
    let program = place.compile(&plain("bursts.c").with("-finstrument-functions"), "bursts");
    let record = |helper: &str| {
        ["2", "3"].map(|rounds| {
            let recording = place.record(&["--preload", helper], &program, &[rounds, "100"]);
            recording.expect_whole().trace().path().to_owned()
        })
    };
    let changes = |name: &str, [before, after]: &[PathBuf; 2]| {
        let report = place.piste_json(&["diff", text(before), text(after), name, "--limit", "1000"]);
        let number = |row: &Value, key: &str| row[key].as_f64().unwrap_or(-1.0) as i64;
        let line = |row: &Value| {
            let (before, after) = (number(row, "before"), number(row, "after"));
            let [table, about, measure] = ["table", "about", "measure"].map(|key| word(&row[key]).to_owned());
            format!("{table} {about} {measure} {before} {after}")
        };
        rows(&report, "changes").iter().map(line).collect::<Vec<_>>()
    };
    let heap = changes("heap", &record("libc-callers"));
    for expected in [
        "callers bursts takes_one count 200 300",
        "processes bursts frees 200 300",
    ] {
        assert!(heap.iter().any(|line| line == expected), "{expected}: {heap:#?}");
    }
    assert!(!heap.iter().any(|line| line.contains("largest_bytes")), "{heap:#?}");
    let flame = changes("flame", &record("functions"));
    for expected in ["functions takes_one calls 200 300", "functions gives calls 2 3"] {
        assert!(flame.iter().any(|line| line == expected), "{expected}: {flame:#?}");
    }
}
