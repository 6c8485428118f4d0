// SPDX-License-Identifier: MIT OR Apache-2.0
//! The terminal as people see it:
//!
//! - here: how large the terminal is, and text of traced programs that must not control it;
//! - [`fit`]: text and columns that fit into a width;
//! - [`Output`]: a pager for what is longer than the screen;
//! - [`progress`]: a bar for what takes long.

pub mod fit;
mod output;
pub mod progress;

use std::borrow::Cow;
use std::env;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;

use rustix::termios::tcgetwinsize;

pub use self::output::{LongLines, Output};

/// What a terminal has that does not report its size.
const USUAL: Size = Size { columns: 80, rows: 24 };

/// The size of a terminal, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Characters in a line.
    pub columns: usize,
    /// Lines.
    pub rows: usize,
}

impl Size {
    /// The size of the terminal that standard output is; `None` if it is a file or a pipe. The environment variable `COLUMNS` takes precedence
    /// over the width that the terminal reports.
    pub fn of_stdout() -> Option<Size> {
        Size::of(&io::stdout())
    }

    /// The same for standard error.
    pub fn of_stderr() -> Option<Size> {
        Size::of(&io::stderr())
    }

    fn of(stream: &(impl IsTerminal + AsFd)) -> Option<Size> {
        if !stream.is_terminal() {
            return None;
        }
        let size = tcgetwinsize(stream).ok();
        let reported = |count: Option<u16>| count.filter(|count| *count > 0).map(usize::from);
        let wanted = env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
        Some(Size {
            columns: wanted
                .filter(|columns| *columns > 0)
                .or(reported(size.map(|size| size.ws_col)))
                .unwrap_or(USUAL.columns),
            rows: reported(size.map(|size| size.ws_row)).unwrap_or(USUAL.rows),
        })
    }
}

/// `text` with control characters made visible: a traced program must not move the cursor of a person who looks at its name.
pub fn printable(text: &str) -> Cow<'_, str> {
    let escape = |c: char| match c.is_control() {
        true => c.escape_default().to_string(),
        false => c.into(),
    };
    match text.contains(char::is_control) {
        true => text.chars().map(escape).collect::<String>().into(),
        false => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_not_sent() {
        assert_eq!(printable("shop \u{e9}"), "shop \u{e9}");
        assert_eq!(printable("a\u{1b}[2Jb\n"), "a\\u{1b}[2Jb\\n");
    }
}
