// SPDX-License-Identifier: MIT OR Apache-2.0
//! What people ask, done in the daemon's thread: names and folders that were left open are chosen here, then the machine decides, and
//! the answer waits for programs and consumers as far as it has to.
//!
//! Start, stop and snapshots are in recording.rs, what is told of it in reports.rs, the kernel domain in kernel_commands.rs.

use std::fs;
use std::path::{Path, PathBuf};

use piste_control::interface as shown;
use piste_ctf::{EnvironmentValue, Trace};

use super::counters;
use super::daemon::{Daemon, WRITE_TIMEOUT};
use super::inbox::Answer;
use super::output::{make_output, not_made, time_stamp};
use super::waiting::Ended;
use super::{clock, host, status};
use crate::link::{Domain, RequestId, SessionId};
use crate::person::Person;
use crate::session::commands::{Asked, RulesRequest};
use crate::session::settings::ChannelRequest;
use crate::session::{Pending, Process, Refusal, SessionIdentity};

/// A session that is wanted.
#[allow(missing_docs, reason = "documented in crates/control/src/dev.piste.Control.varlink")]
pub struct SessionRequest {
    pub name: Option<String>,
    pub output: Option<String>,
    pub snapshot: bool,
    pub record_id: Option<String>,
    pub never_current: bool,
    pub owner: Person,
    pub bound_to: Option<Process>,
}

/// A record id as clients write it.
pub(super) fn record_id(text: String) -> Result<[u8; 16], Refusal> {
    let id = host::parse_hex(&text).filter(|id| *id != [0; 16]);
    id.ok_or(Refusal::InvalidSetting {
        setting: "record id",
        value: text,
        allowed: "32 hex digits, not all 0".into(),
    })
}

/// A channel's name and rules.
pub type ChannelRules = (String, Vec<shown::EventRule>);

impl Daemon {
    /// Creates a session and its folder.
    pub fn create_session(&mut self, wanted: SessionRequest, answer: Answer<shown::SessionStatus>) {
        let identity = match self.identify(wanted) {
            Ok(identity) => identity,
            Err(refusal) => return self.reply(answer, Err(refusal)),
        };
        let (output, owner) = (identity.output.clone(), identity.owner.clone());
        let make = move || make_output(&output, &owner);
        self.with_files(make, move |daemon, made| {
            let made = made.unwrap_or_else(|error| Err(not_made(&identity.output, &error)));
            let created = made.and_then(|()| daemon.machine.create_session(identity));
            let status = created.map(|session| {
                daemon.watch_creator(session);
                daemon.status_of(session)
            });
            daemon.reply(answer, status);
        });
    }

    /// What a session is to be that somebody wants.
    fn identify(&mut self, wanted: SessionRequest) -> Result<SessionIdentity, Refusal> {
        let stamp = time_stamp();
        let name = wanted.name.unwrap_or_else(|| format!("auto-{stamp}"));
        self.machine.check_session_name(&name)?;
        let record_id = wanted.record_id.map(record_id).transpose()?;
        let output = match wanted.output {
            Some(output) => PathBuf::from(output),
            None => match host::home(wanted.owner.uid()) {
                Some(home) => Path::new(&home).join("piste-traces").join(format!("{name}-{stamp}")),
                None => PathBuf::new(),
            },
        };
        let trace = self.describe_trace(&name, &stamp);
        Ok(SessionIdentity {
            name,
            output,
            owner: wanted.owner,
            snapshot: wanted.snapshot,
            record_id,
            never_current: wanted.never_current,
            bound_to: wanted.bound_to,
            trigger: None,
            trace,
        })
    }

