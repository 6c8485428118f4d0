// SPDX-License-Identifier: MIT OR Apache-2.0
//! The consumer process: takes what programs recorded out of their rings and writes it to traces.
//!
//! ```text
//!   control  --link.rs-->  service.rs: one thread that listens, and waits for nothing else
//!                             |
//!                          worker.rs        a thread for each session: messages, then a look at the session
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
mod held;
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
mod worker;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use self::outbox::Outbox;
use self::pace::Pace;
use self::program::Program;
use self::ring::Buffers;
use self::ring_set::{Fullest, Life, Source};
use self::service::{Domain, Opening, refuse};
use self::session::{Session, Shared};
use self::stage::Again;
use crate::link::{ToConsumer, ToControl};

/// Runs the consumer, which accepts control's connections on `listener` (SOCK_SEQPACKET), until control says `Exit`.
///
/// # Errors
/// The listener is no such socket, or polling fails.
pub fn run(listener: OwnedFd) -> io::Result<()> {
    service::run(listener, Programs::default)
}

/// What the thread of a session that records programs has.
#[derive(Default)]
struct Programs {
    pace: Option<Pace>,
    buffers: Buffers,
    /// Since the last rest.
    fullest: Fullest,
}

impl Domain for Programs {
    type Session = Session;

    fn open(&mut self, opening: Opening, outbox: &Outbox) -> Session {
        Session::new(opening, outbox)
    }

    fn handle(
        &mut self,
        message: ToConsumer,
        descriptor: Option<Arc<OwnedFd>>,
        session: &mut Session,
        outbox: &Outbox,
    ) {
        let changed = match message {
            ToConsumer::AddChannel { stream, geometry, .. } => {
                let ring_bytes = u64::from(geometry.subbuf_bytes) * u64::from(geometry.subbuf_count);
                self.pace
                    .get_or_insert_with(|| Pace::new(pace::PROGRAMS, ring_bytes))
                    .admit(ring_bytes);
                session.add_channel(stream, &geometry)
            }
            ToConsumer::AddClass { stream_id, class, .. } => session.add_class(stream_id, class),
            ToConsumer::AddRingSet {
                stream_id,
                key,
                stream_instance_base,
                vpid,
                pid,
                ..
            } => {
                let program = Program::new(pid, vpid);
                let source = Source {
                    key,
                    stream_id,
                    program,
                    stream_instance_base,
                };
                let memory = descriptor.ok_or_else(|| "it came without its memory".to_owned());
                if let Err(why) = memory.and_then(|memory| session.add_ring_set(source, &memory)) {
                    outbox.send(&ToControl::RingSetRefused { key, why });
                }
                Ok(())
            }
            ToConsumer::ProgramGone { key } => {
                session.end_ring_set(key, Life::Gone, outbox);
                Ok(())
            }
            ToConsumer::RetireRingSet { key } => {
                session.end_ring_set(key, Life::Retired(Instant::now()), outbox);
                Ok(())
            }
            other => {
                refuse(&other, outbox);
                Ok(())
            }
        };
        if let Err(what) = changed {
            let session = session.id;
            outbox.send(&ToControl::Finding { session, what });
        }
    }

    fn look(&mut self, session: &mut Session, outbox: &Outbox, now: Instant) -> Again {
        session.work(&mut Shared {
            outbox,
            buffers: &mut self.buffers,
            fullest: &mut self.fullest,
            now,
        })
    }

    fn rest(&mut self, again: Again) {
        let fullest = std::mem::take(&mut self.fullest);
        if let Some(pace) = &mut self.pace
            && fullest.ring_bytes > 0
        {
            pace.observe(fullest.fill_bytes, fullest.ring_bytes);
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
