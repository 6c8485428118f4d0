// SPDX-License-Identifier: MIT OR Apache-2.0
//! The connections of traced programs: accepts them, turns datagrams into inputs of the machine, sends what it decides.
//!
//! Nothing here waits for a program. One that sends what it must not, or does not read, is disconnected, and goes on recording
//! into what it has.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use piste_abi::PISTE_MESSAGE_BYTES_MAX;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{self, SocketFlags};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::complaints::Complaints;
use super::host;
use super::poll::{Poll, Source};
use super::turns::Turns;
use crate::datagrams::{Datagrams, Descriptors, Received};
use crate::description::{Interner, KEPT_BYTES_MAX, Malformed};
use crate::message::{self, FromProgram, Hello, ToProgram};
use crate::session::{Machine, ProgramId};
use crate::shares::{Holdings, Users};

/// What may wait for a program that does not read, in bytes: more than the longest list of events to enable.
const WAITING_BYTES_MAX: usize = 2 << 20;
/// What may wait for all programs together.
const ALL_WAITING_BYTES_MAX: usize = 256 << 20;
/// Connections accepted before others have their turn, and datagrams taken from one program ...
const TURN_COUNT_MAX: usize = 64;
/// ... unless they take longer than this.
const TURN_TIME_MAX: Duration = Duration::from_millis(1);
/// Turns for what a process sent before it ended: its socket held no more.
const LAST_TURN_COUNT_MAX: usize = 16;
/// Descriptors that are kept for everything but programs.
const DESCRIPTOR_RESERVE_COUNT: u64 = 128;
/// Connections, also where there are descriptors for more.
const CONNECTION_COUNT_MAX: u64 = 65_536;

/// How many connections there can be, and how many ring sets: each takes two descriptors of pisted's.
pub fn count_max(descriptor_count_max: u64) -> usize {
    (descriptor_count_max.saturating_sub(DESCRIPTOR_RESERVE_COUNT) / 4).min(CONNECTION_COUNT_MAX) as usize
}

/// All connections.
#[derive(Debug)]
pub struct Connections {
    listener: OwnedFd,
    /// For a connection that there is no descriptor for.
    reserve: Option<OwnedFd>,
    /// By number; a number is never used again.
    connections: HashMap<u64, Connection>,
    by_program: HashMap<ProgramId, u64>,
    /// The processes that have, or had, a connection, by their watch's number.
    watches: HashMap<u64, ProgramId>,
    watched: HashMap<ProgramId, Watch>,
    last_number: u64,
    connection_count_max: usize,
    turns: Turns,
    users: Users,
    /// Connections, by user.
    holdings: Holdings,
    /// Bytes that wait to be sent, by user.
    waiting_holdings: Holdings,
    /// Of each user with a connection.
    interners: HashMap<u32, Interner>,
    buffer: Vec<u8>,
    confirmed: Vec<(ProgramId, u64)>,
    complaints: Complaints,
}

#[derive(Debug)]
struct Connection {
    datagrams: Datagrams,
    /// Of them, in `waiting_holdings`.
    held_waiting_bytes: usize,
    uid: u32,
    pid: i32,
    program: Option<ProgramId>,
    polled_for_writing: bool,
}

#[derive(Debug)]
struct Watch {
    number: u64,
    /// Readable once the process is gone.
    _process: OwnedFd,
}

/// Why a connection ended.
enum End {
    /// The program closed it.
    Closed,
    /// The program did what it must not.
    Misbehaved(String),
}

impl From<Malformed> for End {
    fn from(malformed: Malformed) -> End {
        End::Misbehaved(malformed.to_string())
    }
}

fn open_reserve() -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    Ok(rustix::fs::open("/", flags, Mode::empty())?)
}

