// SPDX-License-Identifier: MIT OR Apache-2.0
//! The consumer process: takes what programs recorded out of their rings and writes it to traces.
//!
//! ```text
//!   control  --link.rs-->  service.rs: one thread that listens, and waits for nothing else
//!                             |                              watch.rs: one thread that hears which programs ring
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
//! The session of a trigger streams, too: what stream.rs is given is told to control instead of being written (matches.rs, lapses.rs).
//!
//! flush.rs has those who wait until what was recorded by now is written. chunks.rs says in which folder a stream is while a session is rotated, and gone.rs what happens when somebody removes the folder.
//!
//! The process can be killed at any instant: what is on disk and what is in the rings tell the next consumer everything. It
//! outlives the control process and goes on recording without it. pace.rs says how often rings are looked at; while nothing
//! records, the process sleeps without a timer.

mod attention;
mod channel;
pub(crate) mod chunks;
pub(crate) mod clock;
pub(crate) mod continued;
mod disk;
mod earlier;
pub(crate) mod findings;
pub(crate) mod flush;
mod gone;
mod held;
pub(crate) mod ladder;
mod lapses;
pub(crate) mod matches;
pub(crate) mod metadata;
pub(crate) mod outbox;
pub(crate) mod pace;
mod program;
mod recorder;
mod ring;
mod ring_set;
pub(crate) mod service;
mod session;
pub(crate) mod sink;
mod snapshot;
pub(crate) mod stage;
pub(crate) mod storage;
pub(crate) mod stream;
mod streaming;
#[cfg(test)]
pub(crate) mod tests;
mod trace;
mod verdict;
mod watch;
pub(crate) mod worker;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use self::ladder::SOON;
use self::outbox::Outbox;
use self::pace::Pace;
use self::program::Program;
use self::ring::Buffers;
use self::ring_set::{Ears, Fullest, Life, Producer};
use self::service::{Domain, refuse};
use self::session::{Session, Shared};
use self::stage::Again;
use self::stream::ProcessIds;
use self::watch::{Rung, Watch};
use self::worker::Letter;
use crate::link::{BellPlace, Opening, ToConsumer, ToControl};
use crate::remains::Predecessors;

/// Runs the consumer, which accepts control's connections on `listener` (SOCK_SEQPACKET), until control says `Exit`.
///
/// # Errors
/// The listener is no such socket, or polling fails.
pub fn run(listener: OwnedFd, predecessors: Predecessors) -> io::Result<()> {
    service::prepare_process();
    let watch = Watch::start()?;
    let of_sessions = watch.clone();
    service::run(listener, predecessors, Some(watch), move || Programs::new(of_sessions))
}

/// What the thread of a session that records programs has.
struct Programs {
    pace: Option<Pace>,
    buffers: Buffers,
    /// Since the last rest.
    fullest: Fullest,
    watch: Arc<Watch>,
    /// Absent where no descriptor was left for it: then all rings are looked at all the time.
    rung: Option<Arc<Rung>>,
}

impl Programs {
    fn new(watch: Arc<Watch>) -> Programs {
        Programs {
            pace: None,
            buffers: Buffers::default(),
            fullest: Fullest::default(),
            watch,
            rung: Rung::new().ok().map(Arc::new),
        }
    }

    /// How the program of a ring set is heard when it rings.
    fn ears(&self, place: BellPlace) -> Option<Ears> {
        Some(Ears {
            watch: self.watch.clone(),
            rung: self.rung.clone()?,
            place,
        })
    }
}

impl Domain for Programs {
    type Session = Session;

    fn open(&mut self, opening: Opening, outbox: &Outbox, now: Instant) -> Session {
        Session::new(opening, outbox, now)
    }

    fn handle(&mut self, (message, descriptor): Letter, session: &mut Session, outbox: &Outbox, now: Instant) {
        let changed = match message {
            ToConsumer::AddChannel { stream, geometry, .. } => {
                let ring_bytes = u64::from(geometry.subbuf_bytes) * u64::from(geometry.subbuf_count);
                let pace = self.pace.get_or_insert_with(|| Pace::new(pace::PROGRAMS, ring_bytes));
                pace.admit(ring_bytes);
                let soon = if session.is_of_trigger() { SOON } else { Duration::MAX };
                self.watch.look_each(session.id, pace.ceiling().min(soon));
                session.add_channel(stream, &geometry)
            }
            ToConsumer::AddClass { stream_id, class, .. } => session.add_class(stream_id, class),
            ToConsumer::AddRingSet {
                stream_id,
                key,
                stream_instance_base,
                vpid,
                pid,
                uid,
                bell,
                inherited,
                ..
            } => {
                let program = Program::new(ProcessIds { vpid, pid, uid });
                let producer = Producer {
                    key,
                    stream_id,
                    program,
                    stream_instance_base,
                    inherited,
                };
                let memory = descriptor.ok_or_else(|| "the message contains no memory".to_owned());
                let ears = bell.and_then(|place| self.ears(place));
                if let Err(why) = memory.and_then(|memory| session.add_ring_set(producer, &memory, ears)) {
                    outbox.send(&ToControl::RingSetRefused { key, why });
                }
                Ok(())
            }
            ToConsumer::ProgramGone { key } => {
                session.end_ring_set(key, Life::Gone, outbox);
                Ok(())
            }
            ToConsumer::RetireRingSet { key } => {
                session.end_ring_set(key, Life::Retired(now), outbox);
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

    fn descriptors<'a>(&'a self, _session: &'a Session) -> Vec<BorrowedFd<'a>> {
        let rung = self.rung.as_ref();
        rung.map(|rung| rung.bell().as_fd()).into_iter().collect()
    }

    fn look(&mut self, session: &mut Session, outbox: &Outbox, now: Instant) -> Again {
        if let Some(rung) = &self.rung {
            session.have_rung(rung.take());
        }
        session.work(&mut Shared {
            outbox,
            buffers: &mut self.buffers,
            fullest: &mut self.fullest,
            now,
        })
    }

    fn closed(&mut self, session: &Session) {
        self.watch.forget(session.id);
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
