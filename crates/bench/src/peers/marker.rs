// SPDX-License-Identifier: MIT OR Apache-2.0
//! What programs write into the kernel's rings themselves: trace_marker and trace_marker_raw of tracefs instances.

use std::path::PathBuf;
use std::process::Command;

use piste_kernel::tracefs::Tracefs;

use super::{EventSession, EventTracer, Found, PAYLOAD_BYTES, Peer, Recorded, RowKind};
use crate::error::Error;
use crate::instance::Instance;
use crate::report::Group;
use crate::workshop::{C_LIBRARY, Workshop};

/// What the measured program calls it.
const RAW: &str = "raw";

pub(super) const PEER: Peer = Peer {
    name: "trace_marker",
    about: "text and bytes that a program writes to tracefs",
    group: Group::Events,
    rows: &[
        RowKind::recorded("trace_marker", "trace_marker", "text"),
        RowKind::recorded("trace_marker_raw", "trace_marker_raw", RAW),
    ],
    find: |workshop| {
        Ok(Found::Events(Box::new(Marker {
            tracefs: workshop.tracefs()?,
            program: workshop.compile("marker", &["marker.c"], &[], C_LIBRARY)?,
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
            text: Instance::new(&self.tracefs)?,
            raw: Instance::new(&self.tracefs)?,
            program: self.program.clone(),
        }))
    }
}

/// An instance for each row, so that it is known what each recorded.
struct Session {
    text: Instance,
    raw: Instance,
    program: PathBuf,
}

impl EventSession for Session {
    fn program(&self, payload_bytes: u32) -> Option<Command> {
        let mut command = Command::new(&self.program);
        command
            .env("PISTE_BENCH_TEXT", self.text.path("trace_marker"))
            .env("PISTE_BENCH_RAW", self.raw.path("trace_marker_raw"));
        (payload_bytes == PAYLOAD_BYTES).then_some(command)
    }

    fn recorded(&mut self, variant: &str) -> Result<Recorded, Error> {
        let instance = if variant == RAW { &self.raw } else { &self.text };
        Ok(Recorded::events(instance.recorded()))
    }
}
