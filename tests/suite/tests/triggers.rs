// SPDX-License-Identifier: MIT OR Apache-2.0
//! Triggers: what is done, and who is told, when an event matches.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use piste_support::process::{self, send, wait_until};
use piste_support::{Running, Trace, Workplace, build_tree, kernel, users};
use rustix::process::Signal;
use serde_json::Value;

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// `piste listen --json`, which has begun to listen.
struct Listener {
    running: Running,
    heard: PathBuf,
}

impl Listener {
    fn start(place: &Workplace, options: &str) -> Listener {
        let (heard, said) = (place.path("heard"), place.path("said"));
        // Of an earlier one.
        let _ = fs::remove_file(&said);
        let piste = build_tree::binary("piste");
        let line = format!(
            "exec {} listen --json {options} > {} 2> {}",
            piste.display(),
            heard.display(),
            said.display()
        );
        let running = place.start("sh", &["-c", &line]);
        wait_until("it listens", || {
            fs::read_to_string(&said).is_ok_and(|said| said.contains("listening to"))
        });
        Listener { running, heard }
    }

    fn notices(&self) -> Vec<Value> {
        let text = fs::read_to_string(&self.heard).expect("what was heard");
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let notices = whole.lines().map(|line| serde_json::from_str(line).expect("a notice"));
        notices.collect()
    }

    fn of_kind(&self, kind: &str) -> Vec<Value> {
        let mut notices = self.notices();
        notices.retain(|notice| notice["notice"] == kind);
        notices
    }

    /// So many matches, once they are there.
    fn matches(&self, count: usize) -> Vec<Value> {
        wait_until("the matches are told", || self.of_kind("match").len() >= count);
        self.of_kind("match")
    }

    /// So many outcomes of actions, once they are there.
    fn outcomes(&self, count: usize) -> Vec<Value> {
        wait_until("the outcomes are told", || self.of_kind("outcome").len() >= count);
        self.of_kind("outcome")
    }

    /// Ends as by Ctrl-C.
    fn end(mut self) {
        self.running.signal(Signal::INT);
        self.running.finish().expect_success();
    }
}

/// A trigger as `list-triggers` has it.
fn trigger(place: &Workplace, name: &str) -> Value {
    let all = place.piste_json(&["list-triggers"]);
    let triggers = all["triggers"].as_array().expect("a list");
    let found = triggers.iter().find(|trigger| trigger["name"] == name);
    found
        .unwrap_or_else(|| panic!("there is no trigger {name}: {all}"))
        .clone()
}

fn count(trigger: &Value, of: &str) -> u64 {
    trigger[of].as_u64().unwrap_or_else(|| panic!("{of} of {trigger}"))
}

#[test]
fn a_snapshot_on_an_event_has_that_event_and_the_thousand_before_it() {
    let place = Workplace::new();
    place.piste_succeeds(&["create", "flight", "--snapshot", "-o", text(&place.path("flight"))]);
    place.piste_succeeds(&["enable-event", "*"]);
    place.piste_succeeds(&["start"]);
    let filter = ["--filter", "number == 2000"];
    place.piste_succeeds(
        &[
            &["add-trigger", "late", "-e", "bank:failure"],
            &filter[..],
            &["--snapshot", "flight"],
        ]
        .concat(),
    );
    let listener = Listener::start(&place, "late");
    let mut puppet = place.start(place.program("puppet.c"), &[]);
    assert_eq!(puppet.ask("record 2001"), "done");
    let outcomes = listener.outcomes(1);
    let matches = listener.matches(1);
    assert_eq!(matches.len(), 1);
    assert_eq!(matches[0]["name"], "bank:failure");
    assert_eq!(matches[0]["pid"], puppet.pid());
    assert_eq!(matches[0]["payload"]["number"], 2000);
    assert_eq!(matches[0]["event_context"]["procname"], "puppet");
    assert_eq!(outcomes[0]["number"], 1);
    let snapshot = outcomes[0]["trace"].as_str().expect("a folder");
    let mut numbers = Vec::new();
    Trace::at(snapshot).for_each(|event| {
        if event.name == "bank:failure" {
            numbers.push(event.number("number"));
        }
    });
    assert!(numbers.ends_with(&(1000..=2000).collect::<Vec<_>>()));
    puppet.finish().expect_success();
    listener.end();
    let removed = place.piste_json(&["remove-trigger", "late"]);
    assert_eq!(count(&removed, "matched"), 1, "{removed}");
}

