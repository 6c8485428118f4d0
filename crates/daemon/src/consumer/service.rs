// SPDX-License-Identifier: MIT OR Apache-2.0
//! A consumer process as control sees it: a listening socket, one connection, requests and their answers. One thread listens to control
//! and hands everything on to the threads of the sessions (worker.rs); it waits for nothing else. That thread ends at once when the process
//! is killed, also while another one waits for a disk: control watches it (remains.rs).
//!
//! What the sessions are made of is their [`Domain`]'s: the rings of programs (mod.rs), or those of the kernel
//! (crate::kernel_consumer).

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use piste_reason::reason;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with, listen};
use rustix::process::{Resource, Rlimit, getrlimit, setpriority_process, setrlimit};

use super::held::Question;
use super::outbox::{Outbox, lock};
use super::stage::Again;
use super::watch::Watch;
use super::worker::{Letter, Worker, Workers};
use crate::bell::Bell;
use crate::link::{ChannelTotals, Failure, Link, Opening, RequestId, Rotation, ToConsumer, ToControl};
use crate::person::Output;
use crate::remains::{LISTENING_THREAD, Predecessors};

/// Messages taken in one go: new connections are looked at in between.
const MESSAGES_MAX: usize = 256;

/// A session that has waited for its disk for so long is held up: whoever asks it something is told so, once their patience ends.
const HELD_UP_AFTER: Duration = Duration::from_millis(50);

/// A kind of tracing sessions: what a session's thread has beside the session.
pub(crate) trait Domain {
    /// A session of this kind.
    type Session: Recording;

    /// A session that is new here: stopped, without channels.
    fn open(&mut self, opening: Opening, outbox: &Outbox, now: Instant) -> Self::Session;

    /// A message that only this domain understands; [`refuse`] answers the others.
    fn handle(&mut self, letter: Letter, session: &mut Self::Session, outbox: &Outbox, now: Instant);

    /// Does what there is to do for the session; says when to come back.
    fn look(&mut self, session: &mut Self::Session, outbox: &Outbox, now: Instant) -> Again;

    /// The session was looked at; `again` is when it is done next.
    fn rest(&mut self, again: Again);

    /// What [`Again::AtPace`] means.
    fn interval(&self) -> Option<Duration>;

    /// What to wait for beside control: to be looked at when readable.
    fn descriptors<'a>(&'a self, _session: &'a Self::Session) -> Vec<BorrowedFd<'a>> {
        vec![]
    }

    /// The session is closed.
    fn closed(&mut self, _session: &Self::Session) {}

    /// One of these descriptors is readable.
    fn woken(&mut self) {}
}

/// A tracing session as control can ask it to do something.
pub(crate) trait Recording {
    fn is_started(&self) -> bool;

    /// Begins to record, or goes on.
    ///
    /// # Errors
    /// The trace cannot be begun.
    fn start(&mut self, outbox: &Outbox) -> Result<(), Failure>;

    /// What the channels recorded and lost.
    fn totals(&mut self) -> Vec<ChannelTotals>;

    /// Ends recording, and has everything written; `request` is answered then. To `close` is to drop everything as well.
    fn end(&mut self, request: RequestId, close: bool, now: Instant);

    /// Has a snapshot written to `output`; `request` is answered then.
    fn snapshot(&mut self, request: RequestId, output: Output, outbox: &Outbox);

    /// Has the chunk ended that is recorded to; `request` is answered when nobody writes to it any more.
    fn rotate(&mut self, request: RequestId, rotation: Rotation, outbox: &Outbox);

    /// Has everything written that was recorded by now; `request` is answered then.
    fn flush(&mut self, request: RequestId, outbox: &Outbox);
}

/// Runs a consumer, which accepts control's connections on `listener` (SOCK_SEQPACKET), until control says `Exit`. `domain` makes what
/// the thread of each session has; `watch` hears of boards. `predecessors` may be in the middle of a step.
///
/// # Errors
/// The listener is no such socket, polling fails, or no descriptor or thread is left.
pub(crate) fn run<D, F>(
    listener: OwnedFd,
    predecessors: Predecessors,
    watch: Option<Arc<Watch>>,
    domain: F,
) -> io::Result<()>
where
    D: Domain,
    F: FnOnce() -> D + Clone + Send + 'static,
{
    // Who connects learns from now on which process this is, instead of which one made the socket. As many may wait as the kernel allows.
    listen(&listener, i32::MAX)?;
    let start = move |opening, outbox: &Outbox, workers: &Workers| {
        let (domain, predecessors) = (domain.clone(), predecessors.clone());
        Worker::start(opening, domain, predecessors, outbox, workers)
    };
    let service = Service::new(watch, start)?;
    let thread = thread::Builder::new().name(LISTENING_THREAD.into());
    let ended = thread.spawn(move || service.serve(&listener))?.join();
    ended.unwrap_or_else(|panicked| resume_unwind(panicked))
}

