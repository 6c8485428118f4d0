// SPDX-License-Identifier: MIT OR Apache-2.0
//! A place in the bits of a packet, and reading numbers there.

use super::schema::ByteOrder;

/// A place in a packet of which a part is in memory. Places are in bits from the packet's start, because alignment is.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    /// Where `bytes` begins in the packet; whole bytes.
    base: u64,
    /// From the packet's start.
    position: u64,
    /// Nothing is read at or behind this place.
    end: u64,
    /// Of the number that ended within the byte of this place, when it is known.
    order: Option<ByteOrder>,
}

/// The packet, or what of it is in memory, ends before the field does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Short;

/// There is no number here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoNumber {
    /// The packet, or what of it is in memory, ends before.
    Short,
    /// It begins within a byte whose first bits are of a number in another byte order: nobody can say which bits are left for it.
    OtherOrder,
}

impl<'a> Cursor<'a> {
    /// At the start of a packet whose content is all of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor {
            bytes,
            base: 0,
            position: 0,
            end: 8 * bytes.len() as u64,
            order: None,
        }
    }

    /// At `position` of a packet of which `bytes` begins at `base_bytes`; nothing is read from `end` on. Places are in bits.
    pub fn within(bytes: &'a [u8], base_bytes: u64, position: u64, end: u64) -> Cursor<'a> {
        let base = 8 * base_bytes;
        debug_assert!(position >= base);
        Cursor {
            bytes,
            base,
            position,
            end: end.min(base + 8 * bytes.len() as u64),
            order: None,
        }
    }

    /// In bits from the start of the packet.
    #[inline]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Bits that are left.
    #[inline]
    pub fn left(&self) -> u64 {
        self.end.saturating_sub(self.position)
    }

    /// Moves to a multiple of `alignment`, a power of two.
    ///
    /// # Errors
    /// There is none before the end.
    #[inline]
    pub fn align(&mut self, alignment: u32) -> Result<(), Short> {
        let mask = u64::from(alignment) - 1;
        let aligned = self.position.checked_add(mask).ok_or(Short)? & !mask;
        if aligned > self.end {
            return Err(Short);
        }
        self.position = aligned;
        Ok(())
    }

    /// Moves over so many bits.
    ///
    /// # Errors
    /// There are fewer.
    #[inline]
    pub fn skip(&mut self, bits: u64) -> Result<(), Short> {
        if bits > self.left() {
            return Err(Short);
        }
        self.position += bits;
        Ok(())
    }

    /// Bytes from here, which is a byte's start, and moves behind them.
    ///
    /// # Errors
    /// There are fewer.
    #[inline]
    pub fn take(&mut self, count: u64) -> Result<&'a [u8], Short> {
        let bits = count.checked_mul(8).ok_or(Short)?;
        if bits > self.left() {
            return Err(Short);
        }
        let start = ((self.position - self.base) / 8) as usize;
        self.position += bits;
        Ok(&self.bytes[start..start + count as usize])
    }

    /// Everything from here, which is a byte's start.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        let start = ((self.position - self.base) / 8) as usize;
        let end = ((self.end - self.base) / 8) as usize;
        self.bytes.get(start..end).unwrap_or_default()
    }

    /// A number of 1 to 64 bits, not extended by its sign, and moves behind it. It is aligned already.
    ///
    /// # Errors
    /// There are fewer bits, or others of the same byte have another order.
    #[inline(always)]
    pub fn number(&mut self, bits: u32, order: ByteOrder) -> Result<u64, NoNumber> {
        if u64::from(bits) > self.left() {
            return Err(NoNumber::Short);
        }
        let start = ((self.position - self.base) / 8) as usize;
        let shift = (self.position % 8) as u32;
        self.position += u64::from(bits);
        if shift == 0 {
            let bytes = &self.bytes[start..];
            match (bits, order) {
                (8, _) => return Ok(u64::from(bytes[0])),
                (16, ByteOrder::Little) => return Ok(u16::from_le_bytes(first(bytes)).into()),
                (16, ByteOrder::Big) => return Ok(u16::from_be_bytes(first(bytes)).into()),
                (32, ByteOrder::Little) => return Ok(u32::from_le_bytes(first(bytes)).into()),
                (32, ByteOrder::Big) => return Ok(u32::from_be_bytes(first(bytes)).into()),
                (64, ByteOrder::Little) => return Ok(u64::from_le_bytes(first(bytes))),
                (64, ByteOrder::Big) => return Ok(u64::from_be_bytes(first(bytes))),
                _ => {}
            }
        }
        self.part(start, shift, bits, order)
    }

    /// A number that is no whole bytes.
    #[inline]
    fn part(&mut self, start: usize, shift: u32, bits: u32, order: ByteOrder) -> Result<u64, NoNumber> {
        if shift != 0 && self.order.is_some_and(|before| before != order) {
            return Err(NoNumber::OtherOrder);
        }
        self.order = Some(order);
        Ok(unaligned(&self.bytes[start..], shift, bits, order))
    }

    /// A number in LEB128, and moves behind it; `None` when it has more than 64 bits.
    ///
    /// # Errors
    /// The end comes before the number's.
    pub fn variable_number(&mut self, is_signed: bool) -> Result<Option<u64>, Short> {
        let (mut number, mut shift) = (0_u64, 0_u32);
        loop {
            let byte = self.take(1)?[0];
            let (bits, is_last) = (u64::from(byte & 0x7f), byte & 0x80 == 0);
            match shift {
                0..63 => number |= bits << shift,
                // One bit is left in the tenth byte; the others only repeat the sign.
                63 if bits == 0 || bits == 1 && !is_signed || bits == 0x7f && is_signed => number |= bits << 63,
                _ => return Ok(None),
            }
            shift += 7;
            if is_last {
                let is_negative = is_signed && byte & 0x40 != 0;
                return Ok(Some(if is_negative && shift < 64 {
                    number | u64::MAX << shift
                } else {
                    number
                }));
            }
        }
    }
}

