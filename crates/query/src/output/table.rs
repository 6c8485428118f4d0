// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows as a table to look at: columns side by side, numbers to the right. The first thousand rows say how wide the columns are, so that
//! any number of rows can follow. On a terminal a row is one line: what does not fit is cut, the widest columns first.

use std::io::{self, Write};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use rustix::termios::tcgetwinsize;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::failure::printable;

/// Rows that say how wide columns are.
const ROWS_LOOKED_AT: usize = 1000;
const GAP: &str = "  ";
/// No column is cut below this.
const WIDTH_MIN: usize = 6;
const TIME: &str = "%Y-%m-%d %H:%M:%S%.9f";

/// Writes a table.
pub(super) struct TableWriter {
    to: Box<dyn Write + Send>,
    columns: Vec<Column>,
    /// Those that wait for the widths.
    rows: Vec<Vec<String>>,
    is_begun: bool,
    /// Of the terminal.
    width: Option<usize>,
}

struct Column {
    name: String,
    is_number: bool,
    width: usize,
}

impl TableWriter {
    /// `is_shown`: to stdout, which may be a terminal.
    pub(super) fn new(to: Box<dyn Write + Send>, schema: &SchemaRef, is_shown: bool) -> TableWriter {
        let column = |field: &std::sync::Arc<arrow::datatypes::Field>| Column {
            name: printable(field.name()).into_owned(),
            is_number: field.data_type().is_numeric(),
            width: field.name().width(),
        };
        let width = tcgetwinsize(io::stdout()).ok().map(|size| usize::from(size.ws_col));
        TableWriter {
            to,
            columns: schema.fields().iter().map(column).collect(),
            rows: Vec::new(),
            is_begun: false,
            width: width.filter(|width| is_shown && *width > 0),
        }
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        let options = FormatOptions::default()
            .with_timestamp_format(Some(TIME))
            .with_timestamp_tz_format(Some(TIME));
        let formatters: Vec<ArrayFormatter<'_>> = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column, &options))
            .collect::<Result<_, _>>()?;
        for row in 0..batch.num_rows() {
            let cells = formatters
                .iter()
                .map(|formatter| printable(&formatter.value(row).to_string()).into_owned());
            let cells: Vec<String> = cells.collect();
            if self.is_begun {
                self.line(&cells)?;
                continue;
            }
            for (column, cell) in self.columns.iter_mut().zip(&cells) {
                column.width = column.width.max(cell.width());
            }
            self.rows.push(cells);
            if self.rows.len() == ROWS_LOOKED_AT {
                self.begin()?;
            }
        }
        Ok(())
    }

    pub(super) fn finish(&mut self) -> io::Result<()> {
        if !self.is_begun {
            self.begin()?;
        }
        self.to.flush()
    }

    fn begin(&mut self) -> io::Result<()> {
        self.is_begun = true;
        self.fit();
        let names: Vec<String> = self.columns.iter().map(|column| column.name.clone()).collect();
        self.line(&names)?;
        for row in std::mem::take(&mut self.rows) {
            self.line(&row)?;
        }
        Ok(())
    }

    /// Narrows the widest columns until a line fits.
    fn fit(&mut self) {
        let Some(width) = self.width else { return };
        let gaps = GAP.len() * self.columns.len().saturating_sub(1);
        loop {
            let total: usize = self.columns.iter().map(|column| column.width).sum();
            let excess = (total + gaps).saturating_sub(width);
            let mut widths: Vec<usize> = self.columns.iter().map(|column| column.width).collect();
            widths.sort_unstable();
            let (Some(&widest), true) = (widths.last(), excess > 0) else {
                return;
            };
            // The widest become as wide as the next ones, or as is enough.
            let next = widths.iter().rev().find(|width| **width < widest).copied().unwrap_or(0);
            let count = widths.iter().filter(|width| **width == widest).count();
            let target = next.max(widest.saturating_sub(excess.div_ceil(count))).max(WIDTH_MIN);
            if target >= widest {
                return;
            }
            for column in &mut self.columns {
                column.width = column.width.min(target);
            }
        }
    }

    fn line(&mut self, cells: &[String]) -> io::Result<()> {
        let mut line = String::new();
        for (index, (column, cell)) in self.columns.iter().zip(cells).enumerate() {
            if index > 0 {
                line.push_str(GAP);
            }
            let cell = match self.width {
                Some(_) => cut(cell, column.width),
                None => cell.clone(),
            };
            let padding = " ".repeat(column.width.saturating_sub(cell.width()));
            match column.is_number {
                true => line.extend([padding, cell]),
                false => line.extend([cell, padding]),
            }
        }
        // More columns than a terminal is wide.
        let line = match self.width {
            Some(width) => cut(&line, width),
            None => line,
        };
        writeln!(self.to, "{}", line.trim_end())
    }
}

/// The start of a text, as wide as allowed, with an ellipsis when there is more.
fn cut(text: &str, width: usize) -> String {
    if text.trim_end().width() <= width {
        return text.trim_end().to_owned();
    }
    let mut kept = String::new();
    let mut used = 0;
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used + 1 > width {
            break;
        }
        kept.push(c);
    }
    kept + "…"
}
