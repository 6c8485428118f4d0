// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that register, load libraries, leave, come back and die.

use std::collections::BTreeSet;

use super::*;
use crate::session::machine::Pending;

#[test]
fn a_program_that_registers_gets_what_an_active_session_wants() {
    let mut machine = machine();
    recording(&mut machine, "web", &["shop:*"]);
    machine.hello(ADA, facts(1000, 1), hello(&[]));
    check(&mut machine, &[]);
    machine.events(ADA, 1, block(&["shop:order", "other:thing", "shop:pay"]), 100);
    check(
        &mut machine,
        &[
            "consumer: class 1/0 0 shop:order",
            "consumer: class 1/0 1 shop:pay",
            "make 1 piste:web:default recording",
            "consumer: rings 1/0 1 of 7 from 0",
            "7: channel 1",
            "7: enable 1 1.0=0 1.2=1",
        ],
    );
    machine.sync(ADA, 99);
    check(&mut machine, &["7: synced 99"]);
}

#[test]
fn nothing_is_made_for_a_program_without_a_wanted_event() {
    let mut machine = machine();
    let session = recording(&mut machine, "web", &["shop:*"]);
    machine.hello(ADA, facts(1000, 1), hello(&[]));
    machine.events(ADA, 1, block(&["other:thing"]), 100);
    machine.sync(ADA, 1);
    check(&mut machine, &["7: synced 1"]);
    let notes = machine.notes(session).unwrap();
    assert_eq!(
        notes.participants.unmatched_events().collect::<Vec<_>>(),
        ["other:thing"]
    );
    assert_eq!(notes.participants.list(9)[0].2.count, 1);
    assert_eq!(notes.participants.list(9)[0].2.matched_count, 0);
}

#[test]
fn the_same_event_of_two_programs_is_one_class_and_other_fields_make_another() {
    let mut machine = machine();
    let session = recording(&mut machine, "web", &["*"]);
    register(&mut machine, ADA, &["shop:order"]);
    machine.hello(BOB, facts(1000, 1), hello(&[]));
    machine.events(BOB, 4, block(&["shop:pay", "shop:order", "shop:order!"]), 100);
    check(
        &mut machine,
        &[
            "consumer: class 1/0 1 shop:pay",
            "consumer: class 1/0 2 shop:order",
            "make 2 piste:web:default recording",
            "consumer: rings 1/0 2 of 8 from 2",
            "8: channel 2",
            "8: enable 2 4.0=1 4.1=0 4.2=2",
        ],
    );
    assert_eq!(
        machine.notes(session).unwrap().participants.list(9)[0].2.matched_count,
        2
    );
}

#[test]
fn a_library_that_is_loaded_later_uses_the_rings_that_are_there() {
    let mut machine = machine();
    recording(&mut machine, "web", &["*"]);
    register(&mut machine, ADA, &["shop:order"]);
    machine.events(ADA, 2, block(&["shop:order", "lib:load"]), 100);
    check(
        &mut machine,
        &["consumer: class 1/0 1 lib:load", "7: enable 1 2.0=0 2.1=1"],
    );
    machine.module_gone(ADA, 2);
    check(&mut machine, &[]);
    assert_eq!(machine.programs().next().unwrap().1.events().count(), 1);
}

#[test]
fn the_state_dump_follows_the_registration_once() {
    let mut machine = machine();
    recording(&mut machine, "web", &["*"]);
    machine.hello(ADA, facts(1000, 1), hello(&[]));
    machine.events(ADA, 0, block(&["lttng_ust_statedump:start!"]), 100);
    machine.events(ADA, 1, block(&["shop:order"]), 100);
    machine.take_effects();
    machine.sync(ADA, 1);
    check(&mut machine, &["7: dump 1", "7: synced 1"]);
    machine.sync(ADA, 2);
    check(&mut machine, &["7: synced 2"]);
}

