// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files of trace-cmd: the events that `piste view` shows are those of `trace-cmd report`, and every command that reads traces reads them.
//!
//! The samples are of Linux 6.1, recorded with trace-cmd 3.1.6 while `dd` ran; beside each is what `trace-cmd report -t` printed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use piste_support::build_tree::{binary, repository};
use piste_support::{Finished, Workplace, process};
use serde_json::Value;

/// Name, and whether the file has the time of day.
const SAMPLES: [&str; 6] = ["v7", "v6two", "lost", "calls", "stacks", "date"];

/// A file of the samples, unpacked.
fn sample(place: &Workplace, name: &str) -> PathBuf {
    let samples = repository().join("crates/import/tests/samples");
    let packed = samples.join(format!("{name}.gz"));
    let path = place.path(name);
    let bytes = match packed.exists() {
        true => {
            Command::new("gzip")
                .arg("-dc")
                .arg(packed)
                .output()
                .expect("gzip is there")
                .stdout
        }
        false => fs::read(samples.join(name)).expect("it is there"),
    };
    fs::write(&path, bytes).expect("the folder is ours");
    path
}

/// What both say of an event.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Told {
    time_ns: u64,
    cpu: u64,
    tid: i64,
    name: String,
    /// Some of its fields.
    content: String,
}

/// Events as trace-cmd prints them:
/// `              dd-148   [001]    11.397355511: sys_enter:            NR 59 (7ffeb96352b0, 7ffeb9635738)`
fn reported(text: &str) -> Vec<Told> {
    text.lines().filter_map(reported_event).collect()
}

fn reported_event(line: &str) -> Option<Told> {
    let (thread, rest) = line.split_once(" [")?;
    let (cpu, rest) = rest.split_once("] ")?;
    let (time, rest) = rest.trim_start().split_once(": ")?;
    let (name, content) = rest.split_once(':')?;
    if name == "kernel_stack" {
        return None;
    }
    let (seconds, ns) = time.split_once('.')?;
    Some(Told {
        time_ns: seconds.parse::<u64>().ok()? * 1_000_000_000 + ns.parse::<u64>().ok()?,
        cpu: cpu.parse().ok()?,
        tid: thread.trim_end().rsplit_once('-')?.1.parse().ok()?,
        name: name.to_owned(),
        content: reported_content(name, content.trim()),
    })
}

/// Only what is easily found in both.
fn reported_content(name: &str, content: &str) -> String {
    match name {
        // `swapper/0:0 [120] R ==> rcu_preempt:15 [120]`
        "sched_switch" => content
            .split(" ==> ")
            .map(|side| side.split(" [").next().unwrap_or_default())
            .collect::<Vec<_>>()
            .join(" "),
        // `rcu_preempt:15 [120] CPU:000`
        "sched_wakeup" => content.split(" [").next().unwrap_or_default().to_owned(),
        // `NR 1 = 1`
        "sys_exit" => content.split(" = ").nth(1).unwrap_or_default().to_owned(),
        // `NR 1 (4, 55e26cd8b67f, 1, cdd3bbf43df3eda1, 7, 55e29f62c070)`
        "sys_enter" => content.split(['(', ',', ')']).nth(1).unwrap_or_default().to_owned(),
        _ => String::new(),
    }
}

/// Events as `piste view` prints them, under trace-cmd's names.
fn shown(place: &Workplace, path: &Path) -> Vec<Told> {
    let shown = place.piste(&["view", "--format", "ndjson", text(path)]);
    shown.expect_success();
    let events = shown
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"));
    events.filter_map(|event: Value| shown_event(&event)).collect()
}

