// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long the consumer may sleep between two looks at the rings.
//!
//! A ring must be emptied before it is full, and a look costs a wake-up. The pace knows the smallest ring and how full the
//! fullest one was at the last looks, and nothing else: no clock, no rings. The loop (mod.rs) asks it for an interval and
//! reports what it found.

use std::time::Duration;

/// Bytes per second that one ring may receive before the consumer has seen anything of it: a program that writes small
/// events (16 bytes, each 30 ns) without a pause. With more, or several such programs, the fill tells.
const BURST_BYTES_PER_SECOND: u64 = 512 << 20;

/// While rings are nearly empty: small rings are looked at this often, and large ones this rarely.
const IDLE: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(5));

/// While rings are found nearly full.
const SHORTEST: Duration = Duration::from_micros(200);

/// The interval between looks.
#[derive(Debug)]
pub(super) struct Pace {
    ceiling: Duration,
    interval: Duration,
}

impl Pace {
    /// The pace for rings of which the smallest has `smallest_ring_bytes`.
    pub(super) fn new(smallest_ring_bytes: u64) -> Self {
        let ceiling = ceiling(smallest_ring_bytes);
        Self {
            ceiling,
            interval: ceiling,
        }
    }

    /// Takes note of a new ring; smaller ones shorten the interval for all.
    pub(super) fn admit(&mut self, ring_bytes: u64) {
        self.ceiling = self.ceiling.min(ceiling(ring_bytes));
        self.interval = self.interval.min(self.ceiling);
    }

    /// Takes note of how much of the fullest ring was complete sub-buffers: over a third, the next look comes in half the time;
    /// under a sixth, it comes a quarter later. The gap between the two keeps a steady load at a steady interval. An open
    /// sub-buffer does not count: it stays when the program rests.
    pub(super) fn observe(&mut self, fill_bytes: u64, ring_bytes: u64) {
        if fill_bytes > ring_bytes / 3 {
            self.interval = (self.interval / 2).max(SHORTEST);
        } else if fill_bytes < ring_bytes / 6 {
            self.interval = (self.interval * 5 / 4).min(self.ceiling);
        }
    }

    pub(super) fn interval(&self) -> Duration {
        self.interval
    }
}

/// Half the time in which a burst fills the ring: one look may come late by as much without loss.
fn ceiling(ring_bytes: u64) -> Duration {
    let nanoseconds = u128::from(ring_bytes) * 500_000_000 / u128::from(BURST_BYTES_PER_SECOND);
    Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX)).clamp(IDLE.0, IDLE.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Most bytes that a ring of four sub-buffers has at a look, while a program fills it at `bytes_per_second`.
    fn fullest_after(pace: &mut Pace, ring_bytes: u64, bytes_per_second: u64, looks: u32) -> u64 {
        let subbuf_bytes = ring_bytes / 4;
        let (mut open, mut fullest) = (0, 0);
        for _ in 0..looks {
            let written = (pace.interval().as_nanos() * u128::from(bytes_per_second) / 1_000_000_000) as u64;
            let fill = open + written;
            fullest = fullest.max(fill);
            open = fill % subbuf_bytes;
            pace.observe((fill - open).min(ring_bytes), ring_bytes);
        }
        fullest
    }

    #[test]
    fn ring_of_1_mib_filled_at_400_mb_per_second_never_gets_full() {
        let mut pace = Pace::new(MIB);
        assert!(fullest_after(&mut pace, MIB, 400_000_000, 1000) < MIB * 2 / 3);
    }

    #[test]
    fn ring_of_1_mib_filled_at_700_mb_per_second_is_emptied_in_time_once_that_is_seen() {
        let mut pace = Pace::new(MIB);
        fullest_after(&mut pace, MIB, 700_000_000, 10);
        assert!(fullest_after(&mut pace, MIB, 700_000_000, 1000) < MIB * 2 / 3);
    }

    #[test]
    fn idle_rings_are_looked_at_rarely() {
        let mut pace = Pace::new(MIB);
        pace.observe(MIB, MIB);
        assert!(pace.interval() < ceiling(MIB));
        fullest_after(&mut pace, MIB, 1000, 20);
        assert_eq!(pace.interval(), ceiling(MIB));
    }

    #[test]
    fn smallest_ring_and_fullest_ring_set_the_pace() {
        assert_eq!(Pace::new(16 << 10).interval(), IDLE.0);
        let mut pace = Pace::new(64 * MIB);
        assert_eq!(pace.interval(), IDLE.1);
        pace.admit(16 << 10);
        assert_eq!(pace.interval(), IDLE.0);
        for _ in 0..10 {
            pace.observe(64 * MIB, 64 * MIB);
        }
        assert_eq!(pace.interval(), SHORTEST);
    }
}
