// SPDX-License-Identifier: MIT OR Apache-2.0
//! Returns from signal handlers. The call `rt_sigreturn` restores the registers of the interrupted code, which overwrites the number of the call,
//! so that its exit is recorded with the number -1. The thread's entry has the number.

use std::collections::HashMap;

/// Threads that are in a return from a signal handler, and the number of that call.
#[derive(Debug, Default)]
pub(super) struct Returns(HashMap<i32, u64>);

/// The number of an exit that has lost its own.
pub(super) const LOST_NUMBER: u64 = -1_i64 as u64;

/// Whether this is the name of such a call.
pub(super) fn is_return(call: &str) -> bool {
    matches!(call, "sigreturn" | "rt_sigreturn")
}

impl Returns {
    /// A thread enters the call with this number.
    #[cold]
    pub(super) fn begin(&mut self, tid: i32, number: u64) {
        self.0.insert(tid, number);
    }

    /// The number of the call that a thread leaves; `LOST_NUMBER` if its entry was not recorded.
    #[cold]
    pub(super) fn end(&mut self, tid: i32) -> u64 {
        self.0.remove(&tid).unwrap_or(LOST_NUMBER)
    }
}
