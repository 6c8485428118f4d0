// SPDX-License-Identifier: MIT OR Apache-2.0
//! When threads ran 32-bit programs. Threads that never ran one are not stored.
//!
//! Programs come and go for as long as a session records. Beyond `CHANGES_MAX` changes, the older half is forgotten, except what living threads
//! run since then. Pages are usually converted long before that; `is_compat` notes when one was not.

use std::collections::HashMap;
use std::path::Path;

use super::file::runs_compat;
use crate::proc;

/// A change takes 16 bytes, and a thread with its first one some 100.
const CHANGES_MAX: usize = 1 << 17;

#[derive(Debug)]
pub(super) struct History {
    /// For each thread: from when on it ran a 32-bit program (true), and when it executed a 64-bit one (false), in time order.
    threads: HashMap<i32, Vec<(u64, bool)>>,
    /// Of all threads.
    change_count: usize,
    /// When there are as many, the older half is forgotten.
    changes_max: usize,
    /// What was before is not known.
    known_since_ticks: u64,
    /// Somebody asked for what is not known.
    was_asked_too_late: bool,
}

impl Default for History {
    fn default() -> History {
        History {
            threads: HashMap::new(),
            change_count: 0,
            changes_max: CHANGES_MAX,
            known_since_ticks: 0,
            was_asked_too_late: false,
        }
    }
}

impl History {
    pub(super) fn is_empty(&self) -> bool {
        self.threads.is_empty() && self.known_since_ticks == 0
    }

    /// Whether a thread ran a 32-bit program at this time.
    pub(super) fn is_compat(&mut self, tid: i32, ticks: u64) -> bool {
        self.was_asked_too_late |= ticks < self.known_since_ticks;
        let Some(known) = self.threads.get(&tid) else {
            return false;
        };
        let begun = known.partition_point(|(since_ticks, _)| *since_ticks <= ticks);
        begun.checked_sub(1).is_some_and(|place| known[place].1)
    }

    /// Whether `is_compat` was asked for a time that was forgotten, since the last call.
    pub(super) fn take_was_asked_too_late(&mut self) -> bool {
        std::mem::take(&mut self.was_asked_too_late)
    }

    /// From this time on, a thread runs a 32-bit program, or a 64-bit one. Call it in time order.
    pub(super) fn note(&mut self, tid: i32, ticks: u64, is_compat: bool) {
        let was_compat = self
            .threads
            .get(&tid)
            .and_then(|known| known.last())
            .is_some_and(|(_, last)| *last);
        if is_compat == was_compat {
            return;
        }
        if self.change_count >= self.changes_max {
            self.forget(|tid| Path::new(&format!("/proc/{tid}")).exists());
        }
        self.threads.entry(tid).or_default().push((ticks, is_compat));
        self.change_count += 1;
    }

    /// Forgets the older half of all changes, except the last ones of threads that are alive.
    fn forget(&mut self, is_alive: impl Fn(i32) -> bool) {
        let mut times: Vec<u64> = self.threads.values().flatten().map(|(ticks, _)| *ticks).collect();
        let middle = times.len() / 2;
        let Some((_, &mut since_ticks, _)) = (middle < times.len()).then(|| times.select_nth_unstable(middle)) else {
            return;
        };
        self.threads.retain(|tid, known| {
            let before = known.partition_point(|(ticks, _)| *ticks < since_ticks);
            // A thread about which nothing is known runs a 64-bit program.
            let goes_on = before > 0 && known[before - 1].1 && (before < known.len() || is_alive(*tid));
            known.drain(..before - usize::from(goes_on));
            known.shrink_to_fit();
            !known.is_empty()
        });
        self.known_since_ticks = since_ticks;
        self.change_count = self.threads.values().map(Vec::len).sum();
        // Living threads may have more: they are not looked through again at every change.
        self.changes_max = CHANGES_MAX.max(2 * self.change_count);
    }

    /// Adds the threads that run 32-bit programs now. They are taken to have done so since the recording began.
    pub(super) fn note_living(&mut self) {
        for pid in proc::processes().filter(|pid| runs_compat(*pid) == Some(true)) {
            for tid in proc::threads_of(pid) {
                self.note(tid, 0, true);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_thread_ran_is_known_for_every_time() {
        let mut history = History::default();
        for (ticks, is_compat) in [(5, false), (10, true), (15, true), (20, false), (30, true)] {
            history.note(7, ticks, is_compat);
        }
        let compat: Vec<u64> = (0..40).filter(|ticks| history.is_compat(7, *ticks)).collect();
        assert_eq!(compat, (10..20).chain(30..40).collect::<Vec<_>>());
    }

    #[test]
    fn threads_of_64_bit_programs_are_not_kept() {
        let mut history = History::default();
        history.note(7, 5, false);
        assert!(history.is_empty() && !history.is_compat(7, 6));
    }

    #[test]
    fn older_half_is_forgotten_but_not_what_living_threads_run() {
        let mut history = History::default();
        let (lives, ended, returned, recent) = (1, 2, 3, 4);
        for (tid, ticks, is_compat) in [
            (lives, 10, true),
            (ended, 20, true),
            (returned, 30, true),
            (returned, 40, false),
            (recent, 50, true),
            (returned, 60, true),
            (recent, 70, false),
            (returned, 80, false),
        ] {
            history.note(tid, ticks, is_compat);
        }
        history.forget(|tid| tid == lives);
        assert_eq!(history.change_count, 5);
        assert_eq!(history.threads.values().map(Vec::len).sum::<usize>(), 5);
        let compat_at = |history: &mut History, ticks| [1, 2, 3, 4].map(|tid| history.is_compat(tid, ticks));
        assert_eq!(compat_at(&mut history, 55), [true, false, false, true]);
        assert_eq!(compat_at(&mut history, 65), [true, false, true, true]);
        assert_eq!(compat_at(&mut history, 85), [true, false, false, false]);
        assert!(!history.take_was_asked_too_late());
        history.is_compat(recent, 45);
        assert!(history.take_was_asked_too_late() && !history.take_was_asked_too_late());
    }

    #[test]
    fn threads_that_come_and_go_take_no_more_and_more_memory() {
        let mut history = History::default();
        // The kernel gives no such numbers.
        for tid in 0..3 * CHANGES_MAX as i32 {
            history.note(-1 - tid, 1 + tid as u64, true);
            assert!(history.change_count <= CHANGES_MAX);
        }
        assert!(history.threads.len() <= CHANGES_MAX && history.threads.len() >= CHANGES_MAX / 2);
    }
}
