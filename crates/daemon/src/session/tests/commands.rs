// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sessions, channels, rules, start, stop.

use std::collections::BTreeSet;

use super::super::commands::SESSION_COUNT_MAX;
use super::*;
use crate::link::Loss;
use crate::session::{Refusal, Starting};

#[test]
fn a_session_that_starts_takes_the_programs_that_run() {
    let mut machine = machine();
    register(&mut machine, ADA, &["shop:order", "lttng_ust_statedump:start!"]);
    register(&mut machine, BOB, &["other:thing"]);
    let session = machine.create_session(identity("web")).unwrap();
    machine
        .enable_event(session, None, &rules(&["shop:*", "lttng_ust_statedump:*"]))
        .unwrap();
    check(&mut machine, &["consumer: open 1", "consumer: channel 1/0 default"]);
    let Starting::Programs(pending) = machine.start(session, at(0)).unwrap() else {
        panic!("no kernel channel")
    };
    check(
        &mut machine,
        &[
            "consumer: start 1 #1",
            "consumer: class 1/0 0 shop:order",
            "consumer: class 1/0 1 lttng_ust_statedump:start",
            "make 1 piste:web:default recording",
            "consumer: rings 1/0 1 of 7 from 0",
            "7: channel 1",
            "7: enable 1 1.0=0 1.1=1",
            "7: dump 1",
            "7: sync 2",
        ],
    );
    assert_eq!(pending.programs.into_iter().collect::<Vec<_>>(), [ADA]);
    assert_eq!((pending.token, pending.request), (2, Some(1)));
}

#[test]
fn stop_and_start_again_tell_programs_nothing() {
    let mut machine = machine();
    let session = recording(&mut machine, "web", &["*"]);
    register(&mut machine, ADA, &["shop:order"]);
    machine.stop(session, at(10)).unwrap();
    check(&mut machine, &["consumer: stop 1 #2"]);
    // While it is stopped, new programs get nothing, and known ones are kept up to date.
    register(&mut machine, BOB, &["shop:pay"]);
    assert_eq!(machine.sessions().ring_sets().count(), 1);
    machine.events(ADA, 2, block(&["shop:pay"]), 100);
    check(&mut machine, &["consumer: class 1/0 1 shop:pay", "7: enable 1 2.0=1"]);
    machine.start(session, at(30)).unwrap();
    check(
        &mut machine,
        &[
            "consumer: start 1 #3",
            "make 2 piste:web:default recording",
            "consumer: rings 1/0 2 of 8 from 2",
            "8: channel 2",
            "8: enable 2 1.0=1",
            "8: sync 3",
        ],
    );
    assert_eq!(machine.session(session).recorded_ns(at(45)), 25);
}

#[test]
fn rules_that_change_take_effect_at_once() {
    let mut machine = machine();
    let session = recording(&mut machine, "web", &["shop:*"]);
    register(&mut machine, ADA, &["shop:order", "other:thing"]);
    register(&mut machine, BOB, &["other:thing"]);
    let (_, pending) = machine
        .enable_event(session, None, &rules(&["other:*", "*:thing"]))
        .unwrap();
    check(
        &mut machine,
        &[
            "consumer: class 1/0 1 other:thing",
            "7: enable 1 1.1=1",
            "make 2 piste:web:default recording",
            "consumer: rings 1/0 2 of 8 from 2",
            "8: channel 2",
            "8: enable 2 1.0=1",
            "7: sync 3",
            "8: sync 3",
        ],
    );
    assert_eq!(pending.programs.len(), 2);
    [ADA, BOB].iter().for_each(|&id| machine.confirmed(id, pending.token));
    // Another rule still wants it.
    machine.disable_event(session, None, &["other:*".into()]).unwrap();
    check(&mut machine, &[]);
    machine.disable_event(session, None, &["*:thing".into()]).unwrap();
    check(
        &mut machine,
        &["7: disable 1 1.1=0", "8: disable 2 1.0=0", "7: sync 5", "8: sync 5"],
    );
    // A disabled rule is listed, and can be enabled again.
    assert_eq!(machine.session(session).channels[0].rules.len(), 3);
    machine.enable_event(session, None, &rules(&["*:thing"])).unwrap();
    assert_eq!(machine.session(session).channels[0].rules.len(), 3);
    check(
        &mut machine,
        &["7: enable 1 1.1=1", "8: enable 2 1.0=1", "7: sync 6", "8: sync 6"],
    );
}

