// SPDX-License-Identifier: MIT OR Apache-2.0
//! The protocol between the control process and its two consumers, all of them pisted: the consumer of the programs' rings, and
//! the kernel consumer.
//!
//! ```text
//!   control                                     consumer
//!   connects to consumer.sock                   accepts; a newer connection replaces an older one
//!   Adopt                               ->
//!                                       <-      AdoptedSession, AdoptedRingSet + memfd ..., Adopted
//!   OpenSession                         ->
//!   AddChannel, AddClass,
//!   AddBoard + memfd, AddRingSet + memfd, ProgramGone,
//!   RetireRingSet ..., Described        ->      (to the consumer of the programs' rings)
//!   SetTracked, SetKernelChannel,
//!   RegenerateStateDump (request)       ->      (to the kernel consumer)
//!   Start, Stop, Snapshot, Rotate,
//!   Report, Flush,
//!   CloseSession (request)              ->
//!                                       <-      Done (request)
//!                                       <-      RingSetDone, RingSetRefused, RingRecovered, Matched, Finding, at any time
//! ```
//!
//! One message is one datagram of JSON. Either process may die at any time and be replaced. Then control says `Adopt` and
//! sends everything that it knows again, so every message is idempotent: what the consumer has already is left as it is.
//! `AddRingSet` is not repeated for the ring sets that the consumer returned. Requests that had no answer are repeated.
//!
//! A consumer inherits its listening socket (consumer.sock or kernel-consumer.sock in the run folder) as its standard input, and
//! outlives control. The kernel consumer runs only where a session has had a kernel channel.
//! Control's side of the link is consumers.rs, the consumer's is consumer/.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use piste_ctf::{EventClass, StreamClass, Trace};
use piste_kernel::spec::{ChannelSpec, Tracked};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::datagrams::{Datagrams, Descriptors, Received};
use crate::person::Person;

/// Number of a tracing session: drawn by control, never used again.
pub type SessionId = u64;
/// Number of a request in this link: a `Done` answers each. Drawn by control, never used again.
pub type RequestId = u64;
/// Key of a ring set: the memory of one program and channel. Never 0, never used again while its session lives.
pub type RingSetKey = u32;

/// Whose events a session records. Each domain has a consumer of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Domain {
    /// Programs, through rings that they write themselves.
    User,
    /// The kernel, through tracefs.
    Kernel,
}

impl Domain {
    /// Both.
    pub const ALL: [Domain; 2] = [Domain::User, Domain::Kernel];
}

