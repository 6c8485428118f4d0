// SPDX-License-Identifier: MIT OR Apache-2.0
//! Holds a command before its first instruction: it has its process id, so that the kernel can be told to record it, and has
//! not begun.
//!
//! The process runs `piste gate` until it is let go, and then becomes the command. It finds two pipes in the parent's table of
//! descriptors, so that neither is ever one of the command's:
//!
//! ```text
//!   parent                         piste gate                                    command
//!   hold                 <- HELD   opens both pipes
//!   open, by one byte    ->        becomes the command: both pipes close   ->    runs
//!                        <- errno  or says why it cannot
//! ```
//!
//! A parent that ends closes the gate's pipe, and the process ends without having run anything.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, PipeReader, PipeWriter, Read, Write, pipe};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, parent_id};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, exit};

use clap::Args;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Access, access};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::failure::RECORD_FAILED;

const HELD: u8 = b'h';

/// `piste gate`: the arguments that [`Gate::hold`] gives.
#[derive(Args)]
pub(crate) struct GateArguments {
    /// Process that holds the gate
    parent: u32,
    /// Its descriptor that is read before CMD runs
    opener: i32,
    /// Its descriptor that is written to when CMD cannot run
    report: i32,
    /// NAME=VALUE, in the environment of CMD
    #[arg(long)]
    set: Vec<OsString>,
    /// The command and its arguments
    #[arg(value_name = "CMD", required = true, last = true)]
    command: Vec<OsString>,
}

/// A command that is held.
pub(crate) struct Gate {
    child: Child,
    opener: PipeWriter,
    report: PipeReader,
}

impl Gate {
    /// Starts the process of `command` and holds it.
    ///
    /// # Errors
    /// The process could not be started. Whether the command can be executed is not known before it is let go.
    pub(crate) fn hold(command: &Command) -> io::Result<Gate> {
        let (opened, opener) = pipe()?;
        let (mut report, reporting) = pipe()?;
        let mut gate = Command::new(env::current_exe()?);
        gate.arg("gate")
            .arg(std::process::id().to_string())
            .arg(opened.as_raw_fd().to_string())
            .arg(reporting.as_raw_fd().to_string());
        for (name, value) in command.get_envs() {
            // Not in the environment of the gate itself: it is no part of what is recorded.
            gate.arg("--set").arg(assignment(name, value.unwrap_or_default()));
        }
        gate.arg("--").arg(command.get_program()).args(command.get_args());
        let mut child = gate.spawn()?;
        wait_for(&report, &child)?;
        let mut word = [0];
        // Only now: before, the gate might not have found them.
        drop((opened, reporting));
        match report.read(&mut word)? {
            1 if word == [HELD] => Ok(Gate { child, opener, report }),
            _ => {
                let status = child.wait()?;
                Err(io::Error::other(format!("it ended before it was started: {status}")))
            }
        }
    }

    /// The process that becomes the command.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Lets the command run.
    ///
    /// # Errors
    /// It cannot be executed; the error is that of the system, as from [`Command::spawn`].
    pub(crate) fn open(mut self) -> io::Result<Child> {
        // A process that a signal has ended meanwhile reads nothing any more: what ended it is its status.
        let _ = self.opener.write_all(&[0]);
        let mut errno = vec![];
        self.report.read_to_end(&mut errno)?;
        match <[u8; 4]>::try_from(errno) {
            Err(_) => Ok(self.child),
            Ok(errno) => {
                self.child.wait()?;
                Err(io::Error::from_raw_os_error(i32::from_ne_bytes(errno)))
            }
        }
    }
}

/// Returns when the gate has said something or has ended.
fn wait_for(report: &PipeReader, child: &Child) -> io::Result<()> {
    let process = Pid::from_raw(child.id().cast_signed()).ok_or(io::ErrorKind::InvalidInput)?;
    let process = pidfd_open(process, PidfdFlags::empty())?;
    let mut either = [PollFd::new(report, PollFlags::IN), PollFd::new(&process, PollFlags::IN)];
    while let Err(error) = poll(&mut either, None) {
        if error != rustix::io::Errno::INTR {
            return Err(error.into());
        }
    }
    Ok(())
}

fn assignment(name: &OsStr, value: &OsStr) -> OsString {
    let mut assignment = name.to_owned();
    assignment.push("=");
    assignment.push(value);
    assignment
}

/// Waits for the parent, and becomes the command. Returns only to end.
pub(crate) fn become_command(arguments: &GateArguments) -> u8 {
    let name = &arguments.command[0];
    // What is done between the gate and the command is recorded: as little as possible.
    let mut command = Command::new(search(name).as_deref().unwrap_or(Path::new(name)));
    command.arg0(name).args(&arguments.command[1..]);
    for assignment in &arguments.set {
        let bytes = assignment.as_bytes();
        if let Some(equals) = bytes.iter().position(|byte| *byte == b'=') {
            command.env(
                OsStr::from_bytes(&bytes[..equals]),
                OsStr::from_bytes(&bytes[equals + 1..]),
            );
        }
    }
    let Ok((_opened, mut report)) = wait_until_opened(arguments) else {
        return RECORD_FAILED;
    };
    let errno = command.exec().raw_os_error().unwrap_or(0);
    let _ = report.write_all(&errno.to_ne_bytes());
    exit(RECORD_FAILED.into())
}

/// Where PATH has the program, if it is looked for there and found. If not, it is the system that says what is wrong.
fn search(name: &OsStr) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return None;
    }
    let folders = env::var_os("PATH")?;
    let mut paths = env::split_paths(&folders).map(|folder| folder.join(name));
    paths.find(|path| path.is_file() && access(path, Access::EXEC_OK).is_ok())
}

/// Returns both pipes, which close when the process becomes the command.
fn wait_until_opened(arguments: &GateArguments) -> io::Result<(File, File)> {
    // Whoever has the parent's id when the parent has ended is somebody else.
    if parent_id() != arguments.parent {
        return Err(io::ErrorKind::NotFound.into());
    }
    let of_parent = |descriptor: i32| format!("/proc/{}/fd/{descriptor}", arguments.parent);
    let mut opened = File::open(of_parent(arguments.opener))?;
    let mut report = OpenOptions::new().write(true).open(of_parent(arguments.report))?;
    report.write_all(&[HELD])?;
    opened.read_exact(&mut [0])?;
    Ok((opened, report))
}
