// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests to block devices, packets, pages of memory, and frequencies of CPUs.

use super::{Class, class};
use crate::facts::fact::{DeviceOperation, Fact, Packet, RequestFact, RequestStep};
use crate::facts::values::Values;
use crate::names::{Name, Names};

/// A sector is 512 bytes, whatever the device's blocks are.
const SECTOR_BYTES: u64 = 512;

/// A step of a request. Those that complete have an error, and bytes only as sectors.
macro_rules! request {
    ($spellings:literal, $step:ident) => {
        class!(
            $spellings,
            [
                device: "dev",
                sector: "sector",
                sectors: "nr_sector",
                bytes: "bytes",
                operation: "rwbs",
                tid: "tid|pid",
                error: "error|errors",
            ],
            |values| {
                let sectors = values.number(sectors)? as u32;
                let request = RequestFact {
                    device: values.number(device)? as u32,
                    sector: values.number(sector)?.cast_unsigned(),
                    sectors,
                    bytes: bytes_of(sectors, values.number(bytes)),
                    operation: match values.number(operation) {
                        Some(flags) => operation_in_bits(flags),
                        None => operation_in_letters(values.text(operation)),
                    },
                    tid: values.id(tid),
                    error: values.id(error).unwrap_or(0),
                };
                Fact::Request(RequestStep::$step, request)
            }
        )
    };
}

/// Of a packet on a network.
fn packet<'f>(values: &Values<'f>, interface: usize, bytes: usize) -> Option<Packet<'f>> {
    Some(Packet {
        interface: values.text(interface),
        bytes: values.number(bytes)? as u32,
    })
}

pub(super) static CLASSES: [Class; 11] = [
    request!("block_rq_insert", Insert),
    request!("block_rq_issue", Issue),
    request!("block_rq_requeue", Requeue),
    request!("block_rq_merge", Merge),
    request!("block_rq_complete", Complete),
    class!("kmem_mm_page_alloc|mm_page_alloc", [order: "order"], |values| Fact::PagesAllocated {
        order: values.number(order)? as u32,
    }),
    class!("kmem_mm_page_free|mm_page_free", [order: "order"], |values| Fact::PagesFreed {
        order: values.number(order)? as u32,
    }),
    class!("net_dev_queue", [interface: "name", bytes: "len"], |values| Fact::PacketQueued(packet(
        values, interface, bytes
    )?)),
    class!("net_dev_xmit", [interface: "name", bytes: "len", result: "rc"], |values| {
        // The device may have had no space for it: then it comes again.
        if values.number(result).is_some_and(|result| result != 0) {
            return None;
        }
        Fact::PacketSent(packet(values, interface, bytes)?)
    }),
    class!(
        "net_if_receive_skb|netif_receive_skb",
        [interface: "name", bytes: "len"],
        |values| Fact::PacketReceived(packet(values, interface, bytes)?)
    ),
    class!("power_cpu_frequency|cpu_frequency", [khz: "state", cpu: "cpu_id"], |values| Fact::Frequency {
        cpu: values.number(cpu)? as u32,
        khz: values.number(khz)? as u32,
    }),
];

/// What is no read or write of sectors may have bytes all the same; and some tracers know sectors only, and say 0 bytes.
fn bytes_of(sectors: u32, bytes: Option<i64>) -> u64 {
    match bytes {
        None | Some(0) => u64::from(sectors) * SECTOR_BYTES,
        Some(bytes) => bytes.cast_unsigned(),
    }
}

/// `rwbs` as viewers of kernel traces know it, a bit for each letter.
fn operation_in_bits(flags: i64) -> DeviceOperation {
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

#[cfg(test)]
mod tests {
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
            assert_eq!(operation_in_bits(flags), expected, "{letters}");
            assert_eq!(operation_in_letters(letters.as_bytes()), expected, "{letters}");
        }
    }

    #[test]
    fn a_request_has_as_many_bytes_as_its_sectors_where_none_are_said() {
        for (sectors, bytes, expected) in [
            (8, Some(0), 4096),
            (8, Some(4096), 4096),
            (0, Some(24), 24),
            (8, None, 4096),
        ] {
            assert_eq!(bytes_of(sectors, bytes), expected, "{sectors} sectors, {bytes:?} bytes");
        }
    }
}
