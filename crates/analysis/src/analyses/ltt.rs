// SPDX-License-Identifier: MIT OR Apache-2.0
//! The analysis of the Linux Trace Toolkit: for every process and thread, the time that it ran, in its own program and in the kernel, and what
//! it waited for; beside it, what a clock tick would have made of it, as `ps` shows it.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::totals::{PerThread, Totals};
use super::{
    CALLS, COMM, COUNT, INTERRUPTS, LIMIT, MAX, MEAN, MIN, PID, SWITCHES, TID, TOTAL, WAKEUPS, comm, pid, process_comm,
    tid,
};
use crate::analysis::{Analysis, Description, Options};
use crate::cause::{Cause, Causes};
use crate::facts::Fact;
use crate::measure::Times;
use crate::model::{Call, Listen, Nature, ProcessId, Slice, State, System, ThreadId};
use crate::names::Name;
use crate::report::{Column, Report, Table, Unit, Value, column};

pub(super) static LTT: Description = Description {
    name: "ltt",
    about: "where the time of each process went: in the program, in the kernel, waiting, and for what",
    tables: &["processes", "threads", "syscalls", "cpus"],
    needs: &[SWITCHES, WAKEUPS, CALLS, INTERRUPTS],
    begin: |options| {
        Box::new(Ltt {
            options: options.clone(),
            threads: PerThread::default(),
            calls: FxHashMap::default(),
            idle: BTreeMap::new(),
            causes: Causes::default(),
        })
    },
};

struct Ltt {
    options: Options,
    threads: PerThread<OfThread>,
    calls: FxHashMap<(ProcessId, Name), (Times, u64)>,
    /// By CPU: time without a thread, and time with interrupts only.
    idle: BTreeMap<u32, OfCpu>,
    causes: Causes,
}

#[derive(Default)]
struct OfThread {
    totals: Totals,
    events: u64,
}

#[derive(Default)]
struct OfCpu {
    idle: i64,
    interrupted: i64,
    busy: i64,
}

impl Listen for Ltt {
    fn fact(&mut self, system: &System, _: &Fact<'_>, cpu: Option<u32>, _: i64) {
        if let Some(id) = cpu.and_then(|cpu| system.current_on(cpu)) {
            self.threads.of(id).events += 1;
        }
    }

    fn slice(&mut self, system: &System, slice: &Slice) {
        let own = self.threads.of(slice.thread);
        own.totals.add(system, slice, &mut self.causes);
        if let State::Running { cpu, mode } = slice.state {
            let is_idle = system.thread(slice.thread).nature == Nature::Idle;
            let cpu = self.idle.entry(cpu).or_default();
            *match (is_idle, mode) {
                (_, crate::model::Mode::Interrupt(_)) => &mut cpu.interrupted,
                (true, _) => &mut cpu.idle,
                (false, _) => &mut cpu.busy,
            } += slice.duration_ns();
        }
    }

    fn call(&mut self, system: &System, call: &Call) {
        if self.options.who.wants(system, call.thread) {
            let process = system.thread(call.thread).process();
            let (times, failed) = self.calls.entry((process, call.name)).or_default();
            times.add(call.end_ns - call.begin_ns);
            *failed += u64::from(call.result < 0);
        }
    }
}

const STATES: [Column; 14] = [
    column("on_cpu_ns", "ON CPU", Unit::Nanoseconds).major(),
    column("on_cpu_percent", "CPU %", Unit::Percent).with_bar(),
    column("sampled_ns", "BY TICKS", Unit::Nanoseconds).minor(),
    column("user_ns", "USER", Unit::Nanoseconds).minor(),
    column("kernel_ns", "KERNEL", Unit::Nanoseconds).minor(),
    column("interrupted_ns", "INTERRUPTED", Unit::Nanoseconds).minor(),
    column("runnable_ns", "WAIT CPU", Unit::Nanoseconds),
    column("io_ns", "WAIT I/O", Unit::Nanoseconds),
    column("network_ns", "WAIT NET", Unit::Nanoseconds),
    column("timer_ns", "WAIT TIMER", Unit::Nanoseconds),
    column("lock_ns", "WAIT LOCK", Unit::Nanoseconds),
    column("thread_ns", "WAIT THREAD", Unit::Nanoseconds),
    column("other_ns", "WAIT OTHER", Unit::Nanoseconds),
    column("unknown_ns", "UNKNOWN", Unit::Nanoseconds),
];

fn states(totals: &Totals, duration_ns: i64) -> Vec<Value> {
    let of = |cause: Cause| totals.blocked[cause as usize];
    let numbers = [
        totals.user,
        totals.kernel,
        totals.interrupted,
        totals.runnable,
        of(Cause::Io),
        of(Cause::Network),
        of(Cause::Timer),
        of(Cause::Lock),
        of(Cause::Thread),
        of(Cause::Unknown) + totals.stopped,
        totals.unknown,
    ];
    let mut values = vec![
        Value::Number(totals.on_cpu()),
        Value::share(totals.on_cpu(), duration_ns),
        Value::Number(totals.sampled),
    ];
    values.extend(numbers.map(Value::Number));
    values
}

