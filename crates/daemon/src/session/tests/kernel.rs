// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernel channels: what people ask, and what the kernel consumer is told.

use piste_kernel::spec::{CallPart, EventSource, Rule};

use super::*;
use crate::link::{Loss, RequestId};
use crate::session::choice::{Choice, Kind, Value};
use crate::session::tracking::TrackingChange;
use crate::session::{Refusal, Starting};

fn tracepoint(pattern: &str) -> Rule {
    rule(EventSource::Tracepoint {
        pattern: pattern.into(),
    })
}

fn rule(source: EventSource) -> Rule {
    Rule {
        source,
        excluded: vec![],
        filter: None,
        fields: vec![],
        stack: None,
        enabled: true,
    }
}

fn users(uids: &[u32]) -> Choice {
    Choice::default().with(Kind::User, Some(uids.iter().copied().map(Value::Number)))
}

/// Adds users to those that the kernel is recorded for. What to wait for.
fn track(machine: &mut Machine, session: SessionId, uids: &[u32]) -> Option<RequestId> {
    let change = TrackingChange::Track(users(uids));
    machine
        .change_tracked(session, Domain::Kernel, &change)
        .unwrap()
        .request
}

/// A session that records scheduler events, and programs too. Its effects are taken.
fn recording_kernel(machine: &mut Machine) -> SessionId {
    let session = machine.create_session(identity("web")).unwrap();
    let scheduler = vec![tracepoint("sched_*")];
    machine.enable_kernel_event(session, None, scheduler).unwrap();
    machine.enable_channel(session, &channel("default")).unwrap();
    machine.start(session, at(0)).unwrap();
    machine.start_programs(session);
    machine.take_effects();
    session
}

#[test]
fn a_session_is_flushed_in_the_domains_that_it_has_once_it_has_recorded() {
    let mut machine = machine();
    let session = recording_kernel(&mut machine);
    let asked = machine.flush(session);
    let effects = asked.iter().zip(["consumer", "kernel"]);
    let effects: Vec<String> = effects
        .map(|(request, who)| format!("{who}: flush 1 #{request}"))
        .collect();
    check(&mut machine, &effects.iter().map(String::as_str).collect::<Vec<_>>());
    // The consumers know whether everything is written of one that is being stopped.
    machine.stop(session, at(10)).unwrap();
    assert_eq!(machine.flush(session).len(), 2);
    machine.take_effects();
    let other = machine.create_session(identity("db")).unwrap();
    machine.take_effects();
    assert!(machine.flush(other).is_empty());
    machine.enable_channel(other, &channel("default")).unwrap();
    machine.enable_event(other, None, &rules(&["shop:*"])).unwrap();
    machine.start(other, at(20)).unwrap();
    assert_eq!(machine.flush(other).len(), 1);
}

#[test]
fn a_session_that_is_being_destroyed_is_found_by_who_waits_for_its_end() {
    let mut machine = machine();
    let session = recording_kernel(&mut machine);
    machine.destroy(session, at(10));
    let asked = |name: &str| Asked {
        session: Some(name.into()),
        by: Person::default(),
    };
    assert!(machine.find_session(&asked("web")).is_err());
    assert_eq!(machine.find_session_or_its_end(&asked("web")), Ok(session));
    assert!(machine.find_session_or_its_end(&asked("db")).is_err());
    machine.session_ended(session);
    assert!(machine.find_session_or_its_end(&asked("web")).is_err());
}

#[test]
fn the_kernel_consumer_hears_of_a_session_with_its_first_kernel_channel() {
    let mut machine = machine();
    let session = machine.create_session(identity("web")).unwrap();
    assert_eq!(track(&mut machine, session, &[7]), None);
    check(&mut machine, &["consumer: open 1"]);
    let scheduler = vec![tracepoint("sched_*"), tracepoint("irq:*")];
    let enabled = machine.enable_kernel_event(session, None, scheduler);
    assert_eq!(enabled, Ok((0, None)));
    check(
        &mut machine,
        &[
            "kernel: open 1",
            "kernel: tracked 1 [7]",
            "kernel: set 1/0 default []",
            "kernel: set 1/0 default [sched_* irq:*]",
        ],
    );
    machine.enable_kernel_channel(session, &channel("fast")).unwrap();
    check(&mut machine, &["kernel: set 1/1 fast []"]);
}