/// Control to consumer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ToConsumer {
    /// Asks for everything that the consumer has. The first message of each connection.
    Adopt,
    /// A new session, stopped and without channels.
    OpenSession(Opening),
    /// A new channel of the session.
    AddChannel {
        /// The session.
        session: SessionId,
        /// Identifies the channel by `stream.id`, which is unique in the session.
        stream: StreamClass,
        /// The shape of all its ring sets.
        geometry: Geometry,
    },
    /// A new event class; sent before any program is told to record it.
    AddClass {
        /// The session.
        session: SessionId,
        /// The channel.
        stream_id: u32,
        /// The class; `class.id` is unique in the channel.
        class: EventClass,
    },
    /// A board with bells of ring sets; its memfd comes with the message. A known one stays as it is.
    AddBoard {
        /// The number of the board.
        board: u32,
    },
    /// A new ring set; its memfd comes with the message. Recording starts at once when the session is started.
    AddRingSet {
        /// The session.
        session: SessionId,
        /// The channel.
        stream_id: u32,
        /// The key.
        key: RingSetKey,
        /// Stream instance id of ring 0; ring i has this + i.
        stream_instance_base: u64,
        /// Process id in the program's own pid namespace, for the packet header.
        vpid: i32,
        /// Process id in pisted's pid namespace, from the kernel.
        pid: i32,
        /// User id, from the kernel.
        uid: u32,
        /// Where its program rings, if it has a bell. Its board was sent before.
        bell: Option<BellPlace>,
        /// An earlier consumer had it and may have taken packets from it.
        #[serde(default)]
        inherited: bool,
    },
    /// A kernel channel of the session as it is to be: new, or changed. Takes effect at once when the session is started.
    SetKernelChannel {
        /// The session.
        session: SessionId,
        /// The channel; `spec.stream_id` is unique among the session's kernel channels.
        spec: ChannelSpec,
    },
    /// Which threads and CPUs the kernel channels of the session are about; sent before them, and whenever it changes.
    SetTracked {
        /// The session.
        session: SessionId,
        /// The threads and CPUs.
        tracked: Tracked,
    },
    /// Writes the state of the system into the session's kernel trace once more.
    RegenerateStateDump {
        /// The session.
        session: SessionId,
        /// The request.
        request: RequestId,
    },
    /// The program is dead: drain what it committed, then drop the ring set and say `RingSetDone`.
    ProgramGone {
        /// The ring set.
        key: RingSetKey,
    },
    /// The program has left it for other memory: drain what is committed, then drop the ring set and say `RingSetDone`.
    RetireRingSet {
        /// The ring set.
        key: RingSetKey,
    },
    /// Lets the session's programs record.
    Start {
        /// The session.
        session: SessionId,
        /// The request.
        request: RequestId,
    },
    /// Ends recording, drains every ring, and writes all of it; the answer holds the totals.
    Stop {
        /// The session.
        session: SessionId,
        /// The request.
        request: RequestId,
    },
    /// Writes what the rings hold to a trace of its own; the answer holds the totals of that trace.
    Snapshot {
        /// The session.
        session: SessionId,
        /// The folder of that trace.
        output: PathBuf,
        /// Whose it is.
        #[serde(default)]
        owner: Person,
        /// The request.
        request: RequestId,
    },
    /// Ends the chunk that is recorded to and begins the next one; the answer holds what all finished chunks have, for a later
    /// `OpenSession`. One that was done already is only answered.
    Rotate {
        /// The session.
        session: SessionId,
        /// The rotation.
        rotation: Rotation,
        /// The request.
        request: RequestId,
    },
    /// Stops when needed, and drops everything of the session; the answer holds the totals.
    CloseSession {
        /// The session.
        session: SessionId,
        /// The request.
        request: RequestId,
    },
    /// Writes everything that was recorded by now: somebody follows the trace. The answer says that it is in the folder; a session that ends
    /// answers when its trace is complete. [`Failure::Unfinished`]: it is, but for what some programs have begun.
    Flush {
        /// The session.
        session: SessionId,
        /// The request.
        request: RequestId,
    },
    /// Asks for the totals so far.
    Report {
        /// The session.
        session: SessionId,
        /// The request.
        request: RequestId,
        /// The answer confirms that all that was said before is done. A session that waits for its disk has more time for it.
        #[serde(default)]
        confirms: bool,
    },
    /// That was everything: a new consumer has all that control knows of.
    Described,
    /// Ends the process. Sent only when no session is left.
    Exit,
}

impl ToConsumer {
    /// The session that it is about, where it names one.
    pub fn session(&self) -> Option<SessionId> {
        match *self {
            ToConsumer::OpenSession(Opening { session, .. })
            | ToConsumer::AddChannel { session, .. }
            | ToConsumer::AddClass { session, .. }
            | ToConsumer::AddRingSet { session, .. }
            | ToConsumer::SetKernelChannel { session, .. }
            | ToConsumer::SetTracked { session, .. }
            | ToConsumer::RegenerateStateDump { session, .. }
            | ToConsumer::Start { session, .. }
            | ToConsumer::Stop { session, .. }
            | ToConsumer::Snapshot { session, .. }
            | ToConsumer::Rotate { session, .. }
            | ToConsumer::CloseSession { session, .. }
            | ToConsumer::Flush { session, .. }
            | ToConsumer::Report { session, .. } => Some(session),
            ToConsumer::Adopt
            | ToConsumer::AddBoard { .. }
            | ToConsumer::ProgramGone { .. }
            | ToConsumer::RetireRingSet { .. }
            | ToConsumer::Described
            | ToConsumer::Exit => None,
        }
    }

    /// The request that a `Done` is to answer.
    pub fn request(&self) -> Option<RequestId> {
        match *self {
            ToConsumer::Start { request, .. }
            | ToConsumer::Stop { request, .. }
            | ToConsumer::Snapshot { request, .. }
            | ToConsumer::Rotate { request, .. }
            | ToConsumer::CloseSession { request, .. }
            | ToConsumer::RegenerateStateDump { request, .. }
            | ToConsumer::Flush { request, .. }
            | ToConsumer::Report { request, .. } => Some(request),
            _ => None,
        }
    }
}

