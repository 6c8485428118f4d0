// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is different between the reports of one analysis about two traces.
//!
//! Rows are the same when what they are about has the same name: a thread's name, a system call, a CPU. Ids of threads and processes are
//! others in every run; what has the same name is summed up. Tables of single occurrences, each with its time, have nothing in common and
//! are left out.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::analysis::{Description, Options};
use crate::model::{Circumstances, System};
use crate::report::{Column, Report, Table, Unit, Value};

/// One side of a comparison.
#[derive(Clone, Copy)]
pub struct Side<'r> {
    /// What an analysis has found out.
    pub report: &'r Report,
    /// How long the trace is.
    pub duration_ns: i64,
}

/// Something that was measured on both sides.
#[derive(Clone, Debug)]
pub struct Change {
    /// The table.
    pub table: &'static str,
    /// What it is about: `cc1`, `read`.
    pub about: Vec<String>,
    /// The columns that have it: `comm`, `syscall`.
    pub about_keys: Vec<&'static str>,
    /// What was measured.
    pub measure: Column,
    /// It is a sum, which grows with the time: given for each second of the trace, if that was asked for.
    pub is_sum: bool,
    /// In the first trace; absent: it is not there, and that does not mean 0.
    pub before: Option<f64>,
    /// In the second one.
    pub after: Option<f64>,
    /// How much changed: time in nanoseconds; of counts, which part of the whole column.
    pub weight: f64,
}

impl Change {
    /// How much more it is.
    pub fn difference(&self) -> Option<f64> {
        Some(self.after? - self.before?)
    }

    /// The same as a part of 100 of what it was; absent where that was nothing.
    pub fn percent(&self) -> Option<f64> {
        let before = self.before.filter(|before| *before != 0.0)?;
        Some(100.0 * self.difference()? / before)
    }
}

/// An analysis has tables that can be compared.
pub fn is_comparable(analysis: &Description) -> bool {
    let nothing = System::new(Circumstances::whole(0));
    let report = (analysis.begin)(&Options::default()).report(&nothing);
    report.tables.iter().any(is_summary)
}

/// All that changed, most first.
pub fn changes(before: Side<'_>, after: Side<'_>, is_per_second: bool) -> Vec<Change> {
    let scale = |side: Side<'_>| match is_per_second && side.duration_ns > 0 {
        true => 1e9 / side.duration_ns as f64,
        false => 1.0,
    };
    let mut changes = Vec::new();
    for table in after.report.tables.iter().filter(|table| is_summary(table)) {
        if let Some(earlier) = before.report.tables.iter().find(|earlier| earlier.name == table.name) {
            of_table(&mut changes, (earlier, scale(before)), (table, scale(after)));
        }
    }
    changes.sort_by(Change::order);
    changes
}

impl Change {
    /// Times before counts, most first; in an order that is always the same.
    pub fn order(&self, other: &Change) -> Ordering {
        let is_count = |change: &Change| change.measure.unit != Unit::Nanoseconds;
        let by_unit = is_count(self).cmp(&is_count(other));
        let by_weight = by_unit.then_with(|| other.weight.total_cmp(&self.weight));
        // Of one occurrence, the sum is as good as its mean.
        let by_kind = by_weight.then_with(|| other.is_sum.cmp(&self.is_sum));
        by_kind.then_with(|| (&self.about, self.measure.key).cmp(&(&other.about, other.measure.key)))
    }
}

fn of_table(changes: &mut Vec<Change>, before: (&Table, f64), after: (&Table, f64)) {
    let table_name = after.0.name;
    let about_keys: Vec<&'static str> = about(&after.0.columns).map(|(_, column)| column.key).collect();
    // What rows are about is put together once: tables may have millions of rows.
    let mut all: BTreeMap<Vec<String>, usize> = BTreeMap::new();
    let mut numbers = |table: &Table| -> Vec<usize> {
        let about: Vec<(usize, &Column)> = about(&table.columns).collect();
        let mut number = |row: &Vec<Value>| {
            let next = all.len();
            let about = about.iter().map(|(place, column)| named(column, &row[*place]));
            *all.entry(about.collect()).or_insert(next)
        };
        table.rows.iter().map(&mut number).collect()
    };
    let (numbers_before, numbers_after) = (numbers(before.0), numbers(after.0));
    for column in &after.0.columns {
        let Role::Measure(join) = role(column) else { continue };
        let is_sum = join == Join::Sum;
        let values_before = values(before.0, &numbers_before, column, join, all.len());
        let values_after = values(after.0, &numbers_after, column, join, all.len());
        let first = changes.len();
        let mut whole = 0.0;
        for (about, number) in &all {
            let side = |value: Joined, scale: f64| match value {
                Joined::One(value) if is_sum => Some(value * scale),
                // What did not happen took no time.
                Joined::None if is_sum => Some(0.0),
                Joined::One(value) => Some(value),
                Joined::None | Joined::Several => None,
            };
            let (value_before, value_after) = (values_before[*number], values_after[*number]);
            if matches!((value_before, value_after), (Joined::None, Joined::None)) {
                continue;
            }
            let (before, after) = (side(value_before, before.1), side(value_after, after.1));
            whole += before.unwrap_or(0.0).max(after.unwrap_or(0.0));
            if before != after {
                changes.push(Change {
                    table: table_name,
                    about: about.clone(),
                    about_keys: about_keys.clone(),
                    measure: *column,
                    is_sum,
                    before,
                    after,
                    weight: 0.0,
                });
            }
        }
        for change in &mut changes[first..] {
            let difference = change.difference().unwrap_or(0.0).abs();
            change.weight = match column.unit {
                Unit::Nanoseconds => difference,
                _ if whole > 0.0 => difference / whole,
                _ => 0.0,
            };
        }
    }
}

