// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tests of a filter, one by one, in the kernel's words.

use piste_ctf::Label;
use piste_ctf::read::schema::Scope;
use piste_filter::{BitOperator, Comparison, Condition, Field, FilterError, Operand, Pattern, Step, Term, Test, Value};

use super::pattern;
use super::subject::{Comparable, Meaning, Subject};
use super::{MissingField, no_operator};
use crate::format::EventFormat;
use crate::plan::kernel_state_bits;

/// Bytes of a text in quotes that the kernel takes.
const TEXT_BYTES_MAX: usize = 255;
/// What the trace takes away from priorities.
const REALTIME_PRIORITIES: i128 = 100;

/// Translates the tests of one filter for one event.
pub(super) struct Translator<'e> {
    pub(super) event: &'e EventFormat,
    /// The event's name in the trace; `None` when it has several.
    pub(super) trace_name: Option<&'e str>,
    /// Fields that the event does not have.
    pub(super) missing: Vec<MissingField>,
}

/// One side of a comparison.
enum Side<'t> {
    Constant(Value<'t>),
    Subject(Subject<'t>),
    /// Some bits of a number.
    Bits(Subject<'t>, i128),
    /// The event does not have it.
    Missing,
}

/// A constant, an operator, and where they are.
#[derive(Clone, Copy)]
struct Against<'t> {
    comparison: Comparison,
    position: usize,
    value: Value<'t>,
    value_position: usize,
}

impl<'e> Translator<'e> {
    pub(super) fn test(&mut self, test: &Test) -> Result<Condition<String>, FilterError> {
        match test {
            Test::Compare {
                left,
                position,
                comparison,
                right,
            } => {
                let sides = (self.side(left)?, self.side(right)?);
                let against = |value, value_position, comparison| Against {
                    comparison,
                    position: *position,
                    value,
                    value_position,
                };
                match sides {
                    (Side::Missing, _) | (_, Side::Missing) => Ok(Condition::Always(false)),
                    (Side::Constant(one), Side::Constant(other)) => {
                        Ok(Condition::Always(one.compares(*comparison, other)))
                    }
                    (side, Side::Constant(value)) => compare(&side, against(value, right.position, *comparison)),
                    (Side::Constant(value), side) => compare(&side, against(value, left.position, comparison.turned())),
                    _ => Err(FilterError::at(
                        *position,
                        "the kernel compares a field with a number or a string, not with another field",
                    )),
                }
            }
            Test::Like {
                operand,
                position,
                is_negated,
                pattern_position,
                pattern,
            } => {
                let like = match self.side(operand)? {
                    Side::Missing => return Ok(Condition::Always(false)),
                    Side::Constant(value) => return Ok(Condition::Always(value.is_like(pattern, *is_negated))),
                    Side::Subject(subject) => like(subject, *position, pattern, *pattern_position)?,
                    Side::Bits(subject, _) => return Err(number_is_not_like(subject, *position)),
                };
                Ok(if *is_negated { like.not() } else { like })
            }
            Test::Exists { position, field } => Ok(Condition::Always(self.field(field, *position)?.is_some())),
        }
    }

    fn side<'t>(&mut self, operand: &'t Operand) -> Result<Side<'t>, FilterError>
    where
        'e: 't,
    {
        if let Some(value) = operand.constant() {
            return Ok(Side::Constant(value));
        }
        let refused = |reason: &str| Err(FilterError::at(operand.position, reason));
        let subject = match &operand.term {
            Term::Name => match self.trace_name {
                Some(name) => return Ok(Side::Constant(Value::Text(name.as_bytes()))),
                None => return refused("system calls are chosen by their names with --syscall, not with $name"),
            },
            Term::Time => return refused("the kernel cannot compare $time; use it when you read the trace"),
            Term::Pid => {
                return refused(
                    "the kernel compares the thread, not the process: use $tid here, or --pid to record processes",
                );
            }
            Term::Tid => Subject::thread(self.event),
            Term::Comm => Some(Subject::comm()),
            Term::Cpu => Some(Subject::cpu()),
            Term::Field(field) => self.field(field, operand.position)?,
            Term::Bits {
                left,
                operator: BitOperator::And,
                position,
                right,
            } => return self.bits(left, *position, right),
            Term::Bits { operator, position, .. } => return Err(no_operator(*operator, *position)),
            Term::Integer(_) | Term::Float(_) | Term::Text(_) => None,
        };
        Ok(subject.map_or(Side::Missing, Side::Subject))
    }

    /// `(a & b)`, of which one is a number.
    fn bits<'t>(&mut self, left: &'t Operand, position: usize, right: &'t Operand) -> Result<Side<'t>, FilterError>
    where
        'e: 't,
    {
        match (self.side(left)?, self.side(right)?) {
            (Side::Missing, _) | (_, Side::Missing) => Ok(Side::Missing),
            (Side::Subject(subject), Side::Constant(Value::Integer(mask)))
            | (Side::Constant(Value::Integer(mask)), Side::Subject(subject)) => Ok(Side::Bits(subject, mask)),
            _ => Err(FilterError::at(
                position,
                "the kernel combines the bits of a field with a number only",
            )),
        }
    }

    /// A field of the event. One that it does not have is noted.
    fn field<'t>(&mut self, field: &'t Field, position: usize) -> Result<Option<Subject<'t>>, FilterError>
    where
        'e: 't,
    {
        if !field.scopes.contains(&Scope::Payload) {
            let reason = "the kernel compares only the event's own fields, $tid, $comm and $cpu; use contexts when you read the trace";
            return Err(FilterError::at(position, reason));
        }
        let found = match field.path.first() {
            Some(Step::Name(name)) => Subject::find(name, self.event),
            _ => None,
        };
        match found {
            Some(subject) if field.path.len() == 1 => Ok(Some(subject)),
            Some(subject) => Err(FilterError::at(
                position,
                format!("the kernel compares only whole fields, not parts of `{}`", subject.name),
            )),
            None => {
                self.missing.push(MissingField {
                    position,
                    name: field.path_text(),
                });
                Ok(None)
            }
        }
    }
}

