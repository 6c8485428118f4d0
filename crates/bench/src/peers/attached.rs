// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program of others that is attached to a process, and ends with a signal.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use piste_reason::reason;
use rustix::process::Signal;

use crate::error::Error;
use crate::processes::Daemon;
use crate::workshop::Workshop;

/// It records until it is told to end.
pub(super) struct Attached {
    daemon: Daemon,
}

impl Attached {
    /// Starts it, and waits until it is attached. `is_attached` has its process id.
    pub(super) fn start(
        workshop: &Workshop,
        command: &mut Command,
        mut is_attached: impl FnMut(u32) -> bool,
    ) -> Result<Attached, Error> {
        let mut daemon = Daemon::start(command.stdin(Stdio::null()))?;
        let pid = daemon.pid();
        daemon.wait_for(&workshop.patience, "the tracer to attach", || is_attached(pid))?;
        Ok(Attached { daemon })
    }

    /// Ends it, so that it writes what it has.
    pub(super) fn end(mut self) -> Result<(), Error> {
        let ended = self.daemon.end(Signal::INT);
        ended.map(drop).map_err(|error| Error::new(reason(&error)))
    }
}

/// The text of a file that such a program wrote.
pub(super) fn read(path: &Path) -> Result<String, Error> {
    let bytes =
        fs::read(path).map_err(|error| Error::new(format!("cannot read {}: {}", path.display(), reason(&error))))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
