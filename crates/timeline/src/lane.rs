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
    /// A number that changes. Pieces are of [`Class::Value`](crate::Class::Value), or unknown: events may be missing.
    Counter(Counter),
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
    /// Threads with the same number are of one process. Ids of processes are used again.
    pub process: u32,
    /// Its effective user, if the trace says so.
    pub uid: Option<u32>,
    /// The control group of its process; empty if the trace does not say so.
    pub cgroup: String,
    /// The process that its process comes from, if the trace says so.
    pub parent_pid: Option<i32>,
    /// Where it comes from, if that is in the trace.
    pub created: Option<Created>,
}

/// A thread began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Created {
    /// The thread that created it, which has this lane.
    pub by: LaneId,
    /// When.
    pub ns: i64,
}

/// A number that changes over time. Frequencies are levels; all others are amounts, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Counter {
    /// How fast a CPU is, in kHz.
    Frequency(u32),
    /// What comes from a network interface. `by` of a piece is the thread or interrupt that took it.
    Received(String),
    /// What is put into the queue of a network interface. `by` of a piece is the thread or interrupt that did it.
    Queued(String),
    /// What is handed to a network interface. `by` of a piece is the thread or interrupt that did it.
    Sent(String),
    /// What was read from a device, which has this lane, when it was complete. `by` of a piece is the thread that asked.
    Read(LaneId),
    /// What was written to a device, likewise.
    Written(LaneId),
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

/// Longer names are cut: nobody reads them, and viewers get those of many lanes at once. Paths of control groups fit.
const TEXT_BYTES_MAX: usize = 1024;

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    let mut ends = (0..=text.len().min(TEXT_BYTES_MAX)).rev();
    let end = ends.find(|end| text.is_char_boundary(*end));
    let kept = &text[..end.unwrap_or(0)];
    let cut = if kept.len() < text.len() { "…" } else { "" };
    put(bytes, (kept.len() + cut.len()) as u64);
    bytes.extend_from_slice(kept.as_bytes());
    bytes.extend_from_slice(cut.as_bytes());
}

fn text(reader: &mut Reader<'_>) -> Result<String, Damaged> {
    let length = reader.small()?;
    String::from_utf8(reader.take(length)?.to_vec()).map_err(|_| Damaged)
}

/// The id of a process, if it is known.
fn process(reader: &mut Reader<'_>) -> Result<Option<i32>, Damaged> {
    match reader.signed()? {
        i64::MIN => Ok(None),
        pid => Ok(Some(i32::try_from(pid).map_err(|_| Damaged)?)),
    }
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
                put(bytes, thread.process.into());
                put(bytes, thread.uid.map_or(0, |uid| u64::from(uid) + 1));
                put_text(bytes, &thread.cgroup);
                put_signed(bytes, thread.parent_pid.map_or(i64::MIN, i64::from));
                bytes.push(thread.created.is_some().into());
                if let Some(Created { by, ns }) = thread.created {
                    put(bytes, by.0.into());
                    put_signed(bytes, ns);
                }
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
            Subject::Counter(counter) => {
                bytes.push(7);
                counter.write(bytes);
            }
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Subject, Damaged> {
        Ok(match reader.byte()? {
            0 => Subject::Cpu(reader.small()?),
            1 => Subject::Thread(Thread {
                tid: i32::try_from(reader.signed()?).map_err(|_| Damaged)?,
                pid: process(reader)?,
                name: text(reader)?,
                is_kernel: reader.byte()? != 0,
                process: reader.small()?,
                uid: match reader.number()? {
                    0 => None,
                    uid => Some(u32::try_from(uid - 1).map_err(|_| Damaged)?),
                },
                cgroup: text(reader)?,
                parent_pid: process(reader)?,
                created: match reader.byte()? {
                    0 => None,
                    _ => Some(Created {
                        by: LaneId(reader.small()?),
                        ns: reader.signed()?,
                    }),
                },
            }),
            2 => Subject::Calls(LaneId(reader.small()?)),
            3 => Subject::Interrupt(text(reader)?),
            4 => Subject::Device(text(reader)?),
            5 => Subject::Spans(ProgramThread::read(reader)?, reader.small()?),
            6 => Subject::Events(ProgramThread::read(reader)?),
            7 => Subject::Counter(Counter::read(reader)?),
            _ => return Err(Damaged),
        })
    }
}

impl Counter {
    fn write(&self, bytes: &mut Vec<u8>) {
        let number = match self {
            Counter::Frequency(_) => 0,
            Counter::Received(_) => 1,
            Counter::Queued(_) => 2,
            Counter::Sent(_) => 3,
            Counter::Read(_) => 4,
            Counter::Written(_) => 5,
        };
        bytes.push(number);
        match self {
            Counter::Received(name) | Counter::Queued(name) | Counter::Sent(name) => put_text(bytes, name),
            Counter::Frequency(number) | Counter::Read(LaneId(number)) | Counter::Written(LaneId(number)) => {
                put(bytes, (*number).into());
            }
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Counter, Damaged> {
        Ok(match reader.byte()? {
            0 => Counter::Frequency(reader.small()?),
            1 => Counter::Received(text(reader)?),
            2 => Counter::Queued(text(reader)?),
            3 => Counter::Sent(text(reader)?),
            4 => Counter::Read(LaneId(reader.small()?)),
            5 => Counter::Written(LaneId(reader.small()?)),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_nobody_reads_to_the_end_are_cut() {
        for (name, kept) in [
            ("é".repeat(512), "é".repeat(512)),
            ("é".repeat(40_000), "é".repeat(512) + "…"),
            (
                "a".to_owned() + &"é".repeat(512),
                "a".to_owned() + &"é".repeat(511) + "…",
            ),
        ] {
            let mut bytes = Vec::new();
            Label::Text(name).write(&mut bytes);
            assert_eq!(Label::read(&mut Reader::new(&bytes)), Ok(Label::Text(kept)));
        }
    }
}
