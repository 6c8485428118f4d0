// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rotations, in the daemon's thread: the consumers write the chunk, a thread of its own puts it on the disk and into its place
//! (archive.rs), and whoever wants the session destroyed waits for that.

use std::convert::identity;
use std::io;
use std::time::Duration;

use piste_reason::reason;

use super::daemon::{Daemon, WRITE_TIMEOUT};
use super::inbox::Answer;
use super::output::not_made;
use super::reports::refusal_of;
use super::waiting::Ended;
use super::{archive, clock, status};
use crate::link::{ChannelTotals, Domain, RequestId, SessionId};
use crate::session::commands::Asked;
use crate::session::{Chunk, Pending, Refusal};

/// A consumer without space on its disk waits for some.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// A chunk that was finished.
#[allow(missing_docs, reason = "documented in crates/control/src/dev.piste.Control.varlink")]
pub struct ChunkFinished {
    pub number: i64,
    pub output: String,
    pub events: i64,
    pub bytes: i64,
    pub packets: i64,
}

/// What to do when a rotation is over.
type Done = Box<dyn FnOnce(&mut Daemon, Result<ChunkFinished, Refusal>) + Send>;

/// What waits for the end of the rotations of some sessions.
pub(super) struct AfterRotations {
    sessions: Vec<SessionId>,
    then: Box<dyn FnOnce(&mut Daemon)>,
}

impl Daemon {
    /// Ends the chunk of a session and begins the next; answers when it is in its place.
    pub fn rotate(&mut self, session: &Asked, answer: Answer<ChunkFinished>) {
        match self.machine.find_own_session(session) {
            Ok(session) => self.rotate_session(session, |daemon, finished| daemon.reply(answer, finished)),
            Err(refusal) => self.reply(answer, Err(refusal)),
        }
    }

    /// The same of a session that was found.
    pub(super) fn rotate_session(
        &mut self,
        session: SessionId,
        done: impl FnOnce(&mut Daemon, Result<ChunkFinished, Refusal>) + Send + 'static,
    ) {
        let now = clock::now();
        let chunk = match self.machine.next_chunk(session, now) {
            Ok(chunk) => chunk,
            Err(refusal) => return done(self, Err(refusal)),
        };
        if self.making_chunk.contains(&session) {
            let name = self.machine.session(session).identity.name.clone();
            return done(self, Err(Refusal::RotationInProgress { session: name }));
        }
        self.making_chunk.insert(session);
        let owner = self.machine.session(session).identity.owner.clone();
        let (to_make, maker) = (chunk.clone(), owner.clone());
        self.with_files(
            move || archive::make(&to_make, &maker),
            move |daemon, made| {
                let made = made.and_then(identity).map_err(|error| not_made(&chunk.hidden, &error));
                match made.and_then(|()| daemon.still_open(session)) {
                    Ok(()) => {
                        daemon.making_chunk.remove(&session);
                        let asked = daemon.machine.begin_rotation(session, now);
                        daemon.wait_for_chunk(session, asked, Box::new(done));
                    }
                    // The folder goes again before the session does.
                    Err(refusal) => daemon.with_files(
                        move || archive::remove_empty(&chunk, &owner),
                        move |daemon, _| {
                            daemon.making_chunk.remove(&session);
                            done(daemon, Err(refusal));
                            daemon.go_on_after_rotations();
                        },
                    ),
                }
            },
        );
    }

    /// Goes on with the rotations that an earlier pisted left.
    pub(super) fn resume_rotations(&mut self) {
        let nobody = || -> Done { Box::new(|_, _| {}) };
        let sessions = self.machine.sessions().iter();
        let written: Vec<SessionId> = sessions
            .filter(|(_, session)| session.chunks.rotating.is_some_and(|rotating| rotating.is_written))
            .map(|(id, _)| id)
            .collect();
        for session in written {
            self.place_chunk(session, Ok(ChannelTotals::default()), nobody());
        }
        for (session, asked) in self.machine.rotate_again() {
            self.wait_for_chunk(session, asked, nobody());
        }
    }

    fn wait_for_chunk(&mut self, session: SessionId, asked: Vec<(Domain, RequestId)>, done: Done) {
        let requests = asked.into_iter().map(|(_, request)| request);
        let before = self.machine.sum_of_archived(session);
        let then = move |daemon: &mut Daemon, ended: Ended| {
            let refusal = ended.outcomes.into_iter().find_map(Result::err).map(refusal_of);
            daemon.chunk_written(session, &before, refusal, done);
        };
        self.wait(Pending::default(), requests, FOREVER, Box::new(then));
    }

