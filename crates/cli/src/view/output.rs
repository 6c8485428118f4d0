// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where events go: to stdout, in colours if they are wanted, and to a pager if they are more than a screen.

use std::io::{self, Write};

use anstream::{AutoStream, ColorChoice};
use piste_terminal::LongLines;

use super::paint::paint;
use crate::arguments::{Color, View, ViewFormat};
use crate::failure::Failure;

pub(super) struct Output {
    to: piste_terminal::Output,
    is_painted: bool,
    painted: Vec<u8>,
}

impl Output {
    pub(super) fn open(arguments: &View, format: ViewFormat) -> Output {
        let is_colourful = match arguments.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => AutoStream::choice(&io::stdout()) != ColorChoice::Never,
        };
        let to = match arguments.pager.no_pager || arguments.follow {
            true => piste_terminal::Output::direct(),
            false => piste_terminal::Output::paged(LongLines::Wrap),
        };
        if arguments.follow {
            // It ends in order.
            to.survive_interrupt();
        }
        Output {
            to,
            is_painted: is_colourful && format == ViewFormat::Text,
            painted: Vec::new(),
        }
    }

    /// Whole lines.
    pub(super) fn write(&mut self, lines: &[u8]) -> Result<(), Failure> {
        let lines = match self.is_painted {
            true => {
                self.painted.clear();
                paint(&mut self.painted, lines);
                &self.painted
            }
            false => lines,
        };
        Ok(self.to.write_all(lines)?)
    }

    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        Ok(self.to.flush()?)
    }

    pub(super) fn is_interrupted(&self) -> bool {
        self.to.is_interrupted()
    }

    /// Waits until nobody looks at a pager any more. Whoever leaves it early has seen enough.
    pub(super) fn close(self, shown: Result<(), Failure>) -> Result<(), Failure> {
        let is_paged = self.to.is_paged();
        self.to.close()?;
        match shown {
            Err(Failure::ReaderGone) if is_paged => Ok(()),
            shown => shown,
        }
    }
}
