// SPDX-License-Identifier: MIT OR Apache-2.0
//! What outlives a pisted: sessions, channels, rules, event classes, ring sets. A fold over [`Change`]s, which the journal
//! keeps; nothing here changes in any other way.
//!
//! The decisions that lead to changes are made in machine.rs.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;

use piste_ctf::{Contexts, EventClass, Field, FieldKind, Label, StreamClass, Trace};
use serde::{Deserialize, Serialize};

use super::rules::Rule;
use crate::link::{Geometry, RingSetKey, SessionId};

/// One step of the state. A line of the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the fields are those of the types below")]
pub enum Change {
    /// A session was created; it is the current one, unless it belongs to one recorded command.
    SessionCreated {
        session: SessionId,
        identity: SessionIdentity,
    },
    /// Commands that name no session mean this one.
    CurrentSet {
        session: SessionId,
    },
    ChannelAdded {
        session: SessionId,
        settings: ChannelSettings,
    },
    /// The channel's rules are these now.
    RulesSet {
        session: SessionId,
        channel: u32,
        rules: Vec<Rule>,
    },
    ClassAdded {
        session: SessionId,
        channel: u32,
        class: EventClass,
    },
    RingSetAdded {
        key: RingSetKey,
        ring_set: RingSet,
    },
    /// The program was given another ring set for the channel.
    RingSetRetired {
        key: RingSetKey,
    },
    RingSetEnded {
        key: RingSetKey,
    },
    Started {
        session: SessionId,
        at: Moment,
    },
    Stopped {
        session: SessionId,
        at: Moment,
    },
    SnapshotTaken {
        session: SessionId,
    },
    /// The session is being destroyed.
    Closing {
        session: SessionId,
        at: Moment,
    },
    SessionEnded {
        session: SessionId,
    },
    /// Stream instance ids before `next` are not used again in the session.
    StreamInstancesUsed {
        session: SessionId,
        next: u64,
    },
    /// These numbers and those before are not used again.
    NumbersUsed {
        last_session: SessionId,
        last_key: RingSetKey,
    },
}

/// When something happened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// Since 1970.
    pub wall_ns: u64,
    /// On a clock that never jumps, and counts while the machine sleeps.
    pub boot_ns: u64,
}

/// What a session is from its creation on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionIdentity {
    /// Unique among the sessions that exist.
    pub name: String,
    /// Folder of the trace, absolute.
    pub output: PathBuf,
    /// Rings overwrite, and are written when a snapshot is taken.
    pub snapshot: bool,
    /// Only programs that said this take part.
    pub record_id: Option<[u8; 16]>,
    /// What the trace says about itself.
    pub trace: Trace,
}

/// A channel's name and shape.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelSettings {
    /// Unique in the session.
    pub name: String,
    /// Of its rings.
    pub geometry: Geometry,
}

/// A tracing session.
#[derive(Debug)]
pub struct Session {
    /// What does not change.
    pub identity: SessionIdentity,
    /// Where it is in its life.
    pub state: SessionState,
    /// The index is the channel's number, and the id of its stream class.
    pub channels: Vec<Channel>,
    /// When it started first.
    pub first_start: Option<Moment>,
    /// Snapshots taken.
    pub snapshot_count: u64,
    started: Moment,
    recorded_ns: u64,
    next_stream_instance: u64,
}

/// Where a session is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionState {
    /// Never started.
    Inactive,
    /// Records.
    Active,
    /// Was started and stopped.
    Stopped,
    /// Being destroyed: the consumer writes what is left.
    Closing,
}

/// A channel of a session.
#[derive(Debug)]
pub struct Channel {
    /// Name and shape.
    pub settings: ChannelSettings,
    /// Which events it records.
    pub rules: Vec<Rule>,
    /// The index is the class's id.
    pub classes: Vec<EventClass>,
    /// What the classes take, roughly.
    pub class_bytes: usize,
    classes_by_name: HashMap<String, Vec<u32>>,
}

