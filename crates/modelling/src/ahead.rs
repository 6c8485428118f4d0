// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads events ahead of the model: one thread merges the streams and reads fields, another one applies what they say. The model gets the same as
//! when one thread does both, in the same order, so its answers are the same to the last byte.
//!
//! ```text
//!   Merge -> fields -> batches (at most BATCHES_MAX) -> facts -> model -> who listens
//!   '------ thread ------'                              '-------- caller --------'
//! ```
//!
//! Of the time that one thread takes for a timeline, merging and reading fields are 31 %, the model and the timeline's pieces the rest (perf, a trace of
//! 10,000 threads). Handing on a batch costs a few nanoseconds for each event. So two CPUs are expected to take 1 / 0.69 = 1.45 times less than one.

use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread;

use piste_analysis::facts::{Batch, FactReader};
use piste_analysis::model::{Gap, Listen};
use piste_trace::{Findings, Merge};

use crate::{EVENTS_BETWEEN_LOOKS, Run, gap, incoming};

/// Read ahead: what is not modelled yet takes a few megabytes.
const BATCHES_MAX: usize = 8;

enum Step {
    Events(Batch),
    /// Events could not be read.
    Lost(Vec<Gap>),
}

/// What is known when everything was read.
struct Rest {
    findings: Findings,
    last_ns: i64,
}

impl<'t, L: Listen> Run<'_, 't, L> {
    /// Takes everything that `merge`, which reads the model's traces alone, gives. Returns what was wrong with it; `None` when `goes_on`, which is
    /// asked now and then, says that it is enough.
    pub(crate) fn ahead(&mut self, merge: Merge<'t>, goes_on: impl Fn() -> bool) -> Option<Findings> {
        let reading = Reading {
            merge,
            whole_end_ns: self.ground.whole.end_ns,
            wants_stacks: self.pass.listener.wants_user_stacks(),
            last_ns: self.last_ns,
        };
        thread::scope(|scope| {
            let (hand_on, steps) = sync_channel(BATCHES_MAX);
            let (give_back, used) = channel();
            let reader = scope.spawn(move || reading.read(&hand_on, &used));
            for step in steps {
                match step {
                    Step::Lost(gaps) => gaps.into_iter().for_each(|gap| self.pass.system.add_gap(gap)),
                    Step::Events(mut batch) => {
                        self.pass.batch(&mut batch);
                        // The reader may have come to its end.
                        let _ = give_back.send(batch);
                    }
                }
                if !goes_on() {
                    // Nobody takes the next step: the reader ends.
                    return None;
                }
            }
            let Rest { findings, last_ns } = reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            self.last_ns = last_ns;
            Some(findings)
        })
    }
}

struct Reading<'t> {
    merge: Merge<'t>,
    whole_end_ns: i64,
    wants_stacks: bool,
    last_ns: i64,
}

impl Reading<'_> {
    /// Until there are no more events, or nobody takes them.
    fn read(mut self, hand_on: &SyncSender<Step>, used: &Receiver<Batch>) -> Rest {
        let mut facts = FactReader::default();
        let mut batch = Batch::default();
        let mut events = 0_u64;
        loop {
            let merged = self.merge.next();
            if !self.merge.blind.is_empty() {
                let gaps = self.merge.blind.drain(..).map(gap).collect();
                let before = std::mem::take(&mut batch);
                if hand_on.send(Step::Events(before)).is_err() || hand_on.send(Step::Lost(gaps)).is_err() {
                    break;
                }
            }
            let Some(merged) = merged else {
                // Nobody is there if that was enough.
                let _ = hand_on.send(Step::Events(batch));
                break;
            };
            let mut incoming = incoming(&mut self.merge, &merged, self.whole_end_ns);
            self.last_ns = incoming.ns;
            facts.read(&mut incoming, self.wants_stacks, &mut batch);
            events += 1;
            // Most events may say nothing: who waits for a step is asked whether it goes on.
            if batch.is_full() || events.is_multiple_of(EVENTS_BETWEEN_LOOKS) {
                let mut next = used.try_recv().unwrap_or_default();
                next.clear();
                if hand_on.send(Step::Events(std::mem::replace(&mut batch, next))).is_err() {
                    break;
                }
            }
        }
        Rest {
            findings: std::mem::take(&mut self.merge.findings),
            last_ns: self.last_ns,
        }
    }
}
