// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a loop counts. Everything it needs is allocated and in memory before the loop begins.
//!
//! Short values, those of a loop that nothing disturbs, only add one to an entry of a table that has an entry for each value: the sums that mean
//! and variance need follow from the table afterwards, exactly. Long values are rare; their sums are kept beside their buckets.
//!
//! The thread of the loop alone writes. Others may read at any time (`Tally::look`), which is why the counts are atomics: plain loads and
//! stores, no locked instructions.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::{Deserialize, Serialize};

use crate::buckets;
use crate::clock::Clock;
use crate::over_time::{OverTime, Stretch};

/// What a loop counts.
pub(crate) struct Tally {
    /// Values below the length of the table.
    short: Box<[AtomicU64]>,
    /// All others that nothing visible explains.
    clear: Long,
    /// All others that something explains.
    disturbed: Long,
    microseconds: Microseconds,
    over_time: OverTime,
}

/// Values of any size.
struct Long {
    buckets: Box<[AtomicU64]>,
    sum: AtomicU64,
    /// The sum of the squares: its high and its low half.
    squares: [AtomicU64; 2],
    min: AtomicU64,
    max: AtomicU64,
}

/// Values in whole microseconds, up to a limit, and the numbers of the loops in which values were too large: cyclictest's way to count.
struct Microseconds {
    counts: Box<[AtomicU64]>,
    overflows: AtomicU64,
    overflow_at: Box<[AtomicU64]>,
}

/// A table of zeros that is in memory.
pub(crate) fn table(entries: usize) -> Box<[AtomicU64]> {
    // Zeroed memory would only be promised by the kernel, and come with a page fault at the first use of each page.
    let table: Box<[AtomicU64]> = (0..entries).map(|_| AtomicU64::new(1)).collect();
    let table = black_box(table);
    // Relaxed: the table is not shared yet.
    table.iter().for_each(|count| count.store(0, Relaxed));
    black_box(table)
}

/// Adds to a count that only this thread writes.
#[inline(always)]
fn add(to: &AtomicU64, more: u64) {
    // Relaxed: each count stands for itself, and whoever looks at several of them expects that they are not of the same instant.
    to.store(to.load(Relaxed).wrapping_add(more), Relaxed);
}

impl Tally {
    /// Tables for values whose short ones are below `short_values`; for a histogram in microseconds up to `microseconds`.
    pub(crate) fn new(short_values: usize, microseconds: usize) -> Tally {
        Tally {
            short: table(short_values),
            clear: Long::new(),
            disturbed: Long::new(),
            microseconds: Microseconds {
                counts: table(microseconds),
                overflows: AtomicU64::new(0),
                overflow_at: table(microseconds),
            },
            over_time: OverTime::new(1),
        }
    }

    /// With so many ticks for each stretch of time, at first.
    pub(crate) fn with_stretches(self, ticks: u64) -> Tally {
        Tally {
            over_time: OverTime::new(ticks),
            ..self
        }
    }

    /// Counts a short value; `false` if it is not short.
    #[inline(always)]
    pub(crate) fn add_short(&self, value: u64) -> bool {
        let count = usize::try_from(value).ok().and_then(|value| self.short.get(value));
        count.map(|count| add(count, 1)).is_some()
    }

    /// Counts a value of any size.
    pub(crate) fn add_long(&self, value: u64, is_disturbed: bool) {
        match is_disturbed {
            true => self.disturbed.add(value),
            false => self.clear.add(value),
        }
    }

    /// Notes a value as one of a stretch of time. `elapsed` is the time since the loop began, in ticks.
    pub(crate) fn add_at(&self, elapsed: u64, value: u64) {
        self.over_time.add(elapsed, value);
    }

    /// The largest value of each stretch of time.
    pub(crate) fn stretches(&self) -> Vec<Stretch> {
        self.over_time.look()
    }

    /// Counts a value that is not short in the histogram of microseconds. `number` is that of the loop, from 0 on.
    pub(crate) fn add_microseconds(&self, value_us: u64, number: u64) {
        let all = &self.microseconds;
        if all.counts.is_empty() {
            return;
        }
        match usize::try_from(value_us).ok().and_then(|value| all.counts.get(value)) {
            Some(count) => add(count, 1),
            None => {
                let overflows = usize::try_from(all.overflows.load(Relaxed)).unwrap_or(usize::MAX);
                if let Some(at) = all.overflow_at.get(overflows) {
                    at.store(number, Relaxed);
                }
                add(&all.overflows, 1);
            }
        }
    }

