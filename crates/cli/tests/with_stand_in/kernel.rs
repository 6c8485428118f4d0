// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel's events add to `piste record`: the gate, presets, recordings without a command, snapshots; and what is said
//! where the kernel is out of reach. pisted is a stand-in.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::process::Signal;

use crate::scene::{Scene, said, send, started};

/// `piste record -o trace OPTIONS`, without a command.
fn record(scene: &Scene, options: &[&str]) -> Command {
    let mut command = piste(scene, &["record", "-o", "trace"]);
    command.args(options);
    command
}

fn piste(scene: &Scene, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_piste"));
    command
        .args(arguments)
        .current_dir(scene.folder.path())
        .env("PISTE_RUNDIR", scene.folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// The calls without their details.
fn words(scene: &Scene) -> Vec<String> {
    let first = |asked: &String| asked.split(' ').next().unwrap().to_owned();
    scene.script.asked().iter().map(first).collect()
}

fn succeeded(output: &Output) {
    assert_eq!(output.status.code(), Some(0), "{}", said(output));
}

#[test]
fn the_kernel_is_told_the_commands_process_before_it_runs() {
    let scene = Scene::with_kernel();
    let output = scene.run(&[], "echo $$ $PISTE_RECORD; cat /proc/$$/comm");
    succeeded(&output);
    let tracked = scene.script.tracked().unwrap();
    assert!(tracked.follow_children);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        format!("{} {}\nsh\n", tracked.pids.unwrap()[0], scene.script.record_id())
    );
    assert_eq!(
        words(&scene),
        [
            "create", "channel", "events", "kernel", "kernel", "track", "start", "destroy"
        ]
    );
    assert_eq!(scene.script.asked()[3], "kernel channel kernel");
    assert!(scene.script.asked()[4].contains("sched:sched_switch"));
}

#[test]
fn a_held_command_has_its_status_as_ever() {
    for (script, status) in [("exit 7", 7), ("kill -KILL $$", 137), ("kill -INT $$", 130)] {
        let output = Scene::with_kernel().run(&[], script);
        assert_eq!(output.status.code(), Some(status), "{}", said(&output));
    }
    for (command, status, sentence) in [
        (
            "/no/such/command",
            127,
            "piste: cannot find the command \"/no/such/command\"\n",
        ),
        (
            "/etc/passwd",
            126,
            "piste: cannot execute \"/etc/passwd\": permission denied\n",
        ),
    ] {
        let scene = Scene::with_kernel();
        let program = Path::new(env!("CARGO_BIN_EXE_piste"));
        let output = scene.command(program, &[], &[], &[command]).output().unwrap();
        assert_eq!((output.status.code(), said(&output)), (Some(status), sentence.into()));
        assert_eq!(scene.script.asked().last().unwrap(), "destroy");
        assert!(!scene.path("trace").exists());
    }
}

#[test]
fn nothing_of_the_gate_is_left_in_the_command() {
    let seen = |scene: Scene| {
        let script = "echo $0; tr '\\0' ' ' </proc/$$/cmdline; ls /proc/self/fd; grep -E 'Sig(Blk|Ign|Cgt)|Groups|NoNewPrivs' /proc/self/status; env | grep -v PISTE | sort";
        let output = scene.run(&[], script);
        succeeded(&output);
        String::from_utf8_lossy(&output.stdout).replace(scene.folder.path().to_str().unwrap(), "folder")
    };
    assert_eq!(seen(Scene::with_kernel()), seen(Scene::new()));
}

#[test]
fn helpers_are_loaded_into_the_held_command_alone() {
    let scene = Scene::with_kernel();
    fs::write(scene.path("libpiste-libc.so"), "").unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_piste"));
    let mut command = scene.command(
        program,
        &[],
        &["--preload", "libc"],
        &["/usr/bin/printenv", "LD_PRELOAD"],
    );
    let output = command.env("PISTE_LIBDIR", scene.folder.path()).output().unwrap();
    let library = scene.path("libpiste-libc.so").display().to_string();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout).trim(),
        library,
        "{}",
        said(&output)
    );
    // The dynamic linker complains once: of the command, not of the gate.
    assert_eq!(
        said(&output).matches("cannot be preloaded").count(),
        1,
        "{}",
        said(&output)
    );
}

#[test]
fn where_the_kernel_is_out_of_reach_the_programs_are_recorded_and_one_line_says_why() {
    let scene = Scene::with_kernel();
    scene.script.refuse_kernel("you are not root");
    let output = scene.run(&["--summary", "summary.json"], "exit 3");
    assert_eq!(output.status.code(), Some(3));
    assert!(
        said(&output).starts_with(
            "piste: the kernel cannot be traced: you are not root; become root; recording only the programs\n\
             piste: 100 events"
        ),
        "{}",
        said(&output)
    );
    let summary: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(scene.path("summary.json")).unwrap()).unwrap();
    assert!(summary["kernel_missing"].as_str().unwrap().contains("you are not root"));

    let scene = Scene::with_kernel();
    scene.script.refuse_kernel("you are not root");
    let output = scene.run(&["--no-user"], "touch ran");
    assert_eq!(output.status.code(), Some(125), "{}", said(&output));
    assert!(!scene.path("ran").exists() && !scene.path("trace").exists());
    assert_eq!(scene.script.asked().last().unwrap(), "destroy");
}

