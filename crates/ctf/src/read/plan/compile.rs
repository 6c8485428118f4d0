// SPDX-License-Identifier: MIT OR Apache-2.0
//! Schema to plan: the tree of nodes, and the steps beside it.

use std::collections::HashMap;
use std::sync::Arc;

use super::ids::EventPlans;
use super::leap;
use super::references::{References, Root, Way, structure_of};
use super::ways::{bare, ranges_of};
use super::{
    CompactHeader, CompactNumber, EventPlan, FORMS_MAX, IntegerNode, Length, LongForm, Node, OptionNode, Plan,
    Selector, Slot, Step, StreamPlan, Structure,
};
use crate::read::roles;
use crate::read::schema::{
    self, Count, EventClass, Integer, Label, Meaning, Role, Schema, Scope, StreamClass, TextLength, Type, Version,
    Width,
};
use crate::read::walk::EMPTY_ELEMENTS_MAX;

pub(super) fn plan(schema: Schema, references: &References) -> Plan {
    let compiler = Compiler {
        references,
        version: schema.version,
    };
    let root = Root {
        scope: Scope::PacketHeader,
        stream: None,
        event: None,
    };
    let packet_header = compiler.scope(root, schema.packet_header.as_deref());
    let mut event_names = Vec::new();
    let mut streams = HashMap::new();
    for stream in schema.streams.values() {
        let plan = compiler.stream(stream, packet_header.as_ref(), event_names.len());
        event_names.extend(plan.events.iter().map(|event| event.name.clone()));
        streams.insert(stream.id, plan);
    }
    Plan {
        packet_header,
        streams,
        event_names,
        slot_count: references.slot_count(),
        schema,
    }
}

struct Compiler<'a> {
    references: &'a References,
    version: Version,
}