#[test]
fn a_state_dump_that_nobody_wants_is_not_asked_for() {
    let mut machine = machine();
    recording(&mut machine, "web", &["shop:*"]);
    machine.hello(ADA, facts(1000, 1), hello(&[]));
    machine.events(ADA, 0, block(&["lttng_ust_statedump:start!", "shop:order"]), 100);
    machine.take_effects();
    machine.sync(ADA, 1);
    check(&mut machine, &["7: synced 1"]);
}

#[test]
fn a_record_id_restricts_a_session_to_its_programs() {
    let mut machine = machine();
    let mut own = identity("own");
    own.record_id = Some([9; 16]);
    let session = machine.create_session(own).unwrap();
    machine.enable_event(session, None, &rules(&["*"])).unwrap();
    machine.start(session, at(0)).unwrap();
    register(&mut machine, ADA, &["shop:order"]);
    assert_eq!(machine.sessions().ring_sets().count(), 0);
    machine.hello(
        BOB,
        facts(1000, 1),
        Hello {
            record_id: Some([9; 16]),
            ..hello(&[])
        },
    );
    machine.events(BOB, 1, block(&["shop:order"]), 100);
    assert_eq!(machine.sessions().ring_sets().count(), 1);
}

#[test]
fn a_program_that_disconnects_keeps_its_rings_until_it_dies() {
    let mut machine = machine();
    recording(&mut machine, "web", &["*"]);
    register(&mut machine, ADA, &["shop:order"]);
    machine.disconnected(ADA);
    check(&mut machine, &[]);
    machine.dead(ADA);
    check(&mut machine, &["consumer: program gone 1"]);
    machine.dead(ADA);
    check(&mut machine, &[]);
    machine.ring_set_done(1);
    check(&mut machine, &["drop 1"]);
    assert_eq!(machine.sessions().ring_sets().count(), 0);
}

#[test]
fn a_program_that_comes_back_keeps_its_rings_and_hears_what_changed() {
    let mut machine = machine();
    let session = recording(&mut machine, "web", &["shop:*", "other:*"]);
    register(&mut machine, ADA, &["shop:order", "other:thing"]);
    machine.disconnected(ADA);
    machine.disable_event(session, None, &["other:*".into()]).unwrap();
    machine.take_effects();
    machine.hello(ADA, facts(1000, 1), hello(&[1, 55]));
    check(&mut machine, &["7: gone 55"]);
    machine.events(ADA, 1, block(&["shop:order", "other:thing"]), 100);
    check(&mut machine, &["7: disable 1 1.1=0", "7: enable 1 1.0=0"]);
    machine.sync(ADA, 3);
    check(&mut machine, &["7: synced 3"]);
}

#[test]
fn a_program_that_comes_back_without_its_rings_gets_them_again() {
    let mut machine = machine();
    recording(&mut machine, "web", &["shop:*"]);
    register(&mut machine, ADA, &["shop:order"]);
    machine.disconnected(ADA);
    machine.hello(ADA, facts(1000, 1), hello(&[]));
    check(&mut machine, &["7: channel 1"]);
}

#[test]
fn a_process_that_runs_another_executable_is_another_program() {
    let mut machine = machine();
    recording(&mut machine, "web", &["*"]);
    register(&mut machine, ADA, &["shop:order"]);
    machine.disconnected(ADA);
    let next = ProgramId { instance_id: 71, ..ADA };
    machine.hello(next, facts(1000, 1), hello(&[]));
    check(&mut machine, &["consumer: program gone 1"]);
    // Two copies of the library in one process are both alive.
    machine.events(next, 1, block(&["shop:order"]), 100);
    machine.hello(ProgramId { instance_id: 72, ..ADA }, facts(1000, 1), hello(&[]));
    machine.take_effects();
    assert!(machine.is_alive(2));
}

#[test]
fn a_later_process_of_the_same_number_does_not_inherit_rings() {
    let mut machine = machine();
    recording(&mut machine, "web", &["*"]);
    register(&mut machine, ADA, &["shop:order"]);
    machine.disconnected(ADA);
    machine.hello(ADA, facts(1000, 2), hello(&[1]));
    assert!(!machine.is_alive(1));
}

