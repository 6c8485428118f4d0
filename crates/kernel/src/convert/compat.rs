// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which threads call the kernel by the numbers of 32-bit programs.
//!
//! A record of a call has its number and nothing that tells which table it is of. What a thread runs changes only when it executes a
//! program, and a new thread runs what its parent does. So a thread is asked about when its first call is read, and no more:
//! - a child's answer is its parent's;
//! - the kernel gives the exit of an execve the number that it has in the table of the new program;
//! - `sched_process_exec` has the path of the program, also when the thread is gone by now.
//!
//! What this cannot tell:
//! - a 64-bit program that calls by 32-bit numbers (`int 0x80`): its calls get the names of the 64-bit table;
//! - a thread that is gone when its first call is read, in a channel with neither its execve nor `sched_process_exec`: it is taken for a
//!   64-bit one;
//! - an execve in such a channel: the thread is taken for what it was;
//! - two CPUs whose pages are read in another order than they were recorded: calls around an execve can get the table of its other side.

use std::collections::HashSet;
use std::path::Path;

use super::Threads;
use super::syscall::Side;
use crate::syscalls::Table;

/// What is known of threads.
#[derive(Debug, Default)]
pub(super) struct CompatThreads {
    /// Bit i: something is known of thread i.
    known: Vec<u64>,
    /// Those that use the table of 32-bit programs.
    compat: HashSet<i32>,
    /// Those that are in an execve.
    executing: HashSet<i32>,
    /// One that does not, and was asked for last: most calls of a page are of few threads. Zero, which makes no calls, is none.
    last_native: i32,
}

/// What a side of a call does to threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Its thread begins to execute another program.
    Executes,
    /// It made a thread, whose id it returns.
    Makes,
}

impl Effect {
    /// Of a side of the call with this name.
    pub(super) fn of(call: &str, side: Side) -> Option<Effect> {
        match (call, side) {
            ("execve" | "execveat", Side::Entry) => Some(Effect::Executes),
            ("fork" | "vfork" | "clone" | "clone3", Side::Exit) => Some(Effect::Makes),
            _ => None,
        }
    }
}

/// The kernel's limit of thread ids.
const TID_LIMIT: i32 = 1 << 22;

impl CompatThreads {
    /// The table that a thread's call with this number is of.
    #[inline(always)]
    pub(super) fn table_of(&mut self, tid: i32, number: u64, side: Side, threads: &mut dyn Threads) -> Table {
        if tid == self.last_native {
            return Table::Native;
        }
        self.look_up(tid, number, side, threads)
    }

    #[inline(never)]
    fn look_up(&mut self, tid: i32, number: u64, side: Side, threads: &mut dyn Threads) -> Table {
        if !self.executing.is_empty() && self.executing.remove(&tid) && side == Side::Exit {
            // Of execve and execveat; in the other table, these are calls that the thread is not in.
            self.note(tid, matches!(number, 11 | 358));
        }
        if !self.is_known(tid) {
            self.ask(tid, threads);
        }
        if !self.compat.is_empty() && self.compat.contains(&tid) {
            return Table::Compat;
        }
        self.last_native = tid;
        Table::Native
    }

    /// What a thread runs is not known any more.
    pub(super) fn forget(&mut self, tid: i32) {
        if let Some(word) = self.known.get_mut(tid as usize / 64) {
            *word &= !(1 << (tid % 64));
        }
        self.compat.remove(&tid);
        self.last_native = 0;
    }

    /// A thread executed the program in a file. Of a thread that is gone the file tells, as this process sees it.
    pub(super) fn executed(&mut self, tid: i32, path: &Path, threads: &mut dyn Threads) {
        if self.executing.contains(&tid) {
            return; // The exit of that call tells.
        }
        self.forget(tid);
        let told = threads.is_compat(tid);
        let told = told.or_else(|| path.is_absolute().then(|| threads.is_compat_file(path))?);
        if let Some(is_compat) = told {
            self.note(tid, is_compat);
        }
    }

    /// A thread made another one.
    pub(super) fn inherit(&mut self, parent: i32, child: i32) {
        if self.is_known(parent) {
            let is_compat = self.compat.contains(&parent);
            self.note(child, is_compat);
        }
    }

