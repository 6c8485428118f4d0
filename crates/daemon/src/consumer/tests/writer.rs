// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program with one thread, as the consumer meets it: writes records into a ring by the protocol of
//! `include/piste/abi/ring.h`, and can stop anywhere in it. Reads and writes the memfd, no mapping.

use std::mem::{offset_of, size_of};
use std::os::fd::OwnedFd;

use piste_abi::{self as abi, piste_channel_header, piste_packet_header, piste_ring_header, piste_subbuf};
use rustix::io::{pread, pwrite};

const HEADER_UNITS: u64 = size_of::<piste_packet_header>() as u64 / 8;

pub(crate) struct Writer<'a> {
    memory: &'a OwnedFd,
    ring_index: u32,
    ring_bytes: u64,
    marks_bytes: u64,
    data_bytes: u64,
    subbuf_units: u64,
    subbuf_count: u64,
    overwrites: bool,
}

/// A record that was reserved.
pub(crate) struct Reserved {
    unit: u64,
    bytes: Vec<u8>,
    ticks: u64,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(memory: &'a OwnedFd, ring_index: u32) -> Self {
        let mut header = [0; size_of::<piste_channel_header>()];
        pread(memory, &mut header, 0).expect("the memory has a header");
        let word = |offset: usize| u64::from(u32::from_ne_bytes(header[offset..][..4].try_into().unwrap()));
        let long = |offset: usize| u64::from_ne_bytes(header[offset..][..8].try_into().unwrap());
        let ring_offset = long(offset_of!(piste_channel_header, ring_offset_bytes));
        let ring_stride = long(offset_of!(piste_channel_header, ring_stride_bytes));
        let ring_bytes = ring_offset + u64::from(ring_index) * ring_stride;
        Self {
            memory,
            ring_index,
            ring_bytes,
            marks_bytes: ring_bytes + long(offset_of!(piste_channel_header, marks_offset_bytes)),
            data_bytes: ring_bytes + u64::from(abi::PISTE_RING_DATA_OFFSET_BYTES),
            subbuf_units: word(offset_of!(piste_channel_header, subbuf_bytes)) / 8,
            subbuf_count: word(offset_of!(piste_channel_header, subbuf_count)),
            overwrites: word(offset_of!(piste_channel_header, loss_mode)) == u64::from(abi::PISTE_LOSS_OVERWRITE),
        }
    }

    /// Writes a record; false when it was discarded.
    pub(crate) fn record(&self, ticks: u64, id: u32, fields: &[u8]) -> bool {
        self.reserve(ticks, id, fields)
            .map(|reserved| self.commit(&reserved))
            .is_some()
    }

    /// Reserves the space of a record, and leaves it at that.
    pub(crate) fn reserve(&self, ticks: u64, id: u32, fields: &[u8]) -> Option<Reserved> {
        let window = self.get(self.ring_bytes + offset_of!(piste_ring_header, window) as u64);
        let bytes = match window_of(ticks) == window && id < 31 {
            true => [&(id | (ticks as u32) << 5).to_ne_bytes()[..], fields].concat(),
            false => [&[31][..], &id.to_ne_bytes(), &ticks.to_ne_bytes(), fields].concat(),
        };
        let units = bytes.len().div_ceil(8) as u64;
        if units > self.subbuf_units - HEADER_UNITS {
            self.add(offset_of!(piste_ring_header, discarded_too_large), 1);
            return None;
        }
        let open = self.position() % self.subbuf_units;
        if (open == 0 || open + units > self.subbuf_units) && !self.enter_next(ticks) {
            self.add(offset_of!(piste_ring_header, discarded_full), 1);
            return None;
        }
        let unit = self.position();
        self.set_position(unit + units);
        Some(Reserved { unit, bytes, ticks })
    }

    pub(crate) fn commit(&self, reserved: &Reserved) {
        self.write_data(reserved.unit, &reserved.bytes);
        let units = reserved.bytes.len().div_ceil(8) as u64;
        self.mark(reserved.unit..reserved.unit + units, 0);
        self.mark(reserved.unit..reserved.unit + 1, abi::PISTE_MARK_HEAD as u8);
        self.set(
            self.ring_bytes + offset_of!(piste_ring_header, window) as u64,
            window_of(reserved.ticks),
        );
    }

    /// Sets the write position, as only a program gone wild does.
    pub(crate) fn set_position(&self, units: u64) {
        self.set(self.ring_bytes + offset_of!(piste_ring_header, position) as u64, units);
    }

    /// Gives back sub-buffers that nobody has taken, as only a program gone wild does.
    pub(crate) fn set_consumed(&self, sequence: u64) {
        let consumed_offset = self.ring_bytes + offset_of!(piste_ring_header, consumed) as u64;
        self.set(consumed_offset, sequence << abi::PISTE_CONSUMED_SHIFT);
    }

