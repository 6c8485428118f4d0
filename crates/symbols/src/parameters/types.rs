// SPDX-License-Identifier: MIT OR Apache-2.0
//! Types in debug information: what a probe can do with a value of a type, and where the members of a structure are.
//!
//! A file may claim anything: types of types of types, structures that contain themselves. So every walk has an end.

use std::collections::{HashSet, VecDeque};

use gimli::{AttributeValue, DW_AT_abstract_origin, DW_AT_specification, UnitOffset, constants as dw};

use super::{Dwarf, Unit};
use crate::binary::DwarfReader;

pub(super) type Entry = gimli::DebuggingInformationEntry<DwarfReader>;

/// Types of types: more are damage.
const DEPTH_MAX: u32 = 64;
/// Structures without a name, and base classes, that are looked through for one member: more are damage.
const STRUCTURES_MAX: usize = 1024;

/// What a type is, without its qualifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Number {
        bytes: u64,
        is_signed: bool,
    },
    Float,
    /// To a character.
    Text,
    /// To a type, or `void *`.
    Pointer(Option<UnitOffset>),
    Structure(UnitOffset),
    /// Of characters.
    TextArray,
    Other,
}

/// A member of a structure, or a base class, which has no name.
pub(super) struct Member {
    name: Option<String>,
    /// From the beginning of the structure, in bytes.
    pub(super) offset: u64,
    of_type: Option<UnitOffset>,
}

/// The types of a unit.
pub(super) struct Types<'d> {
    pub(super) dwarf: &'d Dwarf,
    pub(super) unit: &'d Unit,
}

