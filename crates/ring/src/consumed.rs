// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reader's side of the word `consumed`: how far the program may reuse the ring.
//!
//! `consumed` moves only over complete sub-buffers (R2). In a ring that overwrites, the program moves it as well, and a claim on it keeps
//! the program off while the reader copies (R4). After a salvage it is held where it is: the ring fills up behind it, and the late
//! commit of a slow thread cannot meet a later lap.

use std::ops::RangeInclusive;

use piste_abi::ConsumedWord;

use crate::atomic::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use crate::corruption::Corruption;
use crate::geometry::LossMode;
use crate::layout::Ring;

/// A correct program moves the word once in a sub-buffer; one that does so between our load and our swap, this often, does it on
/// purpose.
const SWAP_ATTEMPTS: u32 = 10;

/// What the reader left in the shared word.
pub(crate) struct Consumed {
    word: ConsumedWord,
    /// It stays: the sub-buffer there was given up.
    is_held: bool,
    loss: LossMode,
}

impl Consumed {
    /// Goes on where a reader that died left the ring: what lies before `next_sequence` was stored, and its claim is void. Where it
    /// gave a sub-buffer up, the word stays.
    pub(crate) fn take_over(ring: Ring<'_>, loss: LossMode, next_sequence: u64) -> Self {
        let mut consumed = Self {
            word: ConsumedWord::new(next_sequence),
            is_held: false,
            loss,
        };
        for _ in 0..SWAP_ATTEMPTS {
            let found = ConsumedWord(ring.header.consumed.load(Acquire));
            // A correct word is behind by no more than the ring is long.
            let reachable = next_sequence.min(found.sequence().saturating_add(ring.subbuf_count()));
            let mut behind = found.sequence()..reachable;
            let given_up = behind.find(|&sequence| ring.place(sequence).complete_records().is_none());
            let reached = given_up.unwrap_or(found.sequence().max(reachable));
            let is_held = reached < next_sequence;
            let unclaimed = ConsumedWord::new(reached);
            let word = if is_held && loss == LossMode::Overwrite {
                unclaimed.claim()
            } else {
                unclaimed
            };
            // ORDER ring.consumed (release): as in `move_to`.
            if ring
                .header
                .consumed
                .compare_exchange(found.0, word.0, AcqRel, Relaxed)
                .is_ok()
            {
                if is_held {
                    (consumed.word, consumed.is_held) = (word, true);
                }
                break;
            }
        }
        // Whatever else is found there is beyond `next_sequence`: overwritten, or nonsense. `check` finds it.
        consumed.wake(ring);
        consumed
    }

    /// The oldest sub-buffer that the program cannot reuse.
    pub(crate) fn sequence(&self) -> u64 {
        self.word.sequence()
    }

    /// `Err` is what is there instead of what we left.
    pub(crate) fn check(&self, ring: Ring<'_>) -> Result<(), ConsumedWord> {
        // ORDER ring.consumed (acquire): the position, loaded later, is at least as new. Pairs with runtime/ring.c.
        let found = ConsumedWord(ring.header.consumed.load(Acquire));
        if found == self.word { Ok(()) } else { Err(found) }
    }

    /// Takes note that an overwriting program moved the word to `found`, from the first of `possible` to at most the last.
    /// # Errors
    /// [`Corruption::Consumed`] when no correct program does that.
    pub(crate) fn accept(&mut self, found: ConsumedWord, possible: RangeInclusive<u64>) -> Result<(), Corruption> {
        let may_overwrite = self.loss == LossMode::Overwrite && !self.word.claimed();
        let is_further = found.sequence() > *possible.start() && possible.contains(&found.sequence());
        if !may_overwrite || found.claimed() || !is_further {
            return Err(Corruption::Consumed {
                expected: self.word.0,
                found: found.0,
            });
        }
        self.word = found;
        Ok(())
    }

    /// Keeps an overwriting program from the sub-buffer. `Err` is what the program made of the word before.
    pub(crate) fn claim(&mut self, ring: Ring<'_>) -> Result<(), ConsumedWord> {
        if self.loss != LossMode::Overwrite || self.word.claimed() {
            return Ok(());
        }
        let claimed = self.word.claim();
        // ORDER ring.consumed (acq_rel): from here on the program does not overwrite the sub-buffer. Pairs with runtime/ring.c.
        ring.header
            .consumed
            .compare_exchange(self.word.0, claimed.0, AcqRel, Acquire)
            .map_err(ConsumedWord)?;
        self.word = claimed;
        Ok(())
    }

    /// Gives the claim back, with nothing taken. A held word keeps it.
    /// # Errors
    /// [`Corruption::Consumed`] when the program moved the word in spite of the claim.
    pub(crate) fn unclaim(&mut self, ring: Ring<'_>) -> Result<(), Corruption> {
        if !self.word.claimed() || self.is_held {
            return Ok(());
        }
        let unclaimed = ConsumedWord::new(self.word.sequence());
        // ORDER ring.consumed (release): as in `move_to`.
        match ring
            .header
            .consumed
            .compare_exchange(self.word.0, unclaimed.0, Release, Relaxed)
        {
            Ok(_) => self.word = unclaimed,
            Err(found) => {
                return Err(Corruption::Consumed {
                    expected: self.word.0,
                    found,
                });
            }
        }
        Ok(())
    }

    /// Keeps the sub-buffer, and all behind it, from the program for good. False when the program overwrote it.
    pub(crate) fn hold(&mut self, ring: Ring<'_>) -> bool {
        self.is_held |= self.claim(ring).is_ok();
        self.is_held
    }

    /// Gives what is before `sequence` back to the program, and wakes its threads that wait for space. A held word stays.
    pub(crate) fn move_to(&mut self, ring: Ring<'_>, sequence: u64) {
        if self.is_held {
            return;
        }
        let moved = ConsumedWord::new(sequence);
        // ORDER ring.consumed (release): our copy is done before the program enters the sub-buffer. Pairs with runtime/ring.c.
        // When a program meddled with the word, the swap fails, and the next `check` finds it.
        let _ = ring
            .header
            .consumed
            .compare_exchange(self.word.0, moved.0, Release, Relaxed);
        self.word = moved;
        self.wake(ring);
    }

    fn wake(&self, ring: Ring<'_>) {
        if self.loss != LossMode::Block {
            return;
        }
        // ORDER ring.space (sequentially consistent): a waiter adds to `waiters`, and then FUTEX_WAIT looks at `space_futex`; we add to
        // `space_futex` and then look at `waiters`. One of the two sees the other. Pairs with runtime/ring.c.
        ring.header.space_futex.fetch_add(1, SeqCst);
        if ring.header.waiters.load(SeqCst) > 0 {
            crate::mapping::futex_wake_all(&ring.header.space_futex);
        }
    }
}
