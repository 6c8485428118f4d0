// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `piste trim` and `piste export` write is read by others, and says the same as the trace.

#[allow(dead_code, reason = "a part of another test")]
#[path = "../../../crates/ctf/tests/conformance/notation.rs"]
mod notation;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use piste_support::build_tree::{binary, repository};
use piste_support::{Finished, Recording, Running, Workplace, kernel, process};
use rustix::process::Signal;
use serde_json::Value;

fn record(place: &Workplace, options: &[&str], events: &str) -> Recording {
    let options = [&["-u", "count:*"], options].concat();
    place.record(&options, place.program("count.c"), &["4", events])
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// The lines of events, without what counts from the event before.
fn without_deltas(shown: &Finished) -> String {
    let line = |line: &str| match (line.find("] (+"), line.find(") ")) {
        (Some(begin), Some(end)) if end > begin => format!("{}{}\n", &line[..begin], &line[end..]),
        _ => format!("{line}\n"),
    };
    shown.stdout.lines().map(line).collect()
}

fn view(place: &Workplace, arguments: &[&str]) -> String {
    let shown = place.piste(&[&["view"], arguments].concat());
    shown.expect_success();
    without_deltas(&shown)
}

fn babeltrace2(place: &Workplace, trace: &str) -> String {
    let shown = process::run(place.command("babeltrace2").args([trace]));
    shown.expect_success();
    without_deltas(&shown)
}

/// Asserts without printing megabytes.
fn expect_same(ours: &str, theirs: &str, what: &str) {
    let differ = ours.lines().zip(theirs.lines()).find(|(ours, theirs)| ours != theirs);
    assert_eq!(differ, None, "{what}");
    assert!(ours == theirs, "{what}: {} and {} bytes", ours.len(), theirs.len());
}

#[test]
fn a_trimmed_trace_has_the_events_that_view_shows_with_the_same_options() {
    let place = Workplace::new();
    let recording = record(&place, &["--block", "forever", "--subbuf-size", "16K"], "5000");
    recording.expect_whole();
    let trace = recording.trace();
    let folder = text(trace.path());
    let all = view(&place, &[folder]);
    let lines: Vec<&str> = all.lines().collect();
    let time = |line: usize| lines[line][1..19].to_owned();
    let (begin, end) = (time(5000), time(15_000));
    for (number, options) in [
        &[][..],
        &["--begin", &begin, "--end", &end],
        &["--begin", &begin],
        &["--event", "*"],
        &["--event", "*", "--end", &end],
        &["--event", "other:*"],
    ]
    .into_iter()
    .enumerate()
    {
        let output = format!("trimmed{number}");
        let trimmed = place.piste(&[&["trim", folder, "-o", &output], options].concat());
        trimmed.expect_success();
        let expected = view(&place, &[&[folder], options].concat());
        expect_same(&view(&place, &[&output]), &expected, &format!("{options:?}"));
        expect_same(
            &babeltrace2(&place, &output),
            &expected,
            &format!("{options:?}, babeltrace2"),
        );
        let stats = place.piste_json(&["stats", &output]);
        assert_eq!(stats["discarded_events"], 0, "{options:?}");
        assert_eq!(stats["lost_packets"], 0, "{options:?}");
    }
    // Packets of which all is wanted are as they were.
    for stream in trace.streams() {
        for file in [format!("user/{stream}"), format!("user/index/{stream}.idx")] {
            let (before, after) = (trace.path().join(&file), place.path("trimmed0").join(&file));
            assert!(fs::read(before).ok() == fs::read(after).ok(), "{file}");
        }
    }
}

#[test]
fn losses_keep_their_places_in_a_trimmed_trace() {
    let place = Workplace::new();
    let recording = record(&place, &["--subbuf-size", "4K", "--num-subbuf", "2"], "100000");
    let discarded = recording.discarded();
    assert!(discarded > 0, "nothing was lost");
    let trace = recording.trace();
    let folder = text(trace.path());
    for (output, options) in [
        ("whole", &[][..]),
        ("rewritten", &["--event", "*"]),
        ("none", &["--event", "other:*"]),
    ] {
        let options = [&["trim", folder, "-o", output], options].concat();
        place.piste(&options).expect_success();
        let stats = place.piste_json(&["stats", output]);
        assert_eq!(stats["discarded_events"], discarded, "{output}");
        assert_eq!(stats["lost_packets"], 0, "{output}");
    }
    assert_eq!(view(&place, &["none"]), "");
    expect_same(&view(&place, &["rewritten"]), &view(&place, &[folder]), "rewritten");
}

/// The small traces of crates/ctf, damaged or not.
fn for_each_small_trace(place: &Workplace, damaged: bool, mut look: impl FnMut(&str, &str, bool)) {
    let suite = repository().join("crates/ctf/tests/conformance");
    let mut count = 0;
    for entry in fs::read_dir(suite.join("cases")).expect("there are cases") {
        let path = entry.expect("an entry").path();
        let Some(name) = path.to_str().and_then(|path| path.strip_suffix(".trace")) else {
            continue;
        };
        let description = fs::read_to_string(&path).expect("a description");
        let expected = fs::read_to_string(path.with_extension("text")).expect("its text");
        let has = |word| expected.lines().any(|line| line.starts_with(word));
        // What is wrong in metadata leaves nothing to read.
        if has("error") || has("fault") != damaged {
            continue;
        }
        let trace = notation::Trace::parse(&description, &suite).expect("it is a trace");
        let folder = place.path(&format!("trace{count}"));
        fs::create_dir(&folder).expect("a folder is made");
        fs::write(folder.join("metadata"), &trace.metadata).expect("metadata is written");
        for (name, bytes) in &trace.streams {
            fs::write(folder.join(name), bytes).expect("a stream is written");
        }
        look(name, text(&folder), !trace.not_babeltrace2);
        count += 1;
    }
    assert!(count > if damaged { 10 } else { 80 }, "only {count} traces");
}

#[test]
fn fields_of_every_kind_are_written_elsewhere_as_they_were() {
    let place = Workplace::new();
    let mut number = 0;
    for_each_small_trace(&place, false, |name, folder, for_babeltrace2| {
        let output = format!("trimmed{number}");
        number += 1;
        let expected = view(&place, &[folder]);
        // Every event is looked at, hence written by itself.
        let trimmed = place.piste(&["trim", folder, "-o", &output, "--event", "*"]);
        trimmed.expect_success();
        expect_same(&view(&place, &[&output]), &expected, name);
        if for_babeltrace2 {
            expect_same(&babeltrace2(&place, &output), &expected, name);
        }
    });
}

#[test]
fn a_trace_of_the_other_version_of_ctf_has_the_same_bytes_and_the_same_text() {
    let place = Workplace::new();
    let recording = record(&place, &["--block", "forever"], "2000");
    recording.expect_whole();
    let trace = recording.trace();
    let folder = text(trace.path());
    let expected = view(&place, &[folder]);
    place.piste_succeeds(&["export", folder, "--format", "ctf2", "-o", "second"]);
    expect_same(&view(&place, &["second"]), &expected, "CTF 2");
    place.piste_succeeds(&["export", "second", "--format", "ctf1", "-o", "first"]);
    expect_same(&view(&place, &["first"]), &expected, "CTF 1.8");
    expect_same(&babeltrace2(&place, "first"), &expected, "CTF 1.8, babeltrace2");
    for stream in trace.streams() {
        let file = format!("user/{stream}");
        let bytes = fs::read(trace.path().join(&file)).expect("a stream");
        for folder in ["first", "second"] {
            assert!(
                fs::read(place.path(folder).join(&file)).ok() == Some(bytes.clone()),
                "{file}"
            );
        }
    }
}

#[test]
fn what_the_other_version_of_ctf_has_is_written_and_what_it_has_not_is_named() {
    let place = Workplace::new();
    let (mut written, mut refused) = (0, 0);
    for_each_small_trace(&place, false, |name, folder, _| {
        let metadata = fs::read(Path::new(folder).join("metadata")).expect("metadata");
        let is_second = metadata.starts_with(b"\x1e") || metadata.get(8..9) == Some(b"2");
        let (other, own) = if is_second { ("ctf1", "ctf2") } else { ("ctf2", "ctf1") };
        let output = format!("{folder}-{other}");
        let exported = place.piste(&["export", folder, "--format", other, "-o", &output]);
        if exported.status != 0 {
            assert_eq!(exported.status, 1, "{name}: {exported}");
            assert!(
                exported.stderr.contains("cannot write") && exported.stderr.contains(" in CTF "),
                "{name}: {exported}"
            );
            assert!(!Path::new(&output).exists(), "{name}");
            refused += 1;
            return;
        }
        let back = format!("{folder}-back");
        place.piste_succeeds(&["export", &output, "--format", own, "-o", &back]);
        if !is_second {
            // What CTF 2 has besides becomes plain numbers in CTF 1.8.
            expect_same(&view(&place, &[&back]), &view(&place, &[folder]), name);
            expect_same(&view(&place, &[&output]), &view(&place, &[folder]), name);
        } else {
            expect_same(&babeltrace2(&place, &output), &view(&place, &[&output]), name);
        }
        written += 1;
    });
    assert!(written > 40 && refused >= 3, "{written} written, {refused} refused");
}

#[test]
fn nothing_that_is_there_is_written_over() {
    let place = Workplace::new();
    let recording = record(&place, &["--block", "forever"], "100");
    let trace = recording.trace();
    let folder = text(trace.path());
    let refused = place.piste(&["trim", folder, "-o", folder]);
    assert_eq!(refused.status, 1, "{refused}");
    assert!(refused.stderr.contains("is not an empty folder"), "{refused}");
    let missing = place.piste(&["trim", "/nonexistent", "-o", "new"]);
    assert_eq!(missing.status, 1, "{missing}");
    assert!(!place.path("new").exists());
}

/// The Python with the packages that exports are checked with.
fn python() -> PathBuf {
    let made = process::run(&mut Command::new(repository().join("tools/python-packages")));
    made.expect_success().stdout.trim().into()
}

/// Exports a trace to Perfetto and checks it field by field; the counts of what was checked.
fn check_perfetto(place: &Workplace, trace: &str) -> BTreeMap<String, u64> {
    for (format, output) in [("perfetto", "out.perfetto"), ("json", "out.json")] {
        place.piste_succeeds(&["export", trace, "--format", format, "-o", output]);
    }
    let mut check = place.command(python());
    check.arg(repository().join("tests/python/check_perfetto.py"));
    let checked = process::run(check.args(["out.perfetto", "out.json"]));
    serde_json::from_str(&checked.expect_success().stdout).expect("counts")
}

#[test]
fn perfetto_has_every_event_of_a_program_with_its_fields() {
    let place = Workplace::new();
    let recording = record(&place, &["--block", "forever"], "1000");
    recording.expect_whole();
    let checked = check_perfetto(&place, text(recording.trace().path()));
    assert_eq!(checked["instants"], 4000, "{checked:?}");

    let recording = place.record(&[], place.program("every_field.c"), &[]);
    recording.expect_whole();
    let checked = check_perfetto(&place, text(recording.trace().path()));
    assert!(checked["instants"] > 0, "{checked:?}");
}

/// A program that calls functions within functions, and waits.
fn nested(place: &Workplace) -> PathBuf {
    let source = place.path("nested.c");
    let text = "
        #include <piste/tracepoint.h>
        #include <unistd.h>
        PISTE_EVENT(work, begin, (int, number))
        PISTE_EVENT(work, end, (int, number))
        PISTE_EVENT(part, read_entry, (const char *, file))
        PISTE_EVENT(part, read_exit, (double, took))
        PISTE_EVENT(part, lone_begin, (int, number))
        int main(void)
        {
            for (int number = 0; number < 50; number++) {
                piste(work, begin, number);
                piste(part, read_entry, \"a \\\"file\\\"\");
                usleep(100);
                piste(part, lone_begin, number);
                /* Every tenth does not say that it ends. */
                if (number % 10)
                    piste(part, read_exit, 0.5);
                piste(work, end, number);
            }
        }";
    fs::write(&source, text).expect("a source is written");
    place.compile(&piste_support::Compilation::of(&[self::text(&source)]), "nested")
}

#[test]
fn what_begins_and_ends_nests_in_perfetto_and_in_chrome() {
    let place = Workplace::new();
    let recording = place.record(&["-u", "work:*,part:*"], nested(&place), &[]);
    recording.expect_whole();
    let trace = recording.trace();
    let checked = check_perfetto(&place, text(trace.path()));
    assert_eq!(checked["slices begun"], 100, "{checked:?}");
    assert_eq!(checked["slices ended"], 95, "{checked:?}");
    assert_eq!(checked["ends of what is around"], 5, "{checked:?}");
    assert_eq!(checked["instants"], 50, "{checked:?}");

    let events = chrome(&place, text(trace.path()));
    let depths = check_chrome(&events);
    assert_eq!(depths, 2);
    let of = |phase: &str| events.iter().filter(|event| event["ph"] == phase).count();
    assert_eq!((of("B"), of("E"), of("i")), (100, 100, 50));
    let read = events
        .iter()
        .find(|event| event["name"] == "part:read")
        .expect("a slice");
    assert_eq!(read["args"]["file"], "a \"file\"");
    assert_eq!(read["cat"], "part");
}

fn chrome(place: &Workplace, trace: &str) -> Vec<Value> {
    place.piste_succeeds(&["export", trace, "--format", "chrome", "-o", "out.chrome"]);
    let text = fs::read_to_string(place.path("out.chrome")).expect("an export");
    let document: Value = serde_json::from_str(&text).expect("JSON");
    document["traceEvents"].as_array().expect("events").clone()
}

/// Slices nest, and time does not go back on any track; how deep slices are at most.
fn check_chrome(events: &[Value]) -> usize {
    let mut deepest = 0;
    let mut tracks: BTreeMap<(i64, i64), (usize, f64)> = BTreeMap::new();
    for event in events {
        let number = |key: &str| event[key].as_i64().unwrap_or_else(|| panic!("no {key}: {event}"));
        let track = (number("pid"), number("tid"));
        if event["ph"] == "M" {
            assert!(event["args"]["name"].is_string(), "{event}");
            continue;
        }
        let (depth, last) = tracks.entry(track).or_insert((0, f64::MIN));
        let time = event["ts"].as_f64().expect("a time");
        assert!(time >= *last, "{event} after {last}");
        *last = time;
        match event["ph"].as_str() {
            Some("B") => *depth += 1,
            Some("E") => *depth = depth.checked_sub(1).unwrap_or_else(|| panic!("nothing ends: {event}")),
            Some("i" | "C") => assert!(event["name"].is_string(), "{event}"),
            _ => panic!("{event}"),
        }
        deepest = deepest.max(*depth);
    }
    assert!(tracks.values().all(|(depth, _)| *depth == 0), "{tracks:?}");
    deepest
}

/// How often the program `nested` had a CPU for some time.
fn runs(events: &[Value]) -> usize {
    let mut open: BTreeMap<i64, Vec<&Value>> = BTreeMap::new();
    let mut count = 0;
    for event in events.iter().filter(|event| event["pid"] == 0) {
        let open = open.entry(event["tid"].as_i64().expect("a CPU")).or_default();
        if event["ph"] == "B" {
            open.push(event);
        } else if event["ph"] == "E" {
            let begin = open.pop().expect("it has begun");
            count += usize::from(begin["name"] == "nested" && begin["ts"] != event["ts"]);
        }
    }
    count
}

#[test]
fn threads_run_also_where_no_switch_away_from_idling_is_told() {
    let Some(place) = kernel::workplace() else { return };
    let recording = place.record_with_kernel(&["--preset", "sched,syscalls,irq"], nested(&place), &[]);
    recording.finished.expect_success();
    let trace = recording.trace();
    let told = runs(&chrome(&place, text(trace.path())));
    assert!(told >= 40, "{told}");
    let is_idle_end = "name == \"sched_switch\" && prev_tid == 0";
    let others = format!("!({is_idle_end})");
    place.piste_succeeds(&["trim", text(trace.path()), "--filter", &others, "-o", "selected"]);
    let events = chrome(&place, "selected");
    check_chrome(&events);
    assert_eq!(
        runs(&events),
        0,
        "anything may have happened between events that a filter has selected"
    );
    check_perfetto(&place, "selected");
    // A kernel that tells none of these switches does not say so.
    unmark(&place, "selected");
    let events = chrome(&place, "selected");
    check_chrome(&events);
    // What ran under another name when it came, before it executed the program, may have that name only then.
    assert!((40..=told + 2).contains(&runs(&events)), "{} of {told}", runs(&events));
    let checked = check_perfetto(&place, "selected");
    // Of the first and the last thread of a CPU there may be no other event.
    let idle_ends = view(&place, &[text(trace.path()), "--filter", is_idle_end]);
    let idle_ends = idle_ends.lines().count() as u64;
    let arrivals = checked.get("arrivals that were not told").copied().unwrap_or(0);
    assert!(arrivals + 4 >= idle_ends, "{idle_ends}: {checked:?}");

    // Of switches alone, only the one that ends its time on the CPU says that a thread was there: it is not known since when.
    let switches = ["--event", "sched_switch", "-o", "switches"];
    place.piste_succeeds(&[&["trim", "selected"], &switches[..]].concat());
    let events = chrome(&place, "switches");
    check_chrome(&events);
    let leaves = |event: &&Value| event["name"] == "sched_switch" && event["args"]["prev_comm"] == "nested";
    // How many there are depends on what else runs; it is enough that there are some.
    let left = events.iter().filter(leaves).count();
    assert!(left >= 10, "{left}");
    check_perfetto(&place, "switches");
}

/// Takes the mark from a trimmed trace which says that its events were selected by what is in them.
fn unmark(place: &Workplace, trace: &str) {
    let metadata = process::run(place.command("find").args([trace, "-name", "metadata"]));
    let files: Vec<&str> = metadata.expect_success().stdout.lines().collect();
    let mut unmarked = 0;
    for file in files {
        let text = fs::read_to_string(place.path(file)).expect("metadata");
        unmarked += text.matches("piste_selected_events").count();
        let text = text.replace("piste_selected_events", "piste_selected_nothing");
        fs::write(place.path(file), text).expect("metadata is written");
    }
    assert!(unmarked > 0, "there is a mark");
}

#[test]
fn the_kernel_is_exported_with_its_threads_and_calls() {
    let Some(place) = kernel::workplace() else { return };
    let options = ["--preset", "sched,syscalls,irq", "-k", "task_newtask"];
    let recording = place.record_with_kernel(&options, nested(&place), &[]);
    recording.finished.expect_success();
    let trace = recording.trace();
    let checked = check_perfetto(&place, text(trace.path()));
    for kind in ["sched_switch", "sched_waking", "sched_process_exit", "generic"] {
        assert!(checked.get(kind).is_some_and(|count| *count > 0), "{kind}: {checked:?}");
    }
    assert!(checked["slices begun"] > 150, "{checked:?}");
    assert!(checked["processes and threads"] > 10, "{checked:?}");
    let events = chrome(&place, text(trace.path()));
    assert!(check_chrome(&events) >= 3);
    assert!(runs(&events) >= 40, "the program runs on CPUs");
    let sleeps = |event: &&Value| event["ph"] == "B" && event["name"] == "clock_nanosleep" && event["pid"] != 0;
    assert!(events.iter().filter(sleeps).count() >= 50, "its calls are its thread's");

    // Times of 27 bits in the events' headers do not reach from one of these to the next.
    let few = ["--event", "sched_process_fork,sched_process_ex*,part:lone_begin"];
    place
        .piste(&[&["trim", text(trace.path()), "-o", "few"], &few[..]].concat())
        .expect_success();
    let expected = view(&place, &[&[text(trace.path())], &few[..]].concat());
    expect_same(&view(&place, &["few"]), &expected, "few events");
    expect_same(&babeltrace2(&place, "few"), &expected, "few events, babeltrace2");
}

#[test]
fn json_is_one_document_with_every_event() {
    let place = Workplace::new();
    let recording = record(&place, &["--block", "forever"], "100");
    recording.expect_whole();
    let folder = recording.trace().path().to_owned();
    let document = place.piste_succeeds(&["export", text(&folder), "--format", "json", "-o", "-"]);
    let document: Value = serde_json::from_str(&document).expect("JSON");
    assert_eq!(document["traces"][0]["environment"]["domain"], "ust");
    assert_eq!(document["events"].as_array().map(Vec::len), Some(400));
    assert_eq!(
        document["events"][7]["name"]
            .as_str()
            .map(|name| name.starts_with("count:")),
        Some(true)
    );
    let none = [
        "export",
        text(&folder),
        "--format",
        "json",
        "-o",
        "-",
        "--event",
        "none:*",
    ];
    let none: Value = serde_json::from_str(&place.piste_succeeds(&none)).expect("JSON");
    assert_eq!(none["events"], serde_json::json!([]));
}

/// Names in the test's folder that `is_meant`.
fn names(place: &Workplace, is_meant: impl Fn(&str) -> bool) -> Vec<String> {
    let entries = fs::read_dir(place.path(".")).expect("the folder is there");
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter(|name| is_meant(name)).collect()
}

#[test]
fn what_is_interrupted_leaves_nothing_behind() {
    let place = Workplace::new();
    let recording = record(&place, &["--block", "forever"], "100000");
    recording.expect_whole();
    let folder = recording.trace().path().to_owned();
    let sorted = "SELECT * FROM events ORDER BY time_ns DESC";
    let commands: [(&str, &str, &[&str]); 6] = [
        (
            ".out.chrome.",
            "out.chrome",
            &["export", text(&folder), "--format", "chrome", "-o", "out.chrome"],
        ),
        (
            ".out.perfetto.",
            "out.perfetto",
            &["export", text(&folder), "--format", "perfetto", "-o", "out.perfetto"],
        ),
        (
            ".piste-export-",
            "parquet",
            &["export", text(&folder), "--format", "parquet", "-o", "parquet"],
        ),
        (
            ".piste-query-",
            "rows.csv",
            &["query", "--format", "csv", "-o", "rows.csv", text(&folder), sorted],
        ),
        (".out.", "out", &["trim", text(&folder), "--event", "*", "-o", "out"]),
        (".out.html.", "out.html", &["report", text(&folder), "-o", "out.html"]),
    ];
    for (beginning, output, arguments) in commands {
        let part = |name: &str| name.starts_with(beginning);
        let mut was_interrupted = false;
        // It may be faster than this test.
        for _ in 0..20 {
            let mut running = Running::start(place.command(binary("piste")).args(arguments));
            while running.runs() && names(&place, part).is_empty() {
                std::thread::yield_now();
            }
            running.signal(Signal::INT);
            let finished = running.finish();
            assert_eq!(names(&place, part), Vec::<String>::new(), "{output}");
            was_interrupted = finished.status == 130;
            if was_interrupted {
                assert!(!place.path(output).exists(), "{output}");
                break;
            }
            finished.expect_success();
            match place.path(output).is_dir() {
                true => fs::remove_dir_all(place.path(output)).expect("it is removed"),
                false => fs::remove_file(place.path(output)).expect("it is removed"),
            }
        }
        assert!(was_interrupted, "{output}: it was always finished before");
    }
}

#[test]
fn a_reader_that_goes_is_no_failure() {
    let place = Workplace::new();
    let recording = record(&place, &["--block", "forever"], "20000");
    let folder = recording.trace().path().to_owned();
    let script = format!(
        "set -o pipefail; {} export {} --format chrome -o - | head -n 3",
        binary("piste").display(),
        text(&folder)
    );
    let mut shell = place.command("/bin/bash");
    let head = process::run(shell.args(["-c", &script]).stdin(std::process::Stdio::null()));
    head.expect_silent_success();
    assert_eq!(head.stdout.lines().count(), 3);
}

#[test]
fn what_can_be_read_of_a_damaged_trace_is_written() {
    let place = Workplace::new();
    let mut number = 0;
    for_each_small_trace(&place, true, |name, folder, _| {
        let expected = view(&place, &[folder]);
        for options in [&[][..], &["--event", "*"]] {
            let output = format!("trimmed{number}");
            number += 1;
            let trimmed = place.piste(&[&["trim", folder, "-o", &output], options].concat());
            trimmed.expect_success();
            expect_same(&view(&place, &[&output]), &expected, &format!("{name} {options:?}"));
        }
        for format in ["perfetto", "chrome", "json"] {
            let exported = place.piste(&["export", folder, "--format", format, "-o", format, "--json"]);
            exported.expect_success();
            let said: Value = serde_json::from_str(&exported.stdout).expect("JSON");
            assert_eq!(said["events"], expected.lines().count(), "{name} {format}");
        }
    });
}
