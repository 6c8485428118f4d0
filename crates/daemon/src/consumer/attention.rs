// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which ring sets of a session are to be looked at. There may be thousands, most of them of programs that do nothing: a program that does
//! something rings (watch.rs), and is looked at until it has been quiet for a while.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::ring_set::RingSet;
use crate::link::RingSetKey;

/// Looks at which a ring set was quiet, until its bell is waited for. With a steady flow there are fewer between two packets.
const QUIET_LOOKS_MAX: u32 = 16;

/// All are looked at so often, whether they rang or not: somebody may have put back the bell of another program of the same user
/// (include/piste/abi/ring.h, "Bells").
pub(super) const LOOK_AT_ALL: Duration = Duration::from_secs(1);

/// What is looked at.
#[derive(Debug, Default)]
pub(super) struct Attention {
    /// How often each was quiet, since it was not.
    attracted: BTreeMap<RingSetKey, u32>,
    all_at: Option<Instant>,
}

impl Attention {
    /// The ring set is looked at.
    pub(super) fn attract(&mut self, key: RingSetKey) {
        self.attracted.insert(key, 0);
    }

    /// All are.
    pub(super) fn attract_all(&mut self, ring_sets: &BTreeMap<RingSetKey, RingSet>) {
        ring_sets.keys().for_each(|key| self.attract(*key));
    }

    /// All are, when that was long ago.
    pub(super) fn attract_in_turn(&mut self, ring_sets: &BTreeMap<RingSetKey, RingSet>, now: Instant) {
        if now >= *self.all_at.get_or_insert(now + LOOK_AT_ALL) {
            self.all_at = Some(now + LOOK_AT_ALL);
            for key in ring_sets.keys() {
                // Once.
                self.attracted.entry(*key).or_insert(QUIET_LOOKS_MAX);
            }
        }
    }

    /// The ring set is gone.
    pub(super) fn forget(&mut self, key: RingSetKey) {
        self.attracted.remove(&key);
    }

    /// Those that are looked at now.
    pub(super) fn keys(&self) -> Vec<RingSetKey> {
        self.attracted.keys().copied().collect()
    }

    /// The ring set was looked at; when it `is_heard`, it need not be again before it rings.
    pub(super) fn looked(&mut self, key: RingSetKey, is_quiet: bool, is_heard: bool) {
        let Some(quiet) = self.attracted.get_mut(&key) else {
            return;
        };
        *quiet = if is_quiet { *quiet + 1 } else { 0 };
        if *quiet > QUIET_LOOKS_MAX && is_heard {
            self.attracted.remove(&key);
        }
    }

    /// Whether nothing is looked at.
    pub(super) fn is_at_rest(&self) -> bool {
        self.attracted.is_empty()
    }
}