#[test]
fn many_matches_act_so_many_times_a_second_and_the_rest_are_counted() {
    let place = Workplace::new();
    place.piste_succeeds(&["add-trigger", "often", "-e", "shop:order", "--per-second", "10"]);
    let listener = Listener::start(&place, "");
    let mut puppet = place.start(place.program("puppet.c"), &[]);
    let begun = Instant::now();
    for _ in 0..100 {
        assert_eq!(puppet.ask("record 100"), "done");
    }
    wait_until("all are looked at", || {
        let often = trigger(&place, "often");
        count(&often, "matched") + count(&often, "missed") == 10_000
    });
    let (often, seconds) = (trigger(&place, "often"), begun.elapsed().as_secs());
    assert_eq!(count(&often, "missed"), 0, "the rings hold many times as many");
    let acted = count(&often, "acted");
    assert!(
        (10..=10 * (seconds + 1)).contains(&acted),
        "{acted} times in {seconds} s"
    );
    let matches = listener.matches(acted as usize);
    assert_eq!(matches.len() as u64, acted);
    let times: Vec<i64> = matches
        .iter()
        .map(|found| {
            found["noticed_ns"]
                .as_str()
                .and_then(|ns| ns.parse().ok())
                .expect("a time")
        })
        .collect();
    // Both clocks are read in turn, and one of them may be adjusted meanwhile.
    let in_a_second = times.windows(11).filter(|eleven| eleven[10] - eleven[0] < 990_000_000);
    assert_eq!(in_a_second.count(), 0, "{times:?}");
    // One that is told later says how many were not.
    while listener.matches(1).iter().all(|found| found["suppressed"] == 0) {
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(puppet.ask("record 1"), "done");
    }
    puppet.finish().expect_success();
    listener.end();
}

#[test]
fn a_trigger_that_has_acted_often_enough_disables_its_events() {
    let place = Workplace::new();
    place.piste_succeeds(&["add-trigger", "twice", "-e", "shop:order", "--at-most", "2"]);
    let mut puppet = place.start(place.program("puppet.c"), &[]);
    assert_eq!(puppet.ask("enabled"), "order ");
    let listener = Listener::start(&place, "twice");
    for _ in 0..2 {
        assert_eq!(puppet.ask("record 1"), "done");
    }
    listener.matches(2);
    wait_until("its event is disabled", || puppet.ask("enabled").is_empty());
    assert_eq!(puppet.ask("record 1"), "done");
    let spent = trigger(&place, "twice");
    assert_eq!((count(&spent, "matched"), count(&spent, "acted")), (2, 2));
    assert_eq!(spent["findings"], Value::Array(vec![]));
    place.piste_succeeds(&["remove-trigger", "twice"]);
    assert_eq!(listener.matches(2).len(), 2);
    puppet.finish().expect_success();
}

