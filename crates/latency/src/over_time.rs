// SPDX-License-Identifier: MIT OR Apache-2.0
//! The largest value of each stretch of time, however long a loop runs: a table of fixed length, in memory before the loop begins. When it is
//! full, each two neighbours become one, and stretches are twice as long from then on. A loop that reads the clock notes only gaps that it
//! looks at, so that the others cost nothing; a stretch without such a gap is 0.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::tally::table;

/// Stretches at most: more than a picture has columns.
const STRETCHES: usize = 2048;

/// The largest values.
pub(crate) struct OverTime {
    largest: Box<[AtomicU64]>,
    /// Ticks of a stretch before any were joined.
    ticks: u64,
    /// How often neighbours were joined.
    joined: AtomicU32,
}

/// The largest value of a stretch of time, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// When it begins, since the loop began.
    pub begin: u64,
    /// When it ends.
    pub end: u64,
    /// 0 if nothing was noted.
    pub largest: u64,
}

impl OverTime {
    /// Stretches of so many ticks at first.
    pub(crate) fn new(ticks: u64) -> OverTime {
        OverTime {
            largest: table(STRETCHES),
            ticks: ticks.max(1),
            joined: AtomicU32::new(0),
        }
    }

    /// Notes a value that was measured so many ticks after the loop began. Only one thread does this.
    pub(crate) fn add(&self, elapsed: u64, value: u64) {
        // Relaxed, here and below: whoever looks meanwhile may see a stretch of before.
        let mut joined = self.joined.load(Relaxed);
        let mut index = (elapsed / self.ticks) >> joined;
        while index >= STRETCHES as u64 {
            self.join();
            joined += 1;
            self.joined.store(joined, Relaxed);
            index >>= 1;
        }
        let largest = &self.largest[index as usize];
        largest.store(largest.load(Relaxed).max(value), Relaxed);
    }

    fn join(&self) {
        for index in 0..STRETCHES {
            let of = |index: usize| self.largest.get(index).map_or(0, |largest| largest.load(Relaxed));
            self.largest[index].store(of(2 * index).max(of(2 * index + 1)), Relaxed);
        }
    }

    /// The stretches up to the last one that has a value.
    pub(crate) fn look(&self) -> Vec<Stretch> {
        let ticks = self.ticks << self.joined.load(Relaxed);
        let values: Vec<u64> = self.largest.iter().map(|largest| largest.load(Relaxed)).collect();
        let used = values
            .iter()
            .rposition(|largest| *largest > 0)
            .map_or(0, |last| last + 1);
        let stretch = |(index, largest): (usize, &u64)| Stretch {
            begin: index as u64 * ticks,
            end: (index as u64 + 1) * ticks,
            largest: *largest,
        };
        values[..used].iter().enumerate().map(stretch).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn largest(over_time: &OverTime) -> Vec<u64> {
        over_time.look().iter().map(|stretch| stretch.largest).collect()
    }

    #[test]
    fn each_stretch_has_its_largest_value() {
        let over_time = OverTime::new(10);
        for (elapsed, value) in [(0, 5), (9, 7), (3, 6), (10, 2), (35, 1)] {
            over_time.add(elapsed, value);
        }
        assert_eq!(largest(&over_time), [7, 2, 0, 1]);
        assert_eq!(
            over_time.look()[1],
            Stretch {
                begin: 10,
                end: 20,
                largest: 2
            }
        );
    }

    #[test]
    fn stretches_become_longer_when_there_are_too_many() {
        let over_time = OverTime::new(1);
        for elapsed in 0..STRETCHES as u64 {
            over_time.add(elapsed, elapsed + 1);
        }
        assert_eq!(largest(&over_time).len(), STRETCHES);
        over_time.add(4 * STRETCHES as u64 + 1, 9999);
        let stretches = over_time.look();
        assert_eq!(stretches[0].end, 8);
        assert_eq!((stretches[0].largest, stretches[1].largest), (8, 16));
        let last = stretches.last().expect("there is one");
        assert_eq!((last.begin, last.largest), (4 * STRETCHES as u64, 9999));
        assert_eq!(stretches[STRETCHES / 8 - 1].largest, STRETCHES as u64);
        assert_eq!(stretches[STRETCHES / 8].largest, 0);
    }
}
