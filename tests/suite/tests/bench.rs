// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste bench`: real tracers are measured, and recorded something; those that are missing are named; nothing stays behind, however a run ends. What
//! an event costs is nowhere asserted, as the machine decides that.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use piste_support::build_tree::binary;
use piste_support::process::{self, wait_until};
use piste_support::report::{rows, text};
use piste_support::{Finished, Running, Workplace, kernel};
use rustix::process::Signal;
use serde_json::Value;

const TRACEFS: &str = "/sys/kernel/tracing";

/// Each run removes what killed runs left behind, also if a test is about that.
static RUNS: RwLock<()> = RwLock::new(());

/// A workplace in which runs make their files in a folder of their own.
struct Bench {
    place: Workplace,
    /// What other runs had made in tracefs before.
    others: Vec<String>,
    _beside: Option<RwLockReadGuard<'static, ()>>,
}

impl Bench {
    fn new() -> Bench {
        let beside = RUNS.read().unwrap_or_else(PoisonError::into_inner);
        Bench {
            _beside: Some(beside),
            ..Bench::alone()
        }
    }

    /// For a test that keeps the others from running.
    fn alone() -> Bench {
        let place = Workplace::new();
        fs::create_dir(place.path("made")).expect("a new folder");
        Bench {
            place,
            others: all_in_tracefs(),
            _beside: None,
        }
    }

    fn command(&self, options: &str) -> Command {
        let mut command = self.place.command(binary("piste"));
        command.args(options.split(' ')).env("TMPDIR", self.made());
        command
    }

    fn run(&self, options: &str) -> Finished {
        process::run(&mut self.command(options))
    }

    fn start(&self, options: &str) -> Running {
        Running::start(self.command(options).stdin(Stdio::null()))
    }

    /// Processes that a run started.
    fn processes(&self) -> Vec<i32> {
        pids().filter(|pid| self.is_ours(*pid)).collect()
    }

    fn is_ours(&self, pid: i32) -> bool {
        let setting = format!("TMPDIR={}", self.made().display());
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment
            .split(|byte| *byte == 0)
            .any(|variable| variable.starts_with(setting.as_bytes()))
    }

    fn made(&self) -> PathBuf {
        self.place.path("made")
    }

    /// Whether a run has started a program of that name.
    fn runs(&self, name: &str) -> bool {
        let is_it = |program: &Path| program.ends_with(name);
        pids().any(|pid| executes(pid, is_it) && self.is_ours(pid))
    }

    /// Whether a run has started a measured program, which it compiled, of that name.
    fn measures(&self, name: &str) -> bool {
        let made = self.made();
        let is_it = |program: &Path| program.starts_with(&made) && program.ends_with(name);
        pids().any(|pid| executes(pid, is_it))
    }

    /// Nothing of a run is left: no process, file, instance, probe or user event.
    fn expect_nothing_left(&self) {
        wait_until("all processes have ended", || self.processes().is_empty());
        let files: Vec<_> = fs::read_dir(self.made()).expect("it is there").flatten().collect();
        assert!(files.is_empty(), "{files:?}");
        assert_eq!(self.made_in_tracefs(), Vec::<String>::new());
    }

    /// Instances, probes and user events that runs made here.
    fn made_in_tracefs(&self) -> Vec<String> {
        all_in_tracefs()
            .into_iter()
            .filter(|name| !self.others.contains(name))
            .collect()
    }
}

fn pids() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").expect("/proc is mounted").flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Whether a process executes such a program.
fn executes(pid: i32, is_it: impl FnOnce(&Path) -> bool) -> bool {
    fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|program| is_it(&program))
}

/// Instances, probes and user events of all runs.
fn all_in_tracefs() -> Vec<String> {
    let instances = fs::read_dir(Path::new(TRACEFS).join("instances"))
        .into_iter()
        .flatten()
        .flatten();
    let instances = instances.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let events = fs::read_to_string(Path::new(TRACEFS).join("dynamic_events")).unwrap_or_default();
    let events: Vec<String> = events.lines().map(str::to_owned).collect();
    let is_of_a_run = |name: &String| name.contains("pistebench");
    instances.chain(events).filter(is_of_a_run).collect()
}

fn parsed(finished: &Finished) -> Value {
    serde_json::from_str(&finished.stdout).unwrap_or_else(|error| panic!("{error}: {finished}"))
}

