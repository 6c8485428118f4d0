// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste analyze`, `insights` and `diff` on a recorded trace that is damaged in one way after the other: all of them answer and say what is
//! missing. That they claim nothing untrue is tested where the truth is known, on machines that are simulated (crates/analysis/tests/unit/model/truth.rs).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use piste_support::Workplace;
use piste_support::build_tree::repository;
use piste_support::kernel::{KernelWorkplace, workplace as kernel_workplace};
use piste_support::process::allowed_cpu;
use piste_support::report::{analyze, number, record_whole, rows, text, time_is_filled};
use serde_json::Value;

/// Of `timestamp_begin` and `timestamp_end` in a packet.
const BEGIN_AT: usize = 32;
const END_AT: usize = 40;
const ALL_THREADS: [&str; 4] = ["--table", "threads", "--limit", "1000000"];

/// The whole system while a script computes, writes and waits; on one CPU that stays online, because Linux 6.18 no longer reports switches away
/// from the idle thread on a CPU that was offline once. Without loss: nothing is missing but what a test takes away.
fn record(place: &KernelWorkplace) -> PathBuf {
    let busy = "for i in 1 2 3 4; do ls / | sort | md5sum; dd if=/dev/zero of=file bs=4K count=20 conv=fsync status=none; sleep 0.05; done";
    let (trace, _) = record_whole(place, &["-a"], &["taskset", "-c", &allowed_cpu(), "sh", "-c", busy]);
    // To read it takes much longer.
    place.let_others_record();
    PathBuf::from(trace)
}

/// The files of CPUs, the largest first.
fn streams(trace: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(trace.join("kernel")).expect("a trace of the kernel");
    let mut files: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
    let is_of_cpu = |file: &PathBuf| {
        file.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("kernel_"))
    };
    files.retain(is_of_cpu);
    files.sort_by_key(|file| std::cmp::Reverse(fs::metadata(file).map_or(0, |metadata| metadata.len())));
    files
}

/// Where the packets of a file begin.
fn packets(bytes: &[u8]) -> Vec<usize> {
    let magic = 0xc1fc_1fc1_u32.to_le_bytes();
    let starts = bytes.windows(4).enumerate().filter(|(_, word)| *word == magic);
    starts.map(|(at, _)| at).collect()
}

/// Where the packets of the later half of a file's time begin, or some of the earlier half; the first packet is before.
fn later_half(bytes: &[u8], starts: &[usize]) -> usize {
    let ticks = |start: usize, offset: usize| {
        let word = &bytes[start + offset..][..8];
        u64::from_le_bytes(word.try_into().expect("8 bytes"))
    };
    let middle = u64::midpoint(ticks(starts[0], BEGIN_AT), ticks(starts[starts.len() - 1], END_AT));
    let earlier = starts.partition_point(|start| ticks(*start, BEGIN_AT) <= middle);
    starts[(earlier - 1).max(1)]
}

fn change(file: &Path, how: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(file).expect("it can be read");
    how(&mut bytes);
    fs::write(file, bytes).expect("it can be written");
}

/// Every analysis answers, or says which events it needs.
fn all_answer(place: &Workplace, whole: &str, damaged: &str) {
    let all = place.piste_json(&["analyze"]);
    let names = all["analyses"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|analysis| analysis["name"].as_str());
    for name in names
        .map(|name| name.expect("a name"))
        .filter(|name| *name != "periods")
    {
        let answered = place.piste(&["analyze", name, damaged, "--json"]);
        let is_answer = answered.status == 0 && serde_json::from_str::<Value>(&answered.stdout).is_ok();
        let is_refusal = answered.status == 1 && answered.stderr.contains(" needs ");
        assert!(is_answer || is_refusal, "{damaged}: {answered}");
    }
    for arguments in [
        &["insights", damaged][..],
        &["diff", whole, damaged],
        &["diff", damaged, whole],
    ] {
        place.piste(arguments).expect_success();
    }
}

