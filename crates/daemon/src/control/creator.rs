// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sessions that are bound to the process which created them, as those of `piste record` are: when it ends without having destroyed its
//! session, killed as may be, pisted does.

use std::io;

use piste_reason::reason;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::daemon::Daemon;
use super::host;
use super::poll::Watched;
use super::rotation::destroyed_meanwhile;
use crate::link::SessionId;
use crate::session::{Process, Refusal, Session, SessionState};

/// A process that runs.
pub fn of(pid: Pid) -> Process {
    let pid = pid.as_raw_nonzero().get();
    Process {
        pid,
        start: host::process_start(pid).unwrap_or(0),
    }
}

impl Daemon {
    /// Waits for the end of the process that a session is bound to, if it is to any.
    pub(super) fn watch_creator(&mut self, session: SessionId) {
        let Some(creator) = self.machine.session(session).identity.bound_to else {
            return;
        };
        // Opened before it is looked at: from then on the number cannot be another one's.
        let opened = Pid::from_raw(creator.pid).map_or(Err(Errno::SRCH), |pid| pidfd_open(pid, PidfdFlags::empty()));
        let watched = match opened {
            Ok(_) | Err(Errno::SRCH) if host::process_start(creator.pid) != Some(creator.start) => {
                return self.creator_ended(session);
            }
            opened => opened.map_err(io::Error::from).and_then(|process| {
                self.poll.add(&process, Watched::Creator(session))?;
                Ok(process)
            }),
        };
        match watched {
            Ok(process) => drop(self.creators.insert(session, process)),
            Err(error) => {
                let what = format!(
                    "it does not end together with process {}, which created it: {}",
                    creator.pid,
                    reason(&error)
                );
                self.machine.add_finding(session, what);
            }
        }
    }

    /// The process has ended that a session is bound to. What only memory has of the session is written first.
    pub(super) fn creator_ended(&mut self, session: SessionId) {
        self.creators.remove(&session);
        if !self.is_open(session) {
            return;
        }
        let Session { identity, state, .. } = self.machine.session(session);
        let (name, output, owner) = (&identity.name, identity.output.display(), identity.owner.clone());
        eprintln!("pisted: ending session {name}, which records to {output}: the process that created it has ended");
        if identity.snapshot && *state != SessionState::Inactive {
            self.snapshot(session, None, owner, move |daemon, _| {
                if daemon.is_open(session) {
                    daemon.end_session(session, |_, _| {});
                }
            });
        } else {
            self.end_session(session, |_, _| {});
        }
    }

    /// For what goes on with a session after a while.
    pub(super) fn still_open(&self, session: SessionId) -> Result<(), Refusal> {
        if self.is_open(session) {
            return Ok(());
        }
        Err(destroyed_meanwhile())
    }

    /// Nobody destroys it yet.
    fn is_open(&self, session: SessionId) -> bool {
        let state = self.machine.sessions().get(session).map(|session| session.state);
        state.is_some_and(|state| state != SessionState::Closing)
    }
}
