// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste analyze` beside perf, which records the same tracepoints at the same time.
//!
//! Each recorder looks at its clock for itself, at each event. How far they are from each other is seen at the events, and nothing else may be
//! different: so much, and no more, the times may differ that are made of them.

use std::collections::BTreeMap;

use piste_support::Workplace;
use piste_support::kernel::workplace as kernel_workplace;
use piste_support::report::{analyze, number, row, rows, text};
use serde_json::Value;

/// perf prints thousandths of milliseconds.
const ROUNDED_NS: i64 = 1_000;

/// When what happened to a thread, in the order of time: its wake-ups, its switches, its system calls.
type Seen = BTreeMap<(i64, &'static str), Vec<i64>>;

/// A run of queue.c that both have recorded.
struct Both {
    trace: String,
    data: String,
    threads: Vec<i64>,
    /// By Piste's clock.
    seen: Seen,
    distances: Distances,
}

/// How far the two are from each other.
struct Distances {
    /// perf's clock is so much ahead.
    clocks_ns: i64,
    /// Beyond that, by thread, at each event.
    apart_ns: BTreeMap<i64, Vec<i64>>,
}

impl Both {
    /// Records without loss; the machine may be too busy for that now and then.
    fn record(place: &Workplace, piste: &[&str], perf: &[&str]) -> Both {
        let program = place.program("queue.c");
        let data = text(&place.path("perf.data")).to_owned();
        for attempt in 1..=10 {
            let trace = text(&place.path(&format!("trace-{attempt}"))).to_owned();
            let record = [&["record", "--no-user", "-o", &trace], piste, &["--"]].concat();
            let perf = [
                &["perf", "record", "-q", "-R", "-m", "2048", "-o", &data],
                perf,
                &["--"],
            ]
            .concat();
            let recorded = place.piste(&[record, perf, vec![text(&program)]].concat());
            recorded.expect_success();
            let threads = std::fs::read_to_string(place.path("threads")).expect("it named its threads");
            let threads: Vec<i64> = threads.lines().map(|line| line.parse().expect("a number")).collect();
            let events = ["script", "-i", &data, "--ns", "-F", "tid,time,event,trace"];
            let by_perf = place.run("perf", &events);
            by_perf.expect_success();
            let (seen, of_perf) = (of_piste(place, &trace, &threads), of_perf(&by_perf.stdout, &threads));
            // perf leaves out, and does not count, what happens in an interrupt that came while it recorded.
            let is_whole = !by_perf.stderr.contains("lost") && count(&of_perf) >= count(&seen);
            if recorded.stderr.contains("nothing lost") && is_whole {
                return Both {
                    trace,
                    data,
                    distances: distances(&seen, &of_perf),
                    threads,
                    seen,
                };
            }
        }
        panic!("no recording without loss");
    }

    /// As much as what is made of a thread's events may differ: a sum, and a single one.
    fn tolerance(&self, thread: i64, count: i64) -> (i64, i64) {
        let apart_ns = &self.distances.apart_ns[&thread];
        let most_ns = apart_ns.iter().max().copied().unwrap_or(0);
        (
            apart_ns.iter().sum::<i64>() + count * ROUNDED_NS,
            2 * most_ns + ROUNDED_NS,
        )
    }
}

/// What Piste has of these threads.
fn of_piste(place: &Workplace, trace: &str, threads: &[i64]) -> Seen {
    let mut seen = Seen::new();
    let view = [
        "view",
        trace,
        "--format",
        "ndjson",
        "--event",
        "sched_switch,sched_wak*,syscall_*",
    ];
    for line in place.piste_succeeds(&view).lines() {
        let event: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let (name, payload) = (event["name"].as_str().expect("a name"), &event["payload"]);
        let mut add = |tid: &Value, what| {
            if let Some(tid) = tid.as_i64().filter(|tid| threads.contains(tid)) {
                seen.entry((tid, what)).or_default().push(number(&event["time_ns"]));
            }
        };
        match name {
            "sched_switch" => {
                let is_ready = payload["prev_state"] == 0;
                add(&payload["prev_tid"], if is_ready { "out, ready" } else { "out" });
                add(&payload["next_tid"], "in");
            }
            "sched_waking" => add(&payload["tid"], "waking"),
            "sched_wakeup" => add(&payload["tid"], "wakeup"),
            "sched_wakeup_new" => add(&payload["tid"], "new"),
            _ if name.starts_with("syscall_entry_") => add(&event["event_context"]["tid"], "entry"),
            _ => add(&event["event_context"]["tid"], "exit"),
        }
    }
    seen
}

/// What perf has of them: `TID SECONDS.NANOSECONDS: GROUP:NAME: FIELD=VALUE ...`
fn of_perf(events: &str, threads: &[i64]) -> Seen {
    let mut seen = Seen::new();
    for line in events.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [tid, time, event, ..] = words[..] else { continue };
        let ns = time.trim_end_matches(':').replace('.', "").parse().expect("a time");
        let field = |name: &str| words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        let mut add = |tid: Option<&str>, what| {
            let tid = tid.and_then(|tid| tid.parse().ok());
            if let Some(tid) = tid.filter(|tid| threads.contains(tid)) {
                seen.entry((tid, what)).or_default().push(ns);
            }
        };
        match event {
            "sched:sched_switch:" => {
                let is_ready = field("prev_state").is_some_and(|state| state.starts_with('R'));
                add(field("prev_pid"), if is_ready { "out, ready" } else { "out" });
                add(field("next_pid"), "in");
            }
            "sched:sched_waking:" => add(field("pid"), "waking"),
            "sched:sched_wakeup:" => add(field("pid"), "wakeup"),
            "sched:sched_wakeup_new:" => add(field("pid"), "new"),
            "raw_syscalls:sys_enter:" => add(Some(tid), "entry"),
            "raw_syscalls:sys_exit:" => add(Some(tid), "exit"),
            _ => {}
        }
    }
    seen
}

