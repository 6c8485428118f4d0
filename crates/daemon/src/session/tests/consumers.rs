// SPDX-License-Identifier: MIT OR Apache-2.0
//! New consumers, new pisteds.

use std::collections::BTreeSet;

use super::*;

#[test]
fn a_new_consumer_is_told_everything() {
    let mut machine = machine();
    let session = recording(&mut machine, "web", &["*"]);
    register(&mut machine, ADA, &["shop:order"]);
    register(&mut machine, BOB, &["shop:order"]);
    machine.dead(BOB);
    machine.ring_recovered(1);
    machine.confirmed(ADA, 3);
    machine.take_effects();
    machine.everything(&BTreeSet::new());
    check(
        &mut machine,
        &[
            "consumer: open 1",
            "consumer: channel 1/0 default",
            "consumer: class 1/0 0 shop:order",
            "consumer: start 1 #2",
            "consumer: rings 1/0 1 of 7 from 0",
            "consumer: retire 1",
            "consumer: rings 1/0 2 of 8 from 2",
            "consumer: program gone 2",
            "consumer: rings 1/0 3 of 7 from 4",
            "consumer: described",
        ],
    );
    machine.stop(session, at(9)).unwrap();
    machine.take_effects();
    machine.everything(&BTreeSet::from([1, 2, 3]));
    check(
        &mut machine,
        &[
            "consumer: open 1",
            "consumer: channel 1/0 default",
            "consumer: class 1/0 0 shop:order",
            "consumer: retire 1",
            "consumer: program gone 2",
            "consumer: stop 1 #4",
            "consumer: described",
        ],
    );
}

#[test]
fn a_new_consumer_is_not_told_of_a_session_that_the_one_before_has_closed() {
    let mut machine = machine();
    let session = recording(&mut machine, "web", &["*"]);
    register(&mut machine, ADA, &["shop:order"]);
    machine.destroy(session, at(1));
    machine.closed_at_consumer(session);
    machine.take_effects();
    machine.everything(&BTreeSet::new());
    check(&mut machine, &["consumer: described"]);
    machine.session_ended(session);
    machine.closed_at_consumer(session);
    assert!(machine.closed.is_empty());
}

/// The journal says that it is stopped, and nobody else was told.
#[test]
fn a_session_that_was_stopped_is_stopped_again_by_the_next_pisted() {
    let mut machine = machine();
    let session = recording(&mut machine, "web", &["*"]);
    let mut journal = machine.sessions().summary();
    machine.stop(session, at(9)).unwrap();
    journal.extend(changes(machine.take_effects()));
    let mut next = machine_after(replay(&journal));
    next.everything(&BTreeSet::new());
    check(
        &mut next,
        &[
            "consumer: open 1",
            "consumer: channel 1/0 default",
            "consumer: stop 1 #1",
            "consumer: described",
        ],
    );
}

