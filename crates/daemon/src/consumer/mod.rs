// SPDX-License-Identifier: MIT OR Apache-2.0
//! The consumer process: takes what programs recorded out of their rings and writes it to traces.
//!
//! ```text
//!   control  --link.rs-->  mod.rs: one thread, one loop: messages, then a look at every session
//!                             |
//!                          session.rs       channels and ring sets of a session; start, stop, close
//!                          /        \
//!               streaming.rs      recorder.rs      written at once, or kept until a snapshot (snapshot.rs)
//!                        |
//!                   ring_set.rs     the rings of one program and channel
//!                        |
//!                     ring.rs       take a packet, check it (verdict.rs), write it, give the space back
//!                        |
//!                   stream.rs       stream file and index file, which is the journal
//! ```
//!
//! The process can be killed at any instant: what is on disk and what is in the rings tell the next consumer everything. It
//! outlives the control process and goes on recording without it. pace.rs says how often rings are looked at; while nothing
//! records, the process sleeps without a timer.

mod channel;
mod clock;
mod earlier;
mod findings;
mod metadata;
mod outbox;
mod pace;
mod program;
mod recorder;
mod ring;
mod ring_set;
mod session;
mod snapshot;
mod storage;
mod stream;
mod streaming;
#[cfg(test)]
mod tests;
mod trace;
mod verdict;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use rustix::process::{Resource, Rlimit, getrlimit, setpriority_process, setrlimit};

use self::outbox::Outbox;
use self::pace::Pace;
use self::program::Program;
use self::ring::Buffers;
use self::ring_set::{Fullest, Life, Source};
use self::session::{Again, Session, Shared};
use crate::link::{Failure, Link, SessionId, ToConsumer, ToControl};

/// Messages taken in one go: rings are looked at in between, however much control has to say.
const MESSAGES_MAX: usize = 256;

