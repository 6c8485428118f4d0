// SPDX-License-Identifier: MIT OR Apache-2.0
//! Takes the packets of one ring, in order, each once.
//!
//! ```text
//! program (include/piste/ring.h, runtime/ring.c)          reader (here)
//!
//! position: load acquire, swap acq_rel  <--ring.position-->  end_current: load acquire, swap acq_rel
//!   write the record                                         next: position load acquire: which sub-buffers are ended
//! marks: the first one last, release    ---ring.mark------>  next: all marks load acquire, then copy the data
//! leave a full one: discarded, then
//!   position: swap acq_rel              ---ring.position-->  next: position load acquire, then discarded
//! end a sub-buffer: discarded, then
//!   ended: store release                ---ring.ended----->  next: ended load acquire, then discarded
//!   marks of the padding
//! enter: consumed load acquire          <--ring.consumed---  release: consumed swap, after the copy
//! overwrite: consumed swap acq_rel      <--ring.consumed-->  next: claim by swap acq_rel, before the copy
//! block: waiters add, wait on           <--ring.space----->  release: space_futex add, then waiters load
//!   space_futex
//! ```
//!
//! The invariants are R1 to R7 of `include/piste/abi/ring.h`. What holds here because of them:
//! - The reader alone knows `sequence`. The shared `consumed` must be what it left there, but for what a program overwrote (R4).
//! - `consumed` moves only over complete sub-buffers (R2). After a salvage it stays where it is: the ring fills up behind it.
//! - A sub-buffer that is not consumed, or is claimed, is entered by nobody (R2, R4), so its copy is of one lap.
//! - A word is read once into a local, checked, and then used (R6). No loop here runs longer than a constant or the ring.
//!
//! | may run together with | program writes      | program enters, overwrites  | second reader of the ring |
//! |-----------------------|---------------------|-----------------------------|---------------------------|
//! | `next`, `release`     | yes                 | yes                         | no                        |
//! | `end_current`         | yes                 | yes: one swap wins          | no                        |
//! | `line`                | yes                 | yes                         | no                        |
//! | `salvage`             | yes: a record is whole in the copy, or missing | yes | no                     |
//! | `snapshot`            | yes                 | yes: seen after the copy    | yes                       |
//! | `losses`, `fill`      | yes                 | yes                         | yes                       |
//!
//! The consumed word is `consumed.rs`, giving up on a record that never comes `salvage.rs`, looking without taking is `snapshot.rs`.

use std::sync::Arc;

use piste_abi::{ConsumedWord, EndedWord, PositionWord};

use crate::atomic::{AcqRel, Acquire, Relaxed};
use crate::consumed::Consumed;
use crate::corruption::Corruption;
use crate::geometry::LossMode;
use crate::layout::{HEADER_UNITS, Position, Ring, SubbufView, UNIT_BYTES, begin_ticks};
use crate::mapping::Mapping;
use crate::packet::{Losses, Next, Packet};

/// A correct program moves the position between our load and our swap now and then; one that does so this often does it on purpose.
const POSITION_ATTEMPTS: u32 = 1000;

/// The reader of one ring. There is one at a time. After it dies, [`crate::ChannelMemory::reader`] makes the next one.
pub struct Reader {
    memory: Arc<Mapping>,
    ring_index: u32,
    /// The next sub-buffer to take.
    sequence: u64,
    /// What it left of the ring to the program.
    consumed: Consumed,
    /// The caller has the packet at `sequence`, and `release` is due.
    taken: bool,
    /// The `discarded` of the last packet.
    discarded: u64,
}

impl Reader {
    pub(crate) fn new(memory: Arc<Mapping>, ring_index: u32, next_sequence: u64) -> Self {
        assert!(
            next_sequence <= ConsumedWord::SEQUENCE_MAX,
            "no ring has {next_sequence} packets"
        );
        let consumed = Consumed::take_over(memory.ring(ring_index), memory.geometry().loss(), next_sequence);
        Self {
            memory,
            ring_index,
            sequence: next_sequence,
            consumed,
            taken: false,
            discarded: 0,
        }
    }

    /// The ring that this reads.
    pub fn ring_index(&self) -> u32 {
        self.ring_index
    }

    /// The next sub-buffer to take.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Copies the next complete packet into `buffer`, which then has exactly its bytes. Until [`Reader::release`] the program
    /// does not reuse the space, and the same packet comes again.
    pub fn next(&mut self, buffer: &mut Vec<u8>) -> Next {
        self.try_next(buffer).unwrap_or_else(Next::Corrupt)
    }