fn names<'v>(list: &'v Value, key: &str) -> BTreeSet<&'v str> {
    let all = list.as_array().unwrap_or_else(|| panic!("no list: {list}"));
    all.iter().map(|one| one[key].as_str().expect("a name")).collect()
}

fn row<'v>(report: &'v Value, name: &str) -> &'v Value {
    let rows = report["rows"].as_array().expect("a list");
    rows.iter()
        .find(|row| row["name"] == name)
        .unwrap_or_else(|| panic!("no row {name}: {report:#}"))
}

/// All figures of a row are there, and fit each other.
fn check_row(row: &Value) {
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("no number: {row:#}"));
    let (min, time, p95) = (
        number(&row["min_ns"]),
        number(&row["time_ns"]["value"]),
        number(&row["p95_ns"]),
    );
    assert!(min <= time && time <= p95, "{row:#}");
    assert!(
        number(&row["events"]) >= number(&row["rounds"]) && number(&row["rounds"]) >= 1.0,
        "{row:#}"
    );
    let samples = &row["samples"];
    if row["group"] == "steps" {
        assert!(samples.is_null(), "{row:#}");
    } else if row["threads"] == 1 && row["processes"] == 1 {
        let mut values = vec![number(&samples["min_ns"])];
        values.extend(
            samples["percentiles"]
                .as_array()
                .expect("a list")
                .iter()
                .map(|one| number(&one["ns"])),
        );
        values.push(number(&samples["max_ns"]));
        assert!(values.is_sorted() && number(&samples["count"]) >= 200.0, "{row:#}");
        assert!(number(&samples["interrupted"]) <= number(&samples["count"]), "{row:#}");
    }
    assert!(
        row["name"] != "strace" || row["counters"]["cycles"].is_null(),
        "{row:#}"
    );
    for counter in ["preemptions", "page_faults", "interrupts"] {
        number(&row["counters"][counter]);
    }
}

#[test]
fn every_tracer_of_this_machine_is_measured_and_recorded_something() {
    let Some(_alone) = kernel::workplace() else { return };
    let bench = Bench::new();
    let listed = parsed(&bench.run("--json bench --list"));
    let finished = bench.run("--json bench --quick --threads 1,2 --processes 2 --names 64,1024");
    let report = parsed(&finished);
    assert_eq!(report["failed"], serde_json::json!([]));
    finished.expect_success();
    let absent = names(&report["absent"], "peer");
    for absent in report["absent"].as_array().expect("a list") {
        println!("not tested: {}: {}", absent["peer"], absent["reason"]);
    }
    let measured = names(&report["rows"], "name");
    for peer in listed["peers"].as_array().expect("a list") {
        let is_absent = absent.contains(peer["peer"].as_str().expect("a name"));
        for name in names(&peer["rows"], "name") {
            assert_ne!(measured.contains(name), is_absent, "{name}: {report:#}");
        }
    }
    // tools/install-packages installs what these need.
    for name in [
        "piste",
        "piste-discard",
        "piste-block",
        "lttng",
        "tracef",
        "usdt",
        "uprobe",
        "trace_marker",
        "trace_marker_raw",
        "malloc",
        "preload-malloc",
        "piste-clock",
        "piste-call",
        "tracefs",
        "strace",
    ] {
        assert!(measured.contains(name), "{name}: {report:#}");
    }
    let rows = report["rows"].as_array().expect("a list");
    rows.iter().for_each(check_row);
    for name in [
        "floor",
        "none",
        "prototype",
        "piste-disabled",
        "lttng-disabled",
        "malloc",
        "call",
    ] {
        assert!(row(&report, name)["recorded_events"].is_null(), "{name}");
    }
    for name in [
        "piste",
        "piste-block",
        "piste-filtered",
        "piste-formatted",
        "lttng",
        "tracef",
        "uprobe",
        "trace_marker",
        "trace_marker_raw",
        "preload-malloc",
        "tracefs",
        "piste-call",
        "strace",
    ] {
        assert!(
            row(&report, name)["recorded_events"].as_u64() > Some(0),
            "{name}: {report:#}"
        );
    }
    assert_eq!(row(&report, "piste-block")["discarded_events"], 0);
    for at_once in ["threads", "processes"] {
        let with_two = rows.iter().filter(|row| row[at_once] == 2);
        assert!(
            with_two.clone().count() > 10 && with_two.clone().all(|row| row["group"] != "calls"),
            "{at_once}: {report:#}"
        );
    }
    for name in ["call", "tracefs", "piste-call", "strace"] {
        for bytes in [64, 1024] {
            let is_it = |row: &&Value| row["name"] == name && row["payload_bytes"] == bytes;
            let with_name = rows.iter().find(is_it).unwrap_or_else(|| panic!("{name}: {report:#}"));
            let number = |key: &str| with_name[key].as_u64();
            // In each recording, of which the shortest is told.
            let of_a_round = number("events")
                .zip(number("rounds"))
                .map(|(events, rounds)| events / rounds);
            assert!(
                name == "call" || number("recorded_events") >= of_a_round,
                "{with_name:#}"
            );
            assert!(with_name["to_floor"]["value"].is_number(), "{with_name:#}");
        }
    }
    assert_eq!(row(&report, "floor")["to_floor"]["value"], 1.0);
    assert_eq!(row(&report, "piste")["to_piste"]["value"], 1.0);
    assert_eq!(row(&report, "strace")["clock"], "wall");
    assert!(row(&report, "strace")["added_ns"].is_number() && row(&report, "call")["added_ns"].is_null());
    assert!(
        report["clock"]["cost_ns"].as_f64() > Some(0.0) && report["clock"]["resolution_ns"].as_f64() > Some(0.0),
        "{report:#}"
    );
    bench.expect_nothing_left();
}

