// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which thread had a CPU when. Kept for as far back as some thread waits in the queue of that CPU, so that it can be told behind whom it
//! waited ([`System::behind`](super::System::behind)).

use std::collections::VecDeque;

use super::state::ThreadId;

/// With fewer stints than this nothing is forgotten: 64 kB for each CPU.
const KEPT: usize = 1 << 12;
/// With more stints than this the older half is forgotten, whoever still waits: at most 16 MB for each CPU.
const KEPT_MAX: usize = 1 << 20;

/// The latest history of a CPU.
#[derive(Clone, Debug)]
pub(super) struct Occupancy {
    begin_ns: i64,
    /// Each begins where the one before ends.
    stints: VecDeque<Stint>,
    /// With so many stints, it is time to forget.
    full: usize,
}

#[derive(Clone, Copy, Debug)]
struct Stint {
    end_ns: i64,
    /// Absent: unknown.
    thread: Option<ThreadId>,
}

impl Occupancy {
    /// Nothing is known before `begin_ns`.
    pub(super) fn new(begin_ns: i64) -> Occupancy {
        Occupancy {
            begin_ns,
            stints: VecDeque::new(),
            full: KEPT,
        }
    }

    /// From the end of what is known up to `end_ns`, this thread had the CPU.
    #[inline]
    pub(super) fn add(&mut self, end_ns: i64, thread: Option<ThreadId>) {
        if end_ns <= self.end_ns() {
            return;
        }
        match self.stints.back_mut() {
            Some(last) if last.thread == thread => last.end_ns = end_ns,
            _ => self.stints.push_back(Stint { end_ns, thread }),
        }
    }

    /// The end of what is known.
    #[inline]
    pub(super) fn end_ns(&self) -> i64 {
        self.stints.back().map_or(self.begin_ns, |last| last.end_ns)
    }

    /// It is time to call [`Occupancy::forget`].
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.stints.len() >= self.full
    }

    /// Nobody asks for what was before `ns`.
    pub(super) fn forget(&mut self, ns: i64) {
        let unneeded = self.stints.partition_point(|stint| stint.end_ns <= ns);
        let surplus = match self.stints.len() - unneeded {
            many if many >= KEPT_MAX => many / 2,
            _ => 0,
        };
        if let Some(last) = self.stints.drain(..unneeded + surplus).next_back() {
            self.begin_ns = last.end_ns;
        }
        self.full = (2 * self.stints.len()).clamp(KEPT, KEPT_MAX);
    }

    /// Tells who had the CPU in a part of time, and for how long at a time, as far as it is kept.
    pub(super) fn within(&self, (begin_ns, end_ns): (i64, i64), to: &mut impl FnMut(Option<ThreadId>, i64)) {
        let mut told_ns = begin_ns;
        let mut tell = |thread: Option<ThreadId>, until_ns: i64| {
            let until_ns = until_ns.min(end_ns);
            if until_ns > told_ns {
                to(thread, until_ns - told_ns);
                told_ns = until_ns;
            }
        };
        tell(None, self.begin_ns);
        let first = self.stints.partition_point(|stint| stint.end_ns <= begin_ns);
        for stint in self.stints.range(first..) {
            tell(stint.thread, stint.end_ns);
            if stint.end_ns >= end_ns {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn within(occupancy: &Occupancy, span_ns: (i64, i64)) -> Vec<(Option<usize>, i64)> {
        let mut told = Vec::new();
        occupancy.within(span_ns, &mut |thread, ns| told.push((thread.map(ThreadId::index), ns)));
        told
    }

    #[test]
    fn each_part_of_time_is_told_once() {
        let mut occupancy = Occupancy::new(10);
        for (end_ns, thread) in [(20, Some(1)), (30, Some(1)), (40, None), (35, Some(7)), (50, Some(2))] {
            occupancy.add(end_ns, thread.map(ThreadId::at));
        }
        assert_eq!(
            within(&occupancy, (0, 60)),
            [(None, 10), (Some(1), 20), (None, 10), (Some(2), 10)]
        );
        assert_eq!(within(&occupancy, (25, 45)), [(Some(1), 5), (None, 10), (Some(2), 5)]);
        assert_eq!(within(&occupancy, (30, 40)), [(None, 10)]);
        assert_eq!(within(&occupancy, (50, 60)), []);
    }

    #[test]
    fn what_somebody_waits_for_is_kept_up_to_a_bound() {
        let mut occupancy = Occupancy::new(0);
        let mut ns = 0;
        let mut run = |occupancy: &mut Occupancy, stints: usize, needed_ns: i64| {
            for stint in 0..stints {
                ns += 1;
                occupancy.add(ns, Some(ThreadId::at(stint % 2)));
                if occupancy.is_full() {
                    occupancy.forget(needed_ns);
                }
            }
        };
        run(&mut occupancy, 3 * KEPT, i64::MAX);
        assert!(occupancy.stints.len() < KEPT);
        occupancy.forget(i64::MAX);
        let since_ns = occupancy.end_ns();
        run(&mut occupancy, 3 * KEPT, since_ns);
        assert_eq!(occupancy.stints.len(), 3 * KEPT);
        run(&mut occupancy, 2 * KEPT_MAX, since_ns);
        assert!(occupancy.stints.len() <= KEPT_MAX);
        let (begin_ns, end_ns) = (occupancy.begin_ns, occupancy.end_ns());
        let told = within(&occupancy, (since_ns, end_ns));
        assert_eq!(told[0], (None, begin_ns - since_ns));
        assert_eq!(told.iter().map(|(_, ns)| ns).sum::<i64>(), end_ns - since_ns);
    }
}
