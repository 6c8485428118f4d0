// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rotations: what consumers are asked, and what a new one, or a new pisted, knows of them.

use std::collections::BTreeSet;

use super::*;
use crate::link::{ChannelTotals, Opening};
use crate::session::Refusal;

fn totals(events: u64) -> Vec<ChannelTotals> {
    vec![ChannelTotals {
        events,
        ..ChannelTotals::of(0)
    }]
}

/// With a program that describes itself.
fn recording_program(machine: &mut Machine) -> SessionId {
    let session = recording(machine, "web", &["*"]);
    register(machine, ADA, &["shop:order", "lttng_ust_statedump:start!"]);
    session
}

#[test]
fn a_chunk_ends_and_the_next_begins_with_a_state_dump_of_each_program() {
    let mut machine = machine();
    let session = recording_program(&mut machine);
    let chunk = machine.next_chunk(session, at(500)).unwrap();
    assert_eq!((chunk.number, chunk.hidden.to_str()), (1, Some("/t/web/archives/.1")));
    assert_eq!(
        chunk.place.to_str(),
        Some("/t/web/archives/1-19700101T000000+0000-19700101T000000+0000")
    );
    let asked = machine.begin_rotation(session, at(500));
    assert_eq!(asked, [(Domain::User, 2)]);
    check(&mut machine, &["consumer: rotate 1 /t/web/archives/.1 #2"]);
    let in_progress = Refusal::RotationInProgress { session: "web".into() };
    assert_eq!(machine.next_chunk(session, at(600)), Err(in_progress));
    assert!(!machine.session(session).has_written_part());
    machine.part_written(session, Domain::User, totals(100));
    assert!(machine.session(session).has_written_part());
    assert_eq!(machine.sum_of_archived(session).events, 100);
    let pending = machine.chunk_written(session);
    assert_eq!((pending.programs.len(), pending.token), (1, 3));
    check(&mut machine, &["7: dump 1", "7: sync 3"]);
    assert!(
        machine.next_chunk(session, at(600)).is_err(),
        "it is not in its place yet"
    );
    machine.end_rotation(session);
    assert_eq!(machine.next_chunk(session, at(600)).unwrap().number, 2);
    machine.begin_rotation(session, at(700));
    assert!(!machine.session(session).has_written_part());
    let before = machine.sum_of_archived(session);
    machine.part_written(session, Domain::User, totals(130));
    assert_eq!(machine.sum_of_archived(session).since(&before).events, 30);
}

#[test]
fn a_new_consumer_hears_of_a_rotation_until_its_part_is_done() {
    let mut machine = machine();
    let session = recording_program(&mut machine);
    machine.begin_rotation(session, at(500));
    machine.take_effects();
    machine.everything(&BTreeSet::new());
    assert_eq!(
        show(&machine.take_effects()[0]),
        "consumer: open 1, rotating to /t/web/archives/.1"
    );
    machine.part_written(session, Domain::User, totals(100));
    machine.take_effects();
    machine.everything(&BTreeSet::new());
    let effects = machine.take_effects();
    let Effect::Consumer(
        _,
        ToConsumer::OpenSession(Opening {
            trace,
            rotation,
            archived,
            ..
        }),
    ) = &effects[0]
    else {
        panic!("{effects:?}")
    };
    assert_eq!((rotation, archived), (&None, &totals(100)));
    assert_ne!(trace.uuid, identity("web").trace.uuid, "another chunk is another trace");
}

#[test]
fn a_new_pisted_goes_on_with_a_rotation() {
    let mut machine = machine();
    let session = machine.create_session(identity("web")).unwrap();
    machine.enable_event(session, None, &rules(&["*"])).unwrap();
    machine.start(session, at(0)).unwrap();
    machine.begin_rotation(session, at(500));
    let mut journal = changes(machine.take_effects());
    let mut next = machine_after(replay(&journal));
    assert_eq!(next.rotate_again(), [(session, vec![(Domain::User, 1)])]);
    check(&mut next, &["consumer: rotate 1 /t/web/archives/.1 #1"]);
    machine.part_written(session, Domain::User, totals(100));
    journal.extend(changes(machine.take_effects()));
    let mut next = machine_after(replay(&journal));
    assert_eq!(next.rotate_again(), [(session, vec![])], "all is answered");
    machine.chunk_written(session);
    journal.extend(changes(machine.take_effects()));
    let mut next = machine_after(replay(&journal));
    assert_eq!(next.rotate_again(), []);
    let chunk = next.session(session).rotated_chunk();
    assert_eq!(chunk, machine.session(session).rotated_chunk(), "still to be placed");
    let summary = replay(&machine.sessions().summary());
    assert_eq!(summary.get(session).unwrap().chunks, machine.session(session).chunks);
}

#[test]
fn what_comes_to_nothing_leaves_the_session_in_its_chunk() {
    let mut machine = machine();
    let session = recording_program(&mut machine);
    machine.begin_rotation(session, at(500));
    machine.abandon_rotation(session);
    assert_eq!(machine.next_chunk(session, at(600)).unwrap().number, 1);
    let mut flight = identity("flight");
    flight.snapshot = true;
    let flight = machine.create_session(flight).unwrap();
    let refusal = machine.next_chunk(flight, at(1)).unwrap_err();
    assert_eq!(
        refusal,
        Refusal::IsSnapshot {
            session: "flight".into()
        }
    );
    let idle = machine.create_session(identity("idle")).unwrap();
    let refusal = machine.next_chunk(idle, at(1)).unwrap_err();
    assert_eq!(refusal, Refusal::NeverStarted { session: "idle".into() });
}