#[test]
fn the_kernel_records_around_the_programs() {
    let mut machine = machine();
    register(&mut machine, ADA, &["shop:order"]);
    let session = machine.create_session(identity("web")).unwrap();
    machine.enable_event(session, None, &rules(&["shop:*"])).unwrap();
    let scheduler = vec![tracepoint("sched_*")];
    machine.enable_kernel_event(session, None, scheduler).unwrap();
    machine.take_effects();

    assert_eq!(machine.start(session, at(0)), Ok(Starting::Kernel(1)));
    check(&mut machine, &["kernel: start 1 #1"]);
    assert_eq!(machine.start_programs(session).request, Some(2));
    check(
        &mut machine,
        &[
            "consumer: start 1 #2",
            "consumer: class 1/0 0 shop:order",
            "make 1 piste:web:default recording",
            "consumer: rings 1/0 1 of 7 from 0",
            "7: channel 1",
            "7: enable 1 1.0=0",
            "7: sync 2",
        ],
    );
    assert_eq!(machine.stop(session, at(9)), Ok(3));
    check(&mut machine, &["consumer: stop 1 #3"]);
    assert_eq!(machine.stop_kernel(session), Some(4));
    check(&mut machine, &["kernel: stop 1 #4"]);
    machine.destroy(session, at(10));
    check(&mut machine, &["consumer: close 1 #5"]);
    assert_eq!(machine.close_kernel(session), Some(6));
    check(&mut machine, &["kernel: close 1 #6"]);
    machine.session_ended(session);
    assert_eq!(
        (machine.stop_kernel(session), machine.close_kernel(session)),
        (None, None)
    );
}

#[test]
fn who_starts_a_session_again_while_it_stops_keeps_the_kernel_recording() {
    let mut machine = machine();
    let session = recording_kernel(&mut machine);
    machine.stop(session, at(9)).unwrap();
    machine.start(session, at(10)).unwrap();
    assert_eq!(machine.stop_kernel(session), None);
}

#[test]
fn a_session_of_programs_alone_leaves_the_kernel_alone() {
    let mut machine = machine();
    let session = recording(&mut machine, "web", &["*"]);
    assert_eq!(machine.report(session), [(Domain::User, 2)]);
    machine.stop(session, at(9)).unwrap();
    assert_eq!(machine.stop_kernel(session), None);
    machine.take_effects();
    machine.everything_of_kernel();
    check(&mut machine, &[]);
    assert!(!machine.uses_kernel());
}

#[test]
fn what_changes_while_the_kernel_records_is_confirmed() {
    let mut machine = machine();
    let session = recording_kernel(&mut machine);
    let more = vec![tracepoint("block:*")];
    let (_, request) = machine.enable_kernel_event(session, None, more.clone()).unwrap();
    assert_eq!(request, Some(3));
    check(
        &mut machine,
        &["kernel: set 1/0 default [sched_* block:*]", "kernel: report 1 #3"],
    );
    machine.enable_kernel_event(session, None, more).unwrap();
    check(
        &mut machine,
        &["kernel: set 1/0 default [sched_* block:*]", "kernel: report 1 #4"],
    );
    let disabled = machine.disable_kernel_event(session, None, &["sched_*".into()]);
    assert_eq!(disabled, Ok((0, Some(5))));
    check(
        &mut machine,
        &["kernel: set 1/0 default [block:*]", "kernel: report 1 #5"],
    );
    assert_eq!(track(&mut machine, session, &[9]), Some(6));
    check(&mut machine, &["kernel: tracked 1 [9]", "kernel: report 1 #6"]);
    let untrack = TrackingChange::Untrack(users(&[9]));
    machine.change_tracked(session, Domain::Kernel, &untrack).unwrap();
    check(&mut machine, &["kernel: tracked 1 nobody", "kernel: report 1 #7"]);
    let everything = TrackingChange::Everything;
    machine.change_tracked(session, Domain::Kernel, &everything).unwrap();
    check(&mut machine, &["kernel: tracked 1 []", "kernel: report 1 #8"]);
    assert_eq!(machine.regenerate_state_dump(session), Ok(9));
    check(&mut machine, &["kernel: state dump 1 #9"]);
    assert_eq!(machine.report(session), [(Domain::User, 10), (Domain::Kernel, 11)]);
}

#[test]
fn a_first_kernel_channel_in_a_session_that_records_starts_at_once() {
    let mut machine = machine();
    let session = recording(&mut machine, "web", &["*"]);
    let (_, request) = machine.enable_kernel_channel(session, &channel("default")).unwrap();
    assert_eq!(request, Some(2));
    check(
        &mut machine,
        &[
            "kernel: open 1",
            "kernel: tracked 1 []",
            "kernel: set 1/0 default []",
            "kernel: start 1 #2",
        ],
    );
}

