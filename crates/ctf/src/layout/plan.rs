// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long a record of a class is: the bytes that every one has, then the parts whose size the record tells.

use super::Wrong;
use crate::description::{Field, FieldKind};
use crate::metadata::DYNAMIC_TYPES;

/// Where records of a class end.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// Up to the first part of variable size.
    fixed_bytes: u64,
    parts: Box<[Part]>,
}

/// A field of variable size, and the fields of fixed size behind it.
#[derive(Clone, Copy, Debug)]
struct Part {
    size: Size,
    fixed_bytes_after: u64,
}

#[derive(Clone, Copy, Debug)]
enum Size {
    /// Up to and including the next zero byte.
    String,
    /// A uint32 count, then as many strings.
    Strings,
    /// A uint32 count, then as many elements.
    Counted { element_bytes: u32 },
    /// A type, then a value of it.
    Dynamic,
}

impl Plan {
    /// Of records that have these behind their header, contexts and fields.
    pub(super) fn new<'a>(fields: impl Iterator<Item = &'a Field>) -> Plan {
        let mut fixed_bytes = 0_u64;
        let mut parts = Vec::<Part>::new();
        for field in fields {
            let mut fixed = |bytes: u64| {
                let run = parts
                    .last_mut()
                    .map_or(&mut fixed_bytes, |part| &mut part.fixed_bytes_after);
                *run = run.saturating_add(bytes);
            };
            let size = match &field.kind {
                FieldKind::Scalar { element, .. } | FieldKind::Named { element, .. } => {
                    fixed(element.bytes().into());
                    continue;
                }
                FieldKind::Enum { .. } => {
                    fixed(4);
                    continue;
                }
                FieldKind::Array { element, count, .. } => {
                    fixed(u64::from(element.bytes()) * u64::from(*count));
                    continue;
                }
                FieldKind::FixedText { bytes } => {
                    fixed((*bytes).into());
                    continue;
                }
                FieldKind::Sequence { element, .. } => Size::Counted {
                    element_bytes: element.bytes(),
                },
                FieldKind::Structures { members } => Size::Counted {
                    element_bytes: members.iter().map(|member| member.element.bytes()).sum(),
                },
                FieldKind::Text => Size::Counted { element_bytes: 1 },
                FieldKind::String => Size::String,
                FieldKind::Strings => Size::Strings,
                FieldKind::Dynamic => Size::Dynamic,
            };
            parts.push(Part {
                size,
                fixed_bytes_after: 0,
            });
        }
        Plan {
            fixed_bytes,
            parts: parts.into(),
        }
    }

    /// Whether all records of the class have the same length after their header.
    pub(super) fn is_fixed(&self) -> bool {
        self.parts.is_empty()
    }

    /// The length of the record at the start of `bytes`, at most all of them.
    #[inline]
    pub(super) fn record_bytes(&self, bytes: &[u8], header_bytes: usize) -> Result<usize, Wrong> {
        let left_bytes = bytes.len() as u32;
        let cut = |needed_bytes| Wrong::Cut {
            needed_bytes,
            left_bytes,
        };
        let mut length = self.fixed_bytes.saturating_add(header_bytes as u64);
        for part in &self.parts {
            let rest = usize::try_from(length)
                .ok()
                .and_then(|length| bytes.get(length..))
                .ok_or(cut(length))?;
            let part_bytes = match part.size {
                Size::String => {
                    let string_bytes = memchr::memchr(0, rest).ok_or(Wrong::EndlessString { left_bytes })?;
                    string_bytes as u64 + 1
                }
                Size::Dynamic => {
                    let (&tag, value) = rest.split_first().ok_or(cut(length.saturating_add(1)))?;
                    match DYNAMIC_TYPES.get(usize::from(tag)) {
                        None => return Err(Wrong::UnknownType { tag }),
                        Some(&(_, Some(value_bytes), _)) => 1 + value_bytes,
                        Some(_) => {
                            let end = memchr::memchr(0, value).ok_or(Wrong::EndlessString { left_bytes })?;
                            1 + end as u64 + 1
                        }
                    }
                }
                Size::Strings => {
                    let (count, strings) = rest.split_first_chunk().ok_or(cut(length.saturating_add(4)))?;
                    let count = u32::from_le_bytes(*count) as usize;
                    match count.checked_sub(1) {
                        None => 4,
                        Some(last) => {
                            let end = memchr::memchr_iter(0, strings).nth(last);
                            4 + end.ok_or(Wrong::EndlessString { left_bytes })? as u64 + 1
                        }
                    }
                }
                Size::Counted { element_bytes } => {
                    let count = rest.first_chunk().ok_or(cut(length.saturating_add(4)))?;
                    4 + u64::from(u32::from_le_bytes(*count)) * u64::from(element_bytes)
                }
            };
            length = length.saturating_add(part_bytes).saturating_add(part.fixed_bytes_after);
        }
        if length > bytes.len() as u64 {
            return Err(cut(length));
        }
        Ok(length as usize)
    }
}
