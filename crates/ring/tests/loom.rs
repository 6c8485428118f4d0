// SPDX-License-Identifier: MIT OR Apache-2.0
//! Explores how a reader and the threads of a program can meet in a ring, every order of their accesses within the bound:
//!
//!     RUSTFLAGS="--cfg loom" cargo test -p piste-ring --test loom --release
//!
//! Rings are tiny: sub-buffers of a one-unit header, one to three records of one unit, and a unit of padding. A record's unit says where it is, so
//! that a copy with a unit of another lap, or one that was not written yet, shows.

#![cfg(loom)]

use std::sync::Arc;

use loom::thread;
use piste_ring::model::{Outcome, TinyRing, Writer};
use piste_ring::{Finality, LossMode, Next, Packet, Reader};

const UNIT_BYTES: usize = 8;
const BOUND: usize = 5;

/// Runs `model` in every order of accesses with at most `preemptions` forced switches of thread.
fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// What a record at `unit` consists of. Never zero.
fn word_at(unit: u64) -> u64 {
    !unit
}

/// Writes `count` records and returns how many were committed.
fn write(writer: &Writer, count: u64) -> u64 {
    (0..count).filter(|_| write_one(writer) == Outcome::Committed).count() as u64
}

fn write_one(writer: &Writer) -> Outcome {
    writer.record(&|| 7, |reservation| [word_at(reservation.unit())])
}

/// Checks that the copy of a packet has the records of its place and lap, and returns their number.
fn check(packet: &Packet, subbuf_units: usize, data: &[u8]) -> u64 {
    assert_eq!(packet.content_bytes as usize, data.len());
    assert_eq!(packet.begin_ticks, 7);
    let first = packet.sequence * subbuf_units as u64;
    let records = data.chunks_exact(UNIT_BYTES).enumerate().skip(1);
    for (offset, bytes) in records.clone() {
        assert_eq!(
            u64::from_ne_bytes(bytes.try_into().unwrap()),
            word_at(first + offset as u64)
        );
    }
    assert_eq!(records.count() as u32, packet.records);
    packet.records.into()
}

/// Takes what is complete and returns the number of records.
fn take(reader: &mut Reader, subbuf_units: usize, tries: usize) -> u64 {
    let (mut records, mut data) = (0, Vec::new());
    for _ in 0..tries {
        match reader.next(&mut data) {
            Next::Packet(packet) => {
                records += check(&packet, subbuf_units, &data);
                reader.release();
            }
            Next::Lost { .. } => {}
            Next::Empty | Next::Incomplete { .. } => break,
            Next::Corrupt(corruption) => panic!("{corruption}"),
        }
    }
    records
}

/// Ends the open sub-buffer, takes everything, and checks that the reader came to the end.
fn take_the_rest(reader: &mut Reader, subbuf_units: usize) -> u64 {
    reader.end_current();
    let records = take(reader, subbuf_units, 8);
    assert_eq!(reader.next(&mut Vec::new()), Next::Empty);
    records
}

fn discarded_and_overwritten(reader: &Reader) -> u64 {
    reader.losses().discarded() + reader.losses().overwritten_records
}

#[test]
fn two_writers_and_a_reader_lose_nothing_uncounted() {
    explore(BOUND, || {
        let ring = Arc::new(TinyRing::new(LossMode::Discard, 2, 4));
        let writers = [2, 1].map(|count| {
            let writer = ring.writer();
            thread::spawn(move || write(&writer, count))
        });
        let mut reader = ring.reader();
        let mut taken = take(&mut reader, 4, 1);
        let committed: u64 = writers.map(|writer| writer.join().unwrap()).iter().sum();
        taken += take_the_rest(&mut reader, 4);
        assert_eq!(taken, committed);
        assert_eq!(taken + discarded_and_overwritten(&reader), 3);
    });
}

#[test]
fn a_full_ring_is_entered_again_only_behind_the_copy() {
    explore(BOUND, || {
        let ring = TinyRing::new(LossMode::Discard, 2, 4);
        let writer = ring.writer();
        assert_eq!(write(&writer, 4), 4);
        let writer = thread::spawn(move || write(&writer, 1));
        let mut reader = ring.reader();
        let mut taken = take(&mut reader, 4, 1);
        writer.join().unwrap();
        taken += take_the_rest(&mut reader, 4);
        assert_eq!(taken + discarded_and_overwritten(&reader), 5);
    });
}

