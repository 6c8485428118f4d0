// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stopping a program, whose event path looks at nothing but the window of its ring to know whether the session records.
//!
//! ```text
//! program (runtime/record.c)                       consumer (here)
//!
//! window: store                 <--ring.window-->  active_key: store 0
//! fence                         <--ring.active-->  fence
//! active_key: load; 0: window closed               windows of the touched rings: store closed
//! ```
//!
//! Either the program's load sees that recording is off, or our store comes after the program's, so no window stays open.

use piste_abi::PISTE_WINDOW_CLOSED;

use crate::atomic::{AtomicU32, Relaxed, Release, SeqCst, fence};
use crate::layout::Ring;

/// Turns recording off, then closes the windows of `rings`, which are looked for afterwards.
pub(crate) fn stop<'a>(active_key: &AtomicU32, rings: impl Iterator<Item = Ring<'a>>) {
    // ORDER ring.active (release): not needed for any memory: a program that was stopped is stopped where `end_current` ended its
    // sub-buffer.
    active_key.store(0, Release);
    // ORDER ring.active (sequentially consistent fence): before the windows are closed, and the rings are looked for.
    fence(SeqCst);
    for ring in rings {
        // ORDER ring.window (relaxed): a call that has begun may still end.
        ring.header.window.store(PISTE_WINDOW_CLOSED, Relaxed);
    }
}

/// The program's side: opens the window after a record was committed in it.
#[cfg(any(feature = "model", loom))]
pub(crate) fn open(active_key: &AtomicU32, ring: Ring<'_>, window: u64) {
    ring.header.window.store(window, Release);
    fence(SeqCst);
    if active_key.load(Relaxed) == 0 {
        ring.header.window.store(PISTE_WINDOW_CLOSED, Relaxed);
    }
}
