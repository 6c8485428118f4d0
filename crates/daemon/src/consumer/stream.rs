// SPDX-License-Identifier: MIT OR Apache-2.0
//! One stream of a trace: the packets of one ring, in a stream file with an index file beside it.
//!
//! A packet is written to the stream file first and is on disk once its index entry is whole: the index is the consumer's
//! journal. A consumer that was killed between the two leaves bytes behind the last entry, and the next consumer, which opens
//! the stream, cuts them off and goes on with the sequence number after the entry's.
//!
//! A packet without records that repeats the sequence number of its neighbour only says how many events were discarded: it ends
//! a stream whose ring discarded events after its last packet, and begins one whose first packet tells of discarded events.
//! The number 0 of such a first packet does not tell whether the ring had a packet 0 without records; then the next consumer
//! takes that one once more, and nothing is lost.
//!
//! What goes into a packet is decided in rings.rs and snapshot.rs; storage.rs says what a failed write means.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use piste_ctf::index::{self, ENTRY_BYTES, Entry, FILE_HEADER_BYTES};
use piste_ctf::packet::{HEADER_BYTES, Header, KERNEL_HEADER_BYTES, UNIT_BYTES};

use super::storage::{At, StorageError};

/// A stream that packets can be appended to. Nothing is on disk before the first one.
#[derive(Debug)]
pub(crate) struct Stream {
    paths: Paths,
    identity: Identity,
    files: Option<Files>,
    end: End,
}

/// What every packet of a stream says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Identity {
    pub(crate) trace_uuid: [u8; 16],
    pub(crate) stream_id: u32,
    pub(crate) stream_instance_id: u64,
    pub(crate) origin: Origin,
}

/// Where the events of a stream come from; its packets' headers end with it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Origin {
    /// A ring of a program.
    Ring { ring_index: u32, vpid: i32 },
    /// A CPU in the kernel domain.
    Cpu(u32),
}

/// What is particular to a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PacketFacts {
    pub(crate) sequence: u64,
    pub(crate) begin_ticks: u64,
    pub(crate) end_ticks: u64,
    /// Header and records, to the exact end of the last record.
    pub(crate) content_bytes: usize,
    pub(crate) events: u64,
    /// Events discarded since the start of the stream.
    pub(crate) discarded: u64,
}

/// Where a stream ends and what it has, as its index file says it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct End {
    /// Sequence number of the next packet of the ring.
    pub(crate) next_sequence: u64,
    pub(crate) data_bytes: u64,
    pub(crate) packets: u64,
    pub(crate) lost_packets: u64,
    pub(crate) end_ticks: u64,
    pub(crate) discarded: u64,
    /// Events in the packets that this consumer wrote.
    pub(crate) events: u64,
    /// Packets that an earlier consumer wrote, whose events are not in `events`.
    pub(crate) earlier_packets: u64,
}

/// The two files of a stream.
#[derive(Debug, Clone)]
pub(crate) struct Paths {
    pub(crate) data: PathBuf,
    pub(crate) index: PathBuf,
}

#[derive(Debug)]
struct Files {
    data: File,
    index: File,
}

