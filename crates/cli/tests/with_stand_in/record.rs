// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste record` around its command: environment, exit status, signals, and the session's end whatever happens. pisted is a
//! stand-in; recording itself is tested with the real one, in the whole suite's tests. What the kernel adds is in kernel.rs.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use crate::scene::{Scene, said, send, started};

fn interrupted_until_it_ends(child: &mut Child) -> ExitStatus {
    loop {
        send(child, Signal::INT);
        thread::sleep(Duration::from_millis(5));
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
    }
}

#[test]
fn the_command_has_a_session_of_its_own_and_its_streams_and_status() {
    let scene = Scene::new();
    let output = scene.run(
        &["-u", "shop:*", "-x", "shop:noise"],
        "echo out $PISTE_RECORD; echo err >&2; exit 7",
    );
    assert_eq!(output.status.code(), Some(7), "{}", said(&output));
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        format!("out {}\n", scene.script.record_id())
    );
    assert!(
        said(&output).starts_with("err\npiste: 100 events, 4 KiB, in 1.00 s"),
        "{}",
        said(&output)
    );
    assert!(said(&output).contains("nothing lost"));
    assert_eq!(
        scene.script.asked(),
        [
            "create",
            "channel default",
            r#"events ["shop:*"] not ["shop:noise"]"#,
            "start",
            "destroy"
        ]
    );
    let record_id = scene.script.record_id();
    assert!(
        record_id.len() == 32 && record_id.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "{record_id}"
    );
}

#[test]
fn helpers_come_first_and_their_state_dump_is_recorded_too() {
    let scene = Scene::new();
    fs::write(scene.path("libpiste-libc.so"), "").unwrap();
    let mut command = scene.command(
        Path::new(env!("CARGO_BIN_EXE_piste")),
        &[],
        &["-u", "shop:*", "--preload", "libc"],
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
    assert_eq!(
        scene.script.asked()[2],
        r#"events ["shop:*", "lttng_ust_statedump:*"] not []"#
    );
}

#[test]
fn a_command_that_cannot_run_leaves_no_session_and_no_folder() {
    for (command, status) in [("/no/such/command", 127), ("/etc/passwd", 126)] {
        let scene = Scene::new();
        let program = Path::new(env!("CARGO_BIN_EXE_piste"));
        let output = scene.command(program, &[], &[], &[command]).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{}", said(&output));
        assert!(said(&output).contains(command));
        assert_eq!(scene.script.asked().last().unwrap(), "destroy");
        assert!(!scene.path("trace").exists());
    }
}

#[test]
fn a_refusal_is_a_sentence_and_the_command_does_not_run() {
    let scene = Scene::new();
    scene.script.refuse_patterns();
    let output = scene.run(&["-u", "a:b:c"], "touch ran");
    assert_eq!(output.status.code(), Some(125));
    assert!(said(&output).starts_with(r#"piste: pattern "a:b:c" is invalid at byte 4: a name has one colon"#));
    assert_eq!(scene.script.asked().last().unwrap(), "destroy");
    assert!(!scene.path("ran").exists());
}

#[test]
fn loss_is_a_status_of_its_own_when_asked_for_and_the_commands_failure_comes_first() {
    for (options, script, lost, status) in [
        (&["--fail-on-loss"][..], "exit 0", 5, 90),
        (&["--fail-on-loss"], "exit 3", 5, 3),
        (&["--fail-on-loss"], "exit 0", 0, 0),
        (&[], "exit 0", 5, 0),
    ] {
        let scene = Scene::new();
        scene.script.lose(lost);
        let output = scene.run(options, script);
        assert_eq!(output.status.code(), Some(status), "{options:?} {script} {lost}");
        assert_eq!(said(&output).contains("channel default: 5 events discarded"), lost > 0);
    }
}

#[test]
fn the_summary_is_written_as_json() {
    let scene = Scene::new();
    scene.script.lose(5);
    let output = scene.run(&["--summary", "summary.json", "--json"], "kill -KILL $$");
    assert_eq!(output.status.code(), Some(137));
    let written = fs::read_to_string(scene.path("summary.json")).unwrap();
    assert_eq!(written, said(&output));
    let summary: serde_json::Value = serde_json::from_str(&written).unwrap();
    assert_eq!(
        (&summary["events"], &summary["discarded_events"]),
        (&100.into(), &5.into())
    );
    assert_eq!(summary["exit_status"], 137);
    assert_eq!(summary["trace"], scene.path("trace").to_str().unwrap());
}

#[test]
fn a_pisted_that_is_replaced_at_the_end_is_asked_again() {
    let scene = Scene::new();
    scene.script.die(1);
    let output = scene.run(&[], "exit 0");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(
        scene.script.asked().iter().filter(|asked| *asked == "destroy").count(),
        2
    );
}

#[test]
fn an_end_that_fails_is_told_and_the_trace_is_kept() {
    for (script, status) in [("exit 0", 125), ("exit 4", 4)] {
        let scene = Scene::new();
        scene.script.die(2);
        let output = scene.run(&[], script);
        assert_eq!(output.status.code(), Some(status));
        assert!(
            said(&output).contains("cannot complete the recording"),
            "{}",
            said(&output)
        );
        assert!(scene.path("trace").exists());
    }
}

#[test]
fn a_signal_sent_to_piste_alone_is_passed_on() {
    for (signal, name) in [(Signal::TERM, "TERM"), (Signal::INT, "INT"), (Signal::HUP, "HUP")] {
        let scene = Scene::new();
        let script = format!("trap 'exit 5' {name}; echo ready; while :; do sleep 0.01; done");
        let (child, _stdout) = started(&mut scene.shell(&[], &script));
        send(&child, signal);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(5), "{name}: {}", said(&output));
        assert!(said(&output).contains("nothing lost"));
    }
}

/// The pty's other end, piste with the pty as its controlling terminal, and what it prints there.
fn on_a_terminal(scene: &Scene, script: &str) -> (fs::File, Child) {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&keyboard).unwrap();
    unlockpt(&keyboard).unwrap();
    let terminal = ptsname(&keyboard, vec![]).unwrap().into_string().unwrap();
    let terminal = fs::OpenOptions::new().read(true).write(true).open(terminal).unwrap();
    let piste = env!("CARGO_BIN_EXE_piste");
    let mut command = scene.command(
        Path::new("setsid"),
        &["--ctty", "--wait", piste],
        &[],
        &["sh", "-c", script],
    );
    let (child, _) = started(command.stdin(terminal));
    (keyboard.into(), child)
}

#[test]
fn ctrl_c_ends_the_command_and_the_trace_is_finished() {
    let scene = Scene::new();
    let (mut keyboard, child) = on_a_terminal(&scene, "echo ready; exec sleep 60");
    keyboard.write_all(b"\x03").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", said(&output));
    assert!(said(&output).contains("nothing lost"));
}

#[test]
fn ctrl_c_reaches_the_command_once_and_again_while_the_trace_is_written_loses_nothing() {
    let scene = Scene::new();
    scene.script.hold(true);
    let script = "n=0; trap 'n=$((n+1)); echo $n >>count; test $n -lt 2 || exit 9' INT; echo ready; while :; do sleep 0.01; done";
    let (mut keyboard, child) = on_a_terminal(&scene, script);
    keyboard.write_all(b"\x03").unwrap();
    while !scene.path("count").exists() {
        thread::sleep(Duration::from_millis(1));
    }
    keyboard.write_all(b"\x03").unwrap();
    scene.script.wait_for("destroy");
    keyboard.write_all(b"\x03").unwrap();
    scene.script.hold(false);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(9), "{}", said(&output));
    assert!(said(&output).contains("nothing lost"));
    assert_eq!(fs::read_to_string(scene.path("count")).unwrap(), "1\n2\n");
}

