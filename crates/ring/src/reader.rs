// SPDX-License-Identifier: MIT OR Apache-2.0
//! Takes the packets of one ring, in order, each once.
//!
//! ```text
//! program (include/piste/ring.h, runtime/ring.c)       reader (here)
//!
//! position: load acquire, swap acq_rel  <--ring.position-->  end_current: load acquire, swap acq_rel
//!   write the record, its mark                               next: position load acquire: which sub-buffers are ended
//! commit: add release  ------------------ring.commit------>  next: commit load acquire, then copy
//! end a sub-buffer: content_bytes,                           next: content_bytes, discarded (ordered by the commit word)
//!   discarded, then commit the padding
//! enter: consumed load acquire           <--ring.consumed--  release: consumed swap release, after the copy
//! overwrite: consumed swap acq_rel      <--ring.consumed-->  next: claim by swap acq_rel, before the copy
//! wait: waiters add, consumed load       <---ring.space----  release: consumed swap, space_futex add, waiters load
//! ```
//!
//! The invariants are R1 to R6 of `include/piste/abi/ring.h`. What holds here because of them:
//! - The reader alone knows `sequence`; the shared `consumed` must agree with it, but for what an overwriting program moved (R4).
//! - An ended sub-buffer that is not yet consumed, or is claimed, is entered by nobody (R2, R4), so its copy is of one lap.
//! - A word is read once into a local, checked, and then used (R6). No loop here runs longer than a constant.
//!
//! | may run together with | program writes | program enters, overwrites | second reader of the ring |
//! |-----------------------|----------------|----------------------------|---------------------------|
//! | `next`, `release`     | yes            | yes                        | no                        |
//! | `end_current`         | yes            | yes: one swap wins         | no                        |
//! | `salvage` (Alive)     | yes: late commits see the bit | not into this sub-buffer any more | no  |
//! | `salvage` (Dead)      | no             | no                         | no                        |
//! | `snapshot`            | yes            | yes: seen after the copy   | yes                       |
//! | `losses`, `fill`      | yes            | yes                        | yes                       |
//!
//! Giving up on a record that never comes is `salvage.rs`, looking without taking is `snapshot.rs`.

use std::sync::Arc;

use piste_abi::{CommitWord, ConsumedWord, PositionWord};

use crate::atomic::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use crate::corruption::Corruption;
use crate::geometry::LossMode;
use crate::layout::{HEADER_UNITS, Position, Ring, UNIT_BYTES, begin_ticks};
use crate::mapping::Mapping;

/// A correct program moves a word between our load and our swap now and then; one that does so this often does it on purpose.
const SWAP_ATTEMPTS: u32 = 1000;

/// What [`Reader::next`] found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// No sub-buffer has ended since the last one.
    Empty,
    /// A packet, copied to the caller's buffer. [`Reader::release`] follows once it is stored.
    Packet(Packet),
    /// The next sub-buffer has ended, but some record in it is not committed. It may be in a moment; when the caller has
    /// waited long enough or the program is dead, [`Reader::salvage`] takes the rest.
    Incomplete {
        /// The sub-buffer.
        sequence: u64,
    },
    /// The program overwrote sub-buffers before they were taken. The reader has moved on; call [`Reader::next`] again.
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
    /// Bytes of the packet: the header and the records, each padded to 8 bytes. At least 88, a multiple of 8.
    pub content_bytes: u32,
    /// Records that the program says it committed.
    pub records: u32,
    /// Records that the ring had discarded when the packet ended. Never less than in the packet before.
    pub discarded: u64,
}

/// Everything that a ring lost since it began. Counted by the program; each counter is exact once the program rests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Losses {
    /// Records that found no space.
    pub discarded_full: u64,
    /// Records larger than a sub-buffer holds.
    pub discarded_too_large: u64,
    /// Records committed after [`Reader::salvage`] gave them up.
    pub discarded_late: u64,
    /// Records that were overwritten before they were taken.
    pub overwritten_records: u64,
    /// Packets that were overwritten before they were taken.
    pub overwritten_packets: u64,
}

