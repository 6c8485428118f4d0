// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an analysis has found out: tables whose columns say what they are. Who shows them chooses the form; JSON and CSV are here.

use std::fmt::Write;

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

/// What an analysis has found out.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The most important first.
    pub tables: Vec<Table>,
    /// Sentences about what the tables cannot say. What concerns one table alone is in its own notes.
    pub notes: Vec<String>,
}

impl Report {
    /// All sentences: of the report, then of its tables.
    pub fn all_notes(&self) -> impl Iterator<Item = &String> {
        self.notes
            .iter()
            .chain(self.tables.iter().flat_map(|table| &table.notes))
    }
}

/// Rows of values.
#[derive(Clone, Debug)]
pub struct Table {
    /// One word, for programs.
    pub name: &'static str,
    /// For people.
    pub title: String,
    /// What each value of a row is.
    pub columns: Vec<Column>,
    /// The most important first.
    pub rows: Vec<Vec<Value>>,
    /// Sentences about this table alone.
    pub notes: Vec<String>,
    /// It lists single occurrences: beside other tables, people see only those with the highest values of the column that has this key.
    pub excerpt_by: Option<&'static str>,
}

/// What the values of a column are.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// For programs; ends with the unit.
    pub key: &'static str,
    /// For people.
    pub heading: &'static str,
    /// What the numbers are.
    pub unit: Unit,
    /// Its values are also drawn.
    pub has_bar: bool,
    /// Whether people see it where there is not room for all.
    pub importance: Importance,
    /// People see its texts as a tree: as deep as the column of this key says.
    pub depth: Option<&'static str>,
}

/// How much the answer needs a column. Programs get all columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Importance {
    /// The first to be left out.
    Minor,
    /// Left out if there is too little room even so.
    Normal,
    /// Always shown: it is the answer, or says whose it is.
    Major,
}

/// What numbers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// No number.
    Text,
    /// An id: shown as it is.
    Id,
    /// How many.
    Count,
    /// How large.
    Bytes,
    /// How long, in nanoseconds.
    Nanoseconds,
    /// When, in nanoseconds from the clock's origin.
    Moment,
    /// A part of 100.
    Percent,
    /// Names, and for each how long, in nanoseconds.
    Durations,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Unknown, or there is none.
    None,
    /// A text.
    Text(String),
    /// A whole number.
    Number(i64),
    /// A part of 100.
    Percent(f64),
    /// Names, each with a duration in nanoseconds, the longest first.
    Durations(Vec<(String, i64)>),
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

impl From<u64> for Value {
    fn from(count: u64) -> Value {
        Value::Number(i64::try_from(count).unwrap_or(i64::MAX))
    }
}

impl<T: Into<i64>> From<Option<T>> for Value {
    fn from(number: Option<T>) -> Value {
        number.map_or(Value::None, |number| Value::Number(number.into()))
    }
}

impl Value {
    /// So many of all; nothing of nothing.
    pub fn share(part: i64, all: i64) -> Value {
        match all {
            0 => Value::None,
            all => Value::Percent(100.0 * part as f64 / all as f64),
        }
    }
}

/// A sentence that begins with a number: `1 call is not counted`, `2 calls are not counted`. None about nothing.
pub(crate) fn counted(count: u64, of_one: &str, of_many: &str) -> Option<String> {
    match count {
        0 => None,
        1 => Some(format!("1 {of_one}")),
        many => Some(format!("{many} {of_many}")),
    }
}

/// What lies deeper in a tree is not shown further to the right.
const INDENT_MAX: i64 = 40;

/// A column of one.
pub const fn column(key: &'static str, heading: &'static str, unit: Unit) -> Column {
    Column {
        key,
        heading,
        unit,
        has_bar: false,
        importance: Importance::Normal,
        depth: None,
    }
}

impl Column {
    /// The same, shown as a tree.
    pub const fn as_tree(self, depth: &'static str) -> Column {
        Column {
            depth: Some(depth),
            ..self
        }
    }

    /// The same, always shown.
    pub const fn major(self) -> Column {
        Column {
            importance: Importance::Major,
            ..self
        }
    }

    /// The same, left out where there is little room.
    pub const fn minor(self) -> Column {
        Column {
            importance: Importance::Minor,
            ..self
        }
    }

    /// The same, also drawn.
    pub const fn with_bar(self) -> Column {
        Column { has_bar: true, ..self }
    }
}

impl Table {
    /// Without rows.
    pub fn new(name: &'static str, title: impl Into<String>, columns: &[Column]) -> Table {
        Table {
            name,
            title: title.into(),
            columns: columns.to_vec(),
            rows: Vec::new(),
            notes: Vec::new(),
            excerpt_by: None,
        }
    }

    /// The places of its `count` rows with the highest values of the column that an excerpt is by, in the order of the rows.
    pub fn excerpt(&self, key: &str, count: usize) -> Vec<usize> {
        let place = self.place(key);
        let mut places: Vec<usize> = (0..self.rows.len()).collect();
        places.sort_by(|one, other| number(&self.rows[*other][place]).total_cmp(&number(&self.rows[*one][place])));
        places.truncate(count);
        places.sort_unstable();
        places
    }

    fn place(&self, key: &str) -> usize {
        let place = self.columns.iter().position(|column| column.key == key);
        place.expect("it has that column")
    }

