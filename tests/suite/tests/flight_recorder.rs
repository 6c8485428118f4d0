// SPDX-License-Identifier: MIT OR Apache-2.0
//! The flight recorder: what each snapshot has of a program that lives long.

use std::path::Path;

use piste_support::{Trace, Workplace};

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// A channel that discards keeps the first events of a program: what it recorded once, at its start, is in every snapshot.
#[test]
fn first_events_are_in_every_snapshot_when_the_newest_have_long_replaced_others() {
    let place = Workplace::new();
    place.piste_succeeds(&["create", "flight", "--snapshot", "-o", text(&place.path("flight"))]);
    let sizes = ["--subbuf-size", "4K", "--num-subbuf", "2"];
    place.piste_succeeds(&[&["enable-channel", "setup", "--discard"], &sizes[..]].concat());
    place.piste_succeeds(&[&["enable-channel", "recent"], &sizes[..]].concat());
    place.piste_succeeds(&["enable-event", "-c", "setup", "shop:order"]);
    place.piste_succeeds(&["enable-event", "-c", "recent", "bank:failure"]);
    place.piste_succeeds(&["start"]);
    let program = place.program("puppet.c");
    let mut old = place.start(&program, &[]);
    assert_eq!(old.ask("record 3"), "done");
    place.piste_succeeds(&["disable-event", "-c", "setup", "shop:order"]);
    // More snapshots than the ring has sub-buffers, and many times what the other ring holds.
    for number in 0..5 {
        assert_eq!(old.ask("record 2000"), "done");
        let folder = place.path(&format!("snapshot-{number}"));
        place.piste_succeeds(&["snapshot", "record", "-o", text(&folder)]);
        let (mut orders, mut failures) = (Vec::new(), Vec::new());
        Trace::at(&folder).for_each(|event| match &*event.name {
            "shop:order" => orders.push(event.number("number")),
            "bank:failure" => failures.push(event.number("number")),
            _ => {}
        });
        assert_eq!(orders, [0, 1, 2]);
        let recorded = 2000 * (number + 1) + 3;
        assert!(failures.contains(&(recorded - 1)) && (failures.len() as u64) < recorded);
    }
    // There is room for more: no snapshot used it up.
    place.piste_succeeds(&["enable-event", "-c", "setup", "shop:order"]);
    let mut young = place.start(&program, &[]);
    assert_eq!(young.ask("record 1"), "done");
    assert_eq!(old.ask("record 5"), "done");
    young.finish().expect_success();
    let folder = place.path("last");
    place.piste_succeeds(&["snapshot", "record", "-o", text(&folder)]);
    assert_eq!(Trace::at(&folder).counts()["shop:order"], 3 + 1 + 5);
    let status = place.piste_json(&["status"]);
    assert_eq!(status["channels"][0]["discarded_events"], 0);
    // What finds no more room is counted.
    assert_eq!(old.ask("record 1000"), "done");
    let snapshot = place.piste_json(&["snapshot", "record", "-o", text(&place.path("full"))]);
    let (events, told) = Trace::at(place.path("full")).events_and_loss();
    let count = events.iter().filter(|event| event.name == "shop:order").count() as u64;
    let status = place.piste_json(&["status"]);
    let discarded = status["channels"][0]["discarded_events"].as_u64().expect("a count");
    assert!(
        count > 9 && count + discarded == 9 + 1000,
        "{count} {discarded} {snapshot}"
    );
    assert_eq!(told, discarded);
    old.finish().expect_success();
    let refused = place.piste(&["enable-channel", "waiting", "--block", "1s"]).stderr;
    assert!(refused.contains("discard to keep the first events"), "{refused}");
}
