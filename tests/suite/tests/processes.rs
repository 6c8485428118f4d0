// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that fork, spawn, exec, cancel threads, close descriptors, load libraries: each event is recorded once, by the
//! process that emitted it. And programs without a pisted: as if untraced.

use std::collections::BTreeMap;
use std::fs;
use std::thread::sleep;
use std::time::Duration;

use piste_support::process::{allowed_cpu, send, stop, wait_until};
use piste_support::report::text;
use piste_support::{Compilation, Recording, Running, Trace, Workplace, kernel};
use rustix::process::Signal;
use serde_json::Value;

/// A program that waits loses nothing, however busy the computer is.
const LOSSLESS: [&str; 4] = ["-u", "*", "--block", "forever"];

/// Runs processes.c, which says how many processes record how many events each under their own id.
fn check_processes(how: &str) -> (Workplace, Recording) {
    let place = Workplace::new();
    let program = place.program("processes.c");
    let recording = place.record(&["-u", "process:*", "--block", "forever"], program, &[how]);
    recording.expect_whole();
    check_ids(&recording);
    (place, recording)
}

fn check_ids(recording: &Recording) {
    let said = recording.finished.stdout.lines().last().unwrap_or_default().to_owned();
    let (processes, each) = said.split_once(' ').unwrap_or_else(|| panic!("{}", recording.finished));
    let mut next: BTreeMap<u64, u64> = BTreeMap::new();
    for event in recording.trace().events() {
        let expected = next.entry(event.number("pid")).or_default();
        assert_eq!(event.number("number"), *expected, "missing or twice: {event:?}");
        *expected += 1;
    }
    // Threads have ids from a million on, and record as much as they come to.
    next.retain(|id, _| *id < 1_000_000);
    assert_eq!(next.len().to_string(), processes, "{next:?}");
    assert!(next.values().all(|count| count.to_string() == each), "{next:?}");
}

#[test]
fn a_forked_child_records_on_its_own_and_nothing_twice() {
    let (_place, recording) = check_processes("fork");
    for event in recording.trace().events() {
        assert_eq!(
            event.vpid() as u64,
            event.number("pid"),
            "the packet says which process: {event:?}"
        );
    }
}

/// In a pid namespace of its own a program is process 1. What joins its events to those of the kernel is what the kernel says of it.
#[test]
fn a_program_in_a_pid_namespace_has_the_computer_s_number_too() {
    let Some(place) = kernel::workplace() else { return };
    let program = place.program("count.c");
    let program = text(&program);
    let events = ["-u", "count:*", "-k", "sched_process_exec"];
    let recording = place.record_with_kernel(&events, "unshare", &["--pid", "--fork", program, "1", "10"]);
    recording.expect_whole();
    let trace = recording.trace();
    let all = place.piste_succeeds(&["view", "--json", text(trace.path().parent().expect("a folder"))]);
    let all: Vec<Value> = all
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let executed = |event: &&Value| event["payload"]["filename"] == program;
    let pid = &all.iter().find(executed).expect("it is executed")["payload"]["tid"];
    let counted = all.iter().filter(|event| event["name"] == "count:tick");
    let mut steps = 0;
    for event in counted {
        let packet = &event["packet_context"];
        assert_eq!((&packet["vpid"], &packet["pid"]), (&1.into(), pid), "{event}");
        assert_eq!(packet["uid"], rustix::process::getuid().as_raw(), "{event}");
        steps += 1;
    }
    assert_eq!(steps, 10);
    let of_process = ["stats", "--json", "--pid", &pid.to_string(), "--event", "count:tick"];
    let folder = trace.path().parent().expect("a folder");
    let selected = place.piste_json(&[&of_process[..], &[text(folder)]].concat());
    assert_eq!(selected["events"], 10, "{selected:#}");
}

#[test]
fn children_of_forked_children_record_on_their_own() {
    check_processes("tree");
}

#[test]
fn children_forked_among_recording_threads_record_on_their_own() {
    check_processes("threads");
}

#[test]
fn vforked_and_spawned_programs_record_and_disturb_nobody() {
    check_processes("spawn");
}

#[test]
fn a_program_that_closes_all_descriptors_is_recorded() {
    check_processes("close");
    check_processes("close-and-fork");
}

#[test]
fn a_program_that_ends_without_exit_handlers_is_recorded() {
    check_processes("no-exit-handlers");
}

#[test]
fn a_program_that_becomes_another_is_recorded_before_and_after() {
    check_processes("exec");
}

