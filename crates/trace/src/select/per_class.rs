// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is known of each class of events, by its place in memory, which is another for each class of each stream of each trace.

use std::collections::HashMap;
use std::ptr;

use piste_ctf::read::plan::EventPlan;

/// Something for each class, made when its first event comes.
#[derive(Debug)]
pub(crate) struct PerClass<T> {
    known: HashMap<usize, usize>,
    items: Vec<T>,
    /// Events of a class often come in rows.
    last: (usize, usize),
}

impl<T> Default for PerClass<T> {
    fn default() -> PerClass<T> {
        PerClass {
            known: HashMap::new(),
            items: Vec::new(),
            last: (0, 0),
        }
    }
}

impl<T> PerClass<T> {
    pub(crate) fn get(&mut self, class: &EventPlan, make: impl FnOnce() -> T) -> &T {
        let address = ptr::from_ref(class).addr();
        if self.last.0 != address {
            let items = &mut self.items;
            let index = *self.known.entry(address).or_insert_with(|| {
                items.push(make());
                items.len() - 1
            });
            self.last = (address, index);
        }
        &self.items[self.last.1]
    }
}
