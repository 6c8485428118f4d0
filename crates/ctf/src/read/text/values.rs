// SPDX-License-Identifier: MIT OR Apache-2.0
//! Single values as text, in the same form as in lines.

use super::{fields, numbers, strings};
use crate::read::plan::IntegerNode;
use crate::read::schema::Encoding;
use crate::read::walk::Visitor;

/// Appends the values that it looks at: `3`, `"tea"`, `{ x = 1, y = 2 }`, `[ [0] = 5 ]`.
#[derive(Debug)]
pub struct ValueText<'o> {
    out: &'o mut Vec<u8>,
    /// Of each structure around, whether a field of it was written.
    had_field: Vec<bool>,
}

impl<'o> ValueText<'o> {
    /// Appends to `out`.
    pub fn new(out: &'o mut Vec<u8>) -> ValueText<'o> {
        ValueText {
            out,
            had_field: Vec::new(),
        }
    }
}

impl Visitor for ValueText<'_> {
    fn field(&mut self, name: &str) {
        let had_field = self.had_field.last_mut();
        let is_first = !had_field.is_some_and(|had_field| std::mem::replace(had_field, true));
        self.out.extend_from_slice(if is_first { b" " } else { b", " });
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b" = ");
    }

    fn element(&mut self, index: u64) {
        self.out.extend_from_slice(if index == 0 { b" [" } else { b", [" });
        numbers::decimal(self.out, index);
        self.out.extend_from_slice(b"] = ");
    }

    fn integer(&mut self, integer: &IntegerNode, value: u64) {
        match integer.is_enumeration {
            true => fields::enumeration(self.out, integer, value),
            false => numbers::integer(self.out, integer, value),
        }
    }

    fn symbol(&mut self, integer: &IntegerNode, value: u64, symbol: &str) {
        self.integer(integer, value);
        fields::symbol(self.out, Some(symbol));
    }

    fn float(&mut self, value: f64, _: u32) {
        numbers::float(self.out, value);
    }

    fn text(&mut self, bytes: &[u8], encoding: Encoding) {
        strings::text(self.out, bytes, encoding);
    }

    fn blob(&mut self, bytes: &[u8], _: Option<&str>) {
        fields::blob(self.out, bytes);
    }

    fn begin_structure(&mut self) {
        self.out.push(b'{');
        self.had_field.push(false);
    }

    fn end_structure(&mut self) {
        self.had_field.pop();
        self.out.extend_from_slice(b" }");
    }

    fn begin_array(&mut self, _: u64, _: bool) {
        self.out.push(b'[');
    }

    fn end_array(&mut self) {
        self.out.extend_from_slice(b" ]");
    }

    fn begin_variant(&mut self, _: &str) {
        self.out.extend_from_slice(b"{ ");
    }

    fn end_variant(&mut self) {
        self.out.extend_from_slice(b" }");
    }

    fn nothing(&mut self) {
        self.out.extend_from_slice(b"<none>");
    }
}
