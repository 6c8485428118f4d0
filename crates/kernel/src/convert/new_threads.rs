// SPDX-License-Identifier: MIT OR Apache-2.0
//! The processes of new threads. The kernel says who made a thread, and with which flags (`task_newtask`), and a thread that executes a
//! program is the first of its process (execve(2)); `/proc` is too late for one that is gone when its record is read.

use std::collections::HashMap;

/// Tells the process of a thread that is alive.
pub(crate) type Ask<'a> = &'a mut dyn FnMut(i32) -> Option<i32>;

/// The processes of threads, from the records read so far.
#[derive(Debug, Default)]
pub(crate) struct NewThreads {
    /// Of threads that may be alive.
    processes: HashMap<i32, i32>,
    /// Of threads that have ended. Another CPU's records that are read later can be from before the end.
    gone: HashMap<i32, i32>,
}

/// Its thread belongs to the process of the thread that made it (clone(2)).
const CLONE_THREAD: i32 = 0x1_0000;

/// Where no ends of threads are recorded, all is forgotten at this number: then `/proc` is asked again.
const COUNT_MAX: usize = 1 << 16;

impl NewThreads {
    /// `tid` is a thread of `process`.
    pub(crate) fn lives(&mut self, tid: i32, process: i32) {
        note(&mut self.processes, tid, process);
    }

    /// `parent` made `tid`.
    pub(crate) fn made(&mut self, parent: i32, tid: i32, clone_flags: i32, ask: Ask) {
        let process = match clone_flags & CLONE_THREAD {
            0 => Some(tid),
            _ => self.process_of(parent, ask),
        };
        self.processes.remove(&tid);
        self.gone.remove(&tid);
        if let Some(process) = process {
            note(&mut self.processes, tid, process);
            // `/proc` may no longer know the parent when its next new thread is read.
            if clone_flags & CLONE_THREAD != 0 {
                note(&mut self.processes, parent, process);
            }
        }
    }

    /// `tid` executes a program.
    pub(crate) fn executed(&mut self, tid: i32) {
        note(&mut self.processes, tid, tid);
    }

    /// `tid` has ended.
    pub(super) fn ended(&mut self, tid: i32) {
        if let Some(process) = self.processes.remove(&tid) {
            note(&mut self.gone, tid, process);
        }
    }

    /// The process that a thread belongs to as the records say; `None` when they do not.
    pub(crate) fn known(&self, tid: i32) -> Option<i32> {
        self.processes.get(&tid).copied()
    }

    /// The process that a thread belongs to; `None` when nobody knows any more.
    pub(crate) fn process_of(&self, tid: i32, ask: Ask) -> Option<i32> {
        let gone = || self.gone.get(&tid).copied();
        self.known(tid).or_else(|| ask(tid)).or_else(gone)
    }
}

fn note(processes: &mut HashMap<i32, i32>, tid: i32, process: i32) {
    if processes.len() >= COUNT_MAX {
        processes.clear();
    }
    processes.insert(tid, process);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Knows of one thread, 10 of process 9.
    fn one(tid: i32) -> Option<i32> {
        (tid == 10).then_some(9)
    }

    fn nobody(_: i32) -> Option<i32> {
        None
    }

    #[test]
    fn a_thread_belongs_to_the_process_of_its_maker_unless_it_is_one() {
        let mut threads = NewThreads::default();
        threads.made(10, 11, CLONE_THREAD | 0x100, &mut one);
        threads.made(11, 12, CLONE_THREAD, &mut one);
        threads.made(12, 13, 0x100, &mut one);
        threads.made(13, 14, CLONE_THREAD, &mut one);
        let mut process_of = |tid| threads.process_of(tid, &mut one);
        assert_eq!([11, 12, 13, 14].map(&mut process_of), [9, 9, 13, 13].map(Some));
        // The others of process 9 end with that.
        threads.executed(9);
        threads.made(9, 15, CLONE_THREAD, &mut one);
        assert_eq!(threads.process_of(15, &mut one), Some(9));
    }

    #[test]
    fn what_nobody_knows_is_not_made_up() {
        let mut threads = NewThreads::default();
        threads.made(1, 2, 0, &mut one);
        // The number again, of a thread whose maker is gone.
        threads.made(7, 2, CLONE_THREAD, &mut one);
        assert_eq!(threads.process_of(2, &mut one), None);
    }

    #[test]
    fn the_process_of_a_thread_that_ended_stays_known_until_its_id_is_reused() {
        let mut threads = NewThreads::default();
        threads.made(10, 11, CLONE_THREAD, &mut one);
        // From here on, /proc knows nothing.
        threads.ended(11);
        threads.ended(10);
        assert_eq!(threads.process_of(11, &mut nobody), Some(9));
        threads.made(10, 12, CLONE_THREAD, &mut nobody);
        assert_eq!(threads.process_of(12, &mut nobody), Some(9));
        threads.made(1, 10, 0, &mut nobody);
        assert_eq!(threads.process_of(10, &mut nobody), Some(10));
        // The id belongs to a new thread, whose start was not recorded.
        threads.ended(10);
        assert_eq!(threads.process_of(10, &mut one), Some(9));
    }

    #[test]
    fn without_ends_no_more_is_kept_than_the_limit() {
        let mut threads = NewThreads::default();
        for tid in 0..3 * COUNT_MAX as i32 {
            threads.made(1, tid, 0, &mut one);
            assert_eq!(threads.process_of(tid, &mut one), Some(tid));
        }
        assert!(threads.processes.len() <= COUNT_MAX);
    }
}
