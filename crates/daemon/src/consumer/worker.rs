// SPDX-License-Identifier: MIT OR Apache-2.0
//! A session's thread. It alone waits for the disk that the session writes to: a disk that hangs holds up this session and no other.
//!
//! What is not written stays in the rings, which are the queue: bounded, and there for the next consumer when this one is killed. Where the
//! disk hangs, a thread of the killed one may still be in a call. The next one's thread waits for its end before it looks at the files:
//! what it finds is then the work of nobody, as after any other kill.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::held::Held;
use super::outbox::{Outbox, lock};
use super::service::{Domain, Recording, answer_for_nobody};
use super::stage::Again;
use crate::bell::Bell;
use crate::busy::Busy;
use crate::link::{Opening, SessionId, ToConsumer, ToControl};
use crate::person::Output;
use crate::remains::Predecessors;

/// Messages taken in one go: rings are looked at in between, however much control has to say.
const MESSAGES_MAX: usize = 256;

/// A message from control, with what came with it.
pub(crate) type Letter = (ToConsumer, Option<Arc<OwnedFd>>);

/// The sessions that have a thread. One that is closed removes itself.
pub(crate) type Workers = Arc<Mutex<BTreeMap<SessionId, Worker>>>;

/// A session's thread, as the thread that listens to control sees it.
#[derive(Debug)]
pub(crate) struct Worker {
    letters: Sender<Letter>,
    bell: Arc<Bell>,
    pub(crate) held: Arc<Mutex<Held>>,
    pub(crate) busy: Busy,
}

/// The same, as the thread itself has it.
struct Desk {
    session: SessionId,
    letters: Receiver<Letter>,
    bell: Arc<Bell>,
    held: Arc<Mutex<Held>>,
    outbox: Outbox,
}

/// What a session's thread does.
pub(crate) struct Work<D: Domain> {
    domain: D,
    session: D::Session,
    desk: Desk,
    workers: Workers,
}

impl Worker {
    /// Starts the thread of a new session.
    ///
    /// # Errors
    /// No thread, or no descriptor is left.
    pub(crate) fn start<D: Domain>(
        opening: Opening,
        domain: impl FnOnce() -> D + Send + 'static,
        predecessors: Predecessors,
        outbox: &Outbox,
        workers: &Workers,
    ) -> io::Result<Worker> {
        let (desk, letters) = Desk::new(opening.session, outbox)?;
        let (bell, held) = (desk.bell.clone(), desk.held.clone());
        let (busy, told) = channel();
        let workers = workers.clone();
        let name = format!("pisted-{}", opening.session);
        std::thread::Builder::new().name(name.clone()).spawn(move || {
            let _whole = EndsWithProcess;
            let _ = busy.send(Busy::of_this_thread());
            predecessors.wait_for(&name);
            Work::begin(opening, domain(), desk, workers, Instant::now()).run();
        })?;
        let busy = told.recv().map_err(io::Error::other)?;
        Ok(Worker {
            letters,
            bell,
            held,
            busy,
        })
    }

    /// A new session without a thread, whose work the caller does.
    #[cfg(test)]
    pub(crate) fn without_thread<D: Domain>(
        opening: Opening,
        domain: D,
        outbox: &Outbox,
        workers: &Workers,
        now: Instant,
    ) -> io::Result<(Worker, Work<D>)> {
        let (desk, letters) = Desk::new(opening.session, outbox)?;
        let worker = Worker {
            letters,
            bell: desk.bell.clone(),
            held: desk.held.clone(),
            busy: Busy::of_this_thread(),
        };
        Ok((worker, Work::begin(opening, domain, desk, workers.clone(), now)))
    }

    /// Hands a message to the session.
    pub(crate) fn post(&self, letter: Letter) {
        // It goes only after it is no longer among the workers.
        let _ = self.letters.send(letter);
        self.bell.ring();
    }
}

/// A session that nobody looks after any more would be a loss that nobody is told of: control starts a new consumer instead.
pub(super) struct EndsWithProcess;

impl Drop for EndsWithProcess {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}

impl<D: Domain> Work<D> {
    fn begin(opening: Opening, mut domain: D, desk: Desk, workers: Workers, now: Instant) -> Work<D> {
        let session = domain.open(opening, &desk.outbox, now);
        Work {
            domain,
            session,
            desk,
            workers,
        }
    }

