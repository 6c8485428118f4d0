// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values that are as long as a limit, and when they were, on the clocks that traces have.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use rustix::thread::gettid;
use rustix::time::ClockId;

use crate::clock::{Clock, ClockKind, nanoseconds};
use crate::system;
use crate::witness::Seen;

/// Crossings that nobody has taken yet. Their place is there before the loops begin; further ones are only counted.
const WAITING_MAX: usize = 1024;

/// A value that is as long as the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crossing {
    /// On which CPU it was measured,
    pub cpu: u32,
    /// and by which thread.
    pub tid: i32,
    /// How long it is.
    pub duration: Duration,
    /// When it ended, on CLOCK_MONOTONIC.
    pub end_monotonic_ns: u64,
    /// When it ended, on the time stamp counter; absent if the processor has none.
    pub end_tsc: Option<u64>,
    /// What the kernel's counters say of it; absent for a loop that does not read them.
    pub seen: Option<Seen>,
}

impl Crossing {
    /// Of this thread: it has just read `end` from the clock. The other clock is read now, and goes back by the time since then.
    fn ended(cpu: u32, clock: &Clock, end: u64, duration: Duration) -> Crossing {
        let (now_tsc, now_ns) = (system::any_time_stamp_counter(), nanoseconds(ClockId::Monotonic));
        let (end_tsc, end_monotonic_ns) = match clock.kind {
            ClockKind::Tsc => {
                let since = now_tsc.map_or(0, |now| now.saturating_sub(end));
                (Some(end), now_ns.saturating_sub(clock.whole_ns(since)))
            }
            // Some tens of nanoseconds have passed.
            ClockKind::Monotonic => (now_tsc, end),
        };
        Crossing {
            cpu,
            tid: gettid().as_raw_nonzero().get(),
            duration,
            end_monotonic_ns,
            end_tsc,
            seen: None,
        }
    }
}

/// What happens to values that are as long as a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The shortest of them.
    pub from: Duration,
    /// The first one ends all loops.
    pub stops: bool,
}

/// Takes the crossings of all loops.
#[derive(Debug)]
pub(crate) struct Reporter {
    stops: bool,
    to: SyncSender<Crossing>,
    left_out: AtomicU64,
}

impl Reporter {
    /// And where they come out.
    pub(crate) fn new(limit: Option<Limit>) -> (Reporter, Receiver<Crossing>) {
        let (to, crossings) = sync_channel(WAITING_MAX);
        let reporter = Reporter {
            stops: limit.is_some_and(|limit| limit.stops),
            to,
            left_out: AtomicU64::new(0),
        };
        (reporter, crossings)
    }

    /// A value is as long as the limit. Does not wait.
    pub(crate) fn report(&self, crossing: Crossing, stop: &AtomicBool) {
        // Relaxed, both: nothing else is said by them.
        if self.to.try_send(crossing).is_err() {
            self.left_out.fetch_add(1, Relaxed);
        }
        if self.stops {
            stop.store(true, Relaxed);
        }
    }

    /// How many were reported that nobody can take.
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out.load(Relaxed)
    }
}

/// What one loop does with long values.
pub(crate) struct Watcher<'r> {
    /// Values from this on are reported, in ticks of the clock.
    pub(crate) from: u64,
    pub(crate) cpu: u32,
    pub(crate) clock: &'r Clock,
    pub(crate) reporter: &'r Reporter,
    pub(crate) stop: &'r AtomicBool,
}

impl Watcher<'_> {
    /// A value that ended at `end`, which has just been read from the clock: a crossing, if it is long enough.
    #[inline]
    pub(crate) fn crossing(&self, end: u64, ticks: u64) -> Option<Crossing> {
        (ticks >= self.from).then(|| {
            let duration = Duration::from_nanos(self.clock.whole_ns(ticks));
            Crossing::ended(self.cpu, self.clock, end, duration)
        })
    }

    /// The same; it is reported at once.
    #[inline]
    pub(crate) fn look_at(&self, end: u64, ticks: u64) {
        if let Some(crossing) = self.crossing(end, ticks) {
            self.reporter.report(crossing, self.stop);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crossings_that_nobody_takes_are_counted() {
        let (reporter, crossings) = Reporter::new(None);
        let watcher = Watcher {
            from: 5,
            cpu: 0,
            clock: &Clock::MONOTONIC,
            reporter: &reporter,
            stop: &AtomicBool::new(false),
        };
        for ticks in 0..1500 {
            watcher.look_at(1, ticks);
        }
        assert_eq!(crossings.try_iter().count() as u64 + reporter.left_out(), 1495);
        assert!(reporter.left_out() > 0 && !watcher.stop.load(Relaxed));
    }
}
