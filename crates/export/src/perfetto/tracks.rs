// SPDX-License-Identifier: MIT OR Apache-2.0
//! Slices and instants on tracks of threads, as Perfetto's track events. Tracks are described, and names are given numbers, in the packet
//! that needs them first.

use std::collections::HashMap;

use piste_analysis::spans::Stacks;
use piste_trace::phases::{Phase, Phases};

use crate::fields::{Child, Fields, NameId, Names, Value};
use crate::protobuf::Message;
use crate::reader::Seen;

/// What a track is of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Track {
    Process(i64),
    Thread(i64, i64),
    /// Events of which nobody knows the thread.
    Stream(usize),
}

/// TrackEvent.Type
#[derive(Clone, Copy)]
enum Kind {
    Begin = 1,
    End = 2,
    Instant = 3,
}

/// Writes track events.
pub(super) struct Tracks<'t> {
    phases: Phases<'t>,
    stacks: Stacks<u64, ()>,
    tracks: HashMap<Track, u64>,
    event_names: HashMap<String, u64>,
    categories: HashMap<String, u64>,
    /// By the number of a name: it was said.
    annotations: Vec<bool>,
    /// What the next packet has to say of names.
    interned: Message,
    /// Fields of packets, the last of which is the event.
    packets: Vec<Message>,
}

