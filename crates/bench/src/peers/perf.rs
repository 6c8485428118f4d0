// SPDX-License-Identifier: MIT OR Apache-2.0
//! perf record, of the entry and the return of each system call, as a flight recorder: perf reads its rings only at the end.

use std::fs;
use std::process::{Command, Stdio};

use piste_kernel::tracefs::Tracefs;
use tempfile::TempDir;

use super::attached::Attached;
use super::{CallSession, CallTracer, Found, Peer, RING_KIB, Recorded, RowKind};
use crate::error::{Absence, Error};
use crate::processes::{Patience, bound, find, output_of};
use crate::report::Group;
use crate::workshop::{READING_LIMIT, Workshop};

pub(super) const PEER: Peer = Peer {
    name: "perf",
    about: "perf record, as a flight recorder",
    group: Group::Calls,
    rows: &[RowKind::recorded("perf", "perf record, overwrite", "call").with_payloads()],
    find: |workshop| {
        is_installed()?;
        Ok(Found::Calls(Box::new(Perf {
            _tracefs: workshop.tracefs()?,
        })))
    },
};

const DATA: &str = "perf.data";

pub(super) fn is_installed() -> Result<(), Absence> {
    find("perf")
        .map(drop)
        .ok_or_else(|| Absence::of_program("perf", "linux-perf"))
}

struct Perf {
    /// perf looks up its events there, so it has to be mounted.
    _tracefs: Tracefs,
}

impl CallTracer for Perf {
    fn attach<'w>(&self, workshop: &'w Workshop, pid: u32) -> Result<Box<dyn CallSession + 'w>, Error> {
        let events = ["raw_syscalls:sys_enter", "raw_syscalls:sys_exit"];
        let recording = PerfRecording::start(workshop, &events, &["-p", &pid.to_string()])?;
        Ok(Box::new(recording))
    }
}

impl CallSession for PerfRecording {
    fn detach(self: Box<Self>) -> Result<Recorded, Error> {
        self.end()
    }
}

/// perf that records.
pub(super) struct PerfRecording {
    attached: Attached,
    folder: TempDir,
    patience: Patience,
}

impl PerfRecording {
    /// Records some events of what `scope` says, in the words of perf.
    pub(super) fn start(workshop: &Workshop, events: &[&str], scope: &[&str]) -> Result<PerfRecording, Error> {
        let folder = workshop.folder("perf")?;
        let ring = format!("{RING_KIB}K");
        let mut command = bound("perf");
        command.args(["record", "-q", "--overwrite", "-m", &ring]);
        for event in events {
            command.args(["-e", event]);
        }
        command
            .args(scope)
            .arg("-o")
            .arg(folder.path().join(DATA))
            .stdout(Stdio::null());
        let attached = Attached::start(workshop, &mut command, polls_rings)?;
        Ok(PerfRecording {
            attached,
            folder,
            patience: workshop.patience.of(READING_LIMIT),
        })
    }

    /// Ends it, and says how many events were in the rings.
    pub(super) fn end(self) -> Result<Recorded, Error> {
        self.attached.end()?;
        let mut command = Command::new("perf");
        command
            .args(["report", "--stats", "-i"])
            .arg(self.folder.path().join(DATA));
        Ok(Recorded::events(samples(&output_of(&mut command, &self.patience)?)))
    }
}

/// perf polls its rings once they record.
fn polls_rings(pid: u32) -> bool {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let mut links = files.filter_map(|file| fs::read_link(file.path()).ok());
    let sleeps_in = fs::read_to_string(format!("/proc/{pid}/wchan")).unwrap_or_default();
    links.any(|link| link.to_string_lossy().contains("perf_event")) && sleeps_in.contains("poll")
}

/// From the first line about samples, which is that of all events.
fn samples(stats: &str) -> u64 {
    let line = stats.lines().find_map(|line| line.split_once("SAMPLE events:"));
    let number = line.and_then(|(_, rest)| rest.split_whitespace().next()?.parse().ok());
    number.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_number_of_samples_is_found() {
        let stats = "\nAggregated stats:\n           TOTAL events:      20065\n          SAMPLE events:      20000  (99.7%)\n\nraw_syscalls:sys_enter stats:\n          SAMPLE events:      10000\n";
        assert_eq!(super::samples(stats), 20000);
        assert_eq!(super::samples(""), 0);
    }
}
