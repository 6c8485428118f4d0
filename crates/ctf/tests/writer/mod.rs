// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes packets as a traced program and the consumer do, and descriptions for them.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]

use piste_ctf::packet::{HEADER_BYTES, Header, UNIT_BYTES};
use piste_ctf::{Base, Clock, Element, EnvironmentValue, EventClass, Field, FieldKind, StreamClass, Trace};

pub const TRACE_UUID: [u8; 16] = *b"\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff";
/// The bytes of the contexts of [`vtid`] and [`cpu_id`], as the writer has them.
const VTID: i32 = 1234;
const CPU_ID: u16 = 3;

pub fn vtid() -> Field {
    context("vtid", Element::Int32)
}

pub fn cpu_id() -> Field {
    context("cpu_id", Element::Uint16)
}

/// Both contexts.
pub fn contexts() -> Vec<Field> {
    vec![vtid(), cpu_id()]
}

fn context(name: &str, element: Element) -> Field {
    Field {
        name: name.to_owned(),
        kind: scalar(element),
    }
}

pub fn trace() -> Trace {
    Trace {
        uuid: TRACE_UUID,
        clock: Clock {
            name: "x86-tsc".to_owned(),
            uuid: *b"boot id, 16 byte",
            frequency_hz: 1_000_000_000,
            offset_seconds: 1_700_000_000,
            offset_ticks: 5,
            description: "the \"time stamp\" counter".to_owned(),
        },
        environment: vec![
            ("domain".to_owned(), EnvironmentValue::Text("ust".to_owned())),
            ("tracer_name".to_owned(), EnvironmentValue::Text("lttng-ust".to_owned())),
            ("tracer_major".to_owned(), EnvironmentValue::Integer(2)),
        ],
    }
}

pub fn stream(id: u32, contexts: &[Field]) -> StreamClass {
    StreamClass {
        id,
        channel: format!("channel{id}"),
        contexts: contexts.to_vec(),
    }
}

pub fn event(id: u32, name: &str, fields: &[(&str, FieldKind)]) -> EventClass {
    let fields = fields
        .iter()
        .map(|(name, kind)| Field {
            name: name.to_string(),
            kind: kind.clone(),
        })
        .collect();
    EventClass {
        id,
        name: name.to_owned(),
        level: 13,
        contexts: vec![],
        fields,
    }
}

pub fn scalar(element: Element) -> FieldKind {
    FieldKind::Scalar {
        element,
        base: Base::Decimal,
    }
}

pub fn hex(element: Element) -> FieldKind {
    FieldKind::Scalar {
        element,
        base: Base::Hex,
    }
}

pub fn array(element: Element, count: u32) -> FieldKind {
    FieldKind::Array {
        element,
        base: Base::Decimal,
        count,
    }
}

pub fn sequence(element: Element) -> FieldKind {
    FieldKind::Sequence {
        element,
        base: Base::Decimal,
    }
}

/// A packet while a program writes it.
pub struct Writer {
    pub packet: Vec<u8>,
    contexts: Vec<u8>,
    begin_ticks: u64,
    end_ticks: u64,
    end: usize,
}

impl Writer {
    pub fn new(contexts: &[Field], begin_ticks: u64) -> Writer {
        let bytes = |field: &Field| match &*field.name {
            "vtid" => VTID.to_le_bytes().to_vec(),
            _ => CPU_ID.to_le_bytes().to_vec(),
        };
        let header = Header {
            timestamp_begin: begin_ticks,
            ..Header::default()
        };
        Writer {
            packet: header.encode().to_vec(),
            contexts: contexts.iter().flat_map(bytes).collect(),
            begin_ticks,
            end_ticks: begin_ticks,
            end: HEADER_BYTES,
        }
    }

    pub fn compact(&mut self, id: u32, ticks: u64, fields: &[u8]) -> &mut Writer {
        assert!(id < 31);
        self.put(&(id | (ticks as u32) << 5).to_le_bytes(), ticks, fields)
    }

    pub fn extended(&mut self, id: u32, ticks: u64, fields: &[u8]) -> &mut Writer {
        self.put(
            &[&[31][..], &id.to_le_bytes(), &ticks.to_le_bytes()].concat(),
            ticks,
            fields,
        )
    }

    /// The packet as the consumer stores it, with this sequence number.
    pub fn finish(&self, stream_id: u32, packet_seq_num: u64, events_discarded: u64) -> Vec<u8> {
        store(
            &self.packet,
            stream_id,
            packet_seq_num,
            events_discarded,
            self.end,
            [self.begin_ticks, self.end_ticks],
        )
    }

    fn put(&mut self, header: &[u8], ticks: u64, fields: &[u8]) -> &mut Writer {
        self.packet.extend(header);
        self.packet.extend(&self.contexts);
        self.packet.extend(fields);
        self.end = self.packet.len();
        self.end_ticks = ticks;
        self.packet.resize(self.packet.len().next_multiple_of(UNIT_BYTES), 0xee);
        self
    }
}

/// `packet`, cut to its content and with a whole header.
pub fn store(
    packet: &[u8],
    stream_id: u32,
    packet_seq_num: u64,
    events_discarded: u64,
    content_bytes: usize,
    [timestamp_begin, timestamp_end]: [u64; 2],
) -> Vec<u8> {
    let packet_bytes = content_bytes.next_multiple_of(UNIT_BYTES);
    let header = Header {
        trace_uuid: TRACE_UUID,
        stream_id,
        stream_instance_id: 7,
        timestamp_begin,
        timestamp_end,
        content_bits: 8 * content_bytes as u64,
        packet_bits: 8 * packet_bytes as u64,
        packet_seq_num,
        events_discarded,
        ring_index: 0,
        vpid: 4321,
        pid: 54321,
        uid: 1000,
    };
    let mut stored = header.encode().to_vec();
    stored.extend(&packet[HEADER_BYTES..packet_bytes]);
    stored
}

/// The bytes of a text or of a sequence of bytes.
pub fn counted(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_le_bytes()[..], bytes].concat()
}
