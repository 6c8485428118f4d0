// SPDX-License-Identifier: MIT OR Apache-2.0
//! The index that Piste and LTTng write beside a stream, `index/STREAM.idx` (`piste_ctf::index`): it lists each packet, so that packets are
//! missed that a file has lost at its end, where the stream itself looks whole.
//!
//! It is believed only where nothing speaks against it: its entries are of this stream, one behind the other, and those of the first and the
//! last packet that are there say what these say. Entries are written behind their packets, and the index is looked at before the size of the
//! stream: what it lists and the stream lacks is gone, also of a trace that is still written.
//!
//! Of Piste's, it also names streams that are gone altogether, and one that is damaged is told of. A trace without the whole folder is taken for a
//! copy, which needs none.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use piste_ctf::index::{ENTRY_BYTES, Entry, FILE_HEADER_BYTES, file_header};

use super::{FileState, Packet, StreamIndex, state_of};
use crate::regular;

/// Entries that are looked at at once.
const BLOCK_ENTRIES: usize = 1 << 10;

/// How many packets the index lists that are missing at the end of the stream; 0 also where it is not certain. Of a file without any packet,
/// only Piste's is believed: LTTng begins some files again, and their indices a moment later.
pub(super) fn missing_packets(folder: &Path, stream: &StreamIndex, is_of_piste: bool) -> u64 {
    let Some(path) = path_of(folder, &stream.path) else {
        return 0;
    };
    let missing = Index::open(&path).and_then(|index| index.missing(stream, is_of_piste));
    missing.ok().flatten().unwrap_or(0)
}

/// The streams that are gone and that an index names, without packets.
pub(super) fn missing_streams(folder: &Path, streams: &[StreamIndex], is_of_kernel: bool) -> Vec<StreamIndex> {
    let Ok(entries) = fs::read_dir(folder.join("index")) else {
        return Vec::new();
    };
    let known: HashSet<&Path> = streams.iter().map(|stream| &*stream.path).collect();
    let missing = |entry: io::Result<fs::DirEntry>| {
        let path = entry.ok()?.path();
        let stream_path = folder.join(path.file_name()?.to_str()?.strip_suffix(".idx")?);
        if known.contains(&*stream_path) || stream_path.exists() {
            return None;
        }
        Index::open(&path)
            .and_then(|index| index.of_gone(stream_path, is_of_kernel))
            .ok()?
    };
    entries.filter_map(missing).collect()
}

/// What is wrong with the index of a stream of Piste. A packet is there a moment before its entry, and its stream before its index.
pub(super) fn fault(folder: &Path, stream: &StreamIndex) -> Option<String> {
    let [first, .., _] = stream.packets[..] else {
        return None;
    };
    let is_of_stream = |index: &Index| -> io::Result<bool> {
        let entry = index.entry(0)?;
        let names = (entry.stream_id, Some(entry.stream_instance_id));
        Ok(says(&entry, &first) && names == (stream.class_id, stream.stream_id))
    };
    let fault = match path_of(folder, &stream.path).map(|path| Index::open(&path))? {
        Err(error) if error.kind() == io::ErrorKind::NotFound => "its index is missing".to_owned(),
        Err(_) => "its index is damaged".to_owned(),
        Ok(index) => match is_of_stream(&index) {
            Ok(true) if index.entries + 1 >= stream.packets.len() as u64 => return None,
            Ok(true) => {
                let (entries, packets) = (index.entries, stream.packets.len());
                format!("its index is truncated: it lists {entries} of {packets} packets")
            }
            Ok(false) | Err(_) => "its index is damaged".to_owned(),
        },
    };
    Some(fault)
}

fn path_of(folder: &Path, stream: &Path) -> Option<PathBuf> {
    let mut name = stream.file_name()?.to_owned();
    name.push(".idx");
    Some(folder.join("index").join(name))
}

struct Index {
    file: File,
    entries: u64,
}

impl Index {
    fn open(path: &Path) -> io::Result<Index> {
        let file = regular::open(path)?;
        let mut header = [0; FILE_HEADER_BYTES];
        file.read_exact_at(&mut header, 0)?;
        if header != file_header() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let entries = (file.metadata()?.len() - FILE_HEADER_BYTES as u64) / ENTRY_BYTES as u64;
        Ok(Index { file, entries })
    }

