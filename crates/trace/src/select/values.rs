// SPDX-License-Identifier: MIT OR Apache-2.0
//! Some values of events, by the way to them: which fields of a class are wanted is found once, and each event then leaves them in slots.
//! Nothing is allocated for an event.

use std::sync::Arc;

use piste_ctf::read::packet::Event;
use piste_ctf::read::plan::{EventPlan, IntegerNode, Node, Plan, Structure};
use piste_ctf::read::schema::{Encoding, Label, Scope};
use piste_ctf::read::walk::Visitor;
use piste_filter::{Field, Step, Value};

use crate::stream::Stream;

/// Index into the values of an event.
pub(crate) type Slot = u16;

/// The values of a class of events that are wanted.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    pub(super) scopes: Vec<(Scope, Interest)>,
    slots: Slot,
}

/// What of a value is wanted.
#[derive(Debug, Default)]
pub(super) struct Interest {
    /// The value itself, for these slots.
    slots: Vec<Slot>,
    /// What it holds: fields by their index, elements by theirs, options of a variant by their index.
    inner: Vec<(u64, Interest)>,
    /// Names of a variant's options.
    options: Vec<Arc<str>>,
}

impl Wanted {
    /// A slot for a field of a class, in the first of its scopes that has it; `None` when none has.
    pub(crate) fn add(&mut self, plan: &Plan, stream_class_id: u64, event: &EventPlan, field: &Field) -> Option<Slot> {
        let slot = self.slots;
        for &scope in field.scopes {
            let Some(structure) = plan.structure(stream_class_id, event, scope) else {
                continue;
            };
            let known = self.scopes.iter().position(|(known, _)| *known == scope);
            let index = known.unwrap_or_else(|| {
                self.scopes.push((scope, Interest::default()));
                self.scopes.len() - 1
            });
            if self.scopes[index].1.add_field(structure, &field.path, slot) {
                self.slots += 1;
                return Some(slot);
            }
            if known.is_none() {
                self.scopes.pop();
            }
        }
        None
    }

    /// A slot for a field of a scope.
    pub(super) fn add_named(
        &mut self,
        plan: &Plan,
        stream_class_id: u64,
        event: &EventPlan,
        scopes: &'static [Scope],
        name: &str,
    ) -> Option<Slot> {
        self.add(plan, stream_class_id, event, &Field::named(scopes, name))
    }
}

impl Interest {
    /// The value itself is wanted.
    pub(super) fn is_wanted(&self) -> bool {
        !self.slots.is_empty()
    }

    fn inner(&mut self, index: u64) -> &mut Interest {
        let known = self.inner.iter().position(|(known, _)| *known == index);
        let at = known.unwrap_or_else(|| {
            self.inner.push((index, Interest::default()));
            self.inner.len() - 1
        });
        &mut self.inner[at].1
    }

    fn add_field(&mut self, structure: &Structure, path: &[Step], slot: Slot) -> bool {
        let Some((Step::Name(name), rest)) = path.split_first() else {
            return false;
        };
        let found = structure.fields().iter().position(|(known, _)| **known == **name);
        found.is_some_and(|index| {
            let node = &structure.fields()[index].1;
            self.inner(index as u64).add(node, rest, slot)
        })
    }

    fn add(&mut self, node: &Node, path: &[Step], slot: Slot) -> bool {
        match (node, path) {
            // What they hold stands for them.
            (Node::Variant { options, .. }, _) => {
                if self.options.is_empty() {
                    self.options = options.iter().map(|option| Arc::clone(&option.name)).collect();
                }
                let mut is_there = false;
                for (index, option) in options.iter().enumerate() {
                    let rest = match path.split_first() {
                        Some((Step::Name(name), rest)) if **name == *option.name => rest,
                        _ => path,
                    };
                    is_there |= self.inner(index as u64).add(&option.node, rest, slot);
                }
                is_there
            }
            (Node::Optional { content, .. }, _) => self.add(content, path, slot),
            (_, []) => {
                self.slots.push(slot);
                true
            }
            (Node::Structure(structure), _) => self.add_field(structure, path, slot),
            (Node::Array { element, .. }, [Step::Index(index), rest @ ..]) => {
                self.inner(*index).add(element, rest, slot)
            }
            _ => false,
        }
    }
}

/// A value, as it was left.
#[derive(Clone, Debug, Default)]
enum Kept {
    #[default]
    Nothing,
    Integer(i128),
    /// With the names of its values.
    Label(i128, Arc<[Label]>),
    Float(f64),
    /// A part of the texts.
    Text(usize, usize),
    /// What is compared with nothing.
    Whole,
}

/// The values of an event that were wanted.
#[derive(Debug, Default)]
pub(super) struct Values {
    kept: Vec<Kept>,
    texts: Vec<u8>,
}

