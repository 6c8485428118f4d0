// SPDX-License-Identifier: MIT OR Apache-2.0
//! The time stamp counter of x86-64: whether it can be used as a clock, and how fast it is.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::time::ClockId;

use crate::clock::{Clock, ClockKind, Counter, FrequencySource, NS_PER_S, nanoseconds};
use crate::system::time_stamp_counter;

/// Between the two readings that evaluate the frequency. Each is good to some 20 ns, so the frequency is within one millionth.
const EVALUATION: Duration = Duration::from_millis(100);
/// Attempts at reading two clocks at the same time, of which the quickest counts.
const READINGS: usize = 64;

/// The time stamp counter.
pub(crate) struct Tsc;

impl Counter for Tsc {
    #[inline(always)]
    fn read(&mut self) -> u64 {
        time_stamp_counter()
    }
}

/// The counter as a clock, if its ticks are of the same length all the time and on all CPUs. `root` has the machine's /proc and /sys.
///
/// # Errors
/// Why it cannot be used.
pub(crate) fn usable(root: &Path) -> Result<Clock, String> {
    let line_of = |file: &str, key: &str| {
        let text = fs::read_to_string(root.join(file)).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with(key)).map(str::to_owned);
        line.unwrap_or_default()
    };
    let flags = line_of("proc/cpuinfo", "flags");
    let has_flag = |flag: &str| flags.split_ascii_whitespace().any(|word| word == flag);
    for (flag, without) in [
        ("constant_tsc", "its speed depends on the speed of the CPU"),
        ("nonstop_tsc", "it stops while a CPU is idle"),
    ] {
        if !has_flag(flag) {
            return Err(format!(
                "the time stamp counter cannot be used: {without} (/proc/cpuinfo lacks the flag {flag})"
            ));
        }
    }
    let sources = line_of("sys/devices/system/clocksource/clocksource0/available_clocksource", "");
    if !sources.split_ascii_whitespace().any(|name| name == "tsc") {
        return Err(
            "the time stamp counter cannot be used: the kernel found that it is not the same on all CPUs, or is unstable (tsc is not in available_clocksource)"
                .into(),
        );
    }
    let told = line_of("sys/devices/system/cpu/cpu0/tsc_freq_khz", "");
    let (frequency_hz, frequency_source) = match told.trim().parse::<u64>() {
        Ok(frequency_khz) if frequency_khz > 0 => (frequency_khz.saturating_mul(1000), FrequencySource::Kernel),
        _ => (evaluated_hz(), FrequencySource::Evaluated),
    };
    Ok(Clock {
        kind: ClockKind::Tsc,
        frequency_hz,
        frequency_source,
        why_not_tsc: None,
    })
}

/// Ticks of the time stamp counter per second. The CPU is busy meanwhile, so it runs as fast as it does in a loop.
fn evaluated_hz() -> u64 {
    let (ticks, raw_ns) = read_pair();
    let began = Instant::now();
    while began.elapsed() < EVALUATION {
        std::hint::spin_loop();
    }
    let (later_ticks, later_raw_ns) = read_pair();
    let (ticks, ns) = (later_ticks - ticks, later_raw_ns - raw_ns);
    let frequency_hz = u128::from(ticks) * u128::from(NS_PER_S) / u128::from(ns.max(1));
    u64::try_from(frequency_hz).unwrap_or(u64::MAX).max(1)
}

/// The time stamp counter and CLOCK_MONOTONIC_RAW, in nanoseconds, at the same moment.
fn read_pair() -> (u64, u64) {
    let read = |_| {
        let before = time_stamp_counter();
        let raw_ns = nanoseconds(ClockId::MonotonicRaw);
        let after = time_stamp_counter();
        (
            after.saturating_sub(before),
            before + after.saturating_sub(before) / 2,
            raw_ns,
        )
    };
    let quickest = (0..READINGS).map(read).min().expect("there are several");
    (quickest.1, quickest.2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ClockChoice;

    /// A made-up machine.
    fn machine(flags: &str, sources: &str, told: Option<&str>) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        let write = |file: &str, text: &str| {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().expect("it has one")).expect("it can be made");
            fs::write(path, text).expect("it can be written");
        };
        write("proc/cpuinfo", &format!("processor\t: 0\nflags\t\t: {flags}\n"));
        write(
            "sys/devices/system/clocksource/clocksource0/available_clocksource",
            sources,
        );
        if let Some(told) = told {
            write("sys/devices/system/cpu/cpu0/tsc_freq_khz", told);
        }
        root
    }

    #[test]
    fn the_counter_is_used_where_the_kernel_trusts_it() {
        let flags = "fpu tsc constant_tsc nonstop_tsc";
        let good = machine(flags, "tsc hpet \n", Some("2500000\n"));
        let clock = Clock::choose(ClockChoice::Auto, good.path()).expect("it can be used");
        assert_eq!((clock.kind, clock.frequency_hz), (ClockKind::Tsc, 2_500_000_000));
        assert_eq!(clock.frequency_source, FrequencySource::Kernel);
        let wanted = Clock::choose(ClockChoice::Monotonic, good.path());
        assert_eq!(wanted, Ok(Clock::MONOTONIC));
        for (flags, sources, reason) in [
            ("fpu tsc nonstop_tsc", "tsc", "constant_tsc"),
            ("fpu tsc constant_tsc", "tsc", "nonstop_tsc"),
            (flags, "hpet acpi_pm", "available_clocksource"),
        ] {
            let bad = machine(flags, sources, None);
            let refused = Clock::choose(ClockChoice::Tsc, bad.path()).expect_err("it cannot be used");
            assert!(refused.contains(reason), "{refused}");
            let clock = Clock::choose(ClockChoice::Auto, bad.path()).expect("another one");
            assert_eq!((clock.kind, clock.why_not_tsc), (ClockKind::Monotonic, Some(refused)));
        }
    }

    #[test]
    fn evaluated_frequencies_agree() {
        let [one, other] = [evaluated_hz(), evaluated_hz()];
        // A hypervisor may stop this CPU between two readings: far more than that would be wrong.
        assert!(one.abs_diff(other) < one / 100, "{one} {other}");
    }
}
