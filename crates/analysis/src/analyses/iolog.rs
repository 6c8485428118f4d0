// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every call that has to do with a file, and every request to a device.

use super::io::{DEVICE, FILE, file, wants_call, wants_request};
use super::{COMM, LOG_LIMIT, PID, TID, comm, pid, tid};
use crate::analysis::{Analysis, Description, Options};
use crate::model::{FileCall, FileOperation, Listen, Request, System};
use crate::report::{Report, Table, Unit, Value, column, counted};

pub(super) static IOLOG: Description = Description {
    name: "iolog",
    about: "every open, read, write and sync call, and every request to a device",
    tables: &["log"],
    needs: super::io::NEEDS,
    begin: |options| {
        Box::new(Log {
            limit: options.limit.unwrap_or(LOG_LIMIT),
            options: options.clone(),
            kept: Vec::new(),
            count: 0,
        })
    },
};

struct Log {
    options: Options,
    limit: usize,
    kept: Vec<Entry>,
    count: u64,
}

enum Entry {
    Call(FileCall),
    Request(Request),
}

impl Entry {
    fn begin_ns(&self) -> i64 {
        match self {
            Entry::Call(call) => call.call.begin_ns,
            Entry::Request(request) => request.issued_ns,
        }
    }
}

impl Log {
    fn keep(&mut self, entry: Entry) {
        self.count += 1;
        if self.kept.len() < self.limit {
            self.kept.push(entry);
        }
    }
}

impl Listen for Log {
    fn file_call(&mut self, system: &System, call: &FileCall) {
        if wants_call(&self.options, system, call) {
            self.keep(Entry::Call(*call));
        }
    }

    fn request(&mut self, system: &System, request: &Request) {
        if wants_request(&self.options, system, request) {
            self.keep(Entry::Request(*request));
        }
    }
}

impl Analysis for Log {
    fn report(&mut self, system: &System) -> Report {
        let columns = [
            column("begin_ns", "BEGIN", Unit::Moment),
            column("duration_ns", "DURATION", Unit::Nanoseconds).major().with_bar(),
            TID,
            PID.minor(),
            COMM,
            column("what", "WHAT", Unit::Text),
            column("fd", "FD", Unit::Id).minor(),
            FILE,
            DEVICE,
            column("sector", "SECTOR", Unit::Id).minor(),
            column("bytes", "BYTES", Unit::Bytes),
            column("error", "ERROR", Unit::Id),
            column("queue_ns", "QUEUE", Unit::Nanoseconds).minor(),
        ];
        let mut table = Table::new("log", "Calls and requests to devices", &columns);
        self.kept.sort_by_key(Entry::begin_ns);
        for entry in &self.kept {
            table.row(match entry {
                Entry::Call(call) => of_call(system, call),
                Entry::Request(request) => of_request(system, request),
            });
        }
        let left = self.count - self.kept.len() as u64;
        let mut notes = Vec::from_iter(super::torn_calls(system, &self.options.who));
        notes.extend(counted(
            left,
            "more is not shown; choose others with --limit, --min and --begin",
            "more are not shown; choose others with --limit, --min and --begin",
        ));
        Report {
            tables: vec![table],
            notes,
        }
    }
}

fn of_call(system: &System, of_file: &FileCall) -> [Value; 13] {
    let call = &of_file.call;
    // What is copied is named by where it goes.
    let opened = of_file.target.or(of_file.source);
    let bytes = match of_file.operation {
        FileOperation::Open | FileOperation::Sync => Value::None,
        _ => call.result.max(0).cast_unsigned().into(),
    };
    [
        Value::Number(call.begin_ns),
        Value::Number(call.end_ns - call.begin_ns),
        tid(system, call.thread),
        pid(system, call.thread),
        comm(system, call.thread),
        system.names.text(call.name).into(),
        opened.map(|opened| opened.descriptor).into(),
        opened.map_or(Value::None, |opened| file(system, opened.file)),
        Value::None,
        Value::None,
        bytes,
        (call.result < 0).then_some(call.result).into(),
        Value::None,
    ]
}

fn of_request(system: &System, request: &Request) -> [Value; 13] {
    let of = |value: fn(&System, crate::model::ThreadId) -> Value| match request.thread {
        Some(thread) => value(system, thread),
        None => Value::None,
    };
    [
        Value::Number(request.issued_ns),
        request.device_ns().into(),
        of(tid),
        of(pid),
        of(comm),
        format!("request {}", request.operation.text()).into(),
        Value::None,
        request.file.map_or(Value::None, |id| file(system, id)),
        system.device_name(request.device).into(),
        // A flush has no place.
        i64::try_from(request.sector).ok().filter(|_| request.bytes > 0).into(),
        request.bytes.into(),
        (request.error != 0).then_some(request.error).into(),
        request.queue_ns().into(),
    ]
}
