// SPDX-License-Identifier: MIT OR Apache-2.0
//! The built pisted with programs and people, from outside: registration, commands, accidents.

mod support;

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

use piste_control::client::programs;
use piste_control::interface::{Domain, ErrorKind, SessionState, Tracked, VarlinkClientInterface};
use rustix::process::{Pid, Signal, kill_process};
use support::program::{Process, Program, Told, names};
use support::{Pisted, channel_request, wait_until, wire};

#[test]
fn registers_and_waits() {
    support::program::registers_and_waits();
}

#[test]
fn a_program_that_registers_with_an_active_session_records_at_once() {
    let pisted = Pisted::start();
    pisted.create("web", "shop:*");
    pisted.start_session("web");
    let (_program, told) = Program::register(pisted.run_folder(), 1, &[]);
    assert_eq!(names(&told), ["channel 1", "enable 1 1.0=0 1.1=1"]);
    let Told::Channel(_, memory) = &told[0] else { panic!() };
    let key_offset = std::mem::offset_of!(piste_abi::piste_channel_header, active_key) as u64;
    let mut active_key = [0; 4];
    rustix::io::pread(memory, &mut active_key, key_offset).unwrap();
    assert_eq!(u32::from_ne_bytes(active_key), 1);
    let status = pisted.status("web");
    assert_eq!((status.programs, status.participants[0].matched), (1, 1));
}

#[test]
fn a_start_waits_until_the_programs_follow() {
    let pisted = Pisted::start();
    let (program, told) = Program::register(pisted.run_folder(), 1, &[]);
    assert_eq!(names(&told), [""; 0]);
    pisted.create("web", "shop:order");
    let started = std::thread::scope(|scope| {
        let start = scope.spawn(|| pisted.client().start(None).call().unwrap().session);
        assert_eq!(names(&program.until_sync()), ["channel 1", "enable 1 1.0=0"]);
        start.join().unwrap()
    });
    assert!(matches!(started.state, SessionState::active));
    assert_eq!(started.findings, []);
    // A rule that changes, likewise.
    std::thread::scope(|scope| {
        let change = scope.spawn(|| {
            let patterns = vec!["shop:*".to_owned()];
            pisted
                .client()
                .enable_event(None, None, patterns, vec![], None, None)
                .call()
                .unwrap()
        });
        assert_eq!(names(&program.until_sync()), ["enable 1 1.1=1"]);
        assert_eq!(change.join().unwrap().rules.len(), 2);
    });
}

#[test]
fn programs_follow_what_a_session_tracks_before_the_reply() {
    let pisted = Pisted::start();
    let (program, _) = Program::register(pisted.run_folder(), 1, &[]);
    pisted.create("web", "shop:order");
    let own = i64::from(rustix::process::getuid().as_raw());
    let users = |uids: &[i64]| Tracked {
        uids: Some(uids.to_vec()),
        ..Tracked::default()
    };
    let track = |uids: &[i64]| {
        pisted
            .client()
            .track(None, Domain::user, users(uids))
            .call()
            .unwrap()
            .tracked
    };
    let untrack = |uids: &[i64]| {
        pisted
            .client()
            .untrack(None, Domain::user, users(uids))
            .call()
            .unwrap()
            .tracked
    };
    assert_eq!(track(&[own + 1]), users(&[own + 1]));
    pisted.start_session("web");
    let status = pisted.status("web");
    assert_eq!((status.programs, status.programs_left_out), (0, 1));
    assert_eq!(status.tracked, users(&[own + 1]));
    assert_eq!(status.kernel_tracked.uids, None);
    std::thread::scope(|scope| {
        let tracked = scope.spawn(|| track(&[own]));
        assert_eq!(names(&program.until_sync()), ["channel 1", "enable 1 1.0=0"]);
        assert_eq!(tracked.join().unwrap(), users(&[own, own + 1]));
        let tracked = scope.spawn(|| untrack(&[own]));
        assert_eq!(names(&program.until_sync()), ["disable 1 1.0=0 1.1=0"]);
        assert_eq!(tracked.join().unwrap(), users(&[own + 1]));
        let dropped = scope.spawn(|| pisted.client().track_everything(None, Domain::user).call().unwrap());
        assert_eq!(names(&program.until_sync()), ["enable 1 1.0=0"]);
        dropped.join().unwrap();
    });
    let error = pisted
        .client()
        .untrack(None, Domain::user, users(&[own]))
        .call()
        .unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::NotTracked(Some(e)) if e.kind == "user" && e.tracked.is_empty()),
        "{error:?}"
    );
    let cpus = Tracked {
        cpus: Some(vec![0]),
        ..users(&[])
    };
    let error = pisted.client().track(None, Domain::user, cpus).call().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::InvalidSetting(_)), "{error:?}");
}

