// SPDX-License-Identifier: MIT OR Apache-2.0
//! A system call that nobody traces.

use super::{CallSession, CallTracer, Found, Peer, Recorded, RowKind};
use crate::error::Error;
use crate::report::Group;
use crate::workshop::Workshop;

pub(super) const PEER: Peer = Peer {
    name: "call",
    about: "a system call, not traced",
    group: Group::Calls,
    rows: &[RowKind::unrecorded("call", "not traced", "call").with_payloads()],
    find: |_| Ok(Found::Calls(Box::new(Nobody))),
};

struct Nobody;

impl CallTracer for Nobody {
    fn attach<'w>(&self, _workshop: &'w Workshop, _pid: u32) -> Result<Box<dyn CallSession + 'w>, Error> {
        Ok(Box::new(Nobody))
    }
}

impl CallSession for Nobody {
    fn detach(self: Box<Self>) -> Result<Recorded, Error> {
        Ok(Recorded::default())
    }
}
