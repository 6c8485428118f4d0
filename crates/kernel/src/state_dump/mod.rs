// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the machine is like at a moment: processes and threads, what they have open, devices. A trace begins with it, since
//! events tell only what changes.
//!
//! ```text
//!   /proc, /sys  --collect-->  Event (event.rs)  --Packets (packets.rs)-->  CTF records of the stream class STREAM_ID
//! ```
//!
//! - `processes.rs`: processes, threads and their names;
//! - `files.rs`: open files;
//! - `devices.rs`: block devices, network interfaces, interrupts.
//!
//! Nothing is locked: a process that ends while it is looked at is left out, or is there with what was seen of it.

mod devices;
mod event;
mod files;
mod packets;
mod processes;
mod reading;

pub use event::{Block, Event, Execution, File, Interface, Interrupt, Process, Status, Thread, classes};
pub use packets::{Packet, Packets};

/// Number of the state dump's stream class.
pub const STREAM_ID: u32 = 1 << 16;

/// Hands everything that is there to `tell`, with a start and an end. What cannot be read is left out.
///
/// Takes some 50 µs for each process or thread and 10 µs for each open file.
pub fn collect(tell: &mut dyn FnMut(&Event)) {
    tell(&Event::Start);
    devices::collect(tell);
    processes::collect(tell);
    tell(&Event::End);
}

/// Hands everything that is there to `deliver`, as packets of at most `packet_bytes` (a longer record has a packet of its own) behind
/// `header_bytes` of space for a packet header. `now_ticks` is the trace's clock. Ends early when `deliver` returns false.
pub fn dump(
    header_bytes: usize,
    packet_bytes: usize,
    now_ticks: &dyn Fn() -> u64,
    deliver: &mut dyn FnMut(Packet) -> bool,
) {
    let mut packets = Packets::new(header_bytes, packet_bytes);
    let mut wanted = true;
    collect(&mut |event| {
        if wanted && let Some(packet) = packets.add(event, now_ticks()) {
            wanted = deliver(packet);
        }
    });
    if wanted && let Some(packet) = packets.finish() {
        deliver(packet);
    }
}
