// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste analyze`, on recordings whose answers are known otherwise: what the kernel itself counted for a process, what strace counts, what a
//! program was made to do.

#[allow(dead_code, reason = "a part of another test")]
#[path = "../../../crates/ctf/tests/conformance/notation.rs"]
mod notation;

use std::path::Path;

use piste_support::Workplace;
use piste_support::kernel::{self, shared_workplace, stolen_ns};
use piste_support::process::allowed_cpu;
use piste_support::report::{analyze, number, row, rows, text, time_is_filled};
use serde_json::Value;

/// Records a command; its trace is in the folder.
fn record(place: &Workplace, options: &[&str], command: &[&str]) -> String {
    let trace = text(&place.path("trace")).to_owned();
    let arguments = [&["record", "--no-user", "-o", &trace], options, &["--"], command].concat();
    let _alone = kernel::alone();
    place.piste_succeeds(&arguments);
    trace
}

/// As a shell's script: notes the nanoseconds that it used until it was recorded, and becomes Python, which runs its second argument on the CPU of
/// its first one.
const BEGIN_TO_BURN: &str = "cat /proc/$$/schedstat >before; exec taskset -c $0 python3 -c \"$1\"";

/// Uses its CPU for a while, and says how long according to the kernel: its id, nanoseconds, switches.
const BURN: &str = "
import os, resource, time
end = time.monotonic() + 1.0
while time.monotonic() < end:
    sum(range(1000))
    os.getppid()
used = resource.getrusage(resource.RUSAGE_SELF)
open('used', 'w').write(f'{os.getpid()} {int(1e9 * (used.ru_utime + used.ru_stime))} {used.ru_nvcsw + used.ru_nivcsw}')
os._exit(0)
";

#[test]
fn times_on_a_cpu_are_those_that_the_kernel_counts() {
    let Some(place) = shared_workplace() else { return };
    // Switches alone tell it, too, if not what of it was in the kernel. On one CPU, as of some CPUs a kernel does not tell the switches from
    // idling.
    for options in [&[][..], &["--preset", "sched"]] {
        place.run("rm", &["-rf", text(&place.path("trace"))]).expect_success();
        let stolen_before_ns = stolen_ns();
        let trace = record(&place, options, &["sh", "-c", BEGIN_TO_BURN, &allowed_cpu(), BURN]);
        let stolen_ns = stolen_ns() - stolen_before_ns;
        let said = |file| {
            let said = std::fs::read_to_string(place.path(file)).expect("it said what it used");
            let numbers = said.split_whitespace().map(|word| word.parse().expect("a number"));
            numbers.collect::<Vec<i64>>()
        };
        let (before_ns, said) = (said("before")[0], said("used"));
        let (pid, used_ns, switches) = (said[0], said[1] - before_ns, said[2]);

        let report = analyze(&place, "ltt", &trace, &["--limit", "1000"]);
        let own = row(&report, "processes", "pid", &pid.into());
        let on_cpu_ns = number(&own["on_cpu_ns"]);
        // What it used before a tick counted it, and after it had asked; and what the host of a virtual machine took from its CPU, which it did
        // not use. When an interrupt wakes a thread that preempts this one, the kernel charges the rest of the
        // interrupt to the woken thread (`rq_clock_skip_update`): about 15 us in a virtual machine.
        let difference = (on_cpu_ns - used_ns).abs();
        assert!(
            difference < used_ns / 100 + 20_000_000 + stolen_ns + switches * 50_000,
            "{on_cpu_ns} ns on a CPU, {used_ns} ns according to getrusage, {stolen_ns} ns stolen, {switches} switches"
        );
        let (user, kernel) = (number(&own["user_ns"]), number(&own["kernel_ns"]));
        assert_eq!(user > 0 && kernel > 0, options.is_empty(), "{own:#}");
        let top = analyze(&place, "cputop", &trace, &["--pid", &pid.to_string()]);
        let thread = row(&top, "threads", "tid", &pid.into());
        assert_eq!(number(&thread["on_cpu_ns"]), on_cpu_ns);
    }
}