#[test]
fn a_rule_about_the_same_events_takes_the_place_of_the_earlier_one() {
    let mut machine = machine();
    let session = machine.create_session(identity("web")).unwrap();
    let filtered = Rule {
        filter: Some("prev_prio < 10".into()),
        ..tracepoint("sched_switch")
    };
    let probe = |binary: &str| {
        rule(EventSource::Usdt {
            binary: binary.into(),
            provider: "libc".into(),
            probe: "setjmp".into(),
        })
    };
    let open = rule(EventSource::Syscall {
        part: CallPart::Both,
        pattern: "sched_switch".into(),
    });
    let first = vec![tracepoint("sched_switch"), open, probe("/a"), probe("/b")];
    machine.enable_kernel_event(session, None, first.clone()).unwrap();
    machine
        .disable_kernel_event(session, None, &["sched_switch".into()])
        .unwrap();
    let known = |machine: &Machine| machine.session(session).kernel.channels[0].rules.clone();
    let enabled = |machine: &Machine| known(machine).iter().map(|rule| rule.enabled).collect::<Vec<_>>();
    assert_eq!(enabled(&machine), [false, false, true, true]);
    machine
        .enable_kernel_event(session, None, vec![filtered.clone()])
        .unwrap();
    assert_eq!(enabled(&machine), [true, false, true, true]);
    assert_eq!(known(&machine)[0], filtered);
    machine.disable_kernel_event(session, None, &[]).unwrap();
    assert_eq!(enabled(&machine), [false; 4]);
}

#[test]
fn kernel_channels_have_their_own_defaults_and_limits() {
    let mut machine = machine();
    let session = machine.create_session(identity("web")).unwrap();
    let (default, _) = machine.enable_kernel_channel(session, &channel("default")).unwrap();
    assert_eq!((default.subbuf_bytes, default.subbuf_count), (64 << 10, 256));
    assert_eq!(
        default
            .contexts
            .iter()
            .map(|context| context.name())
            .collect::<Vec<_>>(),
        ["tid"]
    );

    let mut refused = |wanted: ChannelRequest| match machine.enable_kernel_channel(session, &wanted) {
        Err(Refusal::InvalidSetting { setting, .. } | Refusal::ChannelExists { setting, .. }) => setting,
        other => panic!("{other:?}"),
    };
    let web = || channel("web");
    let counts = |count: i64| ChannelRequest {
        subbuf_count: Some(count),
        ..web()
    };
    let bytes = |bytes: i64| ChannelRequest {
        subbuf_bytes: Some(bytes),
        ..web()
    };
    assert_eq!(refused(channel("statedump")), "channel name");
    assert_eq!(refused(channel("a/b")), "channel name");
    for wanted in [bytes(2048), bytes(5000), bytes(1 << 20), bytes(-1)] {
        assert_eq!(refused(wanted), "sub-buffer size");
    }
    for wanted in [counts(1), counts(16_385), counts(1 << 40)] {
        assert_eq!(refused(wanted), "number of sub-buffers");
    }
    let blocking = ChannelRequest {
        loss: Some(Loss::Block),
        ..web()
    };
    assert_eq!(refused(blocking), "loss mode");
    let timeout = ChannelRequest {
        block_timeout_us: Some(1),
        ..web()
    };
    assert_eq!(refused(timeout), "block timeout");
    let vtid = ChannelRequest {
        contexts: Some(vec!["vtid".into()]),
        ..web()
    };
    assert_eq!(refused(vtid), "context");
    let other = ChannelRequest {
        contexts: Some(vec![]),
        ..channel("default")
    };
    assert_eq!(refused(other), "contexts");
    let odd = ChannelRequest {
        contexts: Some(vec!["cpu_id".into(), "tid".into()]),
        ..counts(3)
    };
    let (odd, _) = machine.enable_kernel_channel(session, &odd).unwrap();
    assert_eq!(odd.subbuf_count, 3);
    assert_eq!(odd.contexts.len(), 2);
    let with_namespace = ChannelRequest {
        contexts: Some(vec!["pid".into(), "net_ns".into()]),
        ..channel("namespaces")
    };
    assert!(machine.enable_kernel_channel(session, &with_namespace).is_ok());
    let of_member = machine
        .create_session(SessionIdentity {
            owner: Person::of_user(1000),
            ..identity("a member's")
        })
        .unwrap();
    let refusal = machine.enable_kernel_channel(of_member, &with_namespace).unwrap_err();
    assert!(matches!(refusal, Refusal::NoPermission { what, .. } if what == "recording net_ns"));

    let snapshot = SessionIdentity {
        snapshot: true,
        ..identity("flight")
    };
    let flight = machine.create_session(snapshot).unwrap();
    let (default, _) = machine.enable_kernel_channel(flight, &channel("default")).unwrap();
    assert_eq!(default.loss, piste_kernel::spec::Loss::Overwrite);
}