/// Two people may enable the same event at the same time: whoever is answered first relies on it as well.
#[test]
fn a_command_that_changes_nothing_waits_for_programs_that_have_yet_to_confirm_the_one_before() {
    let mut machine = machine();
    let session = recording(&mut machine, "web", &["shop:*"]);
    register(&mut machine, ADA, &["shop:order", "other:thing"]);
    let enable = |machine: &mut Machine, pattern| machine.enable_event(session, None, &rules(&[pattern])).unwrap().1;
    let first = enable(&mut machine, "other:*");
    let again = enable(&mut machine, "other:*");
    // This one is another rule, and no program needs to be told of it.
    let wider = enable(&mut machine, "other:thing");
    let channel = machine.enable_channel(session, &channel("default")).unwrap().1;
    for pending in [&first, &again, &wider, &channel] {
        assert_eq!(pending.programs, BTreeSet::from([ADA]), "{pending:?}");
    }
    machine.confirmed(ADA, first.token);
    assert_eq!(enable(&mut machine, "other:*").programs, BTreeSet::from([ADA]));
    machine.confirmed(ADA, channel.token + 1);
    assert_eq!(enable(&mut machine, "other:*").programs, BTreeSet::new());
}

#[test]
fn a_first_ring_set_gets_what_earlier_rules_want_too() {
    let mut machine = machine();
    let session = machine.create_session(identity("web")).unwrap();
    machine.enable_event(session, None, &rules(&["shop:*"])).unwrap();
    machine.enable_channel(session, &channel("second")).unwrap();
    machine.start(session, at(0)).unwrap();
    register(&mut machine, ADA, &["shop:order"]);
    machine
        .enable_event(session, Some("second"), &rules(&["shop:order"]))
        .unwrap();
    check(
        &mut machine,
        &[
            "consumer: class 1/1 0 shop:order",
            "make 2 piste:web:second recording",
            "consumer: rings 1/1 2 of 7 from 2",
            "7: channel 2",
            "7: enable 2 1.0=0",
            "7: sync 3",
        ],
    );
}

#[test]
fn a_filter_goes_to_the_programs_and_replaces_the_one_before() {
    let mut machine = machine();
    let session = recording(&mut machine, "web", &["shop:*"]);
    register(&mut machine, ADA, &["shop:order", "shop:closed!"]);
    let filtered = |filter: &str| RulesRequest {
        filter: Some(filter.into()),
        ..rules(&["shop:*"])
    };
    // An event without the field cannot pass.
    machine.enable_event(session, None, &filtered("id == 5")).unwrap();
    check(
        &mut machine,
        &["7: disable 1 1.1=0", "7: enable 1 1.0=0 if", "7: sync 3"],
    );
    machine.confirmed(ADA, 3);
    machine.enable_event(session, None, &filtered("id == 5")).unwrap();
    check(&mut machine, &[]);
    machine.enable_event(session, None, &filtered("id == 6")).unwrap();
    check(&mut machine, &["7: enable 1 1.0=0 if", "7: sync 5"]);
    // What another rule wants without a filter is recorded without one.
    machine.enable_event(session, None, &rules(&["*:order"])).unwrap();
    check(&mut machine, &["7: enable 1 1.0=0", "7: sync 6"]);
    machine.disable_event(session, None, &["*:order".into()]).unwrap();
    check(&mut machine, &["7: enable 1 1.0=0 if", "7: sync 7"]);
    machine.enable_event(session, None, &rules(&["shop:*"])).unwrap();
    check(&mut machine, &["7: enable 1 1.0=0 1.1=1", "7: sync 8"]);
    let refused = machine.enable_event(session, None, &filtered("id = 5")).unwrap_err();
    assert!(
        matches!(refused, Refusal::InvalidFilter { position: 3, .. }),
        "{refused:?}"
    );
}

