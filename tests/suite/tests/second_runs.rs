// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tools/test` runs several targets at once, and a failed test once more, alone: here on a small crate whose tests fail as often as they are
//! told to.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use piste_support::build_tree::repository;
use piste_support::process::{self, Running, exists, wait_until};
use piste_support::{Finished, Workplace};
use rustix::process::Signal;

const MANIFEST: &str = r#"
[package]
name = "steps"
version = "0.0.0"
edition = "2024"
[workspace]
members = ["other"]
[profile.dev]
debug = false
incremental = false
"#;

/// With a second package, cargo names the package of a failed target.
const OTHER_MANIFEST: &str = r#"
[package]
name = "other"
version = "0.0.0"
edition = "2024"
"#;

/// Each test writes its name to the file `runs`. It fails where `fails/NAME` holds a number above that of its earlier runs.
const STEPS: &str = r#"
use std::fs;
use std::io::Write;

fn step(name: &str) {
    // That of the copy that runs.
    let folder = std::path::PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").unwrap());
    let runs = fs::read_to_string(folder.join("runs")).unwrap_or_default();
    let earlier = runs.lines().filter(|line| *line == name).count();
    let mut file = fs::OpenOptions::new().create(true).append(true).open(folder.join("runs")).unwrap();
    file.write_all(format!("{name}\n").as_bytes()).unwrap();
    match fs::read_to_string(folder.join("fails").join(name)).unwrap_or_default().as_str() {
        "crashes" => std::process::abort(),
        "skipped later" if earlier > 0 => println!("skipped: gone"),
        "partly skipped later" if earlier > 0 => println!("not tested: a part"),
        "skipped later" | "partly skipped later" => panic!("failures:\n    once"),
        "" => {}
        times => assert!(earlier >= times.parse().unwrap(), "failures:\n    not {name}"),
    }
}

#[test] fn one() { step("one"); }
#[test] fn two() { step("two"); }
#[test] fn three() { step("three"); }
#[test] fn four() { step("four"); }
mod inner { #[test] fn five() { super::step("five"); } }
"#;

/// A test that waits until another one runs.
const PARTNER: &str = r#"
#[test]
fn meets() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    std::fs::write(folder.join("runs-OWN"), "").unwrap();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !folder.join("runs-OTHER").exists() {
        assert!(std::time::Instant::now() < deadline, "OTHER does not run");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}
"#;

/// The folder of the crate, compiled. Cargo takes a copy of it for what it compiled itself, unless something in it has changed.
fn compiled() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("steps");
        for part in ["src", "tests", "fails", "other/src"] {
            fs::create_dir_all(folder.join(part)).expect("cargo's folder for tests can be written to");
        }
        for (name, text) in [
            ("Cargo.toml", MANIFEST),
            ("src/lib.rs", ""),
            ("other/Cargo.toml", OTHER_MANIFEST),
            ("other/src/lib.rs", ""),
            ("tests/steps.rs", STEPS),
        ] {
            let file = folder.join(name);
            if fs::read_to_string(&file).is_ok_and(|known| known == text) {
                continue;
            }
            // In one step, since several processes may do so.
            let new = folder.join(format!("new-{}", std::process::id()));
            fs::write(&new, text).expect("a file can be written there");
            fs::rename(new, file).expect("it can be renamed");
        }
        let mut cargo = Command::new(env!("CARGO"));
        cargo
            .args(["test", "--no-run", "--offline", "--workspace", "--target-dir"])
            .arg(folder.join("target"));
        let made = process::run(cargo.current_dir(&folder).env_remove("RUSTFLAGS"));
        made.expect_success();
        folder
    })
}

/// The crate, its stages and the folder they are in.
struct Steps {
    place: Workplace,
}

impl Steps {
    /// Tests one to five, of which some fail: `(name, how often)`, or `crashes`, or `skipped later`, or `partly skipped later`.
    fn new(fails: &[(&str, &str)]) -> Steps {
        let place = Workplace::new();
        let copied = process::run(
            Command::new("cp")
                .args(["-a", "--"])
                .arg(compiled().join("."))
                .arg(place.path("")),
        );
        copied.expect_success();
        for (name, how) in fails {
            write(&place, &format!("fails/{name}"), how);
        }
        let steps = Steps { place };
        steps.set_stage("");
        steps
    }

