// SPDX-License-Identifier: MIT OR Apache-2.0
//! The classes of a stream by their ids. Ids of tracers of programs are small and dense; those of the kernel's events may be any numbers.

use std::collections::HashMap;

use super::leap::Leap;
use super::{EventPlan, FORMS_MAX};

/// Plans of a stream's classes.
#[derive(Debug, Default)]
pub(crate) struct EventPlans {
    all: Vec<EventPlan>,
    /// Of ids below [`DENSE_IDS`].
    dense: Vec<Row>,
    /// Of most others, where [`slot`] says.
    table: Vec<(u64, Row)>,
    /// Of those whose slot another one has.
    rest: HashMap<u64, Row>,
}

/// A class, and what is most wanted of it: the next event cannot be looked at before it is known how long this one is.
#[derive(Clone, Copy, Debug)]
pub(in crate::read) struct Row {
    /// Place in `all`; of no class.
    class: u32,
    /// Bytes of an event with each form of the header, when they are always the same; otherwise 0.
    pub(in crate::read) bytes: [u32; FORMS_MAX],
}

const DENSE_IDS: u64 = 4096;
const NONE: Row = Row {
    class: u32::MAX,
    bytes: [0; FORMS_MAX],
};
/// Slots for each class: one in nine then has to share.
const ROOM: usize = 8;
const SLOTS_MAX: usize = 1 << 20;

impl EventPlans {
    /// They are in the order of their ids.
    pub(super) fn new(all: Vec<EventPlan>) -> EventPlans {
        let mut plans = EventPlans::default();
        let sparse = all.iter().filter(|plan| plan.id >= DENSE_IDS).count();
        if sparse > 0 {
            let slots = (ROOM * sparse).next_power_of_two().min(SLOTS_MAX);
            plans.table = vec![(0, NONE); slots];
        }
        for (index, plan) in all.iter().enumerate() {
            let row = Row {
                class: index as u32,
                bytes: plan
                    .leaps
                    .each_ref()
                    .map(|leap| leap.as_ref().map_or(0, Leap::fixed_bytes)),
            };
            plans.insert(plan.id, row);
        }
        plans.all = all;
        plans
    }

    fn insert(&mut self, id: u64, row: Row) {
        if id < DENSE_IDS {
            if self.dense.len() <= id as usize {
                self.dense.resize(id as usize + 1, NONE);
            }
            self.dense[id as usize] = row;
            return;
        }
        let slot = slot(id, self.table.len());
        match &mut self.table[slot] {
            (_, free) if free.class == NONE.class => self.table[slot] = (id, row),
            _ => _ = self.rest.insert(id, row),
        }
    }

    #[inline(always)]
    pub(in crate::read) fn row(&self, id: u64) -> Option<Row> {
        if id < DENSE_IDS {
            return self.dense.get(id as usize).copied();
        }
        match self.table.get(slot(id, self.table.len())) {
            Some((known, row)) if *known == id => Some(*row),
            _ => self.rest.get(&id).copied(),
        }
    }

    #[inline(always)]
    pub(in crate::read) fn of_row(&self, row: Row) -> Option<&EventPlan> {
        self.all.get(row.class as usize)
    }

    #[inline]
    pub(in crate::read) fn get(&self, id: u64) -> Option<&EventPlan> {
        self.of_row(self.row(id)?)
    }

    /// In the order of their ids.
    pub(in crate::read) fn iter(&self) -> impl Iterator<Item = &EventPlan> {
        self.all.iter()
    }

    /// The class of a stream that has one and therefore needs no ids.
    pub(in crate::read) fn only(&self) -> Option<&EventPlan> {
        match &self.all[..] {
            [plan] => Some(plan),
            _ => None,
        }
    }
}

/// Multiplied by the golden ratio, the high bits are as good as drawn by lot. `slots` is a power of two, or there are none.
#[inline]
fn slot(id: u64, slots: usize) -> usize {
    (id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & slots.wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(id: u64) -> EventPlan {
        EventPlan {
            id,
            number: 0,
            name: format!("event {id}").into(),
            log_level: None,
            specific_context: None,
            payload: None,
            leaps: [const { None }; FORMS_MAX],
        }
    }

    #[test]
    fn classes_are_found_by_ids_of_any_size() {
        let ids: Vec<u64> = (0..10)
            .chain(4090..4100)
            .chain((0..1000).map(|number| 131_072 + number))
            .chain([u64::MAX, 1 << 40])
            .collect();
        let plans = EventPlans::new(ids.iter().map(|id| plan(*id)).collect());
        for id in ids {
            assert_eq!(plans.get(id).map(|plan| plan.id), Some(id));
        }
        for id in [10, 4089, 4100, 131_071, 132_072, u64::MAX - 1] {
            assert!(plans.get(id).is_none(), "{id}");
        }
        assert!(EventPlans::default().get(1 << 40).is_none());
        assert!(plans.only().is_none());
        assert_eq!(EventPlans::new(vec![plan(7)]).only().map(|plan| plan.id), Some(7));
    }
}
