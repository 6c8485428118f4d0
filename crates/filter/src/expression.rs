// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a filter says, before it is known of which events. Each part has the byte of the text where it begins, for messages.

use piste_ctf::read::schema::Scope;

use crate::Pattern;

/// True or false of an event.
#[derive(Clone, Debug, PartialEq)]
pub enum Expression {
    /// `a && b && ..`; two at least.
    And(Vec<Expression>),
    /// `a || b || ..`; two at least.
    Or(Vec<Expression>),
    /// `!a`
    Not(Box<Expression>),
    /// What is asked about the event's values.
    Test(Test),
}

/// One question about the values of an event.
#[derive(Clone, Debug, PartialEq)]
pub enum Test {
    /// `left == right` and the like.
    Compare {
        /// The first operand.
        left: Operand,
        /// Of the operator.
        position: usize,
        /// The operator.
        comparison: Comparison,
        /// The second operand.
        right: Operand,
    },
    /// `operand =~ "pattern"`
    Like {
        /// What is matched.
        operand: Operand,
        /// Of the operator.
        position: usize,
        /// The operator is `!~`.
        is_negated: bool,
        /// Of the pattern.
        pattern_position: usize,
        /// The pattern.
        pattern: Pattern,
    },
    /// `exists(field)`
    Exists {
        /// Of the field.
        position: usize,
        /// The field.
        field: Field,
    },
}

/// How two values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `&`: they have a bit in common.
    Bits,
}

/// What is compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Operand {
    /// Byte of the text where it begins.
    pub position: usize,
    /// What it stands for.
    pub term: Term,
}

/// What an operand stands for.
#[derive(Clone, Debug, PartialEq)]
pub enum Term {
    /// `42`, `4K`, `true`
    Integer(i128),
    /// `1.5`, `1e9`
    Float(f64),
    /// `"text"`
    Text(Box<str>),
    /// The name of the event.
    Name,
    /// Nanoseconds from the clock's origin.
    Time,
    /// `$cpu`
    Cpu,
    /// `$pid`
    Pid,
    /// `$tid`
    Tid,
    /// `$comm`
    Comm,
    /// A field or a context.
    Field(Field),
    /// `(a & b)`, `a << 3`: what becomes of the bits of two integers.
    Bits {
        /// The first operand.
        left: Box<Operand>,
        /// What becomes of them.
        operator: BitOperator,
        /// Of the operator.
        position: usize,
        /// The second operand.
        right: Box<Operand>,
    },
}

/// What becomes of the bits of two integers, which have as many of the sign as anybody looks at. The result is an integer of 64 bits, with or
/// without a sign; where it would not be one, there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BitOperator {
    /// `&`: those that both have.
    And,
    /// `|`: those that one of them has.
    Or,
    /// `^`: those that only one of them has; `~a` is `a ^ -1`.
    Xor,
    /// `<<`, by 0 to 63.
    ShiftLeft,
    /// `>>`, by 0 to 63.
    ShiftRight,
}

/// The way to a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Where it is looked for, in this order.
    pub scopes: &'static [Scope],
    /// From the outermost structure to the value.
    pub path: Vec<Step>,
}

/// A part of the way.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// A field of a structure.
    Name(Box<str>),
    /// An element of an array.
    Index(u64),
}

/// From what is said of this event alone to what is said of many.
pub const ANYWHERE: &[Scope] = &[
    Scope::Payload,
    Scope::SpecificContext,
    Scope::EventContext,
    Scope::EventHeader,
    Scope::PacketContext,
    Scope::PacketHeader,
];

/// The payload alone.
pub const PAYLOAD: &[Scope] = &[Scope::Payload];

/// Names of places to look in.
pub(crate) const SCOPES: [(&str, &[Scope]); 7] = [
    ("payload", PAYLOAD),
    (
        "ctx",
        &[Scope::SpecificContext, Scope::EventContext, Scope::PacketContext],
    ),
    ("specific_context", &[Scope::SpecificContext]),
    ("event_context", &[Scope::EventContext]),
    ("event_header", &[Scope::EventHeader]),
    ("packet_context", &[Scope::PacketContext]),
    ("packet_header", &[Scope::PacketHeader]),
];

impl Expression {
    /// Calls `look` with each test.
    pub fn tests(&self, look: &mut impl FnMut(&Test)) {
        match self {
            Expression::And(parts) | Expression::Or(parts) => parts.iter().for_each(|part| part.tests(look)),
            Expression::Not(inner) => inner.tests(look),
            Expression::Test(test) => look(test),
        }
    }

