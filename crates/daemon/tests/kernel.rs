// SPDX-License-Identifier: MIT OR Apache-2.0
//! The built pisted on the real kernel: what is asked, counted, refused, and what accidents leave. Needs root and a kernel whose tracing
//! answers; says so and passes elsewhere.

mod skipping;
mod support;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::{env, fs};

use piste_control::interface::*;
use piste_daemon::control::leftovers;
use piste_kernel::owner::{self, Owner};
use piste_kernel::tracefs::Tracefs;
use rustix::process::{Pid, Signal, kill_process};
use support::{Pisted, channel_request, is_over, kill, wait_until};

/// A pisted that traces the kernel; what it left in there goes with it.
struct TracingPisted {
    pisted: Pisted,
    tracefs: Tracefs,
}

impl TracingPisted {
    /// None where the kernel cannot be traced.
    fn new() -> Option<TracingPisted> {
        let tracefs = skipping::tracefs()?;
        let pisted = Pisted::start();
        Some(TracingPisted { pisted, tracefs })
    }

    fn owner(&self) -> String {
        let path = self.pisted.run_folder().join("kernel/owner");
        fs::read_to_string(path).unwrap_or_default().trim().to_owned()
    }

    /// Names of the instances of this run folder.
    fn instances(&self) -> Vec<String> {
        let entries = fs::read_dir(self.tracefs.path("instances")).unwrap();
        let names = entries.filter_map(|entry| entry.unwrap().file_name().into_string().ok());
        let ours = format!("piste-{}-", self.owner());
        names.filter(|name| name.starts_with(&ours)).collect()
    }

    fn create(&self, session: &str) {
        let output = self.pisted.output(session).to_str().unwrap().to_owned();
        self.pisted
            .client()
            .create_session(Some(session.into()), Some(output), false, None, None, None)
            .call()
            .unwrap();
    }

    fn enable(&self, rule: KernelRule) {
        let enabled = self.pisted.client().enable_kernel_event(None, None, vec![rule]).call();
        enabled.unwrap();
    }

    fn refused(&self, rule: KernelRule) -> ErrorKind {
        let mut client = self.pisted.client();
        let error = client.enable_kernel_event(None, None, vec![rule]).call().unwrap_err();
        error.kind().clone()
    }

    /// A session that records what a program calls, and the program.
    fn recording_calls(&self) -> Caller {
        let caller = Caller::start();
        self.create("calls");
        self.enable(rule(KernelEventKind::syscall, "getppid"));
        self.track(&caller);
        self.pisted.client().start(None).call().unwrap();
        caller
    }

    fn track(&self, caller: &Caller) {
        let tracked = Tracked {
            pids: Some(vec![caller.process.id().into()]),
            ..Tracked::default()
        };
        self.pisted
            .client()
            .track(None, Domain::kernel, tracked)
            .call()
            .unwrap();
    }

    fn kill_kernel_consumer(&self) {
        let consumers = self.pisted.kernel_consumers();
        let [consumer] = consumers[..] else {
            panic!("{consumers:?}")
        };
        kill(consumer);
        wait_until("it is dead", || is_over(consumer));
    }

    /// Kills it while it records, and removes its journal. While the returned owner lives, no pisted of another test takes what is
    /// left here for a dead one's.
    fn leave_all_without_a_journal(&mut self) -> (Caller, Owner) {
        let caller = self.recording_calls();
        let owner = Owner::claim(self.pisted.run_folder()).unwrap();
        self.pisted.kill();
        self.kill_kernel_consumer();
        fs::remove_file(self.pisted.run_folder().join("journal")).unwrap();
        assert_eq!(self.instances().len(), 2);
        (caller, owner)
    }
}

impl Drop for TracingPisted {
    fn drop(&mut self) {
        let owner = self.owner();
        self.pisted.end();
        // Nobody holds it any more.
        for dead in owner::leftovers(std::time::Duration::ZERO).unwrap_or_default().dead {
            if dead.id() == owner {
                leftovers::of_dead_owner(&self.tracefs, dead);
            }
        }
    }
}

fn rule(kind: KernelEventKind, pattern: &str) -> KernelRule {
    KernelRule {
        call_part: None,
        kind,
        pattern: pattern.into(),
        binary: None,
        place: None,
        arguments: vec![],
        excluded: vec![],
        filter: None,
        fields: vec![],
        stack: None,
        enabled: true,
    }
}

fn tracepoint(pattern: &str) -> KernelRule {
    rule(KernelEventKind::tracepoint, pattern)
}