/// The rings of one program in one channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RingSet {
    /// The session.
    pub session: SessionId,
    /// The channel.
    pub channel: u32,
    /// Stream instance id of ring 0.
    pub stream_instance_base: u64,
    /// The program.
    pub program: ProgramId,
    /// When the process started, in ticks of /proc/PID/stat: tells it from a later one with the same number.
    pub program_start: u64,
    /// Process id in the program's own pid namespace.
    pub vpid: i32,
    /// Rings are indexed by CPU.
    pub indexed_by_cpu: bool,
    /// Where it is in its life.
    pub life: RingSetLife,
}

/// Where a ring set is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RingSetLife {
    /// The program has it, or is given it.
    Live,
    /// The program has another one; the consumer empties this one.
    Retired,
}

/// A process and its image: both change when a program forks; the second when it runs another executable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProgramId {
    /// Process id, from the kernel.
    pub pid: i32,
    /// Drawn by the program.
    pub instance_id: u64,
}

/// Everything that outlives a pisted.
#[derive(Debug, Default)]
pub struct Sessions {
    sessions: BTreeMap<SessionId, Session>,
    ring_sets: BTreeMap<RingSetKey, RingSet>,
    by_program: BTreeSet<(ProgramId, RingSetKey)>,
    current: Option<SessionId>,
    last_session: SessionId,
    last_key: RingSetKey,
}

impl Sessions {
    /// Takes a step.
    ///
    /// # Errors
    /// A sentence, when the step does not fit the state: a journal that was tampered with. The state is as before then.
    pub fn apply(&mut self, change: Change) -> Result<(), String> {
        match change {
            Change::SessionCreated { session, identity } => {
                self.last_session = self.last_session.max(session);
                if identity.record_id.is_none() {
                    self.current = Some(session);
                }
                self.sessions.insert(session, Session::new(identity));
            }
            Change::CurrentSet { session } => {
                self.find(session)?;
                self.current = Some(session);
            }
            Change::ChannelAdded { session, settings } => self.find(session)?.channels.push(Channel::new(settings)),
            Change::RulesSet {
                session,
                channel,
                rules,
            } => self.find(session)?.find(channel)?.rules = rules,
            Change::ClassAdded {
                session,
                channel,
                class,
            } => self.find(session)?.find(channel)?.add(class)?,
            Change::RingSetAdded { key, ring_set } => {
                let session = self.find(ring_set.session)?;
                let ring_count = session.find(ring_set.channel)?.settings.geometry.ring_count;
                session.next_stream_instance = ring_set.stream_instance_base + u64::from(ring_count);
                self.last_key = self.last_key.max(key);
                self.by_program.insert((ring_set.program, key));
                self.ring_sets.insert(key, ring_set);
            }
            Change::RingSetRetired { key } => {
                self.ring_sets.get_mut(&key).ok_or_else(|| no_ring_set(key))?.life = RingSetLife::Retired;
            }
            Change::RingSetEnded { key } => {
                let ring_set = self.ring_sets.remove(&key).ok_or_else(|| no_ring_set(key))?;
                self.by_program.remove(&(ring_set.program, key));
            }
            Change::Started { session, at } => self.find(session)?.start(at),
            Change::Stopped { session, at } => self.find(session)?.stop(at),
            Change::SnapshotTaken { session } => self.find(session)?.snapshot_count += 1,
            Change::Closing { session, at } => {
                let closing = self.find(session)?;
                closing.stop(at);
                closing.state = SessionState::Closing;
                if self.current == Some(session) {
                    self.current = self.newest_shared();
                }
            }
            Change::StreamInstancesUsed { session, next } => self.find(session)?.next_stream_instance = next,
            Change::NumbersUsed { last_session, last_key } => {
                self.last_session = self.last_session.max(last_session);
                self.last_key = self.last_key.max(last_key);
            }
            Change::SessionEnded { session } => {
                self.sessions.remove(&session).ok_or_else(|| no_session(session))?;
                let by_program = &mut self.by_program;
                self.ring_sets.retain(|&key, ring_set| {
                    let keep = ring_set.session != session;
                    if !keep {
                        by_program.remove(&(ring_set.program, key));
                    }
                    keep
                });
            }
        }
        Ok(())
    }

