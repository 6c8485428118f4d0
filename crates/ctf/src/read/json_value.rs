// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values of events as JSON, as docs/reference/json.md describes them. Numbers keep all their digits: what a number of JSON may not hold, in
//! jq or in JavaScript, is a text.

use std::fmt::{self, Write};

use super::characters;
use super::plan::IntegerNode;
use super::schema::{Encoding, Meaning};
use super::walk::Visitor;

/// Every whole number up to this one is a number of 64 bits with floating point, which is what most programs make of a number in JSON.
const EXACT_MAX: u64 = 1 << 53;

/// It is a text in JSON, so that nobody rounds it.
pub fn is_text(magnitude: u64) -> bool {
    magnitude > EXACT_MAX
}

/// Bytes that text is appended to.
struct Text<'o>(&'o mut Vec<u8>);

impl fmt::Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

/// Appends the values that it looks at. Numbers that only the format itself needs are left out of structures.
#[derive(Debug)]
pub struct JsonValue<'o> {
    out: &'o mut Vec<u8>,
    /// Where the name of the field begins whose value comes.
    name_at: Option<usize>,
}

impl<'o> JsonValue<'o> {
    /// Appends to `out`.
    pub fn new(out: &'o mut Vec<u8>) -> JsonValue<'o> {
        JsonValue { out, name_at: None }
    }

    fn number(&mut self, integer: &IntegerNode, value: u64) {
        let out = &mut *self.out;
        // Writing to memory does not fail.
        let _ = match (integer.meaning, integer.is_signed) {
            (Meaning::Boolean, _) => write!(Text(out), "{}", value != 0),
            (_, true) => match value.cast_signed() {
                signed if is_text(signed.unsigned_abs()) => write!(Text(out), "\"{signed}\""),
                signed => write!(Text(out), "{signed}"),
            },
            (_, false) if is_text(value) => write!(Text(out), "\"{value}\""),
            (_, false) => write!(Text(out), "{value}"),
        };
    }
}

impl Visitor for JsonValue<'_> {
    fn field(&mut self, name: &str) {
        self.name_at = Some(self.out.len());
        if self.out.last() != Some(&b'{') {
            self.out.push(b',');
        }
        string(self.out, name.as_bytes());
        self.out.push(b':');
    }

    fn element(&mut self, index: u64) {
        self.name_at = None;
        if index > 0 {
            self.out.push(b',');
        }
    }

    fn integer(&mut self, integer: &IntegerNode, value: u64) {
        if let Some(name_at) = self.name_at.take()
            && integer.is_hidden()
        {
            self.out.truncate(name_at);
            return;
        }
        if !integer.is_enumeration {
            self.number(integer, value);
            return;
        }
        let wide = match integer.is_signed {
            true => i128::from(value.cast_signed()),
            false => i128::from(value),
        };
        self.out.extend_from_slice(b"{\"value\":");
        self.number(integer, value);
        self.out.extend_from_slice(b",\"labels\":[");
        let mut is_first = true;
        for label in &*integer.labels {
            if label.ranges.iter().any(|&(first, last)| (first..=last).contains(&wide)) {
                if !is_first {
                    self.out.push(b',');
                }
                is_first = false;
                string(self.out, label.name.as_bytes());
            }
        }
        self.out.extend_from_slice(b"]}");
    }

    fn symbol(&mut self, integer: &IntegerNode, value: u64, symbol: &str) {
        self.name_at = None;
        self.out.extend_from_slice(b"{\"value\":");
        self.number(integer, value);
        self.out.extend_from_slice(b",\"symbol\":");
        string(self.out, symbol.as_bytes());
        self.out.push(b'}');
    }

    fn float(&mut self, value: f64, bits: u32) {
        self.name_at = None;
        let out = &mut *self.out;
        let _ = match bits {
            _ if value.is_nan() => write!(Text(out), "\"NaN\""),
            _ if value.is_infinite() => write!(Text(out), "\"{}Infinity\"", if value < 0.0 { "-" } else { "" }),
            // The shortest text that is the same number of 32 bits.
            16 | 32 => write!(Text(out), "{:?}", value as f32),
            _ => write!(Text(out), "{value:?}"),
        };
    }

    fn counted_text(&mut self, _: &[u8], whole: &[u8], encoding: Encoding) {
        self.text(whole, encoding);
    }

    fn text(&mut self, bytes: &[u8], encoding: Encoding) {
        self.name_at = None;
        match encoding {
            Encoding::Utf8 => string(self.out, bytes),
            _ => {
                let mut text = Vec::new();
                characters::append(&mut text, bytes, encoding);
                string(self.out, &text);
            }
        }
    }

    fn blob(&mut self, bytes: &[u8], _: Option<&str>) {
        self.name_at = None;
        self.out.push(b'"');
        for byte in bytes {
            let _ = write!(Text(self.out), "{byte:02x}");
        }
        self.out.push(b'"');
    }

    fn begin_structure(&mut self) {
        self.name_at = None;
        self.out.push(b'{');
    }

    fn end_structure(&mut self) {
        self.name_at = None;
        self.out.push(b'}');
    }

    fn begin_array(&mut self, _: u64, _: bool) {
        self.name_at = None;
        self.out.push(b'[');
    }

    fn end_array(&mut self) {
        self.name_at = None;
        self.out.push(b']');
    }

    fn nothing(&mut self) {
        self.name_at = None;
        self.out.extend_from_slice(b"null");
    }
}

/// Appends a text in quotes. Bytes that are no UTF-8 become U+FFFD.
pub fn string(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    for chunk in bytes.utf8_chunks() {
        let valid = chunk.valid().as_bytes();
        let mut begin = 0;
        for (index, &byte) in valid.iter().enumerate() {
            if byte >= 0x20 && byte != b'"' && byte != b'\\' && byte != 0x7f {
                continue;
            }
            out.extend_from_slice(&valid[begin..index]);
            begin = index + 1;
            let _ = match byte {
                b'"' | b'\\' => write!(Text(out), "\\{}", char::from(byte)),
                b'\n' => write!(Text(out), "\\n"),
                b'\t' => write!(Text(out), "\\t"),
                b'\r' => write!(Text(out), "\\r"),
                _ => write!(Text(out), "\\u{byte:04x}"),
            };
        }
        out.extend_from_slice(&valid[begin..]);
        if !chunk.invalid().is_empty() {
            out.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped_and_what_is_no_text_is_replaced() {
        let mut out = vec![];
        string(&mut out, b"a\"b\\c\n\x01\x7f\xff\xc3\xa9");
        assert_eq!(
            String::from_utf8(out).expect("UTF-8"),
            "\"a\\\"b\\\\c\\n\\u0001\\u007f\u{fffd}é\""
        );
    }

    #[test]
    fn floating_point_keeps_what_it_is() {
        let shown = |value, bits| {
            let mut out = vec![];
            JsonValue::new(&mut out).float(value, bits);
            String::from_utf8(out).expect("UTF-8")
        };
        assert_eq!(shown(0.1, 64), "0.1");
        assert_eq!(shown(f64::from(0.1_f32), 32), "0.1");
        assert_eq!(shown(1e300, 64), "1e300");
        assert_eq!(shown(-0.0, 64), "-0.0");
        assert_eq!(shown(f64::NAN, 64), "\"NaN\"");
        assert_eq!(shown(f64::NEG_INFINITY, 32), "\"-Infinity\"");
    }
}
