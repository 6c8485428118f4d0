// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a session has that control must be able to ask for at any time, also while the session's thread waits for a disk.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::outbox::Outbox;
use crate::link::{RequestId, RingSetKey, SessionId, ToControl};

/// Kept by the thread that listens to control and by the session's.
#[derive(Debug, Default)]
pub(crate) struct Held {
    pub(crate) is_started: bool,
    /// Its memory, which control may have to hand to programs again.
    ring_sets: BTreeMap<RingSetKey, RingSet>,
    /// Questions for totals that nobody has answered.
    reports: BTreeSet<RequestId>,
}

#[derive(Debug)]
struct RingSet {
    memory: Arc<OwnedFd>,
    /// A record of the living program was given up.
    is_recovered: bool,
}

impl Held {
    /// Control has sent memory.
    pub(crate) fn add(&mut self, key: RingSetKey, memory: Arc<OwnedFd>) {
        let is_recovered = false;
        self.ring_sets.entry(key).or_insert(RingSet { memory, is_recovered });
    }

    pub(crate) fn has(&self, key: RingSetKey) -> bool {
        self.ring_sets.contains_key(&key)
    }

    /// Control asks for totals.
    pub(crate) fn ask(&mut self, request: RequestId) {
        self.reports.insert(request);
    }

    /// The questions for totals that nobody has answered; whoever takes them does.
    pub(crate) fn take_reports(&mut self) -> BTreeSet<RequestId> {
        std::mem::take(&mut self.reports)
    }

    /// Whether a question for totals is still to be answered, by whoever asks this.
    pub(crate) fn take_report(&mut self, request: RequestId) -> bool {
        self.reports.remove(&request)
    }

    pub(crate) fn wants_report(&self) -> bool {
        !self.reports.is_empty()
    }

    /// The session tells control something.
    pub(super) fn note(&mut self, message: &ToControl) {
        match message {
            ToControl::RingSetDone { key } | ToControl::RingSetRefused { key, .. } => {
                self.ring_sets.remove(key);
            }
            ToControl::RingRecovered { key } => {
                if let Some(ring_set) = self.ring_sets.get_mut(key) {
                    ring_set.is_recovered = true;
                }
            }
            _ => {}
        }
    }

    /// Tells a new control process.
    pub(crate) fn tell(&self, session: SessionId, outbox: &Outbox) {
        let started = self.is_started;
        outbox.send(&ToControl::AdoptedSession { session, started });
        for (&key, ring_set) in &self.ring_sets {
            let memory = Some(ring_set.memory.clone());
            outbox.send_with(&ToControl::AdoptedRingSet { session, key }, memory);
            if ring_set.is_recovered {
                outbox.send(&ToControl::RingRecovered { key });
            }
        }
    }
}
