// SPDX-License-Identifier: MIT OR Apache-2.0
//! Control's end of the link to a consumer: finds the one that an earlier pisted left, or starts one.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use piste_control::Places;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{SocketFlags, SocketType};

use super::sockets::{Access, connect, listen};
use crate::link::{Domain, Link, RingSetKey, SessionId, ToConsumer, ToControl};

/// How long a consumer may take to say what it has. It may be in the middle of a write to a slow disk, or wait for the kernel.
const ADOPT_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a killed consumer is waited for.
const BURY_TIMEOUT: Duration = Duration::from_secs(1);

/// A living consumer.
#[derive(Debug)]
pub struct Consumer {
    link: Link,
    /// Absent when an earlier pisted started it.
    child: Option<Child>,
}

/// What a consumer has that an earlier pisted started.
#[derive(Debug, Default)]
pub struct Belongings {
    /// Sessions.
    pub sessions: BTreeSet<SessionId>,
    /// The memory of ring sets.
    pub ring_sets: BTreeMap<RingSetKey, Arc<OwnedFd>>,
    /// What it said meanwhile.
    pub messages: Vec<ToControl>,
}

impl Consumer {
    /// Starts a consumer. It is told everything afterwards.
    ///
    /// # Errors
    /// The socket cannot be made, or the process not be started.
    pub fn start(domain: Domain, places: &Places) -> io::Result<Consumer> {
        let socket_path = &match domain {
            Domain::User => places.consumer_socket(),
            Domain::Kernel => places.kernel_consumer_socket(),
        };
        let listener = listen(socket_path, SocketType::SEQPACKET, SocketFlags::NONBLOCK, Access::Owner)?;
        let mut command = Command::new("/proc/self/exe");
        match domain {
            Domain::User => command.arg("--consumer"),
            Domain::Kernel => command.arg("--kernel-consumer").arg(places.run_folder()),
        };
        // Where it listens is where we connect: in the socket's queue until it accepts.
        let child = command
            .arg0("pisted")
            .current_dir("/")
            .stdin(Stdio::from(listener))
            .stdout(Stdio::null())
            .spawn()?;
        let mut consumer = Consumer {
            link: Link::new(connect(socket_path)?),
            child: Some(child),
        };
        consumer.link.send(&ToConsumer::Adopt, None)?;
        Ok(consumer)
    }

    /// Connects to a consumer that runs already. What it has it will say in its time: it may hang in the kernel. `None` when none
    /// runs.
    ///
    /// # Errors
    /// There is one, and it does not accept: a second one would write to the same files.
    pub fn find(socket_path: &Path) -> io::Result<Option<Consumer>> {
        let socket = match connect(socket_path) {
            Ok(socket) => socket,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(silent()),
            Err(_) => return Ok(None),
        };
        let mut link = Link::new(socket);
        let told = link.send(&ToConsumer::Adopt, None);
        Ok(told.is_ok().then_some(Consumer { link, child: None }))
    }

    /// Connects to a consumer that runs already, and takes over what it has. `None` when none runs.
    ///
    /// # Errors
    /// There is one, and it does not answer: a second one would write to the same files.
    pub fn adopt(socket_path: &Path) -> io::Result<Option<(Consumer, Belongings)>> {
        let Some(mut consumer) = Consumer::find(socket_path)? else {
            return Ok(None);
        };
        let deadline = Instant::now() + ADOPT_TIMEOUT;
        let mut belongings = Belongings::default();
        loop {
            match consumer.link.receive() {
                Ok(Some((ToControl::AdoptedSession { session, .. }, _))) => {
                    belongings.sessions.insert(session);
                }
                Ok(Some((ToControl::AdoptedRingSet { key, .. }, Some(memory)))) => {
                    belongings.ring_sets.insert(key, Arc::new(memory));
                }
                Ok(Some((ToControl::Adopted { .. }, _))) => return Ok(Some((consumer, belongings))),
                Ok(Some((other, _))) => belongings.messages.push(other),
                Ok(None) => wait_readable(&consumer.link, deadline)?,
                // It died meanwhile.
                Err(_) => return Ok(None),
            }
        }
    }

    /// Sends a message, with the memory for `AddRingSet`.
    ///
    /// # Errors
    /// The message is too large (`InvalidInput`), or the consumer is gone.
    pub fn send(&mut self, message: &ToConsumer, memory: Option<Arc<OwnedFd>>) -> io::Result<()> {
        self.link.send(message, memory)
    }

    /// The next message that waits. Those that answer `Adopt` say nothing new to who started the consumer.
    ///
    /// # Errors
    /// The consumer is gone.
    pub fn receive(&mut self) -> io::Result<Option<ToControl>> {
        Ok(self.link.receive()?.map(|(message, _)| message))
    }

    /// Sends what waits.
    ///
    /// # Errors
    /// The consumer is gone.
    pub fn flush(&mut self) -> io::Result<()> {
        self.link.flush()
    }

    /// Something waits to be sent.
    pub fn wants_write(&self) -> bool {
        self.link.wants_write()
    }

    /// To poll.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.link.as_fd()
    }

    /// Takes leave of a consumer whose connection broke. Should it live on, it must not write beside a new one: once killed, it does
    /// nothing any more, even if a kernel that hangs keeps it from ending.
    pub fn bury(self) {
        let Some(mut child) = self.child else { return };
        let _ = child.kill();
        let deadline = Instant::now() + BURY_TIMEOUT;
        while let Ok(None) = child.try_wait() {
            if Instant::now() >= deadline {
                eprintln!(
                    "pisted: process {}, a consumer, was killed and does not end",
                    child.id()
                );
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

fn wait_readable(link: &Link, deadline: Instant) -> io::Result<()> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(silent());
    }
    let timeout = Timespec {
        tv_sec: left.as_secs() as i64,
        tv_nsec: left.subsec_nanos().into(),
    };
    match poll(&mut [PollFd::new(link, PollFlags::IN)], Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn silent() -> io::Error {
    let what = "the consumer of an earlier pisted lives and does not answer";
    io::Error::new(io::ErrorKind::TimedOut, what)
}
