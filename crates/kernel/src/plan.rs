// SPDX-License-Identifier: MIT OR Apache-2.0
//! What to do with each record of an event: a short list of steps, made once.
//!
//! Most of a record is copied: what lies together in it and in the event is one run. A sched_switch takes five steps.
//!
//! Cost for each record: one check of its length, and for each step a jump, a check of the bytes that it reads and one of the room that it
//! writes to; no allocation.
//!
//! Plans are made in `plan/builder.rs`; what becomes of values is in `plan/values.rs`.

mod builder;
mod values;

use crate::convert::{Cursor, Fault, NewThreads, NoRoom, Threads};
use crate::format::Location;

pub(crate) use builder::{Builder, TooFar};
pub(crate) use values::kernel_state_bits;

/// What to do with each record of an event.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The steps, in the order of what they write.
    steps: Box<[Step]>,
    /// Bytes that each record has at least.
    needed_bytes: usize,
    /// Bytes that the steps write for each record, but for contents whose length the record says.
    fixed_bytes: usize,
}

/// A part of what is done with a record. `from` counts bytes from the start of the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Copies a byte.
    Copy1 { from: u16 },
    /// Copies 2 to 4 bytes.
    Copy2 { from: u16, bytes: u16 },
    /// Copies 4 to 8 bytes.
    Copy4 { from: u16, bytes: u16 },
    /// Copies 8 to 16 bytes.
    Copy8 { from: u16, bytes: u16 },
    /// Copies 16 to 32 bytes.
    Copy16 { from: u16, bytes: u16 },
    /// Copies any number of bytes.
    Copy { from: u16, bytes: u16 },
    /// Writes the CPU.
    Cpu,
    /// Writes an int32 less 100.
    Priority { from: u16 },
    /// Writes the state of a thread, an int64, in the bits that readers know.
    TaskState { from: u16 },
    /// Writes the letters of a block request as bits.
    Request { from: u16, bytes: u16 },
    /// Writes the process that a thread belongs to; the thread itself where nobody knows.
    Process { from: u16 },
    /// Writes a text that is elsewhere in the record, with a zero byte.
    Text { from: u16, location: Location },
    /// Writes how many elements are elsewhere in the record, and these.
    Elements {
        from: u16,
        location: Location,
        element_bytes: u8,
    },
    /// Writes the text that goes on to the end of the record, with a zero byte.
    TailText { from: u16 },
    /// Writes how many elements there are to the end of the record, and these.
    TailElements { from: u16, element_bytes: u8 },
}

/// What a plan asks for that is not in the record.
pub(crate) struct Surroundings<'a> {
    /// The CPU that recorded it.
    pub(crate) cpu: u32,
    /// Who knows of threads.
    pub(crate) threads: &'a mut dyn Threads,
    /// What earlier records said of them.
    pub(crate) new_threads: &'a mut NewThreads,
}

/// Why a record was not written whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Again, with more room.
    NoRoom,
    /// The record is no good.
    Fault(Fault),
}

impl From<NoRoom> for Stop {
    fn from(_: NoRoom) -> Stop {
        Stop::NoRoom
    }
}

/// Stands for the process of a thread of which that cannot be known any more.
const PROCESS_UNKNOWN: i32 = -1;

impl Plan {
    /// Bytes that an event takes whose record has `record_bytes` and says nothing twice.
    #[inline]
    pub(crate) fn event_bytes(&self, record_bytes: usize) -> usize {
        self.fixed_bytes + record_bytes
    }

