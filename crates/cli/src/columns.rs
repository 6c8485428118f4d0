// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows of aligned cells under a faint heading. Where a terminal is too narrow for them, bars become shorter and texts are cut, then the least
//! important columns are left out, and a line below says which.

use anstream::adapter::strip_str;
use anstyle::Style;
use piste_analysis::report::Importance;
use piste_terminal::fit::{narrow, not_shown, shortened};
use unicode_width::UnicodeWidthStr;

use crate::page::Width;
use crate::screen::{FAINT, printable, styled};

/// Characters of the longest bar.
const BAR_WIDTH: usize = 16;
/// And of one where there is little room.
const SHORT_BAR_WIDTH: usize = 8;
/// Eighths of a character.
const BLOCKS: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];
/// Texts are not cut below this: the name of a thread has 15 characters.
const TEXT_WIDTH_MIN: usize = 16;
/// Nor those that say most.
const MAJOR_TEXT_WIDTH_MIN: usize = 24;
const GAP: usize = 2;

/// One cell: its text and how it looks, or a bar.
pub(crate) struct Cell {
    content: Content,
    style: Style,
}

enum Content {
    Text(String),
    /// As long as this part of the longest one.
    Bar(f64),
}

impl Cell {
    /// A cell in a style of its own.
    pub(crate) fn styled(style: Style, text: impl AsRef<str>) -> Cell {
        Cell {
            content: Content::Text(printable(text.as_ref()).into_owned()),
            style,
        }
    }

    /// A bar: this part of the longest one.
    pub(crate) fn bar(part: f64) -> Cell {
        Cell {
            content: Content::Bar(part),
            style: Style::new(),
        }
    }

    fn width(&self) -> usize {
        match &self.content {
            Content::Text(text) => text.width(),
            Content::Bar(part) => bar(*part, BAR_WIDTH).width(),
        }
    }

    /// In a column of some width.
    fn text(&self, width: usize) -> String {
        match &self.content {
            Content::Text(text) => shortened(text, width),
            Content::Bar(part) => bar(*part, width.min(BAR_WIDTH)),
        }
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell::styled(Style::new(), text)
    }
}

/// A text in Markdown, in which no character means anything.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        if matches!(
            character,
            '\\' | '|' | '<' | '>' | '*' | '_' | '`' | '[' | ']' | '#' | '&'
        ) {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

/// Where the cells of a column stand.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// What a column has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Can be cut.
    Text,
    /// Nobody can read a part of one.
    Number,
    Bar,
}

struct Column {
    heading: String,
    kind: Kind,
    importance: Importance,
}

/// Rows under a heading.
pub(crate) struct Columns {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

impl Columns {
    /// Columns with these headings: texts on the left, numbers on the right.
    pub(crate) fn new(headings: &[(&str, Align)]) -> Columns {
        let mut columns = Columns::none();
        for (heading, align) in headings {
            columns.add(heading, *align, Importance::Normal);
        }
        columns
    }

    /// To be added to.
    pub(crate) fn none() -> Columns {
        Columns {
            columns: Vec::new(),
            rows: Vec::new(),
        }
    }

    /// Another column on the right.
    pub(crate) fn add(&mut self, heading: &str, align: Align, importance: Importance) {
        let kind = match align {
            Align::Left => Kind::Text,
            Align::Right => Kind::Number,
        };
        self.columns.push(Column {
            heading: printable(heading).into_owned(),
            kind,
            importance,
        });
    }

    /// Bars of the column before.
    pub(crate) fn add_bars(&mut self) {
        self.columns.push(Column {
            heading: String::new(),
            kind: Kind::Bar,
            importance: Importance::Minor,
        });
    }

    /// The same; columns with these headings are the first to be left out.
    pub(crate) fn with_minor(mut self, headings: &[&str]) -> Columns {
        for column in &mut self.columns {
            if headings.contains(&column.heading.as_str()) {
                column.importance = Importance::Minor;
            }
        }
        self
    }

    /// Adds a row; one cell for each heading.
    pub(crate) fn row<const N: usize>(&mut self, cells: [Cell; N]) {
        self.row_of(cells.into());
    }

    /// The same for columns that are not known beforehand.
    pub(crate) fn row_of(&mut self, cells: Vec<Cell>) {
        assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells);
    }

