// SPDX-License-Identifier: MIT OR Apache-2.0
//! What control does with the folders of traces, each in a thread of its own: a disk may hang, and then whoever asked waits, and nobody else.
//!
//! There are no more such threads than clients that wait for an answer, and sessions that end.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::daemon::Daemon;

type Then<T> = Box<dyn FnOnce(&mut Daemon, io::Result<T>) + Send>;

impl Daemon {
    /// Does `work` away from this thread, then goes on here. An error beside that of `work` is that there is no thread for it.
    pub(super) fn with_files<T: Send + 'static>(
        &mut self,
        work: impl FnOnce() -> T + Send + 'static,
        then: impl FnOnce(&mut Daemon, io::Result<T>) + Send + 'static,
    ) {
        let inbox = self.inbox.clone();
        // A thread that cannot be started takes with it what it was given.
        let then: Arc<Mutex<Option<Then<T>>>> = Arc::new(Mutex::new(Some(Box::new(then))));
        let of_thread = then.clone();
        let take = |then: &Mutex<Option<Then<T>>>| then.lock().unwrap_or_else(PoisonError::into_inner).take();
        let started = thread::Builder::new().name("pisted-files".into()).spawn(move || {
            let done = work();
            if let Some(then) = take(&of_thread) {
                inbox.post(Box::new(move |daemon| then(daemon, Ok(done))));
            }
        });
        if let Err(error) = started
            && let Some(then) = take(&then)
        {
            then(self, Err(error));
        }
    }
}
