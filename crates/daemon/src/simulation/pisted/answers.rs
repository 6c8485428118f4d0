// SPDX-License-Identifier: MIT OR Apache-2.0
//! What people ask of a simulated control process, and what it does when a wait is over: control/commands.rs, recording.rs and rotation.rs
//! without the threads for files.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use super::super::contract::{Answer, Command, CommandId, FILTER, SessionCommand};
use super::Pisted;
use crate::consumer::continued;
use crate::control::archive;
use crate::control::carrier::Carrier;
use crate::control::daemon::WRITE_TIMEOUT;
use crate::control::waiting::{Ended, Outcome};
use crate::link::{Failure, SessionId};
use crate::person::Person;
use crate::session::commands::RulesRequest;
use crate::session::rules::Levels;
use crate::session::settings::ChannelRequest;
use crate::session::{Moment, Pending, Refusal, Session, SessionIdentity, Starting, tests};

/// As control's.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// What to do when a wait is over.
#[derive(Debug)]
pub(super) enum Then {
    Answer(CommandId),
    Stopped(CommandId),
    Reported(CommandId, SessionId),
    Flushed(CommandId, SessionId),
    /// Somebody may have asked for these.
    Closed(SessionId, Option<CommandId>),
    ChunkWritten(SessionId, Option<CommandId>),
    PlaceChunk(SessionId, Option<CommandId>, Result<(), Failure>),
}

impl Pisted {
    /// Ends the waits that are over, and tells programs that are behind.
    pub(in super::super) fn look_at_time(&mut self, now: Instant) {
        for (program, token) in self.machine.catch_up() {
            self.waiting.confirmed(program, token);
        }
        self.carry_out_effects();
        loop {
            for (program, token) in std::mem::take(&mut self.confirmed) {
                self.waiting.confirmed(program, token);
                self.machine.confirmed(program, token);
            }
            self.carry_out_effects();
            let machine = &self.machine;
            let is_connected = |program| machine.program_name(program).is_some();
            let ended = self.waiting.take_ended(now, is_connected);
            if ended.is_empty() || self.is_killed {
                return;
            }
            for (ended, then) in ended {
                self.go_on(ended, then, now);
                self.carry_out_effects();
            }
        }
    }

    fn go_on(&mut self, ended: Ended, then: Then, now: Instant) {
        let Ended { silent, outcomes } = ended;
        let outcome: Outcome = outcomes
            .into_iter()
            .collect::<Result<Vec<_>, _>>()
            .map(|all| all.concat());
        match then {
            Then::Answer(command) => {
                let answer = match outcome {
                    Ok(_) => Answer::Done { silent },
                    Err(failure) => Answer::Failed(failure),
                };
                self.answer(command, answer);
            }
            Then::Stopped(command) => self.answer(command, outcome.map_or_else(Answer::Failed, Answer::Ended)),
            Then::Reported(command, session) => {
                let is_active = self.machine.is_active(session);
                let answer = outcome.map_or_else(Answer::Failed, |_| Answer::Reported { is_active });
                self.answer(command, answer);
            }
            Then::Flushed(command, session) => {
                let answer = outcome.map_or_else(Answer::Failed, |_| Answer::Flushed(session));
                self.answer(command, answer);
            }
            Then::ChunkWritten(session, command) => self.chunk_written(session, command, outcome.map(drop), now),
            Then::PlaceChunk(session, command, written) => self.place_chunk(session, command, written),
            Then::Closed(session, command) => {
                self.closed.push((session, command, outcome));
                self.end_sessions();
            }
        }
    }

    /// The consumer has done its part of a rotation, as control/rotation.rs goes on then.
    fn chunk_written(
        &mut self,
        session: SessionId,
        command: Option<CommandId>,
        written: Result<(), Failure>,
        now: Instant,
    ) {
        let state = self
            .machine
            .sessions()
            .get(session)
            .expect("its end waits for rotations");
        let chunk = state.rotated_chunk().expect("it is being rotated");
        if written.is_err() && !state.has_written_part() && archive::remove_empty(&chunk, &Person::default()) {
            self.machine.abandon_rotation(session);
            self.carry_out_effects();
            self.rotated(command, written);
            return self.end_sessions();
        }
        let pending = self.machine.chunk_written(session);
        let then = Then::PlaceChunk(session, command, written);
        self.waiting.add(pending, [], WRITE_TIMEOUT, now, then);
    }

    fn place_chunk(&mut self, session: SessionId, command: Option<CommandId>, written: Result<(), Failure>) {
        let state = self.machine.session(session);
        let chunk = state.rotated_chunk().expect("it is being rotated");
        // As control/archive.rs does, but for the disk's caches.
        if chunk.hidden.exists() {
            for part in fs::read_dir(&chunk.hidden).expect("the folder is there") {
                continued::remove(&part.expect("the folder is there").path()).expect("it can be removed");
            }
            fs::rename(&chunk.hidden, &chunk.place).expect("it has no name yet");
        }
        self.machine.end_rotation(session);
        self.carry_out_effects();
        self.rotated(command, written);
        self.end_sessions();
    }