#[test]
fn a_program_that_aborts_is_recorded_to_its_end() {
    let place = Workplace::new();
    let program = place.program("processes.c");
    let recording = place.record(&["-u", "process:*", "--block", "forever"], program, &["abort"]);
    recording.finished.expect_status(128 + 6);
    assert_eq!((recording.number("exit_status"), recording.discarded()), (128 + 6, 0));
    check_ids(&recording);
}

#[test]
fn threads_that_are_cancelled_inside_records_lose_nothing_uncounted() {
    check_dying_threads("cancel");
}

#[test]
fn threads_that_leave_from_a_signal_handler_inside_records_lose_nothing_uncounted() {
    check_dying_threads("handler");
}

/// cancels.c says how many calls of each thread had returned. A thread that died inside a record leaves a hole, which is given up after
/// a while and counted as late. Whatever else is missing is counted too, and no event is there twice.
fn check_dying_threads(how: &str) {
    const THREADS: usize = 60;
    let place = Workplace::new();
    let program = place.program("cancels.c");
    let options = ["-u", "cancel:*", "--block", "forever", "--subbuf-size", "16K"];
    let recording = place.record(&options, program, &[how, &THREADS.to_string()]);
    recording.finished.expect_success();
    let said = recording.finished.stdout.lines();
    let returned: Vec<u64> = said.map(|line| line.parse().expect("a count")).collect();
    assert_eq!(returned.len(), THREADS + 1);

    let mut numbers: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for event in recording.trace().events_and_loss().0 {
        numbers
            .entry(event.number("thread"))
            .or_default()
            .push(event.number("number"));
    }
    let mut missing = vec![];
    for (thread, &returned) in returned.iter().enumerate() {
        let recorded = numbers.remove(&(thread as u64)).unwrap_or_default();
        assert!(
            recorded.is_sorted_by(|one, next| one < next),
            "thread {thread}: twice, or out of order"
        );
        // The last call may have recorded without returning.
        assert!(recorded.last().is_none_or(|&last| last <= returned), "thread {thread}");
        let lacks = |number: &u64| recorded.binary_search(number).is_err();
        missing.extend((0..returned).filter(lacks).map(|number| (thread, number)));
    }
    assert!(
        missing.len() as u64 <= recording.losses("discarded_full"),
        "missing without being counted: {missing:?}: {}",
        recording.summary()
    );
    assert!(
        recording.losses("discarded_late") <= THREADS as u64,
        "{}",
        recording.summary()
    );
}

#[test]
fn a_program_that_is_slow_to_take_other_memory_loses_only_the_hole() {
    // As much as it records meanwhile finds space behind the hole.
    let (calls, recorded, discarded) = record_while_held_up(&["--subbuf-size", "64K"], 3000, 100);
    assert_eq!((recorded, discarded), (calls, 1));
}

#[test]
fn a_program_that_is_slow_to_take_other_memory_has_all_its_losses_counted() {
    let (calls, recorded, discarded) = record_while_held_up(&["--subbuf-size", "16K"], 2000, 1000);
    assert!(recorded < calls, "more than its ring holds");
    assert_eq!(recorded + discarded, calls + 1, "the hole is none of the calls");
}

/// The consumer gives up a hole in a ring of 4 sub-buffers, and the program's runtime thread, which would go over to other memory, is
/// stopped for long. Returns how many calls the program made, how many events the trace has, and how many it says are discarded.
fn record_while_held_up(channel: &[&str], until_given_up: u64, each_round: u64) -> (u64, u64, u64) {
    const ROUNDS: u64 = 20;
    let place = Workplace::new();
    let output = place.path("trace");
    place.piste_succeeds(&["create", "held", "-o", output.to_str().expect("UTF-8")]);
    place.piste_succeeds(&[&["enable-channel", "-u", "small", "--num-subbuf", "4"], channel].concat());
    place.piste_succeeds(&["enable-event", "-u", "held_up:tick", "-c", "small"]);
    place.piste_succeeds(&["start"]);
    // Each CPU has a ring of its own, and only one has the hole.
    let program = place.program("held_up.c");
    let pinned = ["-c", &allowed_cpu(), program.to_str().expect("UTF-8")];
    let mut program = place.start("taskset", &pinned);
    assert_eq!(program.ask("hold"), "done");
    assert_eq!(program.ask("hole"), "done");
    assert_eq!(program.ask(&format!("record {until_given_up}")), "done");
    wait_until("the hole is given up", || {
        place.piste_json(&["status"]).to_string().contains("given up")
    });
    for _ in 0..ROUNDS {
        assert_eq!(program.ask(&format!("record {each_round}")), "done");
        // No condition: what must not happen may happen at any time.
        sleep(Duration::from_millis(100));
    }
    assert_eq!(program.ask("release"), "done");
    program.finish().expect_success();

    let status = place.piste_json(&["destroy"]);
    let (events, discarded) = Trace::at(output).events_and_loss();
    let mut numbers: Vec<u64> = events.iter().map(|event| event.number("number")).collect();
    numbers.sort_unstable();
    assert!(numbers.is_sorted_by(|one, next| one < next), "twice");
    assert_eq!(status["channels"][0]["discarded_events"], discarded, "{status:#}");
    (until_given_up + ROUNDS * each_round, numbers.len() as u64, discarded)
}

