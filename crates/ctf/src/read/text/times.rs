// SPDX-License-Identifier: MIT OR Apache-2.0
//! Times of events, and what passed since the event before. Time zones are the caller's.

use super::literal::Out;
use super::numbers::{decimal, nine_digits, two_digits};
use crate::read::clock::ClockScale;

const NANOSECONDS: u64 = 1_000_000_000;

/// Also the nanosecond before 1970, which is therefore not counted from.
const NO_TIME: u64 = u64::MAX;

/// How times are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeFormat {
    /// `09:41:07.123456789`
    #[default]
    TimeOfDay,
    /// `2026-11-22 09:41:07.123456789`
    DateAndTime,
    /// Seconds since the clock's origin: `1795340467.123456789`
    Seconds,
    /// The clock's own number: `00000000004271094375`
    Cycles,
}

/// A time as a calendar and a clock on the wall show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WallTime {
    /// 2026
    pub year: i64,
    /// 1 to 12
    pub month: u8,
    /// 1 to 31
    pub day: u8,
    /// 0 to 23
    pub hour: u8,
    /// 0 to 59
    pub minute: u8,
    /// 0 to 60
    pub second: u8,
}

impl WallTime {
    /// In UTC, of seconds since 1970.
    pub fn utc(seconds: i64) -> WallTime {
        let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        // Years that begin in March end with the leap day.
        let days = days + 719_468;
        let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let month = if month_from_march < 10 {
            month_from_march + 3
        } else {
            month_from_march - 9
        };
        WallTime {
            year: era * 400 + year_of_era + i64::from(month <= 2),
            month: month as u8,
            day: (day_of_year - (153 * month_from_march + 2) / 5 + 1) as u8,
            hour: (rest / 3600) as u8,
            minute: (rest / 60 % 60) as u8,
            second: (rest % 60) as u8,
        }
    }
}

/// Seconds since 1970 to what the wall shows; `None` when there is no saying.
type Wall = Box<dyn FnMut(i64) -> Option<WallTime> + Send>;

/// Writes the times of events in their order. One for all traces that are shown together.
pub struct Times {
    format: TimeFormat,
    has_delta: bool,
    wall: Wall,
    /// The last second that was asked for, and its text.
    second: Option<u64>,
    second_text: Vec<u8>,
    /// Of the event before, in nanoseconds or cycles; [`NO_TIME`] when there is none.
    last: u64,
    delta: u64,
    had_negative: bool,
}

impl Times {
    /// `wall` turns seconds since 1970 into local time, or into that of any other place.
    pub fn new(format: TimeFormat, wall: impl FnMut(i64) -> Option<WallTime> + Send + 'static) -> Times {
        Times {
            format,
            has_delta: true,
            wall: Box::new(wall),
            second: None,
            second_text: Vec::new(),
            last: NO_TIME,
            delta: NO_TIME,
            had_negative: false,
        }
    }

    /// Without the time that passed since the event before.
    #[must_use]
    pub fn without_delta(mut self) -> Times {
        self.has_delta = false;
        self
    }

    /// There was a time before the clock's origin, which no calendar shows: the first such is in seconds, and people should be told.
    pub fn had_negative(&self) -> bool {
        self.had_negative
    }

    /// `[09:41:07.123456789] (+0.000001500) ` of nearly all events: within the second of the one before, or less than ten later. False when it
    /// is another; nothing is appended then.
    #[inline(always)]
    pub(super) fn usual_event(&mut self, out: &mut impl Out, scale: &ClockScale, cycles: u64) -> bool {
        if self.format != TimeFormat::TimeOfDay || !self.has_delta {
            return false;
        }
        let Some(ns) = scale.nanoseconds(cycles) else {
            return false;
        };
        let at = ns.cast_unsigned();
        let delta = at.wrapping_sub(self.last);
        let Some(second_text) = self.second_text.first_chunk::<9>() else {
            return false;
        };
        if ns < 0 || self.second != Some(at / NANOSECONDS) || delta >= 10 * NANOSECONDS || self.last == NO_TIME {
            return false;
        }
        let mut text = *b"[00:00:00.000000000] (+0.000000000) ";
        text[1..10].copy_from_slice(second_text);
        text[10..19].copy_from_slice(&nine_digits((at % NANOSECONDS) as u32));
        text[23] += (delta / NANOSECONDS) as u8;
        text[25..34].copy_from_slice(&nine_digits((delta % NANOSECONDS) as u32));
        out.whole(&text);
        (self.delta, self.last) = (delta, at);
        true
    }

