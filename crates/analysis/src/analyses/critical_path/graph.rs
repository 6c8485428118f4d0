// SPDX-License-Identifier: MIT OR Apache-2.0
//! What every thread did and who ended its waits, kept until the end in 16 bytes each. Walked by walk.rs.
//!
//! What a thread computes is one step, whatever system calls are in it: of a trace, switches, wake-ups and interrupts cost memory, and
//! nothing else.

use rustc_hash::FxHashMap;

use super::super::totals::PerThread;
use crate::cause::{Cause, Causes};
use crate::durations::Durations;
use crate::facts::Interrupt;
use crate::model::{Completed, Mode, Nature, Slice, State, System, ThreadId, Why};
use crate::names::Name;

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Deed {
    Unknown,
    /// It is not there yet, or no more.
    Absent,
    Running,
    /// It has a CPU, which does an interrupt's work.
    Interrupted(Interrupt),
    /// It was woken or has begun, and waits for a CPU.
    Runnable,
    /// It had a CPU, and waits to get it back.
    Preempted,
    Blocked(Waiting),
    Stopped(Waiting),
}

/// What is known of a wait beside the thread that ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Waiting {
    pub(super) cause: Cause,
    pub(super) call: Option<Name>,
    /// What ended it; absent: a thread, or nobody knows.
    pub(super) interrupt: Option<Interrupt>,
    /// Which requests that interrupt completed.
    pub(super) completed: Option<Completed>,
}

/// A part of a thread's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) deed: Deed,
    pub(super) begin_ns: i64,
    pub(super) end_ns: i64,
    /// Of a wait: the thread that ended it; of one for a CPU: the thread that had the CPU longest meanwhile.
    pub(super) by: Option<ThreadId>,
}

/// All of it.
#[derive(Default)]
pub(super) struct Graph {
    causes: Causes,
    threads: PerThread<Vec<Kept>>,
    parents: PerThread<Option<ThreadId>>,
    deeds: Vec<Deed>,
    numbers: FxHashMap<Deed, u32>,
    until_ns: i64,
}

/// A step; it ends where the thread's next one begins.
#[derive(Clone, Copy)]
struct Kept {
    begin_ns: i64,
    /// Its place in [`Graph::deeds`].
    deed: u32,
    /// The place of [`Step::by`] among the threads; [`NOBODY`] when there is none.
    by: u32,
}

const NOBODY: u32 = u32::MAX;
const _: () = assert!(size_of::<Kept>() == 16);

impl Graph {
    /// A thread did one thing for a time. Those of a thread come in their order, without a hole.
    #[inline]
    pub(super) fn add(&mut self, system: &System, slice: &Slice) {
        self.until_ns = self.until_ns.max(slice.end_ns);
        if system.thread(slice.thread).nature == Nature::Idle {
            return;
        }
        let deed = self.deed(system, slice);
        let number = self.number(deed);
        // A wake-up that came before the thread had left its CPU says nothing of the time after.
        let waker = slice.wake.filter(|wake| wake.ns > slice.begin_ns);
        let by = match slice.state {
            State::Runnable(_) => occupant(system, slice),
            _ => waker.and_then(|wake| wake.by_thread()),
        };
        let by = by.filter(|id| system.thread(*id).nature != Nature::Idle);
        let steps = self.threads.of(slice.thread);
        let goes_on = steps.last().is_some_and(|last| match deed {
            Deed::Blocked(_) | Deed::Stopped(_) => false,
            // Those that come on top of one count as it.
            Deed::Interrupted(_) => matches!(self.deeds[last.deed as usize], Deed::Interrupted(_)),
            _ => last.deed == number,
        });
        if goes_on {
            return;
        }
        steps.push(Kept {
            begin_ns: slice.begin_ns,
            deed: number,
            by: by.map_or(NOBODY, |id| id.index() as u32),
        });
    }

    /// A thread began.
    pub(super) fn add_birth(&mut self, thread: ThreadId, parent: Option<ThreadId>) {
        *self.parents.of(thread) = parent;
    }

    /// Who began a thread, if that is known.
    pub(super) fn parent(&self, thread: ThreadId) -> Option<ThreadId> {
        self.parents.get(thread).copied().flatten()
    }

    /// All steps of a thread, in their order.
    pub(super) fn steps(&self, thread: ThreadId) -> impl Iterator<Item = Step> {
        let kept = self.threads.get(thread).map_or(&[][..], Vec::as_slice);
        (0..kept.len()).map(|place| self.step(kept, place))
    }

    /// What a thread did just before a time.
    pub(super) fn before(&self, thread: ThreadId, ns: i64) -> Option<Step> {
        let kept = self.threads.get(thread)?;
        let place = kept.partition_point(|step| step.begin_ns < ns).checked_sub(1)?;
        Some(self.step(kept, place))
    }

    fn step(&self, kept: &[Kept], place: usize) -> Step {
        let step = kept[place];
        Step {
            deed: self.deeds[step.deed as usize],
            begin_ns: step.begin_ns,
            end_ns: kept.get(place + 1).map_or(self.until_ns, |next| next.begin_ns),
            by: (step.by != NOBODY).then(|| ThreadId::at(step.by as usize)),
        }
    }

    fn deed(&mut self, system: &System, slice: &Slice) -> Deed {
        let interrupt = slice.wake.and_then(|wake| wake.interrupt);
        let completed = slice.wake.and_then(|wake| wake.completed);
        match slice.state {
            State::Unknown => Deed::Unknown,
            State::Unborn | State::Dead => Deed::Absent,
            State::Running {
                mode: Mode::Interrupt(interrupt),
                ..
            } => Deed::Interrupted(interrupt),
            State::Running { .. } => Deed::Running,
            State::Runnable(Why::Preempted | Why::Yielded) => Deed::Preempted,
            State::Runnable(Why::New | Why::Woken | Why::Unknown) => Deed::Runnable,
            State::Blocked(wait) => Deed::Blocked(Waiting {
                cause: self.causes.of(system, wait, slice.wake),
                call: wait.call,
                interrupt,
                completed,
            }),
            State::Stopped => Deed::Stopped(Waiting {
                cause: Cause::Unknown,
                call: None,
                interrupt,
                completed,
            }),
        }
    }

    #[inline]
    fn number(&mut self, deed: Deed) -> u32 {
        *self.numbers.entry(deed).or_insert_with(|| {
            self.deeds.push(deed);
            self.deeds.len() as u32 - 1
        })
    }
}

/// Who had the CPU longest while a thread waited for it.
fn occupant(system: &System, slice: &Slice) -> Option<ThreadId> {
    let mut behind = Durations::default();
    system.behind(slice.thread, (slice.begin_ns, slice.end_ns), |who, ns| {
        behind.add(who, ns)
    });
    behind.first()
}
