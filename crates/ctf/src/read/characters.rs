// SPDX-License-Identifier: MIT OR Apache-2.0
//! Texts of any encoding as UTF-8. What is no character becomes U+FFFD; UTF-8 stays as it is, also where it is none.

use super::schema::Encoding;

/// Appends a text.
pub fn append(out: &mut Vec<u8>, bytes: &[u8], encoding: Encoding) {
    let mut push = |character: char| out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    match encoding {
        Encoding::Utf8 => out.extend_from_slice(bytes),
        Encoding::Utf16Be | Encoding::Utf16Le => {
            let unit = |unit: &[u8; 2]| match encoding {
                Encoding::Utf16Be => u16::from_be_bytes(*unit),
                _ => u16::from_le_bytes(*unit),
            };
            char::decode_utf16(bytes.as_chunks().0.iter().map(unit))
                .for_each(|character| push(character.unwrap_or(char::REPLACEMENT_CHARACTER)));
        }
        Encoding::Utf32Be | Encoding::Utf32Le => {
            for unit in bytes.as_chunks().0 {
                let code = match encoding {
                    Encoding::Utf32Be => u32::from_be_bytes(*unit),
                    _ => u32::from_le_bytes(*unit),
                };
                push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
        }
    }
}
