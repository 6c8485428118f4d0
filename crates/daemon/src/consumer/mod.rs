// SPDX-License-Identifier: MIT OR Apache-2.0
//! The consumer process: takes what programs recorded out of their rings and writes it to traces.
//!
//! ```text
//!   control  --link.rs-->  service.rs: one thread, one loop: messages, then a look at every session
//!                             |
//!                          session.rs       channels and ring sets of a session; start, stop, close (stage.rs)
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
//! chunks.rs says in which folder a stream is while a session is rotated.
//!
//! The process can be killed at any instant: what is on disk and what is in the rings tell the next consumer everything. It
//! outlives the control process and goes on recording without it. pace.rs says how often rings are looked at; while nothing
//! records, the process sleeps without a timer.

mod channel;
pub(crate) mod chunks;
pub(crate) mod clock;
pub(crate) mod continued;
mod earlier;
pub(crate) mod findings;
pub(crate) mod metadata;
pub(crate) mod outbox;
pub(crate) mod pace;
mod program;
mod recorder;
mod ring;
mod ring_set;
pub(crate) mod service;
mod session;
mod snapshot;
pub(crate) mod stage;
pub(crate) mod storage;
pub(crate) mod stream;
mod streaming;
#[cfg(test)]
mod tests;
mod trace;
mod verdict;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use self::outbox::Outbox;
use self::pace::Pace;
use self::program::Program;
use self::ring::Buffers;
use self::ring_set::{Fullest, Life, Source};
use self::service::{Domain, Opening, refuse};
use self::session::{Session, Shared};
use self::stage::Again;
use crate::link::{SessionId, ToConsumer, ToControl};

/// Runs the consumer, which accepts control's connections on `listener` (SOCK_SEQPACKET), until control says `Exit`.
///
/// # Errors
/// The listener is no such socket, or polling fails.
pub fn run(listener: OwnedFd) -> io::Result<()> {
    service::run(listener, Programs::default())
}

/// Sessions that record programs, and what they share.
#[derive(Default)]
struct Programs {
    pace: Option<Pace>,
    buffers: Buffers,
    /// Since the last rest.
    fullest: Fullest,
}

type Sessions = BTreeMap<SessionId, Session>;

impl Domain for Programs {
    type Session = Session;

    fn open(&mut self, opening: Opening<'_>, outbox: &mut Outbox) -> Session {
        Session::new(opening, outbox)
    }

    fn handle(
        &mut self,
        message: ToConsumer,
        descriptor: Option<OwnedFd>,
        sessions: &mut Sessions,
        outbox: &mut Outbox,
    ) {
        match message {
            ToConsumer::AddChannel {
                session,
                stream,
                geometry,
            } => {
                let ring_bytes = u64::from(geometry.subbuf_bytes) * u64::from(geometry.subbuf_count);
                self.pace
                    .get_or_insert_with(|| Pace::new(pace::PROGRAMS, ring_bytes))
                    .admit(ring_bytes);
                change(sessions, session, outbox, |session| {
                    session.add_channel(stream, &geometry)
                });
            }
            ToConsumer::AddClass {
                session,
                stream_id,
                class,
            } => change(sessions, session, outbox, |session| session.add_class(stream_id, class)),
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
                change(sessions, session, outbox, |session| {
                    let descriptor = descriptor.ok_or(format!("ring set {key} came without its memory"))?;
                    session.add_ring_set(source, descriptor)
                });
            }
            ToConsumer::ProgramGone { key } => end_ring_set(sessions, key, Life::Gone, outbox),
            ToConsumer::RetireRingSet { key } => end_ring_set(sessions, key, Life::Retired(Instant::now()), outbox),
            other => refuse(&other, outbox),
        }
    }

    fn look(&mut self, session: &mut Session, outbox: &mut Outbox, now: Instant) -> Again {
        session.work(&mut Shared {
            outbox,
            buffers: &mut self.buffers,
            fullest: &mut self.fullest,
            now,
        })
    }

    fn rest(&mut self, again: Again, is_empty: bool) {
        let fullest = std::mem::take(&mut self.fullest);
        if let Some(pace) = &mut self.pace
            && fullest.ring_bytes > 0
        {
            pace.observe(fullest.fill_bytes, fullest.ring_bytes);
        }
        if is_empty {
            self.pace = None;
        }
        if again == Again::Never {
            // Nothing to do for a while: the memory goes back.
            self.buffers = Buffers::default();
        }
    }

    fn interval(&self) -> Option<Duration> {
        self.pace.as_ref().map(Pace::interval)
    }
}

/// Changes a session; what cannot be done is a finding.
fn change(
    sessions: &mut Sessions,
    session: SessionId,
    outbox: &mut Outbox,
    change: impl FnOnce(&mut Session) -> Result<(), String>,
) {
    let known = sessions.get_mut(&session);
    let changed = known.map_or_else(|| Err("no such session".into()), change);
    if let Err(what) = changed {
        outbox.send(&ToControl::Finding { session, what });
    }
}

fn end_ring_set(sessions: &mut Sessions, key: u32, life: Life, outbox: &mut Outbox) {
    match sessions
        .values_mut()
        .find(|session| session.ring_sets.contains_key(&key))
    {
        Some(session) => session.end_ring_set(key, life, outbox),
        // It was done before; the message was lost.
        None => outbox.send(&ToControl::RingSetDone { key }),
    }
}
