// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables of a report as text, with bars.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use piste_analysis::report::{Column, Report, Table, Unit, Value};

use crate::columns::{Align, Cell, Columns};
use crate::quantity::{count, duration, size};
use crate::screen::{STRONG, styled};

/// Characters of the longest bar.
const BAR_WIDTH: usize = 16;
/// Eighths of a character.
const BLOCKS: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];

/// All tables, each under its title.
pub(super) fn text(report: &Report, zone: &TimeZone) -> String {
    let tables: Vec<String> = report.tables.iter().map(|table| table_text(table, zone)).collect();
    tables.join("\n")
}

fn table_text(table: &Table, zone: &TimeZone) -> String {
    let title = styled(STRONG, &table.title);
    // Columns in which nothing is would only take the place of those that say something.
    let says = |place: usize| {
        let is_id = table.columns[place].unit == Unit::Id;
        let mut values = table.rows.iter().map(|row| &row[place]);
        values.any(|value| !is_nothing(value) || is_id && *value == Value::Number(0))
    };
    let shown: Vec<usize> = (0..table.columns.len())
        .filter(|place| says(*place) || *place == 0)
        .collect();
    if table.rows.is_empty() {
        return format!("{title}\n  none\n");
    }
    let mut headings = Vec::new();
    for place in &shown {
        let column = &table.columns[*place];
        headings.push((column.heading, align(column)));
        if column.has_bar {
            headings.push(("", Align::Left));
        }
    }
    let mut columns = Columns::new(&headings);
    for row in &table.rows {
        let mut cells = Vec::new();
        for place in &shown {
            let column = &table.columns[*place];
            cells.push(Cell::from(
                table.indent(row, *place) + &value(column, &row[*place], zone),
            ));
            if column.has_bar {
                cells.push(Cell::from(bar(&row[*place], longest(table, *place))));
            }
        }
        columns.row_of(cells);
    }
    format!("{title}\n{}", columns.lines(2))
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::None | Value::Number(0) => true,
        Value::Text(text) => text.is_empty(),
        Value::Durations(all) => all.is_empty(),
        _ => false,
    }
}

fn align(column: &Column) -> Align {
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

fn longest(table: &Table, place: usize) -> f64 {
    table.rows.iter().map(|row| number(&row[place])).fold(0.0, f64::max)
}

fn bar(value: &Value, longest: f64) -> String {
    let eighths = match longest > 0.0 {
        true => (number(value).max(0.0) / longest * (8 * BAR_WIDTH) as f64).round() as usize,
        false => 0,
    };
    let mut bar = "█".repeat(eighths / 8);
    if eighths % 8 > 0 {
        bar.push(BLOCKS[eighths % 8 - 1]);
    }
    bar
}

#[cfg(test)]
mod tests {
    use piste_analysis::report::column;

    use super::*;

    #[test]
    fn bars_are_as_long_as_what_they_stand_for() {
        assert_eq!(bar(&Value::Number(100), 100.0).chars().count(), BAR_WIDTH);
        assert_eq!(bar(&Value::Number(50), 100.0), "████████");
        assert_eq!(bar(&Value::Number(1), 100.0), "▏");
        assert_eq!(bar(&Value::Number(0), 0.0), "");
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
        let seen = anstream::adapter::strip_str(&table_text(&table, &TimeZone::UTC)).to_string();
        assert_eq!(seen, "Threads\n  TID        B\n    7  1.50 µs  ████████████████\n");
    }
}
