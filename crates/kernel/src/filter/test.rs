// SPDX-License-Identifier: MIT OR Apache-2.0
//! One comparison of a filter: whether the field can be compared so with the value, and how the kernel is told.
//!
//! What a field can be compared with follows from its type's text alone, by the kernel's rules: those decide what it will do.

use std::sync::LazyLock;

use piste_ctf::Element;

use super::expression::{Test, Value};
use super::{FilterFault, glob};
use crate::format::{EventFormat, FieldFormat, FieldKind};
use crate::layout::Layout;

/// Names of fields in the trace; those of events are not asked for.
static LAYOUT: LazyLock<Layout> = LazyLock::new(|| Layout::new([]));

/// Bytes of a text in quotes that the kernel takes.
const TEXT_BYTES_MAX: usize = 255;

/// What the kernel can compare a field with.
enum Comparable {
    /// Numbers of this many bits.
    Number { bits: u32, is_signed: bool },
    /// Texts; at most this many bytes fit.
    Text { room: Option<u32> },
    /// The CPU: numbers, and no `&`.
    Cpu,
    /// Nothing.
    Nothing,
}

/// `test` as the kernel understands it, for the event's `filter` file.
pub(super) fn in_kernel_words(test: &Test, event: &EventFormat) -> Result<String, FilterFault> {
    let (position, name) = test.field;
    let (kernel_name, field) = find(name, event).ok_or_else(|| FilterFault {
        position,
        reason: no_such_field(name, event),
        is_missing_field: true,
    })?;
    let comparable = field.map_or_else(|| of_every_event(kernel_name), comparable);
    let operator = test.operator.1;
    let value = match comparable {
        Comparable::Nothing => {
            let type_text = field.map_or("", |field| field.type_text.trim());
            return Err(FilterFault::at(
                position,
                format!("the kernel cannot compare `{name}`, of type `{type_text}`, with anything"),
            ));
        }
        Comparable::Text { room } => text(test, room)?,
        Comparable::Cpu if operator == "&" => {
            return Err(FilterFault::at(
                test.operator.0,
                "the kernel can compare the CPU only with == != < <= > >=",
            ));
        }
        Comparable::Cpu => number(test, 32, true, None)?,
        Comparable::Number { bits, is_signed } => number(test, bits, is_signed, field)?,
    };
    Ok(format!("{kernel_name} {operator} {value}"))
}

/// The kernel's name for a field, and the field unless it is one that the kernel has for every event.
fn find<'e>(name: &'e str, event: &'e EventFormat) -> Option<(&'e str, Option<&'e FieldFormat>)> {
    if let Some(field) = event.field(name) {
        return Some((&field.name, Some(field)));
    }
    let called_so = |field: &&FieldFormat| {
        let rule = LAYOUT.field(&event.system, &event.name, &field.name);
        rule.is_some_and(|rule| rule.trace_name == name)
    };
    if let Some(field) = event.fields.iter().chain(&event.common).find(called_so) {
        return Some((&field.name, Some(field)));
    }
    let for_all = match name {
        "$tid" | "$pid" => return event.field("common_pid").map(|field| (&*field.name, Some(field))),
        "$comm" | "comm" | "COMM" => "COMM",
        "$cpu" | "cpu" | "CPU" => "CPU",
        _ => return None,
    };
    Some((for_all, None))
}

fn of_every_event(kernel_name: &str) -> Comparable {
    match kernel_name {
        "CPU" => Comparable::Cpu,
        _ => Comparable::Text { room: Some(16) },
    }
}

fn comparable(field: &FieldFormat) -> Comparable {
    let type_text = field.type_text.trim();
    let is_dynamic = type_text.contains("__data_loc") || type_text.contains("__rel_loc");
    if is_dynamic && type_text.contains("char") || matches!(type_text, "char *" | "const char *") {
        return Comparable::Text { room: None };
    }
    if !is_dynamic && type_text.contains('[') {
        let room = Some(field.bytes);
        return if type_text.contains("char") {
            Comparable::Text { room }
        } else {
            Comparable::Nothing
        };
    }
    match field.kind {
        FieldKind::Integer { element, .. } if !is_dynamic => Comparable::Number {
            bits: element.bytes() * 8,
            is_signed: matches!(
                element,
                Element::Int8 | Element::Int16 | Element::Int32 | Element::Int64
            ),
        },
        _ => Comparable::Nothing,
    }
}

