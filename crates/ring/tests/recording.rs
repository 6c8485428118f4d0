// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a program writes to a channel's memory comes out of it, or is counted: exactly, in each loss mode, by one thread or several.
//! The program is `piste_ring::model`.

#![cfg(not(loom))]

mod channel;

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, Ordering};

use channel::{Channel, Taken, shape, tick};
use piste_ring::model::{Outcome, Writer};
use piste_ring::{LossMode, Next, Packet, Shape};

const LOSS_MODES: [LossMode; 3] = [LossMode::Discard, LossMode::Overwrite, LossMode::Block];

#[test]
fn an_empty_ring_has_nothing_to_take() {
    let channel = Channel::new(shape(LossMode::Discard));
    let mut reader = channel.memory.reader(0, 0);
    assert_eq!(reader.next(&mut Vec::new()), Next::Empty);
    reader.end_current();
    assert_eq!(reader.next(&mut Vec::new()), Next::Empty);
    assert_eq!(
        (reader.sequence(), reader.fill(), channel.memory.touched().count()),
        (0, 0, 0)
    );
}

#[test]
fn a_record_comes_out_after_a_flush() {
    for loss in LOSS_MODES {
        let channel = Channel::new(shape(loss));
        let writer = channel.program.writer(1, 3);
        assert_eq!(writer.record(&|| 77, |record| [record.time, 0xabc]), Outcome::Committed);
        assert_eq!(channel.memory.touched().collect::<Vec<_>>(), [1]);
        let mut reader = channel.memory.reader(1, 0);
        let mut data = vec![0xff; 3];
        assert_eq!(reader.next(&mut data), Next::Empty, "the sub-buffer is open");
        assert_eq!(reader.fill(), 96 + 16);
        reader.end_current();
        reader.end_current();
        let packet = Packet {
            sequence: 0,
            begin_ticks: 77,
            content_bytes: 112,
            records: 1,
            discarded: 0,
        };
        assert_eq!(reader.next(&mut data), Next::Packet(packet));
        assert_eq!(reader.next(&mut data), Next::Packet(packet), "until it is released");
        assert_eq!(data[96..], [77u64.to_ne_bytes(), 0xabcu64.to_ne_bytes()].concat());
        reader.release();
        assert_eq!(
            (reader.next(&mut data), reader.sequence(), reader.fill()),
            (Next::Empty, 1, 0)
        );
    }
}

#[test]
fn a_line_is_behind_what_was_recorded_and_in_front_of_what_will_be() {
    for loss in LOSS_MODES {
        let channel = Channel::new(shape(loss));
        let writer = channel.program.writer(1, 3);
        let mut reader = channel.memory.reader(1, 0);
        let mut data = Vec::new();
        assert_eq!(reader.line(), 0, "nothing is in the ring");
        let record = |time| writer.record(&|| time, |record| [record.time, 0xabc]);
        assert_eq!(record(77), Outcome::Committed);
        assert_eq!(reader.line(), 1);
        assert_eq!(record(78), Outcome::Committed);
        assert_eq!(reader.next(&mut data), Next::Empty, "it ends nothing");
        reader.end_before(0);
        assert_eq!(reader.next(&mut data), Next::Empty, "that is not in front of it");
        reader.end_before(1);
        assert!(matches!(
            reader.next(&mut data),
            Next::Packet(Packet { records: 2, .. })
        ));
        reader.release();
        assert_eq!((reader.line(), reader.sequence()), (1, 1));
    }
}

/// A thread that is held up between the clock and its swap gets in front of the line, or reads the clock again.
#[test]
fn a_record_behind_a_line_has_a_later_time() {
    for (is_open, is_ended) in [(false, false), (false, true), (true, false), (true, true)] {
        let channel = Channel::new(shape(LossMode::Discard));
        let writer = channel.program.writer(0, 3);
        let reader = RefCell::new(channel.memory.reader(0, 0));
        if is_open {
            assert_eq!(writer.record(&|| 1, |record| [record.time, 0]), Outcome::Committed);
        }
        let (times, line) = (Cell::new(100), Cell::new(None));
        let clock = || {
            let time = times.get();
            times.set(time + 1);
            if line.get().is_none() {
                line.set(Some(reader.borrow().line()));
                if is_ended {
                    reader.borrow_mut().end_before(u64::MAX);
                }
            }
            time
        };
        let reserved = writer.reserve(2, &clock).expect("there is room");
        let sequence = reserved.unit() / (u64::from(shape(LossMode::Discard).subbuf_bytes) / 8);
        assert!(
            reserved.time > 100 || Some(sequence) < line.get(),
            "{is_open} {is_ended} {reserved:?}"
        );
        writer.write(&reserved, &[reserved.time, 0]);
        writer.commit(reserved);
    }
}

