// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a consumer tells the control process, whether or not one is there to hear it.
//!
//! Nothing is kept for a control process that is away: a new one asks for everything (`Adopt`), repeats the requests that had no
//! answer, and finds findings in the totals.
//!
//! Every session's thread sends for itself: when that returns, the message survives the process. A message that cannot be sent ends the
//! connection: control notices that, connects again and asks for everything, whereas it would wait for a lost message for ever.

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
    /// One without a connection. Rings when the thread that listens to control has something to do: to flush the connection, or to stop
    /// polling one that has ended.
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

    /// Whether there is a control process.
    pub(crate) fn is_connected(&self) -> bool {
        self.link().is_some()
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
        let mut place = self.link();
        let Some(link) = place.as_mut() else { return };
        match link.send(message, descriptor) {
            Ok(()) if !link.wants_write() => return,
            Ok(()) => {}
            // It is gone. What it said before is still to be received.
            Err(error) if is_end(&error) => return,
            Err(_) => *place = None,
        }
        // The thread that listens to control sends the rest, or lets go of the socket that it polls: only then does control see the end.
        self.connection.bell.ring();
    }

    /// Sends what waits.
    pub(crate) fn flush(&self) {
        let mut link = self.link();
        let flushed = link.as_mut().map_or(Ok(()), Link::flush);
        if flushed.is_err_and(|error| !is_end(&error)) {
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

/// Whether a send fails because the peer is gone: before it has received everything, or after that.
fn is_end(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
}

/// A thread that panics ends the process: nobody finds anything half done.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;
    use crate::link::MESSAGE_BYTES_MAX;

    #[test]
    fn a_message_that_cannot_be_sent_ends_the_connection() {
        let bell = Arc::new(Bell::new().unwrap());
        let outbox = Outbox::new(bell.clone());
        let (ours, of_control) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        outbox.connect(Link::new(ours));
        let polled = outbox.socket();
        outbox.send(&ToControl::Finding {
            session: 1,
            what: "x".repeat(MESSAGE_BYTES_MAX),
        });
        assert!(outbox.socket().is_none(), "nothing else is sent to who lacks a message");
        let now = Timespec::default();
        let is_rung = poll(&mut [PollFd::new(&*bell, PollFlags::IN)], Some(&now)).unwrap() == 1;
        assert!(is_rung, "the thread that polls the socket lets go of it");
        drop(polled);
        let end = Link::new(of_control).receive::<ToControl>().unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn what_a_control_process_said_is_received_although_nothing_can_be_sent_to_it() {
        let outbox = Outbox::new(Arc::new(Bell::new().unwrap()));
        let (ours, of_control) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        outbox.connect(Link::new(ours));
        outbox.send(&ToControl::RingSetDone { key: 1 });
        let mut control = Link::new(of_control);
        control.send(&ToConsumer::ProgramGone { key: 2 }, None).unwrap();
        drop(control);
        (3..6).for_each(|key| outbox.send(&ToControl::RingSetDone { key }));
        outbox.flush();
        let (message, _) = outbox.receive().unwrap().expect("it waits");
        assert_eq!(message, ToConsumer::ProgramGone { key: 2 });
        assert_eq!(outbox.receive().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