    /// Calls `look` with what each test is about: with the parts of `(a & b)`, not with the whole.
    pub fn terms(&self, look: &mut impl FnMut(&Term)) {
        self.tests(&mut |test| match test {
            Test::Compare { left, right, .. } => {
                left.term.parts(look);
                right.term.parts(look);
            }
            Test::Like { operand, .. } => operand.term.parts(look),
            Test::Exists { field, .. } => look(&Term::Field(field.clone())),
        });
    }
}

impl Term {
    fn parts(&self, look: &mut impl FnMut(&Term)) {
        match self {
            Term::Bits { left, right, .. } => {
                left.term.parts(look);
                right.term.parts(look);
            }
            term => look(term),
        }
    }
}

impl Field {
    /// A field by its name alone.
    pub fn named(scopes: &'static [Scope], name: &str) -> Field {
        Field {
            scopes,
            path: vec![Step::Name(name.into())],
        }
    }

    /// As it is written, without the place where it is looked for: `list[3].x`.
    pub fn path_text(&self) -> String {
        let mut text = String::new();
        for step in &self.path {
            match step {
                Step::Name(name) if text.is_empty() => text += name,
                Step::Name(name) => text += &format!(".{name}"),
                Step::Index(index) => text += &format!("[{index}]"),
            }
        }
        text
    }
}

impl BitOperator {
    /// As it is written.
    pub fn sign(self) -> &'static str {
        match self {
            BitOperator::And => "&",
            BitOperator::Or => "|",
            BitOperator::Xor => "^",
            BitOperator::ShiftLeft => "<<",
            BitOperator::ShiftRight => ">>",
        }
    }

    /// What becomes of the bits of two integers.
    pub fn of(self, one: i128, other: i128) -> Option<i128> {
        let shift = || u32::try_from(other).ok().filter(|shift| *shift < 64);
        let result = match self {
            BitOperator::And => one & other,
            BitOperator::Or => one | other,
            BitOperator::Xor => one ^ other,
            // An operand has 64 bits: nothing of it is lost.
            BitOperator::ShiftLeft => one.checked_mul(1_i128 << shift()?)?,
            BitOperator::ShiftRight => one >> shift()?,
        };
        (i64::MIN.into()..=u64::MAX.into()).contains(&result).then_some(result)
    }
}

impl Comparison {
    /// As it is written.
    pub fn sign(self) -> &'static str {
        match self {
            Comparison::Equal => "==",
            Comparison::NotEqual => "!=",
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
            Comparison::Bits => "&",
        }
    }

    /// What is true of `b` and `a` when this is true of `a` and `b`.
    pub fn turned(self) -> Comparison {
        match self {
            Comparison::Less => Comparison::Greater,
            Comparison::LessOrEqual => Comparison::GreaterOrEqual,
            Comparison::Greater => Comparison::Less,
            Comparison::GreaterOrEqual => Comparison::LessOrEqual,
            same => same,
        }
    }

    pub(crate) fn of_sign(sign: &str) -> Option<Comparison> {
        use Comparison::{Bits, Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
        let all = [Equal, NotEqual, Less, LessOrEqual, Greater, GreaterOrEqual, Bits];
        all.into_iter().find(|comparison| comparison.sign() == sign)
    }
}

#[cfg(test)]
mod tests {
    use super::BitOperator;

    #[test]
    fn bits_of_integers_go_on_with_the_sign() {
        use BitOperator::{And, Or, ShiftLeft, ShiftRight, Xor};
        let all = i128::from(u64::MAX);
        let least = i128::from(i64::MIN);
        for (one, operator, other, expected) in [
            (6, And, -4, Some(4)),
            (-1, And, all, Some(all)),
            (5, Or, -8, Some(-3)),
            (all, Or, least, Some(-1)),
            (0, Xor, -1, Some(-1)),
            (all, Xor, -1, None),
            (all >> 1, Xor, -1, Some(least)),
            (1, ShiftLeft, 63, Some(1 << 63)),
            (2, ShiftLeft, 63, None),
            (all, ShiftLeft, 63, None),
            (-1, ShiftLeft, 63, Some(least)),
            (-3, ShiftLeft, 62, None),
            (-3, ShiftRight, 1, Some(-2)),
            (all, ShiftRight, 63, Some(1)),
            (1, ShiftLeft, 64, None),
            (1, ShiftRight, -1, None),
        ] {
            assert_eq!(operator.of(one, other), expected, "{one} {} {other}", operator.sign());
        }
    }
}