#[test]
fn a_program_that_is_silent_is_named_and_holds_nobody_up() {
    let pisted = Pisted::start();
    let _silent = Program::register(pisted.run_folder(), 1, &[]);
    pisted.create("web", "shop:*");
    let status = pisted.client().start(None).call().unwrap().session;
    assert!(
        status.findings[0].what.starts_with("shop (pid "),
        "{:?}",
        status.findings
    );
    // It is not waited for again.
    pisted.client().stop(None).call().unwrap();
}

#[test]
fn a_flush_says_until_when_the_trace_is_complete_or_why_nobody_knows() {
    let pisted = Pisted::start();
    pisted.create("web", "shop:*");
    let flush = || pisted.client().flush(None).call().unwrap();
    let refused = || pisted.client().flush(None).call().unwrap_err();
    // Of one that has not recorded yet, nothing is missing.
    let before = flush();
    pisted.start_session("web");
    let [first, second] = [(), ()].map(|()| flush());
    assert_eq!((first.id, first.late), (pisted.status("web").id, vec![]));
    assert!(before.until > 0 && before.until < first.until && first.until < second.until);
    let consumer = Pid::from_raw(pisted.consumers()[0]).unwrap();
    kill_process(consumer, Signal::STOP).unwrap();
    wait_until("every thread of it has stopped", || {
        let threads = fs::read_dir(format!("/proc/{}/task", consumer.as_raw_nonzero())).unwrap();
        let stat = |thread: std::io::Result<fs::DirEntry>| fs::read_to_string(thread.unwrap().path().join("stat"));
        threads.map(stat).all(|stat| stat.unwrap().contains(") T "))
    });
    let error = refused();
    assert!(matches!(error.kind(), ErrorKind::ConsumerFailed(_)), "{error:?}");
    // Whoever waits for the end of a session that is being stopped is told that it goes on, and then that it is over.
    std::thread::scope(|scope| {
        let stopping = scope.spawn(|| pisted.client().stop(None).call().unwrap());
        wait_until("the session is being stopped", || {
            matches!(pisted.status("web").state, SessionState::stopped)
        });
        let error = refused();
        assert!(matches!(error.kind(), ErrorKind::ConsumerFailed(_)), "{error:?}");
        kill_process(consumer, Signal::CONT).unwrap();
        stopping.join().unwrap();
    });
    assert!(flush().until > second.until);
}

#[test]
fn refusals_come_with_their_parameters() {
    let pisted = Pisted::start();
    let mut client = pisted.client();
    let error = client.start(None).call().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NoCurrentSession(_)), "{error:?}");
    pisted.create("web", "shop:*");
    let error = client.start(Some("wbe".into())).call().unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::NoSession(Some(e)) if e.nearest == ["web"]),
        "{error:?}"
    );
    let output = pisted.output("web").to_str().unwrap().to_owned();
    fs::write(pisted.output("web").join("mine"), "").unwrap();
    let error = client
        .create_session(Some("mail".into()), Some(output), false, None, None, None)
        .call()
        .unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::OutputExists(Some(_))), "{error:?}");
    let error = client
        .create_session(Some("mail".into()), Some("here".into()), false, None, None, None)
        .call()
        .unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::InvalidSetting(Some(e)) if e.setting == "output"),
        "{error:?}"
    );
    let error = client
        .create_session(None, Some("/proc/x".into()), false, None, None, None)
        .call()
        .unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::OutputFailed(Some(e)) if !e.reason.contains("os error")),
        "{error:?}"
    );
    let mut channel = channel_request("fast");
    channel.subbuf_bytes = Some(5000);
    let error = client.enable_channel(None, channel).call().unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::InvalidSetting(Some(e)) if e.value == "5000"),
        "{error:?}"
    );
    let error = client.shutdown(false).call().unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::SessionsExist(Some(e)) if e.names == ["web"]),
        "{error:?}"
    );
}

