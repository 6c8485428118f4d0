// SPDX-License-Identifier: MIT OR Apache-2.0
//! The consumer's loop behind its socket, as the control process meets it.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, connect, listen, socket};

use super::rig::{NUMBER, STREAM_ID, number_class, read, trace};
use super::writer::Writer;
use crate::contexts::Contexts;
use crate::link::{Clock, Geometry, Link, Loss, Opening, Purpose, ToConsumer, ToControl};

const GEOMETRY: Geometry = Geometry {
    ring_count: 2,
    subbuf_bytes: 4096,
    subbuf_count: 4,
    loss: Loss::Discard,
    block_timeout_us: 0,
    clock: Clock::Monotonic,
};

struct Process {
    folder: tempfile::TempDir,
    thread: JoinHandle<std::io::Result<()>>,
}

impl Process {
    fn start() -> Process {
        let folder = tempfile::tempdir().unwrap();
        let listener = seqpacket();
        bind(&listener, &address(&folder)).unwrap();
        listen(&listener, 4).unwrap();
        Process {
            folder,
            thread: std::thread::spawn(move || super::super::run(listener, crate::remains::Predecessors::default())),
        }
    }

    fn connect(&self) -> Link {
        let socket = seqpacket();
        connect(&socket, &address(&self.folder)).unwrap();
        Link::new(socket)
    }

    fn output(&self) -> PathBuf {
        self.folder.path().join("trace")
    }
}

fn seqpacket() -> OwnedFd {
    socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap()
}

fn address(folder: &tempfile::TempDir) -> SocketAddrUnix {
    SocketAddrUnix::new(folder.path().join("consumer.sock")).unwrap()
}

fn send(link: &mut Link, message: ToConsumer) {
    link.send(&message, None).unwrap();
}

fn receive(link: &mut Link) -> (ToControl, Option<OwnedFd>) {
    loop {
        if let Some(message) = link.receive().unwrap() {
            return message;
        }
        poll(&mut [PollFd::new(link, PollFlags::IN)], None).unwrap();
    }
}

fn open_session(link: &mut Link, output: PathBuf) -> OwnedFd {
    send(
        link,
        ToConsumer::OpenSession(Opening {
            session: 1,
            output,
            owner: crate::person::Person::default(),
            purpose: Purpose::Trace,
            trace: trace(),
            rotation: None,
            archived: vec![],
        }),
    );
    let stream = piste_ctf::StreamClass {
        id: STREAM_ID,
        channel: "default".into(),
        contexts: vec![],
    };
    send(
        link,
        ToConsumer::AddChannel {
            session: 1,
            stream,
            geometry: GEOMETRY,
        },
    );
    send(
        link,
        ToConsumer::AddClass {
            session: 1,
            stream_id: STREAM_ID,
            class: number_class(),
        },
    );
    let memory = crate::rings::make("test", &GEOMETRY, &Contexts::NONE, 5, true).unwrap();
    let add = ToConsumer::AddRingSet {
        session: 1,
        stream_id: STREAM_ID,
        key: 5,
        stream_instance_base: 0,
        vpid: 1,
        uid: 0,
        bell: None,
        inherited: false,
        pid: std::process::id() as i32,
    };
    link.send(&add, Some(std::sync::Arc::new(memory.try_clone().unwrap())))
        .unwrap();
    send(link, ToConsumer::Start { session: 1, request: 1 });
    assert!(matches!(
        receive(link).0,
        ToControl::Done {
            request: 1,
            outcome: Ok(_)
        }
    ));
    memory
}

#[test]
fn recording_survives_control_and_the_next_one_gets_the_memory_back() {
    let process = Process::start();
    let mut link = process.connect();
    send(&mut link, ToConsumer::Adopt);
    assert!(matches!(receive(&mut link).0, ToControl::Adopted { .. }));
    let memory = open_session(&mut link, process.output());
    let write = |memory: &OwnedFd, numbers: std::ops::Range<u64>| {
        let writer = Writer::new(memory, 1);
        numbers
            .filter(|number| writer.record(*number, NUMBER, &number.to_ne_bytes()))
            .count()
    };
    assert_eq!(write(&memory, 0..300), 300);
    drop((link, memory));

    let mut link = process.connect();
    send(&mut link, ToConsumer::Adopt);
    assert_eq!(
        receive(&mut link).0,
        ToControl::AdoptedSession {
            session: 1,
            started: true
        }
    );
    let (adopted, memory) = receive(&mut link);
    assert_eq!(adopted, ToControl::AdoptedRingSet { session: 1, key: 5 });
    assert!(matches!(receive(&mut link).0, ToControl::Adopted { .. }));
    assert_eq!(write(&memory.unwrap(), 300..400), 100);

    send(&mut link, ToConsumer::CloseSession { session: 1, request: 2 });
    let ToControl::Done {
        request: 2,
        outcome: Ok(totals),
    } = receive(&mut link).0
    else {
        panic!("no totals")
    };
    assert_eq!(totals[0].events, 400);
    send(&mut link, ToConsumer::CloseSession { session: 1, request: 3 });
    assert_eq!(
        receive(&mut link).0,
        ToControl::Done {
            request: 3,
            outcome: Ok(vec![])
        }
    );
    send(&mut link, ToConsumer::Exit);
    process.thread.join().unwrap().unwrap();
    assert_eq!(
        read(&process.folder.path().join("trace")).numbers,
        (0..400).collect::<Vec<_>>()
    );
}

#[test]
fn nonsense_from_control_is_answered_and_ends_nothing() {
    let process = Process::start();
    let mut link = process.connect();
    send(
        &mut link,
        ToConsumer::Report {
            session: 9,
            request: 1,
            confirms: false,
        },
    );
    assert!(matches!(
        receive(&mut link).0,
        ToControl::Done {
            request: 1,
            outcome: Err(_)
        }
    ));
    send(&mut link, ToConsumer::ProgramGone { key: 77 });
    assert_eq!(receive(&mut link).0, ToControl::RingSetDone { key: 77 });
    send(
        &mut link,
        ToConsumer::AddClass {
            session: 9,
            stream_id: 1,
            class: number_class(),
        },
    );
    assert!(matches!(receive(&mut link).0, ToControl::Finding { session: 9, .. }));
    link.send(&"no message", None).unwrap();
    let mut link = process.connect();
    let _memory = open_session(&mut link, process.output());
    send(&mut link, ToConsumer::Exit);
    process.thread.join().unwrap().unwrap();
}