/// The lines of `piste view`, without the time since the line before.
fn viewed(place: &Workplace, trace: &Path) -> BTreeSet<String> {
    let viewed = place.piste(&["view", text(trace)]);
    viewed.expect_success();
    let without_delta = |line: &str| Some(format!("{} {}", line.split_once(" (")?.0, line.split_once(") ")?.1));
    let lines: BTreeSet<String> = viewed.stdout.lines().filter_map(without_delta).collect();
    assert!(!lines.is_empty(), "{viewed}");
    lines
}

/// Overwrites events from the first one behind `at` on. What is left of an event that is damaged from its middle on would be read as another event.
fn damage_events(place: &Workplace, trace: &Path, file: &Path, at: usize) {
    let (whole, bytes) = (viewed(place, trace), fs::read(file).expect("it can be read"));
    let is_damaged = (at..at + 512).any(|at| {
        let mut bytes = bytes.clone();
        bytes[at..at + 512].fill(0xff);
        fs::write(file, bytes).expect("it can be written");
        let left = viewed(place, trace);
        left.len() < whole.len() && left.is_subset(&whole)
    });
    assert!(is_damaged, "no event begins behind {at}");
}

/// A copy of a trace that something was done to; nothing when the trace is too small for that.
fn damaged(place: &Workplace, whole: &Path, damage: &str) -> Option<PathBuf> {
    let copy = place.path(damage);
    place.run("cp", &["-a", text(whole), text(&copy)]).expect_success();
    let files = streams(&copy);
    let first = &files[0];
    let starts = packets(&fs::read(first).expect("it can be read"));
    match damage {
        "no stream" if files.len() > 1 => fs::remove_file(first).expect("it is removed"),
        "cut" => change(first, |bytes| bytes.truncate(bytes.len() * 2 / 3)),
        "late begin" if starts.len() > 2 => change(first, |bytes| _ = bytes.drain(..later_half(bytes, &starts))),
        "early end" if starts.len() > 1 => change(first, |bytes| bytes.truncate(later_half(bytes, &starts))),
        "lost packet" if starts.len() > 4 => {
            change(first, |bytes| _ = bytes.drain(starts[2]..starts[3]));
        }
        "no packet" if starts.len() > 4 => {
            change(first, |bytes| bytes[starts[2]..starts[3]].fill(0));
        }
        "no event" if starts.len() > 4 => {
            damage_events(place, &copy, first, usize::midpoint(starts[2], starts[3]));
        }
        "empty" => files.iter().for_each(|file| change(file, Vec::clear)),
        _ => return None,
    }
    Some(copy)
}

#[test]
fn what_is_missing_is_said() {
    let Some(place) = kernel_workplace() else { return };
    let whole = record(&place);
    for damage in ["no stream", "cut", "early end", "lost packet", "no packet", "no event"] {
        let Some(copy) = damaged(&place, &whole, damage) else {
            println!("skipped: the trace is too small for: {damage}");
            continue;
        };
        let (whole, copy) = (text(&whole), text(&copy));
        let answered = place.piste(&["analyze", "health", copy]);
        answered.expect_success();
        let is_said = answered
            .stderr
            .contains("it does not show what threads did at those times");
        assert!(is_said, "{damage}: {answered}");
        if damage == "no stream" {
            // A call may have ended there, and another begun.
            let entry_to_exit = [
                "--begin-event",
                "name == \"syscall_entry_write\"",
                "--end-event",
                "name == \"syscall_exit_write\"",
            ];
            let periods = place.piste(
                &[
                    &["analyze", "periods", copy, "--csv", "--table", "log"],
                    &entry_to_exit[..],
                ]
                .concat(),
            );
            let told = ["there are no events of CPU", "the file is missing"];
            assert!(told.iter().any(|told| periods.stderr.contains(told)), "{periods}");
            assert_eq!(periods.stdout.lines().count(), 1, "{periods}");
        }
        if matches!(damage, "no stream" | "no event") {
            all_answer(&place, whole, copy);
        }
        time_is_filled(&analyze(&place, "ltt", copy, &ALL_THREADS));
    }
}

/// How long each thread has CPUs, and how long nobody knows who has each CPU, as the tracks of an export in Chrome's form show it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Shown {
    threads: BTreeMap<i64, i64>,
    unknown: BTreeMap<i64, i64>,
}

