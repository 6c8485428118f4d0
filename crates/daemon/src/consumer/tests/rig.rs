// SPDX-License-Identifier: MIT OR Apache-2.0
//! A session with its programs' memory around it: drives the consumer's parts without its loop, on a clock of its own, and can
//! kill it between any two steps.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use piste_ctf::{Base, Clock, Element, EventClass, Field, FieldKind, StreamClass, Trace};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use tempfile::TempDir;

use super::super::outbox::Outbox;
use super::super::program::Program;
use super::super::ring::Buffers;
use super::super::ring_set::{Ears, Fullest, Life, Producer};
use super::super::service::Recording;
use super::super::session::{Session, Shared};
use super::super::stage::Again;
use super::super::stream::ProcessIds;
use super::super::watch::{Rung, Watch};
use super::writer::Writer;
use crate::bell::Bell;
use crate::contexts::Contexts;
use crate::link::{
    BellPlace, ChannelTotals, Failure, Geometry, Lapse, Link, Loss, Opening, Purpose, Rotation, ToControl,
};
use crate::person::{Output, Person};

/// The one channel's number.
pub(super) const STREAM_ID: u32 = 0;
/// The request of a rotation.
pub(super) const ROTATE: u64 = 10;
/// The request of a flush.
pub(super) const FLUSH: u64 = 11;
/// The event `test:number`, with a field `number`, a uint64.
pub(super) const NUMBER: u32 = 0;

pub(super) struct Rig {
    pub(super) folder: TempDir,
    pub(super) geometry: Geometry,
    pub(super) session: Session,
    pub(super) now: Instant,
    pub(super) messages: Vec<ToControl>,
    /// What control knows of the session's chunks.
    pub(super) chunks: Chunks,
    purpose: Purpose,
    memories: BTreeMap<u32, OwnedFd>,
    outbox: Outbox,
    control: Link,
    buffers: Buffers,
}

/// The chunks of the session, as control keeps them.
#[derive(Default)]
pub(super) struct Chunks {
    /// Those that are finished.
    pub(super) count: u8,
    archived: Vec<ChannelTotals>,
    rotation: Option<Rotation>,
}

impl Chunks {
    /// That of the chunk that is recorded to, or ends.
    fn trace(&self) -> Trace {
        let mut trace = trace();
        trace.uuid[15] = self.count;
        trace
    }
}

impl Rig {
    /// A started session that streams, with ring sets of one ring, 4 sub-buffers of 4 KiB.
    pub(super) fn new(loss: Loss) -> Rig {
        Rig::with(loss, Purpose::Trace)
    }

    /// A started flight recorder.
    pub(super) fn flight_recorder() -> Rig {
        Rig::with(Loss::Overwrite, Purpose::Snapshots)
    }

    /// A started session of a trigger.
    pub(super) fn of_trigger() -> Rig {
        Rig::with(
            Loss::Discard,
            Purpose::Trigger {
                per_second: 1000,
                lapse: None,
            },
        )
    }

    /// A started session of a trigger that waits for durations.
    pub(super) fn of_durations() -> Rig {
        let lapse = Lapse {
            over_ns: 0,
            by: "number".into(),
            overdue: false,
        };
        Rig::with(
            Loss::Discard,
            Purpose::Trigger {
                per_second: 1000,
                lapse: Some(lapse),
            },
        )
    }

    fn with(loss: Loss, purpose: Purpose) -> Rig {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let outbox = Outbox::new(Arc::new(Bell::new().unwrap()));
        outbox.connect(Link::new(ours));
        let folder = tempfile::tempdir().unwrap();
        let geometry = Geometry {
            ring_count: 4,
            subbuf_bytes: 4096,
            subbuf_count: 4,
            loss,
            block_timeout_us: 0,
            clock: crate::link::Clock::Monotonic,
        };
        let mut rig = Rig {
            session: open(
                &folder.path().join("trace"),
                purpose.clone(),
                &Chunks::default(),
                &outbox,
            ),
            chunks: Chunks::default(),
            folder,
            geometry,
            now: Instant::now(),
            messages: Vec::new(),
            purpose,
            memories: BTreeMap::new(),
            outbox,
            control: Link::new(theirs),
            buffers: Buffers::default(),
        };
        rig.describe();
        rig.start();
        rig
    }

    /// Kills the consumer and starts the next one, which gets everything from control again.
    pub(super) fn kill(&mut self) {
        self.kill_stopped();
        self.start();
    }

