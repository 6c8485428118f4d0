// SPDX-License-Identifier: MIT OR Apache-2.0
//! Giving up on a record that never comes: what is committed in the sub-buffer is taken, and the ring goes on behind it.
//!
//! A program can die, or a thread of it be cancelled, between reserving a record and committing it. The sub-buffer is then never
//! complete. Its marks tell where committed records start; `crates/ctf` finds them in the copy that is made here.
//!
//! ```text
//! a slow thread of a living program            salvage
//!   write the record, its mark
//!   commit: add release          --ring.commit-->  commit: or `recovered`, acq_rel; then copy marks and data
//!   the sum has `recovered`:
//!     count the record as late
//! ```
//!
//! The two meet in one word, so each commit either is in the final count or counts its record as late. A record whose mark was
//! stored but whose commit came late is in both places: the copy shows more marked records than [`Salvage::records`], and so many
//! of `discarded_late` are not losses.

use piste_abi::{CommitWord, mark_of_lap};

use crate::atomic::{AcqRel, Acquire};
use crate::corruption::Corruption;
use crate::layout::{HEADER_UNITS, Ring, begin_ticks};
use crate::reader::{Reader, check_commit};

/// Whether the program can still commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Finality {
    /// It may: its sub-buffer is closed for good, and what it commits there from now on counts as discarded.
    Alive,
    /// It is dead: nothing changes any more.
    Dead,
}

/// What a sub-buffer had when it was given up. Data and marks are in the caller's buffers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Salvage {
    /// The sub-buffer.
    pub sequence: u64,
    /// Ticks: when the program says that it entered the sub-buffer. When it died just then, the time of an earlier lap.
    pub begin_ticks: u64,
    /// Records that are committed. Each of them has a mark.
    pub records: u32,
    /// The mark of the sub-buffer's lap. Other marks are of earlier laps.
    pub mark: u8,
    /// Records that the ring had discarded by now.
    pub discarded: u64,
}

impl Reader {
    /// Takes what is committed in the next sub-buffer: the one that [`Reader::next`] called incomplete, or the open one, which is
    /// then ended. `data` has the sub-buffer's bytes afterwards, `marks` one byte for each 8 of them; [`Reader::release`]
    /// follows once the records are stored. `None` when there is nothing to give up: the sub-buffer is complete by now, or was
    /// never entered.
    ///
    /// After `Finality::Alive` the program cannot use the sub-buffer any more; the channel's memory should be replaced.
    /// # Errors
    /// [`Corruption`] as for [`Reader::next`].
    pub fn salvage(
        &mut self,
        data: &mut Vec<u8>,
        marks: &mut Vec<u8>,
        finality: Finality,
    ) -> Result<Option<Salvage>, Corruption> {
        let ended = self.try_end_current()?;
        let position = self.position(self.ring())?;
        if position.sequence == self.sequence() {
            return Ok(None);
        }
        // Behind the position of an open sub-buffer nobody wrote in this lap.
        let units = ended
            .filter(|open| open.sequence == self.sequence())
            .map(|open| open.offset_units);
        let salvage = copy_committed(self.ring(), self.sequence(), units, finality, data, marks)?;
        if salvage.is_some() {
            self.hand_over();
        }
        Ok(salvage)
    }
}

/// Copies the first `units` units (all, when `None`) of the incomplete sub-buffer `sequence`, and their marks.
pub(crate) fn copy_committed(
    ring: Ring<'_>,
    sequence: u64,
    units: Option<u64>,
    finality: Finality,
    data: &mut Vec<u8>,
    marks: &mut Vec<u8>,
) -> Result<Option<Salvage>, Corruption> {
    let place = ring.place(sequence);
    // ORDER ring.commit (acquire): the records and marks that the count covers are visible. Pairs with include/piste/ring.h.
    let mut commit = CommitWord(place.subbuf.commit.load(Acquire));
    check_commit(ring, sequence, commit)?;
    if commit.is_complete(place.lap, ring.subbuf_bytes()) {
        return Ok(None);
    }
    if finality == Finality::Alive {
        // ORDER ring.commit (acq_rel): as above, and a commit that comes later sees the bit.
        commit = CommitWord(place.subbuf.commit.fetch_or(CommitWord::RECOVERED, AcqRel));
        check_commit(ring, sequence, commit)?;
    }
    // No correct program has a position within the packet header; a copy has at least that.
    let units = (units.unwrap_or(ring.subbuf_units()) as usize).max(HEADER_UNITS);
    place.copy_marks(units, marks);
    place.copy_data(units, data);
    Ok(Some(Salvage {
        sequence,
        begin_ticks: begin_ticks(data),
        records: commit.records(),
        mark: mark_of_lap(place.lap),
        discarded: ring.discarded(),
    }))
}
