// SPDX-License-Identifier: MIT OR Apache-2.0
//! Piste's events, recorded by a pisted of their own. Each way of recording has a channel of its own, so that what is in its ring at the end is of
//! that way alone.

use std::collections::BTreeMap;
use std::process::Command;

use tempfile::TempDir;

use super::{EventSession, EventTracer, Found, Peer, RING, Recorded, RowKind};
use crate::error::Error;
use crate::pisted::{Pisted, discarded_by, events_in, library_flags};
use crate::report::Group;
use crate::workshop::{Sized, Workshop};

/// Of a channel that must have room for a whole round while the consumer sleeps.
const LARGE_RING: [&str; 2] = ["--subbuf-size=2M", "--num-subbuf=4"];
/// With what comes before it, a round fills half of such a ring, and the consumer empties it until the next one: an event takes 8 bytes.
const EVENTS_MAX: u64 = 400_000;

/// Channels: name, rings, options, and the event that each records.
const IN_MEMORY: [(&str, &[&str], &str); 5] = [
    ("plain", &["--overwrite", "--no-default-contexts"], "bench:plain"),
    ("payload", &["--overwrite", "--no-default-contexts"], "bench:payload"),
    ("contexts", &["--overwrite"], "bench:contexts"),
    ("filtered", &["--overwrite", "--no-default-contexts"], "bench:filtered"),
    ("formatted", &["--overwrite", "--no-default-contexts"], "piste:printf"),
];
const TO_DISK: [(&str, &[&str], &str); 2] = [
    ("discard", &["--discard", "--no-default-contexts"], "bench:discard"),
    ("block", &["--block=forever", "--no-default-contexts"], "bench:block"),
];
/// One event of 100 passes.
const FILTER: &str = "v == 7";

pub(super) const PEER: Peer = Peer {
    name: "piste",
    about: "Piste's events (libpiste)",
    group: Group::Events,
    rows: &[
        RowKind::unrecorded("piste-disabled", "Piste, event off", "disabled"),
        RowKind::recorded("piste", "Piste, overwrite", "plain").with_payloads(),
        RowKind {
            events_max: EVENTS_MAX,
            ..RowKind::recorded("piste-discard", "Piste, discard, to disk", "discard")
        },
        RowKind {
            events_max: EVENTS_MAX,
            ..RowKind::recorded("piste-block", "Piste, block, to disk", "block")
        },
        RowKind::recorded("piste-contexts", "Piste, overwrite, vtid and CPU", "contexts"),
        RowKind::recorded("piste-filtered", "Piste, filter rejects 99 %", "filtered"),
        RowKind::recorded("piste-formatted", "Piste, piste_printf", "formatted"),
    ],
    find: |workshop| {
        let flags = library_flags(workshop)?;
        Ok(Found::Events(Box::new(Piste {
            programs: workshop.compile_sized("piste", &["piste.c"], &flags, "libpiste-dev", &workshop.payloads)?,
        })))
    },
};

struct Piste {
    programs: Sized,
}

impl EventTracer for Piste {
    fn start<'w>(&self, workshop: &'w Workshop) -> Result<Box<dyn EventSession + 'w>, Error> {
        let folder = workshop.folder("piste")?;
        let session = Session {
            programs: self.programs.clone(),
            pisted: Pisted::start(workshop, folder.path())?,
            workshop,
            folder,
            found: None,
        };
        session.record("memory", true, &IN_MEMORY, &RING)?;
        session.record("disk", false, &TO_DISK, &LARGE_RING)?;
        Ok(Box::new(session))
    }
}

struct Session<'w> {
    programs: Sized,
    pisted: Pisted,
    workshop: &'w Workshop,
    /// Removed after pisted has ended, which writes there. Traces are large.
    folder: TempDir,
    /// By the names of the events, once somebody asked.
    found: Option<BTreeMap<String, Recorded>>,
}

impl Session<'_> {
    /// Creates and starts a session with some channels.
    fn record(
        &self,
        name: &str,
        is_in_memory: bool,
        channels: &[(&str, &[&str], &str)],
        ring: &[&str],
    ) -> Result<(), Error> {
        self.pisted.create(name, &self.folder.path().join(name), is_in_memory)?;
        for (channel, options, event) in channels {
            self.pisted
                .piste(&[&["enable-channel", "-s", name, "-u", channel], *options, ring].concat())?;
            let filter: &[&str] = if *channel == "filtered" {
                &["--filter", FILTER]
            } else {
                &[]
            };
            self.pisted
                .piste(&[&["enable-event", "-s", name, "-u", "-c", channel, event], filter].concat())?;
        }
        self.pisted.piste(&["start", name]).map(drop)
    }

    fn look(&self) -> Result<BTreeMap<String, Recorded>, Error> {
        let snapshot = self.folder.path().join("snapshot");
        self.pisted
            .piste(&["snapshot", "record", "-s", "memory", "-o", &snapshot.to_string_lossy()])?;
        self.pisted.piste(&["stop", "disk"])?;
        let status = self.pisted.json(&["status", "disk"])?;
        let mut events = events_in(self.workshop, &self.workshop.patience, &snapshot)?;
        events.extend(events_in(
            self.workshop,
            &self.workshop.patience,
            &self.folder.path().join("disk"),
        )?);
        let recorded = |(name, count): (String, u64)| {
            let discarded = channel_of(&name).map_or(0, |channel| discarded_by(&status, channel));
            (
                name,
                Recorded {
                    events: count,
                    discarded,
                },
            )
        };
        Ok(events.into_iter().map(recorded).collect())
    }
}

impl EventSession for Session<'_> {
    fn program(&self, payload_bytes: u32) -> Option<Command> {
        let mut command = Command::new(self.programs.get(&payload_bytes)?);
        self.pisted.environment(&mut command);
        Some(command)
    }

    fn recorded(&mut self, variant: &str) -> Result<Recorded, Error> {
        let found = match self.found.take() {
            Some(found) => found,
            None => self.look()?,
        };
        let mut channels = IN_MEMORY.iter().chain(&TO_DISK);
        let event = channels
            .find(|(channel, _, _)| *channel == variant)
            .map_or("", |(_, _, event)| *event);
        let recorded = found.get(event).copied().unwrap_or_default();
        self.found = Some(found);
        Ok(recorded)
    }
}

/// The channel of the session on disk that records an event.
fn channel_of(event: &str) -> Option<&'static str> {
    TO_DISK
        .iter()
        .find(|(_, _, of_channel)| *of_channel == event)
        .map(|(channel, _, _)| *channel)
}
