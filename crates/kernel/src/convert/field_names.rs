// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fields that an event would have in the trace, before any record came.

use piste_ctf::EventClass;

use super::detail::Detail;
use super::event::{self, Event};
use super::syscall::{self, CallFormat, Side};
use crate::format::EventFormat;
use crate::layout::Layout;
use crate::spec::Memory;
use piste_syscalls::{Architecture, Syscall, Table};

/// Names in the trace of the fields of a kernel's event. The raw events of system calls are written as the calls, and have the fields
/// of all of them.
pub(crate) fn of_event(format: &EventFormat, layout: &Layout, architecture: Architecture) -> Vec<String> {
    if let Some(format) = CallFormat::of(format) {
        let known = architecture.all(Table::Native).map(Some);
        return known
            .chain([None])
            .flat_map(|call| of_side(Table::Native, call, format))
            .collect();
    }
    let event = Event {
        format,
        name: &format.name,
        class_id: 0,
        detail: &Detail::default(),
        contexts: &[],
        texts: &[],
    };
    let (_, class) = event::plan(&event, layout, &mut Vec::new());
    names(class)
}

/// Names in the trace of what a system call is given and returns, with what is there when the memory that arguments point to is recorded.
pub(crate) fn of_call(table: Table, number: u32, architecture: Architecture) -> Vec<String> {
    let formats = [Side::Entry, Side::Exit].map(|side| [CallFormat::usual(side), CallFormat::copied(side, false)]);
    let call = architecture.by_number(table, number).into_iter();
    call.flat_map(|call| {
        formats
            .as_flattened()
            .iter()
            .map(move |format| of_side(table, Some(call), *format))
    })
    .flatten()
    .collect()
}

fn of_side(table: Table, call: Option<&Syscall>, format: CallFormat) -> Vec<String> {
    let everything = Memory {
        environment: true,
        buffer_bytes: 1,
    };
    let memory = format.has_copies.then_some(&everything);
    let planned = syscall::plan(table, call, format, memory, &Detail::default(), &[]);
    planned.map_or_else(|_| Vec::new(), |(_, class)| names(class))
}

fn names(class: EventClass) -> Vec<String> {
    class.fields.into_iter().map(|field| field.name).collect()
}
