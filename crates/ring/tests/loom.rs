// SPDX-License-Identifier: MIT OR Apache-2.0
//! Explores how a reader and the threads of a program can meet in a ring, every order of their accesses within the bound:
//!
//!     RUSTFLAGS="--cfg loom" cargo test -p piste-ring --test loom --release
//!
//! The ring is tiny: two sub-buffers of eight units, of which one is the packet header, and records that leave room for one or two of
//! them. A record's units say where it is, so that a copy with a unit of another lap, or one that was not written yet, shows.

#![cfg(loom)]

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use piste_ring::model::{Outcome, Reservation, TinyRing, Writer};
use piste_ring::{LossMode, Next, Packet, Reader};

const UNIT_BYTES: usize = 8;
const SUBBUF_UNITS: u64 = 8;

/// Runs `model` in every order of accesses with at most `preemptions` forced switches of thread.
fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// Two sub-buffers; the memory of one model.
fn ring(loss: LossMode) -> TinyRing {
    TinyRing::new(loss, 2, SUBBUF_UNITS as usize)
}

/// What stands at `unit` when it was written. Never zero.
fn word_at(unit: u64) -> u64 {
    !unit
}

fn words<const UNITS: usize>(reservation: &Reservation) -> [u64; UNITS] {
    std::array::from_fn(|offset| word_at(reservation.unit() + offset as u64))
}

/// Writes `count` records of `UNITS` units and returns how many were committed.
fn write<const UNITS: usize>(writer: &Writer, count: u64) -> u64 {
    (0..count)
        .filter(|_| writer.record(&|| 7, words::<UNITS>) == Outcome::Committed)
        .count() as u64
}

/// Checks that the copy of a packet has what was written in its place and lap, and returns the number of records.
fn check(packet: &Packet, data: &[u8]) -> u64 {
    assert_eq!((packet.content_bytes as usize, packet.begin_ticks), (data.len(), 7));
    let first = packet.sequence * SUBBUF_UNITS;
    for (offset, bytes) in data.chunks_exact(UNIT_BYTES).enumerate().skip(1) {
        assert_eq!(
            u64::from_ne_bytes(bytes.try_into().unwrap()),
            word_at(first + offset as u64)
        );
    }
    packet.records.into()
}

