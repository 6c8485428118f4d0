// SPDX-License-Identifier: MIT OR Apache-2.0
//! The work of a session that streams: every packet is written as soon as it is complete, and a session that ends, or a program
//! that died, is emptied.
//!
//! A rotation lets each ring go on in the next chunk of the trace as soon as it is emptied; the others wait for no one. The steps are ladder.rs's.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use piste_control::CANNOT_WRITE;

use super::attention::LOOK_AT_ALL;
use super::chunks::{Chunks, Moving};
use super::ladder::{SOON, Streaming, Surroundings, Unwritten, end_rotation};
use super::outbox::Outbox;
use super::ring::{Before, Desk, GIVE_UP_AFTER};
use super::ring_set::{Life, RingSet};
use super::session::{Session, Shared};
use super::stage::{Again, Stage};
use super::storage::{Storage, StorageError};
use crate::link::{ChannelTotals, Failure, RequestId, RingSetKey, Rotation};

/// How long programs may take to fill their sub-buffers before a flush ends them. Where they are fast, no space is given up.
const FILL_WITHIN: Duration = Duration::from_millis(10);

/// A flush.
#[derive(Debug)]
pub(super) struct Flush {
    since: Instant,
    /// The ring sets of which something is still to be written.
    left: BTreeSet<RingSetKey>,
    /// The programs that are stopped while they record an event.
    held: BTreeSet<String>,
}

impl Session {
    /// Writes what the rings have. True when the rings that are being emptied are empty. After a failed write the other rings
    /// are still looked at, and the first failure is returned.
    fn write_rings(&mut self, shared: &mut Shared<'_>) -> Result<bool, (u32, StorageError)> {
        let ending = match &self.stage {
            Stage::Ending(ending) => Some(ending.since + GIVE_UP_AFTER),
            _ => None,
        };
        let move_until = self.trace.chunks.moving().map(|moving| moving.since + GIVE_UP_AFTER);
        let (mut all_finished, mut all_moved, mut failed) = (true, true, None);
        let mut done = Vec::new();
        let begins_flush = self.stage.is_started() && self.flushes.begin(|| Flush::begin(shared.now));
        self.attention.attract_in_turn(&self.ring_sets, shared.now);
        let keys = match (&self.stage, move_until) {
            (Stage::Started, None) if !begins_flush => self.attention.keys(),
            _ => self.ring_sets.keys().copied().collect(),
        };
        for key in keys {
            let Some(ring_set) = self.ring_sets.get_mut(&key) else {
                continue;
            };
            let channel = self
                .channels
                .get_mut(&ring_set.producer.stream_id)
                .expect("ring sets have a channel");
            let mut desk = Desk {
                session: self.id,
                trace: &mut self.trace,
                channel,
                outbox: shared.outbox,
                buffers: shared.buffers,
                now: shared.now,
            };
            let is_current = ring_set.life == Life::Current;
            let drawn = match self.flushes.running().filter(|_| begins_flush) {
                None => Ok(()),
                Some(flush) => flush.draw_lines(ring_set, &mut desk),
            };
            let moved = match move_until {
                _ if drawn.is_err() => drawn.map(|()| false),
                None => Ok(true),
                Some(deadline) => ring_set.move_on(deadline, &mut desk),
            };
            let has_moved = matches!(moved, Ok(true));
            all_moved &= has_moved;
            let finished = match ending {
                _ if moved.is_err() => moved,
                _ if !has_moved => ring_set.take(shared.fullest, &mut desk).map(|_: bool| false),
                None if is_current && matches!(self.stage, Stage::Stopped) => Ok(true),
                None if is_current => ring_set.take(shared.fullest, &mut desk).map(|is_quiet| {
                    self.attention.looked(key, is_quiet, ring_set.is_heard());
                    true
                }),
                deadline => ring_set.finish(deadline.unwrap_or(shared.now + GIVE_UP_AFTER), &mut desk),
            };
            match finished {
                Ok(finished) => {
                    all_finished &= finished;
                    if finished && !is_current {
                        done.push(key);
                    }
                }
                Err(error) => {
                    failed.get_or_insert((ring_set.producer.stream_id, error));
                }
            }
        }
        if all_moved && self.trace.chunks.moving().is_some_and(Moving::is_asked) {
            end_rotation(self, shared);
        }
        for key in done {
            self.drop_ring_set(key, shared.outbox);
        }
        if let Some(failed) = failed {
            return Err(failed);
        }
        self.go_on_with_flush(shared);
        Ok(all_finished && all_moved)
    }

    /// Looks what is left to be written of a flush.
    fn go_on_with_flush(&mut self, shared: &mut Shared<'_>) {
        let Some(flush) = self.flushes.running() else { return };
        let is_time = shared.now >= flush.since + FILL_WITHIN;
        let mut left = std::mem::take(&mut flush.left);
        left.retain(|key| {
            // One that is gone is written.
            let Some(ring_set) = self.ring_sets.get_mut(key) else {
                return false;
            };
            match ring_set.before_lines(is_time) {
                Before::Nothing => ring_set.life != Life::Current,
                Before::Something => true,
                Before::Held => {
                    flush.held.insert(ring_set.producer.program.to_string());
                    false
                }
            }
        });
        left.iter().for_each(|key| self.attention.attract(*key));
        flush.left = left;
        if flush.left.is_empty() {
            let programs: Vec<String> = std::mem::take(&mut flush.held).into_iter().collect();
            let outcome = match programs.is_empty() {
                true => Ok(()),
                false => Err(Failure::Unfinished { programs }),
            };
            self.flushes.end(&outcome, shared.outbox);
        }
    }
}

