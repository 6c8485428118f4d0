// SPDX-License-Identifier: MIT OR Apache-2.0
//! A consumer process as control sees it: a listening socket, one connection, requests and their answers. One thread, one loop.
//!
//! What the sessions are made of is their [`Domain`]'s: the rings of programs (mod.rs), or those of the kernel
//! (crate::kernel_consumer). The loop takes messages, then looks at every session, then sleeps as long as they allow.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use piste_ctf::Trace;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use rustix::process::{Resource, Rlimit, getrlimit, setpriority_process, setrlimit};

use super::outbox::Outbox;
use super::stage::Again;
use crate::link::{ChannelTotals, Failure, Link, RequestId, Rotation, SessionId, ToConsumer, ToControl};
use crate::person::{Output, Person};

/// Messages taken in one go: rings are looked at in between, however much control has to say.
const MESSAGES_MAX: usize = 256;

/// A kind of tracing sessions, and what they share.
pub(crate) trait Domain {
    /// A session of this kind.
    type Session: Recording;

    /// A session that is new here: stopped, without channels.
    fn open(&mut self, opening: Opening<'_>, outbox: &mut Outbox) -> Self::Session;

    /// A message that only this domain understands; [`refuse`] answers the others.
    fn handle(
        &mut self,
        message: ToConsumer,
        descriptor: Option<OwnedFd>,
        sessions: &mut BTreeMap<SessionId, Self::Session>,
        outbox: &mut Outbox,
    );

    /// Does what there is to do for one session; says when to come back.
    fn look(&mut self, session: &mut Self::Session, outbox: &mut Outbox, now: Instant) -> Again;

    /// Every session was looked at; `again` is when it is done next, and `is_empty` when there is none left.
    fn rest(&mut self, again: Again, is_empty: bool);

    /// What [`Again::AtPace`] means.
    fn interval(&self) -> Option<Duration>;

    /// What to wait for beside control: to be looked at when readable.
    fn descriptors<'a>(&'a self, _sessions: &'a BTreeMap<SessionId, Self::Session>) -> Vec<BorrowedFd<'a>> {
        vec![]
    }

    /// One of these descriptors is readable.
    fn woken(&mut self) {}
}

/// What control says of a new session.
pub(crate) struct Opening<'a> {
    pub(crate) session: SessionId,
    pub(crate) output: &'a Path,
    pub(crate) owner: Person,
    pub(crate) snapshot: bool,
    pub(crate) trace: Trace,
    pub(crate) rotation: Option<Rotation>,
    pub(crate) archived: Vec<ChannelTotals>,
}

/// A tracing session as control can ask it to do something.
pub(crate) trait Recording {
    fn is_started(&self) -> bool;

    /// Begins to record, or goes on.
    ///
    /// # Errors
    /// The trace cannot be begun.
    fn start(&mut self, outbox: &mut Outbox) -> Result<(), Failure>;

    /// What the channels recorded and lost.
    fn totals(&mut self) -> Vec<ChannelTotals>;

    /// Ends recording, and has everything written; `request` is answered then. To `close` is to drop everything as well.
    fn end(&mut self, request: RequestId, close: bool, now: Instant);

    /// Has a snapshot written to `output`; `request` is answered then.
    fn snapshot(&mut self, request: RequestId, output: Output, outbox: &mut Outbox);

    /// Has the chunk ended that is recorded to; `request` is answered when nobody writes to it any more.
    fn rotate(&mut self, request: RequestId, rotation: Rotation, outbox: &mut Outbox);

    /// Has events written that wait for their sub-buffer to be full.
    fn flush(&mut self);

    /// Tells a new control process what the session has, beyond that it is there.
    fn tell(&self, outbox: &mut Outbox);
}

/// Runs a consumer, which accepts control's connections on `listener` (SOCK_SEQPACKET), until control says `Exit`.
///
/// # Errors
/// The listener is no such socket, or polling fails.
pub(crate) fn run<D: Domain>(listener: OwnedFd, domain: D) -> io::Result<()> {
    prepare_process();
    let mut service = Service {
        outbox: Outbox::default(),
        sessions: BTreeMap::new(),
        domain,
    };
    let mut again = Again::Never;
    loop {
        let ready = service.wait(&listener, service.timeout(again))?;
        if ready.connection {
            service.accept(&listener)?;
        }
        if ready.link && service.receive() == Received::Exit {
            return Ok(());
        }
        if ready.session {
            service.domain.woken();
        }
        again = service.work(Instant::now());
    }
}

