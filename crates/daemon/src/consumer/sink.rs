// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writing to a trace takes five operations: appending a packet to a stream, with its index entry; cutting a stream after its last complete
//! entry; telling what a stream has for good; replacing the metadata; moving a finished chunk away. All five are here, as is the space that is
//! set aside for the time when the disk is full, and the look at files that somebody else may have removed meanwhile.
//!
//! The thread of a session is the only one that waits for its sink, and the rings are the queue before it: they are bounded, what does not fit
//! is counted, and they outlive the consumer.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use piste_ctf::index::{self, ENTRY_BYTES, Entry, FILE_HEADER_BYTES};
use piste_ctf::packet::{HEADER_BYTES, Header};
use rustix::fs::{FallocateFlags, fallocate};

use super::disk;
use super::metadata::WRITE_ERROR;
use super::storage::{At, StorageError};
use crate::person::Person;

/// What the last packets of a stream take at most: a block of each of its files.
const LAST_PACKETS_BYTES: u64 = 2 * 4096;

/// Where the packets of one stream go.
pub(crate) trait StreamSink {
    /// Appends a packet behind `end`, then its index entry. With that, the packet is part of the trace.
    ///
    /// # Errors
    /// What could not be written. Some of it may have been, until it is cut off.
    fn append(&mut self, packet: &[u8], entry: &Entry, end: Position) -> Result<(), StorageError>;

    /// Cuts off what a failed or interrupted write left behind `end`. The next packet goes to the same place, so that a failure here matters
    /// only to those who read the stream without its index.
    fn truncate(&mut self, end: Position);

    /// The entries of the packets that it has for good; `None` before the first one.
    ///
    /// # Errors
    /// What could not be read, or is no index.
    fn entries(&self) -> Result<Option<Vec<Entry>>, StorageError>;
}

/// What is left of a stream's files: somebody may have removed, moved or cut them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Intact {
    Everything,
    /// The packets, and not all entries.
    Packets,
    Nothing,
}

/// The end of what a stream has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) packets: u64,
    pub(crate) data_bytes: u64,
}

/// A stream's two files. They are made with the first packet.
#[derive(Debug)]
pub(crate) struct StreamFiles {
    paths: Paths,
    files: Option<Files>,
}

/// Where the files of a stream are, and whose.
#[derive(Debug, Clone)]
pub(crate) struct Paths {
    pub(crate) owner: Person,
    pub(crate) data: PathBuf,
    pub(crate) index: PathBuf,
}

#[derive(Debug)]
struct Files {
    data: File,
    index: File,
}

impl StreamFiles {
    /// The files at these paths.
    pub(crate) fn new(paths: Paths) -> StreamFiles {
        StreamFiles { paths, files: None }
    }

    pub(crate) fn paths(&self) -> &Paths {
        &self.paths
    }

    /// They lie in another folder now.
    pub(crate) fn moved(&mut self, folder: &Path) {
        self.paths = self.paths.in_folder(folder);
    }

    /// The error that its index is another stream's, or none.
    pub(crate) fn foreign(&self) -> StorageError {
        let what = "it is not the index of this trace's stream; move it away, or record to another folder";
        StorageError::new(&self.paths.index, io::Error::new(io::ErrorKind::InvalidData, what))
    }

    /// Opens the files, once, and cuts what is behind `end`.
    fn open(&mut self, end: Position) -> Result<&Files, StorageError> {
        if self.files.is_none() {
            let owner = &self.paths.owner;
            let folder = self.paths.index.parent().expect("the index lies in a folder");
            owner.make_folder(folder).at(folder)?;
            let open = |path: &Path| {
                let mut options = OpenOptions::new();
                let options = options.write(true).create(true).truncate(false);
                owner.open(path, options).at(path)
            };
            self.files = Some(Files {
                data: open(&self.paths.data)?,
                index: open(&self.paths.index)?,
            });
            self.truncate(end);
        }
        Ok(self.files.as_ref().expect("set above"))
    }