/// Takes what is complete, at most `tries` times, and returns the number of records.
fn take(reader: &mut Reader, tries: usize) -> u64 {
    let (mut records, mut data) = (0, Vec::new());
    for _ in 0..tries {
        match reader.next(&mut data) {
            Next::Packet(packet) => {
                records += check(&packet, &data);
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
fn take_the_rest(reader: &mut Reader) -> u64 {
    reader.end_current();
    let records = take(reader, 8);
    assert_eq!(reader.next(&mut Vec::new()), Next::Empty);
    records
}

#[test]
fn two_writers_and_a_reader_lose_nothing_uncounted() {
    explore(2, || {
        let ring = ring(LossMode::Discard);
        // Two records of three units end a sub-buffer with one unit of padding.
        let writers = [2, 1].map(|count| {
            let writer = ring.writer();
            thread::spawn(move || write::<3>(&writer, count))
        });
        let mut reader = ring.reader();
        let mut taken = take(&mut reader, 1);
        let committed: u64 = writers.map(|writer| writer.join().unwrap()).iter().sum();
        taken += take_the_rest(&mut reader);
        assert_eq!((taken, taken + reader.losses().discarded()), (committed, 3));
    });
}

#[test]
fn a_full_ring_is_entered_again_only_behind_the_copy() {
    explore(3, || {
        let ring = ring(LossMode::Discard);
        let writer = ring.writer();
        // Records of seven units fill a sub-buffer to its end: nobody says where it ends.
        assert_eq!(write::<7>(&writer, 2), 2);
        let writer = thread::spawn(move || write::<6>(&writer, 1));
        let mut reader = ring.reader();
        let mut taken = take(&mut reader, 1);
        let committed = 2 + writer.join().unwrap();
        taken += take_the_rest(&mut reader);
        assert_eq!((taken, taken + reader.losses().discarded()), (committed, 3));
    });
}

#[test]
fn a_record_is_overwritten_or_taken_never_both() {
    explore(3, || {
        let ring = ring(LossMode::Overwrite);
        let writer = ring.writer();
        assert_eq!(write::<6>(&writer, 2), 2);
        let writer = thread::spawn(move || write::<6>(&writer, 1));
        let mut reader = ring.reader();
        let mut taken = take(&mut reader, 2);
        writer.join().unwrap();
        taken += take_the_rest(&mut reader);
        let losses = reader.losses();
        assert_eq!(taken + losses.overwritten_records + losses.discarded(), 3);
    });
}

#[test]
fn two_overwriting_writers_count_each_record_once() {
    explore(2, || {
        let ring = ring(LossMode::Overwrite);
        assert_eq!(write::<6>(&ring.writer(), 2), 2);
        let writers = [1, 1].map(|count| {
            let writer = ring.writer();
            thread::spawn(move || write::<6>(&writer, count))
        });
        let committed: u64 = writers.map(|writer| writer.join().unwrap()).iter().sum();
        let mut reader = ring.reader();
        let taken = take_the_rest(&mut reader);
        let losses = reader.losses();
        assert_eq!(taken + losses.overwritten_records, 2 + committed);
        assert_eq!(taken + losses.overwritten_records + losses.discarded(), 4);
    });
}

#[test]
fn a_flush_and_a_writer_end_a_sub_buffer_once() {
    explore(3, || {
        let ring = ring(LossMode::Discard);
        let writer = ring.writer();
        assert_eq!(write::<4>(&writer, 1), 1);
        let writer = thread::spawn(move || write::<4>(&writer, 1));
        let mut reader = ring.reader();
        reader.end_current();
        let mut taken = take(&mut reader, 1);
        let committed = 1 + writer.join().unwrap();
        taken += take_the_rest(&mut reader);
        // The flush can end a sub-buffer that was only just entered; then the ring is full.
        assert_eq!((taken, taken + reader.losses().discarded()), (committed, 2));
    });
}

#[test]
fn a_record_behind_a_line_is_later_than_the_line() {
    explore(3, || {
        let ring = ring(LossMode::Discard);
        let clock = Arc::new(AtomicU64::new(0));
        let now = |clock: &AtomicU64| clock.fetch_add(1, Ordering::AcqRel);
        let writers = [(), ()].map(|()| {
            let (writer, clock) = (ring.writer(), clock.clone());
            thread::spawn(move || {
                let reserved = writer.reserve(2, &|| now(&clock)).unwrap();
                (reserved.unit(), reserved.time)
            })
        });
        let reader = ring.reader();
        let line_time = now(&clock);
        let line = reader.line();
        let reserved = writers.map(|writer| writer.join().unwrap());
        for (unit, time) in reserved {
            assert!(
                time > line_time || unit / SUBBUF_UNITS < line,
                "{unit} {time} {line} {line_time}"
            );
        }
    });
}

#[test]
fn a_late_record_is_whole_in_the_salvage_or_missing() {
    explore(3, || {
        let ring = ring(LossMode::Discard);
        let writer = ring.writer();
        let slow = [2, 3].map(|units| writer.reserve(units, &|| 7).unwrap());
        assert_eq!(write::<2>(&writer, 1), 1);
        let program = thread::spawn(move || {
            let [first, second] = slow;
            writer.write(&first, &words::<2>(&first));
            writer.commit(first);
            writer.write(&second, &words::<3>(&second));
            writer.commit(second);
        });
        let mut reader = ring.reader();
        let mut data = Vec::new();
        let Some(salvage) = reader.salvage(&mut data).unwrap() else {
            program.join().unwrap();
            assert_eq!(take_the_rest(&mut reader), 3, "both came in time");
            return;
        };
        program.join().unwrap();
        let units: Vec<u64> = data
            .chunks_exact(UNIT_BYTES)
            .skip(1)
            .map(|unit| !u64::from_ne_bytes(unit.try_into().unwrap()))
            .collect();
        let whole: &[u64] = match (salvage.records, units.first()) {
            (1, _) => &[6, 7],
            (2, Some(1)) => &[1, 2, 6, 7],
            (2, _) => &[3, 4, 5, 6, 7],
            _ => &[1, 2, 3, 4, 5, 6, 7],
        };
        assert_eq!(units, whole);
        assert_eq!(salvage.records == 3, salvage.holes == 0, "what is missing is a hole");
        reader.release();
        assert_eq!(reader.next(&mut data), Next::Empty);
    });
}

#[test]
fn a_stopped_program_finds_no_window() {
    explore(3, || {
        let ring = ring(LossMode::Discard);
        let writers = [1, 2].map(|window| {
            let writer = ring.writer();
            thread::spawn(move || writer.open_window(window))
        });
        ring.stop();
        for writer in writers {
            writer.join().unwrap();
        }
        let writer = ring.writer();
        assert!(!writer.finds_window(1) && !writer.finds_window(2));
    });
}

#[test]
fn a_snapshot_never_mixes_laps() {
    explore(3, || {
        let ring = ring(LossMode::Overwrite);
        let writer = ring.writer();
        assert_eq!(write::<6>(&writer, 2), 2);
        let writer = thread::spawn(move || write::<6>(&writer, 1));
        let reader = ring.reader();
        let mut snapshot = reader.snapshot().unwrap();
        let mut data = Vec::new();
        for _ in 0..3 {
            match snapshot.next(&mut data) {
                Next::Packet(packet) => assert_eq!(check(&packet, &data), 1),
                Next::Lost { .. } | Next::Incomplete { .. } => {}
                Next::Empty => break,
                Next::Corrupt(corruption) => panic!("{corruption}"),
            }
        }
        assert_eq!(writer.join().unwrap(), 1);
    });
}
