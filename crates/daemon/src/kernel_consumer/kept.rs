// SPDX-License-Identifier: MIT OR Apache-2.0
//! What snapshots took out of the ring of a flight recorder and the next snapshot shows again: a stream in the run folder, of which the
//! newest packets count, as many as the ring holds.
//!
//! Older packets give their space back by becoming a hole in the file; the stream is otherwise as every other one, so that a consumer
//! that is killed leaves it whole.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use piste_ctf::index::{self, Entry};
use piste_ctf::packet::{KERNEL_HEADER_BYTES, KernelHeader};
use piste_kernel::convert::Cut;
use rustix::fs::{FallocateFlags, fallocate};

use crate::consumer::sink::Paths;
use crate::consumer::storage::{At, StorageError};
use crate::consumer::stream::{PacketFacts, Stream};

/// Events of each packet: a file of numbers by sequence number.
#[derive(Debug)]
pub(super) struct Counts {
    path: PathBuf,
    file: File,
}

impl Counts {
    /// # Errors
    /// The file that cannot be opened.
    pub(super) fn open(path: &Path) -> Result<Counts, StorageError> {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        Ok(Counts {
            path: path.into(),
            file: options.open(path).at(path)?,
        })
    }

    /// Notes a packet that is about to be written.
    ///
    /// # Errors
    /// The file that cannot be written.
    pub(super) fn note(&self, sequence: u64, events: u64) -> Result<(), StorageError> {
        let written = self.file.write_all_at(&events.to_le_bytes(), 8 * sequence);
        written.at(&self.path)
    }

    fn events(&self, sequence: u64) -> Result<u64, StorageError> {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, 8 * sequence).at(&self.path)?;
        Ok(u64::from_le_bytes(bytes))
    }
}

/// Where a snapshot of a stream ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Until {
    /// The time, if everything before it was read.
    pub(super) ticks: Option<u64>,
    /// Packets from this number on are not in it.
    pub(super) next_sequence: u64,
    /// The part of the last packet that is in it, if not all is.
    pub(super) cut: Option<Cut>,
}

/// Copies the newest packets of `kept`, at most `bytes_max` of them, to the end of `snapshot`; what is older gives its space back.
/// What was lost before the first of them is none of the snapshot's, and what was recorded since it ended is the next one's.
///
/// # Errors
/// The file that cannot be read or written.
pub(super) fn copy(
    kept: &Paths,
    counts: &Counts,
    bytes_max: u64,
    until: &Until,
    snapshot: &mut Stream,
) -> Result<(), StorageError> {
    let entries = entries(kept)?;
    let newest = newest(&entries, bytes_max);
    let Some(first) = newest.first() else { return Ok(()) };
    let data = forget_before(kept, first)?;
    let mut packet = vec![];
    let mut discarded = 0;
    for entry in newest {
        packet.resize((entry.packet_bits / 8) as usize, 0);
        data.read_exact_at(&mut packet, entry.offset_bytes).at(&kept.data)?;
        let damaged = || StorageError::new(&kept.data, io::ErrorKind::InvalidData.into());
        let header = KernelHeader::decode(&packet).ok_or_else(damaged)?;
        if header.packet_seq_num >= until.next_sequence {
            break;
        }
        let content_bytes = (header.content_bits / 8) as usize;
        // One without records has the number of its neighbour.
        let has_records = content_bytes > KERNEL_HEADER_BYTES;
        let events = if has_records {
            counts.events(header.packet_seq_num)?
        } else {
            0
        };
        let mut facts = PacketFacts {
            sequence: header.packet_seq_num,
            begin_ticks: header.timestamp_begin,
            end_ticks: header.timestamp_end,
            content_bytes,
            events,
            discarded: header.events_discarded - first.events_discarded,
        };
        discarded = facts.discarded;
        let is_last = has_records && facts.sequence + 1 == until.next_sequence;
        if let Some(cut) = until.cut.filter(|_| is_last) {
            if cut.events == 0 {
                break;
            }
            (facts.content_bytes, facts.events, facts.end_ticks) = (cut.content_bytes, cut.events, cut.last_ticks);
        }
        snapshot.append(&mut packet, &facts)?;
    }
    if let Some(ticks) = until.ticks {
        snapshot.reach(ticks, discarded)?;
    }
    Ok(())
}

/// Gives the space of all but the newest packets back, of which at most `bytes_max` stay.
///
/// # Errors
/// The file that cannot be read or written.
pub(super) fn forget(kept: &Paths, bytes_max: u64) -> Result<(), StorageError> {
    let entries = entries(kept)?;
    match newest(&entries, bytes_max).first() {
        Some(first) => forget_before(kept, first).map(drop),
        None => Ok(()),
    }
}

/// Those of all packets so far.
fn entries(kept: &Paths) -> Result<Vec<Entry>, StorageError> {
    match fs::read(&kept.index) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        file => Ok(index::decode(&file.at(&kept.index)?).unwrap_or_default()),
    }
}

/// Makes a hole of what is older than a packet.
fn forget_before(kept: &Paths, first: &Entry) -> Result<File, StorageError> {
    let data = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&kept.data)
        .at(&kept.data)?;
    if first.offset_bytes > 0 {
        // It only spares memory.
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let _ = fallocate(&data, flags, 0, first.offset_bytes);
    }
    Ok(data)
}

