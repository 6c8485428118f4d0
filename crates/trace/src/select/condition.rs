// SPDX-License-Identifier: MIT OR Apache-2.0
//! A filter for the events of one class: its fields are slots, and what does not depend on the event is decided. A comparison with what
//! an event does not have is false.

use std::cmp::Ordering;

use piste_ctf::read::plan::{EventPlan, Plan};
use piste_names::matches_bytes;

use super::filter::expression::{Comparison, Expression, Operand};
use super::values::{Slot, Value, Values, Wanted};
use super::who::Who;

/// True or false of an event of a class.
#[derive(Debug)]
pub(super) enum Condition {
    Always(bool),
    And(Box<Condition>, Box<Condition>),
    Or(Box<Condition>, Box<Condition>),
    Not(Box<Condition>),
    Compare(Source, Comparison, Source),
    Like(Source, Box<[u8]>),
    Exists(Slot),
}

/// Where a value comes from.
#[derive(Clone, Debug)]
pub(super) enum Source {
    Integer(i128),
    Float(f64),
    Text(Box<[u8]>),
    Time,
    Cpu,
    Pid,
    Tid,
    Comm,
    Slot(Slot),
    Nothing,
}

/// What an event is beside its fields.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct About {
    pub(super) time_ns: Option<i64>,
    pub(super) cpu: Option<u64>,
    pub(super) who: Who,
}

/// The class whose events are looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Class<'p> {
    pub(super) plan: &'p Plan,
    pub(super) stream_class_id: u64,
    pub(super) event: &'p EventPlan,
}

impl Condition {
    /// Of a filter for a class; what it looks at is added to `wanted`.
    pub(super) fn new(expression: &Expression, class: Class<'_>, wanted: &mut Wanted) -> Condition {
        let mut source = |operand: &Operand| Source::new(operand, class, wanted);
        let condition = match expression {
            Expression::And(left, right) => {
                return match (
                    Condition::new(left, class, wanted),
                    Condition::new(right, class, wanted),
                ) {
                    (Condition::Always(false), _) | (_, Condition::Always(false)) => Condition::Always(false),
                    (Condition::Always(true), other) | (other, Condition::Always(true)) => other,
                    (left, right) => Condition::And(Box::new(left), Box::new(right)),
                };
            }
            Expression::Or(left, right) => {
                return match (
                    Condition::new(left, class, wanted),
                    Condition::new(right, class, wanted),
                ) {
                    (Condition::Always(true), _) | (_, Condition::Always(true)) => Condition::Always(true),
                    (Condition::Always(false), other) | (other, Condition::Always(false)) => other,
                    (left, right) => Condition::Or(Box::new(left), Box::new(right)),
                };
            }
            Expression::Not(inner) => {
                return match Condition::new(inner, class, wanted) {
                    Condition::Always(value) => Condition::Always(!value),
                    inner => Condition::Not(Box::new(inner)),
                };
            }
            Expression::Compare(left, comparison, right) => {
                Condition::Compare(source(left), *comparison, source(right))
            }
            Expression::Like(operand, pattern) => Condition::Like(source(operand), pattern.clone()),
            Expression::Exists(field) => {
                let slot = wanted.add(class.plan, class.stream_class_id, class.event, field);
                return slot.map_or(Condition::Always(false), Condition::Exists);
            }
        };
        let is_decided = match &condition {
            Condition::Compare(left, _, right) => {
                if matches!(left, Source::Nothing) || matches!(right, Source::Nothing) {
                    return Condition::Always(false);
                }
                left.is_constant() && right.is_constant()
            }
            Condition::Like(source, _) => source.is_constant(),
            _ => false,
        };
        match is_decided {
            true => Condition::Always(condition.holds(&Values::default(), &About::default())),
            false => condition,
        }
    }

