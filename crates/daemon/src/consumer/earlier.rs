// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an earlier consumer wrote to the trace, counted: the index files say the packets, the packets say the events.
//!
//! A consumer that takes over from one that was killed knows nothing of the rings that were done before. Their streams are
//! found in the folder; those of rings that are still there are claimed when the ring is first read (rings.rs). Counting reads
//! the streams from start to end, so it waits until totals are asked for, and is done once for each stream.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use piste_ctf::index;
use piste_ctf::packet::Header;
use piste_ctf::{Layouts, packet::HEADER_BYTES};

use super::continued::{Continued, StreamKey};
use super::sink::Paths;
use super::storage::{At, StorageError};
use super::stream::{End, Start};
use crate::person::Person;

/// The streams of a chunk that this consumer did not write.
#[derive(Debug, Default)]
pub(super) struct Earlier {
    owner: Person,
    /// By their ids, which no two streams of a session share.
    streams: BTreeMap<u64, Known>,
}

#[derive(Debug)]
struct Known {
    /// Absent when it has no packet in this chunk.
    index: Option<PathBuf>,
    /// Of a stream that was begun in another chunk.
    continued: Option<(StreamKey, Start)>,
    counted: Option<Counted>,
}

/// What a stream has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counted {
    pub(super) stream: StreamKey,
    pub(super) events: u64,
    pub(super) end: End,
}

impl Earlier {
    /// Finds the streams that are in the chunk's folder already.
    ///
    /// # Errors
    /// The folder that could not be read.
    pub(super) fn find(owner: &Person, folder: &Path, continued: &Continued) -> Result<Earlier, StorageError> {
        let mut streams = BTreeMap::new();
        for (stream, start) in continued.iter() {
            let known = Known {
                index: None,
                continued: Some((stream, start)),
                counted: None,
            };
            streams.insert(stream.1, known);
        }
        let folder = folder.join("index");
        let _as_owner = owner.enter().at(&folder)?;
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Earlier {
                    owner: owner.clone(),
                    streams,
                });
            }
            entries => entries.at(&folder)?,
        };
        for entry in entries {
            let path = entry.at(&folder)?.path();
            if let Some(id) = Paths::stream_instance_id(&path) {
                let known = streams.entry(id).or_insert(Known {
                    index: None,
                    continued: None,
                    counted: None,
                });
                known.index = Some(path);
            }
        }
        Ok(Earlier {
            owner: owner.clone(),
            streams,
        })
    }

    /// The chunk's folder is another one now.
    pub(super) fn moved(&mut self, folder: &Path) {
        for index in self.streams.values_mut().filter_map(|known| known.index.as_mut()) {
            if let Some(name) = index.file_name() {
                *index = folder.join("index").join(name);
            }
        }
    }

    /// Somebody else counts the stream: who reads its ring, or who let it move on.
    pub(super) fn claim(&mut self, stream_instance_id: u64) {
        self.streams.remove(&stream_instance_id);
    }

    /// The streams that were not claimed, counted. A stream that cannot be read is left out.
    pub(super) fn count<'a>(&mut self, layouts: impl Fn(u32) -> Option<&'a Layouts>) -> Vec<Counted> {
        let owner = &self.owner;
        let count = |known: &mut Known| {
            if known.counted.is_none() {
                known.counted = known.count(owner, &layouts);
            }
            known.counted
        };
        self.streams.values_mut().filter_map(count).collect()
    }
}

impl Known {
    fn count<'a>(&self, owner: &Person, layouts: impl Fn(u32) -> Option<&'a Layouts>) -> Option<Counted> {
        let Some(index_path) = &self.index else {
            let (stream, start) = self.continued?;
            return Some(Counted {
                stream,
                events: 0,
                end: End::at(start),
            });
        };
        let entries = index::decode(&owner.read(index_path).ok()?)?;
        let first = entries.first()?;
        let stream_id = u32::try_from(first.stream_id).ok()?;
        let data = index_path.parent()?.parent()?.join(index_path.file_stem()?);
        let paths = Paths {
            owner: owner.clone(),
            data,
            index: index_path.clone(),
        };
        let events = count_events(&paths, entries.len() as u64, layouts(stream_id)?).ok()?;
        let start = self.continued.map_or(Start::default(), |(_, start)| start);
        Some(Counted {
            stream: (stream_id, first.stream_instance_id),
            events,
            end: End::of(&entries, HEADER_BYTES, start)?,
        })
    }
}

/// Counts the events in the first `packets` packets of a stream.
///
/// # Errors
/// The file that could not be read.
pub(super) fn count_events(paths: &Paths, packets: u64, layouts: &Layouts) -> Result<u64, StorageError> {
    let not_an_index = || io::Error::from(io::ErrorKind::InvalidData);
    let entries = paths
        .owner
        .read(&paths.index)
        .and_then(|file| index::decode(&file).ok_or_else(not_an_index));
    let data = paths
        .owner
        .open(&paths.data, OpenOptions::new().read(true))
        .at(&paths.data)?;
    let mut packet = Vec::new();
    let mut events = 0;
    for entry in entries
        .at(&paths.index)?
        .iter()
        .take(usize::try_from(packets).unwrap_or(usize::MAX))
    {
        // Sub-buffers have at most 2^26 bytes; content that claims more is no packet of ours.
        let content_bytes = u32::try_from(entry.content_bits / 8).unwrap_or(0);
        if content_bytes as usize > HEADER_BYTES {
            packet.resize(content_bytes as usize, 0);
            data.read_exact_at(&mut packet, entry.offset_bytes).at(&paths.data)?;
            let begin_ticks = Header::decode(&packet).map_or(0, |header| header.timestamp_begin);
            events += u64::from(layouts.check(&packet, content_bytes, begin_ticks, u64::MAX).records);
        }
    }
    Ok(events)
}
