// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the kernel domain of a session starts and ends, and what the kernel consumer is told of it.
//!
//! The kernel records from before the programs begin until after they have stopped: what a program's event caused in the kernel is
//! in the trace.

use std::path::PathBuf;

use piste_ctf::{EnvironmentValue, Trace};

use super::machine::Machine;
use super::refusal::Refusal;
use super::tracing_session::{Session, SessionIdentity, SessionState};
use crate::link::{Domain, RequestId, SessionId, ToConsumer};
use crate::person::Person;

impl SessionIdentity {
    /// What the kernel's trace says about itself: what the programs' says, less what is of programs.
    pub fn kernel_trace(&self) -> Trace {
        let mut trace = self.trace.clone();
        // Readers take traces of one uuid for one trace.
        trace.uuid[15] ^= 1;
        let text = |key: &str, value: &str| (key.to_owned(), EnvironmentValue::Text(value.to_owned()));
        let number = |key: &str, value: i64| (key.to_owned(), EnvironmentValue::Integer(value));
        let mut environment = vec![
            text("domain", "kernel"),
            // Readers choose their analyses by these four; the tracer's own name stands below.
            text("tracer_name", "lttng-modules"),
            number("tracer_major", 2),
            number("tracer_minor", 13),
            number("tracer_patchlevel", 0),
        ];
        let is_of_programs =
            |key: &str| key == "domain" || key.starts_with("tracer_") || key == "architecture_bit_width";
        let common = trace.environment.into_iter().filter(|(key, _)| !is_of_programs(key));
        environment.extend(common);
        trace.environment = environment;
        trace
    }
}

impl Machine {
    /// The kernel consumer learns of a channel; with the first one, of the session.
    pub(super) fn add_kernel_channel(&mut self, session: SessionId, channel: u32) -> Option<RequestId> {
        if channel > 0 {
            self.tell_kernel_channel(session, channel);
            return self.confirm_at_kernel(session);
        }
        self.open_at_kernel_consumer(session);
        self.is_active(session)
            .then(|| self.ask_kernel_consumer(|request| ToConsumer::Start { session, request }))
    }

    fn open_at_kernel_consumer(&mut self, session: SessionId) {
        let state = self.session(session);
        let message = state.opening(session, Domain::Kernel);
        let channel_count = state.kernel.channels.len() as u32;
        self.tell_kernel_consumer(message);
        self.tell_tracked(session);
        for channel in 0..channel_count {
            self.tell_kernel_channel(session, channel);
        }
    }

    pub(super) fn tell_kernel_channel(&mut self, session: SessionId, channel: u32) {
        let spec = self.session(session).kernel.effective(channel);
        self.tell_kernel_consumer(ToConsumer::SetKernelChannel { session, spec });
    }

    pub(super) fn tell_tracked(&mut self, session: SessionId) {
        let kernel = &self.session(session).kernel;
        if kernel.is_used() {
            let tracked = kernel.tracked.for_kernel();
            self.tell_kernel_consumer(ToConsumer::SetTracked { session, tracked });
        }
    }

    /// A question that the kernel consumer answers after it did what it was told before; none where nothing takes effect yet.
    pub(super) fn confirm_at_kernel(&mut self, session: SessionId) -> Option<RequestId> {
        let is_recorded = self.is_active(session) && self.session(session).kernel.is_used();
        is_recorded.then(|| {
            self.ask_kernel_consumer(|request| ToConsumer::Report {
                session,
                request,
                confirms: true,
            })
        })
    }

    /// Whether some session needs the kernel consumer.
    pub fn uses_kernel(&self) -> bool {
        self.sessions.iter().any(|(_, session)| session.kernel.is_used())
    }

    /// Tells the kernel consumer everything.
    pub fn everything_of_kernel(&mut self) {
        let of_kernel = |&(_, session): &(SessionId, &Session)| session.kernel.is_used();
        let sessions: Vec<SessionId> = self.sessions.iter().filter(of_kernel).map(|(id, _)| id).collect();
        for session in sessions {
            self.open_at_kernel_consumer(session);
            if self.is_active(session) {
                self.ask_kernel_consumer(|request| ToConsumer::Start { session, request });
            }
        }
    }

    /// A kernel consumer says, when it is adopted, that it has a session. It is to end one that this pisted does not know of, and
    /// to stop one that an earlier pisted was about to stop.
    pub fn kernel_consumer_has(&mut self, session: SessionId, is_started: bool) {
        if self.sessions.get(session).is_none() {
            self.ask_kernel_consumer(|request| ToConsumer::CloseSession { session, request });
        } else if is_started {
            self.stop_kernel(session);
        }
    }

    /// Writes the state of the system into the trace once more.
    ///
    /// # Errors
    /// The session keeps its events in memory, does not record, or has no kernel channel.
    pub fn regenerate_state_dump(&mut self, session: SessionId) -> Result<RequestId, Refusal> {
        let state = self.session(session);
        let name = || state.identity.name.clone();
        if state.identity.snapshot {
            return Err(Refusal::IsSnapshot { session: name() });
        }
        if state.state != SessionState::Active {
            return Err(Refusal::NotActive { session: name() });
        }
        if !state.kernel.is_used() {
            return Err(Refusal::NothingEnabled {
                session: name(),
                disabled_channels: Vec::new(),
            });
        }
        Ok(self.ask_kernel_consumer(|request| ToConsumer::RegenerateStateDump { session, request }))
    }

    pub(super) fn start_kernel(&mut self, session: SessionId) -> Option<RequestId> {
        let is_used = self.session(session).kernel.is_used();
        is_used.then(|| self.ask_kernel_consumer(|request| ToConsumer::Start { session, request }))
    }

    /// Ends the kernel's recording after that of the programs. The answer has the totals; none when there is nothing to end, or
    /// somebody started the session again meanwhile.
    pub fn stop_kernel(&mut self, session: SessionId) -> Option<RequestId> {
        let state = self.sessions.get(session)?;
        let is_to_stop = state.kernel.is_used() && state.state != SessionState::Active;
        is_to_stop.then(|| self.ask_kernel_consumer(|request| ToConsumer::Stop { session, request }))
    }

    /// The kernel's part of destroying a session, after that of the programs.
    pub fn close_kernel(&mut self, session: SessionId) -> Option<RequestId> {
        let is_used = self.sessions.get(session)?.kernel.is_used();
        is_used.then(|| self.ask_kernel_consumer(|request| ToConsumer::CloseSession { session, request }))
    }

    pub(super) fn snapshot_kernel(&mut self, session: SessionId, output: PathBuf, owner: Person) -> Option<RequestId> {
        let is_used = self.session(session).kernel.is_used();
        is_used.then(|| {
            self.ask_kernel_consumer(|request| ToConsumer::Snapshot {
                session,
                output,
                owner,
                request,
            })
        })
    }
}
