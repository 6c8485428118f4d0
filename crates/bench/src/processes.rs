// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that are run beside the measured ones: commands to their end, and daemons that end with the value that holds them.
//!
//! Each has a process group of its own, so that Ctrl-C reaches only piste, which then removes everything in order.

use std::env;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use piste_reason::reason;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Access, access};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open, test_kill_process_group};

use crate::error::Error;

/// Far longer than anything takes that works.
const LIMIT: Duration = Duration::from_secs(60);
/// What has not ended by then is killed.
const END_LIMIT: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(2);
const LOOK_FOR_CTRL_C: Duration = Duration::from_millis(200);

/// Waits for others, but not for ever, and not after Ctrl-C.
#[derive(Clone, Debug)]
pub(crate) struct Patience {
    /// Absent if Ctrl-C does not matter.
    interrupted: Option<Arc<AtomicBool>>,
    limit: Duration,
}

impl Patience {
    pub(crate) fn new(interrupted: Arc<AtomicBool>) -> Patience {
        Patience {
            interrupted: Some(interrupted),
            limit: LIMIT,
        }
    }

    /// For what has to be done after Ctrl-C, too: things are removed, and what is known is read.
    pub(crate) fn for_the_end() -> Patience {
        Patience {
            interrupted: None,
            limit: LIMIT,
        }
    }

    /// The same, for something that may take so long.
    pub(crate) fn of(&self, limit: Duration) -> Patience {
        Patience { limit, ..self.clone() }
    }

    /// Whether Ctrl-C came.
    pub(crate) fn is_interrupted(&self) -> bool {
        let interrupted = self.interrupted.as_ref();
        // Relaxed: it publishes nothing else.
        interrupted.is_some_and(|interrupted| interrupted.load(Ordering::Relaxed))
    }

    /// Waits for something, such as "the tracer to attach", until it is so.
    pub(crate) fn wait_for(&self, what: &str, mut is_so: impl FnMut() -> bool) -> Result<(), Error> {
        let deadline = Instant::now() + self.limit;
        while !is_so() {
            if self.is_interrupted() {
                return Err(Error::Interrupted);
            }
            if Instant::now() > deadline {
                return Err(Error::new(format!(
                    "timed out after {} s waiting for {what}",
                    self.limit.as_secs()
                )));
            }
            thread::sleep(LOOK_AGAIN);
        }
        Ok(())
    }
}

/// The program of that name in PATH.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let folders = env::var_os("PATH")?;
    let places = env::split_paths(&folders).map(|folder| folder.join(program));
    let mut programs = places.filter(|path| path.is_file() && access(path, Access::EXEC_OK).is_ok());
    programs.next()
}

/// Runs a command to its end and returns what it prints.
///
/// # Errors
/// It cannot be run, takes too long, or its status is not 0; Ctrl-C, which ends it.
pub(crate) fn output_of(command: &mut Command, patience: &Patience) -> Result<String, Error> {
    let shown = shown(command);
    let cannot_run = |error| Error::new(format!("cannot run {shown}: {}", reason(&error)));
    // Not a pipe, which somebody would have to empty meanwhile.
    let mut output = tempfile::tempfile().map_err(cannot_run)?;
    let to_file = output.try_clone().map_err(cannot_run)?;
    let mut running = Daemon::start(command.stdin(Stdio::null()).stdout(to_file))?;
    let mut status = None;
    let ended = patience.wait_for(&format!("`{shown}` to end"), || {
        status = running.child.try_wait().ok().flatten();
        status.is_some()
    });
    if let Err(error) = ended {
        // Also what it started, such as the passes of a compiler.
        let _ = kill_process_group(Pid::from_child(&running.child), Signal::TERM);
        return Err(error);
    }
    if !status.is_some_and(|status| status.success()) {
        return Err(running.ended());
    }
    output.rewind().and_then(|()| read_all(&mut output)).map_err(cannot_run)
}

