// SPDX-License-Identifier: MIT OR Apache-2.0
//! A row for each request to a device that its driver got.

use super::column::{Column, Emitter, OfThread, column, path, who};
use super::{Rows, Table, headings};
use crate::analysis::Need;
use crate::model::{Listen, Request, System, ThreadId, device_number};
use crate::report::Unit;

pub(super) static IO_REQUESTS: Table = Table {
    name: "io_requests",
    needs: &[Need {
        any_of: &["block_rq_issue"],
        what: "requests to devices",
        option: "-a --preset io",
        is_essential: true,
    }],
    columns: || headings(&columns()),
    begin: |chosen, sink| Box::new(IoRequests(Emitter::new(&columns(), chosen, sink))),
};

fn columns() -> Vec<Column<Request>> {
    let own = [
        column("queued_ns", Unit::Moment, |_, one: &Request| one.queued_ns.into()),
        column("issued_ns", Unit::Moment, |_, one: &Request| one.issued_ns.into()),
        column("completed_ns", Unit::Moment, |_, one: &Request| one.completed_ns.into()),
        column("queue_ns", Unit::Nanoseconds, |_, one: &Request| one.queue_ns().into()),
        column("latency_ns", Unit::Nanoseconds, |_, one: &Request| {
            one.device_ns().into()
        }),
        column("device", Unit::Text, |_, one: &Request| {
            device_number(one.device).into()
        }),
        // The state dump may come later: what rows are grouped by must not change with it.
        column("device_name", Unit::Text, |system, one: &Request| {
            system.known_device_name(one.device).into()
        }),
        column("operation", Unit::Text, |_, one: &Request| one.operation.text().into()),
        column("sector", Unit::Id, |_, one: &Request| {
            // A flush has no place.
            i64::try_from(one.sector).ok().filter(|_| one.bytes > 0).into()
        }),
        column("bytes", Unit::Bytes, |_, one: &Request| {
            i64::try_from(one.bytes).ok().into()
        }),
        column("error", Unit::Id, |_, one: &Request| {
            one.completed_ns.map(|_| one.error).into()
        }),
        column("path", Unit::Text, |system, one: &Request| {
            path(system, one.file).into()
        }),
    ];
    [&own[..], &who()].concat()
}

impl OfThread for Request {
    fn thread(&self) -> Option<ThreadId> {
        self.thread
    }
}

struct IoRequests(Emitter<Request>);

impl Listen for IoRequests {
    fn request(&mut self, system: &System, request: &Request) {
        self.0.row(system, request);
    }
}

impl Rows for IoRequests {
    fn finish(&mut self, _: &System) {}
}