    fn find(&mut self, session: SessionId) -> Result<&mut Session, String> {
        self.sessions.get_mut(&session).ok_or_else(|| no_session(session))
    }

    /// The session that was created last, of those that do not belong to one recorded command.
    fn newest_shared(&self) -> Option<SessionId> {
        let mut newest_first = self.sessions.iter().rev();
        let is_shared =
            |session: &Session| session.identity.record_id.is_none() && session.state != SessionState::Closing;
        newest_first.find(|(_, session)| is_shared(session)).map(|(&id, _)| id)
    }

    /// All sessions, in the order of their creation, those that are being destroyed too.
    pub fn iter(&self) -> impl Iterator<Item = (SessionId, &Session)> {
        self.sessions.iter().map(|(&id, session)| (id, session))
    }

    /// A session.
    pub fn get(&self, session: SessionId) -> Option<&Session> {
        self.sessions.get(&session)
    }

    /// The session that commands without a name mean.
    pub fn current(&self) -> Option<SessionId> {
        self.current
    }

    /// The number of the next session.
    pub fn next_session(&self) -> SessionId {
        self.last_session + 1
    }

    /// The key of the next ring set; `None` when there are no more: four billion were made since no session existed.
    pub fn next_key(&self) -> Option<RingSetKey> {
        self.last_key.checked_add(1)
    }

    /// A ring set.
    pub fn ring_set(&self, key: RingSetKey) -> Option<&RingSet> {
        self.ring_sets.get(&key)
    }

    /// All ring sets, in the order of their keys.
    pub fn ring_sets(&self) -> impl Iterator<Item = (RingSetKey, &RingSet)> {
        self.ring_sets.iter().map(|(&key, ring_set)| (key, ring_set))
    }

    /// The ring sets that a program has, those it has no longer not counted.
    pub fn ring_sets_of(&self, program: ProgramId) -> impl Iterator<Item = (RingSetKey, &RingSet)> {
        self.by_program
            .range((program, 0)..=(program, RingSetKey::MAX))
            .map(|&(_, key)| (key, &self.ring_sets[&key]))
            .filter(|(_, ring_set)| ring_set.life == RingSetLife::Live)
    }

    /// The shortest way from nothing to this state. Replayed, it leads to the same answers as all changes so far.
    pub fn summary(&self) -> Vec<Change> {
        let (last_session, last_key) = (self.last_session, self.last_key);
        let mut changes = vec![Change::NumbersUsed { last_session, last_key }];
        for (&session, state) in &self.sessions {
            state.summarize(session, &mut changes);
        }
        changes.extend(self.current.map(|session| Change::CurrentSet { session }));
        for (&key, ring_set) in &self.ring_sets {
            let ring_set = ring_set.clone();
            changes.push(Change::RingSetAdded { key, ring_set });
        }
        // After the ring sets, which count from the lowest number up.
        for (&session, state) in &self.sessions {
            let next = state.next_stream_instance;
            changes.push(Change::StreamInstancesUsed { session, next });
        }
        changes
    }
}

fn no_session(session: SessionId) -> String {
    format!("there is no session of number {session}")
}

fn no_ring_set(key: RingSetKey) -> String {
    format!("there is no ring set of key {key}")
}

impl Session {
    fn new(identity: SessionIdentity) -> Session {
        Session {
            identity,
            state: SessionState::Inactive,
            channels: Vec::new(),
            first_start: None,
            snapshot_count: 0,
            started: Moment::default(),
            recorded_ns: 0,
            next_stream_instance: 0,
        }
    }

    fn find(&mut self, channel: u32) -> Result<&mut Channel, String> {
        self.channels
            .get_mut(channel as usize)
            .ok_or_else(|| format!("there is no channel of number {channel}"))
    }

    fn start(&mut self, at: Moment) {
        self.first_start.get_or_insert(at);
        self.started = at;
        self.state = SessionState::Active;
    }

    fn stop(&mut self, at: Moment) {
        if self.state == SessionState::Active {
            self.recorded_ns += at.boot_ns.saturating_sub(self.started.boot_ns);
            self.state = SessionState::Stopped;
        }
    }

