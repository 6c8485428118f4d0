// SPDX-License-Identifier: MIT OR Apache-2.0
//! Piste's recording of system calls, as a flight recorder: nobody reads it while it records.

use tempfile::TempDir;

use super::{CallSession, CallTracer, Found, PISTE_CALL, Peer, RING, Recorded, RowKind};
use crate::error::Error;
use crate::pisted::Pisted;
use crate::report::Group;
use crate::workshop::Workshop;

pub(super) const PEER: Peer = Peer {
    name: "piste-kernel",
    about: "Piste's recording of the kernel",
    group: Group::Calls,
    rows: &[RowKind::recorded(PISTE_CALL, "Piste, overwrite", "call").with_payloads()],
    find: |workshop| {
        workshop.tracefs()?;
        Ok(Found::Calls(Box::new(Piste)))
    },
};

struct Piste;

impl CallTracer for Piste {
    fn attach<'w>(&self, workshop: &'w Workshop, pid: u32) -> Result<Box<dyn CallSession + 'w>, Error> {
        let folder = workshop.folder("calls")?;
        let pisted = Pisted::start(workshop, folder.path())?;
        pisted.create("calls", &folder.path().join("trace"), true)?;
        pisted.piste(&[&["enable-channel", "-k", "calls"], &RING[..]].concat())?;
        pisted.piste(&["enable-event", "-k", "-c", "calls", "--syscall", "*"])?;
        pisted.piste(&["track", "-k", "--pid", &pid.to_string()])?;
        pisted.piste(&["start"])?;
        Ok(Box::new(Session { pisted, folder }))
    }
}

struct Session {
    pisted: Pisted,
    folder: TempDir,
}

impl CallSession for Session {
    fn detach(self: Box<Self>) -> Result<Recorded, Error> {
        let snapshot = self.folder.path().join("snapshot");
        let reply = self
            .pisted
            .json(&["snapshot", "record", "-o", &snapshot.to_string_lossy()])?;
        Ok(Recorded::events(reply["events"].as_u64().unwrap_or(0)))
    }
}
