// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a test means: which values fulfil it. Every back-end does what is written here, or refuses the test.

use std::cmp::Ordering;

use piste_ctf::read::schema::Label;

use crate::{BitOperator, Comparison, Operand, Pattern, Term};

/// A value of an event.
#[derive(Clone, Copy, Debug)]
pub enum Value<'v> {
    /// The event has no such value: no test is true of it.
    Nothing,
    /// A number.
    Integer(i128),
    /// A number whose values have names.
    Label(i128, &'v [Label]),
    /// A number.
    Float(f64),
    /// A string.
    Text(&'v [u8]),
    /// A structure, an array or bytes: it is compared with nothing.
    Whole,
}

impl Operand {
    /// Its value, when that is the same for every event.
    pub fn constant(&self) -> Option<Value<'_>> {
        match &self.term {
            Term::Integer(value) => Some(Value::Integer(*value)),
            Term::Float(value) => Some(Value::Float(*value)),
            Term::Text(text) => Some(Value::Text(text.as_bytes())),
            Term::Bits {
                left, operator, right, ..
            } => Some(left.constant()?.bits(*operator, right.constant()?)),
            _ => None,
        }
    }
}

impl<'v> Value<'v> {
    /// What becomes of the bits of two integers; nothing for other values.
    pub fn bits(self, operator: BitOperator, other: Value<'_>) -> Value<'v> {
        let (Some(one), Some(other)) = (self.integer(), other.integer()) else {
            return Value::Nothing;
        };
        operator.of(one, other).map_or(Value::Nothing, Value::Integer)
    }

    /// Whether they compare so.
    pub fn compares(self, comparison: Comparison, other: Value<'_>) -> bool {
        use Value::{Float, Integer, Label, Text};
        let ordering = match (self, other) {
            (Label(value, labels), Text(text)) | (Text(text), Label(value, labels)) => {
                return compares_label(value, labels, comparison, text);
            }
            (Integer(one) | Label(one, _), Integer(other) | Label(other, _)) => {
                if comparison == Comparison::Bits {
                    return one & other != 0;
                }
                Some(one.cmp(&other))
            }
            (Float(one), Float(other)) => one.partial_cmp(&other),
            (Float(one), Integer(other) | Label(other, _)) => one.partial_cmp(&(other as f64)),
            (Integer(one) | Label(one, _), Float(other)) => (one as f64).partial_cmp(&other),
            (Text(one), Text(other)) => Some(one.cmp(other)),
            _ => return false,
        };
        match comparison {
            Comparison::Equal => ordering == Some(Ordering::Equal),
            Comparison::NotEqual => ordering != Some(Ordering::Equal),
            Comparison::Less => ordering == Some(Ordering::Less),
            Comparison::LessOrEqual => ordering.is_some_and(Ordering::is_le),
            Comparison::Greater => ordering == Some(Ordering::Greater),
            Comparison::GreaterOrEqual => ordering.is_some_and(Ordering::is_ge),
            Comparison::Bits => false,
        }
    }

    /// Whether it matches the pattern; with `is_negated`, whether it is a string, or has a name, and does not.
    pub fn is_like(self, pattern: &Pattern, is_negated: bool) -> bool {
        match self {
            Value::Text(text) => pattern.matches(text) != is_negated,
            Value::Label(value, labels) => {
                has_name(value, labels, |name| pattern.matches(name.as_bytes())) != is_negated
            }
            _ => false,
        }
    }

    fn integer(self) -> Option<i128> {
        match self {
            Value::Integer(value) | Value::Label(value, _) => Some(value),
            _ => None,
        }
    }
}

fn compares_label(value: i128, labels: &[Label], comparison: Comparison, text: &[u8]) -> bool {
    let is_named = || has_name(value, labels, |name| name.as_bytes() == text);
    match comparison {
        Comparison::Equal => is_named(),
        Comparison::NotEqual => !is_named(),
        // The bits of a value that has this name.
        Comparison::Bits => labels
            .iter()
            .filter(|label| label.name.as_bytes() == text)
            .any(|label| {
                let mut single = label.ranges.iter().filter(|(first, last)| first == last);
                single.any(|(first, _)| value & first != 0)
            }),
        _ => false,
    }
}

/// One of the value's names is as wanted.
fn has_name(value: i128, labels: &[Label], is_wanted: impl Fn(&str) -> bool) -> bool {
    labels.iter().any(|label| {
        let mut ranges = label.ranges.iter();
        ranges.any(|&(first, last)| (first..=last).contains(&value)) && is_wanted(&label.name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels() -> Vec<Label> {
        let label = |name: &str, ranges: &[(i128, i128)]| Label {
            name: name.into(),
            ranges: ranges.to_vec(),
        };
        vec![
            label("read", &[(4, 4)]),
            label("write", &[(2, 2)]),
            label("small", &[(0, 3)]),
        ]
    }

    #[test]
    fn values_of_one_kind_are_compared() {
        let compares = |one: Value<'_>, comparison, other: Value<'_>| one.compares(comparison, other);
        assert!(compares(Value::Integer(-1), Comparison::Less, Value::Integer(0)));
        assert!(compares(Value::Integer(2), Comparison::Greater, Value::Float(1.5)));
        assert!(compares(
            Value::Float(f64::NAN),
            Comparison::NotEqual,
            Value::Integer(0)
        ));
        assert!(!compares(
            Value::Float(f64::NAN),
            Comparison::GreaterOrEqual,
            Value::Integer(0)
        ));
        assert!(compares(Value::Text(b"a"), Comparison::LessOrEqual, Value::Text(b"ab")));
        assert!(compares(Value::Integer(6), Comparison::Bits, Value::Integer(2)));
        for other in [Value::Nothing, Value::Whole, Value::Text(b"1")] {
            for comparison in [Comparison::Equal, Comparison::NotEqual, Comparison::Bits] {
                assert!(
                    !compares(Value::Integer(1), comparison, other),
                    "{comparison:?} {other:?}"
                );
                assert!(
                    !compares(other, comparison, Value::Integer(1)),
                    "{comparison:?} {other:?}"
                );
            }
        }
    }

    #[test]
    fn labels_are_compared_by_name_and_by_value() {
        let labels = labels();
        let two = Value::Label(2, &labels);
        assert!(two.compares(Comparison::Equal, Value::Text(b"write")));
        assert!(two.compares(Comparison::Equal, Value::Text(b"small")));
        assert!(two.compares(Comparison::NotEqual, Value::Text(b"read")));
        assert!(two.compares(Comparison::Less, Value::Integer(3)));
        let six = Value::Label(6, &labels);
        assert!(six.compares(Comparison::Bits, Value::Text(b"read")));
        assert!(!six.compares(Comparison::Bits, Value::Text(b"small")));
        let pattern = Pattern::parse("w*", 0).expect("a pattern");
        assert!(two.is_like(&pattern, false) && !two.is_like(&pattern, true));
        assert!(six.is_like(&pattern, true));
        assert!(!Value::Integer(2).is_like(&pattern, true) && !Value::Nothing.is_like(&pattern, true));
    }
}
