// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes, and what the kernel says of the one that a program is. control/process_facts.rs reads it.

use serde::{Deserialize, Serialize};

/// A process, and when it started, in ticks of /proc/PID/stat: tells it from a later one with the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[allow(missing_docs, reason = "said above")]
pub struct Process {
    pub pid: i32,
    pub start: u64,
}

/// Ancestors that are known of a program, from its parent on.
pub const ANCESTOR_COUNT_MAX: usize = 64;

/// What the kernel says of a program's process when it registers. Nothing here comes from the program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessFacts {
    /// When it started, as in [`Process`].
    pub start: u64,
    /// Its user, of the socket.
    pub uid: u32,
    /// Its group, likewise.
    pub gid: u32,
    /// The path of its executable; empty if pisted may not see it.
    pub executable: String,
    /// Its control groups, as paths from the root of their hierarchies: one, or several where the hierarchies of version 1 differ.
    pub control_groups: Vec<String>,
    /// The processes that it descends from, its parent first.
    pub ancestors: Vec<Process>,
}
