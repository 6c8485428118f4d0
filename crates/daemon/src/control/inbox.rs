// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the threads that serve people reach the one thread that has the state: they send it what to do, and wait for the answer.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use super::daemon::Daemon;
use super::poll::{Poll, Watched};
use crate::bell::Bell;
use crate::session::Refusal;

/// Something to do in the daemon's thread.
pub type Command = Box<dyn FnOnce(&mut Daemon) + Send>;

/// How long answers may take on their way out when pisted ends.
const LAST_ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// Where commands go in.
#[derive(Clone)]
pub struct Inbox {
    commands: Sender<Command>,
    shared: Arc<Shared>,
}

/// The daemon's view of those who send commands.
pub struct Clients {
    shared: Arc<Shared>,
}

struct Shared {
    /// Wakes the daemon.
    bell: Bell,
    connection_count: AtomicUsize,
}

/// One connection of a client, counted while it lives.
pub struct Connected(Weak<Shared>);

/// Where a command's answer goes.
pub struct Answer<T>(Sender<Result<T, Refusal>>);

/// Makes an inbox; `poll` will say when commands wait.
///
/// # Errors
/// The system's limit of watches is reached.
pub fn inbox(bell: Bell, poll: &Poll) -> io::Result<(Inbox, Receiver<Command>, Clients)> {
    poll.add(&bell, Watched::Commands)?;
    let shared = Arc::new(Shared {
        bell,
        connection_count: AtomicUsize::new(0),
    });
    let (sender, receiver) = channel();
    Ok((
        Inbox {
            commands: sender,
            shared: shared.clone(),
        },
        receiver,
        Clients { shared },
    ))
}

impl Inbox {
    /// Has something done, and waits for the answer.
    ///
    /// # Errors
    /// Why it was not done.
    pub fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Daemon, Answer<T>) + Send + 'static,
    ) -> Result<T, Refusal> {
        let (sender, receiver) = channel();
        let ended = || Refusal::Internal {
            reason: "it is ending".into(),
        };
        let command: Command = Box::new(move |daemon| question(daemon, Answer(sender)));
        self.commands.send(command).map_err(|_| ended())?;
        self.shared.bell.ring();
        receiver.recv().unwrap_or_else(|_| Err(ended()))
    }

    /// Has something done.
    pub fn post(&self, command: Command) {
        if self.commands.send(command).is_ok() {
            self.shared.bell.ring();
        }
    }

    /// Counts a client until the value is dropped.
    pub fn connect(&self) -> Connected {
        // Relaxed: a count that nothing else depends on.
        self.shared.connection_count.fetch_add(1, Ordering::Relaxed);
        Connected(Arc::downgrade(&self.shared))
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        if let Some(shared) = self.0.upgrade() {
            shared.connection_count.fetch_sub(1, Ordering::Relaxed);
            // An idle pisted looks whether this was the last.
            shared.bell.ring();
        }
    }
}

impl Clients {
    /// Clients that are connected.
    pub fn count(&self) -> usize {
        self.shared.connection_count.load(Ordering::Relaxed)
    }

    /// The bell was heard.
    pub fn acknowledge(&self) {
        self.shared.bell.silence();
    }

    /// Gives the threads that write answers the time to do so: their clients leave when they have them.
    pub fn wait_until_answered(&self) {
        let deadline = Instant::now() + LAST_ANSWER_TIMEOUT;
        while self.count() > 0 && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl<T> Answer<T> {
    /// Answers. Who asked may be gone.
    pub fn give(self, answer: Result<T, Refusal>) {
        let _ = self.0.send(answer);
    }
}