#[test]
fn sessions_start_rotate_and_stop_on_events() {
    let place = Workplace::new();
    let trace = place.path("trace");
    place.piste_succeeds(&["create", "web", "-o", text(&trace)]);
    place.piste_succeeds(&["enable-event", "shop:order"]);
    for (name, filter, action) in [
        ("begin", "number == 9", "--start"),
        ("cut", "number == 19", "--rotate"),
        ("end", "number == 29", "--stop"),
    ] {
        place.piste_succeeds(&[
            "add-trigger",
            name,
            "-e",
            "bank:failure",
            "--filter",
            filter,
            action,
            "web",
        ]);
    }
    let listener = Listener::start(&place, "");
    let mut puppet = place.start(place.program("puppet.c"), &[]);
    for outcomes in 1..4 {
        assert_eq!(puppet.ask("record 10"), "done");
        let outcomes = listener.outcomes(outcomes);
        assert!(
            outcomes.iter().all(|outcome| outcome["error"].is_null()),
            "{outcomes:?}"
        );
    }
    assert_eq!(puppet.ask("record 10"), "done");
    assert_eq!(place.piste_json(&["status", "-s", "web"])["state"], "stopped");
    let chunk = listener.outcomes(2)[1]["trace"].as_str().expect("a folder").to_owned();
    let numbers = |path: &Path| {
        let mut numbers = Vec::new();
        Trace::at(path).for_each(|event| numbers.push(event.number("number")));
        numbers
    };
    assert_eq!(numbers(Path::new(&chunk)), (10..20).collect::<Vec<_>>());
    assert_eq!(numbers(&trace.join("user")), (20..30).collect::<Vec<_>>());
    puppet.finish().expect_success();
    listener.end();
}

#[test]
fn an_action_that_fails_is_told_and_listed_and_the_next_one_is_done() {
    let place = Workplace::new();
    place.piste_succeeds(&["create", "web", "-o", text(&place.path("trace"))]);
    place.piste_succeeds(&["enable-event", "shop:order"]);
    let actions = ["--snapshot", "web", "--stop", "nowhere", "--start", "web"];
    place.piste_succeeds(&[&["add-trigger", "all", "-e", "bank:failure"], &actions[..]].concat());
    let listener = Listener::start(&place, "all");
    let mut puppet = place.start(place.program("puppet.c"), &[]);
    assert_eq!(puppet.ask("record 1"), "done");
    let outcomes = listener.outcomes(3);
    let errors: Vec<&str> = outcomes
        .iter()
        .map(|outcome| outcome["error"].as_str().unwrap_or(""))
        .collect();
    assert!(errors[0].contains("--snapshot"), "{errors:?}");
    assert!(errors[1].contains("there is no session \"nowhere\""), "{errors:?}");
    assert_eq!(errors[2], "");
    assert_eq!(place.piste_json(&["status", "-s", "web"])["state"], "active");
    let findings = trigger(&place, "all")["findings"].clone();
    assert_eq!(findings.as_array().map(Vec::len), Some(2), "{findings}");
    puppet.finish().expect_success();
    listener.end();
}

#[test]
fn events_of_the_kernel_trigger_too() {
    let Some(place) = kernel::workplace() else { return };
    let program = place.program("puppet.c");
    let filter = format!("filename == \"{}\"", program.display());
    let event = ["-k", "sched:sched_process_exec", "--filter", &filter];
    place.piste_succeeds(&[&["add-trigger", "exec"], &event[..]].concat());
    let calls = [
        "--syscall",
        "openat",
        "--entry",
        "--filter",
        "filename == \"/dev/null\"",
    ];
    place.piste_succeeds(&[&["add-trigger", "open", "--per-second", "1000"], &calls[..]].concat());
    let listener = Listener::start(&place, "");
    let mut puppet = place.start(&program, &[]);
    // Others execute and open what they like.
    let of_puppet = |trigger: &str| {
        let mut matches = listener.of_kind("match");
        matches.retain(|found| found["trigger"] == trigger && found["event_context"]["procname"] == "puppet");
        matches
    };
    wait_until("it is executed", || !of_puppet("exec").is_empty());
    let exec = &of_puppet("exec")[0];
    assert_eq!(exec["name"], "sched_process_exec");
    assert_eq!(exec["payload"]["filename"], text(&program));
    assert_eq!(exec["event_context"]["tid"], puppet.pid());
    puppet.ask("open");
    wait_until("it is opened", || !of_puppet("open").is_empty());
    assert_eq!(of_puppet("open")[0]["name"], "syscall_entry_openat");
    puppet.finish().expect_success();
    listener.end();
    place.piste_succeeds(&["remove-trigger", "exec", "open"]);
    assert_eq!(kernel::instances_of(&place), Vec::<String>::new());
}

