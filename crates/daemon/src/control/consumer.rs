// SPDX-License-Identifier: MIT OR Apache-2.0
//! Control's end of the link to a consumer: finds the one that an earlier pisted left, or starts one.

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
use rustix::net::sockopt::socket_peercred;
use rustix::net::{SocketFlags, SocketType};
use rustix::process::{Signal, pidfd_send_signal};

use super::carrier::Belongings;
use super::sockets::{Access, connect, listen};
use crate::link::{Domain, Link, ToConsumer, ToControl};
use crate::remains::{Predecessors, is_dead_consumer, watch};

/// How long a consumer may take to say what it has. It may be in the middle of a write to a slow disk, or wait for the kernel.
const ADOPT_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a killed consumer is waited for.
const BURY_TIMEOUT: Duration = Duration::from_secs(1);
/// How long the rest of a dead one is waited for; a thread that takes longer hangs.
const REST_TIMEOUT: Duration = Duration::from_millis(20);
/// How often a consumer is looked at whose end nobody tells.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// A living consumer.
#[derive(Debug)]
pub struct Consumer {
    link: Link,
    pid: i32,
    /// Absent when an earlier pisted started it.
    child: Option<Child>,
    /// Readable when it listens no more. Absent before it does, and where the kernel has no such thing.
    listening: Option<OwnedFd>,
    next_look: Instant,
}

/// Who listens where a consumer does.
#[derive(Debug)]
pub enum Found<Living> {
    /// Nobody.
    Nobody,
    /// One that is dead, and whose socket is open as long as a thread of it hangs.
    Dead(Remains),
    /// One that lives.
    Living(Living),
}

/// A dead consumer that may not be gone.
#[derive(Debug)]
pub struct Remains {
    pid: i32,
    child: Option<Child>,
}

impl<Living> Found<Living> {
    /// What is left of a dead one.
    pub fn remains(self) -> Option<Remains> {
        match self {
            Found::Dead(remains) => Some(remains),
            Found::Nobody | Found::Living(_) => None,
        }
    }
}

impl Remains {
    /// Its process, unless it is gone.
    pub fn pid(&mut self) -> Option<i32> {
        let is_there = match &mut self.child {
            Some(child) => matches!(child.try_wait(), Ok(None)),
            None => is_dead_consumer(self.pid),
        };
        is_there.then_some(self.pid)
    }
}

impl Consumer {
    /// Starts a consumer, after `predecessors` that are dead and not gone. It is told everything afterwards.
    ///
    /// # Errors
    /// The socket cannot be made, or the process not be started.
    pub fn start(domain: Domain, places: &Places, predecessors: &[i32]) -> io::Result<Consumer> {
        let socket_path = &match domain {
            Domain::User => places.consumer_socket(),
            Domain::Kernel => places.kernel_consumer_socket(),
        };
        // Before the socket of the last one is replaced, by which a new pisted would find it.
        let predecessors = Predecessors::note(&socket_path.with_extension("remains"), predecessors);
        let listener = listen(socket_path, SocketType::SEQPACKET, SocketFlags::NONBLOCK, Access::Owner)?;
        let mut command = Command::new("/proc/self/exe");
        match domain {
            Domain::User => command.arg("--consumer"),
            Domain::Kernel => command.arg("--kernel-consumer").arg(places.run_folder()),
        };
        for pid in predecessors.0 {
            command.arg("--after").arg(pid.to_string());
        }
        // Where it listens is where we connect: in the socket's queue until it accepts.
        let child = command
            .arg0("pisted")
            .current_dir("/")
            .stdin(Stdio::from(listener))
            .stdout(Stdio::null())
            .spawn()?;
        let pid = child.id().cast_signed();
        let mut consumer = Consumer::new(connect(socket_path)?, pid, Some(child));
        consumer.link.send(&ToConsumer::Adopt, None)?;
        Ok(consumer)
    }

    fn new(socket: OwnedFd, pid: i32, child: Option<Child>) -> Consumer {
        Consumer {
            link: Link::new(socket),
            pid,
            child,
            listening: None,
            next_look: Instant::now() + LOOK_INTERVAL,
        }
    }

