// SPDX-License-Identifier: MIT OR Apache-2.0
//! The clock of a simulation, which the consumer's clock.rs reads: one for each thread, so that other tests keep the system's.

use std::cell::Cell;

thread_local! {
    static TICKS: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Now, in nanoseconds; `None` outside a simulation.
pub(crate) fn ticks() -> Option<u64> {
    TICKS.get()
}

/// Sets the clock of this thread; `None` gives back the system's.
pub(super) fn set(ticks: Option<u64>) {
    TICKS.set(ticks);
}
