// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fields of an event that somebody asked for, by number. Which field of a class has which number is found out once.

use std::ops::Range;

use piste_ctf::read::plan::IntegerNode;
use piste_ctf::read::schema::Encoding;
use piste_ctf::read::walk::Visitor;

/// How many fields of an event can be asked for.
pub(super) const FIELDS_MAX: usize = 10;
/// A field that nobody asked for.
const UNWANTED: u8 = u8::MAX;

/// What was asked for, of one event: its numbers, and where its texts and arrays are.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slots {
    /// Numbers; of texts and arrays, where they begin and end in the store ([`place`]).
    slots: [u64; FIELDS_MAX],
    /// Bits of the fields that the event has.
    has_number: u16,
    has_text: u16,
    has_elements: u16,
}

/// Texts and arrays of events.
#[derive(Clone, Debug, Default)]
pub(super) struct Store {
    texts: Vec<u8>,
    /// The numbers of arrays.
    elements: Vec<u64>,
}

impl Store {
    pub(super) fn clear(&mut self) {
        self.texts.clear();
        self.elements.clear();
    }

    pub(super) fn bytes(&self) -> usize {
        self.texts.len() + size_of_val(&*self.elements)
    }
}

/// A begin and an end as one number.
fn place(begin: usize, end: usize) -> u64 {
    (begin as u64) << 32 | end as u64
}

fn range(place: u64) -> Range<usize> {
    (place >> 32) as usize..place as u32 as usize
}

/// What was asked for, of one event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Values<'f> {
    slots: &'f Slots,
    store: &'f Store,
}

impl<'f> Values<'f> {
    pub(super) fn new(slots: &'f Slots, store: &'f Store) -> Values<'f> {
        Values { slots, store }
    }

    /// A number; `None` when the class has no such field.
    #[inline]
    pub(super) fn number(&self, field: usize) -> Option<i64> {
        (self.slots.has_number & 1 << field != 0).then(|| self.slots.slots[field].cast_signed())
    }

    /// The same, of 32 bits.
    #[inline]
    pub(super) fn id(&self, field: usize) -> Option<i32> {
        self.number(field).map(|number| number as i32)
    }

    /// A text; empty when the class has no such field.
    #[inline]
    pub(super) fn text(&self, field: usize) -> &'f [u8] {
        if self.slots.has_text & 1 << field == 0 {
            return &[];
        }
        self.store.texts.get(range(self.slots.slots[field])).unwrap_or_default()
    }

    /// The numbers of an array; none when the class has no such field.
    pub(super) fn elements(&self, field: usize) -> &'f [u64] {
        if self.slots.has_elements & 1 << field == 0 {
            return &[];
        }
        self.store
            .elements
            .get(range(self.slots.slots[field]))
            .unwrap_or_default()
    }
}

/// For each field of a class, in their order, which of the asked ones it is.
#[derive(Debug, Default)]
pub(super) struct Order(Vec<u8>);

impl Order {
    /// Of fields with these names. What is asked for may have several spellings: `tid|pid`. The first that is there counts.
    pub(super) fn new(names: &[String], asked: &[&str]) -> Order {
        assert!(asked.len() <= FIELDS_MAX);
        let mut order = vec![UNWANTED; names.len()];
        for (number, spellings) in asked.iter().enumerate() {
            let place = spellings
                .split('|')
                .find_map(|spelling| names.iter().position(|name| name == spelling));
            if let Some(place) = place {
                order[place] = number as u8;
            }
        }
        // What comes behind the last one is not looked at.
        while order.last() == Some(&UNWANTED) {
            order.pop();
        }
        Order(order)
    }

    /// The class has none of them.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Shows the outermost fields of a structure, and the numbers that lie in them; not what lies deeper.
#[derive(Default)]
pub(super) struct Outermost<T> {
    pub(super) to: T,
    depth: u32,
}

impl<T> Outermost<T> {
    pub(super) fn of(to: T) -> Outermost<T> {
        Outermost { to, depth: 0 }
    }
}

/// Is shown the outermost fields. What is not implemented is not looked at.
pub(super) trait Fields {
    fn field(&mut self, name: &str);
    fn integer(&mut self, _value: u64) {}
    fn text(&mut self, _bytes: &[u8]) {}
    /// A number of an array.
    fn element(&mut self, _value: u64) {}
}

impl<T: Fields> Visitor for Outermost<T> {
    #[inline]
    fn field(&mut self, name: &str) {
        if self.depth == 0 {
            self.to.field(name);
        }
    }

    #[inline]
    fn integer(&mut self, _: &IntegerNode, value: u64) {
        match self.depth {
            0 => self.to.integer(value),
            1 => self.to.element(value),
            _ => {}
        }
    }

    #[inline]
    fn text(&mut self, bytes: &[u8], _: Encoding) {
        if self.depth == 0 {
            self.to.text(bytes);
        }
    }

    fn begin_structure(&mut self) {
        self.depth += 1;
    }

    fn end_structure(&mut self) {
        self.depth -= 1;
    }

    fn begin_array(&mut self, _: u64, _: bool) {
        self.depth += 1;
    }

    fn end_array(&mut self) {
        self.depth -= 1;
    }
}

/// Takes what was asked for.
pub(super) struct Take<'v> {
    order: &'v [u8],
    slots: &'v mut Slots,
    store: &'v mut Store,
    /// How many fields were announced.
    count: usize,
}

impl<'v> Take<'v> {
    /// Into empty slots.
    pub(super) fn new(order: &'v Order, slots: &'v mut Slots, store: &'v mut Store) -> Outermost<Take<'v>> {
        Outermost::of(Take {
            order: &order.0,
            slots,
            store,
            count: 0,
        })
    }

    #[inline]
    fn asked(&self) -> Option<usize> {
        let number = *self.order.get(self.count.wrapping_sub(1))?;
        (number != UNWANTED).then_some(usize::from(number))
    }
}

impl Fields for Take<'_> {
    #[inline]
    fn field(&mut self, _: &str) {
        self.count += 1;
    }

    #[inline]
    fn integer(&mut self, value: u64) {
        if let Some(number) = self.asked() {
            self.slots.slots[number] = value;
            self.slots.has_number |= 1 << number;
        }
    }

    #[inline]
    fn text(&mut self, bytes: &[u8]) {
        if let Some(number) = self.asked() {
            let begin = self.store.texts.len();
            self.store.texts.extend_from_slice(bytes);
            self.slots.slots[number] = place(begin, self.store.texts.len());
            self.slots.has_text |= 1 << number;
        }
    }

    #[inline]
    fn element(&mut self, value: u64) {
        if let Some(number) = self.asked() {
            let begin = match self.slots.has_elements & 1 << number {
                0 => self.store.elements.len(),
                _ => range(self.slots.slots[number]).start,
            };
            self.slots.has_elements |= 1 << number;
            self.store.elements.push(value);
            self.slots.slots[number] = place(begin, self.store.elements.len());
        }
    }
}

/// Collects the names of a structure's fields.
#[derive(Default)]
pub(super) struct FieldNames(pub(super) Vec<String>);

impl Fields for FieldNames {
    fn field(&mut self, name: &str) {
        self.0.push(name.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_by_the_first_spelling_that_is_there() {
        let names = ["comm", "pid", "tid", "prio"].map(str::to_owned);
        assert_eq!(
            Order::new(&names, &["tid|pid", "target_cpu"]).0,
            [UNWANTED, UNWANTED, 0]
        );
        assert_eq!(Order::new(&names[..2], &["tid|pid", "comm"]).0, [1, 0]);
        assert!(Order::new(&names, &["vec"]).is_empty());
    }
}