fn count(seen: &Seen) -> usize {
    seen.values().map(Vec::len).sum()
}

/// Both have seen the same. Their clocks begin anywhere: the distance in the middle is that of the clocks.
fn distances(piste: &Seen, perf: &Seen) -> Distances {
    let counts = |seen: &Seen| -> Vec<_> { seen.iter().map(|(key, times)| (*key, times.len())).collect() };
    assert_eq!(counts(piste), counts(perf));
    let pairs = piste.iter().zip(perf.values());
    let distances: Vec<(i64, i64)> = pairs
        .flat_map(|((key, piste), perf)| piste.iter().zip(perf).map(|(one, other)| (key.0, other - one)))
        .collect();
    let mut sorted: Vec<i64> = distances.iter().map(|(_, ns)| *ns).collect();
    sorted.sort_unstable();
    let clocks_ns = sorted[sorted.len() / 2];
    let mut apart_ns = BTreeMap::<i64, Vec<i64>>::new();
    for (thread, ns) in distances {
        apart_ns.entry(thread).or_default().push((ns - clocks_ns).abs());
    }
    Distances { clocks_ns, apart_ns }
}

/// Milliseconds with a point, in nanoseconds.
fn ns(text: &str) -> i64 {
    let ms: f64 = text.parse().unwrap_or_else(|_| panic!("{text:?} is no number"));
    (ms * 1e6).round() as i64
}

#[test]
fn waits_for_a_cpu_are_those_that_perf_finds() {
    let Some(place) = kernel_workplace() else { return };
    let events = ["switch", "waking", "wakeup", "wakeup_new"].map(|name| format!("sched:sched_{name}"));
    let perf: Vec<&str> = events.iter().flat_map(|event| ["-e", event]).collect();
    let both = Both::record(
        &place,
        &["-a", "--preset", "sched"],
        &[&["-a", "-c", "1"], &perf[..]].concat(),
    );
    let latency = place.run("perf", &["sched", "latency", "-p", "-i", &both.data]);
    latency.expect_success();
    let history = place.run("perf", &["sched", "timehist", "-i", &both.data]);
    history.expect_success();
    let delays = analyze(&place, "schedlog", &both.trace, &["--limit", "1000000"]);
    let stats = analyze(&place, "schedstats", &both.trace, &["--limit", "100000"]);
    let times = analyze(&place, "ltt", &both.trace, &["--limit", "100000"]);
    let (mut compared, mut summed_up) = (0, 0);
    for &thread in &both.threads {
        let of_thread = |table| -> Vec<&Value> {
            let report = if table == "delays" { &delays } else { &stats };
            rows(report, table).iter().filter(|row| row["tid"] == thread).collect()
        };
        let runs = &both.seen[&(thread, "in")];
        let own: BTreeMap<i64, i64> = of_thread("delays")
            .iter()
            .map(|delay| (number(&delay["woken_ns"]), number(&delay["delay_ns"])))
            .map(|(woken_ns, delay_ns)| (woken_ns + delay_ns, woken_ns))
            .collect();

        // A row for most runs: SECONDS [CPU] NAME[TID/PID] WAIT DELAY RUN
        let (_, one_ns) = both.tolerance(thread, 1);
        let names = [format!("[{thread}]"), format!("[{thread}/")];
        let is_own = |line: &&str| names.iter().any(|name| line.contains(name));
        for line in history.stdout.lines().filter(is_own) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [until, .., theirs, ran] = words[..] else {
                panic!("{line}")
            };
            // Seconds, with all digits that there are.
            let began_ns =
                1_000 * until.replace('.', "").parse::<i64>().expect("a time") - ns(ran) - both.distances.clocks_ns;
            let is_it = |run: &&i64| (*run - began_ns).abs() <= one_ns + ROUNDED_NS;
            let run = runs.iter().find(is_it).unwrap_or_else(|| panic!("no such run: {line}"));
            let theirs = ns(theirs);
            // It is not woken to begin.
            if *run == runs[0] {
                continue;
            }
            // perf also takes some for woken that were ready, and counts from another event then.
            let Some(woken_ns) = own.get(run) else { continue };
            // perf does not look at who was woken on its own CPU, just before it left it, and forgets those that another CPU woke at that time.
            let mut left = both.seen.get(&(thread, "out")).into_iter().flatten();
            let has_left = left.any(|left| (woken_ns..run).contains(&left));
            if !has_left && both.seen[&(thread, "waking")].binary_search(woken_ns).is_ok() {
                let ours = run - woken_ns;
                assert!((ours - theirs).abs() <= one_ns, "{thread} at {run}: {ours}; {line}");
                compared += 1;
            }
        }

        // All waits, of those that were woken and of those that others took the CPU from.
        // NAME:TID | RUNTIME ms | COUNT | avg: MEAN ms | max: MOST ms | ...
        let line = latency
            .stdout
            .lines()
            .find(|line| line.contains(&format!(":{thread} ")));
        let line = line.unwrap_or_else(|| panic!("{thread}: {}", latency.stdout));
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let of_cell =
            |place: usize, label: &str| ns(cells[place].trim_start_matches(label).trim_end_matches(" ms").trim());
        let count: i64 = cells[2].parse().expect("a count");
        // It takes some that lose their CPU in the kernel for asleep, and leaves that wait out.
        assert!(count <= runs.len() as i64, "{thread}: {} runs, {line}", runs.len());
        let (all_ns, _) = both.tolerance(thread, count);
        let runnable_ns = number(&row(&times, "threads", "tid", &thread.into())["runnable_ns"]);
        // perf counts from the end of the wake-up.
        let times_of = |what| both.seen.get(&(thread, what)).into_iter().flatten();
        let wakeups = times_of("wakeup").zip(times_of("waking"));
        let wakeups: Vec<i64> = wakeups.map(|(end, begin)| end - begin).collect();
        let (ours, theirs) = (runnable_ns - wakeups.iter().sum::<i64>(), count * of_cell(3, "avg:"));
        if count == runs.len() as i64 {
            let message = format!("{thread}: {ours} and {theirs} ns; {line}");
            assert!((ours - theirs).abs() <= all_ns, "{message}");
            summed_up += 1;
        }
        for row in of_thread("threads") {
            assert_eq!(number(&row["count"]), own.len() as i64, "{row:#}");
            let longest_ns = own.iter().map(|(run, woken)| run - woken).max();
            assert_eq!(Some(number(&row["max_ns"])), longest_ns, "{row:#}");
            // A thread that has only begun was not woken, and is ready from that event on for both.
            let longest_ns = number(&row["max_ns"]) - wakeups.iter().max().unwrap_or(&0);
            assert!(longest_ns <= of_cell(4, "max:") + one_ns, "{row:#} {line}");
        }
    }
    assert!(
        compared > 100 && summed_up > 0,
        "{compared} waits, {summed_up} sums compared"
    );
}