/// Runs the consumer, which accepts control's connections on `listener` (SOCK_SEQPACKET), until control says `Exit`.
///
/// # Errors
/// The listener is no such socket, or polling fails.
pub fn run(listener: OwnedFd) -> io::Result<()> {
    prepare_process();
    let mut consumer = Consumer::default();
    let mut again = Again::Never;
    loop {
        let ready = consumer.wait(&listener, consumer.timeout(again))?;
        if ready.connection {
            consumer.accept(&listener)?;
        }
        if ready.link && consumer.receive() == Received::Exit {
            return Ok(());
        }
        again = consumer.work(Instant::now());
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

#[derive(Default)]
struct Consumer {
    outbox: Outbox,
    sessions: BTreeMap<SessionId, Session>,
    pace: Option<Pace>,
    buffers: Buffers,
}

/// What there is to do.
struct Ready {
    connection: bool,
    link: bool,
}

#[derive(PartialEq, Eq)]
enum Received {
    /// As much as is taken in one go; the rest is there at the next look.
    Messages,
    Exit,
}

impl Consumer {
    fn timeout(&self, again: Again) -> Option<Duration> {
        match again {
            Again::Never | Again::Closed => None,
            Again::AtPace => self.pace.as_ref().map(Pace::interval),
            Again::After(duration) => Some(duration),
        }
    }

    /// Sleeps until control says something, or for `timeout`.
    fn wait(&mut self, listener: &OwnedFd, timeout: Option<Duration>) -> io::Result<Ready> {
        let timeout = timeout.map(|timeout| Timespec::try_from(timeout).expect("no timeout is longer than the epoch"));
        let mut descriptors = vec![PollFd::new(listener, PollFlags::IN)];
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
            link: descriptors.get(1).is_some_and(is_ready),
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
                snapshot,
                trace,
            } => {
                let outbox = &mut self.outbox;
                let open = || Session::new(session, &output, snapshot, trace, outbox);
                self.sessions.entry(session).or_insert_with(open);
            }
            ToConsumer::AddChannel {
                session,
                stream,
                geometry,
            } => {
                let ring_bytes = u64::from(geometry.subbuf_bytes) * u64::from(geometry.subbuf_count);
                self.pace.get_or_insert_with(|| Pace::new(ring_bytes)).admit(ring_bytes);
                self.change(session, |session| session.add_channel(stream, &geometry));
            }
            ToConsumer::AddClass {
                session,
                stream_id,
                class,
            } => {
                self.change(session, |session| session.add_class(stream_id, class));
            }
            ToConsumer::AddRingSet {
                session,
                stream_id,
                key,
                stream_instance_base,
                vpid,
                pid,
            } => {
                let program = Program::new(pid, vpid);
                let source = Source {
                    key,
                    stream_id,
                    program,
                    stream_instance_base,
                };
                self.change(session, |session| {
                    let descriptor = descriptor.ok_or(format!("ring set {key} came without its memory"))?;
                    session.add_ring_set(source, descriptor)
                });
            }
            ToConsumer::ProgramGone { key } => self.end_ring_set(key, Life::Gone),
            ToConsumer::RetireRingSet { key } => self.end_ring_set(key, Life::Retired(Instant::now())),
            ToConsumer::Start { session, request } => {
                let outcome = match self.sessions.get_mut(&session) {
                    None => Err(unknown(session)),
                    Some(session) => session.start(&mut self.outbox).map(|()| session.totals()),
                };
                self.outbox.send(&ToControl::Done { request, outcome });
            }
            ToConsumer::Report { session, request } => {
                let outcome = self
                    .sessions
                    .get_mut(&session)
                    .map(Session::totals)
                    .ok_or_else(|| unknown(session));
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
                request,
            } => match self.sessions.get_mut(&session) {
                None => self.outbox.send(&ToControl::Done {
                    request,
                    outcome: Err(unknown(session)),
                }),
                Some(session) => session.snapshot(request, output, &mut self.outbox),
            },
            ToConsumer::Exit => unreachable!("the loop takes this one"),
        }
    }

    /// Tells a new control process everything that is here.
    fn adopt(&mut self) {
        for (&session, known) in &self.sessions {
            self.outbox.send(&ToControl::AdoptedSession {
                session,
                started: known.is_started(),
            });
            for (&key, ring_set) in &known.ring_sets {
                let descriptor = Some(ring_set.descriptor.clone());
                self.outbox
                    .send_with(&ToControl::AdoptedRingSet { session, key }, descriptor);
                if ring_set.is_recovered() {
                    self.outbox.send(&ToControl::RingRecovered { key });
                }
            }
        }
        self.outbox.send(&ToControl::Adopted {
            pid: std::process::id() as i32,
        });
    }

    /// Changes a session; what cannot be done is a finding.
    fn change(&mut self, session: SessionId, change: impl FnOnce(&mut Session) -> Result<(), String>) {
        let changed = self
            .sessions
            .get_mut(&session)
            .map_or_else(|| Err("no such session".into()), change);
        if let Err(what) = changed {
            self.outbox.send(&ToControl::Finding { session, what });
        }
    }

    fn end_ring_set(&mut self, key: u32, life: Life) {
        match self
            .sessions
            .values_mut()
            .find(|session| session.ring_sets.contains_key(&key))
        {
            Some(session) => session.end_ring_set(key, life, &mut self.outbox),
            // It was done before; the message was lost.
            None => self.outbox.send(&ToControl::RingSetDone { key }),
        }
    }

    /// Looks at every session; returns when to do so again.
    fn work(&mut self, now: Instant) -> Again {
        let mut fullest = Fullest::default();
        let mut again = Again::Never;
        self.sessions.retain(|_, session| {
            let (outbox, buffers) = (&mut self.outbox, &mut self.buffers);
            let wanted = session.work(&mut Shared {
                outbox,
                buffers,
                fullest: &mut fullest,
                now,
            });
            again = again.sooner(wanted, self.pace.as_ref().map(Pace::interval));
            wanted != Again::Closed
        });
        if let Some(pace) = &mut self.pace
            && fullest.ring_bytes > 0
        {
            pace.observe(fullest.fill_bytes, fullest.ring_bytes);
        }
        if self.sessions.is_empty() {
            self.pace = None;
        }
        if again == Again::Never {
            // Nothing to do for a while: the memory goes back.
            self.buffers = Buffers::default();
        }
        again
    }
}

fn unknown(session: SessionId) -> Failure {
    Failure::Other {
        what: format!("the consumer has no session {session}"),
    }
}
