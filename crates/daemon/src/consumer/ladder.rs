// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a session of either domain does that streams, from step to step: it begins the rotations that somebody asked for, writes what its rings
//! have, and ends once all of it is written.
//!
//! A trace that cannot be written now is tried again ever more rarely (storage.rs); what is not written stays in the rings. A session that ends
//! waits for that, but not for long. It waits longer for what can be written: on a busy machine, a large state dump takes a while.

use std::time::{Duration, Instant};

use super::chunks::{Asked, Chunks};
use super::outbox::Outbox;
use super::stage::{Again, Stage};
use super::storage::{Storage, StorageError};
use crate::link::{Failure, RequestId, Rotation, ToControl};

/// How long a session that ends tries to write to a disk that is full.
const RETRY_FOR: Duration = Duration::from_secs(2);

/// How long a session that ends writes what its rings and its state dump still have, as long as that succeeds.
const WRITE_FOR: Duration = Duration::from_secs(60);

/// How soon to look again at rings that are being emptied.
pub(crate) const SOON: Duration = Duration::from_millis(1);

/// What the thread of a session has.
pub(crate) trait Surroundings {
    fn now(&self) -> Instant;
    fn outbox(&self) -> &Outbox;
}

/// What could not be written.
pub(crate) trait Unwritten {
    /// The same as the answer to a request.
    fn failure(&self) -> Failure;
}

impl Unwritten for StorageError {
    fn failure(&self) -> Failure {
        StorageError::failure(self)
    }
}

/// A session that streams.
pub(crate) trait Streaming {
    type Surroundings<'a>: Surroundings;
    /// What could not be written.
    type Failed: Unwritten;

    fn stage(&self) -> &Stage;
    fn storage(&mut self) -> &mut Storage;
    fn chunks(&mut self) -> &mut Chunks;

    /// Before anything is written. True when nothing is to be written, until control says something.
    fn is_at_rest(&mut self, now: Instant) -> bool;

    /// Writes what the rings have. True when everything is written of those that are being emptied.
    ///
    /// # Errors
    /// The first thing that could not be written; the others are.
    fn write(&mut self, around: &mut Self::Surroundings<'_>) -> Result<bool, Self::Failed>;

    /// After a write that failed, and says why. People are told once.
    fn cannot_write(&mut self, failed: Self::Failed, around: &mut Self::Surroundings<'_>);

    /// Answers those who wait for a flush.
    fn flushed(&mut self, outcome: &Result<(), Failure>, around: &mut Self::Surroundings<'_>);

    /// After a write; `again`: the one before it had failed.
    fn has_written(&mut self, again: bool);

    /// Lets the next chunk begin, once everything that there is can be written.
    ///
    /// # Errors
    /// What could not be written. Everything is as before then.
    fn begin_chunk(
        &mut self,
        request: RequestId,
        rotation: Rotation,
        around: &mut Self::Surroundings<'_>,
    ) -> Result<(), StorageError>;

    /// Everything has moved on to the next chunk, or is given up. Returns who waits for it.
    fn end_chunk(&mut self) -> Vec<RequestId>;

    /// Gives up what could not be written when the session ends. What is in the rings stays there, unless it is closed.
    fn abandon(&mut self, around: &mut Self::Surroundings<'_>);

    /// Everything is written or given up.
    fn ended(&mut self, around: &mut Self::Surroundings<'_>) -> Again;

    /// When to look again, while the session neither ends nor moves on.
    fn next_look(&self) -> Again;
}

/// One look at all rings.
pub(crate) fn stream<S: Streaming>(session: &mut S, around: &mut S::Surroundings<'_>) -> Again {
    begin_rotations(session, around);
    let now = around.now();
    if session.is_at_rest(now) {
        return Again::Never;
    }
    let patience = if session.storage().is_failing() {
        RETRY_FOR
    } else {
        WRITE_FOR
    };
    let deadline = match session.stage() {
        Stage::Ending(ending) => Some(ending.since + patience),
        Stage::Started | Stage::Stopped => None,
    };
    let overdue = deadline.is_some_and(|deadline| now >= deadline);
    if let Some(pause) = session.storage().pause(now)
        && !overdue
    {
        let left = deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(now));
        return Again::After(pause.min(left));
    }
    let finished = match session.write(around) {
        Ok(finished) => {
            let again = session.storage().is_failing();
            session.storage().succeeded();
            session.has_written(again);
            finished
        }
        Err(failed) => {
            let why = failed.failure();
            session.storage().failed(why.clone(), now);
            session.flushed(&Err(why), around);
            session.cannot_write(failed, around);
            false
        }
    };
    let is_moving = session.chunks().moving().is_some();
    match session.stage() {
        Stage::Ending(_) if finished => session.ended(around),
        Stage::Ending(_) if overdue => {
            session.abandon(around);
            abandon_rotation(session, around);
            session.ended(around)
        }
        Stage::Ending(_) => Again::After(SOON),
        _ if is_moving => Again::After(SOON),
        Stage::Started | Stage::Stopped => session.next_look(),
    }
}

/// Begins the rotation that somebody asked for. One that cannot begin is refused.
fn begin_rotations<S: Streaming>(session: &mut S, around: &mut S::Surroundings<'_>) {
    while let Some(asked) = session.chunks().next_asked() {
        let (request, rotation) = match asked {
            Asked::Over(request) => {
                answer(session, vec![request], around);
                continue;
            }
            Asked::Begin(request, rotation) => (request, rotation),
        };
        if let Err(error) = session.begin_chunk(request, rotation, around) {
            let outcome = Err(error.failure());
            around.outbox().send(&ToControl::Done { request, outcome });
        }
    }
}

/// Everything has moved on to the next chunk.
pub(crate) fn end_rotation<S: Streaming>(session: &mut S, around: &S::Surroundings<'_>) {
    let requests = session.end_chunk();
    answer(session, requests, around);
}

fn answer<S: Streaming>(session: &mut S, requests: Vec<RequestId>, around: &S::Surroundings<'_>) {
    for request in requests {
        let outcome = Ok(session.chunks().archived());
        around.outbox().send(&ToControl::Done { request, outcome });
    }
}

/// The session is closed, and what is left of the old chunk cannot be written.
fn abandon_rotation<S: Streaming>(session: &mut S, around: &S::Surroundings<'_>) {
    if !session.stage().is_closing() {
        return;
    }
    let what = "the chunk is incomplete: they could not be written when the session was closed";
    for request in session.end_chunk() {
        let outcome = Err(Failure::Other { what: what.into() });
        around.outbox().send(&ToControl::Done { request, outcome });
    }
}
