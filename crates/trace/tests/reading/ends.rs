// SPDX-License-Identifier: MIT OR Apache-2.0
//! From when and until when the streams of a kernel tell of their CPUs.

use std::path::Path;

use piste_trace::blind::{blind, find_unrecorded, recorded_span, unrecorded};
use piste_trace::part::Part;
use piste_trace::select::{Filter, Selection};
use piste_trace::{Findings, Span};

use crate::notation;
use crate::test_trace::TestTrace;

/// Milliseconds, with numbers of packets or without; two channels of events on CPUs, and a state dump beside them.
fn metadata(number: &str) -> String {
    let mut text = "\
trace {
	major = 1; minor = 8; byte_order = le;
	packet.header := struct { integer { size = 32; } magic; integer { size = 32; } stream_id; };
};
clock { name = c; freq = 1000; };
typealias integer { size = 64; align = 8; map = clock.c.value; } := clock_t;
typealias integer { size = 32; align = 8; } := uint32_t;
"
    .to_owned();
    for (id, event) in [(0, "sched_switch"), (1, "block_rq_issue"), (2, "lttng_statedump_start")] {
        text += &format!(
            "stream {{ id = {id}; event.header := struct {{ clock_t timestamp; }}; packet.context := struct {{\n"
        );
        text += "clock_t timestamp_begin; clock_t timestamp_end; uint32_t content_size; uint32_t packet_size;\n";
        text += &format!("{number} uint32_t cpu_id; }}; }};\nevent {{ stream_id = {id}; name = {event}; }};\n");
    }
    text
}

/// `CHANNEL CPU BEGIN-END[:EVENTS] ...` a line for each stream; packets are numbered from `first`, if at all.
fn place(streams: &str, first: Option<u32>) -> TestTrace {
    let number = first.map_or("", |_| "uint32_t packet_seq_num;");
    let mut text = format!("\n--- metadata\n{}", metadata(number));
    for (file, line) in streams.lines().enumerate() {
        let mut words = line.split_whitespace();
        let (channel, cpu) = (words.next().expect("a channel"), words.next().expect("a CPU"));
        let packets = words.enumerate().map(|(place, packet)| {
            let (times, events) = packet.split_once(':').unwrap_or((packet, ""));
            let (begin, end) = times.split_once('-').expect("two times");
            let number = first.map_or(String::new(), |first| format!("u32:{}", first + place as u32));
            let events = events.split(',').filter(|time| !time.is_empty());
            let events: String = events.map(|time| format!("u64:{time}\n")).collect();
            format!(
                "u32:0xc1fc1fc1 u32:{channel} u64:{begin} u64:{end} u32:$content u32:$packet {number} u32:{cpu}\n{events}"
            )
        });
        let packets: Vec<String> = packets.collect();
        text += &format!("\n--- stream s{file}\n{}", packets.join("packet\n"));
    }
    TestTrace::of(&notation::Trace::parse(&text, Path::new("")).expect("a trace"))
}

/// The blind parts of places, as `CPU BEGIN-END`, of what is not recorded, and what is told of it.
fn check(places: &[TestTrace], parts: &str, told: &[&str]) {
    let mut traces = Vec::new();
    places.iter().for_each(|place| traces.extend(place.open().0));
    let span = recorded_span(&traces).expect("it has times");
    let mut found = Vec::new();
    for part in unrecorded(&traces, span) {
        let [begin, end] = [part.blind.begin_ns, part.blind.end_ns].map(|ns| ns / 1_000_000);
        found.push(format!("{} {begin}-{end}", part.blind.cpu.expect("a CPU")));
    }
    assert_eq!(found.join(", "), parts);
    let mut findings = Findings::default();
    find_unrecorded(&traces, &mut findings);
    let sentences: Vec<&str> = findings.iter().map(|finding| finding.what.as_str()).collect();
    assert_eq!(sentences, told);
}

fn one(streams: &str, parts: &str, told: &[&str]) {
    check(&[place(streams, Some(0))], parts, told);
}

#[test]
fn a_stream_that_ends_early_tells_nothing_of_the_rest() {
    one(
        "0 0 10-500:20,30 500-900:600\n0 1 10-400:10,400",
        "1 400-900",
        &["the last 0.500 s of CPU 1 are missing"],
    );
    one("0 0 10-900:20\n0 1 10-895:10", "1 895-900", &[]);
}

#[test]
fn a_quiet_cpu_is_recorded_as_long_as_its_packets_say() {
    one("0 0 10-900:20,30\n0 1 10-400:10,400 400-900", "", &[]);
    one("0 0 10-900:20,30\n0 1 10-900", "", &[]);
}

#[test]
fn what_lies_beside_a_packet_without_events_is_not_recorded() {
    // A session that was stopped from 300 to 500.
    one(
        "0 0 10-200:20,30 200-300 500-600 600-900:600\n0 1 10-300:250,300 500-900:500",
        "0 300-500",
        &[],
    );
    one("0 0 10-20 20-200:20,30 250-900:300", "", &[]);
}