    /// Everything that fits, `indent` spaces from the left, two spaces between columns.
    pub(crate) fn lines(&self, indent: usize, width: Width) -> String {
        let widths = self.widths(width.beside(indent));
        let headings = self.columns.iter().map(|column| Cell::styled(FAINT, &column.heading));
        let mut lines = self.line(indent, &widths, &headings.collect::<Vec<_>>());
        for row in &self.rows {
            lines += &self.line(indent, &widths, row);
        }
        let left_out: Vec<&str> = self
            .columns
            .iter()
            .zip(&widths)
            .filter(|(column, width)| width.is_none() && column.kind != Kind::Bar)
            .map(|(column, _)| column.heading.as_str())
            .collect();
        if !left_out.is_empty() {
            let sentence = not_shown(&left_out, width.beside(indent));
            lines += &format!("{}{}\n", " ".repeat(indent), styled(FAINT, sentence));
        }
        lines
    }

    /// The heading and the rows as plain text, without a line that says which columns are left out.
    pub(crate) fn plain_lines(&self, width: Width) -> Vec<String> {
        let widths = self.widths(width.beside(0));
        let headings = self.columns.iter().map(|column| Cell::styled(FAINT, &column.heading));
        let headings = self.line(0, &widths, &headings.collect::<Vec<_>>());
        let rows = self.rows.iter().map(|row| self.line(0, &widths, row));
        let plain = |line: String| strip_str(line.trim_end_matches('\n')).to_string();
        [headings].into_iter().chain(rows).map(plain).collect()
    }

    /// A table in Markdown, with all columns but bars.
    pub(crate) fn markdown(&self) -> String {
        let shown = || {
            self.columns
                .iter()
                .enumerate()
                .filter(|(_, column)| column.kind != Kind::Bar)
        };
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let mut lines = line(shown().map(|(_, column)| escaped(&column.heading)).collect());
        let rule = |column: &Column| if column.kind == Kind::Text { "---" } else { "--:" };
        lines += &line(shown().map(|(_, column)| rule(column).to_owned()).collect());
        for row in &self.rows {
            lines += &line(
                shown()
                    .map(|(place, _)| escaped(&row[place].text(usize::MAX)))
                    .collect(),
            );
        }
        lines
    }

    fn line(&self, indent: usize, widths: &[Option<usize>], row: &[Cell]) -> String {
        let mut line = " ".repeat(indent);
        let mut padding = 0;
        let shown = self.columns.iter().zip(row).zip(widths);
        let shown = shown.filter_map(|((column, cell), width)| Some((column, cell, (*width)?)));
        for (place, (column, cell, width)) in shown.enumerate() {
            padding += if place > 0 { GAP } else { 0 };
            let text = cell.text(width);
            let free = width.saturating_sub(text.width());
            let before = if column.kind == Kind::Number { free } else { 0 };
            // Nothing stands at the end of a line, not even spaces.
            if !text.is_empty() {
                line += &" ".repeat(padding + before);
                line += &styled(cell.style, &text);
                padding = 0;
            } else {
                padding += before;
            }
            padding += free - before;
        }
        line.truncate(line.trim_end().len());
        line.push('\n');
        line
    }

    /// Of each column, how wide it is; `None` if it is left out.
    fn widths(&self, room: Option<usize>) -> Vec<Option<usize>> {
        let width = |place: usize| {
            let cells = self.rows.iter().map(|row| row[place].width()).max();
            cells.unwrap_or(0).max(self.columns[place].heading.width())
        };
        let wanted: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let Some(room) = room.filter(|room| taken(&wanted) > *room) else {
            return wanted.into_iter().map(Some).collect();
        };
        let shown = self.choose(&wanted, room);
        let is_cut = |place: &usize| self.columns[*place].kind == Kind::Text;
        let bars = |place: usize, width: usize| match self.columns[place].kind {
            Kind::Bar => width.min(SHORT_BAR_WIDTH),
            _ => width,
        };
        let mut texts: Vec<usize> = shown
            .iter()
            .filter(|place| is_cut(place))
            .map(|place| wanted[*place])
            .collect();
        let floors: Vec<usize> = shown
            .iter()
            .filter(|place| is_cut(place))
            .map(|place| self.floor(*place))
            .collect();
        let others = shown
            .iter()
            .filter(|place| !is_cut(place))
            .map(|place| bars(*place, wanted[*place]));
        let gaps = GAP * shown.len().saturating_sub(1);
        narrow(&mut texts, &floors, room.saturating_sub(others.sum::<usize>() + gaps));
        let mut texts = texts.into_iter();
        let mut widths = vec![None; wanted.len()];
        for place in shown {
            widths[place] = match is_cut(&place) {
                true => texts.next(),
                false => Some(bars(place, wanted[place])),
            };
        }
        widths
    }

