// SPDX-License-Identifier: MIT OR Apache-2.0
//! The folder of a trace: its metadata, and the way to its streams, in the chunk that is recorded to (chunks.rs).
//!
//! Nothing is written before the session starts. Metadata comes before the first packet that needs it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use piste_control::FILES_GONE;
use piste_ctf::Layouts;

use super::channel::{Channel, add_stream};
use super::chunks::Chunks;
use super::earlier::{Counted, Earlier};
use super::metadata::Metadata;
use super::sink::{Needs, is_gone};
use super::storage::StorageError;
use super::stream::{Identity, Stream};
use crate::link::{ChannelTotals, RequestId, Rotation};
use crate::person::Person;

/// Of programs there may be any number: this many streams can say at the end of a full disk what they lost.
const STREAMS_SET_ASIDE_FOR: usize = 32;

#[derive(Debug)]
pub(super) struct TraceFolder {
    pub(super) metadata: Metadata,
    pub(super) chunks: Chunks,
    earlier: Earlier,
    /// Of the chunk that ends, while streams move on from it.
    old_earlier: Earlier,
}

impl TraceFolder {
    /// The user domain's part of the owner's trace in `output`. Streams that are there already are those of an earlier consumer; when
    /// they cannot be listed, the error is returned as well, and they are not counted.
    pub(super) fn open(
        output: &Path,
        owner: Person,
        mut metadata: Metadata,
        chunks: (Vec<ChannelTotals>, Option<Rotation>),
        now: Instant,
    ) -> (Self, Option<StorageError>) {
        let (chunks, mut error) = Chunks::open(owner, user_folder(output), metadata.trace().uuid, chunks, now);
        metadata.recall(chunks.owner(), chunks.folder());
        let mut find = |folder, continued| {
            let found = Earlier::find(chunks.owner(), folder, continued);
            found.unwrap_or_else(|unreadable| {
                error.get_or_insert(unreadable);
                Earlier::default()
            })
        };
        let earlier = find(chunks.folder(), chunks.continued());
        let mut old_earlier = Earlier::default();
        if let Some(moving) = chunks.moving() {
            metadata.begin_chunk(chunks.trace_uuid(), &moving.old_folder);
            old_earlier = find(&moving.old_folder, &moving.old_continued);
            // What these left there is known.
            let moved = chunks.continued().iter();
            moved.for_each(|((_, stream_instance_id), _)| old_earlier.claim(stream_instance_id));
        }
        (
            Self {
                metadata,
                chunks,
                earlier,
                old_earlier,
            },
            error,
        )
    }

    /// Opens the stream of one ring, behind the packets that it has.
    ///
    /// # Errors
    /// As [`Stream::open`].
    pub(super) fn open_stream(&mut self, channel: &str, identity: Identity) -> Result<Stream, StorageError> {
        let stream = self.chunks.open_stream(channel, identity)?;
        let earlier = if self.chunks.is_behind(&stream) {
            &mut self.old_earlier
        } else {
            &mut self.earlier
        };
        earlier.claim(stream.identity().stream_instance_id);
        Ok(stream)
    }

    /// Notes in the metadata that is there how far the trace's clock is from the wall clock now: recording begins, or a chunk or the session ends.
    pub(super) fn note_clock(&mut self) {
        let is_gone = self.metadata_is_gone();
        self.look_around();
        if is_gone || self.exists() {
            // Without space, it says what was known before; packets that need a new class have it written again.
            let _ = self.write_metadata();
        }
    }

    /// Looks at the clocks, and what lies beside the trace. What is new is written next.
    pub(super) fn look_around(&mut self) {
        self.metadata.look_beside(self.chunks.owner(), self.chunks.folder());
        self.metadata.look_at_clock();
    }

