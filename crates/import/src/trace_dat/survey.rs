// SPDX-License-Identifier: MIT OR Apache-2.0
//! A first look at all pages of a file. How a trace is to be written depends on all of them: when its recording began and ended, whether a CPU
//! was recorded from the begin on, and which events there are.

use std::fs::File;

use piste_kernel::cpu_stats::CpuStats;
use piste_kernel::page::{Lost, Page};

use super::contents::Contents;
use super::options::{Buffer, CpuPart};
use super::pages::{Next, Pages};
use crate::{ImportError, Watch};

/// What was seen of the pages of some CPUs.
#[derive(Debug)]
pub(crate) struct Survey {
    /// Of the first event.
    pub(crate) first_ticks: u64,
    /// Of the last event.
    pub(crate) last_ticks: u64,
    /// Whether a record begins with this number.
    ids: Vec<bool>,
    /// Of all of it, and different for nearly all others.
    pub(crate) hash: u64,
}

/// What was seen of the pages of a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    records: u64,
    /// Records before the first page are missing.
    is_late: bool,
    /// Some pages cannot be read.
    is_damaged: bool,
}

/// What is known of a CPU's recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    /// All that it recorded from the begin on is there, or the losses are counted.
    pub(crate) has_begin: bool,
    /// The same of its end.
    pub(crate) has_end: bool,
}

impl Survey {
    pub(crate) fn new() -> Survey {
        Survey {
            first_ticks: u64::MAX,
            last_ticks: 0,
            ids: vec![false; 1 << u16::BITS],
            hash: 0xcbf2_9ce4_8422_2325,
        }
    }

    /// There is an event.
    pub(crate) fn has_events(&self) -> bool {
        self.first_ticks <= self.last_ticks
    }

    pub(crate) fn has(&self, id: u16) -> bool {
        self.ids[usize::from(id)]
    }

    /// Looks at the pages of a CPU.
    pub(crate) fn look(
        &mut self,
        contents: &Contents,
        buffer: &Buffer,
        part: &CpuPart,
        file: &File,
        watch: &Watch,
    ) -> Result<Seen, Stop> {
        let mut pages = buffer.pages(contents, part, file);
        let mut seen = Seen::default();
        let mut is_first = true;
        self.mix(part.cpu.into());
        while let Some(next) = pages.next().map_err(Stop::Unreadable)? {
            watch.read(pages.take_read_bytes()).map_err(Stop::Import)?;
            let page = match &next {
                Next::Page(bytes) => Page::parse(&contents.layout, bytes),
                Next::Damaged(_) => {
                    seen.is_damaged = true;
                    continue;
                }
            };
            let Ok(page) = page else {
                seen.is_damaged = true;
                continue;
            };
            seen.is_late |= is_first && page.lost() != Lost::None;
            is_first = false;
            let mut records = page.records();
            for record in records.by_ref() {
                seen.records += 1;
                self.first_ticks = self.first_ticks.min(record.ticks);
                self.last_ticks = self.last_ticks.max(record.ticks);
                if let Some(id) = record.data.first_chunk() {
                    self.ids[usize::from(u16::from_le_bytes(*id))] = true;
                }
            }
            seen.is_damaged |= records.damage().is_some();
            self.mix(page.begin_ticks());
            self.mix(records.ticks());
        }
        self.mix(seen.records);
        Ok(seen)
    }

    /// FNV-1a.
    fn mix(&mut self, value: u64) {
        for byte in value.to_le_bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
}

/// Why a look has ended early.
#[derive(Debug)]
pub(crate) enum Stop {
    Unreadable(std::io::Error),
    Import(ImportError),
}

impl Seen {
    /// What is known of a CPU by what its ring counted. Without that, a ring that lost nothing at first may still not have been kept whole.
    pub(crate) fn known(self, stats: Option<&CpuStats>) -> Known {
        // trace-cmd may ask for the counts before it has read everything.
        let is_all_there = stats.is_some_and(|stats| stats.read.saturating_add(stats.entries) <= self.records);
        Known {
            has_begin: is_all_there && !self.is_late,
            has_end: is_all_there && !self.is_damaged,
        }
    }

    /// There is nothing of it to tell.
    pub(crate) fn is_silent(self) -> bool {
        self.records == 0 && !self.is_damaged && !self.is_late
    }
}

impl Buffer {
    /// The pages of one of its CPUs.
    pub(crate) fn pages<'f>(&self, contents: &Contents, part: &CpuPart, file: &'f File) -> Pages<'f> {
        let compression = self.is_compressed.then_some(contents.compression);
        Pages::new(file, part, self.page_bytes.unwrap_or(0), compression)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_is_known_from_begin_to_end_if_its_ring_counted_no_more_than_is_there() {
        let known = |records, counted: Option<(u64, u64)>, is_late, is_damaged| {
            let seen = Seen {
                records,
                is_late,
                is_damaged,
            };
            let stats = counted.map(|(read, entries)| CpuStats {
                read,
                entries,
                ..CpuStats::default()
            });
            let Known { has_begin, has_end } = seen.known(stats.as_ref());
            (has_begin, has_end)
        };
        assert_eq!(known(136, Some((85, 51)), false, false), (true, true));
        assert_eq!(known(0, Some((0, 0)), false, false), (true, true));
        assert_eq!(known(100, Some((85, 51)), false, false), (false, false));
        assert_eq!(known(100, None, false, false), (false, false));
        assert_eq!(known(100, Some((100, 0)), true, false), (false, true));
        assert_eq!(known(100, Some((100, 0)), false, true), (true, false));
    }
}
