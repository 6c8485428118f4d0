// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a system does, one interval at a time: CPUs, threads, system calls and devices, for `piste top`.
//!
//! The model hands out slices when they end, but an interval ends whenever the caller closes it. So [`Top::close`] also asks the model for what
//! is still going on ([`System::so_far`]) and counts it up to that time; when such a slice ends later, only its rest counts. An interval
//! therefore equals what an analysis says of a trace that is read from its beginning to the end of the interval.
//!
//! Memory: about 200 bytes for each thread that did something in an interval; nothing grows with the number of events.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::analyses::{CALLS, COMM, INTERRUPTS, MAX, PID, SWITCHES, TID, TOTAL, WAKEUPS, comm, named, pid, tid};
use crate::analysis::Need;
use crate::facts::DeviceOperation;
use crate::model::{Call, FileCall, Listen, Mode, Nature, Request, Slice, State, System, ThreadId};
use crate::names::Name;
use crate::report::{Report, Table, Unit, Value, column};

/// What a trace should have for all figures.
pub const NEEDS: &[Need] = &[
    Need {
        is_essential: false,
        ..SWITCHES
    },
    WAKEUPS,
    CALLS,
    INTERRUPTS,
    REQUESTS,
];

const REQUESTS: Need = Need {
    any_of: &["block_rq_complete"],
    what: "requests to block devices",
    option: "--preset io",
    is_essential: false,
};

/// Which figures a trace has. The others are unknown, which is not the same as 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say all")]
pub struct Recorded {
    pub switches: bool,
    pub wakeups: bool,
    pub calls: bool,
    pub interrupts: bool,
    pub requests: bool,
}

impl Recorded {
    /// Of a trace that has classes of events with these names.
    pub fn of<'n>(classes: impl Iterator<Item = &'n str> + Clone) -> Recorded {
        let has = |need: Need| need.is_met(classes.clone());
        Recorded {
            switches: has(SWITCHES),
            wakeups: has(WAKEUPS),
            calls: has(CALLS),
            interrupts: has(INTERRUPTS),
            requests: has(REQUESTS),
        }
    }
}

/// More of a thread's time than one of so many parts is much.
const UNKNOWN_OF: i64 = 20;

/// Listens to a model and sums up the current interval, and optionally everything.
#[derive(Debug)]
pub struct Top {
    begin_ns: i64,
    interval: Sums,
    whole: Option<Sums>,
}

/// The figures of an interval.
#[derive(Clone, Debug)]
pub struct Interval {
    /// In nanoseconds from the clock's origin.
    pub begin_ns: i64,
    /// The same.
    pub end_ns: i64,
    sums: Sums,
    /// Which thread had each CPU at the end; absent: unknown.
    current: BTreeMap<u32, Option<ThreadId>>,
}

#[derive(Clone, Debug, Default)]
struct Sums {
    threads: FxHashMap<ThreadId, OfThread>,
    cpus: BTreeMap<u32, OfCpu>,
    calls: FxHashMap<Name, OfCall>,
    devices: BTreeMap<u32, OfDevice>,
}

/// Times in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct OfThread {
    user: i64,
    kernel: i64,
    interrupted: i64,
    /// It had a CPU; the trace does not show for what.
    other: i64,
    runnable: i64,
    longest_wait: i64,
    blocked: i64,
    unknown: i64,
    calls: u64,
    read_bytes: u64,
    written_bytes: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct OfCpu {
    busy: i64,
    interrupted: i64,
    idle: i64,
}

#[derive(Clone, Copy, Debug, Default)]
struct OfCall {
    count: u64,
    failed: u64,
    total_ns: i64,
    max_ns: i64,
}

#[derive(Clone, Copy, Debug, Default)]
struct OfDevice {
    requests: u64,
    read_bytes: u64,
    written_bytes: u64,
    total_ns: i64,
    max_ns: i64,
}

impl OfThread {
    fn on_cpu(&self) -> i64 {
        self.user + self.kernel + self.interrupted + self.other
    }

    fn did_something(&self) -> bool {
        self.on_cpu() + self.runnable > 0 || self.calls + self.read_bytes + self.written_bytes > 0
    }
}