    /// What is left of the files, which had so much.
    pub(crate) fn intact(&self, end: Position) -> Intact {
        let Ok(_as_owner) = self.paths.owner.enter() else {
            return Intact::Everything;
        };
        match (end.packets, has(&self.paths.data, end.data_bytes)) {
            (0, _) => Intact::Everything,
            (_, false) => Intact::Nothing,
            (packets, true) if has(&self.paths.index, index_bytes(packets)) => Intact::Everything,
            _ => Intact::Packets,
        }
    }

    /// What the index is to have, from packets with headers of so many bytes.
    ///
    /// # Errors
    /// The file that could not be read.
    pub(crate) fn index_of_packets(&self, end: Position, header_bytes: usize) -> Result<Vec<u8>, StorageError> {
        let Paths { owner, data, .. } = &self.paths;
        let packets = owner.open(data, OpenOptions::new().read(true)).at(data)?;
        let (mut entries, mut offset_bytes) = (index::file_header().to_vec(), 0);
        for _ in 0..end.packets {
            let mut header = [0; HEADER_BYTES];
            packets
                .read_exact_at(&mut header[..header_bytes], offset_bytes)
                .at(data)?;
            let damaged = || StorageError::new(data, io::ErrorKind::InvalidData.into());
            let entry = Entry::of(&Header::decode(&header).ok_or_else(damaged)?, offset_bytes);
            entries.extend(entry.encode());
            offset_bytes += entry.packet_bits / 8;
        }
        Ok(entries)
    }

    /// Replaces the index.
    ///
    /// # Errors
    /// The file that could not be written. Everything is as before then.
    pub(crate) fn replace_index(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        replace(&self.paths.owner, &self.paths.index, bytes)?;
        self.forget();
        Ok(())
    }

    /// Lets go of the files: the next packet makes new ones.
    pub(crate) fn forget(&mut self) {
        self.files = None;
    }
}

impl StreamSink for StreamFiles {
    fn append(&mut self, packet: &[u8], entry: &Entry, end: Position) -> Result<(), StorageError> {
        let _as_owner = self.paths.owner.enter().at(&self.paths.data)?;
        let files = self.open(end)?;
        let written = disk::write_all_at(&files.data, packet, end.data_bytes);
        let indexed = match end.packets {
            _ if written.is_err() => Ok(()),
            0 => {
                let begin = [&index::file_header()[..], &entry.encode()].concat();
                disk::write_all_at(&files.index, &begin, 0)
            }
            packets => disk::write_all_at(&files.index, &entry.encode(), index_bytes(packets)),
        };
        written.at(&self.paths.data)?;
        indexed.at(&self.paths.index)
    }

    fn truncate(&mut self, end: Position) {
        if let (Some(files), Ok(_as_owner)) = (&self.files, self.paths.owner.enter()) {
            let of_index = match end.packets {
                0 => 0,
                packets => index_bytes(packets),
            };
            let _ = disk::set_len(&files.index, of_index);
            let _ = disk::set_len(&files.data, end.data_bytes);
        }
    }

    fn entries(&self) -> Result<Option<Vec<Entry>>, StorageError> {
        let index = match self.paths.owner.read(&self.paths.index) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            index => index.at(&self.paths.index)?,
        };
        if index.len() < FILE_HEADER_BYTES {
            return Ok(None);
        }
        let _as_owner = self.paths.owner.enter().at(&self.paths.data)?;
        let data_bytes = match fs::metadata(&self.paths.data) {
            Ok(metadata) => metadata.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(StorageError::new(&self.paths.data, error)),
        };
        let mut entries = index::decode(&index).ok_or_else(|| self.foreign())?;
        let whole = |entry: &Entry| entry.offset_bytes.saturating_add(entry.packet_bits / 8) <= data_bytes;
        entries.truncate(entries.iter().take_while(|entry| whole(entry)).count());
        Ok(Some(entries))
    }
}

