// SPDX-License-Identifier: MIT OR Apache-2.0
//! A plain tracefs instance that nobody reads: what the kernel itself takes.

use piste_kernel::tracefs::Tracefs;

use super::{CallSession, CallTracer, Found, Peer, Recorded, RowKind};
use crate::error::Error;
use crate::instance::Instance;
use crate::report::Group;
use crate::workshop::Workshop;

const EVENTS: [&str; 2] = ["raw_syscalls/sys_enter", "raw_syscalls/sys_exit"];

pub(super) const PEER: Peer = Peer {
    name: "tracefs",
    about: "a tracefs instance that nobody reads",
    group: Group::Calls,
    rows: &[RowKind::recorded("tracefs", "tracefs instance, nobody reads", "call").with_payloads()],
    find: |workshop| {
        Ok(Found::Calls(Box::new(Bare {
            tracefs: workshop.tracefs()?,
        })))
    },
};

struct Bare {
    tracefs: Tracefs,
}

impl CallTracer for Bare {
    fn attach<'w>(&self, _workshop: &'w Workshop, pid: u32) -> Result<Box<dyn CallSession + 'w>, Error> {
        let instance = Instance::new(&self.tracefs)?;
        instance.write("set_event_pid", &pid.to_string())?;
        for event in EVENTS {
            instance.enable(event)?;
        }
        Ok(Box::new(instance))
    }
}

impl CallSession for Instance {
    fn detach(self: Box<Self>) -> Result<Recorded, Error> {
        Ok(Recorded::events(self.recorded()))
    }
}
