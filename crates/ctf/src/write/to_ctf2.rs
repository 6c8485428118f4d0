// SPDX-License-Identifier: MIT OR Apache-2.0
//! A schema of CTF 1.8 as one of CTF 2 that describes the same bytes.

use std::sync::Arc;

use super::{Unwritable, names};
use crate::read::plan::references::{References, Root, Way};
use crate::read::plan::ways::{bare, ranges_of};
use crate::read::roles;
use crate::read::schema::{
    Array, Blob, Clock, Count, Enumeration, EventClass, Identity, Integer, Label, Meaning, Reference, Role, Schema,
    Scope, StreamClass, Structure, Text, TextLength, Type, Variant, VariantOption, Version, Width,
};

pub(super) fn translate(schema: &Schema, references: &References) -> Result<Schema, Unwritable> {
    let translation = Translation { schema, references };
    let root = |scope, stream, event| Root { scope, stream, event };
    let packet_header = translation.scope(root(Scope::PacketHeader, None, None), &schema.packet_header, None)?;
    let has_stream_ids = has_role(packet_header.as_deref(), Role::StreamClassId);
    let mut streams = vec![];
    for stream in schema.streams.values() {
        let scope = |scope, of_type| translation.scope(root(scope, Some(stream.id), None), of_type, stream.clock);
        let event_header = scope(Scope::EventHeader, &stream.event_header)?;
        let packet_context = scope(Scope::PacketContext, &stream.packet_context)?;
        let has = |role| has_role(packet_context.as_deref(), role);
        // A packet that does not say how long it is has no other behind it.
        let may_be_several = has(Role::TotalBits) || has(Role::ContentBits);
        if may_be_several && has_short_times(event_header.as_deref()) && !has(Role::BeginTime) {
            let place = names::place(schema, root(Scope::PacketContext, Some(stream.id), None), &[]);
            let what = "in CTF 2, a packet without a begin time counts from 0, and the events have only the low bits of their times";
            return Err(Unwritable {
                place,
                what: what.into(),
            });
        }
        let has_event_ids = has_role(event_header.as_deref(), Role::EventClassId);
        let mut events = vec![];
        for event in stream.events.values() {
            let scope =
                |scope, of_type| translation.scope(root(scope, Some(stream.id), Some(event.id)), of_type, stream.clock);
            events.push(EventClass {
                // Without ids in the packets, 0 is meant.
                id: if has_event_ids || stream.events.len() > 1 {
                    event.id
                } else {
                    0
                },
                specific_context: scope(Scope::SpecificContext, &event.specific_context)?,
                payload: scope(Scope::Payload, &event.payload)?,
                ..event.clone()
            });
        }
        streams.push(StreamClass {
            id: if has_stream_ids || schema.streams.len() > 1 {
                stream.id
            } else {
                0
            },
            packet_context,
            event_header,
            event_context: scope(Scope::EventContext, &stream.event_context)?,
            events: events.into_iter().map(|event| (event.id, event)).collect(),
            ..stream.clone()
        });
    }
    Ok(Schema {
        version: Version::Ctf2,
        clocks: schema.clocks.iter().map(clock).collect(),
        packet_header,
        streams: streams.into_iter().map(|stream| (stream.id, stream)).collect(),
        ..schema.clone()
    })
}

fn clock(clock: &Clock) -> Clock {
    Clock {
        identity: Identity {
            namespace: None,
            name: Some(clock.name.clone()),
            uid: clock.uuid.as_ref().map(crate::metadata::uuid_text),
        },
        ..clock.clone()
    }
}

fn has_role(of_type: Option<&Type>, role: Role) -> bool {
    match of_type {
        Some(Type::Structure(structure)) => structure.fields.iter().any(|(_, field)| has_role(Some(field), role)),
        Some(Type::Variant(variant)) => variant
            .options
            .iter()
            .any(|option| has_role(Some(&option.of_type), role)),
        Some(other) => other.integer().is_some_and(|integer| integer.roles.contains(&role)),
        None => false,
    }
}

/// Times of events are not whole, but count on from the one before.
fn has_short_times(of_type: Option<&Type>) -> bool {
    match of_type {
        Some(Type::Structure(structure)) => structure.fields.iter().any(|(_, field)| has_short_times(Some(field))),
        Some(Type::Variant(variant)) => variant
            .options
            .iter()
            .any(|option| has_short_times(Some(&option.of_type))),
        Some(other) => other
            .integer()
            .is_some_and(|integer| integer.clock.is_some() && integer.width != Width::Bits(64)),
        None => false,
    }
}

