// SPDX-License-Identifier: MIT OR Apache-2.0
//! A probe at the beginning of a function, with its argument, recorded by a tracefs instance.

use std::path::PathBuf;
use std::process::Command;

use piste_kernel::probe::{ProbePlaceKind, places};
use piste_kernel::tracefs::Tracefs;

use super::{EventSession, EventTracer, Found, PAYLOAD_BYTES, Peer, Recorded, RowKind};
use crate::error::{Absence, Error};
use crate::instance::{Instance, Probe};
use crate::report::Group;
use crate::workshop::Workshop;

const FUNCTION: &str = "piste_bench_probed";
/// The first argument, which tracefs finds where the architecture has it.
pub(crate) const ARGUMENT: &str = if cfg!(target_arch = "x86_64") {
    "value=%di:s32"
} else {
    "value=%x0:s32"
};

pub(super) const PEER: Peer = Peer {
    name: "uprobe",
    about: "a probe at a function, through tracefs",
    group: Group::Events,
    rows: &[RowKind::recorded("uprobe", "uprobe, through tracefs", "probed")],
    find: |workshop| {
        let tracefs = workshop.tracefs()?;
        let program = workshop.compile("probed", &["probed.c"], &["-fno-omit-frame-pointer".into()])?;
        let found = places(&program, ProbePlaceKind::Symbol, Some(FUNCTION)).unwrap_or_default();
        let [place] = &found[..] else {
            return Err(Absence::for_good(format!(
                "the compiled program has no function {FUNCTION}"
            )));
        };
        Ok(Found::Events(Box::new(Probed {
            tracefs,
            program,
            name: "probed",
            offset: place.offset,
            arguments: ARGUMENT.into(),
        })))
    },
};

/// A program with a probe.
pub(super) struct Probed {
    pub(super) tracefs: Tracefs,
    pub(super) program: PathBuf,
    pub(super) name: &'static str,
    /// Where in the program's file.
    pub(super) offset: u64,
    /// What is recorded, in the words of tracefs.
    pub(super) arguments: String,
}

impl EventTracer for Probed {
    fn start<'w>(&self, _workshop: &'w Workshop) -> Result<Box<dyn EventSession + 'w>, Error> {
        let probe = Probe::new(&self.tracefs, self.name, &self.program, self.offset, &self.arguments)?;
        let instance = Instance::new(&self.tracefs, self.name)?;
        instance.enable(probe.name())?;
        Ok(Box::new(Session {
            program: self.program.clone(),
            instance,
            _probe: probe,
        }))
    }
}

/// The instance ends before the probe does, which it uses.
struct Session {
    program: PathBuf,
    instance: Instance,
    _probe: Probe,
}

impl EventSession for Session {
    fn program(&self, payload_bytes: u32) -> Option<Command> {
        (payload_bytes == PAYLOAD_BYTES).then(|| Command::new(&self.program))
    }

    fn recorded(&mut self, _variant: &str) -> Result<Recorded, Error> {
        Ok(Recorded::events(self.instance.recorded()))
    }
}