#[test]
fn a_record_is_overwritten_or_taken_never_both() {
    explore(BOUND, || {
        let ring = TinyRing::new(LossMode::Overwrite, 2, 3);
        let writer = ring.writer();
        assert_eq!(write(&writer, 2), 2);
        let writer = thread::spawn(move || write(&writer, 2));
        let mut reader = ring.reader();
        let mut taken = take(&mut reader, 3, 2);
        writer.join().unwrap();
        taken += take_the_rest(&mut reader, 3);
        assert_eq!(taken + discarded_and_overwritten(&reader), 4);
    });
}

#[test]
fn two_overwriting_writers_count_each_record_once() {
    explore(BOUND, || {
        let ring = TinyRing::new(LossMode::Overwrite, 2, 3);
        assert_eq!(write(&ring.writer(), 2), 2);
        let writers = [1, 1].map(|count| {
            let writer = ring.writer();
            thread::spawn(move || write(&writer, count))
        });
        let committed: u64 = writers.map(|writer| writer.join().unwrap()).iter().sum();
        let mut reader = ring.reader();
        let taken = take_the_rest(&mut reader, 3);
        assert_eq!(taken + reader.losses().overwritten_records, 2 + committed);
        assert_eq!(taken + discarded_and_overwritten(&reader), 4);
    });
}

#[test]
fn a_flush_and_a_writer_end_a_sub_buffer_once() {
    explore(BOUND, || {
        let ring = TinyRing::new(LossMode::Discard, 2, 4);
        let writer = ring.writer();
        assert_eq!(write(&writer, 1), 1);
        let writer = thread::spawn(move || write(&writer, 2));
        let mut reader = ring.reader();
        reader.end_current();
        let mut taken = take(&mut reader, 4, 1);
        let committed = 1 + writer.join().unwrap();
        taken += take_the_rest(&mut reader, 4);
        assert_eq!(taken, committed);
        assert_eq!(taken + discarded_and_overwritten(&reader), 3);
    });
}

#[test]
fn a_late_record_is_salvaged_or_counted_late() {
    explore(BOUND, || {
        let ring = TinyRing::new(LossMode::Discard, 2, 5);
        let writer = ring.writer();
        let [slow, late] = [0, 1].map(|_| writer.reserve(1, &|| 7).unwrap());
        assert_eq!(write_one(&writer), Outcome::Committed);
        let program = thread::spawn(move || {
            [slow, late]
                .into_iter()
                .filter(|reservation| writer.write(reservation, &[word_at(reservation.unit())]) == ())
                .map(|reservation| writer.commit(reservation))
                .filter(|&outcome| outcome == Outcome::Committed)
                .count() as u64
        });
        let mut reader = ring.reader();
        let (mut data, mut marks) = (Vec::new(), Vec::new());
        let salvage = reader.salvage(&mut data, &mut marks, Finality::Alive).unwrap();
        let committed = 1 + program.join().unwrap();
        let Some(salvage) = salvage else {
            assert_eq!(
                (take_the_rest(&mut reader, 5), committed, reader.losses().discarded_late),
                (3, 3, 0)
            );
            return;
        };
        assert_eq!(u64::from(salvage.records), committed, "the bit decides");
        assert_eq!(u64::from(salvage.records) + reader.losses().discarded_late, 3);
        let marked: Vec<usize> = (1..4).filter(|&unit| marks[unit] == salvage.mark).collect();
        for &unit in &marked {
            let word = u64::from_ne_bytes(data[unit * UNIT_BYTES..][..UNIT_BYTES].try_into().unwrap());
            assert_eq!(word, word_at(unit as u64), "a marked record is written");
        }
        let in_both = marked
            .len()
            .checked_sub(salvage.records as usize)
            .expect("each committed record is marked") as u64;
        assert!(
            in_both <= reader.losses().discarded_late,
            "marked without being in the count: counted late"
        );
        reader.release();
    });
}

#[test]
fn a_snapshot_never_mixes_laps() {
    explore(BOUND, || {
        let ring = TinyRing::new(LossMode::Overwrite, 2, 3);
        let writer = ring.writer();
        assert_eq!(write(&writer, 2), 2);
        let writer = thread::spawn(move || write(&writer, 2));
        let reader = ring.reader();
        let mut snapshot = reader.snapshot().unwrap();
        let mut data = Vec::new();
        loop {
            match snapshot.next(&mut data) {
                Next::Packet(packet) => assert_eq!(check(&packet, 3, &data), 1),
                Next::Lost { .. } | Next::Incomplete { .. } => {}
                Next::Empty => break,
                Next::Corrupt(corruption) => panic!("{corruption}"),
            }
        }
        assert_eq!(writer.join().unwrap(), 2);
    });
}
