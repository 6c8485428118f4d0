// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the values of an event's fields to what it says.

use super::classes::Kind;
use super::fact::{
    Arguments, DeviceOperation, DumpedThread, Fact, FileOwner, Fork, Futex, Interrupt, Left, Packet, RequestFact,
    RequestStep, Switch, Woken,
};
use super::values::Values;
use crate::names::{Name, Names};

/// Of clone(2): the new thread belongs to the process of the one that makes it.
const CLONE_THREAD: i64 = 0x1_0000;

/// `None` when a field is missing without which there is no fact.
#[inline]
pub(super) fn fact<'f>(kind: Kind, values: &'f Values, names: &mut Names) -> Option<Fact<'f>> {
    let number = |field: usize| values.number(field).map(|number| number as u32);
    Some(match kind {
        Kind::Other => return None,
        Kind::Switch => Fact::Switch(Switch {
            previous_tid: values.id(0)?,
            previous: left(values.number(1), values.number(2)),
            previous_name: values.text(3),
            next_tid: values.id(4)?,
            next_name: values.text(5),
            next_priority: values.id(6).unwrap_or(0),
            previous_priority: values.id(7),
        }),
        Kind::Waking | Kind::Wakeup => {
            let woken = Woken {
                tid: values.id(0)?,
                cpu: number(1),
            };
            if kind == Kind::Waking {
                Fact::Waking(woken)
            } else {
                Fact::Wakeup(woken)
            }
        }
        Kind::Migrate => Fact::Migrate {
            tid: values.id(0)?,
            cpu: number(1)?,
        },
        Kind::NewTask => Fact::NewTask {
            tid: values.id(0)?,
            is_thread: values.number(1)? & CLONE_THREAD != 0,
        },
        Kind::Fork => Fact::Fork(Fork {
            parent_tid: values.id(0)?,
            parent_pid: values.id(4),
            // The kernel's own name of the thread's id is `child_pid`, which then is no process's.
            tid: values.id(1).or(values.id(2))?,
            pid: values.id(1).and(values.id(2)),
            name: values.text(3),
        }),
        Kind::Exec => {
            let tid = values.id(0)?;
            Fact::Exec {
                tid,
                old_tid: values.id(1).unwrap_or(tid),
                file: values.text(2),
            }
        }
        Kind::Exit => Fact::Exit {
            tid: values.id(0)?,
            has_others: values.number(1) == Some(0),
        },
        Kind::Free => Fact::Free { tid: values.id(0)? },
        Kind::Rename => Fact::Rename {
            tid: values.id(0)?,
            name: values.text(1),
        },
        Kind::Priority => Fact::Priority {
            tid: values.id(0)?,
            priority: values.id(1)?,
        },
        Kind::FutexEntry(call) => Fact::CallEntry {
            call,
            arguments: Arguments {
                futex: values.number(0).map(|address| {
                    Futex::new(
                        names.text(call),
                        address.cast_unsigned(),
                        values.number(1),
                        values.number(2),
                    )
                }),
                ..Arguments::default()
            },
        },
        Kind::CallEntry(call) => Fact::CallEntry {
            call,
            arguments: Arguments {
                descriptor: values.id(0),
                other: values.id(1),
                flags: values.number(2),
                value: values.number(3),
                path: values.text(4),
                futex: None,
            },
        },
        Kind::CallExit(call) => Fact::CallExit {
            call,
            result: values.number(0).unwrap_or(0),
        },
        Kind::IrqEntry => Fact::Begin(Interrupt::Device(number(0)?, names.keep(values.text(1)))),
        Kind::IrqExit => Fact::End(Interrupt::Device(number(0)?, Name::default())),
        Kind::SoftirqEntry => Fact::Begin(Interrupt::Soft(number(0)?)),
        Kind::SoftirqExit => Fact::End(Interrupt::Soft(number(0)?)),
        Kind::SoftirqRaise => Fact::SoftirqRaise { vector: number(0)? },
        Kind::VectorEntry(name) => Fact::Begin(Interrupt::Vector(name)),
        Kind::VectorExit(name) => Fact::End(Interrupt::Vector(name)),
        Kind::TimerEntry => Fact::Begin(Interrupt::Timer),
        Kind::TimerExit => Fact::End(Interrupt::Timer),
        Kind::DumpedThread => Fact::DumpedThread(DumpedThread {
            tid: values.id(0)?,
            pid: values.id(1)?,
            parent_pid: values.id(2),
            name: values.text(3),
            is_kernel: values.number(4).map(|kind| kind == 1),
            is_waiting: values.number(5) == Some(5),
            uid: number(6),
            namespace: number(7).filter(|inode| *inode != 0),
            file_table: values.number(8).map(i64::cast_unsigned),
        }),
        Kind::DumpedProcess => Fact::DumpedProcess {
            pid: values.id(0)?,
            command_line: values.text(1),
            cgroup: values.text(2),
        },
        Kind::DumpBegin => Fact::DumpBegin,
        Kind::DumpEnd => Fact::DumpEnd,
        Kind::DumpedFile => Fact::DumpedFile {
            owner: match (values.id(0), values.number(4)) {
                (Some(pid), _) => FileOwner::Process(pid),
                (None, table) => FileOwner::Table(table?.cast_unsigned()),
            },
            descriptor: values.id(1)?,
            flags: values.number(2),
            name: values.text(3),
        },
        Kind::DumpedDevice => Fact::DumpedDevice {
            device: number(0)?,
            name: values.text(1),
        },
        Kind::RequestInsert => Fact::Request(RequestStep::Insert, request(values)?),
        Kind::RequestIssue => Fact::Request(RequestStep::Issue, request(values)?),
        Kind::RequestRequeue => Fact::Request(RequestStep::Requeue, request(values)?),
        Kind::RequestMerge => Fact::Request(RequestStep::Merge, request(values)?),
        Kind::RequestComplete => Fact::Request(RequestStep::Complete, request(values)?),
        Kind::PagesAllocated => Fact::PagesAllocated { order: number(0)? },
        Kind::PagesFreed => Fact::PagesFreed { order: number(0)? },
        Kind::PageFault => Fact::PageFault { is_kernel: false },
        Kind::KernelPageFault => Fact::PageFault { is_kernel: true },
        Kind::PacketQueued => Fact::PacketQueued(packet(values)?),
        // The device may have had no space for it: then it comes again.
        Kind::PacketSent if values.number(2).is_some_and(|result| result != 0) => return None,
        Kind::PacketSent => Fact::PacketSent(packet(values)?),
        Kind::PacketReceived => Fact::PacketReceived(packet(values)?),
        of_program => Fact::Program(super::programs::fact(of_program, values)?),
    })
}

