// SPDX-License-Identifier: MIT OR Apache-2.0
//! What outlives a pisted: sessions, channels, rules, event classes, ring sets. A fold over [`Change`]s, which the journal
//! keeps; nothing here changes in any other way.
//!
//! The decisions that lead to changes are made in machine.rs.

use std::collections::{BTreeMap, BTreeSet};

use piste_ctf::EventClass;
use piste_kernel::spec::{self, ChannelSpec};
use serde::{Deserialize, Serialize};

use super::channel::{Channel, ChannelSettings};
use super::choice::Choice;
use super::process::Process;
use super::rotation::Chunks;
use super::rules::Rule;
use super::tracing_session::{Moment, Session, SessionIdentity, SessionState};
use super::triggers::Deeds;
use crate::contexts::Contexts;
use crate::link::{Domain, RingSetKey, SessionId};
use crate::person::Person;
use crate::shares::Holdings;

/// One step of the state. A line of the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the fields are those of the types below")]
pub enum Change {
    /// A session was created; it is the current one, unless it belongs to one recording.
    SessionCreated {
        session: SessionId,
        identity: SessionIdentity,
    },
    /// Commands of a user that name no session mean this one; `None` is the user who runs pisted.
    CurrentSet {
        session: SessionId,
        #[serde(default)]
        user: Option<u32>,
    },
    ChannelAdded {
        session: SessionId,
        settings: ChannelSettings,
    },
    /// The records of a channel that programs have not recorded into carry these.
    ContextsSet {
        session: SessionId,
        channel: u32,
        contexts: Contexts,
    },
    /// Another channel, of the same name, takes the place of one, with its rules.
    ChannelReplaced {
        session: SessionId,
        channel: u32,
        by: u32,
    },
    /// The memory of as many ring sets of the channel was lost with what programs had recorded there.
    RingSetsLost {
        session: SessionId,
        channel: u32,
        count: u64,
    },
    /// So many programs more are not recorded, or not all that they did, and nobody counts their events.
    ProgramsNotRecorded {
        session: SessionId,
        count: u64,
    },
    /// The channel's rules are these now.
    RulesSet {
        session: SessionId,
        channel: u32,
        rules: Vec<Rule>,
    },
    /// A channel of a domain is enabled, or disabled, now. New channels are enabled.
    EnabledSet {
        session: SessionId,
        domain: Domain,
        channel: u32,
        enabled: bool,
    },
    ClassAdded {
        session: SessionId,
        channel: u32,
        class: EventClass,
        /// Whose program brought it.
        #[serde(default)]
        user: u32,
    },
    /// Its `stream_id` is the number of the session's kernel channels before.
    KernelChannelAdded {
        session: SessionId,
        channel: ChannelSpec,
    },
    /// The kernel channel's rules are these now.
    KernelRulesSet {
        session: SessionId,
        channel: u32,
        rules: Vec<spec::Rule>,
    },
    KernelContextsAdded {
        session: SessionId,
        channel: u32,
        contexts: Vec<spec::Context>,
    },
    /// The session's channels of a domain are about these programs, or threads and CPUs, now.
    TrackedSet {
        session: SessionId,
        domain: Domain,
        tracked: Choice,
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
    /// The trigger that the session is for has done so much.
    TriggerActed {
        session: SessionId,
        deeds: Deeds,
    },
    /// The session's chunks are as this says now.
    ChunksSet {
        session: SessionId,
        chunks: Chunks,
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
    /// The program's user, from the kernel.
    #[serde(default)]
    pub user: u32,
    /// The processes that the program descends from. They are kept here, because a program that executes another one, and a pisted that is
    /// replaced, cannot look for those that have ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ancestors: Vec<Process>,
    /// Process id in the program's own pid namespace.
    pub vpid: i32,
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
    /// Ring sets, by the user of their programs.
    holdings: Holdings,
    /// Of each user.
    current: BTreeMap<Option<u32>, SessionId>,
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
                if identity.is_shared() {
                    self.current.insert(identity.owner.uid(), session);
                }
                self.sessions.insert(session, Session::new(identity));
            }
            Change::CurrentSet { session, user } => {
                self.find(session)?;
                self.current.insert(user, session);
            }
            Change::ChannelAdded { session, settings } => self.find(session)?.channels.push(Channel::new(settings)),
            Change::ContextsSet {
                session,
                channel,
                contexts,
            } => self.find(session)?.find(channel)?.settings.contexts = contexts,
            Change::ChannelReplaced { session, channel, by } => self.find(session)?.replace_channel(channel, by)?,
            Change::ProgramsNotRecorded { session, count } => self.find(session)?.programs_not_recorded += count,
            Change::RulesSet {
                session,
                channel,
                rules,
            } => self.find(session)?.find(channel)?.rules = rules,
            Change::EnabledSet {
                session,
                domain,
                channel,
                enabled,
            } => self.find(session)?.set_enabled(domain, channel, enabled)?,
            Change::RingSetsLost {
                session,
                channel,
                count,
            } => self.find(session)?.find(channel)?.lost_ring_set_count += count,
            Change::ClassAdded {
                session,
                channel,
                class,
                user,
            } => self.find(session)?.find(channel)?.add(class, user)?,
            Change::KernelChannelAdded { session, channel } => self.find(session)?.kernel.add(channel)?,
            Change::KernelRulesSet {
                session,
                channel,
                rules,
            } => self.find(session)?.kernel.find(channel)?.rules = rules,
            Change::KernelContextsAdded {
                session,
                channel,
                contexts,
            } => self
                .find(session)?
                .kernel
                .find(channel)?
                .added_contexts
                .extend(contexts),
            Change::TrackedSet {
                session,
                domain,
                tracked,
            } => self.find(session)?.set_tracked(domain, tracked),
            Change::RingSetAdded { key, ring_set } => {
                let session = self.find(ring_set.session)?;
                let ring_count = session.find(ring_set.channel)?.settings.geometry.ring_count;
                session.next_stream_instance = ring_set.stream_instance_base + u64::from(ring_count);
                self.last_key = self.last_key.max(key);
                self.by_program.insert((ring_set.program, key));
                self.holdings.add(ring_set.user, 1);
                self.ring_sets.insert(key, ring_set);
            }
            Change::RingSetRetired { key } => {
                self.ring_sets.get_mut(&key).ok_or_else(|| no_ring_set(key))?.life = RingSetLife::Retired;
            }
            Change::RingSetEnded { key } => {
                let ring_set = self.ring_sets.remove(&key).ok_or_else(|| no_ring_set(key))?;
                self.by_program.remove(&(ring_set.program, key));
                self.holdings.remove(ring_set.user, 1);
            }
            Change::Started { session, at } => self.find(session)?.start(at),
            Change::Stopped { session, at } => self.find(session)?.stop(at),
            Change::SnapshotTaken { session } => self.find(session)?.snapshot_count += 1,
            Change::TriggerActed { session, deeds } => self.find(session)?.deeds = deeds,
            Change::ChunksSet { session, chunks } => self.find(session)?.chunks = chunks,
            Change::Closing { session, at } => {
                let closing = self.find(session)?;
                closing.stop(at);
                closing.state = SessionState::Closing;
                self.leave_current(session);
            }
            Change::StreamInstancesUsed { session, next } => self.find(session)?.next_stream_instance = next,
            Change::NumbersUsed { last_session, last_key } => {
                self.last_session = self.last_session.max(last_session);
                self.last_key = self.last_key.max(last_key);
            }
            Change::SessionEnded { session } => {
                self.sessions.remove(&session).ok_or_else(|| no_session(session))?;
                let (by_program, holdings) = (&mut self.by_program, &mut self.holdings);
                self.ring_sets.retain(|&key, ring_set| {
                    let keep = ring_set.session != session;
                    if !keep {
                        by_program.remove(&(ring_set.program, key));
                        holdings.remove(ring_set.user, 1);
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

    /// Whose current session this is, get another one of theirs.
    fn leave_current(&mut self, gone: SessionId) {
        let left = self.current.iter().filter(|&(_, &session)| session == gone);
        let users: Vec<Option<u32>> = left.map(|(&user, _)| user).collect();
        for user in users {
            match self.newest_shared(user) {
                Some(session) => self.current.insert(user, session),
                None => self.current.remove(&user),
            };
        }
    }

    /// The session that a user created last, of those that do not belong to one recorded command.
    fn newest_shared(&self, user: Option<u32>) -> Option<SessionId> {
        let mut newest_first = self.sessions.iter().rev();
        let is_shared = |session: &Session| session.identity.is_shared() && session.state != SessionState::Closing;
        newest_first
            .find(|(_, session)| is_shared(session) && session.identity.owner.uid() == user)
            .map(|(&id, _)| id)
    }

    /// All sessions, in the order of their creation, those that are being destroyed too.
    pub fn iter(&self) -> impl Iterator<Item = (SessionId, &Session)> {
        self.sessions.iter().map(|(&id, session)| (id, session))
    }

    /// A session.
    pub fn get(&self, session: SessionId) -> Option<&Session> {
        self.sessions.get(&session)
    }

    /// The session that somebody's commands without a name mean.
    pub fn current(&self, by: &Person) -> Option<SessionId> {
        self.current.get(&by.uid()).copied()
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

    /// How many ring sets the programs of each user have.
    pub fn holdings(&self) -> &Holdings {
        &self.holdings
    }

    /// The ring sets of a process, whatever image it had.
    pub fn ring_sets_of_process(&self, pid: i32) -> impl Iterator<Item = (RingSetKey, &RingSet)> {
        let image = |instance_id| ProgramId { pid, instance_id };
        self.by_program
            .range((image(0), 0)..=(image(u64::MAX), RingSetKey::MAX))
            .map(|&(_, key)| (key, &self.ring_sets[&key]))
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
        let current = self.current.iter();
        changes.extend(current.map(|(&user, &session)| Change::CurrentSet { session, user }));
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
