// SPDX-License-Identifier: MIT OR Apache-2.0
//! The 64-bit words in which a ring packs several numbers that change together, taken apart and put together.
//!
//! The layout of each is in `include/piste/abi/ring.h`; the arithmetic here never fails, whatever the bits say. What a word
//! means in a ring is decided in `crates/ring`.

use crate::generated as abi;

const LAP_TAGS: u64 = 1 << abi::PISTE_COMMIT_LAP_BITS;
const COMMIT_BYTES_MASK: u64 = (1 << abi::PISTE_COMMIT_BYTES_BITS) - 1;
const COMMIT_RECORDS_MASK: u64 = (1 << abi::PISTE_COMMIT_RECORDS_BITS) - 1;

/// `piste_subbuf.commit`: what is committed in the current lap of a sub-buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CommitWord(pub u64);

impl CommitWord {
    /// The word of `lap` with `records` records in `bytes` bytes. Both must be within their fields.
    pub const fn new(lap: u64, records: u32, bytes: u32) -> Self {
        debug_assert!(bytes as u64 <= COMMIT_BYTES_MASK && records as u64 <= COMMIT_RECORDS_MASK);
        Self(Self::tag_of(lap) << abi::PISTE_COMMIT_LAP_SHIFT | Self::increment(records, bytes))
    }

    /// What a commit of `records` records in `bytes` bytes adds to the word.
    pub const fn increment(records: u32, bytes: u32) -> u64 {
        (records as u64) << abi::PISTE_COMMIT_RECORDS_SHIFT | bytes as u64
    }

    /// The tag of `lap`: (lap + 1) modulo 2^10.
    pub const fn tag_of(lap: u64) -> u64 {
        lap.wrapping_add(1) % LAP_TAGS
    }

    /// Bytes committed in the lap; the packet header and the padding at the end count.
    pub const fn bytes(self) -> u32 {
        (self.0 & COMMIT_BYTES_MASK) as u32
    }

    /// Records committed in the lap.
    pub const fn records(self) -> u32 {
        (self.0 >> abi::PISTE_COMMIT_RECORDS_SHIFT & COMMIT_RECORDS_MASK) as u32
    }

    /// Whether the word belongs to `lap`, or to one 1024 laps away.
    pub const fn is_of_lap(self, lap: u64) -> bool {
        self.0 >> abi::PISTE_COMMIT_LAP_SHIFT & (LAP_TAGS - 1) == Self::tag_of(lap)
    }

    /// Whether the consumer gave up waiting for a record of the sub-buffer.
    pub const fn recovered(self) -> bool {
        self.0 & Self::RECOVERED != 0
    }

    /// The bit that the consumer sets when it gives up waiting.
    pub const RECOVERED: u64 = 1 << abi::PISTE_COMMIT_RECOVERED_SHIFT;

    /// Whether every byte of a sub-buffer of `subbuf_bytes` is committed in `lap`, and none was given up.
    pub const fn is_complete(self, lap: u64, subbuf_bytes: u32) -> bool {
        self.is_of_lap(lap) && self.bytes() == subbuf_bytes && !self.recovered()
    }
}

/// `piste_ring_header.position`: how many units were ever reserved, and the CPU that reserved last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PositionWord(pub u64);

impl PositionWord {
    /// The largest position, in units.
    pub const UNITS_MAX: u64 = u64::MAX >> abi::PISTE_POSITION_SHIFT;

    /// `units` must be at most [`Self::UNITS_MAX`]; of `cpu` the low 12 bits count.
    pub const fn new(units: u64, cpu: u32) -> Self {
        debug_assert!(units <= Self::UNITS_MAX);
        Self(units << abi::PISTE_POSITION_SHIFT | (cpu & abi::PISTE_POSITION_CPU_MASK) as u64)
    }

    /// Units reserved since the ring began.
    pub const fn units(self) -> u64 {
        self.0 >> abi::PISTE_POSITION_SHIFT
    }

    /// The low 12 bits of the CPU that moved the position last.
    pub const fn cpu(self) -> u32 {
        self.0 as u32 & abi::PISTE_POSITION_CPU_MASK
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

/// The mark that a commit in `lap` stores at its record's first unit: 128 or more.
pub const fn mark_of_lap(lap: u64) -> u8 {
    (lap % abi::PISTE_MARK_LAPS as u64) as u8 | NO_RECORD_BELOW
}

/// A mark below this is of no record.
const NO_RECORD_BELOW: u8 = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commit_word_keeps_its_numbers_apart() {
        let word = CommitWord::new(1022, 8 << 20, abi::PISTE_SUBBUF_BYTES_MAX);
        assert_eq!(
            (word.bytes(), word.records(), word.recovered()),
            (abi::PISTE_SUBBUF_BYTES_MAX, 8 << 20, false)
        );
        assert!(word.is_of_lap(1022) && !word.is_of_lap(1021) && !word.is_of_lap(1023));
        let recovered = CommitWord(word.0 | CommitWord::RECOVERED);
        assert!(recovered.recovered() && recovered.is_of_lap(1022));
        assert!(word.is_complete(1022, abi::PISTE_SUBBUF_BYTES_MAX));
        assert!(!recovered.is_complete(1022, abi::PISTE_SUBBUF_BYTES_MAX));
    }

    #[test]
    fn a_zeroed_commit_word_is_of_no_lap_near_zero() {
        assert!(!CommitWord(0).is_of_lap(0));
        assert!(!CommitWord(0).is_complete(0, 4096));
        assert!(CommitWord(0).is_of_lap(1023), "tags repeat after 1024 laps");
    }

    #[test]
    fn commits_add_up_to_the_word() {
        let sum = CommitWord::new(5, 0, 0).0 + CommitWord::increment(1, 88 + 16) + CommitWord::increment(0, 4096 - 104);
        assert_eq!(CommitWord(sum), CommitWord::new(5, 1, 4096));
    }

    #[test]
    fn position_word_keeps_units_and_cpu_apart() {
        let word = PositionWord::new(PositionWord::UNITS_MAX, 0x1fff);
        assert_eq!((word.units(), word.cpu()), (PositionWord::UNITS_MAX, 0xfff));
        assert_eq!(PositionWord(u64::MAX).units(), PositionWord::UNITS_MAX);
        assert_eq!(PositionWord::new(1, 0).0, 1 << 12);
    }

    #[test]
    fn consumed_word_keeps_sequence_and_claim_apart() {
        let word = ConsumedWord::new(7);
        assert_eq!((word.sequence(), word.claimed()), (7, false));
        assert_eq!((word.claim().sequence(), word.claim().claimed()), (7, true));
        assert_eq!(ConsumedWord(u64::MAX).sequence(), ConsumedWord::SEQUENCE_MAX);
    }

    #[test]
    fn marks_are_128_or_more_and_differ_between_neighbouring_laps() {
        for lap in 0..1000 {
            assert!(mark_of_lap(lap) >= 128);
            assert_ne!(mark_of_lap(lap), mark_of_lap(lap + 1));
        }
        assert_eq!((mark_of_lap(0), mark_of_lap(127), mark_of_lap(128)), (128, 255, 128));
    }
}
