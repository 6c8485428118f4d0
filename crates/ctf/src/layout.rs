// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plans that find the end of each record, and the check of a packet that a program wrote.
//!
//! A traced program is not trusted, and a reader of the trace must find every packet well formed. So each record of a packet is
//! checked before the packet is written: its event is known, its bytes lie inside the content, its time neither goes back nor
//! lies in the future. What precedes the first fault is good and stays.
//!
//! This is the consumer's hot path. A class becomes a [`Plan`]: the bytes that every record of it has, then the parts whose
//! size the record tells. Programs record the same event many times in a row, so a run of records of one fixed size is passed
//! in a loop that compares and adds, without looking the class up and without waiting for the size of the record before.
//!
//! The form of records is described in `include/piste/abi/ring.h`. Next: [`recovery`](crate::recovery), for packets with holes.

use crate::description::{Contexts, EventClass, FieldKind};
use crate::packet::{HEADER_BYTES, TIMESTAMP_BEGIN_OFFSET, padded};

/// The event classes of one stream class, compiled.
///
/// Event ids are expected to count up from 0: the memory taken grows with the highest one.
#[derive(Clone, Debug)]
pub struct Layouts {
    contexts: Contexts,
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

/// What is wrong with a packet, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("offset {offset}: {what}")]
pub struct Fault {
    /// Bytes from the start of the packet to the record or value that is wrong.
    pub offset: u32,
    /// What is wrong with it.
    pub what: Wrong,
}

/// What can be wrong with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// The packet ends inside its header.
    #[error("the packet has {bytes} bytes, fewer than the {HEADER_BYTES} of its header")]
    NoHeader {
        /// Bytes of the packet.
        bytes: u32,
    },
    /// No class has this id.
    #[error("the channel has no event with id {id}")]
    UnknownEvent {
        /// The id in the record's header.
        id: u32,
    },
    /// The record goes on behind the end of the content.
    #[error("the record takes at least {needed_bytes} bytes, {left_bytes} are left")]
    Cut {
        /// Bytes that the record takes at least, as far as it could be read.
        needed_bytes: u64,
        /// Bytes from its start to the end of the content.
        left_bytes: u32,
    },
    /// A string has no zero byte up to the end of the content.
    #[error("a string of the record has no end in the {left_bytes} bytes that are left")]
    EndlessString {
        /// Bytes from the start of the record to the end of the content.
        left_bytes: u32,
    },
    /// A time in the future.
    #[error("its time is {ticks}, later than {limit_ticks}, when the packet was taken")]
    TooLate {
        /// The time; of a compact record the earliest that it can mean.
        ticks: u64,
        /// The latest time allowed.
        limit_ticks: u64,
    },
    /// A time before that of the record before.
    #[error("its time is {ticks}, before {previous_ticks}, the time of what precedes it")]
    BackInTime {
        /// The time.
        ticks: u64,
        /// The earliest time allowed.
        previous_ticks: u64,
    },
}

impl Layouts {
    /// No classes yet, of a stream class whose records carry `contexts`.
    pub fn new(contexts: Contexts) -> Layouts {
        Layouts {
            contexts,
            plans: Vec::new(),
        }
    }

    /// Adds a class, or replaces the one with the same id.
    ///
    /// # Panics
    /// When the id is [`CLASS_COUNT_MAX`] or more.
    pub fn insert(&mut self, class: &EventClass) {
        assert!(
            class.id < CLASS_COUNT_MAX,
            "event ids count up from 0, and {} is not below {CLASS_COUNT_MAX}",
            class.id
        );
        let index = class.id as usize;
        if self.plans.len() <= index {
            self.plans.resize(index + 1, None);
        }
        self.plans[index] = Some(Plan::new(self.contexts, class));
    }

