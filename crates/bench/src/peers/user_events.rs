// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's user events: a program tests a bit that the kernel sets while somebody records the event, and then writes it. A tracefs instance
//! records one; nobody records the other.

use std::path::PathBuf;
use std::process::Command;

use piste_kernel::tracefs::Tracefs;

use super::{EventSession, EventTracer, Found, PAYLOAD_BYTES, Peer, Recorded, RowKind};
use crate::error::{Absence, Error};
use crate::instance::Instance;
use crate::report::Group;
use crate::workshop::{C_LIBRARY, Workshop};

pub(super) const PEER: Peer = Peer {
    name: "user_events",
    about: "the kernel's user events, through tracefs",
    group: Group::Events,
    rows: &[
        RowKind::unrecorded("user-events-disabled", "user_events, event off", "disabled"),
        RowKind::recorded("user-events", "user_events, through tracefs", "recorded"),
    ],
    find: |workshop| {
        let tracefs = workshop.tracefs()?;
        if !tracefs.has(DATA) {
            return Err(Absence::new(
                "this kernel has no user_events",
                "use Linux 6.4 or later, configured with CONFIG_USER_EVENTS=y",
            ));
        }
        Ok(Found::Events(Box::new(UserEvents {
            program: workshop.compile("user_events", &["user_events.c"], &[], C_LIBRARY)?,
            tracefs,
        })))
    },
};

/// Where programs register and write events.
const DATA: &str = "user_events_data";
/// Of both events.
const FIELDS: &str = "s32 value";

struct UserEvents {
    tracefs: Tracefs,
    program: PathBuf,
}

impl EventTracer for UserEvents {
    fn start<'w>(&self, _workshop: &'w Workshop) -> Result<Box<dyn EventSession + 'w>, Error> {
        let mut instance = Instance::new(&self.tracefs)?;
        let recorded = instance.add_user_event("recorded", FIELDS)?;
        let disabled = instance.add_user_event("disabled", FIELDS)?;
        instance.enable(&recorded)?;
        Ok(Box::new(Session {
            program: self.program.clone(),
            data: self.tracefs.path(DATA),
            recorded: definition(&recorded),
            disabled: definition(&disabled),
            instance,
        }))
    }
}

/// As a program registers an event, `GROUP/NAME`: all are in the same group.
fn definition(event: &str) -> String {
    let name = event.rsplit('/').next().unwrap_or(event);
    format!("{name} {FIELDS}")
}

struct Session {
    program: PathBuf,
    data: PathBuf,
    /// Definitions of the events.
    recorded: String,
    disabled: String,
    instance: Instance,
}

impl EventSession for Session {
    fn program(&self, payload_bytes: u32) -> Option<Command> {
        let mut command = Command::new(&self.program);
        command
            .env("PISTE_BENCH_USER_EVENTS", &self.data)
            .env("PISTE_BENCH_RECORDED", &self.recorded)
            .env("PISTE_BENCH_DISABLED", &self.disabled);
        (payload_bytes == PAYLOAD_BYTES).then_some(command)
    }

    fn recorded(&mut self, _variant: &str) -> Result<Recorded, Error> {
        Ok(Recorded::events(self.instance.recorded()))
    }
}