    fn enter_next(&self, ticks: u64) -> bool {
        let position = self.position();
        let sequence = position.div_ceil(self.subbuf_units);
        let consumed_offset = self.ring_bytes + offset_of!(piste_ring_header, consumed) as u64;
        let consumed = self.get(consumed_offset) >> abi::PISTE_CONSUMED_SHIFT;
        if sequence >= consumed + self.subbuf_count {
            if !self.overwrites {
                return false;
            }
            let oldest = (sequence - self.subbuf_count) * self.subbuf_units;
            let marks = self.marks(oldest..oldest + self.subbuf_units);
            if marks
                .iter()
                .any(|mark| mark & abi::PISTE_MARK_TAG_MASK as u8 != self.tag(oldest))
            {
                return false;
            }
            let heads = marks
                .iter()
                .filter(|mark| **mark & abi::PISTE_MARK_HEAD as u8 != 0)
                .count();
            self.add(offset_of!(piste_ring_header, overwritten_records), heads as u64);
            self.add(offset_of!(piste_ring_header, overwritten_packets), 1);
            self.set(
                consumed_offset,
                (sequence - self.subbuf_count + 1) << abi::PISTE_CONSUMED_SHIFT,
            );
        }
        let touched = offset_of!(piste_channel_header, touched) as u64 + u64::from(self.ring_index / 64) * 8;
        self.set(touched, self.get(touched) | 1 << (self.ring_index % 64));

        let begin = sequence * self.subbuf_units;
        self.set_position(begin + HEADER_UNITS);
        if !position.is_multiple_of(self.subbuf_units) {
            self.end(position);
        }
        let begin_offset = offset_of!(piste_packet_header, timestamp_begin);
        let header = [&vec![0xaa; begin_offset][..], &ticks.to_ne_bytes()].concat();
        self.write_data(begin, &header);
        self.mark(begin..begin + HEADER_UNITS, 0);
        true
    }

    /// Ends the sub-buffer that `position` lies in.
    fn end(&self, position: u64) {
        let sequence = position / self.subbuf_units;
        let counters = [
            offset_of!(piste_ring_header, discarded_full),
            offset_of!(piste_ring_header, discarded_too_large),
        ];
        let discarded = counters
            .map(|counter| self.get(self.ring_bytes + counter as u64))
            .iter()
            .sum();
        let index = sequence % self.subbuf_count;
        let subbufs_bytes = self.data_bytes + self.subbuf_units * self.subbuf_count * 8;
        let subbuf = subbufs_bytes + index * size_of::<piste_subbuf>() as u64;
        self.set(subbuf + offset_of!(piste_subbuf, discarded) as u64, discarded);
        let content_units = position % self.subbuf_units;
        let ended = ((sequence + 1) << abi::PISTE_ENDED_SEQUENCE_SHIFT) | content_units;
        self.set(subbuf + offset_of!(piste_subbuf, ended) as u64, ended);
        self.mark(position..(sequence + 1) * self.subbuf_units, 0);
    }

    fn position(&self) -> u64 {
        self.get(self.ring_bytes + offset_of!(piste_ring_header, position) as u64)
    }

    fn write_data(&self, unit: u64, bytes: &[u8]) {
        self.write(
            self.data_bytes + unit % (self.subbuf_units * self.subbuf_count) * 8,
            bytes,
        );
    }

    fn mark(&self, units: std::ops::Range<u64>, head: u8) {
        let first = units.start % (self.subbuf_units * self.subbuf_count);
        let marks = vec![self.tag(units.start) | head; (units.end - units.start) as usize];
        self.write(self.marks_bytes + first, &marks);
    }

    fn marks(&self, units: std::ops::Range<u64>) -> Vec<u8> {
        let first = units.start % (self.subbuf_units * self.subbuf_count);
        let mut marks = vec![0; (units.end - units.start) as usize];
        pread(self.memory, &mut marks, self.marks_bytes + first).expect("the marks can be read");
        marks
    }

    fn tag(&self, unit: u64) -> u8 {
        let lap = unit / (self.subbuf_units * self.subbuf_count);
        (abi::PISTE_MARK_TAG_ALWAYS | lap as u32 & abi::PISTE_MARK_LAP_MASK) as u8
    }

    fn add(&self, counter: usize, more: u64) {
        let offset = self.ring_bytes + counter as u64;
        self.set(offset, self.get(offset) + more);
    }

    fn get(&self, offset: u64) -> u64 {
        let mut bytes = [0; 8];
        pread(self.memory, &mut bytes, offset).expect("the memory can be read");
        u64::from_ne_bytes(bytes)
    }

    fn set(&self, offset: u64, value: u64) {
        self.write(offset, &value.to_ne_bytes());
    }

    fn write(&self, offset: u64, bytes: &[u8]) {
        assert_eq!(pwrite(self.memory, bytes, offset), Ok(bytes.len()));
    }
}

fn window_of(ticks: u64) -> u64 {
    (ticks >> abi::PISTE_RECORD_TIME_BITS) & u64::from(u32::MAX)
}