    /// Connects to a consumer that runs already. What it has it will say in its time: it may hang in the kernel.
    ///
    /// # Errors
    /// There is one, and it does not accept: a second one would write to the same files.
    pub fn find(socket_path: &Path) -> io::Result<Found<Consumer>> {
        let socket = match connect(socket_path) {
            Ok(socket) => socket,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(silent()),
            Err(_) => return Ok(Found::Nobody),
        };
        let pid = socket_peercred(&socket)?.pid.as_raw_nonzero().get();
        if is_dead_consumer(pid) {
            return Ok(Found::Dead(Remains { pid, child: None }));
        }
        let mut consumer = Consumer::new(socket, pid, None);
        match consumer.link.send(&ToConsumer::Adopt, None) {
            Ok(()) => Ok(Found::Living(consumer)),
            Err(_) => Ok(Found::Nobody),
        }
    }

    /// Connects to a consumer that runs already, and takes over what it has.
    ///
    /// # Errors
    /// There is one, and it does not answer: a second one would write to the same files.
    pub fn adopt(socket_path: &Path) -> io::Result<Found<(Consumer, Belongings)>> {
        let mut consumer = match Consumer::find(socket_path)? {
            Found::Living(consumer) => consumer,
            Found::Dead(remains) => return Ok(Found::Dead(remains)),
            Found::Nobody => return Ok(Found::Nobody),
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
                Ok(Some((ToControl::Adopted { described, .. }, _))) => {
                    belongings.is_described = described;
                    return Ok(Found::Living((consumer, belongings)));
                }
                Ok(Some((other, _))) => belongings.messages.push(other),
                Ok(None) => match wait_readable(&consumer.link, deadline) {
                    Err(_) if is_dead_consumer(consumer.pid) => {
                        let pid = consumer.pid;
                        return Ok(Found::Dead(Remains { pid, child: None }));
                    }
                    waited => waited?,
                },
                // It died meanwhile.
                Err(_) => return Ok(Found::Nobody),
            }
        }
    }

    /// What to poll for the end of a consumer that listens now; `None` when it is watched already, or cannot be.
    pub fn watch(&mut self) -> Option<BorrowedFd<'_>> {
        if self.listening.is_none() {
            self.listening = watch(self.pid).ok();
            return self.listening.as_ref().map(AsFd::as_fd);
        }
        None
    }

    /// When to look at one whose end nobody tells.
    pub fn next_look(&self) -> Option<Instant> {
        self.listening.is_none().then_some(self.next_look)
    }

    /// Whether it is dead, although its connection may be open. Of one whose end nobody tells this is known at times only.
    pub fn has_ended(&mut self) -> bool {
        let now = Instant::now();
        match &self.listening {
            Some(listening) => is_readable(listening),
            None if now < self.next_look => false,
            None => {
                self.next_look = now + LOOK_INTERVAL;
                is_dead_consumer(self.pid)
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

    /// Takes leave of a consumer that is dead, or whose connection broke. Should it live on, it must not write beside a new one: once killed,
    /// it does nothing any more but end the call that it is in. What is left of it is returned when that takes a while.
    pub fn bury(mut self) -> Option<Remains> {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
        } else if let Some(listening) = &self.listening {
            let _ = pidfd_send_signal(listening, Signal::KILL);
        }
        let (began, pid) = (Instant::now(), self.pid);
        let is_known = self.child.is_some() || self.listening.is_some();
        let mut remains = Remains { pid, child: self.child };
        let mut dead_since = None;
        while is_known && began.elapsed() < BURY_TIMEOUT {
            if remains.child.is_some() && remains.pid().is_none() || !Path::new(&format!("/proc/{pid}")).exists() {
                return None;
            }
            if is_dead_consumer(pid) && dead_since.get_or_insert_with(Instant::now).elapsed() >= REST_TIMEOUT {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
        let pid = remains.pid()?;
        eprintln!("pisted: consumer process {pid} was killed but does not end; its disk or the kernel hangs");
        Some(remains)
    }
}

fn is_readable(descriptor: &OwnedFd) -> bool {
    let now = Timespec::default();
    poll(&mut [PollFd::new(descriptor, PollFlags::IN)], Some(&now)).is_ok_and(|count| count > 0)
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
    let what = "the consumer of an earlier pisted is running but does not answer";
    io::Error::new(io::ErrorKind::TimedOut, what)
}
