// SPDX-License-Identifier: MIT OR Apache-2.0
//! The work of a session that streams: every packet is written as soon as it is complete, and a session that ends, or a program
//! that died, is emptied.
//!
//! A trace that cannot be written now is tried again ever more rarely (storage.rs); the packets stay in their rings. A session
//! that ends waits for that, but not for long.

use std::time::Duration;

use super::ring::{Desk, GIVE_UP_AFTER};
use super::ring_set::Life;
use super::session::{Session, Shared};
use super::stage::{Again, Stage};
use super::storage::StorageError;

/// How long a session that ends tries to write to a disk that is full.
const WRITE_FOR: Duration = Duration::from_secs(2);

/// How soon to look again at rings that are being emptied.
const ENDING_INTERVAL: Duration = Duration::from_millis(1);

impl Session {
    /// One look at all rings.
    pub(super) fn stream(&mut self, shared: &mut Shared<'_>) -> Again {
        if matches!(self.stage, Stage::Stopped) && self.ring_sets.values().all(|set| set.life == Life::Current) {
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
                self.storage.succeeded();
                finished
            }
            Err((stream_id, error)) => {
                self.storage.failed(shared.now);
                let what = format!(
                    "the trace cannot be written, and programs discard events once their rings are full: {error}"
                );
                self.find(stream_id, what, shared.outbox);
                false
            }
        };
        match &self.stage {
            Stage::Ending(_) if finished || overdue => {
                if !finished && self.stage.is_closing() {
                    self.abandon(shared);
                }
                self.ended(shared)
            }
            Stage::Ending(_) => Again::After(ENDING_INTERVAL),
            _ if self.ring_sets.is_empty() => Again::Never,
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
        let (mut all_finished, mut failed) = (true, None);
        let mut done = Vec::new();
        for (key, ring_set) in &mut self.ring_sets {
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
            let finished = match ending {
                None if is_current && matches!(self.stage, Stage::Stopped) => Ok(true),
                None if is_current => ring_set.take(shared.fullest, &mut desk).map(|()| true),
                None if ring_set.is_moving(shared.now) => ring_set.take(shared.fullest, &mut desk).map(|()| false),
                deadline => ring_set.finish(deadline.unwrap_or(shared.now + GIVE_UP_AFTER), &mut desk),
            };
            match finished {
                Ok(finished) => {
                    all_finished &= finished;
                    if finished && !is_current {
                        done.push(*key);
                    }
                }
                Err(error) => {
                    failed.get_or_insert((ring_set.source.stream_id, error));
                }
            }
        }
        for key in done {
            self.drop_ring_set(key, shared.outbox);
        }
        match failed {
            None => Ok(all_finished),
            Some(failed) => Err(failed),
        }
    }

    /// Gives up what the rings still have.
    fn abandon(&mut self, shared: &mut Shared<'_>) {
        let mut given_up = Vec::new();
        for ring_set in self.ring_sets.values_mut() {
            let stream_id = ring_set.source.stream_id;
            let channel = self.channels.get_mut(&stream_id).expect("ring sets have a channel");
            let events = ring_set.abandon(channel, shared.buffers);
            if events > 0 {
                let program = &ring_set.source.program;
                let why = "it could not be written when the session was closed";
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