    /// Has the crate as the only stage, with these keys too.
    fn set_stage(&self, keys: &str) {
        let cargo = format!(
            "cargo test --offline --workspace --target-dir {0}/target --manifest-path {0}/Cargo.toml $TARGET",
            self.place.path("").display()
        );
        write(
            &self.place,
            "stages.toml",
            &format!(
                "[[stage]]\nname = \"steps\"\nrun = '{cargo} --no-fail-fast -- --show-output'\n\
                 again = '{cargo} -- --show-output --exact \"$TEST\"'\n{keys}\n"
            ),
        );
    }

    /// Has several targets at once: two that wait for each other, and tests one to five beside or after them.
    fn run_at_once(&self, alone: &str) {
        for (own, other) in [("left", "right"), ("right", "left")] {
            let source = PARTNER.replace("OWN", own).replace("OTHER", other);
            write(&self.place, &format!("tests/{own}.rs"), &source);
        }
        self.set_stage(&format!("at_once = 2\nfirst = [\"right\"]\nalone = [{alone}]"));
    }

    fn test(&self, options: &[&str]) -> Finished {
        process::run(&mut self.command(options))
    }

    fn command(&self, options: &[&str]) -> Command {
        let mut command = Command::new(repository().join("tools/test"));
        command
            .arg("--stages")
            .arg(self.place.path("stages.toml"))
            .arg("--logs")
            .arg(self.place.path("logs"))
            .args(options)
            .env_remove("RUSTFLAGS");
        command
    }

    /// The names of the tests in the order in which they ran.
    fn runs(&self) -> Vec<String> {
        let runs = fs::read_to_string(self.place.path("runs")).unwrap_or_default();
        runs.lines().map(str::to_owned).collect()
    }

    /// The unsteady tests, as the file names them.
    fn unsteady(&self) -> String {
        fs::read_to_string(self.place.path("logs/unsteady")).expect("the file is always written")
    }
}

fn write(place: &Workplace, name: &str, text: &str) {
    fs::write(place.path(name), text).expect("a file can be written there");
}

/// The closing line, and whether the run is green.
#[track_caller]
fn check(finished: &Finished, closing_line: &str, green: bool) {
    let said = finished.to_string().replace('\n', "\n| ");
    assert_eq!(finished.stdout.lines().last(), Some(closing_line), "{said}");
    assert_eq!(finished.success(), green, "{said}");
}

#[test]
fn repeated_runs_are_tallied_and_go_on_where_they_were_interrupted() {
    let steps = Steps::new(&[("two", "1")]);
    let finished = steps.test(&["--strict", "--repeat", "2"]);
    check(&finished, "9 passed, 1 failed, 0 skipped", false);
    let told = "failed 1 of 2 times: steps: two (-p steps --test steps)";
    assert!(finished.stdout.contains(told), "{finished}");
    assert_eq!(steps.runs().len(), 10);
    let finished = steps.test(&["--strict", "--repeat", "3"]);
    check(&finished, "14 passed, 1 failed, 0 skipped", false);
    assert_eq!(steps.runs().len(), 15, "two of three runs were there");
}

#[test]
fn a_test_that_passes_alone_is_unsteady_and_counts_as_passed() {
    let steps = Steps::new(&[("five", "1")]);
    let finished = steps.test(&[]);
    check(&finished, "5 passed, 0 failed, 0 skipped", true);
    let unsteady = "steps: inner::five (-p steps --test steps)";
    assert_eq!(steps.unsteady(), format!("{unsteady}\n"));
    let lines: Vec<&str> = finished.stdout.lines().collect();
    assert_eq!(lines[lines.len() - 2], format!("unsteady: {unsteady}"));
    let runs = steps.runs();
    assert_eq!(runs.len(), 6, "only the failed test runs again: {runs:?}");
    assert_eq!(runs[5], "five");
}

#[test]
fn a_test_that_fails_twice_has_failed() {
    let steps = Steps::new(&[("one", "2"), ("two", "1")]);
    check(&steps.test(&[]), "4 passed, 1 failed, 0 skipped", false);
    assert_eq!(steps.unsteady(), "steps: two (-p steps --test steps)\n");
    assert_eq!(steps.runs().len(), 7);
}

