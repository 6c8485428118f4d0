// SPDX-License-Identifier: MIT OR Apache-2.0
//! Start, stop and snapshots, in the daemon's thread: each domain in its turn, and one answer for both.

use std::path::PathBuf;

use piste_control::interface as shown;

use super::daemon::{Daemon, WRITE_TIMEOUT};
use super::inbox::Answer;
use super::output::{make_output, not_made, time_stamp};
use super::reports::refusal_of;
use super::rotation::destroyed_meanwhile;
use super::waiting::{Ended, Outcome};
use super::{clock, status};
use crate::link::{ChannelTotals, Domain, SessionId};
use crate::person::{Output, Person};
use crate::session::commands::Asked;
use crate::session::{Pending, Refusal, Starting};

/// A snapshot that was taken.
#[allow(missing_docs, reason = "documented in crates/control/src/dev.piste.Control.varlink")]
pub struct SnapshotTaken {
    pub output: String,
    pub events: i64,
    pub bytes: i64,
    pub packets: i64,
}

impl Daemon {
    /// Starts a session; answers when the kernel, the programs and their consumer record.
    pub fn start(&mut self, session: &Asked, answer: Answer<shown::SessionStatus>) {
        match self.machine.find_own_session(session) {
            Err(refusal) => self.reply(answer, Err(refusal)),
            Ok(session) => self.start_session(session, move |daemon, started| {
                let status = started.map(|()| daemon.status_of(session));
                daemon.reply(answer, status);
            }),
        }
    }

    /// Starts a session that was found; goes on when everything records. Where that succeeded, the session is still there.
    pub(super) fn start_session(
        &mut self,
        session: SessionId,
        done: impl FnOnce(&mut Daemon, Result<(), Refusal>) + 'static,
    ) {
        match self.machine.start(session, clock::now()) {
            Err(refusal) => done(self, Err(refusal)),
            Ok(Starting::Programs(pending)) => self.wait_for_programs(session, pending, Ok(()), done),
            Ok(Starting::Kernel(request)) => {
                self.wait_for_kernel(session, Some(request), move |daemon, kernel| {
                    // Somebody may have stopped it meanwhile.
                    if daemon.machine.is_active(session) {
                        let pending = daemon.machine.start_programs(session);
                        daemon.wait_for_programs(session, pending, kernel, done);
                    } else {
                        done(daemon, kernel);
                    }
                });
            }
        }
    }

    fn wait_for_programs(
        &mut self,
        session: SessionId,
        pending: Pending,
        kernel: Result<(), Refusal>,
        done: impl FnOnce(&mut Daemon, Result<(), Refusal>) + 'static,
    ) {
        let then = move |daemon: &mut Daemon, ended: Ended| {
            if daemon.machine.sessions().get(session).is_none() {
                return done(daemon, Err(destroyed_meanwhile()));
            }
            daemon.note_silent(session, &ended);
            let mut outcomes = ended.outcomes.into_iter();
            let programs = outcomes.try_for_each(|outcome| daemon.learn(session, Domain::User, outcome));
            done(daemon, kernel.and(programs));
        };
        self.wait(pending, [], WRITE_TIMEOUT, Box::new(then));
    }

    /// Stops a session; answers when everything is written.
    pub fn stop(&mut self, session: &Asked, answer: Answer<shown::SessionStatus>) {
        match self.machine.find_own_session(session) {
            Err(refusal) => self.reply(answer, Err(refusal)),
            Ok(session) => self.stop_session(session, move |daemon, stopped| {
                let status = stopped.map(|()| daemon.status_of(session));
                daemon.reply(answer, status);
            }),
        }
    }