/// The last entries, with at most `bytes_max` of packets.
fn newest(entries: &[Entry], bytes_max: u64) -> &[Entry] {
    let mut bytes = 0;
    let fits = |entry: &&Entry| {
        bytes += entry.packet_bits / 8;
        bytes <= bytes_max
    };
    let count = entries.iter().rev().take_while(fits).count();
    &entries[entries.len() - count..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::consumer::stream::{Identity, Origin};

    fn open(folder: &Path) -> Stream {
        let identity = Identity {
            trace_uuid: [1; 16],
            stream_id: 0,
            stream_instance_id: 1,
            origin: Origin::Cpu(1),
        };
        Stream::open(
            Paths::new(&crate::person::Person::default(), folder, "default", 1),
            identity,
        )
        .unwrap()
    }

    #[test]
    fn snapshot_has_the_newest_packets_and_counts_losses_from_its_first() {
        let folder = tempfile::tempdir().unwrap();
        let mut kept = open(&folder.path().join("kept"));
        let counts = Counts::open(&folder.path().join("counts")).unwrap();
        for sequence in 0..100 {
            let facts = PacketFacts {
                sequence,
                begin_ticks: sequence,
                end_ticks: sequence,
                content_bytes: KERNEL_HEADER_BYTES + 4096,
                events: 0,
                discarded: 10 * sequence,
            };
            counts.note(sequence, sequence + 1000).unwrap();
            kept.append(&mut vec![7; KERNEL_HEADER_BYTES + 4096], &facts).unwrap();
        }
        let mut snapshot = open(&folder.path().join("snapshot"));
        copy(kept.paths(), &counts, 3 * 4200, &whole(), &mut snapshot).unwrap();
        let end = snapshot.end();
        assert_eq!((end.packets, end.discarded, end.events), (3, 20, 1097 + 1098 + 1099));
        let blocks = std::os::unix::fs::MetadataExt::blocks(&fs::metadata(&kept.paths().data).unwrap());
        assert!(blocks * 512 < 32 << 10, "{blocks} blocks are left of the older packets");
    }

    #[test]
    fn packet_without_records_has_no_events() {
        let folder = tempfile::tempdir().unwrap();
        let mut kept = open(&folder.path().join("kept"));
        let counts = Counts::open(&folder.path().join("counts")).unwrap();
        let facts = PacketFacts {
            sequence: 0,
            begin_ticks: 5,
            end_ticks: 9,
            content_bytes: KERNEL_HEADER_BYTES + 4096,
            events: 1000,
            discarded: 10,
        };
        counts.note(0, facts.events).unwrap();
        kept.append(&mut vec![7; KERNEL_HEADER_BYTES + 4096], &facts).unwrap();
        assert_eq!(kept.end().packets, 2, "one that tells of losses, and its neighbour");
        let mut snapshot = open(&folder.path().join("snapshot"));
        copy(kept.paths(), &counts, 1 << 20, &whole(), &mut snapshot).unwrap();
        assert_eq!(snapshot.end().events, 1000);
    }

    #[test]
    fn nothing_kept_is_nothing_copied() {
        let folder = tempfile::tempdir().unwrap();
        let counts = Counts::open(&folder.path().join("counts")).unwrap();
        let mut snapshot = open(&folder.path().join("snapshot"));
        let kept = open(&folder.path().join("kept"));
        copy(kept.paths(), &counts, 1000, &whole(), &mut snapshot).unwrap();
        assert_eq!(snapshot.end().packets, 0);
    }

    fn whole() -> Until {
        Until {
            ticks: None,
            next_sequence: u64::MAX,
            cut: None,
        }
    }

    /// Packets of ten events, which begin at 100, 200 and so on, and lost one before each.
    #[test]
    fn snapshot_ends_where_it_is_to_end() {
        let ends = |until: Until| {
            let folder = tempfile::tempdir().unwrap();
            let mut kept = open(&folder.path().join("kept"));
            let counts = Counts::open(&folder.path().join("counts")).unwrap();
            for sequence in 0..4 {
                let begin_ticks = 100 * (sequence + 1);
                let facts = PacketFacts {
                    sequence,
                    begin_ticks,
                    end_ticks: begin_ticks + 50,
                    content_bytes: KERNEL_HEADER_BYTES + 1000,
                    events: 10,
                    discarded: sequence + 1,
                };
                counts.note(sequence, facts.events).unwrap();
                kept.append(&mut vec![7; KERNEL_HEADER_BYTES + 1000], &facts).unwrap();
            }
            let mut snapshot = open(&folder.path().join("snapshot"));
            copy(kept.paths(), &counts, 1 << 20, &until, &mut snapshot).unwrap();
            let end = snapshot.end();
            (end.events, end.discarded, end.end_ticks)
        };
        let cut = |events| Cut {
            content_bytes: KERNEL_HEADER_BYTES + 100 * events as usize,
            events,
            last_ticks: 400 + 5 * events,
        };
        let until = |ticks, next_sequence, cut| Until {
            ticks,
            next_sequence,
            cut,
        };
        assert_eq!(ends(until(None, 4, None)), (40, 4, 450));
        assert_eq!(ends(until(Some(500), 4, None)), (40, 4, 500));
        // Packets that were read later.
        assert_eq!(ends(until(None, 3, None)), (30, 3, 350));
        assert_eq!(ends(until(Some(430), 4, Some(cut(6)))), (36, 4, 430));
        // What was lost before a packet of which nothing is left may have been lost before the end.
        assert_eq!(ends(until(Some(390), 4, Some(cut(0)))), (30, 4, 390));
        // The first packet has another one before it that says what was lost earlier.
        assert_eq!(ends(until(Some(130), 1, Some(cut(0)))), (0, 1, 130));
    }
}
