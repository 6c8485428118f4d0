// SPDX-License-Identifier: MIT OR Apache-2.0
//! The processes of new threads. The kernel says who made a thread, and with which flags (`task_newtask`), and a thread that executes a
//! program is the first of its process (execve(2)); `/proc` is too late for one that is gone when its record is read.

use std::collections::HashMap;

use super::Threads;

/// The event that tells of a new thread. It follows [`NEW_TASK`] and does not say to which process the thread belongs.
pub(crate) const FORK: (&str, &str) = ("sched", "sched_process_fork");

/// The event that says this. Whoever records [`FORK`] records it, too; unless a rule means it, it is not in the trace.
pub(crate) const NEW_TASK: (&str, &str) = ("task", "task_newtask");

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
    /// With threads that are alive, each with its process.
    pub(super) fn after(living: Vec<(i32, i32)>) -> NewThreads {
        let mut threads = NewThreads::default();
        for (tid, process) in living {
            note(&mut threads.processes, tid, process);
        }
        threads
    }

    /// `parent` made `tid`.
    pub(super) fn made(&mut self, parent: i32, tid: i32, clone_flags: i32, threads: &mut dyn Threads) {
        let process = match clone_flags & CLONE_THREAD {
            0 => Some(tid),
            _ => self.process_of(parent, threads),
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
    pub(super) fn executed(&mut self, tid: i32) {
        note(&mut self.processes, tid, tid);
    }

    /// `tid` has ended.
    pub(super) fn ended(&mut self, tid: i32) {
        if let Some(process) = self.processes.remove(&tid) {
            note(&mut self.gone, tid, process);
        }
    }

    /// The process that a thread belongs to; `None` when nobody knows any more.
    pub(crate) fn process_of(&self, tid: i32, threads: &mut dyn Threads) -> Option<i32> {
        let known = self.processes.get(&tid).copied();
        known
            .or_else(|| threads.process_of(tid))
            .or_else(|| self.gone.get(&tid).copied())
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
    struct One;

    impl Threads for One {
        fn process_of(&mut self, tid: i32) -> Option<i32> {
            (tid == 10).then_some(9)
        }

        fn catch_up(&mut self) -> bool {
            false
        }

        fn is_compat(&mut self, _: i32, _: u64) -> bool {
            false
        }
    }

    /// Knows no thread.
    struct Nobody;

    impl Threads for Nobody {
        fn process_of(&mut self, _: i32) -> Option<i32> {
            None
        }

        fn catch_up(&mut self) -> bool {
            false
        }

        fn is_compat(&mut self, _: i32, _: u64) -> bool {
            false
        }
    }

    #[test]
    fn a_thread_belongs_to_the_process_of_its_maker_unless_it_is_one() {
        let mut threads = NewThreads::default();
        threads.made(10, 11, CLONE_THREAD | 0x100, &mut One);
        threads.made(11, 12, CLONE_THREAD, &mut One);
        threads.made(12, 13, 0x100, &mut One);
        threads.made(13, 14, CLONE_THREAD, &mut One);
        let mut process_of = |tid| threads.process_of(tid, &mut One);
        assert_eq!([11, 12, 13, 14].map(&mut process_of), [9, 9, 13, 13].map(Some));
        // The others of process 9 end with that.
        threads.executed(9);
        threads.made(9, 15, CLONE_THREAD, &mut One);
        assert_eq!(threads.process_of(15, &mut One), Some(9));
    }

    #[test]
    fn what_nobody_knows_is_not_made_up() {
        let mut threads = NewThreads::default();
        threads.made(1, 2, 0, &mut One);
        // The number again, of a thread whose maker is gone.
        threads.made(7, 2, CLONE_THREAD, &mut One);
        assert_eq!(threads.process_of(2, &mut One), None);
    }

    #[test]
    fn the_process_of_a_thread_that_ended_stays_known_until_its_id_is_reused() {
        let mut threads = NewThreads::default();
        threads.made(10, 11, CLONE_THREAD, &mut One);
        // From here on, /proc knows nothing.
        let mut nobody = Nobody;
        threads.ended(11);
        threads.ended(10);
        assert_eq!(threads.process_of(11, &mut nobody), Some(9));
        threads.made(10, 12, CLONE_THREAD, &mut nobody);
        assert_eq!(threads.process_of(12, &mut nobody), Some(9));
        threads.made(1, 10, 0, &mut nobody);
        assert_eq!(threads.process_of(10, &mut nobody), Some(10));
        // The id belongs to a new thread, whose start was not recorded.
        threads.ended(10);
        assert_eq!(threads.process_of(10, &mut One), Some(9));
    }

    #[test]
    fn without_ends_no_more_is_kept_than_the_limit() {
        let mut threads = NewThreads::default();
        for tid in 0..3 * COUNT_MAX as i32 {
            threads.made(1, tid, 0, &mut One);
            assert_eq!(threads.process_of(tid, &mut One), Some(tid));
        }
        assert!(threads.processes.len() <= COUNT_MAX);
    }
}