#[test]
fn a_statically_linked_program_is_recorded() {
    let place = Workplace::new();
    for (source, name) in [("count.c", "static"), ("early.cc", "static-cpp")] {
        let program = place.compile(&Compilation::of(&[source]).linked_statically(), name);
        let recording = place.record(&LOSSLESS, program, &["2", "1000"]);
        recording.expect_whole();
        let counts = recording.trace().counts();
        match name {
            "static" => assert_eq!(counts.get("count:tick"), Some(&2000), "{counts:?}"),
            _ => assert_eq!(counts.get("early:first_line"), Some(&1), "{counts:?}"),
        }
    }
}

#[test]
fn constructors_the_first_line_of_main_and_destructors_are_recorded() {
    let place = Workplace::new();
    let program = place.program("early.cc");
    let recording = place.record(&["-u", "early:*,late:*"], program, &[]);
    recording.expect_whole();
    let names: Vec<String> = recording.trace().events().into_iter().map(|event| event.name).collect();
    let expected = [
        "early:constructor",
        "early:object",
        "early:first_line",
        "late:object",
        "late:destructor",
    ];
    let mut sorted = names.clone();
    // Which of constructors and objects comes first is the compiler's to choose.
    sorted[..2].sort();
    assert_eq!(sorted[..3], expected[..3], "{names:?}");
    let mut after = sorted[3..].to_vec();
    after.sort();
    assert_eq!(after, ["late:destructor", "late:object"], "{names:?}");
}

#[test]
fn a_library_that_is_loaded_and_unloaded_a_hundred_times_is_recorded_each_time() {
    let place = Workplace::new();
    let library = place.compile(&Compilation::of(&["plugin.c"]).shared(), "libplugin.so");
    let program = place.program("plugin_host.c");
    let arguments = [library.to_str().expect("UTF-8"), "100"];
    let recording = place.record(&["-u", "plugin:*"], program, &arguments);
    recording.expect_whole();
    let trace = recording.trace();
    let counts = ["plugin:call", "plugin:loaded", "plugin:unloaded"].map(|name| (name.to_owned(), 100));
    assert_eq!(trace.counts(), BTreeMap::from(counts));
    let numbers = trace
        .events()
        .into_iter()
        .filter(|event| event.name == "plugin:call")
        .map(|event| event.number("number"));
    assert!(numbers.eq(0..100));
    assert_eq!(classes_named(&recording, "plugin:call"), 1);
}

#[test]
fn the_same_declaration_in_files_and_a_library_is_one_event() {
    let place = Workplace::new();
    place.compile(&Compilation::of(&["same_event_library.c"]).shared(), "libsame.so");
    let library_folder = format!("-L{}", place.path(".").display());
    let program = Compilation::of(&["same_event_main.c", "same_event_file.c"]).with(library_folder);
    let program = place.compile(&program.linking("same"), "same");
    let recording = place.record(&["-u", "same:*,other:*"], program, &[]);
    recording.expect_whole();
    let seen: Vec<String> = recording
        .trace()
        .events()
        .iter()
        .map(|event| format!("{} {}", event.name, event.fields))
        .collect();
    assert_eq!(
        seen,
        [
            r#"same:event { file = "main" }"#,
            r#"same:event { file = "another file" }"#,
            "other:event { number = 7 }",
            r#"same:event { file = "library" }"#,
            r#"other:event { text = "seven" }"#,
        ]
    );
    assert_eq!(classes_named(&recording, "same:event"), 1);
    // Two that disagree are two classes of one name, and neither is recorded wrongly.
    assert_eq!(classes_named(&recording, "other:event"), 2);
}

