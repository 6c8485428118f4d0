// SPDX-License-Identifier: MIT OR Apache-2.0
//! The loop that is woken: one thread, the waker, wakes another one of higher priority through a futex, and the woken thread measures the time
//! from just before the call that wakes it to its own first instruction. On the same CPU, a kernel that keeps priorities switches to the woken
//! thread before that call returns.
//!
//! ```text
//!   waker                                   woken thread
//!   sleep until the next moment             wait while `turn` is the one before (asleep)
//!   store `begun`, then `turn` + 1
//!   FUTEX_WAKE                         ->   read the clock
//!   (runs on if it was not preempted)       store `ran` = `turn`
//!   has `ran` changed? else count           count the difference; wait again
//! ```
//!
//! 1. Only the waker writes `turn` and `begun`, only the woken thread writes `ran` and `counted`.
//! 2. The waker begins no turn before the woken thread has seen the one before, so `begun` belongs to the turn that the woken thread sees.
//! 3. A turn counts only if the woken thread was asleep: if the kernel finds another `turn` before the thread sleeps, nothing woke it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::futex;
use rustix::time::ClockId;

use crate::clock::{Counter, nanoseconds};
use crate::crossing::Watcher;
use crate::policy::Policy;
use crate::tally::Tally;
use crate::timer::{Moments, sleep_until, whole};

/// What the waker needs to know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wakeups {
    /// From one wake-up to the next.
    pub(crate) interval: Duration,
    /// Wake-ups that are counted, at most.
    pub(crate) loops: u64,
    /// How long it takes at most.
    pub(crate) duration: Duration,
    /// Wake-ups that are not counted, at the beginning.
    pub(crate) warm_up: u32,
}

/// What the waker found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Woken {
    /// How often the call that woke the thread returned before the thread ran. If both have the same CPU, the thread did not run at once.
    pub waker_went_on: u64,
    /// Wake-ups that measured nothing, because the thread had not fallen asleep again.
    pub not_asleep: u64,
    /// Wake-ups that were skipped because the thread had not run by then, or because the waker itself was late.
    pub(crate) overruns: u64,
    /// From the first wake-up that counts to the last.
    pub(crate) duration: Duration,
}

/// What both threads share. Each has the words that it writes in cache lines of its own.
#[derive(Default)]
struct Shared {
    of_waker: OfWaker,
    of_woken: OfWoken,
}

#[repr(align(128))]
#[derive(Default)]
struct OfWaker {
    /// The number of the wake-up, from 1 on; the futex.
    turn: AtomicU32,
    /// When it began, in ticks of the clock.
    begun: AtomicU64,
    /// Wake-ups from this one on count.
    counts: AtomicBool,
    has_ended: AtomicBool,
}

#[repr(align(128))]
#[derive(Default)]
struct OfWoken {
    /// The wake-up that the thread has seen last.
    ran: AtomicU32,
    /// How many wake-ups it has counted.
    counted: AtomicU64,
}

/// A waker that is ready, and the thread's own part.
pub(crate) struct Waker {
    shared: Arc<Shared>,
    /// Closed without a word, it sends the waker home.
    go: SyncSender<()>,
    thread: JoinHandle<Result<Woken, Errno>>,
}

/// The priority of the waker, which is below that of the thread that it wakes, if priorities are what decides.
pub(crate) fn below(policy: Policy) -> Policy {
    match policy {
        Policy::Fifo(priority @ 2..) => Policy::Fifo(priority - 1),
        Policy::RoundRobin(priority @ 2..) => Policy::RoundRobin(priority - 1),
        _ => Policy::Other,
    }
}

