// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows as a table to look at: columns side by side, numbers to the right. The first thousand rows say how wide the columns are, so that
//! any number of rows can follow. On a terminal a row is one line: texts are cut, the widest columns first; if that is not enough, the last
//! columns are left out, and a line at the end says so.

use std::io::{self, Write};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use piste_terminal::fit::{narrow, not_shown, shortened};
use piste_terminal::printable;
use unicode_width::UnicodeWidthStr;

/// Rows that say how wide columns are.
const ROWS_LOOKED_AT: usize = 1000;
const GAP: &str = "  ";
/// No text is cut below this.
const TEXT_WIDTH_MIN: usize = 12;
const TIME: &str = "%Y-%m-%d %H:%M:%S%.9f";

/// Writes a table.
pub(super) struct TableWriter {
    to: Box<dyn Write + Send>,
    columns: Vec<Column>,
    /// Those that wait for the widths.
    rows: Vec<Vec<String>>,
    is_begun: bool,
    /// Of the terminal.
    room: Option<usize>,
    /// So many of the columns fit.
    shown: usize,
}

struct Column {
    name: String,
    is_number: bool,
    /// Nobody can read a part of a number or a time.
    is_text: bool,
    width: usize,
}

impl TableWriter {
    /// With rows that fit into `room`, if that is limited.
    pub(super) fn new(to: Box<dyn Write + Send>, schema: &SchemaRef, room: Option<usize>) -> TableWriter {
        let column = |field: &std::sync::Arc<arrow::datatypes::Field>| Column {
            name: printable(field.name()).into_owned(),
            is_number: field.data_type().is_numeric(),
            is_text: !field.data_type().is_numeric() && !field.data_type().is_temporal(),
            width: field.name().width(),
        };
        TableWriter {
            to,
            columns: schema.fields().iter().map(column).collect(),
            rows: Vec::new(),
            is_begun: false,
            room,
            shown: schema.fields().len(),
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
        let left_out = &self.columns[self.shown..];
        if !left_out.is_empty() {
            let names: Vec<&str> = left_out.iter().map(|column| &*column.name).collect();
            writeln!(self.to, "{}", not_shown(&names, self.room))?;
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

    /// Cuts texts, and then leaves out columns, until a line fits. The first column is always there.
    fn fit(&mut self) {
        let Some(room) = self.room else { return };
        let floor = |column: &Column| match column.is_text {
            true => TEXT_WIDTH_MIN.max(column.name.width()),
            false => column.width,
        };
        let floors: Vec<usize> = self.columns.iter().map(floor).collect();
        let mut widths: Vec<usize> = self.columns.iter().map(|column| column.width).collect();
        let least = |shown: usize| {
            let all = widths.iter().zip(&floors).take(shown);
            let least = all.map(|(width, floor)| width.min(floor));
            least.sum::<usize>() + GAP.len() * (shown - 1)
        };
        self.shown = (1..=widths.len())
            .rev()
            .find(|shown| least(*shown) <= room)
            .unwrap_or(1);
        let gaps = GAP.len() * (self.shown - 1);
        narrow(
            &mut widths[..self.shown],
            &floors[..self.shown],
            room.saturating_sub(gaps),
        );
        for (column, width) in self.columns.iter_mut().zip(widths) {
            column.width = width;
        }
    }

    fn line(&mut self, cells: &[String]) -> io::Result<()> {
        let mut line = String::new();
        for (index, (column, cell)) in self.columns.iter().zip(cells).take(self.shown).enumerate() {
            if index > 0 {
                line.push_str(GAP);
            }
            // Those that come late may be longer than the ones that the widths are from.
            let cell = match self.room {
                Some(_) if column.is_text => shortened(cell, column.width),
                _ => cell.clone(),
            };
            let padding = " ".repeat(column.width.saturating_sub(cell.width()));
            match column.is_number {
                true => line.extend([padding, cell]),
                false => line.extend([cell, padding]),
            }
        }
        writeln!(self.to, "{}", line.trim_end())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use arrow::array::{Int64Array, StringArray};
    use arrow::datatypes::{DataType, Field, Schema};

    use super::*;

    #[derive(Clone, Default)]
    struct Text(Arc<Mutex<Vec<u8>>>);

    impl Write for Text {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no panic").write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn shown(room: Option<usize>) -> String {
        let fields = [
            ("ns", DataType::Int64),
            ("file", DataType::Utf8),
            ("bytes", DataType::Int64),
        ];
        let schema = Arc::new(Schema::new(
            fields.map(|(name, of_type)| Field::new(name, of_type, false)).to_vec(),
        ));
        let batch = RecordBatch::try_new(
            schema.clone(),
            vec![
                Arc::new(Int64Array::from(vec![1_795_354_477_470_819_549])),
                Arc::new(StringArray::from(vec!["/usr/lib/x86_64-linux-gnu/libc.so.6"])),
                Arc::new(Int64Array::from(vec![4096])),
            ],
        );
        let text = Text::default();
        let mut writer = TableWriter::new(Box::new(text.clone()), &schema, room);
        writer.write(&batch.expect("a batch")).expect("written");
        writer.finish().expect("written");
        String::from_utf8(text.0.lock().expect("no panic").clone()).expect("UTF-8")
    }

    #[test]
    fn texts_are_cut_before_columns_are_left_out_and_numbers_never() {
        assert_eq!(
            shown(None),
            "                 ns  file                                 bytes\n\
             1795354477470819549  /usr/lib/x86_64-linux-gnu/libc.so.6   4096\n"
        );
        assert_eq!(
            shown(Some(44)),
            "                 ns  file              bytes\n1795354477470819549  /usr/…/libc.so.6   4096\n"
        );
        assert_eq!(
            shown(Some(38)),
            "                 ns  file\n1795354477470819549  /usr/…u/libc.so.6\nnot shown: bytes (--wide shows all)\n"
        );
        assert_eq!(
            shown(Some(10)),
            "                 ns\n1795354477470819549\nnot shown: file and 1 more (--wide shows all)\n"
        );
    }
}
