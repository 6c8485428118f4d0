// SPDX-License-Identifier: MIT OR Apache-2.0
//! What lttng-analyses says of a trace.

use std::path::Path;

use piste_support::Workplace;
use piste_support::build_tree::repository;
use piste_support::report::text;
use serde_json::Value;

/// It runs under the system's Python, for which its package is.
const PYTHON: &str = "/usr/bin/python3";

/// Whether it can run here; says once why not.
pub(crate) fn is_here(place: &Workplace) -> bool {
    let is_here = Path::new(PYTHON).exists()
        && place.run(PYTHON, &["-c", "import lttnganalyses, babeltrace"]).success()
        && place.run("sh", &["-c", "command -v babeltrace"]).success();
    if !is_here {
        println!("skipped: lttng-analyses is not installed (python3-lttnganalyses, python3-babeltrace)");
    }
    is_here
}

/// Its answers, as tables.
pub(crate) struct Answer(Value);

/// A row of a table: objects with a class.
pub(crate) struct Row<'a>(&'a [Value]);

impl<'a> Row<'a> {
    /// What a column says, if it says anything: `name`, `value`, `tid`, ...
    pub(crate) fn get(&self, column: usize, key: &str) -> Option<&'a Value> {
        self.0[column].get(key)
    }

    /// A whole number.
    ///
    /// # Panics
    /// It is none.
    pub(crate) fn number(&self, column: usize, key: &str) -> i64 {
        let number = self.get(column, key).and_then(Value::as_i64);
        number.unwrap_or_else(|| panic!("no {key} in column {column}: {:?}", self.0))
    }

    /// A number that may be a fraction.
    ///
    /// # Panics
    /// It is none.
    pub(crate) fn fraction(&self, column: usize, key: &str) -> f64 {
        let number = self.get(column, key).and_then(Value::as_f64);
        number.unwrap_or_else(|| panic!("no {key} in column {column}: {:?}", self.0))
    }

    pub(crate) fn text(&self, column: usize, key: &str) -> &'a str {
        let text = self.get(column, key).and_then(Value::as_str);
        text.unwrap_or_else(|| panic!("no {key} in column {column}: {:?}", self.0))
    }

    /// A column with a begin and an end.
    pub(crate) fn range(&self, column: usize) -> (i64, i64) {
        let end = |key| self.get(column, key).and_then(|time| time["value"].as_i64());
        (end("begin").expect("a time"), end("end").expect("a time"))
    }
}

/// Runs one of its analyses; all of the trace, not only the time of which all streams tell. That may fail.
pub(crate) fn try_ask(place: &Workplace, trace: &str, analysis: &str, options: &[&str]) -> Value {
    let script = repository().join("tests/suite/tests/peer_analyses/lttng_analyses.py");
    let whole = ["--skip-validation", "--no-intersection", trace];
    let (mended, options) = match options {
        ["--mended", rest @ ..] => (vec!["--mended"], rest),
        _ => (vec![], options),
    };
    let arguments = [&[text(&script)], &mended[..], &[analysis], options, &whole].concat();
    let said = place.run(PYTHON, &arguments);
    let line = said.stdout.lines().last().unwrap_or_default();
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {}", said.stdout))
}

/// Runs one of its analyses, mended.
///
/// # Panics
/// It fails.
pub(crate) fn ask(place: &Workplace, trace: &str, analysis: &str, options: &[&str]) -> Answer {
    let said = try_ask(place, trace, analysis, &[&["--mended"], options].concat());
    assert!(said["results"].is_array(), "{analysis}: {said}");
    Answer(said)
}

impl Answer {
    /// The tables of a class, each with its title, which is empty if the class has only one table.
    pub(crate) fn tables(&self, class: &str) -> impl Iterator<Item = (&str, impl Iterator<Item = Row<'_>>)> {
        let results = self.0["results"].as_array().expect("tables");
        results.iter().filter_map(move |table| {
            let (name, title) = match &table["class"] {
                Value::String(name) => (name.as_str(), ""),
                own => (own["inherit"].as_str()?, own["title"].as_str()?),
            };
            let rows = table["data"].as_array()?.iter();
            (name == class).then(|| (title, rows.map(|row| Row(row.as_array().expect("a row")))))
        })
    }

    /// The rows of the only table of a class, or of that whose title has this end.
    pub(crate) fn rows(&self, class: &str, end: &str) -> Vec<Row<'_>> {
        let tables = self.tables(class).filter(|(title, _)| title.ends_with(end));
        tables.flat_map(|(_, rows)| rows).collect()
    }
}

/// A sum, of which it says the mean of so many.
pub(crate) fn sum(mean: f64, count: i64) -> i64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "sums are far below 2^53"
    )]
    let sum = (mean * count as f64).round() as i64;
    sum
}
