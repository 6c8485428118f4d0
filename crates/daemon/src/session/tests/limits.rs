// SPDX-License-Identifier: MIT OR Apache-2.0
//! What people and programs ask beyond the limits: refused, or counted as not recorded.

use std::collections::BTreeSet;

use super::super::catching_up::COMPARISON_COUNT_MAX;
use super::super::programs::{DESCRIPTION_BYTES_MAX, EVENT_COUNT_MAX, REGISTERED_EVENT_COUNT_MAX};
use super::super::rules::{PATTERNS, RuleLimit, TESTS};
use super::*;
use crate::session::{Refusal, Starting};

fn numbered(name: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{name}:{number}")).collect()
}

/// A pattern of as many rules, each with as many exclusions.
fn many_rules(name: &str, patterns: usize, excluded: usize) -> RulesRequest {
    RulesRequest {
        patterns: numbered(name, patterns),
        excluded: numbered("not", excluded),
        levels: Levels::ALL,
        filter: None,
    }
}

fn not_recorded(machine: &Machine, session: SessionId) -> u64 {
    machine.session(session).programs_not_recorded
}

#[test]
fn a_channel_has_so_many_patterns_and_no_more() {
    let mut machine = machine();
    let session = machine.create_session(identity("web")).unwrap();
    machine.take_effects();
    for (patterns, excluded) in [
        (PATTERNS.of_channel + 1, 0),
        (PATTERNS.of_channel / 4, 4),
        (58_000, 58_000),
    ] {
        let refused = machine.enable_event(session, None, &many_rules("a", patterns, excluded));
        assert!(matches!(refused, Err(Refusal::InvalidSetting { .. })), "{refused:?}");
    }
    assert_eq!(machine.take_effects(), [], "not even the channel is made");

    let most = many_rules("a", PATTERNS.of_channel / 4, 3);
    machine.enable_event(session, None, &most).unwrap();
    machine.enable_event(session, None, &most).expect("they are known");
    assert!(machine.enable_event(session, None, &rules(&["b:c"])).is_err());
    assert_eq!(
        machine.session(session).channels[0].rules.len(),
        PATTERNS.of_channel / 4
    );
    machine.disable_event(session, None, &numbered("a", 3)).unwrap();
    let repeated = vec!["a:1".to_owned(); PATTERNS.of_channel + 1];
    let refused = machine.disable_event(session, None, &repeated);
    assert!(matches!(refused, Err(Refusal::InvalidSetting { .. })), "{refused:?}");
}

/// A rule for every event, whose filter has so many comparisons.
fn filtered(tests: usize) -> RulesRequest {
    let filter: Vec<String> = (0..tests).map(|number| format!("id == {number}")).collect();
    RulesRequest {
        filter: Some(filter.join(" || ")),
        ..rules(&["*"])
    }
}

#[test]
fn the_filters_of_a_channel_have_so_many_comparisons_and_no_more() {
    let mut machine = machine();
    let session = machine.create_session(identity("web")).unwrap();
    let refused = machine.enable_event(session, None, &filtered(TESTS.of_channel + 1));
    assert!(matches!(refused, Err(Refusal::InvalidSetting { .. })), "{refused:?}");
    let twice = RulesRequest {
        patterns: vec!["a:*".into(), "b:*".into()],
        ..filtered(TESTS.of_channel / 2 + 1)
    };
    assert!(machine.enable_event(session, None, &twice).is_err(), "of two rules");
    machine
        .enable_event(session, None, &filtered(TESTS.of_channel))
        .unwrap();
    machine
        .enable_event(session, None, &filtered(1))
        .expect("it replaces the other");
}

#[test]
fn one_users_sessions_leave_rules_for_others() {
    let of_filters = filtered(TESTS.of_channel);
    for (limit, request) in [(PATTERNS, many_rules("a", PATTERNS.of_channel, 0)), (TESTS, of_filters)] {
        leave_some_for_others(&limit, &request);
    }
}

/// `request` takes all that a channel may have.
fn leave_some_for_others(limit: &RuleLimit, request: &RulesRequest) {
    let mut machine = machine();
    let mut fill = |uid, name: &str| {
        let owner = Person::of_user(uid);
        let session = machine
            .create_session(SessionIdentity {
                owner,
                ..identity(name)
            })
            .unwrap();
        machine.enable_event(session, None, request)
    };
    for number in 0..limit.of_all / 4 / limit.of_channel {
        fill(1000, &format!("s{number}")).unwrap();
    }
    let refused = fill(1000, "more");
    assert!(matches!(refused, Err(Refusal::NoPermission { .. })), "{refused:?}");
    fill(1001, "others").unwrap();
}

#[test]
fn a_message_without_events_leaves_nothing_behind() {
    let mut machine = machine();
    machine.hello(ADA, facts(1000, 1), hello(&[]));
    (0..1000).for_each(|module| machine.events(ADA, module, block(&[]), 0));
    assert_eq!(machine.programs[&ADA].blocks().len(), 0);
    machine.events(ADA, 5000, block(&["shop:order"]), 100);
    assert_eq!(machine.programs[&ADA].blocks().len(), 1);
}

