// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste latency --prepare` changes this machine's real settings: CPUs are isolated and interrupts moved while it measures, and everything is as it was
//! afterwards, however piste ended.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use piste_support::build_tree::binary;
use piste_support::process::{self, wait_until};
use piste_support::{Running, Workplace};
use rustix::process::{Signal, geteuid};
use serde_json::Value;

/// There is one machine: tests take turns.
static MACHINE: Mutex<()> = Mutex::new(());
const JOURNAL: &str = "/run/piste-latency.journal";

/// The last CPU, which is not the only one, for one test at a time; `None`, once said why, where nothing can be prepared.
fn measured_cpu() -> Option<(String, MutexGuard<'static, ()>)> {
    if !geteuid().is_root() {
        println!("skipped: only root can prepare a machine");
        return None;
    }
    let online = fs::read_to_string("/sys/devices/system/cpu/online").expect("the kernel tells");
    match online.trim().rsplit(['-', ',']).next() {
        Some(last) if last != "0" => {
            let turn = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
            Some((last.to_owned(), turn))
        }
        _ => {
            println!("skipped: there is only one CPU");
            None
        }
    }
}

/// All that may be changed, by files.
fn settings() -> BTreeMap<PathBuf, String> {
    let mut files = vec![
        PathBuf::from("/proc/irq/default_smp_affinity"),
        PathBuf::from("/sys/devices/virtual/workqueue/cpumask"),
    ];
    let interrupts = fs::read_dir("/proc/irq").into_iter().flatten().flatten();
    files.extend(interrupts.map(|entry| entry.path().join("smp_affinity_list")));
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("the kernel tells");
    let mut settings = BTreeMap::new();
    for line in mounts.lines().filter(|line| line.contains(" - cgroup")) {
        let mount = Path::new(line.split(' ').nth(4).expect("a mount"));
        for name in [
            "cgroup.subtree_control",
            "cpuset.sched_load_balance",
            "cpuset.cpus.isolated",
        ] {
            files.push(mount.join(name));
        }
        let groups = fs::read_dir(mount)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path());
        for group in groups.filter(|path| path.is_dir()) {
            settings.insert(group, "a group".into());
        }
    }
    for file in files {
        if let Ok(text) = fs::read_to_string(&file) {
            settings.insert(file, text);
        }
    }
    settings
}

/// Starts a measurement on a prepared CPU, and waits until the loop has begun.
fn start(place: &Workplace, cpu: &str) -> Running {
    let options = [
        "--json",
        "latency",
        "timer",
        "--prepare",
        "--cpus",
        cpu,
        "--duration",
        "24h",
    ];
    let mut running = place.start(binary("piste"), &options);
    wait_until("the loop has begun", || {
        assert!(running.runs(), "it has ended: {}", running.finish());
        let tasks = fs::read_dir(format!("/proc/{}/task", running.pid()))
            .into_iter()
            .flatten()
            .flatten();
        let mut names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
        names.any(|name| name.starts_with("latency/"))
    });
    running
}

/// The process that restores the machine when piste is killed.
fn guardian(piste: i32) -> i32 {
    let list = fs::read_to_string(format!("/proc/{piste}/task/{piste}/children")).expect("the kernel tells");
    let is_it = |pid: &&str| {
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.contains("latency-guardian")
    };
    let pid = list
        .split_whitespace()
        .find(is_it)
        .unwrap_or_else(|| panic!("no guardian: {list}"));
    pid.parse().expect("a number")
}

/// What differs, for messages.
fn differences(before: &BTreeMap<PathBuf, String>, now: &BTreeMap<PathBuf, String>) -> Vec<String> {
    let paths = before.keys().chain(now.keys());
    let differs = paths.filter(|path| before.get(*path) != now.get(*path));
    differs
        .map(|path| format!("{}: {:?} -> {:?}", path.display(), before.get(path), now.get(path)))
        .collect()
}

#[test]
fn settings_are_changed_while_it_measures_and_restored_however_it_ends() {
    let Some((cpu, _turn)) = measured_cpu() else { return };
    let place = Workplace::new();
    let before = settings();
    let restored = |what: &str| {
        let mut last = Vec::new();
        wait_until(what, || {
            last = differences(&before, &settings());
            last.is_empty() && !Path::new(JOURNAL).exists()
        });
    };

    // It ends by itself, or by Ctrl-C.
    let mut running = start(&place, &cpu);
    assert!(!differences(&before, &settings()).is_empty(), "nothing has changed");
    assert!(Path::new(JOURNAL).exists());
    running.signal(Signal::INT);
    let finished = running.finish();
    let report: Value = serde_json::from_str(&finished.expect_success().stdout).expect("JSON");
    let (prepared, notes) = (report["prepared"].to_string(), report["notes"].to_string());
    assert!(
        prepared.contains(&format!("CPU {cpu}")) || notes.contains("cannot be isolated"),
        "{report}"
    );
    assert_eq!(differences(&before, &settings()), Vec::<String>::new());
    assert!(!Path::new(JOURNAL).exists());

    // Killed: its guardian restores.
    let mut running = start(&place, &cpu);
    running.signal(Signal::KILL);
    let said = running.finish();
    restored("the guardian has restored the machine");
    assert!(said.stderr.contains("piste latency --prepare was killed"), "{said}");

    // Both killed: whoever comes next restores.
    for next in [
        &["latency", "--restore"][..],
        &["latency", "timer", "--loops", "1", "--cpus", "0"],
    ] {
        let mut running = start(&place, &cpu);
        let guardian = guardian(running.pid());
        process::send(guardian, Signal::KILL);
        wait_until("the guardian has ended", || !process::exists(guardian));
        running.signal(Signal::KILL);
        running.finish();
        assert!(
            !differences(&before, &settings()).is_empty(),
            "somebody has restored it"
        );
        place.piste_succeeds(next);
        restored("the next one has restored the machine");
    }
    let nothing = place.piste_succeeds(&["latency", "--restore"]);
    assert_eq!(nothing, "there is nothing to restore\n");
}

#[test]
fn two_preparations_do_not_disturb_each_other() {
    let Some((cpu, _turn)) = measured_cpu() else { return };
    let place = Workplace::new();
    let before = settings();
    let mut running = start(&place, &cpu);
    for options in [&["latency", "--prepare", "--cpus", &cpu][..], &["latency", "--restore"]] {
        let refused = place.piste(options);
        refused.expect_status(1);
        assert!(
            refused.stderr.contains("another `piste latency --prepare` is running"),
            "{refused}"
        );
    }
    running.signal(Signal::INT);
    running.finish().expect_success();
    assert_eq!(differences(&before, &settings()), Vec::<String>::new());
}

#[test]
fn steps_that_are_not_possible_are_named_and_the_run_goes_on() {
    let Some((_, _turn)) = measured_cpu() else { return };
    let place = Workplace::new();
    let before = settings();
    // All CPUs: nothing is left for everything else.
    let report = place.piste_json(&["latency", "timer", "--loops", "5", "--prepare"]);
    let notes = report["notes"].to_string();
    assert!(notes.contains("no CPU is isolated"), "{report}");
    assert_eq!(differences(&before, &settings()), Vec::<String>::new());
}
