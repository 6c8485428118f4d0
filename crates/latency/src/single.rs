// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events one at a time. The clock is read before and after each event, and each time is kept, so that the slow ones can be told apart afterwards: the
//! first event of the thread, one that touches memory for the first time, one that begins a sub-buffer, one after the thread came to another CPU.
//!
//! Between two events, the loop waits until the next one is due, and moves to the other CPU and back from time to time.
//!
//! An event that took much longer than the quickest one is looked at, as a gap of the tight loop is (spin.rs): was it interrupted? Page faults are
//! looked for sooner, because one may be quick, and so is asking the kernel for them. Nothing is known of quick events, and nothing happened in them.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::{Clock, Counter};
use crate::event::Event;
use crate::pace::Pace;
use crate::spin::Cause;
use crate::witness::{Seen, Watch};

/// An event that took so much longer than the quickest one may have had a page fault.
const FAULT_ABOVE: Duration = Duration::from_nanos(150);
/// So many events at the beginning may all have had one: the quickest event has not come yet.
const FIRST_EVENTS: usize = 100;

/// What an event is measured on.
pub(crate) struct Seat<W> {
    /// The CPU.
    pub(crate) cpu: u32,
    /// Whoever knows what happens there.
    pub(crate) watch: W,
}

/// How many events there are, and which of them are looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Events at most.
    pub(crate) events: usize,
    /// From this many ticks on, and twice the quickest event, it is looked at what happened.
    pub(crate) look_above: u64,
    /// After so many events the thread moves to another CPU, for one event.
    pub(crate) move_every: usize,
}

/// Each event, and what happened in some. Events are numbered from 0 on, as the event's field is.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Samples {
    /// How many ticks each event took.
    pub(crate) ticks: Vec<u32>,
    /// The numbers of those that something interrupted, in ascending order, as all of the following.
    pub(crate) disturbed: Vec<u32>,
    /// Of those with a page fault.
    pub(crate) faulted: Vec<u32>,
    /// Of the first ones after the thread came to a CPU.
    pub(crate) moved: Vec<u32>,
}

impl Samples {
    /// With room for so many, in memory.
    pub(crate) fn with_room(events: usize) -> Samples {
        let filled = || {
            let mut numbers = std::hint::black_box(vec![1; events]);
            numbers.clear();
            numbers
        };
        Samples {
            ticks: filled(),
            disturbed: filled(),
            faulted: filled(),
            moved: filled(),
        }
    }
}

/// What measures events, and what it works with.
pub(crate) struct Single<'s, C, E, P, W, F, M> {
    pub(crate) clock: &'s Clock,
    pub(crate) counter: &'s mut C,
    pub(crate) event: &'s mut E,
    pub(crate) pace: &'s mut P,
    /// The CPU of the events, and one to move to; or only the first.
    pub(crate) seats: &'s mut [Seat<W>],
    /// How many page faults the thread has had.
    pub(crate) faults: F,
    /// Moves the thread to a CPU.
    pub(crate) go: M,
    pub(crate) stop: &'s AtomicBool,
}

impl<C: Counter, E: Event, P: Pace, W: Watch, F: FnMut() -> u64, M: FnMut(u32) -> io::Result<()>>
    Single<'_, C, E, P, W, F, M>
{
    /// Measures events until there are enough, or it is to stop.
    ///
    /// # Errors
    /// The thread cannot be moved.
    pub(crate) fn run(&mut self, limits: &Limits, mut samples: Samples) -> io::Result<Samples> {
        let fault_above = self.clock.ticks(FAULT_ABOVE);
        let (mut seat, mut quickest) = (0, u64::MAX);
        self.seats[seat].watch.look();
        let mut faults = (self.faults)();
        let begin = self.counter.read();
        self.pace.begin(begin);
        for number in 0..limits.events {
            let next = seat_of(number, limits.move_every, self.seats.len());
            if next != seat {
                seat = next;
                (self.go)(self.seats[seat].cpu)?;
                // Coming here took switches and interrupts, which are none of the event.
                self.seats[seat].watch.look();
                faults = (self.faults)();
                samples.moved.push(number as u32);
            }
            if number < FIRST_EVENTS {
                // What the loop itself touches for the first time is none of the event.
                faults = (self.faults)();
            }
            let before = self.counter.read();
            self.event.record();
            let after = self.counter.read();
            let ticks = after.wrapping_sub(before);
            samples.ticks.push(u32::try_from(ticks).unwrap_or(u32::MAX));
            quickest = quickest.min(ticks);
            if number < FIRST_EVENTS || ticks - quickest >= fault_above {
                let faults_before = std::mem::replace(&mut faults, (self.faults)());
                if faults != faults_before {
                    samples.faulted.push(number as u32);
                }
                // The first one is the quickest so far, and slow nevertheless.
                if number == 0 || ticks >= limits.look_above + 2 * quickest {
                    if is_disturbance(&self.seats[seat].watch.look()) {
                        samples.disturbed.push(number as u32);
                    }
                    faults = (self.faults)();
                }
            }
            // Relaxed: nothing else is said by it.
            if self.stop.load(Relaxed) {
                break;
            }
            let now = self.counter.read();
            self.pace
                .wait(now, u64::MAX, self.counter, &mut self.seats[seat].watch, self.stop);
        }
        Ok(samples)
    }
}