#[test]
fn what_takes_too_long_is_told_when_it_ends() {
    let place = Workplace::new();
    let answers = ["-e", "shop:asked", "--end-event", "shop:answered", "--over", "1s"];
    place.piste_succeeds(&[&["add-trigger", "slow", "--by", "id"], &answers[..]].concat());
    // Each answer comes from another thread, and there is no such field.
    place.piste_succeeds(&[&["add-trigger", "same"], &answers[..]].concat());
    place.piste_succeeds(&[&["add-trigger", "wrong", "--by", "idd"], &answers[..]].concat());
    let listener = Listener::start(&place, "");
    place.run(place.program("answers.c"), &["20", "1200"]).expect_success();
    let matches = listener.matches(2);
    for (found, id) in matches.iter().zip([3, 13]) {
        assert_eq!(
            (&found["trigger"], &found["name"]),
            (&"slow".into(), &"shop:answered".into())
        );
        assert_eq!(found["payload"]["id"], id);
        let duration_ns = count(found, "duration_ns");
        assert!((1_200_000_000..60_000_000_000).contains(&duration_ns), "{duration_ns}");
    }
    assert_eq!(count(&trigger(&place, "slow"), "matched"), 2, "the others were fast");
    assert_eq!(count(&trigger(&place, "same"), "matched"), 0);
    let wrong = trigger(&place, "wrong");
    assert_eq!(count(&wrong, "matched"), 0);
    let findings = wrong["findings"].to_string();
    for event in ["asked", "answered"] {
        assert!(
            findings.contains(&format!("event shop:{event} has no value \\\"idd\\\"")),
            "{findings}"
        );
    }
    listener.end();
    for incomplete in [&["-e", "a:b", "--over", "1s"][..], &["-e", "a:b", "--end-event", "a:c"]] {
        place.piste(&[&["add-trigger"], incomplete].concat()).expect_status(2);
    }
}

/// The last answer and the end of the program come at the same look.
#[test]
fn what_a_program_records_last_is_told_though_nothing_records_any_more() {
    let place = Workplace::new();
    let work = ["-e", "shop:order", "--end-event", "bank:failure", "--over", "0us"];
    place.piste_succeeds(&[&["add-trigger", "failed", "--by", "number"], &work[..]].concat());
    let listener = Listener::start(&place, "");
    let mut puppet = place.start(place.program("puppet.c"), &[]);
    assert_eq!(puppet.ask("wait"), "done");
    let consumer = place.consumer();
    process::stop(consumer);
    assert_eq!(puppet.ask("record 1"), "done");
    puppet.finish().expect_success();
    wait_until("the program is known to be gone", || {
        place.piste_json(&["list", "--programs"])["programs"] == Value::Array(vec![])
    });
    send(consumer, Signal::CONT);
    assert_eq!(listener.matches(1)[0]["name"], "bank:failure");
    listener.end();
}

/// The program still waits for its answer when that is told.
#[test]
fn what_is_overdue_is_told_before_it_ends() {
    let place = Workplace::new();
    let answers = "-e shop:asked --end-event shop:answered --by id --over 300ms --overdue";
    let answers: Vec<&str> = answers.split(' ').collect();
    place.piste_succeeds(&[&["add-trigger", "stuck"], &answers[..]].concat());
    let answers = "-e shop:asked --end-event shop:answered --by id --over 1h --overdue";
    let answers: Vec<&str> = answers.split(' ').collect();
    place.piste_succeeds(&[&["add-trigger", "patient"], &answers[..]].concat());
    let listener = Listener::start(&place, "");
    let program = place.start(place.program("answers.c"), &["10", "100000000"]);
    let found = listener.matches(1).remove(0);
    assert_eq!(
        (&found["name"], &found["payload"]["id"], &found["duration_ns"]),
        (&"shop:asked".into(), &3.into(), &300_000_000.into())
    );
    assert_eq!(found["pid"], program.pid());
    let stuck = trigger(&place, "stuck");
    assert_eq!(count(&stuck, "matched"), 1);
    assert_eq!(stuck["condition"]["overdue"], true);
    // What ends with its trigger is not overdue.
    let removed = place.piste_json(&["remove-trigger", "patient"]);
    assert_eq!(count(&removed, "matched"), 0, "{removed}");
    program.signal(Signal::KILL);
    listener.end();
}