#[test]
fn what_a_program_has_beyond_its_limits_is_counted_where_it_is_missing() {
    let mut machine = machine();
    let shop = recording(&mut machine, "shop", &["shop:*"]);
    let other = recording(&mut machine, "other", &["other:*"]);
    machine.hello(ADA, facts(1000, 1), hello(&[]));
    machine.events(ADA, 1, block(&["shop:order"]), DESCRIPTION_BYTES_MAX);
    machine.events(ADA, 2, block(&["shop:pay", "shop:ship"]), 1);
    machine.events(ADA, 3, block(&["shop:more"]), 1);
    assert_eq!((not_recorded(&machine, shop), not_recorded(&machine, other)), (1, 0));
    // Nobody remembers what was beyond, so it may be missing in every session that comes later.
    machine.enable_event(other, None, &rules(&["shop:*"])).unwrap();
    assert_eq!(not_recorded(&machine, other), 1);
    let later = recording(&mut machine, "later", &["shop:*"]);
    assert_eq!((not_recorded(&machine, shop), not_recorded(&machine, later)), (1, 1));
}

#[test]
fn one_users_programs_leave_events_for_others() {
    let mut machine = machine();
    let session = recording(&mut machine, "shop", &["shop:*"]);
    let id = |pid| ProgramId { pid, instance_id: 1 };
    let names: Vec<String> = numbered("a", EVENT_COUNT_MAX);
    let large = block(&names.iter().map(|name| &**name).collect::<Vec<_>>());
    let share = REGISTERED_EVENT_COUNT_MAX / 4 / EVENT_COUNT_MAX;
    for pid in 1..=share as i32 {
        machine.hello(id(pid), facts(1000, 1), hello(&[]));
        machine.events(id(pid), 1, large.clone(), 100);
    }
    register(&mut machine, ADA, &["shop:order"]);
    register(&mut machine, ProgramId { pid: 99, ..BOB }, &["shop:order"]);
    assert_eq!(
        (not_recorded(&machine, session), machine.sessions().ring_sets().count()),
        (2, 0)
    );
    machine.hello(BOB, facts(1001, 1), hello(&[]));
    machine.events(BOB, 1, block(&["shop:order"]), 100);
    assert_eq!(machine.sessions().ring_sets().count(), 1);
    // Whatever goes makes room.
    machine.module_gone(id(1), 1);
    machine.events(ADA, 2, block(&["shop:order"]), 100);
    assert_eq!(machine.sessions().ring_sets().count(), 2);
    machine.events(id(1), 1, large.clone(), 100);
    machine.disconnected(id(2));
    machine.dead(id(3));
    machine.events(id(1), 2, block(&["shop:order"]), 100);
    assert_eq!(
        machine.programs[&id(1)].blocks().len(),
        1,
        "one program has as many as it may"
    );
    machine.events(ADA, 3, block(&["shop:pay"]), 100);
    assert_eq!(machine.programs[&ADA].blocks().len(), 2);
}

#[test]
fn a_program_that_is_disconnected_is_counted_where_something_may_be_missing() {
    let mut machine = machine();
    let shop = recording(&mut machine, "shop", &["shop:*"]);
    let other = recording(&mut machine, "other", &["other:*"]);
    register(&mut machine, ADA, &["shop:order"]);
    machine.misbehaved(ADA, "it sent nonsense");
    machine.disconnected(ADA);
    assert_eq!((not_recorded(&machine, shop), not_recorded(&machine, other)), (1, 0));
    // Nobody knows which events it has.
    machine.hello(BOB, facts(1000, 1), hello(&[]));
    machine.misbehaved(BOB, "it sent nonsense");
    assert_eq!((not_recorded(&machine, shop), not_recorded(&machine, other)), (2, 1));
}

#[test]
fn refused_programs_are_counted_and_named_once() {
    let mut machine = machine();
    let session = recording(&mut machine, "web", &["*"]);
    (0..10).for_each(|_| machine.not_registered("user 1000 has enough", 10));
    assert_eq!(not_recorded(&machine, session), 100);
    let findings = machine.notes(session).unwrap().findings.list();
    assert_eq!((findings.len(), findings[0].count), (1, 100));
}

/// A process that passed its connection on may be gone, and its number be another user's by the time HELLO comes.
#[test]
fn programs_of_one_user_bury_none_of_anothers() {
    let mut machine = machine();
    recording(&mut machine, "web", &["*"]);
    register(&mut machine, ADA, &["shop:order"]);
    machine.disconnected(ADA);
    let liar = ProgramId { instance_id: 71, ..ADA };
    machine.hello(liar, facts(1001, 1), hello(&[]));
    assert!(machine.is_alive(1));
    // A process that started at another time is another one, whoever says so.
    machine.hello(liar, facts(1001, 2), hello(&[]));
    assert!(!machine.is_alive(1));
}

