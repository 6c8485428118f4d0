// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values as cells of CSV (RFC 4180): texts and numbers as they are, names of enumerations, everything that consists of several values as JSON.

use std::io::Write;

use piste_ctf::read::characters;
use piste_ctf::read::json_value::JsonValue;
use piste_ctf::read::plan::IntegerNode;
use piste_ctf::read::schema::Encoding;
use piste_ctf::read::walk::Visitor;

/// Appends a value that is not quoted yet.
pub(super) struct CellValue<'o> {
    out: &'o mut Vec<u8>,
    depth: u32,
}

impl CellValue<'_> {
    pub(super) fn new(out: &mut Vec<u8>) -> CellValue<'_> {
        CellValue { out, depth: 0 }
    }

    fn json(&mut self) -> JsonValue<'_> {
        JsonValue::new(self.out)
    }
}

impl Visitor for CellValue<'_> {
    fn field(&mut self, name: &str) {
        self.json().field(name);
    }

    fn element(&mut self, index: u64) {
        self.json().element(index);
    }

    fn integer(&mut self, integer: &IntegerNode, value: u64) {
        let wide = match integer.is_signed {
            true => i128::from(value.cast_signed()),
            false => i128::from(value),
        };
        let is_of_value = |ranges: &[(i128, i128)]| ranges.iter().any(|&(first, last)| (first..=last).contains(&wide));
        let label = integer.labels.iter().find(|label| is_of_value(&label.ranges));
        match label.filter(|_| self.depth == 0 && integer.is_enumeration) {
            Some(label) => self.out.extend_from_slice(label.name.as_bytes()),
            // Writing to memory does not fail.
            None if self.depth == 0 => _ = write!(self.out, "{wide}"),
            None => self.json().integer(integer, value),
        }
    }

    fn symbol(&mut self, integer: &IntegerNode, value: u64, symbol: &str) {
        match self.depth {
            0 => self.out.extend_from_slice(symbol.as_bytes()),
            _ => self.json().symbol(integer, value, symbol),
        }
    }

    fn float(&mut self, value: f64, bits: u32) {
        match self.depth {
            0 if value.is_nan() => self.out.extend_from_slice(b"NaN"),
            0 if value.is_infinite() => {
                self.out
                    .extend_from_slice(if value < 0.0 { b"-Infinity" } else { b"Infinity" })
            }
            _ => self.json().float(value, bits),
        }
    }

    fn counted_text(&mut self, _: &[u8], whole: &[u8], encoding: Encoding) {
        self.text(whole, encoding);
    }

    fn text(&mut self, bytes: &[u8], encoding: Encoding) {
        match self.depth {
            0 => characters::append(self.out, bytes, encoding),
            _ => self.json().text(bytes, encoding),
        }
    }

    fn blob(&mut self, bytes: &[u8], media_type: Option<&str>) {
        match self.depth {
            0 => bytes.iter().for_each(|byte| _ = write!(self.out, "{byte:02x}")),
            _ => self.json().blob(bytes, media_type),
        }
    }

    fn begin_structure(&mut self) {
        self.depth += 1;
        self.json().begin_structure();
    }

    fn end_structure(&mut self) {
        self.depth -= 1;
        self.json().end_structure();
    }

    fn begin_array(&mut self, count: u64, is_sequence: bool) {
        self.depth += 1;
        self.json().begin_array(count, is_sequence);
    }

    fn end_array(&mut self) {
        self.depth -= 1;
        self.json().end_array();
    }

    fn nothing(&mut self) {
        if self.depth > 0 {
            self.json().nothing();
        }
    }
}

/// Puts what stands from `begin` on in quotes, if it has to be.
pub(super) fn quote(out: &mut Vec<u8>, begin: usize) {
    let cell = &out[begin..];
    let is_plain = !cell.iter().any(|byte| b"\",\r\n".contains(byte));
    if is_plain {
        return;
    }
    let mut quoted = vec![b'"'];
    for &byte in cell {
        if byte == b'"' {
            quoted.push(byte);
        }
        quoted.push(byte);
    }
    quoted.push(b'"');
    out.truncate(begin);
    out.append(&mut quoted);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_when_they_have_to_be() {
        for (cell, expected) in [
            ("tea", "tea"),
            ("", ""),
            ("a b", "a b"),
            ("a,b", "\"a,b\""),
            ("a\"b", "\"a\"\"b\""),
            ("a\nb", "\"a\nb\""),
        ] {
            let mut out = b"before,".to_vec();
            out.extend_from_slice(cell.as_bytes());
            quote(&mut out, 7);
            assert_eq!(out, format!("before,{expected}").into_bytes());
        }
    }
}