impl Sums {
    /// With the part of a slice from `begin_ns` on.
    fn add(&mut self, system: &System, slice: &Slice, begin_ns: i64) {
        let ns = slice.end_ns - slice.begin_ns.max(begin_ns);
        if ns <= 0 || matches!(slice.state, State::Unborn | State::Dead) {
            return;
        }
        let is_idle = system.thread(slice.thread).nature == Nature::Idle;
        if let State::Running { cpu, mode } = slice.state {
            let of_cpu = self.cpus.entry(cpu).or_default();
            *match mode {
                Mode::Interrupt(_) => &mut of_cpu.interrupted,
                _ if is_idle => &mut of_cpu.idle,
                _ => &mut of_cpu.busy,
            } += ns;
        }
        if is_idle {
            return;
        }
        let own = self.threads.entry(slice.thread).or_default();
        *match slice.state {
            State::Running { mode, .. } => match mode {
                Mode::User => &mut own.user,
                Mode::Call(_) | Mode::Kernel => &mut own.kernel,
                Mode::Interrupt(_) => &mut own.interrupted,
                Mode::Unknown | Mode::Idle => &mut own.other,
            },
            State::Runnable(_) => {
                // How long it has waited, including the time before the interval.
                own.longest_wait = own.longest_wait.max(slice.duration_ns());
                &mut own.runnable
            }
            State::Blocked(_) | State::Stopped => &mut own.blocked,
            State::Unknown | State::Unborn | State::Dead => &mut own.unknown,
        } += ns;
    }

    fn call(&mut self, call: &Call) {
        let ns = call.end_ns - call.begin_ns;
        let own = self.calls.entry(call.name).or_default();
        own.count += 1;
        own.failed += u64::from(call.result < 0);
        own.total_ns += ns;
        own.max_ns = own.max_ns.max(ns);
        self.threads.entry(call.thread).or_default().calls += 1;
    }

    fn file_call(&mut self, call: &FileCall) {
        let own = self.threads.entry(call.call.thread).or_default();
        own.read_bytes += call.read_bytes();
        own.written_bytes += call.written_bytes();
    }

    fn request(&mut self, request: &Request) {
        let Some(completed_ns) = request.completed_ns else {
            return;
        };
        let ns = completed_ns - request.issued_ns;
        let own = self.devices.entry(request.device).or_default();
        own.requests += 1;
        match request.operation {
            DeviceOperation::Read => own.read_bytes += request.bytes,
            DeviceOperation::Write => own.written_bytes += request.bytes,
            _ => {}
        }
        own.total_ns += ns;
        own.max_ns = own.max_ns.max(ns);
    }
}

impl Top {
    /// Before the first event, at `begin_ns`. `sums_up_everything`: for [`Top::whole`].
    pub fn new(begin_ns: i64, sums_up_everything: bool) -> Top {
        Top {
            begin_ns,
            interval: Sums::default(),
            whole: sums_up_everything.then(Sums::default),
        }
    }

    /// Ends the interval; the next one begins there. To be called before the first event behind `end_ns` is given to the model.
    pub fn close(&mut self, system: &System, end_ns: i64) -> Interval {
        let begin_ns = std::mem::replace(&mut self.begin_ns, end_ns);
        let mut sums = std::mem::take(&mut self.interval);
        system.so_far(end_ns, |slice| sums.add(system, slice, begin_ns));
        // What sleeps all the time has nothing to show, and there are many of them.
        sums.threads.retain(|_, own| own.did_something());
        Interval::new(system, (begin_ns, end_ns), sums)
    }

    /// Everything, once the model is finished.
    pub fn whole(&mut self, system: &System) -> Interval {
        let sums = self.whole.take().unwrap_or_default();
        Interval::new(system, system.told(), sums)
    }

    fn sums(&mut self) -> impl Iterator<Item = &mut Sums> {
        [Some(&mut self.interval), self.whole.as_mut()].into_iter().flatten()
    }
}

impl Listen for Top {
    fn slice(&mut self, system: &System, slice: &Slice) {
        self.interval.add(system, slice, self.begin_ns);
        if let Some(whole) = &mut self.whole {
            whole.add(system, slice, i64::MIN);
        }
    }

    fn call(&mut self, _system: &System, call: &Call) {
        self.sums().for_each(|sums| sums.call(call));
    }

    fn file_call(&mut self, _system: &System, call: &FileCall) {
        self.sums().for_each(|sums| sums.file_call(call));
    }

    fn request(&mut self, _system: &System, request: &Request) {
        self.sums().for_each(|sums| sums.request(request));
    }
}

impl Interval {
    fn new(system: &System, (begin_ns, end_ns): (i64, i64), sums: Sums) -> Interval {
        let current = system.cpus().map(|cpu| (cpu, system.current_on(cpu))).collect();
        Interval {
            begin_ns,
            end_ns,
            sums,
            current,
        }
    }

    /// How long it is.
    pub fn duration_ns(&self) -> i64 {
        self.end_ns - self.begin_ns
    }

