// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the time of an event of Piste goes: rows of events that end after each of its steps, and the whole event as the last one (figure 10 of the
//! survey). Each is built from Piste's headers, with a jump behind its last step (include/piste/steps.h).
//!
//! Events that end early leave a ring in which the marks of records are wrong (`measured/step.h`). They have a session of their own, which nobody
//! reads and which ends with this pisted.

use std::fs;
use std::process::Command;

use tempfile::TempDir;

use super::{EventSession, EventTracer, Found, PAYLOAD_BYTES, Peer, RING, Recorded, RowKind};
use crate::error::{Absence, Error};
use crate::pisted::{Pisted, events_in, library_flags};
use crate::report::Group;
use crate::workshop::{Sized, Workshop};

/// What the kernel keeps time with. The fast path reads the time stamp counter, which it does only where the kernel does.
const CLOCK: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
/// The session of the whole event, and that of events that end early.
const WHOLE: (&str, &str) = ("whole", "bench:whole");
const UNFINISHED: (&str, &str) = ("unfinished", "bench:unfinished");
const SOURCES: [&str; 6] = [
    "steps.c",
    "step-callback.c",
    "step-lookup.c",
    "step-clock.c",
    "step-reserve.c",
    "step-write.c",
];
/// So that functions of the same length before their ends lie alike in cache lines.
const ALIGNED: &str = "-falign-functions=64";

pub(super) const PEER: Peer = Peer {
    name: "piste-steps",
    about: "where the time of Piste's event goes",
    group: Group::Steps,
    // A variant is the name of its last step.
    rows: &[
        RowKind::unrecorded("piste-callback", "Piste, up to the call", "callback"),
        RowKind::unrecorded("piste-lookup", "Piste, up to finding the ring", "lookup"),
        RowKind::unrecorded("piste-clock", "Piste, up to the clock", "clock"),
        RowKind::unrecorded("piste-reserve", "Piste, up to reserving space", "reserve"),
        RowKind::unrecorded("piste-write", "Piste, up to writing the record", "write"),
        RowKind::recorded("piste-commit", "Piste, up to the commit: whole event", "commit"),
    ],
    find: |workshop| {
        let is_tsc = fs::read_to_string(CLOCK).is_ok_and(|clock| clock.trim() == "tsc");
        if !(is_tsc && cfg!(target_arch = "x86_64")) {
            return Err(Absence::for_good(
                "the kernel does not keep time with the TSC of x86-64, so events take the general path, and the steps are those of the fast path",
            ));
        }
        let mut flags = library_flags(workshop)?;
        flags.push(ALIGNED.into());
        let program = workshop.compile("steps", &SOURCES, &flags, "libpiste-dev")?;
        Ok(Found::Events(Box::new(Steps {
            programs: [(PAYLOAD_BYTES, program)].into(),
        })))
    },
};

struct Steps {
    programs: Sized,
}

impl EventTracer for Steps {
    fn start<'w>(&self, workshop: &'w Workshop) -> Result<Box<dyn EventSession + 'w>, Error> {
        let folder = workshop.folder("steps")?;
        let pisted = Pisted::start(workshop, folder.path())?;
        for (session, event) in [WHOLE, UNFINISHED] {
            pisted.create(session, &folder.path().join(session), true)?;
            let channel = ["enable-channel", "-s", session, "-u", "steps"];
            let options = ["--overwrite", "--no-default-contexts"];
            pisted.piste(&[&channel[..], &options, &RING].concat())?;
            pisted.piste(&["enable-event", "-s", session, "-u", "-c", "steps", event])?;
            pisted.piste(&["start", session])?;
        }
        Ok(Box::new(Session {
            programs: self.programs.clone(),
            pisted,
            workshop,
            folder,
            found: None,
        }))
    }
}

struct Session<'w> {
    programs: Sized,
    pisted: Pisted,
    workshop: &'w Workshop,
    /// Removed after pisted has ended.
    folder: TempDir,
    /// Of the whole event, once somebody asked.
    found: Option<Recorded>,
}

impl EventSession for Session<'_> {
    fn program(&self, payload_bytes: u32) -> Option<Command> {
        let mut command = Command::new(self.programs.get(&payload_bytes)?);
        self.pisted.environment(&mut command);
        Some(command)
    }

    /// Called only for the whole event, the only row that is recorded.
    fn recorded(&mut self, _variant: &str) -> Result<Recorded, Error> {
        if let Some(found) = self.found {
            return Ok(found);
        }
        let (session, event) = WHOLE;
        let snapshot = self.folder.path().join("snapshot");
        self.pisted
            .piste(&["snapshot", "record", "-s", session, "-o", &snapshot.to_string_lossy()])?;
        let events = events_in(self.workshop, &self.workshop.patience, &snapshot)?;
        let found = Recorded::events(events.get(event).copied().unwrap_or(0));
        self.found = Some(found);
        Ok(found)
    }
}
