// SPDX-License-Identifier: MIT OR Apache-2.0
//! The threads of the machine, and the CPUs on which they may run.

use std::fs;
use std::io;

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// A thread of the kernel, among a thread's flags.
const PF_KTHREAD: u64 = 0x0020_0000;

/// A thread that may run on some CPUs.
#[derive(Debug)]
pub(super) struct Thread {
    pub(super) number: i32,
    /// Since the machine started, in the kernel's ticks.
    pub(super) started: u64,
    pub(super) is_of_kernel: bool,
    pub(super) allowed: Vec<u32>,
}

/// All threads whose CPUs may be chosen.
pub(super) fn all() -> Vec<Thread> {
    let numbers = |folder: &str| -> Vec<i32> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .collect()
    };
    let of_process = |process: i32| numbers(&format!("/proc/{process}/task")).into_iter();
    let threads = numbers("/proc").into_iter().flat_map(of_process);
    threads.filter_map(thread).collect()
}

fn thread(number: i32) -> Option<Thread> {
    let (started, flags) = of_stat(&fs::read_to_string(format!("/proc/{number}/stat")).ok()?)?;
    let set = sched_getaffinity(Pid::from_raw(number)).ok()?;
    let allowed = (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu));
    Some(Thread {
        number,
        started,
        is_of_kernel: flags & PF_KTHREAD != 0,
        allowed: allowed.map(|cpu| cpu as u32).collect(),
    })
}

/// When a thread started; `None` if there is none.
pub(super) fn started(number: i32) -> Option<u64> {
    Some(of_stat(&fs::read_to_string(format!("/proc/{number}/stat")).ok()?)?.0)
}

/// Whether a thread is the kernel's.
pub(super) fn is_of_kernel(number: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{number}/stat")).ok();
    stat.and_then(|stat| of_stat(&stat))
        .is_some_and(|(_, flags)| flags & PF_KTHREAD != 0)
}

/// Fields 22 and 9 of a thread's stat file: when it started, and its flags.
fn of_stat(stat: &str) -> Option<(u64, u64)> {
    // The name, which is before, may contain anything.
    let (_, rest) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    Some((fields.get(19)?.parse().ok()?, fields.get(6)?.parse().ok()?))
}

/// Lets a thread run on these CPUs only.
pub(super) fn allow(number: i32, cpus: &[u32]) -> io::Result<()> {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|cpu| set.set(*cpu as usize));
    Ok(sched_setaffinity(Pid::from_raw(number), &set)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_file_has_the_start_and_the_flags() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 9 0 0 0 1 2 3 4 20 0 1 0 1234 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 17 3 0 0 0";
        assert_eq!(of_stat(stat), Some((1234, 4_194_560)));
        let own = rustix::thread::gettid().as_raw_nonzero().get();
        assert!(started(own).is_some_and(|ticks| ticks > 0));
        assert!(!is_of_kernel(own));
        assert!(
            all()
                .iter()
                .any(|thread| thread.number == own && !thread.allowed.is_empty())
        );
    }
}
