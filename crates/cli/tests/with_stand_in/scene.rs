// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste record` in a folder of its own, beside a stand-in for pisted.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::Arc;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::stand_in::Script;

/// A run folder with a stand-in, and a folder to work in.
pub(crate) struct Scene {
    pub(crate) folder: TempDir,
    pub(crate) script: Arc<Script>,
    without_kernel: bool,
}

impl Scene {
    pub(crate) fn new() -> Scene {
        let folder = tempfile::tempdir().unwrap();
        let script = Script::listen(folder.path());
        Scene {
            folder,
            script,
            without_kernel: true,
        }
    }

    /// A scene where the kernel is recorded too.
    pub(crate) fn with_kernel() -> Scene {
        Scene {
            without_kernel: false,
            ..Scene::new()
        }
    }

    pub(crate) fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    /// `piste record -o trace OPTIONS -- sh -c SCRIPT`
    pub(crate) fn shell(&self, options: &[&str], script: &str) -> Command {
        self.command(
            Path::new(env!("CARGO_BIN_EXE_piste")),
            &[],
            options,
            &["sh", "-c", script],
        )
    }

    pub(crate) fn command(&self, program: &Path, before: &[&str], options: &[&str], recorded: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(before)
            .args(["record", "-o", "trace"])
            .args(self.without_kernel.then_some("--no-kernel"))
            .args(options)
            .arg("--")
            .args(recorded)
            .current_dir(self.folder.path())
            .env("PISTE_RUNDIR", self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub(crate) fn run(&self, options: &[&str], script: &str) -> Output {
        self.shell(options, script).output().unwrap()
    }
}

pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Starts the command and waits for the line that the recorded program prints.
pub(crate) fn started(command: &mut Command) -> (Child, BufReader<ChildStdout>) {
    let mut child = command.spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    (child, stdout)
}

pub(crate) fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}
