// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tight loop: it reads a clock again and again. The gap between two starts of the loop is the loop's own time, or more if something took
//! the CPU away.
//!
//! Cost of a loop: a read of the time stamp counter (20 to 40 cycles, most of all), a subtraction, a comparison with the length of the table,
//! an addition to its entry, and the comparisons that end the loop; no more than 1.5 times the read alone. A gap that is too long for the table
//! leaves this path: then the kernel's counters are read, to find out what happened. That takes tens of microseconds, in which the loop is
//! blind; the time is counted, and the loop warms up again afterwards. If it takes much longer than usual, that is a gap, too.
//!
//! A turn may record an event, and may wait until the next one is due. A loop that does neither has not one instruction for it: what it does is a
//! type.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::{Clock, Counter};
use crate::crossing::{Crossing, Watcher};
use crate::event::{Event, NoEvent};
use crate::pace::Pace;
use crate::tally::Tally;
use crate::witness::{Seen, Watch};

/// Gaps from this on are looked at. A timer interrupt takes at least as long on any machine of today; a loop takes a tenth of it.
const LOOK_ABOVE: Duration = Duration::from_nanos(500);
/// But a loop may be slow, on a machine that emulates the clock: then from this many loops on.
const LOOK_ABOVE_LOOPS: u64 = 8;
/// Loops that show how long one takes.
const TRIAL_LOOPS: usize = 1000;
/// The same of turns that record an event; few, because they come all at once.
const TRIAL_EVENTS: usize = 100;
/// Gaps of one CPU that are kept; others are only counted.
pub(crate) const GAPS_MAX: usize = 20_000;

/// What explains a gap, in the order in which they are considered: a thread that lost its CPU was interrupted, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// Another thread had the CPU, or the thread was stopped.
    Switch,
    /// The hypervisor gave the CPU to others.
    Steal,
    /// An interrupt.
    Interrupt,
    /// A page fault.
    PageFault,
    /// Nothing that the kernel counts: firmware, hardware, or a hypervisor that does not say.
    Nothing,
}

impl Cause {
    /// All of them, in their order.
    pub const ALL: [Cause; 5] = [
        Cause::Switch,
        Cause::Steal,
        Cause::Interrupt,
        Cause::PageFault,
        Cause::Nothing,
    ];

    /// What explains what was seen.
    pub fn of(seen: &Seen) -> Cause {
        if seen.switches > 0 {
            Cause::Switch
        } else if seen.steal.is_some_and(|steal| !steal.is_zero()) {
            Cause::Steal
        } else if seen.interrupts.is_some_and(|count| count > 0) {
            Cause::Interrupt
        } else if seen.page_faults > 0 {
            Cause::PageFault
        } else {
            Cause::Nothing
        }
    }
}

/// A gap that was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// When it began, in ticks since the loop began.
    pub begin: u64,
    /// How long it was, in ticks.
    pub ticks: u64,
    /// What happened meanwhile.
    pub seen: Seen,
}

/// Gaps of one cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gaps {
    /// How many there are.
    pub count: u64,
    /// How long they took together, in ticks.
    pub ticks: u64,
    /// The longest one.
    pub max: u64,
}

impl Gaps {
    /// Adds other ones.
    pub fn merge(&mut self, other: &Gaps) {
        self.count += other.count;
        self.ticks += other.ticks;
        self.max = self.max.max(other.max);
    }
}

/// When a loop ends, and what it keeps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Loops at most.
    pub(crate) loops: u64,
    /// Ticks at most.
    pub(crate) ticks: u64,
    /// Loops that are not counted, at the beginning and after each look.
    pub(crate) warm_up: u32,
    /// Gaps from this on are kept.
    pub(crate) keep_from: u64,
    /// Ticks that a look at the counters takes at most, unless something takes the CPU away meanwhile.
    pub(crate) look_max: u64,
}

/// What a loop found besides its tally.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// In order of time.
    pub(crate) gaps: Vec<Gap>,
    /// How many more there were than are kept.
    pub(crate) gaps_left_out: u64,
    /// Of each of [`Cause::ALL`].
    pub(crate) by_cause: [Gaps; Cause::ALL.len()],
    /// Ticks from the first loop to the last.
    pub(crate) ticks: u64,
    /// Of these, ticks in which the loop looked for causes.
    pub(crate) blind_ticks: u64,
    /// Events that were recorded, also in turns that are not counted.
    pub(crate) events: u64,
}

