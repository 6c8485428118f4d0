// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that are run beside the measured ones: commands to their end, and daemons that end with the value that holds them.
//!
//! Each has a process group of its own, so that Ctrl-C reaches only piste, which then removes everything in order.

use std::env;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use piste_reason::reason;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Access, access};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open};

use crate::error::Error;

/// Far more than anything takes that works.
const PATIENCE: Duration = Duration::from_secs(60);
/// What has not ended by then is killed.
const END_PATIENCE: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(2);
const LOOK_FOR_CTRL_C: Duration = Duration::from_millis(200);

/// Waits for others, but not for ever, and not after Ctrl-C.
#[derive(Clone, Debug)]
pub(crate) struct Patience {
    interrupted: Arc<AtomicBool>,
}

impl Patience {
    pub(crate) fn new(interrupted: Arc<AtomicBool>) -> Patience {
        Patience { interrupted }
    }

    /// Whether Ctrl-C came.
    pub(crate) fn is_interrupted(&self) -> bool {
        // Relaxed: nothing else is said by it.
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Waits until something is so.
    pub(crate) fn wait_until(&self, what: &str, mut is_so: impl FnMut() -> bool) -> Result<(), Error> {
        let deadline = Instant::now() + PATIENCE;
        while !is_so() {
            if self.is_interrupted() {
                return Err(Error::Interrupted);
            }
            if Instant::now() > deadline {
                return Err(Error::new(format!(
                    "waited {} s in vain until {what}",
                    PATIENCE.as_secs()
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
/// It cannot be run, or its status is not 0.
pub(crate) fn output_of(command: &mut Command) -> Result<String, Error> {
    let shown = shown(command);
    command.process_group(0).stdin(Stdio::null());
    let output = command
        .output()
        .map_err(|error| Error::new(format!("cannot run {shown}: {}", reason(&error))))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = reason_in(&said);
    Err(Error::new(format!(
        "`{shown}` {}{}",
        how(output.status),
        said.map(|line| format!(": {}", line.trim())).unwrap_or_default()
    )))
}

/// The line on standard error that says why a program failed: a message of piste, which prints more behind it, or else the last one.
fn reason_in(said: &str) -> Option<&str> {
    let of_piste = said.lines().find(|line| line.starts_with("piste: "));
    of_piste.or_else(|| said.lines().rfind(|line| !line.trim().is_empty()))
}

/// Whether there is no process of that id.
pub(crate) fn has_ended(pid: u32) -> bool {
    !Path::new(&format!("/proc/{pid}")).exists()
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
pub(crate) fn first_line_of(program: impl AsRef<OsStr>, argument: &str) -> Option<String> {
    let text = output_of(Command::new(program).arg(argument)).ok()?;
    let line = text.lines().next()?.trim();
    (!line.is_empty()).then(|| line.to_owned())
}

fn how(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("ended with status {code}"),
        None => "was killed".into(),
    }
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

    /// Waits until something is so, as long as it runs.
    pub(crate) fn wait_until(
        &mut self,
        patience: &Patience,
        what: &str,
        mut is_so: impl FnMut() -> bool,
    ) -> Result<(), Error> {
        let mut has_ended = false;
        patience.wait_until(what, || {
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
        let mut said = String::new();
        let _ = self
            .errors
            .rewind()
            .and_then(|()| self.errors.read_to_string(&mut said));
        let said = reason_in(&said);
        Error::new(format!(
            "`{}` {}{}",
            self.shown,
            status.map_or_else(|_| "ended".into(), how),
            said.map(|line| format!(": {}", line.trim())).unwrap_or_default()
        ))
    }

    /// Asks it to end with a signal, and waits; kills it, and what it started, if it does not.
    pub(crate) fn end(&mut self, signal: Signal) -> io::Result<ExitStatus> {
        if let Some(status) = self.child.try_wait()? {
            return Ok(status);
        }
        let pid = Pid::from_child(&self.child);
        let _ = kill_process(pid, signal);
        let deadline = Instant::now() + END_PATIENCE;
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