#[test]
fn limits_on_what_a_program_registers_are_findings() {
    let mut machine = machine();
    machine.hello(ADA, facts(1000, 1), hello(&[]));
    machine.events(ADA, 1, block(&["a:b"]), super::super::programs::DESCRIPTION_BYTES_MAX);
    machine.events(ADA, 2, block(&["a:c"]), 1);
    let (_, program) = machine.programs().next().unwrap();
    assert_eq!(program.events().count(), 1);
    assert_eq!(program.findings.list().len(), 1);
    machine.module_gone(ADA, 1);
    machine.events(ADA, 3, block(&["a:c"]), 1);
    assert_eq!(machine.programs().next().unwrap().1.events().count(), 1);
}

#[test]
fn a_refusal_is_a_finding_and_no_reason_to_try_again() {
    let mut machine = machine();
    let session = recording(&mut machine, "web", &["*"]);
    register(&mut machine, ADA, &["shop:order"]);
    machine.refused(ADA, 1, "no memory");
    machine.refused(ADA, 7, "of a ring set that it never had");
    let findings = machine.notes(session).unwrap().findings.list();
    assert_eq!(findings[0].what, "shop (pid 7) is not recorded: no memory");
    assert_eq!(findings.len(), 1);
    machine.events(ADA, 2, block(&["shop:pay"]), 100);
    check(&mut machine, &["consumer: class 1/0 1 shop:pay", "7: enable 1 2.0=1"]);
}

#[test]
fn a_hole_in_a_ring_leads_to_a_new_ring_set() {
    let mut machine = machine();
    recording(&mut machine, "web", &["*"]);
    register(&mut machine, ADA, &["shop:order", "lttng_ust_statedump:start!"]);
    machine.ring_recovered(1);
    check(
        &mut machine,
        &[
            "make 2 piste:web:default recording",
            "consumer: rings 1/0 2 of 7 from 2",
            "7: channel 2 for 1",
            "7: enable 2 1.0=0 1.1=1",
            "7: sync 3",
        ],
    );
    machine.ring_recovered(1);
    check(&mut machine, &[]);
    // Until it says so, the program may record into the old one.
    machine.confirmed(BOB, 3);
    machine.confirmed(ADA, 2);
    check(&mut machine, &[]);
    machine.confirmed(ADA, 3);
    check(&mut machine, &["consumer: retire 1"]);
    machine.confirmed(ADA, 3);
    check(&mut machine, &[]);
    machine.ring_set_done(1);
    check(&mut machine, &["7: gone 1", "drop 1"]);
    machine.dead(ADA);
    check(&mut machine, &["consumer: program gone 2"]);
}

#[test]
fn a_program_that_dies_before_it_moved_leaves_both_ring_sets() {
    let mut machine = machine();
    recording(&mut machine, "web", &["*"]);
    register(&mut machine, ADA, &["shop:order"]);
    machine.ring_recovered(1);
    machine.take_effects();
    machine.dead(ADA);
    check(&mut machine, &["consumer: program gone 2", "consumer: program gone 1"]);
    machine.confirmed(ADA, 3);
    check(&mut machine, &[]);
    machine.ring_set_done(1);
    check(&mut machine, &["drop 1"]);
}

#[test]
fn a_hole_in_the_new_ring_set_says_that_the_program_has_moved() {
    let mut machine = machine();
    recording(&mut machine, "web", &["*"]);
    register(&mut machine, ADA, &["shop:order"]);
    machine.ring_recovered(1);
    machine.take_effects();
    machine.ring_recovered(2);
    check(
        &mut machine,
        &[
            "consumer: retire 1",
            "make 3 piste:web:default recording",
            "consumer: rings 1/0 3 of 7 from 4",
            "7: channel 3 for 2",
            "7: enable 3 1.0=0",
            "7: sync 4",
        ],
    );
}

