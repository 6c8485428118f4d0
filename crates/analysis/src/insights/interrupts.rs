// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interrupts that kept a CPU for long, one by one or all together.

use rustc_hash::FxHashMap;

use super::occurrences::{Occurrences, TOTAL};
use super::{Closer, Detector, Insight, Level};
use crate::analyses::irq::interrupt_name;
use crate::facts::Interrupt;
use crate::model::{Interruption, Listen, System};
use crate::report::{Unit, Value, column};

/// A handler takes microseconds and leaves the rest for later; nothing else is heard of meanwhile, not even other interrupts.
const HANDLER_NS: i64 = 500_000;
/// The kernel ends a round of soft interrupts after 2 ms, and gives the rest to a thread.
const SOFT_NS: i64 = 2_000_000;
/// Of a CPU's time. Interrupts go before all threads, whatever their priorities.
const SHARE_PERCENT: i64 = 10;
/// In less time than this a share says nothing.
const ENOUGH_NS: i64 = 100_000_000;

#[derive(Default)]
pub(super) struct Interrupts {
    long: FxHashMap<Interrupt, (Occurrences, u32)>,
    by_cpu: FxHashMap<u32, Occurrences>,
}

impl Listen for Interrupts {
    fn interruption(&mut self, _: &System, interruption: &Interruption) {
        let Interruption {
            begin_ns,
            end_ns,
            cpu,
            interrupt,
            ..
        } = *interruption;
        let ns = interruption.own_ns();
        self.by_cpu.entry(cpu).or_default().add((begin_ns, end_ns), ns);
        let is_soft = matches!(interrupt, Interrupt::Soft(_));
        if ns < if is_soft { SOFT_NS } else { HANDLER_NS } {
            return;
        }
        let (long, on) = self.long.entry(interrupt).or_default();
        if long.add((begin_ns, end_ns), ns) {
            *on = cpu;
        }
    }
}

impl Detector for Interrupts {
    fn find(&mut self, system: &System) -> Vec<Insight> {
        let long = self.long.iter().map(|(interrupt, (long, cpu))| Insight {
            kind: "long interrupt",
            level: Level::Notable,
            what: format!(
                "{} occupied a CPU for a long time, longest on CPU {cpu}",
                interrupt_name(system, *interrupt)
            ),
            span_ns: long.span_ns,
            longest_ns: Some(long.longest_ns),
            cost_ns: long.times.total_ns,
            evidence: long.evidence(),
            closer: Closer::new("irqlog").during(long.span_ns).with(
                "--min",
                format!(
                    "{}us",
                    if matches!(interrupt, Interrupt::Soft(_)) {
                        SOFT_NS
                    } else {
                        HANDLER_NS
                    } / 1000
                ),
            ),
        });
        let (begin_ns, end_ns) = system.told();
        let duration_ns = end_ns - begin_ns;
        let is_much = |of_cpu: &Occurrences| {
            duration_ns >= ENOUGH_NS && of_cpu.times.total_ns >= duration_ns / 100 * SHARE_PERCENT
        };
        let loads = self
            .by_cpu
            .iter()
            .filter(|(_, own)| is_much(own))
            .map(|(cpu, own)| Insight {
                kind: "interrupt load",
                level: Level::Notable,
                what: format!("interrupts took a large share of the time of CPU {cpu}"),
                span_ns: own.span_ns,
                longest_ns: None,
                cost_ns: own.times.total_ns,
                evidence: vec![
                    (TOTAL, Value::Number(own.times.total_ns)),
                    (
                        column("of_cpu_percent", "% of the CPU", Unit::Percent),
                        Value::share(own.times.total_ns, duration_ns),
                    ),
                ],
                closer: Closer::new("irqstats").with("--cpu", cpu),
            });
        long.chain(loads).collect()
    }
}
