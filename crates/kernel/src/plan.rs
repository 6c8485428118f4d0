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

use piste_ctf::DynamicType;

use crate::convert::Fact;
use crate::convert::{Cursor, Fault, NewThreads, NoRoom, Threads};
use crate::format::Location;
use crate::spec::Context;
use piste_syscalls::copies::State;

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
    /// For [`Step::Incomplete`].
    copy_names: Box<[CopyName]>,
}

/// A copy of what an argument of a system call points to.
#[derive(Debug)]
pub(crate) struct CopyName {
    /// Its index in the record.
    pub(crate) index: usize,
    /// What it is a copy of.
    pub(crate) name: Box<str>,
    /// What is written when it was not made.
    pub(crate) absent: Option<&'static str>,
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
    /// Writes a derived context of a thread, as a value whose type is in the record.
    Fact { from: u16, context: Context },
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
    /// Writes texts that are elsewhere in the record, where their count is in front of them.
    Texts { from: u16 },
    /// Writes a part of what is elsewhere in the record; zeros where it is shorter.
    Part { from: u16, offset: u8, bytes: u8 },
    /// Writes the socket address that is elsewhere in the record: family, port, IPv4 address, IPv6 address, path.
    Address { from: u16 },
    /// Writes, as a text with a zero byte, which copies are not whole.
    Incomplete { from: u16 },
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
                Step::Fact { from, context } => {
                    let tid = i32::from_le_bytes(chunk(record, from).ok_or(short)?);
                    put_fact(around, tid, context, at)?;
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
                Step::Texts { from } => put_texts(elsewhere(record, from, Location::FromRecord)?, at)?,
                Step::Part { from, offset, bytes } => {
                    let content = elsewhere(record, from, Location::FromRecord)?;
                    let part = content
                        .get(usize::from(offset)..)
                        .and_then(|rest| rest.get(..usize::from(bytes)));
                    at.put_all(part.unwrap_or(&[0; u8::MAX as usize][..usize::from(bytes)]))?;
                }
                Step::Address { from } => put_address(elsewhere(record, from, Location::FromRecord)?, at)?,
                Step::Incomplete { from } => {
                    let states = u16::from_le_bytes(chunk(record, from).ok_or(short)?);
                    put_incomplete(states, &self.copy_names, at)?;
                }
            }
        }
        Ok(())
    }
}

/// Of the idle thread of each CPU, there is none in `/proc`. What is known of a process that has just begun comes first.
#[cold]
fn put_fact(around: &mut Surroundings, tid: i32, context: Context, at: &mut Cursor) -> Result<(), Stop> {
    let Surroundings {
        new_threads, threads, ..
    } = around;
    let fact = match context {
        Context::Pid => {
            let mut ask = |tid| match threads.fact(tid, Context::Pid) {
                Some(Fact::Number(pid)) => i32::try_from(pid).ok(),
                _ => None,
            };
            let process = new_threads.process_of(tid, &mut ask);
            process.map(|pid| Fact::Number(pid.into()))
        }
        _ => threads.fact(tid, context),
    };
    match fact {
        None => Ok(at.put([DynamicType::None as u8])?),
        Some(Fact::Number(number)) => {
            at.put([DynamicType::Int64 as u8])?;
            Ok(at.put(number.to_le_bytes())?)
        }
        Some(Fact::Name(name)) => {
            at.put([DynamicType::String as u8])?;
            put_text(&name, at)
        }
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

/// A count, and texts that each end with a zero byte. Of texts that are not all there, those are written that are.
fn put_texts(bytes: &[u8], at: &mut Cursor) -> Result<(), Stop> {
    let (said, texts) = bytes.split_first_chunk().unwrap_or((&[0; 4], &[]));
    let said = u32::from_le_bytes(*said) as usize;
    let ends = memchr::memchr_iter(0, texts).take(said);
    let (count, end) = ends.fold((0_u32, 0), |(count, _), end| (count + 1, end + 1));
    at.put(count.to_le_bytes())?;
    at.put_all(&texts[..end])?;
    Ok(())
}

/// `filename unreadable, argv cut`; almost always nothing.
fn put_incomplete(states: u16, names: &[CopyName], at: &mut Cursor) -> Result<(), NoRoom> {
    let mut is_first = true;
    for CopyName { index, name, absent } in names {
        let what = match State::of(states, *index) {
            State::Whole => None,
            State::Cut => Some("cut"),
            State::Unreadable => Some("unreadable"),
            State::Absent => *absent,
        };
        if let Some(what) = what {
            at.put_all(if is_first { b"" } else { b", " })?;
            at.put_all(name.as_bytes())?;
            at.put([b' '])?;
            at.put_all(what.as_bytes())?;
            is_first = false;
        }
    }
    at.put([0])
}

impl CopyName {
    fn bytes_max(&self) -> usize {
        ", ".len() + self.name.len() + " unreadable".len()
    }
}

/// `struct sockaddr`, as much of it as there is.
fn put_address(bytes: &[u8], at: &mut Cursor) -> Result<(), Stop> {
    const UNIX: u16 = 1;
    const INET: u16 = 2;
    const INET6: u16 = 10;
    let family = chunk(bytes, 0).map_or(0, u16::from_le_bytes);
    let port = chunk(bytes, 2).map_or(0, u16::from_be_bytes);
    let (mut v4, mut v6, mut path) = (None, None, None);
    match family {
        INET => v4 = bytes.get(4..8),
        INET6 => v6 = bytes.get(8..24),
        UNIX => path = bytes.get(2..),
        _ => {}
    }
    let port = if v4.is_some() || v6.is_some() { port } else { 0 };
    at.put(i32::from(family).to_le_bytes())?;
    at.put(port.to_le_bytes())?;
    put_elements(v4.unwrap_or_default(), 1, at)?;
    at.put((v6.map_or(0, <[u8]>::len) as u32 / 2).to_le_bytes())?;
    for pair in v6.unwrap_or_default().chunks_exact(2) {
        at.put([pair[1], pair[0]])?;
    }
    match path {
        // An abstract name begins with a zero byte, and ends where the address does; it is shown as ss(8) shows it.
        Some([0, name @ ..]) if !name.is_empty() => {
            at.put(*b"@")?;
            put_text(name, at)
        }
        path => put_text(path.unwrap_or_default(), at),
    }
}
