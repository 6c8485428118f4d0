// SPDX-License-Identifier: MIT OR Apache-2.0
//! A running session in the viewer: its timeline grows, and at the end says the same as one of the finished trace.

use std::collections::BTreeMap;

use piste_support::process::{self, wait_until};
use piste_support::{Workplace, kernel};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{Server, browse, has_viewer, text, whole_number};

/// Sleeps most of the time.
const SLEEPER: &str = "
import time
open('/proc/self/comm', 'w').write('livesleeper')
while True:
    time.sleep(0.05)
";

/// What a lane is of, whatever its number. Of a thread that was there before, the process and the name may become known only at the end.
fn key(lane: &Value) -> String {
    let parts = ["kind", "cpu", "tid", "depth"].map(|part| lane[part].to_string());
    parts.join(" ")
}

fn lanes(server: &Server) -> Vec<Value> {
    let found = server.json("GET", "lanes", "").expect("lanes");
    found["lanes"].as_array().expect("lanes").clone()
}

/// By what each lane is of: how many pieces it has, and for how long it was what.
fn sums(server: &Server, range: (i64, i64)) -> BTreeMap<String, Value> {
    let lanes: Vec<Value> = lanes(server)
        .into_iter()
        .filter(|lane| lane["kind"] != "calls")
        .collect();
    let ids: Vec<&Value> = lanes.iter().map(|lane| &lane["id"]).collect();
    let asked = json!({ "begin_ns": range.0.to_string(), "end_ns": range.1.to_string(), "lanes": ids });
    let answer: Vec<Value> = serde_json::from_slice(&server.post("sums", &asked)).expect("JSON");
    let answers = lanes.iter().zip(answer);
    answers.map(|(lane, sum)| (key(lane), sum["ns"].clone())).collect()
}

/// Over all lanes.
fn total(sums: &BTreeMap<String, Value>, class: &str) -> f64 {
    sums.values().map(|ns| ns[class].as_f64().unwrap_or(0.0)).sum()
}

fn span(status: &Value) -> (i64, i64) {
    (whole_number(&status["begin_ns"]), whole_number(&status["end_ns"]))
}

fn follow(place: &Workplace) {
    place.start_pisted();
    let trace = place.path("web");
    place.piste_succeeds(&["create", "web", "-o", text(&trace)]);
    let unstarted = place.piste(&["web", "web"]);
    unstarted.expect_status(1);
    assert!(unstarted.stderr.contains("`piste start web` starts it"), "{unstarted}");
    place.piste_succeeds(&["enable-event", "-k", "--preset", "sched,syscalls"]);
    place.piste_succeeds(&["enable-event", "-u", "work:*,step:*"]);
    place.piste_succeeds(&["start"]);
    let server = Server::start(place, &["web"]);
    let (_, token) = server.parts();
    server.ask("POST", &format!("{token}api/0/open"), &[]);
    wait_until("the session is live", || server.status()["state"] == "live");
    let mut sleeper = place.start("python3", &["-c", SLEEPER]);
    place.run(place.program("spans.c"), &["100"]).expect_success();

    wait_until("its spans are there", || {
        lanes(&server)
            .iter()
            .any(|lane| lane["kind"] == "spans" && lane["pieces"].as_i64() > Some(50))
    });
    let sleeping = || {
        let lanes = lanes(&server);
        let found = lanes
            .iter()
            .find(|lane| lane["kind"] == "thread" && lane["name"] == "livesleeper");
        found.and_then(|lane| lane["id"].as_u64())
    };
    wait_until("the new thread is there", || sleeping().is_some());
    let sleeps = sleeping().expect("it is there");
    // What goes on is shown, too: a wait that has not ended.
    let mut seen = BTreeMap::new();
    let is_seen_sleeping = || {
        let (begin, now) = span(&server.status());
        seen = server.sums(sleeps, (begin.max(now - 100_000_000), now));
        seen.get("blocked").is_some_and(|ns| *ns > 50_000_000) && !seen.contains_key("unknown")
    };
    wait_until("the thread is seen sleeping", is_seen_sleeping);
    browse("live", &server);
    // Recording goes on without an answer of pisted, and so does the timeline.
    let pisted = place.pisted();
    process::stop(pisted);
    let (_, stopped_ns) = span(&server.status());
    // Its own question may be on its way.
    wait_until("the timeline grows on", || {
        span(&server.status()).1 > stopped_ns + 4_000_000_000
    });
    process::send(pisted, Signal::CONT);

    sleeper.signal(Signal::KILL);
    sleeper.finish();
    place.piste_succeeds(&["stop"]);
    wait_until("the recording has ended", || server.status()["state"] == "whole");
    let finished = Server::start(place, &[text(&trace)]);
    let range = span(&finished.settle());
    let (live, whole) = (sums(&server, range), sums(&finished, range));
    // On a busy machine, the events of a CPU may come so late that they count as happening later, all at once: a thread that was there only then has
    // no time at all. What became known later is unknown here.
    let missing: Vec<&String> = whole.keys().filter(|key| !live.contains_key(*key)).collect();
    assert!(missing.iter().all(|key| key.contains("thread")), "{missing:?}");
    for class in ["user", "kernel", "runnable", "blocked", "other"] {
        let (live, whole) = (total(&live, class), total(&whole, class));
        let most = 0.02 * (live + whole) + 1e6;
        assert!((live - whole).abs() < most, "{class}: {live} and {whole}");
    }
    server.end();
    finished.end();
    place.piste_succeeds(&["destroy", "web"]);
}

#[test]
fn a_running_session_is_seen_while_it_is_recorded() {
    if !has_viewer() {
        return;
    }
    let Some(place) = kernel::workplace() else { return };
    follow(&place);
}