    /// Its figures as tables: `cpus`, `threads`, and `syscalls` and `devices` if they were recorded. Other values that were not recorded are
    /// unknown.
    pub fn report(&self, system: &System, recorded: Recorded) -> Report {
        let mut tables = vec![self.of_cpus(system, recorded), self.of_threads(system, recorded)];
        // A table without rows would say that nothing happened.
        tables.extend(recorded.calls.then(|| self.of_calls(system)));
        tables.extend(recorded.requests.then(|| self.of_devices(system)));
        Report {
            tables,
            notes: Vec::new(),
        }
    }

    fn of_cpus(&self, system: &System, recorded: Recorded) -> Table {
        let columns = [
            column("cpu", "CPU", Unit::Id).major(),
            column("busy_percent", "BUSY %", Unit::Percent).major().with_bar(),
            column("busy_ns", "BUSY", Unit::Nanoseconds),
            column("interrupted_ns", "INTERRUPTS", Unit::Nanoseconds),
            column("idle_ns", "IDLE", Unit::Nanoseconds).minor(),
            column("unknown_ns", "UNKNOWN", Unit::Nanoseconds),
            column("current", "NOW", Unit::Text).major(),
        ];
        let mut table = Table::new("cpus", "CPUs", &columns);
        let duration_ns = self.duration_ns();
        for (cpu, current) in &self.current {
            let own = self.sums.cpus.get(cpu).copied().unwrap_or_default();
            let busy = own.busy + own.interrupted;
            let unknown = (duration_ns - busy - own.idle).max(0);
            let current = current.filter(|_| recorded.switches);
            table.row([
                Value::Number((*cpu).into()),
                // A CPU of which nothing is known is not one without work.
                match unknown >= duration_ns {
                    true => Value::None,
                    false => Value::share(busy, duration_ns),
                },
                Value::Number(own.busy),
                known(recorded.interrupts, own.interrupted),
                Value::Number(own.idle),
                Value::Number(unknown),
                current.map_or(Value::None, |id| match system.thread(id).nature {
                    Nature::Idle => "idle".into(),
                    _ => named(system, id).into(),
                }),
            ]);
        }
        table
    }

    fn of_threads(&self, system: &System, recorded: Recorded) -> Table {
        let duration_ns = self.duration_ns();
        let unknown = column("unknown_percent", "UNKNOWN", Unit::Percent);
        // Where much is unknown, the other shares are only a part.
        let is_unsure = |own: &OfThread| own.unknown > duration_ns / UNKNOWN_OF && own.did_something();
        let unknown = match self.sums.threads.values().any(is_unsure) {
            true => unknown.major(),
            false => unknown.minor(),
        };
        let columns = [
            TID.major(),
            PID.minor(),
            COMM,
            column("cpu_percent", "CPU %", Unit::Percent).major().with_bar(),
            column("on_cpu_ns", "ON CPU", Unit::Nanoseconds).minor(),
            column("user_percent", "USER", Unit::Percent),
            column("kernel_percent", "KERNEL", Unit::Percent),
            column("interrupted_percent", "INTR", Unit::Percent).minor(),
            column("waited_ns", "WAITED", Unit::Nanoseconds).major(),
            column("longest_wait_ns", "WORST", Unit::Nanoseconds).major(),
            column("blocked_percent", "BLOCKED", Unit::Percent),
            unknown,
            column("syscalls", "CALLS", Unit::Count).major(),
            column("read_bytes", "READ", Unit::Bytes),
            column("written_bytes", "WRITTEN", Unit::Bytes),
        ];
        let mut table = Table::new("threads", "Threads", &columns);
        let mut threads: Vec<_> = self.sums.threads.iter().collect();
        threads.retain(|(_, own)| own.did_something());
        threads.sort_by_key(|(id, own)| (-own.on_cpu(), **id));
        for (id, own) in threads {
            let share = |is_known: bool, ns: i64| match is_known {
                true => Value::share(ns, duration_ns),
                false => Value::None,
            };
            // Where all of its time is unknown, it may have had a CPU all the time.
            let has_states = recorded.switches && own.unknown < duration_ns;
            table.row([
                tid(system, *id),
                pid(system, *id),
                comm(system, *id),
                share(has_states, own.on_cpu()),
                known(has_states, own.on_cpu()),
                share(has_states && recorded.calls, own.user),
                share(has_states && recorded.calls, own.kernel),
                share(has_states && recorded.interrupts, own.interrupted),
                known(has_states && recorded.wakeups, own.runnable),
                known(has_states && recorded.wakeups, own.longest_wait),
                share(has_states, own.blocked),
                share(true, own.unknown),
                counted(recorded.calls, own.calls),
                counted(recorded.calls, own.read_bytes),
                counted(recorded.calls, own.written_bytes),
            ]);
        }
        table
    }