impl Types<'_> {
    pub(super) fn kind(&self, offset: Option<UnitOffset>) -> gimli::Result<Kind> {
        self.kind_within(offset, 0)
    }

    fn kind_within(&self, offset: Option<UnitOffset>, depth: u32) -> gimli::Result<Kind> {
        let Some(offset) = offset.filter(|_| depth < DEPTH_MAX) else {
            return Ok(Kind::Other);
        };
        let entry = self.unit.entry(offset)?;
        let inner = entry.attr_value(dw::DW_AT_type).and_then(reference);
        let bytes = entry
            .attr_value(dw::DW_AT_byte_size)
            .and_then(|value| value.udata_value());
        let is_character = |kind: Kind| matches!(kind, Kind::Number { bytes: 1, .. });
        Ok(match entry.tag() {
            dw::DW_TAG_base_type => {
                let encoding = match entry.attr_value(dw::DW_AT_encoding) {
                    Some(AttributeValue::Encoding(encoding)) => encoding,
                    _ => return Ok(Kind::Other),
                };
                match (encoding, bytes) {
                    (dw::DW_ATE_float | dw::DW_ATE_complex_float, _) => Kind::Float,
                    (_, Some(bytes @ (1 | 2 | 4 | 8))) => Kind::Number {
                        bytes,
                        is_signed: matches!(encoding, dw::DW_ATE_signed | dw::DW_ATE_signed_char),
                    },
                    _ => Kind::Other,
                }
            }
            dw::DW_TAG_enumeration_type => match bytes {
                Some(bytes @ (1 | 2 | 4 | 8)) => Kind::Number {
                    bytes,
                    is_signed: false,
                },
                _ => Kind::Other,
            },
            dw::DW_TAG_pointer_type | dw::DW_TAG_reference_type | dw::DW_TAG_rvalue_reference_type => match inner {
                Some(target) if is_character(self.kind_within(Some(target), depth + 1)?) => Kind::Text,
                target => Kind::Pointer(target),
            },
            dw::DW_TAG_structure_type | dw::DW_TAG_class_type | dw::DW_TAG_union_type => Kind::Structure(offset),
            dw::DW_TAG_array_type if is_character(self.kind_within(inner, depth + 1)?) => Kind::TextArray,
            dw::DW_TAG_typedef
            | dw::DW_TAG_const_type
            | dw::DW_TAG_volatile_type
            | dw::DW_TAG_restrict_type
            | dw::DW_TAG_atomic_type => self.kind_within(inner, depth + 1)?,
            _ => Kind::Other,
        })
    }

    /// The member of a structure that has a name: its own, or one of a base class or of a structure without a name in it.
    pub(super) fn member(&self, structure: UnitOffset, name: &str) -> gimli::Result<Option<Member>> {
        let (mut waiting, mut seen) = (VecDeque::from([(structure, 0_u64)]), HashSet::new());
        while let Some((structure, base)) = waiting.pop_front() {
            if seen.len() == STRUCTURES_MAX || !seen.insert(structure) {
                continue;
            }
            for part in self.parts(structure)? {
                let Some(offset) = base.checked_add(part.offset) else {
                    continue;
                };
                if part.name.as_deref() == Some(name) {
                    return Ok(Some(Member { offset, ..part }));
                }
                if part.name.is_none()
                    && let Kind::Structure(inner) = self.kind(part.of_type)?
                {
                    waiting.push_back((inner, offset));
                }
            }
        }
        Ok(None)
    }

    pub(super) fn kind_of(&self, member: &Member) -> gimli::Result<Kind> {
        self.kind(member.of_type)
    }

    /// The names of a structure's members, to be told.
    pub(super) fn members(&self, structure: UnitOffset) -> gimli::Result<String> {
        let parts = self.parts(structure)?.into_iter();
        let names: Vec<String> = parts.filter_map(|part| part.name).collect();
        Ok(match names.is_empty() {
            true => "(the debug information lists none)".to_owned(),
            false => names.join(", "),
        })
    }

    /// Its own members, and its base classes. Bit fields are left out.
    fn parts(&self, structure: UnitOffset) -> gimli::Result<Vec<Member>> {
        let mut tree = self.unit.entries_tree(Some(structure))?;
        let mut children = tree.root()?.children();
        let mut parts = Vec::new();
        while let Some(child) = children.next()? {
            let entry = child.entry();
            let is_part = matches!(entry.tag(), dw::DW_TAG_member | dw::DW_TAG_inheritance);
            // Static ones are no part of it.
            let is_elsewhere = entry.attr(dw::DW_AT_external).is_some();
            if !is_part || is_elsewhere || entry.attr(dw::DW_AT_bit_size).is_some() {
                continue;
            }
            let offset = match entry.attr_value(dw::DW_AT_data_member_location) {
                Some(value) => value.udata_value(),
                // Of unions.
                None => Some(0),
            };
            if let Some(offset) = offset {
                parts.push(Member {
                    name: self.name(entry)?,
                    offset,
                    of_type: entry.attr_value(dw::DW_AT_type).and_then(reference),
                });
            }
        }
        Ok(parts)
    }

    pub(super) fn name(&self, entry: &Entry) -> gimli::Result<Option<String>> {
        let text = |value| {
            let text = self.dwarf.attr_string(self.unit, value)?;
            Ok(gimli::Reader::to_string_lossy(&text)?.into_owned())
        };
        self.attribute(entry, dw::DW_AT_name)?.map(text).transpose()
    }

    /// Of the entry, or of those that it is made from.
    pub(super) fn attribute(
        &self,
        entry: &Entry,
        name: dw::DwAt,
    ) -> gimli::Result<Option<AttributeValue<DwarfReader>>> {
        if let Some(value) = entry.attr_value(name) {
            return Ok(Some(value));
        }
        let mut origin = origin(entry);
        for _ in 0..DEPTH_MAX {
            let Some(offset) = origin else { break };
            let entry = self.unit.entry(offset)?;
            if let Some(value) = entry.attr_value(name) {
                return Ok(Some(value));
            }
            origin = self::origin(&entry);
        }
        Ok(None)
    }
}

fn origin(entry: &Entry) -> Option<UnitOffset> {
    let origin = entry
        .attr_value(DW_AT_abstract_origin)
        .or_else(|| entry.attr_value(DW_AT_specification));
    origin.and_then(reference)
}

/// An entry of the same unit.
pub(super) fn reference(value: AttributeValue<DwarfReader>) -> Option<UnitOffset> {
    match value {
        AttributeValue::UnitRef(offset) => Some(offset),
        _ => None,
    }
}