/// A field, or bits of one, against a constant.
fn compare(side: &Side<'_>, against: Against<'_>) -> Result<Condition<String>, FilterError> {
    match side {
        Side::Subject(subject) => match subject.comparable {
            Comparable::Nothing { type_text } => Err(FilterError::at(
                against.position,
                format!(
                    "the kernel cannot compare `{}`, of type `{type_text}`, with anything",
                    subject.name
                ),
            )),
            Comparable::Text { room } => text(*subject, room, against),
            Comparable::Number { .. } | Comparable::Cpu => number(*subject, against),
        },
        Side::Bits(subject, mask) => masked(*subject, *mask, against),
        Side::Constant(_) | Side::Missing => Ok(Condition::Always(false)),
    }
}

fn text(subject: Subject<'_>, room: Option<u32>, against: Against<'_>) -> Result<Condition<String>, FilterError> {
    let name = subject.name;
    not_letters(subject, against.position)?;
    let sign = against.comparison.sign();
    if !matches!(against.comparison, Comparison::Equal | Comparison::NotEqual) {
        let reason = format!("the kernel compares the string `{name}` only with == != =~ and !~, not with {sign}");
        return Err(FilterError::at(against.position, reason));
    }
    let Value::Text(content) = against.value else {
        let reason = format!("`{name}` is a string: expected a string in quotes");
        return Err(FilterError::at(against.value_position, reason));
    };
    if let Some(room) = room
        && content.len() > room as usize
    {
        let reason = format!(
            "the string has {} bytes, but `{name}` has room for only {room}, so they are never equal",
            content.len()
        );
        return Err(FilterError::at(against.value_position, reason));
    }
    let content = quoted(content, against.value_position)?;
    Ok(Condition::Test(format!("{} {sign} {content}", subject.kernel_name)))
}

/// In quotes, between which the kernel takes every byte as it is.
fn quoted(content: &[u8], position: usize) -> Result<String, FilterError> {
    let content = str::from_utf8(content).map_err(|_| FilterError::at(position, "it is not UTF-8"))?;
    if content.chars().any(char::is_control) {
        return Err(FilterError::at(
            position,
            "the kernel takes no control characters in a filter",
        ));
    }
    if content.len() > TEXT_BYTES_MAX {
        let reason = format!(
            "the string has {} bytes in the kernel's syntax, and the kernel allows {TEXT_BYTES_MAX}",
            content.len()
        );
        return Err(FilterError::at(position, reason));
    }
    match (content.contains('"'), content.contains('\'')) {
        (false, _) => Ok(format!("\"{content}\"")),
        (true, false) => Ok(format!("'{content}'")),
        (true, true) => Err(FilterError::at(
            position,
            "the kernel cannot compare a string that contains both `\"` and `'`; a pattern with `?` in place of one of them can match it",
        )),
    }
}

