// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tells whether an event is wanted. What can be said of its class is said once; what costs most is asked last.

use piste_filter::{Condition, Term};

use super::condition::{self, About, Class, ClassTest};
use super::per_class::PerClass;
use super::values::{Slot, Values, Wanted};
use super::who::Threads;
use super::{Selection, cpu};
use crate::folder::Trace;
use crate::merge::{Merge, Merged};

/// Tells which events are wanted. It is told of all of them, in their order.
#[derive(Debug)]
pub struct Matcher<'t> {
    selection: Selection,
    traces: &'t [Trace],
    classes: PerClass<ClassMatcher>,
    values: Values,
    /// Somebody asks who events are of.
    threads: Option<Threads<'t>>,
}

/// What is to be asked of the events of a class.
#[derive(Debug)]
struct ClassMatcher {
    /// None of them is wanted otherwise.
    is_possible: bool,
    condition: Condition<ClassTest>,
    wanted: Wanted,
    cpu: Option<Slot>,
}

impl<'t> Matcher<'t> {
    pub(super) fn new(selection: &Selection, traces: &'t [Trace]) -> Matcher<'t> {
        Matcher {
            selection: selection.clone(),
            traces,
            classes: PerClass::default(),
            values: Values::default(),
            threads: selection.asks_who().then(|| Threads::new(traces)),
        }
    }

    /// Whether a stream of a class may hold events that are wanted.
    pub fn may_want(&self, trace: &Trace, stream_class_id: u64) -> bool {
        let plan = &trace.plan;
        let mut events = plan.events(stream_class_id).into_iter();
        events.any(|event| {
            let class = Class {
                plan,
                stream_class_id,
                event,
            };
            ClassMatcher::new(&self.selection, class).is_possible
        })
    }

    /// Whether the event that `merge` has just given is wanted.
    pub fn wants(&mut self, merge: &mut Merge<'t>, merged: &Merged<'t>) -> bool {
        // Threads are followed through all events.
        let seen = self.threads.as_mut().map(|threads| threads.see(merge, merged));
        let plan = &self.traces[merge.trace_of(merged.stream)].plan;
        let stream = merge.stream(merged.stream);
        let Selection { span, cpus, .. } = &self.selection;
        let event = merged.event;
        let class = self.classes.get(event.class, || {
            let class = Class {
                plan,
                stream_class_id: stream.index.class_id,
                event: event.class,
            };
            ClassMatcher::new(&self.selection, class)
        });
        if !class.is_possible {
            return false;
        }
        let time_ns = stream.ns(&event);
        if time_ns.is_some_and(|ns| ns < span.begin_ns || ns > span.end_ns) {
            return false;
        }
        let mut about = About {
            time_ns,
            cpu: stream.index.cpu_id,
            ..About::default()
        };
        if let Some((cpu, who)) = seen {
            (about.cpu, about.who) = (cpu, who);
            if !self.selection.is_of(&who) {
                return false;
            }
        }
        if let Condition::Always(value) = class.condition
            && cpus.is_empty()
        {
            return value;
        }
        self.values.take(&class.wanted, stream, &event);
        if let Some(cpu) = self.values.integer(class.cpu) {
            about.cpu = u64::try_from(cpu).ok();
        }
        let is_on_cpu = cpus.is_empty() || about.cpu.is_some_and(|cpu| cpus.contains(&cpu));
        is_on_cpu && class.condition.holds(&|test| test.holds(&self.values, &about))
    }
}

impl ClassMatcher {
    fn new(selection: &Selection, class: Class<'_>) -> ClassMatcher {
        let mut wanted = Wanted::default();
        let condition = match &selection.filter {
            None => Condition::Always(true),
            Some(filter) => condition::of_class(filter.expression(), class, &mut wanted),
        };
        let is_named = selection.names(&class.event.name);
        let asks_cpu = !selection.cpus.is_empty() || selection.asks(&Term::Cpu);
        let mut cpu = || wanted.add_named(class.plan, class.stream_class_id, class.event, cpu::SCOPES, "cpu_id");
        let cpu = asks_cpu.then(&mut cpu).flatten();
        ClassMatcher {
            cpu,
            is_possible: is_named && !matches!(condition, Condition::Always(false)),
            condition,
            wanted,
        }
    }
}
