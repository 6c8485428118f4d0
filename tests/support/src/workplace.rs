// SPDX-License-Identifier: MIT OR Apache-2.0
//! A test's own folder, with a run folder and thereby a pisted of its own.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::build_tree::{binary, build};
use crate::compiler::{Compilation, compile_once};
use crate::process::{self, Finished, Running, exists, send, wait_until};
use crate::recording::Recording;

/// Of pisted's log, when a test fails.
const LOG_LINES_SHOWN: usize = 20;

/// With this variable in the environment, the files of a test that fails are kept.
const KEEP: &str = "PISTE_TEST_KEEP";

/// A temporary folder. Ends everything that runs in it when it is dropped: the processes that have its run folder in their
/// environment, which pisted, the consumer and all recorded programs inherit.
pub struct Workplace {
    folder: TempDir,
}

impl Workplace {
    /// A new one. No pisted runs in it; the first command that needs one starts it.
    #[expect(clippy::new_without_default, reason = "it makes a folder")]
    pub fn new() -> Workplace {
        let folder = tempfile::Builder::new()
            .prefix("piste-")
            .tempdir()
            .expect("a temporary folder");
        fs::create_dir(folder.path().join("run")).expect("a folder can be made there");
        Workplace { folder }
    }

    /// A path in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// $PISTE_RUNDIR of everything that runs here.
    pub fn run_folder(&self) -> PathBuf {
        self.path("run")
    }

    /// Takes bin/ and lib/ out of the build tree, which nobody else may be able to enter, and lets everybody enter this folder.
    pub fn copy_build(&self) {
        let mut copy = Command::new("cp");
        copy.arg("-a").args([build().join("bin"), build().join("lib")]);
        process::run(copy.arg(self.path(""))).expect_success();
        fs::set_permissions(self.path(""), Permissions::from_mode(0o755)).expect("it is ours");
    }

    /// Compiles a test program, named after its source.
    pub fn program(&self, source: &str) -> PathBuf {
        let name = Path::new(source)
            .file_stem()
            .and_then(|name| name.to_str())
            .expect("a plain name");
        self.compile(&Compilation::of(&[source]), name)
    }

    /// Compiles and links to that name.
    pub fn compile(&self, compilation: &Compilation, name: &str) -> PathBuf {
        let output = self.path(name);
        compilation.link(&output);
        output
    }