/// Answers a message that is for another kind of consumer.
pub(crate) fn refuse(message: &ToConsumer, outbox: &Outbox) {
    if let Some(request) = message.request() {
        let what = "this consumer has no sessions of this kind".into();
        let outcome = Err(Failure::Other { what });
        outbox.send(&ToControl::Done { request, outcome });
    }
}

/// Answers a request for a snapshot where there is nothing to take one of.
pub(crate) fn refuse_snapshot(request: RequestId, outbox: &Outbox) {
    let what = "the session writes its trace continuously and keeps nothing for a snapshot".into();
    let outcome = Err(Failure::Other { what });
    outbox.send(&ToControl::Done { request, outcome });
}

/// Answers a request to rotate a session that has no chunks.
pub(crate) fn refuse_rotation(request: RequestId, outbox: &Outbox) {
    let what = "the session keeps its events in memory and has no chunks".into();
    let outcome = Err(Failure::Other { what });
    outbox.send(&ToControl::Done { request, outcome });
}

/// Asks for what a consumer needs; it works without, only less well. Before its threads start, which inherit the priority.
pub(crate) fn prepare_process() {
    // Rings overflow while the consumer waits for a CPU.
    let _ = setpriority_process(None, -20);
    // Two files for each ring, one for each ring set.
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            ..limit
        },
    );
}

/// The listening thread. `Start` begins to look after a session.
pub(crate) struct Service<Start> {
    pub(crate) outbox: Outbox,
    /// There is something to do with the connection.
    bell: Arc<Bell>,
    pub(crate) workers: Workers,
    watch: Option<Arc<Watch>>,
    /// Control has said everything that there was when this consumer was new.
    is_described: bool,
    start: Start,
}

/// What there is to do.
struct Ready {
    connection: bool,
    link: bool,
}

#[derive(PartialEq, Eq)]
pub(crate) enum Received {
    /// As much as is taken in one go; the rest is there at the next look.
    Messages,
    Exit,
}

