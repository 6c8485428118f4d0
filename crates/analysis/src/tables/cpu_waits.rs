// SPDX-License-Identifier: MIT OR Apache-2.0
//! Behind whom threads waited for a CPU: a row for each wait and each thread that had the CPU meanwhile.

use super::column::{Column, Emitter, Lasts, OfThread, column, name, pid, times, who};
use super::states::why;
use super::{Rows, Table, headings};
use crate::analyses::{SWITCHES, WAKEUPS};
use crate::durations::Durations;
use crate::model::{Listen, Nature, Slice, State, System, ThreadId, Why};
use crate::report::Unit;

pub(super) static CPU_WAITS: Table = Table {
    name: "cpu_waits",
    needs: &[SWITCHES, WAKEUPS],
    columns: || headings(&columns()),
    begin: |chosen, sink| Box::new(CpuWaits(Emitter::new(&columns(), chosen, sink))),
};

/// A thread waited for a CPU, and another one had it for a part of that time.
struct CpuWait {
    thread: ThreadId,
    begin_ns: i64,
    end_ns: i64,
    why: Why,
    /// Absent: nobody knows.
    by: Option<ThreadId>,
    by_ns: i64,
}

fn columns() -> Vec<Column<CpuWait>> {
    let own = [
        column("why", Unit::Text, |_, wait: &CpuWait| why(wait.why).into()),
        column("by_ns", Unit::Nanoseconds, |_, wait: &CpuWait| wait.by_ns.into()),
        column("by_tid", Unit::Id, |system, wait: &CpuWait| {
            wait.by.map(|id| system.thread(id).tid).into()
        }),
        column("by_pid", Unit::Id, |system, wait: &CpuWait| {
            wait.by.and_then(|id| pid(system, id)).into()
        }),
        column("by_comm", Unit::Text, |system, wait: &CpuWait| {
            wait.by.and_then(|id| name(system, id)).into()
        }),
        column("by_thread", Unit::Id, |_, wait: &CpuWait| {
            wait.by.map(|id| id.index() as i64).into()
        }),
    ];
    [&times()[..], &own, &who()].concat()
}

impl Lasts for CpuWait {
    fn begin_ns(&self) -> Option<i64> {
        Some(self.begin_ns)
    }

    fn end_ns(&self) -> Option<i64> {
        Some(self.end_ns)
    }
}

impl OfThread for CpuWait {
    fn thread(&self) -> Option<ThreadId> {
        Some(self.thread)
    }
}

struct CpuWaits(Emitter<CpuWait>);

impl Listen for CpuWaits {
    fn slice(&mut self, system: &System, slice: &Slice) {
        let State::Runnable(why) = slice.state else { return };
        // A CPU that has something to do keeps nobody waiting.
        if system.thread(slice.thread).nature == Nature::Idle {
            return;
        }
        let mut behind = Durations::default();
        system.behind(slice.thread, (slice.begin_ns, slice.end_ns), |who, ns| {
            behind.add(who, ns)
        });
        for (by, by_ns) in behind.sorted() {
            let wait = CpuWait {
                thread: slice.thread,
                begin_ns: slice.begin_ns,
                end_ns: slice.end_ns,
                why,
                by,
                by_ns,
            };
            self.0.row(system, &wait);
        }
    }
}

impl Rows for CpuWaits {
    fn finish(&mut self, _: &System) {}
}