#[test]
fn a_program_that_is_away_gets_the_new_ring_set_when_it_is_back() {
    let mut machine = machine();
    recording(&mut machine, "web", &["*"]);
    register(&mut machine, ADA, &["shop:order"]);
    machine.disconnected(ADA);
    machine.take_effects();
    machine.ring_recovered(1);
    check(&mut machine, &[]);
    machine.hello(ADA, facts(1000, 1), hello(&[1]));
    check(
        &mut machine,
        &[
            "make 2 piste:web:default recording",
            "consumer: rings 1/0 2 of 7 from 2",
            "7: channel 2 for 1",
            "7: sync 3",
        ],
    );
    // And once more, as it went before it obeyed.
    machine.disconnected(ADA);
    machine.hello(ADA, facts(1000, 1), hello(&[1]));
    check(&mut machine, &["7: channel 2 for 1", "7: sync 4"]);
    machine.disconnected(ADA);
    machine.hello(ADA, facts(1000, 1), hello(&[2]));
    check(&mut machine, &["consumer: retire 1"]);
}

/// What people are told of the session.
fn findings(machine: &Machine, session: SessionId) -> Vec<String> {
    let findings = machine.notes(session).map(|notes| notes.findings.list());
    findings
        .unwrap_or_default()
        .into_iter()
        .map(|finding| finding.what)
        .collect()
}

#[test]
fn ring_sets_of_one_users_programs_leave_room_for_others() {
    let mut machine = machine();
    machine.limit_ring_sets(8);
    let session = recording(&mut machine, "all", &["*"]);
    let id = |pid| ProgramId { pid, instance_id: 1 };
    for pid in 1..=4 {
        register(&mut machine, id(pid), &["shop:order", "shop:pay"]);
        // It lives on, and its ring set with it.
        machine.disconnected(id(pid));
    }
    assert_eq!(machine.sessions().holdings().of(1000), 2);
    assert_eq!(
        findings(&machine, session),
        [3, 4].map(|pid| format!(
            "shop (pid {pid}) is not recorded: programs of user 1000 have the maximum number of ring sets for one user (2)"
        ))
    );
    machine.hello(id(9), facts(1001, 1), hello(&[]));
    machine.events(id(9), 1, block(&["shop:order"]), 100);
    assert_eq!(machine.sessions().holdings().of(1001), 1);
    machine.dead(id(1));
    let key = machine.sessions().ring_sets().next().unwrap().0;
    machine.ring_set_done(key);
    assert_eq!(machine.sessions().holdings().of(1000), 1);
}

/// Finding a class among those of the same name takes no longer than among others; this would take minutes otherwise.
#[test]
fn one_users_programs_bring_no_more_classes_than_their_share() {
    let mut machine = machine();
    let session = recording(&mut machine, "all", &["*"]);
    let field = |number: u32| Field {
        name: format!("field_{number}"),
        kind: FieldKind::Text,
    };
    let described = |index| EventDescription {
        index,
        name: "shop:order".into(),
        level: 13,
        fields: vec![field(index)],
        nowrite: vec![],
    };
    let same_name = Rc::new(EventBlock::from((0..65_000).map(described).collect::<Vec<_>>()));
    machine.hello(ADA, facts(1000, 1), hello(&[]));
    machine.events(ADA, 1, same_name, 100);
    let count = |machine: &Machine| machine.session(session).channels[0].classes.len();
    assert_eq!(count(&machine), 65_536 / 4);
    let told = findings(&machine, session);
    assert!(
        told.len() == 1 && told[0].contains("programs of user 1000 have 16384"),
        "{told:?}"
    );
    machine.hello(BOB, facts(1001, 1), hello(&[]));
    machine.events(BOB, 1, block(&["shop:pay"]), 100);
    assert_eq!(count(&machine), 65_536 / 4 + 1);
}

