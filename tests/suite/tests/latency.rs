// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste latency`: each loop counts what it is asked for, gaps have their causes, and other tools' layouts and figures agree. How long
//! something took is nowhere asserted, as the machine decides that.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use piste_support::build_tree::binary;
use piste_support::process::{self, wait_until};
use piste_support::report::text;
use piste_support::{Running, Workplace};
use rustix::process::{Signal, geteuid};
use serde_json::Value;

/// A CPU that this test may use.
fn cpu() -> String {
    process::allowed_cpu()
}

/// `piste latency` with a JSON report, which goes on until it is interrupted.
fn start(place: &Workplace, options: &str) -> Running {
    let options = format!("--json latency {options} --duration 24h --cpus {}", cpu());
    let options: Vec<&str> = options.split(' ').collect();
    place.start(binary("piste"), &options)
}

/// The time that a thread of a process has had a CPU, in hundredths of a second; `None` while there is no such thread.
fn busy_ticks(pid: i32, name: &str) -> Option<u64> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let stats = tasks
        .flatten()
        .filter_map(|task| fs::read_to_string(task.path().join("stat")).ok());
    let mut of_thread = stats.filter_map(|stat| {
        let (before, after) = stat.split_once(") ")?;
        before.ends_with(name).then(|| after.to_owned())
    });
    let fields = of_thread.next()?;
    let number = |field: usize| -> u64 {
        fields
            .split(' ')
            .nth(field)
            .and_then(|text| text.parse().ok())
            .unwrap_or(0)
    };
    Some(number(11) + number(12))
}

/// Waits until the loop has run for a while, from now on.
fn wait_for_loop(running: &mut Running) {
    let mut begin = None;
    wait_until("the loop has used the CPU", || {
        assert!(running.runs(), "it has ended: {}", running.finish());
        let ticks = busy_ticks(running.pid(), &format!("(latency/{}", cpu()));
        ticks.is_some_and(|ticks| ticks > *begin.get_or_insert(ticks) + 5)
    });
}

/// Ends it; its report.
fn interrupted(mut running: Running) -> Value {
    running.signal(Signal::INT);
    let finished = running.finish();
    let report: Value = serde_json::from_str(&finished.expect_success().stdout).expect("JSON");
    assert_eq!(report["was_interrupted"], true);
    report
}

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("{key}: {value}"))
}

/// Smaller figures come before larger ones, and nothing is counted twice.
fn check_summary(summary: &Value) {
    let mut figures = vec![number(summary, "min_ns")];
    let percentiles = summary["percentiles"].as_array().expect("a list");
    figures.extend(percentiles.iter().map(|one| number(one, "ns")));
    figures.push(number(summary, "max_ns"));
    assert!(figures.is_sorted(), "{summary}");
    let mean = number(summary, "mean_ns");
    assert!(figures[0] <= mean && mean <= figures[figures.len() - 1], "{summary}");
    let deviation = number(summary, "standard_deviation_ns");
    let variance = number(summary, "variance_ns2");
    assert!(
        (deviation * deviation - variance).abs() <= variance * 1e-3 + 0.1,
        "{summary}"
    );
}

