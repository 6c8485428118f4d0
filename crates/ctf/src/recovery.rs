// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets with holes: takes the committed records of a packet whose program died, or never came back, inside a record.
//!
//! Each committed record has its lap's mark at its first unit. What lies between is a hole: reserved, never committed. The
//! committed records are moved together, which keeps their times right: by R3 of `include/piste/abi/ring.h` a compact time
//! follows from the last *committed* record before it.
//!
//! Marks are not cleared between laps, so a mark can also be 255 laps old and stand inside a record. Where a record starts is
//! certain when the one before it ends there; then the record counts, whatever marks lie inside it. Behind a hole it is not
//! certain: there a record counts when no mark lies inside it, or when it ends where another one starts and at the mark inside
//! it none can be read.
//!
//! The work is bounded for any bytes: a record is read up to the next mark, and reading on past it is charged to a budget.

use crate::layout::{Checked, Fault, Layouts, Record, Wrong, check_start};
use crate::packet::{HEADER_BYTES, UNIT_BYTES, padded, timestamp_begin};

/// What [`Layouts::recover`] took out of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// The records that are left, as [`Layouts::check`] would find them. A fault is the first committed record that was not
    /// taken although it certainly starts there, or a packet header that is wrong; records behind it are taken all the same.
    pub checked: Checked,
    /// The time that the packet begins with. It stands in the header only when the caller writes it there.
    pub begin_ticks: u64,
    /// Gaps that were closed, each of one or more records that were not committed. The padding at the end of a sub-buffer
    /// counts as one when it is not cut off before.
    pub holes: u32,
}

impl Layouts {
    /// Takes the committed records of `packet` and moves them together.
    ///
    /// `packet` holds what was reserved: the header, then records and holes, up to the ring's write position or the end of the
    /// content. `marks` has a byte for each unit of it, and `mark` is the one of its lap. `base_ticks` is the time of the last
    /// record of the packet before, 0 when there is none; `limit_ticks` is the latest time that a record can have. Afterwards
    /// `packet` ends with the last record, padded with zero bytes to whole units.
    pub fn recover(
        &self,
        packet: &mut Vec<u8>,
        marks: &[u8],
        mark: u8,
        base_ticks: u64,
        limit_ticks: u64,
    ) -> Recovered {
        let mut recovery = Recovery::new(packet, Marks { marks, mark }, base_ticks);
        if let Err(fault) = recovery.begin(base_ticks, limit_ticks) {
            recovery.fault = Some(fault);
        } else {
            recovery.take_records(self, limit_ticks);
        }
        recovery.finish()
    }
}

const HEADER_UNITS: usize = HEADER_BYTES / UNIT_BYTES;

/// Reading past marks may cost this many times the packet's size in all.
const BUDGET_PACKETS: usize = 16;

struct Recovery<'a> {
    packet: &'a mut Vec<u8>,
    marks: Marks<'a>,
    budget_bytes: usize,
    /// Exact end of what was taken.
    end: usize,
    records: u32,
    ticks: u64,
    begin_ticks: u64,
    holes: u32,
    fault: Option<Fault>,
}

#[derive(Clone, Copy)]
struct Marks<'a> {
    marks: &'a [u8],
    mark: u8,
}

impl Marks<'_> {
    fn at(self, unit: usize) -> bool {
        self.mark != 0 && self.marks.get(unit) == Some(&self.mark)
    }

    /// The first marked unit from `unit` on, below `end`; else `end`.
    fn next(self, unit: usize, end: usize) -> usize {
        if self.mark == 0 {
            return end;
        }
        let distance = memchr::memchr(self.mark, self.marks.get(unit..).unwrap_or_default());
        distance.map_or(end, |distance| end.min(unit + distance))
    }
}

impl<'a> Recovery<'a> {
    fn new(packet: &'a mut Vec<u8>, marks: Marks<'a>, base_ticks: u64) -> Self {
        Recovery {
            budget_bytes: packet.len().saturating_mul(BUDGET_PACKETS),
            end: packet.len().min(HEADER_BYTES),
            packet,
            marks,
            records: 0,
            ticks: base_ticks,
            begin_ticks: base_ticks,
            holes: 0,
            fault: None,
        }
    }

