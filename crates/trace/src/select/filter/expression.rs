// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a filter says, before it is known of which events.

use piste_ctf::read::schema::Scope;

/// True or false of an event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expression {
    And(Box<Expression>, Box<Expression>),
    Or(Box<Expression>, Box<Expression>),
    Not(Box<Expression>),
    Compare(Operand, Comparison, Operand),
    /// A text is like a pattern.
    Like(Operand, Box<[u8]>),
    Exists(Field),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    /// They have a bit in common.
    Bits,
}

/// What is compared.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Operand {
    Integer(i128),
    Float(f64),
    Text(Box<[u8]>),
    /// Of the event.
    Name,
    /// Nanoseconds from the clock's origin.
    Time,
    Cpu,
    Pid,
    Tid,
    Comm,
    Field(Field),
}

/// The way to a value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Field {
    /// Where it is looked for, in this order.
    pub(crate) scopes: &'static [Scope],
    pub(crate) path: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    Name(Box<str>),
    Index(u64),
}

/// From what is said of this event alone to what is said of many.
pub(crate) const ANYWHERE: &[Scope] = &[
    Scope::Payload,
    Scope::SpecificContext,
    Scope::EventContext,
    Scope::EventHeader,
    Scope::PacketContext,
    Scope::PacketHeader,
];

/// Names of places to look in.
pub(crate) const SCOPES: [(&str, &[Scope]); 7] = [
    ("payload", &[Scope::Payload]),
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
    /// Calls `look` with each operand.
    pub(crate) fn operands(&self, look: &mut impl FnMut(&Operand)) {
        match self {
            Expression::And(left, right) | Expression::Or(left, right) => {
                left.operands(look);
                right.operands(look);
            }
            Expression::Not(inner) => inner.operands(look),
            Expression::Compare(left, _, right) => {
                look(left);
                look(right);
            }
            Expression::Like(operand, _) => look(operand),
            Expression::Exists(field) => look(&Operand::Field(field.clone())),
        }
    }

    /// Calls `look` with each name, or pattern of names, that the event's name is compared with.
    pub(crate) fn names(&self, look: &mut impl FnMut(&[u8])) {
        match self {
            Expression::And(left, right) | Expression::Or(left, right) => {
                left.names(look);
                right.names(look);
            }
            Expression::Not(inner) => inner.names(look),
            Expression::Compare(Operand::Name, _, Operand::Text(text))
            | Expression::Compare(Operand::Text(text), _, Operand::Name)
            | Expression::Like(Operand::Name, text) => look(text),
            Expression::Compare(..) | Expression::Like(..) | Expression::Exists(_) => {}
        }
    }
}
