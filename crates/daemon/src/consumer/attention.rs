// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which ring sets of a session are polled. There may be thousands, most of them of idle programs. A program that records something rings
//! its bell (watch.rs); its ring set is then polled until it has been quiet for a while.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::ring_set::RingSet;
use crate::link::RingSetKey;

/// After this many quiet looks in a row a ring set is no longer polled. With a steady flow of events there are fewer between two packets.
const QUIET_LOOKS_MAX: u32 = 16;

/// How often all ring sets are looked at, even without a bell: another program of the same user may have overwritten the bell
/// (include/piste/abi/ring.h, "Bells").
pub(super) const LOOK_AT_ALL: Duration = Duration::from_secs(1);

/// The ring sets that are polled.
#[derive(Debug, Default)]
pub(super) struct Attention {
    /// Quiet looks in a row, for each.
    attracted: BTreeMap<RingSetKey, u32>,
    all_at: Option<Instant>,
}

impl Attention {
    /// Polls the ring set from now on.
    pub(super) fn attract(&mut self, key: RingSetKey) {
        self.attracted.insert(key, 0);
    }

    /// Polls all of them from now on.
    pub(super) fn attract_all(&mut self, ring_sets: &BTreeMap<RingSetKey, RingSet>) {
        ring_sets.keys().for_each(|key| self.attract(*key));
    }

    /// Looks at all of them once, if [`LOOK_AT_ALL`] has passed since the last time.
    pub(super) fn attract_in_turn(&mut self, ring_sets: &BTreeMap<RingSetKey, RingSet>, now: Instant) {
        if now >= *self.all_at.get_or_insert(now + LOOK_AT_ALL) {
            self.all_at = Some(now + LOOK_AT_ALL);
            for key in ring_sets.keys() {
                self.attracted.entry(*key).or_insert(QUIET_LOOKS_MAX);
            }
        }
    }

    /// The ring set is gone.
    pub(super) fn forget(&mut self, key: RingSetKey) {
        self.attracted.remove(&key);
    }

    /// The ring sets to look at now.
    pub(super) fn keys(&self) -> Vec<RingSetKey> {
        self.attracted.keys().copied().collect()
    }

    /// Notes the result of a look. A ring set whose bell `is_heard` need not be polled while it is quiet.
    pub(super) fn looked(&mut self, key: RingSetKey, is_quiet: bool, is_heard: bool) {
        let Some(quiet) = self.attracted.get_mut(&key) else {
            return;
        };
        *quiet = if is_quiet { *quiet + 1 } else { 0 };
        if *quiet > QUIET_LOOKS_MAX && is_heard {
            self.attracted.remove(&key);
        }
    }

    /// Whether no ring set is polled.
    pub(super) fn is_at_rest(&self) -> bool {
        self.attracted.is_empty()
    }
}
