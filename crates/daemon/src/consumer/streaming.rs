// SPDX-License-Identifier: MIT OR Apache-2.0
//! The work of a session that streams: every packet is written as soon as it is complete, and a session that ends, or a program
//! that died, is emptied.
//!
//! A rotation lets each ring go on in the next chunk of the trace as soon as it is emptied; the others wait for no one.
//!
//! A trace that cannot be written now is tried again ever more rarely (storage.rs); the packets stay in their rings. A session
//! that ends waits for that, but not for long.

use std::time::Duration;

use piste_control::CANNOT_WRITE;

use super::attention::LOOK_AT_ALL;
use super::chunks::{Asked, Moving};
use super::ring::{Desk, GIVE_UP_AFTER};
use super::ring_set::Life;
use super::session::{Session, Shared};
use super::stage::{Again, Stage};
use super::storage::StorageError;
use crate::link::{ChannelTotals, Failure, RequestId, ToControl};

/// How long a session that ends tries to write to a disk that is full.
const WRITE_FOR: Duration = Duration::from_secs(2);

/// How soon to look again at rings that are being emptied.
const ENDING_INTERVAL: Duration = Duration::from_millis(1);

impl Session {
    /// One look at all rings.
    pub(super) fn stream(&mut self, shared: &mut Shared<'_>) -> Again {
        self.begin_rotation(shared);
        let is_moving = self.trace.chunks.moving().is_some();
        if matches!(self.stage, Stage::Stopped)
            && !is_moving
            && self.ring_sets.values().all(|set| set.life == Life::Current)
        {
            return Again::Never;
        }
        let deadline = match &self.stage {
            Stage::Ending(ending) => Some(ending.since + WRITE_FOR),
            _ => None,
        };
        let overdue = deadline.is_some_and(|deadline| shared.now >= deadline);
        if let Some(pause) = self.storage.pause(shared.now)
            && !overdue
        {
            let left = deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(shared.now));
            return Again::After(pause.min(left));
        }
        let finished = match self.write_rings(shared) {
            Ok(finished) => {
                if self.storage.is_failing() {
                    self.trace.look_around();
                }
                self.storage.succeeded();
                finished
            }
            Err((stream_id, error)) => {
                self.storage.failed(shared.now);
                self.trace.metadata.say_write_error(error.reason());
                let what = format!("{CANNOT_WRITE}, and programs discard events once their rings are full: {error}");
                self.find(stream_id, what, shared.outbox);
                false
            }
        };
        match &self.stage {
            Stage::Ending(_) if finished || overdue => {
                if !finished && self.stage.is_closing() {
                    self.abandon(shared);
                    self.abandon_rotation(shared);
                }
                self.ended(shared)
            }
            Stage::Ending(_) => Again::After(ENDING_INTERVAL),
            _ if self.trace.chunks.moving().is_some() => Again::After(ENDING_INTERVAL),
            _ if self.ring_sets.is_empty() => Again::Never,
            Stage::Started if self.attention.is_at_rest() => Again::After(LOOK_AT_ALL),
            Stage::Started => Again::AtPace,
            Stage::Stopped => Again::After(ENDING_INTERVAL),
        }
    }

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
        self.attention.attract_in_turn(&self.ring_sets, shared.now);
        let keys = match (&self.stage, move_until) {
            (Stage::Started, None) => self.attention.keys(),
            _ => self.ring_sets.keys().copied().collect(),
        };
        for key in keys {
            let Some(ring_set) = self.ring_sets.get_mut(&key) else {
                continue;
            };
            let channel = self
                .channels
                .get_mut(&ring_set.source.stream_id)
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
            let moved = match move_until {
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
                    failed.get_or_insert((ring_set.source.stream_id, error));
                }
            }
        }
        if all_moved && self.trace.chunks.moving().is_some_and(Moving::is_asked) {
            let requests = self.trace.end_rotation(&mut self.channels);
            self.answer_rotation(requests, shared);
        }
        for key in done {
            self.drop_ring_set(key, shared.outbox);
        }
        match failed {
            None => Ok(all_finished && all_moved),
            Some(failed) => Err(failed),
        }
    }

    /// Begins the rotation that somebody asked for, once everything that there is can be written. One that cannot begin is refused.
    fn begin_rotation(&mut self, shared: &mut Shared<'_>) {
        while let Some(asked) = self.trace.next_rotation() {
            let (request, rotation) = match asked {
                Asked::Over(request) => {
                    self.answer_rotation(vec![request], shared);
                    continue;
                }
                Asked::Begin(request, rotation) => (request, rotation),
            };
            self.look_at_past_files();
            let written = self.write_rings(shared).map_err(|(_, error)| error);
            let begun = written.and_then(|_: bool| self.trace.begin_rotation(request, rotation, shared.now));
            if let Err(error) = begun {
                let outcome = Err(error.failure());
                shared.outbox.send(&ToControl::Done { request, outcome });
                continue;
            }
            self.ring_sets
                .values_mut()
                .for_each(|ring_set| ring_set.moved(&self.trace));
            // What is done is done in the chunk that ends.
            for channel in self.channels.values_mut() {
                channel.past_streams.clear();
                let past = std::mem::replace(&mut channel.past, ChannelTotals::of(channel.stream_id));
                self.trace.chunks.archived_of(channel.stream_id).add(&past);
            }
        }
    }

    fn answer_rotation(&mut self, requests: Vec<RequestId>, shared: &mut Shared<'_>) {
        for request in requests {
            let outcome = Ok(self.trace.chunks.archived());
            shared.outbox.send(&ToControl::Done { request, outcome });
        }
    }

    /// The session is closed, and what is left of the old chunk cannot be written.
    fn abandon_rotation(&mut self, shared: &mut Shared<'_>) {
        let what = "the chunk is incomplete: they could not be written when the session was closed";
        for request in self.trace.end_rotation(&mut self.channels) {
            let outcome = Err(Failure::Other { what: what.into() });
            shared.outbox.send(&ToControl::Done { request, outcome });
        }
    }

    /// Gives up what the rings still have.
    fn abandon(&mut self, shared: &mut Shared<'_>) {
        let mut given_up = Vec::new();
        self.trace.use_what_was_set_aside();
        for ring_set in self.ring_sets.values_mut() {
            let stream_id = ring_set.source.stream_id;
            let events = ring_set.abandon(&mut Desk {
                session: self.id,
                trace: &mut self.trace,
                channel: self.channels.get_mut(&stream_id).expect("ring sets have a channel"),
                outbox: shared.outbox,
                buffers: shared.buffers,
                now: shared.now,
            });
            if events > 0 {
                let program = &ring_set.source.program;
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
}
