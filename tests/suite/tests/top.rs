// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste top`: the same figures as the analyses, of a trace and of a running session, printed and on a terminal.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use piste_support::build_tree::binary;
use piste_support::kernel::workplace as kernel_workplace;
use piste_support::report::text;
use piste_support::{Workplace, process};
use serde_json::Value;

/// Two that compute and write, and one that sleeps.
const WORK: &str = "(i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done) &
for i in 1 2 3 4 5; do dd if=/dev/zero of=file-$i bs=64k count=10 conv=fsync; sleep 0.02; done
wait";

fn record(place: &Workplace, presets: &str) -> String {
    let trace = text(&place.path(&presets.replace(',', "-"))).to_owned();
    let options = [
        "record",
        "-a",
        "--no-user",
        "--preset",
        presets,
        "-o",
        &trace,
        "--",
        "sh",
        "-c",
        WORK,
    ];
    place.piste(&options).expect_success();
    trace
}

fn top(place: &Workplace, arguments: &[&str]) -> Vec<Value> {
    let printed = place.piste_succeeds(&[&["--json", "top", "--limit", "100000"], arguments].concat());
    let lines = printed.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

/// Of each row of a table, the numbers of some columns, summed up by the value of another one.
fn sums(rows: &Value, key: &str, columns: &[&str]) -> BTreeMap<String, Vec<i64>> {
    let mut sums = BTreeMap::new();
    for row in rows.as_array().expect("rows") {
        let sum = sums
            .entry(row[key].to_string())
            .or_insert_with(|| vec![0; columns.len()]);
        for (sum, column) in sum.iter_mut().zip(columns) {
            *sum += row[column].as_i64().unwrap_or(0);
        }
    }
    sums.retain(|_, sums| sums.iter().any(|sum| *sum != 0));
    sums
}

/// An interval has what the analyses say of the same part of the trace.
fn check(place: &Workplace, trace: &str, interval: &Value) {
    let [begin, end] = ["begin_ns", "end_ns"].map(|key| interval[key].as_str().expect("a time"));
    let analyze = |name: &str| {
        place.piste_json(&[
            "analyze", name, trace, "--limit", "100000", "--begin", begin, "--end", end,
        ])
    };
    let (cputop, calls) = (analyze("cputop"), analyze("syscallstats"));
    let cpus = ["busy_ns", "interrupted_ns", "idle_ns", "unknown_ns"];
    for (own, other, key, columns) in [
        (&interval["threads"], &cputop["threads"], "tid", &["on_cpu_ns"][..]),
        (&interval["cpus"], &cputop["cpus"], "cpu", &cpus),
        (
            &interval["syscalls"],
            &calls["syscalls"],
            "syscall",
            &["count", "failed", "total_ns", "max_ns"],
        ),
    ] {
        assert_eq!(
            sums(own, key, columns),
            sums(other, key, columns),
            "{key} {begin} {end}"
        );
    }
}

#[test]
fn figures_equal_those_of_the_analyses() {
    let Some(place) = kernel_workplace() else { return };
    let trace = record(&place, "sched,syscalls,irq,io");
    let whole = top(&place, &[&trace]);
    assert_eq!(whole.len(), 1);
    check(&place, &trace, &whole[0]);
    // On a busy machine, some may be lost.
    let stats = place.piste_json(&["stats", &format!("{trace}/kernel")]);
    assert_eq!(whole[0]["lost_events"], stats["discarded_events"]);
    let intervals = top(&place, &[&trace, "--interval", "50ms"]);
    assert!(intervals.len() > 2, "{}", intervals.len());
    for pair in intervals.windows(2) {
        assert_eq!(pair[0]["end_ns"], pair[1]["begin_ns"]);
    }
    for interval in &intervals[1..3] {
        check(&place, &trace, interval);
    }
    let calls = |intervals: &[Value]| -> i64 {
        let rows = intervals
            .iter()
            .flat_map(|one| one["syscalls"].as_array().expect("rows"));
        rows.map(|row| row["count"].as_i64().expect("a count")).sum()
    };
    assert_eq!(calls(&intervals), calls(&whole));
    assert_eq!(top(&place, &[&trace, "-n", "2"]).len(), 2);
    let tables = place.piste(&["top", &trace]);
    for heading in ["CPUs", "Threads", "System calls", "lost: "] {
        assert!(tables.expect_success().stdout.contains(heading), "{heading}: {tables}");
    }
}

#[test]
fn what_was_not_recorded_is_unknown() {
    let Some(place) = kernel_workplace() else { return };
    let trace = record(&place, "sched");
    let printed = top(&place, &[&trace]);
    assert!(printed[0].get("syscalls").is_none() && printed[0].get("devices").is_none());
    for thread in printed[0]["threads"].as_array().expect("rows") {
        for column in ["user_percent", "kernel_percent", "syscalls", "read_bytes"] {
            assert!(thread[column].is_null(), "{column}: {thread}");
        }
    }
    let notes = printed[0]["notes"].to_string();
    assert!(notes.contains("syscall_entry_*"), "{notes}");
}

#[test]
fn a_running_session_is_followed() {
    let Some(place) = kernel_workplace() else { return };
    place.start_pisted();
    let none = place.piste(&["top"]);
    none.expect_status(1);
    assert!(none.stderr.contains("no session is running"), "{none}");
    place.piste_succeeds(&["create", "web", "-o", text(&place.path("web"))]);
    place.piste_succeeds(&["enable-event", "-k", "--preset", "sched,syscalls"]);
    let waiting = place.piste(&["top", "web"]);
    waiting.expect_status(1);
    assert!(waiting.stderr.contains("`piste start web` starts it"), "{waiting}");
    place.piste_succeeds(&["start"]);
    let intervals = top(&place, &["-n", "3", "--interval", "0.3"]);
    assert_eq!(intervals.len(), 3);
    for interval in &intervals {
        assert_eq!(interval["duration_ns"], 300_000_000);
        assert!(!interval["cpus"].as_array().expect("rows").is_empty());
    }
    // On a busy machine it need not run in each.
    let mut threads = intervals
        .iter()
        .flat_map(|interval| interval["threads"].as_array().expect("rows"));
    assert!(threads.any(|row| row["comm"] == "piste"), "{intervals:?}");
    let refused = place.piste(&["top", "web", "--begin", "+1s"]);
    refused.expect_status(2);
    place.piste_succeeds(&["destroy", "web"]);
}

/// A terminal of tmux, with a server of its own.
struct Terminal<'p> {
    place: &'p Workplace,
    socket: String,
}