#[test]
fn each_loop_counts_what_it_is_asked_for() {
    let place = Workplace::new();
    for (options, loops) in [
        ("npt --loops 200000", 200_000),
        ("npt --loops 20000 --clock monotonic --warm-up 0", 20_000),
        ("gaps --loops 200000 --threshold 1us", 200_000),
        ("timer --loops 50 --interval 200us", 50),
    ] {
        let options = format!("latency {options} --cpus {}", cpu());
        let report = place.piste_json(&options.split(' ').collect::<Vec<_>>());
        assert_eq!(report["was_interrupted"], false);
        let [one] = &report["cpus"].as_array().expect("a list")[..] else {
            panic!("{report}")
        };
        assert_eq!(one["loops"], loops, "{options}");
        check_summary(one);
        check_summary(&report["all"]);
        let sum = |list: &Value, key: &str| -> u64 {
            let all = list.as_array().expect("a list");
            all.iter().map(|one| one[key].as_u64().expect("a count")).sum()
        };
        assert_eq!(sum(&one["histogram"], "count"), loops);
        if let Some(causes) = one.get("causes") {
            check_summary(&one["undisturbed"]);
            let unexplained = causes[4].clone();
            assert_eq!(unexplained["cause"], "nothing_visible");
            let explained = sum(causes, "gaps") - unexplained["gaps"].as_u64().expect("a count");
            let undisturbed = one["undisturbed"]["loops"].as_u64().expect("a count");
            assert_eq!(undisturbed + explained, loops, "{one}");
        }
        if let Some(gaps) = one.get("gaps").and_then(Value::as_array) {
            let kept = gaps.len() as u64 + one["gaps_left_out"].as_u64().expect("a count");
            assert!(gaps.iter().all(|gap| number(gap, "duration_ns") >= 999.0), "{one}");
            assert!(kept <= sum(&one["causes"], "gaps"), "{one}");
        }
        assert!(
            report["preflight"].as_array().is_some_and(|all| all.len() >= 10),
            "{report}"
        );
    }
}

#[test]
fn a_loop_that_was_stopped_reports_a_switch() {
    let place = Workplace::new();
    let mut running = start(&place, "gaps --threshold 100ms");
    wait_for_loop(&mut running);
    // More than once: the loop might be reading the kernel's counters when it is stopped, which may confuse two gaps.
    for _ in 0..3 {
        process::stop(running.pid());
        // At least so long: the gap that is looked for cannot be shorter.
        std::thread::sleep(Duration::from_millis(200));
        running.signal(Signal::CONT);
        wait_for_loop(&mut running);
    }
    let report = interrupted(running);
    let gaps = report["cpus"][0]["gaps"].as_array().expect("a list");
    let is_it = |gap: &&Value| gap["cause"] == "switch" && number(gap, "duration_ns") >= 200e6;
    let gap = gaps.iter().find(is_it).unwrap_or_else(|| panic!("{gaps:?}"));
    assert!(number(gap, "switches") >= 1.0, "{gap}");
    let begin = gap["begin_ns"].as_str().expect("a time");
    assert!(begin.len() == 19, "nanoseconds since 1970: {begin}");
}

#[test]
fn a_thread_on_the_same_cpu_is_seen_as_switches() {
    let place = Workplace::new();
    let hog = place.start("taskset", &["-c", &cpu(), "sh", "-c", "while :; do :; done"]);
    let mut running = start(&place, "npt");
    wait_for_loop(&mut running);
    // Both get their share of the CPU, so they take turns.
    let hog_ticks = || busy_ticks(hog.pid(), "(sh").unwrap_or(0);
    let before = hog_ticks();
    wait_until("the other thread has run, too", || hog_ticks() > before + 5);
    wait_for_loop(&mut running);
    let report = interrupted(running);
    let switches = &report["cpus"][0]["causes"][0];
    assert_eq!(switches["cause"], "switch");
    assert!(number(switches, "gaps") >= 1.0, "{}", report["cpus"][0]["causes"]);
}

#[test]
fn ctrl_c_ends_with_the_results_so_far() {
    let place = Workplace::new();
    let cpu = cpu();
    let mut running = place.start(
        binary("piste"),
        &["latency", "npt", "--duration", "24h", "--cpus", &cpu],
    );
    wait_for_loop(&mut running);
    running.signal(Signal::INT);
    let finished = running.finish();
    finished.expect_success();
    for said in ["npt on CPU", "stopped early", "LOOPS", "undisturbed loops"] {
        assert!(finished.stdout.contains(said), "{said}: {finished}");
    }
}

