// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste track` and `piste untrack`: which programs a session records, while they run and when they start.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use piste_support::control_group::Group;
use piste_support::kernel::KernelSession;
use piste_support::process::Running;
use piste_support::{Trace, Workplace, kernel, process, users};
use rustix::process::Signal;
use serde_json::Value;

/// A session that records the orders of puppets.
struct Shop {
    place: Workplace,
    puppet: PathBuf,
}

impl Shop {
    fn new() -> Shop {
        let place = Workplace::new();
        let puppet = place.program("puppet.c");
        Shop { place, puppet }
    }

    fn record(&self, patterns: &[&str]) {
        let trace = self.place.path("trace");
        self.place.piste_succeeds(&["create", "web", "-o", text(&trace)]);
        self.place.piste_succeeds(&[&["enable-event"], patterns].concat());
        self.place.piste_succeeds(&["start"]);
    }

    fn start(&self) -> Running {
        self.place.start(&self.puppet, &[])
    }

    fn track(&self, options: &[&str]) -> String {
        self.place.piste_succeeds(&[&["track"], options].concat())
    }

    fn untrack(&self, options: &[&str]) -> String {
        self.place.piste_succeeds(&[&["untrack"], options].concat())
    }

    fn status(&self) -> Value {
        self.place.piste_json(&["status"])
    }

    /// Ends the session: the numbers of the orders of each process.
    fn end(&self) -> BTreeMap<i32, Vec<u64>> {
        self.place.piste_succeeds(&["destroy"]);
        let mut orders: BTreeMap<i32, Vec<u64>> = BTreeMap::new();
        let trace = self.place.path("trace");
        if trace.join("user").exists() {
            Trace::at(trace).for_each(|event| {
                if event.name == "shop:order" {
                    orders.entry(event.vpid()).or_default().push(event.number("number"));
                }
            });
        }
        orders
    }