impl Connections {
    /// Accepts connections from a listening socket, as many as [`count_max`] says.
    ///
    /// # Errors
    /// The socket cannot be polled.
    pub fn new(listener: OwnedFd, descriptor_count_max: u64, poll: &Poll) -> io::Result<Connections> {
        poll.add(&listener, Source::Listener)?;
        Ok(Connections {
            listener,
            reserve: Some(open_reserve()?),
            connections: HashMap::new(),
            by_program: HashMap::new(),
            watches: HashMap::new(),
            watched: HashMap::new(),
            last_number: 0,
            connection_count_max: count_max(descriptor_count_max),
            turns: Turns::default(),
            users: Users::of_this_process(),
            holdings: Holdings::default(),
            waiting_holdings: Holdings::default(),
            interners: HashMap::new(),
            buffer: Vec::new(),
            confirmed: Vec::new(),
            complaints: Complaints::default(),
        })
    }

    /// Takes the connections that wait. A program that connects has much to say at once.
    pub fn accept(&mut self, poll: &Poll, machine: &mut Machine) {
        for _ in 0..TURN_COUNT_MAX {
            let socket = match net::accept_with(&self.listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(socket) => socket,
                Err(Errno::MFILE | Errno::NFILE) => {
                    // The one in reserve takes it, so that it does not wait, and the loop with it.
                    self.reserve = None;
                    drop(net::accept_with(&self.listener, SocketFlags::CLOEXEC));
                    self.reserve = open_reserve().ok();
                    return self.refuse("pisted has no descriptor left (ulimit -n)", machine);
                }
                Err(_) => return,
            };
            match self.admit(socket, poll) {
                Ok(number) => self.is_ready(number),
                Err(reason) => self.refuse(&reason.to_string(), machine),
            }
        }
    }

    fn refuse(&mut self, why: &str, machine: &mut Machine) {
        self.complaints.add(&format!("a program could not register: {why}"));
        machine.not_registered(why);
    }

    fn admit(&mut self, socket: OwnedFd, poll: &Poll) -> io::Result<u64> {
        let peer = net::sockopt::socket_peercred(&socket)?;
        let uid = peer.uid.as_raw();
        if !self.users.permit(&self.holdings, uid, 1, self.connection_count_max) {
            let (count, share) = (self.holdings.of(uid), self.users.share(uid, self.connection_count_max));
            return Err(io::Error::other(format!(
                "{} are connected, {count} of them of user {uid}, who may have {share}; allow pisted more open files (ulimit -n)",
                self.connections.len()
            )));
        }
        let number = self.next_number();
        poll.add(&socket, Source::Connection(number))?;
        self.holdings.add(uid, 1);
        self.connections.insert(
            number,
            Connection {
                datagrams: Datagrams::new(socket, WAITING_BYTES_MAX),
                held_waiting_bytes: 0,
                uid,
                pid: peer.pid.as_raw_nonzero().get(),
                program: None,
                polled_for_writing: false,
            },
        );
        Ok(number)
    }

    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// There is something to read or write on a connection.
    pub fn is_ready(&mut self, number: u64) {
        if let Some(connection) = self.connections.get(&number) {
            self.turns.add(connection.uid, number);
        }
    }

    /// Whether a connection waits for its turn.
    pub fn has_turns(&self) -> bool {
        !self.turns.is_empty()
    }

    /// Serves the connection whose turn it is. False when none waits.
    pub fn serve_next(&mut self, poll: &Poll, machine: &mut Machine) -> bool {
        let next = self.turns.take();
        if let Some(number) = next {
            self.serve(number, poll, machine);
        }
        next.is_some()
    }

    /// Reads what a program sent, and sends what waits for it.
    fn serve(&mut self, number: u64, poll: &Poll, machine: &mut Machine) {
        match self.receive(number, poll, machine) {
            Ok(more) => {
                self.flush(number, poll, machine);
                if more {
                    self.is_ready(number);
                }
            }
            Err(end) => self.end(number, end, machine),
        }
    }

    /// Takes one turn of datagrams, and says whether there may be more.
    fn receive(&mut self, number: u64, poll: &Poll, machine: &mut Machine) -> Result<bool, End> {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(PISTE_MESSAGE_BYTES_MAX as usize, 0);
        let received = self.receive_into(&mut buffer, number, poll, machine);
        self.buffer = buffer;
        received
    }