#[test]
fn a_strict_run_has_no_second_try() {
    let steps = Steps::new(&[("one", "1")]);
    check(&steps.test(&["--strict"]), "4 passed, 1 failed, 0 skipped", false);
    assert_eq!(steps.unsteady(), "");
    assert_eq!(steps.runs().len(), 5);
}

#[test]
fn three_unsteady_tests_are_green_and_four_are_red() {
    let three = [("one", "1"), ("two", "1"), ("three", "1")];
    check(&Steps::new(&three).test(&[]), "5 passed, 0 failed, 0 skipped", true);
    let four = [&three[..], &[("four", "1")]].concat();
    let steps = Steps::new(&four);
    check(&steps.test(&[]), "5 passed, 0 failed, 0 skipped", false);
    assert_eq!(steps.unsteady().lines().count(), 4);
}

#[test]
fn a_target_that_crashes_is_no_test_to_run_again() {
    let steps = Steps::new(&[("one", "crashes")]);
    check(&steps.test(&[]), "0 passed, 1 failed, 0 skipped", false);
    assert_eq!(steps.unsteady(), "");
}

#[test]
fn a_second_run_that_skips_the_test_proves_nothing() {
    let steps = Steps::new(&[("one", "skipped later")]);
    check(&steps.test(&[]), "4 passed, 1 failed, 0 skipped", false);
    assert_eq!(steps.unsteady(), "");
}

#[test]
fn a_second_run_that_tests_all_but_a_part_counts() {
    let steps = Steps::new(&[("one", "partly skipped later")]);
    check(&steps.test(&[]), "5 passed, 0 failed, 0 skipped", true);
}

#[test]
fn a_stage_that_does_not_compile_fails() {
    let steps = Steps::new(&[]);
    write(&steps.place, "src/lib.rs", "no Rust");
    check(&steps.test(&[]), "0 passed, 1 failed, 0 skipped", false);
}

#[test]
fn targets_run_at_once_and_their_results_add_up() {
    let steps = Steps::new(&[("five", "1")]);
    steps.run_at_once("");
    check(&steps.test(&[]), "7 passed, 0 failed, 0 skipped", true);
    assert_eq!(steps.unsteady(), "steps: inner::five (-p steps --test steps)\n");
    assert_eq!(steps.runs().len(), 6);
}

#[test]
fn targets_whose_tests_take_turns_run_beside_others() {
    let steps = Steps::new(&[("five", "1")]);
    steps.run_at_once("");
    steps.set_stage("at_once = 4\nin_turn = [\"left\", \"right\"]");
    check(&steps.test(&[]), "7 passed, 0 failed, 0 skipped", true);
    assert_eq!(steps.unsteady(), "steps: inner::five (-p steps --test steps)\n");
}

#[test]
fn a_target_that_runs_alone_runs_at_the_end() {
    let steps = Steps::new(&[("one", "crashes")]);
    steps.run_at_once("\"steps\"");
    let finished = steps.test(&[]);
    check(&finished, "2 passed, 1 failed, 0 skipped", false);
    let (beside, rest) = finished
        .stdout
        .rsplit_once("test result: ok. 1 passed")
        .expect("two passed");
    assert!(beside.contains("test result: ok. 1 passed"), "{finished}");
    assert!(rest.contains("to rerun pass `-p steps --test steps`"), "{finished}");
}

#[test]
fn targets_at_once_that_do_not_compile_fail() {
    let steps = Steps::new(&[]);
    steps.run_at_once("");
    write(&steps.place, "src/lib.rs", "no Rust");
    let finished = steps.test(&[]);
    check(&finished, "0 passed, 1 failed, 0 skipped", false);
    assert!(finished.stdout.contains("error: expected one of"), "{finished}");
}

#[test]
fn a_stage_that_names_a_missing_target_is_an_error() {
    let steps = Steps::new(&[]);
    steps.run_at_once("\"stepz\"");
    let finished = steps.test(&[]);
    finished.expect_status(1);
    assert!(
        finished.stderr.contains("the stage steps has no target --test stepz"),
        "{finished}"
    );
}

/// A stage that is a command of our own names its failures and no target.
fn script_stage(run: &str, again: &str) -> Steps {
    let steps = Steps::new(&[]);
    write(
        &steps.place,
        "stages.toml",
        &format!("[[stage]]\nname = \"script\"\nrun = '''{run}'''\nagain = '''{again}'''\n"),
    );
    steps
}