impl<'p> Terminal<'p> {
    /// Runs a line of shell on it. `None`, and a line that says so, where there is no tmux.
    fn run(place: &'p Workplace, (columns, rows): (usize, usize), line: &str) -> Option<Terminal<'p>> {
        if Command::new("tmux").arg("-V").output().is_err() {
            println!("skipped: there is no tmux");
            return None;
        }
        // One of its own: a server that is ending would still answer.
        let socket = text(&place.path(&format!("tmux-{columns}"))).to_owned();
        let terminal = Terminal { place, socket };
        let (columns, rows) = (columns.to_string(), rows.to_string());
        let line =
            format!("stty -echo; {line}; echo ended $?; stty -a | grep -q -- ' icanon' && echo restored; sleep 60");
        terminal.tmux(&["new-session", "-d", "-x", &columns, "-y", &rows, &line]);
        Some(terminal)
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let mut tmux = self.place.command("tmux");
        tmux.env("TERM", "xterm").env_remove("TMUX");
        tmux.args(["-f", "/dev/null", "-S", &self.socket]).args(arguments);
        process::run(&mut tmux).expect_success().stdout.clone()
    }

    fn press(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// Waits until the screen has a text; the screen.
    fn wait_for(&self, wanted: &str) -> String {
        let mut screen = String::new();
        process::wait_until(wanted, || {
            screen = self.tmux(&["capture-pane", "-p"]);
            screen.contains(wanted)
        });
        screen
    }
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        let mut tmux = self.place.command("tmux");
        let _ = tmux.args(["-S", &self.socket, "kill-server"]).output();
    }
}

#[test]
fn the_screen_fits_and_is_given_back() {
    let Some(place) = kernel_workplace() else { return };
    let trace = record(&place, "sched,syscalls");
    for (columns, wanted) in [
        (80, &["CPU %▼", "WAITED", "CALLS/S"][..]),
        (120, &["CPU %▼", "USER", "KERNEL", "BLOCKED"]),
    ] {
        let line = format!("{} top {trace}", binary("piste").display());
        let Some(terminal) = Terminal::run(&place, (columns, 30), &line) else {
            return;
        };
        let whole = terminal.wait_for(")  all");
        assert!(whole.contains("lost: "), "{whole}");
        terminal.press(&["Home"]);
        let screen = terminal.wait_for("1 of ");
        for heading in wanted {
            assert!(screen.contains(heading), "{columns}: {heading}: {screen}");
        }
        assert!(screen.lines().all(|line| line.chars().count() <= columns), "{screen}");
        terminal.press(&["Right", "l"]);
        terminal.wait_for("2 of ");
        terminal.wait_for("WAITED▼");
        terminal.press(&["?"]);
        terminal.wait_for("reverse the order");
        terminal.press(&["?", "/"]);
        terminal.wait_for("name contains: ");
        terminal.press(&["-l", "dd"]);
        terminal.press(&["Enter"]);
        terminal.wait_for("threads with \"dd\"");
        terminal.press(&["q"]);
        terminal.wait_for("ended 0");
        terminal.wait_for("restored");
    }
}

#[test]
fn a_signal_gives_the_terminal_back() {
    let Some(place) = kernel_workplace() else { return };
    let trace = record(&place, "sched");
    let pid = place.path("pid");
    let line = format!(
        "sh -c 'echo $$ >{}; exec {} top {trace}'",
        pid.display(),
        binary("piste").display()
    );
    let Some(terminal) = Terminal::run(&place, (80, 24), &line) else {
        return;
    };
    terminal.wait_for(")  all");
    let pid = fs::read_to_string(&pid).expect("its id");
    place.run("kill", &["-TERM", pid.trim()]).expect_success();
    terminal.wait_for("ended 143");
    terminal.wait_for("restored");
}

#[test]
fn it_ends_with_its_terminal() {
    let Some(place) = kernel_workplace() else { return };
    let trace = record(&place, "sched");
    let pid = place.path("pid");
    for hang_up in ["-", "''"] {
        let line = format!(
            "sh -c \"trap {hang_up} HUP; echo \\$\\$ >{}; exec {} top {trace}\"",
            pid.display(),
            binary("piste").display()
        );
        let Some(terminal) = Terminal::run(&place, (80, 24), &line) else {
            return;
        };
        terminal.wait_for(")  all");
        let pid = fs::read_to_string(&pid).expect("its id");
        drop(terminal);
        let process = format!("/proc/{}/exe", pid.trim());
        process::wait_until("it has ended", || fs::read_link(&process).is_err());
    }
}
