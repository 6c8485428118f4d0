// SPDX-License-Identifier: MIT OR Apache-2.0
//! Filters of a system call, for the BPF program that records it with what its arguments point to, or for the converter of tracefs' records, which
//! have numbers only. They mean what they mean when a trace is read; what cannot be compared is refused.

use piste_ctf::Element;
use piste_ctf::read::schema::Scope;
use piste_filter::{
    BitOperator, Comparison, Condition, Filter, FilterError, Operand, Pattern, Step, Term, Test, Value,
};
use piste_syscalls::filters::{self, Number, PATTERN_COUNT, Text};
use piste_syscalls::{Syscall, Table};

use super::{MissingField, no_operator};
use crate::convert::copies::{Comparable, comparable};
use crate::spec::Memory;

/// A filter for one system call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallTranslation {
    /// Which of its calls are recorded.
    pub condition: Condition<filters::Test>,
    /// Fields of the filter that the call does not have: comparisons with them are false.
    pub missing: Vec<MissingField>,
}

/// Translates a filter for a system call. `memory` is what the BPF program records of it; absent: tracefs records it.
///
/// # Errors
/// Where and why the filter cannot be followed while recording.
pub fn translate_call(
    filter: &Filter,
    table: Table,
    call: &Syscall,
    memory: Option<&Memory>,
) -> Result<CallTranslation, FilterError> {
    let mut missing = Vec::new();
    let mut translator = Translator {
        table,
        call,
        memory,
        missing: &mut missing,
    };
    let condition = filter.expression().of_class(&mut |test| translator.test(test))?;
    Ok(CallTranslation { condition, missing })
}

struct Translator<'a> {
    table: Table,
    call: &'a Syscall,
    memory: Option<&'a Memory>,
    missing: &'a mut Vec<MissingField>,
}

/// One side of a comparison.
enum Side<'t> {
    Constant(Value<'t>),
    /// With the bits that are compared.
    Subject(Subject, i128),
    /// The call does not have it.
    Missing,
}

/// Something to compare, by the name that it was asked for.
struct Subject {
    name: String,
    comparable: Comparable,
}

/// A constant, an operator, and where they are.
#[derive(Clone, Copy)]
struct Against<'t> {
    comparison: Comparison,
    position: usize,
    value: Value<'t>,
    value_position: usize,
}

const ALL_BITS: i128 = -1;

