// SPDX-License-Identifier: MIT OR Apache-2.0
//! The loop that sleeps: it asks to be woken at one moment after the other, a fixed interval apart, and measures how late it runs each time.
//! This is what cyclictest does by default.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec};

use crate::clock::nanoseconds;
use crate::crossing::Watcher;
use crate::tally::Tally;

/// What a loop needs to know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timer {
    pub(crate) interval: Duration,
    /// Loops at most.
    pub(crate) loops: u64,
    /// How long it takes at most.
    pub(crate) duration: Duration,
    /// Loops that are not counted.
    pub(crate) warm_up: u32,
}

/// What a loop found besides its tally.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Slept {
    /// Wake-ups that were skipped because the thread woke up later than a whole interval.
    pub(crate) overruns: u64,
    /// From the first loop that counts to the last.
    pub(crate) duration: Duration,
}

/// Runs the loop until a limit is reached or `stop` is set.
pub(crate) fn sleep_and_measure(timer: &Timer, tally: &Tally, watcher: &Watcher) -> Result<Slept, Errno> {
    let stop = watcher.stop;
    let interval_ns = whole(timer.interval);
    let mut slept = Slept::default();
    let mut next = Moments::after_now(interval_ns);
    for _ in 0..timer.warm_up {
        sleep_until(next.next_ns, stop)?;
        next.after(nanoseconds(ClockId::Monotonic));
    }
    let begin_ns = nanoseconds(ClockId::Monotonic);
    let end_ns = begin_ns.saturating_add(whole(timer.duration));
    for number in 0..timer.loops {
        if next.next_ns > end_ns || !sleep_until(next.next_ns, stop)? {
            break;
        }
        let now_ns = nanoseconds(ClockId::Monotonic);
        let late_ns = now_ns.saturating_sub(next.next_ns);
        watcher.look_at(now_ns, late_ns);
        tally.add_long(late_ns, false);
        tally.add_microseconds(late_ns / 1000, number);
        tally.add_at(now_ns - begin_ns, late_ns);
        slept.overruns += next.after(now_ns);
        slept.duration = Duration::from_nanos(now_ns - begin_ns);
    }
    Ok(slept)
}

/// When to wake up.
pub(crate) struct Moments {
    pub(crate) next_ns: u64,
    interval_ns: u64,
}

impl Moments {
    /// The first one is an interval from now.
    pub(crate) fn after_now(interval_ns: u64) -> Moments {
        Moments {
            next_ns: nanoseconds(ClockId::Monotonic) + interval_ns,
            interval_ns,
        }
    }

    /// Goes on to the first one that is not past; how many were left out.
    pub(crate) fn after(&mut self, now_ns: u64) -> u64 {
        self.next_ns += self.interval_ns;
        if self.next_ns >= now_ns {
            return 0;
        }
        let overruns = (now_ns - self.next_ns).div_ceil(self.interval_ns);
        self.next_ns += overruns * self.interval_ns;
        overruns
    }
}

/// `false` if the loop is to end before.
pub(crate) fn sleep_until(moment_ns: u64, stop: &AtomicBool) -> Result<bool, Errno> {
    let moment = Timespec {
        tv_sec: (moment_ns / 1_000_000_000).cast_signed(),
        tv_nsec: (moment_ns % 1_000_000_000).cast_signed(),
    };
    loop {
        // Relaxed: nothing else is said by it.
        if stop.load(Relaxed) {
            return Ok(false);
        }
        match clock_nanosleep_absolute(ClockId::Monotonic, &moment) {
            Ok(()) => return Ok(true),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}

pub(crate) fn whole(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::crossing::{Crossing, Limit, Reporter};

    #[test]
    fn moments_that_are_past_are_overruns() {
        let mut moments = Moments {
            next_ns: 1000,
            interval_ns: 100,
        };
        assert_eq!((moments.after(1050), moments.next_ns), (0, 1100));
        assert_eq!((moments.after(1200), moments.next_ns), (0, 1200));
        assert_eq!((moments.after(1301), moments.next_ns), (1, 1400));
        assert_eq!((moments.after(1750), moments.next_ns), (3, 1800));
    }

    #[test]
    fn a_loop_counts_what_it_is_asked_for() {
        let timer = Timer {
            interval: Duration::from_micros(100),
            loops: 10,
            duration: Duration::MAX,
            warm_up: 2,
        };
        let (reporter, crossings) = Reporter::new(Some(Limit {
            from: Duration::ZERO,
            stops: true,
        }));
        let stop = AtomicBool::new(false);
        let watcher = Watcher {
            from: u64::MAX,
            cpu: 0,
            clock: &Clock::MONOTONIC,
            reporter: &reporter,
            stop: &stop,
        };
        let tally = Tally::new(0, 5);
        let slept = sleep_and_measure(&timer, &tally, &watcher).expect("the clock is there");
        let count: u64 = tally.look().buckets().iter().map(|bucket| bucket.count).sum();
        assert_eq!(count, 10);
        assert!(slept.duration >= Duration::from_micros(900), "{slept:?}");
        assert_eq!(crossings.try_iter().count(), 0);
        let late = Watcher { from: 0, ..watcher };
        sleep_and_measure(&timer, &tally, &late).expect("the clock is there");
        // Every wake-up is late enough, and the first one ends the loop.
        let crossings: Vec<Crossing> = crossings.try_iter().collect();
        assert!(stop.load(Relaxed) && crossings.len() == 1, "{crossings:?}");
        assert!(
            crossings[0].end_monotonic_ns > 0 && crossings[0].tid > 0,
            "{crossings:?}"
        );
    }
}