#[test]
fn figures_are_shown_on_a_terminal_while_they_are_measured() {
    let place = Workplace::new();
    let piste = binary("piste");
    // Longer than the time between two pictures.
    let line = format!("{} latency timer --loops 600 --no-pager --cpus {}", text(&piste), cpu());
    let shown = place.run("script", &["-qefc", &line, "/dev/null"]);
    let (live, last) = shown
        .expect_success()
        .stdout
        .rsplit_once("\u{1b}[J")
        .expect("pictures are replaced");
    assert!(
        live.contains("99.9 %") && live.contains("press Ctrl-C to stop early"),
        "{shown}"
    );
    assert!(
        last.contains("timer every 1.00 ms") && !last.contains("press Ctrl-C to stop early"),
        "{shown}"
    );
}

#[test]
fn a_limit_is_an_exit_status() {
    let place = Workplace::new();
    let cpu = cpu();
    let short = ["latency", "timer", "--loops", "20", "--cpus", &cpu, "--fail-above"];
    let above = place.piste(&[&short[..], &["1ns"]].concat());
    above.expect_status(91);
    assert!(above.stderr.contains("is above the limit of 1.0 ns"), "{above}");
    assert!(
        above.stdout.contains("timer every 1.00 ms"),
        "the report comes all the same: {above}"
    );
    // A loop that never comes round keeps no limit.
    let none = [
        "latency",
        "timer",
        "--interval",
        "1s",
        "--warm-up",
        "0",
        "--duration",
        "1ms",
        "--cpus",
        &cpu,
        "--fail-above",
        "24h",
    ];
    let unmeasured = place.piste(&none);
    unmeasured.expect_status(1);
    assert!(
        unmeasured.stderr.contains("nothing was measured on CPU"),
        "{unmeasured}"
    );
    let below = place.piste(&[&["--json"], &short[..], &["24h"]].concat());
    let report: Value = serde_json::from_str(&below.expect_success().stdout).expect("JSON");
    assert_eq!(report["is_above"], false);
}

#[test]
fn wrong_requests_are_refused_with_the_reason() {
    let place = Workplace::new();
    for (options, status, reason) in [
        ("npt --interval 1ms", 2, "--interval works only with the loop timer"),
        ("timer --output folder", 2, "works only with --threshold"),
        ("timer --event a:b", 2, "--event works only with the loop program"),
        ("program --cpus 0", 2, "--cpus does not work with program"),
        ("program --event a:b", 2, "--end-event is missing; write for example"),
        ("timer --policy fifo", 2, "write for example fifo:80"),
        ("timer --cpus 1000", 1, "cannot run on CPU 1000"),
        (
            "timer --hdr /nowhere/file",
            1,
            "cannot write /nowhere/file: no such file or folder",
        ),
    ] {
        let line = format!("latency {options}");
        let refused = place.piste(&line.split(' ').collect::<Vec<_>>());
        refused.expect_status(status);
        assert!(refused.stderr.contains(reason), "{refused}");
    }
}

#[test]
fn settings_are_shown_alone() {
    let place = Workplace::new();
    let shown = place.piste_succeeds(&["latency", "--preflight"]);
    for name in [
        "frequency governor",
        "idle states",
        "preemption",
        "clock source",
        "virtual machine",
    ] {
        assert!(shown.contains(name), "{shown}");
    }
    let report = place.piste_json(&["latency", "--preflight"]);
    for setting in report["preflight"].as_array().expect("a list") {
        assert_eq!(setting["level"] == "wrong", setting["fix"].is_string(), "{setting}");
    }
}

#[test]
fn percentiles_are_written_for_plotters() {
    let place = Workplace::new();
    let file = place.path("npt.hgrm");
    let cpu = cpu();
    place.piste_succeeds(&["latency", "--loops", "100000", "--cpus", &cpu, "--hdr", text(&file)]);
    let written = fs::read_to_string(&file).expect("it is there");
    assert!(
        written.starts_with("       Value     Percentile TotalCount 1/(1-Percentile)\n\n"),
        "{written}"
    );
    let rows = written.lines().skip(2).filter(|line| !line.starts_with('#'));
    let counts: Vec<u64> = rows
        .map(|row| {
            row.split_whitespace()
                .nth(2)
                .expect("a count")
                .parse()
                .expect("a number")
        })
        .collect();
    assert!(counts.is_sorted() && counts.last() == Some(&100_000), "{written}");
    assert!(written.contains("#[Max     = "), "{written}");
}

