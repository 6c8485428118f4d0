// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the analyses of input and output have in common: what they need, whom they mean, how they name files.

use crate::analysis::{Need, Options};
use crate::model::{FileCall, FileId, FileKind, Request, System};
use crate::report::{Column, Unit, Value, column, counted};

pub(super) const NEEDS: &[Need] = &[
    Need {
        any_of: &["syscall_entry_*", "sys_*", "compat_syscall_entry_*", "block_rq_issue"],
        what: "system calls or requests to devices",
        option: "-a --preset io",
        is_essential: true,
    },
    Need {
        any_of: &["syscall_entry_*", "sys_*", "compat_syscall_entry_*"],
        what: "what programs read and wrote",
        option: "--preset io",
        is_essential: false,
    },
    Need {
        any_of: &["block_rq_issue"],
        what: "what devices read and wrote, if anything",
        option: "-a --preset io",
        is_essential: false,
    },
];

pub(super) const READ: Column = column("read_bytes", "READ", Unit::Bytes);
pub(super) const WRITTEN: Column = column("written_bytes", "WRITTEN", Unit::Bytes);
pub(super) const DEVICE: Column = column("device", "DEVICE", Unit::Text);
pub(super) const OPERATION: Column = column("operation", "OPERATION", Unit::Text).major();
pub(super) const FILE: Column = column("file", "FILE", Unit::Text).major();
pub(super) const KIND: Column = column("kind", "KIND", Unit::Text).minor();

/// A call is asked for.
pub(super) fn wants_call(options: &Options, system: &System, call: &FileCall) -> bool {
    options.wants_ns(call.call.end_ns - call.call.begin_ns) && options.who.wants(system, call.call.thread)
}

/// A request is asked for. One without an end has no duration to choose it by.
pub(super) fn wants_request(options: &Options, system: &System, request: &Request) -> bool {
    let is_timed = options.min_ns.is_none() && options.max_ns.is_none();
    let is_meant = match request.thread {
        Some(thread) => options.who.wants(system, thread),
        None => options.who.wants_everybody(),
    };
    is_meant && request.device_ns().map_or(is_timed, |ns| options.wants_ns(ns))
}

/// The file's name, if it has one.
pub(super) fn file(system: &System, id: FileId) -> Value {
    match system.names.text(system.file(id).name) {
        "" => Value::None,
        name => name.into(),
    }
}

/// What the file is.
pub(super) fn kind(system: &System, id: FileId) -> FileKind {
    system.file(id).kind
}

/// Of requests whose end is not in the trace.
pub(super) fn unfinished(count: u64) -> Option<String> {
    counted(
        count,
        "request to a device has no end in the trace, because it completes in an interrupt, which can occur on any thread; `piste record -a --preset io` records completions, except on threads of pisted",
        "requests to devices have no end in the trace, because they complete in interrupts, which can occur on any thread; `piste record -a --preset io` records completions, except on threads of pisted",
    )
}
