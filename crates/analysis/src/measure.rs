// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long things took: their number, sum and extremes; with percentiles where that is asked for.

use hdrhistogram::Histogram;

use crate::report::Value;

/// Number, sum and extremes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say all")]
pub struct Times {
    pub count: u64,
    pub total_ns: i64,
    pub min_ns: i64,
    pub max_ns: i64,
}

impl Times {
    /// One more.
    #[inline]
    pub fn add(&mut self, ns: i64) {
        self.min_ns = if self.count == 0 { ns } else { self.min_ns.min(ns) };
        self.max_ns = self.max_ns.max(ns);
        self.count += 1;
        self.total_ns = self.total_ns.saturating_add(ns);
    }

    /// With those of others.
    pub fn merge(&mut self, other: &Times) {
        if other.count == 0 {
            return;
        }
        self.min_ns = if self.count == 0 {
            other.min_ns
        } else {
            self.min_ns.min(other.min_ns)
        };
        self.max_ns = self.max_ns.max(other.max_ns);
        self.count += other.count;
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
    }

    /// The mean; 0 of none.
    pub fn mean_ns(&self) -> i64 {
        self.total_ns / self.count.max(1).cast_signed()
    }

    /// Number, sum, least, mean and most.
    pub fn values(&self) -> [Value; 5] {
        [
            Value::from(self.count),
            Value::Number(self.total_ns),
            Value::Number(self.min_ns),
            Value::Number(self.mean_ns()),
            Value::Number(self.max_ns),
        ]
    }
}

/// The same with percentiles, right to one part in a hundred. Takes some kilobytes.
#[derive(Clone, Debug)]
pub struct Distribution {
    /// Number, sum and extremes, which are exact.
    pub times: Times,
    histogram: Histogram<u64>,
}

impl Default for Distribution {
    fn default() -> Distribution {
        Distribution {
            times: Times::default(),
            histogram: Histogram::new(2).expect("two digits are possible"),
        }
    }
}

impl Distribution {
    /// One more.
    #[inline]
    pub fn add(&mut self, ns: i64) {
        self.times.add(ns);
        // It grows with what comes; nothing lasts longer than it can hold.
        let _ = self.histogram.record(ns.max(0).cast_unsigned());
    }

    /// So many of a hundred took this long or less.
    pub fn percentile(&self, percent: f64) -> Value {
        let ns = self.histogram.value_at_percentile(percent).cast_signed();
        Value::Number(ns.clamp(self.times.min_ns, self.times.max_ns))
    }

    /// How many took how long: from, up to, number; in powers of two.
    pub fn octaves(&self) -> Vec<(i64, i64, u64)> {
        let mut octaves: Vec<(i64, i64, u64)> = Vec::new();
        for step in self.histogram.iter_recorded() {
            let value = step.value_iterated_to().max(1);
            let from = 1_i64 << value.ilog2();
            match octaves.last_mut() {
                Some((known, _, count)) if *known == from => *count += step.count_at_value(),
                last => {
                    // Those without any are rows, too.
                    let mut next = last.map_or(from, |(_, until, _)| *until);
                    while next < from {
                        octaves.push((next, next * 2, 0));
                        next *= 2;
                    }
                    octaves.push((from, from.saturating_mul(2), step.count_at_value()));
                }
            }
        }
        octaves
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octaves_are_without_a_hole() {
        let mut times = Distribution::default();
        for ns in [1000, 1500, 9000] {
            times.add(ns);
        }
        assert_eq!(
            times.octaves(),
            [
                (512, 1024, 1),
                (1024, 2048, 1),
                (2048, 4096, 0),
                (4096, 8192, 0),
                (8192, 16384, 1)
            ]
        );
        assert_eq!(times.percentile(100.0), Value::Number(9000));
        assert_eq!((times.times.min_ns, times.times.mean_ns()), (1000, 3833));
    }

    #[test]
    fn sums_and_steps_end_where_numbers_do() {
        let mut times = Distribution::default();
        times.add(i64::MAX);
        times.add(i64::MAX);
        assert_eq!(
            (times.times.total_ns, times.percentile(50.0)),
            (i64::MAX, Value::Number(i64::MAX))
        );
        assert_eq!(times.octaves(), [(1 << 62, i64::MAX, 2)]);
        let mut sum = times.times;
        sum.merge(&times.times);
        assert_eq!((sum.count, sum.total_ns), (4, i64::MAX));
        let mut times = Distribution::default();
        times.add(0);
        times.add(i64::MAX);
        times.add(i64::MAX);
        assert_eq!(times.percentile(50.0), Value::Number(i64::MAX));
    }
}
