// SPDX-License-Identifier: MIT OR Apache-2.0
//! What consumers answer, and what people are told of it.

use piste_control::interface as shown;

use super::daemon::{Daemon, REPORT_TIMEOUT, WRITE_TIMEOUT};
use super::inbox::Answer;
use super::program_list::{KNOWN_AT_ONCE, KnownProgram, known_programs};
use super::replies::sentence;
use super::status::Totals;
use super::waiting::{Ended, Outcome};
use super::{clock, status};
use crate::link::{Domain, Failure, RequestId, SessionId};
use crate::person::Person;
use crate::session::commands::Asked;
use crate::session::{Pending, ProgramId, Refusal};

impl Daemon {
    /// Answers with the status of one session.
    pub fn status(&mut self, session: Asked, answer: Answer<shown::SessionStatus>) {
        let by = session.by.clone();
        let session = match self.machine.find_session(&session) {
            Ok(session) => session,
            Err(refusal) => return self.reply(answer, Err(refusal)),
        };
        self.report(vec![session], move |daemon| {
            let known = daemon.machine.sessions().get(session).is_some();
            let ended = Refusal::Internal {
                reason: "the session was destroyed in the meantime".into(),
            };
            daemon.reply(
                answer,
                if known {
                    Ok(daemon.status_for(session, &by))
                } else {
                    Err(ended)
                },
            );
        });
    }

    /// Answers with the status of all sessions.
    pub fn list_sessions(&mut self, by: Person, answer: Answer<Vec<shown::SessionStatus>>) {
        let sessions = self.machine.named_session_ids();
        self.report(sessions, move |daemon| {
            let sessions = daemon.machine.named_session_ids().into_iter();
            let statuses = sessions.map(|session| daemon.status_for(session, &by)).collect();
            daemon.reply(answer, Ok(statuses));
        });
    }

    /// Answers with what is known of some connected programs: those that come after the given one, in the order of their ids.
    pub fn list_programs(&mut self, after: Option<ProgramId>, answer: Answer<Vec<KnownProgram>>) {
        let mut programs = known_programs(&self.machine, after);
        let foreign = self.connections.foreign.list();
        programs.extend(foreign.filter(|program| Some(program.id) > after));
        programs.sort_by_key(|program| program.id);
        programs.truncate(KNOWN_AT_ONCE);
        self.reply(answer, Ok(programs));
    }

    pub(super) fn wait_for_consumer(
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

    /// Goes on when the kernel consumer has answered, at once when it was not asked.
    pub(super) fn wait_for_kernel(
        &mut self,
        session: SessionId,
        request: Option<RequestId>,
        then: impl FnOnce(&mut Daemon, Result<(), Refusal>) + 'static,
    ) {
        match request {
            None => then(self, Ok(())),
            Some(request) => self.wait_for_consumer(session, request, move |daemon, outcome| {
                let learned = daemon.learn(session, Domain::Kernel, outcome);
                then(daemon, learned);
            }),
        }
    }

    /// Brings the totals of sessions up to date. Those of a consumer that is busy stay what they were, and their status says so.
    pub(super) fn report(&mut self, sessions: Vec<SessionId>, then: impl FnOnce(&mut Daemon) + 'static) {
        let mut asked = Vec::new();
        for session in sessions {
            let requests = self.machine.report(session);
            asked.extend(requests.into_iter().map(|(domain, request)| (session, domain, request)));
        }
        let requests: Vec<RequestId> = asked.iter().map(|&(_, _, request)| request).collect();
        let then = move |daemon: &mut Daemon, ended: Ended| {
            for ((session, domain, _), outcome) in asked.into_iter().zip(ended.outcomes) {
                if let Err(refusal) = daemon.learn(session, domain, outcome) {
                    daemon.outdated.insert((session, domain), sentence(refusal));
                }
            }
            then(daemon);
        };
        self.wait(Pending::default(), requests, REPORT_TIMEOUT, Box::new(then));
    }

    pub(super) fn learn(&mut self, session: SessionId, domain: Domain, outcome: Outcome) -> Result<(), Refusal> {
        let mut totals = outcome.map_err(refusal_of)?;
        for totals in &mut totals {
            // A consumer that was replaced knows only of its own time.
            let earlier = self.totals.get(&(session, domain)).into_iter().flatten();
            let mut earlier = earlier.filter(|earlier| earlier.stream_id == totals.stream_id);
            if let Some(earlier) = earlier.find_map(|earlier| earlier.fill) {
                let fill = totals.fill.get_or_insert_default();
                fill.most_percent = fill.most_percent.max(earlier.most_percent);
            }
        }
        self.totals.insert((session, domain), totals);
        self.outdated.remove(&(session, domain));
        self.compare_later(session);
        Ok(())
    }

    /// A session as its owner sees it.
    pub(super) fn status_of(&self, session: SessionId) -> shown::SessionStatus {
        self.status_for(session, &self.machine.session(session).identity.owner)
    }

    /// A session as somebody sees it.
    fn status_for(&self, session: SessionId, by: &Person) -> shown::SessionStatus {
        let of = |domain| self.totals.get(&(session, domain)).map_or(&[][..], |totals| totals);
        let totals = Totals {
            user: of(Domain::User),
            kernel: of(Domain::Kernel),
        };
        let mut status = status::session(&self.machine, session, totals, clock::now(), by);
        let outdated = Domain::ALL
            .into_iter()
            .filter_map(|domain| self.outdated.get(&(session, domain)));
        status.findings.extend(outdated.map(|why| shown::Finding {
            what: format!("its counts are outdated: {why}"),
            count: 1,
        }));
        status
    }

    /// Programs that did not say that they follow.
    pub(super) fn note_silent(&mut self, session: SessionId, ended: &Ended) {
        for &program in &ended.silent {
            let name = self.machine.program_name(program).unwrap_or("a program");
            let what = format!(
                "{name} (pid {}) did not answer; it may start or stop recording later than requested",
                program.pid
            );
            self.machine.add_finding(session, what);
        }
    }
}

fn only(mut ended: Ended) -> Outcome {
    ended.outcomes.pop().expect("one request was waited for")
}

/// Why something is not done that a consumer could not do.
pub fn refusal_of(failure: Failure) -> Refusal {
    match failure {
        Failure::NoSpace { path } => Refusal::OutputFailed {
            path,
            reason: "no space left on device".into(),
        },
        Failure::NoPermission { path } => Refusal::OutputFailed {
            path,
            reason: "permission denied".into(),
        },
        Failure::Unfinished { programs } => Refusal::ConsumerFailed {
            reason: format!(
                "these programs are stopped while they record an event: {}",
                programs.join(", ")
            ),
        },
        Failure::Other { what } => Refusal::ConsumerFailed { reason: what },
    }
}
