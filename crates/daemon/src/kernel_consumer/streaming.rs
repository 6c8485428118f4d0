// SPDX-License-Identifier: MIT OR Apache-2.0
//! The work of a session that streams: full pages are written as they come, and a session that ends is emptied.
//!
//! A trace that cannot be written now is tried again ever more rarely (consumer/storage.rs); the kernel's rings fill meanwhile, and the
//! kernel counts what it loses. A session that ends waits for that, but not for long.

use std::time::Duration;

use piste_control::CANNOT_WRITE;

use super::channel::Tools;
use super::session::{Session, Shared};
use crate::consumer::chunks::{Asked, Moving};
use crate::consumer::clock;
use crate::consumer::stage::{Again, Stage};
use crate::consumer::storage::StorageError;
use crate::link::{Failure, RequestId, Rotation, ToControl};

/// How long a session that ends tries to write to a disk that is full.
const WRITE_FOR: Duration = Duration::from_secs(2);

/// How soon to look again at rings that are being emptied, and at a state dump that is being taken.
const SOON: Duration = Duration::from_millis(1);

impl Session {
    /// One look at all rings.
    pub(super) fn stream(&mut self, shared: &mut Shared<'_>) -> Again {
        self.begin_rotation(shared);
        let deadline = match &self.stage {
            Stage::Stopped if self.chunks.moving().is_none() => return Again::Never,
            Stage::Started | Stage::Stopped => None,
            Stage::Ending(ending) => Some(ending.since + WRITE_FOR),
        };
        self.look_at_files_now_and_then(shared.now);
        let overdue = deadline.is_some_and(|deadline| shared.now >= deadline);
        if let Some(pause) = self.storage.pause(shared.now)
            && !overdue
        {
            let left = deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(shared.now));
            return Again::After(pause.min(left));
        }
        let finished = match self.write(shared) {
            Ok(finished) => {
                if self.storage.is_failing() {
                    self.metadata.look_at_clock();
                }
                self.storage.succeeded();
                self.set_aside();
                finished
            }
            Err(error) => {
                self.storage.failed(shared.now);
                self.metadata.say_write_error(error.reason());
                let what = format!("{CANNOT_WRITE}, and events are lost once the kernel's rings are full: {error}");
                self.find(what, shared.outbox);
                false
            }
        };
        match &self.stage {
            Stage::Ending(_) if finished || overdue => {
                if !finished {
                    self.abandon(shared);
                    self.abandon_rotation(shared);
                }
                self.ended(shared)
            }
            Stage::Ending(_) => Again::After(SOON),
            _ if self.is_dumping() || self.chunks.moving().is_some() => Again::After(SOON),
            Stage::Stopped => Again::Never,
            Stage::Started => Again::AtPace,
        }
    }

    /// Writes what the rings and the state dump have. True when all of it is written, in a session that ends. After a failed write the
    /// other channels are still looked at, and the first failure is returned.
    fn write(&mut self, shared: &mut Shared<'_>) -> Result<bool, StorageError> {
        let Some(kernel) = self.kernel() else { return Ok(true) };
        let is_ending = matches!(self.stage, Stage::Ending(_));
        let flush_ticks = std::mem::take(&mut self.wants_flush).then(|| clock::now_ticks(self.clock));
        let (mut all, mut failed) = (true, None);
        for channel in self.channels.values_mut() {
            let mut tools = Tools {
                kernel: &kernel,
                metadata: &mut self.metadata,
                packet: shared.packet,
            };
            if let Err(error) = channel.move_on(self.clock, &mut self.chunks, &mut tools) {
                failed.get_or_insert(error);
                continue;
            }
            let written = if is_ending {
                channel.finish(self.clock, &mut tools)
            } else {
                channel.take(shared.fullest, flush_ticks, &mut tools).map(|()| true)
            };
            match written {
                Ok(finished) => all &= finished,
                Err(error) => {
                    failed.get_or_insert(error);
                }
            }
        }
        match self.write_dump(shared) {
            Ok(finished) => all &= finished,
            Err(error) => {
                failed.get_or_insert(error);
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        self.end_rotation(shared)?;
        Ok(all && self.chunks.moving().is_none())
    }

    /// Begins the rotation that somebody asked for, once everything that there is can be written. One that cannot begin is refused.
    fn begin_rotation(&mut self, shared: &mut Shared<'_>) {
        while let Some(asked) = self.chunks.next_asked() {
            let (request, rotation) = match asked {
                Asked::Over(request) => {
                    self.answer_rotation(vec![request], shared);
                    continue;
                }
                Asked::Begin(request, rotation) => (request, rotation),
            };
            if let Err(error) = self.try_to_begin_rotation(request, rotation, shared) {
                let outcome = Err(error.failure());
                shared.outbox.send(&ToControl::Done { request, outcome });
            }
        }
    }

    fn try_to_begin_rotation(
        &mut self,
        request: RequestId,
        rotation: Rotation,
        shared: &mut Shared<'_>,
    ) -> Result<(), StorageError> {
        if !matches!(self.stage, Stage::Stopped) {
            self.write(shared)?;
        }
        self.metadata.note_clock();
        let (next_uuid, metadata) = (rotation.next_uuid, &self.metadata);
        self.chunks.begin(request, rotation, shared.now, |folder| {
            metadata.write_next(folder, next_uuid)
        })?;
        if let Some(moving) = self.chunks.moving() {
            self.metadata.begin_chunk(next_uuid, &moving.old_folder);
        }
        self.channels
            .values_mut()
            .for_each(|channel| channel.moved(&self.chunks));
        if let Some(dump) = &mut self.dump {
            dump.moved(&self.chunks);
        }
        Ok(())
    }

    /// Ends the rotation once the rings and the state dump have moved on. While the kernel is recorded, the next chunk gets a dump too.
    fn end_rotation(&mut self, shared: &mut Shared<'_>) -> Result<(), StorageError> {
        if !self.chunks.moving().is_some_and(Moving::is_asked) {
            return Ok(());
        }
        let is_started = self.stage.is_started();
        if let Some(dump) = &mut self.dump {
            let was_behind = dump.is_behind(&self.chunks);
            if !dump.move_on(&mut self.chunks, is_started)? {
                return Ok(());
            }
            if was_behind && is_started {
                self.begin_dump();
            }
        }
        self.metadata.end_chunk();
        let requests = self.chunks.end();
        self.answer_rotation(requests, shared);
        Ok(())
    }

    fn answer_rotation(&mut self, requests: Vec<RequestId>, shared: &mut Shared<'_>) {
        for request in requests {
            let outcome = Ok(self.chunks.archived());
            shared.outbox.send(&ToControl::Done { request, outcome });
        }
    }

    /// The session ends, and what is left of the old chunk cannot be written.
    fn abandon_rotation(&mut self, shared: &mut Shared<'_>) {
        if !self.stage.is_closing() {
            return;
        }
        let what = "the chunk is incomplete: they could not be written when the session was closed";
        for request in self.chunks.end() {
            let outcome = Err(Failure::Other { what: what.into() });
            shared.outbox.send(&ToControl::Done { request, outcome });
        }
    }

    fn write_dump(&mut self, shared: &mut Shared<'_>) -> Result<bool, StorageError> {
        let Some(dump) = &mut self.dump else { return Ok(true) };
        let finished = dump.write(&mut self.metadata)?;
        if finished {
            self.answer_dumps(shared.outbox);
        }
        Ok(finished)
    }

    fn is_dumping(&self) -> bool {
        self.dump.as_ref().is_some_and(|dump| dump.is_running())
    }

    /// Gives up what could not be written, when the session ends. What is in the kernel's rings stays there, unless it is closed.
    fn abandon(&mut self, shared: &mut Shared<'_>) {
        if let Some(dump) = &mut self.dump
            && dump.is_running()
        {
            dump.abandon();
            self.find(
                "the state dump is incomplete: it could not be written".into(),
                shared.outbox,
            );
        }
        if !self.stage.is_closing() {
            return;
        }
        let mut left = Vec::new();
        self.metadata.look_at_clock();
        if let Some(text) = self.metadata.text() {
            self.chunks.replace_metadata_at_last(text);
        }
        for channel in self.channels.values_mut() {
            channel.abandon(self.clock);
            let events = channel.left();
            if events > 0 {
                let name = &channel.spec.name;
                let why = "they could not be written when the session was closed";
                left.push(format!("{events} events of channel {name} are not in the trace: {why}"));
            }
        }
        for what in left {
            self.find(what, shared.outbox);
        }
    }
}
