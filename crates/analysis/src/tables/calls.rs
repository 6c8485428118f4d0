// SPDX-License-Identifier: MIT OR Apache-2.0
//! A row for each system call whose entry and exit are in the trace.

use super::column::{Column, Emitter, Lasts, OfThread, column, path, times, who};
use super::{Rows, Table, headings};
use crate::analyses::CALLS;
use crate::analysis::Need;
use crate::model::{Call, FileCall, Listen, Opened, System, ThreadId};
use crate::report::Unit;

pub(super) static SYSCALLS: Table = Table {
    name: "syscalls",
    needs: &[Need {
        is_essential: true,
        ..CALLS
    }],
    columns: || headings(&columns()),
    begin: |chosen, sink| {
        Box::new(Syscalls {
            emitter: Emitter::new(&columns(), chosen, sink),
            file: None,
        })
    },
};

/// A call, and the file that it is about: what it writes to or opens, else what it reads.
struct Called {
    call: Call,
    file: Option<Opened>,
}

fn columns() -> Vec<Column<Called>> {
    let own = [
        column("name", Unit::Text, |system, one: &Called| {
            system.names.text(one.call.name).into()
        }),
        column("ret", Unit::Count, |_, one: &Called| one.call.result.into()),
        column("fd", Unit::Id, |_, one: &Called| {
            one.file.map(|file| i64::from(file.descriptor)).into()
        }),
        column("path", Unit::Text, |system, one: &Called| {
            path(system, one.file.map(|opened| opened.file)).into()
        }),
    ];
    [&times()[..], &own, &who()].concat()
}

impl Lasts for Called {
    fn begin_ns(&self) -> Option<i64> {
        Some(self.call.begin_ns)
    }

    fn end_ns(&self) -> Option<i64> {
        Some(self.call.end_ns)
    }
}

impl OfThread for Called {
    fn thread(&self) -> Option<ThreadId> {
        Some(self.call.thread)
    }
}

struct Syscalls {
    emitter: Emitter<Called>,
    /// Of the call that is told next, if it has to do with one.
    file: Option<Opened>,
}

impl Listen for Syscalls {
    fn file_call(&mut self, _: &System, call: &FileCall) {
        self.file = call.target.or(call.source);
    }

    fn call(&mut self, system: &System, call: &Call) {
        let (call, file) = (*call, self.file.take());
        self.emitter.row(system, &Called { call, file });
    }
}

impl Rows for Syscalls {
    fn finish(&mut self, _: &System) {}
}