#[inline]
fn first<const COUNT: usize>(bytes: &[u8]) -> [u8; COUNT] {
    *bytes.first_chunk().expect("as many bits are left")
}

/// `bits` bits, `shift` bits behind the start of `bytes`.
#[inline]
fn unaligned(bytes: &[u8], shift: u32, bits: u32, order: ByteOrder) -> u64 {
    match bytes.first_chunk() {
        Some(word) if shift + bits <= 64 => {
            let from_low_end = match order {
                ByteOrder::Little => u64::from_le_bytes(*word) >> shift,
                ByteOrder::Big => u64::from_be_bytes(*word) >> (64 - shift - bits),
            };
            from_low_end & u64::MAX >> (64 - bits)
        }
        _ => near_end(bytes, shift, bits, order),
    }
}

/// The same where fewer than eight bytes are left, or nine are needed.
fn near_end(bytes: &[u8], shift: u32, bits: u32, order: ByteOrder) -> u64 {
    let count = ((shift + bits).div_ceil(8)) as usize;
    let mut wide = [0_u8; 16];
    let mask = (1_u128 << bits) - 1;
    match order {
        ByteOrder::Little => {
            wide[..count].copy_from_slice(&bytes[..count]);
            (u128::from_le_bytes(wide) >> shift & mask) as u64
        }
        ByteOrder::Big => {
            wide[16 - count..].copy_from_slice(&bytes[..count]);
            let behind = 8 * count as u32 - shift - bits;
            (u128::from_be_bytes(wide) >> behind & mask) as u64
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_fill_bytes_from_the_low_end_in_little_endian_order() {
        // 5 bits 10101, then 27 bits.
        let word: u32 = 0b10101 | 0x0123_4567 << 5;
        let bytes = word.to_le_bytes();
        let mut cursor = Cursor::new(&bytes);
        assert_eq!(cursor.number(5, ByteOrder::Little), Ok(0b10101));
        assert_eq!(cursor.number(27, ByteOrder::Little), Ok(0x0123_4567));
        assert_eq!(cursor.number(1, ByteOrder::Little), Err(NoNumber::Short));
    }

    #[test]
    fn bits_fill_bytes_from_the_high_end_in_big_endian_order() {
        let word: u32 = 0b10101 << 27 | 0x0123_4567;
        let bytes = word.to_be_bytes();
        let mut cursor = Cursor::new(&bytes);
        assert_eq!(cursor.number(5, ByteOrder::Big), Ok(0b10101));
        assert_eq!(cursor.number(27, ByteOrder::Big), Ok(0x0123_4567));
    }

    #[test]
    fn a_byte_has_bits_of_one_order() {
        let mut cursor = Cursor::new(&[0xff; 3]);
        assert_eq!(cursor.number(5, ByteOrder::Little), Ok(31));
        assert_eq!(cursor.number(11, ByteOrder::Little), Ok(0x7ff));
        assert_eq!(cursor.number(3, ByteOrder::Big), Ok(7));
        assert_eq!(cursor.number(3, ByteOrder::Little), Err(NoNumber::OtherOrder));
    }

    #[test]
    fn a_number_of_64_bits_may_span_nine_bytes() {
        let wide = u128::from(0x0123_4567_89ab_cdef_u64);
        let little = (wide << 3).to_le_bytes();
        let mut cursor = Cursor::new(&little[..9]);
        cursor.skip(3).expect("three bits are there");
        assert_eq!(cursor.number(64, ByteOrder::Little), Ok(0x0123_4567_89ab_cdef));
        let big = (wide << 5).to_be_bytes();
        let mut cursor = Cursor::new(&big[7..]);
        cursor.skip(3).expect("three bits are there");
        assert_eq!(cursor.number(64, ByteOrder::Big), Ok(0x0123_4567_89ab_cdef));
    }

    #[test]
    fn alignment_counts_from_the_start_of_the_packet() {
        let bytes = [0; 8];
        let mut cursor = Cursor::within(&bytes, 3, 25, 1000);
        assert_eq!(cursor.align(32), Ok(()));
        assert_eq!(cursor.position(), 32);
        assert_eq!(cursor.left(), 56);
        assert_eq!(cursor.align(128), Err(Short));
    }

    #[test]
    fn numbers_of_their_own_length() {
        for (bytes, is_signed, number) in [
            (&[0x7f_u8][..], false, 0x7f),
            (&[0x7f], true, u64::MAX),
            (&[0xe5, 0x8e, 0x26], false, 624_485),
            (&[0x9b, 0xf1, 0x59], true, (-624_485_i64).cast_unsigned()),
        ] {
            assert_eq!(
                Cursor::new(bytes).variable_number(is_signed),
                Ok(Some(number)),
                "{bytes:x?}"
            );
        }
        assert_eq!(Cursor::new(&[0x80, 0x80]).variable_number(false), Err(Short));
    }

    #[test]
    fn a_number_of_its_own_length_has_64_bits_at_most() {
        let bytes = |last: u8| [[0x80; 9].as_slice(), &[last]].concat();
        for (last, is_signed, number) in [
            (0x01, false, Some(1 << 63)),
            (0x02, false, None),
            (0x7f, true, Some(1 << 63)),
            (0x01, true, None),
            (0x80, false, None),
        ] {
            let bytes = [bytes(last), vec![0]].concat();
            assert_eq!(Cursor::new(&bytes).variable_number(is_signed), Ok(number), "{last:x}");
        }
    }
}