#[test]
#[cfg(target_arch = "x86_64")]
fn the_steps_of_an_event_add_up_to_it() {
    const STEPS: [&str; 6] = ["callback", "lookup", "clock", "reserve", "write", "commit"];
    let bench = Bench::new();
    let page = bench.place.path("steps.html");
    let finished = bench.run(&format!(
        "--json bench --quick piste-clock --threads 1,2 -o {}",
        text(&page)
    ));
    let report = parsed(finished.expect_success());
    let rows = report["rows"].as_array().expect("a list");
    rows.iter().for_each(check_row);
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("no number: {report:#}"));
    for threads in [1, 2] {
        // Each is compared with the one before, so all of them are measured.
        let steps: Vec<&Value> = rows.iter().filter(|row| row["threads"] == threads).collect();
        let names: Vec<&Value> = steps.iter().map(|row| &row["step"]["name"]).collect();
        assert_eq!(names, STEPS, "{report:#}");
        let added: f64 = steps.iter().map(|row| number(&row["step"]["added_ns"]["value"])).sum();
        let whole = number(&steps[5]["time_ns"]["value"]);
        assert!((added - whole).abs() < 0.01, "{report:#}");
        let (whole, unfinished) = steps.split_last().expect("there are six");
        assert!(whole["recorded_events"].as_u64() > Some(10), "{whole:#}");
        for row in unfinished {
            assert!(row["recorded_events"].is_null() && row["group"] == "steps", "{row:#}");
        }
    }
    assert_eq!(rows.len(), 12, "{report:#}");
    let page = fs::read_to_string(&page).expect("it is there");
    for said in ["Steps of an event of Piste", "class=\"n5\"", "reserve, 2 threads"] {
        assert!(page.contains(said), "{said}: {page}");
    }
    let shown = bench.run("bench --quick piste-steps --csv");
    let steps: Vec<&str> = shown.expect_success().stdout.lines().collect();
    assert!(
        steps.len() == 7 && steps[0].contains(",step,step_added_ns,") && steps[3].contains(",clock,"),
        "{shown}"
    );
    let shown = bench.run("bench --quick piste-steps");
    let out = &shown.expect_success().stdout;
    for said in ["nanoseconds for each step", "ADDED", "SO FAR", "callback", "commit"] {
        assert!(out.contains(said), "{said}: {shown}");
    }
    assert!(!out.contains("ONE is the time of a single event"), "{shown}");
}

