// SPDX-License-Identifier: MIT OR Apache-2.0
//! What SQL says of slices, states, system calls, interrupts, requests, processes, threads and spans is what `piste analyze` says of the same
//! trace.

use std::collections::BTreeMap;
use std::path::Path;

use piste_support::kernel::workplace as kernel_workplace;
use piste_support::{Trace, Workplace};
use serde_json::Value;

const LIMIT: [&str; 2] = ["--limit", "1000000"];

/// A trace that is asked in both ways.
struct Asked<'p> {
    place: &'p Workplace,
    trace: Trace,
}

/// The values of some columns, of each row.
type Rows = Vec<Vec<Value>>;

impl Asked<'_> {
    fn folder(&self) -> &str {
        self.trace.path().to_str().expect("UTF-8")
    }

    /// The rows of a query, in some order that depends on nothing but the values.
    fn sql(&self, columns: &[&str], sql: &str) -> Rows {
        let printed = self
            .place
            .piste_succeeds(&["query", "--format", "ndjson", self.folder(), sql]);
        let row =
            |line: &str| -> Value { serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")) };
        chosen(printed.lines().map(row), columns)
    }

    fn report(&self, name: &str, options: &[&str]) -> Value {
        let arguments = [&["analyze", name, self.folder()], &LIMIT[..], options].concat();
        self.place.piste_json(&arguments)
    }

    /// The rows of a table of an analysis, likewise.
    fn analysis(&self, name: &str, table: &str, columns: &[&str]) -> Rows {
        let report = self.report(name, &[]);
        chosen(rows(&report, table).iter().cloned(), columns)
    }
}

fn rows<'v>(report: &'v Value, table: &str) -> &'v Vec<Value> {
    report[table]
        .as_array()
        .unwrap_or_else(|| panic!("no {table}: {report:#}"))
}

fn chosen(rows: impl Iterator<Item = Value>, columns: &[&str]) -> Rows {
    let values = |row: Value| columns.iter().map(|column| row[*column].clone()).collect();
    let mut rows: Rows = rows.map(values).collect();
    rows.sort_by_key(|row| format!("{row:?}"));
    rows
}

#[track_caller]
fn assert_same(ours: &Rows, theirs: &Rows) {
    let mut counts: BTreeMap<String, i64> = BTreeMap::new();
    for (rows, sign) in [(ours, 1), (theirs, -1)] {
        rows.iter()
            .for_each(|row| *counts.entry(format!("{row:?}")).or_default() += sign);
    }
    counts.retain(|_, count| *count != 0);
    assert!(
        counts.is_empty(),
        "in SQL (1) or in the analysis (-1) only: {counts:#?}"
    );
    assert!(!ours.is_empty());
}

/// Everything that a program does which starts others, waits, reads and writes.
fn record<'p>(place: &'p Workplace, options: &[&str]) -> Asked<'p> {
    let program = place.program("viewer_work.c");
    let options = [&["--no-user"], options].concat();
    let recording = place.record_with_kernel(&options, &program, &[]);
    recording.finished.expect_success();
    Asked {
        place,
        trace: recording.trace(),
    }
}

#[test]
fn tables_of_the_kernel_say_what_analyses_say() {
    let Some(place) = kernel_workplace() else { return };
    let asked = record(&place, &["-a", "--preset", "sched,syscalls,irq,io"]);
    slices_are_those_of_cputop(&asked);
    states_are_those_of_ltt(&asked);
    calls_are_those_of_syscallstats(&asked);
    interrupts_are_those_of_irqstats(&asked);
    requests_are_those_of_iolatencystats(&asked);
    processes_are_those_of_procs(&asked);
}