    fn rotated(&mut self, command: Option<CommandId>, written: Result<(), Failure>) {
        if let Some(command) = command {
            self.answer(command, written.map_or_else(Answer::Failed, |()| Answer::Rotated));
        }
    }

    /// Ends the sessions that are closed and that nobody rotates.
    fn end_sessions(&mut self) {
        let machine = &self.machine;
        let is_rotating = |session: SessionId| machine.session(session).chunks.rotating.is_some();
        let ended: Vec<_> = self
            .closed
            .extract_if(.., |(session, ..)| !is_rotating(*session))
            .collect();
        for (session, command, outcome) in ended {
            self.machine.session_ended(session);
            self.carry_out_effects();
            if let Some(command) = command {
                self.answer(command, outcome.map_or_else(Answer::Failed, Answer::Ended));
            }
        }
    }

    /// Goes on with the rotations that an earlier pisted left.
    pub(super) fn resume_rotations(&mut self, now: Instant) {
        let is_written = |session: &Session| session.chunks.rotating.is_some_and(|rotating| rotating.is_written);
        let sessions = self.machine.sessions().iter();
        let written: Vec<SessionId> = sessions
            .filter(|(_, session)| is_written(session))
            .map(|(id, _)| id)
            .collect();
        for session in written {
            self.place_chunk(session, None, Ok(()));
        }
        for (session, asked) in self.machine.rotate_again() {
            let requests = asked.into_iter().map(|(_, request)| request);
            let then = Then::ChunkWritten(session, None);
            self.waiting.add(Pending::default(), requests, FOREVER, now, then);
        }
    }

    fn answer(&mut self, command: CommandId, answer: Answer) {
        if !self.dies() {
            self.log.push(format!("answer to {command}: {answer:?}"));
            self.answers.push((command, answer));
        }
    }

    /// Does what somebody asks. The answer may come later.
    ///
    /// # Errors
    /// It is refused.
    pub(in super::super) fn obey(&mut self, id: CommandId, command: &Command, now: Instant) -> Result<(), Refusal> {
        let (session, of_session) = match command {
            Command::Create { name, output } => {
                let session = self.machine.create_session(identity(name, output))?;
                self.carry_out_effects();
                self.answer(id, Answer::Created(session));
                return Ok(());
            }
            &Command::OfSession(session, ref of_session) => (session, of_session),
        };
        let at = Moment::default();
        let programs = |pending| (pending, vec![], Then::Answer(id));
        let (pending, requests, then) = match of_session {
            SessionCommand::EnableEvent(pattern, filter) => {
                let rules = RulesRequest {
                    patterns: vec![pattern.clone()],
                    excluded: vec![],
                    levels: Levels::ALL,
                    filter: filter.map(|kind| format!("{FILTER}{kind}")),
                };
                if self.machine.session(session).channels.is_empty() {
                    self.machine.enable_channel(session, &channel())?;
                }
                programs(self.machine.enable_event(session, None, &rules)?.1)
            }
            SessionCommand::DisableEvent(pattern) => {
                let patterns: Vec<String> = pattern.iter().cloned().collect();
                programs(self.machine.disable_event(session, None, &patterns)?.1)
            }
            SessionCommand::EnableChannel => programs(self.machine.enable_channel(session, &channel())?.1),
            SessionCommand::DisableChannel => programs(self.machine.disable_channel(session, &channel().name)?.1),
            SessionCommand::Start => match self.machine.start(session, at)? {
                Starting::Programs(pending) => programs(pending),
                Starting::Kernel(_) => unreachable!("there is no kernel channel"),
            },
            SessionCommand::Stop => {
                let request = self.machine.stop(session, at)?;
                (Pending::default(), vec![request], Then::Stopped(id))
            }
            SessionCommand::Destroy => {
                let request = self.machine.destroy(session, at);
                (Pending::default(), vec![request], Then::Closed(session, Some(id)))
            }
            SessionCommand::Flush => {
                let requests = self.machine.flush(session);
                (Pending::default(), requests, Then::Flushed(id, session))
            }
            SessionCommand::Rotate => {
                let chunk = self.machine.next_chunk(session, at)?;
                archive::make(&chunk, &Person::default()).expect("control's disk works");
                let asked = self.machine.begin_rotation(session, at);
                let requests = asked.into_iter().map(|(_, request)| request);
                let then = Then::ChunkWritten(session, Some(id));
                self.waiting.add(Pending::default(), requests, FOREVER, now, then);
                self.carry_out_effects();
                return Ok(());
            }
            SessionCommand::Report => {
                let requests = self.machine.report(session).into_iter().map(|(_, request)| request);
                (Pending::default(), requests.collect(), Then::Reported(id, session))
            }
        };
        self.waiting.add(pending, requests, WRITE_TIMEOUT, now, then);
        self.carry_out_effects();
        Ok(())
    }
}

fn channel() -> ChannelRequest {
    ChannelRequest {
        name: "default".into(),
        subbuf_bytes: Some(4096),
        subbuf_count: Some(2),
        contexts: Some(vec![]),
        ..ChannelRequest::default()
    }
}

fn identity(name: &str, output: &Path) -> SessionIdentity {
    SessionIdentity {
        output: output.into(),
        ..tests::identity(name)
    }
}
