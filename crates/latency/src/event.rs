// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a turn of the tight loop does besides reading the clock: nothing, or recording an event. The event is in a library that was compiled for
//! a tracer (crates/bench/src/measured/turn.h), so the loop is the same for all tracers, and so is what a turn costs beside the event: a call.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::system::{EventFunctions, load_event};

/// Far more than a tracer takes to learn of a program.
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// What a turn does.
pub(crate) trait Event {
    /// Does it.
    fn record(&mut self);
    /// How often that was.
    fn count(&self) -> u64;
}

/// Nothing.
pub(crate) struct NoEvent;

impl Event for NoEvent {
    #[inline(always)]
    fn record(&mut self) {}

    fn count(&self) -> u64 {
        0
    }
}

/// The event of a library that is loaded. It stays loaded as long as the process runs.
#[derive(Clone, Copy, Debug)]
pub struct LoadedEvent(EventFunctions);

impl LoadedEvent {
    /// Loads a library, and waits until its event is recorded.
    ///
    /// # Errors
    /// Why that is not possible, as a sentence without its end.
    pub(crate) fn load(library: &Path) -> Result<LoadedEvent, String> {
        let event = LoadedEvent(load_event(library)?);
        let deadline = Instant::now() + PATIENCE;
        while (event.0.is_recorded)() == 0 {
            if Instant::now() > deadline {
                return Err(format!(
                    "the tracer did not start recording the event within {} s",
                    PATIENCE.as_secs()
                ));
            }
            thread::sleep(LOOK_AGAIN);
        }
        Ok(event)
    }

    /// To be recorded in each turn.
    pub(crate) fn recorded(self) -> RecordedEvent {
        RecordedEvent {
            call: self.0.record,
            number: 0,
        }
    }
}

/// An event that is recorded.
pub(crate) struct RecordedEvent {
    call: extern "C" fn(u32),
    number: u64,
}

impl Event for RecordedEvent {
    #[inline(always)]
    fn record(&mut self) {
        (self.call)(self.number as u32);
        self.number += 1;
    }

    fn count(&self) -> u64 {
        self.number
    }
}