    /// Whether it is true of an event.
    pub(super) fn holds(&self, values: &Values, about: &About) -> bool {
        match self {
            Condition::Always(value) => *value,
            Condition::And(left, right) => left.holds(values, about) && right.holds(values, about),
            Condition::Or(left, right) => left.holds(values, about) || right.holds(values, about),
            Condition::Not(inner) => !inner.holds(values, about),
            Condition::Compare(left, comparison, right) => {
                compare(left.value(values, about), *comparison, right.value(values, about))
            }
            Condition::Like(source, pattern) => match source.value(values, about) {
                Value::Text(text) => matches_bytes(pattern, text),
                Value::Label(value, labels) => named(value, labels, |name| matches_bytes(pattern, name)),
                _ => false,
            },
            Condition::Exists(slot) => !matches!(values.get(*slot), Value::Nothing),
        }
    }
}

impl Source {
    fn new(operand: &Operand, class: Class<'_>, wanted: &mut Wanted) -> Source {
        match operand {
            Operand::Integer(value) => Source::Integer(*value),
            Operand::Float(value) => Source::Float(*value),
            Operand::Text(text) => Source::Text(text.clone()),
            Operand::Name => Source::Text(class.event.name.as_bytes().into()),
            Operand::Time => Source::Time,
            Operand::Cpu => Source::Cpu,
            Operand::Pid => Source::Pid,
            Operand::Tid => Source::Tid,
            Operand::Comm => Source::Comm,
            Operand::Field(field) => wanted
                .add(class.plan, class.stream_class_id, class.event, field)
                .map_or(Source::Nothing, Source::Slot),
        }
    }

    fn is_constant(&self) -> bool {
        matches!(
            self,
            Source::Integer(_) | Source::Float(_) | Source::Text(_) | Source::Nothing
        )
    }

    fn value<'v>(&'v self, values: &'v Values, about: &'v About) -> Value<'v> {
        let integer = |value: Option<i128>| value.map_or(Value::Nothing, Value::Integer);
        match self {
            Source::Integer(value) => Value::Integer(*value),
            Source::Float(value) => Value::Float(*value),
            Source::Text(text) => Value::Text(text),
            Source::Time => integer(about.time_ns.map(Into::into)),
            Source::Cpu => integer(about.cpu.map(Into::into)),
            Source::Pid => integer(about.who.pid.map(Into::into)),
            Source::Tid => integer(about.who.tid.map(Into::into)),
            Source::Comm => about
                .who
                .comm
                .as_ref()
                .map_or(Value::Nothing, |comm| Value::Text(comm.as_bytes())),
            Source::Slot(slot) => values.get(*slot),
            Source::Nothing => Value::Nothing,
        }
    }
}

fn compare(left: Value<'_>, comparison: Comparison, right: Value<'_>) -> bool {
    use Value::{Float, Integer, Label, Text};
    let ordering = match (left, right) {
        (Label(value, labels), Text(text)) | (Text(text), Label(value, labels)) => {
            let is_named = named(value, labels, |name| name == text);
            return match comparison {
                Comparison::Equal => is_named,
                Comparison::NotEqual => !is_named,
                _ => false,
            };
        }
        (Integer(left) | Label(left, _), Integer(right) | Label(right, _)) => {
            if comparison == Comparison::Bits {
                return left & right != 0;
            }
            Some(left.cmp(&right))
        }
        (Float(left), Float(right)) => left.partial_cmp(&right),
        (Float(left), Integer(right) | Label(right, _)) => left.partial_cmp(&(right as f64)),
        (Integer(left) | Label(left, _), Float(right)) => (left as f64).partial_cmp(&right),
        (Text(left), Text(right)) => Some(left.cmp(right)),
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

/// A name of the value is as wanted.
fn named(value: i128, labels: &[piste_ctf::read::schema::Label], is_wanted: impl Fn(&[u8]) -> bool) -> bool {
    labels.iter().any(|label| {
        let is_of_value = label
            .ranges
            .iter()
            .any(|&(first, last)| (first..=last).contains(&value));
        is_of_value && is_wanted(label.name.as_bytes())
    })
}