#[test]
fn levels_are_a_range_with_both_its_ends() {
    let mut machine = machine();
    let session = machine.create_session(identity("web")).unwrap();
    let levels = |most_severe, least_severe| RulesRequest {
        levels: Levels {
            most_severe,
            least_severe,
        },
        ..rules(&["shop:*"])
    };
    // The test's events are of level 13.
    machine.enable_event(session, None, &levels(0, 12)).unwrap();
    machine.enable_event(session, None, &levels(14, 20)).unwrap();
    machine.start(session, at(0)).unwrap();
    register(&mut machine, ADA, &["shop:order"]);
    assert_eq!(machine.sessions().ring_sets().count(), 0);
    machine.enable_event(session, None, &levels(13, 13)).unwrap();
    assert_eq!(machine.sessions().ring_sets().count(), 1);
}

#[test]
fn a_session_is_destroyed_when_the_consumer_has_closed_it() {
    let mut machine = machine();
    let session = recording(&mut machine, "web", &["*"]);
    register(&mut machine, ADA, &["shop:order"]);
    machine.destroy(session, at(5));
    check(&mut machine, &["consumer: close 1 #2"]);
    assert_eq!(
        machine.find_session(&asked(Some("web"))).unwrap_err(),
        no_session("web", &[])
    );
    assert_eq!(
        machine.create_session(identity("web")).unwrap_err(),
        Refusal::SessionExists { name: "web".into() }
    );
    // Programs that come meanwhile do not become part of it.
    register(&mut machine, BOB, &["shop:order"]);
    machine.session_ended(session);
    check(&mut machine, &["7: gone 1", "drop 1"]);
    assert_eq!(machine.sessions().iter().count(), 0);
    assert_eq!(machine.create_session(identity("web")), Ok(2));
}

fn no_session(name: &str, nearest: &[&str]) -> Refusal {
    Refusal::NoSession {
        name: name.into(),
        nearest: nearest.iter().map(|&name| name.into()).collect(),
    }
}

#[test]
fn the_current_session_is_the_newest_that_is_left() {
    let mut machine = machine();
    assert_eq!(machine.find_session(&asked(None)), Err(Refusal::NoCurrentSession));
    let web = machine.create_session(identity("web")).unwrap();
    let mail = machine.create_session(identity("mail")).unwrap();
    let mut recorded = identity("recorded");
    recorded.record_id = Some([1; 16]);
    machine.create_session(recorded).unwrap();
    let mut system = identity("system");
    system.never_current = true;
    machine.create_session(system).unwrap();
    assert_eq!(machine.find_session(&asked(None)), Ok(mail));
    machine.set_current(&asked(Some("web"))).unwrap();
    assert_eq!(machine.find_session(&asked(None)), Ok(web));
    machine.destroy(web, at(0));
    assert_eq!(machine.find_session(&asked(None)), Ok(mail));
    machine.destroy(mail, at(0));
    assert_eq!(machine.find_session(&asked(None)), Err(Refusal::NoCurrentSession));
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let mut machine = machine();
    let session = machine.create_session(identity("web")).unwrap();
    machine.take_effects();
    assert_eq!(
        machine.find_session(&asked(Some("wbe"))),
        Err(no_session("wbe", &["web"]))
    );
    let web = || "web".to_owned();
    assert_eq!(
        machine.create_session(identity("web")),
        Err(Refusal::SessionExists { name: web() })
    );
    for name in ["", "a/b", ".hidden", "-o", &"x".repeat(128), "new\nline"] {
        let refusal = machine.create_session(identity(name)).unwrap_err();
        assert!(
            matches!(
                refusal,
                Refusal::InvalidSetting {
                    setting: "session name",
                    ..
                }
            ),
            "{name:?}"
        );
    }
    assert_eq!(
        machine.start(session, at(0)),
        Err(Refusal::NothingEnabled {
            session: web(),
            disabled_channels: vec![]
        })
    );
    assert_eq!(machine.stop(session, at(0)), Err(Refusal::NotActive { session: web() }));
    assert_eq!(
        machine.next_snapshot(session),
        Err(Refusal::NotSnapshot { session: web() })
    );
    assert!(
        machine
            .enable_event(session, None, &rules(&["shop:*", "order"]))
            .is_err()
    );
    assert!(machine.enable_event(session, None, &rules(&[])).is_err());
    let refusal = machine.enable_event(session, Some("fast"), &rules(&["*"])).unwrap_err();
    assert!(matches!(refusal, Refusal::NoChannel { .. }));
    assert_eq!(machine.take_effects(), []);

    machine.enable_event(session, None, &rules(&["shop:*"])).unwrap();
    let refusal = machine
        .disable_event(session, None, &["shop:*".into(), "shp:*".into()])
        .unwrap_err();
    let nearest = vec!["shop:*".to_owned()];
    assert_eq!(
        refusal,
        Refusal::NoRule {
            pattern: "shp:*".into(),
            channel: "default".into(),
            nearest
        }
    );
    assert!(machine.session(session).channels[0].rules[0].enabled);
    machine.start(session, at(0)).unwrap();
    assert_eq!(
        machine.start(session, at(0)),
        Err(Refusal::AlreadyActive { session: web() })
    );
    machine.stop(session, at(1)).unwrap();
    machine.disable_event(session, None, &[]).unwrap();
    assert_eq!(
        machine.start(session, at(0)),
        Err(Refusal::NothingEnabled {
            session: web(),
            disabled_channels: vec![]
        })
    );
}

