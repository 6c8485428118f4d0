// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel consumer process: takes what the kernel recorded out of its rings, page by page, and writes it to traces.
//!
//! ```text
//!   control  --link.rs-->  consumer/service.rs, worker.rs: a thread for each session, as for programs
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
//! Other threads of the session record what is mapped where in processes (mappings.rs) and look for threads that are to be recorded (tracking.rs).
//!
//! The process can be killed at any instant: the page in hand lies in a file of the run folder, the index file says which packets are on
//! disk, and the kernel goes on recording. It outlives the control process. A kernel whose tracing hangs holds up this process and no other.
//!
//! What pisted itself does is left out of the traces, or recording would cause what it records (hidden.rs).

mod call_supply;
mod calls;
mod channel;
mod dump;
mod folders;
mod hidden;
mod kept;
mod kernel;
mod mappings;
mod metadata;
mod recorder;
mod ring;
mod session;
mod snapshot;
mod streaming;
mod tally;
mod tracking;

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub use self::calls::remove_instance;
use self::kernel::Kernel;
use self::session::{Session, Shared};
use crate::consumer::outbox::{Outbox, lock};
use crate::consumer::pace::{self, Pace};
use crate::consumer::service::{self, Domain, refuse};
use crate::consumer::stage::Again;
use crate::consumer::worker::Letter;
use crate::link::{Opening, ToConsumer};
use crate::remains::Predecessors;

/// Runs the kernel consumer, which accepts control's connections on `listener` (SOCK_SEQPACKET), until control says `Exit`. What has to
/// outlive it lies in the run folder.
///
/// # Errors
/// The listener is no such socket, or polling fails.
pub fn run(listener: OwnedFd, run_folder: PathBuf, predecessors: Predecessors) -> io::Result<()> {
    service::prepare_process();
    let kernel = Arc::<Mutex<Option<Arc<Kernel>>>>::default();
    service::run(listener, predecessors, None, move || Kernels::new(run_folder, kernel))
}

/// What the thread of a session that records the kernel has.
struct Kernels {
    run_folder: PathBuf,
    /// Of all sessions; opened with the first one.
    kernel: Arc<Mutex<Option<Arc<Kernel>>>>,
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

impl Kernels {
    fn new(run_folder: PathBuf, kernel: Arc<Mutex<Option<Arc<Kernel>>>>) -> Self {
        Self {
            run_folder,
            kernel,
            pace: None,
            packet: Vec::new(),
            fullest: Fullest::default(),
            is_idle: false,
            was_woken: false,
        }
    }

    /// The kernel, or why it cannot be traced.
    fn kernel(&self) -> Result<Arc<Kernel>, String> {
        let mut known = lock(&self.kernel);
        match &*known {
            Some(kernel) => Ok(kernel.clone()),
            None => Ok(known.insert(Arc::new(Kernel::open(&self.run_folder)?)).clone()),
        }
    }
}

impl Domain for Kernels {
    type Session = Session;

    fn open(&mut self, opening: Opening, outbox: &Outbox, now: Instant) -> Session {
        let kernel = self.kernel();
        Session::new(opening, kernel, &self.run_folder, outbox, now)
    }

    fn handle(&mut self, (message, _): Letter, session: &mut Session, outbox: &Outbox, _: Instant) {
        match message {
            ToConsumer::SetTracked { tracked, .. } => session.set_tracked(tracked, outbox),
            ToConsumer::SetKernelChannel { spec, .. } => {
                let ring_bytes = u64::from(spec.subbuf_bytes) * u64::from(spec.subbuf_count);
                let pace = self.pace.get_or_insert_with(|| Pace::new(pace::KERNEL, ring_bytes));
                pace.admit(ring_bytes);
                session.set_channel(spec, outbox);
            }
            ToConsumer::RegenerateStateDump { request, .. } => session.dump_again(request, outbox),
            other => refuse(&other, outbox),
        }
    }

    fn look(&mut self, session: &mut Session, outbox: &Outbox, now: Instant) -> Again {
        session.work(&mut Shared {
            outbox,
            packet: &mut self.packet,
            fullest: &mut self.fullest,
            now,
        })
    }

    fn rest(&mut self, again: Again) {
        let fullest = std::mem::take(&mut self.fullest);
        if let Some(pace) = &mut self.pace
            && fullest.ring_bytes > 0
        {
            pace.observe(fullest.taken_bytes, fullest.ring_bytes);
        }
        // A ring that is readable and gives nothing would wake us for ever.
        self.is_idle = fullest.taken_bytes == 0 && !std::mem::take(&mut self.was_woken);
        let rests = match again {
            Again::Never => true,
            Again::After(pause) => pause > pace::KERNEL.idle_longest,
            Again::AtPace | Again::Closed => false,
        };
        if rests {
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

    fn descriptors<'a>(&'a self, session: &'a Session) -> Vec<BorrowedFd<'a>> {
        if !self.is_idle {
            return vec![];
        }
        session.descriptors().collect()
    }

    fn woken(&mut self) {
        self.was_woken = true;
    }
}
