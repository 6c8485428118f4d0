// SPDX-License-Identifier: MIT OR Apache-2.0
//! Prints intervals: tables as text, or with `--json` an object for each interval, on a line of its own.

use std::thread;
use std::time::Duration;

use jiff::tz::TimeZone;
use piste_analysis::report::Report;
use piste_analysis::top::Interval;
use serde::Serialize;

use super::tables::{Order, per_second, sort};
use super::{Flow, Progress, Scene, Viewer};
use crate::analyze::tables::{self, Look, moment};
use crate::arguments::Top;
use crate::failure::Failure;
use crate::imported;
use crate::json::time;
use crate::page::{Width, terminal_width};
use crate::quantity::duration;
use crate::screen::{BAD, STRONG, printable, show, styled, tell_sentence};

/// Rows of a table, unless another number is asked for.
const LIMIT: usize = 20;

/// As `--json` prints it.
#[derive(Serialize)]
struct Answer<'a> {
    #[serde(serialize_with = "time")]
    begin_ns: i64,
    #[serde(serialize_with = "time")]
    end_ns: i64,
    duration_ns: i64,
    /// Absent where nobody knows.
    lost_events: Option<u64>,
    lost_packets: u64,
    #[serde(flatten)]
    report: &'a Report,
}

pub(super) struct Plain {
    left: u64,
    order: Order,
    limit: usize,
    json: bool,
    is_live: bool,
    /// All of a trace is one interval.
    is_whole: bool,
    told_notes: Vec<String>,
}

impl Plain {
    pub(super) fn new(arguments: &Top, json: bool, is_live: bool) -> Plain {
        Plain {
            left: arguments.count.unwrap_or(u64::MAX),
            order: Order {
                key: arguments.sort.key(),
                is_reversed: false,
            },
            limit: arguments.limit.unwrap_or(LIMIT),
            json,
            is_live,
            is_whole: !is_live && arguments.count.is_none() && arguments.interval_ns.is_none(),
            told_notes: Vec::new(),
        }
    }

    fn print(&mut self, interval: &Interval, scene: &Scene<'_>) -> Result<(), Failure> {
        let mut report = interval.report(scene.system, scene.recorded);
        for table in &mut report.tables {
            if table.name == "threads" {
                sort(table, self.order);
            }
            if table.name != "cpus" {
                table.rows.truncate(self.limit);
            }
        }
        let lost = match self.is_whole {
            true => scene.losses.all(),
            false => scene.losses.between(interval.begin_ns, interval.end_ns),
        };
        if self.json {
            report.notes = scene.notes.to_vec();
            let answer = Answer {
                begin_ns: interval.begin_ns,
                end_ns: interval.end_ns,
                duration_ns: interval.duration_ns(),
                lost_events: lost.events(),
                lost_packets: lost.packets(),
                report: &report,
            };
            let line = serde_json::to_string(&answer).map_err(std::io::Error::from)?;
            return show(&(imported::shown_in_json(line) + "\n"));
        }
        if !self.is_whole {
            let duration_ns = interval.duration_ns();
            report
                .tables
                .iter_mut()
                .for_each(|table| per_second(table, duration_ns));
        }
        for note in scene.notes {
            if !self.told_notes.contains(note) {
                tell_sentence(&printable(note));
                self.told_notes.push(note.clone());
            }
        }
        let zone = TimeZone::system();
        let look = Look {
            zone: &zone,
            width: terminal_width().map_or(Width::ANY, Width::of),
            has_all_rows: true,
        };
        let lost_style = if lost.is_nothing() { STRONG } else { BAD };
        show(&format!(
            "{} to {} ({}), lost: {}\n\n{}\n",
            styled(STRONG, moment(interval.begin_ns, &zone)),
            moment(interval.end_ns, &zone),
            duration(interval.duration_ns()),
            styled(lost_style, lost.text()),
            tables::text(&report, &look)
        ))
    }
}

impl Viewer for Plain {
    fn wants_intervals(&self) -> bool {
        !self.is_whole
    }

    fn interval(&mut self, interval: Interval, scene: &Scene<'_>) -> Result<Flow, Failure> {
        // Whoever asks for a running session wants to know what happens now.
        if self.is_live && scene.progress == Progress::CatchingUp {
            return Ok(Flow::GoOn);
        }
        self.print(&interval, scene)?;
        self.left -= 1;
        Ok(match self.left {
            0 => Flow::Stop,
            _ => Flow::GoOn,
        })
    }

    fn pause(&mut self, _scene: Option<&Scene<'_>>, patience: Duration) -> Result<Flow, Failure> {
        thread::sleep(patience);
        Ok(Flow::GoOn)
    }

    fn end(&mut self, whole: Option<Interval>, scene: &Scene<'_>) -> Result<(), Failure> {
        match whole.filter(|_| self.is_whole) {
            Some(whole) => self.print(&whole, scene),
            None => Ok(()),
        }
    }
}