    /// The same of any event.
    pub(super) fn any_event(&mut self, out: &mut Vec<u8>, scale: &ClockScale, cycles: u64) {
        out.push(b'[');
        let at = match self.format {
            TimeFormat::Cycles => {
                padded(out, cycles, 20);
                Some(cycles)
            }
            _ => {
                let ns = scale.nanoseconds(cycles);
                self.time(out, ns);
                ns.map(i64::cast_unsigned)
            }
        };
        out.extend_from_slice(b"] ");
        // An event without a time leaves the delta of the one before.
        if let Some(at) = at {
            if self.last != NO_TIME {
                self.delta = at.wrapping_sub(self.last);
            }
            self.last = at;
        }
        if self.has_delta {
            out.extend_from_slice(b"(+");
            match (self.delta, self.format) {
                (NO_TIME, TimeFormat::Cycles) => out.extend_from_slice(b"????????????"),
                (NO_TIME, _) => out.extend_from_slice(b"?.?????????"),
                (delta, TimeFormat::Cycles) => padded(out, delta, 12),
                (delta, _) => seconds(out, delta),
            }
            out.extend_from_slice(b") ");
        }
    }

    /// Appends the time of an event, without brackets and without what passed since another.
    pub fn alone(&mut self, out: &mut Vec<u8>, scale: &ClockScale, cycles: u64) {
        match self.format {
            TimeFormat::Cycles => padded(out, cycles, 20),
            _ => self.time(out, scale.nanoseconds(cycles)),
        }
    }

    /// Appends the time of an event and what passed since the one before, as at the start of a line.
    pub fn with_delta(&mut self, out: &mut Vec<u8>, scale: &ClockScale, cycles: u64) {
        if !self.usual_event(out, scale, cycles) {
            self.any_event(out, scale, cycles);
        }
    }

    /// A time without brackets.
    pub(super) fn time(&mut self, out: &mut Vec<u8>, ns: Option<i64>) {
        let Some(ns) = ns else {
            out.extend_from_slice(b"Error");
            return;
        };
        let since = ns.unsigned_abs();
        let second = since / NANOSECONDS;
        let is_first_negative = ns < 0 && !self.had_negative;
        self.had_negative |= ns < 0;
        if self.format == TimeFormat::Seconds || is_first_negative {
            in_seconds(out, ns);
            return;
        }
        if self.second != Some(second) && !self.turn_to(second) {
            in_seconds(out, ns);
            return;
        }
        out.extend_from_slice(&self.second_text);
        out.extend_from_slice(&nine_digits((since % NANOSECONDS) as u32));
    }

    /// False when nobody knows what the wall shows then.
    fn turn_to(&mut self, second: u64) -> bool {
        let wall = i64::try_from(second).ok().and_then(|second| (self.wall)(second));
        let Some(wall) = wall else { return false };
        let text = &mut self.second_text;
        text.clear();
        if self.format == TimeFormat::DateAndTime {
            if wall.year < 0 {
                text.push(b'-');
            }
            padded(text, wall.year.unsigned_abs(), 4);
            text.push(b'-');
            text.extend_from_slice(&two_digits(wall.month));
            text.push(b'-');
            text.extend_from_slice(&two_digits(wall.day));
            text.push(b' ');
        }
        for (part, behind) in [(wall.hour, b':'), (wall.minute, b':'), (wall.second, b'.')] {
            text.extend_from_slice(&two_digits(part));
            text.push(behind);
        }
        self.second = Some(second);
        true
    }
}

fn in_seconds(out: &mut Vec<u8>, ns: i64) {
    if ns < 0 {
        out.push(b'-');
    }
    seconds(out, ns.unsigned_abs());
}

fn seconds(out: &mut Vec<u8>, ns: u64) {
    decimal(out, ns / NANOSECONDS);
    out.push(b'.');
    out.extend_from_slice(&nine_digits((ns % NANOSECONDS) as u32));
}

fn padded(out: &mut Vec<u8>, number: u64, digits: usize) {
    let used = number.checked_ilog10().unwrap_or(0) as usize + 1;
    out.extend((used..digits).map(|_| b'0'));
    decimal(out, number);
}
