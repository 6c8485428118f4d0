// SPDX-License-Identifier: MIT OR Apache-2.0
//! The plan for entries or exits of a system call.
//!
//! Two events of the kernel stand for all calls: a number and six words, a number and the result. In the trace each call has events of
//! its own, with its arguments by name.

use piste_ctf::{Base, Element, EventClass, FieldKind};

use super::copies;
use super::detail::Detail;
use super::event::{finish, scalar};
use super::{TID_FROM, class_id, put_contexts};
use crate::format::EventFormat;
use crate::plan::{Builder, Plan, TooFar};
use crate::spec::{Context, Memory};
use piste_syscalls::copies::record;
use piste_syscalls::{Syscall, Table};

/// The two sides of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Entry,
    Exit,
}

/// Where records of a side have what: kernels with real-time scheduling have more fields in front of it than others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CallFormat {
    pub(super) side: Side,
    /// Of the number of the call.
    number_from: u16,
    /// Of the first argument, or the result.
    words_from: u16,
    /// They are the BPF program's: they say of which table the call is, and have copies of what its arguments point to.
    pub(super) has_copies: bool,
    /// And those that could not be made at the entry.
    pub(super) is_late: bool,
}

const WORD_BYTES: u32 = 8;
const WORD_COUNT: u32 = 6;

impl CallFormat {
    /// Of `raw_syscalls:sys_enter` or `sys_exit`; `None` when it is neither, or has other fields than on kernels of 64 bits.
    pub(super) fn of(format: &EventFormat) -> Option<CallFormat> {
        let (side, words, bytes) = match (format.system.as_str(), format.name.as_str()) {
            ("raw_syscalls", "sys_enter") => (Side::Entry, "args", WORD_COUNT * WORD_BYTES),
            ("raw_syscalls", "sys_exit") => (Side::Exit, "ret", WORD_BYTES),
            _ => return None,
        };
        let from = |name, bytes| {
            let field = format.field(name).filter(|field| field.bytes == bytes)?;
            u16::try_from(field.offset).ok()
        };
        Some(CallFormat {
            side,
            number_from: from("id", WORD_BYTES)?,
            words_from: from(words, bytes)?,
            has_copies: false,
            is_late: false,
        })
    }

    /// As most kernels have it: what is written of a call does not depend on it.
    pub(super) fn usual(side: Side) -> CallFormat {
        CallFormat {
            side,
            number_from: 8,
            words_from: 16,
            has_copies: false,
            is_late: false,
        }
    }

    /// As the BPF program has it.
    pub(super) fn copied(side: Side, is_late: bool) -> CallFormat {
        CallFormat {
            side,
            number_from: record::NUMBER as u16,
            words_from: record::WORDS as u16,
            has_copies: true,
            is_late,
        }
    }

    /// The table of the call, where the record says it.
    #[inline(always)]
    pub(super) fn table(self, record: &[u8]) -> Option<Table> {
        if !self.has_copies {
            return None;
        }
        match record.get(record::TABLE)? {
            0 => Some(Table::Native),
            _ => Some(Table::Compat),
        }
    }

    /// Thread and number, by the record of a call's entry or exit; `None` when it is too short.
    #[inline(always)]
    pub(super) fn caller(self, record: &[u8]) -> Option<(i32, u64)> {
        let tid = record.get(usize::from(TID_FROM)..)?.first_chunk()?;
        let number = record.get(usize::from(self.number_from)..)?.first_chunk()?;
        record
            .get(usize::from(self.words_from)..)?
            .first_chunk::<{ WORD_BYTES as usize }>()?;
        Some((i32::from_le_bytes(*tid), u64::from_le_bytes(*number)))
    }

    /// The argument with this index, or the result; 0 when the record is too short.
    pub(super) fn word(self, record: &[u8], index: u8) -> u64 {
        let from = usize::from(self.words_from) + usize::from(index) * WORD_BYTES as usize;
        let word = record.get(from..).and_then(|rest| rest.first_chunk());
        word.map_or(0, |word| u64::from_le_bytes(*word))
    }
}

/// The name in the trace of a call's entry or exit; `None` is a call that is in no table.
pub(super) fn event_name(table: Table, call: Option<&Syscall>, side: Side) -> String {
    let prefix = match table {
        Table::Native => "",
        Table::Compat => "compat_",
    };
    let side = match side {
        Side::Entry => "entry",
        Side::Exit => "exit",
    };
    let name = call.map_or("unknown", |call| call.name);
    format!("{prefix}syscall_{side}_{name}")
}

/// The plan for a side of a call, and what it writes.
pub(super) fn plan(
    table: Table,
    call: Option<&Syscall>,
    format: CallFormat,
    memory: Option<&Memory>,
    detail: &Detail,
    contexts: &[Context],
) -> Result<(Plan, EventClass), TooFar> {
    let CallFormat {
        side,
        number_from,
        words_from,
        ..
    } = format;
    let copied = match (call, memory) {
        (Some(call), Some(memory)) if format.has_copies => copies::of(table, call, memory),
        _ => Vec::new(),
    };
    let all = copied.iter().enumerate();
    let due: Vec<_> = all.filter(|(_, copied)| copied.is_due(format)).collect();
    let mut left = due.clone();
    let mut builder = Builder::default();
    put_contexts(contexts, &mut builder);
    let put = |builder: &mut Builder, name: &str, from: u16, kind, bytes| {
        if detail.has(name) {
            builder.field(name, kind);
            builder.copy(from.into(), bytes)?;
        }
        Ok(())
    };
    if call.is_none() {
        put(
            &mut builder,
            "id",
            number_from,
            scalar(Element::Int64, Base::Decimal),
            WORD_BYTES,
        )?;
    }
    match (side, call) {
        (Side::Exit, _) => put(
            &mut builder,
            "ret",
            words_from,
            scalar(Element::Int64, Base::Decimal),
            WORD_BYTES,
        )?,
        (Side::Entry, Some(call)) => {
            for (argument, index) in call.arguments.iter().zip(0..WORD_COUNT) {
                // A text or a list has the place of its address.
                if let Some(at) = left.iter().position(|(_, copied)| copied.replaces(index as usize)) {
                    let (place, copied) = left.remove(at);
                    copies::put(copied, place, table, call, side, detail, &mut builder)?;
                    continue;
                }
                // The low bytes of a word come first.
                let from = words_from.saturating_add((index * WORD_BYTES) as u16);
                let kind = scalar(argument.element, argument.base);
                put(&mut builder, argument.name, from, kind, argument.element.bytes())?;
            }
        }
        (Side::Entry, None) => {
            let kind = FieldKind::Array {
                element: Element::Uint64,
                base: Base::Hex,
                count: WORD_COUNT,
            };
            put(&mut builder, "args", words_from, kind, WORD_COUNT * WORD_BYTES)?;
        }
    }
    for (place, copied) in left {
        let Some(call) = call else { break };
        copies::put(copied, place, table, call, side, detail, &mut builder)?;
    }
    copies::put_incomplete(&due, format, detail, &mut builder)?;
    let name = event_name(table, call, side);
    let id = class_id::of_syscall(&name, table, call.map(|call| call.number), side == Side::Exit);
    let id = if format.is_late { class_id::of_late_exit(id) } else { id };
    Ok(finish(builder, &name, id, detail))
}