#[test]
fn channels_have_settings_within_limits_that_do_not_change() {
    let mut machine = machine();
    let session = machine.create_session(identity("web")).unwrap();
    let (settings, _) = machine.enable_channel(session, &channel("fast")).unwrap();
    assert_eq!(
        (settings.geometry.subbuf_bytes, settings.geometry.subbuf_count),
        (262_144, 4)
    );
    assert_eq!(settings.geometry.loss, Loss::Discard);
    assert_eq!(machine.enable_channel(session, &channel("fast")).unwrap().0, settings);
    let other = ChannelRequest {
        subbuf_count: Some(8),
        ..channel("fast")
    };
    let refusal = machine.enable_channel(session, &other).unwrap_err();
    assert!(matches!(
        refusal,
        Refusal::ChannelExists {
            setting: "number of sub-buffers",
            ..
        }
    ));

    let setting_of = |machine: &mut Machine, request: ChannelRequest| match machine.enable_channel(session, &request) {
        Err(Refusal::InvalidSetting { setting, .. }) => setting,
        other => panic!("{other:?}"),
    };
    for (request, setting) in [
        (
            ChannelRequest {
                subbuf_bytes: Some(4095),
                ..channel("x")
            },
            "sub-buffer size",
        ),
        (
            ChannelRequest {
                subbuf_bytes: Some(-4096),
                ..channel("x")
            },
            "sub-buffer size",
        ),
        (
            ChannelRequest {
                subbuf_bytes: Some(1 << 27),
                ..channel("x")
            },
            "sub-buffer size",
        ),
        (
            ChannelRequest {
                subbuf_count: Some(3),
                ..channel("x")
            },
            "number of sub-buffers",
        ),
        (
            ChannelRequest {
                subbuf_count: Some(1),
                ..channel("x")
            },
            "number of sub-buffers",
        ),
        (
            ChannelRequest {
                subbuf_bytes: Some(1 << 26),
                subbuf_count: Some(4096),
                ..channel("x")
            },
            "number and size of sub-buffers",
        ),
        (
            ChannelRequest {
                block_timeout_us: Some(5),
                ..channel("x")
            },
            "block timeout",
        ),
        (
            ChannelRequest {
                loss: Some(Loss::Block),
                block_timeout_us: Some(-1),
                ..channel("x")
            },
            "block timeout",
        ),
        (channel("a/b"), "channel name"),
    ] {
        assert_eq!(setting_of(&mut machine, request), setting);
    }
    let blocking = ChannelRequest {
        loss: Some(Loss::Block),
        ..channel("blocking")
    };
    assert_eq!(
        machine
            .enable_channel(session, &blocking)
            .unwrap()
            .0
            .geometry
            .block_timeout_us,
        u32::MAX
    );
    for number in 3..=32 {
        machine
            .enable_channel(session, &channel(&format!("c{number}")))
            .unwrap();
    }
    let refusal = machine.enable_channel(session, &channel("one more")).unwrap_err();
    assert_eq!(
        refusal,
        Refusal::TooManyChannels {
            session: "web".into(),
            limit: 32
        }
    );
}