fn like(
    subject: Subject<'_>,
    position: usize,
    pattern: &Pattern,
    pattern_position: usize,
) -> Result<Condition<String>, FilterError> {
    if let Comparable::Text { .. } = subject.comparable {
        not_letters(subject, position)?;
        let words = pattern::in_kernel_words(pattern);
        let words = words
            .ok_or_else(|| FilterError::at(pattern_position, "the kernel takes no control characters in a filter"))?;
        let words = quoted(words.as_bytes(), pattern_position)?;
        return Ok(Condition::Test(format!("{} ~ {words}", subject.kernel_name)));
    }
    if subject.labels.is_empty() {
        return Err(number_is_not_like(subject, position));
    }
    let named = subject
        .labels
        .iter()
        .filter(|label| pattern.matches(label.name.as_bytes()));
    let tests = named.map(|label| {
        numeric(
            subject,
            Comparison::Equal,
            value_of(label, subject),
            (position, pattern_position),
        )
    });
    let tests: Vec<_> = tests.collect::<Result<_, _>>()?;
    match tests.is_empty() {
        true => Err(FilterError::at(
            pattern_position,
            no_such_value(pattern.text(), subject),
        )),
        false => Ok(Condition::any(tests)),
    }
}

fn number_is_not_like(subject: Subject<'_>, position: usize) -> FilterError {
    let reason = format!(
        "`{}` is a number without names of values: == != < <= > >= and & are allowed, not a pattern",
        subject.name
    );
    FilterError::at(position, reason)
}

/// The kernel has the letters of a block request, and the trace makes bits of them.
fn not_letters(subject: Subject<'_>, position: usize) -> Result<(), FilterError> {
    let name = subject.name;
    match subject.meaning {
        Meaning::Letters => Err(FilterError::at(
            position,
            format!("the kernel has no bits of `{name}`, only its letters: use `{name}_raw` (a string such as \"WS\")"),
        )),
        _ => Ok(()),
    }
}

fn number(subject: Subject<'_>, against: Against<'_>) -> Result<Condition<String>, FilterError> {
    let name = subject.name;
    let positions = (against.position, against.value_position);
    let wrong = |reason: String| Err(FilterError::at(against.value_position, reason));
    match against.value {
        Value::Integer(value) => numeric(subject, against.comparison, value, positions),
        // As far as numbers of this kind are exact.
        Value::Float(value) if value.fract() == 0.0 && value.abs() < 9e15 => {
            numeric(subject, against.comparison, value as i128, positions)
        }
        Value::Float(value) => wrong(format!(
            "`{name}` is a whole number, and the kernel does not compare it with {value}"
        )),
        Value::Text(_) if subject.labels.is_empty() => {
            wrong(format!("`{name}` is a number: expected a number without quotes"))
        }
        Value::Text(text) => {
            let (comparison, is_negated) = match against.comparison {
                Comparison::NotEqual => (Comparison::Equal, true),
                Comparison::Equal | Comparison::Bits => (against.comparison, false),
                _ => {
                    let reason = "names of values are compared only with == != =~ !~ and &";
                    return Err(FilterError::at(against.position, reason));
                }
            };
            let named = subject.labels.iter().filter(|label| label.name.as_bytes() == text);
            let tests = named.map(|label| numeric(subject, comparison, value_of(label, subject), positions));
            let tests: Vec<_> = tests.collect::<Result<_, _>>()?;
            if tests.is_empty() {
                return wrong(no_such_value(&String::from_utf8_lossy(text), subject));
            }
            let one_of_them = Condition::any(tests);
            Ok(if is_negated { one_of_them.not() } else { one_of_them })
        }
        _ => Ok(Condition::Always(false)),
    }
}

/// A number of the trace against another. `positions` are those of the operator and the value.
fn numeric(
    subject: Subject<'_>,
    comparison: Comparison,
    value: i128,
    positions: (usize, usize),
) -> Result<Condition<String>, FilterError> {
    let name = subject.name;
    let refused = |reason: String| Err(FilterError::at(positions.0, reason));
    let is_bits = comparison == Comparison::Bits;
    match subject.meaning {
        Meaning::Same => plain(subject, comparison, value, positions, 0),
        Meaning::Priority if is_bits => refused(format!(
            "the kernel cannot compare the bits of `{name}`, whose values are shifted"
        )),
        Meaning::Priority => plain(subject, comparison, value, positions, REALTIME_PRIORITIES),
        Meaning::TaskState => state(subject, comparison, value, positions),
        Meaning::Letters => not_letters(subject, positions.0).map(|()| Condition::Always(false)),
        Meaning::Process => {
            let thread = name.replace("pid", "tid");
            refused(format!(
                "the kernel does not know the process `{name}`; use `{thread}`, the thread"
            ))
        }
    }
}

