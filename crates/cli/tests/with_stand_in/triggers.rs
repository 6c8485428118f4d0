// SPDX-License-Identifier: MIT OR Apache-2.0
//! Triggers are added, listed and removed, and what they report is printed as it comes. pisted is a stand-in: what triggers do is tested
//! with the real one.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use piste_control::interface::*;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::scene::{Scene, said, send};

fn piste(scene: &Scene, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_piste"));
    command
        .args(arguments)
        .current_dir(scene.folder.path())
        .env("PISTE_RUNDIR", scene.folder.path())
        .env("TZ", "UTC")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn run(scene: &Scene, arguments: &[&str]) -> Output {
    piste(scene, arguments).output().unwrap()
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[track_caller]
fn check(scene: &Scene, arguments: &[&str], status: i32, stdout: &str, stderr: &str) {
    let output = run(scene, arguments);
    assert_eq!(
        (output.status.code(), &*printed(&output), &*said(&output)),
        (Some(status), stdout, stderr),
        "{arguments:?}"
    );
}

/// A scene with a trigger.
fn scene() -> Scene {
    let scene = Scene::new();
    assert!(
        run(&scene, &["add-trigger", "late", "-e", "shop:order"])
            .status
            .success()
    );
    scene
}

#[test]
fn a_trigger_is_added_listed_and_removed() {
    let scene = Scene::new();
    check(
        &scene,
        &[
            "add-trigger",
            "late",
            "-e",
            "shop:order",
            "--filter",
            "price > 9",
            "--stop",
            "web",
            "--start",
            "wbe",
        ],
        0,
        "\
added trigger late
  waits for  shop:order, where price > 9
  does       stop web, then start wbe
  at most    10 times a second
",
        "piste: note: there is no session wbe yet; similar: web\n",
    );
    check(
        &scene,
        &[
            "add-trigger",
            "-k",
            "sched_process_exit",
            "--per-second",
            "1",
            "--at-most",
            "5",
        ],
        0,
        "\
added trigger trigger-2
  waits for  sched_process_exit
  does       only counts matches, and notifies those who listen
  at most    1 time a second, 5 times in all
  next       piste listen trigger-2
",
        "",
    );
    check(
        &scene,
        &["add-trigger", "late", "-e", "a:b"],
        1,
        "",
        "piste: a trigger \"late\" exists already; choose another name, or remove it with `piste remove-trigger late`\n",
    );
    check(
        &scene,
        &["list-triggers"],
        0,
        "\
TRIGGER    EVENT                        ACTIONS              MATCHED  ACTED  MISSED  LAST   USER
late       shop:order, where price > 9  stop web, start wbe        0      0       0  never  ada
trigger-2  sched_process_exit           notify                     0      0       0  never  ada
",
        "",
    );
    // If one of several does not exist, none is removed.
    check(
        &scene,
        &["remove-trigger", "trigger-2", "laet"],
        1,
        "",
        "piste: there is no trigger \"laet\"; did you mean \"late\"?\n",
    );
    check(
        &scene,
        &["remove-trigger", "late,trigger-2"],
        0,
        "removed late: 0 matches, acted 0 times\nremoved trigger-2: 0 matches, acted 0 times\n",
        "",
    );
    check(&scene, &["list-triggers"], 0, "there are no triggers\n", "");
}

#[test]
fn triggers_are_told_as_json() {
    let scene = scene();
    let document = |arguments: &[&str]| -> Value {
        let output = run(&scene, arguments);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", said(&output)))
    };
    let added = document(&[
        "--json",
        "add-trigger",
        "calls",
        "--syscall",
        "open*",
        "--entry",
        "--context",
        "none",
        "--rotate",
        "web",
    ]);
    assert_eq!(added["condition"]["kernel_event"]["call_part"], "entry");
    assert_eq!(added["condition"]["contexts"], json!([]));
    assert_eq!(added["actions"], json!([{ "kind": "rotate", "session": "web" }]));
    let listed = document(&["--json", "list-triggers"]);
    assert_eq!(listed["triggers"][1], added);
    assert_eq!(document(&["--json", "remove-trigger", "calls"]), added);
    let removed = document(&["--json", "remove-trigger", "late"]);
    assert_eq!(removed["condition"]["event"]["pattern"], "shop:order");
}

#[test]
fn a_trigger_waits_for_one_event() {
    check(
        &Scene::new(),
        &["add-trigger", "-e", "a:b", "-k", "sched_switch"],
        2,
        "",
        "piste: a trigger waits for one event, but there are 2 patterns or probes; add a trigger for each, or use one pattern with `*`\n",
    );
}

fn matched(number: i64) -> Listen_Reply {
    Listen_Reply {
        trigger: Some("late".into()),
        matched: Some(TriggerMatch {
            number,
            event: "shop:order".into(),
            time_ns: 1_795_340_467_123_456_789,
            noticed_ns: 1_795_340_467_125_000_000,
            pid: Some(1234),
            contexts: json!({ "vtid": 1240 }),
            fields: json!({ "id": number, "price": 9.5 }),
            duration_ns: None,
            suppressed: number - 1,
        }),
        outcome: None,
        skipped: 0,
    }
}

fn outcome(number: i64, error: Option<&str>) -> Listen_Reply {
    Listen_Reply {
        trigger: Some("late".into()),
        matched: None,
        outcome: Some(TriggerOutcome {
            number,
            action: TriggerAction {
                kind: TriggerActionKind::snapshot,
                session: "web".into(),
            },
            output: error.is_none().then(|| "/traces/web/snapshot-1".into()),
            error: error.map(str::to_owned),
        }),
        skipped: 0,
    }
}

/// `piste listen OPTIONS`, which listens already.
fn listening(scene: &Scene, options: &[&str]) -> (Child, BufReader<ChildStdout>) {
    let mut child = piste(scene, &[&["listen"], options].concat()).spawn().unwrap();
    scene.script.wait_for("listen");
    let stdout = BufReader::new(child.stdout.take().unwrap());
    (child, stdout)
}

fn line(stdout: &mut BufReader<ChildStdout>) -> String {
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    line
}

#[test]
fn notices_are_printed_as_they_come_until_ctrl_c() {
    let scene = scene();
    let (child, mut stdout) = listening(&scene, &["late"]);
    assert_eq!(scene.script.asked().last().unwrap(), "listen [\"late\"]");
    scene.script.notify(matched(1));
    assert_eq!(
        line(&mut stdout),
        "[09:41:07.123456789] late #1: shop:order, pid 1234, { vtid = 1240 }, { id = 1, price = 9.5 }\n"
    );
    scene.script.notify(outcome(1, None));
    assert_eq!(
        line(&mut stdout),
        "late #1: snapshot of session web written to /traces/web/snapshot-1\n"
    );
    scene.script.notify(Listen_Reply {
        skipped: 3,
        ..matched(2)
    });
    scene.script.notify(outcome(2, Some("the disk is full")));
    assert!(line(&mut stdout).ends_with(", { id = 2, price = 9.5 }, 1 more since the last one\n"));
    assert_eq!(
        line(&mut stdout),
        "late #2: cannot take a snapshot of session web: the disk is full\n"
    );
    send(&child, Signal::INT);
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        (output.status.code(), &*said(&output)),
        (
            Some(0),
            "piste: listening to late; press Ctrl-C to stop\n\
             piste: WARNING: 3 notices were skipped, because notices came faster than they were read\n"
        )
    );
}

#[test]
fn a_number_of_matches_can_be_waited_for() {
    let scene = scene();
    let (child, mut stdout) = listening(&scene, &["--json", "-q", "--count", "2"]);
    for notice in [matched(1), outcome(1, None), matched(2), matched(3)] {
        scene.script.notify(notice);
    }
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), &*said(&output)), (Some(0), ""));
    let lines: Vec<Value> = (0..3)
        .map(|_| serde_json::from_str(&line(&mut stdout)).unwrap())
        .collect();
    assert_eq!(
        lines[0],
        json!({
            "notice": "match",
            "trigger": "late",
            "number": 1,
            "time_ns": "1795340467123456789",
            "time": "2026-11-22T09:41:07.123456789Z",
            "noticed_ns": "1795340467125000000",
            "name": "shop:order",
            "pid": 1234,
            "event_context": { "vtid": 1240 },
            "payload": { "id": 1, "price": 9.5 },
            "suppressed": 0
        })
    );
    assert_eq!(lines[1]["trace"], "/traces/web/snapshot-1");
    assert_eq!(lines[2]["number"], 2);
    assert_eq!(line(&mut stdout), "");
}

