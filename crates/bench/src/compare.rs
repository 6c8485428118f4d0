// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which differences between two reports are significant.
//!
//! A row differs if the interval of its ratio does not contain 1. The interval comes from the repetitions of both runs (`statistics`), so it covers
//! how much new processes vary, but not what was different for all of a run: another speed of the CPU, other versions. Such things are named.

use crate::report::{Report, Row};
use crate::statistics::{Estimate, ratio};

/// How sure an interval is. There are so many rows that one of them would differ by chance in most comparisons at 0.95.
pub const CONFIDENCE: f64 = 0.99;
/// The loop of known work took so much longer in one run: then the CPU was in another state.
const STATE_DIFFERENCE: f64 = 0.03;

/// Two reports.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Rows that both have.
    pub rows: Vec<Compared>,
    /// Names of rows that only one has.
    pub unmatched: Vec<String>,
    /// What was different for all of a run, as sentences without their ends.
    pub remarks: Vec<String>,
}

/// A row in two reports.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// Its name.
    pub name: String,
    /// How many threads of each process recorded.
    pub threads: u32,
    /// How many processes recorded.
    pub processes: u32,
    /// What an event contained.
    pub payload_bytes: u32,
    /// Its time in the first report.
    pub before_ns: f64,
    /// And in the second one.
    pub after_ns: f64,
    /// How many times as long the second one is.
    pub ratio: Estimate,
}

/// What a comparison says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The second one is faster.
    Faster,
    /// It is slower.
    Slower,
    /// The interval contains 1.
    Same,
    /// There are too few repetitions.
    Unknown,
}

impl Compared {
    /// Whether the difference is significant.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        match (self.ratio.low, self.ratio.high) {
            (Some(low), _) if low > 1.0 => Verdict::Slower,
            (_, Some(high)) if high < 1.0 => Verdict::Faster,
            (Some(_), Some(_)) => Verdict::Same,
            _ => Verdict::Unknown,
        }
    }
}

/// Compares the second report with the first.
#[must_use]
pub fn compare(before: &Report, after: &Report) -> Comparison {
    let is_same = |one: &Row, other: &Row| {
        let load = |row: &Row| (row.threads, row.processes, row.payload_bytes);
        one.name == other.name && load(one) == load(other)
    };
    let has = |rows: &[Row], row: &Row| rows.iter().any(|other| is_same(row, other));
    let pairs = before
        .rows
        .iter()
        .filter_map(|row| Some((row, after.rows.iter().find(|other| is_same(row, other))?)));
    let only = |rows: &[Row], others: &[Row]| -> Vec<String> {
        let rows = rows.iter().filter(|row| !has(others, row));
        rows.map(|row| row.name.clone()).collect()
    };
    Comparison {
        rows: pairs.map(|(before, after)| compared(before, after)).collect(),
        unmatched: [only(&before.rows, &after.rows), only(&after.rows, &before.rows)].concat(),
        remarks: remarks(before, after),
    }
}

fn compared(before: &Row, after: &Row) -> Compared {
    // Two clocks may not tell an empty loop from nothing.
    let positive = |row: &Row| -> Vec<f64> { row.repetitions_ns.iter().map(|ns| ns.max(1e-3)).collect() };
    Compared {
        name: before.name.clone(),
        threads: before.threads,
        processes: before.processes,
        payload_bytes: before.payload_bytes,
        before_ns: before.time_ns.value,
        after_ns: after.time_ns.value,
        ratio: ratio(&positive(after), &positive(before), CONFIDENCE),
    }
}

fn remarks(before: &Report, after: &Report) -> Vec<String> {
    let mut remarks = Vec::new();
    let (one, other) = (&before.machine, &after.machine);
    if one.processor != other.processor {
        remarks.push(format!(
            "the processors differ: {} and {}",
            one.processor, other.processor
        ));
    }
    if one.kernel != other.kernel {
        remarks.push(format!("the kernels differ: {} and {}", one.kernel, other.kernel));
    }
    for (tool, version) in &one.versions {
        if let Some(later) = other.versions.get(tool).filter(|later| *later != version) {
            remarks.push(format!("{tool} differs: {version} and {later}"));
        }
    }
    let speed = after.state.reference_median_ns / before.state.reference_median_ns;
    if one.processor == other.processor && (speed - 1.0).abs() > STATE_DIFFERENCE {
        remarks.push(format!(
            "the CPU was not equally fast: a loop of known work took {speed:.2} times as long in the second run; compare ratios to floor instead"
        ));
    }
    if before.method.is_quick || after.method.is_quick {
        remarks.push("one of the runs was --quick, which is too short for usable figures".into());
    }
    remarks
}