fn shown_by_chrome(place: &Workplace, trace: &str) -> Shown {
    let document = place.piste_succeeds(&["export", trace, "--format", "chrome", "-o", "-"]);
    let document: Value = serde_json::from_str(&document).expect("JSON");
    let mut shown = Shown::default();
    let mut open: BTreeMap<i64, Vec<(&Value, i64)>> = BTreeMap::new();
    let events = document["traceEvents"].as_array().expect("a list").iter();
    for event in events.filter(|event| event["pid"] == 0 && matches!(event["ph"].as_str(), Some("B" | "E"))) {
        let cpu = number(&event["tid"]);
        let ns = (event["ts"].as_f64().expect("a time") * 1000.0).round() as i64;
        let open = open.entry(cpu).or_default();
        if event["ph"] == "B" {
            open.push((event, ns));
            continue;
        }
        let (begin, begin_ns) = open.pop().expect("it has begun");
        // Others are in it.
        if !open.is_empty() || ns == begin_ns {
            continue;
        }
        let args = &begin["args"];
        match args["tid"].as_i64().or(args["next_tid"].as_i64()) {
            Some(tid) => *shown.threads.entry(tid).or_default() += ns - begin_ns,
            None if begin["name"] == "unknown" => *shown.unknown.entry(cpu).or_default() += ns - begin_ns,
            // An interrupt of an idle CPU.
            None => assert!(
                begin["name"].as_str().is_some_and(|name| name.contains("irq_")),
                "{begin}"
            ),
        }
    }
    assert!(open.values().all(Vec::is_empty), "all has ended");
    shown
}

fn shown_by_analysis(place: &Workplace, trace: &str) -> Shown {
    let report = analyze(place, "cputop", trace, &["--limit", "1000000"]);
    let sums = |table: &str, key: &str, ns: &str| {
        let mut sums: BTreeMap<i64, i64> = BTreeMap::new();
        let rows = rows(&report, table)
            .iter()
            .map(|row| (number(&row[key]), number(&row[ns])));
        rows.filter(|(_, ns)| *ns > 0)
            .for_each(|(key, ns)| *sums.entry(key).or_default() += ns);
        sums
    };
    Shown {
        threads: sums("threads", "tid", "on_cpu_ns"),
        unknown: sums("cpus", "cpu", "unknown_ns"),
    }
}

/// The first events of the threads of which two tell different times.
fn events_of_different(
    place: &Workplace,
    trace: &str,
    some: &BTreeMap<i64, i64>,
    others: &BTreeMap<i64, i64>,
) -> String {
    let all = some.keys().chain(others.keys());
    let different = all.filter(|tid| some.get(tid) != others.get(tid));
    let events = |tid: &i64| place.piste_succeeds(&["view", trace, "--tid", &tid.to_string(), "-n", "40"]);
    different.map(events).collect()
}

/// What Perfetto is told of each thread's time on CPUs, which ends at the last switch of a CPU.
fn shown_by_perfetto(place: &Workplace, trace: &str) -> BTreeMap<i64, i64> {
    for (format, output) in [("perfetto", "out.perfetto"), ("json", "out.json")] {
        place.piste_succeeds(&["export", trace, "--format", format, "-o", output]);
    }
    let python = place.run(text(&repository().join("tools/python-packages")), &[]);
    let script = repository().join("tests/python/check_perfetto.py");
    let checked = place.run(
        python.expect_success().stdout.trim(),
        &[text(&script), "out.perfetto", "out.json"],
    );
    let counts: BTreeMap<String, i64> = serde_json::from_str(&checked.expect_success().stdout).expect("counts");
    let of_thread = |(what, ns): (&String, &i64)| Some((what.strip_prefix("ns of thread ")?.parse().ok()?, *ns));
    counts.iter().filter_map(of_thread).collect()
}

fn expect_no_more(told: &BTreeMap<i64, i64>, expected: &Shown, about: &str) {
    for (tid, ns) in told {
        let known_ns = expected.threads.get(tid).copied().unwrap_or(0);
        assert!(*ns <= known_ns, "{about}: {tid} {ns}");
    }
}