/// The columns that say what a row is about, with their places.
fn about(columns: &[Column]) -> impl Iterator<Item = (usize, &Column)> {
    let columns = columns.iter().enumerate();
    columns.filter(|(_, column)| role(column) == Role::About)
}

/// What a column is, in a comparison: its key and its unit tell.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// What a row is about.
    About,
    Measure(Join),
    /// Means something in one trace only, or follows from other columns.
    Nothing,
    /// When something happened.
    Moment,
}

/// How values of rows that are about the same become one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Join {
    Sum,
    Least,
    Most,
    /// There is no way: a mean or a percentile of several.
    Single,
}

fn role(column: &Column) -> Role {
    let begins = |begin: &str| column.key.starts_with(begin) || column.key.contains(&format!("_{begin}"));
    match (column.key, column.unit) {
        ("from_ns" | "until_ns" | "from_bytes" | "until_bytes" | "cpu", _) => Role::About,
        // A list of CPUs with numbers. A function that is at another line is the same.
        ("cpus" | "line", Unit::Text) | ("absent_ns" | "per_second", _) => Role::Nothing,
        // When the most was.
        ("peak_at_ns", _) => Role::Nothing,
        (_, Unit::Text) => Role::About,
        (_, Unit::Moment) => Role::Moment,
        (_, Unit::Id | Unit::Percent | Unit::Durations) => Role::Nothing,
        _ if begins("min_") => Role::Measure(Join::Least),
        _ if begins("max_") || begins("peak_") || begins("largest_") => Role::Measure(Join::Most),
        _ if begins("mean_") || begins("p50_") || begins("p95_") || begins("p99_") => Role::Measure(Join::Single),
        _ => Role::Measure(Join::Sum),
    }
}

fn is_summary(table: &Table) -> bool {
    !table.columns.iter().any(|column| role(column) == Role::Moment)
}

/// What the rows that are about the same have in a column.
#[derive(Clone, Copy)]
enum Joined {
    None,
    One(f64),
    /// Which cannot become one.
    Several,
}

/// The values of a column, by the number of what they are about; `numbers` has that of each row.
fn values(table: &Table, numbers: &[usize], column: &Column, join: Join, count: usize) -> Vec<Joined> {
    let mut values = vec![Joined::None; count];
    let Some(place) = table.columns.iter().position(|known| known.key == column.key) else {
        return values;
    };
    for (row, number) in table.rows.iter().zip(numbers) {
        let Value::Number(value) = row[place] else { continue };
        let (value, joined) = (value as f64, &mut values[*number]);
        *joined = match (*joined, join) {
            (Joined::None, _) => Joined::One(value),
            (Joined::Several, _) | (Joined::One(_), Join::Single) => Joined::Several,
            (Joined::One(known), Join::Least) => Joined::One(known.min(value)),
            (Joined::One(known), Join::Most) => Joined::One(known.max(value)),
            (Joined::One(known), Join::Sum) => Joined::One(known + value),
        };
    }
    values
}

