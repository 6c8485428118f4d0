// SPDX-License-Identifier: MIT OR Apache-2.0
//! What programs write into the kernel's rings themselves: trace_marker and trace_marker_raw of a tracefs instance.

use std::path::PathBuf;
use std::process::Command;

use piste_kernel::tracefs::Tracefs;

use super::{EventSession, EventTracer, Found, PAYLOAD_BYTES, Peer, Recorded, RowKind};
use crate::error::Error;
use crate::instance::Instance;
use crate::report::Group;
use crate::workshop::Workshop;

pub(super) const PEER: Peer = Peer {
    name: "trace_marker",
    about: "text and bytes that a program writes to tracefs",
    group: Group::Events,
    rows: &[
        RowKind::recorded("trace_marker", "trace_marker", "text"),
        RowKind::recorded("trace_marker_raw", "trace_marker_raw", "raw"),
    ],
    find: |workshop| {
        Ok(Found::Events(Box::new(Marker {
            tracefs: workshop.tracefs()?,
            program: workshop.compile("marker", &["marker.c"], &[])?,
        })))
    },
};

struct Marker {
    tracefs: Tracefs,
    program: PathBuf,
}

impl EventTracer for Marker {
    fn start<'w>(&self, _workshop: &'w Workshop) -> Result<Box<dyn EventSession + 'w>, Error> {
        Ok(Box::new(Session {
            instance: Instance::new(&self.tracefs, "marker")?,
            program: self.program.clone(),
        }))
    }
}

struct Session {
    instance: Instance,
    program: PathBuf,
}

impl EventSession for Session {
    fn program(&self, payload_bytes: u32) -> Option<Command> {
        let mut command = Command::new(&self.program);
        command.env("PISTE_BENCH_INSTANCE", self.instance.path(""));
        (payload_bytes == PAYLOAD_BYTES).then_some(command)
    }

    /// By both rows: they are in the same rings.
    fn recorded(&mut self, _variant: &str) -> Result<Recorded, Error> {
        Ok(Recorded::events(self.instance.recorded()))
    }
}
