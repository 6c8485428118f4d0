// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the command starts a pisted: a script stands where pisted is installed, beside the command.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::stand_in::Script;

/// A folder where piste and the script are installed, and one to work in. The programs are links: a file that was just written
/// cannot be executed while another test's thread is between fork and exec.
struct Scene {
    programs: TempDir,
    work: TempDir,
}

impl Scene {
    fn new() -> Scene {
        let programs = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        fs::hard_link(env!("CARGO_BIN_EXE_piste"), programs.path().join("piste")).unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/with_stand_in/pisted");
        symlink(script, programs.path().join("pisted")).unwrap();
        let work = tempfile::tempdir().unwrap();
        Scene { programs, work }
    }

    /// `piste start web`, with a pisted that does this.
    fn piste(&self, pisted_does: &str) -> Command {
        let mut command = Command::new(self.programs.path().join("piste"));
        command
            .args(["start", "web"])
            .current_dir(self.work.path())
            .env("PISTE_RUNDIR", "run")
            .env("PISTED_DOES", pisted_does)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }
}

#[test]
fn pisted_is_started_once_and_apart_from_the_command() {
    let scene = Scene::new();
    // It notes in the test's folder; its own is another.
    let script = format!(
        "here=$(pwd); cd {:?}; exec >note; echo $# $1 $PISTE_RUNDIR ${{LD_PRELOAD-no}} ${{PISTE_RECORD-no}}; echo $here; \
         readlink /proc/self/fd/0; mv note noted",
        scene.work.path(),
    );
    let mut command = scene.piste(&script);
    let child = command.env("PISTE_RECORD", "id").env("LD_PRELOAD", "").spawn().unwrap();
    while !scene.work.path().join("noted").exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let asked = Script::listen(&scene.work.path().join("run"));
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(asked.asked(), ["start"]);
    let run_folder = scene.work.path().join("run");
    assert_eq!(
        fs::read_to_string(scene.work.path().join("noted")).unwrap(),
        format!("1 --background {} no no\n/\n/dev/null\n", run_folder.display())
    );
    assert_eq!(fs::metadata(run_folder).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn what_pisted_said_last_is_why_it_did_not_start() {
    let scene = Scene::new();
    let script = "echo 'pisted: starting' >&2; echo 'pisted: no memory for the rings' >&2; exit 1";
    let output = scene.piste(script).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        format!(
            "piste: cannot start pisted ({}): no memory for the rings\n",
            scene.programs.path().join("pisted").display()
        )
    );
}

#[test]
fn nothing_to_start_is_told_with_what_to_do() {
    let scene = Scene::new();
    let mut command = scene.piste("");
    fs::remove_file(scene.programs.path().join("pisted")).unwrap();
    let output = command.env("PATH", "").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "piste: cannot start pisted (pisted): it is neither beside this program nor in PATH; install it, for example with `cargo install --path crates/daemon` in Piste's source folder, or add its folder to PATH\n"
    );
}
