// SPDX-License-Identifier: MIT OR Apache-2.0
//! The walk over the records of a page. Hot: each event comes through here.

use std::iter::FusedIterator;
use std::ops::ControlFlow::{self, Break, Continue};

use super::Damage;

const TYPE_DATA_MAX: u32 = 28;
const TYPE_PADDING: u32 = 29;
pub(super) const TYPE_TIME_EXTEND: u32 = 30;
const TYPE_TIME_STAMP: u32 = 31;
pub(super) const TYPE_BITS: u32 = 5;
pub(super) const DELTA_BITS: u32 = 27;
/// An absolute time has 59 bits; the rest is as it was.
const STAMP_BITS: u32 = DELTA_BITS + u32::BITS;

/// An event as the kernel recorded it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// When, in ticks of the instance's clock.
    pub ticks: u64,
    /// What: begins with the event's id, a u16. Up to three bytes longer than the event.
    pub data: &'a [u8],
}

/// Walks over the records of a page; ends at the first that is none, and then says why.
#[derive(Debug, Clone)]
pub struct Records<'a> {
    rest: &'a [u8],
    ticks: u64,
    damage: Option<Damage>,
    all_bytes: usize,
}

impl<'a> Records<'a> {
    #[inline]
    pub(super) fn new(begin_ticks: u64, bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            ticks: begin_ticks,
            damage: None,
            all_bytes: bytes.len(),
        }
    }

    /// Why the walk ended before the end of the page; none before it ended.
    pub fn damage(&self) -> Option<Damage> {
        self.damage
    }

    /// The time of the last record, or of what came behind it.
    pub fn ticks(&self) -> u64 {
        self.ticks
    }

    /// All that is no short record with data, which is nearly none: a long record, the end, or something to go over.
    #[cold]
    fn rare(&mut self, kind: u32, delta: u64, body: &'a [u8]) -> ControlFlow<Option<Record<'a>>> {
        if kind == TYPE_PADDING && delta == 0 {
            return Break(self.end());
        }
        let Some((word, body)) = body.split_first_chunk() else {
            self.damage = Some(self.too_long(8));
            return Break(self.end());
        };
        let word = u32::from_ne_bytes(*word);
        let wide = (u64::from(word) << DELTA_BITS) + delta;
        match kind {
            TYPE_TIME_EXTEND => {
                self.ticks = self.ticks.wrapping_add(wide);
                self.rest = body;
                Continue(())
            }
            TYPE_TIME_STAMP => {
                self.ticks = absolute(self.ticks, wide);
                self.rest = body;
                Continue(())
            }
            _ => self.long(kind, delta, word, body),
        }
    }

    /// What has a length of its own.
    fn long(&mut self, kind: u32, delta: u64, said_bytes: u32, body: &'a [u8]) -> ControlFlow<Option<Record<'a>>> {
        let said_bytes = said_bytes as usize;
        let Some(data_bytes) = said_bytes.checked_sub(4).map(|bytes| bytes.next_multiple_of(4)) else {
            let offset = self.offset();
            self.damage = Some(Damage::RecordTooShort { offset, said_bytes });
            return Break(self.end());
        };
        let Some((data, rest)) = body.split_at_checked(data_bytes) else {
            self.damage = Some(self.too_long(data_bytes + 8));
            return Break(self.end());
        };
        self.rest = rest;
        // The kernel gives a discarded record a delta of one where it had none; the next one does not count from it.
        if kind == TYPE_PADDING && delta == 1 {
            return Continue(());
        }
        self.ticks = self.ticks.wrapping_add(delta);
        if kind == TYPE_PADDING {
            return Continue(());
        }
        let ticks = self.ticks;
        Break(Some(Record { ticks, data }))
    }

    #[cold]
    fn too_long(&self, record_bytes: usize) -> Damage {
        Damage::RecordTooLong {
            offset: self.offset(),
            record_bytes,
            left_bytes: self.rest.len(),
        }
    }

    fn offset(&self) -> usize {
        self.all_bytes - self.rest.len()
    }

    fn end(&mut self) -> Option<Record<'a>> {
        self.rest = &[];
        None
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    #[inline]
    fn next(&mut self) -> Option<Record<'a>> {
        loop {
            let Some((head, body)) = self.rest.split_first_chunk() else {
                if !self.rest.is_empty() {
                    self.damage = Some(self.too_long(4));
                }
                return self.end();
            };
            let (kind, delta) = taken_apart(u32::from_ne_bytes(*head));
            let delta = u64::from(delta);
            if kind.wrapping_sub(1) >= TYPE_DATA_MAX {
                match self.rare(kind, delta, body) {
                    Continue(()) => continue,
                    Break(record) => return record,
                }
            }
            let Some((data, rest)) = body.split_at_checked(4 * kind as usize) else {
                self.damage = Some(self.too_long(4 + 4 * kind as usize));
                return self.end();
            };
            self.rest = rest;
            self.ticks = self.ticks.wrapping_add(delta);
            let ticks = self.ticks;
            return Some(Record { ticks, data });
        }
    }
}

impl FusedIterator for Records<'_> {}

/// `type_len` and `time_delta`, bit-fields of the kernel's C compiler.
#[inline]
fn taken_apart(head: u32) -> (u32, u32) {
    if cfg!(target_endian = "big") {
        (head >> DELTA_BITS, head & ((1 << DELTA_BITS) - 1))
    } else {
        (head & ((1 << TYPE_BITS) - 1), head >> TYPE_BITS)
    }
}

/// An absolute time with the upper bits that it has no room for: those of the time before it, or one more where that would go back.
fn absolute(before: u64, stamp: u64) -> u64 {
    let whole = before >> STAMP_BITS << STAMP_BITS | stamp;
    if whole < before && before >> STAMP_BITS != 0 {
        whole.wrapping_add(1 << STAMP_BITS)
    } else {
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absolute_time_keeps_the_upper_bits() {
        let epoch = 1 << STAMP_BITS;
        assert_eq!(absolute(5, 7), 7);
        assert_eq!(absolute(9, 7), 7, "without upper bits time may go back");
        assert_eq!(absolute(3 * epoch + 5, 7), 3 * epoch + 7);
        assert_eq!(absolute(3 * epoch + 9, 7), 4 * epoch + 7, "the 59 bits went over");
        assert_eq!(absolute(u64::MAX, 7), 7);
    }
}
