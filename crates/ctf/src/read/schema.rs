// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the metadata of a trace says: its clocks, its streams, its events, and the types of everything in a packet.
//!
//! CTF 1.8 and CTF 2 say the same things in two languages; this is what they have in common. Nothing here is compiled for speed: plan.rs
//! does that.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Everything that the metadata says.
#[derive(Clone, Debug, PartialEq)]
pub struct Schema {
    /// Which language it was written in.
    pub version: Version,
    /// Names the metadata; packets repeat it.
    pub uuid: Option<[u8; 16]>,
    /// Which trace it is; CTF 1.8 has none.
    pub identity: Identity,
    /// Keys and values that describe where the trace comes from.
    pub environment: Vec<(String, EnvironmentValue)>,
    /// The clocks, in the order in which the metadata has them.
    pub clocks: Vec<Clock>,
    /// A structure at the start of each packet.
    pub packet_header: Option<Arc<Type>>,
    /// Classes of streams by their id.
    pub streams: BTreeMap<u64, StreamClass>,
}

/// The language of the metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// CTF 1.8: TSDL.
    Ctf1,
    /// CTF 2: JSON.
    Ctf2,
}

/// What something is called, in such a way that others know it again. CTF 1.8 has no such names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Who gives the names: `lttng.org,2009`.
    pub namespace: Option<String>,
    /// For people.
    pub name: Option<String>,
    /// Unique under both.
    pub uid: Option<String>,
}

/// A value of the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvironmentValue {
    /// A number.
    Integer(i64),
    /// A text.
    Text(String),
}

/// A clock, and where it stands against others.
///
/// Time of a timestamp in seconds since the clock's origin: `offset_seconds + (offset_cycles + timestamp) / frequency_hz`.
#[derive(Clone, Debug, PartialEq)]
pub struct Clock {
    /// Unique in the trace. In CTF 2 it is the clock's id, which has no other meaning.
    pub name: String,
    /// Traces whose clocks have the same one were taken on one clock. In CTF 2 it is the identity's uid, when that is a uuid.
    pub uuid: Option<[u8; 16]>,
    /// The same in CTF 2: clocks are one when all of it is equal, and name and uid are there.
    pub identity: Identity,
    /// For people.
    pub description: String,
    /// Cycles per second; not 0.
    pub frequency_hz: u64,
    /// Cycles that a timestamp may be wrong by, at random.
    pub precision_cycles: Option<u64>,
    /// Cycles that all timestamps may be wrong by; CTF 1.8 has none.
    pub accuracy_cycles: Option<u64>,
    /// Whole seconds from the origin.
    pub offset_seconds: i64,
    /// Rest, in cycles.
    pub offset_cycles: u64,
    /// The origin is 1970-01-01 00:00:00 UTC: times can be compared with those of other such clocks, and with a calendar.
    pub is_unix_epoch: bool,
    /// The origin is another one, which has a name: times can be compared with those of other clocks of that origin. CTF 1.8 has none.
    pub origin: Option<Identity>,
}

/// A class of streams: what their packets and events have in common.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamClass {
    /// Unique in the trace.
    pub id: u64,
    /// Who gives name and uid; CTF 1.8 has none.
    pub namespace: Option<String>,
    /// For people; the specification of CTF 1.8 has none.
    pub name: Option<String>,
    /// Unique under both; CTF 1.8 has none.
    pub uid: Option<String>,
    /// The clock of its timestamps: an index into [`Schema::clocks`].
    pub clock: Option<usize>,
    /// Behind the packet header.
    pub packet_context: Option<Arc<Type>>,
    /// At the start of each event.
    pub event_header: Option<Arc<Type>>,
    /// Behind the header of each event.
    pub event_context: Option<Arc<Type>>,
    /// Classes of events by their id.
    pub events: BTreeMap<u64, EventClass>,
}

/// A class of events.
#[derive(Clone, Debug, PartialEq)]
pub struct EventClass {
    /// Unique in the class of streams.
    pub id: u64,
    /// Who gives name and uid; CTF 1.8 has none.
    pub namespace: Option<String>,
    /// `sched_switch`; empty when the metadata gives none.
    pub name: String,
    /// Unique under both; CTF 1.8 has none.
    pub uid: Option<String>,
    /// How grave it is, as the tracer counts.
    pub log_level: Option<i64>,
    /// Where its model is described.
    pub emf_uri: Option<String>,
    /// A context that only this class has.
    pub specific_context: Option<Arc<Type>>,
    /// Its fields.
    pub payload: Option<Arc<Type>>,
}

