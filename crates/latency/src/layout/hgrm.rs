// SPDX-License-Identifier: MIT OR Apache-2.0
//! The percentiles of a distribution as HdrHistogram's tools print and plot them, usually in a file whose name ends with `.hgrm`: the value, the
//! quantile, the number of values up to there, and 1 / (1 - quantile), which is the axis of the plot.

use std::fmt::Write;

use crate::clock::Clock;
use crate::statistics::Summary;
use crate::tally::Snapshot;

/// Steps to each halving of the distance to 100 %, as HdrHistogram has them by default.
const STEPS: f64 = 5.0;

/// The text for what was counted in ticks of a clock; values are microseconds.
pub fn text(values: &Snapshot, clock: &Clock) -> String {
    let summary = Summary::of(values, clock);
    let us = |ns: f64| ns / 1000.0;
    let mut text = String::from("       Value     Percentile TotalCount 1/(1-Percentile)\n\n");
    let (mut passed, mut step) = (0, 0.0);
    for bucket in values.buckets() {
        passed += bucket.count;
        let quantile = passed as f64 / summary.count as f64;
        // Rows stand at certain quantiles, however many buckets there are.
        if quantile < quantile_at(step) && passed < summary.count {
            continue;
        }
        let value = us(clock.ns(bucket.high as f64).min(summary.max_ns));
        if passed < summary.count {
            let distance = 1.0 / (1.0 - quantile);
            let _ = writeln!(text, "{value:12.3} {quantile:2.12} {passed:10} {distance:14.2}");
        } else {
            let _ = writeln!(text, "{value:12.3} {quantile:2.12} {passed:10}");
        }
        while quantile_at(step) <= quantile && quantile < 1.0 {
            step += 1.0;
        }
    }
    let _ = writeln!(
        text,
        "#[Mean    = {:12.3}, StdDeviation   = {:12.3}]",
        us(summary.mean_ns),
        us(summary.standard_deviation_ns)
    );
    let _ = writeln!(
        text,
        "#[Max     = {:12.3}, Total count    = {:12}]",
        us(summary.max_ns),
        summary.count
    );
    text
}

/// 0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.55, ... 0.75, 0.775, ...
fn quantile_at(step: f64) -> f64 {
    let halvings = (step / STEPS).floor();
    let begin = 1.0 - 0.5_f64.powf(halvings);
    begin + (step - halvings * STEPS) / STEPS * 0.5_f64.powf(halvings + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::Tally;

    #[test]
    fn the_text_is_that_of_hdrhistogram() {
        let tally = Tally::new(100_001, 0);
        for value in 1..=1000_u64 {
            assert!(tally.add_short(value * 100));
        }
        let text = text(&tally.look(), &Clock::MONOTONIC);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "       Value     Percentile TotalCount 1/(1-Percentile)");
        assert_eq!(lines[2], "       0.100 0.001000000000          1           1.00");
        assert_eq!(lines[3], "      10.000 0.100000000000        100           1.11");
        assert_eq!(lines[7], "      50.000 0.500000000000        500           2.00");
        assert_eq!(lines[8], "      55.000 0.550000000000        550           2.22");
        let end = lines.len() - 3;
        assert_eq!(lines[end], "     100.000 1.000000000000       1000");
        assert_eq!(
            lines[end + 1],
            "#[Mean    =       50.050, StdDeviation   =       28.867]"
        );
        assert_eq!(
            lines[end + 2],
            "#[Max     =      100.000, Total count    =         1000]"
        );
    }

    #[test]
    fn nothing_has_no_rows() {
        let text = text(&Snapshot::default(), &Clock::MONOTONIC);
        assert_eq!(text.lines().filter(|line| !line.starts_with('#')).count(), 2, "{text}");
    }
}
