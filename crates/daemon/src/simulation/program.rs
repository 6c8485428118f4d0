// SPDX-License-Identifier: MIT OR Apache-2.0
//! A traced program in a simulation: the messages of runtime/connection.c, the channels of runtime/channels.c, and a thread that records with
//! the tests' writer (consumer/tests/writer.rs). It obeys late, stops anywhere between reserving and committing a record, and dies anywhere.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem::offset_of;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use fastrand::Rng;
use piste_abi::piste_channel_header;
use piste_ctf::{Base, Element, Field, FieldKind};
use rustix::io::pread;

use super::filter;
use super::truth::Truth;
use crate::consumer::tests::writer::{Reserved, Writer};
use crate::description::{EventBlock, EventDescription};
use crate::link::{RingSetKey, SessionId};
use crate::message::{EnabledEvent, FromProgram, Hello, ToProgram};
use crate::session::ProgramId;

/// The events of the modules, which take turns: they are numbered from 1. All events have the fields `number` and `kind`, each a uint64.
const MODULES: [&[&str]; 2] = [&["shop:order", "shop:pay"], &["shop:ship", "till:open"]];
/// That a program has loaded at most.
const MODULES_MAX: usize = 3;

/// Rings of each ring set.
pub(super) const RING_COUNT: u32 = 2;

/// How far the states of sessions were that a program knows of: see contract.rs.
pub(super) type Versions = BTreeMap<SessionId, usize>;

/// A connection between a program and pisted: what is in its socket, and who has it open.
#[derive(Default)]
pub(super) struct Connection {
    pub(super) to_program: VecDeque<(ToProgram, Option<Arc<OwnedFd>>)>,
    pub(super) to_pisted: VecDeque<FromProgram>,
    pub(super) has_program: bool,
    pub(super) has_pisted: bool,
    /// What pisted knew when it took each SYNC that the program will be told of.
    pub(super) synced_at: VecDeque<Versions>,
}

pub(super) type Pipe = Rc<RefCell<Connection>>;

pub(super) struct Program {
    pub(super) id: ProgramId,
    pub(super) is_alive: bool,
    /// That it has loaded.
    modules: BTreeSet<u32>,
    /// The number of the last one.
    last_module: u32,
    /// The last one that it has told of on this connection.
    announced: u32,
    pub(super) pipe: Option<Pipe>,
    attached: BTreeMap<RingSetKey, Arc<OwnedFd>>,
    /// Those that it has left for others, and keeps for calls that have begun.
    leaving: BTreeMap<RingSetKey, Arc<OwnedFd>>,
    /// By module and index: how it is recorded in each ring set.
    enabled: BTreeMap<(u32, u32), BTreeMap<RingSetKey, Slot>>,
    /// Records of threads that were stopped in the middle.
    unfinished: Vec<Unfinished>,
    /// What it told of on this connection has taken effect, up to this module.
    synced: u32,
    /// The same on any connection.
    pub(super) known: u32,
    /// The states of sessions that it has confirmed.
    pub(super) seen: Versions,
}

/// How an event is recorded in a ring set.
#[derive(Clone)]
struct Slot {
    class: u32,
    filter: Option<Rc<[u8]>>,
}

struct Unfinished {
    key: RingSetKey,
    ring_index: u32,
    record: usize,
    reserved: Reserved,
}

/// An event that a program emits.
#[derive(Clone, Copy)]
pub(super) struct Emission {
    pub(super) module: u32,
    pub(super) index: u32,
    pub(super) ring_index: u32,
    pub(super) number: u64,
    pub(super) kind: u64,
    pub(super) ticks: u64,
    /// The thread stops before it commits.
    pub(super) stops: bool,
}

impl Program {
    pub(super) fn new(pid: i32) -> Program {
        Program {
            id: ProgramId {
                pid,
                instance_id: u64::from(pid.unsigned_abs()),
            },
            is_alive: true,
            modules: BTreeSet::from([1]),
            last_module: 1,
            announced: 0,
            pipe: None,
            attached: BTreeMap::new(),
            leaving: BTreeMap::new(),
            enabled: BTreeMap::new(),
            unfinished: Vec::new(),
            synced: 0,
            known: 0,
            seen: Versions::new(),
        }
    }