    /// Goes on behind what [`Reader::next`] or [`Reader::salvage`] returned. The space of a packet goes back to the program, whose
    /// threads that wait for space are woken; that of a salvage, and all behind it, does not.
    /// # Panics
    /// When nothing was taken: the caller would lose a packet.
    pub fn release(&mut self) {
        assert!(
            self.taken,
            "sub-buffer {} is released before it was taken",
            self.sequence
        );
        (self.sequence, self.taken) = (self.sequence + 1, false);
        self.consumed.move_to(self.memory.ring(self.ring_index), self.sequence);
    }

    /// Ends the sub-buffer that is being written, so that [`Reader::next`] returns what it has: the flush. Does nothing when
    /// nothing was written since the last one ended.
    pub fn end_current(&mut self) {
        // A position that makes no sense is `next`'s to report.
        let _ = self.try_end_current();
    }

    /// The first sub-buffer that nobody has entered. Every record in it and behind it will have a later time than any that was read from the
    /// clock before: whoever reserves it reads the clock when the sub-buffer was entered (R1). So what was recorded until now is in front of this
    /// line, also of a thread that has read the clock and not yet moved the position.
    pub fn line(&self) -> u64 {
        // A position that makes no sense is `next`'s to report.
        let position = self.position(self.ring());
        position.map_or(self.sequence, |open| open.sequence + u64::from(open.offset_units > 0))
    }

    /// Ends the sub-buffer that is being written if it is one in front of `line`.
    pub fn end_before(&mut self, line: u64) {
        let is_before = |open: Position| open.offset_units > 0 && open.sequence < line;
        if self.position(self.ring()).is_ok_and(is_before) {
            self.end_current();
        }
    }

    /// What the ring lost so far.
    pub fn losses(&self) -> Losses {
        let header = self.ring().header;
        // Relaxed: each counter stands for itself.
        Losses {
            discarded_full: header.discarded_full.load(Relaxed),
            discarded_too_large: header.discarded_too_large.load(Relaxed),
            overwritten_records: header.overwritten_records.load(Relaxed),
            overwritten_packets: header.overwritten_packets.load(Relaxed),
        }
    }

    /// Bytes between what was taken and the write position, at most those of the ring. An estimate, for choosing when to look again.
    pub fn fill(&self) -> u64 {
        let ring = self.ring();
        // Relaxed: nothing is read because of it.
        let units = PositionWord(ring.header.position.load(Relaxed)).units();
        let taken_units = self.sequence.saturating_mul(ring.subbuf_units());
        units.saturating_sub(taken_units).min(ring.data.len() as u64) * UNIT_BYTES as u64
    }

    fn try_next(&mut self, buffer: &mut Vec<u8>) -> Result<Next, Corruption> {
        let memory = self.memory.clone();
        let ring = memory.ring(self.ring_index);
        if let Err(found) = self.consumed.check(ring) {
            return self.overtaken(ring, found);
        }
        if self.position(ring)?.sequence == self.sequence {
            return Ok(Next::Empty);
        }
        if let Err(found) = self.consumed.claim(ring) {
            return self.overtaken(ring, found);
        }
        let place = ring.place(self.sequence);
        let Some(records) = place.complete_records() else {
            self.consumed.unclaim(ring)?;
            return Ok(Next::Incomplete {
                sequence: self.sequence,
            });
        };
        let packet = copy_packet(place, records, buffer)?;
        self.taken = true;
        // Whoever ends a sub-buffer adds the counters up a moment later: two sums can come out in the wrong order.
        let discarded = packet.discarded.max(self.discarded_behind(ring)?);
        self.discarded = self.discarded.max(discarded);
        Ok(Next::Packet(Packet {
            discarded: self.discarded,
            ..packet
        }))
    }

    /// Records discarded so far, if the packet being read is the last one and nobody has entered the sub-buffer after it: then all of them
    /// were discarded before that sub-buffer. Otherwise 0.
    fn discarded_behind(&self, ring: Ring<'_>) -> Result<u64, Corruption> {
        let discarded = ring.discarded();
        let position = self.position(ring)?;
        let is_last = position.offset_units == 0 && position.sequence == self.sequence + 1;
        Ok(if is_last { discarded } else { 0 })
    }

    /// `found` is not what this reader left in `consumed`: either an overwriting program moved on, or a hostile one meddled.
    fn overtaken(&mut self, ring: Ring<'_>, found: ConsumedWord) -> Result<Next, Corruption> {
        // Loaded after `found` was: a correct program never moves `consumed` past the position.
        let position = self.position(ring)?;
        self.consumed.accept(found, self.sequence..=position.sequence)?;
        let packets = found.sequence() - self.sequence;
        self.sequence = found.sequence();
        Ok(Next::Lost { packets })
    }

