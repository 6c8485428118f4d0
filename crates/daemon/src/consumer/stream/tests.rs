// SPDX-License-Identifier: MIT OR Apache-2.0

use std::fs;
use std::io;
use std::ops::Range;

use piste_ctf::index::{self, ENTRY_BYTES, FILE_HEADER_BYTES};

use super::*;
use crate::person::Person;

const IDENTITY: Identity = Identity {
    trace_uuid: [7; 16],
    stream_id: 3,
    stream_instance_id: 40,
    origin: Origin::Ring {
        ring_index: 1,
        process: ProcessIds {
            vpid: 12,
            pid: 34,
            uid: 56,
        },
    },
};

fn open(folder: &Path) -> Stream {
    Stream::open(Paths::new(&Person::default(), folder, "default", 40), IDENTITY).expect("the stream can be opened")
}

/// A packet of a header and `content` that is easily told from others.
fn append(stream: &mut Stream<impl StreamSink>, sequence: u64, content: &[u8]) -> Result<(), StorageError> {
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
    let paths = Paths::new(&Person::default(), folder, "default", 40);
    let data = fs::read(&paths.data).expect("the stream is there");
    let entries = index::decode(&fs::read(&paths.index).expect("the index is there")).expect("it is an index");
    let mut end = 0;
    let packets = entries.iter().map(|entry| {
        assert_eq!(entry.offset_bytes, end);
        end += entry.packet_bits / 8;
        let packet = &data[entry.offset_bytes as usize..];
        let header = Header::decode(packet).expect("it is a packet");
        assert_eq!(Entry::of(&header, entry.offset_bytes), *entry);
        assert_eq!(
            (header.trace_uuid, header.vpid, header.pid, header.uid),
            ([7; 16], 12, 34, 56)
        );
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
        let paths = Paths::new(&Person::default(), folder.path(), "default", 40);
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
    assert!(
        !Paths::new(&Person::default(), folder.path(), "default", 40)
            .data
            .exists()
    );
    open(folder.path()).settle(3, 5).unwrap();
    let mut stream = open(folder.path());
    assert_eq!((stream.end().next_sequence, stream.end().discarded), (0, 3));
    append(&mut stream, 0, b"a").unwrap();
    assert_eq!(stream.end().lost_packets, 0);
    assert_eq!(read(folder.path()), [(0, vec![]), (0, vec![]), (0, b"a".to_vec())]);
}

#[test]
fn stream_reaches_as_far_as_it_was_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let times = || {
        let index = fs::read(Paths::new(&Person::default(), folder.path(), "default", 40).index).unwrap();
        let entries = index::decode(&index).unwrap().into_iter();
        let times = entries.map(|entry| (entry.timestamp_begin, entry.timestamp_end, entry.events_discarded));
        times.collect::<Vec<_>>()
    };
    let mut stream = open(folder.path());
    stream.reach(50, 0).unwrap();
    assert_eq!(stream.end().packets, 0, "no packet says that nothing ever happened");
    stream.append_quiet(60, 100, 0).unwrap();
    append(&mut stream, 1, b"a").unwrap();
    for until in [500, 500, 300] {
        stream.reach(until, 10).unwrap();
    }
    assert_eq!(times(), [(60, 100, 0), (100, 199, 10), (199, 500, 10)]);
    // What was lost since is told, but no time that was over already.
    open(folder.path()).reach(400, 12).unwrap();
    let mut stream = open(folder.path());
    assert_eq!((stream.end().next_sequence, stream.end().lost_packets), (2, 1));
    append(&mut stream, 6, b"b").unwrap();
    assert_eq!(times()[3..], [(500, 500, 12), (600, 699, 60)]);
    let contents: Vec<(u64, Vec<u8>)> = read(folder.path());
    let expected = [
        (0, vec![]),
        (1, b"a".to_vec()),
        (1, vec![]),
        (1, vec![]),
        (6, b"b".to_vec()),
    ];
    assert_eq!(contents, expected);
}

#[test]
fn continued_stream_counts_on_and_its_files_count_from_0() {
    let folder = tempfile::tempdir().unwrap();
    let start = Start {
        next_sequence: 5,
        discarded: 50,
        events: 0,
    };
    let open = |folder: &Path| {
        Stream::open_continued(Paths::new(&Person::default(), folder, "default", 40), IDENTITY, start).unwrap()
    };
    let mut stream = open(folder.path());
    assert_eq!((stream.end().next_sequence, stream.end().discarded), (5, 50));
    stream.settle(50, 500).unwrap();
    assert_eq!(stream.end().packets, 0, "nothing was discarded since");
    stream.settle(53, 500).unwrap();
    let mut stream = open(folder.path());
    assert_eq!((stream.end().next_sequence, stream.end().discarded), (5, 53));
    append(&mut stream, 6, b"a").unwrap();
    let stream = open(folder.path());
    assert_eq!((stream.end().next_sequence, stream.end().discarded), (7, 60));
    assert_eq!(stream.end().lost_packets, 1, "packet 5");
    assert_eq!(read(folder.path()), [(0, vec![]), (0, vec![]), (1, b"a".to_vec())]);
    let index = index::decode(&fs::read(&stream.paths().index).unwrap()).unwrap();
    let discarded: Vec<u64> = index.iter().map(|entry| entry.events_discarded).collect();
    assert_eq!(discarded, [0, 3, 10]);
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
    let paths = Paths::new(&Person::default(), folder.path(), "default", 40);
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

#[test]
fn stream_that_somebody_removes_or_cuts_begins_again_and_goes_on_counting() {
    let remove = |paths: &Paths| fs::remove_file(&paths.data).unwrap();
    let cut = |paths: &Paths| fs::write(&paths.data, b"cut").unwrap();
    let remove_both = |paths: &Paths| {
        fs::remove_file(&paths.data).unwrap();
        fs::remove_dir_all(paths.index.parent().unwrap()).unwrap();
    };
    let damages: [&dyn Fn(&Paths); 3] = [&remove, &cut, &remove_both];
    for damage in damages {
        let folder = tempfile::tempdir().unwrap();
        let mut stream = open(folder.path());
        append(&mut stream, 0, b"first").unwrap();
        append(&mut stream, 1, b"second").unwrap();
        assert_eq!(stream.look_at_files(), Seen::Everything);
        let end = *stream.end();
        damage(stream.paths());
        assert_eq!(stream.look_at_files(), Seen::Gone(end));
        assert_eq!((end.events, stream.end().events, stream.end().packets), (11, 0, 0));
        append(&mut stream, 2, b"third").unwrap();
        assert_eq!(stream.look_at_files(), Seen::Everything);
        // The first packet says that nothing was discarded before it, and is no packet of the ring.
        assert_eq!(read(folder.path()), [(1, vec![]), (2, b"third".to_vec())]);
        let entries = index::decode(&fs::read(&stream.paths().index).unwrap()).unwrap();
        let discarded: Vec<u64> = entries.iter().map(|entry| entry.events_discarded).collect();
        assert_eq!((discarded, stream.end().lost_packets), (vec![0, 20], 0));
        assert_eq!(open(folder.path()).end().next_sequence, 3);
    }
}

#[test]
fn index_that_somebody_removes_or_cuts_is_written_again() {
    let remove = |index: &Path| fs::remove_file(index).unwrap();
    let cut = |index: &Path| fs::write(index, &fs::read(index).unwrap()[..FILE_HEADER_BYTES + 10]).unwrap();
    let damages: [&dyn Fn(&Path); 2] = [&remove, &cut];
    for damage in damages {
        let folder = tempfile::tempdir().unwrap();
        let mut stream = open(folder.path());
        append(&mut stream, 0, b"first").unwrap();
        append(&mut stream, 1, b"second").unwrap();
        let index = stream.paths().index.clone();
        let before = fs::read(&index).unwrap();
        damage(&index);
        assert_eq!(stream.look_at_files(), Seen::IndexMended);
        assert_eq!(fs::read(&index).unwrap(), before);
        append(&mut stream, 2, b"third").unwrap();
        let expected = [(0, b"first".to_vec()), (1, b"second".to_vec()), (2, b"third".to_vec())];
        assert_eq!(read(folder.path()), expected);
    }
}

/// A sink in memory, some of whose operations fail halfway.
#[derive(Debug, Default)]
struct Faulty {
    data: Vec<u8>,
    entries: Vec<Entry>,
    operations: usize,
    /// These fail ...
    failing: Range<usize>,
    /// ... after so many bytes of a packet; after all of them, the index entry is what cannot be written.
    after_bytes: usize,
}

impl Faulty {
    fn fails(&mut self) -> bool {
        self.operations += 1;
        self.failing.contains(&self.operations)
    }
}

impl StreamSink for Faulty {
    fn append(&mut self, packet: &[u8], entry: &Entry, end: Position) -> Result<(), StorageError> {
        let failed = || StorageError::new(Path::new("memory"), io::ErrorKind::StorageFull.into());
        let offset = end.data_bytes as usize;
        assert!(offset <= self.data.len() && end.packets as usize <= self.entries.len());
        let fails = self.fails();
        let written = if fails {
            self.after_bytes.min(packet.len())
        } else {
            packet.len()
        };
        let behind = self.data.len().max(offset + written);
        self.data.resize(behind, 0);
        self.data[offset..offset + written].copy_from_slice(&packet[..written]);
        if fails {
            return Err(failed());
        }
        self.entries.truncate(end.packets as usize);
        self.entries.push(*entry);
        Ok(())
    }

    fn truncate(&mut self, end: Position) {
        if !self.fails() {
            self.data.truncate(end.data_bytes as usize);
            self.entries.truncate(end.packets as usize);
        }
    }

    fn entries(&self) -> Result<Option<Vec<Entry>>, StorageError> {
        Ok(Some(self.entries.clone()))
    }
}

#[test]
fn whatever_fails_once_is_in_the_stream_once() {
    let packets = [&b"one"[..], b"two and more", b""];
    let record = |sink: Faulty| {
        let mut stream = Stream {
            sink,
            identity: IDENTITY,
            end: End::default(),
            matches: None,
        };
        let mut failures = 0;
        for (sequence, content) in packets.into_iter().enumerate() {
            while append(&mut stream, sequence as u64, content).is_err() {
                failures += 1;
                assert!(failures < 9, "it fails once");
            }
        }
        // Discarded events, told by a packet without records.
        while stream.settle(100, 5).is_err() {
            failures += 1;
        }
        let entries = stream.sink.entries().unwrap().unwrap();
        assert_eq!(
            end_of(&entries, &IDENTITY, Start::default()).map(|end| end.position()),
            Some(stream.end.position())
        );
        (stream.sink, stream.end, failures)
    };
    let (whole, end, _) = record(Faulty::default());
    for fails_at in 1..=whole.operations {
        for after_bytes in 0..HEADER_BYTES + 16 {
            // That the cut fails too matters to nobody: the next packet goes to the same place.
            for cut_fails in [0, 1] {
                let sink = Faulty {
                    failing: fails_at..fails_at + 1 + cut_fails,
                    after_bytes,
                    ..Faulty::default()
                };
                let (sink, faulty_end, _) = record(sink);
                assert_eq!(
                    (&sink.data, &sink.entries, faulty_end),
                    (&whole.data, &whole.entries, end)
                );
            }
        }
    }
    let faulty = Faulty {
        failing: 2..3,
        ..Faulty::default()
    };
    assert_eq!(record(faulty).2, 1);
}
