// SPDX-License-Identifier: MIT OR Apache-2.0
//! A probe at the beginning of a function, with its argument, recorded by perf as a flight recorder.

use std::path::PathBuf;
use std::process::Command;

use super::perf::{PerfRecording, is_installed};
use super::uprobe::{Probed, probed};
use super::{EventSession, EventTracer, Found, PAYLOAD_BYTES, Peer, Recorded, RowKind};
use crate::error::Error;
use crate::instance::Instance;
use crate::report::Group;
use crate::workshop::Workshop;

pub(super) const PEER: Peer = Peer {
    name: "perf-probe",
    about: "a probe at a function, through perf record",
    group: Group::Events,
    rows: &[RowKind::recorded("perf-uprobe", "uprobe, perf record", "probed")],
    find: |workshop| {
        is_installed()?;
        Ok(Found::Events(Box::new(PerfProbed(probed(workshop, "perf_probed")?))))
    },
};

struct PerfProbed(Probed);

impl EventTracer for PerfProbed {
    fn start<'w>(&self, workshop: &'w Workshop) -> Result<Box<dyn EventSession + 'w>, Error> {
        let (instance, probe) = self.0.add_probe()?;
        let event = probe.replace('/', ":");
        // On all CPUs, because the processes that it is to record are started later. Nobody else runs this program.
        let recording = PerfRecording::start(workshop, &[&event], &["-a"])?;
        Ok(Box::new(Session {
            program: self.0.program.clone(),
            recording: Some(recording),
            found: Recorded::default(),
            _instance: instance,
        }))
    }
}

/// perf ends before the probe does, which it uses.
struct Session {
    program: PathBuf,
    /// Until somebody asks what it recorded.
    recording: Option<PerfRecording>,
    found: Recorded,
    _instance: Instance,
}

impl EventSession for Session {
    fn program(&self, payload_bytes: u32) -> Option<Command> {
        (payload_bytes == PAYLOAD_BYTES).then(|| Command::new(&self.program))
    }

    fn recorded(&mut self, _variant: &str) -> Result<Recorded, Error> {
        if let Some(recording) = self.recording.take() {
            self.found = recording.end()?;
        }
        Ok(self.found)
    }
}
