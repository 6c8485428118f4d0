// SPDX-License-Identifier: MIT OR Apache-2.0
//! System calls: how often, how long, how many failed; of everybody and of each process.

use rustc_hash::FxHashMap;

use super::{CALLS, COMM, COUNT, LIMIT, MAX, MEAN, MEDIAN, MIN, P99, PID, TOTAL, process_comm, torn_calls};
use crate::analysis::{Analysis, Description, Need, Options};
use crate::measure::{Distribution, Times};
use crate::model::{Call, Listen, ProcessId, System};
use crate::names::Name;
use crate::report::{Report, Table, Unit, Value, column};

pub(super) static SYSCALLSTATS: Description = Description {
    name: "syscallstats",
    about: "system calls: how many, how long they took, how many failed",
    tables: &["syscalls", "processes"],
    needs: &[Need {
        is_essential: true,
        ..CALLS
    }],
    begin: |options| {
        Box::new(SyscallStats {
            options: options.clone(),
            calls: FxHashMap::default(),
            by_process: FxHashMap::default(),
        })
    },
};

struct SyscallStats {
    options: Options,
    calls: FxHashMap<Name, (Distribution, u64)>,
    by_process: FxHashMap<(ProcessId, Name), (Times, u64)>,
}

impl Listen for SyscallStats {
    fn call(&mut self, system: &System, call: &Call) {
        let ns = call.end_ns - call.begin_ns;
        if !self.options.wants_ns(ns) || !self.options.who.wants(system, call.thread) {
            return;
        }
        let has_failed = u64::from(call.result < 0);
        let (times, failed) = self.calls.entry(call.name).or_default();
        times.add(ns);
        *failed += has_failed;
        let process = system.thread(call.thread).process();
        let (times, failed) = self.by_process.entry((process, call.name)).or_default();
        times.add(ns);
        *failed += has_failed;
    }
}

impl Analysis for SyscallStats {
    fn report(&mut self, system: &System) -> Report {
        let limit = self.options.limit.unwrap_or(LIMIT);
        let syscall = column("syscall", "SYSCALL", Unit::Text).major();
        let failed = column("failed", "FAILED", Unit::Count);
        let columns = [
            syscall,
            COUNT,
            failed,
            TOTAL.major().with_bar(),
            MIN,
            MEAN,
            MAX,
            MEDIAN,
            P99,
        ];
        let mut all = Table::new("syscalls", "System calls", &columns);
        let mut calls: Vec<_> = self.calls.iter().collect();
        calls.sort_by_key(|(name, _)| **name);
        for (name, (times, failed)) in calls {
            let [count, total, min, mean, max] = times.times.values();
            let name = system.names.text(*name).into();
            let (median, p99) = (times.percentile(50.0), times.percentile(99.0));
            all.row([name, count, (*failed).into(), total, min, mean, max, median, p99]);
        }
        all.sort_by("total_ns");
        let mut each = Table::new(
            "processes",
            "System calls by process",
            &[PID, COMM, syscall, COUNT, failed, TOTAL.with_bar(), MIN, MEAN, MAX],
        );
        let mut of_processes: Vec<_> = self.by_process.iter().collect();
        of_processes.sort_by_key(|(key, _)| **key);
        for ((process, name), (times, failed)) in of_processes {
            let [count, total, min, mean, max] = times.values();
            each.row([
                Value::Number(process.pid.into()),
                process_comm(system, *process),
                system.names.text(*name).into(),
                count,
                (*failed).into(),
                total,
                min,
                mean,
                max,
            ]);
        }
        each.sort_by("total_ns");
        all.rows.truncate(limit);
        each.rows.truncate(limit);
        Report {
            tables: vec![all, each],
            notes: Vec::from_iter(torn_calls(system, &self.options.who)),
        }
    }
}
