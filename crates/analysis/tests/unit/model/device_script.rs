// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces for tests, from one line for each event. All of it is on CPU 0, on the thread that the last `on` names.

use super::*;
use crate::facts::{
    Arguments, DeviceOperation, DumpedThread, FileOwner, Fork, Found, Interrupt, Left, Packet, Peer, RequestFact,
    RequestStep, Switch,
};

pub(crate) struct Run {
    pub(crate) system: System,
    ns: i64,
    current: i32,
}

impl Run {
    pub(crate) fn new() -> Run {
        Run::in_circumstances(Circumstances::whole(0))
    }

    pub(crate) fn in_circumstances(circumstances: Circumstances) -> Run {
        Run {
            system: System::new(circumstances),
            ns: 0,
            current: 0,
        }
    }

    /// Each event is ten nanoseconds behind the one before it.
    pub(crate) fn apply(&mut self, fact: &Fact<'_>, to: &mut dyn Listen) {
        self.ns += 10;
        let at = At {
            ns: self.ns,
            cpu: Some(0),
            tid: None,
        };
        self.system.apply(fact, at, to);
    }

    pub(crate) fn turn_to(&mut self, tid: i32, to: &mut dyn Listen) {
        self.apply(
            &Fact::Switch(Switch {
                previous_tid: self.current,
                previous_name: b"b",
                previous: Left::Preempted,
                next_tid: tid,
                next_name: b"b",
                next_priority: 20,
                previous_priority: None,
            }),
            to,
        );
        self.current = tid;
    }

    fn call(&mut self, name: &str, arguments: Arguments<'_>, result: i64, to: &mut dyn Listen) {
        self.call_that_finds(name, arguments, (result, Found::default()), to);
    }

