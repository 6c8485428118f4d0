// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much a trace tells: where events are missing, how much of each CPU's time is known, and how often events contradict each other.

use std::collections::BTreeMap;

use super::{CALLS, INTERRUPTS, LIMIT, SWITCHES, WAKEUPS};
use crate::analysis::{Analysis, Description, Need, Options};
use crate::model::{Listen, Slice, State, System};
use crate::report::{Report, Table, Unit, Value, column, counted};

pub(super) static HEALTH: Description = Description {
    name: "health",
    about: "how complete the trace is: losses, time for which the running thread is known, missing kinds of events",
    tables: &["cpus", "gaps"],
    needs: &[
        Need {
            is_essential: false,
            ..SWITCHES
        },
        WAKEUPS,
        CALLS,
        INTERRUPTS,
    ],
    begin: |options| {
        Box::new(Health {
            options: options.clone(),
            known_ns: BTreeMap::new(),
        })
    },
};

struct Health {
    options: Options,
    /// By CPU: how long it is known who had it.
    known_ns: BTreeMap<u32, i64>,
}

impl Listen for Health {
    fn slice(&mut self, _: &System, slice: &Slice) {
        if let State::Running { cpu, .. } = slice.state {
            *self.known_ns.entry(cpu).or_default() += slice.duration_ns();
        }
    }
}

impl Analysis for Health {
    fn report(&mut self, system: &System) -> Report {
        let (begin_ns, end_ns) = system.told();
        let duration_ns = end_ns - begin_ns;
        let columns = [
            column("cpu", "CPU", Unit::Id),
            column("known_percent", "KNOWN %", Unit::Percent).with_bar(),
            column("known_ns", "KNOWN", Unit::Nanoseconds),
            column("unknown_ns", "UNKNOWN", Unit::Nanoseconds),
            column("contradictions", "CONTRADICTIONS", Unit::Count),
        ];
        let mut cpus = Table::new("cpus", "Share of time for which the running thread is known", &columns);
        for cpu in system.cpus() {
            let known_ns = self.known_ns.get(&cpu).copied().unwrap_or(0);
            cpus.row([
                Value::Number(cpu.into()),
                Value::share(known_ns, duration_ns),
                Value::Number(known_ns),
                Value::Number(duration_ns - known_ns),
                system.contradictions_on(cpu).into(),
            ]);
        }
        let columns = [
            column("begin_ns", "BEGIN", Unit::Moment),
            column("duration_ns", "DURATION", Unit::Nanoseconds),
            column("cpu", "CPU", Unit::Id),
        ];
        let mut gaps = Table::new("gaps", "Where events are missing", &columns);
        let mut count = 0;
        for gap in system.circumstances().gaps.all() {
            let (from, until) = (gap.begin_ns.max(begin_ns), gap.end_ns.min(end_ns));
            if from >= until {
                continue;
            }
            count += 1;
            if count <= self.options.limit.unwrap_or(LIMIT) {
                gaps.row([Value::Number(from), Value::Number(until - from), gap.cpu.into()]);
            }
        }
        gaps.notes.extend(counted(
            (count - gaps.rows.len()) as u64,
            "more place where events are missing is not shown; show more with --limit",
            "more places where events are missing are not shown; show more with --limit",
        ));
        Report {
            tables: vec![cpus, gaps],
            notes: Vec::new(),
        }
    }
}