fn shown_event(event: &Value) -> Option<Told> {
    let name = event["name"].as_str()?;
    let fields = &event["payload"];
    let is_raw = fields.get("__syscall_nr").is_none();
    let name = match (name.split_once("syscall_entry_"), name.split_once("syscall_exit_")) {
        (Some(_), _) if is_raw => "sys_enter".to_owned(),
        (_, Some(_)) if is_raw => "sys_exit".to_owned(),
        (Some((_, call)), _) => format!("sys_enter_{call}"),
        (_, Some((_, call))) => format!("sys_exit_{call}"),
        _ if name.starts_with("piste_statedump_") => return None,
        _ => name
            .strip_prefix("irq_")
            .filter(|name| name.starts_with("softirq"))
            .unwrap_or(name)
            .to_owned(),
    };
    let field = |name: &str| match &fields[name] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let content = match &*name {
        "sched_switch" => format!(
            "{}:{} {}:{}",
            field("prev_comm"),
            field("prev_tid"),
            field("next_comm"),
            field("next_tid")
        ),
        "sched_wakeup" => format!("{}:{}", field("comm"), field("tid")),
        "sys_exit" => field("ret"),
        _ => String::new(),
    };
    Some(Told {
        time_ns: event["time_ns"].as_str()?.parse().ok()?,
        cpu: event["cpu"].as_u64()?,
        tid: event["event_context"]["tid"].as_i64()?,
        name,
        content,
    })
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// What is not shown is no part of a comparison.
fn without_arguments(mut told: Vec<Told>) -> Vec<Told> {
    told.iter_mut()
        .filter(|told| told.name == "sys_enter")
        .for_each(|told| told.content.clear());
    // Events of one time are in any order.
    told.sort();
    told
}

#[test]
fn events_are_those_that_trace_cmd_reports() {
    let place = Workplace::new();
    for name in SAMPLES {
        let file = sample(&place, &format!("{name}.dat"));
        let report = fs::read_to_string(sample(&place, &format!("{name}.txt"))).expect("UTF-8");
        let (theirs, ours) = (
            without_arguments(reported(&report)),
            without_arguments(shown(&place, &file)),
        );
        let differ = ours.iter().zip(&theirs).find(|(ours, theirs)| ours != theirs);
        assert_eq!(differ, None, "{name}");
        assert_eq!(ours.len(), theirs.len(), "{name}");
        assert!(ours.len() >= 50, "{name}: {}", ours.len());
    }
}

#[test]
fn system_calls_have_their_names_and_arguments() {
    let place = Workplace::new();
    let file = sample(&place, "v7.dat");
    let report = fs::read_to_string(sample(&place, "v7.txt")).expect("UTF-8");
    let arguments = reported(&report).into_iter().filter(|told| told.name == "sys_enter");
    let arguments: BTreeMap<u64, String> = arguments.map(|told| (told.time_ns, told.content)).collect();
    let shown = place.piste_succeeds(&[
        "view",
        "--format",
        "ndjson",
        "--event",
        "syscall_entry_write",
        text(&file),
    ]);
    let mut compared = 0;
    for line in shown.lines() {
        let event: Value = serde_json::from_str(line).expect("JSON");
        let time_ns: u64 = event["time_ns"]
            .as_str()
            .and_then(|time| time.parse().ok())
            .expect("a time");
        let descriptor = u64::from_str_radix(&arguments[&time_ns], 16).expect("hex");
        assert_eq!(event["payload"]["fd"].as_u64(), Some(descriptor), "{line}");
        compared += 1;
    }
    assert!(compared > 20, "{compared}");
}

#[test]
fn losses_are_those_that_trace_cmd_counts() {
    let place = Workplace::new();
    let file = sample(&place, "lost.dat");
    let stats: Value = serde_json::from_str(&place.piste_succeeds(&["stats", "--json", text(&file)])).expect("JSON");
    let lost = stats["findings"].as_array().expect("findings").iter();
    let lost: u64 = lost
        .filter(|finding| finding["kind"] == "discarded_events")
        .filter_map(|finding| finding["count"].as_u64())
        .sum();
    let is_named = |finding: &Value| {
        finding["file"]
            .as_str()
            .is_some_and(|name| name.ends_with("lost.dat/kernel/channel0_1"))
    };
    assert!(
        stats["findings"].as_array().expect("findings").iter().all(is_named),
        "{stats:#}"
    );
    // `CPU 1: 8232 events lost`, trace-cmd said when it had recorded.
    assert_eq!(lost, 8232, "{stats:#}");
    let shown = place.piste(&["view", text(&file)]);
    assert!(shown.stderr.contains("lost.dat/kernel/channel0_1"), "{}", shown.stderr);
}

#[test]
fn every_command_reads_a_file_and_leaves_nothing_behind() {
    let place = Workplace::new();
    let temporary = place.path("tmp");
    fs::create_dir(&temporary).expect("the folder is ours");
    let (file, other) = (sample(&place, "v7.dat"), sample(&place, "date.dat"));
    let run = |arguments: &[&str]| -> Finished {
        let mut command = place.command(binary("piste"));
        let ran = process::run(command.env("TMPDIR", &temporary).args(arguments));
        ran.expect_success();
        let left = fs::read_dir(&temporary).expect("it is there").count();
        assert_eq!(left, 0, "{arguments:?}");
        ran
    };
    let (file, other) = (text(&file), text(&other));
    let is_in = |arguments: &[&str], wanted: &str| {
        let ran = run(arguments);
        assert!(
            ran.stdout.contains(wanted) || ran.stderr.contains(wanted),
            "{arguments:?}: {ran}"
        );
    };
    is_in(&["view", "-n", "5", file], "syscall_exit_write");
    is_in(&["info", file], "trace-cmd 3.1.6");
    is_in(&["info", file], "v7.dat/kernel");
    is_in(&["stats", file, other], "sched_switch");
    is_in(&["insights", file], "dd");
    is_in(&["analyze", "cputop", file], "dd");
    is_in(&["diff", file, other], "");
    is_in(
        &[
            "query",
            file,
            "SELECT count(*) AS number FROM events WHERE name = 'sched_switch'",
        ],
        "55",
    );
    is_in(&["trim", file, "--event", "sched_*", "-o", "trimmed"], "trimmed");
    is_in(&["stats", "trimmed"], "sched_switch");
    for format in ["perfetto", "chrome", "json", "ctf1", "ctf2", "parquet"] {
        is_in(
            &["export", file, "--format", format, "-o", &format!("out.{format}")],
            "out",
        );
    }
    is_in(&["import", file, "-o", "imported"], "957 events");
    is_in(&["stats", "imported"], "963 events");
    // Names of threads that no event of theirs tells.
    is_in(&["stats", "--processes", text(&sample(&place, "calls.dat"))], "dd");
}

/// A file of version 7 whose kernel has these symbols: in a section at its end.
fn with_kernel_symbols(mut file: Vec<u8>, list: &str) -> Vec<u8> {
    const KALLSYMS: u16 = 19;
    let option = [&KALLSYMS.to_le_bytes()[..], &8_u32.to_le_bytes()].concat();
    let place = file.windows(option.len()).position(|bytes| bytes == option);
    let offset = place.expect("it says where its symbols are") + option.len();
    let end = file.len() as u64;
    file[offset..offset + 8].copy_from_slice(&end.to_le_bytes());
    let count = list.len() as u32;
    // Not compressed, and nothing describes it.
    file.extend(
        [
            &KALLSYMS.to_le_bytes()[..],
            &[0; 6],
            &u64::from(count + 4).to_le_bytes(),
        ]
        .concat(),
    );
    file.extend([&count.to_le_bytes(), list.as_bytes()].concat());
    file
}

#[test]
fn addresses_of_the_kernel_have_the_names_that_the_file_has() {
    let place = Workplace::new();
    let bytes = fs::read(sample(&place, "stacks.dat")).expect("it is there");
    let file = place.path("named.dat");
    let list = "ffffffff8ecdbf00 T probe_of_switches\nffffffff8ecd7d00 t before_it\nffffffff8ecdd000 T next\n";
    fs::write(&file, with_kernel_symbols(bytes.clone(), list)).expect("the folder is ours");
    let view = |file: &Path| place.piste_succeeds(&["view", "--symbols", text(file), "--event", "sched_switch"]);
    let viewed = view(&file);
    assert!(
        viewed.contains("0xFFFFFFFF8ECDBF96 <probe_of_switches+0x96>"),
        "{viewed}"
    );
    assert!(viewed.contains("0xFFFFFFFF8ECD7DCE <before_it+0xce>"), "{viewed}");
    // Names need no root, and stay with what is imported.
    place.piste_succeeds(&["import", text(&file), "-o", "kept"]);
    assert_eq!(view(&place.path("kept")), viewed);
    let flame = place.piste_succeeds(&["analyze", "flame", text(&file)]);
    assert!(flame.contains("probe_of_switches"), "{flame}");

    // The kernel hides addresses from users.
    let hidden: String = list.lines().map(|line| format!("{:016}{}\n", 0, &line[16..])).collect();
    fs::write(&file, with_kernel_symbols(bytes, &hidden)).expect("the folder is ours");
    let view = place.piste(&["view", "--symbols", text(&file), "--event", "sched_switch"]);
    view.expect_success();
    assert!(
        view.stderr
            .contains("addresses of the kernel have no names: the trace is from another boot"),
        "{view}"
    );
}

#[test]
fn what_cannot_be_imported_is_refused() {
    let place = Workplace::new();
    let refused = |arguments: &[&str], why: &str| {
        let ran = place.piste(arguments);
        assert!(ran.status != 0 && ran.stderr.contains(why), "{arguments:?}: {ran}");
    };
    fs::write(place.path("none.dat"), "nothing").expect("the folder is ours");
    fs::write(place.path("begin.dat"), b"\x17\x08\x44tracing7\0").expect("the folder is ours");
    fs::create_dir(place.path("full")).expect("the folder is ours");
    fs::write(place.path("full/file"), "").expect("the folder is ours");
    refused(
        &["import", "none.dat", "-o", "out"],
        "none.dat: it is not a trace.dat file of trace-cmd",
    );
    refused(&["import", "no-such.dat", "-o", "out"], "cannot read no-such.dat");
    refused(
        &["import", "begin.dat", "-o", "out"],
        "begin.dat: it ends within its header",
    );
    refused(&["view", "begin.dat"], "begin.dat: it ends within its header");
    refused(&["view", "none.dat"], "there is no trace in none.dat");
    let file = sample(&place, "v7.dat");
    refused(
        &["import", text(&file), "-o", "full"],
        "it exists and is not an empty folder",
    );
    refused(&["view", "--follow", text(&file)], "cannot follow");
    assert!(!place.path("out").exists());
    // Others are read nevertheless.
    let ran = place.piste(&["stats", "begin.dat", text(&file)]);
    assert!(
        ran.status == 0 && ran.stdout.contains("963 events") && ran.stderr.contains("begin.dat"),
        "{ran}"
    );
}