    /// Connects to pisted, and says all that it has. Returns the connection.
    pub(super) fn connect(&mut self) -> Pipe {
        let pipe = Pipe::default();
        (self.announced, self.synced) = (0, 0);
        {
            let mut connection = pipe.borrow_mut();
            (connection.has_program, connection.has_pisted) = (true, true);
            connection.to_pisted.push_back(FromProgram::Hello(Hello {
                instance_id: self.id.instance_id,
                vpid: self.id.pid,
                attached: self.attached.keys().copied().collect(),
                name: "shop".into(),
                path: "/usr/bin/shop".into(),
                record_id: None,
            }));
        }
        self.pipe = Some(pipe.clone());
        self.announce();
        pipe
    }

    /// Tells of the modules that pisted does not know of.
    pub(super) fn announce(&mut self) {
        let Some(pipe) = &self.pipe else { return };
        let new: Vec<u32> = self.modules.range(self.announced + 1..).copied().collect();
        let Some(&last) = new.last() else { return };
        let mut connection = pipe.borrow_mut();
        for module in new {
            let (block, bytes) = (block(module), 100);
            connection
                .to_pisted
                .push_back(FromProgram::Events { module, block, bytes });
        }
        self.announced = last;
        let token = last.into();
        connection.to_pisted.push_back(FromProgram::Sync { token });
    }

    /// Loads another module, unless there are too many.
    pub(super) fn load(&mut self) {
        if self.modules.len() < MODULES_MAX {
            self.last_module += 1;
            self.modules.insert(self.last_module);
        }
    }

    /// Unloads a module, unless it is the only one, and forgets what was enabled there.
    pub(super) fn unload(&mut self, dice: &mut Rng) {
        let module = self.a_module(dice);
        if self.modules.len() == 1 {
            return;
        }
        self.modules.remove(&module);
        self.enabled.retain(|(of, _), _| *of != module);
        if let Some(pipe) = self.pipe.as_ref().filter(|_| module <= self.announced) {
            let gone = FromProgram::ModuleGone { module };
            pipe.borrow_mut().to_pisted.push_back(gone);
        }
    }

    /// One of its modules.
    fn a_module(&self, dice: &mut Rng) -> u32 {
        let modules: Vec<u32> = self.modules.iter().copied().collect();
        *dice.choice(&modules).expect("it has one")
    }

    /// One of its events: the module, the number in it, and the name.
    pub(super) fn an_event(&self, dice: &mut Rng) -> (u32, u32, &'static str) {
        let module = self.a_module(dice);
        let events = events_of(module);
        let index = dice.usize(..events.len());
        (module, index as u32, events[index])
    }

    /// Takes one message, if there is one.
    pub(super) fn obey(&mut self) -> Option<ToProgram> {
        let pipe = self.pipe.clone()?;
        let next = pipe.borrow_mut().to_program.pop_front();
        let Some((message, memory)) = next else {
            if !pipe.borrow().has_pisted {
                pipe.borrow_mut().has_program = false;
                self.pipe = None;
            }
            return None;
        };
        match message.clone() {
            ToProgram::Channel { key, replaces } => {
                let memory = memory.expect("the memory comes with the message");
                self.attach(key, replaces, memory);
            }
            ToProgram::ChannelGone { key } => {
                for slots in self.enabled.values_mut() {
                    slots.remove(&key);
                }
                self.attached.remove(&key);
                self.leaving.remove(&key);
            }
            ToProgram::Enable { key, events } if self.attached.contains_key(&key) => {
                for event in events.into_iter().filter(|event| self.modules.contains(&event.module)) {
                    let slots = self.enabled.entry((event.module, event.index)).or_default();
                    let EnabledEvent { class, filter, .. } = event;
                    slots.insert(key, Slot { class, filter });
                }
            }
            ToProgram::Disable { key, events } => {
                for event in events {
                    let slots = self.enabled.entry((event.module, event.index)).or_default();
                    slots.remove(&key);
                }
            }
            ToProgram::Sync { token } => pipe.borrow_mut().to_pisted.push_back(FromProgram::Synced { token }),
            ToProgram::Synced { token } => {
                let versions = pipe.borrow_mut().synced_at.pop_front();
                let versions = versions.expect("it was noted when pisted took the SYNC");
                // What a pisted that is dead has given it may be lost by now.
                if pipe.borrow().has_pisted {
                    self.synced = token as u32;
                    self.known = self.known.max(self.synced);
                    self.seen.extend(versions);
                }
            }
            ToProgram::Enable { .. } | ToProgram::StateDump { .. } | ToProgram::Bell { .. } => {}
        }
        Some(message)
    }

