// SPDX-License-Identifier: MIT OR Apache-2.0
//! The screen: keeps the intervals that can be gone back to, takes keys and signals, and gives the terminal back however it ends.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use piste_analysis::top::Interval;
use piste_reason::reason;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGINT, SIGTERM};

use super::keys::{Bounds, Controls, Place};
use super::layout::{self, Picture};
use super::{Flow, Progress, Scene, Viewer};
use crate::arguments::Top;
use crate::child::not_ignored;
use crate::failure::{Failure, KILLED};
use crate::screen::printable;

/// Of a session, so many intervals can be gone back to: ten minutes of seconds.
const KEPT_OF_SESSION: usize = 600;
/// No more often than this without a key.
const REDRAW: Duration = Duration::from_millis(100);
/// The longest time that a played interval is shown.
const STEP_MAX: Duration = Duration::from_secs(1);
const STEP_MIN: Duration = Duration::from_millis(100);

pub(super) struct Display {
    /// From the first thing that is shown on.
    terminal: Option<DefaultTerminal>,
    name: String,
    is_live: bool,
    controls: Controls,
    kept: VecDeque<Interval>,
    /// How many were kept before the first of them.
    forgotten: usize,
    whole: Option<Interval>,
    drawn: Option<Instant>,
    stepped: Instant,
    has_news: bool,
    /// The signal that ends it; 0: none came.
    signal: Arc<AtomicUsize>,
}

impl Display {
    pub(super) fn new(path: &Path, is_live: bool, arguments: &Top) -> Display {
        Display {
            terminal: None,
            name: printable(&path.to_string_lossy()).into_owned(),
            is_live,
            controls: Controls::new(arguments.sort),
            kept: VecDeque::new(),
            forgotten: 0,
            whole: None,
            drawn: None,
            stepped: Instant::now(),
            has_news: true,
            signal: Arc::default(),
        }
    }

    /// Gives the terminal back. `result`: of what was shown.
    pub(super) fn close(mut self, result: Result<(), Failure>) -> Result<(), Failure> {
        if self.terminal.take().is_some() {
            // A terminal that is gone cannot be restored, and need not be.
            let _ = ratatui::try_restore();
        }
        // Relaxed: the value is all there is.
        match self.signal.load(Ordering::Relaxed) {
            0 => result,
            signal => Err(Failure::with_status(
                "interrupted",
                KILLED.saturating_add(u8::try_from(signal).unwrap_or(0)),
            )),
        }
    }

    fn open(&mut self) -> Result<(), Failure> {
        if self.terminal.is_some() {
            return Ok(());
        }
        // SIGHUP ends the process by itself: the terminal is gone, so there is nothing to restore.
        for signal in not_ignored([SIGTERM, SIGINT]).unwrap_or_default() {
            let number = usize::try_from(signal).unwrap_or(0);
            signal_hook::flag::register_usize(signal, Arc::clone(&self.signal), number).map_err(unusable)?;
        }
        // It also restores the terminal if this panics.
        self.terminal = Some(ratatui::try_init().map_err(unusable)?);
        Ok(())
    }

    fn bounds(&self) -> Bounds {
        Bounds {
            first: self.forgotten,
            end: self.forgotten + self.kept.len(),
            is_live: self.is_live,
            has_whole: self.whole.is_some(),
        }
    }

    /// Which interval is shown, if there is one.
    fn shown(&self) -> Option<&Interval> {
        match self.controls.place {
            Place::Whole => self.whole.as_ref(),
            Place::Latest => self.kept.back(),
            Place::At(place) => self.kept.get(place.saturating_sub(self.forgotten)),
        }
    }

    /// Takes the keys that were pressed; waits for the first one.
    fn take_keys(&mut self, patience: Duration) -> io::Result<Flow> {
        if has_hung_up(patience)? {
            return Ok(Flow::Stop);
        }
        while event::poll(Duration::ZERO)? {
            let pressed = match event::read()? {
                Event::Key(key) => Some(key).filter(|key| key.kind != KeyEventKind::Release),
                _ => None,
            };
            if pressed.is_some_and(|key| self.controls.key(key, self.bounds()) == Flow::Stop) {
                return Ok(Flow::Stop);
            }
            // Anything else is a new size.
            (self.has_news, self.drawn) = (true, None);
        }
        Ok(Flow::GoOn)
    }

