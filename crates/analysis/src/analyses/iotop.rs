// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who read and wrote most: processes, files, devices.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::io::{DEVICE, FILE, KIND, READ, WRITTEN, kind, unfinished, wants_call, wants_request};
use super::{COMM, LIMIT, PID, process_comm};
use crate::analysis::{Analysis, Description, Options};
use crate::facts::DeviceOperation;
use crate::model::{FileCall, FileId, FileKind, Listen, ProcessId, Request, System, ThreadId};
use crate::report::{Report, Table, Unit, Value, column};

pub(super) static IOTOP: Description = Description {
    name: "iotop",
    about: "which processes (in system calls and at devices), files and devices had the most bytes read and written",
    tables: &["processes", "files", "devices"],
    needs: super::io::NEEDS,
    begin: |options| {
        Box::new(IoTop {
            options: options.clone(),
            processes: FxHashMap::default(),
            files: FxHashMap::default(),
            devices: BTreeMap::new(),
            unfinished: 0,
        })
    },
};

struct IoTop {
    options: Options,
    processes: FxHashMap<ProcessId, OfProcess>,
    /// By file and process: those without a name are told apart by whose they are.
    files: FxHashMap<(FileId, ProcessId), Bytes>,
    devices: BTreeMap<u32, OfDevice>,
    unfinished: u64,
}

/// Read and written.
#[derive(Clone, Copy, Default)]
struct Bytes {
    read: u64,
    written: u64,
}

#[derive(Default)]
struct OfProcess {
    by_calls: Bytes,
    at_devices: Bytes,
}

#[derive(Default)]
struct OfDevice {
    bytes: Bytes,
    reads: u64,
    writes: u64,
    others: u64,
    failed: u64,
}

impl IoTop {
    fn process(&mut self, system: &System, thread: ThreadId) -> &mut OfProcess {
        let process = system.thread(thread).process();
        self.processes.entry(process).or_default()
    }
}

impl Listen for IoTop {
    fn file_call(&mut self, system: &System, call: &FileCall) {
        let bytes = Bytes {
            read: call.read_bytes(),
            written: call.written_bytes(),
        };
        if bytes.read + bytes.written == 0 || !wants_call(&self.options, system, call) {
            return;
        }
        let own = self.process(system, call.call.thread);
        own.by_calls.read += bytes.read;
        own.by_calls.written += bytes.written;
        let process = system.thread(call.call.thread).process();
        if let Some(source) = call.source {
            self.files.entry((source.file, process)).or_default().read += bytes.read;
        }
        if let Some(target) = call.target {
            self.files.entry((target.file, process)).or_default().written += bytes.written;
        }
    }

    fn request(&mut self, system: &System, request: &Request) {
        if !wants_request(&self.options, system, request) {
            return;
        }
        self.unfinished += u64::from(request.completed_ns.is_none());
        let bytes = match request.operation {
            DeviceOperation::Read => Bytes {
                read: request.bytes,
                written: 0,
            },
            DeviceOperation::Write => Bytes {
                read: 0,
                written: request.bytes,
            },
            _ => Bytes::default(),
        };
        if let Some(thread) = request.thread {
            let own = self.process(system, thread);
            own.at_devices.read += bytes.read;
            own.at_devices.written += bytes.written;
        }
        let own = self.devices.entry(request.device).or_default();
        own.bytes.read += bytes.read;
        own.bytes.written += bytes.written;
        *match request.operation {
            DeviceOperation::Read => &mut own.reads,
            DeviceOperation::Write => &mut own.writes,
            _ => &mut own.others,
        } += 1;
        own.failed += u64::from(request.error != 0);
    }
}

impl Analysis for IoTop {
    fn report(&mut self, system: &System) -> Report {
        let mut devices = self.of_devices(system);
        devices.notes.extend(unfinished(self.unfinished));
        Report {
            tables: vec![self.of_processes(system), self.of_files(system), devices],
            notes: Vec::from_iter(super::torn_calls(system, &self.options.who)),
        }
    }
}

impl IoTop {
    fn limit(&self) -> usize {
        self.options.limit.unwrap_or(LIMIT)
    }

    fn of_processes(&self, system: &System) -> Table {
        let columns = [
            PID,
            COMM,
            READ.with_bar(),
            WRITTEN.with_bar(),
            column("device_read_bytes", "FROM DEVICES", Unit::Bytes),
            column("device_written_bytes", "TO DEVICES", Unit::Bytes),
        ];
        let mut table = Table::new("processes", "Processes", &columns);
        let mut processes: Vec<(&ProcessId, &OfProcess)> = self.processes.iter().collect();
        let sum = |own: &OfProcess| {
            let (calls, devices) = (own.by_calls, own.at_devices);
            calls.read + calls.written + devices.read + devices.written
        };
        processes.sort_by_key(|(process, own)| (std::cmp::Reverse(sum(own)), **process));
        for (process, own) in processes.into_iter().take(self.limit()) {
            table.row([
                Value::Number(process.pid.into()),
                process_comm(system, *process),
                own.by_calls.read.into(),
                own.by_calls.written.into(),
                own.at_devices.read.into(),
                own.at_devices.written.into(),
            ]);
        }
        table
    }

    fn of_files(&self, system: &System) -> Table {
        let processes = column("processes", "PROCESSES", Unit::Count).minor();
        let columns = [FILE, KIND, READ.with_bar(), WRITTEN.with_bar(), processes];
        let mut table = Table::new("files", "Files", &columns);
        // Names may have been found out after the file was used: the same may be there twice.
        let mut by_name: BTreeMap<(&str, FileKind), (Bytes, u64)> = BTreeMap::new();
        for ((id, _), bytes) in &self.files {
            let name = system.names.text(system.file(*id).name);
            let (sum, processes) = by_name.entry((name, kind(system, *id))).or_default();
            sum.read += bytes.read;
            sum.written += bytes.written;
            *processes += 1;
        }
        let mut files: Vec<_> = by_name.into_iter().collect();
        files.sort_by_key(|(_, (bytes, _))| std::cmp::Reverse(bytes.read + bytes.written));
        for ((name, kind), (bytes, processes)) in files.into_iter().take(self.limit()) {
            let name = if name.is_empty() { Value::None } else { name.into() };
            table.row([
                name,
                kind.text().into(),
                bytes.read.into(),
                bytes.written.into(),
                processes.into(),
            ]);
        }
        table
    }

    fn of_devices(&self, system: &System) -> Table {
        let columns = [
            DEVICE.major(),
            READ.with_bar(),
            WRITTEN.with_bar(),
            column("reads", "READS", Unit::Count),
            column("writes", "WRITES", Unit::Count),
            column("others", "OTHERS", Unit::Count).minor(),
            column("failed", "FAILED", Unit::Count),
        ];
        let mut table = Table::new("devices", "Devices", &columns);
        let mut devices: Vec<_> = self.devices.iter().collect();
        devices.sort_by_key(|(_, own)| std::cmp::Reverse(own.bytes.read + own.bytes.written));
        for (device, own) in devices.into_iter().take(self.limit()) {
            table.row([
                system.device_name(*device).into(),
                own.bytes.read.into(),
                own.bytes.written.into(),
                own.reads.into(),
                own.writes.into(),
                own.others.into(),
                own.failed.into(),
            ]);
        }
        table
    }
}
