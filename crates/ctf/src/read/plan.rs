// SPDX-License-Identifier: MIT OR Apache-2.0
//! A schema, compiled so that packets are walked quickly.
//!
//! Two things are made of each structure. The tree of [`Node`]s has everything that values and their names need. The steps beside it
//! only find the structure's end: fields of a fixed size, and the padding between them, are one step. Numbers that a later
//! field depends on, or that the format itself needs, have a slot, an index into a small array that every walk fills.

mod compile;
pub(super) mod ids;
pub(super) mod leap;
pub(crate) mod references;
mod size;
pub(crate) mod ways;

use std::collections::HashMap;
use std::sync::Arc;

use ids::EventPlans;
use leap::{HeaderLeap, Leap};
use references::{References, Unresolved};

use super::schema::{Base, ByteOrder, Encoding, Label, Meaning, Role, Schema, Scope, Width};

/// Index into the numbers that a walk keeps.
pub(super) type Slot = u16;

/// A schema to read packets by.
#[derive(Debug)]
pub struct Plan {
    /// What it was made of.
    pub schema: Schema,
    pub(super) packet_header: Option<Structure>,
    pub(super) streams: HashMap<u64, StreamPlan>,
    pub(super) slot_count: usize,
    event_names: Vec<Arc<str>>,
}

/// Of a class of streams.
#[derive(Debug)]
pub(super) struct StreamPlan {
    pub(super) packet_context: Option<Structure>,
    pub(super) event_header: Option<Structure>,
    /// The header, when it has the shape that most tracers use.
    pub(super) compact_header: Option<CompactHeader>,
    /// How it is read on the way over whole events.
    pub(super) header_leap: Option<HeaderLeap>,
    pub(super) event_context: Option<Structure>,
    pub(super) events: EventPlans,
    /// Slots of numbers with a task, by scope.
    pub(super) has_clock: bool,
}

/// Of a class of events.
#[derive(Debug)]
pub struct EventPlan {
    /// Unique in the class of streams.
    pub id: u64,
    /// Unique among all classes of the plan: its place in [`Plan::event_names`].
    pub number: usize,
    /// As the metadata gives it.
    pub name: Arc<str>,
    /// How grave it is.
    pub log_level: Option<i64>,
    pub(super) specific_context: Option<Structure>,
    pub(super) payload: Option<Structure>,
    /// Over whole events, behind the forms of the header, from the shortest.
    pub(super) leaps: [Option<Leap>; FORMS_MAX],
}

/// Forms of a compact header: a short one, and up to two that have an id of their own.
pub(super) const FORMS_MAX: usize = 3;

/// `struct { enum : uintN { 0 ... most, long forms } id; variant <id> { struct { time }; struct { id and time, in any order } ... } }`
#[derive(Clone, Copy, Debug)]
pub(super) struct CompactHeader {
    pub(super) alignment: u32,
    pub(super) byte_order: ByteOrder,
    pub(super) id_bits: u32,
    /// Of the id: others than the header's variant may depend on it.
    pub(super) id_slot: Slot,
    pub(super) structure_alignment: u32,
    pub(super) time: CompactNumber,
    /// There is one at least.
    pub(super) long_forms: [Option<LongForm>; FORMS_MAX - 1],
}

/// A form of a compact header whose id says only that another one follows.
#[derive(Clone, Copy, Debug)]
pub(super) struct LongForm {
    /// That id.
    pub(super) selector: u64,
    pub(super) structure_alignment: u32,
    pub(super) numbers: [CompactNumber; 2],
    /// The first number is the id and the second one the time; otherwise, the other way round.
    pub(super) id_is_first: bool,
}

impl CompactHeader {
    /// The form that has all bits of the time.
    pub(super) fn form_with_whole_time(&self) -> Option<&LongForm> {
        let mut forms = self.long_forms.iter().flatten();
        forms.find(|form| form.numbers[usize::from(form.id_is_first)].bits == 64)
    }
}

/// A number of the header, aligned before it is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct CompactNumber {
    pub(super) alignment: u32,
    pub(super) bits: u32,
}

