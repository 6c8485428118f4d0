// SPDX-License-Identifier: MIT OR Apache-2.0
//! A disk that becomes full while a timeline is written to it: the viewer says so, nothing incomplete stays, and a running session goes on recording.

use std::fs;

use piste_support::build_tree::repository;
use piste_support::process::wait_until;
use piste_support::{Workplace, kernel};
use rustix::process::Signal;

use super::{Server, has_viewer, recorded, text};

/// A server that sees a small disk in the folder `small`. Commands of the shell prepare it; the last one, `web TRACE`, starts the server.
fn start(place: &Workplace, size: &str, script: &str) -> Server {
    let piste = repository().join("build/bin/piste");
    let web = format!("exec {} --json web", text(&piste));
    let script = script.replacen("web", &web, 1);
    let script = format!("mkdir small && mount -t tmpfs -o size={size} none small && {script}");
    Server::of(place.start("unshare", &["--mount", "sh", "-c", &script]))
}

#[test]
fn a_full_disk_leaves_no_incomplete_timeline() {
    let Some((place, _)) = recorded() else { return };
    let fill = "cp -r recorded small && { dd if=/dev/zero of=small/rest bs=16K 2>/dev/null; web small/recorded; }";
    let server = start(&place, "128M", fill);
    let status = server.settle();
    assert_eq!(status["state"], "failed", "{status}");
    assert_eq!(status["problem"], "cannot write the timeline: no space left on device");
    let folder = format!(
        "/proc/{}/root{}",
        server.running.pid(),
        text(&place.path("small/recorded"))
    );
    let names = fs::read_dir(folder)
        .expect("the trace is there")
        .map(|file| file.expect("it can be read").file_name());
    let names: Vec<_> = names.collect();
    assert!(!names.is_empty());
    assert!(
        !names
            .iter()
            .any(|name| name.to_string_lossy().starts_with(".piste-timeline")),
        "{names:?}"
    );
    server.end();
}

#[test]
fn a_full_disk_ends_the_view_of_a_running_session_and_not_the_session() {
    if !has_viewer() {
        return;
    }
    let Some(place) = kernel::workplace() else { return };
    place.start_pisted();
    let trace = place.path("trace");
    place.piste_succeeds(&["create", "busy", "-o", text(&trace)]);
    place.piste_succeeds(&["enable-event", "-k", "--preset", "sched,syscalls"]);
    place.piste_succeeds(&["start"]);
    let server = start(&place, "4M", "TMPDIR=$PWD/small web busy");
    let (_, token) = server.parts();
    server.ask("POST", &format!("{token}api/0/open"), &[]);
    let mut busy = place.start("dd", &["if=/dev/zero", "of=/dev/null", "bs=1"]);
    wait_until("the disk is full", || server.status()["state"] == "failed");
    busy.signal(Signal::TERM);
    busy.finish();
    let problem = server.status()["problem"].to_string();
    let expected = format!(
        "cannot write the timeline of the running session to {}: ",
        text(&place.path("small"))
    );
    assert!(problem.contains(&expected), "{problem}");
    assert!(
        problem.contains("no space left on device. Recording continues."),
        "{problem}"
    );

    // What comes afterwards is in the trace.
    place
        .run("python3", &["-c", "open('/proc/self/comm', 'w').write('afterwards')"])
        .expect_success();
    place.piste_succeeds(&["stop"]);
    server.end();
    let finished = Server::start(&place, &[text(&trace)]);
    assert_eq!(finished.settle()["state"], "whole");
    let lanes = finished.json("GET", "lanes", "").expect("lanes");
    assert!(
        lanes["lanes"]
            .as_array()
            .expect("lanes")
            .iter()
            .any(|lane| lane["name"] == "afterwards")
    );
    finished.end();
    place.piste_succeeds(&["destroy", "busy"]);
}
