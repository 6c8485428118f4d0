// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the times of a file mean: nanoseconds of one of the kernel's clocks, or ticks of a counter.

use piste_ctf::Clock;

use super::options::{Options, Tsc};
use crate::notes::Notes;

const NS: u64 = 1_000_000_000;

/// The clock of a buffer, as a trace tells it. `first_ticks` is the time at which a clock whose ticks are no nanoseconds is exact.
pub(crate) fn clock(name: &str, options: &Options, first_ticks: u64, notes: &mut Notes) -> Clock {
    let counts_ns = matches!(
        name,
        "local" | "global" | "perf" | "mono" | "mono_raw" | "boot" | "tai" | "uptime"
    );
    let frequency_hz = match options.tsc.filter(|_| !counts_ns) {
        Some(tsc) => tsc.frequency_hz(),
        None => NS,
    };
    if !counts_ns && options.tsc.is_none() {
        let name = if name.is_empty() {
            "that the file does not name"
        } else {
            name
        };
        notes.say(format!(
            "times are in ticks of the clock {name}, shown as nanoseconds: the file does not contain the length of a tick"
        ));
    }
    if options.is_shifted {
        notes.say("times were not adjusted to those of the host on which this guest ran");
    }
    if options.date_ns.is_none() {
        notes.say(
            "times do not count from 1970: the file does not contain the time of day (trace-cmd record --date adds it)",
        );
    }
    let added_ns = i128::from(options.date_ns.unwrap_or(0)) + i128::from(options.offset_ns);
    let offset_ns = match options.tsc.filter(|_| !counts_ns) {
        Some(tsc) => tsc.nanoseconds(first_ticks) - elapsed_ns(first_ticks, frequency_hz) + added_ns,
        None => added_ns,
    };
    let (offset_seconds, rest_ns) = (offset_ns.div_euclid(NS.into()), offset_ns.rem_euclid(NS.into()));
    Clock {
        name: clock_name(name),
        uuid: [0; 16],
        frequency_hz,
        offset_seconds: i64::try_from(offset_seconds).unwrap_or(0),
        // Rounded up, as readers round down.
        offset_ticks: (rest_ns as u128 * u128::from(frequency_hz)).div_ceil(NS.into()) as u64,
        description: format!("Trace clock {name} of the kernel"),
    }
}

/// As traces of Piste call it.
fn clock_name(name: &str) -> String {
    match name {
        "mono" => "monotonic".to_owned(),
        "" => "unknown".to_owned(),
        name => name.to_owned(),
    }
}

fn elapsed_ns(ticks: u64, frequency_hz: u64) -> i128 {
    (u128::from(ticks) * u128::from(NS) / u128::from(frequency_hz)) as i128
}

impl Tsc {
    fn frequency_hz(self) -> u64 {
        let ticks = (u128::from(NS) << self.shift) + u128::from(self.multiplier / 2);
        u64::try_from(ticks / u128::from(self.multiplier)).unwrap_or(u64::MAX)
    }

    fn nanoseconds(self, ticks: u64) -> i128 {
        ((u128::from(ticks) * u128::from(self.multiplier)) >> self.shift) as i128
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(tsc: Option<Tsc>, date_ns: Option<i64>) -> Options {
        Options {
            tsc,
            date_ns,
            ..Options::default()
        }
    }

    #[test]
    fn ticks_of_a_counter_become_nanoseconds_with_what_the_file_tells() {
        let tsc = Tsc {
            multiplier: 700_000_000,
            shift: 31,
        };
        let first_ticks = 3_000_000_000_000_u64;
        let clock = clock(
            "x86-tsc",
            &options(Some(tsc), Some(5)),
            first_ticks,
            &mut Notes::default(),
        );
        assert_eq!(clock.frequency_hz, 3_067_833_783);
        let exact = ((u128::from(first_ticks) * 700_000_000) >> 31) + 5;
        let ticks = u128::from(clock.offset_ticks + first_ticks) * 1_000_000_000;
        let shown = clock.offset_seconds as i128 * 1_000_000_000 + (ticks / u128::from(clock.frequency_hz)) as i128;
        assert!((shown - exact as i128).abs() <= 1, "{shown} {exact}");
    }

    #[test]
    fn what_a_file_does_not_tell_of_its_clock_is_said() {
        let said = |name: &str, options: &Options| {
            let mut notes = Notes::default();
            clock(name, options, 0, &mut notes);
            notes.into_sentences().len()
        };
        assert_eq!(said("local", &options(None, Some(1))), 0);
        assert_eq!(said("local", &options(None, None)), 1);
        assert_eq!(said("counter", &options(None, None)), 2);
    }

    #[test]
    fn times_before_1970_have_an_offset_below_zero() {
        let clock = clock("mono", &options(None, Some(-1)), 0, &mut Notes::default());
        assert_eq!((clock.offset_seconds, clock.offset_ticks), (-1, 999_999_999));
        assert_eq!(clock.name, "monotonic");
    }
}
