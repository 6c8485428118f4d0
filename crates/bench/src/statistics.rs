// SPDX-License-Identifier: MIT OR Apache-2.0
//! Medians, percentiles, and how sure they are.
//!
//! The rounds of one process are not independent: where its code and its rings lie in memory speeds all of them up or slows all of them down. So a
//! run has several *repetitions*, each with new processes, and intervals come from the medians of the repetitions (Kalibera and Jones, "Rigorous
//! Benchmarking in Reasonable Time", 2013). Times are ratios of each other rather than differences, so their logarithms are compared; two runs may
//! differ in how much they vary (Welch's test).

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// A value with the interval that it is in with some confidence; the interval is unknown if there was one repetition.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Estimate {
    /// The value.
    pub value: f64,
    /// The lower end of the interval.
    pub low: Option<f64>,
    /// The upper end.
    pub high: Option<f64>,
}

/// The value in the middle, or between the two that are there; 0 of nothing.
pub(crate) fn median(values: &[f64]) -> f64 {
    percentile(&sorted(values), 50.0)
}

pub(crate) fn sorted(values: &[f64]) -> Vec<f64> {
    let mut values = values.to_vec();
    values.sort_unstable_by(f64::total_cmp);
    values
}

/// Of values in ascending order, between the two nearest ones; 0 of nothing.
pub(crate) fn percentile(sorted: &[f64], percent: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return 0.0;
    };
    let place = percent / 100.0 * last as f64;
    let below = sorted[place.floor() as usize];
    let above = sorted[place.ceil() as usize];
    below + (above - below) * place.fract()
}

/// What repetitions say of one value, with a confidence such as 0.95. All values are positive.
pub(crate) fn estimate(repetitions: &[f64], confidence: f64) -> Estimate {
    let logs = Logs::of(repetitions);
    let freedom = logs.count - 1.0;
    logs.mean_within(freedom, logs.error2.sqrt(), confidence)
}

/// Half of the interval around the mean of a difference, which may be negative; `None` with one repetition.
pub(crate) fn half_of_difference(repetitions: &[f64], confidence: f64) -> Option<f64> {
    let count = repetitions.len() as f64;
    let mean = repetitions.iter().sum::<f64>() / count;
    let squares: f64 = repetitions.iter().map(|value| (value - mean).powi(2)).sum();
    let error = (squares / (count - 1.0) / count).sqrt();
    half_interval(count - 1.0, error, confidence)
}

/// Half of Student's interval; `None` without freedom, where there is no distribution.
fn half_interval(freedom: f64, error: f64, confidence: f64) -> Option<f64> {
    let student = StudentsT::new(0.0, 1.0, freedom).ok()?;
    Some(error * student.inverse_cdf(0.5 + confidence / 2.0))
}

/// How many times as much as the others the first ones are.
pub(crate) fn ratio(above: &[f64], below: &[f64], confidence: f64) -> Estimate {
    let (above, below) = (Logs::of(above), Logs::of(below));
    let error2 = above.error2 + below.error2;
    // Welch and Satterthwaite.
    let part = |logs: &Logs| logs.error2 * logs.error2 / (logs.count - 1.0);
    let freedom = match above.count.min(below.count) > 1.0 {
        // At least as many as the smaller sample has, also if neither varies.
        true if error2 > 0.0 => error2 * error2 / (part(&above) + part(&below)),
        true => above.count.min(below.count) - 1.0,
        false => 0.0,
    };
    let difference = Logs {
        mean: above.mean - below.mean,
        ..above
    };
    difference.mean_within(freedom, error2.sqrt(), confidence)
}

/// Logarithms of values.
struct Logs {
    count: f64,
    mean: f64,
    /// The square of the standard error of the mean; 0 if there is one value.
    error2: f64,
}

impl Logs {
    fn of(values: &[f64]) -> Logs {
        let count = values.len() as f64;
        let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
        let mean = logs.iter().sum::<f64>() / count;
        let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
        let error2 = if count > 1.0 {
            squares / (count - 1.0) / count
        } else {
            0.0
        };
        Logs { count, mean, error2 }
    }

    fn mean_within(&self, freedom: f64, error: f64, confidence: f64) -> Estimate {
        let half = half_interval(freedom, error, confidence);
        Estimate {
            value: self.mean.exp(),
            low: half.map(|half| (self.mean - half).exp()),
            high: half.map(|half| (self.mean + half).exp()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(one: f64, other: f64) -> bool {
        (one - other).abs() < 1e-3 * other.abs()
    }

    #[test]
    fn percentiles_lie_between_values() {
        let values = sorted(&[4.0, 1.0, 3.0, 2.0]);
        let percentiles = [0.0, 50.0, 75.0, 100.0].map(|percent| percentile(&values, percent));
        assert_eq!(percentiles, [1.0, 2.5, 3.25, 4.0]);
        assert_eq!((median(&[7.0]), median(&[])), (7.0, 0.0));
    }

    /// By hand: logs 0, 1, 2; mean 1, standard error 1/sqrt(3), t(0.975; 2) = 4.3027.
    #[test]
    fn an_interval_is_that_of_student() {
        let one = 1.0_f64;
        let interval = estimate(&[one, one.exp(), 2.0_f64.exp()], 0.95);
        let half = 4.3027 / 3.0_f64.sqrt();
        assert!(close(interval.value, 1.0_f64.exp()), "{interval:?}");
        assert!(close(interval.low.expect("known"), (1.0 - half).exp()), "{interval:?}");
        assert!(close(interval.high.expect("known"), (1.0 + half).exp()), "{interval:?}");
        let alone = estimate(&[3.0], 0.95);
        assert!(close(alone.value, 3.0) && alone.low.is_none(), "{alone:?}");
    }

    /// By hand: -1, 0, 4; mean 1, standard error sqrt(7/3), t(0.975; 2) = 4.3027.
    #[test]
    fn a_difference_may_be_negative() {
        let half = half_of_difference(&[-1.0, 0.0, 4.0], 0.95).expect("known");
        assert!(close(half, 4.3027 * (7.0_f64 / 3.0).sqrt()), "{half}");
        assert_eq!(half_of_difference(&[-0.5], 0.95), None);
    }

    /// With R: t.test(log(c(10,11,12,11)), log(c(20,21,19,22,20)), conf.level=0.95), exponentiated.
    #[test]
    fn a_ratio_has_the_interval_of_welch() {
        let interval = ratio(&[10.0, 11.0, 12.0, 11.0], &[20.0, 21.0, 19.0, 22.0, 20.0], 0.95);
        let logs = |values: &[f64]| -> (f64, f64, f64) {
            let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
            let mean = logs.iter().sum::<f64>() / logs.len() as f64;
            let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (logs.len() - 1) as f64;
            (mean, variance / logs.len() as f64, logs.len() as f64)
        };
        let (one, one2, _) = logs(&[10.0, 11.0, 12.0, 11.0]);
        let (other, other2, _) = logs(&[20.0, 21.0, 19.0, 22.0, 20.0]);
        assert!(close(interval.value, (one - other).exp()), "{interval:?}");
        // 5.16 degrees of freedom, of which t(0.975) is between those of 5 and 6.
        let half = (interval.high.expect("known") / interval.value).ln() / (one2 + other2).sqrt();
        assert!((2.447..2.571).contains(&half), "{half}");
        let same = ratio(&[5.0, 5.0], &[5.0, 5.0], 0.99);
        assert_eq!((same.value, same.low, same.high), (1.0, Some(1.0), Some(1.0)));
        assert_eq!(ratio(&[5.0], &[5.0, 6.0], 0.99).low, None);
    }
}
