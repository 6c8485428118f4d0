// SPDX-License-Identifier: MIT OR Apache-2.0
//! What went over the network: packets of each interface, and what each process sent to and received from sockets.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::io::{kind, wants_call};
use super::{COMM, LIMIT, PID, process_comm};
use crate::analysis::{Analysis, Description, Need, Options};
use crate::model::{FileCall, FileId, FileKind, Happening, Listen, Occurrence, ProcessId, System};
use crate::names::Name;
use crate::report::{Report, Table, Unit, Value, column};

const PACKETS: &[&str] = &[
    "net_dev_xmit",
    "net_dev_queue",
    "net_if_receive_skb",
    "netif_receive_skb",
];

pub(super) static NETTOP: Description = Description {
    name: "nettop",
    about: "packets and bytes received and sent, by interface and, as far as socket calls show them, by process",
    tables: &["interfaces", "processes"],
    needs: &[
        Need {
            any_of: &[
                "net_dev_xmit",
                "net_dev_queue",
                "net_if_receive_skb",
                "netif_receive_skb",
                "syscall_entry_*",
                "sys_*",
                "compat_syscall_entry_*",
            ],
            what: "packets or system calls on sockets",
            option: "-a --preset net,io",
            is_essential: true,
        },
        Need {
            any_of: PACKETS,
            what: "packets, if there were any",
            option: "-a --preset net",
            is_essential: false,
        },
        Need {
            any_of: &["syscall_entry_*", "sys_*", "compat_syscall_entry_*"],
            what: "what programs sent and received",
            option: "--preset net,io",
            is_essential: false,
        },
        Need {
            what: "interrupts (packets that they send are counted with the threads that they interrupt)",
            ..super::INTERRUPTS
        },
    ],
    begin: |options| {
        Box::new(NetTop {
            options: options.clone(),
            interfaces: FxHashMap::default(),
            calls: FxHashMap::default(),
            packets: FxHashMap::default(),
            tells_sent: false,
        })
    },
};

struct NetTop {
    options: Options,
    interfaces: FxHashMap<Name, OfInterface>,
    /// By process and file: whether it is a socket may be found out later.
    calls: FxHashMap<(ProcessId, FileId), Traffic>,
    /// Packets that a process put into a queue, or handed to a device, itself.
    packets: FxHashMap<ProcessId, Outgoing>,
    /// The trace tells what devices were given.
    tells_sent: bool,
}

/// Numbers and bytes of packets, on the way out.
#[derive(Clone, Copy, Default)]
struct Outgoing {
    /// Put into the queue of a device: before they are cut into what it can send.
    queued: (u64, u64),
    /// Handed to the device.
    sent: (u64, u64),
}

/// Packets of an interface.
#[derive(Clone, Copy, Default)]
struct OfInterface {
    received: (u64, u64),
    outgoing: Outgoing,
}

/// Calls and bytes, in and out.
#[derive(Clone, Copy, Default)]
struct Traffic {
    received: (u64, u64),
    sent: (u64, u64),
}

fn add((count, bytes): &mut (u64, u64), more: (u64, u64)) {
    *count += more.0;
    *bytes += more.1;
}

impl Outgoing {
    fn add(&mut self, is_sent: bool, bytes: u64) {
        add(if is_sent { &mut self.sent } else { &mut self.queued }, (1, bytes));
    }
}

impl Listen for NetTop {
    fn occurrence(&mut self, system: &System, occurrence: &Occurrence) {
        let (Happening::PacketQueued { interface, bytes }
        | Happening::PacketSent { interface, bytes }
        | Happening::PacketReceived { interface, bytes }) = occurrence.what
        else {
            return;
        };
        let is_received = matches!(occurrence.what, Happening::PacketReceived { .. });
        let is_sent = matches!(occurrence.what, Happening::PacketSent { .. });
        self.tells_sent |= is_sent;
        let who = &self.options.who;
        if !who.wants_cpu(occurrence.cpu) {
            return;
        }
        // What comes, comes in an interrupt, on whatever thread.
        let sender = occurrence
            .thread
            .filter(|_| !is_received && occurrence.interrupt.is_none());
        let is_meant = match sender {
            Some(thread) => who.wants(system, thread),
            None => who.wants_everybody(),
        };
        if !is_meant {
            return;
        }
        let own = self.interfaces.entry(interface).or_default();
        if is_received {
            add(&mut own.received, (1, bytes));
        } else {
            own.outgoing.add(is_sent, bytes);
        }
        if let Some(thread) = sender.filter(|thread| system.thread(*thread).tid != 0) {
            let process = system.thread(thread).process();
            self.packets.entry(process).or_default().add(is_sent, bytes);
        }
    }