impl Waker {
    /// Starts the waker; `prepare` runs in its thread and moves it to its CPU and into its policy.
    ///
    /// # Errors
    /// There is no thread, or it cannot be prepared.
    pub(crate) fn start<E: Send + 'static>(
        name: String,
        wakeups: Wakeups,
        clock: impl Counter + Send + 'static,
        stop: Arc<AtomicBool>,
        prepare: impl FnOnce() -> Result<(), E> + Send + 'static,
    ) -> io::Result<Result<Waker, E>> {
        let shared = Arc::new(Shared::default());
        let (go, may_go) = sync_channel(1);
        let (ready_to, ready) = sync_channel(1);
        let of_thread = Arc::clone(&shared);
        let body = move || {
            let prepared = prepare();
            let is_ready = prepared.is_ok();
            let _ = ready_to.send(prepared);
            let woken = match is_ready {
                true => wake_again_and_again(&wakeups, &of_thread, clock, &stop, &may_go),
                false => Ok(Woken::default()),
            };
            of_thread.end();
            woken
        };
        let thread = thread::Builder::new()
            .name(name)
            .stack_size(crate::run::STACK_BYTES)
            .spawn(body)?;
        let prepared = ready.recv().expect("the waker says whether it is ready");
        Ok(prepared.map(|()| Waker { shared, go, thread }))
    }

    /// Lets the waker begin and measures until it ends.
    ///
    /// # Errors
    /// The waker could not sleep.
    pub(crate) fn run(self, tally: &Tally, watcher: &Watcher, mut counter: impl Counter) -> Result<Woken, Errno> {
        let _ = self.go.send(());
        let shared = &self.shared;
        let begin = counter.read();
        let mut number = 0;
        let mut seen = 0;
        loop {
            let (turn, slept) = shared.wait(seen);
            let now = counter.read();
            // ORDER wakeup.turn (acquire): `begun` and `counts` are those of `turn`, which `wait` has read. Pairs with `begin_turn`.
            let begun = shared.of_waker.begun.load(Relaxed);
            let counts = shared.of_waker.counts.load(Relaxed);
            if turn == seen {
                break;
            }
            seen = turn;
            let does_count = slept && counts;
            if does_count {
                number += 1;
                // Relaxed: `ran` publishes it.
                shared.of_woken.counted.store(number, Relaxed);
            }
            // ORDER wakeup.ran (release): `counted` is visible before it. Pairs with `has_run`.
            shared.of_woken.ran.store(turn, Release);
            if does_count {
                // Two CPUs may disagree on the time by less than a wake-up takes.
                let ticks = now.saturating_sub(begun);
                watcher.look_at(now, ticks);
                tally.add_long(ticks, false);
                tally.add_microseconds(watcher.clock.whole_ns(ticks) / 1000, number - 1);
                tally.add_at(now.saturating_sub(begin), ticks);
            }
        }
        self.thread.join().expect("the waker does not panic")
    }
}

impl Shared {
    /// Sleeps until there is another turn than this one; the turn, and whether a wake-up ended the sleep. After the last turn, the same one.
    fn wait(&self, seen: u32) -> (u32, bool) {
        let mut slept = false;
        loop {
            // ORDER wakeup.turn (acquire): pairs with `begin_turn` and `end`.
            let turn = self.of_waker.turn.load(Acquire);
            if turn != seen {
                return match self.of_waker.has_ended.load(Relaxed) {
                    true => (seen, false),
                    false => (turn, slept),
                };
            }
            // A signal or another turn (EAGAIN) ends it without a wake-up.
            slept = futex::wait(&self.of_waker.turn, futex::Flags::PRIVATE, seen, None).is_ok();
        }
    }

    /// Begins a turn and wakes the thread; whether it was asleep.
    fn begin_turn(&self, turn: u32, clock: &mut impl Counter) -> Result<bool, Errno> {
        self.of_waker.begun.store(clock.read(), Relaxed);
        // ORDER wakeup.turn (release): `begun` and `counts` are visible before it. Pairs with `wait`.
        self.of_waker.turn.store(turn, Release);
        let woken = futex::wake(&self.of_waker.turn, futex::Flags::PRIVATE, 1)?;
        Ok(woken > 0)
    }

    /// Whether the thread has seen the turn.
    fn has_run(&self, turn: u32) -> bool {
        // ORDER wakeup.ran (acquire): pairs with `run`.
        self.of_woken.ran.load(Acquire) == turn
    }

    /// Lets the thread end.
    fn end(&self) {
        self.of_waker.has_ended.store(true, Relaxed);
        // ORDER wakeup.turn (release): `has_ended` is visible before it. Pairs with `wait`.
        self.of_waker.turn.fetch_add(1, Release);
        let _ = futex::wake(&self.of_waker.turn, futex::Flags::PRIVATE, 1);
    }
}

