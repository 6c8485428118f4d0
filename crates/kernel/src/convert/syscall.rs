// SPDX-License-Identifier: MIT OR Apache-2.0
//! The plan for entries or exits of a system call.
//!
//! Two events of the kernel stand for all calls: a number and six words, a number and the result. In the trace each call has events of
//! its own, with its arguments by name.

use piste_ctf::{Base, Element, EventClass, FieldKind};

use super::detail::Detail;
use super::event::{finish, scalar};
use super::{class_id, put_contexts};
use crate::format::EventFormat;
use crate::plan::{Builder, Plan, TooFar};
use crate::spec::Context;
use crate::syscalls::{Syscall, Table};

/// The two sides of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Entry,
    Exit,
}

/// Where the number of the call is in its records, and behind it the first argument or the result: on every kernel of 64 bits.
const NUMBER_FROM: u32 = 8;
const FROM: u32 = 16;
const WORD_BYTES: u32 = 8;
const WORD_COUNT: u32 = 6;
/// The least that a record has: common fields, number, one word.
pub(super) const RECORD_BYTES: usize = 24;

impl Side {
    /// Of `raw_syscalls:sys_enter` or `sys_exit`; `None` when it is neither, or not as on other kernels.
    pub(super) fn of(format: &EventFormat) -> Option<Side> {
        let (side, name, bytes) = match (format.system.as_str(), format.name.as_str()) {
            ("raw_syscalls", "sys_enter") => (Side::Entry, "args", WORD_COUNT * WORD_BYTES),
            ("raw_syscalls", "sys_exit") => (Side::Exit, "ret", WORD_BYTES),
            _ => return None,
        };
        let is = |name, offset, bytes| {
            let field = format.field(name);
            field.is_some_and(|field| (field.offset, field.bytes) == (offset, bytes))
        };
        let is_usual = is("id", NUMBER_FROM, WORD_BYTES) && is(name, FROM, bytes);
        is_usual.then_some(side)
    }
}

/// Thread, number, and first argument or result, by the record of a call's entry or exit.
#[inline(always)]
pub(super) fn words(record: &[u8; RECORD_BYTES]) -> (i32, u64, i64) {
    let [_, _, _, _, record @ ..] = record;
    let (tid, record) = record.split_first_chunk().expect("24 bytes");
    let (number, word) = record.split_first_chunk().expect("24 bytes");
    (
        i32::from_le_bytes(*tid),
        u64::from_le_bytes(*number),
        i64::from_le_bytes(*word.first_chunk().expect("24 bytes")),
    )
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
    side: Side,
    detail: &Detail,
    contexts: &[Context],
) -> Result<(Plan, EventClass), TooFar> {
    let mut builder = Builder::default();
    put_contexts(contexts, &mut builder);
    let mut put = |name: &str, from, kind, bytes| {
        if detail.has(name) {
            builder.field(name, kind);
            builder.copy(from, bytes)?;
        }
        Ok(())
    };
    if call.is_none() {
        put("id", NUMBER_FROM, scalar(Element::Int64, Base::Decimal), WORD_BYTES)?;
    }
    match (side, call) {
        (Side::Exit, _) => put("ret", FROM, scalar(Element::Int64, Base::Decimal), WORD_BYTES)?,
        (Side::Entry, Some(call)) => {
            for (argument, index) in call.arguments.iter().zip(0..WORD_COUNT) {
                // The low bytes of a word come first.
                let from = FROM + index * WORD_BYTES;
                let kind = scalar(argument.element, argument.base);
                put(argument.name, from, kind, argument.element.bytes())?;
            }
        }
        (Side::Entry, None) => {
            let kind = FieldKind::Array {
                element: Element::Uint64,
                base: Base::Hex,
                count: WORD_COUNT,
            };
            put("args", FROM, kind, WORD_COUNT * WORD_BYTES)?;
        }
    }
    let name = event_name(table, call, side);
    let id = class_id::of_syscall(&name, table, call.map(|call| call.number), side == Side::Exit);
    Ok(finish(builder, &name, id, detail))
}