#[test]
fn the_first_packet_of_all_reaches_back_to_the_begin() {
    let late = "0 0 10-900:20\n0 1 310-900:320";
    one(late, "", &[]);
    let told = ["the first 0.300 s of CPU 1 are missing"];
    check(&[place(late, None)], "1 10-310", &told);
    check(&[place(late, Some(3))], "1 10-310", &told);
    // One that says since when it was recorded.
    one("0 0 10-900:20\n0 1 310-320 320-900:320", "1 10-310", &told);
}

#[test]
fn a_state_dump_ends_when_it_is_written() {
    one("0 0 10-900:20\n2 0 20-30:20\n0 1 10-900:20", "", &[]);
    // That may be later than what happens on the CPUs is recorded.
    one("0 0 10-400:20\n2 0 5-900:20\n0 1 10-400:20", "", &[]);
    let told = ["the last 0.100 s of CPU 1 are missing"];
    one("0 0 10-400:20\n2 0 20-900:20\n0 1 10-300:20", "1 300-400", &told);
}

#[test]
fn each_channel_of_a_cpu_has_to_reach_the_end() {
    one(
        "0 0 10-900:20\n0 1 10-900:20\n1 0 10-900:20\n1 1 10-400:20",
        "1 400-900",
        &["the last 0.500 s of CPU 1 are missing"],
    );
}

#[test]
fn chunks_go_on_where_the_one_before_ends() {
    let first = || place("0 0 10-400:20\n0 1 10-420:30", Some(0));
    check(&[first(), place("0 0 400-900:500\n0 1 420-900:500", Some(0))], "", &[]);
    check(
        &[first(), place("0 0 400-900:500\n0 1 600-900:600", Some(7))],
        "1 420-600",
        &[],
    );
    // The time before a chunk is none of the chunk's.
    let chunk = place("0 0 400-900:500\n0 1 420-900:500", Some(7));
    let (traces, _) = chunk.open();
    assert_eq!(blind(&traces[0]).len(), 1);
}

#[test]
fn a_part_of_a_trace_is_recorded_as_the_whole_was() {
    let streams = "0 0 10-200:20,30 200-300 500-600 600-900:600,880\n0 1 10-400:20,390 410-700:450\n0 2 10-300:20";
    let whole = place(streams, Some(0));
    let part = |begin: i64, end: i64, expected: &str, told: &[&str]| {
        let span = Span {
            begin_ns: begin * 1_000_000,
            end_ns: end * 1_000_000,
        };
        let part = whole.trimmed(&Selection {
            span,
            ..Selection::default()
        });
        check(std::slice::from_ref(&part), expected, told);
        assert_eq!(part.read(Span::ALL).1, [""; 0]);
    };
    // The events of CPU 0 at 20 and 30, and what is quiet around them.
    part(10, 250, "", &[]);
    // Nothing of CPU 1 between 395 and 405, and of CPU 0 until 500.
    let told = ["the first 0.120 s of CPU 0 are missing"];
    part(
        380,
        880,
        "0 380-500, 1 700-880",
        &[told[0], "the last 0.180 s of CPU 1 are missing"],
    );
    part(395, 650, "0 395-500", &["the first 0.105 s of CPU 0 are missing"]);
    // The stop of CPU 0 at 300; there is nothing of CPU 2.
    part(250, 650, "0 300-500", &[]);
}

#[test]
fn what_is_chosen_by_name_is_recorded_as_the_whole_was() {
    // Of CPU 0, which was stopped from 300 to 500, only the event at 650 is in the part; of CPU 1 there is one in the middle.
    let whole = place(
        "0 0 10-300:20,30 300-310 500-900:600,650,700\n0 1 10-900:20,450",
        Some(0),
    );
    let part = |filter: &str| {
        whole.trimmed(&Selection {
            filter: Some(Filter::parse(filter).expect("a filter")),
            ..Selection::default()
        })
    };
    let begin = "0 310-500";
    check(&[part("$name == \"sched_switch\"")], begin, &[]);
    check(&[part("$time >= 30000000 && $time != 700000000")], begin, &[]);
}

#[test]
fn a_selection_says_what_it_leaves_out() {
    let part = |change: fn(&mut Selection)| {
        let mut selection = Selection::default();
        change(&mut selection);
        Part::selected(&selection)
    };
    let whole = Part::default();
    assert_eq!(part(|_| ()), whole);
    assert_eq!(part(|selection| selection.events = vec!["sched_*".into()]), whole);
    let of_filter = |text: &str| {
        Part::selected(&Selection {
            filter: Some(Filter::parse(text).expect("a filter")),
            ..Selection::default()
        })
    };
    assert_eq!(of_filter("$name !~ \"lttng_statedump_*\""), whole);
    for text in ["ret < 0", "exists(ret)", "$name == \"a\" && $tid == 5", "$cpu == 0"] {
        assert!(of_filter(text).of_events, "{text}");
    }
    assert!(part(|selection| selection.tids = vec![1]).on_threads);
    assert!(part(|selection| selection.comms = vec!["a*".into()]).on_threads);
    assert!(part(|selection| selection.cpus = vec![1]).of_cpus);
}
