// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which earlier number each length, variant and optional depends on.
//!
//! Every number that something depends on gets a slot. A way may lead through variants (specification of CTF 2, 6.4.2): then one number in each
//! option may be meant, only one of which is ever read, and all have the same slot. How ways are followed is in ways.rs.

use std::collections::HashMap;

use super::ways::{Frame, Target, Ways};
use super::{PlanError, Slot, scope_name, size};
use crate::read::schema::{
    Count, Integer, Label, Meaning, Reference, Schema, Scope, Structure, TextLength, Type, Version,
};

/// A scope's structure: that of the trace, of a stream, or of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Root {
    pub(crate) scope: Scope,
    pub(crate) stream: Option<u64>,
    pub(crate) event: Option<u64>,
}

/// The way to a type: indices of fields and options, 0 for elements and contents.
pub(crate) type Way = Vec<u32>;

/// What something depends on.
#[derive(Clone, Debug)]
pub(crate) struct Resolved {
    slot: Slot,
    pub(super) is_signed: bool,
    /// Names of its values.
    pub(crate) labels: Vec<Label>,
    /// The numbers that may be meant; one at least.
    pub(crate) targets: Vec<(Root, Way)>,
}

#[derive(Default)]
pub(crate) struct References {
    slots: HashMap<(Root, Way), Slot>,
    /// By slot: the slot that it became one with.
    joined: Vec<Slot>,
    resolved: HashMap<(Root, Way), Resolved>,
}

/// What needs a number.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    Length,
    Selector,
    /// Of an optional; with or without ranges.
    Presence {
        has_ranges: bool,
    },
}

/// A class of events that depends on a field that there is not.
pub(super) struct Unresolved {
    /// Class of its stream.
    pub(super) stream: u64,
    pub(super) event: u64,
    pub(super) fault: PlanError,
}

impl References {
    /// The slot of a number; `None` when nothing depends on it.
    pub(super) fn slot(&self, root: Root, way: &Way) -> Option<Slot> {
        let slot = self.slots.get(&(root, way.clone()))?;
        Some(self.last(*slot))
    }

    /// What the length, variant or optional there depends on.
    pub(crate) fn resolved(&self, root: Root, way: &Way) -> &Resolved {
        &self.resolved[&(root, way.clone())]
    }

    /// The slot of what the length, variant or optional there depends on.
    pub(super) fn slot_of(&self, root: Root, way: &Way) -> Slot {
        self.last(self.resolved(root, way).slot)
    }

    pub(super) fn slot_count(&self) -> usize {
        self.joined.len()
    }

    fn last(&self, slot: Slot) -> Slot {
        match self.joined[usize::from(slot)] {
            same if same == slot => slot,
            other => self.last(other),
        }
    }

    /// Resolves every reference of a schema.
    pub(crate) fn find(schema: &Schema) -> Result<References, PlanError> {
        References::resolve(schema, &mut |_, _, fault| Err(fault))
    }

    /// The same, but for classes of events that depend on a field that there is not.
    pub(super) fn salvage(schema: &Schema) -> Result<(References, Vec<Unresolved>), PlanError> {
        let mut wrong = Vec::new();
        let references = References::resolve(schema, &mut |stream, event, fault| {
            wrong.push(Unresolved { stream, event, fault });
            Ok(())
        })?;
        Ok((references, wrong))
    }

