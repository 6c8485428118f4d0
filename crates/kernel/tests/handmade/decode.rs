// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads packets as a reader does that knows the classes of the metadata and nothing else.

use std::collections::HashMap;

use piste_ctf::{Element, EventClass, Field, FieldKind};

/// An event that was read.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) class_id: u32,
    pub(crate) ticks: u64,
    pub(crate) contexts: Vec<Value>,
    /// In the order of the class.
    pub(crate) fields: Vec<Value>,
}

/// What a field holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// An integer's bytes, in the order of the machine.
    Integer(Vec<u8>),
    /// Bytes of all elements, or of a text without what is behind its first zero byte.
    Bytes(Vec<u8>),
}

impl Value {
    pub(crate) fn bytes(&self) -> &[u8] {
        let (Value::Integer(bytes) | Value::Bytes(bytes)) = self;
        bytes
    }

    /// The integer with its sign lost.
    pub(crate) fn unsigned(&self) -> u64 {
        let mut word = [0; 8];
        let bytes = self.bytes();
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    }
}

/// The events of a packet without its header.
pub(crate) fn events(
    mut rest: &[u8],
    begin_ticks: u64,
    contexts: &[Field],
    classes: &HashMap<u32, EventClass>,
) -> Result<Vec<Event>, String> {
    let mut ticks = begin_ticks;
    let mut events = Vec::new();
    while !rest.is_empty() {
        let word = u32::from_le_bytes(take(&mut rest, 4)?.try_into().unwrap());
        let class_id = match word & 31 {
            31 => {
                let id = [&word.to_le_bytes()[1..], take(&mut rest, 1)?].concat();
                ticks = u64::from_le_bytes(take(&mut rest, 8)?.try_into().unwrap());
                u32::from_le_bytes(id.try_into().unwrap())
            }
            id => {
                let low = u64::from(word >> 5);
                ticks += low.wrapping_sub(ticks) & ((1 << 27) - 1);
                match id {
                    30 => u16::from_le_bytes(take(&mut rest, 2)?.try_into().unwrap()).into(),
                    id => id,
                }
            }
        };
        let class = classes
            .get(&class_id)
            .ok_or_else(|| format!("no class {class_id} is in the metadata"))?;
        let mut read = |fields: &[Field]| -> Result<Vec<Value>, String> {
            let values = fields.iter().map(|field| value(&mut rest, &field.kind));
            values
                .collect::<Result<_, _>>()
                .map_err(|error| format!("{}: {error}", class.name))
        };
        let contexts = read(contexts)?;
        let fields = read(&class.fields)?;
        events.push(Event {
            class_id,
            ticks,
            contexts,
            fields,
        });
    }
    Ok(events)
}

fn value(rest: &mut &[u8], kind: &FieldKind) -> Result<Value, String> {
    let elements = |rest: &mut &[u8], element: Element, count: u32| {
        let bytes = element.bytes() as usize * count as usize;
        take(rest, bytes).map(|bytes| Value::Bytes(bytes.to_vec()))
    };
    let count = |rest: &mut &[u8]| take(rest, 4).map(|count| u32::from_le_bytes(count.try_into().unwrap()));
    match kind {
        FieldKind::Scalar { element, .. } | FieldKind::Named { element, .. } => {
            take(rest, element.bytes() as usize).map(|bytes| Value::Integer(bytes.to_vec()))
        }
        FieldKind::Array { element, count, .. } => elements(rest, *element, *count),
        FieldKind::Sequence { element, .. } => {
            let count = count(rest)?;
            elements(rest, *element, count)
        }
        FieldKind::FixedText { bytes } => take(rest, *bytes as usize).map(|bytes| Value::Bytes(text(bytes).to_vec())),
        FieldKind::String => {
            let text = text(rest).to_vec();
            take(rest, text.len() + 1)?;
            Ok(Value::Bytes(text))
        }
        FieldKind::Dynamic => match take(rest, 1)?[0] {
            0 => Ok(Value::Bytes(Vec::new())),
            1..=3 => take(rest, 8).map(|bytes| Value::Integer(bytes.to_vec())),
            4 => {
                let text = text(rest).to_vec();
                take(rest, text.len() + 1)?;
                Ok(Value::Bytes(text))
            }
            tag => Err(format!("a value of type {tag}")),
        },
        FieldKind::Strings => {
            let count = count(rest)?;
            let before = *rest;
            for _ in 0..count {
                take(rest, text(rest).len() + 1)?;
            }
            Ok(Value::Bytes(before[..before.len() - rest.len()].to_vec()))
        }
        FieldKind::Structures { members } => {
            let bytes: u32 = members.iter().map(|member| member.element.bytes()).sum();
            let count = count(rest)?;
            take(rest, (bytes * count) as usize).map(|bytes| Value::Bytes(bytes.to_vec()))
        }
        FieldKind::Text => {
            let count = count(rest)?;
            take(rest, count as usize).map(|bytes| Value::Bytes(bytes.to_vec()))
        }
        FieldKind::Enum { .. } => Err("kernel events have no such field".to_owned()),
    }
}

fn take<'a>(rest: &mut &'a [u8], bytes: usize) -> Result<&'a [u8], String> {
    let (taken, behind) = rest
        .split_at_checked(bytes)
        .ok_or_else(|| format!("{bytes} bytes are wanted, {} are left", rest.len()))?;
    *rest = behind;
    Ok(taken)
}

/// Up to the first zero byte.
pub(crate) fn text(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}
