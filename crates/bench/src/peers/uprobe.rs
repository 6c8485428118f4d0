// SPDX-License-Identifier: MIT OR Apache-2.0
//! A probe at the beginning of a function, with its argument, recorded by a tracefs instance.

use std::path::PathBuf;
use std::process::Command;

use piste_kernel::probe::{ProbePlaceKind, places};
use piste_kernel::tracefs::Tracefs;

use super::{EventSession, EventTracer, Found, PAYLOAD_BYTES, Peer, Recorded, RowKind};
use crate::error::{Absence, Error};
use crate::instance::{Instance, Place};
use crate::report::Group;
use crate::workshop::{C_LIBRARY, Workshop};

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
    find: |workshop| Ok(Found::Events(Box::new(probed(workshop, "probed")?))),
};

/// A program of that name with a function to probe. Each has a file of its own, because a probe is in all processes of a file.
pub(super) fn probed(workshop: &Workshop, name: &'static str) -> Result<Probed, Absence> {
    let tracefs = workshop.tracefs()?;
    let flags = ["-fno-omit-frame-pointer".to_owned()];
    let program = workshop.compile(name, &["probed.c"], &flags, C_LIBRARY)?;
    let found = places(&program, ProbePlaceKind::Symbol, Some(FUNCTION)).unwrap_or_default();
    let [place] = &found[..] else {
        return Err(Absence::for_good(format!(
            "the compiled program has no function {FUNCTION}"
        )));
    };
    Ok(Probed {
        tracefs,
        program,
        name,
        offset: place.offset,
        arguments: ARGUMENT.into(),
    })
}

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

impl Probed {
    /// An instance with the probe, and the name of the probe. Nothing records it yet.
    pub(super) fn add_probe(&self) -> Result<(Instance, String), Error> {
        let mut instance = Instance::new(&self.tracefs)?;
        let place = Place {
            file: &self.program,
            offset: self.offset,
            arguments: &self.arguments,
        };
        let probe = instance.add_probe(self.name, &place)?;
        Ok((instance, probe))
    }
}

impl EventTracer for Probed {
    fn start<'w>(&self, _workshop: &'w Workshop) -> Result<Box<dyn EventSession + 'w>, Error> {
        let (instance, probe) = self.add_probe()?;
        instance.enable(&probe)?;
        Ok(Box::new(Session {
            program: self.program.clone(),
            instance,
        }))
    }
}

struct Session {
    program: PathBuf,
    instance: Instance,
}

impl EventSession for Session {
    fn program(&self, payload_bytes: u32) -> Option<Command> {
        (payload_bytes == PAYLOAD_BYTES).then(|| Command::new(&self.program))
    }

    fn recorded(&mut self, _variant: &str) -> Result<Recorded, Error> {
        Ok(Recorded::events(self.instance.recorded()))
    }
}