impl<Start> Service<Start>
where
    Start: FnMut(Opening, &Outbox, &Workers) -> io::Result<Worker>,
{
    /// One without a connection and without sessions.
    ///
    /// # Errors
    /// No descriptor is left.
    pub(crate) fn new(watch: Option<Arc<Watch>>, start: Start) -> io::Result<Service<Start>> {
        let bell = Arc::new(Bell::new()?);
        Ok(Service {
            outbox: Outbox::new(bell.clone()),
            bell,
            workers: Workers::default(),
            watch,
            is_described: false,
            start,
        })
    }

    fn serve(mut self, listener: &OwnedFd) -> io::Result<()> {
        loop {
            let ready = self.wait(listener)?;
            if ready.connection {
                self.accept(listener)?;
            }
            if ready.link && self.receive(MESSAGES_MAX) == Received::Exit {
                return Ok(());
            }
            self.answer_for_those_held_up();
        }
    }

    /// Sleeps until control says something, or a session that somebody asks about has had its time.
    fn wait(&mut self, listener: &OwnedFd) -> io::Result<Ready> {
        let is_asked = lock(&self.workers).values().any(|worker| lock(&worker.held).is_asked());
        let timeout = is_asked.then(|| Timespec::try_from(HELD_UP_AFTER).expect("it is short"));
        let link = self.outbox.socket();
        let mut descriptors = vec![
            PollFd::new(listener, PollFlags::IN),
            PollFd::new(&*self.bell, PollFlags::IN),
        ];
        if let Some((socket, wants_write)) = &link {
            let writing = if *wants_write {
                PollFlags::OUT
            } else {
                PollFlags::empty()
            };
            descriptors.push(PollFd::new(socket, PollFlags::IN | writing));
        }
        match poll(&mut descriptors, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_ready = |descriptor: &PollFd<'_>| !descriptor.revents().is_empty();
        let ready = Ready {
            connection: is_ready(&descriptors[0]),
            link: descriptors[1..].iter().any(is_ready),
        };
        self.bell.silence();
        Ok(ready)
    }

    /// Accepts the connection of a control process; a newer one replaces an older one.
    fn accept(&mut self, listener: &OwnedFd) -> io::Result<()> {
        match accept_with(listener, SocketFlags::CLOEXEC) {
            Ok(socket) => self.connect(Link::new(socket)),
            // It went away again, or there is no descriptor left: it waits.
            Err(Errno::INTR | Errno::AGAIN | Errno::CONNABORTED | Errno::MFILE | Errno::NFILE | Errno::NOMEM) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// A newer control process replaces an older one. What that has said is taken first: it may be the only one that knew of a ring set.
    pub(crate) fn connect(&mut self, link: Link) {
        while let Ok(Some((message, descriptor))) = self.outbox.receive() {
            self.hand_on(message, descriptor.map(Arc::new));
        }
        self.outbox.connect(link);
    }

    /// Takes at most so many messages from control.
    pub(crate) fn receive(&mut self, most: usize) -> Received {
        self.outbox.flush();
        for _ in 0..most {
            match self.outbox.receive() {
                Ok(None) => break,
                Ok(Some((ToConsumer::Exit, _))) => return Received::Exit,
                Ok(Some((message, descriptor))) => self.hand_on(message, descriptor.map(Arc::new)),
                // A message that is none: after it nothing can be understood as it was meant.
                Err(_) => self.outbox.disconnect(),
            }
        }
        Received::Messages
    }

    /// Hands a message on to the session that it is about.
    fn hand_on(&mut self, message: ToConsumer, descriptor: Option<Arc<OwnedFd>>) {
        let message = match self.open(message) {
            None => return,
            Some(message) => message,
        };
        let workers = lock(&self.workers);
        let worker = match (&message, message.session()) {
            (_, Some(session)) => workers.get(&session),
            (ToConsumer::ProgramGone { key } | ToConsumer::RetireRingSet { key }, _) => {
                workers.values().find(|worker| lock(&worker.held).has(*key))
            }
            (&ToConsumer::AddBoard { board }, _) => {
                if let (Some(watch), Some(memory)) = (&self.watch, &descriptor) {
                    watch.add_board(board, memory);
                }
                return;
            }
            (ToConsumer::Adopt, _) => {
                // Everything that is here.
                for (&session, worker) in &*workers {
                    lock(&worker.held).tell(session, &self.outbox);
                }
                let pid = std::process::id() as i32;
                let described = self.is_described;
                self.outbox.send(&ToControl::Adopted { pid, described });
                return;
            }
            (ToConsumer::Described, _) => {
                drop(workers);
                self.is_described = true;
                return;
            }
            _ => None,
        };
        let Some(worker) = worker else {
            drop(workers);
            return answer_for_nobody(&message, &self.outbox);
        };
        match (&message, &descriptor) {
            (ToConsumer::AddRingSet { key, .. }, Some(memory)) => lock(&worker.held).add(*key, memory.clone()),
            (&ToConsumer::Report { request, confirms, .. }, _) => {
                let question = if confirms {
                    Question::Confirmation
                } else {
                    Question::Totals
                };
                lock(&worker.held).ask(request, question, Instant::now());
            }
            _ => {}
        }
        worker.post((message, descriptor));
    }

    /// Starts the thread of a new session; other messages come back.
    fn open(&mut self, message: ToConsumer) -> Option<ToConsumer> {
        let ToConsumer::OpenSession(opening) = message else {
            return Some(message);
        };
        let session = opening.session;
        if lock(&self.workers).contains_key(&session) {
            return None;
        }
        match (self.start)(opening, &self.outbox, &self.workers) {
            Ok(worker) => drop(lock(&self.workers).insert(session, worker)),
            Err(error) => {
                let what = format!(
                    "nothing is recorded, because the consumer cannot start a thread: {}",
                    reason(&error)
                );
                self.outbox.send(&ToControl::Finding { session, what });
            }
        }
        None
    }

    /// Whoever has asked something of a session that waits for its disk is told so.
    fn answer_for_those_held_up(&self) {
        for worker in lock(&self.workers).values() {
            let Some(time) = worker.busy.time().filter(|time| *time >= HELD_UP_AFTER) else {
                continue;
            };
            for (request, question) in lock(&worker.held).take_impatient(Instant::now()) {
                let then = match question {
                    Question::Totals => "",
                    Question::Confirmation => "; the change is saved, and takes effect when the disk responds again",
                };
                let what = format!(
                    "it has been waiting for the disk of the trace for {:.1} s{then}",
                    time.as_secs_f64()
                );
                let outcome = Err(Failure::Other { what });
                self.outbox.send(&ToControl::Done { request, outcome });
            }
        }
    }
}

/// Answers a message about a session that is not here.
pub(super) fn answer_for_nobody(message: &ToConsumer, outbox: &Outbox) {
    let answer = match *message {
        // It was closed before; the answer was lost.
        ToConsumer::CloseSession { request, .. } => ToControl::Done {
            request,
            outcome: Ok(vec![]),
        },
        // It was done before; the message was lost.
        ToConsumer::ProgramGone { key } | ToConsumer::RetireRingSet { key } => ToControl::RingSetDone { key },
        ToConsumer::AddRingSet { key, .. } => ToControl::RingSetRefused {
            key,
            why: "no such session".into(),
        },
        ToConsumer::AddChannel { session, .. }
        | ToConsumer::AddClass { session, .. }
        | ToConsumer::SetKernelChannel { session, .. } => ToControl::Finding {
            session,
            what: "no such session".into(),
        },
        _ => {
            let (Some(request), Some(session)) = (message.request(), message.session()) else {
                return;
            };
            let what = format!("the consumer has no session {session}");
            let outcome = Err(Failure::Other { what });
            ToControl::Done { request, outcome }
        }
    };
    outbox.send(&answer);
}