impl Compiler<'_> {
    /// The classes of its events are numbered from `number` on.
    fn stream(&self, stream: &StreamClass, packet_header: Option<&Structure>, number: usize) -> StreamPlan {
        let root = |scope| Root {
            scope,
            stream: Some(stream.id),
            event: None,
        };
        let events = stream.events.values().zip(number..);
        let mut events: Vec<EventPlan> = events
            .map(|(event, number)| self.event(stream.id, event, number))
            .collect();
        let packet_context = self.scope(root(Scope::PacketContext), stream.packet_context.as_deref());
        let event_header = self.scope(root(Scope::EventHeader), stream.event_header.as_deref());
        let event_context = self.scope(root(Scope::EventContext), stream.event_context.as_deref());
        let compact_header = event_header.as_ref().and_then(compact);
        let ground = leap::Ground {
            compact_header: compact_header.as_ref(),
            event_header: event_header.as_ref(),
            event_context: event_context.as_ref(),
            packet: [packet_header, packet_context.as_ref()],
        };
        StreamPlan {
            header_leap: leap::prepare(&ground, &mut events),
            packet_context,
            compact_header,
            event_header,
            event_context,
            events: EventPlans::new(events),
            has_clock: stream.clock.is_some(),
        }
    }

    fn event(&self, stream: u64, event: &EventClass, number: usize) -> EventPlan {
        let root = |scope| Root {
            scope,
            stream: Some(stream),
            event: Some(event.id),
        };
        EventPlan {
            id: event.id,
            number,
            leaps: [const { None }; FORMS_MAX],
            name: event.name.as_str().into(),
            log_level: event.log_level,
            specific_context: self.scope(root(Scope::SpecificContext), event.specific_context.as_deref()),
            payload: self.scope(root(Scope::Payload), event.payload.as_deref()),
        }
    }

    fn scope(&self, root: Root, of_type: Option<&Type>) -> Option<Structure> {
        let structure = structure_of(of_type)?;
        Some(self.structure(root, structure, &mut vec![]))
    }

    fn structure(&self, root: Root, structure: &schema::Structure, way: &mut Way) -> Structure {
        let mut fields = Vec::with_capacity(structure.fields.len());
        for (index, (name, of_type)) in structure.fields.iter().enumerate() {
            way.push(index as u32);
            let mut node = self.node(root, of_type, way);
            if let Node::Integer(integer) = &mut node
                && let Some(role) = self.role(root.scope, name, way)
            {
                integer.roles.push(role);
                integer.is_technical = true;
                integer.updates_clock &= role != Role::EndTime;
            }
            way.pop();
            fields.push((self.shown(name), node));
        }
        let alignment = structure.alignment();
        Structure {
            alignment,
            deepest_alignment: fields
                .iter()
                .map(|(_, field)| deepest_alignment(field))
                .fold(alignment, u32::max),
            steps: steps(&fields, alignment),
            fields,
        }
    }

    /// As people see it.
    fn shown(&self, name: &str) -> Arc<str> {
        match self.version {
            Version::Ctf1 => bare(name).into(),
            Version::Ctf2 => name.into(),
        }
    }

    /// CTF 1.8 tells tasks by names.
    fn role(&self, scope: Scope, name: &str, way: &Way) -> Option<Role> {
        if self.version != Version::Ctf1 {
            return None;
        }
        roles::of_field(scope, bare(name), way.len())
    }

    fn node(&self, root: Root, of_type: &Type, way: &mut Way) -> Node {
        match of_type {
            Type::Integer(integer) => Node::Integer(self.integer(root, integer, None, way)),
            Type::Enumeration(enumeration) => {
                Node::Integer(self.integer(root, &enumeration.integer, Some(&enumeration.labels), way))
            }
            Type::Float(float) => Node::Float {
                bits: float.bits,
                alignment: float.alignment,
                byte_order: float.byte_order,
                is_reversed: float.is_reversed,
            },
            Type::Text(text) => Node::Text {
                length: match &text.length {
                    TextLength::Terminated => Length::Terminated,
                    TextLength::Bytes(bytes) => Length::Fixed(*bytes),
                    TextLength::From(_) => Length::Slot(self.references.slot_of(root, way)),
                },
                encoding: text.encoding,
            },
            Type::Structure(structure) => Node::Structure(self.structure(root, structure, way)),
            Type::Array(array) => {
                let count = self.length(&array.count, root, way);
                way.push(0);
                let element = self.node(root, &array.element, way);
                way.pop();
                let stride = fixed_bits(&element).map(|bits| {
                    let alignment = u64::from(array.element.alignment());
                    bits.next_multiple_of(alignment)
                });
                Node::Array {
                    alignment: of_type.alignment(),
                    count,
                    stride: stride.filter(|_| is_plain(&element)),
                    element: Box::new(element),
                }
            }
            Type::Variant(variant) => {
                let resolved = self.references.resolved(root, way);
                let options = variant.options.iter().enumerate().map(|(index, option)| {
                    let name = option.name.as_deref().unwrap_or_default();
                    way.push(index as u32);
                    let node = self.node(root, &option.of_type, way);
                    way.pop();
                    let ranges = match option.ranges.is_empty() {
                        true => ranges_of(&resolved.labels, name),
                        false => option.ranges.clone(),
                    };
                    OptionNode {
                        name: self.shown(name),
                        ranges,
                        node,
                    }
                });
                let options: Vec<OptionNode> = options.collect();
                let mut inner_slots = vec![];
                options.iter().for_each(|option| slots(&option.node, &mut inner_slots));
                Node::Variant {
                    options,
                    selector: Selector {
                        slot: self.references.slot_of(root, way),
                        is_signed: resolved.is_signed,
                    },
                    inner_slots: inner_slots.into(),
                }
            }
            Type::Optional(optional) => {
                let resolved = self.references.resolved(root, way);
                let selector = Selector {
                    slot: self.references.slot_of(root, way),
                    is_signed: resolved.is_signed,
                };
                way.push(0);
                let content = Box::new(self.node(root, &optional.content, way));
                way.pop();
                let mut inner_slots = vec![];
                slots(&content, &mut inner_slots);
                Node::Optional {
                    selector,
                    ranges: optional.ranges.clone(),
                    content,
                    inner_slots: inner_slots.into(),
                }
            }
            Type::Blob(blob) => Node::Blob {
                count: self.length(&blob.count, root, way),
                media_type: blob.media_type.as_deref().map(Arc::from),
                is_uuid: blob.roles.contains(&Role::Uuid),
            },
        }
    }

    fn length(&self, count: &Count, root: Root, way: &Way) -> Length {
        match count {
            Count::Fixed(count) => Length::Fixed(*count),
            Count::From(_) => Length::Slot(self.references.slot_of(root, way)),
        }
    }

    fn integer(&self, root: Root, integer: &Integer, labels: Option<&[Label]>, way: &Way) -> IntegerNode {
        IntegerNode {
            width: integer.width,
            is_signed: integer.is_signed,
            alignment: integer.alignment,
            byte_order: integer.byte_order,
            is_reversed: integer.is_reversed,
            base: integer.base,
            meaning: integer.meaning,
            is_enumeration: labels.is_some(),
            labels: labels.unwrap_or(&integer.labels).into(),
            slot: self.references.slot(root, way),
            is_technical: integer.clock.is_some() || !integer.roles.is_empty(),
            // When a packet ends says nothing about its events.
            updates_clock: integer.clock.is_some() && !integer.roles.contains(&Role::EndTime),
            roles: integer.roles.clone(),
        }
    }
}