/// A number of the kernel, which is `shift` more than that of the trace.
fn plain(
    subject: Subject<'_>,
    comparison: Comparison,
    value: i128,
    positions: (usize, usize),
    shift: i128,
) -> Result<Condition<String>, FilterError> {
    let (name, is_bits) = (subject.name, comparison == Comparison::Bits);
    let (bits, is_signed) = match subject.comparable {
        Comparable::Number { bits, is_signed } => (bits, is_signed),
        _ if is_bits => {
            let reason = "the kernel compares the CPU only with == != < <= > >=";
            return Err(FilterError::at(positions.0, reason));
        }
        _ => (32, true),
    };
    let smallest: i128 = if is_signed { -(1 << (bits - 1)) } else { 0 };
    // The kernel cuts a number to the field's width, so bits may be written without a sign.
    let largest: i128 = if is_signed && !is_bits {
        (1 << (bits - 1)) - 1
    } else {
        (1 << bits) - 1
    };
    if value + shift < smallest || value + shift > largest {
        let (from, to) = (smallest - shift, largest - shift);
        let reason = format!("`{name}` has {bits} bits: numbers from {from} to {to} are allowed");
        return Err(FilterError::at(positions.1, reason));
    }
    // A number with a sign is read as one of 64 bits with a sign.
    let words = match i64::try_from(value + shift) {
        Err(_) if is_signed => (value + shift - (1 << 64)).to_string(),
        _ => (value + shift).to_string(),
    };
    Ok(Condition::Test(format!(
        "{} {} {words}",
        subject.kernel_name,
        comparison.sign()
    )))
}

/// `(a & mask) == value`, bit by bit: the kernel can only tell whether a bit is set.
fn masked(subject: Subject<'_>, mask: i128, against: Against<'_>) -> Result<Condition<String>, FilterError> {
    let name = subject.name;
    let refused = |reason: String| Err(FilterError::at(against.position, reason));
    if !matches!(subject.comparable, Comparable::Number { .. }) || mask < 0 {
        return refused(format!(
            "the kernel combines the bits of a number with a positive number, not `{name}` with {mask}"
        ));
    }
    let Value::Integer(value) = against.value else {
        let reason = format!("the bits of `{name}` are a number: expected a whole number");
        return Err(FilterError::at(against.value_position, reason));
    };
    let positions = (against.position, against.value_position);
    let has = |bits: i128| numeric(subject, Comparison::Bits, bits, positions);
    let is_equal = |value: i128| {
        if value & !mask != 0 {
            return Ok(Condition::Always(false));
        }
        let mut all = each_bit(value).map(has).collect::<Result<Vec<_>, _>>()?;
        if mask & !value != 0 {
            all.push(has(mask & !value)?.not());
        }
        Ok(Condition::all(all))
    };
    match against.comparison {
        Comparison::Equal => is_equal(value),
        Comparison::NotEqual => Ok(is_equal(value)?.not()),
        Comparison::Bits => match mask & value {
            0 => Ok(Condition::Always(false)),
            both => has(both),
        },
        _ => refused(format!("the kernel compares bits of `{name}` only with == and !=")),
    }
}

/// The state of a thread, whose bits are others in the trace.
fn state(
    subject: Subject<'_>,
    comparison: Comparison,
    value: i128,
    positions: (usize, usize),
) -> Result<Condition<String>, FilterError> {
    let name = subject.name;
    let Ok(bits) = u64::try_from(value) else {
        let reason = format!("`{name}` is a set of bits: numbers from 0 to {} are allowed", u64::MAX);
        return Err(FilterError::at(positions.1, reason));
    };
    let has = |bits: u64| match kernel_state_bits(bits) {
        0 => Condition::Always(false),
        bits => Condition::Test(format!("{} & {}", subject.kernel_name, bits.cast_signed())),
    };
    let is_equal = || {
        let set = each_bit(value).map(|bit| has(bit as u64));
        Condition::all(set.chain([has(!bits).not()]).collect())
    };
    match comparison {
        Comparison::Bits => Ok(has(bits)),
        Comparison::Equal => Ok(is_equal()),
        Comparison::NotEqual => Ok(is_equal().not()),
        _ => Err(FilterError::at(
            positions.0,
            format!("`{name}` is a set of bits: == != and & are allowed; `{name}_raw` is the kernel's number"),
        )),
    }
}

/// The value that a name stands for, with as many bits as the field has.
fn value_of(label: &Label, subject: Subject<'_>) -> i128 {
    let value = i128::from(label.value);
    match subject.comparable {
        Comparable::Number { bits, is_signed: false } => value & ((1 << bits) - 1),
        _ => value,
    }
}

fn each_bit(bits: i128) -> impl Iterator<Item = i128> {
    (0..127).map(|index| 1 << index).filter(move |bit| bits & bit != 0)
}

fn no_such_value(text: &str, subject: Subject<'_>) -> String {
    let names: Vec<&str> = subject.labels.iter().map(|label| &*label.name).collect();
    format!(
        "`{}` has no value \"{text}\"; use a number or one of {}",
        subject.name,
        names.join(", ")
    )
}
