// SPDX-License-Identifier: MIT OR Apache-2.0
//! A schema of CTF 2 as one of CTF 1.8 that describes the same bytes.
//!
//! Selectors come first: which names the values of a number need, so that variants can select by them, is known from all variants and
//! optionals that depend on it ([`selectors`]).

mod locations;
mod selectors;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::{Unwritable, names};
use crate::metadata::names::identifier;
use crate::read::plan::references::{References, Root, Way};
use crate::read::schema::{
    Array, Base, ByteOrder, Clock, Count, Encoding, Enumeration, EventClass, Identity, Integer, Meaning, Role, Schema,
    Scope, StreamClass, Structure, Text, TextLength, Type, Variant, VariantOption, Version, Width,
};
use selectors::Selectors;

pub(super) fn translate(schema: &Schema, references: &References) -> Translated<Schema> {
    let translation = Translation {
        schema,
        references,
        selectors: Selectors::find(schema, references)?,
    };
    let root = |scope, stream, event| Root { scope, stream, event };
    let mut streams = BTreeMap::new();
    for stream in meant(&schema.streams, schema.packet_header.as_deref(), Role::StreamClassId) {
        let scope = |scope, of_type| translation.scope(root(scope, Some(stream.id), None), of_type);
        let mut events = BTreeMap::new();
        for event in meant(&stream.events, stream.event_header.as_deref(), Role::EventClassId) {
            let scope = |scope, of_type| translation.scope(root(scope, Some(stream.id), Some(event.id)), of_type);
            let class = EventClass {
                namespace: None,
                uid: None,
                specific_context: scope(Scope::SpecificContext, &event.specific_context)?,
                payload: scope(Scope::Payload, &event.payload)?,
                ..event.clone()
            };
            events.insert(event.id, class);
        }
        let class = StreamClass {
            id: stream.id,
            namespace: None,
            name: None,
            uid: None,
            clock: stream.clock,
            packet_context: scope(Scope::PacketContext, &stream.packet_context)?,
            event_header: scope(Scope::EventHeader, &stream.event_header)?,
            event_context: scope(Scope::EventContext, &stream.event_context)?,
            events,
        };
        streams.insert(stream.id, class);
    }
    let environment = schema.environment.iter();
    Ok(Schema {
        version: Version::Ctf1,
        uuid: schema.uuid,
        identity: Identity::default(),
        environment: environment
            .map(|(key, value)| (identifier(key), value.clone()))
            .collect(),
        clocks: clocks(&schema.clocks),
        packet_header: translation.scope(root(Scope::PacketHeader, None, None), &schema.packet_header)?,
        streams,
    })
}

/// Classes that packets can name: without ids in them, it is 0.
fn meant<'a, T>(classes: &'a BTreeMap<u64, T>, header: Option<&Type>, role: Role) -> impl Iterator<Item = &'a T> {
    let only_zero = classes.len() > 1 && classes.contains_key(&0) && !has_role(header, role);
    classes
        .iter()
        .filter(move |(id, _)| !only_zero || **id == 0)
        .map(|(_, class)| class)
}

fn has_role(of_type: Option<&Type>, role: Role) -> bool {
    let Some(of_type) = of_type else { return false };
    match of_type {
        Type::Structure(structure) => structure.fields.iter().any(|(_, field)| has_role(Some(field), role)),
        Type::Variant(variant) => variant
            .options
            .iter()
            .any(|option| has_role(Some(&option.of_type), role)),
        Type::Optional(optional) => has_role(Some(&optional.content), role),
        Type::Array(array) => has_role(Some(&array.element), role),
        _ => of_type.integer().is_some_and(|integer| integer.roles.contains(&role)),
    }
}

fn clocks(clocks: &[Clock]) -> Vec<Clock> {
    let mut taken = HashSet::new();
    let clocks = clocks.iter().map(|clock| {
        let stem = identifier(clock.identity.name.as_ref().unwrap_or(&clock.name));
        let mut name = stem.clone();
        for number in 2.. {
            if taken.insert(name.clone()) {
                break;
            }
            name = format!("{stem}_{number}");
        }
        Clock {
            name,
            identity: Identity::default(),
            accuracy_cycles: None,
            origin: None,
            ..clock.clone()
        }
    });
    clocks.collect()
}

type Translated<T> = Result<T, Unwritable>;

struct Translation<'a> {
    schema: &'a Schema,
    references: &'a References,
    selectors: Selectors,
}