struct Translation<'a> {
    schema: &'a Schema,
    references: &'a References,
}

/// The scope that is being translated.
#[derive(Clone, Copy)]
struct Within {
    root: Root,
    /// Of the stream.
    clock: Option<usize>,
}

type Translated<T> = Result<T, Unwritable>;

impl Translation<'_> {
    fn scope(&self, root: Root, of_type: &Option<Arc<Type>>, clock: Option<usize>) -> Translated<Option<Arc<Type>>> {
        let within = Within { root, clock };
        let of_type = of_type.as_deref();
        of_type
            .map(|of_type| self.of_type(within, of_type, &mut vec![]).map(Arc::new))
            .transpose()
    }

    fn of_type(&self, within: Within, of_type: &Type, way: &mut Way) -> Translated<Type> {
        Ok(match of_type {
            Type::Integer(_) | Type::Enumeration(_) if self.counts_on(within, of_type) => {
                let what = "in CTF 2, events have times only in their headers, from the one clock of the stream";
                return Err(self.wrong(within.root, way, what));
            }
            Type::Integer(integer) => Type::Integer(number(within, integer)),
            Type::Enumeration(enumeration) => enumerated(within, enumeration),
            Type::Float(_) => of_type.clone(),
            Type::Text(text) => Type::Text(Text {
                length: match &text.length {
                    TextLength::From(_) => TextLength::From(self.reference(within.root, way)),
                    other => other.clone(),
                },
                encoding: text.encoding,
            }),
            Type::Blob(blob) => Type::Blob(Blob {
                count: self.count(&blob.count, within.root, way),
                ..blob.clone()
            }),
            Type::Structure(structure) => Type::Structure(self.structure(within, structure, way)?),
            Type::Array(array) => Type::Array(Array {
                count: self.count(&array.count, within.root, way),
                element: self.inner(within, &array.element, 0, way)?,
                alignment: array.alignment,
            }),
            Type::Variant(variant) => self.variant(within, variant, way)?,
            Type::Optional(_) => return Err(self.wrong(within.root, way, "CTF 1.8 has no optionals")),
        })
    }

    fn inner(&self, within: Within, of_type: &Type, index: usize, way: &mut Way) -> Translated<Arc<Type>> {
        way.push(index as u32);
        let inner = self.of_type(within, of_type, way);
        way.pop();
        inner.map(Arc::new)
    }

    fn structure(&self, within: Within, structure: &Structure, way: &mut Way) -> Translated<Structure> {
        let mut fields = vec![];
        let names = names::for_ctf2(structure);
        for (index, ((name, of_type), new_name)) in structure.fields.iter().zip(names).enumerate() {
            let mut field = self.inner(within, of_type, index, way)?;
            if let Some(role) = roles::of_field(within.root.scope, name, way.len() + 1) {
                let is_first = index == 0 && way.is_empty();
                field = self.with_role(within, field, role, is_first);
            }
            fields.push((new_name, field));
        }
        Ok(Structure {
            alignment: structure.alignment,
            fields,
        })
    }

    /// The field with its task, when it has the type for it.
    fn with_role(&self, within: Within, field: Arc<Type>, role: Role, is_first: bool) -> Arc<Type> {
        let is_time = matches!(role, Role::BeginTime | Role::EndTime);
        if is_time && within.clock.is_none() {
            return field;
        }
        let given = |integer: &Integer| {
            let magic_fits = role != Role::Magic || is_first && integer.width == Width::Bits(32);
            (!integer.is_signed && magic_fits && role != Role::Uuid).then(|| Integer {
                roles: vec![role],
                clock: if is_time { within.clock } else { integer.clock },
                ..integer.clone()
            })
        };
        let of_role = match &*field {
            Type::Integer(integer) => given(integer).map(Type::Integer),
            Type::Enumeration(Enumeration { integer, labels }) => given(integer).map(|integer| {
                Type::Enumeration(Enumeration {
                    integer,
                    labels: labels.clone(),
                })
            }),
            Type::Array(array) if role == Role::Uuid && self.schema.uuid.is_some() && is_bytes(array) => {
                Some(Type::Blob(Blob {
                    count: Count::Fixed(16),
                    media_type: None,
                    roles: vec![Role::Uuid],
                }))
            }
            _ => None,
        };
        of_role.map_or(field, Arc::new)
    }

    fn variant(&self, within: Within, variant: &Variant, way: &mut Way) -> Translated<Type> {
        let resolved = self.references.resolved(within.root, way);
        let mut taken: Vec<(i128, i128)> = vec![];
        let mut options = vec![];
        for (index, option) in variant.options.iter().enumerate() {
            let name = option.name.as_deref().unwrap_or_default();
            let mut ranges = ranges_of(&resolved.labels, name);
            // Where labels overlap, the first option is meant.
            for &before in &taken {
                ranges = ranges.into_iter().flat_map(|range| without(range, before)).collect();
            }
            // No value selects it.
            if ranges.is_empty() {
                continue;
            }
            taken.extend(&ranges);
            options.push(VariantOption {
                name: Some(bare(name).to_owned()),
                ranges,
                of_type: self.inner(within, &option.of_type, index, way)?,
            });
        }
        if options.is_empty() {
            return Err(self.wrong(within.root, way, "its selector has no value that selects an option"));
        }
        let named = |name: &Option<String>| options.iter().filter(|option| option.name == *name).count();
        let names: Vec<bool> = options.iter().map(|option| named(&option.name) > 1).collect();
        for (option, is_shared) in options.iter_mut().zip(names) {
            if is_shared {
                option.name = None;
            }
        }
        let selector = self.reference(within.root, way);
        Ok(Type::Variant(Variant { selector, options }))
    }

    /// A number that updates a clock, where none can in CTF 2.
    fn counts_on(&self, within: Within, of_type: &Type) -> bool {
        let clock = of_type.integer().and_then(|integer| integer.clock);
        match within.root.scope {
            Scope::PacketHeader | Scope::PacketContext => false,
            Scope::EventHeader => clock.is_some() && clock != within.clock,
            Scope::EventContext | Scope::SpecificContext | Scope::Payload => clock.is_some(),
        }
    }

    fn count(&self, count: &Count, root: Root, way: &Way) -> Count {
        match count {
            Count::Fixed(count) => Count::Fixed(*count),
            Count::From(_) => Count::From(self.reference(root, way)),
        }
    }

    /// From the start of the scope, by the names in CTF 2.
    fn reference(&self, root: Root, way: &Way) -> Reference {
        let (target, way) = &self.references.resolved(root, way).targets[0];
        let structure = names::structure(self.schema, *target).expect("it was found there");
        let mut path = vec![];
        names::follow(structure, way, &mut |structure, _, index| {
            path.push(Some(names::for_ctf2(structure)[index].clone()));
        });
        Reference {
            origin: Some(target.scope),
            path,
        }
    }

    fn wrong(&self, root: Root, way: &[u32], what: &str) -> Unwritable {
        Unwritable {
            place: names::place(self.schema, root, way),
            what: what.into(),
        }
    }
}