    /// Time spent active until now.
    pub fn recorded_ns(&self, now: Moment) -> u64 {
        match self.state {
            SessionState::Active => self.recorded_ns + now.boot_ns.saturating_sub(self.started.boot_ns),
            _ => self.recorded_ns,
        }
    }

    /// Stream instance id of the next ring set's ring 0.
    pub fn next_stream_instance(&self) -> u64 {
        self.next_stream_instance
    }

    fn summarize(&self, session: SessionId, changes: &mut Vec<Change>) {
        let identity = self.identity.clone();
        changes.push(Change::SessionCreated { session, identity });
        for (channel, state) in (0..).zip(&self.channels) {
            let (settings, rules) = (state.settings.clone(), state.rules.clone());
            changes.push(Change::ChannelAdded { session, settings });
            changes.push(Change::RulesSet {
                session,
                channel,
                rules,
            });
            let classes = state.classes.iter().cloned();
            changes.extend(classes.map(|class| Change::ClassAdded {
                session,
                channel,
                class,
            }));
        }
        if let Some(first_start) = self.first_start {
            // One stop stands for all those before.
            let boot_ns = first_start.boot_ns + self.recorded_ns;
            let at = Moment { boot_ns, ..first_start };
            changes.push(Change::Started {
                session,
                at: first_start,
            });
            changes.push(Change::Stopped { session, at });
        }
        changes.extend((0..self.snapshot_count).map(|_| Change::SnapshotTaken { session }));
        match self.state {
            SessionState::Active => changes.push(Change::Started {
                session,
                at: self.started,
            }),
            SessionState::Closing => changes.push(Change::Closing {
                session,
                at: self.started,
            }),
            SessionState::Inactive | SessionState::Stopped => {}
        }
    }
}

impl Channel {
    fn new(settings: ChannelSettings) -> Channel {
        Channel {
            settings,
            rules: Vec::new(),
            classes: Vec::new(),
            class_bytes: 0,
            classes_by_name: HashMap::new(),
        }
    }

    /// What the trace says about the channel's streams.
    pub fn stream_class(&self, id: u32) -> StreamClass {
        let Geometry {
            context_vtid: vtid,
            context_cpu_id: cpu_id,
            ..
        } = self.settings.geometry;
        StreamClass {
            id,
            channel: self.settings.name.clone(),
            contexts: Contexts { vtid, cpu_id },
        }
    }

    /// Whether an enabled rule wants an event.
    pub fn wants(&self, name: &str, level: u8) -> bool {
        self.rules.iter().any(|rule| rule.matches(name, level))
    }

    /// Whether an enabled rule wants events of a name, of some level.
    pub fn names(&self, name: &str) -> bool {
        self.rules.iter().any(|rule| rule.names(name))
    }

    /// The class of an event, by name and fields: two programs that agree on both have the same.
    pub fn class_of(&self, name: &str, fields: &[Field]) -> Option<u32> {
        let ids = self.classes_by_name.get(name)?;
        ids.iter()
            .copied()
            .find(|&id| self.classes[id as usize].fields == fields)
    }

    fn add(&mut self, class: EventClass) -> Result<(), String> {
        if class.id as usize != self.classes.len() {
            return Err(format!(
                "event class {} follows {} others",
                class.id,
                self.classes.len()
            ));
        }
        self.class_bytes += bytes_of(&class);
        self.classes_by_name
            .entry(class.name.clone())
            .or_default()
            .push(class.id);
        self.classes.push(class);
        Ok(())
    }
}

/// What a class takes, roughly.
fn bytes_of(class: &EventClass) -> usize {
    let labels = |field: &Field| match &field.kind {
        FieldKind::Enum { labels } => labels.iter().map(|label| size_of::<Label>() + label.name.len()).sum(),
        _ => 0,
    };
    let fields = class
        .fields
        .iter()
        .map(|field| size_of::<Field>() + field.name.len() + labels(field));
    size_of::<EventClass>() + class.name.len() + fields.sum::<usize>()
}