    /// Adds a row; one value for each column.
    pub fn row(&mut self, values: impl IntoIterator<Item = Value>) {
        let row: Vec<Value> = values.into_iter().collect();
        assert_eq!(row.len(), self.columns.len(), "{}", self.name);
        self.rows.push(row);
    }

    /// What stands before a value of a row where people see it, in a column that is shown as a tree.
    pub fn indent(&self, row: &[Value], place: usize) -> String {
        let is_depth = |key| self.columns.iter().position(|column| column.key == key);
        match self.columns[place].depth.and_then(is_depth).map(|depth| &row[depth]) {
            Some(Value::Number(depth)) => "  ".repeat((*depth).clamp(0, INDENT_MAX) as usize),
            _ => String::new(),
        }
    }

    /// The rows with the highest numbers of a column first.
    pub fn sort_by(&mut self, key: &str) {
        let place = self.place(key);
        self.rows
            .sort_by(|one, other| number(&other[place]).total_cmp(&number(&one[place])));
    }

    /// As CSV, with a heading of the columns' keys.
    pub fn csv(&self) -> String {
        let mut text = String::new();
        let keys: Vec<&str> = self.columns.iter().map(|column| column.key).collect();
        let _ = writeln!(text, "{}", keys.join(","));
        for row in &self.rows {
            let cells: Vec<String> = row.iter().map(Value::csv).collect();
            let _ = writeln!(text, "{}", cells.join(","));
        }
        text
    }
}

fn number(value: &Value) -> f64 {
    match value {
        Value::Number(number) => *number as f64,
        Value::Percent(percent) => *percent,
        _ => f64::MIN,
    }
}

impl Value {
    /// Texts with commas, quotes or line breaks are quoted (RFC 4180).
    pub(crate) fn csv(&self) -> String {
        match self {
            Value::Durations(all) => {
                let all: Vec<String> = all.iter().map(|(name, ns)| format!("{name} {ns}")).collect();
                Value::Text(all.join(", ")).csv()
            }
            Value::None => String::new(),
            Value::Number(number) => number.to_string(),
            Value::Percent(percent) => format!("{percent:.3}"),
            Value::Text(text) if text.contains([',', '"', '\n', '\r']) => format!("\"{}\"", text.replace('"', "\"\"")),
            Value::Text(text) => text.clone(),
        }
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Value::None => to.serialize_none(),
            Value::Text(text) => to.serialize_str(text),
            Value::Number(number) => to.serialize_i64(*number),
            Value::Percent(percent) => to.serialize_f64((percent * 1000.0).round() / 1000.0),
            Value::Durations(all) => to.collect_seq(all.iter().map(|(name, ns)| Named { name, ns: *ns })),
        }
    }
}

/// One of [`Value::Durations`].
#[derive(Serialize)]
struct Named<'v> {
    name: &'v str,
    ns: i64,
}

/// A row with the keys of its columns.
struct Row<'t>(&'t Table, &'t [Value]);

impl Serialize for Row<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.1.len()))?;
        for (column, value) in self.0.columns.iter().zip(self.1) {
            match (value, column.unit) {
                // More digits than the numbers of jq and JavaScript can hold.
                (Value::Number(ns), Unit::Moment) => map.serialize_entry(column.key, &ns.to_string())?,
                _ => map.serialize_entry(column.key, value)?,
            }
        }
        map.end()
    }
}

impl Serialize for Table {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.rows.iter().map(|row| Row(self, row)))
    }
}

impl Serialize for Report {
    /// Tables by their names, each a list of rows; and the notes.
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.tables.len() + 1))?;
        for table in &self.tables {
            map.serialize_entry(table.name, table)?;
        }
        map.serialize_entry("notes", &self.all_notes().collect::<Vec<_>>())?;
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_quotes_what_must_be() {
        let columns = [column("tid", "TID", Unit::Id), column("comm", "NAME", Unit::Text)];
        let mut table = Table::new("threads", "Threads", &columns);
        table.row([Value::Number(1), "a,\"b\"".into()]);
        table.row([Value::Number(7), Value::None]);
        assert_eq!(table.csv(), "tid,comm\n1,\"a,\"\"b\"\"\"\n7,\n");
        table.sort_by("tid");
        assert_eq!(table.rows[0][0], Value::Number(7));
    }

    #[test]
    fn an_excerpt_has_the_highest_in_the_order_of_all() {
        let mut table = Table::new("log", "All", &[column("duration_ns", "DURATION", Unit::Nanoseconds)]);
        for ns in [5, 9, 1, 7] {
            table.row([Value::Number(ns)]);
        }
        assert_eq!(table.excerpt("duration_ns", 2), [1, 3]);
        assert_eq!(table.excerpt("duration_ns", 9), [0, 1, 2, 3]);
    }

    #[test]
    fn one_is_counted_in_the_singular() {
        let told = |count| counted(count, "call is not counted", "calls are not counted");
        assert_eq!(told(0), None);
        assert_eq!(told(1).as_deref(), Some("1 call is not counted"));
        assert_eq!(told(2).as_deref(), Some("2 calls are not counted"));
    }

    #[test]
    fn what_is_more_than_a_number_can_be_is_the_largest() {
        assert_eq!(Value::from(7_u64), Value::Number(7));
        assert_eq!(Value::from(u64::MAX), Value::Number(i64::MAX));
    }
}