    /// A command that runs here, and finds libpiste and the folder's own libraries.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command
            .current_dir(self.folder.path())
            .env("PISTE_RUNDIR", self.run_folder())
            .env(
                "LD_LIBRARY_PATH",
                format!("{}:{}", build().join("lib").display(), self.folder.path().display()),
            )
            // A program whose pisted does not answer in time goes on without: that is no question of how busy this machine is.
            .env("PISTE_REGISTER_TIMEOUT", "60000")
            .env_remove("LD_PRELOAD")
            .env_remove("PISTE_RECORD")
            .env_remove("PISTE_LIBDIR")
            .env("NO_COLOR", "1");
        compile_once(&mut command);
        command
    }

    /// Runs a program to its end.
    pub fn run(&self, program: impl AsRef<Path>, arguments: &[&str]) -> Finished {
        process::run(self.command(program).args(arguments))
    }

    /// Starts a program.
    pub fn start(&self, program: impl AsRef<Path>, arguments: &[&str]) -> Running {
        Running::start(
            self.command(program)
                .args(arguments)
                .stdin(std::process::Stdio::piped()),
        )
    }

    /// Runs `piste`.
    pub fn piste(&self, arguments: &[&str]) -> Finished {
        self.run(binary("piste"), arguments)
    }

    /// Runs `piste`, which must succeed.
    ///
    /// # Panics
    /// It fails.
    pub fn piste_succeeds(&self, arguments: &[&str]) -> String {
        self.piste(arguments).expect_success().stdout.clone()
    }

    /// What `piste ... --json` prints.
    ///
    /// # Panics
    /// It fails, or prints anything else.
    pub fn piste_json(&self, arguments: &[&str]) -> Value {
        let finished = self.piste(&[&["--json"], arguments].concat());
        finished.expect_success();
        serde_json::from_str(&finished.stdout).unwrap_or_else(|error| panic!("{error}: {finished}"))
    }

    /// Records a program's own events with `piste record`, options first, and returns what it left behind.
    pub fn record(&self, options: &[&str], program: impl AsRef<Path>, arguments: &[&str]) -> Recording {
        self.start_recording(options, program, arguments).finish()
    }

    /// Records what the kernel did for a program as well.
    pub fn record_with_kernel(&self, options: &[&str], program: impl AsRef<Path>, arguments: &[&str]) -> Recording {
        self.start_recording_with_kernel(options, program, arguments).finish()
    }

    /// Starts `piste record` of a program's own events.
    pub fn start_recording(&self, options: &[&str], program: impl AsRef<Path>, arguments: &[&str]) -> Recorder {
        self.start_recording_with_kernel(&[&["--no-kernel"], options].concat(), program, arguments)
    }

    /// Starts `piste record` with everything that it records by default.
    pub fn start_recording_with_kernel(
        &self,
        options: &[&str],
        program: impl AsRef<Path>,
        arguments: &[&str],
    ) -> Recorder {
        let number = fs::read_dir(self.folder.path()).expect("the folder is there").count();
        let (output, summary) = (
            self.path(&format!("trace-{number}")),
            self.path(&format!("summary-{number}.json")),
        );
        // Taken, so that the next recording gets another.
        fs::write(&summary, "").expect("the folder can be written to");
        let mut command = self.command(binary("piste"));
        command
            .arg("record")
            .args(options)
            .arg("-o")
            .arg(&output)
            .arg("--summary")
            .arg(&summary)
            .arg("--");
        command
            .arg(program.as_ref())
            .args(arguments)
            .stdin(std::process::Stdio::piped());
        Recorder {
            running: Running::start(&mut command),
            summary,
        }
    }

    /// The folders of the recordings that were started here.
    pub fn folders_of_recordings(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.folder.path()).into_iter().flatten();
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let is_trace = |path: &PathBuf| {
            path.is_dir()
                && path
                    .file_name()
                    .is_some_and(|name| name.to_string_lossy().starts_with("trace-"))
        };
        paths.filter(is_trace).collect()
    }

    /// Makes sure that a pisted runs.
    pub fn start_pisted(&self) {
        self.piste_succeeds(&["list"]);
    }

    /// The pid of the pisted that runs here.
    pub fn pisted(&self) -> i32 {
        let version = self.piste_json(&["version"]);
        let pid = version["pisted"]["pid"]
            .as_i64()
            .unwrap_or_else(|| panic!("no pisted runs: {version}"));
        i32::try_from(pid).expect("a pid")
    }

    /// The pid of the consumer that runs here.
    pub fn consumer(&self) -> i32 {
        self.wait_for_process("--consumer")
    }

    /// The pid of the kernel consumer that runs here.
    pub fn kernel_consumer(&self) -> i32 {
        self.wait_for_process("--kernel-consumer")
    }

    fn wait_for_process(&self, argument: &str) -> i32 {
        let mut found = vec![];
        let mut others = BTreeSet::new();
        wait_until(&format!("a pisted {argument} runs"), || {
            found = self.processes_with(argument, &mut others);
            !found.is_empty()
        });
        assert_eq!(found.len(), 1, "pisted {argument}: {found:?}");
        found[0]
    }

    /// Does not look at `others`, and adds to them: whatever starts a pisted here has the run folder in its environment already.
    fn processes_with(&self, argument: &str, others: &mut BTreeSet<i32>) -> Vec<i32> {
        let has_argument = |pid: &i32| {
            fs::read(format!("/proc/{pid}/cmdline"))
                .is_ok_and(|line| line.split(|&byte| byte == 0).any(|word| word == argument.as_bytes()))
        };
        let all = all_processes();
        others.retain(|pid| all.contains(pid));
        let unknown: Vec<i32> = all.difference(others).copied().collect();
        let mut found = vec![];
        for pid in unknown {
            match self.owns(pid) {
                Some(true) => found.push(pid),
                Some(false) => _ = others.insert(pid),
                None => (),
            }
        }
        found
            .into_iter()
            .filter(has_argument)
            .filter(|&pid| exists(pid))
            .collect()
    }

    /// Kills pisted and waits for its end.
    pub fn kill_pisted(&self) {
        let pid = self.pisted();
        send(pid, Signal::KILL);
        wait_until("pisted is dead", || !exists(pid));
    }

    /// All processes with this run folder in their environment.
    fn processes(&self) -> Vec<i32> {
        let all = all_processes().into_iter();
        all.filter(|&pid| self.owns(pid) == Some(true)).collect()
    }

    /// Whether the process has this run folder in its environment. None: it has none, as while it executes a program.
    fn owns(&self, pid: i32) -> Option<bool> {
        let setting = format!("PISTE_RUNDIR={}", self.run_folder().display());
        let text = fs::read(format!("/proc/{pid}/environ")).ok()?;
        let mut variables = text.split(|&byte| byte == 0);
        (!text.is_empty()).then(|| variables.any(|variable| variable == setting.as_bytes()))
    }
}

fn all_processes() -> BTreeSet<i32> {
    fs::read_dir("/proc")
        .expect("/proc is mounted")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect()
}

impl Drop for Workplace {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Ok(log) = fs::read_to_string(self.path("run/pisted.log"))
        {
            let lines: Vec<&str> = log.lines().rev().take(LOG_LINES_SHOWN).collect();
            eprintln!("the end of pisted.log:");
            lines.iter().rev().for_each(|line| eprintln!("    {line}"));
        }
        // Some may be starting others meanwhile.
        let deadline = Instant::now() + Duration::from_secs(10);
        while Instant::now() < deadline {
            let left: Vec<i32> = self.processes().into_iter().filter(|&pid| exists(pid)).collect();
            if left.is_empty() {
                break;
            }
            left.into_iter().for_each(|pid| send(pid, Signal::KILL));
            std::thread::sleep(Duration::from_millis(2));
        }
        if std::thread::panicking() && std::env::var_os(KEEP).is_some() {
            self.folder.disable_cleanup(true);
            eprintln!("its files are kept: {}", self.folder.path().display());
        }
    }
}

/// A `piste record` that runs.
pub struct Recorder {
    /// `piste`; its standard input and output are the program's.
    pub running: Running,
    summary: PathBuf,
}

impl Recorder {
    /// Closes the program's standard input, and waits for the end of the recording.
    pub fn finish(mut self) -> Recording {
        let finished = self.running.finish();
        let summary = fs::read_to_string(&self.summary).unwrap_or_default();
        Recording::new(finished, &summary)
    }
}