/// Type of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    /// A whole number.
    Integer(Integer),
    /// A whole number whose values have names.
    Enumeration(Enumeration),
    /// A number of IEEE 754.
    Float(Float),
    /// A text.
    Text(Text),
    /// Fields one after the other.
    Structure(Structure),
    /// Elements of one type, one after the other.
    Array(Array),
    /// One of several types, which an earlier field selects.
    Variant(Variant),
    /// Something or nothing, as an earlier field says.
    Optional(Optional),
    /// Bytes that nobody interprets.
    Blob(Blob),
}

/// A whole number.
#[derive(Clone, Debug, PartialEq)]
pub struct Integer {
    /// Its width, or that its bytes say themselves where they end.
    pub width: Width,
    /// The most significant bit is a sign.
    pub is_signed: bool,
    /// Bits; a power of two.
    pub alignment: u32,
    /// Order of its bytes.
    pub byte_order: ByteOrder,
    /// Its bits come in the order that is not usual for its byte order.
    pub is_reversed: bool,
    /// How it is shown.
    pub base: Base,
    /// What it is.
    pub meaning: Meaning,
    /// It updates the stream's clock: an index into [`Schema::clocks`].
    pub clock: Option<usize>,
    /// It is a part of the format with these tasks. In CTF 1.8 names tell them instead, see roles.rs.
    pub roles: Vec<Role>,
    /// Names of bits by their index from the least significant, for a set of bits. Names of values make an [`Enumeration`].
    pub labels: Vec<Label>,
}

/// Width of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// Bits, 1 to 64.
    Bits(u32),
    /// LEB128: seven bits to a byte, until one without the eighth.
    Variable,
}

/// What the bits of an integer are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// A number.
    Number,
    /// A character of a text.
    Character,
    /// False when 0.
    Boolean,
    /// A set of bits.
    Bits,
}

/// Order of the bytes of a number. Bits follow it: numbers that are not aligned to bytes fill them from the low bits in little-endian
/// order, from the high bits in big-endian order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteOrder {
    /// The least significant first.
    Little,
    /// The most significant first.
    Big,
}

/// How a number is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say all")]
pub enum Base {
    Binary,
    Octal,
    Decimal,
    Hexadecimal,
}

/// A task that a field has in the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// Packet header: 0xc1fc1fc1.
    Magic,
    /// Packet header: the trace's.
    Uuid,
    /// Packet header: class of the stream.
    StreamClassId,
    /// Packet header: which stream of its class.
    StreamId,
    /// Packet context: time of its begin.
    BeginTime,
    /// Packet context: time of its end.
    EndTime,
    /// Packet context: bits that hold something.
    ContentBits,
    /// Packet context: bits in all.
    TotalBits,
    /// Packet context: number of the packet in its stream.
    SequenceNumber,
    /// Packet context: events discarded since the start of the stream.
    DiscardedEvents,
    /// Event header: its class.
    EventClassId,
}

/// A whole number whose values have names.
#[derive(Clone, Debug, PartialEq)]
pub struct Enumeration {
    /// What is in the packet.
    pub integer: Integer,
    /// Names of values; a value may have none, one or several.
    pub labels: Vec<Label>,
}

/// A name of some values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The name.
    pub name: String,
    /// Values from the first to the last of each pair.
    pub ranges: Vec<(i128, i128)>,
}

/// A number of IEEE 754.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Float {
    /// 16, 32, 64 or 128 bits.
    pub bits: u32,
    /// Bits.
    pub alignment: u32,
    /// Order of its bytes.
    pub byte_order: ByteOrder,
    /// Its bits come in the order that is not usual for its byte order.
    pub is_reversed: bool,
}

/// A text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// Where it ends.
    pub length: TextLength,
    /// How characters are coded.
    pub encoding: Encoding,
}

/// Where a text ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextLength {
    /// Before the first code unit of 0.
    Terminated,
    /// After so many bytes, or before a code unit of 0 among them.
    Bytes(u64),
    /// As many bytes as an earlier field says.
    From(Reference),
}

/// How characters are coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say all")]
pub enum Encoding {
    Utf8,
    Utf16Be,
    Utf16Le,
    Utf32Be,
    Utf32Le,
}