#[test]
fn what_a_preset_has_and_the_kernel_has_not_is_left_out_and_what_was_named_is_an_error() {
    let scene = Scene::with_kernel();
    scene.script.lack_event("irq:tasklet_*");
    let output = scene.run(&["--preset", "irq", "--verbose"], "exit 0");
    succeeded(&output);
    assert!(said(&output).contains("this kernel has no event irq:tasklet_* (preset irq)"));
    let asked = scene.script.asked();
    let last = asked.iter().rfind(|asked| asked.starts_with("kernel events")).unwrap();
    assert!(!last.contains("tasklet") && last.contains("irq:softirq_*"), "{last}");

    let scene = Scene::with_kernel();
    scene.script.lack_event("sched_swich");
    let output = scene.run(&["-k", "sched_swich"], "touch ran");
    assert_eq!(output.status.code(), Some(125));
    assert_eq!(
        said(&output),
        "piste: the kernel has no event \"sched_swich\"; did you mean \"sched:sched_switch\"?\n"
    );
    assert!(!scene.path("ran").exists());
}

#[test]
fn a_wrong_filter_is_shown_with_the_place() {
    let scene = Scene::with_kernel();
    let output = scene.run(&["-k", "sched_switch", "--filter", "1 == x"], "exit 0");
    assert_eq!(output.status.code(), Some(125));
    assert_eq!(
        said(&output),
        "piste: the filter is invalid: no such field\n  1 == x\n       ^\n"
    );
}

#[test]
fn the_whole_system_is_recorded_for_a_while() {
    let scene = Scene::with_kernel();
    let output = record(&scene, &["-a", "-d", "10ms"]).output().unwrap();
    succeeded(&output);
    assert!(scene.script.tracked().is_none());
    assert_eq!(
        words(&scene),
        ["create", "channel", "events", "kernel", "kernel", "start", "destroy"],
        "never the current session"
    );
    assert!(said(&output).starts_with("piste: 100 events"), "{}", said(&output));

    let scene = Scene::with_kernel();
    let output = record(&scene, &["-a", "--no-user", "--cpu", "0-1", "-d", "1ms"])
        .output()
        .unwrap();
    succeeded(&output);
    let tracked = scene.script.tracked().unwrap();
    assert_eq!((tracked.cpus, tracked.pids), (Some(vec![0, 1]), None));
}

#[test]
fn without_a_time_ctrl_c_ends_the_recording() {
    let scene = Scene::with_kernel();
    let child = record(&scene, &["-a"]).spawn().unwrap();
    // It may wait already, or only come to that.
    scene.script.wait_for("start");
    send(&child, Signal::INT);
    let output = child.wait_with_output().unwrap();
    succeeded(&output);
    assert!(said(&output).starts_with("piste: recording; press Ctrl-C to stop\npiste: 100 events"));
}

#[test]
fn processes_that_run_are_recorded_until_the_last_has_ended() {
    let scene = Scene::with_kernel();
    let mut children: Vec<_> = (0..2)
        .map(|_| Command::new("sleep").arg("60").spawn().unwrap())
        .collect();
    let pids: Vec<String> = children.iter().map(|child| child.id().to_string()).collect();
    let piste = record(&scene, &["-p", &pids.join(",")]).spawn().unwrap();
    scene.script.wait_for("start");
    for child in &mut children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    succeeded(&piste.wait_with_output().unwrap());
    let tracked = scene.script.tracked().unwrap();
    assert_eq!(
        tracked.pids.unwrap().iter().map(i64::to_string).collect::<Vec<_>>(),
        pids
    );
    assert!(!words(&scene).contains(&"events".to_owned()));

    // With patterns, the programs among them.
    let scene = Scene::with_kernel();
    let own = std::process::id().to_string();
    succeeded(
        &record(&scene, &["-p", &own, "-u", "a:*", "-d", "1ms"])
            .output()
            .unwrap(),
    );
    assert_eq!(
        scene
            .script
            .asked()
            .iter()
            .filter(|call| call.starts_with("track"))
            .collect::<Vec<_>>(),
        ["track", "track programs"]
    );
    assert_eq!(
        scene.script.tracked().unwrap().pids,
        Some(vec![i64::from(std::process::id())])
    );

    let scene = Scene::with_kernel();
    let output = record(&scene, &["-p", "2147483647"]).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(said(&output).ends_with("there is no process 2147483647\n"));
}

#[test]
fn a_snapshot_is_taken_at_the_signal_and_at_the_exit() {
    let scene = Scene::with_kernel();
    let options = ["--snapshot-on", "SIGUSR1,exit"];
    let (child, _stdout) =
        started(&mut scene.shell(&options, "trap 'exit 5' TERM; echo ready; while :; do sleep 0.01; done"));
    send(&child, Signal::USR1);
    scene.script.wait_for("snapshot");
    send(&child, Signal::TERM);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", said(&output));
    let end: Vec<String> = words(&scene).into_iter().skip_while(|word| word != "start").collect();
    assert_eq!(end, ["start", "snapshot", "snapshot", "destroy"]);
    assert_eq!(
        said(&output)
            .matches("piste: snapshot: 7 events, 4 KiB, in /snapshot")
            .count(),
        2
    );
}

#[test]
fn recording_stops_after_its_time_and_the_command_goes_on() {
    let scene = Scene::with_kernel();
    let output = scene.run(&["-d", "1ms", "--snapshot-on", "exit"], "sleep 0.3; exit 4");
    assert_eq!(output.status.code(), Some(4), "{}", said(&output));
    let end: Vec<String> = words(&scene).into_iter().skip_while(|word| word != "start").collect();
    assert_eq!(end, ["start", "snapshot", "stop", "destroy"]);
}

#[test]
fn the_doctors_status_says_whether_something_is_missing() {
    let scene = Scene::with_kernel();
    let output = piste(&scene, &["doctor"]).output().unwrap();
    succeeded(&output);
    assert!(String::from_utf8_lossy(&output.stdout).ends_with("nothing is missing\n"));
    scene.script.refuse_kernel("not mounted");
    assert_eq!(
        piste(&scene, &["doctor", "--json"]).output().unwrap().status.code(),
        Some(1)
    );
}
