// SPDX-License-Identifier: MIT OR Apache-2.0
//! A channel with the daemon's and the program's view of it, and records whose bytes can be checked.

#![allow(dead_code, unreachable_pub, reason = "each test program uses a part")]

use std::sync::atomic::{AtomicU64, Ordering};

use piste_ring::model::{Outcome, Program, Writer};
use piste_ring::{ChannelMemory, ClockSource, Contexts, Geometry, Key, LossMode, Next, Packet, Reader, Shape, create};

/// Units of each record: number of the thread and of the record, time, and three derived from the first.
const RECORD_UNITS: usize = 5;
const HEADER_BYTES: usize = 96;

/// Two rings of four small sub-buffers.
pub fn shape(loss: LossMode) -> Shape {
    Shape {
        ring_count: 2,
        subbuf_bytes: 4096,
        subbuf_count: 4,
        loss,
        block_timeout_us: 0,
        clock: ClockSource::Monotonic,
    }
}

pub struct Channel {
    pub memory: ChannelMemory,
    pub program: Program,
}

impl Channel {
    pub fn new(shape: Shape) -> Self {
        let geometry = Geometry::new(shape).unwrap();
        let key = Key::new(9).unwrap();
        let fd = create("piste-test", &geometry, key, &Contexts::default()).unwrap();
        let program = Program::attach(&fd, geometry).unwrap();
        Self {
            memory: ChannelMemory::open(fd, geometry, key).unwrap(),
            program,
        }
    }
}

/// A clock that never shows the same time twice.
pub fn tick() -> u64 {
    static TIME: AtomicU64 = AtomicU64::new(1);
    TIME.fetch_add(1, Ordering::Relaxed)
}

pub fn words(number: u64, record: u64, time: u64) -> [u64; RECORD_UNITS] {
    let name = number << 48 | record;
    [name, time, !name, name.rotate_left(7), name ^ time]
}

pub fn write_one(writer: &Writer, number: u64, record: u64) -> Outcome {
    writer.record(&tick, |reservation| words(number, record, reservation.time))
}

/// What came out of a ring, checked.
#[derive(Default)]
pub struct Taken {
    pub records: u64,
    pub packets: u64,
    pub lost_packets: u64,
    pub last: Option<Packet>,
    names: Vec<u64>,
    last_time: u64,
}

impl Taken {
    /// Takes every complete packet.
    fn drain(&mut self, reader: &mut Reader) {
        let mut data = Vec::new();
        loop {
            let next = reader.next(&mut data);
            if !self.add(next, &data) {
                return;
            }
            if matches!(next, Next::Packet(_)) {
                reader.release();
            }
        }
    }

    /// Takes everything that was committed.
    pub fn flush(&mut self, reader: &mut Reader) {
        reader.end_current();
        self.drain(reader);
    }

    /// Looks at every complete packet.
    pub fn snapshot(&mut self, reader: &Reader) {
        let mut snapshot = reader.snapshot().unwrap();
        let mut data = Vec::new();
        while {
            let next = snapshot.next(&mut data);
            self.add(next, &data)
        } {}
    }

    /// Numbers of the records of thread `number`, as they came.
    pub fn numbers(&self, number: u64) -> Vec<u64> {
        let of_thread = self.names.iter().filter(|&&name| name >> 48 == number);
        of_thread.map(|name| name & 0xffff_ffff_ffff).collect()
    }

    /// Checks every record of a packet, the order of time, and the numbers of the packet.
    fn add(&mut self, next: Next, data: &[u8]) -> bool {
        let packet = match next {
            Next::Packet(packet) => packet,
            Next::Lost { packets } => {
                self.lost_packets += packets;
                return true;
            }
            Next::Empty | Next::Incomplete { .. } => return false,
            Next::Corrupt(corruption) => panic!("{corruption}"),
        };
        assert_eq!(data.len(), packet.content_bytes as usize);
        assert!(
            self.last
                .is_none_or(|last| last.sequence < packet.sequence && last.discarded <= packet.discarded)
        );
        let records = records(data);
        assert_eq!(records.len(), packet.records as usize);
        assert!(packet.begin_ticks > self.last_time);
        self.last_time = packet.begin_ticks;
        for record in records {
            assert_eq!(record, words(record[0] >> 48, record[0] & 0xffff_ffff_ffff, record[1]));
            assert!(record[1] > self.last_time, "the order in a ring is the order of time");
            self.last_time = record[1];
            self.names.push(record[0]);
        }
        self.records += u64::from(packet.records);
        self.packets += 1;
        self.last = Some(packet);
        true
    }
}

/// The records of a packet's copy.
pub fn records(data: &[u8]) -> Vec<[u64; RECORD_UNITS]> {
    let (units, rest) = data[HEADER_BYTES..].as_chunks::<8>();
    assert!(rest.is_empty());
    let units: Vec<u64> = units.iter().map(|&unit| u64::from_ne_bytes(unit)).collect();
    let (records, rest) = units.as_chunks::<RECORD_UNITS>();
    assert!(rest.is_empty(), "whole records");
    records.to_vec()
}
