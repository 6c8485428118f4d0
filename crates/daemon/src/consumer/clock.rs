// SPDX-License-Identifier: MIT OR Apache-2.0
//! The clock of the records, read by the consumer: a record cannot be from the future.
//!
//! A program writes the time of its records. One that lies ahead would at best confuse people and at worst overflow in the
//! reader that makes a date of it.

use piste_ring::ClockSource;
use rustix::time::{ClockId, clock_gettime};

/// Counters of two CPUs may differ a little, and a counter is read ahead of what precedes it.
const TOLERANCE_TICKS: u64 = 1 << 25;

/// Now, in ticks.
pub(crate) fn now_ticks(clock: ClockSource) -> u64 {
    match clock {
        ClockSource::Monotonic => {
            let now = clock_gettime(ClockId::Monotonic);
            now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
        }
        ClockSource::Tsc => tsc_ticks(),
    }
}

/// The latest time that a record can have which is there already.
pub(super) fn limit_ticks(clock: ClockSource) -> u64 {
    now_ticks(clock).saturating_add(TOLERANCE_TICKS)
}

#[cfg(target_arch = "x86_64")]
fn tsc_ticks() -> u64 {
    tick_counter::x86_64_tick_counter()
}

/// Nobody records with this clock here.
#[cfg(not(target_arch = "x86_64"))]
fn tsc_ticks() -> u64 {
    u64::MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn present_is_possible_and_the_future_is_not() {
        for clock in [ClockSource::Monotonic, ClockSource::Tsc] {
            let before = now_ticks(clock);
            let limit = limit_ticks(clock);
            assert!(before > 0 && before <= limit && limit < before.saturating_mul(2).saturating_add(1 << 30));
        }
    }
}
