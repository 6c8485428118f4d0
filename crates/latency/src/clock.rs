// SPDX-License-Identifier: MIT OR Apache-2.0
//! The clock that a loop reads, and what one of its ticks is worth. Reading the time stamp counter takes half of the time that a clock of
//! the kernel takes, so it is what gaps are measured with, where its ticks are of the same length all the time and on all CPUs.

use std::path::Path;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

#[cfg(target_arch = "x86_64")]
use crate::tsc;

pub(crate) const NS_PER_S: u64 = 1_000_000_000;
/// Which clock is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockChoice {
    /// The time stamp counter where it can be used, else CLOCK_MONOTONIC.
    Auto,
    /// The time stamp counter.
    Tsc,
    /// CLOCK_MONOTONIC.
    Monotonic,
}

/// Which clock it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClockKind {
    /// The time stamp counter of x86-64.
    Tsc,
    /// CLOCK_MONOTONIC: a tick is a nanosecond.
    Monotonic,
}

/// Who says how fast the clock is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FrequencySource {
    /// It is so by definition.
    Definition,
    /// The kernel, in a file.
    Kernel,
    /// It was compared with CLOCK_MONOTONIC_RAW while the CPU was busy.
    Evaluated,
}

/// A clock, and how fast it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clock {
    /// Which one.
    pub kind: ClockKind,
    /// Ticks per second.
    pub frequency_hz: u64,
    /// Who says so.
    pub frequency_source: FrequencySource,
    /// Why it is not the time stamp counter, as a sentence without its end; absent if that was not wanted.
    pub why_not_tsc: Option<String>,
}

impl Clock {
    /// CLOCK_MONOTONIC.
    pub const MONOTONIC: Clock = Clock {
        kind: ClockKind::Monotonic,
        frequency_hz: NS_PER_S,
        frequency_source: FrequencySource::Definition,
        why_not_tsc: None,
    };

    /// The wanted clock. `root` has the machine's /proc and /sys. Takes a tenth of a second, busily, if the frequency must be evaluated.
    ///
    /// # Errors
    /// Why the time stamp counter cannot be used, if nothing else is wanted.
    pub fn choose(choice: ClockChoice, root: &Path) -> Result<Clock, String> {
        if choice == ClockChoice::Monotonic {
            return Ok(Clock::MONOTONIC);
        }
        match (tsc::usable(root), choice) {
            (Ok(clock), _) => Ok(clock),
            (Err(reason), ClockChoice::Tsc) => Err(reason),
            (Err(reason), _) => Ok(Clock {
                why_not_tsc: Some(reason),
                ..Clock::MONOTONIC
            }),
        }
    }

    /// So many ticks in nanoseconds.
    pub fn ns(&self, ticks: f64) -> f64 {
        ticks * NS_PER_S as f64 / self.frequency_hz as f64
    }

    /// So many ticks in whole nanoseconds.
    pub fn whole_ns(&self, ticks: u64) -> u64 {
        let ns = u128::from(ticks) * u128::from(NS_PER_S) / u128::from(self.frequency_hz);
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    /// How many ticks are at least so long.
    pub fn ticks(&self, duration: Duration) -> u64 {
        let ticks = (duration.as_nanos() * u128::from(self.frequency_hz)).div_ceil(u128::from(NS_PER_S));
        u64::try_from(ticks).unwrap_or(u64::MAX)
    }
}

/// What a loop reads. Implemented for the clocks, and by tests.
pub(crate) trait Counter {
    /// Ticks since some moment.
    fn read(&mut self) -> u64;
}

/// CLOCK_MONOTONIC.
pub(crate) struct Monotonic;

impl Counter for Monotonic {
    #[inline]
    fn read(&mut self) -> u64 {
        nanoseconds(ClockId::Monotonic)
    }
}

/// What a clock of the kernel shows.
pub(crate) fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec.cast_unsigned() * NS_PER_S + time.tv_nsec.cast_unsigned()
}

#[cfg(not(target_arch = "x86_64"))]
mod tsc {
    //! Other processors have no time stamp counter.

    pub(super) fn usable(_root: &std::path::Path) -> Result<super::Clock, String> {
        Err("there is no time stamp counter on this kind of processor".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_and_nanoseconds_are_converted() {
        let clock = Clock {
            kind: ClockKind::Tsc,
            frequency_hz: 2_500_000_000,
            frequency_source: FrequencySource::Evaluated,
            why_not_tsc: None,
        };
        assert_eq!(clock.ticks(Duration::from_micros(1)), 2500);
        assert_eq!(clock.whole_ns(2_500), 1000);
        assert_eq!(clock.whole_ns(2_500_000_000 * 86_400), 86_400 * NS_PER_S);
        assert!((clock.ns(5.0) - 2.0).abs() < 1e-9);
    }
}
