// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel domain of a session: its channels, their rules, and the threads that they are about.
//!
//! What only the kernel knows, such as whether it has an event, was looked up before (control). The kernel consumer hears
//! of a session with its first kernel channel, not before. What it is told, and how recording starts and ends, is kernel_life.rs.

use std::collections::BTreeSet;

use piste_kernel::spec::{ChannelSpec, Context, EventSource, Rule};

use super::choice::Choice;
use super::commands::DEFAULT_CHANNEL;
use super::kernel_settings::{check_same, contexts_of, settle};
use super::machine::Machine;
use super::refusal::{Refusal, nearest};
use super::rules::{InvalidPattern, PATTERNS};
use super::sessions::Change;
use super::settings::{ChannelRequest, check_name};
use crate::link::{Domain, RequestId, SessionId};
use crate::person::Person;
use crate::shares::Holdings;

/// Channels that a session can have in the kernel. Each is a tracefs instance, with rings for every CPU.
pub const KERNEL_CHANNEL_COUNT_MAX: usize = 32;

/// Bytes that the rules of a channel can have as JSON: the kernel consumer gets them in one message.
pub const KERNEL_TEXT_BYTES_MAX: usize = 128 << 10;

/// The streams of the state dump are files beside those of the channels.
const STATE_DUMP: &str = "statedump";

/// The kernel domain of a session.
#[derive(Debug, Default)]
pub struct KernelDomain {
    /// The index is the channel's number, and the id of its stream class.
    pub channels: Vec<ChannelSpec>,
    /// Numbers of the channels that are disabled: they record nothing, and keep their rules.
    disabled: BTreeSet<u32>,
    /// What they are about.
    pub tracked: Choice,
}

impl KernelDomain {
    /// Whether the session has one.
    pub fn is_used(&self) -> bool {
        !self.channels.is_empty()
    }

    /// Whether some rule of an enabled channel is enabled.
    pub fn has_enabled_rule(&self) -> bool {
        self.channels
            .iter()
            .filter(|channel| self.is_enabled(channel.stream_id))
            .flat_map(|channel| &channel.rules)
            .any(|rule| rule.enabled)
    }

    /// Names of the disabled channels.
    pub(super) fn disabled_names(&self) -> impl Iterator<Item = &String> {
        self.disabled
            .iter()
            .map(|&channel| &self.channels[channel as usize].name)
    }

    /// Whether a channel is enabled.
    pub fn is_enabled(&self, channel: u32) -> bool {
        !self.disabled.contains(&channel)
    }

    /// A channel as it records now: none of its rules is enabled while it is disabled.
    pub(super) fn effective(&self, channel: u32) -> ChannelSpec {
        let mut spec = self.channels[channel as usize].clone();
        let is_enabled = self.is_enabled(channel);
        spec.rules.iter_mut().for_each(|rule| rule.enabled &= is_enabled);
        spec
    }

    pub(super) fn set_enabled(&mut self, channel: u32, enabled: bool) -> Result<(), String> {
        self.find(channel)?;
        match enabled {
            true => self.disabled.remove(&channel),
            false => self.disabled.insert(channel),
        };
        Ok(())
    }

    pub(super) fn add(&mut self, channel: ChannelSpec) -> Result<(), String> {
        if channel.stream_id as usize != self.channels.len() {
            let known = self.channels.len();
            return Err(format!("kernel channel {} follows {known} others", channel.stream_id));
        }
        self.channels.push(channel);
        Ok(())
    }

    pub(super) fn find(&mut self, channel: u32) -> Result<&mut ChannelSpec, String> {
        self.channels
            .get_mut(channel as usize)
            .ok_or_else(|| format!("there is no kernel channel of number {channel}"))
    }

    pub(super) fn summarize(&self, session: SessionId, changes: &mut Vec<Change>) {
        let channels = self.channels.iter().cloned();
        changes.extend(channels.map(|channel| Change::KernelChannelAdded { session, channel }));
        changes.extend(self.disabled.iter().map(|&channel| Change::EnabledSet {
            session,
            domain: Domain::Kernel,
            channel,
            enabled: false,
        }));
    }
}