impl Translator<'_> {
    fn test(&mut self, test: &Test) -> Result<Condition<filters::Test>, FilterError> {
        match test {
            Test::Compare {
                left,
                position,
                comparison,
                right,
            } => {
                let against = |value, value_position, comparison| Against {
                    comparison,
                    position: *position,
                    value,
                    value_position,
                };
                match (self.side(left)?, self.side(right)?) {
                    (Side::Missing, _) | (_, Side::Missing) => Ok(Condition::Always(false)),
                    (Side::Constant(one), Side::Constant(other)) => {
                        Ok(Condition::Always(one.compares(*comparison, other)))
                    }
                    (Side::Subject(subject, mask), Side::Constant(value)) => {
                        subject.compare(mask, against(value, right.position, *comparison))
                    }
                    (Side::Constant(value), Side::Subject(subject, mask)) => {
                        subject.compare(mask, against(value, left.position, comparison.turned()))
                    }
                    (Side::Subject(..), Side::Subject(..)) => Err(FilterError::at(
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
            } => match self.side(operand)? {
                Side::Missing => Ok(Condition::Always(false)),
                Side::Constant(value) => Ok(Condition::Always(value.is_like(pattern, *is_negated))),
                Side::Subject(subject, _) => {
                    let like = subject.like(*position, pattern, *pattern_position)?;
                    Ok(if *is_negated { like.not() } else { like })
                }
            },
            Test::Exists { position, field } => {
                let term = Term::Field(field.clone());
                let side = self.subject(&term, *position)?;
                Ok(Condition::Always(side.is_some()))
            }
        }
    }

    fn side<'t>(&mut self, operand: &'t Operand) -> Result<Side<'t>, FilterError> {
        if let Some(value) = operand.constant() {
            return Ok(Side::Constant(value));
        }
        let Term::Bits {
            left,
            operator,
            position,
            right,
        } = &operand.term
        else {
            let subject = self.subject(&operand.term, operand.position)?;
            return Ok(subject.map_or(Side::Missing, |subject| Side::Subject(subject, ALL_BITS)));
        };
        if *operator != BitOperator::And {
            return Err(no_operator(*operator, *position));
        }
        match (self.side(left)?, self.side(right)?) {
            (Side::Missing, _) | (_, Side::Missing) => Ok(Side::Missing),
            (Side::Subject(subject, ALL_BITS), Side::Constant(Value::Integer(mask)))
            | (Side::Constant(Value::Integer(mask)), Side::Subject(subject, ALL_BITS))
                if mask >= 0 =>
            {
                Ok(Side::Subject(subject, mask))
            }
            _ => Err(FilterError::at(
                *position,
                "the operand of `&` must be a number of 0 or more",
            )),
        }
    }

    /// What is compared. A field that the call does not have is noted.
    fn subject(&mut self, term: &Term, position: usize) -> Result<Option<Subject>, FilterError> {
        let refused = |reason: &str| Err(FilterError::at(position, reason));
        let number = |number| Comparable::Number(number, Element::Int32);
        let found = match term {
            Term::Name => return refused("system calls are chosen by their names with --syscall, not with $name"),
            Term::Time => return refused("the kernel cannot compare $time; use it when you read the trace"),
            Term::Pid => {
                return refused(
                    "the kernel compares the thread, not the process: use $tid here, or --pid to record processes",
                );
            }
            Term::Tid => ("$tid".to_owned(), number(Number::Tid)),
            Term::Cpu => ("$cpu".to_owned(), number(Number::Cpu)),
            Term::Comm if self.memory.is_none() => {
                return refused(
                    "without BPF, a filter on system calls cannot use both $comm and arguments; use --pid or $tid, or filter when you read the trace",
                );
            }
            Term::Comm => ("$comm".to_owned(), Comparable::Text(Text::Comm)),
            Term::Field(field) if !field.scopes.contains(&Scope::Payload) => {
                return refused(
                    "the kernel compares only the event's own fields, $tid, $comm and $cpu; use contexts when you read the trace",
                );
            }
            Term::Field(field) => {
                let name = match field.path.as_slice() {
                    [Step::Name(name)] => Some(name),
                    _ => None,
                };
                match name.and_then(|name| comparable(self.table, self.call, self.memory, name)) {
                    Some(comparable) => (field.path_text(), comparable),
                    None => {
                        self.missing.push(MissingField {
                            position,
                            name: field.path_text(),
                        });
                        return Ok(None);
                    }
                }
            }
            Term::Integer(_) | Term::Float(_) | Term::Text(_) | Term::Bits { .. } => return Ok(None),
        };
        let (name, comparable) = found;
        Ok(Some(Subject { name, comparable }))
    }
}

impl Subject {
    fn compare(&self, mask: i128, against: Against<'_>) -> Result<Condition<filters::Test>, FilterError> {
        match self.comparable {
            Comparable::Number(number, element) => self.number(number, element, mask, against),
            Comparable::Text(text) => self.text(text, against),
            Comparable::AtExit | Comparable::Nothing | Comparable::NotHere => Err(self.refused(against.position)),
        }
    }

    fn refused(&self, position: usize) -> FilterError {
        let name = &self.name;
        let reason = match self.comparable {
            Comparable::AtExit => {
                format!("the kernel fills in `{name}` during the call; filter on it with `piste view --filter`")
            }
            Comparable::NotHere => format!(
                "`{name}` is in memory that an argument points to; to compare it, Piste needs BPF (see `piste doctor`), and a channel without --callstack and --no-strings"
            ),
            _ => format!("`{name}` cannot be compared while recording; filter on it with `piste view --filter`"),
        };
        FilterError::at(position, reason)
    }

    fn text(&self, text: Text, against: Against<'_>) -> Result<Condition<filters::Test>, FilterError> {
        let name = &self.name;
        let Value::Text(content) = against.value else {
            let reason = format!("`{name}` is a string: expected a string in quotes");
            return Err(FilterError::at(against.value_position, reason));
        };
        let is_negated = match against.comparison {
            Comparison::Equal => false,
            Comparison::NotEqual => true,
            comparison => {
                let sign = comparison.sign();
                let reason =
                    format!("the kernel compares the string `{name}` only with == != =~ and !~, not with {sign}");
                return Err(FilterError::at(against.position, reason));
            }
        };
        let pattern = filters::elements_of_text(content);
        let equal = matched(text, pattern, against.value_position)?;
        Ok(if is_negated { equal.not() } else { equal })
    }

    fn like(
        &self,
        position: usize,
        pattern: &Pattern,
        pattern_position: usize,
    ) -> Result<Condition<filters::Test>, FilterError> {
        match self.comparable {
            Comparable::Text(text) => matched(text, filters::elements(pattern), pattern_position),
            Comparable::Number(..) => {
                let name = &self.name;
                let reason = format!("`{name}` is a number: == != < <= > >= and & are allowed, not a pattern");
                Err(FilterError::at(position, reason))
            }
            Comparable::AtExit | Comparable::Nothing | Comparable::NotHere => Err(self.refused(position)),
        }
    }

