// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads that a trace leaves out: pisted's own. Each page that is written would cause events that fill the next one.

use std::fs;

use piste_kernel::instance::Instance;
use piste_kernel::proc;
use piste_kernel::spec::Tracked;
use piste_kernel::tracked::Hiding;
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

/// Unless somebody asked for processes by number: then it is not recorded, or is meant to be.
pub(super) fn is_own_hidden(tracked: &Tracked) -> bool {
    tracked.pids.is_empty()
}

/// Leaves out of an instance what pisted does.
pub(super) fn hide_own(instance: &Instance, tracked: &Tracked) {
    if let Some(hiding) = Hiding::of(instance)
        && is_own_hidden(tracked)
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