    /// The consumers have done their part. A chunk of which a part could not be written is one all the same, when it has any.
    fn chunk_written(&mut self, session: SessionId, before: &ChannelTotals, refusal: Option<Refusal>, done: Done) {
        let state = self.machine.sessions().get(session);
        let Some((state, chunk)) = state.and_then(|state| Some((state, state.rotated_chunk()?))) else {
            return done(self, Err(destroyed_meanwhile()));
        };
        let has = self.machine.sum_of_archived(session).since(before);
        let Some(refused) = refusal.clone().filter(|_| !state.has_written_part()) else {
            return self.keep_chunk(session, refusal.map_or(Ok(has), Err), done);
        };
        let owner = state.identity.owner.clone();
        self.with_files(
            move || archive::remove_empty(&chunk, &owner),
            move |daemon, is_removed| match is_removed {
                Ok(true) => {
                    daemon.machine.abandon_rotation(session);
                    done(daemon, Err(refused));
                    daemon.go_on_after_rotations();
                }
                Ok(false) | Err(_) => daemon.keep_chunk(session, Err(refused), done),
            },
        );
    }

    fn keep_chunk(&mut self, session: SessionId, has: Result<ChannelTotals, Refusal>, done: Done) {
        let pending = self.machine.chunk_written(session);
        // The next chunk begins with the programs' state dumps; another rotation may follow the answer at once.
        let then = move |daemon: &mut Daemon, _: Ended| daemon.place_chunk(session, has, done);
        self.wait(pending, [], WRITE_TIMEOUT, Box::new(then));
    }

    /// Writing the whole chunk to the disk takes a while.
    fn place_chunk(&mut self, session: SessionId, has: Result<ChannelTotals, Refusal>, done: Done) {
        let state = self.machine.sessions().get(session);
        let Some(chunk) = state.and_then(|state| state.rotated_chunk()) else {
            return done(self, Err(destroyed_meanwhile()));
        };
        let to_place = chunk.clone();
        let owner = self.machine.session(session).identity.owner.clone();
        self.with_files(
            move || archive::place(&to_place, &owner),
            move |daemon, placed| daemon.chunk_placed(session, chunk, placed.and_then(identity), has, done),
        );
    }

    fn chunk_placed(
        &mut self,
        session: SessionId,
        chunk: Chunk,
        placed: io::Result<()>,
        has: Result<ChannelTotals, Refusal>,
        done: Done,
    ) {
        self.machine.end_rotation(session);
        let placed = placed.map_err(|error| {
            let what = format!(
                "cannot move chunk {}; it stays in {}: {}",
                chunk.number,
                chunk.hidden.display(),
                reason(&error)
            );
            self.machine.add_finding(session, what);
            not_made(&chunk.place, &error)
        });
        let finished = has.and_then(|has| {
            placed?;
            Ok(ChunkFinished {
                number: status::count(chunk.number),
                output: chunk.place.to_string_lossy().into_owned(),
                events: status::count(has.events),
                bytes: status::count(has.bytes),
                packets: status::count(has.packets),
            })
        });
        if let Ok(chunk) = &finished {
            self.rotated_later(session, chunk);
        }
        done(self, finished);
        self.go_on_after_rotations();
    }

    /// Goes on when none of the sessions is being rotated, at once when none is.
    pub(super) fn after_rotations(&mut self, sessions: Vec<SessionId>, then: impl FnOnce(&mut Daemon) + 'static) {
        let then = Box::new(then);
        self.after_rotations.push(AfterRotations { sessions, then });
        self.go_on_after_rotations();
    }

    fn go_on_after_rotations(&mut self) {
        let (machine, making) = (&self.machine, &self.making_chunk);
        let is_rotating = |session: &SessionId| {
            let state = machine.sessions().get(*session);
            making.contains(session) || state.is_some_and(|state| state.chunks.rotating.is_some())
        };
        let is_over = |waiting: &mut AfterRotations| !waiting.sessions.iter().any(is_rotating);
        let over: Vec<AfterRotations> = self.after_rotations.extract_if(.., is_over).collect();
        for AfterRotations { then, .. } in over {
            then(self);
        }
    }
}

pub(super) fn destroyed_meanwhile() -> Refusal {
    let reason = "the session was destroyed in the meantime".into();
    Refusal::Internal { reason }
}
