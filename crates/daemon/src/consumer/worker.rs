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
        let (letters, received) = channel();
        let bell = Arc::new(Bell::new()?);
        let held = Arc::<Mutex<Held>>::default();
        let desk = Desk {
            session: opening.session,
            letters: received,
            bell: bell.clone(),
            held: held.clone(),
            outbox: outbox.of_session(held.clone()),
        };
        let (busy, told) = channel();
        let workers = workers.clone();
        let name = format!("pisted-{}", opening.session);
        std::thread::Builder::new().name(name.clone()).spawn(move || {
            let _whole = EndsWithProcess;
            let _ = busy.send(Busy::of_this_thread());
            predecessors.wait_for(&name);
            work(opening, domain(), &desk, &workers);
        })?;
        let busy = told.recv().map_err(io::Error::other)?;
        Ok(Worker {
            letters,
            bell,
            held,
            busy,
        })
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

fn work<D: Domain>(opening: Opening, mut domain: D, desk: &Desk, workers: &Workers) {
    let mut session = domain.open(opening, &desk.outbox);
    let mut again = Again::After(Duration::ZERO);
    while again != Again::Closed {
        let timeout = match again {
            Again::Never | Again::Closed => None,
            Again::AtPace => domain.interval(),
            Again::After(duration) => Some(duration),
        };
        if desk.wait(&domain, &session, timeout) {
            domain.woken();
        }
        desk.bell.silence();
        for (message, descriptor) in desk.take_letters() {
            desk.handle(&mut domain, &mut session, message, descriptor);
        }
        lock(&desk.held).is_started = session.is_started();
        again = domain.look(&mut session, &desk.outbox, Instant::now());
        domain.rest(again);
    }
    domain.closed(&session);
    // Whoever finds it among the workers has posted by now.
    lock(workers).remove(&desk.session);
    for (message, _) in desk.letters.try_iter() {
        answer_for_nobody(&message, &desk.outbox);
    }
}

impl Desk {
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

    fn handle<D: Domain>(
        &self,
        domain: &mut D,
        session: &mut D::Session,
        message: ToConsumer,
        descriptor: Option<Arc<OwnedFd>>,
    ) {
        let outbox = &self.outbox;
        match message {
            ToConsumer::Start { request, .. } => {
                let outcome = session.start(outbox).map(|()| session.totals());
                outbox.send(&ToControl::Done { request, outcome });
            }
            ToConsumer::Report { request, .. } => {
                if lock(&self.held).take_report(request) {
                    let outcome = Ok(session.totals());
                    outbox.send(&ToControl::Done { request, outcome });
                }
            }
            ToConsumer::Stop { request, .. } => session.end(request, false, Instant::now()),
            ToConsumer::CloseSession { request, .. } => session.end(request, true, Instant::now()),
            ToConsumer::Snapshot {
                output, owner, request, ..
            } => session.snapshot(request, Output { folder: output, owner }, outbox),
            ToConsumer::Rotate { rotation, request, .. } => session.rotate(request, rotation, outbox),
            ToConsumer::Flush { request, .. } => session.flush(request, outbox),
            of_a_domain => domain.handle(of_a_domain, descriptor, session, outbox),
        }
    }
}