/// A structure: its fields, and the shortest way over them.
#[derive(Debug)]
pub struct Structure {
    pub(super) alignment: u32,
    /// The largest of everything in it, also of what a variant or an optional may hold.
    pub(super) deepest_alignment: u32,
    /// Names as people see them, and types.
    pub(super) fields: Vec<(Arc<str>, Node)>,
    pub(super) steps: Vec<Step>,
}

impl Structure {
    /// Its fields in their order: names as people see them, and types.
    pub fn fields(&self) -> &[(Arc<str>, Node)] {
        &self.fields
    }

    /// Something in it is an address, see [`IntegerNode::is_address`].
    pub fn has_addresses(&self) -> bool {
        self.fields.iter().any(|(_, node)| node.has_addresses())
    }
}

/// A type, ready to be read.
#[derive(Debug)]
pub enum Node {
    /// A whole number.
    Integer(IntegerNode),
    /// A number of IEEE 754.
    Float {
        /// 16, 32, 64 or 128.
        bits: u32,
        /// In bits.
        alignment: u32,
        /// Order of its bytes.
        byte_order: ByteOrder,
        /// Its bits come in the order that is not usual for its byte order.
        is_reversed: bool,
    },
    /// A text.
    Text {
        /// Where it ends.
        length: Length,
        /// How characters are coded.
        encoding: Encoding,
    },
    /// Fields one after the other.
    Structure(Structure),
    /// Elements of one type.
    Array {
        /// In bits.
        alignment: u32,
        /// How many.
        count: Length,
        /// Of each.
        element: Box<Node>,
        /// Bits from one to the next, when all are alike.
        stride: Option<u64>,
    },
    /// One of several.
    Variant {
        /// What selects.
        selector: Selector,
        /// Values that select it, its name, and the type.
        options: Vec<OptionNode>,
        /// Slots of numbers in the options: which of them are read is known when one is selected.
        inner_slots: Box<[Slot]>,
    },
    /// Something or nothing.
    Optional {
        /// What says so.
        selector: Selector,
        /// Values that mean something.
        ranges: Vec<(i128, i128)>,
        /// What it is.
        content: Box<Node>,
        /// Slots of numbers in it.
        inner_slots: Box<[Slot]>,
    },
    /// Bytes that nobody interprets.
    Blob {
        /// Bytes.
        count: Length,
        /// What they are.
        media_type: Option<Arc<str>>,
        /// The trace's uuid.
        is_uuid: bool,
    },
}

impl Node {
    /// It is an address, or something in it is.
    pub fn has_addresses(&self) -> bool {
        match self {
            Node::Integer(integer) => integer.is_address(),
            Node::Structure(structure) => structure.has_addresses(),
            Node::Array { element, .. } => element.has_addresses(),
            Node::Variant { options, .. } => options.iter().any(|option| option.node.has_addresses()),
            Node::Optional { content, .. } => content.has_addresses(),
            Node::Float { .. } | Node::Text { .. } | Node::Blob { .. } => false,
        }
    }
}

/// A whole number.
#[derive(Debug)]
pub struct IntegerNode {
    /// Its width.
    pub width: Width,
    /// The most significant bit is a sign.
    pub is_signed: bool,
    /// In bits.
    pub alignment: u32,
    /// Order of its bytes.
    pub byte_order: ByteOrder,
    /// Its bits come in the order that is not usual for its byte order.
    pub is_reversed: bool,
    /// How it is shown.
    pub base: Base,
    /// What it is.
    pub meaning: Meaning,
    /// Its values have names, so that it is shown in another way.
    pub is_enumeration: bool,
    /// Names of values; of bits by their index, for a set of bits.
    pub labels: Arc<[Label]>,
    /// It is the format's own: it counts a clock, or has a task.
    pub is_technical: bool,
    pub(super) slot: Option<Slot>,
    pub(super) updates_clock: bool,
    pub(super) roles: Vec<Role>,
}

impl IntegerNode {
    /// Only the format itself needs it: nobody wants to see it, and nothing that is shown depends on it.
    pub fn is_hidden(&self) -> bool {
        self.is_technical && self.slot.is_none()
    }