impl Found {
    /// With room for all gaps that are kept, in memory.
    pub(crate) fn with_room(gaps: usize) -> Found {
        let filler = Gap {
            begin: 1,
            ticks: 1,
            seen: Seen::default(),
        };
        let mut gaps = std::hint::black_box(vec![filler; gaps]);
        gaps.clear();
        Found {
            gaps,
            ..Found::default()
        }
    }

    fn add(&mut self, gap: Gap, keep_from: u64) -> Cause {
        let cause = Cause::of(&gap.seen);
        let same = &mut self.by_cause[cause as usize];
        same.count += 1;
        same.ticks += gap.ticks;
        same.max = same.max.max(gap.ticks);
        if gap.ticks >= keep_from {
            match self.gaps.len() < self.gaps.capacity() {
                true => self.gaps.push(gap),
                false => self.gaps_left_out += 1,
            }
        }
        cause
    }
}

/// How many ticks a gap must have to be looked at.
pub(crate) fn look_above(counter: &mut impl Counter, clock: &Clock) -> u64 {
    let quickest = quickest(counter, &mut NoEvent, TRIAL_LOOPS);
    clock.ticks(LOOK_ABOVE).max(quickest * LOOK_ABOVE_LOOPS)
}

/// By how much more if each turn records an event: two turns, so that an interrupt is seen beside an event that takes long itself.
pub(crate) fn look_above_more(counter: &mut impl Counter, event: &mut impl Event) -> u64 {
    quickest(counter, event, TRIAL_EVENTS) * 2
}

/// How many ticks the quickest of some turns takes.
fn quickest(counter: &mut impl Counter, event: &mut impl Event, turns: usize) -> u64 {
    let mut last = counter.read();
    let mut quickest = u64::MAX;
    for _ in 0..turns {
        event.record();
        let now = counter.read();
        // A clock with coarse ticks may stand still between two reads.
        quickest = quickest.min(now.wrapping_sub(last).max(1));
        last = now;
    }
    quickest
}

/// A loop and what it works with. The tally's short values are those that nobody looks at.
pub(crate) struct Spin<'s, C, E, P, W> {
    pub(crate) counter: &'s mut C,
    pub(crate) event: &'s mut E,
    pub(crate) pace: &'s mut P,
    pub(crate) watch: &'s mut W,
    pub(crate) limits: &'s Limits,
    pub(crate) tally: &'s Tally,
    pub(crate) watcher: &'s Watcher<'s>,
}

/// Where a loop is.
#[derive(Clone, Copy)]
struct Place {
    /// When its last turn started.
    last: u64,
    /// How many turns were counted.
    number: u64,
}

impl<C: Counter, E: Event, P: Pace, W: Watch> Spin<'_, C, E, P, W> {
    /// Runs the loop until a limit is reached or `stop` is set.
    pub(crate) fn run(&mut self, mut found: Found) -> Found {
        self.watch.look();
        let begin = warm_up(self.counter, self.event, self.limits.warm_up);
        self.pace.begin(begin);
        let end = begin.saturating_add(self.limits.ticks);
        let loops = self.limits.loops;
        let mut place = Place { last: begin, number: 0 };
        while place.number < loops {
            self.event.record();
            let now = self.counter.read();
            if self.tally.add_short(now.wrapping_sub(place.last)) {
                place.last = now;
                place.number += 1;
            } else {
                place = self.explain(place, now, begin, &mut found);
            }
            // Relaxed: nothing else is said by it. The time is checked here, too, because nobody else may get a CPU to set it.
            if now >= end || self.watcher.stop.load(Relaxed) {
                break;
            }
            place.last = self
                .pace
                .wait(place.last, end, self.counter, self.watch, self.watcher.stop);
        }
        found.ticks = place.last.wrapping_sub(begin);
        found.blind_ticks += self.pace.blind_ticks();
        found
    }

    /// Finds out what happened since the last turn started, and counts the gap. If that takes much longer than usual, something took the CPU
    /// away meanwhile: that is a gap as any other.
    #[cold]
    #[inline(never)]
    fn explain(&mut self, mut place: Place, mut now: u64, begin: u64, found: &mut Found) -> Place {
        loop {
            let ticks = now.wrapping_sub(place.last);
            // Before the look, which takes a while.
            let crossing = self.watcher.crossing(now, ticks);
            let gap = Gap {
                begin: place.last - begin,
                ticks,
                seen: self.watch.look(),
            };
            if let Some(crossing) = crossing {
                let seen = Some(gap.seen);
                self.watcher
                    .reporter
                    .report(Crossing { seen, ..crossing }, self.watcher.stop);
            }
            let cause = found.add(gap, self.limits.keep_from);
            self.tally.add_long(gap.ticks, cause != Cause::Nothing);
            let gap_us = self.watcher.clock.whole_ns(gap.ticks) / 1000;
            self.tally.add_microseconds(gap_us, place.number);
            self.tally.add_at(now.wrapping_sub(begin), gap.ticks);
            place.number += 1;
            let after = self.counter.read();
            if after.wrapping_sub(now) <= self.limits.look_max || place.number == self.limits.loops {
                break;
            }
            (place.last, now) = (now, after);
        }
        place.last = warm_up(self.counter, self.event, self.limits.warm_up);
        found.blind_ticks += place.last.wrapping_sub(now);
        place
    }
}