/// Slots of numbers in it.
pub(super) fn slots(node: &Node, found: &mut Vec<Slot>) {
    match node {
        Node::Integer(integer) => {
            if let Some(slot) = integer.slot
                && !found.contains(&slot)
            {
                found.push(slot);
            }
        }
        Node::Structure(structure) => structure.fields.iter().for_each(|(_, field)| slots(field, found)),
        Node::Array { element, .. } => slots(element, found),
        Node::Variant { options, .. } => options.iter().for_each(|option| slots(&option.node, found)),
        Node::Optional { content, .. } => slots(content, found),
        Node::Float { .. } | Node::Text { .. } | Node::Blob { .. } => {}
    }
}

/// Everything that it depends on is in these slots.
pub(super) fn depends_on(node: &Node, slots: &[Slot]) -> bool {
    let of_length = |length: &Length| match length {
        Length::Slot(slot) => slots.contains(slot),
        Length::Terminated | Length::Fixed(_) => true,
    };
    match node {
        Node::Integer(_) | Node::Float { .. } => true,
        Node::Text { length, .. } | Node::Blob { count: length, .. } => of_length(length),
        Node::Structure(structure) => structure.fields.iter().all(|(_, field)| depends_on(field, slots)),
        Node::Array { count, element, .. } => of_length(count) && depends_on(element, slots),
        Node::Variant { selector, options, .. } => {
            slots.contains(&selector.slot) && options.iter().all(|option| depends_on(&option.node, slots))
        }
        Node::Optional { selector, content, .. } => slots.contains(&selector.slot) && depends_on(content, slots),
    }
}

/// Nothing in it is wanted on the way over it.
fn is_plain(node: &Node) -> bool {
    match node {
        Node::Integer(integer) => {
            // Numbers that share bytes are read, to see that they have the same order.
            let is_whole_bytes = matches!(integer.width, Width::Bits(bits) if bits % 8 == 0) && integer.alignment >= 8;
            is_whole_bytes && integer.slot.is_none() && !integer.updates_clock && integer.roles.is_empty()
        }
        Node::Blob { is_uuid, .. } => !is_uuid,
        Node::Float { alignment, .. } => *alignment >= 8,
        Node::Text { length, encoding } => match length {
            Length::Fixed(bytes) => bytes.is_multiple_of(encoding.unit_bytes()),
            _ => encoding.unit_bytes() == 1,
        },
        Node::Structure(structure) => structure.fields.iter().all(|(_, field)| is_plain(field)),
        Node::Array { element, .. } => is_plain(element),
        Node::Variant { options, .. } => options.iter().all(|option| is_plain(&option.node)),
        Node::Optional { content, .. } => is_plain(content),
    }
}