/// What control says of a new session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Opening {
    /// The session.
    pub session: SessionId,
    /// The folder of the trace; the consumer creates it and what is in it, with the first packet.
    pub output: PathBuf,
    /// Whose it is.
    #[serde(default)]
    pub owner: Person,
    /// What becomes of its events.
    pub purpose: Purpose,
    /// What the metadata says about the trace; in a rotation, about the chunk that ends.
    pub trace: Trace,
    /// The rotation that is going on.
    pub rotation: Option<Rotation>,
    /// The answer to the last rotation: what finished chunks have.
    pub archived: Vec<ChannelTotals>,
}

/// What becomes of a session's events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Purpose {
    /// They are written to the trace in `output` at once.
    Trace,
    /// They are kept in the rings until `Snapshot` writes them; nothing is written to `output` itself.
    Snapshots,
    /// They are told as `Matched`; nothing is written.
    Trigger {
        /// So many that control acts on; of the others, most are only counted.
        per_second: u32,
        /// Only of durations.
        lapse: Option<Lapse>,
    },
}

/// A trigger waits for durations: the first of a session's channels has what begins, the second what ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lapse {
    /// More than so much after the beginning.
    pub over_ns: u64,
    /// The field or context that is the same in both, in the same process.
    pub by: String,
    /// The beginning is told as soon as the time is over, and its end does not matter any more. Otherwise, ends are told that come that late.
    #[serde(default)]
    pub overdue: bool,
}

/// An event that a trigger waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Match {
    /// Its name in traces.
    pub event: String,
    /// When it was recorded, since 1970.
    pub time_ns: i64,
    /// Process id of its program in pisted's pid namespace; 0 is the kernel.
    pub pid: i32,
    /// Its contexts, an object in JSON.
    pub contexts: String,
    /// Its fields, an object in JSON.
    pub fields: String,
    /// Since what began, if a duration is waited for.
    #[serde(default)]
    pub duration_ns: Option<u64>,
}

/// A bell on a board (include/piste/abi/ring.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BellPlace {
    /// The number of the board.
    pub board: u32,
    /// Which of its bells.
    pub index: u32,
}

/// Consumer to control.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ToControl {
    /// A session that the consumer has. Answers `Adopt`.
    AdoptedSession {
        /// The session.
        session: SessionId,
        /// Whether it records.
        started: bool,
    },
    /// A ring set that the consumer has; its memfd comes with the message. Answers `Adopt`.
    AdoptedRingSet {
        /// The session.
        session: SessionId,
        /// The ring set.
        key: RingSetKey,
    },
    /// That was everything.
    Adopted {
        /// Process id of the consumer.
        pid: i32,
        /// It has been told [`ToConsumer::Described`]: what it has not, it has had, and is done with.
        #[serde(default)]
        described: bool,
    },
    /// Answers a request.
    Done {
        /// The request.
        request: RequestId,
        /// The totals of the session's channels (of the snapshot for `Snapshot`), or why it could not be done.
        outcome: Result<Vec<ChannelTotals>, Failure>,
    },
    /// The ring set is drained and dropped.
    RingSetDone {
        /// The ring set.
        key: RingSetKey,
    },
    /// The ring set cannot be read, and the consumer has not got it.
    RingSetRefused {
        /// The ring set.
        key: RingSetKey,
        /// Why, a sentence.
        why: String,
    },
    /// A record of a living program never came; the consumer gave up on it, and the ring set needs to be replaced: control
    /// answers with a new one for the program and, once the program records there, `RetireRingSet` for this one.
    RingRecovered {
        /// The ring set.
        key: RingSetKey,
    },
    /// Events of a trigger's session.
    Matched {
        /// The session.
        session: SessionId,
        /// The first of them, in the order of time.
        matches: Vec<Match>,
        /// All of them.
        count: u64,
        /// Events that nobody has looked at, because they were too many.
        missed: u64,
    },
    /// Something that people should know about the session.
    Finding {
        /// The session.
        session: SessionId,
        /// A sentence.
        what: String,
    },
}

