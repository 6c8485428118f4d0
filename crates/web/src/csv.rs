// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows of CSV (RFC 4180), taken from bytes as they arrive: a row ends at a line end that is not between quotes.
//! An empty line is a row with one empty value, as queries of one column have it; the crate csv-core leaves out such lines.

/// Collects bytes until they are rows.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    row: Vec<String>,
    field: Vec<u8>,
    state: State,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    Plain,
    Quoted,
    /// After a quote between quotes: another one means the character, anything else ends the quotes.
    Quote,
}

impl Rows {
    /// Takes one byte; returns the row that it ends.
    pub(crate) fn take(&mut self, byte: u8) -> Option<Vec<String>> {
        match (self.state, byte) {
            (State::Plain, b'"') => self.state = State::Quoted,
            (State::Quoted, b'"') => self.state = State::Quote,
            (State::Quote, b'"') => {
                self.field.push(byte);
                self.state = State::Quoted;
            }
            (State::Quoted, _) => self.field.push(byte),
            (State::Plain | State::Quote, b',') => {
                self.end_field();
                self.state = State::Plain;
            }
            (State::Plain | State::Quote, b'\n') => {
                self.end_field();
                self.state = State::Plain;
                return Some(std::mem::take(&mut self.row));
            }
            (State::Plain | State::Quote, _) => self.field.push(byte),
        }
        None
    }

    fn end_field(&mut self) {
        let field = std::mem::take(&mut self.field);
        self.row.push(String::from_utf8_lossy(&field).into_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str) -> Vec<Vec<String>> {
        let mut rows = Rows::default();
        text.bytes().filter_map(|byte| rows.take(byte)).collect()
    }

    #[test]
    fn a_row_ends_at_a_line_end_outside_quotes() {
        assert_eq!(rows("a,b\n1,\n"), [["a", "b"], ["1", ""]]);
        assert_eq!(rows("\"x,\"\"y\",\"two\nlines\"\n"), [["x,\"y", "two\nlines"]]);
        assert_eq!(rows("\"\"\n"), [[""]]);
        assert_eq!(rows("a\n\n"), [["a"], [""]]);
        assert_eq!(rows("é,incomplete"), Vec::<Vec<String>>::new());
    }
}
