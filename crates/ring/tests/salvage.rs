// SPDX-License-Identifier: MIT OR Apache-2.0
//! A record that was reserved and never committed: what is committed around it is taken, and the ring goes on.

#![cfg(not(loom))]

mod channel;

use channel::{Channel, Taken, records, shape, tick, words, write_one};
use piste_ring::model::{Outcome, Reservation, Writer};
use piste_ring::{LossMode, Next, Reader, Salvage};

const RECORD_UNITS: u64 = 5;
const LOSS_MODES: [LossMode; 3] = [LossMode::Discard, LossMode::Overwrite, LossMode::Block];

#[test]
fn every_committed_record_around_a_hole_is_taken() {
    for loss in LOSS_MODES {
        let channel = Channel::new(shape(loss));
        let writer = channel.program.writer(0, 0);
        write_one(&writer, 0, 0);
        let first = hole(&writer);
        let second = hole(&writer);
        write_one(&writer, 0, 1);
        write_one(&writer, 0, 2);
        let third = hole(&writer);
        // The third one died just before the last store of its commit, the second one within it.
        for reservation in [&second, &third] {
            writer.write(reservation, &[7; RECORD_UNITS as usize]);
            writer.commit_all_but_the_head(reservation);
        }
        let mut reader = channel.memory.reader(0, 0);
        let (salvage, numbers) = salvage(&mut reader).unwrap();
        assert_eq!((salvage.records, salvage.sequence, numbers), (3, 0, vec![0, 1, 2]));
        // The first hole reaches up to the head of the second record, whose other units are tagged.
        assert_eq!((salvage.holes, salvage.begin_ticks.is_some()), (2, true), "{first:?}");
        reader.release();
        assert_eq!((reader.next(&mut Vec::new()), reader.sequence()), (Next::Empty, 1));
    }
}

#[test]
fn a_hole_holds_up_what_comes_behind_it_until_it_is_given_up() {
    let channel = Channel::new(shape(LossMode::Discard));
    let writer = channel.program.writer(0, 0);
    let slow = hole(&writer);
    let committed = (0..3000)
        .filter(|&number| write_one(&writer, 0, number) == Outcome::Committed)
        .count() as u64;
    let mut reader = channel.memory.reader(0, 0);
    let mut data = vec![1, 2, 3];
    for _ in 0..2 {
        assert_eq!(reader.next(&mut data), Next::Incomplete { sequence: 0 });
    }
    let (salvage, mut numbers) = salvage(&mut reader).unwrap();
    assert_eq!((salvage.records as usize, salvage.holes), (numbers.len(), 1));
    reader.release();
    let mut taken = Taken::default();
    taken.flush(&mut reader);
    numbers.extend(taken.numbers(0));
    assert_eq!(numbers, (0..committed).collect::<Vec<_>>());
    assert_eq!(reader.losses().discarded_full, 3000 - committed);
    writer.write(&slow, &words(0, 1, slow.time));
    writer.commit(slow);
    assert_eq!(
        write_one(&writer, 0, 0),
        Outcome::Discarded,
        "what was given up is not entered again"
    );
    assert_eq!(reader.next(&mut data), Next::Empty);
}

#[test]
fn a_new_reader_keeps_what_was_given_up_from_the_program() {
    for loss in LOSS_MODES {
        let channel = Channel::new(shape(loss));
        let writer = channel.program.writer(0, 0);
        write_one(&writer, 0, 0);
        let slow = hole(&writer);
        let mut first = channel.memory.reader(0, 0);
        salvage(&mut first).unwrap();
        drop(first);
        write_one(&writer, 0, 1);
        let mut second = channel.memory.reader(0, 1);
        let mut taken = Taken::default();
        taken.flush(&mut second);
        assert_eq!(taken.numbers(0), [1]);
        let committed = (0..3000)
            .filter(|&number| write_one(&writer, 0, number) == Outcome::Committed)
            .count();
        writer.write(&slow, &words(0, 9, slow.time));
        writer.commit(slow);
        assert_eq!(write_one(&writer, 0, 0), Outcome::Discarded);
        taken.flush(&mut second);
        assert_eq!(taken.records, 1 + committed as u64, "{loss:?}");
    }
}

#[test]
fn a_commit_before_the_salvage_completes_the_sub_buffer() {
    let channel = Channel::new(shape(LossMode::Overwrite));
    let writer = channel.program.writer(0, 0);
    let slow = hole(&writer);
    let mut reader = channel.memory.reader(0, 0);
    reader.end_current();
    assert_eq!(reader.next(&mut Vec::new()), Next::Incomplete { sequence: 0 });
    writer.write(&slow, &words(0, 7, slow.time));
    writer.commit(slow);
    assert_eq!(salvage(&mut reader), None, "there is nothing to give up");
    let mut taken = Taken::default();
    taken.flush(&mut reader);
    assert_eq!(taken.numbers(0), [7]);
}