    fn missing(&self, stream: &StreamIndex, is_of_piste: bool) -> io::Result<Option<u64>> {
        let Some(last) = self.entries.checked_sub(1) else {
            return Ok(None);
        };
        let (first, last) = (self.entry(0)?, self.entry(last)?);
        let stream_bytes = state_of(&stream.path)?.bytes;
        if last.offset_bytes < stream_bytes || stream_bytes != stream.state.bytes {
            return Ok(None);
        }
        let first_missing = self.first_from(stream_bytes)?;
        let ends = stream.packets.first().zip(stream.packets.last());
        let before = match (ends, first_missing.checked_sub(1)) {
            (Some((first_packet, last_packet)), Some(before)) => {
                let before = self.entry(before)?;
                let is_of_stream =
                    before.stream_id == stream.class_id && Some(before.stream_instance_id) == stream.stream_id;
                if !(is_of_stream && says(&first, first_packet) && says(&before, last_packet)) {
                    return Ok(None);
                }
                before
            }
            (None, None) if is_of_piste => Entry {
                stream_id: first.stream_id,
                stream_instance_id: first.stream_instance_id,
                ..Entry::default()
            },
            _ => return Ok(None),
        };
        let is_sound = self.is_sound(before, first_missing)?;
        Ok(is_sound.then_some(self.entries - first_missing))
    }

    /// The stream that it is of, which is gone; nothing where that is not certain. Of a kernel, each stream is of one CPU, and has its number.
    fn of_gone(&self, path: PathBuf, is_of_kernel: bool) -> io::Result<Option<StreamIndex>> {
        if self.entries == 0 {
            return Ok(None);
        }
        let first = self.entry(0)?;
        let before = Entry {
            stream_id: first.stream_id,
            stream_instance_id: first.stream_instance_id,
            ..Entry::default()
        };
        if !self.is_sound(before, 0)? {
            return Ok(None);
        }
        Ok(Some(StreamIndex {
            path,
            state: FileState::default(),
            class_id: first.stream_id,
            stream_id: Some(first.stream_instance_id),
            number: first.stream_instance_id,
            cpu_id: Some(first.stream_instance_id).filter(|_| is_of_kernel),
            first_number: None,
            packets: Vec::new(),
            losses: Vec::new(),
            missing_packets: self.entries,
        }))
    }

    /// The first entry of a packet from a byte of the stream on.
    fn first_from(&self, offset_bytes: u64) -> io::Result<u64> {
        let (mut begin, mut end) = (0, self.entries);
        while begin < end {
            let middle = begin + (end - begin) / 2;
            match self.entry(middle)?.offset_bytes < offset_bytes {
                true => begin = middle + 1,
                false => end = middle,
            }
        }
        Ok(begin)
    }

    /// All entries from one on are of the stream of the one before, and each packet begins where the one before it ends.
    fn is_sound(&self, mut before: Entry, from: u64) -> io::Result<bool> {
        let (mut at, mut block) = (from, Vec::new());
        while at < self.entries {
            let count = (self.entries - at).min(BLOCK_ENTRIES as u64);
            block.resize(count as usize * ENTRY_BYTES, 0);
            self.file.read_exact_at(&mut block, place(at))?;
            for entry in block.as_chunks::<ENTRY_BYTES>().0.iter().map(Entry::decode) {
                let follows = before.offset_bytes.checked_add(before.packet_bits / 8) == Some(entry.offset_bytes);
                let is_packet = entry.packet_bits > 0 && entry.content_bits <= entry.packet_bits;
                let is_of_stream =
                    (entry.stream_id, entry.stream_instance_id) == (before.stream_id, before.stream_instance_id);
                let is_later =
                    entry.timestamp_begin <= entry.timestamp_end && entry.timestamp_end >= before.timestamp_end;
                if !(follows && is_packet && is_of_stream && is_later) {
                    return Ok(false);
                }
                before = entry;
            }
            at += count;
        }
        Ok(true)
    }

    fn entry(&self, number: u64) -> io::Result<Entry> {
        let mut bytes = [0; ENTRY_BYTES];
        self.file.read_exact_at(&mut bytes, place(number))?;
        Ok(Entry::decode(&bytes))
    }
}

/// Where an entry is in the file.
fn place(number: u64) -> u64 {
    FILE_HEADER_BYTES as u64 + number * ENTRY_BYTES as u64
}

/// The entry is of the packet.
fn says(entry: &Entry, packet: &Packet) -> bool {
    entry.offset_bytes == packet.offset
        && (Some(entry.timestamp_begin), Some(entry.timestamp_end)) == (packet.begin, packet.end)
}