/// While the consumer stands still, ends find no space. The program waits for nothing, and nobody may say that it does.
#[test]
fn what_may_have_ended_unseen_is_not_overdue() {
    const LAST: u64 = 999_999;
    let place = Workplace::new();
    // What is recorded later begins and does not end.
    let begins = format!("number >= {LAST}");
    let ends = format!("number <= {LAST}");
    let work = ["-e", "shop:order", "--end-event", "bank:failure", "--by", "number"];
    let late = [
        "--over",
        "300ms",
        "--overdue",
        "--filter",
        &begins,
        "--end-filter",
        &ends,
    ];
    place.piste_succeeds(&[&["add-trigger", "stuck"], &work[..], &late].concat());
    let listener = Listener::start(&place, "");
    let mut puppet = place.start(place.program("puppet.c"), &[]);
    assert_eq!(puppet.ask("wait"), "done");
    let consumer = place.consumer();
    process::stop(consumer);
    assert_eq!(puppet.ask(&format!("record {}", LAST + 1)), "done");
    send(consumer, Signal::CONT);
    wait_until("something is overdue", || {
        assert_eq!(puppet.ask("record 1"), "done");
        !listener.of_kind("match").is_empty()
    });
    let found = listener.matches(1).remove(0);
    assert!(found["payload"]["number"].as_u64() > Some(LAST), "{found}");
    assert!(count(&trigger(&place, "stuck"), "missed") > 0);
    listener.end();
}

#[test]
fn system_calls_that_do_not_end_are_told() {
    let Some(place) = kernel::workplace() else { return };
    place.piste_succeeds(&[
        "add-trigger",
        "stuck",
        "--syscall",
        "clock_nanosleep",
        "--over",
        "300ms",
        "--overdue",
        "--per-second",
        "1000",
    ]);
    let listener = Listener::start(&place, "stuck");
    let sleeper = place.start("sleep", &["100000"]);
    let of_sleeper = || {
        let mut matches = listener.of_kind("match");
        matches.retain(|found| found["event_context"]["tid"] == sleeper.pid());
        matches
    };
    wait_until("it is told", || !of_sleeper().is_empty());
    assert_eq!(of_sleeper()[0]["name"], "syscall_entry_clock_nanosleep");
    assert_eq!(of_sleeper()[0]["duration_ns"], 300_000_000);
    sleeper.signal(Signal::KILL);
    listener.end();
}

#[test]
fn system_calls_that_take_too_long_are_told_with_their_time() {
    let Some(place) = kernel::workplace() else { return };
    place.piste_succeeds(&[
        "add-trigger",
        "naps",
        "--syscall",
        "clock_nanosleep",
        "--over",
        "3ms",
        "--per-second",
        "1000",
    ]);
    let listener = Listener::start(&place, "naps");
    place.run(place.program("naps.c"), &["20"]).expect_success();
    let naps = || {
        let mut matches = listener.of_kind("match");
        matches.retain(|found| found["event_context"]["procname"] == "naps");
        matches
    };
    wait_until("the naps are told", || naps().len() >= 20);
    for nap in naps() {
        assert_eq!(nap["name"], "syscall_exit_clock_nanosleep");
        assert_eq!(nap["payload"]["ret"], 0);
        assert!(count(&nap, "duration_ns") >= 5_000_000, "{nap}");
    }
    assert_eq!(naps().len(), 20);
    listener.end();
}

