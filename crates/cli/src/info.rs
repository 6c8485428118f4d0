// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste info`: what traces are: who wrote them and where, their clocks, their streams, and which events with which fields they may have.

use std::path::Path;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use piste_ctf::read::plan::{EventPlan, Node, Structure};
use piste_ctf::read::schema::{Clock, EnvironmentValue, Scope, Version};
use piste_patterns::{matches, nearest};
use piste_trace::index::StreamIndex;
use piste_trace::type_name::type_name;
use piste_trace::{Finding, Findings, Trace};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::arguments::Info;
use crate::columns::{Align, Cell, Columns};
use crate::failure::Failure;
use crate::imported;
use crate::json::known_time;
use crate::page::{Page, Width};
use crate::quantity::{count, counted, duration, size};
use crate::screen::{FAINT, STRONG, printable, styled, tell_sentence};
use crate::traces::{open, tell_findings};

/// How far the clock of a trace of Piste was from the wall clock, at most.
const CLOCK_ERROR: &str = "piste_clock_error_ns";

/// As `--json` prints it.
#[derive(Serialize)]
struct Infos<'t> {
    traces: Vec<TraceInfo<'t>>,
    findings: Vec<&'t Finding>,
}

/// A trace.
#[derive(Serialize)]
struct TraceInfo<'t> {
    trace: &'t Path,
    name: &'t str,
    format: &'static str,
    uuid: Option<String>,
    tracer: Option<String>,
    host: Option<&'t str>,
    domain: Option<&'t str>,
    environment: Map<String, Value>,
    clocks: Vec<ClockInfo<'t>>,
    /// Of the first packet.
    #[serde(serialize_with = "known_time")]
    begin_ns: Option<i64>,
    #[serde(serialize_with = "known_time")]
    end_ns: Option<i64>,
    bytes: u64,
    packets: u64,
    streams: Vec<StreamInfo<'t>>,
    events: Vec<EventInfo<'t>>,
}

#[derive(Serialize)]
struct ClockInfo<'t> {
    name: &'t str,
    description: &'t str,
    uuid: Option<String>,
    frequency_hz: u64,
    precision_cycles: Option<u64>,
    offset_seconds: i64,
    offset_cycles: u64,
    is_unix_epoch: bool,
}

#[derive(Serialize)]
struct StreamInfo<'t> {
    file: &'t Path,
    class_id: u64,
    cpu_id: Option<u64>,
    packets: u64,
    bytes: u64,
    #[serde(serialize_with = "known_time")]
    begin_ns: Option<i64>,
    #[serde(serialize_with = "known_time")]
    end_ns: Option<i64>,
}

#[derive(Serialize)]
struct EventInfo<'t> {
    stream_class_id: u64,
    id: u64,
    name: &'t str,
    log_level: Option<i64>,
    packet_context: Vec<FieldInfo<'t>>,
    event_context: Vec<FieldInfo<'t>>,
    specific_context: Vec<FieldInfo<'t>>,
    payload: Vec<FieldInfo<'t>>,
}

#[derive(Serialize)]
struct FieldInfo<'t> {
    name: &'t str,
    #[serde(rename = "type")]
    of_type: String,
}

/// `piste info`
pub(crate) fn info(arguments: &Info, json: bool) -> Result<(), Failure> {
    let mut findings = Findings::default();
    let traces = open(&arguments.paths, arguments.progress.wanted, &mut findings)?;
    let is_wanted =
        |name: &str| arguments.events.is_empty() || arguments.events.iter().any(|pattern| matches(pattern, name));
    let infos: Vec<TraceInfo<'_>> = traces.iter().map(|trace| TraceInfo::new(trace, is_wanted)).collect();
    let page = Page::new(&arguments.page);
    if json {
        return page.show_json(&Infos {
            traces: infos,
            findings: findings.iter().collect(),
        });
    }
    let texts: Vec<String> = infos
        .iter()
        .map(|info| info.text(!arguments.events.is_empty(), page.width()))
        .collect();
    page.show(&texts.join("\n"))?;
    if !arguments.events.is_empty() && infos.iter().all(|info| info.events.is_empty()) {
        tell_sentence(&no_event(&traces, &arguments.events));
    }
    tell_findings(&findings);
    Ok(())
}

fn no_event(traces: &[Trace], patterns: &[String]) -> String {
    let classes = traces.iter().flat_map(|trace| trace.schema().streams.values());
    let names: Vec<&str> = classes
        .flat_map(|stream| stream.events.values().map(|event| event.name.as_str()))
        .collect();
    let near: Vec<String> = patterns
        .iter()
        .flat_map(|pattern| nearest(pattern, names.iter().copied(), 3))
        .collect();
    let near = match near.is_empty() {
        true => String::new(),
        false => format!("; similar: {}", near.join(", ")),
    };
    printable(&format!("no event matches {}{near}", patterns.join(", "))).into_owned()
}

