// SPDX-License-Identifier: MIT OR Apache-2.0
//! Looks for threads that a session is to record by now, or not any more, while it records.
//!
//! A thread of the session does it. The kernel's lists of threads can be read and changed only while nobody else changes what is recorded, in any
//! session; that can take a tenth of a second, and a ring that nobody empties is full sooner.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use piste_kernel::instance::Instance;
use piste_kernel::spec::Tracked;

use super::hidden;

/// How soon to look again, and to ask what was found.
pub(super) const INTERVAL: Duration = Duration::from_millis(250);

/// A thread that looks. Ends when it is dropped, which may take as long as one look.
pub(super) struct Tracking {
    /// Disconnected to end it.
    asks: Option<Sender<()>>,
    found: Receiver<Found>,
    thread: Option<JoinHandle<()>>,
}

/// What was found out about an instance.
pub(super) struct Found {
    pub(super) stream_id: u32,
    pub(super) findings: Vec<String>,
}

impl Tracking {
    /// Begins to look, at once. Each instance is that of a channel, with the number of its stream class.
    ///
    /// # Errors
    /// There can be no thread.
    pub(super) fn begin(tracked: Tracked, instances: Vec<(u32, Instance)>) -> io::Result<Tracking> {
        let (asks, asked) = channel();
        let (find, found) = channel();
        let look = move || look(&tracked, &instances, &asked, &find);
        let thread = thread::Builder::new().name("pisted-tracking".into()).spawn(look)?;
        Ok(Tracking {
            asks: Some(asks),
            found,
            thread: Some(thread),
        })
    }

    /// What was found since the last time.
    pub(super) fn found(&self) -> impl Iterator<Item = Found> {
        self.found.try_iter()
    }
}

impl Drop for Tracking {
    fn drop(&mut self) {
        self.asks = None;
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has ended too.
            let _ = thread.join();
        }
    }
}

fn look(tracked: &Tracked, instances: &[(u32, Instance)], asked: &Receiver<()>, find: &Sender<Found>) {
    // This thread is new.
    for (_, instance) in instances {
        hidden::hide_own(instance, tracked);
    }
    loop {
        for (stream_id, instance) in instances {
            let (stream_id, findings) = (*stream_id, tracked.refresh(instance));
            hidden::hide_own(instance, tracked);
            if !findings.is_empty() {
                // Nobody asks any more when this is to end.
                let _ = find.send(Found { stream_id, findings });
            }
        }
        match asked.recv_timeout(INTERVAL) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
