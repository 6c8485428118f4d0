// SPDX-License-Identifier: MIT OR Apache-2.0
//! Moments as people write them: `09:41:07.5`, `2026-11-22 09:41:07`, nanoseconds since 1970, `+1.5s` from a begin, `-200ms` from an end.

use jiff::Timestamp;
use jiff::civil::{DateTime, Time};
use jiff::tz::TimeZone;
use piste_trace::Span;

/// A moment, some of which only mean something in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Of the trace's day.
    OfDay(Time),
    /// Of local time.
    Local(DateTime),
    /// Nanoseconds since 1970.
    Since1970(i64),
    /// Nanoseconds after the begin.
    AfterBegin(i64),
    /// Nanoseconds before the end.
    BeforeEnd(i64),
}

const SIGNED: &str = "+1.5s or -200ms";

/// A moment from text.
pub(crate) fn parse(text: &str) -> Result<Moment, String> {
    let hint = || "not a time; write for example 09:41:07.5, '2026-11-22 09:41:07', +1.5s or -200ms".to_owned();
    if let Some(length) = text.strip_prefix('+') {
        return length_of(length, SIGNED).map(Moment::AfterBegin);
    }
    if let Some(length) = text.strip_prefix('-') {
        return length_of(length, SIGNED).map(Moment::BeforeEnd);
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().map(Moment::Since1970).map_err(|_| hint());
    }
    // jiff reads times without colons, which people more likely mean as something else.
    match text.split_once([' ', 'T']) {
        _ if !text.contains(':') => Err(hint()),
        Some(_) => text.parse().map(Moment::Local).map_err(|_| hint()),
        None => text.parse().map(Moment::OfDay).map_err(|_| hint()),
    }
}

/// Nanoseconds from `1.5s`, `200ms`, `2min`.
pub(crate) fn parse_length(text: &str) -> Result<i64, String> {
    length_of(text, "5ms or 1.5s")
}

/// `example` is what may be written instead of a wrong one.
fn length_of(text: &str, example: &str) -> Result<i64, String> {
    let numeric = text
        .bytes()
        .take_while(|byte| byte.is_ascii_digit() || *byte == b'.')
        .count();
    let (number, unit) = text.split_at(numeric);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let factor: i128 = match unit.trim() {
        "ns" => 1,
        "us" | "µs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "" => return Err(format!("the unit is missing; write for example {example}")),
        _ => {
            return Err(format!("{unit:?} is not a unit of time; use ns, us, ms, s, min or h"));
        }
    };
    let digits = format!("{whole}{fraction}");
    if whole.is_empty() || digits.len() > 24 || fraction.contains('.') {
        return Err(format!("not a number with a unit; write for example {example}"));
    }
    let number: i128 = digits.parse().map_err(|_| "not a number")?;
    let ns = number * factor / 10_i128.pow(fraction.len() as u32);
    i64::try_from(ns).map_err(|_| "too long".into())
}

impl Moment {
    /// Nanoseconds since 1970, for traces of that time; `None` when nobody knows theirs, or no such time exists.
    pub(crate) fn ns(self, traces: Option<Span>, zone: impl Fn() -> TimeZone) -> Option<i64> {
        let of_local = |local: DateTime| {
            let ns = zone().to_timestamp(local).ok()?.as_nanosecond();
            i64::try_from(ns).ok()
        };
        match self {
            Moment::Since1970(ns) => Some(ns),
            Moment::Local(local) => of_local(local),
            Moment::AfterBegin(ns) => traces?.begin_ns.checked_add(ns),
            Moment::BeforeEnd(ns) => traces?.end_ns.checked_sub(ns),
            Moment::OfDay(time) => {
                let Span { begin_ns, end_ns } = traces?;
                let begin = Timestamp::from_nanosecond(begin_ns.into()).ok()?;
                let date = zone().to_datetime(begin).date();
                let today = of_local(date.to_datetime(time))?;
                if today >= begin_ns {
                    return Some(today);
                }
                // The trace may go on behind midnight.
                let tomorrow = of_local(date.tomorrow().ok()?.to_datetime(time))?;
                Some(if tomorrow <= end_ns { tomorrow } else { today })
            }
        }
    }
}