    /// As `kill`, while the session is stopped. The next consumer looks before it is told all.
    pub(super) fn kill_stopped(&mut self) {
        self.session = open(&self.output(), self.purpose.clone(), &self.chunks, &self.outbox);
        self.work();
        self.describe();
        self.work();
        for (key, memory) in &self.memories {
            self.session.add_ring_set(producer(*key, true), memory, None).unwrap();
        }
    }

    /// A program starts; its key is also its process id.
    pub(super) fn program(&mut self, key: u32) {
        let memory = crate::rings::make("test", &self.geometry, &Contexts::NONE, key, true).unwrap();
        self.session.add_ring_set(producer(key, false), &memory, None).unwrap();
        self.memories.insert(key, memory);
    }

    /// A program starts that is heard when it rings. It does not ring by itself: see [`Rig::ring`].
    pub(super) fn audible_program(&mut self, key: u32) {
        let memory = crate::rings::make("test", &self.geometry, &Contexts::NONE, key, true).unwrap();
        let watch = Arc::<Watch>::default();
        watch.add_board(0, &piste_ring::create_board().unwrap());
        let ears = Ears {
            watch,
            rung: Arc::new(Rung::new().unwrap()),
            place: BellPlace { board: 0, index: 0 },
        };
        self.session
            .add_ring_set(producer(key, false), &memory, Some(ears))
            .unwrap();
        self.memories.insert(key, memory);
    }

    /// A program's bell is heard.
    pub(super) fn ring(&mut self, key: u32) {
        self.session.have_rung(vec![key]);
    }

    /// Copies a program's memory, to have it again as it was.
    pub(super) fn save_memory(&self, key: u32) -> OwnedFd {
        self.copy(&self.memories[&key], key)
    }

    /// Gives a program a copy of this memory, which the next consumer gets.
    pub(super) fn restore_memory(&mut self, key: u32, saved: &OwnedFd) {
        let memory = self.copy(saved, key);
        self.memories.insert(key, memory);
    }

    fn copy(&self, memory: &OwnedFd, key: u32) -> OwnedFd {
        let copy = crate::rings::make("copy", &self.geometry, &Contexts::NONE, key, true).unwrap();
        let mut bytes = vec![0; self.geometry.memory().unwrap().total_bytes() as usize];
        rustix::io::pread(memory, &mut bytes, 0).unwrap();
        assert_eq!(rustix::io::pwrite(&copy, &bytes, 0), Ok(bytes.len()));
        copy
    }

    /// The next consumer does not get this ring set: control knows that it is done.
    pub(super) fn forget(&mut self, key: u32) {
        self.memories.remove(&key);
    }

    /// Writes bytes anywhere into a program's memory.
    pub(super) fn scribble(&self, key: u32, bytes: &[(u64, u8)]) {
        for (offset, byte) in bytes {
            assert_eq!(rustix::io::pwrite(&self.memories[&key], &[*byte], *offset), Ok(1));
        }
    }

