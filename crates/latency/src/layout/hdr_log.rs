// SPDX-License-Identifier: MIT OR Apache-2.0
//! The log of HdrHistogram, in its second version (usually `.hlog`): a line with a compressed histogram for each CPU, with the CPU as its tag. Tools in
//! many languages read it. Values are nanoseconds with three digits; the largest value beside each histogram is in milliseconds, as its tools expect.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};

use crate::clock::Clock;
use crate::statistics::Summary;
use crate::tally::Snapshot;

/// Digits that are exact.
const DIGITS: u8 = 3;

/// What one loop has measured.
#[derive(Clone, Copy, Debug)]
pub struct Interval<'v> {
    /// Where it ran.
    pub cpu: u32,
    /// When it began.
    pub begin: SystemTime,
    /// How long it took.
    pub duration: Duration,
    /// What it counted.
    pub values: &'v Snapshot,
}

/// The log of some loops, which count ticks of this clock.
///
/// # Panics
/// Never: a histogram takes values of any size, and memory can always be written to.
pub fn text(intervals: &[Interval<'_>], clock: &Clock) -> String {
    let begin = intervals.iter().map(|one| one.begin).min().unwrap_or(UNIX_EPOCH);
    let since = |time: SystemTime, from: SystemTime| time.duration_since(from).unwrap_or_default();
    let mut text = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment("Values are nanoseconds; measured by piste latency")
        .with_start_time(begin)
        .with_base_time(begin)
        .with_max_value_divisor(1e6)
        .begin_log_with(&mut text, &mut serializer)
        .expect("memory can be written to");
    for one in intervals {
        let tag = format!("CPU{}", one.cpu);
        log.write_histogram(
            &histogram(one.values, clock),
            since(one.begin, begin),
            one.duration,
            Tag::new(&tag),
        )
        .expect("memory can be written to");
    }
    String::from_utf8(text).expect("it is text")
}

fn histogram(values: &Snapshot, clock: &Clock) -> Histogram<u64> {
    let mut histogram = Histogram::new(DIGITS).expect("so many digits are possible");
    let max_ns = Summary::of(values, clock).max_ns as u64;
    for bucket in values.buckets() {
        let ns = clock.whole_ns(bucket.high).min(max_ns);
        histogram.record_n(ns, bucket.count).expect("it grows");
    }
    histogram
}

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    use super::*;
    use crate::tally::Tally;

    #[test]
    fn the_log_can_be_read_back() {
        let tally = Tally::new(1000, 0);
        (0..1000).for_each(|value| assert!(tally.add_short(value)));
        tally.add_long(5_000_000, true);
        let values = tally.look();
        let interval = |cpu| Interval {
            cpu,
            begin: UNIX_EPOCH,
            duration: Duration::from_millis(1500),
            values: &values,
        };
        let text = text(&[interval(0), interval(3)], &Clock::MONOTONIC);
        assert!(text.contains("Tag=CPU3,"), "{text}");
        let mut tags = Vec::new();
        for entry in IntervalLogIterator::new(text.as_bytes()) {
            let Ok(LogEntry::Interval(interval)) = entry else {
                continue;
            };
            tags.push(interval.tag().map(|tag| tag.as_str().to_owned()));
            assert_eq!(interval.duration(), Duration::from_millis(1500));
            assert!((interval.max() - 5.0).abs() < 0.01, "{text}");
            let bytes = base64(interval.encoded_histogram());
            let read: Histogram<u64> = Deserializer::new().deserialize(&mut &bytes[..]).expect("a histogram");
            assert_eq!((read.len(), read.min(), read.value_at_quantile(0.5)), (1001, 0, 500));
            assert!(read.max().abs_diff(5_000_000) < 5000);
        }
        assert_eq!(tags, [Some("CPU0".into()), Some("CPU3".into())]);
    }

    /// The bytes of a text in base64.
    fn base64(text: &str) -> Vec<u8> {
        const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let (mut bytes, mut bits, mut held) = (Vec::new(), 0_u32, 0);
        for digit in text.bytes().filter(|digit| *digit != b'=') {
            let value = DIGITS.iter().position(|known| *known == digit).expect("a digit");
            bits = bits << 6 | value as u32;
            held += 6;
            if held >= 8 {
                held -= 8;
                bytes.push((bits >> held) as u8);
            }
        }
        bytes
    }
}
