// SPDX-License-Identifier: MIT OR Apache-2.0
//! JSON, written value by value: what a column of text has of a structure or list, and of everything in it.

use std::fmt::Display;

use piste_ctf::read::json_value::is_text;

use crate::column::Value;

/// Text that is written.
#[derive(Default)]
pub(crate) struct JsonText {
    text: String,
    depth: usize,
    needs_comma: bool,
}

impl JsonText {
    /// All of it.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn field(&mut self, name: &str) {
        self.element();
        self.quoted(name);
        self.text.push(':');
    }

    pub(crate) fn element(&mut self) {
        if self.needs_comma {
            self.text.push(',');
        }
        self.needs_comma = true;
    }

    pub(crate) fn begin(&mut self, start: char) {
        self.text.push(start);
        self.depth += 1;
        self.needs_comma = false;
    }

    /// True when that was the last.
    pub(crate) fn end(&mut self, end: char) -> bool {
        self.text.push(end);
        self.depth -= 1;
        self.needs_comma = true;
        self.depth == 0
    }

    pub(crate) fn nothing(&mut self) {
        self.text.push_str("null");
    }

    pub(crate) fn value(&mut self, value: Value<'_>) {
        match value {
            Value::Number(number, true) => self.number(number.cast_signed().unsigned_abs(), &number.cast_signed()),
            Value::Number(number, false) => self.number(number, &number),
            Value::Float(number) if number.is_finite() => self.text.push_str(&number.to_string()),
            // JSON has no others.
            Value::Float(number) => self.quoted(&number.to_string()),
            Value::Text(text) => self.quoted(text),
            Value::Bytes(bytes) => self.quoted(&bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()),
        }
    }

    fn number(&mut self, magnitude: u64, number: &dyn Display) {
        match is_text(magnitude) {
            true => self.quoted(&number.to_string()),
            false => self.text.push_str(&number.to_string()),
        }
    }

    fn quoted(&mut self, text: &str) {
        let quoted = serde_json::to_string(text).expect("a text is always JSON");
        self.text.push_str(&quoted);
    }
}