fn add_contexts(machine: &mut Machine, session: SessionId, names: &[&str]) -> Pending {
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let (settings, pending) = machine.add_contexts(session, None, &names).unwrap();
    assert!(names.iter().all(|name| settings.contexts.names().contains(name)));
    pending
}

#[test]
fn a_channel_that_nobody_recorded_into_gets_contexts_itself() {
    let mut machine = machine();
    let session = recording(&mut machine, "web", &["shop:*"]);
    machine.take_effects();
    let pending = add_contexts(&mut machine, session, &["procname"]);
    assert!(pending.programs.is_empty());
    check(&mut machine, &["consumer: channel 1/0 default"]);
    register(&mut machine, ADA, &["shop:order"]);
    machine.take_effects();
    assert!(
        add_contexts(&mut machine, session, &["vtid", "procname"])
            .programs
            .is_empty()
    );
    check(&mut machine, &[]);
}

#[test]
fn programs_move_to_the_channel_that_has_more_contexts() {
    let mut machine = machine();
    let session = recording(&mut machine, "web", &["shop:*"]);
    register(&mut machine, ADA, &["shop:order", "shop:pay", "bank:fail"]);
    register(&mut machine, BOB, &["bank:fail"]);
    machine.take_effects();
    let pending = add_contexts(&mut machine, session, &["procname"]);
    // Who records nothing hears nothing.
    assert_eq!(pending.programs, BTreeSet::from([ADA]));
    check(
        &mut machine,
        &[
            "consumer: channel 1/1 default",
            "consumer: class 1/1 0 shop:order",
            "consumer: class 1/1 1 shop:pay",
            "make 2 piste:web:default recording",
            "consumer: rings 1/1 2 of 7 from 2",
            "7: channel 2 for 1",
            "7: sync 3",
            "7: enable 2 1.0=0 1.1=1",
            "7: sync 4",
        ],
    );
    machine.confirmed(ADA, 4);
    check(&mut machine, &["consumer: retire 1"]);
    // Rules are those of the new one, of the same name.
    let rules = RulesRequest {
        patterns: vec!["bank:*".into()],
        excluded: vec![],
        levels: Levels::ALL,
        filter: None,
    };
    machine.enable_event(session, None, &rules).unwrap();
    check(
        &mut machine,
        &[
            "consumer: class 1/1 2 bank:fail",
            "7: enable 2 1.2=2",
            "make 3 piste:web:default recording",
            "consumer: rings 1/1 3 of 8 from 4",
            "8: channel 3",
            "8: enable 3 1.0=2",
            "7: sync 5",
            "8: sync 5",
        ],
    );
    let summary = machine.sessions().summary();
    assert_eq!(replay(&summary).summary(), summary);
}

#[test]
fn a_program_that_is_away_moves_when_it_is_back_even_to_another_pisted() {
    let mut machine = machine();
    let session = recording(&mut machine, "web", &["shop:*"]);
    register(&mut machine, ADA, &["shop:order"]);
    machine.disconnected(ADA);
    add_contexts(&mut machine, session, &["procname"]);
    add_contexts(&mut machine, session, &["prio"]);
    machine.take_effects();
    let expected = [
        "make 2 piste:web:default recording",
        "consumer: rings 1/2 2 of 7 from 2",
        "7: channel 2 for 1",
        "7: sync",
    ];
    let mut next = machine_after(replay(&machine.sessions().summary()));
    for machine in [&mut machine, &mut next] {
        machine.hello(ADA, facts(1000, 1), hello(&[1]));
        let effects = machine.take_effects();
        let shown = effects
            .iter()
            .filter(|effect| !matches!(effect, Effect::Record(_)))
            .map(show);
        let shown: Vec<String> = shown.collect();
        assert_eq!(shown.len(), expected.len(), "{shown:?}");
        for (shown, expected) in shown.iter().zip(expected) {
            assert!(shown.starts_with(expected), "{shown} is not {expected}");
        }
    }
}