    /// Checks the records of `packet`, of which `content_bytes` are used, header included.
    ///
    /// The header is not looked at: `begin_ticks` is the time that the packet begins with, `limit_ticks` the latest that a
    /// record can have. `content_bytes` may include the padding behind the last record.
    pub fn check(&self, packet: &[u8], content_bytes: u32, begin_ticks: u64, limit_ticks: u64) -> Checked {
        let content = &packet[..packet.len().min(content_bytes as usize)];
        let mut walk = match Walk::new(content, begin_ticks, limit_ticks) {
            Ok(walk) => walk,
            Err(fault) => {
                let content_bytes = content.len().min(HEADER_BYTES) as u32;
                return Checked {
                    content_bytes,
                    records: 0,
                    last_ticks: begin_ticks,
                    fault: Some(fault),
                };
            }
        };
        let mut fault = None;
        while walk.next < content.len() {
            match self.record(content, walk.next, walk.ticks, limit_ticks) {
                Ok(record) => {
                    walk.accept(record);
                    if let Some(run) = record.run {
                        walk.pass(content, run, limit_ticks);
                    }
                }
                Err(what) => {
                    fault = Some(Fault {
                        offset: walk.next as u32,
                        what,
                    });
                    break;
                }
            }
        }
        Checked {
            content_bytes: walk.end as u32,
            records: walk.records,
            last_ticks: walk.ticks,
            fault,
        }
    }

    /// Reads the record that starts at `start`, inside `content`. `previous_ticks` is at most `limit_ticks`.
    #[inline]
    pub(crate) fn record(
        &self,
        content: &[u8],
        start: usize,
        previous_ticks: u64,
        limit_ticks: u64,
    ) -> Result<Record, Wrong> {
        let bytes = &content[start..];
        let cut = |needed_bytes: u64| Wrong::Cut {
            needed_bytes,
            left_bytes: bytes.len() as u32,
        };
        let word = u32::from_le_bytes(*bytes.first_chunk().ok_or(cut(COMPACT_BYTES as u64))?);
        let (id, ticks, header_bytes) = if word & ID_MASK != ID_EXTENDED {
            let ahead = ticks_ahead(word, previous_ticks);
            if ahead > limit_ticks - previous_ticks {
                return Err(Wrong::TooLate {
                    ticks: previous_ticks.saturating_add(ahead),
                    limit_ticks,
                });
            }
            (word & ID_MASK, previous_ticks + ahead, COMPACT_BYTES)
        } else {
            let header: &[u8; EXTENDED_BYTES] = bytes.first_chunk().ok_or(cut(EXTENDED_BYTES as u64))?;
            let [_, id @ .., _, _, _, _, _, _, _, _] = *header;
            let [_, _, _, _, _, ticks @ ..] = *header;
            let ticks = u64::from_le_bytes(ticks);
            if ticks < previous_ticks {
                return Err(Wrong::BackInTime { ticks, previous_ticks });
            }
            if ticks > limit_ticks {
                return Err(Wrong::TooLate { ticks, limit_ticks });
            }
            (u32::from_le_bytes(id), ticks, EXTENDED_BYTES)
        };
        let plan = self
            .plans
            .get(id as usize)
            .and_then(Option::as_ref)
            .ok_or(Wrong::UnknownEvent { id })?;

        let mut length = plan.fixed_bytes.saturating_add(header_bytes as u64);
        for part in &plan.parts {
            // A length that fits the content fits an index into it.
            let rest = usize::try_from(length)
                .ok()
                .and_then(|at| bytes.get(at..))
                .ok_or(cut(length))?;
            let part_bytes = match part.size {
                Size::String => {
                    memchr::memchr(0, rest).ok_or(Wrong::EndlessString {
                        left_bytes: bytes.len() as u32,
                    })? as u64
                        + 1
                }
                Size::Counted { element_bytes } => {
                    let count = u32::from_le_bytes(*rest.first_chunk().ok_or(cut(length.saturating_add(4)))?);
                    4 + u64::from(count) * u64::from(element_bytes)
                }
            };
            length = length.saturating_add(part_bytes).saturating_add(part.fixed_bytes_after);
        }
        if length > bytes.len() as u64 {
            return Err(cut(length));
        }
        let length = length as usize;
        let run = (header_bytes == COMPACT_BYTES && plan.parts.is_empty()).then_some(Run {
            id,
            record_bytes: length,
        });
        Ok(Record {
            end: start + length,
            ticks,
            run,
        })
    }
}

/// Ids below this can be inserted.
pub const CLASS_COUNT_MAX: u32 = 1 << 20;

const ID_MASK: u32 = 31;
const ID_EXTENDED: u32 = 31;
const ID_BITS: u32 = 5;
const TIME_MASK: u64 = (1 << 27) - 1;
const COMPACT_BYTES: usize = 4;
const EXTENDED_BYTES: usize = 13;

