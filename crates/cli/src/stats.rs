// SPDX-License-Identifier: MIT OR Apache-2.0
//! `piste stats`: how many events of which name and stream, and what is lost.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::Path;
use std::thread::available_parallelism;

use jiff::tz::TimeZone;
use piste_modelling::is_of_kernel;
use piste_reason::reason;
use piste_terminal::progress::Progress;
use piste_trace::blind::find_unrecorded;
use piste_trace::count::{StreamCounts, count as count_events};
use piste_trace::index::StreamIndex;
use piste_trace::select::{ProcessCount, SelectedCounts};
use piste_trace::{Findings, Kind, Span, Trace};
use serde::Serialize;

use crate::arguments::{Stats, tell_absent};
use crate::columns::{Align, Cell, Columns};
use crate::failure::Failure;
use crate::json::known_time;
use crate::page::{Page, Width};
use crate::quantity::{count, counted, duration, rate, size};
use crate::screen::{BAD, GOOD, STRONG, styled};
use crate::traces::{open, tell_findings};

/// As `--json` prints it.
#[derive(Serialize)]
struct Summary<'t> {
    events: u64,
    discarded_events: u64,
    lost_packets: u64,
    #[serde(serialize_with = "known_time")]
    begin_ns: Option<i64>,
    #[serde(serialize_with = "known_time")]
    end_ns: Option<i64>,
    duration_ns: i64,
    bytes: u64,
    packets: u64,
    by_event: Vec<EventCount>,
    #[serde(skip_serializing_if = "Option::is_none")]
    by_process: Option<Vec<ProcessSummary>>,
    streams: Vec<StreamSummary<'t>>,
    findings: Vec<&'t piste_trace::Finding>,
}

#[derive(Serialize)]
struct EventCount {
    name: String,
    count: u64,
}

/// Of those of which nobody knows, both are absent.
#[derive(Serialize)]
struct ProcessSummary {
    pid: Option<i64>,
    comm: Option<String>,
    count: u64,
}

#[derive(Serialize)]
struct StreamSummary<'t> {
    file: &'t Path,
    class_id: u64,
    cpu_id: Option<u64>,
    events: u64,
    packets: u64,
    bytes: u64,
    #[serde(serialize_with = "known_time")]
    begin_ns: Option<i64>,
    #[serde(serialize_with = "known_time")]
    end_ns: Option<i64>,
    discarded_events: u64,
    lost_packets: u64,
}

/// `piste stats`
pub(crate) fn stats(arguments: &Stats, json: bool) -> Result<(), Failure> {
    let mut findings = Findings::default();
    let traces = open(&arguments.paths, arguments.progress.wanted, &mut findings)?;
    let threads = arguments.threads.or_else(|| available_parallelism().ok());
    let selection = arguments.selection.selection(&traces, TimeZone::system)?;
    tell_absent(&traces, &selection, &[]);
    let progress = Progress::of("counting", &traces, selection.span, arguments.progress.wanted);
    let is_all = selection.is_any() && selection.span == Span::ALL;
    let counts = match is_all && !arguments.processes {
        true => SelectedCounts {
            streams: count_events(&traces, threads.map_or(1, NonZeroUsize::get), &mut findings),
            ..SelectedCounts::default()
        },
        false => selection
            .count(&traces, arguments.processes, &mut findings)
            .map_err(|error| Failure::new(format!("cannot read the trace: {}", reason(&error))))?,
    };
    drop(progress);
    find_unrecorded(traces.iter().filter(|trace| is_of_kernel(trace)), &mut findings);
    let mut summary = Summary::new(&traces, &counts.streams, &findings);
    if arguments.processes {
        summary.by_process = Some(counts.processes.iter().map(ProcessSummary::new).collect());
    }
    let page = Page::new(&arguments.page);
    if json {
        return page.show_json(&summary);
    }
    page.show(&summary.text(page.width()))?;
    tell_findings(&findings);
    Ok(())
}

