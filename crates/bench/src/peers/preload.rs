// SPDX-License-Identifier: MIT OR Apache-2.0
//! Piste's preload helper, which records calls of the C library in programs that have no events: malloc and free.

use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use super::{EventSession, EventTracer, Found, PAYLOAD_BYTES, Peer, RING, Recorded, RowKind};
use crate::error::{Absence, Error};
use crate::pisted::{Pisted, events_in};
use crate::report::Group;
use crate::workshop::{C_LIBRARY, Workshop};

const HELPER: &str = "piste/libpiste-libc.so";
/// Two for each turn of the loop.
const EVENTS: [&str; 2] = ["lttng_ust_libc:malloc", "lttng_ust_libc:free"];

pub(super) const PEER: Peer = Peer {
    name: "preload",
    about: "Piste's preload helper: malloc and free",
    group: Group::Events,
    rows: &[
        RowKind::unrecorded("malloc", "malloc and free, not traced", "untraced"),
        RowKind::recorded("preload-malloc", "malloc and free, Piste's helper", "traced"),
    ],
    find: |workshop| {
        let helper = workshop.installed("lib").map(|folder| folder.join(HELPER));
        let Some(helper) = helper.filter(|helper| helper.is_file()) else {
            return Err(Absence::new(
                format!("there is no {HELPER} beside the program piste"),
                "install Piste with its preload helpers (Debian: apt install piste)",
            ));
        };
        Ok(Found::Events(Box::new(Preload {
            program: workshop.compile("allocations", &["allocations.c"], &[], C_LIBRARY)?,
            helper,
        })))
    },
};

struct Preload {
    program: PathBuf,
    helper: PathBuf,
}

impl EventTracer for Preload {
    fn start<'w>(&self, workshop: &'w Workshop) -> Result<Box<dyn EventSession + 'w>, Error> {
        let folder = workshop.folder("preload")?;
        let pisted = Pisted::start(workshop, folder.path())?;
        pisted.create("heap", &folder.path().join("heap"), true)?;
        let channel = ["enable-channel", "-u", "--no-default-contexts", "heap"];
        pisted.piste(&[&channel[..], &RING].concat())?;
        for event in EVENTS {
            pisted.piste(&["enable-event", "-u", "-c", "heap", event])?;
        }
        pisted.piste(&["start"])?;
        Ok(Box::new(Session {
            program: self.program.clone(),
            helper: self.helper.clone(),
            pisted,
            workshop,
            folder,
            found: None,
        }))
    }
}

struct Session<'w> {
    program: PathBuf,
    helper: PathBuf,
    pisted: Pisted,
    workshop: &'w Workshop,
    /// Removed after pisted has ended.
    folder: TempDir,
    /// Once somebody asked.
    found: Option<Recorded>,
}

impl EventSession for Session<'_> {
    fn program(&self, payload_bytes: u32) -> Option<Command> {
        let mut command = Command::new(&self.program);
        self.pisted.environment(command.env("LD_PRELOAD", &self.helper));
        (payload_bytes == PAYLOAD_BYTES).then_some(command)
    }

    fn recorded(&mut self, _variant: &str) -> Result<Recorded, Error> {
        if let Some(found) = self.found {
            return Ok(found);
        }
        let snapshot = self.folder.path().join("snapshot");
        self.pisted
            .piste(&["snapshot", "record", "-o", &snapshot.to_string_lossy()])?;
        let events = events_in(self.workshop, &self.workshop.patience, &snapshot)?;
        let found = Recorded::events(EVENTS.iter().filter_map(|event| events.get(*event)).sum());
        Ok(*self.found.insert(found))
    }
}
