// SPDX-License-Identifier: MIT OR Apache-2.0
//! strace, which stops the thread twice in each system call.

use std::fs;
use std::path::PathBuf;

use super::attached::{Attached, read};
use super::{CallSession, CallTracer, Found, Peer, Recorded, RowKind};
use crate::error::{Absence, Error};
use crate::processes::{bound, find};
use crate::report::{Group, RowClock};
use crate::workshop::Workshop;

pub(super) const PEER: Peer = Peer {
    name: "strace",
    about: "strace, to a file",
    group: Group::Calls,
    rows: &[RowKind {
        // The thread waits for strace most of the time.
        clock: RowClock::Wall,
        ..RowKind::recorded("strace", "strace, to a file", "call").with_payloads()
    }],
    find: |_| match find("strace") {
        Some(_) => Ok(Found::Calls(Box::new(Strace))),
        None => Err(Absence::of_program("strace", "strace")),
    },
};

/// Those of the measured program.
const CALLS: [&str; 2] = ["getppid(", "openat(AT_FDCWD, \"////"];

struct Strace;

impl CallTracer for Strace {
    fn attach<'w>(&self, workshop: &'w Workshop, pid: u32) -> Result<Box<dyn CallSession + 'w>, Error> {
        let output = workshop.path("strace");
        let mut command = bound("strace");
        command.args(["-q", "-p", &pid.to_string(), "-o"]).arg(&output);
        let attached = Attached::start(workshop, &mut command, |_| is_traced(pid))?;
        Ok(Box::new(Session { attached, output }))
    }
}

fn is_traced(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
    tracer.is_some_and(|tracer| tracer.trim() != "0")
}

struct Session {
    attached: Attached,
    output: PathBuf,
}

impl CallSession for Session {
    fn detach(self: Box<Self>) -> Result<Recorded, Error> {
        self.attached.end()?;
        let text = read(&self.output)?;
        let is_measured = |line: &&str| CALLS.iter().any(|call| line.starts_with(call));
        let calls = text.lines().filter(is_measured).count() as u64;
        let _ = fs::remove_file(&self.output);
        Ok(Recorded::events(calls))
    }
}
