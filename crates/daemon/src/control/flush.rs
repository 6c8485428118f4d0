// SPDX-License-Identifier: MIT OR Apache-2.0
//! Flushes, in the daemon's thread: whoever follows a trace learns until when it is complete.
//!
//! The time is read before the consumers are asked. They write everything that was recorded by then, and what comes later has a later time.

use std::time::Duration;

use piste_ring::ClockSource;

use super::daemon::Daemon;
use super::host;
use super::inbox::Answer;
use super::reports::refusal_of;
use super::status::count;
use super::waiting::Ended;
use crate::consumer::clock::now_ticks;
use crate::link::{Failure, SessionId};
use crate::session::commands::Asked;
use crate::session::{Pending, Refusal};

/// How long a follower is kept waiting. Whoever does not hear from pisted for 3 s goes on without it.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// A trace was flushed.
#[allow(missing_docs, reason = "documented in crates/control/src/dev.piste.Control.varlink")]
pub struct Flushed {
    pub id: String,
    pub until: i64,
    pub late: Vec<String>,
}

impl Daemon {
    /// Has everything written that was recorded by now, and answers then. Of a session that is being stopped or destroyed, that is when nothing
    /// more is written.
    pub fn flush(&mut self, asked: &Asked, answer: Answer<Flushed>) {
        let found = self.machine.find_session_or_its_end(asked);
        let asked = found.map(|session| {
            let trace = &self.machine.session(session).identity.trace;
            let id = host::hex(trace.uuid);
            let clock = match &*trace.clock.name {
                "x86-tsc" => ClockSource::Tsc,
                _ => ClockSource::Monotonic,
            };
            let until = count(now_ticks(clock));
            let requests = match self.ending.get_mut(&session) {
                Some(waiting) => {
                    let request = self.machine.own_request();
                    waiting.push(request);
                    vec![request]
                }
                None => self.machine.flush(session),
            };
            (id, until, requests)
        });
        match asked {
            Err(refusal) => self.reply(answer, Err(refusal)),
            Ok((id, until, requests)) => {
                let then = move |daemon: &mut Daemon, ended: Ended| {
                    let flushed = late_of(ended).map(|late| Flushed { id, until, late });
                    daemon.reply(answer, flushed);
                };
                self.wait(Pending::default(), requests, FLUSH_TIMEOUT, Box::new(then));
            }
        }
    }

    /// A session is being stopped or destroyed: it is written to until then.
    pub(super) fn recording_ends(&mut self, session: SessionId) {
        self.ending.entry(session).or_default();
    }

    /// Nothing more is written of it.
    pub(super) fn recording_has_ended(&mut self, session: SessionId) {
        for request in self.ending.remove(&session).unwrap_or_default() {
            self.waiting.done(request, Ok(Vec::new()));
        }
    }
}

/// Whose events come late, if everything else is written.
fn late_of(ended: Ended) -> Result<Vec<String>, Refusal> {
    let mut late = Vec::new();
    for outcome in ended.outcomes {
        match outcome {
            Ok(_) => {}
            Err(Failure::Unfinished { programs }) => late.extend(programs),
            Err(failure) => return Err(refusal_of(failure)),
        }
    }
    Ok(late)
}
