// SPDX-License-Identifier: MIT OR Apache-2.0
//! One unprivileged user takes what there is of root's pisted, in every way that we know: root is answered, and another user's program is
//! recorded whole, all the while.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use piste_support::process::{Finished, Running, run};
use piste_support::{Trace, Workplace, users};

const GREEDY: u32 = 65_531;
const OTHER: u32 = 65_532;
const MEMBER: u32 = 65_533;
/// Open files that pisted may have: with 128 in reserve, 224 connections and as many ring sets, 56 of one user.
const DESCRIPTORS: u32 = 1024;
const SHARE: u64 = 56;

/// Root's pisted with few descriptors, which lets everybody ask, and records everything.
struct Target<'a> {
    place: &'a Workplace,
    greedy: PathBuf,
    count: PathBuf,
    pisted: i32,
}

/// `None`, once said why, where nobody can be anybody else.
fn target(place: &Workplace) -> Option<Target<'_>> {
    if !users::enter(place) {
        return None;
    }
    let limited = format!("ulimit -n {DESCRIPTORS} && exec \"$0\" list");
    run(place.command("sh").args(["-c", &limited]).arg(place.path("bin/piste"))).expect_success();
    users::let_everybody_ask(place);
    place.piste_succeeds(&["create", "all", "-o", text(&place.path("trace"))]);
    // Memory of many ring sets is not what this is about.
    place.piste_succeeds(&["enable-channel", "-u", "small", "--subbuf-size", "64K"]);
    place.piste_succeeds(&["enable-event", "-u", "*", "-c", "small"]);
    place.piste_succeeds(&["start"]);
    Some(Target {
        place,
        greedy: place.program("greedy.c"),
        count: place.program("count.c"),
        pisted: place.pisted(),
    })
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

impl Target<'_> {
    fn command(&self, user: u32, program: &Path, arguments: &[&str]) -> std::process::Command {
        users::command(self.place, user, "--clear-groups", program, arguments)
    }

    /// Takes so many of something, says how many it got, and keeps them.
    fn take(&self, what: &str, count: u32) -> (Running, u64) {
        let mut command = self.command(GREEDY, &self.greedy, &[what, &count.to_string()]);
        let mut greedy = Running::start(command.stdin(Stdio::piped()));
        let taken = greedy.line().parse().expect("a number");
        (greedy, taken)
    }

    fn piste(&self, user: u32, arguments: &[&str]) -> Finished {
        run(&mut self.command(user, &self.place.path("bin/piste"), arguments))
    }

    /// Root is answered, and the other's program is recorded.
    fn expect_service(&self, recorded: &mut u64) {
        self.place.piste_succeeds(&["status"]);
        run(&mut self.command(OTHER, &self.count, &["1", "1000"])).expect_success();
        *recorded += 1000;
    }

    fn end(&self, recorded: u64) {
        assert_eq!(self.place.pisted(), self.pisted, "pisted lives on");
        self.place.piste_succeeds(&["destroy"]);
        let counts = Trace::at(self.place.path("trace")).counts();
        assert_eq!(counts.get("count:tick"), Some(&recorded));
    }

    /// Open files of pisted.
    fn descriptors(&self) -> usize {
        let files = fs::read_dir(format!("/proc/{}/fd", self.pisted)).expect("it runs");
        files.count()
    }
}

#[test]
fn a_greedy_program_gets_its_users_share() {
    let place = Workplace::new();
    let Some(target) = target(&place) else { return };
    let mut recorded = 0;
    let mut all = vec![];
    for (what, count, expected) in [
        ("classes", 65_000, 65_000..=65_000),
        ("ring_sets", 100, 0..=100),
        ("paths", 50, 0..=0),
        ("unread", 1_000_000, 0..=999_999),
        ("connections", 500, 0..=500),
    ] {
        let (greedy, taken) = target.take(what, count);
        assert!(expected.contains(&taken), "{what}: {taken}");
        all.push(greedy);
        target.expect_service(&mut recorded);
    }
    // A connection may be closed as soon as it is made; what counts is what is held.
    assert!(
        target.descriptors() < DESCRIPTORS as usize / 2,
        "{}",
        target.descriptors()
    );
    let status = place.piste_json(&["status"]);
    let findings = status["findings"].to_string();
    for told in [
        format!("programs of user {GREEDY} have 16384 different events"),
        format!("programs of user {GREEDY} have the maximum number of ring sets for one user ({SHARE})"),
    ] {
        assert!(findings.contains(&told), "{status:#}");
    }
    for mut greedy in all {
        greedy.finish().expect_success();
    }
    target.expect_service(&mut recorded);
    target.end(recorded);
}

#[test]
fn people_who_say_nothing_lock_nobody_out() {
    let place = Workplace::new();
    let Some(target) = target(&place) else { return };
    let mut recorded = 0;
    let (mut silent, _) = target.take("control", 300);
    target.expect_service(&mut recorded);
    target.piste(MEMBER, &["list"]).expect_success();
    let refused = target.piste(GREEDY, &["list"]);
    assert!(!refused.success(), "{refused}");
    let (mut endless, taken) = target.take("request", 64 << 20);
    assert!(taken < 8 << 20, "{taken} bytes were taken");
    silent.finish().expect_success();
    endless.finish().expect_success();
    target.expect_service(&mut recorded);
    target.end(recorded);
}

#[test]
fn a_member_leaves_the_sessions_of_others_alone() {
    let place = Workplace::new();
    let Some(target) = target(&place) else { return };
    let home = place.path("home");
    fs::create_dir(&home).expect("a folder can be made there");
    std::os::unix::fs::chown(&home, Some(MEMBER), Some(MEMBER)).expect("it is ours");
    let own = home.join("own");
    target
        .piste(MEMBER, &["create", "own", "-o", text(&own)])
        .expect_success();
    for arguments in [
        vec!["destroy", "-s", "all"],
        vec!["stop", "-s", "all"],
        vec!["rotate", "-s", "all"],
        vec!["enable-event", "-s", "all", "-u", "more:*"],
        vec!["disable-event", "-s", "all", "-u", "*", "-c", "small"],
        vec!["enable-channel", "-s", "all", "-u", "more"],
        vec!["enable-event", "-s", "all", "-k", "sched_switch"],
    ] {
        let refused = target.piste(MEMBER, &arguments);
        assert!(!refused.success(), "{refused}");
    }
    // A rule for each pattern, with all exclusions in each: a hundred million of them would be more than there is memory.
    let many: Vec<String> = (0..10_000).map(|number| format!("a:{number}")).collect();
    let many = many.join(",");
    let refused = target.piste(MEMBER, &["enable-event", "-s", "own", "-u", &many, "-x", &many]);
    assert!(
        !refused.success() && refused.stderr.contains("number of patterns"),
        "{refused}"
    );
    let refused = target.piste(OTHER, &["destroy", "-s", "own"]);
    let told = format!("it belongs to user {MEMBER}");
    assert!(!refused.success() && refused.stderr.contains(&told), "{refused}");
    // Everybody may look, and each has a current session.
    target.piste(MEMBER, &["status", "-s", "all"]).expect_success();
    assert_eq!(place.piste_json(&["status"])["name"], "all");
    let status = target.piste(MEMBER, &["--json", "status"]);
    assert!(status.stdout.contains("\"own\""), "{status}");
    target.piste(MEMBER, &["destroy"]).expect_success();
    let mut recorded = 0;
    target.expect_service(&mut recorded);
    target.end(recorded);
}