impl Flush {
    fn begin(now: Instant) -> Flush {
        Flush {
            since: now,
            left: BTreeSet::new(),
            held: BTreeSet::new(),
        }
    }

    /// Of a program that writes no more, everything is to be written.
    fn draw_lines(&mut self, ring_set: &mut RingSet, desk: &mut Desk<'_>) -> Result<(), StorageError> {
        if !ring_set.draw_lines(desk)? || ring_set.life != Life::Current {
            self.left.insert(ring_set.producer.key);
        }
        Ok(())
    }
}

impl Unwritten for (u32, StorageError) {
    fn failure(&self) -> Failure {
        self.1.failure()
    }
}

impl Surroundings for Shared<'_> {
    fn now(&self) -> Instant {
        self.now
    }

    fn outbox(&self) -> &Outbox {
        self.outbox
    }
}

impl Streaming for Session {
    type Surroundings<'a> = Shared<'a>;
    /// In which stream class.
    type Failed = (u32, StorageError);

    fn stage(&self) -> &Stage {
        &self.stage
    }

    fn storage(&mut self) -> &mut Storage {
        &mut self.storage
    }

    fn chunks(&mut self) -> &mut Chunks {
        &mut self.trace.chunks
    }

    fn is_at_rest(&mut self, _: Instant) -> bool {
        matches!(self.stage, Stage::Stopped)
            && self.trace.chunks.moving().is_none()
            && self.ring_sets.values().all(|set| set.life == Life::Current)
    }

    fn write(&mut self, shared: &mut Shared<'_>) -> Result<bool, Self::Failed> {
        self.write_rings(shared)
    }

    fn cannot_write(&mut self, (stream_id, error): Self::Failed, shared: &mut Shared<'_>) {
        self.trace.metadata.say_write_error(error.reason());
        let what = format!("{CANNOT_WRITE}, and programs discard events once their rings are full: {error}");
        self.find(stream_id, what, shared.outbox);
    }

    fn flushed(&mut self, outcome: &Result<(), Failure>, shared: &mut Shared<'_>) {
        self.flushes.end_all(outcome, shared.outbox);
    }

    fn has_written(&mut self, again: bool) {
        if again {
            self.trace.look_around();
        }
    }

    fn begin_chunk(
        &mut self,
        request: RequestId,
        rotation: Rotation,
        shared: &mut Shared<'_>,
    ) -> Result<(), StorageError> {
        self.look_at_past_files();
        self.write_rings(shared).map_err(|(_, error)| error)?;
        self.trace.begin_rotation(request, rotation, shared.now)?;
        self.ring_sets
            .values_mut()
            .for_each(|ring_set| ring_set.moved(&self.trace));
        // What is done is done in the chunk that ends.
        for channel in self.channels.values_mut() {
            channel.past_streams.clear();
            let past = std::mem::replace(&mut channel.past, ChannelTotals::of(channel.stream_id));
            self.trace.chunks.archived_of(channel.stream_id).add(&past);
        }
        Ok(())
    }

    fn end_chunk(&mut self) -> Vec<RequestId> {
        self.trace.end_rotation(&mut self.channels)
    }

    fn abandon(&mut self, shared: &mut Shared<'_>) {
        if !self.stage.is_closing() {
            return;
        }
        let mut given_up = Vec::new();
        self.trace.use_what_was_set_aside();
        for ring_set in self.ring_sets.values_mut() {
            let stream_id = ring_set.producer.stream_id;
            let events = ring_set.abandon(&mut Desk {
                session: self.id,
                trace: &mut self.trace,
                channel: self.channels.get_mut(&stream_id).expect("ring sets have a channel"),
                outbox: shared.outbox,
                buffers: shared.buffers,
                now: shared.now,
            });
            if events > 0 {
                let program = &ring_set.producer.program;
                let why = "they could not be written when the session was closed";
                given_up.push((
                    stream_id,
                    format!("{events} events of {program} are not in the trace: {why}"),
                ));
            }
        }
        for (stream_id, what) in given_up {
            self.find(stream_id, what, shared.outbox);
        }
    }

    fn ended(&mut self, shared: &mut Shared<'_>) -> Again {
        self.finish_ending(shared)
    }

    fn next_look(&self) -> Again {
        match self.stage {
            // Even if no program is left.
            Stage::Started if self.trace.chunks.has_untold_matches() => Again::After(SOON),
            _ if self.ring_sets.is_empty() => Again::Never,
            Stage::Started if self.attention.is_at_rest() && !self.flushes.are_wanted() => Again::After(LOOK_AT_ALL),
            // Soon, and sooner than large rings need it.
            Stage::Started if self.is_of_trigger() => Again::After(SOON),
            Stage::Started => Again::AtPace,
            Stage::Stopped | Stage::Ending(_) => Again::After(SOON),
        }
    }
}