/// A process that makes as many calls as it is told.
struct Caller {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Caller {
    fn start() -> Caller {
        let mut process = Command::new(env::current_exe().unwrap())
            .args(["--exact", "calls_as_told", "--nocapture"])
            .env("PISTE_TEST_CALLER", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let output = BufReader::new(output);
        let mut caller = Caller { process, input, output };
        caller.call(0);
        caller
    }

    /// Makes so many calls, and returns when they are made.
    fn call(&mut self, count: u32) {
        writeln!(self.input, "{count}").unwrap();
        let mut line = String::new();
        while !line.trim_end().ends_with("called") {
            line.clear();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "the caller ended");
        }
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// No test: what a [`Caller`] runs.
#[test]
fn calls_as_told() {
    if env::var_os("PISTE_TEST_CALLER").is_none() {
        return;
    }
    for line in std::io::stdin().lines() {
        let count: u32 = line.unwrap().parse().unwrap();
        for _ in 0..count {
            std::hint::black_box(rustix::process::getppid());
        }
        println!("called");
    }
}

/// Events of the only channel.
fn events(session: &SessionStatus) -> i64 {
    assert_eq!(session.channels.len(), 1);
    let channel = &session.channels[0];
    assert_eq!((channel.discarded_events, channel.lost_packets), (0, 0), "{session:?}");
    channel.events
}

/// Lines that babeltrace2 shows of a trace, which it must read without complaint.
fn text(trace: &Path) -> String {
    let output = Command::new("babeltrace2").arg(trace).output();
    let output = output.expect("babeltrace2 is needed (Debian: apt install babeltrace2)");
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && complaint.is_empty(), "{complaint}");
    String::from_utf8(output.stdout).unwrap()
}

fn count(text: &str, event: &str) -> usize {
    text.lines().filter(|line| line.contains(event)).count()
}

#[test]
fn what_is_called_is_what_is_counted_and_written() {
    let Some(place) = TracingPisted::new() else { return };
    assert_eq!(place.instances(), [""; 0]);
    let mut caller = place.recording_calls();
    let mut instances = place.instances();
    instances.sort_unstable();
    let wanted = ["default", "programs"].map(|channel| format!("piste-{}-1-{channel}", place.owner()));
    assert_eq!(instances, wanted);
    caller.call(1000);
    let mut client = place.pisted.client();
    let stopped = client.stop(None).call().unwrap().session;
    assert_eq!(events(&stopped), 2000);
    assert_eq!(stopped.findings, []);
    caller.call(10);
    client.start(None).call().unwrap();
    caller.call(500);
    let session = client.destroy_session(None).call().unwrap().session;
    assert_eq!(events(&session), 3000);
    assert_eq!(place.instances(), [""; 0]);
    assert!(!place.pisted.output("calls/user").exists());
    let text = text(&place.pisted.output("calls"));
    assert_eq!(count(&text, " syscall_entry_getppid: "), 1500);
    assert_eq!(count(&text, " syscall_exit_getppid: "), 1500);
    assert!(count(&text, " lttng_statedump_process_state: ") > 0);
}

#[test]
fn status_counts_while_the_kernel_records() {
    let Some(place) = TracingPisted::new() else { return };
    let mut caller = place.recording_calls();
    caller.call(20_000);
    wait_until("the status shows what is written", || {
        events(&place.pisted.status("calls")) > 20_000
    });
    let mut client = place.pisted.client();
    let disabled = client
        .disable_kernel_event(None, None, vec!["getppid".into()])
        .call()
        .unwrap();
    assert!(!disabled.rules[0].enabled);
    caller.call(100);
    client.enable_kernel_event(None, None, disabled.rules).call().unwrap();
    caller.call(1);
    assert_eq!(events(&client.stop(None).call().unwrap().session), 40_002);
}

#[test]
fn the_domains_have_channels_of_their_own() {
    let Some(place) = TracingPisted::new() else { return };
    place.create("both");
    let mut client = place.pisted.client();
    let error = client.start(None).call().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NothingEnabled(_)), "{error:?}");
    let patterns = vec!["shop:*".to_owned()];
    client
        .enable_event(None, None, patterns, vec![], None, None)
        .call()
        .unwrap();
    place.enable(tracepoint("sched_process_exit"));
    let mut odd = channel_request("odd");
    odd.domain = Some(Domain::kernel);
    odd.subbuf_bytes = Some(8192);
    odd.subbuf_count = Some(3);
    odd.contexts = Some(vec!["cpu_id".into(), "tid".into()]);
    let made = client.enable_channel(None, odd).call().unwrap().channel;
    assert_eq!(made.contexts, ["tid", "cpu_id"]);
    let status = client.start(None).call().unwrap().session;
    let names: Vec<(&str, bool)> = status
        .channels
        .iter()
        .map(|channel| {
            let settings = &channel.settings;
            (&*settings.name, matches!(settings.domain, Domain::kernel))
        })
        .collect();
    assert_eq!(names, [("default", false), ("default", true), ("odd", true)]);
    assert_eq!(status.channels[0].rules.len(), 1);
    assert_eq!(status.channels[1].kernel_rules[0].pattern, "sched_process_exit");
    assert_eq!(place.instances().len(), 2);
    client.destroy_session(None).call().unwrap();
    assert_eq!(place.instances(), [""; 0]);
}

