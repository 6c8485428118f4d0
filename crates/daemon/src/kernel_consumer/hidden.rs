// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads that a trace leaves out: pisted's own. Each page that is written would cause events that fill the next one.
//!
//! It holds for all events but those that tell of another thread as well, such as the switch to one.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;

use piste_kernel::instance::Instance;
use piste_kernel::proc;
use piste_kernel::spec::Tracked;
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

/// Kernels since 5.7 have it.
const FILE: &str = "set_event_notrace_pid";

/// The largest number that a thread can have on any machine.
const THREAD_MAX: i32 = 4 << 20;

/// Where threads of one instance are hidden; can go to another thread.
#[derive(Debug, Clone)]
pub(super) struct Hiding(pub(super) PathBuf);

impl Hiding {
    pub(super) fn of(instance: &Instance) -> Option<Hiding> {
        instance.has(FILE).then(|| Hiding(instance.path(FILE)))
    }

    /// Leaves threads out of what the instance records, beside those that it leaves out already. The kernel changes a list that has threads only
    /// after some grace periods, a twentieth of a second or more, so nothing is written that it says already.
    pub(super) fn hide(&self, threads: &[i32]) {
        let hidden = self.hidden();
        let is_new = |thread: &&i32| !hidden.contains(thread) && !has_ended(**thread);
        let new: Vec<i32> = threads.iter().filter(is_new).copied().collect();
        if new.is_empty() {
            return;
        }
        self.write(&new, OpenOptions::new().append(true));
        // The kernel takes a thread out of the list when it ends, unless that is while the list is changed.
        let hidden = self.hidden();
        if hidden.iter().any(|&thread| has_ended(thread)) {
            let alive: Vec<i32> = hidden.into_iter().filter(|&thread| !has_ended(thread)).collect();
            self.write(&alive, OpenOptions::new().write(true).truncate(true));
        }
    }

    fn hidden(&self) -> BTreeSet<i32> {
        let text = fs::read_to_string(&self.0).unwrap_or_default();
        text.lines().filter_map(|line| line.trim().parse().ok()).collect()
    }

    fn write(&self, threads: &[i32], how: &OpenOptions) {
        let list: Vec<String> = threads.iter().map(ToString::to_string).collect();
        // Without it the trace has more than it should, which people see.
        let _ = how
            .open(&self.0)
            .and_then(|mut file| file.write_all(list.join(" ").as_bytes()));
    }
}

/// Numbers that no thread can have are in the list for piste-kernel, as stamps of who is recorded.
fn has_ended(thread: i32) -> bool {
    thread <= THREAD_MAX && proc::is_over(thread)
}

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
