// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whole numbers in as few bytes as they need: seven bits in each, the lowest first (LEB128). Signed ones alternate: 0, -1, 1, -2.

use crate::Damaged;

pub(crate) fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

pub(crate) fn put_signed(bytes: &mut Vec<u8>, value: i64) {
    put(bytes, (value.cast_unsigned() << 1) ^ (value >> 63).cast_unsigned());
}

/// Bytes that are read from their begin on.
pub(crate) struct Reader<'b> {
    bytes: &'b [u8],
}

impl<'b> Reader<'b> {
    pub(crate) fn new(bytes: &'b [u8]) -> Reader<'b> {
        Reader { bytes }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.bytes.is_empty()
    }

    #[inline]
    pub(crate) fn byte(&mut self) -> Result<u8, Damaged> {
        let (first, rest) = self.bytes.split_first().ok_or(Damaged)?;
        self.bytes = rest;
        Ok(*first)
    }

    #[inline]
    pub(crate) fn number(&mut self) -> Result<u64, Damaged> {
        let first = self.byte()?;
        if first < 0x80 {
            return Ok(first.into());
        }
        let mut value = u64::from(first & 0x7f);
        for shift in (7..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Damaged)
    }

    pub(crate) fn signed(&mut self) -> Result<i64, Damaged> {
        let value = self.number()?;
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    /// A number that is none of 64 bits.
    pub(crate) fn small<N: TryFrom<u64>>(&mut self) -> Result<N, Damaged> {
        N::try_from(self.number()?).map_err(|_| Damaged)
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'b [u8], Damaged> {
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or(Damaged)?;
        self.bytes = rest;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        let all = [0, 1, -1, 63, -64, 64, i64::from(i32::MIN), i64::MAX, i64::MIN];
        let mut bytes = Vec::new();
        for value in all {
            put_signed(&mut bytes, value);
            put(&mut bytes, value.cast_unsigned());
        }
        let mut reader = Reader::new(&bytes);
        for value in all {
            assert_eq!(reader.signed(), Ok(value));
            assert_eq!(reader.number(), Ok(value.cast_unsigned()));
        }
        assert!(reader.is_over());
        assert_eq!(reader.number(), Err(Damaged));
        assert_eq!(Reader::new(&[0xff; 11]).number(), Err(Damaged));
    }
}
