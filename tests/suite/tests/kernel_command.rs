// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command and the kernel domain, as people use them: what is recorded by default and by choice, of whom, and what is said where
//! it cannot be.

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use piste_support::build_tree::binary;
use piste_support::control_group::Group;
use piste_support::kernel::{self, KernelSession};
use piste_support::process::{self, wait_until};
use piste_support::{Trace, Workplace};
use rustix::process::Signal;

/// Events in the trace by name, those of the state dump left out.
fn counts(trace: &Trace) -> BTreeMap<String, u64> {
    let mut counts = trace.counts();
    counts.retain(|name, _| !name.starts_with("lttng_statedump_"));
    counts
}

#[test]
fn a_recording_has_the_program_and_the_kernel_and_only_the_command() {
    let Some(place) = kernel::shared_workplace() else {
        return;
    };
    let program = place.program("brackets.c");
    let mut other = place.start(place.program("numbered_calls.c"), &["100000", "100"]);
    assert_eq!(other.line(), "ready");
    other.say("begin");
    let recording = place.record_with_kernel(&[], program, &["1000"]);
    other.signal(Signal::KILL);
    recording.expect_whole();
    let counts = counts(&recording.trace());
    assert_eq!(counts["brackets:before"], 1000, "{counts:?}");
    // The runtime asks too, when it registers.
    let calls = counts["syscall_entry_getppid"];
    assert!((1000..1010).contains(&calls), "{counts:?}");
    assert_eq!(counts["syscall_exit_getppid"], calls, "{counts:?}");
    assert!(counts.contains_key("sched_switch"), "{counts:?}");
    assert_eq!(
        counts.get("syscall_entry_clock_nanosleep"),
        None,
        "the other program's: {counts:?}"
    );
    let dumped = recording.summary()["state_dump"]["events"].as_u64().unwrap_or_default();
    assert!(dumped > 10, "{}", recording.summary());
    let all = recording.events() + dumped;
    assert_eq!(all, recording.trace().event_count(), "{}", recording.summary());
}

#[test]
fn children_of_the_command_are_recorded_and_the_exit_status_is_its_own() {
    let Some(place) = kernel::shared_workplace() else {
        return;
    };
    let script = "for i in 1 2 3 4 5; do (/bin/true; exit 0) & done; wait; exit 7";
    let recording = place.record_with_kernel(&["--no-user"], "/bin/sh", &["-c", script]);
    recording.finished.expect_status(7);
    let counts = counts(&recording.trace());
    assert_eq!(
        counts["sched_process_exit"], 11,
        "the shell, its children, theirs: {counts:?}"
    );
    assert_eq!(counts["syscall_entry_exit_group"], 11, "{counts:?}");
}

#[test]
fn each_domain_can_be_left_out() {
    let Some(place) = kernel::shared_workplace() else {
        return;
    };
    let program = place.program("brackets.c");
    let user = place.record_with_kernel(&["--no-kernel", "-u", "brackets:*"], &program, &["100"]);
    user.expect_whole();
    assert_eq!(user.events(), 200);
    assert!(!user.trace().path().join("kernel").exists());
    let kernel = place.record_with_kernel(&["--no-user"], &program, &["100"]);
    kernel.expect_whole();
    assert!(!kernel.trace().path().join("user").exists());
    assert!(counts(&kernel.trace())["syscall_entry_getppid"] >= 100);
}

#[test]
fn every_preset_records() {
    let Some(place) = kernel::workplace() else { return };
    let program = place.program("viewer_work.c");
    for (preset, event) in [
        ("sched", "sched_switch"),
        ("io", "syscall_entry_write"),
        ("net", "net_dev_queue"),
        ("syscalls", "syscall_entry_openat"),
        ("mem", "kmem_mm_page_alloc"),
        ("irq", "irq_softirq_entry"),
        ("full", "sched_waking"),
        ("ltt", "sched_switch"),
    ] {
        // Everything that a computer does is much: the rings are large.
        let options = ["-a", "--no-user", "--kernel-subbuf-count", "1024", "--preset", preset];
        let recording = place.record_with_kernel(&options, &program, &[]);
        recording.expect_whole();
        let counts = counts(&recording.trace());
        assert!(counts.contains_key(event), "{preset}: {counts:?}");
    }
}