impl Machine {
    /// Whether there is room for the rings of one more kernel channel.
    fn check_kernel_memory(&self, owner: &Person, channel: &ChannelSpec) -> Result<(), Refusal> {
        let user_of = |owner: &Person| owner.uid().unwrap_or(0);
        let bytes_of = |channel: &ChannelSpec| {
            let ring_bytes = u64::from(channel.subbuf_bytes) * u64::from(channel.subbuf_count);
            (ring_bytes * u64::from(self.host.ring_count)) as usize
        };
        let mut holdings = Holdings::default();
        for (_, session) in self.sessions.iter() {
            let bytes = session.kernel.channels.iter().map(bytes_of).sum();
            holdings.add(user_of(&session.identity.owner), bytes);
        }
        let (users, user, limit) = (self.host.users, user_of(owner), self.host.kernel_ring_bytes_max);
        if users.permit(&holdings, user, bytes_of(channel), limit) {
            return Ok(());
        }
        let mebibytes = |bytes: usize| bytes >> 20;
        Err(Refusal::NoPermission {
            what: format!(
                "{} MiB more of the kernel's memory for rings",
                mebibytes(bytes_of(channel))
            ),
            mend: format!(
                "all sessions can have {} MiB, and those of one user {} MiB, of which {} MiB are used; use fewer or smaller sub-buffers",
                mebibytes(limit),
                mebibytes(users.share(user, limit)),
                mebibytes(holdings.of(user))
            ),
        })
    }

    /// Makes a kernel channel, or enables one that exists as it is wanted. What to wait for, if the session records.
    ///
    /// # Errors
    /// It exists otherwise, or cannot be as it is wanted.
    pub fn enable_kernel_channel(
        &mut self,
        session: SessionId,
        wanted: &ChannelRequest,
    ) -> Result<(ChannelSpec, Option<RequestId>), Refusal> {
        let state = self.session(session);
        let name = &state.identity.name;
        if let Some(existing) = state.kernel.channels.iter().find(|spec| spec.name == wanted.name) {
            check_same(existing, wanted, name)?;
            let existing = existing.clone();
            let request = self.set_kernel_channel_enabled(session, existing.stream_id, true);
            return Ok((existing, request));
        }
        check_name("channel name", &wanted.name)?;
        if wanted.name == STATE_DUMP {
            return Err(Refusal::InvalidSetting {
                setting: "channel name",
                value: STATE_DUMP.into(),
                allowed: "any other name; this one is reserved for the state dump".into(),
            });
        }
        if state.kernel.channels.len() >= KERNEL_CHANNEL_COUNT_MAX {
            return Err(Refusal::TooManyChannels {
                session: name.clone(),
                limit: KERNEL_CHANNEL_COUNT_MAX,
            });
        }
        let stream_id = state.kernel.channels.len() as u32;
        let channel = settle(wanted, stream_id, state.identity.snapshot)?;
        self.check_kernel_memory(&state.identity.owner, &channel)?;
        check_contexts(&state.identity.owner, &channel.contexts)?;
        let added = channel.clone();
        self.record(Change::KernelChannelAdded { session, channel });
        let request = self.add_kernel_channel(session, stream_id);
        Ok((added, request))
    }

    /// Adds contexts to a kernel channel, in addition to those that it has. Its settings, and what to wait for, if the session records.
    ///
    /// # Errors
    /// No such channel, no such context, or the owner may not record it.
    pub fn add_kernel_contexts(
        &mut self,
        session: SessionId,
        channel: Option<&str>,
        names: &[String],
    ) -> Result<(ChannelSpec, Option<RequestId>), Refusal> {
        let channel = self.find_kernel_channel(session, channel.unwrap_or(DEFAULT_CHANNEL))?;
        let mut contexts = contexts_of(names)?;
        check_contexts(&self.session(session).identity.owner, &contexts)?;
        let known: Vec<Context> = self.kernel_channel(session, channel).all_contexts().collect();
        contexts.retain(|context| !known.contains(context));
        if !contexts.is_empty() {
            self.record(Change::KernelContextsAdded {
                session,
                channel,
                contexts,
            });
            self.tell_kernel_channel(session, channel);
        }
        let request = self.confirm_at_kernel(session);
        Ok((self.kernel_channel(session, channel).clone(), request))
    }