    /// Writes what is new in the metadata; to be called before a packet is written.
    ///
    /// # Errors
    /// The file that could not be written.
    pub(super) fn write_metadata(&mut self) -> Result<(), StorageError> {
        if let Some(matches) = self.chunks.matches.as_ref().filter(|_| !self.metadata.is_written()) {
            matches.describe(&self.metadata.current_text());
            self.metadata.need_not_be_written();
        }
        if !self.metadata.is_written() {
            self.metadata.write(self.chunks.owner(), self.chunks.folder())?;
            self.chunks.set_aside(Needs {
                stream_count: STREAMS_SET_ASIDE_FOR,
                metadata_bytes: self.metadata.file_bytes(),
            });
        }
        Ok(())
    }

    /// Whether somebody has removed the metadata. It is written again then, before the next packet or in the end.
    pub(super) fn metadata_is_gone(&mut self) -> bool {
        let path = self.chunks.folder().join("metadata");
        let is_gone = !self.is_of_trigger() && self.metadata.is_written() && is_gone(self.chunks.owner(), &path);
        if is_gone {
            self.metadata.forget_file();
        }
        is_gone
    }

    /// Its events are told to control, and nothing is written.
    pub(super) fn is_of_trigger(&self) -> bool {
        self.chunks.matches.is_some()
    }

    /// The session ends on a full disk: the metadata takes a part of the space that was set aside, and the streams get the rest.
    pub(super) fn use_what_was_set_aside(&mut self) {
        self.metadata.look_at_clock();
        self.chunks
            .replace_metadata_at_last(&self.metadata.current_text(), STREAMS_SET_ASIDE_FOR);
    }

    /// The trace was begun, by this consumer or an earlier one.
    pub(super) fn exists(&self) -> bool {
        self.chunks.owner().sees(&self.chunks.folder().join("metadata"))
    }

    /// Begins a rotation. The streams that are open are to be told that they moved.
    ///
    /// # Errors
    /// What could not be written. Everything is as before then.
    pub(super) fn begin_rotation(
        &mut self,
        request: RequestId,
        rotation: Rotation,
        now: Instant,
    ) -> Result<(), StorageError> {
        self.note_clock();
        let next_uuid = rotation.next_uuid;
        let (metadata, owner) = (&self.metadata, self.chunks.owner().clone());
        self.chunks.begin(request, rotation, now, |folder| {
            metadata.write_next(&owner, folder, next_uuid)
        })?;
        self.old_earlier = std::mem::take(&mut self.earlier);
        if let Some(moving) = self.chunks.moving() {
            self.metadata.begin_chunk(next_uuid, &moving.old_folder);
            self.old_earlier.moved(&moving.old_folder);
        }
        Ok(())
    }

    /// All streams have moved on. Returns who waits for it.
    pub(super) fn end_rotation(&mut self, channels: &mut BTreeMap<u32, Channel>) -> Vec<RequestId> {
        let layouts = |stream_id| channels.get(&stream_id).map(|channel| &channel.layouts);
        for counted in self.old_earlier.count(layouts) {
            let stream_id = counted.stream.0;
            if let Some(channel) = channels.get_mut(&stream_id) {
                add_counted(self.chunks.archived_of(stream_id), &counted, channel);
            }
        }
        self.old_earlier = Earlier::default();
        self.metadata.end_chunk();
        self.chunks.end()
    }

    /// The streams without a ring here, counted.
    pub(super) fn count_earlier<'a>(&mut self, layouts: impl Fn(u32) -> Option<&'a Layouts>) -> Vec<Counted> {
        let mut counted = self.earlier.count(&layouts);
        counted.extend(self.old_earlier.count(&layouts));
        counted
    }
}

/// Adds a stream of the channel that has no ring here, and notes whether it is gone. The stream tells the sum of the losses only.
pub(super) fn add_counted(totals: &mut ChannelTotals, counted: &Counted, channel: &mut Channel) {
    add_stream(totals, &counted.end, counted.events);
    if counted.is_gone {
        channel.findings.note(FILES_GONE);
    }
    let lost = if channel.overwrites() {
        &mut totals.overwritten_events
    } else {
        &mut totals.discarded_full
    };
    *lost = lost.saturating_add(counted.end.discarded);
}

/// Where the user domain lies in a trace.
pub(super) fn user_folder(output: &Path) -> PathBuf {
    output.join("user")
}
