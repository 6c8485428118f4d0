// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rotation: what was recorded so far becomes a complete trace of its own, a chunk, and recording goes on into the next one.
//!
//! ```text
//!             begin_rotation               chunk_written                  end_rotation
//!   (none)  ----------------->  writing  ---------------->  being placed  ------------>  (none)
//!      ^        consumers: Rotate   |    all have answered      DIR/archives/.N becomes DIR/archives/N-BEGIN-END
//!      +---- abandon_rotation ------+
//! ```
//!
//! What a consumer answers is noted at once (`part_written`): if it dies while the other domain's is still writing, the next one has nothing
//! to do with the rotation.

use std::path::PathBuf;

use jiff::Timestamp;
use piste_ctf::Trace;
use serde::{Deserialize, Serialize};

use super::machine::{Machine, Pending};
use super::refusal::Refusal;
use super::sessions::Change;
use super::tracing_session::{Moment, Session, SessionIdentity, SessionState};
use crate::link::{ChannelTotals, Domain, Opening, RequestId, Rotation, SessionId, ToConsumer};

/// The chunks of a session's trace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunks {
    /// Those that are finished.
    pub count: u64,
    /// The last rotation.
    pub rotated: Option<Moment>,
    /// The rotation that is going on.
    pub rotating: Option<Rotating>,
    user: Archived,
    kernel: Archived,
}

/// A rotation that is going on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rotating {
    /// When it was asked for.
    pub at: Moment,
    /// The consumers have written the chunk; its folder is still to be moved to its place.
    pub is_written: bool,
}

/// What a domain has in finished chunks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Archived {
    /// The last chunk that has a part of it.
    chunk: u64,
    /// As the consumer stated it.
    totals: Vec<ChannelTotals>,
}

/// A chunk in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// From 1.
    pub number: u64,
    /// Where it is while it is written: a hidden folder.
    pub hidden: PathBuf,
    /// Where it comes to.
    pub place: PathBuf,
}

impl Chunks {
    fn of(&self, domain: Domain) -> &Archived {
        match domain {
            Domain::User => &self.user,
            Domain::Kernel => &self.kernel,
        }
    }

    fn of_mut(&mut self, domain: Domain) -> &mut Archived {
        match domain {
            Domain::User => &mut self.user,
            Domain::Kernel => &mut self.kernel,
        }
    }
}

impl Session {
    /// Whether the chunk that a rotation ends has a part of any domain so far.
    pub fn has_written_part(&self) -> bool {
        let number = self.chunks.count + 1;
        Domain::ALL.iter().any(|&domain| self.chunks.of(domain).chunk == number)
    }

    /// The chunk that is recorded to or, in a rotation, the one that ends; `at` its end.
    fn chunk(&self, at: Moment) -> Chunk {
        let number = self.chunks.count + 1;
        let begin = self.chunks.rotated.or(self.first_start).unwrap_or(at);
        let archives = self.identity.output.join("archives");
        Chunk {
            number,
            hidden: archives.join(format!(".{number}")),
            place: archives.join(format!("{number}-{}-{}", utc(begin), utc(at))),
        }
    }

    /// The chunk that the rotation ends which is going on.
    pub fn rotated_chunk(&self) -> Option<Chunk> {
        self.chunks.rotating.map(|rotating| self.chunk(rotating.at))
    }

    /// The rotation, as a consumer is told of it; none when it has done its part.
    pub(super) fn rotation(&self, domain: Domain) -> Option<Rotation> {
        let rotating = self.chunks.rotating.filter(|rotating| !rotating.is_written)?;
        let Chunk { number, hidden, .. } = self.chunk(rotating.at);
        if self.chunks.of(domain).chunk == number {
            return None;
        }
        let trace = self.identity.trace(domain);
        Some(Rotation {
            chunk: hidden,
            next_uuid: uuid_of_chunk(trace.uuid, number),
        })
    }

    /// The message with which the consumer of a domain learns of the session.
    pub(super) fn opening(&self, session: SessionId, domain: Domain) -> ToConsumer {
        let mut trace = self.identity.trace(domain);
        let archived = self.chunks.of(domain);
        trace.uuid = uuid_of_chunk(trace.uuid, archived.chunk);
        ToConsumer::OpenSession(Opening {
            session,
            output: self.identity.output.clone(),
            owner: self.identity.owner.clone(),
            purpose: self.identity.purpose(),
            trace,
            rotation: self.rotation(domain),
            archived: archived.totals.clone(),
        })
    }
}

impl SessionIdentity {
    fn trace(&self, domain: Domain) -> Trace {
        match domain {
            Domain::User => self.trace.clone(),
            Domain::Kernel => self.kernel_trace(),
        }
    }
}

impl Machine {
    /// The chunk that a rotation would end.
    ///
    /// # Errors
    /// The session keeps its events in memory, was never started, or is being rotated.
    pub fn next_chunk(&self, session: SessionId, at: Moment) -> Result<Chunk, Refusal> {
        let state = self.session(session);
        let name = || state.identity.name.clone();
        if state.identity.snapshot {
            return Err(Refusal::IsSnapshot { session: name() });
        }
        if state.state == SessionState::Inactive {
            return Err(Refusal::NeverStarted { session: name() });
        }
        if state.chunks.rotating.is_some() {
            return Err(Refusal::RotationInProgress { session: name() });
        }
        Ok(state.chunk(at))
    }

