// SPDX-License-Identifier: MIT OR Apache-2.0
//! A row for each system call whose entry and exit are in the trace.

use super::column::{Column, Emitter, Lasts, OfThread, column, times, who};
use super::{Rows, Table, headings};
use crate::analyses::CALLS;
use crate::analysis::Need;
use crate::model::{Call, Listen, System, ThreadId};
use crate::report::Unit;

pub(super) static SYSCALLS: Table = Table {
    name: "syscalls",
    needs: &[Need {
        is_essential: true,
        ..CALLS
    }],
    columns: || headings(&columns()),
    begin: |chosen, sink| Box::new(Syscalls(Emitter::new(&columns(), chosen, sink))),
};

fn columns() -> Vec<Column<Call>> {
    let own = [
        column("name", Unit::Text, |system, call: &Call| {
            system.names.text(call.name).into()
        }),
        column("ret", Unit::Count, |_, call: &Call| call.result.into()),
    ];
    [&times()[..], &own, &who()].concat()
}

impl Lasts for Call {
    fn begin_ns(&self) -> Option<i64> {
        Some(self.begin_ns)
    }

    fn end_ns(&self) -> Option<i64> {
        Some(self.end_ns)
    }
}

impl OfThread for Call {
    fn thread(&self) -> Option<ThreadId> {
        Some(self.thread)
    }
}

struct Syscalls(Emitter<Call>);

impl Listen for Syscalls {
    fn call(&mut self, system: &System, call: &Call) {
        self.0.row(system, call);
    }
}

impl Rows for Syscalls {
    fn finish(&mut self, _: &System) {}
}