impl<'t> Summary<'t> {
    fn new(traces: &'t [Trace], counts: &[Vec<StreamCounts>], findings: &'t Findings) -> Summary<'t> {
        let indices = traces.iter().flat_map(|trace| &trace.streams);
        let counts: Vec<&StreamCounts> = counts.iter().flatten().collect();
        let streams: Vec<StreamSummary<'t>> = indices
            .zip(&counts)
            .map(|(index, counts)| StreamSummary::new(index, counts))
            .collect();
        let mut total = StreamCounts::default();
        counts.into_iter().for_each(|counts| total.add(counts.clone()));
        Summary {
            events: total.events,
            discarded_events: findings.count(Kind::DiscardedEvents),
            lost_packets: findings.count(Kind::LostPackets),
            begin_ns: total.begin_ns,
            end_ns: total.end_ns,
            duration_ns: total
                .end_ns
                .zip(total.begin_ns)
                .map_or(0, |(end, begin)| end.saturating_sub(begin)),
            bytes: streams.iter().map(|stream| stream.bytes).sum(),
            packets: streams.iter().map(|stream| stream.packets).sum(),
            by_event: by_count(total.by_event),
            by_process: None,
            streams,
            findings: findings.iter().collect(),
        }
    }

    fn text(&self, width: Width) -> String {
        let number = |value: u64| count(value.cast_signed());
        let events = self.events.cast_signed();
        let per_second = rate(events, self.duration_ns).map_or(String::new(), |rate| format!(" ({rate} events/s)"));
        let lost = match (self.discarded_events, self.lost_packets) {
            (0, 0) if self.findings.iter().any(|finding| finding.kind.is_damage()) => {
                styled(BAD, "parts are missing or damaged (see below)")
            }
            (0, 0) => styled(GOOD, "nothing lost"),
            (events, packets) => {
                let what = [(events, "event"), (packets, "packet")]
                    .into_iter()
                    .filter(|(lost, _)| *lost > 0);
                let what: Vec<String> = what.map(|(lost, what)| counted(lost.cast_signed(), what)).collect();
                styled(BAD, format!("{} lost", what.join(" and ")))
            }
        };
        let mut text = format!(
            "{}, {}, in {}{per_second}, {lost}\n\n",
            styled(STRONG, counted(events, "event")),
            size(self.bytes.cast_signed()),
            duration(self.duration_ns),
        );
        let mut columns = Columns::new(&[("EVENTS", Align::Right), ("SHARE", Align::Right), ("NAME", Align::Left)]);
        for event in &self.by_event {
            let share = 100.0 * event.count as f64 / self.events.max(1) as f64;
            columns.row([
                number(event.count).into(),
                format!("{share:.1} %").into(),
                Cell::from(&event.name),
            ]);
        }
        text += &columns.lines(0, width);
        if let Some(processes) = &self.by_process {
            let mut columns = Columns::new(&[
                ("EVENTS", Align::Right),
                ("PID", Align::Right),
                ("PROCESS", Align::Left),
            ]);
            for process in processes {
                let unknown = || "unknown".to_owned();
                columns.row([
                    number(process.count).into(),
                    process.pid.map_or_else(unknown, |pid| pid.to_string()).into(),
                    Cell::from(process.comm.as_deref().unwrap_or_default()),
                ]);
            }
            text += "\n";
            text += &columns.lines(0, width);
        }
        let mut columns = Columns::new(&[
            ("EVENTS", Align::Right),
            ("PACKETS", Align::Right),
            ("SIZE", Align::Right),
            ("DISCARDED", Align::Right),
            ("LOST PACKETS", Align::Right),
            ("STREAM", Align::Left),
        ]);
        for stream in &self.streams {
            columns.row([
                number(stream.events).into(),
                number(stream.packets).into(),
                size(stream.bytes.cast_signed()).into(),
                number(stream.discarded_events).into(),
                number(stream.lost_packets).into(),
                stream.file.to_string_lossy().into(),
            ]);
        }
        text + "\n" + &columns.lines(0, width)
    }
}

/// The most frequent first; those as frequent in the order of their names.
fn by_count(by_event: BTreeMap<String, u64>) -> Vec<EventCount> {
    let counts = by_event.into_iter().map(|(name, count)| EventCount { name, count });
    let mut counts: Vec<EventCount> = counts.collect();
    counts.sort_by_key(|event| Reverse(event.count));
    counts
}

impl ProcessSummary {
    fn new(count: &ProcessCount) -> ProcessSummary {
        let comm = count.comm.as_ref();
        ProcessSummary {
            pid: count.pid,
            comm: comm.map(|comm| String::from_utf8_lossy(comm.as_bytes()).into_owned()),
            count: count.events,
        }
    }
}

impl<'t> StreamSummary<'t> {
    fn new(index: &'t StreamIndex, counts: &StreamCounts) -> StreamSummary<'t> {
        StreamSummary {
            file: &index.path,
            class_id: index.class_id,
            cpu_id: index.cpu_id,
            events: counts.events,
            packets: index.packets.len() as u64,
            bytes: index.state.bytes,
            begin_ns: counts.begin_ns,
            end_ns: counts.end_ns,
            discarded_events: index.losses.iter().map(|loss| loss.discarded_events).sum(),
            lost_packets: index.losses.iter().map(|loss| loss.lost_packets).sum(),
        }
    }
}
