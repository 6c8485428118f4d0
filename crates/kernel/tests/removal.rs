// SPDX-License-Identifier: MIT OR Apache-2.0
//! Instances go, and others that record the same events do not notice. Needs root and tracefs.

mod real;

use std::fs;
use std::process::id;

use piste_kernel::spec::Loss;
use real::Fixture;

/// With some hundred events.
const GROUPS: [&str; 6] = ["block", "irq", "kmem", "sched", "timer", "writeback"];

#[test]
fn the_first_of_two_instances_goes_and_the_other_keeps_its_events() {
    let Some(place) = Fixture::new() else { return };
    let first = place.instance(Loss::Discard, 4096, 4);
    let other = place.tracefs.path(format!("instances/test-of-others-{}", id()));
    fs::create_dir(&other).unwrap();
    fs::write(other.join("tracing_on"), "0").unwrap();
    for folder in [first.folder(), &other] {
        for group in GROUPS {
            fs::write(folder.join("events").join(group).join("enable"), "1").unwrap();
        }
    }
    let events = fs::read_to_string(other.join("set_event")).unwrap();
    assert_eq!(first.read("set_event").unwrap(), events);

    let removed = first.remove();

    let (kept, left) = (
        fs::read_to_string(other.join("set_event")),
        place.owner.instances(&place.tracefs),
    );
    fs::remove_dir(&other).unwrap();
    removed.unwrap();
    assert_eq!(kept.unwrap(), events);
    // What stood in for it is gone too.
    assert_eq!(left.unwrap(), []);
}