/// One chunk of a trace ends, the next begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rotation {
    /// The folder that the chunk which ends goes to, of no other rotation. It exists.
    pub chunk: PathBuf,
    /// That of the next chunk.
    pub next_uuid: [u8; 16],
}

/// The shape of a channel's rings, and how they are written; `ring_count` rings in each ring set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Geometry {
    /// Rings of a ring set: the CPUs that this machine can have.
    pub ring_count: u32,
    /// Bytes of a sub-buffer.
    pub subbuf_bytes: u32,
    /// Sub-buffers of a ring.
    pub subbuf_count: u32,
    /// What happens when a ring is full.
    pub loss: Loss,
    /// For [`Loss::Block`]; `u32::MAX` waits without limit.
    pub block_timeout_us: u32,
    /// The clock of the records.
    pub clock: Clock,
}

/// What happens to an event when its ring is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Loss {
    /// The newest event is discarded.
    Discard,
    /// The oldest sub-buffer is overwritten.
    Overwrite,
    /// The call waits for space.
    Block,
}

/// The clock that programs read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    /// CLOCK_MONOTONIC.
    Monotonic,
    /// The time stamp counter.
    Tsc,
}

/// What a channel recorded and lost since the session was created, in all chunks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelTotals {
    /// The channel.
    pub stream_id: u32,
    /// Events in the trace.
    pub events: u64,
    /// Bytes of its streams on disk.
    pub bytes: u64,
    /// Packets in the trace.
    pub packets: u64,
    /// Events discarded because a ring was full.
    pub discarded_full: u64,
    /// Events discarded because they are larger than a sub-buffer holds.
    pub discarded_too_large: u64,
    /// Events discarded because they were committed after the consumer gave up on them.
    pub discarded_late: u64,
    /// Events overwritten before they were delivered.
    pub overwritten_events: u64,
    /// Packets that the consumer could not deliver: overwritten while it was away, or damaged beyond repair.
    pub lost_packets: u64,
    /// How full its rings were; absent if nobody knows.
    pub fill: Option<Fill>,
    /// What people should know about the channel.
    pub findings: Vec<Finding>,
}

/// How much of a channel's fullest ring waited when it was looked at, at most: percent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fill {
    /// Since the totals were stated before; absent if nobody has looked.
    pub lately_percent: Option<u8>,
    /// In all.
    pub most_percent: u8,
}

impl Fill {
    /// Notes how much waited of a ring.
    pub fn note(&mut self, waiting_bytes: u64, ring_bytes: u64) {
        let percent = (waiting_bytes.saturating_mul(100) / ring_bytes.max(1)).min(100) as u8;
        self.add(Fill {
            lately_percent: Some(percent),
            most_percent: percent,
        });
    }

    /// That of several channels.
    pub fn add(&mut self, other: Fill) {
        self.lately_percent = self.lately_percent.max(other.lately_percent);
        self.most_percent = self.most_percent.max(other.most_percent);
    }
}

impl ChannelTotals {
    /// Events that nobody has seen, as far as they were counted.
    pub fn missed(&self) -> u64 {
        [
            self.discarded_full,
            self.discarded_too_large,
            self.discarded_late,
            self.overwritten_events,
            self.lost_packets,
        ]
        .into_iter()
        .fold(0, u64::saturating_add)
    }

    /// Of a channel without anything.
    pub fn of(stream_id: u32) -> ChannelTotals {
        ChannelTotals {
            stream_id,
            ..ChannelTotals::default()
        }
    }

    /// Adds the counts of others of the same channel.
    pub fn add(&mut self, other: &ChannelTotals) {
        self.events += other.events;
        self.bytes += other.bytes;
        self.packets += other.packets;
        // Programs count their losses: no sum of them is trusted to stay small.
        for (sum, more) in [
            (&mut self.discarded_full, other.discarded_full),
            (&mut self.discarded_too_large, other.discarded_too_large),
            (&mut self.discarded_late, other.discarded_late),
            (&mut self.overwritten_events, other.overwritten_events),
            (&mut self.lost_packets, other.lost_packets),
        ] {
            *sum = sum.saturating_add(more);
        }
        if let Some(fill) = other.fill {
            self.fill.get_or_insert_default().add(fill);
        }
    }

