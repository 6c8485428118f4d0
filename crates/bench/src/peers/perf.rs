// SPDX-License-Identifier: MIT OR Apache-2.0
//! perf record, of the entry and the return of each system call, as a flight recorder: perf reads its rings only at the end.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use piste_kernel::tracefs::Tracefs;

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
    rows: &[RowKind::recorded("perf", "perf record, overwrite", "call")],
    find: |workshop| {
        if find("perf").is_none() {
            return Err(Absence::of_program("perf", "linux-perf"));
        }
        Ok(Found::Calls(Box::new(Perf {
            _tracefs: workshop.tracefs()?,
        })))
    },
};

struct Perf {
    /// perf looks up its events there, so it has to be mounted.
    _tracefs: Tracefs,
}

impl CallTracer for Perf {
    fn attach<'w>(&self, workshop: &'w Workshop, pid: u32) -> Result<Box<dyn CallSession + 'w>, Error> {
        let data = workshop.path("perf.data");
        let ring = format!("{RING_KIB}K");
        let mut command = bound("perf");
        command.args([
            "record",
            "-q",
            "--overwrite",
            "-m",
            &ring,
            "-e",
            "raw_syscalls:sys_enter",
            "-e",
            "raw_syscalls:sys_exit",
            "-p",
        ]);
        command.arg(pid.to_string()).arg("-o").arg(&data).stdout(Stdio::null());
        let attached = Attached::start(workshop, &mut command, polls_rings)?;
        let patience = workshop.patience.of(READING_LIMIT);
        Ok(Box::new(Session {
            attached,
            data,
            patience,
        }))
    }
}

/// perf polls its rings once they record.
fn polls_rings(pid: u32) -> bool {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let mut links = files.filter_map(|file| fs::read_link(file.path()).ok());
    let sleeps_in = fs::read_to_string(format!("/proc/{pid}/wchan")).unwrap_or_default();
    links.any(|link| link.to_string_lossy().contains("perf_event")) && sleeps_in.contains("poll")
}

struct Session {
    attached: Attached,
    data: PathBuf,
    patience: Patience,
}

impl CallSession for Session {
    fn detach(self: Box<Self>) -> Result<Recorded, Error> {
        self.attached.end()?;
        let mut command = Command::new("perf");
        command.args(["report", "--stats", "-i"]).arg(&self.data);
        let stats = output_of(&mut command, &self.patience)?;
        let _ = fs::remove_file(&self.data);
        Ok(Recorded::events(samples(&stats)))
    }
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
