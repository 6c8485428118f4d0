// SPDX-License-Identifier: MIT OR Apache-2.0
//! All analyses. A new one is a file here and a line in [`ALL`].

mod blocked;
mod cputop;
mod critical_path;
mod futex;
mod health;
mod io;
mod iolatency;
mod iolog;
mod iotop;
mod iousage;
pub(crate) mod irq;
mod ltt;
mod memtop;
mod nettop;
pub(crate) mod priority_inversion;
mod procs;
mod sched;
mod syscalls;
pub(crate) mod totals;

use crate::analysis::{Description, Need, Who};
use crate::model::{ProcessId, System, ThreadId, Waker};
use crate::report::{Column, Unit, Value, column, counted};

pub use self::critical_path::delay;
pub use self::irq::interrupt_name;

/// In the order in which they are listed.
pub const ALL: [&Description; 23] = [
    &ltt::LTT,
    &cputop::CPUTOP,
    &syscalls::SYSCALLSTATS,
    &sched::STATS,
    &sched::TOP,
    &sched::FREQUENCIES,
    &sched::LOG,
    &irq::STATS,
    &irq::FREQUENCIES,
    &irq::LOG,
    &blocked::BLOCKED,
    &critical_path::CRITICAL_PATH,
    &futex::FUTEX,
    &priority_inversion::PRIORITY_INVERSION,
    &iotop::IOTOP,
    &iousage::IOUSAGE,
    &iolatency::STATS,
    &iolatency::FREQUENCIES,
    &iolog::IOLOG,
    &memtop::MEMTOP,
    &nettop::NETTOP,
    &procs::PROCS,
    &health::HEALTH,
];

/// Rows of a table, unless another number is asked for.
pub(crate) const LIMIT: usize = 20;
/// Of a table that lists single occurrences.
pub(crate) const LOG_LIMIT: usize = 1000;

/// Which threads have the CPUs.
pub const SWITCHES: Need = Need {
    any_of: &["sched_switch"],
    what: "scheduler switches (which thread ran when)",
    option: "--preset sched",
    is_essential: true,
};
pub(crate) const WAKEUPS: Need = Need {
    any_of: &["sched_wakeup", "sched_waking"],
    what: "wake-ups, and the waits for a CPU that follow them",
    option: "--preset sched",
    is_essential: false,
};
pub(crate) const CALLS: Need = Need {
    any_of: &["syscall_entry_*", "sys_*", "compat_syscall_entry_*"],
    what: "system calls, and from them the time in user and kernel mode",
    option: "--preset syscalls",
    is_essential: false,
};
pub(crate) const INTERRUPTS: Need = Need {
    any_of: &["irq_handler_entry", "*softirq_entry", "*irq_vectors_*_entry"],
    what: "interrupts",
    option: "--preset irq",
    is_essential: false,
};

/// What is to be recorded for all insights.
pub const RECORDED_FOR_INSIGHTS: &[Need] = &[
    Need {
        is_essential: false,
        ..SWITCHES
    },
    WAKEUPS,
    CALLS,
    INTERRUPTS,
];

pub(crate) const TID: Column = column("tid", "TID", Unit::Id);
pub(crate) const PID: Column = column("pid", "PID", Unit::Id);
pub(crate) const COMM: Column = column("comm", "NAME", Unit::Text).major();
pub(crate) const COUNT: Column = column("count", "COUNT", Unit::Count);
pub(crate) const TOTAL: Column = column("total_ns", "TOTAL", Unit::Nanoseconds);
pub(crate) const MIN: Column = column("min_ns", "MIN", Unit::Nanoseconds).minor();
pub(crate) const MEAN: Column = column("mean_ns", "MEAN", Unit::Nanoseconds).minor();
pub(crate) const MAX: Column = column("max_ns", "MAX", Unit::Nanoseconds);
pub(crate) const MEDIAN: Column = column("p50_ns", "P50", Unit::Nanoseconds).minor();
/// Who had the CPU while threads waited for it.
pub(crate) const BEHIND: Column = column("behind", "BEHIND", Unit::Durations).major();
pub(crate) const P99: Column = column("p99_ns", "P99", Unit::Nanoseconds);

pub(crate) fn tid(system: &System, id: ThreadId) -> Value {
    Value::Number(system.thread(id).tid.into())
}

pub(crate) fn pid(system: &System, id: ThreadId) -> Value {
    system.thread(id).pid.into()
}

/// Absent where the trace does not say it.
pub(crate) fn comm(system: &System, id: ThreadId) -> Value {
    match system.name_of(id) {
        "" => Value::None,
        name => name.into(),
    }
}

/// How many system calls are missing in what is counted of some threads.
fn torn_calls(system: &System, who: &Who) -> Option<String> {
    let meant = system.threads().filter(|(id, _)| who.wants(system, *id));
    counted(
        meant.map(|(_, thread)| thread.torn_calls()).sum(),
        "system call is not counted, because events are missing and only its entry or its exit is known (see `piste stats`)",
        "system calls are not counted, because events are missing and only their entry or their exit is known (see `piste stats`)",
    )
}

/// A process is called as its first thread is, and not as another one of its threads.
fn process_comm(system: &System, process: ProcessId) -> Value {
    system
        .leader(process)
        .map_or(Value::None, |leader| comm(system, leader))
}

/// A thread by name and number: `cc1 (4711)`. An idle thread has no number of its own.
pub fn named(system: &System, id: ThreadId) -> String {
    let thread = system.thread(id);
    match system.name_of(id) {
        name if thread.tid == 0 => name.to_owned(),
        name => name_and_number(name, thread.tid),
    }
}

/// `cc1 (4711)`, or `(4711)` where the name is unknown.
pub fn name_and_number(name: &str, tid: i32) -> String {
    match name {
        "" => format!("({tid})"),
        name => format!("{name} ({tid})"),
    }
}

/// Who or what ended a wait: a thread or an interrupt.
fn waker_named(system: &System, waker: Waker) -> String {
    match waker {
        Waker::Thread(thread) => named(system, thread),
        Waker::Interrupt(interrupt) => irq::interrupt_name(system, interrupt),
    }
}

pub(crate) const FROM: Column = column("from_ns", "FROM", Unit::Nanoseconds);
pub(crate) const UNTIL: Column = column("until_ns", "UP TO", Unit::Nanoseconds);

/// How many took how long.
fn frequencies(title: &str, times: &crate::measure::Distribution) -> crate::report::Table {
    let mut table = crate::report::Table::new("frequencies", title, &[FROM, UNTIL, COUNT.with_bar()]);
    for (from, until, count) in times.octaves() {
        table.row([Value::Number(from), Value::Number(until), count.into()]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::Options;
    use crate::model::Circumstances;

    #[test]
    fn reports_have_the_tables_that_are_described() {
        let system = System::new(Circumstances::whole(0));
        for analysis in ALL {
            let report = (analysis.begin)(&Options::default()).report(&system);
            let tables: Vec<&str> = report.tables.iter().map(|table| table.name).collect();
            assert_eq!(tables, analysis.tables, "{}", analysis.name);
        }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/analyses/device_tests.rs"]
mod device_tests;
#[cfg(test)]
#[path = "../../tests/unit/analyses/process_tests.rs"]
mod process_tests;
