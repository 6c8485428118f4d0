// SPDX-License-Identifier: MIT OR Apache-2.0
//! Looking at what an overwriting ring holds, without taking it and without stopping the program.
//!
//! A sub-buffer can be overwritten while it is copied. So the copy is made between two looks at the commit word, and counts
//! only when both saw the same complete lap.
//!
//! ```text
//! program enters the sub-buffer anew                snapshot
//!                                                     commit: load acquire: lap L, complete
//!   commit: swap acq_rel to lap L + 1                 copy content_bytes and data
//!   write records                 --ring.commit-->    commit: add 0, acq_rel: still lap L, complete
//! ```
//!
//! When our second look comes before the program's swap, the swap acquires it, and no record it writes was copied; when it comes
//! after, it sees lap L + 1.

use piste_abi::{CommitWord, ConsumedWord};

use crate::atomic::{AcqRel, Acquire};
use crate::corruption::Corruption;
use crate::layout::Ring;
use crate::reader::{Next, Reader, check_commit, copy_packet};
use crate::salvage::{Finality, Salvage, copy_committed};

/// The sub-buffers that a ring held when [`Reader::snapshot`] was called, from the oldest to the newest.
pub struct Snapshot<'a> {
    reader: &'a Reader,
    /// The next sub-buffer to copy.
    sequence: u64,
    /// Behind the last one.
    end: u64,
}

impl Reader {
    /// Looks at the ended sub-buffers of an overwriting ring; [`Reader::end_current`] before it adds the open one. Takes nothing.
    /// # Errors
    /// [`Corruption`] as for [`Reader::next`].
    pub fn snapshot(&self) -> Result<Snapshot<'_>, Corruption> {
        let ring = self.ring();
        let oldest = oldest(ring);
        // Loaded after `oldest`: a correct program never moves `consumed` past the position.
        let position = self.position(ring)?;
        if oldest > position.sequence {
            return Err(Corruption::PositionBehind {
                position: position.sequence,
                next: oldest,
            });
        }
        // When a sub-buffer is open, it has the place of the oldest one that a full ring would have.
        let held = ring.subbuf_count() - u64::from(position.offset_units > 0);
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
    /// what is committed in that sub-buffer, and the next call goes on behind it. [`Next::Lost`] counts sub-buffers that were
    /// overwritten since the snapshot began.
    pub fn next(&mut self, buffer: &mut Vec<u8>) -> Next {
        self.try_next(buffer).unwrap_or_else(Next::Corrupt)
    }

    /// Copies data and marks of the incomplete sub-buffer `sequence` as [`Reader::salvage`] does, but leaves it as it is: a record
    /// that is committed later is not lost, only not in this snapshot. `None` when the sub-buffer is complete or overwritten by now.
    /// # Errors
    /// [`Corruption`] as for [`Reader::next`].
    pub fn salvage(
        &self,
        sequence: u64,
        data: &mut Vec<u8>,
        marks: &mut Vec<u8>,
    ) -> Result<Option<Salvage>, Corruption> {
        let ring = self.reader.ring();
        if !self.is_held(ring, sequence)? {
            return Ok(None);
        }
        let salvage = copy_committed(ring, sequence, None, Finality::Dead, data, marks)?;
        Ok(if self.is_held(ring, sequence)? { salvage } else { None })
    }

    fn try_next(&mut self, buffer: &mut Vec<u8>) -> Result<Next, Corruption> {
        if self.sequence >= self.end {
            return Ok(Next::Empty);
        }
        let (ring, sequence) = (self.reader.ring(), self.sequence);
        let place = ring.place(sequence);
        // ORDER ring.commit (acquire): the bytes that the count covers are visible. Pairs with include/piste/ring.h.
        let commit = CommitWord(place.subbuf.commit.load(Acquire));
        if !commit.is_of_lap(place.lap) {
            return self.overwritten(ring);
        }
        check_commit(ring, sequence, commit)?;
        if !commit.is_complete(place.lap, ring.subbuf_bytes()) {
            self.sequence += 1;
            return Ok(Next::Incomplete { sequence });
        }
        let packet = copy_packet(ring, sequence, commit, buffer);
        if !self.is_held(ring, sequence)? {
            return self.overwritten(ring);
        }
        self.sequence += 1;
        packet.map(Next::Packet)
    }

    /// Whether `sequence` still has its place.
    fn is_held(&self, ring: Ring<'_>, sequence: u64) -> Result<bool, Corruption> {
        let place = ring.place(sequence);
        // ORDER ring.commit (acq_rel): an addition, because a load would not keep the copy before it from being read later. Pairs
        // with the swap in runtime/ring.c.
        let commit = CommitWord(place.subbuf.commit.fetch_add(0, AcqRel));
        Ok(commit.is_of_lap(place.lap))
    }

    /// The program overwrote the next sub-buffer: goes on with the oldest that is left.
    fn overwritten(&mut self, ring: Ring<'_>) -> Result<Next, Corruption> {
        let oldest = oldest(ring).min(self.end);
        if oldest <= self.sequence {
            let found = ring.place(self.sequence).subbuf.commit.load(Acquire);
            return Err(Corruption::Commit {
                sequence: self.sequence,
                found,
                subbuf_bytes: ring.subbuf_bytes(),
            });
        }
        let packets = oldest - self.sequence;
        self.sequence = oldest;
        Ok(Next::Lost { packets })
    }
}

/// The oldest sub-buffer that is not overwritten.
fn oldest(ring: Ring<'_>) -> u64 {
    // ORDER ring.consumed (acquire): the commit words are at least as new. Pairs with runtime/ring.c.
    ConsumedWord(ring.header.consumed.load(Acquire)).sequence()
}