/// Its size from an aligned start, when that is always the same.
fn fixed_bits(node: &Node) -> Option<u64> {
    match node {
        Node::Integer(integer) => match integer.width {
            Width::Bits(bits) => Some(bits.into()),
            Width::Variable => None,
        },
        Node::Float { bits, .. } => Some((*bits).into()),
        Node::Text { length, .. } | Node::Blob { count: length, .. } => match length {
            Length::Fixed(bytes) => bytes.checked_mul(8),
            _ => None,
        },
        Node::Structure(structure) => {
            let mut bits = 0_u64;
            for (_, field) in &structure.fields {
                bits = bits
                    .checked_next_multiple_of(alignment(field).into())?
                    .checked_add(fixed_bits(field)?)?;
            }
            Some(bits)
        }
        Node::Array { count, element, .. } => {
            let (Length::Fixed(count), Some(bits)) = (count, fixed_bits(element)) else {
                return None;
            };
            if *count == 0 {
                return Some(0);
            }
            let stride = bits.checked_next_multiple_of(alignment(element).into())?;
            if stride == 0 && *count > EMPTY_ELEMENTS_MAX {
                return None;
            }
            // No padding behind the last.
            stride.checked_mul(count - 1)?.checked_add(bits)
        }
        Node::Variant { .. } | Node::Optional { .. } => None,
    }
}

pub(super) fn alignment(node: &Node) -> u32 {
    match node {
        Node::Integer(integer) => integer.alignment,
        Node::Float { alignment, .. } | Node::Array { alignment, .. } => *alignment,
        Node::Text { .. } | Node::Blob { .. } => 8,
        Node::Structure(structure) => structure.alignment,
        Node::Variant { .. } | Node::Optional { .. } => 1,
    }
}

fn deepest_alignment(node: &Node) -> u32 {
    match node {
        Node::Structure(structure) => structure.deepest_alignment,
        Node::Array { alignment, element, .. } => deepest_alignment(element).max(*alignment),
        Node::Variant { options, .. } => {
            let options = options.iter().map(|option| deepest_alignment(&option.node));
            options.max().unwrap_or(1)
        }
        Node::Optional { content, .. } => deepest_alignment(content),
        node => alignment(node),
    }
}

/// The shortest way over fields that begin at a multiple of `start` bits. What is known of a place is its rest by some alignment.
fn steps(fields: &[(Arc<str>, Node)], start: u32) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let (mut known, mut rest) = (u64::from(start), 0_u64);
    let skip = |steps: &mut Vec<Step>, bits: u64| match steps.last_mut() {
        _ if bits == 0 => {}
        Some(Step::Skip(before)) => *before += bits,
        _ => steps.push(Step::Skip(bits)),
    };
    for (index, (_, field)) in fields.iter().enumerate() {
        let wanted = u64::from(alignment(field));
        let fixed = fixed_bits(field).filter(|_| is_plain(field));
        if wanted <= known {
            let padding = (wanted - rest % wanted) % wanted;
            // By the tree: it aligns itself.
            if fixed.is_some() || by_count(field).is_some() || is_terminated(field) {
                skip(&mut steps, padding);
                rest = (rest + padding) % known;
            }
        } else {
            if fixed.is_some() || by_count(field).is_some() || is_terminated(field) {
                steps.push(Step::Align(wanted as u32));
            }
            (known, rest) = (wanted, 0);
        }
        match fixed {
            Some(bits) => {
                skip(&mut steps, bits);
                rest = (rest + bits) % known;
            }
            None => {
                if let Some(step) = by_count(field) {
                    steps.push(step);
                } else if is_terminated(field) {
                    steps.push(Step::Terminated);
                } else {
                    steps.push(Step::Field(index));
                }
                (known, rest) = behind(field);
            }
        }
    }
    steps
}

fn is_terminated(node: &Node) -> bool {
    matches!(
        node,
        Node::Text {
            length: Length::Terminated,
            encoding: schema::Encoding::Utf8,
        }
    )
}

