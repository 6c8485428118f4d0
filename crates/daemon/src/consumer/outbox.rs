// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a consumer tells the control process, whether or not one is there to hear it.
//!
//! Nothing is kept for a control process that is away: a new one asks for everything (`Adopt`), repeats the requests that had no
//! answer, and finds findings in the totals.
//!
//! Every session's thread sends for itself: when that returns, the message survives the process. Only the thread that listens to
//! control connects and disconnects.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::held::Held;
use crate::bell::Bell;
use crate::link::{Link, ToConsumer, ToControl};

/// The connection to the control process, while there is one.
#[derive(Debug, Clone)]
pub(crate) struct Outbox {
    connection: Arc<Connection>,
    /// Of the session whose thread has it.
    held: Option<Arc<Mutex<Held>>>,
}

#[derive(Debug)]
struct Connection {
    link: Mutex<Option<Link>>,
    /// Wakes the thread that listens to control.
    bell: Arc<Bell>,
}

impl Outbox {
    /// One without a connection. Rings when there is something to do with the connection: to flush it, or to give it up.
    pub(crate) fn new(bell: Arc<Bell>) -> Outbox {
        let link = Mutex::default();
        Outbox {
            connection: Arc::new(Connection { link, bell }),
            held: None,
        }
    }

    /// The same for a session's thread: what that sends says also what it has no longer.
    pub(crate) fn of_session(&self, held: Arc<Mutex<Held>>) -> Outbox {
        Outbox {
            connection: self.connection.clone(),
            held: Some(held),
        }
    }

    /// A newer connection replaces an older one.
    pub(crate) fn connect(&self, link: Link) {
        *self.link() = Some(link);
    }

    /// The control process is gone.
    pub(crate) fn disconnect(&self) {
        *self.link() = None;
    }

    /// To be polled, for writing too when the second is true.
    pub(crate) fn socket(&self) -> Option<(Arc<OwnedFd>, bool)> {
        let link = self.link();
        link.as_ref().map(|link| (link.socket(), link.wants_write()))
    }

    /// Sends at once, as far as the control process keeps up. When this returns, the message survives this process.
    pub(crate) fn send(&self, message: &ToControl) {
        self.send_with(message, None);
    }

    /// As `send`, with a descriptor.
    pub(crate) fn send_with(&self, message: &ToControl, descriptor: Option<Arc<OwnedFd>>) {
        if let Some(held) = &self.held {
            lock(held).note(message);
        }
        let mut link = self.link();
        let sent = link.as_mut().map(|link| {
            let sent = link.send(message, descriptor);
            sent.is_err() || link.wants_write()
        });
        if sent == Some(true) {
            // The thread that listens sends the rest, or finds the connection broken.
            self.connection.bell.ring();
        }
    }

    /// Sends what waits.
    pub(crate) fn flush(&self) {
        let mut link = self.link();
        if link.as_mut().is_some_and(|link| link.flush().is_err()) {
            *link = None;
        }
    }

    /// The next message from control; `None` when nothing waits.
    ///
    /// # Errors
    /// A message that is none, or the connection is broken.
    pub(crate) fn receive(&self) -> io::Result<Option<(ToConsumer, Option<OwnedFd>)>> {
        self.link().as_mut().map_or(Ok(None), Link::receive)
    }

    fn link(&self) -> MutexGuard<'_, Option<Link>> {
        lock(&self.connection.link)
    }
}

/// A thread that panics ends the process: nobody finds anything half done.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