    pub(super) fn writer(&self, key: u32, ring_index: u32) -> Writer<'_> {
        Writer::new(&self.memories[&key], ring_index)
    }

    /// Records one `test:number` for each number, at that tick, in ring 0. Returns how many were not discarded.
    pub(super) fn record(&self, key: u32, numbers: std::ops::Range<u64>) -> u64 {
        let writer = self.writer(key, 0);
        numbers
            .filter(|number| writer.record(*number, NUMBER, &number.to_ne_bytes()))
            .count() as u64
    }

    /// One look at the rings.
    pub(super) fn work(&mut self) -> Again {
        let mut fullest = Fullest::default();
        let (outbox, buffers, now) = (&self.outbox, &mut self.buffers, self.now);
        let again = self.session.work(&mut Shared {
            outbox,
            buffers,
            fullest: &mut fullest,
            now,
        });
        while let Some((message, _)) = self.control.receive().unwrap() {
            self.messages.push(message);
        }
        again
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    pub(super) fn gone(&mut self, key: u32) {
        self.session.end_ring_set(key, Life::Gone, &self.outbox);
    }

    pub(super) fn retire(&mut self, key: u32) {
        self.session.end_ring_set(key, Life::Retired(self.now), &self.outbox);
    }

    pub(super) fn start(&mut self) {
        self.try_start().unwrap();
    }

    pub(super) fn try_start(&mut self) -> Result<(), Failure> {
        self.session.start(&self.outbox)
    }

    /// Stops the session and returns the totals.
    pub(super) fn stop(&mut self) -> ChannelTotals {
        self.session.end(7, false, self.now);
        self.finish(7)
    }

    /// Closes the session and returns the totals.
    pub(super) fn close(&mut self) -> ChannelTotals {
        self.session.end(8, true, self.now);
        self.finish(8)
    }

    /// Somebody follows the trace, and asks for what was recorded by now.
    pub(super) fn begin_flush(&mut self) {
        self.messages.clear();
        self.ask_for_flush(FLUSH);
    }

    /// The same with any request.
    pub(super) fn ask_for_flush(&mut self, request: u64) {
        self.session.flush(request, &self.outbox);
    }

    /// The same, to the end. The clock runs meanwhile.
    pub(super) fn flush(&mut self) -> Result<Vec<ChannelTotals>, Failure> {
        self.begin_flush();
        loop {
            self.work();
            if let Some(outcome) = self.answer(FLUSH) {
                return outcome;
            }
            self.pass(Duration::from_millis(1));
        }
    }

    /// Has a snapshot written and returns its totals.
    pub(super) fn snapshot(&mut self, name: &str) -> ChannelTotals {
        self.begin_snapshot(name);
        self.finish(9)
    }

    /// As `snapshot`; the answer may be an error.
    pub(super) fn try_snapshot(&mut self, name: &str) {
        self.begin_snapshot(name);
        while self.answer(9).is_none() {
            self.work();
        }
    }

    /// Asks for a rotation; the chunk's folder is there.
    pub(super) fn begin_rotation(&mut self) {
        let chunk = self.hidden_chunk();
        fs::create_dir_all(&chunk).unwrap();
        let mut next_uuid = self.chunks.trace().uuid;
        next_uuid[15] += 1;
        self.chunks.rotation = Some(Rotation { chunk, next_uuid });
        self.ask_to_rotate();
    }

    /// As control asks again, when a consumer was killed.
    pub(super) fn ask_to_rotate(&mut self) {
        let rotation = self.chunks.rotation.clone().unwrap();
        self.messages.clear();
        self.session.rotate(ROTATE, rotation, &self.outbox);
    }

    /// Waits until nobody writes to the chunk any more, and puts it into its place. Returns what it has.
    pub(super) fn end_rotation(&mut self) -> ChannelTotals {
        let has = self.note_answer();
        self.place_chunk();
        has
    }

    /// Waits until nobody writes to the chunk any more; control notes the answer.
    pub(super) fn note_answer(&mut self) -> ChannelTotals {
        let before = self.chunks.archived.pop().unwrap_or_default();
        let archived = self.finish(ROTATE);
        self.chunks.archived.push(archived.clone());
        self.chunks.rotation = None;
        self.chunks.count += 1;
        archived.since(&before)
    }

    /// Puts the chunk into its place.
    pub(super) fn place_chunk(&self) {
        let count = self.chunks.count;
        fs::rename(self.output().join(format!("archives/.{count}")), self.chunk(count)).unwrap();
    }

    /// One rotation.
    pub(super) fn rotate(&mut self) -> ChannelTotals {
        self.begin_rotation();
        self.end_rotation()
    }

    /// Where the chunk is that ends next.
    pub(super) fn hidden_chunk(&self) -> PathBuf {
        self.output().join(format!("archives/.{}", self.chunks.count + 1))
    }

    /// A finished chunk.
    pub(super) fn chunk(&self, number: u8) -> PathBuf {
        self.output().join(format!("archives/{number}"))
    }

    fn begin_snapshot(&mut self, name: &str) {
        let output = self.folder.path().join(name);
        let output = Output {
            folder: output,
            owner: Person::default(),
        };
        self.session.snapshot(9, output, &self.outbox);
    }

    fn finish(&mut self, request: u64) -> ChannelTotals {
        for _ in 0..10_000 {
            self.work();
            if let Some(outcome) = self.answer(request) {
                let mut totals = outcome.unwrap();
                assert_eq!(totals.len(), 1, "one channel");
                return totals.remove(0);
            }
            self.pass(Duration::from_millis(1));
        }
        panic!("no answer within 10 s of the test's time");
    }

    pub(super) fn answer(&self, request: u64) -> Option<Result<Vec<ChannelTotals>, Failure>> {
        self.messages.iter().find_map(|message| match message {
            ToControl::Done {
                request: answered,
                outcome,
            } if *answered == request => Some(outcome.clone()),
            _ => None,
        })
    }

    pub(super) fn findings(&self) -> Vec<String> {
        let finding = |message: &'_ ToControl| match message {
            ToControl::Finding { what, .. } => Some(what.clone()),
            _ => None,
        };
        self.messages.iter().filter_map(finding).collect()
    }

    pub(super) fn output(&self) -> PathBuf {
        self.folder.path().join("trace")
    }

    /// What babeltrace2 makes of the trace.
    pub(super) fn read(&self) -> Read {
        read(&self.output())
    }

    fn describe(&mut self) {
        let stream = StreamClass {
            id: STREAM_ID,
            channel: "default".into(),
            contexts: vec![],
        };
        self.session.add_channel(stream, &self.geometry).unwrap();
        self.session.add_class(STREAM_ID, number_class()).unwrap();
    }
}

