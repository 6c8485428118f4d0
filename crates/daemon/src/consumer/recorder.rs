// SPDX-License-Identifier: MIT OR Apache-2.0
//! A flight recorder: a session whose rings go round in memory until somebody wants to see them.
//!
//! Nothing is taken out of the rings, so that they need no looking after, but for one thing: a record that is never finished
//! stops its ring once it comes round. Programs that died stay in memory, up to a bound. Snapshots are snapshot.rs.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use super::channel::Channel;
use super::metadata::Metadata;
use super::ring_set::{Life, RingSet};
use super::session::Shared;
use super::snapshot::SnapshotJob;
use crate::link::{RingSetKey, ToControl};

/// How soon to look again whether the rings still turn.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Ring sets that no program writes to any more and that are kept for snapshots.
pub(super) const GONE_MAX: usize = 256;

#[derive(Default)]
pub(super) struct Recorder {
    jobs: VecDeque<SnapshotJob>,
    /// Ring sets that no program writes to any more, the oldest first.
    gone: VecDeque<RingSetKey>,
    /// Records that each ring set had discarded for want of space at the last look.
    discarded: BTreeMap<RingSetKey, u64>,
    next_look: Option<Instant>,
}

impl Recorder {
    pub(super) fn begin_snapshot(&mut self, job: SnapshotJob) {
        self.jobs.push_back(job);
    }

    /// Writes one ring of the first snapshot that was asked for. False when there is none.
    pub(super) fn write_snapshot(
        &mut self,
        metadata: &Metadata,
        channels: &mut BTreeMap<u32, Channel>,
        ring_sets: &BTreeMap<RingSetKey, RingSet>,
        shared: &mut Shared<'_>,
    ) -> bool {
        let Some(job) = self.jobs.front_mut() else { return false };
        if let Some(outcome) = job.step(metadata, channels, ring_sets, shared.buffers) {
            let request = job.request();
            self.jobs.pop_front();
            shared.outbox.send(&ToControl::Done { request, outcome });
        }
        true
    }

    /// No program writes to the ring set any more. Returns the one that is to be dropped: this one when it is empty, else the
    /// oldest when there are too many.
    pub(super) fn keep(&mut self, key: RingSetKey, ring_set: &RingSet) -> Option<RingSetKey> {
        self.discarded.remove(&key);
        if !ring_set.is_touched() {
            return Some(key);
        }
        self.gone.push_back(key);
        if self.gone.len() > GONE_MAX {
            self.gone.pop_front()
        } else {
            None
        }
    }

    /// Looks for rings that stand still, and returns when to do so again. Such a ring discards: the sub-buffer of the unfinished
    /// record cannot be overwritten. Its program needs other memory; this one is kept for snapshots.
    pub(super) fn look(&mut self, ring_sets: &BTreeMap<RingSetKey, RingSet>, shared: &mut Shared<'_>) -> Duration {
        let next_look = *self.next_look.get_or_insert(shared.now);
        if shared.now < next_look {
            return next_look - shared.now;
        }
        self.next_look = Some(shared.now + LOOK_INTERVAL);
        for (key, ring_set) in ring_sets.iter().filter(|(_, ring_set)| ring_set.life == Life::Current) {
            let discarded = ring_set.discarded_full();
            // Since the last look: what was discarded before may have been a slow thread's doing.
            let stands_still = self
                .discarded
                .insert(*key, discarded)
                .is_some_and(|before| discarded > before);
            if stands_still && !ring_set.producer.program.is_stopped() {
                shared.outbox.send(&ToControl::RingRecovered { key: *key });
            }
        }
        LOOK_INTERVAL
    }
}
