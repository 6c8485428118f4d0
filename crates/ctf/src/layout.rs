// SPDX-License-Identifier: MIT OR Apache-2.0
//! The check of a packet that a program wrote.
//!
//! A traced program is not trusted, and a reader of the trace must find every packet well formed. So each record of a packet is
//! checked before the packet is written: its event is known, its bytes lie inside the content, its time neither goes back nor
//! lies in the future. What precedes the first fault is good and stays.
//!
//! This is the consumer's hot path. A class becomes a plan: the bytes that every record of it has, then the parts whose size the
//! record tells. Programs record the same event many times in a row, so a run of records of one fixed size is passed in a loop
//! that compares and adds, without looking the class up and without waiting for the size of the record before.
//!
//! Of a sub-buffer that a program never finished, `crates/ring` puts the whole records one behind the other. That packet is
//! checked like any other: by R3 of `include/piste/abi/ring.h` each time follows from that of the committed record before it.
//!
//! The form of records is described there and in `include/piste/abi/event.h`. Next: `layout/header.rs`, then `layout/plan.rs`.

mod fault;
mod header;
mod plan;

pub use fault::{Fault, Wrong};

use crate::description::{EventClass, Field};
use crate::packet::{HEADER_BYTES, TIMESTAMP_BEGIN_OFFSET, padded};
use header::{COMPACT_BYTES, Header, Word};
use plan::Plan;

/// The event classes of one stream class, compiled.
///
/// Event ids are expected to count up from 0: the memory taken grows with the highest one.
#[derive(Clone, Debug)]
pub struct Layouts {
    contexts: Vec<Field>,
    plans: Vec<Option<Plan>>,
}

/// What [`Layouts::check`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checked {
    /// Exact end of the last good record, counted from the start of the packet, without padding.
    pub content_bytes: u32,
    /// Good records.
    pub records: u32,
    /// Time of the last good record; the packet's begin when there is none.
    pub last_ticks: u64,
    /// Why checking stopped before the end of the content.
    pub fault: Option<Fault>,
}

/// Ids of event classes are below this.
pub const CLASS_COUNT_MAX: u32 = 1 << 20;

impl Layouts {
    /// No classes yet, of a stream class whose records carry `contexts`.
    pub fn new(contexts: Vec<Field>) -> Layouts {
        Layouts {
            contexts,
            plans: Vec::new(),
        }
    }

    /// Adds a class, or replaces the one with the same id.
    ///
    /// # Panics
    /// When the id is not below [`CLASS_COUNT_MAX`].
    pub fn insert(&mut self, class: &EventClass) {
        assert!(
            class.id < CLASS_COUNT_MAX,
            "event ids count up from 0, but {} is not below {CLASS_COUNT_MAX}",
            class.id
        );
        let index = class.id as usize;
        if self.plans.len() <= index {
            self.plans.resize(index + 1, None);
        }
        self.plans[index] = Some(Plan::new(self.contexts.iter().chain(&class.fields)));
    }

    /// Checks the records of `packet`, of which `content_bytes` are used, header included.
    ///
    /// The header is not looked at: `begin_ticks` is the time that the packet begins with, `limit_ticks` the latest that a
    /// record can have. `content_bytes` may include the padding behind the last record.
    pub fn check(&self, packet: &[u8], content_bytes: u32, begin_ticks: u64, limit_ticks: u64) -> Checked {
        let content = &packet[..packet.len().min(content_bytes as usize)];
        let mut walk = Walk::new(content, begin_ticks);
        let fault = check_start(content, begin_ticks, limit_ticks).and_then(|()| {
            while walk.next < content.len() {
                let record = self.record(content, walk.next, walk.ticks, limit_ticks);
                let record = record.map_err(|what| Fault {
                    offset: walk.next as u32,
                    what,
                })?;
                walk.accept(record);
                if let Some(run) = record.run {
                    walk.pass(content, run, limit_ticks);
                }
            }
            Ok(())
        });
        Checked {
            content_bytes: walk.end as u32,
            records: walk.records,
            last_ticks: walk.ticks,
            fault: fault.err(),
        }
    }

    /// Reads the record that starts at `start`, inside `content`. `previous_ticks` is at most `limit_ticks`.
    #[inline]
    fn record(&self, content: &[u8], start: usize, previous_ticks: u64, limit_ticks: u64) -> Result<Record, Wrong> {
        let bytes = &content[start..];
        let header = Header::read(bytes, previous_ticks, limit_ticks)?;
        let plan = self.plans.get(header.id as usize).and_then(Option::as_ref);
        let plan = plan.ok_or(Wrong::UnknownEvent { id: header.id })?;
        let record_bytes = plan.record_bytes(bytes, header.bytes)?;
        let is_run = header.bytes == COMPACT_BYTES && plan.is_fixed();
        let run = is_run.then_some(Run {
            id: header.id,
            record_bytes,
        });
        Ok(Record {
            end: start + record_bytes,
            ticks: header.ticks,
            run,
        })
    }
}

/// A record that was read.
#[derive(Clone, Copy)]
struct Record {
    /// Exact end, counted from the start of the packet.
    end: usize,
    ticks: u64,
    run: Option<Run>,
}

/// What compact records of a class of fixed size have in common.
#[derive(Clone, Copy)]
struct Run {
    id: u32,
    record_bytes: usize,
}

/// How far a check has come.
struct Walk {
    next: usize,
    end: usize,
    records: u32,
    ticks: u64,
}

impl Walk {
    fn new(content: &[u8], begin_ticks: u64) -> Walk {
        let end = content.len().min(HEADER_BYTES);
        Walk {
            next: HEADER_BYTES,
            end,
            records: 0,
            ticks: begin_ticks,
        }
    }

    #[inline]
    fn accept(&mut self, record: Record) {
        self.end = record.end;
        self.next = padded(record.end);
        self.ticks = record.ticks;
        self.records += 1;
    }

    /// Passes good records of the run, and stops at the first that is of another class or not good.
    #[inline]
    fn pass(&mut self, content: &[u8], run: Run, limit_ticks: u64) {
        let stride = padded(run.record_bytes);
        let (mut next, mut ticks, mut records) = (self.next, self.ticks, 0);
        while let Some(word) = content.get(next..next + run.record_bytes).and_then(Word::read) {
            let ahead = word.ticks_ahead(ticks);
            if word.id() != run.id || ahead > limit_ticks - ticks {
                break;
            }
            ticks += ahead;
            next += stride;
            records += 1;
        }
        if records > 0 {
            let end = next - stride + run.record_bytes;
            *self = Walk {
                next,
                end,
                records: self.records + records,
                ticks,
            };
        }
    }
}

/// Checks what precedes the records: that the header is there, and the time that the packet begins with.
fn check_start(content: &[u8], begin_ticks: u64, limit_ticks: u64) -> Result<(), Fault> {
    if content.len() < HEADER_BYTES {
        let bytes = content.len() as u32;
        return Err(Fault {
            offset: 0,
            what: Wrong::NoHeader { bytes },
        });
    }
    if begin_ticks > limit_ticks {
        let ticks = begin_ticks;
        return Err(Fault {
            offset: TIMESTAMP_BEGIN_OFFSET as u32,
            what: Wrong::TooLate { ticks, limit_ticks },
        });
    }
    Ok(())
}