fn text(test: &Test, room: Option<u32>) -> Result<String, FilterFault> {
    let (name, (operator_position, operator)) = (test.field.1, test.operator);
    if !matches!(operator, "==" | "!=" | "~") {
        return Err(FilterFault::at(
            operator_position,
            format!("`{name}` is a text: == != and ~ are allowed, not {operator}"),
        ));
    }
    let (position, value) = test.value;
    let Value::Text { content, quote } = value else {
        return Err(FilterFault::at(
            position,
            format!("`{name}` is a text: expected a text in quotes"),
        ));
    };
    let content = if operator == "~" {
        glob::in_kernel_words(content)
    } else {
        content.to_owned()
    };
    if content.len() > TEXT_BYTES_MAX {
        let reason = format!(
            "the text has {} bytes, and the kernel allows {TEXT_BYTES_MAX}",
            content.len()
        );
        return Err(FilterFault::at(position, reason));
    }
    if let Some(room) = room
        && operator != "~"
        && content.len() as u32 > room
    {
        let reason = format!(
            "the text has {} bytes, but `{name}` has room for only {room}, so they are never equal",
            content.len()
        );
        return Err(FilterFault::at(position, reason));
    }
    Ok(format!("{quote}{content}{quote}"))
}

fn number(test: &Test, bits: u32, is_signed: bool, field: Option<&FieldFormat>) -> Result<String, FilterFault> {
    let (name, (operator_position, operator)) = (test.field.1, test.operator);
    if operator == "~" {
        let reason = format!("`{name}` is a number: == != < <= > >= and & are allowed, not ~");
        return Err(FilterFault::at(operator_position, reason));
    }
    let (position, value) = test.value;
    let (text, value) = match value {
        Value::Text { .. } => {
            return Err(FilterFault::at(
                position,
                format!("`{name}` is a number: expected a number without quotes"),
            ));
        }
        Value::Word(word) => {
            let value =
                named(word, field).ok_or_else(|| FilterFault::at(position, no_such_value(word, name, field)))?;
            let value = if is_signed {
                i128::from(value)
            } else {
                i128::from(value) & ((1 << bits) - 1)
            };
            (value.to_string(), value)
        }
        Value::Number(text) => {
            let value = parse_number(text).ok_or_else(|| {
                let reason = format!("`{text}` is not a number; write for example 16, 0x10, 020 or -16");
                FilterFault::at(position, reason)
            })?;
            (text.to_owned(), value)
        }
    };
    // The kernel cuts the number to the field's width. For equality and bits it compares without sign, at the same width.
    let smallest = if is_signed { -(1 << (bits - 1)) } else { 0 };
    let without_sign = matches!(operator, "==" | "!=" | "&") && bits < 64;
    let largest = if is_signed && !without_sign {
        (1 << (bits - 1)) - 1
    } else {
        (1_i128 << bits) - 1
    };
    if value < smallest || value > largest {
        let reason = format!("`{name}` has {bits} bits: numbers from {smallest} to {largest} are allowed");
        return Err(FilterFault::at(position, reason));
    }
    Ok(text)
}

/// A number as the kernel reads it: hex after `0x`, octal after `0`.
fn parse_number(text: &str) -> Option<i128> {
    let (is_negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let (base, digits) = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(digits) => (16, digits),
        None if digits.len() > 1 && digits.starts_with('0') => (8, &digits[1..]),
        None => (10, digits),
    };
    // 23 characters of text are what the kernel has room for.
    let is_plain = text.len() < 24 && digits.chars().all(|c| c.is_digit(base));
    let value = i128::from_str_radix(digits, base).ok().filter(|_| is_plain)?;
    Some(if is_negative { -value } else { value })
}

fn named(word: &str, field: Option<&FieldFormat>) -> Option<i64> {
    let labels = &field?.names.as_ref()?.labels;
    labels.iter().find(|label| label.name == word).map(|label| label.value)
}

fn no_such_value(word: &str, name: &str, field: Option<&FieldFormat>) -> String {
    match field.and_then(|field| field.names.as_ref()) {
        None => format!("`{name}` is a number whose values have no names: expected a number, not `{word}`"),
        Some(names) => {
            let names: Vec<&str> = names.labels.iter().map(|label| &*label.name).collect();
            format!(
                "`{name}` has no value `{word}`; use a number or one of {}",
                names.join(", ")
            )
        }
    }
}

fn no_such_field(name: &str, event: &EventFormat) -> String {
    let fields: Vec<&str> = event.fields.iter().map(|field| &*field.name).collect();
    format!(
        "{} has no field `{name}`; it has {}, and every event has $tid, $comm and cpu",
        event.name,
        fields.join(", ")
    )
}