fn slices_are_those_of_cputop(asked: &Asked<'_>) {
    let columns = ["tid", "comm", "on_cpu_ns"];
    let ours = asked.sql(
        &columns,
        "SELECT t.tid, t.comm, sum(s.duration_ns) AS on_cpu_ns FROM sched_slices s
         JOIN threads t ON t.thread = s.thread GROUP BY t.thread, t.tid, t.comm",
    );
    assert_same(&ours, &asked.analysis("cputop", "threads", &columns));
    let columns = ["cpu", "busy_ns", "interrupted_ns", "idle_ns"];
    let ours = asked.sql(
        &columns,
        "SELECT cpu, sum(interrupted_ns) AS interrupted_ns,
           sum(CASE WHEN tid = 0 THEN 0 ELSE duration_ns - interrupted_ns END) AS busy_ns,
           sum(CASE WHEN tid = 0 THEN duration_ns - interrupted_ns ELSE 0 END) AS idle_ns
         FROM sched_slices GROUP BY cpu",
    );
    assert_same(&ours, &asked.analysis("cputop", "cpus", &columns));
}

/// The sums of `ltt` and of `threads`, but for those that the states alone do not tell.
const TOTALS: [&str; 13] = [
    "on_cpu_ns",
    "user_ns",
    "kernel_ns",
    "interrupted_ns",
    "runnable_ns",
    "io_ns",
    "network_ns",
    "timer_ns",
    "lock_ns",
    "thread_ns",
    "other_ns",
    "unknown_ns",
    "absent_ns",
];

fn states_are_those_of_ltt(asked: &Asked<'_>) {
    let columns = [&["tid"], &TOTALS[..]].concat();
    let theirs = asked.analysis("ltt", "threads", &columns);
    // Which threads `ltt` leaves out: those of which nothing is known.
    let ours = asked.sql(
        &columns,
        "SELECT * FROM threads WHERE unknown_ns + absent_ns < (SELECT sum(duration_ns) FROM thread_states s
           WHERE s.thread = threads.thread)",
    );
    assert_same(&ours, &theirs);
    let of = |key: &str, condition: &str| format!("sum(CASE WHEN {condition} THEN s.duration_ns ELSE 0 END) AS {key}");
    let sums = [
        of("on_cpu_ns", "state = 'running'"),
        of("user_ns", "mode = 'user'"),
        of("kernel_ns", "mode = 'kernel'"),
        of("interrupted_ns", "mode = 'interrupted'"),
        of("runnable_ns", "state = 'runnable'"),
        of("io_ns", "cause = 'io'"),
        of("network_ns", "cause = 'network'"),
        of("timer_ns", "cause = 'timer'"),
        of("lock_ns", "cause = 'lock'"),
        of("thread_ns", "cause = 'thread'"),
        of("other_ns", "state IN ('blocked', 'stopped') AND cause IS NULL"),
        of("unknown_ns", "state IS NULL"),
        of("absent_ns", "state = 'absent'"),
    ];
    let sql = format!(
        "SELECT t.tid, {} FROM thread_states s JOIN threads t ON t.thread = s.thread GROUP BY t.thread, t.tid
         HAVING count(state) FILTER (WHERE state <> 'absent') > 0",
        sums.join(", ")
    );
    assert_same(&asked.sql(&columns, &sql), &theirs);
}

fn calls_are_those_of_syscallstats(asked: &Asked<'_>) {
    let columns = ["syscall", "count", "failed", "total_ns", "min_ns", "max_ns"];
    let ours = asked.sql(
        &columns,
        "SELECT name AS syscall, count(*) AS count, count(*) FILTER (WHERE ret < 0) AS failed,
           sum(duration_ns) AS total_ns, min(duration_ns) AS min_ns, max(duration_ns) AS max_ns
         FROM syscalls GROUP BY name",
    );
    assert_same(&ours, &asked.analysis("syscallstats", "syscalls", &columns));
}

