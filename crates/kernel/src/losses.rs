// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records that a ring lost, and which of them were told. A ring that discards says only how many it lost so far, not where.

use std::collections::VecDeque;

/// What a ring lost and was told.
#[derive(Debug, Default)]
pub struct Losses {
    /// Records of which somebody was told.
    told: u64,
    /// Those of which nobody was told and of which it is known where they are missing.
    missing: VecDeque<Missing>,
}

/// Records that were discarded while the ring was full: between its newest record then, and the first one behind `space_ticks`, when a page was
/// about to be taken. All pages that are read until then are older.
#[derive(Debug, Clone, Copy)]
struct Missing {
    space_ticks: u64,
    records: u64,
}

impl Losses {
    /// Readers before this one have told of so many.
    pub fn set_told(&mut self, records: u64) {
        self.told = records;
    }

    /// A page was taken out of a ring that discards and has lost `lost` records so far; `space_ticks` was before that.
    pub fn find(&mut self, lost: u64, space_ticks: u64) {
        let records = lost.saturating_sub(self.told + self.missing());
        if records > 0 {
            self.missing.push_back(Missing { space_ticks, records });
        }
    }

    /// Records that were lost behind the pages that were read so far.
    pub fn missing(&self) -> u64 {
        self.missing.iter().map(|missing| missing.records).sum()
    }

    /// Records of which nobody was told, of a ring that has lost `lost` so far.
    pub fn untold(&self, lost: u64) -> u64 {
        lost.saturating_sub(self.told)
    }

    /// Those that are told with a page that begins then: they are missing before it, or right behind it.
    pub fn tell_before(&mut self, begin_ticks: u64) -> u64 {
        let is_later = |missing: &Missing| missing.space_ticks > begin_ticks;
        let place = self.missing.iter().position(is_later).unwrap_or(self.missing.len());
        let records = self.missing.drain(..place).map(|missing| missing.records).sum();
        self.told += records;
        records
    }

    /// So many more are told.
    pub fn tell(&mut self, records: u64) {
        self.told += records;
    }

    /// The rest of a ring that has lost `lost` records.
    pub fn tell_rest(&mut self, lost: u64) -> u64 {
        let records = self.untold(lost);
        self.missing.clear();
        self.told += records;
        records
    }
}