/// Answers a message that is for another kind of consumer.
pub(crate) fn refuse(message: &ToConsumer, outbox: &mut Outbox) {
    if let Some(request) = message.request() {
        let what = "this consumer has no such sessions".into();
        let outcome = Err(Failure::Other { what });
        outbox.send(&ToControl::Done { request, outcome });
    }
}

/// Answers a request for a snapshot where there is nothing to take one of.
pub(crate) fn refuse_snapshot(request: RequestId, outbox: &mut Outbox) {
    let what = "the session writes everything to its trace and keeps nothing for a snapshot".into();
    let outcome = Err(Failure::Other { what });
    outbox.send(&ToControl::Done { request, outcome });
}

/// Answers a request to rotate a session that has no chunks.
pub(crate) fn refuse_rotation(request: RequestId, outbox: &mut Outbox) {
    let what = "the session keeps its events in memory".into();
    let outcome = Err(Failure::Other { what });
    outbox.send(&ToControl::Done { request, outcome });
}

/// The answer to a request about a session that is not here.
pub(crate) fn unknown(session: SessionId) -> Failure {
    Failure::Other {
        what: format!("the consumer has no session {session}"),
    }
}

/// Asks for what a consumer needs; it works without, only less well.
fn prepare_process() {
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

struct Service<D: Domain> {
    outbox: Outbox,
    sessions: BTreeMap<SessionId, D::Session>,
    domain: D,
}

/// What there is to do.
struct Ready {
    connection: bool,
    link: bool,
    session: bool,
}

#[derive(PartialEq, Eq)]
enum Received {
    /// As much as is taken in one go; the rest is there at the next look.
    Messages,
    Exit,
}

impl<D: Domain> Service<D> {
    fn timeout(&self, again: Again) -> Option<Duration> {
        match again {
            Again::Never | Again::Closed => None,
            Again::AtPace => self.domain.interval(),
            Again::After(duration) => Some(duration),
        }
    }

    /// Sleeps until control says something, or for `timeout`.
    fn wait(&mut self, listener: &OwnedFd, timeout: Option<Duration>) -> io::Result<Ready> {
        let timeout = timeout.map(|timeout| Timespec::try_from(timeout).expect("no timeout is longer than the epoch"));
        let of_sessions = self.domain.descriptors(&self.sessions);
        let mut descriptors = vec![PollFd::new(listener, PollFlags::IN)];
        descriptors.extend(
            of_sessions
                .iter()
                .map(|descriptor| PollFd::new(descriptor, PollFlags::IN)),
        );
        let link_index = descriptors.len();
        if let Some(link) = &self.outbox.link {
            let writing = if link.wants_write() {
                PollFlags::OUT
            } else {
                PollFlags::empty()
            };
            descriptors.push(PollFd::new(link, PollFlags::IN | writing));
        }
        match poll(&mut descriptors, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_ready = |descriptor: &PollFd<'_>| !descriptor.revents().is_empty();
        Ok(Ready {
            connection: is_ready(&descriptors[0]),
            session: descriptors[1..link_index].iter().any(is_ready),
            link: descriptors.get(link_index).is_some_and(is_ready),
        })
    }

    /// Accepts the connection of a control process; a newer one replaces an older one.
    fn accept(&mut self, listener: &OwnedFd) -> io::Result<()> {
        match accept_with(listener, SocketFlags::CLOEXEC) {
            Ok(socket) => self.outbox.connect(Link::new(socket)),
            // It went away again, or there is no descriptor left: it waits.
            Err(Errno::INTR | Errno::AGAIN | Errno::CONNABORTED | Errno::MFILE | Errno::NFILE | Errno::NOMEM) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn receive(&mut self) -> Received {
        self.outbox.flush();
        for _ in 0..MESSAGES_MAX {
            let Some(link) = &mut self.outbox.link else {
                return Received::Messages;
            };
            match link.receive() {
                Ok(None) => break,
                Ok(Some((ToConsumer::Exit, _))) => return Received::Exit,
                Ok(Some((message, descriptor))) => self.handle(message, descriptor),
                // A message that is none: after it nothing can be understood as it was meant.
                Err(_) => self.outbox.disconnect(),
            }
        }
        Received::Messages
    }

    fn handle(&mut self, message: ToConsumer, descriptor: Option<OwnedFd>) {
        match message {
            ToConsumer::Adopt => self.adopt(),
            ToConsumer::OpenSession {
                session,
                output,
                owner,
                snapshot,
                trace,
                rotation,
                archived,
            } => {
                let opening = Opening {
                    session,
                    output: &output,
                    owner,
                    snapshot,
                    trace,
                    rotation,
                    archived,
                };
                let (domain, outbox) = (&mut self.domain, &mut self.outbox);
                self.sessions
                    .entry(session)
                    .or_insert_with(|| domain.open(opening, outbox));
            }
            ToConsumer::Start { session, request } => {
                let outcome = match self.sessions.get_mut(&session) {
                    None => Err(unknown(session)),
                    Some(session) => session.start(&mut self.outbox).map(|()| session.totals()),
                };
                self.outbox.send(&ToControl::Done { request, outcome });
            }
            ToConsumer::Report { session, request } => {
                let totals = self.sessions.get_mut(&session).map(Recording::totals);
                let outcome = totals.ok_or_else(|| unknown(session));
                self.outbox.send(&ToControl::Done { request, outcome });
            }
            ToConsumer::Stop { session, request } => match self.sessions.get_mut(&session) {
                None => self.outbox.send(&ToControl::Done {
                    request,
                    outcome: Err(unknown(session)),
                }),
                Some(session) => session.end(request, false, Instant::now()),
            },
            ToConsumer::CloseSession { session, request } => match self.sessions.get_mut(&session) {
                // It was closed before; the answer was lost.
                None => self.outbox.send(&ToControl::Done {
                    request,
                    outcome: Ok(vec![]),
                }),
                Some(session) => session.end(request, true, Instant::now()),
            },
            ToConsumer::Snapshot {
                session,
                output,
                owner,
                request,
            } => match self.sessions.get_mut(&session) {
                None => self.outbox.send(&ToControl::Done {
                    request,
                    outcome: Err(unknown(session)),
                }),
                Some(session) => session.snapshot(request, Output { folder: output, owner }, &mut self.outbox),
            },
            ToConsumer::Rotate {
                session,
                rotation,
                request,
            } => match self.sessions.get_mut(&session) {
                None => self.outbox.send(&ToControl::Done {
                    request,
                    outcome: Err(unknown(session)),
                }),
                Some(session) => session.rotate(request, rotation, &mut self.outbox),
            },
            ToConsumer::Flush { session } => {
                if let Some(session) = self.sessions.get_mut(&session) {
                    session.flush();
                }
            }
            ToConsumer::Exit => unreachable!("the loop takes this one"),
            of_a_domain => self
                .domain
                .handle(of_a_domain, descriptor, &mut self.sessions, &mut self.outbox),
        }
    }

    /// Tells a new control process everything that is here.
    fn adopt(&mut self) {
        for (&session, known) in &self.sessions {
            self.outbox.send(&ToControl::AdoptedSession {
                session,
                started: known.is_started(),
            });
            known.tell(&mut self.outbox);
        }
        self.outbox.send(&ToControl::Adopted {
            pid: std::process::id() as i32,
        });
    }

    /// Looks at every session; returns when to do so again.
    fn work(&mut self, now: Instant) -> Again {
        let mut again = Again::Never;
        let (domain, outbox) = (&mut self.domain, &mut self.outbox);
        self.sessions.retain(|_, session| {
            let wanted = domain.look(session, outbox, now);
            again = again.sooner(wanted, domain.interval());
            wanted != Again::Closed
        });
        self.domain.rest(again, self.sessions.is_empty());
        again
    }
}