fn interrupts_are_those_of_irqstats(asked: &Asked<'_>) {
    let columns = ["interrupt", "count", "total_ns", "min_ns", "max_ns", "late_max_ns"];
    let ours = asked.sql(
        &columns,
        "SELECT concat_ws(' ', kind, CASE WHEN kind = 'irq' THEN number END, name) AS interrupt,
           count(*) AS count, sum(duration_ns - nested_ns) AS total_ns, min(duration_ns - nested_ns) AS min_ns,
           max(duration_ns - nested_ns) AS max_ns, max(begin_ns - raised_ns) AS late_max_ns
         FROM irqs GROUP BY kind, number, name",
    );
    assert_same(&ours, &asked.analysis("irqstats", "interrupts", &columns));
}

fn requests_are_those_of_iolatencystats(asked: &Asked<'_>) {
    let columns = [
        "device",
        "operation",
        "count",
        "failed",
        "total_ns",
        "min_ns",
        "max_ns",
        "queue_max_ns",
        "bytes",
    ];
    let theirs = asked.analysis("iolatencystats", "devices", &columns);
    let ours = asked.sql(
        &columns,
        "SELECT coalesce(device_name, device) AS device, operation, count(*) AS count, count(*) FILTER (WHERE error <> 0) AS failed,
           sum(latency_ns) AS total_ns, min(latency_ns) AS min_ns, max(latency_ns) AS max_ns,
           max(queue_ns) AS queue_max_ns, sum(bytes) AS bytes
         FROM io_requests WHERE completed_ns IS NOT NULL GROUP BY device, device_name, operation",
    );
    if theirs.is_empty() {
        println!("not tested: no device was asked for anything");
        assert!(ours.is_empty(), "{ours:?}");
    } else {
        assert_same(&ours, &theirs);
    }
}

fn processes_are_those_of_procs(asked: &Asked<'_>) {
    // What an analysis shows of processes that did not change, it does not list; what it lists must be here.
    let columns = ["pid", "ppid", "began_ns", "lived_ns", "on_cpu_ns", "comm", "program"];
    let report = asked.report("procs", &[]);
    let plain = rows(&report, "processes").iter().cloned().map(|mut row| {
        // The file that it executed last.
        let last = |programs: &str| programs.rsplit(" -> ").next().map(str::to_owned);
        row["program"] = row["program"].as_str().and_then(last).into();
        row
    });
    // Of others the analysis may have a thread for the process, when it began one before the trace told whose it is.
    let is_known = |row: &Value| !row["began_ns"].is_null();
    let theirs = chosen(plain.filter(is_known), &columns);
    let ours = asked.sql(
        &columns,
        "SELECT pid, ppid, begin_ns AS began_ns, duration_ns AS lived_ns, on_cpu_ns, comm, program FROM processes",
    );
    assert!(!theirs.is_empty());
    for row in &theirs {
        let of_pid: Vec<_> = ours.iter().filter(|own| own[0] == row[0]).collect();
        assert!(of_pid.contains(&row), "{row:?} is not among {of_pid:?}");
    }
    // A tree whose root is the first process of the recorded program.
    let family = asked.sql(
        &["comm"],
        "WITH RECURSIVE family AS (
           SELECT pid FROM processes WHERE program LIKE '%viewer_work'
           UNION SELECT p.pid FROM processes p JOIN family f ON p.ppid = f.pid)
         SELECT p.comm FROM processes p JOIN family f ON f.pid = p.pid",
    );
    assert!(family.len() > 1, "{family:?}");
}