#[test]
fn what_happens_to_sessions_is_told() {
    let place = Workplace::new();
    let sizes = ["--subbuf-size", "4K", "--num-subbuf", "2"];
    place.piste_succeeds(&["add-trigger", "lost", "--on-loss", "web"]);
    place.piste_succeeds(&["add-trigger", "large", "--on-size", "web=64K", "--rotate", "web"]);
    place.piste_succeeds(&["add-trigger", "cut", "--on-rotation", "web"]);
    place.piste_succeeds(&["add-trigger", "full", "--on-fill", "web=90%"]);
    place.piste_succeeds(&["create", "web", "-o", text(&place.path("trace"))]);
    place.piste_succeeds(&[&["enable-channel", "small"], &sizes[..]].concat());
    place.piste_succeeds(&["enable-channel", "large"]);
    place.piste_succeeds(&["enable-event", "-c", "small", "bank:failure"]);
    place.piste_succeeds(&["enable-event", "-c", "large", "shop:order"]);
    place.piste_succeeds(&["start"]);
    let listener = Listener::start(&place, "");
    let of = |trigger: &str| {
        let mut matches = listener.of_kind("match");
        matches.retain(|found| found["trigger"] == trigger);
        matches
    };
    let mut puppet = place.start(place.program("puppet.c"), &[]);
    assert_eq!(puppet.ask("record 20000"), "done");
    wait_until("the loss is told", || !of("lost").is_empty());
    wait_until("the size is told", || !of("large").is_empty());
    wait_until("the rotation is told", || !of("cut").is_empty());
    wait_until("the full ring is told", || !of("full").is_empty());
    assert_eq!(of("full")[0]["name"], "piste:session_filled");
    let full = count(&of("full")[0]["payload"], "percent");
    assert!((90..=100).contains(&full), "{full}");
    let cut = &of("cut")[0];
    assert_eq!(
        (&cut["name"], &cut["payload"]["session"]),
        (&"piste:session_rotated".into(), &"web".into())
    );
    let chunk = cut["payload"]["output"].as_str().expect("a folder");
    assert!(Path::new(chunk).join("user/metadata").exists(), "{cut}");
    assert_eq!(of("large")[0]["name"], "piste:session_recorded");
    assert!(count(&of("large")[0]["payload"], "bytes") >= 64 << 10);
    // What is lost and not told yet is told when the session ends; each time, what is new.
    assert_eq!(puppet.ask("record 20000"), "done");
    let status = place.piste_json(&["destroy", "-s", "web"]);
    let lost = || {
        let told = of("lost");
        assert!(told.iter().all(|found| found["name"] == "piste:session_lost"));
        told.iter().map(|found| count(&found["payload"], "lost")).sum::<u64>()
    };
    let small = status["channels"].as_array().expect("a list")[0].clone();
    assert_eq!(small["settings"]["name"], "small", "{status}");
    let discarded = count(&small, "discarded_events");
    assert!(discarded > 0);
    assert_eq!(count(&small, "fullest_percent"), 100, "{small}");
    wait_until("all is told", || lost() == discarded);
    puppet.finish().expect_success();
    listener.end();
}

