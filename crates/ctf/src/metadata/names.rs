// SPDX-License-Identifier: MIT OR Apache-2.0
//! Identifiers and quoted texts of TSDL, made of names that may be anything.

use std::collections::HashSet;
use std::fmt::Write;

/// `name` as an identifier: with `_` for each character that it cannot hold, and before a digit at the start.
pub(crate) fn identifier(name: &str) -> String {
    let text = identifier_characters(name);
    if text.is_empty() || text.starts_with(|c: char| c.is_ascii_digit()) {
        return format!("_{text}");
    }
    text
}

/// The same for behind an underscore.
pub(crate) fn identifier_characters(name: &str) -> String {
    name.chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect()
}

/// `text` between quotes. What could end the quotes or the line is escaped; a zero byte, which readers would take as the end of the
/// text, becomes U+FFFD.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\0' => quoted.push(char::REPLACEMENT_CHARACTER),
            c if c.is_ascii_control() => write!(quoted, "\\{:03o}", u32::from(c)).expect("a String takes all text"),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// The field names of one event. No two are the same.
#[derive(Default)]
pub(super) struct FieldNames {
    taken: HashSet<String>,
}

impl FieldNames {
    /// The name of a field: an underscore, which readers take off again, and the program's name for it.
    pub(super) fn one(&mut self, name: &str) -> String {
        self.take(name, |_| None)
    }

    /// The name of a field and of the one that holds its length.
    pub(super) fn with_length(&mut self, name: &str) -> (String, String) {
        let name = self.take(name, |name| Some(length_name(name)));
        let length = length_name(&name);
        (name, length)
    }

    /// The name of a field and of the one that says of what type it is.
    pub(super) fn with_tag(&mut self, name: &str) -> (String, String) {
        let name = self.take(name, |name| Some(tag_name(name)));
        let tag = tag_name(&name);
        (name, tag)
    }

    fn take(&mut self, name: &str, companion: impl Fn(&str) -> Option<String>) -> String {
        let name = if name.is_empty() { "unnamed" } else { name };
        let stem = format!("_{}", identifier_characters(name));
        let numbered = (2..).map(|number| format!("{stem}_{number}"));
        let free = |name: &String| {
            let is_free = |name: &String| !self.taken.contains(name) && !KEYWORDS.contains(&name.as_str());
            is_free(name) && companion(name).as_ref().is_none_or(is_free)
        };
        let name = std::iter::once(stem.clone())
            .chain(numbered)
            .find(free)
            .expect("numbers do not end");
        self.taken.extend(companion(&name));
        self.taken.insert(name.clone());
        name
    }
}

fn tag_name(name: &str) -> String {
    format!("_{name}_tag")
}

fn length_name(name: &str) -> String {
    format!("_{name}_length")
}

/// Keywords of TSDL that start with an underscore.
const KEYWORDS: [&str; 3] = ["_Bool", "_Complex", "_Imaginary"];
