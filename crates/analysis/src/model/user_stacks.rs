// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where threads were in their programs when they began to wait: the stack of the latest switch away from each, else of its latest system call.
//! Kept only where the trace has such stacks and somebody asks for them.

use super::System;
use super::state::ThreadId;
use crate::facts::Fact;

/// More frames are not kept. The C library has three or four of them where it waits.
const FRAMES_MAX: usize = 8;

/// The innermost frames of a program's stack, the innermost first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct UserStack {
    frames: [u64; FRAMES_MAX],
    count: usize,
}

impl UserStack {
    fn of(frames: &[u64]) -> UserStack {
        let count = frames.len().min(FRAMES_MAX);
        let mut kept = [0; FRAMES_MAX];
        kept[..count].copy_from_slice(&frames[..count]);
        UserStack { frames: kept, count }
    }

    pub(crate) fn frames(&self) -> &[u64] {
        &self.frames[..self.count]
    }
}

/// An event with which a wait may begin.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WaitBegin {
    /// This thread left its CPU.
    Switch { tid: i32 },
    /// The thread that has this CPU called the kernel.
    Call { cpu: Option<u32> },
}

impl WaitBegin {
    pub(crate) fn of(fact: &Fact<'_>, cpu: Option<u32>) -> Option<WaitBegin> {
        match fact {
            Fact::Switch(switch) => Some(WaitBegin::Switch {
                tid: switch.previous_tid,
            }),
            Fact::CallEntry { .. } => Some(WaitBegin::Call { cpu }),
            _ => None,
        }
    }
}

impl System {
    /// The event that was applied last may have begun a wait, and has this stack; empty where it has none.
    pub(crate) fn may_wait(&mut self, begin: WaitBegin, frames: &[u64]) {
        let thread = match begin {
            // That of the call is as good where this one could not be read.
            WaitBegin::Switch { .. } if frames.is_empty() => None,
            WaitBegin::Switch { tid } => self.find(tid),
            WaitBegin::Call { cpu } => cpu.and_then(|cpu| self.current_on(cpu)),
        };
        let Some(place) = thread.map(ThreadId::index) else {
            return;
        };
        if self.user_stacks.len() <= place && !frames.is_empty() {
            self.user_stacks.resize(place + 1, UserStack::default());
        }
        if let Some(known) = self.user_stacks.get_mut(place) {
            *known = UserStack::of(frames);
        }
    }

    /// Where a thread that waits was in its program; empty where the trace does not tell.
    pub(crate) fn user_stack(&self, thread: ThreadId) -> UserStack {
        self.user_stacks.get(thread.index()).copied().unwrap_or_default()
    }
}