#[test]
fn snapshots_are_of_rings_that_wait_for_no_reader() {
    let mut machine = machine();
    let flight = SessionIdentity {
        snapshot: true,
        ..identity("flight")
    };
    let session = machine.create_session(flight).unwrap();
    let with = |name: &str, loss| ChannelRequest {
        loss: Some(loss),
        ..channel(name)
    };
    let refusal = machine.enable_channel(session, &with("x", Loss::Block)).unwrap_err();
    assert!(matches!(
        refusal,
        Refusal::InvalidSetting {
            setting: "loss mode",
            ..
        }
    ));
    assert_eq!(
        machine.enable_channel(session, &channel("x")).unwrap().0.geometry.loss,
        Loss::Overwrite
    );
    let first = machine.enable_channel(session, &with("first", Loss::Discard)).unwrap();
    assert_eq!(first.0.geometry.loss, Loss::Discard);
    machine.enable_event(session, Some("x"), &rules(&["*"])).unwrap();
    assert_eq!(
        machine.next_snapshot(session),
        Err(Refusal::NotActive {
            session: "flight".into()
        })
    );
    machine.start(session, at(0)).unwrap();
    machine.take_effects();
    assert_eq!(machine.next_snapshot(session), Ok(1));
    machine.take_snapshot(session, "/t/flight/snapshot-1".into(), Person::default());
    check(&mut machine, &["consumer: snapshot 1 /t/flight/snapshot-1 #2"]);
    assert_eq!(machine.next_snapshot(session), Ok(2));
}

fn asked_by(uid: u32, session: Option<&str>) -> Asked {
    Asked {
        by: Person::of_user(uid),
        ..asked(session)
    }
}

fn create_for(machine: &mut Machine, uid: u32, name: &str) -> Result<SessionId, Refusal> {
    machine.create_session(SessionIdentity {
        owner: Person::of_user(uid),
        ..identity(name)
    })
}

#[test]
fn a_session_is_changed_by_its_owner_and_root_only() {
    let mut machine = machine();
    let roots = machine.create_session(identity("roots")).unwrap();
    let adas = create_for(&mut machine, 1000, "adas").unwrap();
    for (by, name, permitted) in [
        (asked_by(1000, Some("adas")), adas, true),
        (asked(Some("adas")), adas, true),
        (asked_by(1001, Some("adas")), adas, false),
        (asked_by(1000, Some("roots")), roots, false),
    ] {
        assert_eq!(machine.find_session(&by), Ok(name), "everybody sees it");
        let found = machine.find_own_session(&by);
        assert_eq!(found.is_ok(), permitted, "{by:?}: {found:?}");
        assert!(permitted || matches!(found, Err(Refusal::NoPermission { .. })));
    }
}

#[test]
fn each_user_has_a_current_session() {
    let mut machine = machine();
    let roots = machine.create_session(identity("roots")).unwrap();
    let first = create_for(&mut machine, 1000, "first").unwrap();
    let second = create_for(&mut machine, 1000, "second").unwrap();
    assert_eq!(machine.find_session(&asked(None)), Ok(roots));
    assert_eq!(machine.find_session(&asked_by(1000, None)), Ok(second));
    assert_eq!(
        machine.find_session(&asked_by(1001, None)),
        Err(Refusal::NoCurrentSession)
    );
    machine.set_current(&asked_by(1001, Some("first"))).unwrap();
    machine.set_current(&asked(Some("second"))).unwrap();
    let again = replay(&machine.sessions().summary());
    for sessions in [machine.sessions(), &again] {
        let current = [None, Some(1000), Some(1001)]
            .map(|uid| sessions.current(&uid.map_or_else(Person::default, Person::of_user)));
        assert_eq!(current, [Some(second), Some(second), Some(first)]);
    }
    machine.destroy(first, at(0));
    machine.destroy(second, at(0));
    assert_eq!(machine.find_session(&asked(None)), Ok(roots));
    assert_eq!(
        machine.find_session(&asked_by(1000, None)),
        Err(Refusal::NoCurrentSession)
    );
}

