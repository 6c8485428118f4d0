// SPDX-License-Identifier: MIT OR Apache-2.0
//! The histogram that `cyclictest -h MICROSECONDS -q` prints (rt-tests 2.4), byte for byte: a row for each microsecond with a column for each
//! thread, then the totals as comments, and the loops in which values were beyond the last row.

use std::fmt::Write;

use crate::tally::Histogram;

/// What one thread has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Column {
    /// Its histogram; all threads have the same number of rows.
    pub histogram: Histogram,
    /// Whole microseconds.
    pub min_us: u64,
    /// Whole microseconds.
    pub mean_us: u64,
    /// Whole microseconds.
    pub max_us: u64,
}

/// The text for some threads.
pub fn text(columns: &[Column]) -> String {
    let mut text = String::from("# Histogram\n");
    let rows = columns
        .iter()
        .map(|column| column.histogram.counts.len())
        .max()
        .unwrap_or(0);
    for row in 0..rows {
        let counts = columns
            .iter()
            .map(|column| column.histogram.counts.get(row).unwrap_or(&0));
        let counts: Vec<String> = counts.map(|count| format!("{count:06}")).collect();
        let _ = writeln!(text, "{row:06} {}", counts.join("\t"));
    }
    let total = |column: &Column| column.histogram.counts.iter().sum();
    line(&mut text, "Total", columns, 9, total);
    line(&mut text, "Min Latencies", columns, 5, |column| column.min_us);
    line(&mut text, "Avg Latencies", columns, 5, |column| column.mean_us);
    line(&mut text, "Max Latencies", columns, 5, |column| column.max_us);
    line(&mut text, "Histogram Overflows", columns, 5, |column| {
        column.histogram.overflows
    });
    text += "# Histogram Overflow at cycle number:\n";
    for (number, column) in columns.iter().enumerate() {
        let _ = write!(text, "# Thread {number}:");
        for cycle in &column.histogram.overflow_at {
            let _ = write!(text, " {cycle:05}");
        }
        let others = column.histogram.overflows - column.histogram.overflow_at.len() as u64;
        if others > 0 {
            let _ = write!(text, " # {others:05} others");
        }
        text.push('\n');
    }
    text.push('\n');
    text
}

fn line(text: &mut String, name: &str, columns: &[Column], digits: usize, value: impl Fn(&Column) -> u64) {
    let _ = write!(text, "# {name}:");
    for column in columns {
        let _ = write!(text, " {:0digits$}", value(column));
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What cyclictest 2.40 printed, but for its rows from 2 on.
    const PRINTED: &str = "\
# Histogram
000000 000000\t000000
000001 001958\t001989
# Total: 000001958 000001989
# Min Latencies: 00014 00014
# Avg Latencies: 00028 00025
# Max Latencies: 00367 00248
# Histogram Overflows: 00041 00000
# Histogram Overflow at cycle number:
# Thread 0: 00259 00329 # 00039 others
# Thread 1:

";

    #[test]
    fn the_text_is_that_of_cyclictest() {
        let columns = [
            Column {
                histogram: Histogram {
                    counts: vec![0, 1958],
                    overflows: 41,
                    overflow_at: vec![259, 329],
                },
                min_us: 14,
                mean_us: 28,
                max_us: 367,
            },
            Column {
                histogram: Histogram {
                    counts: vec![0, 1989],
                    ..Histogram::default()
                },
                min_us: 14,
                mean_us: 25,
                max_us: 248,
            },
        ];
        assert_eq!(text(&columns), PRINTED);
    }
}