impl Stream {
    /// Opens the stream of `identity` in the trace's folder, and goes on behind the packets that it has.
    ///
    /// # Errors
    /// The file that could not be read or cut, and a file that is not the index of such a stream.
    pub(crate) fn open(paths: Paths, identity: Identity) -> Result<Stream, StorageError> {
        let end = match fs::read(&paths.index) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => End::default(),
            index => recover(&paths, &index.at(&paths.index)?, &identity)?,
        };
        Ok(Stream {
            paths,
            identity,
            files: None,
            end,
        })
    }

    /// Appends a packet of the ring: the records are in `packet`, behind the space for the header.
    ///
    /// # Errors
    /// The file that could not be written. The stream is as before, and the same packet can be tried again.
    pub(crate) fn append(&mut self, packet: &mut Vec<u8>, facts: &PacketFacts) -> Result<(), StorageError> {
        self.write(packet, facts)?;
        self.end.next_sequence = facts.sequence + 1;
        Ok(())
    }

    /// Appends a packet without records, unless the stream says already that `discarded` events were discarded. Its time is that
    /// of the end of the stream, or `now_ticks` where there is none.
    ///
    /// # Errors
    /// As `append`.
    pub(crate) fn settle(&mut self, discarded: u64, now_ticks: u64) -> Result<(), StorageError> {
        if discarded <= self.end.discarded {
            return Ok(());
        }
        let ticks = if self.end.packets == 0 {
            now_ticks
        } else {
            self.end.end_ticks
        };
        let facts = PacketFacts {
            sequence: self.end.next_sequence.saturating_sub(1),
            begin_ticks: ticks,
            end_ticks: ticks,
            content_bytes: self.identity.origin.header_bytes(),
            events: 0,
            discarded,
        };
        self.write(&mut vec![0; facts.content_bytes], &facts)
    }

    pub(crate) fn end(&self) -> &End {
        &self.end
    }

    pub(crate) fn paths(&self) -> &Paths {
        &self.paths
    }

    fn write(&mut self, packet: &mut Vec<u8>, facts: &PacketFacts) -> Result<(), StorageError> {
        if self.end.packets == 0 && facts.discarded > 0 {
            // Readers count from packet to packet, so that the first one has to say 0.
            let ticks = facts.begin_ticks;
            let first = PacketFacts {
                sequence: 0,
                begin_ticks: ticks,
                end_ticks: ticks,
                content_bytes: self.identity.origin.header_bytes(),
                events: 0,
                discarded: 0,
            };
            self.write(&mut vec![0; first.content_bytes], &first)?;
        }
        let header_bytes = self.identity.origin.header_bytes();
        assert!(
            (header_bytes..=packet.len()).contains(&facts.content_bytes),
            "the content lies in the packet"
        );
        let packet_bytes = facts.content_bytes.next_multiple_of(UNIT_BYTES);
        packet.resize(packet_bytes, 0);
        packet[facts.content_bytes..].fill(0);
        let header = self.identity.header(facts, packet_bytes);
        // The header of a kernel packet is the same but for its end.
        packet[..header_bytes].copy_from_slice(&header.encode()[..header_bytes]);

        let entry = Entry::of(&header, self.end.data_bytes);
        if let Err(error) = self.write_data(packet).and_then(|()| self.write_entry(&entry)) {
            self.cut();
            return Err(error);
        }
        self.end.follow(&entry, header_bytes);
        self.end.events += facts.events;
        Ok(())
    }

    fn write_data(&mut self, packet: &[u8]) -> Result<(), StorageError> {
        let offset = self.end.data_bytes;
        self.files()?.data.write_all_at(packet, offset).at(&self.paths.data)
    }

    /// Writes the index entry of the packet; from here on the packet is part of the trace.
    fn write_entry(&mut self, entry: &Entry) -> Result<(), StorageError> {
        let packets = self.end.packets;
        let index = &self.files()?.index;
        let written = match packets {
            0 => index.write_all_at(&[&index::file_header()[..], &entry.encode()].concat(), 0),
            _ => index.write_all_at(&entry.encode(), index_bytes(packets)),
        };
        written.at(&self.paths.index)
    }

    /// Opens the files, once, and cuts what is behind the last packet.
    fn files(&mut self) -> Result<&Files, StorageError> {
        if self.files.is_none() {
            let folder = self.paths.index.parent().expect("the index lies in a folder");
            fs::create_dir_all(folder).at(folder)?;
            let open = |path: &Path| {
                OpenOptions::new()
                    .write(true)
                    .create(true)
                    .truncate(false)
                    .open(path)
                    .at(path)
            };
            let files = Files {
                data: open(&self.paths.data)?,
                index: open(&self.paths.index)?,
            };
            self.files = Some(files);
            self.cut();
        }
        Ok(self.files.as_ref().expect("set above"))
    }

    /// Cuts off what a failed or interrupted write left behind. The next write goes to the same place, so that a failure here
    /// matters only to those who read the stream without its index.
    fn cut(&self) {
        if let Some(files) = &self.files {
            let _ = files.index.set_len(if self.end.packets == 0 {
                0
            } else {
                index_bytes(self.end.packets)
            });
            let _ = files.data.set_len(self.end.data_bytes);
        }
    }
}

