// SPDX-License-Identifier: MIT OR Apache-2.0
//! A walk over records, in which they become events of a packet.

use std::iter;

use super::plans::{Call, Plans, Slot, Watched};
use super::returns::{LOST_NUMBER, Returns};
use super::room::Room;
use super::syscall::{CallFormat, Side};
use super::{Converted, Cursor, Cut, Fault, Finding, NoRoom, TID_FROM, class_id, kept};
use crate::page::Record;
use crate::plan::{Stop, Surroundings};
use crate::stacks::{Look, Stacks};
use piste_syscalls::Table;
use piste_syscalls::filters::Number;

/// How far the records have become events.
pub(super) struct Walk<'a> {
    pub(super) plans: &'a mut Plans,
    returns: &'a mut Returns,
    /// Some threads run 32-bit programs.
    pub(super) has_compat: bool,
    pub(super) around: Surroundings<'a>,
    /// The first event that is not earlier ends the part that is.
    pub(super) cut_ticks: u64,
    room: Room<'a>,
    pub(super) converted: Converted,
    back_in_time: u64,
    /// Plan, records and the fault of the first.
    damaged: Vec<(u32, u64, Fault)>,
    /// Number and records.
    unknown: Vec<(u16, u64)>,
}

/// Whether events may wait for their stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Behind {
    /// Another page follows.
    MorePages,
    /// Nothing follows.
    Nothing,
}

/// The longest header: a byte, id and time.
const HEADER_BYTES_MAX: usize = 13;
const HEADER_MEDIUM: u32 = 30;
const HEADER_EXTENDED: u8 = 31;
const ID_BITS: u32 = 5;
const TIME_BITS: u32 = 27;