#[test]
fn a_pisted_that_hangs_can_be_left_before_the_command_has_run() {
    let folder = tempfile::tempdir().unwrap();
    // Nobody accepts: connecting succeeds, and no call is ever answered.
    let _listener = UnixListener::bind(folder.path().join("control.sock")).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_piste"))
        .args(["record", "--", "touch", "ran"])
        .current_dir(folder.path())
        .env("PISTE_RUNDIR", folder.path())
        .spawn()
        .unwrap();
    // The folder for the trace is made when signals are taken over.
    while fs::read_dir(folder.path()).unwrap().count() < 2 {
        thread::sleep(Duration::from_millis(1));
    }
    let status = interrupted_until_it_ends(&mut child);
    assert_eq!(status.code(), Some(130));
    assert!(!folder.path().join("ran").exists());
}

#[test]
fn a_trace_that_takes_long_to_write_can_be_left_to_pisted() {
    let scene = Scene::new();
    scene.script.hold(true);
    let mut child = scene.shell(&[], "exit 0").spawn().unwrap();
    scene.script.wait_for("destroy");
    let status = interrupted_until_it_ends(&mut child);
    scene.script.hold(false);
    let mut told = String::new();
    child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    assert_eq!(
        told,
        "piste: pisted is writing the rest of the trace; interrupt again to leave it to pisted\n"
    );
    assert_eq!(status.code(), Some(130));
    assert!(scene.path("trace").exists());
}

#[test]
fn a_signal_that_was_ignored_stays_ignored_for_the_command() {
    let scene = Scene::new();
    let piste = env!("CARGO_BIN_EXE_piste");
    let nohup = format!("trap '' HUP; exec {piste} \"$@\"");
    let mut command = scene.command(
        Path::new("sh"),
        &["-c", &nohup, "sh"],
        &[],
        &["grep", "SigIgn", "/proc/self/status"],
    );
    let output = command.output().unwrap();
    let seen = String::from_utf8_lossy(&output.stdout).into_owned();
    let set = u64::from_str_radix(seen.trim_start_matches("SigIgn:").trim(), 16).unwrap();
    assert_eq!(set & 0b111, 0b001, "HUP stays ignored, INT and QUIT are not: {seen}");
}

#[test]
fn loss_is_red_where_colours_are_wanted() {
    let red = "\u{1b}[1m\u{1b}[31m5 events discarded";
    for (setting, seen) in [("CLICOLOR_FORCE", true), ("NO_COLOR", false)] {
        let scene = Scene::new();
        scene.script.lose(5);
        let mut command = scene.shell(&[], "exit 0");
        let output = command
            .env_remove("NO_COLOR")
            .env_remove("CLICOLOR_FORCE")
            .env(setting, "1")
            .output()
            .unwrap();
        assert_eq!(said(&output).contains(red), seen, "{:?}", said(&output));
        assert!(said(&output).contains("5 events discarded"));
    }
}