    /// Writes contexts and fields of the event that `record` is about.
    #[inline(always)]
    pub(crate) fn write(&self, record: &[u8], around: &mut Surroundings, at: &mut Cursor) -> Result<(), Stop> {
        let short = Stop::Fault(Fault::Short {
            record_bytes: record.len(),
            needed_bytes: self.needed_bytes,
        });
        if record.len() < self.needed_bytes {
            return Err(short);
        }
        let run = |from: u16, bytes: u16| {
            let from = usize::from(from);
            record.get(from..from + usize::from(bytes)).ok_or(short)
        };
        for step in &self.steps {
            match *step {
                Step::Copy1 { from } => at.put(chunk::<1>(record, from).ok_or(short)?)?,
                Step::Copy2 { from, bytes } => at.put_in_two::<2>(run(from, bytes)?)?,
                Step::Copy4 { from, bytes } => at.put_in_two::<4>(run(from, bytes)?)?,
                Step::Copy8 { from, bytes } => at.put_in_two::<8>(run(from, bytes)?)?,
                Step::Copy16 { from, bytes } => at.put_in_two::<16>(run(from, bytes)?)?,
                Step::Copy { from, bytes } => at.put_all(run(from, bytes)?)?,
                Step::Cpu => at.put((around.cpu as u16).to_le_bytes())?,
                Step::Priority { from } => {
                    let priority = i32::from_le_bytes(chunk(record, from).ok_or(short)?);
                    at.put(values::priority(priority).to_le_bytes())?;
                }
                Step::TaskState { from } => {
                    let state = u64::from_le_bytes(chunk(record, from).ok_or(short)?);
                    at.put(values::task_state(state).to_le_bytes())?;
                }
                Step::Request { from, bytes } => at.put(values::request(run(from, bytes)?).to_le_bytes())?,
                Step::Process { from } => {
                    let tid = i32::from_le_bytes(chunk(record, from).ok_or(short)?);
                    let Surroundings {
                        new_threads, threads, ..
                    } = &mut *around;
                    let process = new_threads.process_of(tid, &mut |tid| threads.process_of(tid));
                    let process = process.unwrap_or(PROCESS_UNKNOWN);
                    at.put(process.to_le_bytes())?;
                }
                Step::Text { from, location } => put_text(elsewhere(record, from, location)?, at)?,
                Step::Elements {
                    from,
                    location,
                    element_bytes,
                } => put_elements(elsewhere(record, from, location)?, element_bytes, at)?,
                Step::TailText { from } => put_text(record.get(usize::from(from)..).ok_or(short)?, at)?,
                Step::TailElements { from, element_bytes } => {
                    put_elements(record.get(usize::from(from)..).ok_or(short)?, element_bytes, at)?;
                }
            }
        }
        Ok(())
    }
}

#[inline]
fn chunk<const COUNT: usize>(record: &[u8], from: u16) -> Option<[u8; COUNT]> {
    record.get(usize::from(from)..)?.first_chunk().copied()
}

/// The content that the word at `word` tells of.
#[inline]
pub(crate) fn elsewhere(record: &[u8], word: u16, location: Location) -> Result<&[u8], Stop> {
    let base = match location {
        Location::FromRecord => 0,
        Location::FromWord => usize::from(word) + 4,
    };
    let said = chunk(record, word).map_or(u32::MAX, u32::from_le_bytes);
    let (offset, content_bytes) = (base + (said & 0xffff) as usize, (said >> 16) as usize);
    record
        .get(offset..offset + content_bytes)
        .ok_or(Stop::Fault(Fault::Outside {
            offset,
            content_bytes,
            record_bytes: record.len(),
        }))
}

#[inline]
fn put_text(bytes: &[u8], at: &mut Cursor) -> Result<(), Stop> {
    match memchr::memchr(0, bytes) {
        Some(end) => at.put_all(&bytes[..=end])?,
        None => {
            at.put_all(bytes)?;
            at.put([0])?;
        }
    }
    Ok(())
}

/// Bytes behind the last whole element, which no kernel writes, are left out.
#[inline]
fn put_elements(bytes: &[u8], element_bytes: u8, at: &mut Cursor) -> Result<(), Stop> {
    let element_bytes = usize::from(element_bytes);
    let count = bytes.len() / element_bytes;
    at.put((count as u32).to_le_bytes())?;
    at.put_all(&bytes[..count * element_bytes])?;
    Ok(())
}