    /// Begins a rotation that [`Machine::next_chunk`] allows. The answer of each domain that the session has holds what its finished
    /// chunks have.
    pub fn begin_rotation(&mut self, session: SessionId, at: Moment) -> Vec<(Domain, RequestId)> {
        self.change_chunks(session, |chunks| {
            let is_written = false;
            chunks.rotating = Some(Rotating { at, is_written });
        });
        self.ask_to_rotate(session)
    }

    /// The rotations that an earlier pisted began and that are not written, asked for again where they are not answered.
    pub fn rotate_again(&mut self) -> Vec<(SessionId, Vec<(Domain, RequestId)>)> {
        let is_open = |session: &Session| session.chunks.rotating.is_some_and(|rotating| !rotating.is_written);
        let sessions = self.sessions.iter().filter(|(_, session)| is_open(session));
        let sessions: Vec<SessionId> = sessions.map(|(id, _)| id).collect();
        let ask = |session| (session, self.ask_to_rotate(session));
        sessions.into_iter().map(ask).collect()
    }

    fn ask_to_rotate(&mut self, session: SessionId) -> Vec<(Domain, RequestId)> {
        let mut requests = Vec::new();
        for domain in Domain::ALL {
            let state = self.session(session);
            let is_used = match domain {
                Domain::User => !state.channels.is_empty(),
                Domain::Kernel => state.kernel.is_used(),
            };
            if is_used && let Some(rotation) = state.rotation(domain) {
                let question = |request| ToConsumer::Rotate {
                    session,
                    rotation,
                    request,
                };
                let request = match domain {
                    Domain::User => self.ask_consumer(question),
                    Domain::Kernel => self.ask_kernel_consumer(question),
                };
                requests.push((domain, request));
            }
        }
        requests
    }

    /// Nothing came of the rotation: the session goes on in its chunk.
    pub fn abandon_rotation(&mut self, session: SessionId) {
        self.change_chunks(session, |chunks| chunks.rotating = None);
    }

    /// The consumer of a domain has written its part of the chunk; `totals` is what its finished chunks have now.
    pub fn part_written(&mut self, session: SessionId, domain: Domain, totals: Vec<ChannelTotals>) {
        self.change_chunks(session, |chunks| {
            let chunk = chunks.count + 1;
            *chunks.of_mut(domain) = Archived { chunk, totals };
        });
    }

    /// The consumers have written the chunk. The programs describe themselves in the next one too. Returns who has to say that it did so: a
    /// next chunk may follow soon.
    pub fn chunk_written(&mut self, session: SessionId) -> Pending {
        self.change_chunks(session, |chunks| {
            if let Some(rotating) = &mut chunks.rotating {
                rotating.is_written = true;
            }
        });
        self.forget_told();
        self.dump_again(session);
        self.wait_for_told(None)
    }

    /// The chunk is in its place.
    pub fn end_rotation(&mut self, session: SessionId) {
        self.change_chunks(session, |chunks| {
            if let Some(rotating) = chunks.rotating.take() {
                chunks.count += 1;
                chunks.rotated = Some(rotating.at);
            }
        });
    }

    /// What finished chunks have, and the parts that are written of the next.
    pub fn sum_of_archived(&self, session: SessionId) -> ChannelTotals {
        let mut sum = ChannelTotals::default();
        if let Some(state) = self.sessions.get(session) {
            let all = Domain::ALL.iter().flat_map(|&domain| &state.chunks.of(domain).totals);
            all.for_each(|totals| sum.add(totals));
        }
        sum
    }

    fn change_chunks(&mut self, session: SessionId, change: impl FnOnce(&mut Chunks)) {
        if let Some(state) = self.sessions.get(session) {
            let mut chunks = state.chunks.clone();
            change(&mut chunks);
            self.record(Change::ChunksSet { session, chunks });
        }
    }
}

/// Each chunk is a trace of its own: readers take traces of one uuid for one trace.
fn uuid_of_chunk(mut uuid: [u8; 16], chunk: u64) -> [u8; 16] {
    for (byte, number) in uuid[10..14].iter_mut().zip((chunk as u32).to_be_bytes()) {
        *byte ^= number;
    }
    uuid
}

/// `20261122T201500+0000`
fn utc(moment: Moment) -> String {
    let time = Timestamp::from_nanosecond(moment.wall_ns.into()).unwrap_or_default();
    time.strftime("%Y%m%dT%H%M%S+0000").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_chunks_have_times_of_utc() {
        let wall_ns = 1_795_378_500_999_999_999;
        assert_eq!(utc(Moment { wall_ns, boot_ns: 0 }), "20261122T201500+0000");
    }

    #[test]
    fn chunks_have_different_uuids_in_both_domains() {
        let uuids: Vec<[u8; 16]> = (0..300).map(|chunk| uuid_of_chunk([7; 16], chunk)).collect();
        assert_eq!(uuids[0], [7; 16]);
        let different: std::collections::BTreeSet<_> = uuids.iter().map(|uuid| &uuid[..15]).collect();
        assert_eq!(different.len(), 300, "the last byte tells the domains apart");
    }
}
