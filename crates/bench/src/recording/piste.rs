// SPDX-License-Identifier: MIT OR Apache-2.0
//! Piste, with a pisted of its own.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Kept, KernelEvents, Recorders, Session, SettingUp, Setup, Tracer};
use crate::error::{Absence, Error};
use crate::pisted::{Pisted, discarded_by, events_in, library_flags};
use crate::processes::Patience;
use crate::workshop::Workshop;

const SESSION: &str = "turns";
const CHANNEL: &str = "turns";
const KERNEL_CHANNEL: &str = "kernel";

pub(super) fn library(recorders: &Recorders) -> Result<PathBuf, Absence> {
    let flags = library_flags(&recorders.workshop)?;
    recorders.compile(Tracer::Piste, "turn-piste.c", &flags, "libpiste-dev")
}

pub(super) struct Piste {
    event: &'static str,
}

impl Piste {
    pub(super) fn new(recorders: &Recorders) -> Piste {
        Piste {
            event: recorders.event(),
        }
    }
}

impl SettingUp for Piste {
    fn lacks(&self, setup: &Setup) -> Option<Absence> {
        Tracer::Piste.lacks(setup.reader).map(Absence::for_good)
    }

    fn start<'w>(&self, workshop: &'w Workshop, folder: &Path, setup: &Setup) -> Result<Box<dyn Session + 'w>, Error> {
        let pisted = Pisted::start(workshop, folder)?;
        let trace = folder.join("trace");
        pisted.create(SESSION, &trace, false)?;
        let piste = |arguments: &[&str]| pisted.piste(arguments).map(drop);
        let subbuf_size = format!("--subbuf-size={}", setup.rings.subbuf_bytes);
        let num_subbuf = format!("--num-subbuf={}", setup.rings.subbuf_count);
        piste(&[
            "enable-channel",
            "-s",
            SESSION,
            "-u",
            CHANNEL,
            "--discard",
            "--no-default-contexts",
            &subbuf_size,
            &num_subbuf,
        ])?;
        piste(&["enable-event", "-s", SESSION, "-u", "-c", CHANNEL, self.event])?;
        let of_kernel: &[&str] = match setup.kernel {
            KernelEvents::None => &[],
            KernelEvents::Syscalls => &["--syscall", "*"],
            KernelEvents::All => &["--all"],
        };
        if !of_kernel.is_empty() {
            piste(&["enable-channel", "-s", SESSION, "-k", KERNEL_CHANNEL])?;
            let rule = ["enable-event", "-s", SESSION, "-k", "-c", KERNEL_CHANNEL];
            piste(&[&rule[..], of_kernel].concat())?;
        }
        piste(&["start", SESSION])?;
        Ok(Box::new(Recording {
            pisted,
            workshop,
            trace,
            event: self.event,
        }))
    }
}

struct Recording<'w> {
    pisted: Pisted,
    workshop: &'w Workshop,
    trace: PathBuf,
    event: &'static str,
}

impl Session for Recording<'_> {
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        self.pisted.environment(&mut command);
        command
    }

    fn stop(&mut self, counts_events: bool) -> Result<Kept, Error> {
        self.pisted.ignore_ctrl_c();
        self.pisted.piste(&["stop", SESSION])?;
        let status = self.pisted.json(&["status", SESSION])?;
        let events = match counts_events {
            true => Some(events_in(self.workshop, &Patience::for_the_end(), &self.trace)?),
            false => None,
        };
        Ok(Kept {
            recorded: events.map(|events| events.get(self.event).copied().unwrap_or(0)),
            lost: discarded_by(&status, CHANNEL),
            kernel_lost: discarded_by(&status, KERNEL_CHANNEL),
        })
    }

    fn trace(&self) -> Option<PathBuf> {
        Some(self.trace.clone())
    }
}
