// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares an event of the trace with what the kernel says of it, field by field.

use std::collections::HashMap;

use piste_kernel::format::{Content, EventFormat, FieldFormat, FieldKind, Location};
use piste_kernel::layout::{Change, Layout};
use piste_kernel::tracefs::Tracefs;

use crate::handmade::decode::{self, Value};

/// What the kernel shows instead of addresses: functions as `name+0x1d/0x90`, where a name can stand for several, and texts.
pub(crate) struct Known {
    functions: HashMap<String, Vec<u64>>,
    /// Texts by address.
    texts: HashMap<u64, String>,
}

/// How much was compared.
#[derive(Debug, Default)]
pub(crate) struct Count {
    /// Fields whose value the kernel's text has.
    pub(crate) said: u64,
    /// Fields whose value it does not show, compared with the bytes of the record.
    pub(crate) unsaid: u64,
    pub(crate) differences: Vec<String>,
}

impl Known {
    pub(crate) fn read(tracefs: &Tracefs) -> Known {
        let mut functions = HashMap::<String, Vec<u64>>::new();
        for line in std::fs::read_to_string("/proc/kallsyms").unwrap().lines() {
            let mut columns = line.split_ascii_whitespace();
            let address = u64::from_str_radix(columns.next().unwrap(), 16).unwrap();
            let name = columns.nth(1).unwrap();
            functions.entry(name.to_owned()).or_default().push(address);
        }
        let mut texts = HashMap::new();
        for line in tracefs.read("printk_formats").unwrap().lines() {
            let (address, text) = line.split_once(" : ").unwrap();
            let address = u64::from_str_radix(address.trim_start_matches("0x"), 16).unwrap();
            texts.insert(address, text.trim_matches('"').to_owned());
        }
        Known { functions, texts }
    }

    /// Whether `text`, such as `alloc_buffer_head+0x1d/0x90`, can mean this address.
    fn is_function(&self, text: &str, address: u64) -> bool {
        let (name, offset) = text.split_once("+0x").unwrap_or((text, "0"));
        let offset = offset.split('/').next().unwrap_or_default();
        let offset = u64::from_str_radix(offset, 16).unwrap_or_default();
        let name = name.split(' ').next().unwrap_or_default();
        let addresses = self.functions.get(name).map_or(&[][..], Vec::as_slice);
        addresses.iter().any(|start| start + offset == address)
    }
}

/// Compares the fields of one event. `said` is the kernel's text of them, `values` are those of the trace by name.
pub(crate) fn event(
    format: &EventFormat,
    layout: &Layout,
    known: &Known,
    record: &[u8],
    said: &[u8],
    values: &HashMap<&str, &Value>,
    count: &mut Count,
) {
    let mut rest = said;
    for field in &format.fields {
        let (name, added) = trace_name(format, layout, field);
        let difference = |what: String| {
            format!(
                "{}:{} {}: {what}; the kernel says {:?}",
                format.system,
                format.name,
                field.name,
                String::from_utf8_lossy(said)
            )
        };
        let Some(value) = values.get(name.as_str()) else {
            count
                .differences
                .push(difference(format!("the trace has no field {name}")));
            return;
        };
        let value = with_added(value, added);
        let head = format!(" {}=", field.name);
        let Some(behind) = rest.strip_prefix(head.as_bytes()) else {
            let here = String::from_utf8_lossy(rest);
            count
                .differences
                .push(difference(format!("it is expected at {here:?}")));
            return;
        };
        match is_said(behind, field, &value, known) {
            Said::Nothing => {
                let bytes = recorded(record, field);
                if bytes.as_deref() != Some(value.bytes()) {
                    count
                        .differences
                        .push(difference(format!("{value:?} is not the record's {bytes:?}")));
                }
                count.unsaid += 1;
                let end = behind
                    .iter()
                    .position(|byte| matches!(byte, b'>' | b')'))
                    .map_or(0, |end| end + 1);
                rest = &behind[end..];
            }
            Said::Same(bytes) => {
                count.said += 1;
                rest = &behind[bytes..];
            }
            Said::Other => {
                count.differences.push(difference(format!("the trace has {value:?}")));
                return;
            }
        }
    }
    if !rest.is_empty() {
        let rest = String::from_utf8_lossy(rest);
        count
            .differences
            .push(format!("{}:{}: fields are left: {rest:?}", format.system, format.name));
    }
}

/// The name of the field of the trace that has what the kernel's field has, and what is to be added to it.
fn trace_name(format: &EventFormat, layout: &Layout, field: &FieldFormat) -> (String, i32) {
    match layout.field(&format.system, &format.name, &field.name) {
        None => (field.name.clone(), 0),
        Some(rule) => match rule.change {
            Change::Priority => (rule.trace_name.to_owned(), 100),
            Change::TaskState | Change::Request => (format!("{}_raw", rule.trace_name), 0),
            Change::Same | Change::Plain | Change::Thread => (rule.trace_name.to_owned(), 0),
        },
    }
}

