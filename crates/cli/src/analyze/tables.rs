// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables of a report as text, with bars.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use piste_analysis::report::{Column, Report, Table, Unit, Value};

use crate::columns::{Align, Cell, Columns};
use crate::page::Width;
use crate::quantity::{count, duration, size};
use crate::screen::{FAINT, STRONG, styled};

/// Rows of a list of single occurrences that stands beside other tables.
const EXCERPT_ROWS: usize = 20;

/// How tables are shown.
pub(crate) struct Look<'l> {
    pub(crate) zone: &'l TimeZone,
    pub(crate) width: Width,
    /// Of lists of single occurrences, all rows rather than an excerpt.
    pub(crate) has_all_rows: bool,
}

/// All tables, each under its title.
pub(crate) fn text(report: &Report, look: &Look<'_>) -> String {
    let tables: Vec<String> = report.tables.iter().map(|table| table_text(table, look)).collect();
    tables.join("\n")
}

fn table_text(table: &Table, look: &Look<'_>) -> String {
    let title = styled(STRONG, &table.title);
    if table.rows.is_empty() {
        return format!("{title}\n  none\n");
    }
    let rows = match table.excerpt_by {
        Some(key) if !look.has_all_rows => table.excerpt(key, EXCERPT_ROWS),
        _ => (0..table.rows.len()).collect(),
    };
    let columns = columns(table, &rows, look.zone);
    let mut text = format!("{title}\n{}", columns.lines(2, look.width));
    if rows.len() < table.rows.len() {
        let all = count(table.rows.len() as i64);
        let sentence = format!("the {EXCERPT_ROWS} longest of {all} (--table {} shows all)", table.name);
        text += &format!("  {}\n", styled(FAINT, sentence));
    }
    text
}

/// The columns of a table in which something is: others would only take the place of those that say something.
pub(crate) fn shown_columns(table: &Table) -> Vec<usize> {
    let says = |place: usize| {
        let is_id = table.columns[place].unit == Unit::Id;
        let mut values = table.rows.iter().map(|row| &row[place]);
        values.any(|value| !is_nothing(value) || is_id && *value == Value::Number(0))
    };
    let mut shown: Vec<usize> = (0..table.columns.len()).filter(|place| says(*place)).collect();
    if shown.is_empty() {
        shown.push(0);
    }
    shown
}

fn columns(table: &Table, rows: &[usize], zone: &TimeZone) -> Columns {
    let shown = shown_columns(table);
    let mut columns = Columns::none();
    for place in &shown {
        let column = &table.columns[*place];
        columns.add(column.heading, align(column), column.importance);
        if column.has_bar {
            columns.add_bars();
        }
    }
    for row in rows.iter().map(|row| &table.rows[*row]) {
        let mut cells = Vec::new();
        for place in &shown {
            let column = &table.columns[*place];
            cells.push(Cell::from(
                table.indent(row, *place) + &value(column, &row[*place], zone),
            ));
            if column.has_bar {
                cells.push(Cell::bar(bar(table, row, *place)));
            }
        }
        columns.row_of(cells);
    }
    columns
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::None | Value::Number(0) => true,
        Value::Text(text) => text.is_empty(),
        Value::Durations(all) => all.is_empty(),
        _ => false,
    }
}

pub(crate) fn align(column: &Column) -> Align {
    match column.unit {
        Unit::Text | Unit::Durations => Align::Left,
        _ => Align::Right,
    }
}

pub(crate) fn value(column: &Column, value: &Value, zone: &TimeZone) -> String {
    match (value, column.unit) {
        (Value::None, _) => "-".into(),
        (Value::Text(text), _) => text.clone(),
        (Value::Durations(all), _) => {
            let all: Vec<String> = all
                .iter()
                .map(|(name, ns)| format!("{name} {}", duration(*ns)))
                .collect();
            all.join(", ")
        }
        (Value::Percent(percent), _) => format!("{percent:.1}"),
        (Value::Number(number), Unit::Nanoseconds) => duration(*number),
        (Value::Number(number), Unit::Count) => count(*number),
        (Value::Number(number), Unit::Bytes) => size(*number),
        (Value::Number(number), Unit::Moment) => moment(*number, zone),
        (Value::Number(number), _) => number.to_string(),
    }
}

/// `09:41:07.123456789`
pub(crate) fn moment(ns: i64, zone: &TimeZone) -> String {
    match Timestamp::from_nanosecond(ns.into()) {
        Ok(timestamp) => {
            let time = zone.to_datetime(timestamp).time();
            let (hour, minute, second) = (time.hour(), time.minute(), time.second());
            format!("{hour:02}:{minute:02}:{second:02}.{:09}", time.subsec_nanosecond())
        }
        Err(_) => ns.to_string(),
    }
}

fn number(value: &Value) -> f64 {
    match value {
        Value::Number(number) => *number as f64,
        Value::Percent(percent) => *percent,
        _ => 0.0,
    }
}

/// How long the bar of a value is: a part of that of the largest in its column, of all rows, so that bars are the same in an excerpt.
pub(crate) fn bar(table: &Table, row: &[Value], place: usize) -> f64 {
    let longest = table.rows.iter().map(|row| number(&row[place])).fold(0.0, f64::max);
    if longest > 0.0 {
        number(&row[place]) / longest
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use piste_analysis::report::column;

    use super::*;

    fn seen(table: &Table, has_all_rows: bool) -> String {
        let look = Look {
            zone: &TimeZone::UTC,
            width: Width::ANY,
            has_all_rows,
        };
        anstream::adapter::strip_str(&table_text(table, &look)).to_string()
    }

    #[test]
    fn columns_without_anything_are_not_shown() {
        let columns = [
            column("tid", "TID", Unit::Id),
            column("a_ns", "A", Unit::Nanoseconds),
            column("b_ns", "B", Unit::Nanoseconds).with_bar(),
        ];
        let mut table = Table::new("threads", "Threads", &columns);
        table.row([Value::Number(7), Value::Number(0), Value::Number(1500)]);
        assert_eq!(
            seen(&table, true),
            "Threads\n  TID        B\n    7  1.50 µs  ████████████████\n"
        );
    }

    #[test]
    fn a_list_of_occurrences_is_shown_in_part() {
        let mut table = Table::new("path", "Path", &[column("duration_ns", "DURATION", Unit::Nanoseconds)]);
        (1..=50).for_each(|ns| table.row([Value::Number(ns)]));
        table.excerpt_by = Some("duration_ns");
        assert_eq!(seen(&table, true).lines().count(), 52);
        let part = seen(&table, false);
        assert!(part.starts_with("Path\n  DURATION\n     31 ns\n"), "{part}");
        assert!(
            part.ends_with("     50 ns\n  the 20 longest of 50 (--table path shows all)\n"),
            "{part}"
        );
    }
}
