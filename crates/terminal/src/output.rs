// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text on its way to standard output. On a terminal, a pager shows what is longer than the screen: `PISTE_PAGER`, otherwise `PAGER`, names it;
//! `cat` and an empty value mean none, and `less` is the default.

use std::env;
use std::io::{self, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anstream::adapter::strip_bytes;
use signal_hook::consts::SIGINT;
use unicode_width::UnicodeWidthStr;

use crate::Size;

/// What a pager does with lines that are longer than the screen is wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LongLines {
    /// Continues them on the next line of the screen.
    Wrap,
    /// Shows a part of them, which the arrow keys move: rows of a table stay rows.
    Chop,
}

/// Standard output, or a pager before it.
#[derive(Debug)]
pub struct Output {
    way: Way,
    /// Ctrl-C was pressed.
    interrupted: Arc<AtomicBool>,
}

#[derive(Debug)]
enum Way {
    Direct,
    /// All of it may fit on the screen.
    Held(Box<Held>),
    Paged(Child),
}

/// Text that has not been written yet.
#[derive(Debug)]
struct Held {
    text: Vec<u8>,
    rows: usize,
    size: Size,
    pager: Command,
}

impl Output {
    /// Without a pager.
    pub fn direct() -> Output {
        Output::new(Way::Direct)
    }

    /// With a pager, if standard output is a terminal and a pager is to be used.
    pub fn paged(long_lines: LongLines) -> Output {
        let held = Size::of_stdout().zip(pager(long_lines)).map(|(size, pager)| Held {
            text: Vec::new(),
            rows: 0,
            size,
            pager,
        });
        Output::new(held.map_or(Way::Direct, |held| Way::Held(Box::new(held))))
    }

    fn new(way: Way) -> Output {
        Output {
            way,
            interrupted: Arc::default(),
        }
    }

    /// From now on, Ctrl-C does not end this process, but is reported by [`Output::is_interrupted`].
    pub fn survive_interrupt(&self) {
        // Without the handler, Ctrl-C ends the process as it ends any other.
        let _ = signal_hook::flag::register(SIGINT, Arc::clone(&self.interrupted));
    }

    /// Ctrl-C was pressed since a pager was started, or since [`Output::survive_interrupt`].
    pub fn is_interrupted(&self) -> bool {
        // Relaxed: nothing else is ordered by it.
        self.interrupted.load(Ordering::Relaxed)
    }

    /// A pager was started.
    pub fn is_paged(&self) -> bool {
        matches!(self.way, Way::Paged(_))
    }

    /// Waits until the pager ends. A person who leaves it early has seen enough, which is not an error.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub fn close(mut self) -> io::Result<()> {
        self.end()
    }

    fn end(&mut self) -> io::Result<()> {
        match std::mem::replace(&mut self.way, Way::Direct) {
            Way::Direct => io::stdout().flush(),
            Way::Held(held) => write_directly(&held.text),
            Way::Paged(mut pager) => {
                drop(pager.stdin.take());
                pager.wait().map(|_| ())
            }
        }
    }

    /// Begins to write what was held.
    fn release(&mut self) -> io::Result<()> {
        let Way::Held(mut held) = std::mem::replace(&mut self.way, Way::Direct) else {
            return Ok(());
        };
        // On a machine without a pager, output is as long as it is.
        let Ok(pager) = held.pager.stdin(Stdio::piped()).spawn() else {
            return write_directly(&held.text);
        };
        self.way = Way::Paged(pager);
        // The pager handles Ctrl-C, and this process must not end before it.
        self.survive_interrupt();
        self.write_all(&held.text)
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.way {
            Way::Direct => return io::stdout().write(bytes),
            Way::Paged(pager) => {
                return match &mut pager.stdin {
                    Some(stdin) => stdin.write(bytes),
                    None => Err(io::ErrorKind::BrokenPipe.into()),
                };
            }
            Way::Held(held) => held.add(bytes),
        }
        if let Way::Held(held) = &self.way
            && held.rows >= held.size.rows
        {
            self.release()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        match &self.way {
            Way::Direct => io::stdout().flush(),
            Way::Held(_) | Way::Paged(_) => Ok(()),
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

impl Held {
    fn add(&mut self, bytes: &[u8]) {
        self.text.extend_from_slice(bytes);
        // A line that comes in pieces counts more than once: then the pager comes a little early.
        self.rows += bytes
            .split_inclusive(|byte| *byte == b'\n')
            .map(|line| rows(line, self.size))
            .sum::<usize>();
    }
}

/// How many lines of the screen a line takes.
fn rows(line: &[u8], size: Size) -> usize {
    let text = strip_bytes(line.trim_ascii_end()).into_vec();
    let width = String::from_utf8_lossy(&text).width();
    width.div_ceil(size.columns).max(1)
}

fn write_directly(text: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text)?;
    stdout.flush()
}

fn pager(long_lines: LongLines) -> Option<Command> {
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
    // Ends by itself if one screen is enough, shows colours, and leaves on the screen what it showed.
    if env::var_os("LESS").is_none() {
        command.env(
            "LESS",
            match long_lines {
                LongLines::Wrap => "FRX",
                LongLines::Chop => "FRSX",
            },
        );
    }
    Some(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_takes_as_much_of_the_screen_as_is_seen() {
        let size = Size { columns: 10, rows: 24 };
        for (line, expected) in [
            ("", 1),
            ("\n", 1),
            ("0123456789\n", 1),
            ("0123456789a\n", 2),
            ("\u{1b}[1m0123456789\u{1b}[0m\n", 1),
            ("日本語日本語\n", 2),
        ] {
            assert_eq!(rows(line.as_bytes(), size), expected, "{line:?}");
        }
    }
}