/// With four tests, behind the stage that is there.
fn add_passing_stage(steps: &Steps) {
    let stages = fs::read_to_string(steps.place.path("stages.toml")).expect("the stages");
    let passing =
        "[[stage]]\nname = \"other\"\nrun = 'echo \"test result: ok. 4 passed; 0 failed; 0 ignored\"'\nagain = ''\n";
    write(&steps.place, "stages.toml", &format!("{stages}{passing}"));
}

const SCRIPT: &str =
    r#"printf "failures:\n    thread block\ntest result: FAILED. 2 passed; 1 failed; 1 ignored\n"; exit "#;

#[test]
fn a_failed_test_of_a_script_runs_again_by_its_name() {
    let steps = script_stage(
        &format!("{SCRIPT} 1"),
        r#"[ "$TEST" = "thread block" ] && [ -z "$TARGET" ] && echo "test result: ok. 1 passed; 0 failed; 0 ignored""#,
    );
    check(&steps.test(&[]), "3 passed, 0 failed, 1 skipped", true);
    assert_eq!(steps.unsteady(), "script: thread block\n");
}

#[test]
fn a_second_run_that_finds_no_test_proves_nothing() {
    let steps = script_stage(
        &format!("{SCRIPT} 1"),
        r#"echo "test result: ok. 0 passed; 0 failed; 0 ignored""#,
    );
    check(&steps.test(&[]), "2 passed, 1 failed, 1 skipped", false);
}

#[test]
fn a_stage_that_was_killed_fails_whatever_its_tests_said() {
    let steps = script_stage(
        &format!("{SCRIPT} 137"),
        r#"echo "test result: ok. 1 passed; 0 failed; 0 ignored""#,
    );
    check(&steps.test(&[]), "3 passed, 1 failed, 1 skipped", false);
}

/// A shell, and what it runs.
#[test]
fn who_is_ended_by_a_signal_leaves_no_test_running() {
    for signal in [Signal::INT, Signal::TERM] {
        let steps = script_stage(
            "sleep 600 & echo $$ $! >\"$PIDS.part\"; mv \"$PIDS.part\" \"$PIDS\"; wait",
            "",
        );
        let pids = steps.place.path("pids");
        let mut ended = Running::start(steps.command(&[]).env("PIDS", &pids));
        wait_until("the stage runs", || pids.exists());
        let pids = fs::read_to_string(pids).expect("two numbers");
        let pids: Vec<i32> = pids
            .split_whitespace()
            .map(|pid| pid.parse().expect("a number"))
            .collect();
        ended.signal(signal);
        ended.finish().expect_status(128 + signal.as_raw());
        for pid in pids {
            wait_until("what ran has ended", || !exists(pid));
        }
    }
}

#[test]
fn more_failures_than_ten_have_one_cause_and_are_not_all_run_again() {
    let names: String = (0..12).map(|number| format!("    {number}\\n")).collect();
    let steps = script_stage(
        &format!(r#"printf "failures:\n{names}test result: FAILED. 1 passed; 12 failed; 0 ignored\n"; exit 1"#),
        "exit 1",
    );
    let finished = steps.test(&[]);
    check(&finished, "1 passed, 12 failed, 0 skipped", false);
    let starting = |text| finished.stdout.lines().filter(|line| line.starts_with(text)).count();
    assert_eq!((starting("-- again, alone: "), starting("-- not run again: ")), (10, 2));
}

#[test]
fn a_stage_without_tests_fails() {
    let steps = script_stage("echo 'test result: ok. 0 passed; 0 failed; 0 ignored'", "exit 1");
    add_passing_stage(&steps);
    let finished = steps.test(&[]);
    check(&finished, "4 passed, 1 failed, 0 skipped", false);
    assert!(finished.stdout.contains("it ran no test"), "{finished}");
}

#[test]
fn only_the_named_stages_run_and_a_name_without_a_stage_is_an_error() {
    let steps = script_stage(&format!("{SCRIPT} 1"), "exit 1");
    add_passing_stage(&steps);
    check(&steps.test(&["other"]), "4 passed, 0 failed, 0 skipped", true);
    let unknown = steps.test(&["othr"]);
    unknown.expect_status(2);
    assert!(
        unknown.stderr.contains("no stage 'othr' (there are: script, other)"),
        "{unknown}"
    );
}
