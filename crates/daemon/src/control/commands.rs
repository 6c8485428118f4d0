// SPDX-License-Identifier: MIT OR Apache-2.0
//! What people ask, done in the daemon's thread: names and folders that were left open are chosen here, then the machine
//! decides, and the answer waits for programs and the consumer as far as it has to.

use std::path::{Path, PathBuf};
use std::{fs, io};

use piste_control::interface as shown;
use piste_ctf::{EnvironmentValue, Trace};
use rustix::fs::{Access, access};

use super::clock;
use super::daemon::{Daemon, REPORT_TIMEOUT, WRITE_TIMEOUT};
use super::inbox::Answer;
use super::waiting::{Ended, Outcome};
use super::{host, status};
use crate::link::{ChannelTotals, Failure, RequestId, SessionId};
use crate::session::commands::RulesRequest;
use crate::session::settings::ChannelRequest;
use crate::session::{Pending, Refusal, SessionIdentity};

/// A session that is wanted.
#[allow(missing_docs, reason = "documented in crates/control/src/dev.piste.Control.varlink")]
pub struct SessionRequest {
    pub name: Option<String>,
    pub output: Option<String>,
    pub snapshot: bool,
    pub record_id: Option<String>,
}

/// A snapshot that was taken.
#[allow(missing_docs, reason = "documented in crates/control/src/dev.piste.Control.varlink")]
pub struct SnapshotTaken {
    pub output: String,
    pub events: i64,
    pub bytes: i64,
    pub packets: i64,
}

/// A channel's name and rules.
pub type ChannelRules = (String, Vec<shown::EventRule>);

impl Daemon {
    /// Creates a session and its folder.
    pub fn create_session(&mut self, wanted: SessionRequest, answer: Answer<shown::SessionStatus>) {
        let created = self.try_create_session(wanted);
        self.reply(answer, created.map(|session| self.status_of(session)));
    }

    fn try_create_session(&mut self, wanted: SessionRequest) -> Result<SessionId, Refusal> {
        let stamp = time_stamp();
        let name = wanted.name.unwrap_or_else(|| format!("auto-{stamp}"));
        self.machine.check_session_name(&name)?;
        let record_id =
            match wanted.record_id {
                None => None,
                Some(text) => Some(host::parse_hex(&text).filter(|id| *id != [0; 16]).ok_or(
                    Refusal::InvalidSetting {
                        setting: "record id",
                        value: text,
                        allowed: "32 hex digits, not all 0".into(),
                    },
                )?),
            };
        let output = match wanted.output {
            Some(output) => PathBuf::from(output),
            None => match host::home() {
                Some(home) => Path::new(&home).join("piste-traces").join(format!("{name}-{stamp}")),
                None => PathBuf::new(),
            },
        };
        make_output(&output)?;
        let trace = self.describe_trace(&name, &stamp);
        let identity = SessionIdentity {
            name,
            output,
            snapshot: wanted.snapshot,
            record_id,
            trace,
        };
        self.machine.create_session(identity)
    }