/// What programs are told.
fn tells(machine: &mut Machine) -> Vec<String> {
    let effects = machine.take_effects();
    let tells = effects.iter().filter(|effect| matches!(effect, Effect::Tell { .. }));
    tells.map(show).collect()
}

#[test]
fn programs_hear_of_a_start_step_by_step() {
    let mut machine = machine();
    let id = |pid| ProgramId { pid, instance_id: 1 };
    let names: Vec<String> = numbered("a", COMPARISON_COUNT_MAX / 20);
    let large = block(&names.iter().map(|name| &**name).collect::<Vec<_>>());
    for pid in 1..=3 {
        machine.hello(id(pid), facts(1000, 1), hello(&[]));
        machine.events(id(pid), 1, large.clone(), 100);
        machine.sync(id(pid), 1);
    }
    register(&mut machine, ADA, &["shop:order"]);
    let session = machine.create_session(identity("shop")).unwrap();
    let request = RulesRequest {
        excluded: numbered("not", 20),
        ..rules(&["shop:*"])
    };
    machine.enable_event(session, None, &request).unwrap();
    machine.take_effects();
    let Starting::Programs(pending) = machine.start(session, at(0)).unwrap() else {
        panic!("no kernel channel")
    };
    assert!(machine.is_behind());
    assert_eq!(
        pending.programs,
        BTreeSet::from([ADA, id(2), id(3)]),
        "the small one first"
    );
    assert_eq!(tells(&mut machine), ["7: channel 1", "7: enable 1 1.0=0", "7: sync 2"]);

    // What it registers meanwhile is recorded at once, and what it had as well, in its turn.
    machine.events(id(3), 2, block(&["shop:pay"]), 100);
    machine.events(id(2), 2, block(&["b:c"]), 100);
    assert_eq!(tells(&mut machine), ["3: channel 2", "3: enable 2 2.0=1"]);
    machine.enable_event(session, None, &rules(&["b:*"])).unwrap();
    assert_eq!(tells(&mut machine), [""; 0], "one after the other");
    let mut silent = Vec::new();
    while machine.is_behind() {
        silent.extend(machine.catch_up());
    }
    let told = tells(&mut machine);
    assert!(told.contains(&"3: enable 2 2.0=1".to_owned()), "{told:?}");
    assert!(told.contains(&"2: enable 3 2.0=2".to_owned()), "{told:?}");
    // Those that were told nothing are not waited for.
    assert!(silent.iter().all(|&(_, token)| token > pending.token), "{silent:?}");
    assert!(silent.iter().any(|&(program, _)| program == id(1)), "{silent:?}");
}

/// It has answered when it knows everything.
#[test]
fn a_program_with_many_events_hears_of_rules_in_parts() {
    let mut machine = machine();
    let session = recording(&mut machine, "shop", &["b:*"]);
    machine.hello(ADA, facts(1000, 1), hello(&[]));
    let names: Vec<String> = numbered("a", 4096);
    let large = block(&names.iter().map(|name| &**name).collect::<Vec<_>>());
    for module in 1..=5 {
        machine.events(ADA, module, large.clone(), 100);
        machine.events(ADA, module, block(&[&format!("shop:e{module}")]), 100);
    }
    machine.events(ADA, 6, block(&["b:c"]), 100);
    machine.take_effects();
    let request = RulesRequest {
        patterns: vec!["shop:*".into()],
        ..filtered(4)
    };
    let (_, pending) = machine.enable_event(session, None, &request).unwrap();
    assert!(machine.is_behind());
    assert_eq!(pending.programs, BTreeSet::from([ADA]));
    let mut told = tells(&mut machine);
    assert!(told.len() < 5, "{told:?}");
    let mut steps = 0;
    while machine.is_behind() {
        assert_eq!(machine.catch_up(), [], "it was told something");
        told.extend(tells(&mut machine));
        steps += 1;
    }
    assert!(steps > 1, "{told:?}");
    let (last, enabled) = told.split_last().unwrap();
    assert_eq!(*last, format!("7: sync {}", pending.token));
    let expected: Vec<String> = (1..=5)
        .map(|module| format!("7: enable 1 {module}.0={module} if"))
        .collect();
    assert_eq!(enabled, expected);
}

#[test]
fn news_of_a_session_that_is_gone_reach_nobody() {
    let mut machine = machine();
    let names: Vec<String> = numbered("a", COMPARISON_COUNT_MAX / 20);
    let large = block(&names.iter().map(|name| &**name).collect::<Vec<_>>());
    for id in [ADA, BOB] {
        machine.hello(id, facts(1000, 1), hello(&[]));
        machine.events(id, 1, large.clone(), 100);
    }
    let session = recording(&mut machine, "shop", &["shop:*"]);
    let many = many_rules("b", 1, 20);
    machine.enable_event(session, None, &many).unwrap();
    assert!(machine.is_behind());
    machine.destroy(session, at(1));
    machine.session_ended(session);
    machine.take_effects();
    while machine.is_behind() {
        machine.catch_up();
    }
    assert_eq!(machine.take_effects(), []);
    assert!(machine.notes(session).is_none());
}
