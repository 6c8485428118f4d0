// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes of what a session is about that people ask for, done in the daemon's thread.

use piste_control::interface as shown;

use super::daemon::{Daemon, WRITE_TIMEOUT};
use super::inbox::Answer;
use super::tracked_words;
use super::waiting::Ended;
use crate::link::{Domain, SessionId};
use crate::session::commands::Asked;
use crate::session::tracking::TrackingChange;
use crate::session::{Pending, Refusal};

impl Daemon {
    /// Changes which programs a session is about; answers when those that run follow.
    pub fn change_tracked_programs(
        &mut self,
        session: &Asked,
        change: &TrackingChange,
        answer: Answer<shown::Tracked>,
    ) {
        match self.change_tracked(session, Domain::User, change) {
            Err(refusal) => self.reply(answer, Err(refusal)),
            Ok((session, tracked, pending)) => {
                let then = move |daemon: &mut Daemon, ended: Ended| {
                    daemon.note_silent(session, &ended);
                    daemon.reply(answer, Ok(tracked));
                };
                self.wait(pending, [], WRITE_TIMEOUT, Box::new(then));
            }
        }
    }

    /// Changes which threads and CPUs the kernel channels of a session are about; answers when the kernel follows.
    pub fn change_tracked_threads(&mut self, session: &Asked, change: &TrackingChange, answer: Answer<shown::Tracked>) {
        let changed = self.change_tracked(session, Domain::Kernel, change);
        let changed = changed.map(|(session, tracked, pending)| (session, tracked, pending.request));
        self.answer_after_kernel(changed, answer);
    }

    fn change_tracked(
        &mut self,
        session: &Asked,
        domain: Domain,
        change: &TrackingChange,
    ) -> Result<(SessionId, shown::Tracked, Pending), Refusal> {
        let session = self.machine.find_own_session(session)?;
        let pending = self.machine.change_tracked(session, domain, change)?;
        let tracked = tracked_words::shown(self.machine.session(session).tracked(domain));
        Ok((session, tracked, pending))
    }
}