    /// `of_event` says whether to go on when something is wrong with a class of events.
    fn resolve(
        schema: &Schema,
        of_event: &mut dyn FnMut(u64, u64, PlanError) -> Result<(), PlanError>,
    ) -> Result<References, PlanError> {
        size::check(schema)?;
        let mut references = References::default();
        let mut roots = Roots::new();
        let add = |roots: &mut Roots<'_>, references: &mut References| {
            let (root, structure) = *roots.last().expect("one was pushed");
            let mut walker = Walker {
                references,
                version: schema.version,
                roots: &roots[..],
                root,
                frames: vec![],
            };
            walker.structure(structure, &mut vec![])
        };
        let root = |scope, stream, event| Root { scope, stream, event };
        if let Some(structure) = structure_of(schema.packet_header.as_deref()) {
            roots.push((root(Scope::PacketHeader, None, None), structure));
            add(&mut roots, &mut references)?;
        }
        for stream in schema.streams.values() {
            let before = roots.len();
            for (scope, of_type) in [
                (Scope::PacketContext, &stream.packet_context),
                (Scope::EventHeader, &stream.event_header),
                (Scope::EventContext, &stream.event_context),
            ] {
                if let Some(structure) = structure_of(of_type.as_deref()) {
                    roots.push((root(scope, Some(stream.id), None), structure));
                    add(&mut roots, &mut references)?;
                }
            }
            for event in stream.events.values() {
                let before = roots.len();
                for (scope, of_type) in [
                    (Scope::SpecificContext, &event.specific_context),
                    (Scope::Payload, &event.payload),
                ] {
                    if let Some(structure) = structure_of(of_type.as_deref()) {
                        roots.push((root(scope, Some(stream.id), Some(event.id)), structure));
                        if let Err(fault) = add(&mut roots, &mut references) {
                            of_event(stream.id, event.id, fault)?;
                            break;
                        }
                    }
                }
                roots.truncate(before);
            }
            roots.truncate(before);
        }
        Ok(references)
    }

    /// One slot for all of these numbers.
    fn join(&mut self, targets: &[(Root, Way)]) -> Option<Slot> {
        let known: Vec<Slot> = targets.iter().filter_map(|(root, way)| self.slot(*root, way)).collect();
        let slot = match known.iter().min() {
            Some(slot) => *slot,
            None => {
                let next = Slot::try_from(self.joined.len()).ok()?;
                self.joined.push(next);
                next
            }
        };
        for other in known {
            self.joined[usize::from(other)] = slot;
        }
        for target in targets {
            self.slots.insert(target.clone(), slot);
        }
        Some(slot)
    }
}

pub(crate) fn structure_of(of_type: Option<&Type>) -> Option<&Structure> {
    match of_type {
        Some(Type::Structure(structure)) => Some(structure),
        _ => None,
    }
}

/// The structures that are read so far, in their order.
pub(super) type Roots<'a> = Vec<(Root, &'a Structure)>;

struct Walker<'a, 'r> {
    references: &'r mut References,
    version: Version,
    roots: &'r [(Root, &'a Structure)],
    root: Root,
    /// The structures around.
    frames: Vec<Frame<'a>>,
}