/// Which of the seats an event is measured on.
fn seat_of(number: usize, move_every: usize, seats: usize) -> usize {
    usize::from(seats > 1 && number > 0 && number.is_multiple_of(move_every))
}

/// Whether something took the CPU away.
fn is_disturbance(seen: &Seen) -> bool {
    matches!(Cause::of(seen), Cause::Switch | Cause::Steal | Cause::Interrupt)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use crate::event::NoEvent;
    use crate::pace::Unpaced;

    /// A clock that advances by 1 at each reading, except for events of given lengths.
    struct Lengths {
        now: u64,
        reading: usize,
        lengths: VecDeque<u64>,
    }

    impl Counter for Lengths {
        fn read(&mut self) -> u64 {
            // The first reading is that before the loop; each event has three, of which the second one is after it.
            let is_after = self.reading % 3 == 2;
            self.reading += 1;
            self.now += if is_after {
                self.lengths.pop_front().unwrap_or(10)
            } else {
                1
            };
            self.now
        }
    }

    /// Somebody who sees an interrupt in each look of these numbers.
    struct Interrupts {
        looks: u32,
        at: Vec<u32>,
    }

    impl Watch for Interrupts {
        fn look(&mut self) -> Seen {
            self.looks += 1;
            Seen {
                interrupts: Some(u64::from(self.at.contains(&self.looks))),
                ..Seen::default()
            }
        }
    }

    fn seat(cpu: u32, at: &[u32]) -> Seat<Interrupts> {
        Seat {
            cpu,
            watch: Interrupts {
                looks: 0,
                at: at.to_vec(),
            },
        }
    }

    /// Events of these lengths; `faults` has the number of page faults at each question.
    fn run(lengths: &[u64], seats: &mut [Seat<Interrupts>], faults: &[u64], limits: &Limits) -> (Samples, Vec<u32>) {
        let mut went = Vec::new();
        let mut faults = faults.iter().copied();
        let mut last = 0;
        let mut single = Single {
            clock: &Clock::MONOTONIC,
            counter: &mut Lengths {
                now: 0,
                reading: 0,
                lengths: lengths.iter().copied().collect(),
            },
            event: &mut NoEvent,
            pace: &mut Unpaced,
            seats,
            faults: || {
                last = faults.next().unwrap_or(last);
                last
            },
            go: |cpu| {
                went.push(cpu);
                Ok(())
            },
            stop: &AtomicBool::new(false),
        };
        let samples = single
            .run(limits, Samples::with_room(limits.events))
            .expect("it can move");
        (samples, went)
    }

    #[test]
    fn each_event_is_kept_and_slow_ones_are_looked_at() {
        let limits = Limits {
            events: 106,
            look_above: 500,
            move_every: 1000,
        };
        let mut lengths = vec![10; 106];
        (lengths[102], lengths[103], lengths[104], lengths[105]) = (159, 160, 519, 520);
        // After the look before the loop, the first event takes one, and then only the last one.
        let mut seats = [seat(3, &[1, 2, 3])];
        // One question before the loop, two for each of the first events, one after the look, then one for 103 and one for 104.
        let faults: Vec<u64> = [vec![5; 202], vec![6, 7]].concat();
        let (samples, went) = run(&lengths, &mut seats, &faults, &limits);
        assert_eq!(
            samples.ticks,
            lengths.iter().map(|ticks| *ticks as u32).collect::<Vec<_>>()
        );
        assert_eq!((samples.faulted, samples.disturbed), (vec![103, 104], vec![0, 105]));
        assert_eq!((samples.moved, went), (vec![], vec![]));
    }

    #[test]
    fn the_thread_moves_away_for_one_event_and_back() {
        let limits = Limits {
            events: 8,
            look_above: 500,
            move_every: 3,
        };
        let (samples, went) = run(&[], &mut [seat(1, &[]), seat(0, &[])], &[], &limits);
        assert_eq!(samples.moved, [3, 4, 6, 7]);
        assert_eq!(went, [0, 1, 0, 1]);
    }
}