#[test]
fn programs_are_listed_with_their_events() {
    let pisted = Pisted::start();
    let program = Program::connect(pisted.run_folder());
    program.send(&wire::hello(1, &[], [7; 16]));
    let order = wire::event(
        0,
        "shop",
        "order",
        &[wire::int32("id"), wire::enumeration("state", &[("OPEN", 1)])],
    );
    program.send(&wire::events(1, &[order]));
    program.send(&wire::sync(1));
    program.until_synced(1);
    let programs = pisted.client().list_programs().call().unwrap().programs;
    let listed = &programs[0];
    assert_eq!((listed.pid, listed.vpid), (std::process::id().into(), 4711));
    assert_eq!(
        (&*listed.name, listed.record_id.as_deref()),
        ("shop", Some(&*"07".repeat(16)))
    );
    let fields: Vec<String> = listed.events[0]
        .fields
        .iter()
        .map(|field| format!("{} {}", field.r#type, field.name))
        .collect();
    assert_eq!(
        (&*listed.events[0].name, fields.join(", ").as_str()),
        ("shop:order", "int32 id, enum {OPEN = 1} state")
    );
    drop(program);
    wait_until("the program left", || {
        pisted.client().list_programs().call().unwrap().programs.is_empty()
    });
}

#[test]
fn a_long_list_comes_in_parts_and_many_who_ask_for_it_take_little_memory() {
    const EVENTS: u32 = 40_000;
    const ASKING: usize = 48;
    let mut pisted = Pisted::start();
    let program = Program::connect(pisted.run_folder());
    program.send(&wire::hello(1, &[], [0; 16]));
    for first in (0..EVENTS).step_by(400) {
        let event = |index| wire::event(index, "many", &format!("event_{index:05}"), &[wire::int32("value")]);
        let events: Vec<_> = (first..first + 400).map(event).collect();
        program.send(&wire::events(1, &events));
    }
    program.send(&wire::sync(1));
    program.until_synced(1);
    let (_other, _) = Program::register(pisted.run_folder(), 2, &[]);

    let whole = pisted.client().list_programs().call().unwrap_err();
    assert!(matches!(whole.kind(), ErrorKind::TooLong(_)), "{whole:?}");
    let programs = programs(&mut pisted.client()).unwrap();
    assert_eq!(programs.len(), 2);
    let names = programs[0].events.iter().map(|event| event.name.clone());
    assert!(names.eq((0..EVENTS).map(|index| format!("many:event_{index:05}"))));

    let ask = || {
        let mut stream = UnixStream::connect(pisted.run_folder().join("control.sock")).unwrap();
        let request = b"{\"method\":\"dev.piste.Control.ListPrograms\",\"more\":true,\"parameters\":{}}\0";
        stream.write_all(request).unwrap();
        stream
    };
    let mut asking: Vec<UnixStream> = (0..ASKING).map(|_| ask()).collect();
    // Each has a part that it cannot get rid of.
    for stream in &mut asking {
        stream.read_exact(&mut [0; 1]).unwrap();
    }
    let status = fs::read_to_string(format!("/proc/{}/status", pisted.child().id())).unwrap();
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let most_kb: u64 = most.split_ascii_whitespace().next().unwrap().parse().unwrap();
    assert!(most_kb < 600 << 10, "{most_kb} kB");
}

#[test]
fn the_rings_of_a_killed_program_are_emptied_and_given_back() {
    let pisted = Pisted::start();
    pisted.create("web", "shop:*");
    pisted.start_session("web");
    let process = Process::start(pisted.run_folder());
    assert_eq!(pisted.status("web").programs, 1);
    process.kill();
    wait_until("the program's rings are gone", || {
        let journal = fs::read_to_string(pisted.run_folder().join("journal")).unwrap();
        journal.contains("ring_set_ended")
    });
    assert_eq!(pisted.status("web").programs, 0);
}

#[test]
fn a_killed_pisted_is_followed_by_one_that_knows_everything() {
    let mut pisted = Pisted::start();
    pisted.create("web", "shop:order");
    pisted.start_session("web");
    let (program, told) = Program::register(pisted.run_folder(), 1, &[]);
    assert_eq!(names(&told), ["channel 1", "enable 1 1.0=0"]);
    let dies_meanwhile = Process::start(pisted.run_folder());
    let id = pisted.status("web").id;
    let consumers = pisted.consumers();
    pisted.kill();
    assert!(program.is_closed());
    dies_meanwhile.kill();

    pisted.start_again(&[]);
    assert_eq!(pisted.consumers(), consumers);
    let status = pisted.status("web");
    assert!(matches!(status.state, SessionState::active));
    assert_eq!((status.id, status.programs, status.current), (id, 1, true));
    // The program comes back with what it has; what it has not is gone.
    let (_program, told) = Program::register(pisted.run_folder(), 1, &[1, 99]);
    assert_eq!(names(&told), ["gone 99", "disable 1 1.1=0", "enable 1 1.0=0"]);
    let (_other, told) = Program::register(pisted.run_folder(), 2, &[]);
    assert_eq!(names(&told), ["channel 3", "enable 3 1.0=0"]);
    let ended = pisted.client().destroy_session(None).call().unwrap().session;
    assert!(matches!(ended.state, SessionState::stopped));
    assert_eq!(
        fs::read_to_string(pisted.run_folder().join("journal"))
            .unwrap()
            .lines()
            .count(),
        2
    );
}

/// Lines of a journal whose numbers are too large to be counted on with: a pisted that is built for tests fails over the last one, when it
/// is replayed or when pisted goes on with what it says.
const LINES_THAT_FAIL: [&str; 2] = [
    r#"{"ring_sets_lost":{"session":1,"channel":0,"count":18446744073709551615}}
{"ring_sets_lost":{"session":1,"channel":0,"count":18446744073709551615}}
"#,
    r#"{"chunks_set":{"session":1,"chunks":{"count":18446744073709551615,"rotated":null,"rotating":{"at":{"wall_ns":0,"boot_ns":0},"is_written":false},"user":{"chunk":0,"totals":[]},"kernel":{"chunk":0,"totals":[]}}}}
"#,
];

#[test]
fn a_change_that_pisted_ended_over_twice_is_set_aside_and_said() {
    for lines in LINES_THAT_FAIL {
        let mut pisted = Pisted::start();
        pisted.create("web", "shop:order");
        pisted.start_session("web");
        pisted.kill();
        let path = |name: &str| pisted.run_folder().join(name);
        let journal = fs::read_to_string(path("journal")).unwrap();
        let last_line = lines.lines().last().unwrap();
        fs::write(path("journal"), journal.clone() + lines).unwrap();
        for _ in 0..2 {
            let output = pisted.command(&[]).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success() && said.contains("overflow"), "{said}");
        }
        assert!(!path("journal.aside").exists());

        pisted.start_again(&[]);
        let status = pisted.status("web");
        assert!(matches!(status.state, SessionState::active));
        let said = |text: &str| text.contains("fail twice") && text.contains("journal.aside");
        assert!(
            status.findings.iter().any(|finding| said(&finding.what)),
            "{:?}",
            status.findings
        );
        assert!(said(&pisted.log()), "{}", pisted.log());
        let aside = fs::read_to_string(pisted.run_folder().join("journal.aside")).unwrap();
        assert_eq!(aside.trim_end(), last_line);
        let (_program, told) = Program::register(pisted.run_folder(), 1, &[]);
        assert_eq!(names(&told), ["channel 1", "enable 1 1.0=0"]);
        pisted.client().destroy_session(None).call().unwrap();
    }
}

#[test]
fn snapshots_that_are_taken_at_once_have_folders_of_their_own() {
    let pisted = Pisted::start();
    let mut client = pisted.client();
    let output = pisted.output("flight").to_str().unwrap().to_owned();
    client
        .create_session(Some("flight".into()), Some(output), true, None, None, None)
        .call()
        .unwrap();
    client
        .enable_event(None, None, vec!["shop:*".into()], vec![], None, None)
        .call()
        .unwrap();
    pisted.start_session("flight");
    let (count, begin) = (8, std::sync::Barrier::new(8));
    let take = || {
        let mut client = pisted.client();
        begin.wait();
        client.snapshot_record(None, None).call().unwrap().output
    };
    let folders: std::collections::BTreeSet<String> = std::thread::scope(|scope| {
        let takers: Vec<_> = (0..count).map(|_| scope.spawn(take)).collect();
        takers.into_iter().map(|taker| taker.join().unwrap()).collect()
    });
    assert_eq!(folders.len(), count, "{folders:?}");
}

#[test]
fn a_killed_consumer_is_replaced_and_gets_everything_again() {
    let pisted = Pisted::start();
    pisted.create("web", "shop:*");
    pisted.start_session("web");
    let (_program, _) = Program::register(pisted.run_folder(), 1, &[]);
    let before = pisted.consumers();
    assert_eq!(before.len(), 1);
    support::kill(before[0]);
    wait_until("there is another consumer", || {
        let now = pisted.consumers();
        now.len() == 1 && now != before
    });
    pisted.client().stop(None).call().unwrap();
    assert_eq!(
        pisted.client().destroy_session(None).call().unwrap().session.programs,
        1
    );
}

#[test]
fn both_killed_lose_rings_but_no_session() {
    let mut pisted = Pisted::start();
    pisted.create("web", "shop:*");
    pisted.start_session("web");
    let (_program, _) = Program::register(pisted.run_folder(), 1, &[]);
    let consumer = pisted.consumers()[0];
    pisted.kill();
    support::kill(consumer);
    wait_until("the consumer is gone", || pisted.consumers().is_empty());
    pisted.start_again(&[]);
    let status = pisted.status("web");
    assert!(matches!(status.state, SessionState::active));
    assert!(status.findings[0].what.contains("is lost"), "{:?}", status.findings);
    assert_eq!(status.channels[0].lost_packets, 1);
    let (_program, told) = Program::register(pisted.run_folder(), 1, &[1]);
    assert_eq!(names(&told), ["gone 1", "channel 2", "enable 2 1.0=0 1.1=1"]);
}

#[test]
fn hostile_programs_are_disconnected_and_disturb_nobody() {
    let pisted = Pisted::start();
    pisted.create("web", "shop:*");
    pisted.start_session("web");
    let (good, _) = Program::register(pisted.run_folder(), 1, &[]);
    let hello = |instance_id| wire::hello(instance_id, &[], [0; 16]);
    let cases: [&[Vec<u8>]; 7] = [
        &[vec![0]],
        &[vec![0xff; 65536]],
        &[wire::sync(1)],
        &[hello(2), hello(2)],
        &[
            hello(3),
            wire::events(1, &[wire::event(0, "shop", "order", &[wire::int32("")])]),
        ],
        &[hello(4), wire::hello(4, &[], [0; 16])[..40].to_vec()],
        &[hello(5), vec![0; 65537]],
    ];
    for messages in cases {
        let bad = Program::connect(pisted.run_folder());
        // Pisted may close the connection before the last one.
        let _ = messages.iter().all(|message| bad.try_send(message));
        assert!(bad.is_closed(), "{messages:02x?}");
    }
    good.send(&wire::sync(9));
    assert_eq!(names(&good.until_synced(9)), [""; 0]);
    let status = pisted.status("web");
    assert!(
        status
            .findings
            .iter()
            .any(|finding| finding.what.contains("was disconnected")),
        "{:?}",
        status.findings
    );
}

#[test]
fn a_program_that_does_not_read_is_dropped() {
    let pisted = Pisted::start();
    let program = Program::connect(pisted.run_folder());
    program.send(&wire::hello(1, &[], [0; 16]));
    // Each SYNC has an answer, which stays unread. Its own queue fills, then pisted's.
    let mut sent = 0u64;
    while program.try_send(&wire::sync(sent)) {
        sent += 1;
        assert!(sent < 10_000_000, "pisted keeps answers without limit");
    }
    assert!(pisted.log().contains("does not read"), "{}", pisted.log());
    assert_eq!(pisted.client().list_programs().call().unwrap().programs.len(), 0);
}

#[test]
fn there_is_one_pisted_in_a_run_folder() {
    let pisted = Pisted::start();
    let second = pisted.command(&[]).output().unwrap();
    assert!(!second.status.success());
    let said = String::from_utf8(second.stderr).unwrap();
    assert!(
        said.starts_with("pisted: another pisted is already running, with pid "),
        "{said}"
    );
    pisted.client().version().call().unwrap();
}

#[test]
fn nobody_else_may_use_the_sockets() {
    let pisted = Pisted::start();
    let mode = |name| {
        fs::metadata(pisted.run_folder().join(name))
            .unwrap()
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!(mode("consumer.sock"), 0o600);
    assert_eq!(mode("journal"), 0o600);
    // Root's is for the group `tracing`, where there is one.
    assert!([0o600, 0o660].contains(&mode("control.sock")));
    assert!([0o600, 0o666].contains(&mode("app.sock")));
    assert_eq!(mode("state"), 0o644);
}

#[test]
fn it_ends_by_itself_when_idle_and_takes_the_consumer_along() {
    let mut pisted = Pisted::start_with(&["--exit-when-idle", "1"]);
    pisted.create("web", "shop:*");
    std::thread::sleep(std::time::Duration::from_millis(1500));
    pisted.client().destroy_session(None).call().unwrap();
    wait_until("it ended", || pisted.child().try_wait().unwrap().is_some());
    wait_until("the consumer ended", || pisted.consumers().is_empty());
    assert!(pisted.child().wait().unwrap().success());
}

#[test]
fn told_to_end_with_a_session_it_leaves_the_consumer_recording() {
    let mut pisted = Pisted::start();
    pisted.create("web", "shop:*");
    pisted.start_session("web");
    let consumers = pisted.consumers();
    kill_process(Pid::from_child(pisted.child()), Signal::TERM).unwrap();
    assert!(pisted.child().wait().unwrap().success());
    assert_eq!(pisted.consumers(), consumers);
    pisted.start_again(&[]);
    assert!(matches!(pisted.status("web").state, SessionState::active));
    let mut client = pisted.client();
    client.shutdown(true).call().unwrap();
    drop(client);
    assert!(pisted.child().wait().unwrap().success());
    wait_until("the consumer ended", || pisted.consumers().is_empty());
}

#[test]
fn in_the_background_it_returns_when_it_can_be_used() {
    let pisted = Pisted::start();
    pisted.client().shutdown(false).call().unwrap();
    wait_until("the first one ended", || pisted.try_client().is_err());
    let status = pisted
        .command(&["--background", "--exit-when-idle", "1"])
        .status()
        .unwrap();
    assert!(status.success());
    let pid = pisted.client().version().call().unwrap().pid;
    let session = rustix::process::getsid(Pid::from_raw(pid as i32)).unwrap();
    assert_eq!(session.as_raw_nonzero().get(), pid as i32);
    let second = pisted.command(&["--background"]).output().unwrap();
    assert!(!second.status.success());
    assert!(String::from_utf8_lossy(&second.stderr).contains("another pisted is already running"));
    // Whoever connects to see whether it is there keeps it from being idle.
    wait_until("it ended", || !pisted.run_folder().join("control.sock").exists());
}

#[test]
fn many_programs_cost_little_memory() {
    let mut pisted = Pisted::start();
    let resident_kb = |pid: u32| -> u64 {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
    };
    let pid = pisted.child().id();
    // What the first one needs is needed once.
    let _first = Program::register(pisted.run_folder(), 1000, &[]);
    let before = resident_kb(pid);
    let programs: Vec<_> = (1..=300)
        .map(|id| Program::register(pisted.run_folder(), id, &[]))
        .collect();
    let each = (resident_kb(pid) - before) / 300;
    assert!(each < 8, "{each} kB for each program");
    assert_eq!(pisted.client().list_programs().call().unwrap().programs.len(), 301);
    drop(programs);
    let consumer = pisted.consumers()[0];
    let total = resident_kb(pid) + resident_kb(consumer as u32);
    println!("pisted and consumer: {total} kB; each of 300 programs: {each} kB");
}
