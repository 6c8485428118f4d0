// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that a session is about, and those that it leaves out.

use super::super::catching_up::COMPARISON_COUNT_MAX;
use super::*;
use crate::session::choice::{Choice, Kind, Value};
use crate::session::tracking::TrackingChange;
use crate::session::{Pending, Process, Refusal};

const CARL: ProgramId = ProgramId {
    pid: 9,
    instance_id: 90,
};

fn users(uids: &[u32]) -> Choice {
    Choice::default().with(Kind::User, Some(uids.iter().copied().map(Value::Number)))
}

fn process(pid: i32, start: u64) -> Process {
    Process { pid, start }
}

fn followed(process: Process) -> Choice {
    let values = Some([Value::Process(process)]);
    Choice::default().with(Kind::Process, values).following(true)
}

fn change(machine: &mut Machine, session: SessionId, change: TrackingChange) -> Pending {
    machine.change_tracked(session, Domain::User, &change).unwrap()
}

fn track(machine: &mut Machine, session: SessionId, choice: Choice) -> Pending {
    change(machine, session, TrackingChange::Track(choice))
}

fn untrack(machine: &mut Machine, session: SessionId, choice: Choice) -> Pending {
    change(machine, session, TrackingChange::Untrack(choice))
}

/// Takes the effects and compares them, the journal's left out, and that programs are to confirm them.
fn expect(machine: &mut Machine, expected: &[&str]) {
    let mut seen: Vec<String> = machine.take_effects().iter().map(show).collect();
    seen.retain(|effect| !effect.starts_with("record ") && !effect.contains(": sync "));
    assert_eq!(seen, expected);
}

/// A program of user 1000 with these ancestors. Its effects are taken.
fn descend(machine: &mut Machine, id: ProgramId, start: u64, ancestors: &[Process]) {
    let facts = ProcessFacts {
        ancestors: ancestors.to_vec(),
        ..facts(1000, start)
    };
    machine.hello(id, facts, hello(&[]));
    machine.events(id, 1, block(&["shop:order"]), 100);
    machine.sync(id, 1);
    machine.take_effects();
}

fn is_recorded(machine: &Machine, id: ProgramId) -> bool {
    machine.sessions().ring_sets_of(id).next().is_some()
}

#[test]
fn a_program_that_is_left_out_is_offered_nothing() {
    let mut machine = machine();
    let session = recording(&mut machine, "web", &["shop:*"]);
    track(&mut machine, session, users(&[5]));
    expect(&mut machine, &[]);
    machine.hello(ADA, facts(1000, 1), hello(&[]));
    machine.events(ADA, 1, block(&["shop:order", "other:thing"]), 100);
    machine.sync(ADA, 1);
    expect(&mut machine, &["7: synced 1"]);
    machine.enable_event(session, None, &rules(&["other:*"])).unwrap();
    expect(&mut machine, &[]);
    let notes = machine.notes(session).unwrap();
    assert_eq!(notes.left_out_count, 1);
    assert_eq!(notes.participants.list(9).len(), 0);
    assert_eq!(notes.participants.unmatched_events().count(), 0);
}

#[test]
fn programs_that_run_hear_at_once_whether_they_are_recorded() {
    let mut machine = machine();
    let session = recording(&mut machine, "web", &["shop:*"]);
    register(&mut machine, ADA, &["shop:order", "other:thing"]);
    machine.hello(BOB, facts(5, 1), hello(&[]));
    machine.events(BOB, 1, block(&["shop:order"]), 100);
    machine.take_effects();

    let pending = track(&mut machine, session, users(&[5]));
    assert_eq!(pending.programs, [ADA].into());
    expect(&mut machine, &["7: disable 1 1.0=0 1.1=0"]);
    machine.enable_event(session, None, &rules(&["other:*"])).unwrap();
    expect(&mut machine, &[]);

    track(&mut machine, session, users(&[1000]));
    expect(
        &mut machine,
        &["consumer: class 1/0 1 other:thing", "7: enable 1 1.0=0 1.1=1"],
    );
    untrack(&mut machine, session, users(&[5]));
    expect(&mut machine, &["8: disable 2 1.0=0"]);
    untrack(&mut machine, session, users(&[1000]));
    expect(&mut machine, &["7: disable 1 1.0=0 1.1=0"]);
    change(&mut machine, session, TrackingChange::Everything);
    expect(&mut machine, &["7: enable 1 1.0=0 1.1=1", "8: enable 2 1.0=0"]);
    assert_eq!(machine.notes(session).unwrap().left_out_count, 2);
}