#[test]
fn the_same_event_of_two_programs_is_one_class() {
    let place = Workplace::new();
    let one = place.program("count.c");
    let other = place.compile(&Compilation::of(&["count.c"]).with("-O1"), "count-too");
    let script = format!("{} 1 10; {} 1 10", one.display(), other.display());
    let recording = place.record(&["-u", "count:*"], "/bin/sh", &["-c", &script]);
    recording.expect_whole();
    assert_eq!(recording.events(), 20);
    assert_eq!(classes_named(&recording, "count:tick"), 1);
}

fn classes_named(recording: &Recording, event: &str) -> usize {
    recording
        .trace()
        .metadata()
        .matches(&format!("name = \"{event}\";"))
        .count()
}

#[test]
fn without_a_pisted_no_thread_of_the_program_runs_while_it_waits() {
    let place = Workplace::new();
    let mut puppet = place.start(place.program("puppet.c"), &[]);
    assert_eq!(puppet.ask("record 10"), "done");
    // Until the runtime's thread has come to rest.
    let mut before = switches(puppet.pid());
    wait_until("the program rests", || {
        sleep(Duration::from_millis(100));
        let now = switches(puppet.pid());
        // On a busy computer a thread that has something to do may not have come to it meanwhile.
        std::mem::replace(&mut before, now.clone()) == now && now.values().all(|lines| lines[0].contains("sleeping"))
    });
    sleep(Duration::from_secs(1));
    assert_eq!(switches(puppet.pid()), before, "context switches of its threads");
    assert!(before.len() <= 2, "more than one thread of the runtime: {before:?}");
    puppet.finish().expect_silent_success();
}

/// State and context switches of each thread.
fn switches(pid: i32) -> BTreeMap<String, Vec<String>> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("the program runs");
    let of_thread = |entry: fs::DirEntry| {
        let status = fs::read_to_string(entry.path().join("status")).unwrap_or_default();
        let lines = status
            .lines()
            .filter(|line| line.starts_with("State:") || line.contains("ctxt_switches"))
            .map(str::to_owned);
        (entry.file_name().to_string_lossy().into_owned(), lines.collect())
    };
    threads
        .map(|entry| of_thread(entry.expect("the program runs")))
        .collect()
}

#[test]
fn without_a_pisted_a_program_leaves_nothing_and_runs_as_if_untraced() {
    let place = Workplace::new();
    let program = place.program("count.c");
    place.run(&program, &["4", "100000"]).expect_silent_success();
    // Nor does it need the run folder.
    fs::remove_dir_all(place.run_folder()).expect("the run folder can be removed");
    place.run(&program, &["4", "1000"]).expect_silent_success();
    assert!(!place.run_folder().exists());
}

#[test]
fn descriptors_are_numbered_as_if_untraced() {
    let place = Workplace::new();
    let program = place.program("puppet.c");
    // The lowest free number is the one of the folder that ls reads.
    let listed = place.run(
        "/bin/sh",
        &[
            "-c",
            "ls -l /proc/self/fd | sed -n 's/.* \\([0-9]*\\) -> .*\\/fd$/\\1/p'",
        ],
    );
    let lowest = listed.stdout.trim();
    assert!(lowest.parse::<u32>().is_ok(), "{listed}");

    let mut without = place.start(&program, &[]);
    assert_eq!(without.ask("open"), lowest);
    without.finish().expect_silent_success();

    let mut recorder = place.start_recording(&["-u", "*"], &program, &[]);
    assert_eq!(recorder.running.ask("open"), lowest);
    assert_eq!(recorder.running.ask("record 1"), "done");
    assert_eq!(recorder.running.ask("open"), lowest);
    recorder.finish().expect_whole();
}

#[test]
fn a_program_registers_when_pisted_starts_later() {
    let place = Workplace::new();
    let mut puppet = place.start(place.program("puppet.c"), &[]);
    // Nobody records this.
    assert_eq!(puppet.ask("record 7"), "done");
    let trace = place.path("trace");
    place.piste_succeeds(&["create", "later", "-o", trace.to_str().expect("UTF-8")]);
    place.piste_succeeds(&["enable-event", "-u", "shop:*"]);
    place.piste_succeeds(&["start"]);
    assert_eq!(puppet.ask("wait"), "done");
    assert_eq!(puppet.ask("record 5"), "done");
    let status = place.piste_json(&["destroy"]);
    assert_eq!(status["channels"][0]["events"], 10, "{status:#}");
    puppet.finish().expect_silent_success();
}

