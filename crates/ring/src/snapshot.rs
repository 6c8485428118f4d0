// SPDX-License-Identifier: MIT OR Apache-2.0
//! Looking at what a ring holds, without taking it and without stopping the program.
//!
//! A sub-buffer can be overwritten while it is copied. Whoever overwrites moves `consumed` first (R4); so a look at `consumed` after
//! the copy tells whether the copy is good.
//!
//! ```text
//! program overwrites the sub-buffer                   snapshot
//!                                                       marks: load acquire: complete
//!   consumed: swap acq_rel, past it                     copy the data
//!   position: swap acq_rel                              consumed: add 0, acq_rel: not past it
//!   write records                 <--ring.consumed-->
//! ```
//!
//! When our addition comes before the program's swap, the swap acquires it, and no record written behind the swap was copied; when it
//! comes after, it sees that `consumed` is past the sub-buffer.

use piste_abi::ConsumedWord;

use crate::atomic::{AcqRel, Acquire};
use crate::corruption::Corruption;
use crate::geometry::LossMode;
use crate::layout::Ring;
use crate::packet::{Next, Salvage};
use crate::reader::{Reader, copy_packet};
use crate::salvage::copy_whole_records;

/// The sub-buffers that a ring held when [`Reader::snapshot`] was called, from the oldest to the newest.
pub struct Snapshot<'a> {
    reader: &'a Reader,
    /// The next sub-buffer to copy.
    sequence: u64,
    /// Behind the last one.
    end: u64,
}

impl Reader {
    /// Looks at the ended sub-buffers of an overwriting ring; [`Reader::end_current`] before it adds the open one. In a ring that discards, and
    /// from which nobody takes, every sub-buffer is left as it is: the open one, too, which is then an incomplete one. Takes nothing.
    /// # Errors
    /// [`Corruption`] as for [`Reader::next`].
    pub fn snapshot(&self) -> Result<Snapshot<'_>, Corruption> {
        let ring = self.ring();
        // ORDER ring.consumed (acquire): the position is at least as new. Pairs with runtime/ring.c.
        let oldest = ConsumedWord(ring.header.consumed.load(Acquire)).sequence();
        let position = self.position(ring)?;
        if oldest > position.sequence {
            return Err(Corruption::PositionBehind {
                position: position.sequence,
                next: oldest,
            });
        }
        let open_count = u64::from(position.offset_units > 0);
        if self.memory().geometry().loss() != LossMode::Overwrite {
            // What the ring says of it may be anything: the position was compared with what was taken.
            return Ok(Snapshot {
                reader: self,
                sequence: self.oldest_kept(),
                end: position.sequence + open_count,
            });
        }
        // An open sub-buffer has the place of the oldest one that a full ring would have.
        let held = ring.subbuf_count() - open_count;
        let sequence = oldest.max(position.sequence.saturating_sub(held));
        Ok(Snapshot {
            reader: self,
            sequence,
            end: position.sequence,
        })
    }
}

impl Snapshot<'_> {
    /// Copies the next packet to `buffer`. [`Next::Empty`] is the end. After [`Next::Incomplete`], [`Snapshot::salvage`] copies
    /// the whole records of that sub-buffer, and the next call goes on behind it. [`Next::Lost`] counts sub-buffers that were
    /// overwritten since the snapshot began.
    pub fn next(&mut self, buffer: &mut Vec<u8>) -> Next {
        if self.sequence >= self.end {
            return Next::Empty;
        }
        let (ring, sequence) = (self.reader.ring(), self.sequence);
        let place = ring.place(sequence);
        let packet = place
            .complete_records()
            .map(|records| copy_packet(place, records, buffer));
        // What was read counts only now.
        let oldest = oldest(ring);
        if oldest > sequence {
            self.sequence = oldest.min(self.end);
            return Next::Lost {
                packets: self.sequence - sequence,
            };
        }
        self.sequence += 1;
        match packet {
            None => Next::Incomplete { sequence },
            Some(Ok(packet)) => Next::Packet(packet),
            Some(Err(corruption)) => Next::Corrupt(corruption),
        }
    }

    /// Copies the whole records of the incomplete sub-buffer `sequence` as [`Reader::salvage`] does, but leaves it as it is: a record
    /// that is committed later is not lost, only not in this snapshot. `None` when the sub-buffer is overwritten by now.
    /// # Errors
    /// [`Corruption`] as for [`Reader::next`].
    pub fn salvage(&self, sequence: u64, packet: &mut Vec<u8>) -> Result<Option<Salvage>, Corruption> {
        let ring = self.reader.ring();
        let salvage = copy_whole_records(ring, ring.place(sequence), packet);
        if oldest(ring) > sequence {
            Ok(None)
        } else {
            salvage.map(Some)
        }
    }
}

/// The oldest sub-buffer that is not overwritten, at the end of everything that was read before.
fn oldest(ring: Ring<'_>) -> u64 {
    // ORDER ring.consumed (acq_rel): an addition, because a load would not keep the copy before it from being read later. Pairs with the
    // swap in runtime/ring.c.
    ConsumedWord(ring.header.consumed.fetch_add(0, AcqRel)).sequence()
}