    /// A side of a call that has an effect on threads.
    #[cold]
    pub(super) fn note_effect(&mut self, tid: i32, effect: Effect, result: i64) {
        match effect {
            Effect::Executes => {
                self.executing.insert(tid);
                self.last_native = 0;
            }
            Effect::Makes if result > 0 => self.inherit(tid, result as i32),
            Effect::Makes => {}
        }
    }

    #[inline]
    fn is_known(&self, tid: i32) -> bool {
        let word = self.known.get(tid as usize / 64);
        word.is_some_and(|word| word & 1 << (tid % 64) != 0)
    }

    #[cold]
    fn ask(&mut self, tid: i32, threads: &mut dyn Threads) {
        let is_compat = threads.is_compat(tid).unwrap_or(false);
        self.note(tid, is_compat);
    }

    fn note(&mut self, tid: i32, is_compat: bool) {
        self.last_native = 0;
        if !(0..TID_LIMIT).contains(&tid) {
            return;
        }
        let word = tid as usize / 64;
        if self.known.len() <= word {
            self.known.resize(word + 1, 0);
        }
        self.known[word] |= 1 << (tid % 64);
        if is_compat {
            self.compat.insert(tid);
        } else {
            self.compat.remove(&tid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Threads that run 32-bit programs, and how often somebody asked.
    struct Told(Vec<i32>, usize);

    impl Threads for Told {
        fn process_of(&mut self, _: i32) -> Option<i32> {
            None
        }

        fn is_compat(&mut self, tid: i32) -> Option<bool> {
            self.1 += 1;
            Some(self.0.contains(&tid))
        }
    }

    #[test]
    fn a_thread_is_asked_about_once() {
        let mut told = Told(vec![100], 0);
        let mut threads = CompatThreads::default();
        for (tid, table) in [
            (100, Table::Compat),
            (101, Table::Native),
            (100, Table::Compat),
            (101, Table::Native),
        ] {
            assert_eq!(threads.table_of(tid, 1, Side::Entry, &mut told), table);
        }
        assert_eq!(told.1, 2);
    }

    #[test]
    fn the_exit_of_an_execve_tells_what_the_thread_runs() {
        let mut told = Told(vec![], 0);
        let mut threads = CompatThreads::default();
        let steps = [
            (59, Side::Entry, Table::Native), // It fails.
            (59, Side::Exit, Table::Native),
            (59, Side::Entry, Table::Native),
            (11, Side::Exit, Table::Compat),
            (20, Side::Entry, Table::Compat),
            (358, Side::Entry, Table::Compat),
            (59, Side::Exit, Table::Native),
            (11, Side::Exit, Table::Native), // An munmap.
        ];
        for (number, side, table) in steps {
            assert_eq!(
                threads.table_of(100, number, side, &mut told),
                table,
                "{number} {side:?}"
            );
            if side == Side::Entry && number != 20 {
                threads.note_effect(100, Effect::Executes, 0);
            }
        }
        assert_eq!(told.1, 1);
    }

    #[test]
    fn a_child_is_what_its_parent_is() {
        let mut told = Told(vec![100], 0);
        let mut threads = CompatThreads::default();
        let mut table_of = |threads: &mut CompatThreads, tid| threads.table_of(tid, 1, Side::Entry, &mut told);
        assert_eq!(table_of(&mut threads, 100), Table::Compat);
        threads.note_effect(100, Effect::Makes, 101);
        assert_eq!(table_of(&mut threads, 101), Table::Compat);
        threads.inherit(101, 102);
        assert_eq!(table_of(&mut threads, 102), Table::Compat);
        threads.forget(101);
        assert_eq!(table_of(&mut threads, 101), Table::Native);
        assert_eq!(told.1, 2);
    }

    #[test]
    fn strange_thread_ids_are_native() {
        let mut told = Told(vec![], 0);
        let mut threads = CompatThreads::default();
        for tid in [-1, i32::MIN, i32::MAX, TID_LIMIT] {
            assert_eq!(threads.table_of(tid, 1, Side::Entry, &mut told), Table::Native);
            threads.forget(tid);
        }
        assert!(threads.known.len() <= TID_LIMIT as usize / 64);
    }
}
