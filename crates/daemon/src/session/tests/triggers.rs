// SPDX-License-Identifier: MIT OR Apache-2.0
//! What triggers act on.

use super::*;
use crate::link::{Match, Purpose};
use crate::session::Refusal;
use crate::session::triggers::{self, Act, Action, ActionKind, TriggerRequest};

fn wanted(name: &str) -> TriggerRequest {
    TriggerRequest {
        name: Some(name.into()),
        ..TriggerRequest::default()
    }
}

/// A trigger that looks.
fn trigger(machine: &mut Machine, request: TriggerRequest) -> SessionId {
    let trigger = machine.settle_trigger(request).unwrap();
    let session = SessionIdentity {
        never_current: true,
        trigger: Some(Box::new(trigger.clone())),
        ..identity(&format!("trigger/{}", trigger.name))
    };
    let session = machine.create_trigger(session).unwrap();
    machine
        .enable_channel(session, &triggers::channel(triggers::CHANNEL, vec![]))
        .unwrap();
    machine
        .enable_event(session, Some(triggers::CHANNEL), &rules(&["shop:late"]))
        .unwrap();
    machine.start(session, at(0)).unwrap();
    session
}

fn found(time_ns: i64) -> Match {
    Match {
        event: "shop:late".into(),
        time_ns,
        pid: 7,
        contexts: "{}".into(),
        fields: "{}".into(),
        duration_ns: None,
    }
}

/// The numbers of acts, with how many matches were suppressed before each.
fn numbers(acts: &[Act]) -> Vec<(u64, u64)> {
    acts.iter().map(|act| (act.number, act.suppressed)).collect()
}

#[test]
fn programs_record_what_a_trigger_waits_for_as_for_any_session() {
    let mut machine = machine();
    register(&mut machine, ADA, &["shop:order", "shop:late"]);
    let session = trigger(&mut machine, wanted("late"));
    let effects = machine.take_effects();
    let opened = effects.iter().any(|effect| {
        let Effect::Consumer(Domain::User, ToConsumer::OpenSession(opening)) = effect else {
            return false;
        };
        opening.session == session && matches!(opening.purpose, Purpose::Trigger { lapse: None, .. })
    });
    assert!(opened);
    assert!(effects.iter().map(show).any(|shown| shown == "7: enable 1 1.1=0"));
}

#[test]
fn a_trigger_is_no_session_that_people_can_name() {
    let mut machine = machine();
    trigger(&mut machine, wanted("late"));
    for name in ["late", "trigger/late", ".late"] {
        let refusal = machine.find_session(&asked(Some(name)));
        assert!(matches!(refusal, Err(Refusal::NoSession { nearest, .. }) if nearest.is_empty()));
    }
    assert_eq!(machine.find_session(&asked(None)), Err(Refusal::NoCurrentSession));
    assert!(machine.named_session_ids().is_empty());
    assert!(machine.create_session(identity("late")).is_ok());
    assert!(machine.create_session(identity("trigger/late")).is_err());
}

#[test]
fn names_of_triggers_are_their_own() {
    let mut machine = machine();
    trigger(&mut machine, wanted("late"));
    assert!(matches!(
        machine.settle_trigger(wanted("late")),
        Err(Refusal::TriggerExists { .. })
    ));
    assert!(machine.settle_trigger(wanted("-x")).is_err());
    trigger(&mut machine, TriggerRequest::default());
    trigger(&mut machine, TriggerRequest::default());
    let names: Vec<&str> = machine.triggers().map(|(_, _, trigger)| &*trigger.name).collect();
    assert_eq!(names, ["late", "trigger-1", "trigger-2"]);
}

#[test]
fn only_the_owner_and_root_reach_a_trigger() {
    let mut machine = machine();
    let session = trigger(&mut machine, wanted("late"));
    assert_eq!(machine.find_own_trigger("late", &Person::default()), Ok(session));
    let other = Person::of_user(1000);
    assert!(matches!(
        machine.find_own_trigger("late", &other),
        Err(Refusal::NoPermission { .. })
    ));
    assert!(matches!(
        machine.find_own_trigger("lat", &other),
        Err(Refusal::NoTrigger { nearest, .. }) if nearest == ["late"]
    ));
}