impl<'t> Tracks<'t> {
    pub(super) fn new(phases: Phases<'t>) -> Tracks<'t> {
        Tracks {
            phases,
            stacks: Stacks::default(),
            tracks: HashMap::new(),
            event_names: HashMap::new(),
            categories: HashMap::new(),
            annotations: Vec::new(),
            interned: Message::default(),
            packets: Vec::new(),
        }
    }

    /// The packets that an event takes, without what all packets of their sequence have.
    pub(super) fn event(&mut self, event: &Seen<'_>, timestamp: u64) -> std::vec::Drain<'_, Message> {
        let track = self.track(event);
        let (provider, _) = event.class.name.split_once(':').unwrap_or(("", ""));
        let category = match (event.is_kernel, provider) {
            (true, _) if event.class.name.starts_with("syscall_") => "syscall",
            (true, _) => "kernel",
            (false, "") => "event",
            (false, provider) => provider,
        };
        match self.phases.of(event.class).clone() {
            Phase::Begin(name) => {
                let function = event.function(&name);
                let shown = function.as_deref().unwrap_or(&name);
                self.packet(Kind::Begin, track, timestamp, Some((shown, category)), Some(event));
                self.stacks.begin(track, &name, ());
            }
            Phase::End(name) => {
                let count = self.stacks.end(track, &name).len();
                match count {
                    // What began before the trace.
                    0 => self.instant(track, timestamp, category, event),
                    count => {
                        for _ in 1..count {
                            self.packet(Kind::End, track, timestamp, None, None);
                        }
                        self.packet(Kind::End, track, timestamp, None, Some(event));
                    }
                }
            }
            Phase::Instant => self.instant(track, timestamp, category, event),
        }
        self.packets.drain(..)
    }

    fn instant(&mut self, track: u64, timestamp: u64, category: &str, event: &Seen<'_>) {
        let names = (&*event.class.name, category);
        self.packet(Kind::Instant, track, timestamp, Some(names), Some(event));
    }

    fn packet(
        &mut self,
        kind: Kind,
        track: u64,
        timestamp: u64,
        names: Option<(&str, &str)>,
        event: Option<&Seen<'_>>,
    ) {
        let mut packet = Message::default();
        packet.number(8, timestamp);
        let interned = &mut self.interned;
        let names = names.map(|(name, category)| {
            let name = number(&mut self.event_names, name, 2, interned);
            (name, number(&mut self.categories, category, 1, interned))
        });
        let known = &mut self.annotations;
        packet.message(11, |message| {
            message.number(9, kind as u64);
            message.number(11, track);
            if let Some((name, category)) = names {
                message.number(10, name);
                message.number(3, category);
            }
            let Some(event) = event else { return };
            let mut annotations = Annotations {
                names: event.names,
                known,
                interned,
            };
            for child in event.payload.top() {
                annotations.write(message, 4, &child, event.payload);
            }
            if !event.contexts.is_empty() {
                annotations.contexts(message, event);
            }
        });
        if !self.interned.is_empty() {
            packet.message_of(12, &self.interned);
            self.interned.clear();
        }
        self.packets.push(packet);
    }

    /// The uuid of an event's track, which is described before it is used.
    fn track(&mut self, event: &Seen<'_>) -> u64 {
        let Some(tid) = event.who.tid else {
            let (track, is_new) = self.uuid(Track::Stream(event.stream));
            if is_new {
                self.describe(track, |descriptor| descriptor.text(2, event.stream_name.as_bytes()));
            }
            return track;
        };
        // A thread of which the process is unknown is shown as one of its own.
        let pid = event.who.pid.unwrap_or(tid);
        let comm = event.who.comm;
        let (process, is_new) = self.uuid(Track::Process(pid));
        if is_new {
            self.describe(process, |descriptor| {
                descriptor.message(3, |process| {
                    process.signed(1, pid);
                    if let Some(comm) = comm {
                        process.text(6, comm.as_bytes());
                    }
                });
            });
        }
        let (thread, is_new) = self.uuid(Track::Thread(pid, tid));
        if is_new {
            self.describe(thread, |descriptor| {
                descriptor.number(5, process);
                descriptor.message(4, |thread| {
                    thread.signed(1, pid);
                    thread.signed(2, tid);
                    if let Some(comm) = comm {
                        thread.text(5, comm.as_bytes());
                    }
                });
            });
        }
        thread
    }

    fn uuid(&mut self, track: Track) -> (u64, bool) {
        // 0 is the track of the whole trace.
        let next = self.tracks.len() as u64 + 1;
        let uuid = *self.tracks.entry(track).or_insert(next);
        (uuid, uuid == next)
    }

    fn describe(&mut self, uuid: u64, describe: impl FnOnce(&mut Message)) {
        let mut packet = Message::default();
        packet.message(60, |descriptor| {
            descriptor.number(1, uuid);
            describe(descriptor);
        });
        self.packets.push(packet);
    }
}

/// The number of a name; a new one is said in the field of InternedData.
fn number(known: &mut HashMap<String, u64>, name: &str, field: u32, interned: &mut Message) -> u64 {
    if let Some(number) = known.get(name) {
        return *number;
    }
    let number = known.len() as u64 + 1;
    known.insert(name.to_owned(), number);
    interned.message(field, |entry| {
        entry.number(1, number);
        entry.text(2, name.as_bytes());
    });
    number
}

/// Writes values as debug annotations.
struct Annotations<'a> {
    names: &'a Names,
    known: &'a mut Vec<bool>,
    interned: &'a mut Message,
}

impl Annotations<'_> {
    fn write(&mut self, out: &mut Message, field: u32, child: &Child<'_>, fields: &Fields) {
        if let Some(name) = child.name
            && self.is_new(name)
        {
            let text = self.names.text(name);
            self.interned.message(3, |entry| {
                entry.number(1, u64::from(name.0) + 1);
                entry.text(2, text.as_bytes());
            });
        }
        out.message(field, |annotation| {
            if let Some(name) = child.name {
                annotation.number(1, u64::from(name.0) + 1);
            }
            match child.value {
                Value::Unsigned(value) => annotation.number(3, value),
                Value::Signed(value) => annotation.signed(4, value),
                Value::Boolean(value) => annotation.number(2, value.into()),
                Value::Float(value) => annotation.double(5, value),
                Value::Text(begin, end) | Value::Address(_, begin, end) => annotation.text(6, fields.bytes(begin, end)),
                Value::Structure(_) => {
                    for inner in child.children() {
                        self.write(annotation, 11, &inner, fields);
                    }
                }
                Value::Array(_) => {
                    for inner in child.children() {
                        self.write(annotation, 12, &inner, fields);
                    }
                }
                Value::Nothing => annotation.text(6, b""),
            }
        });
    }

    fn is_new(&mut self, name: NameId) -> bool {
        let index = name.0 as usize;
        if self.known.len() <= index {
            self.known.resize(index + 1, false);
        }
        !std::mem::replace(&mut self.known[index], true)
    }

    /// All of them in one annotation, so that they are not mistaken for fields.
    fn contexts(&mut self, out: &mut Message, event: &Seen<'_>) {
        out.message(4, |annotation| {
            annotation.text(10, b"context");
            for inner in event.contexts.top() {
                self.write(annotation, 11, &inner, event.contexts);
            }
        });
    }
}