impl<'t> TraceInfo<'t> {
    fn new(trace: &'t Trace, is_wanted: impl Fn(&str) -> bool) -> TraceInfo<'t> {
        let schema = trace.schema();
        let environment = schema.environment.iter().map(|(key, value)| {
            let value = match value {
                EnvironmentValue::Integer(number) => Value::from(*number),
                EnvironmentValue::Text(text) => Value::from(text.as_str()),
            };
            (key.clone(), value)
        });
        let streams: Vec<StreamInfo<'t>> = trace
            .streams
            .iter()
            .map(|index| StreamInfo::new(trace, index))
            .collect();
        let mut events = Vec::new();
        for &class_id in schema.streams.keys() {
            for event in trace.plan.events(class_id) {
                if is_wanted(&event.name) {
                    events.push(EventInfo::new(trace, class_id, event));
                }
            }
        }
        TraceInfo {
            trace: &trace.folder,
            name: &trace.name,
            format: match schema.version {
                Version::Ctf1 => "CTF 1.8",
                Version::Ctf2 => "CTF 2",
            },
            uuid: schema.uuid.map(uuid_text),
            tracer: tracer(trace),
            host: trace.environment("hostname"),
            domain: trace.environment("domain"),
            environment: environment.collect(),
            clocks: schema.clocks.iter().map(ClockInfo::new).collect(),
            begin_ns: streams.iter().filter_map(|stream| stream.begin_ns).min(),
            end_ns: streams.iter().filter_map(|stream| stream.end_ns).max(),
            bytes: streams.iter().map(|stream| stream.bytes).sum(),
            packets: streams.iter().map(|stream| stream.packets).sum(),
            streams,
            events,
        }
    }

    fn text(&self, with_fields: bool, width: Width) -> String {
        let name = imported::shown(self.trace);
        let mut text = format!("{}\n", styled(STRONG, printable(&name.to_string_lossy())));
        let mut line = |label: &str, what: String| {
            text += &format!("  {}  {}\n", styled(FAINT, format!("{label:<8}")), printable(&what));
        };
        line("format", self.format.into());
        if let Some(tracer) = &self.tracer {
            line("tracer", tracer.clone());
        }
        if let Some(host) = self.host {
            line("host", host.into());
        }
        if let Some(domain) = self.domain {
            line("domain", domain.into());
        }
        if let Some(uuid) = &self.uuid {
            line("uuid", uuid.clone());
        }
        let error = self.environment.get(CLOCK_ERROR).and_then(Value::as_i64);
        let error = error.map_or_else(String::new, |error_ns| {
            format!(", within {} of the wall clock", duration(error_ns))
        });
        for clock in &self.clocks {
            line("clock", clock.text() + &error);
        }
        if let (Some(begin_ns), Some(end_ns)) = (self.begin_ns, self.end_ns) {
            let length = duration(end_ns.saturating_sub(begin_ns));
            line("time", format!("{} to {}, {length}", moment(begin_ns), moment(end_ns)));
        }
        let files = counted(self.streams.len() as i64, "stream");
        let packets = counted(self.packets.cast_signed(), "packet");
        line(
            "size",
            format!("{}, {packets}, {files}", size(self.bytes.cast_signed())),
        );
        for (key, value) in &self.environment {
            if !["hostname", "domain", "piste_version", CLOCK_ERROR].contains(&key.as_str())
                && !key.starts_with("tracer_")
            {
                line(
                    "",
                    format!("{key} = {}", value.as_str().map_or(value.to_string(), str::to_owned)),
                );
            }
        }
        text += "\n";
        match with_fields {
            true => self.events.iter().for_each(|event| text += &event.text()),
            false => {
                text += &self.stream_lines(width);
                text += "\n";
                text += &self.event_lines(width);
            }
        }
        text
    }

    fn stream_lines(&self, width: Width) -> String {
        let mut columns = Columns::new(&[
            ("PACKETS", Align::Right),
            ("SIZE", Align::Right),
            ("CPU", Align::Right),
            ("CLASS", Align::Right),
            ("STREAM", Align::Left),
        ]);
        for stream in &self.streams {
            let name = stream.file.file_name().unwrap_or_default();
            columns.row([
                count(stream.packets.cast_signed()).into(),
                size(stream.bytes.cast_signed()).into(),
                stream.cpu_id.map_or(String::new(), |cpu| cpu.to_string()).into(),
                stream.class_id.to_string().into(),
                Cell::from(name.to_string_lossy()),
            ]);
        }
        columns.lines(2, width)
    }

    fn event_lines(&self, width: Width) -> String {
        let mut columns = Columns::new(&[
            ("CLASS", Align::Right),
            ("ID", Align::Right),
            ("FIELDS", Align::Right),
            ("EVENT", Align::Left),
        ]);
        for event in &self.events {
            columns.row([
                event.stream_class_id.to_string().into(),
                event.id.to_string().into(),
                event.payload.len().to_string().into(),
                Cell::from(event.name),
            ]);
        }
        columns.lines(2, width)
    }
}

impl<'t> ClockInfo<'t> {
    fn new(clock: &'t Clock) -> ClockInfo<'t> {
        ClockInfo {
            name: &clock.name,
            description: &clock.description,
            uuid: clock.uuid.map(uuid_text),
            frequency_hz: clock.frequency_hz,
            precision_cycles: clock.precision_cycles,
            offset_seconds: clock.offset_seconds,
            offset_cycles: clock.offset_cycles,
            is_unix_epoch: clock.is_unix_epoch,
        }
    }

    fn text(&self) -> String {
        let mut text = format!("{}, {} Hz", self.name, count(self.frequency_hz.cast_signed()));
        if !self.description.is_empty() {
            text += &format!(", {}", self.description);
        }
        text
    }
}

impl<'t> StreamInfo<'t> {
    fn new(trace: &Trace, index: &'t StreamIndex) -> StreamInfo<'t> {
        let scale = trace.scale(index);
        let ns = |cycles: Option<u64>| scale.and_then(|scale| scale.nanoseconds(cycles?));
        StreamInfo {
            file: &index.path,
            class_id: index.class_id,
            cpu_id: index.cpu_id,
            packets: index.packets.len() as u64,
            bytes: index.state.bytes,
            begin_ns: index.packets.iter().filter_map(|packet| ns(packet.begin)).min(),
            end_ns: index.packets.iter().filter_map(|packet| ns(packet.end)).max(),
        }
    }
}

impl<'t> EventInfo<'t> {
    fn new(trace: &'t Trace, class_id: u64, event: &'t EventPlan) -> EventInfo<'t> {
        let fields = |scope| fields(trace.plan.structure(class_id, event, scope));
        EventInfo {
            stream_class_id: class_id,
            id: event.id,
            name: &event.name,
            log_level: event.log_level,
            packet_context: fields(Scope::PacketContext),
            event_context: fields(Scope::EventContext),
            specific_context: fields(Scope::SpecificContext),
            payload: fields(Scope::Payload),
        }
    }