#[test]
fn kernel_refusals_name_what_is_wrong() {
    let mut machine = machine();
    let session = machine.create_session(identity("web")).unwrap();
    let nothing = Err(Refusal::NothingEnabled {
        session: "web".into(),
        disabled_channels: vec![],
    });
    machine.enable_kernel_channel(session, &channel("default")).unwrap();
    assert_eq!(machine.start(session, at(0)), nothing);
    let invalid = machine.enable_kernel_event(session, None, vec![tracepoint("a b")]);
    assert!(matches!(&invalid, Err(Refusal::InvalidPattern(invalid)) if invalid.position == 1));
    assert!(machine.enable_kernel_event(session, None, vec![]).is_err());
    let missing = machine.enable_kernel_event(session, Some("defualt"), vec![tracepoint("a")]);
    let is_said = |nearest: &[String], domain| nearest == ["default"] && domain == Domain::Kernel;
    assert!(matches!(missing, Err(Refusal::NoChannel { nearest, domain, .. }) if is_said(&nearest, domain)));
    machine
        .enable_kernel_event(session, None, vec![tracepoint("sched_*")])
        .unwrap();
    let no_rule = machine.disable_kernel_event(session, None, &["sched".into()]);
    assert!(matches!(no_rule, Err(Refusal::NoRule { nearest, .. }) if nearest == ["sched_*"]));
    let not_active = Err(Refusal::NotActive { session: "web".into() });
    assert_eq!(machine.regenerate_state_dump(session), not_active);
    let flight = machine
        .create_session(SessionIdentity {
            snapshot: true,
            ..identity("flight")
        })
        .unwrap();
    let is_snapshot = Err(Refusal::IsSnapshot {
        session: "flight".into(),
    });
    assert_eq!(machine.regenerate_state_dump(flight), is_snapshot);
}

#[test]
fn a_snapshot_is_of_both_domains() {
    let mut machine = machine();
    let snapshot = SessionIdentity {
        snapshot: true,
        ..identity("flight")
    };
    let session = machine.create_session(snapshot).unwrap();
    machine
        .enable_kernel_event(session, None, vec![tracepoint("*")])
        .unwrap();
    machine.start(session, at(0)).unwrap();
    machine.take_effects();
    assert_eq!(machine.take_snapshot(session, "/t/1".into(), Person::default()), [2]);
    check(&mut machine, &["kernel: snapshot 1 /t/1 #2"]);
    machine.enable_channel(session, &channel("default")).unwrap();
    machine.take_effects();
    assert_eq!(machine.take_snapshot(session, "/t/2".into(), Person::default()), [4, 5]);
    check(
        &mut machine,
        &["kernel: snapshot 1 /t/2 #4", "consumer: snapshot 1 /t/2 #5"],
    );
}

#[test]
fn programs_have_no_trace_before_they_have_a_channel() {
    let mut machine = machine();
    let session = machine.create_session(identity("web")).unwrap();
    let scheduler = vec![tracepoint("sched_*")];
    machine.enable_kernel_event(session, None, scheduler).unwrap();
    machine.start(session, at(0)).unwrap();
    machine.take_effects();
    assert_eq!(machine.start_programs(session).request, None);
    check(&mut machine, &[]);
    machine.enable_event(session, None, &rules(&["*"])).unwrap();
    check(&mut machine, &["consumer: channel 1/0 default", "consumer: start 1 #2"]);
}

#[test]
fn a_new_kernel_consumer_is_told_everything() {
    let mut machine = machine();
    let session = recording_kernel(&mut machine);
    track(&mut machine, session, &[7]);
    machine.take_effects();
    machine.everything_of_kernel();
    check(
        &mut machine,
        &[
            "kernel: open 1",
            "kernel: tracked 1 [7]",
            "kernel: set 1/0 default [sched_*]",
            "kernel: start 1 #4",
        ],
    );
}

#[test]
fn a_new_pisted_knows_the_kernel_channels() {
    let mut machine = machine();
    let session = machine.create_session(identity("web")).unwrap();
    let scheduler = vec![tracepoint("sched_*")];
    machine.enable_kernel_event(session, None, scheduler).unwrap();
    machine.enable_kernel_channel(session, &channel("fast")).unwrap();
    track(&mut machine, session, &[7]);
    machine.start(session, at(0)).unwrap();
    let next = replay(&changes(machine.take_effects()));
    let summary = next.summary();
    assert_eq!(summary, machine.sessions().summary());
    assert_eq!(replay(&summary).summary(), summary);
    let kernel = &next.get(session).unwrap().kernel;
    assert_eq!(kernel.channels, machine.session(session).kernel.channels);
    assert_eq!(kernel.tracked, users(&[7]));
}