    fn number(
        &self,
        subject: Number,
        element: Element,
        mask: i128,
        against: Against<'_>,
    ) -> Result<Condition<filters::Test>, FilterError> {
        let name = &self.name;
        let wrong = |reason: String| Err(FilterError::at(against.value_position, reason));
        let value = match against.value {
            Value::Integer(value) => value,
            // As far as numbers of this kind are exact.
            Value::Float(value) if value.fract() == 0.0 && value.abs() < 9e15 => value as i128,
            Value::Float(value) => {
                return wrong(format!(
                    "`{name}` is a whole number, and the kernel does not compare it with {value}"
                ));
            }
            _ => return wrong(format!("`{name}` is a number: expected a number without quotes")),
        };
        let bits = 8 * element.bytes();
        let is_signed = matches!(
            element,
            Element::Int8 | Element::Int16 | Element::Int32 | Element::Int64
        );
        let is_signed = is_signed && mask == ALL_BITS && against.comparison != Comparison::Bits;
        let (smallest, largest): (i128, i128) = match is_signed {
            true => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
            false => (0, (1 << bits) - 1),
        };
        if !(smallest..=largest).contains(&value) {
            return wrong(format!(
                "`{name}` has {bits} bits: numbers from {smallest} to {largest} are allowed"
            ));
        }
        let (comparison, is_negated) = match against.comparison {
            Comparison::Equal => (filters::Comparison::Equal, false),
            Comparison::NotEqual => (filters::Comparison::Equal, true),
            Comparison::Less => (filters::Comparison::Less, false),
            Comparison::GreaterOrEqual => (filters::Comparison::Less, true),
            Comparison::Greater => (filters::Comparison::Greater, false),
            Comparison::LessOrEqual => (filters::Comparison::Greater, true),
            Comparison::Bits => (filters::Comparison::Bits, false),
        };
        let test = Condition::Test(filters::Test::Number {
            subject,
            bytes: element.bytes() as u8,
            is_signed,
            mask: mask as u64,
            comparison,
            value: value as u64,
        });
        Ok(if is_negated { test.not() } else { test })
    }
}

fn matched(text: Text, pattern: Option<Vec<u16>>, position: usize) -> Result<Condition<filters::Test>, FilterError> {
    match pattern {
        Some(pattern) => Ok(Condition::Test(filters::Test::Text { subject: text, pattern })),
        None => {
            let reason = format!(
                "for system calls, the kernel takes strings and patterns of at most {PATTERN_COUNT} bytes, with `*` and `?`, not with `[ ]`"
            );
            Err(FilterError::at(position, reason))
        }
    }
}

#[cfg(test)]
mod tests {
    use piste_syscalls::Architecture;

    use super::*;

    /// What becomes of a filter of a call: the condition, or the error.
    fn check(name: &str, text: &str, expected: &str) {
        check_with(Some(&Memory::default()), (name, text), expected);
    }

    fn check_with(memory: Option<&Memory>, (name, text): (&str, &str), expected: &str) {
        let architecture = Architecture::named("x86_64");
        let call = architecture.by_name(Table::Native, name).expect(name);
        let translated = Filter::parse(text)
            .and_then(|filter| translate_call(&filter, Table::Native, call, memory))
            .map(|translation| shown(&translation.condition));
        let translated = translated.unwrap_or_else(|error| error.to_string());
        assert_eq!(translated, expected, "{name}: {text}");
    }

    fn shown(condition: &Condition<filters::Test>) -> String {
        let list = |parts: &[Condition<filters::Test>], sign: &str| {
            let parts: Vec<String> = parts.iter().map(shown).collect();
            format!("({})", parts.join(sign))
        };
        match condition {
            Condition::Always(value) => value.to_string(),
            Condition::And(parts) => list(parts, " && "),
            Condition::Or(parts) => list(parts, " || "),
            Condition::Not(inner) => format!("!{}", shown(inner)),
            Condition::Test(filters::Test::Text { subject, pattern }) => {
                let element = |element: &u16| match u8::try_from(*element) {
                    Ok(byte) => char::from(byte),
                    Err(_) if *element == 256 => '?',
                    Err(_) => '*',
                };
                format!("{subject:?} ~ {}", pattern.iter().map(element).collect::<String>())
            }
            Condition::Test(filters::Test::Number {
                subject,
                bytes,
                is_signed,
                mask,
                comparison,
                value,
            }) => {
                let sign = if *is_signed { 'i' } else { 'u' };
                let mask = if *mask == u64::MAX {
                    String::new()
                } else {
                    format!(" & {mask:#x}")
                };
                format!(
                    "{subject:?}:{sign}{}{mask} {comparison:?} {}",
                    8 * bytes,
                    value.cast_signed()
                )
            }
        }
    }

