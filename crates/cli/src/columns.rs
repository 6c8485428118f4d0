// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows of aligned cells under a faint heading.

use anstyle::Style;
use unicode_width::UnicodeWidthStr;

use crate::screen::{FAINT, printable, styled};

/// One cell: its text and how it looks.
pub(crate) struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    /// A cell in a style of its own.
    pub(crate) fn styled(style: Style, text: impl AsRef<str>) -> Cell {
        Cell {
            text: printable(text.as_ref()).into_owned(),
            style,
        }
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell::styled(Style::new(), text)
    }
}

/// Where the cells of a column stand.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Rows under a heading.
pub(crate) struct Columns {
    align: Vec<Align>,
    rows: Vec<Vec<Cell>>,
}

impl Columns {
    /// Columns with these headings.
    pub(crate) fn new(headings: &[(&str, Align)]) -> Columns {
        Columns {
            align: headings.iter().map(|(_, align)| *align).collect(),
            rows: vec![
                headings
                    .iter()
                    .map(|(heading, _)| Cell::styled(FAINT, heading))
                    .collect(),
            ],
        }
    }

    /// Adds a row; one cell for each heading.
    pub(crate) fn row<const N: usize>(&mut self, cells: [Cell; N]) {
        assert_eq!(N, self.align.len());
        self.rows.push(cells.into());
    }

    /// The same for columns that are not known beforehand.
    pub(crate) fn row_of(&mut self, cells: Vec<Cell>) {
        assert_eq!(cells.len(), self.align.len());
        self.rows.push(cells);
    }

    /// Everything, `indent` spaces from the left, two spaces between columns.
    pub(crate) fn lines(&self, indent: usize) -> String {
        let width = |cell: &Cell| UnicodeWidthStr::width(cell.text.as_str());
        let widths: Vec<usize> = (0..self.align.len())
            .map(|column| self.rows.iter().map(|row| width(&row[column])).max().unwrap_or(0))
            .collect();
        let mut lines = String::new();
        for row in &self.rows {
            let mut line = " ".repeat(indent);
            // Nothing stands at the end of a line, not even spaces.
            let filled = row.iter().rposition(|cell| !cell.text.is_empty());
            for (column, cell) in row.iter().enumerate().take(filled.map_or(0, |last| last + 1)) {
                let padding = " ".repeat(widths[column] - width(cell));
                let text = styled(cell.style, &cell.text);
                if column > 0 {
                    line.push_str("  ");
                }
                line.push_str(&match self.align[column] {
                    Align::Left => text + &padding,
                    Align::Right => padding + &text,
                });
            }
            lines.push_str(line.trim_end());
            lines.push('\n');
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align_by_what_is_seen() {
        let mut columns = Columns::new(&[("PID", Align::Right), ("NAME", Align::Left), ("EVENTS", Align::Right)]);
        columns.row(["7".into(), Cell::styled(crate::screen::BAD, "café"), "12".into()]);
        columns.row(["12345".into(), "日本".into(), "3".into()]);
        let seen = anstream::adapter::strip_str(&columns.lines(2)).to_string();
        assert_eq!(
            seen,
            "    PID  NAME  EVENTS\n      7  café      12\n  12345  日本       3\n"
        );
    }
}
