// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who may read a trace: its owner and the owner's group, and fewer where the umask says so. Other files follow the umask alone.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use piste_support::build_tree::binary;
use piste_support::process::{self, Finished};
use piste_support::{Workplace, kernel};

/// Where everything is started with a umask of its own, pisted too.
struct Masked<'a> {
    place: &'a Workplace,
    umask: u32,
}

impl Masked<'_> {
    fn run(&self, program: &Path, arguments: &[&str]) -> Finished {
        let mut command = self.place.command("sh");
        command
            .args(["-c", "umask $0; exec \"$@\"", &format!("{:o}", self.umask)])
            .arg(program)
            .args(arguments);
        process::run(&mut command)
    }

    fn piste(&self, arguments: &[&str]) {
        self.run(&binary("piste"), arguments).expect_success();
    }

    /// Everything in a trace is as private as it should be, and there is a file called so.
    fn expect_private(&self, trace: &Path, file: &str) {
        let all = all(trace);
        for path in &all {
            let wanted = if path.is_dir() { 0o750 } else { 0o640 };
            assert_eq!(
                mode(path),
                wanted & !self.umask,
                "{} with umask {:o}",
                path.display(),
                self.umask
            );
        }
        assert!(all.iter().any(|path| path.ends_with(file)), "no {file} in {all:?}");
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").permissions().mode() & 0o7777
}

/// A folder, with every file and folder in it.
fn all(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten();
    let inside = entries.flat_map(|entry| all(&entry.expect("it can be read").path()));
    [path.to_owned()].into_iter().chain(inside).collect()
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn traces_are_for_their_owner_and_the_owners_group() {
    for umask in [0o000, 0o077] {
        let place = Workplace::new();
        let masked = Masked { place: &place, umask };
        let program = place.program("brackets.c");
        let path = |name: &str| place.path(name);

        let recorded = path("new/recorded");
        let record = ["record", "--no-kernel", "-o", text(&recorded), "--", text(&program)];
        masked.piste(&record);
        masked.expect_private(&path("new"), "recorded/user/metadata");

        let session = path("also new/session");
        masked.piste(&["create", "-o", text(&session)]);
        masked.piste(&["enable-event", "brackets:*"]);
        masked.piste(&["start"]);
        place.run(&program, &[]).expect_success();
        masked.piste(&["rotate"]);
        place.run(&program, &[]).expect_success();
        masked.piste(&["destroy"]);
        masked.expect_private(&path("also new"), "session/user/metadata");

        let flight = path("flight");
        masked.piste(&["create", "--snapshot", "-o", text(&flight)]);
        masked.piste(&["enable-event", "brackets:*"]);
        masked.piste(&["start"]);
        place.run(&program, &[]).expect_success();
        masked.piste(&["snapshot", "record"]);
        masked.piste(&["snapshot", "record", "-o", text(&path("snapshot"))]);
        masked.piste(&["destroy"]);
        masked.expect_private(&flight, "user/metadata");
        masked.expect_private(&path("snapshot"), "user/metadata");

        // A trace that is written once more is a trace.
        masked.piste(&["trim", text(&recorded), "-o", text(&path("trimmed"))]);
        masked.expect_private(&path("trimmed"), "user/metadata");
        let exported = path("exported");
        masked.piste(&["export", text(&recorded), "--format", "ctf2", "-o", text(&exported)]);
        masked.expect_private(&exported, "user/metadata");

        let file = path("exported.json");
        masked.piste(&["export", text(&recorded), "--format", "json", "-o", text(&file)]);
        assert_eq!(mode(&file), 0o666 & !umask);
    }
}

#[test]
fn a_folder_that_is_there_keeps_its_mode() {
    let place = Workplace::new();
    let masked = Masked {
        place: &place,
        umask: 0o022,
    };
    let program = place.program("brackets.c");
    let output = place.path("mine");
    fs::create_dir(&output).expect("a folder can be made there");
    fs::set_permissions(&output, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let record = ["record", "--no-kernel", "-o", text(&output), "--", text(&program)];
    masked.piste(&record);
    assert_eq!(mode(&output), 0o755);
    masked.expect_private(&output.join("user"), "metadata");
}

#[test]
fn traces_of_the_kernel_are_for_their_owner_and_the_owners_group() {
    let Some(place) = kernel::workplace() else { return };
    let masked = Masked {
        place: &place,
        umask: 0o000,
    };
    // Where programs of all users may enter, as root's usual run folder.
    fs::set_permissions(place.run_folder(), fs::Permissions::from_mode(0o755)).expect("it is ours");
    let recorded = place.path("recorded");
    masked.piste(&["record", "-o", text(&recorded), "--", "true"]);
    masked.expect_private(&recorded, "kernel/metadata");

    let flight = place.path("flight");
    masked.piste(&["create", "--snapshot", "-o", text(&flight)]);
    masked.piste(&["enable-event", "-k", "sched_switch"]);
    masked.piste(&["start"]);
    masked.piste(&["snapshot", "record"]);
    // What the rings held, for the next snapshot.
    let kept = fs::read_dir(place.run_folder().join("kernel")).expect("it is there");
    let kept: Vec<PathBuf> = kept.map(|entry| entry.expect("it can be read").path()).collect();
    let folders = || kept.iter().filter(|path| path.is_dir());
    assert!(folders().count() > 0, "{kept:?}");
    folders().for_each(|path| assert_eq!(mode(path), 0o700, "{}", path.display()));
    masked.piste(&["destroy"]);
    masked.expect_private(&flight, "kernel/metadata");
}