    fn receive_into(
        &mut self,
        buffer: &mut [u8],
        number: u64,
        poll: &Poll,
        machine: &mut Machine,
    ) -> Result<bool, End> {
        let end = Instant::now() + TURN_TIME_MAX;
        for taken in 0..TURN_COUNT_MAX {
            let Some(connection) = self.connections.get(&number) else {
                return Ok(false);
            };
            if taken > 0 && Instant::now() >= end {
                return Ok(true);
            }
            match connection.datagrams.receive(buffer, Descriptors::Ignored) {
                Ok(Received::Datagram { bytes, .. }) => {
                    let user = connection.uid;
                    let kept_bytes_max = self.users.share(user, KEPT_BYTES_MAX);
                    let interner = self.interners.entry(user);
                    let interner = interner.or_insert_with(|| Interner::new(kept_bytes_max));
                    let message = message::parse(&buffer[..bytes], interner)?;
                    self.take(number, message, poll, machine)?;
                }
                Ok(Received::Empty) => return Ok(false),
                Ok(Received::Closed) => return Err(End::Closed),
                Ok(Received::Truncated) => {
                    let what = format!("it sent a message of more than {PISTE_MESSAGE_BYTES_MAX} bytes");
                    return Err(End::Misbehaved(what));
                }
                Err(error) => return Err(End::Misbehaved(error.to_string())),
            }
        }
        Ok(true)
    }

    fn take(&mut self, number: u64, message: FromProgram, poll: &Poll, machine: &mut Machine) -> Result<(), End> {
        let known = self.connections.get(&number).and_then(|connection| connection.program);
        match (known, message) {
            (None, FromProgram::Hello(hello)) => self.register(number, hello, poll, machine)?,
            (None, _) => return Err(End::Misbehaved("its first message is not HELLO".into())),
            (Some(_), FromProgram::Hello(_)) => return Err(End::Misbehaved("it said HELLO twice".into())),
            (Some(id), FromProgram::Events { module, block, bytes }) => machine.events(id, module, block, bytes),
            (Some(id), FromProgram::ModuleGone { module }) => machine.module_gone(id, module),
            (Some(id), FromProgram::Refused { key, reason }) => machine.refused(id, key, &reason),
            (Some(id), FromProgram::Sync { token }) => machine.sync(id, token),
            (Some(id), FromProgram::Late) => machine.late(id),
            (Some(id), FromProgram::Synced { token }) => self.confirmed.push((id, token)),
        }
        Ok(())
    }

    fn register(&mut self, number: u64, hello: Hello, poll: &Poll, machine: &mut Machine) -> Result<(), End> {
        let Some(connection) = self.connections.get_mut(&number) else {
            return Ok(());
        };
        let id = ProgramId {
            pid: connection.pid,
            instance_id: hello.instance_id,
        };
        let uid = connection.uid;
        connection.program = Some(id);
        let start = host::process_start(id.pid).unwrap_or(0);
        if let Some(earlier) = self.by_program.insert(id, number) {
            self.remove(earlier);
            machine.disconnected(id);
        }
        let lives = self.watch(id, poll);
        machine.hello(id, uid, start, hello);
        if !lives {
            machine.ended_before(id);
        }
        Ok(())
    }

    /// The tokens that programs answered since the last call.
    pub fn take_confirmed(&mut self) -> Vec<(ProgramId, u64)> {
        std::mem::take(&mut self.confirmed)
    }

    /// Watches for the end of a process. False when it has ended already.
    pub fn watch(&mut self, id: ProgramId, poll: &Poll) -> bool {
        if self.watched.contains_key(&id) {
            return true;
        }
        let number = self.next_number();
        let opened = Pid::from_raw(id.pid).ok_or(rustix::io::Errno::SRCH);
        let Ok(process) = opened.and_then(|pid| pidfd_open(pid, PidfdFlags::NONBLOCK)) else {
            return false;
        };
        if poll.add(&process, Source::Process(number)).is_err() {
            return false;
        }
        self.watches.insert(number, id);
        self.watched.insert(
            id,
            Watch {
                number,
                _process: process,
            },
        );
        true
    }

