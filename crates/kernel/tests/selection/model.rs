// SPDX-License-Identifier: MIT OR Apache-2.0
//! A model of filters: expressions made at random, as text and as what they say of a record.

use fastrand::Rng;
use piste_ctf::Element;
use piste_kernel::format::{Content, EventFormat, FieldFormat, FieldKind, Location};
use piste_kernel::layout::{Change, Layout};

use super::recorder::Record;

pub(crate) fn one_of<'a, T>(list: &'a [T], random: &mut Rng) -> &'a T {
    &list[random.usize(..list.len())]
}

/// A value of a field.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Value {
    Number(i128),
    Text(Vec<u8>),
}

/// What an expression looks at.
#[derive(Debug, Clone)]
pub(crate) enum Subject {
    Field {
        field: FieldFormat,
        /// As a filter calls it.
        name: String,
        /// How much less its value is in a filter than in the record.
        shift: i128,
    },
    Cpu,
}

#[derive(Debug, Clone)]
pub(crate) enum Model {
    Any(Vec<Model>),
    All(Vec<Model>),
    Not(Box<Model>),
    Test(Subject, &'static str, Value),
}

/// What can be compared of an event.
pub(crate) fn subjects(event: &EventFormat) -> Vec<Subject> {
    let fields = event.fields.iter().chain(&event.common).filter(|field| {
        matches!(field.kind, FieldKind::Integer { .. } | FieldKind::Text)
            || matches!(
                field.kind,
                FieldKind::Dynamic {
                    content: Content::Text,
                    ..
                }
            )
    });
    // Texts by address are compared where they are, and are not in the record.
    let fields = fields.filter(|field| !field.type_text.contains('*')).cloned();
    let layout = Layout::new([]);
    let subject = |field: FieldFormat| {
        let rule = layout.field(&event.system, &event.name, &field.name);
        let (name, shift) = match rule.map(|rule| (rule.trace_name, rule.change)) {
            Some((name, Change::Priority)) => (name.to_owned(), 100),
            Some((name, Change::TaskState | Change::Request)) => (format!("{name}_raw"), 0),
            Some((name, _)) => (name.to_owned(), 0),
            None if field.name == "common_pid" => ("$tid".to_owned(), 0),
            // A field of this name is not what `name` alone stands for.
            None => (format!("$payload.{}", field.name), 0),
        };
        Subject::Field { field, name, shift }
    };
    fields.map(subject).chain([Subject::Cpu]).collect()
}

impl Subject {
    pub(crate) fn name(&self) -> &str {
        match self {
            Subject::Field { name, .. } => name,
            Subject::Cpu => "$cpu",
        }
    }

    pub(crate) fn value(&self, record: &Record) -> Value {
        let (field, shift) = match self {
            Subject::Cpu => return Value::Number(record.cpu.into()),
            Subject::Field { field, shift, .. } => (field, shift),
        };
        let offset = field.offset as usize;
        let bytes = &record.bytes[offset..offset + field.bytes as usize];
        match &field.kind {
            FieldKind::Integer { element, .. } => Value::Number(number(*element, bytes) - shift),
            FieldKind::Dynamic { location, .. } => {
                let word = u32::from_ne_bytes(bytes.try_into().expect("a word")) as usize;
                let base = if *location == Location::FromRecord {
                    0
                } else {
                    offset + 4
                };
                let start = base + (word & 0xffff);
                Value::Text(until_zero(&record.bytes[start..start + (word >> 16)]))
            }
            _ => Value::Text(until_zero(bytes)),
        }
    }
}

fn until_zero(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().copied().take_while(|&byte| byte != 0).collect()
}

fn number(element: Element, bytes: &[u8]) -> i128 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    let word = u64::from_le_bytes(word);
    match element {
        Element::Int8 => (word as i8).into(),
        Element::Int16 => (word as i16).into(),
        Element::Int32 => (word as i32).into(),
        Element::Int64 => (word as i64).into(),
        _ => word.into(),
    }
}

/// An expression about `subjects`; some of its values are those of `samples`.
pub(crate) fn random(random: &mut Rng, subjects: &[Subject], samples: &[Record], depth: usize) -> Model {
    let parts = |random: &mut Rng| {
        (0..2 + random.usize(..2))
            .map(|_| self::random(random, subjects, samples, depth - 1))
            .collect()
    };
    match random.usize(..if depth == 0 { 1 } else { 5 }) {
        1 => Model::Any(parts(random)),
        2 => Model::All(parts(random)),
        3 => Model::Not(Box::new(self::random(random, subjects, samples, depth - 1))),
        _ => test(random, subjects, samples),
    }
}