#[test]
fn a_trigger_acts_so_many_times_in_any_second_and_counts_the_rest() {
    let mut machine = machine();
    let request = TriggerRequest {
        per_second: Some(2),
        ..wanted("late")
    };
    let session = trigger(&mut machine, request);
    let matches = |count: u64| (0..count as i64).map(found).collect::<Vec<_>>();
    assert_eq!(
        numbers(&machine.matched(session, matches(5), 5, usize::MAX, at(100))),
        [(1, 0), (2, 0)]
    );
    // Of others, only the number is known.
    assert!(
        machine
            .matched(session, matches(1), 10, usize::MAX, at(1_000_000_099))
            .is_empty()
    );
    let acts = machine.matched(session, matches(3), 3, usize::MAX, at(1_000_000_100));
    assert_eq!(numbers(&acts), [(3, 13), (4, 0)]);
    let state = machine.session(session);
    let lately = machine.notes(session).unwrap().lately.matched;
    assert_eq!((state.deeds.acted, state.deeds.matched + lately), (4, 18));
}

#[test]
fn a_trigger_acts_so_many_times_in_all_also_for_the_next_pisted() {
    let mut machine = machine();
    let request = TriggerRequest {
        at_most: Some(3),
        actions: vec![Action {
            kind: ActionKind::Snapshot,
            session: "flight".into(),
        }],
        ..wanted("late")
    };
    let session = trigger(&mut machine, request);
    let mut journal = changes(machine.take_effects());
    assert_eq!(
        machine
            .matched(session, vec![found(1), found(2)], 2, usize::MAX, at(1))
            .len(),
        2
    );
    assert!(!machine.session(session).is_spent());
    journal.extend(changes(machine.take_effects()));
    for sessions in [replay(&journal), replay(&replay(&journal).summary())] {
        let mut next = machine_after(sessions);
        let state = next.session(session);
        assert_eq!(state.deeds.acted, 2);
        assert_eq!(state.identity.trigger, machine.session(session).identity.trigger);
        let acts = next.matched(session, vec![found(3), found(4)], 2, usize::MAX, at(2));
        assert_eq!(numbers(&acts), [(3, 0)]);
        assert!(next.session(session).is_spent());
        assert_eq!(next.session(session).deeds.last_ns, Some(3));
    }
}

#[test]
fn a_trigger_that_is_busy_counts() {
    let mut machine = machine();
    let session = trigger(&mut machine, wanted("late"));
    let matches = || vec![found(1), found(2), found(3)];
    assert_eq!(numbers(&machine.matched(session, matches(), 3, 1, at(1))), [(1, 0)]);
    assert!(machine.matched(session, matches(), 3, 0, at(2)).is_empty());
    assert_eq!(numbers(&machine.matched(session, matches(), 3, 1, at(3))), [(2, 5)]);
}

#[test]
fn matches_of_a_trigger_that_is_gone_lead_to_nothing() {
    let mut machine = machine();
    let session = trigger(&mut machine, wanted("late"));
    machine.destroy(session, at(1));
    assert_eq!(
        machine.matched(session, vec![found(1)], 1, usize::MAX, at(1)).len(),
        1,
        "it is told to the end"
    );
    machine.session_ended(session);
    assert!(
        machine
            .matched(session, vec![found(1)], 1, usize::MAX, at(1))
            .is_empty()
    );
    assert!(machine.matched(99, vec![found(1)], 1, usize::MAX, at(1)).is_empty());
}

#[test]
fn settings_that_cannot_be_are_refused() {
    let machine = machine();
    let refused = |request| matches!(machine.settle_trigger(request), Err(Refusal::InvalidSetting { .. }));
    for per_second in [0, -1, 1001] {
        assert!(refused(TriggerRequest {
            per_second: Some(per_second),
            ..wanted("late")
        }));
    }
    assert!(refused(TriggerRequest {
        at_most: Some(0),
        ..wanted("late")
    }));
    let action = Action {
        kind: ActionKind::Stop,
        session: "web".into(),
    };
    assert!(refused(TriggerRequest {
        actions: vec![action; 17],
        ..wanted("late")
    }));
}
