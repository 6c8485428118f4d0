// SPDX-License-Identifier: MIT OR Apache-2.0
//! The connections of traced programs: accepts them, turns datagrams into inputs of the machine, sends what it decides.
//!
//! Nothing here waits for a program. One that sends what it must not, or does not read, is disconnected, and goes on recording
//! into what it has.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use piste_abi::PISTE_MESSAGE_BYTES_MAX;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{self, SocketFlags, UCred};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::complaints::Complaints;
use super::foreign::ForeignPrograms;
use super::poll::{Poll, Watched};
use super::process_facts;
use super::sockets::BACKLOG;
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
/// Datagrams taken from one program before others have their turn ...
const TURN_COUNT_MAX: usize = 64;
/// ... unless they take longer than this.
const TURN_TIME_MAX: Duration = Duration::from_millis(1);
/// Datagrams that a process sent before it ended: its socket held no more, unless another process has it and sends on.
const LAST_DATAGRAM_COUNT_MAX: usize = 1024;
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
    interner: Interner,
    buffer: Vec<u8>,
    confirmed: Vec<(ProgramId, u64)>,
    /// Programs that were refused, and sessions are still to be told: why, and how many.
    refused: BTreeMap<String, u64>,
    complaints: Complaints,
    /// Programs that cannot be understood.
    pub foreign: ForeignPrograms,
}

#[derive(Debug)]
struct Connection {
    datagrams: Datagrams,
    /// Of them, in `waiting_holdings`.
    held_waiting_bytes: usize,
    /// Who connected.
    peer: UCred,
    program: Option<ProgramId>,
    polled_for_writing: bool,
    /// Datagrams that are taken at most, once its process has ended.
    last_datagram_count: Option<usize>,
}

impl Connection {
    fn uid(&self) -> u32 {
        self.peer.uid.as_raw()
    }