    /// What has been counted so far.
    pub(crate) fn look(&self) -> Snapshot {
        Snapshot {
            short: values(&self.short),
            clear: self.clear.look(),
            disturbed: self.disturbed.look(),
        }
    }

    /// The histogram in microseconds. `clock` is that of the values.
    pub(crate) fn microseconds(&self, clock: &Clock) -> Histogram {
        let all = &self.microseconds;
        let mut counts = values(&all.counts);
        let mut overflows = all.overflows.load(Relaxed);
        let listed = usize::try_from(overflows).map_or(all.overflow_at.len(), |count| count.min(all.overflow_at.len()));
        for (value, count) in self.short.iter().enumerate() {
            let count = count.load(Relaxed);
            let value_us = clock.whole_ns(value as u64) / 1000;
            match usize::try_from(value_us).ok().and_then(|value| counts.get_mut(value)) {
                Some(sum) => *sum += count,
                None => overflows += count,
            }
        }
        Histogram {
            overflow_at: values(&all.overflow_at[..listed]),
            counts,
            overflows,
        }
    }
}

impl Long {
    fn new() -> Long {
        Long {
            buckets: table(buckets::COUNT),
            sum: AtomicU64::new(0),
            squares: [const { AtomicU64::new(0) }; 2],
            min: AtomicU64::new(u64::MAX),
            max: AtomicU64::new(0),
        }
    }

    fn add(&self, value: u64) {
        add(&self.buckets[buckets::index(value)], 1);
        add(&self.sum, value);
        let squares = self.squares().wrapping_add(u128::from(value) * u128::from(value));
        self.squares[0].store((squares >> 64) as u64, Relaxed);
        self.squares[1].store(squares as u64, Relaxed);
        self.min.store(self.min.load(Relaxed).min(value), Relaxed);
        self.max.store(self.max.load(Relaxed).max(value), Relaxed);
    }

    fn squares(&self) -> u128 {
        let [high, low] = self.squares.each_ref().map(|half| u128::from(half.load(Relaxed)));
        high << 64 | low
    }

    fn look(&self) -> LongValues {
        LongValues {
            buckets: values(&self.buckets),
            sum: self.sum.load(Relaxed).into(),
            squares: self.squares(),
            min: self.min.load(Relaxed),
            max: self.max.load(Relaxed),
        }
    }
}

fn values(table: &[AtomicU64]) -> Vec<u64> {
    table.iter().map(|count| count.load(Relaxed)).collect()
}

/// What a loop has counted, in ticks of its clock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    short: Vec<u64>,
    clear: LongValues,
    disturbed: LongValues,
}

/// Values of any size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct LongValues {
    buckets: Vec<u64>,
    sum: u128,
    squares: u128,
    min: u64,
    max: u64,
}

impl Default for LongValues {
    fn default() -> LongValues {
        LongValues {
            buckets: Vec::new(),
            sum: 0,
            squares: 0,
            min: u64::MAX,
            max: 0,
        }
    }
}

/// Values and how many there are of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// The smallest value that it counts.
    pub low: u64,
    /// The largest one.
    pub high: u64,
    /// How many values were counted.
    pub count: u64,
}

/// Exact sums of all values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) count: u64,
    pub(crate) sum: u128,
    pub(crate) squares: u128,
    pub(crate) min: u64,
    pub(crate) max: u64,
}

/// Values in whole microseconds: entry N counts those from N up to N + 1.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Counts of values below the limit, which is the length.
    pub counts: Vec<u64>,
    /// How many were not below it.
    pub overflows: u64,
    /// In which loops, counted from 0, the first of these were.
    pub overflow_at: Vec<u64>,
}

impl Snapshot {
    /// Only the values that nothing visible explains.
    pub fn undisturbed(&self) -> Snapshot {
        Snapshot {
            disturbed: LongValues::default(),
            ..self.clone()
        }
    }