    fn describe_trace(&mut self, session: &str, stamp: &str) -> Trace {
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
    pub fn destroy_session(&mut self, session: Option<String>, answer: Answer<shown::SessionStatus>) {
        let session = match self.machine.find_session(session.as_deref()) {
            Ok(session) => session,
            Err(refusal) => return self.reply(answer, Err(refusal)),
        };
        let request = self.machine.destroy(session, clock::now());
        self.wait_for_consumer(session, request, move |daemon, outcome| {
            let ended = daemon.learn(session, outcome).map(|()| daemon.status_of(session));
            let output = daemon.machine.session(session).identity.output.clone();
            daemon.machine.session_ended(session);
            daemon.totals.remove(&session);
            // Nothing was recorded: an empty folder is of no use. One that is not empty stays.
            let _ = fs::remove_dir(output);
            daemon.reply(answer, ended);
        });
    }

    /// Makes a session the current one.
    pub fn set_current(&mut self, session: &str, answer: Answer<()>) {
        let set = self.machine.set_current(session);
        self.reply(answer, set);
    }

    /// Makes a channel.
    pub fn enable_channel(
        &mut self,
        session: Option<String>,
        wanted: &ChannelRequest,
        answer: Answer<shown::ChannelSettings>,
    ) {
        let session = self.machine.find_session(session.as_deref());
        let enabled = session.and_then(|session| self.machine.enable_channel(session, wanted));
        self.reply(answer, enabled.map(|settings| status::settings(&settings)));
    }

    /// Adds rules; answers when the programs follow them.
    pub fn enable_event(
        &mut self,
        session: Option<String>,
        channel: Option<String>,
        wanted: &RulesRequest,
        answer: Answer<ChannelRules>,
    ) {
        let changed = self.machine.find_session(session.as_deref()).and_then(|session| {
            let (channel, pending) = self.machine.enable_event(session, channel.as_deref(), wanted)?;
            Ok((session, channel, pending))
        });
        self.answer_rules(changed, answer);
    }

    /// Disables rules; answers when the programs follow them.
    pub fn disable_event(
        &mut self,
        session: Option<String>,
        channel: Option<String>,
        patterns: &[String],
        answer: Answer<ChannelRules>,
    ) {
        let changed = self.machine.find_session(session.as_deref()).and_then(|session| {
            let (channel, pending) = self.machine.disable_event(session, channel.as_deref(), patterns)?;
            Ok((session, channel, pending))
        });
        self.answer_rules(changed, answer);
    }

    fn answer_rules(&mut self, changed: Result<(SessionId, u32, Pending), Refusal>, answer: Answer<ChannelRules>) {
        let (session, channel, pending) = match changed {
            Ok(changed) => changed,
            Err(refusal) => return self.reply(answer, Err(refusal)),
        };
        let state = &self.machine.session(session).channels[channel as usize];
        let rules = (state.settings.name.clone(), status::rules(&state.rules));
        let then = move |daemon: &mut Daemon, ended: Ended| {
            daemon.note_silent(session, &ended);
            daemon.reply(answer, Ok(rules));
        };
        self.wait(pending, [], WRITE_TIMEOUT, Box::new(then));
    }

    /// Starts a session; answers when programs and consumer record.
    pub fn start(&mut self, session: Option<String>, answer: Answer<shown::SessionStatus>) {
        let found = self.machine.find_session(session.as_deref());
        let started = found.and_then(|session| Ok((session, self.machine.start(session, clock::now())?)));
        let (session, pending) = match started {
            Ok(started) => started,
            Err(refusal) => return self.reply(answer, Err(refusal)),
        };
        let then = move |daemon: &mut Daemon, ended: Ended| {
            daemon.note_silent(session, &ended);
            let status = daemon.status_after(session, only(ended));
            daemon.reply(answer, status);
        };
        self.wait(pending, [], WRITE_TIMEOUT, Box::new(then));
    }

    /// Stops a session; answers when everything is written.
    pub fn stop(&mut self, session: Option<String>, answer: Answer<shown::SessionStatus>) {
        let found = self.machine.find_session(session.as_deref());
        let stopped = found.and_then(|session| Ok((session, self.machine.stop(session, clock::now())?)));
        match stopped {
            Err(refusal) => self.reply(answer, Err(refusal)),
            Ok((session, request)) => self.wait_for_consumer(session, request, move |daemon, outcome| {
                let status = daemon.status_after(session, outcome);
                daemon.reply(answer, status);
            }),
        }
    }

    /// Writes a snapshot.
    pub fn snapshot_record(&mut self, session: Option<String>, output: Option<String>, answer: Answer<SnapshotTaken>) {
        let (session, output) = match self.prepare_snapshot(session, output) {
            Ok(prepared) => prepared,
            Err(refusal) => return self.reply(answer, Err(refusal)),
        };
        let request = self.machine.take_snapshot(session, output.clone());
        self.wait_for_consumer(session, request, move |daemon, outcome| {
            daemon.reply(
                answer,
                outcome.map_err(refusal_of).map(|totals| {
                    let sum = |of: fn(&ChannelTotals) -> u64| status::count(totals.iter().map(of).sum::<u64>());
                    SnapshotTaken {
                        output: output.to_string_lossy().into_owned(),
                        events: sum(|totals| totals.events),
                        bytes: sum(|totals| totals.bytes),
                        packets: sum(|totals| totals.packets),
                    }
                }),
            );
        });
    }

    fn prepare_snapshot(
        &mut self,
        session: Option<String>,
        output: Option<String>,
    ) -> Result<(SessionId, PathBuf), Refusal> {
        let session = self.machine.find_session(session.as_deref())?;
        let number = self.machine.next_snapshot(session)?;
        let output = match output {
            Some(output) => PathBuf::from(output),
            None => {
                let folder = &self.machine.session(session).identity.output;
                folder.join(format!("snapshot-{number}-{}", time_stamp()))
            }
        };
        make_output(&output)?;
        Ok((session, output))
    }

    /// Answers with the status of one session.
    pub fn status(&mut self, session: Option<String>, answer: Answer<shown::SessionStatus>) {
        let session = match self.machine.find_session(session.as_deref()) {
            Ok(session) => session,
            Err(refusal) => return self.reply(answer, Err(refusal)),
        };
        self.report(vec![session], move |daemon| {
            let known = daemon.machine.sessions().get(session).is_some();
            let ended = Refusal::Internal {
                reason: "the session was destroyed meanwhile".into(),
            };
            daemon.reply(
                answer,
                if known {
                    Ok(daemon.status_of(session))
                } else {
                    Err(ended)
                },
            );
        });
    }

    /// Answers with the status of all sessions.
    pub fn list_sessions(&mut self, answer: Answer<Vec<shown::SessionStatus>>) {
        let sessions = self.machine.open_session_ids();
        self.report(sessions, move |daemon| {
            let sessions = daemon.machine.open_session_ids();
            daemon.reply(
                answer,
                Ok(sessions.into_iter().map(|session| daemon.status_of(session)).collect()),
            );
        });
    }

    /// Answers with the connected programs.
    pub fn list_programs(&mut self, answer: Answer<Vec<shown::Program>>) {
        self.reply(answer, Ok(status::programs(&self.machine)));
    }

    /// Ends pisted, once no session is left.
    pub fn shutdown(&mut self, force: bool, answer: Answer<()>) {
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
            .map(|&session| self.machine.destroy(session, now))
            .collect();
        let then = move |daemon: &mut Daemon, _: Ended| {
            sessions
                .into_iter()
                .for_each(|session| daemon.machine.session_ended(session));
            daemon.ending = true;
            daemon.reply(answer, Ok(()));
        };
        self.wait(Pending::default(), requests, WRITE_TIMEOUT, Box::new(then));
    }

    fn wait_for_consumer(
        &mut self,
        session: SessionId,
        request: RequestId,
        then: impl FnOnce(&mut Daemon, Outcome) + 'static,
    ) {
        let then = move |daemon: &mut Daemon, ended: Ended| {
            // It may have been destroyed by somebody else while the consumer was busy.
            if daemon.machine.sessions().get(session).is_some() {
                then(daemon, only(ended));
            }
        };
        self.wait(Pending::default(), [request], WRITE_TIMEOUT, Box::new(then));
    }

    /// Brings the totals of sessions up to date. Those of a consumer that is busy stay what they were.
    fn report(&mut self, sessions: Vec<SessionId>, then: impl FnOnce(&mut Daemon) + 'static) {
        let requests: Vec<RequestId> = sessions.iter().map(|&session| self.machine.report(session)).collect();
        let then = move |daemon: &mut Daemon, ended: Ended| {
            for (session, outcome) in sessions.into_iter().zip(ended.outcomes) {
                if let Err(refusal) = daemon.learn(session, outcome) {
                    daemon
                        .machine
                        .add_finding(session, format!("its counts are not of now: {}", reason_of(&refusal)));
                }
            }
            then(daemon);
        };
        self.wait(Pending::default(), requests, REPORT_TIMEOUT, Box::new(then));
    }

    fn learn(&mut self, session: SessionId, outcome: Outcome) -> Result<(), Refusal> {
        let totals = outcome.map_err(refusal_of)?;
        self.totals.insert(session, totals);
        Ok(())
    }

    fn status_after(&mut self, session: SessionId, outcome: Outcome) -> Result<shown::SessionStatus, Refusal> {
        self.learn(session, outcome)?;
        Ok(self.status_of(session))
    }

    fn status_of(&self, session: SessionId) -> shown::SessionStatus {
        let totals = self.totals.get(&session).map_or(&[][..], |totals| totals);
        status::session(&self.machine, session, totals, clock::now())
    }

    /// Programs that did not say that they follow.
    fn note_silent(&mut self, session: SessionId, ended: &Ended) {
        for &program in &ended.silent {
            let name = self.machine.program_name(program).unwrap_or("a program");
            let what = format!(
                "{name} (pid {}) did not answer; it may record later than asked",
                program.pid
            );
            self.machine.add_finding(session, what);
        }
    }
}

fn only(mut ended: Ended) -> Outcome {
    ended.outcomes.pop().expect("one request was waited for")
}

fn refusal_of(failure: Failure) -> Refusal {
    match failure {
        Failure::NoSpace { path } => Refusal::OutputFailed {
            path,
            reason: "No space left on device".into(),
        },
        Failure::NoPermission { path } => Refusal::OutputFailed {
            path,
            reason: "Permission denied".into(),
        },
        Failure::Other { what } => Refusal::ConsumerFailed { reason: what },
    }
}

fn reason_of(refusal: &Refusal) -> String {
    match refusal {
        Refusal::OutputFailed { path, reason } => format!("{}: {reason}", path.display()),
        Refusal::ConsumerFailed { reason } => format!("the consumer says: {reason}"),
        other => format!("{other:?}"),
    }
}

/// `20260131-235959`, in local time.
fn time_stamp() -> String {
    jiff::Zoned::now().strftime("%Y%m%d-%H%M%S").to_string()
}

/// Makes the folder of a trace, or sees that it is empty and can be written to.
fn make_output(path: &Path) -> Result<(), Refusal> {
    if !path.is_absolute() {
        return Err(Refusal::InvalidSetting {
            setting: "output",
            value: path.display().to_string(),
            allowed: "an absolute path".into(),
        });
    }
    let failed = |error: io::Error| Refusal::OutputFailed {
        path: path.into(),
        reason: without_number(&error),
    };
    match fs::read_dir(path) {
        Ok(mut entries) => {
            if entries.next().is_some() {
                return Err(Refusal::OutputExists { path: path.into() });
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => fs::create_dir_all(path).map_err(failed)?,
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            return Err(Refusal::OutputExists { path: path.into() });
        }
        Err(error) => return Err(failed(error)),
    }
    access(path, Access::WRITE_OK | Access::EXEC_OK).map_err(|error| failed(error.into()))
}

/// "No space left on device", without "(os error 28)".
fn without_number(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}