#[test]
fn a_hung_pisted_holds_the_start_of_a_program_no_longer_than_its_setting() {
    let place = Workplace::new();
    let program = place.program("count.c");
    place.start_pisted();
    let pisted = place.pisted();
    stop(pisted);
    // It ends at all: pisted is stopped meanwhile. Without the setting, with a short one, with a wrong one.
    for setting in [None, Some("0"), Some("50"), Some("soon")] {
        let mut command = place.command(&program);
        command.args(["1", "10"]).env_remove("PISTE_REGISTER_TIMEOUT");
        if let Some(setting) = setting {
            command.env("PISTE_REGISTER_TIMEOUT", setting);
        }
        piste_support::process::run(&mut command).expect_silent_success();
    }
    // It is held, when it may be held for long.
    let mut command = place.command(&program);
    command
        .args(["1", "10"])
        .env("PISTE_REGISTER_TIMEOUT", "600000")
        .stdin(std::process::Stdio::null());
    let mut held = piste_support::Running::start(&mut command);
    sleep(Duration::from_millis(300));
    assert!(held.runs());
    send(pisted, Signal::CONT);
    held.finish().expect_silent_success();
}

/// What /proc/PID/smaps says of the mappings whose first line has `name` in it: the lines of each.
fn mappings(pid: i32, name: &str) -> Vec<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps")).expect("the kernel's text");
    let mut mappings: Vec<Vec<String>> = vec![];
    for line in text.lines() {
        // Others begin with a word and a colon.
        let is_first = line.split(' ').next().is_some_and(|word| !word.ends_with(':'));
        match mappings.last_mut() {
            Some(last) if !is_first => last.push(line.to_owned()),
            _ => mappings.push(vec![line.to_owned()]),
        }
    }
    mappings.retain(|lines| lines[0].contains(name));
    mappings
}

fn record_a_session(place: &Workplace, puppet: &mut Running, name: &str) {
    let output = place.path(name);
    place.piste_succeeds(&["create", name, "-o", output.to_str().expect("UTF-8")]);
    place.piste_succeeds(&["enable-event", "-u", "shop:order"]);
    place.piste_succeeds(&["start"]);
    assert_eq!(puppet.ask("wait"), "done");
    assert_eq!(puppet.ask("record 1"), "done");
}

#[test]
fn rings_are_not_in_core_dumps() {
    let place = Workplace::new();
    place.start_pisted();
    let mut puppet = place.start(place.program("puppet.c"), &[]);
    record_a_session(&place, &mut puppet, "web");
    let rings = mappings(puppet.pid(), "memfd:piste:");
    assert!(!rings.is_empty());
    for ring in rings {
        let flags = ring.iter().find_map(|line| line.strip_prefix("VmFlags:"));
        assert!(
            flags.is_some_and(|flags| flags.split(' ').any(|flag| flag == "dd")),
            "{ring:?}"
        );
    }
    puppet.finish().expect_success();
}

#[test]
fn sessions_leave_no_locked_memory_in_a_program_that_locks_its_own() {
    const SESSIONS: usize = 20;
    // The C library's own needs. A ring that stays takes a multiple of it.
    const LOCKED_KB_MORE_MAX: u64 = 512;
    let place = Workplace::new();
    place.start_pisted();
    let mut puppet = place.start(place.program("puppet.c"), &[]);
    let locked = puppet.ask("lock");
    if locked != "done" {
        return println!("skipped: a program cannot lock its memory here: {locked}");
    }
    let pid = puppet.pid();
    let locked_kb = || {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the kernel's text");
        let line = status.lines().find_map(|line| line.strip_prefix("VmLck:"));
        let number = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        number.expect("a number of kB")
    };
    let before = locked_kb();
    for session in 0..SESSIONS {
        record_a_session(&place, &mut puppet, &format!("web-{session}"));
        assert!(
            locked_kb() > before + LOCKED_KB_MORE_MAX,
            "rings are locked while they are used"
        );
        place.piste_succeeds(&["destroy"]);
        wait_until("the rings are detached", || mappings(pid, "memfd:piste:").is_empty());
    }
    // The last one may be on its way.
    wait_until("what was locked is not any more", || {
        locked_kb() <= before + LOCKED_KB_MORE_MAX
    });
    puppet.finish().expect_success();
}