/// Whether somebody has removed a file that was there.
pub(crate) fn is_gone(owner: &Person, path: &Path) -> bool {
    owner.enter().is_ok_and(|_as_owner| !has(path, 0))
}

/// Whether there is a file with so many bytes. Whoever cannot look does not know, and takes it to be there.
fn has(path: &Path, bytes: u64) -> bool {
    match fs::symlink_metadata(path) {
        Ok(metadata) => metadata.len() >= bytes,
        Err(error) => !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
    }
}

impl Paths {
    /// The files of a stream in the trace's folder.
    pub(crate) fn new(owner: &Person, folder: &Path, channel: &str, stream_instance_id: u64) -> Paths {
        let name = format!("{channel}_{stream_instance_id}");
        Paths {
            owner: owner.clone(),
            index: folder.join("index").join(format!("{name}.idx")),
            data: folder.join(name),
        }
    }

    /// Whether both are still there.
    pub(crate) fn are_there(&self) -> bool {
        !is_gone(&self.owner, &self.data) && !is_gone(&self.owner, &self.index)
    }

    /// The stream that an index file belongs to.
    pub(crate) fn stream_instance_id(index: &Path) -> Option<u64> {
        let name = index.file_name()?.to_str()?.strip_suffix(".idx")?;
        name.rsplit_once('_')?.1.parse().ok()
    }

    /// The same files in another folder.
    pub(crate) fn in_folder(&self, folder: &Path) -> Paths {
        let name = |path: &Path| path.file_name().expect("it was made of a name").to_owned();
        Paths {
            owner: self.owner.clone(),
            index: folder.join("index").join(name(&self.index)),
            data: folder.join(name(&self.data)),
        }
    }
}

/// Bytes of an index file with `packets` entries.
fn index_bytes(packets: u64) -> u64 {
    FILE_HEADER_BYTES as u64 + packets * ENTRY_BYTES as u64
}

/// Replaces the metadata of the trace in a folder.
///
/// # Errors
/// The file that could not be written.
pub(crate) fn replace_metadata(owner: &Person, folder: &Path, text: &str) -> Result<(), StorageError> {
    replace(owner, &folder.join("metadata"), text.as_bytes())
}

/// Replaces a file of a trace, or makes it and its folder. The bytes are written beside the old file, which they then replace, so that a reader and
/// a consumer that takes over find the old or the new one, never a part.
fn replace(owner: &Person, path: &Path, bytes: &[u8]) -> Result<(), StorageError> {
    let folder = path.parent().expect("it lies in a folder");
    let _as_owner = owner.enter().at(folder)?;
    owner.make_folder(folder).at(folder)?;
    let name = path.file_name().expect("it has a name").to_string_lossy();
    let part = folder.join(format!(".{name}.part"));
    let mut options = OpenOptions::new();
    let file = owner
        .open(&part, options.write(true).create(true).truncate(true))
        .at(&part)?;
    let written = disk::write_all(&file, bytes).at(&part);
    let replaced = written.and_then(|()| disk::rename(&part, path).at(path));
    if replaced.is_err() {
        // On a full disk, it would take the space that packets need.
        let _ = fs::remove_file(&part);
    }
    replaced
}

/// What a disk that is full at the end must have space for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Needs {
    /// Their last packets say what was lost.
    pub(crate) stream_count: usize,
    /// It says why.
    pub(crate) metadata_bytes: usize,
}

/// Sets space aside for what is written in the end, or more of it: a disk that is full then has no other. Without that much, or where a file
/// system cannot do it, no more is set aside.
pub(crate) fn set_aside(owner: &Person, path: &Path, needs: Needs) {
    let mut options = OpenOptions::new();
    let file = owner.open(path, options.write(true).create(true).truncate(false));
    let (Ok(file), Ok(_as_owner)) = (file, owner.enter()) else {
        return;
    };
    // What the metadata says in the end makes it a little longer.
    let metadata_bytes = (needs.metadata_bytes as u64).next_multiple_of(4096) + 4096;
    let bytes = needs.stream_count as u64 * LAST_PACKETS_BYTES + metadata_bytes;
    let has_none = |file: &File| file.metadata().is_ok_and(|metadata| metadata.len() == 0);
    if fallocate(&file, FallocateFlags::empty(), 0, bytes).is_err() && has_none(&file) {
        let _ = fs::remove_file(path);
    }
}

