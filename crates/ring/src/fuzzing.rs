// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fuzz target of the ring: bytes say what a hostile program writes to a ring and what the consumer calls in between.
//!
//! Whatever they say, every call returns, and what it returns keeps the promises of its type. `tests/hostile.rs` runs this over
//! a corpus and random bytes, `fuzz/` lets a fuzzer look for worse.

use std::mem::offset_of;

use piste_abi::{self as abi, ConsumedWord, EndedWord, HEAD, PositionWord, tag_of_lap};

use crate::model::Program;
use crate::{
    ChannelMemory, ClockSource, Contexts, Geometry, Key, LossMode, Next, Reader, Salvage, Shape, Snapshot, create,
};

const SUBBUF_BYTES: u32 = abi::PISTE_SUBBUF_BYTES_MIN;
const UNITS: usize = (SUBBUF_BYTES / abi::PISTE_UNIT_BYTES) as usize;
const HEADER_BYTES: u32 = size_of::<abi::piste_packet_header>() as u32;

/// Does what `bytes` say: three bytes for the shape of the ring and the first sub-buffer to take, then steps; when the bytes
/// end in the middle, zeros follow.
/// # Panics
/// When the reader breaks a promise: the bug that a fuzzer looks for.
pub fn ring_image(bytes: &[u8]) {
    let mut script = Script { bytes };
    let loss = [LossMode::Discard, LossMode::Overwrite, LossMode::Block][script.byte() as usize % 3];
    let subbuf_count = 2 << (script.byte() % 3);
    let shape = Shape {
        ring_count: 2,
        subbuf_bytes: SUBBUF_BYTES,
        subbuf_count,
        loss,
        block_timeout_us: 0,
        clock: ClockSource::Monotonic,
    };
    let geometry = Geometry::new(shape).expect("a small shape is within the limits");
    let key = Key::new(1).expect("1 is a key");
    let fd = create("piste-fuzz", &geometry, key, &Contexts::default()).expect("memory for a small channel");
    let program = Program::attach(&fd, geometry).expect("a second mapping of it");
    let memory = ChannelMemory::open(&fd, geometry, key).expect("it is a channel's memory");
    let mut consumer = Consumer {
        reader: memory.reader(0, script.byte().into()),
        memory,
        subbuf_count: subbuf_count.into(),
        taken: false,
        data: Vec::new(),
    };
    while !script.bytes.is_empty() {
        match script.byte() {
            step @ 0..64 => consumer.step(step % 8, &mut script),
            64..160 => script.scribble_plausibly(&program, subbuf_count.into()),
            _ => program.scribble(script.number(2) as usize, script.number(8)),
        }
    }
}

/// What a fuzzer's bytes mean. Past the end they are zeros.
struct Script<'a> {
    bytes: &'a [u8],
}

impl Script<'_> {
    fn byte(&mut self) -> u8 {
        self.number(1) as u8
    }

    fn number(&mut self, byte_count: usize) -> u64 {
        let (taken, rest) = self.bytes.split_at(byte_count.min(self.bytes.len()));
        self.bytes = rest;
        taken
            .iter()
            .rev()
            .fold(0, |number, &byte| number << 8 | u64::from(byte))
    }

    /// Stores something that the reader looks at, near to what a correct program writes.
    fn scribble_plausibly(&mut self, program: &Program, subbuf_count: u64) {
        const RING_BYTES: usize = size_of::<abi::piste_channel_header>();
        const DATA_BYTES: usize = RING_BYTES + abi::PISTE_RING_DATA_OFFSET_BYTES as usize;
        let sequence = u64::from(self.byte());
        let index = (sequence % subbuf_count) as usize;
        let subbufs_bytes = DATA_BYTES + subbuf_count as usize * UNITS * abi::PISTE_UNIT_BYTES as usize;
        let subbuf_bytes = subbufs_bytes + index * size_of::<abi::piste_subbuf>();
        let marks_bytes = subbufs_bytes + subbuf_count as usize * size_of::<abi::piste_subbuf>();
        let (offset_bytes, value) = match self.byte() % 8 {
            0 => {
                let units = sequence * UNITS as u64 + self.number(2) % UNITS as u64;
                (
                    RING_BYTES + offset_of!(abi::piste_ring_header, position),
                    PositionWord::new(units, 0).0,
                )
            }
            1 => {
                let word = ConsumedWord::new(sequence);
                let word = if self.byte().is_multiple_of(4) {
                    word.claim()
                } else {
                    word
                };
                (RING_BYTES + offset_of!(abi::piste_ring_header, consumed), word.0)
            }
            2 => {
                let word = EndedWord::new(sequence, (self.number(2) % 600) as u32);
                (subbuf_bytes + offset_of!(abi::piste_subbuf, ended), word.0)
            }
            3 => (subbuf_bytes + offset_of!(abi::piste_subbuf, discarded), self.number(8)),
            4 => (
                RING_BYTES + offset_of!(abi::piste_ring_header, space_futex),
                self.number(8),
            ),
            _ => {
                // Marks, eight at a time, with a head at each place that a bit of the pattern says.
                let (first, count, heads) = (self.byte() % 64, self.byte() % 65, self.byte());
                let tag = tag_of_lap(sequence / subbuf_count);
                let marks = std::array::from_fn(|bit| tag | if heads >> bit & 1 == 1 { HEAD } else { 0 });
                for group in first..(first + count).min(64) {
                    let offset_bytes = marks_bytes + index * UNITS + usize::from(group) * 8;
                    program.scribble(offset_bytes / 8, u64::from_ne_bytes(marks));
                }
                return;
            }
        };
        program.scribble(offset_bytes / 8, value);
    }
}