    fn of_calls(&self, system: &System) -> Table {
        let columns = [
            column("syscall", "SYSCALL", Unit::Text).major(),
            column("count", "CALLS", Unit::Count).major(),
            column("failed", "FAILED", Unit::Count),
            TOTAL.major().with_bar(),
            MAX.major(),
        ];
        let mut table = Table::new("syscalls", "System calls", &columns);
        let mut calls: Vec<_> = self.sums.calls.iter().collect();
        calls.sort_by_key(|(name, own)| (-own.total_ns, **name));
        for (name, own) in calls {
            table.row([
                system.names.text(*name).into(),
                own.count.into(),
                own.failed.into(),
                Value::Number(own.total_ns),
                Value::Number(own.max_ns),
            ]);
        }
        table
    }

    fn of_devices(&self, system: &System) -> Table {
        let columns = [
            column("device", "DEVICE", Unit::Text).major(),
            column("requests", "REQUESTS", Unit::Count).major(),
            column("read_bytes", "READ", Unit::Bytes).major(),
            column("written_bytes", "WRITTEN", Unit::Bytes).major(),
            TOTAL,
            MAX.major(),
        ];
        let mut table = Table::new("devices", "Block devices", &columns);
        for (device, own) in &self.sums.devices {
            table.row([
                system.device_name(*device).into(),
                own.requests.into(),
                own.read_bytes.into(),
                own.written_bytes.into(),
                Value::Number(own.total_ns),
                Value::Number(own.max_ns),
            ]);
        }
        table
    }
}

fn known(is_known: bool, number: i64) -> Value {
    is_known.then_some(number).into()
}

fn counted(is_known: bool, count: u64) -> Value {
    match is_known {
        true => count.into(),
        false => Value::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Circumstances, script};

    const ALL: Recorded = Recorded {
        switches: true,
        wakeups: true,
        calls: true,
        interrupts: true,
        requests: true,
    };

    /// Thread 1 computes from 10 to 90, with a call and an interrupt; thread 2 waits for the CPU from 30 on.
    const LINES: [&str; 2] = [
        "
        1 cpu0 switch 2 waits 0
        10 cpu0 switch 0 waits 1
        20 cpu0:1 call read
        30 cpu0 wakeup 2 0
        40 cpu0 return 5",
        "
        60 cpu0 irq 3
        70 cpu0 irqend 3
        90 cpu0 switch 1 waits 2",
    ];

    fn csv(interval: &Interval, system: &System, table: usize) -> String {
        interval.report(system, ALL).tables[table].csv()
    }

    #[test]
    fn what_goes_on_across_an_end_is_counted_on_both_sides_of_it() {
        let mut system = System::new(Circumstances::whole(0));
        let mut top = Top::new(0, true);
        script::apply(&mut system, LINES[0], &mut top);
        let first = top.close(&system, 50);
        script::apply(&mut system, LINES[1], &mut top);
        let second = top.close(&system, 100);
        system.finish(100, &mut top);
        let whole = top.whole(&system);
        let shown = |interval: &Interval| {
            let report = interval.report(&system, ALL);
            let row = |tid: i64| {
                let mut rows = report.tables[1].rows.iter();
                let row = rows.find(|row| row[0] == Value::Number(tid)).expect("it did something");
                // On a CPU, waited, longest wait.
                [4, 8, 9].map(|place| row[place].csv()).join(" ")
            };
            (row(1), row(2))
        };
        assert_eq!(shown(&first), ("40 10 10".into(), "1 20 20".into()));
        assert_eq!(shown(&second), ("40 0 0".into(), "10 40 60".into()));
        assert_eq!(shown(&whole), ("80 10 10".into(), "11 60 60".into()));
        let calls = csv(&first, &system, 2);
        assert_eq!(calls, "syscall,count,failed,total_ns,max_ns\nread,1,0,20,20\n");
        assert_eq!(csv(&second, &system, 2).lines().count(), 1);
        let cpus = csv(&second, &system, 0);
        assert!(cpus.ends_with("0,100.000,40,10,0,0,(2)\n"), "{cpus}");
    }

    #[test]
    fn what_was_not_recorded_is_unknown() {
        let mut system = System::new(Circumstances::whole(0));
        let mut top = Top::new(0, false);
        script::apply(&mut system, LINES[0], &mut top);
        let interval = top.close(&system, 50);
        let recorded = Recorded {
            wakeups: false,
            calls: false,
            ..ALL
        };
        let report = interval.report(&system, recorded);
        for (column, row) in report.tables[1].columns.iter().zip(&report.tables[1].rows[0]) {
            let unknown = [
                "pid",
                "comm",
                "user_percent",
                "kernel_percent",
                "waited_ns",
                "longest_wait_ns",
                "syscalls",
                "read_bytes",
                "written_bytes",
            ];
            assert_eq!(*row == Value::None, unknown.contains(&column.key), "{}", column.key);
        }
    }
}