impl Analysis for Ltt {
    fn report(&mut self, system: &System) -> Report {
        let (begin_ns, end_ns) = system.told();
        let duration_ns = end_ns - begin_ns;
        let mut report = Report {
            tables: vec![
                self.processes(system, duration_ns),
                self.of_threads(system, duration_ns),
            ],
            notes: Vec::from_iter(super::torn_calls(system, &self.options.who)),
        };
        report.tables.push(self.of_calls(system));
        report.tables.push(self.of_cpus(duration_ns));
        report
    }
}

impl Ltt {
    /// Those that did anything, or of whom it is known that they did nothing.
    fn meant<'s>(&'s self, system: &'s System) -> impl Iterator<Item = (ThreadId, &'s OfThread)> {
        let known = system.threads().filter_map(|(id, thread)| {
            let own = self.threads.get(id)?;
            let is_there = own.totals.sum() > own.totals.absent + own.totals.unknown;
            (is_there && thread.nature != Nature::Idle).then_some((id, own))
        });
        known.filter(|(id, _)| self.options.who.wants(system, *id))
    }

    fn processes(&self, system: &System, duration_ns: i64) -> Table {
        let mut by_process: BTreeMap<ProcessId, (Totals, u64, u64)> = BTreeMap::new();
        for (id, own) in self.meant(system) {
            let process = system.thread(id).process();
            let (totals, events, threads) = by_process.entry(process).or_default();
            totals.merge(&own.totals);
            *events += own.events;
            *threads += 1;
        }
        let mut columns = vec![PID, COMM, column("threads", "THREADS", Unit::Count).minor()];
        columns.extend(STATES);
        columns.push(column("events", "EVENTS", Unit::Count).minor());
        let mut table = Table::new("processes", "Processes", &columns);
        let mut sorted: Vec<_> = by_process.into_iter().collect();
        sorted.sort_by_key(|(_, (totals, ..))| Reverse(totals.on_cpu()));
        for (process, (totals, events, threads)) in sorted.into_iter().take(self.limit()) {
            let mut row = vec![
                Value::Number(process.pid.into()),
                process_comm(system, process),
                threads.into(),
            ];
            row.extend(states(&totals, duration_ns));
            row.push(events.into());
            table.row(row);
        }
        table
    }

    fn of_threads(&self, system: &System, duration_ns: i64) -> Table {
        let mut columns = vec![TID, PID.minor(), COMM];
        columns.extend(STATES);
        columns.push(column("absent_ns", "ABSENT", Unit::Nanoseconds).minor());
        columns.push(column("events", "EVENTS", Unit::Count).minor());
        let mut table = Table::new("threads", "Threads", &columns);
        let mut sorted: Vec<_> = self.meant(system).collect();
        sorted.sort_by_key(|(_, own)| Reverse(own.totals.on_cpu()));
        for (id, own) in sorted.into_iter().take(self.limit()) {
            let mut row = vec![tid(system, id), pid(system, id), comm(system, id)];
            // What the trace does not tell the mode of is in `on_cpu_ns` only.
            row.extend(states(&own.totals, duration_ns));
            row.push(Value::Number(own.totals.absent));
            row.push(own.events.into());
            table.row(row);
        }
        table
    }

    fn limit(&self) -> usize {
        self.options.limit.unwrap_or(LIMIT)
    }

    fn of_calls(&self, system: &System) -> Table {
        let columns = [
            PID,
            column("syscall", "SYSCALL", Unit::Text),
            COUNT,
            TOTAL,
            MIN,
            MEAN,
            MAX,
            column("failed", "FAILED", Unit::Count),
        ];
        let mut table = Table::new("syscalls", "System calls", &columns);
        // The order in a table of hashes is nobody's.
        let mut calls: Vec<_> = self.calls.iter().collect();
        calls.sort_unstable_by_key(|((process, call), (times, _))| {
            (-times.total_ns, process.pid, system.names.text(*call), process)
        });
        for ((process, call), (times, failed)) in calls.into_iter().take(self.limit()) {
            let mut row = vec![Value::Number(process.pid.into()), system.names.text(*call).into()];
            row.extend(times.values());
            row.push((*failed).into());
            table.row(row);
        }
        table
    }

    fn of_cpus(&self, duration_ns: i64) -> Table {
        let columns = [
            column("cpu", "CPU", Unit::Id),
            column("idle_ns", "IDLE", Unit::Nanoseconds),
            column("idle_percent", "IDLE %", Unit::Percent).with_bar(),
            column("busy_ns", "BUSY", Unit::Nanoseconds),
            column("interrupted_ns", "INTERRUPTS", Unit::Nanoseconds),
            column("unknown_ns", "UNKNOWN", Unit::Nanoseconds),
        ];
        let mut table = Table::new("cpus", "CPUs", &columns);
        for (cpu, own) in &self.idle {
            let known = own.idle + own.busy + own.interrupted;
            table.row([
                Value::Number((*cpu).into()),
                Value::Number(own.idle),
                Value::share(own.idle, duration_ns),
                Value::Number(own.busy),
                Value::Number(own.interrupted),
                Value::Number(duration_ns - known),
            ]);
        }
        table
    }
}
