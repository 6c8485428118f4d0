// SPDX-License-Identifier: MIT OR Apache-2.0
//! The declaration of a field: `unsigned long args[6];  offset:16;  size:48;  signed:0;`

use piste_ctf::{Base, Element};

use super::{Content, FieldFormat, FieldKind, Location};
use crate::print::Shown;

/// A line of a format that describes a field.
pub(super) struct Line<'a> {
    pub(super) name: &'a str,
    /// What stands before the name, without `__data_loc`: `unsigned long`, `char[]`.
    of_type: &'a str,
    /// What stands behind the name: `[6]`.
    suffix: &'a str,
    location: Option<Location>,
    offset: u32,
    bytes: u32,
    is_signed: bool,
}

impl<'a> Line<'a> {
    /// Reads what follows `field:`.
    pub(super) fn parse(text: &'a str) -> Option<Line<'a>> {
        let (declaration, numbers) = text.split_once(";\toffset:")?;
        let mut numbers = numbers.split(';').map(str::trim);
        let offset = numbers.next()?.parse().ok()?;
        let bytes = numbers.next()?.strip_prefix("size:")?.parse().ok()?;
        // Kernels of old do not tell the sign.
        let is_signed = numbers.next().and_then(|text| text.strip_prefix("signed:")) == Some("1");

        let is_name = |c: char| c.is_alphanumeric() || c == '_';
        let declaration = declaration.trim();
        // Behind the name may follow `[6]`, `[2][3]` or `:3`. In `char[] name` the brackets are of the type.
        let mut end = declaration.rfind(':').unwrap_or(declaration.len());
        while declaration[..end].ends_with(']') {
            end = declaration[..end].rfind('[')?;
        }
        let (declared, suffix) = declaration.split_at(end);
        let declared = declared.trim_end();
        let start = declared.char_indices().rev().take_while(|(_, c)| is_name(*c)).last()?.0;
        let (of_type, name) = declared.split_at(start);
        let of_type = of_type.trim();
        let (location, of_type) = if let Some(rest) = of_type.strip_prefix("__data_loc ") {
            (Some(Location::FromRecord), rest)
        } else if let Some(rest) = of_type.strip_prefix("__rel_loc ") {
            (Some(Location::FromWord), rest)
        } else {
            (None, of_type)
        };
        Some(Line {
            name,
            of_type,
            suffix,
            location,
            offset,
            bytes,
            is_signed,
        })
    }

    /// The field, which people see as `shown`.
    pub(super) fn field(&self, shown: &Shown) -> FieldFormat {
        let location = match self.location {
            Some(Location::FromRecord) => "__data_loc ",
            Some(Location::FromWord) => "__rel_loc ",
            None => "",
        };
        FieldFormat {
            name: self.name.to_owned(),
            type_text: format!("{location}{}{}", self.of_type, self.suffix),
            offset: self.offset,
            bytes: self.bytes,
            kind: self.kind(shown),
            names: shown.names().cloned(),
        }
    }

    fn kind(&self, shown: &Shown) -> FieldKind {
        if let Some(location) = self.location {
            return match self.bytes {
                4 => FieldKind::Dynamic {
                    location,
                    content: self.content(shown),
                },
                _ => FieldKind::Bytes,
            };
        }
        let is_array = self.suffix.starts_with('[') || self.of_type.ends_with(']');
        if !is_array {
            return match self.integer(self.bytes) {
                Some(element) => FieldKind::Integer {
                    element,
                    base: self.base(element, shown),
                },
                None => FieldKind::Bytes,
            };
        }
        if self.bytes == 0 {
            return FieldKind::Tail {
                content: self.content(shown),
            };
        }
        if self.is_text(shown) {
            return FieldKind::Text;
        }
        let count_told: Option<u32> = self.suffix.trim_matches(['[', ']']).parse().ok();
        let element_bytes = match (type_bytes(self.element_type()), count_told) {
            (Some(bytes), _) => bytes,
            (None, Some(count)) if count > 0 && self.bytes.is_multiple_of(count) => self.bytes / count,
            _ => return FieldKind::Bytes,
        };
        match self.integer(element_bytes) {
            Some(element) if self.bytes.is_multiple_of(element_bytes) => FieldKind::Array {
                element,
                base: self.base(element, shown),
                count: self.bytes / element_bytes,
            },
            _ => FieldKind::Bytes,
        }
    }

    /// What is at a place that records tell.
    fn content(&self, shown: &Shown) -> Content {
        let of_type = self.element_type();
        if shown.is_mask || of_type.starts_with("cpumask") {
            return Content::Mask;
        }
        if self.is_text(shown) {
            return Content::Text;
        }
        match type_bytes(of_type).and_then(|bytes| self.integer(bytes)) {
            Some(element) => Content::Elements {
                element,
                base: self.base(element, shown),
            },
            None => Content::Bytes,
        }
    }

    /// The type of one element: `char` of `char[]`.
    fn element_type(&self) -> &'a str {
        let of_type = self.of_type.split('[').next().unwrap_or_default().trim();
        of_type.strip_prefix("const ").unwrap_or(of_type)
    }

    fn is_address(&self) -> bool {
        let of_type = self.element_type();
        of_type.trim_end_matches("const").trim_end().ends_with('*')
    }

    /// Characters are a text, unless people see their numbers.
    fn is_text(&self, shown: &Shown) -> bool {
        matches!(self.element_type(), "char" | "signed char") && shown.base().is_none()
    }

    /// The integer of so many bytes that one element is, if it is one.
    fn integer(&self, bytes: u32) -> Option<Element> {
        let is_structure = ["struct ", "union "]
            .iter()
            .any(|word| self.element_type().starts_with(word));
        if is_structure && !self.is_address() {
            return None;
        }
        Some(match (bytes, self.is_signed) {
            (1, true) => Element::Int8,
            (1, false) => Element::Uint8,
            (2, true) => Element::Int16,
            (2, false) => Element::Uint16,
            (4, true) => Element::Int32,
            (4, false) => Element::Uint32,
            (8, true) => Element::Int64,
            (8, false) => Element::Uint64,
            _ => return None,
        })
    }

    fn base(&self, element: Element, shown: &Shown) -> Base {
        let is_signed = matches!(
            element,
            Element::Int8 | Element::Int16 | Element::Int32 | Element::Int64
        );
        let is_flags = shown.names().is_some_and(|names| names.is_flags);
        if self.is_address() || is_flags && !is_signed {
            return Base::Hex;
        }
        shown.base().unwrap_or_default()
    }
}

/// Bytes of a type whose name everybody knows; of others only the size of a field tells.
fn type_bytes(of_type: &str) -> Option<u32> {
    if of_type.ends_with('*') || of_type.ends_with("*const") {
        return Some(8);
    }
    Some(match of_type.trim_start_matches("__") {
        "char" | "signed char" | "unsigned char" | "u8" | "s8" | "bool" | "_Bool" | "uint8_t" | "int8_t" => 1,
        "short" | "unsigned short" | "u16" | "s16" | "le16" | "be16" | "uint16_t" | "int16_t" => 2,
        "int" | "unsigned" | "unsigned int" | "u32" | "s32" | "le32" | "be32" | "uint32_t" | "int32_t" | "pid_t"
        | "dev_t" => 4,
        "long" | "unsigned long" | "long long" | "unsigned long long" | "u64" | "s64" | "le64" | "be64"
        | "uint64_t" | "int64_t" | "size_t" | "ssize_t" | "loff_t" | "sector_t" | "dma_addr_t" | "phys_addr_t" => 8,
        _ => return None,
    })
}