    pub(super) fn describe_trace(&mut self, session: &str, stamp: &str) -> Trace {
        let mut uuid = [0; 16];
        rustix::rand::getrandom(&mut uuid, rustix::rand::GetRandomFlags::empty()).expect("16 random bytes");
        // Version 4, variant 1: a random uuid.
        uuid[6] = uuid[6] & 0x0f | 0x40;
        uuid[8] = uuid[8] & 0x3f | 0x80;
        let text = |key: &str, value: &str| (key.to_owned(), EnvironmentValue::Text(value.to_owned()));
        let number = |key: &str, value: i64| (key.to_owned(), EnvironmentValue::Integer(value));
        let system = rustix::system::uname();
        let environment = vec![
            text("domain", "ust"),
            // Readers choose their analyses by these four; the tracer's own name stands below.
            text("tracer_name", "lttng-ust"),
            number("tracer_major", 2),
            number("tracer_minor", 13),
            number("tracer_patchlevel", 0),
            text("tracer_buffering_scheme", "uid"),
            number("architecture_bit_width", i64::from(usize::BITS)),
            text("trace_name", session),
            text("trace_creation_datetime", stamp),
            text("hostname", &system.nodename().to_string_lossy()),
            text("sysname", &system.sysname().to_string_lossy()),
            text("kernel_release", &system.release().to_string_lossy()),
            text("piste_version", env!("CARGO_PKG_VERSION")),
            text("piste_commit", super::COMMIT),
        ];
        Trace {
            uuid,
            clock: self.clock.describe(),
            environment,
        }
    }

    /// Begins to destroy a session; answers when its trace is whole.
    pub fn destroy_session(&mut self, session: &Asked, answer: Answer<shown::SessionStatus>) {
        match self.machine.find_own_session(session) {
            Ok(session) => self.end_session(session, |daemon, ended| daemon.reply(answer, ended)),
            Err(refusal) => self.reply(answer, Err(refusal)),
        }
    }

    /// Destroys a session; goes on when its trace is whole.
    pub(super) fn end_session(
        &mut self,
        session: SessionId,
        then: impl FnOnce(&mut Daemon, Result<shown::SessionStatus, Refusal>) + Send + 'static,
    ) {
        let request = self.machine.destroy(session, clock::now());
        self.recording_ends(session);
        self.wait_for_consumer(session, request, move |daemon, outcome| {
            let programs = daemon.learn(session, Domain::User, outcome);
            let close = daemon.machine.close_kernel(session);
            daemon.wait_for_kernel(session, close, move |daemon, kernel| {
                if kernel.is_err() {
                    daemon.desk.clear_away(session);
                }
                daemon.after_rotations(vec![session], move |daemon| {
                    let ended = programs.and(kernel).map(|()| daemon.status_of(session));
                    let identity = daemon.machine.session(session).identity.clone();
                    // Nothing was recorded: an empty folder is of no use. One that is not empty stays.
                    let remove = move || {
                        if let Ok(_as_owner) = identity.owner.enter() {
                            let _ = fs::remove_dir(identity.output);
                        }
                    };
                    daemon.with_files(remove, move |daemon, _| {
                        daemon.forget_session(session);
                        then(daemon, ended);
                    });
                });
            });
        });
    }

    /// A session is closed, or was given up.
    pub(super) fn forget_session(&mut self, session: SessionId) {
        self.recording_has_ended(session);
        let state = self.machine.sessions().get(session);
        if let Some(trigger) = state.and_then(|state| state.identity.trigger.as_ref()) {
            self.listeners.trigger_is_gone(&trigger.name);
        }
        self.machine.session_ended(session);
        self.session_events.forget(session);
        self.acting.forget(session);
        self.creators.remove(&session);
        for domain in Domain::ALL {
            self.totals.remove(&(session, domain));
            self.outdated.remove(&(session, domain));
        }
    }

    /// Makes a session the current one.
    pub fn set_current(&mut self, session: &Asked, answer: Answer<()>) {
        let set = self.machine.set_current(session);
        self.reply(answer, set);
    }

    /// Makes a channel, or enables it; answers when the programs follow.
    pub fn enable_channel(&mut self, session: &Asked, wanted: &ChannelRequest, answer: Answer<shown::ChannelSettings>) {
        let enabled = self.machine.find_own_session(session).and_then(|session| {
            counters::check(wanted.contexts.as_deref().unwrap_or_default())?;
            let (settings, pending) = self.machine.enable_channel(session, wanted)?;
            Ok((session, status::settings(&settings), pending))
        });
        self.answer_after_programs(enabled, answer);
    }

    /// Disables a channel; answers when the programs follow.
    pub fn disable_channel(&mut self, session: &Asked, name: &str, answer: Answer<shown::ChannelSettings>) {
        let disabled = self.machine.find_own_session(session).and_then(|session| {
            let (settings, pending) = self.machine.disable_channel(session, name)?;
            Ok((session, status::settings(&settings), pending))
        });
        self.answer_after_programs(disabled, answer);
    }