#[test]
fn system_calls_take_as_long_as_perf_says() {
    let Some(place) = kernel_workplace() else { return };
    let perf = ["-c", "1", "-e", "raw_syscalls:sys_enter", "-e", "raw_syscalls:sys_exit"];
    let both = Both::record(&place, &["--preset", "syscalls"], &perf);
    let summary = place.run("perf", &["trace", "-s", "-i", &both.data]);
    summary.expect_success();
    // By thread: NAME (TID), COUNT events, ... and below it: CALL COUNT ERRORS TOTAL MIN AVG MAX STDDEV
    let (mut thread, mut compared) = (0, 0);
    let said = [summary.stdout.as_str(), summary.stderr.as_str()].concat();
    for line in said.lines() {
        if let Some((_, rest)) = line.split_once(" (").filter(|_| line.contains(" events, ")) {
            let tid = rest.split(')').next().and_then(|tid| tid.parse().ok());
            thread = tid.filter(|tid| both.threads.contains(tid)).unwrap_or(0);
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let [call, count, failed, total, min, _, max, _] = words[..] else {
            continue;
        };
        let (Ok(count), Ok(failed)) = (count.parse::<i64>(), failed.parse::<i64>()) else {
            continue;
        };
        // A thread begins inside of its parent's.
        if thread == 0 || call == "clone3" || call == "clone" {
            continue;
        }
        let report = analyze(
            &place,
            "syscallstats",
            &both.trace,
            &["--tid", &thread.to_string(), "--limit", "1000"],
        );
        let own = row(&report, "syscalls", "syscall", &call.into());
        let of = |key: &str| number(&own[key]);
        assert_eq!((of("count"), of("failed")), (count, failed), "{line} {own:#}");
        let (all_ns, one_ns) = both.tolerance(thread, 1);
        for (key, theirs, tolerance_ns) in [
            ("total_ns", total, all_ns),
            ("min_ns", min, one_ns),
            ("max_ns", max, one_ns),
        ] {
            let apart_ns = (of(key) - ns(theirs)).abs();
            assert!(apart_ns <= tolerance_ns, "{thread}: {apart_ns} ns, {line} {own:#}");
        }
        compared += count;
    }
    // Of each of two threads 60 sleeps, of each of two others 60 reads and 60 writes.
    assert!(compared >= 360, "{compared} calls compared: {said}");
}
