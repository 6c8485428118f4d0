// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fields of an event that somebody asked for, by number. Which field of a class has which number is found out once.

use piste_ctf::read::plan::IntegerNode;
use piste_ctf::read::schema::Encoding;
use piste_ctf::read::walk::Visitor;

/// How many fields of an event can be asked for.
pub(super) const FIELDS_MAX: usize = 10;
/// A field that nobody asked for.
const UNWANTED: u8 = u8::MAX;

/// What was asked for, of one event.
#[derive(Debug, Default)]
pub(super) struct Values {
    numbers: [i64; FIELDS_MAX],
    /// Bits of the numbers that the event has.
    has_number: u16,
    texts: Vec<u8>,
    /// Where in `texts`; bits of those that the event has are in `has_text`.
    places: [(u32, u32); FIELDS_MAX],
    has_text: u16,
    /// The numbers of arrays.
    elements: Vec<u64>,
    /// Where in `elements`; bits of those that the event has are in `has_elements`.
    ranges: [(u32, u32); FIELDS_MAX],
    has_elements: u16,
}

impl Values {
    pub(super) fn clear(&mut self) {
        self.has_number = 0;
        self.has_text = 0;
        self.texts.clear();
        self.has_elements = 0;
        self.elements.clear();
    }

    /// A number; `None` when the class has no such field.
    #[inline]
    pub(super) fn number(&self, field: usize) -> Option<i64> {
        (self.has_number & 1 << field != 0).then(|| self.numbers[field])
    }

    /// The same, of 32 bits.
    #[inline]
    pub(super) fn id(&self, field: usize) -> Option<i32> {
        self.number(field).map(|number| number as i32)
    }

    /// A text; empty when the class has no such field.
    #[inline]
    pub(super) fn text(&self, field: usize) -> &[u8] {
        if self.has_text & 1 << field == 0 {
            return &[];
        }
        let (begin, end) = self.places[field];
        &self.texts[begin as usize..end as usize]
    }

    /// The numbers of an array; none when the class has no such field.
    pub(super) fn elements(&self, field: usize) -> &[u64] {
        if self.has_elements & 1 << field == 0 {
            return &[];
        }
        let (begin, end) = self.ranges[field];
        &self.elements[begin as usize..end as usize]
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
    values: &'v mut Values,
    /// How many fields were announced.
    count: usize,
}

impl<'v> Take<'v> {
    pub(super) fn new(order: &'v Order, values: &'v mut Values) -> Outermost<Take<'v>> {
        Outermost::of(Take {
            order: &order.0,
            values,
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
            self.values.numbers[number] = value.cast_signed();
            self.values.has_number |= 1 << number;
        }
    }

    #[inline]
    fn text(&mut self, bytes: &[u8]) {
        if let Some(number) = self.asked() {
            let begin = self.values.texts.len() as u32;
            self.values.texts.extend_from_slice(bytes);
            self.values.places[number] = (begin, self.values.texts.len() as u32);
            self.values.has_text |= 1 << number;
        }
    }

    #[inline]
    fn element(&mut self, value: u64) {
        if let Some(number) = self.asked() {
            let values = &mut *self.values;
            if values.has_elements & 1 << number == 0 {
                values.has_elements |= 1 << number;
                values.ranges[number].0 = values.elements.len() as u32;
            }
            values.elements.push(value);
            values.ranges[number].1 = values.elements.len() as u32;
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