    fn play(&mut self) {
        let length = self.shown().map_or(STEP_MAX, |interval| {
            Duration::from_nanos(interval.duration_ns().cast_unsigned())
        });
        if self.controls.is_playing && self.stepped.elapsed() >= length.clamp(STEP_MIN, STEP_MAX) {
            self.controls.advance(self.bounds());
            self.stepped = Instant::now();
            self.has_news = true;
        }
    }

    fn draw(&mut self, scene: Option<&Scene<'_>>) -> Result<(), Failure> {
        let is_soon = self.drawn.is_some_and(|drawn| drawn.elapsed() < REDRAW);
        if !self.has_news || is_soon {
            return Ok(());
        }
        let Some(mut terminal) = self.terminal.take() else {
            return Ok(());
        };
        let mut skipped = self.controls.skipped;
        let picture = Picture {
            name: &self.name,
            controls: &self.controls,
            bounds: self.bounds(),
            shown: self.shown().zip(scene),
            notes: scene.map_or(&[], |scene| scene.notes),
            progress: scene.map_or(Progress::CatchingUp, |scene| scene.progress),
        };
        let drawn = terminal.draw(|frame| skipped = layout::draw(frame, &picture)).map(drop);
        self.terminal = Some(terminal);
        self.controls.skipped = skipped;
        (self.drawn, self.has_news) = (Some(Instant::now()), false);
        drawn.map_err(unusable)
    }
}

impl Viewer for Display {
    fn wants_intervals(&self) -> bool {
        true
    }

    fn interval(&mut self, interval: Interval, scene: &Scene<'_>) -> Result<Flow, Failure> {
        self.kept.push_back(interval);
        if self.is_live && self.kept.len() > KEPT_OF_SESSION {
            self.kept.pop_front();
            self.forgotten += 1;
            // The oldest one that there is takes the place of one that is gone.
            if let Place::At(place) = &mut self.controls.place {
                *place = (*place).max(self.forgotten);
            }
        }
        self.has_news = true;
        self.pause(Some(scene), Duration::ZERO)
    }

    fn pause(&mut self, scene: Option<&Scene<'_>>, patience: Duration) -> Result<Flow, Failure> {
        self.open()?;
        self.draw(scene)?;
        let flow = match self.take_keys(patience) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Flow::GoOn,
            taken => taken.map_err(unusable)?,
        };
        self.play();
        self.draw(scene)?;
        // Relaxed: the value is all there is.
        match self.signal.load(Ordering::Relaxed) {
            0 => Ok(flow),
            _ => Ok(Flow::Stop),
        }
    }

    fn end(&mut self, whole: Option<Interval>, scene: &Scene<'_>) -> Result<(), Failure> {
        self.whole = whole;
        if self.whole.is_some() && self.controls.place == Place::Latest {
            self.controls.place = Place::Whole;
        }
        (self.has_news, self.drawn) = (true, None);
        while self.pause(Some(scene), REDRAW)? == Flow::GoOn {}
        Ok(())
    }
}

/// Waits for a key or a signal, such as the one for a new size. Whether the terminal is gone: crossterm would read its end again and again.
fn has_hung_up(patience: Duration) -> io::Result<bool> {
    let stdin = io::stdin();
    let mut terminal = [PollFd::new(&stdin, PollFlags::IN)];
    poll(&mut terminal, Timespec::try_from(patience).ok().as_ref())?;
    Ok(terminal[0].revents().intersects(PollFlags::HUP | PollFlags::ERR))
}

fn unusable(error: io::Error) -> Failure {
    Failure::new(format!(
        "cannot use the terminal: {}; `piste top -n 1` prints tables instead",
        reason(&error)
    ))
}