impl Translation<'_> {
    fn scope(&self, root: Root, of_type: &Option<Arc<Type>>) -> Translated<Option<Arc<Type>>> {
        let of_type = of_type.as_deref();
        of_type
            .map(|of_type| self.of_type(root, of_type, &mut vec![]).map(Arc::new))
            .transpose()
    }

    fn of_type(&self, root: Root, of_type: &Type, way: &mut Way) -> Translated<Type> {
        Ok(match of_type {
            Type::Integer(integer) => self.integer(root, integer, None, way)?,
            Type::Enumeration(enumeration) => self.integer(root, &enumeration.integer, Some(enumeration), way)?,
            Type::Float(float) if float.is_reversed => return Err(self.wrong(root, way, OTHER_BIT_ORDER)),
            Type::Float(_) => of_type.clone(),
            Type::Text(text) => self.text(root, text, way)?,
            Type::Blob(blob) => Type::Array(Array {
                element: Arc::new(byte()),
                count: self.count(&blob.count, root, way)?,
                alignment: 1,
            }),
            Type::Structure(structure) => Type::Structure(self.structure(root, structure, way)?),
            Type::Array(array) => {
                if array.alignment > array.element.alignment() && !self.is_field(root, way) {
                    return Err(self.wrong(
                        root,
                        way,
                        "CTF 1.8 has no arrays within arrays that have an alignment of their own",
                    ));
                }
                Type::Array(Array {
                    count: self.count(&array.count, root, way)?,
                    element: self.inner(root, &array.element, 0, way)?,
                    alignment: 1,
                })
            }
            Type::Variant(variant) => {
                let names = self.selectors.option_names(root, way);
                let mut options = vec![];
                for (index, (option, name)) in variant.options.iter().zip(names).enumerate() {
                    options.push(VariantOption {
                        name: Some(name.clone()),
                        ranges: vec![],
                        of_type: self.inner(root, &option.of_type, index, way)?,
                    });
                }
                Type::Variant(Variant {
                    selector: self.reference(root, way)?,
                    options,
                })
            }
            Type::Optional(optional) => {
                let content = self.inner(root, &optional.content, 0, way)?;
                let [none, some] = self.selectors.option_names(root, way) else {
                    unreachable!("an optional is there or not")
                };
                let option = |name: &String, of_type| VariantOption {
                    name: Some(name.clone()),
                    ranges: vec![],
                    of_type,
                };
                let nothing = Arc::new(Type::Structure(Structure {
                    alignment: 1,
                    fields: vec![],
                }));
                Type::Variant(Variant {
                    selector: self.reference(root, way)?,
                    options: vec![option(none, nothing), option(some, content)],
                })
            }
        })
    }

    fn inner(&self, root: Root, of_type: &Type, index: usize, way: &mut Way) -> Translated<Arc<Type>> {
        way.push(index as u32);
        let inner = self.of_type(root, of_type, way);
        way.pop();
        inner.map(Arc::new)
    }

    fn structure(&self, root: Root, structure: &Structure, way: &mut Way) -> Translated<Structure> {
        let mut fields = vec![];
        let names = names::for_ctf1(structure, root.scope, way.is_empty());
        for (index, ((_, of_type), name)) in structure.fields.iter().zip(&names).enumerate() {
            if let Type::Array(array) = &**of_type
                && array.alignment > array.element.alignment()
            {
                let padding = Type::Structure(Structure {
                    alignment: array.alignment,
                    fields: vec![],
                });
                let free = (1..).map(|number| format!("{name}_padding_{number}"));
                let padding_name = free
                    .into_iter()
                    .find(|free| !names.contains(free))
                    .expect("numbers do not end");
                fields.push((padding_name, Arc::new(padding)));
            }
            fields.push((name.clone(), self.inner(root, of_type, index, way)?));
        }
        Ok(Structure {
            alignment: structure.alignment,
            fields,
        })
    }

    fn integer(&self, root: Root, integer: &Integer, named: Option<&Enumeration>, way: &Way) -> Translated<Type> {
        if integer.width == Width::Variable {
            return Err(self.wrong(root, way, "CTF 1.8 has no integers of variable length"));
        }
        if integer.is_reversed {
            return Err(self.wrong(root, way, OTHER_BIT_ORDER));
        }
        if !integer.roles.is_empty() && !self.can_have_role(root, &integer.roles, way) {
            let what = "in CTF 1.8, only fields of the scope itself can have roles, one role each";
            return Err(self.wrong(root, way, what));
        }
        let translated = Integer {
            meaning: Meaning::Number,
            roles: vec![],
            labels: vec![],
            ..integer.clone()
        };
        let own = named.map_or(&[][..], |enumeration| &enumeration.labels);
        let labels = self.selectors.labels(root, way, own);
        Ok(match labels.is_empty() {
            true => Type::Integer(translated),
            false => Type::Enumeration(Enumeration {
                integer: translated,
                labels,
            }),
        })
    }

    fn can_have_role(&self, root: Root, roles: &[Role], way: &Way) -> bool {
        let of_whole_packet = [Role::ContentBits, Role::TotalBits];
        match *roles {
            [Role::EventClassId] => self.is_field(root, way),
            [_] => way.len() == 1,
            [one, other] => way.len() == 1 && of_whole_packet.contains(&one) && of_whole_packet.contains(&other),
            _ => false,
        }
    }

    /// Not an element, an option or the content of an optional.
    fn is_field(&self, root: Root, way: &Way) -> bool {
        let Some(structure) = names::structure(self.schema, root) else {
            return false;
        };
        let mut last = 0;
        names::follow(structure, way, &mut |_, before, _| last = before.len() + 1);
        last == way.len()
    }

    fn text(&self, root: Root, text: &Text, way: &Way) -> Translated<Type> {
        if text.encoding != Encoding::Utf8 {
            return Err(self.wrong(root, way, "CTF 1.8 has no texts in UTF-16 or UTF-32"));
        }
        let length = match &text.length {
            TextLength::From(_) => TextLength::From(self.reference(root, way)?),
            other => other.clone(),
        };
        Ok(Type::Text(Text {
            length,
            encoding: Encoding::Utf8,
        }))
    }

    fn count(&self, count: &Count, root: Root, way: &Way) -> Translated<Count> {
        Ok(match count {
            Count::Fixed(count) => Count::Fixed(*count),
            Count::From(_) => Count::From(self.reference(root, way)?),
        })
    }

    fn wrong(&self, root: Root, way: &[u32], what: &str) -> Unwritable {
        Unwritable {
            place: names::place(self.schema, root, way),
            what: what.into(),
        }
    }
}

const OTHER_BIT_ORDER: &str = "in CTF 1.8, the bit order follows the byte order";

/// Of a BLOB.
fn byte() -> Type {
    Type::Integer(Integer {
        width: Width::Bits(8),
        is_signed: false,
        alignment: 8,
        byte_order: ByteOrder::Little,
        is_reversed: false,
        base: Base::Hexadecimal,
        meaning: Meaning::Number,
        clock: None,
        roles: vec![],
        labels: vec![],
    })
}