/// A trace as babeltrace2 reads it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Read {
    /// The numbers, in the order of time.
    pub(super) numbers: Vec<u64>,
    /// Sum of the discarded events that it warns of.
    pub(super) discarded: u64,
    /// Sum of the lost packets that it warns of.
    pub(super) lost_packets: u64,
}

/// Reads a trace of `test:number` events.
///
/// # Panics
/// When babeltrace2 is missing, or complains about anything but loss.
pub(super) fn read(output: &std::path::Path) -> Read {
    let run = Command::new("babeltrace2")
        .arg(output)
        .output()
        .expect("babeltrace2 is installed (Debian: babeltrace2)");
    let (events, complaints) = (
        String::from_utf8_lossy(&run.stdout),
        String::from_utf8_lossy(&run.stderr),
    );
    assert!(run.status.success(), "babeltrace2 failed: {complaints}");
    let mut read = Read::default();
    for complaint in complaints.lines().filter(|line| !line.is_empty()) {
        let count = |what: &str| {
            let words: Vec<_> = complaint.split(' ').collect();
            let place = words
                .windows(2)
                .position(|pair| pair[0] == "discarded" && pair[1].chars().all(char::is_numeric))?;
            words[place + 2]
                .starts_with(what)
                .then(|| words[place + 1].parse::<u64>().unwrap())
        };
        if let Some(events) = count("event") {
            read.discarded += events;
        } else if let Some(packets) = count("packet") {
            read.lost_packets += packets;
        } else {
            panic!("babeltrace2 complains: {complaint}");
        }
    }
    let number = |line: &str| {
        let (_, number) = line.split_once("number = ").expect("each event has a number");
        number.trim_end_matches([' ', '}']).parse().expect("it is a number")
    };
    read.numbers = events.lines().map(number).collect();
    read
}

pub(super) fn trace() -> Trace {
    let clock = Clock {
        name: "monotonic".into(),
        uuid: [1; 16],
        frequency_hz: 1_000_000_000,
        offset_seconds: 0,
        offset_ticks: 0,
        description: "Monotonic clock".into(),
    };
    Trace {
        uuid: [2; 16],
        clock,
        environment: vec![],
    }
}

pub(super) fn number_class() -> EventClass {
    let kind = FieldKind::Scalar {
        element: Element::Uint64,
        base: Base::Decimal,
    };
    EventClass {
        id: NUMBER,
        name: "test:number".into(),
        level: 13,
        contexts: vec![],
        fields: vec![Field {
            name: "number".into(),
            kind,
        }],
    }
}

fn producer(key: u32, inherited: bool) -> Producer {
    // No process has this id: the name of the program does not depend on the machine.
    let program = Program::new(ProcessIds {
        vpid: key as i32,
        pid: i32::MAX - key as i32,
        uid: 0,
    });
    let stream_instance_base = 100 * u64::from(key);
    Producer {
        key,
        stream_id: STREAM_ID,
        program,
        stream_instance_base,
        inherited,
    }
}

fn open(output: &Path, purpose: Purpose, chunks: &Chunks, outbox: &Outbox) -> Session {
    let opening = Opening {
        session: 1,
        output: output.into(),
        owner: Person::default(),
        purpose,
        trace: chunks.trace(),
        rotation: chunks.rotation.clone(),
        archived: chunks.archived.clone(),
    };
    Session::new(opening, outbox, Instant::now())
}
