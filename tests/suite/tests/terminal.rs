// SPDX-License-Identifier: MIT OR Apache-2.0
//! What people see on terminals of several sizes: tables that fit, a pager for what is longer than the screen, and completions.

use std::io::Write;
use std::process::Stdio;

use piste_support::build_tree::binary;
use piste_support::kernel::workplace as kernel_workplace;
use piste_support::report::text;
use piste_support::{Finished, Workplace, process};

/// Runs a line of shell on a terminal of that size.
fn on_terminal(place: &Workplace, (columns, rows): (usize, usize), line: &str) -> Finished {
    let line = format!("stty cols {columns} rows {rows}; {line}");
    let mut script = place.command("script");
    script.args(["-q", "-e", "-c", &line, "/dev/null"]).stdin(Stdio::null());
    let environment = ["PAGER", "PISTE_PAGER", "LESS", "COLUMNS"];
    environment.iter().for_each(|name| _ = script.env_remove(name));
    process::run(script.env("TERM", "xterm"))
}

/// A command that a shell finds.
fn piste(arguments: &str) -> String {
    format!("{} {arguments}", binary("piste").display())
}

/// Two that compute on one CPU, and one that reads and writes files with long names.
const WORK: &str = "mkdir -p a-folder-with-a-long-name/and-one-in-it
(i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done) & (i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done) &
for i in 1 2 3 4 5; do dd if=/dev/zero of=a-folder-with-a-long-name/and-one-in-it/file-$i bs=64k count=10 conv=fsync; done
wait";

fn record(place: &Workplace) -> String {
    let trace = text(&place.path("trace")).to_owned();
    let command = ["taskset", "-c", &process::allowed_cpu(), "sh", "-c", WORK];
    let options = [
        "record",
        "--no-user",
        "--preset",
        "sched,syscalls,irq,io",
        "-o",
        &trace,
        "--",
    ];
    place.piste(&[&options[..], &command].concat()).expect_success();
    trace
}

#[test]
fn tables_fit_the_terminal_and_say_what_they_leave_out() {
    let Some(place) = kernel_workplace() else { return };
    let trace = record(&place);
    place.piste_succeeds(&[
        "create",
        "web",
        "-o",
        text(&place.path("a-trace-in-a-folder-with-a-long-name")),
    ]);
    place.piste_succeeds(&["enable-event", "-k", "sched_switch"]);
    let periods =
        "--begin-event 'name == \"syscall_entry_openat\"' --end-event 'name == \"syscall_exit_openat\"' --top 5";
    let analyses = [
        "ltt",
        "cputop",
        "syscallstats",
        "schedstats",
        "schedtop",
        "irqstats",
        "blocked",
        "critical-path",
        "iotop",
        "iolog",
    ];
    let mut commands: Vec<String> = analyses.iter().map(|name| format!("analyze {name} {trace}")).collect();
    commands.extend([
        format!("analyze periods {trace} {periods}"),
        format!("stats {trace} --processes"),
        format!("info {trace}"),
        format!("diff {trace} {trace} cputop"),
        "status web".to_owned(),
        "list --sessions".to_owned(),
        format!("query {trace} \"SELECT * FROM events LIMIT 30\""),
    ]);
    for command in &commands {
        let mut left_out = Vec::new();
        for columns in [80, 120, 200] {
            let shown = on_terminal(&place, (columns, 50), &piste(&format!("{command} --no-pager")));
            let shown = shown.expect_success().stdout.replace('\r', "");
            // Sentences wrap; tables must not. What `info` says before its tables has a word in front. Commands stay in one piece.
            let is_text = |line: &&str| {
                ["piste:", "  `piste ", "  clock ", "  time "]
                    .iter()
                    .any(|label| line.starts_with(label))
            };
            let tables = shown.lines().filter(|line| !is_text(line));
            let widest = tables.map(|line| line.chars().count()).max().unwrap_or_default();
            assert!(widest <= columns, "{command}: {widest} of {columns}: {shown}");
            left_out.push(shown.matches("not shown: ").count());
        }
        assert!(
            left_out.is_sorted_by(|one, next| one >= next),
            "{command}: {left_out:?}"
        );
        let wide = on_terminal(&place, (80, 50), &piste(&format!("{command} --no-pager --wide")));
        let piped = place.run("sh", &["-c", &piste(command)]);
        assert!(!wide.stdout.contains("not shown: "), "{wide}");
        assert!(
            !piped.stdout.contains("not shown: ") && !piped.stdout.contains('…'),
            "{piped}"
        );
    }
    let narrow = on_terminal(
        &place,
        (80, 50),
        &piste(&format!("analyze schedtop {trace} --no-pager")),
    );
    for wanted in ["WAITED", "NAME", "BEHIND", "not shown: "] {
        assert!(narrow.stdout.contains(wanted), "{wanted}: {narrow}");
    }
    // Whoever says how wide it is knows better.
    let told = on_terminal(
        &place,
        (80, 50),
        &format!("COLUMNS=300 {}", piste(&format!("analyze schedtop {trace} --no-pager"))),
    );
    assert!(!told.stdout.contains("not shown: "), "{told}");
    place.piste_succeeds(&["destroy", "web"]);
}

