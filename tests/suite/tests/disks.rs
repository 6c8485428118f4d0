// SPDX-License-Identifier: MIT OR Apache-2.0
//! Disks that hang: the session that writes to one waits, and nobody else does.

use piste_suite::Workplace;
use piste_suite::disk::Disk;
use piste_suite::process::wait_until;
use piste_suite::report::text;
use serde_json::Value;

const EVENTS: u64 = 200_000;

fn status(place: &Workplace, session: &str) -> Value {
    place.piste_json(&["status", session])
}

/// Rings of so many sub-buffers of 1 MiB: one is soon full, and 64 are for ten times what comes.
fn begin(place: &Workplace, session: &str, output: &str, subbuf_count: &str) {
    place.piste_succeeds(&["create", session, "-o", output]);
    let geometry = ["--subbuf-size", "1M", "--num-subbuf", subbuf_count];
    place.piste_succeeds(&[&["enable-channel", "-s", session, "-u", "default"], &geometry[..]].concat());
    place.piste_succeeds(&["enable-event", "-s", session, "-u", "count:*"]);
    place.piste_succeeds(&["start", session]);
}

fn sum(status: &Value, key: &str) -> u64 {
    let channels = status["channels"].as_array().expect("channels");
    channels
        .iter()
        .map(|channel| channel[key].as_u64().expect("a number"))
        .sum()
}

#[test]
fn a_disk_that_hangs_holds_up_its_session_alone() {
    let place = Workplace::new();
    let Some(disk) = Disk::new(&place, 256 << 20, 0) else {
        return;
    };
    let program = place.program("count.c");
    begin(&place, "held", text(&disk.folder.join("trace")), "2");
    begin(&place, "free", text(&place.path("free")), "64");
    let count = |events: u64| _ = place.run(&program, &["1", &events.to_string()]).expect_success();
    count(EVENTS);

    let frozen = disk.freeze();
    count(EVENTS);
    wait_until("somebody is told that the disk hangs", || {
        status(&place, "held")["findings"]
            .to_string()
            .contains("waiting for the trace's disk")
    });
    // Nobody else is held up: not who asks, not other sessions, not a pisted that takes over.
    let listed = place.piste_json(&["list"]);
    assert_eq!(listed["sessions"].as_array().expect("sessions").len(), 2, "{listed:#}");
    begin(&place, "later", text(&place.path("later")), "64");
    count(EVENTS);
    place.kill_pisted();
    place.piste_succeeds(&["list"]);
    count(EVENTS);
    let ended = place.piste_json(&["destroy", "later"]);
    assert_eq!(
        (sum(&ended, "events"), sum(&ended, "discarded_events")),
        (2 * EVENTS, 0),
        "{ended:#}"
    );

    drop(frozen);
    wait_until("the session goes on, and nobody is told that it waits", || {
        !status(&place, "held")["findings"].to_string().contains("waiting for")
    });
    let ended = place.piste_json(&["destroy", "free"]);
    assert_eq!(
        (sum(&ended, "events"), sum(&ended, "discarded_events")),
        (4 * EVENTS, 0),
        "{ended:#}"
    );
    let ended = place.piste_json(&["destroy", "held"]);
    assert_eq!(
        sum(&ended, "events") + sum(&ended, "discarded_events"),
        4 * EVENTS,
        "{ended:#}"
    );
    assert!(sum(&ended, "events") >= EVENTS, "{ended:#}");
}