/// Gives back what was set aside.
pub(crate) fn give_back(owner: &Person, path: &Path) {
    if let Ok(_as_owner) = owner.enter() {
        let _ = fs::remove_file(path);
    }
}

/// Replaces the metadata of the trace in a folder on a full disk: the text takes its part of the space that was set aside at `aside`, and the rest
/// is free for the last packets of so many streams. Event classes that no written packet needs may be too much for that part: then the metadata
/// stays as it was, apart from the reason why packets are missing.
pub(crate) fn replace_metadata_at_last(owner: &Person, aside: &Path, folder: &Path, text: &str, stream_count: usize) {
    let Ok(_as_owner) = owner.enter() else { return };
    let path = folder.join("metadata");
    let write = |text: &str| {
        let file = owner.open(aside, OpenOptions::new().write(true))?;
        let of_streams = stream_count as u64 * LAST_PACKETS_BYTES;
        if text.len() as u64 + of_streams > file.metadata()?.len() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        file.write_all_at(text.as_bytes(), 0)?;
        file.set_len(text.len() as u64)
    };
    let written = write(text).or_else(|_| write(&with_write_error(&fs::read_to_string(&path)?, text)));
    if written.is_err() || !path.exists() || fs::rename(aside, path).is_err() {
        let _ = fs::remove_file(aside);
    }
}

/// The old text of metadata, with the reason that the new one has why packets could not be written.
fn with_write_error(old: &str, new: &str) -> String {
    let is_reason = |line: &&str| line.starts_with(&format!("\t{WRITE_ERROR} = "));
    match new.lines().find(is_reason) {
        Some(reason) if !old.lines().any(|line| is_reason(&line)) => {
            old.replacen("env {\n", &format!("env {{\n{reason}\n"), 1)
        }
        _ => old.to_owned(),
    }
}

/// Moves the chunk in `folder`, if there is one, to `old`, and the one that is prepared in `next` to its place.
///
/// # Errors
/// What could not be moved. Everything is as before then.
pub(crate) fn move_chunk(owner: &Person, folder: &Path, old: &Path, next: &Path) -> Result<(), StorageError> {
    let _as_owner = owner.enter().at(folder)?;
    let is_there = folder.exists();
    if is_there {
        disk::rename(folder, old).at(old)?;
    }
    let moved = disk::rename(next, folder).at(folder);
    if moved.is_err() && is_there {
        let _ = fs::rename(old, folder);
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On a full disk, metadata that has grown since takes nothing of what is set aside for streams.
    #[test]
    fn metadata_takes_only_its_part_of_what_is_set_aside() {
        const STREAMS: usize = 2;
        let folder = tempfile::tempdir().unwrap();
        let (owner, path) = (Person::default(), folder.path().join("metadata"));
        let aside = folder.path().join("aside");
        let replace = |text: &str| {
            let needs = Needs {
                stream_count: STREAMS,
                metadata_bytes: 100,
            };
            set_aside(&owner, &aside, needs);
            replace_metadata_at_last(&owner, &aside, folder.path(), text, STREAMS);
            assert!(!aside.exists());
            fs::read_to_string(&path).unwrap()
        };
        let text = |more: &str| format!("env {{\n\t{WRITE_ERROR} = \"no space\";\n}};\n{more}");
        fs::write(&path, "env {\n};\n").unwrap();
        let grown = " ".repeat(3 * 4096);
        assert_eq!(replace(&text(&grown)), text(""));
        let small = " ".repeat(4096);
        assert_eq!(replace(&text(&small)), text(&small));
    }
}
