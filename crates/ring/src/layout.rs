// SPDX-License-Identifier: MIT OR Apache-2.0
//! The shared words of a channel, each an atomic at the place that the contract gives it.
//!
//! The structs mirror `piste_channel_header`, `piste_ring_header` and `piste_subbuf`; the asserts below hold them to the
//! generated ones. [`Ring`] is what every algorithm of this crate works on: references to the words of one ring, which
//! `mapping.rs` takes from a mapping, and the loom models from ordinary memory.

use std::ops::Range;

use piste_abi::{EndedWord, HEAD, PositionWord, generated as abi, tag_of_lap};

use crate::atomic::{Acquire, AtomicU8, AtomicU32, AtomicU64, Relaxed, Release};

/// The words of `piste_channel_header` that stay shared after it was written.
#[cfg(not(loom))]
#[repr(C)]
pub(crate) struct ChannelWords {
    written_once: [AtomicU32; 32],
    pub(crate) active_key: AtomicU32,
    reserved_1: [AtomicU32; 31],
    pub(crate) touched: [AtomicU64; 64],
    more: [AtomicU64; 320],
    reserved_2: [AtomicU64; 96],
}

/// `piste_ring_header`.
#[repr(C, align(8))]
#[cfg_attr(loom, derive(Default))]
pub(crate) struct RingHeader {
    pub(crate) position: AtomicU64,
    pub(crate) window: AtomicU64,
    reserved_0: Reserved<14>,
    pub(crate) consumed: AtomicU64,
    pub(crate) space_futex: AtomicU32,
    pub(crate) waiters: AtomicU32,
    reserved_1: Reserved<14>,
    pub(crate) discarded_full: AtomicU64,
    pub(crate) discarded_too_large: AtomicU64,
    pub(crate) overwritten_records: AtomicU64,
    pub(crate) overwritten_packets: AtomicU64,
    reserved_2: Reserved<28>,
}

/// `piste_subbuf`.
#[repr(C, align(8))]
#[cfg_attr(loom, derive(Default))]
pub(crate) struct Subbuf {
    pub(crate) ended: AtomicU64,
    pub(crate) discarded: AtomicU64,
    reserved: Reserved<14>,
}

/// 64-bit words that nobody uses yet.
#[cfg(not(loom))]
type Reserved<const COUNT: usize> = [AtomicU64; COUNT];
#[cfg(loom)]
type Reserved<const COUNT: usize> = ();

/// Holds fields of a mirror to the places of the generated struct's.
macro_rules! mirrors {
    ($mirror:ident is $original:ident: $($field:ident)*) => {
        #[cfg(not(loom))]
        const _: () = {
            assert!(size_of::<$mirror>() == size_of::<abi::$original>());
            $(assert!(std::mem::offset_of!($mirror, $field) == std::mem::offset_of!(abi::$original, $field));)*
        };
    };
}

mirrors!(ChannelWords is piste_channel_header: active_key reserved_1 touched more reserved_2);
mirrors!(RingHeader is piste_ring_header: position window consumed space_futex waiters discarded_full
    discarded_too_large overwritten_records overwritten_packets);
mirrors!(Subbuf is piste_subbuf: ended discarded);

/// The words of one ring, wherever they are. `subbufs` has a power of two of elements, `data` as many units for each of them,
/// and `marks` one byte for each unit of
/// `data`; a sub-buffer's units are a multiple of 8.
#[derive(Clone, Copy)]
pub(crate) struct Ring<'a> {
    pub(crate) header: &'a RingHeader,
    pub(crate) subbufs: &'a [Subbuf],
    pub(crate) marks: &'a [AtomicU8],
    pub(crate) data: &'a [AtomicU64],
}

impl<'a> Ring<'a> {
    pub(crate) fn subbuf_count(&self) -> u64 {
        self.subbufs.len() as u64
    }

    pub(crate) fn subbuf_units(&self) -> u64 {
        (self.data.len() / self.subbufs.len()) as u64
    }

    /// The sub-buffer that holds `sequence`. Any number is a sequence.
    pub(crate) fn place(&self, sequence: u64) -> SubbufView<'a> {
        let index = (sequence % self.subbuf_count()) as usize;
        let units = self.subbuf_units() as usize;
        SubbufView {
            sequence,
            tag: tag_of_lap(sequence / self.subbuf_count()),
            subbuf: &self.subbufs[index],
            marks: &self.marks[index * units..][..units],
            data: &self.data[index * units..][..units],
        }
    }

    /// Where the position `word` lies. Any word lies somewhere.
    pub(crate) fn split(&self, word: PositionWord) -> Position {
        let units = self.subbuf_units();
        Position {
            sequence: word.units() / units,
            offset_units: word.units() % units,
        }
    }

    /// Records that were discarded in this ring, for any reason. Each counter is exact on its own; a record that is counted during the reads
    /// is in this sum or in the next one. Acquire, so that a position that is read afterwards is not older than the counters.
    pub(crate) fn discarded(&self) -> u64 {
        self.header
            .discarded_full
            .load(Acquire)
            .wrapping_add(self.header.discarded_too_large.load(Acquire))
    }
}

