// SPDX-License-Identifier: MIT OR Apache-2.0
//! The metadata language of CTF 2 (specification: diamon.org/ctf, CTF2-SPEC-2.0, section 5): a JSON text sequence (RFC 7464) of fragments.
//!
//! ```text
//!   bytes --sequence--> JSON values --fragments, field_classes--> Schema
//!                                          scope: tasks and clocks of the fields of a packet
//! ```
//!
//! The text is a tracer's, and may be anything: what is wrong is an error with the number of its fragment and the way to the value there.
//! What the specification forbids is refused, because it may mean that the fields are elsewhere; attributes are free.

mod field_classes;
mod fragments;
mod object;
mod scope;
pub(crate) mod value;

pub(crate) use field_classes::ORIGINS;
pub(crate) use fragments::LOG_LEVELS;
use object::JsonPath;
use value::Value;

use super::schema::Schema;

/// Each fragment begins with it.
pub(crate) const RECORD_SEPARATOR: u8 = 0x1e;

/// Why metadata cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("fragment {fragment}{}{path}: {what}", if path.is_empty() { "" } else { ", " })]
pub struct FragmentError {
    /// From 1.
    pub fragment: u32,
    /// The way to the value from the fragment: `payload-field-class.member-classes[2].name`.
    pub path: String,
    /// A sentence.
    pub what: String,
}

/// The text is JSON. It may lack the record separators without which it is no metadata.
pub(super) fn is_json(metadata: &[u8]) -> bool {
    let first = metadata.trim_ascii_start().first();
    matches!(first, Some(&RECORD_SEPARATOR | b'{'))
}

/// Understands metadata without packets.
///
/// # Errors
/// What is wrong first.
pub fn parse(metadata: &[u8]) -> Result<Schema, FragmentError> {
    let (schema, faults) = salvage(metadata)?;
    faults.into_iter().next().map_or(Ok(schema), Err)
}

/// What the whole and sound fragments say, and what is wrong with others.
///
/// # Errors
/// What is wrong where everything may depend on it: before the first class of streams.
pub(super) fn salvage(metadata: &[u8]) -> Result<(Schema, Vec<FragmentError>), FragmentError> {
    let mut fragments = fragments::Fragments::default();
    let mut faults = Vec::new();
    let mut number = 0;
    let mut texts = metadata.split(|&byte| byte == RECORD_SEPARATOR);
    let before = texts.next().unwrap_or_default();
    if !before.trim_ascii().is_empty() {
        return Err(
            JsonPath::Fragment(1).error("expected a record separator, the byte 0x1E, with which each fragment begins")
        );
    }
    for text in texts {
        // Separators in a row are no empty fragments.
        if text.trim_ascii().is_empty() {
            continue;
        }
        number += 1;
        let place = JsonPath::Fragment(number);
        let value: Result<Value, _> = serde_json::from_slice(text);
        let added = match value {
            Ok(value) => fragments.add(&value, &place),
            Err(error) => Err(place.error(format!("invalid JSON: {error}"))),
        };
        match added {
            Err(fault) if !fragments.has_streams() => return Err(fault),
            added => faults.extend(added.err()),
        }
    }
    Ok((fragments.finish(JsonPath::Fragment(number))?, faults))
}
