// SPDX-License-Identifier: MIT OR Apache-2.0
//! The chunks of one domain's part of a trace: the rotation of a session ends the one that is written to and begins the next.
//!
//! ```text
//!   begin     the next chunk's metadata is written to CHUNK/.user; DIR/user becomes CHUNK/user; CHUNK/.user becomes DIR/user
//!   move on   each stream, once its ring is emptied into CHUNK/user, goes on in DIR/user (continued.rs)
//!   end       all streams have moved on: CHUNK/user is a complete trace that nobody writes to
//! ```
//!
//! The folders tell the next consumer where the one that was killed had come: without CHUNK/user the rotation has not begun; with it,
//! a stream that is not continued in DIR/user and has packets in CHUNK/user is still to move on. The next consumer ends the rotation when
//! control asks for it again: by then control has told it of all streams.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::continued::{Continued, Left};
use super::matches::Matches;
use super::sink::{self, Needs, Paths, move_chunk};
use super::storage::{At, StorageError};
use super::stream::{Identity, Stream};
use crate::link::{ChannelTotals, RequestId, Rotation};
use crate::person::Person;

/// Where the streams of a domain are.
#[derive(Debug)]
pub(crate) struct Chunks {
    owner: Person,
    /// Of the chunk that is recorded to.
    folder: PathBuf,
    trace_uuid: [u8; 16],
    continued: Continued,
    /// What finished chunks have and nobody else counts, by channel.
    pub(crate) archived: BTreeMap<u32, ChannelTotals>,
    /// Rotations that were asked for.
    asked: VecDeque<(RequestId, Rotation)>,
    moving: Option<Moving>,
    /// The chunk that was finished last.
    finished: Option<PathBuf>,
    /// Of a trigger: nothing is written.
    pub(crate) matches: Option<Matches>,
}

/// A rotation: streams move on from one chunk to the next.
#[derive(Debug)]
pub(crate) struct Moving {
    pub(crate) since: Instant,
    chunk: PathBuf,
    /// The domain's part of the old chunk.
    pub(crate) old_folder: PathBuf,
    pub(crate) old_uuid: [u8; 16],
    pub(crate) old_continued: Continued,
    /// To be answered when it is over.
    requests: Vec<RequestId>,
}

impl Moving {
    /// Control has asked this consumer for it, after it told of the streams that it knows.
    pub(crate) fn is_asked(&self) -> bool {
        !self.requests.is_empty()
    }
}

impl Chunks {
    /// The part of an owner's trace in `folder`: what its finished chunks have, and the rotation, if an earlier consumer had begun one that goes on.
    ///
    /// # Errors
    /// The file that cannot be read: streams are taken for new ones then.
    pub(crate) fn open(
        owner: Person,
        folder: PathBuf,
        trace_uuid: [u8; 16],
        (archived, rotation): (Vec<ChannelTotals>, Option<Rotation>),
        now: Instant,
    ) -> (Chunks, Option<StorageError>) {
        let mut chunks = Chunks {
            continued: Continued::new(&owner, &folder),
            owner,
            folder,
            trace_uuid,
            archived: archived.into_iter().map(|totals| (totals.stream_id, totals)).collect(),
            asked: VecDeque::new(),
            moving: None,
            finished: None,
            matches: None,
        };
        let error = chunks.resume(rotation, now).err();
        (chunks, error)
    }

    fn resume(&mut self, rotation: Option<Rotation>, now: Instant) -> Result<(), StorageError> {
        let _as_owner = self.owner.enter().at(&self.folder)?;
        if let Some(rotation) = rotation
            && self.part(&rotation.chunk).exists()
        {
            let next = self.next(&rotation.chunk);
            if !self.folder.exists() && next.exists() {
                move_chunk(&self.owner, &self.folder, &self.part(&rotation.chunk), &next)?;
            }
            let old_continued = Continued::open(&self.owner, &self.part(&rotation.chunk))?;
            self.move_from(rotation, old_continued, now);
        }
        let continued = Continued::open(&self.owner, &self.folder)?;
        if self.moving.is_some() {
            for ((stream_id, _), left) in continued.left() {
                self.archive(stream_id, left);
            }
        }
        self.continued = continued;
        Ok(())
    }

