// SPDX-License-Identifier: MIT OR Apache-2.0
//! What people ask of the kernel domain, done in the daemon's thread. What needs the kernel's word has it by then (kernel_checks.rs).

use piste_control::interface as shown;
use piste_kernel::spec::{ChannelSpec, Rule};

use super::daemon::Daemon;
use super::inbox::Answer;
use super::kernel_words;
use crate::link::{RequestId, SessionId};
use crate::person::Person;
use crate::session::Refusal;
use crate::session::commands::{Asked, DEFAULT_CHANNEL};
use crate::session::settings::ChannelRequest;

/// A kernel channel's name and rules.
pub type KernelChannelRules = (String, Vec<shown::KernelRule>);

/// What is known of a session that the kernel is asked something for.
pub struct Prepared {
    /// CPUs that there can be.
    pub cpu_count: u32,
    /// Whose the trace is.
    pub owner: Person,
    /// Its kernel channels.
    pub channels: Vec<ChannelSpec>,
}

impl Prepared {
    /// The channel with this name, or the default one, if it is there.
    pub fn channel(&self, name: Option<&str>) -> Option<&ChannelSpec> {
        let name = name.unwrap_or(DEFAULT_CHANNEL);
        self.channels.iter().find(|channel| channel.name == name)
    }
}

impl Daemon {
    /// Whether a session is there, before the kernel is asked anything for it.
    pub fn prepare_for_kernel(&mut self, session: &Asked, answer: Answer<Prepared>) {
        let prepared = self.machine.find_own_session(session).map(|session| {
            let state = self.machine.session(session);
            Prepared {
                cpu_count: self.machine.host().ring_count,
                owner: state.identity.owner.clone(),
                channels: state.kernel.channels.clone(),
            }
        });
        self.reply(answer, prepared);
    }

    /// Makes a kernel channel, or enables it; answers when it records, in a session that does.
    pub fn enable_kernel_channel(
        &mut self,
        session: &Asked,
        wanted: &ChannelRequest,
        answer: Answer<shown::ChannelSettings>,
    ) {
        let enabled = self.machine.find_own_session(session).and_then(|session| {
            let (channel, request) = self.machine.enable_kernel_channel(session, wanted)?;
            Ok((session, kernel_words::settings(&channel), request))
        });
        self.answer_after_kernel(enabled, answer);
    }

    /// Adds contexts to a kernel channel; answers when its events have them.
    pub fn add_kernel_contexts(
        &mut self,
        session: &Asked,
        channel: Option<&str>,
        contexts: &[String],
        answer: Answer<shown::ChannelSettings>,
    ) {
        let added = self.machine.find_own_session(session).and_then(|session| {
            let (channel, request) = self.machine.add_kernel_contexts(session, channel, contexts)?;
            Ok((session, kernel_words::settings(&channel), request))
        });
        self.answer_after_kernel(added, answer);
    }

    /// Disables a kernel channel; answers when the kernel follows.
    pub fn disable_kernel_channel(&mut self, session: &Asked, name: &str, answer: Answer<shown::ChannelSettings>) {
        let disabled = self.machine.find_own_session(session).and_then(|session| {
            let (channel, request) = self.machine.disable_kernel_channel(session, name)?;
            Ok((session, kernel_words::settings(&channel), request))
        });
        self.answer_after_kernel(disabled, answer);
    }

    /// Adds rules to a kernel channel; answers when the kernel follows them.
    pub fn enable_kernel_event(
        &mut self,
        session: &Asked,
        channel: Option<String>,
        rules: Vec<Rule>,
        answer: Answer<KernelChannelRules>,
    ) {
        let changed = self.machine.find_own_session(session).and_then(|session| {
            let (channel, request) = self.machine.enable_kernel_event(session, channel.as_deref(), rules)?;
            Ok((session, self.kernel_channel_rules(session, channel), request))
        });
        self.answer_after_kernel(changed, answer);
    }

    /// Disables rules of a kernel channel; answers when the kernel follows.
    pub fn disable_kernel_event(
        &mut self,
        session: &Asked,
        channel: Option<String>,
        patterns: &[String],
        answer: Answer<KernelChannelRules>,
    ) {
        let changed = self.machine.find_own_session(session).and_then(|session| {
            let (channel, request) = self
                .machine
                .disable_kernel_event(session, channel.as_deref(), patterns)?;
            Ok((session, self.kernel_channel_rules(session, channel), request))
        });
        self.answer_after_kernel(changed, answer);
    }

    fn kernel_channel_rules(&self, session: SessionId, channel: u32) -> KernelChannelRules {
        let channel = &self.machine.session(session).kernel.channels[channel as usize];
        (channel.name.clone(), kernel_words::rules(&channel.rules))
    }

    /// Writes the state of the system into the trace once more.
    pub fn regenerate_state_dump(&mut self, session: &Asked, answer: Answer<()>) {
        let asked = self.machine.find_own_session(session).and_then(|session| {
            let request = self.machine.regenerate_state_dump(session)?;
            Ok((session, (), Some(request)))
        });
        self.answer_after_kernel(asked, answer);
    }

    /// Answers once the kernel consumer did what was decided, as far as it was asked.
    pub(super) fn answer_after_kernel<T: 'static>(
        &mut self,
        decided: Result<(SessionId, T, Option<RequestId>), Refusal>,
        answer: Answer<T>,
    ) {
        match decided {
            Err(refusal) => self.reply(answer, Err(refusal)),
            Ok((session, value, request)) => self.wait_for_kernel(session, request, move |daemon, done| {
                daemon.reply(answer, done.map(|()| value));
            }),
        }
    }
}