    /// Stops a session that was found; goes on when everything is written. Where that succeeded, the session is still there.
    pub(super) fn stop_session(
        &mut self,
        session: SessionId,
        done: impl FnOnce(&mut Daemon, Result<(), Refusal>) + 'static,
    ) {
        let request = match self.machine.stop(session, clock::now()) {
            Ok(request) => request,
            Err(refusal) => return done(self, Err(refusal)),
        };
        self.recording_ends(session);
        self.wait_for_consumer(session, request, move |daemon, outcome| {
            let programs = daemon.learn(session, Domain::User, outcome);
            let stop = daemon.machine.stop_kernel(session);
            daemon.wait_for_kernel(session, stop, move |daemon, kernel| {
                daemon.recording_has_ended(session);
                done(daemon, programs.and(kernel));
            });
        });
    }

    /// Writes a snapshot: for whoever is `asking`, to a folder of that person's; beside others of the session, for its owner.
    pub fn snapshot_record(
        &mut self,
        session: &Asked,
        output: Option<String>,
        asking: Person,
        answer: Answer<SnapshotTaken>,
    ) {
        match self.machine.find_own_session(session) {
            Ok(session) => self.snapshot(session, output, asking, |daemon, taken| daemon.reply(answer, taken)),
            Err(refusal) => self.reply(answer, Err(refusal)),
        }
    }

    /// The same of a session that is there; goes on when the snapshot is written.
    pub(super) fn snapshot(
        &mut self,
        session: SessionId,
        output: Option<String>,
        asking: Person,
        done: impl FnOnce(&mut Daemon, Result<SnapshotTaken, Refusal>) + Send + 'static,
    ) {
        let output = match self.snapshot_output(session, output, asking) {
            Ok(output) => output,
            Err(refusal) => return done(self, Err(refusal)),
        };
        let Output { folder, owner } = output.clone();
        self.with_files(
            move || make_output(&folder, &owner),
            move |daemon, made| {
                let made = made.unwrap_or_else(|error| Err(not_made(&output.folder, &error)));
                match made.and_then(|()| daemon.still_open(session)) {
                    Ok(()) => daemon.take_snapshot(session, output, done),
                    Err(refusal) => done(daemon, Err(refusal)),
                }
            },
        );
    }

    fn take_snapshot(
        &mut self,
        session: SessionId,
        output: Output,
        done: impl FnOnce(&mut Daemon, Result<SnapshotTaken, Refusal>) + 'static,
    ) {
        let Output { folder: output, owner } = output;
        let requests = self.machine.take_snapshot(session, output.clone(), owner);
        let then = move |daemon: &mut Daemon, ended: Ended| {
            let outcomes: Outcome = ended
                .outcomes
                .into_iter()
                .collect::<Result<Vec<_>, _>>()
                .map(|all| all.concat());
            let taken = outcomes.map_err(refusal_of).map(|totals| {
                let sum = |of: fn(&ChannelTotals) -> u64| status::count(totals.iter().map(of).sum::<u64>());
                SnapshotTaken {
                    output: output.to_string_lossy().into_owned(),
                    events: sum(|totals| totals.events),
                    bytes: sum(|totals| totals.bytes),
                    packets: sum(|totals| totals.packets),
                }
            });
            done(daemon, taken);
        };
        self.wait(Pending::default(), requests, WRITE_TIMEOUT, Box::new(then));
    }

    /// A snapshot counts only once its folder is made, which may take a while: until then `next` is also the number of others.
    fn number_snapshot(&mut self, session: SessionId, next: u64) -> u64 {
        let sessions = self.machine.sessions();
        self.snapshot_numbers
            .retain(|&session, _| sessions.get(session).is_some());
        let last = self.snapshot_numbers.entry(session).or_default();
        *last = next.max(*last + 1);
        *last
    }

    fn snapshot_output(
        &mut self,
        session: SessionId,
        output: Option<String>,
        asking: Person,
    ) -> Result<Output, Refusal> {
        let next = self.machine.next_snapshot(session)?;
        Ok(match output {
            Some(output) => Output {
                folder: PathBuf::from(output),
                owner: asking,
            },
            None => {
                let number = self.number_snapshot(session, next);
                let identity = &self.machine.session(session).identity;
                Output {
                    folder: identity.output.join(format!("snapshot-{number}-{}", time_stamp())),
                    owner: identity.owner.clone(),
                }
            }
        })
    }
}