#[test]
fn triggers_go_on_when_pisted_and_its_consumers_are_killed() {
    let place = Workplace::new();
    place.piste_succeeds(&["add-trigger", "order", "-e", "shop:order", "--per-second", "1000"]);
    let mut puppet = place.start(place.program("puppet.c"), &[]);
    let mut listener = Listener::start(&place, "order");
    assert_eq!(puppet.ask("record 1"), "done");
    assert_eq!(listener.matches(1)[0]["payload"]["number"], 0);
    for round in 1..4 {
        let consumer = place.consumer();
        send(consumer, Signal::KILL);
        wait_until("the consumer is dead", || !process::exists(consumer));
        assert_eq!(puppet.ask("record 1"), "done");
        let matches = listener.matches(round + 1);
        assert_eq!(matches[round]["payload"]["number"], round, "after consumer {round}");
    }
    place.kill_pisted();
    let heard = listener.running.finish();
    heard.expect_status(1);
    // As any session, it is known to the next pisted, and what it counted.
    place.start_pisted();
    listener = Listener::start(&place, "order");
    assert_eq!(count(&trigger(&place, "order"), "acted"), 4);
    assert_eq!(puppet.ask("record 1"), "done");
    let matches = listener.matches(1);
    assert_eq!(
        (&matches[0]["payload"]["number"], &matches[0]["number"]),
        (&4.into(), &5.into())
    );
    puppet.finish().expect_success();
    listener.end();
}

#[test]
fn listening_ends_with_the_trigger_or_after_so_many_matches_and_runs_commands() {
    let place = Workplace::new();
    for name in ["first", "second"] {
        place.piste_succeeds(&["add-trigger", name, "-e", "shop:order"]);
    }
    let mut puppet = place.start(place.program("puppet.c"), &[]);
    let told = place.path("told");
    let command = format!(
        "-n 2 --run 'echo $PISTE_TRIGGER $PISTE_EVENT >> {}; exit 3' first",
        told.display()
    );
    let mut listener = Listener::start(&place, &command);
    assert_eq!(puppet.ask("record 3"), "done");
    listener.running.finish().expect_success();
    assert_eq!(
        fs::read_to_string(&told).expect("it ran"),
        "first shop:order\n".repeat(2)
    );
    let said = fs::read_to_string(place.path("said")).expect("what was said");
    assert_eq!(said.matches("status 3").count(), 2, "{said}");
    let mut listener = Listener::start(&place, "first second");
    place.piste_succeeds(&["remove-trigger", "first"]);
    assert!(listener.running.runs());
    place.piste_succeeds(&["remove-trigger", "second"]);
    listener.running.finish().expect_success();
    puppet.finish().expect_success();
}

#[test]
fn a_recording_takes_snapshots_on_events_of_its_command_and_leaves_no_trigger() {
    let place = Workplace::new();
    let program = place.program("puppet.c");
    let on = [
        "--snapshot-on",
        "bank:failure if number == 1500",
        "--snapshot-on",
        "shop:never",
    ];
    let mut recorder = place.start_recording(&on, &program, &[]);
    // Another program with that event is not meant.
    let mut other = place.start(&program, &[]);
    assert_eq!(other.ask("record 1501"), "done");
    assert_eq!(recorder.running.ask("record 1501"), "done");
    let recording = recorder.finish();
    let snapshots: Vec<_> = fs::read_dir(recording.summary()["trace"].as_str().expect("a path"))
        .expect("the folder of the recording")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("snapshot-"))
        })
        .collect();
    assert_eq!(
        snapshots.len(),
        1,
        "also one that is taken when the command ends at once"
    );
    let mut last = 0;
    Trace::at(&snapshots[0]).for_each(|event| {
        if event.name == "bank:failure" {
            last = event.number("number");
        }
    });
    assert_eq!(last, 1500);
    assert_eq!(place.piste_json(&["list-triggers"])["triggers"], Value::Array(vec![]));
    other.finish().expect_success();
}

