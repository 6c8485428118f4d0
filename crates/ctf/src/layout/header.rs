// SPDX-License-Identifier: MIT OR Apache-2.0
//! The header of a record: which event, and when.
//!
//! | form | bytes | |
//! |---|---|---|
//! | compact | 4 | a word: id (0 to 30) in bits 0 to 4, the low 27 bits of the time above |
//! | extended | 13 | a byte 31, the id (uint32), the time (uint64) |

use super::Wrong;

pub(super) const COMPACT_BYTES: usize = 4;
const EXTENDED_BYTES: usize = 13;
const ID_MASK: u32 = 31;
const ID_EXTENDED: u32 = 31;
const ID_BITS: u32 = 5;
const TIME_MASK: u64 = (1 << 27) - 1;

/// A header whose time is possible.
pub(super) struct Header {
    pub(super) id: u32,
    pub(super) ticks: u64,
    pub(super) bytes: usize,
}

impl Header {
    /// Reads the header at the start of `bytes`. `previous_ticks` is at most `limit_ticks`.
    #[inline]
    pub(super) fn read(bytes: &[u8], previous_ticks: u64, limit_ticks: u64) -> Result<Header, Wrong> {
        let cut = |needed_bytes: usize| Wrong::Cut {
            needed_bytes: needed_bytes as u64,
            left_bytes: bytes.len() as u32,
        };
        let word = Word::read(bytes).ok_or(cut(COMPACT_BYTES))?;
        if word.id() != ID_EXTENDED {
            let ahead = word.ticks_ahead(previous_ticks);
            if ahead > limit_ticks - previous_ticks {
                let ticks = previous_ticks.saturating_add(ahead);
                return Err(Wrong::TooLate { ticks, limit_ticks });
            }
            return Ok(Header {
                id: word.id(),
                ticks: previous_ticks + ahead,
                bytes: COMPACT_BYTES,
            });
        }
        let header: &[u8; EXTENDED_BYTES] = bytes.first_chunk().ok_or(cut(EXTENDED_BYTES))?;
        let id = u32::from_le_bytes(*header[1..].first_chunk().expect("inside the header"));
        let ticks = u64::from_le_bytes(*header[5..].first_chunk().expect("inside the header"));
        if ticks < previous_ticks {
            Err(Wrong::BackInTime { ticks, previous_ticks })
        } else if ticks > limit_ticks {
            Err(Wrong::TooLate { ticks, limit_ticks })
        } else {
            Ok(Header {
                id,
                ticks,
                bytes: EXTENDED_BYTES,
            })
        }
    }
}

/// The first word of a header.
#[derive(Clone, Copy)]
pub(super) struct Word(u32);

impl Word {
    #[inline]
    pub(super) fn read(bytes: &[u8]) -> Option<Word> {
        bytes.first_chunk().map(|bytes| Word(u32::from_le_bytes(*bytes)))
    }

    #[inline]
    pub(super) fn id(self) -> u32 {
        self.0 & ID_MASK
    }

    /// Ticks from `previous_ticks` to the smallest time, not before it, that has these low bits.
    #[inline]
    pub(super) fn ticks_ahead(self, previous_ticks: u64) -> u64 {
        u64::from(self.0 >> ID_BITS).wrapping_sub(previous_ticks) & TIME_MASK
    }
}
