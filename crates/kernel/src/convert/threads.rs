// SPDX-License-Identifier: MIT OR Apache-2.0
//! What records do not say of threads, and somebody has to know.

use std::sync::{Arc, Mutex, PoisonError};

use super::Fact;
use super::facts::Facts;
use crate::proc;
use crate::programs::Programs;
use crate::spec::Context;

/// Tells of threads what their records do not.
pub trait Threads {
    /// The process that a thread belongs to; `None` when that cannot be known any more.
    fn process_of(&mut self, tid: i32) -> Option<i32>;

    /// Reads every new thread and exec until now; called after a page was taken out of its ring. Returns true if a thread has run a 32-bit
    /// program, which has its own system call numbers.
    fn catch_up(&mut self) -> bool;

    /// Whether a thread ran a 32-bit program at this time.
    fn is_compat(&mut self, tid: i32, ticks: u64) -> bool;

    /// What a thread's context is that is [derived](Context::is_derived); `None` when that cannot be known.
    fn fact(&mut self, tid: i32, context: Context) -> Option<Fact>;
}

/// Threads of which nothing is known but what their records say: those of another machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct RecordedThreads;

impl Threads for RecordedThreads {
    fn process_of(&mut self, _: i32) -> Option<i32> {
        None
    }

    fn catch_up(&mut self) -> bool {
        false
    }

    fn is_compat(&mut self, _: i32, _: u64) -> bool {
        false
    }

    fn fact(&mut self, _: i32, _: Context) -> Option<Fact> {
        None
    }
}

/// The threads of this machine: from `/proc`, which lists those that are alive, and [`Programs`]. Without `programs`, all programs are taken for
/// 64-bit ones.
#[derive(Debug, Clone, Default)]
pub struct LivingThreads {
    /// Shared by all channels of a session.
    programs: Option<Arc<Mutex<Programs>>>,
    facts: Facts,
}

impl LivingThreads {
    /// Those of this machine.
    pub fn new(programs: Option<Arc<Mutex<Programs>>>) -> LivingThreads {
        LivingThreads {
            programs,
            facts: Facts::default(),
        }
    }

    fn told_process_of(&self, tid: i32) -> Option<i32> {
        let programs = self.programs.as_ref()?;
        let programs = programs.lock().unwrap_or_else(PoisonError::into_inner);
        programs.process_of(tid)
    }
}

impl Threads for LivingThreads {
    fn process_of(&mut self, tid: i32) -> Option<i32> {
        self.told_process_of(tid).or_else(|| proc::process_of(tid))
    }

    fn catch_up(&mut self) -> bool {
        self.facts.look_at_clock();
        let programs = self.programs.as_ref();
        programs.is_some_and(|programs| programs.lock().unwrap_or_else(PoisonError::into_inner).catch_up())
    }

    fn is_compat(&mut self, tid: i32, ticks: u64) -> bool {
        let programs = self.programs.as_ref();
        programs.is_some_and(|programs| {
            let mut programs = programs.lock().unwrap_or_else(PoisonError::into_inner);
            programs.is_compat(tid, ticks)
        })
    }

    fn fact(&mut self, tid: i32, context: Context) -> Option<Fact> {
        // Of a process, more is known than `/proc` says.
        let told = (context == Context::Pid).then(|| self.told_process_of(tid)).flatten();
        told.map(|pid| Fact::Number(pid.into()))
            .or_else(|| self.facts.get(tid, context))
    }
}