#[test]
fn what_is_missing_is_named_with_what_to_install() {
    let bench = Bench::new();
    let (nothing, little) = (bench.place.path("nothing"), bench.place.path("little"));
    for folder in [&nothing, &little] {
        fs::create_dir(folder).expect("a new folder");
    }
    let mut without = bench.command("--json bench --quick floor piste");
    let finished = process::run(without.env("PATH", &nothing).env_remove("CC"));
    finished.expect_status(1);
    assert!(finished.stderr.contains("there is no C compiler (cc)"), "{finished}");
    let report = parsed(&finished);
    assert_eq!(names(&report["absent"], "peer"), BTreeSet::from(["floor", "piste"]));
    assert!(
        report["absent"][0]["remedy"]
            .as_str()
            .is_some_and(|remedy| remedy.contains("apt install gcc")),
        "{report:#}"
    );
    // With the compiler alone.
    for program in ["cc", "as", "ld"] {
        let found = ["/usr/bin", "/bin"]
            .map(|folder| Path::new(folder).join(program))
            .into_iter()
            .find(|path| path.exists());
        symlink(found.expect("it is installed"), little.join(program)).expect("a new link");
    }
    let mut alone = bench.command("--json bench --quick fprintf lttng lttng-kernel perf sysdig systemtap strace");
    let finished = process::run(alone.env("PATH", &little).env_remove("CC"));
    let report = parsed(finished.expect_success());
    assert_eq!(
        names(&report["absent"], "peer"),
        BTreeSet::from(["lttng", "lttng-kernel", "perf", "sysdig", "systemtap", "strace"])
    );
    let packages = [
        "lttng-tools",
        "lttng-tools",
        "linux-perf",
        "sysdig",
        "systemtap linux-headers",
        "strace",
    ];
    for (place, package) in packages.into_iter().enumerate() {
        let remedy = report["absent"][place]["remedy"].as_str().expect("there is one");
        assert!(remedy.contains(&format!("apt install {package}")), "{report:#}");
    }
    assert_eq!(
        names(&report["rows"], "name"),
        BTreeSet::from(["floor", "fprintf", "call"])
    );
    let text = process::run(
        bench
            .command("bench --quick floor lttng")
            .env("PATH", &little)
            .env_remove("CC"),
    );
    assert!(
        text.expect_success()
            .stdout
            .contains("Not here\n  lttng: there is no program lttng; install it"),
        "{text}"
    );
}

