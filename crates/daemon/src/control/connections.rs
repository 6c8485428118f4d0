// SPDX-License-Identifier: MIT OR Apache-2.0
//! The connections of traced programs: accepts them, turns datagrams into inputs of the machine, sends what it decides.
//!
//! Nothing here waits for a program. One that sends what it must not, or does not read, is disconnected, and goes on recording
//! into what it has.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use piste_abi::PISTE_MESSAGE_BYTES_MAX;
use rustix::net::{self, SocketFlags};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::complaints::Complaints;
use super::host;
use super::poll::{Poll, Source};
use crate::datagrams::{Datagrams, Descriptors, Received};
use crate::description::{Interner, Malformed};
use crate::message::{self, FromProgram, Hello, ToProgram};
use crate::session::{Machine, ProgramId};

/// What may wait for a program that does not read, in bytes: more than the longest list of events to enable.
const WAITING_BYTES_MAX: usize = 2 << 20;
/// Datagrams taken from one program before others have their turn.
const TURN_COUNT_MAX: usize = 64;
/// Descriptors that are kept for everything but programs.
const DESCRIPTOR_RESERVE_COUNT: u64 = 128;
/// Connections of one user who is not root and not pisted's own.
const USER_CONNECTION_COUNT_MAX: usize = 4096;

/// All connections.
#[derive(Debug)]
pub struct Connections {
    listener: OwnedFd,
    /// By number; a number is never used again.
    connections: HashMap<u64, Connection>,
    by_program: HashMap<ProgramId, u64>,
    /// The processes that have, or had, a connection, by their watch's number.
    watches: HashMap<u64, ProgramId>,
    watched: HashMap<ProgramId, Watch>,
    last_number: u64,
    connection_count_max: usize,
    interner: Interner,
    buffer: Vec<u8>,
    confirmed: Vec<(ProgramId, u64)>,
    complaints: Complaints,
}

#[derive(Debug)]
struct Connection {
    datagrams: Datagrams,
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

impl Connections {
    /// Accepts connections from a listening socket, as many as the descriptors allow when each program has
    /// one channel: a socket, a process, a ring set.
    ///
    /// # Errors
    /// The socket cannot be polled.
    pub fn new(listener: OwnedFd, descriptor_count_max: u64, poll: &Poll) -> io::Result<Connections> {
        poll.add(&listener, Source::Listener)?;
        Ok(Connections {
            listener,
            connections: HashMap::new(),
            by_program: HashMap::new(),
            watches: HashMap::new(),
            watched: HashMap::new(),
            last_number: 0,
            connection_count_max: (descriptor_count_max.saturating_sub(DESCRIPTOR_RESERVE_COUNT) / 3) as usize,
            interner: Interner::default(),
            buffer: Vec::new(),
            confirmed: Vec::new(),
            complaints: Complaints::default(),
        })
    }

    /// Takes the connections that wait, and what was sent over them: a program that connects has much to say at once.
    pub fn accept(&mut self, poll: &Poll, machine: &mut Machine) {
        for _ in 0..TURN_COUNT_MAX {
            let Ok(socket) = net::accept_with(&self.listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) else {
                return;
            };
            match self.admit(socket, poll) {
                Ok(number) => self.serve(number, poll, machine),
                Err(reason) => self.complaints.add(&format!("a program could not register: {reason}")),
            }
        }
    }

    fn admit(&mut self, socket: OwnedFd, poll: &Poll) -> io::Result<u64> {
        let peer = net::sockopt::socket_peercred(&socket)?;
        let uid = peer.uid.as_raw();
        if self.connections.len() >= self.connection_count_max {
            let limit = self.connection_count_max;
            return Err(io::Error::other(format!(
                "{limit} are connected; allow pisted more open files (ulimit -n)"
            )));
        }
        let is_stranger = uid != 0 && uid != rustix::process::geteuid().as_raw();
        let of_user = || {
            self.connections
                .values()
                .filter(|connection| connection.uid == uid)
                .count()
        };
        if is_stranger && of_user() >= USER_CONNECTION_COUNT_MAX {
            return Err(io::Error::other(format!(
                "user {uid} has {USER_CONNECTION_COUNT_MAX} connected"
            )));
        }
        let number = self.next_number();
        poll.add(&socket, Source::Connection(number))?;
        self.connections.insert(
            number,
            Connection {
                datagrams: Datagrams::new(socket, WAITING_BYTES_MAX),
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

    /// Reads what a program sent, and sends what waits for it.
    pub fn serve(&mut self, number: u64, poll: &Poll, machine: &mut Machine) {
        match self.receive(number, poll, machine) {
            Ok(_) => self.flush(number, poll, machine),
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
        for _ in 0..TURN_COUNT_MAX {
            let Some(connection) = self.connections.get(&number) else {
                return Ok(false);
            };
            match connection.datagrams.receive(buffer, Descriptors::Ignored) {
                Ok(Received::Datagram { bytes, .. }) => {
                    let message = message::parse(&buffer[..bytes], &mut self.interner)?;
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
            self.connections.remove(&earlier);
            machine.disconnected(id);
        }
        if !self.watch(id, poll) {
            return Err(End::Closed);
        }
        machine.hello(id, uid, start, hello);
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
            let end = loop {
                match self.receive(number, poll, machine) {
                    Ok(true) => {}
                    // Another process may still have the socket.
                    Ok(false) => break End::Closed,
                    Err(end) => break end,
                }
            };
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
        self.poll_for_writing(number, poll);
    }

    fn flush(&mut self, number: u64, poll: &Poll, machine: &mut Machine) {
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        if connection.datagrams.flush().is_err() {
            return self.end(number, End::Closed, machine);
        }
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

    fn end(&mut self, number: u64, end: End, machine: &mut Machine) {
        let Some(connection) = self.connections.remove(&number) else {
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