    /// What a trigger waits for may be among events that were read and are not all told of yet.
    pub(crate) fn has_untold_matches(&self) -> bool {
        self.matches.as_ref().is_some_and(Matches::are_untold)
    }

    pub(crate) fn owner(&self) -> &Person {
        &self.owner
    }

    /// Of the chunk that is recorded to.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Of the chunk that is recorded to.
    pub(crate) fn trace_uuid(&self) -> [u8; 16] {
        self.trace_uuid
    }

    pub(crate) fn continued(&self) -> &Continued {
        &self.continued
    }

    /// The rotation that is going on.
    pub(crate) fn moving(&self) -> Option<&Moving> {
        self.moving.as_ref()
    }

    /// Somebody wants a rotation.
    pub(crate) fn ask(&mut self, request: RequestId, rotation: Rotation) {
        self.asked.push_back((request, rotation));
    }

    /// The next rotation that is to begin. One that goes on already, or is over, comes back as a request to be answered.
    pub(crate) fn next_asked(&mut self) -> Option<Asked> {
        if let Some(moving) = &mut self.moving {
            while self
                .asked
                .front()
                .is_some_and(|(_, rotation)| rotation.chunk == moving.chunk)
            {
                moving
                    .requests
                    .extend(self.asked.pop_front().map(|(request, _)| request));
            }
            return None;
        }
        let (request, rotation) = self.asked.pop_front()?;
        if self.finished.as_ref() == Some(&rotation.chunk) {
            return Some(Asked::Over(request));
        }
        Some(Asked::Begin(request, rotation))
    }

    /// Begins a rotation: from here on, new streams are in the next chunk. `write_metadata` writes that chunk's to a folder.
    ///
    /// # Errors
    /// What could not be written. Everything is as before then.
    pub(crate) fn begin(
        &mut self,
        request: RequestId,
        rotation: Rotation,
        now: Instant,
        write_metadata: impl FnOnce(&Path) -> Result<(), StorageError>,
    ) -> Result<(), StorageError> {
        let (old, next) = (self.part(&rotation.chunk), self.next(&rotation.chunk));
        let _as_owner = self.owner.enter().at(&next)?;
        // What an attempt left that came to nothing.
        let _ = fs::remove_dir_all(&next);
        write_metadata(&next).inspect_err(|_| drop(fs::remove_dir_all(&next)))?;
        move_chunk(&self.owner, &self.folder, &old, &next)?;
        let old_continued = std::mem::replace(&mut self.continued, Continued::new(&self.owner, &self.folder));
        self.move_from(rotation, old_continued, now);
        if let Some(moving) = &mut self.moving {
            moving.requests.push(request);
        }
        Ok(())
    }

    fn move_from(&mut self, rotation: Rotation, old_continued: Continued, since: Instant) {
        let old_uuid = std::mem::replace(&mut self.trace_uuid, rotation.next_uuid);
        self.moving = Some(Moving {
            since,
            old_folder: self.part(&rotation.chunk),
            chunk: rotation.chunk,
            old_uuid,
            old_continued,
            requests: Vec::new(),
        });
    }

    /// All streams have moved on. Returns who waits for it.
    pub(crate) fn end(&mut self) -> Vec<RequestId> {
        let Some(moving) = self.moving.take() else {
            return vec![];
        };
        self.finished = Some(moving.chunk);
        moving.requests
    }

    /// What finished chunks have.
    pub(crate) fn archived(&self) -> Vec<ChannelTotals> {
        self.archived.values().cloned().collect()
    }

