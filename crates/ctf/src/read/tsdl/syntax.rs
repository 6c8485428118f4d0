// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the parser makes of the text: statements and types as they are written. What names mean is found out in types.rs.

use super::Position;

#[derive(Clone, Debug)]
pub(super) struct Statement {
    pub(super) position: Position,
    pub(super) kind: StatementKind,
}

#[derive(Clone, Debug)]
pub(super) enum StatementKind {
    /// `name.name = value;`
    Assign { path: Vec<String>, value: Value },
    /// `name.name := type;`
    AssignType { path: Vec<String>, of_type: TypeSyntax },
    /// `typedef type name, name[3];`
    Typedef(Declaration),
    /// `typealias type := name;`
    Typealias { of_type: TypeSyntax, name: String },
    /// `struct name { ... };`, `enum name { ... };`, `variant name { ... };`
    Define(TypeSyntax),
    /// `trace { ... };` and its like.
    Block {
        keyword: String,
        statements: Vec<Statement>,
    },
}

#[derive(Clone, Debug)]
pub(super) enum Value {
    Number(i128),
    Text(String),
    /// `clock.monotonic.value`, `true`, `le`
    Words(Vec<String>),
}

impl Value {
    pub(super) fn shown(&self) -> String {
        match self {
            Value::Number(number) => number.to_string(),
            Value::Text(text) => format!("{text:?}"),
            Value::Words(words) => words.join("."),
        }
    }
}

/// `type name, name[3];`
#[derive(Clone, Debug)]
pub(super) struct Declaration {
    pub(super) of_type: TypeSyntax,
    pub(super) declarators: Vec<Declarator>,
}

/// `name[3][count]`
#[derive(Clone, Debug)]
pub(super) struct Declarator {
    pub(super) position: Position,
    pub(super) name: String,
    pub(super) dimensions: Vec<Dimension>,
}

#[derive(Clone, Debug)]
pub(super) enum Dimension {
    Number(u64),
    Path(Vec<String>),
}

#[derive(Clone, Debug)]
pub(super) struct TypeSyntax {
    pub(super) position: Position,
    pub(super) kind: TypeKind,
}

#[derive(Clone, Debug)]
pub(super) enum TypeKind {
    /// `uint8_t`, `unsigned long`
    Named(String),
    /// `integer { key = value; }`; `floating_point`, `string` alike.
    Simple {
        keyword: Simple,
        attributes: Vec<Attribute>,
    },
    Structure {
        name: Option<String>,
        body: Option<Vec<Member>>,
        alignment: Option<u64>,
    },
    Variant {
        name: Option<String>,
        tag: Option<Vec<String>>,
        body: Option<Vec<Member>>,
    },
    Enumeration {
        name: Option<String>,
        container: Option<Box<TypeSyntax>>,
        body: Option<Vec<Enumerator>>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Simple {
    Integer,
    Float,
    Text,
}

#[derive(Clone, Debug)]
pub(super) struct Attribute {
    pub(super) position: Position,
    pub(super) name: String,
    pub(super) value: Value,
}

/// What stands in the body of a structure or variant.
#[derive(Clone, Debug)]
pub(super) enum Member {
    Fields(Declaration),
    /// A type that only this body knows.
    Local(Statement),
}

#[derive(Clone, Debug)]
pub(super) struct Enumerator {
    pub(super) label: String,
    /// First and last value; absent: the one after the value before.
    pub(super) range: Option<(i128, i128)>,
}
