// SPDX-License-Identifier: MIT OR Apache-2.0
//! For tests: a constructed trace, and what stands out in it.

use super::{Detector, Insight, detectors};
use crate::facts::{Arguments, Fact, Left, Switch, Woken};
use crate::model::{At, Circumstances, System};
use crate::names::Name;
use crate::pass::Listeners;
use crate::report::Value;

pub(super) const MS: i64 = 1_000_000;

/// A trace, event by event.
pub(super) struct Made {
    pub(super) system: System,
    detectors: Listeners<dyn Detector>,
}

impl Made {
    pub(super) fn new() -> Made {
        Made::of(Circumstances::whole(0))
    }

    pub(super) fn of(circumstances: Circumstances) -> Made {
        Made {
            system: System::new(circumstances),
            detectors: detectors(),
        }
    }

    pub(super) fn event(&mut self, ns: i64, cpu: u32, fact: &Fact<'_>) {
        let at = At {
            ns,
            cpu: Some(cpu),
            tid: None,
        };
        self.system.apply(fact, at, &mut self.detectors);
    }

    pub(super) fn switch(&mut self, ns: i64, cpu: u32, previous: (i32, Left), next: i32) {
        self.switch_to(ns, cpu, previous, (next, 20));
    }

    pub(super) fn switch_to(&mut self, ns: i64, cpu: u32, previous: (i32, Left), next: (i32, i32)) {
        let switch = Fact::Switch(Switch {
            previous_tid: previous.0,
            previous_name: b"a",
            previous: previous.1,
            next_tid: next.0,
            next_name: b"b",
            next_priority: next.1,
            previous_priority: None,
        });
        self.event(ns, cpu, &switch);
    }

    pub(super) fn wake(&mut self, ns: i64, cpu: u32, tid: i32) {
        self.event(ns, cpu, &Fact::Waking(Woken { tid, cpu: None }));
    }

    pub(super) fn call(&mut self, (begin_ns, end_ns): (i64, i64), cpu: u32, name: &str) {
        let call = self.system.names.keep(name.as_bytes());
        self.event(begin_ns, cpu, &entry(call));
        self.answer(end_ns, cpu, name);
    }

    pub(super) fn answer(&mut self, ns: i64, cpu: u32, name: &str) {
        let call = Some(self.system.names.keep(name.as_bytes()));
        self.event(
            ns,
            cpu,
            &Fact::CallExit {
                call,
                result: 0,
                found: Default::default(),
            },
        );
    }

    /// What stands out, by kinds and evidence: `throttled 3 240000000 80000000`.
    pub(super) fn found(self, end_ns: i64) -> Vec<String> {
        let number = |value: &Value| match value {
            Value::Number(number) => number.to_string(),
            Value::Percent(percent) => format!("{percent:.0}%"),
            Value::Durations(_) => value.csv(),
            other => format!("{other:?}"),
        };
        let line = |one: &Insight| {
            let evidence: Vec<String> = one.evidence.iter().map(|(_, value)| number(value)).collect();
            let (begin_ns, end_ns) = one.span_ns;
            assert!(begin_ns <= end_ns, "{one:?}");
            // The longest is one of them.
            let is_within =
                |longest: (i64, i64)| begin_ns <= longest.0 && longest.0 <= longest.1 && longest.1 <= end_ns;
            assert!(one.longest_ns.is_none_or(is_within), "{one:?}");
            format!("{} {}", one.kind, evidence.join(" "))
        };
        self.insights(end_ns).iter().map(line).collect()
    }

    /// The same in words: `throttled: b (7) ...`.
    pub(super) fn said(self, end_ns: i64) -> Vec<String> {
        let line = |one: &Insight| format!("{}: {}", one.kind, one.what);
        self.insights(end_ns).iter().map(line).collect()
    }

    fn insights(mut self, end_ns: i64) -> Vec<Insight> {
        self.system.finish(end_ns, &mut self.detectors);
        self.detectors.insights(&self.system)
    }
}

pub(super) fn entry(call: Name) -> Fact<'static> {
    Fact::CallEntry {
        call,
        arguments: Arguments::default(),
    }
}
