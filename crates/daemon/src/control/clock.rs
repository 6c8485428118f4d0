// SPDX-License-Identifier: MIT OR Apache-2.0
//! The clock of the traces: which one, how fast it is, and where it stands against the wall clock.
//!
//! The TSC is taken where the kernel keeps time with it, which means that it is invariant and the same on all CPUs. Its speed
//! is measured against CLOCK_MONOTONIC_RAW, once per boot, and kept in the run folder: traces of one boot agree on it.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::host;
use crate::link;
use crate::session::Moment;

const NS_PER_S: i128 = 1_000_000_000;
/// Between the two readings of a measurement. Each is good to some 20 ns: the speed comes out within one millionth.
const MEASURE_TIME: Duration = Duration::from_millis(50);

/// The clock of the traces.
#[derive(Debug)]
pub struct TraceClock {
    source: link::Clock,
    boot_id: String,
    speed: Speed,
    kept_at: PathBuf,
}

#[derive(Debug)]
enum Speed {
    Known {
        frequency_hz: u64,
    },
    /// Being measured since a moment.
    Measuring {
        since: Instant,
        ticks: u64,
        raw_ns: i128,
    },
}

/// What is kept in the run folder.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    boot: String,
    frequency_hz: u64,
}

impl TraceClock {
    /// Chooses the clock, and begins to measure it when no earlier pisted did.
    pub fn choose(run_folder: &Path, boot_id: &str) -> TraceClock {
        let source = match fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource") {
            Ok(name) if name.trim() == "tsc" && cfg!(target_arch = "x86_64") => link::Clock::Tsc,
            _ => link::Clock::Monotonic,
        };
        let kept_at = run_folder.join("clock");
        let speed = match source {
            link::Clock::Monotonic => Speed::Known {
                frequency_hz: NS_PER_S as u64,
            },
            link::Clock::Tsc => match kept(&kept_at, boot_id) {
                Some(frequency_hz) => Speed::Known { frequency_hz },
                None => {
                    let (ticks, raw_ns) = read_pair(ClockId::MonotonicRaw);
                    Speed::Measuring {
                        since: Instant::now(),
                        ticks,
                        raw_ns,
                    }
                }
            },
        };
        TraceClock {
            source,
            boot_id: boot_id.into(),
            speed,
            kept_at,
        }
    }

    /// The clock that programs read.
    pub fn source(&self) -> link::Clock {
        self.source
    }

    /// `x86-tsc` or `monotonic`.
    pub fn name(&self) -> &'static str {
        match self.source {
            link::Clock::Tsc => "x86-tsc",
            link::Clock::Monotonic => "monotonic",
        }
    }

    /// Ticks per second. Takes up to 50 ms the first time in a boot.
    pub fn frequency_hz(&mut self) -> u64 {
        match self.speed {
            Speed::Known { frequency_hz } => frequency_hz,
            Speed::Measuring { since, ticks, raw_ns } => {
                thread::sleep(MEASURE_TIME.saturating_sub(since.elapsed()));
                let (later_ticks, later_raw_ns) = read_pair(ClockId::MonotonicRaw);
                let frequency = i128::from(later_ticks - ticks) * NS_PER_S / (later_raw_ns - raw_ns);
                let frequency_hz = u64::try_from(frequency).expect("both clocks only grow").max(1);
                let kept = Kept {
                    boot: self.boot_id.clone(),
                    frequency_hz,
                };
                // Only spares the next pisted the measurement.
                let _ = fs::write(&self.kept_at, serde_json::to_vec(&kept).unwrap_or_default());
                self.speed = Speed::Known { frequency_hz };
                frequency_hz
            }
        }
    }

    /// What a trace that begins now says about its clock.
    pub fn describe(&mut self) -> piste_ctf::Clock {
        let frequency_hz = self.frequency_hz();
        let (ticks, wall_ns) = match self.source {
            link::Clock::Tsc => read_pair(ClockId::Realtime),
            link::Clock::Monotonic => read_monotonic(),
        };
        let (offset_seconds, offset_ticks) = offset(ticks, wall_ns, frequency_hz);
        piste_ctf::Clock {
            name: self.name().into(),
            uuid: host::uuid_bytes(&self.boot_id).unwrap_or_default(),
            frequency_hz,
            offset_seconds,
            offset_ticks,
            description: match self.source {
                link::Clock::Tsc => "Time stamp counter of the CPU".into(),
                link::Clock::Monotonic => "CLOCK_MONOTONIC".into(),
            },
        }
    }
}

