// SPDX-License-Identifier: MIT OR Apache-2.0
//! A traced program: a connection to app.sock, from this process or from one that can be killed.

use std::io::{IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use piste_abi::{FromBytes, piste_enabled_event, piste_message, piste_message_channel, piste_message_enable};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType, connect, recvmsg, send, socket_with,
};

use super::wire;

pub struct Program {
    socket: OwnedFd,
}

/// A message of pisted's.
#[derive(Debug)]
pub enum Told {
    Channel(u32, OwnedFd),
    Bell,
    Gone(u32),
    Enable(u32, Vec<(u32, u32, u32)>),
    Disable(u32, Vec<(u32, u32, u32)>),
    Dump(u32),
    Sync(u64),
    Synced(u64),
}

impl Program {
    pub fn connect(run_folder: &Path) -> Program {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        connect(&socket, &SocketAddrUnix::new(run_folder.join("app.sock")).unwrap()).unwrap();
        Program { socket }
    }

    /// Registers with `shop:order (int32 id)` and `shop:pay ()` in module 1, and waits for the end of it.
    pub fn register(run_folder: &Path, instance_id: u64, attached: &[u32]) -> (Program, Vec<Told>) {
        let program = Program::connect(run_folder);
        program.send(&wire::hello(instance_id, attached, [0; 16]));
        let events = [
            wire::event(0, "shop", "order", &[wire::int32("id")]),
            wire::event(1, "shop", "pay", &[]),
        ];
        program.send(&wire::events(1, &events));
        program.send(&wire::sync(1));
        let told = program.until_synced(1);
        (program, told)
    }

    pub fn send(&self, bytes: &[u8]) {
        send(&self.socket, bytes, SendFlags::NOSIGNAL).unwrap();
    }

    /// Like `send`, when pisted may have closed the connection.
    pub fn try_send(&self, bytes: &[u8]) -> bool {
        send(&self.socket, bytes, SendFlags::NOSIGNAL).is_ok()
    }

    /// The next message but for those about bells, which this program does not ring; `None` when pisted closed the connection.
    pub fn receive(&self) -> Option<Told> {
        let timeout = Timespec {
            tv_sec: super::PATIENCE.as_secs() as i64,
            tv_nsec: 0,
        };
        assert_eq!(
            poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&timeout)),
            Ok(1),
            "nothing came"
        );
        let mut buffer = vec![0; 65536];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = recvmsg(
            &self.socket,
            &mut [IoSliceMut::new(&mut buffer)],
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        );
        let bytes = match received {
            Ok(received) if received.bytes > 0 => received.bytes,
            Ok(_) | Err(rustix::io::Errno::CONNRESET) => return None,
            Err(error) => panic!("{error}"),
        };
        let descriptor = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        match told(&buffer[..bytes], descriptor) {
            Told::Bell => self.receive(),
            other => Some(other),
        }
    }

    /// The messages up to the answer to a SYNC.
    pub fn until_synced(&self, token: u64) -> Vec<Told> {
        let mut all = Vec::new();
        loop {
            match self.receive().expect("pisted keeps the connection") {
                Told::Synced(synced) => {
                    assert_eq!(synced, token);
                    return all;
                }
                other => all.push(other),
            }
        }
    }

    /// The messages up to pisted's next SYNC, which is answered.
    pub fn until_sync(&self) -> Vec<Told> {
        let mut all = Vec::new();
        loop {
            match self.receive().expect("pisted keeps the connection") {
                Told::Sync(token) => {
                    self.send(&wire::synced(token));
                    return all;
                }
                other => all.push(other),
            }
        }
    }

    /// Whether pisted closes the connection.
    pub fn is_closed(&self) -> bool {
        loop {
            match self.receive() {
                None => return true,
                Some(Told::Sync(_)) => return false,
                Some(_) => {}
            }
        }
    }
}

impl AsFd for Program {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn told(bytes: &[u8], descriptor: Option<OwnedFd>) -> Told {
    let (message, _) = piste_message::read_from_prefix(bytes).unwrap();
    assert_eq!(message.total_bytes as usize, bytes.len());
    let key = || piste_message_channel::read_from_prefix(bytes).unwrap().0.key;
    let token = || u64::from_ne_bytes(bytes[16..24].try_into().unwrap());
    match message.type_ {
        piste_abi::PISTE_MESSAGE_CHANNEL => Told::Channel(key(), descriptor.expect("the memory comes along")),
        piste_abi::PISTE_MESSAGE_BELL => Told::Bell,
        piste_abi::PISTE_MESSAGE_CHANNEL_GONE => Told::Gone(key()),
        piste_abi::PISTE_MESSAGE_ENABLE => Told::Enable(key(), enabled(bytes)),
        piste_abi::PISTE_MESSAGE_DISABLE => Told::Disable(key(), enabled(bytes)),
        piste_abi::PISTE_MESSAGE_STATEDUMP => Told::Dump(key()),
        piste_abi::PISTE_MESSAGE_SYNC => Told::Sync(token()),
        piste_abi::PISTE_MESSAGE_SYNCED => Told::Synced(token()),
        other => panic!("message of type {other}"),
    }
}

fn enabled(bytes: &[u8]) -> Vec<(u32, u32, u32)> {
    let (message, mut rest) = piste_message_enable::read_from_prefix(bytes).unwrap();
    let events = (0..message.event_count).map(|_| {
        let (event, after) = piste_enabled_event::read_from_prefix(rest).unwrap();
        rest = after;
        (event.module_id, event.event_index, event.event_id)
    });
    let events = events.collect();
    assert!(rest.is_empty());
    events
}

/// Names of messages, for comparing.
pub fn names(told: &[Told]) -> Vec<String> {
    let events = |events: &[(u32, u32, u32)]| {
        events
            .iter()
            .map(|(module, index, id)| format!(" {module}.{index}={id}"))
            .collect::<String>()
    };
    told.iter()
        .map(|message| match message {
            Told::Channel(key, _) => format!("channel {key}"),
            Told::Bell => "bell".into(),
            Told::Gone(key) => format!("gone {key}"),
            Told::Enable(key, list) => format!("enable {key}{}", events(list)),
            Told::Disable(key, list) => format!("disable {key}{}", events(list)),
            Told::Dump(key) => format!("dump {key}"),
            Told::Sync(_) => "sync".into(),
            Told::Synced(_) => "synced".into(),
        })
        .collect()
}

/// A process that registers like [`Program::register`] and then waits to be killed: this executable again, running the test
/// `registers_and_waits`.
pub struct Process(Child);

impl Process {
    pub fn start(run_folder: &Path) -> Process {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "registers_and_waits", "--nocapture"])
            .env("PISTE_TEST_PROGRAM", run_folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        let stdout = child.stdout.as_mut().unwrap();
        while !said.contains("registered") {
            let mut byte = [0];
            assert_eq!(stdout.read(&mut byte).unwrap(), 1, "the program ended: {said}");
            said.push(byte[0].into());
        }
        Process(child)
    }

    pub fn pid(&self) -> i32 {
        self.0.id() as i32
    }

    pub fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// The other half of [`Process`]. Does nothing in an ordinary run of the tests.
pub fn registers_and_waits() {
    let Some(run_folder) = std::env::var_os("PISTE_TEST_PROGRAM") else {
        return;
    };
    let program = Program::register(Path::new(&run_folder), 1, &[]);
    println!("registered");
    let _ = std::io::stdin().read(&mut [0]);
    drop(program);
}