impl<'a> Walk<'a> {
    pub(super) fn new(
        plans: &'a mut Plans,
        returns: &'a mut Returns,
        around: Surroundings<'a>,
        begin_ticks: u64,
        packet: &'a mut Vec<u8>,
    ) -> Walk<'a> {
        Walk {
            plans,
            returns,
            has_compat: false,
            cut_ticks: u64::MAX,
            around,
            room: Room::behind(packet),
            converted: Converted {
                events: 0,
                discarded: 0,
                begin_ticks,
                first_ticks: begin_ticks,
                last_ticks: begin_ticks,
                cut: None,
                findings: Vec::new(),
            },
            back_in_time: 0,
            damaged: Vec::new(),
            unknown: Vec::new(),
        }
    }

    /// Makes events of `records`. Returns those that are to wait for the next page: they begin with an event whose stack has not come.
    #[inline]
    pub(super) fn records<'r>(
        &mut self,
        records: &mut (impl Iterator<Item = Record<'r>> + Clone),
        behind: Behind,
    ) -> Vec<u8> {
        while let Some(record) = records.next() {
            let Some(index) = self.plan_of(record) else {
                continue;
            };
            let planned = self.plans.get(index);
            if planned.stack.is_some() {
                match self.look(index, record.data, records.clone(), behind) {
                    Some(stacks) => self.event(index, record, Some(stacks)),
                    None => return keep(iter::once(record).chain(records)),
                }
            } else {
                self.event(index, record, None);
            }
        }
        Vec::new()
    }

    /// What became of all of them.
    pub(super) fn finish(mut self) -> Converted {
        let mut findings = std::mem::take(&mut self.plans.findings);
        for (index, records, fault) in self.damaged {
            let event = self.plans.get(index).name.to_string();
            findings.push(Finding::Damaged { event, records, fault });
        }
        for (id, records) in self.unknown {
            findings.push(Finding::UnknownEvent { id, records });
        }
        if self.back_in_time > 0 {
            let records = self.back_in_time;
            findings.push(Finding::BackInTime { records });
        }
        self.converted.findings = findings;
        self.converted
    }

    /// Index of the plan for a record; `None` when it does not become an event.
    #[inline(always)]
    fn plan_of(&mut self, record: Record<'_>) -> Option<u32> {
        let Some(id) = record.data.first_chunk().map(|id| u16::from_le_bytes(*id)) else {
            self.discard_unknown(0);
            return None;
        };
        match self.plans.slot(id) {
            Slot::Plan(index) => Some(index),
            Slot::Call(format) => self.call(id, record, format),
            slot => self.rare(id, record.data, slot),
        }
    }

    #[inline(always)]
    fn call(&mut self, id: u16, record: Record<'_>, format: CallFormat) -> Option<u32> {
        let Some((tid, mut number)) = format.caller(record.data) else {
            self.discard_unknown(id);
            return None;
        };
        if number == LOST_NUMBER && format.side == Side::Exit {
            number = self.returns.end(tid);
        }
        let table = match format.table(record.data) {
            Some(table) => table,
            None if self.has_compat && self.around.threads.is_compat(tid, record.ticks) => Table::Compat,
            None => Table::Native,
        };
        match self.plans.call(table, number, format) {
            Call::Plan(index) => Some(index),
            Call::Return(index) => {
                self.returns.begin(tid, number);
                self.is_wanted(index, record.data, tid, format).then_some(index)
            }
            Call::Filtered(index) => self.is_wanted(index, record.data, tid, format).then_some(index),
            Call::Dropped | Call::Unseen => None,
        }
    }

    /// Whether an entry or exit of a call satisfies the condition of its plan.
    #[cold]
    fn is_wanted(&self, index: u32, record: &[u8], tid: i32, format: CallFormat) -> bool {
        let number = |number| match number {
            Number::Argument(index) => format.word(record, index),
            Number::Result => format.word(record, 0),
            Number::Tid => i64::from(tid).cast_unsigned(),
            Number::Cpu => self.around.cpu.into(),
            // Conditions of such records have no others.
            Number::Member { .. } | Number::Port(_) => 0,
        };
        let condition = self.plans.get(index).condition.as_ref();
        condition.is_none_or(|condition| condition.holds(&|test| test.holds(number)))
    }

    #[cold]
    fn rare(&mut self, id: u16, record: &[u8], slot: Slot) -> Option<u32> {
        match slot {
            Slot::Watched(index) => {
                self.watch(record, self.plans.watched(index));
                Some(index)
            }
            Slot::Unknown | Slot::Unseen => {
                self.discard_unknown(id);
                None
            }
            Slot::Stack | Slot::Plan(_) | Slot::Call(_) => None,
        }
    }

    fn watch(&mut self, record: &[u8], watched: Option<Watched>) {
        let (Some(tid), Some(watched)) = (int(record, TID_FROM), watched) else {
            return;
        };
        match watched {
            Watched::Make { tid_from, flags_from } => {
                if let (Some(made), Some(flags)) = (int(record, tid_from), int(record, flags_from)) {
                    let Surroundings {
                        new_threads, threads, ..
                    } = &mut self.around;
                    new_threads.made(tid, made, flags, &mut |tid| threads.process_of(tid));
                }
            }
            Watched::Exec => self.around.new_threads.executed(tid),
            Watched::Exit => self.around.new_threads.ended(tid),
        }
    }

    /// The stacks of an event; `None` when they may be on the next page.
    fn look<'r>(
        &self,
        index: u32,
        record: &[u8],
        behind: impl Iterator<Item = Record<'r>>,
        end: Behind,
    ) -> Option<Stacks<'r>> {
        let stack = self.plans.get(index).stack.as_ref()?;
        match self.plans.stacks.look(record, behind, stack) {
            Look::Open(_) if end == Behind::MorePages => None,
            Look::Whole(stacks) | Look::Open(stacks) => Some(stacks),
        }
    }

    /// Writes an event, or counts why not.
    #[inline(always)]
    fn event(&mut self, index: u32, record: Record, stacks: Option<Stacks>) {
        let last_ticks = self.converted.last_ticks;
        let ticks = record.ticks.max(last_ticks);
        if ticks >= self.cut_ticks {
            self.cut();
        }
        let planned = self.plans.get(index);
        let stacks_bytes = stacks.map_or(0, |stacks| stacks.event_bytes());
        let mut bytes = HEADER_BYTES_MAX + planned.plan.event_bytes(record.data.len()) + stacks_bytes;
        loop {
            self.room.ensure(bytes);
            let around = &mut self.around;
            let written = self.room.write(|at| {
                put_header(planned.class_id, ticks, last_ticks, at)?;
                planned.plan.write(record.data, around, at)?;
                if let (Some(stacks), Some(stack)) = (stacks, &planned.stack) {
                    stacks.write(stack, at)?;
                }
                Ok(())
            });
            match written {
                Ok(()) => break,
                // A record can say one content again and again.
                Err(Stop::NoRoom) => bytes *= 2,
                Err(Stop::Fault(fault)) => return self.discard_damaged(index, fault),
            }
        }
        self.converted.events += 1;
        self.converted.last_ticks = ticks;
        self.back_in_time += u64::from(record.ticks < ticks);
    }

    #[cold]
    fn cut(&mut self) {
        self.cut_ticks = u64::MAX;
        self.converted.cut = Some(Cut {
            content_bytes: self.room.packet_bytes(),
            events: self.converted.events,
            last_ticks: self.converted.last_ticks,
        });
    }

    #[cold]
    fn discard_damaged(&mut self, index: u32, fault: Fault) {
        self.converted.discarded += 1;
        match self.damaged.iter_mut().find(|(damaged, ..)| *damaged == index) {
            Some((_, records, _)) => *records += 1,
            None => self.damaged.push((index, 1, fault)),
        }
    }

    #[cold]
    fn discard_unknown(&mut self, id: u16) {
        self.converted.discarded += 1;
        match self.unknown.iter_mut().find(|(unknown, _)| *unknown == id) {
            Some((_, records)) => *records += 1,
            None => self.unknown.push((id, 1)),
        }
    }
}

fn int(record: &[u8], from: u16) -> Option<i32> {
    let bytes = record.get(usize::from(from)..)?.first_chunk()?;
    Some(i32::from_le_bytes(*bytes))
}

#[cold]
fn keep<'r>(records: impl Iterator<Item = Record<'r>>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for record in records {
        kept::append(&mut bytes, record);
    }
    bytes
}

/// `ticks` is not before `last_ticks`.
#[inline(always)]
fn put_header(class_id: u32, ticks: u64, last_ticks: u64, at: &mut Cursor) -> Result<(), NoRoom> {
    let is_near = ticks - last_ticks < 1 << TIME_BITS;
    // What does not fit of the time is shifted out.
    let word = |id: u32| id | (ticks as u32) << ID_BITS;
    if is_near && class_id < class_id::COMPACT_COUNT {
        at.put(word(class_id).to_le_bytes())
    } else if is_near && class_id < class_id::MEDIUM_COUNT {
        at.put(word(HEADER_MEDIUM).to_le_bytes())?;
        at.put((class_id as u16).to_le_bytes())
    } else {
        let mut header = [HEADER_EXTENDED; HEADER_BYTES_MAX];
        header[1..5].copy_from_slice(&class_id.to_le_bytes());
        header[5..].copy_from_slice(&ticks.to_le_bytes());
        at.put(header)
    }
}