#[test]
fn a_full_ring_discards_the_newest_and_counts_it() {
    let channel = Channel::new(shape(LossMode::Discard));
    let writer = channel.program.writer(0, 0);
    let committed = write(&writer, 0, 3000);
    let mut reader = channel.memory.reader(0, 0);
    let mut taken = Taken::default();
    taken.flush(&mut reader);
    assert_eq!(taken.numbers(0), (0..committed).collect::<Vec<_>>(), "the oldest stay");
    assert!(committed < 3000);
    assert_eq!(reader.losses().discarded_full, 3000 - committed);
    assert_eq!(write(&writer, 0, 1), 1, "there is space again");
    taken.flush(&mut reader);
    assert_eq!(taken.last.unwrap().discarded, 3000 - committed);
}

#[test]
fn a_full_ring_overwrites_the_oldest_and_counts_it() {
    let channel = Channel::new(shape(LossMode::Overwrite));
    let writer = channel.program.writer(0, 0);
    assert_eq!(write(&writer, 0, 3000), 3000);
    let mut reader = channel.memory.reader(0, 0);
    let mut taken = Taken::default();
    taken.flush(&mut reader);
    let losses = reader.losses();
    assert_eq!(
        taken.numbers(0),
        (losses.overwritten_records..3000).collect::<Vec<_>>(),
        "the newest stay"
    );
    assert_eq!(
        (losses.overwritten_packets, losses.discarded()),
        (taken.lost_packets, 0)
    );
    assert!(losses.overwritten_packets > 0);
}

#[test]
fn a_claimed_sub_buffer_is_not_overwritten() {
    let channel = Channel::new(shape(LossMode::Overwrite));
    let writer = channel.program.writer(0, 0);
    let first = write(&writer, 0, 1000);
    let mut reader = channel.memory.reader(0, 0);
    let mut data = Vec::new();
    while let Next::Lost { .. } = reader.next(&mut data) {}
    let Next::Packet(packet) = reader.next(&mut data) else {
        panic!("the oldest packet is there")
    };
    let copy = data.clone();
    let second = write(&writer, 0, 1000);
    assert!(second < 1000 && reader.losses().discarded_full == 1000 - second);
    assert_eq!((reader.next(&mut data), &data), (Next::Packet(packet), &copy));
    reader.release();
    let mut taken = Taken::default();
    taken.flush(&mut reader);
    let losses = reader.losses();
    assert_eq!(
        taken.records + u64::from(packet.records) + losses.overwritten_records,
        first + second
    );
}

#[test]
fn a_record_larger_than_a_sub_buffer_is_counted() {
    let channel = Channel::new(shape(LossMode::Discard));
    let writer = channel.program.writer(0, 0);
    assert_eq!(writer.record(&tick, |_| [1; 512 - 11]), Outcome::Discarded);
    let mut reader = channel.memory.reader(0, 0);
    assert_eq!(reader.losses().discarded_too_large, 1);
    assert_eq!(
        writer.record(&tick, |_| [1; 512 - 12]),
        Outcome::Committed,
        "the largest that fits"
    );
    assert_eq!(writer.record(&tick, |_| [1]), Outcome::Committed);
    reader.end_current();
    for expected in [(4096, 1), (104, 1)] {
        let Next::Packet(packet) = reader.next(&mut Vec::new()) else {
            panic!("two packets")
        };
        assert_eq!((packet.content_bytes, packet.discarded), expected);
        reader.release();
    }
}

#[test]
fn a_full_packet_tells_what_was_discarded_behind_it() {
    const RECORDS: usize = 125;
    let channel = Channel::new(shape(LossMode::Discard));
    let writer = channel.program.writer(0, 0);
    // Packets of 125 records without padding.
    let write = |count: usize| {
        let outcomes = (0..count).map(|_| writer.record(&tick, |_| [1, 2, 3, 4]));
        outcomes.filter(|outcome| *outcome == Outcome::Committed).count()
    };
    let mut reader = channel.memory.reader(0, 0);
    let mut next = || {
        let Next::Packet(packet) = reader.next(&mut Vec::new()) else {
            panic!("a packet")
        };
        reader.release();
        assert_eq!(packet.content_bytes, 4096);
        packet.discarded
    };
    // Then nothing fits, and nobody enters a sub-buffer.
    assert_eq!(write(4 * RECORDS + 5), 4 * RECORDS);
    assert_eq!([next(), next(), next()], [0; 3]);
    // Somebody has entered the next one before this packet is taken.
    assert_eq!(write(3 * RECORDS + 2), 3 * RECORDS);
    assert_eq!([next(), next(), next()], [5; 3]);
    assert_eq!(next(), 7, "nobody has entered the next one");
    assert_eq!(write(4 * RECORDS + 1), 4 * RECORDS);
    assert_eq!([next(), next(), next(), next()], [7, 7, 7, 8]);
}