/// A sequence of elements that are all of one size.
fn by_count(node: &Node) -> Option<Step> {
    match node {
        Node::Text {
            length: Length::Slot(count),
            encoding: schema::Encoding::Utf8,
        }
        | Node::Blob {
            count: Length::Slot(count),
            ..
        } => Some(Step::Elements { count: *count, bits: 8 }),
        Node::Array {
            count: Length::Slot(count),
            stride: Some(stride),
            element,
            ..
        } if fixed_bits(element) == Some(*stride) => Some(Step::Elements {
            count: *count,
            bits: *stride,
        }),
        _ => None,
    }
}

/// What is known of the place behind a field whose size varies.
fn behind(node: &Node) -> (u64, u64) {
    match node {
        Node::Text { .. } | Node::Blob { .. } => (8, 0),
        Node::Integer(integer) if integer.width == Width::Variable => (8, 0),
        Node::Array {
            element,
            stride: Some(stride),
            ..
        } if fixed_bits(element) == Some(*stride) => {
            // Each element ends at a multiple of the largest power of two in its size.
            (1 << stride.trailing_zeros().min(3), 0)
        }
        _ => (1, 0),
    }
}

/// The header of most tracers, recognised by its shape.
fn compact(header: &Structure) -> Option<CompactHeader> {
    let [(_, Node::Integer(id)), (_, Node::Variant { selector, options, .. })] = &header.fields[..] else {
        return None;
    };
    let (short, long) = options.split_first()?;
    let (Width::Bits(id_bits), Some(slot)) = (id.width, id.slot) else {
        return None;
    };
    let only_id = id.roles == [Role::EventClassId]
        && !id.is_signed
        && !id.is_reversed
        && !id.updates_clock
        && id.meaning == Meaning::Number;
    if selector.slot != slot || !only_id || !(1..FORMS_MAX).contains(&long.len()) {
        return None;
    }
    let [(0, most)] = short.ranges[..] else { return None };
    let mut long_forms = [None; FORMS_MAX - 1];
    for ((form, option), selector) in long_forms.iter_mut().zip(long).zip(most + 1..) {
        if option.ranges[..] != [(selector, selector)] {
            return None;
        }
        *form = Some(long_form(selector as u64, &option.node, id)?);
    }
    let is_whole = most as u128 + long.len() as u128 == (1_u128 << id_bits) - 1;
    let Node::Structure(short) = &short.node else {
        return None;
    };
    let [(_, time)] = &short.fields[..] else { return None };
    is_whole.then_some(CompactHeader {
        alignment: header.alignment,
        byte_order: id.byte_order,
        id_bits,
        id_slot: slot,
        structure_alignment: short.alignment,
        time: header_number(time, &[], id)?,
        long_forms,
    })
}

fn long_form(selector: u64, node: &Node, short_id: &IntegerNode) -> Option<LongForm> {
    let Node::Structure(structure) = node else { return None };
    let [(_, first), (_, second)] = &structure.fields[..] else {
        return None;
    };
    let (is_id, is_time) = (&[Role::EventClassId][..], &[][..]);
    let numbers = |first_is: &[Role], second_is: &[Role]| {
        Some([
            header_number(first, first_is, short_id)?,
            header_number(second, second_is, short_id)?,
        ])
    };
    let (numbers, id_is_first) = match numbers(is_id, is_time) {
        Some(numbers) => (numbers, true),
        None => (numbers(is_time, is_id)?, false),
    };
    Some(LongForm {
        selector,
        structure_alignment: structure.alignment,
        numbers,
        id_is_first,
    })
}

/// An id, or, without a role, the time.
fn header_number(node: &Node, roles: &[Role], short_id: &IntegerNode) -> Option<CompactNumber> {
    let Node::Integer(integer) = node else { return None };
    let Width::Bits(bits) = integer.width else { return None };
    let same_order = integer.byte_order == short_id.byte_order || bits == 8;
    let is_plain = !integer.is_signed && !integer.is_reversed && integer.slot.is_none();
    let is_meant = integer.roles == roles && integer.updates_clock == roles.is_empty();
    (same_order && is_plain && is_meant).then_some(CompactNumber {
        alignment: integer.alignment,
        bits,
    })
}