#[test]
fn what_is_longer_than_the_screen_goes_to_a_pager() {
    let Some(place) = kernel_workplace() else { return };
    let trace = record(&place);
    let sql = format!("query {trace} \"SELECT name FROM events LIMIT 60\"");
    for command in [
        format!("stats {trace}"),
        format!("info {trace}"),
        format!("analyze ltt {trace}"),
        format!("analyze critical-path {trace} --json"),
        format!("view {trace} -n 100"),
        "list -k 'sched:*'".to_owned(),
        "record --help".to_owned(),
        sql,
    ] {
        let paged = |size: (usize, usize), options: &str| {
            let line = format!(
                "PISTE_PAGER='sed s/^/paged:/' {}",
                piste(&format!("{command} {options}"))
            );
            let shown = on_terminal(&place, size, &line);
            shown.expect_success().stdout.contains("paged:")
        };
        assert!(paged((300, 8), ""), "{command}");
        assert!(!paged((300, 60_000), ""), "{command}: it fits");
        if !command.contains("--help") {
            assert!(!paged((300, 8), "--no-pager"), "{command}");
        }
        // A person who leaves early has seen enough.
        let left = on_terminal(
            &place,
            (300, 8),
            &format!("PISTE_PAGER='head -n 2' {}", piste(&command)),
        );
        assert_eq!(left.status, 0, "{command}: {left}");
    }
    let missing = on_terminal(&place, (80, 8), &format!("PATH= {}", piste(&format!("stats {trace}"))));
    assert!(
        missing.expect_success().stdout.contains("EVENTS"),
        "a machine without a pager: {missing}"
    );
}

#[test]
fn the_longest_segments_of_a_critical_path_are_shown_after_its_causes() {
    let Some(place) = kernel_workplace() else { return };
    let trace = record(&place);
    let shown = place.piste_succeeds(&["analyze", "critical-path", &trace]);
    let titles = ["by cause", "By thread", "Segments of the path", "longest of"];
    let places: Vec<usize> = titles
        .iter()
        .map(|title| shown.find(title).unwrap_or_else(|| panic!("{title}: {shown}")))
        .collect();
    assert!(places.is_sorted(), "{shown}");
    assert!(shown.lines().count() < 120, "{shown}");
    let whole = place.piste_succeeds(&["analyze", "critical-path", &trace, "--table", "path"]);
    assert!(whole.lines().count() > 22 && !whole.contains("longest of"), "{whole}");
}

#[test]
fn bash_completes_names_that_only_pisted_and_the_kernel_know() {
    let Some(place) = kernel_workplace() else { return };
    place.piste_succeeds(&["create", "web-of-today", "-o", text(&place.path("trace"))]);
    let completed = |begun: &str| {
        // As people do it: a line, Tab, and Enter.
        let input = format!("source <(piste completions bash)\nset +H; echo; {begun}\t\nexit\n");
        let mut script = place.command("script");
        let folder = binary("piste").parent().expect("it is in a folder").to_owned();
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
        script
            .args(["-q", "-c", "stty cols 200; bash --norc --noprofile -i", "/dev/null"])
            .env("PATH", path);
        let mut running = script
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("script runs");
        let mut stdin = running.stdin.take().expect("it is piped");
        stdin.write_all(input.as_bytes()).expect("it reads");
        drop(stdin);
        let output = running.wait_with_output().expect("it ends");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    for (begun, expected) in [
        ("echo piste status -s web", "piste status -s web-of-today"),
        (
            "echo piste record -k sched_process_wai",
            "piste record -k sched_process_wait",
        ),
        (
            "echo piste record -k sched:sched_process_wai",
            "piste record -k sched:sched_process_wait",
        ),
        ("echo piste record --preload pth", "piste record --preload pthread"),
        (
            "echo piste analyze critical-path trace --table beh",
            "piste analyze critical-path trace --table behind",
        ),
    ] {
        // bash completes what follows the name of the command.
        let begun = begun.trim_start_matches("echo ");
        let seen = completed(&format!("true; {begun}"));
        assert!(seen.contains(expected), "{begun}: {seen}");
    }
    place.piste_succeeds(&["destroy", "--all"]);
}
