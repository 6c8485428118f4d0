// SPDX-License-Identifier: MIT OR Apache-2.0
//! How an instance goes: off first, so that it records nothing even where it cannot be removed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::Instance;
use crate::tracefs::{self, named};
use crate::turn_off::turn_off;

/// How long a reader that is about to end keeps an instance from being removed.
const REMOVAL_MAX: Duration = Duration::from_secs(3);

impl Instance {
    /// Turns everything of it off, then removes it. Waits for a while for others that still read it.
    ///
    /// # Errors
    /// Somebody holds a file of it open. It records nothing then, and can be removed later.
    pub fn remove(self) -> io::Result<()> {
        // Removing alone would do all of it, but slowly (turn_off.rs), and not where it fails.
        let quiet = self.set_on(false).and_then(|()| self.turn_events_off());
        self.remove_folder().map_err(|error| match quiet {
            Err(also) if also.kind() != io::ErrorKind::NotFound => named(&error, also),
            _ => error,
        })
    }

    /// Removes it as it is, and what is attached to its events if it cannot be removed at once.
    pub(crate) fn remove_folder(&self) -> io::Result<()> {
        let begun = Instant::now();
        let mut triggers = None;
        loop {
            let error = match fs::remove_dir(&self.folder) {
                Ok(()) => return Ok(()),
                // Whoever removed it at the same time did what was wanted.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                Err(error) => error,
            };
            let triggers = triggers.get_or_insert_with(|| self.remove_triggers());
            if error.kind() != io::ErrorKind::ResourceBusy || begun.elapsed() > REMOVAL_MAX {
                let also = triggers
                    .as_ref()
                    .err()
                    .map_or_else(String::new, |error| format!(" ({error})"));
                return Err(named(
                    &error,
                    format!(
                        "cannot remove {}: another process is reading it{also}",
                        self.folder.display()
                    ),
                ));
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn turn_events_off(&self) -> io::Result<()> {
        let events = self.events_on()?;
        turn_off(self, &events);
        // Whatever could not be named, or was turned on in between.
        self.write("events/enable", "0")
    }

    /// Takes away what was attached to events: stack traces, switches of other events.
    fn remove_triggers(&self) -> io::Result<()> {
        let mut result = Ok(());
        for event in event_folders(&self.path("events"))? {
            let file = event.join("trigger");
            let Ok(text) = tracefs::read(&file) else { continue };
            for trigger in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
                result = result.and(tracefs::append(&file, &format!("!{trigger}")));
            }
        }
        result
    }
}

/// Folders of all events.
fn event_folders(events: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for group in fs::read_dir(events)?.filter_map(Result::ok) {
        if group.file_type()?.is_dir() {
            let inner = fs::read_dir(group.path())?.filter_map(Result::ok);
            found.extend(
                inner
                    .filter(|event| event.file_type().is_ok_and(|kind| kind.is_dir()))
                    .map(|event| event.path()),
            );
        }
    }
    Ok(found)
}