/// cyclictest, where there is one that runs: it needs real-time priorities.
fn cyclictest() -> Option<PathBuf> {
    if !geteuid().is_root() {
        println!("skipped: only root can run cyclictest");
        return None;
    }
    let found = Command::new("sh").args(["-c", "command -v cyclictest"]).output();
    let path = String::from_utf8_lossy(&found.expect("there is a shell").stdout)
        .trim()
        .to_owned();
    match path.is_empty() {
        true => {
            println!("skipped: there is no cyclictest; tools/install-packages installs it");
            None
        }
        false => Some(path.into()),
    }
}

/// A text in which each digit is a 9, up to the line that differs from run to run.
fn shape(text: &str) -> String {
    let end = text.find("# Histogram Overflow at").unwrap_or(text.len());
    let begin = text.find("# Histogram\n").unwrap_or(0);
    let digits = text[begin..end].replace(|c: char| c.is_ascii_digit(), "9");
    // A delay of more than 99,999 µs has more digits.
    digits.replace("9999999", "99999").replace("999999", "99999")
}

#[test]
fn histograms_have_the_layout_of_cyclictest() {
    let place = Workplace::new();
    let cpu = cpu();
    let ours = place.piste_succeeds(&["latency", "timer", "--loops", "30", "--cpus", &cpu, "--histogram", "40"]);
    assert!(ours.starts_with("# Histogram\n000000 0000"), "{ours}");
    let rows = ours.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let counted: u64 = rows.map(|row| row[7..].parse::<u64>().expect("a count")).sum();
    let total = ours
        .lines()
        .find_map(|line| line.strip_prefix("# Total: "))
        .expect("a total");
    assert_eq!(total.parse::<u64>().expect("a count"), counted);
    let Some(cyclictest) = cyclictest() else { return };
    let mut theirs = place.command(cyclictest);
    theirs.args(["-q", "-t1", "-a", &cpu, "-i", "1000", "-l", "30", "-h", "40"]);
    let theirs = process::run(&mut theirs);
    assert_eq!(shape(&ours), shape(&theirs.expect_success().stdout));
    assert!(
        theirs
            .stdout
            .contains(&ours[ours.find("# Histogram Overflow at").expect("there")..][..37]),
        "{theirs}"
    );
}

/// The value that half of the counts in a histogram of cyclictest's layout do not exceed.
fn median_us(histogram: &str) -> f64 {
    let rows: Vec<(f64, u64)> = histogram
        .lines()
        .filter(|line| line.starts_with('0'))
        .map(|row| (row[..6].parse().expect("a value"), row[7..].parse().expect("a count")))
        .collect();
    let half = rows.iter().map(|(_, count)| count).sum::<u64>() / 2;
    let mut passed = 0;
    let median = rows.iter().find(|(_, count)| {
        passed += count;
        passed > half
    });
    median.map_or(f64::MAX, |(value, _)| *value + 0.5)
}

#[test]
fn medians_agree_with_those_of_cyclictest() {
    let Some(cyclictest) = cyclictest() else { return };
    let place = Workplace::new();
    let cpu = cpu();
    let (mut ours, mut theirs) = (0.0, 0.0);
    // Whatever else the machine does meanwhile hits either of them.
    for _ in 0..10 {
        let histogram = place.piste_succeeds(&[
            "latency",
            "timer",
            "--loops",
            "300",
            "--cpus",
            &cpu,
            "--policy",
            "fifo:80",
            "--histogram",
            "20000",
        ]);
        ours = median_us(&histogram);
        let mut command = place.command(&cyclictest);
        command.args([
            "-m", "-q", "-t1", "-a", &cpu, "-p", "80", "-i", "1000", "-l", "300", "-h", "20000",
        ]);
        theirs = median_us(&process::run(&mut command).expect_success().stdout);
        if ours < 3.0 * theirs && theirs < 3.0 * ours {
            return;
        }
    }
    panic!("{ours} µs, and {theirs} µs according to cyclictest");
}