    /// A watched process has ended. What it sent before is taken first.
    pub fn process_ended(&mut self, watch: u64, poll: &Poll, machine: &mut Machine) {
        let Some(id) = self.watches.get(&watch).copied() else {
            return;
        };
        if let Some(&number) = self.by_program.get(&id) {
            // Another process may still have the socket, and send on.
            let mut end = End::Closed;
            for _ in 0..LAST_TURN_COUNT_MAX {
                match self.receive(number, poll, machine) {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(why) => {
                        end = why;
                        break;
                    }
                }
            }
            self.end(number, end, machine);
        }
        self.unwatch(id);
        machine.dead(id);
    }

    fn unwatch(&mut self, id: ProgramId) {
        if let Some(watch) = self.watched.remove(&id) {
            self.watches.remove(&watch.number);
        }
    }

    /// Sends a message to a program, with the memory for `Channel`.
    pub fn tell(
        &mut self,
        id: ProgramId,
        message: &ToProgram,
        memory: Option<Arc<OwnedFd>>,
        poll: &Poll,
        machine: &mut Machine,
    ) {
        let Some(&number) = self.by_program.get(&id) else {
            return;
        };
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        for datagram in message.encode() {
            match connection.datagrams.send(&datagram, memory.clone()) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let what = format!("it does not read its messages, and {WAITING_BYTES_MAX} bytes wait for it");
                    return self.end(number, End::Misbehaved(what), machine);
                }
                Err(_) => return self.end(number, End::Closed, machine),
            }
        }
        if self.hold_waiting(number) {
            return self.poll_for_writing(number, poll);
        }
        let what = "programs of its user do not read their messages, and too many bytes wait for them".into();
        self.end(number, End::Misbehaved(what), machine);
    }

    /// Counts what waits for a program among what waits for its user's. False when that is too much.
    fn hold_waiting(&mut self, number: u64) -> bool {
        let Some(connection) = self.connections.get_mut(&number) else {
            return true;
        };
        let (user, waiting_bytes) = (connection.uid, connection.datagrams.waiting_bytes());
        self.waiting_holdings.remove(user, connection.held_waiting_bytes);
        let permitted = self
            .users
            .permit(&self.waiting_holdings, user, waiting_bytes, ALL_WAITING_BYTES_MAX);
        self.waiting_holdings.add(user, waiting_bytes);
        connection.held_waiting_bytes = waiting_bytes;
        permitted
    }

    fn flush(&mut self, number: u64, poll: &Poll, machine: &mut Machine) {
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        if connection.datagrams.flush().is_err() {
            return self.end(number, End::Closed, machine);
        }
        self.hold_waiting(number);
        self.poll_for_writing(number, poll);
    }

    fn poll_for_writing(&mut self, number: u64, poll: &Poll) {
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        let wants_write = connection.datagrams.wants_write();
        if connection.polled_for_writing != wants_write {
            connection.polled_for_writing = wants_write;
            poll.set_writing(connection.datagrams.as_fd(), Source::Connection(number), wants_write);
        }
    }

    fn remove(&mut self, number: u64) -> Option<Connection> {
        let connection = self.connections.remove(&number)?;
        let user = connection.uid;
        self.waiting_holdings.remove(user, connection.held_waiting_bytes);
        self.holdings.remove(user, 1);
        if self.holdings.of(user) == 0 {
            self.interners.remove(&user);
        }
        Some(connection)
    }

    fn end(&mut self, number: u64, end: End, machine: &mut Machine) {
        let Some(connection) = self.remove(number) else {
            return;
        };
        let who = match connection.program {
            Some(id) => machine.program_name(id).unwrap_or("a program").to_owned(),
            None => "a program".into(),
        };
        if let End::Misbehaved(what) = &end {
            let (pid, uid) = (connection.pid, connection.uid);
            self.complaints
                .add(&format!("{who} (pid {pid}, user {uid}) was disconnected: {what}"));
        }
        let Some(id) = connection.program else { return };
        if self.by_program.get(&id) != Some(&number) {
            return;
        }
        self.by_program.remove(&id);
        if let End::Misbehaved(what) = &end {
            machine.misbehaved(id, what);
        }
        machine.disconnected(id);
        // Without ring sets its end is of no interest.
        if machine.sessions().ring_sets_of(id).next().is_none() {
            self.unwatch(id);
        }
    }
}