    #[test]
    fn arguments_and_what_they_point_to_are_compared() {
        check("openat", "filename =~ \"/etc/*\"", "Copy(0) ~ /etc/*");
        check("openat", "filename != \"a\"", "!Copy(0) ~ a");
        check(
            "openat",
            "dfd == -100 && flags & 0x40",
            "(Argument(0):i32 Equal -100 && Argument(2):u32 Bits 64)",
        );
        check("openat", "(flags & 3) == 1", "Argument(2):u32 & 0x3 Equal 1");
        check(
            "read",
            "count >= 4K || ret < 0",
            "(!Argument(2):u64 Less 4096 || Result:i64 Less 0)",
        );
        check("rename", "newname == \"b\"", "Copy(1) ~ b");
        check("connect", "dport == 443", "Port(0):u16 Equal 443");
        check("connect", "sun_path =~ \"/run/?\"", "Path(0) ~ /run/?");
        check("connect", "family == 2", "Member { copy: 0, offset: 0 }:u16 Equal 2");
        check(
            "nanosleep",
            "rqtp_tv_sec > 0",
            "Member { copy: 0, offset: 0 }:i64 Greater 0",
        );
        check(
            "nanosleep",
            "rqtp_tv_nsec == 5",
            "Member { copy: 0, offset: 8 }:i64 Equal 5",
        );
        check(
            "close",
            "$comm == \"sh\" && $tid == 5 && $cpu < 2",
            "(Comm ~ sh && Tid:i32 Equal 5 && Cpu:i32 Less 2)",
        );
    }

    #[test]
    fn what_a_call_does_not_have_is_false() {
        check("close", "filename == \"a\"", "false");
        check("close", "exists(fd) && !exists(filename)", "true");
        check("close", "fd == 3 || filename == \"a\"", "Argument(0):u32 Equal 3");
    }

    #[test]
    fn without_copies_there_are_numbers_only() {
        let check = |name: &str, text: &str, expected: &str| check_with(None, (name, text), expected);
        check("openat", "dfd == -100", "Argument(0):i32 Equal -100");
        check(
            "read",
            "count >= 4K && $tid != 5",
            "(!Argument(2):u64 Less 4096 && !Tid:i32 Equal 5)",
        );
        check("openat", "exists(filename)", "true");
        for (call, field) in [
            ("openat", "filename"),
            ("connect", "dport"),
            ("nanosleep", "rqtp_tv_sec"),
        ] {
            let reason = format!(
                "`{field}` is in memory that an argument points to; to compare it, Piste needs BPF (see `piste doctor`), and a channel without --callstack and --no-strings, at byte {}",
                field.len() + 1
            );
            check(call, &format!("{field} == 1"), &reason);
        }
        check(
            "read",
            "count > 1 && $comm == \"a\"",
            "without BPF, a filter on system calls cannot use both $comm and arguments; use --pid or $tid, or filter when you read the trace, at byte 13",
        );
    }

    #[test]
    fn what_cannot_be_compared_is_refused() {
        check(
            "openat",
            "filename =~ \"[ab]\"",
            "for system calls, the kernel takes strings and patterns of at most 128 bytes, with `*` and `?`, not with `[ ]`, at byte 12",
        );
        check(
            "openat",
            "filename < \"a\"",
            "the kernel compares the string `filename` only with == != =~ and !~, not with <, at byte 9",
        );
        check(
            "openat",
            "dfd == \"a\"",
            "`dfd` is a number: expected a number without quotes, at byte 7",
        );
        check(
            "execve",
            "argv == \"a\"",
            "`argv` cannot be compared while recording; filter on it with `piste view --filter`, at byte 5",
        );
        check(
            "accept",
            "sport == 1",
            "the kernel fills in `sport` during the call; filter on it with `piste view --filter`, at byte 6",
        );
        check(
            "close",
            "fd == 4294967296",
            "`fd` has 32 bits: numbers from 0 to 4294967295 are allowed, at byte 6",
        );
        check(
            "close",
            "fd == $tid",
            "the kernel compares a field with a number or a string, not with another field, at byte 3",
        );
    }
}
