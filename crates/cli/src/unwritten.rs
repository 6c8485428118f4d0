// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events that are missing because the tracer could not write them, most often as the disk was full: how many, and whose. Of all insights this is
//! the first, as it explains what is missing, and people can do something about it.

use std::collections::BTreeMap;

use piste_analysis::analyses::named;
use piste_analysis::insights::{Closer, Insight, Level};
use piste_analysis::model::System;
use piste_analysis::report::{Column, Unit, Value, column};
use piste_modelling::is_of_kernel;
use piste_trace::Trace;
use piste_trace::index::StreamIndex;
use piste_trace::process::process;

use crate::quantity::count;

const KIND: &str = "losses";
const EVENTS: Column = column("missing_events", "missing event", Unit::Count);
const BY: Column = column("missing_by", "namely", Unit::Text);
/// Parts of time in which they are missing.
const GAPS: Column = column("count", "gap", Unit::Count);

/// So many CPUs and processes are told of.
const TOLD_MAX: usize = 8;

/// What could not be written.
pub(crate) struct Unwritten {
    reason: String,
    lost: BTreeMap<Whose, u64>,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Whose {
    Cpu(u64),
    Process(i64),
    File(String),
}

/// What could not be written of some traces, if anything.
pub(crate) fn unwritten(traces: &[Trace]) -> Option<Unwritten> {
    let failed = || traces.iter().filter(|trace| trace.write_error().is_some());
    let reason = failed().find_map(Trace::write_error)?.to_owned();
    let mut lost = BTreeMap::new();
    for (trace, stream) in failed().flat_map(|trace| trace.streams.iter().map(move |stream| (trace, stream))) {
        let events: u64 = stream.losses.iter().map(|loss| loss.discarded_events).sum();
        if events > 0 {
            *lost.entry(Whose::of(trace, stream)).or_default() += events;
        }
    }
    Some(Unwritten { reason, lost })
}

impl Whose {
    fn of(trace: &Trace, stream: &StreamIndex) -> Whose {
        let cpu = stream.cpu_id.filter(|_| is_of_kernel(trace));
        match (cpu, process(trace, stream)) {
            (Some(cpu), _) => Whose::Cpu(cpu),
            (None, Some(pid)) => Whose::Process(pid),
            (None, None) => Whose::File(stream.path.display().to_string()),
        }
    }

    /// `CPU 0`, or `count (1234)`.
    fn text(&self, system: &System) -> String {
        match self {
            Whose::Cpu(cpu) => format!("CPU {cpu}"),
            Whose::Process(pid) => {
                let thread = i32::try_from(*pid).ok().and_then(|pid| system.find(pid));
                thread.map_or_else(|| format!("process {pid}"), |thread| named(system, thread))
            }
            Whose::File(path) => path.clone(),
        }
    }
}

impl Unwritten {
    /// Explains the losses among the insights about a system, in the first place.
    pub(crate) fn explain(&self, insights: &mut Vec<Insight>, system: &System) {
        let losses = insights.iter().position(|insight| insight.kind == KIND);
        let known = losses.map(|place| insights.remove(place));
        let events: u64 = self.lost.values().sum();
        let mut evidence = vec![(EVENTS, events.into()), (BY, Value::Text(self.whose(system)))];
        let (span_ns, longest_ns, cost_ns) = known.as_ref().map_or((system.told(), None, 0), |known| {
            (known.span_ns, known.longest_ns, known.cost_ns)
        });
        let known = known.into_iter().flat_map(|known| known.evidence);
        evidence.extend(known.map(|(column, value)| match column.key == GAPS.key {
            true => (GAPS, value),
            false => (column, value),
        }));
        let first = Insight {
            kind: KIND,
            level: Level::Serious,
            what: self.sentence(),
            span_ns,
            longest_ns,
            cost_ns,
            evidence,
            closer: Closer::new("health"),
        };
        insights.insert(0, first);
    }

    fn sentence(&self) -> String {
        let Unwritten { reason, .. } = self;
        let is_full = ["no space left on device", "disk quota exceeded"].contains(&reason.as_str());
        let (why, remedy) = match is_full {
            true => (
                "the disk was full while the trace was recorded",
                "free space on it, or record to another disk (-o)",
            ),
            false => ("the trace could not be written", "record to another disk (-o)"),
        };
        format!("{why} ({reason}) and events are missing: the numbers here may be too low; {remedy}")
    }

    /// `12,345 of CPU 1, 20 of count (77), 4 of 3 others`
    fn whose(&self, system: &System) -> String {
        let lost = self.lost.iter();
        let mut lost: Vec<(String, u64)> = lost.map(|(whose, events)| (whose.text(system), *events)).collect();
        lost.sort_by_key(|(_, events)| std::cmp::Reverse(*events));
        if lost.len() > TOLD_MAX {
            let others = lost.split_off(TOLD_MAX - 1);
            let events = others.iter().map(|(_, events)| events).sum();
            lost.push((format!("{} others", others.len()), events));
        }
        let told = lost
            .iter()
            .map(|(whose, events)| format!("{} of {whose}", count(events.cast_signed())));
        told.collect::<Vec<_>>().join(", ")
    }
}
