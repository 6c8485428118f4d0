// SPDX-License-Identifier: MIT OR Apache-2.0
//! The work of a session that streams: full pages are written as they come, and a session that ends is emptied. While
//! a trace cannot be written, the kernel's rings fill, and the kernel counts what it loses. The steps are those of consumer/ladder.rs.

use std::time::{Duration, Instant};

use piste_control::CANNOT_WRITE;

use super::channel::Tools;
use super::mappings::MappingRecorder;
use super::session::{Session, Shared};
use crate::consumer::chunks::{Chunks, Moving};
use crate::consumer::clock;
use crate::consumer::ladder::{SOON, Streaming, Surroundings, end_rotation};
use crate::consumer::outbox::Outbox;
use crate::consumer::stage::{Again, Stage};
use crate::consumer::storage::{Storage, StorageError};
use crate::link::{Failure, RequestId, Rotation};

/// Writing the rings to the end of a chunk may take a while, if they are full or the disk is busy. If it takes longer than this, they are written
/// again: all CPUs are to end at nearly the same time. Readers report CPUs that end 10 ms apart.
const END_APART: Duration = Duration::from_millis(5);
/// After so many times, the chunk ends as it is: readers report what is in the next one.
const END_ROUNDS_MAX: u32 = 20;

impl Session {
    /// Writes what the rings and the state dump have. True when all of it is written, in a session that ends. After a failed write the
    /// other channels are still looked at, and the first failure is returned.
    fn write_all(&mut self, shared: &mut Shared<'_>) -> Result<bool, StorageError> {
        let Some(kernel) = self.kernel() else { return Ok(true) };
        let is_ending = matches!(self.stage, Stage::Ending(_));
        let flush_ticks = self.flush_ticks();
        let (mut all, mut all_flushed, mut failed) = (true, true, None);
        let mut tools = Tools {
            kernel: &kernel,
            metadata: &mut self.metadata,
            packet: shared.packet,
        };
        for _ in 0..END_ROUNDS_MAX {
            let begun = Instant::now();
            for channel in self.channels.values_mut() {
                if let Err(error) = channel.end_in_chunk(self.clock, &self.chunks, &mut tools) {
                    failed.get_or_insert(error);
                }
            }
            if failed.is_some() || begun.elapsed() < END_APART {
                break;
            }
        }
        let has_ended = failed.is_none();
        for channel in self.channels.values_mut() {
            if has_ended && let Err(error) = channel.move_on(&mut self.chunks, &mut tools) {
                failed.get_or_insert(error);
                continue;
            }
            let written = if is_ending {
                channel.finish(self.clock, &mut tools)
            } else {
                let flushed = channel.take(shared.fullest, flush_ticks, &mut tools);
                flushed.map(|is_so| {
                    all_flushed &= is_so;
                    true
                })
            };
            match written {
                Ok(finished) => all &= finished,
                Err(error) => {
                    failed.get_or_insert(error);
                }
            }
        }
        self.has_taken_all = all_flushed && failed.is_none();
        match self.write_dump(shared) {
            Ok(finished) => {
                all &= finished;
                all_flushed &= finished;
            }
            Err(error) => {
                failed.get_or_insert(error);
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        if flush_ticks.is_some() && all_flushed && !is_ending {
            self.flushes.end(&Ok(()), shared.outbox);
        }
        self.try_to_end_rotation(shared)?;
        Ok(all && self.chunks.moving().is_none())
    }

    /// Until when everything is to be written for a flush, once what the kernel recorded by then is in its rings. Of a trigger, that is always all
    /// there is.
    fn flush_ticks(&mut self) -> Option<u64> {
        if self.is_of_trigger() {
            return Some(u64::MAX);
        }
        let clock = self.clock;
        if self.stage.is_started() {
            self.flushes.begin(|| clock::now_ticks(clock));
        }
        let ticks = self.flushes.running().copied();
        ticks.filter(|ticks| *ticks <= clock::settled_ticks(clock))
    }

    /// Ends the rotation once the rings and the state dump have moved on. While the kernel is recorded, the next chunk gets a dump too.
    fn try_to_end_rotation(&mut self, shared: &mut Shared<'_>) -> Result<(), StorageError> {
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
        if self.mappings.as_ref().is_none_or(MappingRecorder::has_moved_on) {
            end_rotation(self, shared);
        }
        Ok(())
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
    type Failed = StorageError;

    fn stage(&self) -> &Stage {
        &self.stage
    }

    fn storage(&mut self) -> &mut Storage {
        &mut self.storage
    }

    fn chunks(&mut self) -> &mut Chunks {
        &mut self.chunks
    }

    fn is_at_rest(&mut self, now: Instant) -> bool {
        if matches!(self.stage, Stage::Stopped) && self.chunks.moving().is_none() {
            return true;
        }
        self.look_at_files_now_and_then(now);
        false
    }

    fn write(&mut self, shared: &mut Shared<'_>) -> Result<bool, StorageError> {
        self.write_all(shared)
    }

    fn cannot_write(&mut self, error: StorageError, shared: &mut Shared<'_>) {
        self.metadata.say_write_error(error.reason());
        let what = format!("{CANNOT_WRITE}, and events are lost once the kernel's rings are full: {error}");
        self.find(what, shared.outbox);
    }

    fn flushed(&mut self, outcome: &Result<(), Failure>, shared: &mut Shared<'_>) {
        self.flushes.end_all(outcome, shared.outbox);
    }

    fn has_written(&mut self, again: bool) {
        if again {
            self.metadata.look_at_clock();
        }
        self.set_aside();
    }

    fn begin_chunk(
        &mut self,
        request: RequestId,
        rotation: Rotation,
        shared: &mut Shared<'_>,
    ) -> Result<(), StorageError> {
        if !matches!(self.stage, Stage::Stopped) {
            self.write_all(shared)?;
        }
        self.metadata.note_clock();
        let (next_uuid, metadata) = (rotation.next_uuid, &self.metadata);
        let chunk = rotation.chunk.clone();
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
        self.move_mappings(&chunk);
        Ok(())
    }

    fn end_chunk(&mut self) -> Vec<RequestId> {
        self.metadata.end_chunk();
        self.chunks.end()
    }

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
        // The thread that writes them would take the space that is set aside.
        self.end_mappings();
        let mut left = Vec::new();
        self.metadata.look_at_clock();
        if let Some(text) = self.metadata.text() {
            self.chunks.replace_metadata_at_last(text, self.stream_count());
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

    fn ended(&mut self, shared: &mut Shared<'_>) -> Again {
        self.finish_ending(shared)
    }

    fn next_look(&self) -> Again {
        match self.stage {
            _ if self.is_dumping() || self.flushes.are_wanted() || self.chunks.has_untold_matches() => {
                Again::After(SOON)
            }
            Stage::Started => Again::AtPace,
            Stage::Stopped | Stage::Ending(_) => Again::Never,
        }
    }
}
