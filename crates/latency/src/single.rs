// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events one at a time. The clock is read before and after each event, and each time is kept, so that the slow ones can be told apart afterwards: the
//! first event of the thread, one that touches memory for the first time, one that begins a sub-buffer, one after the thread came to another CPU.
//!
//! Between two events, the loop waits until the next one is due, and moves to the other CPU and back from time to time.
//!
//! An event that took longer than the quickest one by as much as an interrupt takes is looked at, as a gap of the tight loop is (spin.rs): was it
//! interrupted? Page faults are looked for sooner, because one may be quick, and so is asking the kernel for them. A fault in an event for which the
//! kernel is not asked counts as one of the next event for which it is. Reading the kernel's counters changes what is in the caches, so the event after
//! that is marked, and compared with the quickest of such events: otherwise one look would lead to the next.

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

/// Slow events vary more: nothing is looked for in those that take longer than the quickest one by less than this part of it.
const SLOW_PART: u64 = 4;

/// A CPU on which events are measured.
pub(crate) struct MeasuredCpu<W> {
    /// Which one.
    pub(crate) cpu: u32,
    /// Whoever knows what happens there.
    pub(crate) watch: W,
}

/// How many events there are, and which of them are looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Events at most.
    pub(crate) events: usize,
    /// An event that took so many ticks longer than the quickest one is looked at.
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
    /// Of those that may have been slower because the kernel's counters were read just before.
    pub(crate) after_look: Vec<u32>,
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
            after_look: filled(),
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
    pub(crate) cpus: &'s mut [MeasuredCpu<W>],
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
        let (mut place, mut quickest) = (0, u64::MAX);
        // Of those right after a look.
        let mut quickest_after_look = None;
        self.cpus[place].watch.look();
        let mut faults = (self.faults)();
        let mut last = self.counter.read();
        self.pace.begin(last);
        let mut is_after_look = true;
        for number in 0..limits.events {
            let next = place_of(number, limits.move_every, self.cpus.len());
            let has_moved = next != place;
            if has_moved {
                place = next;
                (self.go)(self.cpus[place].cpu)?;
                samples.moved.push(number as u32);
            }
            let is_early = number < FIRST_EVENTS;
            let mut before = self.counter.read();
            // Whatever came on the way here is not part of the event.
            if has_moved || before.wrapping_sub(last) >= limits.look_above {
                self.cpus[place].watch.look();
                is_after_look = true;
            }
            if is_early || is_after_look {
                faults = (self.faults)();
                before = self.counter.read();
            }
            self.event.record();
            let after = self.counter.read();
            let ticks = after.wrapping_sub(before);
            samples.ticks.push(u32::try_from(ticks).unwrap_or(u32::MAX));
            quickest = quickest.min(ticks);
            let mut usual = quickest;
            if is_after_look && !is_early {
                usual = quickest_after_look.unwrap_or(quickest);
                quickest_after_look = Some(quickest_after_look.map_or(ticks, |quickest: u64| quickest.min(ticks)));
            }
            if is_early || is_after_look {
                samples.after_look.push(number as u32);
            }
            is_after_look = false;
            let varies = usual / SLOW_PART;
            if is_early || ticks - quickest >= fault_above.max(varies) {
                let faults_before = std::mem::replace(&mut faults, (self.faults)());
                if faults != faults_before {
                    samples.faulted.push(number as u32);
                }
                // The first one is the quickest so far, and slow nevertheless.
                if number == 0 || ticks.saturating_sub(usual) >= limits.look_above.max(varies) {
                    if is_disturbance(&self.cpus[place].watch.look()) {
                        samples.disturbed.push(number as u32);
                    }
                    is_after_look = true;
                }
            }
            // Relaxed: nothing else is said by it.
            if self.stop.load(Relaxed) {
                break;
            }
            let blind_ticks = self.pace.blind_ticks();
            let watch = &mut self.cpus[place].watch;
            last = self.counter.read();
            if !is_after_look && last.wrapping_sub(after) >= limits.look_above {
                watch.look();
                is_after_look = true;
            }
            last = self.pace.wait(last, u64::MAX, self.counter, watch, self.stop);
            is_after_look |= self.pace.blind_ticks() != blind_ticks;
        }
        Ok(samples)
    }
}