/// A part of time as people would write it, from the begin of traces if that is known: `+1.2s` to `+1.5s`. A hundredth longer than it is at
/// most, at each end.
pub(crate) fn around((begin_ns, end_ns): (i64, i64), traces: Option<Span>) -> [String; 2] {
    let since_ns = traces.map(|traces| traces.begin_ns);
    let Some(since_ns) = since_ns.filter(|since_ns| *since_ns <= begin_ns) else {
        return [begin_ns, end_ns].map(|ns| ns.to_string());
    };
    let unit_ns = 10_i64.pow((end_ns.saturating_sub(begin_ns) / 100).max(1).ilog10());
    let begin_units = begin_ns.saturating_sub(since_ns) / unit_ns;
    let end_units = end_ns.saturating_sub(since_ns).saturating_add(unit_ns - 1) / unit_ns;
    [begin_units, end_units].map(|units| {
        let ns = units.saturating_mul(unit_ns);
        let text = format!("+{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
        format!("{}s", text.trim_end_matches('0').trim_end_matches('.'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_absolute_or_relative() {
        for (text, moment) in [
            ("+1.5s", Moment::AfterBegin(1_500_000_000)),
            ("-200ms", Moment::BeforeEnd(200_000_000)),
            ("+7ns", Moment::AfterBegin(7)),
            ("1795340467123456789", Moment::Since1970(1_795_340_467_123_456_789)),
            ("09:41:07.000000001", Moment::OfDay(Time::constant(9, 41, 7, 1))),
            (
                "2026-11-22 09:41:07",
                Moment::Local(jiff::civil::date(2026, 11, 22).at(9, 41, 7, 0)),
            ),
        ] {
            assert_eq!(parse(text), Ok(moment), "{text}");
        }
        for text in [
            "",
            "+1",
            "+1.2.3s",
            "+s",
            "-",
            "1s",
            "25:00:00",
            "2026-11-22",
            "99999999999999999999",
        ] {
            assert!(parse(text).is_err(), "{text}: {:?}", parse(text));
        }
    }

    #[test]
    fn a_part_of_time_is_written_from_the_begin_and_contains_all_of_it() {
        let trace = Span {
            begin_ns: 1_795_340_467_123_456_789,
            end_ns: i64::MAX,
        };
        for (begin_ns, end_ns, expected) in [
            (1_204_567_890, 1_504_567_890, ["+1.204s", "+1.505s"]),
            (0, 5, ["+0s", "+0.000000005s"]),
            (2_000_000_000, 2_000_000_000, ["+2s", "+2s"]),
            (1_000, 61_000_000_001, ["+0s", "+61.1s"]),
        ] {
            let span = (trace.begin_ns + begin_ns, trace.begin_ns + end_ns);
            let written = around(span, Some(trace));
            assert_eq!(written, expected);
            let [begin, end] = written.clone().map(|text| {
                parse(&text)
                    .expect("a moment")
                    .ns(Some(trace), || TimeZone::UTC)
                    .expect("a time")
            });
            assert!(begin <= span.0 && end >= span.1, "{written:?}");
        }
        assert_eq!(around((7, 8), None), ["7", "8"]);
    }

    #[test]
    fn a_time_of_day_is_of_the_day_of_the_trace() {
        let second = 1_000_000_000;
        let trace = Span {
            begin_ns: 10 * 86_400 * second + 86_000 * second,
            end_ns: 11 * 86_400 * second + 100 * second,
        };
        let ns = |text: &str| parse(text).expect("a moment").ns(Some(trace), || TimeZone::UTC);
        assert_eq!(ns("23:59:59"), Some(11 * 86_400 * second - second));
        assert_eq!(ns("00:00:01"), Some(11 * 86_400 * second + second));
        assert_eq!(ns("12:00:00"), Some(10 * 86_400 * second + 43_200 * second));
        assert_eq!(ns("+1s"), Some(trace.begin_ns + second));
        assert_eq!(ns("-1s"), Some(trace.end_ns - second));
        assert_eq!(ns("1970-01-02 00:00:00"), Some(86_400 * second));
        assert_eq!(parse("+1s").expect("a moment").ns(None, || TimeZone::UTC), None);
    }
}
