// SPDX-License-Identifier: MIT OR Apache-2.0
//! From counts to what people compare: smallest, mean, largest, variance, percentiles. Minimum, mean, maximum and variance are exact; a
//! percentile is exact for short values and at most 0.4 % too large for others, as the buckets are (buckets.rs).

use crate::clock::Clock;
use crate::tally::{Snapshot, Sums};

/// The percentiles that are computed.
pub const PERCENTILES: [f64; 7] = [50.0, 90.0, 99.0, 99.9, 99.99, 99.999, 99.9999];

/// A summary of values, in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// How many values there are. All others are 0 if there is none.
    pub count: u64,
    /// The smallest one.
    pub min_ns: f64,
    /// The mean.
    pub mean_ns: f64,
    /// The largest one.
    pub max_ns: f64,
    /// The mean of the squared differences from the mean.
    pub variance_ns2: f64,
    /// Its square root.
    pub standard_deviation_ns: f64,
    /// For each of [`PERCENTILES`], the smallest value that so many values do not exceed.
    pub percentiles_ns: [f64; PERCENTILES.len()],
}

impl Summary {
    /// The summary of what was counted in ticks of a clock.
    pub fn of(snapshot: &Snapshot, clock: &Clock) -> Summary {
        let sums = snapshot.sums();
        let percentiles = percentiles(snapshot, &sums);
        let variance = variance(&sums);
        let tick_ns = clock.ns(1.0);
        let count = sums.count.max(1) as f64;
        Summary {
            count: sums.count,
            min_ns: if sums.count == 0 {
                0.0
            } else {
                clock.ns(sums.min as f64)
            },
            mean_ns: clock.ns(sums.sum as f64 / count),
            max_ns: clock.ns(sums.max as f64),
            variance_ns2: variance * tick_ns * tick_ns,
            standard_deviation_ns: variance.sqrt() * tick_ns,
            percentiles_ns: percentiles.map(|ticks| clock.ns(ticks as f64)),
        }
    }

    /// The percentile that is one of [`PERCENTILES`].
    ///
    /// # Panics
    /// It is none of them.
    pub fn percentile_ns(&self, percentile: f64) -> f64 {
        let mut all = PERCENTILES.iter().zip(self.percentiles_ns);
        all.find(|(known, _)| **known == percentile)
            .expect("a percentile that is computed")
            .1
    }
}

/// In whole numbers as far as they reach, because a difference of large squares would lose the digits that matter.
fn variance(sums: &Sums) -> f64 {
    if sums.count == 0 {
        return 0.0;
    }
    let count = u128::from(sums.count);
    match (count.checked_mul(sums.squares), sums.sum.checked_mul(sums.sum)) {
        (Some(squares), Some(square)) => squares.saturating_sub(square) as f64 / (count as f64 * count as f64),
        _ => {
            let mean = sums.sum as f64 / count as f64;
            (sums.squares as f64 / count as f64 - mean * mean).max(0.0)
        }
    }
}

fn percentiles(snapshot: &Snapshot, sums: &Sums) -> [u64; PERCENTILES.len()] {
    let buckets = snapshot.buckets();
    let mut bucket = buckets.iter();
    let (mut passed, mut value) = (0, 0);
    PERCENTILES.map(|percentile| {
        let rank = (percentile / 100.0 * sums.count as f64).ceil() as u64;
        while passed < rank.min(sums.count) {
            let Some(next) = bucket.next() else { break };
            passed += next.count;
            value = next.high.min(sums.max);
        }
        value
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::Tally;

    /// The same, the simple way.
    fn naive(values: &mut [u64]) -> (f64, f64, [u64; PERCENTILES.len()]) {
        values.sort_unstable();
        let count = values.len() as f64;
        let mean = values.iter().map(|value| *value as f64).sum::<f64>() / count;
        let squares = values.iter().map(|value| (*value as f64 - mean).powi(2));
        let variance = squares.sum::<f64>() / count;
        let percentiles = PERCENTILES.map(|percentile| {
            let rank = (percentile / 100.0 * count).ceil() as usize;
            values[rank.max(1) - 1]
        });
        (mean, variance, percentiles)
    }

    #[test]
    fn a_summary_agrees_with_a_naive_one() {
        let mut random = fastrand::Rng::with_seed(7);
        for (short, largest) in [(1300, 60), (1300, 100_000), (0, 5_000_000), (10, 1 << 42)] {
            let tally = Tally::new(short, 0);
            let mut values: Vec<u64> = (0..20_000)
                .map(|_| match random.u8(..) {
                    0 => random.u64(..=largest),
                    _ => random.u64(20..60),
                })
                .collect();
            for value in &values {
                if !tally.add_short(*value) {
                    tally.add_long(*value, random.bool());
                }
            }
            let summary = Summary::of(&tally.look(), &Clock::MONOTONIC);
            let (mean, variance, percentiles) = naive(&mut values);
            let close = |one: f64, other: f64, within: f64| (one - other).abs() <= other.abs() * within + 1e-9;
            assert_eq!(summary.count, 20_000);
            assert_eq!(
                (summary.min_ns, summary.max_ns),
                (values[0] as f64, values[19_999] as f64)
            );
            assert!(close(summary.mean_ns, mean, 1e-12), "{summary:?} {mean}");
            assert!(close(summary.variance_ns2, variance, 1e-9), "{summary:?} {variance}");
            assert!(close(summary.standard_deviation_ns, variance.sqrt(), 1e-9));
            for (ours, exact) in summary.percentiles_ns.into_iter().zip(percentiles) {
                assert!(
                    ours >= exact as f64 && close(ours, exact as f64, 1.0 / 256.0),
                    "{summary:?} {exact}"
                );
            }
        }
    }

    #[test]
    fn nothing_has_a_summary_too() {
        let summary = Summary::of(&Tally::new(10, 0).look(), &Clock::MONOTONIC);
        assert_eq!(
            (summary.count, summary.min_ns, summary.max_ns, summary.mean_ns),
            (0, 0.0, 0.0, 0.0)
        );
        assert_eq!(summary.percentile_ns(99.9), 0.0);
    }

    #[test]
    fn a_variance_keeps_its_digits_beside_a_large_mean() {
        let tally = Tally::new(0, 0);
        tally.add_long(1_000_000_000_000, false);
        tally.add_long(1_000_000_000_002, false);
        assert_eq!(Summary::of(&tally.look(), &Clock::MONOTONIC).variance_ns2, 1.0);
    }
}