    fn run(mut self) {
        let mut again = Again::After(Duration::ZERO);
        while again != Again::Closed {
            let timeout = match again {
                Again::Never | Again::Closed => None,
                Again::AtPace => self.domain.interval(),
                Again::After(duration) => Some(duration),
            };
            if self.desk.wait(&self.domain, &self.session, timeout) {
                self.domain.woken();
            }
            self.desk.bell.silence();
            again = self.look(Instant::now);
        }
    }

    /// Takes the letters that are there, then looks at the session. It has no more to do once it is closed.
    pub(crate) fn look(&mut self, now: impl Fn() -> Instant) -> Again {
        let (domain, session, desk) = (&mut self.domain, &mut self.session, &self.desk);
        for letter in desk.take_letters() {
            desk.handle(domain, session, letter, now());
        }
        lock(&desk.held).is_started = session.is_started();
        let again = domain.look(session, &desk.outbox, now());
        domain.rest(again);
        if again == Again::Closed {
            domain.closed(session);
            // Whoever finds it among the workers has posted by now.
            lock(&self.workers).remove(&desk.session);
            for (message, _) in desk.letters.try_iter() {
                answer_for_nobody(&message, &desk.outbox);
            }
        }
        again
    }
}

impl Desk {
    /// That of a session, and where its letters are posted.
    fn new(session: SessionId, outbox: &Outbox) -> io::Result<(Desk, Sender<Letter>)> {
        let (letters, received) = channel();
        let held = Arc::<Mutex<Held>>::default();
        let desk = Desk {
            session,
            letters: received,
            bell: Arc::new(Bell::new()?),
            held: held.clone(),
            outbox: outbox.of_session(held),
        };
        Ok((desk, letters))
    }

    /// Sleeps until there is a letter, or for `timeout`. True when one of the domain's own descriptors is readable.
    fn wait<D: Domain>(&self, domain: &D, session: &D::Session, timeout: Option<Duration>) -> bool {
        let timeout = timeout.map(|timeout| Timespec::try_from(timeout).expect("no timeout is longer than the epoch"));
        let own = domain.descriptors(session);
        let mut descriptors = vec![PollFd::new(&*self.bell, PollFlags::IN)];
        descriptors.extend(own.iter().map(|own| PollFd::new(own, PollFlags::IN)));
        match poll(&mut descriptors, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => descriptors[1..].iter().any(|own| !own.revents().is_empty()),
            // Too many descriptors for the limit that somebody has set: what waits for us is looked at all the same.
            Err(_) => {
                std::thread::sleep(Duration::from_millis(1));
                false
            }
        }
    }

    fn take_letters(&self) -> Vec<Letter> {
        let letters: Vec<Letter> = self.letters.try_iter().take(MESSAGES_MAX).collect();
        if letters.len() == MESSAGES_MAX {
            // The rest is there at the next look.
            self.bell.ring();
        }
        letters
    }

    fn handle<D: Domain>(&self, domain: &mut D, session: &mut D::Session, letter: Letter, now: Instant) {
        let outbox = &self.outbox;
        let (message, descriptor) = letter;
        match message {
            ToConsumer::Start { request, .. } => {
                let outcome = session.start(outbox).map(|()| session.totals());
                outbox.send(&ToControl::Done { request, outcome });
            }
            ToConsumer::Report { request, .. } => {
                if lock(&self.held).take(request) {
                    let outcome = Ok(session.totals());
                    outbox.send(&ToControl::Done { request, outcome });
                }
            }
            ToConsumer::Stop { request, .. } => session.end(request, false, now),
            ToConsumer::CloseSession { request, .. } => session.end(request, true, now),
            ToConsumer::Snapshot {
                output, owner, request, ..
            } => session.snapshot(request, Output { folder: output, owner }, outbox),
            ToConsumer::Rotate { rotation, request, .. } => session.rotate(request, rotation, outbox),
            ToConsumer::Flush { request, .. } => session.flush(request, outbox),
            of_a_domain => domain.handle((of_a_domain, descriptor), session, outbox, now),
        }
    }
}