    /// The columns that there is room for, when texts are as short as they may be: without bars first, then without the least important ones,
    /// from the right.
    fn choose(&self, wanted: &[usize], room: usize) -> Vec<usize> {
        let least = |place: usize| match self.columns[place].kind {
            Kind::Text => wanted[place].min(self.floor(place)),
            Kind::Number => wanted[place],
            Kind::Bar => wanted[place].min(SHORT_BAR_WIDTH),
        };
        let mut shown: Vec<usize> = (0..wanted.len()).collect();
        let mut can_go: Vec<usize> = (0..wanted.len())
            .filter(|place| self.columns[*place].importance != Importance::Major)
            .collect();
        can_go.sort_by_key(|place| {
            let column = &self.columns[*place];
            (column.kind == Kind::Bar, column.importance == Importance::Minor, *place)
        });
        while taken(&shown.iter().map(|place| least(*place)).collect::<Vec<_>>()) > room && shown.len() > 1 {
            let Some(gone) = can_go.pop() else { break };
            shown.retain(|place| *place != gone);
        }
        shown
    }

    fn floor(&self, place: usize) -> usize {
        let column = &self.columns[place];
        let least = match column.importance {
            Importance::Major => MAJOR_TEXT_WIDTH_MIN,
            Importance::Normal | Importance::Minor => TEXT_WIDTH_MIN,
        };
        least.max(column.heading.width())
    }
}

/// How wide columns of these widths are together.
fn taken(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
}

/// A bar: this part of `width` characters, at most all.
pub(crate) fn bar(part: f64, width: usize) -> String {
    let eighths = (part.clamp(0.0, 1.0) * (8 * width) as f64).round() as usize;
    let mut bar = "█".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        bar.push(BLOCKS[eighths % 8 - 1]);
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(columns: &Columns, width: Width) -> String {
        anstream::adapter::strip_str(&columns.lines(2, width)).to_string()
    }

    #[test]
    fn columns_align_by_what_is_seen() {
        let mut columns = Columns::new(&[("PID", Align::Right), ("NAME", Align::Left), ("EVENTS", Align::Right)]);
        columns.row(["7".into(), Cell::styled(crate::screen::BAD, "café"), "12".into()]);
        columns.row(["12345".into(), "日本".into(), "3".into()]);
        assert_eq!(
            seen(&columns, Width::ANY),
            "    PID  NAME  EVENTS\n      7  café      12\n  12345  日本       3\n"
        );
    }

    #[test]
    fn bars_are_as_long_as_what_they_stand_for() {
        assert_eq!(bar(1.0, BAR_WIDTH).chars().count(), BAR_WIDTH);
        assert_eq!(bar(0.5, BAR_WIDTH), "████████");
        assert_eq!(bar(0.01, BAR_WIDTH), "▏");
        assert_eq!(bar(0.0, BAR_WIDTH), "");
    }

    #[test]
    fn a_narrow_terminal_gets_shorter_texts_and_then_fewer_columns() {
        let mut columns = Columns::none();
        columns.add("TID", Align::Right, Importance::Normal);
        columns.add("MEAN", Align::Right, Importance::Minor);
        columns.add("MAX", Align::Right, Importance::Major);
        columns.add_bars();
        columns.add("FILE", Align::Left, Importance::Normal);
        let file = "/usr/lib/x86_64-linux-gnu/libc.so.6";
        columns.row([
            "4711".into(),
            "12 µs".into(),
            "3 ms".into(),
            Cell::bar(1.0),
            file.into(),
        ]);
        for (width, expected) in [
            (
                74,
                "4711  12 µs  3 ms  ████████████████  /usr/lib/x86_64-linux-gnu/libc.so.6",
            ),
            (73, "4711  12 µs  3 ms  ████████  /usr/lib/x86_64-linux-gnu/libc.so.6"),
            (50, "4711  12 µs  3 ms  ████████  /usr/l…nu/libc.so.6"),
            (42, "4711  12 µs  3 ms  /usr/l…-gnu/libc.so.6"),
            (32, "4711  3 ms  /usr/…nu/libc.so.6"),
            (29, "4711  3 ms"),
            (7, "3 ms"),
        ] {
            let seen = seen(&columns, Width::of(width));
            let rows: Vec<&str> = seen.lines().map(str::trim).collect();
            assert_eq!(rows[1], expected, "{width}");
            let is_whole = rows[1].contains("12 µs") && rows[1].contains("libc");
            assert_eq!(rows.len(), if is_whole { 2 } else { 3 }, "{width}: {seen}");
        }
        let narrowest = seen(&columns, Width::of(7));
        assert!(
            narrowest.ends_with("\n  not shown: TID and 2 more (--wide shows all)\n"),
            "{narrowest}"
        );
    }
}
