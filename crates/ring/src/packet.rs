// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a reader hands out: packets, and what was lost instead.

use crate::corruption::Corruption;

/// What [`crate::Reader::next`] found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// No sub-buffer has ended since the last one.
    Empty,
    /// A packet, copied to the caller's buffer. [`crate::Reader::release`] follows once it is stored.
    Packet(Packet),
    /// The next sub-buffer has ended, but some record in it is not committed. It may be in a moment; when the caller has
    /// waited long enough or the program is dead, [`crate::Reader::salvage`] takes the rest.
    Incomplete {
        /// The sub-buffer.
        sequence: u64,
    },
    /// The program overwrote sub-buffers before they were taken. The reader has moved on; call again.
    Lost {
        /// How many.
        packets: u64,
    },
    /// The ring makes no sense. The caller closes it: nothing more comes from it.
    Corrupt(Corruption),
}

/// A complete packet. Its bytes are in the caller's buffer, as the program wrote them: the header has `timestamp_begin` only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet {
    /// Number of the packet in its ring, from 0 without gaps but the lost ones.
    pub sequence: u64,
    /// Ticks: when the program says that it entered the sub-buffer.
    pub begin_ticks: u64,
    /// Bytes of the packet: the header and the records, each padded to 8 bytes. At least 96, a multiple of 8.
    pub content_bytes: u32,
    /// Records that the program says it committed.
    pub records: u32,
    /// Records that the ring had discarded when the packet ended. Never less than in the one before.
    pub discarded: u64,
}

/// The whole records of an incomplete sub-buffer. The caller's buffer has the packet header and these records, without gaps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Salvage {
    /// Number of the packet in its ring.
    pub sequence: u64,
    /// Ticks: when the program says that it entered the sub-buffer; `None` when it died before it said so. No record is older than
    /// the last one of the packet before.
    pub begin_ticks: Option<u64>,
    /// Bytes in the caller's buffer.
    pub content_bytes: u32,
    /// Whole records.
    pub records: u32,
    /// Gaps between them or behind them, each of one or more records that were reserved and not committed.
    pub holes: u32,
    /// Records that the ring had discarded by now; the holes are not among them.
    pub discarded: u64,
}

/// Everything that a ring lost since it began. Counted by the program; each counter is exact once the program rests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Losses {
    /// Records that found no space.
    pub discarded_full: u64,
    /// Records larger than a sub-buffer holds.
    pub discarded_too_large: u64,
    /// Records that were overwritten before they were taken.
    pub overwritten_records: u64,
    /// Packets that were overwritten before they were taken.
    pub overwritten_packets: u64,
}

impl Losses {
    /// Records that never reached a packet: both discarded counters, as `events_discarded` of a packet counts them.
    pub fn discarded(&self) -> u64 {
        self.discarded_full.wrapping_add(self.discarded_too_large)
    }
}
