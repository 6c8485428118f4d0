// SPDX-License-Identifier: MIT OR Apache-2.0
//! When the next turn of the tight loop starts: at once, or when it is due. A loop that waits reads the clock meanwhile, because one that sleeps
//! would wake up late. What happens while it waits belongs to no turn.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::clock::{Clock, Counter, NS_PER_S};
use crate::witness::Watch;

/// When the next turn starts.
pub(crate) trait Pace {
    /// The first turn starts now.
    fn begin(&mut self, now: u64);
    /// For how long it looked what happened while it waited, in ticks.
    fn blind_ticks(&self) -> u64;
    /// Waits until then, and returns when it is; `last` is now. Returns early at `end`, or when it is to stop.
    fn wait(
        &mut self,
        last: u64,
        end: u64,
        counter: &mut impl Counter,
        watch: &mut impl Watch,
        stop: &AtomicBool,
    ) -> u64;
}

/// At once.
pub(crate) struct Unpaced;

impl Pace for Unpaced {
    #[inline(always)]
    fn begin(&mut self, _now: u64) {}

    fn blind_ticks(&self) -> u64 {
        0
    }

    #[inline(always)]
    fn wait(&mut self, last: u64, _: u64, _: &mut impl Counter, _: &mut impl Watch, _: &AtomicBool) -> u64 {
        last
    }
}

/// Evenly spaced. A turn that is late by more than an interval is not followed by shorter ones: the others are late, too.
pub(crate) struct Paced {
    /// In parts of a tick: an interval may be a few ticks.
    interval: u128,
    due: u128,
    /// Longer pauses between two readings of the clock have a cause, which is not to be taken for one of the next turn.
    look_from: u64,
    blind_ticks: u64,
}

/// Parts of a tick, as bits.
const PART_BITS: u32 = 32;

impl Paced {
    /// So many turns a second at most.
    pub(crate) fn new(rate_hz: u64, clock: &Clock, look_from: u64) -> Paced {
        debug_assert!(rate_hz <= NS_PER_S);
        Paced {
            interval: (u128::from(clock.frequency_hz) << PART_BITS) / u128::from(rate_hz.max(1)),
            due: 0,
            look_from,
            blind_ticks: 0,
        }
    }
}

impl Pace for Paced {
    fn begin(&mut self, now: u64) {
        self.due = u128::from(now) << PART_BITS;
    }

    fn blind_ticks(&self) -> u64 {
        self.blind_ticks
    }

    #[inline]
    fn wait(
        &mut self,
        mut last: u64,
        end: u64,
        counter: &mut impl Counter,
        watch: &mut impl Watch,
        stop: &AtomicBool,
    ) -> u64 {
        self.due += self.interval;
        let now = u128::from(last) << PART_BITS;
        if self.due + self.interval < now {
            self.due = now;
        }
        let due = u64::try_from(self.due >> PART_BITS).unwrap_or(u64::MAX).min(end);
        while last < due {
            let now = counter.read();
            if now.wrapping_sub(last) >= self.look_from {
                watch.look();
                last = counter.read();
                self.blind_ticks += last.wrapping_sub(now);
            } else {
                last = now;
            }
            // Relaxed: nothing else is said by it.
            if stop.load(Relaxed) {
                break;
            }
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::witness::Seen;

    /// Advances by one tick, and once by many.
    struct Ticks {
        now: u64,
        jump: Option<(u64, u64)>,
    }

    impl Counter for Ticks {
        fn read(&mut self) -> u64 {
            self.now += 1;
            if let Some((at, ticks)) = self.jump
                && self.now == at
            {
                self.now += ticks;
                self.jump = None;
            }
            self.now
        }
    }

    #[derive(Default)]
    struct Looks(u32);

    impl Watch for Looks {
        fn look(&mut self) -> Seen {
            self.0 += 1;
            Seen::default()
        }
    }

    /// The starts of some turns, each of which takes three ticks.
    fn starts(rate_hz: u64, jump: Option<(u64, u64)>, turns: usize) -> (Vec<u64>, u32) {
        let (mut ticks, mut looks) = (Ticks { now: 1000, jump }, Looks::default());
        let mut pace = Paced::new(rate_hz, &Clock::MONOTONIC, 50);
        let stop = AtomicBool::new(false);
        pace.begin(1000);
        let starts = (0..turns)
            .map(|_| {
                let last = ticks.now + 3;
                ticks.now = last;
                let start = pace.wait(last, u64::MAX, &mut ticks, &mut looks, &stop);
                ticks.now = start;
                start
            })
            .collect();
        (starts, looks.0)
    }

    #[test]
    fn turns_are_evenly_spaced_also_between_ticks() {
        // 400 million a second: one each 2.5 ns would need shorter turns; 80 million: one each 12.5 ns.
        let (paced, looks) = starts(80_000_000, None, 9);
        let gaps: Vec<u64> = paced.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!((gaps.iter().sum::<u64>(), looks), (100, 0));
        assert!(gaps.iter().all(|gap| [12, 13].contains(gap)), "{gaps:?}");
        let (late, _) = starts(400_000_000, None, 4);
        assert_eq!(late, [1003, 1006, 1009, 1012], "no turn waits");
    }

    #[test]
    fn a_late_turn_is_not_followed_by_hasty_ones() {
        let (starts, looks) = starts(10_000_000, Some((1050, 1000)), 4);
        assert_eq!(looks, 1, "whatever came while it waited is not the next turn's");
        let gaps: Vec<u64> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps[1..].iter().all(|gap| *gap == 100), "{starts:?}");
    }

    #[test]
    fn waiting_ends_with_the_measurement() {
        let (mut ticks, mut looks) = (Ticks { now: 10, jump: None }, Looks::default());
        let mut pace = Paced::new(1, &Clock::MONOTONIC, 50);
        pace.begin(10);
        let start = pace.wait(10, 20, &mut ticks, &mut looks, &AtomicBool::new(false));
        assert_eq!(start, 20);
        let start = pace.wait(20, u64::MAX, &mut ticks, &mut looks, &AtomicBool::new(true));
        assert_eq!(start, 21);
    }
}