fn number(within: Within, integer: &Integer) -> Integer {
    Integer {
        // Only times of events count on in CTF 2, and only those of the stream's clock.
        clock: integer.clock.filter(|clock| {
            within.root.scope == Scope::EventHeader && within.clock == Some(*clock) && !integer.is_signed
        }),
        meaning: Meaning::Number,
        ..integer.clone()
    }
}

/// Labels that no value of the type has are left out.
fn enumerated(within: Within, enumeration: &Enumeration) -> Type {
    let integer = number(within, &enumeration.integer);
    let (least, most) = match integer.is_signed {
        true => (i128::from(i64::MIN), i128::from(i64::MAX)),
        false => (0, i128::from(u64::MAX)),
    };
    let labels = enumeration.labels.iter().map(|label| Label {
        name: label.name.clone(),
        ranges: label
            .ranges
            .iter()
            .map(|&(first, last)| (first.max(least), last.min(most)))
            .filter(|(first, last)| first <= last)
            .collect(),
    });
    let labels: Vec<Label> = labels.filter(|label| !label.ranges.is_empty()).collect();
    match labels.is_empty() {
        true => Type::Integer(integer),
        false => Type::Enumeration(Enumeration { integer, labels }),
    }
}

/// Sixteen whole bytes.
fn is_bytes(array: &Array) -> bool {
    let byte = |integer: &Integer| integer.width == Width::Bits(8) && integer.alignment == 8;
    array.count == Count::Fixed(16) && array.element.integer().is_some_and(byte)
}

/// What is left of a range.
fn without((first, last): (i128, i128), (from, to): (i128, i128)) -> impl Iterator<Item = (i128, i128)> {
    let parts = [(first, last.min(from - 1)), (first.max(to + 1), last)];
    // Ranges that do not meet are whole in one part, and the same part is not taken twice.
    let apart = to < first || from > last;
    let parts = if apart { [(first, last), (1, 0)] } else { parts };
    parts.into_iter().filter(|(first, last)| first <= last)
}