#[test]
fn exports_show_threads_on_cpus_where_that_is_known_and_nowhere_else() {
    let Some(place) = kernel_workplace() else { return };
    let whole = record(&place);
    let known = shown_by_analysis(&place, text(&whole));
    for damage in [
        "nothing",
        "late begin",
        "early end",
        "lost packet",
        "no packet",
        "no event",
    ] {
        let copy = match damage {
            "nothing" => Some(whole.clone()),
            damage => damaged(&place, &whole, damage),
        };
        let Some(copy) = copy else {
            println!("skipped: the trace is too small for: {damage}");
            continue;
        };
        let copy = text(&copy);
        let expected = shown_by_analysis(&place, copy);
        let shown = shown_by_chrome(&place, copy);
        assert_eq!(
            shown,
            expected,
            "{damage}: {}",
            events_of_different(&place, copy, &shown.threads, &expected.threads)
        );
        let unknown_ns = |shown: &Shown| shown.unknown.values().sum::<i64>();
        assert!(
            damage == "nothing" || unknown_ns(&expected) > unknown_ns(&known),
            "{damage}"
        );
        let told = shown_by_perfetto(&place, copy);
        expect_no_more(&told, &expected, damage);
        let (told, expected) = (told.values().sum::<i64>(), expected.threads.values().sum::<i64>());
        assert!(told > expected / 2, "{damage}: {told} of {expected}");
    }
}

#[test]
fn exports_and_analyses_agree_on_traces_in_which_much_is_missing() {
    const TRACES: u32 = 60;
    // Each of them starts Python once more.
    const IN_PERFETTO: usize = 5;
    const EVENTS: &str = "300";
    let place = Workplace::new();
    let maker = repository().join("tests/python/make_torn_traces.py");
    let numbers: Vec<String> = (0..TRACES).map(|number| number.to_string()).collect();
    let arguments = [text(&maker), ".", EVENTS].into_iter();
    let arguments: Vec<&str> = arguments.chain(numbers.iter().map(String::as_str)).collect();
    place.run("python3", &arguments).expect_success();
    for number in &numbers {
        let (shown, expected) = (shown_by_chrome(&place, number), shown_by_analysis(&place, number));
        assert_eq!(shown, expected, "{number}");
    }
    for number in numbers.iter().take(IN_PERFETTO) {
        let (told, expected) = (shown_by_perfetto(&place, number), shown_by_analysis(&place, number));
        expect_no_more(&told, &expected, number);
    }
}

#[test]
fn a_stream_that_ends_early_tells_nothing_of_the_rest() {
    let Some(place) = kernel_workplace() else { return };
    let whole = record(&place);
    let unrecorded = |trace: &Path| {
        let stats = place.piste_json(&["stats", text(trace)]);
        let findings = stats["findings"].as_array().expect("a list");
        let kinds = findings.iter().map(|finding| &finding["kind"]);
        kinds.filter(|kind| *kind == "unrecorded").count()
    };
    assert_eq!(unrecorded(&whole), 0, "every CPU is recorded to the end, quiet or not");
    let Some(copy) = damaged(&place, &whole, "early end") else {
        println!("skipped: the trace is too small");
        return;
    };
    assert_eq!(unrecorded(&copy), 1);
    let report = analyze(&place, "health", text(&copy), &["--limit", "1000000"]);
    let end_ns = number(&report["end_ns"]);
    let is_last = |gap: &&Value| number(&gap["begin_ns"]) + number(&gap["duration_ns"]) == end_ns;
    let gap = rows(&report, "gaps").iter().find(is_last);
    let gap = gap.expect("it reaches to the end");
    let mut cpus = rows(&report, "cpus").iter();
    let cpu = cpus.find(|cpu| cpu["cpu"] == gap["cpu"]).expect("it has events");
    assert!(number(&cpu["unknown_ns"]) >= number(&gap["duration_ns"]), "{cpu} {gap}");
}