#[test]
fn each_record_of_four_threads_is_taken_or_counted_in_each_mode() {
    const THREADS: u64 = 4;
    const RECORDS: u64 = 50_000;
    for loss in LOSS_MODES {
        let channel = Channel::new(Shape {
            block_timeout_us: u32::MAX,
            ..shape(loss)
        });
        let mut reader = channel.memory.reader(0, 0);
        let mut taken = Taken::default();
        let done = &AtomicBool::new(false);
        let committed: Vec<u64> = std::thread::scope(|scope| {
            let taken = &mut taken;
            let reader = &mut reader;
            let consumer = scope.spawn(move || {
                while !done.load(Ordering::Acquire) {
                    taken.flush(reader);
                    std::thread::yield_now();
                }
                taken.flush(reader);
            });
            let writers: Vec<_> = (0..THREADS)
                .map(|number| channel.program.writer(0, number as u32))
                .zip(0..)
                .map(|(writer, number)| scope.spawn(move || write(&writer, number, RECORDS)))
                .collect();
            let committed = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
            done.store(true, Ordering::Release);
            consumer.join().unwrap();
            committed
        });
        let losses = reader.losses();
        assert_eq!(
            taken.records + losses.overwritten_records + losses.discarded(),
            THREADS * RECORDS,
            "{loss:?}"
        );
        assert_eq!(
            taken.records + losses.overwritten_records,
            committed.iter().sum::<u64>(),
            "{loss:?}"
        );
        assert_eq!(taken.lost_packets, losses.overwritten_packets, "{loss:?}");
        for number in 0..THREADS {
            let numbers = taken.numbers(number);
            assert!(
                numbers.windows(2).all(|pair| pair[0] < pair[1]),
                "{loss:?}: each once, in order"
            );
            match loss {
                LossMode::Block => assert_eq!(numbers.len() as u64, RECORDS, "nothing is lost without a time limit"),
                LossMode::Discard => assert_eq!(numbers.len() as u64, committed[number as usize]),
                LossMode::Overwrite => {}
            }
        }
    }
}

#[test]
fn blocked_records_are_discarded_when_the_time_is_over() {
    let channel = Channel::new(Shape {
        block_timeout_us: 1,
        ..shape(LossMode::Block)
    });
    let writer = channel.program.writer(0, 0);
    let committed = write(&writer, 0, 1000);
    let mut reader = channel.memory.reader(0, 0);
    let mut taken = Taken::default();
    taken.flush(&mut reader);
    assert_eq!(
        (taken.records, reader.losses().discarded_full),
        (committed, 1000 - committed)
    );
}

#[test]
fn a_snapshot_takes_nothing_and_begins_with_the_oldest() {
    let channel = Channel::new(shape(LossMode::Overwrite));
    let writer = channel.program.writer(0, 0);
    let mut written = 0;
    for count in [0, 1, 150, 3000] {
        written += write(&writer, 0, count);
        let mut reader = channel.memory.reader(0, 0);
        reader.end_current();
        let [once, twice] = [0, 1].map(|_| {
            let mut taken = Taken::default();
            taken.snapshot(&reader);
            taken
        });
        assert_eq!(once.packets, twice.packets);
        let losses = reader.losses();
        assert_eq!(
            once.records + losses.overwritten_records,
            written,
            "what is not overwritten is there"
        );
        assert_eq!(once.lost_packets, 0);
    }
}

#[test]
fn a_snapshot_beside_a_writing_program_has_whole_packets() {
    let channel = Channel::new(shape(LossMode::Overwrite));
    let done = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let program = channel.program.clone();
        let writer = scope.spawn(move || {
            let writer = program.writer(0, 0);
            while !done.load(Ordering::Acquire) {
                write(&writer, 0, 1000);
            }
        });
        let reader = channel.memory.reader(0, 0);
        let mut packets = 0;
        while packets < 2000 {
            let mut taken = Taken::default();
            taken.snapshot(&reader);
            packets += taken.packets;
        }
        done.store(true, Ordering::Release);
        writer.join().unwrap();
    });
}

#[test]
fn a_new_reader_goes_on_where_the_last_one_stored() {
    for loss in LOSS_MODES {
        let channel = Channel::new(shape(loss));
        let writer = channel.program.writer(0, 0);
        let committed = write(&writer, 0, 300);
        let mut data = Vec::new();
        // The first reader dies with packet 0 stored but not released.
        let mut first = channel.memory.reader(0, 0);
        let Next::Packet(stored) = first.next(&mut data) else {
            panic!("packet 0 is complete")
        };
        drop(first);
        let mut second = channel.memory.reader(0, stored.sequence + 1);
        let mut taken = Taken::default();
        taken.flush(&mut second);
        assert_eq!(taken.records + u64::from(stored.records), committed, "{loss:?}");
        assert_eq!(
            taken.numbers(0).first(),
            Some(&u64::from(stored.records)),
            "{loss:?}: nothing twice"
        );
        assert_eq!(
            write(&writer, 0, 300),
            committed,
            "{loss:?}: the claim of the dead reader is dropped"
        );
    }
}

/// Writes records `0..count` of thread `number`, and returns how many were committed.
fn write(writer: &Writer, number: u64, count: u64) -> u64 {
    (0..count)
        .filter(|&record| channel::write_one(writer, number, record) == Outcome::Committed)
        .count() as u64
}
