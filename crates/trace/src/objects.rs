// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events as JSON objects, one a line, in the order of time. docs/reference/json.md describes them.
//!
//! ```text
//! {"time_ns":"1795340467123456789","time":"2026-11-22T09:41:07.123456789Z","name":"shop:order","cpu":1,"trace":"vm/user",
//!  "stream":"default_1","packet_context":{...},"event_context":{...},"payload":{"id":42,"item":"tea"}}
//! ```

use std::io::{self, Write};

use piste_ctf::read::json_value::{JsonValue, string};
use piste_ctf::read::schema::{Scope, Version};
use piste_ctf::read::text::WallTime;

use crate::folder::Trace;
use crate::merge::{Merge, Merged};
use crate::select::{Cpus, Matcher, Selection};
use crate::symbols::{self, EventSymbols};

const SCOPES: [(Scope, &[u8]); 3] = [
    (Scope::EventContext, b",\"event_context\":{"),
    (Scope::SpecificContext, b",\"specific_context\":{"),
    (Scope::Payload, b",\"payload\":{"),
];

/// Writes one object after the other.
#[derive(Debug)]
pub struct Objects<'t> {
    /// What was not as it should be is in its findings.
    pub merge: Merge<'t>,
    matcher: Option<Matcher<'t>>,
    writer: ObjectWriter<'t>,
}

/// Writes the object of an event, whoever has found it.
#[derive(Debug)]
pub struct ObjectWriter<'t> {
    traces: &'t [Trace],
    /// One for each stream: `,"trace":...,"stream":...`, and of which packet the rest of it is.
    streams: Vec<StreamText>,
    cpus: Cpus,
    /// The last second that was asked for, and its text.
    second: Option<(i64, String)>,
    /// Absent: addresses are shown without names.
    symbols: Option<EventSymbols<'t>>,
}

#[derive(Debug, Default)]
struct StreamText {
    origin: Vec<u8>,
    packet: u64,
    context: Vec<u8>,
}

impl<'t> Objects<'t> {
    /// Of the events that are wanted.
    ///
    /// # Errors
    /// A stream file that was there cannot be opened any more.
    pub fn new(traces: &'t [Trace], selection: &Selection) -> io::Result<Objects<'t>> {
        Ok(Objects::of(selection.merge(traces)?, traces, selection))
    }

    /// The same of events that somebody else found.
    pub fn of(merge: Merge<'t>, traces: &'t [Trace], selection: &Selection) -> Objects<'t> {
        Objects {
            merge,
            matcher: (!selection.is_any()).then(|| selection.matcher(traces)),
            writer: ObjectWriter::new(traces),
        }
    }

    /// Shows addresses with their names from now on.
    pub fn set_symbols(&mut self, symbols: EventSymbols<'t>) {
        self.writer.symbols = Some(symbols);
    }

    /// Appends the next event's object and the end of the line; false when there is none.
    pub fn next(&mut self, out: &mut Vec<u8>) -> bool {
        while let Some(merged) = self.merge.next() {
            let merge = &mut self.merge;
            if self
                .matcher
                .as_mut()
                .is_none_or(|matcher| matcher.wants(merge, &merged))
            {
                self.writer.write(out, merge, &merged);
                out.push(b'\n');
                return true;
            }
        }
        false
    }
}

impl<'t> ObjectWriter<'t> {
    /// For the events of some traces.
    pub fn new(traces: &'t [Trace]) -> ObjectWriter<'t> {
        ObjectWriter {
            traces,
            streams: Vec::new(),
            cpus: Cpus::default(),
            second: None,
            symbols: None,
        }
    }

    /// Appends the object of the event that `merge` has just given.
    pub fn write(&mut self, out: &mut Vec<u8>, merge: &mut Merge<'t>, merged: &Merged<'t>) {
        let trace_number = merge.trace_of(merged.stream);
        let trace = &self.traces[trace_number];
        let stream = merge.stream(merged.stream);
        let event = merged.event;
        out.push(b'{');
        if let Some(ns) = stream.ns(&event) {
            // Writing to memory does not fail.
            let _ = write!(out, "\"time_ns\":\"{ns}\",");
            if clock_is_of_calendar(trace, stream.index.class_id) {
                out.extend_from_slice(b"\"time\":\"");
                self.calendar(out, ns);
                out.extend_from_slice(b"\",");
            }
        }
        out.extend_from_slice(b"\"name\":");
        string(out, event.class.name.as_bytes());
        if self.streams.len() <= merged.stream {
            self.streams.resize_with(merged.stream + 1, StreamText::default);
        }
        let text = &mut self.streams[merged.stream];
        if text.origin.is_empty() {
            text.origin = origin(trace, stream.index);
        }
        if let Some(cpu) = self.cpus.of(&trace.plan, stream, merged) {
            let _ = write!(out, ",\"cpu\":{cpu}");
        }
        out.extend_from_slice(&text.origin);
        if text.packet != stream.packet_count() {
            text.packet = stream.packet_count();
            text.context.clear();
            text.context.extend_from_slice(b",\"packet_context\":{");
            let mut visitor = JsonValue::new(&mut text.context);
            let is_there = stream
                .visit(&event, Scope::PacketContext, &mut visitor)
                .unwrap_or(false);
            text.context.push(b'}');
            if !is_there {
                text.context.clear();
            }
        }
        out.extend_from_slice(&text.context);
        let mut symbols = match &mut self.symbols {
            Some(symbols) => symbols.of(trace_number, stream, &event),
            None => None,
        };
        for (scope, opening) in SCOPES {
            let before = out.len();
            out.extend_from_slice(opening);
            // What cannot be read is left out as a whole: half of a value is none.
            match symbols::visit(stream, &event, scope, &mut JsonValue::new(out), symbols.as_mut()) {
                Ok(true) => out.push(b'}'),
                Ok(false) | Err(_) => out.truncate(before),
            }
        }
        out.push(b'}');
    }

    fn calendar(&mut self, out: &mut Vec<u8>, ns: i64) {
        let (second, rest) = (ns.div_euclid(1_000_000_000), ns.rem_euclid(1_000_000_000));
        if self.second.as_ref().is_none_or(|(known, _)| *known != second) {
            let wall = WallTime::utc(second);
            let text = format!(
                "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
                wall.year, wall.month, wall.day, wall.hour, wall.minute, wall.second
            );
            self.second = Some((second, text));
        }
        if let Some((_, text)) = &self.second {
            let _ = write!(out, "{text}.{rest:09}Z");
        }
    }
}

fn clock_is_of_calendar(trace: &Trace, class_id: u64) -> bool {
    let class = trace.schema().streams.get(&class_id);
    let clock = class.and_then(|class| trace.schema().clocks.get(class.clock?));
    // Tracers that write CTF 1.8 count from 1970 and seldom say so.
    clock.is_some_and(|clock| clock.is_unix_epoch || trace.schema().version == Version::Ctf1)
}

fn origin(trace: &Trace, index: &crate::index::StreamIndex) -> Vec<u8> {
    let mut text = Vec::new();
    text.extend_from_slice(b",\"trace\":");
    string(&mut text, trace.name.as_bytes());
    text.extend_from_slice(b",\"stream\":");
    let name = index.path.file_name().unwrap_or_default();
    string(&mut text, name.as_encoded_bytes());
    text
}
