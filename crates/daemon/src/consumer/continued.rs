// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the streams of a chunk go on from those of the chunk before it: `.continued`, a hidden file beside them.
//!
//! Each chunk is a trace of its own, so that what its packets count begins with 0: their sequence numbers, and the discarded events. The
//! file says which packet of the ring is the first, and what was discarded before it. An entry is written when a ring goes over to the
//! chunk: it is there, or the ring is still to be emptied into the chunk before. It also says what the stream has in the chunk before, for
//! the consumer that takes over from one that was killed.
//!
//! | offset in an entry | bytes | what |
//! |---|---|---|
//! | 0 | 8 | id of the stream's class |
//! | 8 | 8 | id of the stream |
//! | 16 | 8 | sequence number of the ring's next packet |
//! | 24 | 8 | events that were discarded until then |
//! | 32 | 8 | events in all chunks until then |
//! | 40 | 8 | events in the chunk before |
//! | 48 | 8 | bytes there |
//! | 56 | 8 | packets there |
//! | 64 | 8 | packets that are missing there |

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use super::disk;
use super::storage::{At, StorageError};
use super::stream::{Identity, Start};
use crate::person::Person;

/// Class and id of a stream.
pub(crate) type StreamKey = (u32, u64);

const NAME: &str = ".continued";
const ENTRY_BYTES: usize = 72;

/// The streams of a chunk that were begun in another one.
#[derive(Debug)]
pub(crate) struct Continued {
    owner: Person,
    path: PathBuf,
    streams: BTreeMap<StreamKey, Entry>,
    /// In the file.
    entries: u64,
}

/// Of one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    start: Start,
    left: Left,
}

/// What a stream has in the chunk that it left.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Left {
    pub(crate) events: u64,
    pub(crate) bytes: u64,
    pub(crate) packets: u64,
    pub(crate) lost_packets: u64,
}

impl Continued {
    /// What the file in a folder says; nothing when there is none.
    ///
    /// # Errors
    /// The file that cannot be read.
    pub(crate) fn open(owner: &Person, folder: &Path) -> Result<Continued, StorageError> {
        let mut continued = Continued::new(owner, folder);
        let bytes = match owner.read(&continued.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(continued),
            bytes => bytes.at(&continued.path)?,
        };
        for entry in bytes.as_chunks::<ENTRY_BYTES>().0 {
            let [
                class,
                id,
                next_sequence,
                discarded,
                events_before,
                events,
                bytes,
                packets,
                lost_packets,
            ] = numbers(entry);
            let start = Start {
                next_sequence,
                discarded,
                events: events_before,
            };
            let left = Left {
                events,
                bytes,
                packets,
                lost_packets,
            };
            if let Ok(class) = u32::try_from(class) {
                continued.streams.insert((class, id), Entry { start, left });
            }
            continued.entries += 1;
        }
        Ok(continued)
    }

    /// Nothing is continued so far in a folder.
    pub(crate) fn new(owner: &Person, folder: &Path) -> Continued {
        Continued {
            owner: owner.clone(),
            path: folder.join(NAME),
            streams: BTreeMap::new(),
            entries: 0,
        }
    }

    /// Where a stream begins; `None` when it was not begun in another chunk.
    pub(crate) fn start(&self, stream: StreamKey) -> Option<Start> {
        self.streams.get(&stream).map(|entry| entry.start)
    }

    /// Each stream, and where it begins.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (StreamKey, Start)> {
        self.streams.iter().map(|(&stream, entry)| (stream, entry.start))
    }

    /// Each stream, and what it has in the chunk that it left.
    pub(crate) fn left(&self) -> impl Iterator<Item = (StreamKey, Left)> {
        self.streams.iter().map(|(&stream, entry)| (stream, entry.left))
    }

    /// Notes that a stream goes on in this chunk, and what it left behind.
    ///
    /// # Errors
    /// The file that cannot be written.
    pub(crate) fn add(&mut self, identity: &Identity, start: Start, left: Left) -> Result<(), StorageError> {
        let stream = identity.key();
        let mut entry = [0; ENTRY_BYTES];
        let numbers = [
            stream.0.into(),
            stream.1,
            start.next_sequence,
            start.discarded,
            start.events,
            left.events,
            left.bytes,
            left.packets,
            left.lost_packets,
        ];
        for (bytes, number) in entry.as_chunks_mut::<8>().0.iter_mut().zip(numbers) {
            *bytes = number.to_le_bytes();
        }
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(false);
        let file = self.owner.open(&self.path, options);
        // One that was cut short is written over.
        let offset = self.entries * ENTRY_BYTES as u64;
        file.and_then(|file| disk::write_all_at(&file, &entry, offset))
            .at(&self.path)?;
        self.streams.insert(stream, Entry { start, left });
        self.entries += 1;
        Ok(())
    }
}

/// The chunk is finished, and no consumer goes on in this domain's part of it.
///
/// # Errors
/// The file is there and cannot be removed.
pub(crate) fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_file(folder.join(NAME)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn numbers(entry: &[u8; ENTRY_BYTES]) -> [u64; 9] {
    let mut numbers = [0; 9];
    for (number, bytes) in numbers.iter_mut().zip(entry.as_chunks().0) {
        *number = u64::from_le_bytes(*bytes);
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::consumer::stream::Origin;

    fn identity(stream_instance_id: u64) -> Identity {
        Identity {
            trace_uuid: [1; 16],
            stream_id: 2,
            stream_instance_id,
            origin: Origin::Cpu(0),
        }
    }

    const START: Start = Start {
        next_sequence: 7,
        discarded: 1 << 40,
        events: 3000,
    };
    const LEFT: Left = Left {
        events: 1000,
        bytes: 1 << 33,
        packets: 8,
        lost_packets: 2,
    };

    #[test]
    fn what_was_noted_is_known_to_the_next_consumer_wherever_a_later_note_was_cut() {
        let folder = tempfile::tempdir().unwrap();
        let mut continued = Continued::open(&Person::default(), folder.path()).unwrap();
        continued.add(&identity(40), START, LEFT).unwrap();
        let path = folder.path().join(".continued");
        let whole = fs::read(&path).unwrap();
        for cut in 0..ENTRY_BYTES {
            fs::write(&path, [&whole[..], &vec![0xff; cut]].concat()).unwrap();
            let mut continued = Continued::open(&Person::default(), folder.path()).unwrap();
            assert_eq!(continued.start((2, 40)), Some(START));
            assert_eq!(
                continued.left().collect::<Vec<_>>(),
                [((2, 40), LEFT)],
                "{cut} bytes of another"
            );
            continued.add(&identity(41), Start::default(), Left::default()).unwrap();
            let continued = Continued::open(&Person::default(), folder.path()).unwrap();
            assert_eq!(continued.start((2, 41)), Some(Start::default()));
            assert_eq!(continued.start((2, 42)), None);
        }
        remove(folder.path()).unwrap();
        assert!(!path.exists());
        remove(folder.path()).unwrap();
    }
}
