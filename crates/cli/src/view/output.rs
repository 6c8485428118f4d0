// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where events go: to stdout, or, when that is a terminal, to a pager. `PISTE_PAGER`, else `PAGER`, says which one; `cat` and nothing
//! mean none, and `less` is the usual one.

use std::env;
use std::io::{self, IsTerminal, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anstream::{AutoStream, ColorChoice};
use signal_hook::consts::SIGINT;

use super::paint::paint;
use crate::arguments::{Color, View, ViewFormat};
use crate::failure::Failure;

pub(super) struct Output {
    pager: Option<Child>,
    is_painted: bool,
    painted: Vec<u8>,
    /// Ctrl-C was pressed: who started a pager, or follows, ends in order.
    interrupted: Arc<AtomicBool>,
}

impl Output {
    pub(super) fn open(arguments: &View, format: ViewFormat) -> Output {
        let is_terminal = io::stdout().is_terminal();
        let is_colourful = match arguments.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => AutoStream::choice(&io::stdout()) != ColorChoice::Never,
        };
        let interrupted = Arc::new(AtomicBool::new(false));
        let pager = match is_terminal && !arguments.no_pager && !arguments.follow {
            true => pager(),
            false => None,
        };
        if pager.is_some() || arguments.follow {
            // Otherwise Ctrl-C ends this process as it ends any other.
            let _ = signal_hook::flag::register(SIGINT, Arc::clone(&interrupted));
        }
        Output {
            pager,
            is_painted: is_colourful && format == ViewFormat::Text,
            painted: Vec::new(),
            interrupted,
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
        Ok(match self.pager.as_mut().and_then(|pager| pager.stdin.as_mut()) {
            Some(stdin) => stdin.write_all(lines),
            None => io::stdout().write_all(lines),
        }?)
    }

    pub(super) fn flush(&self) -> Result<(), Failure> {
        Ok(io::stdout().flush()?)
    }

    pub(super) fn is_interrupted(&self) -> bool {
        // Relaxed: nothing else is said by it.
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Waits until nobody looks at a pager any more. Whoever leaves it early has seen enough.
    pub(super) fn close(mut self, shown: Result<(), Failure>) -> Result<(), Failure> {
        let Some(mut pager) = self.pager.take() else {
            return shown;
        };
        drop(pager.stdin.take());
        let _ = pager.wait();
        match shown {
            Err(Failure::ReaderGone) => Ok(()),
            shown => shown,
        }
    }
}

fn pager() -> Option<Child> {
    let chosen = ["PISTE_PAGER", "PAGER"].into_iter().find_map(env::var_os);
    let mut command = match chosen {
        Some(chosen) if chosen.is_empty() || chosen == "cat" => return None,
        Some(chosen) => {
            let mut shell = Command::new("/bin/sh");
            shell.arg("-c").arg(chosen);
            shell
        }
        None => Command::new("less"),
    };
    // Ends by itself when one screen is enough, shows colours, leaves what it showed.
    if env::var_os("LESS").is_none() {
        command.env("LESS", "FRX");
    }
    // A machine without a pager has none.
    command.stdin(Stdio::piped()).spawn().ok()
}
