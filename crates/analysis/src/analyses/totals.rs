// SPDX-License-Identifier: MIT OR Apache-2.0
//! What every thread did, summed up.

use crate::cause::{Cause, Causes};
use crate::model::{Mode, Slice, State, System, ThreadId};

/// What a thread did, in nanoseconds. All of it together is the duration of the trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say all")]
pub(crate) struct Totals {
    pub(crate) user: i64,
    /// In system calls, or as a thread of the kernel.
    pub(crate) kernel: i64,
    /// It had the CPU; the trace does not tell for what.
    pub(crate) running: i64,
    /// Interrupts had its CPU.
    pub(crate) interrupted: i64,
    pub(crate) idle: i64,
    pub(crate) runnable: i64,
    /// By cause.
    pub(crate) blocked: [i64; Cause::ALL.len()],
    pub(crate) stopped: i64,
    pub(crate) unknown: i64,
    /// Before its begin and after its end.
    pub(crate) absent: i64,
    /// What the clock tick would have charged it for: it looks a hundred times a second.
    pub(crate) sampled: i64,
}

/// How often the clock tick looks who is running.
const TICK_NS: i64 = 10_000_000;

impl Totals {
    /// With a slice.
    #[inline]
    pub(crate) fn add(&mut self, system: &System, slice: &Slice, causes: &mut Causes) {
        let ns = slice.duration_ns();
        match slice.state {
            State::Unknown => self.unknown += ns,
            State::Unborn | State::Dead => self.absent += ns,
            State::Runnable(_) => self.runnable += ns,
            State::Stopped => self.stopped += ns,
            State::Blocked(wait) => self.blocked[causes.of(system, wait, slice.wake) as usize] += ns,
            State::Running { mode, .. } => {
                *match mode {
                    Mode::Unknown => &mut self.running,
                    Mode::User => &mut self.user,
                    Mode::Call(_) | Mode::Kernel => &mut self.kernel,
                    Mode::Idle => &mut self.idle,
                    Mode::Interrupt(_) => &mut self.interrupted,
                } += ns;
                let ticks = slice.end_ns.div_euclid(TICK_NS) - slice.begin_ns.div_euclid(TICK_NS);
                self.sampled += ticks * TICK_NS;
            }
        }
    }

    /// With those of another thread.
    pub(crate) fn merge(&mut self, other: &Totals) {
        self.user += other.user;
        self.kernel += other.kernel;
        self.running += other.running;
        self.interrupted += other.interrupted;
        self.idle += other.idle;
        self.runnable += other.runnable;
        for (own, other) in self.blocked.iter_mut().zip(other.blocked) {
            *own += other;
        }
        self.stopped += other.stopped;
        self.unknown += other.unknown;
        self.absent += other.absent;
        self.sampled += other.sampled;
    }

    /// It had a CPU.
    pub(crate) fn on_cpu(&self) -> i64 {
        self.user + self.kernel + self.running + self.interrupted
    }

    /// Everything.
    pub(crate) fn sum(&self) -> i64 {
        let waited: i64 = self.blocked.iter().sum();
        self.on_cpu() + self.idle + self.runnable + waited + self.stopped + self.unknown + self.absent
    }
}

/// Something of each thread.
#[derive(Clone, Debug)]
pub(crate) struct PerThread<T>(Vec<T>);

impl<T> Default for PerThread<T> {
    fn default() -> PerThread<T> {
        PerThread(Vec::new())
    }
}

impl<T: Default> PerThread<T> {
    /// That of a thread.
    #[inline]
    pub(crate) fn of(&mut self, id: ThreadId) -> &mut T {
        if self.0.len() <= id.index() {
            self.0.resize_with(id.index() + 1, T::default);
        }
        &mut self.0[id.index()]
    }
}

impl<T> PerThread<Option<T>> {
    /// That of a thread, which has none from now on.
    #[inline]
    pub(crate) fn take(&mut self, id: ThreadId) -> Option<T> {
        self.0.get_mut(id.index())?.take()
    }
}

impl<T> PerThread<T> {
    /// That of a thread; `None` when nothing was said of it.
    pub(crate) fn get(&self, id: ThreadId) -> Option<&T> {
        self.0.get(id.index())
    }
}