#[test]
fn one_user_leaves_sessions_and_kernel_memory_for_others() {
    let mut machine = machine();
    let created = (0..).take_while(|number| create_for(&mut machine, 1000, &format!("s{number}")).is_ok());
    assert_eq!(created.count(), SESSION_COUNT_MAX / 4);
    let bobs = create_for(&mut machine, 1001, "bobs").unwrap();
    let roots = machine.create_session(identity("roots")).unwrap();
    // Two CPUs: a quarter of the memory that there can be.
    let large = |name: &str| ChannelRequest {
        subbuf_bytes: Some(512 << 10),
        subbuf_count: Some(1024),
        ..channel(name)
    };
    assert!(machine.enable_kernel_channel(bobs, &large("one")).is_ok());
    let refused = machine.enable_kernel_channel(bobs, &channel("two"));
    assert!(matches!(refused, Err(Refusal::NoPermission { .. })), "{refused:?}");
    for name in ["one", "two", "three"] {
        assert!(machine.enable_kernel_channel(roots, &large(name)).is_ok());
    }
    assert!(machine.enable_kernel_channel(roots, &channel("four")).is_err());
}

#[test]
fn a_disabled_channel_keeps_its_rules_and_programs_hear_of_them_when_it_is_enabled() {
    let mut machine = machine();
    let session = recording(&mut machine, "web", &["shop:*"]);
    register(&mut machine, ADA, &["shop:order", "bank:failure"]);

    machine.disable_channel(session, "default").unwrap();
    check(&mut machine, &["7: disable 1 1.0=0", "7: sync 3"]);
    machine.confirmed(ADA, 3);
    // What matches its rules is told nobody, whichever comes first.
    machine.enable_event(session, None, &rules(&["bank:*"])).unwrap();
    machine.disable_channel(session, "default").unwrap();
    machine.hello(BOB, facts(1000, 1), hello(&[]));
    machine.events(BOB, 1, block(&["shop:order"]), 100);
    machine.sync(BOB, 1);
    check(&mut machine, &["8: synced 1"]);

    let (_, pending) = machine.enable_channel(session, &channel("default")).unwrap();
    assert_eq!(pending.programs, BTreeSet::from([ADA, BOB]));
    check(
        &mut machine,
        &[
            "consumer: class 1/0 1 bank:failure",
            "7: enable 1 1.0=0 1.1=1",
            "make 2 piste:web:default recording",
            "consumer: rings 1/0 2 of 8 from 2",
            "8: channel 2",
            "8: enable 2 1.0=0",
            "7: sync 6",
            "8: sync 6",
        ],
    );
}

#[test]
fn a_disabled_channel_stays_disabled_when_pisted_is_replaced() {
    let mut earlier = machine();
    let session = recording(&mut earlier, "web", &["shop:*"]);
    register(&mut earlier, ADA, &["shop:order"]);
    earlier.disable_channel(session, "default").unwrap();
    earlier.disable_channel(session, "defalt").unwrap_err();
    let kept = replay(&earlier.sessions().summary());
    assert_eq!(kept.summary(), earlier.sessions().summary());

    let mut next = machine_after(kept);
    let other = ChannelRequest {
        subbuf_count: Some(8),
        ..channel("default")
    };
    assert!(next.enable_channel(session, &other).is_err());
    assert!(!next.session(session).channels[0].enabled);
    next.stop(session, at(1)).unwrap();
    assert_eq!(
        next.start(session, at(2)),
        Err(Refusal::NothingEnabled {
            session: "web".into(),
            disabled_channels: vec!["default".into()],
        })
    );
    next.enable_channel(session, &channel("default")).unwrap();
    assert!(next.start(session, at(3)).is_ok());
}