#[test]
fn tracers_that_need_a_special_kernel_are_named_with_what_to_do() {
    let Some(_alone) = kernel::workplace() else { return };
    let bench = Bench::new();
    // sysdig would load its module, so it must not even be started to record.
    let folder = bench.place.path("fake");
    fs::create_dir(&folder).expect("a new folder");
    let (fake, started) = (folder.join("sysdig"), folder.join("started"));
    fs::write(&fake, format!("#!/bin/sh\necho \"$*\" >> {}\n", text(&started))).expect("a new file");
    fs::set_permissions(&fake, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").expect("it is set"));
    let data = format!("{TRACEFS}/user_events_data");
    // With the file that is there if the kernel has it.
    let special = [
        (
            "user_events",
            &data[..],
            "this kernel has no user_events",
            "CONFIG_USER_EVENTS=y",
        ),
        (
            "lttng-kernel",
            "/proc/lttng",
            "the kernel modules of LTTng are not loaded",
            "apt install lttng-modules-dkms",
        ),
        (
            "sysdig",
            "/dev/scap0",
            "the kernel module of sysdig is not loaded",
            "modprobe scap",
        ),
    ];
    // Others may be loaded by anybody.
    let is_of_a_peer = |line: &&str| line.starts_with("scap") || line.starts_with("lttng");
    let modules = || {
        let all = fs::read_to_string("/proc/modules").unwrap_or_default();
        all.lines().filter(is_of_a_peer).count()
    };
    let (listed, before) = (bench.run("bench --list"), modules());
    for (peer, file, reason, remedy) in special {
        assert!(listed.expect_success().stdout.contains(peer), "{listed}");
        if Path::new(file).exists() {
            println!("not tested: {peer} is here");
            continue;
        }
        let run = |options: &str| {
            let mut command = bench.command(&format!("{options} --quick {peer}"));
            process::run(command.env("PATH", &path))
        };
        let report = parsed(run("--json bench").expect_success());
        let absent = report["absent"].as_array().expect("a list");
        assert_eq!(absent.len(), 1, "{report:#}");
        assert_eq!(
            (&absent[0]["peer"], &absent[0]["reason"]),
            (&peer.into(), &reason.into())
        );
        let told = absent[0]["remedy"].as_str().expect("there is one");
        assert!(told.contains(remedy), "{report:#}");
        let shown = run("bench");
        let sentence = format!("{peer}: {reason}; {told}");
        let words: Vec<&str> = shown.expect_success().stdout.split_whitespace().collect();
        assert!(words.join(" ").contains(&sentence), "{shown}");
    }
    let started = fs::read_to_string(&started).unwrap_or_default();
    assert!(started.lines().all(|arguments| arguments == "--version"), "{started}");
    assert_eq!(modules(), before);
    bench.expect_nothing_left();
}

#[test]
fn a_tracer_that_records_nothing_is_not_measured() {
    let bench = Bench::new();
    // strace that traces, and writes elsewhere.
    let folder = bench.place.path("fake");
    fs::create_dir(&folder).expect("a new folder");
    let fake = folder.join("strace");
    fs::write(
        &fake,
        "#!/bin/sh\nexec /usr/bin/strace -q -p \"$3\" -o \"$5\" -e trace=none\n",
    )
    .expect("a new file");
    fs::set_permissions(&fake, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").expect("it is set"));
    let finished = process::run(bench.command("--json bench --quick strace").env("PATH", path));
    finished.expect_status(1);
    let report = parsed(&finished);
    assert_eq!(report["failed"][0]["peer"], "strace");
    assert_eq!(report["failed"][0]["reason"], "it recorded nothing of strace");
    assert_eq!(names(&report["rows"], "name"), BTreeSet::from(["call"]));
    assert!(finished.stderr.contains("not measured: strace"), "{finished}");
}

#[test]
fn an_interrupted_run_leaves_nothing() {
    let Some(_alone) = kernel::workplace() else { return };
    let bench = Bench::new();
    // While tracers are prepared, while events are measured, and while system calls are.
    for (runs, signal) in [("cc1", Signal::INT), ("probed", Signal::INT), ("calls", Signal::TERM)] {
        let result = bench.place.path("result.json");
        fs::write(&result, "older").expect("it can be written");
        let options = "piste lttng usdt uprobe trace_marker strace tracefs piste-kernel";
        let options = format!("--json bench {options} -o {}", text(&result));
        let mut command = bench.command(&options);
        if runs == "cc1" {
            command.env_remove("CC");
        }
        let mut running = Running::start(command.stdin(Stdio::null()));
        running.wait_until(&format!("{runs} runs"), || bench.runs(runs));
        running.signal(signal);
        let finished = running.finish();
        let written = fs::read_to_string(&result).expect("it is there");
        // A repetition of events was complete. Before, nobody had looked into a recording.
        match runs {
            "calls" => {
                let report = parsed(finished.expect_success());
                assert_eq!(
                    (&report["was_interrupted"], &report["method"]["repetitions"]),
                    (&true.into(), &1.into())
                );
                let rows = report["rows"].as_array().expect("a list");
                assert!(rows.iter().all(|row| row["rounds"].as_u64() <= Some(40)), "{report:#}");
                assert_eq!(written, finished.stdout);
            }
            _ => {
                assert!(finished.expect_status(130).stderr.contains("interrupted"), "{finished}");
                assert_eq!(written, "older");
            }
        }
        bench.expect_nothing_left();
    }
}

#[test]
fn what_a_killed_run_left_is_removed_by_the_next_one() {
    let Some(_alone) = kernel::workplace() else { return };
    let _no_others = RUNS.write().unwrap_or_else(PoisonError::into_inner);
    let bench = Bench::alone();
    let mut running = bench.start("bench uprobe lttng piste");
    let all_run = || ["probed", "lttng", "piste"].iter().all(|name| bench.measures(name));
    running.wait_until("all programs run", all_run);
    // Another run takes nothing from one that lives, even if that does nothing.
    running.signal(Signal::STOP);
    let made = bench.made_in_tracefs();
    bench.run("bench --quick uprobe").expect_success();
    assert!(all_run(), "{:?}", bench.processes());
    assert_eq!(bench.made_in_tracefs(), made);
    running.signal(Signal::KILL);
    running.finish();
    wait_until("all processes have ended", || bench.processes().is_empty());
    assert!(!bench.made_in_tracefs().is_empty(), "nobody could remove it");
    bench.run("bench --quick uprobe").expect_success();
    bench.expect_nothing_left();
}

#[test]
fn two_results_are_compared() {
    let bench = Bench::new();
    let path = |name: &str| bench.place.path(name);
    let measured = bench.run(&format!("bench --quick floor prototype -o {}", text(&path("a.json"))));
    assert!(
        measured.expect_success().stdout.contains("Events of programs"),
        "{measured}"
    );
    let mut report: Value =
        serde_json::from_str(&fs::read_to_string(path("a.json")).expect("it is there")).expect("JSON");
    // As if there had been repetitions: of which one row is twice as slow, another one varies, and a third is only in the first result.
    let write = |name: &str, report: &Value| fs::write(path(name), report.to_string()).expect("it can be written");
    let rows = report["rows"].as_array_mut().expect("a list");
    rows.iter_mut()
        .for_each(|row| row["repetitions_ns"] = serde_json::json!([10.0, 10.1, 9.9]));
    write("before.json", &report);
    let rows = report["rows"].as_array_mut().expect("a list");
    rows.retain(|row| row["name"] != "survey");
    for row in rows {
        match row["name"].as_str().expect("a name") {
            "prototype" => row["repetitions_ns"] = serde_json::json!([20.0, 20.2, 19.8]),
            "floor" => row["repetitions_ns"] = serde_json::json!([10.0, 14.0, 8.0]),
            "clock" => row["repetitions_ns"] = serde_json::json!([5.0, 5.05, 4.95]),
            _ => {}
        }
    }
    write("after.json", &report);
    let files = format!("{} {}", text(&path("before.json")), text(&path("after.json")));
    let compared = parsed(bench.run(&format!("--json bench compare {files}")).expect_success());
    let verdict = |name: &str| row(&compared, name)["verdict"].as_str().expect("a word").to_owned();
    assert_eq!(
        ["prototype", "floor", "clock", "none"].map(verdict),
        ["slower", "no_difference_shown", "faster", "no_difference_shown"]
    );
    assert_eq!(compared["unmatched"], serde_json::json!(["survey"]));
    let shown = bench.run(&format!("bench compare {files}"));
    assert!(
        shown
            .expect_success()
            .stdout
            .contains("in only one of the results: survey"),
        "{shown}"
    );
    // Nobody knows how much the figures of one repetition vary.
    let alone = bench.run(&format!("--json bench compare {0} {0}", text(&path("a.json"))));
    assert_eq!(row(&parsed(alone.expect_success()), "floor")["verdict"], "unknown");
    write("other.json", &serde_json::json!({ "format": 99 }));
    for (file, reason) in [
        ("other.json", "it has format 99, and this piste reads 1"),
        ("nothing.json", "no such file or folder"),
        ("made", "it is a folder"),
    ] {
        let refused = bench.run(&format!(
            "bench compare {} {}",
            text(&path("a.json")),
            text(&path(file))
        ));
        refused.expect_status(1);
        assert!(refused.stderr.contains(reason), "{refused}");
    }
}

#[test]
fn results_are_written_as_csv_and_as_a_page() {
    let bench = Bench::new();
    let file = bench.place.path("result.csv");
    let shown = bench.run(&format!("bench --quick floor --csv -o {}", text(&file)));
    let table = &shown.expect_success().stdout;
    assert_eq!(*table, fs::read_to_string(&file).expect("it is there"));
    let mut lines = table.lines();
    let columns = lines.next().expect("a heading").split(',').count();
    let rows: Vec<&str> = lines.collect();
    assert_eq!(rows.len(), 5, "{table}");
    assert!(columns > 24 && rows[0].starts_with("none,floor,"), "{table}");
    let page = bench.place.path("result.html");
    bench
        .run(&format!("bench --quick floor --payload 64 -o {}", text(&page)))
        .expect_success();
    let page = fs::read_to_string(&page).expect("it is there");
    for said in [
        "<!DOCTYPE html>",
        "default-src 'none'",
        "floor: clock and store, unsafe, 64 bytes",
        "bench --quick floor --payload 64",
    ] {
        assert!(page.contains(said), "{said}: {page}");
    }
    assert_eq!(
        (page.matches("<figure>").count(), page.matches("<script").count()),
        (2, 0)
    );
    let page = bench.place.path("result.md");
    bench
        .run(&format!("bench --quick floor -o {}", text(&page)))
        .expect_success();
    let page = fs::read_to_string(&page).expect("it is there");
    let table: Vec<&str> = page.lines().filter(|line| line.starts_with('|')).collect();
    let cells: BTreeSet<usize> = table.iter().map(|line| line.matches(" | ").count()).collect();
    assert_eq!((table.len(), cells.len()), (2 + rows.len(), 1), "{page}");
    assert!(
        table[0].starts_with("| EVENT | TIME |") && page.contains("- piste bench --quick floor -o"),
        "{page}"
    );
    let page = bench.place.path("names.html");
    bench
        .run(&format!("bench --quick call --names 16,512,4095 -o {}", text(&page)))
        .expect_success();
    let page = fs::read_to_string(&page).expect("it is there");
    for said in [
        "System call openat by the length of the file name",
        "not traced, 4095 bytes",
        "<polyline",
    ] {
        assert!(page.contains(said), "{said}: {page}");
    }
    for option in ["floor", "--quick", "--threads 1", "-o x.json", "--csv"] {
        bench.run(&format!("bench --list {option}")).expect_status(2);
    }
    for what in ["threads", "processes"] {
        let refused = bench.run(&format!("bench floor --{what} 64"));
        refused.expect_status(1);
        let reason = format!("cannot measure 64 {what}: each needs a CPU of its own");
        assert!(refused.stderr.contains(&reason), "{refused}");
    }
    let refused = bench.run("bench nobody");
    refused.expect_status(2);
    assert!(
        refused
            .stderr
            .contains("there is no peer \"nobody\" (see piste bench --list)"),
        "{refused}"
    );
}

#[test]
fn what_recording_costs_is_kept_and_told_of_periods() {
    let Some(place) = kernel::workplace() else { return };
    let _beside = RUNS.read().unwrap_or_else(PoisonError::into_inner);
    let kept = text(&place.path("kept.json")).to_owned();
    let piste = |arguments: &[&str]| {
        let mut command = place.command(binary("piste"));
        process::run(command.args(arguments).env("PISTE_CALIBRATION", &kept))
    };
    let nothing = piste(&["calibrate", "--show"]);
    nothing.expect_status(1);
    assert!(nothing.stderr.contains("sudo piste calibrate"), "{nothing}");
    let recording = place.record_with_kernel(&["--syscall", "*"], place.program("spans.c"), &[]);
    let trace = text(recording.trace().path()).to_owned();
    let periods = || -> Value {
        let ends = [
            "--begin-event",
            "name =~ '*:*'",
            "--end-event",
            "name =~ '*:*'",
            "--top",
            "5",
        ];
        let printed = piste(
            &[
                &["analyze", "periods", "--json", "--table", "top"],
                &ends[..],
                &[&trace],
            ]
            .concat(),
        );
        printed.expect_success();
        serde_json::from_str(&printed.stdout).expect("JSON")
    };
    assert!(!periods().to_string().contains("recording_ns"));
    let measured = piste(&["calibrate", "--quick"]);
    measured.expect_success();
    assert!(
        measured.stdout.contains("event of a program") && measured.stdout.contains(&kept),
        "{measured}"
    );
    let shown = piste(&["calibrate", "--show"]);
    assert!(shown.stdout.contains("entry or exit of a system call"), "{shown}");
    let told = periods();
    let rows = rows(&told, "top");
    let costs = rows.iter().map(|row| row["recording_ns"].as_i64().expect("a cost"));
    assert!(!rows.is_empty() && costs.min() > Some(0), "{told:#}");
    assert!(told.to_string().contains("RECORDING is an estimate"), "{told:#}");
    // Another machine's are not this trace's.
    let other = fs::read_to_string(&kept)
        .expect("it is kept")
        .replace("\"hostname\": \"", "\"hostname\": \"not-");
    fs::write(&kept, other).expect("it can be written");
    assert!(!periods().to_string().contains("recording_ns"));
    piste(&["calibrate", "--show"]).expect_status(1);
}

#[test]
fn an_interrupted_calibration_keeps_the_older_one() {
    let Some(_alone) = kernel::workplace() else { return };
    let bench = Bench::new();
    let kept = bench.place.path("kept.json");
    fs::write(&kept, "older").expect("it can be written");
    // While tracers are prepared, and while system calls are measured, after events of programs.
    for runs in ["cc1", "calls"] {
        let mut command = bench.command("calibrate");
        if runs == "cc1" {
            command.env_remove("CC");
        }
        let command = command.env("PISTE_CALIBRATION", &kept).stdin(Stdio::null());
        let mut running = Running::start(command);
        running.wait_until(&format!("{runs} runs"), || bench.runs(runs));
        running.signal(Signal::INT);
        let finished = running.finish();
        assert!(finished.expect_status(130).stderr.contains("interrupted"), "{finished}");
        assert_eq!(fs::read_to_string(&kept).expect("it is there"), "older");
        bench.expect_nothing_left();
    }
}

#[test]
fn what_recording_adds_to_a_command_is_measured_in_pairs() {
    let Some(_place) = kernel::shared_workplace() else {
        return;
    };
    let bench = Bench::new();
    let program = bench.place.program("count.c");
    let (program, log) = (text(&program).to_owned(), text(&bench.place.path("runs")).to_owned());
    let script = format!("echo >> {log}; exec {program} 1 1000");
    let run = |options: &[&str], job: &[&str]| {
        let mut command = bench.command("--json bench overhead");
        process::run(command.args(options).arg("--").args(job))
    };
    let ways = [
        "--rounds",
        "3",
        "--record",
        "--no-kernel",
        "--record",
        "-a --no-user -k 'sched_switch'",
    ];
    let measured = run(&ways, &["sh", "-c", &script]);
    measured.expect_success();
    let report: Value = serde_json::from_str(&measured.stdout).expect("JSON");
    let ways = report["ways"].as_array().expect("ways");
    let options: Vec<String> = ways.iter().map(|way| way["options"].to_string()).collect();
    assert_eq!(
        options,
        ["[\"--no-kernel\"]", "[\"-a\",\"--no-user\",\"-k\",\"sched_switch\"]"]
    );
    // With those that describe what the program has loaded.
    let events = ways[0]["events"].as_f64().expect("a number");
    assert!((1000.0..1100.0).contains(&events), "{report:#}");
    for way in ways {
        assert_eq!(way["rounds"].as_u64(), Some(3), "{report:#}");
        let interval = &way["time_ratio"];
        let bound = |key: &str| interval[key].as_f64().expect("a number");
        assert!(
            bound("low") <= bound("value") && bound("value") <= bound("high"),
            "{report:#}"
        );
        assert!(
            way["events"].as_f64() > Some(0.0) && way["trace_bytes"].as_f64() > Some(0.0),
            "{report:#}"
        );
    }
    // Each way: a round to warm up and three, of which each has two runs.
    let runs = fs::read_to_string(&log).expect("it ran").lines().count();
    assert_eq!(runs, 2 * 4 * 2);
    for (options, job, reason) in [
        (
            &[][..],
            &["sh", "-c", "echo broken >&2; exit 3"][..],
            "` ended with status 3: broken",
        ),
        (&["--record=--preset nonsense"], &["true"], "invalid value 'nonsense'"),
        (&[], &["/none/such"], "cannot run /none/such"),
    ] {
        let refused = run(options, job);
        refused.expect_status(1);
        assert!(refused.stderr.contains(reason), "{refused}");
    }
    // A way that fails does not take the others with it.
    let partly = run(
        &["--rounds=1", "--record=--preset nonsense", "--record=--no-kernel"],
        &["true"],
    );
    partly.expect_status(1);
    let report: Value = serde_json::from_str(&partly.stdout).expect("JSON");
    let failed = report["failed"][0]["reason"].as_str();
    assert!(failed.is_some_and(|reason| reason.contains("nonsense")), "{report:#}");
    assert_eq!(report["ways"].as_array().map(Vec::len), Some(1), "{report:#}");
    // Ctrl-C ends the command, and what it has started.
    let log = bench.place.path("pids");
    let script = format!("sleep 1000 & echo $! >> {}; wait", text(&log));
    let mut command = bench.command("bench overhead --record=--no-kernel");
    let mut running = Running::start(command.args(["--", "sh", "-c", &script]).stdin(Stdio::null()));
    let pids = || fs::read_to_string(&log).unwrap_or_default();
    running.wait_until("the command runs", || pids().ends_with('\n'));
    running.signal(Signal::INT);
    running.finish().expect_status(130);
    let pid = pids().trim().to_owned();
    let state = || fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    wait_until("what it started has ended", || {
        state().is_empty() || state().contains(") Z ")
    });
    let refused = run(&["--record", "'"], &["true"]);
    refused.expect_status(2);
    assert!(refused.stderr.contains("unmatched quotation mark"), "{refused}");
    let left: Vec<_> = fs::read_dir(bench.place.path("made"))
        .expect("the folder")
        .flatten()
        .collect();
    assert!(left.is_empty(), "{left:?}");
}