    /// Adds the values of another one, whose clock has the same frequency.
    pub fn merge(&mut self, other: &Snapshot) {
        add_all(&mut self.short, &other.short);
        self.clear.merge(&other.clear);
        self.disturbed.merge(&other.disturbed);
    }

    /// The buckets that have values, in ascending order.
    pub fn buckets(&self) -> Vec<Bucket> {
        let short = self.short.iter().enumerate();
        let short = short.map(|(value, count)| Bucket {
            low: value as u64,
            high: value as u64,
            count: *count,
        });
        let mut long = self.clear.buckets.clone();
        add_all(&mut long, &self.disturbed.buckets);
        let long = long.into_iter().enumerate().map(|(index, count)| {
            let (low, high) = buckets::bounds(index);
            Bucket { low, high, count }
        });
        short.chain(long).filter(|bucket| bucket.count > 0).collect()
    }

    pub(crate) fn sums(&self) -> Sums {
        let mut sums = Sums {
            count: 0,
            sum: self.clear.sum + self.disturbed.sum,
            squares: self.clear.squares.wrapping_add(self.disturbed.squares),
            min: self.clear.min.min(self.disturbed.min),
            max: self.clear.max.max(self.disturbed.max),
        };
        for (value, count) in self.short.iter().enumerate().filter(|(_, count)| **count > 0) {
            let value = value as u64;
            sums.count += count;
            sums.sum += u128::from(value) * u128::from(*count);
            sums.squares += u128::from(value * value) * u128::from(*count);
            sums.min = sums.min.min(value);
            sums.max = sums.max.max(value);
        }
        let long = self.clear.buckets.iter().chain(&self.disturbed.buckets);
        sums.count += long.sum::<u64>();
        sums
    }
}

impl LongValues {
    fn merge(&mut self, other: &LongValues) {
        add_all(&mut self.buckets, &other.buckets);
        self.sum += other.sum;
        self.squares = self.squares.wrapping_add(other.squares);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }
}

/// Adds counts to counts; there may be more of them.
fn add_all(to: &mut Vec<u64>, more: &[u64]) {
    if to.len() < more.len() {
        to.resize(more.len(), 0);
    }
    to.iter_mut().zip(more).for_each(|(sum, count)| *sum += count);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_by_size_and_cause() {
        let tally = Tally::new(10, 0);
        assert!(tally.add_short(0) && tally.add_short(9) && tally.add_short(9));
        assert!(!tally.add_short(10));
        tally.add_long(10, false);
        tally.add_long(1 << 40, true);
        let all = tally.look();
        let counts = |snapshot: &Snapshot| -> Vec<(u64, u64)> {
            snapshot
                .buckets()
                .iter()
                .map(|bucket| (bucket.low, bucket.count))
                .collect()
        };
        assert_eq!(counts(&all), [(0, 1), (9, 2), (10, 1), (1 << 40, 1)]);
        assert_eq!(counts(&all.undisturbed()), [(0, 1), (9, 2), (10, 1)]);
        let sums = all.sums();
        assert_eq!(
            (sums.count, sums.sum, sums.min, sums.max),
            (5, 28 + (1 << 40), 0, 1 << 40)
        );
        assert_eq!(sums.squares, 81 + 81 + 100 + (1 << 80));
        let mut twice = all.clone();
        twice.merge(&all);
        assert_eq!(counts(&twice), [(0, 2), (9, 4), (10, 2), (1 << 40, 2)]);
    }

    #[test]
    fn microseconds_are_counted_up_to_a_limit_and_the_loops_beyond_it_listed() {
        let tally = Tally::new(0, 3);
        for (number, value_us) in [0, 2, 2, 3, 1, 100, 4, 5].into_iter().enumerate() {
            tally.add_microseconds(value_us, number as u64);
        }
        let histogram = tally.microseconds(&Clock::MONOTONIC);
        assert_eq!((histogram.counts, histogram.overflows), (vec![1, 1, 2], 4));
        assert_eq!(histogram.overflow_at, [3, 5, 6], "as many as there are microseconds");
        let short = Tally::new(2500, 2);
        for value in [0, 999, 1000, 2499] {
            assert!(short.add_short(value));
        }
        let histogram = short.microseconds(&Clock::MONOTONIC);
        assert_eq!((histogram.counts, histogram.overflows), (vec![2, 1], 1));
    }
}