#[test]
fn events_and_system_calls_are_chosen_and_filtered() {
    let Some(place) = kernel::shared_workplace() else {
        return;
    };
    let program = place.program("viewer_work.c");
    let options = ["--no-user", "-k", "sched_process_*", "--syscall", "fsync,p*"];
    let recording = place.record_with_kernel(&options, &program, &[]);
    recording.expect_whole();
    let counts = counts(&recording.trace());
    assert_eq!(counts["syscall_entry_fsync"], 3, "{counts:?}");
    // The loader makes some too.
    assert!(counts["syscall_entry_pread64"] >= 24, "{counts:?}");
    assert_eq!(
        counts["sched_process_fork"], 6,
        "three children, three threads: {counts:?}"
    );
    let is_wanted = |name: &String| {
        name.starts_with("sched_process_")
            || name.ends_with("_fsync")
            || name.starts_with("syscall_entry_p")
            || name.starts_with("syscall_exit_p")
    };
    assert!(counts.keys().all(is_wanted), "{counts:?}");
}

#[test]
fn a_running_process_is_recorded_for_a_while() {
    let Some(place) = kernel::shared_workplace() else {
        return;
    };
    let mut running = place.start(place.program("numbered_calls.c"), &["1000000", "1000"]);
    assert_eq!(running.line(), "ready");
    running.say("begin");
    let (output, pid) = (place.path("trace"), running.pid().to_string());
    let output = output.to_str().expect("UTF-8");
    let options = [
        "record",
        "--no-user",
        "--kernel-subbuf-count",
        "512",
        "--syscall",
        "close",
        "-p",
        &pid,
        "-d",
        "1s",
        "-o",
        output,
    ];
    place.piste(&options).expect_success();
    assert!(running.runs());
    running.signal(Signal::KILL);
    let mut numbers = vec![];
    Trace::at(output).for_each(|event| {
        if event.name == "syscall_entry_close" {
            assert_eq!(event.tid(), running.pid(), "{event:?}");
            numbers.push(event.number("fd"));
        }
    });
    assert!(numbers.len() > 100, "{} calls", numbers.len());
    assert!(
        numbers.windows(2).all(|pair| pair[1] == pair[0] + 1),
        "calls are missing"
    );
}

#[test]
fn the_whole_system_is_recorded_for_a_while_without_a_command() {
    let Some(place) = kernel::workplace() else { return };
    let mut running = place.start(place.program("numbered_calls.c"), &["1000000", "1000"]);
    assert_eq!(running.line(), "ready");
    running.say("begin");
    let output = place.path("trace");
    let output = output.to_str().expect("UTF-8");
    let options = ["record", "-a", "-d", "1s", "--preset", "sched", "-o", output];
    place.piste(&options).expect_success();
    running.signal(Signal::KILL);
    let mut names = std::collections::BTreeSet::new();
    Trace::at(output).for_each(|event| {
        if event.name == "sched_switch" {
            names.insert(event.field("next_comm").unwrap_or_default().to_owned());
        }
    });
    assert!(names.len() > 2, "{names:?}");
}

#[test]
fn ctrl_c_ends_a_recording_of_the_system_and_the_trace_is_whole() {
    let Some(place) = kernel::workplace() else { return };
    let output = place.path("trace");
    let output = output.to_str().expect("UTF-8");
    let mut recorder = place.start(binary("piste"), &["record", "-a", "--preset", "sched", "-o", output]);
    wait_until("the kernel is recorded", || {
        std::fs::read_dir(Path::new(output).join("kernel")).is_ok_and(|files| files.count() > 1)
    });
    recorder.signal(Signal::INT);
    let finished = recorder.finish();
    finished.expect_success();
    assert!(finished.stderr.contains("events"), "{finished}");
    assert!(counts(&Trace::at(output)).contains_key("sched_switch"));
}