#[test]
fn the_state_dump_comes_again_when_it_is_asked_for() {
    let Some(place) = TracingPisted::new() else { return };
    place.create("dumps");
    let mut client = place.pisted.client();
    let error = client.regenerate_state_dump(None).call().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NotActive(_)), "{error:?}");
    place.enable(tracepoint("sched_process_exit"));
    client.start(None).call().unwrap();
    // The first one may be waited for, if it is not written yet; not the second.
    client.regenerate_state_dump(None).call().unwrap();
    client.regenerate_state_dump(None).call().unwrap();
    client.destroy_session(None).call().unwrap();
    let text = text(&place.pisted.output("dumps"));
    let dumps = count(&text, " lttng_statedump_start: ");
    assert!((2..=3).contains(&dumps), "{dumps}");
    assert_eq!(count(&text, " lttng_statedump_end: "), dumps);
}

#[test]
fn a_snapshot_has_what_the_kernel_did_last() {
    let Some(place) = TracingPisted::new() else { return };
    let mut caller = Caller::start();
    let output = place.pisted.output("flight").to_str().unwrap().to_owned();
    let mut client = place.pisted.client();
    client
        .create_session(None, Some(output), true, None, None, None)
        .call()
        .unwrap();
    place.enable(rule(KernelEventKind::syscall, "getppid"));
    place.track(&caller);
    client.start(None).call().unwrap();
    caller.call(50);
    let first = client.snapshot_record(None, None).call().unwrap();
    caller.call(50);
    let second = client.snapshot_record(None, None).call().unwrap();
    for (snapshot, calls) in [(&first, 50), (&second, 100)] {
        let text = text(Path::new(&snapshot.output));
        assert_eq!(count(&text, " syscall_exit_getppid: "), calls);
        assert_eq!(text.lines().count() as i64, snapshot.events);
    }
}

#[test]
fn refusals_say_what_the_kernel_has() {
    let Some(place) = TracingPisted::new() else { return };
    let error = place.refused(tracepoint("sched_switch"));
    assert!(matches!(error, ErrorKind::NoCurrentSession(_)), "{error:?}");
    place.create("web");
    let error = place.refused(tracepoint("sched_swich"));
    assert!(
        matches!(&error, ErrorKind::NoEvent(Some(e)) if e.nearest[0] == "sched_switch"),
        "{error:?}"
    );
    let error = place.refused(rule(KernelEventKind::syscall, "opne"));
    assert!(
        matches!(&error, ErrorKind::NoEvent(Some(e)) if e.nearest.contains(&"open".into())),
        "{error:?}"
    );
    let error = place.refused(KernelRule {
        filter: Some("prev_prio < ".into()),
        ..tracepoint("sched_switch")
    });
    assert!(
        matches!(&error, ErrorKind::InvalidFilter(Some(e)) if e.position >= 11),
        "{error:?}"
    );
    let error = place.refused(KernelRule {
        fields: vec!["prev_tid".into(), "next_tdi".into()],
        ..tracepoint("sched_switch")
    });
    assert!(
        matches!(&error, ErrorKind::NoField(Some(e)) if e.field == "next_tdi" && e.nearest[0] == "next_tid"),
        "{error:?}"
    );
    let error = place.refused(tracepoint("sched switch"));
    assert!(
        matches!(&error, ErrorKind::InvalidPattern(Some(e)) if e.position == 5),
        "{error:?}"
    );
    let missing_function = KernelRule {
        binary: Some(env::current_exe().unwrap().to_str().unwrap().into()),
        place: Some("no_such_function".into()),
        ..rule(KernelEventKind::uprobe, "nothing")
    };
    for probe in [
        missing_function,
        rule(KernelEventKind::uprobe, "nothing"),
        rule(KernelEventKind::usdt, "a"),
    ] {
        let error = place.refused(probe);
        assert!(matches!(&error, ErrorKind::InvalidProbe(Some(_))), "{error:?}");
    }
    let mut client = place.pisted.client();
    let mut reserved = channel_request("statedump");
    reserved.domain = Some(Domain::kernel);
    let error = client.enable_channel(None, reserved).call().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::InvalidSetting(_)), "{error:?}");
    let tracked = Tracked {
        cpus: Some(vec![100_000]),
        ..Tracked::default()
    };
    let error = client.track(None, Domain::kernel, tracked).call().unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::InvalidSetting(Some(e)) if e.setting == "CPU"),
        "{error:?}"
    );
    // Nothing was made by any of it.
    assert_eq!(place.instances(), [""; 0]);
    assert_eq!(place.pisted.kernel_consumers(), [0; 0]);
    assert_eq!(place.pisted.status("web").channels.len(), 0);
}