fn packet(values: &Values) -> Option<Packet<'_>> {
    Some(Packet {
        interface: values.text(0),
        bytes: values.number(1)? as u32,
    })
}

/// A sector is 512 bytes, whatever the device's blocks are.
const SECTOR_BYTES: u64 = 512;

fn request(values: &Values) -> Option<RequestFact> {
    let sectors = values.number(2)? as u32;
    let operation = match values.number(4) {
        Some(flags) => operation(flags),
        None => operation_in_letters(values.text(4)),
    };
    Some(RequestFact {
        device: values.number(0)? as u32,
        sector: values.number(1)?.cast_unsigned(),
        sectors,
        // What is no read or write of sectors may have bytes all the same; and some tracers know sectors only, and say 0 bytes.
        bytes: match values.number(3) {
            None | Some(0) => u64::from(sectors) * SECTOR_BYTES,
            Some(bytes) => bytes.cast_unsigned(),
        },
        operation,
        tid: values.id(5),
        error: values.id(6).unwrap_or(0),
    })
}

/// `rwbs` as viewers of kernel traces know it, a bit for each letter.
fn operation(flags: i64) -> DeviceOperation {
    match flags {
        flags if flags & (0x02 | 0x80) != 0 => DeviceOperation::Discard,
        flags if flags & 0x01 != 0 => DeviceOperation::Write,
        flags if flags & 0x04 != 0 => DeviceOperation::Read,
        flags if flags & 0x100 != 0 => DeviceOperation::Flush,
        _ => DeviceOperation::Other,
    }
}

/// `rwbs` as the kernel writes it. An `F` before the operation asks for a flush ahead of it.
fn operation_in_letters(letters: &[u8]) -> DeviceOperation {
    let operation = match letters {
        [b'F', operation @ (b'R' | b'W' | b'D' | b'F' | b'N'), ..] => *operation,
        [operation, ..] => *operation,
        [] => 0,
    };
    match operation {
        b'R' => DeviceOperation::Read,
        b'W' => DeviceOperation::Write,
        b'D' => DeviceOperation::Discard,
        b'F' => DeviceOperation::Flush,
        _ => DeviceOperation::Other,
    }
}

