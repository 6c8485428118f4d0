// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who had the CPUs, and how busy they were.

use std::collections::BTreeMap;

use super::totals::PerThread;
use super::{COMM, LIMIT, PID, SWITCHES, TID, comm, pid, tid};
use crate::analysis::{Analysis, Description, Options};
use crate::facts::Fact;
use crate::model::{Listen, Mode, Nature, Slice, State, System, ThreadId};
use crate::report::{Report, Table, Unit, Value, column};

pub(super) static CPUTOP: Description = Description {
    name: "cputop",
    about: "which threads ran on the CPUs, and how busy the CPUs were",
    tables: &["cpus", "threads"],
    needs: &[SWITCHES],
    begin: |options| {
        Box::new(CpuTop {
            options: options.clone(),
            threads: PerThread::default(),
            cpus: BTreeMap::new(),
        })
    },
};

struct CpuTop {
    options: Options,
    threads: PerThread<OfThread>,
    cpus: BTreeMap<u32, OfCpu>,
}

#[derive(Default)]
struct OfThread {
    ns: i64,
    switches: u64,
    migrations: u64,
    last_cpu: Option<u32>,
}

#[derive(Default)]
struct OfCpu {
    busy: i64,
    idle: i64,
    interrupted: i64,
    switches: u64,
}

impl Listen for CpuTop {
    fn fact(&mut self, system: &System, fact: &Fact<'_>, cpu: Option<u32>, ns: i64) {
        let (begin_ns, end_ns) = (
            system.circumstances().tell_from_ns,
            system.circumstances().tell_until_ns,
        );
        let (Fact::Switch(_), Some(cpu), true) = (fact, cpu, ns >= begin_ns && ns <= end_ns) else {
            return;
        };
        self.cpus.entry(cpu).or_default().switches += 1;
        if let Some(left) = system.current_on(cpu) {
            self.threads.of(left).switches += 1;
        }
    }

    fn slice(&mut self, system: &System, slice: &Slice) {
        let State::Running { cpu, mode } = slice.state else {
            return;
        };
        if !self.options.who.wants_cpu(cpu) {
            return;
        }
        let ns = slice.duration_ns();
        let is_idle = system.thread(slice.thread).nature == Nature::Idle;
        let of_cpu = self.cpus.entry(cpu).or_default();
        *match mode {
            Mode::Interrupt(_) => &mut of_cpu.interrupted,
            _ if is_idle => &mut of_cpu.idle,
            _ => &mut of_cpu.busy,
        } += ns;
        if !is_idle {
            let own = self.threads.of(slice.thread);
            own.ns += ns;
            own.migrations += u64::from(own.last_cpu.is_some_and(|last| last != cpu));
            own.last_cpu = Some(cpu);
        }
    }
}

impl Analysis for CpuTop {
    fn report(&mut self, system: &System) -> Report {
        let (begin_ns, end_ns) = system.told();
        let duration_ns = end_ns - begin_ns;
        let columns = [
            TID,
            PID.minor(),
            COMM,
            column("on_cpu_ns", "ON CPU", Unit::Nanoseconds),
            column("on_cpu_percent", "CPU %", Unit::Percent).with_bar(),
            column("switches", "SWITCHES", Unit::Count),
            column("migrations", "MIGRATIONS", Unit::Count),
        ];
        let mut threads = Table::new("threads", "Threads", &columns);
        let ran = |id: &ThreadId| self.threads.get(*id).filter(|own| own.ns > 0);
        for (id, _) in system.threads() {
            let Some(own) = ran(&id).filter(|_| self.options.who.wants(system, id)) else {
                continue;
            };
            threads.row([
                tid(system, id),
                pid(system, id),
                comm(system, id),
                Value::Number(own.ns),
                Value::share(own.ns, duration_ns),
                own.switches.into(),
                own.migrations.into(),
            ]);
        }
        threads.sort_by("on_cpu_ns");
        threads.rows.truncate(self.options.limit.unwrap_or(LIMIT));
        Report {
            tables: vec![self.of_cpus(duration_ns), threads],
            notes: Vec::new(),
        }
    }
}

impl CpuTop {
    fn of_cpus(&self, duration_ns: i64) -> Table {
        let columns = [
            column("cpu", "CPU", Unit::Id),
            column("busy_percent", "BUSY %", Unit::Percent).with_bar(),
            column("busy_ns", "BUSY", Unit::Nanoseconds),
            column("interrupted_ns", "INTERRUPTS", Unit::Nanoseconds),
            column("idle_ns", "IDLE", Unit::Nanoseconds),
            column("unknown_ns", "UNKNOWN", Unit::Nanoseconds),
            column("switches", "SWITCHES", Unit::Count),
        ];
        let mut table = Table::new("cpus", "CPUs", &columns);
        for (cpu, own) in self.cpus.iter().filter(|(cpu, _)| self.options.who.wants_cpu(**cpu)) {
            let busy = own.busy + own.interrupted;
            table.row([
                Value::Number((*cpu).into()),
                Value::share(busy, duration_ns),
                Value::Number(own.busy),
                Value::Number(own.interrupted),
                Value::Number(own.idle),
                Value::Number(duration_ns - busy - own.idle),
                own.switches.into(),
            ]);
        }
        table
    }
}