#[test]
fn who_is_not_root_is_told_what_to_do() {
    const NOBODY: u32 = 65_534;
    if !rustix::process::geteuid().is_root() {
        return skipping::skipped("another user is needed, and only root can be one");
    }
    let Some(pisted) = Pisted::start_as(NOBODY) else { return };
    pisted.create("web", "shop:*");
    let mut client = pisted.client();
    let scheduler = vec![tracepoint("sched_switch")];
    let error = client.enable_kernel_event(None, None, scheduler).call().unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::NoKernelDomain(Some(e)) if e.mend.contains("the group tracing")),
        "{error:?}"
    );
    // What needs no right works, and programs are recorded.
    assert!(
        !client
            .list_syscalls(Some("open*".into()))
            .call()
            .unwrap()
            .syscalls
            .is_empty()
    );
    assert!(!client.doctor().call().unwrap().checks.is_empty());
    client.start(None).call().unwrap();
}

#[test]
fn lists_come_whole_or_in_parts() {
    let Some(place) = TracingPisted::new() else { return };
    let mut client = place.pisted.client();
    let names = |events: Vec<KernelEvent>| -> Vec<_> { events.into_iter().map(|event| event.name).collect() };
    let one = client
        .list_kernel_events(Some("sched:sched_switch".into()))
        .call()
        .unwrap();
    assert_eq!(one.events[0].trace_name, "sched_switch");
    assert!(one.events[0].fields.iter().any(|field| field.name == "next_comm"));
    // Others add events to the kernel and remove them.
    wait_until("both lists have the same events", || {
        let all = names(client.list_kernel_events(None).call().unwrap().events);
        assert!(all.len() > 256);
        let mut call = client.list_kernel_events(None);
        let parts = call.more().unwrap().flat_map(|part| part.unwrap().events);
        all == names(parts.collect())
    });
    let open = client.list_syscalls(Some("openat".into())).call().unwrap().syscalls;
    assert_eq!((&*open[0].name, open[0].arguments.len()), ("openat", 4));
    let binary = env::current_exe().unwrap().to_str().unwrap().to_owned();
    let mut places = client.list_probe_places(binary, ProbePlaceKind::symbol, Some("*calls_as_told*".into()));
    assert!(!places.call().unwrap().places.is_empty());
    assert!(!client.doctor().call().unwrap().checks.is_empty());
}

#[test]
fn a_killed_pisted_leaves_the_kernel_recording() {
    let Some(mut place) = TracingPisted::new() else { return };
    let mut caller = place.recording_calls();
    caller.call(100);
    place.pisted.kill();
    caller.call(100);
    place.pisted.start_again(&[]);
    caller.call(100);
    assert_eq!(place.pisted.kernel_consumers().len(), 1);
    let session = place.pisted.client().destroy_session(None).call().unwrap().session;
    assert_eq!(events(&session), 600);
    assert_eq!(place.instances(), [""; 0]);
    let text = text(&place.pisted.output("calls"));
    assert_eq!(count(&text, " syscall_entry_getppid: "), 300);
}

