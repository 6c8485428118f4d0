// SPDX-License-Identifier: MIT OR Apache-2.0
//! What each process did with each of its files: bytes, calls, time.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::io::{FILE, KIND, READ, WRITTEN, file, kind, wants_call};
use super::{COMM, LIMIT, PID, process_comm};
use crate::analysis::{Analysis, Description, Need, Options};
use crate::model::{FileCall, FileId, FileOperation, Listen, ProcessId, System};
use crate::report::{Report, Table, Unit, Value, column};

pub(super) static IOUSAGE: Description = Description {
    name: "iousage",
    about: "what each process did with each of its files: bytes, system calls, time",
    tables: &["processes", "files"],
    needs: &[Need {
        is_essential: true,
        ..super::io::NEEDS[1]
    }],
    begin: |options| {
        Box::new(IoUsage {
            options: options.clone(),
            processes: BTreeMap::new(),
            files: FxHashMap::default(),
        })
    },
};

struct IoUsage {
    options: Options,
    processes: BTreeMap<ProcessId, Usage>,
    /// By process, file and descriptor.
    files: FxHashMap<(ProcessId, FileId, i32), Usage>,
}

#[derive(Clone, Copy, Default)]
struct Usage {
    read: u64,
    written: u64,
    reads: u64,
    writes: u64,
    others: u64,
    ns: i64,
}

impl Usage {
    /// With one end of a call.
    fn add(&mut self, call: &FileCall, is_source: bool, is_target: bool) {
        let moves = !matches!(call.operation, FileOperation::Open | FileOperation::Sync);
        self.read += if is_source { call.read_bytes() } else { 0 };
        self.written += if is_target { call.written_bytes() } else { 0 };
        self.reads += u64::from(is_source && moves);
        self.writes += u64::from(is_target && moves);
        self.others += u64::from(!moves);
        self.ns += call.call.end_ns - call.call.begin_ns;
    }

    fn merge(&mut self, other: &Usage) {
        self.read += other.read;
        self.written += other.written;
        self.reads += other.reads;
        self.writes += other.writes;
        self.others += other.others;
        self.ns += other.ns;
    }

    fn values(&self) -> [Value; 6] {
        [
            self.read.into(),
            self.written.into(),
            self.reads.into(),
            self.writes.into(),
            self.others.into(),
            Value::Number(self.ns),
        ]
    }
}

impl Listen for IoUsage {
    fn file_call(&mut self, system: &System, call: &FileCall) {
        if !wants_call(&self.options, system, call) {
            return;
        }
        let process = system.thread(call.call.thread).process();
        let reads = matches!(call.operation, FileOperation::Read | FileOperation::Copy);
        let writes = matches!(call.operation, FileOperation::Write | FileOperation::Copy);
        let own = self.processes.entry(process).or_default();
        own.add(call, reads, writes);
        let mut of = |opened: Option<crate::model::Opened>, is_source: bool| {
            if let Some(opened) = opened {
                let key = (process, opened.file, opened.descriptor);
                self.files.entry(key).or_default().add(call, is_source, !is_source);
            }
        };
        of(call.source, true);
        of(call.target, false);
    }
}

impl Analysis for IoUsage {
    fn report(&mut self, system: &System) -> Report {
        let limit = self.options.limit.unwrap_or(LIMIT);
        let usage = [
            READ.with_bar(),
            WRITTEN.with_bar(),
            column("reads", "READS", Unit::Count),
            column("writes", "WRITES", Unit::Count),
            column("others", "OTHERS", Unit::Count).minor(),
            column("total_ns", "TIME", Unit::Nanoseconds).major().with_bar(),
        ];
        let columns = [&[PID, COMM], &usage[..]].concat();
        let mut processes = Table::new("processes", "Processes", &columns);
        for (process, own) in &self.processes {
            let mut row = vec![Value::Number(process.pid.into()), process_comm(system, *process)];
            row.extend(own.values());
            processes.row(row);
        }
        processes.sort_by("total_ns");
        processes.rows.truncate(limit);
        let descriptor = column("fd", "FD", Unit::Id).minor();
        let columns = [&[PID, COMM, descriptor, FILE, KIND], &usage[..]].concat();
        let mut files = Table::new("files", "Files of processes", &columns);
        for own in self.by_name(system) {
            let mut row = vec![
                Value::Number(own.process.pid.into()),
                process_comm(system, own.process),
                own.descriptor.into(),
                file(system, own.id),
                kind(system, own.id).text().into(),
            ];
            row.extend(own.usage.values());
            files.row(row);
        }
        files.sort_by("total_ns");
        files.rows.truncate(limit);
        Report {
            tables: vec![processes, files],
            notes: Vec::from_iter(super::torn_calls(system, &self.options.who)),
        }
    }
}

/// What a process did with a file.
struct OfFile {
    process: ProcessId,
    id: FileId,
    /// Absent when there were several.
    descriptor: Option<i32>,
    usage: Usage,
}

impl IoUsage {
    /// What a process has under one name is one file, whatever its descriptors; without a name, it is what the descriptor is.
    fn by_name(&self, system: &System) -> impl Iterator<Item = OfFile> {
        let mut merged = BTreeMap::new();
        let mut sorted: Vec<_> = self.files.iter().collect();
        sorted.sort_by_key(|(key, _)| **key);
        for ((process, id, descriptor), own) in sorted {
            let file = system.file(*id);
            let name = system.names.text(file.name);
            let apart = name.is_empty().then_some(*descriptor);
            let key = (*process, name, file.kind, apart);
            let known = merged.entry(key).or_insert(OfFile {
                process: *process,
                id: *id,
                descriptor: Some(*descriptor),
                usage: Usage::default(),
            });
            known.descriptor = known.descriptor.filter(|only| only == descriptor);
            known.usage.merge(own);
        }
        merged.into_values()
    }
}
