// SPDX-License-Identifier: MIT OR Apache-2.0
//! A BPF program that counts the entry and the return of each system call, through bpftrace.

use std::fs::{self, File};
use std::path::PathBuf;

use piste_reason::reason;

use super::attached::{Attached, read};
use super::{CallSession, CallTracer, Found, Peer, Recorded, RowKind};
use crate::error::{Absence, Error};
use crate::processes::{bound, find};
use crate::report::Group;
use crate::workshop::Workshop;

pub(super) const PEER: Peer = Peer {
    name: "bpftrace",
    about: "a BPF program that counts, through bpftrace",
    group: Group::Calls,
    rows: &[RowKind::recorded("bpftrace", "BPF, counting (bpftrace)", "call").with_payloads()],
    find: |workshop| {
        if find("bpftrace").is_none() {
            return Err(Absence::of_program("bpftrace", "bpftrace"));
        }
        workshop.tracefs()?;
        Ok(Found::Calls(Box::new(Bpftrace)))
    },
};

struct Bpftrace;

impl CallTracer for Bpftrace {
    fn attach<'w>(&self, workshop: &'w Workshop, pid: u32) -> Result<Box<dyn CallSession + 'w>, Error> {
        let output = workshop.path("bpftrace");
        let file = File::create(&output)
            .map_err(|error| Error::new(format!("cannot create {}: {}", output.display(), reason(&error))))?;
        let script = format!(
            "tracepoint:raw_syscalls:sys_enter, tracepoint:raw_syscalls:sys_exit /pid == {pid}/ {{ @calls = count(); }} interval:ms:20 {{ printf(\"attached\\n\"); }}"
        );
        let mut command = bound("bpftrace");
        command.args(["-e", &script]).stdout(file);
        // Its timer is attached after the others, in the order of the script.
        let is_attached = |_| fs::read_to_string(&output).is_ok_and(|text| text.contains("attached\n"));
        let attached = Attached::start(workshop, &mut command, is_attached)?;
        Ok(Box::new(Session { attached, output }))
    }
}

struct Session {
    attached: Attached,
    output: PathBuf,
}

impl CallSession for Session {
    fn detach(self: Box<Self>) -> Result<Recorded, Error> {
        self.attached.end()?;
        let text = read(&self.output)?;
        let count = text
            .lines()
            .find_map(|line| line.strip_prefix("@calls: ")?.trim().parse().ok());
        Ok(Recorded::events(count.unwrap_or(0)))
    }
}