/// Which of the CPUs an event is measured on.
fn place_of(number: usize, move_every: usize, cpus: usize) -> usize {
    usize::from(cpus > 1 && number > 0 && number.is_multiple_of(move_every))
}

/// Whether something took the CPU away.
fn is_disturbance(seen: &Seen) -> bool {
    matches!(Cause::of(seen), Cause::Switch | Cause::Steal | Cause::Interrupt)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::VecDeque;

    use super::*;
    use crate::pace::Unpaced;

    /// A clock that advances by 1 at each reading.
    struct Ticking<'t>(&'t Cell<u64>);

    impl Counter for Ticking<'_> {
        fn read(&mut self) -> u64 {
            self.0.set(self.0.get() + 1);
            self.0.get()
        }
    }

    /// Events that take as long as they are said to, with the reading after them.
    struct Lengths<'t> {
        now: &'t Cell<u64>,
        lengths: VecDeque<u64>,
    }

    impl Event for Lengths<'_> {
        fn record(&mut self) {
            let ticks = self.lengths.pop_front().unwrap_or(10);
            self.now.set(self.now.get() + ticks - 1);
        }

        fn count(&self) -> u64 {
            0
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

    fn measured_cpu(cpu: u32, at: &[u32]) -> MeasuredCpu<Interrupts> {
        MeasuredCpu {
            cpu,
            watch: Interrupts {
                looks: 0,
                at: at.to_vec(),
            },
        }
    }

    /// Events of these lengths; `faults` has the number of page faults at each question.
    fn run(
        lengths: &[u64],
        cpus: &mut [MeasuredCpu<Interrupts>],
        faults: &[u64],
        limits: &Limits,
    ) -> (Samples, Vec<u32>) {
        let now = Cell::new(0);
        let mut went = Vec::new();
        let mut faults = faults.iter().copied();
        let mut last = 0;
        let mut single = Single {
            clock: &Clock::MONOTONIC,
            counter: &mut Ticking(&now),
            event: &mut Lengths {
                now: &now,
                lengths: lengths.iter().copied().collect(),
            },
            pace: &mut Unpaced,
            cpus,
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
        (lengths[102], lengths[103], lengths[104]) = (159, 160, 510);
        // After the look before the loop, the first event takes one, and then only number 104.
        let mut cpus = [measured_cpu(3, &[1, 2, 3])];
        // One question before the loop, two for each of the first events, then one for 103, one for 104 and one after its look.
        let faults: Vec<u64> = [vec![5; 201], vec![6, 7, 8]].concat();
        let (samples, went) = run(&lengths, &mut cpus, &faults, &limits);
        assert_eq!(
            samples.ticks,
            lengths.iter().map(|ticks| *ticks as u32).collect::<Vec<_>>()
        );
        assert_eq!((samples.faulted, samples.disturbed), (vec![103, 104], vec![0, 104]));
        let after_look: Vec<u32> = (0..100).chain([105]).collect();
        assert_eq!((samples.moved, samples.after_look, went), (vec![], after_look, vec![]));
    }

    #[test]
    fn an_event_is_not_looked_at_because_of_the_look_before_it() {
        let limits = Limits {
            events: 108,
            look_above: 500,
            move_every: 1000,
        };
        let mut lengths = vec![10; 108];
        // How slow an event is after a look shows at 103, which is looked at, too. 106 is interrupted.
        lengths[102..107].copy_from_slice(&[510, 600, 610, 10, 520]);
        let mut cpus = [measured_cpu(3, &[5])];
        let (samples, _) = run(&lengths, &mut cpus, &[], &limits);
        assert_eq!(samples.disturbed, [106]);
        let after_look: Vec<u32> = (0..100).chain([103, 104, 107]).collect();
        assert_eq!((samples.after_look, cpus[0].watch.looks), (after_look, 5));
    }

    #[test]
    fn the_thread_moves_away_for_one_event_and_back() {
        let limits = Limits {
            events: 8,
            look_above: 500,
            move_every: 3,
        };
        let (samples, went) = run(&[], &mut [measured_cpu(1, &[]), measured_cpu(0, &[])], &[], &limits);
        assert_eq!(samples.moved, [3, 4, 6, 7]);
        assert_eq!(went, [0, 1, 0, 1]);
    }
}