impl Values {
    /// Takes those of an event; the memory of those before is used again.
    pub(super) fn take<'t>(&mut self, wanted: &Wanted, stream: &mut Stream<'t>, event: &Event<'t>) {
        self.texts.clear();
        self.kept.clear();
        self.kept.resize(usize::from(wanted.slots), Kept::Nothing);
        for (scope, interest) in &wanted.scopes {
            let mut look = Look {
                values: self,
                path: Path::new(interest),
            };
            // What cannot be read is not there.
            let _ = stream.visit(event, *scope, &mut look);
        }
    }

    pub(super) fn get(&self, slot: Slot) -> Value<'_> {
        match &self.kept[usize::from(slot)] {
            Kept::Nothing => Value::Nothing,
            Kept::Integer(value) => Value::Integer(*value),
            Kept::Label(value, labels) => Value::Label(*value, labels),
            Kept::Float(value) => Value::Float(*value),
            Kept::Text(begin, end) => Value::Text(&self.texts[*begin..*end]),
            Kept::Whole => Value::Whole,
        }
    }

    pub(super) fn integer(&self, slot: Option<Slot>) -> Option<i64> {
        match self.get(slot?) {
            Value::Integer(value) | Value::Label(value, _) => i64::try_from(value).ok(),
            _ => None,
        }
    }

    pub(super) fn text(&self, slot: Option<Slot>) -> Option<&[u8]> {
        match self.get(slot?) {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// What is wanted of the values around, and the index of the field that comes next.
type Level<'w> = (Option<&'w Interest>, u64);

/// Where a visitor is, between wanted values.
pub(super) struct Path<'w> {
    /// Most events have few levels.
    first: [Level<'w>; 4],
    others: Vec<Level<'w>>,
    count: usize,
    /// What is wanted of the value that comes.
    pub(super) comes: Option<&'w Interest>,
}

impl<'w> Path<'w> {
    /// In a scope.
    pub(super) fn new(scope: &'w Interest) -> Path<'w> {
        let mut path = Path {
            first: Default::default(),
            others: Vec::new(),
            count: 0,
            comes: Some(scope),
        };
        path.enter();
        path
    }

    /// Into the value that comes.
    pub(super) fn enter(&mut self) {
        let level = (self.comes.take(), 0);
        match self.first.get_mut(self.count) {
            Some(place) => *place = level,
            None => self.others.push(level),
        }
        self.count += 1;
    }

    pub(super) fn leave(&mut self) {
        self.count -= 1;
        self.others.pop();
        self.comes = None;
    }

    /// Into what a variant holds.
    pub(super) fn enter_option(&mut self, option: &str) {
        let around = self.comes;
        self.enter();
        let index = around.and_then(|around| around.options.iter().position(|known| **known == *option));
        if let Some(index) = index {
            self.come(index as u64);
        }
    }

    pub(super) fn next_field(&mut self) {
        let (_, next) = self.last();
        let index = *next;
        *next += 1;
        self.come(index);
    }

    pub(super) fn come(&mut self, index: u64) {
        let (around, _) = *self.last();
        let found = around.and_then(|around| around.inner.iter().find(|(known, _)| *known == index));
        self.comes = found.map(|(_, interest)| interest);
    }

    fn last(&mut self) -> &mut Level<'w> {
        match self.others.last_mut() {
            Some(level) => level,
            None => &mut self.first[self.count - 1],
        }
    }
}

/// Keeps the wanted values.
struct Look<'w, 'v> {
    values: &'v mut Values,
    path: Path<'w>,
}

impl Look<'_, '_> {
    fn keep(&mut self, kept: Kept) {
        for slot in self.path.comes.iter().flat_map(|interest| &interest.slots) {
            self.values.kept[usize::from(*slot)] = kept.clone();
        }
    }
}

impl Visitor for Look<'_, '_> {
    fn field(&mut self, _: &str) {
        self.path.next_field();
    }

    fn element(&mut self, index: u64) {
        self.path.come(index);
    }

    fn integer(&mut self, integer: &IntegerNode, value: u64) {
        if self.path.comes.is_none() {
            return;
        }
        let value = match integer.is_signed {
            true => i128::from(value.cast_signed()),
            false => i128::from(value),
        };
        self.keep(match integer.is_enumeration {
            true => Kept::Label(value, Arc::clone(&integer.labels)),
            false => Kept::Integer(value),
        });
    }

    fn float(&mut self, value: f64, _: u32) {
        self.keep(Kept::Float(value));
    }

    fn text(&mut self, bytes: &[u8], encoding: Encoding) {
        if self.path.comes.is_none() {
            return;
        }
        let begin = self.values.texts.len();
        piste_ctf::read::characters::append(&mut self.values.texts, bytes, encoding);
        self.keep(Kept::Text(begin, self.values.texts.len()));
    }

    fn blob(&mut self, _: &[u8], _: Option<&str>) {
        self.keep(Kept::Whole);
    }

    fn begin_structure(&mut self) {
        self.keep(Kept::Whole);
        self.path.enter();
    }

    fn end_structure(&mut self) {
        self.path.leave();
    }

    fn begin_array(&mut self, _: u64, _: bool) {
        self.keep(Kept::Whole);
        self.path.enter();
    }

    fn end_array(&mut self) {
        self.path.leave();
    }

    fn begin_variant(&mut self, option: &str) {
        self.path.enter_option(option);
    }

    fn end_variant(&mut self) {
        self.path.leave();
    }
}
