// SPDX-License-Identifier: MIT OR Apache-2.0
//! Results as CSV: a line for each row, for spreadsheets and plotters.

use std::io;

use ::csv::Writer;
use piste_bench::Report;
use piste_bench::report::{Estimate, Group, Row, RowClock};

use crate::failure::Failure;

const COLUMNS: [&str; 30] = [
    "name",
    "peer",
    "title",
    "group",
    "threads",
    "processes",
    "payload_bytes",
    "clock",
    "time_ns",
    "time_low_ns",
    "time_high_ns",
    "min_ns",
    "p95_ns",
    "cpu_ns",
    "wall_ns",
    "added_ns",
    "step",
    "step_added_ns",
    "step_added_low_ns",
    "step_added_high_ns",
    "to_floor",
    "to_piste",
    "rounds",
    "preempted_rounds",
    "events",
    "samples",
    "interrupted_samples",
    "sample_p50_ns",
    "sample_p99_ns",
    "sample_max_ns",
];

/// The whole text. What was counted has columns behind the others.
pub(super) fn text(report: &Report) -> Result<String, Failure> {
    let mut writer = Writer::from_writer(Vec::new());
    let counters = report.counters.names.iter().map(|name| format!("{name}_per_event"));
    let heading: Vec<String> = COLUMNS.map(str::to_owned).into_iter().chain(counters).collect();
    writer.write_record(&heading).map_err(io::Error::from)?;
    for row in &report.rows {
        let counted = report
            .counters
            .names
            .iter()
            .map(|name| number(row.counters.get(name).copied()));
        let cells: Vec<String> = cells(row).into_iter().chain(counted).collect();
        writer.write_record(&cells).map_err(io::Error::from)?;
    }
    let bytes = writer.into_inner().expect("memory takes everything");
    Ok(String::from_utf8(bytes).expect("all cells are texts"))
}

fn cells(row: &Row) -> [String; COLUMNS.len()] {
    let samples = row.samples.as_ref();
    let percentile = |percent: f64| {
        let all = samples.into_iter().flat_map(|samples| &samples.percentiles);
        number(all.filter(|one| one.percent == percent).map(|one| one.ns).next())
    };
    let step = row.step.as_ref();
    let value = |estimate: Option<Estimate>| number(estimate.map(|estimate| estimate.value));
    let group = match row.group {
        Group::Events => "events",
        Group::Calls => "calls",
        Group::Steps => "steps",
    };
    let clock = match row.clock {
        RowClock::Cpu => "cpu",
        RowClock::Wall => "wall",
    };
    [
        row.name.clone(),
        row.peer.clone(),
        row.title.clone(),
        group.into(),
        row.threads.to_string(),
        row.processes.to_string(),
        row.payload_bytes.to_string(),
        clock.into(),
        row.time_ns.value.to_string(),
        number(row.time_ns.low),
        number(row.time_ns.high),
        row.min_ns.to_string(),
        row.p95_ns.to_string(),
        row.cpu_ns.to_string(),
        row.wall_ns.to_string(),
        number(row.added_ns),
        step.map(|step| step.name.clone()).unwrap_or_default(),
        number(step.map(|step| step.added_ns.value)),
        number(step.and_then(|step| step.added_ns.low)),
        number(step.and_then(|step| step.added_ns.high)),
        value(row.to_floor),
        value(row.to_piste),
        row.rounds.to_string(),
        row.preempted_rounds.to_string(),
        row.events.to_string(),
        samples.map(|samples| samples.count.to_string()).unwrap_or_default(),
        samples
            .map(|samples| samples.interrupted.to_string())
            .unwrap_or_default(),
        percentile(50.0),
        percentile(99.0),
        number(samples.map(|samples| samples.max_ns)),
    ]
}

/// Nothing for what is unknown.
fn number(value: Option<f64>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}
