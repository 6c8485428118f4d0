// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers of any width behind one another, as they stand in a packet: the other direction of `read::cursor`.

use crate::read::schema::ByteOrder;

/// The start of a packet that is being written.
#[derive(Clone, Debug, Default)]
pub struct BitWriter {
    bytes: Vec<u8>,
    /// In bits.
    position: u64,
}

impl BitWriter {
    /// At the start of bytes that are written over.
    pub fn over(bytes: Vec<u8>) -> BitWriter {
        BitWriter { bytes, position: 0 }
    }

    /// What is written, and what was there behind it.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The same, as they are.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// In bits from the start of the packet.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Back to an earlier place: what is behind it is gone.
    pub fn truncate(&mut self, position: u64) {
        debug_assert!(position <= self.position);
        self.position = position;
        self.bytes.truncate(position.div_ceil(8) as usize);
    }

    /// Forgets everything, and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.position = 0;
    }

    /// Moves to a multiple of `alignment` bits, a power of two.
    pub fn align(&mut self, alignment: u32) {
        self.position = self.position.next_multiple_of(u64::from(alignment.max(1)));
        self.reach();
    }

    /// A number of 1 to 64 bits; higher ones are left out.
    pub fn number(&mut self, bits: u32, order: ByteOrder, value: u64) {
        let start = (self.position / 8) as usize;
        let shift = (self.position % 8) as u32;
        self.position += u64::from(bits);
        self.reach();
        let count = (shift + bits).div_ceil(8) as usize;
        let place = &mut self.bytes[start..start + count];
        let mask = (1_u128 << bits) - 1;
        let value = u128::from(value) & mask;
        let mut wide = [0_u8; 16];
        match order {
            ByteOrder::Little => {
                wide[..count].copy_from_slice(place);
                let there = u128::from_le_bytes(wide) & !(mask << shift);
                place.copy_from_slice(&(there | value << shift).to_le_bytes()[..count]);
            }
            ByteOrder::Big => {
                let behind = 8 * count as u32 - shift - bits;
                wide[16 - count..].copy_from_slice(place);
                let there = u128::from_be_bytes(wide) & !(mask << behind);
                place.copy_from_slice(&(there | value << behind).to_be_bytes()[16 - count..]);
            }
        }
    }

    /// Bytes, from a byte's start on.
    pub fn append(&mut self, bytes: &[u8]) {
        debug_assert_eq!(self.position % 8, 0);
        let start = (self.position / 8) as usize;
        let over = bytes.len().min(self.bytes.len() - start);
        self.bytes[start..start + over].copy_from_slice(&bytes[..over]);
        self.bytes.extend_from_slice(&bytes[over..]);
        self.position += 8 * bytes.len() as u64;
    }

    /// Bits that begin and go on at a byte's start.
    pub fn append_bits(&mut self, bytes: &[u8], bits: u64) {
        debug_assert_eq!(bytes.len() as u64, bits.div_ceil(8));
        let start = self.position;
        self.append(bytes);
        self.position = start + bits;
    }

    /// Memory up to the position.
    fn reach(&mut self) {
        let wanted = self.position.div_ceil(8) as usize;
        if self.bytes.len() < wanted {
            self.bytes.resize(wanted, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::cursor::Cursor;

    #[test]
    fn what_is_written_is_read() {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let numbers = [
                (3, 5),
                (5, 31),
                (27, 0x0123_4567),
                (64, u64::MAX - 7),
                (1, 1),
                (12, 0xabc),
            ];
            let mut out = BitWriter::default();
            for (bits, value) in numbers {
                out.number(bits, order, value);
            }
            let mut cursor = Cursor::new(out.bytes());
            for (bits, value) in numbers {
                assert_eq!(cursor.number(bits, order), Ok(value), "{order:?}, {bits} bits");
            }
            assert_eq!(cursor.position(), out.position());
        }
    }

    #[test]
    fn what_is_written_over_keeps_the_rest() {
        let mut out = BitWriter::over(vec![0xff; 3]);
        out.number(4, ByteOrder::Little, 0);
        out.align(8);
        out.append(&[1]);
        assert_eq!(out.bytes(), [0xf0, 1, 0xff]);
        out.truncate(4);
        assert_eq!(out.bytes(), [0xf0]);
    }
}