    fn text(&self) -> String {
        let mut text = format!("  {}\n", styled(STRONG, printable(self.name)));
        for (label, fields) in [
            ("packet context", &self.packet_context),
            ("event context", &self.event_context),
            ("specific context", &self.specific_context),
            ("", &self.payload),
        ] {
            for field in fields {
                let (name, of_type) = (printable(field.name), printable(&field.of_type));
                let label = match label {
                    "" => String::new(),
                    label => styled(FAINT, format!("  ({label})")),
                };
                text += &format!("    {name}: {of_type}{label}\n");
            }
        }
        text
    }
}

/// Those that people see.
fn fields(structure: Option<&Structure>) -> Vec<FieldInfo<'_>> {
    let fields = structure.map_or(&[][..], Structure::fields);
    let is_shown = |node: &Node| !matches!(node, Node::Integer(integer) if integer.is_hidden());
    let shown = fields.iter().filter(|(_, node)| is_shown(node));
    shown
        .map(|(name, node)| FieldInfo {
            name,
            of_type: type_name(node),
        })
        .collect()
}

/// `lttng-ust 2.13.5`; `piste 0.1.0, in the layout of lttng-ust 2.13.0`
pub(crate) fn tracer(trace: &Trace) -> Option<String> {
    let value = |key: &str| {
        let found = trace.schema().environment.iter().find(|(known, _)| known == key);
        found.map(|(_, value)| match value {
            EnvironmentValue::Integer(number) => number.to_string(),
            EnvironmentValue::Text(text) => text.clone(),
        })
    };
    let name = value("tracer_name");
    let Some(name) = name else {
        return value("piste_version").map(|version| format!("piste {version}"));
    };
    let version = ["tracer_major", "tracer_minor", "tracer_patch", "tracer_patchlevel"];
    let version: Vec<String> = version.into_iter().filter_map(value).collect();
    let tracer = match version.is_empty() {
        true => name,
        false => format!("{name} {}", version.join(".")),
    };
    Some(match value("piste_version") {
        Some(version) => format!("piste {version}, in the layout of {tracer}"),
        None => tracer,
    })
}

fn uuid_text(uuid: [u8; 16]) -> String {
    let hex: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// In local time.
fn moment(ns: i64) -> String {
    Timestamp::from_nanosecond(ns.into()).map_or_else(
        |_| format!("{ns} ns"),
        |time| {
            time.to_zoned(TimeZone::system())
                .strftime("%Y-%m-%d %H:%M:%S%.9f")
                .to_string()
        },
    )
}