    fn pid(&self) -> i32 {
        self.peer.pid.as_raw_nonzero().get()
    }
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
        poll.add(&listener, Watched::Listener)?;
        let users = Users::of_this_process();
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
            users,
            holdings: Holdings::default(),
            waiting_holdings: Holdings::default(),
            interner: Interner::new(users, KEPT_BYTES_MAX),
            buffer: Vec::new(),
            confirmed: Vec::new(),
            refused: BTreeMap::new(),
            complaints: Complaints::default(),
            foreign: ForeignPrograms::default(),
        })
    }

    /// Takes all connections that wait: only then is it known whose they are. A program that connects has much to say at once.
    pub fn accept(&mut self, poll: &Poll) {
        for _ in 0..=BACKLOG {
            let socket = match net::accept_with(&self.listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(socket) => socket,
                Err(Errno::MFILE | Errno::NFILE) => {
                    // The one in reserve takes it, so that it does not wait, and the loop with it.
                    self.reserve = None;
                    drop(net::accept_with(&self.listener, SocketFlags::CLOEXEC));
                    self.reserve = open_reserve().ok();
                    let why = "pisted has no file descriptor left; allow it more open files (ulimit -n)";
                    self.refuse(why.to_owned());
                    break;
                }
                Err(_) => break,
            };
            match self.admit(socket, poll) {
                Ok(number) => self.is_ready(number),
                Err(why) => self.refuse(why.to_string()),
            }
        }
    }

    /// `why` is the same for all that are refused for the same reason.
    fn refuse(&mut self, why: String) {
        *self.refused.entry(why).or_default() += 1;
    }

    /// Tells sessions of the programs that were refused. Together: each is a change of a session, and somebody may be refused ten thousand
    /// times a second.
    pub fn tell_of_refused(&mut self, machine: &mut Machine) {
        for (why, count) in std::mem::take(&mut self.refused) {
            self.complaints.add(&format!("a program could not register: {why}"));
            machine.not_registered(&why, count);
        }
    }

    fn admit(&mut self, socket: OwnedFd, poll: &Poll) -> io::Result<u64> {
        let peer = net::sockopt::socket_peercred(&socket)?;
        let uid = peer.uid.as_raw();
        if !self.users.permit(&self.holdings, uid, 1, self.connection_count_max) {
            // Without counts, so that it is one finding however many are refused.
            let (limit, share) = (
                self.connection_count_max,
                self.users.share(uid, self.connection_count_max),
            );
            return Err(io::Error::other(format!(
                "at most {limit} programs can be connected, {share} of them of user {uid}; allow pisted more open files (ulimit -n)"
            )));
        }
        let number = self.next_number();
        poll.add(&socket, Watched::Connection(number))?;
        self.holdings.add(uid, 1);
        self.connections.insert(
            number,
            Connection {
                datagrams: Datagrams::new(socket, WAITING_BYTES_MAX),
                held_waiting_bytes: 0,
                peer,
                program: None,
                polled_for_writing: false,
                last_datagram_count: None,
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
            self.turns.add(connection.uid(), number);
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
        let more = match self.receive(number, poll, machine) {
            Ok(more) => more,
            Err(end) => return self.end(number, end, machine),
        };
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        match connection.last_datagram_count {
            None => self.flush(number, poll, machine),
            Some(_) if more => {}
            Some(_) => return self.end(number, End::Closed, machine),
        }
        if more {
            self.is_ready(number);
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
            let Some(connection) = self.connections.get_mut(&number) else {
                return Ok(false);
            };
            if taken > 0 && Instant::now() >= end {
                return Ok(true);
            }
            if let Some(left) = &mut connection.last_datagram_count {
                *left = left.checked_sub(1).ok_or(End::Closed)?;
            }
            match connection.datagrams.receive(buffer, Descriptors::Ignored) {
                Ok(Received::Datagram { bytes, .. }) => {
                    let message = message::parse(&buffer[..bytes], connection.uid(), &self.interner)?;
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
            (None, FromProgram::Foreign { version }) => {
                self.refuse("it was compiled for another release of Piste; compile it again for this one".into());
                let ours = piste_abi::PISTE_ABI_MAJOR;
                if let Some(connection) = self.connections.get(&number) {
                    self.foreign.add(connection.pid(), connection.uid(), version.clone());
                }
                let what = format!("it uses version {version} of the protocol, but this pisted uses {ours}.x");
                return Err(End::Misbehaved(what));
            }
            (None, FromProgram::Hello(hello)) => self.register(number, hello, poll, machine)?,
            (None, _) => return Err(End::Misbehaved("its first message is not HELLO".into())),
            (Some(_), FromProgram::Hello(_) | FromProgram::Foreign { .. }) => {
                return Err(End::Misbehaved("it sent HELLO twice".into()));
            }
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
            pid: connection.pid(),
            instance_id: hello.instance_id,
        };
        let facts = process_facts::of(&connection.peer);
        connection.program = Some(id);
        if let Some(earlier) = self.by_program.insert(id, number) {
            let earlier = self.remove(earlier);
            machine.disconnected(id);
            if earlier.is_some_and(|earlier| earlier.last_datagram_count.is_some()) {
                machine.dead(id);
            }
        }
        let lives = self.watch(id, poll);
        machine.hello(id, facts, hello);
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
        if poll.add(&process, Watched::Process(number)).is_err() {
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

    /// A watched process has ended. What it sent before is taken first, in its turns.
    pub fn process_ended(&mut self, watch: u64, machine: &mut Machine) {
        let Some(id) = self.watches.get(&watch).copied() else {
            return;
        };
        self.unwatch(id);
        let number = self.by_program.get(&id).copied();
        match number.and_then(|number| Some((number, self.connections.get_mut(&number)?))) {
            Some((number, connection)) => {
                connection.last_datagram_count = Some(LAST_DATAGRAM_COUNT_MAX);
                self.is_ready(number);
            }
            None => machine.dead(id),
        }
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
        if connection.last_datagram_count.is_some() {
            // Nobody reads it, and what the process sent has yet to be taken.
            return;
        }
        for datagram in message.encode() {
            match connection.datagrams.send(&datagram, memory.clone()) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let what =
                        format!("it does not read its messages, and {WAITING_BYTES_MAX} bytes are waiting for it");
                    return self.end(number, End::Misbehaved(what), machine);
                }
                Err(_) => return self.end(number, End::Closed, machine),
            }
        }
        if self.hold_waiting(number) {
            return self.poll_for_writing(number, poll);
        }
        let what = "programs of its user do not read their messages, and too many bytes are waiting for them".into();
        self.end(number, End::Misbehaved(what), machine);
    }

    /// Counts what waits for a program among what waits for its user's. False when that is too much.
    fn hold_waiting(&mut self, number: u64) -> bool {
        let Some(connection) = self.connections.get_mut(&number) else {
            return true;
        };
        let (user, waiting_bytes) = (connection.uid(), connection.datagrams.waiting_bytes());
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
            poll.set_writing(connection.datagrams.as_fd(), Watched::Connection(number), wants_write);
        }
    }

    fn remove(&mut self, number: u64) -> Option<Connection> {
        let connection = self.connections.remove(&number)?;
        let user = connection.uid();
        self.waiting_holdings.remove(user, connection.held_waiting_bytes);
        self.holdings.remove(user, 1);
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
            let (pid, uid) = (connection.pid(), connection.uid());
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
        if connection.last_datagram_count.is_some() {
            return machine.dead(id);
        }
        // Without ring sets its end is of no interest.
        if machine.sessions().ring_sets_of(id).next().is_none() {
            self.unwatch(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use piste_abi::{
        IntoBytes, PISTE_ABI_MAJOR, PISTE_MESSAGE_EVENTS, PISTE_MESSAGE_HELLO, PISTE_MESSAGE_MAGIC,
        piste_event_description, piste_message, piste_message_events, piste_message_hello,
    };
    use rustix::net::{AddressFamily, SendFlags, SocketType, send, socketpair};

    use super::*;
    use crate::control::sockets::{Access, connect, listen};
    use crate::fuzzing::recording_machine;
    use crate::session::Effect;

    fn header(type_: u32, total_bytes: usize) -> piste_message {
        piste_message {
            magic: PISTE_MESSAGE_MAGIC,
            type_,
            total_bytes: total_bytes as u32,
            reserved: 0,
        }
    }

    fn hello() -> Vec<u8> {
        let message = piste_message_hello {
            message: header(PISTE_MESSAGE_HELLO, size_of::<piste_message_hello>()),
            version_major: PISTE_ABI_MAJOR as u16,
            struct_bytes: size_of::<piste_message_hello>() as u32,
            ..piste_abi::FromZeros::new_zeroed()
        };
        message.as_bytes().to_vec()
    }

    /// A module with one event, `a:b`.
    fn events(module_id: u32) -> Vec<u8> {
        let event = piste_event_description {
            total_bytes: size_of::<piste_event_description>() as u32 + 8,
            provider_bytes: 1,
            name_bytes: 1,
            ..piste_abi::FromZeros::new_zeroed()
        };
        let total_bytes = size_of::<piste_message_events>() + event.total_bytes as usize;
        let message = piste_message_events {
            message: header(PISTE_MESSAGE_EVENTS, total_bytes),
            module_id,
            event_count: 1,
        };
        [message.as_bytes(), event.as_bytes(), b"ab\0\0\0\0\0\0"].concat()
    }

    /// Connections, and a socket of this process among them.
    fn connected(poll: &Poll) -> (Connections, OwnedFd) {
        let pair = || {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
        };
        let mut connections = Connections::new(pair().0, 1024, poll).unwrap();
        let (ours, programs) = pair();
        let number = connections.admit(ours, poll).unwrap();
        connections.is_ready(number);
        (connections, programs)
    }

    fn is_told_of_its_end(machine: &mut Machine) -> bool {
        let is_end =
            |effect: &Effect| matches!(effect, Effect::Consumer(_, crate::link::ToConsumer::ProgramGone { .. }));
        machine.take_effects().iter().any(is_end)
    }

    #[test]
    fn what_a_process_sent_before_its_end_is_taken_in_turns() {
        let (poll, mut machine) = (Poll::new().unwrap(), recording_machine());
        let (mut connections, program) = connected(&poll);
        let sent = [hello()].into_iter().chain((1..=150).map(events));
        let say = |message: &[u8]| send(&program, message, SendFlags::NOSIGNAL);
        let mut sent_count = 0;
        for message in sent {
            if say(&message).is_err() {
                break;
            }
            sent_count += 1;
        }
        assert!(sent_count > TURN_COUNT_MAX, "{sent_count} messages wait at once");
        assert!(connections.serve_next(&poll, &mut machine));
        let known = |machine: &Machine| {
            machine
                .programs()
                .next()
                .map_or(0, |(_, program)| program.events().count())
        };
        let first = known(&machine);
        assert!(first < sent_count - 1, "{first}");
        drop(program);

        let watch = *connections.watches.keys().next().unwrap();
        connections.process_ended(watch, &mut machine);
        assert_eq!(known(&machine), first, "nothing is taken out of turn");
        let mut most = first;
        while connections.serve_next(&poll, &mut machine) && machine.programs().next().is_some() {
            most = known(&machine);
            assert!(!is_told_of_its_end(&mut machine));
        }
        assert!(most >= sent_count - 1 - TURN_COUNT_MAX, "{most}");
        assert!(is_told_of_its_end(&mut machine));
        assert_eq!((connections.connections.len(), connections.holdings.of(0)), (0, 0));
    }

    #[test]
    fn nobody_waits_behind_more_connections_than_are_accepted_at_once() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("socket");
        let listener = listen(&path, SocketType::SEQPACKET, SocketFlags::NONBLOCK, Access::Owner).unwrap();
        let poll = Poll::new().unwrap();
        let mut connections = Connections::new(listener, 1 << 20, &poll).unwrap();
        let connected: Vec<OwnedFd> = std::iter::from_fn(|| connect(&path).ok()).take(10_000).collect();
        assert!((1..10_000).contains(&connected.len()), "{}", connected.len());
        connections.accept(&poll);
        let _last = connect(&path).expect("there is room again");
        connections.accept(&poll);
        assert_eq!(connections.connections.len(), connected.len() + 1);
    }

    /// Whoever else has the socket of a process that ended sends on in vain.
    #[test]
    fn the_last_turns_of_a_process_end() {
        let (poll, mut machine) = (Poll::new().unwrap(), recording_machine());
        let (mut connections, program) = connected(&poll);
        send(&program, &hello(), SendFlags::NOSIGNAL).unwrap();
        connections.serve_next(&poll, &mut machine);
        let watch = *connections.watches.keys().next().unwrap();
        connections.process_ended(watch, &mut machine);
        let mut sent_count = 0;
        loop {
            while send(&program, &events(1), SendFlags::NOSIGNAL).is_ok() {
                sent_count += 1;
            }
            if !connections.serve_next(&poll, &mut machine) {
                break;
            }
        }
        assert!(sent_count >= LAST_DATAGRAM_COUNT_MAX, "{sent_count}");
        assert!(machine.programs().next().is_none());
    }
}
