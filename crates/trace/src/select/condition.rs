// SPDX-License-Identifier: MIT OR Apache-2.0
//! A filter's tests for the events of one class: its fields are slots, and what does not depend on the event is decided. What a test means
//! is crates/filter/src/value.rs' business.

use std::convert::Infallible;

use piste_ctf::read::plan::{EventPlan, Plan};
use piste_filter::{BitOperator, Comparison, Condition, Expression, Operand, Pattern, Term, Test, Value};

use super::values::{Slot, Values, Wanted};
use super::who::Who;

/// A test of an event of a class.
#[derive(Debug)]
pub(super) enum ClassTest {
    Compare(Origin, Comparison, Origin),
    Like {
        origin: Origin,
        pattern: Pattern,
        is_negated: bool,
    },
    Exists(Slot),
}

/// Where a value comes from.
#[derive(Clone, Debug)]
pub(super) enum Origin {
    Integer(i128),
    Float(f64),
    Text(Box<[u8]>),
    Time,
    Cpu,
    Pid,
    Tid,
    Comm,
    Slot(Slot),
    Bits(Box<(Origin, BitOperator, Origin)>),
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

/// The condition of a filter for a class; what it looks at is added to `wanted`.
pub(super) fn of_class(expression: &Expression, class: Class<'_>, wanted: &mut Wanted) -> Condition<ClassTest> {
    let condition = expression.of_class(&mut |test| Ok::<_, Infallible>(ClassTest::new(test, class, wanted)));
    match condition {
        Ok(condition) => condition,
    }
}

impl ClassTest {
    fn new(test: &Test, class: Class<'_>, wanted: &mut Wanted) -> Condition<ClassTest> {
        let mut origin = |operand: &Operand| Origin::new(operand, class, wanted);
        let (test, is_decided) = match test {
            Test::Compare {
                left,
                comparison,
                right,
                ..
            } => {
                let (left, right) = (origin(left), origin(right));
                if left.is_nothing() || right.is_nothing() {
                    return Condition::Always(false);
                }
                let is_decided = left.is_constant() && right.is_constant();
                (ClassTest::Compare(left, *comparison, right), is_decided)
            }
            Test::Like {
                operand,
                is_negated,
                pattern,
                ..
            } => {
                let (origin, is_negated, pattern) = (origin(operand), *is_negated, pattern.clone());
                let is_decided = origin.is_constant();
                let test = ClassTest::Like {
                    origin,
                    pattern,
                    is_negated,
                };
                (test, is_decided)
            }
            Test::Exists { field, .. } => {
                let slot = wanted.add(class.plan, class.stream_class_id, class.event, field);
                return slot.map_or(Condition::Always(false), |slot| {
                    Condition::Test(ClassTest::Exists(slot))
                });
            }
        };
        match is_decided {
            true => Condition::Always(test.holds(&Values::default(), &About::default())),
            false => Condition::Test(test),
        }
    }

    /// Whether it is true of an event.
    pub(super) fn holds(&self, values: &Values, about: &About) -> bool {
        match self {
            ClassTest::Compare(left, comparison, right) => left
                .value(values, about)
                .compares(*comparison, right.value(values, about)),
            ClassTest::Like {
                origin,
                pattern,
                is_negated,
            } => origin.value(values, about).is_like(pattern, *is_negated),
            ClassTest::Exists(slot) => !matches!(values.get(*slot), Value::Nothing),
        }
    }
}

impl Origin {
    fn new(operand: &Operand, class: Class<'_>, wanted: &mut Wanted) -> Origin {
        match &operand.term {
            Term::Integer(value) => Origin::Integer(*value),
            Term::Float(value) => Origin::Float(*value),
            Term::Text(text) => Origin::Text(text.as_bytes().into()),
            Term::Name => Origin::Text(class.event.name.as_bytes().into()),
            Term::Time => Origin::Time,
            Term::Cpu => Origin::Cpu,
            Term::Pid => Origin::Pid,
            Term::Tid => Origin::Tid,
            Term::Comm => Origin::Comm,
            Term::Field(field) => wanted
                .add(class.plan, class.stream_class_id, class.event, field)
                .map_or(Origin::Nothing, Origin::Slot),
            Term::Bits {
                left, operator, right, ..
            } => {
                let (left, right) = (Origin::new(left, class, wanted), Origin::new(right, class, wanted));
                match left.is_nothing() || right.is_nothing() {
                    true => Origin::Nothing,
                    false => Origin::Bits(Box::new((left, *operator, right))),
                }
            }
        }
    }

    fn is_nothing(&self) -> bool {
        matches!(self, Origin::Nothing)
    }

    fn is_constant(&self) -> bool {
        match self {
            Origin::Integer(_) | Origin::Float(_) | Origin::Text(_) | Origin::Nothing => true,
            Origin::Bits(bits) => bits.0.is_constant() && bits.2.is_constant(),
            _ => false,
        }
    }

    fn value<'v>(&'v self, values: &'v Values, about: &'v About) -> Value<'v> {
        let integer = |value: Option<i128>| value.map_or(Value::Nothing, Value::Integer);
        match self {
            Origin::Integer(value) => Value::Integer(*value),
            Origin::Float(value) => Value::Float(*value),
            Origin::Text(text) => Value::Text(text),
            Origin::Time => integer(about.time_ns.map(Into::into)),
            Origin::Cpu => integer(about.cpu.map(Into::into)),
            Origin::Pid => integer(about.who.pid.map(Into::into)),
            Origin::Tid => integer(about.who.tid.map(Into::into)),
            Origin::Comm => about
                .who
                .comm
                .as_ref()
                .map_or(Value::Nothing, |comm| Value::Text(comm.as_bytes())),
            Origin::Slot(slot) => values.get(*slot),
            Origin::Bits(bits) => {
                let (left, operator, right) = &**bits;
                left.value(values, about).bits(*operator, right.value(values, about))
            }
            Origin::Nothing => Value::Nothing,
        }
    }
}
