// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a trace holds, described: trace, clock, streams, event classes, fields.
//!
//! The types are plain data. [`metadata`](crate::metadata) writes them as text for readers, and [`layout`](crate::layout)
//! compiles them into plans that find the end of a record. Names come from traced programs and may be any text; whoever writes
//! them out escapes them.

use serde::{Deserialize, Serialize};

/// A trace: one folder with one metadata file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trace {
    /// Names the trace; every packet carries it.
    pub uuid: [u8; 16],
    /// The clock of all timestamps.
    pub clock: Clock,
    /// Keys and values of the environment block, in the order they are written.
    pub environment: Vec<(String, EnvironmentValue)>,
}

/// The clock that a trace's timestamps count, and where it stands against the wall clock.
///
/// Wall time of a timestamp, in seconds since 1970: `offset_seconds + (offset_ticks + timestamp) / frequency_hz`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clock {
    /// `monotonic` or `x86-tsc`. Written with `_` for what an identifier cannot hold.
    pub name: String,
    /// The boot id: traces with the same clock uuid were taken on one clock.
    pub uuid: [u8; 16],
    /// Ticks per second.
    pub frequency_hz: u64,
    /// Whole seconds of the offset.
    pub offset_seconds: i64,
    /// Rest of the offset, in ticks.
    pub offset_ticks: u64,
    /// One line for people.
    pub description: String,
}

/// A value of the environment block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EnvironmentValue {
    /// Written as a number.
    Integer(i64),
    /// Written as a quoted text.
    Text(String),
}

/// The class of a channel's streams.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamClass {
    /// Number of the class in its trace.
    pub id: u32,
    /// Name of the channel.
    pub channel: String,
    /// What each record carries between its header and its fields, in the order of the bytes.
    pub contexts: Vec<Field>,
}

/// An event of a channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventClass {
    /// Number of the class in its stream class.
    pub id: u32,
    /// Provider and name: `shop:order`.
    pub name: String,
    /// Log level, 0 (emergency) to 14 (debug). Higher values are not written; events of the kernel have [`NO_LEVEL`].
    pub level: u8,
    /// What its records have between the contexts of the stream and the fields.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contexts: Vec<Field>,
    /// The fields, in the order of their bytes.
    pub fields: Vec<Field>,
}

/// The level of events that have none.
pub const NO_LEVEL: u8 = u8::MAX;

/// A field of an event.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Field {
    /// Name as the program gave it.
    pub name: String,
    /// What its bytes are.
    pub kind: FieldKind,
}

/// What a field's bytes in a record are. Nothing is aligned.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FieldKind {
    /// One element.
    Scalar {
        /// Type of the element.
        element: Element,
        /// How an integer is shown.
        base: Base,
    },
    /// An int32 whose values have names.
    Enum {
        /// The names; a value may have none, one or several.
        labels: Vec<Label>,
    },
    /// An integer of any width whose values have names.
    Named {
        /// Type of the integer; not a float.
        element: Element,
        /// How readers show the number beside the name.
        base: Base,
        /// The names; a value may have none, one or several.
        labels: Vec<Label>,
    },
    /// A fixed number of elements.
    Array {
        /// Type of each element.
        element: Element,
        /// How integers are shown.
        base: Base,
        /// Number of elements.
        count: u32,
    },
    /// A uint32 number of structures, then the structures.
    Structures {
        /// What each has, in the order of its bytes.
        members: Vec<Member>,
    },
    /// A uint32 number of elements, then the elements.
    Sequence {
        /// Type of each element.
        element: Element,
        /// How integers are shown.
        base: Base,
    },
    /// A uint32 number of bytes, then the bytes: UTF-8, may hold anything.
    Text,
    /// Bytes, then a zero byte.
    String,
    /// A uint32 number of strings, then the strings, each with its zero byte.
    Strings,
    /// A fixed number of bytes: UTF-8 up to the first zero byte.
    FixedText {
        /// How many, the zero byte included if there is one.
        bytes: u32,
    },
    /// A uint8 that says of what type the value is, then the value: nothing, an int64, a uint64, a float64, or a string.
    Dynamic,
}

/// What a [`FieldKind::Dynamic`] can be: the number that stands before the value, as enum piste_dynamic of `include/piste/abi/ring.h` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say all")]
pub enum DynamicType {
    None = 0,
    Int64 = 1,
    Uint64 = 2,
    Float64 = 3,
    String = 4,
}

/// A member of a structure.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Its type.
    pub element: Element,
    /// How an integer is shown.
    pub base: Base,
}

/// A named value of an enumeration.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Label {
    /// Name as the program gave it.
    pub name: String,
    /// The value; records hold as many of its low bits as the integer has (an [`Enum`](FieldKind::Enum) 32).
    pub value: i64,
}

/// Type of a scalar, or of each element of an array or sequence, in the machine's byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names say all")]
pub enum Element {
    Int8,
    Int16,
    Int32,
    Int64,
    Uint8,
    Uint16,
    Uint32,
    Uint64,
    Float32,
    Float64,
}

impl Element {
    /// Bytes of one element.
    pub fn bytes(self) -> u32 {
        match self {
            Element::Int8 | Element::Uint8 => 1,
            Element::Int16 | Element::Uint16 => 2,
            Element::Int32 | Element::Uint32 | Element::Float32 => 4,
            Element::Int64 | Element::Uint64 | Element::Float64 => 8,
        }
    }
}

/// How integers are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Base {
    /// `255`
    #[default]
    Decimal,
    /// `0xFF`
    Hex,
    /// `0377`
    Octal,
}
