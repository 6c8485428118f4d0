// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long input and output took: by kind of call and by device; how many how long.

use std::collections::BTreeMap;

use super::io::{DEVICE, OPERATION, unfinished, wants_call, wants_request};
use super::{COUNT, FROM, MAX, MEAN, MEDIAN, MIN, P99, TOTAL, UNTIL};
use crate::analysis::{Analysis, Description, Options};
use crate::facts::DeviceOperation;
use crate::measure::{Distribution, Times};
use crate::model::{FileCall, FileOperation, Listen, Request, System};
use crate::report::{Column, Report, Table, Unit, Value, column};

pub(super) static STATS: Description = Description {
    name: "iolatencystats",
    about: "how long open, read, write and sync calls and requests to devices took",
    tables: &["calls", "devices"],
    needs: super::io::NEEDS,
    begin: |options| Box::new(Latency::new(options, statistics)),
};

pub(super) static FREQUENCIES: Description = Description {
    name: "iolatencyfreq",
    about: "the distribution of open, read, write and sync calls, and of requests to devices, by duration",
    tables: &["calls", "devices"],
    needs: super::io::NEEDS,
    begin: |options| Box::new(Latency::new(options, frequencies)),
};

struct Latency {
    options: Options,
    calls: BTreeMap<FileOperation, OfCalls>,
    devices: BTreeMap<(u32, DeviceOperation), OfDevice>,
    unfinished: u64,
    tables: fn(&Latency, &System) -> Vec<Table>,
}

#[derive(Default)]
struct OfCalls {
    times: Distribution,
    failed: u64,
}

#[derive(Default)]
struct OfDevice {
    times: Distribution,
    queue: Times,
    failed: u64,
    bytes: u64,
}

impl Latency {
    fn new(options: &Options, tables: fn(&Latency, &System) -> Vec<Table>) -> Latency {
        Latency {
            options: options.clone(),
            calls: BTreeMap::new(),
            devices: BTreeMap::new(),
            unfinished: 0,
            tables,
        }
    }
}

impl Listen for Latency {
    fn file_call(&mut self, system: &System, call: &FileCall) {
        if wants_call(&self.options, system, call) {
            let own = self.calls.entry(call.operation).or_default();
            own.times.add(call.call.end_ns - call.call.begin_ns);
            own.failed += u64::from(call.call.result < 0);
        }
    }

    fn request(&mut self, system: &System, request: &Request) {
        if !wants_request(&self.options, system, request) {
            return;
        }
        let Some(ns) = request.device_ns() else {
            self.unfinished += 1;
            return;
        };
        let own = self.devices.entry((request.device, request.operation)).or_default();
        own.times.add(ns);
        own.failed += u64::from(request.error != 0);
        own.bytes += request.bytes;
        if let Some(ns) = request.queue_ns() {
            own.queue.add(ns);
        }
    }
}

impl Analysis for Latency {
    fn report(&mut self, system: &System) -> Report {
        Report {
            tables: (self.tables)(self, system),
            notes: Vec::from_iter(super::torn_calls(system, &self.options.who)),
        }
    }
}

const P95: Column = column("p95_ns", "P95", Unit::Nanoseconds).minor();
const FAILED: Column = column("failed", "FAILED", Unit::Count);

/// Number, sum, least, mean, percentiles, most.
const TIMES: [Column; 9] = [COUNT, FAILED, TOTAL, MIN, MEAN, MEDIAN, P95, P99, MAX.with_bar()];

fn times(times: &Distribution, failed: u64) -> [Value; 9] {
    let [count, total, min, mean, max] = times.times.values();
    let at = |percent: f64| times.percentile(percent);
    [
        count,
        failed.into(),
        total,
        min,
        mean,
        at(50.0),
        at(95.0),
        at(99.0),
        max,
    ]
}

fn statistics(latency: &Latency, system: &System) -> Vec<Table> {
    let columns = [&[OPERATION], &TIMES[..]].concat();
    let mut calls = Table::new("calls", "System calls", &columns);
    for (operation, own) in &latency.calls {
        let mut row = vec![operation.text().into()];
        row.extend(times(&own.times, own.failed));
        calls.row(row);
    }
    let others = [
        column("queue_mean_ns", "MEAN QUEUE", Unit::Nanoseconds).minor(),
        column("queue_max_ns", "MAX QUEUE", Unit::Nanoseconds).minor(),
        column("bytes", "BYTES", Unit::Bytes),
    ];
    let columns = [&[DEVICE, OPERATION], &TIMES[..], &others[..]].concat();
    let mut devices = Table::new("devices", "Requests to devices", &columns);
    for ((device, operation), own) in &latency.devices {
        let mut row = vec![system.device_name(*device).into(), operation.text().into()];
        row.extend(times(&own.times, own.failed));
        row.extend(match own.queue.count {
            0 => [Value::None, Value::None],
            _ => [Value::Number(own.queue.mean_ns()), Value::Number(own.queue.max_ns)],
        });
        row.push(own.bytes.into());
        devices.row(row);
    }
    devices.notes.extend(unfinished(latency.unfinished));
    vec![calls, devices]
}

fn frequencies(latency: &Latency, system: &System) -> Vec<Table> {
    let columns = [OPERATION, FROM, UNTIL, COUNT.with_bar()];
    let mut calls = Table::new("calls", "System calls by duration", &columns);
    for (operation, own) in &latency.calls {
        for (from, until, count) in own.times.octaves() {
            let operation = operation.text().into();
            calls.row([operation, Value::Number(from), Value::Number(until), count.into()]);
        }
    }
    let columns = [DEVICE, OPERATION, FROM, UNTIL, COUNT.with_bar()];
    let mut devices = Table::new("devices", "Requests to devices by duration", &columns);
    for ((device, operation), own) in &latency.devices {
        for (from, until, count) in own.times.octaves() {
            devices.row([
                system.device_name(*device).into(),
                operation.text().into(),
                Value::Number(from),
                Value::Number(until),
                count.into(),
            ]);
        }
    }
    devices.notes.extend(unfinished(latency.unfinished));
    vec![calls, devices]
}
