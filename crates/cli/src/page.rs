// SPDX-License-Identifier: MIT OR Apache-2.0
//! A result that may be longer or wider than the terminal: how wide its tables may be, and the pager that shows it.

use std::io::{Write, stdout};

use piste_terminal::fit::{hanging, wrapped};
use piste_terminal::{LongLines, Output, Size};
use serde::Serialize;

use crate::arguments::{PageOptions, PagerOption};
use crate::failure::Failure;
use crate::screen::{for_stream, json_text};

/// How wide tables and lines of text may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Width(Option<usize>);

impl Width {
    /// As wide as they are: in files and pipes, and with `--wide`.
    pub(crate) const ANY: Width = Width(None);

    /// At most so many characters.
    pub(crate) fn of(columns: usize) -> Width {
        Width(Some(columns))
    }

    /// What is left of it beside so many characters.
    pub(crate) fn beside(self, characters: usize) -> Option<usize> {
        self.0.map(|columns| columns.saturating_sub(characters))
    }

    /// `lead` with `text` after it; what does not fit into the line continues below the start of `text`.
    pub(crate) fn hanging(self, lead: &str, text: &str) -> String {
        match self.0 {
            Some(columns) => hanging(lead, text, columns),
            None => format!("{lead}{text}"),
        }
    }
}

/// How wide the terminal is that standard output is.
pub(crate) fn terminal_width() -> Option<usize> {
    Size::of_stdout().map(|size| size.columns)
}

/// How high the terminal is that standard output is.
pub(crate) fn terminal_height() -> Option<usize> {
    Size::of_stdout().map(|size| size.rows)
}

/// Where the result of a command goes.
#[derive(Clone, Copy)]
pub(crate) struct Page {
    width: Width,
    is_paged: bool,
    long_lines: LongLines,
}

impl Page {
    /// As the command line asks for it.
    pub(crate) fn new(options: &PageOptions) -> Page {
        let columns = terminal_width();
        Page {
            width: Width(columns.filter(|_| !options.wide)),
            is_paged: !options.pager.no_pager,
            // Tables fit, and sentences are to be read, unless everything is wanted.
            long_lines: match options.wide {
                true => LongLines::Chop,
                false => LongLines::Wrap,
            },
        }
    }

    /// For text without tables.
    pub(crate) fn of_text(pager: &PagerOption) -> Page {
        Page {
            width: Width(terminal_width()),
            is_paged: !pager.no_pager,
            long_lines: LongLines::Wrap,
        }
    }

    /// How wide tables and lines of text may be.
    pub(crate) fn width(&self) -> Width {
        self.width
    }

    /// Shows a text, in a pager if it is longer than the screen.
    pub(crate) fn show(&self, text: &str) -> Result<(), Failure> {
        let mut output = match self.is_paged {
            true => Output::paged(self.long_lines),
            false => Output::direct(),
        };
        let written = output.write_all(for_stream(&stdout(), text).as_bytes());
        let closed = output.close();
        Ok(written.and(closed)?)
    }

    /// The same for sentences: lines break between words.
    pub(crate) fn show_sentences(&self, text: &str) -> Result<(), Failure> {
        match self.width.0 {
            Some(columns) => self.show(&wrapped(text, columns)),
            None => self.show(text),
        }
    }

    /// Shows `value` as JSON.
    pub(crate) fn show_json(&self, value: &impl Serialize) -> Result<(), Failure> {
        self.show(&json_text(value)?)
    }
}
