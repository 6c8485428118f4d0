// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is said of events and packets that the tracer lost.

use super::times::Times;

/// What was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say all")]
pub enum Lost {
    Events,
    Packets,
}

/// A loss, between two packets of a stream.
#[derive(Clone, Copy, Debug)]
pub struct Loss<'a> {
    /// Events or packets.
    pub what: Lost,
    /// How many; absent when the first packet has a count already, which may be of a time before the trace.
    pub count: Option<u64>,
    /// From when to when, in nanoseconds since the clock's origin; the inner ones absent where 64 bits do not hold them.
    pub between: Option<[Option<i64>; 2]>,
    /// `vm/ust/uid/0`: the host's name, and the way to the trace from the folder that was asked for; each may be empty.
    pub trace_name: &'a str,
    /// Of the trace.
    pub trace_uuid: Option<[u8; 16]>,
    /// Path of the stream's file.
    pub stream_name: &'a str,
    /// Class of the stream.
    pub stream_class_id: u64,
    /// Which stream of its class. Readers number those that have no id, or no begin of packets, in the order of their files.
    pub stream_id: Option<u64>,
}

/// A line that says what was lost: `WARNING: Tracer discarded 3 events between [09:41:07.000000000] and [...] in trace "..." ...`
pub fn loss(out: &mut Vec<u8>, times: &mut Times, loss: &Loss<'_>) {
    let mut say = |text: &str| out.extend_from_slice(text.as_bytes());
    let (what, behind) = match (loss.what, loss.count) {
        (Lost::Events, Some(1)) => ("event", ""),
        (Lost::Packets, Some(1)) => ("packet", ""),
        (Lost::Events, _) => ("event", "s"),
        (Lost::Packets, _) => ("packet", "s"),
    };
    match loss.count {
        Some(count) => say(&format!("WARNING: Tracer discarded {count} {what}{behind} ")),
        None => say(&format!("WARNING: Tracer may have discarded {what}{behind} ")),
    }
    match loss.between {
        Some([begin, end]) => {
            say("between [");
            times.time(out, begin);
            out.extend_from_slice(b"] and [");
            times.time(out, end);
            out.push(b']');
        }
        None => say("(unknown time range)"),
    }
    let uuid = match loss.trace_uuid {
        Some(uuid) => format!("(UUID: {}) ", hyphenated(uuid)),
        None => "(no UUID) ".to_owned(),
    };
    let stream_id = match loss.stream_id {
        Some(id) => format!("stream ID: {id}"),
        None => "no stream ID".to_owned(),
    };
    let (trace, stream, class) = (loss.trace_name, loss.stream_name, loss.stream_class_id);
    let rest =
        format!(" in trace \"{trace}\" {uuid}within stream \"{stream}\" (stream class ID: {class}, {stream_id}).\n");
    out.extend_from_slice(rest.as_bytes());
}

fn hyphenated(uuid: [u8; 16]) -> String {
    let digits = format!("{:032x}", u128::from_be_bytes(uuid));
    let groups = [
        &digits[..8],
        &digits[8..12],
        &digits[12..16],
        &digits[16..20],
        &digits[20..],
    ];
    groups.join("-")
}