impl<'a> Walker<'a, '_> {
    fn structure(&mut self, structure: &'a Structure, way: &mut Way) -> Result<(), PlanError> {
        self.frames.push(Frame {
            structure,
            start: way.len(),
        });
        for (index, (_, of_type)) in structure.fields.iter().enumerate() {
            self.within(of_type, index as u32, way)?;
        }
        self.frames.pop();
        Ok(())
    }

    fn of_type(&mut self, of_type: &'a Type, way: &mut Way) -> Result<(), PlanError> {
        match of_type {
            Type::Integer(_) | Type::Enumeration(_) | Type::Float(_) => Ok(()),
            Type::Text(text) => match &text.length {
                TextLength::From(reference) => self.resolve(reference, Need::Length, way),
                _ => Ok(()),
            },
            Type::Blob(blob) => self.count(&blob.count, way),
            Type::Structure(structure) => self.structure(structure, way),
            Type::Array(array) => {
                self.count(&array.count, way)?;
                self.within(&array.element, 0, way)
            }
            Type::Variant(variant) => {
                self.resolve(&variant.selector, Need::Selector, way)?;
                for (index, option) in variant.options.iter().enumerate() {
                    self.within(&option.of_type, index as u32, way)?;
                }
                Ok(())
            }
            Type::Optional(optional) => {
                let has_ranges = !optional.ranges.is_empty();
                self.resolve(&optional.selector, Need::Presence { has_ranges }, way)?;
                self.within(&optional.content, 0, way)
            }
        }
    }

    fn within(&mut self, of_type: &'a Type, index: u32, way: &mut Way) -> Result<(), PlanError> {
        way.push(index);
        let walked = self.of_type(of_type, way);
        way.pop();
        walked
    }

    fn count(&mut self, count: &Count, way: &Way) -> Result<(), PlanError> {
        match count {
            Count::Fixed(_) => Ok(()),
            Count::From(reference) => self.resolve(reference, Need::Length, way),
        }
    }

    fn resolve(&mut self, reference: &Reference, need: Need, way: &Way) -> Result<(), PlanError> {
        let names = reference.path.iter().map(|name| name.as_deref().unwrap_or(".."));
        let shown = names.collect::<Vec<&str>>().join(".");
        let ways = Ways {
            version: self.version,
            roots: self.roots,
            root: self.root,
            frames: &self.frames,
            way,
        };
        let found = ways.find(reference);
        let wrong = |what: String| PlanError {
            place: self.place(),
            what,
        };
        let Some(Target { of_type: first, .. }) = found.first() else {
            return Err(wrong(format!(
                "there is no field `{shown}` before the field that depends on it"
            )));
        };
        let (mut labels, mut kind) = (vec![], None);
        for target in &found {
            let number = suitable(target.of_type, need, self.version).map_err(|what| {
                wrong(format!(
                    "the field `{shown}`, on which another field depends, is {what}"
                ))
            })?;
            let this = (number.is_signed, number.meaning == Meaning::Boolean);
            if *kind.get_or_insert(this) != this {
                let what = format!(
                    "the field `{shown}`, on which another field depends, is signed in one option and unsigned in another"
                );
                return Err(wrong(what));
            }
            if let Type::Enumeration(enumeration) = first {
                labels.clone_from(&enumeration.labels);
            }
        }
        let targets: Vec<(Root, Way)> = found.into_iter().map(|target| (target.root, target.way)).collect();
        let full = wrong(format!("other fields depend on more than {} fields", Slot::MAX));
        let slot = self.references.join(&targets).ok_or(full)?;
        let resolved = Resolved {
            slot,
            is_signed: kind.is_some_and(|(is_signed, _)| is_signed),
            labels,
            targets,
        };
        self.references.resolved.insert((self.root, way.clone()), resolved);
        Ok(())
    }

    fn place(&self) -> String {
        let Root { scope, stream, event } = self.root;
        let scope = scope_name(scope);
        match (stream, event) {
            (Some(stream), Some(event)) => format!("{scope} of event {event} of stream {stream}"),
            (Some(stream), None) => format!("{scope} of stream {stream}"),
            _ => scope.to_owned(),
        }
    }
}

/// The number, if another field can depend on it in this way; otherwise what it is.
fn suitable(of_type: &Type, need: Need, version: Version) -> Result<&Integer, &'static str> {
    let integer = of_type.integer().ok_or("not a number")?;
    match (need, integer.meaning) {
        (_, Meaning::Bits) => Err("a set of bits, not a number"),
        (Need::Presence { has_ranges: false }, Meaning::Boolean) => Ok(integer),
        (Need::Presence { has_ranges: true }, Meaning::Boolean) => Err("a boolean, which has no ranges"),
        (_, Meaning::Boolean) => Err("a boolean, not a number"),
        (Need::Presence { has_ranges: false }, _) => Err("a number without ranges"),
        (Need::Length, _) if integer.is_signed => Err("a signed number, which cannot be a length"),
        (Need::Selector, _) if version == Version::Ctf1 && !matches!(of_type, Type::Enumeration(_)) => {
            Err("not an enumeration")
        }
        _ => Ok(integer),
    }
}
