// SPDX-License-Identifier: MIT OR Apache-2.0
//! LTTng-UST's events, recorded by a session daemon of their own.

use std::collections::BTreeMap;
use std::process::Command;

use tempfile::TempDir;

use super::{EventSession, EventTracer, Found, Peer, RING, Recorded, RowKind};
use crate::error::Error;
use crate::pisted::events_in;
use crate::report::Group;
use crate::sessiond::{Domain, LIBRARIES, Sessiond};
use crate::workshop::{Sized, Workshop};

/// Channels, and the event that each records.
const CHANNELS: [(&str, &str); 5] = [
    ("plain", "bench:plain"),
    ("payload", "bench:payload"),
    ("contexts", "bench:contexts"),
    ("filtered", "bench:filtered"),
    ("formatted", "lttng_ust_tracef:event"),
];
/// One event of 100 passes.
const FILTER: &str = "v == 7";

pub(super) const PEER: Peer = Peer {
    name: "lttng",
    about: "LTTng-UST's events",
    group: Group::Events,
    rows: &[
        RowKind::unrecorded("lttng-disabled", "LTTng-UST, event off", "disabled"),
        RowKind::recorded("lttng", "LTTng-UST, overwrite", "plain").with_payloads(),
        RowKind::recorded("lttng-contexts", "LTTng-UST, overwrite, vtid", "contexts"),
        RowKind::recorded("lttng-filtered", "LTTng-UST, filter rejects 99 %", "filtered"),
        RowKind::recorded("tracef", "LTTng-UST, tracef", "formatted"),
    ],
    find: |workshop| {
        Sessiond::find(workshop)?;
        let flags = LIBRARIES.map(str::to_owned);
        Ok(Found::Events(Box::new(Lttng {
            programs: workshop.compile_sized(
                "lttng",
                &["lttng.c", "lttng-formatted.c"],
                &flags,
                "liblttng-ust-dev",
                &workshop.payloads,
            )?,
        })))
    },
};

struct Lttng {
    programs: Sized,
}

impl EventTracer for Lttng {
    fn start<'w>(&self, workshop: &'w Workshop) -> Result<Box<dyn EventSession + 'w>, Error> {
        let folder = workshop.folder("lttng")?;
        let session = Session {
            programs: self.programs.clone(),
            sessiond: Sessiond::start(workshop, folder.path().join("home"), Domain::Programs)?,
            _folder: folder,
            workshop,
            found: None,
        };
        session.record()?;
        Ok(Box::new(session))
    }
}

struct Session<'w> {
    programs: Sized,
    sessiond: Sessiond,
    /// Removed after the daemon has ended.
    _folder: TempDir,
    workshop: &'w Workshop,
    /// By the names of the events, once somebody asked.
    found: Option<BTreeMap<String, u64>>,
}

impl Session<'_> {
    fn record(&self) -> Result<(), Error> {
        let lttng = |arguments: &[&str]| self.sessiond.lttng(arguments).map(drop);
        let output = format!("--output={}", self.sessiond.trace().display());
        lttng(&["create", "bench", "--snapshot", &output])?;
        for (channel, event) in CHANNELS {
            lttng(&[&["enable-channel", "-u", "--overwrite", channel], &RING[..]].concat())?;
            if channel == "contexts" {
                lttng(&["add-context", "-u", "-c", channel, "-t", "vtid"])?;
            }
            let filter: &[&str] = if channel == "filtered" {
                &["--filter", FILTER]
            } else {
                &[]
            };
            lttng(&[&["enable-event", "-u", "-c", channel, event], filter].concat())?;
        }
        lttng(&["start"])
    }
}

impl EventSession for Session<'_> {
    fn program(&self, payload_bytes: u32) -> Option<Command> {
        Some(self.sessiond.beside(self.programs.get(&payload_bytes)?))
    }

    fn recorded(&mut self, variant: &str) -> Result<Recorded, Error> {
        if self.found.is_none() {
            self.sessiond.lttng(&["snapshot", "record"])?;
            self.found = Some(events_in(
                self.workshop,
                &self.workshop.patience,
                &self.sessiond.trace(),
            )?);
        }
        let event = CHANNELS
            .iter()
            .find(|(channel, _)| *channel == variant)
            .map_or("", |(_, event)| *event);
        let found = self.found.as_ref().and_then(|found| found.get(event));
        Ok(Recorded::events(found.copied().unwrap_or(0)))
    }
}
