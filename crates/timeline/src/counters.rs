// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers that change: lanes of frequencies of CPUs, and of the bytes that go through network interfaces and to and from devices.

use std::io::Write;

use piste_analysis::facts::DeviceOperation;
use piste_analysis::model::{Happening, Occurrence, Request, System};
use piste_analysis::names::Name;
use rustc_hash::FxHashMap;

use crate::lane::{Counter, LaneId, Subject};
use crate::piece::{Class, Piece};
use crate::programs::{LOSSES_MAX, merged, piece};
use crate::recorder::Recorder;

#[derive(Default)]
pub(crate) struct Counters {
    /// By CPU.
    frequencies: FxHashMap<u32, Frequency>,
    amounts: FxHashMap<Amount, LaneId>,
}

/// A CPU's frequency, until it gets another one.
#[derive(Clone, Copy)]
struct Frequency {
    lane: LaneId,
    since_ns: i64,
    khz: u32,
    /// The CPU whose event it was.
    told_by: u32,
}

/// Of what bytes are counted.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Amount {
    Received(Name),
    Queued(Name),
    Sent(Name),
    Read(u32),
    Written(u32),
}

impl<W: Write> Recorder<W> {
    pub(crate) fn count(&mut self, system: &System, occurrence: &Occurrence) {
        let (amount, bytes) = match occurrence.what {
            Happening::Frequency { cpu, khz } => return self.frequency(system, cpu, khz, occurrence),
            Happening::PacketReceived { interface, bytes } => (Amount::Received(interface), bytes),
            Happening::PacketQueued { interface, bytes } => (Amount::Queued(interface), bytes),
            Happening::PacketSent { interface, bytes } => (Amount::Sent(interface), bytes),
            _ => return,
        };
        let thread = occurrence.thread.filter(|id| system.thread(*id).tid != 0);
        let by = match occurrence.interrupt {
            Some(interrupt) => self.label_of_interrupt(system, interrupt),
            None => thread.map_or(0, |id| self.label_of_thread(system, id)),
        };
        self.amount(system, amount, bytes, by, occurrence.ns);
    }

    /// A device has done what it was asked for.
    pub(crate) fn count_request(&mut self, system: &System, request: &Request, completed_ns: i64) {
        let amount = match request.operation {
            DeviceOperation::Read => Amount::Read(request.device),
            DeviceOperation::Write => Amount::Written(request.device),
            _ => return,
        };
        if request.error != 0 {
            return;
        }
        let by = request.thread.map_or(0, |id| self.label_of_thread(system, id));
        self.amount(system, amount, request.bytes, by, completed_ns);
    }

    fn amount(&mut self, system: &System, amount: Amount, bytes: u64, by: u32, ns: i64) {
        let lane = match self.counters.amounts.get(&amount) {
            Some(lane) => *lane,
            None => {
                let named = |name: Name| system.names.text(name).to_owned();
                let counter = match amount {
                    Amount::Received(interface) => Counter::Received(named(interface)),
                    Amount::Queued(interface) => Counter::Queued(named(interface)),
                    Amount::Sent(interface) => Counter::Sent(named(interface)),
                    Amount::Read(device) => Counter::Read(self.device_lane(system, device)),
                    Amount::Written(device) => Counter::Written(self.device_lane(system, device)),
                };
                let lane = self.named_lane(Subject::Counter(counter));
                self.counters.amounts.insert(amount, lane);
                lane
            }
        };
        let piece = Piece {
            by,
            value: bytes,
            ..piece(Class::Value, 0, (ns, ns))
        };
        self.put(lane, &piece);
    }

    fn frequency(&mut self, system: &System, cpu: u32, khz: u32, occurrence: &Occurrence) {
        let before = self.counters.frequencies.get(&cpu).copied();
        let lane = match before {
            Some(before) => {
                self.put_frequency(system, cpu, before, occurrence.ns);
                before.lane
            }
            None => self.named_lane(Subject::Counter(Counter::Frequency(cpu))),
        };
        let now = Frequency {
            lane,
            since_ns: occurrence.ns,
            khz,
            told_by: occurrence.cpu,
        };
        self.counters.frequencies.insert(cpu, now);
    }

    /// It is known up to the first gap in the events of the CPUs that would tell of another one.
    fn put_frequency(&mut self, system: &System, cpu: u32, frequency: Frequency, end_ns: i64) {
        let Frequency {
            lane, since_ns, khz, ..
        } = frequency;
        let gaps = &system.circumstances().gaps;
        let blind = [cpu, frequency.told_by].map(|cpu| gaps.within(since_ns, end_ns, Some(cpu)));
        let known = blind.into_iter().flatten().map(|(blind_ns, _)| blind_ns).min();
        let known_ns = known.unwrap_or(end_ns);
        if since_ns < known_ns {
            let piece = Piece {
                value: khz.into(),
                ..piece(Class::Value, 0, (since_ns, known_ns))
            };
            self.put(lane, &piece);
        }
        if known_ns < end_ns {
            self.put(lane, &piece(Class::Unknown, 0, (known_ns, end_ns)));
        }
    }

    /// The last frequencies, up to the end of the trace; and on lanes of amounts, where events may be missing.
    pub(crate) fn end_counters(&mut self, system: &System, (begin_ns, end_ns): (i64, i64)) {
        for (cpu, frequency) in std::mem::take(&mut self.counters.frequencies) {
            self.put_frequency(system, cpu, frequency, end_ns.max(frequency.since_ns));
        }
        let lanes: Vec<LaneId> = self.counters.amounts.values().copied().collect();
        let gaps = system.circumstances().gaps.all().iter();
        let parts = gaps.map(|gap| (gap.begin_ns.max(begin_ns), gap.end_ns.min(end_ns)));
        // A CPU that has no events at all says nothing about any part of the trace.
        let parts = parts.filter(|part| part.0 < part.1 && *part != (begin_ns, end_ns));
        let parts = merged(parts, (LOSSES_MAX / lanes.len().max(1)).max(1));
        for lane in lanes {
            for part in &parts {
                self.put(lane, &piece(Class::Unknown, 0, *part));
            }
        }
    }
}