fn with_added(value: &Value, added: i32) -> Value {
    match value {
        Value::Integer(bytes) if added != 0 => {
            let number = i32::from_le_bytes(bytes.as_slice().try_into().unwrap()) + added;
            Value::Integer(number.to_le_bytes().to_vec())
        }
        value => value.clone(),
    }
}

/// What the kernel's text says of a value.
enum Said {
    /// The same, in so many bytes.
    Same(usize),
    /// Another one.
    Other,
    /// None.
    Nothing,
}

/// The kernel shows no value of most arrays and structures.
fn shows_nothing(said: &[u8]) -> bool {
    said.starts_with(b"<INVALID-SIZE>") || said.starts_with(b"<LARGE>")
}

/// What `said` begins with, in one of the ways in which the kernel writes a value.
fn is_said(said: &[u8], field: &FieldFormat, value: &Value, known: &Known) -> Said {
    let is_unknown_text = field.type_text.ends_with("char *") && !known.texts.contains_key(&value.unsigned());
    match same_bytes(said, field, value, known) {
        _ if shows_nothing(said) || is_unknown_text => Said::Nothing,
        Some(bytes) => Said::Same(bytes),
        None => Said::Other,
    }
}

/// How many bytes of `said` are `value`.
fn same_bytes(said: &[u8], field: &FieldFormat, value: &Value, known: &Known) -> Option<usize> {
    if field.type_text.ends_with("char *") {
        // `(0xffff88812c60000c:End context switch)`: the address is not that of the text, but of a copy of the record.
        let text = known.texts.get(&value.unsigned())?;
        let start = said.iter().position(|byte| *byte == b':')? + 1;
        let rest = said[start..].strip_prefix(text.as_bytes())?;
        return rest.starts_with(b")").then(|| start + text.len() + 1);
    }
    let is_text = match field.kind {
        FieldKind::Text => true,
        FieldKind::Dynamic { content, .. } | FieldKind::Tail { content } => content == Content::Text,
        _ => false,
    };
    let ways = match value {
        Value::Bytes(bytes) if is_text => vec![bytes.clone()],
        // Small arrays are shown as integers.
        Value::Bytes(bytes) if matches!(bytes.len(), 1 | 2 | 4 | 8) && said.first() != Some(&b'{') => {
            return same_bytes(said, field, &Value::Integer(bytes.clone()), known);
        }
        Value::Bytes(bytes) => {
            let each: Vec<_> = bytes.iter().map(|byte| format!("0x{byte:02x}")).collect();
            vec![format!("{{{}}}", each.join(",")).into_bytes()]
        }
        Value::Integer(bytes) => {
            let number = value.unsigned();
            let text = match bytes.len() {
                1 => format!("({number})"),
                2 => format!("0x{number:x} ({number})"),
                4 => format!("0x{number:x} ({})", number as i32),
                _ => format!("0x{number:x} ({})", number as i64),
            };
            if !said.starts_with(b"0x") && bytes.len() == 8 {
                // An address of the kernel, by the name of its function.
                let end = said.windows(2).position(|two| two == b" (")?;
                let name = str::from_utf8(&said[..end]).ok()?;
                let low = format!(" ({})", number as i32);
                let is_it = known.is_function(name, number) && said[end..].starts_with(low.as_bytes());
                return is_it.then_some(end + low.len());
            }
            // The kernel takes bytes above 0xa0 for characters too.
            let character = [b"'", bytes.as_slice(), b"'", text.as_bytes()].concat();
            vec![text.into_bytes(), character]
        }
    };
    let exact = ways.iter().find(|way| {
        let behind = said.strip_prefix(way.as_slice());
        behind.is_some_and(|behind| behind.is_empty() || behind.starts_with(b" "))
    });
    if let Some(way) = exact {
        return Some(way.len());
    }
    None
}

/// The bytes of a field in the record.
fn recorded(record: &[u8], field: &FieldFormat) -> Option<Vec<u8>> {
    let offset = field.offset as usize;
    let bytes = match field.kind {
        FieldKind::Dynamic { location, .. } => {
            let word = u32::from_le_bytes(record.get(offset..offset + 4)?.try_into().ok()?);
            let base = match location {
                Location::FromRecord => 0,
                Location::FromWord => offset + 4,
            };
            let start = base + (word & 0xffff) as usize;
            record.get(start..start + (word >> 16) as usize)?
        }
        FieldKind::Tail { .. } => record.get(offset..)?,
        _ => record.get(offset..offset + field.bytes as usize)?,
    };
    let is_text = field.kind == FieldKind::Text;
    Some(if is_text { decode::text(bytes) } else { bytes }.to_vec())
}
