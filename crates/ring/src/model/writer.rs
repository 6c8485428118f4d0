// SPDX-License-Identifier: MIT OR Apache-2.0
//! The writing side of a ring as `include/piste/ring.h` and `runtime/ring.c` do it, step by step and with the same orderings.
//!
//! A record here is any units. Reserve, write and commit are apart, so that a test can leave a record between them, as a thread does
//! that dies. The window is apart, too: no reader of the ring looks at it.

use std::sync::Arc;

use piste_abi::{ConsumedWord, HEAD, PositionWord};

use crate::atomic::{AcqRel, Acquire, Relaxed};
use crate::geometry::LossMode;
use crate::layout::{BEGIN_OFFSET_BYTES, HEADER_UNITS, Ring, UNIT_BYTES};
use crate::mapping::Mapping;
use crate::window;

/// A thread of a program that writes to one ring. Any number of them may write at once.
pub struct Writer {
    memory: Arc<Mapping>,
    ring_index: u32,
    cpu: u32,
}

/// Space for a record, between reserve and commit.
#[must_use = "a record that is not committed is a hole in its sub-buffer"]
#[derive(Debug)]
pub struct Reservation {
    unit: u64,
    units: u64,
    /// Read between the load of the position and its swap (R1).
    pub time: u64,
}

impl Reservation {
    /// The position of the record, in units since the ring began.
    pub fn unit(&self) -> u64 {
        self.unit
    }
}

/// What became of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It is in its sub-buffer.
    Committed,
    /// It is counted in one of the discarded counters.
    Discarded,
}

impl Writer {
    pub(crate) fn new(memory: Arc<Mapping>, ring_index: u32, cpu: u32) -> Self {
        Self {
            memory,
            ring_index,
            cpu,
        }
    }

    /// Writes one record: `words` says what it is, given its reservation.
    pub fn record<const UNITS: usize>(
        &self,
        clock: &dyn Fn() -> u64,
        words: impl FnOnce(&Reservation) -> [u64; UNITS],
    ) -> Outcome {
        let Some(reservation) = self.reserve(UNITS as u64, clock) else {
            return Outcome::Discarded;
        };
        self.write(&reservation, &words(&reservation));
        self.commit(reservation);
        Outcome::Committed
    }

    /// Reserves `units` units. `None` when the record is lost, and counted.
    pub fn reserve(&self, units: u64, clock: &dyn Fn() -> u64) -> Option<Reservation> {
        let ring = self.ring();
        loop {
            // ORDER ring.position (acquire): as in include/piste/ring.h.
            let word = PositionWord(ring.header.position.load(Acquire));
            let time = clock();
            let offset = word.units() % ring.subbuf_units();
            if offset == 0 || offset + units > ring.subbuf_units() {
                if !self.make_room(units, clock) {
                    return None;
                }
                continue;
            }
            let moved = PositionWord::new(word.units() + units, self.cpu);
            if ring
                .header
                .position
                .compare_exchange(word.0, moved.0, AcqRel, Relaxed)
                .is_ok()
            {
                return Some(Reservation {
                    unit: word.units(),
                    units,
                    time,
                });
            }
        }
    }

    /// Stores the record's `words`; plain stores in the program.
    pub fn write(&self, reservation: &Reservation, words: &[u64]) {
        let ring = self.ring();
        let start = (reservation.unit % ring.data.len() as u64) as usize;
        assert_eq!(words.len() as u64, reservation.units);
        for (shared, word) in ring.data[start..].iter().zip(words) {
            shared.store(*word, Relaxed);
        }
    }

    /// Makes the record count.
    pub fn commit(&self, reservation: Reservation) {
        let ring = self.ring();
        let place = ring.place(reservation.unit / ring.subbuf_units());
        let start = (reservation.unit % ring.subbuf_units()) as usize;
        place.mark(start..start + reservation.units as usize, place.tag | HEAD);
    }

    /// Opens the window after a commit, as the general path of events does.
    pub fn open_window(&self, window: u64) {
        window::open(self.memory.active_key(), self.ring(), window);
    }

    /// Whether the fast path of events would write, in that window.
    pub fn finds_window(&self, window: u64) -> bool {
        self.ring().header.window.load(Relaxed) == window
    }

    /// All of a commit but the last store, as of a thread that dies before it.
    pub fn commit_all_but_the_head(&self, reservation: &Reservation) {
        let ring = self.ring();
        let place = ring.place(reservation.unit / ring.subbuf_units());
        let start = (reservation.unit % ring.subbuf_units()) as usize;
        if reservation.units > 1 {
            place.mark(start + 1..start + reservation.units as usize, place.tag);
        }
    }