#[test]
fn a_resting_system_is_recorded_as_a_whole() {
    let Some(place) = shared_workplace() else { return };
    let trace = record(&place, &["-a", "--preset", "sched"], &["sleep", "0.3"]);
    let report = analyze(&place, "ltt", &trace, &["--limit", "1000"]);
    let notes = report["notes"].to_string();
    assert!(!notes.contains("only some threads"), "{notes}");
    let slept = row(&report, "processes", "comm", &"sleep".into());
    assert!(number(&slept["on_cpu_ns"]) > 0, "{slept:#}");
}

#[test]
fn what_a_thread_did_sums_up_to_the_duration_exactly() {
    let Some(place) = shared_workplace() else { return };
    let trace = record(
        &place,
        &[],
        &["sh", "-c", "for i in 1 2 3; do ls / | sort; sleep 0.02; done; true"],
    );
    let whole = analyze(&place, "ltt", &trace, &["--limit", "100000"]);
    let (begin, end) = (number(&whole["begin_ns"]), number(&whole["end_ns"]));
    // Before and behind it there are threads, however long the machine stood still.
    let procs = analyze(&place, "procs", &trace, &[]);
    let sleeps = rows(&procs, "processes")
        .iter()
        .filter(|row| row["program"].as_str().is_some_and(|path| path.ends_with("/sleep")));
    let mut begins: Vec<i64> = sleeps.map(|row| number(&row["began_ns"])).collect();
    begins.sort_unstable();
    let middle = begins[1];
    for options in [
        vec![],
        vec!["--end".to_owned(), middle.to_string()],
        vec!["--begin".to_owned(), middle.to_string()],
    ] {
        let mut arguments: Vec<&str> = vec!["--limit", "100000"];
        arguments.extend(options.iter().map(String::as_str));
        let report = analyze(&place, "ltt", &trace, &arguments);
        let duration = number(&report["end_ns"]) - number(&report["begin_ns"]);
        assert!(duration > 0 && duration <= end - begin);
        assert!(time_is_filled(&report) >= 2, "{options:?}: {report:#}");
    }
}

#[test]
fn calls_are_counted_as_strace_counts_them() {
    let Some(place) = shared_workplace() else { return };
    // Twice the same.
    let command = ["dd", "if=/dev/zero", "of=/dev/null", "bs=512", "count=500"];
    let trace = record(&place, &[], &command);
    let counts = text(&place.path("counts")).to_owned();
    place
        .run(
            "strace",
            &[&["-f", "-c", "-U", "calls,name", "-o", &counts], &command[..]].concat(),
        )
        .expect_success();
    let counted = std::fs::read_to_string(&counts).expect("strace wrote it");
    let report = analyze(&place, "syscallstats", &trace, &["--comm", "dd", "--limit", "1000"]);
    for call in ["read", "write", "close", "mmap"] {
        let theirs = counted.lines().find_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            (words.len() == 2 && words[1] == call).then(|| words[0].parse::<i64>().ok())?
        });
        let ours = number(&row(&report, "syscalls", "syscall", &call.into())["count"]);
        assert_eq!(Some(ours), theirs, "{call}: {counted}");
    }
}

