// SPDX-License-Identifier: MIT OR Apache-2.0
//! The wire format of protocol buffers, as far as messages are written. Which numbers fields have stands where they are written: most come
//! from tables by the names of fields, for which generated types would only be a detour.

/// A message that is being written. Messages in it are written in place and get their length afterwards, in as many bytes as any length
/// needs, which the format allows.
#[derive(Debug, Default)]
pub(crate) struct Message {
    bytes: Vec<u8>,
}

const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const BYTES: u64 = 2;
/// 28 bits: 256 MiB.
const LENGTH_BYTES: usize = 4;

impl Message {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// A number without a sign, or a Boolean, or an enumeration.
    pub(crate) fn number(&mut self, field: u32, value: u64) {
        self.varint(u64::from(field) << 3 | VARINT);
        self.varint(value);
    }

    /// A number of type int32 or int64.
    pub(crate) fn signed(&mut self, field: u32, value: i64) {
        self.number(field, value.cast_unsigned());
    }

    pub(crate) fn double(&mut self, field: u32, value: f64) {
        self.varint(u64::from(field) << 3 | FIXED64);
        self.bytes.extend(value.to_le_bytes());
    }

    /// A text; what is no UTF-8 is replaced.
    pub(crate) fn text(&mut self, field: u32, text: &[u8]) {
        let text = String::from_utf8_lossy(text);
        self.varint(u64::from(field) << 3 | BYTES);
        self.varint(text.len() as u64);
        self.bytes.extend(text.as_bytes());
    }

    /// A message within this one.
    pub(crate) fn message(&mut self, field: u32, write: impl FnOnce(&mut Message)) {
        self.varint(u64::from(field) << 3 | BYTES);
        let at = self.bytes.len();
        self.bytes.extend([0; LENGTH_BYTES]);
        write(self);
        let length = self.bytes.len() - at - LENGTH_BYTES;
        debug_assert!(length < 1 << (7 * LENGTH_BYTES));
        for index in 0..LENGTH_BYTES {
            let more = if index + 1 < LENGTH_BYTES { 0x80 } else { 0 };
            self.bytes[at + index] = (length >> (7 * index)) as u8 & 0x7f | more;
        }
    }

    /// What was written elsewhere: a message, or fields of one.
    pub(crate) fn message_of(&mut self, field: u32, message: &Message) {
        self.varint(u64::from(field) << 3 | BYTES);
        self.varint(message.bytes.len() as u64);
        self.bytes.extend_from_slice(&message.bytes);
    }

    /// Fields of this message that were written elsewhere.
    pub(crate) fn append(&mut self, fields: &Message) {
        self.bytes.extend_from_slice(&fields.bytes);
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_written_as_the_format_says() {
        let mut message = Message::default();
        message.number(1, 150);
        message.signed(2, -1);
        message.text(3, b"ab\xff");
        message.message(4, |inner| inner.number(5, 1));
        let expected = [
            &[0x08, 0x96, 0x01, 0x10][..],
            &[0xff; 9],
            &[
                0x01, 0x1a, 5, b'a', b'b', 0xef, 0xbf, 0xbd, 0x22, 0x82, 0x80, 0x80, 0x00, 0x28, 1,
            ],
        ];
        assert_eq!(message.bytes(), expected.concat());
    }
}