    fn file_call(&mut self, system: &System, call: &FileCall) {
        if call.call.result < 0 || !wants_call(&self.options, system, call) {
            return;
        }
        let is_socket = |id: FileId| matches!(kind(system, id), FileKind::Socket | FileKind::Unknown);
        let process = system.thread(call.call.thread).process();
        if let Some(source) = call.source.filter(|opened| is_socket(opened.file)) {
            let own = self.calls.entry((process, source.file)).or_default();
            add(&mut own.received, (1, call.read_bytes()));
        }
        // Opening and syncing are no traffic.
        let is_written = |_: &crate::model::Opened| call.written_bytes() > 0;
        if let Some(target) = call.target.filter(is_written).filter(|opened| is_socket(opened.file)) {
            let own = self.calls.entry((process, target.file)).or_default();
            add(&mut own.sent, (1, call.written_bytes()));
        }
    }
}

impl Analysis for NetTop {
    fn report(&mut self, system: &System) -> Report {
        let limit = self.options.limit.unwrap_or(LIMIT);
        let is_queued = |own: &OfInterface| own.outgoing.queued.0 > 0;
        let is_uncut = !self.tells_sent && self.interfaces.values().any(is_queued);
        let note = "outgoing packets are counted as they were queued (net_dev_queue), before they were split into sizes that the device can send; \
                    `piste record -a --preset net` records the packets that were sent (net_dev_xmit)";
        Report {
            tables: vec![self.of_interfaces(system, limit), self.of_processes(system, limit)],
            notes: Vec::from_iter(is_uncut.then(|| note.to_owned())),
        }
    }
}

impl NetTop {
    fn of_interfaces(&self, system: &System, limit: usize) -> Table {
        let columns = [
            column("interface", "INTERFACE", Unit::Text).major(),
            column("received_bytes", "RECEIVED", Unit::Bytes).with_bar(),
            column("received_packets", "PACKETS IN", Unit::Count),
            column("sent_bytes", "SENT", Unit::Bytes).with_bar(),
            column("sent_packets", "PACKETS OUT", Unit::Count),
        ];
        let mut table = Table::new("interfaces", "Packets of interfaces", &columns);
        let sent = |own: &OfInterface| match self.tells_sent {
            true => own.outgoing.sent,
            false => own.outgoing.queued,
        };
        let mut interfaces: Vec<_> = self.interfaces.iter().collect();
        interfaces.sort_by_key(|(name, own)| (std::cmp::Reverse(own.received.1 + sent(own).1), **name));
        for (name, own) in interfaces.into_iter().take(limit) {
            table.row([
                system.names.text(*name).into(),
                own.received.1.into(),
                own.received.0.into(),
                sent(own).1.into(),
                sent(own).0.into(),
            ]);
        }
        table
    }

    fn of_processes(&self, system: &System, limit: usize) -> Table {
        let columns = [
            PID,
            COMM,
            column("received_bytes", "RECEIVED", Unit::Bytes).with_bar(),
            column("received_calls", "RECEIVING CALLS", Unit::Count).minor(),
            column("sent_bytes", "SENT", Unit::Bytes).with_bar(),
            column("sent_calls", "SENDING CALLS", Unit::Count).minor(),
            column("packets", "PACKETS QUEUED", Unit::Count).minor(),
            column("packet_bytes", "PACKET BYTES", Unit::Bytes).minor(),
        ];
        let mut table = Table::new("processes", "Processes, by sockets", &columns);
        let mut by_process: BTreeMap<ProcessId, (Traffic, (u64, u64))> = BTreeMap::new();
        for ((process, id), traffic) in &self.calls {
            if kind(system, *id) == FileKind::Socket {
                let (own, _) = by_process.entry(*process).or_default();
                add(&mut own.received, traffic.received);
                add(&mut own.sent, traffic.sent);
            }
        }
        for (process, packets) in &self.packets {
            // Who puts a packet into a queue sends it; who hands it on may do so for others.
            by_process.entry(*process).or_default().1 = match packets.queued {
                (0, _) => packets.sent,
                queued => queued,
            };
        }
        let mut processes: Vec<_> = by_process.into_iter().collect();
        processes.sort_by_key(|(_, (own, packets))| std::cmp::Reverse(own.received.1 + own.sent.1 + packets.1));
        for (process, (own, packets)) in processes.into_iter().take(limit) {
            table.row([
                Value::Number(process.pid.into()),
                process_comm(system, process),
                own.received.1.into(),
                own.received.0.into(),
                own.sent.1.into(),
                own.sent.0.into(),
                packets.0.into(),
                packets.1.into(),
            ]);
        }
        table
    }
}