#[test]
fn a_part_of_a_trace_is_analyzed_as_well() {
    let Some(place) = kernel_workplace() else { return };
    let whole = record(&place);
    let whole = text(&whole);
    let report = place.piste_json(&["analyze", "health", whole]);
    let (begin, end) = (number(&report["begin_ns"]), number(&report["end_ns"]));
    let at = |percent: i64| (begin + (end - begin) / 100 * percent).to_string();
    let (early, late, middle) = (at(30), at(70), at(50));
    for (name, options) in [
        ("both ends", &["--begin", &early, "--end", &late][..]),
        ("no dump", &["--filter", "$name !~ \"lttng_statedump_*\""]),
        (
            "one event",
            &[
                "--begin",
                &middle,
                "--filter",
                "$name == \"sched_switch\" && next_comm == \"sleep\"",
            ],
        ),
        ("nothing", &["--begin", &middle, "--end", &middle]),
    ] {
        let part = place.path(name);
        place.piste_succeeds(&[&["trim", whole, "-o", text(&part)], options].concat());
        if name != "no dump" {
            all_answer(&place, whole, text(&part));
        }
        if !matches!(name, "one event" | "nothing") {
            time_is_filled(&analyze(&place, "ltt", text(&part), &ALL_THREADS));
        }
    }
    let empty = damaged(&place, Path::new(whole), "empty").expect("it can be emptied");
    all_answer(&place, whole, text(&empty));
}

#[test]
fn a_part_is_not_taken_for_all_that_happened() {
    let Some(place) = kernel_workplace() else { return };
    let whole = record(&place);
    let (dd, all) = (["--comm", "dd"], ["--limit", "1000000"]);
    let calls = |trace: &Path| {
        let report = analyze(&place, "syscallstats", text(trace), &[dd, all].concat());
        let calls = rows(&report, "syscalls")
            .iter()
            .filter(|call| call["syscall"] != "execve");
        let named = |call: &Value| (call["syscall"].clone(), call["count"].clone(), call["total_ns"].clone());
        let mut calls: Vec<_> = calls.map(named).collect();
        // Those that took equally long come in any order.
        calls.sort_by_key(|(name, ..)| name.to_string());
        calls
    };
    let on_switches = "$name == \"sched_switch\" && next_prio > 0";
    for (name, options, note) in [
        ("by name", &["--event", "sched_*"][..], None),
        ("by thread", &dd, Some("only events of some threads")),
        ("by CPU", &["--cpu", "0"], Some("only events of some CPUs")),
        ("by field", &["--filter", on_switches], Some("selected by a filter")),
    ] {
        let part = place.path(name);
        place.piste_succeeds(&[&["trim", text(&whole), "-o", text(&part)], options].concat());
        let answered = place.piste(&["analyze", "health", text(&part)]);
        answered.expect_success();
        match note {
            Some(note) => assert!(answered.stderr.contains(note), "{name}: {answered}"),
            None => assert!(!answered.stderr.contains("are not recorded"), "{name}: {answered}"),
        }
        if matches!(name, "by thread" | "by field") {
            let health = analyze(&place, "health", text(&part), &[]);
            let known = rows(&health, "cpus").iter().map(|cpu| number(&cpu["known_ns"]));
            assert_eq!(
                known.sum::<i64>(),
                0,
                "{name}: somebody else may have had a CPU between two events"
            );
        }
        if name == "by thread" {
            assert_eq!(calls(&part), calls(&whole), "what a thread calls is all there");
        }
    }
}

#[test]
fn filtered_switches_do_not_tell_who_has_a_cpu() {
    let Some(place) = kernel_workplace() else { return };
    let trace = place.path("asleep");
    let switches = ["-k", "sched_switch", "--filter", "prev_comm == \"sleep\""];
    let record = [
        &["record", "--no-user"],
        &switches[..],
        &["-o", text(&trace), "--", "sleep", "0.01"],
    ]
    .concat();
    place.piste_succeeds(&record);
    let answered = place.piste(&["analyze", "health", text(&trace)]);
    answered.expect_success();
    assert!(answered.stderr.contains("selected by a filter"), "{answered}");
    let health = analyze(&place, "health", text(&trace), &[]);
    let known = rows(&health, "cpus").iter().map(|cpu| number(&cpu["known_ns"]));
    assert_eq!(known.sum::<i64>(), 0);
}