/// Fields one after the other.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Structure {
    /// Bits at least; its fields may want more.
    pub alignment: u32,
    /// Names and types.
    pub fields: Vec<(String, Arc<Type>)>,
}

/// Elements of one type.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Of each element.
    pub element: Arc<Type>,
    /// How many there are.
    pub count: Count,
    /// Bits at least; its element may want more.
    pub alignment: u32,
}

/// How many there are of something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Count {
    /// Always as many.
    Fixed(u64),
    /// As many as an earlier field says.
    From(Reference),
}

/// One of several types.
#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    /// What selects.
    pub selector: Reference,
    /// The types that there are. In CTF 1.8 the label of the selector is an option's name; its ranges are filled in when the selector is
    /// found.
    pub options: Vec<VariantOption>,
}

/// A type that a variant may have.
#[derive(Clone, Debug, PartialEq)]
pub struct VariantOption {
    /// Unique in the variant.
    pub name: Option<String>,
    /// Values of the selector that select it. Empty in CTF 1.8: the selector's label of the same name has them.
    pub ranges: Vec<(i128, i128)>,
    /// The type.
    pub of_type: Arc<Type>,
}

/// Something or nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Optional {
    /// What says so.
    pub selector: Reference,
    /// Values that mean something; empty for a boolean, of which `true` does.
    pub ranges: Vec<(i128, i128)>,
    /// What it is.
    pub content: Arc<Type>,
}

/// Bytes that nobody interprets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    /// Bytes.
    pub count: Count,
    /// What they are, as an IANA media type; absent: `application/octet-stream`.
    pub media_type: Option<String>,
    /// The trace's identity, in a packet header of CTF 2.
    pub roles: Vec<Role>,
}

/// The way to an earlier field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Where it begins. Absent: the structure around; in CTF 1.8 also those around that, and those of the scopes before.
    pub origin: Option<Scope>,
    /// Names of fields from there. Absent: the structure around what was reached.
    pub path: Vec<Option<String>>,
}

/// One of the structures that a packet or an event is made of, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the names say all")]
pub enum Scope {
    PacketHeader,
    PacketContext,
    EventHeader,
    EventContext,
    SpecificContext,
    Payload,
}

impl Encoding {
    /// Bytes of a code unit.
    pub fn unit_bytes(self) -> u64 {
        match self {
            Encoding::Utf8 => 1,
            Encoding::Utf16Be | Encoding::Utf16Le => 2,
            Encoding::Utf32Be | Encoding::Utf32Le => 4,
        }
    }
}

impl Type {
    /// Bits that its start is a multiple of. What a variant or an option holds is aligned by itself.
    pub fn alignment(&self) -> u32 {
        match self {
            Type::Integer(integer) => integer.alignment,
            Type::Enumeration(enumeration) => enumeration.integer.alignment,
            Type::Float(float) => float.alignment,
            Type::Text(_) | Type::Blob(_) => 8,
            Type::Structure(structure) => structure.alignment(),
            Type::Array(array) => array.alignment.max(array.element.alignment()),
            Type::Variant(_) | Type::Optional(_) => 1,
        }
    }

    /// The integer that it is, or that its names are of.
    pub fn integer(&self) -> Option<&Integer> {
        match self {
            Type::Integer(integer) => Some(integer),
            Type::Enumeration(enumeration) => Some(&enumeration.integer),
            _ => None,
        }
    }
}

impl Structure {
    /// Bits that its start is a multiple of.
    pub fn alignment(&self) -> u32 {
        let fields = self.fields.iter().map(|(_, of_type)| of_type.alignment());
        fields.fold(self.alignment.max(1), u32::max)
    }

    /// A field by name.
    pub fn field(&self, name: &str) -> Option<&Arc<Type>> {
        self.fields
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, of_type)| of_type)
    }
}

/// `01234567-89ab-cdef-0123-456789abcdef`
pub(crate) fn uuid(text: &str) -> Option<[u8; 16]> {
    let groups: Vec<&str> = text.split('-').collect();
    let lengths: Vec<usize> = groups.iter().map(|group| group.len()).collect();
    if lengths != [8, 4, 4, 4, 12] {
        return None;
    }
    let bits = u128::from_str_radix(&groups.concat(), 16).ok()?;
    Some(bits.to_be_bytes())
}
