// SPDX-License-Identifier: MIT OR Apache-2.0
//! A row for each time that a thread had a CPU, whatever it did with it. How it ended is known when what came then is over.

use super::column::{Column, Emitter, Lasts, OfThread, column, times, who};
use super::{Rows, Table, headings};
use crate::analyses::SWITCHES;
use crate::analyses::totals::PerThread;
use crate::model::{Listen, Mode, Slice, State, System, ThreadId, Wait, Why};
use crate::report::Unit;

pub(super) static SCHED_SLICES: Table = Table {
    name: "sched_slices",
    needs: &[SWITCHES],
    columns: || headings(&columns()),
    begin: |chosen, sink| {
        Box::new(SchedSlices {
            emitter: Emitter::new(&columns(), chosen, sink),
            open: PerThread::default(),
        })
    },
};

/// A thread had a CPU.
struct OnCpu {
    thread: ThreadId,
    cpu: u32,
    begin_ns: i64,
    end_ns: i64,
    interrupted_ns: i64,
    /// At its end.
    priority: Option<i32>,
    end_state: Option<&'static str>,
}

fn columns() -> Vec<Column<OnCpu>> {
    let own = [
        column("cpu", Unit::Id, |_, one: &OnCpu| one.cpu.into()),
        column("interrupted_ns", Unit::Nanoseconds, |_, one: &OnCpu| {
            one.interrupted_ns.into()
        }),
        column("priority", Unit::Id, |_, one: &OnCpu| one.priority.into()),
        column("end_state", Unit::Text, |_, one: &OnCpu| one.end_state.into()),
    ];
    [&times()[..], &own, &who()].concat()
}

impl Lasts for OnCpu {
    fn begin_ns(&self) -> Option<i64> {
        Some(self.begin_ns)
    }

    fn end_ns(&self) -> Option<i64> {
        Some(self.end_ns)
    }
}

impl OfThread for OnCpu {
    fn thread(&self) -> Option<ThreadId> {
        Some(self.thread)
    }
}

struct SchedSlices {
    emitter: Emitter<OnCpu>,
    /// What each thread had last, until it is known how it ended.
    open: PerThread<Option<OnCpu>>,
}

impl Listen for SchedSlices {
    fn slice(&mut self, system: &System, slice: &Slice) {
        let open = self.open.of(slice.thread);
        let State::Running { cpu, mode } = slice.state else {
            if let Some(mut ended) = open.take() {
                ended.end_state = end_state(slice.state);
                self.emitter.row(system, &ended);
            }
            return;
        };
        if let Some(ended) = open.take_if(|open| open.cpu != cpu) {
            self.emitter.row(system, &ended);
        }
        let open = open.get_or_insert(OnCpu {
            thread: slice.thread,
            cpu,
            begin_ns: slice.begin_ns,
            end_ns: slice.end_ns,
            interrupted_ns: 0,
            priority: None,
            end_state: None,
        });
        open.end_ns = slice.end_ns;
        open.priority = system.thread(slice.thread).priority();
        if let Mode::Interrupt(_) = mode {
            open.interrupted_ns += slice.duration_ns();
        }
    }
}

impl Rows for SchedSlices {
    fn finish(&mut self, system: &System) {
        for (id, _) in system.threads() {
            if let Some(open) = self.open.of(id).take() {
                self.emitter.row(system, &open);
            }
        }
    }
}

/// What a thread does next that had a CPU.
fn end_state(next: State) -> Option<&'static str> {
    match next {
        State::Runnable(Why::Yielded) => Some("yielded"),
        State::Runnable(Why::Preempted) => Some("preempted"),
        State::Blocked(Wait { is_sure: true, .. }) => Some("uninterruptible"),
        State::Blocked(_) => Some("blocked"),
        State::Stopped => Some("stopped"),
        State::Dead => Some("dead"),
        State::Runnable(_) | State::Running { .. } | State::Unborn | State::Unknown => None,
    }
}
