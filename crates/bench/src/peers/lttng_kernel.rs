// SPDX-License-Identifier: MIT OR Apache-2.0
//! LTTng's kernel modules, if they are loaded: system calls, as a flight recorder, for a session daemon of their own.

use std::path::Path;

use tempfile::TempDir;

use super::{CallSession, CallTracer, Found, Peer, RING, Recorded, RowKind, is_root};
use crate::error::{Absence, Error};
use crate::pisted::events_in;
use crate::processes::find;
use crate::report::Group;
use crate::sessiond::{Domain, Sessiond};
use crate::workshop::Workshop;

pub(super) const PEER: Peer = Peer {
    name: "lttng-kernel",
    about: "LTTng's kernel modules",
    group: Group::Calls,
    rows: &[RowKind::recorded("lttng-call", "LTTng's modules, overwrite", "call").with_payloads()],
    find: |workshop| {
        Sessiond::is_installed()?;
        if !Path::new(TRACER).exists() || !MODULES.iter().all(|module| is_loaded(module)) {
            return Err(Absence::new(
                "the kernel modules of LTTng are not loaded",
                "install them (Debian: apt install lttng-modules-dkms), and restart LTTng's session daemon, which loads them (systemctl restart lttng-sessiond; this ends its sessions)",
            ));
        }
        is_root()?;
        if find("setpriv").is_none() {
            return Err(Absence::of_program("setpriv", "util-linux"));
        }
        Sessiond::can_run_apart(workshop)?;
        Ok(Found::Calls(Box::new(Lttng)))
    },
};

/// The file through which session daemons create kernel sessions.
const TRACER: &str = "/proc/lttng";
/// Session daemons need all of these to record the kernel.
const MODULES: [&str; 6] = [
    "lttng_ring_buffer_client_discard",
    "lttng_ring_buffer_client_overwrite",
    "lttng_ring_buffer_metadata_client",
    "lttng_ring_buffer_client_mmap_discard",
    "lttng_ring_buffer_client_mmap_overwrite",
    "lttng_ring_buffer_metadata_mmap_client",
];
const CHANNEL: &str = "calls";
/// What the names of entries and returns begin with.
const CALLS: &str = "syscall_";

fn is_loaded(module: &str) -> bool {
    Path::new("/sys/module").join(module).exists()
}

struct Lttng;

impl CallTracer for Lttng {
    fn attach<'w>(&self, workshop: &'w Workshop, pid: u32) -> Result<Box<dyn CallSession + 'w>, Error> {
        let folder = workshop.folder("lttng-kernel")?;
        let sessiond = Sessiond::start(workshop, folder.path().join("home"), Domain::Kernel)?;
        let lttng = |arguments: &[&str]| sessiond.lttng(arguments).map(drop);
        let output = format!("--output={}", sessiond.trace().display());
        lttng(&["create", "bench", "--snapshot", &output])?;
        lttng(&[&["enable-channel", "-k", "--overwrite", CHANNEL], &RING[..]].concat())?;
        lttng(&["enable-event", "-k", "-c", CHANNEL, "--syscall", "--all"])?;
        lttng(&["track", "-k", &format!("--pid={pid}")])?;
        lttng(&["start"])?;
        Ok(Box::new(Session {
            sessiond,
            _folder: folder,
            workshop,
        }))
    }
}

struct Session<'w> {
    sessiond: Sessiond,
    /// Removed after the daemon has ended.
    _folder: TempDir,
    workshop: &'w Workshop,
}

impl CallSession for Session<'_> {
    fn detach(self: Box<Self>) -> Result<Recorded, Error> {
        self.sessiond.lttng(&["snapshot", "record"])?;
        let events = events_in(self.workshop, &self.workshop.patience, &self.sessiond.trace())?;
        let calls = events.iter().filter(|(name, _)| name.starts_with(CALLS));
        Ok(Recorded::events(calls.map(|(_, count)| count).sum()))
    }
}
