// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel consumer process: takes what the kernel recorded out of its rings, page by page, and writes it to traces.
//!
//! ```text
//!   control  --link.rs-->  consumer/service.rs: the same loop as for programs
//!                             |
//!                          session.rs       channels and state dump of a session; start, stop, close
//!                          /        \
//!               streaming.rs      recorder.rs      written at once, or kept until a snapshot (snapshot.rs)
//!                          \        /
//!                         channel.rs        a tracefs instance, its selection, a ring for each CPU
//!                             |
//!                          ring.rs          take a page, convert it, write the packet, mark the page as done
//!                         /       \
//!                    tally.rs    consumer/stream.rs     what the files do not say; stream and index file
//! ```
//!
//! The process can be killed at any instant: the page in hand lies in a file of the run folder, the index file says which packets are on
//! disk, and the kernel goes on recording. It outlives the control process. A kernel whose tracing hangs holds up this process and no other.
//!
//! What pisted itself does is left out of the traces, or recording would cause what it records (hidden.rs).

mod channel;
mod dump;
mod hidden;
mod kept;
mod kernel;
mod metadata;
mod place;
mod recorder;
mod ring;
mod session;
mod snapshot;
mod streaming;
mod tally;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use self::kernel::Kernel;
use self::session::{Session, Shared};
use crate::consumer::outbox::Outbox;
use crate::consumer::pace::{self, Pace};
use crate::consumer::service::{self, Domain, Opening, refuse, unknown};
use crate::consumer::stage::Again;
use crate::link::{SessionId, ToConsumer, ToControl};

/// Runs the kernel consumer, which accepts control's connections on `listener` (SOCK_SEQPACKET), until control says `Exit`. What has to
/// outlive it lies in the run folder.
///
/// # Errors
/// The listener is no such socket, or polling fails.
pub fn run(listener: OwnedFd, run_folder: PathBuf) -> io::Result<()> {
    service::run(listener, Kernels::new(run_folder))
}

/// Sessions that record the kernel, and what they share.
struct Kernels {
    run_folder: PathBuf,
    /// Opened with the first session.
    kernel: Option<Rc<Kernel>>,
    pace: Option<Pace>,
    packet: Vec<u8>,
    fullest: Fullest,
    /// The last look found nothing: the rings say when there is something.
    is_idle: bool,
    /// A ring said so.
    was_woken: bool,
}

/// How much of the fullest ring was taken in one look.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Fullest {
    taken_bytes: u64,
    ring_bytes: u64,
}

impl Fullest {
    pub(crate) fn observe(&mut self, taken_bytes: u64, ring_bytes: u64) {
        // taken / ring > the fullest's, without dividing.
        let fuller = u128::from(taken_bytes) * u128::from(self.ring_bytes)
            > u128::from(self.taken_bytes) * u128::from(ring_bytes);
        if self.ring_bytes == 0 || fuller {
            *self = Self {
                taken_bytes,
                ring_bytes,
            };
        }
    }
}

type Sessions = BTreeMap<SessionId, Session>;

impl Kernels {
    fn new(run_folder: PathBuf) -> Self {
        Self {
            run_folder,
            kernel: None,
            pace: None,
            packet: Vec::new(),
            fullest: Fullest::default(),
            is_idle: false,
            was_woken: false,
        }
    }

    /// The kernel, or why it cannot be traced.
    fn kernel(&mut self) -> Result<Rc<Kernel>, String> {
        if let Some(kernel) = &self.kernel {
            return Ok(kernel.clone());
        }
        let kernel = Rc::new(Kernel::open(&self.run_folder)?);
        self.kernel = Some(kernel.clone());
        Ok(kernel)
    }
}

impl Domain for Kernels {
    type Session = Session;

    fn open(&mut self, opening: Opening<'_>, outbox: &mut Outbox) -> Session {
        let kernel = self.kernel();
        Session::new(opening, kernel, &self.run_folder, outbox)
    }

    fn handle(&mut self, message: ToConsumer, _: Option<OwnedFd>, sessions: &mut Sessions, outbox: &mut Outbox) {
        match message {
            ToConsumer::SetTracked { session, tracked } => {
                if let Some(session) = sessions.get_mut(&session) {
                    session.set_tracked(tracked, outbox);
                }
            }
            ToConsumer::SetKernelChannel { session, spec } => {
                let ring_bytes = u64::from(spec.subbuf_bytes) * u64::from(spec.subbuf_count);
                let pace = self.pace.get_or_insert_with(|| Pace::new(pace::KERNEL, ring_bytes));
                pace.admit(ring_bytes);
                match sessions.get_mut(&session) {
                    Some(session) => session.set_channel(spec, outbox),
                    None => outbox.send(&ToControl::Finding {
                        session,
                        what: "no such session".into(),
                    }),
                }
            }
            ToConsumer::RegenerateStateDump { session, request } => match sessions.get_mut(&session) {
                Some(session) => session.dump_again(request, outbox),
                None => outbox.send(&ToControl::Done {
                    request,
                    outcome: Err(unknown(session)),
                }),
            },
            other => refuse(&other, outbox),
        }
    }

    fn look(&mut self, session: &mut Session, outbox: &mut Outbox, now: Instant) -> Again {
        session.work(&mut Shared {
            outbox,
            packet: &mut self.packet,
            fullest: &mut self.fullest,
            now,
        })
    }

    fn rest(&mut self, again: Again, is_empty: bool) {
        let fullest = std::mem::take(&mut self.fullest);
        if let Some(pace) = &mut self.pace
            && fullest.ring_bytes > 0
        {
            pace.observe(fullest.taken_bytes, fullest.ring_bytes);
        }
        // A ring that is readable and gives nothing would wake us for ever.
        self.is_idle = fullest.taken_bytes == 0 && !std::mem::take(&mut self.was_woken);
        if is_empty {
            self.pace = None;
        }
        if again == Again::Never {
            // Nothing to do for a while: the memory goes back.
            self.packet = Vec::new();
        }
    }

    fn interval(&self) -> Option<Duration> {
        if self.is_idle {
            return Some(pace::KERNEL.idle_longest);
        }
        self.pace.as_ref().map(Pace::interval)
    }

    fn descriptors<'a>(&'a self, sessions: &'a Sessions) -> Vec<BorrowedFd<'a>> {
        if !self.is_idle {
            return vec![];
        }
        sessions.values().flat_map(Session::descriptors).collect()
    }

    fn woken(&mut self) {
        self.was_woken = true;
    }
}
