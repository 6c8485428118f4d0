// SPDX-License-Identifier: MIT OR Apache-2.0
//! Quantities as people write and read them: `256K`, `500ms`; `1,234,567`, `52.3 MiB`, `3.21 s`.

use std::time::Duration;

/// A size in bytes from `4096`, `256K`, `1M`, `2GiB`: powers of 1024.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text)?;
    let factor: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        _ => {
            return Err(format!(
                "{unit:?} is not a unit of size; write for example 4096, 256K or 1M"
            ));
        }
    };
    number.checked_mul(factor).ok_or_else(|| "too large".into())
}

/// How long a program may wait for space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timeout {
    After(Duration),
    Never,
}

/// A timeout from `100us`, `500ms`, `1s`, `2min` or `forever`.
pub(crate) fn parse_timeout(text: &str) -> Result<Timeout, String> {
    if matches!(text, "forever" | "inf") {
        return Ok(Timeout::Never);
    }
    let duration = parse_duration(text)?;
    // The contract has 32 bits of microseconds, the last value of which waits without limit.
    if duration.as_micros() >= u128::from(u32::MAX) {
        return Err("more than 71 minutes; write forever to wait without limit".into());
    }
    Ok(Timeout::After(duration))
}

/// A time from `100us`, `500ms`, `10s`, `2min` or `1h`.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split(text)?;
    match unit {
        "us" | "µs" => Ok(Duration::from_micros(number)),
        "ms" => Ok(Duration::from_millis(number)),
        "s" => Ok(Duration::from_secs(number)),
        "min" => Ok(Duration::from_secs(number.saturating_mul(60))),
        "h" => Ok(Duration::from_secs(number.saturating_mul(3600))),
        "" => Err(format!(
            "the unit is missing; write for example {number}us, {number}ms or {number}s"
        )),
        _ => Err(format!("{unit:?} is not a unit of time; use us, ms, s, min or h")),
    }
}

fn split(text: &str) -> Result<(u64, &str), String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    if number.is_empty() {
        return Err("does not start with a number".into());
    }
    Ok((number.parse().map_err(|_| "too large")?, unit.trim()))
}

/// `1,234,567`
pub(crate) fn count(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = String::from(if number < 0 { "-" } else { "" });
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 event`, `2 events`
pub(crate) fn counted(number: i64, singular: &str) -> String {
    format!("{} {singular}{}", count(number), if number == 1 { "" } else { "s" })
}

/// `52.3 MiB`, exact where it is a round number: `256 KiB`
pub(crate) fn size(bytes: i64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return counted(bytes, "byte");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    // 1023.95 would be shown as 1024.0.
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if value.fract() == 0.0 {
        format!("{value} {}", UNITS[unit])
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

/// `3.21 s`, three digits or whole units; minutes and hours from there on: `2 min 5 s`
pub(crate) fn duration(nanoseconds: i64) -> String {
    let rounded = |value: f64, unit: &str| match value {
        value if value < 9.995 => format!("{value:.2} {unit}"),
        value if value < 99.95 => format!("{value:.1} {unit}"),
        value => format!("{value:.0} {unit}"),
    };
    let value = nanoseconds as f64;
    match value {
        v if v < 1e3 => format!("{nanoseconds} ns"),
        v if v < 999.5e3 => rounded(v / 1e3, "µs"),
        v if v < 999.5e6 => rounded(v / 1e6, "ms"),
        v if v < 99.95e9 => rounded(v / 1e9, "s"),
        v if v < 3600e9 => {
            let seconds = (v / 1e9).round() as i64;
            format!("{} min {} s", seconds / 60, seconds % 60)
        }
        v => {
            let minutes = (v / 60e9).round() as i64;
            format!("{} h {} min", minutes / 60, minutes % 60)
        }
    }
}

/// Events per second, with three digits and without a fraction: `384,000`. Nothing for no time.
pub(crate) fn rate(events: i64, duration_ns: i64) -> Option<String> {
    if duration_ns <= 0 {
        return None;
    }
    let per_second = events as f64 * 1e9 / duration_ns as f64;
    let mut step = 1.0;
    while per_second / step >= 1000.0 {
        step *= 10.0;
    }
    Some(count(((per_second / step).round() * step) as i64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_1024() {
        for (text, bytes) in [
            ("4096", 4096),
            ("256K", 256 << 10),
            ("1m", 1 << 20),
            ("2GiB", 2 << 30),
            ("8 KiB", 8192),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "K", "-1", "1.5M", "1X", "99999999999999999999", "99999999999G"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn timeouts_need_a_unit() {
        for (text, microseconds) in [
            ("100us", 100),
            ("500ms", 500_000),
            ("1s", 1_000_000),
            ("2min", 120_000_000),
        ] {
            assert_eq!(
                parse_timeout(text),
                Ok(Timeout::After(Duration::from_micros(microseconds))),
                "{text}"
            );
        }
        assert_eq!(parse_timeout("forever"), Ok(Timeout::Never));
        assert_eq!(
            parse_timeout("5").unwrap_err(),
            "the unit is missing; write for example 5us, 5ms or 5s"
        );
        assert!(parse_timeout("72min").unwrap_err().contains("71 minutes"));
        assert!(parse_timeout("2h").unwrap_err().contains("71 minutes"));
        assert!(parse_timeout("1d").unwrap_err().contains("not a unit of time"));
        assert_eq!(parse_duration("10s"), Ok(Duration::from_secs(10)));
    }

    #[test]
    fn counts_have_separators() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (1_234_567, "1,234,567"),
            (-12_345, "-12,345"),
        ] {
            assert_eq!(count(number), text);
        }
        assert_eq!(counted(1, "event"), "1 event");
        assert_eq!(counted(2000, "event"), "2,000 events");
    }

    #[test]
    fn sizes_and_durations_change_their_unit_before_they_get_long() {
        for (bytes, text) in [
            (1, "1 byte"),
            (1023, "1,023 bytes"),
            (262_144, "256 KiB"),
            (54_850_000, "52.3 MiB"),
            ((1 << 20) - 1, "1.0 MiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
        for (nanoseconds, text) in [
            (999, "999 ns"),
            (1_500, "1.50 µs"),
            (999_900, "1.00 ms"),
            (12_340_000, "12.3 ms"),
            (3_210_000_000, "3.21 s"),
            (125_000_000_000, "2 min 5 s"),
            (7_260_000_000_000, "2 h 1 min"),
        ] {
            assert_eq!(duration(nanoseconds), text);
        }
    }

    #[test]
    fn rates_show_three_digits() {
        assert_eq!(rate(1_234_567, 3_210_000_000).as_deref(), Some("385,000"));
        assert_eq!(rate(10, 1_000_000_000).as_deref(), Some("10"));
        assert_eq!(rate(10, 0), None);
    }
}
