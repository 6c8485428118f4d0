// SPDX-License-Identifier: MIT OR Apache-2.0
//! sysdig, with its kernel module, if that is loaded. It reads its rings all the time and writes the calls to a file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use super::attached::Attached;
use super::{CallSession, CallTracer, Found, Peer, Recorded, RowKind, is_root};
use crate::error::{Absence, Error};
use crate::processes::{Patience, bound, find, output_of};
use crate::report::Group;
use crate::workshop::{READING_LIMIT, Workshop};

pub(super) const PEER: Peer = Peer {
    name: "sysdig",
    about: "sysdig with its kernel module, to a file",
    group: Group::Calls,
    rows: &[RowKind::recorded("sysdig", "sysdig, to a file", "call").with_payloads()],
    find: |_| {
        if find("sysdig").is_none() {
            return Err(Absence::of_program("sysdig", "sysdig"));
        }
        // Without it, sysdig would load the module.
        if !Path::new(RING).exists() {
            return Err(Absence::new(
                "the kernel module of sysdig is not loaded",
                "install it (Debian: apt install falcosecurity-scap-dkms), and load it (modprobe scap)",
            ));
        }
        is_root()?;
        Ok(Found::Calls(Box::new(Sysdig)))
    },
};

/// The ring of the first CPU.
const RING: &str = "/dev/scap0";
/// It looks into its rings every 30 ms if they were empty, and what it has not read when it ends is not in the file.
const READS_WITHIN: Duration = Duration::from_millis(300);

/// The calls of the measured program.
const CALLS: [&str; 2] = ["getppid", "openat"];

struct Sysdig;

impl CallTracer for Sysdig {
    fn attach<'w>(&self, workshop: &'w Workshop, pid: u32) -> Result<Box<dyn CallSession + 'w>, Error> {
        let file = workshop.path("sysdig.scap");
        let mut command = bound("sysdig");
        command
            .arg("-w")
            .arg(&file)
            .arg(format!("proc.pid={pid}"))
            .stdout(Stdio::null());
        // It makes the file once its rings record.
        let attached = Attached::start(workshop, &mut command, |_| file.exists())?;
        Ok(Box::new(Session {
            attached,
            file,
            patience: workshop.patience.of(READING_LIMIT),
        }))
    }
}

struct Session {
    attached: Attached,
    file: PathBuf,
    patience: Patience,
}

impl CallSession for Session {
    fn detach(self: Box<Self>) -> Result<Recorded, Error> {
        thread::sleep(READS_WITHIN);
        self.attached.end()?;
        let mut command = Command::new("sysdig");
        command.arg("-r").arg(&self.file).args(["-p", "%evt.type"]);
        let events = output_of(&mut command, &self.patience)?;
        let _ = fs::remove_file(&self.file);
        let calls = events.lines().filter(|name| CALLS.contains(&name.trim()));
        Ok(Recorded::events(calls.count() as u64))
    }
}