fn read_all(file: &mut File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A command that is asked to end if this process is killed, where the system has a program for that (Debian: util-linux).
pub(crate) fn bound(program: impl AsRef<OsStr>) -> Command {
    match find("setpriv") {
        Some(setpriv) => {
            let mut command = Command::new(setpriv);
            command.args(["--pdeathsig", "TERM", "--"]).arg(program);
            command
        }
        None => Command::new(program),
    }
}

/// What a command prints, if it is there and succeeds; for the versions of tools.
pub(crate) fn first_line_of(program: impl AsRef<OsStr>, argument: &str, patience: &Patience) -> Option<String> {
    let text = output_of(Command::new(program).arg(argument), patience).ok()?;
    let line = text.lines().next()?.trim();
    (!line.is_empty()).then(|| line.to_owned())
}

fn how(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("ended with status {code}"),
        None => "was killed".into(),
    }
}

/// The line of an error output that has the reason: of piste or a linker the first one, because more comes behind it; otherwise the last one.
fn telling(said: &str) -> Option<&str> {
    let mut lines = said.lines().filter(|line| !line.trim().is_empty());
    let is_reason = |line: &&str| line.starts_with("piste: ") || line.contains("ld: ") || line.contains("error: ");
    lines.clone().find(is_reason).or_else(|| lines.next_back())
}

/// The program and its arguments.
fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    words.join(" ")
}

/// A process that ends with this value.
#[derive(Debug)]
pub(crate) struct Daemon {
    child: Child,
    shown: String,
    /// What it says on standard error. Not a pipe: it would end a daemon that speaks when nobody listens any more.
    errors: File,
}

impl Daemon {
    /// Starts it.
    pub(crate) fn start(command: &mut Command) -> Result<Daemon, Error> {
        let shown = shown(command);
        let mut start = || -> io::Result<(Child, File)> {
            let errors = tempfile::tempfile()?;
            command.process_group(0).stderr(errors.try_clone()?);
            Ok((command.spawn()?, errors))
        };
        match start() {
            Ok((child, errors)) => Ok(Daemon { child, shown, errors }),
            Err(error) => Err(Error::new(format!("cannot run {shown}: {}", reason(&error)))),
        }
    }

    /// What people know it by.
    pub(crate) fn named(mut self, name: String) -> Daemon {
        self.shown = name;
        self
    }

    pub(crate) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for something as long as it runs.
    pub(crate) fn wait_for(
        &mut self,
        patience: &Patience,
        what: &str,
        mut is_so: impl FnMut() -> bool,
    ) -> Result<(), Error> {
        let mut has_ended = false;
        patience.wait_for(what, || {
            has_ended = !matches!(self.child.try_wait(), Ok(None));
            has_ended || is_so()
        })?;
        match has_ended {
            false => Ok(()),
            true => Err(self.ended()),
        }
    }

