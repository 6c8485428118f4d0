// SPDX-License-Identifier: MIT OR Apache-2.0
//! A row for each thing that a thread did for a time: those of a thread fill the time of the trace without a hole.

use super::column::{Cell, Column, Emitter, Lasts, OfThread, column, name, times, who};
use super::{Rows, Table, headings};
use crate::analyses::irq::interrupt_name;
use crate::analyses::{CALLS, INTERRUPTS, SWITCHES, WAKEUPS};
use crate::cause::{Cause, Causes};
use crate::model::{Listen, Mode, Nature, Slice, State, System, ThreadId, Why};
use crate::names::Name;
use crate::report::Unit;

pub(super) static THREAD_STATES: Table = Table {
    name: "thread_states",
    needs: &[SWITCHES, WAKEUPS, CALLS, INTERRUPTS],
    columns: || headings(&columns()),
    begin: |chosen, sink| {
        Box::new(ThreadStates {
            emitter: Emitter::new(&columns(), chosen, sink),
            causes: Causes::default(),
        })
    },
};

struct Did {
    slice: Slice,
    /// Of a wait.
    cause: Option<Cause>,
}

impl Did {
    fn mode(&self) -> Option<Mode> {
        match self.slice.state {
            State::Running { mode, .. } => Some(mode),
            _ => None,
        }
    }

    fn call(&self) -> Option<Name> {
        match (self.mode(), self.slice.state) {
            (Some(Mode::Call(call)), _) => Some(call),
            (_, State::Blocked(wait)) => wait.call,
            _ => None,
        }
    }

    /// The thread that ended a wait. What an interrupt did, the thread below it did not, unless it asked for it; and a CPU that has nothing to
    /// do wakes nobody.
    fn waker(&self, system: &System) -> Option<ThreadId> {
        let waker = self.slice.wake?.by_thread();
        waker.filter(|id| system.thread(*id).nature != Nature::Idle)
    }
}

fn columns() -> Vec<Column<Did>> {
    let own = [
        column("state", Unit::Text, |_, did: &Did| match did.slice.state {
            State::Unknown => Cell::None,
            State::Unborn | State::Dead => "absent".into(),
            State::Running { .. } => "running".into(),
            State::Runnable(_) => "runnable".into(),
            State::Blocked(_) => "blocked".into(),
            State::Stopped => "stopped".into(),
        }),
        column("mode", Unit::Text, |_, did: &Did| match did.mode() {
            None | Some(Mode::Unknown) => Cell::None,
            Some(Mode::User) => "user".into(),
            Some(Mode::Call(_) | Mode::Kernel) => "kernel".into(),
            Some(Mode::Idle) => "idle".into(),
            Some(Mode::Interrupt(_)) => "interrupted".into(),
        }),
        column("cpu", Unit::Id, |_, did: &Did| did.slice.state.cpu().into()),
        column("syscall", Unit::Text, |system, did: &Did| {
            did.call().map(|call| system.names.text(call)).into()
        }),
        column("interrupt", Unit::Text, |system, did: &Did| match did.mode() {
            Some(Mode::Interrupt(interrupt)) => interrupt_name(system, interrupt).into(),
            _ => Cell::None,
        }),
        column("why", Unit::Text, |_, did: &Did| match did.slice.state {
            State::Runnable(reason) => why(reason).into(),
            State::Blocked(wait) if wait.is_sure => "uninterruptible".into(),
            _ => Cell::None,
        }),
        column("cause", Unit::Text, |_, did: &Did| {
            let known = did.cause.filter(|cause| *cause != Cause::Unknown);
            known.map(Cause::text).into()
        }),
        column("waker_tid", Unit::Id, |system, did: &Did| {
            did.waker(system).map(|id| system.thread(id).tid).into()
        }),
        column("waker_comm", Unit::Text, |system, did: &Did| {
            did.waker(system).and_then(|id| name(system, id)).into()
        }),
        column("waker_thread", Unit::Id, |system, did: &Did| {
            did.waker(system).map(|id| id.index() as i64).into()
        }),
        column("waker_interrupt", Unit::Text, |system, did: &Did| {
            let interrupt = did.slice.wake.and_then(|wake| wake.interrupt);
            interrupt.map(|interrupt| interrupt_name(system, interrupt)).into()
        }),
    ];
    [&times()[..], &own, &who()].concat()
}

/// Why a thread waits for a CPU.
pub(super) fn why(why: Why) -> Option<&'static str> {
    Some(match why {
        Why::New => "new",
        Why::Woken => "woken",
        Why::Preempted => "preempted",
        Why::Yielded => "yielded",
        Why::Unknown => return None,
    })
}

impl Lasts for Did {
    fn begin_ns(&self) -> Option<i64> {
        Some(self.slice.begin_ns)
    }

    fn end_ns(&self) -> Option<i64> {
        Some(self.slice.end_ns)
    }
}

impl OfThread for Did {
    fn thread(&self) -> Option<ThreadId> {
        Some(self.slice.thread)
    }
}

struct ThreadStates {
    emitter: Emitter<Did>,
    causes: Causes,
}

impl Listen for ThreadStates {
    fn slice(&mut self, system: &System, slice: &Slice) {
        // A CPU that has something to do keeps nobody waiting.
        let is_idle = system.thread(slice.thread).nature == Nature::Idle;
        if is_idle && matches!(slice.state, State::Runnable(_)) {
            return;
        }
        let cause = match slice.state {
            State::Blocked(wait) => Some(self.causes.of(system, wait, slice.wake)),
            _ => None,
        };
        self.emitter.row(system, &Did { slice: *slice, cause });
    }
}

impl Rows for ThreadStates {
    fn finish(&mut self, _: &System) {}
}
