// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes traces of one kind of event, and reads them.

use std::fs;
use std::path::{Path, PathBuf};

use piste_ctf::read::text::{TimeFormat, Times, WallTime};
use piste_trace::copy::{Target, copy};
use piste_trace::select::Selection;
use piste_trace::{Findings, Lines, Span, Trace, open};

use crate::notation;

/// Streams have a clock of 1 ns, packets say everything, events `e` have a number `a`.
const METADATA: &str = "\
trace {
	major = 1; minor = 8; byte_order = le;
	uuid = \"00112233-4455-6677-8899-aabbccddeeff\";
	packet.header := struct { integer { size = 32; } magic; integer { size = 32; } stream_id; integer { size = 32; } stream_instance_id; };
};
clock { name = c; freq = 1000000000; };
typealias integer { size = 64; align = 8; map = clock.c.value; } := clock_t;
typealias integer { size = 32; align = 8; } := uint32_t;
stream {
	id = 0;
	packet.context := struct {
		clock_t timestamp_begin; clock_t timestamp_end;
		uint32_t content_size; uint32_t packet_size; uint32_t packet_seq_num; uint32_t events_discarded;
	};
	event.header := struct { clock_t timestamp; };
};
event { stream_id = 0; name = e; fields := struct { uint32_t a; }; };
";

/// A folder with a trace.
pub struct TestTrace {
    pub folder: PathBuf,
    _temporary: tempfile::TempDir,
}

/// A packet of events with those times and numbers.
pub struct Packet<'a> {
    pub number: u32,
    pub discarded: u32,
    pub events: &'a [(u64, u32)],
}

impl TestTrace {
    pub fn new(streams: &[(&str, &[Packet<'_>])]) -> TestTrace {
        let mut text = format!("\n--- metadata\n{METADATA}");
        for (id, (name, packets)) in streams.iter().enumerate() {
            text += &format!("\n--- stream {name}\n");
            for (index, packet) in packets.iter().enumerate() {
                let (first, last) = (packet.events[0].0, packet.events[packet.events.len() - 1].0);
                let (number, discarded) = (packet.number, packet.discarded);
                if index > 0 {
                    text += "packet\n";
                }
                text += &format!("u32:0xc1fc1fc1 u32:0 u32:{id} u64:{first} u64:{last} ");
                text += &format!("u32:$content u32:$packet u32:{number} u32:{discarded}\n");
                for (time, value) in packet.events {
                    text += &format!("u64:{time} u32:{value}\n");
                }
            }
        }
        let trace = notation::Trace::parse(&text, Path::new("")).expect("a trace");
        TestTrace::of(&trace)
    }

    pub fn of(trace: &notation::Trace) -> TestTrace {
        let temporary = tempfile::tempdir().expect("a temporary folder");
        let folder = temporary.path().join("trace");
        fs::create_dir(&folder).expect("a folder is made");
        fs::write(folder.join("metadata"), &trace.metadata).expect("metadata is written");
        for (name, bytes) in &trace.streams {
            fs::write(folder.join(name), bytes).expect("a stream is written");
        }
        TestTrace {
            folder,
            _temporary: temporary,
        }
    }

    pub fn open(&self) -> (Vec<Trace>, Findings) {
        let mut findings = Findings::default();
        let traces = open(&self.folder, &mut findings).expect("it is a trace");
        (traces, findings)
    }

    /// A part of it, as a trace of its own.
    pub fn trimmed(&self, selection: &Selection) -> TestTrace {
        let temporary = tempfile::tempdir().expect("a temporary folder");
        let (traces, mut findings) = self.open();
        let target = Target {
            folder: temporary.path().join("trace"),
            metadata: fs::read(self.folder.join("metadata")).expect("it has metadata"),
        };
        fs::create_dir(&target.folder).expect("a folder is made");
        copy(&traces, std::slice::from_ref(&target), selection, &mut findings).expect("it can be written");
        TestTrace {
            folder: target.folder,
            _temporary: temporary,
        }
    }

    /// Numbers of the events, as text, and all findings as `kind count`.
    pub fn read(&self, span: Span) -> (String, Vec<String>) {
        let (traces, mut findings) = self.open();
        let (text, found) = lines(&traces, span);
        findings.extend(found);
        let values: Vec<&str> = text.lines().filter_map(|line| line.split("a = ").nth(1)).collect();
        let values: Vec<&str> = values.iter().map(|value| value.trim_end_matches(" }")).collect();
        let name =
            |finding: &piste_trace::Finding| format!("{:?} {} at {}", finding.kind, finding.count, finding.offset);
        (values.join(" "), findings.iter().map(name).collect())
    }

    /// Changes the bytes of a stream.
    pub fn damage(&self, stream: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let path = self.folder.join(stream);
        let mut bytes = fs::read(&path).expect("a stream");
        change(&mut bytes);
        fs::write(path, bytes).expect("a stream is written");
    }
}

pub fn times() -> Times {
    Times::new(TimeFormat::TimeOfDay, |seconds| Some(WallTime::utc(seconds)))
}

pub fn lines(traces: &[Trace], span: Span) -> (String, Findings) {
    let selection = Selection {
        span,
        ..Selection::default()
    };
    let mut lines = Lines::new(traces, &selection, times()).expect("its files are there");
    let mut out = Vec::new();
    while lines.next(&mut out) {}
    out.extend(piste_trace::loss::sentences(traces, lines.times()));
    (
        String::from_utf8_lossy(&out).into_owned(),
        std::mem::take(&mut lines.merge.findings),
    )
}
