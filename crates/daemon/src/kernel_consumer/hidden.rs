// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads that a trace leaves out: pisted's own. Each page that is written would cause events that fill the next one.
//!
//! It holds for all events but those that tell of another thread as well, such as the switch to one.

use std::fs;
use std::path::PathBuf;

use piste_kernel::instance::Instance;
use piste_kernel::proc;
use piste_kernel::spec::Tracked;
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

/// Kernels since 5.7 have it.
const FILE: &str = "set_event_notrace_pid";

/// Where threads of one instance are hidden; can go to another thread.
#[derive(Debug, Clone)]
pub(super) struct Hiding(pub(super) PathBuf);

impl Hiding {
    pub(super) fn of(instance: &Instance) -> Option<Hiding> {
        instance.has(FILE).then(|| Hiding(instance.path(FILE)))
    }

    /// Leaves threads out of what the instance records, beside those that it leaves out already.
    pub(super) fn hide(&self, threads: &[i32]) {
        let list: Vec<String> = threads.iter().map(ToString::to_string).collect();
        let file = fs::OpenOptions::new().append(true).open(&self.0);
        // Without it the trace has more than it should, which people see.
        let _ = file.and_then(|mut file| std::io::Write::write_all(&mut file, list.join(" ").as_bytes()));
    }
}

/// Leaves out of an instance what pisted does, unless somebody asked for processes by number.
pub(super) fn hide_own(instance: &Instance, tracked: &Tracked) {
    if let Some(hiding) = Hiding::of(instance)
        && tracked.pids.is_empty()
    {
        hiding.hide(&own_threads());
    }
}

fn own_threads() -> Vec<i32> {
    own_processes().into_iter().flat_map(proc::threads_of).collect()
}

/// The processes that run this executable: control and consumers, those of other users too. Nothing here waits for a disk: other programs may be on
/// one that does not answer.
pub(super) fn own_processes() -> Vec<i32> {
    const OWN: &str = "/proc/self/exe";
    let (Ok(path), Some(identity)) = (fs::read_link(OWN), identity(OWN)) else {
        return vec![std::process::id() as i32];
    };
    let is_own = |pid: &i32| {
        let executable = format!("/proc/{pid}/exe");
        let has_name = fs::read_link(&executable).is_ok_and(|other| other.file_name() == path.file_name());
        has_name && self::identity(&executable) == Some(identity)
    };
    proc::processes().filter(is_own).collect()
}

/// What tells a file from others, as far as the kernel has it in memory.
fn identity(path: &str) -> Option<(u32, u32, u64)> {
    let found = statx(CWD, path, AtFlags::STATX_DONT_SYNC, StatxFlags::INO).ok()?;
    Some((found.stx_dev_major, found.stx_dev_minor, found.stx_ino))
}