/// Loops that are not counted; when the next one starts.
#[inline(never)]
fn warm_up(counter: &mut impl Counter, event: &mut impl Event, loops: u32) -> u64 {
    let mut last = counter.read();
    for _ in 0..loops {
        event.record();
        last = counter.read();
    }
    last
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::crossing::{Limit, Reporter};
    use crate::pace::Unpaced;

    /// A clock that advances by the given steps.
    struct Steps {
        now: u64,
        steps: VecDeque<u64>,
    }

    impl Steps {
        fn of(steps: &[u64]) -> Steps {
            Steps {
                now: 1000,
                steps: steps.iter().copied().collect(),
            }
        }
    }

    impl Counter for Steps {
        fn read(&mut self) -> u64 {
            self.now += self.steps.pop_front().unwrap_or(1);
            self.now
        }
    }

    /// Somebody who knows what happens next.
    struct Script(std::vec::IntoIter<Seen>);

    impl Watch for Script {
        fn look(&mut self) -> Seen {
            self.0.next().unwrap_or_default()
        }
    }

    const LIMITS: Limits = Limits {
        loops: 6,
        ticks: u64::MAX,
        warm_up: 1,
        keep_from: 60,
        look_max: 5000,
    };

    fn run(steps: &[u64], seen: &[Seen], limits: &Limits, stop: bool) -> (Found, Tally) {
        run_with((&Reporter::new(None).0, u64::MAX), steps, seen, limits, stop)
    }

    fn run_with(
        (reporter, from): (&Reporter, u64),
        steps: &[u64],
        seen: &[Seen],
        limits: &Limits,
        stop: bool,
    ) -> (Found, Tally) {
        let tally = Tally::new(50, 0);
        // The first look is the one before the loop.
        let mut watch = Script([&[Seen::default()], seen].concat().into_iter());
        let mut spin = Spin {
            counter: &mut Steps::of(steps),
            event: &mut NoEvent,
            pace: &mut Unpaced,
            watch: &mut watch,
            limits,
            tally: &tally,
            watcher: &Watcher {
                from,
                cpu: 3,
                clock: &Clock::MONOTONIC,
                reporter,
                stop: &AtomicBool::new(stop),
            },
        };
        let found = spin.run(Found::with_room(2));
        (found, tally)
    }

    fn counts(tally: &Tally) -> Vec<(u64, u64)> {
        tally
            .look()
            .buckets()
            .iter()
            .map(|bucket| (bucket.low, bucket.count))
            .collect()
    }

    #[test]
    fn warm_up_is_left_out_and_long_gaps_are_looked_at() {
        let interrupt = Seen {
            interrupts: Some(1),
            ..Seen::default()
        };
        // Two reads before the loop; three after each look.
        let steps = [500, 500, 3, 49, 50, 700, 0, 700, 3, 70, 900, 0, 900, 60];
        let (found, tally) = run(&steps, &[interrupt, Seen::default()], &LIMITS, false);
        assert_eq!(counts(&tally), [(3, 2), (49, 1), (50, 1), (60, 1), (70, 1)]);
        assert_eq!(tally.look().undisturbed().buckets().len(), 4, "all but 50");
        let kept: Vec<(u64, u64)> = found.gaps.iter().map(|gap| (gap.begin, gap.ticks)).collect();
        assert_eq!(kept, [(1505, 70), (3375, 60)]);
        assert_eq!(
            found.by_cause[Cause::Interrupt as usize],
            Gaps {
                count: 1,
                ticks: 50,
                max: 50
            }
        );
        assert_eq!(
            found.by_cause[Cause::Nothing as usize],
            Gaps {
                count: 2,
                ticks: 130,
                max: 70
            }
        );
        assert_eq!(found.blind_ticks, 1400 + 1800 + 3);
        assert_eq!(found.ticks, 3 + 49 + 50 + 1400 + 3 + 70 + 1800 + 60 + 3);
    }

    #[test]
    fn a_loop_ends_at_each_of_its_limits() {
        let few = Limits { loops: 2, ..LIMITS };
        assert_eq!(counts(&run(&[1, 1, 5, 5, 5], &[], &few, false).1), [(5, 2)]);
        let short = Limits { ticks: 14, ..LIMITS };
        assert_eq!(counts(&run(&[1, 1, 5, 5, 5, 5], &[], &short, false).1), [(5, 3)]);
        assert_eq!(counts(&run(&[1, 1, 5, 5], &[], &LIMITS, true).1), [(5, 1)]);
    }

    #[test]
    fn whatever_takes_the_cpu_away_during_a_look_is_a_gap() {
        let switch = Seen {
            switches: 1,
            ..Seen::default()
        };
        let steps = [1, 1, 5, 70, 9000, 800, 0, 0, 5, 5, 5];
        let (found, tally) = run(&steps, &[Seen::default(), switch], &LIMITS, false);
        let kept: Vec<(u64, u64)> = found.gaps.iter().map(|gap| (gap.begin, gap.ticks)).collect();
        assert_eq!(kept, [(5, 70), (75, 9000)]);
        assert_eq!(found.by_cause[Cause::Switch as usize].max, 9000);
        assert_eq!(found.blind_ticks, 800);
        assert_eq!(tally.look().buckets().iter().map(|bucket| bucket.count).sum::<u64>(), 6);
    }

    #[test]
    fn gaps_of_a_length_are_reported_and_may_end_the_loop() {
        let interrupt = Seen {
            interrupts: Some(1),
            ..Seen::default()
        };
        let steps = [1, 1, 5, 69, 1, 1, 1, 5, 80, 1, 1, 1, 5, 70, 1, 1, 1, 5];
        let seen = [Seen::default(), interrupt];
        for (stops, reported) in [(true, vec![80]), (false, vec![80, 70])] {
            let limit = Limit {
                from: Duration::from_nanos(70),
                stops,
            };
            let (reporter, crossings) = Reporter::new(Some(limit));
            let (_, tally) = run_with((&reporter, 70), &steps, &seen, &LIMITS, false);
            let crossings: Vec<Crossing> = crossings.try_iter().collect();
            let durations: Vec<u128> = crossings.iter().map(|one| one.duration.as_nanos()).collect();
            assert_eq!(durations, reported);
            assert_eq!((crossings[0].cpu, crossings[0].seen), (3, Some(interrupt)));
            let loops: u64 = tally.look().buckets().iter().map(|bucket| bucket.count).sum();
            assert_eq!(loops, if stops { 4 } else { 6 });
        }
    }

    #[test]
    fn gaps_beyond_the_room_are_counted() {
        let (found, _) = run(
            &[1, 1, 90, 1, 1, 1, 90, 1, 1, 1, 90, 1, 1, 1, 5, 5, 5],
            &[],
            &LIMITS,
            false,
        );
        assert_eq!((found.gaps.len(), found.gaps_left_out), (2, 1));
    }

    #[test]
    fn a_cause_is_the_one_that_explains_most() {
        let all = Seen {
            switches: 1,
            page_faults: 1,
            interrupts: Some(3),
            interrupt: None,
            steal: Some(Duration::from_millis(10)),
        };
        assert_eq!(Cause::of(&all), Cause::Switch);
        let rest = Seen { switches: 0, ..all };
        assert_eq!(Cause::of(&rest), Cause::Steal);
        let rest = Seen {
            steal: Some(Duration::ZERO),
            ..rest
        };
        assert_eq!(Cause::of(&rest), Cause::Interrupt);
        let rest = Seen {
            interrupts: None,
            ..rest
        };
        assert_eq!(Cause::of(&rest), Cause::PageFault);
        assert_eq!(Cause::of(&Seen::default()), Cause::Nothing);
    }

    #[test]
    fn a_slow_clock_has_a_higher_limit() {
        assert_eq!(look_above(&mut Steps::of(&[20; 2000]), &Clock::MONOTONIC), 500);
        assert_eq!(look_above(&mut Steps::of(&[1000; 2000]), &Clock::MONOTONIC), 8000);
    }
}