#[test]
fn a_program_asks_for_snapshots_of_what_it_has_just_recorded() {
    let place = Workplace::new();
    let mut recorder = place.start_recording(&["--snapshot-on", "piste:snapshot"], place.program("asks.c"), &["1000"]);
    assert_eq!(recorder.running.line(), "done");
    let snapshots = || {
        let folders = place.folders_of_recordings();
        let entries = fs::read_dir(&folders[0])
            .expect("the folder of the recording")
            .flatten();
        let is_whole = |path: &PathBuf| path.join("user/metadata").exists();
        entries.map(|entry| entry.path()).filter(is_whole).count()
    };
    wait_until("a snapshot is taken", || snapshots() == 1);
    for count in 2..5 {
        // One at a time: it may be asked for a moment too soon.
        wait_until("another snapshot is taken", || {
            recorder.running.ask("again");
            snapshots() >= count
        });
    }
    let recording = recorder.finish();
    let said = &recording.finished.stderr;
    assert!(said.matches("snapshot on piste:snapshot: in ").count() >= 4, "{said}");
    for folder in said.lines().filter_map(|line| line.split(": in ").nth(1)) {
        // What was recorded for earlier requests may be overwritten.
        let events = Trace::at(folder).events();
        let asked = events.iter().rposition(|event| event.name == "piste:snapshot");
        let asked = asked.expect("it is in its snapshot");
        assert!(events[asked].field("why").is_some_and(|why| why.contains("enough")));
        let orders = events[..asked].iter().filter(|event| event.name == "shop:order");
        let numbers: Vec<u64> = orders.map(|order| order.number("number")).collect();
        let end = numbers.last().expect("it has just recorded some") + 1;
        assert_eq!(end % 1000, 0);
        assert!(numbers.ends_with(&(end - 1000..end).collect::<Vec<_>>()));
    }
}

#[test]
fn a_trigger_that_is_bound_ends_with_its_recording() {
    let place = Workplace::new();
    let on = ["--snapshot-on", "shop:order"];
    let recorder = place.start_recording(&on, place.program("puppet.c"), &[]);
    let triggers = || {
        place.piste_json(&["list-triggers"])["triggers"]
            .as_array()
            .map_or(0, Vec::len)
    };
    wait_until("it is there", || triggers() == 1);
    send(recorder.running.pid(), Signal::KILL);
    wait_until("it is gone", || triggers() == 0);
}

#[test]
fn other_users_neither_hear_nor_remove_a_trigger_and_theirs_has_their_rights() {
    const MEMBER: u32 = 65_533;
    let place = Workplace::new();
    if !users::enter(&place) {
        return;
    }
    place.start_pisted();
    users::let_everybody_ask(&place);
    let program = place.program("puppet.c");
    place.piste_succeeds(&["create", "mine", "-o", text(&place.path("trace"))]);
    place.piste_succeeds(&["enable-event", "shop:order"]);
    place.piste_succeeds(&["start"]);
    place.piste_succeeds(&["add-trigger", "mine", "-e", "shop:order"]);
    let piste = place.path("bin/piste");
    let theirs =
        |arguments: &[&str]| process::run(&mut users::command(&place, MEMBER, "--clear-groups", &piste, arguments));
    for arguments in [&["listen", "mine"][..], &["remove-trigger", "mine"]] {
        let refused = theirs(arguments);
        assert!(
            !refused.success() && refused.stderr.contains("belongs to root"),
            "{refused}"
        );
    }
    theirs(&["add-trigger", "theirs", "-e", "shop:order", "--stop", "mine"]).expect_success();
    // As a session of theirs, it sees all programs, and may not stop what is root's.
    let mut of_root = place.start(&program, &[]);
    assert_eq!(of_root.ask("record 1"), "done");
    let mut of_member = users::command(&place, MEMBER, "--clear-groups", &program, &[]);
    let mut of_member = Running::start(of_member.stdin(Stdio::piped()));
    assert_eq!(of_member.ask("record 2"), "done");
    wait_until("it has matched", || count(&trigger(&place, "theirs"), "matched") == 3);
    wait_until("it was refused", || {
        let findings = trigger(&place, "theirs")["findings"].to_string();
        findings.contains("stop of session") && findings.contains("only its owner and root can change it")
    });
    assert_eq!(place.piste_json(&["status", "-s", "mine"])["state"], "active");
    // Root may remove both.
    wait_until("root's has acted", || count(&trigger(&place, "mine"), "matched") == 3);
    of_root.finish().expect_success();
    of_member.finish().expect_success();
    place.piste_succeeds(&["remove-trigger", "mine", "theirs"]);
}