    /// Makes room for a record of `units`: `piste_ring_make_room`. True when the caller should try again.
    fn make_room(&self, units: u64, clock: &dyn Fn() -> u64) -> bool {
        let ring = self.ring();
        if units > ring.subbuf_units() - HEADER_UNITS as u64 {
            ring.header.discarded_too_large.fetch_add(1, Relaxed);
            return false;
        }
        loop {
            // ORDER ring.position (acquire): as in `reserve`.
            let word = PositionWord(ring.header.position.load(Acquire));
            let current = ring.split(word);
            if current.offset_units != 0 && current.offset_units + units <= ring.subbuf_units() {
                return true;
            }
            let sequence = current.sequence + u64::from(current.offset_units != 0);
            if !self.may_enter(ring, sequence) {
                // Another one may have entered, and even filled, the sub-buffer meanwhile.
                if ring.header.position.load(Acquire) != word.0 || self.wait_for_space(ring, sequence) {
                    continue;
                }
                ring.header.discarded_full.fetch_add(1, Relaxed);
                return false;
            }
            if sequence == 0 {
                self.memory.touch(self.ring_index);
            }
            if current.offset_units == 0 && sequence > 0 {
                ring.place(sequence - 1).settle(ring.discarded());
            }
            let time = clock();
            let start = sequence * ring.subbuf_units();
            let entered = PositionWord::new(start + HEADER_UNITS as u64, self.cpu);
            // ORDER ring.position (acq_rel): who writes to the sub-buffer has seen that it may.
            if ring
                .header
                .position
                .compare_exchange(word.0, entered.0, AcqRel, Relaxed)
                .is_err()
            {
                continue;
            }
            if current.offset_units != 0 {
                ring.place(current.sequence).end(current.offset_units, ring.discarded());
            }
            let place = ring.place(sequence);
            place.data[BEGIN_OFFSET_BYTES / UNIT_BYTES].store(time, Relaxed);
            place.mark(0..HEADER_UNITS, place.tag);
            return true;
        }
    }

    /// R2, R4: whether `sequence` may be entered. Moves `consumed` past what it overwrites.
    fn may_enter(&self, ring: Ring<'_>, sequence: u64) -> bool {
        let Some(before) = sequence.checked_sub(ring.subbuf_count()) else {
            return true;
        };
        // ORDER ring.consumed (acquire): the reader's copy is done before the sub-buffer is written again.
        let consumed = ConsumedWord(ring.header.consumed.load(Acquire));
        if self.memory.geometry().loss() != LossMode::Overwrite {
            return consumed.sequence() > before;
        }
        let Some(records) = ring.place(before).complete_records() else {
            return false;
        };
        if consumed.sequence() > before {
            return true;
        }
        if consumed.claimed() {
            return false;
        }
        let moved = ConsumedWord::new(before + 1);
        // ORDER ring.consumed (acq_rel): whoever moves `consumed` decides what became of the records (R4).
        match ring
            .header
            .consumed
            .compare_exchange(consumed.0, moved.0, AcqRel, Acquire)
        {
            Ok(_) => {
                ring.header.overwritten_records.fetch_add(records.into(), Relaxed);
                ring.header
                    .overwritten_packets
                    .fetch_add(moved.sequence() - consumed.sequence(), Relaxed);
                true
            }
            Err(found) => ConsumedWord(found).sequence() > before,
        }
    }

    /// Waits until the reader moved on, in a blocking channel. False when the time is over.
    fn wait_for_space(&self, ring: Ring<'_>, sequence: u64) -> bool {
        let geometry = self.memory.geometry();
        if geometry.loss() != LossMode::Block || geometry.shape().block_timeout_us == 0 {
            return false;
        }
        let header = ring.header;
        // ORDER ring.space: announced before FUTEX_WAIT looks at `space_futex`, whose value is older than the look at `consumed`.
        header.waiters.fetch_add(1, Relaxed);
        let seen = header.space_futex.load(Acquire);
        let in_time = self.may_enter(ring, sequence)
            || crate::mapping::futex_wait(&header.space_futex, seen, geometry.shape().block_timeout_us);
        header.waiters.fetch_sub(1, Relaxed);
        in_time
    }

    fn ring(&self) -> Ring<'_> {
        self.memory.ring(self.ring_index)
    }
}