#[test]
fn a_new_pisted_knows_what_the_journal_says() {
    let mut machine = machine();
    let web = machine.create_session(identity("web")).unwrap();
    let mut recorded = identity("recorded");
    recorded.record_id = Some([3; 16]);
    machine.create_session(recorded).unwrap();
    machine.enable_channel(web, &channel("fast")).unwrap();
    machine.enable_event(web, Some("fast"), &rules(&["shop:*"])).unwrap();
    machine.start(web, at(100)).unwrap();
    let mut journal = changes(machine.take_effects());
    machine.hello(ADA, facts(1000, 1), hello(&[]));
    machine.events(ADA, 1, block(&["shop:order"]), 100);
    machine.ring_recovered(1);
    journal.extend(changes(machine.take_effects()));

    let mut next = machine_after(replay(&journal));
    assert_eq!(next.find_session(&asked(None)), Ok(web));
    assert!(next.is_active(web));
    assert_eq!(next.session(web).recorded_ns(at(150)), 50);
    assert_eq!(next.session(web).channels[0].rules.len(), 1);
    assert!(!next.is_alive(1));
    // Nobody knows how far the program came.
    next.everything(&BTreeSet::from([1, 2]));
    let told: Vec<String> = next.take_effects().iter().map(show).collect();
    assert!(!told.iter().any(|line| line.contains("retire")), "{told:?}");
    // The program comes back with both ring sets; the new one is still its own, and its event the same class.
    next.hello(ADA, facts(1000, 1), hello(&[1, 2]));
    check(&mut next, &["7: gone 1", "consumer: retire 1"]);
    next.events(ADA, 1, block(&["shop:order", "shop:pay"]), 100);
    check(
        &mut next,
        &["consumer: class 1/0 1 shop:pay", "7: enable 2 1.0=0 1.1=1"],
    );
    // Numbers go on.
    register(&mut next, BOB, &["shop:order"]);
    assert_eq!(next.sessions().ring_sets().last().unwrap().0, 3);
    assert_eq!(next.sessions().ring_sets().last().unwrap().1.stream_instance_base, 4);
}

#[test]
fn a_summary_says_what_all_changes_said() {
    let mut machine = machine();
    let flight = machine
        .create_session(SessionIdentity {
            snapshot: true,
            ..identity("flight")
        })
        .unwrap();
    let web = recording(&mut machine, "web", &["shop:*"]);
    machine.enable_event(flight, None, &rules(&["*"])).unwrap();
    machine.start(flight, at(10)).unwrap();
    register(&mut machine, ADA, &["shop:order", "shop:pay"]);
    register(&mut machine, BOB, &["shop:order"]);
    machine.dead(BOB);
    machine.ring_set_done(3);
    machine.ring_set_done(4);
    machine.ring_recovered(1);
    machine.ring_set_done(1);
    machine.take_snapshot(flight, "/t/flight/snapshot-1".into(), Person::default());
    machine.stop(web, at(100)).unwrap();
    machine.start(web, at(200)).unwrap();
    register(&mut machine, ProgramId { pid: 9, ..BOB }, &["shop:order"]);
    machine.ring_set_missing(6, true, false);
    machine.set_current(&asked(Some("flight"))).unwrap();
    let gone = machine.create_session(identity("gone")).unwrap();
    machine.destroy(gone, at(250));

    let summary = machine.sessions().summary();
    let again = replay(&summary);
    assert_eq!(again.summary(), summary);
    assert_eq!(
        (
            again.current(&Person::default()),
            machine.sessions().current(&Person::default())
        ),
        (Some(web), Some(web))
    );
    assert_eq!((again.next_session(), again.next_key()), (4, Some(8)));
    let both = |look: fn(&Sessions) -> Vec<u64>| assert_eq!(look(&again), look(machine.sessions()));
    both(|sessions| {
        sessions
            .iter()
            .map(|(_, session)| session.recorded_ns(at(300)))
            .collect()
    });
    both(|sessions| {
        sessions
            .iter()
            .map(|(_, session)| session.first_start.map_or(0, |start| start.boot_ns))
            .collect()
    });
    both(|sessions| {
        sessions
            .iter()
            .map(|(_, session)| session.next_stream_instance())
            .collect()
    });
    both(|sessions| sessions.iter().map(|(_, session)| session.state as u64).collect());
    both(|sessions| sessions.iter().map(|(_, session)| session.snapshot_count).collect());
    both(|sessions| {
        let channels = sessions.iter().flat_map(|(_, session)| &session.channels);
        channels.map(|channel| channel.lost_ring_set_count).collect()
    });
    assert_eq!(again.get(flight).unwrap().channels[0].lost_ring_set_count, 1);
    both(|sessions| sessions.ring_sets().map(|(key, _)| key.into()).collect());
}

