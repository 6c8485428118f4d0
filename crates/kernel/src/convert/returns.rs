// SPDX-License-Identifier: MIT OR Apache-2.0
//! Returns from signal handlers. Such a call restores the registers of what the signal interrupted, and with them the number of the call: its
//! exit is recorded with -1. It is the number of the thread's entry.

use std::collections::HashMap;

/// Threads that are in a return from a signal handler, and the number of that call.
#[derive(Debug, Default)]
pub(super) struct Returns(HashMap<i32, u64>);

/// The number of an exit that has lost its own.
pub(super) const LOST_NUMBER: u64 = -1_i64 as u64;

/// Whether the call with this name is one.
pub(super) fn is_return(call: &str) -> bool {
    matches!(call, "sigreturn" | "rt_sigreturn")
}

impl Returns {
    /// A thread begins to return.
    #[cold]
    pub(super) fn begin(&mut self, tid: i32, number: u64) {
        self.0.insert(tid, number);
    }

    /// The number of a thread's exit that has lost it.
    #[cold]
    pub(super) fn end(&mut self, tid: i32) -> u64 {
        self.0.remove(&tid).unwrap_or(LOST_NUMBER)
    }
}