    /// Adds contexts to a channel; answers when the programs record them.
    pub fn add_contexts(
        &mut self,
        session: &Asked,
        channel: Option<&str>,
        contexts: &[String],
        answer: Answer<shown::ChannelSettings>,
    ) {
        let added = self.machine.find_own_session(session).and_then(|session| {
            counters::check(contexts)?;
            let (settings, pending) = self.machine.add_contexts(session, channel, contexts)?;
            Ok((session, status::settings(&settings), pending))
        });
        self.answer_after_programs(added, answer);
    }

    /// Adds rules; answers when the programs follow them.
    pub fn enable_event(
        &mut self,
        session: &Asked,
        channel: Option<String>,
        wanted: &RulesRequest,
        answer: Answer<ChannelRules>,
    ) {
        let changed = self.machine.find_own_session(session).and_then(|session| {
            let (channel, pending) = self.machine.enable_event(session, channel.as_deref(), wanted)?;
            Ok((session, self.channel_rules(session, channel), pending))
        });
        self.answer_after_programs(changed, answer);
    }

    /// Disables rules; answers when the programs follow them.
    pub fn disable_event(
        &mut self,
        session: &Asked,
        channel: Option<String>,
        patterns: &[String],
        answer: Answer<ChannelRules>,
    ) {
        let changed = self.machine.find_own_session(session).and_then(|session| {
            let (channel, pending) = self.machine.disable_event(session, channel.as_deref(), patterns)?;
            Ok((session, self.channel_rules(session, channel), pending))
        });
        self.answer_after_programs(changed, answer);
    }

    fn channel_rules(&self, session: SessionId, channel: u32) -> ChannelRules {
        let channel = &self.machine.session(session).channels[channel as usize];
        (channel.settings.name.clone(), status::rules(&channel.rules))
    }

    /// Answers once the programs of a session do what was decided.
    fn answer_after_programs<T: 'static>(
        &mut self,
        decided: Result<(SessionId, T, Pending), Refusal>,
        answer: Answer<T>,
    ) {
        let (session, value, pending) = match decided {
            Ok(decided) => decided,
            Err(refusal) => return self.reply(answer, Err(refusal)),
        };
        let then = move |daemon: &mut Daemon, ended: Ended| {
            daemon.note_silent(session, &ended);
            daemon.reply(answer, Ok(value));
        };
        self.wait(pending, [], WRITE_TIMEOUT, Box::new(then));
    }

    /// Ends pisted, once no session is left.
    pub fn shutdown(&mut self, force: bool, by: &Person, answer: Answer<()>) {
        if by.uid().is_some() {
            let refusal = Refusal::NoPermission {
                what: "ending root's pisted".into(),
                mend: "it also serves other users, so only root can end it".into(),
            };
            return self.reply(answer, Err(refusal));
        }
        let sessions = self.machine.open_session_ids();
        if !force && !sessions.is_empty() {
            let name = |&session: &SessionId| self.machine.session(session).identity.name.clone();
            return self.reply(
                answer,
                Err(Refusal::SessionsExist {
                    names: sessions.iter().map(name).collect(),
                }),
            );
        }
        let now = clock::now();
        let requests: Vec<RequestId> = sessions
            .iter()
            .map(|&session| {
                self.recording_ends(session);
                self.machine.destroy(session, now)
            })
            .collect();
        let then = move |daemon: &mut Daemon, _: Ended| {
            let requests: Vec<RequestId> = sessions
                .iter()
                .filter_map(|&session| daemon.machine.close_kernel(session))
                .collect();
            let then = move |daemon: &mut Daemon, _: Ended| {
                daemon.after_rotations(sessions.clone(), move |daemon| {
                    sessions.into_iter().for_each(|session| daemon.forget_session(session));
                    daemon.is_over = true;
                    daemon.reply(answer, Ok(()));
                });
            };
            daemon.wait(Pending::default(), requests, WRITE_TIMEOUT, Box::new(then));
        };
        self.wait(Pending::default(), requests, WRITE_TIMEOUT, Box::new(then));
    }
}