#[test]
fn a_ring_set_that_a_living_consumer_has_not_was_emptied_or_lost() {
    let mut machine = machine();
    let session = recording(&mut machine, "web", &["*"]);
    register(&mut machine, ADA, &["shop:order"]);
    machine.ring_recovered(1);
    register(&mut machine, BOB, &["shop:order"]);
    machine.take_effects();
    let lost = |machine: &Machine| machine.session(session).channels[0].lost_ring_set_count;
    // Retired, and emptied meanwhile.
    machine.ring_set_missing(1, true, true);
    check(&mut machine, &["7: gone 1", "drop 1"]);
    // Its program died, and it was emptied meanwhile.
    machine.ring_set_missing(3, false, true);
    check(&mut machine, &["drop 3"]);
    assert_eq!(lost(&machine), 0);
    // Its program lives: no consumer gives that up.
    machine.ring_set_missing(2, true, true);
    check(&mut machine, &["7: gone 2"]);
    assert_eq!(lost(&machine), 1);
    assert_eq!(machine.sessions().ring_sets().count(), 0);
}

#[test]
fn what_a_consumer_has_and_nobody_knows_is_closed() {
    let mut machine = machine();
    recording(&mut machine, "web", &["*"]);
    machine.close_unknown(&BTreeSet::from([1, 9]), &BTreeSet::from([4]));
    check(&mut machine, &["consumer: close 9 #2", "consumer: retire 4"]);
    machine.ring_set_done(4);
    check(&mut machine, &["drop 4"]);
}

#[test]
fn a_session_whose_end_was_asked_for_ends_with_the_next_pisted() {
    let mut machine = machine();
    let session = machine.create_session(identity("web")).unwrap();
    machine.enable_event(session, None, &rules(&["*"])).unwrap();
    machine.start(session, at(0)).unwrap();
    machine.destroy(session, at(1));
    let mut next = machine_after(replay(&changes(machine.take_effects())));
    next.everything(&BTreeSet::new());
    check(
        &mut next,
        &[
            "consumer: open 1",
            "consumer: channel 1/0 default",
            "consumer: stop 1 #1",
            "consumer: described",
        ],
    );
    assert_eq!(next.close_again(), [(1, vec![2])]);
    next.session_ended(1);
    assert_eq!(next.sessions().iter().count(), 0);
}

#[test]
fn rings_that_could_not_be_made_are_a_finding_and_tried_again_by_the_next_rule() {
    let mut machine = machine();
    let session = recording(&mut machine, "web", &["shop:*"]);
    register(&mut machine, ADA, &["shop:order"]);
    machine.ring_set_failed(1, "no memory");
    check(&mut machine, &["7: gone 1"]);
    assert_eq!(
        machine.notes(session).unwrap().findings.list()[0].what,
        "shop (pid 7) is not recorded: no memory"
    );
    machine.ring_set_failed(1, "no memory");
    check(&mut machine, &[]);
    machine.enable_event(session, None, &rules(&["*:order"])).unwrap();
    assert!(machine.is_alive(2));
}

#[test]
fn numbers_are_not_used_again_after_the_last_session() {
    let mut machine = machine();
    let session = recording(&mut machine, "web", &["*"]);
    register(&mut machine, ADA, &["shop:order"]);
    machine.destroy(session, at(1));
    machine.session_ended(session);
    let summary = machine.sessions().summary();
    assert_eq!(summary.len(), 1);
    let sessions = replay(&summary);
    assert_eq!(sessions.next_session(), 2);
    assert_eq!(sessions.next_key(), Some(2));
}

#[test]
fn a_change_that_does_not_fit_is_refused() {
    let mut sessions = Sessions::default();
    for change in [
        Change::CurrentSet { session: 1, user: None },
        Change::Started { session: 1, at: at(0) },
        Change::RingSetEnded { key: 1 },
        Change::RingSetRetired { key: 1 },
        Change::SessionEnded { session: 1 },
    ] {
        assert!(sessions.apply(change.clone()).is_err(), "{change:?}");
    }
}
