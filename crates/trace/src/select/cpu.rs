// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which CPU an event was on: its context `cpu_id` says, else its packet's.

use piste_ctf::read::plan::Plan;
use piste_ctf::read::schema::Scope;

use super::per_class::PerClass;
use super::values::{Slot, Values, Wanted};
use crate::merge::Merged;
use crate::stream::Stream;

/// Contexts that are nearer to an event than its packet.
pub(super) const SCOPES: &[Scope] = &[Scope::SpecificContext, Scope::EventContext];

/// Tells the CPU of events.
#[derive(Debug, Default)]
pub struct Cpus {
    classes: PerClass<Option<(Wanted, Slot)>>,
    values: Values,
}

impl Cpus {
    /// Of an event that its stream has just given; `plan` is that of its trace.
    pub fn of<'t>(&mut self, plan: &Plan, stream: &mut Stream<'t>, merged: &Merged<'t>) -> Option<u64> {
        let event = &merged.event;
        let class_id = stream.index.class_id;
        let class = self.classes.get(event.class, || {
            let mut wanted = Wanted::default();
            let slot = wanted.add_named(plan, class_id, event.class, SCOPES, "cpu_id");
            slot.map(|slot| (wanted, slot))
        });
        let Some((wanted, slot)) = class else {
            return stream.index.cpu_id;
        };
        self.values.take(wanted, stream, event);
        let own = self.values.integer(Some(*slot)).and_then(|cpu| u64::try_from(cpu).ok());
        own.or(stream.index.cpu_id)
    }
}
