// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces that are read while they are written.
#![allow(unreachable_pub, reason = "parts of a test")]

use std::fs;
use std::path::Path;

use piste_modelling::hold_back;
use piste_trace::{Findings, Trace, open};
use tempfile::TempDir;

#[allow(dead_code, reason = "another test uses the rest")]
#[path = "../../ctf/tests/conformance/notation.rs"]
mod notation;

const PACKETS: &str = "\
typealias integer { size = 64; align = 8; map = clock.c.value; } := clock_t;
typealias integer { size = 32; align = 8; } := uint32_t;
stream {
	id = 0; event.header := struct { clock_t timestamp; };
	packet.context := struct { clock_t timestamp_begin; clock_t timestamp_end; uint32_t content_size; uint32_t packet_size; uint32_t cpu_id; };
};
";

/// A folder of a domain's trace: a stream with a packet, which has an event of its class at each time in milliseconds.
fn place(domain: &str, class: &str, times_ms: [u64; 2]) -> TempDir {
    let [begin, end] = times_ms.map(|ms| ms * 1_000_000);
    let text = format!(
        "
--- metadata
trace {{
	major = 1; minor = 8; byte_order = le;
	packet.header := struct {{ integer {{ size = 32; }} magic; integer {{ size = 32; }} stream_id; }};
}};
env {{ domain = \"{domain}\"; }};
clock {{ name = c; freq = 1000000000; }};
{PACKETS}event {{ stream_id = 0; name = {class}; }};
--- stream cpu0
u32:0xc1fc1fc1 u32:0 u64:{begin} u64:{end} u32:$content u32:$packet u32:0
u64:{begin} u64:{end}
"
    );
    let trace = notation::Trace::parse(&text, Path::new("")).expect("a trace");
    let place = tempfile::tempdir().expect("a temporary folder");
    fs::write(place.path().join("metadata"), &trace.metadata).expect("metadata is written");
    for (name, bytes) in &trace.streams {
        fs::write(place.path().join(name), bytes).expect("a stream is written");
    }
    place
}

/// The classes of the traces that are not held back.
fn read(places: &[&TempDir]) -> Vec<String> {
    let opened = places
        .iter()
        .flat_map(|place| open(place.path(), &mut Findings::default()).expect("it is a trace"));
    let mut traces: Vec<Trace> = opened.collect();
    assert_eq!(traces.len(), places.len());
    hold_back(&mut traces);
    piste_modelling::class_names(&traces).map(str::to_owned).collect()
}

#[test]
fn a_kernel_that_has_just_begun_is_not_read() {
    let program = place("ust", "step", [0, 1]);
    let begun = place("kernel", "syscall_entry_read", [0, 900]);
    assert_eq!(read(&[&program, &begun]), ["step"]);
    let longer = place("kernel", "sched_switch", [0, 1000]);
    assert_eq!(read(&[&program, &longer]), ["step", "sched_switch"]);
    // A chunk goes on where another one ended.
    let next = place("kernel", "sched_switch", [900, 1100]);
    assert_eq!(read(&[&begun, &next]), ["syscall_entry_read", "sched_switch"]);
}