impl Origin {
    /// Space that packets have for their header.
    pub(crate) fn header_bytes(self) -> usize {
        match self {
            Origin::Ring { .. } => HEADER_BYTES,
            Origin::Cpu(_) => KERNEL_HEADER_BYTES,
        }
    }
}

impl Identity {
    fn header(&self, facts: &PacketFacts, packet_bytes: usize) -> Header {
        let (ring_index, vpid) = match self.origin {
            Origin::Ring { ring_index, vpid } => (ring_index, vpid),
            Origin::Cpu(cpu) => (cpu, 0),
        };
        Header {
            trace_uuid: self.trace_uuid,
            stream_id: self.stream_id,
            stream_instance_id: self.stream_instance_id,
            timestamp_begin: facts.begin_ticks,
            timestamp_end: facts.end_ticks,
            content_bits: 8 * facts.content_bytes as u64,
            packet_bits: 8 * packet_bytes as u64,
            packet_seq_num: facts.sequence,
            events_discarded: facts.discarded,
            ring_index,
            vpid,
        }
    }
}

impl Paths {
    /// The files of a stream in the trace's folder.
    pub(crate) fn new(folder: &Path, channel: &str, stream_instance_id: u64) -> Paths {
        let name = format!("{channel}_{stream_instance_id}");
        Paths {
            index: folder.join("index").join(format!("{name}.idx")),
            data: folder.join(name),
        }
    }
}

impl End {
    /// The end behind the packets of an index; `None` when an entry cannot follow the one before it.
    pub(crate) fn of(entries: &[Entry], header_bytes: usize) -> Option<End> {
        let mut end = End::default();
        for entry in entries {
            if !end.can_follow(entry) {
                return None;
            }
            end.follow(entry, header_bytes);
        }
        end.earlier_packets = end.packets;
        Some(end)
    }

    fn can_follow(&self, entry: &Entry) -> bool {
        let repeats = entry.packet_seq_num.saturating_add(1) == self.next_sequence;
        entry.offset_bytes == self.data_bytes && (repeats || entry.packet_seq_num >= self.next_sequence)
    }

    fn follow(&mut self, entry: &Entry, header_bytes: usize) {
        let sequence = entry.packet_seq_num;
        let has_records = entry.content_bits > 8 * header_bytes as u64;
        if has_records || sequence > 0 {
            self.lost_packets += sequence.saturating_sub(self.next_sequence);
            self.next_sequence = self.next_sequence.max(sequence.saturating_add(1));
        }
        self.data_bytes += entry.packet_bits / 8;
        self.packets += 1;
        self.end_ticks = entry.timestamp_end;
        self.discarded = entry.events_discarded;
    }
}

/// Bytes of an index file with `packets` entries.
fn index_bytes(packets: u64) -> u64 {
    FILE_HEADER_BYTES as u64 + packets * ENTRY_BYTES as u64
}