/// Now, for the times of sessions.
pub fn now() -> Moment {
    let ns = |clock| u64::try_from(read_ns(clock)).unwrap_or(0);
    Moment {
        wall_ns: ns(ClockId::Realtime),
        boot_ns: ns(ClockId::Boottime),
    }
}

fn kept(path: &Path, boot_id: &str) -> Option<u64> {
    let kept: Kept = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    (kept.boot == boot_id && kept.frequency_hz > 0).then_some(kept.frequency_hz)
}

/// Seconds and ticks to add to a timestamp to get the wall time.
fn offset(ticks: u64, wall_ns: i128, frequency_hz: u64) -> (i64, u64) {
    let frequency = i128::from(frequency_hz);
    let offset_ticks = wall_ns * frequency / NS_PER_S - i128::from(ticks);
    (
        offset_ticks.div_euclid(frequency) as i64,
        offset_ticks.rem_euclid(frequency) as u64,
    )
}

fn read_ns(clock: ClockId) -> i128 {
    let time = clock_gettime(clock);
    i128::from(time.tv_sec) * NS_PER_S + i128::from(time.tv_nsec)
}

/// TSC and another clock at the same moment: of some tries, the one that took the least time.
fn read_pair(clock: ClockId) -> (u64, i128) {
    let attempt = |_| {
        let before = read_tsc();
        let ns = read_ns(clock);
        let after = read_tsc();
        (
            after.wrapping_sub(before),
            (before + after.wrapping_sub(before) / 2, ns),
        )
    };
    (0..16)
        .map(attempt)
        .min_by_key(|&(took, _)| took)
        .expect("there were tries")
        .1
}

fn read_monotonic() -> (u64, i128) {
    let monotonic_ns = read_ns(ClockId::Monotonic);
    (monotonic_ns as u64, read_ns(ClockId::Realtime))
}

#[cfg(target_arch = "x86_64")]
fn read_tsc() -> u64 {
    tick_counter::x86_64_tick_counter()
}

#[cfg(not(target_arch = "x86_64"))]
fn read_tsc() -> u64 {
    unreachable!("the TSC is chosen on x86 only")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_leads_from_a_timestamp_to_wall_time() {
        let frequency_hz = 3_000_000_000;
        let (ticks, wall_ns) = (90_000_000_123, 1_700_000_000_500_000_000);
        let (seconds, offset_ticks) = offset(ticks, wall_ns, frequency_hz);
        assert!(offset_ticks < frequency_hz);
        let total = i128::from(seconds) * i128::from(frequency_hz) + i128::from(offset_ticks) + i128::from(ticks);
        assert_eq!(total * NS_PER_S / i128::from(frequency_hz), wall_ns);
    }

    #[test]
    fn a_clock_slower_than_its_boot_has_a_negative_offset() {
        assert_eq!(offset(10, 0, 4), (-3, 2));
    }

    #[test]
    fn the_speed_is_measured_once_per_boot() {
        let folder = tempfile::tempdir().unwrap();
        let measured = TraceClock::choose(folder.path(), "boot-1").frequency_hz();
        assert_eq!(TraceClock::choose(folder.path(), "boot-1").frequency_hz(), measured);
        fs::write(folder.path().join("clock"), r#"{"boot":"boot-1","frequency_hz":5}"#).unwrap();
        assert_ne!(TraceClock::choose(folder.path(), "boot-2").frequency_hz(), 5);
    }
}