    /// Disables a kernel channel: it records nothing until it is enabled again. What to wait for, if the session records.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn disable_kernel_channel(
        &mut self,
        session: SessionId,
        name: &str,
    ) -> Result<(ChannelSpec, Option<RequestId>), Refusal> {
        let channel = self.find_kernel_channel(session, name)?;
        let request = self.set_kernel_channel_enabled(session, channel, false);
        Ok((self.kernel_channel(session, channel).clone(), request))
    }

    fn set_kernel_channel_enabled(&mut self, session: SessionId, channel: u32, enabled: bool) -> Option<RequestId> {
        if self.session(session).kernel.is_enabled(channel) != enabled {
            self.record(Change::EnabledSet {
                session,
                domain: Domain::Kernel,
                channel,
                enabled,
            });
            self.tell_kernel_channel(session, channel);
        }
        self.confirm_at_kernel(session)
    }

    /// Adds rules to a kernel channel; one that is about the same events as an earlier one takes its place. The channel's
    /// number, and what to wait for, if the session records.
    ///
    /// # Errors
    /// No such channel, a text that can be no pattern, or too many rules: no rule is added then.
    pub fn enable_kernel_event(
        &mut self,
        session: SessionId,
        channel: Option<&str>,
        wanted: Vec<Rule>,
    ) -> Result<(u32, Option<RequestId>), Refusal> {
        check_rules_fit(&wanted)?;
        if wanted.is_empty() {
            check_pattern("")?;
        }
        wanted.iter().try_for_each(check_patterns)?;
        let known = match channel {
            Some(name) => Some(self.find_kernel_channel(session, name)?),
            None => self.find_kernel_channel(session, DEFAULT_CHANNEL).ok(),
        };
        let mut rules = known.map_or_else(Vec::new, |known| self.kernel_channel(session, known).rules.clone());
        for rule in wanted {
            match rules
                .iter_mut()
                .find(|known| is_about_the_same(&known.source, &rule.source))
            {
                Some(known) => *known = rule,
                None => rules.push(rule),
            }
        }
        check_rules_fit(&rules)?;
        let channel = match known {
            Some(known) => known,
            None => {
                let default = ChannelRequest {
                    name: DEFAULT_CHANNEL.into(),
                    ..ChannelRequest::default()
                };
                self.enable_kernel_channel(session, &default)?.0.stream_id
            }
        };
        Ok((channel, self.set_kernel_rules(session, channel, rules)))
    }

    /// Disables the rules of a kernel channel with these patterns; with none, all rules.
    ///
    /// # Errors
    /// No such channel or rule: no rule is disabled then.
    pub fn disable_kernel_event(
        &mut self,
        session: SessionId,
        channel: Option<&str>,
        patterns: &[String],
    ) -> Result<(u32, Option<RequestId>), Refusal> {
        PATTERNS.check(patterns.len())?;
        let channel = self.find_kernel_channel(session, channel.unwrap_or(DEFAULT_CHANNEL))?;
        let state = self.kernel_channel(session, channel);
        let mut rules = state.rules.clone();
        for wanted in patterns {
            let mut known = rules
                .iter_mut()
                .filter(|rule| pattern(&rule.source) == *wanted)
                .peekable();
            if known.peek().is_none() {
                let patterns: Vec<String> = state.rules.iter().map(|rule| pattern(&rule.source)).collect();
                return Err(Refusal::NoRule {
                    pattern: wanted.clone(),
                    channel: state.name.clone(),
                    nearest: nearest(wanted, patterns.iter().map(|pattern| &**pattern)),
                });
            }
            known.for_each(|rule| rule.enabled = false);
        }
        if patterns.is_empty() {
            rules.iter_mut().for_each(|rule| rule.enabled = false);
        }
        Ok((channel, self.set_kernel_rules(session, channel, rules)))
    }

    fn set_kernel_rules(&mut self, session: SessionId, channel: u32, rules: Vec<Rule>) -> Option<RequestId> {
        if self.kernel_channel(session, channel).rules != rules {
            self.record(Change::KernelRulesSet {
                session,
                channel,
                rules,
            });
        }
        // Also without a change: the rules may be about events that the kernel did not have when they were made.
        self.tell_kernel_channel(session, channel);
        self.confirm_at_kernel(session)
    }

    /// The number of a kernel channel.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn find_kernel_channel(&self, session: SessionId, name: &str) -> Result<u32, Refusal> {
        let state = self.session(session);
        let channels = &state.kernel.channels;
        let found = channels.iter().find(|channel| channel.name == name);
        found
            .map(|channel| channel.stream_id)
            .ok_or_else(|| Refusal::NoChannel {
                name: name.to_owned(),
                session: state.identity.name.clone(),
                domain: Domain::Kernel,
                nearest: nearest(name, channels.iter().map(|channel| &*channel.name)),
            })
    }

    pub(super) fn kernel_channel(&self, session: SessionId, channel: u32) -> &ChannelSpec {
        &self.session(session).kernel.channels[channel as usize]
    }
}

