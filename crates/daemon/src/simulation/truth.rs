// SPDX-License-Identifier: MIT OR Apache-2.0
//! What programs really did in a simulation: which records lie in which ring, and what was discarded there. Traces are held against it.

use std::collections::{BTreeMap, BTreeSet};

use crate::link::{RingSetKey, SessionId};
use crate::session::ProgramId;
use crate::session::sessions::RingSet;

#[derive(Default)]
pub(super) struct Truth {
    rings: BTreeMap<(RingSetKey, u32), RingTruth>,
    ring_sets: BTreeMap<RingSetKey, RingSet>,
    /// Ring sets whose memory nobody had any more.
    pub(super) lost: BTreeSet<RingSetKey>,
}

/// By ring set and stream, the numbers of records that are committed.
pub(super) type Committed = BTreeMap<(RingSetKey, u64), Vec<u64>>;

/// What is true of a ring.
#[derive(Default)]
pub(super) struct RingTruth {
    /// In the order in which they were reserved.
    pub(super) records: Vec<Record>,
    /// Events that found no space.
    pub(super) discarded: u64,
}

#[derive(Clone, Copy)]
pub(super) struct Record {
    pub(super) number: u64,
    pub(super) is_committed: bool,
    /// Its thread was stopped in the middle.
    pub(super) was_stopped: bool,
}

impl Truth {
    /// There is a ring set.
    pub(super) fn add(&mut self, key: RingSetKey, ring_set: RingSet) {
        let before = self.ring_sets.insert(key, ring_set);
        assert!(before.is_none(), "key {key} is used twice");
    }

    pub(super) fn session_of(&self, key: RingSetKey) -> SessionId {
        self.ring_sets[&key].session
    }

    pub(super) fn program_of(&self, key: RingSetKey) -> ProgramId {
        self.ring_sets[&key].program
    }

    pub(super) fn reserved(&mut self, key: RingSetKey, ring_index: u32, number: u64) -> usize {
        let ring = self.rings.entry((key, ring_index)).or_default();
        ring.records.push(Record {
            number,
            is_committed: false,
            was_stopped: false,
        });
        ring.records.len() - 1
    }

    pub(super) fn stopped(&mut self, key: RingSetKey, ring_index: u32, record: usize) {
        self.record(key, ring_index, record).was_stopped = true;
    }

    pub(super) fn committed(&mut self, key: RingSetKey, ring_index: u32, record: usize) {
        self.record(key, ring_index, record).is_committed = true;
    }

    fn record(&mut self, key: RingSetKey, ring_index: u32, record: usize) -> &mut Record {
        let ring = self.rings.get_mut(&(key, ring_index));
        &mut ring.expect("it was reserved there").records[record]
    }

    pub(super) fn discarded(&mut self, key: RingSetKey, ring_index: u32) {
        self.rings.entry((key, ring_index)).or_default().discarded += 1;
    }

    /// The rings of a session that were written to: ring set, id of the stream, and what is true of it.
    pub(super) fn rings_of(&self, session: SessionId) -> impl Iterator<Item = (RingSetKey, u64, &RingTruth)> {
        let of_session = move |&(&(key, _), _): &(&(RingSetKey, u32), &RingTruth)| self.session_of(key) == session;
        self.rings.iter().filter(of_session).map(|(&(key, ring_index), ring)| {
            let stream = self.ring_sets[&key].stream_instance_base + u64::from(ring_index);
            (key, stream, ring)
        })
    }

    /// What is committed in a session, up to the first record of each ring that is not.
    pub(super) fn committed_of(&self, session: SessionId) -> Committed {
        let of_ring = |ring: &RingTruth| {
            let committed = ring.records.iter().take_while(|record| record.is_committed);
            let of_others = committed.filter(|record| !record.was_stopped);
            of_others.map(|record| record.number).collect()
        };
        let rings = self.rings_of(session);
        rings
            .map(|(key, stream, ring)| ((key, stream), of_ring(ring)))
            .collect()
    }

    /// Records of all rings.
    pub(super) fn record_count(&self) -> usize {
        self.rings.values().map(|ring| ring.records.len()).sum()
    }
}
