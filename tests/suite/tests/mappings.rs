// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `piste record` writes of programs and libraries that are mapped in memory while it records the kernel.

use std::fs;
use std::path::Path;

use piste_suite::build_tree::binary;
use piste_suite::kernel;
use piste_suite::process::{allowed_cpu, wait_until};
use rustix::process::Signal;
use serde_json::Value;

/// The lines of a recording; the last one may still be being written.
fn lines(trace: &Path) -> Vec<Value> {
    let text = fs::read_to_string(trace.join("mappings.jsonl")).unwrap_or_default();
    text.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

fn count(lines: &[Value], event: &str) -> usize {
    lines.iter().filter(|line| line["event"] == event).count()
}

#[test]
fn mappings_of_a_process_and_of_all_that_it_starts_are_recorded() {
    const CHILDREN: usize = 100;
    let Some(place) = kernel::workplace() else { return };
    let script = "echo ready; while read go; do /bin/true; echo done; done";
    let mut shell = place.start("/bin/sh", &["-c", script]);
    assert_eq!(shell.line(), "ready");
    let (pid, trace) = (shell.pid(), place.path("trace"));
    let folder = trace.to_str().expect("UTF-8");
    let record = [
        "record",
        "--preset",
        "sched",
        "--no-user",
        "-o",
        folder,
        "-p",
        &pid.to_string(),
    ];
    let mut recorder = place.start(binary("piste"), &record);
    wait_until("its mappings are recorded", || !lines(&trace).is_empty());
    for _ in 0..CHILDREN {
        assert_eq!(shell.ask("go"), "done");
    }
    recorder.signal(Signal::INT);
    recorder.finish();
    shell.signal(Signal::KILL);

    let lines = lines(&trace);
    let own = lines
        .iter()
        .filter(|line| line["event"] == "mapped" && line["pid"] == pid);
    let has_library = |line: &Value| line["path"].as_str().is_some_and(|path| path.contains("/libc"));
    let library = own
        .clone()
        .find(|line| has_library(line))
        .expect("the shell has a C library");
    let is_true = |line: &&Value| line["path"].as_str().is_some_and(|path| path.ends_with("/true"));
    assert_eq!(count(&lines, "forked"), CHILDREN, "{lines:?}");
    assert_eq!(lines.iter().filter(is_true).count(), CHILDREN, "{lines:?}");
    assert_eq!(count(&lines, "lost"), 0);
    // What was mapped before has the build id that the kernel reports of what is mapped later.
    let later = lines
        .iter()
        .rfind(|line| has_library(line))
        .expect("so has every command");
    assert_ne!(later["pid"], library["pid"]);
    assert_eq!(later["build_id"], library["build_id"]);
}

#[test]
fn mappings_that_were_not_recorded_are_told() {
    let Some(place) = kernel::workplace() else { return };
    let (trace, over) = (place.path("trace"), place.path("over"));
    // More than the ring of a CPU has room for.
    let script = format!(
        "echo ready; read go; i=0; while [ $i -lt 600 ]; do /bin/true; i=$((i+1)); done; touch {}",
        over.display()
    );
    let folder = trace.to_str().expect("UTF-8");
    let record = ["record", "--preset", "sched", "--no-user", "-o", folder, "--"];
    let command = ["taskset", "-c", &allowed_cpu(), "/bin/sh", "-c", &script];
    let mut recorder = place.start(binary("piste"), &[&record[..], &command].concat());
    assert_eq!(recorder.line(), "ready");
    recorder.signal(Signal::STOP);
    recorder.say("go");
    wait_until("the command is over", || over.exists());
    recorder.signal(Signal::CONT);
    recorder.finish();
    assert!(count(&lines(&trace), "lost") > 0);
}