/// The waker's part, once it may go.
fn wake_again_and_again(
    wakeups: &Wakeups,
    shared: &Shared,
    mut clock: impl Counter,
    stop: &AtomicBool,
    may_go: &Receiver<()>,
) -> Result<Woken, Errno> {
    let mut woken = Woken::default();
    if may_go.recv().is_err() {
        return Ok(woken);
    }
    let interval_ns = whole(wakeups.interval);
    let mut next = Moments::after_now(interval_ns);
    let (mut turn, mut warm_up, mut went_on) = (0, wakeups.warm_up, false);
    let mut begin_ns = nanoseconds(ClockId::Monotonic);
    loop {
        // Also before the end: the thread has this time to run.
        let is_over = next.next_ns > begin_ns.saturating_add(whole(wakeups.duration));
        if !sleep_until(next.next_ns, stop)? || warm_up == 0 && is_over {
            break;
        }
        if !shared.has_run(turn) {
            woken.overruns += 1 + next.after(nanoseconds(ClockId::Monotonic));
            continue;
        }
        // Relaxed: `has_run` has read what it counts.
        if shared.of_woken.counted.load(Relaxed) >= wakeups.loops {
            break;
        }
        if warm_up == 0 && !shared.of_waker.counts.load(Relaxed) {
            // Relaxed: `turn` publishes it.
            shared.of_waker.counts.store(true, Relaxed);
            begin_ns = nanoseconds(ClockId::Monotonic);
        }
        turn = turn.wrapping_add(1);
        let was_asleep = shared.begin_turn(turn, &mut clock)?;
        went_on = was_asleep && !shared.has_run(turn);
        let now_ns = nanoseconds(ClockId::Monotonic);
        let overruns = next.after(now_ns);
        if warm_up > 0 {
            warm_up -= 1;
            continue;
        }
        woken.overruns += overruns;
        woken.not_asleep += u64::from(!was_asleep);
        woken.waker_went_on += u64::from(went_on);
        woken.duration = Duration::from_nanos(now_ns - begin_ns);
    }
    if went_on && !shared.has_run(turn) && woken.waker_went_on > 0 {
        // It has not been counted, so it is none of those that the waker did not wait for.
        woken.waker_went_on -= 1;
    }
    Ok(woken)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::clock::{Clock, Monotonic};
    use crate::crossing::Reporter;

    fn woken(wakeups: Wakeups, stop: bool) -> (Woken, Tally) {
        let tally = Tally::new(0, 0);
        let stop = Arc::new(AtomicBool::new(stop));
        let prepare = || Ok::<(), Infallible>(());
        let watcher = Watcher {
            from: u64::MAX,
            cpu: 0,
            clock: &Clock::MONOTONIC,
            reporter: &Reporter::new(None).0,
            stop: &AtomicBool::new(false),
        };
        let waker = Waker::start("waker".into(), wakeups, Monotonic, stop, prepare);
        let waker = waker.expect("a thread").unwrap_or_else(|never| match never {});
        let woken = waker.run(&tally, &watcher, Monotonic).expect("it sleeps");
        (woken, tally)
    }

    const WAKEUPS: Wakeups = Wakeups {
        interval: Duration::from_micros(100),
        loops: 20,
        duration: Duration::MAX,
        warm_up: 3,
    };

    #[test]
    fn each_wake_up_of_a_sleeping_thread_is_counted_once() {
        let (woken, tally) = woken(WAKEUPS, false);
        let count: u64 = tally.look().buckets().iter().map(|bucket| bucket.count).sum();
        assert_eq!(count, 20);
        assert!(
            woken.duration > Duration::ZERO && woken.waker_went_on <= 20,
            "{woken:?}"
        );
    }

    #[test]
    fn a_waker_that_is_stopped_ends_the_thread_too() {
        let (stopped, tally) = woken(WAKEUPS, true);
        assert_eq!((stopped, tally.look().buckets().len()), (Woken::default(), 0));
        let short = Wakeups {
            duration: Duration::ZERO,
            warm_up: 0,
            ..WAKEUPS
        };
        assert_eq!(woken(short, false).0, Woken::default());
    }

    #[test]
    fn the_waker_is_below_the_thread_that_it_wakes() {
        assert_eq!(below(Policy::Fifo(80)), Policy::Fifo(79));
        assert_eq!(below(Policy::RoundRobin(2)), Policy::RoundRobin(1));
        assert_eq!(below(Policy::Fifo(1)), Policy::Other);
        assert_eq!(below(Policy::Other), Policy::Other);
    }
}