    /// It may be an address: tracers declare addresses as unsigned numbers in base 16, as wide as a pointer.
    pub fn is_address(&self) -> bool {
        matches!(self.width, Width::Bits(32 | 64))
            && self.base == Base::Hexadecimal
            && self.meaning == Meaning::Number
            && !self.is_signed
            && !self.is_enumeration
            && !self.is_technical
    }
}

/// How long something is.
#[derive(Clone, Copy, Debug)]
pub enum Length {
    /// To a code unit of 0.
    Terminated,
    /// Always so much.
    Fixed(u64),
    /// What was read before.
    Slot(Slot),
}

/// What selects.
#[derive(Clone, Copy, Debug)]
pub struct Selector {
    pub(super) slot: Slot,
    pub(super) is_signed: bool,
}

/// A type that a variant may have.
#[derive(Debug)]
pub struct OptionNode {
    /// As people see it.
    pub name: Arc<str>,
    /// Values that select it.
    pub ranges: Vec<(i128, i128)>,
    /// The type.
    pub node: Node,
}

/// A step over a part of a structure.
#[derive(Debug)]
pub(super) enum Step {
    /// To a multiple of so many bits.
    Align(u32),
    /// Over so many bits, in which nothing is wanted.
    Skip(u64),
    /// Over a text that ends with a 0; aligned already.
    Terminated,
    /// Over as many elements of so many bits as a slot says.
    Elements { count: Slot, bits: u64 },
    /// By the tree: the field of that index.
    Field(usize),
}

/// Why a schema cannot be read by.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {what}")]
pub struct PlanError {
    /// `payload of event "open"`
    pub place: String,
    /// A sentence.
    pub what: String,
}

impl Plan {
    /// The structure of a part of an event, or of its packet; `None` when there is none.
    pub fn structure<'p>(&'p self, stream_class_id: u64, event: &'p EventPlan, scope: Scope) -> Option<&'p Structure> {
        let stream = self.streams.get(&stream_class_id);
        match scope {
            Scope::PacketHeader => self.packet_header.as_ref(),
            Scope::PacketContext => stream?.packet_context.as_ref(),
            Scope::EventHeader => stream?.event_header.as_ref(),
            Scope::EventContext => stream?.event_context.as_ref(),
            Scope::SpecificContext => event.specific_context.as_ref(),
            Scope::Payload => event.payload.as_ref(),
        }
    }

    /// The classes of events of a class of streams, in the order of their ids.
    pub fn events(&self, stream_class_id: u64) -> Vec<&EventPlan> {
        let stream = self.streams.get(&stream_class_id);
        stream.map_or(Vec::new(), |stream| stream.events.iter().collect())
    }

    /// Compiles a schema.
    ///
    /// # Errors
    /// The first field that depends on one that there is not, or not before it.
    pub fn new(schema: Schema) -> Result<Plan, PlanError> {
        let references = References::find(&schema)?;
        Ok(compile::plan(schema, &references))
    }

    /// Compiles what can be compiled: classes of events that depend on a field that there is not are left out, and what is wrong with them
    /// is returned.
    ///
    /// # Errors
    /// The first such field where all events of a stream depend on it, or where no class of events is left.
    pub fn salvage(mut schema: Schema) -> Result<(Plan, Vec<PlanError>), PlanError> {
        let (mut references, wrong) = References::salvage(&schema)?;
        let mut faults = Vec::new();
        for Unresolved { stream, event, fault } in wrong {
            if let Some(stream) = schema.streams.get_mut(&stream) {
                stream.events.remove(&event);
            }
            faults.push(fault);
        }
        if !faults.is_empty() {
            if schema.streams.values().all(|stream| stream.events.is_empty()) {
                return Err(faults.swap_remove(0));
            }
            references = References::find(&schema)?;
        }
        Ok((compile::plan(schema, &references), faults))
    }

    /// Names of the classes of events of all streams, in the order of their numbers.
    pub fn event_names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.event_names.iter().map(|name| &**name)
    }
}

/// Where a scope's structure is described, for messages.
pub(crate) fn scope_name(scope: Scope) -> &'static str {
    match scope {
        Scope::PacketHeader => "packet header",
        Scope::PacketContext => "packet context",
        Scope::EventHeader => "event header",
        Scope::EventContext => "event context",
        Scope::SpecificContext => "specific context",
        Scope::Payload => "payload",
    }
}
