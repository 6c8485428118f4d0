// SPDX-License-Identifier: MIT OR Apache-2.0
//! One tracing session and its life.

use std::path::PathBuf;

use piste_ctf::Trace;
use serde::{Deserialize, Serialize};

use super::channel::Channel;
use super::choice::Choice;
use super::kernel::KernelDomain;
use super::process::Process;
use super::rotation::Chunks;
use super::sessions::Change;
use super::triggers::{Deeds, Trigger};
use crate::link::{Domain, Purpose, SessionId};
use crate::person::Person;

/// A tracing session.
#[derive(Debug)]
pub struct Session {
    /// What does not change.
    pub identity: SessionIdentity,
    /// Where it is in its life.
    pub state: SessionState,
    /// The index is the channel's number, and the id of its stream class.
    pub channels: Vec<Channel>,
    /// The programs that its channels are about.
    pub tracked: Choice,
    /// Its kernel channels, and what they are about.
    pub kernel: KernelDomain,
    /// When it started first.
    pub first_start: Option<Moment>,
    /// Of a trigger: what it has done.
    pub deeds: Deeds,
    /// Snapshots taken.
    pub snapshot_count: u64,
    /// Programs whose events are missing, nobody knows how many.
    pub programs_not_recorded: u64,
    /// What became of its rotations.
    pub chunks: Chunks,
    started: Moment,
    recorded_ns: u64,
    pub(super) next_stream_instance: u64,
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
    /// Whose the trace is.
    #[serde(default)]
    pub owner: Person,
    /// Rings overwrite, and are written when a snapshot is taken.
    pub snapshot: bool,
    /// Only programs that said this take part.
    pub record_id: Option<[u8; 16]>,
    /// It does not become the current session by itself; neither does one with a record id.
    #[serde(default)]
    pub never_current: bool,
    /// It ends with this process.
    #[serde(default)]
    pub bound_to: Option<Process>,
    /// It is there for this trigger only: people cannot name it, and it has no trace.
    #[serde(default)]
    pub trigger: Option<Box<Trigger>>,
    /// What the trace says about itself.
    pub trace: Trace,
}

impl SessionIdentity {
    /// Whether it may become the current session without anybody saying so.
    pub(super) fn is_shared(&self) -> bool {
        self.record_id.is_none() && !self.never_current
    }

    /// What becomes of its events.
    pub(super) fn purpose(&self) -> Purpose {
        match (&self.trigger, self.snapshot) {
            (Some(trigger), _) => Purpose::Trigger {
                per_second: trigger.per_second,
                lapse: trigger.lapse.clone(),
            },
            (None, true) => Purpose::Snapshots,
            (None, false) => Purpose::Trace,
        }
    }
}

impl Session {
    pub(super) fn new(identity: SessionIdentity) -> Session {
        Session {
            identity,
            state: SessionState::Inactive,
            channels: Vec::new(),
            tracked: Choice::default(),
            kernel: KernelDomain::default(),
            first_start: None,
            deeds: Deeds::default(),
            snapshot_count: 0,
            programs_not_recorded: 0,
            chunks: Chunks::default(),
            started: Moment::default(),
            recorded_ns: 0,
            next_stream_instance: 0,
        }
    }

    pub(super) fn find(&mut self, channel: u32) -> Result<&mut Channel, String> {
        self.channels
            .get_mut(channel as usize)
            .ok_or_else(|| format!("there is no channel of number {channel}"))
    }

    pub(super) fn replace_channel(&mut self, channel: u32, by: u32) -> Result<(), String> {
        if by <= channel || by as usize >= self.channels.len() {
            return Err(format!("channel {by} cannot take the place of channel {channel}"));
        }
        let replaced = self.find(channel)?;
        replaced.replaced_by = Some(by);
        replaced.rules.clear();
        Ok(())
    }

    /// The channel that has the place of one now: itself, unless it was replaced.
    pub fn latest(&self, channel: u32) -> u32 {
        let next = |channel: &u32| self.channels.get(*channel as usize)?.replaced_by;
        std::iter::successors(Some(channel), next).last().unwrap_or(channel)
    }

    /// The channels that were not replaced, with their numbers.
    pub fn current_channels(&self) -> impl Iterator<Item = (u32, &Channel)> {
        let all = (0..).zip(&self.channels);
        all.filter(|(_, channel)| channel.replaced_by.is_none())
    }

    /// Whether some rule of an enabled channel is enabled.
    pub(super) fn has_enabled_rule(&self) -> bool {
        let mut of_programs = self.channels.iter().flat_map(Channel::effective_rules);
        of_programs.any(|rule| rule.enabled) || self.kernel.has_enabled_rule()
    }

    /// Names of the disabled channels, those of the user domain first.
    pub(super) fn disabled_channels(&self) -> Vec<String> {
        let of_programs = self.current_channels().filter(|(_, channel)| !channel.enabled);
        let of_programs = of_programs.map(|(_, channel)| &channel.settings.name);
        of_programs.chain(self.kernel.disabled_names()).cloned().collect()
    }

    pub(super) fn set_enabled(&mut self, domain: Domain, channel: u32, enabled: bool) -> Result<(), String> {
        match domain {
            Domain::User => self.find(channel)?.enabled = enabled,
            Domain::Kernel => self.kernel.set_enabled(channel, enabled)?,
        }
        Ok(())
    }

    /// Which programs, or which threads and CPUs, it is about.
    pub fn tracked(&self, domain: Domain) -> &Choice {
        match domain {
            Domain::User => &self.tracked,
            Domain::Kernel => &self.kernel.tracked,
        }
    }

    pub(super) fn set_tracked(&mut self, domain: Domain, tracked: Choice) {
        match domain {
            Domain::User => self.tracked = tracked,
            Domain::Kernel => self.kernel.tracked = tracked,
        }
    }

    pub(super) fn start(&mut self, at: Moment) {
        self.first_start.get_or_insert(at);
        self.started = at;
        self.state = SessionState::Active;
    }

    pub(super) fn stop(&mut self, at: Moment) {
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

    pub(super) fn summarize(&self, session: SessionId, changes: &mut Vec<Change>) {
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
            if !state.enabled {
                changes.push(Change::EnabledSet {
                    session,
                    domain: Domain::User,
                    channel,
                    enabled: false,
                });
            }
            if state.lost_ring_set_count > 0 {
                let count = state.lost_ring_set_count;
                changes.push(Change::RingSetsLost {
                    session,
                    channel,
                    count,
                });
            }
            changes.extend(state.classes_with_users().map(|(class, user)| Change::ClassAdded {
                session,
                channel,
                class: class.clone(),
                user,
            }));
        }
        for (channel, state) in (0..).zip(&self.channels) {
            if let Some(by) = state.replaced_by {
                changes.push(Change::ChannelReplaced { session, channel, by });
            }
        }
        self.kernel.summarize(session, changes);
        for domain in Domain::ALL {
            let tracked = self.tracked(domain).clone();
            if tracked != Choice::default() {
                changes.push(Change::TrackedSet {
                    session,
                    domain,
                    tracked,
                });
            }
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
        if self.programs_not_recorded > 0 {
            let count = self.programs_not_recorded;
            changes.push(Change::ProgramsNotRecorded { session, count });
        }
        if self.deeds != Deeds::default() {
            let deeds = self.deeds;
            changes.push(Change::TriggerActed { session, deeds });
        }
        if self.chunks != Chunks::default() {
            let chunks = self.chunks.clone();
            changes.push(Change::ChunksSet { session, chunks });
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