    /// Finds the time that the first record counts from. It is in the header when the first record is committed: whoever
    /// wrote that record wrote the header's time before.
    fn begin(&mut self, base_ticks: u64, limit_ticks: u64) -> Result<(), Fault> {
        check_start(self.packet, base_ticks, 0, limit_ticks)?;
        if self.marks.at(HEADER_UNITS) {
            self.ticks = timestamp_begin(self.packet).expect("the header is there");
            check_start(self.packet, self.ticks, base_ticks, limit_ticks)?;
        }
        Ok(())
    }

    fn take_records(&mut self, layouts: &Layouts, limit_ticks: u64) {
        let unit_count = self.packet.len().div_ceil(UNIT_BYTES);
        let mut unit = HEADER_UNITS;
        let mut certain = true;
        while unit < unit_count {
            if self.marks.at(unit) {
                match self.read(layouts, unit, certain, limit_ticks) {
                    Ok(record) => {
                        self.take(unit * UNIT_BYTES, record);
                        unit = padded(record.end) / UNIT_BYTES;
                        certain = true;
                        continue;
                    }
                    Err(what) if certain => {
                        let offset = (unit * UNIT_BYTES) as u32;
                        self.fault = self.fault.or(Some(Fault { offset, what }));
                    }
                    Err(_) => {}
                }
            }
            self.holes += u32::from(certain);
            certain = false;
            unit = self.marks.next(unit + 1, unit_count);
        }
    }

    /// Reads the record that a mark says starts at `unit`.
    fn read(&mut self, layouts: &Layouts, unit: usize, certain: bool, limit_ticks: u64) -> Result<Record, Wrong> {
        let unit_count = self.packet.len().div_ceil(UNIT_BYTES);
        let read = |unit: usize, end_unit: usize| {
            let content = &self.packet[..self.packet.len().min(end_unit * UNIT_BYTES)];
            layouts.record(content, unit * UNIT_BYTES, self.ticks, limit_ticks)
        };
        let next_mark = self.marks.next(unit + 1, unit_count);
        let near = read(unit, next_mark);
        let goes_on = matches!(near, Err(Wrong::Cut { .. } | Wrong::EndlessString { .. })) && next_mark < unit_count;
        if !goes_on || self.budget_bytes == 0 {
            return near;
        }
        let far = read(unit, unit_count);
        let read_bytes = far.as_ref().map_or(self.packet.len(), |record| record.end) - unit * UNIT_BYTES;
        self.budget_bytes = self.budget_bytes.saturating_sub(read_bytes);
        let lands = |record: &Record| {
            let end_unit = padded(record.end) / UNIT_BYTES;
            end_unit == unit_count || self.marks.at(end_unit)
        };
        let nothing_inside = || read(next_mark, self.marks.next(next_mark + 1, unit_count)).is_err();
        match far {
            Ok(record) if certain || (lands(&record) && nothing_inside()) => Ok(record),
            Err(what) if certain => Err(what),
            _ => near,
        }
    }

    /// Moves a record behind those already taken, and clears the padding that follows it.
    fn take(&mut self, start: usize, record: Record) {
        let place = padded(self.end);
        let end = place + (record.end - start);
        self.packet.copy_within(start..record.end, place);
        let padding_end = padded(end).min(self.packet.len());
        self.packet[end..padding_end].fill(0);
        if self.records == 0 {
            self.begin_ticks = record.ticks;
        }
        self.end = end;
        self.ticks = record.ticks;
        self.records += 1;
    }

    fn finish(self) -> Recovered {
        self.packet.resize(padded(self.end), 0);
        let checked = Checked {
            content_bytes: self.end as u32,
            records: self.records,
            last_ticks: if self.records == 0 {
                self.begin_ticks
            } else {
                self.ticks
            },
            fault: self.fault,
        };
        Recovered {
            checked,
            begin_ticks: self.begin_ticks,
            holes: self.holes,
        }
    }
}