/// A position as a sub-buffer and the units reserved in it. With `offset_units` 0 the sub-buffer is not yet entered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Position {
    pub(crate) sequence: u64,
    pub(crate) offset_units: u64,
}

/// A sub-buffer while it holds one sequence.
#[derive(Clone, Copy)]
pub(crate) struct SubbufView<'a> {
    pub(crate) sequence: u64,
    /// The mark of every committed unit, but for the head of a record.
    pub(crate) tag: u8,
    pub(crate) subbuf: &'a Subbuf,
    pub(crate) marks: &'a [AtomicU8],
    pub(crate) data: &'a [AtomicU64],
}

impl SubbufView<'_> {
    /// Appends the units of `range` to `packet`. Each is read once. Relaxed: the marks, read before, order the copy (ring.mark).
    pub(crate) fn copy_data(&self, range: Range<usize>, packet: &mut Vec<u8>) {
        let start = packet.len();
        packet.resize(start + range.len() * UNIT_BYTES, 0);
        let (units, _) = packet[start..].as_chunks_mut::<UNIT_BYTES>();
        for (unit, shared) in units.iter_mut().zip(&self.data[range]) {
            *unit = shared.load(Relaxed).to_ne_bytes();
        }
    }

    /// Number of records when every unit is committed in this lap, else `None`.
    pub(crate) fn complete_records(&self) -> Option<u32> {
        let tags = u64::from_ne_bytes([self.tag; 8]);
        let heads = u64::from_ne_bytes([HEAD; 8]);
        let mut records = 0;
        for index in 0..self.marks.len() / 8 {
            let marks = self.load_marks(index);
            if (marks ^ tags) & !heads != 0 {
                return None;
            }
            records += (marks & heads).count_ones();
        }
        Some(records)
    }

    /// Copies the marks of the first `units` units.
    pub(crate) fn copy_marks(&self, units: usize) -> Vec<u8> {
        let mut marks: Vec<u8> = (0..units.div_ceil(8))
            .flat_map(|index| self.load_marks(index).to_ne_bytes())
            .collect();
        marks.truncate(units);
        marks
    }

    /// Eight marks at once.
    ///
    /// ORDER ring.mark (acquire): the bytes of the units and the other marks of their records are visible, and where there is padding,
    /// `ended` and `discarded`. Pairs with include/piste/ring.h, runtime/ring.c.
    #[cfg(not(loom))]
    fn load_marks(&self, index: usize) -> u64 {
        crate::mapping::as_words(self.marks)[index].load(Acquire)
    }

    /// The models load the marks one by one, as programs store them.
    #[cfg(loom)]
    fn load_marks(&self, index: usize) -> u64 {
        u64::from_ne_bytes(std::array::from_fn(|offset| {
            self.marks[index * 8 + offset].load(Acquire)
        }))
    }

    /// Commits the units of `range`, which is not empty: the first mark last.
    pub(crate) fn mark(&self, range: Range<usize>, first: u8) {
        for mark in &self.marks[range.start + 1..range.end] {
            mark.store(first & !HEAD, Relaxed);
        }
        // ORDER ring.mark (release): what lies in the units, and their other marks, are visible before. Pairs with `load_marks`.
        self.marks[range.start].store(first, Release);
    }

    /// Stores how many records the ring has discarded so far. Whoever leaves a sub-buffer does this: before entering the next one if it is
    /// full to its last byte, else as a part of [`SubbufView::end`].
    pub(crate) fn settle(&self, discarded: u64) {
        self.subbuf.discarded.store(discarded, Relaxed);
    }

    /// Says where the content ends and marks the padding behind it, as whoever moved the position past the sub-buffer must.
    pub(crate) fn end(&self, content_units: u64, discarded: u64) {
        self.settle(discarded);
        // ORDER ring.ended (release): `discarded` is visible before. Pairs with runtime/ring.c and `content_units` in reader.rs.
        self.subbuf
            .ended
            .store(EndedWord::new(self.sequence, content_units as u32).0, Release);
        self.mark(content_units as usize..self.marks.len(), self.tag);
    }
}

pub(crate) const UNIT_BYTES: usize = abi::PISTE_UNIT_BYTES as usize;

/// Units of the packet header at the start of each sub-buffer.
#[cfg(not(loom))]
pub(crate) const HEADER_UNITS: usize = size_of::<abi::piste_packet_header>() / UNIT_BYTES;
#[cfg(not(loom))]
pub(crate) const BEGIN_OFFSET_BYTES: usize = std::mem::offset_of!(abi::piste_packet_header, timestamp_begin);

/// The models have a header of one unit, which is the time: each unit multiplies what loom has to explore.
#[cfg(loom)]
pub(crate) const HEADER_UNITS: usize = 1;
#[cfg(loom)]
pub(crate) const BEGIN_OFFSET_BYTES: usize = 0;

/// `timestamp_begin` of the private copy of a packet, which has at least its header.
pub(crate) fn begin_ticks(packet: &[u8]) -> u64 {
    u64::from_ne_bytes(packet[BEGIN_OFFSET_BYTES..][..UNIT_BYTES].try_into().expect("8 bytes"))
}