#[test]
fn waits_have_causes() {
    let Some(place) = shared_workplace() else { return };
    let program = "
import os, time
time.sleep(0.05)
if os.fork() == 0:
    # However long the parent takes to begin: it sleeps, by then, for this process.
    while open(f'/proc/{os.getppid()}/stat').read().rsplit(')', 1)[1].split()[0] != 'S':
        pass
    time.sleep(0.05)
    os._exit(0)
os.wait()
";
    let trace = record(&place, &[], &["python3", "-c", program]);
    let report = analyze(&place, "blocked", &trace, &["--limit", "1000", "--min", "40ms"]);
    let waits = rows(&report, "waits");
    // python3 may be a script that becomes it, and waits itself before.
    let of = |call: &str, cause: &str| -> i64 {
        let own = waits
            .iter()
            .filter(|wait| wait["comm"] == "python3" && wait["syscall"] == call && wait["cause"] == cause);
        own.map(|wait| number(&wait["count"])).sum()
    };
    assert_eq!(of("clock_nanosleep", "timer"), 2, "{report:#}");
    assert_eq!(of("wait4", "thread"), 1, "{report:#}");
    let tree = analyze(&place, "procs", &trace, &[]);
    // Others of that name may end meanwhile, on a CPU that turns to a recorded thread.
    let is_python = |row: &&Value| row["comm"].as_str().is_some_and(|comm| comm == "python3");
    let all: Vec<&Value> = rows(&tree, "processes").iter().filter(is_python).collect();
    let is_child_of = |child: &Value, parent: &Value| {
        child["ppid"] == parent["pid"] && number(&child["depth"]) == number(&parent["depth"]) + 1
    };
    let pairs = all
        .iter()
        .flat_map(|child| all.iter().map(move |parent| (child, parent)));
    assert_eq!(
        pairs.filter(|(child, parent)| is_child_of(child, parent)).count(),
        1,
        "{tree:#}"
    );
}

#[test]
fn a_trace_that_lacks_events_is_told_how_to_get_them() {
    let Some(place) = shared_workplace() else { return };
    let trace = record(&place, &["-k", "sched_switch"], &["true"]);
    let refused = place.piste(&["analyze", "syscallstats", &trace]);
    assert_eq!(refused.status, 1, "{refused}");
    assert!(
        refused
            .stderr
            .contains("`piste record --preset syscalls -o DIR -- CMD`"),
        "{refused}"
    );
    let answered = place.piste(&["analyze", "ltt", &trace]);
    answered.expect_success();
    assert!(answered.stderr.contains("--preset syscalls"), "{answered}");
    let unknown = place.piste(&["analyze", "lttt", &trace]);
    assert_eq!(unknown.status, 2, "{unknown}");
    assert!(unknown.stderr.contains("did you mean ltt"), "{unknown}");
}

#[test]
fn every_analysis_speaks_text_json_and_csv() {
    let Some(place) = shared_workplace() else { return };
    let trace = record(
        &place,
        &["--preset", "sched,syscalls,irq,mem"],
        &[
            "sh",
            "-c",
            "ls / >/dev/null; i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done",
        ],
    );
    let all = place.piste_json(&["analyze"]);
    for analysis in all["analyses"].as_array().expect("a list") {
        let name = analysis["name"].as_str().expect("a name");
        // Has to be told of which events; are about programs' own.
        if matches!(name, "periods" | "heap" | "flame") {
            continue;
        }
        let report = analyze(&place, name, &trace, &[]);
        let plain = place.piste_succeeds(&["analyze", name, &trace]);
        let csv = place.piste_succeeds(&["analyze", name, &trace, "--csv"]);
        assert!(plain.lines().count() > 1, "{name}: {plain}");
        // A line for each row, one for each heading, and one between two tables.
        let tables: Vec<&Vec<Value>> = report
            .as_object()
            .expect("an object")
            .iter()
            .filter(|(key, _)| !["notes", "findings"].contains(&key.as_str()))
            .filter_map(|(_, table)| table.as_array())
            .collect();
        let lines: usize = tables.iter().map(|table| table.len() + 2).sum();
        assert_eq!(csv.lines().count(), lines - 1, "{name}: {csv}");
    }
}