    fn call_that_finds(
        &mut self,
        name: &str,
        arguments: Arguments<'_>,
        (result, found): (i64, Found<'_>),
        to: &mut dyn Listen,
    ) {
        let call = self.system.names.keep(name.as_bytes());
        self.apply(&Fact::CallEntry { call, arguments }, to);
        self.apply(
            &Fact::CallExit {
                call: Some(call),
                result,
                found,
            },
            to,
        );
    }

    /// Lines such as `open 3 /etc/passwd`.
    pub(crate) fn lines(mut self, lines: &str, to: &mut dyn Listen) -> Run {
        for line in lines.lines().map(str::trim) {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |place: usize| words[place].parse::<i64>().unwrap_or_else(|_| panic!("{line}"));
            let id = |place: usize| number(place) as i32;
            let on = |descriptor: i32| Arguments {
                descriptor: Some(descriptor),
                ..Arguments::default()
            };
            match words[0] {
                "on" => self.turn_to(id(1), to),
                "fork" | "thread" => {
                    let pid = if words[0] == "fork" { id(1) } else { self.current };
                    self.apply(
                        &Fact::Fork(Fork {
                            parent_tid: self.current,
                            parent_pid: None,
                            tid: id(1),
                            pid: Some(pid),
                            name: b"b",
                        }),
                        to,
                    );
                }
                "exec" => self.apply(
                    &Fact::Exec {
                        tid: self.current,
                        old_tid: self.current,
                        file: b"/bin/x",
                    },
                    to,
                ),
                "open" => {
                    let path = words.get(2).copied().unwrap_or("");
                    let is_closed = words.get(3) == Some(&"cloexec");
                    let arguments = Arguments {
                        flags: Some(if is_closed { 0o2_000_000 } else { 0 }),
                        path: path.as_bytes(),
                        ..Arguments::default()
                    };
                    self.call("openat", arguments, number(1), to);
                }
                // A path that is known only at the end.
                "open_late" => {
                    let path = words[2].as_bytes();
                    let found = Found { path, peer: None };
                    self.call_that_finds("openat", Arguments::default(), (number(1), found), to);
                }
                // In an open folder.
                "open_in" => {
                    let arguments = Arguments {
                        path: words[3].as_bytes(),
                        ..on(id(2))
                    };
                    self.call("openat", arguments, number(1), to);
                }
                "chdir" => {
                    let path = words[1].as_bytes();
                    let arguments = Arguments {
                        path,
                        ..Arguments::default()
                    };
                    self.call("chdir", arguments, 0, to);
                }
                "ioctl" => {
                    let flags = Some(number(2));
                    self.call("ioctl", Arguments { flags, ..on(id(1)) }, 0, to);
                }
                "fchdir" => self.call("fchdir", on(id(1)), 0, to),
                "chroot" => self.call("chroot", Arguments::default(), 0, to),
                "connect" => {
                    let v4 = address(words[2]);
                    let peer = Some(peer(words[2], &v4));
                    self.call("connect", Arguments { peer, ..on(id(1)) }, number(3), to);
                }
                "accept_from" => {
                    let v4 = address(words[3]);
                    let peer = Some(peer(words[3], &v4));
                    let found = Found { path: &[], peer };
                    self.call_that_finds("accept4", on(id(1)), (number(2), found), to);
                }
                "socket" => {
                    let arguments = Arguments {
                        value: Some(2),
                        flags: Some(1),
                        ..Arguments::default()
                    };
                    self.call("socket", arguments, number(1), to);
                }
                "sendfile" => {
                    let arguments = Arguments {
                        other: Some(id(1)),
                        ..on(id(2))
                    };
                    self.call("sendfile64", arguments, number(3), to);
                }
                "dup2" | "close_range" => {
                    let arguments = Arguments {
                        other: Some(id(2)),
                        flags: words.get(3).map(|_| number(3)),
                        ..on(id(1))
                    };
                    let result = if words[0] == "dup2" { number(2) } else { 0 };
                    self.call(words[0], arguments, result, to);
                }
                "fcntl" => {
                    let arguments = Arguments {
                        flags: Some(number(2)),
                        value: Some(number(3)),
                        ..on(id(1))
                    };
                    self.call("fcntl", arguments, number(4), to);
                }
                "dump" => self.apply(&Fact::DumpBegin, to),
                "process" => self.apply(
                    &Fact::DumpedThread(DumpedThread {
                        tid: id(1),
                        pid: id(1),
                        parent_pid: None,
                        name: b"b",
                        is_kernel: Some(false),
                        is_waiting: false,
                        uid: None,
                        namespace: None,
                        file_table: Some(number(2).cast_unsigned()),
                    }),
                    to,
                ),
                "dumped" => self.apply(
                    &Fact::DumpedFile {
                        owner: match words[1].strip_prefix("table") {
                            Some(table) => FileOwner::Table(table.parse().expect("a number")),
                            None => FileOwner::Process(id(1)),
                        },
                        descriptor: id(2),
                        flags: Some(0),
                        name: words[3].as_bytes(),
                    },
                    to,
                ),
                "dumpend" => self.apply(&Fact::DumpEnd, to),
                "insert" | "issue" | "complete" | "requeue" | "merge" => {
                    let step = match words[0] {
                        "insert" => RequestStep::Insert,
                        "issue" => RequestStep::Issue,
                        "requeue" => RequestStep::Requeue,
                        "merge" => RequestStep::Merge,
                        _ => RequestStep::Complete,
                    };
                    let operation = match words[1] {
                        "R" => DeviceOperation::Read,
                        "W" => DeviceOperation::Write,
                        _ => DeviceOperation::Flush,
                    };
                    let sectors = number(3) as u32;
                    let fact = RequestFact {
                        device: 8 << 20,
                        sector: number(2).cast_unsigned(),
                        sectors,
                        bytes: u64::from(sectors) * 512,
                        operation,
                        tid: None,
                        error: 0,
                    };
                    self.apply(&Fact::Request(step, fact), to);
                }
                "alloc" => self.apply(&Fact::PagesAllocated { order: id(1) as u32 }, to),
                "free" => self.apply(&Fact::PagesFreed { order: id(1) as u32 }, to),
                "fault" => self.apply(&Fact::PageFault { is_kernel: false }, to),
                "queued" | "sent" | "received" => {
                    let packet = Packet {
                        interface: words[1].as_bytes(),
                        bytes: id(2) as u32,
                    };
                    let fact = match words[0] {
                        "queued" => Fact::PacketQueued(packet),
                        "sent" => Fact::PacketSent(packet),
                        _ => Fact::PacketReceived(packet),
                    };
                    self.apply(&fact, to);
                }
                "irq" => self.apply(&Fact::Begin(Interrupt::Soft(id(1) as u32)), to),
                "irqend" => self.apply(&Fact::End(Interrupt::Soft(id(1) as u32)), to),
                "device" => self.apply(
                    &Fact::DumpedDevice {
                        device: 8 << 20,
                        name: b"sda",
                    },
                    to,
                ),
                // The same as below, in two lines.
                "enter" => {
                    let call = self.system.names.keep(words[1].as_bytes());
                    let arguments = on(id(2));
                    self.apply(&Fact::CallEntry { call, arguments }, to);
                }
                "leave" => {
                    let call = Some(self.system.names.keep(words[1].as_bytes()));
                    let (result, found) = (number(2), Found::default());
                    self.apply(&Fact::CallExit { call, result, found }, to);
                }
                // A call on one descriptor, and its answer.
                call => self.call(call, on(id(1)), number(2), to),
            }
        }
        let end_ns = self.ns + 10;
        self.system.finish(end_ns, to);
        self
    }
}

/// The bytes of `127.0.0.1:80`; none of a path.
fn address(text: &str) -> Vec<u64> {
    let address = text.split(':').next().unwrap_or("");
    address.split('.').filter_map(|byte| byte.parse().ok()).collect()
}

fn peer<'a>(text: &'a str, v4: &'a [u64]) -> Peer<'a> {
    let port = text.split_once(':').and_then(|(_, port)| port.parse().ok());
    Peer {
        port: port.unwrap_or(0),
        v4,
        v6: &[],
        path: if v4.is_empty() { text.as_bytes() } else { &[] },
    }
}