    /// Ends the open sub-buffer as the program ends one that it does not fit into.
    pub(crate) fn try_end_current(&mut self) -> Result<(), Corruption> {
        let ring = self.ring();
        for _ in 0..POSITION_ATTEMPTS {
            // ORDER ring.position (acquire): the sub-buffer was entered before we mark in it. Pairs with runtime/ring.c.
            let word = PositionWord(ring.header.position.load(Acquire));
            let open = self.check_position(ring, ring.split(word))?;
            let padding_units = ring.subbuf_units() - open.offset_units;
            if open.offset_units == 0 || word.units() > PositionWord::UNITS_MAX - padding_units {
                return Ok(());
            }
            let ended = PositionWord::new(word.units() + padding_units, word.cpu());
            // ORDER ring.position (acq_rel): who reserves next sees all that came before. Pairs with include/piste/ring.h.
            if ring
                .header
                .position
                .compare_exchange(word.0, ended.0, AcqRel, Relaxed)
                .is_ok()
            {
                ring.place(open.sequence).end(open.offset_units, ring.discarded());
                return Ok(());
            }
        }
        Ok(())
    }

    pub(crate) fn memory(&self) -> Arc<Mapping> {
        self.memory.clone()
    }

    pub(crate) fn ring(&self) -> Ring<'_> {
        self.memory.ring(self.ring_index)
    }

    /// The write position, checked against what was taken.
    pub(crate) fn position(&self, ring: Ring<'_>) -> Result<Position, Corruption> {
        // ORDER ring.position (acquire): what came before the position's move is visible. Pairs with include/piste/ring.h.
        self.check_position(ring, ring.split(PositionWord(ring.header.position.load(Acquire))))
    }

    fn check_position(&self, ring: Ring<'_>, position: Position) -> Result<Position, Corruption> {
        if position.sequence < self.sequence {
            return Err(Corruption::PositionBehind {
                position: position.sequence,
                next: self.sequence,
            });
        }
        // A sub-buffer is entered when the one that had its place is consumed; a full ring ends at the boundary behind the last.
        let oldest = self.consumed.sequence();
        let ahead = position.sequence - oldest + u64::from(position.offset_units > 0);
        if self.memory.geometry().loss() != LossMode::Overwrite && ahead > ring.subbuf_count() {
            let subbuf_count = ring.subbuf_count() as u32;
            return Err(Corruption::PositionAhead {
                position: position.sequence,
                oldest,
                subbuf_count,
            });
        }
        Ok(position)
    }

    /// The oldest sub-buffer that the program cannot reuse, whatever it says.
    pub(crate) fn oldest_kept(&self) -> u64 {
        self.consumed.sequence()
    }

    /// Keeps the sub-buffer at `sequence` from the program for good; the caller copies it. False when the program overwrote it.
    pub(crate) fn give_up(&mut self) -> bool {
        let is_ours = self.consumed.hold(self.memory.ring(self.ring_index));
        self.taken |= is_ours;
        is_ours
    }
}

/// Copies the complete sub-buffer at `place` to `buffer`.
pub(crate) fn copy_packet(place: SubbufView<'_>, records: u32, buffer: &mut Vec<u8>) -> Result<Packet, Corruption> {
    let (content_units, discarded) = content(place)?;
    buffer.clear();
    place.copy_data(0..content_units, buffer);
    Ok(Packet {
        sequence: place.sequence,
        begin_ticks: begin_ticks(buffer),
        content_bytes: (content_units * UNIT_BYTES) as u32,
        records,
        discarded,
    })
}

/// Units of content in the ended sub-buffer at `place`, and the number of records that were discarded when it ended. In a sub-buffer that is
/// full to its last byte, the number can be smaller: it may be left over from the previous lap.
pub(crate) fn content(place: SubbufView<'_>) -> Result<(usize, u64), Corruption> {
    let subbuf_units = place.data.len();
    // ORDER ring.ended (acquire): `discarded` is visible. Pairs with runtime/ring.c. Stored before the padding's marks, so that who saw
    // all marks sees it. If records fill the sub-buffer to its end, nobody stores `ended`; `discarded` was stored before the position that
    // we have seen.
    let ended = EndedWord(place.subbuf.ended.load(Acquire));
    let Some(content_units) = ended.content_units(place.sequence) else {
        return Ok((subbuf_units, place.subbuf.discarded.load(Relaxed)));
    };
    if !(HEADER_UNITS..=subbuf_units).contains(&(content_units as usize)) {
        return Err(Corruption::Content {
            sequence: place.sequence,
            content_units,
            header_units: HEADER_UNITS as u32,
            subbuf_units: subbuf_units as u32,
        });
    }
    Ok((content_units as usize, place.subbuf.discarded.load(Relaxed)))
}