fn test(random: &mut Rng, subjects: &[Subject], samples: &[Record]) -> Model {
    let subject = one_of(subjects, random).clone();
    let sample = match samples {
        [] => None,
        samples => Some(subject.value(one_of(samples, random))),
    };
    let is_text = matches!(&subject, Subject::Field { field, .. } if !matches!(field.kind, FieldKind::Integer { .. }));
    if is_text {
        let text = match sample {
            Some(Value::Text(text)) => text,
            _ => b"a".to_vec(),
        };
        return match random.usize(..3) {
            0 => Model::Test(subject, "==", Value::Text(text)),
            1 => Model::Test(subject, "!=", Value::Text(text)),
            _ => Model::Test(subject, "=~", Value::Text(pattern(random, &text))),
        };
    }
    let (smallest, largest) = range(&subject);
    let known = match sample {
        Some(Value::Number(number)) => number,
        _ => 0,
    };
    let number = *one_of(
        &[known, known, known + 1, known - 1, 0, 1, 100, largest, smallest],
        random,
    );
    let operators = match subject {
        Subject::Cpu => &["==", "!=", "<", "<=", ">", ">="][..],
        // The bits of a value that is shifted are nothing to the kernel.
        Subject::Field { shift: 0, .. } => &["==", "!=", "<", "<=", ">", ">=", "&"],
        Subject::Field { .. } => &["==", "!=", "<", "<=", ">", ">="],
    };
    Model::Test(
        subject,
        operators[random.usize(..operators.len())],
        Value::Number(number.clamp(smallest, largest)),
    )
}

/// What values a number can have.
fn range(subject: &Subject) -> (i128, i128) {
    let (element, shift) = match subject {
        Subject::Field { field, shift, .. } => match field.kind {
            FieldKind::Integer { element, .. } => (element, *shift),
            _ => (Element::Int32, 0),
        },
        Subject::Cpu => (Element::Int32, 0),
    };
    let bits = element.bytes() * 8;
    let (smallest, largest): (i128, i128) = match element {
        Element::Int8 | Element::Int16 | Element::Int32 | Element::Int64 => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        _ => (0, (1 << bits) - 1),
    };
    (smallest - shift, largest - shift)
}

/// A pattern that has to do with `text`.
fn pattern(random: &mut Rng, text: &[u8]) -> Vec<u8> {
    let start = random.usize(..text.len() + 1);
    let end = start + random.usize(..text.len() - start + 1);
    let middle = &text[start..end];
    match random.usize(..6) {
        0 => [&text[..end], b"*"].concat(),
        1 => [b"*", &text[start..]].concat(),
        2 => [b"*", middle, b"*"].concat(),
        3 => [&text[..start], b"*", &text[end..]].concat(),
        4 if !text.is_empty() => {
            let mut pattern = text.to_vec();
            pattern[start.min(text.len() - 1)] = b'?';
            pattern
        }
        _ => text.to_vec(),
    }
}

impl Model {
    /// As somebody might write it: no more parentheses than needed, spaces or none.
    pub(crate) fn text(&self, random: &mut Rng) -> String {
        let parts = |parts: &[Model], operator: &str, random: &mut Rng| {
            let space = *one_of(&["", " ", "  "], random);
            let parts = parts.iter().map(|part| match part {
                Model::Any(_) if operator == "&&" => format!("({})", part.text(random)),
                _ => part.text(random),
            });
            parts.collect::<Vec<_>>().join(&format!("{space}{operator}{space}"))
        };
        match self {
            Model::Any(list) => parts(list, "||", random),
            Model::All(list) => parts(list, "&&", random),
            Model::Not(part) => match **part {
                Model::Test(..) => format!("!{}", part.text(random)),
                _ => format!("! ({})", part.text(random)),
            },
            Model::Test(subject, operator, Value::Number(number)) => {
                let hex = |number: &i128| {
                    if *number < 0 {
                        number.to_string()
                    } else {
                        format!("{number:#x}")
                    }
                };
                let number = if random.usize(..3) == 0 {
                    hex(number)
                } else {
                    number.to_string()
                };
                format!("{} {operator}{number}", subject.name())
            }
            Model::Test(subject, operator, Value::Text(text)) => {
                // In a pattern, `[` would begin a set.
                let signs: &[char] = if *operator == "=~" {
                    &['\\', '"', '[']
                } else {
                    &['\\', '"']
                };
                let mut quoted = String::new();
                for character in String::from_utf8_lossy(text).chars() {
                    quoted.extend(signs.contains(&character).then_some('\\'));
                    quoted.push(character);
                }
                format!("{} {operator} \"{quoted}\"", subject.name())
            }
        }
    }

    /// What it says of a record.
    pub(crate) fn says(&self, record: &Record) -> bool {
        match self {
            Model::Any(parts) => parts.iter().any(|part| part.says(record)),
            Model::All(parts) => parts.iter().all(|part| part.says(record)),
            Model::Not(part) => !part.says(record),
            Model::Test(subject, operator, value) => match (subject.value(record), value) {
                (Value::Number(number), Value::Number(other)) => match *operator {
                    "==" => number == *other,
                    "!=" => number != *other,
                    "<" => number < *other,
                    "<=" => number <= *other,
                    ">" => number > *other,
                    ">=" => number >= *other,
                    _ => number & *other != 0,
                },
                (Value::Text(text), Value::Text(other)) => match *operator {
                    "==" => text == *other,
                    "!=" => text != *other,
                    _ => is_like(other, &text),
                },
                _ => false,
            },
        }
    }
}

fn is_like(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern, text) {
        ([], _) => text.is_empty(),
        ([b'*', pattern @ ..], _) => (0..=text.len()).any(|start| is_like(pattern, &text[start..])),
        ([b'?', pattern @ ..], [_, text @ ..]) => is_like(pattern, text),
        ([one, pattern @ ..], [other, text @ ..]) => one == other && is_like(pattern, text),
        _ => false,
    }
}