#[test]
fn a_killed_kernel_consumer_is_replaced_and_nothing_is_lost() {
    let Some(place) = TracingPisted::new() else { return };
    let mut caller = place.recording_calls();
    for _ in 0..3 {
        caller.call(100);
        place.kill_kernel_consumer();
        caller.call(100);
        wait_until("there is another", || place.pisted.kernel_consumers().len() == 1);
    }
    let mut client = place.pisted.client();
    let session = client.stop(None).call().unwrap().session;
    assert_eq!(events(&session), 1200);
    assert!(
        session.findings[0].what.contains("kernel consumer"),
        "{:?}",
        session.findings
    );
    // And one that is dead when the session ends.
    place.kill_kernel_consumer();
    client.destroy_session(None).call().unwrap();
    assert_eq!(place.instances(), [""; 0]);
    let text = text(&place.pisted.output("calls"));
    assert_eq!(count(&text, " syscall_entry_getppid: "), 600);
}

#[test]
fn a_kernel_consumer_that_hangs_holds_nobody_up() {
    let Some(mut place) = TracingPisted::new() else { return };
    let mut caller = place.recording_calls();
    let consumer = Pid::from_raw(place.pisted.kernel_consumers()[0]).unwrap();
    kill_process(consumer, Signal::STOP).unwrap();
    place.pisted.kill();
    place.pisted.start_again(&[]);
    caller.call(100);
    kill_process(consumer, Signal::CONT).unwrap();
    caller.call(100);
    let session = place.pisted.client().stop(None).call().unwrap().session;
    assert_eq!(events(&session), 400);
}

#[test]
fn when_all_are_killed_the_next_pisted_goes_on() {
    let Some(mut place) = TracingPisted::new() else { return };
    let mut caller = place.recording_calls();
    caller.call(100);
    // Held meanwhile, or a pisted of another test takes what is here for a dead one's.
    let _owner = Owner::claim(place.pisted.run_folder()).unwrap();
    place.pisted.kill();
    place.kill_kernel_consumer();
    caller.call(100);
    place.pisted.start_again(&[]);
    caller.call(100);
    let session = place.pisted.client().stop(None).call().unwrap().session;
    assert_eq!(events(&session), 600);
}

#[test]
fn the_dead_are_tidied_up_and_nobody_else() {
    let Some(mut dead) = TracingPisted::new() else { return };
    let Some(living) = TracingPisted::new() else { return };
    let _caller = dead.recording_calls();
    let mut caller = living.recording_calls();
    let foreign = dead.tracefs.path(format!("instances/not-ours-{}", std::process::id()));
    fs::create_dir(&foreign).unwrap();
    // Held meanwhile, or a pisted of another test is the one that tidies up.
    let owner = Owner::claim(dead.pisted.run_folder()).unwrap();
    dead.pisted.kill();
    dead.kill_kernel_consumer();
    for consumer in dead.pisted.consumers() {
        kill(consumer);
    }
    assert_eq!(dead.instances().len(), 2);
    drop(owner);
    let other = TracingPisted::new().unwrap();
    wait_until("it is tidied up", || dead.instances().is_empty());
    drop(other);
    let is_there = foreign.exists();
    fs::remove_dir(&foreign).unwrap();
    assert!(is_there);
    assert_eq!(living.instances().len(), 2);
    caller.call(100);
    assert_eq!(events(&living.pisted.client().stop(None).call().unwrap().session), 200);
}

#[test]
fn without_a_journal_a_pisted_clears_away_what_it_does_not_know() {
    let Some(mut place) = TracingPisted::new() else { return };
    let _left = place.leave_all_without_a_journal();
    place.pisted.start_again(&[]);
    wait_until("it is gone", || place.instances().is_empty());
}

#[test]
fn a_kernel_that_does_not_answer_at_first_is_tidied_up_later() {
    let Some(mut place) = TracingPisted::new() else { return };
    let _left = place.leave_all_without_a_journal();
    // pisted has a child ask the kernel.
    let answering = place.pisted.output("answering");
    place.pisted.path_before = Some(a_cat_that_fails_until(&answering, place.pisted.run_folder()));
    place.pisted.start_again(&[]);
    let log = || place.pisted.log();
    wait_until("it tells", || log().contains("cannot trace the kernel"));
    assert_eq!(place.instances().len(), 2);
    fs::write(&answering, "").unwrap();
    wait_until("it is gone", || place.instances().is_empty());
}

/// A folder with a `cat` that works only once the file `answering` is there.
fn a_cat_that_fails_until(answering: &Path, folder: &Path) -> PathBuf {
    let folder = folder.join("commands");
    fs::create_dir(&folder).unwrap();
    let cat = folder.join("cat");
    let text = format!("#!/bin/sh\ntest -e {} && exec /bin/cat \"$@\"\n", answering.display());
    fs::write(&cat, text).unwrap();
    fs::set_permissions(&cat, fs::Permissions::from_mode(0o755)).unwrap();
    folder
}
