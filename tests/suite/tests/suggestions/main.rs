// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command that `piste insights` suggests leads to the cause: each kind of insight is provoked by a real program, its command is run by a
//! shell as it is printed, and the answer names the culprit.

mod cases;

use std::collections::BTreeSet;
use std::fs;
use std::sync::mpsc::channel;
use std::thread;

use piste_support::build_tree::{binary, repository};
use piste_support::kernel::{KernelWorkplace, workplace as kernel_workplace};
use piste_support::process;
use piste_support::report::rows;
use rustix::process::setpriority_process;
use serde_json::Value;

use self::cases::{CASES, Case, Seen};

/// The machine may be too busy for a program to behave as it should.
const ATTEMPTS: u32 = 5;

/// Every kind that a detector names in its source.
fn kinds() -> BTreeSet<String> {
    let folder = repository().join("crates/analysis/src/insights");
    let sources = fs::read_dir(folder)
        .expect("the detectors")
        .map(|entry| entry.expect("a file").path());
    let detectors = sources.filter(|path| !path.ends_with("tests.rs"));
    let mut kinds = BTreeSet::new();
    for source in detectors {
        let text = fs::read_to_string(source).expect("a source");
        let named = text.split("kind: \"").skip(1);
        kinds.extend(named.filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())));
    }
    kinds
}

#[test]
fn every_kind_of_insight_has_a_case() {
    let kinds = kinds();
    assert!(kinds.len() >= 16, "{kinds:?}");
    let with_case: BTreeSet<String> = CASES.iter().map(|case| case.kind.to_owned()).collect();
    assert_eq!(kinds, with_case);
}

/// Follows the commands of a case; why that did not lead to the culprit, if it did not.
fn follow(place: &KernelWorkplace, case: &Case, seen: &Seen) -> Result<(), String> {
    let found = place.piste_json(&["insights", &seen.trace]);
    let is_meant = |insight: &&Value| {
        let what = insight["what"].as_str().expect("a text");
        insight["kind"] == case.kind && what.contains(&seen.of)
    };
    let insight = rows(&found, "insights").iter().find(is_meant);
    let insight = insight.ok_or_else(|| format!("it was not found: {found:#}"))?;
    let command = insight["command"].as_str().expect("a command");
    let folder = binary("piste");
    let folder = folder.parent().expect("it is in a folder");
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = place.command("sh");
    let answer = process::run(shell.args(["-c", command]).env("PATH", path));
    answer.expect_success();
    match answer.stdout.contains(&seen.culprit) {
        true => Ok(()),
        false => Err(format!(
            "{command} does not name {:?}:\n{}",
            seen.culprit, answer.stdout
        )),
    }
}

/// As long as following the commands has failed, provokes the insight again and follows them again: `ATTEMPTS` times with the first one. Returns
/// why the last one failed.
fn attempt(place: &KernelWorkplace, case: &Case, mut failed: Result<(), String>) -> Result<(), String> {
    for _ in 1..ATTEMPTS {
        if failed.is_ok() {
            break;
        }
        failed = match (case.record)(place) {
            Some(seen) => follow(place, case, &seen),
            None => Ok(()),
        };
    }
    failed
}

#[test]
fn the_suggested_commands_lead_to_the_culprits() {
    let Some(place) = kernel_workplace() else { return };
    let (record, recorded) = channel();
    // The commands of one case are followed while the next one is recorded, which has the CPUs first.
    let followed: Vec<(&Case, Result<(), String>)> = thread::scope(|scope| {
        let follower = scope.spawn(|| {
            setpriority_process(None, 19).expect("anybody may be nicer");
            let follow = |(case, seen): (&'static Case, Seen)| (case, follow(&place, case, &seen));
            recorded.into_iter().map(follow).collect()
        });
        for case in CASES {
            match (case.record)(&place) {
                Some(seen) => record.send((case, seen)).expect("it follows until there is no more"),
                None => println!("skipped: {} cannot be provoked here", case.kind),
            }
        }
        drop(record);
        follower.join().expect("it ends")
    });
    let mut failures = Vec::new();
    for (case, result) in followed {
        if let Err(why) = attempt(&place, case, result) {
            failures.push(format!("{}: {why}", case.kind));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}
