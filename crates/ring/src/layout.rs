// SPDX-License-Identifier: MIT OR Apache-2.0
//! The shared words of a channel, each an atomic at the place that the contract gives it.
//!
//! The structs mirror `piste_channel_header`, `piste_ring_header` and `piste_subbuf`; the asserts below hold them to the
//! generated ones. [`Ring`] is what every algorithm of this crate works on: references to the words of one ring, which
//! `mapping.rs` takes from a mapping, and the loom models from ordinary memory.

use piste_abi::{PositionWord, generated as abi};

use crate::atomic::{AtomicU8, AtomicU32, AtomicU64, Relaxed};

/// The words of `piste_channel_header` that stay shared after it was written.
#[cfg(not(loom))]
#[repr(C)]
pub(crate) struct ChannelWords {
    written_once: [AtomicU32; 32],
    pub(crate) active_key: AtomicU32,
    reserved_1: [AtomicU32; 31],
    pub(crate) touched: [AtomicU64; 64],
    reserved_2: [AtomicU64; 416],
}

/// `piste_ring_header`.
#[repr(C, align(8))]
#[cfg_attr(loom, derive(Default))]
pub(crate) struct RingHeader {
    pub(crate) position: AtomicU64,
    pub(crate) last_time: AtomicU64,
    reserved_0: Reserved<14>,
    pub(crate) consumed: AtomicU64,
    pub(crate) space_futex: AtomicU32,
    pub(crate) waiters: AtomicU32,
    reserved_1: Reserved<14>,
    pub(crate) discarded_full: AtomicU64,
    pub(crate) discarded_too_large: AtomicU64,
    pub(crate) discarded_late: AtomicU64,
    pub(crate) overwritten_records: AtomicU64,
    pub(crate) overwritten_packets: AtomicU64,
    reserved_2: Reserved<27>,
}

/// `piste_subbuf`.
#[repr(C, align(8))]
#[cfg_attr(loom, derive(Default))]
pub(crate) struct Subbuf {
    pub(crate) commit: AtomicU64,
    pub(crate) content_bytes: AtomicU64,
    pub(crate) discarded: AtomicU64,
    reserved: Reserved<13>,
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

mirrors!(ChannelWords is piste_channel_header: active_key reserved_1 touched reserved_2);
mirrors!(RingHeader is piste_ring_header: position last_time consumed space_futex waiters discarded_full
    discarded_too_large discarded_late overwritten_records overwritten_packets);
mirrors!(Subbuf is piste_subbuf: commit content_bytes discarded);

/// The words of one ring, wherever they are. `subbufs` has a power of two of elements, `data` as many units for each of them,
/// and `marks` one byte for each unit of `data`.
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

    pub(crate) fn subbuf_bytes(&self) -> u32 {
        (self.subbuf_units() * UNIT_BYTES as u64) as u32
    }

    /// The sub-buffer that holds `sequence`. Any number is a sequence.
    pub(crate) fn place(&self, sequence: u64) -> Place<'a> {
        let index = (sequence % self.subbuf_count()) as usize;
        let units = self.subbuf_units() as usize;
        Place {
            lap: sequence / self.subbuf_count(),
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

    /// Records that were discarded in this ring, whatever the reason. Relaxed: each counter is exact on its own, and a record
    /// that is counted while we look belongs to this sum or to the next.
    pub(crate) fn discarded(&self) -> u64 {
        let header = self.header;
        [
            &header.discarded_full,
            &header.discarded_too_large,
            &header.discarded_late,
        ]
        .iter()
        .fold(0, |sum, counter| sum.wrapping_add(counter.load(Relaxed)))
    }
}

/// A position as a sub-buffer and the units reserved in it. With `offset_units` 0 the sub-buffer is not yet entered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Position {
    pub(crate) sequence: u64,
    pub(crate) offset_units: u64,
}

/// A sub-buffer as the place of one sequence.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) lap: u64,
    pub(crate) subbuf: &'a Subbuf,
    pub(crate) marks: &'a [AtomicU8],
    pub(crate) data: &'a [AtomicU64],
}

impl Place<'_> {
    /// Copies the first `units` units to `buffer`, which then has exactly their bytes. Each unit is read once. Relaxed: what
    /// orders the copy is the commit word, before it and where need be after it.
    pub(crate) fn copy_data(&self, units: usize, buffer: &mut Vec<u8>) {
        buffer.resize(units * UNIT_BYTES, 0);
        let (words, _) = buffer.as_chunks_mut::<UNIT_BYTES>();
        for (word, shared) in words.iter_mut().zip(self.data) {
            *word = shared.load(Relaxed).to_ne_bytes();
        }
    }

    /// Copies the marks of the first `units` units to `marks`, which then has exactly these. Ordered as [`Self::copy_data`].
    pub(crate) fn copy_marks(&self, units: usize, marks: &mut Vec<u8>) {
        marks.clear();
        marks.extend(self.marks[..units].iter().map(|mark| mark.load(Relaxed)));
    }
}

pub(crate) const UNIT_BYTES: usize = abi::PISTE_UNIT_BYTES as usize;

/// Units of the packet header at the start of each sub-buffer.
#[cfg(not(loom))]
pub(crate) const HEADER_UNITS: usize = size_of::<abi::piste_packet_header>() / UNIT_BYTES;
#[cfg(not(loom))]
const BEGIN_OFFSET_BYTES: usize = std::mem::offset_of!(abi::piste_packet_header, timestamp_begin);

/// The models have a header of one unit, which is the time: each unit multiplies what loom has to explore.
#[cfg(loom)]
pub(crate) const HEADER_UNITS: usize = 1;
#[cfg(loom)]
const BEGIN_OFFSET_BYTES: usize = 0;

/// `timestamp_begin` of the private copy of a packet, which has at least its header.
pub(crate) fn begin_ticks(packet: &[u8]) -> u64 {
    u64::from_ne_bytes(packet[BEGIN_OFFSET_BYTES..][..UNIT_BYTES].try_into().expect("8 bytes"))
}
