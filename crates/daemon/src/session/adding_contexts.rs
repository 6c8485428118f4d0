// SPDX-License-Identifier: MIT OR Apache-2.0
//! Contexts that are added to a channel.
//!
//! The records of a stream all have the same contexts. So once programs recorded into a channel, another one takes its place: it has the same name,
//! rules and event classes, and streams of its own. Each program gets a ring set of it in the place of the one that it has, as in moves.rs,
//! and records every event into one or the other.

use super::catching_up::News;
use super::channel::ChannelSettings;
use super::commands::{CHANNEL_COUNT_MAX, DEFAULT_CHANNEL};
use super::machine::{Machine, Pending};
use super::refusal::Refusal;
use super::sessions::{Change, RingSetLife};
use crate::contexts::Contexts;
use crate::link::{Domain, RingSetKey, SessionId, ToConsumer};

impl Machine {
    /// Adds contexts to a channel, in addition to those that it has. Its settings, and what to wait for.
    ///
    /// # Errors
    /// No such channel, no such context, or there are too many channels.
    pub fn add_contexts(
        &mut self,
        session: SessionId,
        channel: Option<&str>,
        names: &[String],
    ) -> Result<(ChannelSettings, Pending), Refusal> {
        let channel = self.find_channel(session, channel.unwrap_or(DEFAULT_CHANNEL))?;
        let state = &self.session(session).channels[channel as usize];
        let mut settings = state.settings.clone();
        let contexts = settings.contexts.with(&Contexts::of(names)?)?;
        if contexts == settings.contexts {
            return Ok((settings, self.announce_again(session, channel)));
        }
        settings.contexts = contexts;
        let is_used = !state.classes.is_empty() || !self.ring_sets_in(session, channel).is_empty();
        let pending = if is_used {
            self.continue_channel(session, channel, settings.clone())?
        } else {
            let contexts = settings.contexts.clone();
            self.record(Change::ContextsSet {
                session,
                channel,
                contexts,
            });
            self.add_channel_at_consumer(session, channel);
            self.announce_again(session, channel)
        };
        Ok((settings, pending))
    }

    /// Lets another channel take the place of one.
    fn continue_channel(
        &mut self,
        session: SessionId,
        channel: u32,
        settings: ChannelSettings,
    ) -> Result<Pending, Refusal> {
        let state = self.session(session);
        if state.channels.len() >= CHANNEL_COUNT_MAX {
            return Err(Refusal::TooManyChannels {
                session: state.identity.name.clone(),
                limit: CHANNEL_COUNT_MAX,
            });
        }
        let by = state.channels.len() as u32;
        let old = &state.channels[channel as usize];
        let (rules, is_enabled) = (old.rules.clone(), old.enabled);
        let classes: Vec<_> = old
            .classes_with_users()
            .map(|(class, user)| (class.clone(), user))
            .collect();
        self.record(Change::ChannelAdded { session, settings });
        self.record(Change::RulesSet {
            session,
            channel: by,
            rules,
        });
        if !is_enabled {
            self.record(Change::EnabledSet {
                session,
                domain: Domain::User,
                channel: by,
                enabled: false,
            });
        }
        self.add_channel_at_consumer(session, by);
        for (class, user) in classes {
            self.record(Change::ClassAdded {
                session,
                channel: by,
                class: class.clone(),
                user,
            });
            self.tell_consumer(ToConsumer::AddClass {
                session,
                stream_id: by,
                class,
            });
        }
        self.record(Change::ChannelReplaced { session, channel, by });
        for key in self.ring_sets_in(session, channel) {
            if self.move_ring_set(key).is_some()
                && let Some(program) = self.sessions.ring_set(key).map(|ring_set| ring_set.program)
            {
                self.await_move(program, key);
            }
        }
        // Some programs may not have heard of all rules yet.
        let earlier = Vec::new();
        Ok(self.announce(session, News::Rules { channel: by, earlier }, None))
    }

    /// The ring sets of a channel that programs have.
    fn ring_sets_in(&self, session: SessionId, channel: u32) -> Vec<RingSetKey> {
        let all = self.sessions.ring_sets();
        all.filter(|(_, set)| (set.session, set.channel) == (session, channel) && set.life == RingSetLife::Live)
            .map(|(key, _)| key)
            .collect()
    }
}
