// SPDX-License-Identifier: MIT OR Apache-2.0
//! When threads ran 32-bit programs. Threads that never ran one are not stored.

use std::collections::HashMap;
use std::path::Path;

use super::file::is_compat_file;
use super::numbers_in;

/// For each thread: from when on it ran a 32-bit program (true), and when it executed a 64-bit one (false), in time order.
#[derive(Debug, Default)]
pub(super) struct History(HashMap<i32, Vec<(u64, bool)>>);

/// When there are more, threads that have ended are removed.
const THREADS_MAX: usize = 1 << 16;

impl History {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a thread ran a 32-bit program at this time.
    pub(super) fn is_compat(&self, tid: i32, ticks: u64) -> bool {
        let Some(known) = self.0.get(&tid) else { return false };
        let begun = known.partition_point(|(since_ticks, _)| *since_ticks <= ticks);
        begun.checked_sub(1).is_some_and(|place| known[place].1)
    }

    /// From this time on, a thread runs a 32-bit program, or a 64-bit one. Call it in time order.
    pub(super) fn note(&mut self, tid: i32, ticks: u64, is_compat: bool) {
        if self.0.len() >= THREADS_MAX {
            self.0.retain(|tid, _| Path::new(&format!("/proc/{tid}")).exists());
        }
        match self.0.get_mut(&tid) {
            Some(known) if known.last().is_some_and(|(_, last)| *last == is_compat) => {}
            Some(known) => known.push((ticks, is_compat)),
            None if is_compat => drop(self.0.insert(tid, vec![(ticks, true)])),
            None => {}
        }
    }

    /// Adds the threads that run 32-bit programs now. They are taken to have done so since the recording began.
    pub(super) fn note_living(&mut self) {
        let is_compat = |pid: &i32| is_compat_file(Path::new(&format!("/proc/{pid}/exe"))) == Some(true);
        for pid in numbers_in(Path::new("/proc")).filter(is_compat) {
            for tid in numbers_in(Path::new(&format!("/proc/{pid}/task"))) {
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
}
