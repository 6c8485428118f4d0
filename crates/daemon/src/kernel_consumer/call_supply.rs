// SPDX-License-Identifier: MIT OR Apache-2.0
//! The records that the BPF program makes on a CPU, with their times in ticks of the trace's clock.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use piste_bpf::{Program, Ring};
use piste_kernel::filled_ring::Supply;
use piste_ring::ClockSource;

use crate::consumer::clock;

/// The records of a CPU.
#[derive(Debug)]
pub(super) struct CallSupply {
    program: Arc<Program>,
    cpu: u32,
    ring: Ring,
    times: Times,
}

impl CallSupply {
    /// # Errors
    /// The ring cannot be mapped.
    pub(super) fn open(
        program: Arc<Program>,
        cpu: u32,
        clock: ClockSource,
        frequency_hz: u64,
    ) -> io::Result<CallSupply> {
        let ring = program.ring(cpu)?;
        let times = Times::begin(clock, frequency_hz);
        Ok(CallSupply {
            program,
            cpu,
            ring,
            times,
        })
    }
}

impl Supply for CallSupply {
    fn next(&mut self) -> Option<(u64, &[u8])> {
        let sample = self.ring.take_next()?;
        Some((self.times.ticks(sample.time_ns), sample.record))
    }

    fn position(&self) -> u64 {
        self.ring.position()
    }

    fn rewind(&mut self, position: u64) {
        self.ring.rewind(position);
    }

    fn release(&mut self, position: u64) {
        self.ring.release(position);
    }

    fn filled_bytes(&self) -> u64 {
        self.ring.filled_bytes()
    }

    fn left(&self) -> u64 {
        self.ring.left()
    }

    fn lost(&self) -> io::Result<u64> {
        Ok(self.program.counts(self.cpu)?.lost)
    }

    fn now_ticks(&self) -> u64 {
        clock::now_ticks(self.times.clock)
    }
}

impl AsFd for CallSupply {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }
}

/// Times of BPF programs are those of CLOCK_MONOTONIC. In between two readings of both clocks, its speed is taken to be constant: it is corrected by
/// so little that the error is some nanoseconds.
#[derive(Debug)]
struct Times {
    clock: ClockSource,
    before: Reading,
    latest: Reading,
}

/// Both clocks at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reading {
    ns: u64,
    ticks: u64,
}

impl Times {
    /// Records may be there from before, when somebody else read the ring: their times are as far back as the frequency says.
    fn begin(clock: ClockSource, frequency_hz: u64) -> Times {
        let latest = Reading::take(clock);
        Times {
            clock,
            before: latest.a_second_before(frequency_hz),
            latest,
        }
    }

    /// The ticks of a time that has passed.
    fn ticks(&mut self, ns: u64) -> u64 {
        if self.clock == ClockSource::Monotonic {
            return ns;
        }
        if ns > self.latest.ns {
            self.before = std::mem::replace(&mut self.latest, Reading::take(self.clock));
        }
        between(self.before, self.latest, ns)
    }
}

fn between(before: Reading, latest: Reading, ns: u64) -> u64 {
    let passed_ns = i128::from(latest.ns) - i128::from(before.ns);
    if passed_ns <= 0 {
        return latest.ticks;
    }
    let passed_ticks = i128::from(latest.ticks) - i128::from(before.ticks);
    let since_ns = i128::from(ns) - i128::from(before.ns);
    let ticks = i128::from(before.ticks) + since_ns * passed_ticks / passed_ns;
    ticks.try_into().unwrap_or(0)
}

impl Reading {
    fn a_second_before(self, frequency_hz: u64) -> Reading {
        Reading {
            ns: self.ns.saturating_sub(1_000_000_000),
            ticks: self.ticks.saturating_sub(frequency_hz),
        }
    }

    /// Of some readings, the one counts that took the least time.
    fn take(clock: ClockSource) -> Reading {
        const READINGS: usize = 5;
        let read = |_| {
            let begin = clock::now_ticks(clock);
            let ns = clock::now_ticks(ClockSource::Monotonic);
            let took = clock::now_ticks(clock).saturating_sub(begin);
            let ticks = begin + took / 2;
            (took, Reading { ns, ticks })
        };
        let best = (0..READINGS).map(read).min_by_key(|(took, _)| *took);
        best.map_or(Reading { ns: 0, ticks: 0 }, |(_, reading)| reading)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_between_two_readings_are_in_proportion() {
        let (before, latest) = (Reading { ns: 1000, ticks: 5000 }, Reading { ns: 2000, ticks: 8000 });
        for (ns, ticks) in [(1000, 5000), (1500, 6500), (2000, 8000), (900, 4700)] {
            assert_eq!(between(before, latest, ns), ticks, "{ns}");
        }
        assert_eq!(between(latest, latest, 1), 8000);
    }

    #[test]
    fn times_before_the_first_reading_go_by_the_frequency() {
        let latest = Reading {
            ns: 7_000_000_000,
            ticks: 20_000_000_000,
        };
        let before = latest.a_second_before(2_000_000_000);
        assert_eq!(between(before, latest, 4_500_000_000), 15_000_000_000);
    }

    #[test]
    fn a_time_has_the_ticks_of_the_moment() {
        let clock = ClockSource::Tsc;
        let mut times = Times::begin(clock, 1_000_000_000);
        for _ in 0..100 {
            let before = clock::now_ticks(clock);
            let ns = clock::now_ticks(ClockSource::Monotonic);
            let after = clock::now_ticks(clock);
            // A reading may be off by the time that it takes.
            let slack = 20 * (after - before) + 2000;
            let ticks = times.ticks(ns);
            assert!(
                ticks + slack >= before && ticks <= after + slack,
                "{before} {ticks} {after}"
            );
        }
    }
}