    /// Opens a stream behind the packets that it has: in the old chunk, as long as it has to move on from there.
    ///
    /// # Errors
    /// As [`Stream::open`].
    pub(crate) fn open_stream(&self, channel: &str, identity: Identity) -> Result<Stream, StorageError> {
        let paths = Paths::new(&self.owner, &self.folder, channel, identity.stream_instance_id);
        if let Some(matches) = &self.matches {
            return Ok(Stream::of_matches(paths, identity, matches.clone()));
        }
        if let Some(start) = self.continued.start(identity.key()) {
            return Stream::open_continued(paths, identity, start);
        }
        if let Some(moving) = &self.moving {
            let old = paths.in_folder(&moving.old_folder);
            let start = moving.old_continued.start(identity.key());
            if start.is_some() || self.owner.sees(&old.index) {
                let identity = Identity {
                    trace_uuid: moving.old_uuid,
                    ..identity
                };
                return Stream::open_continued(old, identity, start.unwrap_or_default());
            }
        }
        Stream::open(paths, identity)
    }

    /// The folder that a stream which was open when the rotation began lies in now.
    pub(crate) fn moved(&self, stream: &mut Stream) {
        if let Some(moving) = &self.moving {
            stream.moved(&moving.old_folder);
        }
    }

    /// Whether a stream has to move on.
    pub(crate) fn is_behind(&self, stream: &Stream) -> bool {
        let moving = self.moving.as_ref();
        moving.is_some_and(|moving| stream.paths().data.starts_with(&moving.old_folder))
    }

    /// Lets a stream go on in the next chunk. What it leaves behind is counted as archived, with so many `events`, but for the losses, which
    /// its ring goes on counting.
    ///
    /// # Errors
    /// The file that cannot be written. The stream is as before.
    pub(crate) fn move_on(&mut self, stream: &mut Stream, events: u64) -> Result<(), StorageError> {
        let identity = Identity {
            trace_uuid: self.trace_uuid,
            ..*stream.identity()
        };
        let end = *stream.end();
        let start = end.next_start(events);
        let left = Left {
            events,
            bytes: end.data_bytes,
            packets: end.packets,
            lost_packets: end.lost_packets,
        };
        self.continued.add(&identity, start, left)?;
        *stream = Stream::open_continued(stream.paths().in_folder(&self.folder), identity, start)?;
        self.archive(identity.stream_id, left);
        Ok(())
    }

    /// A stream has left this in a finished chunk.
    fn archive(&mut self, stream_id: u32, left: Left) {
        let archived = self.archived_of(stream_id);
        archived.events += left.events;
        archived.bytes += left.bytes;
        archived.packets += left.packets;
        archived.lost_packets += left.lost_packets;
    }

    /// Sets space aside for what is said in the end, should the disk be full.
    pub(crate) fn set_aside(&self, needs: Needs) {
        sink::set_aside(&self.owner, &self.aside(), needs);
    }

    /// Writes this metadata into its part of what was set aside, and gives back the rest, for the last packets of so many streams: the disk is full.
    pub(crate) fn replace_metadata_at_last(&self, text: &str, stream_count: usize) {
        sink::replace_metadata_at_last(&self.owner, &self.aside(), &self.folder, text, stream_count);
    }

    /// Gives back what was set aside: it is used, or needed no more.
    pub(crate) fn give_back(&self) {
        sink::give_back(&self.owner, &self.aside());
    }

    /// Beside the folder, which a rotation moves.
    fn aside(&self) -> PathBuf {
        let mut hidden = self.hidden_name();
        hidden.push(".aside");
        self.folder.with_file_name(hidden)
    }

    /// What finished chunks have of a channel.
    pub(crate) fn archived_of(&mut self, stream_id: u32) -> &mut ChannelTotals {
        self.archived
            .entry(stream_id)
            .or_insert_with(|| ChannelTotals::of(stream_id))
    }

    fn name(&self) -> &std::ffi::OsStr {
        self.folder.file_name().expect("it is the folder of a domain")
    }

    /// The domain's part of a chunk.
    fn part(&self, chunk: &Path) -> PathBuf {
        chunk.join(self.name())
    }

    /// Where the next chunk is made.
    fn next(&self, chunk: &Path) -> PathBuf {
        chunk.join(self.hidden_name())
    }

    fn hidden_name(&self) -> std::ffi::OsString {
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(self.name());
        hidden
    }
}

/// A rotation that was asked for.
pub(crate) enum Asked {
    /// It is to begin.
    Begin(RequestId, Rotation),
    /// It is over already; the answer was lost.
    Over(RequestId),
}
