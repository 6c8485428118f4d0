// SPDX-License-Identifier: MIT OR Apache-2.0
//! Short pieces of text, appended fast.
//!
//! A copy of a fixed length is a few instructions, one of a length that is only known when it happens is a call. A line has dozens of
//! pieces, hence these copy more than is wanted and cut it off. Where the end of the line is would be read from memory and written to it again
//! with each piece of a `Vec`, which takes longer than the copy: a [`Pen`] has it in a register.

/// Pieces up to this length are appended in one copy.
const SHORT_BYTES: usize = 32;

/// A text that is the same for many events.
#[derive(Clone, Debug, Default)]
pub(super) struct Literal {
    start: [u8; SHORT_BYTES],
    length: usize,
    /// Of a longer one: all of it.
    whole: Box<[u8]>,
}

impl Literal {
    pub(super) fn new(text: impl Into<Vec<u8>>) -> Literal {
        let text = text.into();
        let mut start = [0; SHORT_BYTES];
        let length = text.len();
        if length <= SHORT_BYTES {
            start[..length].copy_from_slice(&text);
        }
        Literal {
            start,
            length,
            whole: if length > SHORT_BYTES {
                text.into()
            } else {
                Box::default()
            },
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.length
    }

    #[inline(always)]
    pub(super) fn append(&self, out: &mut impl Out) {
        if self.length <= SHORT_BYTES {
            out.start_of(&self.start, self.length);
        } else {
            out.all_of(&self.whole);
        }
    }
}

/// What text is appended to.
pub(super) trait Out {
    /// Appends the first `length` bytes.
    fn start_of<const BYTES: usize>(&mut self, bytes: &[u8; BYTES], length: usize);

    /// Appends bytes of any number.
    fn all_of(&mut self, bytes: &[u8]);

    /// Appends bytes of a number that is known beforehand.
    #[inline(always)]
    fn whole<const BYTES: usize>(&mut self, bytes: &[u8; BYTES]) {
        self.start_of(bytes, BYTES);
    }
}

impl Out for Vec<u8> {
    #[inline]
    fn start_of<const BYTES: usize>(&mut self, bytes: &[u8; BYTES], length: usize) {
        debug_assert!(length <= BYTES);
        self.extend_from_slice(bytes);
        self.truncate(self.len() - BYTES + length);
    }

    #[inline]
    fn all_of(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Writes a part of a line into memory that has room for it: whoever begins knows how much is needed at most. It lives in registers as long as
/// nobody who is not inlined is given a reference to it.
#[derive(Debug)]
pub(super) struct Pen<'a> {
    pub(super) bytes: &'a mut [u8; PEN_BYTES],
    pub(super) at: usize,
}

/// Of the memory of a pen; a line is seldom longer.
pub(super) const PEN_BYTES: usize = 2048;

/// What may be written behind the end and is cut off.
pub(super) const SPARE_BYTES: usize = 64;

impl Pen<'_> {
    /// So many bytes can be written.
    #[inline(always)]
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.at + bytes <= PEN_BYTES - SPARE_BYTES
    }
}

impl Out for Pen<'_> {
    #[inline(always)]
    fn start_of<const BYTES: usize>(&mut self, bytes: &[u8; BYTES], length: usize) {
        debug_assert!(length <= BYTES && BYTES <= SPARE_BYTES);
        *self.bytes[self.at..].first_chunk_mut().expect("there is room") = *bytes;
        self.at += length;
    }

    #[inline(always)]
    fn all_of(&mut self, bytes: &[u8]) {
        self.bytes[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_any_length_are_appended_whole() {
        for length in [0, 1, 31, 32, 33, 100] {
            let text = "abcdefghij".repeat(10)[..length].to_owned();
            let mut out = b"before".to_vec();
            Literal::new(text.clone()).append(&mut out);
            assert_eq!(out, format!("before{text}").into_bytes());
            let mut pen = Pen {
                bytes: &mut [b'-'; PEN_BYTES],
                at: 6,
            };
            Literal::new(text.clone()).append(&mut pen);
            assert_eq!(&pen.bytes[6..pen.at], text.as_bytes());
        }
    }
}