    fn attach(&mut self, key: RingSetKey, replaces: Option<RingSetKey>, memory: Arc<OwnedFd>) {
        if self.attached.contains_key(&key) {
            return;
        }
        if let Some(old) = replaces
            && let Some(left) = self.attached.remove(&old)
        {
            for slots in self.enabled.values_mut() {
                if let Some(slot) = slots.remove(&old) {
                    slots.insert(key, slot);
                }
            }
            self.leaving.insert(old, left);
        }
        self.attached.insert(key, memory);
    }

    /// Emits an event. Returns the ring sets that have it, or count it as discarded.
    pub(super) fn emit(&mut self, emission: Emission, truth: &mut Truth) -> Vec<RingSetKey> {
        let Emission {
            ring_index,
            number,
            kind,
            ticks,
            ..
        } = emission;
        let fields = [number, kind].map(u64::to_ne_bytes).concat();
        let slots = self.enabled.get(&(emission.module, emission.index)).cloned();
        let mut taken = Vec::new();
        for (key, slot) in slots.unwrap_or_default() {
            let memory = &self.attached[&key];
            let is_filtered = slot.filter.is_some_and(|filter| !filter::passes(&filter, &fields));
            if active_key(memory) != key || is_filtered {
                continue;
            }
            taken.push(key);
            let writer = Writer::new(memory, ring_index);
            match writer.reserve(ticks, slot.class, &fields) {
                None => truth.discarded(key, ring_index),
                Some(reserved) => {
                    let record = truth.reserved(key, ring_index, number);
                    if emission.stops {
                        truth.stopped(key, ring_index, record);
                        self.unfinished.push(Unfinished {
                            key,
                            ring_index,
                            record,
                            reserved,
                        });
                    } else {
                        writer.commit(&reserved);
                        truth.committed(key, ring_index, record);
                    }
                }
            }
        }
        taken
    }

    /// A thread that was stopped goes on.
    pub(super) fn go_on(&mut self, truth: &mut Truth) {
        if self.unfinished.is_empty() {
            return;
        }
        let Unfinished {
            key,
            ring_index,
            record,
            reserved,
        } = self.unfinished.remove(0);
        // What is written to memory that was detached goes nowhere.
        if let Some(memory) = self.attached.get(&key).or_else(|| self.leaving.get(&key)) {
            Writer::new(memory, ring_index).commit(&reserved);
            truth.committed(key, ring_index, record);
        }
    }

    /// Dies, with whatever it was doing.
    pub(super) fn die(&mut self) {
        self.is_alive = false;
        self.unfinished.clear();
        self.attached.clear();
        self.leaving.clear();
        self.enabled.clear();
        if let Some(pipe) = self.pipe.take() {
            pipe.borrow_mut().has_program = false;
        }
    }

    /// Whether pisted has told it all that it knew when this program registered.
    pub(super) fn is_synced(&self) -> bool {
        self.synced > 0 && self.pipe.as_ref().is_some_and(|pipe| pipe.borrow().has_pisted)
    }

    /// The ring sets that it has.
    pub(super) fn describe(&self) -> String {
        let (attached, leaving) = (self.attached.keys(), self.leaving.keys());
        format!("{} has {attached:?}, leaving {leaving:?}", self.id.pid)
    }

    /// Whether it has memory of any session. What it has left it does not tell a new pisted of: if that does not know it either, because the
    /// memory was lost, the program keeps it until it leaves others.
    pub(super) fn has_memory(&self) -> bool {
        !self.attached.is_empty()
    }
}

/// The names of a module's events.
fn events_of(module: u32) -> &'static [&'static str] {
    MODULES[(module as usize - 1) % MODULES.len()]
}

/// The ring set that records, as the event path looks at it.
fn active_key(memory: &OwnedFd) -> RingSetKey {
    let mut bytes = [0; 4];
    let offset_bytes = offset_of!(piste_channel_header, active_key) as u64;
    pread(memory, &mut bytes, offset_bytes).expect("the memory has a header");
    RingSetKey::from_ne_bytes(bytes)
}

fn block(module: u32) -> Rc<EventBlock> {
    let field = |name: &str| Field {
        name: name.into(),
        kind: FieldKind::Scalar {
            element: Element::Uint64,
            base: Base::Decimal,
        },
    };
    let events = (0..).zip(events_of(module));
    let describe = |(index, name): (u32, &&str)| EventDescription {
        index,
        name: (*name).into(),
        level: 13,
        fields: vec![field("number"), field("kind")],
        nowrite: vec![],
    };
    Rc::new(EventBlock::from(events.map(describe).collect::<Vec<_>>()))
}
