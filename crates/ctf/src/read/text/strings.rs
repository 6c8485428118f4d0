// SPDX-License-Identifier: MIT OR Apache-2.0
//! Strings in quotes, with what a terminal or a shell would take for something else behind backslashes.

use super::literal::{Out, Pen};
use crate::read::schema::Encoding;

/// What stands for a byte; 0: itself, `x`: its code.
const ESCAPES: [u8; 256] = {
    let mut escapes = [0; 256];
    let mut control = 0;
    while control < 32 {
        escapes[control] = b'x';
        control += 1;
    }
    escapes[127] = b'x';
    let named = *b"\x07a\x08b\x1be\x0cf\nn\rr\tt\x0bv\\\\''\"\"??";
    let mut index = 0;
    while index < named.len() {
        escapes[named[index] as usize] = named[index + 1];
        index += 2;
    }
    escapes
};

/// A text of any encoding, in quotes.
pub(super) fn text(out: &mut Vec<u8>, bytes: &[u8], encoding: Encoding) {
    match encoding {
        Encoding::Utf8 => quoted(out, bytes),
        _ => quoted(out, decoded(bytes, encoding).as_bytes()),
    }
}

/// Bytes in quotes.
#[inline]
pub(super) fn quoted(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    let mut rest = bytes;
    while let Some(plain) = rest.iter().position(|byte| ESCAPES[usize::from(*byte)] != 0) {
        out.extend_from_slice(&rest[..plain]);
        let byte = rest[plain];
        let escape = ESCAPES[usize::from(byte)];
        out.extend_from_slice(&[b'\\', escape]);
        if escape == b'x' {
            out.extend_from_slice(&code(byte));
        }
        rest = &rest[plain + 1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

/// Of a short text as it is written, with its quotes.
pub(super) const SHORT_BYTES_MAX: usize = 160;

/// Bytes up to the first 0, or all, in quotes; how many they are. `None` when it is longer than [`SHORT_BYTES_MAX`] with everything that is
/// behind backslashes; what was written is of no use then. Eight bytes are looked at at once.
#[inline]
pub(super) fn quoted_short(pen: &mut Pen<'_>, bytes: &[u8]) -> Option<usize> {
    let mut pen_here = Pen {
        bytes: &mut *pen.bytes,
        at: pen.at,
    };
    let end = pen.at + SHORT_BYTES_MAX - 16;
    pen_here.whole(b"\"");
    let mut done = 0;
    while pen_here.at < end {
        let rest = &bytes[done..];
        let word = rest.first_chunk().copied().unwrap_or_else(|| {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            word
        });
        let plain = (specials(u64::from_le_bytes(word)).trailing_zeros() / 8) as usize;
        pen_here.start_of(&word, plain);
        done += plain;
        let Some(&byte) = word.get(plain) else { continue };
        if byte == 0 {
            pen_here.whole(b"\"");
            pen.at = pen_here.at;
            return Some(done);
        }
        done += 1;
        let escape = ESCAPES[usize::from(byte)];
        pen_here.whole(&[b'\\', escape]);
        if escape == b'x' {
            pen_here.whole(&code(byte));
        }
    }
    None
}

/// Bit 7 of the lowest of eight bytes that does not stand for itself; those of higher bytes say nothing.
#[inline(always)]
fn specials(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let is = |byte: u8| {
        let other = word ^ (ONES * u64::from(byte));
        other.wrapping_sub(ONES) & !other
    };
    let is_control = word.wrapping_sub(ONES * 32) & !word;
    (is_control | is(127) | is(b'"') | is(b'\'') | is(b'\\') | is(b'?')) & ONES << 7
}

/// Two hexadecimal digits.
fn code(byte: u8) -> [u8; 2] {
    let digit = |value: u8| b"0123456789abcdef"[usize::from(value)];
    [digit(byte >> 4), digit(byte & 15)]
}

/// A text of any encoding. Units that are no characters become U+FFFD.
pub fn decoded(bytes: &[u8], encoding: Encoding) -> String {
    let big = matches!(encoding, Encoding::Utf16Be | Encoding::Utf32Be);
    match encoding {
        Encoding::Utf8 => String::from_utf8_lossy(bytes).into_owned(),
        Encoding::Utf16Be | Encoding::Utf16Le => {
            let (units, _) = bytes.as_chunks();
            let units = units.iter().map(|unit| match big {
                true => u16::from_be_bytes(*unit),
                false => u16::from_le_bytes(*unit),
            });
            let characters = char::decode_utf16(units);
            characters
                .map(|character| character.unwrap_or(char::REPLACEMENT_CHARACTER))
                .collect()
        }
        Encoding::Utf32Be | Encoding::Utf32Le => {
            let (units, _) = bytes.as_chunks();
            let codes = units.iter().map(|unit| match big {
                true => u32::from_be_bytes(*unit),
                false => u32::from_le_bytes(*unit),
            });
            codes
                .map(|code| char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER))
                .collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(bytes: &[u8], encoding: Encoding) -> String {
        let mut out = vec![];
        text(&mut out, bytes, encoding);
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn what_is_not_plain_is_escaped() {
        let utf8 = |bytes| shown(bytes, Encoding::Utf8);
        assert_eq!(utf8(b""), r#""""#);
        assert_eq!(utf8("Grüße 🙂".as_bytes()), "\"Grüße 🙂\"");
        assert_eq!(
            utf8(b"\\ ' \" ? \x07\x08\x1b\x0c\n\r\t\x0b\x01\x7f"),
            r#""\\ \' \" \? \a\b\e\f\n\r\t\v\x01\x7f""#
        );
    }

    #[test]
    fn short_texts_are_the_same_eight_bytes_at_a_time() {
        let mut memory = [0; crate::read::text::literal::PEN_BYTES];
        let mut check = |text: &[u8]| {
            let mut pen = Pen {
                bytes: &mut memory,
                at: 3,
            };
            let length = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
            let mut out = vec![];
            quoted(&mut out, &text[..length]);
            match quoted_short(&mut pen, text) {
                Some(found) => assert_eq!((found, &pen.bytes[3..pen.at]), (length, &out[..])),
                None => assert!(out.len() > SHORT_BYTES_MAX - 16, "{text:?}"),
            }
            assert!(pen.at <= 3 + SHORT_BYTES_MAX);
        };
        for byte in 0..=255 {
            for place in 0..20 {
                let mut text = *b"abcdefgh \x80\xffABCDEFGHIJKL";
                text[place] = byte;
                (0..=text.len()).for_each(|length| check(&text[..length]));
            }
        }
        for length in 100..200 {
            check(&vec![b'a'; length]);
            check(&vec![b'\n'; length]);
            check(&vec![1; length]);
        }
    }

    #[test]
    fn wide_encodings_become_utf_8() {
        assert_eq!(
            shown(b"\0A\xd8\x3d\xde\x42\xd8\0", Encoding::Utf16Be),
            "\"A🙂\u{fffd}\""
        );
        assert_eq!(shown(b"A\0\x3d\xd8\x42\xde", Encoding::Utf16Le), "\"A🙂\"");
        assert_eq!(shown(b"\0\0\0A\0\x01\xf6\x42", Encoding::Utf32Be), "\"A🙂\"");
        assert_eq!(shown(b"A\0\0\0\xff\xff\xff\xff", Encoding::Utf32Le), "\"A\u{fffd}\"");
    }
}