/// From `prev_state`, and from the kernel's own number where the tracer gives it beside.
fn left(state: Option<i64>, raw: Option<i64>) -> Left {
    match raw.or(state) {
        None | Some(0) => Left::Runnable,
        Some(state) if state & 1 != 0 => Left::Waiting,
        Some(state) if state & 2 != 0 => Left::WaitingForSure,
        Some(state) if state & (4 | 8) != 0 => Left::Stopped,
        Some(state) if state & (0x10 | 0x20) != 0 => Left::Dead,
        Some(0x40) => Left::DeadOrParked,
        // Idle, or parked as it was before.
        Some(state) if state & (0x40 | 0x80 | 0x200) != 0 => Left::Waiting,
        // 0x100 from Linux 4.14 on; before, one of the bits above it.
        Some(_) => Left::Preempted,
    }
}

#[cfg(test)]
mod tests {
    use super::super::fact::FutexOperation;
    use super::super::values::{Fields, Order, Take};
    use super::*;

    #[test]
    fn operations_of_devices_are_understood_as_bits_and_as_letters() {
        use DeviceOperation::{Discard, Flush, Other, Read, Write};
        for (flags, letters, expected) in [
            (0x24, "RS", Read),
            (0x21, "WS", Write),
            (0x61, "WSM", Write),
            (0x421, "FWS", Write),
            (0x500, "FF", Flush),
            (0x100, "F", Flush),
            (0x02, "D", Discard),
            (0x82, "DE", Discard),
            (0, "N", Other),
        ] {
            assert_eq!(operation(flags), expected, "{letters}");
            assert_eq!(operation_in_letters(letters.as_bytes()), expected, "{letters}");
        }
    }

    #[test]
    fn a_request_has_as_many_bytes_as_its_sectors_where_none_are_said() {
        let names = ["dev", "sector", "nr_sector", "bytes"];
        let order = Order::new(&names.map(str::to_owned), &names);
        for (sectors, bytes, expected) in [(8, 0, 4096), (8, 4096, 4096), (0, 24, 24), (0, 0, 0)] {
            let mut values = Values::default();
            let mut take = Take::new(&order, &mut values).to;
            for number in [1, 64, sectors, bytes] {
                take.field("");
                take.integer(number);
            }
            let request = request(&values).expect("it has all that it needs");
            assert_eq!(request.bytes, expected, "{sectors} sectors, {bytes} bytes");
        }
    }

    #[test]
    fn locks_are_told_from_what_else_is_made_of_futexes() {
        for (operation, value, expected) in [
            (0x86, 0, Some(true)),
            (0x8d, 0, Some(true)),
            (0x8b, 7, Some(false)),
            // Of libraries: a mutex, one that knows its owner, a semaphore, a condition variable that has counted to 6.
            (0x80, 2, None),
            (0x80, 0x8000_0123, None),
            (0x189, 0, Some(false)),
            (0x189, 6, Some(false)),
        ] {
            let futex = Futex::new("futex", 64, Some(operation), Some(value));
            assert_eq!(futex.is_lock, expected, "{operation:#x} {value:#x}");
        }
        assert_eq!(Futex::new("futex", 64, Some(0), None).is_lock, None);
    }

    #[test]
    fn futexes_are_waited_for_or_woken() {
        for (call, operation, expected) in [
            ("futex", Some(0x80), FutexOperation::Wait),
            ("futex", Some(0x189), FutexOperation::Wait),
            ("futex", Some(6), FutexOperation::Wait),
            ("futex", Some(0x81), FutexOperation::Wake),
            ("futex", Some(7), FutexOperation::Wake),
            ("futex", Some(8), FutexOperation::Other),
            ("futex", None, FutexOperation::Other),
            ("futex_wait", None, FutexOperation::Wait),
            ("futex_wake", None, FutexOperation::Wake),
        ] {
            assert_eq!(FutexOperation::new(call, operation), expected, "{call} {operation:?}");
        }
    }

    #[test]
    fn states_of_every_kernel_are_understood() {
        for (state, raw, expected) in [
            (Some(0), Some(0), Left::Runnable),
            (Some(0), Some(0x100), Left::Preempted),
            (Some(0x100), None, Left::Preempted),
            (Some(1), Some(1), Left::Waiting),
            (Some(2), Some(2), Left::WaitingForSure),
            (Some(2), Some(0x80), Left::Waiting),
            (Some(64), Some(0x10), Left::Dead),
            (Some(0x20), None, Left::Dead),
            (Some(4), Some(4), Left::Stopped),
            (Some(8), None, Left::Stopped),
            (Some(64), None, Left::DeadOrParked),
            (Some(512), Some(0x40), Left::DeadOrParked),
            (Some(1024), None, Left::Preempted),
            (None, None, Left::Runnable),
        ] {
            assert_eq!(left(state, raw), expected, "{state:?} {raw:?}");
        }
    }
}