    /// Whether a puppet that starts now is recorded.
    fn records(&self, mut puppet: Running) -> bool {
        let enabled = puppet.ask("enabled");
        puppet.finish().expect_success();
        enabled == "order "
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Memory of rings that a process has.
fn ring_count(pid: i32) -> usize {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("it runs");
    maps.lines().filter(|line| line.contains("memfd:piste:")).count()
}

/// What is said before may be read by the program that it was.
fn wait_until_it_executes(pid: i32, program: &Path) {
    let executes = || fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|path| path == program);
    process::wait_until("it executes the other program", executes);
}

#[test]
fn running_programs_are_recorded_from_track_to_untrack_and_no_other_is() {
    let shop = Shop::new();
    shop.record(&["shop:order"]);
    let (mut ada, mut bob) = (shop.start(), shop.start());
    let (ada_pid, bob_pid) = (ada.pid().to_string(), bob.pid().to_string());
    let mut both = |count: &str| {
        for puppet in [&mut ada, &mut bob] {
            assert_eq!(puppet.ask(count), "done");
        }
    };
    both("record 10");
    assert_eq!(
        shop.track(&["--pid", &ada_pid]),
        format!("recording programs that match: pid {ada_pid}\n")
    );
    both("record 20");
    shop.track(&["--pid", &bob_pid]);
    both("record 5");
    shop.untrack(&["--pid", &ada_pid]);
    both("record 7");
    assert_eq!(
        shop.untrack(&["--pid", &bob_pid]),
        "recording programs that match: no pid; so nothing is recorded until you track another one, or everything with `piste track --all`\n"
    );
    both("record 30");
    assert_eq!(shop.track(&["--all"]), "recording all programs\n");
    both("record 3");
    for puppet in [&mut ada, &mut bob] {
        puppet.finish().expect_success();
    }
    let numbers = |ranges: &[std::ops::Range<u64>]| ranges.iter().cloned().flatten().collect::<Vec<u64>>();
    assert_eq!(
        shop.end(),
        BTreeMap::from([
            (ada.pid(), numbers(&[0..35, 72..75])),
            (bob.pid(), numbers(&[0..10, 30..42, 72..75])),
        ])
    );
}

#[test]
fn programs_are_chosen_by_what_they_execute() {
    let shop = Shop::new();
    let seller = shop.place.path("seller");
    fs::copy(&shop.puppet, &seller).expect("it can be copied");
    let folder = text(&shop.place.path("")).trim_end_matches('/').to_owned();
    shop.record(&["shop:order"]);
    let mut runs_already = shop.place.start(&seller, &[]);
    assert_eq!(runs_already.ask("enabled"), "order ");
    let is_recorded = || [&shop.puppet, &seller].map(|program| shop.records(shop.place.start(program, &[])));

    shop.track(&["-u", "--exec", "buyer*,sell*"]);
    assert_eq!(is_recorded(), [false, true]);
    assert_eq!(runs_already.ask("enabled"), "order ");
    shop.track(&["--exec", &format!("{folder}/pupp*")]);
    assert_eq!(is_recorded(), [true, true]);
    shop.untrack(&["--exec", "sell*"]);
    assert_eq!(is_recorded(), [true, false]);
    assert_eq!(runs_already.ask("enabled"), "");

    // A process is another program when it executes one.
    let mut puppet = shop.start();
    assert_eq!(puppet.ask("enabled"), "order ");
    for (program, expected) in [(&seller, ""), (&shop.puppet, "order ")] {
        puppet.say(&format!("exec {}", text(program)));
        wait_until_it_executes(puppet.pid(), program);
        assert_eq!(puppet.ask("enabled"), expected);
    }
    shop.end();
}

#[test]
fn a_program_that_is_left_out_has_no_rings_and_is_counted() {
    let shop = Shop::new();
    shop.record(&["shop:order"]);
    shop.track(&["--exec", "nobody"]);
    let mut puppet = shop.start();
    assert_eq!(puppet.ask("enabled"), "");
    assert_eq!(ring_count(puppet.pid()), 0);
    let status = shop.status();
    assert_eq!(status["programs_left_out"], 1);
    assert_eq!(
        (&status["programs"], status["participants"].as_array().map(Vec::len)),
        (&0.into(), Some(0))
    );
    assert_eq!(status["tracked"]["executables"], serde_json::json!(["nobody"]));
    let told = shop.place.piste_succeeds(&["status"]);
    assert!(told.contains("  tracked   exec nobody; 1 program left out\n"), "{told}");

    shop.track(&["--exec", "puppet"]);
    assert_eq!(puppet.ask("enabled"), "order ");
    assert!(ring_count(puppet.pid()) > 0);
    assert_eq!(shop.status()["programs"], 1);
    shop.untrack(&["--exec", "puppet"]);
    assert_eq!(shop.status()["programs"], 0);
    shop.end();
}

#[test]
fn what_a_followed_process_starts_is_recorded() {
    let shop = Shop::new();
    let forks = shop.place.program("forks.c");
    shop.record(&["shop:order", "forks:*"]);
    let mut shell = shop.place.start("/bin/sh", &[]);
    shop.track(&["--pid", &shell.pid().to_string(), "--follow"]);

    // A child of the shell; a child of another shell that it started; and a process, its child, the child's child and so on.
    let orphan = shop.place.path("orphan");
    let puppet = shop.puppet.display();
    for line in [
        format!("echo 'record 2' | {puppet}"),
        format!("sh -c \"echo 'record 3' | {puppet} & wait\""),
        format!("{} 4; echo forked", forks.display()),
    ] {
        shell.say(&line);
    }
    for expected in ["done", "done", "forked"] {
        assert_eq!(shell.line(), expected);
    }
    // It registers while its parent lives, and executes another program when that has ended.
    let pipe = shop.place.path("pipe");
    process::run(std::process::Command::new("mkfifo").arg(&pipe)).expect_success();
    shell.say(&format!(
        "sh -c '{puppet} <{} >{} 2>&1 & echo $$; echo $!; read line'",
        pipe.display(),
        orphan.display()
    ));
    let [parent_pid, orphan_pid] = [(), ()].map(|()| shell.line().parse::<i32>().expect("a pid"));
    let mut says = fs::OpenOptions::new().write(true).open(&pipe).expect("it is read");
    let say = |says: &mut fs::File, line: &str| {
        std::io::Write::write_all(says, format!("{line}\n").as_bytes()).expect("it is read");
    };
    let answers = |count: usize| {
        let answers = || fs::read_to_string(&orphan).unwrap_or_default().lines().count();
        process::wait_until("the orphan answers", || answers() == count);
    };
    say(&mut says, "record 4");
    answers(1);
    shell.say("end");
    process::wait_until("its parent ends", || !process::exists(parent_pid));
    shell.finish().expect_success();
    let other = shop.place.path("other");
    fs::copy(&shop.puppet, &other).expect("it can be copied");
    say(&mut says, &format!("exec {}", other.display()));
    wait_until_it_executes(orphan_pid, &other);
    say(&mut says, "record 5");
    answers(2);
    drop(says);
    process::wait_until("it ends", || !process::exists(orphan_pid));
    assert!(!shop.records(shop.start()), "not started by it");

    shop.place.piste_succeeds(&["stop"]);
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut of_orphan = 0;
    Trace::at(shop.place.path("trace")).for_each(|event| {
        of_orphan += usize::from(event.vpid() == orphan_pid);
        *counts.entry(event.name).or_default() += 1;
    });
    assert_eq!((counts["shop:order"], counts["forks:generation"]), (2 + 3 + 4 + 5, 4));
    assert_eq!(of_orphan, 4 + 5);
}

#[test]
fn children_are_followed_only_on_demand() {
    let shop = Shop::new();
    shop.record(&["shop:order"]);
    let mut shell = shop.place.start("/bin/sh", &[]);
    let pid = shell.pid().to_string();
    let mut enabled = || shell.ask(&format!("echo enabled | {}", shop.puppet.display()));
    shop.track(&["--pid", &pid]);
    assert_eq!(enabled(), "");
    shop.track(&["--follow"]);
    assert_eq!(enabled(), "order ");
    shop.untrack(&["--follow"]);
    assert_eq!(enabled(), "");
    shop.end();
}

#[test]
fn programs_are_chosen_by_user_and_group() {
    const NOBODY: u32 = 65534;
    let shop = Shop::new();
    if !users::enter(&shop.place) {
        return;
    }
    shop.place.start_pisted();
    shop.record(&["shop:order"]);
    let start = |user: Option<u32>| match user {
        Some(user) => {
            let mut command = users::command(&shop.place, user, "--clear-groups", &shop.puppet, &[]);
            Running::start(command.stdin(std::process::Stdio::piped()))
        }
        None => shop.start(),
    };
    let is_recorded = || [None, Some(NOBODY)].map(|user| shop.records(start(user)));
    assert_eq!(is_recorded(), [true, true]);
    let nobody = NOBODY.to_string();
    shop.track(&["--uid", &nobody]);
    assert_eq!(is_recorded(), [false, true]);
    shop.track(&["--uid", "root", "--gid", "root"]);
    assert_eq!(is_recorded(), [true, false], "what every set allows");
    shop.track(&["--gid", &nobody]);
    assert_eq!(is_recorded(), [true, true]);

    // The choice is the owner's.
    users::let_everybody_ask(&shop.place);
    let piste = shop.place.path("bin/piste");
    let member = |arguments: &[&str]| {
        process::run(&mut users::command(
            &shop.place,
            NOBODY,
            "--clear-groups",
            &piste,
            arguments,
        ))
    };
    for command in [
        &["track", "-s", "web", "-u", "--all"][..],
        &["untrack", "-s", "web", "-u", "--uid", "root"],
    ] {
        let refused = member(command);
        refused.expect_status(1);
        assert!(
            refused.stderr.contains("changing session \"web\" is not permitted"),
            "{refused}"
        );
    }
    assert_eq!(is_recorded(), [true, true]);
    let own = shop.place.path("own");
    fs::create_dir(&own).expect("a folder can be made there");
    std::os::unix::fs::chown(&own, Some(NOBODY), Some(NOBODY)).expect("it is ours");
    member(&["create", "own", "-o", text(&own)]).expect_success();
    member(&["track", "--uid", "root"]).expect_success();
    shop.end();
}

#[test]
fn programs_are_chosen_by_control_group() {
    let shop = Shop::new();
    let Some(group) = Group::make(&shop.place) else {
        println!("skipped: no control group can be made here");
        return;
    };
    let start_in_group = || {
        let script = format!(
            "echo $$ >{}/cgroup.procs && exec {}",
            group.folder.display(),
            shop.puppet.display()
        );
        shop.place.start("/bin/sh", &["-c", &script])
    };
    let name = group.folder.file_name().and_then(|name| name.to_str()).expect("UTF-8");
    shop.record(&["shop:order"]);
    shop.track(&["--cgroup", &format!("/{name}")]);
    assert!(shop.records(start_in_group()));
    assert!(!shop.records(shop.start()));
    shop.untrack(&["--cgroup", &format!("/{name}")]);
    shop.track(&["--cgroup", "/no-group"]);
    assert!(!shop.records(start_in_group()));
    shop.end();
}

#[test]
fn a_process_that_gets_the_number_of_a_tracked_one_is_not_recorded() {
    const TRIES: usize = 200;
    let shop = Shop::new();
    shop.record(&["shop:order"]);
    let mut tracked = shop.start();
    let pid = tracked.pid();
    shop.track(&["--pid", &pid.to_string()]);
    assert_eq!(tracked.ask("enabled"), "order ");
    tracked.finish().expect_success();
    for _ in 0..TRIES {
        if let Err(error) = fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string()) {
            println!("skipped: no process can be given a number here: {error}");
            return;
        }
        let mut next = shop.start();
        if next.pid() == pid {
            assert_eq!(next.ask("enabled"), "");
            // It is meant when somebody says so.
            shop.track(&["--pid", &pid.to_string()]);
            assert_eq!(next.ask("enabled"), "order ");
            shop.end();
            return;
        }
        next.finish().expect_success();
    }
    println!("skipped: another process got the number each time");
}

