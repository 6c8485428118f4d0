// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tables of an interval as people see them: sorted, filtered, and with rates instead of counts.

use std::cmp::Ordering;

use jiff::tz::TimeZone;
use piste_analysis::report::{Column, Table, Unit, Value};

use crate::analyze::tables::value;
use crate::columns::{Align, Cell, Columns};
use crate::page::Width;

/// How threads are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order {
    /// The key of a column.
    pub(super) key: &'static str,
    pub(super) is_reversed: bool,
}

/// Sorts the rows: numbers from the highest down, texts and IDs from the lowest up; what is unknown comes last.
pub(super) fn sort(table: &mut Table, order: Order) {
    let Some(place) = table.columns.iter().position(|column| column.key == order.key) else {
        return;
    };
    let ascends = matches!(table.columns[place].unit, Unit::Text | Unit::Id) != order.is_reversed;
    table.rows.sort_by(|one, other| {
        let (one, other) = (&one[place], &other[place]);
        match (one == &Value::None, other == &Value::None) {
            (false, false) if ascends => compare(one, other),
            (false, false) => compare(other, one),
            (is_unknown, other_is_unknown) => is_unknown.cmp(&other_is_unknown),
        }
    });
}

fn compare(one: &Value, other: &Value) -> Ordering {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one.cmp(other),
        (Value::Percent(one), Value::Percent(other)) => one.total_cmp(other),
        (Value::Text(one), Value::Text(other)) => one.cmp(other),
        _ => Ordering::Equal,
    }
}

/// Keeps the rows whose name contains the text, in any case of letters.
pub(super) fn filter(table: &mut Table, text: &str) {
    let Some(place) = table.columns.iter().position(|column| column.key == "comm") else {
        return;
    };
    let text = text.to_lowercase();
    table.rows.retain(|row| match &row[place] {
        Value::Text(name) => name.to_lowercase().contains(&text),
        _ => text.is_empty(),
    });
}

/// Counts and bytes become what they are in a second.
pub(super) fn per_second(table: &mut Table, duration_ns: i64) {
    let is_rate = |column: &Column| matches!(column.unit, Unit::Count | Unit::Bytes);
    for row in &mut table.rows {
        for (column, value) in table.columns.iter().zip(row) {
            if let (true, Value::Number(number)) = (is_rate(column), value) {
                *number = (*number as f64 * 1e9 / duration_ns.max(1) as f64).round() as i64;
            }
        }
    }
    for column in table.columns.iter_mut().filter(|column| is_rate(column)) {
        column.heading = match column.heading {
            "CALLS" => "CALLS/S",
            "FAILED" => "FAILED/S",
            "REQUESTS" => "REQUESTS/S",
            "READ" => "READ/S",
            "WRITTEN" => "WRITTEN/S",
            other => other,
        };
    }
}

/// A heading and the first `rows` rows, behind `skipped` ones, in lines of at most `width` characters. Columns of which nothing is known are left out. The column that the rows
/// are sorted by has a mark.
pub(super) fn lines(table: &Table, order: Option<Order>, (skipped, rows): (usize, usize), width: usize) -> Vec<String> {
    let is_known = |place: &usize| table.rows.iter().any(|row| row[*place] != Value::None);
    let shown: Vec<usize> = (0..table.columns.len()).filter(is_known).collect();
    let mut columns = Columns::none();
    for column in shown.iter().map(|place| &table.columns[*place]) {
        let mark = order.filter(|order| order.key == column.key);
        let mark = mark.map_or("", |order| if order.is_reversed { "▲" } else { "▼" });
        let align = if column.unit == Unit::Text {
            Align::Left
        } else {
            Align::Right
        };
        columns.add(&format!("{}{mark}", column.heading), align, column.importance);
    }
    for row in table.rows.iter().skip(skipped).take(rows) {
        let cell = |place: &usize| Cell::from(value(&table.columns[*place], &row[*place], &TimeZone::UTC));
        columns.row_of(shown.iter().map(cell).collect());
    }
    match shown.is_empty() {
        true => Vec::new(),
        false => columns.plain_lines(Width::of(width)),
    }
}

#[cfg(test)]
mod tests {
    use piste_analysis::report::column;

    use super::*;

    fn table() -> Table {
        let columns = [
            column("tid", "TID", Unit::Id),
            column("comm", "NAME", Unit::Text),
            column("syscalls", "CALLS", Unit::Count),
        ];
        let mut table = Table::new("threads", "Threads", &columns);
        for (tid, name, calls) in [
            (3, "sh", Value::Number(10)),
            (1, "Init", Value::None),
            (2, "cc1", Value::Number(30)),
        ] {
            table.row([Value::Number(tid), name.into(), calls]);
        }
        table
    }

    fn tids(table: &Table) -> String {
        let tids: Vec<String> = table.rows.iter().map(|row| format!("{:?}", row[0])).collect();
        tids.join(" ").replace("Number", "")
    }

    #[test]
    fn unknown_values_come_last_in_either_order() {
        for (key, is_reversed, expected) in [
            ("syscalls", false, "(2) (3) (1)"),
            ("syscalls", true, "(3) (2) (1)"),
            ("tid", false, "(1) (2) (3)"),
            ("tid", true, "(3) (2) (1)"),
            ("comm", false, "(1) (2) (3)"),
        ] {
            let mut table = table();
            sort(&mut table, Order { key, is_reversed });
            assert_eq!(tids(&table), expected, "{key} {is_reversed}");
        }
    }

    #[test]
    fn a_filter_keeps_names_that_contain_it() {
        let mut table = table();
        filter(&mut table, "INI");
        assert_eq!(tids(&table), "(1)");
    }

    #[test]
    fn counts_become_rates() {
        let mut table = table();
        per_second(&mut table, 500_000_000);
        assert_eq!(table.rows[0][2], Value::Number(20));
        let order = Order {
            key: "syscalls",
            is_reversed: false,
        };
        let shown = lines(&table, Some(order), (1, 9), 80);
        assert_eq!(
            shown,
            ["TID  NAME  CALLS/S▼", "  1  Init         -", "  2  cc1         60"]
        );
    }
}