#[test]
fn a_program_that_comes_to_a_session_late_gets_its_rings_then() {
    let mut machine = machine();
    let session = recording(&mut machine, "web", &["shop:*"]);
    track(&mut machine, session, users(&[5]));
    register(&mut machine, ADA, &["shop:order", "lttng_ust_statedump:start!"]);
    machine
        .enable_event(session, None, &rules(&["lttng_ust_statedump:*"]))
        .unwrap();
    track(&mut machine, session, users(&[1000]));
    expect(
        &mut machine,
        &[
            "consumer: class 1/0 0 shop:order",
            "consumer: class 1/0 1 lttng_ust_statedump:start",
            "make 1 piste:web:default recording",
            "consumer: rings 1/0 1 of 7 from 0",
            "7: channel 1",
            "7: enable 1 1.0=0 1.1=1",
            "7: dump 1",
        ],
    );
    untrack(&mut machine, session, users(&[1000]));
    machine.take_effects();
    track(&mut machine, session, users(&[1000]));
    // It may have loaded a library meanwhile.
    expect(&mut machine, &["7: enable 1 1.0=0 1.1=1", "7: dump 1"]);
}

#[test]
fn a_session_that_does_not_record_remembers_whom_it_is_about() {
    let mut machine = machine();
    let session = machine.create_session(identity("web")).unwrap();
    machine.enable_event(session, None, &rules(&["*"])).unwrap();
    register(&mut machine, ADA, &["shop:order"]);
    track(&mut machine, session, users(&[5]));
    expect(&mut machine, &[]);
    machine.start(session, at(0)).unwrap();
    assert!(!is_recorded(&machine, ADA));
    assert_eq!(machine.notes(session).unwrap().left_out_count, 1);
    change(&mut machine, session, TrackingChange::Everything);
    assert!(is_recorded(&machine, ADA));
    machine.stop(session, at(1)).unwrap();
    machine.take_effects();
    track(&mut machine, session, users(&[5]));
    expect(&mut machine, &["7: disable 1 1.0=0"]);
    machine.start(session, at(2)).unwrap();
    expect(&mut machine, &["consumer: start 1 #3"]);
}

#[test]
fn a_program_that_comes_back_while_it_is_left_out_has_nothing_enabled() {
    let mut machine = machine();
    let session = recording(&mut machine, "web", &["shop:*"]);
    register(&mut machine, ADA, &["shop:order"]);
    machine.disconnected(ADA);
    track(&mut machine, session, users(&[5]));
    machine.take_effects();
    machine.hello(ADA, facts(1000, 1), hello(&[1]));
    machine.events(ADA, 1, block(&["shop:order"]), 100);
    expect(&mut machine, &["7: disable 1 1.0=0"]);
}

#[test]
fn what_a_followed_process_started_is_recorded_also_after_its_parents_ended() {
    let mut machine = machine();
    let session = recording(&mut machine, "web", &["*"]);
    let (shell, init) = (process(3, 5), process(1, 0));
    track(&mut machine, session, followed(shell));
    descend(&mut machine, ADA, 10, &[shell, init]);
    // The shell has ended since; ADA is the child of init.
    descend(&mut machine, BOB, 20, &[process(ADA.pid, 10), init]);
    descend(&mut machine, CARL, 30, &[process(ADA.pid, 11), init]);
    assert!(is_recorded(&machine, ADA) && is_recorded(&machine, BOB));
    assert!(
        !is_recorded(&machine, CARL),
        "its parent only has the number of a followed one"
    );
}