impl Losses {
    /// Records that never reached a packet: the three discarded counters, as `events_discarded` of a packet counts them.
    pub fn discarded(&self) -> u64 {
        self.discarded_full
            .wrapping_add(self.discarded_too_large)
            .wrapping_add(self.discarded_late)
    }
}

/// The reader of one ring. There is one at a time. After it dies, [`crate::ChannelMemory::reader`] makes the next one.
pub struct Reader {
    memory: Arc<Mapping>,
    ring_index: u32,
    /// The next sub-buffer to take.
    sequence: u64,
    /// `next` or `salvage` gave this sub-buffer away, and `release` is due.
    taken: bool,
    /// `consumed` carries our claim.
    claimed: bool,
    /// The `discarded` of the last packet.
    discarded: u64,
}

impl Reader {
    pub(crate) fn new(memory: Arc<Mapping>, ring_index: u32, next_sequence: u64) -> Self {
        assert!(
            next_sequence <= ConsumedWord::SEQUENCE_MAX,
            "no ring has {next_sequence} packets"
        );
        let reader = Self {
            memory,
            ring_index,
            sequence: next_sequence,
            taken: false,
            claimed: false,
            discarded: 0,
        };
        reader.take_over();
        reader
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

    /// Gives the space of the packet that [`Reader::next`] or [`Reader::salvage`] returned back to the program, and wakes its
    /// threads that wait for space.
    /// # Panics
    /// When nothing was taken: the caller would lose a packet.
    pub fn release(&mut self) {
        assert!(
            self.taken,
            "sub-buffer {} is released before it was taken",
            self.sequence
        );
        let ring = self.memory.ring(self.ring_index);
        let next = ConsumedWord::new(self.sequence + 1);
        // ORDER ring.consumed (release): our copy is done before the program enters the sub-buffer. Pairs with runtime/ring.c.
        // Sequentially consistent for ring.space below. When a program meddled with the word, the swap fails and the next call
        // of `next` says so.
        let _ = ring
            .header
            .consumed
            .compare_exchange(self.consumed().0, next.0, SeqCst, Relaxed);
        (self.sequence, self.taken, self.claimed) = (self.sequence + 1, false, false);
        self.wake(ring);
    }

    /// Ends the sub-buffer that is being written, so that [`Reader::next`] returns what it has: the flush. Does nothing when
    /// nothing was written since the last one ended.
    pub fn end_current(&mut self) {
        let _ = self.try_end_current();
    }

    /// What the ring lost so far.
    pub fn losses(&self) -> Losses {
        let header = self.ring().header;
        // Relaxed: each counter stands for itself.
        Losses {
            discarded_full: header.discarded_full.load(Relaxed),
            discarded_too_large: header.discarded_too_large.load(Relaxed),
            discarded_late: header.discarded_late.load(Relaxed),
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
        let found = ConsumedWord(ring.header.consumed.load(Acquire));
        if found != self.consumed() {
            return self.overtaken(ring, found);
        }
        if self.position(ring)?.sequence == self.sequence {
            return Ok(Next::Empty);
        }
        if memory.geometry().loss() == LossMode::Overwrite && !self.claimed {
            let unclaimed = self.consumed();
            // ORDER ring.consumed (acq_rel): from here on the program does not overwrite the sub-buffer, and what it did before
            // to the words of the ring is visible. Pairs with runtime/ring.c.
            if let Err(found) = ring
                .header
                .consumed
                .compare_exchange(unclaimed.0, unclaimed.claim().0, AcqRel, Acquire)
            {
                return self.overtaken(ring, ConsumedWord(found));
            }
            self.claimed = true;
        }
        let place = ring.place(self.sequence);
        // ORDER ring.commit (acquire): the bytes that the count covers are visible. Pairs with include/piste/ring.h.
        let commit = CommitWord(place.subbuf.commit.load(Acquire));
        check_commit(ring, self.sequence, commit)?;
        if !commit.is_complete(place.lap, ring.subbuf_bytes()) {
            self.unclaim(ring)?;
            return Ok(Next::Incomplete {
                sequence: self.sequence,
            });
        }
        let packet = copy_packet(ring, self.sequence, commit, buffer)?;
        self.taken = true;
        // Whoever ends a sub-buffer adds the counters up a moment later: two sums can come out in the wrong order.
        self.discarded = self.discarded.max(packet.discarded);
        Ok(Next::Packet(Packet {
            discarded: self.discarded,
            ..packet
        }))
    }

    /// `found` is not what this reader left in `consumed`: either an overwriting program moved on, or a hostile one meddled.
    fn overtaken(&mut self, ring: Ring<'_>, found: ConsumedWord) -> Result<Next, Corruption> {
        let may_overwrite = self.memory.geometry().loss() == LossMode::Overwrite && !self.claimed;
        // Loaded after `found` was: a correct program never moves `consumed` past the position.
        let position = self.position(ring)?;
        let sequence = found.sequence();
        if !may_overwrite || found.claimed() || sequence <= self.sequence || sequence > position.sequence {
            return Err(Corruption::Consumed {
                expected: self.consumed().0,
                found: found.0,
            });
        }
        let packets = sequence - self.sequence;
        self.sequence = sequence;
        Ok(Next::Lost { packets })
    }

    fn unclaim(&mut self, ring: Ring<'_>) -> Result<(), Corruption> {
        if !self.claimed {
            return Ok(());
        }
        let claimed = self.consumed();
        self.claimed = false;
        // ORDER ring.consumed (release): as in `release`, though nothing was copied.
        match ring
            .header
            .consumed
            .compare_exchange(claimed.0, self.consumed().0, Release, Relaxed)
        {
            Ok(_) => Ok(()),
            Err(found) => Err(Corruption::Consumed {
                expected: claimed.0,
                found,
            }),
        }
    }

    /// Ends the open sub-buffer as the program ends one that it does not fit into. Returns what was open.
    pub(crate) fn try_end_current(&mut self) -> Result<Option<Position>, Corruption> {
        let ring = self.ring();
        for _ in 0..SWAP_ATTEMPTS {
            // ORDER ring.position (acquire): the reset of the sub-buffer's commit word by whoever entered it comes before our
            // padding. Pairs with include/piste/ring.h, runtime/ring.c.
            let word = PositionWord(ring.header.position.load(Acquire));
            let open = self.check_position(ring, ring.split(word))?;
            if open.offset_units == 0 {
                return Ok(None);
            }
            let padding_units = ring.subbuf_units() - open.offset_units;
            if word.units() > PositionWord::UNITS_MAX - padding_units {
                return Ok(None);
            }
            let ended = PositionWord::new(word.units() + padding_units, word.cpu());
            // ORDER ring.position (acq_rel): who reserves next sees all that came before. Pairs with include/piste/ring.h.
            if ring
                .header
                .position
                .compare_exchange(word.0, ended.0, AcqRel, Relaxed)
                .is_err()
            {
                continue;
            }
            let subbuf = ring.place(open.sequence).subbuf;
            // Relaxed: the padding's commit below publishes both.
            subbuf
                .content_bytes
                .store(open.offset_units * UNIT_BYTES as u64, Relaxed);
            subbuf.discarded.store(ring.discarded(), Relaxed);
            let padding = CommitWord::increment(0, (padding_units * UNIT_BYTES as u64) as u32);
            // ORDER ring.commit (release): content_bytes and discarded are visible to whoever sees the sub-buffer complete.
            subbuf.commit.fetch_add(padding, Release);
            return Ok(Some(open));
        }
        Ok(None)
    }

    /// Goes on where a reader that died left `consumed`: nothing before `sequence` is needed any more, and its claim is void.
    fn take_over(&self) {
        let ring = self.ring();
        for _ in 0..SWAP_ATTEMPTS {
            let found = ConsumedWord(ring.header.consumed.load(Acquire));
            let wanted = ConsumedWord::new(found.sequence().max(self.sequence));
            // ORDER ring.consumed (release): as in `release`.
            if ring
                .header
                .consumed
                .compare_exchange(found.0, wanted.0, SeqCst, Relaxed)
                .is_ok()
            {
                break;
            }
        }
        self.wake(ring);
    }

    /// Wakes the program's threads that wait for space.
    fn wake(&self, ring: Ring<'_>) {
        if self.memory.geometry().loss() != LossMode::Block {
            return;
        }
        ring.header.space_futex.fetch_add(1, SeqCst);
        // ORDER ring.space (sequentially consistent): a waiter announces itself in `waiters` and then looks at `consumed`; we moved
        // `consumed` and then look at `waiters`. One of the two sees the other. Pairs with runtime/ring.c.
        if ring.header.waiters.load(SeqCst) > 0 {
            crate::mapping::futex_wake_all(&ring.header.space_futex);
        }
    }

    pub(crate) fn ring(&self) -> Ring<'_> {
        self.memory.ring(self.ring_index)
    }

    /// What `consumed` should be.
    fn consumed(&self) -> ConsumedWord {
        let word = ConsumedWord::new(self.sequence);
        if self.claimed { word.claim() } else { word }
    }

    /// The write position, checked against what was taken.
    pub(crate) fn position(&self, ring: Ring<'_>) -> Result<Position, Corruption> {
        // ORDER ring.position (acquire): a sub-buffer before the position was entered, so its commit word is of its lap. Pairs with
        // runtime/ring.c.
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
        let ahead = position.sequence - self.sequence + u64::from(position.offset_units > 0);
        if self.memory.geometry().loss() != LossMode::Overwrite && ahead > ring.subbuf_count() {
            return Err(Corruption::PositionAhead {
                position: position.sequence,
                next: self.sequence,
                subbuf_count: ring.subbuf_count() as u32,
            });
        }
        Ok(position)
    }

    /// The sub-buffer at `sequence` is now in the caller's hands.
    pub(crate) fn hand_over(&mut self) {
        self.taken = true;
    }
}

/// The commit word of an ended or open sub-buffer: of its lap, and within its size.
pub(crate) fn check_commit(ring: Ring<'_>, sequence: u64, commit: CommitWord) -> Result<(), Corruption> {
    let subbuf_bytes = ring.subbuf_bytes();
    if commit.is_of_lap(ring.place(sequence).lap) && commit.bytes() <= subbuf_bytes {
        return Ok(());
    }
    Err(Corruption::Commit {
        sequence,
        found: commit.0,
        subbuf_bytes,
    })
}

/// Copies the complete sub-buffer `sequence` to `buffer`. `commit` is its word, loaded with acquire.
pub(crate) fn copy_packet(
    ring: Ring<'_>,
    sequence: u64,
    commit: CommitWord,
    buffer: &mut Vec<u8>,
) -> Result<Packet, Corruption> {
    let place = ring.place(sequence);
    // Relaxed: ordered by the commit word, as the data are.
    let content_bytes = place.subbuf.content_bytes.load(Relaxed);
    let discarded = place.subbuf.discarded.load(Relaxed);
    let subbuf_bytes = ring.subbuf_bytes();
    let possible = (HEADER_UNITS * UNIT_BYTES) as u64..=u64::from(subbuf_bytes);
    if !possible.contains(&content_bytes) || content_bytes % UNIT_BYTES as u64 != 0 {
        return Err(Corruption::Content {
            sequence,
            content_bytes,
            subbuf_bytes,
        });
    }
    place.copy_data(content_bytes as usize / UNIT_BYTES, buffer);
    Ok(Packet {
        sequence,
        begin_ticks: begin_ticks(buffer),
        content_bytes: content_bytes as u32,
        records: commit.records(),
        discarded,
    })
}
