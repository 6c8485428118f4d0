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

use piste_ctf::index::{self, ENTRY_BYTES, FILE_HEADER_BYTES};
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

#[derive(Debug, Default)]
struct Known {
    /// Absent when it has no packet in this chunk.
    index: Option<PathBuf>,
    /// What the index had when it was found.
    found: Option<Found>,
    /// Of a stream that was begun in another chunk.
    continued: Option<(StreamKey, Start)>,
    counted: Option<Counted>,
}

#[derive(Debug, Clone, Copy)]
struct Found {
    stream: StreamKey,
    packets: u64,
}

/// What a stream has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counted {
    pub(super) stream: StreamKey,
    pub(super) events: u64,
    pub(super) end: End,
    /// Somebody has removed it since it was found: its packets are missing.
    pub(super) is_gone: bool,
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
                continued: Some((stream, start)),
                ..Known::default()
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
                let known = streams.entry(id).or_default();
                known.found = Found::look(owner, &path);
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

    /// The streams that were not claimed, counted. A stream that cannot be read is left out, unless it is gone.
    pub(super) fn count<'a>(&mut self, layouts: impl Fn(u32) -> Option<&'a Layouts>) -> Vec<Counted> {
        let owner = &self.owner;
        let count = |known: &mut Known| {
            if let Some(gone) = known.gone(owner) {
                return Some(gone);
            }
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
            return Some(Counted {
                stream: self.continued?.0,
                events: 0,
                end: End::at(self.start()),
                is_gone: false,
            });
        };
        let paths = self.paths(owner)?;
        let entries = index::decode(&owner.read(index_path).ok()?)?;
        let first = entries.first()?;
        let stream_id = u32::try_from(first.stream_id).ok()?;
        let events = count_events(&paths, entries.len() as u64, layouts(stream_id)?).ok()?;
        Some(Counted {
            stream: (stream_id, first.stream_instance_id),
            events,
            end: End::of(&entries, HEADER_BYTES, self.start())?,
            is_gone: false,
        })
    }

    /// What is missing, if somebody has removed it.
    fn gone(&self, owner: &Person) -> Option<Counted> {
        let Found { stream, packets } = self.found?;
        let is_gone = !self.paths(owner)?.are_there();
        is_gone.then(|| Counted {
            stream,
            events: 0,
            end: End {
                lost_packets: packets,
                ..End::at(self.start())
            },
            is_gone,
        })
    }

    fn start(&self) -> Start {
        self.continued.map_or(Start::default(), |(_, start)| start)
    }

    fn paths(&self, owner: &Person) -> Option<Paths> {
        let index = self.index.clone()?;
        Some(Paths {
            owner: owner.clone(),
            data: index.parent()?.parent()?.join(index.file_stem()?),
            index,
        })
    }
}

impl Found {
    /// `None` when it is no index, or has no packet.
    fn look(owner: &Person, index: &Path) -> Option<Found> {
        let file = owner.open(index, OpenOptions::new().read(true)).ok()?;
        let mut begin = [0; FILE_HEADER_BYTES + ENTRY_BYTES];
        file.read_exact_at(&mut begin, 0).ok()?;
        let first = *index::decode(&begin)?.first()?;
        let bytes = file.metadata().ok()?.len();
        Some(Found {
            stream: (u32::try_from(first.stream_id).ok()?, first.stream_instance_id),
            packets: (bytes - FILE_HEADER_BYTES as u64) / ENTRY_BYTES as u64,
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
