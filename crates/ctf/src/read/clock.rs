// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cycles of a clock to nanoseconds since its origin, and back.

use super::schema::Clock;

const NANOSECONDS: i64 = 1_000_000_000;

/// What a clock's cycles are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockScale {
    frequency_hz: u64,
    /// The clock's offset; absent when it exceeds what 64 bits hold.
    offset_ns: Option<i64>,
}

impl ClockScale {
    /// Of a clock.
    pub fn new(clock: &Clock) -> ClockScale {
        let mut scale = ClockScale {
            frequency_hz: clock.frequency_hz,
            offset_ns: None,
        };
        // A second is left for the cycles.
        let seconds_max = i64::MAX / NANOSECONDS - 1;
        if (-seconds_max..seconds_max).contains(&clock.offset_seconds) {
            scale.offset_ns = scale
                .span(clock.offset_cycles)
                .map(|cycles| clock.offset_seconds * NANOSECONDS + cycles);
        }
        scale
    }

    /// Nanoseconds since the clock's origin; `None` when 64 bits do not hold them.
    #[inline]
    pub fn nanoseconds(&self, cycles: u64) -> Option<i64> {
        self.offset_ns?.checked_add(self.span(cycles)?)
    }

    /// The lowest number of cycles whose time is `ns` or later; `None` when there is none.
    pub fn cycles_from(&self, ns: i64) -> Option<u64> {
        let wanted = i128::from(ns) - i128::from(self.offset_ns?);
        let wanted = u64::try_from(wanted.max(0)).ok()?;
        if self.frequency_hz == NANOSECONDS as u64 || wanted == 0 {
            return self.nanoseconds(wanted).map(|_| wanted);
        }
        // Times never fall when cycles grow; those that 64 bits do not hold are later than all.
        let is_there = |cycles: u64| self.nanoseconds(cycles).is_none_or(|at| at >= ns);
        let exact = u128::from(wanted) * u128::from(self.frequency_hz) / NANOSECONDS as u128;
        // Near the exact number, as near as rounding is good.
        let mut below = u64::try_from(exact).ok()?;
        let mut step = 1;
        while below > 0 && is_there(below) {
            below = below.saturating_sub(step);
            step *= 2;
        }
        if is_there(below) {
            return Some(below);
        }
        step = 1;
        let mut there = below.checked_add(1)?;
        while !is_there(there) {
            below = there;
            there = there.checked_add(step)?;
            step = step.saturating_mul(2);
        }
        while there - below > 1 {
            let middle = below + (there - below) / 2;
            *(if is_there(middle) { &mut there } else { &mut below }) = middle;
        }
        self.nanoseconds(there).map(|_| there)
    }

    /// Readers of CTF have always rounded as binary64 does; times in other tools' output can be searched for only when they are the same.
    #[inline]
    fn span(&self, cycles: u64) -> Option<i64> {
        if self.frequency_hz == NANOSECONDS as u64 {
            return i64::try_from(cycles).ok();
        }
        // Numbers with a sign are converted faster.
        let cycles = i64::try_from(cycles).map_or(cycles as f64, |cycles| cycles as f64);
        let ns = NANOSECONDS as f64 * cycles / self.frequency_hz as f64;
        (ns < i64::MAX as f64).then_some(ns as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::schema::Identity;

    fn clock(frequency_hz: u64, offset_seconds: i64, offset_cycles: u64) -> ClockScale {
        ClockScale::new(&Clock {
            name: "c".into(),
            uuid: None,
            identity: Identity::default(),
            description: String::new(),
            frequency_hz,
            precision_cycles: None,
            accuracy_cycles: None,
            offset_seconds,
            offset_cycles,
            is_unix_epoch: true,
            origin: None,
        })
    }

    #[test]
    fn cycles_and_offset_become_nanoseconds() {
        assert_eq!(clock(1_000_000_000, 1, 5).nanoseconds(10), Some(1_000_000_015));
        assert_eq!(clock(1000, 1, 500).nanoseconds(1), Some(1_501_000_000));
        assert_eq!(clock(3, 0, 0).nanoseconds(1), Some(333_333_333));
        assert_eq!(clock(1_000_000_000, -2, 0).nanoseconds(1), Some(-1_999_999_999));
    }

    #[test]
    fn the_way_back_is_the_lowest_that_leads_there() {
        for frequency_hz in [
            1,
            3,
            1000,
            999_999_937,
            1_000_000_000,
            2_250_000_123,
            1_000_000_000_000_000_000,
        ] {
            let clock = clock(frequency_hz, 3, 0);
            for cycles in [0, 1, 7, 1000, 123_456_789, 1 << 40, 1 << 62] {
                let Some(ns) = clock.nanoseconds(cycles) else { continue };
                let back = clock.cycles_from(ns).expect("there is one");
                assert!(back <= cycles, "{frequency_hz} Hz, {cycles}");
                assert_eq!(clock.nanoseconds(back), Some(ns), "{frequency_hz} Hz, {cycles}");
                assert!(back == 0 || clock.nanoseconds(back - 1) < Some(ns));
            }
            assert_eq!(clock.cycles_from(i64::MIN), Some(0));
        }
        assert_eq!(clock(1, 0, 0).cycles_from(i64::MAX), None);
        assert_eq!(clock(1_000_000_000, i64::MAX, 0).cycles_from(5), None);
    }

    #[test]
    fn what_64_bits_do_not_hold_is_no_time() {
        assert_eq!(clock(1_000_000_000, 0, 0).nanoseconds(u64::MAX), None);
        assert_eq!(clock(1, 0, 0).nanoseconds(u64::MAX), None);
        assert_eq!(clock(1_000_000_000, i64::MAX, 0).nanoseconds(0), None);
        assert_eq!(
            clock(1_000_000_000, 9_000_000_000, 0).nanoseconds(i64::MAX as u64),
            None
        );
    }
}