/// Without the ids of the run: `cc1 (4711)` is `cc1`.
fn named(column: &Column, value: &Value) -> String {
    match value {
        Value::None => "-".to_owned(),
        Value::Number(number) if column.key == "cpu" => format!("CPU {number}"),
        Value::Number(number) => number.to_string(),
        Value::Percent(percent) => percent.to_string(),
        Value::Durations(all) => all.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", "),
        Value::Text(text) => match text.rsplit_once(" (") {
            Some((name, rest))
                if rest
                    .strip_suffix(')')
                    .is_some_and(|id| id.bytes().all(|byte| byte.is_ascii_digit())) =>
            {
                name.to_owned()
            }
            _ => text.clone(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::column;

    fn report(rows: &[(i64, &str, i64, i64, i64)]) -> Report {
        let columns = [
            column("tid", "TID", Unit::Id),
            column("comm", "NAME", Unit::Text),
            column("total_ns", "TOTAL", Unit::Nanoseconds),
            column("max_ns", "MAX", Unit::Nanoseconds),
            column("mean_ns", "MEAN", Unit::Nanoseconds),
        ];
        let mut table = Table::new("threads", "Threads", &columns);
        for (tid, comm, total, max, mean) in rows {
            table.row([
                Value::Number(*tid),
                Value::from(*comm),
                Value::Number(*total),
                Value::Number(*max),
                Value::Number(*mean),
            ]);
        }
        Report {
            tables: vec![table],
            notes: Vec::new(),
        }
    }

    /// `NAME MEASURE BEFORE AFTER`, most first.
    fn check(before: &Report, after: &Report, per_second_of: Option<(i64, i64)>, expected: &[&str]) {
        let (duration_before, duration_after) = per_second_of.unwrap_or((1, 1));
        let side = |report, duration_ns| Side { report, duration_ns };
        let found = changes(
            side(before, duration_before),
            side(after, duration_after),
            per_second_of.is_some(),
        );
        let text = |value: Option<f64>| value.map_or("-".to_owned(), |value| value.to_string());
        let lines: Vec<String> = found
            .iter()
            .map(|change| {
                format!(
                    "{} {} {} {}",
                    change.about.join(" "),
                    change.measure.key,
                    text(change.before),
                    text(change.after)
                )
            })
            .collect();
        assert_eq!(lines, expected);
    }

    #[test]
    fn rows_are_matched_by_name_and_those_of_one_name_are_one() {
        let before = report(&[
            (1, "cc1", 100, 60, 50),
            (2, "cc1", 100, 90, 50),
            (3, "sh (3)", 10, 5, 5),
        ]);
        let after = report(&[(7, "cc1", 500, 80, 50), (8, "sh (8)", 10, 5, 5), (9, "ld", 40, 40, 40)]);
        check(
            &before,
            &after,
            None,
            &[
                "cc1 total_ns 200 500",
                "ld total_ns 0 40",
                "cc1 max_ns 90 80",
                "cc1 mean_ns - 50",
                "ld max_ns - 40",
                "ld mean_ns - 40",
            ],
        );
        check(&before, &before, None, &[]);
    }

    #[test]
    fn only_sums_grow_with_the_time() {
        let second = 1_000_000_000;
        let before = report(&[(1, "cc1", 100, 60, 50)]);
        let after = report(&[(1, "cc1", 200, 60, 50)]);
        check(&before, &after, Some((second, 2 * second)), &[]);
        check(&before, &after, Some((second, second)), &["cc1 total_ns 100 200"]);
    }

    #[test]
    fn a_function_is_the_same_on_another_line_and_the_most_is_no_sum() {
        let report = |rows: [(&str, &str, i64); 2]| {
            let columns = [
                column("function", "CALLER", Unit::Text),
                column("line", "LINE", Unit::Text),
                column("peak_bytes", "PEAK", Unit::Bytes),
                column("peak_at_ns", "AT", Unit::Moment),
                column("per_second", "PER SECOND", Unit::Count),
            ];
            let mut table = Table::new("processes", "Heaps", &columns);
            for (function, line, peak) in rows {
                table.row([
                    function.into(),
                    line.into(),
                    Value::Number(peak),
                    Value::Number(peak),
                    Value::Number(peak),
                ]);
            }
            Report {
                tables: vec![table],
                notes: Vec::new(),
            }
        };
        let before = report([("main", "a.c:1", 5), ("main", "a.c:2", 7)]);
        let after = report([("main", "a.c:3", 2), ("main", "a.c:9", 11)]);
        check(&before, &after, None, &["main peak_bytes 7 11"]);
    }

    #[test]
    fn lists_of_occurrences_are_not_compared() {
        let is_comparable = |name: &str| {
            let analysis = crate::analyses::ALL.iter().find(|known| known.name == name);
            is_comparable(analysis.unwrap_or_else(|| panic!("{name}")))
        };
        assert!(
            ["ltt", "cputop", "syscallstats", "schedstats", "irqfreq"]
                .into_iter()
                .all(is_comparable)
        );
        assert!(
            !["schedlog", "schedtop", "irqlog", "iolog", "procs"]
                .into_iter()
                .any(is_comparable)
        );
    }

    #[test]
    fn a_change_is_a_number_and_a_part_of_what_was() {
        let found = changes(
            Side {
                report: &report(&[(1, "a", 200, 1, 1)]),
                duration_ns: 1,
            },
            Side {
                report: &report(&[(1, "a", 150, 1, 1)]),
                duration_ns: 1,
            },
            false,
        );
        assert_eq!((found[0].difference(), found[0].percent()), (Some(-50.0), Some(-25.0)));
        assert_eq!(
            (&*found[0].about, &*found[0].about_keys),
            (&["a".to_owned()][..], &["comm"][..])
        );
    }
}
