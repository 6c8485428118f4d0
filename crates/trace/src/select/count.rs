// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many of the wanted events there are, in each stream and of each process. Everything is looked at in the order of time, by one thread; who
//! wants all events and no processes counts faster with [`crate::count`].

use std::collections::HashMap;
use std::io;
use std::ptr;

use piste_ctf::read::plan::EventPlan;

use super::{Comm, Selection, Threads};
use crate::count::StreamCounts;
use crate::finding::Findings;
use crate::folder::Trace;

/// What was counted.
#[derive(Debug, Default)]
pub struct SelectedCounts {
    /// One for each stream of each trace, in their order.
    pub streams: Vec<Vec<StreamCounts>>,
    /// Those with the most events first; empty when nobody asked.
    pub processes: Vec<ProcessCount>,
}

/// The events of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessCount {
    /// Absent: of those of which nobody knows.
    pub pid: Option<i64>,
    /// The name of its first thread, as it was last, else of another of its threads.
    pub comm: Option<Comm>,
    /// How many.
    pub events: u64,
}

impl Selection {
    /// Counts the wanted events; `by_process`: also for each process.
    ///
    /// # Errors
    /// A stream file that was there cannot be opened any more.
    pub fn count(&self, traces: &[Trace], by_process: bool, findings: &mut Findings) -> io::Result<SelectedCounts> {
        let mut merge = match by_process {
            true => self.merge_with_history(traces)?,
            false => self.merge(traces)?,
        };
        let mut matcher = self.matcher(traces);
        let mut threads = by_process.then(|| Threads::new(traces));
        let mut streams: Vec<Vec<StreamCounts>> = traces
            .iter()
            .map(|trace| vec![StreamCounts::default(); trace.streams.len()])
            .collect();
        let mut classes: HashMap<(usize, *const EventPlan), u64> = HashMap::new();
        let mut names: HashMap<*const EventPlan, &EventPlan> = HashMap::new();
        let mut places: HashMap<usize, (usize, usize)> = HashMap::new();
        let mut processes: HashMap<Option<i64>, ProcessCount> = HashMap::new();
        while let Some(merged) = merge.next() {
            let who = threads.as_mut().map(|threads| threads.see(&mut merge, &merged).1);
            if !matcher.wants(&mut merge, &merged) {
                continue;
            }
            let class = merged.event.class;
            *classes.entry((merged.stream, ptr::from_ref(class))).or_default() += 1;
            names.insert(ptr::from_ref(class), class);
            let trace = merge.trace_of(merged.stream);
            let stream = merge.stream(merged.stream);
            let (trace, index) = *places.entry(merged.stream).or_insert_with(|| {
                let known = traces[trace]
                    .streams
                    .iter()
                    .position(|index| ptr::eq(index, stream.index));
                (trace, known.unwrap_or_default())
            });
            let counts = &mut streams[trace][index];
            counts.events += 1;
            if let Some(ns) = stream.ns(&merged.event) {
                counts.begin_ns = Some(counts.begin_ns.map_or(ns, |begin_ns| begin_ns.min(ns)));
                counts.end_ns = counts.end_ns.max(Some(ns));
            }
            if let Some(who) = who {
                let process = processes.entry(who.pid).or_insert(ProcessCount {
                    pid: who.pid,
                    comm: None,
                    events: 0,
                });
                process.events += 1;
                // Each CPU's idle thread has a name of its own.
                let is_first = who.pid == who.tid && who.pid != Some(0);
                if who.pid.is_some() && who.comm.is_some() && (is_first || process.comm.is_none()) {
                    process.comm = who.comm;
                }
            }
        }
        for ((stream, class), count) in classes {
            let (trace, index) = places[&stream];
            *streams[trace][index]
                .by_event
                .entry(names[&class].name.to_string())
                .or_default() += count;
        }
        findings.extend(std::mem::take(&mut merge.findings));
        let mut processes: Vec<ProcessCount> = processes.into_values().collect();
        processes.sort_by_key(|process| (std::cmp::Reverse(process.events), process.pid));
        Ok(SelectedCounts { streams, processes })
    }
}
