// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events that were read and are not facts yet: what fields have, without what the model makes of it. A batch can be handed to another thread.

use super::classes::{self, Make};
use super::fact::Fact;
use super::values::{Slots, Store, Values};
use crate::model::At;
use crate::names::{Name, Names};

/// So many events, or bytes of texts and arrays, are enough for one batch: it stays in the processor's caches.
const ITEMS_MAX: usize = 1024;
const STORE_BYTES_MAX: usize = 1 << 18;

/// Events in the order of time.
#[derive(Debug, Default)]
pub struct Batch {
    pub(super) items: Vec<Item>,
    pub(super) store: Store,
    /// Frames of programs' stacks.
    frames: Vec<u64>,
    /// Names in those of classes that are new, in the order of their numbers.
    spoken: Vec<String>,
}

/// An event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    pub(super) at: At,
    pub(super) fact: Make,
    pub(super) name: Spoken,
    pub(super) slots: Slots,
    /// Where its thread was in its program: from where to where in the frames.
    pub(super) stack: (u32, u32),
}

/// The number of a name in those of classes; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Spoken(u32);

impl Item {
    /// One that says on which thread it happened, and no more.
    pub(super) fn other(at: At) -> Item {
        Item {
            at,
            fact: classes::other,
            name: Spoken::default(),
            slots: Slots::default(),
            stack: (0, 0),
        }
    }
}

impl Batch {
    /// No events any more; memory is kept for the next ones.
    pub fn clear(&mut self) {
        self.items.clear();
        self.store.clear();
        self.frames.clear();
        self.spoken.clear();
    }

    /// How many events say something.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// No event says anything.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// It is to be handed on.
    pub fn is_full(&self) -> bool {
        self.items.len() >= ITEMS_MAX || self.store.bytes() + size_of_val(&*self.frames) >= STORE_BYTES_MAX
    }

    /// When and where an event happened.
    #[inline]
    pub(crate) fn at(&self, number: usize) -> At {
        self.items[number].at
    }

    /// Where the thread of an event was in its program, the innermost frame first; empty where that was not asked for or is not known.
    #[inline]
    pub(crate) fn stack(&self, number: usize) -> &[u64] {
        let (begin, end) = self.items[number].stack;
        &self.frames[begin as usize..end as usize]
    }

    pub(super) fn add_stack(&mut self, frames: &[u64]) -> (u32, u32) {
        let begin = self.frames.len() as u32;
        self.frames.extend_from_slice(frames);
        (begin, self.frames.len() as u32)
    }

    /// Numbers a name; `count`: how many have a number by now.
    pub(super) fn speak(&mut self, name: String, count: &mut u32) -> Spoken {
        if name.is_empty() {
            return Spoken::default();
        }
        self.spoken.push(name);
        *count += 1;
        Spoken(*count)
    }
}

/// Makes facts of what one reader has read.
#[derive(Debug, Default)]
pub struct FactMaker {
    /// By number, from 1 on. Each is kept when the first fact has it.
    names: Vec<(String, Option<Name>)>,
}

impl FactMaker {
    /// A batch comes: the next one of its reader.
    #[inline]
    pub(crate) fn learn(&mut self, batch: &mut Batch) {
        if !batch.spoken.is_empty() {
            self.names.extend(batch.spoken.drain(..).map(|name| (name, None)));
        }
    }

    /// What an event says. `None`: it lacks a field without which it says nothing.
    #[inline]
    pub(crate) fn fact<'f>(&mut self, batch: &'f Batch, number: usize, names: &mut Names) -> Option<Fact<'f>> {
        let item = &batch.items[number];
        let name = match item.name.0.checked_sub(1) {
            None => Name::default(),
            Some(place) => {
                let (text, name) = &mut self.names[place as usize];
                *name.get_or_insert_with(|| names.keep(text.as_bytes()))
            }
        };
        (item.fact)(&Values::new(&item.slots, &batch.store), name, names)
    }
}
