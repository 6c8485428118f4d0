// SPDX-License-Identifier: MIT OR Apache-2.0
//! A flight recorder: the kernel's rings go round until somebody wants to see them. Nobody looks at them meanwhile.
//!
//! The totals of such a session are those of its snapshots (snapshot.rs).

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::channel::Tools;
use super::session::{Session, Shared};
use super::snapshot::SnapshotJob;
use crate::consumer::stage::{Again, Stage};
use crate::link::{ChannelTotals, RequestId, ToControl};
use crate::person::Output;

#[derive(Default)]
pub(super) struct Recorder {
    jobs: VecDeque<SnapshotJob>,
    /// Of the snapshots that were written, by channel.
    written: BTreeMap<u32, ChannelTotals>,
}

impl Recorder {
    /// Puts what the snapshots have in place of what the rings went through.
    pub(super) fn replace(&self, totals: &mut ChannelTotals) {
        let written = self.written.get(&totals.stream_id).cloned().unwrap_or_default();
        *totals = ChannelTotals {
            stream_id: totals.stream_id,
            findings: std::mem::take(&mut totals.findings),
            ..written
        };
    }

    fn add(&mut self, totals: &ChannelTotals) {
        let written = self.written.entry(totals.stream_id).or_default();
        written.events += totals.events;
        written.bytes += totals.bytes;
        written.packets += totals.packets;
        written.discarded_full += totals.discarded_full;
        written.overwritten_events += totals.overwritten_events;
    }
}

impl Session {
    pub(super) fn begin_snapshot(&mut self, request: RequestId, output: Output) {
        let job = SnapshotJob::new(request, output, self);
        if let Some(recorder) = &mut self.recorder {
            recorder.jobs.push_back(job);
        }
    }

    /// Keeps the newest events of the rings that somebody has to look at meanwhile. False when there is none.
    fn keep_newest(&mut self, shared: &mut Shared<'_>) -> bool {
        let Some(kernel) = self.kernel() else { return false };
        let mut tools = Tools {
            kernel: &kernel,
            metadata: &mut self.metadata,
            packet: shared.packet,
        };
        let (mut any, mut failed) = (false, None);
        for channel in self.channels.values_mut() {
            match channel.keep_newest(shared.fullest, &mut tools) {
                Ok(has_such) => any |= has_such,
                Err(error) => failed = Some(error),
            }
        }
        if let Some(error) = failed {
            self.find(
                format!("the newest system calls cannot be kept: {error}"),
                shared.outbox,
            );
        }
        any
    }

    /// Writes a part of the first snapshot that was asked for.
    pub(super) fn record(&mut self, shared: &mut Shared<'_>) -> Again {
        let job = self.recorder.as_mut().and_then(|recorder| recorder.jobs.pop_front());
        let Some(mut job) = job else {
            let has_to_look = self.keep_newest(shared);
            return match self.stage {
                Stage::Started | Stage::Stopped if has_to_look => Again::AtPace,
                Stage::Started | Stage::Stopped => Again::Never,
                Stage::Ending(_) => self.finish_ending(shared),
            };
        };
        let outcome = job.step(self, shared);
        let Some(recorder) = &mut self.recorder else {
            return Again::Never;
        };
        match outcome {
            None => {
                let wait = if job.is_waiting() {
                    Duration::from_millis(1)
                } else {
                    Duration::ZERO
                };
                recorder.jobs.push_front(job);
                Again::After(wait)
            }
            Some(outcome) => {
                if let Ok(totals) = &outcome {
                    totals.iter().for_each(|totals| recorder.add(totals));
                }
                let request = job.request();
                shared.outbox.send(&ToControl::Done { request, outcome });
                Again::After(Duration::ZERO)
            }
        }
    }
}
