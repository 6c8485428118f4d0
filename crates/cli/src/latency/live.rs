// SPDX-License-Identifier: MIT OR Apache-2.0
//! The figures on a terminal while they are measured: a few lines that are written over and over. Only these read the counts of a running loop.

use std::io::{Write, stdout};

use piste_latency::tally::Snapshot;
use piste_latency::{Running, Summary};

use super::report::figure;
use crate::columns::{Align, Cell, Columns};
use crate::failure::Failure;
use crate::page::{Width, terminal_height, terminal_width};
use crate::quantity::{count, counted};
use crate::screen::{FAINT, for_stream, styled};

/// Moves the cursor to the beginning of the line, so many lines up, and clears everything below.
fn back(lines: usize) -> String {
    match lines {
        0 => String::new(),
        lines => format!("\x1b[{lines}F\x1b[J"),
    }
}

/// Lines that are not of a CPU: headings, remarks, and the one of the cursor.
const LINES_BESIDE: usize = 6;

/// What stands on the terminal.
pub(super) struct Live {
    lines: usize,
}

impl Live {
    pub(super) fn new() -> Live {
        Live { lines: 0 }
    }

    /// Shows the figures of now.
    pub(super) fn show(&mut self, running: &Running) -> Result<(), Failure> {
        let width = terminal_width().map_or(Width::ANY, Width::of);
        let seen = running.look();
        // The lines must fit, or the cursor would not come back to the first one.
        let room = terminal_height().map_or(seen.len(), |height| height.saturating_sub(LINES_BESIDE).max(1));
        let (shown, others) = seen.split_at(seen.len().min(room));
        let mut text = table(running, shown, width);
        if !others.is_empty() {
            text += &styled(FAINT, format!("and {}", counted(others.len() as i64, "more CPU")));
            text += "\n";
        }
        text += &styled(FAINT, "press Ctrl-C to stop early");
        text += "\n";
        let before = self.lines;
        self.lines = text.lines().count();
        write(before, &text)
    }

    /// Leaves nothing of it.
    pub(super) fn clear(self) -> Result<(), Failure> {
        write(self.lines, "")
    }
}

/// Writes a text in place of the last lines. NO_COLOR is about colours: the cursor moves all the same.
fn write(lines: usize, text: &str) -> Result<(), Failure> {
    let mut stdout = stdout().lock();
    let text = back(lines) + &for_stream(&stdout, text);
    stdout.write_all(text.as_bytes())?;
    Ok(stdout.flush()?)
}

fn table(running: &Running, seen: &[(u32, Snapshot)], width: Width) -> String {
    let mut columns = Columns::new(&[
        ("CPU", Align::Right),
        ("LOOPS", Align::Right),
        ("MIN", Align::Right),
        ("MEAN", Align::Right),
        ("99.9 %", Align::Right),
        ("MAX", Align::Right),
    ]);
    for (cpu, values) in seen {
        let summary = Summary::of(values, &running.plan().clock);
        columns.row([
            cpu.to_string().into(),
            Cell::from(count(summary.count as i64)),
            figure(&summary, summary.min_ns).into(),
            figure(&summary, summary.mean_ns).into(),
            figure(&summary, summary.percentile_ns(99.9)).into(),
            figure(&summary, summary.max_ns).into(),
        ]);
    }
    columns.lines(0, width)
}