/// The end of the stream whose index file holds `index`. Only whole entries of whole packets count.
fn recover(paths: &Paths, index: &[u8], identity: &Identity) -> Result<End, StorageError> {
    if index.len() < FILE_HEADER_BYTES {
        return Ok(End::default());
    }
    let foreign = || {
        let what = "it is not the index of this trace's stream; move it away, or record to another folder";
        StorageError::new(&paths.index, io::Error::new(io::ErrorKind::InvalidData, what))
    };
    let data_bytes = match fs::metadata(&paths.data) {
        Ok(metadata) => metadata.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
        Err(error) => return Err(StorageError::new(&paths.data, error)),
    };
    let mut entries = index::decode(index).ok_or_else(foreign)?;
    let whole = |entry: &Entry| entry.offset_bytes.saturating_add(entry.packet_bits / 8) <= data_bytes;
    entries.truncate(entries.iter().take_while(|entry| whole(entry)).count());
    let ours = |entry: &Entry| {
        entry.stream_instance_id == identity.stream_instance_id && entry.stream_id == u64::from(identity.stream_id)
    };
    if !entries.iter().all(ours) {
        return Err(foreign());
    }
    End::of(&entries, identity.origin.header_bytes()).ok_or_else(foreign)
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDENTITY: Identity = Identity {
        trace_uuid: [7; 16],
        stream_id: 3,
        stream_instance_id: 40,
        origin: Origin::Ring {
            ring_index: 1,
            vpid: 12,
        },
    };

    fn open(folder: &Path) -> Stream {
        Stream::open(Paths::new(folder, "default", 40), IDENTITY).expect("the stream can be opened")
    }

    /// A packet of a header and `content` that is easily told from others.
    fn append(stream: &mut Stream, sequence: u64, content: &[u8]) -> Result<(), StorageError> {
        let mut packet = [&[0; HEADER_BYTES][..], content].concat();
        stream.append(
            &mut packet,
            &PacketFacts {
                sequence,
                begin_ticks: 100 * sequence,
                end_ticks: 100 * sequence + 99,
                content_bytes: HEADER_BYTES + content.len(),
                events: content.len() as u64,
                discarded: 10 * sequence,
            },
        )
    }

    /// The sequence number and the content of each packet, read by way of the index.
    fn read(folder: &Path) -> Vec<(u64, Vec<u8>)> {
        let paths = Paths::new(folder, "default", 40);
        let data = fs::read(&paths.data).expect("the stream is there");
        let entries = index::decode(&fs::read(&paths.index).expect("the index is there")).expect("it is an index");
        let mut end = 0;
        let packets = entries.iter().map(|entry| {
            assert_eq!(entry.offset_bytes, end);
            end += entry.packet_bits / 8;
            let packet = &data[entry.offset_bytes as usize..];
            let header = Header::decode(packet).expect("it is a packet");
            assert_eq!(Entry::of(&header, entry.offset_bytes), *entry);
            assert_eq!((header.trace_uuid, header.vpid), ([7; 16], 12));
            (
                header.packet_seq_num,
                packet[HEADER_BYTES..header.content_bits as usize / 8].to_vec(),
            )
        });
        let packets = packets.collect();
        assert_eq!(end, data.len() as u64);
        packets
    }

    #[test]
    fn packets_are_read_as_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        let mut stream = open(folder.path());
        assert!(
            !stream.paths().index.exists(),
            "nothing is on disk before the first packet"
        );
        append(&mut stream, 0, b"first").unwrap();
        append(&mut stream, 1, b"").unwrap();
        append(&mut stream, 4, b"fourth packet").unwrap();
        let expected = [(0, b"first".to_vec()), (1, vec![]), (4, b"fourth packet".to_vec())];
        assert_eq!(read(folder.path()), expected);
        assert_eq!(stream.end().lost_packets, 2);
        assert_eq!((stream.end().next_sequence, stream.end().events), (5, 18));
    }

    #[test]
    fn consumer_killed_after_any_byte_loses_nothing_and_writes_nothing_twice() {
        let whole = tempfile::tempdir().unwrap();
        let mut stream = open(whole.path());
        append(&mut stream, 0, b"one").unwrap();
        append(&mut stream, 1, b"two").unwrap();
        let paths = stream.paths().clone();
        let (data, index) = (fs::read(&paths.data).unwrap(), fs::read(&paths.index).unwrap());
        let first_data = HEADER_BYTES + 8;
        let first_index = FILE_HEADER_BYTES + ENTRY_BYTES;

        // The order of writes: data of 0, index of 0, data of 1, index of 1. Each cut is a state that a kill can leave.
        let cuts = (0..=first_data).map(|data_bytes| (data_bytes, 0));
        let cuts = cuts.chain((1..=first_index).map(|index_bytes| (first_data, index_bytes)));
        let cuts = cuts.chain((first_data..=data.len()).map(|data_bytes| (data_bytes, first_index)));
        let cuts = cuts.chain((first_index + 1..=index.len()).map(|index_bytes| (data.len(), index_bytes)));
        for (data_bytes, index_bytes) in cuts {
            let folder = tempfile::tempdir().unwrap();
            let paths = Paths::new(folder.path(), "default", 40);
            fs::create_dir(paths.index.parent().unwrap()).unwrap();
            fs::write(&paths.data, &data[..data_bytes]).unwrap();
            fs::write(&paths.index, &index[..index_bytes]).unwrap();
            let mut stream = open(folder.path());
            for sequence in stream.end().next_sequence..2 {
                append(&mut stream, sequence, [b"one", b"two"][sequence as usize]).unwrap();
            }
            append(&mut stream, 2, b"three").unwrap();
            let expected = [(0, b"one".to_vec()), (1, b"two".to_vec()), (2, b"three".to_vec())];
            assert_eq!(
                read(folder.path()),
                expected,
                "killed with {data_bytes} and {index_bytes} bytes written"
            );
        }
    }

    #[test]
    fn last_packet_tells_the_discarded_events_once() {
        let folder = tempfile::tempdir().unwrap();
        let mut stream = open(folder.path());
        append(&mut stream, 0, b"a").unwrap();
        append(&mut stream, 1, b"b").unwrap();
        stream.settle(10, 5).unwrap();
        assert_eq!(stream.end().packets, 2, "packet 1 says 10");
        stream.settle(15, 5).unwrap();
        stream.settle(15, 5).unwrap();
        let expected = [(0, b"a".to_vec()), (1, b"b".to_vec()), (1, vec![])];
        assert_eq!(read(folder.path()), expected);

        let mut stream = open(folder.path());
        assert_eq!((stream.end().discarded, stream.end().lost_packets), (15, 0));
        append(&mut stream, 2, b"c").unwrap();
        assert_eq!((stream.end().lost_packets, stream.end().earlier_packets), (0, 3));
    }

    #[test]
    fn stream_without_any_packet_of_the_ring_tells_discarded_events_too() {
        let folder = tempfile::tempdir().unwrap();
        open(folder.path()).settle(0, 5).unwrap();
        assert!(!Paths::new(folder.path(), "default", 40).data.exists());
        open(folder.path()).settle(3, 5).unwrap();
        let mut stream = open(folder.path());
        assert_eq!((stream.end().next_sequence, stream.end().discarded), (0, 3));
        append(&mut stream, 0, b"a").unwrap();
        assert_eq!(stream.end().lost_packets, 0);
        assert_eq!(read(folder.path()), [(0, vec![]), (0, vec![]), (0, b"a".to_vec())]);
    }

    #[test]
    fn failed_write_leaves_the_stream_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let mut stream = open(folder.path());
        let index_folder = folder.path().join("index");
        fs::write(&index_folder, "a file where the folder should be").unwrap();
        let error = append(&mut stream, 0, b"one").unwrap_err();
        assert!(error.to_string().starts_with(index_folder.to_str().unwrap()), "{error}");
        assert_eq!(*stream.end(), End::default());
        fs::remove_file(&index_folder).unwrap();
        append(&mut stream, 0, b"one").unwrap();
        assert_eq!(read(folder.path()), [(0, b"one".to_vec())]);
    }

    #[test]
    fn index_of_another_stream_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        append(&mut open(folder.path()), 0, b"one").unwrap();
        let paths = Paths::new(folder.path(), "default", 40);
        let other = Identity {
            stream_instance_id: 41,
            ..IDENTITY
        };
        assert!(Stream::open(paths.clone(), other).is_err());
        fs::write(&paths.index, "an index has another first word").unwrap();
        let error = Stream::open(paths, IDENTITY).unwrap_err();
        assert!(
            error.to_string().contains("not the index of this trace's stream"),
            "{error}"
        );
        assert_eq!(
            fs::read(folder.path().join("index/default_40.idx")).unwrap(),
            b"an index has another first word"
        );
    }
}