#[test]
fn a_followed_process_is_still_followed_when_it_executes_another_program() {
    let mut machine = machine();
    let session = recording(&mut machine, "web", &["*"]);
    let (shell, init) = (process(3, 5), process(1, 0));
    track(&mut machine, session, followed(shell));
    descend(&mut machine, ADA, 10, &[shell, init]);
    machine.disconnected(ADA);
    let next = ProgramId { instance_id: 71, ..ADA };
    descend(&mut machine, next, 10, &[init]);
    assert!(is_recorded(&machine, next));
    // Another process with the same number.
    machine.dead(next);
    let other = ProgramId { instance_id: 72, ..ADA };
    descend(&mut machine, other, 40, &[init]);
    assert!(!is_recorded(&machine, other));
}

#[test]
fn a_new_pisted_knows_whom_a_session_is_about() {
    let mut earlier = machine();
    let session = earlier.create_session(identity("web")).unwrap();
    earlier.enable_event(session, None, &rules(&["*"])).unwrap();
    earlier.start(session, at(0)).unwrap();
    let (shell, init) = (process(3, 5), process(1, 0));
    track(&mut earlier, session, followed(shell));
    earlier.hello(
        ADA,
        ProcessFacts {
            ancestors: vec![shell, init],
            ..facts(1000, 10)
        },
        hello(&[]),
    );
    earlier.events(ADA, 1, block(&["shop:order"]), 100);
    let sessions = replay(&changes(earlier.take_effects()));
    assert_eq!(sessions.summary(), earlier.sessions().summary());
    let mut next = machine_after(replay(&sessions.summary()));
    // The shell has ended since.
    let orphan = ProcessFacts {
        ancestors: vec![init],
        ..facts(1000, 10)
    };
    next.hello(ADA, orphan, hello(&[1]));
    assert!(!next.is_left_out(ADA, session));
    descend(&mut next, BOB, 20, &[init]);
    assert!(next.is_left_out(BOB, session));
}

#[test]
fn a_wrong_value_changes_nothing() {
    let mut machine = machine();
    let session = recording(&mut machine, "web", &["*"]);
    track(&mut machine, session, users(&[5, 6]));
    machine.take_effects();
    let untrack = TrackingChange::Untrack(users(&[5, 7]));
    let refused = machine.change_tracked(session, Domain::User, &untrack);
    assert!(matches!(refused, Err(Refusal::NotTracked { .. })), "{refused:?}");
    assert_eq!(machine.take_effects(), []);
    assert_eq!(machine.session(session).tracked, users(&[5, 6]));
}

#[test]
fn many_events_are_told_in_steps() {
    let mut machine = machine();
    let session = machine.create_session(identity("web")).unwrap();
    let excluded: Vec<String> = (0..20).map(|number| format!("not:{number}")).collect();
    let request = RulesRequest {
        excluded,
        ..rules(&["a:*"])
    };
    machine.enable_event(session, None, &request).unwrap();
    machine.start(session, at(0)).unwrap();
    let names: Vec<String> = (0..COMPARISON_COUNT_MAX / 40)
        .map(|number| format!("a:{number}"))
        .collect();
    let large = block(&names.iter().map(|name| &**name).collect::<Vec<_>>());
    for id in [ADA, BOB] {
        machine.hello(id, facts(1000, 1), hello(&[]));
        for module in 1..=2 {
            machine.events(id, module, large.clone(), 100);
        }
    }
    machine.take_effects();
    let pending = track(&mut machine, session, users(&[5]));
    assert!(machine.is_behind());
    assert_eq!(pending.programs, [ADA, BOB].into());
    // A second change meets those that have not heard of the first.
    change(&mut machine, session, TrackingChange::Everything);
    while machine.is_behind() {
        machine.catch_up();
    }
    let mut enabled = [true; 2];
    for effect in machine.take_effects() {
        let Effect::Tell { program, message } = effect else {
            continue;
        };
        let enabled = &mut enabled[usize::from(program == BOB)];
        match message {
            ToProgram::Enable { .. } => *enabled = true,
            ToProgram::Disable { .. } => *enabled = false,
            _ => {}
        }
    }
    assert_eq!(enabled, [true; 2]);
}