#[test]
fn a_command_runs_for_each_match_and_may_fail() {
    let scene = scene();
    let command = "echo $PISTE_TRIGGER $PISTE_EVENT; cat; exit 4";
    let (child, mut stdout) = listening(&scene, &["--quiet", "--run", command, "--count", "2"]);
    scene.script.notify(matched(1));
    scene.script.notify(outcome(1, None));
    scene.script.notify(matched(2));
    for number in 1..=2 {
        assert!(line(&mut stdout).starts_with(&format!("[09:41:07.123456789] late #{number}: ")));
        assert_eq!(line(&mut stdout), "late shop:order\n");
        let notice: Value = serde_json::from_str(&line(&mut stdout)).unwrap();
        assert_eq!(
            (&notice["notice"], &notice["number"]),
            (&json!("match"), &json!(number))
        );
        if number == 1 {
            assert!(line(&mut stdout).contains("snapshot"));
        }
    }
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        (output.status.code(), &*said(&output)),
        (
            Some(0),
            "piste: match 1 of late: the command failed: it exited with status 4\n\
             piste: match 2 of late: the command failed: it exited with status 4\n"
        )
    );
}

#[test]
fn the_end_of_pisted_and_an_unknown_trigger_are_told() {
    let scene = scene();
    let (child, _stdout) = listening(&scene, &[]);
    scene.script.stop_telling();
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        (output.status.code(), &*said(&output)),
        (
            Some(1),
            "piste: listening to all triggers; press Ctrl-C to stop\n\
             piste: pisted has ended, so no more notices will arrive; run `piste listen` again when pisted is running (its messages are in pisted.log in the run folder)\n"
        )
    );
    check(
        &scene,
        &["listen", "early"],
        1,
        "",
        "piste: there is no trigger \"early\" (see `piste list-triggers`)\n",
    );
}