/// The pattern that a rule was made with: what names it.
pub fn pattern(source: &EventSource) -> String {
    match source {
        EventSource::Tracepoint { pattern } | EventSource::Syscall { pattern, .. } => pattern.clone(),
        EventSource::Uprobe { name, .. } | EventSource::Kprobe { name, .. } => name.clone(),
        EventSource::Usdt { provider, probe, .. } => format!("{provider}:{probe}"),
    }
}

/// Whether rules are few and short enough for a channel of the kernel.
///
/// # Errors
/// They are not.
pub fn check_rules_fit(rules: &[Rule]) -> Result<(), Refusal> {
    let bytes = serde_json::to_vec(rules).map_or(usize::MAX, |text| text.len());
    if bytes <= KERNEL_TEXT_BYTES_MAX {
        return Ok(());
    }
    Err(Refusal::InvalidSetting {
        setting: "size of the rules of a kernel channel",
        value: format!("{bytes} bytes"),
        allowed: format!("{KERNEL_TEXT_BYTES_MAX} bytes"),
    })
}

/// Names of probes are for [`piste_kernel::probe::check`].
fn check_patterns(rule: &Rule) -> Result<(), InvalidPattern> {
    if let EventSource::Tracepoint { pattern } | EventSource::Syscall { pattern, .. } = &rule.source {
        check_pattern(pattern)?;
    }
    rule.excluded.iter().try_for_each(|excluded| check_pattern(excluded))
}

fn check_pattern(pattern: &str) -> Result<(), InvalidPattern> {
    Ok(piste_kernel::pattern::check(pattern)?)
}

/// Whether two rules of a channel cannot stand side by side. Static probes of one name in two programs can.
fn is_about_the_same(one: &EventSource, other: &EventSource) -> bool {
    use EventSource::{Kprobe, Tracepoint, Uprobe, Usdt};
    match (one, other) {
        (Tracepoint { .. }, Tracepoint { .. }) | (EventSource::Syscall { .. }, EventSource::Syscall { .. }) => {
            pattern(one) == pattern(other)
        }
        (
            Uprobe { name, is_return, .. },
            Uprobe {
                name: other_name,
                is_return: other_is_return,
                ..
            },
        )
        | (
            Kprobe { name, is_return, .. },
            Kprobe {
                name: other_name,
                is_return: other_is_return,
                ..
            },
        ) => (name, is_return) == (other_name, other_is_return),
        (
            Usdt { binary, .. },
            Usdt {
                binary: other_binary, ..
            },
        ) => binary == other_binary && pattern(one) == pattern(other),
        _ => false,
    }
}

/// The kernel hides the namespaces of a process from other users: `/proc/PID/ns` needs what a debugger needs.
fn check_contexts(owner: &Person, contexts: &[Context]) -> Result<(), Refusal> {
    let hidden = contexts.iter().find(|context| context.is_namespace());
    match (owner.uid(), hidden) {
        (Some(_), Some(hidden)) => Err(Refusal::NoPermission {
            what: format!("recording {}", hidden.name()),
            mend: "namespaces of processes can be recorded only in root's sessions".into(),
        }),
        _ => Ok(()),
    }
}
