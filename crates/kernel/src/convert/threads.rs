// SPDX-License-Identifier: MIT OR Apache-2.0
//! What records do not say of threads, and somebody has to know.

use std::fs;
use std::sync::{Arc, Mutex, PoisonError};

use crate::programs::Programs;

/// Tells of threads what their records do not.
pub trait Threads {
    /// The process that a thread belongs to; `None` when that cannot be known any more.
    fn process_of(&mut self, tid: i32) -> Option<i32>;

    /// Learns what happened until now; called when a page was taken out of its ring. True when a thread has run a 32-bit program, which calls
    /// the kernel by numbers of its own.
    fn catch_up(&mut self) -> bool;

    /// Whether a thread ran a 32-bit program at this time.
    fn is_compat(&mut self, tid: i32, ticks: u64) -> bool;
}

/// The threads of this machine: `/proc` knows those that are alive, and [`Programs`] what they ran when. Without the latter, all programs are
/// taken for 64-bit ones.
#[derive(Debug, Clone, Default)]
pub struct LivingThreads {
    /// What threads run, if that is watched.
    pub programs: Option<Arc<Mutex<Programs>>>,
}

impl Threads for LivingThreads {
    fn process_of(&mut self, tid: i32) -> Option<i32> {
        let status = fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
        line.trim().parse().ok()
    }

    fn catch_up(&mut self) -> bool {
        let programs = self.programs.as_ref();
        programs.is_some_and(|programs| programs.lock().unwrap_or_else(PoisonError::into_inner).catch_up())
    }

    fn is_compat(&mut self, tid: i32, ticks: u64) -> bool {
        let programs = self.programs.as_ref();
        programs.is_some_and(|programs| {
            let programs = programs.lock().unwrap_or_else(PoisonError::into_inner);
            programs.is_compat(tid, ticks)
        })
    }
}