#[test]
fn nothing_is_salvaged_from_an_empty_ring() {
    let channel = Channel::new(shape(LossMode::Discard));
    let writer = channel.program.writer(0, 0);
    let mut reader = channel.memory.reader(0, 0);
    assert_eq!(salvage(&mut reader), None);
    write_one(&writer, 0, 0);
    Taken::default().flush(&mut reader);
    assert_eq!(salvage(&mut reader), None);
}

#[test]
fn marks_of_an_earlier_lap_are_not_taken_for_records() {
    let channel = Channel::new(shape(LossMode::Discard));
    let writer = channel.program.writer(0, 0);
    let mut reader = channel.memory.reader(0, 0);
    let mut taken = Taken::default();
    for number in 0..2000 {
        assert_eq!(write_one(&writer, 0, number), Outcome::Committed);
        if number % 100 == 99 {
            taken.flush(&mut reader);
        }
    }
    write_one(&writer, 0, 2000);
    let _hole = hole(&writer);
    let (salvage, numbers) = salvage(&mut reader).unwrap();
    assert_eq!((salvage.holes, numbers), (1, vec![2000]));
}

#[test]
fn a_snapshot_copies_what_is_committed_and_leaves_it() {
    let channel = Channel::new(shape(LossMode::Overwrite));
    let writer = channel.program.writer(0, 0);
    write_one(&writer, 0, 3);
    let slow = hole(&writer);
    let mut reader = channel.memory.reader(0, 0);
    reader.end_current();
    let mut snapshot = reader.snapshot().unwrap();
    let mut data = Vec::new();
    assert_eq!(snapshot.next(&mut data), Next::Incomplete { sequence: 0 });
    let salvage = snapshot.salvage(0, &mut data).unwrap().unwrap();
    assert_eq!(numbers(&salvage, &data), [3]);
    assert_eq!(snapshot.next(&mut data), Next::Empty);
    writer.write(&slow, &words(0, 4, slow.time));
    writer.commit(slow);
    let mut taken = Taken::default();
    taken.snapshot(&reader);
    assert_eq!(taken.numbers(0), [3, 4]);
}

#[test]
fn snapshots_of_a_ring_that_discards_keep_its_first_records_and_use_none_of_its_space() {
    let channel = Channel::new(shape(LossMode::Discard));
    let writer = channel.program.writer(0, 0);
    let reader = channel.memory.reader(0, 0);
    let held = || {
        let (mut data, mut all) = (Vec::new(), Vec::new());
        let mut snapshot = reader.snapshot().unwrap();
        loop {
            match snapshot.next(&mut data) {
                Next::Packet(_) => all.extend(records(&data).iter().map(|record| record[0])),
                Next::Incomplete { sequence } => {
                    let salvage = snapshot.salvage(sequence, &mut data).unwrap().unwrap();
                    all.extend(numbers(&salvage, &data));
                }
                Next::Empty => return all,
                other => panic!("{other:?}"),
            }
        }
    };
    assert_eq!(held(), [0; 0]);
    let mut written = Vec::new();
    for number in 0.. {
        if write_one(&writer, 0, number) != Outcome::Committed {
            break;
        }
        written.push(number);
        assert_eq!(held(), written);
    }
    // As many as without a snapshot: none ended a sub-buffer.
    let other = Channel::new(shape(LossMode::Discard));
    let other_writer = other.program.writer(0, 0);
    let count = (0..)
        .take_while(|&number| write_one(&other_writer, 0, number) == Outcome::Committed)
        .count();
    assert_eq!(written.len(), count);
    write_one(&writer, 0, 1000);
    assert_eq!(held(), written);
    assert_eq!(reader.losses().discarded_full, 2);
}

/// A record that is reserved and no more.
fn hole(writer: &Writer) -> Reservation {
    writer.reserve(RECORD_UNITS, &tick).unwrap()
}

/// Salvages, and returns the numbers of the records.
fn salvage(reader: &mut Reader) -> Option<(Salvage, Vec<u64>)> {
    let mut data = Vec::new();
    let salvage = reader.salvage(&mut data).unwrap()?;
    let numbers = numbers(&salvage, &data);
    Some((salvage, numbers))
}

fn numbers(salvage: &Salvage, data: &[u8]) -> Vec<u64> {
    assert_eq!(data.len(), salvage.content_bytes as usize);
    let records = records(data);
    assert_eq!(records.len(), salvage.records as usize);
    for record in &records {
        assert_eq!(*record, words(0, record[0], record[1]));
    }
    records.iter().map(|record| record[0]).collect()
}