#[test]
fn what_stands_out_has_a_command_that_looks_closer() {
    let Some(place) = shared_workplace() else { return };
    let busy = "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done";
    let trace = text(&place.path("trace")).to_owned();
    let alone = kernel::alone();
    let told = place.piste(&[
        "record",
        "--no-user",
        "--insights",
        "always",
        "-o",
        &trace,
        "--",
        "sh",
        "-c",
        busy,
    ]);
    drop(alone);
    told.expect_success();
    let found = place.piste_json(&["insights", &trace]);
    let insights = rows(&found, "insights");
    let worth_a_line = insights
        .iter()
        .filter(|insight| insight["level"] != "information")
        .count();
    let lines = told.stderr.lines().filter(|line| line.trim_start().starts_with("seen"));
    // Three, and how many more there are. On a busy machine looking may have taken too long; then nothing is said.
    let told_lines = lines.count();
    assert!(told_lines == 0 || told_lines == worth_a_line.min(4), "{told} {found:#}");
    for insight in insights {
        let command = insight["command"].as_str().expect("a command");
        let words: Vec<&str> = command.split(' ').skip(1).collect();
        place.piste(&words).expect_success();
        assert!(
            number(&insight["begin_ns"]) <= number(&insight["end_ns"]),
            "{insight:#}"
        );
    }
    let page = place.piste_succeeds(&["insights", &trace]);
    let closer = page.lines().filter(|line| line.trim_start().starts_with("closer"));
    assert_eq!(closer.count(), insights.len(), "{page}");
}

#[test]
fn two_traces_differ_in_what_was_done_more_often() {
    let Some(place) = shared_workplace() else { return };
    let mut traces = Vec::new();
    for count in ["100", "300"] {
        let trace = text(&place.path(count)).to_owned();
        let count = format!("count={count}");
        let options = ["record", "--no-user", "-o", &trace, "--"];
        let command = ["dd", "if=/dev/zero", "of=/dev/null", "bs=1", &count, "status=none"];
        let _alone = kernel::alone();
        place.piste_succeeds(&[&options[..], &command].concat());
        traces.push(trace);
    }
    let report = place.piste_json(&["diff", &traces[0], &traces[1], "syscallstats", "--limit", "1000"]);
    let written: Vec<&Value> = rows(&report, "changes")
        .iter()
        .filter(|change| change["about"] == "dd write" && change["measure"] == "count")
        .collect();
    assert_eq!(written.len(), 1, "{report:#}");
    assert_eq!(
        (&written[0]["before"], &written[0]["after"]),
        (&100.0.into(), &300.0.into()),
        "{report:#}"
    );
    // Of all analyses, that is among what changed.
    let all = place.piste_succeeds(&["diff", &traces[0], &traces[1], "--limit", "1000"]);
    assert!(
        all.lines()
            .any(|line| line.contains("count") && line.contains("dd write")),
        "{all}"
    );
    let same = place.piste_json(&["diff", &traces[0], &traces[0]]);
    assert_eq!(rows(&same, "changes").len(), 0, "{same:#}");
    let refused = place.piste(&["diff", &traces[0], &traces[1], "schedlog"]);
    assert_eq!(refused.status, 2, "{refused}");
}

#[test]
fn periods_are_from_one_chosen_event_to_another() {
    let Some(place) = shared_workplace() else { return };
    let dd = ["dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=200", "status=none"];
    let trace = record(&place, &[], &dd);
    let options = [
        "--begin-event",
        "name == \"syscall_entry_write\"",
        "--end-event",
        "name == \"syscall_exit_write\"",
        "--capture",
        "name",
        "--comm",
        "dd",
    ];
    let report = analyze(&place, "periods", &trace, &options);
    let calls = analyze(&place, "syscallstats", &trace, &["--comm", "dd"]);
    let (periods, calls) = (
        row(&report, "periods", "captured", &"syscall_entry_write".into()),
        row(&calls, "syscalls", "syscall", &"write".into()),
    );
    for key in ["count", "total_ns", "min_ns", "max_ns"] {
        assert_eq!(periods[key], calls[key], "{key}: {report:#}");
    }
    assert_eq!(rows(&report, "log").len(), 200, "{report:#}");
    let refused = place.piste(&["analyze", "periods", &trace]);
    assert_eq!(refused.status, 2, "{refused}");
}