#[test]
fn the_kernel_is_recorded_for_nobody_once_the_last_process_is_removed() {
    let Some(place) = kernel::workplace() else { return };
    let program = place.program("numbered_calls.c");
    let mut running = place.start(&program, &["300", "0", "100"]);
    assert_eq!(running.line(), "ready");
    let pid = running.pid().to_string();
    let session = KernelSession::create(&place, &[]);
    session.enable(&["--syscall", "close"]).track(&["--pid", &pid]).start();
    assert_eq!(running.ask("begin"), "part");
    assert!(
        place
            .piste_succeeds(&["untrack", "--pid", &pid])
            .starts_with("recording the kernel for no pid;")
    );
    assert_eq!(running.ask("go on"), "part");
    session.track(&["--pid", &pid]);
    assert_eq!(running.ask("go on"), "done");
    let (channel, _) = session.end();
    running.signal(Signal::KILL);
    assert_eq!(channel["events"], 2 * 200, "the second hundred is missing: {channel:#}");
}

#[test]
fn a_new_pisted_records_the_same_programs() {
    let shop = Shop::new();
    shop.record(&["shop:order"]);
    let (mut ada, mut bob) = (shop.start(), shop.start());
    shop.track(&["--pid", &ada.pid().to_string()]);
    shop.place.kill_pisted();
    assert_eq!(shop.status()["tracked"]["pids"], serde_json::json!([ada.pid()]));
    for puppet in [&mut ada, &mut bob] {
        assert_eq!(puppet.ask("record 4"), "done");
        puppet.finish().expect_success();
    }
    assert_eq!(shop.end(), BTreeMap::from([(ada.pid(), vec![0, 1, 2, 3])]));
}

#[test]
fn what_cannot_be_tracked_is_told() {
    let shop = Shop::new();
    shop.record(&["shop:order"]);
    let refused = |arguments: &[&str], expected: &str| {
        let finished = shop.place.piste(arguments);
        finished.expect_status(1);
        assert_eq!(finished.stderr, format!("piste: {expected}\n"));
    };
    shop.track(&["--uid", "5,6"]);
    refused(&["untrack", "--uid", "7"], "user 7 is not tracked; tracked: 5, 6");
    refused(
        &["untrack", "--exec", "shop"],
        "executable shop is not tracked; no executable is (see `piste status`)",
    );
    refused(&["track", "--pid", "2147483647"], "there is no process 2147483647");
    refused(
        &["track", "--follow"],
        "following the children of \"no process\" is not possible; allowed: at least one tracked process",
    );
    refused(
        &["track", "--exec", ""],
        "executable \"\" is not possible; allowed: a name, or a path, in which `*` matches any text; but it is empty",
    );
    shop.end();
}
