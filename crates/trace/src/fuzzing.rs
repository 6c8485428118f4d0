// SPDX-License-Identifier: MIT OR Apache-2.0
//! Entry points for fuzzers: any bytes go in, and nothing may panic or contradict itself.

use std::fs;
use std::path::Path;

use piste_ctf::fuzzing::reading;
use piste_ctf::read::text::{TimeFormat, Times, WallTime};

use crate::select::Selection;
use crate::{Findings, Kind, Lines, Merge, Span, count, index, open};

/// Takes `bytes` for a kept index, but for its first bytes and the sum at its end: what is not refused is an index, and is kept as the same bytes.
/// # Panics
/// When it is none: the bug that a fuzzer looks for.
pub fn index(bytes: &[u8]) {
    index::cache::check(bytes);
}

/// Reads a trace, in the form of [`reading::trace`], from a folder that exists: events come and are counted, and no one of them is lost on the way.
/// # Panics
/// When two ways to read it differ: the bug that a fuzzer looks for.
pub fn folder(place: &Path, bytes: &[u8]) {
    let mut parts = reading::split(bytes);
    fs::write(place.join("metadata"), parts.next().unwrap_or_default()).expect("metadata is written");
    let streams: Vec<_> = parts.take(4).collect();
    for (number, stream) in streams.iter().enumerate() {
        fs::write(place.join(format!("stream_{number}")), stream).expect("a stream is written");
    }
    read(place);
    for number in 0..streams.len() {
        fs::remove_file(place.join(format!("stream_{number}"))).expect("it was there");
    }
}

fn read(place: &Path) {
    let mut findings = Findings::default();
    let Ok(traces) = open(place, &mut findings) else { return };
    for found in findings.iter() {
        let bytes = fs::metadata(&found.file).expect("it is there").len();
        assert!(found.offset <= bytes, "{found:?} behind {bytes} bytes");
    }
    let counted = count::count(&traces, 2, &mut Findings::default());
    let counted: u64 = counted.iter().flatten().map(|stream| stream.events).sum();

    let mut merge = Merge::with_windows(&traces, Span::ALL, 16).expect("its files are there");
    let mut merged = 0;
    while merge.next().is_some() {
        merged += 1;
    }
    assert_eq!(merged, counted, "merged, and counted");

    let times = Times::new(TimeFormat::TimeOfDay, |seconds| Some(WallTime::utc(seconds)));
    let mut lines = Lines::new(&traces, &Selection::default(), times).expect("its files are there");
    let (mut shown, mut line) = (0, Vec::new());
    while lines.next(&mut line) {
        shown += 1;
        line.clear();
    }
    let damaged = lines.merge.findings.count(Kind::DamagedEvent) - merge.findings.count(Kind::DamagedEvent);
    assert_eq!(shown + damaged, counted, "shown, and counted");
}