/// The consumer's calls, each with a check of what it promises.
struct Consumer {
    memory: ChannelMemory,
    reader: Reader,
    subbuf_count: u64,
    /// Something was taken, and may be released.
    taken: bool,
    data: Vec<u8>,
}

impl Consumer {
    fn step(&mut self, step: u8, script: &mut Script<'_>) {
        match step {
            0 | 1 => self.next(),
            2 if self.taken => {
                self.reader.release();
                self.taken = false;
            }
            2 => {}
            3 => self.reader.end_current(),
            4 => self.salvage(),
            5 | 6 => self.snapshot(),
            _ => self.begin_again(script.byte().into()),
        }
    }

    fn next(&mut self) {
        let before = self.reader.sequence();
        let next = self.reader.next(&mut self.data);
        self.taken |= matches!(next, Next::Packet(_));
        check_next(next, &self.data);
        match next {
            Next::Lost { packets } => assert_eq!(self.reader.sequence(), before + packets),
            Next::Packet(packet) => assert_eq!(packet.sequence, before),
            _ => {}
        }
        assert!(self.reader.sequence() >= before);
    }

    fn salvage(&mut self) {
        if let Ok(Some(salvage)) = self.reader.salvage(&mut self.data) {
            assert_eq!(salvage.sequence, self.reader.sequence());
            check_salvage(salvage, &self.data);
            self.taken = true;
        }
    }

    fn snapshot(&mut self) {
        let Ok(mut snapshot) = self.reader.snapshot() else {
            return;
        };
        for _ in 0..=self.subbuf_count {
            let next = snapshot.next(&mut self.data);
            check_next(next, &self.data);
            match next {
                Next::Empty | Next::Corrupt(_) => return,
                Next::Incomplete { sequence } => salvage_of(&snapshot, sequence, &mut self.data),
                Next::Packet(_) | Next::Lost { .. } => {}
            }
        }
        panic!("a snapshot of {} sub-buffers has no end", self.subbuf_count);
    }

    /// The reader dies, and a new one takes over. Everything else that can be asked is asked as well.
    fn begin_again(&mut self, next_sequence: u64) {
        assert!(self.reader.fill() <= self.subbuf_count * u64::from(SUBBUF_BYTES));
        let _ = self.reader.losses().discarded();
        assert!(self.memory.touched().all(|ring_index| ring_index < 2));
        self.reader = self.memory.reader(0, next_sequence);
        self.taken = false;
    }
}

fn salvage_of(snapshot: &Snapshot<'_>, sequence: u64, data: &mut Vec<u8>) {
    if let Ok(Some(salvage)) = snapshot.salvage(sequence, data) {
        assert_eq!(salvage.sequence, sequence);
        check_salvage(salvage, data);
    }
}

fn check_next(next: Next, data: &[u8]) {
    match next {
        Next::Packet(packet) => {
            assert_eq!(data.len(), packet.content_bytes as usize);
            assert!(
                (HEADER_BYTES..=SUBBUF_BYTES).contains(&packet.content_bytes) && packet.content_bytes.is_multiple_of(8)
            );
        }
        Next::Lost { packets } => assert!(packets > 0),
        Next::Corrupt(corruption) => assert!(!corruption.to_string().is_empty()),
        Next::Empty | Next::Incomplete { .. } => {}
    }
}

fn check_salvage(salvage: Salvage, data: &[u8]) {
    assert_eq!(data.len(), salvage.content_bytes as usize);
    assert!((HEADER_BYTES..=SUBBUF_BYTES).contains(&salvage.content_bytes) && salvage.content_bytes.is_multiple_of(8));
    assert!(salvage.content_bytes >= HEADER_BYTES + salvage.records * 8);
}
