// SPDX-License-Identifier: MIT OR Apache-2.0
//! The 64-bit words in which a ring packs several numbers that change together, taken apart and put together.
//!
//! The layout of each is in `include/piste/abi/ring.h`; the arithmetic here never fails, whatever the bits say. What a word
//! means in a ring is decided in `crates/ring`.

use crate::generated as abi;

/// `piste_subbuf.ended`: which sub-buffer ended, and how much of it is content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EndedWord(pub u64);

impl EndedWord {
    /// `units` units of content, the packet header included, in sub-buffer `sequence`. Of the sequence the low 40 bits count.
    pub const fn new(sequence: u64, units: u32) -> Self {
        debug_assert!(units <= abi::PISTE_ENDED_UNITS_MASK);
        Self(sequence.wrapping_add(1) << abi::PISTE_ENDED_SEQUENCE_SHIFT | units as u64)
    }

    /// Units of content when the word is of `sequence`; a sub-buffer without such a word was filled to its end, or is not ended.
    pub const fn content_units(self, sequence: u64) -> Option<u32> {
        let units = self.0 as u32 & abi::PISTE_ENDED_UNITS_MASK;
        if self.0 == Self::new(sequence, units).0 {
            Some(units)
        } else {
            None
        }
    }
}

/// `piste_ring_header.position`: how many units were ever reserved, and the CPU that reserved last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PositionWord(pub u64);

impl PositionWord {
    /// The largest position, in units.
    pub const UNITS_MAX: u64 = abi::PISTE_POSITION_UNITS_MASK;

    /// `units` must be at most [`Self::UNITS_MAX`]; of `cpu` the low 12 bits count.
    pub const fn new(units: u64, cpu: u32) -> Self {
        debug_assert!(units <= Self::UNITS_MAX);
        Self(units | ((cpu & abi::PISTE_POSITION_CPU_MASK) as u64) << abi::PISTE_POSITION_CPU_SHIFT)
    }

    /// Units reserved since the ring began.
    pub const fn units(self) -> u64 {
        self.0 & abi::PISTE_POSITION_UNITS_MASK
    }

    /// The low 12 bits of the CPU that moved the position last.
    pub const fn cpu(self) -> u32 {
        (self.0 >> abi::PISTE_POSITION_CPU_SHIFT) as u32
    }
}

/// `piste_ring_header.consumed`: the oldest sub-buffer that is neither delivered nor overwritten, and the claim on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConsumedWord(pub u64);

impl ConsumedWord {
    /// The largest sequence that the word can hold.
    pub const SEQUENCE_MAX: u64 = u64::MAX >> abi::PISTE_CONSUMED_SHIFT;

    /// The word of `sequence`, unclaimed.
    pub const fn new(sequence: u64) -> Self {
        debug_assert!(sequence <= Self::SEQUENCE_MAX);
        Self(sequence << abi::PISTE_CONSUMED_SHIFT)
    }

    /// The same sequence with the reader's claim on it.
    pub const fn claim(self) -> Self {
        Self(self.0 | abi::PISTE_CONSUMED_CLAIMED as u64)
    }

    /// The oldest sub-buffer that is neither delivered nor overwritten.
    pub const fn sequence(self) -> u64 {
        self.0 >> abi::PISTE_CONSUMED_SHIFT
    }

    /// Whether the reader is copying that sub-buffer, so that the program must not overwrite it.
    pub const fn claimed(self) -> bool {
        self.0 & abi::PISTE_CONSUMED_CLAIMED as u64 != 0
    }
}

/// The mark of a committed unit of `lap` in which no record starts. A record's first unit has [`HEAD`] as well.
pub const fn tag_of_lap(lap: u64) -> u8 {
    (abi::PISTE_MARK_TAG_ALWAYS | (lap as u32 & abi::PISTE_MARK_LAP_MASK)) as u8
}

/// The bit in the mark of a record's first unit.
pub const HEAD: u8 = abi::PISTE_MARK_HEAD as u8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ended_word_keeps_sequence_and_units_apart() {
        let word = EndedWord::new(6, abi::PISTE_ENDED_UNITS_MASK);
        assert_eq!(word.content_units(6), Some(abi::PISTE_ENDED_UNITS_MASK));
        assert_eq!((word.content_units(5), word.content_units(7)), (None, None));
        assert_eq!(EndedWord::new(2, 11).0, 3 << 24 | 11);
    }

    #[test]
    fn a_zeroed_ended_word_is_of_no_early_sequence() {
        assert_eq!(EndedWord(0).content_units(0), None);
        assert_eq!(
            EndedWord(0).content_units((1 << 40) - 1),
            Some(0),
            "sequences repeat after 2^40"
        );
    }

    #[test]
    fn position_word_keeps_units_and_cpu_apart() {
        let word = PositionWord::new(PositionWord::UNITS_MAX, 0x1fff);
        assert_eq!((word.units(), word.cpu()), (PositionWord::UNITS_MAX, 0xfff));
        assert_eq!(PositionWord(u64::MAX).units(), PositionWord::UNITS_MAX);
        assert_eq!(PositionWord::new(1, 0).0, 1);
    }

    #[test]
    fn consumed_word_keeps_sequence_and_claim_apart() {
        let word = ConsumedWord::new(7);
        assert_eq!((word.sequence(), word.claimed()), (7, false));
        assert_eq!((word.claim().sequence(), word.claim().claimed()), (7, true));
        assert_eq!(ConsumedWord(u64::MAX).sequence(), ConsumedWord::SEQUENCE_MAX);
    }

    #[test]
    fn tags_are_never_zero_have_no_head_and_differ_between_neighbouring_laps() {
        for lap in 0..1000 {
            assert_ne!(tag_of_lap(lap), 0);
            assert_eq!(tag_of_lap(lap) & HEAD, 0);
            assert_ne!(tag_of_lap(lap), tag_of_lap(lap + 1));
        }
        assert_eq!((tag_of_lap(0), tag_of_lap(63), tag_of_lap(64)), (0x40, 0x7f, 0x40));
    }
}