/// Snapshots of recordings of the kernel, in their order.
fn snapshots(place: &Workplace) -> Vec<String> {
    let folders = place.folders_of_recordings();
    let found = folders
        .iter()
        .flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten());
    let paths = found.filter_map(|entry| Some(entry.ok()?.path()));
    let written = paths.filter(|path| path.join("kernel/metadata").exists());
    let mut names: Vec<String> = written.map(|path| path.to_str().expect("UTF-8").to_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_flight_recorder_writes_what_was_last_when_it_is_told_to() {
    let Some(place) = kernel::shared_workplace() else {
        return;
    };
    let program = place.program("numbered_calls.c");
    let options = ["--no-user", "--syscall", "close", "--snapshot-on", "SIGUSR1"];
    let mut recorder = place.start_recording_with_kernel(&options, program, &["5000"]);
    assert_eq!(recorder.running.line(), "ready");
    assert_eq!(recorder.running.ask("begin"), "done");
    recorder.running.signal(Signal::USR1);
    wait_until("a snapshot is there", || !snapshots(&place).is_empty());
    recorder.running.say("end");
    recorder.finish().finished.expect_success();
    let mut numbers = vec![];
    Trace::at(&snapshots(&place)[0]).for_each(|event| {
        if event.name == "syscall_entry_close" && event.number("fd") >= 1_000_000 {
            numbers.push(event.number("fd") - 1_000_000);
        }
    });
    assert_eq!(numbers.last(), Some(&4999), "{} calls", numbers.len());
    assert!(
        numbers.windows(2).all(|pair| pair[1] == pair[0] + 1),
        "calls are missing"
    );
}

/// Rings that are full take a while to be written. All CPUs are recorded meanwhile, and the snapshot is not to end earlier on one of them, even if
/// nothing happens there near its end.
#[test]
fn a_snapshot_that_lacks_nothing_ends_on_all_cpus_at_the_same_time() {
    let Some(place) = kernel::shared_workplace() else {
        return;
    };
    let busy = "for cpu in 0 1; do taskset -c $cpu timeout $((1 + 2 * cpu)) sh -c 'while :; do ls / >/dev/null; done' & done; wait";
    let mut target = place.start("sh", &["-c", busy]);
    let output = place.path("snapshots");
    let pid = target.pid().to_string();
    let options = ["-p", &pid, "--snapshot-on", "exit", "-d", "1500ms", "-o"];
    let recorded = place.piste(&[&["record"], &options[..], &[output.to_str().expect("UTF-8")]].concat());
    recorded.expect_success();
    assert!(recorded.stderr.contains("nothing lost"), "{recorded}");
    target.finish();
    let entries = std::fs::read_dir(&output).expect("it is there");
    let mut folders = entries.filter_map(|entry| Some(entry.ok()?.path()).filter(|path| path.is_dir()));
    let snapshot = folders.next().expect("a snapshot");
    let snapshot = snapshot.to_str().expect("UTF-8");
    let stats = place.piste_json(&["stats", snapshot]);
    let findings = stats["findings"].as_array().expect("a list").iter();
    let cut: Vec<_> = findings
        .filter(|finding| finding["what"].to_string().contains("the last "))
        .collect();
    assert!(cut.is_empty(), "{cut:?}");
}

/// The model is told of everything twice where the snapshots of one recorder are read together.
#[test]
fn analyses_say_that_snapshots_have_events_in_common() {
    let Some(place) = kernel::shared_workplace() else {
        return;
    };
    let program = place.program("numbered_calls.c");
    let options = ["--no-user", "--syscall", "close", "--snapshot-on", "SIGUSR1,exit"];
    let mut recorder = place.start_recording_with_kernel(&options, program, &["5000"]);
    assert_eq!(recorder.running.line(), "ready");
    assert_eq!(recorder.running.ask("begin"), "done");
    recorder.running.signal(Signal::USR1);
    wait_until("a snapshot is there", || !snapshots(&place).is_empty());
    recorder.running.say("end");
    let finished = recorder.finish().finished;
    finished.expect_success();
    let snapshots = snapshots(&place);
    let [first, second] = &snapshots[..] else {
        panic!("{snapshots:?}")
    };
    assert!(
        finished.stderr.contains(&format!("next   piste insights {second}\n")),
        "{finished}"
    );

    let notes = |traces: &[&str]| {
        let answer = place.piste_json(&[&["analyze", "syscallstats"], traces].concat());
        answer["notes"].to_string()
    };
    let twice = "in more than one of these traces";
    assert!(notes(&[first, second]).contains(twice), "{}", notes(&[first, second]));
    for snapshot in [first, second] {
        assert!(!notes(&[snapshot]).contains(twice), "{}", notes(&[snapshot]));
    }
}

#[test]
fn stacks_fields_and_filters_are_what_was_asked_for() {
    let Some(place) = kernel::workplace() else { return };
    let program = place.program("viewer_work.c");
    let session = KernelSession::create(&place, &["--context", "tid,cpu_id"]);
    session
        .enable(&["sched_process_exit", "--callstack", "kernel:5"])
        .enable(&[
            "sched_switch",
            "--filter",
            "next_comm == \"viewer_work\"",
            "--fields",
            "next_tid",
        ])
        .start();
    place.run(&program, &[]).expect_success();
    let (_, trace) = session.end();
    let (mut exits, mut switches) = (0, 0);
    trace.for_each(|event| match event.name.as_str() {
        "sched_process_exit" => {
            let frames = event.fields.matches("] = 0x").count();
            assert!((1..=5).contains(&frames), "{event:?}");
            exits += 1;
        }
        "sched_switch" => {
            assert_eq!(event.fields.matches(" = ").count(), 1, "{event:?}");
            assert!(event.field("next_tid").is_some(), "{event:?}");
            assert!(!event.context("cpu_id").is_empty());
            switches += 1;
        }
        _ => {}
    });
    assert!(exits >= 7 && switches > 3, "{exits} exits, {switches} switches");
}

#[test]
fn a_wrong_filter_is_refused_where_it_is_wrong() {
    let Some(place) = kernel::shared_workplace() else {
        return;
    };
    let _session = KernelSession::create(&place, &[]);
    for (pattern, filter, words) in [
        ("sched_switch", "prev_prio < ", "expected a field, a number or a string"),
        ("sched_switch", "next_pri < 3", "did you mean next_prio?"),
        ("sched_switch", "$pid == 3", "$tid"),
        ("sched_switch", "nonsense == 1", "nonsense"),
        ("sched_swich", "prev_prio < 10", "sched_switch"),
    ] {
        let refused = place.piste(&["enable-event", "-k", "-c", "kernel", pattern, "--filter", filter]);
        assert!(!refused.success() && refused.stderr.contains(words), "{refused}");
    }
}

/// A consumer that has a tenth of a CPU takes seconds to write it.
#[test]
fn a_state_dump_on_a_busy_machine_is_waited_for() {
    const FILES: u64 = 50_000;
    const PROCESSES: u64 = 20;
    let Some(place) = kernel::shared_workplace() else {
        return;
    };
    let Some(group) = Group::make(&place) else {
        println!("skipped: there are no control groups that limit CPU time");
        return;
    };
    let open = format!(
        "
import os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, [resource.getrlimit(resource.RLIMIT_NOFILE)[1]] * 2)
files = [os.dup(0) for _ in range({FILES} // {PROCESSES})]
ended, open_until_then = os.pipe()
for _ in range({PROCESSES} - 1):
    if os.fork() == 0:
        os.close(open_until_then)
        os.read(ended, 1)
        os._exit(0)
print('ready', flush=True)
sys.stdin.readline()"
    );
    let mut holder = place.start("python3", &["-c", &open]);
    assert_eq!(holder.line(), "ready");
    // Another session, so that the consumer is there already.
    let session = KernelSession::create(&place, &[]);
    session.enable(&["sched_process_exit"]).start();
    let consumer = place.kernel_consumer().to_string();
    std::fs::write(group.folder.join("cgroup.procs"), consumer).expect("it becomes a member");
    let recording = place.record_with_kernel(&["-a", "--no-user", "-k", "sched_process_fork"], "true", &[]);
    recording.expect_whole();
    let dumped = recording.trace().counts()["lttng_statedump_file_descriptor"];
    assert!(dumped >= FILES, "{dumped}");
    drop(group);
    session.end();
}

#[test]
fn nobody_elses_tracing_is_touched() {
    let Some(place) = kernel::workplace() else { return };
    let theirs = Path::new("/sys/kernel/tracing/instances").join(format!("somebody-{}", std::process::id()));
    std::fs::create_dir(&theirs).expect("an instance of somebody else");
    std::fs::write(theirs.join("events/sched/sched_process_exit/enable"), "1").expect("it records");
    let before = settings(&theirs);
    let program = place.program("viewer_work.c");
    // Whether the rings were large enough for everything is another question.
    let recording = place.record_with_kernel(&["-a", "--preset", "full"], &program, &[]);
    recording.finished.expect_success();
    assert_eq!(settings(&theirs), before);
    std::fs::write(theirs.join("events/sched/sched_process_exit/enable"), "0").expect("it records no more");
    wait_until("the instance is removed", || std::fs::remove_dir(&theirs).is_ok());
}

fn settings(instance: &Path) -> Vec<String> {
    [
        "set_event",
        "tracing_on",
        "trace_clock",
        "tracing_cpumask",
        "set_event_pid",
        "buffer_size_kb",
        "current_tracer",
    ]
    .iter()
    .map(|name| std::fs::read_to_string(instance.join(name)).unwrap_or_default())
    .collect()
}

#[test]
fn what_there_is_can_be_listed() {
    let Some(place) = kernel::shared_workplace() else {
        return;
    };
    let events = place.piste_succeeds(&["list", "-k", "sched_*"]);
    assert!(
        events.contains("sched_switch") && !events.contains("irq_handler_entry"),
        "{events}"
    );
    let one = place.piste_succeeds(&["list", "-k", "sched_switch"]);
    assert!(one.contains("prev_comm") && one.contains("next_tid"), "{one}");
    let calls = place.piste_succeeds(&["list", "--syscalls", "open*"]);
    assert!(calls.contains("openat") && calls.contains("filename"), "{calls}");
    let program = place.program("numbered_calls.c");
    let program = program.to_str().expect("UTF-8");
    let symbols = place.piste_succeeds(&["list", "--symbols", program, "main"]);
    assert!(symbols.contains("main"), "{symbols}");
    let all = place.piste_json(&["list", "-k"]);
    let count = all["events"].as_array().expect("events").len();
    assert!(count > 1000, "{count} events");
}

#[test]
fn the_doctor_says_what_is_here() {
    let place = Workplace::new();
    let finished = place.piste(&["--json", "doctor"]);
    let checks: serde_json::Value =
        serde_json::from_str(&finished.stdout).unwrap_or_else(|e| panic!("{e}: {finished}"));
    let checks = checks["checks"].as_array().expect("checks");
    assert!(checks.len() > 8, "{checks:#?}");
    for check in checks {
        let level = check["level"].as_str().expect("a level");
        assert!(["ok", "note", "lack"].contains(&level), "{check}");
        assert!(level != "lack" || check["cost"].is_string(), "{check}");
    }
}

/// As a user who may not read tracefs.
#[test]
fn where_the_kernel_is_not_permitted_programs_are_recorded_and_one_line_says_why() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can become another user");
        return;
    }
    let place = Workplace::new();
    let program = place.program("brackets.c");
    let nobody = 65534;
    let folder = place.path("");
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).expect("it is ours");
    std::os::unix::fs::chown(place.run_folder(), Some(nobody), Some(nobody)).expect("it is ours");
    let may_enter = Path::new(&binary("piste"))
        .ancestors()
        .all(|folder| std::fs::metadata(folder).is_ok_and(|metadata| metadata.mode() & 0o001 != 0));
    // Where nobody else may enter the build tree, the programs are taken out of it.
    let bin = place.path("bin");
    std::fs::create_dir(&bin).expect("a folder can be made there");
    for name in ["piste", "pisted"] {
        std::fs::copy(binary(name), bin.join(name)).expect("the programs are copied");
    }
    let piste = if may_enter { binary("piste") } else { bin.join("piste") };
    let mut command: Command = place.command("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(piste)
        .args(["record", "-u", "brackets:*", "-o", "trace", "--"])
        .arg(&program)
        .arg("100");
    if !may_enter {
        let library = place.path("lib");
        let copied = process::run(
            Command::new("cp")
                .arg("-a")
                .arg(piste_support::build_tree::build().join("lib"))
                .arg(&library),
        );
        copied.expect_success();
        command.env("LD_LIBRARY_PATH", library);
    }
    let finished = process::run(&mut command);
    finished.expect_success();
    let about: Vec<&str> = finished.stderr.lines().filter(|line| line.contains("kernel")).collect();
    assert_eq!(about.len(), 1, "{finished}");
    assert_eq!(Trace::at(place.path("trace")).event_count(), 200);
}

#[test]
fn a_short_pause_is_no_gap() {
    let Some(place) = kernel::workplace() else { return };
    let mut running = place.start(place.program("numbered_calls.c"), &["1000"]);
    assert_eq!(running.line(), "ready");
    let session = KernelSession::create(&place, &[]);
    session
        .enable(&["--syscall", "close"])
        .track(&["--pid", &running.pid().to_string()])
        .start();
    place.piste_succeeds(&["stop"]);
    sleep(Duration::from_millis(20));
    place.piste_succeeds(&["start"]);
    assert_eq!(running.ask("begin"), "done");
    let (channel, _) = session.end();
    running.signal(Signal::KILL);
    assert_eq!(channel["events"], 2000, "{channel:#}");
}
