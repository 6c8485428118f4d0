// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste top`: what the system does, one interval at a time. The figures come from `piste_analysis::top`.
//!
//! - here: which session or trace is meant, and who shows it
//! - [`recorded`]: reads a finished trace; [`live`]: follows a session
//! - [`losses`]: how many events are missing
//! - [`tables`]: sorted and filtered tables, with rates
//! - [`plain`]: prints them as text or JSON
//! - [`display`]: shows them on a terminal; [`keys`]: what keys change; [`layout`]: what is where

mod display;
mod keys;
mod layout;
mod live;
mod losses;
mod plain;
mod recorded;
mod tables;

use std::io::{IsTerminal, stdin, stdout};
use std::path::{Path, PathBuf};
use std::time::Duration;

use piste_analysis::model::System;
use piste_analysis::top::{Interval, Recorded};
use piste_control::interface::{Domain, SessionState};
use piste_following::{Followed, sessions};

use self::display::Display;
use self::losses::Losses;
use self::plain::Plain;
use crate::arguments::Top;
use crate::failure::{Failure, USAGE};
use crate::screen::printable;
use crate::view::find_followed;

/// What is known when an interval is shown.
struct Scene<'s> {
    system: &'s System,
    recorded: Recorded,
    losses: &'s Losses,
    /// Sentences about what is unknown.
    notes: &'s [String],
    /// What the session or the reader is doing, if it is not simply following.
    progress: Progress,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// What was recorded before is being read.
    CatchingUp,
    /// A session is followed.
    Following,
    /// pisted cannot be reached, so nobody knows whether the session goes on.
    Alone,
    /// Nothing more will come.
    Over,
}

/// Whether to go on reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    GoOn,
    Stop,
}

/// Shows intervals as they are read.
trait Viewer {
    /// Each interval is to be shown, not only the whole trace.
    fn wants_intervals(&self) -> bool;
    /// An interval is over.
    fn interval(&mut self, interval: Interval, scene: &Scene<'_>) -> Result<Flow, Failure>;
    /// Called often. May wait for `patience` where it has something to wait for.
    fn pause(&mut self, scene: Option<&Scene<'_>>, patience: Duration) -> Result<Flow, Failure>;
    /// Nothing more will come; all of a finished trace.
    fn end(&mut self, whole: Option<Interval>, scene: &Scene<'_>) -> Result<(), Failure>;
}

/// `piste top`
pub(crate) fn top(arguments: &Top, json: bool) -> Result<(), Failure> {
    let path = match &arguments.source {
        Some(path) => path.clone(),
        None => only_session()?,
    };
    // A file of another tracer does not grow.
    let followed = match path.is_file() {
        true => None,
        false => running(&path)?,
    };
    let is_live = followed.is_some();
    if is_live && arguments.range.is_given() {
        let sentence = "--begin and --end work only with finished traces; leave them out to follow a running session";
        return Err(Failure::with_status(sentence, USAGE));
    }
    let is_interactive = !json && arguments.count.is_none() && stdin().is_terminal() && stdout().is_terminal();
    let read = |viewer: &mut dyn Viewer| match followed {
        Some(followed) => live::follow(followed, arguments, viewer),
        None => recorded::read(path.clone(), arguments, is_interactive, viewer),
    };
    match is_interactive {
        true => {
            let mut display = Display::new(&path, is_live, arguments);
            let read = read(&mut display);
            display.close(read)
        }
        false => read(&mut Plain::new(arguments, json, is_live)),
    }
}

/// What a running session writes; `None`: the path is that of a finished trace.
fn running(path: &Path) -> Result<Option<Followed>, Failure> {
    let followed = find_followed(path)?;
    let Some(session) = followed.session() else {
        return Ok(None);
    };
    let name = printable(&session.name);
    if session.state != SessionState::active {
        let trace = printable(&session.output);
        return match path.exists() && session.state == SessionState::stopped {
            true => Ok(None),
            false => Err(Failure::new(format!(
                "session {name} is not running; `piste start {name}` starts it, and `piste top {trace}` shows what it recorded"
            ))),
        };
    }
    if session.snapshot {
        return Err(Failure::new(format!(
            "session {name} keeps its events in memory; take a snapshot with `piste snapshot record -s {name}`, and show it with `piste top DIR`"
        )));
    }
    if !session
        .channels
        .iter()
        .any(|channel| channel.settings.domain == Domain::kernel)
    {
        return Err(Failure::new(format!(
            "session {name} records nothing of the kernel; add events with `piste enable-event -s {name} -k --preset sched,syscalls,irq,io`"
        )));
    }
    Ok(Some(followed))
}

/// The name of the running session, if there is one and no other.
fn only_session() -> Result<PathBuf, Failure> {
    let sessions =
        sessions().map_err(|error| Failure::new(format!("{error}; to show a trace, name it: `piste top TRACE`")))?;
    let mut running: Vec<String> = sessions
        .into_iter()
        .filter(|session| session.state == SessionState::active && !session.snapshot)
        .map(|session| session.name)
        .collect();
    match running.len() {
        0 => Err(Failure::new(
            "no session is running; start one with `piste create`, `piste enable-event -k --preset sched,syscalls,irq,io` and `piste start`, or name a trace: `piste top TRACE`",
        )),
        1 => Ok(PathBuf::from(running.remove(0))),
        _ => Err(Failure::with_status(
            format!(
                "several sessions are running ({}); name one: `piste top {}`",
                printable(&running.join(", ")),
                printable(&running[0])
            ),
            USAGE,
        )),
    }
}
