// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where events of traces are missing, stream by stream, for analyses that do without the model: which classes of events those could be, on
//! which CPU, and of which process.

use std::collections::HashMap;
use std::ptr;

use piste_analysis::process_gaps::Lost;
use piste_trace::blind::{Blind, Unrecorded, blind, recorded_span, unrecorded};
use piste_trace::index::StreamIndex;
use piste_trace::process::process;
use piste_trace::{Span, Trace};

use crate::growing::missing;
use crate::{Ground, GroundError, is_of_kernel};

/// A part of time in which events of streams are missing.
#[derive(Clone, Copy, Debug)]
pub struct StreamGap<'t> {
    /// The trace.
    pub trace: &'t Trace,
    /// The class of the streams.
    pub class_id: u64,
    /// The CPU; absent when they may be of any.
    pub cpu: Option<u64>,
    /// The process; absent when they may be of any.
    pub pid: Option<i64>,
    /// From here on, in nanoseconds.
    pub begin_ns: i64,
    /// Up to here.
    pub end_ns: i64,
}

impl StreamGap<'_> {
    /// Tells of it, as far as it comes before the end of a part of time. A sentence that says more than that events are missing, if there is
    /// one, and whoever it is told says that it matters.
    pub fn tell(&self, span: Span, take: impl FnOnce(&Lost<'_>) -> bool) -> Option<String> {
        if self.begin_ns >= span.end_ns {
            return None;
        }
        let events = self.trace.plan.events(self.class_id);
        let classes: Vec<&str> = events.iter().map(|event| &*event.name).collect();
        let matters = take(&Lost {
            classes: &classes,
            pid: self.pid,
            begin_ns: self.begin_ns,
            end_ns: self.end_ns.min(span.end_ns),
        });
        let cpu = self
            .cpu
            .filter(|_| matters && (self.begin_ns, self.end_ns) == (i64::MIN, i64::MAX))?;
        Some(format!(
            "there are no events of CPU {cpu}: what happened there is unknown"
        ))
    }
}

/// Finds them.
#[derive(Debug)]
pub struct StreamGaps<'t> {
    traces: &'t [Trace],
    /// Of streams that miss something, by their place in memory.
    processes: HashMap<usize, Option<i64>>,
}

impl<'t> StreamGaps<'t> {
    /// Of some traces. The CPUs of a kernel are those of its traces that are beside each other.
    pub fn new(traces: &'t [Trace]) -> StreamGaps<'t> {
        StreamGaps {
            traces,
            processes: HashMap::new(),
        }
    }

    /// All that can be told beforehand: what the index tells ([`blind`]), where a kernel's CPUs were not recorded, and those without a
    /// stream. The others are met by who reads ([`StreamGaps::of`]).
    ///
    /// # Errors
    /// A stream file that was there cannot be opened any more.
    pub fn known(&mut self) -> Result<Vec<StreamGap<'t>>, GroundError> {
        let parts = self.traces.iter().flat_map(blind);
        let mut gaps: Vec<StreamGap<'t>> = parts.filter_map(|part| self.of(part)).collect();
        let traces = self.traces;
        let machines = traces.chunk_by(|one, other| is_of_kernel(one) && is_of_kernel(other));
        for kernel in machines.filter(|kernel| is_of_kernel(&kernel[0])) {
            // Shorter ones are how tracers begin and end.
            let unrecorded = unrecorded(kernel, recorded_span(kernel).unwrap_or(Span::ALL));
            let told = unrecorded.into_iter().filter(Unrecorded::is_told);
            gaps.extend(told.filter_map(|part| self.of(part.blind)));
            let ground = Ground::new(kernel, Span::ALL)?;
            // Where nothing tells what CPUs do, one may well have had nothing to tell.
            let unseen = ground.unseen.iter().filter(|_| ground.circumstances.has_switches);
            for cpu in unseen {
                gaps.extend(kernel.iter().flat_map(|trace| {
                    trace.schema().streams.keys().map(move |class_id| StreamGap {
                        trace,
                        class_id: *class_id,
                        cpu: Some(u64::from(*cpu)),
                        pid: None,
                        begin_ns: i64::MIN,
                        end_ns: i64::MAX,
                    })
                }));
            }
        }
        gaps.sort_by_key(|gap| gap.begin_ns);
        Ok(gaps)
    }

    /// The same of traces that grow: what follows the last packet of a stream is not missing.
    pub fn so_far(&mut self) -> Vec<StreamGap<'t>> {
        let parts = self.traces.iter().flat_map(missing);
        parts.filter_map(|part| self.of(part)).collect()
    }

    /// What a blind part is.
    pub fn of(&mut self, part: Blind<'t>) -> Option<StreamGap<'t>> {
        let is_here = |stream: &StreamIndex| ptr::eq(stream, part.stream);
        let trace = self.traces.iter().find(|trace| trace.streams.iter().any(is_here))?;
        let address = ptr::from_ref(part.stream).addr();
        let pid = self
            .processes
            .entry(address)
            .or_insert_with(|| process(trace, part.stream));
        Some(StreamGap {
            trace,
            class_id: part.stream.class_id,
            cpu: part.cpu,
            pid: *pid,
            begin_ns: part.begin_ns,
            end_ns: part.end_ns,
        })
    }
}
