// SPDX-License-Identifier: MIT OR Apache-2.0
//! The flushes of a session: somebody follows its trace and asks for everything that was recorded by now; the answer says that it is written.
//!
//! One is done at a time. Who asks meanwhile is answered by the next one: all of them share that, and nobody holds up anybody else by asking
//! again and again.

use super::outbox::Outbox;
use crate::link::{Failure, RequestId, ToControl};

/// Those who wait for a flush; `Flush` is what is known of the one that is being done.
#[derive(Debug)]
pub(crate) struct Flushes<Flush> {
    running: Option<(Vec<RequestId>, Flush)>,
    waiting: Vec<RequestId>,
}

impl<Flush> Default for Flushes<Flush> {
    fn default() -> Self {
        Flushes {
            running: None,
            waiting: Vec::new(),
        }
    }
}

impl<Flush> Flushes<Flush> {
    /// Somebody asks.
    pub(crate) fn ask(&mut self, request: RequestId) {
        self.waiting.push(request);
    }

    /// Begins the next flush, if somebody waits for it and none is being done.
    pub(crate) fn begin(&mut self, flush: impl FnOnce() -> Flush) -> bool {
        let begins = self.running.is_none() && !self.waiting.is_empty();
        if begins {
            self.running = Some((std::mem::take(&mut self.waiting), flush()));
        }
        begins
    }

    /// The one that is being done.
    pub(crate) fn running(&mut self) -> Option<&mut Flush> {
        self.running.as_mut().map(|(_, flush)| flush)
    }

    /// Whether somebody waits.
    pub(crate) fn are_wanted(&self) -> bool {
        self.running.is_some() || !self.waiting.is_empty()
    }

    /// The one that is being done is over.
    pub(crate) fn end(&mut self, outcome: &Result<(), Failure>, outbox: &Outbox) {
        if let Some((requests, _)) = self.running.take() {
            answer(requests, outcome, outbox);
        }
    }

    /// Nobody needs to wait any more.
    pub(crate) fn end_all(&mut self, outcome: &Result<(), Failure>, outbox: &Outbox) {
        self.end(outcome, outbox);
        answer(std::mem::take(&mut self.waiting), outcome, outbox);
    }
}

fn answer(requests: Vec<RequestId>, outcome: &Result<(), Failure>, outbox: &Outbox) {
    for request in requests {
        let outcome = outcome.clone().map(|()| Vec::new());
        outbox.send(&ToControl::Done { request, outcome });
    }
}