    /// Waits until it ends by itself; absent after Ctrl-C.
    pub(crate) fn wait(&mut self, patience: &Patience) -> Result<Option<ExitStatus>, Error> {
        let wait = |child: &mut Child| -> io::Result<Option<ExitStatus>> {
            let process = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
            while !patience.is_interrupted() {
                // Not more often than needed: it would disturb what is measured.
                let timeout = Timespec {
                    tv_sec: 0,
                    tv_nsec: LOOK_FOR_CTRL_C.subsec_nanos().into(),
                };
                match poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&timeout)) {
                    Ok(0) | Err(Errno::INTR) => {}
                    Ok(_) => return child.wait().map(Some),
                    Err(error) => return Err(error.into()),
                }
            }
            Ok(None)
        };
        wait(&mut self.child).map_err(|error| Error::new(format!("cannot wait for {}: {}", self.shown, reason(&error))))
    }

    /// That it ended by itself, with what it said last.
    pub(crate) fn ended(&mut self) -> Error {
        let status = self.end(Signal::TERM);
        let said = self.errors.rewind().and_then(|()| read_all(&mut self.errors));
        let said = said.unwrap_or_default();
        Error::new(format!(
            "`{}` {}{}",
            self.shown,
            status.map_or_else(|_| "ended".into(), how),
            telling(&said)
                .map(|line| format!(": {}", line.trim()))
                .unwrap_or_default()
        ))
    }

    /// Ends it and everything that it started, as Ctrl-C in its terminal would; kills what does not end.
    pub(crate) fn end_all(&mut self) {
        let group = Pid::from_child(&self.child);
        let _ = kill_process_group(group, Signal::INT);
        let _ = self.end(Signal::INT);
        let deadline = Instant::now() + END_LIMIT;
        while test_kill_process_group(group).is_ok() && Instant::now() < deadline {
            thread::sleep(LOOK_AGAIN);
        }
        let _ = kill_process_group(group, Signal::KILL);
    }

    /// Asks it to end with a signal, and waits; kills it, and what it started, if it does not.
    pub(crate) fn end(&mut self, signal: Signal) -> io::Result<ExitStatus> {
        if let Some(status) = self.child.try_wait()? {
            return Ok(status);
        }
        let pid = Pid::from_child(&self.child);
        let _ = kill_process(pid, signal);
        let deadline = Instant::now() + END_LIMIT;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            thread::sleep(LOOK_AGAIN);
        }
        let _ = kill_process_group(pid, Signal::KILL);
        self.child.wait()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.end(Signal::TERM);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn patience() -> (Arc<AtomicBool>, Patience) {
        let interrupted = Arc::new(AtomicBool::new(false));
        (Arc::clone(&interrupted), Patience::new(interrupted))
    }

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_command_has_output_or_a_reason() {
        let (_, patience) = patience();
        let long = "x".repeat(200_000);
        assert_eq!(
            output_of(&mut shell("head -c 200000 /dev/zero | tr '\\0' x"), &patience),
            Ok(long)
        );
        let failed = output_of(&mut shell("echo first >&2; echo last >&2; exit 3"), &patience);
        let failed = failed.expect_err("its status is 3").to_string();
        assert!(failed.ends_with("` ended with status 3: last"), "{failed}");
        let missing = output_of(&mut Command::new("/no/such/program"), &patience);
        assert!(missing.is_err_and(|error| error.to_string().starts_with("cannot run /no/such/program: ")));
    }

    #[test]
    fn ctrl_c_ends_a_command_with_what_it_started() {
        let (interrupted, patience) = patience();
        let folder = tempfile::tempdir().expect("a new folder");
        let file = folder.path().join("pid");
        let pid = || fs::read_to_string(&file).unwrap_or_default();
        let mut command = shell("sleep 1000 & echo $! > \"$0\"; wait");
        command.arg(&file);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !pid().ends_with('\n') {
                    thread::sleep(LOOK_AGAIN);
                }
                // Relaxed: it publishes nothing else.
                interrupted.store(true, Ordering::Relaxed);
            });
            assert_eq!(output_of(&mut command, &patience), Err(Error::Interrupted));
        });
        let running = Path::new("/proc").join(pid().trim());
        // One that nobody has waited for yet has ended, too.
        let state = || fs::read_to_string(running.join("stat")).unwrap_or_default();
        while running.exists() && !state().contains(") Z ") {
            thread::sleep(LOOK_AGAIN);
        }
    }

    #[test]
    fn a_command_has_a_limit() {
        let (_, patience) = patience();
        let ended = output_of(&mut shell("sleep 1000"), &patience.of(Duration::ZERO));
        let ended = ended.expect_err("it takes long").to_string();
        assert_eq!(ended, "timed out after 0 s waiting for `sh -c sleep 1000` to end");
    }

    #[test]
    fn the_line_with_the_reason_is_found() {
        let link =
            "/usr/bin/ld: cannot find -lpiste: No such file or directory\ncollect2: error: ld returned 1 exit status\n";
        assert_eq!(
            telling(link),
            Some("/usr/bin/ld: cannot find -lpiste: No such file or directory")
        );
        let compile = "x.c: In function 'f':\nx.c:3:1: error: expected ';'\n    3 | }\n      | ^\n";
        assert_eq!(telling(compile), Some("x.c:3:1: error: expected ';'"));
        assert_eq!(telling("one\ntwo\n\n"), Some("two"));
        assert_eq!(telling("\n"), None);
    }
}
