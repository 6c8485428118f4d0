// SPDX-License-Identifier: MIT OR Apache-2.0
//! The traces of the conformance suite (crates/ctf/tests/conformance), from folders.

use std::fs;
use std::path::Path;

use piste_trace::{Finding, Findings, Kind, Merge, Span, count, open};

use crate::notation::Trace;
use crate::test_trace::{TestTrace, lines};

pub fn each(check: impl Fn(&str, &TestTrace, &str)) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ctf/tests/conformance");
    let mut count = 0;
    for entry in fs::read_dir(folder.join("cases")).expect("there are cases") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "trace") {
            let text = fs::read_to_string(&path).expect("a description");
            let trace = Trace::parse(&text, &folder).expect("it is a trace");
            let expected = fs::read_to_string(path.with_extension("text")).expect("its text");
            check(
                &path.file_stem().expect("a name").to_string_lossy(),
                &TestTrace::of(&trace),
                &expected,
            );
            count += 1;
        }
    }
    assert!(count > 50, "only {count} traces");
}

#[test]
fn folders_are_read_as_single_streams_are() {
    each(|name, place, expected| {
        let has_fault = expected.lines().any(|line| line.starts_with("fault: "));
        let mut findings = Findings::default();
        let traces = match open(&place.folder, &mut findings) {
            Ok(traces) => traces,
            Err(error) => {
                assert!(expected.contains("error: "), "{name}: {error}");
                return;
            }
        };
        // What is wrong in a part of the metadata is found, and the rest is used.
        let wrong = expected.strip_prefix("error: ").map(str::trim_end);
        if let Some(wrong) = wrong {
            let is_found = |finding: &Finding| finding.kind == Kind::DamagedMetadata && finding.what == wrong;
            assert!(findings.iter().any(is_found), "{name}: {findings:?}");
            return;
        }
        let (text, found) = lines(&traces, Span::ALL);
        findings.extend(found);
        if has_fault {
            assert!(!findings.is_empty(), "{name}: {expected}");
        } else {
            let text = text.replace(&*place.folder.to_string_lossy(), "/trace");
            assert_eq!(text, expected, "{name}");
        }
    });
}

#[test]
fn windows_smaller_than_a_packet_give_the_same_events() {
    each(|name, place, _| {
        let Ok(traces) = open(&place.folder, &mut Findings::default()) else {
            return;
        };
        let events = |window_bytes| {
            let mut merge = Merge::with_windows(&traces, Span::ALL, window_bytes).expect("its files are there");
            let mut events = Vec::new();
            while let Some(merged) = merge.next() {
                events.push((
                    merged.stream,
                    merged.event.ticks,
                    merged.event.position,
                    merged.event.class.name.clone(),
                ));
            }
            events
        };
        let all = events(1 << 20);
        assert_eq!(events(16), all, "{name}");
        let mut found = Findings::default();
        let counted = count::count(&traces, 2, &mut found);
        let counted: u64 = counted.iter().flatten().map(|stream| stream.events).sum();
        assert_eq!(counted, all.len() as u64, "{name}");
        // Counting passes over events in another way, and finds the same.
        let mut merge = Merge::new(&traces, Span::ALL).expect("its files are there");
        while merge.next().is_some() {}
        assert!(found.iter().eq(merge.findings.iter()), "{name}: {found:?}");
    });
}
