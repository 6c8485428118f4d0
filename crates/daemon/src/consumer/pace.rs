// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long the consumer may sleep between two looks at the rings.
//!
//! A ring must be emptied before it is full, and a look costs a wake-up. The pace knows the smallest ring and how full the
//! fullest one was at the last looks, and nothing else: no clock, no rings. The loop (service.rs) asks it for an interval and
//! reports what it found.

use std::time::Duration;

/// What rings of a kind may have to take before the consumer has seen anything of it, and how rarely they are looked at when nothing
/// is in them. With more than that, the fill tells.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Demand {
    /// Into one ring.
    pub(crate) burst_bytes_per_second: u64,
    /// While rings are nearly empty: small rings are looked at this often.
    pub(crate) idle_shortest: Duration,
    /// While rings are nearly empty: large rings are looked at this rarely.
    pub(crate) idle_longest: Duration,
}

/// A program that writes small events (16 bytes, each 30 ns) without a pause.
pub(crate) const PROGRAMS: Demand = Demand {
    burst_bytes_per_second: 512 << 20,
    idle_shortest: Duration::from_millis(1),
    idle_longest: Duration::from_millis(5),
};

/// A CPU that records the shortest system calls (50 bytes, each 100 ns) without a pause.
pub(crate) const KERNEL: Demand = Demand {
    burst_bytes_per_second: 512 << 20,
    idle_shortest: Duration::from_millis(1),
    idle_longest: Duration::from_millis(100),
};

/// While rings are found nearly full.
const SHORTEST: Duration = Duration::from_micros(200);

/// The interval between looks.
#[derive(Debug)]
pub(crate) struct Pace {
    demand: Demand,
    ceiling: Duration,
    interval: Duration,
}

impl Pace {
    /// The pace for rings of which the smallest has `smallest_ring_bytes`.
    pub(crate) fn new(demand: Demand, smallest_ring_bytes: u64) -> Self {
        let ceiling = demand.ceiling(smallest_ring_bytes);
        Self {
            demand,
            ceiling,
            interval: ceiling,
        }
    }

    /// Takes note of a new ring; smaller ones shorten the interval for all.
    pub(crate) fn admit(&mut self, ring_bytes: u64) {
        self.ceiling = self.ceiling.min(self.demand.ceiling(ring_bytes));
        self.interval = self.interval.min(self.ceiling);
    }

    /// Takes note of how much of the fullest ring was complete sub-buffers: over a third, the next look comes in half the time;
    /// under a sixth, it comes a quarter later. The gap between the two keeps a steady load at a steady interval. An open
    /// sub-buffer does not count: it stays when the program rests.
    pub(crate) fn observe(&mut self, fill_bytes: u64, ring_bytes: u64) {
        if fill_bytes > ring_bytes / 3 {
            self.interval = (self.interval / 2).max(SHORTEST);
        } else if fill_bytes < ring_bytes / 6 {
            self.interval = (self.interval * 5 / 4).min(self.ceiling);
        }
    }

    /// The interval while nothing is in the rings.
    pub(crate) fn ceiling(&self) -> Duration {
        self.ceiling
    }

    pub(crate) fn interval(&self) -> Duration {
        self.interval
    }
}

impl Demand {
    /// Half the time in which a burst fills the ring: one look may come late by as much without loss.
    fn ceiling(&self, ring_bytes: u64) -> Duration {
        let nanoseconds = u128::from(ring_bytes) * 500_000_000 / u128::from(self.burst_bytes_per_second);
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
            .clamp(self.idle_shortest, self.idle_longest)
    }
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
        let mut pace = Pace::new(PROGRAMS, MIB);
        assert!(fullest_after(&mut pace, MIB, 400_000_000, 1000) < MIB * 2 / 3);
    }

    #[test]
    fn ring_of_1_mib_filled_at_700_mb_per_second_is_emptied_in_time_once_that_is_seen() {
        let mut pace = Pace::new(PROGRAMS, MIB);
        fullest_after(&mut pace, MIB, 700_000_000, 10);
        assert!(fullest_after(&mut pace, MIB, 700_000_000, 1000) < MIB * 2 / 3);
    }

    #[test]
    fn idle_rings_are_looked_at_rarely() {
        let mut pace = Pace::new(PROGRAMS, MIB);
        pace.observe(MIB, MIB);
        assert!(pace.interval() < PROGRAMS.ceiling(MIB));
        fullest_after(&mut pace, MIB, 1000, 20);
        assert_eq!(pace.interval(), PROGRAMS.ceiling(MIB));
    }

    #[test]
    fn smallest_ring_and_fullest_ring_set_the_pace() {
        assert_eq!(Pace::new(PROGRAMS, 16 << 10).interval(), PROGRAMS.idle_shortest);
        let mut pace = Pace::new(PROGRAMS, 64 * MIB);
        assert_eq!(pace.interval(), PROGRAMS.idle_longest);
        pace.admit(16 << 10);
        assert_eq!(pace.interval(), PROGRAMS.idle_shortest);
        for _ in 0..10 {
            pace.observe(64 * MIB, 64 * MIB);
        }
        assert_eq!(pace.interval(), SHORTEST);
    }
}
