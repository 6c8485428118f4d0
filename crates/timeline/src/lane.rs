// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lanes: what a timeline has one line for.

use crate::Damaged;
use crate::varint::{Reader, put, put_signed};

/// A lane of a timeline, by its place among all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LaneId(pub u32);

/// What a lane shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Who has a CPU. `what` of a piece is the thread; of an interrupt, that is `what`, and the thread below it is `by`. Where there is no piece,
    /// nobody knows.
    Cpu(u32),
    /// What a thread does. `what` of a piece is the system call or the interrupt, `by` who ended a wait. Where there is no piece, there is no
    /// thread.
    Thread(Thread),
    /// The system calls of a thread, which has this lane. `what` of a piece is the call.
    Calls(LaneId),
    /// An interrupt, on all CPUs: pieces can lie one over the other. `what` of a piece is nothing, `by` the thread that it interrupted.
    Interrupt(String),
    /// Requests to a device, one over the other. `what` of a piece is the operation, `by` the thread that asked.
    Device(String),
    /// The spans of a program's thread that lie within so many others. `what` of a piece is the name. Unknown pieces are spans whose end or begin
    /// is not in the trace, and, without a name, times for which events may be missing.
    Spans(ProgramThread, u32),
    /// The other events of a program's thread, which take no time. `what` of a piece is the name. Unknown pieces: events may be missing.
    Events(ProgramThread),
}

/// A thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its id in the kernel.
    pub tid: i32,
    /// Its process, if the trace says so.
    pub pid: Option<i32>,
    /// The last name that it had.
    pub name: String,
    /// It is one of the kernel.
    pub is_kernel: bool,
}

/// A thread as its program describes it: in a container, the ids are other ones than the kernel's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramThread {
    /// Its id, if the trace says so.
    pub tid: Option<i64>,
    /// Its process, if the trace says so.
    pub pid: Option<i64>,
    /// The last name that it had.
    pub name: String,
}

impl ProgramThread {
    fn write(&self, bytes: &mut Vec<u8>) {
        put_signed(bytes, self.tid.unwrap_or(i64::MIN));
        put_signed(bytes, self.pid.unwrap_or(i64::MIN));
        put_text(bytes, &self.name);
    }

    fn read(reader: &mut Reader<'_>) -> Result<ProgramThread, Damaged> {
        let mut id = || Ok(Some(reader.signed()?).filter(|id| *id != i64::MIN));
        Ok(ProgramThread {
            tid: id()?,
            pid: id()?,
            name: text(reader)?,
        })
    }
}

/// What the numbers in pieces stand for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Label {
    /// A name.
    Text(String),
    /// A thread, by its lane.
    Thread(LaneId),
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    put(bytes, text.len() as u64);
    bytes.extend_from_slice(text.as_bytes());
}

fn text(reader: &mut Reader<'_>) -> Result<String, Damaged> {
    let length = reader.small()?;
    String::from_utf8(reader.take(length)?.to_vec()).map_err(|_| Damaged)
}

impl Subject {
    pub(crate) fn write(&self, bytes: &mut Vec<u8>) {
        match self {
            Subject::Cpu(cpu) => {
                bytes.push(0);
                put(bytes, (*cpu).into());
            }
            Subject::Thread(thread) => {
                bytes.push(1);
                put_signed(bytes, thread.tid.into());
                put_signed(bytes, thread.pid.map_or(i64::MIN, i64::from));
                put_text(bytes, &thread.name);
                bytes.push(thread.is_kernel.into());
            }
            Subject::Calls(LaneId(thread)) => {
                bytes.push(2);
                put(bytes, (*thread).into());
            }
            Subject::Interrupt(name) => {
                bytes.push(3);
                put_text(bytes, name);
            }
            Subject::Device(name) => {
                bytes.push(4);
                put_text(bytes, name);
            }
            Subject::Spans(thread, depth) => {
                bytes.push(5);
                thread.write(bytes);
                put(bytes, (*depth).into());
            }
            Subject::Events(thread) => {
                bytes.push(6);
                thread.write(bytes);
            }
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Subject, Damaged> {
        Ok(match reader.byte()? {
            0 => Subject::Cpu(reader.small()?),
            1 => Subject::Thread(Thread {
                tid: i32::try_from(reader.signed()?).map_err(|_| Damaged)?,
                pid: match reader.signed()? {
                    i64::MIN => None,
                    pid => Some(i32::try_from(pid).map_err(|_| Damaged)?),
                },
                name: text(reader)?,
                is_kernel: reader.byte()? != 0,
            }),
            2 => Subject::Calls(LaneId(reader.small()?)),
            3 => Subject::Interrupt(text(reader)?),
            4 => Subject::Device(text(reader)?),
            5 => Subject::Spans(ProgramThread::read(reader)?, reader.small()?),
            6 => Subject::Events(ProgramThread::read(reader)?),
            _ => return Err(Damaged),
        })
    }
}

impl Label {
    pub(crate) fn write(&self, bytes: &mut Vec<u8>) {
        match self {
            Label::Text(text) => {
                bytes.push(0);
                put_text(bytes, text);
            }
            Label::Thread(LaneId(lane)) => {
                bytes.push(1);
                put(bytes, (*lane).into());
            }
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Label, Damaged> {
        Ok(match reader.byte()? {
            0 => Label::Text(text(reader)?),
            1 => Label::Thread(LaneId(reader.small()?)),
            _ => return Err(Damaged),
        })
    }
}
