// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fault storms: processes that touch new memory all the time, each page of which the kernel has to find first.

use rustc_hash::FxHashMap;

use super::occurrences::COUNT;
use super::{Closer, Detector, Insight, Level, process_named};
use crate::facts::Fact;
use crate::model::{Listen, ProcessId, Slice, State, System};
use crate::report::{Unit, Value, column};

/// What a fault costs where the page is in memory: entering the kernel, a page of zeros, coming back.
const FAULT_NS: i64 = 1_000;
/// Of the time that the process had a CPU.
const SHARE_PERCENT: i64 = 10;
/// Every program begins with some.
const ENOUGH: u64 = 10_000;

#[derive(Default)]
pub(super) struct Faults {
    by_process: FxHashMap<ProcessId, OfProcess>,
}

struct OfProcess {
    count: u64,
    span_ns: (i64, i64),
    on_cpu_ns: i64,
}

impl Listen for Faults {
    #[inline]
    fn fact(&mut self, system: &System, fact: &Fact<'_>, cpu: Option<u32>, ns: i64) {
        let circumstances = system.circumstances();
        let is_told = ns >= circumstances.tell_from_ns && ns <= circumstances.tell_until_ns;
        if let (Fact::PageFault { .. }, Some(cpu), true) = (fact, cpu, is_told)
            && let Some(thread) = system.current_on(cpu)
        {
            let fresh = || OfProcess {
                count: 0,
                span_ns: (ns, ns),
                on_cpu_ns: 0,
            };
            let own = self
                .by_process
                .entry(system.thread(thread).process())
                .or_insert_with(fresh);
            own.count += 1;
            own.span_ns.1 = ns;
        }
    }

    #[inline]
    fn slice(&mut self, system: &System, slice: &Slice) {
        // Nothing to sum up where faults were not recorded.
        if self.by_process.is_empty() {
            return;
        }
        if let State::Running { .. } = slice.state
            && let Some(own) = self.by_process.get_mut(&system.thread(slice.thread).process())
        {
            own.on_cpu_ns += slice.duration_ns();
        }
    }
}

impl Detector for Faults {
    fn find(&mut self, system: &System) -> Vec<Insight> {
        let cost_ns = |own: &OfProcess| own.count.cast_signed() * FAULT_NS;
        let is_much = |own: &OfProcess| own.count >= ENOUGH && cost_ns(own) >= own.on_cpu_ns / 100 * SHARE_PERCENT;
        let found = self.by_process.iter().filter(|(_, own)| is_much(own));
        found
            .map(|(process, own)| Insight {
                kind: "fault storm",
                level: Level::Notable,
                what: format!(
                    "{} kept touching new memory: it may free memory and allocate it again instead of keeping it",
                    process_named(system, *process)
                ),
                span_ns: own.span_ns,
                longest_ns: None,
                cost_ns: cost_ns(own),
                evidence: vec![
                    (COUNT, own.count.into()),
                    (
                        column("on_cpu_ns", "on CPUs", Unit::Nanoseconds),
                        Value::Number(own.on_cpu_ns),
                    ),
                ],
                closer: Closer::new("ltt").with("--pid", process).during(own.span_ns),
            })
            .collect()
    }
}