#[test]
fn the_longest_periods_tell_what_their_threads_did() {
    const SHORTEST_NS: i64 = 10_000_000;
    let Some(place) = shared_workplace() else { return };
    let sleeps = "for time in 0.02 0.3 0.05 0.01; do sleep $time; done";
    let trace = record(&place, &[], &["sh", "-c", sleeps]);
    let options = [
        "--begin-event",
        "name =~ \"syscall_entry_*nanosleep\"",
        "--end-event",
        "name =~ \"syscall_exit_*nanosleep\"",
        "--top",
        "2",
    ];
    let report = analyze(&place, "periods", &trace, &options);
    let top = rows(&report, "top");
    assert_eq!(top.len(), 2, "{report:#}");
    for (row, at_least_ns) in top.iter().zip([300_000_000, 50_000_000]) {
        let duration_ns = number(&row["duration_ns"]);
        assert!(duration_ns >= at_least_ns, "{row:#}");
        let parts = ["running_ns", "runnable_ns", "blocked_ns", "unknown_ns"];
        assert_eq!(
            parts.map(|key| number(&row[key])).iter().sum::<i64>(),
            duration_ns,
            "{row:#}"
        );
        // It may have waited longer for a CPU than for its timer.
        assert!(number(&row["blocked_ns"]) >= SHORTEST_NS, "{row:#}");
        assert_eq!(row["blocked_for"][0]["name"], "timer", "{row:#}");
        let call = row["in_syscalls"][0]["name"].as_str().expect("a name");
        assert!(call.ends_with("nanosleep"), "{row:#}");
    }
    assert!(
        number(&top[0]["duration_ns"]) >= number(&top[1]["duration_ns"]),
        "{report:#}"
    );
}

/// One stream of all CPUs, as tracers write that know no CPUs: its events say on which one they happened. Thread 42 has CPU 5 for 30 ns, and
/// meanwhile 43 has CPU 0 for 10.
const CPUS_IN_FIELDS: &str = "
--- metadata
trace { major = 1; minor = 8; byte_order = le; };
clock { name = c; freq = 1000000000; };
typealias integer { size = 64; align = 8; map = clock.c.value; } := clock_t;
typealias integer { size = 32; align = 8; } := uint32_t;
stream { event.header := struct { clock_t timestamp; }; };
event {
	name = sched_switch;
	fields := struct { uint32_t _prev_tid; uint32_t _prev_state; uint32_t _next_tid; uint32_t _cpu_id; };
};
--- stream s
u64:10 u32:0 u32:0 u32:42 u32:5
u64:15 u32:0 u32:0 u32:43 u32:0
u64:25 u32:43 u32:1 u32:0 u32:0
u64:40 u32:42 u32:1 u32:0 u32:5
";

#[test]
fn events_say_on_which_cpu_they_happened_where_packets_do_not() {
    let place = Workplace::new();
    let write = |name: &str, description: &str| {
        let folder = place.path(name);
        let trace = notation::Trace::parse(description, Path::new("")).expect("it is a trace");
        std::fs::create_dir(&folder).expect("a new folder");
        std::fs::write(folder.join("metadata"), &trace.metadata).expect("it can be written");
        for (stream, bytes) in &trace.streams {
            std::fs::write(folder.join(stream), bytes).expect("it can be written");
        }
        text(&folder).to_owned()
    };
    let report = analyze(&place, "cputop", &write("fields", CPUS_IN_FIELDS), &[]);
    let on_cpu = |tid: i64| number(&row(&report, "threads", "tid", &tid.into())["on_cpu_ns"]);
    assert_eq!([42, 43].map(on_cpu), [30, 10], "{report:#}");

    let nowhere = CPUS_IN_FIELDS.replace("_cpu_id", "_where");
    let refused = place.piste(&["analyze", "cputop", &write("nowhere", &nowhere)]);
    assert_eq!((refused.status, refused.stdout.as_str()), (1, ""), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("does not show on which CPU"),
        "{}",
        refused.stderr
    );
}