/// A record that was read.
#[derive(Clone, Copy)]
pub(crate) struct Record {
    /// Exact end, counted from the start of the packet.
    pub(crate) end: usize,
    pub(crate) ticks: u64,
    run: Option<Run>,
}

/// What compact records of a class without variable parts have in common.
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
    fn new(content: &[u8], begin_ticks: u64, limit_ticks: u64) -> Result<Walk, Fault> {
        if content.len() < HEADER_BYTES {
            return Err(Fault {
                offset: 0,
                what: Wrong::NoHeader {
                    bytes: content.len() as u32,
                },
            });
        }
        check_begin(begin_ticks, 0, limit_ticks)?;
        Ok(Walk {
            next: HEADER_BYTES,
            end: HEADER_BYTES,
            records: 0,
            ticks: begin_ticks,
        })
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
        while let Some(record) = content.get(next..next + run.record_bytes)
            && let Some(word) = record.first_chunk()
        {
            let word = u32::from_le_bytes(*word);
            let ahead = ticks_ahead(word, ticks);
            if word & ID_MASK != run.id || ahead > limit_ticks - ticks {
                break;
            }
            ticks += ahead;
            next += stride;
            records += 1;
        }
        if records > 0 {
            *self = Walk {
                next,
                end: next - stride + run.record_bytes,
                records: self.records + records,
                ticks,
            };
        }
    }
}

/// Ticks from `previous_ticks` to the smallest time, not before it, that has the low bits in the compact header `word`.
#[inline]
fn ticks_ahead(word: u32, previous_ticks: u64) -> u64 {
    u64::from(word >> ID_BITS).wrapping_sub(previous_ticks) & TIME_MASK
}

/// Checks the time that a packet begins with.
pub(crate) fn check_begin(begin_ticks: u64, earliest_ticks: u64, limit_ticks: u64) -> Result<(), Fault> {
    let what = if begin_ticks > limit_ticks {
        Wrong::TooLate {
            ticks: begin_ticks,
            limit_ticks,
        }
    } else if begin_ticks < earliest_ticks {
        Wrong::BackInTime {
            ticks: begin_ticks,
            previous_ticks: earliest_ticks,
        }
    } else {
        return Ok(());
    };
    Err(Fault {
        offset: TIMESTAMP_BEGIN_OFFSET as u32,
        what,
    })
}

/// Where the bytes of a class's records end.
#[derive(Clone, Debug)]
struct Plan {
    /// Contexts, and fields up to the first part of variable size.
    fixed_bytes: u64,
    parts: Box<[Part]>,
}

/// A field of variable size, and the fields of fixed size behind it.
#[derive(Clone, Copy, Debug)]
struct Part {
    size: Size,
    fixed_bytes_after: u64,
}

#[derive(Clone, Copy, Debug)]
enum Size {
    /// Up to and including the next zero byte.
    String,
    /// A uint32 count, then as many elements.
    Counted { element_bytes: u32 },
}

impl Plan {
    fn new(contexts: Contexts, class: &EventClass) -> Plan {
        let mut fixed_bytes = u64::from(contexts.bytes());
        let mut parts = Vec::<Part>::new();
        for field in &class.fields {
            let size = match &field.kind {
                FieldKind::String => Size::String,
                FieldKind::Text => Size::Counted { element_bytes: 1 },
                FieldKind::Sequence { element, .. } => Size::Counted {
                    element_bytes: element.bytes(),
                },
                FieldKind::Scalar { .. } | FieldKind::Enum { .. } | FieldKind::Array { .. } => {
                    let run = parts
                        .last_mut()
                        .map_or(&mut fixed_bytes, |part| &mut part.fixed_bytes_after);
                    *run = run.saturating_add(fixed_size(&field.kind));
                    continue;
                }
            };
            parts.push(Part {
                size,
                fixed_bytes_after: 0,
            });
        }
        Plan {
            fixed_bytes,
            parts: parts.into(),
        }
    }
}

/// Bytes of a field whose size does not depend on the record.
fn fixed_size(kind: &FieldKind) -> u64 {
    match kind {
        FieldKind::Scalar { element, .. } => element.bytes().into(),
        FieldKind::Enum { .. } => 4,
        FieldKind::Array { element, count, .. } => u64::from(element.bytes()) * u64::from(*count),
        FieldKind::Sequence { .. } | FieldKind::Text | FieldKind::String => unreachable!("the record tells its size"),
    }
}
