// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of threads: a stream with an event for each that the file names, at the begin of the trace. The kernel keeps the last name of a thread;
//! events that tell of others come later.

use piste_ctf::packet::KERNEL_HEADER_BYTES;
use piste_ctf::{Base, Element, EventClass, Field, FieldKind, NO_LEVEL, StreamClass};
use piste_kernel::state_dump::STREAM_ID;

use crate::ImportError;
use crate::folder::{PacketFacts, TraceFolder};

/// The channel's name, as that of Piste's own state dump.
pub(super) const CHANNEL: &str = "statedump";
const PACKET_BYTES: usize = 64 << 10;
/// Bits of a compact header's id, which is 0.
const ID_BITS: u32 = 5;
/// The kernel's have 15.
const NAME_BYTES_MAX: usize = 255;

/// Writes the names of threads.
pub(super) fn write(names: &[(i32, String)], ticks: u64, trace: &mut TraceFolder) -> Result<(), ImportError> {
    if names.is_empty() {
        return Ok(());
    }
    let channel = StreamClass {
        id: STREAM_ID,
        channel: CHANNEL.to_owned(),
        contexts: Vec::new(),
    };
    trace.add_channel(channel.clone());
    trace.add_classes(STREAM_ID, [class()]);
    let mut stream = trace.stream(&channel, 0, 0)?;
    let facts = PacketFacts {
        begin_ticks: ticks,
        end_ticks: ticks,
        discarded: 0,
    };
    let mut packet = vec![0; KERNEL_HEADER_BYTES];
    for (tid, name) in names {
        packet.extend(((ticks as u32) << ID_BITS).to_le_bytes());
        packet.extend(tid.to_le_bytes());
        packet.extend(name.bytes().take(NAME_BYTES_MAX).filter(|byte| *byte != 0));
        packet.push(0);
        if packet.len() > PACKET_BYTES {
            stream.append(&mut packet, facts)?;
            packet = vec![0; KERNEL_HEADER_BYTES];
        }
    }
    if packet.len() > KERNEL_HEADER_BYTES {
        stream.append(&mut packet, facts)?;
    }
    stream.finish()
}

fn class() -> EventClass {
    let (element, base) = (Element::Int32, Base::Decimal);
    let field = |name: &str, kind| Field {
        name: name.to_owned(),
        kind,
    };
    EventClass {
        id: 0,
        name: "piste_statedump_thread_name".to_owned(),
        level: NO_LEVEL,
        contexts: vec![],
        fields: vec![
            field("tid", FieldKind::Scalar { element, base }),
            field("name", FieldKind::String),
        ],
    }
}