#[test]
fn spans_are_the_periods_between_events_of_their_names() {
    let place = Workplace::new();
    let options = ["-u", "work:*", "-u", "step:*", "--block", "forever"];
    let recording = place.record(&options, place.program("spans.c"), &["100"]);
    recording.expect_whole();
    let asked = Asked {
        place: &place,
        trace: recording.trace(),
    };
    let columns = ["begin_ns", "duration_ns"];
    for (span, begin, end, count) in [
        ("work:round", "work:round_begin", "work:round_end", 200),
        ("step", "step:begin", "step:end", 600),
    ] {
        let options = [
            "--begin-event",
            &format!("name == \"{begin}\""),
            "--end-event",
            &format!("name == \"{end}\""),
        ];
        let report = asked.report("periods", &options);
        let theirs = chosen(rows(&report, "log").iter().cloned(), &columns);
        let sql = format!("SELECT * FROM spans WHERE name = '{span}' AND duration_ns IS NOT NULL");
        let ours = asked.sql(&columns, &sql);
        assert_eq!(ours.len(), count, "{span}");
        assert_same(&ours, &theirs);
    }
    // How they nest is what the program said.
    let deep = asked.sql(
        &["depth", "count"],
        "SELECT s.depth, count(*) AS count FROM spans s JOIN step.begin b ON b.tid = s.tid AND b.time_ns = s.begin_ns
         WHERE s.name = 'step' AND b.depth = s.depth GROUP BY s.depth",
    );
    let expected: Rows = (1..=3).map(|depth| vec![depth.into(), 200.into()]).collect();
    assert_eq!(deep, expected);
    let open = asked.sql(
        &["name", "depth", "end_ns"],
        "SELECT * FROM spans WHERE \"end\" IS NULL OR begin IS NULL",
    );
    assert_eq!(open, [vec!["work:round".into(), 0.into(), Value::Null]]);
}

#[test]
fn a_trace_without_the_events_for_a_table_is_told_how_to_get_them() {
    let place = Workplace::new();
    let recording = place.record(&["-u", "work:*"], place.program("spans.c"), &["1"]);
    let trace = recording.trace();
    let refused = ask(&place, trace.path(), "SELECT count(*) FROM syscalls");
    assert_eq!(refused.status, 1, "{refused}");
    assert!(refused.stderr.contains("nothing of the kernel"), "{refused}");
    let Some(place) = kernel_workplace() else { return };
    let recording = place.record_with_kernel(&["--no-user", "-k", "sched_switch"], "true", &[]);
    let trace = recording.trace();
    let refused = ask(&place, trace.path(), "SELECT count(*) FROM syscalls");
    assert_eq!(refused.status, 1, "{refused}");
    assert!(
        refused
            .stderr
            .contains("`piste record --preset syscalls -o DIR -- CMD`"),
        "{refused}"
    );
    // What others did is unknown, and said to be.
    let answered = ask(&place, trace.path(), "SELECT count(*) FROM sched_slices");
    answered.expect_success();
    assert!(
        answered.stderr.contains("only some threads were recorded"),
        "{answered}"
    );
}

fn ask(place: &Workplace, trace: &Path, sql: &str) -> piste_support::Finished {
    place.piste(&["query", trace.to_str().expect("UTF-8"), sql])
}

#[test]
fn a_pass_knows_columns_and_limits_and_its_times_are_those_of_events() {
    let Some(place) = kernel_workplace() else { return };
    let asked = record(&place, &["--preset", "sched,syscalls"]);
    let few = asked.sql(&["tid"], "SELECT tid FROM thread_states LIMIT 3");
    assert_eq!(few.len(), 3);
    let plan = asked.place.piste_succeeds(&[
        "query",
        "--format",
        "csv",
        asked.folder(),
        "EXPLAIN SELECT name FROM syscalls LIMIT 3",
    ]);
    assert!(
        plan.contains("ReadOnce: table=syscalls, columns=[name], limit=3"),
        "{plan}"
    );
    // Times are there as in `events`.
    let same = asked.sql(
        &["n"],
        "SELECT count(*) AS n FROM syscalls s JOIN events e ON e.time = s.\"end\" AND e.tid = s.tid AND e.time_ns = s.end_ns
         WHERE e.name = 'syscall_exit_' || s.name AND e.ret = s.ret",
    );
    let all = asked.sql(&["n"], "SELECT count(*) AS n FROM syscalls");
    assert_eq!(same, all);
}