    /// What was written since these counts, which are earlier ones.
    pub fn since(&self, earlier: &ChannelTotals) -> ChannelTotals {
        ChannelTotals {
            events: self.events.saturating_sub(earlier.events),
            bytes: self.bytes.saturating_sub(earlier.bytes),
            packets: self.packets.saturating_sub(earlier.packets),
            ..ChannelTotals::default()
        }
    }
}

/// Something worth knowing, and how often it was seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// A sentence.
    pub what: String,
    /// How often.
    pub count: u64,
}

/// Why the consumer could not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Failure {
    /// The disk or the quota is full.
    NoSpace {
        /// The file or folder.
        path: PathBuf,
    },
    /// The file or folder cannot be written.
    NoPermission {
        /// The file or folder.
        path: PathBuf,
    },
    /// Programs were stopped while they record an event: what they recorded behind it comes when they go on.
    Unfinished {
        /// What to call each of them.
        programs: Vec<String>,
    },
    /// Anything else.
    Other {
        /// A sentence.
        what: String,
    },
}

/// Largest message, in bytes. The largest event description makes an `AddClass` of some 150 KiB, and the system's default send
/// buffer takes a datagram of 208 KiB.
pub const MESSAGE_BYTES_MAX: usize = 200 * 1024;

/// What may wait for a consumer that is busy writing, in bytes: every class and ring set of a busy machine, after a restart.
const WAITING_BYTES_MAX: usize = 256 << 20;

/// One end of a connection: messages instead of datagrams. Never blocks; poll it for reading, and for writing while
/// [`Link::wants_write`].
#[derive(Debug)]
pub struct Link {
    datagrams: Datagrams,
    buffer: Vec<u8>,
}

impl Link {
    /// Takes a connected SOCK_SEQPACKET socket.
    pub fn new(socket: OwnedFd) -> Link {
        Link {
            datagrams: Datagrams::new(socket, WAITING_BYTES_MAX),
            buffer: Vec::new(),
        }
    }

    /// Sends a message, with a descriptor for the messages that carry one. It may wait here until [`Link::flush`].
    ///
    /// # Errors
    /// `ErrorKind::InvalidInput` when the message is too large (nothing is sent, the link is whole), else the socket's error.
    pub fn send(&mut self, message: &impl Serialize, descriptor: Option<Arc<OwnedFd>>) -> io::Result<()> {
        let bytes = serde_json::to_vec(message)?;
        if bytes.len() > MESSAGE_BYTES_MAX {
            let what = format!(
                "a message has {} bytes; the link allows at most {MESSAGE_BYTES_MAX}",
                bytes.len()
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        self.datagrams.send(&bytes, descriptor)
    }

    /// Receives the next message (`ToConsumer` or `ToControl`); `None` when nothing is waiting.
    ///
    /// # Errors
    /// `ErrorKind::UnexpectedEof` when the peer is gone; `ErrorKind::InvalidData` for a message that is none; the socket's.
    pub fn receive<Message: DeserializeOwned>(&mut self) -> io::Result<Option<(Message, Option<OwnedFd>)>> {
        if self.buffer.is_empty() {
            self.buffer = vec![0; MESSAGE_BYTES_MAX];
        }
        match self.datagrams.receive(&mut self.buffer, Descriptors::Accepted)? {
            Received::Datagram { bytes, descriptor } => {
                Ok(Some((serde_json::from_slice(&self.buffer[..bytes])?, descriptor)))
            }
            Received::Truncated => Err(io::ErrorKind::InvalidData.into()),
            Received::Empty => {
                // Idle: the buffer's pages go back.
                self.buffer = Vec::new();
                Ok(None)
            }
            Received::Closed => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Sends what waits, as far as the peer takes it.
    ///
    /// # Errors
    /// The socket's error, when the peer is gone.
    pub fn flush(&mut self) -> io::Result<()> {
        self.datagrams.flush()
    }

    /// Something waits to be sent.
    pub fn wants_write(&self) -> bool {
        self.datagrams.wants_write()
    }

    /// To be polled by a thread that has not got the link.
    pub fn socket(&self) -> Arc<OwnedFd> {
        self.datagrams.socket()
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.datagrams.as_fd()
    }
}