#[test]
fn what_an_earlier_pisted_was_about_to_end_is_ended() {
    let mut machine = machine();
    let active = recording_kernel(&mut machine);
    let mut other = identity("other");
    other.trace.uuid = [2; 16];
    let stopped = machine.create_session(other).unwrap();
    machine
        .enable_kernel_event(stopped, None, vec![tracepoint("*")])
        .unwrap();
    machine.start(stopped, at(0)).unwrap();
    machine.stop(stopped, at(1)).unwrap();
    machine.take_effects();
    machine.kernel_consumer_has(active, true);
    machine.kernel_consumer_has(stopped, false);
    check(&mut machine, &[]);
    machine.kernel_consumer_has(stopped, true);
    check(&mut machine, &["kernel: stop 2 #5"]);
    machine.kernel_consumer_has(99, false);
    check(&mut machine, &["kernel: close 99 #6"]);
}

#[test]
fn the_kernels_trace_is_another_one_on_the_same_clock() {
    use piste_ctf::EnvironmentValue::{Integer, Text};
    let mut web = identity("web");
    web.trace.environment = vec![
        ("domain".into(), Text("ust".into())),
        ("tracer_name".into(), Text("lttng-ust".into())),
        ("tracer_buffering_scheme".into(), Text("uid".into())),
        ("architecture_bit_width".into(), Integer(64)),
        ("hostname".into(), Text("host".into())),
    ];
    let trace = web.kernel_trace();
    assert_eq!(trace.clock, web.trace.clock);
    assert_ne!(trace.uuid, web.trace.uuid);
    let keys: Vec<&str> = trace.environment.iter().map(|(key, _)| &**key).collect();
    assert_eq!(
        keys,
        [
            "domain",
            "tracer_name",
            "tracer_major",
            "tracer_minor",
            "tracer_patchlevel",
            "hostname"
        ]
    );
    assert_eq!(trace.environment[0].1, Text("kernel".into()));
}

/// A message to the kernel consumer that is too long would not be sent.
#[test]
fn the_rules_of_a_kernel_channel_fit_into_one_message() {
    let mut machine = machine();
    let session = machine.create_session(identity("web")).unwrap();
    machine.take_effects();
    let rules = |name: &str, count| -> Vec<Rule> {
        (0..count)
            .map(|number| tracepoint(&format!("{name}_{number}")))
            .collect()
    };
    let is_refused = |refused: Result<_, _>| matches!(refused, Err(Refusal::InvalidSetting { .. }));
    assert!(is_refused(machine.enable_kernel_event(session, None, rules("a", 5000))));
    assert_eq!(machine.take_effects(), [], "not even the channel is made");
    machine.enable_kernel_event(session, None, rules("a", 800)).unwrap();
    machine
        .enable_kernel_event(session, None, rules("a", 800))
        .expect("they are known");
    assert!(is_refused(machine.enable_kernel_event(session, None, rules("b", 800))));
    assert!(is_refused(machine.disable_kernel_event(
        session,
        None,
        &vec!["a_1".into(); 5000]
    )));
}

#[test]
fn no_rule_of_a_disabled_kernel_channel_is_enabled() {
    let mut machine = machine();
    let session = machine.create_session(identity("web")).unwrap();
    machine
        .enable_kernel_event(session, None, vec![tracepoint("sched_*")])
        .unwrap();
    machine.start(session, at(0)).unwrap();
    machine.take_effects();

    let (_, request) = machine.disable_kernel_channel(session, "default").unwrap();
    assert_eq!(request, Some(2));
    check(&mut machine, &["kernel: set 1/0 default []", "kernel: report 1 #2"]);
    machine
        .enable_kernel_event(session, None, vec![tracepoint("irq:*")])
        .unwrap();
    check(&mut machine, &["kernel: set 1/0 default []", "kernel: report 1 #3"]);

    let kept = replay(&machine.sessions().summary());
    assert_eq!(kept.summary(), machine.sessions().summary());
    let mut next = machine_after(kept);
    next.everything_of_kernel();
    check(
        &mut next,
        &[
            "kernel: open 1",
            "kernel: tracked 1 []",
            "kernel: set 1/0 default []",
            "kernel: start 1 #1",
        ],
    );
    next.enable_kernel_channel(session, &channel("default")).unwrap();
    check(
        &mut next,
        &["kernel: set 1/0 default [sched_* irq:*]", "kernel: report 1 #2"],
    );
}
